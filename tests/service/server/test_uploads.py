"""What requests send names nothing on the server: no file, no collection, no address, no object."""

from __future__ import annotations

import gc
import io
import json
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
import weakref
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastapi.testclient import TestClient

from ragbench.errors import DataError
from ragbench.service import folders
from ragbench.service.received_uploads import Uploads
from ragbench.testsets import fields, uploads
from ragbench.testsets.cases import CaseLine, fields_of
from ragbench.testsets.located_data import parse
from ragbench.types import Dataset
from tests.service.server.conftest import CASES, Call, save_in_this_process

CANARY = "canary-7f3a"
"""In every file that no request may read."""
YAML, JSON, LINES = "application/yaml", "application/json", "application/jsonl"
DATASETS = "/api/v1/datasets"


@pytest.fixture
def listener() -> Iterator[Callable[[], bool]]:
    """A server on loopback that tells whether anyone connected."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)

        def was_called() -> bool:
            try:
                server.accept()[0].close()
            except BlockingIOError:
                return False
            return True

        was_called.address = f"http://127.0.0.1:{server.getsockname()[1]}"  # type: ignore[attr-defined]
        yield was_called


@pytest.fixture
def references(root: Path, tmp_path: Path, listener: Any) -> list[str]:
    """Names of what is on the server, in every way in which a path or an object can be written."""
    secrets = tmp_path / "secrets"
    (secrets / "documents").mkdir(parents=True)
    (secrets / "documents" / "a.md").write_text(f"# {CANARY}\n\n{CANARY} is here.\n")
    line = json.dumps({"_id": "d", "text": CANARY, "title": ""})
    foreign = root / "clients" / "rival" / "sent"
    foreign.mkdir(parents=True)
    for place in (secrets, foreign):
        (place / "corpus.jsonl").write_text(f"{line}\n")
    (secrets / "first-line.jsonl").write_text(f"{CANARY}\n")
    own = root / "clients" / "acme"
    own.mkdir(parents=True)
    (own / "link").symlink_to(secrets)
    (own / "linked.jsonl").symlink_to(foreign / "corpus.jsonl")
    paths = [
        str(secrets),
        str(secrets / "documents"),
        str(secrets / "corpus.jsonl"),
        str(secrets / "first-line.jsonl"),
        str(foreign / "corpus.jsonl"),
        str(own / "link" / "corpus.jsonl"),
        str(own / "linked.jsonl"),
        "../../rival/sent/corpus.jsonl",
        "clients/rival/sent/corpus.jsonl",
        f"{own}/../rival/sent/corpus.jsonl",
        "link/corpus.jsonl",
        "linked.jsonl",
        ".",
        "..",
        "~",
        "~root",
        "/etc/passwd",
        "/proc/self/environ",
        "/dev/stdin",
        "C:\\Windows\\win.ini",
        "\\\\127.0.0.1\\share\\corpus.jsonl",
    ]
    address = listener.address
    names = [
        "pydoc",
        "beir/scifact",
        "irds:beir/scifact/test",
        "hf:BeIR/scifact",
        "os:system",
        "ragbench.datasets.pydoc:load_pydoc",
        f"{address}/corpus.jsonl",
        f"{address.replace('http', 'ftp')}/corpus.jsonl",
    ]
    return [*paths, *names, *(f"file://{path}" for path in paths[:5])]


@pytest.fixture
def checked(
    call: Call,
    client: TestClient,
    keys: dict[str, str],
    root: Path,
    listener: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., Any]]:
    """Send a body; no answer holds a canary or a path of the server, and no one is called."""
    monkeypatch.setenv("RAGBENCH_BEIR_URL", listener.address)
    monkeypatch.setenv("HF_ENDPOINT", listener.address)
    monkeypatch.setenv("RAGBENCH_CANARY", CANARY)

    def send(method: str, path: str, body: bytes, kind: str = JSON) -> Any:
        headers = {"X-API-Key": keys["acme admin"], "Content-Type": kind}
        answer = client.request(method, path, content=body, headers=headers)
        assert answer.status_code in (*range(200, 500), 504), (
            f"{method} {path} {body[:300]!r}: {answer.text}"
        )
        for secret in (CANARY, "root:", str(root)):
            if secret.encode() in body or (method, secret) == ("GET", str(root)):
                continue  # it is what was sent
            assert secret.encode() not in answer.content, (
                path,
                body,
                answer.text,
            )
        return answer

    yield send
    assert not listener()


def is_in_files_of_client(root: Path) -> bool:
    files = (root / "clients" / "acme").rglob("*")
    return any(
        CANARY in file.read_text(errors="replace")
        for file in files
        if file.is_file() and not file.is_symlink()
    )


def in_all_forms(value: dict[str, Any]) -> list[tuple[str, bytes]]:
    """Fields of a test set, with its cases, in every form of one file."""
    cases = value.pop("cases", [{"id": "q1", "query": "Why?"}])
    text = json.dumps({**value, "cases": cases})
    head = json.dumps({"testset": "x", **value})
    lines = [head, *(json.dumps({"query_id": case["id"], **case}) for case in cases)]
    return [(JSON, text.encode()), (YAML, text.encode()), (LINES, "\n".join(lines).encode())]


def test_a_corpus_elsewhere_is_refused_in_every_form(
    checked: Any, references: list[str], monkeypatch: pytest.MonkeyPatch, root: Path
) -> None:
    monkeypatch.setattr(Uploads, "save", save_in_this_process)
    for reference in references:
        for kind, body in in_all_forms({"corpus": reference}):
            answer = checked("POST", f"{DATASETS}?name=up", body, kind)
            assert answer.status_code == 422, (kind, reference)
            assert answer.json()["detail"].startswith("corpus refers to documents elsewhere")
    assert not [*root.glob("clients/acme/testsets/*")]


def fields_of_a_case(reference: str) -> Iterator[dict[str, Any]]:
    """A case with the reference in each of its fields, and in those of other tools."""
    others = {
        *fields.REFERENCES,
        *fields.ANSWERS,
        *fields.EVIDENCE,
        *fields.RETRIEVED,
        *fields.CONTEXTS,
        *fields.SOURCES,
    }
    for name in [
        *fields_of(CaseLine),
        *sorted(others),
        "documents",
        "file",
        "path",
        "$ref",
        "!include",
    ]:
        for value in (reference, [reference], {reference: 1}, [{"doc_id": reference}]):
            yield {"id": "q1", "query": "Why?", name: value}


@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
def test_no_field_of_a_case_or_a_set_is_a_reference(
    checked: Any, references: list[str], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Uploads, "save", save_in_this_process)
    opened: list[str] = []
    watch_opened(opened, [str(root.parent / "secrets"), str(root / "clients" / "rival")])
    for number, reference in enumerate(references):
        cases = [*fields_of_a_case(reference)]
        sets: list[dict[str, Any]] = [{"cases": [case]} for case in cases[number % 19 :: 19]]
        sets += [
            {name: value}
            for name in (
                "name",
                "split",
                "version",
                "documents",
                "safety_inputs",
                "extends",
                "$ref",
            )
            for value in (reference, [reference], [{"text": reference, "doc_id": reference}])
        ]
        for index, parts in enumerate(sets):
            kind, body = in_all_forms(dict(parts))[(index + number) % 3]
            if checked("POST", f"{DATASETS}?name=up", body, kind).status_code == 201:
                checked("GET", f"{DATASETS}/up", b"")
                checked("DELETE", f"{DATASETS}/up", b"")
    assert opened == []
    assert not is_in_files_of_client(root)


_watched: list[tuple[list[str], list[str]]] = []


def watch_opened(opened: list[str], places: list[str]) -> None:
    """Add to `opened` what is opened below these places from now on; hooks cannot be removed."""
    if not _watched:
        sys.addaudithook(_look)
    _watched.append((opened, places))


def _look(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir"):
        for opened, places in _watched:
            if str(arguments[0]).startswith(tuple(places)):
                opened.append(str(arguments[0]))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (YAML, b"cases: !include /etc/passwd\n"),
        (YAML, b"cases:\n- !file /etc/passwd\n"),
        (YAML, b"cases:\n- {id: q1, query: !ENV RAGBENCH_CANARY}\n"),
        (YAML, b"cases:\n- {id: q1, query: !!python/name:os.system }\n"),
        (YAML, b"cases:\n- !!python/object/apply:os.system [id]\n"),
        (YAML, b"cases:\n- {id: q1, query: !!binary aGk=}\n"),
        (YAML, b"cases:\n- {id: q1, query: !!timestamp 2001-01-01}\n"),
        (YAML, b"cases: !!set {a, b}\n"),
        (YAML, b"%TAG ! tag:yaml.org,2002:python/\n---\ncases: [!name:os.system x]\n"),
        (YAML, b"a: &a [x]\ncases: *a\n"),
        (YAML, b"description: {vars: 1}\ntests: file:///etc/passwd\n"),
        (JSON, b'{"tests": "file:///etc/passwd"}'),
        (JSON, b'{"results": {"results": ["/etc/passwd"]}}'),
        (JSON, b'"/etc/passwd"'),
        (LINES, b'"/etc/passwd"'),
        (LINES, b'{"testset": "a"}\n{"testset": "b", "corpus": "/etc/passwd"}\n'),
    ],
)
def test_tags_and_names_of_files_are_refused(
    checked: Any, monkeypatch: pytest.MonkeyPatch, kind: str, body: bytes
) -> None:
    monkeypatch.setattr(Uploads, "save", save_in_this_process)
    for name in ("up", "rag_dataset", "qa"):
        assert checked("POST", f"{DATASETS}?name={name}", body, kind).status_code == 422


def test_predictions_look_for_no_questions_next_to_them(checked: Any) -> None:
    body = b'{"predictions": [{"query": "Why?"}]}'
    assert checked("POST", f"{DATASETS}?name=rag_dataset", body).status_code == 201
    body = b'{"predictions": [{"response": "So."}]}'
    assert checked("POST", f"{DATASETS}?name=other", body).status_code == 422


def test_archives_tables_and_forms_are_no_test_sets(
    checked: Any, references: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Uploads, "save", save_in_this_process)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("../../corpus.jsonl", "{}")
    multipart = (
        b'--x\r\nContent-Disposition: form-data; name="corpus"; filename="/etc/passwd"\r\n\r\n'
        + references[0].encode()
        + b"\r\n--x--\r\n"
    )
    bodies = {
        "application/zip": archive.getvalue(),
        "multipart/form-data; boundary=x": multipart,
        "text/csv": b"question,source\nWhy?,/etc/passwd\n",
        "application/x-www-form-urlencoded": b"corpus=/etc/passwd",
        "application/vnd.apache.parquet": b"PAR1",
        "text/plain": b"/etc/passwd",
    }
    for kind, body in bodies.items():
        assert checked("POST", f"{DATASETS}?name=up", body, kind).status_code == 415
        for form in (JSON, YAML, LINES):  # under a wrong name
            assert checked("POST", f"{DATASETS}?name=up", body, form).status_code == 422


def test_every_route_with_a_body_takes_names_as_names(
    client: TestClient, checked: Any, references: list[str], root: Path
) -> None:
    client.app.state.queue.stop()  # type: ignore[attr-defined]
    document = client.get("/api/v1/openapi.json").json()
    schemas = document["components"]["schemas"]
    n_sent = 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {})
            schema = content.get(JSON, {}).get("schema", {})
            if not content or path == DATASETS:
                continue
            fields = schemas[schema["$ref"].rpartition("/")[2]]["properties"]
            required = {
                "question": "Why?",
                "documentId": "d",
                "text": "x",
                "dataset": "up",
                "name": "n",
                "dataset_id": 1,
            }
            whole = {name: value for name, value in required.items() if name in fields}
            for number, reference in enumerate(references):
                for name in [*fields, "corpus", "docs", "output", "path"]:
                    if (number + n_sent) % 3:  # a third of all combinations
                        n_sent += 1
                        continue
                    values = (reference, [reference], {reference: 1})
                    body = json.dumps({**whole, name: values[number % 3]}).encode()
                    place = f"{path.replace('{case_id}', 'q1')}?wait=0"
                    checked(method.upper(), place, body)
                    n_sent += 1
    assert n_sent > 1000
    checked("GET", "/evaluation/test-cases", b"")
    assert not is_in_files_of_client(root)
    for reference in references:
        form = f"dataset={reference}&system={reference}&series={reference}&client={reference}"
        kind = "application/x-www-form-urlencoded"
        assert checked("POST", "/schedules/run", form.encode(), kind).status_code >= 400


def test_the_process_that_reads_can_open_nothing(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(CANARY)
    attempts = [
        f"open({str(secret)!r}).read()",
        f"open({str(tmp_path / 'new')!r}, 'w')",
        "__import__('socket').socket()",
        "__import__('subprocess').run(['true'])",
        "__import__('os').listdir('/')",
    ]
    script = f"""
