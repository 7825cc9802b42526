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
    file again shows the stored questions, to be edited or deleted. Nothing is written before the
    first question. An existing test set in any form that `load_testset` reads can be continued too.
    Evidence is marked with the mouse; or in the text with the arrow keys, sentence by sentence, and
    Enter; or as a quote that is pasted.

    Args:
        path: the test set; a new one ends in .jsonl and refers to its documents.
        corpus: the documents, as `load_corpus` takes them; not needed for a test set with documents.

    Raises:
        ConfigError: a new test set could not be written there.
        DataError: the test set or the documents cannot be read.
    """

    _esm = _FOLDER / "questions.js"
    _css = _FOLDER / "questions.css"
    document = traitlets.Dict().tag(sync=True)
    questions = traitlets.List(traitlets.Dict()).tag(sync=True)
    matches = traitlets.List(traitlets.Unicode()).tag(sync=True)
    n_documents = traitlets.Int().tag(sync=True)

    def __init__(self, path: str | Path, corpus: str | Path = "pydoc") -> None:
        """Open the test set at `path`, or begin a new one, a .jsonl file. Its questions are about its own
        documents; if it has none, about the documents of `corpus`.

        Raises:
            ConfigError: a new test set has another ending, or cannot be written.
            DataError: the test set or the corpus cannot be read.
        """
        self._path = Path(path)
        self._corpus = corpus
        self._cases: dict[str, Case] = {}  # the stored questions, by query_id
        self._relevant: dict[str, Mapping[str, int]] = {}  # query_id -> document -> grade
        documents = {}
        if self._path.exists():
            dataset = load_testset(self._path)
            self._cases = dataset.case_of
            self._relevant = dict(dataset.qrels)
            documents = dict(dataset.corpus)
        else:
            _check_new_testset(self._path)
        documents = documents or dict(load_corpus(corpus).corpus)
        self._documents = documents
        self._quotable = Texts(documents)  # for the search of quotes
        self._texts = {doc_id: document.full_text for doc_id, document in documents.items()}
        first_id = next(iter(self._texts))  # the document to show first
        super().__init__(
            document=self._document_of_form(first_id),
            questions=self._questions_of_form(),
            matches=list(self._texts),
            n_documents=len(self._texts),
        )
        self.on_msg(self._on_message)

    @property
    def progress(self) -> str:
        """Return the number of stored questions, and of documents with evidence, in words."""
        documents = {span.doc_id for case in self._cases.values() for span in case.evidence}
        return f"{len(self._cases)} questions; {len(documents)} of {len(self._texts)} documents have one."

    @property
    def table(self) -> pd.DataFrame:
        """Return the stored questions: query_id, question, answer, evidence (the marked texts)."""
        table = pd.DataFrame(
            self._questions_of_form(), columns=["query_id", "text", "answer", "evidence"]
        )
        quotes = table["evidence"].map(lambda spans: " … ".join(span["quote"] for span in spans))
        return table.assign(evidence=quotes).rename(columns={"text": "question"})

    def show_document(self, doc_id: str) -> None:
        """Show a document."""
        self.document = self._document_of_form(doc_id)

    def _document_of_form(self, doc_id: str) -> dict[str, Any]:
        """Return a document as the form shows it: doc_id, text, and the spans of its sentences, by
        which the arrow keys move.
        """
        text = self._text(doc_id)
        return {"doc_id": doc_id, "text": text, "sentences": sentence_spans(text)}

    def quote(self, text: str, doc_id: str = "") -> dict[str, Any]:
        """Return a quote as evidence: doc_id, start, end, quote (the words as the document has them;
        white space may differ from `text`).

        The document `doc_id` is searched first, then all documents; "" searches all.

        Raises:
            DataError: no document holds the quote, or it is there more than once.
        """
        text = text.strip()
        spans = []
        if doc_id:
            spans = find_quote(text, doc_id, self._quotable, self._documents)
        if not spans:
            spans = find_quote(text, "", self._quotable, self._documents)
        if not spans:
            raise DataError(
                f"no document holds {shown(text, 60)} word for word; copy it from a text"
            )
        if len(spans) > 1:
            raise DataError(f"{shown(text, 60)} occurs {len(spans)} times; quote more of it")
        return self._evidence_of_form(spans[0])

    def search(self, words: str) -> None:
        """Show the documents that have all these words, in their text or id, and open the first."""
        searched_words = words.casefold().split()
        matches = []
        for doc_id, text in self._texts.items():
            searchable = f"{doc_id}\n{text}".casefold()
            if all(word in searchable for word in searched_words):
                matches.append(doc_id)
        self.matches = matches
        is_match_open = self.document["doc_id"] in matches
        if matches and not is_match_open:
            self.show_document(matches[0])

    def save(
        self,
        text: str,
        evidence: Sequence[Mapping[str, Any]] = (),
        answer: str = "",
        *,
        query_id: str = "",
        answerable: bool = True,
    ) -> str:
        """Store a question and return its id.

        With `query_id`, the question replaces the stored one; labels that are not given here, such as
        its category, stay.

        Args:
            text: the question.
            evidence: doc_id, start, end (characters of `Document.full_text`), quote (these
                characters).
            answer: the reference answer.
            query_id: the id of a stored question; "" adds a new one.
            answerable: False means that no document answers it; its evidence is left out.

        Raises:
            DataError: the question is empty, it has no evidence, or its document lacks the evidence;
                nothing is written.
        """
        if not text.strip():
            raise DataError("the question is empty; write it first")
        if query_id and query_id not in self._cases:
            raise DataError(unknown("question", query_id, self._cases))
        # the stored question, whose other labels stay, or an empty one with a free id
        old = self._cases[query_id] if query_id else Case(self._free_id(), text)
        spans = self._new_evidence(old, evidence) if answerable else []
        if answerable and not spans:
            raise DataError("no evidence is marked; mark in the text what answers the question")
        case = replace(
            old,
            text=text.strip(),
            reference_answer=answer.strip() or None,
            evidence=tuple(spans),
            expected_outcome=_new_outcome(old, answerable=answerable),
        )
        # first the file, then the form, so that the form shows only stored values
        relevant = self._new_grades(old, case)
        if query_id:
            replace_case(self._path, case, relevant)
        else:
            if not self._path.exists():  # a new test set: its first line names the documents
                write_durably(self._path, json_line(self._first_line()))
            add_case(self._path, case, relevant)
        self._cases[case.query_id] = case
        self._relevant[case.query_id] = relevant
        self.questions = self._questions_of_form()
        return case.query_id

    def _new_evidence(self, old: Case, marks: Sequence[Mapping[str, Any]]) -> list[Span]:
        """Return the marked evidence of a question, and its old evidence in documents that are not
        loaded: the form cannot show it, so it stays.
        """
        marked = [self._checked_span(**mark) for mark in marks]
        not_shown = [span for span in old.evidence if span.doc_id not in self._texts]
        return marked + not_shown

    def _free_id(self) -> str:
        """Return the first of q001, q002, ... that no question has."""
        for number in count(1):
            query_id = f"q{number:03}"
            if query_id not in self._cases:
                return query_id
        raise AssertionError("the numbers do not end")

    def _new_grades(self, old: Case, new: Case) -> dict[str, int]:
        """Return document -> grade of relevance for a question after its evidence was changed.

        The documents of the new evidence are relevant, and so are documents that were relevant before
        without evidence. All keep their grades; a new document gets 1. Return {} for an unanswerable
        question.
        """
        if not new.answerable:
            return {}
        old_grades = self._relevant.get(new.query_id, {})
        old_evidence = {span.doc_id for span in old.evidence}
        grades = {i: grade for i, grade in old_grades.items() if i not in old_evidence}
        for span in new.evidence:
            grades[span.doc_id] = old_grades.get(span.doc_id, 1)
        return grades

    def remove(self, query_id: str) -> None:
        """Delete a stored question.

        Raises:
            DataError: no question has this id.
        """
        remove_case(self._path, query_id)
        del self._cases[query_id], self._relevant[query_id]
        self.questions = self._questions_of_form()

    def _text(self, doc_id: str) -> str:
        """Return the text of a document; DataError if it is unknown."""
        if doc_id not in self._texts:
            raise DataError(unknown("document", doc_id, self._texts))
        return self._texts[doc_id]

    def _checked_span(self, doc_id: str, start: int, end: int, quote: str) -> Span:
        """Return marked evidence as a span; raises DataError if the document has another text there."""
        text_there = self._text(doc_id)[start:end]
        if not 0 <= start < end or text_there != quote:
            raise DataError(
                f"characters {start} to {end} of {doc_id} are not {quote[:40]!r}; mark the "
                "evidence again"
            )
        return Span(doc_id, start, end)

    def _evidence_of_form(self, span: Span) -> dict[str, Any]:
        """Return a piece of evidence as the form shows it: doc_id, start, end, quote."""
        return asdict(span) | {"quote": self._texts[span.doc_id][span.start : span.end]}

    def _questions_of_form(self) -> list[dict[str, Any]]:
        """Return the stored questions as the form shows them; evidence in documents that are not loaded
        is left out.
        """
        questions = []
        for case in self._cases.values():
            spans = [span for span in case.evidence if span.doc_id in self._texts]
            question = {
                "query_id": case.query_id,
                "text": case.text,
                "answer": case.reference_answer or "",
                "answerable": case.answerable,
                "evidence": [self._evidence_of_form(span) for span in spans],
            }
            questions.append(question)
        return questions

    def _first_line(self) -> dict[str, str]:
        """Return the first line of a new file; it names the documents by their path relative to the
        file, or by the name of their dataset.
        """
        # a path that exists is written relative to the file, so that both can be moved together
        corpus = str(self._corpus)
        path = expanded(self._corpus)
        if os.path.exists(path):
            corpus = Path(os.path.relpath(path, self._path.absolute().parent)).as_posix()
        return {"testset": self._path.stem, "split": "test", "corpus": corpus}

    def _on_message(self, _: Any, content: Mapping[str, Any], __: Any) -> None:
        """Carry out a request of the form in the browser: {"act": a method, "given": its arguments}. The
        result or the error is sent to the form, which shows it.
        """
        arguments = dict(content.get("given", {}))
        try:
            match content.get("act"):
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


def _check_new_testset(path: Path) -> None:
    """Raise ConfigError if a new test set does not end in .jsonl, or cannot be written at the path."""
    if path.suffix != ".jsonl":
        raise ConfigError(f"{path} is not there, and a new test set is a file that ends in .jsonl")
    try:
        check_writable(path)
    except OSError as exc:
        raise ConfigError(f"{path} cannot be written: {exc.strerror or exc}") from exc


def _new_outcome(old: Case, *, answerable: bool) -> str | None:
    """Return the expected outcome of a changed question; None expects an answer.

    Args:
        old: the question before the change.
        answerable: False means that no document answers it any more: an abstention is expected.
    """
    if not answerable:
        return "no_results"
    # the expectations of a question without an answer no longer hold
    return old.expected_outcome if old.answerable else None
