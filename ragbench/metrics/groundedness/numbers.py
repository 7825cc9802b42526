"""Numbers and dates as texts write them, and which of an answer's the context does not hold.

Words, scales, hedges and units are in numbers.toml next to this file.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import regex

from ragbench.files import bundled
from ragbench.folding import ascii_digits
from ragbench.generation.citations import without_citations
from ragbench.groups import grouped
from ragbench.language import UNSPACED, Language, detect_language, find_language
from ragbench.metrics.groundedness.words import read_page, words
from ragbench.text import sentence_spans

_TABLES = bundled(__file__, "numbers.toml")
_SCALES, _MONTHS, _HEDGES = _TABLES["scales"], _TABLES["months"], _TABLES["hedges"]
_ORDINALS, _PARTS = _TABLES["ordinals"], _TABLES["parts"]
_VALUES = _TABLES["words"] | _ORDINALS
_ARTICLES = ("a", "an", "per", "each", "every")
# spelling of a unit -> its kind, and its size in the first unit of that kind; two readings of "MB"
_READINGS: dict[str, list[tuple[str, float]]] = {}
for _kind, _units in _TABLES["units"].items():
    for _factor, _spellings in _units.items():
        for _spelling in _spellings:
            _READINGS.setdefault(_spelling, []).append((_kind, float(_factor)))


def _any_of(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


_POWER_OF_SCALE = {
    word: int(n) for n, words in _TABLES["powers"].items() for word in words.split("|")
}
_FOREIGN_SCALE = regex.compile(
    rf"(?<=\d)\s?({_any_of(_POWER_OF_SCALE)})(?![\p{{Latin}}\p{{Cyrillic}}\p{{Arabic}}\p{{Devanagari}}])\.?",
    regex.I,
)
# a sign for private use, in place of a scale word: \ue006 is 10 to the power of 6
_POWER_SIGN = 0xE000
_CARDINAL, _ORDINAL = _any_of(_TABLES["words"]), _any_of(_ORDINALS)
_TENS = _any_of(word for word in _VALUES if word.endswith("ty"))
_WORD = rf"(?:(?:{_TENS})[-\s])?(?:{_CARDINAL}|{_ORDINAL})"
_SCALE = rf"(?:{_any_of(word for word in _SCALES if len(word) > 3)})s?\b"
_UNIT = rf"(?:{_any_of(unit for unit in _READINGS if unit[0].isalpha())})\b"
_LONG_UNIT = rf"(?:{_any_of(unit for unit in _READINGS if len(unit) > 3)})\b"
_MONTH = rf"(?:{_any_of(_MONTHS)})\b\.?"
_AMOUNT = re.compile(
    rf"(?:(?<!\w)(?P<hedge>{_any_of(_HEDGES)})(?:\s+|(?<=[~≈])))?(?P<currency>[$€£]\s?)?(?<![\w.,/])"
    r"(?P<sign>(?<!\w)[-\u2212]|\b(?:minus|negative)\s)?(?:"
    # three quarters, a quarter, half of, half a million
    rf"(?:(?P<n>\d+|{_CARDINAL})[\s-]|a\s(?=(?:quarter|half)\b|\w+\sof\b)|(?<!first\s)(?<!second\s)"
    rf"(?=half\s(?:of|the|all|its|their|his|her|our|an?)\b))(?P<part>{_any_of(_PARTS)})s?\b"
    rf"(?!\s(?:past|to)\b)(?:(?:\sof)?\san?(?=\s(?:{_SCALE}|{_UNIT})))?"
    # 3/4, 1 1/2; 1e6; 1,000.5; 1.000.000; 1,5; 3.5; .05
    r"|(?P<numeral>(?:\d+\s+)?\d+/[1-9]\d*(?![/\d])|\d+(?:\.\d+)?e[+-]?\d{1,2}\b"
    r"|\d{1,2}(?:,\d{2})+,\d{3}(?!\d)"  # 12,34,567 as in India
    r"|\d{1,3}(?:[, ]\d{3})+(?!\d)(?:\.\d+)?|\d{1,3}(?:\.\d{3}){2,}(?!\.?\d)|\d+,\d{1,2}(?![,\d])"
    r"|\d+(?:\.\d+)?|\.\d+)(?P<ordinal>st\b|nd\b|rd\b|th\b)?(?P<decade>'?s\b)?"
    rf"|(?P<word>{_WORD}|(?:{_any_of(_ARTICLES)})(?=[\s-](?:{_SCALE}|{_LONG_UNIT})))\b)"
    rf"(?P<half>\sand\sa\shalf\b)?(?P<century>[\s-](?:century|centuries)\b)?"
    rf"(?P<scales>(?:[\s-]+{_SCALE})+|(?:k|bn|mn|tn)\b|(?-i:[MB])\b|[\ue000-\ue00f]|(?(currency)m\b|(?!)))?"
    rf"(?:[\s-]?(?P<unit>[%‰¢]|{_UNIT}))?",
    re.IGNORECASE,
)
_DATE = regex.compile(
    r"\b(?:(?P<y>\d{4})-(?P<m>\d{2})-(?P<d>\d{2}))\b"
    rf"|\b(?P<d>\d{{1,2}}|{_WORD})(?:st|nd|rd|th)?(?:\s+of)?\s+(?P<m>{_MONTH})(?:,?\s+(?P<y>\d{{4}})\b)?"
    rf"|\b(?P<m>{_MONTH})\s+(?P<d>\d{{1,2}}|{_WORD})(?:st|nd|rd|th)?\b(?:\s*,?\s+(?P<y>\d{{4}})\b)?"
    rf"|\b(?P<m>{_MONTH})(?:\s+of)?,?\s+(?P<y>\d{{4}})\b"
    r"|\b(?P<a>\d{1,2})[/.](?P<b>\d{1,2})[/.](?P<y>\d{4})\b",
    regex.IGNORECASE,
)
# a text without one of these has no number: half of the sentences need no slower pattern
_COUNTED = re.compile(
    rf"[\d{''.join(_TABLES['signs'])}]|(?<![a-z])(?:{_CARDINAL}|{_ORDINAL}|{_any_of(_PARTS)}"
    rf"|(?:{_any_of(_ARTICLES)})[\s-](?:{_any_of(w for w in [*_SCALES, *_READINGS] if len(w) > 3)}))",
    re.IGNORECASE,
)
_NUMBERING = re.compile(
    r"^[ \t]*(?:[-*]\s+)?(?:step\s+)?\(?\d{1,3}[.):](?=\s)", re.MULTILINE | re.IGNORECASE
)
_INLINE_NUMBERING = re.compile(r"(?<![\w(])\(?(\d{1,2})\)(?=\s)")
# "B2", "covid-19", "3.11.2" are names; "mid-1990" and "1.000.000" are not
_NAME_WITH_DIGITS = re.compile(
    r"(?<=[A-Za-z])(?<!\d[eE])(?<!\bmid)(?<!\bpre)(?<!\bpost)(?<!\bearly)(?<!\blate)[-_]?\d[\w.-]*"
    r"|\b(?!\d{1,3}\.\d{3}\b)[vV]?\d+(?:\.\d+){2,}\b"
)
# the sign between the ends of a range is no minus, and no space: "570 576" would be one number
_RANGE = re.compile(r"(?<=\d)\s?(?:[-–—]|\bto\b)\s?(?=[$€£]?\d)")
_TELLING = 0.5  # the weight of a word that tells the subject of a sentence
_SEPARATORS = str.maketrans("٫٬．，\xa0\u2007\u2008\u2009\u202f", ".,.,     ")
# "Python 3.10", "version 3.8, 3.9 or 3.10", "Django >= 4.10", "section 2.10": no decimals
_VERSION = regex.compile(
    r"(?P<name>\b[\w+#.-]{0,30}\p{Lu}[\w+#.-]{0,30}|\b(?i:versions?|releases?|builds?|sections?|chapters?|figures?|"
    r"tables?)|§)[\s(]*(?i:versions?|release|v\.?)?\s*(?:[<>=~^≥≤]+\s*)?(?<![\d.,])(?P<first>\d+\.\d+)"
    r"(?:(?:[,\s/–-]|\band\b|\bor\b|\bto\b|\bthrough\b|\bbis\b|\bund\b|\boder\b)+(?P<further>\d+\.\d+))*(?![.,]?\d)"
)
_FRACTION_SIGNS = str.maketrans(_TABLES["signs"])
_LONGER_SIGNS = [sign for sign, written_out in _TABLES["signs"].items() if len(written_out) > 1]


class Number(NamedTuple):
    """A number or date of a text, with its place and kind.

    `value` is in the first unit of its kind (metres, grams, litres, seconds, months, per cent ...),
    `bare` as it is written; `kind` is "date", the quantity that the unit measures, or "" without a
    unit. A fraction without a unit ("two thirds") has the kind "share". The value of a date is 0:
    its `date` is (year, month, day), 0 if it does not specify one. `hedge` is the word before it
    that makes it rough, such as "about". `years` are the first and last year that "the 1990s" or
    "19th century" covers, else (0, 0). `checked` is False for what confirms a number of another
    text but is too often idle to be checked itself: "one", "first", "a year". `version` is True for
    a version or the number of a section, which follows a name: 3.10 is not 3.1 there.
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
    checked: bool = True
    version: bool = False