import socket, subprocess, os
from ragbench.testsets.uploads import limit_process
limit_process()
for attempt in {attempts!r}:
    try:
        print("opened", eval(attempt))
    except OSError as exc:
        print("refused", exc.errno)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "refused 24\n" * len(attempts), done.stderr  # EMFILE


FORMS = ("json", "jsonl", "yaml")
OF_OTHER_TOOLS = Path(__file__).parents[2] / "testsets" / "other_tools"


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(OF_OTHER_TOOLS.iterdir()) if path.suffix[1:] in FORMS],
    ids=lambda path: path.name,
)
def test_the_process_that_reads_needs_no_file_for_any_form(path: Path) -> None:
    """All that it imports, it has imported before its limits; the texts are found in passages."""
    warnings.simplefilter("ignore")
    command = [sys.executable, "-m", "ragbench.testsets.uploads", path.suffix[1:], "x"]
    read = subprocess.run(command, input=path.read_bytes(), capture_output=True, check=True)
    expected = uploads.lines_of_upload(path.read_bytes(), path.suffix[1:], "x")
    assert json.loads(read.stdout) == {"lines": expected}


def test_a_data_set_that_cannot_be_read_shows_no_line_of_a_file(
    checked: Any, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "corpus.jsonl").write_text(f"{CANARY}\n")
    folder = root / "clients" / "acme" / "testsets"
    folder.mkdir(parents=True)
    text = f"corpus: {tmp_path}/corpus.jsonl\ncases:\n- {{id: q1, query: Why?}}\n"
    (folder / "own.yaml").write_text(text)  # by an administrator, with an error
    for path in (DATASETS, f"{DATASETS}/own", "/api/v1/evaluation/datasets"):
        answer = checked("GET", path, b"")
        assert answer.status_code == 422
        assert str(tmp_path) not in answer.text
        assert "'own' cannot be read" in answer.text
    answer = checked("POST", "/api/v1/runs", b'{"dataset": "own"}')
    assert (answer.status_code, str(tmp_path) in answer.text) == (422, False)


