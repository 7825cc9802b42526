"""Sampling of the chunks to draft questions from (diverse, random or recent), and how short a chunk
may be.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ragbench.errors import ConfigError, DataError, check_known
from ragbench.language import n_words
from ragbench.retrieval.embedders import load_embedder
from ragbench.types import Chunk, Dataset

SAMPLINGS = ("diverse", "random", "recent")
MIN_WORDS = 20
"""A chunk with fewer words is a heading or a fragment."""

_CANDIDATES = 4_000


def sample_chunks(
    dataset: Dataset, chunks: Sequence[Chunk], n: int, how: str = "random", *, seed: int = 0
) -> list[Chunk]:
    """Draw `n` chunks (fewer if there are fewer) to draft questions from; chunks of fewer than 20 words
    are left out.

    - "random": uniformly.
    - "diverse": one from every topic, large topics first. Each chunk is the one that most reduces the
      distances of all chunks to the nearest chosen one, by wordllama's cosines (greedy facility
      location, within 1 - 1/e of the best coverage: Nemhauser, Wolsey & Fisher 1978). Of more than
      4,000 chunks, a random 4,000 are considered.
    - "recent": one random chunk of each document, the newest documents first by the date in their
      metadata (a year, or more of a date in ISO form), then a second of each, and so on.

    With the same seed, a larger `n` begins with the chunks of a smaller one, so only the additional
    ones are requested.

    Raises:
        ConfigError: the sampling is unknown, or `n` is below 1.
        DataError: no chunk is long enough, or no document has a date.
    """
    check_known("sampling", SAMPLINGS, how)
    if n < 1:
        raise ConfigError(f"the number of chunks to sample is {n}; expected 1 or more")
    usable = [chunk for chunk in chunks if n_words(chunk.text) >= MIN_WORDS]
    if not usable:
        raise DataError(f"none of {len(chunks)} chunks has {MIN_WORDS} words; use larger chunks")
    random_order = np.random.default_rng(seed).permutation(len(usable))
    sample = [usable[i] for i in random_order]
    if how == "diverse":
        sample = _choose_diverse(sample[:_CANDIDATES], n)
    elif how == "recent":
        sample = _newest_documents_first(dataset, sample)
    return sample[:n]


def _choose_diverse(chunks: Sequence[Chunk], n: int) -> list[Chunk]:
    """Choose up to `n` chunks, one by one, so that every chunk is similar to a chosen one.

    The next choice is the chunk that most increases the sum, over all chunks, of the similarity to the
    nearest chosen chunk.
    """
    vectors = load_embedder("wordllama").encode([chunk.text for chunk in chunks])
    similarity = np.maximum(vectors @ vectors.T, 0.0)  # (chunks, chunks)
    # (chunks, 1): the similarity of each chunk to the nearest chosen one
    to_nearest = np.zeros((len(chunks), 1), dtype=np.float32)
    chosen: list[int] = []
    while len(chosen) < min(n, len(chunks)):
        # column j: how much nearer each chunk gets to a chosen one if chunk j is chosen
        gains_of_chunks = np.maximum(similarity - to_nearest, 0.0)
        # rounded, so that the order does not depend on the machine's last digits
        gains = np.round(gains_of_chunks.sum(axis=0), 3)
        gains[chosen] = -1.0  # never chosen twice
        best = int(gains.argmax())
        chosen.append(best)
        to_nearest = np.maximum(to_nearest, similarity[:, [best]])
    return [chunks[i] for i in chosen]


def _newest_documents_first(dataset: Dataset, chunks: Sequence[Chunk]) -> list[Chunk]:
    """Return the chunks of documents with a date: the first chunk of each document, then the second,
    and so on, the newest documents first.

    Raises:
        DataError: no document has a date.
    """
    doc_ids = [chunk.doc_id for chunk in chunks]
    dates = [str(dataset.corpus[doc_id].metadata.get("date")) for doc_id in doc_ids]
    table = pd.DataFrame({"chunk": chunks, "document": doc_ids})
    table["date"] = pd.to_datetime(dates, format="ISO8601", utc=True, errors="coerce")
    table = table.dropna()  # the documents without a date
    if table.empty:
        raise DataError(
            "no document has a date in its metadata, such as 2024-05-01; sample by random or diverse"
        )
    table["turn"] = table.groupby("document").cumcount()  # 0 for the first chunk of each document
    table = table.sort_values(["turn", "date"], ascending=[True, False], kind="stable")
    return table["chunk"].tolist()
