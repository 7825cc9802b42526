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

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ragbench.datasets.jsonl import located, parsed, shown
from ragbench.datasets.records import identifier, string, warn
from ragbench.errors import DataError
from ragbench.types import Case, Dataset, Document, Span


class Quote(NamedTuple):
    """What should be in the `text` of a document from character `start` on."""

    doc_id: str
    start: int
    content: str


class Gold(NamedTuple):
    """One line's data on one query; `sentences` are to be found in the documents `passages`."""

    query_id: str
    reference_answer: str | None = None
    gold_facts: tuple[tuple[str, ...], ...] = ()
    expected_outcome: str | None = None
    quotes: tuple[Quote, ...] = ()
    sentences: tuple[str, ...] = ()
    passages: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = MappingProxyType({})


GoldByQuery = dict[str, tuple[int, Gold]]
"""query_id -> its line, what it states."""

_ANSWER_FIELDS = {
    "_id",
    "answer",
    "answers",
    "answerable",
    "is_impossible",
    "doc_id",
    "passage_ids",
    "sentences",
}


def read_answers(path: Path) -> GoldByQuery:
    """Read `answers.jsonl`, whose other fields become metadata of the case."""
    return _by_query(path, _answer)


def read_questions(path: Path) -> GoldByQuery:
    """Read `questions.jsonl`."""
    return _by_query(path, _question)


def attach(dataset: Dataset, gold: GoldByQuery, path: Path) -> Dataset:
    """Return the dataset with the annotations of `gold`, read from `path`; evidence that is there
    stays.
    """
    lost: dict[str, None] = {}

    def labelled(case: Case) -> Case:
        if case.query_id not in gold:
            return case
        line, found = gold[case.query_id]
        with located(f"{path}, line {line}"):
            spans = [_place(quote, dataset.corpus) for quote in found.quotes]
        for sentence in found.sentences:
            span = _find(sentence, found.passages, dataset.corpus)
            if span is None:
                lost[case.query_id] = None
            else:
                spans.append(span)
        return replace(
            case,
            reference_answer=found.reference_answer or case.reference_answer,
            gold_facts=found.gold_facts or case.gold_facts,
            expected_outcome=found.expected_outcome or case.expected_outcome,
            evidence=tuple(dict.fromkeys((*case.evidence, *spans))),
            metadata={**case.metadata, **found.metadata},
        )

    cases = tuple(labelled(case) for case in dataset.cases)
    warn(
        str(path),
        "queries have a selected sentence that is not in its passage; it is left out",
        lost,
    )
    return replace(dataset, cases=cases)


def _by_query(path: Path, parse: Callable[[dict[str, Any]], Gold]) -> GoldByQuery:
    gold: GoldByQuery = {}
    for number, found in parsed(path, parse):
        if found.query_id in gold:
            raise DataError(
                f"{path}, line {number}: query {found.query_id!r} is on "
                f"line {gold[found.query_id][0]} already; keep one of the two"
            )
        gold[found.query_id] = number, found
    return gold


def _answer(record: dict[str, Any]) -> Gold:
    query_id = identifier(record)
    answerable = False if record.get("is_impossible") is True else record.get("answerable")
    if answerable not in (None, True, False):
        raise DataError(f"'answerable' is {shown(answerable)}; expected true or false")
    reference = string(record, "answer") if record.get("answer") is not None else ""
    answers = record.get("answers")
    if not isinstance(answers, list | None):
        raise DataError(f"'answers' is {shown(answers)}; expected a list")
    grounded = all(isinstance(answer, dict) and "answer" in answer for answer in answers or ())
    gold = (_grounded if grounded else _short)(Gold(query_id), record, answers or ())
    return gold._replace(
        reference_answer=reference or gold.reference_answer,
        expected_outcome=None if answerable is None else "success" if answerable else "no_results",
        metadata={
            key: value
            for key, value in record.items()
            if key not in _ANSWER_FIELDS and value is not None
        },
    )