CASE = {"question": "Why?"}


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        (YAML, b"[" * 9_000, "too deep"),
        (YAML, b"[\n" * 9_000, "too deep"),
        (YAML, b"- " * 4_500, "too deep"),
        (YAML, b"{a: " * 4_500, "too deep"),
        (JSON, b"[" * 5_000_000, "values"),
        (JSON, b"[" * 500_000, "more than 100 levels"),
        (JSON, b'{"a":' * 200 + b"1" + b"}" * 200, "more than 100 levels"),
        (LINES, b"[" * 9_000, "more than 100 levels"),
        (YAML, b"- {query: Why?}\n" * 1_001, "1,001 cases, more than 1,000; send it as JSON Lines"),
        (YAML, b"cases: [" + b"{query: Why?}," * 1_001 + b"]", "1,001 cases"),
        (YAML, b"cases: [" + b"a," * 100_000 + b"]", "values of YAML"),
        (YAML, b"# " + b"x" * 1_000_000, "bytes of YAML"),
        (JSON, json.dumps([CASE] * 1_001).encode(), "1,001 cases"),
        (JSON, json.dumps({"test_cases": [CASE] * 1_001}).encode(), "1,001 cases"),
        (JSON, json.dumps({"tests": [{"vars": CASE}] * 1_001}).encode(), "1,001 cases"),
        (LINES, b"{}\n" * 100_001, "lines"),
        (JSON, b'[{"a": [' + b"[]," * 1_000_000 + b"]}]", "values"),
        (LINES, b'{"a": [' + b"1," * 1_000_000 + b"]}", "values"),
    ],
)
def test_what_takes_long_is_counted_before_it_is_read(kind: str, body: bytes, text: str) -> None:
    began = time.process_time()
    with pytest.raises(DataError, match=text):
        uploads.read_upload(body, kind.rpartition("/")[2], "x")
    assert time.process_time() - began < 5


