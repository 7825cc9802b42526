"""Numbers and dates as texts write them, and which of an answer's the context does not hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ragbench.metrics.groundedness.citations import without_citations

_SMALL = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_UNITS_IN_WORDS = {word: value for value, word in enumerate(_SMALL)} | {
    word: 10 * (position + 2) for position, word in enumerate(_TENS)
}
_SCALES = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
    "trillion": 1e12,
    "k": 1e3,
    "m": 1e6,
    "mn": 1e6,
    "bn": 1e9,
}
_MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_MONTH_OF = {name[:size]: i + 1 for i, name in enumerate(_MONTHS) for size in (3, len(name))} | {"sept": 9}
# unit -> (what it measures, how many of the first unit of that kind)
_MEASURES = {
    "percent": ("share", ("%", "percent", "per cent", "percentage points"), 1.0),
    "metre": ("length", ("m", "metre", "metres", "meter", "meters"), 1.0),
    "kilometre": ("length", ("km", "kilometre", "kilometres", "kilometer", "kilometers"), 1000.0),
    "centimetre": ("length", ("cm", "centimetre", "centimetres", "centimeter", "centimeters"), 0.01),
    "millimetre": ("length", ("mm", "millimetre", "millimetres", "millimeter", "millimeters"), 0.001),
    "mile": ("miles", ("mile", "miles", "mi"), 1.0),
    "foot": ("feet", ("ft", "foot", "feet"), 1.0),
    "gram": ("mass", ("g", "gram", "grams", "gramme", "grammes"), 1.0),
    "kilogram": ("mass", ("kg", "kilogram", "kilograms", "kilo", "kilos"), 1000.0),
    "milligram": ("mass", ("mg", "milligram", "milligrams"), 0.001),
    "tonne": ("mass", ("t", "tonne", "tonnes"), 1e6),
    "pound": ("pounds", ("lb", "lbs"), 1.0),
    "litre": ("volume", ("l", "litre", "litres", "liter", "liters"), 1.0),
    "millilitre": ("volume", ("ml", "millilitre", "millilitres", "milliliter", "milliliters"), 0.001),
    "second": ("time", ("s", "sec", "second", "seconds"), 1.0),
    "millisecond": ("time", ("ms", "millisecond", "milliseconds"), 0.001),
    "minute": ("time", ("min", "minute", "minutes"), 60.0),
    "hour": ("time", ("h", "hour", "hours"), 3600.0),
    "day": ("time", ("day", "days"), 86400.0),
    "week": ("time", ("week", "weeks"), 604800.0),
    "month": ("months", ("month", "months"), 1.0),
    "year": ("months", ("year", "years"), 12.0),
    "dollar": ("dollars", ("$", "usd", "dollar", "dollars"), 1.0),
    "euro": ("euros", ("€", "eur", "euro", "euros"), 1.0),
    "sterling": ("sterling", ("£", "gbp"), 1.0),
}
_MEASURE_OF = {spelling: (kind, factor) for kind, spellings, factor in _MEASURES.values() for spelling in spellings}

_NUMERAL = r"(?:\d{1,3}(?:[, ]\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?)"
_IN_WORDS = (
    rf"(?:(?:{'|'.join([*_TENS, *sorted(_SMALL, key=len, reverse=True)])})"
    rf"(?:(?:[- ]|\sand\s)(?:{'|'.join([*_TENS, *sorted(_SMALL, key=len, reverse=True)])})\b)*)"
)
_SCALE = r"(?:dozen|hundred|thousand|million|billion|trillion)"
_MONTH = rf"(?:{'|'.join(sorted(_MONTH_OF, key=len, reverse=True))})\b\.?"
_UNIT = "|".join(sorted((re.escape(u) for u in _MEASURE_OF if u[0].isalpha()), key=len, reverse=True))
_HEDGE = (
    r"(?P<hedge>\b(?:about|around|approximately|approx\.?|roughly|nearly|almost|some|circa|ca\.|c\.|close to|over|"
    r"more than|at least|less than|fewer than|under|up to|an estimated|estimated at)\s+|[~≈]\s?)?"
)
_DATE = re.compile(
    rf"\b(?P<iso>(?P<y1>\d{{4}})-(?P<m1>\d{{2}})-(?P<d1>\d{{2}}))\b"
    rf"|\b(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?\s+(?P<m2>{_MONTH})(?:,?\s+(?P<y2>\d{{4}})\b)?"
    rf"|\b(?P<m3>{_MONTH})\s+(?P<d3>\d{{1,2}})(?:st|nd|rd|th)?\b(?:\s*,?\s+(?P<y3>\d{{4}})\b)?"
    rf"|\b(?P<m4>{_MONTH})(?:\s+of)?,?\s+(?P<y4>\d{{4}})\b"
    rf"|\b(?P<a>\d{{1,2}})[/.](?P<b>\d{{1,2}})[/.](?P<y5>\d{{4}})\b",
    re.IGNORECASE,
)
_AMOUNT = re.compile(
    rf"{_HEDGE}(?P<currency>[$€£]\s?)?(?<![\w.,])"
    rf"(?:(?P<sign>(?<!\w)[-\u2212])?(?P<numeral>{_NUMERAL})(?:st|nd|rd|th)?(?:s\b)?"
    rf"|(?P<words>\b{_IN_WORDS}\b)|(?P<article>\b(?:a|an|half a)(?=\s{_SCALE}\b)))"
    rf"(?P<scales>(?:[\s-]+(?:and\s)?(?:{_SCALE}s?|{_IN_WORDS})\b)+|(?:k|bn|mn)\b)?"
    rf"(?:[\s-]?(?P<unit>%|(?:percentage points|per cent|percent|{_UNIT}|usd|eur|gbp)\b))?",
    re.IGNORECASE,
)
_NUMBERING = re.compile(r"^[ \t]*(?:[-*]\s+)?(?:step\s+)?\(?\d{1,3}[.):](?=\s)", re.MULTILINE | re.IGNORECASE)
_RANGE = re.compile(r"(?<=\d)\s?(?:[-–—]|\bto\b)\s?(?=[$€£]?\d)")
_LABEL = re.compile(r"(?<=[A-Za-z])[-_]?\d[\w.-]*|\b\d+(?:\.\d+){2,}\b")  # "B2", "covid-19", "3.11.2" are names
_LOWER = frozenset({"over", "more than", "at least"})
_UPPER = frozenset({"less than", "fewer than", "under", "up to", "nearly", "almost"})


@dataclass(frozen=True, slots=True)
class Number:
    """A number or date of a text, where it stands, and what it is.

    `value` is in the first unit of its kind (metres, grams, litres, seconds, months, per cent ...), `bare` as it is
    written; `kind` is "date", what the unit measures, or "" without a unit. The value of a date is 0: its `date` is
    (year, month, day), 0 where it does not say. `hedge` is the word before it that makes it rough, such as "about".
    """

    text: str
    start: int
    end: int
    value: float
    kind: str = ""
    date: tuple[int, int, int] = (0, 0, 0)
    hedge: str = ""
    bare: float = 0.0


def numbers(text: str) -> list[Number]:
    """The numbers and dates of a text, in their order.

    Read are digits with thousands separators and decimals, per cent, units, scales ("3.5 million", "4k"), numbers in
    words ("twenty-five", "two million", "a dozen"), dates (1 May 1889, May 1, 1889, 1889-05-01, May 1889; of 1/5/1889
    both readings count) and both ends of a range. Not numbers of the text are marks of citations ("[2]"), the numbering
    of lists, names with digits ("B2", "COVID-19", "3.11.2"), and "one" or "zero" in words, which seldom count.

    >>> [(n.text, n.value, n.kind) for n in numbers("About 2,500 people [3] paid $1.5 million in twenty-five days.")]
    [('About 2,500', 2500.0, ''), ('$1.5 million', 1500000.0, 'dollars'), ('twenty-five days', 2160000.0, 'time')]
    >>> [n.date for n in numbers("It opened on 31 March 1889, and again in May 1946.")]
    [(1889, 3, 31), (1946, 5, 0)]
    """
    return list(_numbers(text))


@lru_cache(maxsize=20_000)
def _numbers(text: str) -> tuple[Number, ...]:
    plain = _blank(_NUMBERING, without_citations(text))
    found: list[Number] = []
    for match in _DATE.finditer(plain):
        found += [
            Number(match.group(), match.start(), match.end(), 0.0, "date", date) for date in _dates(match.groupdict())
        ]
    plain = _blank(_LABEL, _blank(_DATE, plain))
    # the sign between the ends of a range is no minus
    plain = _RANGE.sub(lambda gap: " " * len(gap.group()), plain)
    for match in _AMOUNT.finditer(plain):
        number = _amount(match)
        if number is not None:
            found.append(number)
    return tuple(sorted(found, key=lambda number: (number.start, number.date)))


def numeric_fabrications(answer: str, contexts: Sequence[str]) -> list[Number]:
    """The numbers and dates of the answer that none of the contexts holds, in their order.

    A number is held where a number of equal value and a unit of the same kind stands, whatever the notation ("25 %" is
    "twenty-five percent", "1.5 km" is "1,500 m"); a unit that one of both leaves out is no difference, but per cent is.
    After a word such as "about" or "nearly" 5 % more or less will do; after "over" or "at least" a larger number of up
    to twice the value, after "under" or "up to" a smaller one of half at least. A date is held by a date that says the
    same as far as it goes; a year also by the bare number.

    >>> [n.text for n in numeric_fabrications("2,987 came in 1889, 12% of them by rail.", ["In May 1889, 2987 came."])]
    ['12%']
    >>> numeric_fabrications("About 3,000 came.", ["2,987 visitors came."])
    []
    >>> [n.text for n in numeric_fabrications("3,000 came.", ["2,987 visitors came."])]
    ['3,000']
    """
    known = [number for context in contexts for number in _numbers(context)]
    fabricated: list[Number] = []
    readings: dict[tuple[int, int], list[Number]] = {}
    for number in _numbers(answer):
        readings.setdefault((number.start, number.end), []).append(number)
    for same_place in readings.values():
        if not any(_holds(other, number) for number in same_place for other in known):
            fabricated.append(same_place[0])
    return fabricated


def numeric_support(answer: str, contexts: Sequence[str]) -> float:
    """The share of the answer's numbers and dates that the contexts hold, in [0, 1]; NaN where it has none.

    It is 1 - |`numeric_fabrications`| / |numbers|. A number that the answer repeats counts each time.

    >>> numeric_support("2,987 came in 1889, 12% by rail, for 3 days.", ["In May 1889, 2987 came for three days."])
    0.75
    """
    places = {(number.start, number.end) for number in _numbers(answer)}
    return 1 - len(numeric_fabrications(answer, contexts)) / len(places) if places else float("nan")


def _holds(known: Number, said: Number) -> bool:
    if said.kind == "date":
        if known.kind == "date":
            return all(a in (0, b) for a, b in zip(said.date, known.date, strict=True))
        return said.date[1:] == (0, 0) and known.value == said.date[0]
    if known.kind == "date":
        return said.kind == "" and said.value != 0 and said.value in (known.date[0], known.date[2])
    if known.kind != said.kind and (("share" in (known.kind, said.kind)) or (known.kind and said.kind)):
        return False
    there, here = (known.value, said.value) if known.kind == said.kind else (known.bare, said.bare)
    if abs(there - here) <= 1e-9 * max(abs(there), abs(here)):
        return True
    if not said.hedge:
        return False
    if said.hedge in _LOWER:
        return here <= there <= 2 * here
    if said.hedge in _UPPER and 0.5 * here <= there <= here:
        return True
    return abs(there - here) <= 0.05 * abs(there)


def _amount(match: re.Match[str]) -> Number | None:
    part = match.groupdict()
    scales = (part["scales"] or "").lower()
    if part["numeral"]:
        value = float(re.sub(r"[, ]", "", part["numeral"])) * _scale(scales)
        value = -value if part["sign"] else value
    else:
        spoken = f"{part['words'] or ('half' if part['article'].lower() == 'half a' else 'one')} {scales}"
        value = _spoken(spoken)
        if part["words"] and value in (0, 1) and not part["unit"]:
            return None
    unit = (part["unit"] or part["currency"] or "").strip().lower()
    if part["currency"] and unit == "m":  # "$10m" is money, and no metres
        value, unit = value * _SCALES["m"], part["currency"].strip()
    kind, factor = _MEASURE_OF.get(unit, ("", 1.0))
    hedge = (part["hedge"] or "").strip().lower()
    return Number(match.group().strip(), match.start(), match.end(), value * factor, kind, hedge=hedge, bare=value)


def _scale(scales: str) -> float:
    product = 1.0
    for word in re.findall(r"[a-z]+", scales):
        product *= _SCALES.get(word.removesuffix("s") if len(word) > 2 else word, 1.0)
    return product


def _spoken(text: str) -> float:
    """ "two hundred and five thousand" -> 205000: groups below a thousand are added up, then multiplied."""
    total, group = 0.0, 0.0
    for word in re.findall(r"[a-z]+", text.lower()):
        singular = word.removesuffix("s")
        if word == "half":
            group = 0.5
        elif word in _UNITS_IN_WORDS:
            group += _UNITS_IN_WORDS[word]
        elif singular in _SCALES:
            scale = _SCALES[singular]
            if scale < 1000:
                group = (group or 1) * scale
            else:
                total, group = total + (group or 1) * scale, 0.0
    return total + group


def _dates(part: dict[str, str | None]) -> list[tuple[int, int, int]]:
    def whole(name: str) -> int:
        return int(part[name] or 0)

    def month(name: str) -> int:
        return _MONTH_OF[(part[name] or "").lower().rstrip(".")]

    if part["iso"]:
        return [(whole("y1"), whole("m1"), whole("d1"))]
    if part["m2"]:
        return [(whole("y2"), month("m2"), whole("d2"))]
    if part["m3"]:
        return [(whole("y3"), month("m3"), whole("d3"))]
    if part["m4"]:
        return [(whole("y4"), month("m4"), 0)]
    readings = [(whole("y5"), whole("b"), whole("a")), (whole("y5"), whole("a"), whole("b"))]
    return sorted({date for date in readings if date[1] <= 12})


def _blank(pattern: re.Pattern[str], text: str) -> str:
    """The text with what matches made blank, so that places stay."""
    return pattern.sub(lambda match: " " * len(match.group()), text)
