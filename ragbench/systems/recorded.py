"""Earlier answers of a system: in ragbench's own files, and in the logs of other tools; how a
question finds its answer, by id or text.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.datasets.jsonl import located
from ragbench.errors import DataError
from ragbench.files import expanded, read_json
from ragbench.folding import normal
from ragbench.hints.attributes import Suggesting, suggesting
from ragbench.metrics.ranking_measures import ranking
from ragbench.metrics.trec import SUFFIXES as RUN_SUFFIXES
from ragbench.metrics.trec import read_run
from ragbench.systems.answer_parser import read_answer
from ragbench.systems.function import failed
from ragbench.testsets.fields import IDS, QUESTIONS, outputs_of
from ragbench.testsets.other_tools import form_of_other_tool, records
from ragbench.testsets.snapshot import as_at_sweep_start
from ragbench.types import RETRIEVAL_ONLY, Answer


@suggesting()
class RecordedSystem(metaclass=Suggesting):
    """Recorded answers as a system: `answers.jsonl` of a result folder, the log of another system,
    or records.

    A line is a JSON object as `read_answer` reads it, with `query_id` (or `_id`, `id`,
    `question_id`) or, where the log has no ids, the question itself in `query` (or `question`,
    `user_input`), which is then found by its text. A question without an answer gets a failed one.
    Files of other tools (ragas, DeepEval, LangSmith, a table) are read too. A run in TREC's six
    columns (.trec, .run) is a system that retrieves and writes nothing. `name` is the file's
    without its ending unless given.

    >>> system = RecordedSystem([Answer("q1", "In 1881.")])
    >>> system.answer("q1", "When?").text, system.answer("q2", "Where?").error
    ('In 1881.', "recorded has no answer to 'q2'")

    Raises:
        DataError: a line is not such an object, or a question has two answers; it names the file
            and the line.
    """

    sends_nothing = True

    def __init__(
        self, source: str | Path | Iterable[Answer | Mapping[str, Any]], *, name: str = ""
    ) -> None:
        """Read the recorded answers of a file, or take those that are given as objects or tables."""
        self._answers: dict[str, Answer] = {}  # by id or, without an id, by question
        # (question, 2) -> its second answer without an id, and so on; the first one is in `_answers`
        self._later_answers: dict[tuple[str, int], Answer] = {}
        self._is_run = False  # of a retriever, which writes no answers
        if isinstance(source, str | Path):
            self.name = name or Path(source).stem
            self._read_file(as_at_sweep_start(expanded(source)))
        else:
            self.name = name or "recorded"
            for answer in source:
                if isinstance(answer, Answer):
                    self._keep(answer.query_id, answer)
                else:
                    # `outputs_of` leaves out labels, and calls the fields "answer" and "contexts"
                    self._keep_record(outputs_of(answer))

    def __repr__(self) -> str:
        return f"RecordedSystem({self.name!r}, {len(self._answers)} answers)"

    def answer(self, query_id: str, query: str) -> Answer:
        """Return the recorded answer to this question: by its id, else by its text. Without one the
        answer has failed; of a retriever's run it is an answer without contexts.
        """
        answer = self._answers.get(query_id) or self._answers.get(_folded(query))
        if answer is None and self._is_run:  # nothing was retrieved
            return read_answer(query_id, {"contexts": [], "flags": [RETRIEVAL_ONLY]})
        if answer is None:
            return failed(query_id, f"{self.name} has no answer to {query_id!r}")
        return replace(answer, query_id=query_id)

    def answer_many(self, queries: Mapping[str, str]) -> list[Answer]:
        """Return the recorded answers to these questions (query_id -> text), in their order.

        An answer that was recorded under the id of the question comes first. Other answers are found by
        the text of the question: the second answer to a text is for the second question with it.

        Raises:
            DataError: a text is asked, but less often than it was recorded.
        """
        n_asked: Counter[str] = Counter()  # by the text of the question
        answers = []
        for query_id, query in queries.items():
            text = _folded(query)
            n_asked[text] += 1
            later_answer = self._later_answers.get((text, n_asked[text]))
            has_answer_by_id = query_id in self._answers
            if later_answer is not None and not has_answer_by_id:
                answers.append(replace(later_answer, query_id=query_id))
            else:
                answers.append(self.answer(query_id, query))
        for text, number in self._later_answers:
            # answers to texts that are not asked at all may belong to other questions
            was_asked_less_often = 0 < n_asked[text] < number
            if was_asked_less_often:
                raise DataError(_message_of_second_answer(text))
        return answers

    def unasked(self, queries: Mapping[str, str]) -> list[str]:
        """Return the keys of the answers that belong to none of these questions: the id of their
        question, or its text if it has no id.

        >>> RecordedSystem([Answer("q1", "In 1881."), Answer("q7", "No.")]).unasked({"q1": "When?", "q2": "Where?"})
        ['q7']
        """
        keys = {*queries, *map(_folded, queries.values())}
        return [key for key in self._answers if key not in keys]

    def _read_file(self, path: Path) -> None:
        """Keep the answers of a file: a run, ragbench's answers with their latencies, or another log.

        Raises:
            DataError: the file holds no answer, or a record of it cannot be read.
        """
        if path.suffix in RUN_SUFFIXES:
            self._read_run(path)
            return
        unit = "line" if path.suffix == ".jsonl" else "record"
        for number, record in records(path, form_of_other_tool(path)):
            with located(f"{path}, {unit} {number}"):
                self._keep_record(outputs_of(record))
        timings_path = path.with_name("timings.json")
        if path.name == "answers.jsonl" and timings_path.is_file():
            self._add_latencies(timings_path)
        if not self._answers:
            raise DataError(f"{path} holds no answer; expected one JSON object on each line")

    def _read_run(self, path: Path) -> None:
        """Keep the rankings of a run of TREC (a retriever's documents and scores by question) as answers
        without a text, whose contexts are the documents, best first.
        """
        self._is_run = True
        for query_id, scores in read_run(path).items():
            contexts = [
                {"id": doc_id, "doc_id": doc_id, "score": scores[doc_id]}
                for doc_id in ranking(scores)
            ]
            self._answers[query_id] = read_answer(query_id, {"contexts": contexts})

    def _add_latencies(self, timings_path: Path) -> None:
        """Give the answers their latencies, which the folder of a result has in a separate file."""
        latency_of = read_json(timings_path, "it is of a result").get("answers", {})
        for query_id, answer in self._answers.items():
            if query_id in latency_of:
                self._answers[query_id] = replace(answer, latency_ms=latency_of[query_id])

    def _keep_record(self, record: Mapping[str, Any]) -> None:
        """Keep the answer in a record under the id of its question, or its text if it has no id.

        Raises:
            DataError: the record names no question, or this id has an answer.
        """
        ids = [_id(record.get(name)) for name in IDS]
        query_id = next(filter(None, ids), "")  # the first id that is not empty
        texts = [record[name] for name in QUESTIONS if isinstance(record.get(name), str)]
        key = query_id or _folded(texts[0] if texts else "")
        if not key:
            raise DataError(
                f"which question? expected 'query_id', or 'query' with its text; "
                f"found {', '.join(record)}"
            )
        self._keep(key, read_answer(key, record), is_text=not query_id)

    def _keep(self, key: str, answer: Answer, *, is_text: bool = False) -> None:
        """Keep an answer under a key: the id of its question, or, if `is_text`, the question's text.

        A text may have several answers. The second and later ones are kept with their number.

        Raises:
            DataError: the key is an id that has an answer already.
        """
        if key not in self._answers:
            self._answers[key] = answer
            return
        if not is_text:
            raise DataError(_message_of_second_answer(key))
        number = 2
        while (key, number) in self._later_answers:
            number += 1
        self._later_answers[key, number] = answer


def _id(value: Any) -> str:
    """Return the id of a question as a text, also of a whole number in a column of floats; else ""."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, str | int) else ""


def _folded(question: str) -> str:
    """Return a question in one form for all its spellings of letters, case and white space."""
    return " ".join(normal(question).split()).casefold()


def _message_of_second_answer(key: str) -> str:
    return f"a second answer to {key!r}; record repeated runs in separate files"
