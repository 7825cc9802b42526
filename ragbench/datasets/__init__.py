"""Datasets by name: a folder or file, a public BEIR set, ir_datasets, the Hugging Face hub, the built-in pydoc set."""

from __future__ import annotations

import difflib
import os
from dataclasses import replace
from pathlib import Path

from ragbench.errors import ConfigError, DataError
from ragbench.files import expanded
from ragbench.types import Dataset, DatasetSource

__all__ = ["load_dataset"]

FORMS = {
    "a BEIR folder": "corpus.jsonl, queries.jsonl and qrels/<split>.tsv",
    "a test set (.yaml, .json, .jsonl or a folder)": "with --corpus where it holds no documents; also of other tools",
    "'beir/<name>'": "public BEIR set, downloaded at its first use",
    "'irds:<ir_datasets id>'": "any collection of the package ir_datasets",
    "'hf:<repository>' (or 'hf:<repository>:<config>')": "BEIR-style repository of the hub, or a local copy",
    "'pydoc'": "built in: questions about the Python language reference",
}
"""The ways to name a dataset, and what each is."""

_FORMS = ", ".join(FORMS)


def load_dataset(name: str | Path, split: str = "test", *, corpus: str | Path = "") -> Dataset:
    """The corpus, the questions of one split, and what is relevant to them.

    `name` is, in this order:

    - an existing folder in BEIR's format: `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv`; reference answers in
      `answers.jsonl` and gold spans in `questions.jsonl` are read where there. Offsets are moved into `full_text`.
    - an existing test set in one of the forms of `ragbench.testsets.forms`: a .yaml, .json or .jsonl file, or a
      folder of JSONL files by perspective. It has one split; its corpus is empty where the file holds no documents
      and `corpus` does not name them.
    - `"beir/<name>"`: a public BEIR set, downloaded once into the cache folder. `RAGBENCH_BEIR_URL` names another
      place to download from. One part of a set of sets is `"beir/cqadupstack/android"`.
    - `"irds:<id>"`: a set of ir_datasets. An id with judgements, like `"irds:beir/nfcorpus/dev"`, is taken as it is;
      to one without, `/<split>` is appended.
    - `"hf:<repository>"`: a set in BEIR's form on the Hugging Face hub or in a local folder in the hub's layout.
    - `"pydoc"`: questions about the Python language reference that is part of every Python; nothing is downloaded.

    `corpus` gives the documents of a test set: a folder of texts, a corpus.jsonl, or the name of a dataset, as
    `load_corpus` takes them. Any other dataset has its own.

    Wrong input is a DataError that names file, line and value. Flaws that real collections have are a DataWarning,
    one per kind, with the count and the first ids: judged documents outside the corpus (they stay in the qrels and
    count in the ideal), empty documents (kept), queries without judgements in the split and judged queries that are
    not among the queries (both left out).

    >>> load_dataset("scifcat")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: unknown dataset 'scifcat'; did you mean 'beir/scifact'? A dataset is named by a BEIR \
folder, a test set (.yaml, .json, .jsonl or a folder), 'beir/<name>', 'irds:<ir_datasets id>', 'hf:<repository>' \
(or 'hf:<repository>:<config>'), 'pydoc'
    """
    if not isinstance(name, str | os.PathLike):
        raise ConfigError(f"the dataset is {name!r}; expected {_FORMS}")
    if not isinstance(split, str) or not split:
        raise ConfigError(f"the split is {split!r}; expected a name like 'test'")
    source = DatasetSource(_place(name), split, _place(corpus) if corpus else "")
    return replace(_load(name, split, corpus), source=source)


def _place(name: str | Path) -> str:
    """A path as an absolute one, so that it can be found from any folder; any other name as it is."""
    path = expanded(name)
    return str(path.absolute()) if os.path.exists(path) else str(name)


