"""Files of figures and tables: for pages and for print, the same bytes each time."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from ragbench.report.plots import new_axes
from ragbench.studies.figures import plot_promises
from ragbench.studies.outputs import save_figure, write_table


def promises() -> pd.DataFrame:
    rows = [("c", arms, n, 0.1 * arms, 0.08, 0.07) for arms in (2, 3) for n in (20, 40)]
    columns = ["collection", "arms", "questions", "promised", "shrunken", "real"]
    return pd.DataFrame(rows, columns=columns)


def test_a_figure_for_print_is_made_of_vectors_and_the_same_each_time(tmp_path: Path) -> None:
    for name in ("first", "second"):
        save_figure(plot_promises(promises()), tmp_path / name, "promises")
    pdf = (tmp_path / "first" / "promises.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"/Subtype /Image" not in pdf
    for kind in ("pdf", "png"):
        first, second = (tmp_path / name / f"promises.{kind}" for name in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()


def test_any_figure_can_be_written_with_300_dots_per_inch(tmp_path: Path) -> None:
    figure, axes = new_axes(4, 2)
    axes.plot([1, 2], [1, 2])
    figure.savefig(tmp_path / "print.png", dpi=300)
    with Image.open(tmp_path / "print.png") as picture:
        assert picture.size == (1200, 600)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_table_is_written_where_no_folder_is_yet(tmp_path: Path, name: str) -> None:
    table = pd.DataFrame({"a": ["x"], "b": [1 / 3]})
    assert write_table(table, tmp_path / "new", name) is table
    read = pd.read_csv if name.endswith("csv") else pd.read_parquet
    assert read(tmp_path / "new" / name)["b"][0] == pytest.approx(1 / 3, abs=1e-6)
