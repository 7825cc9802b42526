"""load_system: a name, a file, and what is neither."""

from __future__ import annotations

from pathlib import Path
from typing import get_type_hints

import pytest
from pydantic import BaseModel

import ragbench as rb
from ragbench.errors import ConfigError, DataError
from ragbench.systems import McpSystem, Pipeline, RecordedSystem, ask, load_system, load_target, read_answer
from ragbench.systems.connections import McpSpec
from ragbench.systems.http import HttpOptions, HttpSpec
from ragbench.systems.loader import read_tables
from ragbench.systems.mcp import McpOptions
from ragbench.systems.reply_paths import ReplyPaths, to_record
from ragbench.types import Dataset

NOTES = Path(__file__).parents[2] / "notebooks" / "notes_app.toml"


@pytest.fixture(scope="module")
def pydoc() -> Dataset:
    data: Dataset = rb.load_dataset("pydoc")
    return data.select(list(data.queries)[:5])


def test_a_retriever_is_a_pipeline_with_it(pydoc: Dataset) -> None:
    assert ask(load_system("bm25", pydoc), pydoc) == ask(Pipeline(pydoc), pydoc)


def test_a_file_sets_every_argument_of_the_pipeline(pydoc: Dataset, tmp_path: Path) -> None:
    file = tmp_path / "ours.toml"
    file.write_text('[pipeline]\nname = "ours"\nretriever = "bm25"\nchunk_size = 100\nk = 2\n')
    system = load_system(file, pydoc)
    assert system.name == "ours"
    assert ask(system, pydoc) == ask(Pipeline(pydoc, chunk_size=100, k=2), pydoc)


def test_a_recorded_file(pydoc: Dataset, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"query_id": "q1", "answer": "Yes."}\n')
    assert isinstance(load_system(str(tmp_path / "log.jsonl"), pydoc), RecordedSystem)
    with pytest.raises(DataError, match=r"gone.jsonl could not be read"):
        load_system("gone.jsonl", pydoc)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[pipelin]\n", "unknown table 'pipelin'; did you mean 'pipeline'"),
        ("", "holds no table; expected exactly one of"),
        ("pipeline = 3\n", "expected exactly one of"),
        ("[pipeline", "is not valid TOML"),
        ("[pipeline]\nretriver = 'bm25'\nk = 'five'\n", "retriver is 'bm25': .*; k is 'five'|k is 'five'.*; retriver"),
        ("[pipeline]\nretriever = 'bm52'\n", "did you mean 'bm25'"),
    ],
)
def test_a_wrong_file_is_refused_with_all_its_errors(pydoc: Dataset, tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_system(file, pydoc)


def test_nothing_of_that_name(pydoc: Dataset, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown system 'bm-25': .*a system is a retriever"):
        load_system("bm-25", pydoc)
    with pytest.raises(ConfigError, match=r"system 'no_rag:answer' could not be loaded: .*No module named 'no_rag'"):
        load_system("no_rag:answer", pydoc)
    with pytest.raises(ConfigError, match="there is no file"):
        load_system(tmp_path / "gone.toml", pydoc)


def test_the_example_of_a_notes_application_is_right(pydoc: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mcp")
    monkeypatch.setenv("RAGBENCH_REPLIES", "offline")  # no server of its model is needed to read the file
    system = load_system(NOTES, pydoc)
    assert isinstance(system, McpSystem)
    assert system.name == "notes_app"
    target = load_target(NOTES)
    assert target.status is not None
    assert target.remove is not None
    system.close()
    target.close()


def test_what_its_server_replies_is_read_as_in_the_example() -> None:
    """A reply in the form of that server's documentation, and one where it could not ask a model."""
    paths = ReplyPaths.model_validate(read_tables(NOTES)["mcp"]["reply"])
    source = {"id": 7, "doc_type": "note", "title": "Rail", "excerpt": "It opened in 1881.", "score": 0.03}
    reply = {
        "query": "When?", "generated_answer": "In 1881 [1].", "search_method": "semantic_sampling", "total_found": 2,
        "sources": [source, {**source, "excerpt": "It was rebuilt."}],
    }  # fmt: skip
    answer = read_answer("q1", to_record(reply, paths))
    assert (answer.text, answer.outcome, answer.contexts) == ("In 1881 [1].", "success", ("7", "7~2"))
    assert answer.citations == ("7",)
    fallen = {**reply, "generated_answer": "[Sampling request timed out]", "search_method": "semantic_sampling_timeout"}
    answer = read_answer("q1", to_record(fallen, paths))
    assert (answer.outcome, answer.error) == ("failed", "the system flags its answer as 'semantic_sampling_timeout'")


@pytest.mark.parametrize(
    ("options", "spec", "explicit"),
    [(HttpOptions, HttpSpec, {"url"}), (McpOptions, McpSpec, {"server", "tool", "sampling"})],
)
def test_typed_options_are_those_that_the_spec_checks(options: type, spec: type[BaseModel], explicit: set[str]) -> None:
    assert set(get_type_hints(options)) == set(spec.model_fields) - explicit
