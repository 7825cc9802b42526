"""`ragbench open`: a report, or a folder of reports and notebooks, served on loopback and shown in the browser."""

from __future__ import annotations

import html
import importlib.util
import io
import secrets
import sys
import webbrowser
from functools import lru_cache, partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, unquote, urlsplit

import typer

from ragbench.cli.console import shown
from ragbench.errors import ConfigError, DataError
from ragbench.files import expanded

HOST = "127.0.0.1"
FIRST = ("report.html", "comparison.ipynb", "explore.html", "index.html")
"""What is opened in a folder: the first of these that is there, else a list of its files."""

# Pages may run their own scripts, but reach nothing outside of this server: texts of documents and models are foreign.
_POLICY = (
    "default-src 'self' 'unsafe-inline' data: blob:; connect-src 'none'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_TEXTS = {".md", ".toml", ".csv", ".jsonl", ".trec", ".tsv", ".yaml", ".txt", ".json"}


def open_command(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A folder, or a file: .html, .ipynb, .md, ...")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of 127.0.0.1; 0 chooses a free one.")] = 0,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address only.")] = False,
) -> None:
    """Show a report, a notebook or a results folder in the browser.

    Serves the folder on 127.0.0.1 only, until Ctrl+C. In a folder it opens report.html, comparison.ipynb or
    explore.html, else a list of the files. Notebooks are shown as HTML; to run them, use JupyterLab.

    Exit status: 0 stopped with Ctrl+C, 2 there is nothing to show or the port is taken.
    """
    server, address = start_server(path, port)
    with server:
        try:
            typer.echo(f"{shown(path)} is at {address} (Ctrl+C stops)")
            if not no_browser:
                webbrowser.open(address)
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("Stopped.")


def start_server(path: Path, port: int = 0) -> tuple[ThreadingHTTPServer, str]:
    """A server that listens on 127.0.0.1, and the address of the page to open; the caller runs and closes it.

    Raises:
        DataError: there is no such file or folder.
        ConfigError: the port is taken.
    """
    place = expanded(path).resolve()
    if not place.exists():
        raise DataError(f"there is no file or folder {str(path)!r}; name a report, a notebook or a results folder")
    root = place if place.is_dir() else place.parent
    page = next((name for name in FIRST if (root / name).is_file()), "") if place.is_dir() else place.name
    try:
        token = secrets.token_urlsafe(12)  # other users of this machine can reach the port, but do not know this
        server = ThreadingHTTPServer((HOST, port), partial(Pages, directory=str(root), token=token))
    except OSError as exc:
        raise ConfigError(f"port {port} of {HOST} cannot be used ({exc.strerror}); choose another --port") from exc
    return server, f"http://{HOST}:{server.server_address[1]}/{token}/{quote(page)}"


class Pages(SimpleHTTPRequestHandler):
    """The files below one folder: notebooks as HTML, no hidden files, nothing outside of the folder."""

    server_version, sys_version = "ragbench", ""

    def __init__(self, *args: Any, directory: str, token: str) -> None:
        self._root, self._token = Path(directory).resolve(), token
        super().__init__(*args, directory=directory)  # answers the request

    def send_head(self) -> Any:
        # A page of another site could otherwise read the files through a name of its own that leads to 127.0.0.1.
        if self.headers.get("Host", "").rpartition(":")[0] not in (HOST, "localhost"):
            return self.send_error(HTTPStatus.FORBIDDEN)
        file = self._file()
        if file is None:
            return self.send_error(HTTPStatus.NOT_FOUND)
        if file.suffix == ".ipynb" and file.is_file():
            return self._page(_notebook_page(file, file.stat().st_mtime_ns))
        return super().send_head()

    def _file(self) -> Path | None:
        """The file or folder of the request; None where it is outside of the folder, hidden, or not there."""
        token, _, rest = unquote(urlsplit(self.path).path).removeprefix("/").partition("/")
        parts = [part for part in rest.split("/") if part]
        if not secrets.compare_digest(token.encode(), self._token.encode()):
            return None
        if any(part.startswith(".") or "\0" in part for part in parts):
            return None
        file = self._root.joinpath(*parts).resolve()
        return file if file.is_relative_to(self._root) and file.exists() else None

    def translate_path(self, path: str) -> str:
        return str(self._file() or self._root / ".none")

    def _page(self, text: str) -> io.BytesIO:
        body = text.encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return io.BytesIO(body)

    def list_directory(self, path: Any) -> io.BytesIO:
        names = sorted(
            f"{item.name}/" if item.is_dir() else item.name
            for item in Path(path).iterdir()
            if not item.name.startswith(".")
        )
        links = "".join(f'<li><a href="{quote(name)}">{html.escape(name)}</a></li>' for name in names)
        title = html.escape(Path(path).name)
        return self._page(
            f"<!DOCTYPE html><html lang=en><meta charset=utf-8><title>{title}</title>"
            f"<style>:root{{color-scheme:light dark}}body{{font:16px/1.6 system-ui;margin:2rem}}</style>"
            f"<h1>{title}</h1><ul>{links}</ul></html>"
        )

    def guess_type(self, path: Any) -> str:
        return "text/plain; charset=utf-8" if Path(path).suffix in _TEXTS else super().guess_type(path)

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the console shows the address only."""


@lru_cache(maxsize=32)
def _notebook_page(file: Path, _changed: int) -> str:
    """A notebook as HTML that loads nothing from other servers; its text where nbconvert is not installed."""
    if importlib.util.find_spec("nbconvert") is None:
        text = html.escape(file.read_text(encoding="utf-8"))
        hint = f"To see this notebook as a page: {html.escape(sys.executable)} -m pip install nbconvert"
        return f"<!DOCTYPE html><meta charset=utf-8><p>{hint}</p><pre>{text}</pre>"
    import nbconvert
    import nbformat
    from nbconvert import HTMLExporter

    try:
        notebook = nbformat.read(file, as_version=4)  # type: ignore[no-untyped-call]
    except (ValueError, KeyError, AttributeError) as exc:
        return f"<!DOCTYPE html><meta charset=utf-8><p>{html.escape(file.name)}: {html.escape(str(exc))}</p>"
    installed = Path(nbconvert.__file__).parents[4] / "share" / "jupyter" / "nbconvert" / "templates"
    exporter = HTMLExporter(  # type: ignore[no-untyped-call]
        extra_template_basedirs=[str(installed)],  # an environment on top of another one does not look there
        extra_template_paths=[str(installed)],
        mathjax_url="", require_js_url="", jquery_url="", mermaid_js_url="",
    )  # fmt: skip
    body, _ = exporter.from_notebook_node(notebook, resources={"metadata": {"name": file.stem}})
    return str(body)
