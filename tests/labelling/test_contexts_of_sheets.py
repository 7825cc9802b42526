"""Sheets show the contexts that each system answered from, whatever kind of system it is."""

from __future__ import annotations

from pathlib import Path

import pytest

import ragbench as rb
from ragbench.errors import ConfigError
from ragbench.types import Answer, Case, Dataset, Document

pytestmark = pytest.mark.filterwarnings("ignore:.*none of its passages.*")

CASES = [Case(f"q{i}", f"What is {i}?", reference_answer=f"It is {i}.") for i in range(12)]
DOCS = {f"d{i}": Document(f"d{i}", f"It is {i}, says the page.") for i in range(12)}
DATA = Dataset("n", "test", DOCS, CASES, {f"q{i}": {f"d{i}": 1} for i in range(12)})


def service(question: str) -> dict[str, object]:
    number = question.split()[-1][:-1]
    return {"answer": f"It is {number}.", "contexts": [f"The page of {number}."]}


@pytest.mark.parametrize("criterion", ["correctness", "faithfulness"])
def test_a_pipeline_and_a_service_have_sheets_with_their_own_contexts(
    tmp_path: Path, criterion: str
) -> None:
    made = [rb.evaluate(DATA, rb.FunctionSystem(service, name="svc")), rb.evaluate(DATA, "bm25")]
    rb.save(made[0], tmp_path / "a")
    rb.save(made[1], tmp_path / "b")
    loaded = [rb.load_result(tmp_path / name) for name in ("a", "b")]
    for results in (made, loaded):
        items = rb.labelling.draw_items(results, criterion, dataset=DATA, n=12)
        of_service = [item for item in items if results[0].name in item.sources]
        of_pipeline = [item for item in items if item.sources == (results[1].name,)]
        assert all("The page of" in item.contexts[0] for item in of_service)
        assert all("says the page." in item.contexts[0] for item in of_pipeline)
        assert of_service
        assert of_pipeline


def test_ids_of_another_chunking_tool_are_refused() -> None:
    answers = [Answer(case.query_id, "It is.", ("chunk-7",), outcome="success") for case in CASES]
    result = rb.evaluate(DATA, answers)
    with pytest.raises(ConfigError, match="faithfulness is judged by the documents"):
        rb.labelling.draw_items([result], "faithfulness", dataset=DATA)
