"""Retrieval scored at every level that the labels of a test set allow: documents, gold evidence, labelled chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ragbench.errors import DataError, unknown_chunk
from ragbench.metrics.chunks import check_spans, overlaps, places, ranges
from ragbench.metrics.retrieval import DEFAULT_MEASURES, parse_measure
from ragbench.registry import is_ranking_measure, measure_of
from ragbench.scoring.runs import ceilings, score_run

if TYPE_CHECKING:
    import pandas as pd

    from ragbench.types import Chunk, Dataset, Qrels, Run

LEVELS = ("document", "span", "chunk")

# A chunk is relevant if it overlaps a piece of evidence by at least this fraction of the shorter of the two.
_SHARED = 0.5


def score_retrieval(
    dataset: Dataset,
    run: Run,
    *,
    chunk_run: Run | None = None,
    chunks: Sequence[Chunk] = (),
    measures: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Score a ranking by documents, by gold evidence and by labelled chunks: columns query_id, measure, value.

    The name of a measure carries its level: "nDCG@10" is about documents, "span:nDCG@10" and "chunk:nDCG@10" are about
    chunks; all are `score_run` on other judgements. By labelled chunks, those in `Case.relevant_chunks` are relevant
    with their grades. By gold evidence, a chunk is relevant (grade 1) if it overlaps a span of the case by at least
    half of the shorter of the two; evidence in no chunk counts as a relevant chunk that cannot be found. How many
    chunks are relevant then depends on the chunking, so compare chunkings by `score_spans` or by documents.

    Args:
        dataset: its cases' `relevant_chunks` and `evidence`, and its qrels.
        run: document-level run.
        chunk_run: chunk-level run; without one, documents are scored.
        chunks: the chunks that `chunk_run` ranks; needed for gold evidence.
        measures: names such as "nDCG@10" and "span:RR"; None means those of `score_run` at each of `retrieval_levels`.

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
        DataError: ids or scores that are not what they should be; nothing is judged at the level of a measure; gold
            evidence is asked for, and none of the chunks of `chunk_run` is among `chunks`.
    """
    import pandas as pd

    frames = []
    for prefix, qrels, names in _judgements(dataset, chunk_run, chunks, measures):
        ranked = chunk_run if prefix and chunk_run is not None else run
        frame = score_run(qrels, ranked, names)
        frames.append(frame.assign(measure=prefix + frame["measure"]) if prefix else frame)
    return pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]


def retrieval_levels(
    dataset: Dataset, *, chunk_run: Run | None = None, chunks: Sequence[Chunk] = ()
) -> tuple[str, ...]:
    """Those of `LEVELS` that these labels and this run can be scored at.

    Chunk labels name chunks of one system: they are only used if the run holds at least one of them.

    >>> from ragbench.types import Case, Dataset
    >>> dataset = Dataset("mine", "test", {}, [Case("q", "?", relevant_chunks={"d#1": 2})], {"q": {"d": 1}})
    >>> retrieval_levels(dataset, chunk_run={"q": {"d#1": 1.0}}), retrieval_levels(dataset)
    (('document', 'chunk'), ('document',))
    """
    known = {chunk.chunk_id for chunk in chunks}
    found = {chunk_id for ranked in (chunk_run or {}).values() for chunk_id in ranked} | known
    there = {
        "document": any(map(bool, dataset.qrels.values())),
        "span": chunk_run is not None and bool(known) and any(case.evidence for case in dataset.cases),
        "chunk": chunk_run is not None
        and any(chunk_id in found for case in dataset.cases for chunk_id in case.relevant_chunks),
    }
    return tuple(level for level in LEVELS if there[level])


