"""Claims "chunking A beats chunking B" at k = 5, and what becomes of them at an equal budget of tokens."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

from ragbench.studies.chunking_pairs import BUDGETS, ENOUGH_DOCUMENTS, PairTests

AT_K = "span_recall@5"
"""The measure whose significant differences are the claims."""

_CLAIM_MEASURES = (AT_K, "span_iou@5")
_ERRORS_DETECTABLE = 2.8  # standard errors: 1.96 for a level of 5 %, and 0.84 for a power of 80 %
_OUTCOMES = [f"{outcome} {tokens}" for outcome in ("reversed", "holds") for tokens in BUDGETS]

Tests = Mapping[tuple[str, str, str], PairTests]
Tables = Mapping[str, pd.DataFrame]


def count_claims(tests: Tests) -> pd.DataFrame:
    """Count the claims at k = 5, and how many of them hold or are reversed at each budget.

    A claim holds where the same chunking is significantly better at the budget, and is reversed where
    the other one is.

    Args:
        tests: as `compare_chunkings` returns them.

    Returns:
        A row for each collection, retriever, measure of the claims and sample (0 is the data themselves,
        then single documents, then draws): claims, `reversed 500` ..., `holds 2000`.
    """
    tables = []
    for collection, retriever, measure in tests:
        if measure not in _CLAIM_MEASURES:
            continue
        claims = tests[collection, retriever, measure].signs
        counts = {"claims": (claims != 0).sum(axis=1)}
        for tokens in BUDGETS:
            at_budget = tests[collection, retriever, f"span_recall@{tokens}tok"].signs
            counts[f"reversed {tokens}"] = (claims * at_budget == -1).sum(axis=1)
            counts[f"holds {tokens}"] = (claims * at_budget == 1).sum(axis=1)
        keys = {"collection": collection, "retriever": retriever, "measure": measure}
        tables.append(pd.DataFrame(counts).rename_axis("sample").reset_index().assign(**keys))
    return pd.concat(tables, ignore_index=True)


def claim_fractions(counts: pd.DataFrame, tables: Tables, *, draws: int) -> pd.DataFrame:
    """Compute the fractions of claims that are reversed and that hold, over the retrievers.

    Args:
        counts: as `count_claims` returns them.
        tables: as `load_chunkings` returns them.
        draws: the last samples of each collection, from which the 95 % intervals are taken.

    Returns:
        A row for each collection and measure of the claims: documents, questions, claims, and for each
        outcome and budget the fraction with the limits of its interval (`reversed 500`, `reversed 500
        low`, `reversed 500 high`).
    """
    totals = counts.groupby(["collection", "measure", "sample"])[["claims", *_OUTCOMES]].sum()
    rows: list[dict[str, object]] = []
    for collection, table in tables.items():
        questions = table.drop_duplicates("query_id")
        for measure in _CLAIM_MEASURES:
            samples = totals.xs((collection, measure))
            row: dict[str, object] = {
                "collection": collection,
                "measure": measure,
                "documents": questions["document"].nunique(),
                "questions": len(questions),
                "claims": samples["claims"].iloc[0],
            }
            for outcome in _OUTCOMES:
                fractions = samples[outcome] / samples["claims"].clip(lower=1)
                low, high = np.quantile(fractions.iloc[-draws:], (0.025, 0.975))
                row[outcome] = fractions.iloc[0]
                row[f"{outcome} low"] = low
                row[f"{outcome} high"] = high
            rows.append(row)
    return pd.DataFrame(rows)


def claims_table(fractions: pd.DataFrame) -> pd.DataFrame:
    """Write the claims of each collection with their outcomes as "60 % [48, 67]", in per cent."""
    at_k = fractions[fractions["measure"] == AT_K].set_index("collection")
    table = at_k[["documents", "questions", "claims"]].copy()
    for outcome in _OUTCOMES:
        parts = at_k[[outcome, f"{outcome} low", f"{outcome} high"]].mul(100).round().astype(int)
        name, tokens = outcome.split()
        table[f"{name} at {int(tokens):,}"] = [
            f"{value} % [{low}, {high}]" for value, low, high in parts.itertuples(index=False)
        ]
    return table


def claims_title(fractions: pd.DataFrame) -> str:
    """Write the finding in one line: the fewest and the most claims that are reversed."""
    at_k = fractions[fractions["measure"] == AT_K]
    percent = at_k["reversed 500"].mul(100).round().astype(int)
    return (
        f"# Of the differences between chunkings at k = 5, {percent.min()} to {percent.max()} % are "
        "reversed at an equal 500 tokens, by collection"
    )


def claims_by_retriever(counts: pd.DataFrame, fractions: pd.DataFrame) -> str:
    """Write the outcomes of each retriever, on the collection where most claims are reversed."""
    at_k = fractions[fractions["measure"] == AT_K].set_index("collection")
    collection = at_k["reversed 500"].idxmax()
    chosen = f"collection == @collection and measure == '{AT_K}' and sample == 0"
    parts = [
        f"{row['retriever']} {row['reversed 500']} and {row['holds 500']} of {row['claims']}"
        for row in counts.query(chosen).to_dict("records")
    ]
    return (
        f"On {collection}, where most are reversed at 500 tokens, reversed and holding by retriever: "
        f"{'; '.join(parts)}."
    )


def claims_by_document(counts: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """Compute the outcomes of the claims that each document alone makes, for collections with fewer
    than 20; empty if there is no such collection.
    """
    at_k = counts[counts["measure"] == AT_K]
    totals = at_k.groupby(["collection", "sample"])[["claims", *_OUTCOMES]].sum()
    rows = []
    for collection, table in tables.items():
        documents = sorted(table["document"].unique())
        if len(documents) >= ENOUGH_DOCUMENTS:
            continue
        for sample, document in enumerate(documents, 1):
            count = totals.xs((collection, sample)).to_dict()
            questions = table.loc[table["document"] == document, "query_id"].nunique()
            row = {"collection": collection, "corpus": document, "questions": questions}
            row["claims"] = int(count["claims"])
            for outcome in ("reversed 500", "holds 500", "reversed 2000", "holds 2000"):
                row[outcome] = count[outcome] / max(count["claims"], 1)
            rows.append(row)
    if not rows:
        return pd.DataFrame()
    return pd.DataFrame(rows).set_index(["collection", "corpus"])


def rank_chunkings(tests: Tests, counts: pd.DataFrame) -> pd.DataFrame:
    """Compare the order of the chunkings at k = 5 with their order at each budget; the claims
    are those of `count_claims`.

    Returns:
        A row for each collection and retriever: chunkings; claims at k = 5; winner at k = 5; detectable,
        the median difference found with 80 % power, unadjusted; and for each budget the fractions of
        claims that hold and are reversed, Kendall's `tau` of both orders, and `its rank`: the winner's.
    """
    of_the_data = counts["sample"] == 0  # the other samples are resamples of it
    chosen = counts[(counts["measure"] == AT_K) & of_the_data]
    rows = []
    for count in chosen.to_dict("records"):
        collection, retriever = count["collection"], count["retriever"]
        at_k = tests[collection, retriever, AT_K]
        winner = at_k.means.index[int(at_k.means.argmax())]
        row = {
            "collection": collection,
            "retriever": retriever,
            "chunkings": len(at_k.means),
            "claims at k = 5": count["claims"],
            "winner at k = 5": " ".join(map(str, winner)),
            "detectable": _ERRORS_DETECTABLE * np.median(at_k.errors),
        }
        for tokens in BUDGETS:
            at_budget = tests[collection, retriever, f"span_recall@{tokens}tok"].means
            for outcome in (f"holds {tokens}", f"reversed {tokens}"):
                row[outcome] = count[outcome] / max(count["claims"], 1)
            ranks = at_budget.rank(ascending=False, method="min")
            row[f"tau {tokens}"] = kendalltau(at_k.means, at_budget).statistic
            row[f"its rank {tokens}"] = int(ranks.loc[winner])
        rows.append(row)
    return pd.DataFrame(rows)


def explained_variance(tests: Tests) -> pd.DataFrame:
    """Compute the fraction of the variance of the means that each factor explains by itself.

    Only retrievers that search all chunkings count (`dense:minilm` searches ten).

    Returns:
        A row for each collection and measure (recall at k = 5 and at each budget): retriever, size,
        chunker, overlap (with or without), each the between-group sum of squares over the total.
    """
    measures = [AT_K, *(f"span_recall@{tokens}tok" for tokens in BUDGETS)]
    collections = list(dict.fromkeys(key[0] for key in tests))
    rows = []
    for collection in collections:
        for measure in measures:
            means = {
                retriever: test.means
                for (name, retriever, tested), test in tests.items()
                if name == collection and tested == measure and retriever != "dense:minilm"
            }
            table = pd.concat(means, names=["retriever"]).rename("mean").reset_index()
            table["overlap"] = table["overlap"] > 0
            deviations = table["mean"] - table["mean"].mean()
            row = {"collection": collection, "measure": measure}
            for factor in ("retriever", "size", "chunker", "overlap"):
                between = deviations.groupby(table[factor]).transform("mean")
                row[factor] = (between**2).sum() / (deviations**2).sum()
            rows.append(row)
    return pd.DataFrame(rows)
