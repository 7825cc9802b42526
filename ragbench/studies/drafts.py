"""Do questions that were drafted without a model choose between configurations as people's do?"""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from pathlib import Path

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
N_DRAFTS = 100
PEOPLE = "people"
"""The column of the questions of the collection itself."""


def drafted_sets(data: Dataset) -> dict[str, Dataset]:
    """Draft questions of each kind that the documents allow: kind -> 100 questions.

    "heading" and "sentence" are those of `ragbench testset draft`; "paragraph" are the questions of
    "sentence" with the whole paragraph as evidence.
    """
    sets = {}
    for kind in KINDS:
        try:
            drafted = draft_known_items(data, N_DRAFTS, kinds=[kind])
        except DataError:  # no headings
            continue
        sets[kind] = drafted
        if kind == "sentence":
            cases = tuple(with_paragraph(case, data) for case in drafted.cases)
            sets["paragraph"] = replace(drafted, cases=cases)
    return sets


def with_paragraph(case: Case, data: Dataset) -> Case:
    """Return a draft whose evidence is the whole paragraph around its sentence."""
    [span] = case.evidence
    text = data.corpus[span.doc_id].full_text
    start = text.rfind("\n\n", 0, span.start)
    start = 0 if start < 0 else start + len("\n\n")
    end = text.find("\n\n", span.end)
    end = len(text) if end < 0 else end
    return replace(case, evidence=(Span(span.doc_id, start, end),))


def rank_by_questions(data: Dataset) -> pd.DataFrame:
    """Score 36 configurations by the collection's own questions and by drafts of each kind.

    Returns:
        Columns retriever, chunker, size, then the mean of `span_recall@500tok` over each set of
        questions: "people" (those of the collection), and each kind of draft.
    """
    with warnings.catch_warnings():  # fewer drafts than asked for, where documents are few
        warnings.simplefilter("ignore", DataWarning)
        sets = {PEOPLE: data, **drafted_sets(data)}
    rows = []
    for chunker, size in itertools.product(CHUNKERS, SIZES):
        chunks = chunk(data, chunker, chunk_size=size)
        for retriever in RETRIEVERS:
            index = make_retriever(retriever, chunks)
            row: dict[str, object] = {"retriever": retriever, "chunker": chunker, "size": size}
            for name, questions in sets.items():
                run = index.search(questions.queries, 100)
                scores = score_spans(questions, run, chunks, ks=[5], budgets=[500])
                row[name] = scores.loc[scores["measure"] == MEASURE, "value"].mean()
            rows.append(row)
    return pd.DataFrame(rows)


def agreement_of_drafts(ranking: pd.DataFrame) -> pd.DataFrame:
    """Compare the ranking by each kind of draft with that by people's questions.

    Returns:
        A row for each kind: `tau`, Kendall's tau-b over all configurations; `tau_retrievers`, over
        the retrievers alone (means over chunkings); `regret`, how much the configuration that the
        drafts choose loses to the best one by people's questions (the mean of those that tie);
        `regret_of_any`, how much a configuration drawn at random loses.
    """
    from scipy.stats import kendalltau

    people = ranking[PEOPLE]
    by_retriever = ranking.groupby("retriever").mean(numeric_only=True)
    rows = []
    for kind in ranking.columns[4:]:
        is_chosen = ranking[kind] == ranking[kind].max()
        row = {
            "kind": kind,
            "tau": kendalltau(ranking[kind], people).statistic,
            "tau_retrievers": kendalltau(by_retriever[kind], by_retriever[PEOPLE]).statistic,
            "regret": people.max() - people[is_chosen].mean(),
            "regret_of_any": people.max() - people.mean(),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def load_rankings(folder: str | Path) -> dict[str, pd.DataFrame]:
    """Load what `ragbench sweep notebooks/study_drafts.toml` wrote, by collection.

    Raises:
        DataError: the folder holds none.
    """
    paths = stored_files(folder, "ranking.csv", "notebooks/study_drafts.toml")
    return {name: pd.read_csv(path) for name, path in paths.items()}


def drafts_table(rankings: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Compute `agreement_of_drafts` of every collection, one below the other, with `collection`."""
    tables = []
    for name, ranking in rankings.items():
        table = agreement_of_drafts(ranking.dropna(axis=1))
        table.insert(0, "collection", name)
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def drafts_findings(table: pd.DataFrame) -> list[str]:
    """Write what the agreement shows, a sentence for each kind of draft."""
    lines = []
    for kind, rows in table.groupby("kind", sort=False):
        taus = ", ".join(f"{row['collection']} {row['tau']:+.2f}" for _, row in rows.iterrows())
        n_worse = int((rows["regret"] > rows["regret_of_any"]).sum())
        lines.append(
            f"Drafts of the kind {kind}: Kendall's tau with people's questions is {taus}; the chosen "
            f"configuration loses {rows['regret'].mean():.3f} on average to the best one, and is worse "
            f"than one drawn at random on {n_worse} of {len(rows)} collections."
        )
    return lines
