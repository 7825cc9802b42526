"""Where the answer and the contexts seem to be in a reply of unknown form, as the paths of a
system's file.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from ragbench.errors import DataError
from ragbench.systems.answer_parser import ANSWER_FIELDS, CONTEXT_FIELDS, read_answer
from ragbench.systems.reply_paths import Reply, ReplyPaths
from ragbench.types import Answer, Passage

_ANSWERS = (
    *ANSWER_FIELDS,
    "content",
    "output",
    "reply",
    "message",
    "completion",
    "data",
    "output_text",
)
_CONTEXTS = (
    *CONTEXT_FIELDS,
    "passages",
    "chunks",
    "docs",
    "references",
    "citations",
    "matches",
    "items",
    "evidence",
)
_PARTS = {
    "id": ("id", "_id", "chunk_id", "uuid", "ref", "key", "url", "source", "path"),
    "score": ("score", "relevance", "similarity", "relevance_score", "_score", "rank_score"),
    "doc_id": ("doc_id", "document_id", "docId", "documentId", "source_id", "file", "filename"),
}
_MIN_TEXT = 20  # characters of a passage
_MAX_DEPTH = 6

_Node = tuple[str, str, Any]  # path, last name, value


def propose_paths(reply: Reply, question: str) -> dict[str, Any]:
    """Return the entries `reply` and `delta` of `[http]` for a reply; {} where none is needed.

    An answer is the text outside of lists with the most likely name, then the longest; contexts are
    the list whose entries hold texts, likewise. What is recognised without paths (`read_answer`)
    gets none.

    >>> reply = Reply([{"out": {"reply": "In 1881."}, "found": [{"passage": "It opened in 1881, in May."}]}])
    >>> propose_paths(reply, "?")["reply"]
    {'answer': '$.out.reply', 'contexts': '$.found', 'context': {'text': 'passage'}}
    >>> propose_paths(Reply([{"answer": "In 1881.", "contexts": ["It opened in 1881."]}]), "When?")
    {}
    """
    nodes = [node for event in reply.events for node in _nodes(event)]
    texts = [node for node in nodes if isinstance(node[2], str) and node[2] != question]
    answers = [node for node in texts if node[1] in _ANSWERS or " " in node[2]]
    lists = [(rank, node) for node in nodes if (rank := _rank_of_list(node[1], node[2]))]
    if not reply.streamed:
        answer = read_proposed(reply, {})
        if answer and (answer.text or not answers) and (answer.contexts or not lists):
            return {}
    paths: dict[str, Any] = {}
    # Different texts at one path are pieces: the type of each event is the same again and again.
    counts = Counter(path for path, _ in {(path, text) for path, _, text in texts})
    delta = max(counts, key=lambda path: counts[path], default="")
    if counts[delta] < 2:
        delta = ""
        if answers:
            paths["answer"] = max(
                answers, key=lambda node: (node[1] in _ANSWERS, " " in node[2], len(node[2]))
            )[0]
    if lists:
        _, (paths["contexts"], _, entries) = max(lists, key=lambda ranked: ranked[0])
        parts = _parts(entries[0]) if isinstance(entries[0], Mapping) else {}
        paths |= {"context": parts} if parts else {}
    return {key: value for key, value in (("reply", paths), ("delta", delta)) if value}


def read_proposed(reply: Reply, proposal: Mapping[str, Any]) -> Answer | None:
    """Return the answer that is read with these paths; None where there is none."""
    with suppress(DataError):
        paths = ReplyPaths.model_validate(proposal.get("reply", {}))
        return read_answer("probe", reply.record(paths, proposal.get("delta", "")))
    return None


def toml_table(name: str, table: Mapping[str, Any]) -> str:
    """Write a table as TOML.

    >>> print(toml_table("http", {"url": "http://host/ask", "body": {"q": "{query}", "top k": 3}}), end="")
    [http]
    url = "http://host/ask"
    body = { q = "{query}", "top k" = 3 }
    """
    return "\n".join([f"[{name}]", *_entries(table), ""])


def _entries(table: Mapping[str, Any]) -> list[str]:
    return [
        f"{key if re.fullmatch(r'[A-Za-z0-9_-]+', key) else json.dumps(key)} = {_toml(value)}"
        for key, value in table.items()
    ]


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(_entries(value))} }}"
    return f"[{', '.join(map(_toml, value))}]" if isinstance(value, list) else json.dumps(value)


def _nodes(value: Any, path: str = "$", name: str = "", depth: int = 0) -> Iterator[_Node]:
    """Yield everything outside of lists, and what the only entry of a list holds."""
    yield path, name, value
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        for key, entry in value.items():
            step = f".{key}" if re.fullmatch(r"[A-Za-z_]\w*", str(key)) else f"['{key}']"
            yield from _nodes(entry, f"{path}{step}", str(key), depth + 1)
    elif isinstance(value, list) and len(value) == 1 and name not in _CONTEXTS:
        yield from _nodes(value[0], f"{path}[0]", name, depth + 1)


def _rank_of_list(name: str, value: object) -> tuple[bool, int] | None:
    """Rank how likely a list is that of the contexts; None where it cannot be."""
    if not isinstance(value, list) or not value or not isinstance(value[0], Mapping | str):
        return None
    texts = value[0].values() if isinstance(value[0], Mapping) else value[:1]
    length = max((len(text) for text in texts if isinstance(text, str)), default=0)
    return (name in _CONTEXTS, length) if length >= _MIN_TEXT or name in _CONTEXTS else None


def _parts(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a context that have other names than `read_answer` knows."""
    answer = read_proposed(Reply([{"contexts": [entry]}]), {})
    passage = answer.passages[0] if answer and answer.passages else Passage("", "")
    texts = {path[2:]: text for path, _, text in _nodes(entry) if isinstance(text, str)}
    longest = max(texts, key=lambda path: len(texts[path]), default="")
    parts = {}
    if not passage.text and len(texts.get(longest, "")) >= _MIN_TEXT:
        parts["text"] = longest
    has = {"id": {"id", "_id"} & entry.keys(), "score": passage.score is not None}
    for part, names in _PARTS.items():
        scalars = (name for name in names if isinstance(entry.get(name), str | int | float))
        name = next(scalars, "")
        if name and name not in parts.values() and not has.get(part, passage.doc_id):
            parts[part] = name
    return {part: parts[part] for part in ("id", "text", "score", "doc_id") if part in parts}
