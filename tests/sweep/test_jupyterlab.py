"""A comparison that was just made, opened in JupyterLab: its drawing is there, though no one trusts
the notebook yet.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ragbench as rb

ROOT = Path(__file__).parents[2]


@pytest.fixture
def comparison(tmp_path: Path, execute_notebook: Callable[..., Any]) -> Path:
    data = rb.load_dataset("pydoc")
    data = data.select(list(data.queries)[:12])
    for size in (64, 256):
        system = rb.Pipeline(data, retriever="bm25", chunker="fixed", chunk_size=size)
        result = rb.evaluate(data, system, perspectives=["retrieval"])
        rb.save(result, tmp_path / "small" / f"fixed-{size}")
    execute_notebook(ROOT / "notebooks/compare.ipynb", tmp_path, sweep_dir="small")
    return tmp_path / "out.ipynb"


def test_the_drawing_and_the_decision_are_on_the_first_screen(
    comparison: Path, lab: str, browser: Any
) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(120_000)
    page.goto(f"{lab}/lab/tree/{comparison.name}")
    picture = page.locator(".jp-RenderedImage img").first
    picture.wait_for()
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 500
    assert picture.bounding_box()["y"] < 1000
    page.locator(".jp-RenderedMarkdown h1").first.wait_for()
    headings = page.locator(".jp-RenderedMarkdown h1").all_inner_texts()
    assert len(headings) == 1
    assert "baseline" in headings[0] or "is better than" in headings[0]
    page.close()