def numbers(text: str) -> list[Number]:
    """Return the numbers and dates of a text, in their order; two readings of "MB" and "3/4/2020".

    Read are digits with thousands separators and decimals (also "1,5" and "1e6"), per cent, units,
    scales ("3.5 million", "4k"), words up to a hundred ("twenty-five", "two million", "a dozen",
    "nineteenth"), fractions ("2/3", "two thirds", "half of"), dates (1 May 1889, May 1, 1889,
    1889-05-01, May 1889; of 1/5/1889 both readings count) and both ends of a range. Not numbers of
    the text are marks of citations ("[2]"), the numbering of lists, names with digits ("B2",
    "COVID-19", "3.11.2"), and in words "one", "zero", "first", "second" and "third", which seldom
    count. Times of day, Roman numerals and versions of three parts are not read as such.

    >>> [(n.text, n.value, n.kind) for n in numbers("About 2,500 people [3] paid $1.5 million in twenty-five days.")]
    [('About 2,500', 2500.0, ''), ('$1.5 million', 1500000.0, 'dollars'), ('twenty-five days', 2160000.0, 'time')]
    >>> [n.date for n in numbers("It opened on 31 March 1889, and again in May 1946.")]
    [(1889, 3, 31), (1946, 5, 0)]
    """
    return [number for number in _all_numbers(text) if number.checked]


