"""Statistics of a chunking by itself, without any retrieval."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragbench.array_types import Floats, Ints
from ragbench.errors import DataError
from ragbench.groups import grouped
from ragbench.language import language_of
from ragbench.metrics.spans import total_length
from ragbench.metrics.tidy import text_behind
from ragbench.retrieval.embedders import knows, load_embedder
from ragbench.text import in_groups, sentence_spans, token_offsets, token_ranges
from ragbench.types import Chunk, Dataset, Embedder


def score_chunks(
    dataset: Dataset,
    chunks: Sequence[Chunk],
    *,
    tokenizer: str = "minilm",
    embedder: str | Embedder = "wordllama",
) -> pd.DataFrame:
    """Measure a chunking: columns measure and value; NaN if there is nothing to measure.

    - chunks: their number. tokens_mean, tokens_median, tokens_p95: their sizes in tokens of
      `tokenizer`, counted in the tokenised document; the percentile is interpolated between the two
      nearest sizes.
    - overlap_ratio: the fraction of their characters that another chunk contains as well, in [0,
      1).
    - coherence: for each chunk the mean cosine of its neighbouring sentences, in [-1, 1], and the
      mean of these; higher is better. Only sentences wholly within the chunk count, and only chunks
      with two or more; NaN in a language that `embedder` does not know.
    - boundary_cuts: the fraction of chunk boundaries inside a sentence, in [0, 1]; lower is better.
      Boundaries are the start and the end of each chunk, except the start of the document's first
      sentence and the end of its last.

    >>> from ragbench.types import Document
    >>> dataset = Dataset("demo", "test", {"d": Document("d", "One two three. Four five.")}, [], {})
    >>> chunks = [Chunk("d#0", "d", 0, 7, "One two"), Chunk("d#1", "d", 8, 25, "three. Four five.")]
    >>> frame = score_chunks(dataset, chunks)
    >>> frame.set_index("measure")["value"].drop("coherence").to_dict()  # doctest: +NORMALIZE_WHITESPACE
    {'chunks': 2.0, 'tokens_mean': 3.5, 'tokens_median': 3.5, 'tokens_p95': 4.85, 'overlap_ratio': 0.0,
     'boundary_cuts': 1.0}

    Raises:
        DataError: a chunk of a document that the dataset lacks, or whose text is not the document's
            between its offsets.
    """
    _check_texts(dataset, chunks)
    chunks_of = grouped(chunks, lambda chunk: chunk.doc_id)
    model = load_embedder(embedder)
    # one array per document; an empty one first, for a dataset without chunks
    n_tokens: list[Floats] = [np.empty(0)]  # of each chunk
    coherences: list[Floats] = [np.empty(0)]  # of each chunk; NaN without two sentences
    cuts: list[Floats] = [np.empty(0)]  # of each boundary: 1 inside a sentence, else 0
    n_characters = 0  # of all chunks
    n_distinct = 0  # of these, each character of a document counted once
    for documents in in_groups(dataset.corpus[doc_id] for doc_id in chunks_of):
        texts = [document.full_text for document in documents]
        sentences = [sentence_spans(text) for text in texts]
        vectors = _sentence_vectors(texts, sentences, model)
        offsets = token_offsets(texts, tokenizer)
        for i, document in enumerate(documents):
            borders = [(chunk.start, chunk.end) for chunk in chunks_of[document.doc_id]]
            starts, ends = np.array(borders, dtype=np.int64).T
            # the range of each chunk among the tokens of its document
            first_token, token_after = token_ranges(offsets[i], starts, ends)
            n_tokens.append((token_after - first_token).astype(np.float64))
            n_characters += int((ends - starts).sum())
            n_distinct += total_length(starts, ends)
            if sentences[i]:  # else there is nothing that a border could cut
                spans = np.array(sentences[i])
                coherences.append(_coherence(starts, ends, spans, vectors[i]))
                cuts.append(_inside_sentences(np.r_[starts, ends], spans))
    sizes = np.concatenate(n_tokens)
    median = p95 = overlap = coherence = np.nan
    if len(sizes):
        median, p95 = np.percentile(sizes, [50, 95])
    if n_characters:
        overlap = 1 - n_distinct / n_characters
    if knows(embedder, language_of(chunks)):
        coherence = _mean_of_all(coherences)
    values = {
        "chunks": len(sizes),
        "tokens_mean": _mean_of_all(n_tokens),
        "tokens_median": median,
        "tokens_p95": p95,
        "overlap_ratio": overlap,
        "coherence": coherence,
        "boundary_cuts": _mean_of_all(cuts),
    }
    return pd.Series(values, dtype=float).rename_axis("measure").reset_index(name="value")


def _sentence_vectors(
    texts: Sequence[str], sentences: Sequence[Sequence[tuple[int, int]]], model: Embedder
) -> list[npt.NDArray[np.float32]]:
    """Return the vectors of each text's sentences (sentences x dimensions), encoded in one batch."""
    batch = []
    for text, spans in zip(texts, sentences, strict=True):
        batch += [text[start:end] for start, end in spans]
    ends = np.cumsum([len(spans) for spans in sentences])  # of each text's rows in the batch
    return np.split(model.encode(batch), ends[:-1])


