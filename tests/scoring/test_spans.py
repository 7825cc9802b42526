"""Span scores of a whole run: against numbers worked out by hand, single questions, and the slow way."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.chunkers import chunk
from ragbench.errors import ConfigError, DataError
from ragbench.metrics.chunks import recall_auc, span_scores
from ragbench.scoring.spans import score_spans, split_evidence
from ragbench.segments import token_offsets, token_ranges
from ragbench.types import Case, Chunk, Dataset, Document, Run, Span

# Twenty one-letter tokens: token i is at character 2 i.
TEXT = " ".join("abcdefghijklmnopqrst")


def dataset_of(*evidence: tuple[Span, ...], **texts: str) -> Dataset:
    corpus = {doc_id: Document(doc_id, text) for doc_id, text in {"d": TEXT, **texts}.items()}
    return Dataset("demo", "test", corpus, [Case(f"q{i}", "?", evidence=e) for i, e in enumerate(evidence)], {})


def cut(start: int, end: int, *, i: int | None = None, doc_id: str = "d", text: str = TEXT) -> Chunk:
    """The tokens start to end of the text above."""
    return Chunk(f"{doc_id}#{start if i is None else i}", doc_id, 2 * start, 2 * end - 1, text[2 * start : 2 * end - 1])


def values(frame: pd.DataFrame, query_id: str = "q0") -> dict[str, float]:
    own = frame[frame["query_id"] == query_id]
    return dict(zip(own["measure"], own["value"], strict=True))


FIVES = [cut(i, i + 5) for i in range(0, 20, 5)]  # nine characters, five tokens each


def test_by_hand() -> None:
    # evidence "e f" = characters 8..11 (3 characters: e, space, f); the space lies between the chunks d#0 and d#5
    dataset = dataset_of((Span("d", 8, 11),))
    frame = score_spans(
        dataset, {"q0": {"d#5": 3.0, "d#15": 2.0, "d#0": 1.0}}, FIVES, ks=[1, 2, 3], budgets=[1, 5, 14, 15]
    )
    assert values(frame) == pytest.approx(
        {
            "span_recall@1": 1 / 3,
            "span_recall@2": 1 / 3,
            "span_recall@3": 2 / 3,
            "span_precision@1": 1 / 9,
            "span_precision@2": 1 / 18,
            "span_precision@3": 2 / 27,
            "span_iou@1": 1 / (3 + 9 - 1),
            "span_iou@2": 1 / (3 + 18 - 1),
            "span_iou@3": 2 / (3 + 27 - 2),
            "span_precision_omega": 2 / 18,
            "span_recall@1tok": 1 / 3,  # f is the first token of d#5
            "span_recall@5tok": 1 / 3,
            "span_recall@14tok": 1 / 3,  # e, the last token of d#0, does not fit
            "span_recall@15tok": 2 / 3,
            "span_recall_auc": ((0 + 1) / 2 * 1 + 1 * 13 + (1 + 2) / 2 * 1) / 3 / 15,
        }
    )


def test_columns_and_order() -> None:
    dataset = dataset_of((Span("d", 0, 1),), (), (Span("d", 4, 5),))
    frame = score_spans(dataset, {"q0": {"d#0": 1.0}, "q1": {"d#0": 1.0}}, FIVES, ks=[1], budgets=[])
    assert list(frame.columns) == ["query_id", "measure", "value"]
    assert frame["value"].dtype == np.float64
    assert list(frame["query_id"].unique()) == ["q0", "q2"]  # q1 has no evidence
    assert list(frame["measure"].unique()) == [
        "span_recall@1",
        "span_precision@1",
        "span_iou@1",
        "span_precision_omega",
    ]


def test_missing_and_empty_queries_have_zero() -> None:
    dataset = dataset_of((Span("d", 0, 1),), (Span("d", 0, 1),))
    empty: Run = {"q0": {}, "q1": {}, "q2": {}}
    frame = score_spans(dataset, empty, FIVES)
    by_run = frame[frame["measure"] != "span_precision_omega"]
    assert len(by_run) == 2 * (3 * 4 + 4 + 1)
    assert (by_run["value"] == 0).all()
    missing = score_spans(dataset, {"q1": {"d#0": 1.0}}, FIVES, ks=[1])
    assert values(missing)["span_recall@1"] == 0
    assert values(missing, "q1")["span_recall@1"] == 1


def test_empty_run() -> None:
    frame = score_spans(dataset_of((Span("d", 0, 1),)), {}, FIVES)
    assert (frame[frame["measure"] != "span_precision_omega"]["value"] == 0).all()


def test_split_evidence_scores_zero() -> None:
    dataset = dataset_of((Span("d", 38, 39),))
    run = {"q0": {piece.chunk_id: 1.0 for piece in FIVES[:3]}}
    assert (score_spans(dataset, run, FIVES[:3])["value"] == 0).all()


def test_no_chunks_at_all() -> None:
    frame = score_spans(dataset_of((Span("d", 0, 1),)), {}, [])
    assert (frame["value"] == 0).all()
    assert len(frame) == 3 * 4 + 1 + 4 + 1


def test_no_question_with_evidence() -> None:
    frame = score_spans(dataset_of((), ()), {"q0": {"d#0": 1.0}}, FIVES)
    assert list(frame.columns) == ["query_id", "measure", "value"]
    assert len(frame) == 0


def test_ties_rank_in_the_order_of_the_chunks() -> None:
    dataset = dataset_of((Span("d", 10, 11),))
    run = {"q0": {"d#5": 1.0, "d#0": 1.0}}
    assert values(score_spans(dataset, run, FIVES, ks=[1]))["span_recall@1"] == 0
    assert values(score_spans(dataset, run, FIVES[::-1], ks=[1]))["span_recall@1"] == 1


def test_overlap_is_paid_twice_and_counts_once() -> None:
    chunks = [cut(0, 4, i=0), cut(2, 6, i=1)]  # a b c d and c d e f
    dataset = dataset_of((Span("d", 4, 11),))  # c d e f: 7 characters
    run = {"q0": {"d#0": 2.0, "d#1": 1.0}}
    found = values(score_spans(dataset, run, chunks, ks=[2], budgets=[4, 6, 7, 8]))
    assert found["span_recall@4tok"] == 3 / 7  # c d
    assert found["span_recall@6tok"] == 3 / 7  # c d again
    assert found["span_recall@7tok"] == 5 / 7  # and e with the space before it
    assert found["span_recall@8tok"] == 1
    assert found["span_precision@2"] == 7 / 14


def test_characters_of_several_tokens_are_read_when_paid_in_full() -> None:
    text = "a😀b"  # 1 + 4 + 1 tokens of wordllama
    dataset = dataset_of((Span("e", 0, 3),), e=text)
    run = {"q0": {"e#0": 1.0}}
    frame = score_spans(
        dataset, run, [Chunk("e#0", "e", 0, 3, text)], ks=[1], budgets=[1, 3, 4, 5, 6], tokenizer="wordllama"
    )
    found = values(frame)
    assert [round(found[f"span_recall@{b}tok"] * 3) for b in (1, 3, 4, 5, 6)] == [1, 1, 1, 2, 3]


def test_evidence_in_two_documents() -> None:
    other = "u v w x y"
    dataset = dataset_of((Span("d", 0, 1), Span("e", 0, 3)), e=other)
    chunks = [*FIVES, cut(0, 2, doc_id="e", text=other)]
    found = values(score_spans(dataset, {"q0": {"e#0": 1.0}}, chunks, ks=[1], budgets=[1]))
    assert found["span_recall@1"] == 3 / 4
    assert found["span_recall@1tok"] == 1 / 4


def test_numbers_may_come_twice_and_in_any_order() -> None:
    dataset = dataset_of((Span("d", 0, 1),))
    frame = score_spans(dataset, {"q0": {"d#0": 1.0}}, FIVES, ks=[3, 1, 3], budgets=[20, 10, 20])
    assert frame["measure"].is_unique
    assert values(frame)["span_recall_auc"] == 0.75


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ks": [0]}, "ks must be whole numbers of at least 1, not 0"),
        ({"budgets": [2.5]}, "budgets must be .* not 2.5"),
    ],
)
def test_wrong_numbers(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        score_spans(dataset_of((Span("d", 0, 1),)), {}, FIVES, **options)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ({"q0": {"d": 1.0}}, "query 'q0': 'd' is not an id of the 4 chunks given; .* turned into documents"),
        ({"other": {"d#0": 1.0}}, "none of the run's 1 queries .*'other'.* is a question of 'demo'"),
        ({"q0": {"d#0": float("nan")}}, "nan"),
    ],
)
def test_wrong_runs(run: Run, message: str) -> None:
    with pytest.raises(DataError, match=message):
        score_spans(dataset_of((Span("d", 0, 1),)), run, FIVES)


def test_chunks_of_another_dataset() -> None:
    with pytest.raises(DataError, match="'z', which is not in the corpus of 'demo'"):
        score_spans(dataset_of((Span("d", 0, 1),)), {"q0": {"z#0": 1.0}}, [Chunk("z#0", "z", 0, 1, "z")])


def test_invalid_evidence_is_refused() -> None:
    with pytest.raises(DataError, match=r"d\[4:4\]"):
        score_spans(dataset_of((Span("d", 4, 4),)), {}, FIVES)


PIECES = st.tuples(st.sampled_from("de"), st.integers(0, 35), st.integers(1, 15)).map(
    lambda r: (r[0], r[1], min(39, r[1] + r[2]))
)


@settings(max_examples=100, deadline=None)
@given(
    evidence=st.lists(st.lists(PIECES, max_size=3), min_size=1, max_size=3),
    pieces=st.lists(PIECES, max_size=8),
    ranked=st.lists(st.lists(st.tuples(st.integers(0, 7), st.sampled_from([1.0, 2.0, 3.0])), max_size=8), max_size=3),
)
def test_equal_to_the_slow_way(
    evidence: list[list[tuple[str, int, int]]],
    pieces: list[tuple[str, int, int]],
    ranked: list[list[tuple[int, float]]],
) -> None:
    dataset = dataset_of(*[tuple(Span(*span) for span in spans) for spans in evidence], e=TEXT)
    chunks = [Chunk(f"{d}#{i}", d, start, end, TEXT[start:end]) for i, (d, start, end) in enumerate(pieces)]
    run = {
        f"q{i}": {chunks[j].chunk_id: score for j, score in scored if j < len(chunks)}
        for i, scored in enumerate(ranked[: len(evidence)])
    }
    frame = score_spans(dataset, run, chunks, ks=[1, 3], budgets=[2, 7, 11])
    offsets = token_offsets([TEXT])[0]
    for case in dataset.cases:
        if not case.evidence:
            assert case.query_id not in set(frame["query_id"])
            continue
        scored = run.get(case.query_id, {})
        order = sorted((c for c in chunks if c.chunk_id in scored), key=lambda c: -scored[c.chunk_id])
        expected: dict[str, float] = {}
        for k in (1, 3):
            single = span_scores(order[:k], case.evidence, chunks)
            expected |= {f"span_{name}@{k}": single[name] for name in ("recall", "precision", "iou")}
            expected["span_precision_omega"] = single["precision_omega"]
        for budget in (2, 7, 11):
            left, read = budget, []
            for piece in order:
                first, last = (int(x) for x in token_ranges(offsets, piece.start, piece.end))
                end = piece.end if last - first <= left else int(offsets[first + left - 1, 1])
                if left > 0 and end > piece.start:
                    read.append(Chunk("", piece.doc_id, piece.start, end, ""))
                left = max(0, left - (last - first))
            expected[f"span_recall@{budget}tok"] = span_scores(read, case.evidence, chunks)["recall"]
        expected["span_recall_auc"] = float(
            recall_auc([2, 7, 11], [expected[f"span_recall@{budget}tok"] for budget in (2, 7, 11)])
        )
        assert values(frame, case.query_id) == pytest.approx(expected)


def test_split_evidence() -> None:
    dataset = dataset_of(
        (Span("d", 0, 3),),  # whole in d#0
        (Span("d", 8, 11),),  # "e f": cut between d#0 and d#5, only white space lost
        (Span("d", 28, 33),),  # "o p q": o in d#10, p and q in no chunk
        (Span("d", 34, 39), Span("d", 0, 1)),  # "r s t" lost, "a" kept
        (),
    )
    assert split_evidence(dataset, FIVES[:3]).to_dict("records") == [
        {"query_id": "q3", "spans": 2, "split": 1, "share_lost": 3 / 4},
        {"query_id": "q2", "spans": 1, "split": 1, "share_lost": 2 / 3},
        {"query_id": "q1", "spans": 1, "split": 1, "share_lost": 0.0},
    ]


def test_no_evidence_is_split() -> None:
    frame = split_evidence(dataset_of((Span("d", 0, 4),)), FIVES)  # the white space at its end does not count
    assert list(frame.columns) == ["query_id", "spans", "split", "share_lost"]
    assert len(frame) == 0
    assert len(split_evidence(dataset_of(), FIVES)) == 0


def test_all_evidence_is_split() -> None:
    frame = split_evidence(dataset_of((Span("d", 0, 4),)), [])
    assert frame.to_dict("records") == [{"query_id": "q0", "spans": 1, "split": 1, "share_lost": 1.0}]


def test_evidence_outside_the_corpus() -> None:
    with pytest.raises(DataError, match="query 'q0' has evidence in document 'z', which is not in the corpus"):
        split_evidence(dataset_of((Span("z", 0, 4),)), FIVES)


def test_our_chunkers_split_no_evidence() -> None:
    dataset = dataset_of(*[(Span("d", i, i + 6),) for i in range(0, 32, 3)])
    for name in ("fixed", "recursive", "sentence", "markdown"):
        assert (split_evidence(dataset, chunk(dataset, name, chunk_size=3))["share_lost"] == 0).all()


def test_many_questions_take_no_time() -> None:
    text = "word " * 100_000
    cases = [Case(f"q{i}", "?", evidence=(Span("d", 900 * i, 900 * i + 400),)) for i in range(472)]
    dataset = Dataset("big", "test", {"d": Document("d", text)}, cases, {})
    chunks = chunk(dataset, "fixed", chunk_size=100)
    run = {f"q{i}": {chunks[(i * 7 + j) % len(chunks)].chunk_id: -float(j) for j in range(50)} for i in range(472)}
    score_spans(dataset, {}, chunks)
    start = time.process_time()
    score_spans(dataset, run, chunks)
    assert time.process_time() - start < 1
