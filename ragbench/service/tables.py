"""The tables, the same on SQLite, PostgreSQL and MySQL.

Ids are hashes of what a row holds, so that importing twice adds nothing and databases can be merged. Times are ISO 8601
in UTC. Strings with an index have at most 190 characters, which is what MySQL's indexes hold; text of any length is
LONGTEXT there. Tables of another version are refused; a migration from this one on finds it in `alembic_version`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.dialects.mysql import LONGBLOB, LONGTEXT

VERSION = "0001"
"""The version of these tables."""

metadata = MetaData()
LONG = Text().with_variant(LONGTEXT(), "mysql", "mariadb")
BYTES = LargeBinary().with_variant(LONGBLOB(), "mysql", "mariadb")
ID = String(64)
NAME = String(190)
TIME = String(32)
# Names differ by case ("words" and "Words"), which MySQL ignores otherwise.
MYSQL: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def _client() -> Column[str]:
    return Column("client_id", NAME, nullable=False, server_default="")


version = Table("alembic_version", metadata, Column("version_num", String(32), primary_key=True))
case_set = Table(
    "case_set", metadata,
    Column("id", ID, primary_key=True),
    Column("cases", LONG, nullable=False),  # JSON: question by query_id, sorted by id
    **MYSQL,
)  # fmt: skip
# The views evaluation_datasets and evaluation_runs show the numbers of datasets and runs as their ids.
dataset = Table(
    "dataset", metadata,
    Column("id", Integer, primary_key=True),
    _client(),
    Column("name", NAME, nullable=False),
    Column("created_at", TIME, nullable=False),  # of one that no server holds the first run that was recorded
    Column("qa_pairs", LONG),  # JSON: questions with reference answers, of one that a server holds
    UniqueConstraint("client_id", "name", name="dataset_once"),
    **MYSQL,
)  # fmt: skip
run = Table(
    "run", metadata,
    Column("id", ID, primary_key=True),
    _client(),
    Column("kind", String(16), nullable=False),  # sweep, eval
    Column("series", NAME, nullable=False),
    Column("configuration", NAME, nullable=False),
    Column("epoch", ID, nullable=False),  # client, series, configuration, parameters, fingerprint: comparable runs
    Column("dataset", NAME, nullable=False),
    Column("split", String(64), nullable=False),
    Column("fingerprint", ID, nullable=False),
    Column("case_set", ID, ForeignKey("case_set.id"), nullable=False),
    Column("content", ID, nullable=False),  # SHA-256 of scores.csv: equal where every score is
    Column("made_at", TIME, nullable=False),
    Column("recorded_at", TIME, nullable=False),
    Column("passed", Boolean),  # NULL where the user named no target and no baseline
    Column("questions", Integer, nullable=False),
    Column("questions_passed", Integer),
    Column("cost_usd", Double),
    Column("seconds", Double),
    Column("versions", LONG, nullable=False),  # JSON
    Column("parameters", LONG, nullable=False),  # JSON
    Column("categories", LONG, nullable=False),  # JSON: category -> [passed, questions]
    Column("location", LONG, nullable=False),
    Index("run_made", "client_id", "made_at"),
    Index("run_named", "series", "made_at"),
    **MYSQL,
)  # fmt: skip
score = Table(
    "score", metadata,
    Column("run_id", ID, ForeignKey("run.id", ondelete="CASCADE"), primary_key=True),
    Column("measure", NAME, primary_key=True),
    Column("mean", Double),
    Column("ci_low", Double),
    Column("ci_high", Double),
    Column("n_scored", Integer, nullable=False),
    Column("n", Integer, nullable=False),
    Column("case_values", BYTES),  # float64 per question of the case_set, little-endian; NaN = unscored
    Column("target", Double),  # NULL where there is none
    **MYSQL,
)  # fmt: skip
run_number = Table(
    "run_number", metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", ID, ForeignKey("run.id", ondelete="CASCADE"), nullable=False, unique=True),
    **MYSQL,
)  # fmt: skip
schedule = Table(
    "schedule", metadata,
    Column("id", ID, primary_key=True),
    _client(),
    Column("name", NAME, nullable=False),
    Column("cron", NAME, nullable=False),
    Column("zone", NAME, nullable=False),
    Column("command", LONG, nullable=False),  # JSON: the arguments of ragbench
    Column("folder", LONG, nullable=False),  # where it runs
    Column("options", LONG, nullable=False),  # JSON: fresh, from, llm, max_cost; series of a request
    Column("enabled", Boolean, nullable=False),
    Column("made_at", TIME, nullable=False),
    UniqueConstraint("client_id", "name", name="schedule_name"),
    **MYSQL,
)  # fmt: skip
job = Table(
    "job", metadata,
    Column("id", ID, primary_key=True),
    Column("schedule_id", ID, ForeignKey("schedule.id", ondelete="CASCADE"), nullable=False),
    Column("due_at", TIME, nullable=False),
    Column("state", String(16), nullable=False),  # waiting, running, done, failed
    Column("holder", NAME, nullable=False, server_default=""),
    Column("lease_until", TIME, nullable=False, server_default=""),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("exit_code", Integer),
    Column("output", LONG),
    Column("ended_at", TIME),
    UniqueConstraint("schedule_id", "due_at", name="job_due"),
    Index("job_state", "state", "due_at"),
    **MYSQL,
)  # fmt: skip
alert_rule = Table(
    "alert_rule", metadata,
    Column("id", ID, primary_key=True),
    _client(),
    Column("series", NAME, nullable=False),  # "" = every evaluation
    Column("rule", NAME, nullable=False),
    Column("point", Boolean, nullable=False),  # the mean decides, not the whole interval
    Column("targets", LONG, nullable=False),  # JSON: references to environment variables, never addresses
    Column("made_at", TIME, nullable=False),
    **MYSQL,
)  # fmt: skip
alert = Table(
    "alert", metadata,
    Column("id", ID, primary_key=True),
    Column("rule_id", ID, nullable=False),  # stays when the rule is removed
    Column("subject", ID, nullable=False),  # the run, the job, or the run since which there is silence
    Column("made_at", TIME, nullable=False),
    Column("text", LONG, nullable=False),
    Column("state", String(16), nullable=False),  # waiting, sending, sent, logged, failed
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("targets", LONG, nullable=False),  # JSON: those that it was not sent to yet
    Column("error", LONG, nullable=False),
    UniqueConstraint("rule_id", "subject", name="alert_once"),
    **MYSQL,
)  # fmt: skip
api_key = Table(
    "api_key", metadata,
    Column("id", ID, primary_key=True),  # a part of the key itself, by which it is found
    _client(),  # "*" = every client's
    Column("name", NAME, nullable=False),
    Column("role", String(16), nullable=False),  # reader, runner, admin
    Column("sha256", ID, nullable=False),  # of the whole key, which is stored nowhere
    Column("created_at", TIME, nullable=False),
    Column("expires_at", TIME),  # NULL = never
    Column("last_used_at", TIME),
    UniqueConstraint("client_id", "name", name="api_key_name"),
    **MYSQL,
)  # fmt: skip

# A measure at another depth than 5, of which there is one, is that of the depth that was asked for.
_RUNS = """
CREATE {or_replace} VIEW evaluation_runs AS
SELECT i.id, n.id AS dataset_id, p.mean AS precision_at_k, r.mean AS recall_at_k, m.mean AS mrr,
       COALESCE(f.mean, c.mean) AS faithfulness, CAST(SUBSTR(p.measure, 3) AS {integer}) AS k,
       (SELECT {json_object}(s.measure, s.mean) FROM score s WHERE s.run_id = run.id) AS detailed_results,
       run.made_at AS created_at, run.id AS record, run.client_id
