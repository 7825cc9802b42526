"""The pages: who sees what, forms, and what each of them states."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pandas as pd
import pytest
from fastapi.testclient import TestClient

from ragbench.evaluation import new_result, save
from ragbench.service import add_alert, add_schedule, history, record
from ragbench.service.app import create_app
from ragbench.service.pages.charts import axis
from ragbench.testsets.forms import save_testset
from ragbench.types import Case, Dataset, Document
from tests.report.page.test_html import ATTACKS
from tests.service.server.conftest import Call
from tests.service.test_history import nights


@pytest.fixture
def visit(root: Path, database: str, keys: dict[str, str]) -> TestClient:
    client = TestClient(create_app(root, database), follow_redirects=False)
    client.headers["Origin"] = str(client.base_url)
    assert client.post("/login", data={"key": keys["acme admin"]}).status_code == 303
    return client


def runs_of(database: str, client: str = "acme") -> list[str]:
    return list(history(client=client, limit=0, database=database)["run"])


def series_page(client: str = "acme", **more: str) -> str:
    return "/series?" + urlencode(
        {"client": client, "series": "nightly", "configuration": "nightly", **more}
    )


class Tags(HTMLParser):
    """The tags of a page with their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, attrs))


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_an_empty_database_shows_the_three_commands_that_fill_it(visit: TestClient) -> None:
    for path in ("/", "/admin.html"):
        shown = visit.get(path).text
        for command in ("ragbench init", "ragbench eval", "ragbench history import"):
            assert f"<code>{command}" in shown
    assert visit.get("/compare").status_code == 200


def test_runs_show_value_state_and_times(visit: TestClient, database: str, root: Path) -> None:
    record(nights(42, 0.2, 34), client="acme", database=database)
    record(nights(3, seed=1), client="acme", series="short", database=database)
    record(nights(3), client="other", series="not yours", database=database)
    add_schedule("nightly", "0 2 * * *", ["eval"], client="acme", database=database, folder=root)
    shown = words(visit.get("/").text)
    assert "1 of 2 got worse." in shown
    assert re.search(r"▼ worse fall from 0\.\d+ to 0\.\d+ since 2026-02-04", shown)
    assert re.search(r"2026-02-11 02:00 next 20\d\d-\d\d-\d\d 02:00, 42 runs", shown)
    assert "nDCG@10, 60 of 60 questions" in shown
    assert "not yours" not in shown
    assert words(visit.get("/admin.html").text) == words(visit.get("/").text)


def test_who_has_no_key_is_asked_for_it(visit: TestClient) -> None:
    visit.cookies.clear()
    answer = visit.get("/compare")
    assert (answer.status_code, 'action="/login"' in answer.text) == (401, True)
    answer = visit.post("/login", data={"key": "wrong"})
    assert (answer.status_code, "This key gives no access." in answer.text) == (401, True)
    assert not visit.cookies


def test_a_series_has_its_charts_and_changes(visit: TestClient, database: str) -> None:
    before = nights(42, 0.2, 34)
    later = [
        (replace(one, config={**one.config, "environment": {"libraries": {"app": "2"}}}), None)
        for one, _ in before[38:]
    ]
    record([*before[:38], *later], client="acme", database=database)
    html = visit.get(series_page()).text
    assert re.search(r"Got worse: nDCG@10 fall from .* since 2026-02-04", words(html))
    assert "app none -&gt; 2" in html
    assert html.count('class="hit"') == 42
    assert visit.get(series_page(configuration="another")).status_code == 404
    assert visit.get("/series").status_code == 422


def test_the_first_charts_of_a_series_are_those_of_the_guide(
    visit: TestClient, database: str
) -> None:
    [(one, _), (two, _)] = nights(2)
    names = ("nDCG@10", "pass_rate", "P@3", "P@5", "R@5", "RR", "claim_support")
    rows = [(query_id, name, 0.5) for query_id in one.queries for name in names]
    scores = pd.DataFrame(rows, columns=["query_id", "measure", "value"])
    runs = [
        (replace(each, scores=scores, config={**each.config, "facts": {"cost_usd": cost}}), None)
        for each, cost in ((one, 0.0004), (two, 0.0009))
    ]
    record(runs, client="acme", database=database)
    html = visit.get(series_page()).text
    headings = re.findall(r"<section><h2>(\S+)", html)
    assert headings[:5] == ["pass_rate", "P@5", "R@5", "RR", "nDCG@10"]
    assert "cost of a run" in html
    assert "$0.0009" in html


