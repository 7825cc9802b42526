"""Labels that people gave to real questions: does the interval from a few of them hold what all of
them show? Needs ../shared/data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ragbench as rb
from ragbench.metrics import token_f1
from ragbench.statistics import draw_order, estimate_difference

DRAWS = 300


def rows(path: Path) -> dict[str, dict[str, Any]]:
    lines = path.read_text("utf-8").split("\n")
    return {row["_id"]: row for row in map(json.loads, filter(None, lines))}


def marked(gold: Mapping[str, Any]) -> list[str]:
    """Return what people marked in the passage as the answer: a part of a sentence, or sentences."""
    [answer, *_] = gold["answers"]
    return [answer["text"]] if "text" in answer else list(answer["selected_sentences"])


@cache
def answers(folder: Path, chunk_size: int, k: int) -> pd.Series[str]:
    """Extractive answers to the questions of a collection that have one, from the first k chunks."""
    gold = rows(folder / "answers.jsonl")
    texts = {doc_id: row["text"] for doc_id, row in rows(folder / "corpus.jsonl").items()}
    queries = {q: row["text"] for q, row in rows(folder / "queries.jsonl").items()}
    queries = {q: text for q, text in queries.items() if marked(gold[q])}
    data = rb.Dataset.from_dicts(texts, queries)
    chunks = rb.chunk(data, "recursive", chunk_size=chunk_size)
    run = rb.retrieve(rb.make_retriever("bm25", chunks), data.queries, chunks)
    made = rb.generate_answers(data, run, chunks, "extractive", k=k)
    return pd.Series({answer.query_id: answer.text for answer in made})


def verdicts(folder: Path, texts: pd.Series[str]) -> tuple[pd.Series[float], pd.Series[float]]:
    """People's verdicts, and a heuristic's.

    SQuAD: is what people marked as the answer in it (0 or 1)? The heuristic is token F1 against the
    passage that the question was written for. CLAP NQ: how many of the sentences that people chose
    are in it (graded)? The heuristic is token F1 against the answer that people wrote.
    """
    gold, passages = rows(folder / "answers.jsonl"), rows(folder / "corpus.jsonl")
    people, judge = {}, {}
    for query_id, text in zip(map(str, texts.index), texts, strict=True):
        row = gold[query_id]
        people[query_id] = np.mean([part.casefold() in text.casefold() for part in marked(row)])
        reference = row["answers"][0].get("answer") or passages[row["doc_id"]]["text"]
        judge[query_id] = token_f1(text, reference)
    return pd.Series(people), pd.Series(judge)


def labels_until_decided(
    proxies: pd.DataFrame, people: pd.Series[float], settled: list[float], seed: int
) -> tuple[int, float, float]:
    order = draw_order(proxies, seed=seed)
    last = estimate_difference(proxies, people[order[:-1]], settled=settled)
    n = last.decided_after or len(order)
    state = estimate_difference(proxies, people[order[:n]], settled=settled)
    assert state.ci_low is not None
    assert state.ci_high is not None
    return n, state.ci_low, state.ci_high


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("first", "second"), [((128, 1), (128, 5)), ((64, 1), (128, 1)), ((128, 3), (128, 5))]
)
@pytest.mark.parametrize("name", ["squad", "clapnq"])
def test_the_interval_holds_peoples_difference_of_two_systems(
    shared_data: Path, name: str, first: tuple[int, int], second: tuple[int, int]
) -> None:
    folder = shared_data / name
    if not folder.is_dir():
        pytest.skip(f"needs ../shared/data/{name}, which is not part of the project")
    a, b = answers(folder, *first), answers(folder, *second)
    is_open = (a != b).to_numpy()
    (people_a, judge_a), (people_b, judge_b) = verdicts(folder, a), verdicts(folder, b)
    people, judge = (people_b - people_a)[is_open], (judge_b - judge_a)[is_open].to_frame("f1")
    settled, truth = [0.0] * int((~is_open).sum()), float((people_b - people_a).mean())
    drawn = [labels_until_decided(judge, people, settled, seed) for seed in range(DRAWS)]
    alone = [labels_until_decided(judge[[]], people, settled, seed) for seed in range(DRAWS)]
    n, low, high = np.array(drawn).T
    n_alone = np.median([each[0] for each in alone])
    holds = np.mean((low - 1e-9 <= truth) & (truth <= high + 1e-9))
    wrong = np.mean((low > max(truth, 0)) | (high < min(truth, 0)))
    correlation = np.corrcoef(people, judge["f1"])[0, 1]
    naive, error = (judge["f1"].sum() / len(a), judge["f1"].std() / np.sqrt(len(a)))
    print(
        f"\n{name}, {first} and {second}: {truth:+.3f}, {len(people)} differ, holds {holds:.3f}, wrong "
        f"{wrong:.3f}, labels {np.median(n):.0f}, alone {n_alone:.0f}, correlation "
        f"{correlation:.2f}, the heuristic alone {naive:+.3f} [+-{1.96 * error:.3f}]"
    )
    assert holds >= 0.94 - 1.645 * np.sqrt(0.94 * 0.06 / DRAWS), "within the error of 300 draws"
    assert wrong <= 0.05
    assert np.median(n) <= 1.05 * n_alone
