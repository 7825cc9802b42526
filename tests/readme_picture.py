"""The picture in README.md: every configuration of results/quickstart against the baseline.

python -m tests.readme_picture
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

import ragbench as rb
from ragbench.report.plots import plot_decision

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "results/quickstart/leaderboard.png"
_MEASURE = "span_recall_auc"


def source() -> str:
    """SHA-256 of the scores that the picture shows."""
    sha = hashlib.sha256()
    for path in sorted((ROOT / "results/quickstart").glob("*/scores.csv")):
        sha.update(path.read_bytes())
    return sha.hexdigest()


def main() -> None:
    results = rb.load_results(ROOT / "results/quickstart")
    board = results.leaderboard(_MEASURE)
    baseline = next(name for name in board["name"] if name.startswith("bm25-fixed-512"))
    figure = plot_decision(board, _MEASURE, results.compare(baseline, measures=[_MEASURE]))
    FigureCanvasAgg(figure).print_png(str(PICTURE), metadata={"Source": source()})
    Image.open(PICTURE).verify()


if __name__ == "__main__":
    main()
