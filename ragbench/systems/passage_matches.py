"""Passages of a system with its own documents, matched with the documents of the dataset: by id,
name or text, which matches count, and the ranking that follows.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from ragbench.datasets.passages import NOWHERE, Place, Texts
from ragbench.plain_records import ids_in_known_form
from ragbench.systems.file_names import BY_FILE_NAME, BY_ID, BY_PATH, match_file_names
from ragbench.systems.passage_ids import text_id
from ragbench.types import Answer, Chunk, Dataset, Document, Passage, Run, Span

UNKNOWN = "unmatched:"
"""The prefix of the id of a passage whose document is not known: it keeps its rank, and is not
relevant.
"""

_MIN_CHARACTERS = 40  # of a passage that is not a whole chunk; a shorter one is in too many places
_MAX_HOLDERS = 3  # documents that may hold a text that counts
_MAX_SINGLE = float(np.finfo(np.float32).max)
_NOT_ATTRIBUTABLE = Place((Span("", 0, 0),), "not attributable")
_BY_NAME = (BY_ID, BY_PATH, BY_FILE_NAME)
_CHUNK_ID = re.compile(r"(.+)#(\d+)-(\d+)")  # as `ragbench.chunk` names chunks


class _Excerpt(NamedTuple):
    """The text of a passage, and its place in a document."""

    text: str
    span: Span


class _Excerpts:
    """The different excerpts that the answers have under each passage id. (A system may use the id of a
    document for every excerpt of it.) Each excerpt gets an id of its own.
    """

    def __init__(self) -> None:
        # passage_id -> excerpt -> 0 for the first excerpt under this id, 1 for the next, ...
        self._numbers: dict[str, dict[_Excerpt, int]] = {}

    def id_of(self, passage: Passage, span: Span) -> str:
        """Return the id of the excerpt in a passage: the passage's own id for the first excerpt under
        this id, else an id such as "p~~2".
        """
        numbers = self._numbers.setdefault(passage.passage_id, {})
        number = numbers.setdefault(_Excerpt(passage.text, span), len(numbers))
        return _id_of_excerpt(passage.passage_id, number)

    def chunks(self, corpus: Mapping[str, Document]) -> list[Chunk]:
        """Return a chunk for each excerpt that has a place in a document: its text was found there, or
        its id states the place, as in "rail#0-41".
        """
        chunks = []
        for passage_id, number_of_excerpt in self._numbers.items():
            for excerpt, number in number_of_excerpt.items():
                span = excerpt.span
                if span.start < span.end:
                    chunk_id = _id_of_excerpt(passage_id, number)
                    text = _text(span, corpus)
                    chunks.append(Chunk(chunk_id, span.doc_id, span.start, span.end, text))
        return chunks


def _id_of_excerpt(passage_id: str, number: int) -> str:
    """Return the id of the excerpt of that number (from 0) under a passage's id: "p", then "p~~2"."""
    return f"{passage_id}~~{number + 1}" if number else passage_id


