"""load_system: a name, a file, and what is neither."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.errors import ConfigError, DataError
from ragbench.systems import McpSystem, Pipeline, RecordedSystem, ask, load_system, read_answer
from ragbench.systems.named_systems import check_system, read_table
from ragbench.systems.reply_paths import ReplyPaths, SystemReply
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
        (
            "[pipeline]\nretriver = 'bm25'\nk = 'five'\n",
            "line 3, k is 'five': .*; line 2, retriver is 'bm25'",
        ),
        ("[mcp]\nserver = ['x']\n", "line 1, tool: field required"),
        ('[http]\nurl = "http://h/"\nbody = [\n  1,\n "{q}"]\n', "the question is sent nowhere"),
        ('[http]\nurl = "http://h/"\nbody = "{query}"\n[ingest]\n', "unknown table 'ingest'"),
        ("[pipeline]\nretriever = 'bm52'\n", "did you mean 'bm25'"),
    ],
)
def test_a_wrong_file_is_refused_with_all_its_errors(
    pydoc: Dataset, tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_system(file, pydoc)


def test_nothing_of_that_name(pydoc: Dataset, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown system 'bm-25'; did you mean 'bm25'\?$"):
        load_system("bm-25", pydoc)
    with pytest.raises(ConfigError, match=r"unknown system 'colour'; a system is a retriever"):
        load_system("colour", pydoc)
    with pytest.raises(
        ConfigError, match=r"system 'no_rag:answer' could not be loaded: .*No module named 'no_rag'"
    ):
        load_system("no_rag:answer", pydoc)
    with pytest.raises(ConfigError, match="there is no file"):
        load_system(tmp_path / "gone.toml", pydoc)


RETRIEVER = """
from ragbench.retrieval import BM25


class Mine:
    def __init__(self, chunks):
        self.index = BM25(chunks)

    def search(self, queries, k):
        return self.index.search(queries, k)


class Needy:
    def __init__(self, address):
        raise RuntimeError("no such address")

    def answer(self, query_id, query):
        return "Yes."
"""


def test_a_class_that_takes_chunks_is_a_retriever(
    pydoc: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_retrievers.py").write_text(RETRIEVER)
    check_system("my_retrievers:Mine")
    system = load_system("my_retrievers:Mine", pydoc)
    assert system.name == "Mine, recursive 256, extractive"
    assert [one.text for one in ask(system, pydoc)] == [
        one.text for one in ask(Pipeline(pydoc), pydoc)
    ]
    done = CliRunner().invoke(
        app, ["eval", "my_retrievers:Mine", "--limit", "4", "--output", "out"]
    )
    assert done.exit_code in (0, 1), done.output
    assert rb.load_results("out").leaderboard()["nDCG@10"].notna().all()


def test_a_class_that_needs_something_else_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_needs.py").write_text(RETRIEVER)
    done = CliRunner().invoke(app, ["eval", "my_needs:Needy"])
    assert done.exit_code == 2
    assert "my_needs:Needy" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_example_of_a_notes_application_is_right(
    pydoc: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mcp")
    monkeypatch.setenv(
        "RAGBENCH_REPLIES", "offline"
    )  # no server of its model is needed to read the file
    system = load_system(NOTES, pydoc)
    assert isinstance(system, McpSystem)
    assert system.name == "notes_app"
    system.close()


def test_what_its_server_replies_is_read_as_in_the_example() -> None:
    """A reply in the form of that server's documentation, and one where it could not ask a model."""
    paths = ReplyPaths.model_validate(read_table(NOTES)[1]["reply"])
    source = {
        "id": 7,
        "doc_type": "note",
        "title": "Rail",
        "excerpt": "It opened in 1881.",
        "score": 0.03,
    }
    reply = {
        "query": "When?",
        "generated_answer": "In 1881 [1].",
        "search_method": "semantic_sampling",
        "total_found": 2,
        "sources": [source, {**source, "excerpt": "It was rebuilt."}],
    }
    answer = read_answer("q1", SystemReply([reply]).record(paths))
    assert (answer.text, answer.outcome, answer.contexts) == (
        "In 1881 [1].",
        "success",
        ("7", "7~2"),
    )
    assert answer.citations == ("7",)
    fallen = {
        **reply,
        "generated_answer": "[Sampling request timed out]",
        "search_method": "semantic_sampling_timeout",
    }
    answer = read_answer("q1", SystemReply([fallen]).record(paths))
    assert (answer.outcome, answer.error) == (
        "failed",
        "the system flags its answer as 'semantic_sampling_timeout'",
    )


def test_a_class_that_cannot_be_made_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "refused_rag.py").write_text(
        "class Rag:\n    def __init__(self):\n        raise PermissionError('no')\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ConfigError, match="'refused_rag:Rag' could not be made: PermissionError: no"
    ):
        load_system("refused_rag:Rag", Dataset("demo", "test", {}, [], {}))
