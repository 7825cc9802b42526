"""Numbers in words, fractions and signs rewritten in digits, with the place that each character
comes from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_CARDINALS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth "
    "thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth"
).split()
_VALUES = {word: value for value, word in enumerate(_CARDINALS)} | _SCALES
_VALUES |= {word: 10 * place for place, word in enumerate(_TENS, 2)}
_ORDINAL = {word: value for value, word in enumerate(_ORDINALS, 1)}
_ORDINAL |= {f"{word[:-1]}ieth": 10 * place for place, word in enumerate(_TENS, 2)}
_ORDINAL |= {f"{word}th": value for word, value in _SCALES.items()}
_PARTS = {
    "half": 2,
    "halves": 2,
    "quarter": 4,
    "fourth": 4,
    "twentieth": 20,
    "hundredth": 100,
    "thousandth": 1000,
}
_PARTS |= {word: value for value, word in enumerate(_ORDINALS[2:10], 3)}
_PARTS |= {f"{word}s": value for word, value in _PARTS.items() if not word.startswith("hal")}
_DECADES = {f"{word[:-1]}ies": f"{20 + 10 * place}s" for place, word in enumerate(_TENS)}
_VULGAR = dict(
    zip(
        "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞",
        "1/2 1/3 2/3 1/4 3/4 1/5 2/5 3/5 4/5 1/6 5/6 1/8 3/8 5/8 7/8".split(),
        strict=True,
    )
)
_SUPERSCRIPT = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def _any(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_SPELLED = _VALUES.keys() | _ORDINAL.keys()
_FRACTIONAL = frozenset([*_PARTS, "dozen"])
_LETTERS = re.compile(r"[a-z]+")
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|\w+|[^\w\s]")
_PART = rf"(?P<part>{_any(_PARTS)})\b"
_MEASURE = (
    r"(?:(?:second|minute|hour|day|week|month|year|decade|(?:kilo|centi|milli)?(?:metre|meter|gram|litre|liter)|kilo|"
    rf"tonne|mile|dollar|euro|pound)s?|century|per ?cent|dozen|{_any(_SCALES)})\b"
)
_NOT_PAST = r"(?!\s(?:past|to)\b)"

Rewriting = tuple[re.Pattern[str], Callable[[re.Match[str]], str]]
_SIGNS: tuple[Rewriting, ...] = (
    (re.compile(r"[\u00a0\u2007\u2009\u202f]"), lambda found: " "),
    (re.compile(r"(?<=\d)\s?([½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞])"), lambda found: f" {_VULGAR[found[1]]}"),
    (re.compile(r"[½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞]"), lambda found: _VULGAR[found[0]]),
    (re.compile(r"(?<=10)[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+"), lambda found: "^" + found[0].translate(_SUPERSCRIPT)),
)
_GROUPS: tuple[Rewriting, ...] = (
    (
        re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{3}){2,}(?!\.?\d)"),
        lambda found: found[0].replace(".", ""),
    ),
    # else they would be read as parts of a name, as "COVID-19" is
    (
        re.compile(r"\b(mid|pre|post|early|late)-(?=\w)", re.IGNORECASE),
        lambda found: f"{found[1]} ",
    ),
)
# `whole` and a fraction, `n` parts; "third" and "half" by themselves are mostly something else
_FRACTIONS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # "an hour and a half", "2 and a half", "2 and 3 quarters"
        rf"\b(?P<whole>an?|\d+)\s(?P<unit>{_MEASURE})\sand\s(?P<n>an?|\d+)[\s-]{_PART}",
        rf"\b(?P<whole>\d+)\sand\s(?P<n>an?|\d+)[\s-]{_PART}",
        # "half a million", "a quarter of an hour", "3 quarters of a mile"
        rf"\b(?:(?P<n>an?|\d+)[\s-])?{_PART}(?:\sof)?\san?(?=\s{_MEASURE})",
        # "2 thirds", "a quarter"
        rf"(?<![.,/])\b(?P<n>\d+)[\s-]{_PART}{_NOT_PAST}",
        rf"\ba\s(?P<part>quarter|half)\b{_NOT_PAST}",
        rf"\ban?\s{_PART}(?=\sof\b)",
        r"(?<!1st )(?<!2nd )\b(?P<part>half)(?=\s(?:of|the|all|its|their|his|her|our|an?)\b)",
        r"\ban?(?=\sdozen\b)",
    )
]


def _fraction(match: re.Match[str]) -> str:
    part = match.groupdict()
    whole, n = (
        word if (word := part.get(name) or "").isdigit() else word and "1"
        for name in ("whole", "n")
    )
    fraction = f"{n or 1}/{_PARTS[part['part'].lower()]}" if "part" in part else "1"
    return " ".join(filter(None, (whole, fraction, part.get("unit"))))


@dataclass(frozen=True, slots=True)
class Digits:
    """A text with its numbers in digits; character i of `text` was made from `origin[i]` (start,
    end) of the original.

    `spoken[i]` is whether the original had a word there.
    """

    source: str
    text: str
    origin: list[tuple[int, int]]
    spoken: list[bool]

    def place(self, match: re.Match[str]) -> tuple[int, int]:
        """Return (start, end) in the original of what matches in `text`."""
        return self.origin[match.start()][0], self.origin[match.end() - 1][1]

    def replaced(self, changes: Iterable[tuple[int, int, str]], *, spoken: bool) -> Digits:
        """Put each (start, end, replacement), in order and without overlap, in its place."""
        text, origin, marks, last = "", [], [], 0
        for start, end, new in changes:
            text += self.text[last:start] + new
            whole = (self.origin[start][0], self.origin[end - 1][1]) if end > start else (0, 0)
            origin += [*self.origin[last:start], *[whole] * len(new)]
            marks += [*self.spoken[last:start], *[spoken] * len(new)]
            last = end
        return Digits(
            self.source,
            text + self.text[last:],
            [*origin, *self.origin[last:]],
            [*marks, *self.spoken[last:]],
        )

    def rewritten(self, rules: Iterable[Rewriting], *, spoken: bool) -> Digits:
        current = self
        for pattern, write in rules:
            changes = [
                (found.start(), found.end(), write(found))
                for found in pattern.finditer(current.text)
            ]
            if changes:
                current = current.replaced(changes, spoken=spoken)
        return current


def in_digits(text: str) -> Digits:
    """Return the text with number words, fractions, vulgar signs and exponents in digits.

    >>> in_digits("Two thirds of the twenty-one, two and a half million and ½ in nineteen forty-five").text
    '2/3 of the 21, 2 1/2 million and 1/2 in 1945'
    >>> in_digits("half an hour, the nineteenth century, a hundred, the nineties").text
    '1/2 hour, the 19th century, 100, the 90s'
    """
    plain = Digits(
        text, text, [(place, place + 1) for place in range(len(text))], [False] * len(text)
    )
    plain = plain.rewritten(_GROUPS if text.isascii() else [*_SIGNS, *_GROUPS], spoken=False)
    letters = set(_LETTERS.findall(text.lower()))
    if letters & (_SPELLED | _DECADES.keys()):
        plain = plain.replaced(_spelled(plain.text), spoken=True)
    return (
        plain.rewritten([(pattern, _fraction) for pattern in _FRACTIONS], spoken=True)
        if letters & _FRACTIONAL
        else plain
    )


def _spelled(text: str) -> list[tuple[int, int, str]]:
    """Return (start, end, digits) of the numbers in words, of years ("nineteen forty-five") and
    decades.
    """
    rows: list[
        tuple[int, int, int, int, str]
    ] = []  # start, end, thousands and more, the rest, ending
    before = ""  # the word before, with anything between them
    for match in _TOKEN.finditer(text):
        word = match[0].lower()
        value = _VALUES.get(word, _ORDINAL.get(word))
        if value is not None and not _other(word, before):
            start, total, rest = match.start(), 0, value
            last = rows[-1] if rows else (0, -1, 0, 0, "")
            joined = (
                None if last[4] else _joined(last[2], last[3], value, text[last[1] : start].lower())
            )
            if joined:
                start, (total, rest) = rows.pop()[0], joined
            elif word in _SCALES and (
                article := re.search(r"\ban?\s$", text[max(0, start - 3) : start], re.IGNORECASE)
            ):
                start -= len(article.group())
            rows.append(
                (start, match.end(), total, rest, _ending(value) if word in _ORDINAL else "")
            )
        if word != "-" and not (before in _PARTS and word in {"of", "a", "an"}):
            before = word
    numbers = [(start, end, f"{total + rest}{ending}") for start, end, total, rest, ending in rows]
    return sorted([*numbers, *_decades(text)])


def _joined(total: int, rest: int, value: int, gap: str) -> tuple[int, int] | None:
    """What a number and the next word are together, as (thousands and more, the rest); None where
    they are two.
    """
    if gap == " and " and rest % 100 == 0 and total + rest >= 100 and 0 < value < 100:
        return total, rest + value
    if gap not in {" ", "-"}:
        return None
    if value >= 1000:
        return (
            (total + rest * value, 0) if 0 < rest < 1000 and not 0 < total < 1000 * value else None
        )
    if value == 100:
        return (total, rest * 100) if 0 < rest < 100 else None
    tens = rest % 100
    if (tens == 0 and total + rest >= 100) or (tens >= 20 and tens % 10 == 0 and value < 10):
        return (total, rest + value) if value > 0 else None
    return (total, 100 * rest + value) if not total and 13 <= rest <= 20 and value >= 10 else None


def _ending(value: int) -> str:
    return {1: "st", 2: "nd", 3: "rd"}.get(value, "th")


def _other(word: str, before: str) -> bool:
    """Return True if a word that looks like a part of a number is something else here, given the
    word before it.
    """
    if word in _SCALES:  # 3.5 million, half a million
        return before[:1].isdigit() or before in _PARTS
    if word == "second":  # ten seconds, a second, per second
        return (
            before[:1].isdigit()
            or before in _CARDINALS
            or before in _TENS
            or before in {"a", "per", "each", "every", "split"}
        )
    if word in _PARTS:  # two thirds, one third; but twenty-third
        return word.endswith("s") or before in {"a", "an", "one", "1"}
    return word.removesuffix("s") in _SCALES and word.endswith("s")  # hundreds of thousands


def _decades(text: str) -> list[tuple[int, int, str]]:
    found = re.finditer(rf"(?<=\bthe )(?:{'|'.join(_DECADES)})\b", text, re.IGNORECASE)
    return [(one.start(), one.end(), _DECADES[one.group().lower()]) for one in found]
