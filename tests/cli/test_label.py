"""`ragbench label`: batches into the sheet, keys into verdicts, and the state after each batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from ragbench.cli import app
from ragbench.cli.label import ask_verdicts
from ragbench.labelling import read_sheet

RESULTS = Path(__file__).parents[2] / "results" / "quickstart"
A, B = (
    str(RESULTS / name)
    for name in ("hybrid-minilm-recursive-256-848c4db8", "bm25-fixed-512-09944a26")
)
runner = CliRunner()


def press(monkeypatch: pytest.MonkeyPatch, keys: str) -> None:
    """Type these keys, then Ctrl-C."""
    pressed: Iterator[str] = iter(keys)

    def getchar() -> str:
        key = next(pressed, "")
        if not key:
            raise KeyboardInterrupt
        return key

    monkeypatch.setattr(typer, "getchar", getchar)


def test_a_sheet_is_begun_labelled_with_keys_interrupted_and_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sheet = tmp_path / "labels.csv"
    arguments = ["label", A, B, "--sheet", str(sheet), "--batch", "3"]
    begun = runner.invoke(app, arguments)
    assert begun.exit_code == 0, begun.output
    assert "Undecided by people's verdicts (correctness): 0 of" in begun.output
    assert "semantic_similarity alone" in begun.output
    n = len(read_sheet(sheet))
    assert 3 <= n <= 6
    assert f"{n} answers wait" in runner.invoke(app, arguments).output, "the batch is pending"
    assert len(read_sheet(sheet)) == n

    press(monkeypatch, "ys?n")  # the second is skipped; ? is not a key
    with pytest.raises(KeyboardInterrupt):
        ask_verdicts(sheet, "me")
    rows = read_sheet(sheet)
    assert rows["value"].tolist()[:3] == [1.0, rows["value"][1], 0.0]
    assert rows["value"].notna().sum() == 2
    press(monkeypatch, "q")
    assert not ask_verdicts(sheet, "me")
    press(monkeypatch, "y" * n)
    assert ask_verdicts(sheet, "me")
    assert read_sheet(sheet)["value"].notna().all()
    assert read_sheet(sheet)["value"].tolist()[2] == 0.0, "nothing is asked twice"

    continued = runner.invoke(app, arguments)
    assert "Undecided by people's verdicts (correctness): 3 of" in continued.output
    rows = read_sheet(sheet)
    assert rows["item"].is_unique
    assert rows.groupby("batch")["query_id"].nunique().tolist() == [3, 3]


def test_the_names_of_the_configurations_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sheet = tmp_path / "labels.csv"
    runner.invoke(app, ["label", A, B, "--sheet", str(sheet), "--batch", "2"])
    press(monkeypatch, "yyyy")
    ask_verdicts(sheet, "me")
    shown = capsys.readouterr().out
    assert "Reference answer:" in shown
    assert "hybrid" not in shown
    assert "bm25" not in shown


def test_a_folder_of_many_results_is_refused(tmp_path: Path) -> None:
    refused = runner.invoke(app, ["label", str(RESULTS), A, "--sheet", str(tmp_path / "l.csv")])
    assert refused.exit_code == 2
    assert "name the folders of two" in refused.output
