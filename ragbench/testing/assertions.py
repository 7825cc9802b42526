"""Assertions about one question: context recall, and when an answer is correct; what a failure
shows.

A failure shows the question, the expectation, the result, and the ceiling. A threshold that no
system can reach is an error of the test (ConfigError), not a failure of the system.
"""

import operator
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ragbench import judges, llms, metrics, systems
from ragbench.errors import ConfigError, DataError, DataWarning, abridged
from ragbench.testing import reports
from ragbench.testing.reports import Check
from ragbench.types import LLM, Answer, Case, Dataset, DatasetSource, Judgement

_SHOWN = 400
# pytest shows the line of the test and the message, and not the source of the assertion below it.
_hidden = operator.methodcaller("errisinstance", (AssertionError, ConfigError))


@dataclass(frozen=True)
class LabelledCase:
    """A question with its labels: its case, and the relevant documents (doc_id -> grade).

    `source` is the source of its dataset; None for a dataset that was made in code.
    """

    case: Case
    relevant: Mapping[str, int] = field(default_factory=dict)
    source: DatasetSource | None = None

    @property
    def query_id(self) -> str:
        """Return the id of the question."""
        return self.case.query_id

    @property
    def query(self) -> str:
        """Return the question."""
        return self.case.text

    @property
    def expected_document_ids(self) -> list[str]:
        """Return the relevant documents, best grade first."""
        return sorted(self.relevant, key=lambda doc_id: -self.relevant[doc_id])

    @property
    def ground_truth(self) -> str:
        """Return the reference answer; ConfigError if there is none."""
        if not self.case.reference_answer:
            raise ConfigError(
                f"question {self.query_id!r} has no reference answer; `ragbench answers` writes "
                "them"
            )
        return self.case.reference_answer


def labelled_cases(dataset: Dataset, *, min_grade: int = 1) -> list[LabelledCase]:
    """Return each question of a dataset with its relevant documents, of grade `min_grade` and
    above.

    >>> data = Dataset("demo", "test", {}, [Case("q", "Who?")], {"q": {"d1": 2, "d2": 1}})
    >>> labelled_cases(data, min_grade=2)[0].relevant
    {'d1': 2}
    """
    cases = []
    for case in dataset.cases:
        grades = dataset.qrels.get(case.query_id, {})
        relevant = {doc_id: grade for doc_id, grade in grades.items() if grade >= min_grade}
        cases.append(LabelledCase(case, relevant, dataset.source))
    return cases


def assert_context_recall(
    results: Answer | Mapping[str, Any] | Sequence[Any],
    case: LabelledCase | Case,
    k: int = 10,
    at_least: float = 0.8,
) -> float:
    """Assert that enough relevant documents are among the first `k` different documents of the results,
    and return the recall.

    Recall is the fraction of the relevant documents that are there, in [0, 1]. Its ceiling, the most that
    any system can reach, is min(k, relevant) / relevant. The relevant documents are the first of these
    that the case has:

    - the documents of a `LabelledCase`;
    - the documents of its evidence and of its expected sections;
    - its `relevant_chunks` and `expected_chunks`: then chunks are counted in place of documents.

    Args:
        results: an `Answer`; or search results, best first: ids, passages, or tables with `id` or
            `doc_id`; or a mapping id -> score. The id of a chunk ("doc#0-330", "doc#3") counts as
            its document.
        case: the question with its labels, from the fixture `ragbench_case` or `labelled_cases`.
        k: number of documents that count.
        at_least: the recall that the system must reach.

    >>> case = LabelledCase(Case("q", "Who?"), {"a": 1, "b": 1})
    >>> assert_context_recall(["c", "a#0", "a#4", "b#1"], case, k=3, at_least=1.0)
    1.0
    >>> assert_context_recall(["c", "a", "b"], case, k=1, at_least=0.8)
    Traceback (most recent call last):
    ragbench.errors.ConfigError: the test asks for a recall of 0.80 at k = 1, but question 'q' has 2 relevant ...

    Raises:
        AssertionError: the recall is below `at_least`, or the request to the system failed.
        ConfigError: `at_least` is above the ceiling, a number is out of its range, or nothing is
            labelled as relevant.
    """
    __tracebackhide__ = _hidden
    labelled = case if isinstance(case, LabelledCase) else LabelledCase(case)
    relevant = _relevant_documents(labelled)
    has_documents = bool(relevant)
    if not has_documents:
        relevant = _relevant_chunks(labelled.case)
    # documents that are alternatives for each other count once, under the name of the first
    relevant = labelled.case.first_alternatives(relevant)
    ceiling = _checked_ceiling(labelled.query_id, len(relevant), k, at_least)

    check_name = f"context_recall@{k}"
    answer = _recorded_answer(labelled, results, check_name)
    if has_documents:
        ranking = _ranked_documents(answer)[:k]
    else:
        ranking = list(systems.distinct_contexts(answer))[:k]
    retrieved = labelled.case.first_alternatives(ranking)
    recall = len(relevant & retrieved) / len(relevant)
    passed = recall >= at_least
    _record_check(labelled, check_name, recall, passed)
    if not passed:
        raise AssertionError(
            f"{_question_line(labelled)}\n"
            f"  expected: at least {at_least:.2f} of {_first_ids(sorted(relevant))} among the "
            f"first {k}\n  result: {_first_ids(ranking)}\n"
            f"  recall {recall:.2f}; missing: {_first_ids(sorted(relevant - retrieved))}\n"
            f"  ceiling at k = {k}: {ceiling:.2f}"
        )
    return recall


