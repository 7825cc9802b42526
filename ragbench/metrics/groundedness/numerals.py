"""Numbers in words, fractions and signs rewritten in digits, with the place that each character comes from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_CARDINALS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    f"eighteen nineteen {_TENS}"
).split()
_SCALES = "hundred thousand million billion trillion".split()
_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
    "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth thirtieth fortieth fiftieth sixtieth seventieth "
    "eightieth ninetieth hundredth thousandth millionth"
).split()
_PARTS = {"half": 2, "halves": 2, "quarter": 4, "fourth": 4, "twentieth": 20, "hundredth": 100, "thousandth": 1000}
_PARTS |= {word: value for value, word in enumerate(_ORDINALS[2:10], 3)}
_PARTS |= {f"{word}s": value for word, value in _PARTS.items() if not word.startswith("hal")}
_DECADES = {f"{word[:-1]}ies": f"{20 + 10 * place}s" for place, word in enumerate(_TENS.split())}
_VULGAR = dict(
    zip("½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞", "1/2 1/3 2/3 1/4 3/4 1/5 2/5 3/5 4/5 1/6 5/6 1/8 3/8 5/8 7/8".split(), strict=True)
)
_SUPERSCRIPT = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def _any(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_SPELLED = frozenset([*_CARDINALS, *_SCALES, *_ORDINALS])
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
    (re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{3}){2,}(?!\.?\d)"), lambda found: found[0].replace(".", "")),
    # else they would be read as parts of a name, as "COVID-19" is
    (re.compile(r"\b(mid|pre|post|early|late)-(?=\w)", re.IGNORECASE), lambda found: f"{found[1]} "),
)
_FRACTIONS: tuple[Rewriting, ...] = (
    # "an hour and a half", "2 and a half", "2 and 3 quarters"
    (
        re.compile(rf"\b(an?|\d+)\s({_MEASURE})\sand\s(an?|\d+)[\s-]{_PART}", re.IGNORECASE),
        lambda found: f"{_digit(found[1])} {_digit(found[3])}/{_below(found)} {found[2]}",
    ),
    (
        re.compile(rf"\b(\d+)\sand\s(an?|\d+)[\s-]{_PART}", re.IGNORECASE),
        lambda found: f"{found[1]} {_digit(found[2])}/{_below(found)}",
    ),
    # "half a million", "a quarter of an hour", "3 quarters of a mile"
    (
        re.compile(rf"\b(?:(an?|\d+)[\s-])?{_PART}(?:\sof)?\san?\s(?={_MEASURE})", re.IGNORECASE),
        lambda found: f"{_digit(found[1] or 'a')}/{_below(found)} ",
    ),
    # "2 thirds", "a quarter"; "third" and "half" by themselves are mostly something else
    (
        re.compile(rf"(?<![.,/])\b(\d+)[\s-]{_PART}{_NOT_PAST}", re.IGNORECASE),
        lambda found: f"{found[1]}/{_below(found)}",
    ),
    (re.compile(rf"\ba\s(?P<part>quarter|half)\b{_NOT_PAST}", re.IGNORECASE), lambda found: f"1/{_below(found)}"),
    (re.compile(rf"\ban?\s{_PART}(?=\sof\b)", re.IGNORECASE), lambda found: f"1/{_below(found)}"),
    (
        re.compile(r"(?<!1st )(?<!2nd )\bhalf(?=\s(?:of|the|all|its|their|his|her|our|an?)\b)", re.IGNORECASE),
        lambda found: "1/2",
    ),
    (re.compile(r"\ban?\s(?=dozen\b)", re.IGNORECASE), lambda found: "1 "),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Digits:
    """A text with its numbers in digits; character i of `text` was made from `origin[i]` (start, end) of the original.

    `spoken[i]` is whether the original had a word there.
    """

    source: str
    text: str
    origin: list[tuple[int, int]]
    spoken: list[bool]

    def place(self, match: re.Match[str]) -> tuple[int, int]:
        """(start, end) in the original of what matches in `text`."""
        return self.origin[match.start()][0], self.origin[match.end() - 1][1]

    def replaced(self, changes: Iterable[tuple[int, int, str]], *, spoken: bool) -> Digits:
        """With each (start, end, replacement), in order and without overlap, put in its place."""
        text, origin, marks, last = "", [], [], 0
        for start, end, new in changes:
            text += self.text[last:start] + new
            whole = (self.origin[start][0], self.origin[end - 1][1]) if end > start else (0, 0)
            origin += [*self.origin[last:start], *[whole] * len(new)]
            marks += [*self.spoken[last:start], *[spoken] * len(new)]
            last = end
        return Digits(
            self.source, text + self.text[last:], [*origin, *self.origin[last:]], [*marks, *self.spoken[last:]]
        )

    def rewritten(self, rules: Iterable[Rewriting], *, spoken: bool) -> Digits:
        current = self
        for pattern, write in rules:
            changes = [(found.start(), found.end(), write(found)) for found in pattern.finditer(current.text)]
            if changes:
                current = current.replaced(changes, spoken=spoken)
        return current


def in_digits(text: str) -> Digits:
    """The text with number words, fractions, vulgar signs and exponents in digits.

    >>> in_digits("Two thirds of the twenty-one, two and a half million and ½ in nineteen forty-five").text
    '2/3 of the 21, 2 1/2 million and 1/2 in 1945'
    >>> in_digits("half an hour, the nineteenth century, a hundred, the nineties").text
    '1/2 hour, the 19th century, 100, the 90s'
    """
    plain = Digits(text, text, [(place, place + 1) for place in range(len(text))], [False] * len(text))
    plain = plain.rewritten(_GROUPS if text.isascii() else [*_SIGNS, *_GROUPS], spoken=False)
    letters = set(_LETTERS.findall(text.lower()))
    if letters & (_SPELLED | _DECADES.keys()):
        plain = plain.replaced(_spelled(plain.text), spoken=True)
    return plain.rewritten(_FRACTIONS, spoken=True) if letters & _FRACTIONAL else plain


class _Token:
    """A word as text2num asks for it."""

    def __init__(self, word: str, start: int, end: int, other: bool) -> None:
        self.word, self.start, self.end, self.other = word, start, end, other

    def text(self) -> str:
        return self.word

    def nt_separated(self, previous: _Token) -> bool:
        return False

    def not_a_number_part(self) -> bool:
        return self.other


def _spelled(text: str) -> list[tuple[int, int, str]]:
    """(start, end, digits) of the numbers in words, as text2num finds them, and of years and decades."""
    from text_to_num import find_numbers

    tokens: list[_Token] = []
    before = ""  # the word before, with anything between them
    for found in _TOKEN.finditer(text):
        word = found.group().lower()
        tokens.append(_Token(found.group(), found.start(), found.end(), _other(word, before)))
        if word != "-" and not (before in _PARTS and word in {"of", "a", "an"}):
            before = word
    numbers = [
        (tokens[one.start].start, tokens[one.end - 1].end, one.text) for one in find_numbers(tokens, "en", threshold=0)
    ]
    numbers = [(start, end, digits) for start, end, digits in numbers if text[start:end] != digits]
    return sorted([*_joined(numbers, text), *_decades(text)])


def _other(word: str, before: str) -> bool:
    """Whether a word that looks like a part of a number is something else here, given the word before it."""
    if word in _SCALES:  # 3.5 million, half a million
        return before[:1].isdigit() or before in _PARTS
    if word == "second":  # ten seconds, a second, per second
        return before[:1].isdigit() or before in _CARDINALS or before in {"a", "per", "each", "every", "split"}
    if word in _PARTS:  # two thirds, one third; but twenty-third
        return word.endswith("s") or before in {"a", "an", "one", "1"}
    return word.removesuffix("s") in _SCALES and word.endswith("s")  # hundreds of thousands


def _joined(numbers: list[tuple[int, int, str]], text: str) -> list[tuple[int, int, str]]:
    """19 and 45 are the year 1945; the article of "a hundred" goes."""
    joined: list[tuple[int, int, str]] = []
    for start, end, digits in numbers:
        last = joined[-1] if joined else (0, 0, "")
        adjacent = text[last[1] : start] in {" ", "-"} and last[2].isdigit() and digits.isdigit()
        if adjacent and 13 <= int(last[2]) <= 20 and 10 <= int(digits) <= 99:
            joined[-1] = (last[0], end, last[2] + digits)
            continue
        article = re.search(r"\ban?\s$", text[max(0, start - 3) : start], re.IGNORECASE)
        if article and text[start:end].split()[0].lower() in _SCALES:
            start -= len(article.group())
        joined.append((start, end, digits))
    return joined


def _decades(text: str) -> list[tuple[int, int, str]]:
    found = re.finditer(rf"(?<=\bthe )(?:{'|'.join(_DECADES)})\b", text, re.IGNORECASE)
    return [(one.start(), one.end(), _DECADES[one.group().lower()]) for one in found]


def _digit(word: str) -> str:
    return word if word.isdigit() else "1"


def _below(found: re.Match[str]) -> int:
    return _PARTS[found["part"].lower()]