FROM run
JOIN run_number i ON i.run_id = run.id
JOIN dataset n ON n.client_id = run.client_id AND n.name = run.dataset
LEFT JOIN score p ON p.run_id = run.id AND p.measure = COALESCE(
     (SELECT CASE COUNT(*) WHEN 1 THEN MAX(o.measure) END FROM score o
      WHERE o.run_id = run.id AND o.measure LIKE 'P@%' AND o.measure <> 'P@5'), 'P@5')
LEFT JOIN score r ON r.run_id = run.id AND r.measure = REPLACE(p.measure, 'P@', 'R@')
LEFT JOIN score m ON m.run_id = run.id AND m.measure = 'RR'
LEFT JOIN score f ON f.run_id = run.id AND f.measure = 'llm_faithfulness'
LEFT JOIN score c ON c.run_id = run.id AND c.measure = 'claim_support'
"""
_DATASETS = """
CREATE {or_replace} VIEW evaluation_datasets AS
SELECT n.id, n.name, n.client_id, COALESCE(n.qa_pairs, (
           SELECT c.cases FROM case_set c JOIN run ON run.case_set = c.id
           WHERE run.client_id = n.client_id AND run.dataset = n.name ORDER BY run.made_at DESC LIMIT 1
       )) AS qa_pairs, n.created_at, NULL AS created_by
FROM dataset n
"""
_DIALECTS = {
    "sqlite": {"or_replace": "", "integer": "INTEGER", "json_object": "json_group_object"},
    "postgresql": {"or_replace": "OR REPLACE", "integer": "INTEGER", "json_object": "json_object_agg"},
    "mysql": {"or_replace": "OR REPLACE", "integer": "SIGNED", "json_object": "JSON_OBJECTAGG"},
}


@event.listens_for(metadata, "after_create")
def _create_views(metadata: MetaData, connection: Connection, **options: Any) -> None:
    words = _DIALECTS[connection.dialect.name.replace("mariadb", "mysql")]
    for view in (_RUNS, _DATASETS):
        connection.execute(text(view.format(**words)))


def series_of(schedule: Mapping[Any, Any]) -> str:
    """Return what the runs of a schedule are called over time."""
    return str(json.loads(schedule["options"]).get("series") or schedule["name"])
