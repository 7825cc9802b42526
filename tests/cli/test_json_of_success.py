"""Every command that can succeed on small data does so with --json, and prints the documented form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.cli.skill import FOLDER
from ragbench.evaluation import Arm, Conclusion
from ragbench.testsets.writer import save_dataset
from tests.cli.test_json import FORMS
from tests.test_sweep import write_grid

DOCUMENTED = (FOLDER / "references" / "json.md").read_text(encoding="utf-8")

MODELS = r"""
import json, re
from ragbench.llms import ScriptedLLM

def reply(prompt):
    return {"verdict": "correct", "explanation": "As the reference.", "score": 1.0, "claims": [], "quote": ""}

judge = ScriptedLLM(reply, name="scripted:judge")
writer = ScriptedLLM(lambda prompt: "In winter they sleep longer near the old river.", name="scripted:writer")

def answer(question):
    return {"answer": "In winter.", "contexts": ["In winter cats sleep longer than in summer near the old river."]}

def part(prompt, kind):
    return re.search(rf"<{kind}-\w+>\n(.*?)\n</{kind}-", prompt, re.S)[1]

def careful(prompt):
    number = part(prompt, "reference").split()[-1]
    return json.dumps({"reason": "r", "verdict": number in part(prompt, "answer").split()})

def drafter(prompt):
    quote = part(prompt, "passage").split("\n\n")[1].split(". ")[0] + "."
    case = {"quote": quote, "question": f"When is the rest of {quote.split()[2]} longest?", "answer": quote}
    return json.dumps({"cases": [case], "reason": "r", "clear": True, "supported": True})

