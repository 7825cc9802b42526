"""Schedules and their jobs."""

from alembic import op
from sqlalchemy import Boolean, Column, ForeignKey, Index, Integer, String, UniqueConstraint

from ragbench.service.tables import ID, LONG, MYSQL, NAME, TIME

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "schedule",
        Column("id", ID, primary_key=True),
        Column("client_id", NAME, nullable=False, server_default=""),
        Column("name", NAME, nullable=False),
        Column("cron", NAME, nullable=False),
        Column("zone", NAME, nullable=False),
        Column("command", LONG, nullable=False),
        Column("folder", LONG, nullable=False),
        Column("options", LONG, nullable=False),
        Column("enabled", Boolean, nullable=False),
        Column("made_at", TIME, nullable=False),
        UniqueConstraint("client_id", "name", name="schedule_name"),
        **MYSQL,
    )  # fmt: skip
    op.create_table(
        "job",
        Column("id", ID, primary_key=True),
        Column("schedule_id", ID, ForeignKey("schedule.id", ondelete="CASCADE"), nullable=False),
        Column("due_at", TIME, nullable=False),
        Column("state", String(16), nullable=False),
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
