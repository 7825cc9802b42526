"""Runs in a database of each kind: recorded, imported, rebuilt, merged."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sqlalchemy import delete, event, select, text
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.errors import ConfigError, DataError, DataWarning
from ragbench.evaluation import new_result, result_folders
from ragbench.evaluation.checksums import accept_changes
from ragbench.service import (
    compare_runs,
    drifts,
    history,
    history_database,
    import_results,
    measure_trends,
    record,
    run_of,
    tables,
    trend,
)
from ragbench.service.automatic import record_finished
from ragbench.service.datasets import iso_time
from ragbench.service.history_database import connected, database_url
from ragbench.service.measure_trends import overview
from ragbench.service.pages import series as page_series
from ragbench.service.pages.html_pages import drawn
from ragbench.service.recorded_runs import scores_of
from ragbench.statistics import Drift, drift
from ragbench.store.engines import engine_of
from tests.benchmark_table import Benchmark
from tests.committed import copy_committed
from tests.test_sweep import write_grid

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "results" / "quickstart"


def result(
    values: np.ndarray[Any, Any], at: str, *, ids: str = "q", name: str = "nightly"
) -> rb.Result:
    """A result with one measure, made at a given time."""
    names = [f"{ids}{i}" for i in range(len(values))]
    data = rb.Dataset(
        "docs",
        "test",
        {"d": rb.Document("d", "Text.")},
        tuple(rb.Case(one, f"Question {one}?") for one in names),
        {},
    )
    scores = pd.DataFrame({"query_id": names, "measure": "nDCG@10", "value": values})
    made = new_result(
        name=name, parameters={"retriever": "bm25"}, dataset=data, run={}, scores=scores
    )
    return replace(made, config={**made.config, "made_at": at, "series": name})


def nights(
    count: int, fall: float = 0.0, at: int = 0, seed: int = 0
) -> list[tuple[rb.Result, None]]:
    rng = np.random.default_rng(seed)
    table = np.clip(0.6 + rng.normal(0, 0.15, (count, 60)), 0, 1)
    table[at:] = np.clip(table[at:] - fall, 0, 1)
    dates = pd.date_range("2026-01-01T02:00Z", periods=count)
    return [(result(row, day.isoformat()), None) for row, day in zip(table, dates, strict=True)]


def everything(database: str) -> dict[str, list[Any]]:
    """What the database holds, without the time of recording and the numbers, which are given as
    runs come.
    """
    with connected(database) as connection:
        return {
            table.name: sorted(
                str({k: v for k, v in row.items() if k != "recorded_at"})
                for row in connection.execute(select(table)).mappings()
            )
            for table in tables.metadata.sorted_tables
            if table.name not in ("dataset", "run_number")
        }


def test_an_import_twice_adds_nothing_and_a_rebuilt_database_is_equal(
    database: str, new_database: Callable[[str], str], tmp_path: Path
) -> None:
    results = copy_committed("results", tmp_path / "results")
    assert import_results(results, database=database)[:2] == (6, 0)
    assert import_results(results / "quickstart", database=database)[:2] == (0, 6)
    again = new_database("sqlite")
    for folder in sorted(result_folders(results / "quickstart"), reverse=True):
        assert import_results(folder, database=again).added == 1
    assert everything(database) == everything(again)
    runs = history(database=database)
    assert len(runs) == 6
    assert runs["made_at"].is_monotonic_decreasing
    assert set(runs["series"]) == {"quickstart"}


def test_scores_come_back_as_they_were(database: str) -> None:
    import_results(QUICKSTART / "bm25-fixed-512-7780488f", database=database)
    [run] = history(database=database)["run"]
    stored = rb.load_result(QUICKSTART / "bm25-fixed-512-7780488f")
    _, scores, cases = scores_of(run[:10], database)
    assert cases == stored.queries
    values, expected = (
        frame.dropna().set_index(["query_id", "measure"])["value"].to_dict()
        for frame in (scores, stored.scores)
    )
    assert values == expected
    _, rows, _ = run_of(run, database)
    [row] = rows[rows["measure"] == "nDCG@5"].to_dict("records")
    summary = stored.measures.set_index("measure").loc["nDCG@5"]
    assert [row["mean"], row["ci_low"], row["ci_high"]] == [
        summary[name] for name in ("value", "ci_low", "ci_high")
    ]


def test_a_result_without_its_time_is_refused(tmp_path: Path) -> None:
    name = "bm25-fixed-512-7780488f"
    shutil.copytree(QUICKSTART / name, tmp_path / "sweep" / name)
    times = tmp_path / "sweep" / name / "timings.json"
    times.write_text(json.dumps({**json.loads(times.read_text()), "made_at": ""}))
    accept_changes(times.parent)
    database = str(tmp_path / "runs.sqlite")
    failed = import_results(tmp_path / "sweep", database=database).failed
    assert "when it was made is not known" in "".join(failed.values())
    times.write_text(
        json.dumps({**json.loads(times.read_text()), "made_at": "2025-03-01T10:00:00.5+01:00"})
    )
    accept_changes(times.parent)
    assert import_results(tmp_path, database=database).added == 1
    assert history(database=database)["made_at"].tolist() == ["2025-03-01T09:00:00.500Z"]


def test_a_run_made_again_is_a_new_observation_with_unchanged_scores(database: str) -> None:
    [(first, _), _] = nights(2)
    again = replace(first, config={**first.config, "made_at": "2026-02-01T00:00:00+00:00"})
    assert len(record([(first, None), (again, None), (first, None)], database=database)) == 2
    assert history(database=database)["changed"].tolist() == ["unchanged scores", "first run"]
    assert trend("ndcg@10", database=database)["state"].tolist() == ["first", "unchanged"]


def test_drift_is_found_with_its_date_and_another_dataset_starts_an_epoch(database: str) -> None:
    runs = nights(40, fall=0.1, at=30)
    record(runs, database=database)
    rows = trend("nDCG@10", series="nightly", database=database)
    assert rows["epoch"].nunique() == 1
    [(alarm, moved)] = rows.loc[rows["state"] == "fall", ["note", "moved"]].to_numpy()
    assert alarm.startswith("worse: fall from 0.")
    assert "since 2026-01-31" in alarm
    [found] = drifts("nDCG@10", database=database).values()
    assert len(found.changes[0].questions) == 5
    assert re.fullmatch(r"(?:q\d+ -0\.\d\d(?:, )?){5}", moved)
    assert set(rows.loc[rows["state"] != "fall", "moved"]) == {""}
    more = [(result(np.full(70, 0.5), "2026-03-01T00:00:00+00:00"), None)]
    record(more, database=database)
    last = trend("nDCG@10", database=database).iloc[-1]
    assert "dataset" in last["changed"]
    assert last["state"] == "first"


def test_two_runs_are_compared_on_the_questions_that_both_have(database: str) -> None:
    (one, _), (two, _) = nights(2)
    other = result(np.full(70, 0.9), "2026-03-01T00:00:00+00:00")
    a, b, c = record([(one, None), (two, None), (other, None)], database=database)
    expected = rb.compare(one.scores, two.scores, measures=["nDCG@10"])
    compared = compare_runs(
        a[:12], b[:12], database=database
    )  # questions in another order: p is sampled
    exact = ["measure", "difference", "wins", "losses", "n"]
    pd.testing.assert_frame_equal(compared[exact], expected[exact])
    assert compare_runs(a, c, database=database)["n"].tolist() == [60]
    apart = record(
        [(result(np.full(5, 0.5), "2026-04-01T00:00:00+00:00", ids="x"), None)], database=database
    )
    with pytest.raises(DataError, match="no question in common"):
        compare_runs(a, apart[0], database=database)


@pytest.fixture
def evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Evaluate recorded answers to a question, or a pipeline, by the command; the database with the
    runs.
    """
    monkeypatch.chdir(tmp_path)
    cases = [{"id": "q", "question": "How long do cats sleep?", "expectedDocumentId": "cats"}]
    (tmp_path / "pets.json").write_text(json.dumps(cases))
    (tmp_path / "docs").mkdir()
    for name in ("cats", "dogs"):
        (tmp_path / "docs" / f"{name}.txt").write_text(
            f"All the {name} sleep most of the day, and {name} dream."
        )
    answer = {
        "query_id": "q",
        "answer": "Most of the day.",
        "contexts": [{"id": "dogs.txt", "doc_id": "dogs.txt"}],
    }
    (tmp_path / "mine.jsonl").write_text(json.dumps(answer))
    database = str(tmp_path / "runs.sqlite")

    def evaluate(*options: str, **environment: str) -> str:
        command = [
            "eval",
            "--test-set",
            "pets.json",
            "--docs",
            "docs",
            "--perspective",
            "retrieval",
            *options,
        ]
        on = {"RAGBENCH_DATABASE": database, "RAGBENCH_HISTORY": "on", "RAGBENCH_SERIES": ""}
        CliRunner().invoke(app, command, env={**on, **environment})
        return database

    return evaluate