@lru_cache(maxsize=20_000)
def _all_numbers(text: str, default: Language | None = None) -> tuple[Number, ...]:
    """Return the numbers and dates of a text in their order, also those that `numbers` leaves out because
    they seldom count ("one", "first"): they confirm numbers of another text.

    A number with two readings ("5 MB") is there twice, at one place. `default` is the language of a text
    that is too short to tell.
    """
    if not _COUNTED.search(text):
        return ()
    language = detect_language([text], default)
    # What is not a number is made blank, so that later patterns do not see it and numbers keep their
    # places.
    line = _in_english_notation(without_citations(text), language)
    line = _blank(_NUMBERING, line)  # "2." before the text of a line
    place_of = _places_after_translation(line)
    line = line.translate(_FRACTION_SIGNS)  # "½" becomes " 1/2"
    has_inline_numbering = _INLINE_NUMBERING.findall(line)[:2] == ["1", "2"]
    if has_inline_numbering:  # "1) open it, 2) read it"
        line = _blank(_INLINE_NUMBERING, line)
    version_starts = _version_starts(line)
    dates = []
    for match in _DATE.finditer(line):
        dates += _dates(match)
    line = _blank(_DATE, line)
    line = _blank(_NAME_WITH_DIGITS, line)  # "B2"
    line = _RANGE.sub(lambda gap: ";" * len(gap[0]), line)  # "5-7" becomes "5;7": two numbers
    amounts = []
    for match in _AMOUNT.finditer(line):
        is_foreign_word = match["word"] and not language.is_english
        if is_foreign_word:  # "six" may mean something else there
            continue
        is_version = match.start("numeral") in version_starts
        for number in _amounts(match):
            has_version = is_version and number.kind == ""
            amounts.append(number._replace(version=has_version))
    in_text = []
    for number in [*dates, *amounts]:
        start = place_of[number.start]
        end = place_of[number.end - 1] + 1
        in_text.append(number._replace(text=text[start:end].strip(), start=start, end=end))
    return tuple(sorted(in_text, key=lambda number: (number.start, number.date)))


