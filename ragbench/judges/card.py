"""The card of a judge: what an audit showed, kept for the reports that rest on its verdicts."""

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
from ragbench.judges.audit import audit_findings
from ragbench.judges.criterion import Criterion, load_criteria

_CARD = {"judge": str, "criterion": str, "made_at": str, "findings": list, "probes": list}


def card_path(judge: str, criterion: Criterion) -> Path:
    """Return where the card of a judge by a criterion is kept: one for each wording of the question."""
    digest = hashlib.sha256(f"{judge}\n{criterion.digest}".encode()).hexdigest()[:24]
    return user_data_path("ragbench", appauthor=False) / "judges" / f"{digest}.json"


def save_card(
    judge: str,
    criterion: Any,
    audit: pd.DataFrame,
    agreement: Sequence[Mapping[str, Any]] = (),
) -> Path:
    """Keep what `judge_audit` showed of a judge; results that it decides from then on have it.

    Args:
        judge: the name of the model.
        criterion: the criterion by which it was audited.
        audit: the table of `judge_audit`.
        agreement: rows of the agreement with people's labels, if there are any.
    """
    [loaded] = load_criteria(criterion)
    probes = json.loads(audit.to_json(orient="records"))
    record = {
        "judge": judge,
        "criterion": loaded.name,
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "findings": audit_findings(audit),
        "probes": probes,
        "agreement": [dict(row) for row in agreement],
    }
    path = card_path(judge, loaded)
    write_durably(path, json.dumps(record, indent=1, ensure_ascii=False))
    return path


def find_card(judge: str, criterion: Criterion) -> dict[str, Any] | None:
    """Return the card of a judge by a criterion; None where it was not audited here, and of functions
    without a name, which all are called the same.
    """
    if judge.endswith("<lambda>"):
        return None
    try:
        record = json.loads(card_path(judge, criterion).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if is_card(record) else None


def is_card(record: Any) -> bool:
    """Return True if a record has the fields of a card."""
    return isinstance(record, Mapping) and all(
        isinstance(record.get(name), kind) for name, kind in _CARD.items()
    )


def card_sentence(record: Mapping[str, Any]) -> str:
    """Return what an audit showed, in one sentence.

    >>> card_sentence({"judge": "openai:m", "criterion": "correctness", "made_at": "2026-03-01T10:00:00+00:00",
    ...                "findings": [], "probes": [{}] * 10})
    'audited by correctness on 2026-03-01: passes all 10 probes'
    """
    head = f"audited by {record['criterion']} on {record['made_at'][:10]}"
    findings = [str(finding) for finding in record["findings"]]
    if not findings:
        return abridged(f"{head}: passes all {len(record['probes'])} probes", 300)
    return abridged(f"{head}: {', '.join(findings)}", 300)
