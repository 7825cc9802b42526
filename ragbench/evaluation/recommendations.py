"""What to try next, from the pattern of missed targets, with the figures behind each
recommendation.

These are the first things an experienced engineer would check, not proofs: only the next run shows
whether they help. Their texts are in advice.toml.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from ragbench.errors import ConfigError, DataError
from ragbench.registry import higher_is_better

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

_SLACK = 1e-9  # the mean of many values of 0.7 is not 0.7 to the last bit


@dataclass(frozen=True, slots=True)
class Figure:
    """A measure compared with its target."""

    measure: str
    text: str
    missed: bool
    reachable: bool


class Figures(dict[str, Figure]):
    """measure -> its figure."""

    def missed(self, *names: str) -> tuple[str, ...]:
        """The figures of these measures, at any depth, that miss their reachable target."""
        return tuple(one.text for one in self._named(names) if one.missed and one.reachable)

    def met(self, *names: str) -> tuple[str, ...]:
        """The figures of these measures, at any depth, that meet their target."""
        return tuple(one.text for one in self._named(names) if not one.missed)

    def _named(self, names: tuple[str, ...]) -> Iterator[Figure]:
        return (figure for measure, figure in self.items() if measure.partition("@")[0] in names)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What is wrong in a line, its likely cause, what to try, and the figures that say so, one
    string each.
    """

    title: str
    cause: str
    action: str
    evidence: tuple[str, ...]


def recommend(
    summary: pd.DataFrame,
    targets: Mapping[str, float],
    *,
    ceilings: Mapping[str, float] | None = None,
    latency: pd.DataFrame | None = None,
    abstentions: pd.DataFrame | None = None,
    max_abstained: float = 0.1,
) -> list[Recommendation]:
    """Recommendations for one evaluated system, the earliest stage first; none where everything
    meets its target.

    Only measures that have a target and a mean count. A target is missed where the mean is on its
    wrong side; where the interval reaches it nevertheless, the evidence notes it. A target beyond
    its ceiling is reported as out of reach, and nothing else is concluded from missing it.

    Args:
        summary: as from `summarise`: measure, mean, ci_low, ci_high, n_scored, n. targets: measure
        -> the mean that it should reach, or not exceed where lower is better. ceilings: measure ->
        the best mean that any system could reach on these questions. latency: as from
        `latency_table`. abstentions: as from `abstention_table`. max_abstained: the accepted
        fraction of answerable questions abstained from, and of unanswerable questions
            answered.

    >>> import pandas as pd
    >>> summary = pd.DataFrame({"measure": ["R@5", "claim_support"], "mean": [0.9, 0.6], "ci_low": [0.8, 0.5],
    ...                         "ci_high": [0.95, 0.7], "n_scored": [50, 40], "n": [50, 50]})
    >>> found = recommend(summary, {"R@5": 0.7, "claim_support": 0.85})
    >>> found[0].title
    'Answers state what their context does not support, although the context is good'
    >>> found[0].evidence
    ('claim_support 0.600 [0.500, 0.700] < 0.85 (40 of 50 scored)', 'R@5 0.900 [0.800, 0.950] >= 0.7 (50 of 50 scored)')

    Raises:
        ConfigError: a target or `max_abstained` that is not a number, or out of range.
        DataError: columns are missing.
    """
    _check(summary, targets, max_abstained)
    figures = figures_of(summary, targets, ceilings or {})
    found = [
        *_of_failures(abstentions),
        *_of_ceilings(figures, ceilings or {}),
        *_of_figures(figures),
        *_of_abstentions(figures, abstentions, max_abstained),
        _advice(
            "outcomes",
            figures.missed("outcome_correct", "required_flags", "forbidden_flags_absent"),
        ),
        *_of_latency(latency),
    ]
    return [advice for advice in found if advice.evidence]


@cache
def _texts() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("advice.toml").read_text(encoding="utf-8"))


def _advice(name: str, evidence: tuple[str, ...], **filled: object) -> Recommendation:
    """The advice of this name in advice.toml; it applies if there is evidence."""
    title, cause, action = (
        _texts()[name][part].format(**filled) for part in ("title", "cause", "action")
    )
    return Recommendation(title, cause, action, evidence)


def _of_failures(abstentions: pd.DataFrame | None) -> Iterator[Recommendation]:
    if abstentions is not None:
        failed, n = int(abstentions["failed"].sum()), int(abstentions.to_numpy().sum())
        yield _advice("failed", (f"{failed} of {n} questions failed",) if failed else ())


