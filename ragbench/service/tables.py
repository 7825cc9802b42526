"""The tables of the database of runs, with their columns and version, the same on SQLite,
PostgreSQL and MySQL.

Ids are hashes of the contents of a row, so that importing twice adds nothing and databases can be
merged. Times are ISO 8601 in UTC. Strings with an index have at most 190 characters, which is what
MySQL's indexes hold; text of any length is LONGTEXT there. Tables of another version are refused; a
migration from this one on finds it in `alembic_version`.
"""

import json
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
    Row,
    String,
    Table,
    Text,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.schema import SchemaItem

VERSION = "0004"
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


def _filled(**types: Any) -> list[Column[Any]]:
    return [Column(name, kind, nullable=False) for name, kind in types.items()]


def _id(kind: Any = ID) -> Column[Any]:
    return Column("id", kind, primary_key=True)


version = Table("alembic_version", metadata, Column("version_num", String(32), primary_key=True))
case_set = _table(
    "case_set",
    _id(),
    *_filled(cases=LONG),  # JSON: question by query_id, sorted by id
)
# The views evaluation_datasets and evaluation_runs show the numbers of datasets and runs as their
# ids.
dataset = _table(
    "dataset",
    _id(Integer),
    *_filled(
        client_id=NAME,
        name=NAME,
        created_at=TIME,  # of one that no server holds the first run that was recorded
    ),
    Column("qa_pairs", LONG),  # JSON: questions with reference answers, null where not known
    Column("created_by", NAME),  # the name of the key, or the command or schedule, that made it
    UniqueConstraint("client_id", "name", name="dataset_once"),
)
run = _table(
    "run",
    _id(),
    *_filled(
        client_id=NAME,
        kind=String(16),  # sweep, eval
        series=NAME,
        configuration=NAME,
        epoch=ID,  # client, series, configuration, parameters, fingerprint: comparable runs
        dataset=NAME,
        split=String(64),
        fingerprint=ID,
    ),
    Column("case_set", ID, ForeignKey("case_set.id"), nullable=False),
    *_filled(
        content=ID,  # SHA-256 of scores.csv: equal where every score is
        made_at=TIME,
        recorded_at=TIME,
    ),
    Column("passed", Boolean),  # NULL where the report has no verdict
    *_filled(questions=Integer),
    Column("questions_passed", Integer),
    Column("cost_usd", Double),
    Column("seconds", Double),
    *_filled(
        versions=LONG,  # JSON
        parameters=LONG,  # JSON
        categories=LONG,  # JSON: category -> [passed, questions]
        location=LONG,
    ),
    Index("run_made", "client_id", "made_at"),
    Index("run_named", "series", "made_at"),
    Index("run_of_line", "client_id", "series", "configuration", "epoch", "made_at", "recorded_at"),
)
score = _table(
    "score",
    Column("run_id", ID, ForeignKey("run.id", ondelete="CASCADE"), primary_key=True),
    Column("measure", NAME, primary_key=True),
    Column("mean", Double),
    Column("ci_low", Double),
    Column("ci_high", Double),
    *_filled(n_scored=Integer, n=Integer),
    # float64 per question of the case_set, little-endian; NaN = unscored
    Column("case_values", BYTES),
    Column("target", Double),  # NULL without a target
)
run_number = _table(
    "run_number",
    _id(Integer),
    Column("run_id", ID, ForeignKey("run.id", ondelete="CASCADE"), nullable=False, unique=True),
)
schedule = _table(
    "schedule",
    _id(),
    *_filled(
        client_id=NAME,
        name=NAME,
        cron=NAME,
        zone=NAME,
        command=LONG,  # JSON: the arguments of ragbench
        folder=LONG,  # its working folder
        options=LONG,  # JSON: the series of a request
        enabled=Boolean,
        made_at=TIME,
    ),
    UniqueConstraint("client_id", "name", name="schedule_name"),
)
job = _table(
    "job",
    _id(),
    Column("schedule_id", ID, ForeignKey("schedule.id", ondelete="CASCADE"), nullable=False),
    *_filled(due_at=TIME, state=String(16)),  # waiting, running, done, failed, cancelled
    Column("holder", NAME, nullable=False, default=""),
    Column("lease_until", TIME, nullable=False, default=""),
    Column("attempts", Integer, nullable=False, default=0),
    Column("exit_code", Integer),
    Column("output", LONG),
    Column("ended_at", TIME),
    Column("run_id", ID),  # that it recorded
    UniqueConstraint("schedule_id", "due_at", name="job_due"),
    Index("job_state", "state", "due_at"),
)
alert_rule = _table(
    "alert_rule",
    _id(),
    *_filled(
        client_id=NAME,
        series=NAME,  # "" = every evaluation
        rule=NAME,
        point=Boolean,  # the mean decides, not the whole interval
        targets=LONG,  # JSON: references to environment variables, never addresses
        remind_days=Integer,  # between the messages of one episode; 0 = no reminder
        made_at=TIME,
    ),
)
alert = _table(
    "alert",
    _id(),
    *_filled(
        rule_id=ID,  # stays when the rule is removed
        subject=ID,  # the run or the job
        kind=String(16),  # breach, reminder or recovery of an episode
        made_at=TIME,
        text=LONG,
        state=String(16),  # waiting, sending, sent, logged, failed
        attempts=Integer,
        targets=LONG,  # JSON: those that it was not sent to yet
        error=LONG,
    ),
    UniqueConstraint("rule_id", "subject", name="alert_once"),
)
api_key = _table(
    "api_key",
    _id(),  # a part of the key itself, by which it is found
    *_filled(
        client_id=NAME,  # "*" = every client's
        name=NAME,
        role=String(16),  # reader, runner, admin
        sha256=ID,  # of the whole key, which is stored nowhere
        created_at=TIME,
    ),
    UniqueConstraint("client_id", "name", name="api_key_name"),
)
session = _table(
    "session",
    _id(),  # the SHA-256 of its token
    *_filled(
        key_id=ID,  # of a key of the table, or of the key of one process
        used_at=TIME,
    ),
)
item = _table(
    "item",  # sent by a client: a case of /evaluation/test-cases, a document of /ingest
    Column("number", Integer, primary_key=True),  # in the order in which they came
    Column("id", ID, nullable=False, unique=True),
    *_filled(
        client_id=NAME,
        kind=String(16),  # case, document
        record=LONG,  # JSON: a line of the file that commands get
    ),
    Index("item_of", "client_id", "kind"),
)

