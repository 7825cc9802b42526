"""The card of a judge: the findings of an audit, kept for the reports that rest on its verdicts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
from platformdirs import user_data_path

from ragbench.errors import abridged
from ragbench.files import write_durably
from ragbench.judges.audit_probes import audit_findings
from ragbench.judges.criterion import Criterion, load_criteria

_CARD = {"judge": str, "criterion": str, "made_at": str, "findings": list, "probes": list}


def card_path(judge: str, criterion: Criterion) -> Path:
    """Return the path of the card of a judge by a criterion; each wording of the question has its own."""
    digest = hashlib.sha256(f"{judge}\n{criterion.digest}".encode()).hexdigest()[:24]
    return user_data_path("ragbench", appauthor=False) / "judges" / f"{digest}.json"


def save_card(
    judge: str,
    criterion: Any,
    audit: pd.DataFrame,
    agreement: Sequence[Mapping[str, Any]] = (),
) -> Path:
    """Save the findings of `judge_audit` as a card; later results of this judge include it.

    Args:
        judge: the name of the model.
        criterion: the criterion by which it was audited.
        audit: the table of `judge_audit`.
        agreement: rows of the agreement with people's labels.
    """
    [loaded] = load_criteria(criterion)
    probes = json.loads(audit.to_json(orient="records"))
    record = {
        "judge": judge,
        "criterion": loaded.name,
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "findings": audit_findings(audit, agreement),
        "probes": probes,
        "agreement": [dict(row) for row in agreement],
    }
    path = card_path(judge, loaded)
    write_durably(path, json.dumps(record, indent=1, ensure_ascii=False))
    return path


def find_card(judge: str, criterion: Criterion) -> dict[str, Any] | None:
    """Return the card of a judge by a criterion (the findings of an audit); None without one.

    There is none if the judge was not audited on this machine, or is a function without a name (all
    of these have the same name).
    """
    if judge.endswith("<lambda>"):  # the name of a function without a name
        return None
    try:
        record = json.loads(card_path(judge, criterion).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if is_card(record) else None


def is_card(record: Any) -> bool:
    """Return True if a record has the fields of a card."""
    if not isinstance(record, Mapping):
        return False
    return all(isinstance(record.get(name), kind) for name, kind in _CARD.items())


def card_sentence(record: Mapping[str, Any]) -> str:
    """Return the findings of an audit in one sentence.

    >>> card_sentence({"judge": "openai:m", "criterion": "correctness", "made_at": "2026-03-01T10:00:00+00:00",
    ...                "findings": [], "probes": [{}] * 10})
    'audited by correctness on 2026-03-01: passes all 10 probes'
    """
    head = f"audited by {record['criterion']} on {record['made_at'][:10]}"
    findings = [str(finding) for finding in record["findings"]]
    if not findings:
        return abridged(f"{head}: passes all {len(record['probes'])} probes", 300)
    return abridged(f"{head}: {', '.join(findings)}", 300)