def _relevant_documents(labelled: LabelledCase) -> set[str]:
    """Return the ids of the labelled documents of a question, or if none is labelled, of the documents of
    its evidence and expected sections; an empty set if it has none of these.
    """
    if labelled.relevant:
        return set(labelled.relevant)
    in_evidence = {span.doc_id for span in labelled.case.evidence}
    in_sections = {doc_id for doc_id, _ in labelled.case.expected_sections}
    return in_evidence | in_sections


def _checked_ceiling(query_id: str, n_relevant: int, k: int, at_least: float) -> float:
    """Return the highest recall that a system can reach with `k` documents, if `n_relevant` are relevant.

    Raises:
        ConfigError: nothing is relevant, a number is out of range, or `at_least` is above the
            ceiling.
    """
    __tracebackhide__ = _hidden
    if not n_relevant:
        raise ConfigError(
            f"question {query_id!r} has no relevance labels: its recall cannot be tested; "
            "use the fixture ragbench_case, or labelled_cases(dataset)"
        )
    if k < 1 or not 0 <= at_least <= 1:
        raise ConfigError(
            f"k is {k} and at_least {at_least}; expected k from 1 and a number from 0 to 1"
        )
    ceiling = min(k, n_relevant) / n_relevant
    if at_least > ceiling:
        raise ConfigError(
            f"the test asks for a recall of {at_least:.2f} at k = {k}, but "
            f"question {query_id!r} has {n_relevant} relevant documents, so no system "
            f"can exceed {ceiling:.2f}: raise k or lower at_least"
        )
    return ceiling


def _relevant_chunks(case: Case) -> set[str]:
    """Return the ids of the chunks of grade 1 and above, and of the expected chunks."""
    graded = {chunk_id for chunk_id, grade in case.relevant_chunks.items() if grade >= 1}
    return graded | set(case.expected_chunks)


