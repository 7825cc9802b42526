"""The skill for coding agents: its commands exist, its fields are those of the code, its tasks lead to the
right call and the right reading.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.cli.skill import FOLDER
from ragbench.evaluation import Arm, Conclusion
from tests.cli.command_tree import LEAVES

SKILL = (FOLDER / "SKILL.md").read_text(encoding="utf-8")
REFERENCES = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.md")}
COMMANDS = re.findall(r"`ragbench ([^`]+)`", "".join(REFERENCES.values()))
TASKS = dict(re.findall(r"^\| (.+?) \| `ragbench ([^`]+)`", SKILL, re.M))


def parsed(text: str) -> None:
    """Parse a command line as the command does, without running it."""
    words = shlex.split(text.replace("results/NAME", "results/x"))
    name = next(name for n in (2, 1) if (name := " ".join(words[:n])) in LEAVES)
    rest = words[len(name.split()) :]
    LEAVES[name].make_context(name, rest, resilient_parsing=False)


def run(*args: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*args])
    return result.exit_code, result.stdout


def test_the_skill_has_a_name_a_description_and_its_references() -> None:
    head = SKILL.split("---")[1]
    assert re.search(r"^name: ragbench$", head, re.M)
    assert re.search(r"^description: \S.{50,1000}$", head, re.M)
    for link in re.findall(r"\]\((references/[\w.]+)\)", SKILL):
        assert (FOLDER / link).is_file(), link


@pytest.mark.parametrize("text", sorted({*COMMANDS}))
def test_a_command_of_the_skill_exists_with_its_options(text: str) -> None:
    if text == "compare --json":  # in a sentence
        return
    try:
        parsed(text)
    except Exception as exc:
        pytest.fail(f"{text}: {exc}")


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_every_command_that_ends_has_json(name: str) -> None:
    options = [option for param in LEAVES[name].params for option in param.opts]
    assert ("--json" in options) == (name != "serve")


def test_every_field_of_a_conclusion_is_documented() -> None:
    text = REFERENCES["conclusion.md"]
    for field in (*fields(Conclusion), *fields(Arm)):
        assert f"`{field.name}`" in text, field.name


def test_the_words_of_a_decision_are_those_of_the_code() -> None:
    from ragbench.statistics.comparison import DECISIONS

    for decision in DECISIONS:
        assert f"`{decision}`" in REFERENCES["conclusion.md"]


def test_the_skill_is_printed_and_copied(tmp_path: Path) -> None:
    assert run("skill") == (0, SKILL)
    status, _ = run("skill", str(tmp_path))
    assert status == 0
    copied = {path.name for path in (tmp_path / "ragbench").rglob("*.md")}
    assert copied == {*REFERENCES}
    assert run("skill", str(tmp_path))[0] == 2
    assert run("skill", str(tmp_path), "--force")[0] == 0


def test_lines_as_json() -> None:
    status, output = run("cache", "info", "--json")
    content = json.loads(output)
    assert (status, content["status"]) == (0, 0)
    assert content["lines"]
    assert json.loads(run("list", "retrievers", "--json")[1])["names"]["bm25"] == ""


def test_scores_as_json(tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_text("q1 0 a 1\nq2 0 b 1\n")
    (tmp_path / "old.run").write_text("q1 Q0 b 1 2 x\nq2 Q0 b 1 2 x\n")
    (tmp_path / "new.run").write_text("q1 Q0 a 1 2 x\nq2 Q0 b 1 2 x\n")
    names = [str(tmp_path / name) for name in ("qrels.txt", "old.run", "new.run")]
    status, output = run("score", *names, "--measure", "nDCG@10", "--json")
    content = json.loads(output)
    assert status == 0
    assert content["baseline"] == "old"
    means = {row["run"]: row["mean"] for row in content["means"] if row["measure"] == "nDCG@10"}
    assert means == {"old": 0.5, "new": 1.0}
    assert content["differences"][0]["difference"] == 0.5


N = 40
OLD = [round((i * 7 % 13) / 16, 3) for i in range(N)]


def scores(gain: float, n: int = N) -> pd.DataFrame:
    values = [round(min(1.0, score + gain * (i % 5 > 0)), 3) for i, score in enumerate(OLD)]
    return pd.DataFrame({"id": range(N), "faithfulness": values, "latency_ms": 100.0})[:n]


def mixed() -> pd.DataFrame:
    """Half of the questions gain as much as the others lose."""
    table = scores(0.0)
    signs = pd.Series([1 if i % 2 else -1 for i in range(N)])
    return table.assign(faithfulness=(table["faithfulness"] + 0.1 * signs).clip(0, 1))


TRANSCRIPTS: list[tuple[str, str, dict[str, Any], tuple[str, ...]]] = [
    # what is asked, a phrase of the task in the skill, the two tables, what the answer has to hold
    ("is the new chunker better?", "is the new version better?", {"new": scores(0.3)}, ("better",)),
    ("did my prompt change help?", "is the new version better?", {"new": mixed()}, ("undecided", "within the margin")),
    ("we have six questions, is it better?", "is the new version better?", {"new": scores(0.3, 6)}, ("not possible",)),
    ("did the new model make it worse?", "fail a pull request", {"new": scores(-0.3)}, ("worse",)),
    ("is it at least not slower?", "by one metric", {"new": scores(0.0)}, ("undecided", "within the margin")),
    ("which of three is best?", "which of many systems is best?", {"b": scores(0.3), "c": scores(0.1)}, ("better",)),
]  # fmt: skip


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: each[0])
def test_a_task_about_tables_leads_to_the_right_reading(
    transcript: tuple[str, str, dict[str, pd.DataFrame], tuple[str, ...]], tmp_path: Path
) -> None:
    _, phrase, others, decisions = transcript
    [command] = [text for task, text in TASKS.items() if phrase in task]
    words = shlex.split(command)
    paths = []
    for name, table in {"old": scores(0.0), **others}.items():
        paths.append(str(tmp_path / f"{name}.csv"))
        table.to_csv(paths[-1], index=False)
    options = [word for word in words[1:] if "." not in word or word.startswith("-")]
    options = [word for word in options if word not in ("--json", "--markdown")]
    options = ["old" if word == "NAME" else word for word in options]
    status, output = run("compare", *paths, *options, "--json")
    conclusion = json.loads(output)
    assert conclusion["decision"] in decisions
    assert conclusion["next_step"]
    assert status == int("--fail-if" in options)
    if conclusion["decision"] == "not possible":
        assert (
            "a decision takes 10 or more"
            in conclusion["arms"][-1]["reason"] + conclusion["arms"][0]["reason"]
        )


def test_why_a_gate_failed_is_in_the_report(tmp_path: Path) -> None:
    """The call that the skill names for it gives the missed target, with status 1."""
    assert any("why did the gate fail?" in task for task in TASKS)
    output = str(tmp_path / "report")
    status, text = run(
        "eval", "--suite", "smoke", "--fail-under", "nDCG@5=0.99", "--output", output, "--json"
    )
    report = json.loads(text)
    assert status == 1
    assert "nDCG@5" in json.dumps(report)


def test_a_test_set_is_validated_and_drafts_are_not_people(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in ("cats", "dogs", "fish"):
        text = f"# All about {name}\n\nIn winter {name} sleep longer than in summer near the old river.\n"
        (docs / f"{name}.md").write_text(text)
    drafts = tmp_path / "drafts.yaml"
    status, output = run("testset", "draft", "--docs", str(docs), "--output", str(drafts), "--json")
    assert status == 0, output
    status, output = run("testset", "validate", str(drafts), "--docs", str(docs), "--json")
    assert json.loads(output)["status"] == status == 0
    assert "They do not show which retriever is better" in SKILL


def test_runs_of_a_retriever_lead_to_the_difference_of_the_measure_that_decides(
    tmp_path: Path,
) -> None:
    """Is the new embedder better? There are runs and judgements."""
    [command] = [text for task, text in TASKS.items() if "score runs of a retriever" in task]
    assert command == "score qrels.txt old.run new.run --json"
    queries = range(30)
    (tmp_path / "qrels.txt").write_text("".join(f"q{i} 0 d{i} 1\n" for i in queries))
    for name, is_first in (("old", lambda i: i % 3 == 0), ("new", lambda i: i % 5 > 0)):
        lines = [
            f"q{i} Q0 {doc} {rank} {9 - rank} {name}\n"
            for i in queries
            for rank, doc in enumerate([f"d{i}", "x"] if is_first(i) else ["x", f"d{i}"], 1)
        ]
        (tmp_path / f"{name}.run").write_text("".join(lines))
    words = [str(tmp_path / word) if "." in word else word for word in command.split()]
    status, output = run(*words)
    first = json.loads(output)["differences"][0]
    assert (status, first["decision"], first["n"]) == (0, "better", 30)
    assert first["ci_low"] > 0


def test_a_judge_is_trusted_by_people_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Can the judge be trusted? The call draws answers for people, and no agent labels them."""
    [command] = [text for task, text in TASKS.items() if "can the judge be trusted" in task]
    assert "which people fill in" in SKILL
    monkeypatch.chdir(tmp_path)
    Path("docs").mkdir()
    Path("docs/numbers.md").write_text("It is 3. It is 4.")
    cases = [rb.Case(f"q{i}", f"What is {i}?", reference_answer=f"It is {i}.") for i in range(12)]
    data = rb.Dataset("tests", "test", {}, cases, {})
    rb.testsets.save_testset(data, "tests.yaml", "yaml")
    data = rb.load_dataset("tests.yaml", corpus="docs")
    for name, answer in (("a", "It is 3."), ("b", "It is 4.")):
        rb.save(rb.evaluate(data, lambda question, answer=answer: answer), f"results/eval/{name}")
    status, output = run(*command.split())
    content = json.loads(output)
    assert (status, content["n_labelled"], content["decision"]) == (0, 0, "undecided")
    assert content["n_pending"] > 0


def test_what_is_compared_with_a_baseline_that_it_does_not_fit_is_said(tmp_path: Path) -> None:
    """Is it better? The files are of other questions, and means of them would be no comparison."""
    for name, ids in (("old", range(20)), ("new", range(15, 35))):
        pd.DataFrame({"id": ids, "faithfulness": 0.5}).to_csv(tmp_path / f"{name}.csv", index=False)
    status, output = run("compare", str(tmp_path / "old.csv"), str(tmp_path / "new.csv"), "--json")
    conclusion = json.loads(output)
    assert (status, conclusion["decision"], conclusion["n"]) == (0, "not possible", 5)
    assert any("alone" in reason for reason in conclusion["left_out"])
    assert "the files do not match" in SKILL


def test_names_lead_to_the_list(tmp_path: Path) -> None:
    """Which measures are there? Their names come from the command, not from memory."""
    [command] = [text for task, text in TASKS.items() if "what names are accepted" in task]
    names = json.loads(run(*command.split())[1])["names"]
    assert "nDCG@{k}" in names
