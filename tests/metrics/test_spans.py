"""Span scores of a whole run: against numbers worked out by hand, single questions, and the slow
way.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import ConfigError, DataError
from ragbench.metrics.spans import evidence_chunks, evidence_recall, score_spans, split_evidence
from ragbench.retrieval.chunkers import chunk
from ragbench.text import token_offsets, token_ranges
from ragbench.types import Case, Chunk, Dataset, Document, Run, Span

# Twenty one-letter tokens: token i is at character 2 i.
TEXT = " ".join("abcdefghijklmnopqrst")


def dataset_of(*evidence: tuple[Span, ...], **texts: str) -> Dataset:
    corpus = {doc_id: Document(doc_id, text) for doc_id, text in {"d": TEXT, **texts}.items()}
    return Dataset(
        "demo", "test", corpus, [Case(f"q{i}", "?", evidence=e) for i, e in enumerate(evidence)], {}
    )


def cut(
    start: int, end: int, *, i: int | None = None, doc_id: str = "d", text: str = TEXT
) -> Chunk:
    """The tokens start to end of the text above."""
    return Chunk(
        f"{doc_id}#{start if i is None else i}",
        doc_id,
        2 * start,
        2 * end - 1,
        text[2 * start : 2 * end - 1],
    )


def values(frame: pd.DataFrame, query_id: str = "q0") -> dict[str, float]:
    own = frame[frame["query_id"] == query_id]
    return dict(zip(own["measure"], own["value"], strict=True))


FIVES = [cut(i, i + 5) for i in range(0, 20, 5)]  # nine characters, five tokens each


Piece = Chunk | Span


def by_characters(
    read: list[Piece], evidence: Sequence[Span], chunks: list[Chunk]
) -> dict[str, float]:
    """The measures as they are defined, with sets of characters; `read` is what was retrieved."""

    def characters(pieces: Iterable[Piece]) -> Counter[tuple[str, int]]:
        return Counter((piece.doc_id, i) for piece in pieces for i in range(piece.start, piece.end))

    truth, found = set(characters(evidence)), characters(read)
    omega = set(characters(piece for piece in chunks if truth & set(characters([piece]))))
    hit = len(truth & set(found))
    return {
        "recall": hit / len(truth),
        "precision": hit / max(found.total(), 1),
        "iou": hit / (len(truth) + found.total() - hit),
        "precision_omega": len(truth & omega) / max(len(omega), 1),
    }


def test_by_hand() -> None:
    # evidence "e f" = characters 8..11 (3 characters: e, space, f); the space lies between the
    # chunks d#0 and d#5
    dataset = dataset_of((Span("d", 8, 11),))
    frame = score_spans(
        dataset,
        {"q0": {"d#5": 3.0, "d#15": 2.0, "d#0": 1.0}},
        FIVES,
        ks=[1, 2, 3],
        budgets=[1, 5, 14, 15],
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
    frame = score_spans(
        dataset, {"q0": {"d#0": 1.0}, "q1": {"d#0": 1.0}}, FIVES, ks=[1], budgets=[]
    )
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
        dataset,
        run,
        [Chunk("e#0", "e", 0, 3, text)],
        ks=[1],
        budgets=[1, 3, 4, 5, 6],
        tokenizer="wordllama",
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


def test_budgets_over_documents_of_different_texts_and_lengths() -> None:
    # "in May" is 2 tokens at 0 and 3; "1889, Paris" is 3 at 0, 4 and 6; d is cut at its second
    # chunk
    dataset = dataset_of(
        (
            Span("e", 3, 6),
            Span("f", 0, 4),
            Span("d", 10, 15),
        ),  # "May", "1889" and "f g h": 3 + 4 + 5 characters
        e="in May",
        f="1889, Paris",
    )
    chunks = [
        Chunk("f#0", "f", 0, 5, "1889,"),
        Chunk("f#1", "f", 6, 11, "Paris"),
        Chunk("e#0", "e", 0, 6, "in May"),
        *FIVES,
    ]
    run = {"q0": {"f#1": 4.0, "e#0": 3.0, "d#5": 2.0, "f#0": 1.0}}  # 1, 2, 5 and 2 tokens
    scores = values(score_spans(dataset, run, chunks, ks=[2], budgets=[1, 2, 3, 4, 5, 6, 8, 9, 10]))
    recalls = {
        budget: round(scores[f"span_recall@{budget}tok"] * 12)
        for budget in (1, 2, 3, 4, 5, 6, 8, 9, 10)
    }
    assert recalls == {1: 0, 2: 0, 3: 3, 4: 4, 5: 6, 6: 8, 8: 8, 9: 12, 10: 12}
    assert scores["span_precision@2"] == 3 / 11


def test_chunks_of_several_questions_start_their_budget_anew() -> None:
    dataset = dataset_of((Span("d", 10, 19),), (Span("d", 0, 9),), (Span("e", 0, 2),), e="no")
    chunks = [Chunk("e#0", "e", 0, 2, "no"), *FIVES]
    run = {
        "q0": {"d#5": 1.0, "d#0": 2.0},
        "q1": {"d#0": 1.0, "e#0": 2.0},
        "q2": {"d#15": 2.0, "e#0": 1.0},
    }
    frame = score_spans(dataset, run, chunks, ks=[1], budgets=[5, 6, 7])
    recalls = frame[frame["measure"].str.endswith("tok")].pivot(
        index="query_id", columns="measure", values="value"
    )
    by_question = {
        query_id: [*row] for query_id, row in zip(recalls.index, recalls.to_numpy(), strict=True)
    }
    assert by_question["q0"] == [0, pytest.approx(1 / 9), pytest.approx(3 / 9)]
    assert by_question["q1"] == [pytest.approx(7 / 9), 1, 1]
    assert by_question["q2"] == [0, 1, 1]


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
        (
            {"q0": {"d": 1.0}},
            "query 'q0': 'd' is not an id of the 4 chunks given; .* turned into documents",
        ),
        (
            {"other": {"d#0": 1.0}},
            "none of the run's 1 queries .*'other'.* is a question of 'demo'",
        ),
        ({"q0": {"d#0": float("nan")}}, "nan"),
    ],
)
def test_wrong_runs(run: Run, message: str) -> None:
    with pytest.raises(DataError, match=message):
        score_spans(dataset_of((Span("d", 0, 1),)), run, FIVES)


def test_chunks_of_another_dataset() -> None:
    with pytest.raises(DataError, match="'z', which is not in the corpus of 'demo'"):
        score_spans(
            dataset_of((Span("d", 0, 1),)), {"q0": {"z#0": 1.0}}, [Chunk("z#0", "z", 0, 1, "z")]
        )


def piece(start: int, end: int, doc_id: str = "d") -> Chunk:
    return Chunk(f"{doc_id}#{start}-{end}", doc_id, start, end, "x" * (end - start))


# Ten characters each: 0-10, 10-20, 20-30, 30-40.
TILES = [piece(i, i + 10) for i in range(0, 40, 10)]


def scores(
    retrieved: list[Chunk], evidence: list[Span], chunks: list[Chunk] = TILES
) -> tuple[float, ...]:
    """Recall, precision, precision_omega and IoU of one question, of all that was retrieved."""
    run: Run = {"q0": {chunk.chunk_id: -float(rank) for rank, chunk in enumerate(retrieved)}}
    frame = score_spans(dataset_of(tuple(evidence), e=TEXT), run, chunks, ks=[9], budgets=[])
    found = values(frame)
    return tuple(
        found[f"span_{name}"] for name in ("recall@9", "precision@9", "precision_omega", "iou@9")
    )


def test_one_chunk_is_the_evidence() -> None:
    assert scores([TILES[1]], [Span("d", 10, 20)]) == (1, 1, 1, 1)


def test_evidence_over_a_border_half_found() -> None:
    # T = 15..25; found 15..20: recall 5/10, precision 5/10, omega 10/20, iou 5/(10+10-5)
    assert scores([TILES[1]], [Span("d", 15, 25)]) == (0.5, 0.5, 0.5, 5 / 15)


def test_evidence_that_overlaps_itself_counts_once() -> None:
    # T = 12..19, 7 characters
    assert scores([TILES[1]], [Span("d", 12, 17), Span("d", 14, 19), Span("d", 12, 17)]) == (
        1,
        0.7,
        0.7,
        0.7,
    )


def test_overlapping_chunks() -> None:
    chunks = [piece(0, 10), piece(5, 15), piece(10, 20)]
    # T = 8..12, found by 0-10 (8, 9) and 5-15 (all): |R| = 20, hit 4; omega: all three hold some of
    # it, 0..20 once
    assert scores(chunks[:2], [Span("d", 8, 12)], chunks) == (1, 4 / 20, 4 / 20, 4 / 20)


def test_ranges_that_only_touch_do_not_intersect() -> None:
    # evidence 10-20 touches the chunks before and after it: omega needs the middle one only
    assert scores([TILES[0], TILES[2]], [Span("d", 10, 20)]) == (0, 0, 1, 0)


def test_evidence_in_several_documents() -> None:
    chunks = [*TILES, piece(0, 10, "e"), piece(10, 30, "e")]
    evidence = [Span("d", 0, 10), Span("e", 15, 25)]
    # found: e 10-30, hit 10 of 20; |R| = 20; omega: d 0-10 and e 10-30: 20/30
    assert scores([chunks[-1]], evidence, chunks) == (0.5, 0.5, 20 / 30, 10 / 30)


def test_the_same_offsets_in_another_document_are_not_a_hit() -> None:
    chunks = [*TILES, piece(0, 10, "e")]
    assert scores([chunks[-1]], [Span("d", 0, 10)], chunks) == (0, 0, 1, 0)


def test_other_documents_count_in_what_was_retrieved() -> None:
    chunks = [*TILES, piece(0, 30, "e")]
    assert scores([TILES[0], chunks[-1]], [Span("d", 0, 10)], chunks) == (1, 0.25, 1, 0.25)


def test_nothing_retrieved() -> None:
    assert scores([], [Span("d", 0, 10)]) == (0, 0, 1, 0)


def test_no_chunk_holds_the_evidence() -> None:
    assert scores([TILES[0]], [Span("d", 50, 60)]) == (0, 0, 0, 0)
    assert scores([], [Span("d", 50, 60)], []) == (0, 0, 0, 0)


def test_evidence_contained_in_part() -> None:
    assert scores(TILES, [Span("d", 35, 55)]) == (0.25, 5 / 40, 0.5, 5 / (20 + 40 - 5))


@pytest.mark.parametrize("span", [Span("d", 3, 3), Span("d", 5, 2), Span("d", -1, 4)])
def test_invalid_spans_are_refused(span: Span) -> None:
    with pytest.raises(DataError, match="expected 0 <= start < end"):
        scores(TILES, [span])


# Documents of different lengths and texts; "unbelievably" is one token or several, a comma one
# without a blank.
TEXTS = {"d": TEXT, "e": "On 14 May, unbelievably, it rained.", "f": "No."}
PIECES = st.sampled_from([*TEXTS]).flatmap(
    lambda doc_id: st.tuples(
        st.just(doc_id), st.integers(0, len(TEXTS[doc_id]) - 1), st.integers(1, len(TEXTS[doc_id]))
    ).map(lambda r: (r[0], min(r[1], r[2] - 1), max(r[1] + 1, r[2])))
)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    evidence=st.lists(st.lists(PIECES, max_size=3), min_size=1, max_size=3),
    pieces=st.lists(PIECES, max_size=8),
    ranked=st.lists(
        st.lists(st.tuples(st.integers(0, 7), st.sampled_from([1.0, 2.0, 3.0])), max_size=8),
        max_size=3,
    ),
)
def test_equal_to_the_slow_way(
    evidence: list[list[tuple[str, int, int]]],
    pieces: list[tuple[str, int, int]],
    ranked: list[list[tuple[int, float]]],
) -> None:
    dataset = dataset_of(*[tuple(Span(*span) for span in spans) for spans in evidence], **TEXTS)
    chunks = [
        Chunk(f"{d}#{i}", d, start, end, TEXTS[d][start:end])
        for i, (d, start, end) in enumerate(pieces)
    ]
    run = {
        f"q{i}": {chunks[j].chunk_id: score for j, score in scored if j < len(chunks)}
        for i, scored in enumerate(ranked[: len(evidence)])
    }
    frame = score_spans(dataset, run, chunks, ks=[1, 3], budgets=[2, 7, 11])
    offsets = dict(zip(TEXTS, token_offsets([*TEXTS.values()]), strict=True))
    for case in dataset.cases:
        if not case.evidence:
            assert case.query_id not in set(frame["query_id"])
            continue
        scored = run.get(case.query_id, {})
        order = sorted(
            (c for c in chunks if c.chunk_id in scored), key=lambda c: -scored[c.chunk_id]
        )
        expected: dict[str, float] = {}
        for k in (1, 3):
            single = by_characters([*order[:k]], case.evidence, chunks)
            expected |= {
                f"span_{name}@{k}": single[name] for name in ("recall", "precision", "iou")
            }
            expected["span_precision_omega"] = single["precision_omega"]
        for budget in (2, 7, 11):
            left, read = budget, list[Piece]()
            for piece in order:
                tokens = offsets[piece.doc_id]
                first, last = (int(x) for x in token_ranges(tokens, piece.start, piece.end))
                end = piece.end if last - first <= left else int(tokens[first + left - 1, 1])
                if left > 0 and end > piece.start:
                    read.append(Span(piece.doc_id, piece.start, end))
                left = max(0, left - (last - first))
            expected[f"span_recall@{budget}tok"] = by_characters(read, case.evidence, chunks)[
                "recall"
            ]
        curve = [0.0, *(expected[f"span_recall@{budget}tok"] for budget in (2, 7, 11))]
        expected["span_recall_auc"] = float(np.trapezoid(curve, [0, 2, 7, 11])) / 11
        assert values(frame, case.query_id) == pytest.approx(expected)
        assert evidence_recall([*order[:3]], case.evidence) == expected["span_recall@3"]


def test_split_evidence() -> None:
    dataset = dataset_of(
        (Span("d", 0, 3),),  # whole in d#0
        (Span("d", 8, 11),),  # "e f": cut between d#0 and d#5, only white space lost
        (Span("d", 28, 33),),  # "o p q": o in d#10, p and q in no chunk
        (Span("d", 34, 39), Span("d", 0, 1)),  # "r s t" lost, "a" kept
        (),
    )
    assert split_evidence(dataset, FIVES[:3]).to_dict("records") == [
        {"query_id": "q1", "spans": 1, "split": 1},
        {"query_id": "q2", "spans": 1, "split": 1},
        {"query_id": "q3", "spans": 2, "split": 1},
    ]


def test_split_evidence_in_documents_of_different_texts() -> None:
    texts = {"e": "one two three", "f": "four  five,\tsix seven"}
    dataset = dataset_of(
        (Span("e", 0, 7),),  # "one two", which ends where e#0 does
        (Span("e", 4, 13),),  # "two three": whole in no chunk, all of it in two
        (Span("f", 0, 12),),  # "four  five,": "five," is in no chunk
        (
            Span("f", 6, 21),
            Span("d", 0, 9),
        ),  # "five,\tsix seven" lost but for its last 5 characters; d#0 holds the rest
        (Span("f", 16, 21),),  # "seven", as f#1 has it
        **texts,
    )
    chunks = [
        FIVES[0],
        *(
            Chunk(f"{doc_id}#{i}", doc_id, start, end, texts[doc_id][start:end])
            for i, (doc_id, start, end) in enumerate(
                [("e", 0, 7), ("e", 7, 13), ("f", 0, 4), ("f", 16, 21)]
            )
        ),
    ]
    assert split_evidence(dataset, chunks).to_dict("records") == [
        {"query_id": "q1", "spans": 1, "split": 1},
        {"query_id": "q2", "spans": 1, "split": 1},
        {"query_id": "q3", "spans": 2, "split": 1},
    ]


def test_no_evidence_is_split() -> None:
    frame = split_evidence(
        dataset_of((Span("d", 0, 4),)), FIVES
    )  # the white space at its end does not count
    assert list(frame.columns) == ["query_id", "spans", "split"]
    assert len(frame) == 0
    assert len(split_evidence(dataset_of(), FIVES)) == 0


def test_all_evidence_is_split() -> None:
    frame = split_evidence(dataset_of((Span("d", 0, 4),)), [])
    assert frame.to_dict("records") == [{"query_id": "q0", "spans": 1, "split": 1}]


def test_evidence_outside_the_corpus() -> None:
    with pytest.raises(
        DataError, match="query 'q0' has evidence in document 'z', which is not in the corpus"
    ):
        split_evidence(dataset_of((Span("z", 0, 4),)), FIVES)


def test_our_chunkers_lose_no_evidence() -> None:
    dataset = dataset_of(*[(Span("d", i, i + 6),) for i in range(0, 32, 3)])
    for name in ("fixed", "recursive", "sentence", "markdown"):
        pieces = chunk(dataset, name, chunk_size=3)
        inside = [i for piece in pieces for i in range(piece.start, piece.end)]
        text = dataset.corpus["d"].full_text
        assert all(text[i].isspace() for i in {*range(len(text))} - {*inside})


def test_many_questions_take_no_time() -> None:
    text = "word " * 100_000
    cases = [Case(f"q{i}", "?", evidence=(Span("d", 900 * i, 900 * i + 400),)) for i in range(472)]
    dataset = Dataset("big", "test", {"d": Document("d", text)}, cases, {})
    chunks = chunk(dataset, "fixed", chunk_size=100)
    run = {
        f"q{i}": {chunks[(i * 7 + j) % len(chunks)].chunk_id: -float(j) for j in range(50)}
        for i in range(472)
    }
    score_spans(dataset, {}, chunks)
    start = time.process_time()
    score_spans(dataset, run, chunks)
    assert time.process_time() - start < 1


def test_chunks_that_share_half_of_the_shorter_are_relevant_by_hand() -> None:
    case = Case("q", "?", evidence=(Span("d", 10, 20), Span("gone", 0, 5)))
    borders = {
        "touches": (0, 10),
        "half": (5, 15),
        "less": (16, 30),
        "empty": (12, 12),
        "around": (0, 40),
        "inside": (13, 15),
    }
    chunks = [Chunk(name, "d", a, b, "x" * (b - a)) for name, (a, b) in borders.items()]
    relevant = evidence_chunks(Dataset("demo", "test", {}, [case], {}), chunks, 0.5)
    missing = "evidence 1 that no chunk holds"
    assert relevant == {"q": {"half": 1, "around": 1, "inside": 1, missing: 1}}


def test_a_span_of_one_character_makes_its_chunk_relevant() -> None:
    dataset = dataset_of((Span("d", 12, 13),))
    assert evidence_chunks(dataset, TILES, 0.5) == {"q0": {TILES[1].chunk_id: 1}}
