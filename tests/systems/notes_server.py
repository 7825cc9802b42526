"""A RAG system as a real MCP server, in a process of its own: over stdio, or with --http over HTTP
on loopback.

With --dataset it indexes one with ragbench's pipeline; without, it only has the tools that
misbehave, and starts fast.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Resolve, Sample
from mcp.types import CreateMessageResult, SamplingMessage, TextContent

server = MCPServer("notes")
notes: dict[int, dict[str, Any]] = {}
indexed: list[int] = []
K = 3


def message(text: str) -> SamplingMessage:
    return SamplingMessage(role="user", content=TextContent(type="text", text=text))


async def sampled(ctx: Context[Any], text: str, **options: Any) -> str:
    """As servers of today do it: a request of their own in the middle of a call."""
    result = await ctx.session.create_message(
        [message(text)],
        max_tokens=options.pop("max_tokens", 512),
        related_request_id=ctx.request_id,
        **options,
    )
    return getattr(result.content, "text", "")


# --- tools that misbehave
# ---------------------------------------------------------------------------------------------


@server.tool()
async def echo(query: str) -> str:
    return f"You asked: {query}"


@server.tool()
async def die(query: str) -> str:
    if "die" in query:
        print("out of memory, leaving", file=sys.stderr, flush=True)
        os._exit(3)
    return query


@server.tool()
async def garbage(query: str) -> str:
    """Over stdio: a line that is not a message, then the result."""
    print("{this is not JSON-RPC", flush=True)
    return query


@server.tool(structured_output=False)
async def odd(query: str) -> Any:
    return {"confidence": "very", "answer": ["a", "list"]}


@server.tool()
async def slow(query: str) -> str:
    await asyncio.sleep(0 if "quick" in query else 30)
    return query


@server.tool()
async def broken(query: str) -> str:
    raise ValueError("the index is gone")


@server.tool()
async def greedy(query: str, ctx: Context[Any], samples: int = 200) -> str:
    for number in range(samples):
        await sampled(ctx, f"{query} {number}")
    return "done"


@server.tool()
async def modest(query: str, ctx: Context[Any]) -> str:
    """Asks twice, and makes do with the first reply where the second is refused."""
    text = await sampled(ctx, query)
    try:
        return f"{text} {await sampled(ctx, query)}"
    except Exception as exc:
        return f"{text} without more: {exc}"


@server.tool()
async def crowd(query: str, ctx: Context[Any], samples: int = 6) -> str:
    found = await asyncio.gather(
        *(sampled(ctx, str(i)) for i in range(samples)), return_exceptions=True
    )
    return f"{sum(isinstance(one, str) for one in found)} of {samples}"


@server.tool()
async def talk(query: str, ctx: Context[Any]) -> str:
    turns = [
        message("Who?"),
        SamplingMessage(role="assistant", content=TextContent(type="text", text="Me.")),
    ]
    result = await ctx.session.create_message(
        [*turns, message(query)],
        max_tokens=9,
        system_prompt="Be brief.",
        temperature=0.5,
        stop_sequences=["STOP"],
        related_request_id=ctx.request_id,
    )
    return f"{getattr(result.content, 'text', '')} ({result.stop_reason}, {result.model})"


@server.tool()
async def talk_about(query: str, ctx: Context[Any], limit: int = 3) -> dict[str, Any]:
    """Searches and has the client's model write the answer."""
    written = await sampled(ctx, f"sampled: {query}")
    return {"generated_answer": written, "sources": [{"document_id": str(i)} for i in range(limit)]}


def ask_the_client(query: str) -> Sample:
    return Sample([message(query)], max_tokens=64)


@server.tool()
async def resolved(
    query: str, reply: Annotated[CreateMessageResult, Resolve(ask_the_client)]
) -> str:
    """As the newest protocol does it: the call comes back with what it needs, and continues when it
    has it.
    """
    return getattr(reply.content, "text", "")


