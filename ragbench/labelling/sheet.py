"""The label sheet: the columns of a CSV file that is filled in with the widget or in a spreadsheet,
the words that are read as people's verdicts, and which labels are void because their answer
changed.

It is UTF-8 with a byte order mark, for Excel. A cell that a spreadsheet would take for a formula, a
number or a date gets an apostrophe in front, which is removed when the sheet is read.
"""

import csv
import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from ragbench.errors import ConfigError, DataError, unknown, warn_user
from ragbench.files import write_durably
from ragbench.labelling.items import LABELLED, LabelItem, has_scale, item_id_of, scale_of
from ragbench.testsets.writer import exclusive
from ragbench.text import escape_formula
from ragbench.types import Answer

COLUMNS = (
    "item question reference answer context verdict note annotator "
    "criterion query_id category picked source"
).split()

MAX_CELL = 32_000
"""Characters; Excel silently cuts a cell at 32,767."""

_NEEDED = {*"item verdict annotator criterion query_id picked source".split()}
_NUMBERED = re.compile(r"\.\d+$")  # as pandas writes a second column of a name
_IDS = ("query_id", "category", "annotator")
# Text that spreadsheets convert to a number, a date or a truth value: 007, 1e5, 3-4, MAR1, true.
_CONVERTED = re.compile(
    r"[\d.,:/#(]|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|true|false)", re.IGNORECASE
)
_WORDS = {
    **dict.fromkeys(("yes", "y", "true", "right", "correct"), 1.0),
    **dict.fromkeys(("no", "n", "false", "wrong", "incorrect"), 0.0),
}


def label_sheet(items: Sequence[LabelItem], path: str | Path, *, annotator: str = "me") -> Path:
    """Write a sheet for one annotator, or add the missing items to an existing one; no label is
    ever lost. Return its path.

    A second annotator may share the file: rows are added for them. In the widget they do not see
    each other's verdicts; in a spreadsheet they would, so give each annotator a separate file there.
    The column `source` has a code for the configurations, not their names. The column `picked` states how
    an item was chosen: "drawn 7", "random", or another word for a choice by hand. It is updated in this
    annotator's rows of `items`.

    Raises:
        DataError: the file exists and is not a sheet.
        ConfigError: there is no annotator, or no item.
    """
    path = Path(path)
    if not annotator.strip():
        raise ConfigError("annotator is empty; give the labeller a name")
    if not items:
        raise ConfigError("there is nothing to label; choose some items first")
    with exclusive(path):
        sheet = _read_cells(path) if path.exists() else pd.DataFrame(columns=COLUMNS, dtype=object)
        is_mine = sheet["annotator"] == annotator
        my_ids = {*sheet.loc[is_mine, "item"]}
        missing = [item for item in items if item.item_id not in my_ids]
        # An item that was picked by hand before may be drawn at random now, and then counts in estimates.
        new_picked = sheet["item"].map({item.item_id: item.picked for item in items})
        # missing in rows of other annotators or other items, which keep theirs
        my_picked = new_picked.where(is_mine)
        picked = my_picked.fillna(sheet["picked"])
        if missing or not picked.equals(sheet["picked"]):
            sheet["picked"] = picked
            rows = [_row_of_item(item, annotator) for item in missing]
            added = pd.DataFrame(rows, columns=sheet.columns, dtype=object).fillna("")
            _write_sheet(path, pd.concat([sheet, added]), sheet.attrs.get("delimiter", ","))
    return path


def read_sheet(path: str | Path, *, annotator: str | None = None) -> pd.DataFrame:
    """Return the rows of one annotator, or of all (None), as texts without the apostrophes; `value` is
    the verdict as a number, missing where unlabelled.

    A verdict is a number from 0 to 1 (with a point or a comma), a level of its criterion ("mostly"),
    yes, no, true, false, right or wrong; an empty one means unlabelled. A sheet may be separated by
    commas, semicolons or tabs, as spreadsheets of different countries write it.

    Raises:
        DataError: the file does not exist, is not a sheet or not UTF-8, has a column twice, an
            unreadable verdict, or an item that belongs to another row; with the line.
    """
    sheet = _read_cells(Path(path))
    if annotator is not None:
        sheet = sheet[sheet["annotator"] == annotator].reset_index(drop=True)
    values = []
    for verdict, criterion in zip(sheet["verdict"], sheet["criterion"], strict=True):
        values.append(verdict_of(verdict, criterion) if verdict else None)
    return sheet.assign(value=pd.Series(values, dtype="Float64"))


