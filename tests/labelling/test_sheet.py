"""A file that survives clicks, two annotators, spreadsheets and answers that attack them."""

from __future__ import annotations

import csv
import threading
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragbench.errors import ConfigError, DataError, DataWarning
from ragbench.files import locked
from ragbench.labelling import (
    LabelItem,
    label_sheet,
    load_labels,
    read_sheet,
    save_label,
)
from ragbench.labelling.items import make_item
from ragbench.labelling.sheet import COLUMNS, MAX_CELL, bare, escaped, source_code, verdict_of
from ragbench.statistics import judge_agreement
from ragbench.testsets import writer
from ragbench.types import Answer, Case, Judgement

ATTACK, LINES = '=HYPERLINK("http://x","y")', 'Line one\nline, two; "three"'
ITEMS = [
    LabelItem(
        "item-a", "q1", "correctness", "Why?", ATTACK, "Ref", ("one", "two"), "easy", ("run",)
    ),
    LabelItem("item-b", "3-4", "correctness", "@SUM(A1)", LINES, "-1", (), "", ("run", "other")),
]


def test_a_sheet_is_written_and_read_back_as_it_was(tmp_path: Path) -> None:
    path = label_sheet(ITEMS, tmp_path / "new" / "labels.csv")
    sheet = read_sheet(path)
    assert sheet["answer"].tolist() == [item.answer for item in ITEMS]
    assert sheet["question"].tolist() == ["Why?", "@SUM(A1)"]
    assert sheet["query_id"].tolist() == ["q1", "3-4"]
    assert sheet["context"].tolist() == ["[1] one\n\n[2] two", ""]
    assert sheet["value"].isna().all()
    assert path.read_bytes().startswith(b"\xef\xbb\xbf"), "by which Excel knows UTF-8"


def test_no_cell_begins_a_formula_and_no_id_becomes_a_date(tmp_path: Path) -> None:
    path = label_sheet(ITEMS, tmp_path / "labels.csv", annotator="=cmd|calc")
    save_label(path, "item-a", 1.0, annotator="=cmd|calc", note="+1 good")
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    cells = [cell for row in rows for cell in row.values()]
    assert not [cell for cell in cells if cell.lstrip()[:1] in tuple("=+-@\t\r") and cell]
    assert rows[0]["answer"].startswith("'=HYPERLINK")
    assert rows[1]["query_id"] == "'3-4"
    assert read_sheet(path)["note"].tolist() == ["+1 good", ""]
    assert read_sheet(path)["annotator"].tolist() == ["=cmd|calc"] * 2


@settings(max_examples=100, deadline=None)
@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=40),
    st.booleans(),
)
@example("\x1f@", False)
def test_escaping_is_undone_exactly(text: str, is_id: bool) -> None:
    cell = escaped(text, is_id=is_id)
    assert bare(cell) == text
    assert cell.lstrip()[:1] not in ("=", "+", "-", "@")


@pytest.mark.parametrize("identifier", ["007", "1e5", "MAR1", "true", "2024-01-02", "½", "Sept 2"])
def test_ids_that_spreadsheets_convert_are_escaped(identifier: str) -> None:
    assert escaped(identifier, is_id=True) in (f"'{identifier}", "½")
    assert escaped(identifier) == identifier


def test_a_cell_fits_into_excel() -> None:
    assert len(escaped("x" * 50_000)) < 32_767
    assert escaped("x" * 50_000).startswith("x" * MAX_CELL)


@pytest.mark.parametrize(
    ("text", "value"),
    [("yes", 1), ("N", 0), ("TRUE", 1), ("0,75", 0.75), (" 0.5 ", 0.5), ("wrong", 0)],
)
def test_verdicts_as_people_write_them(text: str, value: float) -> None:
    assert verdict_of(text) == value