def _places_after_translation(line: str) -> Sequence[int]:
    """Return for each place of a line in which signs such as "½" are written out (" 1/2") its place in the
    line before.
    """
    if not any(sign in line for sign in _LONGER_SIGNS):
        return range(len(line))
    places = []
    for place, sign in enumerate(line):
        places += [place] * len(sign.translate(_FRACTION_SIGNS))
    return places


def _version_starts(line: str) -> set[int]:
    """Return the positions of versions and numbers of sections, which are after a name or a word such
    as "section".
    """
    starts: set[int] = set()
    for match in _VERSION.finditer(line):
        if match["name"].casefold() not in find_language("en").function_words:
            starts.update(match.starts("first"), match.starts("further"))
    return starts


def _in_english_notation(text: str, language: Language) -> str:
    """Return a text of the same length with its numbers as English writes them: "1.234,5 kg" in German
    becomes "1,234.5 kg", and "1'234" in every language "1,234".

    Digits of every script become 0 to 9. A scale word of another language, such as "Mio.", becomes the
    sign of its power of ten (see `_power_sign`). In scripts without spaces, other letters become "、", so
    that a number ends where they begin.
    """
    line = text
    is_english_ascii = language.is_english and text.isascii()
    if not is_english_ascii:
        line = ascii_digits(line).translate(_SEPARATORS)
        line = _FOREIGN_SCALE.sub(_power_sign, line)
        line = UNSPACED.sub(lambda letter: "、" * len(letter[0]), line)
        line = language.with_points(line)  # swaps points and commas, if the language does
    return re.sub(r"(?<=\d)['’](?=\d{3}(?!\d))", ",", line)


def _power_sign(scale: re.Match[str]) -> str:
    """Return the sign of a scale word's power of ten, filled with blanks to the length of the match: the
    sign number `_POWER_SIGN` + 6 for "Mio.".
    """
    power = _POWER_OF_SCALE[scale[1].casefold()]
    return chr(_POWER_SIGN + power).ljust(len(scale[0]))


def _blank(pattern: Any, text: str) -> str:
    """Return the text with what matches made blank, so that places stay."""
    return str(pattern.sub(lambda match: " " * len(match[0]), text))


def _dates(match: regex.Match[str]) -> list[Number]:
    """Return the readings of a date: both orders of day and month if it has two numbers.

    The groups of a match of `_DATE` are the year y, the month m (a word or number) with the day d,
    or, without a month, two numbers a and b; a group that is missing is 0.
    """
    month = match["m"]
    year = _whole_number(match["y"])
    day = _whole_number(match["d"])
    first = _whole_number(match["a"])
    second = _whole_number(match["b"])
    dates = set()
    if month is not None:
        number = _MONTHS.get(month.lower().rstrip(".")) or int(month)
        dates.add((year, number, day))
    else:
        for month_number, day_number in ((second, first), (first, second)):
            if month_number <= 12:
                dates.add((year, month_number, day_number))
    start, end = match.span()
    return [Number(match[0], start, end, 0.0, "date", date) for date in sorted(dates)]


def _whole_number(text: str | None) -> int:
    return int(_value((text or "0").lower()))


