"""Directories of files with scores: tasks are questions of a system, not systems."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

import ragbench as rb
from ragbench.foreign.inspect_logs import task_of_inspect_log

N = 12
OLD, NEW = "2026-11-02T10-00-00.123456", "2026-11-03T10-00-00.654321"
GAINS = {"hills": 0.5, "lakes": 0.25}


def samples(folder: Path, task: str, date: str, gain: float) -> Path:
    """Write the samples of a task as lm-evaluation-harness does: each task numbers its documents from 0."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "doc_id": i,
            "doc": {"sentence": f"About {task} {i}"},
            "arguments": {"gen_args_0": {"arg_0": f"prompt of {folder.name}: {task} {i}"}},
            "filtered_resps": ["x"],
            "filter": "none",
            "metrics": ["f1"],
            "doc_hash": f"{task}{i}".ljust(64, "0"),
            "f1": i / 40 + gain,
        }
        for i in range(N)
    ]
    path = folder / f"samples_{task}_{date}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / f"results_{date}.json").write_text('{"results": {}}', encoding="utf-8")
    return path


def inspect_log(path: Path, task: str, model: str, gain: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    samples: list[dict[str, Any]] = [
        {"id": i, "input": f"{task}: {i}?", "scores": {"overlap": {"value": i / 40 + gain}}}
        for i in range(N)
    ]
    header = {"version": 2, "eval": {"task": task, "model": model}}
    if path.suffix == ".json":
        path.write_text(json.dumps({**header, "samples": samples}), encoding="utf-8")
        return
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(header))
        archive.writestr("summaries.json", json.dumps(samples))


def contender(conclusion: rb.Conclusion) -> Any:
    [arm] = [arm for arm in conclusion.arms if arm.name != conclusion.baseline]
    return arm


def test_tasks_in_a_directory_are_the_questions_of_one_system(tmp_path: Path) -> None:
    for task, gain in GAINS.items():
        samples(tmp_path / "small", task, OLD, 0.0)
        samples(tmp_path / "large", task, NEW, gain)
    conclusion = rb.compare(tmp_path / "small", tmp_path / "large")
    assert [arm.name for arm in conclusion.arms] == ["large", "small"]
    assert (conclusion.n, conclusion.total) == (2 * N, 2 * N)
    assert contender(conclusion).difference == pytest.approx(sum(GAINS.values()) / 2, abs=1e-12)
    assert str(rb.compare(tmp_path)) == str(rb.compare(tmp_path / "large", tmp_path / "small"))


def test_a_task_run_at_two_times_in_one_directory_is_two_systems(tmp_path: Path) -> None:
    for task, gain in GAINS.items():
        samples(tmp_path / "model", task, OLD, 0.0)
        samples(tmp_path / "model", task, NEW, gain)
    conclusion = rb.compare(tmp_path / "model")
    assert conclusion.baseline == f"model {OLD}"
    assert (conclusion.n, contender(conclusion).name) == (2 * N, f"model {NEW}")


def test_tasks_that_were_run_one_after_the_other_are_one_system(tmp_path: Path) -> None:
    samples(tmp_path / "small", "hills", OLD, 0.0)
    samples(tmp_path / "small", "lakes", NEW, 0.0)
    with pytest.raises(rb.RagbenchError, match="small is one system; give a second file"):
        rb.compare(tmp_path / "small")


def test_documents_of_other_tasks_have_the_same_numbers_and_are_not_paired(tmp_path: Path) -> None:
    files = [samples(tmp_path / task, task, OLD, 0.0) for task in GAINS]
    with pytest.raises(rb.RagbenchError, match="no question in common"):
        rb.compare(*files)


@pytest.mark.parametrize("suffix", [".eval", ".json"])
def test_tasks_of_inspect_are_the_questions_of_each_model(suffix: str, tmp_path: Path) -> None:
    for number, (task, gain) in enumerate(GAINS.items()):
        inspect_log(tmp_path / "logs" / f"{number}_small{suffix}", task, "a/small", 0.0)
        inspect_log(tmp_path / "logs" / f"{number}_large{suffix}", task, "a/large", gain)
    conclusion = rb.compare(tmp_path / "logs")
    assert {arm.name for arm in conclusion.arms} == {"logs a/small", "logs a/large"}
    assert conclusion.n == 2 * N
    difference = contender(conclusion).difference
    assert abs(difference) == pytest.approx(sum(GAINS.values()) / 2, abs=1e-12)


def test_logs_of_one_task_are_a_system_each(tmp_path: Path) -> None:
    for number, gain in enumerate((0.0, 0.5)):
        inspect_log(tmp_path / f"{number}.eval", "hills", "a/small", gain)
    conclusion = rb.compare(tmp_path)
    assert (conclusion.baseline, conclusion.choice, conclusion.n) == ("0", "1", N)


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ({"eval": {"task": "hills", "model": "a/small"}, "samples": []}, ("hills", "a/small")),
        ({"eval": {"task": "hills"}}, ("hills", "")),
        ({"eval": {"task": None, "model": None}, "samples": []}, ("", "")),
        ({"eval": {"task": "hills"}, "samples": {}}, ("", "")),
        ({"task": "hills"}, ("", "")),
        ([], ("", "")),
    ],
)
def test_the_task_of_a_log_of_inspect(
    content: object, names: tuple[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(content))
    assert task_of_inspect_log(path) == names
    path.write_text("{")
    assert task_of_inspect_log(path) == ("", "")
