"""Documents behind a result: where the data that it was measured on are looked up again, and where
in a document a context is.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ragbench.errors import RagbenchError, warn_user
from ragbench.evaluation import Result
from ragbench.retrieval.chunkers import chunk
from ragbench.types import Case, Chunk, Dataset, Passage

_CHUNK_ID = re.compile(r"(.*)#(\d+)-(\d+)", re.DOTALL)
"""The id of a chunk of ragbench's own: document, first character, end."""

_MAX_ABOVE = 6
"""Folders above a result in which its paths are looked up."""

_CUT = ("chunker", "chunk_size", "chunk_overlap", "tokenizer")


def data_of(result: Result, dataset: Dataset | None) -> tuple[Dataset, list[str]]:
    """Return the questions of a result as a dataset, with their labels and documents, and notes for the
    reader.

    A note states that labels and documents are missing, or differ from the evaluated ones.

    Args:
        dataset: has the documents and labels. None uses the dataset that the result holds in memory;
            if it holds none, the dataset that it names is loaded, unless that has changed since.
    """
    notes: list[str] = []
    if dataset is None and result.output is not None:
        dataset = result.output.dataset
    if dataset is None:
        dataset, notes = _unchanged_dataset(result)
    elif not result.is_of(dataset):
        notes.append(
            "These documents differ from the evaluated ones: texts and evidence may be shifted."
        )
        warn_user(f"{dataset!r} is not what {result.name!r} was measured on")
    case_of = dataset.case_of
    cases = tuple(
        case_of.get(query_id) or Case(query_id, text) for query_id, text in result.queries.items()
    )
    qrels = {query_id: dataset.qrels.get(query_id, {}) for query_id in result.queries}
    return replace(dataset, cases=cases, qrels=qrels), notes


def _unchanged_dataset(result: Result) -> tuple[Dataset, list[str]]:
    """Return the dataset that a result names, and [].

    If it cannot be loaded, or has changed since the evaluation, return an empty dataset, and a list
    with a note on this.
    """
    dataset = None
    with suppress(RagbenchError, OSError):
        dataset = _named_dataset(result)
    if dataset is not None and result.is_of(dataset):
        return dataset, []
    name = result.dataset["name"] or "questions"
    state = "is not at hand" if dataset is None else "has changed since the evaluation"
    note = (
        f"The test set {name!r} {state}. The folder of a result holds ids of chunks, not "
        "their texts: they and the gold evidence are shown with rb.explore(results, "
        "dataset=...), or --test-set and --docs."
    )
    return Dataset(name, result.dataset["split"] or "test", {}, (), {}), [note]


def chunks_of(result: Result, dataset: Dataset) -> list[Chunk]:
    """Return the chunks that the pipeline of a result made of these documents; [] for another
    system, or if they are not at hand.
    """
    cut = {name: result.parameters[name] for name in _CUT if name in result.parameters}
    return chunk(dataset, **cut) if "chunker" in cut and dataset.corpus else []


def chunks_by_name(results: Sequence[Result], dataset: Dataset) -> dict[str, list[Chunk]]:
    """Return the name of each result and its chunks, without results whose chunks are unknown."""
    chunks = {}
    for result in results:
        chunks_of_result = chunks_of(result, dataset)
        if chunks_of_result:
            chunks[result.name] = chunks_of_result
    return chunks


def _named_dataset(result: Result) -> Dataset | None:
    """Load the dataset that a result names, without a download: the built-in one, or a path.

    A path is relative to the folder of a grid or a notebook, which the result does not name. So it is
    looked up in the working folder, in the folder of the result, and in the folders above that.

    Returns:
        The first dataset with the content that was evaluated; if there is none, the first that could
        be loaded; None if none could.
    """
    from ragbench.testsets.loader import load_dataset

    name = str(result.parameters.get("dataset") or result.dataset["name"])
    split = result.dataset["split"] or "test"
    if name == "pydoc":
        return load_dataset(name, split)
    corpus_name = str(result.parameters.get("corpus") or "")
    if not name:
        return None
    first_found = None
    above = [] if result.folder is None else [result.folder, *result.folder.parents]
    for folder in (Path(), *above[:_MAX_ABOVE]):
        if not (folder / name).exists():
            continue
        is_path = bool(corpus_name) and (folder / corpus_name).exists()
        corpus = str(folder / corpus_name) if is_path else corpus_name
        with suppress(RagbenchError, OSError):
            dataset = load_dataset(folder / name, split, corpus=corpus)
            if result.is_of(dataset):
                return dataset
            first_found = first_found or dataset
    return first_found


def locate(
    context_id: str, passage: Passage | None, texts: Mapping[str, str]
) -> tuple[str, int, int] | None:
    """Return where a context is in its document, as (document id, start, end); None if that is unknown.

    Args:
        context_id: a chunk's id states its place ("d#2-4"); it is used if there is no passage.
        passage: the text of the context and the id of its document, in which it is searched for.
        texts: document id -> text.

    >>> locate("d#2-4", None, {"d": "abcdef"}), locate("x", Passage("x", "ef", "d"), {"d": "abcdef"})
    (('d', 2, 4), ('d', 4, 6))
    """
    if passage is not None:
        start = texts.get(passage.doc_id, "").find(passage.text)
        if not passage.text or start < 0:
            return None
        return passage.doc_id, start, start + len(passage.text)
    match = _CHUNK_ID.fullmatch(context_id)
    if match is None or match[1] not in texts:
        return None
    return match[1], int(match[2]), int(match[3])
