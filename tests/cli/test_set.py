"""`--set`: options of the pipeline on the command line, for eval and for a sweep."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.errors import ConfigError
from ragbench.evaluation import pipeline_settings
from ragbench.sweep import read_grid

DOCUMENTS = {
    "cats": "Cats sleep most of the day. They hunt at night. They drink water.",
    "dogs": "Dogs bark at strangers. Dogs sleep at night. They drink water.",
    "fish": "Fish swim in water. Fish sleep with open eyes. Some hunt.",
}
QUESTIONS = {"q1": ("When do dogs sleep?", "dogs"), "q2": ("Where do fish swim?", "fish")}
RUN = "q1 Q0 d1 1 0.5 mine\n"


def test_a_configuration_has_the_numbers_of_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    for name, text in DOCUMENTS.items():
        (tmp_path / "docs" / f"{name}.md").write_text(text)
    lines = [
        json.dumps({"query_id": query_id, "query": text, "relevant": [f"{document}.md"]})
        for query_id, (text, document) in QUESTIONS.items()
    ]
    (tmp_path / "mine.jsonl").write_text("\n".join(lines))
    options = ["--set", "chunker=fixed", "--set", "chunk-size=5", "--set", "k=2"]
    place = ["--test-set", "mine.jsonl", "--docs", "docs", "--perspective", "retrieval"]
    done = CliRunner().invoke(app, ["eval", *place, "--output", "mine", *options])
    assert done.exit_code in (0, 1), done.output
    result = rb.load_result("mine")
    assert result.system["name"] == "bm25, fixed 5, extractive"
    assert {len(answer.contexts) for answer in result.answers} == {2}
    data = rb.load_dataset("mine.jsonl", corpus="docs")
    expected = rb.evaluate(
        data, "bm25", perspectives="retrieval", chunker="fixed", chunk_size=5, k=2
    )
    theirs = expected.scores.set_index(["query_id", "measure"])["value"].round(6).to_dict()
    ours = result.scores.set_index(["query_id", "measure"])["value"].to_dict()
    assert ours == pytest.approx(theirs, nan_ok=True, abs=1e-6)


def test_types_are_those_of_the_pipeline() -> None:
    values = ["chunk_size=64", "temperature=1", "max_context_tokens=0", "prompt=plain"]
    assert pipeline_settings(values, "bm25") == {
        "chunk_size": 64,
        "temperature": 1.0,
        "max_context_tokens": None,
        "prompt": "plain",
    }


@pytest.mark.parametrize(
    ("text", "system", "message"),
    [
        ("chunk_sise=64", "bm25", "did you mean 'chunk_size'"),
        ("chunk_size=many", "bm25", "chunk_size is 'many'; expected a whole number"),
        ("chunk_size", "bm25", "'chunk_size' is not NAME=VALUE"),
        ("chunker=fixd", "bm25", "did you mean 'fixed'"),
        ("k=0", "bm25", "k is 0; expected 1 or more"),
        ("limit=5", "bm25", "limit is a separate option: --limit"),
        ("retriever=dense:minilm", "bm25", "the retriever is the argument"),
        ("k=3", "service.toml", "options of ragbench's own pipeline"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_asked(
    text: str, system: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        pipeline_settings([text], system)
    assert message in str(caught.value)


def test_a_sweep_takes_them_for_every_configuration(tmp_path: Path) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text(
        '[fixed]\nk = 4\n[axes]\nretriever = ["bm25", "dense:wordllama"]\n'
        'chunker = ["fixed", "recursive"]\n[[run]]\nretriever = "bm25"\nk = 2\n'
    )
    runs = read_grid(grid, ["chunker=sentence", "k=3"]).runs
    assert [run["retriever"] for run in runs.values()] == ["bm25", "dense:wordllama"]
    assert {(run["chunker"], run["k"]) for run in runs.values()} == {("sentence", 3)}
    with pytest.raises(ConfigError, match="unknown parameter 'chunkr'; did you mean 'chunker'"):
        read_grid(grid, ["chunkr=fixed"])


@pytest.mark.parametrize(
    ("name", "mine", "theirs"),
    [
        ("dataset", "mine.yaml", "theirs.yaml"),
        ("corpus", "mine", "theirs"),
        ("system", "mine.run", "theirs.run"),
    ],
)
def test_a_path_on_the_command_line_is_found_from_where_it_is_typed(
    name: str,
    mine: str,
    theirs: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "grids").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / mine).write_text(RUN)
    (tmp_path / "grids" / theirs).write_text(RUN)
    grid = tmp_path / "grids" / "grid.toml"
    grid.write_text('[axes]\nretriever = ["bm25", "dense:wordllama"]\n')
    monkeypatch.chdir(tmp_path / "work")

    def values(typed: str) -> set[str]:
        return {run[name] for run in read_grid(grid, [f"{name}={typed}"]).runs.values()}

    assert values(mine) == {f"../work/{mine}"}
    assert values(theirs) == {theirs}
    (tmp_path / "grids" / mine).write_text(RUN)  # two of this name
    assert values(mine) == {f"../work/{mine}"}


def test_a_name_on_the_command_line_stays_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dense:wordllama").write_text("")  # no file of a system is called like this
    grid = tmp_path / "grid.toml"
    grid.write_text("[axes]\nk = [3, 5]\n")
    for place in (tmp_path, tmp_path.parent):
        monkeypatch.chdir(place)
        runs = read_grid(grid, ["dataset=pydoc", "system=dense:wordllama"]).runs.values()
        assert {(run["dataset"], run["retriever"]) for run in runs} == {
            ("pydoc", "dense:wordllama")
        }


def test_the_notebook_looks_for_leaks_as_the_command_does() -> None:
    notebook = Path(__file__).parents[2] / "notebooks" / "evaluate.ipynb"
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    parameters = "".join(cells[1]["source"])
    assert '\nperspectives: str = ""' in parameters
    assert "safety" in rb.EvaluationSpec(perspectives="").perspective_names
