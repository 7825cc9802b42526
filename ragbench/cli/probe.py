"""`ragbench probe`: one question to a system of unknown form; which forms of a request and which
tools are tried, and the file that describes the system.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ragbench import systems
from ragbench.cli.console import command, shown
from ragbench.cli.options import Corpus, Force
from ragbench.errors import ConfigError, FailureKind, printable
from ragbench.files import write_durably
from ragbench.types import Answer, Dataset

if TYPE_CHECKING:
    from ragbench.systems.reply_paths import SystemReply


class _Probed(NamedTuple):
    """A system that was asked a question, and its reply."""

    kind: str
    """Of the system's file: "http" or "mcp"; "" for a system without a file, such as a function."""
    table: dict[str, Any]
    """The fields of the file, as far as they are known."""
    reply: SystemReply


_NAMES = tuple("query question input message q prompt text".split())
"""Usual names of the field of a request that holds the question, the most usual first."""
_REFUSED_FORM = (400, 404, 405, 415, 422, 500)
"""Statuses of HTTP by which services refuse the form of a request, so that another form is tried."""
_JOB = """
Write my_rag.py with the service's own addresses and fields, then `ragbench eval my_rag:answer`:

import time
import httpx

http = httpx.Client(base_url="http://localhost:8000", timeout=60)

def answer(question):
    job = http.post("/ask", json={"query": question}).raise_for_status().json()
    while job["status"] not in ("done", "failed"):
        time.sleep(0.2)
        job = http.get(f"/jobs/{job['id']}").raise_for_status().json()
    return {"answer": job["answer"], "contexts": job["contexts"]}"""
"""What to write for a service that answers later."""
_TOOLS = ("ask", "answer", "query", "search", "retrieve")
"""Words in the names of tools that answer questions, the surest first."""


def probe_command(
    words: Annotated[list[str], typer.Argument(metavar="[SYSTEM] QUESTION")],
    *,
    body: str = "",
    mcp: str = "",
    tool: str = "",
    corpus: Corpus = "",
    write: Path | None = None,
    force: Force = False,
) -> int:
    """Ask a system one question, show its reply, and propose how to read it.

    At an address, the usual forms of a request are tried until one is accepted. Exit status: 0 an answer
    or contexts were read, 1 neither was recognised, 2 there was no reply.

    Args:
        words: A system (an address, a .toml file, package.module:attribute, bm25, ...) and a question.
        body: With an address: the JSON of a request, such as '{"q": "{query}"}'.
        mcp: An MCP server: an address, or a command.
        tool: With --mcp: its tool; default: the one that seems to answer.
        write: Write the file that describes the system to this path.

    Example: ragbench probe http://localhost:8000/ask "Why?" --write my.toml
    """
    from ragbench.datasets.corpus import load_corpus
    from ragbench.systems.function import to_answer
    from ragbench.systems.proposals import propose_paths, read_proposed

    # with --mcp the question alone, else a system and a question
    n_words = 1 if mcp else 2
    if len(words) != n_words:
        raise ConfigError("expected a system and a question, or --mcp and a question")
    if write is not None and write.exists() and not force:
        raise ConfigError(f"{shown(write)} already exists; name another file, or add --force")
    # with --mcp both are the question, and `system` is not used
    system, question = words[0], words[-1]
    data = load_corpus(corpus) if corpus else Dataset("probe", "test", {}, (), {})
    start = time.perf_counter()
    if system.startswith(("http://", "https://")):
        probed = _ask_service(system, body, question)
    elif mcp:
        probed = _ask_tool(mcp, tool, question)
    else:
        probed = _ask_system(system, question, data)
    reply = probed.reply
    _print_reply(reply, time.perf_counter() - start)
    # an HTTP or MCP system is described by a .toml file, which exists or is proposed here
    is_described_by_file = bool(probed.kind)
    other_fields = dict(probed.table)
    # the fields of the file that state where the parts of an answer are in the reply, if it has them
    paths = {key: other_fields.pop(key) for key in ("reply", "delta") if other_fields.get(key)}
    if is_described_by_file:
        paths = paths or propose_paths(reply, question)
        answer = read_proposed(reply, paths)
    else:
        answer = to_answer("probe", reply.events[0], system)
    _print_answer(answer, paths)
    if answer is not None and corpus:
        _print_matches(answer, data)
    if is_described_by_file:
        _print_or_write_file(probed.kind, {**other_fields, **paths}, write, corpus)
    is_recognised = answer is not None and not answer.failed
    return 0 if is_recognised else 1


