"""Datasets and test sets by name, file or folder: what a name means, in which order it is looked
up, and what is refused; every evaluation loads its data here.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragbench.datasets import EXPECTED, PREFIXES, is_collection, load_collection
from ragbench.errors import ConfigError, DataError, RagbenchError
from ragbench.files import expanded
from ragbench.hints.calls import explaining_calls
from ragbench.testsets.snapshot import check_unchanged
from ragbench.types import Dataset, DatasetSource

_IN_HAND = "rb.Dataset.from_dicts(corpus, queries, qrels)"
_ROWS = "rb.evaluate(rows, system), which takes dicts or a DataFrame"


@explaining_calls(
    **dict.fromkeys(["queries", "qrels"], _IN_HAND),
    **dict.fromkeys(["documents", "docs", "docs_dir", "docs_folder"], "corpus"),
    **dict.fromkeys(
        "n limit sample subset size nrows max_samples n_samples seed".split(),
        "rb.load_dataset(name).sample(20)",
    ),
    **dict.fromkeys(["data", "rows", "df", "records", "questions"], _ROWS),
)
def load_dataset(name: str | Path, split: str = "test", *, corpus: str | Path = "") -> Dataset:
    """Return the corpus, the questions of one split, and the documents that are relevant to them.

    `name` is, in this order:

    - an existing folder in BEIR's format: `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv`;
      reference answers in `answers.jsonl` and gold spans in `questions.jsonl` are read, too.
      Offsets are moved into `full_text`.
    - an existing test set in one of the forms of `ragbench.testsets.forms`: a .yaml, .json or
      .jsonl file, or a folder of JSONL files by perspective. It has one split; its corpus is empty
      where the file holds no documents and `corpus` does not name them.
    - `"beir/<name>"`: a public BEIR set, downloaded once into the cache folder. `RAGBENCH_BEIR_URL`
      names another place to download from. One part of a set of sets is
      `"beir/cqadupstack/android"`.
    - `"irds:<id>"`: a set of ir_datasets. An id with judgements, like `"irds:beir/nfcorpus/dev"`,
      is taken as it is; to one without, `/<split>` is appended.
    - `"hf:<repository>"`: a set in BEIR's form on the Hugging Face hub or in a local folder in the
      hub's layout.
    - `"package.module:attribute"`: a `Dataset`, or a function without arguments that returns one, such
      as your importer of another tool's files.
    - `"pydoc"`: questions about the Python language reference that is part of every Python; nothing
      is downloaded.

    `corpus` names the documents of a test set: a folder of texts, a corpus.jsonl, or the name of a
    dataset, as `load_corpus` takes them. Any other dataset has its own documents.

    Wrong input is a DataError that names file, line and value. Flaws that real collections have are
    a DataWarning, one per kind, with the count and the first ids: judged documents outside the
    corpus (they still count as missed), empty documents (kept), queries without judgements in the
    split and judged queries that are not among the queries (both left out).

    >>> load_dataset("scifcat")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: unknown dataset 'scifcat'; did you mean 'beir/scifact'? A dataset is named by a BEIR \