def _amounts(match: re.Match[str]) -> list[Number]:
    """Return the readings of a number with its unit, which `_AMOUNT` has matched: one, or two for "5 MB"
    (a megabyte has 1,000 or 1,024 kB); [] for a number that is too large for a float.
    """
    part = {name: (text or "").strip().lower() for name, text in match.groupdict().items()}
    value = _scaled_value(part)
    if not math.isfinite(value):
        return []
    unit = part["unit"] or part["currency"]
    is_written_as_fraction = bool(part["part"]) or "/" in part["numeral"]
    # kind of quantity, and the factor to the first unit of this kind: "km" is a length of 1000 (metres)
    readings = _READINGS.get(unit, [("", 1.0)])
    if is_written_as_fraction and abs(value) < 1 and not unit:
        readings = [("share", 100.0)]  # "a quarter" has the value 25, as "25 %"
    is_ordinal = bool(part["ordinal"]) or re.split(r"[\s-]", part["word"])[-1] in _ORDINALS
    # "one" or "first" is not looked for in the contexts
    is_checked = not _seldom_counts(part, value, unit, is_ordinal)
    start, end = match.span()
    numbers = []
    for kind, factor in readings:
        number = Number(
            match[0].strip(),
            start,
            end,
            value * factor,
            kind,
            hedge=part["hedge"],
            bare=value,
            years=_years(part, value, is_ordinal),
            checked=is_checked,
        )
        numbers.append(number)
    return numbers


def _seldom_counts(part: Mapping[str, str], value: float, unit: str, is_ordinal: bool) -> bool:
    """Return True for a number word that is seldom meant as a number: "one", "zero" (but for "one
    metre"), "a" with a unit, "first" to "third".
    """
    if not part["word"]:
        return False
    if is_ordinal:
        return value <= 3
    return value in (0, 1) and (not unit or part["word"] in _ARTICLES)


def _scaled_value(part: Mapping[str, str]) -> float:
    """Return the value of a number with its fraction, scales and sign.

    `part` has the groups of `_AMOUNT`, "" for a group that did not match. In "-2.5 million" `sign` is
    "-", `numeral` is "2.5" and `scales` is "million". In "two and a half dozen" `word` is "two" and
    `half` is "and a half". In "two thirds" `n` is "two" and `part` is "third"; in "half of" `n` is "".
    `scales` may also be one sign for a power of ten (see `_power_sign`).
    """
    counted = part["numeral"] or part["n"] or part["word"] or "1"  # 1 in "half of"
    value = _value(counted)
    if part["part"]:
        value /= _PARTS[part["part"].casefold()]  # 3 for "third"; the long s of old prints is an s
    if part["half"]:
        value += 0.5
    for sign in re.findall("[\ue000-\ue00f]", part["scales"]):
        power = ord(sign) - _POWER_SIGN
        value *= 10.0**power
    for word in re.findall("[a-z]+", part["scales"]):
        singular = word if word in _SCALES else word.removesuffix("s")
        value *= _SCALES[singular]
    if part["sign"]:
        return -value
    return value


def _years(part: Mapping[str, str], value: float, is_ordinal: bool) -> tuple[int, int]:
    """Return the first and last year of a century ("19th century") or decade ("1920s", "the 20s");
    (0, 0) for another number.
    """
    if is_ordinal and part["century"] and 1 <= value <= 21:
        return int(value - 1) * 100, int(value) * 100
    if not part["decade"] or value % 10 != 0:
        return 0, 0
    first = int(value)
    if 20 <= value <= 90:
        first += 1900
    if not 1000 <= first <= 2090:
        return 0, 0
    is_century = first % 100 == 0
    return first, first + (99 if is_century else 9)


def _value(numeral: str) -> float:
    """Return the value of digits ("1,500.5", "2/3", "1 1/2"), of words up to a hundred ("twenty-five"), or
    1 for an article: in "a million" the scale "million" is not part of the numeral.
    """
    is_in_words = numeral[-1].isalpha()
    if is_in_words:
        number_words = re.findall("[a-z]+", numeral)
        return float(sum(_VALUES.get(word, 1) for word in number_words))
    if "/" in numeral:
        *integers, fraction = numeral.split()
        above, _, below = fraction.partition("/")
        return sum(map(float, integers)) + float(above) / float(below)
    has_decimal_comma = re.fullmatch(r"\d+,\d{1,2}", numeral)  # "1,5"
    if has_decimal_comma:
        return float(numeral.replace(",", "."))
    has_decimal_point = numeral.count(".") == 1  # several points separate thousands: "1.000.000"
    separators = "[, ]" if has_decimal_point else "[, .]"
    return float(re.sub(separators, "", numeral))


