"""Streams of JSON: server-sent events and JSON lines, joined to one record."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from ragbench.errors import DataError
from ragbench.systems.reply_paths import ReplyPaths, to_record

_SHOWN = 120
_BYTE_ORDER_MARK = "\ufeff"


def sse_data(text: str) -> Iterator[tuple[str, str]]:
    """The type and the data of each server-sent event that has data, as `httpx-sse` reads them.

    An event that the end of the stream cuts off, before its blank line, is given too.

    >>> list(sse_data(": hi\\ndata: one\\ndata: two\\n\\nevent: end\\ndata: x\\n\\n"))
    [('message', 'one\\ntwo'), ('end', 'x')]
    """
    import httpx
    from httpx_sse import EventSource

    headers = {"Content-Type": "text/event-stream; charset=utf-8"}
    content = f"{text.removeprefix(_BYTE_ORDER_MARK)}\n\n".encode()
    for event in EventSource(httpx.Response(200, headers=headers, content=content)).iter_sse():
        if event.data:
            yield event.event, event.data


def join_events(replies: Sequence[Any], paths: ReplyPaths, delta: str) -> dict[str, Any]:
    """One record of all events: the pieces at `delta` joined, everything else from the last event that has it.

    Raises:
        DataError: there is no event, or none has an answer.

    >>> events = 'data: {"t": "In "}\\n\\ndata: {"t": "1881."}\\n\\ndata: {"sources": ["It opened."]}\\n\\ndata: [DONE]'
    >>> join_events(list(json_events(events, True)), ReplyPaths(contexts="$.sources"), "$.t")
    {'contexts': ['It opened.'], 'answer': 'In 1881.'}
    """
    if not replies:
        raise DataError("the stream ended before any event came")
    record: dict[str, Any] = {}
    pieces: list[str] = []
    for reply in replies:
        found = _found(reply, paths)
        if delta and (piece := _piece(reply, delta)) is not None:
            pieces.append(piece)
        record.update({key: value for key, value in found.items() if value not in ([], {})})
    if pieces:
        record["answer"] = "".join(pieces)
    if not {"answer", "text", "response", "contexts", "error"} & record.keys():
        where = f"delta = {delta!r}" if delta else f"answer = {paths.answer!r}" if paths.answer else "'answer'"
        raise DataError(f"none of {len(replies)} events has an answer at {where}; the last is {_shown(replies[-1])}")
    return record


def _found(reply: Any, paths: ReplyPaths) -> dict[str, Any]:
    try:
        return to_record(reply, paths)
    except DataError:  # an event without the answer: most are
        return to_record(reply, paths.model_copy(update={"answer": "", "error": paths.error or "$.error"}))


def _piece(reply: Any, delta: str) -> str | None:
    """The piece of text in one event, None where it has none."""
    try:
        piece = to_record(reply, ReplyPaths.model_construct(answer=delta))["answer"]
    except DataError:
        return None
    return piece if isinstance(piece, str) else None


def json_events(text: str, sse: bool) -> Iterator[Any]:
    """The parsed data of each event up to "[DONE]"; DataError for one that is not JSON or is called "error"."""
    events = sse_data(text) if sse else (("message", line) for line in text.split("\n") if line.strip())
    for event, data in events:
        if data.strip() == "[DONE]":
            return
        if event == "error":
            raise DataError(f"the stream reports: {_shown(data)}")
        try:
            yield json.loads(data)
        except (ValueError, RecursionError):
            raise DataError(f"an event of the stream is not JSON: {_shown(data)}") from None


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
