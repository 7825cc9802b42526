"""Verdicts on claims: does the context hold them, and does an answer state them?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ragbench.generation.citations import without_citations
from ragbench.metrics.groundedness.claims import Claim, claims
from ragbench.metrics.groundedness.numbers import Number, numeric_fabrications
from ragbench.metrics.groundedness.support import claim_supports
from ragbench.metrics.groundedness.words import polarity_differs, text_states, words

STRICT = 0.5
"""The support from which an assertion counts as supported where no calibration gives a threshold: an arbitrary value,
on either side of which texts of different kinds are supported (`ragbench.metrics.calibrate_threshold`)."""

LENIENT = 0.6
"""The fraction of that support that an inference needs: a conclusion is worded further from what it rests on."""


CONTENT_SHARE = 0.5
"""The minimum fraction of a claim's words, by weight, that the cited text must contain."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the contexts hold a claim: `supported` is None for a general one, which is not checked.

    `support` is in [0, 1], see `claim_support`; `fabricated` are the numbers of the claim that no context holds.
    """

    claim: Claim
    support: float
    supported: bool | None
    fabricated: tuple[Number, ...] = ()


def check_claims(
    answer: str, contexts: Sequence[str], *, model: str = "minilm", threshold: float = STRICT
) -> list[Verdict]:
    """Each claim of the answer (see `claims`) compared with the contexts.

    An assertion is supported with a support of `threshold` at least and no fabricated number, an inference with
    LENIENT (0.6) times that at least, with any numbers; a general claim is not checked. The default, STRICT (0.5),
    is uncalibrated: what it means differs by the kind of text.

    >>> tower = ["The tower opened on 31 March 1889. It may be closed in strong wind."]
    >>> for verdict in check_claims("The tower opened in 1889. The tower opened in 1925.", tower):
    ...     print(verdict.supported, [number.text for number in verdict.fabricated])
    True []
    False ['1925']
    """
    return check_answers([(answer, contexts)], model=model, threshold=threshold)[0]


def check_answers(
    pairs: Sequence[tuple[str, Sequence[str]]], *, model: str = "minilm", threshold: float = STRICT
) -> list[list[Verdict]]:
    """`check_claims` of many (answer, contexts) at once."""
    found = [claims(answer) for answer, _ in pairs]
    asked = [(claim.text, pair[1]) for own, pair in zip(found, pairs, strict=True) for claim in own]
    supports = iter(claim_supports(asked, model=model))
    verdicts = []
    for own, (_, contexts) in zip(found, pairs, strict=True):
        verdicts.append([_verdict(claim, next(supports), contexts, threshold) for claim in own])
    return verdicts


def unsupported(verdicts: Sequence[Verdict]) -> list[Claim]:
    """The claims that were checked and are not supported, in their order."""
    return [verdict.claim for verdict in verdicts if verdict.supported is False]


def states(answer: str, claim: str, *, model: str = "minilm") -> bool:
    """Whether an answer states a claim: the answer, taken as the only context, supports it (STRICT, 0.5,
    which is uncalibrated).

    A claim that is in the answer word for word is always stated, and one with a number that the answer does
    not hold never is. "X is not safe" does not state "X is safe", nor the other way round.

    >>> states("Under load the bridge is not safe.", "The bridge is safe."), states("It is safe now.", "It is safe")
    (False, True)
    """
    return claims_stated([(answer, [claim])], model=model)[0][0]


def claims_stated(pairs: Sequence[tuple[str, Sequence[str]]], *, model: str = "minilm") -> list[list[bool]]:
    """`states` for many (answer, claims) at once: for each answer, whether it states each of the claims."""
    texts = [without_citations(answer) for answer, _ in pairs]
    asked = [(claim, [text]) for text, (_, wanted) in zip(texts, pairs, strict=True) for claim in wanted]
    supports = iter(claim_supports(asked, model=model))
    return [
        [_stated(claim, text, next(supports)) for claim in wanted]
        for text, (_, wanted) in zip(texts, pairs, strict=True)
    ]


def _stated(claim: str, text: str, support: float) -> bool:
    if text_states(text, claim):
        return True
    return support >= STRICT and not polarity_differs(claim, text) and not numeric_fabrications(claim, [text])


def _verdict(claim: Claim, support: float, contexts: Sequence[str], threshold: float) -> Verdict:
    fabricated = tuple(numeric_fabrications(claim.text, contexts))
    supported = {
        "assertion": support >= threshold and not fabricated,
        "inference": support >= LENIENT * threshold,
        "general": None,
    }[claim.kind]
    return Verdict(claim, support, supported, fabricated)


def citation_form(cited: Sequence[str], contexts: Sequence[str]) -> float:
    """The fraction of the cited ids that were retrieved, in [0, 1]; NaN where nothing is cited.

    The first of two stages of validity: does what is cited exist at all? See `cites_content` for the second.

    >>> citation_form(("rail#3", "invalid:7"), ["rail#0", "rail#3"])
    0.5
    """
    return sum(one in set(contexts) for one in cited) / len(cited) if cited else math.nan


def cites_content(claim: str, cited: str) -> bool:
    """Whether the text that a claim cites contains the claim's words: the second stage of validity.

    At least half of them by weight (see `words`: rarer words weigh more), compared by their stems. It shows that the
    citation is about the same thing, not that the claim is true: for that see `claim_support` of the cited text.

    >>> cites_content("The tower opened in 1889 [1].", "In 1889 the gates of the tower were opened.")
    True
    >>> cites_content("The tower opened in 1889 [1].", "Paris is the capital of France.")
    False
    """
    claim_words = words(without_citations(claim))
    total = sum(word.weight for word in claim_words)
    stems = {word.stem for word in words(cited)}
    return total > 0 and sum(word.weight for word in claim_words if word.stem in stems) >= CONTENT_SHARE * total
