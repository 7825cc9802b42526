"""The batch interfaces of Anthropic and OpenAI on this machine."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs


class BatchServer:
    """The batch interfaces of both providers, as their documentation has them."""

    def __init__(self, wire: Any) -> None:
        self.wire = wire
        self.text_of: Callable[[dict[str, Any]], str] = lambda body: f"re: {prompt_of(body)}"
        self.files: dict[str, list[dict[str, Any]]] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.polls_to_end = 2
        self.fates: dict[str, str] = {}
        """prompt -> "errored", "expired" or "canceled"."""
        self.refused: dict[str, Any] = {}
        """Why a batch is refused as a whole (OpenAI)."""
        self.errors: list[int] = []
        """Status codes of the first polls."""
        self.n_unreadable = 0
        """How many downloads of results are a page of a proxy first."""
        self.states: list[bytes] = []
        """The replies to the first polls, instead of what they ask for."""
        self.no_interface = 0
        """The status code of a server that has models and no batch interface."""
        self.submission = 200
        """The status code of replies to submissions, which arrive all the same."""
        self.gone = False
        """Whether the results are kept no longer."""
        self.edited: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] = lambda lines: lines
        """What becomes of the lines of results."""
        self.alone: list[str] = []
        self.on: Callable[[str], None] = lambda event: None
        """Called with "submitted" before the reply to a submission, and with "polled"."""

    @property
    def sizes(self) -> list[int]:
        return [len(batch["rows"]) for batch in self.batches.values()]

    @property
    def prompts(self) -> list[str]:
        """Every prompt that arrived, alone or in a batch."""
        rows = [row for batch in self.batches.values() for row in batch["rows"]]
        return [*self.alone, *(prompt_of(row.get("params") or row["body"]) for row in rows)]

    def reply(self, asked: Any) -> Any:
        path, body = asked.path.partition("?")[0], asked.body
        if path.endswith(("/messages", "/chat/completions")):
            self.alone.append(prompt_of(body))
            return self.wire.Answered(self.message(body))
        if self.no_interface:
            return self.wire.Answered({"detail": "Not Found"}, status=self.no_interface)
        if path.endswith("/files"):
            rows = re.findall(r"^\{.*\}(?=\r?$)", body["content"], re.M)
            self.files[f"file-{len(self.files)}"] = [json.loads(row) for row in rows]
            return self.wire.Answered({"id": f"file-{len(self.files) - 1}", "object": "file"})
        is_download = "/files/" in path or path.endswith("/results")
        if is_download and self.n_unreadable:
            self.n_unreadable -= 1
            return self.wire.Answered(b"<html>try later</html>")
        if is_download and self.gone:
            return self.wire.Answered({"error": {"message": "No such File object"}}, status=404)
        if "/files/" in path:
            lines = self.edited(self.files[path.split("/")[-2]])
            return self.wire.Answered("".join(f"{json.dumps(line)}\n" for line in lines).encode())
        if path.endswith("/results"):
            lines = [self.anthropic_line(row) for row in self.batches[path.split("/")[-2]]["rows"]]
            return self.wire.Answered(
                "".join(f"{json.dumps(line)}\n" for line in self.edited(lines[::-1])).encode(),
                headers={"content-type": "application/x-jsonl"},
            )
        if path.endswith("/batches") and asked.method == "GET":
            query = parse_qs(asked.path.partition("?")[2])
            names, limit = [*self.batches], int(query["limit"][0])
            first = names.index(query["after"][0]) + 1 if "after" in query else 0
            states = [self.state(name, asked) for name in names[first : first + limit]]
            return self.wire.Answered({"data": states, "has_more": first + limit < len(names)})
        if path.endswith("/batches"):
            name = f"batch_{len(self.batches)}"
            self.batches[name] = {
                "rows": body.get("requests") or self.files[body["input_file_id"]],
                "tag": body.get("metadata"),
                "polls": 0,
                "created": time.time(),
            }
            self.on("submitted")
            return self.wire.Answered(self.state(name, asked), status=self.submission)
        name = path.split("/")[-1]
        if name not in self.batches:
            return self.wire.Answered({"error": {"message": "not found"}}, status=404)
        self.on("polled")
        if self.errors:
            return self.wire.Answered({"error": {"message": "not now"}}, status=self.errors.pop(0))
        if self.states:
            return self.wire.Answered(self.states.pop(0))
        self.batches[name]["polls"] += 1
        return self.wire.Answered(self.state(name, asked))

    def message(self, body: dict[str, Any]) -> dict[str, Any]:
        kind = self.wire.anthropic if "claude" in body["model"] else self.wire.openai
        return dict(kind(self.text_of(body)))

    def state(self, name: str, asked: Any) -> dict[str, Any]:
        batch = self.batches[name]
        rows, ended = batch["rows"], batch["polls"] >= self.polls_to_end
        if "/messages/" in asked.path:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(batch["created"]))
            none = dict.fromkeys(("canceled", "errored", "expired", "succeeded"), 0)
            counts = {**none, "processing": len(rows) * (not ended)}
            counts["succeeded"] = len(rows) * ended
            return {
                "id": name,
                "type": "message_batch",
                "processing_status": "ended" if ended else "in_progress",
                "request_counts": counts,
                "created_at": stamp,
                "expires_at": stamp,
                "results_url": f"http://{asked.headers['host']}/v1/messages/batches/{name}/results"
                if ended
                else None,
            }
        if self.refused:
            return {"id": name, "status": "failed", "created_at": 1, "errors": self.refused}
        fates = {self.fates.get(prompt_of(row["body"]), "succeeded") for row in rows}
        status = "expired" if "expired" in fates else "cancelled" if "canceled" in fates else ""
        if ended:
            lines = [self.openai_line(row) for row in rows[::-1]]
            self.files[f"{name}-output"] = [line for line in lines if is_good(line)]
            self.files[f"{name}-error"] = [line for line in lines if not is_good(line)]
        return {
            "id": name,
            "object": "batch",
            "status": (status or "completed") if ended else "in_progress",
            "created_at": int(batch["created"]),
            "metadata": batch["tag"],
            "request_counts": {"total": len(rows), "completed": len(rows) * ended, "failed": 0},
            "output_file_id": f"{name}-output" if ended else None,
            "error_file_id": f"{name}-error" if ended and self.fates else None,
        }

    def anthropic_line(self, row: dict[str, Any]) -> dict[str, Any]:
        fate = self.fates.get(prompt_of(row["params"]), "succeeded")
        result: dict[str, Any] = {"type": fate}
        if fate == "succeeded":
            result["message"] = self.message(row["params"])
        if fate == "errored":
            error = {"type": "invalid_request_error", "message": "prompt is too long"}
            result["error"] = {"type": "error", "error": error, "request_id": "req_1"}
        return {"custom_id": row["custom_id"], "result": result}

    def openai_line(self, row: dict[str, Any]) -> dict[str, Any]:
        fate = self.fates.get(prompt_of(row["body"]), "succeeded")
        line: dict[str, Any] = {"id": "r", "custom_id": row["custom_id"], "error": None}
        if fate == "succeeded":
            return {**line, "response": {"status_code": 200, "body": self.message(row["body"])}}
        if fate == "errored":
            body = {"error": {"message": "prompt is too long"}}
            return {**line, "response": {"status_code": 400, "request_id": "r", "body": body}}
        code = {"expired": "batch_expired", "canceled": "batch_cancelled"}[fate]
        return {**line, "response": None, "error": {"code": code, "message": "not executed"}}


def is_good(line: dict[str, Any]) -> bool:
    return bool(line["response"]) and line["response"]["status_code"] == 200


def prompt_of(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])
