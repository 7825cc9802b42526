"""A system's answers on disk as they come, so that a crash or Ctrl-C loses none of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.errors import ConfigError
from ragbench.files import LineFile
from ragbench.systems.questions import ask_one
from ragbench.types import Answer, System

if TYPE_CHECKING:
    from pydantic import TypeAdapter


class AnswerJournal:
    """A JSONL file to which answers are appended, each durable before `append` returns; threads may share it.

    Failed answers are not kept, so that they are asked for again. Nothing is created before the first answer comes.
    `RecordedSystem` can read the file.

    Args:
        path: the file; its folder is created with the first answer.
        system: what identifies the system and its settings. A file of another one is refused.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "answers.jsonl")
    >>> AnswerJournal(path, "mine").append(Answer("q1", "Paris."), "What is the capital of France?")
    >>> AnswerJournal(path, "mine").known("q1", "What is the capital of France?").text
    'Paris.'

    Raises:
        ConfigError: the file cannot be read, or holds answers of another system.
    """

    def __init__(self, path: str | Path, system: str) -> None:
        self.path, self._system = Path(path), system
        self._kept: dict[str, tuple[str, Answer]] = {}
        try:
            self._file = LineFile(self.path)
        except OSError as exc:
            raise ConfigError(f"{self.path} cannot be read: {exc.strerror or exc}; name another output") from exc
        for line in self._file.lines:
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            fields = json.loads(line)
            question, system = fields.pop("question"), fields.pop("system")
            answer = _adapter().validate_python(fields)
        except (ValueError, TypeError, KeyError, AttributeError) as exc:
            raise ConfigError(
                f"{self.path} is damaged ({type(exc).__name__}: {exc}); name another output, or start over with --force"
            ) from exc
        if system != self._system:
            raise ConfigError(
                f"{self.path} holds answers of {system!r}, not of {self._system!r}; name another output, or start over "
                "with --force"
            )
        self._kept[answer.query_id] = question, answer

    def known(self, query_id: str, query: str) -> Answer | None:
        """The answer that is there already to this question.

        Raises:
            ConfigError: it holds an answer to another question of the same id.
        """
        question, answer = self._kept.get(query_id, (query, None))
        if question != query:
            raise ConfigError(
                f"{self.path} holds the answer to another question {query_id!r} ({question!r}); name another "
                "output, or start over with --force"
            )
        return answer

    def check(self, queries: Mapping[str, str]) -> None:
        """Refuse, before anything is asked, a file with answers to other questions of the same ids; see `known`."""
        for query_id, query in queries.items():
            self.known(query_id, query)

    def append(self, answer: Answer, query: str) -> None:
        """Keep an answer, on disk when this returns."""
        if answer.failed:
            return
        own = {name: value for name, value in asdict(answer).items() if value not in (None, (), {})}
        self._file.append(json.dumps({"query_id": answer.query_id, "question": query, "system": self._system, **own}))
        self._kept[answer.query_id] = query, answer


class JournaledSystem:
    """A system whose answers are kept in a journal as they come; those that it holds already are not asked for again.

    A kept answer has the latency that it had when it came.
    """

    def __init__(self, system: System, journal: AnswerJournal) -> None:
        self._system, self._journal = system, journal

    @property
    def name(self) -> str:
        """That of the system."""
        return self._system.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._system, name)

    def answer(self, query_id: str, query: str, *, user_roles: Sequence[str] = ()) -> Answer:
        """The kept answer, or that of the system."""
        kept = self._journal.known(query_id, query)
        if kept is not None:
            return kept
        answer = ask_one(self._system, query_id, query, user_roles)
        self._journal.append(answer, query)
        return answer


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[Answer]:
    from pydantic import TypeAdapter

    return TypeAdapter(Answer)
