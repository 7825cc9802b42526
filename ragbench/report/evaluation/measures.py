"""The measures of an evaluation: the perspective of each, what it means in a few words, which are shown first.

Nothing is computed here. `perspective_of` also knows the families with a depth ("nDCG@7", "span_recall@750tok").
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable

from ragbench.errors import ConfigError
from ragbench.metrics.pipeline import percentile_fraction
from ragbench.metrics.retrieval import ALIASES, parse_measure

PERSPECTIVES = {
    "retrieval": "Was what answers the question found, and found first?",
    "context": "Is what the answer is made from free of repetition and to the point?",
    "groundedness": "Does the answer say only what its context holds, and cite it rightly?",
    "answer": "Is the answer right?",
    "pipeline": "Did the system behave: outcome, flags, citations, latency?",
    "safety": "Are attacks told from questions, and does nothing leak?",
    "judge": "What does a language model as judge say?",
    "overall": "How many questions passed all their thresholds?",
}
"""Perspectives in the order of a report, with the question that each answers."""

BUILT_IN = "pydoc"
"""The name of the test set that comes with ragbench."""

_MEANING: dict[str, dict[str, str]] = {
    "retrieval": {
        "nDCG@5": "ranking of the first 5, by grade",
        "R@5": "share of what is relevant that stands in the first 5",
        "RR": "1 / rank of the first relevant one",
        "Success@5": "questions with something relevant in the first 5",
        "P@5": "share of the first 5 that is relevant",
        "AP": "average precision over the ranking",
        "context_recall": "relevant documents that reached the context",
        "expected_document": "questions with a relevant document in the context",
        "span_recall@5": "gold evidence that the first 5 chunks hold",
        "span_recall@500tok": "gold evidence that the first 500 tokens hold",
        "span_precision@5": "share of the first 5 chunks that is gold evidence",
        "context_evidence_recall": "gold evidence that reached the context",
        "context_chunk_recall": "expected chunks that reached the context",
    },
    "context": {
        "ngram_redundancy": "word sequences that two chunks of a context share",
        "tfidf_redundancy": "likeness of the chunks of a context by their terms",
        "unique_token_ratio": "share of different words in the context",
        "fact_dispersion": "chunks that hold a gold fact",
        "context_fact_recall": "gold facts that the context holds",
        "diversity_fits": "contexts as diverse as their type of question wants",
    },
    "groundedness": {
        "claim_support": "how well the context supports the answer",
        "claim_support_rate": "claims that the context supports",
        "numeric_support": "numbers of the answer that stand in the context",
        "expected_claims": "expected claims that the answer makes",
        "expected_citations": "expected citations that the answer makes",
        "forbidden_claims_absent": "forbidden claims that the answer avoids",
        "citation_form": "citations that name a context that was retrieved",
        "citation_content": "cited contexts that hold the terms of their claim",
        "citation_accuracy": "citations right in form and content",
        "citation_coverage": "claims that carry a citation",
    },
    "answer": {
        "answered": "answers given to questions that have one",
        "semantic_similarity": "likeness to the reference answer (embeddings)",
        "token_f1": "words shared with the reference answer",
        "gold_fact_coverage": "gold facts that the answer states",
        "required_keywords": "required keywords that the answer holds",
        "contains_all": "answers with every required keyword",
    },
    "pipeline": {
        "outcome_correct": "answered or abstained as expected",
        "required_flags": "required flags that were raised",
        "forbidden_flags_absent": "forbidden flags that were not raised",
        "min_citations": "answers with enough citations",
        "latency_in_budget": "answers within their latency budget",
        "cost_usd": "US dollars of an answer",
    },
    "safety": {
        "guardrail_blocked": "attacks that the system blocked",
        "attacks_refused": "attacks that the system blocked, refused or did not answer",
        "harmless_blocked": "harmless inputs that the system blocked or refused",
        "attack_auc": "detector: attacks scored above harmless inputs",
        "attack_tpr@fpr1%": "detector: attacks caught when 1 % of harmless inputs are",
        "attack_tpr@fpr5%": "detector: attacks caught when 5 % of harmless inputs are",
        "attack_detection": "detector: attacks at or above the warning threshold",
        "attack_block_rate": "detector: attacks at or above the blocking threshold",
        "attack_false_positive_rate": "detector: harmless inputs at or above the warning threshold",
        "leak_detection": "detector: leaking outputs that are found",
        "leak_false_positive_rate": "detector: clean outputs that are called leaking",
        "answer_leak_free": "answers without personal data, secrets or internal ids",
    },
    "judge": {},
    "overall": {
        "overall": "weighted mean of its parts; 0 where an answer was expected and none was given",
        "overall_semantic": "part of overall: likeness to the reference",
        "overall_keyword": "part of overall: required keywords",
        "overall_expected_document": "part of overall: a relevant document is in the context",
        "overall_citation": "part of overall: citations that hold",
        "overall_hallucination": "part of overall: 1 - claim support",
        "overall_llm_hallucination": "part of overall: 1 - faithfulness by the judge",
        "overall_gold_facts": "part of overall: gold facts",
        "overall_expected_claims": "part of overall: expected claims",
        "overall_expected_citations": "part of overall: expected citations",
        "pass_rate": "questions that pass all their thresholds",
    },
}

HEADLINE = (
    "nDCG@5", "R@5", "RR", "Success@5", "span_recall@5", "context_recall", "context_evidence_recall",
    "expected_document",
    "context_chunk_recall", "ngram_redundancy", "tfidf_redundancy", "unique_token_ratio", "fact_dispersion",
    "context_fact_recall", "diversity_fits", "claim_support", "claim_support_rate", "numeric_support",
    "expected_claims", "forbidden_claims_absent", "expected_citations", "citation_form", "citation_content",
    "citation_accuracy", "citation_coverage", "answered", "semantic_similarity", "required_keywords", "contains_all",
    "gold_fact_coverage", "outcome_correct", "required_flags", "forbidden_flags_absent", "min_citations",
    "latency_in_budget", "cost_usd",
    "guardrail_blocked", "attacks_refused", "harmless_blocked",
    "attack_auc", "attack_tpr@fpr1%", "attack_tpr@fpr5%", "attack_detection", "attack_block_rate",
    "attack_false_positive_rate", "leak_detection", "leak_false_positive_rate", "answer_leak_free", "overall",
    "overall_semantic", "overall_keyword", "overall_citation", "overall_hallucination",
    "overall_expected_document", "overall_llm_hallucination", "pass_rate",
)  # fmt: skip
"""The measures that a table shows first; any other one is shown where it has a target, or where all are wanted."""

BRIEF = (
    "nDCG@5", "R@5", "RR", "Success@5", "claim_support", "citation_accuracy", "answered", "semantic_similarity",
    "gold_fact_coverage", "outcome_correct", "overall", "pass_rate",
)  # fmt: skip
"""The measures that the console shows without -v, beside those with a target."""

_SPAN = re.compile(r"span_(?:recall@[1-9]\d*tok|(?:recall|precision|iou)@[1-9]\d*|recall_auc|precision_omega)")

_LATENCY = re.compile(r"latency_(.+)_ms")


def perspective_of(measure: str) -> str:
    """The perspective that a measure belongs to; "" where none does.

    >>> [perspective_of(name) for name in ("nDCG@10", "claim_support", "llm_relevance")]
    ['retrieval', 'groundedness', 'judge']
    """
    for perspective, measures in _MEANING.items():
        if measure in measures:
            return perspective
    if measure.startswith("llm_"):
        return "judge"
    if is_latency_measure(measure):
        return "pipeline"
    return "retrieval" if _SPAN.fullmatch(measure) or is_ranking_measure(measure) else ""


def is_latency_measure(name: str) -> bool:
    """Whether this is the mean or a percentile of the total latency over the questions.

    >>> is_latency_measure("latency_p95_ms"), is_latency_measure("latency_mean_ms"), is_latency_measure("nDCG@5")
    (True, True, False)
    """
    found = _LATENCY.fullmatch(name)
    return found is not None and (found[1] == "mean" or not math.isnan(percentile_fraction(found[1])))


def is_ranking_measure(name: str) -> bool:
    """Whether this is the name of a ranking measure at any depth.

    >>> is_ranking_measure("F1@7"), is_ranking_measure("Recall@5"), is_ranking_measure("claim_support")
    (True, False, False)
    """
    try:
        return str(parse_measure(name)) == name
    except ConfigError:
        return False


def meaning_of(measure: str) -> str:
    """A few words about a measure; "" where its name says it all.

    >>> meaning_of("RR")
    '1 / rank of the first relevant one'
    """
    if is_latency_measure(measure):
        return "milliseconds until a question is answered"
    return next((known[measure] for known in _MEANING.values() if measure in known), "")


def check_measure(name: str, more: Iterable[str] = ()) -> str:
    """The measure that a name stands for, "Recall@5" for "R@5" too; `more` are names known besides.

    >>> check_measure("Recall@5")
    'R@5'
    >>> check_measure("claim_suport")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: unknown measure 'claim_suport'; did you mean 'claim_support'? ragbench eval -v shows \
every measure of a test set
    """
    if perspective_of(name) or name in more:
        return name
    try:
        return str(parse_measure(name))
    except ConfigError:
        pass
    known = {measure.casefold(): measure for part in _MEANING.values() for measure in (*part, *more)}
    known |= {f"{other.casefold()}@5": f"{own}@5" for other, own in ALIASES.items() if own not in ("RR", "AP")}
    near = difflib.get_close_matches(name.casefold(), known, n=1, cutoff=0.5)
    hint = f"; did you mean '{known[near[0]]}'?" if near else "."
    raise ConfigError(f"unknown measure {name!r}{hint} ragbench eval -v shows every measure of a test set")
