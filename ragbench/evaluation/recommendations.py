"""What to try next, from the pattern of missed targets, with the figures behind each
recommendation.

These are the first things an experienced engineer would check, not proofs: only the next run shows
whether they help. Their texts are in advice.toml.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from ragbench.evaluation.records import Advice, MeasureResult
from ragbench.evaluation.targets import reaches
from ragbench.metrics.safety.detection import rate_interval

# Measures that show that the needed evidence was retrieved, and that it reached the model.
_RETRIEVED = ("R", "Success", "span_recall")
_REACHED = (
    "context_recall",
    "expected_document",
    "context_fact_recall",
    "context_evidence_recall",
    "context_chunk_recall",
    "llm_context_recall",
)
_FOUND = (*_RETRIEVED, *_REACHED)
_GROUNDED = (
    "claim_support",
    "calibrated:claim_support",
    "numeric_support",
    "llm_faithfulness",
    "overall_hallucination",
    "overall_llm_hallucination",
)
_STATED = ("gold_fact_coverage", "required_keywords", "contains_all", "expected_claims")
_RELEVANT = ("semantic_similarity", "token_f1", "llm_relevance", "llm_correctness")
_REPEATED = ("ngram_redundancy", "tfidf_redundancy")

_MAX_ABSTAINED = 0.1  # of the answerable questions; and of the unanswerable ones that are answered


class Figures(dict[str, MeasureResult]):
    """measure -> its row, of those with a target and a mean."""

    def missed(self, *names: str) -> tuple[str, ...]:
        """Return the figures of these measures, at any depth, that miss their reachable target."""
        return tuple(figure(row) for row in self._named(names) if row.verdict == "missed")

    def met(self, *names: str) -> tuple[str, ...]:
        """Return the figures of these measures, at any depth, that meet their target."""
        return tuple(figure(row) for row in self._named(names) if row.verdict == "passed")

    def _named(self, names: tuple[str, ...]) -> Iterator[MeasureResult]:
        return (row for measure, row in self.items() if measure.partition("@")[0] in names)


def recommend(
    rows: Iterable[MeasureResult], abstentions: pd.DataFrame | None = None
) -> tuple[Advice, ...]:
    """Return advice for one evaluated system, the earliest stage first; none where everything meets
    its target.

    Only measures that have a target and a mean count. Where the interval reaches a missed target
    nevertheless, the evidence notes it. A target beyond its ceiling is reported as out of reach,
    and nothing else is concluded from missing it.

    Args:
        rows: the measures, compared with their targets.
        abstentions: as from `abstention_table`.

    >>> support = MeasureResult("claim_support", "groundedness", 0.6, 0.5, 0.7, 40, 50, target=0.85,
    ...                         verdict="missed")
    >>> recall = MeasureResult("R@5", "retrieval", 0.9, 0.8, 0.95, 50, 50, target=0.7, verdict="passed")
    >>> [advice] = recommend([recall, support])
    >>> advice.title
    'Answers state what their context does not support, although the context is good'
    >>> advice.evidence
    ('claim_support 0.600 [0.500, 0.700] < 0.85 (40 of 50 scored)', 'R@5 0.900 [0.800, 0.950] >= 0.7 (50 of 50 scored)')
    """
    figures = Figures(
        {row.measure: row for row in rows if row.target is not None and row.value is not None}
    )
    advice = [
        *_of_failures(abstentions),
        *_of_ceilings(figures),
        *_of_figures(figures),
        *_of_abstentions(figures, abstentions),
        _advice(
            "outcomes",
            figures.missed("outcome_correct", "required_flags", "forbidden_flags_absent"),
        ),
    ]
    return tuple(one for one in advice if one.evidence)


@cache
def _texts() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("advice.toml").read_text(encoding="utf-8"))


def _advice(name: str, evidence: tuple[str, ...], **filled: object) -> Advice:
    """The advice of this name in advice.toml; it applies if there is evidence."""
    title, cause, action = (
        _texts()[name][part].format(**filled) for part in ("title", "cause", "action")
    )
    return Advice(title, cause, action, evidence)


def _of_failures(abstentions: pd.DataFrame | None) -> Iterator[Advice]:
    if abstentions is not None:
        failed, n = int(abstentions["failed"].sum()), int(abstentions.to_numpy().sum())
        yield _advice("failed", (f"{failed} of {n} questions failed",) if failed else ())


def _of_ceilings(figures: Figures) -> Iterator[Advice]:
    for row in figures.values():
        if row.verdict == "unreachable":
            evidence = (figure(row), f"ceiling {row.ceiling:.3f}")
            yield _advice("out_of_reach", evidence, measure=row.measure, ceiling=row.ceiling)


def _of_figures(figures: Figures) -> Iterator[Advice]:
    """Retrieval, context, groundedness, citations and answers, in this order."""
    missed, met = figures.missed, figures.met
    recall, reached, found, ranked = (
        missed(*_RETRIEVED),
        missed(*_REACHED),
        met(*_RETRIEVED),
        missed("nDCG", "RR", "AP"),
    )
    if recall or (reached and not found):
        yield _advice("not_retrieved", (*recall, *reached, *ranked))
    elif reached:
        yield _advice("not_reached", (*reached, *found))
    elif ranked:
        yield _advice("ranked_low", (*ranked, *found))
    yield _advice("irrelevant", missed("P", "F1", "llm_context_precision"))

    repeated, common = missed(*_REPEATED), missed("unique_token_ratio")
    if repeated:
        yield _advice("repeated", (*repeated, *common))
    elif common:
        yield _advice("few_new_words", (*common, *met(*_REPEATED)))
    yield _advice("facts_spread", missed("fact_dispersion"))
    yield _advice("diversity", missed("diversity_fits"))

    lacking, good = missed(*_FOUND), met(*_FOUND)
    if unsupported := missed(*_GROUNDED):
        name = "unsupported_lacking" if lacking else "unsupported_good" if good else "unsupported"
        yield _advice(name, (*unsupported, *(lacking or good)))
    yield _advice("citations_invented", missed("citation_form"))
    yield _advice(
        "citations_unsupported", missed("citation_content", "citation_accuracy", "overall_citation")
    )
    yield _advice("citations_missing", missed("citation_coverage", "min_citations"))
    if (left_out := missed(*_STATED)) and lacking:
        yield _advice("left_out_lacking", (*left_out, *lacking))
    elif left_out:
        yield _advice(
            "left_out", (*left_out, *good), although=" although it was found" if good else ""
        )
    yield _advice("off_topic", missed(*_RELEVANT))


def _of_abstentions(figures: Figures, abstentions: pd.DataFrame | None) -> Iterator[Advice]:
    if abstentions is None:
        return
    lacking, good = figures.missed(*_FOUND), figures.met(*_FOUND)
    counts = abstentions.astype(int).to_dict("index")
    answerable, unanswerable = counts["answerable"], counts["unanswerable"]
    silent = _rate(
        answerable["abstained"],
        sum(answerable.values()),
        "answerable questions abstained from",
    )
    bold = _rate(
        unanswerable["answered"],
        sum(unanswerable.values()),
        "unanswerable questions answered",
    )
    yield _advice(
        "abstains_lacking" if lacking else "abstains",
        (*silent, *(lacking or good)) if silent else (),
    )
    yield _advice("answers_anyway", bold)


def _rate(k: int, n: int, what: str) -> tuple[str, ...]:
    if n == 0 or k / n <= _MAX_ABSTAINED:
        return ()
    low, high = rate_interval(k, n)
    return (f"{k} of {n} {what}: {k / n:.3f} [{low:.3f}, {high:.3f}] > {_MAX_ABSTAINED:g}",)


def figure(row: MeasureResult) -> str:
    """Return a measure next to its target, with its interval and the number of scored questions."""
    assert row.value is not None
    assert row.target is not None
    missed = row.verdict != "passed"
    sign = ("<=", ">") if row.lower_is_better else (">=", "<")
    bounds, doubt = "", ""
    if row.ci_low is not None and row.ci_high is not None:
        bounds = f" [{row.ci_low:.3f}, {row.ci_high:.3f}]"
        if missed and reaches(
            row.ci_low if row.lower_is_better else row.ci_high, row.target, row.lower_is_better
        ):
            doubt = "; the interval includes the target: evaluate more questions"
    return (
        f"{row.measure} {row.value:.3f}{bounds} {sign[missed]} {row.target:g} "
        f"({row.n_scored} of {row.n} scored{doubt})"
    )
