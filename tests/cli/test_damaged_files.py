"""Commands on damaged files: a clear error or a result, never a Python traceback."""

from __future__ import annotations

import json
import random
import re
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragbench.cli import app

[RESULT] = (Path(__file__).parents[2] / "results" / "quickstart").glob("bm25-fixed-512-????????")
CASE = {"id": "a", "question": "What?", "expected_answer": "x", "relevant_docs": ["d1"]}
FILES = {
    "t.yaml": b"test_cases:\n  - id: a\n    question: Why?\n    expected_answer: x\n    "
    b"relevant_docs: [d1]\n",
    "t.json": json.dumps({"test_cases": [CASE]}).encode(),
    "t.jsonl": json.dumps(CASE).encode() + b'\n{"id": "b", "question": "Why?"}\n',
    "service.toml": b'[http]\nurl = "http://127.0.0.1:9/ask"\n[http.body]\nquery = '
    b'"{query}"\n[http.reply]\n'
    b'answer = "$.answer"\ncontexts = "$.contexts[*]"\n',
    "targets.toml": b'[targets]\n"nDCG@10" = 0.5\npass_rate = 0.8\n',
    "grid.toml": b'[sweep]\nname = "g"\n[fixed]\ndataset = "pydoc"\n[grid]\nretriever = '
    b'["bm25"]\nchunk_size = [128]\n',
    "answers.jsonl": b'{"query_id": "a", "text": "x", "contexts": [{"id": "d1", "text": "t", '
    b'"score": 1.0}]}\n',
    "qrels.txt": b"q1 0 d1 1\nq1 0 d2 0\n",
    "a.run": b"q1 Q0 d1 1 2.0 t\nq1 Q0 d2 2 1.0 t\n",
}
EVAL = ["eval", "--test-set", "t.json", "--dry-run"]
COMMANDS = [
    *((name, ["testset", "validate", name]) for name in ("t.yaml", "t.json", "t.jsonl")),
    ("t.yaml", ["testset", "convert", "t.yaml", "out.json", "--force"]),
    ("t.jsonl", ["eval", "--test-set", "t.jsonl", "--dry-run", "answers.jsonl"]),
    ("service.toml", [*EVAL, "service.toml"]),
    ("answers.jsonl", [*EVAL, "answers.jsonl"]),
    ("targets.toml", [*EVAL, "answers.jsonl", "--targets", "targets.toml"]),
    ("", [*EVAL, "answers.jsonl", "--baseline", "sweep/one"]),
    ("", ["explore", "sweep", "-o", "page.html", "--force"]),
    ("", ["history", "import", "sweep", "--database", "runs.sqlite"]),
    ("grid.toml", ["sweep", "grid.toml", "--dry-run"]),
    ("qrels.txt", ["score", "qrels.txt", "a.run"]),
    ("a.run", ["score", "qrels.txt", "a.run"]),
]
INSERTED = [
    b"[",
    b"{",
    b'"',
    b"\x00",
    b"\xff",
    b"\\ud800",
    b"null",
    b"NaN",
    b"1e999",
    b"-1",
    b"{}",
    b"~nouser/x",
    b"../../etc",
    b"<script>",
    b"!!python/object:os.system",
    b"&a *a",
    b"\n\n",
    b"\t",
    b": ",
    b"=SUM(1)",
    b"[" * 100_000,
    "\u202e".encode(),
]
INSTEAD = [b"null", b'"x"', b"-5", b"1e400", b"[]", b"{}", b"true", b"9" * 30, b'"\\ud800"', b'""']


def damaged(data: bytes, draw: random.Random) -> bytes:
    """The bytes with one to four changes: cut, flipped, inserted, repeated, or a value of another
    type.
    """
    for _ in range(draw.randint(1, 4)):
        at, end = sorted((draw.randint(0, len(data)), draw.randint(0, len(data))))
        values = list(re.finditer(rb'\d+(?:\.\d+)?|"[^"\n]*"', data))
        kind = draw.randrange(6)
        if kind == 0:
            data = data[:at] + data[min(end, at + 20) :]
        elif kind == 1:
            data = data[:at]
        elif kind == 2:
            data = data[:at] + draw.choice(INSERTED) + data[at:]
        elif kind == 3:
            data = data[:at] + draw.randbytes(4) + data[at:]
        elif kind == 4:
            data = data[:end] + data[at:end][:200] + data[end:]
        elif values:
            value = draw.choice(values)
            data = data[: value.start()] + draw.choice(INSTEAD) + data[value.end() :]
    return data


@pytest.mark.parametrize("rounds", [3, pytest.param(100, marks=pytest.mark.simulation)])
def test_no_damaged_file_is_a_traceback(
    rounds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "cache"))
    saved = {path.name: path.read_bytes() for path in sorted(RESULT.iterdir())}
    (tmp_path / "sweep" / "one").mkdir(parents=True)
    draw = random.Random(rounds)
    for _ in range(rounds):
        for target, command in COMMANDS:
            files = {**FILES, **{f"sweep/one/{name}": data for name, data in saved.items()}}
            target = target or f"sweep/one/{draw.choice(list(saved))}"
            files[target] = damaged(files[target], draw)
            for name, data in files.items():
                Path(name).write_bytes(data)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                done = CliRunner().invoke(app, command)
            assert done.exception is None or isinstance(done.exception, SystemExit), (
                command,
                files[target][:300],
            )
            assert "Traceback" not in done.output
