"""Whole numbers of runs and datasets, the views of the guide's interface, and the targets of measures."""

from alembic import op
from sqlalchemy import Column, Double, ForeignKey, Integer, UniqueConstraint

from ragbench.service.tables import ID, LONG, MYSQL, NAME, TIME

revision = "0006"
down_revision = "0005"

# A measure at another depth than 5, of which there is one, is that of the depth that was asked for.
_RUNS = """
CREATE VIEW evaluation_runs AS
SELECT i.id, n.id AS dataset_id, p.mean AS precision_at_k, r.mean AS recall_at_k, m.mean AS mrr,
       COALESCE(f.mean, c.mean) AS faithfulness, CAST(SUBSTR(p.measure, 3) AS {number}) AS k,
       (SELECT {object}(s.measure, s.mean) FROM score s WHERE s.run_id = run.id) AS detailed_results,
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
CREATE VIEW evaluation_datasets AS
SELECT n.id, n.name, n.client_id, COALESCE(n.qa_pairs, (
           SELECT c.cases FROM case_set c JOIN run ON run.case_set = c.id
           WHERE run.client_id = n.client_id AND run.dataset = n.name ORDER BY run.made_at DESC LIMIT 1
       )) AS qa_pairs, n.created_at, NULL AS created_by
FROM dataset n
"""


def upgrade() -> None:
    op.rename_table("dataset", "dataset_version")
    op.create_table(
        "dataset",
        Column("id", Integer, primary_key=True),
        Column("client_id", NAME, nullable=False, server_default=""),
        Column("name", NAME, nullable=False),
        Column("created_at", TIME, nullable=False),
        Column("qa_pairs", LONG),
        UniqueConstraint("client_id", "name", name="dataset_once"),
        **MYSQL,
    )  # fmt: skip
    op.create_table(
        "run_number",
        Column("id", Integer, primary_key=True),
        Column("run_id", ID, ForeignKey("run.id", ondelete="CASCADE"), nullable=False, unique=True),
        **MYSQL,
    )  # fmt: skip
    op.add_column("score", Column("target", Double))
    op.execute(
        "INSERT INTO dataset (client_id, name, created_at) "
        "SELECT client_id, name, MIN(made_at) FROM dataset_version GROUP BY client_id, name ORDER BY MIN(made_at)"
    )
    op.drop_table("dataset_version")
    op.execute("INSERT INTO run_number (run_id) SELECT id FROM run ORDER BY made_at")
    dialect = op.get_bind().dialect.name
    names = {"sqlite": "json_group_object", "postgresql": "json_object_agg"}
    number = "INTEGER" if dialect in names else "SIGNED"
    op.execute(_RUNS.format(object=names.get(dialect, "JSON_OBJECTAGG"), number=number))
    op.execute(_DATASETS)
