"""Passages of a system with documents of its own, found again in the documents of the dataset."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ragbench.datasets.passages import NOWHERE, Place, Texts
from ragbench.systems.file_names import BY_FILE_NAME, BY_ID, BY_PATH, match_file_names
from ragbench.systems.passage_ids import text_id
from ragbench.types import Answer, Chunk, Dataset, Document, Passage, Run, Span, same_form

UNKNOWN = "unmatched:"
"""The prefix of the id of a passage that is not attributable to a document: it keeps its rank, and
is not relevant.
"""

_MIN_CHARACTERS = 40  # of a passage that is not a whole chunk; a shorter one is in too many places
_MAX_HOLDERS = 3
_MAX_SINGLE = float(np.finfo(np.float32).max)
_ANYWHERE = Place((Span("", 0, 0),), "not attributable")
_BY_NAME = (BY_ID, BY_PATH, BY_FILE_NAME)
_CHUNK_ID = re.compile(r"(.+)#(\d+)-(\d+)")  # as `ragbench.chunk` names chunks


class PassageMatches(NamedTuple):
    """Passages with their documents, from `match_passages`.

    `answers` are those given, with `doc_id` in their passages (and new ids where one id had several
    texts). `run` ranks documents, query_id -> doc_id -> score, and is a lower bound: a passage that
    two or three documents hold is credited to the least relevant of them. `chunks` are the passages
    as spans of the documents, for the measures on evidence. `counts` has how many passages were
    matched "by id", "by path", "by file name", "exact", "white space", "fuzzy", how many were "not
    attributable", and of how many "several" documents hold the text. `is_foreign` states that there
    are passages and relevant documents, and that no document holds any of the passages, by name or
    by text.
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

    In this order: `doc_id`, the passage's id, a further name of its document (`sources`) or a text
    without id is a document's id (or one with "#...", "~..." after it), or is judged in the qrels,
    or is in `known_as` (a system's id -> ours, as `ingest` returns them); the passage names a
    document by its path, or by its file name or stem where these are unique (`match_file_names`); a
    document holds the text exactly; it holds it when white space is folded; it holds a text that
    resembles it by 90 or more (rapidfuzz's partial ratio, 0 to 100: 100 times the fraction of
    characters that agree with the best place). Where the corpus is empty, the system's ids are
    taken as those of documents.

    A text counts if it has 40 characters (white space folded) or is a whole chunk (it lies between
    borders of its document or of longer passages that were returned), and if at most 3 documents
    hold it. Any other is "not attributable": a word that all documents hold is no sign that one of
    them was retrieved. Where two or three hold a text, `run` credits the least relevant to the
    question, so that its scores are lower bounds.

    The list that the system gave is its ranking, also where its scores tie: they are kept where
    they fall strictly along it in single precision (in which trec_eval compares them), otherwise a
    passage at rank r scores 1/r. A document's score is that of its best passage. A passage without
    a document is in the run as "unmatched:<id>" and keeps its rank. Answers without passages are
    read by the ids in `contexts`.

    >>> corpus = {"rail": Document("rail", "The line opened in 1881, after ten years. It was rebuilt.")}
    >>> passages = (Passage("p", "The line opened in  1881, after ten years."), Passage("q", "It was rebuilt"))
    >>> data = Dataset("demo", "test", corpus, [], {})
    >>> matched = match_passages([Answer("q1", "1881", ("p", "q"), passages=passages)], data)
    >>> matched.run, [(chunk.doc_id, chunk.start, chunk.end) for chunk in matched.chunks]
    ({'q1': {'rail': 1.0, 'unmatched:q': 0.5}}, [('rail', 0, 41)])
    """
    labelled = (
        chunk_id
        for case in dataset.cases
        for chunk_id in (*case.relevant_chunks, *case.expected_chunks)
    )
    judged = (doc_id for grades in dataset.qrels.values() for doc_id in grades)
    names = {
        **dict.fromkeys(labelled, ""),  # which are known, and of no document that is known
        **{doc_id: doc_id for doc_id in (*dataset.corpus, *judged)},
        **(known_as or {}),
    }
    lists = [_passages(answer, names) for answer in answers]
    sent = (each for passages in lists for passage in passages for each in _named(passage))
    names |= {other: names[known] for other, known in same_form(sent, names).items()}
    texts = Texts(dataset.corpus)
    known = {passage: _known(passage, names) for passages in lists for passage in passages}
    by_file_name = match_file_names(known, names)
    places = {}
    for passage, doc_id in known.items():
        named, how = by_file_name.get(passage, (doc_id, BY_ID))
        places[passage] = _place(passage, named, how, dataset.corpus, names, texts)
    place_of = _attributable(places, dataset.corpus)
    relevant = {case.query_id: {span.doc_id: 1 for span in case.evidence} for case in dataset.cases}
    for query_id, grades in dataset.qrels.items():
        relevant[query_id] = {**relevant.get(query_id, {}), **grades}
    versions: _Versions = {}
    matched = [
        _rewritten(
            answer, passages, place_of, relevant.get(answer.query_id, {}), versions, dataset.corpus
        )
        for answer, passages in zip(answers, lists, strict=True)
    ]
    chunks = [
        Chunk(
            _version(passage_id, number),
            span.doc_id,
            span.start,
            span.end,
            _text(span, dataset.corpus),
        )
        for passage_id, excerpts in versions.items()
        for (_, span), number in excerpts.items()
        if span.start < span.end
    ]
    used = [place_of[passage] for passages in lists for passage in passages]
    kinds = (*_BY_NAME, "exact", "white space", "fuzzy", "not attributable")
    counts = {how: sum(each.how == how for each in used) for how in kinds}
    return PassageMatches(
        [answer for answer, _ in matched],
        {answer.query_id: ranking for answer, ranking in matched},
        chunks,
        {**counts, "several": sum(len(each.holders) > 1 for each in used)},
        is_foreign={*places.values()} == {NOWHERE} and any(relevant.values()),
    )


_Versions = dict[str, dict[tuple[str, Span], int]]
"""Passage id -> its excerpts with their numbers: systems name a document and give another excerpt of
it each time.
"""


def _version(passage_id: str, number: int) -> str:
    return f"{passage_id}~~{number + 1}" if number else passage_id


def _text(span: Span, corpus: Mapping[str, Document]) -> str:
    return corpus[span.doc_id].full_text[span.start : span.end] if span.start < span.end else ""


def _passages(answer: Answer, names: Mapping[str, str]) -> list[Passage]:
    """Return the contexts of an answer, regardless of the question they were found for (without
    scores); a text that is exactly the id of a document or chunk as the passage of that id.
    """
    by_id = answer.passage_of
    passages = []
    for passage_id in answer.contexts or by_id:
        passage = replace(by_id.get(passage_id) or Passage(passage_id, ""), score=None)
        named, made_id = passage.text.strip(), text_id(passage.text)
        form = _CHUNK_ID.fullmatch(named)
        if passage_id.startswith(made_id) and (named in names or (form and form[1] in names)):
            passage = replace(passage, passage_id=passage_id.replace(made_id, named), text="")
        passages.append(passage)
    return passages


def _place(
    passage: Passage,
    doc_id: str,
    how: str,
    corpus: Mapping[str, Document],
    names: Mapping[str, str],
    texts: Texts,
) -> Place:
    """Return where a passage is: in the document that it names, if any, else where its text is."""
    if not corpus:
        doc_id = doc_id or passage.doc_id or passage.passage_id
    has_text = bool(passage.text.strip())
    if not doc_id and has_text:
        return texts.find(passage.text)
    if not doc_id and passage.passage_id not in names:
        return NOWHERE
    at = None
    if doc_id in corpus and has_text:
        at = texts.within(passage.text, doc_id)
    elif doc_id in corpus and (form := _CHUNK_ID.fullmatch(passage.passage_id)):
        at = int(form[2]), min(int(form[3]), len(corpus[doc_id].full_text))
    return Place((Span(doc_id, *(at or (0, 0))),), how)


def _attributable(
    places: Mapping[Passage, Place], corpus: Mapping[str, Document]
) -> dict[Passage, Place]:
    """Return the places; `_ANYWHERE` for texts in no document, in too many, and for short ones that
    are not whole chunks."""
    few = {
        passage
        for passage, holding in places.items()
        if holding != NOWHERE and len(holding.holders) <= _MAX_HOLDERS
    }
    long = {passage for passage in few if len(" ".join(passage.text.split())) >= _MIN_CHARACTERS}
    spans = {span for passage in long for span in places[passage].holders}
    return {
        passage: holding
        if passage in long
        or (
            passage in few
            and (
                holding.how in _BY_NAME
                or any(_is_chunk(span, corpus[span.doc_id], spans) for span in holding.holders)
            )
        )
        else _ANYWHERE
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
    return next((names[named] for named in _named(passage) if names.get(named)), "")


def _named(passage: Passage) -> list[str]:
    """Return the ids by which a passage may name its document."""
    return [
        doc_id
        for named in (passage.doc_id, passage.passage_id, *passage.sources)
        for doc_id in (named, named.rpartition("#")[0], named.rpartition("~")[0])
    ]


def _falling(scores: Sequence[float | None]) -> list[float]:
    """Return the scores of a list where they fall strictly in single precision; else 1/rank.

    >>> _falling([0.9, 0.5]), _falling([0.5, 0.5]), _falling([0.5, None]), _falling([0.5, 0.5 - 1e-9])
    ([0.9, 0.5], [1.0, 0.5], [1.0, 0.5], [1.0, 0.5])
    """
    given = [score for score in scores if score is not None]
    if len(given) == len(scores):
        single = np.array(given, dtype=np.float64).clip(-_MAX_SINGLE, _MAX_SINGLE)
        if (np.diff(single.astype(np.float32)) < 0).all():
            return given
    return [1 / rank for rank in range(1, len(scores) + 1)]


def _rewritten(
    answer: Answer,
    passages: Sequence[Passage],
    place_of: Mapping[Passage, Place],
    grades: Mapping[str, int],
    versions: _Versions,
    corpus: Mapping[str, Document],
) -> tuple[Answer, dict[str, float]]:
    """Return the answer with the documents of its passages, and their ranking. Of several documents
    that hold a passage, the one counts that makes the ranking worst by these grades.
    """
    score_of = {passage.passage_id: passage.score for passage in answer.passages}
    contexts = answer.contexts or tuple(score_of)
    scores = _falling([score_of.get(context) for context in contexts])
    holders = [place_of[passage].holders for passage in passages]
    ranked = {spans[0].doc_id for spans in holders if len(spans) == 1}

    def worth(span: Span) -> tuple[int, bool]:
        grade = max(0, grades.get(span.doc_id, 0))
        is_ranked = span.doc_id in ranked
        return grade, is_ranked == (grade == 0)  # another document that is irrelevant takes a rank

    id_of: dict[str, str] = {}
    kept: dict[str, Passage] = {}
    ranking: dict[str, float] = {}
    for rank, (context, passage, spans) in enumerate(zip(contexts, passages, holders, strict=True)):
        span = min(spans, key=worth)
        ranked.add(span.doc_id)
        numbers = versions.setdefault(passage.passage_id, {})
        number = numbers.setdefault((passage.text, span), len(numbers))
        id_of[context] = _version(passage.passage_id, number)
        if span.doc_id or context in score_of:
            text = passage.text or _text(span, corpus)
            kept[context] = Passage(id_of[context], text, span.doc_id, score_of.get(context))
        doc_id = span.doc_id or f"{UNKNOWN}{passage.passage_id}"
        ranking.setdefault(doc_id, scores[rank])

    def renamed(ids: Sequence[str]) -> tuple[str, ...]:
        return tuple(id_of.get(passage_id, passage_id) for passage_id in ids)

    calls = tuple(replace(call, contexts=renamed(call.contexts)) for call in answer.calls)
    rewritten = replace(
        answer,
        contexts=renamed(answer.contexts),
        citations=renamed(answer.citations),
        passages=tuple(kept.values()),
        calls=calls,
    )
    return rewritten, ranking
