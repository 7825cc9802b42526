"""The record of an evaluation, written and read back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import DataError
from ragbench.evaluation.records import CaseResult, MeasureResult, Perspective, Report, TestSet
from ragbench.evaluation.schema import parse_report, read_report, report_json, report_schema
from ragbench.report.page import check_output, write_report


def small_report(question: str = "When?", value: float | None = 0.5, name: str = "demo") -> Report:
    return Report(
        name=name,
        test_set=TestSet("pets", "test", "f" * 64, 1, 2),
        system={"name": "bm25"},
        settings={"cases": {"semantic": 0.7}},
        perspectives=(Perspective("retrieval", True), Perspective("answer", False, "no labels")),
        measures=(
            MeasureResult("RR", "retrieval", value, None, None, 1, 1, 1.0, 0.6, False, "missed"),
        ),
        cases=(
            CaseResult(
                "q1", question, "", "", None, (), None, None, "", ("d#0",), ("d",), {"RR": value}
            ),
        ),
    )


def test_a_report_is_read_back_as_it_was(tmp_path: Path) -> None:
    report = small_report()
    folder = write_report(report, tmp_path / "mine")
    assert read_report(folder) == report
    assert read_report(folder / "report.json") == report


@settings(max_examples=30, deadline=None)
@given(st.text(), st.none() | st.floats(-1e6, 1e6), st.text())
def test_any_text_and_number_survives(question: str, value: float | None, name: str) -> None:
    question, name = (text.encode("utf-8", "replace").decode() for text in (question, name))
    back = parse_report(json.loads(report_json(small_report(question, value, name))))
    assert (back.cases[0].question, back.name) == (question, name)
    assert back.measures[0].value == (None if value is None else round(value, 6))


def test_the_same_report_has_the_same_bytes_and_begins_with_its_schema() -> None:
    assert report_json(small_report()) == report_json(small_report())
    assert report_json(small_report()).startswith('{\n "schema": 1,')


def test_summary_and_scores_are_frames_without_none() -> None:
    report = small_report(value=None)
    assert report.summary.loc[0, "measure"] == "RR"
    assert report.summary["value"].isna().all()
    assert report.scores.to_dict("records")[0]["query_id"] == "q1"
    assert report.scores["value"].dtype == "float64"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "schema 2; this ragbench reads 1"),
        ({"schema": True}, "schema True"),
        ({"measures": "x"}, "measures: Input should be a valid tuple"),
        ({"cases": [{"query_id": "q"}]}, "cases.0.question: Field required"),
        ({"unknown": 1}, "unknown: Unexpected keyword argument"),
    ],
)
def test_invalid_reports_are_refused_with_the_place(change: dict[str, Any], message: str) -> None:
    data = {**json.loads(report_json(small_report())), **change}
    with pytest.raises(DataError, match=message):
        parse_report(data, "report.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not valid JSON"),
        ("[1, 2]", "is not a report of an evaluation"),
        ('{"a": NaN}', "it holds NaN"),
        ('{"measure": 1}', 'has no "schema"'),
        ("[" * 100_000, "is not valid JSON"),
    ],
)
def test_files_that_are_something_else(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(DataError, match=message):
        read_report(tmp_path)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no file .*none\.json"):
        read_report(tmp_path / "none.json")


def test_many_errors_are_counted() -> None:
    data = json.loads(report_json(small_report()))
    data["cases"] = [{} for _ in range(3)]
    with pytest.raises(DataError, match=r"cases\.0\.query_id: Field required.*and 31 more"):
        parse_report(data)


def test_the_schema_names_every_field() -> None:
    assert set(report_schema()["properties"]) == set(Report.__dataclass_fields__)


def test_nothing_is_half_written_or_overwritten(tmp_path: Path) -> None:
    from ragbench.errors import ConfigError

    folder = write_report(small_report(), tmp_path / "mine")
    assert sorted(path.name for path in folder.iterdir()) == [
        "report.html",
        "report.json",
        "report.md",
    ]
    with pytest.raises(ConfigError, match="holds a report already"):
        write_report(small_report(), folder)
    write_report(replace(small_report(), name="second"), folder, force=True)
    assert read_report(folder).name == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_foreign_folders_are_never_replaced(tmp_path: Path) -> None:
    from ragbench.errors import ConfigError

    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.md").write_text("years of work")
    with pytest.raises(
        ConfigError, match=r"holds 'chapter\.md', which is not part of an evaluation"
    ):
        check_output(tmp_path / "thesis", force=True)
    with pytest.raises(ConfigError, match="is a file"):
        write_report(small_report(), tmp_path / "thesis" / "chapter.md", force=True)
