"""Sets of ir_datasets, made from small files on disk."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ragbench.datasets.large import LargeCorpus
from ragbench.errors import ConfigError, DataError, DataWarning, DownloadError
from ragbench.testsets.loader import load_dataset

Register = Callable[..., str]
_NUMBERS = itertools.count()

DOCS = "d1\tBody one.\nd2\tBody two.\n"
QUERIES = "q1\tone?\nq2\ttwo?\n"
QRELS = "q1 0 d1 2\nq2 0 d2 1\nq2 0 d1 -1\n"


@pytest.fixture
def ir_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "home"))
    import ir_datasets

    return ir_datasets


@pytest.fixture
def register(tmp_path: Path, ir_datasets: Any) -> Register:
    """`register("/test", qrels="...")`: a set under a fresh id that ends so; None leaves a part
    out.
    """
    base = f"ragbench-test-{next(_NUMBERS)}"

    def make(
        end: str = "",
        docs: str | None = DOCS,
        queries: str | None = QUERIES,
        qrels: str | None = QRELS,
    ) -> str:
        paths = []
        for what, content in (("docs", docs), ("queries", queries), ("qrels", qrels)):
            path = tmp_path / f"{base}{end}".replace("/", "_") / what
            if content is not None:
                path.parent.mkdir(exist_ok=True)
                path.write_text(content, encoding="utf-8")
            paths.append(None if content is None else str(path))
        ir_datasets.registry.register(base + end, ir_datasets.create_dataset(*paths))
        return f"irds:{base}{end}"

    return make


def test_documents_queries_and_judgements(register: Register) -> None:
    name = register()
    dataset = load_dataset(name)
    assert dataset.name == name
    assert {doc_id: doc.text for doc_id, doc in dataset.corpus.items()} == {
        "d1": "Body one.",
        "d2": "Body two.",
    }
    assert dataset.queries == {"q1": "one?", "q2": "two?"}
    assert dataset.qrels == {"q1": {"d1": 2}, "q2": {"d2": 1, "d1": -1}}


def test_split_is_appended_where_the_id_has_no_judgements(register: Register) -> None:
    name = register(qrels=None)
    register("/test")
    register("/dev", qrels="q1 0 d2 1\nq2 0 d2 1\n")
    assert load_dataset(name).split == "test"
    assert load_dataset(name, "dev").qrels["q1"] == {"d2": 1}
    assert load_dataset(f"{name}/dev").split == "dev"  # from the id
    assert load_dataset(f"{name}/dev", "dev").name == f"{name}/dev"


def test_split_that_is_not_there(register: Register) -> None:
    name = register(qrels=None)
    register("/test")
    with pytest.raises(ConfigError, match=rf"for split 'train'; these do: {name[5:]}/test"):
        load_dataset(name, "train")
    with pytest.raises(
        ConfigError, match=r"for split 'train'; these do: .*/test \(with the default split\)"
    ):
        load_dataset(f"{name}/test", "train")


def test_unknown_id_names_the_nearest(ir_datasets: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"unknown id of ir_datasets 'beir/nfcorpos'; did you mean 'beir/nfcorpus"
    ):
        load_dataset("irds:beir/nfcorpos")


def test_id_of_a_real_set_needs_no_network_to_be_checked(ir_datasets: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"irds:beir/nfcorpus has no .* for split 'validation'; these do: .*/dev"
    ):
        load_dataset("irds:beir/nfcorpus", "validation")


def test_missing_file_is_a_download_error(register: Register, tmp_path: Path) -> None:
    name = register()
    (tmp_path / name[5:] / "docs").unlink()
    with pytest.raises(
        DownloadError, match=rf"the documents of {name} could not be fetched.*IR_DATASETS_HOME"
    ):
        load_dataset(name)


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ({"docs": "d1\n"}, "documents"),
        ({"queries": "q1\ta\tb\n"}, "queries"),
        ({"qrels": "q1 0 d1 high\n"}, "judgements"),
        ({"qrels": "q1 d1\n"}, "judgements"),
    ],
)
def test_broken_file_is_a_data_error(register: Register, files: dict[str, str], what: str) -> None:
    name = register(**files)
    with pytest.raises(DataError, match=rf"the {what} of {name} could not be read"):
        load_dataset(name)


def test_empty_corpus(register: Register) -> None:
    with pytest.raises(DataError, match="the corpus is empty"):
        load_dataset(register(docs=""))


@pytest.mark.parametrize("large", [False, True], ids=["in memory", "on the disk"])
def test_repeated_documents_and_judgements_are_one_warning_each(
    register: Register, large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = register(docs=DOCS + "d1\tAnother.\n", qrels=QRELS + "q1 1 d1 3\nq1 2 d1 1\n")
    if large:
        monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "cache"))
        monkeypatch.setattr("ragbench.datasets.large.LARGE_BYTES", 1)
    with pytest.warns(DataWarning) as caught:
        dataset = load_dataset(name)
    assert isinstance(dataset.corpus, LargeCorpus) == large
    assert list(dataset.corpus) == ["d1", "d2"]
    assert dataset.corpus["d1"].text == "Body one."
    assert dataset.qrels["q1"] == {"d1": 3}
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 2
    assert "1 documents are there more than once; the first counts (first: 'd1')" in messages[0]
    assert "1 queries have documents that are judged differently" in messages[1]


class Page(NamedTuple):
    """A document with the fields of most sets that have titles."""

    doc_id: str
    url: str
    title: str
    body: str

    def default_text(self) -> str:
        return f"{self.title} {self.body}"


class TwoFields(NamedTuple):
    """As in the BEIR sets of ir_datasets."""

    doc_id: str
    text: str
    title: str

    def default_text(self) -> str:
        return f"{self.title} {self.text}"


@pytest.mark.parametrize(
    ("doc", "title", "text"),
    [
        (Page("d1", "u", "Head", "Body."), "Head", "Body."),
        (Page("d1", "u", "", "Body."), "", "Body."),
        (TwoFields("d1", "  Body.", "Head"), "Head", "  Body."),
        (TwoFields("d1", "", "Head"), "Head", ""),
        (TwoFields("d1", "Body.", ""), "", "Body."),
    ],
)
def test_titles_are_kept_apart(ir_datasets: Any, doc: Any, title: str, text: str) -> None:
    class Source:
        def docs_iter(self) -> Iterator[Any]:
            yield doc

        def docs_handler(self) -> Source:
            return self

    name = f"ragbench-test-{next(_NUMBERS)}"
    queries = ir_datasets.formats.TsvQueries(None)
    queries.queries_iter = lambda: iter([ir_datasets.formats.GenericQuery("q1", "one?")])
    qrels = ir_datasets.formats.TrecQrels(None, {})
    qrels.qrels_iter = lambda: iter([ir_datasets.formats.TrecQrel("q1", "d1", 1, "0")])
    ir_datasets.registry.register(name, ir_datasets.Dataset(Source(), queries, qrels))
    found = load_dataset(f"irds:{name}").corpus["d1"]
    assert (found.title, found.text) == (title, text)
