"""The leaderboard for readers: the ranking measure, the difference from the baseline as a small
plot, what it costs.

Every other measure is a column of `Results.leaderboard`, which a sweep writes to leaderboard.csv.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from html import escape
from typing import Any, NamedTuple

import pandas as pd

from ragbench.evaluation.results import PER_QUESTION, judged_columns
from ragbench.registry import higher_is_better
from ragbench.report.conclusions import ALPHA
from ragbench.report.failures import plain
from ragbench.report.page import axis_end, forest_line
from ragbench.statistics.frames import with_interval

_WIDE, _HIGH, _EDGE = 180.0, 20, 6.0  # of a drawing, in pixels
_BETTER, _WORSE, _UNCLEAR = "#0072B2", "#D55E00", "#7F7F7F"


class _Mark(NamedTuple):
    """A difference in its interval; `better` is None where its adjusted p is not below `ALPHA`."""

    low: float
    value: float
    high: float
    better: bool | None


class _Cell(NamedTuple):
    lines: list[str]
    mark: _Mark | None = None


def leaderboard_markdown(
    table: pd.DataFrame, measure: str, comparison: pd.DataFrame | None = None
) -> str:
    """Write the leaderboard as a Markdown table: means with their 95 % interval and the questions
    scored, latency, cost.

    Args:
        table: as from `Results.leaderboard`.
        measure: what it is ranked by: the first column after the names, in bold.
        comparison: as from `Results.compare` by that measure; None leaves out the differences.
    """
    header, rows, end = _cells(table, measure, comparison)
    lines = [
        "| " + " | ".join(header).replace(measure, f"**{measure}**", 1) + " |",
        "|" + " --- |" * len(header),
    ]
    for row in rows:
        texts = ["<br>".join(cell.lines) for cell in row]
        texts[1] = plain(texts[1])
        for column, (_, mark) in enumerate(row):
            if mark is not None:
                dot = "○" if mark.better is None else "●"
                texts[column] += (
                    f"<br>`{forest_line(*mark[:3], end, width=21, dot=dot, empty='·')}`"
                )
        lines.append("| " + " | ".join(texts) + " |")
    if comparison is not None:
        lines += ["", f"Plots end at ±{end:g}. ● has a Holm-adjusted p below {ALPHA:g}, ○ has not."]
    return "\n".join(lines) + "\n"


def leaderboard_html(
    table: pd.DataFrame, measure: str, comparison: pd.DataFrame | None = None
) -> str:
    """Write the leaderboard as HTML with every difference drawn in its interval; other columns are
    folded below it.

    JupyterLab removes the drawings in a notebook that is not trusted; the numbers next to them are
    left. The arguments are those of `leaderboard_markdown`.
    """
    header, rows, end = _cells(table, measure, comparison)
    apart = 'class="tex2jax_ignore mathjax_ignore" style="overflow-x:auto"'
    style = "text-align:left;vertical-align:middle;white-space:nowrap;padding:4px 8px"
    heads = [
        f"<b>{escape(name)}</b>" if name.startswith(f"{measure} (") else escape(name)
        for name in header
    ]
    head = "".join(f'<th style="{style};font-weight:normal">{name}</th>' for name in heads)
    lines = [[f'<td style="{style}">{_html(cell, end)}</td>' for cell in row] for row in rows]
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in lines)
    note = ""
    if comparison is not None:
        note = (
            f"<p>Drawings end at ±{end:g}. Filled: Holm-adjusted p below {ALPHA:g}, blue better "
            "and orange worse than the baseline; hollow: no difference is shown.</p>"
        )
    everything = _everything(table).to_html(index=False, border=0)
    return (
        f"<div {apart}><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{note}"
        f"<details><summary>Every measure</summary><div {apart}>{everything}</div></details>"
    )


def _everything(table: pd.DataFrame) -> pd.DataFrame:
    """Return all columns of the leaderboard but the names, means with their intervals."""
    texts = table[["rank", "label"]].astype(str)
    for name in table.columns[4:]:
        if f"{name}_ci_low" in table:
            rows = zip(table[name], table[f"{name}_ci_low"], table[f"{name}_ci_high"], strict=True)
            texts[name] = [with_interval(*row) for row in rows]
        elif not name.endswith(("_ci_low", "_ci_high")):
            values = table[name].astype(object).where(table[name].notna(), "–")
            texts[name] = [
                f"{value:g}" if isinstance(value, float) else str(value) for value in values
            ]
    return texts


def _cells(
    table: pd.DataFrame, measure: str, comparison: pd.DataFrame | None
) -> tuple[list[str], list[list[_Cell]], float]:
    """Return the names of the columns, the rows, and the end of the axis of the differences."""
    changes = (
        {} if comparison is None else {row["name"]: row for row in comparison.to_dict("records")}
    )
    ends = [float(row[end]) for row in changes.values() for end in _ENDS if not pd.isna(row[end])]
    columns = [column for column in _COLUMNS if _known(table, column)]
    means = [] if measure == "nDCG@10" or "nDCG@10" not in table else ["nDCG@10"]
    means += [name for name in judged_columns(table) if name != measure]
    header = ["#", "configuration", f"{measure} (ranked by)"]
    header += ["difference from the baseline"] if comparison is not None else []
    header += [*means, *(_COLUMNS[column][0] for column in columns)]
    rows = []
    for row in table.to_dict("records"):
        cells = [
            _Cell([_number(row["rank"], "{:d}", "unranked")]),
            _Cell([str(row["label"])]),
            _mean(row, measure),
        ]
        if comparison is not None:
            cells.append(_difference(changes.get(row["name"]), measure))
        cells += [_mean(row, name) for name in means]
        cells += [_Cell([_number(row[column], _COLUMNS[column][1])]) for column in columns]
        rows.append(cells)
    return header, rows, axis_end(ends)


_ENDS = ("difference", "ci_low", "ci_high")
_COLUMNS = {
    "latency_p50_ms": ("p50 (ms)", "{:,.1f}"),
    "latency_p95_ms": ("p95 (ms)", "{:,.1f}"),
    "cost_per_1000_usd": ("dollars per 1,000 questions", "{:,.2f}"),
    "search_ms": ("search (ms)", "{:.2f}"),
    "generate_ms": ("reply (ms)", "{:,.0f}"),
    "cost_usd": ("cost (dollars)", "{:.4f}"),
    "generator_cost_usd": ("of which answers", "{:.4f}"),
    "judge_cost_usd": ("of which judge", "{:.4f}"),
}


def _known(table: pd.DataFrame, column: str) -> bool:
    """Return True if a column is worth its place: what a run costs where anything does, its parts
    where a judge does."""
    if column in PER_QUESTION:
        return True
    if column == "search_ms":
        return bool(table[column].notna().all())
    judged = "judge_cost_usd" in table and bool((table["judge_cost_usd"].fillna(0) > 0).any())
    if column in ("generator_cost_usd", "judge_cost_usd"):
        return judged
    return judged or ("with_llm" in table and bool(table["with_llm"].any()))


def _number(value: Any, form: str, unknown: str = "unknown") -> str:
    return unknown if pd.isna(value) else form.format(value)


def _mean(row: Mapping[Hashable, Any], measure: str) -> _Cell:
    """Show a mean, its interval if it has one (as a single question has not), and the number of
    questions scored.
    """
    low, high = row[f"{measure}_ci_low"], row[f"{measure}_ci_high"]
    interval = [] if pd.isna(low) else [f"[{low:.3f}, {high:.3f}]"]
    return _Cell([_number(row[measure], "{:.3f}", "unscored"), *interval, str(row[f"{measure}_n"])])


def _difference(change: Mapping[Hashable, Any] | None, measure: str) -> _Cell:
    if change is None:
        return _Cell(["baseline"])
    if pd.isna(change["difference"]):
        return _Cell(["unscored"])
    value = float(change["difference"])
    if pd.isna(change["ci_low"]):
        return _Cell([f"{value:+.3f}"])
    low, high = float(change["ci_low"]), float(change["ci_high"])
    decided = not pd.isna(change["p_adjusted"]) and float(change["p_adjusted"]) < ALPHA
    better = (value > 0) == higher_is_better(measure) if decided else None
    return _Cell([f"{value:+.3f}", f"[{low:+.3f}, {high:+.3f}]"], _Mark(low, value, high, better))


def _html(cell: _Cell, end: float) -> str:
    first, *rest = map(escape, cell.lines)
    text = f"{first}<br><small>{', '.join(rest)}</small>" if rest else first
    if cell.mark is None:
        return text
    return f'<div style="display:flex;gap:10px;align-items:center"><div>{text}</div>{_drawing(cell.mark, end)}</div>'


def _drawing(mark: _Mark, end: float) -> str:
    low, value, high = (
        round(_WIDE / 2 + (_WIDE / 2 - _EDGE) * min(max(number / end, -1.0), 1.0), 1)
        for number in mark[:3]
    )
    colour = {None: _UNCLEAR, True: _BETTER, False: _WORSE}[mark.better]
    return (
        f'<svg viewBox="0 0 {_WIDE:g} {_HIGH}" width="{_WIDE:g}" height="{_HIGH}" '
        f'style="flex:none" role="img" aria-label="{mark.value:+.3f} from {mark.low:+.3f} '
        f'to {mark.high:+.3f}"><path d="M{_WIDE / 2} 0V{_HIGH}" stroke="currentColor" '
        f'stroke-opacity="0.6"/><path d="M{low} {_HIGH / 2}H{high}" stroke="{colour}" '
        f'stroke-width="2.5"/><circle cx="{value}" cy="{_HIGH / 2}" r="4" stroke="{colour}" '
        f'stroke-width="2" fill="{"none" if mark.better is None else colour}"/></svg>'
    )
