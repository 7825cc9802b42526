"""Why a question failed: exactly one first cause each, with the evidence for it.

The stages are checked in the order in which data flows through them; the first that lost what an
answer needs is the cause, regardless of what happened after it. The verdict on the answer itself is
checked first: where the labels show that the answer is right and a judge calls it wrong, the judge
is the suspect.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from ragbench.errors import ConfigError, DataError, unknown_chunk
from ragbench.metrics.answers import stated_facts, token_f1
from ragbench.metrics.correctness import SIGNALS, correctness_estimate, overlaps
from ragbench.metrics.retrieval import ranking
from ragbench.metrics.score_calibration import Calibration
from ragbench.metrics.spans import evidence_recall
from ragbench.metrics.tidy import wording
from ragbench.types import Answer, Case, Chunk, Dataset, Document, Judgement, Run, Span

# in the order in which data flows: cause -> its words, and the stage that has to change
_CAUSES = {
    "not_in_corpus": ("not in the corpus", "retrieval"),
    "not_retrieved": ("not retrieved", "retrieval"),
    "below_cut": ("retrieved below the cut", "retrieval"),
    "cut_by_budget": ("cut by the token budget", "chunking"),
    "split_by_border": ("split by a chunk border", "chunking"),
    "request_failed": ("request failed", "generation"),
    "fabricated": ("not supported by its context", "generation"),
    "unknown_chunk": ("right document, evidence not located", "unknown"),
    "refused": ("answerable, refused", "generation"),
    "contradicts": ("contradicts its context", "generation"),
    "not_used": ("in the context, not used", "generation"),
    "judge_suspected": ("right, judged wrong", "judge"),
    "label_in_doubt": ("label in doubt", "label"),
    "unanswerable_answered": ("unanswerable, answered", "generation"),
}

CAUSES = {cause: words for cause, (words, _) in _CAUSES.items()}
"""Cause -> its words, in the order in which data flows."""

STAGE_OF = {cause: stage for cause, (_, stage) in _CAUSES.items()}
"""Cause -> the stage that has to change: "retrieval", "chunking", "generation"; "judge", "label";
"unknown".
"""

_FALSE = (
    "fabricated",
    "contradicts",
    "unanswerable_answered",
)  # a false answer does more harm than none
_DISPUTED = ("judge_suspected", "label_in_doubt")

_DECISIVE = ("llm_correctness", "correctness_estimate", "gold_fact_coverage")
CORRECTNESS = (*_DECISIVE, "semantic_similarity", "token_f1")
"""The measures that decide whether an answer is right; the first one available is used, of the last
two only one with a calibration. See `ragbench.metrics.correctness_estimate`."""

RIGHT = 0.5
"""An answer is right from this value of the deciding measure, unless a calibration gives another
threshold.
"""

HOLDS = 0.8
"""A list of chunks holds what a question needs if it covers at least this fraction of the evidence.
"""

SUPPORTED = 0.5
"""Faithfulness or claim support below this means that the answer is not supported by its context.
"""

RELEVANT = 0.75
"""From this relevance by the judge on, an answer addresses the question."""

_CONFLICT = (
    0.5  # half of the numbers and names of either text are others, or one text negates the other
)
_AGREEING = 2  # other systems
_FAITHFUL = {
    "llm_faithfulness": SUPPORTED,
    "claim_support": SUPPORTED,
    "forbidden_claims_absent": 1.0,
}


_COLUMNS = [
    "query_id",
    "category",
    "question",
    "failed",
    "cause",
    "evidence",
    "test",
    "measure",
    "value",
    "held",
]


class _Reach(NamedTuple):
    """How much of the evidence the documents, the first `depth`, the contexts with what was cut,
    and the contexts themselves hold: fractions of its characters or, where documents only are
    labelled, of the relevant documents.

    `documents` is the number of relevant documents, 0 where the evidence is spans; `split`, whether
    a chunk border splits what the contexts hold in part; `located`, whether the contexts are known
    to hold what they count.
    """

    corpus: float
    deep: float
    found: float
    context: float
    split: bool = False
    documents: int = 0
    located: bool = True

    def holds(self, fraction: float) -> bool:
        return fraction > 0 if self.documents else fraction >= HOLDS

    def shown(self, fraction: float) -> str:
        if not self.documents:
            return f"{fraction:.0%} of the evidence"
        noun = "document" if self.documents == 1 else "documents"
        return f"{round(fraction * self.documents)} of {self.documents} relevant {noun}"


def diagnose(
    dataset: Dataset,
    run: Run,
    answers: Sequence[Answer],
    judgements: Sequence[Judgement],
    scores: pd.DataFrame,
    chunks: Sequence[Chunk],
    *,
    depth: int = 100,
    calibrations: Mapping[str, Calibration] | None = None,
) -> pd.DataFrame:
    """The first cause of each failed question, with its evidence; one row per question, in the
    order of the dataset.

    A question has failed if it has no answer and was answered, or if it has one and the answer is
    wrong, was refused, or its request failed. Whether an answer is wrong is decided by the first of
    these that is known: the judge (llm_correctness below 0.5); a measure of `calibrations`, by its
    threshold; `ragbench.metrics.correctness_estimate` below 0.5, for answers and references of less
    than 15 words; gold_fact_coverage below 0.5. Where nothing decides whether an answer is right
    (no reference, no facts, no judge), a question has failed only if retrieval lost its evidence.

    The cause is the first that holds, in the order of `CAUSES`, but for three that come first.
    "judge_suspected": a judge calls it wrong although all gold facts are stated (or token F1 with
    the reference is 0.8 or more). "label_in_doubt": a judge calls it right although less than half
    of the gold facts are stated, or it differs from the reference or the facts although the judge
    finds that it addresses the question (`RELEVANT`) and that a context which holds the evidence
    supports every claim; see also `doubt_labels`. "unanswerable_answered": a question without an
    answer got one. A list of chunks holds the evidence if it covers `HOLDS` (0.8) of its
    characters. A passage that occurs word for word in several places counts once; either copy will
    do. "split_by_border": the contexts hold a part of a span that no single chunk holds whole. An
    answer is unsupported where faithfulness by the judge, or else claim support, is below 0.5, or a
    forbidden claim is made. It is "fabricated" where the evidence is not known to be in the
    context; where it is, the answer "contradicts" it if other numbers or names, or a negation, take
    the place of those of the reference, the gold facts or the evidence
    (`ragbench.metrics.correctness.overlaps`), or if it makes a forbidden claim. What is left, with
    the evidence in the context, is "refused" or "not_used".

    Where documents only are labelled, a list of chunks that has any chunk of a relevant document is
    not lost; but generation is blamed only if the contexts hold every relevant document as a whole,
    quote the evidence, or state every gold fact. Otherwise the cause is "unknown_chunk": the chunk
    may be another one than that with the answer, or the document that is missing may be the one
    that was needed.

    Args:
        run: chunk-level run, at least `depth` deep; {} for systems that show no more than their
        contexts. answers: with `contexts` and `cut` as chunk ids, or `passages` with their doc_id.
        judgements: verdicts, if any: their explanations become evidence. scores: tidy scores with
        the measures of `CORRECTNESS`, and where it was measured claim_support; those of the
            ablations ("oracle_...", "empty_...", see `ragbench.metrics.score_ablations`) test the
            cause.
        chunks: that `run` and `answers` name.
        depth: how deep "not retrieved" looks.
        calibrations: measure -> what its values mean on data of this kind, as from
            `ragbench.metrics.calibrate_threshold`. The first of a measure of `CORRECTNESS` that is
            scored decides which answers are right, after a judge and before the estimate; that of
            claim_support, what is "fabricated".

    Returns:
        query_id, category, question, failed (bool), cause ("" where not failed), evidence (a
        sentence), test (what the oracle and the empty context show about the cause; "" where they
        were not run), measure, value (of the verdict; pd.NA if none), held (the fraction of the
        evidence that the context holds; pd.NA if not known).

    >>> import pandas as pd
    >>> case = Case("q", "When?", gold_facts=(("1889",),))
    >>> data = Dataset("demo", "test", {}, [case], {"q": {"d": 1}})
    >>> scores = pd.DataFrame({"query_id": ["q"], "measure": ["gold_fact_coverage"], "value": [0.0]})
    >>> table = diagnose(data, {}, [Answer("q", "In 1900.")], [], scores, [])
    >>> table[["cause", "evidence"]].values.tolist()
    [['not_in_corpus', 'none of its relevant documents (d) is in the corpus']]

    Raises:
        ConfigError: `depth` is below 1. DataError: an answer to a question that the dataset lacks,
        or two answers to one; `run` or an answer names what
            is neither among `chunks` nor a passage.
    """
    by_query = _answers_by_query(dataset, answers, depth)
    values: dict[str, dict[str, float]] = {}
    for query_id, measure, value in zip(
        scores["query_id"], scores["measure"], scores["value"], strict=True
    ):
        if not pd.isna(value):
            values.setdefault(str(query_id), {})[str(measure)] = float(value)
    explanations = {(j.query_id, j.criterion): j.explanation for j in judgements}
    by_id = {chunk.chunk_id: chunk for chunk in chunks}
    by_document: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        by_document.setdefault(chunk.doc_id, []).append(chunk)
    _check_chunking(run, answers, by_id)
    calibrated = calibrations or {}
    supported = _FAITHFUL | {
        name: own.threshold for name, own in calibrated.items() if name in _FAITHFUL
    }
    rows = []
    for case in dataset.cases:
        own = values.get(case.query_id, {})
        answer = by_query.get(case.query_id)
        known = own | _estimates(case, answer, own)
        measure, limit = _decisive(known, calibrated)
        reach = _reach(
            dataset, case, answer, ranking(run.get(case.query_id, {}))[:depth], by_id, by_document
        )
        cause, evidence = _cause(
            dataset, case, answer, known, measure, limit, supported, reach, depth
        )
        explained = explanations.get(
            (case.query_id, "correctness" if cause in _DISPUTED else "faithfulness"), ""
        )
        if explained and cause in (*_DISPUTED, "fabricated", "contradicts"):
            evidence += f"; the judge: {' '.join(explained.split())[:300]}"
        test = _test(known, measure, limit) if cause and case.answerable else ""
        rows.append(
            (
                case.query_id,
                case.category,
                case.text,
                bool(cause),
                cause,
                evidence,
                test,
                measure or "",
                pd.NA if measure is None else known[measure],
                pd.NA if reach is None else reach.context,
            )
        )
    return pd.DataFrame(rows, columns=_COLUMNS).astype(
        {"failed": bool, "value": "Float64", "held": "Float64"}
    )


def _answers_by_query(dataset: Dataset, answers: Sequence[Answer], depth: int) -> dict[str, Answer]:
    if depth < 1:
        raise ConfigError(
            f"depth is {depth}; expected the number of chunks that count as retrieved, 1 or more"
        )
    by_query = {answer.query_id: answer for answer in answers}
    if len(by_query) < len(answers):
        twice = Counter(answer.query_id for answer in answers).most_common(1)[0][0]
        raise DataError(
            f"there are several answers to {twice!r}; diagnose one configuration at a time"
        )
    if foreign := [query_id for query_id in by_query if query_id not in dataset.queries]:
        raise DataError(
            f"an answer to {foreign[0]!r}, which is not a question of {dataset.name!r}; diagnose "
            "them together"
        )
    return by_query


def by_severity(diagnosis: pd.DataFrame) -> pd.DataFrame:
    """The failed questions of a diagnosis, the worst first.

    False answers (fabricated, contradicting, or where the documents hold none) come before wrong
    and missing ones, and those that only a judge or a doubtful label calls wrong come last. Within
    each, the lowest value of the verdict is worst (no answer counts 0), then the least evidence in
    the context, then the earliest cause.
    """
    failed = diagnosis[diagnosis["failed"]]
    causes = list(CAUSES)
    keys: dict[str, Any] = {
        "harm": [-1 if cause in _FALSE else int(cause in _DISPUTED) for cause in failed["cause"]],
        "value": failed["value"].astype("Float64").fillna(0.0),
        "held": failed["held"].astype("Float64").fillna(1.0),
        "cause": [causes.index(cause) for cause in failed["cause"]],
    }
    order = (
        failed[[]]
        .assign(**keys)
        .reset_index(drop=True)
        .sort_values(list(keys), kind="stable")
        .index
    )
    return failed.iloc[order]


def count_causes(diagnosis: pd.DataFrame) -> pd.DataFrame:
    """How many questions each cause has taken, in the order of `CAUSES`: cause, meaning, questions,
    share (of all).

    Causes that took none are left out; the last row, "none", holds the questions that did not fail.
    """
    counts = diagnosis["cause"].value_counts()
    rows = [
        (cause, words, int(counts.get(cause, 0)))
        for cause, words in CAUSES.items()
        if counts.get(cause, 0)
    ]
    rows.append(("none", "not failed", int(counts.get("", 0))))
    table = pd.DataFrame(rows, columns=["cause", "meaning", "questions"])
    return table.assign(share=table["questions"] / max(len(diagnosis), 1))


def _cause(
    dataset: Dataset,
    case: Case,
    answer: Answer | None,
    own: Mapping[str, float],
    measure: str | None,
    limit: float,
    supported: Mapping[str, float],
    reach: _Reach | None,
    depth: int,
) -> tuple[str, str]:
    """Cause and evidence; two empty texts for a question that did not fail."""
    error = "no answer came back" if answer is None else answer.error
    failed = answer is None or answer.failed
    abstained = answer is not None and answer.abstained
    if not case.answerable:
        if failed:
            return "request_failed", error or "the request failed"
        if abstained:
            return "", ""
        return "unanswerable_answered", "the documents hold no answer, and an answer was given"
    wrong = measure is not None and own[measure] < limit
    if wrong and measure == "llm_correctness" and (why := _right_by_labels(own)):
        return "judge_suspected", f"the judge gives {own[measure]:.2f}, but {why}"
    if not (failed or abstained) and (why := _right_against_labels(own, wrong, reach)):
        return "label_in_doubt", why
    if not (wrong or failed or abstained) and (
        measure is not None or reach is None or reach.holds(reach.context)
    ):
        return "", ""
    if reach is not None and (lost := _lost(dataset, case, answer, reach, depth)):
        return lost
    if failed:
        return "request_failed", error or "the request failed"
    low = next((name for name in _FAITHFUL if name in own and own[name] < supported[name]), "")
    if low and answer is not None and not abstained:
        if reach is None or not reach.located:
            return "fabricated", f"{low} is {own[low]:.2f}"
        if conflict := _conflict(dataset, case, answer, own):
            return "contradicts", f"{low} is {own[low]:.2f}, and {conflict}"
    verdict = f"{measure} is {own[measure]:.2f}" if measure else "wrong"
    if abstained and answer is not None:
        verdict = "refused" if answer.outcome == "blocked" else "no answer given"
    if reach is None:
        return ("refused" if abstained else "not_used"), verdict
    if not reach.located:
        return "unknown_chunk", (
            f"{verdict}; the context has chunks of {reach.shown(reach.context)} "
            f"({reach.shown(reach.deep)} in the best {depth}), and no label says whether they "
            "hold what the answer needs"
        )
    verdict += f" although the context holds {reach.shown(reach.context)}"
    return ("refused" if abstained else "not_used"), verdict


def _lost(
    dataset: Dataset, case: Case, answer: Answer | None, reach: _Reach, depth: int
) -> tuple[str, str] | None:
    """The stage before generation that lost the evidence, or None."""
    if reach.holds(reach.context):
        return None
    if reach.corpus == 0.0:
        judged = (d for d, grade in dataset.qrels.get(case.query_id, {}).items() if grade >= 1)
        named = ", ".join(dict.fromkeys([*judged, *(span.doc_id for span in case.evidence)]))
        return "not_in_corpus", f"none of its relevant documents ({named}) is in the corpus"
    present = f"{reach.shown(reach.context)} in the context"
    if reach.holds(reach.found):
        n_cut = 0 if answer is None else len(answer.cut)
        chunks = "chunk" if n_cut == 1 else "chunks"
        return (
            "cut_by_budget",
            f"{present}, {reach.shown(reach.found)} with the {n_cut} {chunks} that the budget cut",
        )
    if reach.split:
        return "split_by_border", f"{present}; no single chunk holds all of the passage"
    cause = "below_cut" if reach.holds(reach.deep) else "not_retrieved"
    return cause, f"{present}, {reach.shown(reach.deep)} in the best {depth} chunks"


def _check_chunking(run: Run, answers: Sequence[Answer], by_id: Mapping[str, Chunk]) -> None:
    """Refuse ids without a text, whose content cannot be checked; passages carry their own text."""
    own = {passage.passage_id for answer in answers for passage in answer.passages}
    contexts = {answer.query_id: (*answer.contexts, *answer.cut) for answer in answers}
    for query_id, named in (*run.items(), *contexts.items()):
        if missing := [one for one in named if one not in by_id and one not in own]:
            raise DataError(unknown_chunk(missing[0], query_id, len(by_id)))


def _reach(
    dataset: Dataset,
    case: Case,
    answer: Answer | None,
    deep: Sequence[str],
    by_id: Mapping[str, Chunk],
    by_document: Mapping[str, Sequence[Chunk]],
) -> _Reach | None:
    """Return how far the evidence came; None where no label names the evidence."""
    if answer is None:
        answer = Answer(case.query_id, "")
    held = [span for span in case.evidence if span.doc_id in dataset.corpus]
    if held and not answer.passages:
        return _reach_of_spans(dataset, held, answer, deep, by_id, by_document)
    return _reach_of_documents(dataset, case, held, answer, deep, by_id)


def _reach_of_spans(
    dataset: Dataset,
    held: Sequence[Span],
    answer: Answer,
    deep: Sequence[str],
    by_id: Mapping[str, Chunk],
    by_document: Mapping[str, Sequence[Chunk]],
) -> _Reach:
    passages: dict[str, list[Span]] = {}  # the same words twice are one passage: either will do
    for span in held:
        text = dataset.corpus[span.doc_id].full_text[span.start : span.end]
        passages.setdefault(" ".join(text.split()), []).append(span)
    length = sum(map(len, passages))

    def fraction(ids: Sequence[str]) -> float:
        chunks = [by_id[i] for i in dict.fromkeys(ids) if i in by_id]
        best = {
            text: max(evidence_recall(chunks, [span]) for span in copies)
            for text, copies in passages.items()
        }
        return sum(len(text) * best[text] for text in passages) / length

    inside = [by_id[i] for i in answer.contexts if i in by_id]
    split = any(
        not any(
            chunk.start <= span.start and span.end <= chunk.end
            for chunk in by_document.get(span.doc_id, ())
        )
        and any(
            c.doc_id == span.doc_id and c.start < span.end and span.start < c.end for c in inside
        )
        for span in held
    )
    return _Reach(
        1.0,
        fraction((*deep, *answer.contexts)),
        fraction((*answer.contexts, *answer.cut)),
        fraction(answer.contexts),
        split,
    )


def _reach_of_documents(
    dataset: Dataset,
    case: Case,
    held: Sequence[Span],
    answer: Answer,
    deep: Sequence[str],
    by_id: Mapping[str, Chunk],
) -> _Reach | None:
    contexts = answer.contexts
    in_passages = {passage.passage_id: passage.doc_id for passage in answer.passages}
    grades = dataset.qrels.get(case.query_id, {})
    relevant = {doc_id for doc_id, grade in grades.items() if grade >= 1}
    relevant |= {span.doc_id for span in case.evidence}
    if not relevant:
        return None

    def fraction(ids: Sequence[str]) -> float:
        documents = {in_passages.get(i) or (by_id[i].doc_id if i in by_id else "") for i in ids}
        return len(documents & relevant) / len(relevant)

    texts = [by_id[i].text for i in contexts if i in by_id]
    texts += [passage.text for passage in answer.passages]
    whole = all(
        _is_whole(dataset.corpus.get(doc_id), contexts, texts, by_id) for doc_id in relevant
    )
    stated = bool(case.gold_facts) and all(stated_facts("\n".join(texts), case.gold_facts))
    joined = "\n".join(" ".join(text.split()) for text in texts)
    quotes = [" ".join(dataset.corpus[s.doc_id].full_text[s.start : s.end].split()) for s in held]
    quoted = (
        sum(len(quote) for quote in quotes if quote in joined) >= HOLDS * sum(map(len, quotes)) > 0
    )
    # A system with documents of its own has no corpus here: then the corpus cannot be checked.
    is_foreign = not dataset.corpus and bool(in_passages)
    return _Reach(
        float(is_foreign or bool(relevant & set(dataset.corpus))),
        fraction((*deep, *contexts)),
        fraction((*contexts, *answer.cut)),
        fraction(contexts),
        documents=len(relevant),
        located=whole or stated or quoted,
    )


def _is_whole(
    document: Document | None,
    contexts: Sequence[str],
    texts: Sequence[str],
    by_id: Mapping[str, Chunk],
) -> bool:
    """Whether the contexts hold all of a document: its chunks together, or one passage."""
    if document is None:
        return False
    full = document.full_text
    place = 0
    for chunk in sorted((by_id[i] for i in contexts if i in by_id), key=lambda chunk: chunk.start):
        if chunk.doc_id == document.doc_id and not full[place : chunk.start].strip():
            place = max(place, chunk.end)
    words = " ".join(full.split())
    return not full[place:].strip() or any(words in " ".join(text.split()) for text in texts)


def _right_by_labels(own: Mapping[str, float]) -> str:
    if own.get("gold_fact_coverage") == 1.0:
        return "every gold fact is stated"
    if own.get("token_f1", 0.0) >= 0.8:
        return f"token F1 with the reference is {own['token_f1']:.2f}"
    return ""


def _right_against_labels(own: Mapping[str, float], wrong: bool, reach: _Reach | None) -> str:
    """Return how a judge finds an answer right that the labels call wrong; "" where it does not."""
    facts = own.get("gold_fact_coverage", 1.0)
    if "llm_correctness" in own and not wrong and facts < RIGHT:
        return (
            f"the judge gives {own['llm_correctness']:.2f}, but {facts:.0%} of the gold facts "
            "are stated"
        )
    held = reach is not None and reach.located and reach.holds(reach.context)
    if (
        wrong
        and held
        and own.get("llm_faithfulness") == 1.0
        and own.get("llm_relevance", 0.0) >= RELEVANT
    ):
        return (
            "by the judge it addresses the question and the evidence in the context supports "
            "all of it"
        )
    return ""


def _conflict(dataset: Dataset, case: Case, answer: Answer, own: Mapping[str, float]) -> str:
    """Return what an answer contradicts: a forbidden claim, or a label in a number, name or
    negation; "" if none.
    """
    if own.get("forbidden_claims_absent", 1.0) < 1:
        return "a forbidden claim is made"
    texts = {
        "the reference": case.reference_answer or "",
        "the gold facts": " ".join(fact[0] for fact in case.gold_facts),
        "the evidence": " ".join(
            dataset.corpus[span.doc_id].full_text[span.start : span.end]
            for span in case.evidence
            if span.doc_id in dataset.corpus
        ),
    }
    for name, text in texts.items():
        differs = overlaps(wording(answer), text)
        if max(differs["other_details"], differs["negation_differs"]) >= _CONFLICT:
            return f"it differs from {name} in a detail"
    return ""


def doubt_labels(
    diagnoses: Mapping[str, pd.DataFrame], answers: Mapping[str, Sequence[Answer]]
) -> dict[str, pd.DataFrame]:
    """Return the diagnoses of several systems with "label_in_doubt" where they agree against the
    label.

    The cause of a wrong answer is replaced where the wrong answers of at least two other systems
    agree with it: where `ragbench.metrics.correctness_estimate` of one, with the other as the
    reference, is 0.5 or more. Leave out systems that quote their contexts, which agree anyway.

    Args:
        diagnoses: system -> its diagnosis, as from `diagnose`.
        answers: system -> its answers.

    >>> given = {name: [Answer("q", text)] for name, text in zip("abc", ["In 1889.", "It was in 1889.", "1889"])}
    >>> wrong = pd.DataFrame({"query_id": ["q"], "cause": ["not_used"], "evidence": ["token_f1 is 0.00"]})
    >>> doubt_labels(dict.fromkeys("abc", wrong), given)["a"].values.tolist()
    [['q', 'label_in_doubt', 'token_f1 is 0.00; 2 other systems give the same answer']]
    """
    wrong = ("fabricated", "contradicts", "not_used", "unknown_chunk")
    texts: dict[str, dict[str, str]] = {}
    for name, diagnosis in diagnoses.items():
        failed = set(diagnosis.loc[diagnosis["cause"].isin(wrong), "query_id"])
        for answer in answers[name]:
            if answer.query_id in failed and not answer.abstained:
                texts.setdefault(answer.query_id, {})[name] = wording(answer)
    doubted = {}
    for name, diagnosis in diagnoses.items():
        causes, evidence = list(diagnosis["cause"]), list(diagnosis["evidence"])
        for i, query_id in enumerate(diagnosis["query_id"]):
            others = dict(texts.get(query_id, {}))
            text = others.pop(name, None)
            if (
                text is not None
                and (n := sum(_agree(text, other) for other in others.values())) >= _AGREEING
            ):
                causes[i], evidence[i] = (
                    "label_in_doubt",
                    f"{evidence[i]}; {n} other systems give the same answer",
                )
        doubted[name] = diagnosis.assign(cause=causes, evidence=evidence)
    return doubted


def _agree(text: str, other: str) -> bool:
    return (
        correctness_estimate({"token_f1": token_f1(text, other), **overlaps(text, other)}) >= RIGHT
    )


def _estimates(case: Case, answer: Answer | None, own: Mapping[str, float]) -> dict[str, float]:
    """Return correctness_estimate of the answer, and of those of the ablations by their scores;
    none of long texts.
    """
    found = {}
    length = len((case.reference_answer or "").split())
    for prefix in ("", "actual_", "oracle_", "best_chunks_", "empty_"):
        signals = {name: own[prefix + name] for name in SIGNALS if prefix + name in own}
        if signals and not prefix and answer is not None and case.reference_answer:
            signals |= overlaps(wording(answer), case.reference_answer)
            length = max(length, len(wording(answer).split()))
        estimate = correctness_estimate(signals, words=length)
        if not signals.keys().isdisjoint(("token_f1", "semantic_similarity")) and not math.isnan(
            estimate
        ):
            found[f"{prefix}correctness_estimate"] = estimate
    return found


def _decisive(
    own: Mapping[str, float], calibrations: Mapping[str, Calibration]
) -> tuple[str | None, float]:
    """The measure that decides whether an answer is right, and its threshold."""
    if "llm_correctness" not in own:
        for name, calibration in calibrations.items():
            if name in own and name in CORRECTNESS:
                return name, calibration.threshold
    return next((name for name in _DECISIVE if name in own), None), RIGHT


def _test(own: Mapping[str, float], measure: str | None, limit: float) -> str:
    """What the ablations show: is the answer right from the gold evidence, and without any
    document?
    """
    # What was refused has no value of its own, but its ablations have.
    measure = measure or next((name for name in CORRECTNESS if f"oracle_{name}" in own), None)
    if measure is None:
        return ""
    found = []
    if (value := own.get(f"oracle_{measure}")) is not None:
        right = value >= limit
        found.append(
            "right from the gold evidence alone"
            if right
            else "wrong even from the gold evidence alone"
        )
    if (value := own.get(f"empty_{measure}")) is not None and value >= limit:
        found.append("right without any document")
    return "; ".join(found)
