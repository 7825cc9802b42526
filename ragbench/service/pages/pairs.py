"""What the page that compares two runs shows: which runs can be compared, measures by perspective,
and both answers to each question.
"""

from collections.abc import Sequence
from typing import Any

from ragbench.registry import PERSPECTIVES, perspective_of
from ragbench.service.access import Session
from ragbench.service.history_database import Json
from ragbench.service.responses import cases_of, result_of_run
from ragbench.types import grouped

_MAX_QUESTIONS = 200
_MAX_ANSWER = 400  # characters of an answer on the page
_STATES = {True: "passed", False: "failed", None: "not decided"}
_CHANGES = {("passed", "failed"): "newly failing", ("failed", "passed"): "fixed"}


def comparable_runs(runs: Sequence[Json], chosen: str = "") -> dict[str, list[Json]]:
    """Return a name of the data -> its runs, where it has two or more; only those on the data of the
    chosen run where there is one.
    """
    groups = grouped(runs, lambda row: f"{row['client_id']} {row['dataset']}".strip())
    return {
        name: rows
        for name, rows in groups.items()
        if len(rows) > 1 and (not chosen or any(row["run"] == chosen for row in rows))
    }


def by_perspective(measures: Sequence[Json]) -> list[tuple[str, list[Json]]]:
    """Return perspective -> its rows in the order of a report, before them the measure that decides."""
    deciding = [row for row in measures if row["decision"]]
    others = [row for row in measures if not row["decision"]]
    groups = grouped(others, lambda row: perspective_of(row["measure"]))
    names = [name for name in (*PERSPECTIVES, "") if name in groups]
    first = [("decides", deciding)] if deciding else []
    return first + [(name or "other", groups[name]) for name in names]


def question_rows(session: Session, before: Json, after: Json) -> list[dict[str, Any]]:
    """Return the questions that both runs have, those that changed first: query_id, question, change,
    and for each run its state and answer.
    """
    sides = [
        {case["query_id"]: case for case in cases_of(session, row, result_of_run(session, row))}
        for row in (before, after)
    ]
    then, now = sides
    rows = []
    for query_id, case in then.items():
        other = now.get(query_id)
        if other is None or other["question"] != case["question"]:
            continue
        states = (_STATES[case["passed"]], _STATES[other["passed"]])
        rows.append(
            {
                "query_id": query_id,
                "question": case["question"],
                "change": _CHANGES.get(states, ""),
                "sides": [
                    {"state": state, "answer": _cut(side["answer"])}
                    for state, side in zip(states, (case, other), strict=True)
                ],
            }
        )
    order = ["newly failing", "fixed", ""]
    rows.sort(key=lambda row: order.index(row["change"]))
    return rows[:_MAX_QUESTIONS]


def _cut(answer: str | None) -> str:
    text = answer or ""
    return text if len(text) <= _MAX_ANSWER else f"{text[:_MAX_ANSWER]}…"