def _mean_of_all(arrays: Sequence[Floats]) -> float:
    """Return the mean of the values in all arrays, without values that are NaN; NaN if none is left."""
    values = np.concatenate(arrays)
    n = int(np.isfinite(values).sum())
    return float(np.nansum(values) / n) if n else np.nan


def _coherence(
    starts: Ints, ends: Ints, sentences: Ints, vectors: npt.NDArray[np.float32]
) -> Floats:
    """Return for each chunk of a document how similar neighbouring sentences in it are: the mean cosine
    of all pairs of neighbours; NaN for a chunk without two whole sentences.

    Args:
        starts, ends: the borders of the chunks.
        sentences: a row (start, end) per sentence of the document.
        vectors: a row, of length 1, per sentence.
    """
    rows = np.asarray(vectors, dtype=np.float64)  # of unit length
    cosines = np.einsum("ij,ij->i", rows[:-1], rows[1:])  # of sentence i and sentence i + 1
    # sum_to[i]: the sum of the cosines of all pairs of neighbours up to sentence i
    sum_to = np.r_[0.0, np.cumsum(cosines)]
    first = np.searchsorted(sentences[:, 0], starts)  # first whole sentence of each chunk
    last = np.searchsorted(sentences[:, 1], ends, side="right") - 1  # its last whole sentence
    has_pair = first < last
    first, last = first[has_pair], last[has_pair]
    coherence = np.full(len(starts), np.nan)
    coherence[has_pair] = (sum_to[last] - sum_to[first]) / (last - first)
    return coherence


def _inside_sentences(borders: Ints, sentences: Ints) -> Floats:
    """Return 1 for each border inside a sentence, else 0, without the borders at the ends of the
    document. `sentences` has a row (start, end) per sentence.
    """
    borders = borders[(borders > sentences[0, 0]) & (borders < sentences[-1, 1])]
    # the last sentence that begins before the border; the border is in it if it ends after the border
    last_begun = np.searchsorted(sentences[:, 0], borders) - 1
    inside: Floats = (borders < sentences[last_begun, 1]).astype(np.float64)
    return inside


def _check_texts(dataset: Dataset, chunks: Sequence[Chunk]) -> None:
    """Raise DataError for a chunk whose text is not the text of its document between its offsets."""
    doc_id = None
    text = ""
    for chunk in chunks:
        if chunk.doc_id != doc_id:  # most chunks are of the document of the chunk before
            doc_id = chunk.doc_id
            text = text_behind(dataset, chunk)
        if text[chunk.start : chunk.end] != chunk.text:
            raise DataError(
                f"chunk {chunk.chunk_id!r} differs from the text of document {chunk.doc_id!r} "
                f"from character {chunk.start} to {chunk.end}; offsets point into "
                "Document.full_text, title included"
            )
