"""Why a question failed: exactly one first cause each, with the evidence for it.

The stages are checked in the order in which data flows through them; the first that lost what an
answer needs is the cause, regardless of what happened after it. The verdict on the answer itself is
checked first: where the labels show that the answer is right and a judge calls it wrong, the judge
is the suspect.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol, overload

import pandas as pd

from ragbench.errors import ConfigError, DataError, unknown_chunk
from ragbench.metrics.answer_similarity import squad_words, stated_facts, token_f1
from ragbench.metrics.overall import THRESHOLDS, failure_reasons, requirements_missed
from ragbench.metrics.retrieval import ranking
from ragbench.metrics.spans import evidence_recall
from ragbench.metrics.tidy import answer_language, answers_by_query, values_by_query, wording
from ragbench.types import Answer, Case, Chunk, Dataset, Judgement, Run, Span, chunks_by_id, grouped

# in the order in which data flows: cause -> its words, and the stage that has to change
_CAUSES = {
    "not_in_corpus": ("not in the corpus", "retrieval"),
    "filtered": ("kept from the question by the filter", "retrieval"),
    "rewritten": ("query rewritten wrongly", "retrieval"),
    "not_retrieved": ("not retrieved", "retrieval"),
    "lost_by_reranker": ("found by search, lost by the reranker", "retrieval"),
    "lost_by_diversity": ("found by search, lost for variety", "retrieval"),
    "below_cut": ("retrieved below the cut", "retrieval"),
    "cut_by_budget": ("cut by the token budget", "chunking"),
    "cut_after_expanding": ("found, but beyond the budget after expanding", "chunking"),
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
    "requirement_missed": ("right or not decided, another requirement missed", "generation"),
}

CAUSES = {cause: words for cause, (words, _) in _CAUSES.items()}
"""Cause -> its words, in the order in which data flows."""

STAGE_OF = {cause: stage for cause, (_, stage) in _CAUSES.items()}
"""Cause -> the stage that has to change: "retrieval", "chunking", "generation"; "judge", "label";
"unknown".
"""

DISPUTED = ("judge_suspected", "label_in_doubt")
"""Causes by which the answer may be right."""

_RIGHT = {
    "llm_correctness": THRESHOLDS["llm_correctness"],
    "gold_fact_coverage": THRESHOLDS["gold_facts"],
}
"""Measure that decides whether an answer is right -> the value from which it is."""

CORRECTNESS = (*_RIGHT, "semantic_similarity", "token_f1")
"""Measures of how right an answer is, the most reliable first; the last two decide nothing alone."""

HOLDS = 0.8
"""A list of chunks holds what a question needs if it covers at least this fraction of the evidence.
"""

SUPPORTED = 0.5
"""Faithfulness or claim support below this means that the answer is not supported by its context.
"""

RELEVANT = 0.75
"""From this relevance by the judge on, an answer addresses the question."""

_UNCHANGED = ("last", "question")
"""Calls with a question as it was asked, by a pipeline that rewrites questions."""

_STEPS_AFTER_SEARCH = ("reranker", "diversity")

_CONFLICT = 0.5  # half of the numbers and names of either text are others, or one negates the other
_DETAIL = re.compile(r"\d[\w.,]*|(?<![.!?] )(?<!^)\b[A-Z][\w-]+")
_NEGATION = re.compile(r"(?i)\b(?:not?|never|none|neither|nor|without|cannot)\b|n['’]t\b")
_SAME_WORDS = 0.8  # token F1 with the reference
_FAITHFUL = {
    "llm_faithfulness": SUPPORTED,
    "claim_support": SUPPORTED,
    "forbidden_claims_absent": 1.0,
}


_COLUMNS = "query_id category question failed cause evidence measure value held".split()


class _Reach(NamedTuple):
    """How much of the evidence the documents, the first `depth`, the contexts with what was cut,
    the contexts themselves, and the contexts of the question before it was rewritten hold:
    fractions of its characters or, where documents only are labelled, of the relevant documents.

    `documents` is the number of relevant documents, 0 if the evidence is spans. `split` is True if a
    chunk border splits a passage that the contexts hold in part; `located`, if the contexts are
    known to hold the evidence that they count. `allowed` is the fraction that the filter allows,
    and `stages` has the fraction after each step of the search.
    """

    corpus: float
    deep: float
    uncut: float
    context: float
    unchanged: float
    split: bool = False
    documents: int = 0
    located: bool = True
    allowed: float = 1.0
    stages: Mapping[str, float] = MappingProxyType({})

    def holds(self, fraction: float) -> bool:
        """Return True if this fraction of the evidence is enough: any document, or `HOLDS`."""
        return fraction > 0 if self.documents else fraction >= HOLDS

    def shown(self, fraction: float) -> str:
        if not self.documents:
            return f"{fraction:.0%} of the evidence"
        noun = "document" if self.documents == 1 else "documents"
        return f"{round(fraction * self.documents)} of {self.documents} relevant {noun}"


class _Question(NamedTuple):
    """One question with everything that shows its cause. `measure` decides whether the answer is
    right; "" if nothing does. `reach` is None if no label names the evidence.
    """

    dataset: Dataset
    case: Case
    answer: Answer
    scores: Mapping[str, float]
    measure: str
    reach: _Reach | None
    depth: int
    is_english: bool

    @property
    def wrong(self) -> bool:
        return bool(self.measure) and self.scores[self.measure] < _RIGHT[self.measure]

    @property
    def spans(self) -> list[Span]:
        return [span for span in self.case.evidence if span.doc_id in self.dataset.corpus]

    @property
    def relevant(self) -> list[str]:
        grades = self.dataset.qrels.get(self.case.query_id, {})
        return [doc_id for doc_id, grade in grades.items() if grade >= 1]


class Diagnosed(Protocol):
    """A result, which holds its diagnosis."""

    @property
    def diagnosis(self) -> pd.DataFrame | None: ...


@overload
def diagnose(dataset: Diagnosed) -> pd.DataFrame: ...
@overload
def diagnose(
    dataset: Dataset,
    run: Run,
    answers: Sequence[Answer],
    judgements: Sequence[Judgement],
    scores: pd.DataFrame,
    chunks: Sequence[Chunk],
    *,
    depth: int = 100,
    stages: Mapping[str, Run] = ...,
    filtered: Mapping[str, Sequence[str]] = ...,
) -> pd.DataFrame: ...
def diagnose(
    dataset: Dataset | Diagnosed,
    run: Run | None = None,
    answers: Sequence[Answer] = (),
    judgements: Sequence[Judgement] = (),
    scores: pd.DataFrame | None = None,
    chunks: Sequence[Chunk] = (),
    *,
    depth: int = 100,
    stages: Mapping[str, Run] = MappingProxyType({}),
    filtered: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> pd.DataFrame:
    """Return the first cause of each failed question, with its evidence; one row per question, in
    the order of the dataset. Of a result it is what the evaluation found: its `diagnosis`.

    A question has failed if it did not pass: where `scores` has pass_rate, its value is 0; else
    `ragbench.metrics.overall.failure_reasons` finds a reason by the default thresholds. Questions that
    passed or that nothing decides have the cause "", but for "label_in_doubt": the judge lets the
    answer pass although its gold facts are not stated.

    The cause is the first that holds, in the order of `CAUSES`, but for three that come first.
    "judge_suspected": a judge calls it wrong although all gold facts are stated (or token F1 with
    the reference is 0.8 or more). "label_in_doubt": a judge calls it right although less than half
    of the gold facts are stated, or it differs from the reference or the facts although the judge
    finds that it addresses the question (`RELEVANT`) and that a context which holds the evidence
    supports every claim. "unanswerable_answered": a question without an answer got one. A list of
    chunks holds the evidence if it covers `HOLDS` (0.8) of its characters. A passage that occurs
    word for word in several places counts once; either copy will do. "rewritten": the query that
    was made of a question, or of it and its history, finds less than that, and the question alone
    would have found it (both are in the answer's `calls`). "filtered": the documents that the filter
    allows do not hold it. "lost_by_reranker" and "lost_by_diversity": the best chunks before that
    step hold it, as many as were handed over, and those after it do not. "cut_after_expanding": the
    budget cut what was expanded. "split_by_border": the
    contexts hold a part of a span that no single chunk holds whole. An answer is unsupported where
    faithfulness by the judge, or else claim support, is below 0.5, or a forbidden claim is made. It
    is "fabricated" where the evidence is not known to be in the context; if it is, the answer
    "contradicts" it if other numbers or names, or a negation, take the place of those of the
    reference, the gold facts or the evidence, or if it makes a forbidden claim. What is left, with
    the evidence in the context, is "refused" or "not_used".

    Where documents only are labelled, a list of chunks that has any chunk of a relevant document is
    not lost; but generation is blamed only if the contexts hold every relevant document as a whole,
    quote the evidence, or state every gold fact. Otherwise the cause is "unknown_chunk": the chunk
    may be another one than that with the answer, or the document that is missing may be the one
    that was needed.

    Args:
        run: chunk-level run, at least `depth` deep; {} for systems that show no more than their
            contexts.
        answers: with `contexts` and `cut` as chunk ids, or `passages` with their doc_id.
        judgements: verdicts, if any: their explanations become evidence.
        scores: tidy scores with the measures of `CORRECTNESS`, and where it was measured
            claim_support.
        chunks: that `run` and `answers` name.
        depth: how deep "not retrieved" looks.
        stages: the runs after each step of a search, in their order; the last is `run`.
        filtered: query_id -> relevant documents that the filter keeps from the question.

    Returns:
        query_id, category, question, failed (bool), cause ("" where not failed), evidence (a
        sentence), measure, value (of the verdict; pd.NA if none), held (the fraction of the
        evidence that the context holds; pd.NA if not known).

    >>> import pandas as pd
    >>> case = Case("q", "When?", gold_facts=(("1889",),))
    >>> data = Dataset("demo", "test", {}, [case], {"q": {"d": 1}})
    >>> scores = pd.DataFrame({"query_id": ["q"], "measure": ["gold_fact_coverage"], "value": [0.0]})
    >>> table = diagnose(data, {}, [Answer("q", "In 1900.")], [], scores, [])
    >>> table[["cause", "evidence"]].values.tolist()
    [['not_in_corpus', 'none of its relevant documents (d) is in the corpus']]

    Raises:
        DataError: two answers to one question, or one to a question that the dataset lacks; `run`
            or an answer names what is neither among `chunks` nor a passage; a result in which nothing
            was diagnosed.
        ConfigError: a dataset alone.
    """
    if not isinstance(dataset, Dataset):
        return _diagnosis_of(dataset)
    if run is None or scores is None:
        raise ConfigError(
            "the causes of failures follow from a run, answers, judgements, scores and chunks; give all "
            "of them, or the result of rb.evaluate alone"
        )
    answer_of = answers_by_query(dataset, answers)
    by_id = chunks_by_id(chunks)
    _check_chunking(run, answers, by_id)
    by_document = grouped(chunks, lambda chunk: chunk.doc_id)
    values = values_by_query(scores.dropna(subset=["value"]))
    explanations = {(j.query_id, j.criterion): j.explanation for j in judgements}
    is_english = answer_language(dataset, answers).is_english
    rows = []
    for case in dataset.cases:
        missing = Answer(case.query_id, "", outcome="failed", error="no answer came back")
        answer = answer_of.get(case.query_id, missing)
        measures = values.get(case.query_id, {})
        decisive = next((name for name in _RIGHT if name in measures), "")
        question = _Question(dataset, case, answer, measures, decisive, None, depth, is_english)
        reach = _reach(
            question,
            ranking(run.get(case.query_id, {}))[:depth],
            by_id,
            by_document,
            {step: ranking(each.get(case.query_id, {})) for step, each in stages.items()},
            filtered.get(case.query_id, ()),
        )
        question = question._replace(reach=reach)
        has_failed = _failed(question)
        if has_failed:
            cause, evidence = _cause(question)
        else:
            cause, evidence = _doubt_about_label(question)
        evidence += _explained(cause, case.query_id, explanations)
        if has_failed and measures.get("context_diversity_met") == 0:
            evidence += f"; its contexts are of few documents for a {case.query_type} question"
        row = {
            "query_id": case.query_id,
            "category": case.category,
            "question": case.text,
            "failed": has_failed,
            "cause": cause,
            "evidence": evidence,
            "measure": decisive,
            "value": measures.get(decisive, pd.NA),
            "held": pd.NA if reach is None else reach.context,
        }
        rows.append(row)
    table = pd.DataFrame(rows, columns=_COLUMNS)
    return table.astype({"failed": bool, "value": "Float64", "held": "Float64"})


def _explained(cause: str, query_id: str, explanations: Mapping[tuple[str, str], str]) -> str:
    """Return the judge's explanation as the end of a sentence; "" if it did not decide the cause."""
    if cause in DISPUTED:
        criterion = "correctness"
    elif cause in ("fabricated", "contradicts"):
        criterion = "faithfulness"
    else:
        return ""
    explanation = explanations.get((query_id, criterion), "")
    if not explanation:
        return ""
    return f"; the judge: {' '.join(explanation.split())[:300]}"


def _diagnosis_of(result: Diagnosed) -> pd.DataFrame:
    """Return the diagnosis of a result."""
    table: pd.DataFrame | None = getattr(result, "diagnosis", None)
    if table is None:
        raise DataError(
            f"{type(result).__name__} has no diagnosis; expected the result of an evaluation with "
            "answers, or a dataset with a run, answers, judgements, scores and chunks"
        )
    return table


def _failed(question: _Question) -> bool:
    """Return True if the question did not pass, by its pass_rate or else by its labels."""
    if "pass_rate" in question.scores:
        return question.scores["pass_rate"] == 0
    return bool(failure_reasons(question.case, question.answer, question.scores))


def _doubt_about_label(question: _Question) -> tuple[str, str]:
    """Return the cause and evidence of a question that did not fail: a doubtful label, or none."""
    disputed = _disputed(question) if question.case.answerable else None
    if disputed and disputed[0] == "label_in_doubt":
        return disputed
    return "", ""


def _cause(question: _Question) -> tuple[str, str]:
    """Return the cause of a failed question, and its evidence."""
    case, answer, scores, reach = question.case, question.answer, question.scores, question.reach
    if not case.answerable:
        if answer.attempted:
            return "unanswerable_answered", "the documents hold no answer, and an answer was given"
        if not answer.failed:
            return _requirement_missed(question)
    elif disputed := _disputed(question):
        return disputed
    elif reach is not None and not reach.holds(reach.context):
        return _lost(question, reach)
    if answer.failed:
        return "request_failed", answer.error or "the request failed"
    if answer.attempted:
        is_right = question.measure and not question.wrong
        is_cited_wrongly = scores.get("expected_citations", 1.0) < THRESHOLDS["expected_citations"]
        is_late = scores.get("latency_in_budget", 1.0) == 0
        if is_right or is_cited_wrongly or is_late or requirements_missed(case, answer):
            return _requirement_missed(question)
        if unsupported := _unsupported_by(scores):
            low = f"{unsupported} is {scores[unsupported]:.2f}"
            if reach is None or not reach.located:
                return "fabricated", low
            if conflict := _conflict(question):
                return "contradicts", f"{low}, and {conflict}"
    verdict = _verdict(question)
    cause = "not_used" if answer.attempted else "refused"
    if reach is None:
        return cause, verdict
    in_context = reach.shown(reach.context)
    if not reach.located:
        return "unknown_chunk", (
            f"{verdict}; the context has chunks of {in_context} ({reach.shown(reach.deep)} in the best "
            f"{question.depth}), and no label says whether they hold what the answer needs"
        )
    return cause, f"{verdict} although the context holds {in_context}"


def _unsupported_by(scores: Mapping[str, float]) -> str:
    """Return the first measure by which the context does not support an answer; "" if none."""
    for measure, threshold in _FAITHFUL.items():
        if scores.get(measure, threshold) < threshold:
            return measure
    return ""


def _verdict(question: _Question) -> str:
    """Return why a question failed: no answer, the measure that decides, or its other reasons."""
    answer = question.answer
    if not answer.attempted:
        return "refused" if answer.outcome == "blocked" else "no answer given"
    if question.measure:
        return f"{question.measure} is {question.scores[question.measure]:.2f}"
    return "; ".join(failure_reasons(question.case, answer, question.scores))


def _requirement_missed(question: _Question) -> tuple[str, str]:
    """Return the cause of an answer that is right, or not decided, and misses another label."""
    reasons = failure_reasons(question.case, question.answer, question.scores)
    return "requirement_missed", "; ".join(reasons) or "a threshold of the targets is not reached"


def _disputed(question: _Question) -> tuple[str, str] | None:
    """Return the cause and evidence if the judge and the labels of an answer contradict each other;
    None if they do not.
    """
    scores, reach = question.scores, question.reach
    facts, judged = scores.get("gold_fact_coverage"), scores.get("llm_correctness")
    if judged is not None and question.wrong:
        if facts == 1.0:
            return "judge_suspected", f"the judge gives {judged:.2f}, but every gold fact is stated"
        if (overlap := scores.get("token_f1", 0.0)) >= _SAME_WORDS:
            return "judge_suspected", (
                f"the judge gives {judged:.2f}, but token F1 with the reference is {overlap:.2f}"
            )
    if not question.answer.attempted:
        return None
    if judged is not None and not question.wrong and facts is not None and facts < 0.5:
        return "label_in_doubt", (
            f"the judge gives {judged:.2f}, but {facts:.0%} of the gold facts are stated"
        )
    is_held = reach is not None and reach.located and reach.holds(reach.context)
    supported = scores.get("llm_faithfulness") == 1.0
    if question.wrong and is_held and supported and scores.get("llm_relevance", 0.0) >= RELEVANT:
        return "label_in_doubt", (
            "by the judge it addresses the question and the evidence in the context supports "
            "all of it"
        )
    return None


def _lost(question: _Question, reach: _Reach) -> tuple[str, str]:
    """Return the cause and evidence of a question whose evidence was lost before generation."""
    if reach.corpus == 0.0:
        evidence = (span.doc_id for span in question.case.evidence)
        ids = ", ".join(dict.fromkeys([*question.relevant, *evidence]))
        return "not_in_corpus", f"none of its relevant documents ({ids}) is in the corpus"
    present = f"{reach.shown(reach.context)} in the context"
    if not reach.holds(reach.allowed):
        return (
            "filtered",
            f"{present}; the filter allows documents with {reach.shown(reach.allowed)}",
        )
    if reach.holds(reach.uncut):
        n_cut = len(question.answer.cut)
        chunks = f"{n_cut} {'chunk' if n_cut == 1 else 'chunks'}"
        more = f"{reach.shown(reach.uncut)} with the {chunks} that the budget cut"
        cause = "cut_after_expanding" if "expand" in reach.stages else "cut_by_budget"
        return cause, f"{present}, {more}"
    if reach.holds(reach.unchanged):
        return "rewritten", f"{present} by {_rewritten(question, reach)}"
    if step := _losing_step(reach):
        name = "step for variety" if step == "diversity" else step
        held_before = reach.shown(_held_before(reach, step))
        return f"lost_by_{step}", f"{present}, {held_before} before the {name}"
    if reach.split:
        return "split_by_border", f"{present}; no single chunk holds all of the passage"
    cause = "below_cut" if reach.holds(reach.deep) else "not_retrieved"
    return cause, f"{present}, {reach.shown(reach.deep)} in the best {question.depth} chunks"


def _rewritten(question: _Question, reach: _Reach) -> str:
    """Return which queries took the place of a question, and how much the question alone found."""
    calls = question.answer.calls
    rewritten = [call for call in calls if call.name not in _UNCHANGED]
    queries = ", ".join(repr(call.query) for call in rewritten)
    noun = "query" if len(rewritten) == 1 else "queries"
    is_last = any(call.name == "last" for call in calls)
    which = "last question" if is_last else "question"
    return f"the {noun} {queries}, {reach.shown(reach.unchanged)} by the {which} alone"


def _losing_step(reach: _Reach) -> str:
    """Return the first step after the search that lost the evidence; "" if none did."""
    for step in _STEPS_AFTER_SEARCH:
        held = _held_before(reach, step)
        if reach.holds(held) and not reach.holds(reach.stages.get(step, held)):
            return step
    return ""


def _held_before(reach: _Reach, step: str) -> float:
    """Return how much the best chunks held before a step: after the search, or the reranker."""
    held = reach.stages.get("search", 0.0)
    if step == "diversity":
        return reach.stages.get("reranker", held)
    return held


def _check_chunking(run: Run, answers: Sequence[Answer], by_id: Mapping[str, Chunk]) -> None:
    """Refuse ids without a text, whose content cannot be checked; passages carry their own text."""
    ids_with_text = set(by_id)
    for answer in answers:
        ids_with_text.update(passage.passage_id for passage in answer.passages)
    contexts = {answer.query_id: (*answer.contexts, *answer.cut) for answer in answers}
    for query_id, ids in (*run.items(), *contexts.items()):
        for chunk_id in ids:
            if chunk_id not in ids_with_text:
                raise DataError(unknown_chunk(chunk_id, query_id, len(by_id)))


class _Lists(NamedTuple):
    """The lists of chunk or passage ids of one question in which the evidence is looked for.

    `deep` has the first `depth` of the ranking and the contexts, `uncut` the contexts and the chunks
    that the budget cut, `context` the contexts. `unchanged` has the results of the question before it
    was rewritten; it is empty if it was not. `stages` has after each step of the search as many
    chunks as `uncut`.
    """

    deep: Sequence[str]
    uncut: Sequence[str]
    context: Sequence[str]
    unchanged: Sequence[str]
    stages: Mapping[str, Sequence[str]]


def _reach(
    question: _Question,
    deep: Sequence[str],
    by_id: Mapping[str, Chunk],
    by_document: Mapping[str, Sequence[Chunk]],
    stages: Mapping[str, Sequence[str]],
    filtered: Collection[str],
) -> _Reach | None:
    """Return how much of the evidence each list of `_Lists` holds; None if no label names the evidence.

    Measured are characters of the evidence spans; without spans, or where the answer has passages
    (whose offsets in their documents are not known), relevant documents.

    Args:
        deep: the first `depth` chunk ids of the question's ranking.
        stages: its ranking after each step of the search.
        filtered: its relevant documents that the filter keeps from the question.
    """
    answer = question.answer
    unchanged = next((call.contexts for call in answer.calls if call.name in _UNCHANGED), ())
    uncut = (*answer.contexts, *answer.cut)
    # Each step is compared at the length that was handed over: a longer ranking would hold more.
    handed_over = {step: ids[: len(uncut)] for step, ids in stages.items()}
    lists = _Lists(
        deep=(*deep, *answer.contexts),
        uncut=uncut,
        context=answer.contexts,
        unchanged=unchanged,
        stages=handed_over,
    )
    chunks = [by_id[chunk_id] for chunk_id in answer.contexts if chunk_id in by_id]
    has_offsets = not answer.passages  # passages are texts of the system's documents, not chunks
    if question.spans and has_offsets:
        is_split = _is_split(question.spans, chunks, by_document)
        return _reach_by_spans(question, lists, by_id, filtered, is_split)
    return _reach_by_documents(question, lists, by_id, filtered, chunks)


def _reach_by_documents(
    question: _Question,
    lists: _Lists,
    by_id: Mapping[str, Chunk],
    filtered: Collection[str],
    chunks: Sequence[Chunk],
) -> _Reach | None:
    """Return how many of the relevant documents each list has a chunk or passage of; None if no
    document is known to be relevant. `chunks` are the contexts.
    """
    case = question.case
    labelled = {*question.relevant, *(span.doc_id for span in case.evidence)}
    relevant = case.first_alternatives(labelled)
    if not relevant:
        return None
    passages = question.answer.passage_of

    def fraction(ids: Sequence[str]) -> float:
        documents = set()
        for chunk_id in ids:
            source = passages.get(chunk_id) or by_id.get(chunk_id)
            if source is not None:
                documents.add(source.doc_id)
        return len(case.first_alternatives(documents) & relevant) / len(relevant)

    corpus = question.dataset.corpus
    # A system with documents of its own has no corpus here: then the corpus cannot be checked.
    is_unchecked = not corpus and bool(passages)
    is_in_corpus = is_unchecked or not corpus.keys().isdisjoint(labelled)
    allowed = case.first_alternatives(labelled.difference(filtered))
    return _Reach(
        corpus=float(is_in_corpus),
        deep=fraction(lists.deep),
        uncut=fraction(lists.uncut),
        context=fraction(lists.context),
        unchanged=fraction(lists.unchanged),
        documents=len(relevant),
        located=_is_located(question, labelled, chunks),
        allowed=len(allowed) / len(relevant),
        stages={step: fraction(ids) for step, ids in lists.stages.items()},
    )


def _reach_by_spans(
    question: _Question,
    lists: _Lists,
    by_id: Mapping[str, Chunk],
    filtered: Collection[str],
    is_split: bool,
) -> _Reach:
    """Return which fraction of the evidence's characters each list covers. The same words in several
    places are one passage, of which the copy that is covered best counts.
    """
    copies_of = grouped(question.spans, lambda span: _text_of(question.dataset, span))
    n_characters = sum(map(len, copies_of))

    def fraction(ids: Sequence[str]) -> float:
        chunks = [by_id[chunk_id] for chunk_id in dict.fromkeys(ids) if chunk_id in by_id]
        covered = []  # characters of each passage
        for text, copies in copies_of.items():
            recall = max(evidence_recall(chunks, [copy]) for copy in copies)
            covered.append(len(text) * recall)
        return sum(covered) / n_characters

    n_allowed = 0
    for text, copies in copies_of.items():
        if not all(copy.doc_id in filtered for copy in copies):
            n_allowed += len(text)
    return _Reach(
        corpus=1.0,
        deep=fraction(lists.deep),
        uncut=fraction(lists.uncut),
        context=fraction(lists.context),
        unchanged=fraction(lists.unchanged),
        split=is_split,
        allowed=n_allowed / n_characters,
        stages={step: fraction(ids) for step, ids in lists.stages.items()},
    )


def _is_split(
    spans: Iterable[Span], contexts: Sequence[Chunk], by_document: Mapping[str, Sequence[Chunk]]
) -> bool:
    """Return True if the contexts hold a part of a span that no single chunk holds whole."""
    for span in spans:
        is_whole = any(
            chunk.start <= span.start and span.end <= chunk.end
            for chunk in by_document.get(span.doc_id, ())
        )
        if not is_whole and evidence_recall(contexts, [span]):
            return True
    return False


def _is_located(question: _Question, relevant: Collection[str], chunks: Sequence[Chunk]) -> bool:
    """Return True if the contexts hold every relevant document (one of each group of alternatives),
    quote the evidence, or state every gold fact.
    """
    dataset, facts = question.dataset, question.case.gold_facts
    pieces = sorted(chunks, key=lambda chunk: (chunk.doc_id, chunk.start))
    texts = [chunk.text for chunk in pieces]
    texts += [passage.text for passage in question.answer.passages]
    joined = _folded(" ".join(texts))
    corpus = dataset.corpus
    held = []
    for doc_id in relevant:
        if doc_id in corpus and _folded(corpus[doc_id].full_text) in joined:
            held.append(doc_id)
    case = question.case
    if case.first_alternatives(held) == case.first_alternatives(relevant):
        return True
    if facts and all(stated_facts("\n".join(texts), facts)):
        return True
    quotes = [_text_of(dataset, span) for span in question.spans]
    n_quoted = sum(len(text) for text in quotes if text in joined)
    n_characters = sum(map(len, quotes))
    return n_characters > 0 and n_quoted >= HOLDS * n_characters


def _text_of(dataset: Dataset, span: Span) -> str:
    return _folded(dataset.corpus[span.doc_id].full_text[span.start : span.end])


def _folded(text: str) -> str:
    return " ".join(text.split())


def _conflict(question: _Question) -> str:
    """Return which forbidden claim or label an answer contradicts, as a clause; "" if none.

    A label is contradicted in a number, a name or a negation; only English is compared.
    """
    if question.scores.get("forbidden_claims_absent", 1.0) < 1:
        return "a forbidden claim is made"
    case = question.case
    texts = {
        "the reference": case.reference_answer or "",
        "the gold facts": " ".join(fact[0] for fact in case.gold_facts),
        "the evidence": " ".join(_text_of(question.dataset, span) for span in question.spans),
    }
    if not question.is_english:
        return ""
    for name, text in texts.items():
        if _difference(wording(question.answer), text) >= _CONFLICT:
            return f"it differs from {name} in a detail"
    return ""


def _difference(answer: str, text: str) -> float:
    """Return how much of a text an answer replaces, in [0, 1]: by details or by a negation,
    whichever is more.

    Details are numbers and capitalised words. Counted is the fraction of the text's details that
    the answer lacks or the fraction of the answer's details that the text lacks, whichever is
    smaller: it is high if one detail replaces another. If one of the two has an odd number of
    negations and the other an even number, token F1 counts.

    >>> _difference("It opened in May 1881.", "in May 1900")
    0.5
    """
    details_replaced = 0.0
    details, label_details = _details(answer), _details(text)
    if details and label_details:
        n_lacking = len(label_details.difference(squad_words(answer)))
        n_other = len(details.difference(squad_words(text)))
        details_replaced = min(n_lacking / len(label_details), n_other / len(details))
    n_negations = len(_NEGATION.findall(answer)) + len(_NEGATION.findall(text))
    is_negated = n_negations % 2 == 1  # one of the two, not both
    if is_negated:
        return max(details_replaced, token_f1(answer, text))
    return details_replaced


def _details(text: str) -> set[str]:
    """Return the numbers and, except at the start of a sentence, the capitalised words of a text, as
    `squad_words` writes them.
    """
    return {word for detail in _DETAIL.findall(text) for word in squad_words(detail)}
