"""Tables of scores: which column holds what, how questions are paired, what is refused."""

from __future__ import annotations

import gzip
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ragbench as rb
from ragbench.errors import ConfigError, DataError, DataWarning
from ragbench.foreign import load_scores

N = 40
QUESTIONS = [f"Which plant grows on hill {i}?" for i in range(N)]
OLD = [round((i * 7 % 13) / 16, 3) for i in range(N)]
NEW = [round(min(1.0, score + 0.3 * (i % 5 > 0)), 3) for i, score in enumerate(OLD)]
GAIN = float(np.mean(np.array(NEW) - np.array(OLD)))


def table(scores: Any, **columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"question": QUESTIONS, "score": scores, **columns})


def by_id(scores: Any, ids: Any) -> pd.DataFrame:
    return pd.DataFrame({"id": ids, "score": scores})


def contender(conclusion: Any) -> Any:
    [arm] = [arm for arm in conclusion.arms if arm.name != conclusion.baseline]
    return arm


SAME: dict[str, tuple[Any, Any]] = {
    "two frames": (table(OLD), table(NEW)),
    "ids in the index": (
        pd.DataFrame({"score": OLD}, index=QUESTIONS),
        pd.DataFrame({"score": NEW}, index=QUESTIONS),
    ),
    "series": (pd.Series(OLD, index=QUESTIONS), pd.Series(NEW, index=QUESTIONS)),
    "mappings": (
        dict(zip(QUESTIONS, OLD, strict=True)),
        dict(zip(QUESTIONS, NEW, strict=True)),
    ),
    "lists of dicts": (table(OLD).to_dict("records"), table(NEW).to_dict("records")),
    "numbers and texts as ids": (
        by_id(OLD, range(N)),
        by_id(NEW, [f"{i}" for i in range(N)]),
    ),
    "whole numbers as floats": (by_id(OLD, np.arange(N) * 1.0), by_id(NEW, range(N))),
    "whole numbers as texts of floats": (
        by_id(OLD, [f"{i}.0" for i in range(N)]),  # a CSV file of pandas, read by anything else
        by_id(NEW, range(N)),
    ),
    "texts in JSON strings": (  # inputs of TruLens
        table(OLD).assign(question=[json.dumps(text) for text in QUESTIONS]),
        table(NEW),
    ),
    "ids that number shuffled rows": (
        table(OLD, id=range(N)),
        table(NEW).sample(frac=1, random_state=1).reset_index(drop=True).assign(id=range(N)),
    ),
    "ids that differ in every run": (
        table(OLD, trace_id=[f"a{i}" for i in range(N)]),
        table(NEW, trace_id=[f"b{i}" for i in range(N)]),
    ),
    "an id that is the topic": (
        table(OLD, id=["hills"] * N),
        table(NEW, id=["hills"] * N),
    ),
    "words in another case and spacing": (
        table(OLD),
        table(NEW).assign(question=[f"  {text.upper()} " for text in QUESTIONS]),
    ),
    "texts as ids of tidy scores": (
        pd.DataFrame({"query_id": QUESTIONS, "measure": "score", "value": OLD}),
        table(NEW),
    ),
    "prompts that differ by system": (
        by_id(OLD, range(N)).assign(prompt=[f"Be brief. {text}" for text in QUESTIONS]),
        by_id(NEW, range(N)).assign(prompt=[f"Think. {text}" for text in QUESTIONS]),
    ),
    "numbers as texts": (table([str(score) for score in OLD]), table(NEW)),
    "percentages": (
        table([f"{100 * score:.1f} %" for score in OLD]),
        table([f"{100 * score:.1f}%" for score in NEW]),
    ),
    "words of the score": (table(OLD, score_label="low"), table(NEW, score_label="high")),
    "runs of a question": (
        pd.concat([table(OLD, run=f"run {i}") for i in range(3)]),
        pd.concat([table(NEW, epoch=i) for i in range(2)]),
    ),
    "messages": (
        [
            {"messages_id": i, "input": [{"role": "user", "content": text}], "score": OLD[i]}
            for i, text in enumerate(QUESTIONS)
        ],
        table(NEW),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_scores_in_other_tables(name: str) -> None:
    conclusion = rb.compare(*SAME[name])
    arm = contender(conclusion)
    assert (arm.n, conclusion.total, conclusion.decision) == (N, N, "better")
    assert arm.difference == pytest.approx(GAIN, abs=1e-12)


def test_first_guesses_of_a_call() -> None:
    old, new = table(OLD), table(NEW)
    assert rb.compare([old, new]).decision == "better"
    assert rb.compare({"main": old, "branch": new}).choice == "branch"
    both = pd.concat([old.assign(model="small"), new.assign(model="large")])
    assert rb.compare(both).choice == "large"
    tidy = pd.DataFrame({"query_id": QUESTIONS, "measure": "RR", "value": OLD})
    assert len(rb.compare([tidy, tidy])) == 1
    assert rb.compare({"a": tidy, "b": tidy})["name"].tolist() == ["b"]


def test_other_names_of_options() -> None:
    old, new = table(OLD, style=NEW), table(NEW, style=OLD)
    assert rb.compare(old, new, measure="style").decision == "worse"
    with pytest.raises(
        rb.RagbenchError, match="compare has no option 'metric'; did you mean 'measure'"
    ):
        rb.compare(old, new, metric="style")  # type: ignore[call-overload]


MISSING: dict[str, Any] = {
    "empty cells": ["" if i < 5 else score for i, score in enumerate(OLD)],
    "None": [None if i < 5 else score for i, score in enumerate(OLD)],
    "n/a": ["n/a" if i < 5 else str(score) for i, score in enumerate(OLD)],
    "infinite": [np.inf if i < 5 else score for i, score in enumerate(OLD)],
}


@pytest.mark.parametrize("name", MISSING)
def test_missing_is_not_zero(name: str) -> None:
    conclusion = rb.compare(table(MISSING[name]), table(NEW))
    expected = np.mean(np.array(NEW[5:]) - np.array(OLD[5:]))
    assert contender(conclusion).n == N - 5
    assert contender(conclusion).difference == pytest.approx(expected, abs=1e-12)
    [reason] = conclusion.left_out
    assert reason.startswith("have no score in A (")
    assert any("Missing are not 0" in line for line in conclusion.evidence)


def test_a_text_in_a_column_of_numbers_is_missing_and_said() -> None:
    texts = ["HTTP 503" if i < 5 else str(score) for i, score in enumerate(OLD)]
    with pytest.warns(DataWarning, match="A, column 'score': 5 missing .*first: 'HTTP 503'"):
        conclusion = rb.compare(table(texts), table(NEW))
    assert contender(conclusion).n == N - 5


def test_a_measure_whose_column_holds_texts_in_one_table_is_named() -> None:
    good, poor = table(NEW, style=NEW), table([f"{score} points" for score in OLD], style=OLD)
    for tables, name in (((good, poor), "B"), ((poor, good), "A")):
        conclusion = rb.compare(*tables)
        assert conclusion.measure == "style"
        sentence = f"score is not compared: its column in {name} does not hold numbers"
        assert any(line.startswith(sentence) for line in conclusion.evidence)
    without = rb.compare(table(OLD, style=OLD), table(NEW))
    assert not any("is not compared" in line for line in without.evidence)


def test_a_score_of_an_answer_with_an_error_is_missing() -> None:
    errors = ["boom"] * 5 + [None] * (N - 5)
    zeros = [0.0] * 5 + OLD[5:]
    conclusion = rb.compare(table(zeros, error=errors), table(NEW, error=None))
    assert contender(conclusion).n == N - 5
    status = ["error"] * 5 + ["ok"] * (N - 5)
    assert contender(rb.compare(table(zeros, status=status), table(NEW))).n == N - 5


def test_a_question_with_other_words_under_its_id_is_left_out() -> None:
    changed = [f"{text} Now?" if i < 4 else text for i, text in enumerate(QUESTIONS)]
    conclusion = rb.compare(
        table(OLD, id=range(N)), table(NEW, id=range(N)).assign(question=changed)
    )
    assert contender(conclusion).n == N - 4
    assert conclusion.left_out == {"have other words under the same id (0, 1, 2, and 1 more)": 4}


def test_pass_and_fail_in_words() -> None:
    passed = np.where(np.array(OLD) > 0.5, "pass", "FAILED")
    conclusion = rb.compare(table(passed), table(np.array(NEW) > 0.5))
    expected = np.mean((np.array(NEW) > 0.5) * 1.0 - (np.array(OLD) > 0.5))
    assert contender(conclusion).difference == pytest.approx(expected, abs=1e-12)


def test_what_decides_is_no_amount_of_time_or_money() -> None:
    old = table(OLD, latency_ms=100.0)[["question", "latency_ms", "score"]]
    conclusion = rb.compare(old, table(NEW, latency_ms=200.0))
    assert conclusion.measure == "score"
    slower = rb.compare(
        old, table(NEW, latency_ms=[200.0 + i for i in range(N)]), measures="latency_ms"
    )
    assert slower.decision == "worse"
    assert "lower is better" in slower.evidence[0]


def test_bounds_are_known_declared_or_assumed() -> None:
    assumed = rb.compare(table(OLD), table(NEW))
    assert any("is taken for a measure from 0 to 1" in line for line in assumed.evidence)
    known = [frame.rename(columns={"score": "faithfulness"}) for frame in (table(OLD), table(NEW))]
    assert not any("taken for" in line for line in rb.compare(*known).evidence)
    tens = [table(np.array(scores) * 10) for scores in (OLD, NEW)]
    assert any("no known bounds" in line for line in rb.compare(*tens).evidence)
    declared = rb.compare(*tens, bounds={"score": (0, 10)})
    assert not any("bounds" in line for line in declared.evidence)
    for name in ("ci_low", "ci_high", "mde"):
        scaled = getattr(contender(declared), name)
        assert scaled == pytest.approx(10 * getattr(contender(assumed), name), rel=1e-6)


@pytest.mark.parametrize(
    "name",
    "brier_score harmfulness maliciousness rmse bits_per_byte word_perplexity Toxicity wer".split(),
)
def test_a_lower_value_is_better_by_the_name(name: str) -> None:
    tables = [frame.rename(columns={"score": name}) for frame in (table(OLD), table(NEW))]
    assert rb.compare(*tables).decision == "worse"


def test_a_declaration_ends_with_its_comparison() -> None:
    tens = [table(np.array(scores) * 10) for scores in (OLD, NEW)]
    rb.compare(*tens, bounds={"score": (0, 10)}, lower="score")
    assert rb.compare(table(OLD), table(NEW)).decision == "better"


def test_measures_of_ragbench_with_other_bounds() -> None:
    frames = [
        pd.DataFrame({"query_id": QUESTIONS, "nDCG@10": np.array(scores) * 100})
        for scores in (OLD, NEW)
    ]
    conclusion = rb.compare(*frames, bounds={"ndcg@10": (0, 100)})
    assert contender(conclusion).difference == pytest.approx(100 * GAIN, abs=1e-10)


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "no ids": (
        pd.DataFrame({"score": OLD, "note": "x"}),
        table(NEW),
        "A: no column has ids or texts of questions, by which two tables could be paired; expected "
        "one such as 'id' or 'question', found 'score', 'note'",
    ),
    "no scores": (
        pd.DataFrame({"question": QUESTIONS, "note": "x"}),
        table(NEW),
        "found 'question', 'note'",
    ),
    "other questions": (
        table(OLD),
        table(NEW).assign(question=[f"other {i}" for i in range(N)]),
        "no question in common, neither by id nor by text: A has 40 such as",
    ),
    "other measures": (
        table(OLD).rename(columns={"score": "f1"}),
        table(NEW),
        "no measure in common: A has f1; B has score",
    ),
    "a list of numbers": (OLD, NEW, "A is list of numbers without questions"),
    "a number": (5, table(NEW), "A is int"),
    "one system": (table(OLD), None, "A is one system; give a second file, or"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_compared_is_one_sentence(name: str) -> None:
    old, new, message = REFUSED[name]
    with pytest.raises(rb.RagbenchError) as refused:
        rb.compare(old, new)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def with_wrong_block(compressed: bytes) -> bytes:
    """Return a gzip file whose first block, after a header of 10 bytes, has no valid type."""
    return compressed[:10] + b"\xff" + compressed[11:]


PAIR = pd.DataFrame({"score": [0.25, 0.75]})
INDEXES: dict[str, tuple[pd.DataFrame, list[str]]] = {
    "texts are ids": (PAIR.set_axis(pd.Index(["a", "b"])), ["a", "b"]),
    "numbers are ids": (PAIR.set_axis(pd.Index([5, 9])), ["5", "9"]),
    "numbers from 1 are ids": (PAIR.set_axis(pd.RangeIndex(1, 3)), ["1", "2"]),
    "numbers from 0 of this name are ids": (
        PAIR.set_axis(pd.RangeIndex(2, name="query_id")),
        ["0", "1"],
    ),
    "rows selected from a table with ids": (
        PAIR.assign(id=["u", "v"]).set_axis(pd.Index([5, 9])),
        ["u", "v"],
    ),
    "rows cut from a table with query ids": (
        PAIR.assign(query_id=["u", "v"]).set_axis(pd.RangeIndex(2, 4)),
        ["u", "v"],
    ),
    "rows selected from a table with questions": (
        PAIR.assign(question=["Who?", "Where?"]).set_axis(pd.Index([5, 9])),
        ["", ""],
    ),
    "texts next to query ids": (
        PAIR.assign(query_id=["u", "v"]).set_axis(pd.Index(["a", "b"])),
        ["u", "v"],
    ),
}


@pytest.mark.parametrize("name", INDEXES)
def test_the_index_of_a_frame_and_of_a_parquet_file_is_read_alike(
    name: str, tmp_path: Path
) -> None:
    frame, query_ids = INDEXES[name]
    path = tmp_path / "frame.parquet"
    frame.to_parquet(path)
    for source in (frame, path):
        [scores] = load_scores(source)
        assert [row.query_id for row in scores.rows] == query_ids
        assert [row.scores for row in scores.rows] == [{"score": 0.25}, {"score": 0.75}]


def test_an_index_that_numbers_the_rows_identifies_no_question(tmp_path: Path) -> None:
    path = tmp_path / "frame.parquet"
    PAIR.to_parquet(path)
    for source in (PAIR, path):
        with pytest.raises(DataError, match="no column has ids or texts of questions"):
            load_scores(source)
    with pytest.raises(ConfigError, match="Series of numbers without questions"):
        load_scores(PAIR["score"])
    [scores] = load_scores(PAIR["score"].set_axis(pd.RangeIndex(1, 3)))
    assert [row.query_id for row in scores.rows] == ["1", "2"]


@pytest.mark.parametrize("name", ["scores.xlsx", "scores.dat", "scores.xlsm", "scores.xlsx.gz"])
def test_a_workbook_is_recognised_by_its_content(name: str, tmp_path: Path) -> None:
    workbook = io.BytesIO()
    table(NEW).to_excel(workbook, index=False)
    content = workbook.getvalue()
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    [scores] = load_scores(path)
    assert [row.scores["score"] for row in scores.rows] == NEW


def test_a_compressed_parquet_file_is_read(tmp_path: Path) -> None:
    file = io.BytesIO()
    table(NEW).to_parquet(file)
    path = tmp_path / "scores.parquet.gz"
    path.write_bytes(gzip.compress(file.getvalue()))
    [scores] = load_scores(path)
    assert [row.question for row in scores.rows] == QUESTIONS
    assert [row.scores["score"] for row in scores.rows] == NEW


DAMAGED: dict[str, tuple[bytes, str]] = {
    "empty.csv": (b"", "is empty"),
    "header.csv": (b"id,score\n", "no rows below its columns 'id', 'score'"),
    "ragged.csv": (
        b"id,score\n1,0.5\n2,0.5,7\n",
        "line 3 has 3 cells, the header 2: 'id', 'score'",
    ),
    "quote.csv": (b'id,score\n1,"0.5\n', "its columns are 'id', 'score'"),
    "twice.csv": (b"id,score,score\n1,1,0\n", "two columns 'score'"),
    "latin.csv": ("id,größe\n1,1\n".encode("latin-1"), "is not UTF-8"),
    "cut.json": (b'{"testCases": [{"input": "a", "name', "first fields are 'testCases', 'input'"),
    "cut.jsonl": (b'{"id": 1, "score": 1}\n{"id": 2, "sc', "the lines before have 'id', 'score'"),
    "config.json": (b'{"config": {"a": [1]}, "version": "x"}', "found 'config', 'version'"),
    "texts.json": (b'["a", "b"]', "expected a list of records"),
    "log.eval": (b"PK\x03\x04aaaa", "could not be read as a log of Inspect"),
    "book.xlsx": (b"PK\x03\x04aaaa", "could not be read as a workbook"),
    "table.parquet": (b"PAR1aaaa", "could not be read as parquet"),
    "page.html": (b"<html><body>x</body></html>", "is an HTML page"),
    "doctype.html": (b"<!DOCTYPE html>\n<p>x", "is an HTML page"),
    "feed.xml": (b"<feed><entry/></feed>", "expected tests of JUnit (testcase), found feed, entry"),
    "image.csv": (b"\x89PNG\r\n\x1a\n\x00\x00", "is not a text file"),
    "traces.sqlite": (
        b"SQLite format 3\x00\x10\x00",
        "not a text file: it starts with b'SQLite format 3",
    ),
    "utf16.csv": ("id,score\nq1,1\n".encode("utf-16-le"), "expected a table (CSV, JSON in UTF-8)"),
    "bm25.run": (b"q1 Q0 d1 1 9.5 bm25\nq1 Q0 d2 2 8.0 bm25\n", "is a run of documents"),
    "judged.txt": (b"q1 0 d1 1\nq2 0 d2 1\n", "is judgements of documents"),
    "ragas.json": (b'{"faithfulness": 0.8, "answer_relevancy": 0.7}', "one value for each measure"),
    "beir.json": (
        b'{"ndcg": {"NDCG@1": 0.5, "NDCG@10": 0.6}, "recall": {"Recall@10": 0.9}}',
        "one value for each measure, not scores of questions, as in 'ndcg'",
    ),
    "metrics.json": (
        b'{"metrics": {"faithfulness": 0.8}, "model": {"name": "x"}}',
        "one value for",
    ),
    "results.json": (
        b'{"results": {"hills": {"acc,none": 0.5}}, "configs": {"hills": {}}, "versions": {}}',
        "is a summary of lm-evaluation-harness without scores of questions; run it with --log_samples",
    ),
    "predictions.json": (
        b'{"mteb_model_meta": {}, "default": {"test": {"q1": {"d1": 0.5}, "q2": {"d2": 0.4}}}}',
        "is predictions of MTEB without scores of questions; they are runs of documents",
    ),
    "header.json": (
        b'{"version": 2, "status": "success", "eval": {"task": "sums"}, "plan": {}, "results": {}}',
        "is the header of a log of Inspect without scores of questions; read the whole log",
    ),
    "mteb.json": (
        b'{"task_name": "hills", "mteb_version": "2", "scores": {"test": [{"main_score": 0.5}]}}',
        "is a summary of MTEB",
    ),
    "cut.xml": (b"<testsuite><testcase", "is not valid XML"),
    "entity.xml": (b'<!DOCTYPE x [<!ENTITY a "b">]><x/>', "declares entities"),
    "means.txt": (b"ndcg_cut_10 all 0.5\nmap all 0.3\n", "only means over all queries"),
    "cut.csv.gz": (b"\x1f\x8bxx", "could not be decompressed"),
    "damaged.csv.gz": (
        with_wrong_block(gzip.compress(b"id,score\nq1,0.5\n")),
        "could not be decompressed",
    ),
    "cut.json.gz": (gzip.compress(b'{"q1": 0.5}')[:-9], "could not be decompressed"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_one_sentence(name: str, tmp_path: Path) -> None:
    content, message = DAMAGED[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(rb.RagbenchError) as refused:
        rb.compare(path, path)
    assert message in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_labels_of_people_state_what_they_show() -> None:
    labelled = pd.DataFrame(
        {
            "question": QUESTIONS[:30],
            "A": [float(i % 2) for i in range(30)],
            "B": [1.0] * 30,
        }
    )
    conclusion = rb.compare(table(OLD), table(NEW), labels=labelled)
    assert any("by people's verdicts" in line for line in conclusion.evidence)
    rows = labelled.melt("question", var_name="system", value_name="verdict")
    again = rb.compare(table(OLD), table(NEW), labels=rows)
    assert again.evidence == conclusion.evidence


def test_a_conclusion_is_escaped(tmp_path: Path) -> None:
    from ragbench.report.conclusions import conclusion_markdown

    named = {"a|b <b>x</b>": table(OLD), "\x1b[31mred": table(NEW)}
    text = conclusion_markdown(rb.compare(named))
    assert "<b>" not in text
    assert "\x1b" not in text


def test_a_line_of_json_may_hold_other_line_ends_in_its_texts(tmp_path: Path) -> None:
    paths = []
    for name, score in (("a", 0.0), ("b", 1.0)):
        path = tmp_path / f"{name}.jsonl"
        lines = [f'{{"question": "Who{i}\u2028?\u0085", "score": {score}}}\n' for i in range(12)]
        path.write_text("\n" + "".join(lines), encoding="utf-8")
        paths.append(path)
    conclusion = rb.compare(*paths)
    assert (conclusion.decision, conclusion.n) == ("better", 12)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.csv", "a.tsv"])
def test_a_byte_order_mark_changes_no_format(name: str, encoding: str, tmp_path: Path) -> None:
    frame = table(NEW)
    texts = {
        "a.json": frame.to_json(orient="records"),
        "a.jsonl": frame.to_json(orient="records", lines=True),
        "a.csv": frame.to_csv(),
        "a.tsv": frame.to_csv(sep="\t"),  # its header begins with a tab
    }
    path = tmp_path / name
    path.write_text(texts[name], encoding=encoding)
    assert contender(rb.compare(table(OLD), path)).difference == pytest.approx(GAIN, abs=1e-12)


def test_ids_that_are_numbers_of_sections_stay_as_they_are() -> None:
    sections = [f"{i // 10}.{i % 10}" for i in range(N)]  # 0.0, 0.1 ... 1.0
    [before] = load_scores(by_id(OLD, sections))
    assert [row.query_id for row in before.rows] == sections


def test_a_leaderboard_compares_all_systems_on_the_same_questions() -> None:
    old = dict(zip(QUESTIONS, OLD, strict=True))
    new = dict(zip(QUESTIONS[1:], NEW[1:], strict=True))  # lacks the first question
    third = dict.fromkeys(QUESTIONS[:-1], 0.5)  # lacks the last one
    conclusion = rb.compare({"old": old, "new": new, "third": third})
    arms = {arm.name: arm for arm in conclusion.arms}
    gains = np.array(NEW[1:-1]) - np.array(OLD[1:-1])
    assert conclusion.n == arms["new"].n == arms["third"].n == N - 2
    assert arms["new"].difference == pytest.approx(gains.mean(), abs=1e-12)
    assert arms["new"].mean - arms["old"].mean == pytest.approx(gains.mean(), abs=1e-12)


def workbook(path: Path, **sheets: pd.DataFrame) -> Path:
    with pd.ExcelWriter(path) as writer:
        for name, frame in sheets.items():
            frame.to_excel(writer, sheet_name=name, index=False)
    return path


def test_the_sheet_with_scores_is_read_whatever_its_place(tmp_path: Path) -> None:
    notes = pd.DataFrame({"About": ["Run of 3 May", "with the new index"]})
    path = workbook(tmp_path / "new.xlsx", notes=notes, scores=table(NEW))
    assert contender(rb.compare(table(OLD), path)).difference == pytest.approx(GAIN, abs=1e-12)


def test_further_sheets_with_scores_are_left_out_and_said(tmp_path: Path) -> None:
    # a text among the scores of a sheet that is left out is no flaw of this comparison
    other = table([*OLD[:-1], "good"])
    path = workbook(tmp_path / "both.xlsx", new=table(NEW), old=other)
    message = "sheets with scores: 1 left out because 'new' is the first; .* [(]first: 'old'[)]"
    with pytest.warns(DataWarning, match=message) as warned:
        conclusion = rb.compare(table(OLD), path)
    assert len(warned) == 1
    assert contender(conclusion).difference == pytest.approx(GAIN, abs=1e-12)


def test_a_workbook_without_scores_names_its_sheet(tmp_path: Path) -> None:
    notes = pd.DataFrame({"About": ["Run of 3 May"]})
    path = workbook(tmp_path / "notes.xlsx", notes=notes, empty=pd.DataFrame())
    with pytest.raises(DataError, match=r"notes\.xlsx, sheet 'notes': no column has ids"):
        load_scores(path)


def test_percentages_next_to_fractions_are_said() -> None:
    percentages = table(np.array(OLD) * 100)
    note = "score is from 0 to 1 in B and mostly above 1 in A: check that both have the same unit"
    assert any(note in line for line in rb.compare(percentages, table(NEW)).evidence)
    assert not any("unit" in line for line in rb.compare(table(OLD), table(NEW)).evidence)
    seconds = [frame.rename(columns={"score": "latency"}) for frame in (percentages, table(NEW))]
    assert not any("unit" in line for line in rb.compare(*seconds).evidence)


def test_tasks_that_number_their_questions_alike_are_not_runs() -> None:
    tasks = ["maths"] * 20 + ["prose"] * 20
    ids = [*range(20), *range(20)]
    before = by_id(OLD, ids).assign(task=tasks)
    after = by_id(NEW, ids).assign(task=tasks).sample(frac=1, random_state=1)
    conclusion = rb.compare(before, after)
    assert conclusion.n == contender(conclusion).n == N
    assert contender(conclusion).difference == pytest.approx(GAIN, abs=1e-12)
    # ids that no two tasks have in common stay as they are
    [kept] = load_scores(by_id(OLD, range(N)).assign(task=tasks))
    assert [row.query_id for row in kept.rows] == [str(i) for i in range(N)]


def test_a_report_of_junit_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "tests.xml"
    path.write_text("<testsuite><testcase name='a'/></testsuite>", encoding="utf-8-sig")
    assert [row.query_id for row in load_scores(path)[0].rows] == ["a"]


def failing(n: int, gain: float) -> pd.DataFrame:
    """Answers better than OLD by a gain, but none to the `n` questions with the best scores."""
    best = sorted(range(N), key=OLD.__getitem__)[N - n :]
    return table([None if i in best else OLD[i] + gain for i in range(N)])


UNEQUAL: dict[str, tuple[Any, Any, str, int, str]] = {
    "the contender fails": (table(OLD), failing(20, 0.2), "worse", N, "left out: B better"),
    "it fails once": (table(OLD), failing(1, 0.2), "better", 39, "change no decision"),
    "runs of a question fail": (
        table(OLD),
        pd.concat([table(NEW, epoch=0), *[table([math.nan] * N, epoch=i) for i in range(1, 4)]]),
        "worse",
        N,
        "left out: B better",
    ),
    "the baseline fails": (failing(20, 0.2), table(OLD), "worse", 20, "would give: B better"),
    "both fail alike": (failing(20, 0.2), failing(20, 0.4), "better", 20, "Missing are not 0"),
    "no worst value": (
        table(np.array(OLD) * 50),
        failing(20, 0.2).assign(score=lambda frame: frame["score"] * 50),
        "likely better",
        20,
        "declare bounds of score",
    ),
}


@pytest.mark.parametrize("name", UNEQUAL)
def test_missing_scores_of_one_system_never_favour_it(name: str) -> None:
    before, after, decision, n, sentence = UNEQUAL[name]
    conclusion = rb.compare(before, after)
    assert (conclusion.decision, conclusion.n) == (decision, n)
    assert any(sentence in line for line in conclusion.evidence)


def test_texts_among_the_scores_of_a_long_table_are_missing_and_said() -> None:
    long = table(OLD).assign(metric="overlap")
    texts = long.assign(score=["HTTP 503" if i < 5 else str(OLD[i]) for i in range(N)])
    with pytest.warns(DataWarning, match="B, values of 'overlap': 5 missing .*first: 'HTTP 503'"):
        conclusion = rb.compare(long, texts)
    assert contender(conclusion).n == N - 5