def other(question):
    return {"answer": "Near the old river.", "contexts": ["In winter dogs sleep longer than in summer."]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small documents, questions, models in a module, runs, tables and two results in the history."""
    path = tmp_path_factory.mktemp("json")
    docs = path / "docs"
    docs.mkdir()
    for name in ("cats", "dogs"):
        sentence = (
            f"In winter {name} sleep longer than in summer, near the old river below the mill. "
        )
        text = f"# All about {name}\n\n{sentence}{sentence.replace('winter', 'autumn')}\n"
        (docs / f"{name}.md").write_text(text)
    rows = ["id,question,answer"]
    rows += [
        f"q{i},When do cats number {i} sleep longer?,In winter near river {i}" for i in range(32)
    ]
    (path / "tests.csv").write_text("\n".join(rows) + "\n")
    (path / "json_models.py").write_text(MODELS)
    (path / "cron.yaml").write_text(CRON)
    write_labels(path / "sheet.csv", rb.load_dataset(path / "tests.csv"))
    write_grid(path / "notebooks", "[axes]\nquality = [0.5]")
    beir = rb.Dataset.from_dicts(
        {"d1": "In winter cats sleep longer."}, {"q1": "When do cats sleep?"}, {"q1": {"d1": 1}}
    )
    save_dataset(beir, path / "beir")
    (path / "qrels.txt").write_text("q1 0 a 1\nq2 0 b 1\n")
    (path / "old.run").write_text("q1 Q0 b 1 2 x\nq2 Q0 b 1 2 x\n")
    for name, score in (("old", 0.2), ("new", 0.6)):
        pd.DataFrame({"id": range(12), "faithfulness": score}).to_csv(path / f"{name}.csv")
    return path


CRON = """
cron:
  jobs:
    - {id: weekly, schedule: "0 0 * * 0", handler: rag.evaluate, config: {test_set: tests.csv, corpus: docs}}
"""


def write_labels(path: Path, data: rb.Dataset) -> None:
    """Write the labels of a person for an answer to each question; every third answer is wrong."""
    answers = []
    words = {}
    for i, case in enumerate(data.cases):
        text = "In summer" if i % 3 == 0 else str(case.reference_answer)
        answers.append(rb.Answer(case.query_id, text, outcome="success"))
        words[case.query_id] = "no" if i % 3 == 0 else "yes"
    result = rb.evaluate(data, answers, perspectives=["pipeline"])
    items = rb.labelling.draw_items([result], "correctness", dataset=data, n=len(answers))
    sheet = rb.labelling.read_sheet(rb.labelling.label_sheet(items, path))
    verdicts = sheet["query_id"].map(words)
    sheet.assign(verdict=verdicts).drop(columns="value").to_csv(path, index=False)


COMMON = "--test-set tests.csv --docs docs"

STORY = {
    "eval": f"eval json_models:answer {COMMON} --judge json_models:judge --output res/old",
    "eval of another": f"eval json_models:other {COMMON} --output res/new",
    "history import": "history import res",
    "history": "history",
    "history show": "history show latest",
    "history trend": "history trend token_f1",
    "compare": "compare res/old res/new",
    "compare of tables": "compare old.csv new.csv",
    "score": "score qrels.txt old.run old.run --measure nDCG@10",
    "label": f"label res/old res/new --sheet labels.csv --batch 32 {COMMON}",
    "explore": f"explore res/old res/new {COMMON}",
    "publish": "publish res site",
    "testset convert": "testset convert tests.csv tests.yaml",
    "testset merge": "testset merge tests.yaml tests.csv --output merged.yaml",
    "testset validate": "testset validate tests.csv --docs docs",
    "testset draft": "testset draft --docs docs --output drafts.yaml",
    "testset generate": "testset generate docs --output drafted --llm json_models:drafter --chunks 2",
    "audit": f"audit json_models:careful --criteria correctness --n 12 {COMMON}",
    "tune": "tune json_models:careful --labels sheet.csv",
    "sweep": "sweep notebooks/tiny.toml --jobs 1",
    "verify": "verify results/tiny",
    "answers": "answers beir --llm json_models:writer",
    "schedule add": f"schedule add nightly --json -- eval json_models:answer {COMMON}",
    "schedule import": "schedule import cron.yaml",
    "schedule list": "schedule list",
    "schedule pause": "schedule pause nightly",
    "schedule run-due": "schedule run-due",
    "schedule remove": "schedule remove nightly",
    "alert add": "alert add token_f1<0.8",
    "alert list": "alert list",
    "alert test": "alert test token_f1<0.8",
    "alert remove": "alert remove token_f1<0.8",
    "key add": "key add ci",
    "key list": "key list",
    "key remove": "key remove ci",
    "probe": "probe json_models:answer sleep --docs docs",
    "init": "init --docs docs",
    "list": "list chunkers",
    "notebooks": "notebooks copied",
    "skill": "skill copied",
    "cache info": "cache info",
    "cache clear": "cache clear",
}  # fmt: skip
"""Name of a step -> its command, in an order in which each finds what it needs."""


class Done(NamedTuple):
    status: int
    output: str
    errors: str


@pytest.fixture(scope="module")
def story(folder: Path) -> Iterator[dict[str, Done]]:
    """What each step printed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        patch.setenv("RAGBENCH_DATABASE", str(folder / "history.sqlite"))
        patch.setattr("ragbench.judges.card.user_data_path", lambda *_, **__: folder / "data")
        patch.setenv("RAGBENCH_CACHE_DIR", str(folder / "cache"))
        done = {}
        for name, command in STORY.items():
            words = command.split()
            if "--json" not in words:
                words.append("--json")
            result = CliRunner().invoke(app, words)
            done[name] = Done(result.exit_code, result.stdout, result.stderr)
        yield done


def fields_of(name: str) -> set[str]:
    """Return the fields that json.md documents for a command."""
    for line in DOCUMENTED.splitlines():
        if line.startswith("|") and f"`{name}`" in line.split("|")[1]:
            return {*re.findall(r"\w+", line)}
    return {"status", "lines"}


@pytest.mark.parametrize("name", STORY)
def test_a_command_that_succeeds_prints_the_documented_form(
    name: str, story: dict[str, Done]
) -> None:
    done = story[name]
    assert done.status == 0, done
    content = json.loads(done.output)
    command = name.partition(" of ")[0]
    if command in FORMS:
        assert type(content) is {"an object": dict, "a list of objects": list}[FORMS[command]]
    else:
        assert content.keys() == {"status", "lines"}
        assert content["status"] == 0
    if command in ("label", "score", "list", "audit", "tune"):
        assert content.keys() <= fields_of(command)
    if command == "audit":
        [criterion] = content["criteria"].values()
        assert criterion.keys() == {"probes", "findings", "agreement"}
        assert criterion["probes"]
    if command == "tune":
        assert content["n_labels"] == 32
        assert len(content["candidates"]) > 1
    if command in (
        "history",
        "history show",
        "history trend",
        "alert list",
        "key list",
        "schedule list",
    ):
        assert content
        assert all(isinstance(row, dict) for row in content)
    if command == "compare":
        assert content.keys() == {field.name for field in fields(Conclusion)}
        assert content["arms"][0].keys() == {field.name for field in fields(Arm)}
