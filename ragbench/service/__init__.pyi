from .alert_rules import (
    add_alert,
    alerts,
    raised_alerts,
    remove_alert,
    send_test,
)
from .automatic import (
    record_finished,
)
from .example import (
    example_history,
)
from .fresh import (
    FreshQuestions,
)
from .history_database import (
    database_url,
)
from .job_queue import (
    QueueFullError,
    RunOutcome,
    cancel_job,
    jobs,
    request_job,
)
from .keys import (
    ROLES,
    ApiKey,
    add_key,
    api_keys,
    find_key,
    remove_key,
)
from .records import (
    ImportCounts,
    import_results,
    record,
)
from .scheduler import (
    add_schedule,
    due_before,
    import_schedules,
    next_due,
    pause_schedule,
    remove_schedule,
    run_due,
    schedules,
)
from .trends import (
    WATCHED,
    compare_runs,
    drifts,
    history,
    run_of,
    scores_of,
    trend,
)

__all__ = [
    "ROLES",
    "WATCHED",
    "ApiKey",
    "FreshQuestions",
    "ImportCounts",
    "QueueFullError",
    "RunOutcome",
    "add_alert",
    "add_key",
    "add_schedule",
    "alerts",
    "api_keys",
    "cancel_job",
    "compare_runs",
    "database_url",
    "drifts",
    "due_before",
    "example_history",
    "find_key",
    "history",
    "import_results",
    "import_schedules",
    "jobs",
    "next_due",
    "pause_schedule",
    "raised_alerts",
    "record",
    "record_finished",
    "remove_alert",
    "remove_key",
    "remove_schedule",
    "request_job",
    "run_due",
    "run_of",
    "schedules",
    "scores_of",
    "send_test",
    "trend",
]
