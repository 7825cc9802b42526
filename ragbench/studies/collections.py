"""The five collections of the studies, by their parameters in a grid; documents of one title
joined.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ragbench.errors import DataError
from ragbench.files import read_json
from ragbench.testsets.loader import load_dataset
from ragbench.types import Dataset, Span


def load_collection(collection: str, *, join_titles: bool = False, sample: int = 0) -> Dataset:
    """Load a collection with the questions that have gold evidence.

    Args:
        collection: as for `rb.load_dataset`: "pydoc" or a folder.
        join_titles: documents of one title become one document, as for the articles of SQuAD.
        sample: as many questions, drawn at random with a fixed seed; 0 means all.
    """
    data = load_dataset(collection)
    if join_titles:
        data = joined_by_title(data)
    data = data.select([case.query_id for case in data.cases if case.evidence])
    return data.sample(sample) if sample else data


def joined_by_title(data: Dataset) -> Dataset:
    """Join all documents of one title into one document, and move the evidence to its place there. Spans
    of evidence count in a document's `full_text`: the title, an empty line and the text.

    A joined document has the title as its id. Its text is the title and then the texts, with an empty
    line before each. The dataset has no judgements (qrels), and the default name and split.
    """
    joined: dict[str, str] = {}  # title -> text of the joined document so far
    moved_to = {}  # id of a document -> id of the joined one (the title), and how far its text moves
    for document in data.corpus.values():
        text_before = joined.get(document.title, document.title) + "\n\n"
        old_start = len(document.full_text) - len(document.text)
        new_start = len(text_before)
        moved_to[document.doc_id] = document.title, new_start - old_start
        joined[document.title] = text_before + document.text
    cases = {}
    for case in data.cases:
        evidence = []
        for span in case.evidence:
            title, shift = moved_to[span.doc_id]
            evidence.append(Span(title, span.start + shift, span.end + shift))
        cases[case.query_id] = replace(case, evidence=tuple(evidence))
    return Dataset.from_dicts(joined, cases)


def collection_name(collection: str, join_titles: bool) -> str:
    """Return the name of a collection in tables: the name of its folder, or "squad-articles" when
    joined.

    >>> collection_name("../data/squad", True)
    'squad-articles'
    """
    name = collection.rstrip("/").rpartition("/")[2]
    return f"{name}-articles" if join_titles else name


def stored_files(folder: str | Path, file: str, grid: str) -> dict[str, Path]:
    """Find the files that a sweep wrote, one for each collection.

    Args:
        folder: the folder of the sweep.
        file: the name of the file in each result.
        grid: the grid of the sweep, for the error.

    Returns:
        Name of the collection -> path, sorted by name.

    Raises:
        DataError: the folder holds none.
    """
    paths = {}
    for path in sorted(Path(folder).glob(f"*/{file}")):
        config = read_json(path.with_name("config.json"), "")
        parameters = config["parameters"]
        name = collection_name(parameters["collection"], parameters["join_titles"])
        paths[name] = path
    if not paths:
        raise DataError(
            f"{folder} holds no {file}; expected the folder that `ragbench sweep {grid}` wrote"
        )
    return dict(sorted(paths.items()))
