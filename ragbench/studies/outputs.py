"""The files that a study's notebook leaves in the folder of its result."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure


def write_table(table: pd.DataFrame, folder: str | Path, name: str) -> pd.DataFrame:
    """Write a table as NAME, a CSV file with six digits after the point or a Parquet file.

    Returns:
        The table, for a notebook to show.
    """
    path = Path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        table.to_parquet(path, compression="zstd", index=False)
    else:
        table.to_csv(path, index=False, float_format="%.6f")
    return table


def save_figure(figure: Figure, folder: str | Path, name: str) -> Figure:
    """Write a figure as NAME.png (100 dpi) and NAME.pdf (vectors, for print), the same bytes each time.

    Returns:
        The figure, for a notebook to show.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    figure.savefig(target / f"{name}.png", dpi=100)
    figure.savefig(target / f"{name}.pdf", metadata={"CreationDate": None})
    return figure
