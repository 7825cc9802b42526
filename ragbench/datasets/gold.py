"""Gold answers and gold evidence in a BEIR folder: `answers.jsonl` and `questions.jsonl`.

`answers.jsonl`, one object per query, in any of the shapes that public sets have::

    {"_id", "answer": "..."}                                                       a reference answer
    {"_id", "answers": ["...", ...]}                                               aliases of one short answer
    {"_id", "doc_id", "answers": [{"text", "answer_start"}]}                       short answers at their place (SQuAD)
    {"_id", "answerable", "passage_ids", "answers": [{"answer", "selected_sentences"}]}   grounded answers (CLAPNQ)

`questions.jsonl`: `{"_id", "corpus_id", "references": [{"content", "start_index", "end_index"}]}`.

Offsets count characters of the document's `text`. They are moved into its `full_text` here, and
every quote is compared with the text at its place: misplaced evidence would make every span measure
wrong without a sign.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from ragbench.datasets.jsonl import located, parsed, shown
from ragbench.datasets.records import repeated, warn
from ragbench.errors import DataError
from ragbench.types import Case, Dataset, Document, Span, same_form


def _id(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Id = Annotated[str, Field(min_length=1), BeforeValidator(_id)]
Offset = Annotated[int, Field(ge=0)]
DocumentId = Annotated[Id | None, Field(validation_alias=AliasChoices("corpus_id", "doc_id"))]


class Piece(BaseModel):
    """An answer, or a quote of a document's `text`: in the words of each of the shapes."""

    model_config = ConfigDict(strict=True)
    answer: str | None = None
    selected_sentences: list[str] = []
    content: str | None = Field(None, validation_alias=AliasChoices("content", "text"))
    start: Offset | None = Field(None, validation_alias=AliasChoices("start_index", "answer_start"))
    end: Offset | None = Field(None, validation_alias="end_index")
    doc_id: DocumentId = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"text": value} if isinstance(value, str) else value


class GoldLine(BaseModel):
    """A line of either file; fields that are not among these become metadata of the case."""

    model_config = ConfigDict(strict=True, extra="allow")
    query_id: Id = Field(alias="_id")
    question: Any = None
    doc_id: DocumentId = None
    references: list[Piece] = []
    answer: str | None = None
    answers: list[Piece] | None = None
    answerable: bool | None = None
    is_impossible: bool | None = None
    passage_ids: list[Id] = []
    sentences: Any = None

    @property
    def outcome(self) -> str | None:
        """Return "no_results" where the line states that nothing answers the question."""
        if self.answerable is False or self.is_impossible:
            return "no_results"
        return "success" if self.answerable else None


GoldByQuery = dict[str, tuple[int, GoldLine]]
"""query_id -> its line, what it states."""


def read_gold(path: Path) -> GoldByQuery:
    """Read `answers.jsonl` or `questions.jsonl`."""
    gold: GoldByQuery = {}
    for number, line in parsed(path, _line):
        first, _ = gold.setdefault(line.query_id, (number, line))
        if first != number:
            raise repeated(path, number, "query", line.query_id, first)
    return gold


def attach(dataset: Dataset, gold: GoldByQuery, path: Path) -> Dataset:
    """Return the dataset with the annotations of `gold`, read from `path`; evidence that is there
    stays, answers, outcomes and facts are replaced where the line has them.
    """
    not_found: list[str] = []  # a query per selected sentence that is in none of its passages

    def evidence_of(line: GoldLine) -> list[Span]:
        pieces = line.answers or []
        quotes = [
            *line.references,
            *(piece for piece in _short_answers(pieces) if piece.start is not None),
        ]
        spans = [_place(quote, line.doc_id, dataset.corpus) for quote in quotes]
        for sentence in filter(str.strip, _grounded_answer(pieces).selected_sentences):
            span = _find(sentence, line.passage_ids, dataset.corpus)
            if span is None:
                not_found.append(line.query_id)
            else:
                spans.append(span)
        return spans

    def labelled(case: Case) -> Case:
        if case.query_id not in gold:
            return case
        number, line = gold[case.query_id]
        pieces = line.answers or []
        aliases = tuple(dict.fromkeys(piece.content or "" for piece in _short_answers(pieces)))
        first_alias = aliases[0] if aliases else ""
        with located(f"{path}, line {number}"):
            spans = evidence_of(line)
        answer = line.answer or _grounded_answer(pieces).answer or first_alias
        extra = {
            name: value for name, value in (line.model_extra or {}).items() if value is not None
        }
        return replace(
            case,
            reference_answer=answer or case.reference_answer,
            gold_facts=(aliases,) if aliases else case.gold_facts,  # one fact, in several wordings
            expected_outcome=line.outcome or case.expected_outcome,
            evidence=tuple(dict.fromkeys((*case.evidence, *spans))),
            metadata={**case.metadata, **extra},
        )

    cases = tuple(labelled(case) for case in dataset.cases)
    warn(
        str(path),
        "queries have a selected sentence that is not in its passage; it is left out",
        dict.fromkeys(not_found),
    )
    return replace(dataset, cases=cases)


