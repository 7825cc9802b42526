from .drafts import (
    STATES,
    Draft,
    as_dataset,
    drafts_table,
    generate_drafts,
    identity,
    save_testset,
)
from .known_items import KNOWN_ITEM, draft_known_items
from .sampling import SAMPLINGS, sample_chunks, spread

__all__ = [
    "KNOWN_ITEM",
    "SAMPLINGS",
    "STATES",
    "Draft",
    "as_dataset",
    "draft_known_items",
    "drafts_table",
    "generate_drafts",
    "identity",
    "sample_chunks",
    "save_testset",
    "spread",
]
