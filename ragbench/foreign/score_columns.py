"""Tables of scores from other tools: which column is an id, question, system, task, repetition,
measure, score or error, and which is none; wide and long tables.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from ragbench.errors import DataError, abridged, printable, warn_of_flaw
from ragbench.folding import folded_words
from ragbench.foreign.cells import (
    GRADES,
    direction_of,
    id_of,
    input_of,
    is_blank,
    is_category,
    number_of,
    question_of,
    score_of,
    user_messages,
)
from ragbench.hints.attributes import suggesting
from ragbench.testsets import fields
from ragbench.testsets.fields import column_name, read_cell

Record = Mapping[str, Any]

IDS = (
    "query_id qid question_id example_id dataset_example_id reference_example_id dataset_item_id "
    "item_dataset_item_id experiment_item_id datasource_item_id item_id case_id test_id testcase_id "
    "sample_id instance_id doc_id topic_id interaction_id request_id client_request_id "
    "record_id trace_id span_id context.trace_id context.span_id id _id key uid uuid"
).split()
"""Columns that identify a question, those that differ from run to run last."""
SYSTEMS = (
    "system system_name configuration config_name config variant arm experiment experiment_name "
    "run_name dataset_run_name run_tag model model_name provider app_name app_version app_id pipeline "
    "retriever method approach engine candidate run"
).split()
TASKS = "task task_name dataset dataset_name benchmark subset subtask suite".split()
"""Columns that name a part of the questions; each part may number its questions from 0."""
REPEATS = (
    "epoch repeat repetition repetition_number repeat_index trial attempt iteration replicate run_number "
    "run_index run seed sample_index sample_number fold"
).split()
MEASURES = (
    "measure metric metric_name measure_name scorer scorer_name evaluator evaluator_name "
    "annotation_name feedback_name score_name eval_name name"
).split()
VALUES = (
    "value score metric_value score_value measure_value number_value result result.score rating"
).split()
ERRORS = "error error_message errors exception run_error error_type".split()
_INPUTS = (
    "inputs input vars datasource_item dataset_item_data dataset_item_content item doc example test_case"
).split()
_FAILED_STATUS = ("error", "errored", "exception", "timeout", "cancelled", "canceled", "crashed")
_TEXTS = {
    *fields.QUESTIONS,
    "questions",
    "queries",
    *fields.REFERENCES,
    *fields.REPLIES,
    *fields.ANSWERS,
    *fields.ALIAS_LISTS,
    *fields.EVIDENCE,
    *fields.RETRIEVED,
    *fields.CONTEXTS,
    *fields.SOURCES,
}
_NO_MEASURES = {
    *"index item_index level_0 row row_number line line_number number no order rank position threshold k top_k".split(),
    *"request_time timestamp created_at updated_at start_time end_time created date year time_stamp".split(),
    *"target expected label_id category type difficulty topic filter task version metadata tags".split(),
    *"public bookmarked cached is_root archived starred deleted".split(),
    *"num_q num_ret num_rel num_rel_ret runid experiment_trace_count".split(),
}
_NO_MEASURE_ENDS = (
    "_threshold",
    "_id",
    "_ids",
    "_at",
    "_timestamp",
    "_start_time",
    "_end_time",
    "_version",
    "_direction",
)
# a name of a repeated run, such as "run 3" or "seed_42", not of a system
_NUMBERED_RUN = re.compile(r"(run|rep|repeat|trial|try|seed|epoch)?[\s_#-]*\d+", re.IGNORECASE)
# how pandas writes a whole number in a column with a missing value
_WHOLE_NUMBER = re.compile(r"[+-]?\d+\.0")
_MARKS = ("feedback.", "output.scores.")  # of LangSmith and Weave
_MAX_NAMES = 40  # of columns in a message
_MAX_SYSTEMS = 200
_MAX_SYSTEM_NAME = 200  # characters; longer cells are texts, such as prompts
_MAX_LIST = 200  # characters of a list of scores


class Scored(NamedTuple):
    """The scores of one answer: measure -> value, NaN where the tool has none.

    A question that a system answered several times has several of these. `system` is "" in a table
    of one system. `directions` has the measures whose direction the file states: measure -> True if a
    higher value is better.
    """

    query_id: str
    question: str
    scores: Mapping[str, float]
    system: str = ""
    directions: Mapping[str, bool] = MappingProxyType({})


@suggesting()
@dataclass(frozen=True, slots=True)
class ScoreTable:
    """The answers of one system with their scores.

    `columns` are the names in its file, `place` is the path of the file or directory; both are
    empty if there is none.
    """

    name: str
    rows: tuple[Scored, ...]
    columns: tuple[str, ...] = ()
    place: str = ""

    @property
    def measures(self) -> tuple[str, ...]:
        """Return the measures in the order of the file."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row.scores))

    @property
    def directions(self) -> dict[str, bool]:
        """Return measure -> True if a higher value is better, for the measures whose direction the file
        states, the same in all its rows.
        """
        return agreed_directions(row.directions for row in self.rows)


