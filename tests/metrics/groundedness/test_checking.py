"""Verdicts: strict, lenient, not at all; and what an answer states."""

from __future__ import annotations

import pytest

from ragbench.metrics.groundedness import Verdict, check_answers, claims_stated

TOWER = [
    "The tower was opened on 31 March 1889 in Paris. It is 330 metres tall. In storms the tower "
    "is not safe."
]


def check_claims(answer: str, contexts: list[str]) -> list[Verdict]:
    return check_answers([(answer, contexts)])[0]


def states(answer: str, claim: str) -> bool:
    return claims_stated([(answer, [claim])])[0][0]


def test_each_claim_has_its_verdict() -> None:
    verdicts = check_claims(
        "The tower was opened in 1889. Picasso painted it green. Please book early!", TOWER
    )
    assert [verdict.supported for verdict in verdicts] == [True, False]
    assert [verdict.claim for verdict in verdicts if not verdict.supported] == [
        "Picasso painted it green."
    ]


def test_a_fabricated_number_fails_an_assertion_however_similar_it_is() -> None:
    (verdict,) = check_claims("The tower is 335 metres tall.", TOWER)
    assert verdict.supported is False
    assert verdict.fabricated == ("335 metres",)


def test_many_answers_at_once_are_the_same() -> None:
    answers = ["The tower is 330 metres tall.", "", "It is in Rome."]
    assert check_answers([(answer, TOWER) for answer in answers]) == [
        check_claims(answer, TOWER) for answer in answers
    ]


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
    assert states(TOWER[0], claim) is stated


def test_negation_in_the_answer_is_respected_too() -> None:
    assert not states("The bridge is not safe.", "The bridge is safe.")
    assert states("The bridge is safe.", "The bridge is safe.")
    assert claims_stated(
        [("The bridge isn't safe.", ["The bridge is safe.", "The bridge is not safe."])]
    ) == [[False, True]]
