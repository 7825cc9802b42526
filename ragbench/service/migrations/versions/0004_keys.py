"""Keys for the server."""

from alembic import op
from sqlalchemy import Column, String, UniqueConstraint

from ragbench.service.tables import MYSQL, NAME, TIME

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "api_key",
        Column("id", String(64), primary_key=True),
        Column("client_id", NAME, nullable=False, server_default=""),
        Column("name", NAME, nullable=False),
        Column("role", String(16), nullable=False),
        Column("sha256", String(64), nullable=False),
        Column("created_at", TIME, nullable=False),
        Column("expires_at", TIME),
        Column("last_used_at", TIME),
        UniqueConstraint("client_id", "name", name="api_key_name"),
        **MYSQL,
    )  # fmt: skip