def save_label(
    path: str | Path,
    item_id: str,
    verdict: float | None,
    *,
    annotator: str = "me",
    note: str | None = None,
) -> None:
    """Save a verdict and a note in a row of the sheet; the file is replaced atomically.

    Args:
        path: the sheet.
        item_id: the id of the labelled item.
        verdict: a number from 0 to 1; None removes the verdict.
        annotator: whose row it is.
        note: a remark; None keeps the present one.

    Raises:
        DataError: the sheet has no such item for this annotator.
        ConfigError: the verdict is not a number from 0 to 1.
    """
    if verdict is not None and not 0 <= verdict <= 1:
        raise ConfigError(f"verdict is {verdict!r}; expected a number from 0 to 1, or None")
    path = Path(path)
    with exclusive(path):
        sheet = _read_cells(path)
        rows = (sheet["item"] == item_id) & (sheet["annotator"] == annotator)
        if not rows.any():
            raise DataError(
                f"{path.name} has no item {item_id!r} for {annotator!r}; write it with "
                "label_sheet first"
            )
        sheet.loc[rows, "verdict"] = "" if verdict is None else f"{verdict:g}"
        if note is not None:
            sheet.loc[rows, "note"] = note
        _write_sheet(path, sheet, sheet.attrs["delimiter"])


def load_labels(
    paths: str | Path | Sequence[str | Path],
    *,
    answers: Mapping[str, Sequence[Answer]] | None = None,
) -> pd.DataFrame:
    """Return the labels of one or several sheets, for `trust` and `judge_agreement`.

    A sheet names configurations by codes, so that annotators do not know them. Its column `source`
    has the codes of all configurations with the labelled answer. A label becomes a row for each code.

    Args:
        paths: sheets, such as one for each annotator.
        answers: configuration -> its answers. Then names of configurations replace the codes. Labels
            of other configurations are left out, and so are, with a warning, labels of texts that are
            no longer the answer. None keeps the codes, which is enough to compare the labels with
            judgements of one system.

    Returns:
        configuration, query_id, criterion, value, annotator, category, picked, note; one row per
        label and configuration with the labelled answer.

    Raises:
        DataError: `read_sheet` raises it, or no label is of one of the configurations.
    """
    paths = [paths] if isinstance(paths, str | Path) else paths
    labels = pd.concat([read_sheet(path).dropna(subset="value") for path in paths])
    n_in_sheets = len(labels)  # for a message
    # a row for each code in the column `source`; "" for a label without a code
    labels = labels.assign(configuration=labels["source"].str.split()).explode("configuration")
    labels["configuration"] = labels["configuration"].fillna("")
    if answers is not None:
        name_of_code = {source_code(name): name for name in answers}
        labels["configuration"] = labels["configuration"].map(name_of_code)
        labels = labels.dropna(subset="configuration")
        # warns of the labels of other texts, and raises DataError if no label is left
        labels = _labels_of_present_answers(labels, answers, n_in_sheets)
    columns = "configuration query_id criterion value annotator category picked note".split()
    labels = labels.astype({"value": float}).reindex(columns=columns, fill_value="")
    return labels.reset_index(drop=True)


def _labels_of_present_answers(
    labels: pd.DataFrame, answers: Mapping[str, Sequence[Answer]], n_in_sheets: int
) -> pd.DataFrame:
    """Return the labels whose text is still the answer of its configuration; warn of the others.

    Args:
        labels: rows of sheets, with the name of the configuration.
        answers: configuration -> its answers.
        n_in_sheets: the number of labels in the sheets, for the message.

    Raises:
        DataError: the sheets have labels, and none is of these answers.
    """
    present = set()
    for name, answers_of_name in answers.items():
        for answer in answers_of_name:
            present.add((name, answer.query_id, _unchanged_by_spreadsheets(answer.text)))
    texts = labels["answer"].map(_unchanged_by_spreadsheets)
    keys = pd.MultiIndex.from_arrays([labels["configuration"], labels["query_id"], texts])
    is_present = keys.isin(present)
    changed = labels[~is_present]
    labels = labels[is_present]
    if n_in_sheets and labels.empty:
        raise DataError(
            f"none of {n_in_sheets} labels belongs to an answer of "
            f"{', '.join(map(repr, answers))}; {len(changed)} belong to texts that have "
            "changed since; pass the results that were labelled, or label these"
        )
    if len(changed):
        first = changed.iloc[0]
        warn_user(
            f"{len(changed)} labels belong to texts that are no longer the answer, first "
            f"{first['query_id']!r} of {first['configuration']!r}; they are left out. Label the "
            "new answers"
        )
    return labels


