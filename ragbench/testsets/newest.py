"""The newest data set of a folder."""

from datetime import UTC, datetime
from pathlib import Path

from ragbench.datasets.records import testset_record
from ragbench.testsets.forms import is_testset


def newest_testset(folder: Path) -> tuple[Path, datetime] | None:
    """Return the newest data set in a folder and when it was made; None where there is none."""
    made = {path: _made(path) for path in sorted(folder.glob("*")) if _is_dataset(path)}
    if not made:
        return None
    newest = max(made, key=lambda path: made[path])
    return newest, made[newest]


def holds_documents(path: Path) -> bool:
    """Return True if a data set is a BEIR folder, as `ragbench testset generate` writes them."""
    return (path / "queries.jsonl").is_file()


def _is_dataset(path: Path) -> bool:
    return holds_documents(path) or is_testset(path)


def _made(path: Path) -> datetime:
    """Return when a data set was made, or its file was changed last."""
    created = testset_record(path).get("created_at") if path.is_dir() else None
    if created:
        return datetime.fromisoformat(str(created))
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)