def numeric_fabrications(answer: str, contexts: Sequence[str]) -> list[Number]:
    """Return the numbers and dates of the answer that no context contains, in their order.

    A context contains a number if it has one of equal value and a unit of the same kind, in any
    notation ("25 %" is "twenty-five percent", "a quarter" and "0.25"; "1.5 km" is "1,500 m"):

    - If one of the two has no unit, they may be equal; but a per cent is only equal to a number
      without it if that is a fraction below 1.
    - A megabyte has 1,000 or 1,024 kilobytes.
    - A rounded percentage is equal to its fraction ("33 %", "a third").
    - After a word such as "about" a number may differ by 5 %; after "over" or "at least" the
      context's number may be up to twice as large, after "under" or "up to" down to half as large,
      after "nearly" or "almost" down to 90 %.

    A number with a unit must also be of the same subject (checked in English only). The contexts do not
    contain "15 days of vacation" in these two cases, in which the sentence with 15 has no telling (rare)
    word of the answer's sentence:

    - The sentence about vacation has another number of days: "Orders ship in 15 days. Vacation is 20
      days."
    - The number is there without its unit only: "Order 15 is open. Vacation is long."

    A context contains a date if it has one that agrees in all parts of the answer's date; a year also
    if it has the bare number; a decade or century if it has any year in it. (A decade does not contain
    its years.)

    >>> [n.text for n in numeric_fabrications("2,987 came in 1889, 12% of them by rail.", ["In May 1889, 2987 came."])]
    ['12%']
    >>> numeric_fabrications("About 3,000 came, two thirds by rail.", ["2,987 visitors came, 67 % of them by rail."])
    []
    >>> [n.text for n in numeric_fabrications("3,000 came.", ["2,987 visitors came."])]
    ['3,000']
    """
    texts = tuple(contexts)
    readings_by_place = _readings(answer, texts)  # "5 MB" has two: 1,000 or 1,024 kB each
    if not readings_by_place:
        return []
    known_numbers = _distinct_numbers(texts)
    fabricated = []
    for readings in readings_by_place.values():
        is_contained = any(_holds(known, each) for each in readings for known in known_numbers)
        if not is_contained or _is_of_something_else(readings, answer, texts):
            fabricated.append(readings[0])
    return fabricated


def _is_of_something_else(
    readings: Sequence[Number], answer: str, contexts: tuple[str, ...]
) -> bool:
    """Return True if the contexts have a number with a unit only as a number of something else.

    A sentence of the contexts is about the subject if it shares a telling (rare) word with the sentence
    of the number in the answer. The result is False if a sentence about the subject has the number, or
    if no sentence is about the subject. Else it is True in two cases, here for "15 days of vacation":

    - A sentence about the subject has another number of this kind: "Orders ship in 15 days. Vacation is
      20 days."
    - No sentence has the number with a unit of this kind: "Order 15 is open. Vacation is long."

    Args:
        readings: of the number, at least one: two for "5 MB", with 1,000 or 1,024 kB.
        answer: the text that it is in.
        contexts: the texts; one of them holds the number by `_holds`.
    """
    number = readings[0]  # all have the same place and kind
    language = _language(contexts)
    if number.kind in ("", "date", "share") or not language.is_english:
        return False  # without a unit it has no kind; telling words are found in English only
    subject = _subject(answer, number)
    # findings in the sentences with the number
    number_is_held = number_is_held_with_unit = False
    # findings in the sentences about the subject, which do not have the number
    subject_is_there = subject_has_other_number = False
    for sentence in read_page(contexts).sentences:
        is_about_subject = not subject.isdisjoint(sentence.stems)
        numbers_there = _all_numbers(sentence.text, language)
        holders = [
            other for other in numbers_there if any(_holds(other, each) for each in readings)
        ]
        if holders and is_about_subject:
            return False  # one such sentence is enough: the number is of the subject
        if holders:
            number_is_held = True
            number_is_held_with_unit |= any(other.kind == number.kind for other in holders)
        elif is_about_subject:
            subject_is_there = True
            subject_has_other_number |= any(other.kind == number.kind for other in numbers_there)
    if not number_is_held:  # a long sentence was cut within the number
        return False
    if subject_has_other_number:
        return True
    return subject_is_there and not number_is_held_with_unit


