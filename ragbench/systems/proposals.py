"""Where the answer and the contexts seem to be in a reply of unknown form, as the paths of a system's file."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ragbench.errors import DataError
from ragbench.systems.answer_parser import read_answer
from ragbench.systems.reply_paths import Replies, ReplyPaths, read_reply
from ragbench.systems.shapes import ANSWER_FIELDS, CONTEXT_FIELDS
from ragbench.types import Answer

_ANSWERS = (*ANSWER_FIELDS, "content", "output", "reply", "message", "completion", "data", "output_text")
_CONTEXTS = (*CONTEXT_FIELDS, "passages", "chunks", "docs", "references", "citations", "matches", "items", "evidence")
_PARTS = {
    "id": ("id", "_id", "chunk_id", "uuid", "ref", "key", "url", "source", "path"),
    "doc_id": ("doc_id", "document_id", "docId", "documentId", "source_id", "file", "filename"),
    "score": ("score", "relevance", "similarity", "relevance_score", "_score", "rank_score"),
}
_MIN_TEXT = 20  # characters of a passage
_MAX_DEPTH = 6


def propose_paths(replies: Sequence[Any], question: str) -> dict[str, Any]:
    """The entries `reply` and `delta` of `[http]`, from one reply or the events of a stream; {} where none is needed.

    An answer is the text outside of lists with the most likely name, then the longest; contexts are the list whose
    entries hold texts, likewise. What is recognised without paths (`read_answer`) gets none.

    >>> found = propose_paths([{"out": {"reply": "In 1881."}, "found": [{"body": "It opened in 1881, in May."}]}], "?")
    >>> found["reply"]
    {'answer': '$.out.reply', 'contexts': '$.found', 'context': {'text': 'body'}}
    >>> propose_paths([{"answer": "In 1881.", "contexts": ["It opened in 1881."]}], "When?")
    {}
    """
    if len(replies) == 1:
        with suppress(DataError):
            read = read_answer("probe", read_reply(replies[0], ReplyPaths()))
            lists = [value for _, _, value in _nodes(replies[0]) if _rank_of_list("", value)]
            if (read.text or not _texts(replies, question)) and (read.contexts or not lists):
                return {}
    reply: dict[str, Any] = {}
    texts = _texts(replies, question)
    delta = ""
    found = [(path, value) for one in replies for path, _, value in _nodes(one) if isinstance(value, str)]
    pieces = Counter(path for path, _ in dict.fromkeys(found))  # different ones: not the type of each event
    if pieces and max(pieces.values()) > 1:
        delta = pieces.most_common(1)[0][0]
    elif texts:
        reply["answer"] = max(texts, key=lambda node: (node[1] in _ANSWERS, " " in node[2], len(node[2])))[0]
    nodes = [node for one in replies for node in _nodes(one)]
    lists = [node for node in nodes if _rank_of_list(node[1], node[2])]
    if lists:
        path, _, entries = max(lists, key=lambda node: _rank_of_list(node[1], node[2]) or (False, 0))
        reply["contexts"] = path
        parts = _parts(entries[0]) if isinstance(entries[0], Mapping) else {}
        reply |= {"context": parts} if parts else {}
    return {key: value for key, value in (("reply", reply), ("delta", delta)) if value}


def read_proposed(replies: Replies, proposal: Mapping[str, Any]) -> Answer:
    """The answer that is read with these paths; DataError where there is none."""
    paths = ReplyPaths.model_validate(proposal.get("reply", {}))
    return read_answer("probe", replies.record(paths, proposal.get("delta", "")))


def reply_lines(value: Any, *, indent: str = "", name: str = "$") -> Iterator[str]:
    """A reply as a tree of one line per field; of a list its length and its first entry.

    >>> print(*reply_lines({"answer": "In 1881.", "hits": [{"id": 7}, {"id": 8}]}), sep="\\n")
    $
      answer: "In 1881."
      hits: 2 entries
        [0]
          id: 7
    """
    if isinstance(getattr(value, "__dict__", None), dict) and not isinstance(value, type) and len(indent) < 10:
        name, value = f"{name} ({type(value).__name__})", vars(value)
    if isinstance(value, Mapping):
        yield f"{indent}{name}"
        for key, entry in value.items():
            yield from reply_lines(entry, indent=f"{indent}  ", name=str(key))
    elif isinstance(value, list | tuple):
        yield f"{indent}{name}: {len(value)} {'entry' if len(value) == 1 else 'entries'}"
        if value:
            yield from reply_lines(value[0], indent=f"{indent}  ", name="[0]")
    else:
        shown = json.dumps(value, ensure_ascii=False, default=repr)
        yield f"{indent}{name}: {shown if len(shown) <= 70 else f'{shown[:70]}... ({len(shown):,} characters)'}"


def toml_table(table: Mapping[str, Any], name: str, *, many: bool = False) -> str:
    """One table as TOML, or one of `many` of that name; inner tables become tables of their own.

    >>> print(toml_table({"url": "http://host/ask", "body": {"q": "{query}"}}, "http"), end="")
    [http]
    url = "http://host/ask"
    <BLANKLINE>
    [http.body]
    q = "{query}"
    >>> print(toml_table({"then": [{"url": "http://host/{id}"}]}, "http"), end="")
    [http]
    <BLANKLINE>
    [[http.then]]
    url = "http://host/{id}"
    """
    own, inner = "", []
    for key, value in table.items():
        if isinstance(value, Mapping):
            inner.append(toml_table(value, f"{name}.{_key(key)}"))
        elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
            inner += [toml_table(one, f"{name}.{_key(key)}", many=True) for one in value]
        else:
            own += f"{_key(key)} = {json.dumps(value)}\n"
    return "\n".join([f"{f'[[{name}]]' if many else f'[{name}]'}\n{own}", *inner])


def _key(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key, re.ASCII) else json.dumps(key)


def _nodes(value: Any, path: str = "$", name: str = "", depth: int = 0) -> Iterator[tuple[str, str, Any]]:
    """Path, last name and value of everything outside of lists, and of what the only entry of a list holds."""
    yield path, name, value
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        for key, entry in value.items():
            step = f".{key}" if re.fullmatch(r"[A-Za-z_]\w*", str(key)) else f"['{key}']"
            yield from _nodes(entry, f"{path}{step}", str(key), depth + 1)
    elif isinstance(value, list) and len(value) == 1 and name not in _CONTEXTS:
        yield from _nodes(value[0], f"{path}[0]", name, depth + 1)


def _texts(replies: Sequence[Any], question: str) -> list[tuple[str, str, str]]:
    nodes = [node for reply in replies for node in _nodes(reply)]
    return [n for n in nodes if isinstance(n[2], str) and n[2] != question and (n[1] in _ANSWERS or " " in n[2])]


def _rank_of_list(name: str, value: object) -> tuple[bool, int] | None:
    """How likely a list is that of the contexts; None where it cannot be."""
    if not isinstance(value, list) or not value or not isinstance(value[0], Mapping | str):
        return None
    first = value[0]
    texts = first.values() if isinstance(first, Mapping) else [first]
    length = max((len(text) for text in texts if isinstance(text, str)), default=0)
    return (name in _CONTEXTS, length) if length >= _MIN_TEXT or name in _CONTEXTS else None


def _parts(entry: Mapping[str, Any]) -> dict[str, str]:
    """The fields of one context that have other names than `read_answer` knows."""
    read = next(iter(read_answer("probe", {"contexts": [entry]}).passages), None) if _is_readable(entry) else None
    parts = {}
    texts = {path.removeprefix("$."): value for path, _, value in _nodes(entry) if isinstance(value, str)}
    longest = max(texts, key=lambda path: len(texts[path]), default="")
    if not (read and read.text) and len(texts.get(longest, "")) >= _MIN_TEXT:
        parts["text"] = longest
    known = {
        "id": "id" in entry or "_id" in entry,
        "doc_id": bool(read and read.doc_id),
        "score": bool(read and read.score is not None),
    }
    for part, names in _PARTS.items():
        named = next((name for name in names if isinstance(entry.get(name), str | int | float)), "")
        if named and not known[part] and named not in parts.values():
            parts[part] = named
    return {part: parts[part] for part in ("id", "text", "score", "doc_id") if part in parts}


def _is_readable(entry: Mapping[str, Any]) -> bool:
    with suppress(DataError):
        return bool(read_answer("probe", {"contexts": [entry]}))
    return False
