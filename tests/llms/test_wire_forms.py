"""Replies that are paid for and of another form than documented: unreadable and kept, no Python
errors.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from ragbench.errors import FailureKind, ModelError
from ragbench.llms.failures import RetryPolicy, _retry_after
from ragbench.llms.providers import stored_llm

NAMES = {
    "anthropic": "anthropic:claude-haiku-4-5",
    "ollama": "ollama:llama3.1:8b",
    "openai": "openai:gpt-4o-mini",
}
PYTHON = (
    "object has no attribute",
    "Traceback",
    "Error:",
    "recursion",
    "validation error",
    "indices must be",
)


@pytest.fixture
def answer(loopback: Any, wire: Any, llm_environment: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a model makes of a body: its text, or its error and kind."""
    monkeypatch.setattr(RetryPolicy, "_back_off", lambda *args: None)

    def ask(provider: str, body: Any) -> tuple[str, Any]:
        server = loopback(lambda asked: wire.Answered(body))
        llm_environment.setenv(f"RAG_EVAL_{provider.upper()}_BASE_URL", server.url)
        llm_environment.setenv(f"RAG_EVAL_{provider.upper()}_API_KEY", "sk-none")
        try:
            return stored_llm(NAMES[provider]).generate(f"Hi? {random.random()}").text, None
        except ModelError as exc:
            return str(exc), exc.failure

    return ask


def changed(body: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    body = json.loads(json.dumps(body))
    *steps, last = path.split(".")
    place: Any = body
    for step in steps:
        place = place[int(step) if step.isdigit() else step]
    place[int(last) if last.isdigit() else last] = value
    return body


BAD: dict[str, list[tuple[str, Any]]] = {
    "anthropic": [
        ("usage", [1]),
        ("content", {"text": "x"}),
        ("content", "x"),
        ("content.0", "x"),
        ("usage", None),
        ("content.0.text", {"a": 1}),
        ("model", ["m"]),
        ("stop_reason", {"a": 1}),
    ],
    "ollama": [
        ("message", [1]),
        ("message.content", {"a": 1}),
        ("message.content", None),
        ("model", 7),
    ],
    "openai": [
        ("usage", [1]),
        ("choices.0.message.content", {"a": 1}),
        ("choices", {"0": 1}),
        ("choices", []),
        ("choices.0", "x"),
        ("choices.0.message", None),
        ("choices.0.message.content", [1]),
        ("choices.0.finish_reason", [1]),
    ],
}


@pytest.mark.parametrize(
    ("provider", "path", "value"), [(name, *case) for name, cases in BAD.items() for case in cases]
)
def test_another_form_is_unreadable(
    answer: Any, wire: Any, provider: str, path: str, value: Any
) -> None:
    body = changed(getattr(wire, provider)("Hello, paid for."), path, value)
    error, kind = answer(provider, body)
    assert kind == FailureKind.UNREADABLE
    assert "cannot be read" in error
    assert not [word for word in PYTHON if word in error], error


@pytest.mark.parametrize("provider", list(NAMES))
def test_a_body_nested_deep_is_unreadable(answer: Any, provider: str) -> None:
    error, kind = answer(provider, b'{"a":' * 200_000)
    assert kind == FailureKind.UNREADABLE
    assert len(error) < 600
    assert not [word for word in PYTHON if word in error], error


@pytest.mark.parametrize("provider", list(NAMES))
@pytest.mark.parametrize("rounds", [12, pytest.param(2000, marks=pytest.mark.simulation)])
def test_no_body_ends_a_run(answer: Any, wire: Any, provider: str, rounds: int) -> None:
    chance = random.Random(f"{provider} {rounds}")
    odd: list[Any] = [
        None,
        True,
        -1,
        1e400,
        2**70,
        "",
        "x",
        "\ud800",
        [],
        [1],
        {},
        {"a": {"b": []}},
        [[[]]],
    ]
    whole = getattr(wire, provider)("Hello.")

    def spoiled(node: Any) -> Any:
        if chance.random() < 0.15:
            return chance.choice(odd)
        if isinstance(node, dict):
            return {key: spoiled(value) for key, value in node.items() if chance.random() > 0.05}
        return [spoiled(value) for value in node] if isinstance(node, list) else node

    bodies = [json.dumps(spoiled(whole)).encode() for _ in range(rounds)]
    for body in [chance.choice([body, body[: chance.randrange(len(body) + 1)]]) for body in bodies]:
        text, kind = answer(provider, body)
        assert kind in (None, FailureKind.UNREADABLE, FailureKind.EMPTY), (body, text)
        assert kind is None or not [word for word in PYTHON if word in text], (body, text)


@pytest.mark.parametrize(
    "value",
    [
        "9" * 400,
        "-1",
        "nan",
        "inf",
        "1e999",
        "Fri, 31 Dec 99999 23:59:59 GMT",
        "Mon, 99 Foo 2020",
        "\x00",
        "0x10",
        "Fri, 31 Dec 9999 23:59:59 -2359",
        "Mon, 01 Jan 0001 00:00:00 +2359",
    ],
)
def test_an_absurd_retry_after_is_none_or_seconds(value: str) -> None:
    found = _retry_after(value)
    assert found is None or found >= 0.0
