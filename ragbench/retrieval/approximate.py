"""Approximate search by meaning, as an arm of its own next to the exact one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import islice
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ragbench import store
from ragbench.errors import ConfigError, require
from ragbench.retrieval.dense import Dense
from ragbench.types import Chunk, EmbedderLike, Run

if TYPE_CHECKING:
    from ragbench.retrieval.dense import Rows
    from ragbench.types import FloatArray

_COMPARED = 200  # questions that are searched exactly too
_ROWS_AT_ONCE = 20_000
_SEED = 0
_LEAST_PER_LIST = 39  # below which a mean is of too few vectors
_PER_LIST = 64  # vectors that k-means sees


class DenseIVF(Dense):
    """`Dense` over the lists of faiss's IVF index that are nearest to a question, in place of all
    chunks.

    The vectors are put into about ``2 * sqrt(n)`` lists by k-means with a fixed seed, so that a run
    is the same each time; `nprobe` lists are searched. Scores are the exact cosines of what is
    found. An A/B test with it compares the search as well as the embedder: what it missed is in
    `ann_recall`, depth -> the fraction of the exact top that was found, over the first questions
    (at most 200) of each batch of two or more. The index is kept in the cache.

    >>> chunks = [Chunk("a#0", "a", 0, 20, "Cats sleep all day."), Chunk("b#0", "b", 0, 20, "Taxes rise in May.")]
    >>> index = DenseIVF(chunks, "wordllama")
    >>> list(index.search({"q1": "a kitten's nap", "q2": "tax"}, k=1)["q1"]), index.ann_recall
    (['a#0'], {1: 1.0})

    Raises:
        ConfigError: `nprobe` is below 1.
        MissingExtraError: faiss, of the extra "large", is not installed.
    """

    def __init__(
        self,
        chunks: Sequence[Chunk],
        embedder: EmbedderLike = "minilm",
        *,
        nprobe: int = 16,
        language: str = "",
    ) -> None:
        if nprobe < 1:
            raise ConfigError(
                f"nprobe is {nprobe}; expected the number of lists to search, 1 or more"
            )
        self._faiss: Any = require("faiss", "large")
        super().__init__(chunks, embedder, language=language)
        self.ann_recall: dict[int, float] = {}
        n = len(self._vectors)
        self._lists = max(1, min(int(2 * sqrt(n)), n // _LEAST_PER_LIST))
        blocks = (block.tobytes() for block in self._blocks())
        key = store.digest(
            version("faiss-cpu"), str(self._lists), str(self._vectors.shape), stream=blocks
        )
        self._index = store.kept("ivf", key, self._build, self._open)
        self._index.nprobe = nprobe

    @property
    def name(self) -> str:
        return f"{super().name}@ivf"

    def _ranked(self, queries: Mapping[str, str], asked: FloatArray, k: int) -> Run:
        run = self._rank(queries, asked, k, self._nearest)
        if len(queries) > 1:  # one question alone does not wait for it
            exact = self._rank(
                dict(islice(queries.items(), _COMPARED)), asked[:_COMPARED], k, self._candidates
            )
            self.ann_recall[k] = round(_recall(exact, run), 4)
        return run

    def _nearest(self, asked: FloatArray, k: int) -> tuple[Rows, Rows]:
        _, columns = self._index.search(np.ascontiguousarray(asked), min(k, len(self._vectors)))
        rows, places = np.nonzero(columns >= 0)
        return rows, columns[rows, places]

    def _blocks(self) -> Iterator[FloatArray]:
        for start in range(0, len(self._vectors), _ROWS_AT_ONCE):
            yield np.ascontiguousarray(self._vectors[start : start + _ROWS_AT_ONCE])

    def _build(self, path: Path) -> None:
        n, dimension = self._vectors.shape
        index = self._faiss.IndexIVFFlat(
            self._faiss.IndexFlatIP(dimension),
            dimension,
            self._lists,
            self._faiss.METRIC_INNER_PRODUCT,
        )
        index.cp.seed, index.cp.min_points_per_centroid = _SEED, 1
        sample = np.sort(np.random.default_rng(_SEED).permutation(n)[: _PER_LIST * self._lists])
        index.train(np.ascontiguousarray(self._vectors[sample]))
        for block in self._blocks():
            index.add(block)
        self._faiss.write_index(index, str(path))

    def _open(self, path: Path) -> Any:
        return self._faiss.read_index(str(path), self._faiss.IO_FLAG_MMAP)


def _recall(exact: Run, found: Run) -> float:
    """Return the mean fraction of the exact best that was found; an equally good chunk in the place
    of one counts.
    """
    shares = []
    for query_id, scores in exact.items():
        worst = min(scores.values())
        shares.append(sum(score >= worst for score in found[query_id].values()) / len(scores))
    return float(np.mean(shares))
