"""Chunks that match a query: BM25, Dense, Hybrid, a reranker on top, and from chunks to documents.

Constructing a retriever is indexing. All queries are searched in one batch. Scores are rounded to 6
decimals before they are ranked, and equal scores keep the order of the chunks, exactly so at the
k-th place too: what a search returns does not depend on the machine's last bits.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ragbench.errors import ConfigError, require, unknown
from ragbench.extension import FORM, imported, is_import
from ragbench.retrieval.approximate import DenseIVF
from ragbench.retrieval.beir_models import BeirRetriever, is_beir_model
from ragbench.retrieval.bm25 import BM25
from ragbench.retrieval.dense import Dense, Hybrid
from ragbench.retrieval.disk import BM25Disk
from ragbench.retrieval.embedders import check_embedder
from ragbench.retrieval.search import rerank, retrieve, search_latency, to_documents
from ragbench.types import Chunk, Retriever

__all__ = [
    "BM25",
    "BM25Disk",
    "Dense",
    "DenseIVF",
    "Hybrid",
    "check_retriever",
    "make_retriever",
    "rerank",
    "retrieve",
    "search_latency",
    "to_documents",
]

RETRIEVERS = ("bm25", "bm25@disk", "dense", "hybrid")
FORMS = ("bm25", "bm25@disk", "dense:<embedder>", "dense:<embedder>@ivf", "hybrid:<embedder>")
_IVF = "@ivf"


def make_retriever(
    name: str | Retriever | Callable[[Sequence[Chunk]], Retriever], chunks: Sequence[Chunk]
) -> Retriever:
    """Index `chunks` with the retriever of that name, default settings.

    "bm25", "bm25@disk" (`BM25Disk`, extra "large"), "dense:<embedder>" or "hybrid:<embedder>",
    where the embedder is anything that `load_embedder` takes: "dense:minilm", "hybrid:wordllama",
    "dense:sentence-transformers/all-mpnet-base-v2", "dense:models/mine". "dense:<embedder>@ivf"
    searches approximately (`DenseIVF`, extra "large").

    One of your own is a class, or a function, that gives a `Retriever` for the chunks, or
    "package.module:attribute", which names one; a `Retriever` that is made already is taken as it
    is, and so is a retrieval model of BEIR, or an `EvaluateRetrieval` of one.

    >>> make_retriever("bm25", [Chunk("d1#0", "d1", 0, 6, "a text")])
    BM25(1 chunk)

    Raises ConfigError for an unknown name, and where there is nothing to index.
    """
    own = _own(name)
    kind, model = ("", "") if own is not None else _parse(name)
    if not chunks:
        raise ConfigError(
            "there are no chunks to index: every document is empty; name a corpus that holds texts"
        )
    if is_beir_model(own):
        return BeirRetriever(chunks, own)
    if own is not None:
        index: Any = own(chunks) if _makes_one(own) else own
        if not isinstance(index, Retriever):
            raise ConfigError(
                f"retriever {own!r} gave {type(index).__name__} for the chunks; expected an "
                "object with search(queries, k) -> {query_id: {chunk_id: score}}"
            )
        return index
    if kind.startswith("bm25"):
        return BM25(chunks) if kind == "bm25" else BM25Disk(chunks)
    if kind == "dense":
        return (
            DenseIVF(chunks, model.removesuffix(_IVF))
            if model.endswith(_IVF)
            else Dense(chunks, model)
        )
    return Hybrid(chunks, model)


def check_retriever(name: str | Retriever | Callable[[Sequence[Chunk]], Retriever]) -> None:
    """Raise ConfigError when `name` is not a retriever, without loading anything but a module that
    it names.

    >>> check_retriever("hybrid:minilm")
    >>> check_retriever("bm-25")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: unknown retriever 'bm-25'; did you mean 'bm25'? Known: bm25, bm25@disk, \
dense:<embedder>, dense:<embedder>@ivf, hybrid:<embedder>, package.module:attribute
    """
    if _own(name) is None:
        _parse(name)


def _makes_one(own: Any) -> bool:
    return inspect.isclass(own) or not isinstance(own, Retriever)


def _own(name: Any) -> Any:
    """A user's retriever or what makes one; None for a name of ragbench's own, or a wrong one."""
    found = imported(name, "retriever") if is_import(name, RETRIEVERS) else name
    if isinstance(found, str):
        return None
    if not callable(found) and not isinstance(found, Retriever) and not is_beir_model(found):
        raise ConfigError(
            f"retriever {found!r}: expected a name, a Retriever, or a function of the chunks"
        )
    return found


def _parse(name: Any) -> tuple[str, str]:
    kind, colon, model = name.partition(":") if isinstance(name, str) else ("", "", "")
    if kind in ("bm25", "bm25@disk"):
        if colon:
            raise ConfigError(
                f"retriever {name!r}: BM25 compares words and takes no embedder; write {kind!r}"
            )
        if kind == "bm25@disk":
            require("tantivy", "large")
        return kind, ""
    if kind not in ("dense", "hybrid"):
        raise ConfigError(
            unknown("retriever", kind or name, RETRIEVERS, f"{', '.join(FORMS)}, {FORM}")
        )
    if not model.strip():
        raise ConfigError(
            f"retriever {name!r} names no embedder; write '{kind}:minilm' or '{kind}:wordllama'"
        )
    if model.endswith(_IVF):
        if kind != "dense":
            raise ConfigError(
                f"retriever {name!r}: only 'dense:<embedder>{_IVF}' searches approximately"
            )
        require("faiss", "large")
    check_embedder(model.removesuffix(_IVF))
    return kind, model