def _unchanged_by_spreadsheets(text: str) -> str:
    """Return the part of a text that a spreadsheet leaves unchanged: it drops null characters, may change
    white space, and cuts long texts.
    """
    return " ".join(text.replace("\x00", "").split())[: MAX_CELL // 2]


def source_code(name: str) -> str:
    """Return the code of a configuration in a sheet, which hides its name from the labeller.

    >>> source_code("bm25-fixed-512")
    'c0e299898'
    """
    return f"c{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def verdict_of(text: str, criterion: str = "") -> float:
    """Return the value of a verdict cell, from 0 to 1: a number, a word such as yes or wrong, or the name
    of a level of its criterion.

    >>> verdict_of("yes"), verdict_of("0,75"), verdict_of("mostly", "relevance")
    (1.0, 0.75, 0.75)

    Raises:
        ValueError: the text is not a verdict.
    """
    word = text.strip().casefold()
    value_of_word = dict(_WORDS)
    if has_scale(criterion):
        for value, name in scale_of(criterion).verdicts.values():
            value_of_word[name.casefold()] = value
    if word in value_of_word:
        value = value_of_word[word]
    else:
        value = float(word.replace(",", "."))
    if not 0 <= value <= 1:
        raise ValueError(f"{text!r} is not from 0 to 1")
    return value


def escaped(text: str, *, is_id: bool = False) -> str:
    """Return the text escaped as a cell that no spreadsheet runs as a formula.

    An id is also escaped if a spreadsheet would change it to a number or a date. A long text is cut at
    `MAX_CELL` characters.

    >>> escaped("=HYPERLINK(1)"), escaped("plain"), escaped("3-4", is_id=True)
    ("'=HYPERLINK(1)", 'plain', "'3-4")
    """
    text = text.replace("\x00", "")
    if len(text) > MAX_CELL:
        text = f"{text[:MAX_CELL]} … (cut)"
    if is_id and _CONVERTED.match(text):
        return f"'{text}"
    return escape_formula(text)


def bare(cell: str) -> str:
    """Return the text of a cell before `escaped`."""
    return cell[1:] if cell.startswith("'") else cell


def _row_of_item(item: LabelItem, annotator: str) -> dict[str, str]:
    """Return the row of an item, still without a verdict and a note."""
    row = {name: getattr(item, name, "") for name in COLUMNS}
    row["item"] = item.item_id
    row["context"] = "\n\n".join(f"[{i}] {text}" for i, text in enumerate(item.contexts, 1))
    row["annotator"] = annotator
    row["source"] = " ".join(source_code(name) for name in item.sources)
    return row


def _read_cells(path: Path) -> pd.DataFrame:
    """Read a label sheet (CSV) as texts; the frame's `attrs` hold the delimiter.

    An apostrophe before a text, which keeps a spreadsheet from reading it as a formula, is removed.

    Raises:
        DataError: as `read_sheet`.
    """
    text = _read_text(path)
    header = text.partition("\n")[0]
    delimiter = max(",;\t", key=header.count)  # the most frequent one
    csv.field_size_limit(max(csv.field_size_limit(), 10_000_000))  # a cell may hold all contexts
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    columns = [name.strip() for name in next(reader, [])]
    _check_columns(columns, path.name)
    rows = []
    places = []  # "labels.csv, line 7" for each row
    for cells in reader:
        is_blank = not any(cells)
        if is_blank:
            continue
        place = f"{path.name}, line {reader.line_num}"
        if len(cells) != len(columns):
            raise DataError(f"{place}: {len(cells)} cells, expected {len(columns)}")
        row = dict(zip(columns, map(bare, cells), strict=True))
        row["verdict"] = row["verdict"].strip()
        _check_verdict(row, place)
        rows.append(row)
        places.append(place)
    _check_item_ids(rows, places)
    sheet = pd.DataFrame(rows, columns=columns, dtype=object)
    sheet.attrs["delimiter"] = delimiter
    return sheet


def _read_text(path: Path) -> str:
    """Return the text of a sheet; raises DataError if it does not exist or is not UTF-8."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as exc:
        raise DataError(
            f"{path.name} does not exist; write one with label_sheet, or run label.ipynb"
        ) from exc
    except UnicodeDecodeError as exc:
        raise DataError(
            f'{path.name} is not UTF-8; save it as "CSV UTF-8" in the spreadsheet'
        ) from exc


def _check_columns(columns: Sequence[str], file: str) -> None:
    """Raise DataError if a sheet lacks a needed column, or has a column twice.

    Copies named "Verdict" or "verdict.1" count, too: the verdicts may be in either.
    """
    lacking = _NEEDED - set(columns)
    if lacking:
        raise DataError(
            f"{file} is not a label sheet: it lacks the "
            f"column {', '.join(sorted(lacking))}; expected {', '.join(COLUMNS)}"
        )
    plain_names = [_NUMBERED.sub("", name.strip().casefold()) for name in columns]
    repeated = [name for name in COLUMNS if plain_names.count(name) > 1]
    if repeated:
        raise DataError(
            f"{file} has the column {', '.join(repeated)} more than once; delete the copies"
        )


def _check_verdict(row: Mapping[str, str], where: str) -> None:
    """Raise DataError for a row with an unknown criterion or an unreadable verdict.

    An empty verdict is allowed: the item is not labelled yet.
    """
    if not has_scale(row["criterion"]):
        raise DataError(f"{where}: {unknown('criterion', row['criterion'], LABELLED)}")
    if not row["verdict"]:
        return
    try:
        verdict_of(row["verdict"], row["criterion"])
    except ValueError as exc:
        raise DataError(
            f"{where}: the verdict {row['verdict']!r} cannot be read; expected a number from "
            "0 to 1, yes, no, or nothing"
        ) from exc


def _check_item_ids(rows: Sequence[Mapping[str, str]], places: Sequence[str]) -> None:
    """Raise DataError if a row has the item id of another row, or if an annotator has two rows of
    one item.

    With the id of another row, a verdict would become the label of that row's answer. This happens
    if a spreadsheet sorts or fills one column alone. An item id is a digest of the row's texts, so
    two signs show it:

    - the id does not fit the row's own texts, but the texts of another row;
    - an earlier row has the same id with another question or criterion. This also finds a copied id
      where a spreadsheet has changed the texts of both rows, so that it fits neither.

    An id that fits no row is allowed: a spreadsheet may have changed the texts.

    Args:
        rows: the rows of all sheets, with the columns item, query_id, criterion, annotator, and
            texts.
        places: where each row is, such as "labels.csv, line 7", for messages.
    """
    ids_of_texts = [_id_of_texts(row) for row in rows]
    # item -> (query_id, criterion) of its first row
    question_of_item: dict[str, tuple[str, str]] = {}
    # (item, annotator) of the rows so far
    seen: set[tuple[str, str]] = set()
    for row, id_of_texts, place in zip(rows, ids_of_texts, places, strict=True):
        item = row["item"]
        annotator = row["annotator"]
        question = (row["query_id"], row["criterion"])
        is_id_of_another_row = item != id_of_texts and item in ids_of_texts
        first_question = question_of_item.setdefault(item, question)
        if is_id_of_another_row or question != first_question:
            raise DataError(
                f"{place}: the item {item!r} belongs to another row than question "
                f"{row['query_id']!r}; restore the column item, or label on a new sheet"
            )
        if (item, annotator) in seen:
            raise DataError(
                f"{place}: a second row of the item {item!r} for {annotator!r}; delete one"
            )
        seen.add((item, annotator))


_NUMBER = re.compile(r"(?:\A|\n\n)\[\d+\] ")


def contexts_of(cell: str) -> list[str]:
    """Return the texts in a cell of the column `context`.

    >>> contexts_of("[1] One.\\n\\n[2] Two.")
    ['One.', 'Two.']
    """
    return _NUMBER.split(cell)[1:]


def _id_of_texts(row: Mapping[str, str]) -> str:
    """Return the item id made from the texts of a row; it differs from the row's item if a spreadsheet
    changed or cut the texts.
    """
    documents = []
    if scale_of(row["criterion"]).by_documents:
        documents = contexts_of(row.get("context", ""))
    return item_id_of(row["query_id"], row["criterion"], [row.get("answer", ""), *documents])


def _write_sheet(path: Path, sheet: pd.DataFrame, delimiter: str) -> None:
    """Write a sheet as CSV for spreadsheets: with a byte order mark, and with an apostrophe before texts
    that a spreadsheet would read as formulas, and before ids that it would read as numbers or dates (see
    `escaped`).
    """
    columns = {}
    for name, column in sheet.items():
        if name != "verdict":  # a number
            column = column.map(partial(escaped, is_id=name in _IDS))
        columns[name] = column
    text = pd.DataFrame(columns).to_csv(index=False, sep=delimiter, lineterminator="\n")
    byte_order_mark = "\ufeff"
    write_durably(path, byte_order_mark + text)
