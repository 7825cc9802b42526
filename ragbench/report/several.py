"""Several results in one report: their leaderboard, their comparison, what follows."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable

import pandas as pd

from ragbench.evaluation import Results
from ragbench.evaluation.report_json import plain as plain_data
from ragbench.evaluation.results import baseline_name, configurations, ranking_measure
from ragbench.report.conclusions import conclusion
from ragbench.report.failures import plain
from ragbench.report.leaderboard import leaderboard_html, leaderboard_markdown
from ragbench.statistics import p_text

_STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 "
    "system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}"
    "h1{font-size:1.5rem}ul{padding-left:1.2rem}table{border-collapse:collapse;display:block;overflow-x:auto}"
    "th,td{padding:.3rem .6rem;border:1px solid "
    "#8886;text-align:left;font-variant-numeric:tabular-nums}"
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_BOARD = "\ufdd0leaderboard"  # no text of a result has this character: it is none


def results_markdown(results: Results) -> str:
    """Write the conclusion, the leaderboard and the comparison with the first configuration by
    name, as Markdown.
    """
    return _page(results, leaderboard_markdown)


def _page(results: Results, board: Callable[[pd.DataFrame, str, pd.DataFrame | None], str]) -> str:
    main, baseline = ranking_measure(results), baseline_name(results)
    parts = [f"# Comparison of {len(results)} configurations", ""]
    comparison = results.compare(baseline) if len(results) > 1 else None
    table = board(results.leaderboard(main), main, comparison)
    if comparison is None:
        return "\n".join([*parts, table]) + "\n"
    label = configurations(results).set_index("name")["label"].map(plain)
    parts += [f"- {line}" for line in conclusion(results, comparison, baseline, main)]
    parts += ["", "## Leaderboard", "", table, "", "## Differences", ""]
    parts += [
        f"{main}, each configuration against {label[baseline]}:",
        "",
        _differences(comparison, label),
    ]
    return "\n".join(parts) + "\n"


def _differences(comparison: pd.DataFrame, label: pd.Series[str]) -> str:
    lines = ["| configuration | difference | 95 % interval | p (Holm) | n |", "| --- " * 5 + "|"]
    for row in comparison.to_dict("records"):
        interval = (
            ""
            if row["ci_low"] != row["ci_low"]
            else f"[{row['ci_low']:+.3f}, {row['ci_high']:+.3f}]"
        )
        cells = [
            label[row["name"]],
            f"{row['difference']:+.3f}",
            interval,
            p_text(row["p_adjusted"]),
            str(row["n"]),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def results_html(results: Results) -> str:
    """Write `results_markdown` as one HTML page; texts are escaped."""
    from markdown_it import MarkdownIt

    # The leaderboard is our HTML; all other HTML is shown and never obeyed.
    boards: list[str] = []

    def keep(table: pd.DataFrame, measure: str, comparison: pd.DataFrame | None) -> str:
        boards.append(leaderboard_html(table, measure, comparison))
        return _BOARD

    text = re.sub(
        "</?span>", "", _page(results, keep)
    )  # they are against MathJax, which this page does not load
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    body = body.replace(f"<p>{_BOARD}</p>", boards[0])
    title = html.escape(f"Comparison of {len(results)} configurations")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="generator" '
        f'content="ragbench"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head>"
        f"<body>{body}</body></html>\n"
    )


def results_json(results: Results) -> str:
    """Write the leaderboard and the comparison as JSON; what is unknown is null."""
    board = results.leaderboard()
    tables = {
        "leaderboard": board,
        "comparison": results.compare() if len(results) > 1 else board.head(0),
    }
    records = {
        name: table.astype(object).where(table.notna(), None).to_dict("records")
        for name, table in tables.items()
    }
    return (
        json.dumps(plain_data(records), indent=1, ensure_ascii=False, allow_nan=False, default=str)
        + "\n"
    )
