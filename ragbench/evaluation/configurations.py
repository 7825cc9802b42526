"""How a configuration is labelled in figures, its time and price per question, which one is the
baseline by default, and whether several can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ragbench.errors import ComparisonError, ConfigError, check_known, printable
from ragbench.evaluation.parameters import OMITTED
from ragbench.evaluation.records import questions_cost
from ragbench.evaluation.result import Result
from ragbench.llms import NO_MODEL
from ragbench.registry import find_measure, named_among

PER_QUESTION = ("latency_p50_ms", "latency_p95_ms", "cost_per_1000_usd")
"""Columns of the leaderboard: waiting time and price for a user of each system."""

# Named by their own columns of the leaderboard, so a label need not repeat them.
_IN_LABEL = ("system", "retriever", "reranker", "chunker", "chunk_size", "chunk_overlap")


def rows_of_measure(scores: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the rows of one measure, named in any case.

    Raises:
        ConfigError: it is not among the scores.
    """
    return scores[scores["measure"] == named_among(measure, sorted(scores["measure"].unique()))]


def configurations(results: Sequence[Result]) -> pd.DataFrame:
    """Describe each configuration in words short enough for a figure.

    Returns:
        Columns name, label, retriever, chunking. The label is retriever and chunking, then every other
        parameter that differs between the results; where two labels are equal, the name in brackets.
    """
    varying = _varying_parameters(results)
    rows = []
    for result in results:
        parameters = result.parameters
        system = parameters.get("retriever") or parameters.get("system") or result.name
        reranker = parameters.get("reranker")
        retriever = f"{system} + {reranker}" if reranker else str(system)
        chunking = _chunking(parameters)  # "" for a system of the user
        others = [f"{key} {_short(parameters[key])}" for key in varying if key in parameters]
        label = ", ".join(filter(None, [retriever, chunking, *others]))
        rows.append((result.name, printable(label), retriever, chunking))
    table = pd.DataFrame(rows, columns=["name", "label", "retriever", "chunking"])
    has_twin = table["label"].duplicated(keep=False)  # such as two runs of one configuration
    table.loc[has_twin, "label"] += " (" + table["name"].map(printable) + ")"
    return table


def _varying_parameters(results: Sequence[Result]) -> list[str]:
    """Return the parameters that differ between results and are not always in a label."""
    texts = []
    for result in results:
        texts.append({key: str(value) for key, value in result.parameters.items()})
    # other systems have other parameters
    settings = pd.DataFrame(texts).fillna(dict.fromkeys(OMITTED, ""))
    return [str(key) for key in settings if key not in _IN_LABEL and settings[key].nunique() > 1]


def _chunking(parameters: Mapping[str, Any]) -> str:
    """Return the chunker with its size and overlap; its name alone if it does not cut documents."""
    chunker: str = parameters.get("chunker", "")
    if chunker in ("", "document"):
        return chunker
    size = parameters.get("chunk_size", "")
    overlap = parameters.get("chunk_overlap")
    return f"{chunker} {size}/{overlap}" if overlap else f"{chunker} {size}"


def _short(value: Any) -> str:
    """Return a value as a label shows it, shortened: a custom prompt may be long."""
    text = " ".join(str(value).split())
    return text if len(text) <= 40 else f"{text[:39]}…"


def baseline_name(results: Sequence[Result], baseline: str = "") -> str:
    """Return the name of the configuration that the others are compared with; "" is
    `Results.baseline`, else the first.

    Raises:
        ConfigError: if no configuration has this name.
    """
    names = sorted(result.name for result in results)
    if baseline not in names and find_measure(baseline) is not None:
        raise ConfigError(
            f"{baseline!r} is a measure, not a configuration; write measures={baseline!r}"
        )
    if baseline:
        check_known("baseline", names, baseline)
        return baseline
    stored: str = getattr(results, "baseline", "")
    return stored if stored in names else names[0]


def per_question(result: Result) -> dict[str, float | None]:
    """Return the median and the 95th percentile of the time that a user waits, and the price of 1,000
    questions; None where a number is not known, such as the price of a service that reports no tokens.
    """
    p50 = p95 = None
    for latency in result.latency:
        if latency.stage == "total":
            p50, p95 = latency.p50, latency.p95
    usd = questions_cost(result.facts)
    reports_cost = any(cost.part == "generator" for cost in result.costs)
    usd_per_1000 = None
    if usd is not None and (ran_pipeline(result) or reports_cost):
        usd_per_1000 = 1000 * usd / max(1, len(result.queries))
    return {"latency_p50_ms": p50, "latency_p95_ms": p95, "cost_per_1000_usd": usd_per_1000}


def check_shared_questions(results: Sequence[Result]) -> None:
    """Refuse to compare results that have no question in common.

    Results whose datasets have one fingerprint are never refused: the questions are the same.

    Raises:
        ComparisonError: no results, or results on different datasets without a question that all
            of them were asked with the same words and labels; the message names the first
            configuration of each dataset.
    """
    if not results:
        raise ComparisonError("the sweep has no finished configuration to compare; run it first")
    first_on: dict[str, str] = {}  # fingerprint of a dataset -> name of the first result on it
    for result in reversed(results):
        first_on[result.dataset["fingerprint"][:12]] = result.name
    has_one_dataset = len(first_on) == 1
    if not has_one_dataset and not questions_of_all(results):
        datasets = "; ".join(f"{fingerprint}: {name}" for fingerprint, name in first_on.items())
        raise ComparisonError(
            f"these configurations were measured on {len(first_on)} different datasets ({datasets}) "
            "without a question in common, so there is nothing to compare: "
            f"{python_note(results) or 'run the older ones again with --force'}"
        )


def python_note(results: Sequence[Result]) -> str:
    """Return a clause on results on pydoc (Python's documentation) that were made with several versions
    of Python, with the way out; "" if all have one version, or other data.
    """
    versions = {str(result.environment.get("python", "")) for result in results} - {""}
    is_pydoc = all(result.dataset["name"] == "pydoc" for result in results)
    if not is_pydoc or len(versions) < 2:
        return ""
    return (
        f"the documents of pydoc come with Python, here {', '.join(sorted(versions))}; run all with "
        "one version"
    )


def questions_of_all(results: Sequence[Result]) -> frozenset[str]:
    """Return the questions that every result was asked with the same words and labels.

    Results with one fingerprint have the same questions. Questions on different data are compared by
    their digests; results without digests share none, as far as is known.
    """
    first = results[0]
    shared = set(first.queries)  # ids
    if not shared:  # a result made of scores alone has no texts of questions
        shared = set(first.scores["query_id"].unique())
    digests = first.config.get("question_digests", {})
    for result in results[1:]:
        if result.dataset["fingerprint"] != first.dataset["fingerprint"]:
            # pairs (query_id, digest) that both have: the question has not changed
            same_digests = digests.items() & result.config.get("question_digests", {}).items()
            shared &= dict(same_digests).keys()
    return frozenset(shared)


def ran_pipeline(result: Result) -> bool:
    """Return True for ragbench's own pipeline, False for a system of the user."""
    return result.system.get("kind") == "Pipeline" or "system" not in result.parameters


def with_language_model(result: Result) -> bool:
    """Return True if a configuration's answers come from a language model."""
    return str(result.parameters.get("llm", "extractive")) not in NO_MODEL
