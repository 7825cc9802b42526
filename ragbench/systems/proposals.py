"""Guesses of `ragbench probe` where a reply of unknown form has its answer and its contexts, as
paths for a system's file.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ragbench.errors import DataError
from ragbench.systems.answer_parser import read_answer
from ragbench.systems.context_parser import read_context
from ragbench.systems.reply_paths import ReplyPaths, SystemReply
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


class _Node(NamedTuple):
    """A value inside a reply, with its path and the last name in it ("" if it has no name)."""

    path: str
    name: str
    value: Any


def propose_paths(reply: SystemReply, question: str) -> dict[str, Any]:
    """Return the entries `reply` and `delta` of `[http]` for a reply; {} if none is needed.

    `reply` has the paths of the answer and of the contexts. `delta` is for a stream: the path, in each
    event, of the piece of the answer that the event adds.

    The answer is a text outside of lists, and the contexts are a list whose entries hold texts. Of
    several, the one with the most likely name is taken, then the longest. A reply whose answer and
    contexts `read_answer` recognises without paths needs no entries.

    >>> reply = SystemReply([{"out": {"reply": "In 1881."}, "found": [{"passage": "It opened in 1881, in May."}]}])
    >>> propose_paths(reply, "?")["reply"]
    {'answer': '$.out.reply', 'contexts': '$.found', 'context': {'text': 'passage'}}
    >>> events = [[{"id": "a", "text": "It opened in 1881, in May."}], {"t": "In "}, {"t": "1881."}]
    >>> propose_paths(SystemReply(events, streamed=True), "?")
    {'reply': {'contexts': '$[*]'}, 'delta': '$.t'}
    >>> propose_paths(SystemReply([{"answer": "In 1881.", "contexts": ["It opened in 1881."]}]), "When?")
    {}
    """
    nodes: list[_Node] = []
    for event in reply.events:
        nodes += _nodes(event)
    texts = [node for node in nodes if isinstance(node.value, str) and node.value != question]
    answers = [node for node in texts if node.name in _ANSWERS or " " in node.value]
    lists = [node for node in nodes if _may_be_contexts(node)]
    if not reply.streamed:
        is_read = _is_read_without_paths(
            reply, may_have_answer=bool(answers), may_have_contexts=bool(lists)
        )
        if is_read:
            return {}
    paths: dict[str, Any] = {}
    # only the events of a stream have several texts at one path
    delta = _path_of_pieces(texts)
    if answers and not delta:  # pieces are the whole answer
        paths["answer"] = max(answers, key=_likelihood_of_answer).path
    if lists:
        contexts = max(lists, key=_likelihood_of_contexts)
        # a whole event of a stream: other events are not lists
        paths["contexts"] = "$[*]" if contexts.path == "$" else contexts.path
        names = _unusual_names(contexts.value[0])
        if names:
            paths["context"] = names
    proposal: dict[str, Any] = {}
    if paths:
        proposal["reply"] = paths
    if delta:
        proposal["delta"] = delta
    return proposal


def _is_read_without_paths(
    reply: SystemReply, *, may_have_answer: bool, may_have_contexts: bool
) -> bool:
    """Return True if `read_answer` finds the answer and the contexts of a reply without paths; a part
    that the reply cannot have (`may_have_...` is False) need not be found.
    """
    answer = read_proposed(reply, {})
    if answer is None:
        return False
    lacks_answer = may_have_answer and not answer.text
    lacks_contexts = may_have_contexts and not answer.contexts
    return not (lacks_answer or lacks_contexts)


def _path_of_pieces(texts: Iterable[_Node]) -> str:
    """Return the path with the most different texts: pieces of one answer; "" if no path has two.

    Equal texts count once: the type of each event is the same again and again.
    """
    different_texts = {(node.path, node.value) for node in texts}
    counts = Counter(path for path, _ in different_texts)
    path = max(counts, key=lambda path: counts[path], default="")
    return path if counts[path] >= 2 else ""


def _likelihood_of_answer(node: _Node) -> tuple[bool, bool, int]:
    """Return a key that is highest for a text with a name for answers, then for one of several words,
    then for the longest.
    """
    return node.name in _ANSWERS, " " in node.value, len(node.value)


def _likelihood_of_contexts(node: _Node) -> tuple[bool, int]:
    """Return a key that is highest for a list with a name for contexts, then for long entries."""
    first_context = node.value[0]
    return node.name in _CONTEXTS, len(str(first_context))


def read_proposed(reply: SystemReply, proposal: Mapping[str, Any]) -> Answer | None:
    """Return the answer that is read with these paths; None if they lead to none."""
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
    """Return the entries of a table as TOML: "key = value"."""
    entries = []
    for key, value in table.items():
        is_bare = re.fullmatch(r"[A-Za-z0-9_-]+", key) is not None
        toml_key = key if is_bare else json.dumps(key)
        entries.append(f"{toml_key} = {_toml(value)}")
    return entries


def _toml(value: Any) -> str:
    """Return a table, a list or a text as TOML in one line."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(_entries(value))} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)


def _nodes(value: Any, path: str = "$", name: str = "") -> Iterator[_Node]:
    """Yield a node (path, name, value) for a value and for all fields in it, at any depth.

    Entries of lists are left out, except the single entry of a list whose name is not usual for
    contexts.
    """
    yield _Node(path, name, value)
    if isinstance(value, Mapping):
        for key, entry in value.items():
            is_quoted = "." in key or " " in key
            step = f"['{key}']" if is_quoted else f".{key}"
            yield from _nodes(entry, path + step, key)
    elif isinstance(value, list) and len(value) == 1 and name not in _CONTEXTS:
        yield from _nodes(value[0], f"{path}[0]", name)


def _may_be_contexts(node: _Node) -> bool:
    """Return True if a value may be the contexts: a list of texts or tables that has a usual name for
    contexts, or whose first entry is or holds a long text.
    """
    entries = node.value
    if not isinstance(entries, list) or not entries:
        return False
    first = entries[0]
    if not isinstance(first, Mapping | str):
        return False
    if node.name in _CONTEXTS:
        return True
    texts = first.values() if isinstance(first, Mapping) else [first]
    return any(isinstance(text, str) and len(text) >= _MIN_TEXT for text in texts)


def _unusual_names(context: Any) -> dict[str, str]:
    """Return part -> name of the field that seems to hold it, for the parts of a context ("text",
    "id", "score", "doc_id") that `read_answer` does not find; {} for a context that is no table.
    """
    if not isinstance(context, Mapping):
        return {}
    texts = {name: value for name, value in context.items() if isinstance(value, str)}
    longest_text = max(texts, key=lambda name: len(texts[name]), default="")
    names = {"text": longest_text}
    for part, candidates in _PARTS.items():
        names[part] = next((name for name in candidates if name in context), "")
    found_parts = read_context(context)
    return {part: name for part, name in names.items() if name and part not in found_parts}
