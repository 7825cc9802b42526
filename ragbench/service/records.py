"""Runs into the database: what a sweep or an evaluation finished, and the folders of earlier ones.

The files are the truth: everything in the database can be made again from the folders of results, and is then equal but
for the time of recording and the numbers of runs and datasets.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sqlalchemy import Connection, insert, select, update
from sqlalchemy.exc import IntegrityError

from ragbench.errors import DataError, RagbenchError
from ragbench.evaluation import Result, load_result
from ragbench.evaluation.records import Report
from ragbench.service import tables
from ragbench.service.history_database import add_once, canonical, connected, content_id, now, timestamp

_NAME = 190
# Settings of an evaluation that change numbers, so that runs with others are not compared.
_DECIDING = (
    "embedder", "support_model", "judge", "cases", "weights", "detector", "suite", "sample", "seed", "categories",
    "calibration",
)  # fmt: skip


class ImportCounts(NamedTuple):
    """What an import did: runs that were added, runs that were known, and folder -> why it could not be read."""

    added: int
    known: int
    failed: Mapping[str, str]


class Rows(NamedTuple):
    """The row of a run, its questions as JSON, and the rows of its scores."""

    run: dict[str, Any]
    cases: str
    scores: list[dict[str, Any]]


def record(
    results: Iterable[tuple[Result, Path | None]], *, client: str = "", series: str = "", database: str = "",
    alert: bool = True,
) -> list[str]:  # fmt: skip
    """Add results with the places that they were saved in; the ids of those that were not known yet.

    `series` is what they are called over time; "" = what RAGBENCH_SERIES named when they were made, else the name of
    their sweep, or the dataset and the system of an evaluation. `client` is whose they are; "" = what RAGBENCH_CLIENT
    named. `alert`: check the rules of `add_alert`, and send what they raise.

    Raises:
        ConfigError, DataError: the database cannot be used, or the time of a result is not known.
    """
    added = []
    for rows in [rows_of(result, place, client, series) for result, place in results]:
        try:
            with connected(database, write=True) as connection:
                new = store(connection, rows, alert=alert)
        except DataError as exc:
            if not isinstance(exc.__cause__, IntegrityError):  # else another process records the same run
                raise
            continue
        added += [rows.run["id"]] if new else []
    if added and alert:
        from ragbench.service.alert_rules import send_or_warn

        send_or_warn(database)
    return added


def store(connection: Connection, rows: Rows, *, alert: bool = False) -> bool:
    """Add a run in a transaction, unless it is known; `alert`: with the alerts that it raises."""
    run = rows.run
    if connection.execute(select(tables.run.c.id).where(tables.run.c.id == run["id"])).first():
        return False
    add_once(connection, tables.case_set, {"id": run["case_set"], "cases": rows.cases})
    number_of_dataset(connection, run["client_id"], run["dataset"], created_at=run["made_at"])
    connection.execute(insert(tables.run), run)
    connection.execute(insert(tables.run_number), {"run_id": run["id"]})
    if rows.scores:
        connection.execute(insert(tables.score), rows.scores)
    if alert and connection.execute(select(tables.alert_rule.c.id).limit(1)).first():
        from ragbench.service.alert_rules import raise_alerts

        raise_alerts(connection, run["id"])
    return True


def number_of_dataset(connection: Connection, client: str, name: str, **about: str) -> int:
    """The number of a dataset; a new one where it has none. `about` are further columns of its row."""
    key, of = {"client_id": client, "name": name}, tables.dataset.c
    number = select(of.id).where(of.client_id == client, of.name == name)
    if connection.execute(number).first() is None:
        with suppress(IntegrityError), connection.begin_nested():  # another process may be faster
            connection.execute(insert(tables.dataset), {**key, **about})
    if "qa_pairs" in about:
        connection.execute(update(tables.dataset).where(of.client_id == client, of.name == name).values(about))
    return int(connection.execute(number.with_for_update()).scalar_one())


def import_results(folder: str | Path, *, client: str = "", series: str = "", database: str = "") -> ImportCounts:
    """Add every result in a folder, at any depth: of a result, of a sweep, of evaluations, of a schedule.

    Rules for alerts are not checked: these runs are of the past.

    Raises:
        ConfigError, DataError: the database cannot be used, or the folder holds no result.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; expected one with results, such as results/")
    found = sorted({path.parent for name in ("scores.csv", "run.trec", "report.json") for path in folder.rglob(name)
                    if not any(part.startswith(".") for part in path.relative_to(folder).parts)})  # fmt: skip
    if not found:
        raise DataError(f"{folder} holds no result; expected the folder of a sweep, of evaluations, or results/")
    added = known = 0
    failed = {}
    for path in found:
        try:
            result = load_result(path)
            _made_at(result, path)
        except RagbenchError as exc:
            failed[str(path)] = str(exc)
            continue
        new = len(record([(result, path)], client=client, series=series, database=database, alert=False))
        added, known = added + new, known + 1 - new
    return ImportCounts(added, known, failed)


