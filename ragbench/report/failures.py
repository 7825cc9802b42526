"""Where answers fail, for readers: the worst questions with everything to see why, and what each
stage costs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ragbench.errors import DataError, printable
from ragbench.evaluation import CAUSES, Result, Results, by_severity
from ragbench.evaluation.results import configurations
from ragbench.files import read_json
from ragbench.statistics import compare, summarise
from ragbench.statistics.columns import adjusted_p_values
from ragbench.testsets.interventions import expectation
from ragbench.types import Answer, Chunk, Dataset

_CHANGE = {
    "contender": "correct",
    "difference": "difference",
    "ci_low": "difference_ci_low",
    "ci_high": "difference_ci_high",
}
_TOLERATED = 0.95  # fraction of answers as they must be, below which an intervention alarms


def worst_failures(diagnosis: pd.DataFrame, *, rows: int = 10, notebook: str = "") -> str:
    """Return the failed questions, the worst first (see `by_severity`), as a Markdown table; other
    markup is escaped.

    Columns: place, question, cause in words, evidence. `place` is a link to the heading that
    `failure_details` gives the question in the notebook that shows the table or, with the path of
    another, executed `notebook`, to the cell there that shows the question.
    """
    anchors, lines = _anchors(Path(notebook)) if notebook else {}, []
    for row in by_severity(diagnosis).head(rows).to_dict("records"):
        heading = _heading(row["query_id"])
        target = f"{Path(notebook).name}{anchors.get(heading, '')}" if notebook else f"#{heading}"
        texts = [row["question"], CAUSES[row["cause"]], row["evidence"]]
        place = f"[{plain(row['query_id'])}]({target})"
        lines.append([place, *(plain(str(text)) for text in texts)])
    heads = ["place", "question", "cause", "evidence"]
    return markdown_table(heads, lines) if lines else "No question failed."


def disagreements(results: Results, measure: str, folder: str | Path) -> str:
    """Return the questions whose scores differ most between the two best configurations, as a
    Markdown table that links to them in the executed notebook of the best.
    """
    board = results.leaderboard(measure)
    if len(board) < 2:
        return "There is one configuration only."
    best, second = board["name"].iloc[:2]
    scores = results.scores[results.scores["measure"] == measure]
    values = scores.pivot(index="query_id", columns="name", values="value")[[best, second]]
    values["difference"] = (values[best] - values[second]).abs()
    values = values[values["difference"] > 0].nlargest(3, "difference")
    if values.empty:
        return "They have the same score on every question."
    path = Path(folder) / f"{best}.ipynb"
    anchors, lines = _anchors(path), []
    for query_id, row in values.iterrows():
        question = plain(results[best].queries[str(query_id)])
        target = f"{path.name}{anchors.get(_heading(str(query_id)), '')}"
        lines.append([f"[{question}]({target})", f"{row[best]:.3f}", f"{row[second]:.3f}"])
    return markdown_table(["question", *map(plain, board["label"].iloc[:2])], lines)


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown; its texts must be escaped."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _anchors(notebook: Path) -> dict[str, str]:
    """Return heading -> fragment of the cell that shows it. JupyterLab finds headings in outputs
    only in a notebook that is open already, cells always; nbconvert gives cells the same anchors.
    """
    try:
        cells = read_json(notebook, "")["cells"]
    except (DataError, KeyError, TypeError):
        return {}
    return {
        line.removeprefix("#### ").strip(): f"#cell-id={cell['id']}"
        for cell in cells
        for output in cell.get("outputs", ())
        for line in "".join(output.get("data", {}).get("text/markdown", "")).splitlines()
        if line.startswith("#### ") and "id" in cell
    }


def failure_details(
    dataset: Dataset,
    diagnosis: pd.DataFrame,
    answers: Sequence[Answer],
    chunks: Sequence[Chunk],
    *,
    rows: int = 10,
) -> list[str]:
    """Show the questions of `worst_failures` as Markdown, each with its heading: expected,
    answered, retrieved.

    A notebook shows each in a cell of its own, so that a link from another notebook arrives at the
    question.
    """
    case_of = {case.query_id: case for case in dataset.cases}
    answer_of = {answer.query_id: answer for answer in answers}
    text_of = {chunk.chunk_id: chunk.text for chunk in chunks}
    failed = by_severity(diagnosis).head(rows)
    parts = []
    for row in failed.to_dict("records"):
        case, answer = case_of[row["query_id"]], answer_of.get(row["query_id"])
        lines = [f"#### {_heading(case.query_id)}", f"**{plain(case.text)}**", ""]
        lines.append(f"- cause: {CAUSES[row['cause']]} ({plain(row['evidence'])})")
        facts = "; ".join(fact[0] for fact in case.gold_facts)
        lines.append(
            f"- expected: {plain(_cut(case.reference_answer or facts or case.expected_outcome or 'no label'))}"
        )
        lines.append(f"- answered: {plain(_cut(answer.text if answer else 'nothing'))}")
        for span in [span for span in case.evidence if span.doc_id in dataset.corpus][:2]:
            text = dataset.corpus[span.doc_id].full_text[span.start : span.end]
            lines.append(f"- evidence in {plain(span.doc_id)}: {plain(_cut(text))}")
        for rank, chunk_id in enumerate(answer.contexts[:2] if answer else (), 1):
            lines.append(
                f"- context {rank}, {plain(chunk_id)}: {plain(_cut(text_of.get(chunk_id, '')))}"
            )
        parts.append("\n".join(lines))
    return parts


def robustness_table(results: Sequence[Result]) -> pd.DataFrame:
    """Return for each configuration and intervention the fraction of answers that are as they must
    be, and how many more or fewer are correct than untouched, question by question.

    `p` is that of the exact binomial test that the true fraction is at least 0.95, one-sided: a
    system that does what it must in 19 of 20 cases does not alarm. `p_holm` adjusts it over all rows.

    Args:
        results: configurations that were run with interventions; others have no rows.

    Returns:
        name, label, intervention, expected (what the answer must be), kept (the fraction, in [0, 1]),
        ci_low, ci_high (95 %, as `summarise` gives them), n (questions), p, p_holm; correct (the
        fraction by the question's own labels), difference (from untouched, paired),
        difference_ci_low, difference_ci_high; lowest p first.
    """
    from scipy.stats import binomtest

    labels = configurations(results).set_index("name")["label"]
    rows = []
    for result in results:
        scores = result.scores.dropna()
        robust = scores[scores["measure"].str.startswith("robust:")]
        if robust.empty:
            continue
        wide = scores.pivot(index="query_id", columns="measure", values="value")
        for row in summarise(robust).to_dict("records"):
            name, n = row["measure"].removeprefix("robust:"), row["n_scored"]
            p = binomtest(round(row["mean"] * n), n, _TOLERATED, alternative="less").pvalue
            about = {"name": result.name, "label": labels[result.name], "intervention": name}
            pair = wide.reindex(columns=["correct:untouched", f"correct:{name}"]).dropna()
            change: dict[Any, Any] = {}
            if len(pair):
                tidy = [
                    pair[column].rename("value").reset_index().assign(measure="correct:untouched")
                    for column in pair
                ]
                change = compare(*tidy)[[*_CHANGE]].rename(columns=_CHANGE).iloc[0].to_dict()
            about |= {"expected": expectation(name), "kept": row["mean"], "n": n, "p": p}
            rows.append({**row, **about, **change})
    columns = "name label intervention expected kept ci_low ci_high n p".split()
    columns += _CHANGE.values()
    table = pd.DataFrame(rows, columns=columns)
    table["p_holm"] = adjusted_p_values(table["p"].to_numpy(float))
    return table.sort_values("p", kind="stable", ignore_index=True)


def plain(text: str) -> str:
    """Escape a text for Markdown so that it shows itself: no tags, links, tables or formulas come
    from it.

    >>> plain("a|b <b> one_word")
    'a&#124;b &lt;b&gt; one_word'
    """
    import html

    escaped = html.escape(printable(text), quote=False)
    escaped = re.sub(
        r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])", lambda sign: f"&#{ord(sign[0])};", escaped
    )
    # MathJax finds no formula across elements
    return re.sub("&#(36|92);", r"<span>\g<0></span>", escaped)


def _cut(text: str, limit: int = 160) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"


def _heading(query_id: str) -> str:
    """Return a heading that is its own anchor: letters, digits and hyphens."""
    return "question-" + "".join(
        sign if sign.isascii() and sign.isalnum() else "-" for sign in query_id
    )
