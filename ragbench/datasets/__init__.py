"""Collections by name: public BEIR sets, ir_datasets, the Hugging Face hub, the built-in pydoc set;
which prefixes there are, and the error for an unknown name.

`ragbench.testsets.load_dataset` adds folders, files and test sets to these.
"""

import os
from pathlib import Path

from ragbench.errors import ConfigError, DataError, nearest
from ragbench.files import expanded
from ragbench.types import Dataset

FORMS = {
    "a BEIR folder": "corpus.jsonl, queries.jsonl and qrels/<split>.tsv",
    "a test set (.yaml, .json, .jsonl, .csv or a folder)": "with --docs where it holds no documents; "
    "also of other tools",
    "'beir/<name>'": "public BEIR set, downloaded at its first use",
    "'irds:<ir_datasets id>'": "any collection of the package ir_datasets",
    "'hf:<repository>' (or 'hf:<repository>:<config>')": "BEIR-style repository of the hub, or a "
    "local copy",
    "'package.module:attribute'": "a Dataset, or a function without arguments that returns one",
    "'pydoc'": "built in: questions about the Python language reference",
}
"""Ways to name a dataset -> the kind of dataset."""

EXPECTED = ", ".join(FORMS)

PREFIXES = ("irds", "hf")
"""The words before a colon in the names of collections."""


def is_collection(name: str | Path) -> bool:
    """Return True for the name of a collection: "pydoc", or one with a known prefix."""
    return isinstance(name, str) and (name == "pydoc" or name.startswith(("beir/", "irds:", "hf:")))


def load_collection(name: str | Path, split: str = "test") -> Dataset:
    """Return the collection of a name.

    Raises:
        ConfigError: no collection has this name.
        DataError: the name looks like a path, and nothing is there.
    """
    if not isinstance(name, str) or not is_collection(name):
        raise _unknown_collection(name)
    if name == "pydoc":
        from ragbench.datasets.pydoc import load_pydoc

        return load_pydoc(split)
    if name.startswith("beir/"):
        from ragbench.datasets.beir import load_beir_folder
        from ragbench.datasets.download import beir_folder

        folder = beir_folder(name.removeprefix("beir/"))
        return load_beir_folder(folder, split, name=name)
    if name.startswith("irds:"):
        from ragbench.datasets.irds import load_irds

        return load_irds(name.removeprefix("irds:"), split)
    from ragbench.datasets.huggingface import load_huggingface

    return load_huggingface(name.removeprefix("hf:"), split)


def _unknown_collection(name: str | Path) -> ConfigError | DataError:
    """Return the error for a name that is no collection; it tells what the name seems to be."""
    if str(name).lstrip().startswith(("[", "{")):
        return ConfigError(
            "the dataset is a text of JSON; call rb.evaluate(json.loads(text), system)"
        )
    path = expanded(name)
    is_path = isinstance(name, os.PathLike) or path.is_absolute() or path.suffix != ""
    if is_path or str(name).startswith((".", "~")):
        return DataError(f"there is no folder or file {str(path)!r}; expected {EXPECTED}")
    return ConfigError(
        f"unknown dataset {name!r}{_nearest(str(name))} A dataset is named by {EXPECTED}"
    )


def check_documents(dataset: Dataset, purpose: str) -> None:
    """Raise ConfigError if a dataset has no documents; `purpose` states why they are needed.

    >>> check_documents(Dataset("my10", "test", {}, (), {}), "chunks are cut from documents")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: chunks are cut from documents, and 'my10' has none; name them with `corpus`, ...
    """
    if not dataset.corpus:
        raise ConfigError(
            f"{purpose}, and {dataset.name!r} has none; name them with `corpus`, as in "
            "rb.load_dataset('tests.jsonl', corpus=folder), a folder of texts, a corpus.jsonl or a dataset "
            "(--docs on the command line), or evaluate the system that holds them"
        )


def _nearest(text: str) -> str:
    """Return the end of a sentence: a suggestion with the nearest name, or a full stop."""
    from ragbench.datasets.download import MD5

    names = {"pydoc": "pydoc"}
    for beir in MD5:
        names |= {beir: f"beir/{beir}", f"beir/{beir}": f"beir/{beir}"}
    near = nearest(text, names, 0.75)
    return f"; did you mean {names[near]!r}?" if near else "."
