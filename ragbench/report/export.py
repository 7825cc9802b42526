"""Saved results for others: a table for colleagues, a run of MLflow."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from ragbench.errors import ConfigError, MissingExtraError, SystemsError, require
from ragbench.evaluation import Result, Results, own_version
from ragbench.evaluation.formats import scores_to_csv
from ragbench.files import check_writable, write_durably
from ragbench.report.page import report_texts
from ragbench.statistics import summarise
from ragbench.text import shielded

_TABLES = (".csv", ".parquet", ".xlsx")


def export_table(
    results: Result | Sequence[Result],
    path: str | Path,
    *,
    questions: bool = False,
    force: bool = False,
) -> Path:
    """Write scores as a table: name (of the result), query_id, category, measure, value (empty =
    unscored).

    Args:
        path: a file that ends in .csv, .parquet or .xlsx (the extra `xlsx`). In .csv and .xlsx a
        text that a
            spreadsheet would take for a formula has an apostrophe before it.
        questions: one row per result and question instead: question, answer, outcome, passed,
        cause, main measures. force: replace the file.

    Raises:
        ConfigError: the name ends otherwise, the file is there, or cannot be written.
    """
    path, several = Path(path), results_of(results)
    suffix = path.suffix.lower()
    if suffix not in _TABLES:
        raise ConfigError(f"{path} is not the name of a table; end it in {', '.join(_TABLES)}")
    if path.exists() and not force:
        raise ConfigError(f"{path} is there already; name another file, or replace it with --force")
    table = several.questions if questions else several.scores
    if not questions:
        categories = {
            (result.name, case.query_id): case.category
            for result in several
            for case in result.cases
        }
        table.insert(
            2,
            "category",
            [categories.get(key, "") for key in zip(table["name"], table["query_id"], strict=True)],
        )
    if suffix != ".parquet":
        texts = table.select_dtypes(["object", "str"]).columns
        table[texts] = table[texts].map(
            lambda cell: shielded(cell) if isinstance(cell, str) else cell
        )
    out = io.BytesIO()
    try:
        check_writable(path)
        if suffix == ".csv":
            out.write(table.to_csv(index=False, lineterminator="\n").encode())
        elif suffix == ".parquet":
            table.to_parquet(out, index=False)
        else:
            illegal = require("openpyxl.cell.cell", "xlsx").ILLEGAL_CHARACTERS_RE
            table[texts] = table[texts].replace(illegal, " ", regex=True)
            table.to_excel(out, index=False, freeze_panes=(1, 0))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, out.getvalue())
    except MissingExtraError:
        raise
    except (OSError, ValueError) as exc:  # a sheet has 1,048,576 rows at most
        raise ConfigError(f"{path} cannot be written: {exc}") from exc
    return path


def export_mlflow(
    results: Result | Sequence[Result], tracking_uri: str, *, experiment: str = "ragbench"
) -> dict[str, str]:
    """Write each result as a run of MLflow (the extra `mlflow`): its parameters, means with
    intervals, and reports.

    A result that is there already, with the same scores and time, is left as it is. The reports
    that are attached hold questions and answers. `@` in names of measures, which MLflow does not
    take, becomes `_at_`.

    Args:
        tracking_uri: such as "sqlite:///mlflow.db" or "http://localhost:5000".

    Returns:
        name of the result -> id of its run.

    Raises:
        SystemsError: MLflow does not take it.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # before its import
    mlflow = require("mlflow", "mlflow")
    from mlflow.entities import Metric, Param

    runs = {}
    try:
        client = mlflow.MlflowClient(tracking_uri)
        known_as = client.get_experiment_by_name(experiment)
        experiment_id = known_as.experiment_id if known_as else client.create_experiment(experiment)
        for result in results_of(results):
            identity = content_id(result)
            earlier = client.search_runs([experiment_id], f"tags.`ragbench.content` = '{identity}'")
            finished = [run.info.run_id for run in earlier if run.info.status == "FINISHED"]
            if finished:
                runs[result.name] = finished[0]
                continue
            for run in earlier:  # an export that was stopped
                client.delete_run(run.info.run_id)
            made_at, data = made_ms(result), result.config["dataset"]
            tags = {
                f"ragbench.{name}": str(data.get(name, ""))
                for name in ("name", "split", "fingerprint")
            }
            tags |= {"ragbench.content": identity, "ragbench.version": own_version()}
            run_id = client.create_run(experiment_id, made_at, tags, result.name).info.run_id
            means = summarise(result.scores).rename(columns={"mean": ""})[
                ["measure", "", "ci_low", "ci_high"]
            ]
            metrics = [
                Metric(
                    "/".join(filter(None, [_metric_name(measure), column])),
                    float(value),
                    made_at,
                    0,
                )
                for measure, column, value in means.melt("measure").dropna().itertuples(index=False)
            ]
            params = [Param(name, str(value)[:6000]) for name, value in result.parameters.items()]
            for start in range(0, max(len(metrics), len(params)), 100):  # its limit for parameters
                client.log_batch(run_id, metrics[start : start + 100], params[start : start + 100])
            for file, text in {
                **report_texts(result),
                "scores.csv": scores_to_csv(result.scores),
            }.items():
                client.log_text(run_id, text, file)
            client.set_terminated(run_id)
            runs[result.name] = run_id
    except mlflow.exceptions.MlflowException as exc:
        where = tracking_uri.rpartition("@")[2]  # without a password
        raise SystemsError(
            f"MLflow at {where} did not take it: {str(exc).replace(tracking_uri, where)}"
        ) from exc
    return runs


def _metric_name(measure: str) -> str:
    """
    >>> _metric_name("nDCG@10"), _metric_name("span:P(rel=2)@5")
    ('nDCG_at_10', 'span:P_rel_2__at_5')
    """
    return re.sub(r"[^\w .:/-]", "_", measure.replace("@", "_at_"))


def content_id(result: Result) -> str:
    """Return what distinguishes a result from all others: 64 hex digits of its name, time, data and
    scores.
    """
    parts = [result.name, result.config.get("made_at"), result.config["dataset"].get("fingerprint")]
    return sha256(f"{parts}{scores_to_csv(result.scores)}".encode()).hexdigest()


def made_ms(result: Result) -> int:
    """Return when a result was made, in milliseconds since 1970; now, where that is not known."""
    made_at = result.config.get("made_at")
    return int(
        (datetime.fromisoformat(made_at) if made_at else datetime.now(UTC)).timestamp() * 1000
    )


def results_of(results: Result | Sequence[Result]) -> Results:
    """Return one or several results as `Results`."""
    return Results([results] if isinstance(results, Result) else results)
