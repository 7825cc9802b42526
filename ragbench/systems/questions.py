"""Every question of a dataset to a system: side by side, in order, and no failure ends the others."""

from __future__ import annotations

import queue
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from ragbench.errors import ConfigError, DataWarning, FailureKind
from ragbench.llms import active_dry_run
from ragbench.progress import progress_bar
from ragbench.systems.function import failed, takes_roles, to_answer
from ragbench.types import Answer, Dataset, System


def ask(
    system: System,
    dataset: Dataset,
    *,
    concurrency: int = 8,
    timeout_s: float | None = None,
    batch: bool = True,
    label: str = "",
    known: Mapping[str, Answer] = MappingProxyType({}),
) -> list[Answer]:
    """The system's answer to every question of the dataset, in the order of the cases.

    Args:
        system: anything with `name` and `answer(query_id, query)`. Where that takes the keyword `user_roles`, it gets
            those of the case. Where it has `check_replies(ended=...)`, that may
            end the run with an error, such as for a path that matches in no reply.
        dataset: the questions.
        concurrency: how many questions wait at a time.
        timeout_s: seconds until a question counts as failed; None waits as long as the system does. Python cannot stop
            a call, so one that hangs is left behind in its thread.
        batch: a system with `answer_many(queries)`, such as `Pipeline`, is asked all at once; False asks it one by
            one, which gives the latencies that a user would see.
        label: the text before the progress bar, which appears after two seconds.
        known: query_id -> answers that are there already; these questions are not asked.

    Returns:
        One answer per case. What a system raises, returns that is not an answer, or does not return in time is a failed
        answer with the reason in `error`; failures are reported together in one DataWarning. `latency_ms` has "total"
        unless the system gave one, or answered in a batch. Ctrl-C ends at once.

    >>> from ragbench.systems.function import FunctionSystem
    >>> from ragbench.types import Case
    >>> questions = Dataset("demo", "test", {}, [Case("q1", "one?"), Case("q2", "two?")], {})
    >>> [answer.text for answer in ask(FunctionSystem(str.upper), questions)]
    ['ONE?', 'TWO?']
    """
    if concurrency < 1 or (timeout_s is not None and not timeout_s > 0):
        raise ConfigError(f"ask: concurrency {concurrency} and timeout_s {timeout_s} must be above 0")
    queries = {query_id: query for query_id, query in dataset.queries.items() if query_id not in known}
    if not isinstance(system, System):
        raise ConfigError(f"ask: {system!r} is not a system; expected an object with name and answer(query_id, query)")
    many = getattr(system, "answer_many", None)
    if batch and callable(many) and (active_dry_run() is None or _sends_nothing(system)):
        answers: Sequence[Answer] = many(queries)
        if not known:
            return list(answers)
        by_query = {**known, **{answer.query_id: answer for answer in answers}}
        return [by_query[query_id] for query_id in dataset.queries]
    roles = {case.query_id: case.user_roles for case in dataset.cases}
    by_query = {**known, **_side_by_side(system, queries, roles, concurrency, timeout_s, label or system.name)}
    answers = [by_query[query_id] for query_id in dataset.queries]
    warn_of_failures(system.name, answers)
    return answers


def _side_by_side(
    system: System,
    queries: Mapping[str, str],
    roles: Mapping[str, Sequence[str]],
    concurrency: int,
    timeout_s: float | None,
    label: str,
) -> dict[str, Answer]:
    came: queue.SimpleQueue[tuple[str, Answer | BaseException]] = queue.SimpleQueue()

    def work(query_id: str) -> None:
        try:
            came.put((query_id, ask_one(system, query_id, queries[query_id], roles[query_id])))
        except BaseException as exc:  # Ctrl-C and exit belong to the thread that waits for us
            came.put((query_id, exc))

    answers: dict[str, Answer] = {}
    waiting = list(queries)[::-1]
    until: dict[str, float] = {}
    check = getattr(system, "check_replies", lambda *, ended: None)
    with progress_bar(len(queries), label, "question") as bar:
        while waiting or until:
            while waiting and len(until) < concurrency:
                query_id = waiting.pop()
                until[query_id] = time.monotonic() + (timeout_s or float("inf"))
                # A daemon for each question: one that hangs costs no other its place, nor the process its end.
                threading.Thread(target=work, args=(query_id,), name=f"{label} {query_id}", daemon=True).start()
            try:  # a wait without end cannot be interrupted on every system
                query_id, found = came.get(timeout=max(0.0, min(0.2, min(until.values()) - time.monotonic())))
            except queue.Empty:
                late = [query_id for query_id, end in until.items() if end <= time.monotonic()]
                for query_id in late:
                    message = f"{system.name} gave no answer within {timeout_s:g} s"
                    answers[query_id] = failed(query_id, message, FailureKind.TIMEOUT)
            else:
                late = [query_id] if query_id in until else []  # what comes after its time has failed already
                if late and isinstance(found, BaseException):
                    raise found
                if late and isinstance(found, Answer):
                    answers[query_id] = found
                    check(ended=False)
            for query_id in late:
                del until[query_id]
                bar.update()
    check(ended=True)
    return {query_id: answers[query_id] for query_id in queries}


def ask_one(system: System, query_id: str, query: str, user_roles: Sequence[str] = ()) -> Answer:
    """The answer to one question; what the system raises is a failed answer. `latency_ms` has "total" at least.

    `user_roles` are those of the person who asks, for a system whose `answer` takes them. In a dry run only systems
    that send nothing themselves are asked: ragbench's own pipeline and recorded answers.
    """
    if (plan := active_dry_run()) and not _sends_nothing(system):
        plan.note_question(system.name)
        return failed(query_id, "a dry run: nothing was sent", FailureKind.DRY_RUN)
    start = time.perf_counter()
    try:
        roles = {"user_roles": tuple(user_roles)} if takes_roles(system.answer) else {}
        answer = to_answer(query_id, system.answer(query_id, query, **roles), system.name)
    except Exception as exc:  # any exception of a user's system is an outcome of that system
        answer = failed(query_id, f"{type(exc).__name__}: {exc}", getattr(exc, "failure", None) or FailureKind.ERROR)
    total = 1000 * (time.perf_counter() - start)
    return answer if answer.latency_ms else replace(answer, latency_ms={"total": total})


def _sends_nothing(system: System) -> bool:
    from ragbench.systems.pipeline import Pipeline
    from ragbench.systems.recorded import RecordedSystem

    return isinstance(system, Pipeline | RecordedSystem)


def warn_of_failures(name: str, answers: Sequence[Answer]) -> None:
    """One DataWarning for all answers that failed; none where all came."""
    wrong = [answer for answer in answers if answer.error is not None]
    if wrong:
        warnings.warn(
            f"{name}: {len(wrong)} of {len(answers)} answers failed, the first for query {wrong[0].query_id!r}: "
            f"{wrong[0].error}",
            DataWarning,
            stacklevel=3,
        )
