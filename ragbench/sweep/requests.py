"""What became of a run's requests to language models and to other systems, read from the files that it left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ragbench.errors import FailureKind


def failed_requests(results: Path) -> list[tuple[FailureKind, str]]:
    """Kind and reason of each request that failed; [] when all have come back.

    An empty reply, a refusal and an unreadable verdict are no failed requests: asking again would give the same.
    """
    asked: list[dict[str, Any]] = []
    for name in ("answers.jsonl", "judgements.jsonl"):
        for line in (results / name).read_text(encoding="utf-8").split("\n"):
            record = json.loads(line) if line.strip() else {}
            usage = record.get("usage")
            asked += usage if isinstance(usage, list) else [usage] if usage else [record] if record.get("error") else []
    return [
        (FailureKind(one.get("failure") or FailureKind.ERROR), " ".join(one["error"].split()))
        for one in asked
        if one.get("error") is not None
    ]
