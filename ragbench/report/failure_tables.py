"""Where answers fail, in notebooks: the worst questions and their order, with everything to see
why; counts of causes; robustness. Reports order theirs in `report/page/sentences`.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ragbench.errors import DataError, visible_line
from ragbench.evaluation import CAUSES, Result
from ragbench.evaluation.causes import DISPUTED
from ragbench.evaluation.configurations import configurations
from ragbench.evaluation.output import SystemOutput
from ragbench.files import read_json
from ragbench.statistics import compare, summarise
from ragbench.statistics.columns import adjusted_p_values
from ragbench.testsets.interventions import expectation
from ragbench.types import Case, Dataset

# column of `compare` -> its name in `robustness_table`; the contender is the answer with an intervention
_CHANGE = {
    "contender": "correct",
    "difference": "difference",
    "ci_low": "difference_ci_low",
    "ci_high": "difference_ci_high",
}
# a false answer does more harm than none
_FALSE = ("fabricated", "contradicts", "unanswerable_answered")
_TOLERATED = 0.95  # fraction of answers as they must be, below which an intervention alarms


def by_severity(diagnosis: pd.DataFrame) -> pd.DataFrame:
    """Return the failed questions of a diagnosis, the worst first.

    The harm of their cause decides: first false answers (fabricated, contradicting, or given to a
    question that the documents do not answer), then wrong and missing answers, then answers that
    only a judge or a doubtful label calls wrong. Of equal harm, answers with the lowest value come
    first, then those with the least evidence in their contexts.
    """
    failed = diagnosis[diagnosis["failed"]].reset_index(drop=True)
    sort_keys = pd.DataFrame(
        {
            "harm": failed["cause"].map(_harm_rank),
            "value": failed["value"].fillna(0.0),  # of the verdict; no answer counts as 0
            "held": failed["held"].fillna(1.0),  # fraction of the evidence in the context
            "cause": failed["cause"].map([*CAUSES].index),  # the earliest in the flow of data first
        }
    )
    order = sort_keys.sort_values([*sort_keys.columns], kind="stable").index
    return failed.loc[order]


def count_causes(diagnosis: pd.DataFrame) -> pd.DataFrame:
    """Count the questions of each cause, in the order of `CAUSES`: cause, meaning, questions, share
    (of all).

    Causes without questions are left out; the last row, "none", holds the questions that did not
    fail.
    """
    counts = diagnosis.loc[diagnosis["failed"], "cause"].value_counts()
    rows = [(cause, CAUSES[cause], counts[cause]) for cause in CAUSES if cause in counts]
    rows.append(("none", "not failed", len(diagnosis) - counts.sum()))
    table = pd.DataFrame(rows, columns=["cause", "meaning", "questions"])
    return table.assign(share=table["questions"] / max(len(diagnosis), 1))


def _harm_rank(cause: str) -> int:
    """Return 0 for causes that do most harm, false answers; 2 for those that may be no failure; else 1."""
    if cause in DISPUTED:
        return 2
    return 0 if cause in _FALSE else 1


def question_table(rows: pd.DataFrame, notebook: str | Path) -> str:
    """Return a table of questions as Markdown; "" without rows.

    Each id is a link to the cell of the executed notebook that shows the question (see
    `failure_details`).

    Args:
        rows: texts about the questions, whose ids are the index; markup in them is escaped.
        notebook: the path of the executed notebook.
    """
    if rows.empty:
        return ""
    path = Path(notebook)
    fragment_of = _fragments_of_headings(path)
    links = []
    for query_id in map(str, rows.index):
        fragment = fragment_of.get(_heading(query_id), "")
        links.append(f"[{plain(query_id)}]({path.name}{fragment})")
    texts = rows.astype(str).map(plain)
    texts.insert(0, "id", links)
    return markdown_table([*map(plain, texts.columns)], texts.to_numpy().tolist())


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown; its texts must be escaped."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _fragments_of_headings(notebook: Path) -> dict[str, str]:
    """Return heading -> link to the cell that shows it, such as "Question q7" -> "#cell-id=1a2b".

    Only headings of level 4 ("####") in outputs count. {} if the notebook cannot be read.

    Links lead to cells and not to headings: JupyterLab finds a heading in an output only if the
    notebook is open already. nbconvert writes the same anchors for cells.
    """
    try:
        cells = read_json(notebook, "")["cells"]
    except (DataError, KeyError, TypeError):
        return {}
    fragments = {}
    for cell in cells:
        if "id" not in cell:  # a notebook of an old format: there is nothing to link to
            continue
        for output in cell.get("outputs", ()):
            markdown = "".join(output.get("data", {}).get("text/markdown", ""))
            for line in markdown.splitlines():
                if line.startswith("#### "):
                    heading = line.removeprefix("#### ").strip()
                    fragments[heading] = f"#cell-id={cell['id']}"
    return fragments


def failure_details(
    output: SystemOutput, diagnosis: pd.DataFrame | None, *, rows: int = 10
) -> list[str]:
    """Show the worst questions (see `by_severity`) as Markdown, each with its heading: expected,
    answered, retrieved.

    A notebook shows each in a separate cell, so that a link from another notebook arrives at the
    question.

    Args:
        output: the output of the system, as in `Result.output`.
        diagnosis: as in `Result.diagnosis`; without one no question is shown.
        rows: how many questions are shown at most.
    """
    if diagnosis is None:
        return []
    case_of = output.dataset.case_of
    answer_of = {answer.query_id: answer for answer in output.answers}
    text_of = {chunk.chunk_id: chunk.text for chunk in output.texts}
    sections = []
    for row in by_severity(diagnosis).head(rows).to_dict("records"):
        case = case_of[row["query_id"]]
        answer = answer_of.get(row["query_id"])
        lines = [
            f"#### {_heading(case.query_id)}",
            f"**{plain(case.text)}**",
            "",
            f"- cause: {CAUSES[row['cause']]} ({plain(row['evidence'])})",
            f"- expected: {_quoted(_expected_answer(case))}",
            f"- answered: {_quoted(answer.text if answer else 'nothing')}",
            *_evidence_lines(case, output.dataset),
        ]
        contexts = answer.contexts[:2] if answer else ()
        for rank, chunk_id in enumerate(contexts, 1):
            text = text_of.get(chunk_id, "")
            lines.append(f"- context {rank}, {plain(chunk_id)}: {_quoted(text)}")
        sections.append("\n".join(lines))
    return sections


def _evidence_lines(case: Case, dataset: Dataset) -> list[str]:
    """Return the first two evidence passages of a question that are in the corpus, a line each."""
    lines = []
    for span in case.evidence:
        if span.doc_id in dataset.corpus:
            text = dataset.corpus[span.doc_id].full_text[span.start : span.end]
            lines.append(f"- evidence in {plain(span.doc_id)}: {_quoted(text)}")
    return lines[:2]


def _expected_answer(case: Case) -> str:
    """Return the right answer of a question, as far as its labels say."""
    if case.reference_answer:
        return case.reference_answer
    facts = "; ".join(fact[0] for fact in case.gold_facts)
    return facts or case.expected_outcome or "no label"


def _quoted(text: str) -> str:
    """Return the beginning of a text, escaped for Markdown."""
    return plain(_cut(text))


def robustness_table(results: Sequence[Result]) -> pd.DataFrame:
    """Show how well each configuration withstands each intervention.

    An intervention changes the input of a system, such as typos in the question, and states the answer
    that is then right: mostly the same one, sometimes none. The table has the fraction of answers
    that are as it expects, and how many more or fewer are correct than without the change.

    `p` is the p-value of the exact binomial test that the true fraction is at least 0.95, one-sided: a
    system that passes 19 of 20 cases raises no alarm. `p_holm` adjusts it over all rows.

    Args:
        results: configurations that were run with interventions; others have no rows.

    Returns:
        name, label, intervention, expected (the expected answer), kept (the fraction, in [0, 1]),
        ci_low, ci_high (95 %, as from `summarise`), n (questions), p, p_holm; correct (the fraction
        by the question's own labels), difference (from untouched, paired), difference_ci_low,
        difference_ci_high; lowest p first.
    """
    label_of = configurations(results).set_index("name")["label"]
    rows = []
    for result in results:
        scores = result.scores.dropna()
        robust = scores[scores["measure"].str.startswith("robust:")]
        if robust.empty:
            continue
        for row in summarise(robust).to_dict("records"):
            intervention = row["measure"].removeprefix("robust:")
            rows.append(
                {
                    "name": result.name,
                    "label": label_of[result.name],
                    "intervention": intervention,
                    "expected": expectation(intervention),
                    "kept": row["mean"],
                    "ci_low": row["ci_low"],
                    "ci_high": row["ci_high"],
                    "n": row["n_scored"],
                    "p": _p_value_of_kept(row["mean"], row["n_scored"]),
                    **_change_of_correct(result, intervention),
                }
            )
    columns = "name label intervention expected kept ci_low ci_high n p".split()
    columns += _CHANGE.values()  # correct, difference and its interval
    table = pd.DataFrame(rows, columns=columns)
    table["p_holm"] = adjusted_p_values(table["p"].to_numpy(float))
    return table.sort_values("p", kind="stable", ignore_index=True)


def _p_value_of_kept(fraction: float, n: int) -> float:
    """Return the p-value of the hypothesis that a system keeps at least the tolerated fraction of its
    answers, of which it kept a `fraction` of `n` (exact binomial test, one-sided).
    """
    from scipy.stats import binomtest  # a third of a second, which most comparisons do without

    p_value: float = binomtest(round(fraction * n), n, _TOLERATED, alternative="less").pvalue
    return p_value


def _change_of_correct(result: Result, intervention: str) -> dict[str, Any]:
    """Compare which answers are correct with and without an intervention, such as typos in the questions.

    An answer is correct by the labels of its question. Only questions with both answers are compared.

    Returns:
        correct (the fraction of correct answers with the intervention), difference (this fraction minus
        the fraction without it), difference_ci_low, difference_ci_high; {} if no question has both
        answers.
    """
    column_without = "correct:untouched"
    column_with = f"correct:{intervention}"
    # a row per question; 1 = correct, 0 = not
    both = result.wide.reindex(columns=[column_without, column_with]).dropna()
    if both.empty:
        return {}
    # as scores of the same measure, since `compare` pairs by measure and question
    without_it = _as_scores_of_correct(both[column_without])
    with_it = _as_scores_of_correct(both[column_with])
    [comparison] = compare(without_it, with_it).to_dict("records")
    return {heading: comparison[name] for name, heading in _CHANGE.items()}


def _as_scores_of_correct(column: "pd.Series[Any]") -> pd.DataFrame:
    """Return a column of `Result.wide` as scores (query_id, value, measure) of one measure, which is the
    same for every column.
    """
    return column.rename("value").reset_index().assign(measure="correct:untouched")


def plain(text: str) -> str:
    r"""Escape a text for Markdown so that it shows itself: no tags, links, tables or formulas come
    from it, and control signs are shown as visible ones.

    >>> plain("a|b <b> one_word"), ascii(plain("\u202egnp"))
    ('a&#124;b &lt;b&gt; one_word', "'\\ufffdgnp'")
    """
    import html

    escaped = html.escape(visible_line(text), quote=False)
    # signs of Markdown; an underscore only at an edge of a word, as it marks nothing within one
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
