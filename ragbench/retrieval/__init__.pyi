from .chunkers import (
    chunk,
)
from .embedders import (
    load_embedder,
)
from .retrievers import (
    BM25,
    BM25Disk,
    Dense,
    DenseIVF,
    Hybrid,
    check_retriever,
    make_retriever,
    rerank,
    retrieve,
    search_latency,
    to_documents,
)

__all__ = [
    "BM25",
    "BM25Disk",
    "Dense",
    "DenseIVF",
    "Hybrid",
    "check_retriever",
    "chunk",
    "load_embedder",
    "make_retriever",
    "rerank",
    "retrieve",
    "search_latency",
    "to_documents",
]
