"""Sweeps that ask language models: real processes and kernels, a loopback server, a short version
of evaluate.ipynb.
"""

from __future__ import annotations

import collections
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
from typer.testing import CliRunner

from ragbench import store
from ragbench.cli import app
from ragbench.errors import ConfigError
from ragbench.generation.generator_prompts import GENERATION_SYSTEM
from ragbench.llms import batch_interface, current_settings
from ragbench.llms.batch_interface import FORGET
from ragbench.store import budgets, database, replies, submissions
from ragbench.store.replies import Request
from ragbench.store.submissions import Batch
from ragbench.sweep import plan, read_grid, sweep, verify
from ragbench.sweep.plan import check_batches
from ragbench.sweep.worker import failed_requests
from ragbench.testsets.loader import load_dataset
from tests.batch_server import BatchServer

KEY = "sk-marked-0123456789-marked"

PARAMETERS = """
dataset: str = "pydoc"
limit: int = 3
chunker: str = "fixed"
chunk_size: int = 256
retriever: str = "bm25"
k: int = 2
llm: str = "openai:m"
prompt: str = "cited"
judge: str = ""
criteria: str = "correctness,relevance"
combine_criteria: bool = True
note: str = ""
results_dir: str = ""
"""

# evaluate.ipynb without its figures and the scores that need a neural model.
WORK = """
import pandas as pd
import ragbench as rb
from ragbench import evaluation

parameters = {name: globals()[name] for name in __annotations__}
data = rb.load_dataset(dataset)
data = data.sample(limit)
spec = evaluation.spec_of(parameters)
given = evaluation.ask_all(data, evaluation.system_of(parameters, data), spec, journal=results_dir)
answers, judgements = given.answers, given.judgements or []
scores = pd.concat([rb.score_run(data.qrels, given.documents, ["nDCG@10"]), rb.metrics.score_judgements(judgements)])
result = evaluation.new_result(
    parameters=parameters, dataset=data, run=given.documents, scores=scores, answers=answers,
    judgements=judgements, facts=evaluation.cost_facts(evaluation.costs_of(answers), answers),
)
rb.save(result, results_dir)
len(judgements)
"""

PROMPTS_AND_JUDGE = '[fixed]\njudge = "openai:j"\n[axes]\nprompt = ["cited", "plain"]'
runner = CliRunner()


def write_grid(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    notebook = nbformat.v4.new_notebook()
    first = nbformat.v4.new_code_cell(PARAMETERS.strip(), metadata={"tags": ["parameters"]})
    notebook.cells = [first, nbformat.v4.new_code_cell(WORK.strip())]
    for i, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{i}"
    (folder / "evaluate.ipynb").write_text(nbformat.writes(notebook), encoding="utf-8")
    (folder / "tiny.toml").write_text(text, encoding="utf-8")
    return folder / "tiny.toml"


def sweep_command(grid: Path, out: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "ragbench", "sweep", str(grid), "--output", str(out), *options]


def reply_to(asked: Any, wire: Any) -> Any:
    """What a good model replies: an answer with a citation, or the verdicts that it was asked for."""
    system, user = (message["content"] for message in asked.body["messages"])
    if system == GENERATION_SYSTEM:
        return wire.Answered(
            wire.openai(f"It is so, as the document of {len(user)} characters says [1].")
        )
    verdicts: dict[str, Any] = {}
    for name, key, value in (("correctness", "verdict", True), ("relevance", "score", 0.75)):
        if f'"{name}":' in user:
            verdicts[name] = {"reason": "Because it is.", key: value}
    return wire.Answered(wire.openai(json.dumps(verdicts)))


def prompts_of(server: Any) -> list[tuple[str, str]]:
    """Model and prompt of each whole request; one whose sender was killed while sending has no
    body.
    """
    whole = [asked.body for asked in server.asked if asked.body]
    return [(body["model"], body["messages"][1]["content"]) for body in whole]


def settings(patch: pytest.MonkeyPatch, cache_folder: Path, url: str, folder: Path) -> None:
    for variable in [*os.environ]:
        if variable.startswith(("RAG_EVAL_", "RAGBENCH_", "ANTHROPIC_", "OPENAI_")):
            patch.delenv(variable)
    # A thousand dollars per million tokens, so a reply of 11 + 7 tokens is 0.018.
    prices = folder / "prices.toml"
    entry = "{ input = 1000, output = 1000 }"
    prices.write_text(
        f'checked = 2026-01-01\n[models]\n"openai:m" = {entry}\n"openai:j" = {entry}',
        encoding="utf-8",
    )
    patch.setenv("RAGBENCH_PRICES", str(prices))
    patch.setenv("RAGBENCH_CACHE_DIR", str(cache_folder))
    patch.setenv("RAG_EVAL_OPENAI_BASE_URL", url)
    patch.setenv("RAG_EVAL_OPENAI_API_KEY", KEY)


@pytest.fixture
def server(loopback: Any, wire: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    started = loopback(lambda asked: reply_to(asked, wire))
    settings(monkeypatch, tmp_path / "cache", started.url, tmp_path)
    return started


class Finished:
    """A sweep that ran once for the tests that only look at it."""

    def __init__(self, folder: Path, wire: Any) -> None:
        self.server = wire.Loopback(lambda asked: reply_to(asked, wire))
        self.root, self.out, self.cache = folder, folder / "out", folder / "cache"
        self.grid = write_grid(folder / "notebooks", PROMPTS_AND_JUDGE)
        self.output = ""
        with pytest.MonkeyPatch.context() as patch:
            settings(patch, self.cache, self.server.url, folder)
            self.before = plan(self.grid, out=self.out)
            self.asked_before = len(self.server.asked)
            command = sweep_command(self.grid, self.out)
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            self.output = done.stdout + done.stderr
            self.after = plan(self.grid, out=self.out)
            self.forced = plan(self.grid, out=self.out, force=True)
            self.without_store = plan(self.grid, out=self.out, force=True, replies="off")
            self.replies = replies.info()["file"]
            database._local_database()._close()
        self.server.shutdown()
        self.server.server_close()

    @property
    def results(self) -> Path:
        return self.out / "tiny"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, wire: Any) -> Finished:
    return Finished(tmp_path_factory.mktemp("finished"), wire)


def scores_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.name in {"scores.csv", "run.trec"}
    }