def _subject(text: str, number: Number) -> frozenset[str]:
    """Return the stems of the telling words in the sentence of a number, without its unit."""
    for start, end in sentence_spans(text):
        if not start <= number.start < end:
            continue
        stems = set()
        for word in words(text[start:end]):
            is_of_number = number.start <= start + word.start < number.end
            if word.weight > _TELLING and not word.stem[0].isdigit() and not is_of_number:
                stems.add(word.stem)
        return frozenset(stems)
    return frozenset()


def numeric_support(answer: str, contexts: Sequence[str]) -> float:
    """Return the fraction of the answer's numbers and dates that the contexts hold, in [0, 1]; NaN
    if the answer has none.

    It is 1 - |`numeric_fabrications`| / |numbers|. A number that the answer repeats counts each
    time.

    >>> numeric_support("2,987 came in 1889, 12% by rail, for 3 days.", ["In May 1889, 2987 came for three days."])
    0.75
    """
    n = len(_readings(answer, tuple(contexts)))
    if n == 0:
        return math.nan
    return 1 - len(numeric_fabrications(answer, contexts)) / n


def _readings(answer: str, contexts: tuple[str, ...]) -> dict[int, list[Number]]:
    """Return start of a checked number in an answer -> its readings. The language of a short answer
    is taken to be the language of its contexts.
    """
    language = _language(contexts) if _COUNTED.search(answer) else None
    numbers = (number for number in _all_numbers(answer, language) if number.checked)
    return grouped(numbers, lambda number: number.start)


_language = lru_cache(maxsize=256)(detect_language)
"""The language of contexts."""


@lru_cache(maxsize=256)
def _distinct_numbers(contexts: tuple[str, ...]) -> tuple[Number, ...]:
    """Return the numbers and dates of the contexts without duplicates, also words that are seldom meant as
    numbers ("one").

    Duplicates are numbers that agree in all that `_holds` looks at. The last of them is kept, at the
    place of the first, as in a dictionary.
    """
    language = _language(contexts)
    distinct = {}
    for context in contexts:
        for number in _all_numbers(context, language):
            key = (
                number.value,  # 1500 for "1.5 km", in metres
                number.bare,  # 1.5, as it is written
                number.kind,  # "length"
                number.date,
                number.years,  # of a decade or century
                number.version,
                _version_parts(number),  # ("3", "10") for "3.10"
            )
            distinct[key] = number
    return tuple(distinct.values())


def _holds(known: Number, claimed: Number) -> bool:
    """Return True if a number of the contexts (`known`) contains a number of the answer (`claimed`), by the
    rules of `numeric_fabrications`.

    `kind` is the quantity that the unit measures, such as "length"; "share" for a per cent or a fraction
    ("a third"); "date"; "" without a unit. `value` is in the first unit of the kind, `bare` without the
    unit: "1.5 km" has 1500 (metres) and 1.5.
    """
    first_year, last_year = claimed.years  # of a decade or century; else 0 and 0
    if last_year and _is_within(known, first_year, last_year):
        return True
    if "date" in (known.kind, claimed.kind):
        return _holds_date(known, claimed)
    if known.kind == claimed.kind:
        if known.kind == "share" and _is_same_fraction(known, claimed):
            return True
        return _agrees(known, claimed, known.value, claimed.value)
    one_has_no_unit = "" in (known.kind, claimed.kind)
    if not one_has_no_unit:  # units of two kinds, such as metres and days
        return False
    if "share" in (known.kind, claimed.kind):
        return _is_same_fraction(known, claimed)
    return _agrees(known, claimed, known.bare, claimed.bare)


