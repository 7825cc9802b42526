"""Runs and jobs as responses of the API have them: their fields, and no folders of the server."""

import json
import re
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import anyio
import pandas as pd
from fastapi import HTTPException
from starlette.concurrency import run_in_threadpool

from ragbench.errors import ConfigError, DataError
from ragbench.evaluation import Result, load_result
from ragbench.evaluation.formats import plain
from ragbench.service.access import Session
from ragbench.service.history_database import Json, connected
from ragbench.service.job_queue import jobs
from ragbench.service.recorded_runs import count_decided, run_of, scores_of
from ragbench.service.recording import content_of

_ID = 64
_FOLDERS = re.compile(r"(?<![\w.:/<>])(?:/[^\s/'\",:;()<>]+)+/(?=[^\s/])")
_RUN = (
    "id client_id series configuration dataset fingerprint made_at passed questions "
    "questions_passed cost_usd seconds"
).split()
_JOB = "id client_id series state due_at ended_at attempts exit_code run progress".split()


def records(frame: pd.DataFrame) -> list[Json]:
    """Return the rows of a frame as JSON has them: no NaN, times as text."""
    text = frame.to_json(orient="records", date_format="iso", double_precision=15)
    rows: list[Json] = json.loads(text)
    return rows


def run_row(session: Session, run_id: str) -> tuple[Json, pd.DataFrame]:
    """Return the row of a run and its scores per measure; 404 where the client has none of this id."""
    missing = HTTPException(404, "there is no such run")
    try:
        # `run_of` also takes names and beginnings of ids, which are not accepted here; "" finds no run
        is_id = len(run_id) == _ID and run_id.isalnum()
        row, scores, _ = run_of(run_id if is_id else "", session.database)
    except ConfigError as exc:
        raise missing from exc
    if session.client not in (None, row["client_id"]):
        raise missing
    return dict(row), scores.drop(columns="case_values")


def folder_of_run(session: Session, row: Json) -> Path | None:
    """Return the folder of a run; None if it has none, or one outside of the root."""
    if not row["location"]:
        return None
    folder = Path(row["location"]).resolve()
    return folder if folder.is_relative_to(session.root) else None


def decided_of(ids: list[str], database: str) -> dict[str, int]:
    """Return run id -> how many of its questions passed or failed, where any did."""
    with connected(database) as connection:
        return count_decided(connection, ids)


def run_document(session: Session, run_id: str) -> Json:
    """Return a run with its aggregates and every case; values that only its files hold are None if
    the files are gone.
    """
    row, scores = run_row(session, run_id)
    cases = cases_of(session, row, result_of_run(session, row))
    return {**{name: row[name] for name in _RUN}, "measures": records(scores), "cases": cases}


def files_of_run(session: Session, row: Json) -> Path | None:
    """Return the folder of a run; None if it has none, lies outside of the results, or its files are gone
    or replaced.
    """
    folder = folder_of_run(session, row)
    if folder is None:
        return None
    with suppress(OSError):
        if content_of(folder) == row["content"]:
            return folder
    return None


def result_of_run(session: Session, row: Json) -> Result | None:
    """Return the result that a run recorded, from its files; None if they are gone or replaced."""
    with suppress(DataError, OSError):
        if folder := files_of_run(session, row):
            return load_result(folder)
    return None


def cases_of(session: Session, row: Json, result: Result | None) -> list[Json]:
    """Return the questions of a run with answers, verdicts and scores. Without a result (None), only the
    questions and scores in the database are known.
    """
    if result is not None:
        return [plain(asdict(case)) for case in result.cases]
    _, scores, texts = scores_of(row["id"], session.database)
    wide = scores.pivot(index="query_id", columns="measure", values="value").reindex([*texts])
    cases = []
    for (query_id, question), values in zip(texts.items(), records(wide), strict=True):
        cases.append(
            {
                "query_id": query_id,
                "question": question,
                "answer": None,
                "passed": None,
                "scores": values,
            }
        )
    return cases


def job_document(session: Session, job_id: str) -> Json:
    """Return a job; 404 where the client has none of this id."""
    rows = jobs(job_id=job_id, **session.scope) if job_id.isalnum() else []
    if not rows:
        raise HTTPException(404, "there is no such job")
    return job_response(session, rows[0])


def job_response(session: Session, job: Json) -> Json:
    """Return a job without the places of files."""
    output = without_folders(job["output"] or "", session.root)
    return {**{name: job[name] for name in _JOB}, "output": output}


def without_folders(text: str, root: Path) -> str:
    """Return a text whose paths show no folders of the server but those below the root.

    >>> without_folders("/srv/a/b.toml, /etc/pki/key.pem: no; see http://host/a/b", Path("/srv"))
    'a/b.toml, key.pem: no; see http://host/a/b'
    """
    return _FOLDERS.sub("", text.replace(f"{root}/", ""))


async def wait_for_job(session: Session, job: Json, seconds: float) -> Json:
    """Return a job when it has ended, or as it is after `seconds`."""
    end = time.monotonic() + seconds
    pause = 0.05
    while job["state"] in ("waiting", "running") and time.monotonic() < end:
        await anyio.sleep(pause)
        pause = min(1.0, pause * 1.5)
        job = await run_in_threadpool(job_document, session, job["id"])
    return job