@pytest.mark.parametrize("text", ["maybe", "2", "-0.5", "nan", "inf"])
def test_other_verdicts_are_refused_with_their_line(text: str, tmp_path: Path) -> None:
    path = label_sheet(ITEMS, tmp_path / "labels.csv")
    whole = path.read_text(encoding="utf-8-sig").replace(
        '[1] one\n\n[2] two",,', f'[1] one\n\n[2] two",{text},'
    )
    path.write_text(whole, encoding="utf-8-sig")
    with pytest.raises(
        DataError, match=rf"labels.csv, line 4: the verdict '{text}' cannot be read"
    ):
        read_sheet(path)


def test_a_verdict_is_saved_changed_and_taken_back(tmp_path: Path) -> None:
    path = label_sheet(ITEMS, tmp_path / "labels.csv")
    save_label(path, "item-a", 0.75, note="nearly")
    assert read_sheet(path)["value"].tolist()[0] == 0.75
    save_label(path, "item-a", 1.0)
    row = read_sheet(path).iloc[0]
    assert (row["value"], row["note"]) == (1.0, "nearly")
    save_label(path, "item-a", None)
    assert read_sheet(path)["value"].isna().all()
    with pytest.raises(DataError, match="no item 'item-z' for 'me'"):
        save_label(path, "item-z", 1.0)
    with pytest.raises(ConfigError, match="verdict is 2"):
        save_label(path, "item-a", 2)


def test_writing_again_adds_and_never_loses(tmp_path: Path) -> None:
    path = label_sheet(ITEMS[:1], tmp_path / "labels.csv")
    save_label(path, "item-a", 1.0)
    label_sheet(ITEMS, path)
    label_sheet(ITEMS[1:], path, annotator="bob")
    sheet = read_sheet(path)
    assert sheet[["item", "annotator"]].to_numpy().tolist() == [
        ["item-a", "me"],
        ["item-b", "me"],
        ["item-b", "bob"],
    ]
    assert sheet["value"].tolist()[0] == 1.0
    assert sheet["picked"].eq("random").all()


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_a_sheet_that_a_spreadsheet_saved_its_way(delimiter: str, tmp_path: Path) -> None:
    path = label_sheet(ITEMS, tmp_path / "labels.csv")
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file))
    rows[1][rows[0].index("verdict")] = "0,25"
    rows = [[*row, "mine"] for row in rows]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator="\r\n").writerows(rows)
    assert read_sheet(path)["value"].tolist()[0] == 0.25
    save_label(path, "item-b", 1.0)
    assert read_sheet(path)["mine"].tolist() == ["mine", "mine"], "a column of one's own is kept"
    assert read_sheet(path)["answer"].tolist() == [item.answer for item in ITEMS]


def test_many_clicks_at_once_lose_nothing(tmp_path: Path) -> None:
    items = [LabelItem(f"item-{i}", f"q{i}", "correctness", "?", "!") for i in range(12)]
    path = tmp_path / "labels.csv"
    label_sheet(items, path)
    label_sheet(items, path, annotator="bob")

    def work(annotator: str) -> None:
        for i in range(12):
            save_label(path, f"item-{i}", 1.0, annotator=annotator)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("me", "bob")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_sheet(path)["value"].tolist() == [1.0] * 24
    assert sorted(p.name for p in tmp_path.iterdir()) == [".labels.csv.lock", "labels.csv"]


def test_a_sheet_that_another_process_holds_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_WAIT_S", 0.05)
    path = label_sheet(ITEMS, tmp_path / "labels.csv")
    with (
        locked(tmp_path / ".labels.csv.lock"),
        pytest.raises(DataError, match=r"labels.csv has been locked .* for 0.05 s; try again"),
    ):
        save_label(path, "item-a", 1.0)
    assert read_sheet(path)["value"].isna().all()


def test_the_sheet_does_not_contain_names_of_configurations(tmp_path: Path) -> None:
    path = label_sheet(ITEMS, tmp_path / "labels.csv")
    assert "run" not in path.read_text(encoding="utf-8-sig")
    assert read_sheet(path)["source"].tolist()[1].split() == [
        source_code("run"),
        source_code("other"),
    ]


