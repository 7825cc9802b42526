"""Whatever changes a file of a result is found when it is loaded, and said when a person accepts it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.errors import DataError, RagbenchError
from ragbench.evaluation import load_result
from ragbench.evaluation.checksums import (
    CHECKSUMS,
    EDITED,
    accept_changes,
    check_folder,
    write_config,
)
from ragbench.evaluation.folder import DIAGNOSIS, FILES, VERDICTS
from ragbench.report.page import report_html, report_markdown
from tests.committed import committed_files

WRITTEN = sorted({*FILES, DIAGNOSIS, VERDICTS})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = rb.load_dataset("pydoc")
    result = rb.evaluate(data.select([*data.queries][:12]), "bm25", perspectives=["retrieval"])
    folder = tmp_path_factory.mktemp("results") / "bm25"
    rb.save(result, folder)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "sweep" / "bm25"))


def test_the_files_of_a_saved_result_have_their_checksums(folder: Path) -> None:
    names: set[str] = set()
    for holder in ("config.json", "timings.json"):
        names |= json.loads((folder / holder).read_text(encoding="utf-8"))[CHECKSUMS].keys()
    assert names == {path.name for path in folder.iterdir()}
    assert not load_result(folder).edited
    assert CHECKSUMS not in load_result(folder).config


def _is_same_record(one: bytes | bytearray, other: bytes) -> bool:
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False


@pytest.mark.parametrize("name", WRITTEN)
def test_a_flipped_bit_anywhere_is_found_and_the_file_named(folder: Path, name: str) -> None:
    path = folder / name
    if not path.exists():
        pytest.skip(f"this result has no {name}")
    content = path.read_bytes()
    for place in range(0, len(content), max(1, len(content) // 40)):
        for bit in (0, 3, 5):
            flipped = bytearray(content)
            flipped[place] ^= 1 << bit
            path.write_bytes(flipped)
            if name in ("config.json", "timings.json") and _is_same_record(flipped, content):
                continue  # in another layout, or 1E-05 for 1e-05
            with pytest.raises(RagbenchError, match=name):
                load_result(folder)
    path.write_bytes(content)
    load_result(folder)


@pytest.mark.parametrize("name", [name for name in WRITTEN if name != "config.json"])
@pytest.mark.parametrize("fault", ["cut", "empty", "missing", "one more line", "of another result"])
def test_a_damaged_file_is_found(folder: Path, name: str, fault: str) -> None:
    path = folder / name
    if not path.exists() or not path.stat().st_size:
        pytest.skip(f"this result has no {name}")
    content = path.read_bytes()
    if fault == "missing":
        path.unlink()
    else:
        path.write_bytes(
            {
                "cut": content[: len(content) // 2],
                "empty": b"",
                "one more line": content + content.splitlines(keepends=True)[-1],
                "of another result": content.replace(b"p001", b"p002").replace(b"0.5", b"0.6")
                + b" ",
            }[fault]
        )
    with pytest.raises(DataError, match=name) as error:
        load_result(folder)
    if fault != "missing" and name != "timings.json":  # which is then no JSON
        assert f"ragbench verify {folder} --accept" in str(error.value)


def test_a_renamed_measure_is_not_a_measure_that_was_not_computed(folder: Path) -> None:
    path = folder / "scores.csv"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("Success@1", "Succ%ss@1", 1), encoding="utf-8", newline="\n")
    for load in (load_result, lambda one: rb.load_results(one.parent)):
        with pytest.raises(DataError, match=r"scores\.csv is damaged .changed after"):
            load(folder)


def test_a_result_without_checksums_is_not_loaded(folder: Path) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    del config[CHECKSUMS]
    path.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(DataError, match=r"config\.json is damaged .it has no checksums"):
        load_result(folder)


def test_line_ends_that_version_control_changed_are_no_damage(folder: Path) -> None:
    before = load_result(folder).scores
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert load_result(folder).scores.equals(before)


def test_an_accepted_edit_is_loaded_and_every_report_says_so(folder: Path) -> None:
    path = folder / "scores.csv"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(",0.0\n", ",1.0\n", 1), encoding="utf-8", newline="\n")
    run = CliRunner().invoke(app, ["verify", str(folder), "--accept"])
    assert (run.exit_code, run.output) == (0, "bm25: scores.csv\n")
    result = load_result(folder)
    assert result.edited == ("scores.csv",)
    for text in (report_markdown(result), report_html(result)):
        assert "dited by a person after it was made: scores.csv" in text
    [sentence] = [each for each in rb.Results([result]).conclude().evidence if "changed" in each]
    assert sentence == "A person changed scores.csv of bm25 after it was made."
    rb.save(result, folder.parent / "copy")
    assert load_result(folder.parent / "copy").edited == ("scores.csv",)
    run = CliRunner().invoke(app, ["verify", str(folder.parent), "--accept"])
    assert run.output.splitlines() == ["bm25: nothing was edited", "copy: nothing was edited"]


def test_an_edit_that_cannot_be_read_is_not_accepted_silently(folder: Path) -> None:
    (folder / "scores.csv").write_text("query_id,measure\nq1,RR\n", encoding="utf-8")
    run = CliRunner().invoke(app, ["verify", str(folder), "--accept"])
    assert run.exit_code == 2
    assert "scores.csv" in run.output


def test_a_part_of_another_type_is_refused_although_it_was_accepted(folder: Path) -> None:
    """Anyone can rewrite the checksums of a folder that is then given to others."""
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    wrong: list[tuple[str, object]] = []
    others: list[object] = [None, "x", [[]]]
    for part in config.keys() - {CHECKSUMS, "source"}:
        wrong += [(part, value) for value in others]
    inside: list[object] = [None, 0.5, []]
    for part in ("questions", "question_digests", "document_digests", "counts"):
        wrong += [(part, {**config[part], "x": value}) for value in inside]
    for name in ("name", "fingerprint", "documents"):
        wrong.append(("dataset", {**config["dataset"], name: []}))
    wrong += [("system", {**config["system"], name: 7}) for name in ("name", "kind")]
    wrong += [("facts", {**config["facts"], name: "x"}) for name in config["facts"]]
    for part, value in [*wrong, (EDITED, "x"), (EDITED, [1])]:
        path.write_text(json.dumps({**config, part: value}), encoding="utf-8")
        with pytest.raises(DataError, match=r"config\.json is damaged"):
            load_result(folder)
        accept_changes(folder)
        if part != EDITED:
            with pytest.raises(DataError, match=rf"config\.json is damaged \({part}"):
                load_result(folder)
    for value in [*others, {}]:
        path.write_text(json.dumps({**config, CHECKSUMS: value}), encoding="utf-8")
        with pytest.raises(DataError, match="it has no checksums"):
            load_result(folder)
        assert "config.json" in accept_changes(folder)
        load_result(folder)


def test_a_report_is_made_without_any_of_the_facts(folder: Path) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    for name in config["facts"]:
        facts = {other: value for other, value in config["facts"].items() if other != name}
        path.write_text(json.dumps({**config, "facts": facts}), encoding="utf-8")
        accept_changes(folder)
        assert "config.json" in report_markdown(load_result(folder))


@pytest.mark.parametrize("place", ["top", "row", "verdict", "perspective"])
def test_an_unknown_field_of_verdicts_is_refused_although_it_was_accepted(
    folder: Path, place: str
) -> None:
    path = folder / VERDICTS
    record = json.loads(path.read_text(encoding="utf-8"))
    case = next(iter(record["verdicts"].values()))
    {
        "top": record,
        "row": record["rows"][0],
        "verdict": case,
        "perspective": record["perspectives"][0],
    }[place]["pased"] = True
    path.write_text(json.dumps(record), encoding="utf-8")
    accept_changes(folder)
    with pytest.raises(DataError, match=r"(?s)verdicts\.json.*pased"):
        load_result(folder)


def test_a_report_written_later_has_its_checksum_and_may_be_deleted(folder: Path) -> None:
    rb.write_report(load_result(folder), folder)
    rb.write_report(load_result(folder), folder / "report.md", force=True)
    report = folder / "report.html"
    assert load_result(folder).name == "bm25"
    report.write_text(report.read_text(encoding="utf-8").replace("0", "9", 1), encoding="utf-8")
    with pytest.raises(DataError, match=r"report\.html is damaged"):
        load_result(folder)
    report.unlink()
    assert load_result(folder).name == "bm25"


def test_tables_of_a_notebook_are_checked(tmp_path: Path) -> None:
    (tmp_path / "curves.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    write_config(tmp_path, {"parameters": {}})
    check_folder(tmp_path)
    (tmp_path / "curves.csv").write_text("a,b\n1,3\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"curves\.csv is damaged"):
        check_folder(tmp_path)


@pytest.mark.parametrize("name", ["quickstart", "chunking", "judges"])
def test_the_committed_results_are_what_was_written(name: str) -> None:
    folders = {path.parent for path in committed_files(f"results/{name}")}
    for folder in folders:
        if (folder / "config.json").is_file():
            check_folder(folder)


@pytest.mark.parametrize("value", ["2.0", "-5", "1e30", "1e308"])
def test_a_score_outside_of_its_measure_is_not_loaded(folder: Path, value: str) -> None:
    path = folder / "scores.csv"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    row = next(i for i, line in enumerate(lines) if ",nDCG@10," in line)
    lines[row] = f"{lines[row].rpartition(',')[0]},{value}\n"
    path.write_text("".join(lines), encoding="utf-8", newline="\n")
    accept_changes(folder)
    with pytest.raises(DataError, match=r"scores\.csv: nDCG@10 of query .*expected 0 to 1"):
        rb.load_results(folder.parent)


def test_half_a_surrogate_pair_is_one_sentence_when_a_result_is_saved(tmp_path: Path) -> None:
    data = rb.load_dataset("pydoc")
    result = rb.evaluate(data.select([*data.queries][:2]), "bm25", perspectives=["retrieval"])
    with pytest.raises(RagbenchError, match="half of a surrogate pair"):
        rb.save(replace(result, run={"q\ud800": {"d": 1.0}}), tmp_path / "x")
    assert not [*tmp_path.iterdir()]
