"""A small set in BEIR's format, any file of which a test may replace."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

WriteFolder = Callable[..., Path]


def jsonl(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


FILES: dict[str, str | bytes] = {
    "corpus.jsonl": jsonl(
        {"_id": "d1", "title": "Head", "text": "Body one."},
        {"_id": "d2", "title": "", "text": "Body two."},
    ),
    "queries.jsonl": jsonl({"_id": "q1", "text": "one?"}, {"_id": "q2", "text": "two?"}),
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t2\nq2\td2\t1\n",
}


@pytest.fixture
def write_folder(tmp_path: Path) -> WriteFolder:
    """`write_folder({"corpus.jsonl": "..."})`: the small set with these files instead; None leaves
    one out.
    """

    def write(changed: dict[str, str | bytes | None] | None = None, name: str = "small") -> Path:
        folder = tmp_path / name
        for file, content in {**FILES, **(changed or {})}.items():
            if content is not None:
                path = folder / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder

    return write
