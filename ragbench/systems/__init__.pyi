from .answer_parser import RETRIEVAL_ONLY, distinct_contexts, read_answer
from .function import FunctionSystem
from .http import HttpSystem
from .ingestion import Ingested, documents_of, ingest, remove_ingested
from .loader import load_system, read_tables
from .mcp import McpSystem
from .passage_matches import Matched, match_passages
from .pipeline import Pipeline
from .questions import ask, ask_one
from .recorded import RecordedSystem
from .shapes import CONTEXT_FIELDS
from .targets import Indexed, NotAdded, Target, load_target

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
