"""Every question of a dataset to a system: side by side, in order, and no failure ends the others;
and the journal of answers from which a stopped evaluation continues.

A journal has the answers on disk as they come, so that a crash or Ctrl-C loses none of them.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from pydantic import TypeAdapter

from ragbench.errors import ConfigError, DataError, FailureKind, warn_of_flaw, warn_user
from ragbench.files import LineFile, parse_json
from ragbench.llms import TIMEOUT_S, active_dry_run
from ragbench.progress import ThreadedCalls, progress_bar
from ragbench.systems.function import Asker, accepted_options, attempt, failed
from ragbench.types import TURN_MARK, Answer, Case, Dataset, System

_ANSWER = TypeAdapter(Answer)
_LIST_OF = re.compile(r"a list of \d+ texts")
_UNREAD_HINT = (
    'return it as "contexts", or name it in the system\'s file: reply = {contexts = "$.path"}'
)
_OTHER_OUTPUT = "name another output, or start over with --force"


def ask(
    system: System,
    dataset: Dataset,
    *,
    concurrency: int = 8,
    timeout_s: float = TIMEOUT_S,
    label: str = "",
    known: Mapping[str, Answer] | None = None,
) -> list[Answer]:
    """Ask the system every question of the dataset, and return its answers in the order of the
    cases.

    Args:
        system: an object with `name` and `answer(query_id, query)`. If `answer` takes the keywords
            `user_roles` and `history`, it gets the roles and history of the case. A system with
            `answer_many(queries)`, such as `Pipeline`, is asked all at once.
        dataset: the questions.
        concurrency: how many questions wait at a time.
        timeout_s: seconds that a reply of a language model may take, for a system whose
            `answer_many` takes it; a service has its own limit.
        label: the text before the progress bar, which appears after two seconds.
        known: query_id -> an answer that is there already; these questions are not asked.

    Returns:
        One answer per case. If a system raises, or returns something that is not an answer, the
        answer has failed, with the reason in `error`; failures are reported together in one
        DataWarning. `latency_ms` has "total" unless the system reports latencies, or answered in a
        batch. Ctrl-C ends at once.

    >>> from ragbench.systems.function import FunctionSystem
    >>> from ragbench.types import Case
    >>> questions = Dataset("demo", "test", {}, [Case("q1", "one?"), Case("q2", "two?")], {})
    >>> [answer.text for answer in ask(FunctionSystem(str.upper), questions)]
    ['ONE?', 'TWO?']
    """
    if concurrency < 1:
        raise ConfigError(f"ask: concurrency is {concurrency}; expected 1 or more")
    if not isinstance(system, System):
        raise ConfigError(
            f"ask: {system!r} is not a system; expected an object with name and answer(query_id, "
            "query)"
        )
    _warn_of_turns(dataset)
    answers = dict(known or {})
    label = label or system.name
    queries = {q: text for q, text in dataset.queries.items() if q not in answers}
    # a dry run must not ask a system that sends requests itself
    may_be_asked = active_dry_run() is None or getattr(system, "sends_nothing", False)
    if callable(getattr(system, "answer_many", None)) and may_be_asked:
        histories = {case.query_id: case.history for case in dataset.cases if case.turns}
        options = {"histories": histories, "concurrency": concurrency, "timeout_s": timeout_s}
        answers |= _ask_at_once(system, queries, options)
        return [answers[query_id] for query_id in dataset.queries]
    cases = [case for case in dataset.cases if case.query_id in queries]
    answers |= _ask_in_threads(system, cases, concurrency, label)
    in_order = [answers[query_id] for query_id in dataset.queries]
    warn_of_failures(system.name, in_order)
    return in_order


def _warn_of_turns(dataset: Dataset) -> None:
    """Warn of questions that follow earlier turns of a conversation, but whose ids do not name it
    ("rail<::>2" is question 2 of the conversation "rail").
    """
    unmarked = [
        case.query_id for case in dataset.cases if case.turns and TURN_MARK not in case.query_id
    ]
    problem = (
        f"questions have turns and ids without {TURN_MARK!r}, so that comparisons take them for "
        "independent; name them as in 'rail<::>2'"
    )
    warn_of_flaw(dataset.name, problem, unmarked)


def _ask_at_once(
    system: Any, queries: Mapping[str, str], options: Mapping[str, Any]
) -> dict[str, Answer]:
    """Return query_id -> the answer of a system with `answer_many`, which gets the options
    that it takes.
    """
    accepted = accepted_options(system.answer_many, **options)
    return {answer.query_id: answer for answer in system.answer_many(queries, **accepted)}


def _ask_in_threads(
    system: System, cases: Sequence[Case], concurrency: int, label: str
) -> dict[str, Answer]:
    """Return query_id -> answer, asking `concurrency` questions at a time. `label` names the work in
    its progress bar.
    """
    answers = {}
    with progress_bar(len(cases), label, "questions") as bar:
        work = ThreadedCalls(
            cases,
            lambda case: ask_case(system, case),
            at_once=concurrency,
            name=label,
            meanwhile=lambda: bar.update(0),  # shows the time that has passed
        )
        for case, outcome in work:
            # the exception of a question that could not be asked (a failed answer is an `Answer`)
            if isinstance(outcome, BaseException):
                raise outcome
            answers[case.query_id] = outcome
            bar.update()
    return answers


def ask_case(system: System, case: Case) -> Answer:
    """Ask the question of a case, with the roles and the history that it has."""
    roles, history = case.user_roles, case.history
    return ask_one(system, case.query_id, case.text, user_roles=roles, history=history)


def ask_one(system: System, query_id: str, query: str, **options: Unpack[Asker]) -> Answer:
    """Ask one question and return the answer; a failed one if the system raises.

    The answer's `latency_ms` is the system's own report; if it reports none, "total" is measured
    here. In a dry run, which sends no requests, only systems are asked that send nothing themselves:
    ragbench's own pipeline and recorded answers. Any other one gets a failed answer.

    Args:
        options: `user_roles` (the roles of the person who asks) and `history` (the earlier messages);
            passed on as far as the system's `answer` takes them.
    """
    dry_run = active_dry_run()
    if dry_run and not getattr(system, "sends_nothing", False):
        dry_run.note_question(system.name)
        return failed(query_id, "a dry run: nothing was sent", FailureKind.DRY_RUN)
    start = time.perf_counter()
    accepted = accepted_options(system.answer, **options)
    answer = attempt(query_id, system.name, lambda: system.answer(query_id, query, **accepted))
    total_ms = 1000 * (time.perf_counter() - start)
    return answer if answer.latency_ms else replace(answer, latency_ms={"total": total_ms})


def warn_of_failures(name: str, answers: Sequence[Answer]) -> None:
    """Warn once of all answers that failed."""
    failed_answers = [answer for answer in answers if answer.error is not None]
    if failed_answers:
        first = failed_answers[0]
        warn_user(
            f"{name}: {len(failed_answers)} of {len(answers)} answers failed, the first for "
            f"query {first.query_id!r}: {first.error}"
        )


def warn_of_notes(name: str, answers: Sequence[Answer]) -> dict[str, int]:
    """Warn once of each kind of note on the answers of the system `name`, and return kind -> number
    of such notes.

    A note is on a part of a reply that was not read. Notes that differ only in the length of a list
    are of one kind.
    """
    counts: Counter[str] = Counter()
    first_of_kind: dict[str, tuple[str, str]] = {}  # kind -> (note, query_id)
    for answer in answers:
        for note in answer.notes:
            kind = _LIST_OF.sub("a list of texts", note)
            counts[kind] += 1
            first_of_kind.setdefault(kind, (note, answer.query_id))
    for kind, (note, query_id) in first_of_kind.items():
        hint = f"; {_UNREAD_HINT}" if _LIST_OF.match(note) else ""
        warn_user(f"{name}: {note}, {counts[kind]} in all (first: {query_id!r}){hint}")
    return dict(counts)


class _KeptAnswer(NamedTuple):
    question: str
    answer: Answer


class JournaledSystem:
    """A system whose answers are appended to a JSONL file, each durable before it is returned;
    those that the file holds already are not asked for again.

    Failed answers are not kept, so that they are asked for again. Nothing is created before the
    first answer comes. A kept answer has the latency that it had when it came. `RecordedSystem` can
    read the file. Threads may share it.

    Args:
        system: the system that is asked.
        path: the file; its folder is created with the first answer.
        identity: what identifies the system and its settings; by default its name. A file of
        another one is refused.

    Raises:
        ConfigError: the file cannot be read, or holds answers of another system.

    >>> import tempfile
    >>> from ragbench.systems.function import FunctionSystem
    >>> path = Path(tempfile.mkdtemp(), "answers.jsonl")
    >>> JournaledSystem(FunctionSystem(str.upper), path).answer("q1", "why?").text
    'WHY?'
    >>> JournaledSystem(FunctionSystem(len, name="upper"), path).answer("q1", "why?").text
    'WHY?'
    """

    def __init__(self, system: System, path: str | Path, identity: str = "") -> None:
        """Read the answers that the file holds already; it need not be there yet."""
        self.system, self.name = system, system.name
        self._path, self._identity = Path(path), identity or system.name
        self._kept: dict[str, _KeptAnswer] = {}  # by query_id
        self._problem = ""  # why an answer could not be written
        try:
            self._file = LineFile(self._path)
        except OSError as exc:
            raise ConfigError(
                f"{path} cannot be read: {exc.strerror or exc}; name another output"
            ) from exc
        for line in self._file.lines:
            self._keep_line(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.system, name)

    def answer(self, query_id: str, query: str, **options: Unpack[Asker]) -> Answer:
        """Return the answer from the file, or else ask the system and append its answer to the file.

        A failed answer is not appended, so that it is asked for again. If an answer cannot be written,
        it is returned all the same, and the next call that would ask the system raises.

        Raises:
            ConfigError: the file has an answer to another question of this id.
            DataError: an earlier answer could not be written.
        """
        self.refuse_other_questions({query_id: query})
        if query_id in self._kept:
            return self._kept[query_id].answer
        self.check_written()
        answer = ask_one(self.system, query_id, query, **options)
        if not answer.failed:
            self._append(query, answer)
        return answer

    def _append(self, query: str, answer: Answer) -> None:
        """Append an answer to the file and keep it; if it cannot be written, only note why."""
        # empty fields are left out: they are the defaults of an answer
        fields = {
            name: value for name, value in asdict(answer).items() if value not in (None, (), {})
        }
        line = {
            "query_id": answer.query_id,
            "question": query,
            "system": self._identity,
            **fields,
        }
        try:
            self._file.append(json.dumps(line))
        except OSError as exc:
            self._problem = exc.strerror or str(exc)
        else:
            self._kept[answer.query_id] = _KeptAnswer(query, answer)

    def check_written(self) -> None:
        """Raise DataError if an earlier answer could not be written. Called before a question is asked,
        so that no further answer gets lost.
        """
        if self._problem:
            raise DataError(
                f"{self._path} cannot be written: {self._problem}; make room, and the same command "
                "asks for the answers that it does not hold",
                FailureKind.STORE,
            )

    def refuse_other_questions(self, queries: Mapping[str, str]) -> None:
        """Raise ConfigError where the file has an answer to another question of the same id."""
        for query_id, query in queries.items():
            kept = self._kept.get(query_id)
            if kept is not None and kept.question != query:
                raise ConfigError(
                    f"{self._path} holds the answer to another question {query_id!r} "
                    f"({kept.question!r}); {_OTHER_OUTPUT}"
                )

    def _keep_line(self, line: bytes) -> None:
        """Keep the answer of a line of the file; ConfigError if the line is damaged, or is an answer
        of another system.
        """
        try:
            fields = parse_json(line.decode())
            question = fields.pop("question")
            system = fields.pop("system")
            answer = _ANSWER.validate_python(fields)
        except (ValueError, TypeError, KeyError, AttributeError) as exc:
            raise ConfigError(
                f"{self._path} is damaged ({type(exc).__name__}: {exc}); {_OTHER_OUTPUT}"
            ) from exc
        if system != self._identity:
            raise ConfigError(
                f"{self._path} holds answers of {system!r}, not of {self._identity!r}; "
                f"{_OTHER_OUTPUT}"
            )
        self._kept[answer.query_id] = _KeptAnswer(question, answer)
