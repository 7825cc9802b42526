"""Reports as files: which ending of a path means which format (.json, .md, .html, .xml, .jsonl),
and which existing files are not replaced.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError
from ragbench.evaluation import Result, Results
from ragbench.evaluation.checksums import replace_files
from ragbench.evaluation.folder import ALL_FILES, JOURNAL
from ragbench.files import STAGING, check_writable
from ragbench.report.page.every_eval_ever import report_every_eval_ever
from ragbench.report.page.html_report import report_html
from ragbench.report.page.junit import report_junit
from ragbench.report.page.markdown import report_markdown
from ragbench.report.page.otlp import report_traces
from ragbench.report.page.report_json import report_json
from ragbench.report.several import results_html, results_json, results_markdown

_OF_ONE = {
    ".json": report_json,
    ".md": report_markdown,
    ".html": report_html,
    ".xml": report_junit,
    ".jsonl": report_traces,
    ".eee.json": report_every_eval_ever,
}
_ENDINGS = ", ".join(_OF_ONE)
_OF_FILES = re.compile(r"\.(?!v\d)[A-Za-z]\w{1,7}")  # .csv, .parquet; not .1, .v2
_OF_SEVERAL = {".json": results_json, ".md": results_markdown, ".html": results_html}
_BEGINNINGS = (
    '<?xml version="1.0" encoding="utf-8"?>\n<!-- ragbench -->',
    '{\n "ragbench":',
    '{"resourceSpans":',
    '{\n "leaderboard":',
    '{\n "schema_version":',
    "# Evaluation: ",
    "# Comparison of ",
)
_WAY_OUT = "already; name another one, or replace it with --force"
_GENERATOR = '<meta name="generator" content="ragbench">'


def is_report_file(path: str | Path) -> bool:
    """Return True if a path names one report and not a folder: it ends in .json, .md, .html,
    .xml or .jsonl.

    >>> is_report_file("out/report.html"), is_report_file("out/mine")
    (True, False)
    """
    return Path(path).suffix.lower() in _OF_ONE


def check_output(path: str | Path, *, force: bool = False) -> None:
    """Raise an error if no report can be written to a path; it is called before the evaluation.

    Raises:
        ConfigError: something is there already (with `force`, something else than an evaluation),
            or the place cannot be written.
    """
    path = Path(path)
    try:
        if problem := _problem_of_output(path, force):
            raise ConfigError(f"{path} {problem}")
        check_writable(path)
    except OSError as exc:
        raise ConfigError(
            f"{path} cannot be used: {exc.strerror or exc}; name another place for the report"
        ) from exc


def _problem_of_output(path: Path, force: bool) -> str:
    """Return why no report can be written to this path, as the end of a sentence; "" if it can.

    `force` allows to replace a report or an evaluation, but no other file or folder.
    """
    if not path.exists():
        return _wrong_ending(path)
    if is_report_file(path):  # by its name
        return _problem_of_file(path, force)
    if not path.is_dir():
        return f"is a file; name a folder for the report, or a file ending in {_ENDINGS}"
    inside = sorted(entry.name for entry in path.iterdir() if not entry.name.startswith(STAGING))
    foreign = [name for name in inside if name not in ALL_FILES]
    if foreign:
        return f"holds {foreign[0]!r}, which is not part of an evaluation; name another folder"
    is_unfinished = inside in ([], [JOURNAL])  # a journal alone: the evaluation was stopped
    return "" if force or is_unfinished else f"holds an evaluation {_WAY_OUT}"


def _problem_of_file(path: Path, force: bool) -> str:
    """Return why a report cannot replace what is at a path, as the end of a sentence; "" if it can.

    Only an older report can be replaced, and only with `force`.
    """
    if path.is_dir():
        return "is a folder; name a file for the report"
    beginning = path.read_bytes()[:500].decode("utf-8", "replace")
    is_report = beginning.startswith(_BEGINNINGS) or _GENERATOR in beginning
    if not is_report:
        return "is a file that is not a report of an evaluation; name another one"
    return "" if force else f"holds a report {_WAY_OUT}"


def _wrong_ending(path: Path) -> str:
    """Return why no folder can have this name, because it ends like the name of a file; "" if it
    can.

    >>> _wrong_ending(Path("scores.csv"))
    'ends in .csv; a report is a file that ends in .json, .md, .html, .xml, .jsonl, .eee.json, or a folder'
    >>> _wrong_ending(Path("results/llama3.1")), _wrong_ending(Path("results/report.html"))
    ('', '')
    """
    if is_report_file(path) or not _OF_FILES.fullmatch(path.suffix):
        return ""
    return f"ends in {path.suffix}; a report is a file that ends in {_ENDINGS}, or a folder"


def write_report(
    result: Result | Sequence[Result], path: str | Path, *, force: bool = False
) -> Path:
    """Write the report of a result, or of several side by side; the path's ending states the format.

    Args:
        result: as from `evaluate`, `load_result` or `read_report`; or several, as from
            `load_results`: their leaderboard and their comparison with the first by name.
        path: a file that ends in .json, .md, .html, .xml (JUnit, of one result), .jsonl (traces as
            OTLP's JSON, of one result) or .eee.json (for Every Eval Ever, of one result); or a
            folder, which is made if need be: report.json, report.md and report.html are written
            into it. It may hold the files of a result.
        force: replace reports that are there.

    Raises:
        ConfigError: the place is taken or cannot be written, or the name ends as a file of another
            kind (scores.csv).
    """
    path = Path(path)
    shown: Any = result if isinstance(result, Result) else Results(result)
    if isinstance(shown, Results) and len(shown) == 1:
        shown = shown[0]
    forms: Mapping[str, Callable[[Any], str]]
    forms = _OF_ONE if isinstance(shown, Result) else _OF_SEVERAL
    if not path.exists() and (problem := _wrong_ending(path)):
        raise ConfigError(f"{path} {problem}")
    is_file = is_report_file(path)  # by its ending
    if is_file:
        suffix = ".eee.json" if path.name.endswith(".eee.json") else path.suffix.lower()
        if suffix not in forms:
            raise ConfigError(
                f"{path}: JUnit XML and traces describe one result; write several as .html, .md or "
                ".json"
            )
        texts = {path: forms[suffix](shown)}
    else:
        texts = {path / f"report{suffix}": forms[suffix](shown) for suffix in _OF_SEVERAL}
    try:
        for file in texts:
            if problem := _problem_of_output(file, force):
                raise ConfigError(f"{file} {problem}")
        folder = path.parent if is_file else path
        replace_files(folder, {file.name: text for file, text in texts.items()})
    except OSError as exc:
        raise ConfigError(
            f"{path} cannot be written: {exc.strerror or exc}; name another place"
        ) from exc
    return path
