from .automatic import record_finished
from .database import database_url, upgrade
from .example import example_history
from .recording import Imported, import_results, record
from .trends import WATCHED, categories, compare_runs, drifts, history, run_of, scores_of, trend

__all__ = [
    "WATCHED",
    "Imported",
    "categories",
    "compare_runs",
    "database_url",
    "drifts",
    "example_history",
    "history",
    "import_results",
    "record",
    "record_finished",
    "run_of",
    "scores_of",
    "trend",
    "upgrade",
]
