"""`ragbench probe`: one question to a system of unknown form, and the file that describes it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragbench.cli import options
from ragbench.cli.console import command, shown
from ragbench.errors import ConfigError, printable
from ragbench.files import write_durably
from ragbench.types import Answer, Dataset

if TYPE_CHECKING:
    from ragbench.systems.reply_paths import Reply

_NAMES = ("query", "question", "input", "message", "q", "prompt", "text")
_BODIES = (
    *({name: "{query}"} for name in _NAMES),
    {"messages": [{"role": "user", "content": "{query}"}]},
)
_WRONG_FORM = (400, 404, 405, 415, 422, 500)
_TOOLS = ("ask", "answer", "query", "search", "retrieve")


def probe_command(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[SYSTEM] QUESTION",
            help="A .toml file, package.module:attribute, bm25, ...; a question.",
        ),
    ],
    url: Annotated[
        str, typer.Option(help="A service by HTTP of which nothing else is known.")
    ] = "",
    body: Annotated[
        str, typer.Option(help='With --url: the JSON of a request, \'{"q": "{query}"}\'.')
    ] = "",
    mcp: Annotated[str, typer.Option(help="An MCP server: an address, or a command.")] = "",
    tool: Annotated[
        str, typer.Option(help="With --mcp: its tool; default: the one that seems to answer.")
    ] = "",
    corpus: options.Corpus = "",
    write: Annotated[Path | None, typer.Option(help="Write the system's file there.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
) -> None:
    """Ask a system one question, show its reply, and propose how to read it.

    With --url the usual forms of a request are tried until one is taken. Exit status: 0 an answer
    or contexts were read, 1 neither was recognised, 2 there was no reply.
    """
    from rich.pretty import pretty_repr

    from ragbench.datasets.corpus import load_corpus
    from ragbench.systems.function import to_answer
    from ragbench.systems.proposals import propose_paths, read_proposed, toml_table

    if len(words) != 1 + (not (url or mcp)) or (url and mcp):
        raise ConfigError("expected a system and a question, or --url or --mcp and a question")
    if write is not None and write.exists() and not force:
        raise ConfigError(f"{shown(write)} is there already; name another file, or add --force")
    question = words[-1]
    start = time.perf_counter()
    data = load_corpus(corpus) if corpus else Dataset("probe", "test", {}, (), {})
    kind, table, reply = _reply(words[0], question, url, body, mcp, tool, data)
    typer.echo(
        f"Reply after {time.perf_counter() - start:.2f} s{', a stream' if reply.streamed else ''}:"
    )
    for event in reply.found[:3] + reply.found[3:][-1:]:
        for line in pretty_repr(event, max_width=100, max_length=3, max_string=70).split("\n"):
            typer.echo(line[: len(line) - len(line.lstrip())] + printable(line))
    typer.echo("")
    proposal = {key: table.pop(key) for key in ("reply", "delta") if table.get(key)}
    if kind in ("http", "mcp"):
        proposal = proposal or propose_paths(reply, question)
        answer = read_proposed(reply, proposal)
    else:
        answer = to_answer("probe", reply.found[0], words[0])
    for line in _read(answer, proposal):
        typer.echo(line)
    if answer is not None and corpus:
        _print_matches(answer, data)
    elif answer is not None and answer.contexts:
        typer.echo("With --corpus it is shown which documents they match.")
    if kind:
        text = toml_table(kind, {**table, **proposal})
        if write is not None:
            write_durably(write, text)
            typer.echo(
                f"{shown(write)} written; next: {command('ragbench')} eval --system {shown(write)}"
            )
        else:
            typer.echo(f"\n{text}")
    raise typer.Exit(1 if answer is None or answer.failed else 0)


def _reply(
    system: str, question: str, url: str, body: str, mcp: str, tool: str, data: Dataset
) -> tuple[str, dict[str, Any], Reply]:
    """Return the kind of the system, its table, and what it replied."""
    from ragbench.systems import FunctionSystem, HttpSystem, McpSystem, load_system
    from ragbench.systems.loader import is_object_name, read_table
    from ragbench.systems.reply_paths import Reply

    if url:
        return "http", *_by_http(url, body, question)
    if mcp:
        with McpSystem(mcp, tool=tool or "?") as server:
            schemas = server.tools()
            likely = (name for part in _TOOLS for name in schemas if part in name.lower())
            tool = tool or next(iter((*likely, *schemas)), "")
            typer.echo(f"Tools: {', '.join(schemas)}; asked is {tool}")
            table = {
                "server": mcp,
                "tool": tool,
                "arguments": {_argument(schemas.get(tool, {})): "{query}"},
            }
            return (
                "mcp",
                table,
                Reply([server.call(tool, dict.fromkeys(table["arguments"], question))]),
            )
    kind, table = "", {}
    if system.endswith(".toml"):
        kind, table = read_table(Path(system))
    elif is_object_name(system):
        kind, table = "python", {"object": system}
    loaded = load_system(system, data)
    if isinstance(loaded, HttpSystem | McpSystem):
        with loaded:
            return kind, table, loaded.ask_raw(question)
    raw = (
        loaded.returned(question)
        if isinstance(loaded, FunctionSystem)
        else loaded.answer("probe", question)
    )
    return kind, table, Reply([raw])


def _by_http(url: str, body: str, question: str) -> tuple[dict[str, Any], Reply]:
    """Send the usual forms of a request until the service takes one."""
    from ragbench.llms.failures import RequestError
    from ragbench.systems import HttpSystem

    try:
        bodies = [json.loads(body)] if body else list(_BODIES)
    except ValueError as exc:
        raise ConfigError(f"--body {body!r} is not JSON: {exc}") from exc
    tables: list[dict[str, Any]] = [{"url": url, "body": body} for body in bodies]
    tables += (
        []
        if body
        else [{"url": url, "method": "GET", "params": {name: "{query}"}} for name in _NAMES]
    )
    refused = ""
    for table in tables:
        with HttpSystem(**table, delta="$") as system:  # of a stream of which nothing is known
            try:
                reply = system.ask_raw(question)
            except RequestError as exc:
                refused = refused or str(exc)
                if exc.status in _WRONG_FORM:
                    continue
                raise ConfigError(str(exc)) from None
        typer.echo(
            f"Taken: {json.dumps({key: value for key, value in table.items() if key != 'url'})}"
        )
        return table, reply
    raise ConfigError(
        f"no usual form of a request was taken; give it with --body. The first refusal: {refused}"
    )


def _argument(schema: Mapping[str, Any]) -> str:
    """The argument of a tool that takes the question."""
    texts = [
        name for name, one in schema.get("properties", {}).items() if one.get("type") == "string"
    ]
    return next((name for name in _NAMES if name in texts), next(iter(texts), "query"))


def _read(answer: Answer | None, proposal: Mapping[str, Any]) -> Iterator[str]:
    """What was recognised, in lines."""
    paths = proposal.get("reply", {})
    if answer is not None and answer.failed:
        yield f"Failed: {printable(answer.error or '')}"
        return
    if answer is None:
        yield (
            "Neither an answer nor contexts were recognised; write [reply] with the paths of "
            "the parts above."
        )
        return
    how = "by the usual names" if not proposal else "with these paths"
    yield f"Read {how}:"
    yield f"  answer    {paths.get('answer') or proposal.get('delta', ''):<20} {_cut(answer.text) or '(none)'}"
    yield f"  contexts  {paths.get('contexts', ''):<20} {len(answer.contexts)}"
    known = {passage.passage_id: passage for passage in answer.passages}
    for number, context in enumerate(answer.contexts[:5], 1):
        one = known.get(context)
        about = f" score {one.score:g}" if one and one.score is not None else ""
        about += f" doc_id {one.doc_id}" if one and one.doc_id else ""
        yield f"    {number}. id {context}{about}: {_cut(one.text) if one else '(no text)'}"


def _print_matches(answer: Answer, dataset: Dataset) -> None:
    from ragbench.systems import match_passages

    matched = match_passages([answer], dataset)
    typer.echo("Documents: " + ", ".join(matched.run["probe"]))
    typer.echo(
        "Matched: " + ", ".join(f"{count} {how}" for how, count in matched.counts.items() if count)
    )


def _cut(text: str) -> str:
    text = printable(text)
    return text if len(text) <= 60 else f"{text[:60]}..."