def test_the_series_of_an_evaluation_is_its_dataset_and_system(
    evaluated: Callable[..., str],
) -> None:
    for output in ("monday", "tuesday"):
        evaluated("mine.jsonl", "--output", output)
    evaluated("--output", "wednesday")
    evaluated("--suite", "smoke", "--category", "")
    database = evaluated(RAGBENCH_SERIES="ours")
    pipeline = "pets, bm25, recursive 256, extractive"
    series = history(limit=0, database=database)["series"].tolist()[::-1]
    assert series == ["pets, mine", "pets, mine", pipeline, f"{pipeline} (smoke)", "ours"]
    assert len(trend("nDCG@10", series="pets, mine", database=database)) == 2


def test_a_run_has_failed_only_by_a_target_of_its_user(evaluated: Callable[..., str]) -> None:
    evaluated("mine.jsonl", "--output", "first")  # misses the default nDCG@5
    evaluated("mine.jsonl", "--fail-under", "RR=0.9")
    evaluated("--fail-under", "RR=0.9")
    database = evaluated("mine.jsonl", "--baseline", "first")
    runs = history(limit=0, database=database)
    assert [None if one is pd.NA else bool(one) for one in runs["passed"]][::-1] == [
        False,
        False,
        True,
        True,
    ]


def test_clients_are_kept_apart(database: str) -> None:
    runs = nights(2)
    record(runs, client="a", database=database)
    record(runs, client="b", database=database)
    assert len(history(database=database)) == 4
    assert set(history(client="a", database=database)["client_id"]) == {"a"}
    assert trend("nDCG@10", client="b", database=database)["changed"].tolist() == ["first run", ""]