def agreed_directions(sources: Iterable[Mapping[str, bool]]) -> dict[str, bool]:
    """Return measure -> direction, for the measures of which no two sources state different directions.

    >>> agreed_directions([{"harm": False, "tone": True}, {"harm": False, "tone": False}, {}])
    {'harm': False}
    """
    stated: dict[str, set[bool]] = {}
    for source in sources:
        for measure, is_higher in source.items():
            stated.setdefault(measure, set()).add(is_higher)
    return {measure: True in found for measure, found in stated.items() if len(found) == 1}


def scored_rows(
    records: Sequence[Record],
    source: str,
    *,
    measures: Collection[str] = (),
    decimal_comma: bool = False,
) -> list[Scored]:
    """Return the scores in the rows of a table: wide (a column per measure) or long (a row per question
    and measure).

    If one system has two different questions under one id, the ids are those of something else, such as
    a run: then rows with a question's text have no id, and are paired by the text.

    Args:
        records: the rows, each with its columns.
        source: the place of the table in messages.
        measures: columns that are known to hold scores, whatever their names: the caller found these
            scores nested in the records. A table with such columns is wide.
        decimal_comma: numbers are written 0,5.

    Raises:
        DataError: no column identifies the questions, or none holds scores; the message names the
            columns.
    """
    if not records:
        raise DataError(f"{source} has no rows")
    columns = _Columns(records, measures)
    if not columns.ids and not columns.question:
        raise DataError(
            f"{source}: no column has ids or texts of questions, by which two tables could be paired; "
            f"expected one such as 'id' or 'question', found {listed(columns.names)}"
        )
    is_long = bool(columns.measure and columns.value) and not measures
    if is_long:
        rows = _long_rows(records, columns, decimal_comma, source)
    else:
        rows = _wide_rows(records, columns, decimal_comma, source)
    if not any(row.scores for row in rows):
        raise DataError(
            f"{source}: no column holds scores, which are numbers, true or false, or pass or fail; "
            f"found {listed(columns.names)}"
        )
    if columns.question and not columns.ids:
        rows = with_ids_of_inputs(rows, [record.get(columns.question) for record in records])
    return with_reliable_ids(rows)


def listed(names: Iterable[str]) -> str:
    """Return the names of columns as a message has them: the first 40, each in one line.

    >>> listed(["id", "score"])
    "'id', 'score'"
    """
    texts = [repr(abridged(printable(str(name)), 40)) for name in names]
    if len(texts) > _MAX_NAMES:
        n_more = len(texts) - _MAX_NAMES
        texts = [*texts[:_MAX_NAMES], f"and {n_more} more"]
    return ", ".join(texts) or "none"


def with_reliable_ids(rows: Sequence[Scored]) -> list[Scored]:
    """Return the rows unchanged if their ids identify questions, else without ids.

    Ids do not identify questions if one system has two different questions under one id: then they are
    ids of something else (a run, a user). A row without the text of its question keeps its id.
    """
    texts: dict[tuple[str, str], str] = {}  # (system, id) -> folded text of its first question
    is_reliable = True
    for row in rows:
        text = folded_words(row.question)
        if row.query_id and text:
            first_text = texts.setdefault((row.system, row.query_id), text)
            is_reliable = is_reliable and text == first_text
    if is_reliable:
        return list(rows)
    return [row._replace(query_id="") if row.question else row for row in rows]


