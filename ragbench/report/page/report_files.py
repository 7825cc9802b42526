"""Reports as files for readers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragbench.errors import ConfigError
from ragbench.evaluation import Result, Results
from ragbench.evaluation.folder import ALL_FILES, JOURNAL
from ragbench.evaluation.report_json import report_json
from ragbench.files import STAGING, check_writable, write_durably
from ragbench.report.page.html import report_html
from ragbench.report.page.junit import report_junit
from ragbench.report.page.markdown import report_markdown
from ragbench.report.several import results_html, results_json, results_markdown

_FORMS = (".json", ".md", ".html", ".xml")
_OF_SEVERAL = {".json": results_json, ".md": results_markdown, ".html": results_html}
_BEGINNINGS = (
    '<?xml version="1.0" encoding="utf-8"?>\n<!-- ragbench -->',
    '{\n "ragbench":',
    '{\n "leaderboard":',
    "# Evaluation: ",
    "# Comparison of ",
)
_GENERATOR = '<meta name="generator" content="ragbench">'


def is_report_file(path: str | Path) -> bool:
    """Return True if a path names one report and not a folder: it ends in .json, .md, .html or
    .xml.

    >>> is_report_file("out/report.html"), is_report_file("out/mine")
    (True, False)
    """
    return Path(path).suffix.lower() in _FORMS


def check_output(path: str | Path, *, force: bool = False) -> None:
    """Refuse a place where no report could be written, before anything is asked.

    Raises:
        ConfigError: something is there already (with `force`, something else than an evaluation),
        or the place cannot
            be written.
    """
    place = Path(path)
    try:
        if is_report_file(place):
            _check_file(place, force)
        elif place.exists():
            _check_folder(place, force)
        check_writable(place)
    except OSError as exc:
        raise ConfigError(
            f"{place} cannot be used: {exc.strerror or exc}; name another place for the report"
        ) from exc


def _check_file(file: Path, force: bool) -> None:
    if file.is_dir():
        raise ConfigError(f"{file} is a folder; name a file for the report")
    if not file.exists():
        return
    begin = file.read_bytes()[:500].decode("utf-8", "replace")
    if not any(begin.startswith(known) for known in _BEGINNINGS) and _GENERATOR not in begin:
        raise ConfigError(
            f"{file} is a file that is not a report of an evaluation; name another one"
        )
    if not force:
        raise ConfigError(
            f"{file} holds a report already; name another file, or replace it with --force"
        )


def _check_folder(folder: Path, force: bool) -> None:
    if not folder.is_dir():
        raise ConfigError(
            f"{folder} is a file; name a folder for the report, or a file ending "
            f"in {', '.join(_FORMS)}"
        )
    inside = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith(STAGING))
    if strangers := [name for name in inside if name not in ALL_FILES]:
        raise ConfigError(
            f"{folder} holds {strangers[0]!r}, which is not part of an evaluation; name another "
            "folder"
        )
    if inside and inside != [JOURNAL] and not force:
        raise ConfigError(
            f"{folder} holds an evaluation already; name another folder, or replace it with --force"
        )


def report_texts(result: Result) -> dict[str, str]:
    """Return the three reports on a result: file name -> text."""
    return {
        "report.json": report_json(result),
        "report.md": report_markdown(result),
        "report.html": report_html(result),
    }


def write_report(
    result: Result | Sequence[Result], path: str | Path, *, force: bool = False
) -> Path:
    """Show a result, or several side by side, as JSON, Markdown or HTML.

    Args:
        result: what `evaluate`, `load_result` or `read_report` gave; or several, as from
        `load_results`: their
            leaderboard and their comparison with the first by name.
        path: a file that ends in .json, .md, .html or .xml (JUnit, of one result); or a folder,
        which is made if need
            be: report.json, report.md and report.html are written there, next to the files of the
            result if they are there.
        force: replace reports that are there.

    Raises:
        ConfigError: the place is taken, or cannot be written.
    """
    place = Path(path)
    if isinstance(result, Result):
        texts = report_texts(result)
        if place.suffix.lower() == ".xml":
            texts["report.xml"] = report_junit(result)
    elif place.suffix.lower() == ".xml":
        raise ConfigError(
            f"{place}: JUnit XML is of one result; write several as .html, .md or .json"
        )
    else:
        texts = {f"report{suffix}": form(Results(result)) for suffix, form in _OF_SEVERAL.items()}
    files = {place: texts[f"report{place.suffix.lower()}"]} if is_report_file(place) else {}
    files = files or {place / name: text for name, text in texts.items()}
    try:
        for file in files:
            _check_file(file, force)
        next(iter(files)).parent.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            write_durably(file, text)
    except OSError as exc:
        raise ConfigError(
            f"{place} cannot be written: {exc.strerror or exc}; name another place"
        ) from exc
    return place
