"""Tables and sentences about a whole sweep: the leaderboard, and what `compare.ipynb` shows between its figures."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from ragbench.evaluation import Result
from ragbench.evaluation.results import configurations, mean_of, only
from ragbench.metrics.retrieval import ranking
from ragbench.registry import higher_is_better
from ragbench.report.configuration import budget_curve
from ragbench.statistics import compare, held_out, p_text

if TYPE_CHECKING:
    import pandas as pd


def best_two(results: Sequence[Result], board: pd.DataFrame) -> tuple[Result, Result]:
    """The first and the second of a leaderboard; of a single configuration, that one twice."""
    by_name = {result.name: result for result in results}
    names = list(board["name"])
    return by_name[names[0]], by_name[names[min(1, len(names) - 1)]]


def leaderboard_markdown(table: pd.DataFrame) -> str:
    """The leaderboard as a Markdown table: each mean with its 95 % interval and the questions scored, ranks, costs."""
    measures = [str(name) for name in table if f"{name}_ci_low" in table]
    header = ["#", "configuration", *measures, "chunks", "search (ms)"]
    generated = "with_llm" in table and bool(table["with_llm"].any())
    judged = "judge_cost_usd" in table and bool((table["judge_cost_usd"].fillna(0) > 0).any())
    header += ["cost (dollars)", "reply (ms)"] if generated or judged else []
    header += ["of which answers", "of which judge"] if judged else []
    ranks = "rank_equal_k" in table and "rank_equal_budget" in table
    if ranks:
        header += ["place at equal k", "place at equal budget"]
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    for row in table.to_dict("records"):
        cells = [_number(row["rank"], "{:d}", "unranked"), str(row["label"])]
        for m in measures:
            mean = _number(row[m], "{:.3f}", "unscored")
            cells.append("<br>".join([mean, *_interval(row, "{:.3f}", f"{m}_"), row[f"{m}_n"]]))
        cells += [_number(row.get("chunks"), "{:,.0f}"), _number(row.get("search_ms"), "{:.2f}")]
        if generated or judged:
            cells += [_number(row["cost_usd"], "{:.4f}"), _number(row["generate_ms"], "{:,.0f}")]
        if judged:
            cells += [_number(row[f"{part}_cost_usd"], "{:.4f}") for part in ("generator", "judge")]
        if ranks:
            cells += [_number(row[f"rank_equal_{what}"], "{:d}", "unranked") for what in ("k", "budget")]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _number(value: Any, form: str, unknown: str = "unknown") -> str:
    import pandas as pd

    return unknown if pd.isna(value) else form.format(value)


def _interval(row: Mapping[Hashable, Any], form: str, prefix: str = "") -> list[str]:
    """The interval of a row in brackets; nothing where it has none, as of a single question."""
    import pandas as pd

    low, high = row[f"{prefix}ci_low"], row[f"{prefix}ci_high"]
    return [] if pd.isna(low) else [f"[{form.format(low)}, {form.format(high)}]"]


def heatmap_table(results: Sequence[Result], measure: str) -> pd.DataFrame:
    """Mean of one measure, retrievers down and chunkings across; NaN where a pair was not run.

    Where several configurations share a retriever and a chunking (they differ in something else), the best counts.
    """
    table = configurations(results).set_index("name")
    table["mean"] = {r.name: mean_of(r.scores, measure) for r in results}
    pivot = table.pivot_table(
        index="retriever",
        columns="chunking",
        values="mean",
        aggfunc="max" if higher_is_better(measure) else "min",
        dropna=False,
    )
    order = sorted(pivot.columns, key=lambda text: [(p.isdigit(), int(p) if p.isdigit() else p) for p in text.split()])
    return pivot[order]


def budget_curves(results: Sequence[Result]) -> pd.DataFrame:
    """`budget_curve` of every configuration: name, label, budget, mean, ci_low, ci_high, n_scored, n."""
    import pandas as pd

    labels = configurations(results).set_index("name")["label"]
    parts = [budget_curve(result.scores).assign(name=result.name, label=labels[result.name]) for result in results]
    return pd.concat(parts, ignore_index=True)


def order_changes(results: Sequence[Result], *, k: int = 5, budget: int = 500) -> tuple[pd.DataFrame, str]:
    """Where the order of the configurations at equal k is overturned at an equal context budget.

    Returns:
        A frame name, label, at_k, at_budget, rank_at_k, rank_at_budget (by rank at the budget), and one sentence.
    """
    import pandas as pd

    at_k, at_budget = f"span_recall@{k}", f"span_recall@{budget}tok"
    if any(not {at_k, at_budget} <= set(result.scores["measure"]) for result in results):
        return (
            pd.DataFrame(columns=["name", "label", "at_k", "at_budget", "rank_at_k", "rank_at_budget"]),
            "Without gold evidence spans chunkings can be compared at document level only.",
        )
    table = configurations(results)[["name", "label"]]
    table["at_k"] = [mean_of(result.scores, at_k) for result in results]
    table["at_budget"] = [mean_of(result.scores, at_budget) for result in results]
    table["rank_at_k"] = table["at_k"].rank(ascending=False, method="min").astype(int)
    table["rank_at_budget"] = table["at_budget"].rank(ascending=False, method="min").astype(int)
    pairs = list(combinations(zip(table["at_k"], table["at_budget"], strict=True), 2))
    turned = sum((a_k - b_k) * (a_budget - b_budget) < 0 for (a_k, a_budget), (b_k, b_budget) in pairs)
    table = table.sort_values(["rank_at_budget", "name"], ignore_index=True)
    if not pairs:
        return table, "There is one configuration only, so no order to compare."
    first_k = table.sort_values(["rank_at_k", "name"]).iloc[0]
    first_budget = table.iloc[0]
    share = f"{turned} of {len(pairs)} pairs of configurations change their order"
    if first_k["name"] == first_budget["name"]:
        lead = f"{first_k['label']} leads both at k = {k} and at an equal {budget} tokens"
    else:
        lead = (
            f"At k = {k}, where bigger chunks buy more text, {first_k['label']} leads; at an equal {budget} tokens "
            f"it is place {first_k['rank_at_budget']} of {len(table)} and {first_budget['label']} leads"
        )
    return table, f"{lead}. {share} between the two."


def disagreements(a: Result, b: Result, measure: str, *, rows: int = 10) -> pd.DataFrame:
    """The questions on which two configurations differ most.

    Returns:
        query_id, question, a, b, difference (b - a), a_retrieved, b_retrieved; the largest absolute difference first,
        questions that tie left out.
    """
    import pandas as pd

    values = pd.concat(
        [only(r.scores, measure).set_index("query_id")["value"].rename(side) for side, r in (("a", a), ("b", b))],
        axis=1,
    ).dropna()
    values["difference"] = values["b"] - values["a"]
    values = values[values["difference"] != 0].sort_index()
    values = values.reindex(values["difference"].abs().sort_values(ascending=False, kind="stable").index).head(rows)
    values.insert(0, "question", [a.queries.get(query_id, "") for query_id in values.index])
    for side, result in (("a", a), ("b", b)):
        values[f"{side}_retrieved"] = [", ".join(ranking(result.run.get(q, {}))[:3]) or "nothing" for q in values.index]
    return values.reset_index(names="query_id")


def conclusion(
    results: Sequence[Result], comparison: pd.DataFrame, baseline: str, measure: str, *, seed: int = 0
) -> list[str]:
    """What a reader may take home from a sweep, in sentences that the data supports.

    Args:
        results: the configurations.
        comparison: as from `compare_all` against `baseline`: name, measure, difference, interval, p_adjusted, n.
        baseline: name of the configuration that the others are compared with.
        measure: what they are ranked by.
        seed: of the resampling for best and runner-up.
    """
    import pandas as pd

    label = configurations(results).set_index("name")["label"]
    means = {result.name: mean_of(result.scores, measure) for result in results}
    sign = -1 if higher_is_better(measure) else 1
    order = sorted((name for name in means if not math.isnan(means[name])), key=lambda name: (sign * means[name], name))
    if not order:
        return [f"No question could be scored by {measure}, so no configuration is better than another."]
    best = order[0]
    said = [f"Best by {measure}: {label[best]} ({means[best]:.3f}), out of {len(results)}."]
    if len(order) < len(results):
        said.append(f"{len(results) - len(order)} of them could not be scored by it.")
    if len(order) == 1:
        return [*said, "With one configuration there is nothing to compare."]
    own = comparison[(comparison["measure"] == measure) & (comparison["name"] == best)]
    if best == baseline:
        said.append("It is the baseline itself: nothing in this sweep beats it.")
    elif not own.empty and own.iloc[0]["n"]:
        row = own.iloc[0]
        said.append(f"Against the baseline ({label[baseline]}) that is {tested(row, 'p_adjusted', 'Holm-adjusted p')}.")
    by_name = {result.name: result for result in results}
    second = order[1]
    pair = compare(by_name[second].scores, by_name[best].scores, measures=[measure], seed=seed).iloc[0]
    if pair["n"] > 1:
        power = ""
        if pair["mde"] is not pd.NA:  # every question moved alike: no power to boast of
            power = f"; so many questions can show a difference of {pair['mde']:.3f} or more (80 % power)"
        said.append(f"Against the runner-up ({label[second]}) it is {tested(pair, 'p_value', 'p')}{power}.")
    else:
        said.append(f"The runner-up ({label[second]}) and it have too few scored questions in common: {pair['n']}.")
    # The best of many was chosen for its score, luck included: queries that did not choose it say what it is worth.
    shown = {label[name] if list(label).count(label[name]) == 1 else name: by_name[name].scores for name in order}
    said.append(held_out(shown, measure=measure, seed=seed).sentence)
    return said


def tested(row: Any, p: str, p_name: str) -> str:
    """A row of a comparison in words; a tie on every question is not dressed up as a test."""
    questions = "1 question" if row["n"] == 1 else f"{row['n']} questions"
    if row["ties"] == row["n"]:
        return f"equal on every one of {questions}: nothing here tells the two apart"
    difference = " ".join([f"{row['difference']:+.3f}", *_interval(dict(row), "{:+.3f}")])
    note = f" (the differences are {row['note']})" if row.get("note") else ""
    return f"{difference}, {p_name} {p_text(row[p], '= ')}, over {questions}: {_belief(row[p])}{note}"


def _belief(p_value: float) -> str:
    if p_value < 0.05:
        return "a difference that chance explains badly"
    return "too little to tell the two apart, which does not prove them equal"


def machines(results: Sequence[Result]) -> str:
    """A warning where latencies come from more than one machine or Python, else an empty string."""
    keys = ("platform", "machine", "cores", "python")
    seen = {tuple(str(result.config.get("environment", {}).get(key)) for key in keys) for result in results}
    if len(seen) < 2:
        return ""
    return f"These results were made in {len(seen)} different environments: compare their quality, not their latency."
