"""`assert_not_worse`, `ragbench compare` as a gate, and what importing `rb.compare` takes."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.testing import assert_not_worse

N = 40
GOOD = pd.DataFrame({"id": range(N), "score": [(i * 7 % 13) / 24 + 0.4 for i in range(N)]})
BAD = GOOD.assign(score=[(i * 7 % 13) / 24 + 0.1 * (i % 2) for i in range(N)])
ALIKE = GOOD.assign(score=[score - 0.3 * (i % 8 == 0) for i, score in enumerate(GOOD["score"])])
FEW = GOOD[:6]


def test_not_worse() -> None:
    assert assert_not_worse(BAD, GOOD).decision == "better"
    assert rb.assert_not_worse(GOOD, GOOD).decision in ("undecided", "within the margin")
    with pytest.raises(AssertionError, match="Keep the baseline, A: B is worse"):
        assert_not_worse(GOOD, BAD)


def test_how_strict_a_gate_is() -> None:
    decision = rb.compare(GOOD, ALIKE).decision
    assert decision == "likely worse"
    assert_not_worse(GOOD, ALIKE)
    with pytest.raises(AssertionError):
        assert_not_worse(GOOD, ALIKE, fail_if="likely worse")
    with pytest.raises(AssertionError):
        assert_not_worse(GOOD, GOOD, fail_if="within the margin")
    with pytest.raises(rb.RagbenchError, match="unknown decision to fail at 'bad'"):
        assert_not_worse(GOOD, BAD, fail_if="bad")


def test_an_option_that_exists_is_not_what_a_wrong_call_lacks() -> None:
    with pytest.raises(rb.RagbenchError, match="missing a required argument: 'contender'"):
        assert_not_worse(GOOD, fail_if="likely worse")  # type: ignore[call-arg]


def test_a_gate_that_can_decide_nothing_does_not_pass() -> None:
    with pytest.raises(AssertionError, match="only 6 questions have score"):
        assert_not_worse(FEW, FEW)


STYLED = GOOD.assign(style=GOOD["score"])
OTHER = STYLED.assign(style=0.99 * GOOD["score"])
LOST: dict[str, pd.DataFrame] = {
    "no column": OTHER.drop(columns="score"),
    "a column of texts": OTHER.assign(score=[f"{i} points" for i in range(N)]),
    "few values": OTHER.assign(score=[0.5 if i < 3 else math.nan for i in range(N)]),
}


@pytest.mark.parametrize("name", LOST)
def test_a_gate_does_not_change_its_measure(name: str) -> None:
    """Where the measure that decides in the baseline is lost, another one decides only if it is named."""
    with pytest.raises(
        rb.RagbenchError, match=r"score would decide, but .*a gate keeps its measure"
    ):
        assert_not_worse(STYLED, LOST[name])
    assert_not_worse(STYLED, LOST[name], measure="style")
    conclusion = rb.compare(STYLED, LOST[name])
    assert conclusion.measure == "style"
    assert any(line.startswith("score would decide, but") for line in conclusion.evidence)


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["compare", *args])
    return result.exit_code, result.output


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    paths = tmp_path / "good.csv", tmp_path / "bad.jsonl"
    GOOD.to_csv(paths[0], index=False)
    BAD.to_json(paths[1], orient="records", lines=True)
    return str(paths[0]), str(paths[1])


def test_the_exit_status_is_a_gate(files: tuple[str, str]) -> None:
    good, bad = files
    assert run(good, bad)[0] == 0
    assert run(good, bad, "--fail-if", "worse")[0] == 1
    assert run(bad, good, "--fail-if", "worse")[0] == 0
    status, output = run(good, bad, "--fail-if", "never")
    assert status == 2
    assert "unknown decision to fail at" in output
    STYLED.to_csv(good, index=False)
    STYLED.drop(columns="score").to_csv(bad, index=False)
    assert run(good, bad)[0] == 0
    assert run(good, bad, "--fail-if", "worse")[0] == 2
    assert run(good, str(Path(good).with_name("none.csv")))[0] == 2


def test_json_and_markdown(files: tuple[str, str]) -> None:
    good, bad = files
    status, output = run(bad, good, "--json")
    conclusion = json.loads(output)
    assert (status, conclusion["decision"], conclusion["choice"]) == (0, "better", "good")
    assert conclusion["n"] == N
    status, output = run(bad, good, "--markdown", "--lower", "score")
    assert output.startswith("# Keep the baseline, bad: good is worse\n")
    assert "**Next:**" in output


def test_bounds_of_the_command(files: tuple[str, str]) -> None:
    status, output = run(*files, "--bounds", "score=0..10")
    assert status == 0
    assert "score (0 to 10)" in output
    assert run(*files, "--bounds", "score=1..0")[0] == 2
    assert run(*files, "--bounds", "scor=0..1")[0] == 2


def test_a_directory_of_files_is_a_leaderboard(files: tuple[str, str]) -> None:
    status, output = run(str(Path(files[0]).parent), "--baseline", "bad")
    assert status == 0
    assert "good is better than bad" in output


def test_comparing_tables_imports_numpy_pandas_and_scipy_alone() -> None:
    code = (
        "import sys, ragbench as rb; rb.compare; print('pandas' in sys.modules)\n"
        "old = {f'q{i}': i % 2 for i in range(20)}\n"
        "rb.compare(old, {name: 1 for name in old})\n"
        "heavy = 'pydantic typer httpx sqlalchemy torch datasets matplotlib ruamel asyncio scipy.stats'\n"
        "print([name for name in heavy.split() if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["False", "[]"]


def test_a_file_that_is_not_there_is_no_run_of_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "damaged.sqlite").write_text("no database")
    GOOD.to_csv("a.csv", index=False)
    for names in (
        ["a.csv", "b.csv"],
        ["b.csv", "a.csv"],
        ["b.JSONL", "c.csv"],
        ["x/b.json", "a.csv"],
    ):
        done = CliRunner().invoke(app, ["compare", *names, "--database", "damaged.sqlite"])
        missing = next(name for name in names if name != "a.csv")
        assert done.exit_code == 2
        assert f"there is no file {missing}; check the path" in done.output


SWEEP = Path(__file__).parents[2] / "results" / "quickstart"


@pytest.mark.parametrize("option", ["bounds", "lower", "higher", "labels"])
def test_results_of_ragbench_refuse_options_for_other_tools(option: str) -> None:
    value = "nDCG@10=0..1" if option == "bounds" else "nDCG@10"
    status, output = run(str(SWEEP), f"--{option}", value)
    assert status == 2
    assert f"--{option}: only for files of other tools" in output


def test_results_in_memory_refuse_options_for_other_tools(tmp_path: Path) -> None:
    results = rb.load_results(SWEEP)
    with pytest.raises(rb.RagbenchError, match="labels: only for tables of other tools"):
        rb.compare(results, labels=tmp_path / "labels.csv")
    with pytest.raises(rb.RagbenchError, match=r"alpha: only for .*rb\.compare\(\*results"):
        rb.compare(results, alpha=0.01)
    with pytest.raises(rb.RagbenchError, match="lower: only for tables of other tools"):
        rb.compare(results[0], results[1], lower="nDCG@10")
