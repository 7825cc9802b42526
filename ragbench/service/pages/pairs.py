"""The page that compares two runs: which runs can be compared, measures by perspective, and both
answers to each question.
"""

from collections.abc import Sequence
from typing import Any

from ragbench.groups import grouped
from ragbench.registry import PERSPECTIVES, perspective_of
from ragbench.service.access import Session
from ragbench.service.history_database import Json
from ragbench.service.responses import cases_of, result_of_run

_MAX_QUESTIONS = 200
_MAX_ANSWER = 400  # characters of an answer on the page
_STATES = {True: "passed", False: "failed", None: "not decided"}
_CHANGES = {("passed", "failed"): "newly failing", ("failed", "passed"): "fixed"}


def comparable_runs(runs: Sequence[Json], chosen: str = "") -> dict[str, list[Json]]:
    """Return "client dataset" -> its runs, for each dataset with two runs or more.

    With `chosen`, the id of a run, only the dataset of this run is returned.
    """
    comparable = {}
    by_dataset = grouped(runs, lambda row: f"{row['client_id']} {row['dataset']}".strip())
    for name, rows in by_dataset.items():
        is_shown = not chosen or any(row["run"] == chosen for row in rows)
        if len(rows) > 1 and is_shown:
            comparable[name] = rows
    return comparable


def by_perspective(measures: Sequence[Json]) -> list[tuple[str, list[Json]]]:
    """Group the rows of measures by perspective: [("decides", rows), ("retrieval", rows), ...].

    "decides", the measure with the decision, comes first; then perspectives in the order of a report;
    then "other", measures without a perspective. Groups without rows are left out.
    """
    groups: list[tuple[str, list[Json]]] = []
    deciding = [row for row in measures if row["decision"]]
    if deciding:
        groups.append(("decides", deciding))
    others = [row for row in measures if not row["decision"]]
    rows_of = grouped(others, lambda row: perspective_of(row["measure"]))
    for perspective in (*PERSPECTIVES, ""):
        if perspective in rows_of:
            groups.append((perspective or "other", rows_of[perspective]))
    return groups


def question_rows(session: Session, before: Json, after: Json) -> list[dict[str, Any]]:
    """Return the questions that both runs have with the same text, the changed ones first; 200 at most.

    A row has query_id, question, change, and for each run its state and answer.
    """
    cases_before = _cases_by_id(session, before)
    cases_after = _cases_by_id(session, after)
    rows = []
    for query_id, case_before in cases_before.items():
        case_after = cases_after.get(query_id)
        if case_after is not None and case_after["question"] == case_before["question"]:
            rows.append(_question_row(case_before, case_after))
    order = ["newly failing", "fixed", ""]
    rows.sort(key=lambda row: order.index(row["change"]))
    return rows[:_MAX_QUESTIONS]


def _question_row(case_before: Json, case_after: Json) -> dict[str, Any]:
    """Return a question with its change ("" for none) and both sides: state and answer in each run."""
    sides = []
    for case in (case_before, case_after):
        sides.append({"state": _STATES[case["passed"]], "answer": _cut(case["answer"])})
    return {
        "query_id": case_before["query_id"],
        "question": case_before["question"],
        "change": _CHANGES.get((sides[0]["state"], sides[1]["state"]), ""),
        "sides": sides,
    }


def _cases_by_id(session: Session, row: Json) -> dict[str, Json]:
    """Return query id -> the case of a run."""
    cases = cases_of(session, row, result_of_run(session, row))
    return {case["query_id"]: case for case in cases}


def _cut(answer: str | None) -> str:
    """Return the beginning of an answer; "" without one."""
    text = answer or ""
    return text if len(text) <= _MAX_ANSWER else f"{text[:_MAX_ANSWER]}…"
