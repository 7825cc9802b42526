"""Passages of a system with documents of its own, found again in the documents of the dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from ragbench.datasets.passages import NOWHERE, Place, Texts
from ragbench.errors import ConfigError
from ragbench.types import Answer, Chunk, Dataset, Document, Passage, Run, Span

UNKNOWN = "unmatched:"
"""The prefix of the id of a passage that no document of the dataset holds: it keeps its rank, and is not relevant."""


class Matched(NamedTuple):
    """What `match_passages` found.

    `answers` are those given, with `doc_id` in their passages (and new ids where one id had several texts). `run`
    ranks documents, query_id -> doc_id -> score; `lowest` is the same ranking with no passage in doubt credited to a
    relevant document. `chunks` are the passages as spans of the documents, for the measures on evidence. `counts` has
    how many different passages were matched "by id", "exact", "white space", "fuzzy", how many of them were
    "ambiguous" (several documents hold the text) and "unmatched".
    """

    answers: list[Answer]
    run: Run
    lowest: Run
    chunks: list[Chunk]
    counts: dict[str, int]


def match_passages(
    answers: Sequence[Answer],
    dataset: Dataset,
    *,
    known_as: Mapping[str, str] | None = None,
    threshold: float = 90.0,
) -> Matched:
    """Find the document of the dataset behind each passage of the answers.

    In this order: `doc_id` or the passage's id is a document's id (or one with "#...", "~..." after it), or is judged
    in the qrels, or is in `known_as` (a system's id -> ours, such as `documents_of(ledger)` after `ingest`); a
    document holds the text exactly; it holds it when white space is folded; it holds a text that
    resembles it by `threshold` or more (rapidfuzz's partial ratio, 0 to 100: 100 times the fraction of characters that
    agree with the best place). Where the corpus is empty, the system's ids are taken as those of documents.

    Where several documents hold a text, it is unknown which of them the system found. The text is credited to one that
    no other passage of the answer belongs to, among those to one that is relevant to the question, and otherwise to the
    first in the order of the corpus. That agrees best with what the same passages score with their ids (within .01 for
    nDCG@5, R@5, R@10 and RR where a third of the passages are in doubt), and favours the system a little; `lowest`
    credits relevant documents last, so it is a lower bound.

    A document's score is that of its best passage. Ranks are those of the list that the system gave; its scores are
    kept where they fall along it, otherwise a passage at rank r scores 1/r. A passage without a document is in the
    run as "unmatched:<id>" and keeps its rank. Answers without passages are read by the ids in `contexts`.

    >>> corpus = {"rail": Document("rail", "The line opened in 1881. It was rebuilt later.")}
    >>> answer = Answer("q1", "1881", ("p",), passages=(Passage("p", "The line  opened in 1881."),))
    >>> matched = match_passages([answer], Dataset("demo", "test", corpus, [], {}))
    >>> matched.run, matched.chunks
    ({'q1': {'rail': 1.0}}, [Chunk(chunk_id='p', doc_id='rail', start=0, end=24, text='The line opened in 1881.')])
    """
    if not 0 < threshold <= 100:
        raise ConfigError(f"threshold is {threshold}; expected a partial ratio above 0 and up to 100, such as 90")
    passages = {_unscored(passage): None for answer in answers for passage in _passages(answer)}
    texts = Texts(dataset.corpus, threshold)
    judged = {doc_id for grades in dataset.qrels.values() for doc_id in grades}
    names = {**{doc_id: doc_id for doc_id in (*dataset.corpus, *judged)}, **(known_as or {})}
    place_of = {passage: _place(passage, dataset.corpus, names, texts) for passage in passages}
    relevant = {case.query_id: {span.doc_id: 1 for span in case.evidence} for case in dataset.cases}
    for query_id, grades in dataset.qrels.items():
        relevant[query_id] = {**relevant.get(query_id, {}), **grades}
    credited = [_credited(answer, place_of, relevant.get(answer.query_id, {})) for answer in answers]
    renamed = _renamed(pair for pairs in credited for pair in pairs)
    counts = Counter({"by id": 0, "exact": 0, "white space": 0, "fuzzy": 0, "ambiguous": 0, "unmatched": 0})
    for place in place_of.values():
        counts[place.how] += 1
        counts["ambiguous"] += len(place.holders) > 1
    chunks: dict[str, Chunk] = {}
    for (_, span), chunk_id in renamed.items():
        if span.start < span.end:
            text = dataset.corpus[span.doc_id].full_text[span.start : span.end]
            chunks.setdefault(chunk_id, Chunk(chunk_id, span.doc_id, span.start, span.end, text))
    lowest = [_credited(answer, place_of, relevant.get(answer.query_id, {}), lowest=True) for answer in answers]
    return Matched(
        [_rewritten(answer, pairs, renamed) for answer, pairs in zip(answers, credited, strict=True)],
        {answer.query_id: _ranked(answer, pairs) for answer, pairs in zip(answers, credited, strict=True)},
        {answer.query_id: _ranked(answer, pairs) for answer, pairs in zip(answers, lowest, strict=True)},
        list(chunks.values()),
        dict(counts),
    )


_Credited = list[tuple[Passage, Span]]


def _credited(
    answer: Answer, place_of: Mapping[Passage, Place], grades: Mapping[str, int], *, lowest: bool = False
) -> _Credited:
    """Each passage of an answer with the place that it is credited to, see `match_passages`."""
    passages = [_unscored(passage) for passage in _passages(answer)]
    taken = {holders[0].doc_id for passage in passages if len(holders := place_of[passage].holders) == 1}

    def rank(span: Span) -> tuple[int, int]:
        grade, again = max(0, grades.get(span.doc_id, 0)), int(span.doc_id in taken)
        return (grade, again) if lowest else (again, -grade)

    found = []
    for passage in passages:
        span = min(place_of[passage].holders, key=rank)
        taken.add(span.doc_id)
        found.append((passage, span))
    return found


def _passages(answer: Answer) -> list[Passage]:
    own = {passage.passage_id: passage for passage in answer.passages}
    ids = answer.contexts or tuple(own)
    return [own.get(passage_id) or Passage(passage_id, "") for passage_id in ids]


def _unscored(passage: Passage) -> Passage:
    """The same passage, regardless of the question it was found for."""
    return replace(passage, score=None)


def _place(passage: Passage, corpus: Mapping[str, Document], names: Mapping[str, str], texts: Texts) -> Place:
    doc_id = _known(passage, names)
    if not corpus:
        doc_id = doc_id or passage.doc_id or passage.passage_id
    if doc_id:
        found = texts.within(passage.text, doc_id) if doc_id in corpus and passage.text.strip() else None
        return Place((Span(doc_id, *(found or (0, 0))),))
    return texts.find(passage.text) if passage.text.strip() else NOWHERE


def _known(passage: Passage, names: Mapping[str, str]) -> str:
    """The id of a document that the passage names, "" if it names none."""
    for named in filter(None, (passage.doc_id, passage.passage_id)):
        for doc_id in (named, named.rpartition("#")[0], named.rpartition("~")[0]):
            if doc_id in names:
                return names[doc_id]
    return ""


def _renamed(credited: Iterable[tuple[Passage, Span]]) -> dict[tuple[Passage, Span], str]:
    """An id of its own for each passage: systems name a document and give another excerpt of it each time."""
    versions: dict[str, dict[tuple[str, Span], int]] = {}
    renamed = {}
    for passage, span in credited:
        own = versions.setdefault(passage.passage_id, {})
        number = own.setdefault((passage.text, span), len(own))
        renamed[passage, span] = f"{passage.passage_id}~~{number + 1}" if number else passage.passage_id
    return renamed


def _rewritten(answer: Answer, credited: _Credited, renamed: Mapping[tuple[Passage, Span], str]) -> Answer:
    if not answer.passages:
        return answer
    place_of = dict(credited)
    id_of = {passage.passage_id: renamed[passage, span] for passage, span in credited}
    return replace(
        answer,
        contexts=tuple(id_of[passage_id] for passage_id in answer.contexts),
        citations=tuple(id_of.get(citation, citation) for citation in answer.citations),
        passages=tuple(
            replace(passage, passage_id=id_of[key.passage_id], doc_id=place_of[key].doc_id)
            if key in place_of
            else passage
            for passage, key in zip(answer.passages, map(_unscored, answer.passages), strict=True)
        ),
    )


def _ranked(answer: Answer, credited: _Credited) -> dict[str, float]:
    scores = [passage.score for passage in _passages(answer)]
    given = [score for score in scores if score is not None]
    falling = len(given) == len(scores) and all(a >= b for a, b in pairwise(given))
    ranking: dict[str, float] = {}
    for rank, (passage, span) in enumerate(credited, 1):
        doc_id = span.doc_id or f"{UNKNOWN}{passage.passage_id}"
        ranking.setdefault(doc_id, given[rank - 1] if falling else round(1 / rank, 6))
    return ranking