def _load(name: str | Path, split: str, corpus: str | Path) -> Dataset:
    text = os.fspath(name)
    path = expanded(text)
    is_testset = (text and os.path.isdir(path) and _is_testset_folder(path)) or (
        os.path.isfile(path) and _is_testset_file(path)
    )
    if is_testset:
        return _load_testset(path, split, corpus)
    if corpus and (os.path.isdir(path) or _is_known(text)):
        raise ConfigError(f"a corpus gives the documents of a test set, but {text!r} has its own; leave it out")
    if text and os.path.isdir(path):  # unlike Path.is_dir this is False, not an error, for what cannot be a path
        from ragbench.datasets.beir import load_beir_folder

        return load_beir_folder(path, split)
    if isinstance(name, str):
        if name.startswith("beir/"):
            from ragbench.datasets.beir import load_beir_folder
            from ragbench.datasets.download import beir_folder

            return load_beir_folder(beir_folder(name.removeprefix("beir/")), split, name=name)
        if name.startswith("irds:"):
            from ragbench.datasets.irds import load_irds

            return load_irds(name.removeprefix("irds:"), split)
        if name.startswith("hf:"):
            from ragbench.datasets.huggingface import load_huggingface

            return load_huggingface(name.removeprefix("hf:"), split)
        if name == "pydoc":
            from ragbench.datasets.pydoc import load_pydoc

            return load_pydoc(split)
    if os.path.isfile(path):
        raise DataError(
            f"{path} is a file; name the folder that holds corpus.jsonl (unpack an archive first), or a test set that "
            "ends in .yaml, .json or .jsonl"
        )
    from ragbench.testsets.forms import SUFFIXES

    if isinstance(name, os.PathLike) or path.is_absolute() or text.startswith((".", "~")) or path.suffix in SUFFIXES:
        raise DataError(f"there is no folder or file {str(path)!r}; expected {_FORMS}")
    raise ConfigError(f"unknown dataset {text!r}{_nearest(text)} A dataset is named by {_FORMS}")


def _is_testset_folder(folder: Path) -> bool:
    """Whether a folder is a test set by perspective and not one in BEIR's format."""
    from ragbench.testsets.forms import PERSPECTIVE_FILES

    return not (folder / "queries.jsonl").is_file() and any((folder / file).is_file() for file in PERSPECTIVE_FILES)


def _is_testset_file(file: Path) -> bool:
    from ragbench.testsets.forms import SUFFIXES, TABLES

    return file.suffix.lower() in (*SUFFIXES, *TABLES) and file.name not in ("corpus.jsonl", "queries.jsonl")


def _is_known(name: str) -> bool:
    return name == "pydoc" or name.startswith(("beir/", "irds:", "hf:"))


def check_documents(dataset: Dataset, purpose: str) -> None:
    """ConfigError where a dataset has no documents.

    >>> check_documents(Dataset("my10", "test", {}, (), {}), "chunks are cut from documents")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: chunks are cut from documents, and 'my10' has none; name them with `corpus` ...
    """
    if not dataset.corpus:
        raise ConfigError(
            f"{purpose}, and {dataset.name!r} has none; name them with `corpus` (a folder of texts, a corpus.jsonl or "
            "a dataset; --corpus on the command line), or evaluate the system that holds them"
        )


def _load_testset(path: Path, split: str, corpus: str | Path) -> Dataset:
    from ragbench.datasets.corpus import load_corpus
    from ragbench.testsets.forms import load_testset

    dataset = load_testset(path, corpus=load_corpus(corpus).corpus if corpus else None)
    if split not in ("test", dataset.split):
        raise DataError(f"{path} has no split {split!r}; a test set of this form has one, {dataset.split!r}")
    return dataset


def _nearest(text: str) -> str:
    from ragbench.datasets.download import MD5

    names = {"pydoc": "pydoc"}
    for beir in MD5:
        names |= {beir: f"beir/{beir}", f"beir/{beir}": f"beir/{beir}"}
    near = difflib.get_close_matches(text, names, n=1)
    return f"; did you mean {names[near[0]]!r}?" if near else "."