def assert_answer_correct(
    answer: Answer | str | Mapping[str, Any],
    case: LabelledCase | Case,
    evaluation_llm: LLM | Callable[[str], Any] | None = None,
) -> float:
    """Assert that an answer agrees with the reference answer, and return the verdict, from 0 to 1.

    The judge decides by the criterion "correctness" of `ragbench.judges.judge`: 1.0 or 0.0. On an
    unanswerable question, abstaining is correct. Without a judge, or without a reference answer, all
    gold facts must be stated; the verdict is the fraction of them that is.

    Args:
        answer: a text, a table as `ragbench.systems.read_answer` takes it, or an `Answer`.
        case: the question with its labels.
        evaluation_llm: the judge: the fixture of that name, an `LLM`, or a function from prompt to
            reply.

    Raises:
        AssertionError: the answer is wrong or a refusal, or its request failed.
        ConfigError: the case has neither a reference answer nor gold facts, or only a reference
            answer and no judge to compare with it.
        pytest.skip.Exception: the judge returns no readable verdict.
    """
    __tracebackhide__ = _hidden
    labelled = case if isinstance(case, LabelledCase) else LabelledCase(case)
    question = labelled.case
    reply = {"answer": answer} if isinstance(answer, str) else answer
    result = _recorded_answer(labelled, reply, "answer_correct")
    expected = _expected_text(question)  # "no answer" if the question is unanswerable
    if not expected:
        raise ConfigError(
            f"question {question.query_id!r} has neither a reference answer nor gold facts: no answer "
            "to it can be tested"
        )
    verdict = _decide_correctness(labelled, result, evaluation_llm)
    _record_check(labelled, "answer_correct", verdict.value, verdict.passed, verdict.reason)
    if not verdict.passed:
        text = _shortened(result.text) or "nothing"
        raise AssertionError(
            f"{_question_line(labelled)}\n  expected: {_shortened(expected)}\n"
            f"  result: {text}\n  {verdict.reason}"
        )
    return verdict.value


def _expected_text(case: Case) -> str:
    """Return the expected answer, for a message: the reference answer, else the gold facts, each in its
    first wording; "" without both. For an unanswerable question it is "no answer".
    """
    if not case.answerable:
        return "no answer"
    facts = "; ".join(first_wording for first_wording, *_ in case.gold_facts)
    return case.reference_answer or facts


class _Verdict(NamedTuple):
    """Whether an answer is correct, from 0 to 1."""

    value: float
    reason: str
    passed: bool


def _decide_correctness(
    labelled: LabelledCase, answer: Answer, evaluation_llm: LLM | Callable[[str], Any] | None
) -> _Verdict:
    """Decide whether an answer is correct, by the first of these that applies:

    - the question is unanswerable, or the answer abstains: abstaining is right on an unanswerable
      question alone;
    - there is a judge and a reference answer: the judge compares; its verdict passes from 0.5;
    - there are gold facts: all must be stated.

    Raises:
        ConfigError: there are no gold facts, and no judge to compare with the reference answer.
        pytest.skip.Exception: the judge returns no readable verdict.
    """
    __tracebackhide__ = _hidden
    question = labelled.case
    abstained = answer.abstained or not answer.text.strip()
    if not question.answerable:
        if abstained:
            return _Verdict(1.0, "the question has no answer, and none was given", True)
        return _Verdict(0.0, "the question has no answer, and one was given", False)
    if abstained:
        return _Verdict(0.0, "no answer was given", False)
    if evaluation_llm is not None and question.reference_answer:
        judgement = _judge_correctness(answer, question, evaluation_llm)
        explanation = _shortened(judgement.explanation)
        if judgement.value is None:
            # without a value, and neither passed nor failed
            _record_check(labelled, "answer_correct", None, None, judgement.explanation)
            import pytest

            pytest.skip(f"the judge returned no verdict ({judgement.state}): {explanation}")
        value = float(judgement.value)
        return _Verdict(value, f"the judge: {explanation}", value >= 0.5)
    if question.gold_facts:
        coverage = metrics.gold_fact_coverage(answer.text, question.gold_facts)
        reason = f"{coverage:.0%} of the gold facts are stated"
        return _Verdict(coverage, reason, coverage >= 1.0)
    raise ConfigError(
        f"question {question.query_id!r} has no gold facts; give a judge to compare with its "
        "reference"
    )


def _judge_correctness(
    answer: Answer, case: Case, evaluation_llm: LLM | Callable[[str], Any]
) -> Judgement:
    """Let a judge compare an answer with the reference answer of its case, by the criterion "correctness".

    Args:
        evaluation_llm: a model; the fixture of that name, which holds one; or a function from prompt
            to reply.
    """
    model: Any = getattr(evaluation_llm, "llm", evaluation_llm)  # the model that the fixture holds
    if not hasattr(model, "generate"):
        model = _llm_of_function(model)
    data = Dataset("test", "test", {}, (case,), {})
    # without contexts, which correctness does not need, and whose chunks are not known here
    bare = Answer(answer.query_id, answer.text, outcome=answer.outcome)
    # the test reports a failed verdict itself
    with warnings.catch_warnings(action="ignore", category=DataWarning):
        [judgement] = judges.judge([bare], "correctness", model, dataset=data, chunks=())
    return judgement


