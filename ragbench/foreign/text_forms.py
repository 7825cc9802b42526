"""Text files with scores that are no tables: the output of trec_eval and ir_measures per query, and
reports of JUnit, as pytest writes them; and the table of promptfoo, whose columns repeat.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from ragbench.errors import DataError, abridged, printable
from ragbench.foreign.cells import number_of, question_of, score_of
from ragbench.foreign.score_columns import Scored, with_ids_of_inputs
from ragbench.registry import find_measure
from ragbench.testsets.fields import read_cell

_ALL = ("all", "all_queries", "amean")
_TEXTS = ("runid", "relstring")
"""What trec_eval writes as a text: the name of the run, and the grades of the first documents, as in
relstring_10."""


def is_trec_output(text: str) -> bool:
    """Return True if a text has the lines of trec_eval or ir_measures: three fields, the last a
    number (or a text, see `_TEXTS`).
    """
    lines = [line.split() for line in text.splitlines()[:50] if line.strip()]
    if any(len(line) != 3 for line in lines):
        return False
    values = [value for name, _, value in lines if not name.startswith(_TEXTS)]
    return bool(values) and all(map(_is_number, values))


def _is_number(text: str) -> bool:
    """Return True for a text that Python reads as a number, such as "0.5", "1e-3" or "nan"."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def refuse_trec_files(text: str, source: str) -> None:
    """Raise DataError if a text is a run or judgements of TREC, which have no scores of questions."""
    lines = [line.split() for line in text.splitlines()[:50] if line.strip()]
    kinds = {  # number of fields in a line -> the kind of file
        6: "a run of documents (query Q0 document rank score name)",
        4: "judgements of documents",
    }
    for n_fields, kind in kinds.items():
        # the second field of both kinds is a constant that trec_eval ignores
        if lines and all(len(line) == n_fields and line[1] in ("0", "Q0", "q0") for line in lines):
            raise DataError(
                f"{source} is {kind}, no scores of questions; score runs with `ragbench score QRELS RUN RUN`, "
                "which compares them, too"
            )


def rows_of_trec_output(text: str, source: str) -> list[Scored]:
    """Return the scores in the output of trec_eval -q, or of ir_measures -q.

    A line of trec_eval is `measure query value`, a line of ir_measures `query measure value`. Means over
    all queries, and counts such as num_rel, are left out.

    Raises:
        DataError: a line has another form, or there are means alone.
    """
    lines = _trec_lines(text, source)
    # trec_eval writes the measure first, ir_measures second: see which column has more known measures
    n_measures_first = sum(_is_trec_measure(first) for first, _, _ in lines)
    n_measures_second = sum(_is_trec_measure(second) for _, second, _ in lines)
    is_ir_measures = n_measures_second > n_measures_first
    scores: dict[str, dict[str, float]] = {}
    for first, second, value in lines:
        measure, query_id = (second, first) if is_ir_measures else (first, second)
        is_mean = query_id.casefold() in _ALL
        is_count = measure.startswith("num_")
        if not is_mean and not is_count:
            scores.setdefault(query_id, {})[printable(measure)] = score_of(value)
    if not scores:
        raise DataError(
            f"{source} has only means over all queries; write the values of each query with -q (trec_eval, "
            "ir_measures)"
        )
    return [Scored(query_id, "", found) for query_id, found in scores.items()]


def _trec_lines(text: str, source: str) -> list[list[str]]:
    """Return the three fields of each line, without blank lines and the lines of texts (`_TEXTS`).

    Raises:
        DataError: a line has another number of fields.
    """
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        if not fields or fields[0].startswith(_TEXTS):
            continue
        if len(fields) != 3:
            raise DataError(
                f"{source}, line {number}: expected a measure, a query and a value, found "
                f"{abridged(printable(line), 80)!r}"
            )
        lines.append(fields)
    return lines


def _is_trec_measure(name: str) -> bool:
    return find_measure(name) is not None or name.startswith("num_")


def promptfoo_groups(names: Sequence[str]) -> list[range]:
    """Return the positions of the columns of each prompt in a table of promptfoo; [] for another table.

    The first column of a prompt has its replies, the second is "Status", and "Score" and "Named
    Scores" are among the others.
    """
    # the column before each "Status" begins a group
    starts = [place - 1 for place, name in enumerate(names) if place and name == "Status"]
    ends = [*starts[1:], len(names)]  # a group ends where the next begins
    groups = []
    for start, end in zip(starts, ends, strict=False):
        if not {"Score", "Named Scores"} <= {*names[start:end]}:
            return []
        groups.append(range(start, end))
    return groups


