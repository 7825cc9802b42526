"""Abstentions and refusals are distinguished from answers by wording; answers that look like them
stay answers.
"""

from __future__ import annotations

import pytest

from ragbench.generation.generator_prompts import CITED, CONCISE, PLAIN
from ragbench.llms.reply_text import NO_ANSWER, read_outcome, without_thoughts
from ragbench.systems.answer_parser import read_answer

ABSTENTIONS = [
    "",
    "  \n ",
    "[1]",
    NO_ANSWER,
    "No answer found in the documents.",
    "**No answer found in the documents**",
    "Answer: no answer found in the documents",
    "Unfortunately, no answer found in the documents.",
    "NO_ANSWER",
    "`NO_ANSWER`",
    "no_answer.",
    "The documents do not contain the answer.",
    "The documents don't mention the population of Paris.",
    "The provided context does not contain any information about the year of construction.",
    "The given documents do not provide enough information to answer the question.",
    "The documents [1] [2] do not say who wrote it.",
    "The documents provided do not specify the price.",
    "These passages don’t state when it was built.",
    "Based on the provided documents, there is no information about the director.",
    "Based on the documents, I cannot determine the answer.",
    "According to the given context, the answer is not mentioned in the documents.",
    "None of the documents mention the boiling point of tungsten.",
    "None of the provided passages contains the answer.",
    "I don't know.",
    "I do not know the answer to this question.",
    "I'm sorry, but I couldn't find the answer in the documents.",
    "I'm sorry, I don't have enough information to answer that.",
    "Sorry, the context does not answer this.",
    "I cannot answer this question based on the documents provided.",
    "I am unable to answer this question from the given information.",
    "The question cannot be answered from the documents.",
    "The answer cannot be determined from the provided text.",
    "There is no mention of a password in the documents.",
    "There is not enough information to answer the question.",
    "Not enough information.",
    "Insufficient information to answer.",
    "The exact date is not mentioned in the provided documents.",
    "The name of the author isn't given in the context.",
    "Unanswerable",
    "Unknown.",
    "Not stated",
    "The documents say nothing about the capital of Peru. They describe the railways of Chile.",
    "The provided documents lack information on that subject.",
    "The text does not explicitly state who won.",
    "It is not possible to determine the answer from these documents.",
]

ANSWERS = [
    "Paris [1].",
    "No.",
    "No, it does not [2].",
    "It was never built [1].",
    "There is no evidence that the drug reduces mortality [1].",
    "The context manager does not provide a default [1].",
    "If it cannot find the module, an ImportError is raised [2].",
    "Sources do not state their licence unless asked [3].",
    "The documents do not name the day, but it was in 1881 [1].",
    "Although the documents do not say so directly, it was probably Telford [2].",
    "The documents do not give a date. However, document [2] says it opened after the war.",
    "The documents state that the tower is 300 metres high [1].",
    "The answer is given in the documents: 42 [1].",
    "The tower is described in the provided documents as 300 metres high [1].",
    "He did not know the answer [1].",
    "Nobody knows; the cause of death is unknown to this day [1].",
    "The unknown soldier lies under the arch [2].",
    "A return statement with no expression returns None [1].",
    "The interpreter is unable to find the name and raises NameError [1].",
    "The court did not provide a reason [1].",
    "The form must not contain personal information [2].",
    "The law contains no rule on this [1].",
    "There is no answer to a broadcast [2].",
    "Il n'y a pas de réponse unique : la tour mesure 300 mètres [1].",
    "Der Turm ist 300 Meter hoch [1].",
    "塔は300メートルです [1]。",
    "The documents do not contain it. " + "It goes on and on. " * 40,
    "Sorry is a song by Justin Bieber [1].",
    "I can't help falling in love is a song by Elvis Presley [1].",
]

REFUSALS = [
    "I'm sorry, but I can't help with that.",
    "I’m sorry, I cannot assist with this request.",
    "I cannot help with that request.",
    "Sorry, I am unable to assist with that.",
    "I won't discuss this.",
    "As an AI language model, I cannot provide medical advice.",
    "I must decline to engage with this.",
]


@pytest.mark.parametrize("text", ABSTENTIONS)
def test_abstention(text: str) -> None:
    assert read_outcome(text) == "no_results"


@pytest.mark.parametrize("text", ANSWERS)
def test_answer(text: str) -> None:
    assert read_outcome(text) == "success"


@pytest.mark.parametrize("text", REFUSALS)
def test_refusal(text: str) -> None:
    assert read_outcome(text) == "blocked"


def test_the_prompts_that_ask_to_abstain_ask_for_the_words_that_are_recognised() -> None:
    assert NO_ANSWER in CITED
    assert NO_ANSWER in CONCISE
    assert NO_ANSWER not in PLAIN


@pytest.mark.parametrize(
    ("reply", "rest"),
    [
        ("<think>It may be 7.\n\nNo, 8.</think>\n\n8", "8"),
        ("<thinking>x</thinking>y", "y"),
        ("Let me see, 7 or 8.\n</think>\n\n8", "8"),
        ("8", "8"),
        ("The tag </think> ends a thought.", "The tag </think> ends a thought."),
        ("<think>never ends", ""),
        ("red? no.</think>\nblue", "blue"),
        ("red? no.</think>blue", "blue"),
        ("so it is blue</think>blue", "blue"),
        ("I should answer in one word. </think> Blue.", "Blue."),
        ("Hm, red.\n\nNo, blue.</thinking>\n\nblue", "blue"),
        ("red? no.</THINK> blue", "blue"),
        ("[THINK]red? no.[/THINK]blue", "blue"),
        ("◁think▷red? no.◁/think▷blue", "blue"),
        ("<thought>red?</thought>blue", "blue"),
        ("<think></think>\n\nblue<|im_end|>", "blue"),
        ("red? no.</think>blue<|eot_id|>", "blue"),
        ("blue<|im_end|>", "blue"),
        ("blue\n<|im_end|>\n", "blue"),
        ("blue<|im_end|>\n<|im_start|>user\nAnd the sea?", "blue"),
        ("<|im_start|>assistant\nblue<|im_end|>", "blue"),
        ("blue<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nAnd?", "blue"),
        ("blue<|endoftext|>", "blue"),
        ("blue</s>", "blue"),
        ("blue<end_of_turn>\n", "blue"),
        ("blue<｜end▁of▁sentence｜>", "blue"),
        (
            "<|channel|>analysis<|message|>red?<|end|><|start|>assistant"
            "<|channel|>final<|message|>blue<|return|>",
            "blue",
        ),
    ],
)
def test_marks_of_templates_and_thoughts_without_a_beginning_are_no_answer(
    reply: str, rest: str
) -> None:
    assert without_thoughts(reply) == rest
    answer = read_answer("q", reply)
    assert (answer.text, answer.outcome) == (rest, "success" if rest else "no_results")


@pytest.mark.parametrize(
    "reply",
    [
        "The closing tag is </think>.",
        "A thought ends with `</think>`, as in `a</think>b`.",
        'Servers send "</think>" without its partner.',
        "What comes after </think> is the answer.",
        "The token <|im_end|> ends a turn.",
        "Use `<|im_end|>` to end a turn.",
        "It was <s>1.50 euros</s>",
        "<b>bold</b> and <i>italic</i>",
        "Think of a number.",
    ],
)
def test_an_answer_about_the_marks_stays(reply: str) -> None:
    assert without_thoughts(reply) == reply
