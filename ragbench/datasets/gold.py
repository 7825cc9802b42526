"""Gold answers and gold evidence in a BEIR folder, `answers.jsonl` and `questions.jsonl`: which
shapes of a line are read (aliases, offsets, selected sentences), and how quotes are placed in
documents.

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
from ragbench.datasets.raw_records import repeated
from ragbench.errors import DataError, warn_of_flaw
from ragbench.plain_records import ids_in_known_form
from ragbench.types import Case, Dataset, Document, Span


def _id(value: Any) -> Any:
    """Return a whole number as a text; any other value unchanged."""
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
"""query_id -> (number of the line, its content)."""


def read_gold(path: Path) -> GoldByQuery:
    """Return the lines of `answers.jsonl` or `questions.jsonl` by their query.

    Raises:
        DataError: a line is wrong, or two are about one query.
    """
    gold: GoldByQuery = {}
    for number, line in parsed(path, _line):
        first, _ = gold.setdefault(line.query_id, (number, line))
        if first != number:
            raise repeated(path, number, "query", line.query_id, first)
    return gold


def attach(dataset: Dataset, gold: GoldByQuery, path: Path) -> Dataset:
    """Return the dataset with the gold answers and the gold evidence of `gold`, which was read from
    `path`.

    Evidence is added to the evidence of a case. The reference answer, the expected outcome and the
    gold facts of a line replace the values of the case. Unknown fields of the line become metadata.

    A line states evidence in one of two forms. A quote has an offset, so it must be there. A selected
    sentence is one that annotators chose from the passages of the line; it has no offset, and is left
    out with a warning if no passage has exactly these words.

    Raises:
        DataError: a quote of a line is incomplete, or is not at its place in its document.
    """
    cases = []
    incomplete = []  # queries with a selected sentence that no passage has
    for case in dataset.cases:
        if case.query_id not in gold:
            cases.append(case)
            continue
        line_number, line = gold[case.query_id]
        with located(f"{path}, line {line_number}"):
            quoted = _spans_of_quotes(line, dataset.corpus)
        # a span for each selected sentence; None where no passage has it
        selected = _spans_of_selected_sentences(line, dataset.corpus)
        if None in selected:
            incomplete.append(case.query_id)
        spans = [*quoted, *filter(None, selected)]
        cases.append(_labelled(case, line, spans))
    warn_of_flaw(
        str(path),
        "queries have a selected sentence that is not in its passage; it is left out",
        incomplete,
    )
    return replace(dataset, cases=tuple(cases))


def _labelled(case: Case, line: GoldLine, spans: Sequence[Span]) -> Case:
    """Return the case with the labels that a file of gold answers has for it.

    `line` is its line in the file, and `spans`, the evidence of the line, are added to its evidence. The
    items in the line's list of answers ("pieces") are full answers in whole sentences (field `answer`),
    or short answers of a few words (field `text`). The reference answer is the answer of the line, else
    its first full answer, else its first short answer. Its short answers are one fact, in several
    wordings.
    """
    pieces = line.answers or []
    short_answers = [piece.content or "" for piece in _short_answers(pieces)]
    wordings = tuple(dict.fromkeys(short_answers))  # each once
    first_short_answer = wordings[0] if wordings else None
    first_full_answer = _first_full_answer(pieces).answer  # None without one
    answer = line.answer or first_full_answer or first_short_answer
    unknown_fields = line.model_extra or {}  # pydantic keeps fields there that the format lacks
    extra = {name: value for name, value in unknown_fields.items() if value is not None}
    return replace(
        case,
        reference_answer=answer or case.reference_answer,
        # one fact, which is stated if any of its wordings is
        gold_facts=(wordings,) if wordings else case.gold_facts,
        expected_outcome=line.outcome or case.expected_outcome,
        evidence=tuple(dict.fromkeys((*case.evidence, *spans))),
        metadata={**case.metadata, **extra},
    )


def _spans_of_quotes(line: GoldLine, corpus: Mapping[str, Document]) -> list[Span]:
    """Return the spans of the references of a line, and of its short answers that have an offset.

    Raises:
        DataError: a quote is incomplete, or its document has another text at its offset.
    """
    quotes = list(line.references)
    for piece in _short_answers(line.answers or []):
        if piece.start is not None:
            quotes.append(piece)
    return [_span_of_quote(quote, line.doc_id, corpus) for quote in quotes]


def _spans_of_selected_sentences(
    line: GoldLine, corpus: Mapping[str, Document]
) -> list[Span | None]:
    """Return the span of each sentence that annotators selected from the passages of a line; None for a
    sentence that is in no passage.
    """
    sentences = _first_full_answer(line.answers or []).selected_sentences
    return [
        _span_of_sentence(sentence, line.passage_ids, corpus)
        for sentence in sentences
        if sentence.strip()
    ]


def _short_answers(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces that are short answers: these have their text in `content`, full answers in
    `answer`.
    """
    return [piece for piece in pieces if (piece.content or "").strip()]


