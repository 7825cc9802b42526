"""Test sets that strangers send: how many cases, lines and levels they may have, and the process
that reads them and can open nothing.

`python -m ragbench.testsets.uploads FORM NAME` reads the bytes of a test set from its input and
prints JSON: `{"lines": ...}`, the same test set as JSON Lines, or `{"error": ...}`, one sentence
about the upload. It knows no references: not to files, names of collections, addresses or objects
of Python. What costs time is counted before it is read, and the process limits its own time, its
memory and, to none, the files and connections that it may open.
"""

import json
import re
import sys
import warnings
from itertools import accumulate
from typing import Any

from ragbench.errors import DataError
from ragbench.testsets.assembly import check_evidence, to_dataset
from ragbench.testsets.cases import Content
from ragbench.testsets.forms import content_of, read_lines, read_value, text_of
from ragbench.testsets.located_data import NoPlainValueError, parse
from ragbench.testsets.problems import refuse
from ragbench.types import Dataset

MAX_DEPTH = 100
"""Levels of lists and objects inside each other."""
MAX_CASES = 1_000
"""Cases in YAML and JSON; JSON Lines may have more."""
MAX_LINES = 100_000
MAX_YAML = 1_000_000
"""Bytes of YAML, which takes 50 times as long to read as JSON."""
MAX_YAML_VALUES = 100_000
"""Line ends, commas and opening brackets of YAML, after which a value may begin."""
MAX_VALUES = 1_000_000
"""Commas and brackets of JSON outside of texts."""
CPU_S = 30
"""Seconds of the processor for one test set; 100,000 lines take 20."""
MEMORY_MB = 512
_JSON_LINES = "send it as JSON Lines (application/jsonl), a case in each line"
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1, ord(","): 0}
_OTHERS = bytes(sign for sign in range(256) if sign not in _STEPS)
_VALUE = re.compile(rb"[\n,\[{]")
_ITEM = re.compile(rb"^( *)-(?=[ \n])", re.MULTILINE)


def read_upload(raw: bytes, form: str, name: str) -> Dataset:
    """Return the test set in the bytes of a text; `form` is "yaml", "json" or "jsonl".

    Raises:
        DataError: the text has problems, is too large, or refers to documents elsewhere.
    """
    check_size(raw, form)
    file = f"{name}.{form}"
    content = read_lines(raw, file) if form == "jsonl" else _read_value(raw, file)
    if content.corpus:
        raise DataError(
            "corpus refers to documents elsewhere, which are not read; send them in the body, or to "
            "/ingest"
        )
    content.problems += check_evidence(content, content.documents)
    refuse(name, content.problems)
    return to_dataset(name, content, content.documents, name)


def _read_value(raw: bytes, file: str) -> Content:
    """Return the content of a YAML or JSON text; DataError if it is neither, or has too many cases."""
    try:
        record = parse(raw, file)
    except NoPlainValueError as exc:
        raise DataError(str(exc.problem)) from exc
    _check_number(_longest_list(record.value))
    return read_value(record)


def check_size(raw: bytes, form: str) -> None:
    """Raise DataError for a text that would take long to read: too many lines, values or levels.

    Values and levels are counted by the brackets and commas, because the check is made before the text
    is parsed.

    >>> check_size(b"[" * 200, "json")
    Traceback (most recent call last):
    ragbench.errors.DataError: the body has more than 100 levels of lists and objects; send plain cases
    """
    if form == "yaml":
        _check_yaml(raw)
        return
    if form == "jsonl" and raw.count(b"\n") > MAX_LINES:
        raise DataError(f"the body has more than {MAX_LINES:,} lines; send it as several data sets")
    signs = _TEXT.sub(b"", raw).translate(None, _OTHERS)  # brackets and commas outside of texts
    if len(signs) > MAX_VALUES:
        raise DataError(
            f"the body has more than {MAX_VALUES:,} values; send it as several data sets"
        )
    steps = [_STEPS[sign] for sign in signs]  # 1 for an opening bracket, -1 for a closing one
    depths = accumulate(steps)  # open brackets after each sign
    if max(depths, default=0) > MAX_DEPTH:
        raise DataError(
            f"the body has more than {MAX_DEPTH} levels of lists and objects; send plain cases"
        )


