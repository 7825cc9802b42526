"""Rules for alerts, and the alerts that they raised."""

from alembic import op
from sqlalchemy import Boolean, Column, Integer, String, UniqueConstraint

from ragbench.service.tables import ID, LONG, MYSQL, NAME, TIME

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "alert_rule",
        Column("id", ID, primary_key=True),
        Column("client_id", NAME, nullable=False, server_default=""),
        Column("series", NAME, nullable=False),
        Column("rule", NAME, nullable=False),
        Column("point", Boolean, nullable=False),
        Column("targets", LONG, nullable=False),
        Column("made_at", TIME, nullable=False),
        **MYSQL,
    )  # fmt: skip
    op.create_table(
        "alert",
        Column("id", ID, primary_key=True),
        Column("rule_id", ID, nullable=False),
        Column("subject", ID, nullable=False),
        Column("made_at", TIME, nullable=False),
        Column("text", LONG, nullable=False),
        Column("state", String(16), nullable=False),
        Column("attempts", Integer, nullable=False, server_default="0"),
        Column("targets", LONG, nullable=False),
        Column("error", LONG, nullable=False),
        UniqueConstraint("rule_id", "subject", name="alert_once"),
        **MYSQL,
    )  # fmt: skip
