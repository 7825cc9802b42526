"""Do questions that were drafted without a model choose between configurations as people's do?"""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ragbench.errors import DataError, DataWarning
from ragbench.metrics import score_spans
from ragbench.retrieval import chunk, make_retriever
from ragbench.studies.collections import stored_files
from ragbench.testsets.known_items import KINDS, draft_known_items
from ragbench.types import Case, Dataset, Span

RETRIEVERS = ("bm25", "dense:wordllama", "hybrid:wordllama")
CHUNKERS = ("fixed", "recursive", "sentence")
SIZES = (64, 128, 256, 512)
MEASURE = "span_recall@500tok"
CONFIGURATION = ["retriever", "chunker", "size"]
N_DRAFTS = 100
N_SAMPLES = 200
PEOPLE = "people"
"""The column of the questions of the collection itself."""


def drafted_sets(data: Dataset) -> dict[str, Dataset]:
    """Draft 100 questions of each kind that the documents allow: kind -> data with these questions.

    A draft is a question that a program takes from a document, whose place is then the evidence.
    "heading" and "sentence" are the kinds of `ragbench testset draft`, which take a heading or a
    sentence as the question; "paragraph" has the questions of "sentence" with the whole paragraph as
    evidence.
    """
    sets = {}
    for kind in KINDS:
        try:
            sets[kind] = draft_known_items(data, N_DRAFTS, kinds=[kind])
        except DataError:  # the documents do not allow it: they have no headings
            continue
    if "sentence" in sets:
        cases = tuple(with_paragraph(case, data) for case in sets["sentence"].cases)
        sets["paragraph"] = replace(sets["sentence"], cases=cases)
    return sets


def with_paragraph(case: Case, data: Dataset) -> Case:
    """Return a draft whose evidence is the whole paragraph around its sentence.

    A paragraph ends at an empty line, or at the begin or end of the document.
    """
    [sentence] = case.evidence  # a draft has one span of evidence
    text = data.corpus[sentence.doc_id].full_text
    gap_before = text.rfind("\n\n", 0, sentence.start)
    start = 0 if gap_before < 0 else gap_before + len("\n\n")
    gap_after = text.find("\n\n", sentence.end)
    end = len(text) if gap_after < 0 else gap_after
    return replace(case, evidence=(Span(sentence.doc_id, start, end),))


def score_by_questions(data: Dataset) -> pd.DataFrame:
    """Score 36 configurations by the collection's own questions, and by drafts of each kind: questions
    that a program takes from its documents.

    Returns:
        Columns retriever, chunker, size; questions, "people" (of the collection) or a kind of
        draft; query_id; value, `span_recall@500tok` with four digits after the point.
    """
    with warnings.catch_warnings():  # fewer drafts than asked for, where documents are few
        warnings.simplefilter("ignore", DataWarning)
        sets = {PEOPLE: data, **drafted_sets(data)}
    tables = []
    # 3 chunkers, 4 sizes and 3 retrievers make 36 configurations
    for chunker, size in itertools.product(CHUNKERS, SIZES):
        chunks = chunk(data, chunker, chunk_size=size)
        for retriever in RETRIEVERS:
            index = make_retriever(retriever, chunks)
            for name, questions in sets.items():
                run = index.search(questions.queries, 100)
                scores = score_spans(questions, run, chunks, ks=[5], budgets=[500])
                values = scores.loc[scores["measure"] == MEASURE, ["query_id", "value"]]
                tables.append(
                    values.assign(retriever=retriever, chunker=chunker, size=size, questions=name)
                )
    table = pd.concat(tables, ignore_index=True)
    table["value"] = table["value"].astype("float32").round(4)
    return table[[*CONFIGURATION, "questions", "query_id", "value"]]


def rank_by_questions(scores: pd.DataFrame) -> pd.DataFrame:
    """Compute the mean score of each configuration over each set of questions.

    Returns:
        A row for each configuration: retriever, chunker, size, then its mean score (higher is better)
        over people's questions ("people") and over the drafts of each kind.
    """
    sets = [PEOPLE, *(name for name in scores["questions"].unique() if name != PEOPLE)]
    values = scores.assign(value=scores["value"].astype(float))
    means = values.pivot_table(
        index=CONFIGURATION, columns="questions", values="value", aggfunc="mean", sort=False
    )
    return means[sets].rename_axis(columns=None).reset_index()


