"""The first tables: runs, their scores, the questions and the datasets that they are about."""

from alembic import op
from sqlalchemy import Boolean, Column, Double, ForeignKey, Index, Integer, String

from ragbench.service.tables import BYTES, ID, LONG, MYSQL, NAME, TIME

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "case_set",
        Column("id", ID, primary_key=True),
        Column("cases", LONG, nullable=False),
        **MYSQL,
    )  # fmt: skip
    op.create_table(
        "dataset",
        Column("id", ID, primary_key=True),
        Column("client_id", NAME, nullable=False, server_default=""),
        Column("name", NAME, nullable=False),
        Column("split", String(64), nullable=False),
        Column("fingerprint", ID, nullable=False),
        Column("made_at", TIME, nullable=False),
        Column("recipe", LONG, nullable=False),
        Index("dataset_name", "client_id", "name"),
        **MYSQL,
    )  # fmt: skip
    op.create_table(
        "run",
        Column("id", ID, primary_key=True),
        Column("client_id", NAME, nullable=False, server_default=""),
        Column("kind", String(16), nullable=False),
        Column("series", NAME, nullable=False),
        Column("configuration", NAME, nullable=False),
        Column("epoch", ID, nullable=False),
        Column("dataset", NAME, nullable=False),
        Column("split", String(64), nullable=False),
        Column("fingerprint", ID, nullable=False),
        Column("case_set", ID, ForeignKey("case_set.id"), nullable=False),
        Column("content", ID, nullable=False),
        Column("made_at", TIME, nullable=False),
        Column("recorded_at", TIME, nullable=False),
        Column("passed", Boolean),
        Column("questions", Integer, nullable=False),
        Column("questions_passed", Integer),
        Column("cost_usd", Double),
        Column("seconds", Double),
        Column("versions", LONG, nullable=False),
        Column("parameters", LONG, nullable=False),
        Column("categories", LONG, nullable=False),
        Column("location", LONG, nullable=False),
        Index("run_made", "client_id", "made_at"),
        Index("run_series", "client_id", "series", "made_at"),
        **MYSQL,
    )  # fmt: skip
    op.create_table(
        "score",
        Column("run_id", ID, ForeignKey("run.id", ondelete="CASCADE"), primary_key=True),
        Column("measure", NAME, primary_key=True),
        Column("mean", Double),
        Column("ci_low", Double),
        Column("ci_high", Double),
        Column("n_scored", Integer, nullable=False),
        Column("n", Integer, nullable=False),
        Column("case_values", BYTES),
        **MYSQL,
    )  # fmt: skip