def test_runs_and_datasets_have_numbers_in_views(database: str) -> None:
    [(one, _), (two, _)] = nights(2)
    values = {"P@3": 0.25, "P@5": 0.2, "R@3": 0.75, "R@5": 1.0, "RR": 0.5, "claim_support": 0.9}
    rows = [(query_id, name, value) for query_id in one.queries for name, value in values.items()]
    scores = pd.DataFrame(rows, columns=["query_id", "measure", "value"])
    record(
        [(replace(one, scores=scores, rows=()), None), (two, None)],
        client="acme",
        database=database,
    )
    with connected(database) as connection:
        runs = (
            connection.execute(text("SELECT * FROM evaluation_runs ORDER BY created_at"))
            .mappings()
            .all()
        )
        [data] = connection.execute(text("SELECT * FROM evaluation_datasets")).mappings().all()
    assert (data["name"], data["client_id"]) == ("docs", "acme")
    pairs = json.loads(data["qa_pairs"])
    assert [pair["question"] for pair in pairs] == [*one.queries.values()]
    assert {pair["answer"] for pair in pairs} == {None}  # a result has no reference answers
    assert data["created_by"] == "ragbench eval"
    times = [data["created_at"], *(run["created_at"] for run in runs)]
    if "sqlite" not in database:  # which has no type for times
        assert all(isinstance(at, datetime) for at in times)
    assert all(iso_time(at).endswith("Z") for at in times)
    assert [run["dataset_id"] for run in runs] == [data["id"], data["id"]]
    assert runs[0]["id"] < runs[1]["id"]
    names = ("precision_at_k", "recall_at_k", "mrr", "claim_support", "k")
    assert [runs[0][name] for name in names] == [0.25, 0.75, 0.5, 0.9, 3]
    assert [runs[1][name] for name in names] == [None] * 5
    assert runs[0]["faithfulness"] is None  # the judge's; claim_support is a heuristic
    details = runs[0]["detailed_results"]
    assert (json.loads(details) if isinstance(details, str) else details) == values