def rows_of_promptfoo_table(
    names: Sequence[str], rows: Iterable[Sequence[str]], groups: Sequence[range]
) -> list[Scored]:
    """Return the scores in a table of promptfoo, which has a row per test. The first columns are the
    variables of the test; then follow the columns of each prompt.

    A prompt without a status in a row has no score there. A status ERROR, which has score 0 in the
    file, is a missing score.

    Args:
        groups: the positions of the columns of each prompt, as from `promptfoo_groups`.
    """
    n_variables = groups[0].start
    systems = _prompt_names([names[group.start] for group in groups])
    scored = []
    inputs = []
    for cells in rows:
        variables = dict(zip(names[:n_variables], cells, strict=False))
        question = _question_of_variables(variables)
        for system, group in zip(systems, groups, strict=True):
            cells_of_prompt = {names[place]: cells[place] for place in group}
            if cells_of_prompt["Status"]:
                scores = _promptfoo_scores(cells_of_prompt)
                scored.append(Scored("", question, scores, system))
                inputs.append(variables)
    return with_ids_of_inputs(scored, inputs)


def _question_of_variables(variables: dict[str, str]) -> str:
    """Return the question that the variables of a test state. A column "Description" next to variables
    counts only if these are empty.
    """
    description = ""
    if len(variables) > 1:
        description = variables.get("Description", "")
        variables = {name: cell for name, cell in variables.items() if name != "Description"}
    return question_of(variables) if any(variables.values()) else description


def _prompt_names(headers: Sequence[str]) -> list[str]:
    """Return a name for each prompt: its first 60 characters, with a number if several prompts begin
    alike; "" for a single prompt.
    """
    texts = [abridged(printable(header), 60) for header in headers]
    if len(texts) == 1:
        return [""]
    names = []
    for place, text in enumerate(texts):
        names.append(f"{text}, prompt {place}" if texts.count(text) > 1 else text)
    return names


def _promptfoo_scores(cells_of_prompt: Mapping[str, str]) -> dict[str, float]:
    """Return measure -> score of a prompt in a row: its score, pass (0 or 1) and named scores; NaN for
    all if its status is ERROR.
    """
    status = cells_of_prompt["Status"]
    cells: dict[str, Any] = {"score": cells_of_prompt["Score"], "pass": status}
    named_scores = read_cell(cells_of_prompt["Named Scores"].strip())
    if isinstance(named_scores, Mapping):
        for name, cell in named_scores.items():
            cells.setdefault(name, cell)
    is_error = status.casefold() == "error"
    scores = {}
    for name, cell in cells.items():
        scores[printable(str(name))] = math.nan if is_error else score_of(cell)
    return scores


def rows_of_junit(content: bytes, source: str) -> list[Scored]:
    """Return the measure "passed" of each test in a JUnit report: 1, 0 for a failure, NaN for a test with
    an error or a skipped one. Properties of a test that are numbers are measures, too.

    Raises:
        DataError: the file is not a JUnit report.
    """
    root = _xml_root(content, source)
    rows = []
    for case in root.iter("testcase"):
        parts = [case.get("classname", ""), case.get("name", "")]
        query_id = "::".join(filter(None, parts))
        if query_id:
            rows.append(Scored(query_id, "", _scores_of_test(case)))
    if not rows:
        tags = ", ".join(dict.fromkeys(element.tag for element in root.iter()))
        raise DataError(
            f"{source}: expected tests of JUnit (testcase), found {abridged(tags, 200)}"
        )
    return rows


def _xml_root(content: bytes, source: str) -> ElementTree.Element:
    """Return the outermost element of an XML file.

    Raises:
        DataError: the file is an HTML page, is not valid XML, or declares entities, whose expansion could
            fill the memory.
    """
    if content.lstrip()[:14].lower().startswith((b"<!doctype html", b"<html")):
        raise DataError(
            f"{source} is an HTML page; expected a table (CSV, JSON), or a report of JUnit in XML"
        )
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise DataError(f"{source} declares entities, which no report of JUnit has")
    try:
        return ElementTree.fromstring(content)
    except ElementTree.ParseError as exc:
        raise DataError(f"{source} is not valid XML: {exc}") from exc


def _scores_of_test(case: ElementTree.Element) -> dict[str, float]:
    """Return the measures of a test of JUnit: "passed", and its properties that are numbers."""
    passed = 1.0
    if case.find("failure") is not None:
        passed = 0.0
    if case.find("error") is not None or case.find("skipped") is not None:
        passed = math.nan
    scores = {"passed": passed}
    for item in case.iter("property"):
        name = item.get("name")
        number = number_of(item.get("value"))
        if name and number is not None:
            scores.setdefault(printable(name), number)
    return scores
