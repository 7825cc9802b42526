"""The examples of search servers in ragbench/retrieval/retrievers.py: PostgreSQL as it is, others as their
documentation has them.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from ragbench.evaluation import evaluate
from ragbench.retrieval import Dense, retrievers
from ragbench.systems import Pipeline, load_system
from ragbench.types import Dataset
from tests.service.conftest import _postgresql

SECTION = retrievers.__doc__ or ""
OPENSEARCH, QDRANT = re.findall(r"```toml\n(.*?)```", SECTION, re.DOTALL)
MODEL = "sentence-transformers/all-minilm-l6-v2"
postgresql = _postgresql

TEXTS = {
    "rail": "The railway opened in 1881.",
    "cats": "Cats nap all day; a cat naps.",
    "dogs": "Dogs bark at cats.",
}
DATA = Dataset.from_dicts(
    TEXTS, {"q1": "When did the railway open?", "q2": "cat naps"}, {"q1": ["rail"], "q2": ["cats"]}
)


def reply(path: str, body: dict[str, Any]) -> dict[str, Any]:
    if path == "/passages/_search":  # opensearch.org/docs/latest/api-reference/search/
        assert body == {"size": 10, "query": {"match": {"text": "When did the railway open?"}}}
        hit = {
            "_index": "passages",
            "_id": "7",
            "_score": 1.5,
            "_source": {"text": TEXTS["rail"], "doc_id": "rail"},
        }
        total = {"value": 1, "relation": "eq"}
        return {
            "took": 1,
            "timed_out": False,
            "hits": {"total": total, "max_score": 1.5, "hits": [hit]},
        }
    assert (
        path == "/collections/passages/points/query"
    )  # api.qdrant.tech/api-reference/search/query-points
    question = {"text": "When did the railway open?", "model": MODEL}
    assert body == {"query": question, "limit": 10, "with_payload": True}
    point = {
        "id": 7,
        "version": 3,
        "score": 1.5,
        "payload": {"text": TEXTS["rail"], "doc_id": "rail"},
    }
    return {"time": 0.001, "status": "ok", "result": {"points": [point]}}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        content = json.dumps(reply(self.path, body)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *given: object) -> None: ...


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


@pytest.mark.parametrize("example", [OPENSEARCH, QDRANT], ids=["opensearch", "qdrant"])
def test_examples_of_search_servers_by_http(example: str, server: str, tmp_path: Path) -> None:
    file = tmp_path / "search.toml"
    file.write_text(re.sub(r"http://localhost:\d+", server, example), encoding="utf-8")
    answer = load_system(file, DATA).answer("q1", "When did the railway open?")
    assert answer.error is None
    [passage] = answer.passages
    assert (passage.passage_id, passage.text, passage.doc_id, passage.score) == (
        "7",
        TEXTS["rail"],
        "rail",
        1.5,
    )


@pytest.fixture
def examples(postgresql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The examples as modules next to a grid; the URL of the server that they ask."""
    for source in re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL):
        (tmp_path / re.findall(r"# (\w+\.py)", source)[0]).write_text(source, encoding="utf-8")
    address = urlsplit(postgresql)
    for name, value in {
        "PGHOST": address.hostname,
        "PGPORT": address.port,
        "PGUSER": address.username,
    }.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("PGDATABASE", address.path[1:])
    monkeypatch.chdir(tmp_path)
    return postgresql


def test_example_of_postgresql(examples: str) -> None:
    pipeline = Pipeline(DATA, "pg_search:FullText", chunker="document")
    index: Any = pipeline.index
    run = index.search({"q1": "cat naps", "none": "quantum", "odd": "') & (!"}, 10)
    assert [one.partition("#")[0] for one in run["q1"]] == ["cats", "dogs"]
    assert (run["none"], run["odd"]) == ({}, {})
    result = evaluate(DATA, pipeline, perspectives=["retrieval"])
    assert result.measures.set_index("measure").loc["nDCG@5", "value"] == 1.0
    index.server.close()


def test_example_of_pgvector_finds_what_dense_search_finds(examples: str) -> None:
    with create_engine(
        examples, poolclass=NullPool, isolation_level="AUTOCOMMIT"
    ).connect() as connection:
        try:
            connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
        except DBAPIError:
            pytest.skip(
                "pgvector is not installed for this server (apt install "
                "postgresql-<version>-pgvector)"
            )
    pipeline = Pipeline(DATA, "pg_vectors:Vectors", chunker="document")
    index: Any = pipeline.index
    run = index.search(DATA.queries, 3)
    expected = Dense(index.chunks, "minilm").search(DATA.queries, 3)
    for query_id, own in expected.items():
        assert list(run[query_id]) == list(own)
        assert run[query_id] == pytest.approx(own, abs=1e-5)
    index.server.close()
