"""The report of several results: their leaderboard, their comparison, the conclusion, as Markdown,
HTML or JSON; and the frame of a page without scripts.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from ragbench.evaluation import Results
from ragbench.report.conclusions import conclusion_markdown
from ragbench.report.leaderboard import leaderboard_markdown
from ragbench.report.page.report_json import json_text

if TYPE_CHECKING:
    import pandas as pd

_STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 "
    "system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}"
    "h1{font-size:1.5rem}ul{padding-left:1.2rem}table{border-collapse:collapse;display:block;overflow-x:auto}"
    "img{max-width:100%;height:auto}th,td{padding:.3rem .6rem;border:1px solid "
    "#8886;text-align:left;font-variant-numeric:tabular-nums}"
)
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def results_markdown(results: Results) -> str:
    """Write the decision, the key findings and the leaderboard as Markdown."""
    conclusion = results.conclude()
    board = results.leaderboard(conclusion.measure)
    comparison = results.compare() if len(results) > 1 else None
    table = leaderboard_markdown(board, conclusion.measure, comparison)
    return f"{conclusion_markdown(conclusion)}\n## Leaderboard\n\n{table}"


def results_html(results: Results) -> str:
    """Write `results_markdown` as one HTML page with its drawing; texts are escaped."""
    return page_html(f"Comparison of {len(results)} configurations", results_body(results))


def results_body(results: Results) -> str:
    """Return `results_markdown` as HTML for the body of a page; texts are escaped. Of several results,
    a plot of their differences follows the heading.
    """
    from markdown_it import MarkdownIt

    # spans keep notebooks from reading dollars as formulas, which is not needed here
    text = re.sub("</?span>", "", results_markdown(results))
    body: str = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    if len(results) > 1:
        heading, end, rest = body.partition("</h1>")
        body = f"{heading}{end}{_image_of_decision(results)}{rest}"
    return body


def page_html(title: str, body: str, style: str = "") -> str:
    """Return a page without scripts that asks nothing of any network; `style` is added to its own.

    The title is escaped, the body and the style are not.
    """
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="generator" '
        f'content="ragbench"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}{style}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def _image_of_decision(results: Results) -> str:
    """Return the plot of the differences from the baseline as an HTML element with an image."""
    from ragbench.report.plots.differences import plot_decision

    main = results.deciding().measure
    figure: Any = plot_decision(results.leaderboard(main), main, results.compare())
    data = base64.b64encode(figure._repr_png_()).decode()
    alt = f"Difference of each configuration from the baseline in {html.escape(main)}"
    return (
        f'<p><img alt="{alt}; the numbers are in the table" src="data:image/png;base64,{data}"></p>'
    )


def results_json(results: Results) -> str:
    """Return the conclusion, the leaderboard and the comparison as JSON; unknown values are null. Of a
    single result, the comparison has no rows.
    """
    board = results.leaderboard()
    no_rows = board.head(0)
    comparison = results.compare() if len(results) > 1 else no_rows
    return json_text(
        {
            "conclusion": results.conclude().to_dict(),
            "leaderboard": _records(board),
            "comparison": _records(comparison),
        }
    )


def _records(table: pd.DataFrame) -> list[dict[Hashable, Any]]:
    """Return the rows of a table, with None for an unknown value."""
    return table.astype(object).where(table.notna(), None).to_dict("records")
