"""Passages of a system with documents of its own, found again in the documents of the dataset."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from ragbench.errors import ConfigError
from ragbench.types import Answer, Chunk, Dataset, Document, Passage, Run

UNKNOWN = "unmatched:"
"""What stands before the id of a passage that no document of the dataset holds: it keeps its rank, and is wrong."""

_LEAST_FUZZY = 40  # characters; a shorter text resembles many places
_MOST_VOTERS = 24  # words of a passage that choose its candidates
_MOST_CANDIDATES = 8
_WORD = re.compile(r"\w+")


class Matched(NamedTuple):
    """What `match_passages` found.

    `answers` are those given, with `doc_id` in their passages (and new ids where one id stood for several texts). `run`
    ranks documents, query_id -> doc_id -> score. `chunks` are the passages as spans of the documents, for the measures
    on evidence. `counts` says how many different passages were matched "by id", "exact", "white space", "fuzzy", how
    many of them were "ambiguous" (several documents hold the text; the first counts) and "unmatched".
    """

    answers: list[Answer]
    run: Run
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
    in the qrels, or stands in `known_as` (a system's id -> ours, such as `documents_of(ledger)` after `ingest`); a
    document holds the text exactly; it holds it when white space is folded; it holds a text that
    resembles it by `threshold` or more (rapidfuzz's partial ratio, 0 to 100: 100 times the share of characters that
    agree with the best place; passages of 40 characters and more). Where several documents hold a text, the first in
    the order of the corpus counts. Where the corpus is empty, the system's ids stand for documents as they are.

    A document's score is that of its best passage. Ranks are those of the list that the system gave; its scores are
    kept where they fall along it, otherwise a passage at rank r scores 1/r. A passage without a document stands in the
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
    texts = _Texts(dataset.corpus, threshold)
    judged = {doc_id for grades in dataset.qrels.values() for doc_id in grades}
    names = {**{doc_id: doc_id for doc_id in (*dataset.corpus, *judged)}, **(known_as or {})}
    place_of = {passage: _place(passage, dataset.corpus, names, texts) for passage in passages}
    renamed = _renamed(place_of)
    counts = Counter({"by id": 0, "exact": 0, "white space": 0, "fuzzy": 0, "ambiguous": 0, "unmatched": 0})
    for place in place_of.values():
        counts[place.how] += 1
        counts["ambiguous"] += place.ambiguous
    chunks: dict[str, Chunk] = {}
    for passage, place in place_of.items():
        if place.start < place.end:
            text = dataset.corpus[place.doc_id].full_text[place.start : place.end]
            chunk_id = renamed[passage]
            chunks.setdefault(chunk_id, Chunk(chunk_id, place.doc_id, place.start, place.end, text))
    return Matched(
        [_rewritten(answer, place_of, renamed) for answer in answers],
        {answer.query_id: _ranked(answer, place_of) for answer in answers},
        list(chunks.values()),
        dict(counts),
    )


class _Place(NamedTuple):
    doc_id: str
    start: int = 0
    end: int = 0
    how: str = "by id"
    ambiguous: bool = False


def _passages(answer: Answer) -> list[Passage]:
    own = {passage.passage_id: passage for passage in answer.passages}
    ids = answer.contexts or tuple(own)
    return [own.get(passage_id) or Passage(passage_id, "") for passage_id in ids]


def _unscored(passage: Passage) -> Passage:
    """The same passage, whatever question it was found for."""
    return replace(passage, score=None)


def _place(passage: Passage, corpus: Mapping[str, Document], names: Mapping[str, str], texts: _Texts) -> _Place:
    doc_id = _known(passage, names)
    if not corpus:
        return _Place(doc_id or passage.doc_id or passage.passage_id)
    if doc_id in corpus:
        found = texts.within(passage.text, doc_id) if passage.text.strip() else None
        return _Place(doc_id, *found) if found else _Place(doc_id)
    if doc_id:
        return _Place(doc_id)
    return texts.find(passage.text) if passage.text.strip() else _Place("", how="unmatched")


def _known(passage: Passage, names: Mapping[str, str]) -> str:
    """The id of a document that the passage names, "" if it names none."""
    for named in filter(None, (passage.doc_id, passage.passage_id)):
        for doc_id in (named, named.rpartition("#")[0], named.rpartition("~")[0]):
            if doc_id in names:
                return names[doc_id]
    return ""


class _Texts:
    """The corpus with white space folded, and which documents hold a word; built when a text must be found."""

    def __init__(self, corpus: Mapping[str, Document], threshold: float) -> None:
        self._corpus, self._threshold = corpus, threshold
        self._ids = list(corpus)
        self._folded: dict[str, tuple[str, list[int]]] = {}
        self._found: dict[str, _Place] = {}

    @cached_property
    def _holding(self) -> dict[str, array[int]]:
        holding: dict[str, array[int]] = {}
        for number, document in enumerate(self._corpus.values()):
            for word in set(_WORD.findall(document.full_text.casefold())):
                holding.setdefault(word, array("I")).append(number)
        return holding

    def find(self, text: str) -> _Place:
        """Where a text stands in the corpus."""
        if text not in self._found:
            self._found[text] = self._search(text)
        return self._found[text]

    def within(self, text: str, doc_id: str) -> tuple[int, int] | None:
        """Where a text stands in this document, white space folded."""
        full = self._corpus[doc_id].full_text
        if (at := full.find(text)) >= 0:
            return at, at + len(text)
        folded, offsets = self._fold(doc_id)
        wanted = " ".join(text.split())
        at = folded.find(wanted)
        return (offsets[at], offsets[at + len(wanted) - 1] + 1) if at >= 0 else None

    def _search(self, text: str) -> _Place:
        words = _WORD.findall(text.casefold())
        inner = dict.fromkeys(words[1:-1] if len(words) > 3 else ())  # the outer two may be cut in the middle
        rarest = sorted(inner, key=lambda word: len(self._holding.get(word, ())))
        if inner:
            held = [set(self._holding.get(word, ())) for word in rarest[:4]]
            candidates = sorted(set.intersection(*held))
        else:
            candidates = list(range(len(self._ids)))
        for how, match in (("exact", self._exactly), ("white space", self.within)):
            found = [(self._ids[i], span) for i in candidates if (span := match(text, self._ids[i])) is not None]
            if found:
                doc_id, (start, end) = found[0]
                return _Place(doc_id, start, end, how, len(found) > 1)
        return self._resembling(text, rarest)

    def _exactly(self, text: str, doc_id: str) -> tuple[int, int] | None:
        at = self._corpus[doc_id].full_text.find(text)
        return (at, at + len(text)) if at >= 0 else None

    def _resembling(self, text: str, rarest: Sequence[str]) -> _Place:
        from rapidfuzz.fuzz import partial_ratio_alignment

        wanted = " ".join(text.split())
        if len(wanted) < _LEAST_FUZZY:
            return _Place("", how="unmatched")
        known = [word for word in rarest if word in self._holding][:_MOST_VOTERS]
        votes = Counter(number for word in known for number in self._holding[word])
        best: tuple[float, str, int, int] | None = None
        ambiguous = False
        most = max(votes.values(), default=0)
        likely = [number for number in votes if votes[number] >= most / 2]
        for number in sorted(likely, key=lambda number: (-votes[number], number))[:_MOST_CANDIDATES]:
            folded, _ = self._fold(self._ids[number])
            found = partial_ratio_alignment(wanted, folded, score_cutoff=self._threshold)
            if found is None or found.dest_end <= found.dest_start:
                continue
            if best is None or found.score > best[0]:
                best, ambiguous = (found.score, self._ids[number], found.dest_start, found.dest_end), False
            else:
                ambiguous = ambiguous or found.score == best[0]
        if best is None:
            return _Place("", how="unmatched")
        _, doc_id, start, end = best
        offsets = self._fold(doc_id)[1]
        return _Place(doc_id, offsets[start], offsets[end - 1] + 1, "fuzzy", ambiguous)

    def _fold(self, doc_id: str) -> tuple[str, list[int]]:
        """A document's text with white space folded, and where each of its characters stands in `full_text`."""
        if doc_id not in self._folded:
            full = self._corpus[doc_id].full_text
            parts: list[str] = []
            offsets: list[int] = []
            for match in re.finditer(r"\S+", full):
                if parts:
                    offsets.append(match.start() - 1)
                parts.append(match[0])
                offsets += range(match.start(), match.end())
            self._folded[doc_id] = " ".join(parts), offsets
        return self._folded[doc_id]


