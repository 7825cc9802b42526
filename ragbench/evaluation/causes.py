"""The first cause of each failed question: the rule, the words and the stage of every cause, their
order, and the evidence that is shown for it.

The stages are checked in the order in which data flows through them. The first stage that lost the
evidence of a question is the cause, regardless of later stages. The verdict on the answer is checked
before the stages: if a judge calls an answer wrong that is right by its labels, the judge is
suspected.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol, overload

import pandas as pd

from ragbench.errors import ConfigError, DataError, plural, unknown_chunk
from ragbench.evaluation.evidence_reach import (
    CALLS_WITH_UNCHANGED_QUESTION,
    EvidenceMeter,
    EvidenceReach,
    located_spans,
    relevant_documents,
    span_text,
)
from ragbench.metrics.answer_similarity import squad_words, token_f1
from ragbench.metrics.overall import THRESHOLDS, failure_reasons, requirements_missed
from ragbench.metrics.ranking_measures import ranking
from ragbench.metrics.tidy import answer_language, answers_by_query, values_by_query, wording
from ragbench.types import Answer, Case, Chunk, Dataset, Judgement, Run

# cause -> its words, and the stage that has to change; in the order in which data flows
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
"""Causes of questions whose answers may be right."""

_DECISIVE = {"llm_correctness": "llm_correctness", "gold_fact_coverage": "gold_facts"}
"""Measure that decides whether an answer is right -> the part whose threshold a right answer reaches."""

CORRECTNESS = (*_DECISIVE, "semantic_similarity", "token_f1")
"""Measures of correctness, the most reliable first. Similarity and token F1 alone decide nothing."""

SUPPORTED = 0.5
"""An answer with a lower faithfulness or claim support is not supported by its context."""

RELEVANT = 0.75
"""An answer with this relevance by the judge, or a higher one, addresses the question."""

_STEPS_AFTER_SEARCH = ("reranker", "diversity")

_CONFLICT = 0.5  # smallest `_contradiction` of an answer that contradicts a label
_DETAIL = re.compile(r"\d[\w.,]*|(?<![.!?] )(?<!^)\b[A-Z][\w-]+")
_NEGATION = re.compile(r"(?i)\b(?:not?|never|none|neither|nor|without|cannot)\b|n['’]t\b")
_SAME_WORDS = 0.8  # smallest token F1 of an answer in the words of the reference
_FAITHFUL = {
    "llm_faithfulness": SUPPORTED,
    "claim_support": SUPPORTED,
    "forbidden_claims_absent": 1.0,
}
"""Measure of support by the context -> smallest value of a supported answer."""

_COLUMNS = "query_id category question failed cause evidence measure value held".split()


class _Question(NamedTuple):
    """A question with its answer, scores and evidence.

    Attributes:
        scores: measure -> value, of the measures that are scored.
        reach: how much of the evidence each stage holds; None if no label names the evidence.
        depth: the depth of the ranking that counts in `reach`.
        thresholds: as of `diagnose`.
    """

    dataset: Dataset
    case: Case
    answer: Answer
    scores: Mapping[str, float]
    reach: EvidenceReach | None
    depth: int
    is_english: bool
    thresholds: Mapping[str, float]

    @property
    def measure(self) -> str:
        """Return the measure that decides whether the answer is right; "" if none does."""
        return next((name for name in _DECISIVE if name in self.scores), "")

    @property
    def is_wrong(self) -> bool:
        if not self.measure:
            return False
        return self.scores[self.measure] < self.threshold(_DECISIVE[self.measure])

    @property
    def is_right(self) -> bool:
        return bool(self.measure) and not self.is_wrong

    def threshold(self, part: str) -> float:
        """Return the value that the part must reach; of a part that decides nothing, its default."""
        return self.thresholds.get(part, 0.0) or THRESHOLDS[part]

    def failure_reasons(self) -> list[str]:
        """Return why the answer does not pass, see `ragbench.metrics.overall.failure_reasons`."""
        return failure_reasons(self.case, self.answer, self.scores, thresholds=self.thresholds)


class _Finding(NamedTuple):
    """A cause, one of `CAUSES` or "" for none, and its evidence: a sentence that says how it is known."""

    cause: str
    evidence: str


_NOTHING_FOUND = _Finding("", "")


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
    thresholds: Mapping[str, float] = ...,
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
    thresholds: Mapping[str, float] = THRESHOLDS,
) -> pd.DataFrame:
    """Return the first cause of each failed question, with its evidence: one row per question, in
    the order of the dataset. Given a result, return its `diagnosis`, which the evaluation has made.

    A question has failed if its pass_rate in `scores` is 0. Without pass_rate, it has failed if
    `ragbench.metrics.overall.failure_reasons` finds a reason by the thresholds. Other questions
    have the cause "", or "label_in_doubt" if the judge lets an answer pass whose gold facts are not
    stated.

    The labels and the verdict are checked first:

    - "unanswerable_answered": a question without an answer in the documents got one.
    - "judge_suspected": the judge calls the answer wrong, but it states all gold facts, or its token
      F1 with the reference is 0.8 or more.
    - "label_in_doubt": the judge calls the answer right, but it states less than half of the gold
      facts. Or the answer is wrong, by the judge or its gold facts, but the judge finds that it
      addresses the question (`RELEVANT`), and that a context with the evidence supports every claim.

    Then the cause is the first stage that lost the evidence, if the contexts do not hold it. A list of
    chunks holds the evidence if it covers `HOLDS` (0.8) of its characters. A passage that occurs word for
    word in several places counts once, by its best covered copy. If only documents are labelled, a list
    holds the evidence if it has any chunk of a relevant document.

    - "not_in_corpus": no relevant document is in the corpus.
    - "filtered": the documents that the filter allows do not hold the evidence.
    - "rewritten": the query that was made of the question and its history does not find the evidence;
      the question alone would have found it. Both are in the answer's `calls`.
    - "lost_by_reranker", "lost_by_diversity": the first chunks before this step hold the evidence,
      the chunks that the step handed over do not; their number is the same.
    - "cut_by_budget", "cut_after_expanding": the contexts hold the evidence only together with the
      chunks that the budget cut.
    - "split_by_border": the contexts hold a part of a span that no single chunk holds whole.
    - "below_cut": the first `depth` chunks of the ranking hold the evidence.
    - "not_retrieved": they do not hold it either.

    If the contexts hold the evidence, or no label names it, generation is the cause. An answer is
    unsupported if faithfulness by the judge, or else claim support, is below 0.5, or if it makes a
    forbidden claim. Where only documents are labelled, the contexts are known to hold the evidence if
    they hold every relevant document as a whole, quote the evidence, or state every gold fact.

    - "request_failed": the request for the answer failed.
    - "requirement_missed": the answer is right, or not decided, and misses another requirement, such as
      citations or a latency budget.
    - "fabricated": it is unsupported, and the contexts are not known to hold the evidence.
    - "contradicts": it is unsupported and makes a forbidden claim, or it replaces numbers, names or a
      negation of the reference, the gold facts or the evidence by others.
    - "unknown_chunk": the contexts are not known to hold the evidence: another chunk of the document, or
      a missing document, may be the one with the answer.
    - "refused", "not_used": there was no answer, or a wrong one of any other kind.

    Args:
        run: chunk-level run, at least `depth` deep; {} for systems that show their contexts only.
        answers: with `contexts` and `cut` as chunk ids, or `passages` with their doc_id.
        judgements: verdicts, if any: their explanations become evidence.
        scores: tidy scores with the measures of `CORRECTNESS`, and claim_support if it was measured.
        chunks: the chunks that `run` and `answers` name.
        depth: the number of chunks of the ranking that count as retrieved.
        stages: the runs after each step of a search, in their order; the last is `run`.
        filtered: query_id -> relevant documents that the filter keeps from the question.
        thresholds: part -> the value from which an answer passes, as for `decide_overall`; it also
            decides here whether an answer is right.

    Returns:
        Columns query_id, category, question, failed (bool), cause, evidence (a sentence), measure
        (which decides whether the answer is right; "" if none does), value (of this measure, or
        pd.NA), held (the fraction of the evidence that the context holds; pd.NA if not known).

    >>> import pandas as pd
    >>> case = Case("q", "When?", gold_facts=(("1889",),))
    >>> data = Dataset("demo", "test", {}, [case], {"q": {"d": 1}})
    >>> scores = pd.DataFrame({"query_id": ["q"], "measure": ["gold_fact_coverage"], "value": [0.0]})
    >>> table = diagnose(data, {}, [Answer("q", "In 1900.")], [], scores, [])
    >>> table[["cause", "evidence"]].values.tolist()
    [['not_in_corpus', 'none of its relevant documents (d) is in the corpus']]

    Raises:
        DataError: a question has two answers, or an answer belongs to no question of the dataset;
            `run` or an answer has an id that is neither in `chunks` nor of a passage; the result has
            no diagnosis.
        ConfigError: a dataset is passed alone.
    """
    if not isinstance(dataset, Dataset):
        return _diagnosis_of(dataset)
    if run is None or scores is None:
        raise ConfigError(
            "the causes of failures follow from a run, answers, judgements, scores and chunks; give all "
            "of them, or the result of rb.evaluate alone"
        )
    answer_of = answers_by_query(dataset, answers)
    evidence_meter = EvidenceMeter(dataset, chunks)
    _check_ids_have_text(run, answers, [chunk.chunk_id for chunk in chunks])
    scores_of = values_by_query(scores.dropna(subset=["value"]))
    explanations = {(each.query_id, each.criterion): each.explanation for each in judgements}
    is_english = answer_language(dataset, answers).is_english
    rows = []
    for case in dataset.cases:
        query_id = case.query_id
        missing = Answer(query_id, "", outcome="failed", error="no answer came back")
        answer = answer_of.get(query_id, missing)
        reach = evidence_meter.reach(
            case,
            answer,
            ranking=ranking(run.get(query_id, {}))[:depth],
            stages={step: ranking(of_step.get(query_id, {})) for step, of_step in stages.items()},
            filtered=filtered.get(query_id, ()),
        )
        question = _Question(
            dataset,
            case,
            answer,
            scores_of.get(query_id, {}),
            reach,
            depth,
            is_english,
            thresholds,
        )
        rows.append(_diagnosed(question, explanations))
    table = pd.DataFrame(rows, columns=_COLUMNS)
    return table.astype({"failed": bool, "value": "Float64", "held": "Float64"})


def _diagnosed(
    question: _Question, explanations: Mapping[tuple[str, str], str]
) -> dict[str, object]:
    """Return the row of one question in the table of `diagnose`.

    A question that did not fail has the cause "", or "label_in_doubt". "held" is the fraction of the
    evidence that the contexts hold.

    Args:
        explanations: (query_id, criterion) -> the judge's explanation of its verdict.
    """
    case = question.case
    has_failed = _has_failed(question)
    cause, evidence = _cause_of(question) if has_failed else _doubt_about_label(question)
    evidence += _explained(cause, case.query_id, explanations)
    if has_failed and question.scores.get("context_diversity_met") == 0:
        evidence += f"; its contexts are of few documents for a {case.query_type} question"
    return {
        "query_id": case.query_id,
        "category": case.category,
        "question": case.text,
        "failed": has_failed,
        "cause": cause,
        "evidence": evidence,
        "measure": question.measure,
        "value": question.scores.get(question.measure, pd.NA),
        "held": pd.NA if question.reach is None else question.reach.context,
    }


def _explained(cause: str, query_id: str, explanations: Mapping[tuple[str, str], str]) -> str:
    """Return the judge's explanation of its verdict, as the end of a sentence about a cause.

    The verdict is on correctness for the causes in `DISPUTED` (judge and labels disagree), and on
    faithfulness for an unsupported answer. "" for other causes, and without an explanation.
    """
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
    """Return the diagnosis of a result.

    Raises:
        DataError: it has none.
    """
    table: pd.DataFrame | None = getattr(result, "diagnosis", None)
    if table is None:
        raise DataError(
            f"{type(result).__name__} has no diagnosis; expected the result of an evaluation with "
            "answers, or a dataset with a run, answers, judgements, scores and chunks"
        )
    return table


def _has_failed(question: _Question) -> bool:
    """Return True if the question did not pass, by its pass_rate or else by its labels."""
    if "pass_rate" in question.scores:
        return question.scores["pass_rate"] == 0
    return bool(question.failure_reasons())


def _doubt_about_label(question: _Question) -> _Finding:
    """Return "label_in_doubt" with its evidence for a question that did not fail; nothing if its label
    is not in doubt.
    """
    if question.case.answerable:
        finding = _judge_against_labels(question)
        if finding.cause == "label_in_doubt":
            return finding
    return _NOTHING_FOUND


def _cause_of(question: _Question) -> _Finding:
    """Return the first cause of a failed question. Checked in this order: a judge's verdict that
    contradicts the labels, a stage before generation that lost the evidence, generation. If no label
    names the evidence, the stages before generation are not checked.
    """
    if not question.case.answerable:
        return _cause_of_unanswerable(question)
    disputed = _judge_against_labels(question)
    if disputed.cause:
        return disputed
    reach = question.reach  # None if no label names the evidence
    if reach is not None and not reach.is_enough(reach.context):
        return _loss_before_generation(question, reach)
    return _cause_in_generation(question)


def _cause_of_unanswerable(question: _Question) -> _Finding:
    """Return the cause of a failed question without an answer in the documents."""
    if question.answer.attempted:
        return _Finding(
            "unanswerable_answered", "the documents hold no answer, and an answer was given"
        )
    if question.answer.failed:
        return _request_failed(question)
    # it abstained, as it should, and failed by something else, such as a flag that is required
    return _finding_of_missed_requirement(question)


def _request_failed(question: _Question) -> _Finding:
    return _Finding("request_failed", question.answer.error or "the request failed")


def _cause_in_generation(question: _Question) -> _Finding:
    """Return the cause of a failed question whose contexts hold the evidence, or whose evidence no label
    names (`question.reach` is None).

    The cause is "unknown_chunk" if the contexts have only some chunks of the relevant documents, which
    need not hold the evidence (`EvidenceReach.is_exact` is False), and no earlier check finds a cause.
    """
    answer, reach = question.answer, question.reach
    if answer.failed:
        return _request_failed(question)
    if answer.attempted:
        if _misses_other_requirement(question):
            return _finding_of_missed_requirement(question)
        unsupported = _unsupported(question)
        if unsupported.cause:
            return unsupported
    symptom = _symptom(question)  # how the failure shows, such as "no answer given"
    cause = "not_used" if answer.attempted else "refused"
    if reach is None:
        return _Finding(cause, symptom)
    in_context = reach.shown(reach.context)
    if reach.is_exact:
        return _Finding(cause, f"{symptom} although the context holds {in_context}")
    return _Finding(
        "unknown_chunk",
        f"{symptom}; the context has chunks of {in_context} ({reach.shown(reach.ranking)} in the best "
        f"{question.depth}), and no label says whether they hold what the answer needs",
    )


def _unsupported(question: _Question) -> _Finding:
    """Return "fabricated" or "contradicts" for an answer that its context does not support.

    - "fabricated": the context is not known to hold the evidence.
    - "contradicts": the context holds the evidence, and the answer differs from a label.
    - nothing: the answer is supported, or it differs from no label although it is not supported.
    """
    measure = _unsupported_by(question.scores)
    if not measure:
        return _NOTHING_FOUND
    low_support = f"{measure} is {question.scores[measure]:.2f}"
    reach = question.reach
    if reach is None or not reach.is_exact:
        return _Finding("fabricated", low_support)
    conflict = _conflict(question)
    if conflict:
        return _Finding("contradicts", f"{low_support}, and {conflict}")
    return _NOTHING_FOUND


def _misses_other_requirement(question: _Question) -> bool:
    """Return True if a failed answer misses another requirement than to be right: it lacks expected
    citations, is late, or misses a requirement of its case, such as a flag.

    Also return True for any right answer: since it failed, it must miss some other requirement.
    """
    if question.is_right:
        return True
    scores, thresholds = question.scores, question.thresholds
    # a score that was not measured counts as full
    min_citations = thresholds.get("expected_citations", 0.0)
    if scores.get("expected_citations", 1.0) < min_citations:
        return True
    latency_decides = thresholds.get("latency", 0.0) > 0
    is_late = scores.get("latency_in_budget", 1.0) == 0
    if latency_decides and is_late:
        return True
    return bool(requirements_missed(question.case, question.answer, thresholds))


def _unsupported_by(scores: Mapping[str, float]) -> str:
    """Return the first measure of support by the context that is too low; "" if none is."""
    for measure, threshold in _FAITHFUL.items():
        if scores.get(measure, threshold) < threshold:
            return measure
    return ""


def _symptom(question: _Question) -> str:
    """Return how a failure shows: there is no answer, the measure that decides is low, or else the
    reasons of `failure_reasons`.
    """
    answer = question.answer
    if not answer.attempted:
        return "refused" if answer.outcome == "blocked" else "no answer given"
    if question.measure:
        return f"{question.measure} is {question.scores[question.measure]:.2f}"
    return "; ".join(question.failure_reasons())


def _finding_of_missed_requirement(question: _Question) -> _Finding:
    """Return "requirement_missed" with the reasons, for an answer that is right, or not decided, and
    fails by another label.
    """
    reasons = "; ".join(question.failure_reasons())
    return _Finding("requirement_missed", reasons or "a threshold of the targets is not reached")


def _judge_against_labels(question: _Question) -> _Finding:
    """Return the cause for a question on which the judge and the labels disagree; nothing if they agree.

    An answer is wrong (`_Question.is_wrong`) by the judge if it gave a verdict, else by its gold facts.

    - "judge_suspected": the judge calls the answer wrong, but it states every gold fact, or has nearly
      the words of the reference.
    - "label_in_doubt": the judge calls the answer right, but it lacks most gold facts. Or the answer is
      wrong, but by the judge it addresses the question and a context with the evidence supports it.
    """
    scores, reach = question.scores, question.reach
    correctness = scores.get("llm_correctness")  # by the judge
    facts_stated = scores.get("gold_fact_coverage")
    if correctness is not None and question.is_wrong:
        judge_gives = f"the judge gives {correctness:.2f}"
        if facts_stated == 1.0:
            return _Finding("judge_suspected", f"{judge_gives}, but every gold fact is stated")
        overlap = scores.get("token_f1", 0.0)
        if overlap >= _SAME_WORDS:
            return _Finding(
                "judge_suspected",
                f"{judge_gives}, but token F1 with the reference is {overlap:.2f}",
            )
    if not question.answer.attempted:
        return _NOTHING_FOUND
    lacks_facts = facts_stated is not None and facts_stated < 0.5
    if correctness is not None and not question.is_wrong and lacks_facts:
        return _Finding(
            "label_in_doubt",
            f"the judge gives {correctness:.2f}, but {facts_stated:.0%} of the gold facts are stated",
        )
    contexts_hold_evidence = (
        reach is not None
        and reach.is_exact  # they do not merely have some chunk of a relevant document
        and reach.is_enough(reach.context)
    )
    is_supported = scores.get("llm_faithfulness") == 1.0
    addresses_question = scores.get("llm_relevance", 0.0) >= RELEVANT
    if question.is_wrong and contexts_hold_evidence and is_supported and addresses_question:
        return _Finding(
            "label_in_doubt",
            "by the judge it addresses the question and the evidence in the context supports "
            "all of it",
        )
    return _NOTHING_FOUND


def _loss_before_generation(question: _Question, reach: EvidenceReach) -> _Finding:
    """Return the first stage that lost the evidence of a question whose contexts do not hold enough of it.

    A stage after the search lost the evidence if enough of it was there before this stage.

    Args:
        reach: the fractions of the evidence that the corpus, the ranking, the chunks after each step and
            the contexts hold.
    """
    if reach.corpus == 0.0:
        relevant = relevant_documents(question.dataset, question.case)
        evidence = [span.doc_id for span in question.case.evidence]
        ids = ", ".join(dict.fromkeys([*relevant, *evidence]))
        return _Finding("not_in_corpus", f"none of its relevant documents ({ids}) is in the corpus")
    present = f"{reach.shown(reach.context)} in the context"
    # the documents that the filter allows lack the evidence
    if not reach.is_enough(reach.allowed):
        allowed = f"the filter allows documents with {reach.shown(reach.allowed)}"
        return _Finding("filtered", f"{present}; {allowed}")
    # the search handed over enough of it, so that only the cut can have lost it
    if reach.is_enough(reach.before_cut):
        cut = f"with the {plural(len(question.answer.cut), 'chunk')} that the budget cut"
        cause = "cut_after_expanding" if "expand" in reach.stages else "cut_by_budget"
        return _Finding(cause, f"{present}, {reach.shown(reach.before_cut)} {cut}")
    # the question as it was asked would have found it
    if reach.is_enough(reach.by_unchanged_question):
        return _Finding("rewritten", f"{present} by {_rewritten_queries(question, reach)}")
    # enough of it was found, but not kept by the reranker or the step for diversity
    step = _losing_step(reach)
    if step:
        name = "step for variety" if step == "diversity" else step
        held_before = reach.shown(_held_before(reach, step))
        return _Finding(f"lost_by_{step}", f"{present}, {held_before} before the {name}")
    if reach.split:
        return _Finding("split_by_border", f"{present}; no single chunk holds all of the passage")
    cause = "below_cut" if reach.is_enough(reach.ranking) else "not_retrieved"
    found_deep = f"{reach.shown(reach.ranking)} in the best {question.depth} chunks"
    return _Finding(cause, f"{present}, {found_deep}")


def _rewritten_queries(question: _Question, reach: EvidenceReach) -> str:
    """Return a clause such as "the query 'opening year', 90% of the evidence by the question alone".

    It states the queries that the pipeline made of the question and searched for, and how much of the
    evidence the unchanged question would have found. In a conversation this is the last question.
    """
    calls = question.answer.calls
    queries = [repr(call.query) for call in calls if call.name not in CALLS_WITH_UNCHANGED_QUESTION]
    noun = "query" if len(queries) == 1 else "queries"
    is_conversation = any(call.name == "last" for call in calls)
    unchanged = "last question" if is_conversation else "question"
    found = reach.shown(reach.by_unchanged_question)
    return f"the {noun} {', '.join(queries)}, {found} by the {unchanged} alone"


def _losing_step(reach: EvidenceReach) -> str:
    """Return the first step after the search that lost the evidence: enough of it was held before this
    step, and not after it. "" if none did.
    """
    for step in _STEPS_AFTER_SEARCH:
        before = _held_before(reach, step)
        # a step that the search does not have changes nothing
        after = reach.stages.get(step, before)
        if reach.is_enough(before) and not reach.is_enough(after):
            return step
    return ""


def _held_before(reach: EvidenceReach, step: str) -> float:
    """Return the fraction of the evidence that the best chunks held before a step: after the reranker,
    if diversity follows it, else after the search.
    """
    after_search = reach.stages.get("search", 0.0)
    if step == "diversity":
        return reach.stages.get("reranker", after_search)
    return after_search


def _check_ids_have_text(run: Run, answers: Sequence[Answer], chunk_ids: Sequence[str]) -> None:
    """Raise DataError if the run or an answer has an id that is neither a chunk nor a passage."""
    ids_with_text = set(chunk_ids)
    for answer in answers:
        ids_with_text.update(passage.passage_id for passage in answer.passages)
    contexts = {answer.query_id: (*answer.contexts, *answer.cut) for answer in answers}
    for query_id, ids in (*run.items(), *contexts.items()):
        for chunk_id in ids:
            if chunk_id not in ids_with_text:
                raise DataError(unknown_chunk(chunk_id, query_id, len(chunk_ids)))


def _conflict(question: _Question) -> str:
    """Return a clause that states which label an answer contradicts; "" if it contradicts none.

    An answer contradicts its labels by a forbidden claim, or by another number, name or negation;
    numbers, names and negations are compared in English only.
    """
    if question.scores.get("forbidden_claims_absent", 1.0) < 1:
        return "a forbidden claim is made"
    if not question.is_english:
        return ""
    case = question.case
    first_wordings = [wordings[0] for wordings in case.gold_facts]
    spans = located_spans(question.dataset, case)
    label_texts = {
        "the reference": case.reference_answer or "",
        "the gold facts": " ".join(first_wordings),
        "the evidence": " ".join(span_text(question.dataset, span) for span in spans),
    }
    for name, text in label_texts.items():
        if _contradiction(wording(question.answer), text) >= _CONFLICT:
            return f"it differs from {name} in a detail"
    return ""


def _contradiction(answer: str, text: str) -> float:
    """Return how far an answer contradicts a text, from 0 to 1: the larger of two values.

    - Details (numbers, capitalised words) are replaced by others: the fraction of the text's details that
      the answer lacks, or the fraction of the answer's details that the text lacks, the smaller of both.
    - One negates what the other states: their token F1 if exactly one of the two has an odd number of
      negations, else 0.

    >>> _contradiction("It opened in May 1881.", "in May 1900")  # May is in both
    0.5
    >>> _contradiction("It is not open.", "It is open.") > 0.8
    True
    """
    details_replaced = 0.0
    answer_details = _details(answer)
    text_details = _details(text)
    if answer_details and text_details:
        n_missing = len(text_details.difference(squad_words(answer)))
        n_added = len(answer_details.difference(squad_words(text)))
        details_replaced = min(n_missing / len(text_details), n_added / len(answer_details))
    n_negations = len(_NEGATION.findall(answer)) + len(_NEGATION.findall(text))
    is_negated = n_negations % 2 == 1  # an odd sum: one of the two is negated, the other is not
    if is_negated:
        return max(details_replaced, token_f1(answer, text))
    return details_replaced


def _details(text: str) -> set[str]:
    """Return the numbers of a text, and its capitalised words except at the start of a sentence, in the
    form of `squad_words`.
    """
    details: set[str] = set()
    for detail in _DETAIL.findall(text):
        details.update(squad_words(detail))
    return details
