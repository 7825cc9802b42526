"""The files of the repository, without what a user has left next to them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def committed_files(folder: str) -> list[Path]:
    """Return the committed files below a folder of the repository; outside of a checkout all files."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", folder], cwd=ROOT, capture_output=True, text=True
    )
    names = [name for name in listed.stdout.split("\0") if name]
    if listed.returncode == 0 and names:
        return sorted(ROOT / name for name in names)
    return sorted(path for path in (ROOT / folder).rglob("*") if path.is_file())


def copy_committed(folder: str, target: Path) -> Path:
    """Copy the committed files below a folder of the repository to a folder `target`."""
    for path in committed_files(folder):
        copy = target / path.relative_to(ROOT / folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return target


def committed_notebooks() -> list[Path]:
    """Return the notebooks that a user starts from; copies of a user's own, and the pages of the guide,
    are not among them.
    """
    files = committed_files("notebooks")
    return [path for path in files if path.suffix == ".ipynb" and path.parent.name != "guide"]


def guide_pages() -> list[Path]:
    """Return the pages of the guide, Markdown and notebooks; those that a build writes are not among them."""
    files = committed_files("notebooks/guide")
    return [path for path in files if path.suffix in (".md", ".ipynb")]
