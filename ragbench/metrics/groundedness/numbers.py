"""Numbers and dates as texts write them, and which of an answer's the context does not hold."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ragbench.generation.citations import without_citations
from ragbench.metrics.groundedness.numerals import Digits, in_digits

_SCALES = {
    "dozen": 12.0,
    "hundred": 100.0,
    "thousand": 1e3,
    "lakh": 1e5,
    "million": 1e6,
    "crore": 1e7,
} | {
    "billion": 1e9,
    "trillion": 1e12,
    "k": 1e3,
    "m": 1e6,
    "mn": 1e6,
    "b": 1e9,
    "bn": 1e9,
    "tn": 1e12,
}
_MONTHS = (
    "january february march april may june july august september october november december"
).split()
_MONTH_OF = {name[:size]: i + 1 for i, name in enumerate(_MONTHS) for size in (3, len(name))} | {
    "sept": 9
}
_UNITS = tomllib.loads(Path(__file__).with_name("units.toml").read_text(encoding="utf-8"))
# spelling -> what it measures, how many of the first unit of that kind
_MEASURE_OF = {
    spelling: (kind, float(factor))
    for kind, units in _UNITS.items()
    for factor, spellings in units.items()
    for spelling in spellings
}
_BINARY = {
    spelling: 1.024**power for power in range(1, 6) for spelling in _UNITS["data"][str(1000**power)]
}

_NUMERAL = (
    r"(?:(?:\d+ )?\d+/[1-9]\d*(?![/\d])"  # 3/4, 1 1/2
    r"|(?:\d+(?:\.\d+)?\s?[x×*·]\s?)?10\^-?\d{1,2}\b|\d+(?:\.\d+)?e[+-]?\d{1,2}\b"  # 3 x 10^6, 1e6
    r"|\d{1,3}(?:[, ]\d{3})+(?!\d)(?:\.\d+)?|\d+,\d{1,2}(?![,\d])|\d+(?:\.\d+)?|\.\d+)"
)
_SCALE = r"(?:dozen|hundred|thousand|lakh|million|crore|billion|trillion)"
_MONTH = rf"(?:{'|'.join(sorted(_MONTH_OF, key=len, reverse=True))})\b\.?"
_UNIT = "|".join(
    sorted((re.escape(u) for u in _MEASURE_OF if u[0].isalpha()), key=len, reverse=True)
)
_HEDGE = (
    r"(?P<hedge>\b(?:about|around|approximately|approx\.?|roughly|nearly|almost|some|circa|ca\.|c\.|close to|over|"
    r"more than|at least|less than|fewer than|under|up to|an estimated|estimated at)\s+|[~≈]\s?)?"
)
_DATE = re.compile(
    rf"\b(?:(?P<y1>\d{{4}})-(?P<m1>\d{{2}})-(?P<d1>\d{{2}}))\b"
    rf"|\b(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?\s+(?P<m2>{_MONTH})(?:,?\s+(?P<y2>\d{{4}})\b)?"
    rf"|\b(?P<m3>{_MONTH})\s+(?P<d3>\d{{1,2}})(?:st|nd|rd|th)?\b(?:\s*,?\s+(?P<y3>\d{{4}})\b)?"
    rf"|\b(?P<m4>{_MONTH})(?:\s+of)?,?\s+(?P<y4>\d{{4}})\b"
    rf"|\b(?P<a>\d{{1,2}})[/.](?P<b>\d{{1,2}})[/.](?P<y5>\d{{4}})\b",
    re.IGNORECASE,
)
_AMOUNT = re.compile(
    rf"{_HEDGE}(?P<currency>[$€£]\s?)?(?:(?<![\w.,/])|(?<=\b[vV]))"
    rf"(?P<sign>(?<!\w)[-\u2212]|\b(?:minus|negative)\s)?(?P<numeral>{_NUMERAL})(?P<ordinal>st\b|nd\b|rd\b|th\b)?"
    rf"(?P<decade>'?s\b)?(?P<scales>(?:[\s-]+{_SCALE}s?\b)+|(?:k|bn|mn|tn)\b|(?-i:[MB])\b)?"
    rf"(?:[\s-]?(?P<unit>[%‰¢]|(?:percentage points|basis points?|per cent|per "
    rf"mille|percent|{_UNIT}|usd|eur|gbp)\b))?",
    re.IGNORECASE,
)
_CLOCK = re.compile(
    r"\b(?P<hour>[01]?\d|2[0-4]):(?P<minute>[0-5]\d)(?::[0-5]\d)?(?![:\d])(?:\s?(?P<half>[ap])\.?m\b\.?)?"
    r"|\b(?P<hour2>1[0-2]|[1-9])\s?(?P<half2>[ap])\.?m\b\.?|\b(?P<hour3>1[0-2]|[1-9])\s?o['’]clock\b"
    r"|\b(?P<part>half|(?:a\s)?quarter|\d{1,2}\sminutes?)\s(?P<side>past|to)\s(?P<hour4>1[0-2]|[1-9])\b"
    r"|(?:\b12\s)?\b(?P<named>noon|midnight)\b",
    re.IGNORECASE,
)
_OUT_OF = re.compile(r"\s(?:in|out of|of)(?:\s(?:every|the|its|their|all))?\s", re.IGNORECASE)
_AND = re.compile(r",?\s(?:and\s)?")
_CENTURY = re.compile(r"[\s-]+(?:century|centuries|cent\.)", re.IGNORECASE)
# what holds a number without being one that is checked
_COUNTS = {
    1: "once single",
    2: "twice both pair couple double doubled doubles twins duo",
    3: "thrice trio triple tripled",
}
_COUNT_OF = {word: value for value, counting in _COUNTS.items() for word in counting.split()}
_COUNTING = re.compile(rf"\b(?:{'|'.join(_COUNT_OF)})\b", re.IGNORECASE)
_LONG_UNITS = frozenset(unit for unit in _MEASURE_OF if len(unit) > 3 and unit.isalpha())
_LONE_UNIT = re.compile(
    rf"\b(?:an?|per|each|every|one)[\s-](?P<unit>{'|'.join(sorted(_LONG_UNITS))})\b", re.IGNORECASE
)
_LETTERS = re.compile(r"[a-z]+")
_DIGIT = re.compile(r"\d")
_NAMED_TIMES = frozenset({"noon", "midnight"})
_TIMES = _NAMED_TIMES | {"am", "pm", "m", "clock", "past", "to"}
_ROMAN = re.compile(
    r"\b(?:(?=[IVX]{2})X{0,3}(?:IX|IV|V?I{0,3})(?<=[IVX])"
    r"|(?<=[Ww]ar )I|(?:(?<=[Tt]ype )|(?<=[Pp]art )|(?<=[Pp]hase )|(?<=[Ss]tage )|(?<=[Cc]hapter "
    r"))[IVX])\b"
)
_SHORT_YEAR = re.compile(r"\b(?P<century>1\d|20)\d\d[-–/](?P<year>\d\d)\b")
_NUMBERING = re.compile(
    r"^[ \t]*(?:[-*]\s+)?(?:step\s+)?\(?\d{1,3}[.):](?=\s)", re.MULTILINE | re.IGNORECASE
)
_INLINE = re.compile(r"(?<![\w(])\(?(\d{1,2})\)(?=\s)")
_RANGE = re.compile(r"(?<=\d)\s?(?:[-–—]|\bto\b)\s?(?=[$€£]?\d)")
_LABEL = re.compile(
    r"(?<=[A-Za-z])(?<!\d[eE])(?<!\b[vV])[-_]?\d[\w.-]*|\b[vV]?\d+(?:\.\d+){2,}\b"
)  # "B2", "covid-19", "3.11.2" are names
# "Python 3.10", "version 3.10", "v3.10", "added in 3.10", ">=3.10", "Table 3.10": not 3.1
_NAME_BEFORE = re.compile(
    r"(?:\b(?:[A-Z][\w+#]*|(?:[vV]ersion|[rR]elease|[sS]ection|[cC]hapter|level)s?|[sS]ince"
    r"|(?:[aA]dded|[cC]hanged|[nN]ew|removed|deprecated) in)[ -]"
    r"|[<>=~]=\s?|\b[vV]\.?\s?)$"
)
_LOWER = frozenset({"over", "more than", "at least"})
_UPPER = {
    "less than": 0.5,
    "fewer than": 0.5,
    "under": 0.5,
    "up to": 0.5,
    "nearly": 0.9,
    "almost": 0.9,
}


@dataclass(frozen=True, slots=True)
class Number:
    """A number or date of a text, its place there, and what it is.

    `value` is in the first unit of its kind (metres, grams, litres, seconds, months, per cent,
    minutes of the day ...), `bare` as it is written; `kind` is "date", "clock", what the unit
    measures, or "" without a unit. A fraction without a unit ("two thirds", "1 in 4") has the kind
    "share". The value of a date is 0: its `date` is (year, month, day), 0 where it does not specify
    one. `hedge` is the word before it that makes it rough, such as "about".

    `years` are the first and last year that "the 1990s" or "19th century" covers, else (0, 0).
    `parts` are the numbers of a compound, which are not listed by themselves: 1 and 4 of "1 in 4",
    1 hour and 30 minutes. `checked` is False for what confirms a number of another text but is too
    often idle to be checked itself: "one", "first", "a year". `version` is a decimal number as
    written where it follows a name or a word such as "version", else "".
    """

    text: str
    start: int
    end: int
    value: float
    kind: str = ""
    date: tuple[int, int, int] = (0, 0, 0)
    hedge: str = ""
    bare: float = 0.0
    years: tuple[int, int] = (0, 0)
    parts: tuple[Number, ...] = ()
    checked: bool = True
    version: str = ""


def numbers(text: str) -> list[Number]:
    """Return the numbers and dates of a text, in their order.

    Read are digits with thousands separators and decimals (also "1,5", "1e6", "3 x 10^6"), per
    cent, units, scales ("3.5 million", "4k"), numbers in words ("twenty-five", "two million", "a
    dozen", "nineteenth"), fractions ("2/3", "two thirds", "half of", "1 in 4"), dates (1 May 1889,
    May 1, 1889, 1889-05-01, May 1889; of 1/5/1889 both readings count), times of day ("12:30",
    "half past twelve", "3 pm") and both ends of a range. Not numbers of the text are marks of
    citations ("[2]"), the numbering of lists, names with digits ("B2", "COVID-19", "3.11.2"), and
    in words "one", "zero", "first", "second" and "third", which seldom count.

    >>> [(n.text, n.value, n.kind) for n in numbers("About 2,500 people [3] paid $1.5 million in twenty-five days.")]
    [('About 2,500', 2500.0, ''), ('$1.5 million', 1500000.0, 'dollars'), ('twenty-five days', 2160000.0, 'time')]
    >>> [n.date for n in numbers("It opened on 31 March 1889, and again in May 1946.")]
    [(1889, 3, 31), (1946, 5, 0)]
    """
    return [number for number in _numbers(text) if number.checked]


@lru_cache(maxsize=20_000)
def _numbers(text: str) -> tuple[Number, ...]:
    """Return those of `numbers`, and those that are not checked."""
    bare = _blank(_NUMBERING, without_citations(text))
    if _INLINE.findall(bare)[:2] == ["1", "2"]:
        bare = _blank(_INLINE, bare)
    plain = in_digits(bare)
    letters = set(_LETTERS.findall(plain.text.lower()))
    found: list[Number] = []
    if _DIGIT.search(plain.text):
        found = _with_digits(plain, letters, text)
    elif letters & _NAMED_TIMES:
        found = [number for match in _CLOCK.finditer(plain.text) for number in _times(match, plain)]
    if letters & _COUNT_OF.keys():
        counts = ((match, _COUNT_OF[match[0].lower()]) for match in _COUNTING.finditer(plain.text))
        found += [
            _placed(match, plain, float(value), bare=float(value), checked=False)
            for match, value in counts
        ]
    if letters & _LONG_UNITS:
        for match in _LONE_UNIT.finditer(plain.text):
            kind, factor = _MEASURE_OF[match["unit"].lower()]
            found.append(_placed(match, plain, factor, kind, bare=1.0, checked=False))
    for match in _ROMAN.finditer(plain.text):
        value = float(_roman(match[0]))
        found.append(_placed(match, plain, value, bare=value, checked=False))
    return tuple(sorted(found, key=lambda number: (number.start, number.date)))


def _with_digits(plain: Digits, letters: set[str], text: str) -> list[Number]:
    """Return dates, times and amounts of a text that has digits."""
    found: list[Number] = []
    line = plain.text
    for match in _DATE.finditer(line):
        found += [
            _placed(match, plain, 0.0, "date", date=date) for date in _dates(match.groupdict())
        ]
    line = _blank(_DATE, line) if found else line
    if ":" in line or letters & _TIMES:
        for match in _CLOCK.finditer(line):
            found += _times(match, plain)
        line = _blank(_CLOCK, line)
    for match in _SHORT_YEAR.finditer(line):
        year = float(match["century"] + match["year"])
        found.append(_placed(match, plain, year, bare=year, checked=False))
    # the sign between the ends of a range is not a minus, and not a space: "570 576" would be one
    # number
    line = _RANGE.sub(lambda gap: ";" * len(gap[0]), _blank(_LABEL, line))
    amounts = [
        (match, number)
        for match in _AMOUNT.finditer(line)
        if (number := _amount(match, plain, line)) is not None
    ]
    return [*found, *_compounds(amounts, line, text)]


def numeric_fabrications(answer: str, contexts: Sequence[str]) -> list[Number]:
    """Return the numbers and dates of the answer that none of the contexts holds, in their order.

    A number is held by one of equal value and a unit of the same kind, in any notation ("25 %" is
    "twenty-five percent", "a quarter", "0.25" and "1 in 4"; "1.5 km" is "1,500 m"); a unit that one
    of both leaves out is not a difference, but per cent is, except between a fraction and a number
    below 1. A megabyte has 1,000 or 1,024 kilobytes. "3.1" and "3.10" differ where both follow a
    name or a word such as "version". A percentage holds the fraction that it is rounded from ("33
    %", "a third"). After a word such as "about" 5 % more or less will do; after "over" or "at
    least" a larger number of up to twice the value, after "under" or "up to" a smaller one of half
    at least, and after "nearly" or "almost" one of 90 % at least.

    A date is held by one that agrees as far as it goes; a year also by the bare number, a decade or
    century by any year in it (a year is not held by its decade). A time of day is held by the same
    time, with am or pm where both specify it. "1 in 4" is held also where both its numbers are.

    >>> [n.text for n in numeric_fabrications("2,987 came in 1889, 12% of them by rail.", ["In May 1889, 2987 came."])]
    ['12%']
    >>> numeric_fabrications("About 3,000 came, two thirds by rail.", ["2,987 visitors came, 67 % of them by rail."])
    []
    >>> [n.text for n in numeric_fabrications("3,000 came.", ["2,987 visitors came."])]
    ['3,000']
    """
    readings: dict[tuple[int, int], list[Number]] = {}
    for number in numbers(answer):
        readings.setdefault((number.start, number.end), []).append(number)
    known = _known(tuple(contexts)) if readings else ()
    return [
        same[0] for same in readings.values() if not any(_held(number, known) for number in same)
    ]


def numeric_support(answer: str, contexts: Sequence[str]) -> float:
    """Return the fraction of the answer's numbers and dates that the contexts hold, in [0, 1]; NaN
    where it has none.

    It is 1 - |`numeric_fabrications`| / |numbers|. A number that the answer repeats counts each
    time.

    >>> numeric_support("2,987 came in 1889, 12% by rail, for 3 days.", ["In May 1889, 2987 came for three days."])
    0.75
    """
    places = {(number.start, number.end) for number in numbers(answer)}
    return 1 - len(numeric_fabrications(answer, contexts)) / len(places) if places else float("nan")


@lru_cache(maxsize=256)
def _known(contexts: tuple[str, ...]) -> tuple[Number, ...]:
    """Return the numbers of the contexts, compounds and their parts, each once."""
    found = [number for context in contexts for number in _numbers(context)]
    found += [part for number in found for part in number.parts]
    return tuple({(n.value, n.kind, n.date, n.bare, n.years, n.version): n for n in found}.values())


def _held(claimed: Number, known: Sequence[Number]) -> bool:
    if not claimed.checked or any(_holds(other, claimed) for other in known):
        return True
    return bool(claimed.parts) and all(_held(part, known) for part in claimed.parts)


def _holds(known: Number, claimed: Number) -> bool:
    if claimed.version and known.version and claimed.version != known.version:
        return False
    if claimed.years[1] and _within(known, *claimed.years):
        return True
    if claimed.kind == "date":
        if known.kind == "date":
            return all(a in (0, b) for a, b in zip(claimed.date, known.date, strict=True))
        return claimed.date[1:] == (0, 0) and known.value == claimed.date[0]
    if known.kind == "date":
        return (
            claimed.kind == ""
            and claimed.value != 0
            and claimed.value in (known.date[0], known.date[2])
        )
    if known.kind != claimed.kind:
        if {known.kind, claimed.kind} == {"share", ""}:
            return _same_fraction(known, claimed)
        if {"share", "clock"} & {known.kind, claimed.kind} or (known.kind and claimed.kind):
            return False
    elif claimed.kind == "hour":  # 3 am is not 3 pm
        return False
    elif claimed.kind == "share" and _same_fraction(known, claimed):
        return True
    there, here = (
        (known.value, claimed.value) if known.kind == claimed.kind else (known.bare, claimed.bare)
    )
    if abs(there - here) <= 1e-9 * max(abs(there), abs(here)):
        return True
    if not claimed.hedge:
        return False
    if claimed.hedge in _LOWER:
        return here <= there <= 2 * here
    if claimed.hedge in _UPPER and _UPPER[claimed.hedge] * here <= there <= here:
        return True
    return abs(there - here) <= 0.05 * abs(there)


def _within(known: Number, first: int, last: int) -> bool:
    """Return True if a year, decade or century lies in these years (a century begins in 1800 or
    1801).
    """
    if known.years[1]:
        return first - 1 <= known.years[0] and known.years[1] <= last + 1
    if known.kind == "date":
        return first <= known.date[0] <= last
    return known.kind == "" and first <= known.value <= last and known.value >= 100


def _same_fraction(one: Number, other: Number) -> bool:
    """Whether both are the same part of a whole; a decimal or percentage may be cut or rounded from
    a fraction.
    """
    a, b = (
        number.value / 100 if number.kind == "share" else number.bare for number in (one, other)
    )
    if one.kind != other.kind and not 0 < max(a, b) < 1:
        return False  # 100 % is not "one", and 150 % not 1.5
    if abs(a - b) <= 1e-9 or _is_fraction(one) == _is_fraction(other):
        return abs(a - b) <= 1e-9
    (part, _), (_, written) = (
        ((a, one), (b, other)) if _is_fraction(one) else ((b, other), (a, one))
    )
    decimals = len(str(written.bare).partition(".")[2].rstrip("0"))
    shown, places = (part * 100, decimals) if written.kind == "share" else (part, max(decimals, 2))
    return written.bare in (round(shown, places), math.floor(shown * 10**places) / 10**places)


def _is_fraction(number: Number) -> bool:
    """Return True if it was written as a fraction ("2/3"), not in per cent."""
    return number.kind == "share" and math.isclose(number.value, 100 * number.bare)


def _amount(match: re.Match[str], plain: Digits, line: str) -> Number | None:
    part = match.groupdict()
    value, parts = _numeral(part["numeral"])
    if not math.isfinite(value):
        return None
    value *= _scale((part["scales"] or "").lower())
    value = -value if part["sign"] else value
    unit = (part["unit"] or part["currency"] or "").strip().lower()
    if part["currency"] and unit == "m":  # "$10m" is money, not metres
        value, unit = value * _SCALES["m"], part["currency"].strip()
    kind, factor = _MEASURE_OF.get(unit, ("", 1.0))
    if "/" in part["numeral"] and value < 1 and not unit:
        kind, factor = "share", 100.0
    spoken = plain.spoken[match.start("numeral")]
    before = line[max(0, match.start("numeral") - 40) : match.start("numeral")]
    named = (
        "." in part["numeral"]
        and not (unit or part["scales"] or part["hedge"])
        and _NAME_BEFORE.search(before)
    )
    pieces = [Number(part["numeral"], *plain.place(match), each, bare=each) for each in parts]
    if unit in _BINARY:  # 1,000 or 1,024: held where either reading is
        pieces = [
            Number(
                part["numeral"],
                *plain.place(match),
                value * factor * _BINARY[unit],
                kind,
                bare=value,
            )
        ]
    idle = spoken and (value <= 3 if part["ordinal"] else value in (0, 1) and not unit)
    return _placed(
        match,
        plain,
        value * factor,
        kind,
        hedge=(part["hedge"] or "").strip().lower(),
        bare=value,
        years=_years(value, part, line[match.end() :]),
        parts=tuple(pieces),
        checked=not idle,
        version=part["numeral"] if named else "",
    )


def _numeral(text: str) -> tuple[float, list[float]]:
    """Return the value of a numeral, and the numbers that it may have to be taken apart into: 3 and
    4 of "3/4".
    """
    if "/" in text:
        *whole, fraction = text.split()
        above, below = map(float, fraction.split("/"))
        return sum(map(float, whole)) + above / below, [] if whole else [above, below]
    if "^" in text:
        times, _, power = re.sub(r"[\s×*·]", "x", text).rpartition("10^")
        return float(times.strip("x") or 1) * 10.0 ** int(power), []
    if re.fullmatch(r"\d+,\d{1,2}", text):  # a decimal comma, or two numbers
        return float(text.replace(",", ".")), [float(each) for each in text.split(",")]
    return float(re.sub(r"[, ]", "", text)), []


def _scale(scales: str) -> float:
    product = 1.0
    for word in re.findall(r"[a-z]+", scales):
        product *= _SCALES.get(word.removesuffix("s") if len(word) > 2 else word, 1.0)
    return product


def _years(value: float, part: dict[str, str | None], after: str) -> tuple[int, int]:
    """Return the years of "1990s", "the 90s", "1800s" and "19th century"; else (0, 0)."""
    if part["ordinal"] and _CENTURY.match(after) and 1 <= value <= 21:
        return int(value - 1) * 100, int(value) * 100
    if part["decade"] and value % 10 == 0:
        first = int(value) + (1900 if 20 <= value <= 90 else 0)
        return (first, first + (99 if first % 100 == 0 else 9)) if 1000 <= first <= 2090 else (0, 0)
    return 0, 0


def _compounds(
    amounts: Sequence[tuple[re.Match[str], Number]], line: str, text: str
) -> list[Number]:
    """Return the amounts, where "1 in 4" and "2 hours 30 minutes" are one each."""
    found: list[Number] = []
    last: re.Match[str] | None = None  # where a number ends that may continue
    for match, number in amounts:
        gap = line[last.end() : match.start()] if last else ""
        joined = _joined(found[-1], number, gap) if last else None
        if joined:
            value, kind, bare = joined
            first = found.pop()
            whole, checked = text[first.start : number.end].strip(), first.checked or number.checked
            own = replace(
                first, text=whole, end=number.end, value=value, kind=kind, bare=bare, years=(0, 0)
            )
            found.append(replace(own, parts=(first, number), checked=checked))
        else:
            found.append(number)
        last = None if joined else match
    return found


def _joined(one: Number, two: Number, gap: str) -> tuple[float, str, float] | None:
    """Return (value, kind, bare) of two numbers that make one, else None."""
    if (
        one.kind == two.kind == ""
        and _OUT_OF.fullmatch(gap)
        and not two.hedge
        and 0 < one.bare <= two.bare
    ):
        whole = (
            one.bare.is_integer() and two.bare.is_integer() and not 1000 < two.bare < 2100
        )  # a year
        return (100 * one.bare / two.bare, "share", one.bare / two.bare) if whole else None
    if (
        one.kind == two.kind
        and one.kind in {"time", "length", "mass", "months"}
        and _AND.fullmatch(gap)
    ):
        ratio = (one.value / one.bare) / (two.value / two.bare) if one.bare and two.bare else 0
        return (
            (one.value + two.value, one.kind, one.bare + two.bare / ratio)
            if ratio > 1 and not two.hedge
            else None
        )
    return None


def _times(match: re.Match[str], plain: Digits) -> list[Number]:
    """Return the readings of a time of day, in minutes: both where am or pm is left open."""
    part = match.groupdict()
    half = (part["half"] or part["half2"] or "").lower()
    hour = int(part["hour"] or part["hour2"] or part["hour3"] or part["hour4"] or 0)
    minute = int(part["minute"] or 0)
    if part["side"]:
        away = {"h": 30, "a": 15, "q": 15}.get(part["part"][0].lower()) or int(
            part["part"].split()[0]
        )
        minute = away if part["side"].lower() == "past" else -away
    if part["named"]:
        readings = [720 if part["named"].lower() == "noon" else 0]
    elif half:
        readings = [(hour % 12 + (12 if half == "p" else 0)) * 60 + minute]
    elif 1 <= hour <= 12 and not (part["hour"] or "").startswith("0"):
        readings = [hour % 12 * 60 + minute, (hour % 12 + 12) * 60 + minute]
    else:
        readings = [hour * 60 + minute]
    parts = (
        (Number(str(hour), *plain.place(match), float(hour), "hour", bare=float(hour)),)
        if minute == 0 and hour
        else ()
    )
    return [
        _placed(match, plain, float(each % 1440), "clock", bare=-1.0, parts=parts)
        for each in readings
    ]


def _roman(text: str) -> int:
    values = [{"I": 1, "V": 5, "X": 10}[sign] for sign in text]
    return sum(-a if a < b else a for a, b in zip(values, [*values[1:], 0], strict=True))


def _placed(
    match: re.Match[str], plain: Digits, value: float, kind: str = "", **more: Any
) -> Number:
    start, end = plain.place(match)
    return Number(plain.source[start:end].strip(), start, end, value, kind, **more)


def _dates(part: dict[str, str | None]) -> list[tuple[int, int, int]]:
    """Return the readings of a date: both orders of day and month where it has two numbers."""
    for number in "1234":
        if month := part[f"m{number}"]:
            year, day = (int(part.get(f"{unit}{number}") or 0) for unit in "yd")
            return [
                (year, int(month) if month.isdigit() else _MONTH_OF[month.lower().rstrip(".")], day)
            ]
    year, a, b = (int(part[name] or 0) for name in ("y5", "a", "b"))
    return sorted({date for date in ((year, b, a), (year, a, b)) if date[1] <= 12})


def _blank(pattern: re.Pattern[str], text: str) -> str:
    """Return the text with what matches made blank, so that places stay."""
    return pattern.sub(lambda match: " " * len(match[0]), text)
