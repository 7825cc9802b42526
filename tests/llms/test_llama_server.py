"""A real model behind llama.cpp's HTTP server, end to end. Its wisdom is not tested."""

from __future__ import annotations

import json

from ragbench.llms import generate_many
from ragbench.llms.providers import stored_llm

SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"type": "boolean"}},
    "required": ["verdict"],
    "additionalProperties": False,
}


def test_a_real_model_writes_and_its_tokens_are_counted(small_model: str) -> None:
    prompt, system = "Write a few words about the sea.", "You are a poet."
    llm = stored_llm(small_model)
    reply = llm.generate(prompt, system=system, max_tokens=12)
    assert reply.text.strip()
    assert reply.error is None
    assert 10 < reply.input_tokens < 60
    assert 0 < reply.output_tokens <= 12
    assert reply.finish == ("length" if reply.output_tokens == 12 else "stop")
    assert reply.latency_s > 0
    again = llm.generate(prompt, system=system, max_tokens=12)
    assert (again.text, again.cached, again.latency_s) == (reply.text, True, 0.0)


def test_a_schema_binds_even_a_weak_model(small_model: str) -> None:
    llm = stored_llm(small_model)
    reply = llm.generate("Is water wet? Reply in JSON.", schema=SCHEMA, max_tokens=60)
    if reply.finish == "stop":
        assert isinstance(json.loads(reply.text)["verdict"], bool)
    assert reply.text.lstrip().startswith("{")


def test_a_prompt_that_does_not_fit_is_an_error_record_and_the_others_continue(
    small_model: str,
) -> None:
    replies = generate_many(stored_llm(small_model), ["word " * 3_000, "Say hello."], max_tokens=5)
    assert "context" in str(replies[0].error)
    assert replies[1].error is None