folder, a test set (.yaml, .json, .jsonl, .csv or a folder), 'beir/<name>', 'irds:<ir_datasets id>', 'hf:<repository>' \
(or 'hf:<repository>:<config>'), 'package.module:attribute', 'pydoc'
    """
    if not isinstance(name, str | os.PathLike):
        raise _not_a_name(name)
    if not isinstance(split, str) or not split:
        raise ConfigError(f"the split is {split!r}; expected a name like 'test'")
    if not isinstance(corpus, str | os.PathLike):
        raise ConfigError(
            f"the corpus is {type(corpus).__name__}; expected a folder of texts, a corpus.jsonl or the name of "
            f"a dataset; documents in hand are for {_IN_HAND}"
        )
    # by which the dataset can be loaded again, from any folder
    source = DatasetSource(_absolute(name), split, _absolute(corpus) if corpus else "")
    data = replace(_load(name, split, corpus), source=source)
    check_unchanged(data)
    return data


def _not_a_name(data: Any) -> ConfigError:
    """Return the error about data in place of the name of a dataset; it names the calls that take them."""
    in_file = ""
    if hasattr(data, "to_json"):  # a table
        in_file = (
            "; for a search in documents write rows.to_json('tests.jsonl', orient='records', lines=True) "
            "and rb.load_dataset('tests.jsonl', corpus=folder)"
        )
    return ConfigError(
        f"the dataset is {type(data).__name__}, not a name or path; expected {EXPECTED}. Data in hand "
        f"is for {_IN_HAND} or {_ROWS}{in_file}"
    )


def _load(name: str | Path, split: str, corpus: str | Path) -> Dataset:
    """Return the dataset that a name means: a file or folder, if one is there; else an importable object
    ("package.module:attribute"); else a collection ("beir/scifact").

    Raises:
        RagbenchError: see `load_dataset`.
    """
    path = expanded(name)
    # a name that cannot be a path, such as a very long one, gives False and no error
    exists = bool(str(name)) and os.path.exists(path)
    if exists:
        return _load_path(path, str(name), split, corpus)
    if _names_object(name):
        _check_no_corpus(str(name), corpus)
        return _imported(str(name), split)
    if is_collection(name):
        _check_no_corpus(str(name), corpus)
    return load_collection(name, split)


def _load_path(path: Path, name: str, split: str, corpus: str | Path) -> Dataset:
    """Return the dataset in a file or folder: a test set, a .zip of a folder, or a folder in BEIR's
    format. `name` is the path as the user wrote it.
    """
    from ragbench.testsets.forms import is_testset

    if is_testset(path):
        return _load_one_split(path, split, corpus)
    if path.is_dir():
        from ragbench.testsets.beir_form import load_labelled_folder

        if (path / "corpus.jsonl").exists():
            _check_no_corpus(name, corpus)
        return load_labelled_folder(path, split)
    if path.suffix == ".zip":
        from ragbench.datasets.download import unpacked

        return replace(_load(unpacked(path), split, corpus), name=path.stem)
    from ragbench.testsets.published import refuse_trec

    # raises with advice if it is a file of TREC; else the error below is raised
    refuse_trec(path)
    raise DataError(
        f"{path} is a file; name the folder that holds corpus.jsonl, a .zip of one, or a "
        "test set that ends in .yaml, .json, .jsonl, .csv or .parquet"
    )


def _load_one_split(path: Path, split: str, corpus: str | Path) -> Dataset:
    """Return a test set, which has one split; DataError if `split` is neither this one nor "test"."""
    from ragbench.testsets.forms import load_corpus, load_testset

    dataset = load_testset(path, corpus=load_corpus(corpus).corpus if corpus else None)
    if split not in ("test", dataset.split):
        raise DataError(
            f"{path} has no split {split!r}; a test set of this form has one, {dataset.split!r}"
        )
    return dataset


def _check_no_corpus(name: str, corpus: str | Path) -> None:
    """Raise ConfigError if a corpus is given for a dataset with documents."""
    if corpus:
        raise ConfigError(
            f"a corpus is for a test set without documents, but {name!r} has its own; leave it out"
        )


def _absolute(name: str | Path) -> str:
    """Return a path as an absolute one, so that it is the same from any folder; any other name as
    it is.
    """
    path = expanded(name)
    return str(path.absolute()) if os.path.exists(path) else str(name)


def _names_object(name: str | Path) -> bool:
    """Return True for "package.module:attribute"; a path never names a module."""
    if not isinstance(name, str) or ":" not in name:
        return False
    from ragbench.extension import is_import  # without it loading a dataset is light

    return is_import(name, (*PREFIXES, "beir"))  # "beir:x" is a misspelled "beir/x"


def _imported(name: str, split: str) -> Dataset:
    """Return the dataset of "package.module:attribute": a `Dataset`, or a function that returns one.

    Raises:
        ConfigError: it is neither, or has another split.
    """
    from ragbench.extension import imported
    from ragbench.plain_records import warn_of_absent_documents

    # its name in messages
    what = f"dataset {name!r}"
    dataset = imported(name, "dataset")
    if not isinstance(dataset, Dataset) and callable(dataset):
        dataset = _called(what, dataset)
    if not isinstance(dataset, Dataset):
        raise ConfigError(
            f"{what} is {dataset!r:.80}; expected an rb.Dataset, or a function without arguments that "
            "returns one"
        )
    if split not in ("test", dataset.split):
        raise ConfigError(f"{what} has no split {split!r}; it has {dataset.split!r}")
    if dataset.corpus:
        warn_of_absent_documents(what, dataset.qrels, dataset.corpus)
    return dataset


def _called(what: str, function: Callable[[], Any]) -> Any:
    """Return the result of a user's function without arguments; `what` names it in errors.

    Raises:
        ConfigError: it takes arguments.
        DataError: it fails.
    """
    from ragbench.extension import check_call

    check_call(what, function)
    try:
        return function()
    except RagbenchError:
        raise
    except Exception as exc:  # a user's function may fail in any way
        raise DataError(f"{what} failed: {type(exc).__name__}: {exc}") from exc
