"""A sweep as static pages: complete, linked, closed to the network, and deaf to hostile notebooks."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import nbformat
import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.errors import ConfigError, DataError
from ragbench.report import publish
from ragbench.report.publication import notebook_html
from tests.committed import copy_committed


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_committed("results/quickstart", tmp_path_factory.mktemp("sweep") / "quickstart")


@pytest.fixture(scope="module")
def site(sweep: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site") / "quickstart"
    done = CliRunner().invoke(app, ["publish", str(sweep), str(site)])
    assert done.exit_code == 0, done.output
    assert "index.html" in done.output
    return site


def test_the_decision_comes_first_and_every_page_is_linked(sweep: Path, site: Path) -> None:
    index = (site / "index.html").read_text(encoding="utf-8")
    conclusion = rb.load_results(sweep).conclude()
    heading = re.search(r"<h1>(.*?)</h1>", index)
    assert heading is not None
    assert heading[1] == conclusion.headline
    assert conclusion.next_step in index
    notebooks = {f"{path.stem}.html" for path in sweep.glob("*.ipynb")}
    assert len(notebooks) == 7
    pages = {path.name for path in site.iterdir()}
    assert pages == {*notebooks, "index.html", "questions.html"}
    linked = set(re.findall(r'<a href="([^"]+)"', index))
    assert linked == pages - {"index.html"}


def test_links_lead_to_pages_and_their_places(site: Path) -> None:
    text = (site / "comparison.html").read_text(encoding="utf-8")
    places = re.findall(r'href="([\w-]+\.html)#(cell-id=[\w-]+)"', text)
    assert places
    for page, anchor in places:
        assert f'id="{anchor}"' in (site / page).read_text(encoding="utf-8")
    for path in site.glob("*.html"):
        if path.name != "questions.html":
            assert ".ipynb" not in re.findall(r'href="([^"]*)"', path.read_text(encoding="utf-8"))


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    for path in site.glob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert "Content-Security-Policy" in text
        assert re.findall(r'(?:src|data|poster)="(?!data:)[^"]*"', text) == [], path
        assert "@import" not in text
        if path.name != "questions.html":
            assert "<script" not in text


def test_a_study_without_results_is_its_notebooks(tmp_path: Path) -> None:
    study = copy_committed("results/judges", tmp_path / "judges")
    page = publish(study, tmp_path / "site")
    assert {path.name for path in page.parent.iterdir()} == {
        "index.html",
        "model-6e5825cf.html",
        "openqa.csv-f428acc0.html",
    }


HOSTILE = """<p onclick="alert(1)">text <b>bold</b></p><script>alert(2)</script><SCRIPT
>alert(3)</SCRIPT><iframe src="https://c.example"></iframe><img src="https://c.example/p.png" alt="a">
<img src="data:image/svg+xml;base64,AAAA" alt="b"><img src="data:image/png;base64,AAAA" alt="c">
<a href="javascript:alert(4)">link</a><a href="data:text/html,x">data</a><a href=" vbscript:x">v</a>
<a href="https://c.example">out</a><meta http-equiv="refresh" content="0;url=https://c.example">
<style>@import url(https://c.example/s.css);</style><form action="https://c.example"><input></form>
<svg><a xlink:href="javascript:alert(5)"><text>s</text></a></svg><table background="https://c.example/t.png">
<tr><td style="background:url(https://c.example/u.png)">cell</td></tr></table><base href="https://c.example">"""


def test_html_of_a_notebook_neither_runs_nor_loads_anything(tmp_path: Path) -> None:
    output = nbformat.v4.new_output("display_data", {"text/html": HOSTILE})
    script = nbformat.v4.new_output("display_data", {"application/javascript": "alert(6)"})
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell(f"# Title\n\n{HOSTILE}"),
            nbformat.v4.new_code_cell("1", outputs=[output, script]),
        ]
    )
    path = tmp_path / "hostile.ipynb"
    nbformat.write(notebook, path)
    text = notebook_html(path)
    body = text.split("<body>")[1]
    assert "alert(" not in body
    for tag in ("script", "iframe", "meta", "form", "input", "svg", "style", "base"):
        assert not re.search(rf"<{tag}\b", body, re.IGNORECASE), tag
    for word in (
        " onclick",
        "javascript:",
        "vbscript:",
        "refresh",
        "background",
        "data:text",
        "svg+xml",
    ):
        assert word not in body, word
    assert re.findall(r'src="([^"]*)"', body) == ["data:image/png;base64,AAAA"] * 2
    assert body.count('<a href="https://c.example">out</a>') == 2
    assert "<b>bold</b>" in body


def test_only_a_published_site_is_replaced(tmp_path: Path) -> None:
    study = copy_committed("results/judges", tmp_path / "judges")
    site = tmp_path / "site"
    publish(study, site)
    with pytest.raises(ConfigError, match="--force"):
        publish(study, site)
    (site / "old.html").write_text("old")
    publish(study, site, force=True)
    assert not (site / "old.html").exists()
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match="something other"):
        publish(study, mine, force=True)
    assert (mine / "thesis.txt").read_text() == "years of work"


def test_what_is_no_sweep_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a folder"):
        publish(tmp_path / "nothing", tmp_path / "site")
    with pytest.raises(DataError, match="no executed notebook"):
        publish(tmp_path, tmp_path / "site")
    (tmp_path / "broken.ipynb").write_text(json.dumps({"cells": 3}))
    with pytest.raises(DataError, match=r"broken\.ipynb is not a notebook"):
        publish(tmp_path, tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_images_of_notebooks_keep_their_alternative_text(tmp_path: Path) -> None:
    image = {"image/png": "iVBORw0KGgo="}
    alt = "Figure. a <b> against c."
    metadata = {"image/png": {"alt": alt}}
    shown = nbformat.v4.new_output("display_data", image, metadata=metadata)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", outputs=[shown])])
    nbformat.write(notebook, tmp_path / "a.ipynb")
    text = notebook_html(tmp_path / "a.ipynb")
    [found] = re.findall(r'<img alt="([^"]*)"', text)
    assert html.unescape(found) == alt
    assert "No description" not in text
