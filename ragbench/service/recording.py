"""Runs into the database: finished sweeps and evaluations, and the folders of earlier ones; which
changed settings make a run incomparable with earlier ones.

The files are the truth: everything in the database can be made again from the folders of results,
and is then equal but for the time of recording and the numbers of runs and datasets.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from sqlalchemy import Connection, and_, insert, select, update
from sqlalchemy.exc import IntegrityError

from ragbench.errors import DataError, RagbenchError
from ragbench.evaluation import Result, load_result
from ragbench.report.page import banner
from ragbench.service import tables
from ragbench.service.alert_rules import raise_alerts, send_or_warn
from ragbench.service.history_database import (
    Json,
    add_once,
    canonical,
    connected,
    content_id,
    current_timestamp,
    timestamp,
)
from ragbench.service.recorded_runs import RunRow, main_first
from ragbench.types import Case

_MAX_NAME = 190
_CHANGING_SCORES = (
    "embedder support_model judge cases weights detector suite limit seed categories"
).split()
"""Settings of an evaluation that change scores, so that runs with other values are not compared."""


class ImportCounts(NamedTuple):
    """The outcome of an import.

    Attributes:
        added: the number of runs that were added.
        known: the number of runs that the database had already.
        failed: folder -> why it could not be read.
    """

    added: int
    known: int
    failed: Mapping[str, str]


class Rows(NamedTuple):
    """A run as the database records it.

    Attributes:
        run: the row of the run.
        cases: its questions, as JSON.
        scores: the rows of its scores.
        pairs: its questions with reference answers, as from `pairs_of`.
    """

    run: Json
    cases: str
    scores: list[Json]
    pairs: str


def record(
    results: Iterable[tuple[Result, Path | None]],
    *,
    client: str = "",
    series: str = "",
    database: str = "",
) -> list[str]:
    """Add results with the folders that they were saved in; return the ids of those that were not
    known yet.

    `series` is their name over time; "" = the value of RAGBENCH_SERIES when they were made, else
    the name of their sweep, or the dataset and the system of an evaluation. `client` is their
    owner; "" = the value of RAGBENCH_CLIENT when they were made. The rules of `add_alert` are
    checked, and their alerts are sent.

    Raises:
        ConfigError, DataError: the database cannot be used, or the time of a result is not known.
    """
    added = []
    # all results are read before any is added
    for rows in [rows_of(result, folder, client, series) for result, folder in results]:
        with connected(database, write=True) as connection:
            if store(connection, rows):
                raise_alerts(connection, rows.run)
                added.append(rows.run["id"])
    if added:
        send_or_warn(database)
    return added


def store(connection: Connection, rows: Rows) -> bool:
    """Add a run to the database, and return True; return False if it is there already.

    It is called in a transaction, which is committed by the caller.
    """
    run = rows.run
    # runs with the same questions share one row of `case_set`
    add_once(connection, tables.case_set, {"id": run["case_set"], "cases": rows.cases})
    if not add_once(connection, tables.run, run):
        return False
    record_dataset(
        connection,
        run["client_id"],
        run["dataset"],
        created_at=run["made_at"],
        created_by=f"ragbench {run['kind']}",
        pairs=rows.pairs,
    )
    connection.execute(insert(tables.run_number), {"run_id": run["id"]})  # the database numbers it
    if rows.scores:
        connection.execute(insert(tables.score), rows.scores)
    return True


def record_dataset(
    connection: Connection,
    client: str,
    name: str,
    *,
    created_at: str,
    created_by: str,
    pairs: str,
    is_read: bool = False,
) -> int:
    """Add a client's dataset to the database unless it is there already, and return its number.

    Args:
        created_at, created_by: when a new dataset was created, and by which key or command.
        pairs: its questions with reference answers, as from `pairs_of`.
        is_read: True if `pairs` were read from the test set itself: they then replace the recorded
            ones. (A run may know the questions only.)
    """
    columns = tables.dataset.c
    is_dataset = and_(columns.client_id == client, columns.name == name)
    query_of_number = select(columns.id).where(is_dataset)
    is_known = connection.execute(query_of_number).first() is not None
    if not is_known:
        row = {
            "client_id": client,
            "name": name,
            "created_at": created_at,
            "created_by": created_by[:_MAX_NAME],
            "qa_pairs": pairs,
        }
        with suppress(IntegrityError), connection.begin_nested():  # another process may be faster
            connection.execute(insert(tables.dataset), row)
    if is_read:
        connection.execute(update(tables.dataset).where(is_dataset).values(qa_pairs=pairs))
    # A query that locks the row also sees one that another process has inserted meanwhile; a plain
    # one would not see it in MySQL, where a transaction reads the state at its first query.
    return int(connection.execute(query_of_number.with_for_update()).scalar_one())


def pairs_of(cases: Iterable[Case]) -> str:
    """Return the questions of a dataset with their reference answers (null = none), as JSON."""
    pairs = []
    for case in cases:
        pairs.append({"question": case.text, "answer": case.reference_answer or None})
    return canonical(pairs)


def import_results(folder: str | Path, *, client: str = "", database: str = "") -> ImportCounts:
    """Add every result in a folder, at any depth: a result, a sweep, evaluations, a schedule's runs.

    Folders whose names begin with a dot are left out. Rules for alerts are not checked: these runs
    are of the past.

    Raises:
        ConfigError, DataError: the database cannot be used, or the folder holds no result.
    """
    folder = Path(folder)
    result_folders = _result_folders(folder)
    if not result_folders:
        raise DataError(
            f"{folder} holds no result; expected the folder of a sweep, of evaluations, or results/"
        )
    added = 0
    known = 0
    failed = {}
    for path in result_folders:
        try:
            rows = rows_of(load_result(path), path, client, "")  # "": the default series
        except RagbenchError as exc:
            failed[str(path)] = str(exc)
            continue
        with connected(database, write=True) as connection:
            is_new = store(connection, rows)
        if is_new:
            added += 1
        else:
            known += 1
    return ImportCounts(added, known, failed)


def _result_folders(folder: Path) -> list[Path]:
    """Return the folders of results below a folder, sorted, without hidden ones."""
    folders = set()
    for name in ("scores.csv", "run.trec"):  # every result has one of these files
        for path in folder.rglob(name):
            parts = path.relative_to(folder).parts
            if not any(part.startswith(".") for part in parts):
                folders.add(path.parent)
    return sorted(folders)


def run_in(folder: Path) -> tuple[RunRow, pd.DataFrame]:
    """Return the result in a folder as `run_of` returns a recorded run: its row, and its scores per measure.

    Raises:
        ConfigError, DataError: the folder holds no result, or it cannot be read.
    """
    rows = rows_of(load_result(folder), folder, "", "")
    scores = pd.DataFrame(rows.scores).drop(columns="run_id").sort_values("measure")
    return rows.run, main_first(scores)


def rows_of(result: Result, folder: Path | None, client: str, series: str) -> Rows:
    """Return the rows of the tables that record a result.

    Args:
        folder: the folder of its files; None = it was not saved.
        client, series: as in `record`.
    """
    questions = {str(query_id): str(question) for query_id, question in result.queries.items()}
    # a row per question in the order of their ids, a column per measure
    values = result.wide.reindex(sorted(questions)).astype("float64")
    run = {
        **_identity(result, folder, client, series, content=_content(folder, values)),
        **_outcome(result),
        "case_set": content_id("cases", questions),
        "questions": len(questions),
        "recorded_at": current_timestamp(),
        "location": "" if folder is None else folder.absolute().as_posix(),
    }
    scores = _score_rows(run["id"], result, values)
    return Rows(run, canonical(questions), scores, pairs_of(_cases_of(result)))


def _identity(
    result: Result, folder: Path | None, client: str, series: str, *, content: str
) -> Json:
    """Return the columns of a run that identify it: owner, names, settings, dataset, time and ids.

    "id" is made of the client, time, parameters, dataset and scores, which no two runs share. "epoch"
    is an id of all runs that can be compared: those with the same client, names, parameters, settings
    that change scores (`_CHANGING_SCORES`) and dataset.

    Args:
        folder, client, series: as in `rows_of`.
        content: the SHA-256 of its scores.
    """
    config = result.config
    dataset = config["dataset"]
    client = client or config.get("client", "")
    names = _names_over_time(result, folder, series)
    settings = result.settings
    changing_scores = {name: settings[name] for name in _CHANGING_SCORES if name in settings}
    parameters = {**result.parameters, "settings": changing_scores}
    fingerprint = str(dataset.get("fingerprint", ""))
    made_at = _made_at(result, folder)
    return {
        "id": content_id("run", client, made_at, result.parameters, fingerprint, content),
        "client_id": client,
        "kind": "sweep" if config.get("source") else "eval",
        **names,
        "epoch": content_id("epoch", client, names, parameters, fingerprint),
        "dataset": str(dataset.get("name", ""))[:_MAX_NAME],
        "split": str(dataset.get("split", "")),
        "fingerprint": fingerprint,
        "content": content,
        "made_at": made_at,
        "versions": canonical(config.get("environment", {})),
        "parameters": canonical(parameters),
    }


def _outcome(result: Result) -> Json:
    """Return the columns of a run that tell how it ended: whether it passed, cost, time and pass rates.

    "passed" is None if nothing decides, "questions_passed" if no question passed or failed.
    """
    verdict, _ = banner(result)  # "passed", "failed", or "no verdict" if nothing decides
    passed_of_verdict = {"passed": True, "failed": False}
    n_decided = result.counts.get("passed", 0) + result.counts.get("failed", 0)
    # category -> its pass rate, and the number of its questions that are scored
    categories = {row.category: [row.pass_rate, row.n_scored] for row in result.categories}
    return {
        "passed": passed_of_verdict.get(verdict),
        "questions_passed": result.counts.get("passed") if n_decided else None,
        "cost_usd": result.config.get("facts", {}).get("cost_usd"),
        "seconds": round(result.seconds, 3),
        "categories": canonical(categories),
    }


def _cases_of(result: Result) -> Iterable[Case]:
    """Return the cases of a result; of one that was loaded from files only id and question."""
    if result.output is None:
        return [Case(query_id, text) for query_id, text in result.queries.items()]
    return result.output.dataset.cases


def _names_over_time(result: Result, folder: Path | None, series: str) -> dict[str, str]:
    """Return the names of a result over time: {"series": ..., "configuration": ...}.

    The configuration is the result's name in a sweep, else the name of its system. The series is the
    first of these that is not "": `series`; the series that was set when the result was made; the name
    of the sweep's folder, or the dataset and system of an evaluation.
    """
    config = result.config
    if config.get("source"):  # a sweep
        configuration = result.name
        default = folder.absolute().parent.name if folder else ""
    else:
        configuration = str(result.system.get("name", ""))
        default = f"{config['dataset'].get('name', '')}, {configuration}"
        if subset := _subset_of_questions(result):
            default += f" ({subset})"
    series = series or config.get("series", "") or default
    return {"series": series[:_MAX_NAME], "configuration": configuration[:_MAX_NAME]}


def _subset_of_questions(result: Result) -> str:
    """Return in words which questions a result is about, such as "smoke, 20 questions"; "" means
    all.

    The words state the suite, the limit and the categories.
    """
    parts = []
    suite = result.settings.get("suite", "full")
    if suite != "full":
        parts.append(suite)
    if limit := result.settings.get("limit"):
        parts.append(f"{limit} questions")
    parts += result.settings.get("categories", ())
    return ", ".join(filter(None, parts))


def _score_rows(run_id: str, result: Result, values: pd.DataFrame) -> list[Json]:
    """Return the rows of the table of scores, one for each measure.

    Measures with values per question come first, then those that only a whole run has.

    Args:
        values: a row per question and a column per measure; NaN is unscored.
    """
    summary = {row.measure: row for row in result.rows}  # with intervals and targets
    rows = []
    for measure in dict.fromkeys([*values, *summary]):  # each measure once
        score: Json = {"run_id": run_id, "measure": measure[:_MAX_NAME], "case_values": None}
        row = summary.get(measure)
        for field in ("ci_low", "ci_high", "n_scored", "n", "target"):
            score[field] = getattr(row, field) if row else None
        score["mean"] = row.value if row else None
        # numbers from values per question replace the numbers of the summary, which may lack the measure
        if measure in values:
            score |= _numbers_of(values[measure])
        if score["mean"] is not None:
            score["mean"] = round(score["mean"], 6)
        rows.append(score)
    return rows


def _numbers_of(values: pd.Series) -> Json:
    """Compute columns of the table of scores from a measure's values per question.

    They are case_values (the values as bytes), n_scored, n and mean, which is left out if no question
    is scored.
    """
    numbers: Json = {
        "case_values": values.to_numpy().tobytes(),
        "n_scored": int(values.count()),
        "n": len(values),
    }
    if numbers["n_scored"]:
        numbers["mean"] = float(values.mean())
    return numbers


def _content(folder: Path | None, values: pd.DataFrame) -> str:
    """Return the SHA-256 of scores.csv; for a result without files, of its scores."""
    if folder is not None and (folder / "scores.csv").is_file():
        return content_of(folder)
    # in the order of names, so that the same scores have one digest
    hashed = sha256()
    for measure in sorted(map(str, values)):
        hashed.update(measure.encode())
        hashed.update(values[measure].to_numpy().tobytes())
    return hashed.hexdigest()


def content_of(folder: Path) -> str:
    """Return the SHA-256 of the scores.csv of a result."""
    return sha256((folder / "scores.csv").read_bytes()).hexdigest()


def _made_at(result: Result, folder: Path | None) -> str:
    """Return when a result was made, as the tables hold it; a time without a zone is local."""
    text = result.made_at
    try:
        at = datetime.fromisoformat(text)
    except ValueError as exc:
        name = folder.name if folder else result.name
        raise DataError(
            f"{name}: when it was made is not known, made_at is {text!r}; expected ISO 8601 such as "
            '"made_at": "2026-01-31T02:00:00+00:00" in its timings.json'
        ) from exc
    return timestamp(at if at.tzinfo else at.astimezone())
