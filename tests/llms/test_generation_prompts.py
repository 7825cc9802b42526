"""Prompts by name and by text, checked for their placeholders and filled in one pass."""

from __future__ import annotations

import pytest

from ragbench.errors import ConfigError
from ragbench.generation.generator_prompts import CITED, PROMPTS, check_prompt, fill
from ragbench.llms.fences import fence_code


@pytest.mark.parametrize("name", list(PROMPTS))
def test_every_named_prompt_passes_its_own_check(name: str) -> None:
    assert check_prompt(name) == check_prompt(PROMPTS[name])


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (
            "citd",
            r"unknown prompt 'citd'; did you mean 'cited'\?.*or give a text of your own that "
            r"holds \{question\}",
        ),
        ("", "unknown prompt ''"),
        (
            "Answer {question} from {contexts}",
            r"holds \['contexts', 'question'\].*expected \{question\} and \{context\}",
        ),
        ("Answer {question}", r"'Answer \{question\}' holds \['question'\].*\{context\}"),
        ("Read {context}", r"holds \['context'\]"),
        ("Answer the question, please.", r"holds \[\]"),
        ("{context}{question}{k}", "'k'"),
    ],
)
def test_a_bad_prompt_is_refused_with_the_way_out(prompt: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_prompt(prompt)


def test_braces_without_a_single_word_are_kept() -> None:
    template = check_prompt('{context} {question} Reply as {"answer": "..."} or {}')
    assert fill(template, "q", ["d"]).endswith('Reply as {"answer": "..."} or {}')


def test_placeholders_within_documents_are_left_alone() -> None:
    filled = fill("{context}\n{question}", "who wrote {context}?", ["a {question} here"])
    assert "a {question} here" in filled
    assert "who wrote {context}?" in filled
    assert filled.count("<question-") == 1


def test_one_code_for_all_fences_of_a_request() -> None:
    code = fence_code(["q", "d1", "d2"])
    filled = fill(CITED, "q", ["d1", "d2"])
    assert filled.count(f"<document-{code}>") == filled.count(f"</document-{code}>") == 2
    assert f"<question-{code}>\nq\n</question-{code}>" in filled