def test_tables_of_another_version_are_refused(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connected(database, write=True) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    monkeypatch.setattr(history_database, "_ready", set())
    with pytest.raises(
        ConfigError, match=f"are of version 9999, this ragbench has {tables.VERSION}"
    ):
        history(database=database)


FIRST = """
import sys
from ragbench.service import history
history(database=sys.argv[1])
"""


def test_processes_that_come_first_at_the_same_moment_create_the_tables_once(database: str) -> None:
    command = [sys.executable, "-c", FIRST, database]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]
    for process in processes:
        _, error = process.communicate(timeout=120)
        assert process.returncode == 0, error.decode()
    assert history(database=database).empty


def test_tables_are_committed_before_another_thread_looks_for_them(
    new_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """MySQL commits each table by itself, their version only at the end."""
    database = new_database("mariadb")
    engine = engine_of(database_url(database), os.getpid())
    event.listen(engine, "commit", lambda connection: time.sleep(1))
    with ThreadPoolExecutor(2) as both:
        assert all(runs.empty for runs in both.map(lambda _: history(database=database), range(2)))


def test_long_and_odd_texts_are_kept(database: str) -> None:
    one = result(np.full(3, 0.5), "2026-01-01T00:00:00+00:00", name="ü" * 400)
    queries = {"q0": "é\U0001f600'\"\\%" + "x" * 100_000, "q1": "", "q2": "two"}
    measures = pd.concat(
        [
            one.scores,
            one.scores.assign(measure="words"),
            one.scores.assign(measure="Words", value=1),
        ]
    )
    odd = replace(
        one, config={**one.config, "questions": queries}, scores=measures.reset_index(drop=True)
    )
    [run] = record([(odd, None)], database=database)
    row, scores, cases = run_of(run, database)
    assert cases == queries
    assert len(row["series"]) == 190
    assert [scores.set_index("measure").loc[one, "mean"] for one in ("words", "Words")] == [
        0.5,
        1.0,
    ]


def test_unusable_databases_are_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="'oracle' is not known; use sqlite"):
        history(database="oracle://scott:tiger@db/x")
    with pytest.raises(DataError, match=r"postgresql.*\*\*\*") as refused:
        history(database="postgresql://user:secret@127.0.0.1:9/none")
    assert "secret" not in str(refused.value)
    (tmp_path / "text.sqlite").write_text("not a database, only text" * 100)
    with pytest.raises(DataError, match="cannot be used: file is not a database"):
        history(database=str(tmp_path / "text.sqlite"))
    with pytest.raises(ConfigError, match="no run has the measure 'nDCG@10'"):
        trend("nDCG@10", database=str(tmp_path / "new.sqlite"))
    with pytest.raises(DataError, match="holds no result"):
        import_results(tmp_path, database=str(tmp_path / "new.sqlite"))
    monkeypatch.setenv("RAGBENCH_DATABASE", str(tmp_path / "named.sqlite"))
    assert database_url().database == str(tmp_path / "named.sqlite")


def test_nothing_is_recorded_unless_it_is_on_and_a_failure_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGBENCH_DATABASE", str(tmp_path / "runs.sqlite"))
    record_finished(lambda: nights(1))  # under pytest
    monkeypatch.setenv("RAGBENCH_HISTORY", "off")
    record_finished(lambda: nights(1))
    assert not (tmp_path / "runs.sqlite").exists()
    monkeypatch.setenv("RAGBENCH_HISTORY", "on")
    record_finished(lambda: nights(1))
    assert len(history()) == 1
    monkeypatch.setenv("RAGBENCH_DATABASE", "mysql://127.0.0.1:9/none")
    with pytest.warns(DataWarning, match="the run is not in the history"):
        record_finished(lambda: nights(1))
    monkeypatch.setenv("RAGBENCH_HISTORY", "yes")
    with pytest.warns(DataWarning, match="expected on or off"):
        record_finished(lambda: nights(1))


