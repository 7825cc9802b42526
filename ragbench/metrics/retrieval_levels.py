"""Scores of a ranking at three levels: by judged documents, by gold evidence (spans), by labelled
chunks; when a chunk holds evidence, and what counts for alternative documents.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import pandas as pd

from ragbench.errors import DataError, unknown_chunk
from ragbench.metrics.ranking_measures import parse_measure
from ragbench.metrics.retrieval import ceilings, score_run
from ragbench.registry import measure_of
from ragbench.types import Chunk, Dataset, Qrels, Run, chunks_by_id

Number = TypeVar("Number", int, float)

_MIN_SHARED = 0.5
"""A chunk is relevant if the text that it shares with an evidence span is at least this fraction of the
shorter of the two."""


def score_retrieval(
    dataset: Dataset,
    run: Run,
    *,
    chunk_run: Run | None = None,
    chunks: Sequence[Chunk] = (),
    joined: Collection[str] = (),
    measures: Sequence[str],
) -> pd.DataFrame:
    """Score a ranking by documents, by gold evidence and by labelled chunks: columns query_id,
    measure, value.

    The name of a measure carries its level: "nDCG@10" is about documents, "span:nDCG@10" and
    "chunk:nDCG@10" are about chunks. All are computed by `score_run`, on different judgements:

    - "chunk:": the chunks in `Case.relevant_chunks` are relevant, with their grades.
    - "span:": a chunk is relevant (grade 1) if it overlaps an evidence span of the case by at least half
      of the shorter of the two; evidence in no chunk counts as a relevant chunk that cannot be found.
      The number of relevant chunks then depends on the chunking, so compare chunkings by
      `score_spans` or by documents.

    Args:
        dataset: its cases' `relevant_chunks` and `evidence`, and its qrels.
        run: document-level run.
        chunk_run: chunk-level run; without one, only measures of documents can be computed.
        chunks: the chunks that `chunk_run` ranks; needed for gold evidence.
        joined: ids of the chunks among `chunks` that the search has joined from neighbouring chunks,
            each for a single question. In the judgements of this question it takes the place of its
            parts.
        measures: names such as "nDCG@10" and "span:RR", of the levels in `retrieval_levels`.

    >>> from ragbench.types import Case, Chunk, Dataset, Span
    >>> case = Case("q", "?", evidence=(Span("d", 10, 20),))
    >>> chunks = [Chunk("d#0", "d", 0, 9, "x" * 9), Chunk("d#1", "d", 9, 30, "x" * 21)]
    >>> dataset = Dataset("mine", "test", {}, [case], {"q": {"d": 1}})
    >>> ranked = {"q": {"d#0": 2.0, "d#1": 1.0}}
    >>> score_retrieval(dataset, {"q": {"d": 2.0}}, chunk_run=ranked, chunks=chunks, measures=["RR", "span:RR"])
      query_id  measure  value
    0        q       RR    1.0
    1        q  span:RR    0.5

    Raises:
        ConfigError: a measure is not known.
        DataError: invalid ids or scores; nothing is judged at the level of
            a measure; gold evidence is asked for, and none of the chunks of `chunk_run` is among
            `chunks`.
    """
    frames = []
    for level in _judged_levels(dataset, chunk_run, chunks, joined, measures):
        if level.prefix == "":
            ranked = merge_alternatives(dataset, run)
        else:  # a level of chunks, which `_judged_levels` refuses without a `chunk_run`
            ranked = chunk_run or {}
        frame = score_run(level.qrels, ranked, level.measures)
        frames.append(frame.assign(measure=level.prefix + frame["measure"]))
    return pd.concat(frames, ignore_index=True)


def merge_alternatives(
    dataset: Dataset, values: Mapping[str, dict[str, Number]]
) -> dict[str, dict[str, Number]]:
    """Return grades or scores (query_id -> doc_id -> value) in which the first document of each group of
    `Case.alternatives` stands for the group, with the highest value in it. Finding one alternative is
    enough, finding another adds nothing.

    >>> from ragbench.types import Case, Dataset
    >>> case = Case("q", "?", metadata={"alternatives": [["7", "8"]]})
    >>> data = Dataset("mine", "test", {}, [case], {"q": {"7": 1, "8": 1}})
    >>> merge_alternatives(data, data.qrels), merge_alternatives(data, {"q": {"8": 0.5, "9": 0.4}})
    ({'q': {'7': 1}}, {'q': {'7': 0.5, '9': 0.4}})
    """
    reduced = dict(values)
    for case in dataset.cases:
        if not case.alternatives or case.query_id not in values:
            continue
        # each document with alternatives -> the first of its group, which stands for all
        first_of = {doc_id: group[0] for group in case.alternatives for doc_id in group}
        best: dict[str, Number] = {}
        for doc_id, value in values[case.query_id].items():
            first = first_of.get(doc_id, doc_id)
            best[first] = max(value, best.get(first, value))
        reduced[case.query_id] = best
    return reduced


def retrieval_levels(
    dataset: Dataset, *, chunk_run: Run | None = None, chunks: Sequence[Chunk] = ()
) -> tuple[str, ...]:
    """Return the levels among "document", "span" and "chunk" at which these labels and this run can
    be scored.

    - document: the dataset has judgements.
    - span: there is a `chunk_run` with its `chunks`, and a case has gold evidence.
    - chunk: there is a `chunk_run`, and it or `chunks` hold at least one labelled chunk
      (`Case.relevant_chunks`), because these labels name chunks of one system.

    >>> from ragbench.types import Case, Dataset
    >>> dataset = Dataset("mine", "test", {}, [Case("q", "?", relevant_chunks={"d#1": 2})], {"q": {"d": 1}})
    >>> retrieval_levels(dataset, chunk_run={"q": {"d#1": 1.0}}), retrieval_levels(dataset)
    (('document', 'chunk'), ('document',))
    """
    levels = []
    if any(dataset.qrels.values()):
        levels.append("document")
    if chunk_run is not None:
        if chunks and any(case.evidence for case in dataset.cases):
            levels.append("span")
        chunk_ids = {chunk.chunk_id for chunk in chunks}.union(*chunk_run.values())
        if any(not chunk_ids.isdisjoint(case.relevant_chunks) for case in dataset.cases):
            levels.append("chunk")
    return tuple(levels)


class _JudgedLevel(NamedTuple):
    """A level of retrieval: the `prefix` of its measures ("", "span:" or "chunk:"), its judgements, and
    the names of its measures without the prefix.
    """

    prefix: str
    qrels: Qrels
    measures: list[str]


def _judged_levels(
    dataset: Dataset,
    chunk_run: Run | None,
    chunks: Sequence[Chunk],
    joined: Collection[str],
    measures: Sequence[str],
) -> Iterator[_JudgedLevel]:
    """Yield each level of the given measures with its judgements.

    Args:
        dataset: the labels of documents, evidence and chunks.
        chunk_run: the ranking of chunks; None if only documents are ranked.
        chunks: the chunks that `chunk_run` ranks.
        joined: ids of joined chunks, see `score_retrieval`.
        measures: names such as "nDCG@10" and "span:RR".

    Raises:
        DataError: the labels or the run do not allow a level, or the chunks are of another chunking.
    """
    possible_levels = retrieval_levels(dataset, chunk_run=chunk_run, chunks=chunks)
    names_of: dict[str, list[str]] = {}  # level -> names of its measures
    for name in measures:
        measure = measure_of(name)
        # "span:nDCG@10" -> "nDCG@10"
        parsed = parse_measure(measure.name.removeprefix(f"{measure.level}:"))
        names_of.setdefault(measure.level, []).append(str(parsed))
    lacking = {"span": "gold evidence in these chunks", "chunk": "a labelled chunk in this run"}
    for level, names in names_of.items():
        if level != "document" and level not in possible_levels:
            raise DataError(
                f"{level}:{names[0]} cannot be measured on {dataset.name!r}: no question has "
                f"{lacking[level]}"
            )
        if level == "document":
            yield _JudgedLevel("", merge_alternatives(dataset, dataset.qrels), names)
        elif level == "span":
            qrels = _span_judgements(dataset, chunk_run or {}, chunks, joined)
            yield _JudgedLevel("span:", qrels, names)
        else:
            labelled = {case.query_id: dict(case.relevant_chunks) for case in dataset.cases}
            yield _JudgedLevel("chunk:", labelled, names)


def _span_judgements(
    dataset: Dataset, run: Run, chunks: Sequence[Chunk], joined: Collection[str]
) -> Qrels:
    """Return query_id -> chunk_id -> 1 for the chunks that hold gold evidence: those that share at least
    half of the text of the shorter of the two, chunk or evidence span.

    Evidence that no chunk holds counts as a chunk that cannot be found. Chunks that the search cannot
    return for a question are left out (`_without_unreachable`).

    Args:
        dataset: its cases' evidence.
        run: the ranking of chunks.
        chunks: all chunks, also the joined ones.
        joined: ids of the chunks that the search has joined from neighbouring ones.

    Raises:
        DataError: two chunks have one id, or no chunk of the run is among `chunks`.
    """
    from ragbench.metrics.spans import evidence_chunks  # without it `score_run` is light

    query_of = {}  # of each chunk in the run
    for query_id, scores in run.items():
        query_of.update(dict.fromkeys(scores, query_id))
    chunk_ids = {chunk.chunk_id for chunk in chunks}
    if len(chunk_ids) < len(chunks):
        raise DataError("two chunks have the same id; pass the chunks of one chunking")
    # some unknown ids are no error: passages of other systems may have no offsets in the documents
    if query_of and chunk_ids.isdisjoint(query_of):
        chunk_id, query_id = next(iter(query_of.items()))
        raise DataError(unknown_chunk(chunk_id, query_id, len(chunks)))
    qrels = evidence_chunks(dataset, chunks, _MIN_SHARED)
    if not joined:
        return qrels
    return _without_unreachable(qrels, run, chunks, joined)


def _without_unreachable(
    judged: Qrels, run: Run, chunks: Sequence[Chunk], joined: Collection[str]
) -> Qrels:
    """Return the judgements of chunks without the chunks that the search cannot return for a question.

    A search may join neighbouring chunks into a longer one, for a single question. This puts two kinds
    of chunks out of a question's reach, which are therefore not counted as missed:

    - the joined chunks of other questions;
    - the parts of the question's own joined chunks, which the search returns as a whole.

    Args:
        judged: query_id -> chunk_id -> grade.
        run: query_id -> chunk_id -> score: the ranking of each question.
        chunks: all chunks, also the joined ones.
        joined: the ids of the joined chunks.
    """
    by_id = chunks_by_id(chunks)
    reachable: Qrels = {}
    for query_id, grades in judged.items():
        own_joined = {
            chunk_id: by_id[chunk_id] for chunk_id in run.get(query_id, {}) if chunk_id in joined
        }
        reachable[query_id] = {}
        for chunk_id, grade in grades.items():
            if chunk_id in joined:
                is_reachable = chunk_id in own_joined
            else:
                chunk = by_id.get(chunk_id)  # None: gold evidence that no chunk holds
                is_reachable = chunk is None or not _is_part_of_any(chunk, own_joined.values())
            if is_reachable:
                reachable[query_id][chunk_id] = grade
    return reachable


def _is_part_of_any(chunk: Chunk, joined_chunks: Iterable[Chunk]) -> bool:
    """Return True if one of the joined chunks holds all characters of a chunk."""
    return any(joined_chunk.holds(chunk) for joined_chunk in joined_chunks)


def retrieval_ceilings(
    dataset: Dataset,
    *,
    chunk_run: Run | None = None,
    chunks: Sequence[Chunk] = (),
    joined: Collection[str] = (),
    measures: Sequence[str],
) -> pd.DataFrame:
    """Return the best value that any system could reach on each query, by the judgements of
    `score_retrieval`.

    Columns query_id, measure, value, as from `ceilings`.

    >>> from ragbench.types import Case, Chunk, Dataset, Span
    >>> case = Case("q", "?", evidence=(Span("d", 0, 9), Span("d", 20, 30)))
    >>> chunks = [Chunk("d#0", "d", 0, 15, "x" * 15), Chunk("d#1", "d", 15, 30, "x" * 15)]
    >>> dataset = Dataset("mine", "test", {}, [case], {"q": {"d": 1}})
    >>> best = retrieval_ceilings(dataset, chunk_run={"q": {"d#0": 1.0}}, chunks=chunks, measures=["R@1", "span:R@1"])
    >>> best["value"].tolist()
    [1.0, 0.5]
    """
    frames = []
    for level in _judged_levels(dataset, chunk_run, chunks, joined, measures):
        frame = ceilings(level.qrels, level.measures)
        frames.append(frame.assign(measure=level.prefix + frame["measure"]))
    return pd.concat(frames, ignore_index=True)