def test_the_first_visit_shows_the_charts_of_the_series_that_ran_last(
    visit: TestClient, database: str
) -> None:
    names = ("nDCG@10", "pass_rate", "P@5", "R@5", "RR")
    runs = []
    for cost, (each, _) in enumerate(nights(3)):
        rows = [(query_id, name, 0.5) for query_id in each.queries for name in names]
        scores = pd.DataFrame(rows, columns=["query_id", "measure", "value"])
        config = {**each.config, "facts": {"cost_usd": cost / 100}}
        runs.append((replace(each, scores=scores, config=config), None))
    record(runs, client="acme", database=database)
    record(nights(1, seed=1), client="acme", series="earlier", database=database)
    record(nights(3, seed=2), client="other", series="not yours", database=database)
    html = visit.get("/").text
    headings = re.findall(r"<section><h3>(.+?) <span", html)
    assert headings == ["pass_rate", "P@5", "R@5", "RR", "cost of a run"]
    assert html.count('class="hit"') == 3 * len(headings)
    assert "Newest series over time: nightly" in words(html)
    record(nights(5, seed=3)[4:], client="acme", series="alone", database=database)
    html = visit.get("/").text  # a new run is seen, and one without these measures has its first
    assert re.findall(r"<section><h3>(.+?) <span", html) == ["nDCG@10"]
    assert "Newest series over time: alone" in words(html)


def test_data_sets_and_clients_are_listed(
    filled: Call, client: TestClient, keys: dict[str, str], database: str
) -> None:
    filled("POST", "/api/v1/evaluation/generate", {"name": "Drafts", "sample_size": 3})
    run = filled("POST", "/api/v1/evaluation/runs", {"dataset_id": 1, "k": 5})
    record(nights(2), client="other", database=database)
    client.headers["Origin"] = str(client.base_url)
    for key, everyone in (("*", True), ("acme reader", False)):
        client.cookies.clear()
        client.post("/login", data={"key": keys[key]})
        html = client.get("/datasets").text
        shown = words(html)
        listed = filled("GET", "/api/v1/evaluation/datasets", key=key)
        assert {row["name"] for row in listed} == {"Drafts", "support"}
        for row in listed:
            pairs = f"{row['name']} number {row['dataset_id']} acme {row['qa_count']} 0 days"
            assert pairs in shown
        assert shown.count(" runner ") == 2  # the key that made them
        assert f"{run['recall_at_k']:.3f}" in shown
        assert ('name="client"' in html, "client=other" in html) == (everyone, everyone)
    assert client.get("/datasets?client=other").status_code == 404


def test_two_runs_are_compared_and_foreign_ones_are_404(visit: TestClient, database: str) -> None:
    record(nights(14, 0.2, 8), client="acme", database=database)
    record(nights(2), client="other", database=database)
    own, foreign = runs_of(database), runs_of(database, "other")
    shown = words(visit.get(f"/compare?a={own[-1]}&b={own[0]}").text)
    assert "No decision: the files of these runs are not in the folder of this server" in shown
    assert re.search(r"nDCG@10 0\.\d{3} 0\.\d{3} -0\.\d{3}", shown)
    assert visit.get(f"/runs/{own[0]}").status_code == 200
    missing = visit.get("/runs/0000")
    for path in (
        f"/runs/{foreign[0]}",
        f"/runs/{foreign[0]}/report.html",
        f"/compare?a={own[0]}&b={foreign[0]}",
    ):
        answer = visit.get(path)
        assert (answer.status_code, words(answer.text)) == (404, words(missing.text))
    for path in (series_page("other"), "/?client=other"):
        assert visit.get(path).status_code == 404


def hostile_run(root: Path, database: str, client: str = "acme") -> str:
    """A run whose every text is an attack, saved below the root of the server; its id."""
    ids = [f"q{i} {attack}" for i, attack in enumerate(ATTACKS)]
    cases = tuple(
        Case(one, attack, attack, reference_answer=attack)
        for one, attack in zip(ids, ATTACKS, strict=True)
    )
    data = Dataset(ATTACKS[0], "test", {"d": Document("d", ATTACKS[1])}, cases, {})
    values = pd.DataFrame(
        {"query_id": ids, "measure": "pass_rate", "value": np.arange(len(ids)) % 2.0}
    )
    for day in (1, 2):
        made = new_result(
            name=f"{ATTACKS[1]}{ATTACKS[4]}",
            parameters={"retriever": ATTACKS[0]},
            dataset=data,
            run={},
            scores=values if day == 1 else values.assign(value=1 - values["value"]),
        )
        environment = {"libraries": {ATTACKS[1]: ATTACKS[0] * day}}
        made = replace(
            made,
            config={**made.config, "made_at": f"2026-01-0{day}T00:00Z", "environment": environment},
        )
        place = save(made, root / "results" / f"day{day}")
        record([(made, place)], client=client, database=database)
    return runs_of(database, client)[0]


def test_the_report_is_shown_in_a_sandbox_if_it_is_below_the_root_and_the_same(
    visit: TestClient, database: str, root: Path
) -> None:
    run = hostile_run(root, database)
    link = f'href="/runs/{run}/report.html"'
    assert link in visit.get(f"/runs/{run}").text
    report = visit.get(f"/runs/{run}/report.html")
    policy = report.headers["content-security-policy"]
    assert "sandbox allow-scripts" in policy
    assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]
    assert "<script>alert" not in report.text
    (root / "results" / "day2" / "scores.csv").write_text("query_id,measure,value\n")
    assert visit.get(f"/runs/{run}/report.html").status_code == 404, "replaced by a later run"
    assert link not in visit.get(f"/runs/{run}").text
    (root / "results" / "day2").rename(root.parent / "elsewhere")
    assert visit.get(f"/runs/{run}/report.html").status_code == 404
    assert visit.get(f"/runs/{run}").status_code == 200