def test_a_thousand_cases_and_more_lines_are_taken() -> None:
    cases = [{"query": f"Why {number}?"} for number in range(1_000)]
    lines = "".join(json.dumps({"query_id": f"q{n}", "text": "Why?"}) + "\n" for n in range(1_001))
    for form, text in (("json", json.dumps(cases)), ("jsonl", lines)):
        assert len(uploads.read_upload(text.encode(), form, "x").cases) >= 1_000


def test_brackets_in_texts_are_no_levels() -> None:
    text = json.dumps([{"question": '"\\"[' * 500}])
    assert len(uploads.read_upload(text.encode(), "json", "x").cases) == 1


def test_errors_are_looked_up_in_a_time_that_grows_with_the_text() -> None:
    took = []
    for number in (5_000, 10_000, 20_000):
        record = parse(b"[" + b"a," * number + b"]", "a.yaml")
        record.problem((0,), "a", "b")  # reads the lines, once
        began = time.process_time()
        for index in range(number):
            record.problem((index,), "a", "b")
        took.append(time.process_time() - began)
    assert took[2] < 10 * took[0] + 0.05, took


def test_what_takes_too_long_or_too_much_memory_ends_alone(
    client: TestClient, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"X-API-Key": keys["acme runner"], "Content-Type": JSON}
    code = "import resource, itertools; resource.setrlimit(resource.RLIMIT_CPU, (1, 1)); sum(itertools.count())"
    for program in (code, "raise SystemExit(1)", "print('no JSON')"):
        monkeypatch.setattr(
            "ragbench.service.received_uploads._PROGRAM", (sys.executable, "-c", program)
        )
        answer = client.post(f"{DATASETS}?name=up", json=[CASE], headers=headers)
        assert answer.status_code == 422
        assert "could not be read within 30 s" in answer.json()["detail"]
    assert client.get("/api/v1/health").status_code == 200


