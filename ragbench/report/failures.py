"""Where answers fail, for readers: the worst questions with everything to see why, and what each stage costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ragbench.diagnosis import CAUSES, CORRECTNESS, count_causes
from ragbench.evaluation import Result
from ragbench.evaluation.results import configurations
from ragbench.statistics import compare, summarise
from ragbench.types import Answer, Chunk, Dataset

if TYPE_CHECKING:
    import pandas as pd

PARTS = ("answered", "retrieval", "chunking", "generation")
"""What a perfect score falls into: what was reached, and what each stage has lost of the rest."""


def worst_failures(diagnosis: pd.DataFrame, *, rows: int = 10) -> pd.DataFrame:
    """The failed questions with the lowest values: failures, cause in words, evidence, test; at most `rows`.

    `place` is a Markdown link to the heading that `failure_details` gives the question in the same notebook.
    """
    failed = diagnosis[diagnosis["failed"]].sort_values("value", kind="stable", na_position="first").head(rows)
    table = failed.assign(
        place=[f"[{plain(str(query_id))}](#{_heading(query_id)})" for query_id in failed["query_id"]],
        cause=failed["cause"].map(CAUSES),
    )
    return table[["place", "question", "cause", "evidence", "test"]].reset_index(drop=True)


def as_markdown(table: pd.DataFrame) -> str:
    """A table of texts as Markdown in which links work; what the texts hold themselves is shown, never obeyed."""
    lines = ["| " + " | ".join(table.columns) + " |", "|" + " --- |" * len(table.columns)]
    for row in table.to_dict("records"):
        cells = [str(value) if name == "place" else plain(str(value)) for name, value in row.items()]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) if len(table) else "No question failed."


def failure_details(
    dataset: Dataset, diagnosis: pd.DataFrame, answers: Sequence[Answer], chunks: Sequence[Chunk], *, rows: int = 10
) -> str:
    """The questions of `worst_failures` as Markdown, each under its own heading: what was wanted, said and shown."""
    case_of = {case.query_id: case for case in dataset.cases}
    answer_of = {answer.query_id: answer for answer in answers}
    text_of = {chunk.chunk_id: chunk.text for chunk in chunks}
    failed = diagnosis[diagnosis["failed"]].sort_values("value", kind="stable", na_position="first").head(rows)
    parts = []
    for row in failed.to_dict("records"):
        case, answer = case_of[row["query_id"]], answer_of.get(row["query_id"])
        lines = [f"#### {_heading(case.query_id)}", f"**{plain(case.text)}**", ""]
        lines.append(f"- cause: {CAUSES[row['cause']]} ({plain(row['evidence'])})")
        if row["test"]:
            lines.append(f"- tested: {row['test']}")
        facts = "; ".join(fact[0] for fact in case.gold_facts)
        lines.append(
            f"- expected: {plain(_cut(case.reference_answer or facts or case.expected_outcome or 'no label'))}"
        )
        lines.append(f"- answered: {plain(_cut(answer.text if answer else 'nothing'))}")
        for span in [span for span in case.evidence if span.doc_id in dataset.corpus][:2]:
            text = dataset.corpus[span.doc_id].full_text[span.start : span.end]
            lines.append(f"- evidence in {plain(span.doc_id)}: {plain(_cut(text))}")
        for rank, chunk_id in enumerate(answer.contexts[:2] if answer else (), 1):
            lines.append(f"- context {rank}, {plain(chunk_id)}: {plain(_cut(text_of.get(chunk_id, '')))}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) or "No question failed."


def failure_links(results: Sequence[Result], diagnoses: Mapping[str, pd.DataFrame], *, rows: int = 10) -> str:
    """The worst questions of a sweep as Markdown, each with a link to its place in "<name>.ipynb"."""
    import pandas as pd

    labels = configurations(results).set_index("name")["label"]
    tables = []
    for name, diagnosis in diagnoses.items():
        worst = worst_failures(diagnosis, rows=rows)
        links = [place.replace("](#", f"]({name}.ipynb#") for place in worst["place"]]
        tables.append(worst.assign(place=links, configuration=labels[name]))
    return as_markdown(pd.concat(tables, ignore_index=True)) if tables else "No question failed."


def arm_table(scores: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """Each measure in each arm: the columns of `summarise` after `arm`, the arm with the least context last.

    Args:
        scores: as from `ragbench.scoring.score_ablations`; none gives no rows.
    """
    import pandas as pd

    columns = ["arm", "measure", "mean", "ci_low", "ci_high", "n_scored", "n"]
    if scores.empty:
        return pd.DataFrame(columns=columns)
    table = summarise(scores, seed=seed)
    split = table["measure"].str.extract(r"^(actual|oracle|best_chunks|empty)_(.+)$")
    table = table.assign(arm=split[0], measure=split[1])
    order = {arm: i for i, arm in enumerate(("oracle", "best_chunks", "actual", "empty"))}
    table = table[table["n_scored"] > 0].sort_values(["measure", "arm"], key=lambda c: c.map(order).fillna(c))
    return table[columns].reset_index(drop=True)


def cause_shares(results: Sequence[Result]) -> pd.DataFrame:
    """For each configuration how many questions each cause has taken: name, label, and the columns of `count_causes`.

    Configurations whose failures were not diagnosed have no rows.
    """
    import pandas as pd

    labels = configurations(results).set_index("name")["label"]
    tables = [
        count_causes(result.diagnosis).assign(name=result.name, label=labels[result.name])
        for result in results
        if result.diagnosis is not None
    ]
    columns = ["name", "label", "cause", "meaning", "questions", "share"]
    return pd.concat(tables, ignore_index=True)[columns] if tables else pd.DataFrame(columns=columns)


def arm_measure(scores: pd.DataFrame) -> str:
    """The measure by which arms are compared: the first of `CORRECTNESS` that the oracle arm has; "" without arms."""
    there = set(scores.loc[scores["value"].notna(), "measure"])
    return next((measure for measure in CORRECTNESS if f"oracle_{measure}" in there), "")


def gap_table(results: Sequence[Result], measure: str = "", *, seed: int = 0) -> pd.DataFrame:
    """What each configuration reaches of a perfect answer, and which stage has lost the rest.

    Over the questions that all arms of a configuration answered or abstained from, with the mean of `measure` (highest
    value 1) in each arm: answered = actual; retrieval = best chunks - actual, what a perfect retriever would add with
    this chunking; chunking = oracle - best chunks, what gold evidence without chunk borders would add; generation =
    1 - oracle, what is missing even then (wording and the measure's own limits are part of it). The four sum to 1. A
    part can be negative: more text than the evidence has helped. Without evidence spans there is no arm of best chunks,
    and "retrieval" holds both.

    Args:
        results: configurations that were run with `oracle = true`; others have no rows.
        measure: "" takes the first of `ragbench.diagnosis.CORRECTNESS` that a configuration has.

    Returns:
        name, label, measure, part, mean, ci_low, ci_high (95 %, as `summarise` and `compare` give them), n.
    """
    import pandas as pd

    labels = configurations(results).set_index("name")["label"]
    rows = []
    for result in results:
        chosen = measure or arm_measure(result.scores)
        table = result.scores.pivot(index="query_id", columns="measure", values="value")
        if not chosen or f"oracle_{chosen}" not in table:
            continue
        whole = f"best_chunks_{chosen}" in table and table[f"best_chunks_{chosen}"].notna().any()
        arms = table[[f"actual_{chosen}", *([f"best_chunks_{chosen}"] if whole else []), f"oracle_{chosen}"]].dropna()
        actual, oracle = arms.iloc[:, 0], arms.iloc[:, -1]
        best = arms.iloc[:, 1] if whole else oracle
        if arms.empty:
            continue
        found = {"answered": summarise(_tidy(actual), seed=seed).rename(columns={"n": "all", "n_scored": "n"})}
        # Differences, which may be negative: an interval for shares would never reach 0.
        found["retrieval"] = compare(_tidy(actual), _tidy(best), seed=seed).rename(columns={"difference": "mean"})
        if whole:
            found["chunking"] = compare(_tidy(best), _tidy(oracle), seed=seed).rename(columns={"difference": "mean"})
        found["generation"] = summarise(_tidy(1 - oracle), seed=seed).rename(columns={"n": "all", "n_scored": "n"})
        for part, row in found.items():
            own = row[["mean", "ci_low", "ci_high", "n"]]
            rows.append(own.assign(name=result.name, label=labels[result.name], measure=chosen, part=part))
    columns = ["name", "label", "measure", "part", "mean", "ci_low", "ci_high", "n"]
    return pd.concat(rows, ignore_index=True)[columns] if rows else pd.DataFrame(columns=columns)


def _tidy(values: pd.Series[float]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({"query_id": values.index, "measure": "value", "value": values.to_numpy(dtype=float)})


def gap_sentences(gaps: pd.DataFrame) -> list[str]:
    """For each configuration the stage that costs most, with its interval; none without arms (the figure says so)."""
    said = []
    for label, rows in gaps[gaps["part"] != "answered"].groupby("label", sort=False):
        row = rows.sort_values("mean").iloc[-1]
        interval = "" if rows["ci_low"].isna().any() else f" [{row['ci_low']:+.3f}, {row['ci_high']:+.3f}]"
        what = f"{row['mean']:.3f}{interval} of {row['measure']} over {row['n']} questions"
        said.append(f"{label}: {row['part']} costs most, {what}.")
    return said


def two_part_sentences(table: pd.DataFrame, *, k: int) -> list[str]:
    """What `ragbench.diagnosis.two_part_table` says, counted: which part to mend first."""
    if table.empty:
        return ["No question was asked."]
    said = []
    for verdict, own in table.groupby("verdict", sort=False):
        ids = ", ".join(plain(query_id) for query_id in own["query_id"][:10])
        named = "nothing failed" if verdict == "none" else "both failed" if verdict == "both" else str(verdict)
        said.append(f"{len(own)} of {len(table)} questions: {named} ({ids}{' ...' if len(own) > 10 else ''}).")
    known = table.dropna(subset=["recall"])
    if len(known):
        recall, ceiling = known["recall"].astype(float).mean(), known["ceiling"].astype(float).mean()
        said.append(f"Mean recall at k = {k} is {recall:.3f}; no system could exceed {ceiling:.3f}.")
    by_support = int((table["tested_by"] == "relevant documents").sum())
    if by_support:
        said.append(
            f"{by_support} answers were held against the relevant documents only: that tells support, not truth. Name "
            "a judge, and write reference answers with `ragbench answers`, for more."
        )
    return said


def plain(text: str) -> str:
    """A text for Markdown that shows itself: no tags, links, tables or formulas come from it.

    >>> plain("a|b <b>")
    'a&#124;b &lt;b&gt;'
    """
    import html

    escaped = html.escape(" ".join(text.split()), quote=False)
    return "".join(f"&#{ord(sign)};" if sign in "\\`*_[]|$~" else sign for sign in escaped)


def _cut(text: str, limit: int = 160) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"


def _heading(query_id: str) -> str:
    """A heading that is its own anchor: letters, digits and hyphens."""
    return "question-" + "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in query_id)
