"""Gold facts next to the passages that are labelled."""

from pathlib import Path

from typer.testing import CliRunner

from ragbench.cli import app
from ragbench.metrics.answer_similarity import facts_without_source
from ragbench.types import Case, Dataset, Document, Span

TEXT = "Employees get 15 days paid vacation per year. Sick leave is 10 days."


def test_facts_that_no_labelled_passage_holds_are_named() -> None:
    facts = (("15 days vacation",), ("10 days", "ten days"), ("20 days",))
    cases = [
        Case("whole", "?", gold_facts=facts),
        Case("part", "?", gold_facts=facts, evidence=(Span("d", 0, 45),)),
        Case("unlabelled", "?", gold_facts=facts),
        Case("elsewhere", "?", gold_facts=facts),
    ]
    qrels = {"whole": {"d": 1}, "part": {"d": 1}, "elsewhere": {"gone": 1}}
    data = Dataset("mine", "test", {"d": Document("d", TEXT)}, cases, qrels)
    assert facts_without_source(data) == [
        ("whole", "20 days"),
        ("part", "10 days"),
        ("part", "20 days"),
    ]


def test_validation_names_them_and_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "leave.md").write_text(TEXT)
    (tmp_path / "mine.yaml").write_text(
        "cases:\n- query_id: q1\n  query: How long?\n  relevant: [leave.md]\n"
        "  gold_facts: [15 days vacation, 20 days]\n"
    )
    command = ["testset", "validate", str(tmp_path / "mine.yaml"), "--docs", str(tmp_path / "docs")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "q1: no labelled passage holds the gold fact '20 days'" in done.output
    assert "15 days vacation" not in done.output