def _of_ceilings(figures: Figures, ceilings: Mapping[str, float]) -> Iterator[Recommendation]:
    for figure in figures.values():
        if figure.missed and not figure.reachable:
            ceiling = ceilings[figure.measure]
            evidence = (figure.text, f"ceiling {ceiling:.3f}")
            yield _advice("out_of_reach", evidence, measure=figure.measure, ceiling=ceiling)


def _of_figures(figures: Figures) -> Iterator[Recommendation]:
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


def _of_abstentions(
    figures: Figures, abstentions: pd.DataFrame | None, max_abstained: float
) -> Iterator[Recommendation]:
    if abstentions is None:
        return
    lacking, good = figures.missed(*_FOUND), figures.met(*_FOUND)
    counts = abstentions.astype(int).to_dict("index")
    answerable, unanswerable = counts["answerable"], counts["unanswerable"]
    silent = _rate(
        answerable["abstained"],
        sum(answerable.values()),
        max_abstained,
        "answerable questions abstained from",
    )
    bold = _rate(
        unanswerable["answered"],
        sum(unanswerable.values()),
        max_abstained,
        "unanswerable questions answered",
    )
    yield _advice(
        "abstains_lacking" if lacking else "abstains",
        (*silent, *(lacking or good)) if silent else (),
    )
    yield _advice("answers_anyway", bold)


def _rate(k: int, n: int, max_rate: float, what: str) -> tuple[str, ...]:
    if n == 0 or k / n <= max_rate:
        return ()
    from scipy.stats import binomtest

    interval = binomtest(k, n).proportion_ci(method="wilson")
    return (
        f"{k} of {n} {what}: {k / n:.3f} [{interval.low:.3f}, {interval.high:.3f}] > {max_rate:g}",
    )


def _of_latency(latency: pd.DataFrame | None) -> Iterator[Recommendation]:
    for row in [] if latency is None else latency.to_dict("records"):
        if row["verdict"] == "over":
            taken = (
                f"p50 {row['p50']:.0f} ms, p95 {row['p95']:.0f} ms > {row['budget']:g} ms (n "
                f"= {row['n']})"
            )
            remedy = _texts()["slow"]["remedies"].get(row["stage"], "profile this stage")
            yield _advice(
                "slow", (taken,), stage=row["stage"], over=float(row["over"]), remedy=remedy
            )


def figures_of(
    summary: pd.DataFrame, targets: Mapping[str, float], ceilings: Mapping[str, float]
) -> Figures:
    """A figure of each measure of the summary that has a target and a mean."""
    figures = Figures()
    for row in summary.to_dict("records"):
        measure = str(row["measure"])
        if measure not in targets or pd.isna(row["mean"]):
            continue
        target, mean, higher = targets[measure], float(row["mean"]), higher_is_better(measure)
        missed = mean < target - _SLACK if higher else mean > target + _SLACK
        sign = ("<" if missed else ">=") if higher else (">" if missed else "<=")
        interval, doubt = "", ""
        if not (pd.isna(row["ci_low"]) or pd.isna(row["ci_high"])):
            low, high = float(row["ci_low"]), float(row["ci_high"])
            interval = f" [{low:.3f}, {high:.3f}]"
            if missed and (high >= target if higher else low <= target):
                doubt = "; the interval includes the target: evaluate more questions"
        counted = f"({row['n_scored']} of {row['n']} scored{doubt})"
        ceiling = ceilings.get(measure, math.nan)
        beyond = ceiling < target - _SLACK if higher else ceiling > target + _SLACK
        figures[measure] = Figure(
            measure,
            f"{measure} {mean:.3f}{interval} {sign} {target:g} {counted}",
            missed,
            not beyond,
        )
    return figures


def _check(summary: pd.DataFrame, targets: Mapping[str, float], max_abstained: float) -> None:
    wanted = ["measure", "mean", "ci_low", "ci_high", "n_scored", "n"]
    if lacking := [name for name in wanted if name not in summary.columns]:
        raise DataError(
            f"summary: no column {', '.join(map(repr, lacking))}; expected {wanted}, as from "
            "summarise"
        )
    for measure, target in targets.items():
        if (
            isinstance(target, bool)
            or not isinstance(target, int | float)
            or not math.isfinite(target)
        ):
            raise ConfigError(
                f"the target of {measure!r} is {target!r}; expected a number, such as 0.7"
            )
    if not 0 <= max_abstained <= 1:
        raise ConfigError(f"max_abstained is {max_abstained!r}; expected a share from 0 to 1")
