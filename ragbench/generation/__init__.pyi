from .answer_generation import (
    check_llm,
    context_chunks,
    cut_to_budget,
    generate_answers,
)
from .chunk_sample import SAMPLINGS, sample_chunks
from .drafts import (
    STATES,
    Draft,
    as_dataset,
    draft_questions,
    drafts_table,
    generate_drafts,
    identity,
    save_drafts,
)
from .references import (
    generate_references,
)

__all__ = [
    "SAMPLINGS",
    "STATES",
    "Draft",
    "as_dataset",
    "check_llm",
    "context_chunks",
    "cut_to_budget",
    "draft_questions",
    "drafts_table",
    "generate_answers",
    "generate_drafts",
    "generate_references",
    "identity",
    "sample_chunks",
    "save_drafts",
]