# A measure at a single depth other than 5 is the measure of this depth. faithfulness is the
# judge's; the heuristic has a column under its own name.
_RUNS = """
CREATE {view} evaluation_runs AS
SELECT i.id, n.id AS dataset_id, p.mean AS precision_at_k, r.mean AS recall_at_k, m.mean AS mrr,
       f.mean AS faithfulness, c.mean AS claim_support, CAST(SUBSTR(p.measure, 3) AS {integer}) AS k,
       (SELECT {json_object}(s.measure, s.mean) FROM score s WHERE s.run_id = run.id) AS detailed_results,
       {time_of_run} AS created_at, run.id AS record, run.client_id
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
SELECT n.id, n.name, n.client_id, n.qa_pairs, {time_of_dataset} AS created_at, n.created_by
FROM dataset n
"""
_DIALECTS = {  # "time" turns a text into a time; SQLite has no type for times, and compares texts
    "sqlite": {
        "view": "VIEW IF NOT EXISTS",
        "integer": "INTEGER",
        "json_object": "json_group_object",
        "time": "strftime('%Y-%m-%d %H:%M:%f', {})",
    },
    "postgresql": {
        "view": "OR REPLACE VIEW",
        "integer": "INTEGER",
        "json_object": "json_object_agg",
        "time": "CAST({} AS TIMESTAMP WITH TIME ZONE)",
    },
    "mysql": {
        "view": "OR REPLACE VIEW",
        "integer": "SIGNED",
        "json_object": "JSON_OBJECTAGG",
        "time": "CAST(REPLACE(REPLACE({}, 'T', ' '), 'Z', '') AS DATETIME(3))",
    },
}


@event.listens_for(metadata, "after_create")
def _create_views(metadata: MetaData, connection: Connection, **options: Any) -> None:
    """Create the views `evaluation_runs` and `evaluation_datasets` after the tables were created, in the
    SQL of this kind of database.
    """
    words = _DIALECTS[connection.dialect.name.replace("mariadb", "mysql")]
    times = {
        "time_of_run": words["time"].format("run.made_at"),
        "time_of_dataset": words["time"].format("n.created_at"),  # n: the table `dataset`
    }
    for template in (_RUNS, _DATASETS):
        query = template.format(**words, **times)
        # SQLAlchemy would take a colon for the beginning of a parameter's name
        connection.execute(text(query.replace(":", r"\:")))


def series_of(schedule: Row[Any]) -> str:
    """Return the series of a schedule's runs."""
    return str(json.loads(schedule.options).get("series") or schedule.name)
