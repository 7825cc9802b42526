"""The command line: help with examples, clean errors, exit statuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragbench import store
from ragbench.cli import app

runner = CliRunner()


def test_version() -> None:
    done = runner.invoke(app, ["--version"])
    assert done.exit_code == 0
    assert done.output.startswith("ragbench ")


def test_errors_are_one_line_without_a_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ragbench", "sweep", str(tmp_path / "none.toml")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("ragbench: there is no grid file")
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_unknown_options_are_usage_errors() -> None:
    assert runner.invoke(app, ["sweep", "x.toml", "--jobs", "0"]).exit_code == 2
    assert runner.invoke(app, ["swep"]).exit_code == 2


def test_starting_is_light() -> None:
    code = (
        "import sys; from ragbench.cli import app; heavy = {'pandas', 'torch', 'papermill', "
        "'scipy', 'nbformat'}; print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_evaluations_load_no_distributions() -> None:
    """scipy.stats takes as long to import as everything else that an evaluation imports."""
    code = (
        "import sys, ragbench.evaluation.evaluator, ragbench.sweep.session; "
        "print('scipy.stats' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_cache_info_and_clear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path))
    with store.arrays("test", store.digest("a")) as entry:
        entry["x"] = np.zeros(3)
    shown = runner.invoke(app, ["cache", "info"])
    assert shown.exit_code == 0
    assert str(tmp_path) in shown.output.replace("\n", "")
    cleared = runner.invoke(app, ["cache", "clear"])
    assert cleared.output == "1 entry deleted\n"
    assert runner.invoke(app, ["cache", "clear"]).output == "0 entries deleted\n"


@pytest.mark.parametrize("variable", ["RAGBENCH_CACHE_MAX_GB", "RAGBENCH_CACHE_DIR"])
@pytest.mark.parametrize(
    "arguments", [["cache", "info"], ["cache", "clear"], ["sweep", "grid.toml"]]
)
def test_odd_environment_variables_are_one_line_before_anything_runs(
    variable: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "~no-such-user/x")
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert result.output.startswith(f"ragbench: {variable} is '~no-such-user/x'")
    assert result.output.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "way_out"),
    [
        ("eval --llm openai:x", "write --set llm=openai:x"),
        ("eval --max-tokens=64", "write --set max_tokens=64"),
        ("eval --retriever dense:minilm", "write dense:minilm without --retriever"),
        ("eval --ks 3", "write --k 3"),
        ("eval --dataset pydoc", "write --test-set pydoc"),
        ("compare a.csv b.csv --metric x", "write --measure x"),
        ("compare a.csv b.csv --output-format json", "write --json"),
        ("compare a.csv b.csv --format markdown", "write --markdown"),
        ("sweep --config my.toml", "write my.toml without --config"),
        ("eval --questions tests.yaml", "write --test-set tests.yaml"),
        ("sweep pydoc --llm", "write --set llm=VALUE"),
        ("sweep pydoc --timeout-s 900", "write --set timeout_s=900"),
        ("audit openai:x --judge openai:y", "write openai:y without --judge"),
        ("eval --lmit 3", "--limit"),
        ("sweep --data pydoc", "write --set dataset=pydoc"),
        ("sweep --retrievers bm25", "write --set retriever=bm25"),
    ],
)
def test_an_unknown_option_names_the_way_to_set_what_it_means(command: str, way_out: str) -> None:
    done = runner.invoke(app, command.split())
    assert done.exit_code == 2
    words = " ".join(done.output.replace("│", " ").split())
    assert f"No such option: --{command.split('--')[1].split()[0].split('=')[0]}" in words
    assert way_out in words


@pytest.mark.parametrize(
    ("command", "way_out"),
    [
        ("score qrels.txt a.run -m RR", "No such option: -m; write --measure RR"),
        ("score -q qrels.txt a.run", "No such option: -q; write qrels.txt without -q"),
        ("testset generate docs -n 9", "No such option: -n; write --questions 9"),
        ("score -h", "No such option: -h; write --help"),
    ],
)
def test_a_short_option_names_the_long_ones_with_this_letter(command: str, way_out: str) -> None:
    done = runner.invoke(app, command.split())
    assert done.exit_code == 2
    assert way_out in " ".join(done.output.replace("│", " ").split())


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        ("trec_eval qrels.txt a.run", "Did you mean 'score'?"),
        ("leaderboard results", "Did you mean 'compare'?"),
        ("evaluate x", "Did you mean 'eval'?"),
        ("dashboard", "Did you mean 'serve'?"),
        ("key create", "Known: add, list, remove."),
    ],
)
def test_an_unknown_command_names_the_one_with_this_meaning(command: str, meant: str) -> None:
    done = runner.invoke(app, command.split())
    assert done.exit_code == 2
    assert meant in " ".join(done.output.replace("│", " ").split())
