"""Similarity of an answer to its labels, without a language model.

All are in [0, 1], higher is better. They reward wording: a correct answer in other words can score low, a wrong one
that repeats the reference can score high. Use them to compare configurations, not to verify answers.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ragbench.errors import DataError

# scripts written without spaces between words: each character counts as a word
_SIGN = r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"
_NUMBER = r"(?:(?<!\w)[-\u2212])?(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)*|\d+(?:\.\d+)*)"
_OPERATOR = re.compile(r"[=+^<>|~&@#*]")
_EMPHASIS = re.compile(r"(?<![*\w])\*{1,2}(\w[^*]*)(?<=\w)\*{1,2}(?![*\w])")  # of Markdown: "*so*", "**so**"
_WORD = re.compile(rf"{_SIGN}|{_NUMBER}|(?:(?!{_SIGN})\w)+")


class _Dropped(dict[int, int | None]):
    """A table for str.translate that drops punctuation and symbols; in ASCII these are `string.punctuation`."""

    def __missing__(self, code: int) -> int | None:
        self[code] = None if unicodedata.category(chr(code))[0] in "PS" else code
        return self[code]


_DROPPED = _Dropped()


def token_f1(answer: str, reference: str) -> float:
    """Return the harmonic mean of word precision and recall of an answer against the reference, in [0, 1].

    As in SQuAD (Rajpurkar et al. 2016): words after lower-casing and removing punctuation and the articles a, an,
    the, counted as often as they occur in both. For ASCII this is SQuAD's own number; beyond it, letters are
    compared after NFKC and case folding, punctuation of every script is dropped, and scripts without spaces
    (Chinese, Japanese, Thai ...) count by character. Where no word is left of either text, it is 1 if they are equal,
    else 0.

    >>> token_f1("The tower is in Paris, France.", "in Paris")
    0.5714285714285715
    """
    words_of_answer, words_of_reference = squad_words(answer), squad_words(reference)
    if not words_of_answer or not words_of_reference:
        return float(answer.strip().casefold() == reference.strip().casefold())
    common = (Counter(words_of_answer) & Counter(words_of_reference)).total()
    precision, recall = common / len(words_of_answer), common / len(words_of_reference)
    return 2 * precision * recall / (precision + recall) if common else 0.0


def gold_fact_coverage(answer: str, facts: Sequence[Sequence[str]]) -> float:
    """Return the fraction of `facts` that the answer states in one of their wordings, in [0, 1]; NaN without facts.

    A fact is a sequence of wordings: the fact itself, then aliases. A wording is stated if the answer contains
    its words in a row, ignoring case and punctuation, and not as part of longer words. A number is one word, with its
    sign and decimals: "3" is not stated by "3.5", "13" or "-3"; "1,000" is "1000". A wording with operators, such as
    "2**n" or "C++", or without letters and digits, such as "**", must match exactly but for case and white space.

    >>> facts = [["1889"], ["300 m", "330 metres", "330 m"], ["Eiffel", "G. Eiffel"]]
    >>> gold_fact_coverage("It opened in 1889, and is 330 m tall.", facts)
    0.6666666666666666
    """
    return sum(stated_facts(answer, facts)) / len(facts) if len(facts) else math.nan


def stated_facts(text: str, facts: Sequence[Sequence[str]]) -> list[bool]:
    """Return for each fact whether the text states it in one of its wordings, by the rules of `gold_fact_coverage`.

    >>> stated_facts("It opened in 1889.", [["1889"], ["Eiffel", "G. Eiffel"]])
    [True, False]

    Raises:
        DataError: a fact is a text, or has no wording.
    """
    for fact in facts:
        if isinstance(fact, str) or len(fact) == 0:
            raise DataError(f"a gold fact is a sequence of wordings such as ('1889', 'in 1889'), not {fact!r}")
    if not facts:
        return []
    spaced = f" {' '.join(words(text))} "
    return [any(_states(text, spaced, wording) for wording in fact) for fact in facts]


def keyword_coverage(answer: str, keywords: Sequence[str]) -> float:
    """Return the fraction of distinct `keywords` that the answer contains, in [0, 1]; NaN if there are none.

    A keyword is one or more words, matched at word boundaries as a gold fact (`gold_fact_coverage`): "cat" is not in
    "concatenate", nor "3" in "3.5". Inflected forms are other words.

    >>> keyword_coverage("Reset it under Settings, then log in again.", ["settings", "log in", "password"])
    0.6666666666666666
    """
    n = len(set(keywords))
    return (n - len(missing_keywords(answer, keywords))) / n if n else math.nan


def missing_keywords(answer: str, keywords: Sequence[str]) -> list[str]:
    """Return the keywords that the answer does not contain, each once, in their order.

    >>> missing_keywords("Reset it under Settings.", ["settings", "log in", "password"])
    ['log in', 'password']
    """
    if isinstance(keywords, str):
        raise DataError(f"keywords are a sequence such as ('settings', 'log in'), not the text {keywords!r}")
    return [keyword for keyword in dict.fromkeys(keywords) if not stated_facts(answer, [[keyword]])[0]]


def semantic_similarity(
    answers: npt.NDArray[np.floating], references: npt.NDArray[np.floating]
) -> npt.NDArray[np.float64]:
    """Return the cosine of each row of `answers` (n, dimension) with the same row of `references`, clipped to [0, 1].

    A row of zeros, the vector of an empty text, scores 0. Values are rounded to 6 decimals, because
    further digits of an embedding depend on its batch. The scale depends on the model: compare within one model only.

    >>> semantic_similarity(np.array([[1.0, 0.0], [3.0, 4.0]]), np.array([[-1.0, 0.0], [3.0, 0.0]])).tolist()
    [0.0, 0.6]
    """
    if answers.shape != references.shape or answers.ndim != 2:
        raise DataError(
            f"answers and references need the same shape (n, dimension), not {answers.shape} and {references.shape}"
        )
    left, right = answers.astype(np.float64), references.astype(np.float64)
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    dots = np.einsum("ij,ij->i", left, right)
    cosines = np.divide(dots, lengths, out=np.zeros(len(dots)), where=lengths > 0)
    rounded: npt.NDArray[np.float64] = np.round(np.clip(cosines, 0.0, 1.0), 6)
    return rounded


def squad_words(text: str) -> list[str]:
    bare = unicodedata.normalize("NFKC", text).casefold().translate(_DROPPED)
    spaced = re.sub(_SIGN, r" \g<0> ", re.sub(r"\b(a|an|the)\b", " ", bare))
    return spaced.split()


def words(text: str) -> list[str]:
    """Return the words of a text as facts and keywords are compared: NFKC, case folded, without punctuation.

    A number is one word with its sign and decimals and without thousands separators; in scripts without spaces each
    character is one.

    >>> words("It's 1,000.5 m - ½ of THAT.")
    ['it', 's', '1000.5', 'm', '1', '2', 'of', 'that']
    """
    return list(_words(text))


@lru_cache(maxsize=2_000)  # the measures of a context read the same texts many times
def _words(text: str) -> tuple[str, ...]:
    matches = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return tuple(word.replace(",", "").replace("\u2212", "-") for word in matches)


def _states(answer: str, text: str, wording: str) -> bool:
    plain = words(wording)
    bare = _EMPHASIS.sub(r"\1", wording)
    if plain and not _OPERATOR.search(bare):
        return f" {' '.join(plain)} " in text
    parts = re.findall(r"\w+|[^\w\s]", bare.casefold())
    if not parts:
        return False
    # "*" is not stated by "**", nor "n+1" by "n+10"
    before, after = (r"\w" if part.isalnum() else re.escape(part) for part in (parts[0], parts[-1]))
    spaced = (r"\s+" if a[-1].isalnum() and b[0].isalnum() else r"\s*" for a, b in pairwise(parts))
    exact = "".join(f"{re.escape(part)}{gap}" for part, gap in zip(parts, [*spaced, ""], strict=True))
    return re.search(f"(?<!{before}){exact}(?!{after})", answer.casefold()) is not None