def rows_of(result: Result, place: Path | None, client: str, named: str) -> Rows:
    """What the tables hold of a result."""
    report, config = result.report, result.config
    source = config.get("source", {})
    kind = "sweep" if source else "eval"
    parent = place.absolute().parent.name if place is not None else ""
    settings, system = report.settings, str(report.system.get("name", ""))
    suite, sample = settings.get("suite", "full"), settings.get("sample")
    parts = ["" if suite == "full" else suite, f"{sample} questions" if sample else "", *settings.get("categories", ())]
    part = ", ".join(filter(None, parts))
    evaluated = f"{config['dataset'].get('name', '')}, {system}" + f" ({part})" * bool(part)
    series, configuration = (parent, result.name) if source else (evaluated, system)
    series, client = named or config.get("series", "") or series, client or config.get("client", "")
    deciding = {name: settings[name] for name in _DECIDING if name in settings}
    parameters = {**result.parameters, "settings": deciding}
    fingerprint = str(config["dataset"].get("fingerprint", ""))
    texts = {str(query_id): str(question) for query_id, question in result.queries.items()}
    cases = canonical(texts)
    values = _values(result, sorted(texts))
    made_at, content = _made_at(result, place), _content(place, values)
    names = {"series": series[:_NAME], "configuration": configuration[:_NAME]}
    regressed = None if report.comparison is None else bool(report.comparison.regressions)
    counts, cost = report.counts, config.get("facts", {}).get("cost_usd")
    run = {
        "id": content_id("run", client, made_at, result.parameters, fingerprint, content),
        "client_id": client,
        "kind": kind,
        **names,
        "epoch": content_id("epoch", client, names, parameters, fingerprint),
        "dataset": str(config["dataset"].get("name", ""))[:_NAME],
        "split": str(config["dataset"].get("split", "")),
        "fingerprint": fingerprint,
        "case_set": content_id("cases", texts),
        "content": content,
        "made_at": made_at,
        "recorded_at": now(),
        "passed": report.passed if settings.get("named") else None if regressed is None else not regressed,
        "questions": len(texts),
        "questions_passed": counts.get("passed") if counts.get("passed", 0) + counts.get("failed", 0) else None,
        "cost_usd": cost,
        "seconds": round(_seconds(result.timings), 3),
        "versions": canonical(config.get("environment", {})),
        "parameters": canonical(parameters),
        "categories": canonical({one.category: [one.pass_rate, one.n_scored] for one in report.categories}),
        "location": "" if place is None else place.absolute().as_posix(),
    }
    return Rows(run, cases, _scores(run["id"], report, values, len(texts)))


def _seconds(timings: Mapping[str, float]) -> float:
    """The sum of the stages; "ask", where it is there, holds those of the pipeline."""
    within = ("chunk", "index", "search", "generate", "ablations") if "ask" in timings else ()
    return math.fsum(value for stage, value in timings.items() if stage not in within)


def _values(result: Result, query_ids: list[str]) -> dict[str, Any]:
    """Measure -> its values in the order of the questions."""
    codes, measures = pd.factorize(result.scores["measure"])
    at = pd.Index(query_ids).get_indexer(pd.Index(result.scores["query_id"].astype(str)))
    table = np.full((len(measures), len(query_ids)), np.nan, dtype="<f8")
    table[codes[at >= 0], at[at >= 0]] = result.scores["value"].to_numpy(dtype=float)[at >= 0]
    return dict(zip(map(str, measures), table, strict=True))


def _scores(run_id: str, report: Report, values: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    summary = {row.measure: row for row in report.measures}
    rows = []
    for measure in {**values, **summary}:
        row, own = summary.get(measure), values.get(measure)
        scored = own[~np.isnan(own)] if own is not None else np.empty(0)
        mean = float(scored.mean()) if len(scored) else None if row is None else row.value
        rows.append(
            {
                "run_id": run_id,
                "measure": measure[:_NAME],
                "mean": None if mean is None else round(mean, 6),
                "ci_low": None if row is None else row.ci_low,
                "ci_high": None if row is None else row.ci_high,
                "n_scored": len(scored) if own is not None or row is None else row.n_scored,
                "n": count if own is not None or row is None else row.n,
                "case_values": None if own is None else own.tobytes(),
                "target": None if row is None else row.target,
            }
        )
    return rows


def _content(place: Path | None, values: Mapping[str, Any]) -> str:
    """SHA-256 of scores.csv; of a result without files, of its scores."""
    file = None if place is None else place / "scores.csv"
    if file is not None and file.is_file():
        return sha256(file.read_bytes()).hexdigest()
    return sha256(b"".join(name.encode() + values[name].tobytes() for name in sorted(values))).hexdigest()


def _made_at(result: Result, place: Path | None) -> str:
    """When it was made: by its configuration, or by its report."""
    given = str(result.config.get("made_at") or (result.verdicts.made.at if result.verdicts else ""))
    if not given and place is not None:
        raise DataError(
            f"{place.name}: when it was made is not known; add "
            '"made_at": "2026-01-31T02:00:00+00:00" to its config.json'
        )
    try:
        at = datetime.fromisoformat(re.sub(r"Z$", "+00:00", given))
        return timestamp(at if at.tzinfo else at.astimezone())
    except ValueError as exc:
        raise DataError(f"{result.name}: made_at is {given!r}; expected ISO 8601 with a time zone") from exc
