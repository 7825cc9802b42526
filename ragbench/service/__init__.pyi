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
from .cron_file import (
    import_schedules,
)
from .drift_tables import (
    category_rates,
    change_table,
    cost_per_hundred,
    drift_sentences,
    known_trends,
)
from .example_history import example_database, made_up_nights
from .history_database import (
    database_url,
)
from .keys import (
    add_key,
    api_keys,
    remove_key,
)
from .measure_trends import (
    drifts,
    trend,
)
from .recorded_runs import (
    compare_runs,
    history,
    run_of,
)
from .recording import (
    import_results,
    record,
)
from .scheduler import (
    add_schedule,
    next_due,
    overdue,
    pause_schedule,
    remove_schedule,
    run_due,
    schedules,
)
from .watched_measures import WATCHED

__all__ = [
    "WATCHED",
    "add_alert",
    "add_key",
    "add_schedule",
    "alerts",
    "api_keys",
    "category_rates",
    "change_table",
    "compare_runs",
    "cost_per_hundred",
    "database_url",
    "drift_sentences",
    "drifts",
    "example_database",
    "history",
    "import_results",
    "import_schedules",
    "known_trends",
    "made_up_nights",
    "next_due",
    "overdue",
    "pause_schedule",
    "raised_alerts",
    "record",
    "record_finished",
    "remove_alert",
    "remove_key",
    "remove_schedule",
    "run_due",
    "run_of",
    "schedules",
    "send_test",
    "trend",
]
