"""`ragbench open`: a folder on loopback, and nothing else."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
import pytest
from typer.testing import CliRunner

from ragbench.cli import app
from ragbench.cli.viewer import start_server


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    (folder / "deep").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    (folder / ".hidden.txt").write_text("hidden")
    (folder / "report.html").write_text("<p>the report</p>")
    (folder / "a <b>.md").write_text("# a")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    cells = [nbformat.v4.new_markdown_cell("# Key findings")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbformat.write(notebook, folder / "deep" / "comparison.ipynb")
    return folder


class Site:
    def __init__(self, path: Path) -> None:
        self.server, self.address = start_server(path)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        found = urlsplit(self.address)
        self.host, self.base, self.page = found.netloc, found.path.rsplit("/", 1)[0], found.path

    def get(self, path: str, host: str = "") -> tuple[int, str, dict[str, str]]:
        connection = http.client.HTTPConnection(self.host, timeout=30)
        connection.request("GET", path, headers={"Host": host or self.host})
        reply = connection.getresponse()
        found = reply.status, reply.read().decode(), {name.lower(): value for name, value in reply.getheaders()}
        connection.close()
        return found


@pytest.fixture
def site(results: Path) -> Iterator[Site]:
    one = Site(results)
    yield one
    one.server.shutdown()
    one.server.server_close()


def test_the_report_of_a_folder_is_opened(site: Site) -> None:
    assert site.host.startswith("127.0.0.1:")
    status, body, headers = site.get(site.page)
    assert (status, body) == (200, "<p>the report</p>")
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


def test_notebooks_are_pages_without_other_servers(site: Site) -> None:
    status, body, headers = site.get(f"{site.base}/deep/comparison.ipynb")
    assert status == 200
    assert headers["content-type"].startswith("text/html")
    assert ">Key findings<" in body
    assert 'src="http' not in body


def test_folders_are_listed_with_escaped_names_and_without_hidden_files(site: Site) -> None:
    status, body, _ = site.get(f"{site.base}/")
    assert status == 200
    assert '<a href="a%20%3Cb%3E.md">a &lt;b&gt;.md</a>' in body
    assert "hidden" not in body
    assert site.get(f"{site.base}/a%20%3Cb%3E.md")[2]["content-type"].startswith("text/plain")
    assert site.get(f"{site.base}/deep")[0] == 301


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/deep/..%2f..%2fsecret.txt",
        "/link.txt",
        "/.hidden.txt",
        "/none",
        "/%00",
    ],
)
def test_nothing_outside_of_the_folder_is_served(site: Site, path: str) -> None:
    status, body, _ = site.get(site.base + path)
    assert status == 404
    assert "secret" not in body.replace(path, "")


def test_the_address_is_needed(site: Site) -> None:
    assert site.get("/report.html")[0] == 404
    assert site.get("/")[0] == 404
    assert site.get(site.page, host="attacker.example")[0] == 403


def test_a_file_is_opened_itself(results: Path) -> None:
    one = Site(results / "deep" / "comparison.ipynb")
    try:
        assert "Key findings" in one.get(one.page)[1]
    finally:
        one.server.shutdown()
        one.server.server_close()


def test_errors_are_one_line(results: Path) -> None:
    done = CliRunner().invoke(app, ["open", str(results / "none"), "--no-browser"])
    assert done.exit_code == 2
    assert done.output.startswith("ragbench: there is no file or folder")
    server, address = start_server(results)
    with server:
        port = str(urlsplit(address).port)
        done = CliRunner().invoke(app, ["open", str(results), "--no-browser", "--port", port])
    assert done.exit_code == 2
    assert done.output.startswith(f"ragbench: port {port} of 127.0.0.1 cannot be used")


def test_the_command_serves_until_it_is_interrupted(results: Path) -> None:
    command = [sys.executable, "-u", "-m", "ragbench", "open", str(results), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "80"}) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert " is at http://127.0.0.1:" in line
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "Stopped.\n"
    assert process.returncode == 0
