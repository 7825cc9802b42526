"""The newest data set of a folder, for `ragbench eval --auto-generate-datasets`."""

from datetime import UTC, datetime
from pathlib import Path

from ragbench.datasets.raw_records import testset_record
from ragbench.testsets.forms import is_testset


def newest_testset(folder: Path) -> tuple[Path, datetime] | None:
    """Return the newest data set in a folder and its time; None if the folder holds no data set."""
    times = {path: _made_at(path) for path in sorted(folder.glob("*")) if _is_dataset(path)}
    if not times:
        return None
    newest = max(times, key=lambda path: times[path])
    return newest, times[newest]


def holds_documents(path: Path) -> bool:
    """Return True if a data set is a BEIR folder, as `ragbench testset generate` writes them."""
    return (path / "queries.jsonl").is_file()


def _is_dataset(path: Path) -> bool:
    """Return True for a test set in a file or a folder, in BEIR's form or any other."""
    return holds_documents(path) or is_testset(path)


def _made_at(path: Path) -> datetime:
    """Return the time at which a data set was made; if it is not recorded, of its last change."""
    created = testset_record(path).get("created_at") if path.is_dir() else None
    if created:
        return datetime.fromisoformat(str(created))
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)
