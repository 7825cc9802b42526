"""The gate of the README: green for an unchanged repository, also after questions were added, red for
a broken one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragbench.cli import app

TOPICS = (
    "vacation salary parking laptop visitors badge lunch training travel phone printer holiday "
    "sickness contract bicycle insurance garden library meeting library-card heating archive"
).split()
Gate = Callable[..., tuple[int, str]]
pytestmark = pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")


def write_repository(folder: Path, n: int = 20) -> None:
    """Write documents and a table of questions with answers and sources, as a team would have it."""
    (folder / "docs").mkdir(exist_ok=True)
    lines = ["question,answer,source"]
    for i, topic in enumerate(TOPICS[:n]):
        text = f"# {topic.title()}\n\nThe rules for {topic} are kept by office {i + 3}.\n"
        (folder / "docs" / f"{topic}.md").write_text(text, encoding="utf-8")
        lines.append(f"Who keeps the rules for {topic}?,Office {i + 3}.,{topic}.md")
    (folder / "tests.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    monkeypatch.chdir(tmp_path)
    write_repository(tmp_path)

    def run(output: str, *options: str, test_set: str = "tests.csv") -> tuple[int, str]:
        command = ["eval", "--test-set", test_set, "--docs", "docs/", "--output", output]
        wide = {"COLUMNS": "200", "TERMINAL_WIDTH": "200"}  # names of measures are not cut
        done = CliRunner().invoke(app, [*command, *options], env=wide)
        return done.exit_code, " ".join(done.output.split())

    code, shown = run("./baseline")
    assert code == 0, shown
    return run


def test_an_unchanged_repository_is_green(gate: Gate) -> None:
    for output in ("./first", "./again"):  # and a second run of the same is no worse than the first
        code, shown = gate(output, "--baseline", "baseline")
        assert code == 0, shown
        assert "no regression shown" in shown.lower()
        assert "would have been noticed" in shown
        assert "20 of 20 questions passed" in shown


def test_a_new_question_and_a_changed_one_do_not_break_it(gate: Gate, tmp_path: Path) -> None:
    write_repository(tmp_path, 22)
    table = tmp_path / "tests.csv"
    text = table.read_text(encoding="utf-8")
    table.write_text(text.replace("Office 3.,", "The office 3.,"), encoding="utf-8")
    code, shown = gate("./more", "--baseline", "baseline")
    assert code == 0, shown
    assert "2 questions are new and not compared" in shown
    assert "1 question is changed and not compared" in shown


def test_more_passages_with_more_redundancy_are_green(gate: Gate) -> None:
    gate("./one", "--set", "k=1")
    code, shown = gate("./five", "--baseline", "one", "-v")
    assert code == 0, shown
    assert "no regression shown" in shown
    assert "tfidf_redundancy" in shown
    assert "shown only" in shown


def test_questions_that_vanish_with_their_documents_turn_it_red(gate: Gate, tmp_path: Path) -> None:
    lines = []
    for topic in TOPICS[:20]:
        quote = f"The rules for {topic} are kept"
        place = f"doc_id: {topic}.md, start: 0, end: {len(quote)}"
        lines += [
            f"- id: {topic}",
            f"  query: Who keeps the rules for {topic}?",
            f"  evidence: [{{{place}, quote: {quote}}}]",
        ]
    (tmp_path / "quotes.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    code, shown = gate("./quotes", test_set="quotes.yaml")
    assert code == 0, shown
    for topic in ("parking", "badge"):
        (tmp_path / "docs" / f"{topic}.md").unlink()
    code, shown = gate("./gone", "--baseline", "quotes", test_set="quotes.yaml")
    assert code == 1, shown
    assert "2 questions of the baseline lost " in shown
    assert "(parking, badge)" in shown
    junit = tmp_path / "gone.xml"
    code, shown = gate("./gone.xml", "--baseline", "quotes", test_set="quotes.yaml")
    assert code == 1, shown
    assert 'name="labels against quotes"' in junit.read_text(encoding="utf-8")
    # on purpose
    gate("./new", test_set="quotes.yaml")
    code, shown = gate("./after", "--baseline", "new", test_set="quotes.yaml")
    assert code == 0, shown


def test_default_targets_decide_without_a_baseline_only(gate: Gate, tmp_path: Path) -> None:
    for path in list((tmp_path / "docs").glob("*.md"))[:15]:
        path.write_text("# Moved\n\nThis page has moved.\n", encoding="utf-8")
    code, shown = gate("./low")
    assert code == 1, shown
    assert "targets reached, missed: nDCG@5, R@5, pass_rate" in shown
    code, shown = gate("./next", "--baseline", "low")
    assert code == 0, shown


def test_a_broken_repository_is_red(gate: Gate, tmp_path: Path) -> None:
    for path in (tmp_path / "docs").glob("*.md"):
        path.write_text("# Moved\n\nThis page has moved.\n", encoding="utf-8")
    code, shown = gate("./broken", "--baseline", "baseline")
    assert code == 1, shown
    assert "regression" in shown
    assert "find out what made" in shown or "read the questions that newly fail" in shown


def test_targets_that_are_named_gate_next_to_a_baseline(gate: Gate) -> None:
    code, shown = gate("./named", "--baseline", "baseline", "--fail-under", "claim_support=1.0")
    assert code == 1, shown
    code, shown = gate("./named2", "--baseline", "baseline", "--fail-under", "nDCG@5=0.5")
    assert code == 0, shown


def test_a_report_as_baseline_names_the_folder_to_give(gate: Gate) -> None:
    code, shown = gate("./report.json")
    assert code == 0, shown
    code, shown = gate("./second", "--baseline", "report.json")
    assert code == 2, shown
    assert "report.json is a file" in shown
    assert "ragbench eval --output FOLDER" in shown


def test_a_preset_with_failing_questions_has_what_to_try(gate: Gate, tmp_path: Path) -> None:
    for path in (tmp_path / "docs").glob("*.md"):
        path.write_text("# Moved\n\nThis page has moved.\n", encoding="utf-8")
    for preset in ("phase4", "guide", "framework", "pipeline"):
        _, shown = gate(f"./{preset}", "--targets", preset)
        report = (tmp_path / preset / "report.md").read_text(encoding="utf-8")
        assert "## Likely causes" in report, (preset, shown)