def _agrees(known: Number, claimed: Number, known_value: float, claimed_value: float) -> bool:
    """Return True if the value of a number of the contexts (`known`) is the value of a number of the
    answer (`claimed`), or lies in the range around it that a hedge such as "about" allows.

    Versions without a hedge must also agree part by part: 3.10 is not 3.1.

    Args:
        known_value, claimed_value: in the same unit, or both as they are written.
    """
    low_factor, high_factor = _HEDGES.get(claimed.hedge, (1, 1))  # 0.95 and 1.05 for "about"
    ends = (claimed_value * low_factor, claimed_value * high_factor)
    low, high = min(ends), max(ends)  # a negative value turns them round
    rounding = 1e-9 * max(abs(known_value), abs(claimed_value))
    if not low - rounding <= known_value <= high + rounding:
        return False
    if claimed.hedge:
        return True
    is_version = known.version or claimed.version
    return not is_version or _version_parts(known) == _version_parts(claimed)


def _holds_date(known: Number, claimed: Number) -> bool:
    """Return True if a number of the contexts (`known`) holds a number of the answer (`claimed`); at least
    one of the two is a date (year, month, day; 0: not given).

    Two dates must agree in all parts that the claimed one has. A claimed year is held by the bare
    number, and a claimed bare number by the year or the day of a date.
    """
    if claimed.kind == known.kind:
        return all(a in (0, b) for a, b in zip(claimed.date, known.date, strict=True))
    if claimed.kind == "date":
        year, month, day = claimed.date
        return month == day == 0 and known.value == year
    year, _, day = known.date
    return not claimed.kind and claimed.value in {year, day} - {0}


def _version_parts(number: Number) -> tuple[str, ...]:
    """Return the parts of a number read as a version, without a part of zeros: 2.0 has the parts of
    2, but 3.10 not the parts of 3.1.
    """
    numeral = re.search(r"(\d+)[.,](\d+)", number.text)
    if numeral is None:
        return (f"{number.bare:.0f}",)
    major, minor = numeral.groups()
    is_zero = not minor.strip("0")
    return (major,) if is_zero else (major, minor)


def _is_within(known: Number, first: int, last: int) -> bool:
    """Return True if a year, decade or century lies in these years (a century begins in 1800 or
    1801).
    """
    if known.years[1]:
        return first - 1 <= known.years[0] and known.years[1] <= last + 1
    if known.kind == "date":
        return first <= known.date[0] <= last
    return known.kind == "" and max(first, 100) <= known.value <= last


def _is_same_fraction(one: Number, other: Number) -> bool:
    """Return True if both are the same part of a whole, as "25 %" and "a quarter" are. A decimal or a
    percentage may be a rounded or cut fraction: "0.33", "0.66" and "67 %" are thirds.
    """
    first = _part_of_whole(one)
    second = _part_of_whole(other)
    if one.kind != other.kind and not 0 < max(first, second) < 1:
        return False  # 100 % is not "one", and 150 % not 1.5
    is_equal = abs(first - second) <= 1e-9
    if is_equal or _is_fraction(one) == _is_fraction(other):
        return is_equal
    fraction, rounded = (one, other) if _is_fraction(one) else (other, one)
    # decimals of the part of the whole: 2 for "67 %" and "0.67", 3 for "66.7 %", and 2 for "0.3", too
    n_written = len(str(rounded.bare).partition(".")[2].rstrip("0"))
    n_decimals = n_written + 2 if rounded.kind == "share" else max(n_written, 2)
    step = 10.0**-n_decimals  # one in the last digit
    excess = round(_part_of_whole(rounded) - _part_of_whole(fraction), 12)
    # rounding 0.6667 to 0.67 adds at most half a step, cutting it to 0.66 takes less than one
    return -step < excess <= step / 2


def _part_of_whole(number: Number) -> float:
    return number.value / 100 if number.kind == "share" else number.bare


def _is_fraction(number: Number) -> bool:
    """Return True if a number was written as a fraction ("2/3"), not in per cent."""
    return number.kind == "share" and math.isclose(number.value, 100 * number.bare)
