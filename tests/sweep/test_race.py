"""A race of the configurations of a grid: rounds, what stops, what is kept and what is asked once."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import ragbench as rb
from ragbench.errors import ConfigError, FailureKind
from ragbench.evaluation import draws_of, load_results
from ragbench.evaluation.folder import RACE
from ragbench.report import conclusion, headline, leaderboard_markdown, plots
from ragbench.sweep import plan, read_grid, sweep
from ragbench.sweep.folder import SweepFolder
from ragbench.sweep.grid import sources_of
from ragbench.sweep.job import Job
from ragbench.sweep.processes import Outcome
from ragbench.sweep.race import Contest, answer_draws, contest_of
from ragbench.testsets.writer import save_dataset
from ragbench.types import Case, Dataset, Document

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
MODULE = """
from pathlib import Path

def answer(question, wrong):
    with Path("asked.txt").open("a") as file:
        file.write(f"{wrong} {question}\\n")
    number = int(question.split()[-1])
    return "no idea at all" if number % 10 < wrong else f"answer {number}"

def good(question):
    return answer(question, 1)

def fair(question):
    return answer(question, 2)

def poor(question):
    return answer(question, 9)
"""
N = 60


class InThisProcess:
    """An executor that evaluates where it is, up to a number of runs, as if killed or too dear then."""

    def __init__(self, runs: int = 1000) -> None:
        self.side_by_side, self.runs = 1, runs
        self._outcomes: list[Outcome] = []

    def start(self, job: Job) -> None:
        self.runs -= 1
        if self.runs < 0:
            self._outcomes.append(Outcome(job.name, 0.0, "too dear", FailureKind.BUDGET))
            return
        answer_draws(job.parameters)
        path = job.results / "config.json"
        config = json.loads(path.read_text())
        path.write_text(
            json.dumps({**config, "parameters": job.configuration, "source": job.source})
        )
        job.output.write_text("{}")
        self._outcomes.append(Outcome(job.name, 0.0, ""))

    def ended(self) -> list[Outcome]:
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def stop(self) -> None:
        pass


@pytest.fixture
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGBENCH_YES", "1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "arms.py").write_text(MODULE)
    shutil.copy(NOTEBOOKS / "evaluate.ipynb", tmp_path)
    cases = [Case(f"q{i}", f"What is number {i}", reference_answer=f"answer {i}") for i in range(N)]
    save_dataset(
        Dataset("tiny", "test", {"d": Document("d", "text")}, cases, {}), tmp_path / "tiny.yaml"
    )
    (tmp_path / "grid.toml").write_text(
        '[fixed]\ndataset = "tiny.yaml"\nperspectives = "answer"\n'
        '[axes]\nsystem = ["arms:good", "arms:fair", "arms:poor"]\n'
    )
    return tmp_path / "grid.toml"


def contest(path: Path, out: str = "results", margin: float = 0.02) -> Contest:
    read = read_grid(path)
    folder = SweepFolder(Path(out).absolute() / read.name)
    return contest_of(read, folder, sources_of(read), "token_f1", margin)


CONSOLE = Console(file=io.StringIO(), force_terminal=True, width=200)


def test_a_poor_one_stops_and_every_question_is_asked_once(grid: Path) -> None:
    race, outcomes = contest(grid).hold(InThisProcess(), CONSOLE)
    assert not outcomes.failed
    [poor] = [name for name in race.stopped if name.startswith("arms-poor")]
    assert race.stopped[poor] < N / 2
    asked = Path("asked.txt").read_text().splitlines()
    assert len(asked) == len(set(asked))
    good = next(name for name in race.scores if name.startswith("arms-good"))
    assert good not in race.stopped
    journal = list(Path("results/grid").glob(f".journal-{poor}-*.jsonl"))
    assert len(journal[0].read_text().splitlines()) == race.stopped[poor]


def test_what_was_killed_continues_to_the_same_bytes_and_a_race_that_is_over_stays(
    grid: Path,
) -> None:
    contest(grid, "whole").hold(InThisProcess(), CONSOLE)
    asked = Path("asked.txt").read_text()
    Path("asked.txt").unlink()
    for runs in (1, 2, 3, 5):
        _, outcomes = contest(grid, "parts").hold(InThisProcess(runs), CONSOLE)
        assert outcomes.budget
    contest(grid, "parts").hold(InThisProcess(), CONSOLE)
    assert sorted(Path("asked.txt").read_text().split("\n")) == sorted(asked.split("\n"))
    whole, parts = (Path(out, "grid", RACE).read_bytes() for out in ("whole", "parts"))
    assert whole == parts
    contest(grid, "parts").hold(InThisProcess(0), CONSOLE)  # runs nothing
    assert contest(grid, "parts", margin=0.5).stored() is None  # another race


def test_a_dropped_configuration_answers_what_it_has_answered(grid: Path) -> None:
    held, _ = (begun := contest(grid)).hold(InThisProcess(), CONSOLE)
    raced = begun.raced(held)
    name, n = next(iter(held.stopped.items()))
    assert raced.grid.runs[name]["draw"] == n
    assert raced.sources[name]["race"].startswith(f"dropped after {n} of {N} questions: ")


@pytest.mark.parametrize(
    ("measure", "margin", "problem"),
    [
        ("token_f1", 0.0, "margin is 0.0; expected a loss"),
        ("token_f2", 0.1, "token_f2"),
        ("latency_total_ms", 0.1, "its values have no bounds"),
    ],
)
def test_what_cannot_be_raced_is_refused(
    grid: Path, measure: str, margin: float, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        sweep(grid, race=measure, margin=margin)
    with pytest.raises(ConfigError, match="leave out `only`"):
        sweep(grid, race="auto", only="arms*")


def test_a_dry_run_names_what_a_race_would_save(grid: Path) -> None:
    assert "cannot be foreseen" in plan(grid, race="token_f1").notes[-1]


def results_of(grid: Path) -> Any:
    """Results as a sweep leaves them, of a race."""
    begun = contest(grid)
    held, _ = begun.hold(InThisProcess(), CONSOLE)
    raced = begun.raced(held)
    for name, parameters in raced.grid.runs.items():
        spec = rb.evaluation.spec_of(parameters)
        result = rb.evaluate("tiny.yaml", parameters["system"], spec, parameters=parameters)
        result.config["source"] = dict(raced.sources[name])  # type: ignore[index]
        rb.save(result, raced.folder.path / name)
    return load_results(raced.folder.path)


def test_partial_means_are_never_without_their_number_of_questions(grid: Path) -> None:
    results = results_of(grid)
    n = results.race.stopped
    board = results.leaderboard("token_f1")
    assert board["name"].iloc[0].startswith("arms-good")
    poor = board[board["name"].str.startswith("arms-poor")].iloc[0]
    assert poor["label"].endswith(f"n = {n[poor['name']]}")
    assert poor["token_f1_n"] == f"{n[poor['name']]}/{N}"
    assert poor["race"].startswith(f"dropped after {n[poor['name']]} of {N} questions")
    comparison = results.compare(measures=["token_f1"])
    row = comparison[comparison["name"] == poor["name"]].iloc[0]
    assert row["n"] == n[poor["name"]]
    assert row["interval"] == "betting"
    assert row["decision"] in ("worse", "undecided")  # which a dozen questions cannot decide
    assert row["ci_low"] <= row["difference"] <= row["ci_high"]
    assert "dropped after" in leaderboard_markdown(board, "token_f1", comparison)
    baseline = board["name"].iloc[0]
    lines = "\n".join(conclusion(results, comparison, baseline, "token_f1"))
    assert f"**Race:** {len(n)} of them were dropped before all questions" in lines
    assert headline(results, comparison, baseline, "token_f1").startswith("Keep the baseline")
    assert [one.name for one in results.finished if one.dropped] == []
    figure = plots.plot_race(results.race, {})
    assert len(figure.axes[0].get_yticklabels()) == 3


def test_questions_of_a_cluster_are_drawn_together() -> None:
    cases = [Case(f"q{i}", "?", metadata={"cluster": str(i // 3)}) for i in range(9)]
    draws = draws_of(Dataset("d", "test", {}, cases, {}), seed=3)
    assert sorted(map(len, draws)) == [3, 3, 3]
    assert draws != draws_of(Dataset("d", "test", {}, cases, {}), seed=4)
