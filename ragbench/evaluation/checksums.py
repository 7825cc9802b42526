"""The SHA-256 of every file of a result, in its config.json: what changes a file afterwards is found.

A changed bit in a table of scores is still a table of scores, so that nothing but a checksum shows
it. config.json contains its own checksum, which is computed without this field. So does
timings.json, which also has the checksums of the reports: reports contain times, and config.json
must have the same bytes whenever the numbers are the same.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ragbench.errors import DataError
from ragbench.evaluation.formats import json_text
from ragbench.files import STAGING, check_inside, parse_json, read_json, write_durably

CONFIG = "config.json"
TIMINGS = "timings.json"
"""The file with everything that differs between two equal runs."""

CHECKSUMS = "checksums"
"""The field of both: file name -> SHA-256."""

EDITED = "edited"
"""The field of config.json with the files that a person changed and accepted."""

JOURNAL = "journal.jsonl"
"""The answers of a system as they came; a folder with nothing else is that of an evaluation that
was stopped. It grows, so it has no checksum.
"""

VIEWS = ("report.json", "report.md", "report.html")
"""Files for readers; nothing reads them back, and they may be deleted."""


def sealed(name: str, record: Mapping[str, Any], checksums: Mapping[str, str]) -> str:
    """Return the text of config.json or timings.json (`name`) from its `record`, with the checksums of
    other files and its own added.

    Raises:
        ConfigError: the record is not plain data.
    """
    others = {other: checksums[other] for other in sorted(checksums) if other != name}
    json_text(record)  # refuses all but plain data
    own = _own_checksum(name, record, others)
    return json_text({**_without_checksums(record), CHECKSUMS: {**others, name: own}})


def write_config(folder: Path, config: Mapping[str, Any]) -> None:
    """Write config.json with the checksums of the files that are in the folder now."""
    write_durably(folder / CONFIG, sealed(CONFIG, config, _checksums_of_files(folder, CONFIG)))


def replace_files(folder: Path, texts: Mapping[str, str]) -> None:
    """Write reports, or other files that only people read, into a folder. If it is the folder of a result,
    bring their checksums in timings.json up to date.

    The old checksums are removed before the files are written, and the new ones are added afterwards.
    If the result is loaded in between, these files have no checksum, and so do not count as damaged.

    Args:
        folder: of a result, or any other.
        texts: file name -> text.
    """
    timings = _json_object(folder / TIMINGS) if (folder / TIMINGS).is_file() else {}
    checksums = timings.get(CHECKSUMS) or {}
    is_result = bool(checksums)
    others = {name: sha for name, sha in checksums.items() if name not in texts}
    if is_result:
        write_durably(folder / TIMINGS, sealed(TIMINGS, timings, others))
    for name, text in texts.items():
        write_durably(folder / name, text)
    if is_result:
        new = {name: checksum(text.encode()) for name, text in texts.items() if name in VIEWS}
        write_durably(folder / TIMINGS, sealed(TIMINGS, timings, others | new))


def check_file(path: Path, content: bytes, checksums: Mapping[str, str]) -> None:
    """Raise DataError if the content of a file does not have its checksum, or the file has none.

    Line ends that a version control system changed (CRLF for LF) are no difference.
    """
    expected = checksums.get(path.name)
    if expected is None:
        raise DataError(_damaged(path, "it has no checksum in config.json"))
    digest = checksum(content)
    if expected not in (digest, checksum(content.replace(b"\r\n", b"\n"))):
        raise DataError(
            _damaged(
                path, f"changed after it was written: SHA-256 {digest[:12]}, not {expected[:12]}"
            )
        )


def without_checksums(content: bytes) -> bytes:
    """Return the content of config.json or timings.json without its checksums. Content that is not a
    JSON object is returned unchanged.
    """
    try:
        config = parse_json(content.decode("utf-8"))
    except ValueError:
        return content
    if not isinstance(config, dict):
        return content
    return json_text(_without_checksums(config)).encode()


def verified_checksums(path: Path, record: Any) -> dict[str, str]:
    """Return the checksums in the record of config.json or timings.json, after a check of the record
    itself; DataError if it has none, or was changed. Its own checksum is among them.
    """
    checksums = record.get(CHECKSUMS) if isinstance(record, dict) else None
    if not isinstance(checksums, dict) or not checksums:
        raise DataError(_damaged(path, "it has no checksums"))
    if checksums.get(path.name) != _own_checksum(path.name, record, checksums):
        raise DataError(_damaged(path, "changed after it was written"))
    return checksums


def check_folder(folder: Path) -> None:
    """Raise DataError where a file of a result, or of tables that a notebook wrote, was changed."""
    checksums = verified_checksums(folder / CONFIG, _json_object(folder / CONFIG))
    if (folder / TIMINGS).is_file():
        checksums = checksums | verified_checksums(folder / TIMINGS, _json_object(folder / TIMINGS))
    check_others(folder, checksums)


def check_others(folder: Path, checksums: Mapping[str, str], read: Collection[str] = ()) -> None:
    """Raise DataError if a file with a checksum was changed or is missing. Reports (`VIEWS`) may be
    missing.

    Files in `read` were checked when they were read, and are not checked again.
    """
    for name in sorted(checksums.keys() - {CONFIG, TIMINGS, *read}):
        path = folder / name
        check_inside(path, folder)
        if path.is_file():
            checksum_by_name = {path.name: checksums[name]}  # `name` may be "subfolder/file"
            check_file(path, path.read_bytes(), checksum_by_name)
        elif name not in VIEWS:
            raise DataError(_damaged(path, "it is missing"))


def accept_changes(folder: Path) -> list[str]:
    """Accept the files of a result as they are now: write new checksums, and list the changed files in
    config.json as edited by a person.

    config.json has the checksums of the data, timings.json (if there is one) the checksums of the reports.

    Returns:
        The names of the files that differ from their checksums; [] if none does.
    """
    config = _json_object(folder / CONFIG)
    changed = _files_changed(folder, CONFIG)
    if (folder / TIMINGS).is_file():
        changed_reports = _files_changed(folder, TIMINGS)  # and timings.json itself
        if changed_reports:
            timings = _json_object(folder / TIMINGS)
            checksums = _checksums_of_files(folder, TIMINGS)
            write_durably(folder / TIMINGS, sealed(TIMINGS, timings, checksums))
        changed |= changed_reports
    if changed:
        edited_before = config.get(EDITED)
        if isinstance(edited_before, list):
            edited = {*map(str, edited_before), *changed}
        else:
            edited = changed
        write_config(folder, {**config, EDITED: sorted(edited)})
    return sorted(changed)


def _files_changed(folder: Path, holder: str) -> set[str]:
    """Return the files that differ from their checksums in the file `holder` (config.json or
    timings.json), or have none there, or are missing; `holder` itself if it differs from its own.
    """
    record = _json_object(folder / holder)
    stated = record.get(CHECKSUMS)
    before: dict[str, str] = stated if isinstance(stated, dict) else {}
    now = _checksums_of_files(folder, holder)
    now[holder] = _own_checksum(holder, record, before)
    return {name for name in {*before, *now} if before.get(name) != now.get(name)}


def checksum(content: bytes) -> str:
    """Return the SHA-256 of the content of a file, in hex digits."""
    return hashlib.sha256(content).hexdigest()


def _own_checksum(name: str, record: Mapping[str, Any], checksums: Mapping[str, str]) -> str:
    """Return the checksum of config.json or timings.json (`name`) itself, computed from its content without
    this one checksum.
    """
    others = {other: sha for other, sha in checksums.items() if other != name}
    content = {**_without_checksums(record), CHECKSUMS: others}
    return checksum(json.dumps(content, indent=1).encode())


def _without_checksums(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != CHECKSUMS}


def _damaged(path: Path, reason: str) -> str:
    return (
        f"{path} is damaged ({reason}); restore it, or delete the folder {path.parent.name} and run "
        "the configuration again; if a person changed it on purpose: ragbench verify "
        f"{path.parent} --accept"
    )


def _json_object(path: Path) -> dict[str, Any]:
    """Return the content of config.json or timings.json; DataError if it is not a JSON object."""
    check_inside(path, path.parent)
    record = read_json(path, "run the configuration again")
    if not isinstance(record, dict):
        raise DataError(f"{path} is not a JSON object; run the configuration again")
    return record


def _checksums_of_files(folder: Path, holder: str) -> dict[str, str]:
    """Return file name -> checksum, for the files in a folder and its subfolders whose checksums belong
    into the file `holder`: `TIMINGS` for the files for readers (`VIEWS`), `CONFIG` for all others.
    """
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    checksums = {}
    for name, path in sorted(paths.items()):
        check_inside(path, folder)
        has_checksum = name not in (CONFIG, TIMINGS, JOURNAL) and not name.startswith(STAGING)
        belongs_into = TIMINGS if name in VIEWS else CONFIG
        if path.is_file() and has_checksum and belongs_into == holder:
            checksums[name] = checksum(path.read_bytes())
    return checksums