def _print_or_write_file(kind: str, table: dict[str, Any], file: Path | None, corpus: str) -> None:
    """Write the file that describes a system of this kind, and print the command that evaluates the
    system on the user's questions; without a `file` print its text.

    `corpus` are the documents that the user gave; "" if none.
    """
    from ragbench.systems.proposals import toml_table

    text = toml_table(kind, table)
    if file is None:
        typer.echo(f"\n{text}")
        return
    write_durably(file, text)
    next_command = f"{command('ragbench')} eval {shown(file)} --test-set YOUR-QUESTIONS.csv"
    if corpus:
        next_command += f" --docs {corpus}"
    typer.echo(f"{shown(file)} written; next: {next_command}")


def _print_reply(reply: SystemReply, seconds: float) -> None:
    """Print how long a reply took, its first three events and its last one; API keys are masked."""
    from rich.pretty import pretty_repr

    stream = ", a stream" if reply.streamed else ""
    typer.echo(f"Reply after {seconds:.2f} s{stream}:")
    shown_events = [*reply.events[:3], *reply.events[3:][-1:]]  # the last, if it is not among them
    for event in shown_events:
        text = pretty_repr(event, max_width=100, max_length=3, max_string=70)
        typer.echo(_without_api_keys(text))


def _print_matches(answer: Answer, data: Dataset) -> None:
    """Print the documents that the contexts of an answer are from, and how the documents were
    recognised.
    """
    matched = systems.match_passages([answer], data)
    counts = [f"{count} {how}" for how, count in matched.counts.items() if count]
    typer.echo(f"Documents: {', '.join(matched.run['probe'])}\nMatched: {', '.join(counts)}")


def _forms_of_request(url: str, body: str) -> list[dict[str, Any]]:
    """Return the forms of a request in which to ask a service, each as the table of an HTTP system.

    With a `body` there is one form. With "" there are the usual ones: a question in a field of JSON, a
    chat, a question in the address.
    """
    if body:
        try:
            return [{"url": url, "body": json.loads(body)}]
        except ValueError as exc:
            raise ConfigError(f"--body {body!r} is not JSON: {exc}") from exc
    tables: list[dict[str, Any]] = []
    for name in _NAMES:
        tables.append({"url": url, "body": {name: "{query}"}})
    chat = {"messages": [{"role": "user", "content": "{query}"}]}
    tables.append({"url": url, "body": chat})
    for name in _NAMES:
        tables.append({"url": f"{url}?{name}={{query}}", "method": "GET"})
    return tables


def _ask_service(url: str, body: str, question: str) -> _Probed:
    """Ask a service a question in one form of a request after another until one is answered, and print
    this form.

    The next form is tried if the service refuses a form, or closes the connection at it. Any other
    error ends the attempts.

    Raises:
        ConfigError: no form was answered; the message has the error of the first form, also if another
            error ended the attempts.
    """
    from ragbench.llms.failures import RequestError

    first_error: RequestError | None = None
    for table in _forms_of_request(url, body):
        # delta="$": of a stream of unknown form, each event as a whole
        with systems.HttpSystem(**table, delta="$") as system:
            try:
                reply = system.ask_raw(question)
            except RequestError as exc:
                is_first = first_error is None
                first_error = first_error or exc
                is_closed = exc.failure is FailureKind.DISCONNECTED
                if exc.status in _REFUSED_FORM or is_closed:
                    continue  # with the next form
                if is_first:  # the error is not about the form
                    # 202: the service took a job, and will answer later, at another address
                    how_to = _JOB if exc.status == 202 else ""
                    raise ConfigError(f"{exc}{how_to}") from None
                break  # the refusal of the first form is reported below
        typer.echo(f"Accepted: {json.dumps(table)}")
        return _Probed("http", table, reply)
    raise ConfigError(
        "no usual form of a request was accepted; give the form with --body. The first refusal: "
        f"{first_error}"
    )


