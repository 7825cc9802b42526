from .bm25 import BM25
from .chunkers import (
    chunk,
)
from .dense import Dense, Hybrid
from .disk import BM25Disk
from .embedders import (
    load_embedder,
)
from .retrievers import check_retriever, make_retriever
from .search import retrieve, to_documents
from .steps.order import rerank

__all__ = [
    "BM25",
    "BM25Disk",
    "Dense",
    "Hybrid",
    "check_retriever",
    "chunk",
    "load_embedder",
    "make_retriever",
    "rerank",
    "retrieve",
    "to_documents",
]