def agreement_of_drafts(ranking: pd.DataFrame) -> pd.DataFrame:
    """Compare two rankings of configurations: by drafted questions of each kind, and by people's
    questions. Kendall's tau is 1 if they agree, 0 if they have nothing to do with each other.

    Args:
        ranking: as `rank_by_questions` returns it: a row for each configuration, with its mean score
            over people's questions and over the drafts of each kind.

    Returns:
        A row for each kind: `tau`, Kendall's tau-b over all configurations; `tau_retrievers`, over
        the retrievers alone (means over chunkings); `regret`, how much the configuration that the
        drafts choose loses to the best one by people's questions (the mean of those that tie);
        `regret_of_any`, how much a configuration drawn at random loses.
    """
    kinds = ranking.columns.drop([*CONFIGURATION, PEOPLE])
    by_people = ranking[PEOPLE]
    means_of_retrievers = ranking.groupby("retriever").mean(numeric_only=True)
    rows = []
    for kind in kinds:
        row = {
            "kind": kind,
            "tau": _tau(ranking[kind], by_people),
            "tau_retrievers": _tau(means_of_retrievers[kind], means_of_retrievers[PEOPLE]),
            "regret": _regret(ranking[kind], by_people),
            "regret_of_any": by_people.max() - by_people.mean(),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _tau(one: pd.Series, other: pd.Series) -> float:
    """Return Kendall's tau-b of two rankings, given by a mean score of each configuration: 1 if
    they are the same, -1 if one is the reverse of the other.
    """
    from scipy.stats import kendalltau

    return float(kendalltau(one, other).statistic)


def _regret(by_drafts: pd.Series, by_people: pd.Series) -> float:
    """Return how much the configuration that drafts choose loses to the best one, by people's
    questions. If several have the highest mean by drafts, it is the mean loss of these.

    Args:
        by_drafts: mean score of each configuration over the drafts.
        by_people: its mean score over people's questions.
    """
    is_chosen = by_drafts == by_drafts.max()
    return float(by_people.max() - by_people[is_chosen].mean())


def spread_of_agreement(scores: pd.DataFrame) -> pd.DataFrame:
    """Compute intervals of the agreement between drafted questions (taken from documents by a program)
    and people's questions, by the bootstrap: 200 samples of both, drawn with replacement.

    Two values are computed for each kind of draft, such as "heading" and "sentence": Kendall's tau
    between the rankings of the configurations by drafts and by people's questions; and the gain of
    choosing by drafts: how much better the chosen configuration is, by people's questions, than one
    drawn at random.

    Args:
        scores: as `score_by_questions` returns them.

    Returns:
        A row for each kind of draft: `tau_low` and `tau_high`, `gain_low` and `gain_high`: the middle
        95 % of both values.
    """
    # "people" or kind of drafts -> scores, questions down and configurations across
    matrices = {
        str(name): rows.pivot(index="query_id", columns=CONFIGURATION, values="value").astype(float)
        for name, rows in scores.groupby("questions", sort=False)
    }
    by_people = matrices.pop(PEOPLE)
    return pd.DataFrame(
        [{"kind": kind, **_spread(by_people, drafts)} for kind, drafts in matrices.items()]
    )


def _spread(by_people: pd.DataFrame, by_drafts: pd.DataFrame) -> dict[str, float]:
    """Compute the intervals of `spread_of_agreement` for one kind of draft: how far chance moves the
    agreement of drafted with people's questions.

    Both sets of questions are sampled many times. Each time two values are computed: Kendall's tau
    between the rankings of the configurations by the two sets; and the gain of choosing by drafts, in
    the mean by people's questions, over choosing at random.

    Args:
        by_people: scores on people's questions, questions down and configurations across.
        by_drafts: scores on the drafts, likewise.
    """
    rng = np.random.default_rng(0)
    taus = []
    gains = []
    for _ in range(N_SAMPLES):
        people = _sampled_means(by_people, rng)
        drafts = _sampled_means(by_drafts, rng)
        taus.append(_tau(drafts, people))
        # what a choice at random, and the choice by drafts, lose to the best configuration
        regret_of_any = people.max() - people.mean()
        gains.append(regret_of_any - _regret(drafts, people))
    # tau is NaN for a sample in which all configurations score the same
    tau_low, tau_high = np.nanquantile(taus, [0.025, 0.975])
    gain_low, gain_high = np.quantile(gains, [0.025, 0.975])
    return {
        "tau_low": tau_low,
        "tau_high": tau_high,
        "gain_low": gain_low,
        "gain_high": gain_high,
    }


def _sampled_means(matrix: pd.DataFrame, rng: np.random.Generator) -> pd.Series:
    """Return the mean of each configuration over questions drawn with replacement."""
    return matrix.iloc[rng.integers(0, len(matrix), len(matrix))].mean()


def load_draft_scores(folder: str | Path) -> dict[str, pd.DataFrame]:
    """Load what `ragbench sweep notebooks/study_drafts.toml` wrote, by collection.

    Raises:
        DataError: the folder holds none.
    """
    paths = stored_files(folder, "scores.parquet", "notebooks/study_drafts.toml")
    return {name: pd.read_parquet(path) for name, path in paths.items()}


def drafts_table(scores: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Compute `agreement_of_drafts` and `spread_of_agreement` of every collection.

    Args:
        scores: collection -> what `score_by_questions` returned for it.

    Returns:
        The tables of the collections one below the other, with two more columns: `collection`, and
        `questions`, the number of people's questions.
    """
    tables = []
    for collection, by_questions in scores.items():
        agreement = agreement_of_drafts(rank_by_questions(by_questions))
        table = agreement.merge(spread_of_agreement(by_questions), on="kind")
        of_people = by_questions[by_questions["questions"] == PEOPLE]
        table.insert(0, "collection", collection)
        table.insert(1, "questions", of_people["query_id"].nunique())
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def drafts_findings(table: pd.DataFrame) -> list[str]:
    """Write the findings on the agreement, three sentences for each kind of draft.

    Args:
        table: as `drafts_table` returns it: a row for each collection and kind.
    """
    lines = []
    for kind, rows in table.groupby("kind", sort=False):
        taus = ", ".join(
            f"{row['collection']} {row['tau']:+.2f} [{row['tau_low']:+.2f}, {row['tau_high']:+.2f}]"
            for _, row in rows.iterrows()
        )
        # The chosen configuration's gain over one drawn at random is above 0, below it, or open.
        n_better = int((rows["gain_low"] > 0).sum())
        n_worse = int((rows["gain_high"] < 0).sum())
        n_open = len(rows) - n_better - n_worse
        lines.append(
            f"Drafts of the kind {kind}: Kendall's tau with the collection's questions is {taus}. The "
            f"chosen configuration loses {rows['regret'].mean():.3f} on average to the best one. Of "
            f"{len(rows)} collections it is better than one drawn at random on {n_better}, worse on "
            f"{n_worse}, and either may be on {n_open}."
        )
    return lines
