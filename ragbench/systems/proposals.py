"""Where the answer and the contexts seem to be in a reply of unknown form, as the paths of a
system's file.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from ragbench.errors import DataError
from ragbench.systems.answer_parser import read_answer
from ragbench.systems.context_parser import read_context
from ragbench.systems.reply_paths import Reply, ReplyPaths
from ragbench.systems.reply_tables import ANSWER_FIELDS, CONTEXT_FIELDS
from ragbench.types import Answer

_ANSWERS = (
    *ANSWER_FIELDS,
    *"content output reply message completion data output_text".split(),
)
_CONTEXTS = (
    *CONTEXT_FIELDS,
    *"passages chunks docs references citations matches items evidence".split(),
)
_PARTS = {
    "id": "ref key uuid url source path".split(),
    "score": "relevance rank_score".split(),
    "doc_id": "docId documentId source_id file filename".split(),
}
_MIN_TEXT = 20  # characters of a passage

_Node = tuple[str, str, Any]  # path, last name, value


def propose_paths(reply: Reply, question: str) -> dict[str, Any]:
    """Return the entries `reply` and `delta` of `[http]` for a reply; {} where none is needed.

    An answer is the text outside of lists with the most likely name, then the longest; contexts are
    the list whose entries hold texts, likewise. What is recognised without paths (`read_answer`)
    gets none.

    >>> reply = Reply([{"out": {"reply": "In 1881."}, "found": [{"passage": "It opened in 1881, in May."}]}])
    >>> propose_paths(reply, "?")["reply"]
    {'answer': '$.out.reply', 'contexts': '$.found', 'context': {'text': 'passage'}}
    >>> events = [[{"id": "a", "text": "It opened in 1881, in May."}], {"t": "In "}, {"t": "1881."}]
    >>> propose_paths(Reply(events, streamed=True), "?")
    {'reply': {'contexts': '$[*]'}, 'delta': '$.t'}
    >>> propose_paths(Reply([{"answer": "In 1881.", "contexts": ["It opened in 1881."]}]), "When?")
    {}
    """
    nodes = [node for event in reply.events for node in _nodes(event)]
    texts = [node for node in nodes if isinstance(node[2], str) and node[2] != question]
    answers = [node for node in texts if node[1] in _ANSWERS or " " in node[2]]
    lists = [node for node in nodes if _may_be_contexts(node)]
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
        paths["contexts"], _, entries = max(
            lists, key=lambda node: (node[1] in _CONTEXTS, len(str(node[2][0])))
        )
        if paths["contexts"] == "$":  # an event of a stream, which others are not
            paths["contexts"] = "$[*]"
        if isinstance(entries[0], Mapping) and (parts := _parts(entries[0])):
            paths["context"] = parts
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


def _nodes(value: Any, path: str = "$", name: str = "") -> Iterator[_Node]:
    """Yield everything outside of lists, and what the only entry of a list holds."""
    yield path, name, value
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _nodes(
                entry, f"{path}['{key}']" if "." in key or " " in key else f"{path}.{key}", key
            )
    elif isinstance(value, list) and len(value) == 1 and name not in _CONTEXTS:
        yield from _nodes(value[0], f"{path}[0]", name)


def _may_be_contexts(node: _Node) -> bool:
    """Return True for a list by its name, or by a text that its first entry is or holds."""
    _, name, value = node
    if not isinstance(value, list) or not value or not isinstance(value[0], Mapping | str):
        return False
    texts = value[0].values() if isinstance(value[0], Mapping) else value[:1]
    return name in _CONTEXTS or any(
        isinstance(text, str) and len(text) >= _MIN_TEXT for text in texts
    )


def _parts(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a context that have other names than `read_answer` knows."""
    texts = {name: value for name, value in entry.items() if isinstance(value, str)}
    names = {"text": max(texts, key=lambda name: len(texts[name]), default="")}
    for part, candidates in _PARTS.items():
        names[part] = next((name for name in candidates if name in entry), "")
    usual = read_context(entry)
    return {part: name for part, name in names.items() if name and part not in usual}
