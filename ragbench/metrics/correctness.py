"""An estimate of the correctness of an answer from several signals, with a reference answer and no judge.

No single measure is enough. Token F1 is low for a long answer to a short question, and semantic similarity is high for
one that repeats the question with a wrong detail.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping

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

# Fitted by tests/fitting/correctness.py: signal -> its weight, and the weight of its absence.
BIAS = -6.41
WEIGHTS: Mapping[str, tuple[float, float]] = {
    "token_f1": (-1.44, 0.00),
    "semantic_similarity": (3.38, 2.43),
    "gold_fact_coverage": (4.78, 2.96),
    "contains_reference": (3.86, 0.39),
    "within_reference": (4.88, 0.39),
    "reference_recall": (3.41, 0.39),
    "other_details": (-2.72, 0.39),
    "negation_differs": (-4.34, 0.39),
}


_DETAIL = re.compile(r"\d[\w.,]*|(?<![.!?] )(?<!^)\b[A-Z][\w-]+")
_NEGATION = re.compile(r"(?i)\b(?:not?|never|none|neither|nor|without|cannot)\b|n['’]t\b")


def correctness_estimate(signals: Mapping[str, float]) -> float:
    """The estimated probability that an answer is correct, in [0, 1]: logistic regression on the given `SIGNALS`.

    Balanced accuracy at 0.5 on 10,807 correct and wrong answers made from human texts (SQuAD, CLAPNQ, PubMedQA), in
    5-fold cross-validation over questions: 0.88 with a reference answer only, 0.96 with gold facts as well; semantic
    similarity from 0.7 on reaches 0.66, token F1 from 0.5 on 0.65. On a collection left out of the fit (reference
    only): 0.86 on SQuAD, 0.81 on CLAPNQ, 0.82 on PubMedQA. It is weak for free paraphrases (0.68 of
    the answers by another person in CLAPNQ are recognised), and for a reference with one word exchanged (without gold
    facts, 0.15 are detected). A judge, or a calibration on your own answers, is more reliable.

    Args:
        signals: of `ragbench.scoring.score_answers` (token_f1, semantic_similarity with minilm, gold_fact_coverage) and
            `overlaps`. NaN means missing.

    >>> from ragbench.metrics.answers import token_f1
    >>> def estimate(answer, reference):
    ...     return correctness_estimate({"token_f1": token_f1(answer, reference), **overlaps(answer, reference)})
    >>> estimate("It was opened in the spring of 1881, after ten years of work.", "1881") > 0.5
    True
    >>> estimate("It was opened in the spring of 1900, after ten years of work.", "1881") > 0.5
    False

    Raises:
        DataError: a signal that does not exist or is outside [0, 1].
    """
    for name, value in signals.items():
        if name not in SIGNALS or not (math.isnan(value) or 0 <= value <= 1):
            raise DataError(
                f"signal {name!r} is {value!r}; expected a number in [0, 1] for one of {', '.join(SIGNALS)}"
            )
    inputs = iter(signal_inputs(signals))
    logit = BIAS + sum(weight * next(inputs) for name in SIGNALS for weight in WEIGHTS[name])
    return 1 / (1 + math.exp(-logit))


def overlaps(answer: str, reference: str) -> dict[str, float]:
    """The signals that need both texts, each in [0, 1], by the words of `ragbench.metrics.answers.token_f1`.

    - contains_reference, within_reference: 1 where one text contains the words of the other in a row, else 0.
    - reference_recall: the fraction of the reference's words that the answer contains.
    - other_details: of the numbers and capitalised words, the fraction of the reference's that the answer lacks or the
      fraction of the answer's that the reference lacks, whichever is smaller: high where one replaces another.
    - negation_differs: token F1 where one text has an odd number of negations and the other an even one, else 0.

    >>> overlaps("It opened in May 1881.", "in May 1900")["other_details"]
    0.5
    """
    own, wanted = squad_words(answer), squad_words(reference)
    row, wanted_row = f" {' '.join(own)} ", f" {' '.join(wanted)} "
    details, wanted_details = _details(answer), _details(reference)
    differs = 0.0
    if details and wanted_details:
        differs = min(len(wanted_details - {*own}) / len(wanted_details), len(details - {*wanted}) / len(details))
    odd = (len(_NEGATION.findall(answer)) + len(_NEGATION.findall(reference))) % 2
    return {
        "contains_reference": float(bool(wanted) and wanted_row in row),
        "within_reference": float(bool(own) and row in wanted_row),
        "reference_recall": (Counter(own) & Counter(wanted)).total() / len(wanted) if wanted else 0.0,
        "other_details": differs,
        "negation_differs": token_f1(answer, reference) if odd else 0.0,
    }


def _details(text: str) -> set[str]:
    """The numbers and, except at the start of a sentence, the capitalised words, as of `squad_words`."""
    return {word for found in _DETAIL.findall(text) for word in squad_words(found)}


def signal_inputs(signals: Mapping[str, float]) -> list[float]:
    """Two inputs of the regression for each of `SIGNALS`: (value, 0) where it is known, (0, 1) where it is not."""
    known = [signals.get(name, math.nan) for name in SIGNALS]
    return [one for value in known for one in ((0.0, 1.0) if math.isnan(value) else (value, 0.0))]