def with_ids_of_inputs(rows: Sequence[Scored], inputs: Sequence[Any]) -> list[Scored]:
    """Return rows without ids with their whole inputs as ids, if the question alone does not identify
    them; else unchanged.

    A question does not identify a row if two inputs with it differ: in a variable such as its context, or
    in what the user wrote before it. In the second case the question becomes all that the user wrote.

    Args:
        rows: the scores of the answers, without ids.
        inputs: the input of each row: a text, an object, or the messages of a conversation.
    """
    first_input: dict[str, str] = {}  # folded question -> its first input, folded
    is_unique = True
    for row, cell in zip(rows, inputs, strict=True):
        words = folded_words(input_of(cell))
        is_unique = is_unique and words == first_input.setdefault(folded_words(row.question), words)
    if is_unique:
        return list(rows)
    identified = []
    for row, cell in zip(rows, inputs, strict=True):
        question = "\n".join(map(str, user_messages(cell))) or row.question
        identified.append(row._replace(query_id=input_of(cell), question=question))
    return identified


class _Columns:
    """The columns of a table by their meaning; "" or [] if no column has it.

    The columns `ids`, `value` and `measure` have a value in one row or more.

    Attributes:
        names: all columns, in the order of the file.
        by_field: the name as `column_name` folds it -> the first column of that name.
        known_measures: the columns that are known to hold scores.
        marked_as_scores: the columns whose names MLflow, LangSmith or Weave mark as scores, such as
            "overlap/score"; other columns of such a table hold no scores.
        ids: the columns that identify a question, the most reliable first.
        whole_number_ids: those of them whose ids are all written like "3.0".
        question: the column with the text of the question, or with the inputs of a record.
        task: of a table without questions, the column of tasks that have ids in common.
        errors, status: the columns by which a row is of an answer that failed.
        value, measure: of a table with a row per question and measure.
        systems: the columns that name several systems.
    """

    def __init__(self, records: Sequence[Record], measures: Collection[str] = ()) -> None:
        """Find out which columns of a table have the ids, the question, scores and so on, by their names.

        Args:
            records: the rows, as column -> cell.
            measures: columns that are known to hold scores.
        """
        self.names = [*dict.fromkeys(str(name) for record in records for name in record)]
        self.by_field: dict[str, str] = {}
        for name in self.names:
            self.by_field.setdefault(column_name(name), name)
        self.records = records
        self.known_measures = [name for name in self.names if name in measures]
        self.marked_as_scores = _columns_marked_as_scores(self.names)
        self.ids = self._columns_with_values(IDS)
        self.whole_number_ids = [name for name in self.ids if self._has_whole_numbers(name)]
        questions = self._columns_with_values((*fields.QUESTIONS, "questions", "queries"))
        inputs = [name for name in self.names if _is_input(name)]
        self.question = [*questions, *inputs, ""][0]  # the first one, "" if there is none
        self.task = self._task_column()
        self.errors = [self.by_field[field] for field in ERRORS if field in self.by_field]
        self.status = self.by_field.get("status", "")
        self.value = [*self._columns_with_values(VALUES), ""][0]
        # these two read the columns found above, so they come last
        self.measure = self._measure_column()
        self.systems = self._system_columns()

    def _column_with_values(self, field: str) -> str:
        """Return the column of this name; "" without one, or if all its cells are empty."""
        name = self.by_field.get(field, "")
        if name and any(not is_blank(record.get(name)) for record in self.records):
            return name
        return ""

    def _columns_with_values(self, names: Iterable[str]) -> list[str]:
        """Return the columns of these names that are not empty, in the order of the names."""
        columns = [self._column_with_values(name) for name in names]
        return [column for column in columns if column]

    def _has_whole_numbers(self, column: str) -> bool:
        """Return True if all ids of a column are texts such as "3.0"; blank cells do not count."""
        ids = [id_of(record.get(column)) for record in self.records]
        return all(_WHOLE_NUMBER.fullmatch(query_id) for query_id in ids if query_id)

    def _task_column(self) -> str:
        """Return the column of tasks of which two have an id in common; "" without one.

        In a table with questions, these show whether an id identifies a question
        (`with_reliable_ids`), so "" is returned.
        """
        if self.question:
            return ""
        for column in self._columns_with_values(TASKS):
            first_task: dict[str, str] = {}  # id -> the task of its first row
            for record in self.records:
                query_id, task = self._first_id(record), id_of(record.get(column))
                if query_id and first_task.setdefault(query_id, task) != task:
                    return column
        return ""

    def _measure_column(self) -> str:
        """Return the column with the names of measures in a table with a row per question and measure;
        "" for any other table.

        A column that is just called "name" counts only if it has names of measures.
        """
        if not self.value:
            return ""
        for field in MEASURES:
            name = self._column_with_values(field)
            if not name or name == self.value:
                continue
            if field != "name" or self._names_measures(name):
                return name
        return ""

    def _names_measures(self, column: str) -> bool:
        """Return True if a column called "name" has names of measures: few, and not one per question."""
        texts = [str(record.get(column)) for record in self.records]
        others = [name for name in self.ids if name != column]
        # another column identifies the question, and each name is in two rows or more on average
        return bool(others or self.question) and len({*texts}) <= max(1, len(texts) // 2)

    def _system_columns(self) -> list[str]:
        """Return the columns whose values name several systems, each with several rows; [] if the table
        has one system.
        """
        columns: list[str] = []
        for field in SYSTEMS:
            name = self.by_field.get(field)
            if name is None or name in (self.measure, self.value):
                continue
            # of TruLens: a hash of the name and version in the columns before it
            if field == "app_id" and columns:
                continue
            systems = {id_of(record.get(name)) for record in self.records} - {""}
            is_numbered = all(_NUMBERED_RUN.fullmatch(system) for system in systems)
            if field in ("run", "run_name") and is_numbered:  # repeated runs of one system
                continue
            # as many names as rows would identify the rows, not systems: two rows a name on average
            max_systems = min(_MAX_SYSTEMS, len(self.records) // 2)
            has_several = 2 <= len(systems) <= max_systems
            are_short = all(len(system) <= _MAX_SYSTEM_NAME for system in systems)
            if has_several and are_short:
                columns.append(name)
        return columns

    def may_be_measure(self, name: str) -> bool:
        """Return True if a column of a table with a column per measure may be a measure, by its name
        alone. The caller looks at its values too.
        """
        if name in self.known_measures:
            return True
        if self.marked_as_scores and name not in self.marked_as_scores:
            return False
        field = column_name(name)
        if field in (*IDS, *REPEATS, *ERRORS, *SYSTEMS, "status") or field in _TEXTS:
            return False
        if field in _NO_MEASURES or field.endswith(_NO_MEASURE_ENDS):
            return False
        if field.startswith("inputs."):  # Azure has the fields of the test set next to the scores
            return False
        # pandas calls a column without a name "Unnamed: 0"
        if field.startswith("unnamed:") or not field or name == self.question:
            return False
        if field.endswith("_label"):  # repeats in words the score in a column next to it
            stem = field.removesuffix("_label")
            return stem not in self.by_field and f"{stem}_score" not in self.by_field
        return True

    def identity(self, record: Record) -> tuple[str, str]:
        """Return the id and the question of a row; "" without one. The id is "TASK/ID" in a table whose
        tasks have ids in common.
        """
        query_id = self._first_id(record)
        if self.task and query_id:
            query_id = f"{id_of(record.get(self.task))}/{query_id}"
        question = question_of(record.get(self.question)) if self.question else ""
        return query_id, question

    def _first_id(self, record: Record) -> str:
        """Return the id in the most reliable id column that a row fills; "" without one."""
        return next(filter(None, (self._id_in(record, name) for name in self.ids)), "")

    def _id_in(self, record: Record, column: str) -> str:
        """Return the id in a column of ids, "3" for "3.0" in a column of whole numbers; "" without one."""
        query_id = id_of(record.get(column))
        return query_id.removesuffix(".0") if column in self.whole_number_ids else query_id

    def system(self, record: Record) -> str:
        """Return the system of a row; "" if no column names one."""
        names = [id_of(record.get(column)) for column in self.systems]
        return ", ".join(name for name in names if name)

    def score_cell(self, record: Record) -> Any:
        """Return the cell with the score in a row of one measure."""
        fields = {field: record.get(name) for field, name in self.by_field.items()}
        if is_category(fields):  # Langfuse's score in words, whose number is always 0
            return fields["string_value"]
        return record.get(self.value)

    def failed(self, record: Record) -> bool:
        """Return True if a row is of an answer that the tool could not get or score."""
        if any(not is_blank(record.get(name)) for name in self.errors):
            return True
        return bool(self.status) and str(record.get(self.status)).casefold() in _FAILED_STATUS


def _columns_marked_as_scores(names: Sequence[str]) -> list[str]:
    """Return the columns that a tool marks as scores by their names; [] if it marks none.

    MLflow calls them NAME/value or NAME/score, Weave output.scores.NAME. LangSmith calls them
    feedback.NAME and has the time of the answer next to them. Other numbers in their tables are
    inputs, or parts of an answer.

    >>> _columns_marked_as_scores(["inputs.hops", "outputs.confidence", "feedback.overlap", "execution_time"])
    ['feedback.overlap', 'execution_time']
    """
    marked = []
    for name in names:
        if name.endswith(("/value", "/score")) or name.startswith(_MARKS):
            marked.append(name)
    if marked and "execution_time" in names:
        marked.append("execution_time")
    return marked


def _is_input(name: str) -> bool:
    """Return True for a column such as inputs/question, of MLflow and Azure, and for a record of inputs."""
    # "attributes.input.value" -> head "input", rest "value"; a record of inputs has no rest
    head, _, rest = column_name(name).replace("/", ".").removeprefix("attributes.").partition(".")
    rest = rest.removeprefix("example.")  # of Weave
    return head in _INPUTS and rest in (*fields.QUESTIONS, "value", "")


def _long_rows(
    records: Sequence[Record], columns: _Columns, decimal_comma: bool, source: str
) -> list[Scored]:
    """Return the scores of a table with a row per question and measure."""
    rows = []
    cells_by_measure: dict[str, list[Any]] = {}
    for record in records:
        measure = printable(str(record.get(columns.measure, "")))
        if is_blank(measure):  # the row has no score
            continue
        cell = columns.score_cell(record)
        cells_by_measure.setdefault(measure, []).append(cell)
        score = score_of(cell, decimal_comma=decimal_comma)
        if columns.failed(record):
            score = math.nan
        query_id, question = columns.identity(record)
        rows.append(Scored(query_id, question, {measure: score}, columns.system(record)))
    for measure, cells in cells_by_measure.items():
        _warn_of_texts(cells, decimal_comma, f"{source}, values of {measure!r}")
    return rows


def _wide_rows(
    records: Sequence[Record], columns: _Columns, decimal_comma: bool, source: str
) -> list[Scored]:
    """Return the scores of a table with a row per question and a column per measure. If the
    question of a row failed, all its measures are NaN.

    A measure is a column that may be one by its name, does not name systems, and holds numbers.
    """
    values_by_measure: dict[str, list[float]] = {}  # a value per record
    # each column once, the known measures first
    for name in dict.fromkeys([*columns.known_measures, *columns.names]):
        if columns.may_be_measure(name) and name not in columns.systems:
            cells = _with_means_of_lists([record.get(name) for record in records])
            if name.startswith("score_"):
                cells = _with_numbers_of_grades(cells)
            values = _numbers_of_column(cells, decimal_comma)
            if values:  # [] if the column does not hold numbers
                values_by_measure[printable(name)] = values
                _warn_of_texts(cells, decimal_comma, f"{source}, column {printable(name)!r}")
    rows = []
    for place, record in enumerate(records):
        is_failed = columns.failed(record)
        scores = {}
        for measure, values in values_by_measure.items():
            scores[measure] = math.nan if is_failed else values[place]
        query_id, question = columns.identity(record)
        system = columns.system(record)
        rows.append(Scored(query_id, question, scores, system, _directions_in(record, scores)))
    return rows


def direction_column(measure: str) -> str:
    """Return the name of the column that states the direction of a measure, as TruLens writes it.

    >>> direction_column("Toxicity")
    'Toxicity direction'
    """
    return f"{measure} direction"


def _directions_in(record: Record, measures: Iterable[str]) -> dict[str, bool]:
    """Return measure -> True if a higher value is better, for the measures whose direction a row states."""
    directions = {}
    for measure in measures:
        is_higher = direction_of(record.get(direction_column(measure)))
        if is_higher is not None:
            directions[measure] = is_higher
    return directions


def _warn_of_texts(cells: Sequence[Any], decimal_comma: bool, where: str) -> None:
    """Warn of texts in a column of numbers, which count as missing."""
    texts = []
    for cell in cells:
        if isinstance(cell, str) and number_of(cell, decimal_comma=decimal_comma) is None:
            texts.append(cell)
    warn_of_flaw(where, "missing because the cell holds no number", texts)


def _numbers_of_column(cells: Sequence[Any], decimal_comma: bool) -> list[float]:
    """Return a number for each cell of a column, NaN for a cell without one; [] if the column does not
    hold numbers, that is, if it has none or more texts than numbers.
    """
    numbers = [number_of(cell, decimal_comma=decimal_comma) for cell in cells]
    n_texts = numbers.count(None)  # None: another text; NaN: an empty cell
    values = [math.nan if number is None else number for number in numbers]
    n_numbers = sum(not math.isnan(value) for value in values)
    return values if n_numbers and n_numbers >= n_texts else []


def _with_numbers_of_grades(cells: Sequence[Any]) -> Sequence[Any]:
    """Return the cells of a column with the grades of Inspect as numbers, if they are grades alone; blank
    cells stay.

    >>> _with_numbers_of_grades(["C", "I", None]), _with_numbers_of_grades(["C", "B"])
    ([1.0, 0.0, None], ['C', 'B'])
    """
    numbers = []
    for cell in cells:
        is_grade = isinstance(cell, str) and cell in GRADES
        if not is_grade and not is_blank(cell):
            return cells
        numbers.append(GRADES[cell] if is_grade else cell)
    return numbers


def _with_means_of_lists(cells: Sequence[Any]) -> Sequence[Any]:
    """Return the cells of a column, each list of scores replaced by the mean of its scores.

    This is done only if most lists hold one score, as Langfuse exports the scores of a trace; else
    the cells are returned unchanged.

    >>> _with_means_of_lists([[0.5], None, "[1, 0]", [1]]), _with_means_of_lists([[3, 7], [4, 8], [2]])
    ([0.5, None, 0.5, 1.0], [[3, 7], [4, 8], [2]])
    """
    read_cells = []  # with texts of lists as lists
    for cell in cells:
        if isinstance(cell, str) and cell.startswith("[") and len(cell) <= _MAX_LIST:
            cell = read_cell(cell)
        read_cells.append(cell)
    sizes = [len(cell) for cell in read_cells if isinstance(cell, list)]
    are_mostly_of_one = sizes.count(1) > len(sizes) / 2
    if not are_mostly_of_one:
        return cells
    return [_mean_score(cell) if isinstance(cell, list) else cell for cell in read_cells]


def _mean_score(scores: Sequence[Any]) -> Any:
    """Return the mean of scores, NaN without any; the list itself if one of them is not a number."""
    numbers = []
    for score in scores:
        number = number_of(score)
        if number is None:
            return scores
        numbers.append(number)
    return math.fsum(numbers) / len(numbers) if numbers else math.nan