def _ask_tool(server: str, tool: str, question: str) -> _Probed:
    """Call a tool of an MCP server with a question.

    The question goes into the tool's text argument with a usual name, such as "query", else into its
    first text argument.

    Args:
        server: the address of the server, or the command that starts it.
        tool: the name of the tool; "" means the one that seems to answer questions.
    """
    from ragbench.systems.reply_paths import SystemReply

    # "?": a name must be given, but it is chosen below from the tools of the server
    with systems.McpSystem(server, tool=tool or "?") as system:
        schemas = system.tools()
        tool = tool or _likely_tool(list(schemas))
        typer.echo(f"Tools: {', '.join(schemas)}; asking {tool}")
        fields = schemas.get(tool, {}).get("properties", {})
        text_arguments = [name for name, field in fields.items() if field.get("type") == "string"]
        usual_arguments = [name for name in _NAMES if name in text_arguments]
        candidates = [*usual_arguments, *text_arguments, "query"]  # best first
        argument = candidates[0]
        reply = SystemReply([system.call(tool, {argument: question})])
    table = {"server": server, "tool": tool, "arguments": {argument: "{query}"}}
    return _Probed("mcp", table, reply)


def _likely_tool(tools: Sequence[str]) -> str:
    """Return the tool whose name suggests that it answers, else the first; "" if there is none."""
    for word in _TOOLS:
        for tool in tools:
            if word in tool.lower():
                return tool
    return tools[0] if tools else ""


def _ask_system(name: str, question: str, data: Dataset) -> _Probed:
    """Ask a system a question, and return its reply.

    Args:
        name: the system, as for `eval`: the .toml file of an HTTP or MCP system, a function, or a
            retriever, which searches the documents of `data`.
        question: the question.
        data: the documents, and no questions.

    Returns:
        With the reply, the kind and the fields of the .toml file; both are empty for another system.
    """
    from ragbench.systems.named_systems import read_table
    from ragbench.systems.reply_paths import SystemReply

    system = systems.load_system(name, data)
    if isinstance(system, systems.HttpSystem | systems.McpSystem):
        with system:
            kind, table = read_table(Path(name))
            return _Probed(kind, table, system.ask_raw(question))
    if isinstance(system, systems.FunctionSystem):
        return _Probed("", {}, SystemReply([system.returned(question)]))
    return _Probed("", {}, SystemReply([system.answer("probe", question)]))


def _print_answer(answer: Answer | None, paths: Mapping[str, Any]) -> None:
    """Print the parts of an answer that were recognised, and where they are in the reply; API keys are
    masked.

    Args:
        answer: None means that nothing was recognised.
        paths: "reply" -> the path of each part ("answer", "contexts"); of a stream also "delta" -> the
            path of the text in each event.
    """
    if answer is None:
        typer.echo(
            "Neither an answer nor contexts were recognised; write [reply] with the paths of "
            "the parts above."
        )
        return
    if answer.failed:
        typer.echo(f"Failed: {printable(answer.error or '')}")
        return
    from rich.pretty import pretty_repr

    path_of_part = paths.get("reply", {})
    path_of_text = path_of_part.get("answer") or paths.get("delta", "")
    text = (
        f"answer    {path_of_text:<20} {printable(answer.text)[:60] or '(none)'}\n"
        f"contexts  {path_of_part.get('contexts', ''):<20} {len(answer.contexts)}\n"
        f"{pretty_repr(answer.passages[:3], max_width=100, max_string=60)}"
    )
    typer.echo(_without_api_keys(text))


def _without_api_keys(text: str) -> str:
    """Return a text in which the API keys of this process's environment are masked."""
    # imported here: it loads pydantic, which `--help` does not need
    from ragbench.llms.failures import environment_keys, scrubbed

    return scrubbed(text, environment_keys())
