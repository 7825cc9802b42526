"""The conclusion of a sweep, and of two runs, for the server, from the files of their results;
`evaluation/conclusion` makes it.
"""

from __future__ import annotations

from dataclasses import replace

from fastapi import HTTPException

from ragbench.errors import ComparisonError, DataError
from ragbench.evaluation import Results, load_results
from ragbench.evaluation.decision import Conclusion
from ragbench.service.access import Session
from ragbench.service.history_database import connected
from ragbench.service.recorded_runs import newest_runs
from ragbench.service.responses import files_of_run, result_of_run, run_row, without_folders

_NO_FILES = "the files of {} are not in the folder of this server, or were replaced"


def of_sweep(session: Session, series: str) -> tuple[Conclusion | None, str]:
    """Return the conclusion of a sweep, as `ragbench compare` shows it: (conclusion, ""), or (None, reason)
    if its files are not here. 404 if the client has no such sweep.
    """
    with connected(session.database) as connection:
        newest = newest_runs(connection, session.owner, series)
    swept = [row for row in newest if row["kind"] == "sweep"]
    if not swept:
        raise HTTPException(404, "there is no such sweep")
    row, _ = run_row(session, swept[0]["id"])
    folder = files_of_run(session, row)
    if folder is None:
        return None, _NO_FILES.format("this sweep")
    try:
        results = load_results(folder.parent)
    except (DataError, ComparisonError) as exc:
        return None, without_folders(str(exc), session.root)
    recorded = {row["configuration"] for row in swept}
    for result in results:
        if result.name not in recorded:
            problem = f"{result.name} is in the folder of this sweep, and not among its runs"
            return None, problem
    return results.conclude(), ""


def of_runs(session: Session, before: str, after: str) -> tuple[Conclusion | None, str]:
    """Compare two runs, given by their ids, with `before` as the baseline: return (conclusion, ""), or
    (None, reason) if they cannot be compared.
    """
    results = []
    for run_id in (before, after):
        row, _ = run_row(session, run_id)
        result = result_of_run(session, row)
        if result is None:
            return None, _NO_FILES.format("these runs")
        made_at = row["made_at"][:16].replace("T", " ")
        results.append(replace(result, name=f"run {run_id[:8]} of {made_at}"))
    if before == after:
        return None, "it is the same run"
    try:
        return Results(results, baseline=results[0].name).conclude(), ""
    except ComparisonError as exc:
        return None, str(exc)
