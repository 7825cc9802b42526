"""What to try next, from the pattern of missed targets, with the figures behind each recommendation.

These are the first things an experienced engineer would check, not proofs: only the next run shows whether they help.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragbench.diagnosis.figures import Figure, figures_of, texts_of
from ragbench.errors import ConfigError, DataError

if TYPE_CHECKING:
    import pandas as pd

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
_RANKED = ("nDCG", "RR", "AP")
_GROUNDED = ("claim_support", "calibrated:claim_support", "numeric_support", "llm_faithfulness",
             "overall_hallucination", "overall_llm_hallucination")  # fmt: skip
_STATED = ("gold_fact_coverage", "required_keywords", "contains_all", "expected_claims")
_RELEVANT = ("semantic_similarity", "token_f1", "llm_relevance", "llm_correctness")
_REPEATED = ("ngram_redundancy", "tfidf_redundancy")

_STAGE_ACTIONS = {
    "retrieve": "use a smaller or approximate index, a lighter embedding model, or rerank fewer candidates",
    "generate": "send fewer or shorter chunks, bound the length of the reply, or use a faster model",
    "guardrail_input": "run the check in parallel with retrieval instead of before it, or use a lighter detector",
    "guardrail_output": "check the answer while it is written, or use a lighter detector",
    "total": "look at the slowest stage first",
}


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What is wrong in a line, its likely cause, what to try, and the figures that say so, one string each."""

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
    """Recommendations for one evaluated system, the earliest stage first; none where everything meets its target.

    Only measures that have a target and a mean count. A target is missed where the mean is on its wrong side; where the
    interval reaches it nevertheless, the evidence notes it. A target beyond its ceiling is reported as out of reach,
    and nothing else is concluded from missing it.

    Args:
        summary: as from `summarise`: measure, mean, ci_low, ci_high, n_scored, n.
        targets: measure -> the mean that it should reach, or not exceed where lower is better.
        ceilings: measure -> the best mean that any system could reach on these questions.
        latency: as from `latency_table`.
        abstentions: as from `abstention_table`.
        max_abstained: the accepted fraction of answerable questions abstained from, and of unanswerable questions
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
        *_failures(abstentions),
        *_out_of_reach(figures, ceilings or {}),
        *_retrieval(figures),
        *_context(figures),
        *_groundedness(figures),
        *_citations(figures),
        *_answers(figures),
        *_abstentions(figures, abstentions, max_abstained),
        *_outcomes(figures),
        *_latency(latency),
    ]
    return [advice for advice in found if advice.evidence]


def _failures(abstentions: pd.DataFrame | None) -> list[Recommendation]:
    if abstentions is None:
        return []
    failed, n = int(abstentions["failed"].sum()), int(abstentions.to_numpy().sum())
    return [
        Recommendation(
            "Some questions have no answer at all",
            "requests failed, or answers are missing; every other figure is about the rest only",
            "read the errors, raise time-outs or lower the number of requests at a time, and run again before anything "
            "else is concluded",
            (f"{failed} of {n} questions failed",) if failed else (),
        )
    ]


def _out_of_reach(figures: Mapping[str, Figure], ceilings: Mapping[str, float]) -> list[Recommendation]:
    return [
        Recommendation(
            f"The target of {figure.measure} is out of reach",
            f"on these questions no system can do better than {ceilings[figure.measure]:.3f}: there are more relevant "
            "documents than places, or the context is too long for the target",
            "set the target below the ceiling, or choose another depth or length",
            (figure.text, f"ceiling {ceilings[figure.measure]:.3f}"),
        )
        for figure in figures.values()
        if figure.missed and not figure.reachable
    ]


def _retrieval(figures: Mapping[str, Figure]) -> list[Recommendation]:
    recall, reached = texts_of(figures, _RETRIEVED, missed=True), texts_of(figures, _REACHED, missed=True)
    found = texts_of(figures, _RETRIEVED, missed=False)
    ranked = texts_of(figures, _RANKED, missed=True)
    precise = texts_of(figures, ("P", "F1", "llm_context_precision"), missed=True)
    advice = []
    if recall or (reached and not found):
        advice.append(
            Recommendation(
                "The needed evidence is not retrieved",
                "questions and documents use different words, evidence is split at chunk boundaries, or too few chunks "
                "are retrieved",
                "compare BM25, dense and hybrid retrieval, other chunk sizes, and a larger k; look at the questions "
                "without any hit first",
                (*recall, *reached, *ranked),
            )
        )
    elif reached:
        advice.append(
            Recommendation(
                "The retrieved evidence does not reach the model",
                "the relevant chunks are retrieved but lie beyond k or the context budget, or another chunk of the "
                "right document is taken",
                "raise k or the context budget, use smaller chunks, or rerank before the cut",
                (*reached, *found),
            )
        )
    elif ranked:
        advice.append(
            Recommendation(
                "The needed evidence is retrieved, but ranked too low",
                "the ranking puts documents on the same subject before those that hold the answer",
                "rerank the first 20 to 50 candidates with a cross-encoder, or fuse two retrievers",
                (*ranked, *found),
            )
        )
    if precise:
        advice.append(
            Recommendation(
                "Much of what is retrieved is not relevant",
                "k is larger than the number of relevant documents, or the retriever is drawn to frequent words",
                "rerank and keep fewer, or cut the ranking at a score; check the ceiling of precision at this k",
                precise,
            )
        )
    return advice


def _context(figures: Mapping[str, Figure]) -> list[Recommendation]:
    repeated = texts_of(figures, _REPEATED, missed=True)
    spread = texts_of(figures, ("fact_dispersion",), missed=True)
    common = texts_of(figures, ("unique_token_ratio",), missed=True)
    diverse = texts_of(figures, ("diversity_fits",), missed=True)
    return [
        Recommendation(
            "The context repeats itself",
            "chunks overlap, or several documents hold the same text",
            "lower the overlap of chunks, drop near-duplicates before the cut at k, or choose by maximal marginal "
            "relevance",
            (*repeated, *common) if repeated else (),
        ),
        Recommendation(
            "Few of the context's words are new",
            "the fraction of distinct words falls with the length of any text; no repetition beyond its target found",
            "compare with what is usual at this length (context_ceilings) before anything is changed; send a shorter "
            "context if it is long",
            () if repeated else (*common, *(texts_of(figures, _REPEATED, missed=False) if common else ())),
        ),
        Recommendation(
            "The facts are spread over many chunks",
            "chunks are small for what an answer needs, or the documents repeat facts in many places",
            "use larger chunks, or retrieve small and hand over the section around each hit",
            spread,
        ),
        Recommendation(
            "The diversity of the context does not suit the kind of question",
            "one k and one retriever serve questions about one subject and questions about many",
            "set k by query type: few chunks for FAQ, one search for each side of a comparison, more and more varied "
            "ones for research",
            diverse,
        ),
    ]


def _groundedness(figures: Mapping[str, Figure]) -> list[Recommendation]:
    unsupported = texts_of(figures, _GROUNDED, missed=True)
    if not unsupported:
        return []
    lacking, good = (texts_of(figures, _FOUND, missed=missed) for missed in (True, False))
    if lacking:
        return [
            Recommendation(
                "Answers state what their context does not support, and the context lacks the needed evidence",
                "the model fills the gaps of retrieval from memory",
                "fix retrieval first; let the model abstain where the context does not answer",
                (*unsupported, *lacking),
            )
        ]
    if good:
        return [
            Recommendation(
                "Answers state what their context does not support, although the context is good",
                "the prompt lets the model add what it knows, or the model cannot keep to it",
                "instruct it in the prompt to use the documents only, to cite each sentence and to abstain otherwise; "
                "try a temperature of 0, or another model on the same contexts",
                (*unsupported, *good),
            )
        ]
    return [
        Recommendation(
            "Answers state what their context does not support",
            "unknown: no scored measure shows whether the context held the needed evidence",
            "label relevant documents or gold facts, so that retrieval and prompt can be separated",
            unsupported,
        )
    ]


def _citations(figures: Mapping[str, Figure]) -> list[Recommendation]:
    return [
        Recommendation(
            "Citations name what was not retrieved",
            "the model makes up numbers or ids, or the citations are read wrongly",
            "number the documents in the prompt, show one example, and drop citations that name nothing",
            texts_of(figures, ("citation_form",), missed=True),
        ),
        Recommendation(
            "Cited passages do not support the statements that cite them",
            "the model cites the first or the most similar document and not the one it used",
            "ask for the citation right after each sentence, send fewer documents, and check citations before the "
            "answer is shown",
            texts_of(figures, ("citation_content", "citation_accuracy", "overall_citation"), missed=True),
        ),
        Recommendation(
            "Many claims carry no citation",
            "the prompt does not ask for a citation of every claim, or long answers lose it on the way",
            "ask for one per sentence, show an example, and keep answers short",
            texts_of(figures, ("citation_coverage", "min_citations"), missed=True),
        ),
    ]


def _answers(figures: Mapping[str, Figure]) -> list[Recommendation]:
    left_out, off_topic = texts_of(figures, _STATED, missed=True), texts_of(figures, _RELEVANT, missed=True)
    lacking, good = (texts_of(figures, _FOUND, missed=missed) for missed in (True, False))
    advice = []
    if left_out and lacking:
        advice.append(
            Recommendation(
                "Answers leave out what is expected, and so does the context",
                "what was not retrieved cannot be stated",
                "fix retrieval first, then evaluate again",
                (*left_out, *lacking),
            )
        )
    elif left_out:
        advice.append(
            Recommendation(
                "Answers leave out what is expected" + (" although it was found" if good else ""),
                "the answer is cut short, the prompt asks for brevity, or the answer uses other words than the labels",
                "read some of the failed cases; add aliases to the labels where the answer is right, else raise the "
                "length and ask for all parts of the question",
                (*left_out, *good),
            )
        )
    if off_topic:
        advice.append(
            Recommendation(
                "Answers miss the question or the reference",
                "the answer strays from the question, or is right in other words than the reference",
                "read the lowest-scoring answers; if they are right, write more references or judge with a model; "
                "if not, put the question after the documents and ask to answer it first",
                off_topic,
            )
        )
    return advice


def _abstentions(
    figures: Mapping[str, Figure], abstentions: pd.DataFrame | None, max_abstained: float
) -> list[Recommendation]:
    if abstentions is None:
        return []
    lacking, good = (texts_of(figures, _FOUND, missed=missed) for missed in (True, False))
    counts = abstentions.astype(int).to_dict("index")
    answerable, unanswerable = counts["answerable"], counts["unanswerable"]
    silent = _rate(
        answerable["abstained"], sum(answerable.values()), max_abstained, "answerable questions abstained from"
    )
    bold = _rate(unanswerable["answered"], sum(unanswerable.values()), max_abstained, "unanswerable questions answered")
    return [
        Recommendation(
            "It abstains from questions that have an answer",
            "the context lacks the answer"
            if lacking
            else "the system is more careful than its context gives reason to",
            "fix retrieval first" if lacking else "soften the instruction to abstain, or lower the confidence it needs",
            (*silent, *(lacking or good)) if silent else (),
        ),
        Recommendation(
            "It answers questions that have no answer",
            "the prompt does not allow abstaining, or a passage on the same subject is taken for an answer",
            "ask in the prompt to say when the documents do not hold the answer, and check the answer's support before "
            "it is shown",
            bold,
        ),
    ]


def _rate(k: int, n: int, max_rate: float, what: str) -> tuple[str, ...]:
    if n == 0 or k / n <= max_rate:
        return ()
    from scipy.stats import binomtest

    interval = binomtest(k, n).proportion_ci(method="wilson")
    return (f"{k} of {n} {what}: {k / n:.3f} [{interval.low:.3f}, {interval.high:.3f}] > {max_rate:g}",)


def _outcomes(figures: Mapping[str, Figure]) -> list[Recommendation]:
    return [
        Recommendation(
            "Outcomes or flags are not those expected",
            "guardrails, abstention or confidence decide differently from the test set",
            "see the table of expected and given outcomes; move the threshold that decides the largest wrong cell",
            texts_of(figures, ("outcome_correct", "required_flags", "forbidden_flags_absent"), missed=True),
        )
    ]


def _latency(latency: pd.DataFrame | None) -> list[Recommendation]:
    if latency is None:
        return []
    return [
        Recommendation(
            f"The stage {row['stage']!r} is slower than its budget",
            f"{float(row['over']):.0%} of the answers take longer",
            _STAGE_ACTIONS.get(row["stage"], "profile this stage"),
            (f"p50 {row['p50']:.0f} ms, p95 {row['p95']:.0f} ms > {row['budget']:g} ms (n = {row['n']})",),
        )
        for row in latency.to_dict("records")
        if row["verdict"] == "over"
    ]


def _check(summary: pd.DataFrame, targets: Mapping[str, float], max_abstained: float) -> None:
    wanted = ["measure", "mean", "ci_low", "ci_high", "n_scored", "n"]
    if lacking := [name for name in wanted if name not in summary.columns]:
        raise DataError(f"summary: no column {', '.join(map(repr, lacking))}; expected {wanted}, as from summarise")
    for measure, target in targets.items():
        if isinstance(target, bool) or not isinstance(target, int | float) or not math.isfinite(target):
            raise ConfigError(f"the target of {measure!r} is {target!r}; expected a number, such as 0.7")
    if not 0 <= max_abstained <= 1:
        raise ConfigError(f"max_abstained is {max_abstained!r}; expected a share from 0 to 1")
