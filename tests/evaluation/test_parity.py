"""The same name is the same number in `evaluate` and in an executed notebook, to the last digit
that is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.evaluation.parameters import DRAWS
from ragbench.registry import BUDGETS, KS, measure_of
from ragbench.service.bodies import RunBody
from ragbench.service.folders import Folder
from ragbench.studies import score_arms
from ragbench.sweep.grid import read_grid
from ragbench.sweep.grid_race import answer_round
from ragbench.systems import HttpSystem, Pipeline
from ragbench.testsets.writer import save_dataset
from ragbench.types import Case, Dataset, Document

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "evaluate.ipynb"
CONFIGURATIONS = [
    {"retriever": "bm25", "chunker": "recursive", "chunk_size": 256, "limit": 20},
    {
        "retriever": "dense:wordllama",
        "chunker": "fixed",
        "chunk_size": 128,
        "k": 3,
        "limit": 10,
    },
    {
        "retriever": "hybrid:wordllama",
        "index_text": "headings",
        "rewrite": "tests.evaluation.test_parity:both",
        "filter": "tests.evaluation.test_parity:is_short",
        "fusion": "weights:0.7",
        "diversity": "mmr:0.5",
        "expand": "parent:512",
        "k": 3,
        "limit": 10,
    },
    pytest.param({"retriever": "bm25"}, marks=pytest.mark.simulation, id="whole set"),
]


def both(question: str) -> list[str]:
    """Return a question, and its last words."""
    return [question, " ".join(question.split()[-4:])]


def is_short(case: Case, document: Document) -> bool:
    """Return True unless a document is long."""
    return len(document.full_text) < 60_000


def notebook_scores(**parameters: Any) -> pd.DataFrame:
    """The scores of the result of evaluate.ipynb, whose first cells are run with these parameters."""
    code = [
        cell
        for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]
    names: dict[str, Any] = {}
    for i, cell in enumerate(code[:3]):
        exec(compile("".join(cell["source"]), "evaluate.ipynb", "exec"), names)
        if i == 0:
            names |= parameters
    scores: pd.DataFrame = names["result"].scores
    return scores


def differences(one: pd.DataFrame, other: pd.DataFrame) -> tuple[list[str], int]:
    """The measures of which any shared value differs by more than one in the fifth decimal, and how
    many values are shared.

    Embeddings in float32 differ in their last bits with the threads of a process and the texts of a
    batch, which was seen to move a claim's support by 0.000004.
    """
    both = one.merge(other, on=["query_id", "measure"], validate="one_to_one")
    gaps = (both["value_x"] - both["value_y"]).abs()
    same = (gaps <= 1e-5) | (both["value_x"].isna() & both["value_y"].isna())
    return sorted(set(both.loc[~same, "measure"])), len(both)


@pytest.fixture(scope="module")
def data() -> Dataset:
    built_in: Dataset = rb.load_dataset("pydoc")
    return built_in


@pytest.mark.filterwarnings(
    "ignore::ragbench.errors.DataWarning"
)  # of sentences longer than the model reads
@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda one: str(one["retriever"]))
def test_a_configuration_has_the_same_numbers_everywhere(
    data: Dataset, configuration: dict[str, Any]
) -> None:
    notebook = notebook_scores(**configuration)
    own = configuration.copy()
    limit = own.pop("limit", 0)
    data = data.sample(limit) if limit else data
    evaluated = rb.evaluate(data, Pipeline(data, own.pop("retriever"), **own)).scores
    assert differences(notebook, evaluated) == ([], len(notebook)), (
        "evaluate has every number of the notebook"
    )
    for name in {*notebook["measure"], *evaluated["measure"]}:
        assert measure_of(name).name == name
        assert measure_of(name).perspective
    depths = {
        int(name.rpartition("@")[2])
        for name in evaluated["measure"]
        if name.rpartition("@")[2].isdigit()
    }
    assert depths == set(KS)
    budgets = {int(name) for name in evaluated["measure"].str.extract(r"@(\d+)tok")[0].dropna()}
    assert budgets == set(BUDGETS)


@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
def test_every_surface_gives_the_same_numbers(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    testset = save_dataset(data.select(list(data.queries)[:8]), tmp_path / "testsets" / "eight")
    library = rb.evaluate(testset, "bm25").scores
    monkeypatch.chdir(tmp_path)
    notebook = notebook_scores(dataset=str(testset), retriever="bm25")
    assert differences(notebook, library) == ([], len(notebook))
    command = RunBody.model_validate({"dataset": "eight"}).command(Folder(tmp_path, ""))
    assert command[0] == "eval"
    done = CliRunner().invoke(app, [*command, "--output", "served"])
    assert done.exit_code == 1, "targets are missed"
    served = rb.load_result(tmp_path / "served").scores
    assert differences(served, library) == ([], len(library)), "in the digits that a file holds"
    (tmp_path / "one.toml").write_text(
        f"[fixed]\nretriever = 'bm25'\ndataset = '{testset}'\n[axes]\nk = [5]\n"
    )
    rb.sweep(tmp_path / "one.toml", jobs=1)
    [swept] = rb.load_results(tmp_path / "results" / "one")
    assert differences(swept.scores, library) == ([], len(notebook))


@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
def test_a_system_by_http_has_the_same_numbers(
    data: Dataset, loopback: Callable[..., Any], wire: Any, tmp_path: Path
) -> None:
    data = data.sample(10)
    pipeline = Pipeline(data, "bm25", k=5)
    text_of = {chunk.chunk_id: chunk for chunk in pipeline.chunks}

    def reply(asked: Any) -> Any:
        answer = pipeline.answer("q", asked.body["query"])
        found = [
            {"id": one, "text": text_of[one].text, "doc_id": text_of[one].doc_id}
            for one in answer.contexts
        ]
        return wire.Answered(
            {"answer": answer.text, "contexts": found, "citations": list(answer.citations)}
        )

    url = f"{loopback(reply).url}/ask"
    (tmp_path / "service.toml").write_text(
        f'[http]\nurl = "{url}"\nbody = {{ query = "{{query}}" }}\n'
    )
    evaluated = rb.evaluate(data, HttpSystem(url, body={"query": "{query}"})).scores
    notebook = notebook_scores(system=str(tmp_path / "service.toml"), limit=10)
    assert differences(notebook, evaluated) == ([], len(notebook))


ARMS: tuple[dict[str, Any], ...] = (
    {"fusion": "weights:0.7"},
    {"index_text": "headings"},
    {"diversity": "mmr:0.5"},
    {"expand": "parent"},
)
"""One arm for each step that techniques.toml changes."""


def few(data: Dataset) -> Dataset:
    """Return six questions of pydoc with the documents that hold their evidence."""
    query_ids = [case.query_id for case in data.cases if case.evidence][:6]
    data = data.select(query_ids)
    names = {span.doc_id for case in data.cases for span in case.evidence}
    return replace(data, corpus={name: data.corpus[name] for name in names}, qrels={})


@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
def test_an_arm_is_one_number_in_notebook_sweep_race_evaluate_and_study(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = "span_recall@500tok"
    testset = str(save_dataset(few(data), tmp_path / "few"))
    fixed: dict[str, Any] = {"dataset": testset, "perspectives": "retrieval", "llm": "none"}
    fixed |= {"retriever": "hybrid:wordllama", "chunker": "recursive", "chunk_size": 64}
    lines = ["[fixed]", *(f"{name} = {value!r}" for name, value in fixed.items())]
    for arm in ARMS:
        lines += ["[[run]]", *(f"{name} = {value!r}" for name, value in arm.items())]
    (tmp_path / "arms.toml").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    swept = rb.sweep(tmp_path / "arms.toml", jobs=1)
    assert len(swept.finished) == len(ARMS)
    runs = read_grid(tmp_path / "arms.toml").runs
    loaded = rb.load_dataset(testset)
    study = score_arms(loaded, tmp_path / "arms.toml").groupby("arm", sort=False)
    options = {name: fixed[name] for name in ("chunker", "chunk_size", "llm")}
    means = set()
    for (name, parameters), arm, (_, of_study) in zip(runs.items(), ARMS, study, strict=True):
        racing = {"race_measure": measure, DRAWS: len(loaded), "results_dir": str(tmp_path / name)}
        pipeline = Pipeline(loaded, "hybrid:wordllama", **options, **arm)
        surfaces = {
            "evaluate": rb.evaluate(loaded, pipeline, perspectives="retrieval").scores,
            "notebook": notebook_scores(**parameters),
            "sweep": rb.load_result(tmp_path / "results" / "arms" / name).scores,
            "race": answer_round({**parameters, **racing}).scores,
        }
        values = {
            surface: scores[scores["measure"] == measure].set_index("query_id")["value"]
            for surface, scores in surfaces.items()
        }
        evaluated = values["evaluate"]
        assert len(evaluated) == len(loaded)
        for surface in ("notebook", "sweep", "race"):
            assert (values[surface] - evaluated).abs().max() <= 1e-6, (arm, surface)
        rounded = of_study.set_index("query_id")[measure].astype(float)
        assert (rounded - evaluated).abs().max() <= 5e-5, arm
        means.add(round(float(evaluated.mean()), 6))
    assert len(means) > 1, "the arms are searches of their own"


def test_labels_of_chunks_do_not_change_the_scores_of_documents(data: Dataset) -> None:
    data = data.select(list(data.queries)[:10])
    bare = replace(data, cases=[replace(case, evidence=()) for case in data.cases])
    pipeline = Pipeline(data, "bm25")
    with_spans, without = (
        rb.evaluate(one, pipeline, perspectives=["retrieval"]).scores for one in (data, bare)
    )
    assert differences(with_spans, without)[0] in ([], ["pass_rate"]), (
        "the finest labels decide what passes"
    )
    assert any(with_spans["measure"].str.startswith("span:nDCG"))
    assert not any(without["measure"].str.startswith("span"))