def _renamed(place_of: Mapping[Passage, _Place]) -> dict[Passage, str]:
    """An id of its own for each passage: systems name a document and give another excerpt of it each time."""
    texts: dict[str, dict[str, None]] = {}
    for passage in place_of:
        texts.setdefault(passage.passage_id, {})[passage.text] = None
    renamed = {}
    for passage in place_of:
        number = list(texts[passage.passage_id]).index(passage.text)
        renamed[passage] = f"{passage.passage_id}~~{number + 1}" if number else passage.passage_id
    return renamed


def _rewritten(answer: Answer, place_of: Mapping[Passage, _Place], renamed: Mapping[Passage, str]) -> Answer:
    if not answer.passages:
        return answer
    id_of = {passage.passage_id: renamed[_unscored(passage)] for passage in _passages(answer)}
    return replace(
        answer,
        contexts=tuple(id_of[passage_id] for passage_id in answer.contexts),
        citations=tuple(id_of.get(citation, citation) for citation in answer.citations),
        passages=tuple(
            replace(passage, passage_id=renamed[key], doc_id=place_of[key].doc_id) if key in place_of else passage
            for passage, key in zip(answer.passages, map(_unscored, answer.passages), strict=True)
        ),
    )


def _ranked(answer: Answer, place_of: Mapping[Passage, _Place]) -> dict[str, float]:
    passages = _passages(answer)
    scores = [passage.score for passage in passages]
    given = [score for score in scores if score is not None]
    falling = len(given) == len(scores) and all(a >= b for a, b in pairwise(given))
    ranking: dict[str, float] = {}
    for rank, passage in enumerate(passages, 1):
        doc_id = place_of[_unscored(passage)].doc_id or f"{UNKNOWN}{passage.passage_id}"
        ranking.setdefault(doc_id, given[rank - 1] if falling else round(1 / rank, 6))
    return ranking