def test_no_page_has_a_script_or_an_inline_handler(
    visit: TestClient, database: str, root: Path
) -> None:
    run, other = hostile_run(root, database), runs_of(database)[1]
    add_set(root)
    row = history(client="acme", limit=1, database=database).iloc[0]
    series = "/series?" + urlencode(
        {"client": "acme", "series": row["series"], "configuration": row["configuration"]}
    )
    paths = [
        "/",
        series,
        f"/runs/{run}",
        f"/compare?a={other}&b={run}",
        "/schedules",
    ]
    for path in paths:
        answer = visit.get(path)
        assert answer.status_code == 200, path
        tags = Tags(answer.text).found
        assert {"script", "img"}.isdisjoint(tag for tag, _ in tags), path
        attributes = [(name, value or "") for _, own in tags for name, value in own]
        assert not [
            one for one in attributes if one[0].startswith("on") or one[1].startswith("javascript:")
        ], path
        policy = answer.headers["content-security-policy"]
        assert re.search(r"script-src 'self'|default-src 'none'", policy)


def add_set(root: Path, client: str = "acme") -> Path:
    """A data set of hostile texts."""
    folder = root / "clients" / client / "testsets"
    folder.mkdir(parents=True, exist_ok=True)
    cases = tuple(
        Case(
            f"q{i} {one}",
            one,
            one,
            reference_answer=one,
            required_keywords=(one,),
            metadata={"x": one},
        )
        for i, one in enumerate(ATTACKS)
    )
    documents = {"d": Document("d", "How to reset a password: open the settings.")}
    return save_testset(
        Dataset("support", "test", documents, cases, {}), folder / "support.jsonl", "jsonl"
    )


def test_readers_and_other_clients_change_nothing(
    visit: TestClient, root: Path, keys: dict[str, str]
) -> None:
    add_set(root)
    assert visit.get("/schedules?client=other").status_code == 404
    foreign = visit.post("/schedules/run", data={"dataset": "support", "client": "other"})
    assert foreign.status_code == 404
    visit.post("/login", data={"key": keys["acme reader"]})
    answer = visit.post("/schedules/run", data={"dataset": "support"})
    assert answer.status_code == 403
    assert "Start now" not in visit.get("/schedules").text


def test_jobs_are_started_and_schedules_shown(visit: TestClient, root: Path, database: str) -> None:
    add_set(root)
    zone = "Europe/Vienna"
    add_schedule(
        "nightly", "0 2 * * *", ["eval"], zone=zone, client="acme", database=database, folder=root
    )

    def send(path: str, **fields: str) -> str:
        answer = visit.post(f"/schedules/{path}", data=fields)
        assert answer.status_code == 303, words(answer.text)
        return words(visit.get(answer.headers["location"]).text)

    started = send("run", dataset="support", series="try")
    assert "0 running, 1 waiting" in started
    assert "Loaded again every 5 seconds" in started
    assert "Start now" not in started
    assert "Europe/Vienna" in started


def test_a_form_that_cannot_be_used_keeps_what_was_typed(visit: TestClient, root: Path) -> None:
    add_set(root)
    (folder := root / "clients" / "acme" / "systems").mkdir(parents=True, exist_ok=True)
    (folder / "chatbot.toml").write_text('[pipeline]\nretriever = "bm25"\n')
    typed = {"dataset": "support", "system": "chatbott", "series": "my <first> try"}
    answer = visit.post("/schedules/run", data=typed)
    assert answer.status_code == 404
    assert "Unknown system 'chatbott'; did you mean 'chatbot'?" in words(unescape(answer.text))
    assert 'value="chatbott"' in answer.text
    assert 'value="my &lt;first&gt; try"' in answer.text
    assert "<option selected>support</option>" in answer.text
    for dataset, status, text in (
        ("suport", 404, "did you mean 'support'"),
        ("../x", 422, "Dataset:"),
    ):
        answer = visit.post("/schedules/run", data={"dataset": dataset})
        assert answer.status_code == status
        assert text in words(unescape(answer.text))
    assert "Nothing runs." in words(visit.get("/schedules").text)


def test_an_axis_passes_over_means_that_are_missing() -> None:
    nan = float("nan")
    runs = pd.DataFrame({"mean": [0.71, nan], "ci_low": [nan, nan], "ci_high": [nan, nan]})
    assert axis(runs, "nDCG@10") == (0.7, 0.9)


def test_alerts_of_other_clients_are_not_shown(visit: TestClient, database: str) -> None:
    for client in ("acme", "other"):
        add_alert(
            "pass_rate<0.9" if client == "acme" else "drift",
            series="nightly",
            client=client,
            database=database,
        )
    record(nights(14, 0.3, 8), client="other", database=database)
    shown = visit.get("/schedules").text
    assert "pass_rate&lt;0.9" in shown
    assert "None was raised." in shown
