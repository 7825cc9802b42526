"""The folder of an evaluation: report.json, report.md, report.html and traces.jsonl, whole or not there."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError
from ragbench.files import swap_in, write_durably
from ragbench.report.evaluation.html import report_html
from ragbench.report.evaluation.markdown import report_markdown
from ragbench.report.evaluation.reading import report_json
from ragbench.report.evaluation.records import Report

TRACES = "traces.jsonl"
FILES = ("report.json", "report.md", "report.html", TRACES)
"""The files of an evaluation's folder; the last only where traces are kept."""

_ASIDE = ".running-"


def check_folder(folder: str | Path, *, force: bool = False) -> None:
    """Refuse a folder that cannot become an evaluation's, before anything is asked.

    Raises:
        ConfigError: something stands there; with `force`, something else than an evaluation.
    """
    path = Path(folder)
    try:
        if not path.exists():
            return
        if not path.is_dir():
            raise ConfigError(f"{path} is a file; name a folder for the report")
        strangers = sorted(entry.name for entry in path.iterdir() if entry.name not in FILES)
    except OSError as exc:
        raise ConfigError(f"{path} cannot be used: {exc.strerror}; name another folder for the report") from exc
    if strangers:
        raise ConfigError(f"{path} holds {strangers[0]!r}, which is no part of an evaluation; name another folder")
    if not force:
        raise ConfigError(f"{path} holds an evaluation already; name another folder, or replace it with --force")


def write_report(
    report: Report, folder: str | Path, *, traces: Sequence[Mapping[str, Any]] | None = None, force: bool = False
) -> Path:
    """Write an evaluation's files into `folder`, which is made; all of them or none.

    Args:
        report: what `evaluate` gave.
        folder: must not exist, or hold an evaluation and `force` be given.
        traces: one record per failed case, as from `failure_traces`; None writes no traces.jsonl.
        force: replace an evaluation that is there.

    Raises:
        ConfigError: the folder is taken, or cannot be written.
    """
    path = Path(folder)
    check_folder(path, force=force)
    texts = {
        "report.json": report_json(report),
        "report.md": report_markdown(report),
        "report.html": report_html(report),
    }
    if traces is not None:
        texts[TRACES] = "".join(json.dumps(trace, allow_nan=False) + "\n" for trace in traces)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=_ASIDE, dir=path.parent))
    except OSError as exc:
        raise ConfigError(f"{path} cannot be written: {exc.strerror or exc}") from exc
    try:
        new = aside / "new"
        new.mkdir()
        for name, text in texts.items():
            write_durably(new / name, text)
        swap_in(new, path, aside / "old")
    except OSError as exc:
        raise ConfigError(f"{path} cannot be written: {exc.strerror or exc}") from exc
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return path