def test_labels_come_back_by_configuration(tmp_path: Path) -> None:
    path = label_sheet(ITEMS, tmp_path / "labels.csv")
    save_label(path, "item-a", 1.0)
    save_label(path, "item-b", 0.0)
    answers = {
        "run": [Answer("q1", ITEMS[0].answer), Answer("3-4", ITEMS[1].answer)],
        "other": [Answer("q1", "x"), Answer("3-4", f"{ITEMS[1].answer}\n")],
    }
    labels = load_labels(path, answers=answers)
    assert labels[["configuration", "query_id", "value"]].to_numpy().tolist() == [
        ["run", "q1", 1.0],
        ["run", "3-4", 0.0],
        ["other", "3-4", 0.0],
    ]
    only = load_labels(path, answers={"other": answers["other"]})
    assert only["configuration"].tolist() == ["other"]
    assert load_labels(path)["configuration"].nunique() == 2
    with pytest.raises(DataError, match="none of 2 labels belongs to an answer of 'third'"):
        load_labels(path, answers={"third": []})


def test_labels_of_texts_that_changed_are_left_out(tmp_path: Path) -> None:
    path = label_sheet(ITEMS, tmp_path / "labels.csv")
    save_label(path, "item-a", 1.0)
    save_label(path, "item-b", 0.0)
    answers = {"run": [Answer("q1", "another text"), Answer("3-4", ITEMS[1].answer)]}
    with pytest.warns(
        DataWarning,
        match="1 labels belong to texts that are no longer the answer, first 'q1' of 'run'",
    ):
        assert load_labels(path, answers=answers)["query_id"].tolist() == ["3-4"]
    with pytest.raises(DataError, match="2 belong to texts that have changed"):
        load_labels(path, answers={"run": [Answer("q1", "x"), Answer("3-4", "x")]})


def test_what_was_picked_by_hand_and_is_drawn_later_belongs_to_the_sample(tmp_path: Path) -> None:
    path = label_sheet([replace(ITEMS[0], picked="hard"), ITEMS[1]], tmp_path / "labels.csv")
    save_label(path, "item-a", 1.0)
    label_sheet([replace(ITEMS[0], picked="drawn 1")], path, annotator="bob")
    assert read_sheet(path)["picked"].tolist() == ["hard", "random", "drawn 1"]
    label_sheet([replace(ITEMS[0], picked="drawn 1")], path)
    sheet = read_sheet(path)
    assert sheet["picked"].tolist() == ["drawn 1", "random", "drawn 1"]
    assert sheet["value"].tolist()[0] == 1.0


def test_two_sheets_of_two_people_are_one_set_of_labels(tmp_path: Path) -> None:
    paths = [
        label_sheet(ITEMS, tmp_path / f"{name}.csv", annotator=name) for name in ("ann", "bob")
    ]
    for path in paths:
        save_label(path, "item-a", 1.0, annotator=path.stem)
    assert load_labels(paths)["annotator"].tolist() == ["ann", "bob"]
    verdicts = [Judgement("q1", "correctness", 1.0)]
    twice = load_labels([paths[0], paths[0]])
    twice = twice[twice["configuration"] == twice["configuration"].iloc[0]]
    with pytest.raises(
        DataError, match=r"one value by each rater; keep one row.*'annotator': 'ann'"
    ):
        judge_agreement(verdicts, twice)


def test_from_the_sheet_to_agreement(tmp_path: Path) -> None:
    answers = [Answer(f"q{i}", f"text {i}") for i in range(40)]
    items = [
        LabelItem(
            f"item-{i}", f"q{i}", "correctness", "?", f"text {i}", sources=("run",), picked="random"
        )
        for i in range(12)
    ]
    path = label_sheet(items, tmp_path / "labels.csv")
    for i in range(12):
        save_label(path, f"item-{i}", float(i % 2))
    judgements = {"run": [Judgement(f"q{i}", "correctness", float(i % 2)) for i in range(40)]}
    labels = load_labels(path, answers={"run": answers})
    assert judge_agreement(judgements, labels)["value"].tolist() == [1.0] * 3


