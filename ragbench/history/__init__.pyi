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
    "add_schedule",
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
    "record",
    "record_finished",
    "remove_schedule",
    "run_due",
    "run_of",
    "schedules",
    "scores_of",
    "trend",
    "upgrade",
]
