"""report.json: what a result shows, for other programs; and the place of reports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import ConfigError
from ragbench.evaluation import Result
from ragbench.evaluation.records import MeasureResult, Perspective
from ragbench.metrics.tidy import score_frame
from ragbench.report.page import check_output, write_report
from ragbench.report.page.report_json import report_json
from ragbench.types import Answer


def small_result(question: str = "When?", value: float | None = 0.5, name: str = "demo") -> Result:
    config = {
        "dataset": {"name": "pets", "split": "test", "fingerprint": "f" * 64, "documents": 2},
        "questions": {"q1": question},
        "system": {"name": "bm25"},
        "settings": {"cases": {"semantic": 0.7}},
    }
    return Result(
        name,
        config,
        {"q1": {"d#0": 1.0}},
        score_frame([("q1", "RR", value)]),
        [Answer("q1", "", ("d#0",))],
        perspectives=(Perspective("retrieval", True), Perspective("answer", False, "no labels")),
        rows=(
            MeasureResult("RR", "retrieval", value, None, None, 1, 1, 1.0, 0.6, verdict="missed"),
        ),
        verdicts={"q1": {"relevant": ("d",)}},
    )


@settings(max_examples=30, deadline=None)
@given(st.text(), st.none() | st.floats(-1e6, 1e6), st.text())
def test_any_text_and_number_survives(question: str, value: float | None, name: str) -> None:
    question, name = (text.encode("utf-8", "replace").decode() for text in (question, name))
    back = json.loads(report_json(small_result(question, value, name)))
    assert (back["questions"][0]["question"], back["name"]) == (question, name)
    assert back["measures"][0]["value"] == (None if value is None else round(value, 6))


def test_the_same_result_has_the_same_bytes() -> None:
    assert report_json(small_result()) == report_json(small_result())
    assert report_json(small_result()).startswith('{\n "ragbench": "report",\n "name": "demo",')


def test_measures_are_a_frame_without_none() -> None:
    result = small_result(value=None)
    assert result.measures.loc[0, "measure"] == "RR"
    assert result.measures["value"].isna().all()


def test_nothing_is_half_written_or_overwritten(tmp_path: Path) -> None:
    folder = write_report(small_result(), tmp_path / "mine")
    assert sorted(path.name for path in folder.iterdir()) == [
        "report.html",
        "report.json",
        "report.md",
    ]
    with pytest.raises(ConfigError, match="holds a report already"):
        write_report(small_result(), folder)
    write_report(replace(small_result(), name="second"), folder, force=True)
    assert json.loads((folder / "report.json").read_text())["name"] == "second"
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
        write_report(small_result(), tmp_path / "thesis" / "chapter.md", force=True)


@pytest.mark.parametrize("name", ["scores.csv", "report.htm", "report.txt", "a/report.pdf"])
def test_no_folder_is_made_of_a_name_that_ends_as_a_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"ends in \.\w+; a report is a file that ends in \.json"):
        write_report(small_result(), tmp_path / name)
    with pytest.raises(ConfigError, match="ends in"):
        check_output(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["mine", "v1.2", "gpt-4.1", "run.v2"])
def test_a_folder_may_have_a_dot_in_its_name(tmp_path: Path, name: str) -> None:
    folder = write_report(small_result(), tmp_path / name)
    assert (folder / "report.md").is_file()
