"""Inputs that are edited while a sweep runs: the runs go on with the state at its start."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ragbench.evaluation import load_results
from ragbench.sweep import sweep
from ragbench.sweep.verification import _read_stored
from ragbench.systems.named_systems import system_digest
from ragbench.systems.recorded import RecordedSystem
from ragbench.testsets import snapshot
from ragbench.testsets.loader import load_dataset
from tests.test_sweep import write_notebook

PARAMETERS = """
dataset: str = ""
system: str = ""
number: int = 0
edited: str = ""  # the file that the first run changes
results_dir: str = ""
"""
RUN = """
from pathlib import Path
import pandas as pd
import ragbench as rb
from ragbench.evaluation import new_result, save

data = rb.load_dataset(dataset)
if edited and number == 1:
    path = Path(edited)
    path.write_text(path.read_text().replace("Cats", "Dogs"))
scores = pd.DataFrame({"query_id": list(data.queries), "measure": "nDCG@10", "value": number / 4})
parameters = {"dataset": dataset, "number": number, "edited": edited}
parameters |= {"system": system} if system else {}
save(new_result(parameters=parameters, dataset=data, run={q: {} for q in data.queries}, scores=scores), results_dir)
"""
TESTS = "name: tiny\ncorpus: docs\ncases:\n- case_id: q1\n  question: Do Cats nap?\n  relevant_docs: [a.md]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Naps\n\nCats nap.\n")
    (tmp_path / "tests.yaml").write_text(TESTS)
    write_notebook(tmp_path / "evaluate.ipynb", PARAMETERS, RUN)
    return tmp_path


def grid(folder: Path, edited: str) -> Path:
    path = folder / "grid.toml"
    path.write_text(
        f'# Cats\n[fixed]\ndataset = "tests.yaml"\nedited = "{edited}"\n[axes]\nnumber = [1, 2]\n'
    )
    return path


@pytest.mark.parametrize("edited", ["tests.yaml", "grid.toml"])
def test_an_edit_of_a_small_file_changes_nothing_and_is_mentioned(
    folder: Path, edited: str
) -> None:
    result = sweep(grid(folder, edited), jobs=1, out=folder / "results")
    assert not result.failed
    assert result.notes[-1].startswith(f"{edited} changed while the sweep ran")
    results = load_results(result.folder)
    assert {each.queries["q1"] for each in results} == {"Do Cats nap?"}
    assert len({each.dataset["fingerprint"] for each in results}) == 1


def test_a_run_that_finds_other_documents_fails_and_is_run_the_next_time(folder: Path) -> None:
    path = grid(folder, "docs/a.md")
    result = sweep(path, jobs=1, out=folder / "results")
    [(name, error)] = result.failed.items()
    assert "documents of tests.yaml have changed since the sweep began" in error
    again = sweep(path, jobs=1, out=folder / "results")
    assert not again.failed
    assert name in again.finished
    assert len(again.finished) == 2  # the first one saw the old documents
    assert len({each.dataset["fingerprint"] for each in load_results(again.folder)}) == 1


def test_copies_are_read_in_place_of_files_and_only_of_these(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = folder / "answers.jsonl"
    answers.write_text(json.dumps({"query_id": "q1", "answer": "They do."}) + "\n")
    files = [answers, folder / "tests.yaml"]
    data = load_dataset(folder / "tests.yaml")
    digest = system_digest("answers.jsonl", folder)
    copies = folder / "copies"
    snapshot.take_snapshot(copies, files, data.source, data.fingerprint)
    assert snapshot.changed_since(copies, files) == []
    answers.write_text(json.dumps({"query_id": "q1", "answer": "No."}) + "\n")
    (folder / "tests.yaml").unlink()
    assert snapshot.changed_since(copies, files) == ["answers.jsonl", "tests.yaml"]
    assert system_digest("answers.jsonl", folder) != digest
    monkeypatch.setenv(snapshot.SNAPSHOT_VARIABLE, str(copies))
    assert system_digest("answers.jsonl", folder) == digest
    assert RecordedSystem(answers).answer("q1", "?").text == "They do."
    assert snapshot.as_at_sweep_start(folder / "other.yaml") == folder / "other.yaml"


def test_what_changed_since_the_last_run_is_said_and_run_again(folder: Path) -> None:
    path = grid(folder, "")
    first = sweep(path, jobs=1, out=folder / "results")
    assert not first.failed
    (folder / "docs" / "a.md").write_text("# Naps\n\nCats nap all day.\n")
    (folder / "docs" / "b.md").write_text("# Dogs\n\nDogs bark.\n")
    again = sweep(path, jobs=1, out=folder / "results")
    assert (len(again.finished), len(again.skipped)) == (2, 0)
    [note] = [note for note in again.notes if "since the last run" in note]
    assert "1 document added (b.md), 1 document changed (a.md); 2 of 2 " in note
    third = sweep(path, jobs=1, out=folder / "results")
    assert (third.finished, third.skipped) == ((), again.finished)
    assert not [note for note in third.notes if "since the last run" in note]


def test_results_without_digests_of_documents_say_so(folder: Path) -> None:
    path = grid(folder, "")
    first = sweep(path, jobs=1, out=folder / "results")
    for name in first.finished:
        config_path = first.folder / name / "config.json"
        config = json.loads(config_path.read_text(encoding="utf-8"))
        del config["document_digests"]
        config_path.write_text(json.dumps(config), encoding="utf-8")
    (folder / "docs" / "a.md").write_text("# Naps\n\nCats nap all day.\n")
    again = sweep(path, jobs=1, out=folder / "results")
    [note] = [note for note in again.notes if "since the last run" in note]
    assert "which ones is not known, because the earlier result keeps no digest" in note


def test_each_name_of_a_list_is_a_path_of_its_own(tmp_path: Path) -> None:
    from ragbench.sweep.notebooks import in_place

    here, there = tmp_path / "grids", tmp_path / "results" / "mine"
    here.mkdir()
    (here / "mine.toml").write_text("[polite]\nquestion = 'Is it polite?'\n")
    (here / "a,b.yaml").write_text("x")
    for written, moved in {
        'criteria = "correctness,mine.toml"': 'criteria = "correctness,../../grids/mine.toml"',
        'criteria = "mine.toml"': 'criteria = "../../grids/mine.toml"',
        'criteria = "correctness,relevance"': 'criteria = "correctness,relevance"',
        'dataset = "a,b.yaml"': 'dataset = "../../grids/a,b.yaml"',
        'prompt = "Be short, mine.toml"': 'prompt = "Be short, mine.toml"',
    }.items():
        assert in_place(written, here, there) == moved


JUDGED = """
dataset: str = ""
judge: str = ""
criteria: str = ""
number: int = 0
edited: str = ""  # the file that the first run changes
results_dir: str = ""
"""
RUN_JUDGED = """
from dataclasses import replace
from pathlib import Path
import ragbench as rb

