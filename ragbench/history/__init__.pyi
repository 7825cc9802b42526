from .alerting import add_alert, alerts, raised_alerts, remove_alert, send_test
from .automatic import record_finished
from .database import database_url, upgrade
from .example import example_history
from .recording import Imported, import_results, record
from .schedules import (
    Ended,
    add_schedule,
    due_before,
    import_schedules,
    next_due,
    pause_schedule,
    remove_schedule,
    run_due,
    schedules,
)
from .trends import WATCHED, categories, compare_runs, drifts, history, run_of, scores_of, trend

__all__ = [
    "WATCHED",
    "Ended",
    "Imported",
    "add_alert",
    "add_schedule",
    "alerts",
    "categories",
    "compare_runs",
    "database_url",
    "drifts",
    "due_before",
    "example_history",
    "history",
    "import_results",
    "import_schedules",
    "next_due",
    "pause_schedule",
    "raised_alerts",
    "record",
    "record_finished",
    "remove_alert",
    "remove_schedule",
    "run_due",
    "run_of",
    "schedules",
    "scores_of",
    "send_test",
    "trend",
    "upgrade",
]
