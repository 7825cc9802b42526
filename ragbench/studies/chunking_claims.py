"""Claims "chunking A beats chunking B" at k = 5, and what becomes of them at an equal budget of tokens."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

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
    """Count the claims at k = 5, and how many of them hold or are reversed at each budget of tokens.

    A claim is a pair of chunkings of which one is significantly better at k = 5, that is, by its five
    best chunks. It holds at a budget if the same one is significantly better by its best chunks with so
    many tokens together, and is reversed if the other one is.

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
        # Samples down, pairs of chunkings across: 1 or -1 for the better one, 0 if undecided.
        claims = tests[collection, retriever, measure].signs
        counts = {"claims": (claims != 0).sum(axis=1)}
        for tokens in BUDGETS:
            at_budget = tests[collection, retriever, f"span_recall@{tokens}tok"].signs
            # the product of two signs: -1 if they are opposite, 1 if they are equal, 0 if undecided
            counts[f"reversed {tokens}"] = (claims * at_budget == -1).sum(axis=1)
            counts[f"holds {tokens}"] = (claims * at_budget == 1).sum(axis=1)
        table = pd.DataFrame(counts).rename_axis("sample").reset_index()
        tables.append(table.assign(collection=collection, retriever=retriever, measure=measure))
    return pd.concat(tables, ignore_index=True)


def claim_fractions(counts: pd.DataFrame, tables: Tables, *, draws: int) -> pd.DataFrame:
    """Compute which fractions of the claims are reversed and hold at each budget of tokens, over
    all retrievers. A claim is "chunking A beats B at k = 5"; it is reversed if B beats A at the
    budget.

    Args:
        counts: as `count_claims` returns them: a row for each collection, measure, retriever and sample;
            the first sample has all questions, the last ones are the draws (see `draw_samples`).
        tables: collection -> a row for each question and chunking, as `load_chunkings` returns them.
        draws: how many of the last samples of each collection are draws; the 95 % intervals are taken
            from them.

    Returns:
        A row for each collection and measure of the claims: documents, questions, claims, and for each
        outcome and budget the fraction with the limits of its interval (`reversed 500`, `reversed 500
        low`, `reversed 500 high`).
    """
    totals = _sum_over_retrievers(counts, ["collection", "measure", "sample"])
    rows: list[dict[str, object]] = []
    for collection, table in tables.items():
        questions = table.drop_duplicates("query_id")
        for measure in _CLAIM_MEASURES:
            totals_by_sample = pd.DataFrame(totals.xs((collection, measure)))
            row = {
                "collection": collection,
                "measure": measure,
                "documents": questions["document"].nunique(),
                "questions": len(questions),
                "claims": totals_by_sample["claims"].iloc[0],
            }
            rows.append(row | _fractions_with_intervals(totals_by_sample, draws))
    return pd.DataFrame(rows)


