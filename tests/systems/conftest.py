"""One RAG system behind every door: in this process, by MCP over stdio and HTTP, by a web service."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import ragbench as rb
from ragbench.generation.generator_prompts import GENERATION_SYSTEM, check_prompt, fill
from ragbench.systems import Pipeline
from ragbench.types import Dataset

SERVER = Path(__file__).with_name("notes_server.py")
K = 3


@pytest.fixture(scope="session")
def real_data() -> tuple[str, Dataset]:
    """The name and some questions of a real collection: pubmedqa where it is next to the checkout,
    else the manual.
    """
    folder = Path(__file__).parents[3] / "shared" / "data" / "pubmedqa"
    name = str(folder) if folder.is_dir() else "pydoc"
    data: Dataset = rb.load_dataset(name)
    return name, data.select(list(data.queries)[:25])


@pytest.fixture(scope="session")
def reader() -> Callable[[], rb.llms.ScriptedLLM]:
    """A model that answers with the middle of its prompt: another context is another answer."""

    def answer(prompt: str) -> str:
        words = prompt.split()
        return f"{' '.join(words[len(words) // 2 :][:25])} [{K}]."

    return lambda: rb.llms.ScriptedLLM(answer, name="scripted:reader")


@pytest.fixture(scope="session")
def notes_command() -> list[str]:
    """The command of the MCP server that misbehaves on request."""
    return [sys.executable, str(SERVER)]


@pytest.fixture(scope="session")
def passed_on() -> list[str]:
    """The variables that the server needs from this process."""
    return [name for name in ("RAGBENCH_CACHE_DIR", "PYTHONPATH") if name in os.environ]


@pytest.fixture(scope="session")
def notes_url(real_data: tuple[str, Dataset]) -> Iterator[str]:
    """The MCP server over streamable HTTP, with the real collection indexed."""
    command = [sys.executable, str(SERVER), "--http", "--dataset", real_data[0]]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port, "the server did not start"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:  # it prints its port before it listens
            with suppress(OSError), socket.create_connection(("127.0.0.1", int(port)), timeout=1):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
        process.kill()


@pytest.fixture(scope="session")
def web_service(
    real_data: tuple[str, Dataset], reader: Callable[[], rb.llms.ScriptedLLM]
) -> Iterator[str]:
    """A FastAPI service in front of the same index: /ask in one piece, /stream as server-sent
    events.
    """
    import uvicorn
    from fastapi import FastAPI
    from fastapi.responses import StreamingResponse

    pipeline = Pipeline(rb.load_dataset(real_data[0]), chunk_size=128, k=K)
    text_of = {chunk.chunk_id: chunk.text for chunk in pipeline.chunks}
    model = reader()
    app = FastAPI()

    def found(query: str) -> list[dict[str, Any]]:
        run = pipeline.retrieve({"q": query})["q"]
        return [
            {"ref": chunk_id, "body": text_of[chunk_id], "rank": run[chunk_id]}
            for chunk_id in list(run)[:K]
        ]

    def written(query: str, hits: list[dict[str, Any]]) -> str:
        prompt = fill(check_prompt("cited"), query, [hit["body"] for hit in hits])
        text: str = model.generate(prompt, system=GENERATION_SYSTEM).text
        return text

    @app.post("/ask")
    def ask(question: dict[str, str]) -> dict[str, Any]:
        hits = found(question["text"])
        return {"reply": {"text": written(question["text"], hits)}, "hits": hits}

    @app.post("/extract")
    def extract(question: dict[str, str]) -> dict[str, Any]:
        answer = pipeline.answer("q", question["text"])
        hits = found(question["text"])
        return {
            "reply": {"text": answer.text},
            "hits": hits,
            "cites": list(answer.citations),
            "sure": answer.confidence,
            "kind": answer.outcome,
        }

    @app.post("/bare")
    def bare(question: dict[str, str]) -> dict[str, Any]:
        """Passages without any id, as many services give them."""
        hits = found(question["text"])
        return {
            "reply": {"text": written(question["text"], hits)},
            "hits": [hit["body"] for hit in hits],
        }

    @app.post("/stream")
    def stream(question: dict[str, str]) -> StreamingResponse:
        hits = found(question["text"])

        def events() -> Iterator[str]:
            yield ": begins\n\n"
            text = written(question["text"], hits)
            for start in range(0, len(text), 7):
                yield f"data: {json.dumps({'delta': text[start : start + 7]})}\n\n"
            yield f"event: sources\ndata: {json.dumps({'hits': hits})}\n\ndata: [DONE]\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    # named as TCP: else asyncio leaves Nagle's algorithm on, and each reply waits 40 ms for an
    # acknowledgement
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    thread = threading.Thread(
        target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True
    )
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(10)
    listening.close()
