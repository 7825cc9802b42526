"""A form in JupyterLab to write questions about documents: read, ask, mark the evidence."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ragbench.datasets.corpus import load_corpus
from ragbench.datasets.jsonl import json_line, shown
from ragbench.datasets.passages import Texts
from ragbench.errors import ConfigError, DataError, RagbenchError, require, unknown
from ragbench.files import check_writable, expanded, write_durably
from ragbench.testsets.assembly import find_quote
from ragbench.testsets.edits import add_case, remove_case, replace_case
from ragbench.testsets.forms import load_testset
from ragbench.text import sentence_spans
from ragbench.types import Case, Span

if TYPE_CHECKING:
    import anywidget
    import traitlets
else:
    anywidget, traitlets = require("anywidget", "widgets"), require("traitlets", "widgets")

_FOLDER = Path(__file__).parent


class QuestionWidget(anywidget.AnyWidget):
    """Writes questions into a test set: `QuestionWidget("questions.jsonl", "my-docs")` as the last
    line of a cell.

    Each question is in the file, with its gold evidence, before the next one is begun; opening the
    file again shows what is stored, to be edited or deleted. Nothing is written before the first
    question. An existing test set in any form that `load_testset` reads can be continued too.
    Evidence is marked with the mouse; or in the text with the arrow keys, sentence by sentence, and
    Enter; or as a quote that is pasted.

    Args:
        path: the test set; a new one ends in .jsonl and refers to its documents.
        corpus: what `load_corpus` takes; not needed for a test set that has documents.

    Raises:
        ConfigError: a new test set could not be written there.
        DataError: the test set or the documents are not what they should be.
    """

    _esm = _FOLDER / "questions.js"
    _css = _FOLDER / "questions.css"
    document = traitlets.Dict().tag(sync=True)
    questions = traitlets.List(traitlets.Dict()).tag(sync=True)
    matches = traitlets.List(traitlets.Unicode()).tag(sync=True)
    n_documents = traitlets.Int().tag(sync=True)

    def __init__(self, path: str | Path, corpus: str | Path = "pydoc") -> None:
        self._path, self._from = Path(path), corpus
        self._cases: dict[str, Case] = {}
        self._relevant: dict[str, Mapping[str, int]] = {}
        documents = {}
        if self._path.exists():
            dataset = load_testset(self._path)
            self._cases = dataset.case_of
            self._relevant = dict(dataset.qrels)
            documents = dict(dataset.corpus)
        elif self._path.suffix != ".jsonl":
            raise ConfigError(
                f"{self._path} is not there, and a new test set is a file that ends in .jsonl"
            )
        else:
            try:
                check_writable(self._path)
            except OSError as exc:
                raise ConfigError(f"{self._path} cannot be written: {exc.strerror or exc}") from exc
        documents = documents or dict(load_corpus(corpus).corpus)
        self._documents, self._quotable = documents, Texts(documents)
        self._texts = {doc_id: document.full_text for doc_id, document in documents.items()}
        first = next(iter(self._texts))
        super().__init__(
            document=self._document(first),
            questions=self._shown(),
            matches=list(self._texts),
            n_documents=len(self._texts),
        )
        self.on_msg(self._hear)

    @property
    def progress(self) -> str:
        """Return how many questions are stored, and how many documents have evidence of one."""
        documents = {span.doc_id for case in self._cases.values() for span in case.evidence}
        return f"{len(self._cases)} questions; {len(documents)} of {len(self._texts)} documents have one."

    @property
    def table(self) -> pd.DataFrame:
        """Return the stored questions: query_id, question, answer, evidence (the marked texts)."""
        table = pd.DataFrame(self._shown(), columns=["query_id", "text", "answer", "evidence"])
        quotes = table["evidence"].map(lambda spans: " … ".join(span["quote"] for span in spans))
        return table.assign(evidence=quotes).rename(columns={"text": "question"})

    def show_document(self, doc_id: str) -> None:
        """Show a document."""
        self.document = self._document(doc_id)

    def _document(self, doc_id: str) -> dict[str, Any]:
        text = self._text(doc_id)
        return {"doc_id": doc_id, "text": text, "sentences": sentence_spans(text)}

    def quote(self, text: str, doc_id: str = "") -> dict[str, Any]:
        """Return the evidence that a quote is: doc_id, start, end, quote; white space may differ.

        It is looked for in the document `doc_id`, then in all.

        Raises:
            DataError: no document holds the quote, or it is there more than once.
        """
        text = text.strip()
        places = find_quote(text, doc_id, self._quotable, self._documents) if doc_id else []
        places = places or find_quote(text, "", self._quotable, self._documents)
        if not places:
            raise DataError(
                f"no document holds {shown(text, 60)} word for word; copy it from a text"
            )
        if len(places) > 1:
            raise DataError(f"{shown(text, 60)} is there {len(places)} times; quote more of it")
        [span] = places
        return self._mark(span)

    def search(self, words: str) -> None:
        """Show the documents that have all these words, in their text or id, and open the first."""
        parts = words.casefold().split()
        self.matches = [
            doc_id
            for doc_id, text in self._texts.items()
            if all(word in f"{doc_id}\n{text}".casefold() for word in parts)
        ]
        if self.matches and self.document["doc_id"] not in self.matches:
            self.show_document(self.matches[0])

    def save(
        self,
        text: str,
        evidence: Sequence[Mapping[str, Any]] = (),
        answer: str = "",
        *,
        query_id: str = "",
        answerable: bool = True,
    ) -> str:
        """Store a question and give its id; one with an id replaces the stored one, whose other
        labels stay.

        Args:
            text: the question.
            evidence: doc_id, start, end (characters of `Document.full_text`), quote (those
                characters).
            answer: the reference answer.
            query_id: of a stored question; "" adds one.
            answerable: False means that no document answers it; its evidence is left out.

        Raises:
            DataError: no question, no evidence, or evidence that is not in its document; nothing is
                written.
        """
        if not text.strip():
            raise DataError("the question is empty; write it first")
        spans = tuple(self._span(**mark) for mark in evidence) if answerable else ()
        free_id = next(name for i in count(1) if (name := f"q{i:03}") not in self._cases)
        old = self._cases.get(query_id, Case(free_id, text))
        if answerable:  # what is in documents that are not here stays
            spans += tuple(span for span in old.evidence if span.doc_id not in self._texts)
        if answerable and not spans:
            raise DataError("no evidence is marked; mark in the text what answers the question")
        if query_id and query_id not in self._cases:
            raise DataError(unknown("question", query_id, self._cases))
        outcome = old.expected_outcome if old.answerable else None
        case = replace(
            old,
            text=text.strip(),
            reference_answer=answer.strip() or None,
            evidence=spans,
            expected_outcome=outcome if answerable else "no_results",
        )
        before = self._relevant.get(case.query_id, {})
        marked = {span.doc_id for span in old.evidence}
        relevant = {span.doc_id: before.get(span.doc_id, 1) for span in spans}
        if answerable:
            relevant = {i: grade for i, grade in before.items() if i not in marked} | relevant
        if query_id:
            replace_case(self._path, case, relevant)
        else:
            if not self._path.exists():
                write_durably(self._path, json_line(self._head()))
            add_case(self._path, case, relevant)
        self._cases[case.query_id], self._relevant[case.query_id] = case, relevant
        self.questions = self._shown()
        return case.query_id

    def remove(self, query_id: str) -> None:
        """Delete a stored question.

        Raises:
            DataError: there is none with this id.
        """
        remove_case(self._path, query_id)
        del self._cases[query_id], self._relevant[query_id]
        self.questions = self._shown()

    def _text(self, doc_id: str) -> str:
        if doc_id not in self._texts:
            raise DataError(unknown("document", doc_id, self._texts))
        return self._texts[doc_id]

    def _span(self, doc_id: str, start: int, end: int, quote: str) -> Span:
        if self._text(doc_id)[start:end] != quote or not 0 <= start < end:
            raise DataError(
                f"characters {start} to {end} of {doc_id} are not {quote[:40]!r}; mark the "
                "evidence again"
            )
        return Span(doc_id, start, end)

    def _mark(self, span: Span) -> dict[str, Any]:
        """Return a piece of evidence as the form has it."""
        return asdict(span) | {"quote": self._texts[span.doc_id][span.start : span.end]}

    def _shown(self) -> list[dict[str, Any]]:
        return [
            {
                "query_id": case.query_id,
                "text": case.text,
                "answer": case.reference_answer or "",
                "answerable": case.answerable,
                "evidence": [self._mark(s) for s in case.evidence if s.doc_id in self._texts],
            }
            for case in self._cases.values()
        ]

    def _head(self) -> dict[str, str]:
        """Return the first line of a new file: its documents are found from there, or by the name
        of their dataset.
        """
        corpus = str(self._from)
        if os.path.exists(path := expanded(self._from)):
            corpus = Path(os.path.relpath(path, self._path.absolute().parent)).as_posix()
        return {"testset": self._path.stem, "split": "test", "corpus": corpus}

    def _hear(self, _: Any, content: Mapping[str, Any], __: Any) -> None:
        """Do what the form requests; an error is shown in the form and not in a log."""
        act, arguments = content.get("act"), dict(content.get("given", {}))
        try:
            match act:
                case "save":
                    self.send({"saved": self.save(**arguments)})
                case "remove":
                    self.remove(**arguments)
                    self.send({"removed": arguments["query_id"]})
                case "open":
                    self.show_document(**arguments)
                case "quote":
                    self.send({"marked": self.quote(**arguments)})
                case "search":
                    self.search(**arguments)
        except (RagbenchError, TypeError, OSError) as exc:
            self.send({"error": str(exc)})
