"""`ragbench eval` after documents and questions were edited: what changed is said."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from ragbench.cli import app

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
    said = evaluated("tuesday")
    assert "1 document changed (cats.md); 1 question changed (q2)." in said
    assert "Since the last run" not in evaluated("wednesday"), "nothing changed since Tuesday"
    refused = evaluated("monday", status=2)
    assert "test set or documents: 1 document changed (cats.md); 1 question changed" in refused