def _sum_over_retrievers(counts: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the numbers of claims and outcomes for each combination of `keys` (the index), all
    retrievers together.
    """
    return counts.groupby(keys)[["claims", *_OUTCOMES]].sum()


def _fractions_with_intervals(totals_by_sample: pd.DataFrame, draws: int) -> dict[str, object]:
    """Compute the fraction of claims with each outcome, and its 95 % interval.

    Args:
        totals_by_sample: a row per sample, the data themselves first and the draws last; columns claims
            and outcomes.
        draws: number of the last rows that are draws.

    Returns:
        `reversed 500`, `reversed 500 low`, `reversed 500 high`, and so on for all outcomes.
    """
    columns: dict[str, object] = {}
    for outcome in _OUTCOMES:
        fractions = totals_by_sample[outcome] / totals_by_sample["claims"].clip(lower=1)
        low, high = np.quantile(fractions.iloc[-draws:], (0.025, 0.975))
        columns[outcome] = fractions.iloc[0]
        columns[f"{outcome} low"] = low
        columns[f"{outcome} high"] = high
    return columns


def claims_table(fractions: pd.DataFrame) -> pd.DataFrame:
    """Write the table of claims, a row for each collection.

    A claim is "chunking A beats B at k = 5". It is reversed at a budget of tokens if B beats A there, and
    holds if A still beats B.

    Args:
        fractions: as `claim_fractions` returns them; only the claims by recall (`AT_K`) are written.

    Returns:
        The numbers of documents, questions and claims; and for each budget the percentage of the claims
        that are reversed (`reversed at 500`) and that hold (`holds at 500`), with its 95 % interval, as
        "60 % [48, 67]".
    """
    at_k = fractions[fractions["measure"] == AT_K].set_index("collection")
    table = at_k[["documents", "questions", "claims"]].copy()
    for outcome in _OUTCOMES:
        name, tokens = outcome.split()  # such as "reversed 500"
        columns = [outcome, f"{outcome} low", f"{outcome} high"]
        percentages = at_k[columns].mul(100).round().astype(int)
        texts = []  # one for each collection
        for value, low, high in percentages.itertuples(index=False):
            texts.append(f"{value} % [{low}, {high}]")
        table[f"{name} at {int(tokens):,}"] = texts
    return table


def claims_title(fractions: pd.DataFrame) -> str:
    """Write the finding in one line: the least and the greatest percentage of reversed claims among
    the collections. A claim "chunking A beats B at k = 5" is reversed if B beats A by 500 tokens.
    """
    at_k = fractions[fractions["measure"] == AT_K]
    percent = at_k["reversed 500"].mul(100).round().astype(int)
    return (
        f"# Of the differences between chunkings at k = 5, {percent.min()} to {percent.max()} % are "
        "reversed at an equal 500 tokens, by collection"
    )


def claims_by_retriever(counts: pd.DataFrame, fractions: pd.DataFrame) -> str:
    """Write how many claims of each retriever are reversed, and how many hold, at 500 tokens.

    Only the collection with the greatest fraction of reversed claims is described. A claim is
    "chunking A beats chunking B by its five best chunks". It is reversed at 500 tokens if B beats A
    by the best chunks that have 500 tokens together, and it holds if A beats B there too.

    Args:
        counts: as `count_claims` returns them: a row per collection, retriever, measure and sample.
        fractions: as `claim_fractions` returns them: a row per collection and measure.
    """
    # the collection with the greatest fraction of reversed claims
    at_k = fractions[fractions["measure"] == AT_K].set_index("collection")
    collection = at_k["reversed 500"].idxmax()
    # its counts in the data themselves, a row per retriever
    at_k_counts = _recall_counts_in_the_data(counts)
    of_collection = at_k_counts[at_k_counts["collection"] == collection]
    outcomes = [
        f"{row['retriever']} {row['reversed 500']} and {row['holds 500']} of {row['claims']}"
        for row in of_collection.to_dict("records")
    ]
    return (
        f"On {collection}, where most are reversed at 500 tokens, reversed and holding by retriever: "
        f"{'; '.join(outcomes)}."
    )


def _recall_counts_in_the_data(counts: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `count_claims` about recall at k = 5 (`AT_K`) in the original data (sample 0; the
    other samples are drawn from these): one for each collection and retriever.
    """
    return counts[(counts["measure"] == AT_K) & (counts["sample"] == 0)]


def claims_by_document(counts: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """Count the claims again for each document alone, in collections with fewer than 20 documents.

    A claim is "chunking A beats B at k = 5"; it is reversed at a budget of tokens if B beats A
    there, and holds if A does. Here all of it is by the questions about one document.

    Args:
        counts: as `count_claims` returns them; sample n is the n-th document, by id.
        tables: as `load_chunkings` returns them.

    Returns:
        By collection and corpus (the document): questions, claims, and the fractions of the claims that
        are reversed and that hold at 500 and 2,000 tokens. Empty if no collection is that small.
    """
    totals = _sum_over_retrievers(counts[counts["measure"] == AT_K], ["collection", "sample"])
    rows = []
    for collection, table in tables.items():
        # Sorted by document.
        questions_by_document = table.groupby("document")["query_id"].nunique()
        if len(questions_by_document) >= ENOUGH_DOCUMENTS:
            continue
        for sample, (document, n_questions) in enumerate(questions_by_document.items(), 1):
            total = totals.xs((collection, sample)).to_dict()
            row = {"collection": collection, "corpus": document, "questions": n_questions}
            row["claims"] = int(total["claims"])
            for outcome in ("reversed 500", "holds 500", "reversed 2000", "holds 2000"):
                row[outcome] = total[outcome] / max(total["claims"], 1)
            rows.append(row)
    if not rows:
        return pd.DataFrame()
    return pd.DataFrame(rows).set_index(["collection", "corpus"])


def rank_chunkings(tests: Tests, counts: pd.DataFrame) -> pd.DataFrame:
    """Compare the ranking of the chunkings at k = 5 (by the recall of the five best chunks) with their
    ranking at each budget of tokens (by the recall of the best chunks that fit into it).

    A claim is a pair of chunkings of which one is significantly better at k = 5. It holds at a budget if
    the same one is significantly better there, and is reversed if the other one is.

    Args:
        tests: as `compare_chunkings` returns them.
        counts: as `count_claims` returns them.

    Returns:
        A row for each collection and retriever: chunkings (their number); claims at k = 5; winner at
        k = 5; detectable, the true difference that a test of the median pair at the level of 5 % finds
        with a probability of 80 %; and for each budget the fractions of claims that hold and are
        reversed, Kendall's `tau` of both rankings, and `its rank`, which the winner at k = 5 has there.
    """
    rows = []
    # a row per collection and retriever
    for count in _recall_counts_in_the_data(counts).to_dict("records"):
        collection, retriever = count["collection"], count["retriever"]
        at_k = tests[collection, retriever, AT_K]
        winner = at_k.means.index[int(at_k.means.argmax())]  # (chunker, size, overlap)
        row = {
            "collection": collection,
            "retriever": retriever,
            "chunkings": len(at_k.means),
            "claims at k = 5": count["claims"],
            "winner at k = 5": " ".join(map(str, winner)),
            "detectable": _ERRORS_DETECTABLE * np.median(at_k.errors),
        }
        for tokens in BUDGETS:
            at_budget = tests[collection, retriever, f"span_recall@{tokens}tok"]
            rank_of = at_budget.means.rank(ascending=False, method="min")
            row[f"holds {tokens}"] = _fraction_of_claims(count, f"holds {tokens}")
            row[f"reversed {tokens}"] = _fraction_of_claims(count, f"reversed {tokens}")
            row[f"tau {tokens}"] = kendalltau(at_k.means, at_budget.means).statistic
            row[f"its rank {tokens}"] = int(rank_of.loc[winner])
        rows.append(row)
    return pd.DataFrame(rows)


def _fraction_of_claims(count: Mapping[Any, Any], outcome: str) -> float:
    """Return the fraction of the claims in a row of `count_claims` with an outcome, such as "holds 500"; 0
    without claims.
    """
    fraction: float = count[outcome] / max(count["claims"], 1)
    return fraction


def explained_variance(tests: Tests) -> pd.DataFrame:
    """Compute how much of the differences between the mean scores of chunkings each factor explains
    by itself: retriever, size, chunker, overlap. It is the fraction of their variance that lies
    between the values of the factor (eta squared).

    Only retrievers that search all chunkings count (`dense:minilm` searches ten).

    Args:
        tests: as `compare_chunkings` returns them.

    Returns:
        A row for each collection and measure (recall at k = 5 and at each budget): retriever, size,
        chunker, overlap (with or without), each the between-group sum of squares over the total.
    """
    measures = [AT_K, *(f"span_recall@{tokens}tok" for tokens in BUDGETS)]
    collections = dict.fromkeys(collection for collection, _, _ in tests)  # without duplicates
    rows = []
    for collection, measure in itertools.product(collections, measures):
        means = _means_of_chunkings(tests, collection, measure)
        means["overlap"] = means["overlap"] > 0
        deviations = means["mean"] - means["mean"].mean()
        row: dict[str, object] = {"collection": collection, "measure": measure}
        for factor in ("retriever", "size", "chunker", "overlap"):
            # for each chunking the mean deviation of those with the same value of the factor
            between = deviations.groupby(means[factor]).transform("mean")
            row[factor] = (between**2).sum() / (deviations**2).sum()
        rows.append(row)
    return pd.DataFrame(rows)


def _means_of_chunkings(tests: Tests, collection: str, measure: str) -> pd.DataFrame:
    """Return a row for each retriever but `dense:minilm` and chunking, with its mean in a measure.

    Columns: retriever, chunker, size, overlap, mean.
    """
    means_by_retriever = {}
    for (name, retriever, tested), pair_tests in tests.items():
        if (name, tested) == (collection, measure) and retriever != "dense:minilm":
            means_by_retriever[retriever] = pair_tests.means
    means = pd.concat(means_by_retriever, names=["retriever"])
    return pd.DataFrame(means.rename("mean").reset_index())
