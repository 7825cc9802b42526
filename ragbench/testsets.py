"""Test sets: read, check, write and edit them; questions and reference answers for documents that have none."""

from __future__ import annotations

from ragbench.datasets.corpus import load_corpus
from ragbench.datasets.testsets import load_testset, save_testset, validate_testset
from ragbench.datasets.testsets.edits import add_case, remove_case, replace_case
from ragbench.datasets.writer import save_dataset
from ragbench.generation.references import generate_references
from ragbench.generation.testsets import as_dataset, draft_known_items, drafts_table, generate_drafts, sample_chunks

__all__ = [
    "add_case",
    "as_dataset",
    "draft_known_items",
    "drafts_table",
    "generate_drafts",
    "generate_references",
    "load_corpus",
    "load_testset",
    "remove_case",
    "replace_case",
    "sample_chunks",
    "save_dataset",
    "save_testset",
    "validate_testset",
]