@server.tool()
async def which(query: str) -> str:
    return os.environ.get(query, "not set")


@server.tool()
async def tell(query: str) -> dict[str, Any]:
    """Echoes what it should keep for itself."""
    return {
        "generated_answer": f"{query} {os.environ.get('NOTES_TOKEN')}",
        "sources": [{"id": "a", "text": "b"}],
    }


@server.tool()
async def tell_and_fail(query: str) -> str:
    raise ToolError(f"no access with {os.environ.get('NOTES_TOKEN')}")


@server.tool()
async def tell_and_die(query: str) -> str:
    print(f"bad token {os.environ.get('NOTES_TOKEN')}", file=sys.stderr, flush=True)
    os._exit(3)


@server.tool(structured_output=False)
async def blocks(query: str) -> Any:
    """Without structured output each entry is a block of its own."""
    return [{"id": "a", "text": "one"}, {"id": "b", "text": "two"}]


# --- a store of notes
# -------------------------------------------------------------------------------------------------


@server.tool()
async def nc_notes_create_note(title: str, content: str, category: str) -> dict[str, Any]:
    if title == "poison":
        os._exit(4)
    if title == "too long":
        raise ToolError("413: the note is too long")
    number = len(notes) + 100
    notes[number] = {"id": number, "title": title, "content": content, "category": category}
    return {"id": number}


@server.tool()
async def nc_notes_search_notes(query: str) -> dict[str, Any]:
    return {"results": [note for note in notes.values() if query in note["title"]]}


@server.tool()
async def nc_notes_delete_note(note_id: int) -> dict[str, Any]:
    return {"deleted": notes.pop(note_id)["id"]}


@server.tool()
async def nc_get_vector_sync_status() -> dict[str, Any]:
    indexed.extend(list(notes)[len(indexed) :][:7])  # behind by some polls
    return {
        "indexed_documents": len(notes.keys() & indexed),
        "pending_count": len(notes.keys() - indexed),
    }


# --- a RAG system
# -----------------------------------------------------------------------------------------------------


def add_rag(name: str, n: int) -> None:
    import ragbench as rb
    from ragbench.generation.generator_prompts import GENERATION_SYSTEM, check_prompt, fill
    from ragbench.systems import Pipeline

    data = rb.load_dataset(name)
    pipeline = Pipeline(data, chunk_size=128, k=K)
    text_of = {chunk.chunk_id: chunk.text for chunk in pipeline.chunks}
    template = check_prompt("cited")

    def found(query: str) -> list[dict[str, Any]]:
        run = pipeline.retrieve({"q": query})["q"]
        return [
            {"id": chunk_id, "text": text_of[chunk_id], "score": run[chunk_id]}
            for chunk_id in list(run)[:K]
        ]

    @server.tool()
    def search(query: str) -> dict[str, Any]:
        return {"results": found(query)}

    @server.tool()
    async def answer(query: str, ctx: Context[Any]) -> dict[str, Any]:
        contexts = found(query)
        prompt = fill(template, query, [context["text"] for context in contexts])
        return {
            "answer": await sampled(ctx, prompt, system_prompt=GENERATION_SYSTEM),
            "sources": contexts,
        }

    @server.tool()
    def extract(query: str) -> dict[str, Any]:
        written = pipeline.answer("q", query)
        return {
            "answer": written.text,
            "sources": found(query),
            "citations": list(written.citations),
            "confidence": written.confidence,
            "outcome": written.outcome,
        }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", action="store_true")
    parser.add_argument("--dataset", default="")
    options = parser.parse_args()
    if options.dataset:
        add_rag(options.dataset, K)
    if not options.http:
        server.run("stdio")
        return
    import uvicorn

    # named as TCP: else asyncio leaves Nagle's algorithm on, and each reply waits 40 ms for an
    # acknowledgement
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="warning")
    asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))


if __name__ == "__main__":
    main()
