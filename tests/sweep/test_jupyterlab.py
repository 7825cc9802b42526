"""A comparison that was just made, opened in JupyterLab: its drawing is there, though no one trusts
the notebook yet.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
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


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    options = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": 0,
        "ServerApp.root_dir": tmp_path,
        "IdentityProvider.token": "",
        "ServerApp.allow_root": True,
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser"]
    command += [f"--{name}={value}" for name, value in options.items()]
    log = tmp_path / "lab.log"
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        while not (urls := re.findall(r"http://127\.0\.0\.1:\d+", log.read_text())):
            assert server.poll() is None, log.read_text()
            time.sleep(0.2)
        yield urls[0]
    finally:
        os.killpg(server.pid, signal.SIGKILL)  # kernels end when their server is gone
        server.wait()


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
    headings = page.locator(".jp-RenderedMarkdown h1").all_inner_texts()
    assert len(headings) == 1
    assert "baseline" in headings[0] or "is better than" in headings[0]
    page.close()
