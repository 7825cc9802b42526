"""Each perspective: which labels it needs, and the scores of every question by its measures."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ragbench.errors import ConfigError
from ragbench.evaluation.records import score_frame
from ragbench.evaluation.requests import Answered, texts_of
from ragbench.evaluation.safety import score_leaks
from ragbench.metrics import score_answers, score_chunks, score_run, score_spans
from ragbench.metrics.context_scores import context_ceilings, score_context
from ragbench.metrics.groundedness.checks import STRICT
from ragbench.metrics.groundedness_scores import claim_table, score_groundedness
from ragbench.metrics.pipeline import is_latency_measure
from ragbench.metrics.pipeline_scores import score_pipeline
from ragbench.metrics.retrieval import FAMILIES
from ragbench.metrics.retrieval_scores import retrieval_ceilings, retrieval_levels, score_retrieval
from ragbench.registry import KS, is_ranking_measure, measure_of
from ragbench.systems import CONTEXT_FIELDS
from ragbench.types import Answer, Case, Dataset, Embedder, Run

_ALWAYS = ("nDCG@5", "R@5", "P@5", "RR", "AP", "Success@5", "nDCG@10", "R@10")  # at any depths requested
_PREFIX = {"document": "", "span": "span:", "chunk": "chunk:"}
_JUDGED_BY = {"document": "documents", "span": "gold evidence", "chunk": "labelled chunks"}
# Measures of the context that belong to retrieval: how much of the relevant reached it.
_REACHED = ("context_recall", "expected_document", "context_evidence_recall", "context_chunk_recall")
_SPAN = re.compile(r"span_\w+@(\d+)(tok|)$")
_OTHER_DEPTHS = r"span_\w+@(?!5$)\d+"  # than 5: reported where they are asked for
_MANY_CHUNKS = 5_000
_MAX_IN_DOUBT = 0.02  # of the passages; beyond it every report warns
_NO_ANSWERS = "the system retrieves and gives no answers"
_NO_CONTEXTS = (
    f"no answer came with contexts; they are read from {', '.join(map(repr, CONTEXT_FIELDS))}, or from where the path "
    "reply.contexts points"
)
_NO_MATCHES = "no passage of the system is in a document of the test set"
_NO_TEXTS = "the system does not report which texts it answered from"


def unmeasurable(perspective: str, answered: Answered, named: Sequence[str] = ()) -> str:
    """Why a perspective cannot be measured here; "" where it can."""
    dataset = answered.dataset
    if reason := unlabelled(perspective, dataset, named):
        return reason
    if perspective in ("groundedness", "answer", "pipeline", "judge") and not answered.has_answers:
        return _NO_ANSWERS
    if perspective == "retrieval" and not answered.has_contexts:
        return _NO_CONTEXTS
    if perspective == "retrieval" and answered.system.get("is_foreign"):
        return _NO_MATCHES
    if perspective in ("context", "groundedness") and not answered.has_texts:
        return _NO_TEXTS
    return ""


def unlabelled(perspective: str, dataset: Dataset, named: Sequence[str] = ()) -> str:
    """Why the labels of a test set do not allow a perspective; "" where they do.

    Latency and cost need no label: where a target of the user names them, the pipeline is measured.
    """
    cases = dataset.cases
    if perspective == "safety":  # leaks in answers to questions need no label
        return (
            ""
            if dataset.safety_inputs or dataset.safety_outputs or cases
            else "no labels: the test set has no safety samples"
        )
    if not cases:
        return "no labels: the test set has no questions"
    if perspective == "retrieval" and not any(map(bool, dataset.qrels.values())) and not any(map(_wanted, cases)):
        return "no labels: no question names a relevant document, passage or chunk"
    if perspective == "answer" and not any(map(_answer_label, cases)):
        return "no labels: no question has a reference answer, gold facts or required keywords"
    free = any(name == "cost_usd" or is_latency_measure(name) for name in named)
    if perspective == "pipeline" and not free and not any(map(_pipeline_label, cases)):
        return "no labels: no question has an expected outcome, flags, citations or a latency budget"
    return ""


def score_ranking(answered: Answered, named: Sequence[str] = ()) -> pd.DataFrame:
    """Ranking measures at every level that the labels allow, evidence found, and what reached the context.

    `named` are measures wanted in addition to the usual ones, at any depth or budget.
    """
    dataset, answers = answered.dataset, answered.answers
    frames = []
    if measures := ranking_measures(levels_of(answered), named):
        chunks, run = answered.chunks, _judged(dataset, answered.documents)
        if any(0 in grades.values() for grades in dataset.qrels.values()):  # pooled: holes are worth knowing of
            judged = {name: name.replace("nDCG", "Judged") for name in measures if name.startswith("nDCG")}
            measures = [one for name in measures for one in (name, judged.get(name)) if one]
        found = score_retrieval(dataset, run, chunk_run=answered.ranking, chunks=chunks, measures=measures)
        complete = {name for name, part in found.groupby("measure") if part["value"].min() == 1} - set(named)
        frames.append(found[~(found["measure"].isin(complete) & found["measure"].str.startswith("Judged"))])
    context = score_context(dataset, answers, texts_of(answered))
    frames.append(context[context["measure"].isin(_REACHED)])
    if answered.chunks and any(case.evidence for case in dataset.cases):
        known = {chunk.chunk_id for chunk in answered.chunks}
        held = {query: {i: s for i, s in found.items() if i in known} for query, found in answered.ranking.items()}
        usual = score_spans(dataset, held, answered.chunks, tokenizer=answered.tokenizer)
        usual = usual[usual["measure"].isin(named) | ~usual["measure"].str.fullmatch(_OTHER_DEPTHS)]
        frames.append(usual)
        if more := [name for name in named if _SPAN.match(name) and name not in set(usual["measure"])]:
            # on their own: span_recall_auc depends on the budgets
            depths = {end: sorted({int(m[1]) for name in more if (m := _SPAN.match(name)) and m[2] == end})
                      for end in ("", "tok")}  # fmt: skip
            extra = score_spans(
                dataset, held, answered.chunks, ks=depths[""], budgets=depths["tok"], tokenizer=answered.tokenizer
            )
            frames.append(extra[extra["measure"].isin(more)])
    return pd.concat(frames, ignore_index=True)


def ranking_measures(levels: Sequence[str], named: Sequence[str] = ()) -> list[str]:
    """The usual ranking measures at these levels, and those of `named` that are ranking measures at one of them."""
    usual = [f"{_PREFIX[level]}{name}" for level in levels for name in _ALWAYS]
    more = [name for name in named if is_ranking_measure(name) and measure_of(name).level in levels]
    return list(dict.fromkeys([*usual, *more]))


def at_depths(depths: Sequence[int] = KS) -> list[str]:
    """The names of the measures that are reported at several depths: rankings at every level, and gold evidence.

    >>> at_depths([7])[:8]
    ['nDCG@7', 'P@7', 'R@7', 'F1@7', 'RR@7', 'AP@7', 'Success@7', 'span:nDCG@7']

    Raises:
        ConfigError: no depth, or one that is not a whole number from 1.
    """
    if not depths or any(isinstance(k, bool) or not isinstance(k, int) or k < 1 for k in depths):
        raise ConfigError(f"k is {list(depths)}; expected one or several whole numbers from 1, such as [1, 3, 5, 10]")
    ranked = [f"{prefix}{name}@" for prefix in _PREFIX.values() for name in FAMILIES]
    return [f"{name}{k}" for name in (*ranked, "span_recall@", "span_precision@", "span_iou@") for k in depths]


def chunk_statistics(answered: Answered) -> dict[str, float]:
    """`score_chunks` of the built-in pipeline's chunks; {} for a system whose chunks are not known.

    Of more than 5,000 chunks the statistics are those of evenly chosen documents with about as many.
    """
    if answered.system.get("kind") != "Pipeline" or not answered.chunks:
        return {}
    chosen = set(list(dict.fromkeys(c.doc_id for c in answered.chunks))[:: -(-len(answered.chunks) // _MANY_CHUNKS)])
    own = [chunk for chunk in answered.chunks if chunk.doc_id in chosen]
    table = score_chunks(answered.dataset, own, tokenizer=answered.tokenizer)
    found = dict(zip(table["measure"], table["value"], strict=True))
    return {"chunks": len(answered.chunks), **{n: float(v) for n, v in found.items() if n != "chunks" and v == v}}


def levels_of(answered: Answered) -> tuple[str, ...]:
    """The levels that the ranking can be scored at, of "document", "span" and "chunk"."""
    return retrieval_levels(answered.dataset, chunk_run=answered.ranking, chunks=answered.chunks)


def judged_by(answered: Answered) -> str:
    """What the ranking is judged by, in words."""
    return f"rankings judged by {', '.join(_JUDGED_BY[level] for level in levels_of(answered))}"


def passages_in_doubt(answered: Answered) -> str:
    """Return what makes the ranking less certain: passages that are not attributable to a document, or to several."""
    counts = answered.system.get("matched_passages", {})
    several, total = counts.get("several", 0), sum(counts.values()) - counts.get("several", 0)
    found = [not_attributable(answered.system)]
    if several > _MAX_IN_DOUBT * total:
        found.append(
            f"{several} of {total} passages ({several / total:.0%}) are in two or three documents, and count for the "
            f"least relevant of them{_credited_equally(answered)}; ids of documents in the system's contexts remove "
            "the doubt"
        )
    return "; ".join(filter(None, found))


def not_attributable(system: Mapping[str, Any]) -> str:
    """Return how many passages are not attributable to a document, "" where that is 2 % of them or fewer.

    >>> not_attributable({"matched_passages": {"exact": 6, "not attributable": 2, "several": 1}})
    '2 of 8 passages (25%) are not attributable to a document and count as not relevant'
    """
    counts = system.get("matched_passages", {})
    lost, total = counts.get("not attributable", 0), sum(counts.values()) - counts.get("several", 0)
    if lost <= _MAX_IN_DOUBT * total:
        return ""
    return (
        f"{lost} of {total} passages ({lost / total:.0%}) are not attributable to a document and count as not relevant"
    )


def _credited_equally(answered: Answered) -> str:
    dataset, names = answered.dataset, ["nDCG@5", "R@5"]
    if "document" not in levels_of(answered):
        return ""
    means = [
        pd.concat(score_run(dataset.qrels, _judged(dataset, run), names) for run in runs).groupby("measure")["value"]
        for runs in ([answered.documents], answered.credits)
    ]
    low, equal = (groups.mean() for groups in means)
    return ": " + ", ".join(
        f"{name} is {low[name]:.3f}, and {equal[name]:.3f} if each counts equally" for name in names
    )


def ceilings_of(answered: Answered, named: Sequence[str] = ()) -> dict[str, float]:
    """measure -> the mean of the best values that any system could reach, over the judged questions.

    unique_token_ratio has what is usual for texts of the length of these contexts.
    """
    dataset, frames = answered.dataset, []
    if measures := ranking_measures(levels_of(answered), named):
        run, chunks = answered.ranking, answered.chunks
        frames.append(retrieval_ceilings(dataset, chunk_run=run, chunks=chunks, measures=measures))
    if answered.has_texts:
        frames.append(context_ceilings(dataset, answered.answers, texts_of(answered)))
    if not frames:
        return {}
    best = pd.concat(frames).groupby("measure", sort=False)["value"].mean().dropna()
    return {str(name): float(value) for name, value in best.items()}


def document_ceilings(dataset: Dataset, named: Sequence[str] = ()) -> dict[str, float]:
    """The ceilings that are known before a system is asked: those of documents."""
    if not any(map(bool, dataset.qrels.values())):
        return {}
    best = (
        retrieval_ceilings(dataset, measures=ranking_measures(["document"], named)).groupby("measure")["value"].mean()
    )
    return {str(name): float(value) for name, value in best.dropna().items()}


def score_answer(answered: Answered, embedder: str | Embedder) -> pd.DataFrame:
    """How right the answers are, and `answered`: 1 where an answer was given to a question that has one, else 0."""
    given = {answer.query_id: answer for answer in answered.answers}
    rows = [
        (case.query_id, "answered", _gave(given.get(case.query_id)) if case.answerable else math.nan)
        for case in answered.dataset.cases
        if _answer_label(case) or not case.answerable
    ]
    return pd.concat([score_answers(answered.dataset, answered.answers, embedder=embedder), score_frame(rows)])


def _judged(dataset: Dataset, run: Run) -> Run:
    return {query_id: run.get(query_id, {}) for query_id in dataset.qrels}


def _gave(answer: Answer | None) -> float:
    if answer is None or answer.failed or answer.abstained:
        return 0.0
    return float(bool(answer.text.strip()))


def _wanted(case: Case) -> bool:
    return bool(case.evidence or case.relevant_chunks or case.expected_chunks)


def _answer_label(case: Case) -> bool:
    return bool((case.reference_answer or "").strip() or case.gold_facts or case.required_keywords)


def _pipeline_label(case: Case) -> bool:
    return bool(
        case.expected_outcome
        or case.required_flags
        or case.forbidden_flags
        or case.min_citations is not None
        or case.latency_budget_ms
    )


def measure(
    perspective: str,
    answered: Answered,
    *,
    embedder: str | Embedder,
    support_model: str = "",
    named: Sequence[str] = (),
    threshold: float = STRICT,
) -> pd.DataFrame:
    """The scores of a perspective other than "judge", `named` measures among them: query_id, measure, value."""
    if perspective == "retrieval":
        return score_ranking(answered, named)
    if perspective == "context":
        context = score_context(answered.dataset, answered.answers, texts_of(answered))
        return context[~context["measure"].isin(_REACHED)]
    if perspective == "groundedness":
        return score_groundedness(
            answered.dataset,
            answered.answers,
            texts_of(answered),
            model=support_model or "minilm",
            threshold=threshold,
        )
    if perspective == "pipeline":
        return score_pipeline(answered.dataset, answered.answers)
    if perspective == "answer":
        return score_answer(answered, embedder)
    if perspective == "safety":
        return score_leaks(answered.dataset, answered.answers if answered.has_answers else (), answered.chunks)
    return score_frame([])


def claims_of(
    answered: Answered, query_ids: Sequence[str], model: str, threshold: float = STRICT
) -> dict[str, list[dict[str, object]]]:
    """query_id -> the claims of its answer, each with its verdict and citations; `model` as in `claim_support`."""
    chosen = answered.dataset.select(query_ids)
    answers = [answer for answer in answered.answers if answer.query_id in chosen.queries]
    claims: dict[str, list[dict[str, object]]] = {}
    for row in claim_table(chosen, answers, texts_of(answered), model=model, threshold=threshold).to_dict("records"):
        claims.setdefault(row.pop("query_id"), []).append({str(name): value for name, value in row.items()})
    return claims
