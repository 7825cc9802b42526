"""Passages of a system with documents of its own, found again in the documents of the dataset."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from ragbench.datasets.passages import NOWHERE, Place, Texts
from ragbench.systems.answer_parser import text_id
from ragbench.types import Answer, Chunk, Dataset, Document, Passage, Run, Span

UNKNOWN = "unmatched:"
"""The prefix of the id of a passage that is not attributable to a document: it keeps its rank, and
is not relevant.
"""

_MIN_CHARACTERS = 40  # of a passage that is not a whole chunk; a shorter one is in too many places
_MAX_HOLDERS = 3
_ANYWHERE = Place((Span("", 0, 0),), "not attributable")
_CHUNK_ID = re.compile(r"(.+)#(\d+)-(\d+)")  # as `ragbench.chunk` names chunks


class PassageMatches(NamedTuple):
    """Passages with their documents, from `match_passages`.

    `answers` are those given, with `doc_id` in their passages (and new ids where one id had several
    texts). `run` ranks documents, query_id -> doc_id -> score, and is a lower bound: a passage that
    two or three documents hold is credited to the least relevant of them. `chunks` are the passages
    as spans of the documents, for the measures on evidence. `counts` has how many passages were
    matched "by id", "exact", "white space", "fuzzy", how many were "not attributable", and of how
    many "several" documents hold the text. `is_foreign` states that there are passages and relevant
    documents, and that no document holds any of the passages, by id or by text.
    """

    answers: list[Answer]
    run: Run
    chunks: list[Chunk]
    counts: dict[str, int]
    is_foreign: bool


def match_passages(
    answers: Sequence[Answer],
    dataset: Dataset,
    *,
    known_as: Mapping[str, str] | None = None,
) -> PassageMatches:
    """Find the document of the dataset behind each passage of the answers.

    In this order: `doc_id`, the passage's id or a text without id is a document's id (or one with
    "#...", "~..." after it), or is judged in the qrels, or is in `known_as` (a system's id -> ours,
    such as `ingested_ids(ledger)` after `ingest`); a document holds the text exactly; it holds it
    when white space is folded; it holds a text that resembles it by 90 or more (rapidfuzz's partial
    ratio, 0 to 100: 100 times the fraction of characters that agree with the best place). Where the
    corpus is empty, the system's ids are taken as those of documents.

    A text counts if it has 40 characters (white space folded) or is a whole chunk (it lies between
    borders of its document or of longer passages that were returned), and if at most 3 documents
    hold it. Any other is "not attributable": a word that all documents hold is no sign that one of
    them was retrieved. Where two or three hold a text, `run` credits the least relevant to the
    question, so that its scores are lower bounds.

    A document's score is that of its best passage. Ranks are those of the list that the system
    gave; its scores are kept where they fall along it, otherwise a passage at rank r scores 1/r. A
    passage without a document is in the run as "unmatched:<id>" and keeps its rank. Answers without
    passages are read by the ids in `contexts`.

    >>> corpus = {"rail": Document("rail", "The line opened in 1881, after ten years. It was rebuilt.")}
    >>> passages = (Passage("p", "The line opened in  1881, after ten years."), Passage("q", "It was rebuilt"))
    >>> data = Dataset("demo", "test", corpus, [], {})
    >>> matched = match_passages([Answer("q1", "1881", ("p", "q"), passages=passages)], data)
    >>> matched.run, [(chunk.doc_id, chunk.start, chunk.end) for chunk in matched.chunks]
    ({'q1': {'rail': 1.0, 'unmatched:q': 0.5}}, [('rail', 0, 41)])
    """
    judged = {doc_id for grades in dataset.qrels.values() for doc_id in grades}
    names = {**{doc_id: doc_id for doc_id in (*dataset.corpus, *judged)}, **(known_as or {})}
    labelled = {
        chunk_id
        for case in dataset.cases
        for chunk_id in (*case.relevant_chunks, *case.expected_chunks)
    }
    answers = [_with_ids(answer, names, labelled) for answer in answers]
    returned = [_unscored(passage) for answer in answers for passage in _passages(answer)]
    texts = Texts(dataset.corpus)
    places = {
        passage: _place(passage, dataset.corpus, names, labelled, texts)
        for passage in dict.fromkeys(returned)
    }
    place_of = _attributable(places, dataset.corpus)
    relevant = {case.query_id: {span.doc_id: 1 for span in case.evidence} for case in dataset.cases}
    for query_id, grades in dataset.qrels.items():
        relevant[query_id] = {**relevant.get(query_id, {}), **grades}
    lowest = [_credited(answer, place_of, relevant.get(answer.query_id, {})) for answer in answers]
    renamed = _renamed(pair for pairs in lowest for pair in pairs)
    kinds = ("by id", "exact", "white space", "fuzzy", "not attributable", "several")
    counts = Counter(dict.fromkeys(kinds, 0))
    for passage in returned:
        counts[place_of[passage].how] += 1
        counts["several"] += len(place_of[passage].holders) > 1
    chunks: dict[str, Chunk] = {}
    for (_, span), chunk_id in renamed.items():
        if span.start < span.end:
            text = dataset.corpus[span.doc_id].full_text[span.start : span.end]
            chunks.setdefault(chunk_id, Chunk(chunk_id, span.doc_id, span.start, span.end, text))
    paired = list(zip(answers, lowest, strict=True))
    run = {answer.query_id: _ranked(answer, pairs) for answer, pairs in paired}
    rewritten = [_rewritten(answer, pairs, renamed, chunks) for answer, pairs in paired]
    is_lost = bool(places) and all(each == NOWHERE for each in places.values())
    is_foreign = is_lost and any(relevant.values())
    return PassageMatches(rewritten, run, list(chunks.values()), dict(counts), is_foreign)


_Credited = list[tuple[Passage, Span]]


def _with_ids(answer: Answer, names: Collection[str], labelled: Collection[str]) -> Answer:
    """Return the answer with texts that are exactly the id of a document or chunk as passages of
    that id.
    """
    ids: dict[str, str] = {}
    for passage in answer.passages:
        named = passage.text.strip()
        form = _CHUNK_ID.fullmatch(named)
        is_id = named in names or named in labelled or (form is not None and form[1] in names)
        if is_id and passage.passage_id.partition("~")[0] == text_id(passage.text):
            again = sum(passage_id.partition("~")[0] == named for passage_id in ids.values())
            ids[passage.passage_id] = f"{named}~{again + 1}" if again else named
    passages = (
        replace(passage, passage_id=ids[passage.passage_id], text="")
        if passage.passage_id in ids
        else passage
        for passage in answer.passages
    )
    return _replaced(answer, ids, passages)


def _replaced(answer: Answer, ids: Mapping[str, str], passages: Iterable[Passage]) -> Answer:
    """Return the answer with these passages, and with new ids in its contexts and citations."""
    contexts, citations = (
        tuple(ids.get(passage_id, passage_id) for passage_id in passage_ids)
        for passage_ids in (answer.contexts, answer.citations)
    )
    return replace(answer, contexts=contexts, citations=citations, passages=tuple(passages))


def _credited(
    answer: Answer, place_of: Mapping[Passage, Place], grades: Mapping[str, int]
) -> _Credited:
    """Return each passage of an answer with the place that it is credited to: of several documents,
    the one that makes the ranking worst by these grades.
    """
    passages = [_unscored(passage) for passage in _passages(answer)]
    ranked = {
        holders[0].doc_id for passage in passages if len(holders := place_of[passage].holders) == 1
    }

    def worth(span: Span) -> tuple[int, bool]:
        grade = max(0, grades.get(span.doc_id, 0))
        is_ranked = span.doc_id in ranked
        return grade, is_ranked == (grade == 0)  # another document that is irrelevant takes a rank

    credited = []
    for passage in passages:
        span = min(place_of[passage].holders, key=worth)
        ranked.add(span.doc_id)
        credited.append((passage, span))
    return credited


def _passages(answer: Answer) -> list[Passage]:
    by_id = {passage.passage_id: passage for passage in answer.passages}
    ids = answer.contexts or tuple(by_id)
    return [by_id.get(passage_id) or Passage(passage_id, "") for passage_id in ids]


def _unscored(passage: Passage) -> Passage:
    """Return the same passage, regardless of the question it was found for."""
    return replace(passage, score=None)


def _place(
    passage: Passage,
    corpus: Mapping[str, Document],
    names: Mapping[str, str],
    labelled: Collection[str],
    texts: Texts,
) -> Place:
    doc_id = _known(passage, names)
    if not corpus:
        doc_id = doc_id or passage.doc_id or passage.passage_id
    if not doc_id and passage.text.strip():
        return texts.find(passage.text)
    if doc_id not in corpus:
        return Place((Span(doc_id, 0, 0),)) if doc_id or passage.passage_id in labelled else NOWHERE
    at = texts.within(passage.text, doc_id) if passage.text.strip() else None
    if not passage.text and (form := _CHUNK_ID.fullmatch(passage.passage_id)):
        at = int(form[2]), min(int(form[3]), len(corpus[doc_id].full_text))
    return Place((Span(doc_id, *(at or (0, 0))),))


def _attributable(
    places: Mapping[Passage, Place], corpus: Mapping[str, Document]
) -> dict[Passage, Place]:
    """Return the places; `_ANYWHERE` for texts in no document, in too many, and for short ones that
    are not whole chunks."""
    few = {
        passage: holding.holders
        for passage, holding in places.items()
        if holding != NOWHERE and len(holding.holders) <= _MAX_HOLDERS
    }
    long = {passage for passage in few if len(" ".join(passage.text.split())) >= _MIN_CHARACTERS}
    spans = {span for passage in long for span in few[passage]}

    def counts(passage: Passage, holding: Place) -> bool:
        return passage in few and (
            holding.how == "by id"
            or passage in long
            or any(_is_chunk(span, corpus[span.doc_id], spans) for span in few[passage])
        )

    return {
        passage: holding if counts(passage, holding) else _ANYWHERE
        for passage, holding in places.items()
    }


def _is_chunk(span: Span, document: Document, others: Iterable[Span]) -> bool:
    """Return True if a span lies between borders: those of its document, or of other passages that
    were returned.
    """
    full = document.full_text
    neighbours = [other for other in others if other.doc_id == span.doc_id]
    starts = [0, len(full) - len(document.text), *(other.end for other in neighbours)]
    ends = [len(full), *(other.start for other in neighbours)]
    return any(
        full[start : span.start].isspace() or start == span.start for start in starts
    ) and any(full[span.end : end].isspace() or end == span.end for end in ends)


def _known(passage: Passage, names: Mapping[str, str]) -> str:
    """Return the id of a document that the passage names, "" if it names none."""
    for named in filter(None, (passage.doc_id, passage.passage_id)):
        for doc_id in (named, named.rpartition("#")[0], named.rpartition("~")[0]):
            if doc_id in names:
                return names[doc_id]
    return ""


def _renamed(credited: Iterable[tuple[Passage, Span]]) -> dict[tuple[Passage, Span], str]:
    """Give each passage an id of its own: systems name a document and give another excerpt of it
    each time.
    """
    versions: dict[str, dict[tuple[str, Span], int]] = {}
    renamed = {}
    for passage, span in credited:
        numbers = versions.setdefault(passage.passage_id, {})
        number = numbers.setdefault((passage.text, span), len(numbers))
        renamed[passage, span] = (
            f"{passage.passage_id}~~{number + 1}" if number else passage.passage_id
        )
    return renamed


def _rewritten(
    answer: Answer,
    credited: _Credited,
    renamed: Mapping[tuple[Passage, Span], str],
    chunks: Mapping[str, Chunk],
) -> Answer:
    """Return the answer with the documents of its passages, those that it names by their ids alone
    among them.
    """
    span_of = dict(credited)
    id_of = {passage.passage_id: renamed[passage, span] for passage, span in credited}
    named = {passage.passage_id for passage in answer.passages}
    more = (key for key, span in credited if span.doc_id and key.passage_id not in named)
    passages = []
    for passage in (*answer.passages, *more):
        if (span := span_of.get(_unscored(passage))) is not None:
            new_id = id_of[passage.passage_id]
            text = passage.text or (chunks[new_id].text if new_id in chunks else "")
            passage = replace(passage, passage_id=new_id, doc_id=span.doc_id, text=text)
        passages.append(passage)
    return _replaced(answer, id_of, passages)


def _ranked(answer: Answer, credited: _Credited) -> dict[str, float]:
    scores = [passage.score for passage in _passages(answer)]
    numbers = [score for score in scores if score is not None]
    falling = len(numbers) == len(scores) and all(a >= b for a, b in pairwise(numbers))
    ranking: dict[str, float] = {}
    for rank, (passage, span) in enumerate(credited, 1):
        doc_id = span.doc_id or f"{UNKNOWN}{passage.passage_id}"
        ranking.setdefault(doc_id, numbers[rank - 1] if falling else round(1 / rank, 6))
    return ranking
