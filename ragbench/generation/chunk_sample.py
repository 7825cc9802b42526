"""Sampling of the chunks to draft questions from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ragbench.datasets.records import warn
from ragbench.errors import ConfigError, DataError, unknown
from ragbench.retrieval.embedders import load_embedder
from ragbench.types import Chunk, Dataset, Embedder

if TYPE_CHECKING:
    from ragbench.types import FloatArray

SAMPLINGS = ("diverse", "random", "recent")

_CANDIDATES = 4000

MIN_WORDS = 20
"""A chunk with fewer words is a heading or a fragment."""


def sample_chunks(
    dataset: Dataset,
    chunks: Sequence[Chunk],
    n: int,
    how: str = "random",
    *,
    seed: int = 0,
    embedder: str | Embedder = "wordllama",
    date_field: str = "date",
) -> list[Chunk]:
    """Choose `n` chunks to draft questions from, or all where there are fewer; chunks of fewer than 20
    words are left out.

    - "random": uniformly.
    - "diverse": greedy facility location (cosine of `embedder`; ties: the earlier chunk), so that
      every topic is met, large ones first; within 1 - 1/e of the best coverage (Nemhauser, Wolsey &
      Fisher 1978). Taking the farthest chunk each time collects outliers: on the pydoc set it
      covers worse than chance. Of more than 4,000 chunks, a random 4,000 are considered.
    - "recent": from the newest documents by the field `date_field` of their metadata, one chunk of
      each at random, the newest document first, then a second of each, and so on while documents
      are fewer than `n`. A date is a year, a month, a day or a time in ISO form ("2024", "2024-05",
      "2024-05-01T10:00"), or a whole number (a year).

    A larger `n` with the same seed begins with the chunks of a smaller one, so only the additional
    ones are requested.

    Raises:
        ConfigError: an unknown sampling, or a number below 1.
        DataError: no chunk is long enough, or no document has a date.
    """
    if how not in SAMPLINGS:
        raise ConfigError(unknown("sampling", how, SAMPLINGS))
    if n < 1:
        raise ConfigError(f"the number of chunks to sample is {n}; expected 1 or more")
    usable = [
        chunk
        for chunk in chunks
        if len(chunk.text.split()) >= MIN_WORDS or _is_unspaced(chunk.text)
    ]
    if not usable:
        raise DataError(f"none of {len(chunks)} chunks has {MIN_WORDS} words; use larger chunks")
    if how == "recent":
        return _recent(dataset, usable, n, seed, date_field)
    order = np.random.default_rng(seed).permutation(len(usable))
    if how == "random":
        return [usable[i] for i in order[:n]]
    model = load_embedder(embedder)
    candidates = sorted(int(i) for i in order[:_CANDIDATES])
    vectors = model.encode([usable[i].text for i in candidates])
    rest = (int(i) for i in order[_CANDIDATES:])
    return [usable[i] for i in [*(candidates[i] for i in _covering(vectors, n)), *rest][:n]]


def spread(vectors: FloatArray, all_vectors: FloatArray) -> float:
    """Return the mean cosine distance of a text to the nearest chosen one, range [0, 2], lower is better.

    >>> spread(np.eye(2, dtype=np.float32)[:1], np.eye(2, dtype=np.float32))
    0.5
    """
    if not len(vectors) or not len(all_vectors):
        return float("nan")
    return float(np.mean(1.0 - (all_vectors @ vectors.T).max(axis=1)))


def _covering(vectors: FloatArray, n: int) -> list[int]:
    """Choose by greedy facility location."""
    similarity = np.maximum(vectors @ vectors.T, 0.0)
    nearest = np.zeros(len(vectors), dtype=np.float32)
    gains = np.round(
        similarity.sum(axis=0), 4
    )  # so that the order does not depend on the machine's last digits
    fresh = np.zeros(
        len(vectors), dtype=int
    )  # number of choices when a gain was computed; it can only fall afterwards
    chosen: list[int] = []
    while len(chosen) < min(n, len(vectors)):
        best = int(np.argmax(gains))
        if fresh[best] < len(chosen):
            gains[best] = np.round(np.maximum(similarity[:, best] - nearest, 0.0).sum(), 4)
            fresh[best] = len(chosen)
            continue
        chosen.append(best)
        nearest = np.maximum(nearest, similarity[:, best])
        gains[best] = -1.0
    return chosen


def _recent(
    dataset: Dataset, chunks: Sequence[Chunk], n: int, seed: int, date_field: str
) -> list[Chunk]:
    corpus, with_chunks = dataset.corpus, {chunk.doc_id for chunk in chunks}
    values = {d: str(corpus[d].metadata.get(date_field)) for d in corpus if d in with_chunks}
    dates = pd.to_datetime(pd.Series(values), format="ISO8601", utc=True, errors="coerce")
    undated = list(dates.index[dates.isna()])
    if len(undated) == len(dates):
        fields = sorted({key for doc_id in values for key in corpus[doc_id].metadata})
        raise DataError(
            f"no document has a date in {date_field!r}; fields of their "
            f"metadata: {', '.join(fields) or 'none'}; name the field that holds a date such as "
            "2024-05-01, or sample by random or diverse"
        )
    warn(dataset.name, f"documents have no date in {date_field!r} and are left out", undated)
    by_document: dict[str, list[Chunk]] = {}
    for i in np.random.default_rng(seed).permutation(len(chunks)):
        by_document.setdefault(chunks[i].doc_id, []).append(chunks[i])
    newest = list(dates.dropna().sort_values(ascending=False, kind="stable").index)
    rounds = max(len(by_document[doc_id]) for doc_id in newest)
    return [
        by_document[d][turn] for turn in range(rounds) for d in newest if turn < len(by_document[d])
    ][:n]


def _is_unspaced(text: str) -> bool:
    """Return True for scripts without spaces, such as Chinese or Thai, which have few words by any count."""
    words = text.split()
    return len(text) >= 60 and len(text) / max(len(words), 1) > 25
