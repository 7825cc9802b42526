"""Systems under test: ragbench's own pipeline, a function, recorded answers, and services reached by HTTP or MCP.

Each has `name` and `answer(query_id, query) -> Answer`; `ask` puts every question of a dataset to one of them.
"""

from __future__ import annotations

from ragbench.systems.asking import ask, ask_one
from ragbench.systems.function import FunctionSystem
from ragbench.systems.http import HttpSystem
from ragbench.systems.ingestion import Ingested, ingest, remove_ingested
from ragbench.systems.ledger import documents_of
from ragbench.systems.loading import load_system, read_tables
from ragbench.systems.matching import Matched, match_passages
from ragbench.systems.mcp import McpSystem
from ragbench.systems.pipeline import Pipeline
from ragbench.systems.reading import CONTEXT_FIELDS, RETRIEVAL_ONLY, distinct_contexts, read_answer
from ragbench.systems.recorded import RecordedSystem
from ragbench.systems.targets import Indexed, NotAdded, Target, load_target

__all__ = [
    "CONTEXT_FIELDS",
    "RETRIEVAL_ONLY",
    "FunctionSystem",
    "HttpSystem",
    "Indexed",
    "Ingested",
    "Matched",
    "McpSystem",
    "NotAdded",
    "Pipeline",
    "RecordedSystem",
    "Target",
    "ask",
    "ask_one",
    "distinct_contexts",
    "documents_of",
    "ingest",
    "load_system",
    "load_target",
    "match_passages",
    "read_answer",
    "read_tables",
    "remove_ingested",
]
