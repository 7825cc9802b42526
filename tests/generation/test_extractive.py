"""The extractive baseline: it repeats, cites and abstains, and never makes anything up."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ragbench.errors import ConfigError, DataError
from ragbench.generation import context_chunks, generate_answers
from ragbench.generation.extractive import ABSTAIN_BELOW, _bm25_fractions
from ragbench.llms.reply_text import NO_ANSWER
from ragbench.types import Case, Chunk, Dataset, Document, Run

if TYPE_CHECKING:
    from ragbench.types import FloatArray

TEXTS = {
    "tea": "Tea is grown on hills. The best tea of Assam is picked in June. Leaves are dried for "
    "a day.",
    "rail": "The railway opened in 1881. It climbs two thousand metres. Toy trains still run on "
    "it.",
    "empty": "",
}
CORPUS = {name: Document(name, text) for name, text in TEXTS.items()}
CHUNKS = [Chunk(f"{name}#0", name, 0, len(text), text) for name, text in TEXTS.items() if text]


def dataset(*questions: str) -> Dataset:
    cases = tuple(Case(f"q{i}", text) for i, text in enumerate(questions))
    return Dataset("tiny", "test", CORPUS, cases, {})


def test_answers_with_the_sentence_that_supports_the_question_and_cites_its_chunk() -> None:
    run = {"q0": {"rail#0": 2.0, "tea#0": 1.0}}
    answer = generate_answers(dataset("When is the tea of Assam picked?"), run, CHUNKS)[0]
    assert "picked in June. [2]" in answer.text
    assert (
        answer.citations[0] == "tea#0"
        if len(answer.citations) == 1
        else "tea#0" in answer.citations
    )
    assert answer.contexts == ("rail#0", "tea#0")
    assert answer.outcome == "success"
    assert answer.confidence is not None
    assert ABSTAIN_BELOW <= answer.confidence <= 1


def test_every_sentence_of_an_answer_is_in_the_cited_context() -> None:
    run = {"q0": {"tea#0": 2.0, "rail#0": 1.0}}
    answer = generate_answers(
        dataset("Which railway opened in 1881 and how high does it climb?"), run, CHUNKS
    )[0]
    cited = re.findall(r"(.+?) \[(\d+)\](?: |$)", answer.text)
    assert cited
    for sentence, number in cited:
        chunk_id = answer.contexts[int(number) - 1]
        assert sentence in TEXTS[chunk_id.split("#")[0]]


def test_sentences_keep_the_order_of_the_document() -> None:
    answer = generate_answers(
        dataset("railway climbs two thousand metres opened 1881"), {"q0": {"rail#0": 1.0}}, CHUNKS
    )[0]
    places = [
        TEXTS["rail"].index(sentence)
        for sentence, _ in re.findall(r"(.+?) \[(\d+)\](?: |$)", answer.text)
    ]
    assert places == sorted(places)
    assert len(places) >= 2


@pytest.mark.parametrize(
    ("question", "run"),
    [
        ("What is the boiling point of tungsten?", {"q0": {"tea#0": 1.0, "rail#0": 0.5}}),
        ("When is tea picked?", {"q0": {}}),
        ("When is tea picked?", {}),
        ("", {"q0": {"tea#0": 1.0}}),
        ("???", {"q0": {"tea#0": 1.0}}),
    ],
    ids=["nothing close", "nothing retrieved", "not in the run", "empty question", "no word"],
)
def test_abstains_when_nothing_is_close_enough(question: str, run: Run) -> None:
    answer = generate_answers(dataset(question), run, CHUNKS)[0]
    assert answer.text == NO_ANSWER == "no answer found in the documents"
    assert answer.outcome == "no_results"
    assert answer.citations == ()
    assert answer.error is None


def test_one_answer_per_case_in_their_order() -> None:
    answers = generate_answers(
        dataset("When is tea picked?", "", "When did the railway open?"), {}, CHUNKS
    )
    assert [answer.query_id for answer in answers] == ["q0", "q1", "q2"]
    assert generate_answers(dataset(), {}, CHUNKS) == []


def test_k_bounds_the_contexts_and_equal_scores_keep_the_order_of_the_chunks() -> None:
    run = {"q0": {"rail#0": 1.0, "tea#0": 1.0}}
    best = context_chunks(dataset("?"), run, CHUNKS, 1)
    assert [chunk.chunk_id for chunk in best["q0"]] == ["tea#0"]


def test_a_shared_sentence_appears_once_and_cites_the_better_chunk() -> None:
    text = "The best tea of Assam is picked in June."
    twice = [Chunk("tea#0", "tea", 0, len(text), text), Chunk("tea#1", "tea", 0, len(text), text)]
    answer = generate_answers(
        dataset("When is the tea of Assam picked?"), {"q0": {"tea#1": 2.0, "tea#0": 1.0}}, twice
    )[0]
    assert answer.text == f"{text} [1]"
    assert answer.citations == ("tea#1",)


def test_repeats_to_the_letter() -> None:
    run = {"q0": {"rail#0": 2.0, "tea#0": 1.0}}
    questions = dataset("When is the tea of Assam picked?")
    assert generate_answers(questions, run, CHUNKS) == generate_answers(questions, run, CHUNKS)


def test_takes_an_embedder_of_ones_own() -> None:
    class Same:
        name = "same"

        def encode(self, texts: Sequence[str]) -> FloatArray:
            return np.tile(np.array([1.0, 0.0], dtype=np.float32), (len(texts), 1))

    answer = generate_answers(dataset("zzz"), {"q0": {"tea#0": 1.0}}, CHUNKS, embedder=Same())[0]
    assert answer.confidence == pytest.approx(0.5), "cosine 1, no shared word: the mean of 1 and 0"


@pytest.mark.parametrize(
    ("options", "message"),
    [({"llm": "extractve"}, "did you mean 'extractive'"), ({"k": 0}, "k is 0; expected")],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        generate_answers(dataset("?"), {}, CHUNKS, **options)  # type: ignore[arg-type]


def test_a_run_of_documents_is_refused_with_the_way_out() -> None:
    with pytest.raises(
        DataError, match=r"'tea' is not an id of the 2 chunks given; .*Pass the chunk-level run"
    ):
        generate_answers(dataset("?"), {"q0": {"tea": 1.0}}, CHUNKS)


def test_distinguishes_own_and_other_passages_of_real_questions(shared_data: Path) -> None:
    passages = [
        json.loads(line)
        for line in (shared_data / "squad/corpus.jsonl").read_text("utf-8").split("\n")
        if line
    ][:60]
    corpus = {row["_id"]: Document(row["_id"], row["text"]) for row in passages}
    chunks = [Chunk(f"{d}#0", d, 0, len(doc.text), doc.text) for d, doc in corpus.items()]
    judged = [
        line.split("\t")
        for line in (shared_data / "squad/qrels/test.tsv").read_text().splitlines()[1:]
    ]
    own = {query_id: doc_id for query_id, doc_id, _ in judged if doc_id in corpus}
    asked = [
        json.loads(line)
        for line in (shared_data / "squad/queries.jsonl").read_text("utf-8").split("\n")
        if line
    ]
    cases = tuple(Case(row["_id"], row["text"]) for row in asked if row["_id"] in own)
    data = Dataset("squad", "test", corpus, cases, {})
    order = list(corpus)
    other = {
        case.query_id: order[(order.index(own[case.query_id]) + 30) % len(order)] for case in cases
    }
    shown = {"own": own, "other": other}
    answered = {
        name: np.mean(
            [
                answer.outcome == "success"
                for answer in generate_answers(
                    data, {q: {f"{d}#0": 1.0} for q, d in docs.items()}, chunks
                )
            ]
        )
        for name, docs in shown.items()
    }
    assert answered["own"] > 0.85
    assert answered["other"] < 0.10


def test_confidence_is_how_well_the_best_context_fits_by_hand() -> None:
    class Axes:
        """Rail on one axis, tea on the other."""

        name = "axes"

        def encode(self, texts: Sequence[str]) -> FloatArray:
            rows = [[float("rail" in text.lower()), float("tea" in text.lower())] for text in texts]
            return np.array(rows, dtype=np.float32)

    question = dataset("When is the tea of Nepal picked?")
    answer = generate_answers(
        question, {"q0": {"rail#0": 2.0, "tea#0": 1.0}}, CHUNKS, embedder=Axes()
    )[0]
    # tea#0: cosine 1, and of "when", "tea", "nepal", "pick" it holds two; rail#0 has neither
    assert answer.confidence == pytest.approx((1 + 2 / 4) / 2, abs=1e-6)
    alone = generate_answers(question, {"q0": {"rail#0": 2.0}}, CHUNKS, embedder=Axes())[0]
    assert alone.confidence == 0.0
    assert generate_answers(question, {}, CHUNKS)[0].confidence == 0.0


def test_no_question_changes_the_answer_to_another() -> None:
    run = {
        "q0": {"tea#0": 2.0, "rail#0": 1.0},
        "q1": {"rail#0": 1.0},
        "q2": {"rail#0": 2.0, "tea#0": 1.0},
    }
    questions = dataset(
        "When is the tea of Assam picked?",
        "When did the railway open?",
        "How are tea leaves dried?",
    )
    together = generate_answers(questions, run, CHUNKS)
    for case, answer in zip(questions.cases, together, strict=True):
        assert generate_answers(questions.select([case.query_id]), run, CHUNKS) == [answer]


def test_the_support_of_a_sentence_by_hand() -> None:
    sentences = [Counter({"tea": 2, "leaf": 1, "dry": 1}), Counter({"rail": 2})]
    # lengths 4 and 2, mean 3: 1.5 (0.25 + 0.75 * 4 / 3) = 1.875; of "tea" and "pick" the first
    # holds 2 and 0
    assert _bm25_fractions(frozenset({"tea", "pick"}), sentences) == pytest.approx(
        [2 / (2 + 1.875) / 2, 0.0]
    )
    assert _bm25_fractions(frozenset(), sentences).tolist() == [0.0, 0.0]
    assert _bm25_fractions(frozenset({"tea"}), []).tolist() == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "# Vacation policy\n\nStaff get 25 days of vacation each year.",
            "Staff get 25 days of vacation each year.",
        ),
        (
            "# Vacation policy\nStaff get 25 days of vacation each year.",
            "Staff get 25 days of vacation each year.",
        ),
        ("Our vacation policy\n===================\nStaff get 25 days.", "Staff get 25 days."),
        ("Vacation days of staff\n\nStaff get 25 days.", "Staff get 25 days."),
        (
            "Staff get 25 days.\n\n## How many vacation days do staff get?\n\nSee above.",
            "Staff get 25 days.",
        ),
    ],
    ids=["Markdown", "no blank line", "underlined", "title of the document", "in the middle"],
)
def test_a_heading_is_not_an_answer(text: str, sentence: str) -> None:
    corpus = {"policy": Document("policy", text)}
    data = Dataset(
        "tiny", "test", corpus, (Case("q0", "How many vacation days do staff get?"),), {}
    )
    chunks = [Chunk("policy#0", "policy", 0, len(text), text)]
    answer = generate_answers(data, {"q0": {"policy#0": 1.0}}, chunks)[0]
    assert answer.text == f"{sentence} [1]"
