"""A race of the configurations of a grid: rounds, what stops, what is kept and what is asked once."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.errors import ConfigError, DataError, FailureKind
from ragbench.evaluation import load_results
from ragbench.evaluation.checksums import write_config
from ragbench.evaluation.folder import RACE
from ragbench.sweep import plan, read_grid, sweep, verify
from ragbench.sweep.grid import sources_of
from ragbench.sweep.grid_race import Contest, answer_round, contest_of, draws_of
from ragbench.sweep.job import Job, Place, make_job
from ragbench.sweep.processes import Outcome
from ragbench.sweep.runs import RunOutcomes
from ragbench.sweep.sweep_folder import SweepFolder
from ragbench.testsets.writer import save_dataset
from ragbench.types import Case, Dataset, Document
from tests.committed import copy_committed

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
MODULE = """
from pathlib import Path

def answer(question, wrong):
    with Path("asked.txt").open("a") as file:
        file.write(f"{wrong} {question}\\n")
    number = int(question.split()[-1])
    return "something else" if number % 10 < wrong else f"answer {number}"

def good(question):
    return answer(question, 1)

def fair(question):
    return answer(question, 2)

def bad(question):
    return answer(question, 8)

def poor(question):
    return answer(question, 9)
"""
N = 60
CONSOLE = Console(file=io.StringIO(), force_terminal=True, width=200)


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
        (job.staging / "job.json").write_text(job.to_json())
        answer_round(job.parameters)
        config = json.loads((job.results / "config.json").read_text())
        parts = {"parameters": job.configuration, "source": job.source}
        write_config(job.results, {**config, **parts})
        job.output.write_text(job.text)
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
        '[axes]\nsystem = ["arms:good", "arms:fair", "arms:poor", "arms:bad"]\n'
    )
    return tmp_path / "grid.toml"


def contest(path: Path, out: str = "results", margin: float = 0.02) -> Contest:
    read = read_grid(path)
    folder = SweepFolder(Path(out).absolute() / read.name)
    return contest_of(read, folder, sources_of(read), "token_f1", margin)


def hold(path: Path, out: str = "results", runs: int = 1000) -> tuple[Contest, RunOutcomes]:
    begun, read = contest(path, out), read_grid(path)
    folder, sources = begun.folder, sources_of(read)
    folder.path.mkdir(parents=True, exist_ok=True)
    place = Place(read.notebook.path, read.notebook.text, Path.cwd(), 60.0)
    jobs = {
        name: make_job(folder, name, place, read.runs[name], source=sources[name], stamp={})
        for name in read.runs
        if name not in begun.race.stopped
    }
    left, outcomes, _ = begun.run_rounds(jobs, InThisProcess(runs), CONSOLE)
    held = contest(path, out)
    names = held.race.scores.keys() - held.race.stopped if not held.race.next_end else set()
    assert left.keys() == names
    return held, outcomes


def named(held: Contest, part: str) -> str:
    return next(name for name in held.race.scores if part in name)


def test_poor_ones_stop_and_every_question_is_asked_once(grid: Path) -> None:
    held, outcomes = hold(grid)
    assert not outcomes.failed
    assert held.race.next_end == 0
    assert set(held.race.stopped) == {named(held, "poor"), named(held, "bad")}
    asked = Path("asked.txt").read_text().splitlines()
    assert len(asked) == len(set(asked))
    good = named(held, "good")
    journal = list(Path("results/grid").glob(f".journal-{good}-*.jsonl"))
    assert len(journal[0].read_text().splitlines()) == N  # the leader has answered all
    assert "2 of 4 configurations are in the race by token_f1" in CONSOLE.file.getvalue()  # type: ignore[attr-defined]


def test_what_was_killed_continues_to_the_same_bytes_and_a_race_that_is_over_stays(
    grid: Path,
) -> None:
    hold(grid, "whole")
    asked = Path("asked.txt").read_text()
    Path("asked.txt").unlink()
    for runs in (1, 2, 3):
        _, outcomes = hold(grid, "parts", runs)
        assert outcomes.budget
    hold(grid, "parts")
    assert sorted(Path("asked.txt").read_text().split("\n")) == sorted(asked.split("\n"))
    whole, parts = (Path(out, "grid", RACE).read_bytes() for out in ("whole", "parts"))
    assert whole == parts
    again, _ = hold(grid, "parts", 0)  # runs nothing
    assert again.race.next_end == 0
    assert contest(grid, "parts", margin=0.5).race.drawn == 0  # another race


def test_a_dropped_one_is_a_result_of_its_questions_and_its_notebook_states_why(
    grid: Path,
) -> None:
    held, _ = hold(grid)
    name, n = next(iter(held.race.stopped.items()))
    result = rb.evaluation.load_result(held.folder.path / name)
    assert len(result.queries) == n
    assert set(result.scores["measure"]) == {"token_f1"}
    cells = json.loads(held.folder.notebook(name).read_text())["cells"]
    reason = f"**In the race of this sweep:** dropped after {n} of {N} questions: worse than"
    assert cells[0]["source"].startswith(reason)
    hold(grid)
    assert len(json.loads(held.folder.notebook(name).read_text())["cells"]) == len(cells)


@pytest.mark.parametrize(
    ("measure", "margin", "problem"),
    [
        ("token_f1", 0.0, "margin is 0.0; expected a loss"),
        ("token_f2", 0.1, "token_f2"),
        ("latency_total_ms", 0.1, "its values are from 0 to inf"),
    ],
)
def test_what_cannot_be_raced_is_refused(
    grid: Path, measure: str, margin: float, problem: str
) -> None:
    for run in (sweep, plan):
        with pytest.raises(ConfigError, match=problem):
            run(grid, race=measure, margin=margin)
        with pytest.raises(ConfigError, match="leave out `only`"):
            run(grid, race="auto", only="arms*")


def test_a_damaged_race_is_named(grid: Path) -> None:
    held, _ = hold(grid)
    (held.folder.path / RACE).write_text('{"race": {"margin": 1}}')
    with pytest.raises(DataError, match=r"race.json is damaged .* delete it"):
        contest(grid)


def test_a_sweep_with_a_race_compares_those_that_are_left(grid: Path) -> None:
    shutil.copy(NOTEBOOKS / "compare.ipynb", grid.parent)
    grid.write_text(grid.read_text() + '[sweep]\nbaseline = {system = "arms:poor"}\n')
    assert "the savings of a race cannot be estimated" in plan(grid, race="token_f1").notes[-1]
    ran = CliRunner().invoke(app, ["sweep", str(grid), "--race", "token_f1", "--jobs", "1"])
    assert ran.exit_code == 0, ran.output
    assert "race by token_f1: 2 of 4 configurations were dropped before all 60" in ran.output
    results = load_results("results/grid")
    assert results.race is not None
    assert {result.name for result in results} == {*results.race.scores} - {*results.race.stopped}
    assert all(len(result.queries) == N for result in results)
    asked = Path("asked.txt").read_text().splitlines()
    assert len(asked) == len(set(asked))
    # two others were tested too
    alone = rb.compare_all(
        {each.name: each.scores for each in results}, results[0].name, measures=["token_f1"]
    )
    compared = results.compare(results[0].name)
    assert compared["p_adjusted"].iloc[0] == pytest.approx(min(1, 3 * alone["p_value"].iloc[0]))
    assert compared["measure"].tolist() == ["token_f1"]
    board = Path("results/grid/leaderboard.md").read_text()
    assert board.count(": dropped after ") == 2
    lines = results.conclude(results[0].name).evidence
    assert any(line.startswith("Race: by token_f1: 2 of 4 configurations were") for line in lines)
    text = Path("results/grid/comparison.ipynb").read_text()
    assert "The race by token_f1" in text
    assert results.race.stopped.keys() >= {results.baseline}  # the user's, which the race dropped
    headline = (
        f"Change to {results.leaderboard()['label'].iloc[0]}: your baseline, {results.baseline}, was "
        f"dropped by the race after {results.race.stopped[results.baseline]} questions"
    )
    assert results.conclude().headline == headline
    for shown in (ran.output, text):
        assert headline in shown
        assert "Keep the baseline" not in shown
        assert "which stands in for your baseline there." in shown
        assert "takes the first configuration" not in shown
    named_by_user = results.conclude(results[0].name)
    assert "was dropped" not in named_by_user.headline
    before = {path: path.read_bytes() for path in Path("results/grid").rglob("*.*")}
    again = sweep(grid, race="token_f1")
    assert (again.finished, len(again.skipped)) == ((), 2)
    assert before == {path: path.read_bytes() for path in Path("results/grid").rglob("*.*")}
    assert plan(grid, race="token_f1").to_run == ()
    assert len(plan(grid).to_run) == 2
    verified = verify("results/grid")
    assert [(each.differences, each.compared > 0) for each in verified] == [((), True)] * 4


def test_questions_of_a_cluster_are_drawn_together() -> None:
    cases = [Case(f"q{i}", "?", metadata={"cluster": str(i // 3)}) for i in range(9)]
    draws = draws_of(Dataset("d", "test", {}, cases, {}), seed=3)
    assert sorted(map(len, draws)) == [3, 3, 3]
    assert draws != draws_of(Dataset("d", "test", {}, cases, {}), seed=4)


def test_a_race_is_foreseen_from_stored_results_though_questions_without_evidence_have_no_score(
    tmp_path: Path,
) -> None:
    copy_committed("results/quickstart", tmp_path / "quickstart")
    note = plan(NOTEBOOKS / "quickstart.toml", race="auto", out=tmp_path).notes[-1]
    assert "50 races on the stored scores of 6 configurations and 110 questions" in note
