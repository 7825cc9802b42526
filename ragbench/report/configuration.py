"""Tables and sentences about one configuration: what `evaluate.ipynb` shows between its figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ragbench.evaluation.results import only
from ragbench.metrics.retrieval import ranking
from ragbench.registry import higher_is_better
from ragbench.segments import count_tokens
from ragbench.statistics import summarise
from ragbench.types import Answer, Chunk, Dataset, Run

if TYPE_CHECKING:
    import pandas as pd


def dataset_table(dataset: Dataset) -> pd.DataFrame:
    """What a dataset holds: one row per category and one for all.

    Returns:
        category, questions, with_judgements, with_evidence, with_reference, unanswerable; the index is the row number
        and the last row, "all", sums the others. `attrs["documents"]` is the size of the corpus.
    """
    import pandas as pd

    rows = [
        {
            "category": case.category or "no category",
            "questions": 1,
            "with_judgements": bool(dataset.qrels.get(case.query_id)),
            "with_evidence": bool(case.evidence),
            "with_reference": case.reference_answer is not None,
            "unanswerable": not case.answerable,
        }
        for case in dataset.cases
    ]
    columns = ["category", "questions", "with_judgements", "with_evidence", "with_reference", "unanswerable"]
    frame = pd.DataFrame(rows, columns=columns)
    table = frame.groupby("category", sort=False).sum().astype(int)
    table.loc["all"] = table.sum()
    table = table.reset_index()
    table.attrs["documents"] = len(dataset.corpus)
    return table


def chunk_tokens(chunks: Sequence[Chunk], tokenizer: str = "minilm") -> list[int]:
    """The size of each chunk in tokens of the named tokenizer."""
    return count_tokens([chunk.text for chunk in chunks], tokenizer)


def category_table(dataset: Dataset, scores: pd.DataFrame, measure: str) -> pd.DataFrame:
    """The mean of one measure within each category, with its interval.

    Returns:
        category, mean, ci_low, ci_high, n_scored, n; categories in the order of the dataset, those without any
        scored question left out.
    """
    import pandas as pd

    category_of = {case.query_id: case.category for case in dataset.cases}
    own = only(scores, measure)
    rows = []
    for category in dict.fromkeys(category_of.values()):
        part = own[own["query_id"].map(category_of) == category]
        if part["value"].notna().any():
            rows.append(summarise(part).drop(columns="measure").assign(category=category))
    columns = ["category", "mean", "ci_low", "ci_high", "n_scored", "n"]
    return pd.concat(rows, ignore_index=True)[columns] if rows else pd.DataFrame(columns=columns)


def question_table(
    dataset: Dataset, run: Run, scores: pd.DataFrame, measure: str, *, worst: int = 6, best: int = 2
) -> pd.DataFrame:
    """The worst and the best questions by one measure, with what was wanted and what was retrieved.

    Returns:
        query_id, category, question, value, first_relevant_rank (None = nowhere in the run), relevant (documents
        with their grade), retrieved (the first three, ranked as they were scored), worst first; equal values in the
        order of the dataset.
    """
    import pandas as pd

    case_of = {case.query_id: case for case in dataset.cases}
    order = {query_id: i for i, query_id in enumerate(case_of)}
    own = only(scores, measure).dropna(subset="value")
    own = own.assign(order=own["query_id"].map(order))
    own = own.sort_values(["value", "order"], ascending=[higher_is_better(measure), True])
    chosen = own if len(own) <= worst + best else pd.concat([own.head(worst), own.tail(best)])
    rows = []
    for query_id, value in zip(chosen["query_id"], chosen["value"], strict=True):
        found = ranking(run.get(query_id, {}))
        judged = dataset.qrels.get(query_id, {})
        rows.append(
            {
                "query_id": query_id,
                "category": case_of[query_id].category,
                "question": case_of[query_id].text,
                "value": float(value),
                "first_relevant_rank": next((i for i, d in enumerate(found, 1) if judged.get(d, 0) > 0), None),
                "relevant": _graded(judged),
                "retrieved": ", ".join(found[:3]) or "nothing",
            }
        )
    columns = ["query_id", "category", "question", "value", "first_relevant_rank", "relevant", "retrieved"]
    # An object column: pandas would turn "nowhere" into NaN and ranks into floats.
    ranks = pd.Series([row["first_relevant_rank"] for row in rows], dtype=object)
    return pd.DataFrame(rows, columns=columns).assign(first_relevant_rank=ranks)


def answer_table(dataset: Dataset, answers: Sequence[Answer], scores: pd.DataFrame, *, rows: int = 8) -> pd.DataFrame:
    """Answers beside their references, the least similar first; what could not be scored is left out.

    Returns:
        query_id, question, answer, reference, outcome, semantic_similarity; at most `rows` of them.
    """
    import pandas as pd

    case_of = {case.query_id: case for case in dataset.cases}
    value_of = only(scores, "semantic_similarity").set_index("query_id")["value"]
    table = pd.DataFrame(
        [
            {
                "query_id": answer.query_id,
                "question": case_of[answer.query_id].text,
                "answer": answer.text,
                "reference": case_of[answer.query_id].reference_answer or "",
                "outcome": answer.outcome or "",
                "semantic_similarity": value_of.get(answer.query_id),
            }
            for answer in answers
        ],
        columns=["query_id", "question", "answer", "reference", "outcome", "semantic_similarity"],
    )
    scored = table.dropna(subset="semantic_similarity").sort_values("semantic_similarity", kind="stable")
    return scored.head(rows).reset_index(drop=True)


def busiest_document(dataset: Dataset, chunks: Sequence[Chunk]) -> str | None:
    """The document with evidence for the most questions, where a coverage figure shows most; None without evidence.

    Of documents with equally many the one with the most chunks is taken, then the first by id.
    """
    asked = Counter(doc_id for case in dataset.cases for doc_id in {span.doc_id for span in case.evidence})
    size = Counter(chunk.doc_id for chunk in chunks)
    return min(asked, key=lambda doc_id: (-asked[doc_id], -size[doc_id], doc_id)) if asked else None


def budget_curve(scores: pd.DataFrame) -> pd.DataFrame:
    """Evidence recall at each context budget.

    Returns:
        budget (tokens), mean, ci_low, ci_high, n_scored, n; no rows where the scores hold no such measure.
    """
    own = scores[scores["measure"].str.fullmatch(r"span_recall@\d+tok")]
    if own.empty:
        return summarise(scores).head(0).drop(columns="measure").assign(budget=[])
    table = summarise(own)
    table.insert(0, "budget", table["measure"].str.extract(r"@(\d+)tok", expand=False).astype(int))
    return table.drop(columns="measure").sort_values("budget", ignore_index=True)


def _graded(judged: Mapping[str, int]) -> str:
    relevant = sorted((doc_id for doc_id in judged if judged[doc_id] > 0), key=lambda d: (-judged[d], d))
    return ", ".join(f"{doc_id} ({judged[doc_id]})" for doc_id in relevant)


def findings(
    dataset: Dataset, summary: pd.DataFrame, categories: pd.DataFrame, questions: pd.DataFrame, measure: str
) -> list[str]:
    """What a reader may take home from one configuration, in sentences computed from its tables.

    Args:
        dataset: for its size.
        summary: as from `summarise`.
        categories: as from `category_table`.
        questions: as from `question_table`.
        measure: what the last two are about.
    """
    of = {row["measure"]: row for row in summary.to_dict("records")}
    own = of[measure]
    if not own["n_scored"]:
        return [f"No question could be scored by {measure}: the dataset has no judgements for them."]
    interval = f" [{own['ci_low']:.3f}, {own['ci_high']:.3f}]" if own["n_scored"] > 1 else ""
    said = [
        f"{measure} is {own['mean']:.3f}{interval} over {own['n_scored']} of {own['n']} questions and "
        f"{len(dataset.corpus):,} documents."
    ]
    if len(categories) > 1:
        bottom, *_, top = categories.sort_values("mean", kind="stable").to_dict("records")
        known = bottom["n_scored"] > 1 and top["n_scored"] > 1
        apart = "do not touch" if known and bottom["ci_high"] < top["ci_low"] else "overlap"
        said.append(
            f"Strongest on {top['category'] or 'no category'} ({top['mean']:.3f}), weakest on "
            f"{bottom['category'] or 'no category'} ({bottom['mean']:.3f})"
            + (f"; their intervals {apart}." if known else "; too few questions for an interval.")
        )
    if {"span_recall@5", "span_recall@500tok"} <= set(of):
        said.append(
            f"Of the gold evidence {of['span_recall@5']['mean']:.0%} stands in the best 5 chunks and "
            f"{of['span_recall@500tok']['mean']:.0%} in the best 500 tokens."
        )
    if len(questions) and questions.iloc[0]["value"] < 0.5:
        row = questions.iloc[0]
        if not row["relevant"]:
            where = "no document is judged relevant, so no system can score"
        elif row["first_relevant_rank"] is None:
            where = "its first relevant document is not retrieved at all"
        else:
            where = f"its first relevant document stands at rank {row['first_relevant_rank']}"
        said.append(f"Worst question: {row['query_id']} ({row['question']}): {where}.")
    return said
