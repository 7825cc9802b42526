"""`ragbench eval` after documents and questions were edited: what changed is said."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.errors import DataWarning

TESTS = """name: pets
cases:
- case_id: q1
  question: Which animal naps?
  relevant_docs: [cats.md]
- case_id: q2
  question: Which animal barks?
  relevant_docs: [dogs.md]
"""


def test_eval_says_what_changed_since_the_last_run(tmp_path: Path) -> None:
    docs, tests = tmp_path / "docs", tmp_path / "tests.yaml"
    docs.mkdir()
    (docs / "cats.md").write_text("# Cats\n\nCats nap.\n")
    (docs / "dogs.md").write_text("# Dogs\n\nDogs bark.\n")
    tests.write_text(TESTS)

    def evaluated(folder: str, status: int = 0) -> str:
        output = str(tmp_path / "results" / folder)
        arguments = ["eval", "bm25", "--test-set", str(tests), "--docs", str(docs)]
        arguments += ["--perspective", "retrieval", "--output", output]
        ended = CliRunner().invoke(app, arguments)
        assert ended.exit_code == status, ended.output
        return ended.stderr

    assert "Since the last run" not in evaluated("monday")
    (docs / "cats.md").write_text("# Cats\n\nCats nap all day.\n")
    tests.write_text(TESTS.replace("Which animal barks?", "What barks?"))
    monday = rb.load_results(tmp_path / "results")["monday"].made_at[:16]
    said = evaluated("friday")
    assert f"Since the last run ({monday}): 1 document changed (cats.md); 1 question" in said
    assert "Since the last run" not in evaluated("saturday"), "nothing changed since Friday"
    refused = evaluated("monday", status=2)
    assert "test set or documents: 1 document changed (cats.md); 1 question changed" in refused


def test_a_deleted_document_with_evidence_is_named_and_the_run_goes_on(tmp_path: Path) -> None:
    docs, tests = tmp_path / "docs", tmp_path / "tests.yaml"
    docs.mkdir()
    (docs / "cats.md").write_text("# Cats\n\nCats nap.\n")
    (docs / "dogs.md").write_text("# Dogs\n\nDogs bark.\n")
    evidence = "  evidence: [{doc_id: dogs.md, start: 8, end: 18, quote: Dogs bark.}]\n"
    tests.write_text(TESTS + evidence)
    output = tmp_path / "results"

    def evaluated(folder: str, status: int) -> str:
        arguments = ["eval", "bm25", "--test-set", str(tests), "--docs", str(docs)]
        arguments += ["--perspective", "retrieval", "--output", str(output / folder)]
        ended = CliRunner().invoke(app, arguments)
        assert ended.exit_code == status, ended.output
        return ended.stderr

    evaluated("monday", 0)
    (docs / "dogs.md").unlink()
    with pytest.warns(DataWarning) as caught:
        said = evaluated("tuesday", 1)  # a target is missed
    assert "1 document removed (dogs.md)" in said
    texts = [str(each.message) for each in caught]
    lost = [text for text in texts if "evidence is left out" in text]
    assert lost[0].endswith("(first: 'q2 dogs.md')"), texts
    scores = pd.read_csv(output / "tuesday" / "scores.csv")
    first = scores[scores["measure"] == "R@5"].set_index("query_id")["value"]
    assert first.to_dict() == {"q1": 1.0, "q2": 0.0}, "the deleted document still counts as missed"