def _check_yaml(raw: bytes) -> None:
    """Raise DataError for YAML that is long, or whose outermost lists have many items."""
    if len(raw) > MAX_YAML:
        raise DataError(f"the body has more than {MAX_YAML:,} bytes of YAML; {_JSON_LINES}")
    if len(_VALUE.findall(raw)) > MAX_YAML_VALUES:
        raise DataError(f"the body has more than {MAX_YAML_VALUES:,} values of YAML; {_JSON_LINES}")
    indents = [len(match[1]) for match in _ITEM.finditer(raw)]  # blanks before each "- " of a list
    if indents:
        n_outermost = indents.count(min(indents))
        _check_number(n_outermost)


def _longest_list(value: Any) -> int:
    """Return the number of items of a list, or of the longest list in a field that may hold cases."""
    if isinstance(value, list):
        return len(value)
    if not isinstance(value, dict):
        return 0
    longest = 0
    for name, field in value.items():
        if isinstance(field, list) and name != "documents":
            longest = max(longest, len(field))
    return longest


def _check_number(n_cases: int) -> None:
    """Raise DataError for too many cases."""
    if n_cases > MAX_CASES:
        raise DataError(f"the body has {n_cases:,} cases, more than {MAX_CASES:,}; {_JSON_LINES}")


def lines_of_upload(raw: bytes, form: str, name: str) -> str:
    """Return the JSON Lines of a test set that was sent; they have been read again."""
    lines = text_of(content_of(read_upload(raw, form, name)), "jsonl")
    refuse(name, read_lines(lines.encode(), f"{name}.jsonl").problems)
    return lines


def limit_process() -> None:
    """Limit the time and the memory of this process, and let it open no file and no connection; do
    nothing on Windows, which has no such limits.
    """
    try:
        import resource
    except ImportError:
        return
    limits = {
        resource.RLIMIT_CPU: CPU_S,
        resource.RLIMIT_DATA: MEMORY_MB << 20,  # bytes
        resource.RLIMIT_NOFILE: 3,  # input, output and errors
        resource.RLIMIT_FSIZE: 0,  # bytes that a file may have: none can be written
    }
    for limit, value in limits.items():
        _, present = resource.getrlimit(limit)  # a process may not raise this limit
        lowest = value if present == resource.RLIM_INFINITY else min(value, present)
        resource.setrlimit(limit, (lowest, lowest))


def import_all() -> None:
    """Read small test sets that cause all late imports, because none is possible any more after
    `limit_process`.
    """
    lines_of_upload(b"- question: Why?\n", "yaml", "warm-up")
    similar_passages = {
        "question": "Why?",
        "gold_passages": ["The mill has stood at the river for a hundred years, they say."],
        "contexts": ["The mill stands at the river since a hundred years, they say. It is red."],
    }
    lines_of_upload(json.dumps([similar_passages]).encode(), "json", "warm-up")


def main(form: str, name: str) -> None:
    """Read a test set of a form ("yaml", "json" or "jsonl") from the standard input, and write a JSON
    object with its "lines" or an "error" to the standard output. (The server reads what strangers
    send in a process with limits.)
    """
    warnings.simplefilter("ignore")
    # before the limits, after which no file can be opened
    import_all()
    raw = sys.stdin.buffer.read()
    limit_process()
    reply: dict[str, Any]
    try:
        reply = {"lines": lines_of_upload(raw, form, name)}
    except DataError as exc:
        reply = {"error": str(exc)}
    except RecursionError:
        reply = {"error": "the body nests too deeply; send plain cases"}
    except MemoryError:
        reply = {"error": f"the body takes more than {MEMORY_MB} MB to read; send it in parts"}
    sys.stdout.buffer.write(json.dumps(reply).encode())
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