# --- by the batch interfaces
# -----------------------------------------------------------------------------------------------


@pytest.fixture
def served(loopback: Any, wire: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server with a batch interface, which replies what the one of the other tests does."""
    served = BatchServer(wire)
    served.text_of = lambda body: str(
        reply_to(wire.Asked("POST", "", {}, body), wire).body["choices"][0]["message"]["content"]
    )
    settings(monkeypatch, tmp_path / "cache", loopback(served.reply).url, tmp_path)
    monkeypatch.setattr(batch_interface, "POLL_S", 0.01)
    return served


def test_a_sweep_by_batches_is_the_same_and_costs_half(
    finished: Finished, served: Any, tmp_path: Path
) -> None:
    grid, out = write_grid(tmp_path / "notebooks", PROMPTS_AND_JUDGE), tmp_path / "out"
    dry = runner.invoke(app, ["sweep", str(grid), "--output", str(out), "--dry-run"])
    alone, half = re.findall(r"(?:Total cost|With --batch): about \$([\d.]+)", dry.output)
    assert float(half) == pytest.approx(float(alone) / 2, abs=1e-4)
    done = runner.invoke(
        app, ["sweep", str(grid), "--output", str(out), "--batch", "--max-cost", "99"]
    )
    assert done.exit_code == 0, done.output
    # Two prompts x three questions and their verdicts: the first of each alone.
    assert (len(served.alone), served.sizes) == (2, [5, 5])
    assert "batch batch_1: 5 replies for $0.0450, half of the price" in done.output
    assert plan(grid, out=out, max_cost=99).spent == pytest.approx(2 * 0.018 + 10 * 0.009)
    assert scores_of(out) == scores_of(finished.out)


def test_a_maximum_that_is_reached_before_the_first_batch_stops_the_runs(
    loopback: Any, wire: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = BatchServer(wire)
    settings(monkeypatch, tmp_path / "cache", loopback(served.reply).url, tmp_path)
    grid = write_grid(tmp_path / "notebooks", PROMPTS_AND_JUDGE)
    command = ["sweep", str(grid), "--output", str(tmp_path), "--batch", "--max-cost", "0.01"]
    done = runner.invoke(app, command)
    assert done.exit_code == 3, done.output
    assert "the maximum cost of 0.01 dollars is reached" in done.output
    assert (served.alone, served.sizes) == ([], [])


def test_batches_that_would_do_nothing_are_refused(
    finished: Finished, server: Any, tmp_path: Path
) -> None:
    with pytest.raises(
        ConfigError, match="all questions at once, and a race leaves most of them out"
    ):
        sweep(finished.grid, out=tmp_path, batch=True, race="auto")
    with pytest.raises(ConfigError, match="needs the reply store"):
        sweep(finished.grid, out=tmp_path, batch=True, replies="off")


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("stage", ["answers", "verdicts"])
def test_what_is_on_its_way_is_not_paid_for_again_without_batches(
    stage: str, served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = write_grid(tmp_path / "notebooks", PROMPTS_AND_JUDGE)
    plain = ["sweep", str(grid), "--output", str(tmp_path / "out")]
    done, calls = batch_interface._submit, itertools.count()

    with monkeypatch.context() as patch:

        def submit(llm: Any, requests: Any) -> Any:
            batch = done(llm, requests)
            if stage == "answers" or next(calls) == 1:
                patch.setattr(batch_interface, "_poll", interrupt)
            return batch

        patch.setattr(batch_interface, "_submit", submit)
        stopped = runner.invoke(app, [*plain, "--batch"])
    assert stopped.exit_code == 130
    assert "The provider keeps working on 5 requests to openai:" in stopped.output
    n_sent, name = len(served.prompts), f"batch_{len(served.sizes) - 1}"
    refused = runner.invoke(app, plain)
    assert refused.exit_code == 2
    assert len(served.prompts) == n_sent
    message = re.search(
        r"would pay again for requests that are on their way: 5 requests to openai:(\w) http://127.* since "
        r"\d{4}-\d\d-\d\d \d\d:\d\d, for at most \$\d+\.\d+ \((\w+)\)\. The same command with --batch",
        refused.output,
    )
    assert message
    assert message.groups() == ("m" if stage == "answers" else "j", name)
    assert f'RAGBENCH_FORGET_BATCHES="{name}"' in refused.output
    assert KEY not in refused.output
    collected = runner.invoke(app, [*plain, "--batch"])
    assert collected.exit_code == 0, collected.output
    assert served.sizes == [5, 5]
    assert len(served.prompts) == len({*served.prompts}) == 12


def test_batches_that_are_given_up_are_no_obstacle(
    loopback: Any, wire: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = BatchServer(wire)
    settings(monkeypatch, tmp_path / "cache", loopback(served.reply).url, tmp_path)
    grid = write_grid(tmp_path / "notebooks", "[axes]\nprompt = ['cited', 'plain']")
    plain = ["sweep", str(grid), "--output", str(tmp_path / "out")]
    with monkeypatch.context() as patch:
        patch.setattr(batch_interface, "_poll", interrupt)
        assert runner.invoke(app, [*plain, "--batch"]).exit_code == 130
    monkeypatch.setenv(FORGET, "batch_0")
    assert runner.invoke(app, plain).exit_code == 0
    assert (len(served.alone), served.sizes) == (6, [5])


def test_batches_of_another_sweep_are_named(finished: Finished, server: Any) -> None:
    grid, lines = read_grid(finished.grid), list[str]()
    check_batches(grid, [*grid.runs], current_settings(), lines.append)
    assert lines == []
    other = Request("openai", "x", "Who?")
    submissions.put(Batch("tag", "openai:x server", "batch_7", 0.0, 0, (other,)))
    check_batches(grid, [], current_settings(), lines.append)
    assert lines == []
    check_batches(grid, [*grid.runs], current_settings(), lines.append)
    assert len(lines) == 1
    assert re.fullmatch(
        r"Batches are not collected yet, by their sweep with --batch: 1 requests to openai:x server "
        r"since 19[67]\d-.*, for an unknown price \(batch_7\)",
        lines[0],
    )


# --- what it will cost
# -----------------------------------------------------------------------------------------------


def test_a_plan_counts_what_is_then_really_sent(finished: Finished) -> None:
    assert finished.asked_before == 0
    assert len(finished.before.to_run) == 2
    assert finished.before.finished == ()
    judge, generator = finished.before.models
    asked = collections.Counter(model for model, _ in prompts_of(finished.server))
    # Two prompts x three questions, each judged once by both criteria together.
    assert (generator.model, generator.to_send, generator.cached) == ("openai:m", 6, 0)
    assert (judge.model, judge.to_send, judge.uncertain) == ("openai:j", 6, 6)
    assert asked == {"m": 6, "j": 6}
    assert max(collections.Counter(prompts_of(finished.server)).values()) == 1


def test_a_plan_knows_tokens_and_bounds_of_the_cost(finished: Finished) -> None:
    _, generator = finished.before.models
    sent = [a for a in finished.server.asked if a.body["model"] == "m"]
    texts = ["".join(message["content"] for message in asked.body["messages"]) for asked in sent]
    assert generator.input_tokens == sum(-(-len(text.encode()) // 4) for text in texts)
    assert generator.output_tokens == 6 * 128, "a quarter of the limit: no reply is known yet"
    assert generator.cost == pytest.approx((generator.input_tokens + 6 * 128) / 1000)
    assert generator.max_cost == pytest.approx((generator.input_tokens + 6 * 512) / 1000)


def test_a_plan_after_the_sweep_has_nothing_to_send(finished: Finished) -> None:
    assert (finished.after.to_run, len(finished.after.finished), finished.after.models) == (
        (),
        2,
        (),
    )
    judge, generator = finished.forced.models
    assert (judge.cached, judge.to_send, generator.cached, generator.to_send) == (6, 0, 6, 0)
    judge, generator = finished.without_store.models
    assert (judge.cached, judge.to_send, generator.cached, generator.to_send) == (0, 6, 0, 6)


def test_a_plan_is_printed_and_writes_nothing(server: Any, tmp_path: Path) -> None:
    grid = write_grid(tmp_path / "notebooks", PROMPTS_AND_JUDGE)
    done = runner.invoke(
        app, ["sweep", str(grid), "--output", str(tmp_path / "out"), "--dry-run", "--max-cost", "5"]
    )
    assert done.exit_code == 0, done.output
    for line in (
        "Notebooks: 2 to run, 0 finished already",
        "openai:m:",
        "  requests cached:  0",
        "  requests to send: 6",
        "  requests to send: 6, of which 6 rest on replies that are still to be written",
        "Maximum: $5.00, of which $0.0000 is spent",
    ):
        assert line in done.output
    assert re.search(
        r"Total cost: about \$\d+\.\d{4}, \$\d+\.\d{4} with the longest replies", done.output
    )
    assert not (tmp_path / "out").exists()
    assert server.asked == []


def test_the_cost_of_a_plan_without_a_price_is_unknown(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAGBENCH_PRICES")
    grid = write_grid(tmp_path / "notebooks", "[fixed]\nlimit = 2")
    done = runner.invoke(app, ["sweep", str(grid), "--dry-run"])
    assert "has no price; name a table of prices in RAGBENCH_PRICES" in done.output
    assert "$" not in done.output
    refused = runner.invoke(app, ["sweep", str(grid), "--dry-run", "--max-cost", "1"])
    assert refused.exit_code == 2
    assert "the price of openai:m is unknown" in refused.output


def test_a_plan_of_the_extractive_baseline_sends_no_request(server: Any, tmp_path: Path) -> None:
    grid = write_grid(tmp_path / "notebooks", '[fixed]\nllm = "extractive"')
    done = runner.invoke(app, ["sweep", str(grid), "--dry-run"])
    assert "Requests to language models: none" in done.output


def test_configurations_that_ask_the_same_are_counted_once(server: Any, tmp_path: Path) -> None:
    grid = write_grid(tmp_path / "notebooks", "[axes]\nnote = ['a', 'b']")
    (model,) = plan(grid).models
    assert model.to_send == 3
    (model,) = plan(grid, replies="off").models
    assert model.to_send == 6, "without the store each pays for itself"


@pytest.mark.parametrize("llms", ['"openai:m", "extractive"', '"extractive", "openai:m"'])
def test_each_configuration_is_foreseen_with_its_own_model(
    llms: str, server: Any, tmp_path: Path
) -> None:
    grid = write_grid(
        tmp_path / "notebooks", f'[fixed]\njudge = "openai:j"\n[axes]\nllm = [{llms}]'
    )
    planned = plan(grid, out=tmp_path / "out")
    assert dict(sweep(grid, out=tmp_path / "out").failed) == {}
    asked = collections.Counter(f"openai:{model}" for model, _ in prompts_of(server))
    assert asked == {model.model: model.to_send for model in planned.models}
    forced = plan(grid, out=tmp_path / "out", force=True, replies="off")
    assert asked == {model.model: model.to_send for model in forced.models}


def test_the_real_notebook_sends_what_was_planned_and_shows_what_came_of_it(
    server: Any, tmp_path: Path
) -> None:
    source = Path(__file__).parents[2] / "notebooks" / "evaluate.ipynb"
    text = f"""
        [sweep]
        notebook = {json.dumps(str(source))}
        [fixed]
        llm = "openai:m"
        judge = "openai:j"
        criteria = "relevance, correctness"
        limit = 4
        max_context_tokens = 400
        retriever = "bm25"
    """
    (tmp_path / "real.toml").write_text(text, encoding="utf-8")
    planned = plan(tmp_path / "real.toml", out=tmp_path / "out")
    result = sweep(tmp_path / "real.toml", out=tmp_path / "out")
    assert dict(result.failed) == {}
    asked = collections.Counter(f"openai:{model}" for model, _ in prompts_of(server))
    assert (
        asked
        == {model.model: model.to_send for model in planned.models}
        == {"openai:m": 4, "openai:j": 7}  # one question has no reference
    )
    assert [
        model.to_send
        for model in plan(tmp_path / "real.toml", out=tmp_path / "out", force=True).models
    ] == [0, 0]

    (name,) = result.finished
    config = json.loads(
        (tmp_path / "out" / "real" / name / "config.json").read_text(encoding="utf-8")
    )
    assert config["facts"]["generator_cost_usd"] == pytest.approx(4 * 0.018)
    assert config["facts"]["judge_cost_usd"] == pytest.approx(7 * 0.018)
    assert config["facts"]["cost_usd"] == pytest.approx(11 * 0.018)
    assert config["facts"]["generate_ms"] > 0
    assert config["counts"]["judgements"] == 8
    executed = nbformat.read(tmp_path / "out" / "real" / f"{name}.ipynb", as_version=4)
    outputs = [
        output for cell in executed.cells for output in cell.get("outputs", []) if "data" in output
    ]
    shown = "\n".join(output.data.get("text/plain", "") for output in outputs)
    for text in ("openai:m", "0.072", "llm_correctness"):
        assert text in shown, text
    assert not re.search(r"\bnan\b", shown, re.IGNORECASE)


def test_interventions_are_planned_too(server: Any, tmp_path: Path) -> None:
    source = Path(__file__).parents[2] / "notebooks" / "evaluate.ipynb"
    text = f"""
        [sweep]
        notebook = {json.dumps(str(source))}
        [fixed]
        llm = "openai:m"
        judge = "openai:j"
        criteria = "relevance"
        limit = 3
        retriever = "bm25"
        interventions = "gold-only,best-chunks,empty"
    """
    (tmp_path / "real.toml").write_text(text, encoding="utf-8")
    planned = plan(tmp_path / "real.toml", out=tmp_path / "out")
    result = sweep(tmp_path / "real.toml", out=tmp_path / "out")
    assert dict(result.failed) == {}
    asked = collections.Counter(f"openai:{model}" for model, _ in prompts_of(server))
    answerable = sum(case.answerable for case in load_dataset("pydoc").sample(3).cases)
    assert asked["openai:m"] == 3 + 3 * answerable, (
        "as retrieved; and from the gold evidence, from the best chunks, from nothing"
    )
    assert asked["openai:m"] == {model.model: model.to_send for model in planned.models}["openai:m"]
    # Verdicts on answers that turn out to be alike are asked for once; before they are there, that
    # is not known.
    assert (
        0
        < asked["openai:j"]
        <= {model.model: model.to_send for model in planned.models}["openai:j"]
    )
    (name,) = result.finished
    scores = (tmp_path / "out" / "real" / name / "scores.csv").read_text(encoding="utf-8")
    for name in ("untouched", "gold-only", "best-chunks", "empty"):
        assert f",correct:{name}," in scores


# --- the key
# ---------------------------------------------------------------------------------------------------------


def test_the_key_is_in_nothing_that_a_sweep_writes(finished: Finished) -> None:
    assert {asked.headers["authorization"] for asked in finished.server.asked} == {f"Bearer {KEY}"}
    written = {path: path.read_bytes() for path in finished.root.rglob("*") if path.is_file()}
    assert {"config.json", "answers.jsonl", "replies.sqlite"} <= {path.name for path in written}

    texts = [
        *written.values(),
        Path(finished.replies).read_bytes(),
        finished.output.encode(),
    ]
    for text in texts:
        assert KEY.encode() not in text
        assert KEY[3:].encode() not in text


def test_the_key_is_in_nothing_that_a_failing_sweep_writes(
    server: Any, wire: Any, tmp_path: Path
) -> None:
    error = {
        "error": {"message": f"Incorrect API key provided: {KEY}", "type": "invalid_request_error"}
    }
    server.reply = lambda asked: wire.Answered(error, status=401)
    grid = write_grid(tmp_path / "notebooks", "[fixed]\nlimit = 2")
    command = sweep_command(grid, tmp_path / "out")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "2 requests to a language model failed, the first: openai:m:" in done.stderr
    assert list((tmp_path / "out" / "tiny").glob("*.failed.ipynb"))
    for text in [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()] + [
        done.stdout.encode()
    ]:
        assert KEY.encode() not in text
    assert KEY not in done.stderr


# --- offline
# ---------------------------------------------------------------------------------------------------------


def test_a_copy_of_the_replies_gives_the_same_bytes_without_server_and_key(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(monkeypatch, tmp_path / "cache", "http://127.0.0.1:9/elsewhere", tmp_path)
    monkeypatch.delenv("RAG_EVAL_OPENAI_API_KEY")
    (tmp_path / "cache").mkdir()
    shutil.copy(finished.replies, tmp_path / "cache")
    options = ["--output", str(tmp_path / "out"), "--offline", "--jobs", "2"]
    done = runner.invoke(app, ["sweep", str(finished.grid), *options])
    assert done.exit_code == 0, done.output
    assert scores_of(tmp_path / "out" / "tiny") == scores_of(finished.results)
    assert len(scores_of(finished.results)) == 4


def test_offline_a_missing_reply_is_named(server: Any, tmp_path: Path) -> None:
    grid = write_grid(tmp_path / "notebooks", "[fixed]\nlimit = 2")
    result = sweep(grid, out=tmp_path / "out", replies="offline")
    (error,) = result.failed.values()
    assert "2 requests to a language model failed, the first: openai:m: offline" in error
    assert "the prompt that starts 'Answer the question from the documents below." in error
    question = next(iter(load_dataset("pydoc").sample(2).queries.values()))
    assert " ".join(question.split())[-40:] in error.partition("and ends")[2], (
        "all prompts start alike"
    )
    assert server.asked == []
    (model,) = plan(grid, out=tmp_path / "out", replies="offline").models
    assert (model.cached, model.to_send) == (0, 2)


def test_offline_and_no_cache_exclude_each_other(tmp_path: Path) -> None:
    done = runner.invoke(app, ["sweep", str(tmp_path / "x.toml"), "--offline", "--no-cache"])
    assert done.exit_code == 2
    assert "give one of them" in done.output


# --- the maximum cost
# ------------------------------------------------------------------------------------------------


def test_a_maximum_cost_stops_in_time_and_a_higher_one_continues(
    server: Any, wire: Any, tmp_path: Path
) -> None:
    grid = write_grid(tmp_path / "notebooks", '[axes]\nprompt = ["cited", "plain", "concise"]')
    command = ["sweep", str(grid), "--output", str(tmp_path / "out"), "--jobs", "1", "--max-cost"]
    # Each reply costs 1.2 dollars. Before it was sent it might have cost some 4: a token for each
    # byte of the prompt.
    server.reply = lambda asked: wire.Answered(wire.openai("It is so [1].", read=1000, written=200))
    stopped = runner.invoke(app, [*command, "9"])
    assert stopped.exit_code == 3, stopped.output
    assert "1 run, 0 finished before, 1 failed, 1 not begun" in stopped.output
    assert "the maximum cost of 9.00 dollars is reached" in stopped.output
    assert "2 configurations are not finished" in stopped.output
    assert "with a higher --max-cost continues from there" in stopped.output
    (failed,) = (tmp_path / "out" / "tiny").glob("*.failed.ipynb")
    assert "budget: openai:m may cost" in failed.read_text(encoding="utf-8")
    budget = f"sweep {store.digest(str(tmp_path / 'out' / 'tiny'))[:16]}"
    paid = len(server.asked)
    assert 3 < paid < 6
    assert budgets.spent(budget).settled == pytest.approx(1.2 * paid)

    again = runner.invoke(app, [*command, "9"])
    assert (again.exit_code, len(server.asked)) == (3, paid), (
        "the maximum is that of the sweep, not of one command"
    )
    planned = runner.invoke(app, [*command, "50", "--dry-run"])
    assert f"requests to send: {9 - paid}" in planned.output
    assert f"Maximum: $50.00, of which ${1.2 * paid:.4f} is spent" in planned.output
    done = runner.invoke(app, [*command, "50"])
    assert done.exit_code == 0, done.output
    assert collections.Counter(collections.Counter(prompts_of(server)).values()) == {1: 9}, (
        "nothing is paid for twice"
    )
    assert budgets.spent(budget).settled == pytest.approx(9 * 1.2)


# --- failures
# --------------------------------------------------------------------------------------------------------


def test_a_run_whose_requests_failed_is_not_finished_and_asks_for_the_rest_only(
    server: Any, wire: Any, tmp_path: Path
) -> None:
    grid = write_grid(tmp_path / "notebooks", "[fixed]\nlimit = 3")
    seen: list[int] = []

    def second_fails(asked: Any) -> Any:
        seen.append(1)
        return wire.Answered(status=400) if len(seen) == 2 else reply_to(asked, wire)

    server.reply = second_fails
    result = sweep(grid, out=tmp_path / "out")
    ((name, error),) = result.failed.items()
    assert error.startswith("1 requests to a language model failed, the first: openai:m:")
    assert "--allow-failed" in error
    assert not (tmp_path / "out" / "tiny" / name).exists()

    server.reply = lambda asked: wire.Answered(status=400)
    allowed = sweep(grid, out=tmp_path / "out", allow_failed=True)
    assert allowed.finished == (name,)
    assert len(failed_requests(tmp_path / "out" / "tiny" / name)) == 1
    assert len(server.asked) == 3 + 1
    server.reply = lambda asked: reply_to(asked, wire)
    assert sweep(grid, out=tmp_path / "out", force=True).finished == (name,)
    assert len(server.asked) == 3 + 1 + 1


@pytest.mark.skipif(os.name != "posix", reason="kills a group of processes")
def test_killed_in_the_middle_and_started_again_each_request_is_sent_once(
    server: Any, wire: Any, tmp_path: Path
) -> None:
    grid = write_grid(
        tmp_path / "notebooks", '[fixed]\nlimit = 30\n[axes]\nprompt = ["cited", "plain"]'
    )

    def slowly(asked: Any) -> Any:
        time.sleep(0.3)
        return reply_to(asked, wire)

    server.reply = slowly
    command = sweep_command(grid, tmp_path / "out", "--jobs", "2")
    running = subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while len(server.asked) < 20:
        assert running.poll() is None
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    time.sleep(1.5)  # the workers see that the sweep is gone, and end
    server.reply = lambda asked: reply_to(asked, wire)
    before = len(prompts_of(server))
    (model,) = plan(grid, out=tmp_path / "out").models
    assert dict(sweep(grid, out=tmp_path / "out", jobs=2).failed) == {}
    counts = collections.Counter(prompts_of(server))
    assert len(counts) == 60
    assert counts.total() - before == model.to_send, "the plan counted what was left"
    assert counts.total() <= 60 + 2 * 8, "only what was on its way may be asked for again"
    assert max(counts.values()) <= 2


JUMPING = """
import itertools
import time

DAY_S = 86400
jumps = itertools.cycle([0, DAY_S, -DAY_S, 3600, -40 * DAY_S, -3600, 0])
true_time = time.time
time.time = lambda: true_time() + next(jumps)
"""


def test_a_clock_that_jumps_at_every_look_runs_nothing_twice_and_loses_nothing(
    finished: Finished, server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = write_grid(tmp_path / "notebooks", PROMPTS_AND_JUDGE)
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "sitecustomize.py").write_text(JUMPING, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(modules))
    seen = subprocess.run(
        [sys.executable, "-c", "import time; print(time.time() + 3600 < time.time())"],
        capture_output=True,
        text=True,
    )
    assert seen.stdout == "True\n"
    command = sweep_command(grid, tmp_path / "out", "--jobs", "2", "--max-cost", "500")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    counts = collections.Counter(prompts_of(server))
    assert counts == collections.Counter(prompts_of(finished.server))
    assert set(counts.values()) == {1}
    assert scores_of(tmp_path / "out") == scores_of(finished.out)
    budget = f"sweep {store.digest(str(tmp_path / 'out' / 'tiny'))[:16]}"
    spent = budgets.spent(budget)
    assert spent.settled == pytest.approx(0.018 * counts.total())
    assert (spent.open, spent.lost) == (0.0, 0.0)

    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert "2 finished before" in again.stdout + again.stderr
    assert len(server.asked) == counts.total()


# --- verify
# ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def copied(finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The finished sweep's folder, as a colleague has it: with the replies, without server and key."""
    settings(monkeypatch, finished.cache, "http://127.0.0.1:9", tmp_path)
    monkeypatch.delenv("RAG_EVAL_OPENAI_API_KEY")
    monkeypatch.setenv("RAGBENCH_YES", "1")  # its cells do not come with ragbench
    shutil.copytree(finished.results, tmp_path / "out" / "tiny")
    return tmp_path / "out" / "tiny"


def test_verify_reports_that_all_numbers_are_the_same(copied: Path) -> None:
    before = {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()}
    done = runner.invoke(app, ["verify", str(copied), "--jobs", "2"])
    assert done.exit_code == 0, done.output
    assert re.search(r"2 results, [\d,]+ numbers compared: 2 verified, 0 differ\.", done.output)
    assert before == {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()}


def test_verify_finds_a_changed_number_an_edited_notebook_and_other_data(copied: Path) -> None:
    first, second = sorted(path.name for path in copied.iterdir() if path.is_dir())
    scores = (copied / first / "scores.csv").read_text(encoding="utf-8")
    changed = scores.replace("llm_relevance,0.75", "llm_relevance,0.85", 1)
    assert changed != scores
    (copied / first / "scores.csv").write_text(changed, encoding="utf-8")
    config = copied / first / "config.json"
    fingerprint = json.loads(config.read_text(encoding="utf-8"))["dataset"]["fingerprint"]
    text = config.read_text(encoding="utf-8").replace(
        f'"fingerprint": "{fingerprint}"', '"fingerprint": "0123456789abc"'
    )
    config.write_text(text, encoding="utf-8")
    notebook = copied / f"{second}.ipynb"
    notebook.write_text(
        notebook.read_text(encoding="utf-8").replace("import pandas", "import  pandas"),
        encoding="utf-8",
    )
    done = runner.invoke(app, ["verify", str(copied)])
    assert done.exit_code == 1, done.output
    assert re.search(
        rf"{first}: scores\.csv, \S+, llm_relevance: stored 0\.85, now 0\.75", done.output
    )
    assert (
        f"{first}: the dataset has changed: fingerprint 0123456789ab, now {fingerprint[:12]}"
        in done.output
    )
    assert "was changed after the sweep" in done.output
    assert "0 verified, 2 differ" in done.output


def test_verify_names_a_missing_reply(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "empty"))
    shutil.rmtree(next(path for path in sorted(copied.iterdir()) if path.is_dir()))
    one, *_ = verify(copied)
    assert "it could not be made again" in one.differences[0]
    assert "the prompt that starts" in one.differences[0]


def test_verify_of_nothing_is_refused(tmp_path: Path) -> None:
    done = runner.invoke(app, ["verify", str(tmp_path)])
    assert done.exit_code == 2
    assert "holds no results" in done.output


# --- the cache's commands
# --------------------------------------------------------------------------------------------


def test_cache_clear_keeps_what_was_paid_for(
    finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path))
    shutil.copy(finished.replies, tmp_path)
    shown = runner.invoke(app, ["cache", "info"]).output
    assert "replies: 12 in" in shown
    assert "openai:j: 6 replies, 66 tokens in, 42 out" in shown
    assert "12 replies of language models kept" in runner.invoke(app, ["cache", "clear"]).output
    assert replies.info()["replies"] == 12
    assert "12 replies deleted" in runner.invoke(app, ["cache", "clear", "--replies"]).output
    assert replies.info()["replies"] == 0


def test_an_error_of_the_cache_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache" / "replies.sqlite").mkdir(parents=True)
    done = runner.invoke(app, ["cache", "info"])
    assert done.exit_code == 2
    assert len(done.output.splitlines()) == 1
    assert done.output.startswith("ragbench: ")