def test_the_default_is_in_the_users_data_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("RAGBENCH_DATABASE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    place = Path(str(database_url().database))
    assert place.name == "history.sqlite"
    assert "cache" not in place.parts


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGBENCH_DATABASE", str(tmp_path / "runs.sqlite"))
    monkeypatch.setenv("RAGBENCH_HISTORY", "on")
    monkeypatch.chdir(tmp_path)

    def said(*arguments: str, status: int = 0) -> str:
        done = CliRunner().invoke(app, list(arguments))
        assert done.exit_code == status, done.output
        return done.output

    assert "history import" in said("history")
    for _ in range(2):
        said(
            "eval", "--suite", "smoke", "--perspective", "retrieval", "--output", "mine", "--force"
        )
    assert "0 runs added, 1 known already" in said("history", "import", "mine")
    newest = said("history")
    series = "pydoc, bm25, recursive 256, extractive (smoke)"
    assert newest.count(series) == 2
    assert "unchanged scores" in newest
    runs = [line.split()[0] for line in newest.splitlines()[1:]]
    assert "nDCG@5" in said("history", "show", runs[0])
    assert "unchanged" in said("history", "trend", "ndcg@10", "--series", series)
    assert f"did you mean '{series}'" in said(
        "history", "trend", "R@5", "--series", f"{series[:-4]}ke)", status=2
    )


def test_commands_record_what_they_finish(tmp_path: Path) -> None:
    database = str(tmp_path / "runs.sqlite")
    write_grid(tmp_path, "[axes]\nquality = [0.5, 1.0]\n")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST")
    }
    environment |= {
        "RAGBENCH_DATABASE": database,
        "RAGBENCH_HISTORY": "",
        "RAGBENCH_CLIENT": "acme",
    }
    smoke = ["eval", "--suite", "smoke", "--perspective", "retrieval", "--output", "results/mine"]
    for command in (["sweep", "tiny.toml"], smoke):
        called = [sys.executable, "-m", "ragbench", *command]
        done = subprocess.run(called, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "not in the history" not in done.stderr
    runs = history(database=database)
    counted = runs.groupby(["kind", "series"])["configuration"].nunique().to_dict()
    assert counted == {
        ("eval", "pydoc, bm25, recursive 256, extractive (smoke)"): 1,
        ("sweep", "tiny"): 2,
    }
    assert set(runs["client_id"]) == {"acme"}
    assert import_results(tmp_path / "results", database=database)[:2] == (0, 3), (
        "the files keep the client"
    )


@pytest.mark.benchmark
def test_recording_and_trends_are_quick(database: str, benchmark: Benchmark) -> None:
    """1,000 runs of 75 measures and 97 questions: below 30 CPU ms each; a trend with its test of drift below 0.5 s."""
    rng = np.random.default_rng(0)
    ids = [f"q{i}" for i in range(97)]
    data = rb.Dataset(
        "docs", "test", {}, tuple(rb.Case(one, f"Question {one}?") for one in ids), {}
    )
    measures = ["nDCG@10", *(f"own{i}" for i in range(74))]
    frame = pd.DataFrame({"query_id": ids * 75, "measure": np.repeat(measures, 97)})
    dates = pd.date_range("2020-01-01T02:00Z", periods=1000, freq="6h")
    spent = 0.0
    for i, day in enumerate(dates):
        scores = frame.assign(value=rng.beta(4, 1.5, len(frame)))
        made = new_result(name=f"s{i % 8}", parameters={}, dataset=data, run={}, scores=scores)
        made = replace(made, config={**made.config, "made_at": day.isoformat()})
        start = time.process_time()
        record([(made, None)], database=database)
        spent += time.process_time() - start
    start = time.process_time()
    rows = trend("nDCG@10", series="docs, s0", database=database)
    first = time.process_time() - start
    again = first
    for _ in range(5):
        start = time.process_time()
        trend("nDCG@10", series="docs, s0", database=database)
        again = min(again, time.process_time() - start)
    kind = database.partition(":")[0]
    trends = f"a trend of {len(rows)} runs, {kind}"
    work = f"recording a run of 75 measures, {kind}"
    benchmark.record(work, "-", spent, at_most=30, unit="CPU ms")
    benchmark.record(trends, "-", 1000 * first, unit="CPU ms")
    benchmark.record(f"{trends}, again", "-", 1000 * again, at_most=500, unit="CPU ms")


def states(database: str) -> list[str]:
    rows, _ = overview("", database=database)
    return [row["state"].text for row in rows]


def test_a_state_is_computed_again_where_runs_come_late_or_go(database: str) -> None:
    runs = nights(60, 0.2, 40)
    record(runs[:30] + runs[31:], database=database)
    [text] = states(database)
    assert text.startswith("fall from 0.595 to 0.380 since 2026-02-10")
    record([runs[30]], database=database)
    [later] = states(database)
    assert later != text
    with connected(database, write=True) as connection:
        fallen = tables.run.c.made_at > "2026-02-10"
        numbers = select(tables.run.c.id).where(fallen)
        connection.execute(delete(tables.run_number).where(tables.run_number.c.run_id.in_(numbers)))
        connection.execute(delete(tables.score).where(tables.score.c.run_id.in_(numbers)))
        connection.execute(delete(tables.run).where(fallen))
    [text] = states(database)
    assert text.startswith("nothing shown")


def test_the_first_page_has_the_state_of_the_trend(database: str) -> None:
    record(nights(50, 0.2, 40), database=database)
    record(nights(12, seed=2), series="another", database=database)
    rows, count = overview("", database=database)
    assert count == len(rows) == 2
    for row in rows:
        notes = trend("nDCG@10", series=row["series"], database=database)["note"]
        assert row["state"].text in "; ".join(notes)
        assert row["runs"] == len(notes)


def test_the_first_page_draws_its_charts_again_only_for_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = str(tmp_path / "runs.sqlite")
    runs = nights(4)
    record(runs[:3], database=database)
    macros: list[str] = []

    def counting(macro: str, *values: Any) -> Any:
        macros.append(macro)
        return drawn(macro, *values)

    monkeypatch.setattr(page_series, "drawn", counting)

    def charts() -> list[str]:
        [row], _ = overview("", database=database)
        return [str(panel["drawing"]) for panel in page_series.newest_panels(row, database)]

    assert charts() == charts()
    assert macros == ["line_chart"]
    assert charts()[0].count('class="dot"') == 3
    record(runs[3:], database=database)
    assert charts()[0].count('class="dot"') == 4
    assert macros == ["line_chart"] * 2


def test_false_alarms_are_counted_over_all_that_is_watched_in_a_series_of_a_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two configurations with a watched measure each, and another client's series of this name."""
    database = str(tmp_path / "runs.sqlite")
    lines = (("acme", "small"), ("acme", "large"), ("other", "small"))
    for hour, (client, name) in enumerate(lines):
        made = result(np.full(12, 0.5), f"2026-01-01T0{hour}:00:00+00:00", name=name)
        made = replace(made, config={**made.config, "source": "grid.toml"})
        record([(made, None)], series="nightly", client=client, database=database)
    counted: list[int] = []

    def counting(values: pd.DataFrame, *, streams: int, fall: float) -> Drift:
        counted.append(streams)
        return drift(values, streams=streams, fall=fall)

    monkeypatch.setattr(measure_trends, "drift", counting)
    assert len(trend("nDCG@10", database=database)) == 3
    assert sorted(counted) == [1, 2, 2]
    counted.clear()
    trend("nDCG@10", client="acme", series="nightly", database=database)
    overview("acme", database=database)
    assert counted == [2, 2, 2, 2]
