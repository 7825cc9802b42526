"""What became of a run's requests to language models, read from the files that it left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragbench.judges import REFUSED


def failed_requests(results: Path) -> list[str]:
    """Why requests failed, one reason per answer or judgement that lacks its reply; [] when all have come back.

    An empty reply, a refusal and an unreadable verdict are no failed requests: asking again would give the same.
    """
    reasons = [
        answer["usage"]["error"]
        for answer in _records(results / "answers.jsonl")
        if answer.get("usage") and answer["usage"]["error"] is not None
    ]
    reasons += [
        judgement["explanation"].splitlines()[-1]
        for judgement in _records(results / "judgements.jsonl")
        if judgement["state"] == "judge_failed" and not judgement["explanation"].endswith(REFUSED)
    ]
    return [" ".join(reason.split()) for reason in reasons]


def is_budget(reason: str) -> bool:
    """Whether a request was not sent because it might have passed the maximum cost.

    >>> is_budget("budget: openai:m may cost 1.0180 dollars for this request"), is_budget("openai:m: 529")
    (True, False)
    """
    return reason.startswith("budget: ")


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)