def _judgements(
    dataset: Dataset, chunk_run: Run | None, chunks: Sequence[Chunk], measures: Sequence[str] | None
) -> Iterator[tuple[str, Qrels, list[str]]]:
    """For each level that is asked for: the prefix of its names, its judgements, and its measures without prefix."""
    levels = retrieval_levels(dataset, chunk_run=chunk_run, chunks=chunks)
    wanted: dict[str, list[str]] = {level: [*DEFAULT_MEASURES] for level in levels or ("document",)}
    if measures is not None:
        wanted = {}
        for name in measures:
            found = measure_of(name) if is_ranking_measure(name) else None
            level, rest = (found.level, found.name.rpartition(":")[2]) if found else ("document", name)
            wanted.setdefault(level, []).append(str(parse_measure(rest)))
    for level, names in wanted.items():
        if level == "document":
            yield "", dataset.qrels, names
        elif level not in levels:
            what = "gold evidence in these chunks" if level == "span" else "a labelled chunk in this run"
            raise DataError(f"{level}:{names[0]} cannot be measured on {dataset.name!r}: no question has {what}")
        else:
            # Passages of other systems may have no offsets in the documents, so some unknown ids are not an error.
            named = [(chunk_id, query_id) for query_id, found in (chunk_run or {}).items() for chunk_id in found]
            known = {chunk.chunk_id for chunk in chunks}
            if level == "span" and named and known.isdisjoint(chunk_id for chunk_id, _ in named):
                raise DataError(unknown_chunk(*named[0], len(chunks)))
            labelled = {case.query_id: dict(case.relevant_chunks) for case in dataset.cases}
            yield f"{level}:", labelled if level == "chunk" else _by_evidence(dataset, chunks), names


def _by_evidence(dataset: Dataset, chunks: Sequence[Chunk]) -> Qrels:
    spans = [span for case in dataset.cases for span in case.evidence]
    check_spans(spans)
    place = places([*spans, *chunks])
    truth, held = ranges(spans, place), ranges(chunks, place)
    qrels: Qrels = {case.query_id: {} for case in dataset.cases}
    owner = [case.query_id for case in dataset.cases for _ in case.evidence]
    lost = set(range(len(spans)))
    span, chunk = overlaps(truth, held)
    shared = np.minimum(truth[1][span], held[1][chunk]) - np.maximum(truth[0][span], held[0][chunk])
    shorter = np.minimum((truth[1] - truth[0])[span], (held[1] - held[0])[chunk])
    enough = shared >= _SHARED * shorter
    for i, j in zip(span[enough].tolist(), chunk[enough].tolist(), strict=True):
        qrels[owner[i]][chunks[j].chunk_id] = 1
        lost.discard(i)
    for i in lost:
        qrels[owner[i]][f"evidence {i} that no chunk holds"] = 1
    if len({piece.chunk_id for piece in chunks}) < len(chunks):
        raise DataError("two chunks have the same id; pass the chunks of one chunking")
    return qrels


def retrieval_ceilings(
    dataset: Dataset,
    *,
    chunk_run: Run | None = None,
    chunks: Sequence[Chunk] = (),
    measures: Sequence[str] | None = None,
) -> pd.DataFrame:
    """The best value that any system could reach on each query, by the judgements of `score_retrieval`.

    Columns query_id, measure, value, as from `ceilings`.

    >>> from ragbench.types import Case, Chunk, Dataset, Span
    >>> case = Case("q", "?", evidence=(Span("d", 0, 9), Span("d", 20, 30)))
    >>> chunks = [Chunk("d#0", "d", 0, 15, "x" * 15), Chunk("d#1", "d", 15, 30, "x" * 15)]
    >>> dataset = Dataset("mine", "test", {}, [case], {"q": {"d": 1}})
    >>> best = retrieval_ceilings(dataset, chunk_run={"q": {"d#0": 1.0}}, chunks=chunks, measures=["R@1", "span:R@1"])
    >>> best["value"].tolist()
    [1.0, 0.5]
    """
    import pandas as pd

    frames = [
        (frame := ceilings(qrels, names)).assign(measure=prefix + frame["measure"])
        for prefix, qrels, names in _judgements(dataset, chunk_run, chunks, measures)
    ]
    return pd.concat(frames, ignore_index=True)
