"""Run by alembic with the connection that `ragbench.service.history_database` gives it."""

from alembic import context

from ragbench.service.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
