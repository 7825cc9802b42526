"""Verdicts: strict, lenient, not at all; and what an answer states."""

from __future__ import annotations

import pytest

from ragbench.metrics.groundedness import checks
from ragbench.metrics.groundedness.checks import check_groundedness
from ragbench.types import Answer, Case, Dataset, Passage

TOWER = [
    "The tower was opened on 31 March 1889 in Paris. It is 330 metres tall. In storms the tower "
    "is not safe."
]


Verdict = tuple[str, bool, tuple[str, ...]]


def check_answers(answers: list[str]) -> list[list[Verdict]]:
    """The claims of each answer next to TOWER, with what supports them and their invented numbers."""
    names = [f"q{i}" for i in range(len(answers))]
    passages = tuple(Passage(f"p{i}", text) for i, text in enumerate(TOWER))
    replies = [Answer(*pair, passages=passages) for pair in zip(names, answers, strict=True)]
    dataset = Dataset("demo", "test", {}, [Case(name, "?") for name in names], {})
    _, table = check_groundedness(dataset, replies)
    rows = list(table.itertuples(index=False, name=None))
    return [[row[1:] for row in rows if row[0] == name] for name in names]


def states(answer: str, *claims: str) -> list[bool]:
    """Whether an answer states each claim, as an expected one and as a forbidden one."""
    stated = []
    for claim in claims:
        case = Case("q", "?", expected_claims=(claim,), forbidden_claims=(claim,))
        frame, _ = check_groundedness(
            Dataset("demo", "test", {}, [case], {}), [Answer("q", answer)]
        )
        values = frame.set_index("measure")["value"]
        assert values["expected_claims"] == 1 - values["forbidden_claims_absent"]
        stated.append(bool(values["expected_claims"]))
    return stated


def test_each_claim_has_its_verdict() -> None:
    [verdicts] = check_answers(
        ["The tower was opened in 1889. Picasso painted it green. Please book early!"]
    )
    assert verdicts == [
        ("The tower was opened in 1889.", True, ()),
        ("Picasso painted it green.", False, ()),
    ]


def test_a_fabricated_number_fails_an_assertion_however_similar_it_is() -> None:
    claim = "The tower is 335 metres tall."
    assert check_answers([claim]) == [[(claim, False, ("335 metres",))]]


def test_many_answers_at_once_are_the_same() -> None:
    answers = ["The tower is 330 metres tall.", "Well.", "It is in Rome. It is 330 metres tall."]
    together = check_answers(answers)
    assert together == [check_answers([answer])[0] for answer in answers]
    assert [len(verdicts) for verdicts in together] == [1, 0, 2]


@pytest.mark.parametrize(
    ("claim", "stated"),
    [
        ("The tower is 330 metres tall.", True),
        ("the tower was opened in 1889", True),
        ("The tower is 331 metres tall.", False),
        ("In storms the tower is safe.", False),
        ("In storms the tower is not safe.", True),
        ("The Danube flows into the Black Sea.", False),
        ("", False),
    ],
)
def test_what_an_answer_states(claim: str, stated: bool) -> None:
    assert states(TOWER[0], claim) == [stated]


def test_negation_in_the_answer_is_respected_too() -> None:
    assert states("The bridge is not safe.", "The bridge is safe.") == [False]
    assert states("The bridge is safe.", "The bridge is safe.") == [True]
    claims = "The bridge is safe.", "The bridge is not safe."
    assert states("The bridge isn't safe.", *claims) == [False, True]


@pytest.mark.parametrize(
    ("support", "assertion", "inference"),
    [(0.5, True, True), (0.49, False, True), (0.3, False, True), (0.29, False, False)],
)
def test_an_inference_needs_less_support(
    monkeypatch: pytest.MonkeyPatch, support: float, assertion: bool, inference: bool
) -> None:
    monkeypatch.setattr(checks, "claim_supports", lambda pairs, model: [support] * len(pairs))
    [verdicts] = check_answers(["The tower is blue. The tower may be blue. It might be 99 m high."])
    assert [supported for _, supported, _ in verdicts] == [assertion, inference, False]
