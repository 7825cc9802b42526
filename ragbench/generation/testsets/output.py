"""Drafts as a test set: a table of their states, a dataset, a folder."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.datasets.beir import testset_record
from ragbench.datasets.writer import generated_label, save_dataset
from ragbench.errors import DataError
from ragbench.generation.testsets.drafts import Draft, prompts_name
from ragbench.types import Case, Dataset

if TYPE_CHECKING:
    import pandas as pd

STATES: Mapping[str, str] = {
    "accepted": "in the test set",
    "incomplete": "question, answer or quote is empty",
    "yes_no": "can be answered by yes or no",
    "vague": "cannot be understood without the passage",
    "quotes_chunk": "repeats the words of the chunk",
    "unquoted": "the quoted evidence is not in the chunk",
    "unsupported": "the chunk does not support the answer",
    "duplicate": "the same as another question",
    "unchecked": "the check failed or could not be read",
    "nothing": "the model found nothing worth asking in the chunk",
    "unreadable": "the reply could not be read",
    "failed": "the request failed",
}
"""The states of a draft; all but the first are reasons for its rejection."""


def drafts_table(drafts: Sequence[Draft]) -> pd.DataFrame:
    """The number of drafts in each state, in the order of `STATES`; states without drafts are left out.

    Returns:
        state, meaning, drafts (their number), share (fraction of all), example (the reason of the first).
    """
    import pandas as pd

    rows = []
    for state, meaning in STATES.items():
        own = [draft for draft in drafts if draft.state == state]
        if own:
            example = own[0].question if state == "accepted" else own[0].reason
            rows.append((state, meaning, len(own), len(own) / len(drafts), example))
    return pd.DataFrame(rows, columns=["state", "meaning", "drafts", "share", "example"])


def as_dataset(dataset: Dataset, drafts: Sequence[Draft], *, name: str = "", split: str = "test") -> Dataset:
    """The corpus of `dataset` with the accepted questions; each judges its own document relevant (1).

    Other documents that answer a question are unjudged, and count as not relevant.

    Raises:
        DataError: no draft is accepted.
    """
    cases: dict[str, Case] = {}
    for draft in drafts:
        if draft.state != "accepted" or draft.evidence is None:
            continue
        source = {"doc_id": draft.doc_id, "start": draft.evidence.start, "end": draft.evidence.end}
        label = generated_label(draft.answer, model=draft.model, prompt=prompts_name(), sources=[source])
        cases[draft.query_id] = Case(
            draft.query_id,
            draft.question,
            reference_answer=draft.answer,
            evidence=(draft.evidence,),
            expected_outcome="success",
            metadata={"generated": {**label, "chunk": draft.chunk_id, "checked_by": draft.checker}},
        )
    if not cases:
        counts = ", ".join(f"{row.drafts} {row.state}" for row in drafts_table(drafts).itertuples())
        raise DataError(
            f"none of {len(drafts)} drafts is accepted ({counts or 'there are none'}), so there is no test set"
        )
    qrels = {query_id: {case.evidence[0].doc_id: 1} for query_id, case in cases.items()}
    return replace(dataset, name=name or dataset.name, split=split, cases=tuple(cases.values()), qrels=qrels)


def identity(folder: str | Path, *, name: str = "", client: str = "") -> dict[str, str]:
    """name, created_at (UTC) and client of a test set: as given, else those that the one in `folder` has, else new.

    Raises:
        DataError: there is a testset.json that cannot be read.
    """
    place = Path(folder).expanduser()
    there = testset_record(place)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {
        "name": name or str(there.get("name") or place.resolve().name),
        "created_at": str(there.get("created_at") or now),
        "client": client or str(there.get("client") or ""),
    }


def save_testset(
    dataset: Dataset,
    drafts: Sequence[Draft],
    folder: str | Path,
    *,
    parameters: Mapping[str, Any],
    about: Mapping[str, str] | None = None,
    force: bool = False,
) -> Path:
    """Write a test set (from `as_dataset`) as a BEIR folder, with drafts.jsonl and testset.json in it.

    drafts.jsonl holds every draft with its state and reason, testset.json its metadata (`about`, default: its
    name and what `identity` finds in the folder), the `parameters` and the counts. See
    `ragbench.datasets.writer.save_dataset` for what is never replaced.
    """
    lines = ({**asdict(draft), "query_id": draft.query_id} for draft in drafts)
    table = drafts_table(drafts)
    record = {
        **(about or identity(folder, name=dataset.name)),
        "parameters": dict(parameters),
        "prompts": prompts_name(),
        "questions": len(dataset.cases),
        "drafts": dict(zip(table["state"], table["drafts"].tolist(), strict=True)),
        "fingerprint": dataset.fingerprint,
    }
    extra = {
        "drafts.jsonl": "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines),
        "testset.json": f"{json.dumps(record, ensure_ascii=False, indent=2)}\n",
    }
    return save_dataset(dataset, folder, force=force, extra=extra)