data = rb.load_dataset(dataset)
if edited and number == 1:
    path = Path(edited)
    path.write_text(path.read_text().replace("of words", "of letters"))
answers = [rb.types.Answer(q, "Naps" * number, outcome="success") for q in data.queries]
result = rb.evaluate(data, answers, judge=judge, criteria=criteria)
parameters = {"dataset": dataset, "judge": judge, "criteria": criteria, "number": number, "edited": edited}
rb.save(replace(result, config={**result.config, "parameters": parameters}), results_dir)
"""
POLITE = "[politeness]\nquestion = 'Is it polite?'\n"
MINE = '''
import json

def judge(prompt):
    return json.dumps({"politeness": {"reason": "r", "verdict": "yes" if "NapsNaps" in prompt else "no"}})

def brevity(case, answer, contexts):
    """The inverse number of words."""
    return 1 / len(answer.text)
'''


def test_own_criteria_of_a_sweep_have_the_numbers_of_the_library(folder: Path) -> None:
    (folder / "crit").mkdir()
    (folder / "crit" / "mine.toml").write_text(POLITE)
    (folder / "mine_of_sweep.py").write_text(MINE)
    write_notebook(folder / "evaluate.ipynb", JUDGED, RUN_JUDGED)
    path = folder / "grid.toml"
    fixed = 'dataset = "tests.yaml"\njudge = "mine_of_sweep:judge"\nedited = "mine_of_sweep.py"\n'
    criteria = 'criteria = "crit/mine.toml, mine_of_sweep:brevity"\n'
    path.write_text(f"[fixed]\n{fixed}{criteria}[axes]\nnumber = [1, 2]\n")
    result = sweep(path, jobs=1, out=folder / "results")
    [(_, error)] = result.failed.items()
    assert "are not those with which the sweep began" in error
    [run] = load_results(result.folder)
    assert (run.mean("llm_politeness"), run.mean("llm_brevity")) == (0.0, 0.25)
    sys.modules.pop("mine_of_sweep", None)  # as in a new session
    again = sweep(path, jobs=1, out=folder / "results")
    means = {
        each.parameters["number"]: (each.mean("llm_politeness"), each.mean("llm_brevity"))
        for each in load_results(again.folder)
    }
    assert means == {1: (0.0, 0.25), 2: (1.0, 0.125)}


def test_without_a_grid_a_stored_result_belongs_to_the_folder_of_its_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path in the notebook is relative to the sweep's folder, which is named by a relative path."""
    monkeypatch.chdir(tmp_path)
    folder = Path("results/mine")
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "config.json").write_text('{"parameters": {}}', encoding="utf-8")
    (folder / "a" / "table.csv").write_text("n\n1\n", encoding="utf-8")
    metadata = {"papermill": {"input_path": "../../notebooks/evaluate.ipynb"}}
    notebook = {"cells": [], "metadata": metadata}
    (folder / "a.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    grid = _read_stored(folder / "a").grid
    assert grid.resolve() == tmp_path.resolve() / "notebooks" / "evaluate.ipynb"
