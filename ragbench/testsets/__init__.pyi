from .edits import (
    add_case,
    remove_case,
    replace_case,
)
from .forms import (
    load_corpus,
    load_testset,
    save_testset,
    validate_testset,
)
from .interventions import INTERVENTIONS
from .known_items import (
    KNOWN_ITEM,
    draft_known_items,
)
from .loader import load_dataset
from .writer import save_dataset

__all__ = [
    "INTERVENTIONS",
    "KNOWN_ITEM",
    "add_case",
    "draft_known_items",
    "load_corpus",
    "load_dataset",
    "load_testset",
    "remove_case",
    "replace_case",
    "save_dataset",
    "save_testset",
    "validate_testset",
]