@pytest.mark.parametrize(
    ("work", "end"),
    [
        ("itertools.count()", "the process was killed"),
        ("itertools.repeat(bytes(uploads.MEMORY_MB << 20))", "MemoryError"),
    ],
)
def test_the_limits_of_time_and_memory_end_the_process(work: str, end: str) -> None:
    assert (uploads.CPU_S, uploads.MEMORY_MB) == (30, 512)
    script = f"""
import itertools
from ragbench.testsets import uploads
uploads.CPU_S = 1 + int(__import__("time").process_time())
uploads.limit_process()
for _ in {work}:
    pass
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    if done.returncode < 0:
        assert -done.returncode in (signal.SIGXCPU, signal.SIGKILL)
        assert end == "the process was killed"
    else:
        assert done.stderr.rstrip().endswith(end)


def test_a_process_that_outlasts_the_clock_is_a_body_that_cannot_be_read(
    client: TestClient, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that waits takes no time of the processor, so that only the clock ends it."""
    monkeypatch.setattr("ragbench.service.received_uploads._WALL_S", 0.2)
    headers = {"X-API-Key": keys["acme runner"], "Content-Type": JSON}
    wait = "import time; time.sleep(600)"
    for program in (wait, f"import sys; print('slow', file=sys.stderr, flush=True); {wait}"):
        monkeypatch.setattr(
            "ragbench.service.received_uploads._PROGRAM", (sys.executable, "-c", program)
        )
        answer = client.post(f"{DATASETS}?name=up", json=[CASE], headers=headers)
        assert answer.status_code == 422
        assert "could not be read within 30 s" in answer.json()["detail"]


def test_a_client_sends_one_data_set_at_a_time(
    client: TestClient, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that floods the server waits for itself; another one does not."""
    entered, release = threading.Event(), threading.Event()

    async def slow(self: Uploads, path: Path, content: bytes, form: str) -> None:
        if "acme" in path.parts:
            entered.set()
            await anyio.to_thread.run_sync(release.wait)
        await save_in_this_process(self, path, content, form)

    monkeypatch.setattr(Uploads, "save", slow)

    def send(name: str, key: str) -> int:
        path = f"{DATASETS}?name={name}"
        return client.post(path, json=CASES, headers={"X-API-Key": keys[key]}).status_code

    with ThreadPoolExecutor() as pool:
        first = pool.submit(send, "a", "acme runner")
        assert entered.wait(60)
        flood = [send(f"b{number}", "acme admin") for number in range(20)]
        assert (flood, send("c", "other")) == ([429] * 20, 201)
        release.set()
        assert first.result() == 201
    assert send("d", "acme runner") == 201


def test_large_data_sets_are_read_one_at_a_time_and_one_stays_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred thousand cases take 220 MB of the server."""
    paths = [tmp_path / f"{number}.jsonl" for number in range(8)]
    for path in paths:
        path.write_text("x" * 100)
    monkeypatch.setattr(folders, "_SMALL", 99)
    alive: list[weakref.ref[Dataset]] = []
    n_loading: list[int] = []
    n_now = 0

    def slow(path: Path) -> Dataset:
        nonlocal n_now
        n_now += 1
        time.sleep(0.01)
        n_loading.append(n_now)
        n_now -= 1
        dataset = Dataset(path.stem, "test", {}, [], {})
        alive.append(weakref.ref(dataset))
        return dataset

    monkeypatch.setattr(folders, "load_testset", slow)
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda path: folders.load(path).name, paths))
    gc.collect()
    assert names == [path.stem for path in paths]
    assert n_loading == [1] * 8
    assert sum(each() is not None for each in alive) == 1