def _short_answers(pieces: Sequence[Piece]) -> list[Piece]:
    return [piece for piece in pieces if (piece.content or "").strip()]


def _grounded_answer(pieces: Sequence[Piece]) -> Piece:
    """Return the first piece with a full answer, an empty one where there is none."""
    return next((piece for piece in pieces if piece.answer), Piece.model_validate({}))


def _line(record: Mapping[str, Any]) -> GoldLine:
    """Return a checked line, or DataError with the first field that is wrong, or where none states
    anything about the query.
    """
    try:
        line = GoldLine.model_validate(record)
    except ValidationError as exc:
        error = exc.errors(include_url=False)[0]
        if error["type"] == "missing":
            raise DataError(f"'_id' is missing; the record has {', '.join(record)}") from exc
        field = [part for part in error["loc"] if isinstance(part, str)][-1]
        expected = error["msg"].removeprefix("Input should be ")
        raise DataError(f"{field!r} is {shown(error['input'])}; expected {expected}") from exc
    if line.model_fields_set.isdisjoint(_LABELS):
        raise DataError(
            f"no field of the line is known ({', '.join(record)}); expected '_id' with "
            f"{', '.join(map(repr, _LABELS[:-1]))} or {_LABELS[-1]!r}"
        )
    return line


_LABELS = ("answer", "answers", "answerable", "is_impossible", "references")
"""The fields with which a line states something about its query."""


def _place(piece: Piece, doc_id: str | None, corpus: Mapping[str, Document]) -> Span:
    """Return where a quote is, and DataError where it is not."""
    doc_id, content, start = piece.doc_id or doc_id, piece.content or "", piece.start
    if doc_id is None or start is None or not content:
        raise DataError("a quote has no document, no offset or no text; expected all three")
    if piece.end is not None and piece.end - start != len(content):
        raise DataError(
            f"the reference from {start} to {piece.end} quotes {len(content)} "
            f"characters, {shown(content)}; end_index - start_index must be the length of "
            "content, in characters (not bytes)"
        )
    doc_id = same_form([doc_id], corpus).get(doc_id, doc_id)
    if doc_id not in corpus:
        raise DataError(
            f"evidence is quoted from document {doc_id!r}, which is not in the corpus; add it"
        )
    text = corpus[doc_id].text[start : start + len(content)]
    if text != content:
        raise DataError(
            f"document {doc_id!r} has {shown(text)} at character {start} of its "
            f"text, not the quoted {shown(content)}; offsets count characters (not bytes) "
            "of the field 'text'"
        )
    return _span(corpus[doc_id], start, len(content))


def _find(sentence: str, passages: Sequence[str], corpus: Mapping[str, Document]) -> Span | None:
    for doc_id in passages:
        if doc_id in corpus and (start := corpus[doc_id].text.find(sentence)) >= 0:
            return _span(corpus[doc_id], start, len(sentence))
    return None


def _span(document: Document, start: int, length: int) -> Span:
    """Move characters of `text` to characters of `full_text`, which begins with the title."""
    start += len(document.full_text) - len(document.text)
    return Span(document.doc_id, start, start + length)
