"""Statistics of a chunking by itself, without any retrieval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ragbench.embedders import load_embedder
from ragbench.errors import DataError
from ragbench.metrics.chunks import boundary_cuts, coherence, overlap_ratio, size_statistics
from ragbench.segments import in_groups, sentence_spans, token_offsets, token_ranges
from ragbench.types import Chunk, Dataset, Embedder


def score_chunks(
    dataset: Dataset, chunks: Sequence[Chunk], *, tokenizer: str = "minilm", embedder: str | Embedder = "wordllama"
) -> pd.DataFrame:
    """Statistics of a chunking, as a frame of measure and value; NaN where there is nothing to measure.

    - chunks: their number. tokens_mean, tokens_median, tokens_p95: their sizes in tokens of `tokenizer`, counted in
      the tokenised document.
    - overlap_ratio: the fraction of their characters that another chunk contains as well, in [0, 1).
    - coherence: similarity of neighbouring sentences within a chunk (mean cosine), in [-1, 1]; higher is better.
    - boundary_cuts: the fraction of chunk boundaries inside a sentence, in [0, 1]; lower is better.

    The formulas are in `ragbench.metrics.chunks`. A chunk of a document that the dataset lacks, or whose text is not
    the document's between its offsets, raises DataError.

    >>> from ragbench.types import Document
    >>> dataset = Dataset("demo", "test", {"d": Document("d", "One two three. Four five.")}, [], {})
    >>> chunks = [Chunk("d#0", "d", 0, 7, "One two"), Chunk("d#1", "d", 8, 25, "three. Four five.")]
    >>> frame = score_chunks(dataset, chunks)
    >>> frame.set_index("measure")["value"].drop("coherence").to_dict()  # doctest: +NORMALIZE_WHITESPACE
    {'chunks': 2.0, 'tokens_mean': 3.5, 'tokens_median': 3.5, 'tokens_p95': 4.85, 'overlap_ratio': 0.0,
     'boundary_cuts': 1.0}
    """
    by_document: dict[str, list[int]] = {}
    for i, chunk in enumerate(chunks):
        by_document.setdefault(chunk.doc_id, []).append(i)
    _check(dataset, chunks)

    model = load_embedder(embedder)
    counts = np.zeros(len(chunks), dtype=np.int64)
    alike = np.full(len(chunks), np.nan)
    sentences: dict[str, list[tuple[int, int]]] = {}
    for documents in in_groups(dataset.corpus[doc_id] for doc_id in by_document):
        group, texts = [d.doc_id for d in documents], [d.full_text for d in documents]
        for doc_id, text, offsets in zip(group, texts, token_offsets(texts, tokenizer), strict=True):
            own = by_document[doc_id]
            first, last = token_ranges(offsets, [chunks[i].start for i in own], [chunks[i].end for i in own])
            counts[own] = last - first
            sentences[doc_id] = sentence_spans(text)
        in_group = [i for doc_id in group for i in by_document[doc_id]]
        rows = model.encode(
            [text[a:b] for doc_id, text in zip(group, texts, strict=True) for a, b in sentences[doc_id]]
        )
        ends = np.cumsum([len(sentences[doc_id]) for doc_id in group])
        vectors = dict(zip(group, np.split(rows, ends[:-1]), strict=True))  # one per sentence of each document
        alike[in_group] = coherence([chunks[i] for i in in_group], sentences, vectors)
    values = size_statistics(counts)
    values["overlap_ratio"] = overlap_ratio(chunks)
    values["coherence"] = float(np.nanmean(alike)) if np.isfinite(alike).any() else float("nan")
    values["boundary_cuts"] = boundary_cuts(chunks, sentences)
    return pd.DataFrame({"measure": pd.Index(list(values), dtype="str"), "value": list(values.values())})


def _check(dataset: Dataset, chunks: Sequence[Chunk]) -> None:
    texts: dict[str, str] = {}
    for chunk in chunks:
        if chunk.doc_id not in dataset.corpus:
            raise DataError(
                f"chunk {chunk.chunk_id!r} is of document {chunk.doc_id!r}, which is not in the corpus of "
                f"{dataset.name!r}: chunks and dataset do not belong together"
            )
        if chunk.doc_id not in texts:
            texts = {chunk.doc_id: dataset.corpus[chunk.doc_id].full_text}  # one at a time: chunks come in order
        if texts[chunk.doc_id][chunk.start : chunk.end] != chunk.text:
            raise DataError(
                f"chunk {chunk.chunk_id!r} differs from the text of document {chunk.doc_id!r} from character "
                f"{chunk.start} to {chunk.end}; offsets point into Document.full_text, title included"
            )
