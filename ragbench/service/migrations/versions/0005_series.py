"""An index for the runs of a series, of any client: without it SQLite reads every score for a trend."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_index("run_named", "run", ["series", "made_at"])
    op.drop_index("run_series", "run")