def test_files_that_are_not_a_sheet_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    with pytest.raises(DataError, match=r"labels\.csv does not exist"):
        read_sheet(path)
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(DataError, match="not a label sheet: it lacks the column"):
        label_sheet(ITEMS, path)
    assert path.read_text(encoding="utf-8") == "a,b\n1,2\n"
    path.write_bytes("item,verdict\nä".encode("cp1252"))
    with pytest.raises(DataError, match='save it as "CSV UTF-8"'):
        read_sheet(path)
    path.write_text(f"{','.join(COLUMNS)}\nitem-a,x\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 2: 2 cells, expected 13"):
        read_sheet(path)
    label = ["item-a", *[""] * 7, "corectness", "q", "", "", ""]
    path.write_text(f"{','.join(COLUMNS)}\n{','.join(label)}\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 2: unknown criterion 'corectness'"):
        read_sheet(path)
    with pytest.raises(ConfigError, match="annotator is empty"):
        label_sheet(ITEMS, tmp_path / "x.csv", annotator=" ")
    with pytest.raises(ConfigError, match="nothing to label"):
        label_sheet([], tmp_path / "x.csv")


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("form", ["{}", " {} ", "{}.1", "title"])
def test_a_doubled_column_is_named(column: str, form: str, tmp_path: Path) -> None:
    path = label_sheet(ITEMS, tmp_path / "labels.csv")
    sheet = pd.read_csv(path, dtype=str, keep_default_na=False)
    name = column.title() if form == "title" else form.format(column)
    pd.concat([sheet, sheet[column].rename(name)], axis=1).to_csv(path, index=False)
    with pytest.raises(DataError, match=f"labels.csv has the column {column} more than once"):
        read_sheet(path)


def made_sheet(path: Path, criterion: str) -> Path:
    items = []
    for query_id in ("q1", "q2", "q3"):
        case = Case(query_id, f"What is {query_id}?", reference_answer="Ref")
        key = (
            f"Answer to {query_id}.",
            *(("one", "two\n\nlines") if criterion != "relevance" else ()),
        )
        items.append(make_item(case, criterion, key, ("one", "two\n\nlines"), ["run"]))
    return label_sheet(items, path)


@pytest.mark.parametrize("criterion", ["relevance", "faithfulness"])
def test_an_item_that_rows_exchanged_is_named_with_its_line(criterion: str, tmp_path: Path) -> None:
    path = made_sheet(tmp_path / "labels.csv", criterion)
    assert len(read_sheet(path)) == 3
    sheet = pd.read_csv(path, dtype=str, keep_default_na=False)
    items = sheet["item"].tolist()
    sheet.assign(item=[items[0], items[2], items[1]]).to_csv(path, index=False)
    for act in (
        lambda: read_sheet(path),
        lambda: save_label(path, items[1], 1.0),
        lambda: load_labels(path),
    ):
        with pytest.raises(
            DataError, match=f"labels.csv, line .*: the item '{items[2]}' belongs to"
        ):
            act()
    sheet.assign(item=items[0]).to_csv(path, index=False)  # filled down
    with pytest.raises(DataError, match=f"the item '{items[0]}' belongs to another row"):
        read_sheet(path)


def test_a_text_that_a_spreadsheet_changed_is_no_exchange(tmp_path: Path) -> None:
    path = made_sheet(tmp_path / "labels.csv", "relevance")
    sheet = pd.read_csv(path, dtype=str, keep_default_na=False)
    sheet.assign(answer=sheet["answer"] + " (edited)").to_csv(path, index=False)
    assert len(read_sheet(path)) == 3


def test_a_row_twice_is_named(tmp_path: Path) -> None:
    path = made_sheet(tmp_path / "labels.csv", "relevance")
    sheet = pd.read_csv(path, dtype=str, keep_default_na=False)
    pd.concat([sheet, sheet.tail(1)]).to_csv(path, index=False)
    with pytest.raises(DataError, match="a second row of the item"):
        read_sheet(path)
