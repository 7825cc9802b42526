"""The health of a test set: can it distinguish configurations?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import pandas as pd

from ragbench.errors import ConfigError, DataError
from ragbench.metrics.retrieval import checked_run, evaluate, ranking
from ragbench.registry import higher_is_better
from ragbench.statistics.columns import matrix_of, measure_among, nullable, with_nullable
from ragbench.text import count_tokens
from ragbench.types import Dataset, Qrels, Run

MIN_CONFIGURATIONS = 3
"""A correlation across fewer configurations is always +1 or -1."""

COPIED = 0.8
"""A question that shares this fraction of its words with its evidence is answered by matching words."""


@dataclass(frozen=True, eq=False)
class DatasetHealth:
    """The result of `dataset_health`: the tables of `question_health`, `document_sizes` and `judged_share` (None
    without a dataset or runs), and the findings in sentences."""

    questions: pd.DataFrame
    documents: pd.DataFrame | None
    judged: pd.DataFrame | None
    sentences: list[str]


def dataset_health(
    scores_by_name: Mapping[str, pd.DataFrame],
    *,
    measure: str,
    dataset: Dataset | None = None,
    runs: Mapping[str, Run] | None = None,
    sizes: Sequence[int] = (128, 256, 512, 1024),
    k: int = 10,
) -> DatasetHealth:
    """The health of a test set: questions, documents and judgements, with the findings in sentences.

    Args:
        scores_by_name: name -> tidy scores of the same queries.
        measure: the measure, in [0, 1].
        dataset: for the questions' texts, their overlap with the evidence, the sizes of documents, and the judgements.
        runs: name -> document run, for the fraction of retrieved documents that are judged; needs `dataset`.
        sizes: chunk sizes in tokens of "minilm".
        k: depth to which documents should be judged.

    >>> import pandas as pd
    >>> def scores(*values):
    ...     return pd.DataFrame({"query_id": ["q1", "q2", "q3"], "measure": "RR", "value": values})
    >>> runs = {"a": scores(1, 0, 1), "b": scores(1, 0.5, 0), "c": scores(1, 1, 0)}
    >>> dataset_health(runs, measure="RR").sentences[0]
    '1 of 3 questions never move: all 3 configurations score the same on them (1 at the top, 0 at the bottom). They do not distinguish any two of these.'

    Raises:
        ConfigError: fewer than two configurations, or runs without a dataset.
        ComparisonError: other queries, or none that all have scored.
        DataError: values beyond [0, 1].
    """  # noqa: E501
    if runs is not None and dataset is None:
        raise ConfigError("runs are compared with the judgements of a dataset: give dataset, too")
    questions = question_health(scores_by_name, measure=measure, dataset=dataset)
    documents = document_sizes(dataset, sizes) if dataset is not None and dataset.corpus else None
    judged = judged_share(dataset.qrels, runs, k=k) if dataset is not None and runs else None
    sentences = _about_questions(questions, len(scores_by_name))
    if documents is not None and len(short := documents[documents["share"] >= 0.5]):
        row = short.iloc[0]
        sentences.append(
            f"{row['share']:.0%} of {row['documents']:.0f} documents are shorter than {row['size']:.0f} tokens: for "
            "them chunks of that size or more are all the same."
        )
    if judged is not None:
        sentences += _about_judgements(judged, k)
    return DatasetHealth(questions, documents, judged, sentences)


def question_health(
    scores_by_name: Mapping[str, pd.DataFrame], *, measure: str, dataset: Dataset | None = None
) -> pd.DataFrame:
    """Difficulty and discrimination of each question across configurations, as in the analysis of exam questions.

    Columns, hardest first:
        query_id, question ("" without a dataset).
        difficulty: 1 - mean over the configurations, in [0, 1] (where lower is better: the mean).
        spread: largest minus smallest value; moves: whether it is more than 1e-9.
        discrimination: item-rest correlation in [-1, 1]: Pearson's, across the configurations, between this question's
            values and the configurations' means over all other questions (Lord & Novick 1968). Around 0 it is noise;
            a clearly negative one is worth a look: better configurations do worse here, often due to a wrong label.
            pd.NA with fewer than three configurations or without any movement; with a dozen, chance alone reaches
            +-0.6.
        overlap: fraction of the question's distinct words (stems, without stop words) that its evidence contains, in
            [0, 1]; evidence is the gold spans, or the relevant documents without them. Near 1 the question was copied
            from the page, and favours lexical retrieval. pd.NA without a dataset, evidence or words.

    >>> import pandas as pd
    >>> def scores(*values):
    ...     return pd.DataFrame({"query_id": ["q1", "q2", "q3"], "measure": "RR", "value": values})
    >>> runs = {"a": scores(1, 0, 0.2), "b": scores(1, 0.5, 0.4), "c": scores(1, 1, 0.1)}
    >>> question_health(runs, measure="RR")[["query_id", "difficulty", "spread", "discrimination", "moves"]].round(3)
      query_id  difficulty  spread  discrimination  moves
    0       q3       0.767     0.3          -0.327   True
    1       q2       0.500     1.0          -0.327   True
    2       q1       0.000     0.0            <NA>  False

    Raises:
        ConfigError: fewer than two configurations, or a measure that is not there.
        ComparisonError: other queries, or none that all have scored.
        DataError: values beyond [0, 1].
    """
    measure = measure_among(scores_by_name, measure)
    matrix = matrix_of(scores_by_name, measure)
    values = matrix.to_numpy()
    if values.min() < -1e-9 or values.max() > 1 + 1e-9:
        raise DataError(f"{measure}: values from {values.min():g} to {values.max():g}; difficulty needs [0, 1]")
    mean, spread = values.mean(axis=1), np.ptp(values, axis=1)
    n, k = values.shape
    discrimination = np.full(n, math.nan)
    if k >= MIN_CONFIGURATIONS and n > 1:  # item-rest correlations
        rest = (values.sum(axis=0) - values) / (n - 1)
        own, others = values - values.mean(axis=1, keepdims=True), rest - rest.mean(axis=1, keepdims=True)
        norms = np.sqrt((own**2).sum(axis=1) * (others**2).sum(axis=1))
        with np.errstate(invalid="ignore", divide="ignore"):
            discrimination = np.where(norms > 1e-12, (own * others).sum(axis=1) / norms, math.nan)
    cases = {} if dataset is None else {case.query_id: case.text for case in dataset.cases}
    overlaps = {} if dataset is None else evidence_overlap(dataset)
    table = pd.DataFrame(
        {
            "query_id": matrix.index,
            "question": [cases.get(query_id, "") for query_id in matrix.index],
            "difficulty": 1 - mean if higher_is_better(measure) else mean,
            "spread": spread,
            "discrimination": nullable(discrimination),
            "moves": spread > 1e-9,
            "overlap": nullable([overlaps.get(query_id, math.nan) for query_id in matrix.index]),
        }
    )
    return table.sort_values(["difficulty", "query_id"], ascending=[False, True], ignore_index=True)


def evidence_overlap(dataset: Dataset) -> dict[str, float]:
    """query_id -> fraction of the question's distinct words that its evidence contains; only where both have words.

    Words are stems of runs of two or more letters or digits as for `BM25`, without stop words and question words.

    >>> from ragbench.types import Case, Document, Span
    >>> corpus = {"d": Document("d", "A generator yields values one at a time.")}
    >>> cases = [Case("q1", "What does a generator yield?", evidence=(Span("d", 0, 40),)), Case("q2", "Why lazily?")]
    >>> evidence_overlap(Dataset("mine", "test", corpus, cases, {}))
    {'q1': 1.0}
    """
    import bm25s
    import Stemmer

    evidence: dict[str, str] = {}
    for case in dataset.cases:
        spans = [span for span in case.evidence if span.doc_id in dataset.corpus]
        texts = [dataset.corpus[span.doc_id].full_text[span.start : span.end] for span in spans]
        if not texts:
            grades = dataset.qrels.get(case.query_id, {})
            texts = [dataset.corpus[d].full_text for d, grade in grades.items() if grade > 0 and d in dataset.corpus]
        if texts:
            evidence[case.query_id] = "\n".join(texts)
    asked = [case for case in dataset.cases if case.query_id in evidence]
    if not asked:
        return {}
    options = {"stemmer": Stemmer.Stemmer("english"), "show_progress": False, "return_ids": False}
    questions, answers = (
        [set(words) for words in bm25s.tokenize(texts, stopwords="en_plus", **options)]
        for texts in ([case.text for case in asked], [evidence[case.query_id] for case in asked])
    )
    pairs = zip(asked, questions, answers, strict=True)
    return {case.query_id: len(own & found) / len(own) for case, own, found in pairs if own}


def document_sizes(dataset: Dataset, sizes: Sequence[int] = (128, 256, 512, 1024)) -> pd.DataFrame:
    """Documents that are shorter than a chunk: size (tokens of "minilm"), documents, shorter, share.

    Where nearly all are, larger chunk sizes give the same chunking.

    >>> from ragbench.types import Document
    >>> corpus = {"a": Document("a", "One two three."), "b": Document("b", "One.")}
    >>> document_sizes(Dataset("mine", "test", corpus, [], {}), [2, 3, 10])
       size  documents  shorter  share
    0     2          2        0    0.0
    1     3          2        1    0.5
    2    10          2        2    1.0

    Raises:
        ConfigError: no size, or one below 1.
    """
    if not sizes or any(not isinstance(size, int) or size < 1 for size in sizes):
        raise ConfigError(f"sizes is {sizes!r}; give chunk sizes in tokens, such as [128, 512]")
    lengths = np.array(count_tokens([document.full_text for document in dataset.corpus.values()]), dtype=int)
    shorter = [int((lengths < size).sum()) for size in sizes]
    share = [count / len(lengths) if len(lengths) else 0.0 for count in shorter]
    return pd.DataFrame({"size": list(sizes), "documents": len(lengths), "shorter": shorter, "share": share})


def judged_share(qrels: Qrels, runs: Mapping[str, Run], *, k: int = 10) -> pd.DataFrame:
    """The judged fraction of what each configuration retrieved, and its scores on that alone.

    An unjudged document counts as wrong. Where judgements were collected from older systems, a new retriever finds more
    such documents and scores lower. Two figures are less affected: nDCG on the condensed list, without unjudged
    documents (Sakai 2007), and bpref (Buckley & Voorhees 2004), which counts only judged pairs. Both need documents
    judged *not* relevant (grade 0); with relevant ones alone they are pd.NA: every condensed list would be perfect.

    Columns, one row per configuration:
        name; judged: fraction of the top k, over the judged queries, that has a judgement; queries_unjudged: queries
        with an unjudged document there, of n queries; ndcg, ndcg_condensed: mean nDCG@k; bpref: mean; rank,
        rank_condensed: ranks by the two nDCG (1 is best): where they differ, judge more before you decide.

    >>> qrels = {"q": {"a": 1, "b": 0}}
    >>> runs = {"old": {"q": {"b": 2.0, "a": 1.0}}, "new": {"q": {"x": 3.0, "y": 2.0, "a": 1.0}}}
    >>> table = judged_share(qrels, runs, k=3)
    >>> table[["name", "judged", "ndcg", "ndcg_condensed", "rank", "rank_condensed"]].round(3)
      name  judged   ndcg  ndcg_condensed  rank  rank_condensed
    0  old     1.0  0.631           0.631     1               2
    1  new   0.333    0.5             1.0     2               1

    Raises:
        ConfigError: no runs, or `k` below 1.
        DataError: no judged query, or invalid runs.
    """
    import pytrec_eval

    if not runs or not isinstance(k, int) or k < 1:
        raise ConfigError(f"{len(runs)} runs and k = {k!r}; give at least one run, and a depth from 1")
    judged = {query_id: grades for query_id, grades in qrels.items() if grades}
    if not judged:
        raise DataError("qrels judge no query: runs cannot be compared with them")
    negatives = any(grade <= 0 for grades in judged.values() for grade in grades.values())
    rows = []
    for name, run in runs.items():
        checked = checked_run({query_id: run.get(query_id, {}) for query_id in judged})
        top = {query_id: ranking(scores)[:k] for query_id, scores in checked.items()}
        known = {query_id: sum(d in judged[query_id] for d in docs) for query_id, docs in top.items()}
        retrieved = sum(map(len, top.values()))
        condensed = {q: {d: s for d, s in scores.items() if d in judged[q]} for q, scores in checked.items()}
        ndcg = fmean(evaluate(judged, checked, [f"nDCG@{k}"])[f"nDCG@{k}"].values())
        alone = bpref = math.nan
        if negatives:
            alone = fmean(evaluate(judged, condensed, [f"nDCG@{k}"])[f"nDCG@{k}"].values())
            found = {query_id: scores for query_id, scores in checked.items() if scores}
            per_query = pytrec_eval.RelevanceEvaluator(judged, {"bpref"}).evaluate(found) if found else {}
            bpref = sum(row["bpref"] for row in per_query.values()) / len(judged)
        unjudged = sum(known[query_id] < len(docs) for query_id, docs in top.items())
        share = sum(known.values()) / retrieved if retrieved else math.nan
        rows.append((name, share, unjudged, len(judged), ndcg, alone, bpref))
    names = ["name", "judged", "queries_unjudged", "n", "ndcg", "ndcg_condensed", "bpref"]
    table = pd.DataFrame(rows, columns=names)
    for column, place in (("ndcg", "rank"), ("ndcg_condensed", "rank_condensed")):
        table[place] = table[column].round(12).rank(ascending=False, method="min").astype("Int64")
    return with_nullable(table, "judged", "ndcg", "ndcg_condensed", "bpref")


def _about_questions(table: pd.DataFrame, configurations: int) -> list[str]:
    still = table[~table["moves"]]
    top, bottom = int((still["difficulty"] <= 1e-9).sum()), int((still["difficulty"] >= 1 - 1e-9).sum())
    sentences = [
        f"{len(still)} of {len(table)} questions never move: all {configurations} configurations score the same on "
        f"them ({top} at the top, {bottom} at the bottom). They do not distinguish any two of these."
    ]
    against = table[table["discrimination"].fillna(0.0) < -0.5]
    if len(against):
        sentences.append(
            f"{len(against)} run against the rest (discrimination below -0.5): read them, their labels may be wrong; "
            f"the first are {', '.join(map(str, against['query_id'].head(5)))}."
        )
    overlap = table["overlap"].dropna()
    if len(overlap):
        copied = int((overlap >= COPIED).sum())
        sentences.append(
            f"Questions share {overlap.mean():.0%} of their words with their evidence on average; {copied} of "
            f"{len(overlap)} share {COPIED:.0%} or more{', which favours retrieval by words' if copied else ''}."
        )
    return sentences


def _about_judgements(table: pd.DataFrame, k: int) -> list[str]:
    known = table.dropna(subset="judged")
    if known.empty:
        return []
    lowest = known.sort_values("judged", kind="stable").iloc[0]
    sentences = [
        f"Of the documents in the top {k}, {known['judged'].min():.0%} ({lowest['name']}) to "
        f"{known['judged'].max():.0%} are judged; the others count as wrong."
    ]
    if table["ndcg_condensed"].isna().all():
        sentences.append(
            "Only relevant documents are judged here, so it is unknown whether a retriever found relevant "
            "documents that are unjudged: look at those before comparing retrievers of different kinds."
        )
    elif (moved := table[table["rank"] != table["rank_condensed"]]).empty:
        sentences.append("Without the unjudged documents the order of the configurations stays the same.")
    else:
        sentences.append(
            f"Without the unjudged documents {len(moved)} configurations change their rank "
            f"({', '.join(map(str, moved['name'].head(3)))}): judge those documents before you decide."
        )
    return sentences
