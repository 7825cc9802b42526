"""The words of texts in every language; the language of texts, with its stemmer and function words.

The languages are listed in languages.toml.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import islice, pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import regex

from ragbench import folding
from ragbench.errors import ConfigError, unknown, warn_user
from ragbench.files import bundled
from ragbench.folding import folded
from ragbench.groups import grouped
from ragbench.types import Chunk

UNSPACED_SET = r"[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
"""The set of characters of scripts that are written without spaces between words (package regex)."""

SIGN = rf"[\w&&{UNSPACED_SET}]\p{{M}}*"
SPACED = rf"[\w--{UNSPACED_SET}]"
"""A letter, mark, digit or underscore of words that are written with spaces between them."""

WORD = regex.compile(rf"{SIGN}|{SPACED}+", regex.V1)
"""A word: letters with their marks, digits, underscores; a single letter with its marks in a script
that is written without spaces.
"""

_RUN = regex.compile(rf"(?:{SIGN}|\p{{Hangul}})+|[\w--{UNSPACED_SET}--\p{{Hangul}}]+", regex.V1)
UNSPACED = regex.compile(rf"{SIGN}", regex.V1)
_SIGNS = regex.compile(rf"{SIGN}|\p{{Hangul}}", regex.V1)


@cache
def word_code() -> bytes:
    """Return the code and the tables that find the words and the language of a text: a part of the key
    of every stored result that depends on them.
    """
    languages = Path(__file__)
    files = (languages, languages.with_name("languages.toml"), Path(folding.__file__))
    return b"".join(file.read_bytes() for file in files)


def words(text: str) -> list[str]:
    """Return the words of a text, folded, as every search and comparison uses them.

    >>> words("Don't use f(x_1)!"), words("हिन्दी भाषा"), words("在Paris")
    (['don', 't', 'use', 'f', 'x_1'], ['हिन्दी', 'भाषा'], ['在', 'paris'])
    """
    return list(WORD.findall(folded(text)))


def terms(text: str) -> list[str]:
    """Return the terms of a text for a search: words of two letters or more; in scripts that are written
    without spaces, and in Korean, whose particles are written next to nouns, each pair of
    neighbouring letters.

    >>> terms("東京都2024"), terms("서울은")
    (['東京', '京都', '2024'], ['서울', '울은'])
    """
    text = folded(text)
    if text.isascii():  # also most texts with typographic spaces and dashes, once they are folded
        return re.findall(r"\w{2,}", text)
    found: list[str] = []
    for run in _RUN.findall(text):  # a word, or a stretch of letters of these scripts
        # No letter of these scripts is ASCII: most runs need no second search.
        letters = [] if run.isascii() else _SIGNS.findall(run)
        if letters:
            pairs = [first + second for first, second in pairwise(letters)]
            found += pairs or letters  # a single letter has no pair
        elif len(run) > 1:
            found.append(run)
    return found


def n_words(text: str) -> float:
    """Return the approximate number of words of a text; in scripts that are written without spaces two
    letters are one word, in scripts of South-East Asia three.

    >>> n_words("It's 2024: two words"), n_words("東京都"), n_words("รถไฟ")
    (5.0, 1.5, 1.3333333333333335)
    """
    unspaced = UNSPACED.findall(text)  # each counts as a word, and should count as 1/2 ...
    n_south_east_asian = sum("\u0e00" <= letter < "\u1800" for letter in unspaced)  # ... or 1/3
    return float(len(WORD.findall(text)) - len(unspaced) / 2 - n_south_east_asian / 6)


# Possessive, since a digit that is given back is one that must not follow.
_COMMA = re.compile(r"(?<![\d.,])(?:\d{1,3}(?:\.\d{3})++(?:,\d+)?+|\d+,\d++)(?![\d.,]*\d)")
_SWAPPED = str.maketrans(".,", ",.")

NONE = "none"
"""The language of texts in none of the known languages: nothing is stemmed or left out."""

_SAMPLED_TEXTS = 400
_SAMPLED_CHARACTERS = 1_000  # of each
_MIN_PROBABILITY = 0.5  # of the language of a text, among these and _OTHERS
_FEW_TEXTS = 10  # the language of fewer texts is never called unclear
_FIRST_TEXTS = 50  # texts of a corpus that are looked at first ...
_UNANIMOUS = 0.95  # ... and the fraction of them whose one language is that of the corpus
_CLEAR = 2  # the language of a corpus has this many times as many texts as any other
_FEW_WORDS = 50  # texts in ASCII with fewer different words count as English
# Further answers of the detector: texts without words, and frequent other languages.
_OTHERS = "zxx af hr lv ms sk sl sq sw".split()


@dataclass(frozen=True, eq=False)
class Language:
    """A language: its code, its name, the script of its letters, and its stemmer of Snowball ("":
    none).

    `words` are its function words; a word worth searching for has `letters` letters or more; `comma`
    is True if decimals follow a comma. `ragbench.llms.reply_text` recognises abstentions by
    `negations`, `documents`, `tell`, `unknown`, `unsure`, `sorry` and `but`.
    """

    code: str
    name: str
    script: str = "Latin"
    stemmer: str = ""
    words: str = ""
    negations: str = ""
    letters: int = 4
    comma: bool = False
    documents: str = ""
    tell: str = ""
    unknown: str = ""
    unsure: str = ""
    sorry: str = ""
    but: str = ""

    @property
    def is_english(self) -> bool:
        """Return True for English, and for texts in no known language, which are read as English."""
        return self.code in ("en", NONE)

    def with_points(self, text: str) -> str:
        """Return a text with decimal points in numbers; it is unchanged unless the language has decimal
        commas.

        >>> find_language("de").with_points("1.234,5 m")
        '1,234.5 m'
        """
        if not self.comma:
            return text
        return _COMMA.sub(lambda number: number[0].translate(_SWAPPED), text)

    @cached_property
    def function_words(self) -> frozenset[str]:
        """Return the function words in the form of `words`."""
        return frozenset(words(self.words))


LANGUAGES = {
    code: Language(code, **fields) for code, fields in bundled(__file__, "languages.toml").items()
}
NO_LANGUAGE = Language(NONE, "an unknown language", script="")
_SCRIPTS = grouped(LANGUAGES.values(), attrgetter("script"))


def find_language(code: str) -> Language:
    """Return the language of an ISO 639-1 code, or of the code "none".

    >>> find_language("de").name
    'German'

    Raises:
        ConfigError: the language is not supported.
    """
    if code == NONE:
        return NO_LANGUAGE
    if code not in LANGUAGES:
        raise ConfigError(f"{unknown('language', code, LANGUAGES)}, {NONE}; '' detects it")
    return LANGUAGES[code]


_SCRIPT = regex.compile(
    "|".join(rf"(?P<{script}>\p{{{script}}})" for script in _SCRIPTS).replace(
        r"\p{Hiragana}", r"[\p{Hiragana}\p{Katakana}]"
    )
)
_script = cache(_SCRIPT.match)  # of a character


def detect_language(texts: Iterable[str], default: Language | None = None) -> Language:
    """Return the language of most of the texts, by the script of their letters and by py3langid; the
    first 1,000 characters of the first 400 texts are read.

    If no text has a recognised language: texts with few words have the language `default` (None means
    English for ASCII, else `NO_LANGUAGE`), and texts with many words have `NO_LANGUAGE`.

    >>> detect_language(["Der Turm ist seit 1889 offen und wird von der Stadt betrieben."]).name
    'German'
    >>> detect_language(["塔于1889年开放。"]).code, detect_language(["qwx zzt"]).code
    ('zh', 'en')
    """
    sample = [text[:_SAMPLED_CHARACTERS] for text in islice(texts, _SAMPLED_TEXTS)]
    votes: Counter[Language] = Counter()
    for text in sample:
        language = _detect_in_one(text)
        if language is None:
            continue
        votes[language] += 1
        if 2 * votes[language] > len(sample):
            return language  # the others together have fewer
    if votes:
        return max(votes, key=lambda language: votes[language])
    joined = "\n".join(sample)
    if language := _detect_in_one(joined):  # texts that are too short one by one
        return language
    has_many_words = len(set(terms(joined))) >= _FEW_WORDS
    if has_many_words:
        return NO_LANGUAGE
    if default is not None:
        return default
    return LANGUAGES["en"] if joined.isascii() else NO_LANGUAGE


@lru_cache(maxsize=10_000)  # chunks are asked about at several stages
def _detect_in_one(text: str) -> Language | None:
    """Return the language of a text; None if it is too short to tell, or in an unknown language.

    A script that one language alone uses decides; else py3langid chooses among the script's languages.
    """
    candidates = _SCRIPTS[_main_script(text)]
    if len(candidates) == 1:
        return candidates[0]
    detector = _detector()
    if detector is None:
        return None
    code, probability = detector.classify(text)
    if probability < _MIN_PROBABILITY:
        return None
    return next((language for language in candidates if language.code == code), None)


def _main_script(text: str) -> str:
    """Return the name of the script of most letters; "Latin" if no letter is of a known script.

    Japanese is written in Hiragana and Han: if there is more than one letter of Hiragana for ten of Han,
    both count as "Hiragana".
    """
    if text.isascii():
        return "Latin"
    n_letters: Counter[str] = Counter()  # of each script
    for character, count in Counter(text).items():
        if match := _script(character):
            n_letters[match.lastgroup] += count
    if n_letters["Hiragana"] > 0.1 * n_letters["Han"]:
        n_letters["Hiragana"] += n_letters.pop("Han", 0)
    return max(n_letters, key=lambda script: n_letters[script], default="Latin")


@cache
def _detector() -> Any:
    """Return the detector of py3langid for all languages of ragbench; None, with a warning, if no
    temporary file can be written, which it needs to unpack its model.
    """
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    try:
        detector = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    except OSError as exc:
        warn_user(
            f"no language was detected, as no temporary file can be written ({exc.strerror}); make "
            "room, or name the language"
        )
        return None
    detector.set_languages([*LANGUAGES, *_OTHERS])
    return detector


def language_of(
    chunks: Sequence[Chunk], code: str = "", questions: Collection[str] = ()
) -> Language:
    """Return the language of a code; if the code is "", the language of most chunks.

    A small sample, spread over all chunks, decides if its texts agree; else a larger one. If no
    language has twice as many chunks as any other, the questions are counted, too; if the result is
    still close, a DataWarning names the language: "en, by a small margin".
    """
    if code:
        return find_language(code)
    step = max(1, len(chunks) // _SAMPLED_TEXTS)
    sample = [chunk.text for chunk in chunks[::step]]
    # Detecting the language of 400 texts takes longer than indexing a thousand.
    small_sample = sample[:: max(1, len(sample) // _FIRST_TEXTS)]
    language, n_votes = next(iter(_count_languages(small_sample).most_common(1)), (NO_LANGUAGE, 0))
    # 95 % of 50 texts or more; fewer texts cannot have so many, and all of them are counted below
    n_needed = _UNANIMOUS * max(len(small_sample), _FIRST_TEXTS)
    if n_votes >= n_needed:
        return language
    votes = _count_languages(sample)
    if _is_clear(votes):
        # counts as above, and decides if no text has a recognised language
        return detect_language(sample)
    votes += _count_languages(questions)
    language = max(votes, key=lambda each: votes[each]) if votes else detect_language(sample)
    if not _is_clear(votes):
        others = ", ".join(f"{each.code} {n}" for each, n in votes.most_common(4))
        warn_user(
            f"the language of the documents is {language.code}, by a small margin (texts in "
            f"{others}); name it as `language` if it is another one"
        )
    return language


def _count_languages(texts: Iterable[str]) -> Counter[Language]:
    """Return language -> the number of the first 400 texts in it."""
    votes: Counter[Language] = Counter()
    for text in islice(texts, _SAMPLED_TEXTS):
        language = _detect_in_one(text[:_SAMPLED_CHARACTERS])
        if language is not None:
            votes[language] += 1
    return votes


def _is_clear(votes: Counter[Language]) -> bool:
    """Return True if one language has twice as many texts as any other, or there are few texts."""
    most, second, *_ = [*sorted(votes.values(), reverse=True), 0, 0]
    return most >= _CLEAR * second or votes.total() < _FEW_TEXTS
