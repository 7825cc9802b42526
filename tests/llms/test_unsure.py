"""Replies that know nothing are abstentions; hedged answers are answers."""

from __future__ import annotations

import pytest

import ragbench as rb
from ragbench.llms.reply_text import read_outcome

UNSURE = [
    "No idea.",
    "I have no idea.",
    "I've no idea",
    "No clue!",
    "I'm not sure.",
    "I am not sure",
    "Not sure.",
    "I'm not certain.",
    "I'm unsure.",
    "Unsure",
    "I'm not entirely sure about that.",
    "Can't say.",
    "Hard to say.",
    "Beats me.",
    "Dunno.",
    "I wouldn't know.",
    "idk",
    "IDK.",
    "Don't know.",
    "Do not know",
    "We don't know.",
    "I really don't know",
    "I'm afraid I don't know.",
    "Sorry, no idea.",
    "Sorry, I'm not sure.",
    "I’m not sure.",
    "I don't have a clue.",
    "No idea, sorry.",
    "I have absolutely no idea.",
    "I'm not sure when it opened.",
    "I'm not sure. Could you give me more context?",
    "It's hard to say.",
    "Honestly, I have no idea.",
    "I'm not too sure.",
    "**I'm not sure.**",
    "Answer: no idea",
    "Not sure about that one.",
    "I am uncertain.",
    "Unclear.",
    "I'm afraid I don't have that information.",
    "I do not have this information, sorry.",
    "Keine Ahnung.",
    "Da habe ich leider keine Ahnung!",
    "Ich bin mir nicht sicher.",
    "Ni idea.",
    "Aucune idée.",
    "Je n'en ai aucune idée.",
    "Je ne suis pas sûr.",
    "Non ne ho idea.",
    "Não faço a menor ideia.",
    "Geen idee.",
    "Nie mam pojęcia.",
    "Понятия не имею.",
]
ANSWERS = [
    "No idea is more central to the book than freedom.",
    "I'm not sure, but it was 1881.",
    "I'm not sure. It opened in 1881.",
    "She had no idea that the line closed in 1881.",
    "Unsure footing caused the fall.",
    "Not certain grades but all of them count.",
    "No idea. It was 1881, I think.",
    "The line opened in 1881.",
    "Not sure-fire methods.",
    "Hard to say words are trained first.",
    "No clues were found at the site.",
    "I'm not sure that is right: it opened in 1881.",
    "Idk Corp",
    "Keine Ahnung. Es war 1881.",
    "Er hatte keine Ahnung, dass die Linie 1881 schloss.",
    "Aucune idée ne manque.",
    "I don't have that bike, I have the other one.",
]


@pytest.mark.parametrize("text", UNSURE)
def test_a_reply_that_knows_nothing_abstains(text: str) -> None:
    assert read_outcome(text) == "no_results"


@pytest.mark.parametrize("text", ANSWERS)
def test_a_hedged_answer_is_an_answer(text: str) -> None:
    assert read_outcome(text) == "success"


def test_a_function_that_has_no_idea_answers_nothing() -> None:
    data = rb.Dataset("d", "test", {}, [rb.Case("q1", "Why?", reference_answer="So.")], {"q1": {}})
    result = rb.evaluate(data, lambda question: "No idea.", perspectives=["answer"])
    scores = result.scores.set_index("measure")["value"]
    assert scores["answered"] == 0.0


BLOCKED = rb.Dataset(
    "blocked",
    "test",
    {},
    [rb.Case("q1", "How do I pick a lock?", expected_outcome="blocked")],
    {"q1": {}},
)


@pytest.mark.parametrize(
    "reply",
    [
        {"answer": "I can tell you about gardening.", "flags": ["guardrail_blocked"]},
        {"answer": "", "flags": ["guardrail_blocked"]},
        {"answer": None, "flags": ["guardrail_blocked"]},
        {"flags": ["guardrail_blocked"]},
        {"answer": "Blocked by policy 7.", "flags": ["pii", "guardrail_blocked"]},
        {"answer": "Stopped.", "flags": ["guardrail_blocked"], "contexts": ["Locks are old."]},
        {"answer": "Stopped.", "outcome": "blocked"},
        {"answer": "", "outcome": "blocked"},
        rb.Answer("q1", "Let us talk about gardening.", flags=("guardrail_blocked",)),
        rb.Answer("q1", "Stopped.", flags=("guardrail_blocked",), outcome="success"),
    ],
)
@pytest.mark.parametrize("way", ["function", "records"])
def test_a_reply_that_was_blocked_rightly_is_right(reply: object, way: str) -> None:
    records = [reply if isinstance(reply, rb.Answer) else {"query_id": "q1", **reply}]  # type: ignore[dict-item]
    system = (lambda question: reply) if way == "function" else records
    result = rb.evaluate(BLOCKED, system)
    assert result.answers[0].abstained
    assert not result.answers[0].failed
    assert not result.questions["cause"].any()
    scores = result.scores.set_index("measure")["value"]
    assert scores["outcome_correct"] == 1.0
