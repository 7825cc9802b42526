"""An estimate of the correctness of an answer from several signals, with a reference answer and no
judge.

No single measure is enough. Token F1 is low for a long answer to a short question, and semantic
similarity is high for one that repeats the question with a wrong detail.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from ragbench.errors import DataError
from ragbench.metrics.answers import squad_words, token_f1

SIGNALS = (
    "token_f1",
    "semantic_similarity",
    "gold_fact_coverage",
    "contains_reference",
    "within_reference",
    "reference_recall",
    "other_details",
    "negation_differs",
)
"""The inputs of the estimate: three measures of answers, and those of `overlaps`."""

MAX_WORDS = 15
"""Answers and references of so many words are not estimated: there the estimate was below guessing.
"""

LONG, UNDECIDED = 5, (0.2, 0.8)
"""From so many words on, an estimate between these values is not given."""

_DETAIL = re.compile(r"\d[\w.,]*|(?<![.!?] )(?<!^)\b[A-Z][\w-]+")
_NEGATION = re.compile(r"(?i)\b(?:not?|never|none|neither|nor|without|cannot)\b|n['’]t\b")


@lru_cache(maxsize=1)
def coefficients() -> dict[str, list[float]]:
    """Return the fitted weights: signal -> that of its value and that of its absence; "bias" ->
    [bias].
    """
    path = Path(__file__).with_name("correctness_coefficients.json")
    weights: dict[str, list[float]] = json.loads(path.read_text(encoding="utf-8"))
    return weights


def correctness_estimate(signals: Mapping[str, float], *, words: int = 0) -> float:
    """Estimate the probability that a short answer is correct, in [0, 1]: logistic regression on
    the given `SIGNALS`.

    NaN where the answer or the reference has `MAX_WORDS` (15) words or more, or without gold facts
    has `LONG` (5) or more and the value is between 0.2 and 0.8. On 1,490 verdicts of people in a
    public set, the estimate without these limits had an accuracy of 0.79 (two people: 0.87), but
    0.67 for answers of 5 to 15 words and 0.61 for longer ones, where always giving the more
    frequent verdict has 0.77 and 0.65. Whether a long answer is right takes a judge, or gold
    facts. All of these are in English: `diagnose` estimates no answers in another language.

    Balanced accuracy at 0.5 on 10,807 correct and wrong answers made by rule from human texts
    (SQuAD, CLAPNQ, PubMedQA), in 5-fold cross-validation over questions, with a reference only:
    1.00 where both texts have up to 4 words, 0.97 from 5 to 14 (0.996 for the 92 % that are
    decided), 0.85 for the longer ones, which have no estimate; semantic similarity from 0.7 on has
    0.66 over all. Such answers are easier than those of systems.

    Args:
        signals: of `ragbench.metrics.score_answers` (token_f1, semantic_similarity with minilm,
        gold_fact_coverage) and
            `overlaps`. NaN means missing.
        words: the number of words of the answer or of the reference, whichever has more.

    >>> from ragbench.metrics.answers import token_f1
    >>> def estimate(answer, reference):
    ...     signals = {"token_f1": token_f1(answer, reference), **overlaps(answer, reference)}
    ...     return correctness_estimate(signals, words=max(len(answer.split()), len(reference.split())))
    >>> estimate("It was opened in the spring of 1881.", "1881") > 0.5
    True
    >>> estimate("It was opened in the spring of 1900.", "1881") > 0.5
    False
    >>> estimate("It was opened in the spring of 1881, after ten years of work in the hills.", "1881")
    nan

    Raises:
        DataError: a signal that does not exist or is outside [0, 1].
    """
    for name, value in signals.items():
        if name not in SIGNALS or not (math.isnan(value) or 0 <= value <= 1):
            raise DataError(
                f"signal {name!r} is {value!r}; expected a number in [0, 1] for one "
                f"of {', '.join(SIGNALS)}"
            )
    weights = coefficients()
    pairs = zip(
        signal_inputs(signals),
        (weight for name in SIGNALS for weight in weights[name]),
        strict=True,
    )
    estimate = 1 / (
        1 + math.exp(-weights["bias"][0] - sum(value * weight for value, weight in pairs))
    )
    without_facts = math.isnan(signals.get("gold_fact_coverage", math.nan))
    unclear = without_facts and words >= LONG and UNDECIDED[0] < estimate < UNDECIDED[1]
    return math.nan if words >= MAX_WORDS or unclear else estimate


def overlaps(answer: str, reference: str) -> dict[str, float]:
    """Return the signals that need both texts, each in [0, 1], by the words of
    `ragbench.metrics.answers.token_f1`.

    - contains_reference, within_reference: 1 where one text contains the words of the other in a
      row, else 0.
    - reference_recall: the fraction of the reference's words that the answer contains.
    - other_details: of the numbers and capitalised words, the fraction of the reference's that the
      answer lacks or the fraction of the answer's that the reference lacks, whichever is smaller:
      high where one replaces another.
    - negation_differs: token F1 where one text has an odd number of negations and the other an even
      one, else 0.

    >>> overlaps("It opened in May 1881.", "in May 1900")["other_details"]
    0.5
    """
    answer_words, reference_words = squad_words(answer), squad_words(reference)
    row, wanted_row = f" {' '.join(answer_words)} ", f" {' '.join(reference_words)} "
    details, wanted_details = _details(answer), _details(reference)
    differs = 0.0
    if details and wanted_details:
        differs = min(
            len(wanted_details - {*answer_words}) / len(wanted_details),
            len(details - {*reference_words}) / len(details),
        )
    odd = (len(_NEGATION.findall(answer)) + len(_NEGATION.findall(reference))) % 2
    return {
        "contains_reference": float(bool(reference_words) and wanted_row in row),
        "within_reference": float(bool(answer_words) and row in wanted_row),
        "reference_recall": (Counter(answer_words) & Counter(reference_words)).total()
        / len(reference_words)
        if reference_words
        else 0.0,
        "other_details": differs,
        "negation_differs": token_f1(answer, reference) if odd else 0.0,
    }


def _details(text: str) -> set[str]:
    """Return the numbers and, except at the start of a sentence, the capitalised words, as of
    `squad_words`.
    """
    return {word for detail in _DETAIL.findall(text) for word in squad_words(detail)}


def signal_inputs(signals: Mapping[str, float]) -> list[float]:
    """Return two inputs of the regression for each of `SIGNALS`: (value, 0) where it is known, (0, 1)
    where it is not.
    """
    values = [signals.get(name, math.nan) for name in SIGNALS]
    return [
        number for value in values for number in ((0.0, 1.0) if math.isnan(value) else (value, 0.0))
    ]
