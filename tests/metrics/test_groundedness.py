"""Groundedness of answers as tidy scores, and the table of claims."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from ragbench.array_types import FloatArray
from ragbench.errors import DataError
from ragbench.metrics.groundedness import evidence
from ragbench.metrics.groundedness.checks import (
    GROUNDEDNESS_MEASURES,
    check_groundedness,
    score_groundedness,
)
from ragbench.retrieval.minilm import token_states
from ragbench.store import bypassed
from ragbench.types import Answer, Case, Chunk, Dataset, Passage

OPENED = "The tower was opened on 31 March 1889 in Paris."
HEIGHT = "The tower is 330 metres tall and made of iron."
CHUNKS = [
    Chunk("t#0", "t", 0, len(OPENED), OPENED),
    Chunk("t#1", "t", 50, 50 + len(HEIGHT), HEIGHT),
]


def scored(answer: Answer, **labels: tuple[str, ...]) -> dict[str, float]:
    case = Case("q", "?", **labels)  # type: ignore[arg-type]
    scores = score_groundedness(Dataset("d", "test", {}, [case], {}), [answer], CHUNKS)
    assert scores["measure"].tolist() == list(GROUNDEDNESS_MEASURES)
    return dict(zip(scores["measure"], scores["value"], strict=True))


def test_a_faithful_answer_that_cites() -> None:
    text = "The tower was opened in 1889 [1]. The tower is 330 metres tall [2]."
    values = scored(Answer("q", text, contexts=("t#0", "t#1"), citations=("t#0", "t#1")))
    assert values["claim_support"] > 0.8
    for measure in ("numeric_support", "citation_form", "citation_content", "citation_accuracy"):
        assert values[measure] == 1.0
    assert values["citation_coverage"] == 1.0
    assert math.isnan(values["expected_claims"])


def test_citations_that_are_wrong_in_form_and_in_content() -> None:
    text = (
        "The tower was opened in 1889 in Paris [2]. The tower is 330 metres tall [7]. It is "
        "made of iron."
    )
    values = scored(Answer("q", text, contexts=("t#0", "t#1"), citations=("t#1", "invalid:7")))
    assert values["citation_form"] == 0.5
    assert values["citation_accuracy"] == 0.0
    assert values["citation_coverage"] == pytest.approx(2 / 3)


def test_separate_citations_apply_to_every_claim() -> None:
    answer = Answer(
        "q",
        "The tower is 330 metres tall. It is made of iron.",
        contexts=("t#1",),
        citations=("t#1",),
    )
    values = scored(answer)
    assert values["citation_coverage"] == 1.0
    assert values["citation_form"] == 1.0


def test_no_citations_are_unscored_but_not_covered() -> None:
    values = scored(Answer("q", "The tower is 330 metres tall.", contexts=("t#1",)))
    assert values["citation_coverage"] == 0.0
    for measure in ("citation_form", "citation_content", "citation_accuracy"):
        assert math.isnan(values[measure])


def test_expected_and_forbidden_claims() -> None:
    values = scored(
        Answer(
            "q", "The tower was opened in 1889. The tower is not safe in storms.", contexts=("t#0",)
        ),
        expected_claims=("The tower was opened in 1889", "It is made of steel from Austria"),
        forbidden_claims=("The tower is safe in storms", "The tower is not safe in storms"),
    )
    assert values["expected_claims"] == 0.5
    assert values["forbidden_claims_absent"] == 0.5


def test_expected_citations_by_chunk_or_document() -> None:
    answer = Answer("q", "Opened in 1889 [1].", contexts=("t#0",), citations=("t#0",))
    assert scored(answer, expected_citations=("t#0", "t", "t#1"))[
        "expected_citations"
    ] == pytest.approx(2 / 3)


def test_expected_citations_of_a_system_with_passages_of_its_own() -> None:
    answer = Answer(
        "q",
        "Opened [1].",
        contexts=("p",),
        citations=("p",),
        passages=(Passage("p", OPENED, "doc"),),
    )
    assert scored(answer, expected_citations=("doc",))["expected_citations"] == 1.0


def test_an_answer_without_contexts_is_not_supported() -> None:
    values = scored(Answer("q", "The tower is 330 metres tall."))
    assert (values["claim_support"], values["numeric_support"]) == (0.0, 0.0)


@pytest.mark.parametrize(
    "answer",
    [
        Answer("q", "Not found.", outcome="no_results"),
        Answer("q", "", outcome="failed", error="timed out"),
        Answer("q", "", contexts=("t#0",)),
        Answer("q", "Which tower?", contexts=("t#0",)),
    ],
)
def test_an_answer_without_claims_is_unscored(answer: Answer) -> None:
    assert all(math.isnan(value) for value in scored(answer).values())


def test_every_case_has_a_row_for_each_measure() -> None:
    dataset = Dataset(
        "d", "test", {}, [Case("a", "?"), Case("b", "?", expected_outcome="no_results")], {}
    )
    scores = score_groundedness(dataset, [])
    assert scores["query_id"].tolist() == ["a", "b"] * len(GROUNDEDNESS_MEASURES)
    assert scores["value"].isna().all()


def test_a_context_without_its_text_is_refused() -> None:
    dataset = Dataset("d", "test", {}, [Case("q", "?")], {})
    with pytest.raises(DataError, match="Pass the chunks"):
        score_groundedness(dataset, [Answer("q", "x", contexts=("t#0",))])


def test_the_table_lists_every_claim() -> None:
    dataset = Dataset("d", "test", {}, [Case("q", "?")], {})
    text = "The tower was opened in 1889 [1]. It has 12 doors. Please come!"
    _, table = check_groundedness(dataset, [Answer("q", text, contexts=("t#0",))], CHUNKS)
    assert table.to_dict("list") == {
        "query_id": ["q", "q"],
        "claim": ["The tower was opened in 1889 [1].", "It has 12 doors."],
        "supported": [True, False],
        "fabricated_numbers": [(), ("12",)],
    }


def test_vectors_of_an_answer_are_computed_once_however_many_answers_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed: list[int] = []

    def counted(texts: Sequence[Sequence[int]]) -> list[FloatArray]:
        computed.append(len(texts))
        return token_states(texts)

    monkeypatch.setattr(evidence, "token_states", counted)
    monkeypatch.setattr(evidence, "_MAX_RECENT", 40)  # texts in memory: those of 20 answers
    monkeypatch.setattr(evidence, "_recent", {})
    names = [f"Mill {number}" for number in range(60)]
    answers = [
        Answer(name, f"{name} had a wheel.", passages=(Passage("p", f"A wheel turned in {name}."),))
        for name in names
    ]
    cases = [Case(name, "?", expected_claims=("A wheel turned.",)) for name in names]
    with bypassed():
        score_groundedness(Dataset("d", "test", {}, cases, {}), answers)
    # two sentences of each answer, and the expected claim
    assert sum(computed) <= 2 * len(names) + len(computed)


def test_the_table_of_nothing_has_its_columns() -> None:
    assert check_groundedness(Dataset("d", "test", {}, [], {}), [])[1].shape == (0, 4)
