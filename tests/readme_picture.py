"""The picture in README.md: the leaderboard of results/quickstart, every difference drawn in its
interval.

python -m tests.readme_picture
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import ragbench as rb

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "results/quickstart/leaderboard.svg"
_MEASURE = "span_recall_auc"
_WIDE, _ROW, _TOP, _LEFT, _RIGHT = 760, 24, 56, 340, 740
_END = 0.4  # of the axis of the differences


def drawn() -> str:
    """The picture as SVG: colours show what has a Holm-adjusted p below 0.05."""
    results = rb.load_results(ROOT / "results/quickstart")
    table = results.leaderboard(_MEASURE)
    baseline = next(name for name in table["name"] if name.startswith("bm25-fixed-512"))
    changes: dict[str, Any] = {
        row["name"]: row for _, row in results.compare(baseline, measures=[_MEASURE]).iterrows()
    }
    height = _TOP + _ROW * len(table) + 34
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{_WIDE}" height="{height}" fill="white"/>',
        '<text x="12" y="22" font-weight="bold">Evidence found at an equal context budget '
        "(span_recall_auc), mean and "
        "difference from the baseline</text>",
    ]
    for tick in (-0.2, 0.0, 0.2, 0.4):
        at, colour = _at(tick), "#333" if tick == 0 else "#ddd"
        lines.append(f'<path d="M{at} {_TOP - 14}V{height - 30}" stroke="{colour}"/>')
        lines.append(
            f'<text x="{at}" y="{height - 14}" text-anchor="middle" '
            f'fill="#555">{f"{tick:+.1f}" if tick else 0}</text>'
        )
    for place, row in enumerate(table.to_dict("records")):
        y = _TOP + _ROW * place
        lines.append(
            f'<text x="12" y="{y + 4}">{row["rank"]}</text><text x="36" '
            f'y="{y + 4}">{escape(row["label"])}</text>'
        )
        lines.append(f'<text x="270" y="{y + 4}" text-anchor="end">{row[_MEASURE]:.3f}</text>')
        change = changes.get(row["name"])
        if change is None:
            lines.append(f'<text x="{_at(0) + 8}" y="{y + 4}" fill="#555">baseline</text>')
            continue
        colour = (
            "#7F7F7F"
            if change["p_adjusted"] >= 0.05
            else "#0072B2"
            if change["difference"] > 0
            else "#D55E00"
        )
        ends = f"M{_at(change['ci_low'])} {y}H{_at(change['ci_high'])}"
        lines.append(f'<path d="{ends}" stroke="{colour}" stroke-width="2.5"/>')
        lines.append(f'<circle cx="{_at(change["difference"])}" cy="{y}" r="4" fill="{colour}"/>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _at(difference: float) -> float:
    return round(_LEFT + (difference + 0.2) / (_END + 0.2) * (_RIGHT - _LEFT), 1)


if __name__ == "__main__":
    PICTURE.write_text(drawn(), encoding="utf-8")
