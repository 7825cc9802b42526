"""Datasets and test sets by name, file or folder: the one way in for all that is evaluated."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ragbench.datasets import EXPECTED, is_collection, load_collection
from ragbench.datasets.corpus import load_corpus
from ragbench.datasets.download import unpacked
from ragbench.datasets.jsonl import shown
from ragbench.errors import ConfigError, DataError, RagbenchError
from ragbench.files import expanded
from ragbench.testsets.assembly import DocumentIds, check_evidence, to_dataset
from ragbench.testsets.beir_form import beir_problems, load_labelled_folder
from ragbench.testsets.cases import Content
from ragbench.testsets.forms import form_of, is_testset, read
from ragbench.testsets.problems import Problem, refuse
from ragbench.types import Dataset, DatasetSource, Document


def load_dataset(name: str | Path, split: str = "test", *, corpus: str | Path = "") -> Dataset:
    """Return the corpus, the questions of one split, and what is relevant to them.

    `name` is, in this order:

    - an existing folder in BEIR's format: `corpus.jsonl`, `queries.jsonl`, `qrels/<split>.tsv`;
      reference answers in `answers.jsonl` and gold spans in `questions.jsonl` are read where there.
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
    - `"pydoc"`: questions about the Python language reference that is part of every Python; nothing
      is downloaded.

    `corpus` gives the documents of a test set: a folder of texts, a corpus.jsonl, or the name of a
    dataset, as `load_corpus` takes them. Any other dataset has its own.

    Wrong input is a DataError that names file, line and value. Flaws that real collections have are
    a DataWarning, one per kind, with the count and the first ids: judged documents outside the
    corpus (they stay in the qrels and count in the ideal), empty documents (kept), queries without
    judgements in the split and judged queries that are not among the queries (both left out).

    >>> load_dataset("scifcat")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: unknown dataset 'scifcat'; did you mean 'beir/scifact'? A dataset is named by a BEIR \
folder, a test set (.yaml, .json, .jsonl or a folder), 'beir/<name>', 'irds:<ir_datasets id>', 'hf:<repository>' \
(or 'hf:<repository>:<config>'), 'pydoc'
    """
    if not isinstance(name, str | os.PathLike):
        raise ConfigError(f"the dataset is {name!r}; expected {EXPECTED}")
    if not isinstance(split, str) or not split:
        raise ConfigError(f"the split is {split!r}; expected a name like 'test'")
    source = DatasetSource(_absolute(name), split, _absolute(corpus) if corpus else "")
    return replace(_load(name, split, corpus), source=source)


def load_testset(path: str | Path, *, corpus: Mapping[str, Document] | None = None) -> Dataset:
    """Return the test set in a file or folder, whichever of the `FORMS` it has.

    Every case has an entry in `qrels`, an empty one where no document is named. Documents are those
    of the file or `corpus`; without any, the corpus is empty, as for a system that keeps its own.
    Where the documents are known, expected sections become evidence: from the heading to the next
    one of the same level. A document or section that is not there is a DataWarning that names it.

    A BEIR folder is read with its split "test", or the only one it has.

    Raises:
        DataError: the file is not what it should be; the first 20 problems, each with its line, and
        their number.
    """
    path = expanded(path)
    content, documents = _read(path, corpus)
    refuse(path, content.problems)
    name = content.name or (path.resolve().name if path.is_dir() else path.stem)
    return to_dataset(name, content, documents, str(path))


def validate_testset(
    path: str | Path, *, corpus: Mapping[str, Document] | None = None
) -> list[Problem]:
    """Return every problem in a test set, in the order of its lines; none where `load_testset`
    would take it.

    With `corpus`, labels are compared with these documents: evidence that ends behind its document,
    and a document that is named and not there, are problems too.

    Raises:
        DataError: there is no test set at that place, or it cannot be read.
    """
    path = expanded(path)
    if form_of(path) == "beir":
        return beir_problems(path)
    content, _ = _read(path, corpus)
    if corpus is not None and not content.problems:
        ids, expected = DocumentIds(corpus), f"one of the {len(corpus)} documents of the corpus"
        for entry in content.entries:
            names = dict.fromkeys((*entry.relevant, *(span.doc_id for span in entry.case.evidence)))
            missing = [name for name in names if ids.full(name) not in corpus]
            content.problems += [
                Problem(entry.record.line, "document", repr(n), expected, entry.record.file)
                for n in missing
            ]
    return content.problems


def _load(name: str | Path, split: str, corpus: str | Path) -> Dataset:
    path = expanded(name)
    # False, not an error, for what cannot be a path
    exists = bool(str(name)) and os.path.exists(path)
    if exists:
        if is_testset(path):
            dataset = load_testset(path, corpus=load_corpus(corpus).corpus if corpus else None)
            if split not in ("test", dataset.split):
                raise DataError(
                    f"{path} has no split {split!r}; a test set of this form has one, "
                    f"{dataset.split!r}"
                )
            return dataset
        if path.suffix == ".zip" and not path.is_dir():
            dataset = _load(unpacked(path), split, corpus)
            return replace(dataset, name=path.stem)
        if not path.is_dir():
            raise DataError(
                f"{path} is a file; name the folder that holds corpus.jsonl, a .zip of one, or a "
                "test set that ends in .yaml, .json, .jsonl, .csv or .parquet"
            )
    if corpus and (exists or is_collection(name)):
        raise ConfigError(
            f"a corpus gives the documents of a test set, but {str(name)!r} has its own; leave it "
            "out"
        )
    if not exists:
        return load_collection(name, split)
    return load_labelled_folder(path, split)


def _absolute(name: str | Path) -> str:
    """Return a path as an absolute one, so that it is the same from any folder; any other name as
    it is.
    """
    path = expanded(name)
    return str(path.absolute()) if os.path.exists(path) else str(name)


def _read(
    path: Path, corpus: Mapping[str, Document] | None
) -> tuple[Content, Mapping[str, Document]]:
    """Return the content of a test set, and the documents: `corpus`, those in the file, or those
    that it refers to.
    """
    form = form_of(path)
    content = read(path, form, corpus)
    documents = content.documents if corpus is None else corpus
    if content.corpus and not documents and corpus is None:
        corpus_path = path.parent / content.corpus
        try:
            documents = load_corpus(corpus_path if corpus_path.exists() else content.corpus).corpus
        except (RagbenchError, OSError, ValueError) as exc:
            expected = f"documents that can be read ({exc})"
            content.problems.append(
                Problem(0, "corpus", shown(content.corpus), expected, path.name)
            )
    if form != "beir":
        content.problems += check_evidence(content, documents)
        content.problems.sort(key=lambda problem: (problem.file, problem.line))
    return content, documents