def _first_full_answer(pieces: Sequence[Piece]) -> Piece:
    """Return the first piece with a full answer; an empty piece if no piece has one."""
    for piece in pieces:
        if piece.answer:
            return piece
    return Piece.model_validate({})


def _line(record: Mapping[str, Any]) -> GoldLine:
    """Return a record as a checked line.

    Raises:
        DataError: a field is wrong (the message names the first), or no field states anything about
            the query.
    """
    try:
        line = GoldLine.model_validate(record)
    except ValidationError as exc:
        raise _error_of_first_field(exc, record) from exc
    if line.model_fields_set.isdisjoint(_LABELS):
        raise DataError(
            f"no field of the line is known ({', '.join(record)}); expected '_id' with "
            f"{', '.join(map(repr, _LABELS[:-1]))} or {_LABELS[-1]!r}"
        )
    return line


def _error_of_first_field(exc: ValidationError, record: Mapping[str, Any]) -> DataError:
    """Return an error that names the first wrong field of a record, its value and the expected one."""
    error = exc.errors(include_url=False)[0]
    if error["type"] == "missing":  # only the id is required
        return DataError(f"'_id' is missing; the record has {', '.join(record)}")
    # the way to the value has names of fields, and positions in lists
    field_names = [part for part in error["loc"] if isinstance(part, str)]
    field = field_names[-1]
    expected = error["msg"].removeprefix("Input should be ")
    return DataError(f"{field!r} is {shown(error['input'])}; expected {expected}")


def _span_of_quote(
    quote: Piece, default_doc_id: str | None, corpus: Mapping[str, Document]
) -> Span:
    """Return the span of a quote; its document is `default_doc_id` unless the quote names one.

    Raises:
        DataError: the quote is incomplete, or its document has another text at its offset.
    """
    doc_id = quote.doc_id or default_doc_id
    content = quote.content or ""
    start = quote.start
    if doc_id is None or start is None or not content:
        raise DataError("a quote has no document, no offset or no text; expected all three")
    if quote.end is not None and quote.end - start != len(content):
        raise DataError(
            f"the reference from {start} to {quote.end} quotes {len(content)} "
            f"characters, {shown(content)}; end_index - start_index must be the length of "
            "content, in characters (not bytes)"
        )
    doc_id = ids_in_known_form([doc_id], corpus).get(doc_id, doc_id)  # as the corpus writes the id
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
    return _span_in_full_text(corpus[doc_id], start, len(content))


_LABELS = ("answer", "answers", "answerable", "is_impossible", "references")
"""The fields with which a line states something about its query."""


def _span_of_sentence(
    sentence: str, doc_ids: Sequence[str], corpus: Mapping[str, Document]
) -> Span | None:
    """Return the span of the first place of a sentence in these documents; None if no document has it."""
    for doc_id in doc_ids:
        if doc_id not in corpus:
            continue
        start = corpus[doc_id].text.find(sentence)
        if start >= 0:
            return _span_in_full_text(corpus[doc_id], start, len(sentence))
    return None


def _span_in_full_text(document: Document, start: int, length: int) -> Span:
    """Return the span of `length` characters from `start` of the document's `text`, as offsets in
    its `full_text`, which begins with the title.
    """
    start += len(document.full_text) - len(document.text)
    return Span(document.doc_id, start, start + length)
