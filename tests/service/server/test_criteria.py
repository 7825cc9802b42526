"""A job that judges by a criterion of the client's own, with a judge on loopback."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

LEVELS = {"yes": 1.0, "partly": 0.5, "no": 0.0}
POLITE = {"question": "Is the answer polite?", "levels": LEVELS}


def reply_of(prompt: str) -> str:
    """Reply by every criterion that the prompt asks for; politeness by the length of the answer."""
    match = re.search(r"<answer-\w+>\n(.*?)\n</answer-", prompt, re.DOTALL)
    assert match is not None
    reply: dict[str, Any] = {}
    if "politeness:" in prompt:
        level = [*LEVELS][len(match[1]) % 3]
        reply["politeness"] = {"reason": "r", "verdict": level}
    if "relevance:" in prompt:
        reply["relevance"] = {"reason": "r", "score": 0.75}
    return json.dumps(reply)


@pytest.fixture
def judge(loopback: Any, wire: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    server = loopback(
        lambda asked: wire.Answered(wire.openai(reply_of(asked.body["messages"][-1]["content"])))
    )
    monkeypatch.setenv("RAG_EVAL_PROVIDER", "openai")
    monkeypatch.setenv("RAG_EVAL_OPENAI_MODEL", "judge-1")
    monkeypatch.setenv("RAG_EVAL_OPENAI_BASE_URL", f"{server.url}/v1")
    monkeypatch.setenv("RAG_EVAL_OPENAI_API_KEY", "sk-none")
    return server


@pytest.mark.parametrize(("is_combined", "n_requests"), [(False, 4), (True, 2)])
def test_a_job_judges_by_an_own_criterion(
    filled: Callable[..., Any], judge: Any, is_combined: bool, n_requests: int
) -> None:
    body = {
        "dataset": "support",
        "judge": True,
        "criteria": ["relevance"],
        "own_criteria": {"politeness": POLITE},
        "combine_criteria": is_combined,
    }
    run = filled("POST", "/api/v1/runs?wait=60", body)
    assert len(judge.asked) == n_requests, run
    texts = [asked.body["messages"][-1]["content"] for asked in judge.asked]
    values = {}
    for text in texts:
        reply = json.loads(reply_of(text))
        if "politeness" in reply:
            values[text] = LEVELS[reply["politeness"]["verdict"]]
    means = {row["measure"]: row["mean"] for row in run["measures"]}
    assert means["llm_politeness"] == pytest.approx(sum(values.values()) / 2)
    assert means["llm_relevance"] == 0.75
