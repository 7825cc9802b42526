from .automatic import record_finished
from .database import database_url, upgrade
from .recording import Imported, import_results, record
from .trends import WATCHED, compare_runs, drifts, history, run_of, scores_of, trend

__all__ = [
    "WATCHED",
    "Imported",
    "compare_runs",
    "database_url",
    "drifts",
    "history",
    "import_results",
    "record",
    "record_finished",
    "run_of",
    "scores_of",
    "trend",
    "upgrade",
]
