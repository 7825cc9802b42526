"""The tables, the same on SQLite, PostgreSQL and MySQL.

Ids are hashes of what a row holds, so that importing twice adds nothing and databases can be
merged. Times are ISO 8601 in UTC. Strings with an index have at most 190 characters, which is what
MySQL's indexes hold; text of any length is LONGTEXT there. Tables of another version are refused; a
migration from this one on finds it in `alembic_version`.
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
from sqlalchemy.schema import SchemaItem

VERSION = "0002"
"""The version of these tables."""

metadata = MetaData()
_LONGEST = 2**32 - 1  # LONGTEXT and LONGBLOB, by the number of their bytes
LONG = Text().with_variant(Text(_LONGEST), "mysql", "mariadb")
BYTES = LargeBinary().with_variant(LargeBinary(_LONGEST), "mysql", "mariadb")
ID = String(64)
NAME = String(190)
TIME = String(32)


def _table(name: str, *parts: SchemaItem) -> Table:
    # Names differ by case ("words" and "Words"), which MySQL ignores otherwise.
    mysql: dict[str, Any] = {
        "mysql_engine": "InnoDB",
        "mysql_charset": "utf8mb4",
        "mysql_collate": "utf8mb4_bin",
    }
    return Table(name, metadata, *parts, **mysql)


def _filled(name: str, *parts: Any, **options: Any) -> Column[Any]:
    return Column(name, *parts, nullable=False, **options)


def _client() -> Column[Any]:
    return _filled("client_id", NAME, server_default="")


version = Table("alembic_version", metadata, Column("version_num", String(32), primary_key=True))
case_set = _table(
    "case_set",
    Column("id", ID, primary_key=True),
    _filled("cases", LONG),  # JSON: question by query_id, sorted by id
)
# The views evaluation_datasets and evaluation_runs show the numbers of datasets and runs as their
# ids.
dataset = _table(
    "dataset",
    Column("id", Integer, primary_key=True),
    _client(),
    _filled("name", NAME),
    _filled("created_at", TIME),  # of one that no server holds the first run that was recorded
    Column("qa_pairs", LONG),  # JSON: questions with reference answers, of one that a server holds
    UniqueConstraint("client_id", "name", name="dataset_once"),
)
run = _table(
    "run",
    Column("id", ID, primary_key=True),
    _client(),
    _filled("kind", String(16)),  # sweep, eval
    _filled("series", NAME),
    _filled("configuration", NAME),
    _filled("epoch", ID),  # client, series, configuration, parameters, fingerprint: comparable runs
    _filled("dataset", NAME),
    _filled("split", String(64)),
    _filled("fingerprint", ID),
    _filled("case_set", ID, ForeignKey("case_set.id")),
    _filled("content", ID),  # SHA-256 of scores.csv: equal where every score is
    _filled("made_at", TIME),
    _filled("recorded_at", TIME),
    Column("passed", Boolean),  # NULL where the user named no target and no baseline
    _filled("questions", Integer),
    Column("questions_passed", Integer),
    Column("cost_usd", Double),
    Column("seconds", Double),
    _filled("versions", LONG),  # JSON
    _filled("parameters", LONG),  # JSON
    _filled("categories", LONG),  # JSON: category -> [passed, questions]
    _filled("location", LONG),
    Index("run_made", "client_id", "made_at"),
    Index("run_named", "series", "made_at"),
    Index("run_of_line", "client_id", "series", "configuration", "epoch", "made_at", "recorded_at"),
)
verdict = _table(
    "verdict",  # whether a measure moved, by the runs of an epoch; computed again where they are others
    Column("id", ID, primary_key=True),  # of the epoch and the measure
    _filled("runs", Integer),
    _filled("recorded_at", TIME),  # the newest
    _filled("streams", Integer),
    _filled("kind", String(16)),  # worse, better, steady
    _filled("text", LONG),
)
score = _table(
    "score",
    Column("run_id", ID, ForeignKey("run.id", ondelete="CASCADE"), primary_key=True),
    Column("measure", NAME, primary_key=True),
    Column("mean", Double),
    Column("ci_low", Double),
    Column("ci_high", Double),
    _filled("n_scored", Integer),
    _filled("n", Integer),
    Column(
        "case_values", BYTES
    ),  # float64 per question of the case_set, little-endian; NaN = unscored
    Column("target", Double),  # NULL where there is none
)
run_number = _table(
    "run_number",
    Column("id", Integer, primary_key=True),
    _filled("run_id", ID, ForeignKey("run.id", ondelete="CASCADE"), unique=True),
)
schedule = _table(
    "schedule",
    Column("id", ID, primary_key=True),
    _client(),
    _filled("name", NAME),
    _filled("cron", NAME),
    _filled("zone", NAME),
    _filled("command", LONG),  # JSON: the arguments of ragbench
    _filled("folder", LONG),  # where it runs
    _filled("options", LONG),  # JSON: the series of a request
    _filled("enabled", Boolean),
    _filled("made_at", TIME),
    UniqueConstraint("client_id", "name", name="schedule_name"),
)
job = _table(
    "job",
    Column("id", ID, primary_key=True),
    _filled("schedule_id", ID, ForeignKey("schedule.id", ondelete="CASCADE")),
    _filled("due_at", TIME),
    _filled("state", String(16)),  # waiting, running, done, failed
    _filled("holder", NAME, server_default=""),
    _filled("lease_until", TIME, server_default=""),
    _filled("attempts", Integer, server_default="0"),
    Column("exit_code", Integer),
    Column("output", LONG),
    Column("ended_at", TIME),
    UniqueConstraint("schedule_id", "due_at", name="job_due"),
    Index("job_state", "state", "due_at"),
)
alert_rule = _table(
    "alert_rule",
    Column("id", ID, primary_key=True),
    _client(),
    _filled("series", NAME),  # "" = every evaluation
    _filled("rule", NAME),
    _filled("point", Boolean),  # the mean decides, not the whole interval
    _filled("targets", LONG),  # JSON: references to environment variables, never addresses
    _filled("made_at", TIME),
)
alert = _table(
    "alert",
    Column("id", ID, primary_key=True),
    _filled("rule_id", ID),  # stays when the rule is removed
    _filled("subject", ID),  # the run, the job, or the run since which there is silence
    _filled("made_at", TIME),
    _filled("text", LONG),
    _filled("state", String(16)),  # waiting, sending, sent, logged, failed
    _filled("attempts", Integer, server_default="0"),
    _filled("targets", LONG),  # JSON: those that it was not sent to yet
    _filled("error", LONG),
    UniqueConstraint("rule_id", "subject", name="alert_once"),
)
api_key = _table(
    "api_key",
    Column("id", ID, primary_key=True),  # a part of the key itself, by which it is found
    _client(),  # "*" = every client's
    _filled("name", NAME),
    _filled("role", String(16)),  # reader, runner, admin
    _filled("sha256", ID),  # of the whole key, which is stored nowhere
    _filled("created_at", TIME),
    UniqueConstraint("client_id", "name", name="api_key_name"),
)
session = _table(
    "session",
    Column("id", ID, primary_key=True),  # the SHA-256 of its token
    _filled("key_id", ID),  # of a key of the table, or of that of one process
    _filled("used_at", TIME),
)
item = _table(
    "item",  # what a client sent: a case of /evaluation/test-cases, a document of /ingest
    Column("number", Integer, primary_key=True),  # in the order in which they came
    _filled("id", ID, unique=True),
    _client(),
    _filled("kind", String(16)),  # case, document
    _filled("record", LONG),  # JSON: a line of the file that commands get
    Index("item_of", "client_id", "kind"),
)

# A measure at another depth than 5, of which there is one, is that of the depth that was asked for.
_RUNS = """
CREATE {view} evaluation_runs AS
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
CREATE {view} evaluation_datasets AS
SELECT n.id, n.name, n.client_id, COALESCE(n.qa_pairs, (
           SELECT c.cases FROM case_set c JOIN run ON run.case_set = c.id
           WHERE run.client_id = n.client_id AND run.dataset = n.name ORDER BY run.made_at DESC LIMIT 1
       )) AS qa_pairs, n.created_at, NULL AS created_by
FROM dataset n
"""
_DIALECTS = {
    "sqlite": {
        "view": "VIEW IF NOT EXISTS",
        "integer": "INTEGER",
        "json_object": "json_group_object",
    },
    "postgresql": {
        "view": "OR REPLACE VIEW",
        "integer": "INTEGER",
        "json_object": "json_object_agg",
    },
    "mysql": {"view": "OR REPLACE VIEW", "integer": "SIGNED", "json_object": "JSON_OBJECTAGG"},
}


@event.listens_for(metadata, "after_create")
def _create_views(metadata: MetaData, connection: Connection, **options: Any) -> None:
    words = _DIALECTS[connection.dialect.name.replace("mariadb", "mysql")]
    for view in (_RUNS, _DATASETS):
        connection.execute(text(view.format(**words)))


def series_of(schedule: Mapping[Any, Any]) -> str:
    """Return what the runs of a schedule are called over time."""
    return str(json.loads(schedule["options"]).get("series") or schedule["name"])