def _grounded(gold: Gold, record: Mapping[str, Any], answers: Sequence[Mapping[str, Any]]) -> Gold:
    """Return the first answer with content, with the sentences it rests on: other annotators chose
    others.
    """
    for answer in answers:
        if not (text := string(answer, "answer")):
            continue
        sentences = answer.get("selected_sentences") or []
        passages = record.get("passage_ids") or []
        if not (
            isinstance(sentences, list) and all(isinstance(sentence, str) for sentence in sentences)
        ):
            raise DataError(
                f"'selected_sentences' is {shown(sentences)}; expected a list of strings"
            )
        if not isinstance(passages, list):
            raise DataError(f"'passage_ids' is {shown(passages)}; expected a list of document ids")
        ids = tuple(identifier({"passage_ids": passage}, "passage_ids") for passage in passages)
        wanted = tuple(sentence for sentence in sentences if sentence.strip())
        return gold._replace(reference_answer=text, sentences=wanted, passages=ids)
    return gold


def _short(gold: Gold, record: Mapping[str, Any], answers: Sequence[Any]) -> Gold:
    """Return one fact whose aliases are the annotators' wordings; where they say at which place,
    evidence too.
    """
    aliases: dict[str, None] = {}
    quotes = []
    for answer in answers:
        fields = {"text": answer} if isinstance(answer, str) else answer
        if not isinstance(fields, dict):
            raise DataError(f"answer {shown(answer)} is not a string or an object")
        text = string(fields, "text")
        if not text.strip():
            continue
        aliases[text] = None
        if fields.get("answer_start") is not None:
            quotes.append(
                Quote(
                    identifier({**record, **fields}, "doc_id"),
                    _offset(fields, "answer_start"),
                    text,
                )
            )
    if not aliases:
        return gold
    return gold._replace(
        reference_answer=next(iter(aliases)), gold_facts=(tuple(aliases),), quotes=tuple(quotes)
    )


def _question(record: dict[str, Any]) -> Gold:
    query_id, references = identifier(record), record.get("references")
    if not isinstance(references, list) or not all(
        isinstance(reference, dict) for reference in references
    ):
        raise DataError(f"'references' is {shown(references)}; expected a list of objects")
    quotes = []
    for reference in references:
        doc_id = identifier({**record, **reference}, "corpus_id")
        start, end = _offset(reference, "start_index"), _offset(reference, "end_index")
        content = string(reference, "content")
        if end - start != len(content) or not content:
            raise DataError(
                f"the reference from {start} to {end} quotes {len(content)} "
                f"characters, {shown(content)}; end_index - start_index must be the length of "
                "content, in characters (not bytes), and not 0"
            )
        quotes.append(Quote(doc_id, start, content))
    return Gold(query_id, quotes=tuple(quotes))


def _offset(record: Mapping[str, Any], name: str) -> int:
    value = record.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise DataError(
            f"{name!r} is {shown(value)}; expected a whole number, 0 or more, counting characters"
        )
    return value


def _place(quote: Quote, corpus: Mapping[str, Document]) -> Span:
    document = corpus.get(quote.doc_id)
    if document is None:
        raise DataError(
            f"evidence is quoted from document {quote.doc_id!r}, which is not in the corpus; add it"
        )
    there = document.text[quote.start : quote.start + len(quote.content)]
    if there != quote.content:
        raise DataError(
            f"document {quote.doc_id!r} has {shown(there)} at character {quote.start} of its "
            f"text, not the quoted {shown(quote.content)}; offsets count characters (not bytes) "
            "of the field 'text'"
        )
    return _span(document, quote.start, len(quote.content))


def _find(sentence: str, passages: Sequence[str], corpus: Mapping[str, Document]) -> Span | None:
    for doc_id in passages:
        if doc_id in corpus and (start := corpus[doc_id].text.find(sentence)) >= 0:
            return _span(corpus[doc_id], start, len(sentence))
    return None


def _span(document: Document, start: int, length: int) -> Span:
    """Move characters of `text` to characters of `full_text`, which begins with the title."""
    start += len(document.full_text) - len(document.text)
    return Span(document.doc_id, start, start + length)
