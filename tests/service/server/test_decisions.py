"""The dashboard, the explorer and JUnit state the decision of `Results.conclude`, whatever it is."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import pytest
from fastapi.testclient import TestClient

import ragbench as rb
from ragbench.evaluation import Result
from ragbench.evaluation.decision import Conclusion
from ragbench.evaluation.records import MeasureResult
from ragbench.report.explorer import explore
from ragbench.report.page.junit import report_junit
from ragbench.service import history, record
from ragbench.service.app import create_app
from tests.evaluation.test_conclusion import BASE, DECISIONS_OF, KINDS, RACE, result
from tests.service.server.test_pages import words


def recorded(arms: Sequence[Result], folder: Path, database: str) -> dict[str, str]:
    """Save and record a sweep of acme; return configuration -> run id."""
    for day, arm in enumerate(arms, 1):
        config = {**arm.config, "source": "grid.toml", "made_at": f"2026-01-0{day}T02:00:00Z"}
        place = folder / arm.name
        rb.save(replace(arm, config=config), place)
        record([(rb.load_result(place), place)], client="acme", database=database)
    (folder / "race.json").unlink(missing_ok=True)
    runs = history(client="acme", limit=0, database=database)
    return dict(zip(runs["configuration"], runs["run"], strict=True))


@pytest.fixture
def visit(root: Path, database: str, keys: dict[str, str]) -> TestClient:
    client = TestClient(create_app(root, database), follow_redirects=False)
    client.headers["Origin"] = str(client.base_url)
    assert client.post("/login", data={"key": keys["acme admin"]}).status_code == 303
    return client


def shown(visit: TestClient, path: str) -> str:
    answer = visit.get(path)
    assert answer.status_code == 200, words(answer.text)
    return words(unescape(answer.text))


def check_states(text: str, conclusion: Conclusion) -> None:
    """Assert that a page has the decision, its evidence and one next step."""
    assert f"{conclusion.headline}." in text
    assert text.count("Next: ") == 1
    assert f"Next: {conclusion.next_step} ." in text or f"Next: {conclusion.next_step}." in text
    for sentence in conclusion.evidence:
        assert " ".join(sentence.split()) in text


@pytest.mark.parametrize("kind", KINDS)
def test_dashboard_and_explorer_state_the_decision_of_a_sweep(
    kind: str, visit: TestClient, root: Path, database: str
) -> None:
    folder = root / "results" / "mine"
    recorded(KINDS[kind], folder, database)
    if kind == "race":
        text = json.dumps({"race": RACE, "made_from": "x"})
        (folder / "race.json").write_text(text, encoding="utf-8")
    results = rb.load_results(folder)
    conclusion = results.conclude()
    expected = DECISIONS_OF.get(kind, kind)
    assert conclusion.decision == expected
    page = shown(visit, "/sweep?" + urlencode({"client": "acme", "series": "mine"}))
    check_states(page, conclusion)
    for arm in conclusion.arms:
        assert arm.label in page
    if kind == "race":
        assert "Race: by nDCG@10: 1 of 3 configurations were dropped" in page
    if kind == "conversations":
        assert (
            "(as much as 10 independent ones: others repeat, continue or resemble their neighbours)"
            in page
        )
    if len(results) == 1:
        return
    assert len(re.findall(rf"{expected}", page)) >= 2
    explorer = explore(results)
    assert explorer.data["conclusion"] == [conclusion.lines[0], conclusion.lines[-1]]
    assert explorer.conclusion.startswith(f"{conclusion.headline}. Next: {conclusion.next_step}.")


@pytest.mark.parametrize(
    "kind", ["better", "likely better", "undecided", "worse", "too few questions"]
)
def test_two_runs_are_compared_by_the_conclusion(
    kind: str, visit: TestClient, root: Path, database: str
) -> None:
    runs = recorded(KINDS[kind], root / "results" / "mine", database)
    page = shown(visit, f"/compare?a={runs['base']}&b={runs['other']}")
    api = visit.get(f"/api/v1/compare?a={runs['base']}&b={runs['other']}").json()
    decision = DECISIONS_OF.get(kind, kind)
    assert api["conclusion"]["decision"] == decision
    assert f"{api['conclusion']['headline']}." in page
    assert f"Next: {api['conclusion']['next_step']}" in page
    [row] = api["measures"]
    assert row["decision"] == decision


def test_the_comparison_shows_both_answers_and_measures_by_perspective(
    visit: TestClient, root: Path, database: str
) -> None:
    from tests.service.server.test_pages import hostile_run

    hostile = hostile_run(root, database)
    runs = recorded(KINDS["better"], root / "results" / "mine", database)
    html = visit.get(f"/compare?a={runs['base']}&b={runs['other']}").text
    page = words(unescape(html))
    assert re.search(r"decides nDCG@10 0\.\d{3}", page)
    n_rows = html.count('data-label="Before"><span class="chip')
    assert n_rows == len(BASE), "a row per question, with the answers of both"
    assert html.count(f'<option value="{runs["base"]}"') == 1, "no run is compared with itself"
    assert hostile not in html.partition("<form")[2].partition("</form>")[0]
    start = visit.get("/compare").text
    assert runs["base"] in start
    assert 'name="b"' not in start, "what can be compared follows from the first run"


def test_drafts_decide_nothing_on_the_dashboard(
    visit: TestClient, root: Path, database: str
) -> None:
    drafts = {f"q{i:02}": {"origin": "draft"} for i in range(len(BASE))}
    row = MeasureResult("nDCG@10", "retrieval", 0.5, None, None, len(BASE), len(BASE))
    arms = [
        result(name, values, verdicts=drafts, rows=(row,))
        for name, values in {"base": BASE, "other": BASE + 0.3}.items()
    ]
    runs = recorded(arms, root / "results" / "mine", database)
    page = shown(visit, f"/compare?a={runs['base']}&b={runs['other']}")
    assert "No decision: all questions are known-item drafts" in page
    assert "▲ better" not in page


def test_without_files_nothing_is_decided(visit: TestClient, root: Path, database: str) -> None:
    folder = root / "results" / "mine"
    runs = recorded(KINDS["better"], folder, database)
    folder.rename(root.parent / "elsewhere")
    for path in ("/sweep?series=mine", f"/compare?a={runs['base']}&b={runs['other']}"):
        page = shown(visit, path)
        assert "No decision: the files of" in page
        assert "▲ better" not in page


def test_sweeps_of_other_clients_are_404(
    visit: TestClient, root: Path, database: str, keys: dict[str, str]
) -> None:
    recorded(KINDS["better"], root / "results" / "mine", database)
    assert visit.get("/sweep?series=another").status_code == 404
    assert visit.get("/sweep?series=mine&client=other").status_code == 404
    visit.post("/login", data={"key": keys["other"]})
    assert visit.get("/sweep?series=mine").status_code == 404


def test_two_runs_of_one_configuration_have_names(
    visit: TestClient, root: Path, database: str
) -> None:
    nights = [
        replace(result("base", values), name=f"night{i}")
        for i, values in enumerate([BASE, BASE * 0.1])
    ]
    runs = recorded(nights, root / "results" / "mine", database)
    page = shown(visit, f"/compare?a={runs['night0']}&b={runs['night1']}")
    assert re.search(
        r"Keep the baseline, base \(run \w{8} of 2026-01-01 02:00\): "
        r"base \(run \w{8} of 2026-01-02 02:00\) is worse\.",
        page,
    )


def test_the_verdict_of_a_run_is_that_of_its_report(
    visit: TestClient, root: Path, database: str
) -> None:
    """Ragbench's own target is missed, and no user named it: the report says FAILED."""
    row = MeasureResult("pass_rate", "overall", 0.5, None, None, 4, 7, None, 0.9, verdict="missed")
    states = {"q00": True, "q01": True, "q02": False, "q03": False}
    verdicts: dict[str, Any] = {query_id: {"passed": state} for query_id, state in states.items()}
    values = [1.0, 1.0, 0.0, 0.0, None, None, None]
    made = result("base", values, measure="pass_rate", verdicts=verdicts, rows=(row,))
    [run] = recorded([made], root / "results" / "mine", database).values()
    report = words(visit.get(f"/runs/{run}/report.html").text)
    assert "FAILED" in report.upper()
    page = shown(visit, f"/runs/{run}")
    assert "✗ failed" in page
    assert "FAILED. 2 of 7 questions passed, 2 failed, 3 not decided" in page
    counts = "2 passed, 2 failed, 3 not decided"
    assert f"7 questions: {counts}" in page
    assert counts in shown(visit, "/")
    series = urlencode({"client": "acme", "series": "mine", "configuration": "base"})
    assert counts in shown(visit, f"/series?{series}")


@pytest.mark.parametrize("decided", [[True, True], [True, False], []])
def test_junit_states_the_conclusion(decided: list[bool]) -> None:
    verdicts: dict[str, Any] = {f"q{i:02}": {"passed": each} for i, each in enumerate(decided)}
    made = result("base", BASE, verdicts=verdicts)
    conclusion = rb.evaluation.Results([made]).conclude()
    root = ElementTree.fromstring(report_junit(made))
    stated = {one.get("name"): one.get("value") for one in root.iter("property")}
    assert stated["conclusion"] == conclusion.headline
    assert stated["next step"] == conclusion.next_step
