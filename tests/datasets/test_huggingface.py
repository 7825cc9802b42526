"""Sets in the layout of a hub repository, from folders on disk; the hub is never asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragbench.datasets.large import LargeCorpus
from ragbench.errors import ConfigError, DataError, DataWarning, DownloadError
from ragbench.testsets.loader import load_dataset
from ragbench.types import Document

Repository = Callable[..., Path]
Rows = list[dict[str, object]]

CORPUS: Rows = [
    {"_id": "d1", "title": "Head", "text": "Body one.", "year": 2020},
    {"_id": "d2", "title": "", "text": "Body two.", "year": None},
]
QUERIES: Rows = [{"_id": "q1", "text": "one?"}, {"_id": "q2", "text": "two?"}]
QRELS: Rows = [
    {"query-id": "q1", "corpus-id": "d1", "score": 2},
    {"query-id": "q2", "corpus-id": "d2", "score": 1},
]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """`repository({("corpus", "corpus"): rows, ...})`: a folder with these (configuration, split)
    tables.
    """
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)

    def make(
        tables: dict[tuple[str, str], Rows], name: str = "small", parquet: bool = False
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        configs: dict[str, list[str]] = {}
        for (config, split), rows in tables.items():
            path = folder / f"{config}-{split}.{'parquet' if parquet else 'jsonl'}"
            if parquet:
                import datasets

                datasets.Dataset.from_list(rows).to_parquet(path)
            else:
                path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
            configs.setdefault(config, []).append(f"  - split: {split}\n    path: {path.name}\n")
        listed = "".join(
            f"- config_name: {name}\n  data_files:\n{''.join(parts)}"
            for name, parts in configs.items()
        )
        (folder / "README.md").write_text(f"---\nconfigs:\n{listed}---\n", encoding="utf-8")
        return folder

    return make


def whole(qrels_config: str = "default") -> dict[tuple[str, str], Rows]:
    return {
        ("corpus", "corpus"): CORPUS,
        ("queries", "queries"): QUERIES,
        (qrels_config, "test"): QRELS,
    }


@pytest.mark.parametrize("parquet", [False, True], ids=["jsonl", "parquet"])
@pytest.mark.parametrize("qrels_config", ["default", "qrels"])
def test_judgements_in_the_repository(
    repository: Repository, qrels_config: str, parquet: bool
) -> None:
    folder = repository(whole(qrels_config), parquet=parquet)
    dataset = load_dataset(f"hf:{folder}")
    assert (dataset.name, dataset.split) == ("hf:small", "test")
    assert dataset.corpus == {
        "d1": Document("d1", "Body one.", "Head", {"year": 2020}),
        "d2": Document("d2", "Body two."),
    }
    assert dataset.queries == {"q1": "one?", "q2": "two?"}
    assert dataset.qrels == {"q1": {"d1": 2}, "q2": {"d2": 1}}


def test_a_large_corpus_stays_on_the_disk(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = repository(whole(), parquet=True)
    small = load_dataset(f"hf:{folder}")
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr("ragbench.datasets.large.LARGE_BYTES", 1)
    big = load_dataset(f"hf:{folder}")
    assert isinstance(big.corpus, LargeCorpus)
    assert big.corpus == small.corpus
    assert big.fingerprint == small.fingerprint
    twice = repository({**whole(), ("corpus", "corpus"): [*CORPUS, CORPUS[0]]}, name="twice")
    with pytest.raises(DataError, match=r"corpus/corpus, row 3: document id 'd1'"):
        load_dataset(f"hf:{twice}")
    empty = repository({**whole(), ("corpus", "corpus"): [{"_id": "d1", "text": ""}]}, name="empty")
    with pytest.warns(DataWarning):
        load_dataset(f"hf:{empty}")


def test_judgements_in_the_sister_repository(repository: Repository) -> None:
    folder = repository({("corpus", "corpus"): CORPUS, ("queries", "queries"): QUERIES})
    repository(
        {("default", "validation"): QRELS, ("default", "test"): QRELS[:1]}, name="small-qrels"
    )
    dataset = load_dataset(f"hf:{folder}", "validation")
    assert (dataset.split, list(dataset.qrels)) == ("validation", ["q1", "q2"])


def test_ids_called_id_numeric_ids_and_float_grades(repository: Repository) -> None:
    folder = repository(
        {
            ("corpus", "test"): [{"id": 1, "text": "a"}],
            ("queries", "test"): [{"id": 7, "text": "b"}],
            ("qrels", "test"): [{"query-id": 7, "corpus-id": 1, "score": 1.0}],
        }
    )
    dataset = load_dataset(f"hf:{folder}")
    assert (list(dataset.corpus), dataset.qrels) == (["1"], {"7": {"1": 1}})


def test_configuration_in_the_name(repository: Repository) -> None:
    german: Rows = [{"_id": "d1", "text": "Eins."}]
    folder = repository(
        {
            **whole(),
            ("de-corpus", "test"): german,
            ("de-queries", "test"): QUERIES[:1],
            ("de-qrels", "test"): QRELS[:1],
        }
    )
    assert load_dataset(f"hf:{folder}:de").corpus["d1"].text == "Eins."
    assert load_dataset(f"hf:{folder}").corpus["d1"].text == "Body one."
    with pytest.raises(ConfigError, match=r"unknown configuration 'fr-corpus'"):
        load_dataset(f"hf:{folder}:fr")


def test_flaws_are_warned_about_as_everywhere(repository: Repository) -> None:
    folder = repository({**whole(), ("default", "test"): QRELS[:1]})
    with pytest.warns(DataWarning, match="1 queries have no judgement in split 'test'"):
        assert list(load_dataset(f"hf:{folder}").queries) == ["q1"]


def test_split_that_is_not_there(repository: Repository) -> None:
    folder = repository({**whole(), ("default", "dev"): QRELS})
    with pytest.raises(DataError, match=r"no split 'train'; splits that are there: test, dev"):
        load_dataset(f"hf:{folder}", "train")


def test_configurations_that_are_not_there(repository: Repository) -> None:
    with pytest.raises(ConfigError, match=r"unknown configuration 'corpus'.*'queries'"):
        load_dataset(f"hf:{repository({('queries', 'queries'): QUERIES})}")
    with pytest.raises(ConfigError, match=r"has no judgements, nor has .*nothing-qrels"):
        load_dataset(
            f"hf:{repository({('corpus', 'corpus'): CORPUS, ('queries', 'queries'): QUERIES}, name='nothing')}"
        )


def test_several_splits_of_the_corpus_must_name_one(repository: Repository) -> None:
    tables = {**whole(), ("corpus", "a"): CORPUS, ("corpus", "b"): CORPUS}
    del tables["corpus", "corpus"]
    with pytest.raises(
        DataError, match=r"configuration 'corpus' has splits a, b; expected one, or 'corpus'"
    ):
        load_dataset(f"hf:{repository(tables)}")


@pytest.mark.parametrize(
    ("place", "rows", "expected"),
    [
        (
            ("corpus", "corpus"),
            [{"_id": "d1", "body": "a"}],
            r"corpus/corpus, row 1: 'text' is missing",
        ),
        (("corpus", "corpus"), [CORPUS[0], CORPUS[0]], r"corpus/corpus, row 2: document id 'd1'"),
        (
            ("queries", "queries"),
            [QUERIES[0], QUERIES[0]],
            r"queries/queries, row 2: query id 'q1'",
        ),
        (
            ("default", "test"),
            [{"query-id": "q1", "corpus-id": "d1", "score": 1.5}],
            r"default/test, row 1: grade 1.5",
        ),
        (
            ("default", "test"),
            [{"query": "q1", "doc": "d1"}],
            r"default/test, row 1: 'query-id' is missing",
        ),
    ],
)
def test_bad_rows_are_named(
    repository: Repository, place: tuple[str, str], rows: Rows, expected: str
) -> None:
    with pytest.raises(DataError, match=expected):
        load_dataset(f"hf:{repository({**whole(), place: rows})}")


def test_broken_file_is_a_data_error(repository: Repository) -> None:
    folder = repository(whole())
    (folder / "corpus-corpus.jsonl").write_text('{"_id": "d1", "text": \n')
    with pytest.raises(DataError, match="could not be read"):
        load_dataset(f"hf:{folder}")


def test_hub_out_of_reach_is_a_download_error(repository: Repository) -> None:
    with pytest.raises(
        DownloadError, match=r"hf:nobody/nothing could not be fetched.*or name a local folder"
    ):
        load_dataset("hf:nobody/nothing")


def test_no_repository(repository: Repository) -> None:
    with pytest.raises(ConfigError, match="'hf:' names no repository"):
        load_dataset("hf:")


def test_an_address_in_a_row_is_not_fetched(
    repository: Repository, loopback: Any, wire: Any
) -> None:
    server = loopback(lambda asked: wire.Answered(b""))
    folder = repository(
        {**whole(), ("corpus", "corpus"): [{"_id": "d1", "text": {"path": f"{server.url}/a.png"}}]}
    )
    info = "dataset_info:\n- config_name: corpus\n  features:\n  - name: _id\n    dtype: string\n"
    info += "  - name: text\n    dtype: image\n"
    card = (folder / "README.md").read_text()
    (folder / "README.md").write_text(card.replace("configs:\n", f"{info}configs:\n", 1))
    with pytest.raises(DataError, match=r"row 1: .*text"):
        load_dataset(f"hf:{folder}")
    assert server.asked == []
