from .answer_parser import read_answer
from .function import FunctionSystem
from .http_system import HttpSystem
from .ingestion import ingest
from .mcp import McpSystem
from .named_systems import load_system
from .passage_ids import distinct_contexts
from .passage_matches import PassageMatches, match_passages
from .pipeline import Pipeline
from .questions import ask, ask_one
from .recorded import RecordedSystem
from .reply_tables import CONTEXT_FIELDS

__all__ = [
    "CONTEXT_FIELDS",
    "FunctionSystem",
    "HttpSystem",
    "McpSystem",
    "PassageMatches",
    "Pipeline",
    "RecordedSystem",
    "ask",
    "ask_one",
    "distinct_contexts",
    "ingest",
    "load_system",
    "match_passages",
    "read_answer",
]
