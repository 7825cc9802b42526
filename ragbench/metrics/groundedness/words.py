"""Words as groundedness compares them: stems with a weight for how informative a word is."""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ragbench.segments import load_tokenizer

# scripts written without spaces between words: each sign counts as a word
_SIGN = r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"
_NOT = r"n['’]t\b"
_LETTER = rf"(?:(?![\d_]|{_SIGN})\w)"
_WORD = re.compile(rf"{_SIGN}|\d+(?:[.,]\d+)*|{_NOT}|(?:{_LETTER}\.){{2,}}|(?:(?!{_NOT}){_LETTER})+", re.IGNORECASE)
_BEGINS = re.compile(r"[.!?:;\"“”\n•*]")  # between two words: the second one may have a capital for that alone
_WHOLE = {"n't": "not", "n’t": "not", "ca": "can", "wo": "will"}
_FIRST_WORD_PIECE = 1996  # in BERT's vocabulary whole words are in order of frequency, from "the" at this place
_LAST_WORD_PIECE = 30521


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text: its stem, its place, how informative it is (0.05 to 1.1), and if it looks like a name."""

    stem: str
    start: int
    end: int
    weight: float
    name: bool
    number: bool


def words(text: str) -> list[Word]:
    """The words of a text in their order.

    Stems are Snowball's (English) after NFKC and case folding; "isn't" is "is not". The weight rises with rarity, from
    0.05 for "the" to 1.1 for a word outside the vocabulary of BERT, whose order is by frequency. A name begins with a
    capital letter and does not begin a sentence, or is rare enough there.

    >>> [(word.stem, round(word.weight, 2), word.name) for word in words("The towers of Paris aren't safe.")]
    [('the', 0.05, False), ('tower', 0.78, False), ('of', 0.05, False), ('pari', 0.54, True), ('are', 0.05, False), \
('not', 0.06, False), ('safe', 0.61, False)]
    """
    return list(_words(text))


@lru_cache(maxsize=5_000)
def _words(text: str) -> tuple[Word, ...]:
    found: list[Word] = []
    letters = list(filter(str.isalpha, text))
    shouted = sum(map(str.isupper, letters)) > 0.6 * len(letters)
    end, first = 0, True
    for match in _WORD.finditer(text):
        raw, gap = match.group(), text[end : match.start()]
        end, first = match.end(), first or (gap != " " and _BEGINS.search(gap) is not None)
        folded = unicodedata.normalize("NFKC", raw).casefold()
        if folded == "s" and gap[-1:] in {"'", "’"}:
            continue
        folded = _WHOLE.get(folded, folded) if folded != "ca" or text[end : end + 1].lower() == "n" else folded
        stem, weight, number = _known(folded)
        capital = raw[0].isupper() and not (number or shouted) and weight > 0.15
        name = capital and (weight >= 0.95 if first else len(raw) > 1)
        found.append(Word(stem, match.start(), end, weight, name, number))
        first = False
    return tuple(found)


@lru_cache(maxsize=1)
def _vocabulary() -> dict[str, int]:
    vocabulary: dict[str, int] = load_tokenizer("minilm").get_vocab()
    return vocabulary


@lru_cache(maxsize=100_000)
def _known(folded: str) -> tuple[str, float, bool]:
    """Stem and weight of a word in lower case, and whether it is a number."""
    if folded[0].isdigit():
        return folded.replace(",", ""), 0.8, True
    return _stemmer().stemWord(_plain(folded.replace(".", ""))), _rarity(folded), False


def _rarity(word: str) -> float:
    place = _vocabulary().get(_plain(word))
    if place is None:
        return 1.1
    if place < _FIRST_WORD_PIECE:
        return 0.3 if len(word) == 1 else 1.0
    rank = place - _FIRST_WORD_PIECE + 1
    share = (math.log(rank) - math.log(20)) / (math.log(_LAST_WORD_PIECE - _FIRST_WORD_PIECE) - math.log(20))
    return min(1.0, max(0.05, share))


def _plain(word: str) -> str:
    return "".join(sign for sign in unicodedata.normalize("NFD", word) if not unicodedata.combining(sign))


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("english")