class PassageMatches(NamedTuple):
    """Passages with their documents, from `match_passages`.

    `answers` are those given, with `doc_id` in their passages (and new ids where one id had several
    texts). `run` ranks documents, query_id -> doc_id -> score, and its scores are lower bounds: a
    passage that two or three documents hold counts for the least relevant of them. `chunks` are the passages
    as spans of the documents, for the measures on evidence. `counts` has how many passages were
    matched "by id", "by path", "by file name", "exact", "white space", "fuzzy", how many were "not
    attributable", and of how many "several" documents hold the text. `is_foreign` is True if
    there are passages and judged documents, but no passage names a document or has its text in one.
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
    """Find the document of the dataset behind each passage of the answers, in the first of these ways:

    1. The passage names the document by its id: as `doc_id`, as its own id, among its `sources`
       (further names of its document), or as its text, if it came without an id of its own. "#..."
       or "~..." may follow the id. Ids are those in the corpus and in the qrels, and the system's
       ids in `known_as` (a system's id -> ours, as `ingest` returns them).
    2. The passage names a document by its path, or by its file name or stem where these are unique
       (`match_file_names`).
    3. A document holds the text exactly.
    4. A document holds the text with other white space.
    5. A document holds a text that resembles it by 90 or more (rapidfuzz's partial ratio, 0 to 100:
       100 times the fraction of characters that agree with the best place).

    If the corpus is empty, the system's ids are taken for ids of documents.

    A text counts if it has 40 characters (white space folded) or is a whole chunk (it lies between
    borders of its document or of longer passages that were returned), and if at most 3 documents
    hold it. Any other is "not attributable": a word that all documents hold is no sign that one of
    them was retrieved. If two or three documents hold a text, it counts in `run` for the one that is
    least relevant to the question, so that the scores are lower bounds.

    The order of the passages in an answer is the ranking, even if scores tie. The scores are kept if
    they fall strictly in single precision (in which trec_eval compares them); otherwise a passage at
    rank r scores 1/r. A document has the score of its best passage. A passage without a document is in
    the run as "unmatched:<id>" and keeps its rank. Answers without passages are read by the ids in
    `contexts`.

    >>> corpus = {"rail": Document("rail", "The line opened in 1881, after ten years. It was rebuilt.")}
    >>> passages = (Passage("p", "The line opened in  1881, after ten years."), Passage("q", "It was rebuilt"))
    >>> data = Dataset("demo", "test", corpus, [], {})
    >>> matched = match_passages([Answer("q1", "1881", ("p", "q"), passages=passages)], data)
    >>> matched.run, [(chunk.doc_id, chunk.start, chunk.end) for chunk in matched.chunks]
    ({'q1': {'rail': 1.0, 'unmatched:q': 0.5}}, [('rail', 0, 41)])
    """
    corpus = dataset.corpus
    names = _document_of_name(dataset, known_as or {})
    passage_lists = [_passages(answer, names) for answer in answers]
    passages = list(chain.from_iterable(passage_lists))
    names_sent = list(chain.from_iterable(map(_possible_names, passages)))
    # names in another Unicode form than known ones
    for name_sent, name in ids_in_known_form(names_sent, names).items():
        names[name_sent] = names[name]
    places = _places(passages, corpus, names)
    place_of = _places_that_count(places, corpus)
    grades = _grades(dataset)
    excerpts = _Excerpts()
    answers_with_documents = []
    run = {}
    for answer, passages_of_answer in zip(answers, passage_lists, strict=True):
        holders = [place_of[passage].holders for passage in passages_of_answer]
        spans = _least_helpful_places(holders, grades.get(answer.query_id, {}))
        run[answer.query_id] = _ranking(answer, passages_of_answer, spans)
        answers_with_documents.append(
            _with_documents(answer, passages_of_answer, spans, excerpts, corpus)
        )
    no_document_has_any = set(places.values()) == {NOWHERE}
    has_judged_documents = any(grades.values())
    return PassageMatches(
        answers_with_documents,
        run,
        excerpts.chunks(corpus),
        _counts([place_of[passage] for passage in passages]),
        is_foreign=no_document_has_any and has_judged_documents,
    )


def _document_of_name(dataset: Dataset, known_as: Mapping[str, str]) -> dict[str, str]:
    """Return every name by which a passage may name a document -> the id of this document.

    Names are ids of documents in the corpus and in the judgements, and the names in `known_as`. An id of a
    labelled chunk is a name, too, but its document is not known: "".
    """
    names = {}
    for case in dataset.cases:
        for chunk_id in (*case.relevant_chunks, *case.expected_chunks):
            names[chunk_id] = ""
    for doc_id in dataset.corpus:
        names[doc_id] = doc_id
    for grades in dataset.qrels.values():
        for doc_id in grades:
            names[doc_id] = doc_id
    return {**names, **known_as}


def _grades(dataset: Dataset) -> dict[str, dict[str, int]]:
    """Return query_id -> doc_id -> grade; a document with evidence and no judgement has grade 1."""
    grades: dict[str, dict[str, int]] = {}
    for case in dataset.cases:
        grades[case.query_id] = {span.doc_id: 1 for span in case.evidence}
    for query_id, judged in dataset.qrels.items():
        grades[query_id] = {**grades.get(query_id, {}), **judged}
    return grades


def _places(
    passages: Sequence[Passage], corpus: Mapping[str, Document], names: Mapping[str, str]
) -> dict[Passage, Place]:
    """Return where each passage is: in the document that it names, else where its text is."""
    texts = Texts(corpus)
    named_by_id = {passage: _document_named_by(passage, names) for passage in passages}
    named_by_file = match_file_names(named_by_id, names)
    places = {}
    for passage, named_id in named_by_id.items():
        doc_id, how = named_by_file.get(passage, (named_id, BY_ID))
        places[passage] = _place_of(passage, doc_id, how, corpus, names, texts)
    return places


def _counts(places: Sequence[Place]) -> dict[str, int]:
    """Return how many passages were found in each way, and how many in several documents."""
    n_by_way = Counter(place.how for place in places)
    ways = (*_BY_NAME, "exact", "white space", "fuzzy", "not attributable")
    counts = {way: n_by_way[way] for way in ways}
    counts["several"] = sum(len(place.holders) > 1 for place in places)
    return counts


def _text(span: Span, corpus: Mapping[str, Document]) -> str:
    """Return the text of a span; "" for one without characters, whose document may be unknown."""
    if span.start >= span.end:
        return ""
    return corpus[span.doc_id].full_text[span.start : span.end]


def _passages(answer: Answer, names: Mapping[str, str]) -> list[Passage]:
    """Return the passages of an answer's contexts, in their order. They have no scores, so that the same
    passage in several answers is equal.

    Some systems return ids of documents alone. Such an id, "rail", was read as a text, and the passage
    got an id that is made from this text: "text-fdf0d7533af5". Here the text becomes the id of the
    passage again, and its text "".

    Args:
        answer: the answer of a system.
        names: its keys are the names of documents. A text that is one of them is an id.
    """
    by_id = answer.passage_of
    passages = []
    for passage_id in answer.contexts or by_id:
        passage = by_id.get(passage_id) or Passage(passage_id, "")
        passage = replace(passage, score=None)
        text = passage.text.strip()
        made_id = text_id(passage.text)
        is_bare_id = passage_id.startswith(made_id) and _is_name(text, names)
        if is_bare_id:
            # the number of an id that came twice stays: "text-fdf0d7533af5~2" becomes "rail~2"
            real_id = passage_id.replace(made_id, text)
            passage = replace(passage, passage_id=real_id, text="")
        passages.append(passage)
    return passages


def _is_name(text: str, names: Mapping[str, str]) -> bool:
    """Return True for a known name, and for the id of a chunk of a document with a known name."""
    if text in names:
        return True
    form = _CHUNK_ID.fullmatch(text)
    return form is not None and form[1] in names


def _place_of(
    passage: Passage,
    doc_id: str,
    how: str,
    corpus: Mapping[str, Document],
    names: Mapping[str, str],
    texts: Texts,
) -> Place:
    """Return where a passage is: the first of these that applies.

    - It names a document: there; the span has no characters (0, 0) if the text is not in the document.
    - It has a text: in the documents that hold the text, or `NOWHERE`.
    - Its id is that of a labelled chunk: in an unknown document, a span with the `doc_id` "".
    - Otherwise `NOWHERE`.

    Without a corpus, every passage names a document: by its `doc_id`, or else by its own id.

    Args:
        doc_id: the document that the passage names; "" for none.
        how: the way in which it names the document, such as `BY_ID`.
        names: every known name of a document; a key may be the id of a labelled chunk.
        texts: finds texts in the corpus.
    """
    if not corpus:  # the system's ids are taken as ids of documents
        doc_id = doc_id or passage.doc_id or passage.passage_id
    if doc_id:
        start, end = 0, 0
        if doc_id in corpus:
            start, end = _range_in_document(passage, doc_id, corpus, texts)
        return Place((Span(doc_id, start, end),), how)
    if passage.text.strip():
        return texts.find(passage.text)
    is_labelled_chunk = passage.passage_id in names
    return Place((Span("", 0, 0),), BY_ID) if is_labelled_chunk else NOWHERE


def _range_in_document(
    passage: Passage, doc_id: str, corpus: Mapping[str, Document], texts: Texts
) -> tuple[int, int]:
    """Return the range of characters of a document in which a passage is: where its text is, or, for a
    passage without text, the range in its id ("rail#0-41").

    Return (0, 0) if the document does not hold the text, or the id has no range.
    """
    if passage.text.strip():
        return texts.place_in_document(passage.text, doc_id) or (0, 0)
    chunk_id = _CHUNK_ID.fullmatch(passage.passage_id)
    if chunk_id is None:
        return 0, 0
    _, start, end = chunk_id.groups()
    return int(start), min(int(end), len(corpus[doc_id].full_text))


def _places_that_count(
    places: Mapping[Passage, Place], corpus: Mapping[str, Document]
) -> dict[Passage, Place]:
    """Return passage -> its place; `_NOT_ATTRIBUTABLE` for a passage whose document is not certain.

    A document that the passage names is certain. Documents that hold its text are certain if they are
    three at most, and the text has 40 characters or is a whole chunk (`_is_whole_chunk`).
    """
    named: dict[Passage, Place] = {}
    in_few_documents: dict[Passage, Place] = {}  # not named; one, two or three hold the text
    for passage, place in places.items():
        if place.how in _BY_NAME:
            named[passage] = place
        elif place != NOWHERE and len(place.holders) <= _MAX_HOLDERS:
            in_few_documents[passage] = place
    spans_of_long: set[Span] = set()  # their ends are borders of chunks
    for passage, place in (named | in_few_documents).items():
        if _is_long(passage):
            spans_of_long.update(place.holders)
    counted = dict.fromkeys(places, _NOT_ATTRIBUTABLE) | named
    for passage, place in in_few_documents.items():
        if _is_long(passage) or _is_whole_chunk(place, corpus, spans_of_long):
            counted[passage] = place
    return counted


def _is_long(passage: Passage) -> bool:
    """Return True if a passage has 40 characters, so that few texts hold it by chance."""
    return len(" ".join(passage.text.split())) >= _MIN_CHARACTERS


def _is_whole_chunk(
    place: Place, corpus: Mapping[str, Document], other_spans: Collection[Span]
) -> bool:
    """Return True if a passage fills the gap between two borders in one of the documents that hold it, but
    for white space. A border is an end of the document, the end of its title, or an end of another passage
    that was returned (`other_spans`).
    """
    for span in place.holders:
        neighbours = [other for other in other_spans if other.doc_id == span.doc_id]
        if _is_between_borders(span, corpus[span.doc_id], neighbours):
            return True
    return False


def _is_between_borders(span: Span, document: Document, neighbours: Sequence[Span]) -> bool:
    """Return True if only white space is between a span and a border on each side: the beginning or
    end of its document, of its text without the title, or of another passage that was returned.
    """
    full_text = document.full_text

    def is_blank(start: int, end: int) -> bool:
        return start == end or full_text[start:end].isspace()

    start_of_text = len(full_text) - len(document.text)  # the title comes before the text
    borders_before = [0, start_of_text, *(other.end for other in neighbours)]
    borders_after = [len(full_text), *(other.start for other in neighbours)]
    follows_border = any(is_blank(border, span.start) for border in borders_before)
    precedes_border = any(is_blank(span.end, border) for border in borders_after)
    return follows_border and precedes_border


def _document_named_by(passage: Passage, names: Mapping[str, str]) -> str:
    """Return the id of the document that a passage names; "" if it names none."""
    for name in _possible_names(passage):
        if names.get(name):
            return names[name]
    return ""


def _possible_names(passage: Passage) -> list[str]:
    """Return the ids by which a passage may name its document: its own ids, each also without a
    place in the document ("rail#0-41") or a number ("rail~2") after it.
    """
    names = []
    for name in (passage.doc_id, passage.passage_id, *passage.sources):
        without_place = name.rpartition("#")[0]
        without_number = name.rpartition("~")[0]
        names += [name, without_place, without_number]
    return names


def _falling_scores(scores: Sequence[float | None]) -> list[float]:
    """Return the scores of a list if they fall strictly in single precision; else 1/rank.

    >>> _falling_scores([0.9, 0.5]), _falling_scores([0.5, 0.5]), _falling_scores([0.5, None])
    ([0.9, 0.5], [1.0, 0.5], [1.0, 0.5])
    >>> _falling_scores([0.5, 0.5 - 1e-9])
    [1.0, 0.5]
    """
    numbers = [score for score in scores if score is not None]
    if len(numbers) == len(scores):
        # clipped: larger numbers would all become infinite in single precision
        in_range = np.array(numbers, dtype=np.float64).clip(-_MAX_SINGLE, _MAX_SINGLE)
        differences = np.diff(in_range.astype(np.float32))
        if (differences < 0).all():
            return numbers
    return [1 / rank for rank in range(1, len(scores) + 1)]


def _least_helpful_places(
    holders: Sequence[Sequence[Span]], grades: Mapping[str, int]
) -> list[Span]:
    """Return one place of each passage of a ranking.

    If several documents hold the passage, the place is in the document with which the ranking is
    worst. So the measures of the ranking are lower bounds.

    Args:
        holders: for each passage the places of its text, one in each document that holds it.
        grades: doc_id -> grade for the question.
    """
    ranked_ids = {spans[0].doc_id for spans in holders if len(spans) == 1}

    def help_to_ranking(span: Span) -> tuple[int, bool]:
        """Return a key that is lowest for the document that helps the ranking least."""
        grade = max(0, grades.get(span.doc_id, 0))
        is_ranked = span.doc_id in ranked_ids
        if grade == 0:
            # a new irrelevant document takes a rank, which is worse than one that is ranked already
            return grade, is_ranked
        # a relevant document that is ranked already adds nothing, which is worse than a new one
        return grade, not is_ranked

    least_helpful = []
    for spans in holders:
        span = min(spans, key=help_to_ranking)
        ranked_ids.add(span.doc_id)
        least_helpful.append(span)
    return least_helpful


def _ranking(
    answer: Answer, passages: Sequence[Passage], spans: Sequence[Span]
) -> dict[str, float]:
    """Return doc_id -> score of its best passage; a passage without a document is "unmatched:<id>".
    `passages` and `spans` are aligned with the contexts of the answer.
    """
    score_of = {passage.passage_id: passage.score for passage in answer.passages}
    contexts = answer.contexts or tuple(score_of)
    scores = _falling_scores([score_of.get(context) for context in contexts])
    ranking: dict[str, float] = {}
    for passage, span, score in zip(passages, spans, scores, strict=True):
        doc_id = span.doc_id or f"{UNKNOWN}{passage.passage_id}"
        ranking.setdefault(doc_id, score)
    return ranking


def _with_documents(
    answer: Answer,
    passages: Sequence[Passage],
    spans: Sequence[Span],
    excerpts: _Excerpts,
    corpus: Mapping[str, Document],
) -> Answer:
    """Return the answer with the documents of its passages, and with the passages' ids in `excerpts` in
    its contexts, citations and calls.

    Args:
        passages, spans: for each context of the answer, the passage and its place in a document.
        excerpts: gives the same passage the same id in all answers.
        corpus: has the texts of passages that came without one.
    """
    score_of = {passage.passage_id: passage.score for passage in answer.passages}
    contexts = answer.contexts or tuple(score_of)
    new_id: dict[str, str] = {}  # id of a context in the answer -> id of its excerpt
    new_passages: dict[str, Passage] = {}  # by the id of the context
    for context, passage, span in zip(contexts, passages, spans, strict=True):
        new_id[context] = excerpts.id_of(passage, span)
        had_passage = context in score_of
        if had_passage or span.doc_id:
            text = passage.text or _text(span, corpus)
            score = score_of.get(context)
            new_passages[context] = Passage(new_id[context], text, span.doc_id, score)

    def renamed(ids: Sequence[str]) -> tuple[str, ...]:
        return tuple(new_id.get(passage_id, passage_id) for passage_id in ids)

    return replace(
        answer,
        contexts=renamed(answer.contexts),
        citations=renamed(answer.citations),
        passages=tuple(new_passages.values()),
        calls=tuple(replace(call, contexts=renamed(call.contexts)) for call in answer.calls),
    )
