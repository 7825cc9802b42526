"""Values of JSON files that hold scores: exports of evaluation tools (`tool_forms`), measures by question
(BEIR, pytrec_eval), and lists of records, whose scores may be nested (`nested_scores`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from ragbench.errors import DataError, abridged, printable
from ragbench.foreign.cells import number_of
from ragbench.foreign.nested_scores import flattened
from ragbench.foreign.scales import is_known_measure
from ragbench.foreign.score_columns import (
    IDS,
    Record,
    Scored,
    listed,
    scored_rows,
    with_reliable_ids,
)
from ragbench.foreign.tool_forms import FORMS
from ragbench.registry import find_measure
from ragbench.testsets.fields import LISTS, QUESTIONS, column_name

_LISTS = (
    *LISTS,
    *"events items samples runs experiment_runs item_results scores evaluations test_results details "
    "traces".split(),
)
_PER_QUERY = (
    "per_query per_question by_query query_results per_query_scores scores_per_query".split()
)
_MEANS = "metrics scores results means mean summary averages average aggregate aggregates".split()
_WITHOUT_SCORES = {
    "a summary of lm-evaluation-harness": (
        {"results", "configs"},
        "run it with --log_samples, and compare its samples_*.jsonl",
    ),
    "a summary of MTEB": (
        {"mteb_version", "scores"},
        "run it with a prediction folder, and score these runs with rb.score_run(qrels, run)",
    ),
    "predictions of MTEB": (
        {"mteb_model_meta"},
        "they are runs of documents, which rb.score_run(qrels, run) scores",
    ),
    "the header of a log of Inspect": (
        {"eval", "plan", "status"},
        "read the whole log, not its header, with `inspect log dump`",
    ),
}
"""Files of tools without scores of questions: the fields of one, and what to compare instead."""
_PAGE = {"data", "meta", "links", "object", "has_more", "next_cursor", "first_id", "last_id"}
"""Fields of a page of records, as interfaces return them."""


def rows_of_json(value: Any, source: str) -> list[Scored]:
    """Return the scores in the value of a JSON file, or in the records of JSON Lines.

    The forms are tried in this order, and the first that fits is read:

    1. the export of a known tool (`FORMS`);
    2. scores by query, in a field such as `per_query`;
    3. the value itself as a list of records, or as a table;
    4. a table in a field that mostly holds a list, such as {"samples": {...}}.

    Before step 3, a file that holds only means is refused, because a table of means would look like
    a table with the scores of one question.

    Raises:
        DataError: no form fits, or the value has means alone; the message names its fields.
    """
    # {"data": {"runs": [...]}} becomes {"runs": [...]}; the pages of an interface become one list
    value = _without_pages(_unwrapped(value))
    inner_objects: dict[str, Mapping[str, Any]] = {}  # field -> object in it
    if isinstance(value, Mapping):
        inner_objects = {name: part for name, part in value.items() if isinstance(part, Mapping)}
    # a tool's records are the value itself or in one of its objects, as in DeepEval's testRunData
    for part in (value, *inner_objects.values()):
        for is_of_tool, read_rows in FORMS:
            if is_of_tool(part):
                return _rows_of_tool(part, read_rows, source)
    per_query = [part for name, part in inner_objects.items() if name in _PER_QUERY]
    if not per_query:  # next to scores by query, means do no harm
        _refuse_means(value, source)  # raises if the file has a mean of each measure and no more
    # objects in fields that mostly hold a list of records, such as {"samples": {...}}
    lists = [part for name, part in inner_objects.items() if name in _LISTS]
    # scores of single queries go first: next to them may be lists of other things
    for part in (*per_query, value, *lists):
        records = _find_records(part, source)
        if records:
            return rows_of_records(records, source)
    if isinstance(value, list) and not value:
        raise DataError(f"{source} has no rows")
    found = listed(value) if isinstance(value, Mapping) else type(value).__name__
    raise DataError(
        f"{source}: expected a list of records with scores, or a file of a known tool; found {found}"
    )


def _rows_of_tool(
    value: Any, read_rows: Callable[[Any], list[Scored]], source: str
) -> list[Scored]:
    """Return the scores in the export of a known tool.

    Raises:
        DataError: there are none, or a field holds something else than the tool writes, such as a text
            in place of a list. The message names the fields.
    """
    try:
        rows = with_reliable_ids(read_rows(value))
    except (AttributeError, LookupError, TypeError) as exc:
        fields = value
        if not isinstance(value, Mapping):
            records = [row for row in value if isinstance(row, Mapping)]
            fields = dict.fromkeys(chain.from_iterable(records))
        raise DataError(
            f"{source} looks like the export of a known tool, but a field is missing in a record or holds "
            f"something else, such as a text in place of a list; found {listed(fields)}"
        ) from exc
    if not rows:
        raise DataError(f"{source} has no answers with scores")
    return rows


def _unwrapped(value: Any) -> Any:
    """Return a value without the objects around it that have only one field: {"runs": [...]} for
    {"data": {"runs": [...]}}.

    The value is returned unchanged if there is no object with a list of records inside.
    """
    wrapper = value
    while isinstance(wrapper, Mapping) and len(wrapper) == 1:
        inner = next(iter(wrapper.values()))
        if isinstance(inner, Mapping) and _listed_records(inner):
            return inner
        wrapper = inner
    return value


def _without_pages(value: Any) -> Any:
    """Return the records of all pages of an interface, one list; any other value unchanged."""
    if not isinstance(value, list) or not _are_records(value):
        return value
    pages = [page.get("data") for page in value if page.keys() <= _PAGE]
    # every record of the list must be a page, and hold a list
    if len(pages) < len(value) or not all(isinstance(page, list) for page in pages):
        return value
    return [record for page in pages for record in page]


def rows_of_records(
    records: Sequence[Record], source: str, *, decimal_comma: bool = False
) -> list[Scored]:
    """Return the scores in the rows of a table, also scores that are nested in a cell or written there
    as JSON.

    A row whose `is_root` is false is a part of a trace, and repeats the scores of the trace's root. It
    is left out, unless there are only such rows. A row without the field is kept.

    Args:
        records: the rows, each with its columns.
        source: the place of the table in messages.
        decimal_comma: numbers are written 0,5.

    Raises:
        DataError: the rows have no scores; the message names the columns.
    """
    # 0 for a part of a trace, 1 for a root, NaN for a row without the field
    roots = [record for record in records if number_of(record.get("is_root")) != 0]
    flat_records = []
    nested_measures: set[str] = set()
    for record in roots or records:
        flat, names = flattened(record, decimal_comma=decimal_comma)
        flat_records.append(flat)
        nested_measures.update(names)
    return scored_rows(flat_records, source, measures=nested_measures, decimal_comma=decimal_comma)


def _refuse_means(value: Any, source: str) -> None:
    """Raise DataError if a JSON value has no scores of questions: if it is a summary of a known
    tool (`_WITHOUT_SCORES`), or if it, or a field such as `metrics`, is a mapping measure -> mean.

    Any other value is accepted.
    """
    if not isinstance(value, Mapping):  # a list of records
        return
    for kind, (names, instead) in _WITHOUT_SCORES.items():
        if names <= value.keys():  # the fields by which a summary of this kind is recognised
            raise DataError(f"{source} is {kind} without scores of questions; {instead}")
    # the means may be the value itself, or in a field such as {"metrics": {...}}
    candidates = [value]
    candidates += [part for name, part in value.items() if name in _MEANS]
    for part in candidates:
        if isinstance(part, Mapping) and _are_means(part):
            raise DataError(
                f"{source} has only one value for each measure, not scores of questions, as in "
                f"{next(iter(part))!r}; use the result itself, as in rb.compare(a, b), "
                "or a file with the scores of each question"
            )


def _are_means(part: Mapping[str, Any]) -> bool:
    """Return True for measure -> number, and for measure -> measure at a depth -> number."""
    if not part or not all(map(is_known_measure, part)):
        return False
    values = list(part.values())
    if all(isinstance(by_depth, Mapping) and by_depth for by_depth in values):
        return all(is_known_measure(name) for by_depth in values for name in by_depth)
    return all(isinstance(mean, int | float) for mean in values)


def _find_records(value: Any, source: str) -> list[Record] | None:
    """Return the records in a JSON value; None if it has no records.

    The value is a list of records, an object with such a list in one field, or a table: pandas'
    "split" form, lists by column, mappings by column or by row, or {question id: score}.
    """
    if isinstance(value, list):
        return value if _are_records(value) else None
    if not isinstance(value, Mapping) or not value:
        return None
    columns = value.get("columns")
    data = value.get("data")
    if isinstance(columns, list) and isinstance(data, list):  # pandas' orient="split", MLflow
        if not all(isinstance(row, list) and len(row) == len(columns) for row in data):
            return None
        names = [str(column) for column in columns]
        return [dict(zip(names, row, strict=True)) for row in data]
    listed_records = _listed_records(value)
    if listed_records:
        return listed_records
    parts = list(value.values())
    if all(isinstance(part, list) for part in parts) and len({*map(len, parts)}) == 1:
        # {column: [cell of row 1, cell of row 2, ...]}; the inner zip yields the cells of a row
        return [dict(zip(value, row, strict=True)) for row in zip(*parts, strict=True)]
    if all(isinstance(part, Mapping) for part in parts):  # {column: {row: cell}}, or the reverse
        return _records_of_tables(value, source)
    if all(isinstance(part, int | float) or part is None for part in parts):  # {question id: score}
        return [{"query_id": query_id, "score": score} for query_id, score in value.items()]
    return None


def _listed_records(value: Mapping[str, Any]) -> list[Record]:
    """Return the records that an object lists in a field such as `results` (`_LISTS`); [] without one."""
    for name in _LISTS:
        rows = value.get(name)
        if isinstance(rows, list) and _are_records(rows):
            return rows
    return []


def _are_records(rows: list[Any]) -> bool:
    """Return True for one record or more."""
    return bool(rows) and all(isinstance(row, Mapping) for row in rows)


def _records_of_tables(table: Mapping[str, Mapping[str, Any]], source: str) -> list[Record]:
    """Return the rows of a table in JSON, {column: {row: cell}} as pandas writes it, or
    {row: {column: cell}} as pytrec_eval does.

    The columns are the outer or the inner names, whichever have more known names (of measures, ids or
    questions). If both have equally many, the shorter list of names is taken for the columns.

    Raises:
        DataError: the value is a run of documents, {query: {document: score}}. It is recognised by
            inner names of which most are in one row only, and by the lack of known names.
    """
    # the different inner names, in order
    inner_names = dict.fromkeys(str(name) for part in table.values() for name in part)
    if _is_run_of_documents(table):
        document = abridged(printable(str(next(iter(inner_names)))), 40)
        raise DataError(
            f"{source}: {document!r} is in one row alone, as in a run of "
            "documents; score runs with rb.score_run(qrels, run), and compare these scores"
        )
    n_known_inner = _n_known(inner_names)
    n_known_outer = _n_known(table)
    if n_known_inner == n_known_outer:
        outer_names_are_columns = len(table) < len(inner_names)
    else:
        outer_names_are_columns = n_known_outer > n_known_inner
    if not outer_names_are_columns:
        return [{"query_id": name, **part} for name, part in table.items()]
    # next to a column of ids, the names of the rows are only their numbers
    has_ids = any(column_name(name) in IDS for name in table)
    rows: list[Record] = []
    for row_name in inner_names:
        cells = {column: part.get(row_name) for column, part in table.items()}
        rows.append(cells if has_ids else {"query_id": row_name, **cells})
    return rows


def _is_run_of_documents(table: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return True if a table of two rows or more looks like {query: {document: score}}: most of the inner
    names are in one row only, and no name is known (see `_n_known`).
    """
    n_rows_by_name = Counter(str(name) for part in table.values() for name in part)
    if len(table) < 2 or not n_rows_by_name or _n_known(n_rows_by_name) or _n_known(table):
        return False
    n_in_one_row = sum(n_rows == 1 for n_rows in n_rows_by_name.values())
    return n_in_one_row > len(n_rows_by_name) / 2


def _n_known(names: Mapping[str, Any]) -> int:
    """Count the known names: of ids and questions, and of ragbench's measures."""
    n_known = 0
    for name in names:
        if column_name(name) in (*IDS, *QUESTIONS) or find_measure(name) is not None:
            n_known += 1
    return n_known
