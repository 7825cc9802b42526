"""`concurrency` and `timeout_s` are one option for everything that asks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench import generation, labelling, llms
from ragbench.cli import app
from ragbench.evaluation import EvaluationSpec, config_name, configuration, spec_of
from ragbench.evaluation.identity import made_from
from ragbench.evaluation.requests import answer_all
from ragbench.generation.references import generate_references, reference_sources
from ragbench.judges import judge_audit
from ragbench.labelling import judge_relevance
from ragbench.sweep.grid import read_grid
from ragbench.sweep.notebooks import read_notebook
from ragbench.systems import Pipeline, RecordedSystem, ask
from ragbench.types import Answer, Case, Document

ROOT = Path(__file__).parents[2]
N = 12
CORPUS = {f"d{i}": Document(f"d{i}", f"Bridge {i} was opened in {1900 + i}.") for i in range(N)}
CASES = [
    Case(f"q{i}", f"When was bridge {i} opened?", reference_answer=f"In {1900 + i}.")
    for i in range(N)
]
DATA = rb.Dataset("bridges", "test", CORPUS, CASES, {f"q{i}": {f"d{i}": 1} for i in range(N)})


@pytest.fixture
def sheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three labels on each answer, so that there are enough to tune, and a place with the test set."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ragbench.judges.card.user_data_path", lambda *_, **__: tmp_path / "data")
    rb.testsets.save_testset(DATA, tmp_path / "set.yaml", "yaml")
    path = tmp_path / "labels.csv"
    results = [
        rb.evaluate(DATA, [Answer(q, f"{word} {q}.") for q in DATA.queries], name=word)
        for word in ("In", "By", "At")
    ]
    for result in results:
        items = labelling.draw_items([result], "correctness", dataset=DATA, n=N)
        labelling.label_sheet(items, path)
    rows = labelling.read_sheet(path)
    rows.assign(verdict="yes").drop(columns="value").to_csv(path, index=False)
    return path


@pytest.fixture
def together(loopback: Any, wire: Any, llm_environment: Any) -> Callable[[int], Any]:
    """A server that replies to no one before `n` requests are there at the same time."""

    def start(n: int) -> Any:
        lock, arrived, all_there = threading.Lock(), [0], threading.Event()

        def reply(asked: Any) -> Any:
            with lock:
                arrived[0] += 1
                if arrived[0] == n:
                    all_there.set()
            all_there.wait(30)
            return wire.Answered(wire.openai('{"verdict": true, "grade": 1, "reason": "yes"}'))

        server = loopback(reply)
        llm_environment.setenv("RAG_EVAL_OPENAI_BASE_URL", server.url)
        llm_environment.setenv("RAG_EVAL_OPENAI_API_KEY", "k")
        return server

    return start


def answers() -> list[Answer]:
    return [Answer(f"q{i}", f"In {1900 + i}.") for i in range(N)]


PIPELINE = Pipeline(DATA)
ANSWERED = RecordedSystem([Answer(f"q{i}", f"In {1900 + i}.") for i in range(N)])
ASKS: dict[str, Callable[[int], object]] = {
    "judge": lambda n: rb.judge(
        answers(), "correctness", "openai:m", dataset=DATA, chunks=(), concurrency=n
    ),
    "judge_audit": lambda n: judge_audit(
        answers(), "correctness", "openai:m", dataset=DATA, n=4, concurrency=n
    ),
    "judge_relevance": lambda n: judge_relevance(
        DATA, [{q: {"d0": 1.0, "d1": 0.5} for q in DATA.queries}], "openai:m", concurrency=n
    ),
    "references": lambda n: generate_references(
        DATA, reference_sources(DATA, [*DATA.queries]), "openai:m", concurrency=n
    ),
    "answers": lambda n: ask(PIPELINE.with_llm("openai:m"), DATA, concurrency=n),
    "evaluate, who answers": lambda n: answer_all(
        DATA, PIPELINE.with_llm("openai:m"), concurrency=n, timed=0
    ),
    "evaluate, who judges": lambda n: rb.evaluate(
        DATA, ANSWERED, judge="openai:m", perspectives="answer", concurrency=n
    ),
    "evaluate, asked again": lambda n: PIPELINE.with_llm("openai:m").answer_from(
        DATA.cases, dict.fromkeys(DATA.queries, PIPELINE.chunks[:1]), concurrency=n
    ),
}


@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
@pytest.mark.filterwarnings("ignore::ragbench.errors.JudgeWarning")
@pytest.mark.parametrize("name", ASKS)
@pytest.mark.parametrize("n", [2, 11])
def test_no_more_and_no_fewer_requests_are_on_their_way_than_said(
    together: Any, name: str, n: int
) -> None:
    server = together(n)
    ASKS[name](n)
    assert server.most_at_once == n


@pytest.mark.filterwarnings("ignore::ragbench.errors.JudgeWarning")
@pytest.mark.parametrize(
    "command",
    [
        ["audit", "openai:m", "--criteria", "correctness", "--n", "4", "--labels", "labels.csv"],
        ["tune", "openai:m", "--labels", "labels.csv"],
    ],
)
def test_commands_that_ask_a_judge_have_both_options(
    sheet: Path, together: Any, command: list[str]
) -> None:
    server = together(3)
    options = ["--allow-unpriced", "--concurrency", "3", "--timeout-s", "77"]
    if command[0] == "audit":
        options += ["--test-set", "set.yaml"]
    done = CliRunner().invoke(app, [*command, *options])
    assert done.exit_code in (0, 1), done.output
    assert server.most_at_once == 3


def test_a_time_limit_reaches_answers_and_judge(
    loopback: Any, wire: Any, llm_environment: Any
) -> None:
    server = loopback(lambda asked: wire.Answered(wire.openai("Yes."), delay_s=1.0))
    llm_environment.setenv("RAG_EVAL_OPENAI_BASE_URL", server.url)
    llm_environment.setenv("RAG_EVAL_OPENAI_API_KEY", "k")
    one = answers()[:1]
    with pytest.warns(rb.errors.DataWarning, match=r"no reply within 0\.2 s"):
        rb.judge(one, "correctness", "openai:m", dataset=DATA, chunks=(), timeout_s=0.2)
    chunks = rb.chunk(DATA, "document")
    run = {"q0": {chunks[0].chunk_id: 1.0}}
    with pytest.warns(rb.errors.DataWarning, match=r"no reply within 0\.2 s"):
        generation.generate_answers(DATA, run, chunks, "openai:m", timeout_s=0.2)


def test_how_requests_are_sent_is_no_part_of_a_configuration() -> None:
    plain = {"retriever": "bm25", "chunk_size": 128}
    asking = {**plain, "concurrency": 2, "timeout_s": 900.0}
    assert configuration(asking) == plain
    assert config_name(asking) == config_name(plain)
    digests = [
        made_from(DATA, "bm25", EvaluationSpec(concurrency=n, timeout_s=s), {})
        for n, s in ((2, 900.0), (8, 300.0))
    ]
    assert digests[0] == digests[1]


@pytest.mark.parametrize(
    ("name", "value"), [("timeout_s", 0), ("timeout_s", float("inf")), ("concurrency", 0)]
)
def test_limits_that_nothing_can_meet_are_refused(name: str, value: float) -> None:
    with pytest.raises(rb.errors.ConfigError, match=name):
        EvaluationSpec(**{name: value})  # type: ignore[arg-type]


def test_a_grid_sets_them_for_its_runs_without_renaming_them(tmp_path: Path) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text('[fixed]\nretriever = "bm25"\n[axes]\nchunk_size = [64, 128]\n')
    plain = read_grid(grid)
    grid.write_text(
        '[fixed]\nretriever = "bm25"\nconcurrency = 2\n[axes]\nchunk_size = [64, 128]\n'
    )
    limited = read_grid(grid, ["timeout_s=900"])
    assert limited.runs == plain.runs
    assert set(map(str, limited.requests.values())) == {str({"concurrency": 2, "timeout_s": 900.0})}
    assert set(map(str, plain.requests.values())) == {
        str({"concurrency": 8, "timeout_s": llms.TIMEOUT_S})
    }


def test_the_notebook_has_them_as_parameters() -> None:
    notebook = read_notebook(ROOT / "notebooks" / "evaluate.ipynb")
    assert notebook.defaults["concurrency"] == 8
    assert notebook.defaults["timeout_s"] == llms.TIMEOUT_S
    assert spec_of({**notebook.defaults, "timeout_s": 60.0}).timeout_s == 60