def _llm_of_function(ask: Callable[[str], Any]) -> LLM:
    """Return a model whose replies come from a function; the function gets the judge's system prompt
    before each request, because it has no other place for it.
    """
    from ragbench.judges.prompts import JUDGE_SYSTEM

    name = getattr(ask, "__name__", type(ask).__name__)
    return llms.ScriptedLLM(
        lambda prompt: ask(f"{JUDGE_SYSTEM}\n\n{prompt}"), name=f"function:{name}"
    )


def _recorded_answer(case: LabelledCase, results: Any, measure: str) -> Answer:
    """Return the result of a system as an answer, and record it for the report of the test session.

    If the system's request failed, the check of `measure` is recorded as failed.

    Raises:
        AssertionError: the system's request failed.
    """
    __tracebackhide__ = _hidden
    answer = _as_answer(case.query_id, results)
    if reports.active is not None:  # the recorder of this test session; None outside of pytest
        reports.active.kept.append((case.source, answer))
    if answer.error is not None:
        _record_check(case, measure, None, False, answer.error)
        raise AssertionError(f"{_question_line(case)}\n  the request failed: {answer.error}")
    return answer


def _as_answer(query_id: str, results: Any) -> Answer:
    """Return the value of a system as an `Answer`.

    An `Answer` is returned unchanged; a mapping id -> score and a list of ids or passages become the
    contexts of an answer, best first; any other mapping is read as the reply of a system.

    Raises:
        DataError: the results are none of these.
    """
    # Not at the top: this module is part of every pytest session.
    from ragbench.metrics.ranking_measures import ranking

    if isinstance(results, Answer):
        return results
    if isinstance(results, Mapping):
        # id -> score; the reply of a system has other values, such as a text
        is_ranking = all(isinstance(score, int | float) for score in results.values())
        if not is_ranking:
            return systems.read_answer(query_id, results)
        results = ranking({str(key): float(score) for key, score in results.items()})
    if isinstance(results, str) or not isinstance(results, Sequence):
        raise DataError(
            f"results are {results!r}; expected an answer, a list of ids or passages, or id -> "
            "score"
        )
    contexts = []
    for entry in results:
        if isinstance(entry, str):  # an id
            entry = {"id": entry, "text": "", "doc_id": _document_of_chunk(entry)}
        contexts.append(entry)
    return systems.read_answer(query_id, {"contexts": contexts})


def _ranked_documents(answer: Answer) -> list[str]:
    """Return the different documents of an answer's contexts, best first."""
    if answer.passages:
        doc_ids = [p.doc_id or _document_of_chunk(p.passage_id) for p in answer.passages]
    else:
        doc_ids = [_document_of_chunk(chunk_id) for chunk_id in answer.contexts]
    return list(dict.fromkeys(doc_ids))


def _document_of_chunk(chunk_id: str) -> str:
    """Return the document of a chunk: "doc#0-330" and "doc#3" without the suffix.

    >>> _document_of_chunk("d#0-330"), _document_of_chunk("a#b#3"), _document_of_chunk("c#"), _document_of_chunk("d")
    ('d', 'a#b', 'c#', 'd')
    """
    return re.sub(r"(?<=.)#\d+(?:-\d+)?\Z", "", chunk_id, flags=re.DOTALL)


def _record_check(
    case: LabelledCase, measure: str, value: float | None, passed: bool | None, reason: str = ""
) -> None:
    """Record a check of the current test for the report; `value` None is unscored, `passed` None
    undecided. Outside of a recorded session, do nothing.
    """
    if reports.active is not None:
        reports.active.checks.append(
            Check(reports.current_test, case.query_id, measure, value, passed, _shortened(reason))
        )


def _question_line(case: LabelledCase) -> str:
    return f"query {case.query_id!r}: {_shortened(case.query)}"


def _first_ids(ids: Sequence[str]) -> str:
    if not ids:
        return "nothing"
    more = f" and {len(ids) - 10} more" if len(ids) > 10 else ""
    return ", ".join(ids[:10]) + more


def _shortened(text: str) -> str:
    return abridged(" ".join(text.split()), _SHOWN)
