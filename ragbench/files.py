"""Files and folders that are whole or not there, whenever the process or the machine stops."""

from __future__ import annotations

import os
from pathlib import Path


def write_durably(path: Path, text: str) -> None:
    """Write UTF-8 with LF line ends and wait until the disk has it, so that a later rename cannot outrun the data."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def swap_in(new: Path, folder: Path, old: Path) -> None:
    """Put the folder `new` in the place of `folder`; what stood there ends up in `old`. Each step is one rename."""
    if folder.exists():
        folder.rename(old)
    try:
        new.rename(folder)
    except OSError:
        if old.exists():
            old.rename(folder)
        raise
