"""Which loader a name reaches, and the error for a name that reaches none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import ragbench as rb
from ragbench.datasets.corpus import load_corpus
from ragbench.errors import ConfigError, DataError
from ragbench.testsets.loader import load_dataset
from ragbench.types import DatasetSource

WriteFolder = Callable[..., Path]


def test_folder_as_path_or_string(write_folder: WriteFolder) -> None:
    folder = write_folder()
    assert load_dataset(folder).fingerprint == load_dataset(str(folder)).fingerprint
    assert rb.load_dataset is load_dataset


def test_relative_and_home_folders(
    write_folder: WriteFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_folder()
    monkeypatch.chdir(folder)
    assert load_dataset(".").name == "small"
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.setenv("USERPROFILE", str(folder.parent))
    assert load_dataset("~/small").name == "small"


@pytest.mark.parametrize("name", ["beir/nfcorpus", "pydoc"])
def test_existing_folder_comes_before_every_name(
    name: str, write_folder: WriteFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write_folder(name=name).parents[name.count("/")])
    assert len(load_dataset(name).corpus) == 2


def write_testset(folder: Path) -> Path:
    """A test set without documents, and a folder with them next to it."""
    (folder / "docs").mkdir()
    (folder / "docs" / "cats.md").write_text("Cats sleep most of the day.", encoding="utf-8")
    cases = (
        "cases:\n  - {id: q1, query: How long do cats sleep?, expected_chunks: [{doc_id: "
        "cats.md}]}\n"
    )
    (folder / "my.yaml").write_text(cases, encoding="utf-8")
    return folder / "my.yaml"


def test_the_documents_of_a_test_set_are_named_separately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    testset = write_testset(tmp_path)
    assert load_dataset(testset).corpus == {}
    monkeypatch.chdir(tmp_path)
    data = load_dataset("my.yaml", corpus="docs")
    assert list(data.corpus) == ["cats.md"]
    assert data.source == DatasetSource(str(testset), "test", str(tmp_path / "docs"))


@pytest.mark.parametrize("name", ["pydoc", "small", "beir/scifact"])
def test_a_dataset_with_documents_of_its_own_takes_no_corpus(
    name: str, write_folder: WriteFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write_folder().parent)
    with pytest.raises(ConfigError, match=f"'{name}' has its own; leave it out"):
        load_dataset(name, corpus="pydoc")


def test_a_folder_without_documents_is_not_said_to_have_its_own(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"corpus.jsonl is missing; a BEIR folder holds"):
        load_dataset(tmp_path, corpus="pydoc")


@pytest.mark.parametrize("name", ["nodocs", "docs/nowhere", "corpus.jsonl", "scifact"])
def test_documents_that_are_not_there(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=rf"no documents at '?{name}'?; expected a folder of texts"):
        load_corpus(name)


def test_the_source_loads_the_same_dataset_from_any_folder(
    write_folder: WriteFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write_folder().parent)
    data = load_dataset("small")
    monkeypatch.chdir(tmp_path.parent)
    assert data.source is not None
    assert load_dataset(data.source.name, data.source.split).fingerprint == data.fingerprint
    assert load_dataset("pydoc").source == DatasetSource("pydoc")


def test_pydoc() -> None:
    dataset = load_dataset("pydoc")
    assert dataset.name == "pydoc"
    assert len(dataset.cases) >= 60


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("nfcorpus", "beir/nfcorpus"),
        ("beir:scifact", "beir/scifact"),
        ("pydocs", "pydoc"),
        ("scidoc", "beir/scidocs"),
    ],
)
def test_unknown_name_gets_the_nearest(name: str, near: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"unknown dataset '{name}'; did you mean '{near}'\?.*'irds:<.*'hf:<"
    ):
        load_dataset(name)


def test_unknown_name_with_nothing_near_gets_the_forms() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown dataset 'qwertz'\. A dataset is named by .*'beir/<name>'"
    ):
        load_dataset("qwertz")


@pytest.mark.parametrize("name", ["./missing", "~/missing/set", "/missing/set"])
def test_missing_folder(name: str) -> None:
    for given in (name, Path(name)):
        with pytest.raises(DataError, match="there is no folder"):
            load_dataset(given)


def test_file_in_place_of_a_folder(write_folder: WriteFolder) -> None:
    with pytest.raises(DataError, match=r"corpus.jsonl is a file; name the folder"):
        load_dataset(write_folder() / "corpus.jsonl")


@pytest.mark.parametrize("name", ["", "x" * 5000, "a\0b"])
def test_names_that_no_file_can_have(name: str) -> None:
    with pytest.raises(ConfigError, match="unknown dataset"):
        load_dataset(name)


@pytest.mark.parametrize("name", [None, 3, b"pydoc", ["pydoc"]])
def test_name_of_a_wrong_type(name: object) -> None:
    with pytest.raises(ConfigError, match="expected a BEIR folder"):
        load_dataset(name)  # type: ignore[arg-type]


@pytest.mark.parametrize("split", ["", None, 3])
def test_split_of_a_wrong_type(split: object) -> None:
    with pytest.raises(ConfigError, match="the split is"):
        load_dataset("pydoc", split)  # type: ignore[arg-type]


def test_loading_a_folder_needs_no_heavy_package(write_folder: WriteFolder) -> None:
    code = (
        "import sys, ragbench; ragbench.load_dataset(sys.argv[1]);"
        "print(sorted({'pandas', 'torch', 'datasets', 'ir_datasets', 'requests'} & "
        "set(sys.modules)))"
    )
    command = [sys.executable, "-W", "error", "-c", code, str(write_folder())]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_memory_grows_linearly_and_little(tmp_path: Path) -> None:
    """300,000 short documents must fit together with chunks and index; here a tenth of them, as
    bytes per document.
    """
    import tracemalloc

    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td0\t1\n")
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "one?"}\n')
    peaks = []
    for count in (10_000, 20_000):
        with (tmp_path / "corpus.jsonl").open("w") as file:
            file.writelines(
                f'{{"_id": "d{i}", "title": "", "text": "{"word " * 20}{i}"}}\n'
                for i in range(count)
            )
        tracemalloc.start()
        assert len(load_dataset(tmp_path).corpus) == count
        peaks.append(tracemalloc.get_traced_memory()[1] / count)
        tracemalloc.stop()
    assert peaks[0] < 1000
    assert peaks[1] < peaks[0] * 1.2
