"""An evaluation on disk: a folder with report.json, report.md, report.html and traces.jsonl, or one of these files."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError
from ragbench.evaluation.records import Report
from ragbench.evaluation.schema import report_json
from ragbench.files import swap_in, write_durably
from ragbench.report.evaluation.html import report_html
from ragbench.report.evaluation.markdown import report_markdown

TRACES = "traces.jsonl"
ANSWERS = "answers.jsonl"
"""The answers of a system as they came; a folder with nothing else is that of an evaluation that was stopped."""

FILES = ("report.json", "report.md", "report.html", TRACES, ANSWERS)
"""The files of an evaluation's folder; the last two only where traces or answers are kept."""

_FORMS = {".json": report_json, ".md": report_markdown, ".html": report_html}
_BEGINNINGS = ('{\n "schema":', "# Evaluation: ")
_GENERATOR = '<meta name="generator" content="ragbench">'
_ASIDE = ".running-"


def is_report_file(path: str | Path) -> bool:
    """Whether a path names one report and not a folder: it ends in .json, .md or .html.

    >>> is_report_file("out/report.html"), is_report_file("out/mine")
    (True, False)
    """
    return Path(path).suffix.lower() in _FORMS


def check_output(path: str | Path, *, force: bool = False) -> None:
    """Refuse a place where no report could be written, before anything is asked.

    Raises:
        ConfigError: something is there already (with `force`, something else than an evaluation), or the place cannot
            be written.
    """
    place = Path(path)
    try:
        if is_report_file(place):
            _check_file(place, force)
        elif place.exists():
            _check_folder(place, force)
        _check_writable(place)
    except OSError as exc:
        raise ConfigError(f"{place} cannot be used: {exc.strerror or exc}; name another place for the report") from exc


def _check_file(file: Path, force: bool) -> None:
    if file.is_dir():
        raise ConfigError(f"{file} is a folder; name a file for the report")
    if not file.exists():
        return
    begin = file.read_bytes()[:500].decode("utf-8", "replace")
    if not any(begin.startswith(known) for known in _BEGINNINGS) and _GENERATOR not in begin:
        raise ConfigError(f"{file} is a file that is no report of an evaluation; name another one")
    if not force:
        raise ConfigError(f"{file} holds a report already; name another file, or replace it with --force")


def _check_folder(folder: Path, force: bool) -> None:
    if not folder.is_dir():
        raise ConfigError(f"{folder} is a file; name a folder for the report, or a file ending in {', '.join(_FORMS)}")
    inside = sorted(entry.name for entry in folder.iterdir())
    if strangers := [name for name in inside if name not in FILES]:
        raise ConfigError(f"{folder} holds {strangers[0]!r}, which is no part of an evaluation; name another folder")
    if inside and inside != [ANSWERS] and not force:
        raise ConfigError(f"{folder} holds an evaluation already; name another folder, or replace it with --force")


def _check_writable(place: Path) -> None:
    """OSError where nothing could be created at that place; what is created to find out is removed."""
    nearest = next(parent for parent in place.absolute().parents if parent.exists())
    for folder in {nearest, place} if place.is_dir() else {nearest}:
        with tempfile.NamedTemporaryFile(prefix=_ASIDE, dir=folder):
            pass


def write_report(
    report: Report, path: str | Path, *, traces: Sequence[Mapping[str, Any]] | None = None, force: bool = False
) -> Path:
    """Write an evaluation's files into a folder, which is made, all of them or none; or a single report.

    Args:
        report: what `evaluate` gave.
        path: a folder; or a file that ends in .json, .md or .html, then only that report is written. It must not exist,
            or hold an evaluation and `force` be given.
        traces: one record per failed case, as from `failure_traces`; None writes no traces.jsonl.
        force: replace an evaluation that is there; the answers that it kept stay.

    Raises:
        ConfigError: the place is taken, or cannot be written.
    """
    place = Path(path)
    check_output(place, force=force)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=_ASIDE, dir=place.parent))
    except OSError as exc:
        raise ConfigError(f"{place} cannot be written: {exc.strerror or exc}") from exc
    try:
        new = aside / "new"
        if is_report_file(place):
            write_durably(new, _FORMS[place.suffix.lower()](report))
            os.replace(new, place)
            return place
        new.mkdir()
        for suffix, form in _FORMS.items():
            write_durably(new / f"report{suffix}", form(report))
        if traces is not None:
            write_durably(new / TRACES, "".join(json.dumps(trace, allow_nan=False) + "\n" for trace in traces))
        if (place / ANSWERS).exists():
            shutil.copyfile(place / ANSWERS, new / ANSWERS)
        swap_in(new, place, aside / "old")
    except OSError as exc:
        raise ConfigError(f"{place} cannot be written: {exc.strerror or exc}") from exc
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return place
