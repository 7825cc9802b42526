"""McpSystem against a real server: sampling and its limits, both protocols, and servers that
misbehave.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import ragbench as rb
from ragbench.errors import ConfigError, DataWarning
from ragbench.systems import McpSystem, ask, load_system
from ragbench.types import Case, Completion, Dataset

pytest.importorskip("mcp")
DATA = Dataset("demo", "test", {}, [Case(f"q{i}", f"question {i}") for i in range(6)], {})


def upper(prompt: str) -> str:
    return prompt.upper()


@pytest.fixture(scope="module")
def once(notes_url: str) -> Iterator[Any]:
    """Ask one tool of the HTTP server one question."""
    systems: list[McpSystem] = []

    def one(tool: str, query: str = "why?", **options: Any) -> Any:
        systems.append(
            McpSystem(notes_url, tool=tool, **options)
        )  # no limit that a busy machine reaches
        return systems[-1].answer("q1", query)

    yield one
    for system in systems:
        system.close()


def test_the_roles_of_a_case_go_into_the_arguments(notes_url: str) -> None:
    data = Dataset("demo", "test", {}, [Case("q1", "why?", user_roles=("admin", "hr"))], {})
    with McpSystem(notes_url, tool="echo", arguments={"query": "{query} {user_roles}"}) as system:
        assert ask(system, data)[0].text == "You asked: why? admin,hr"


# --- sampling
# ---------------------------------------------------------------------------------------------------------


def test_a_single_call_of_a_tool_is_answered_by_the_model_too(notes_url: str) -> None:
    llm = rb.llms.ScriptedLLM(lambda prompt: "So it is.", name="scripted:m")
    with McpSystem(notes_url, tool="echo", sampling=llm) as system:
        result = system.call("talk_about", {"query": "why?", "limit": 1})
    assert result == {"generated_answer": "So it is.", "sources": [{"document_id": "0"}]}


def test_the_servers_request_reaches_the_model_as_it_was_made(once: Any) -> None:
    llm = rb.llms.ScriptedLLM(lambda prompt: "So it is. STOP And more.", name="scripted:m")
    answer = once("talk", sampling=llm)
    assert answer.error is None
    assert answer.text == "So it is.  (stopSequence, scripted:m)"
    assert llm.prompts == ["User: Who?\n\nAssistant: Me.\n\nUser: why?"]
    assert llm.systems == ["Be brief."]


def test_tokens_are_summed(once: Any) -> None:
    answer = once("resolved", sampling=rb.llms.ScriptedLLM(upper))
    assert (answer.text, answer.error) == ("WHY?", None)
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (1, 1)
    assert {"total", "sampling"} <= set(answer.latency_ms)


def test_several_samples_of_one_call_are_one_usage(once: Any) -> None:
    answer = once("crowd", sampling=rb.llms.ScriptedLLM(upper))
    assert answer.text == "6 of 6"
    assert answer.usage.output_tokens == 6


def test_200_samplings_in_one_call_are_refused_after_the_limit(once: Any) -> None:
    llm = rb.llms.ScriptedLLM(upper)
    answer = once("greedy", sampling=llm, max_samplings=20)
    assert len(llm.prompts) == 20
    assert answer.outcome == "failed"
    assert "more than 20 sampling requests in one call (max_samplings)" in answer.error
    assert answer.flags == ("sampling_refused",)
    assert answer.usage.output_tokens == 40  # what was spent before is counted


def test_a_server_that_makes_do_without_is_an_answer_with_a_flag(once: Any) -> None:
    answer = once("modest", sampling=rb.llms.ScriptedLLM(upper), max_samplings=1)
    assert answer.text.startswith("WHY? without more: ")
    assert answer.flags == ("sampling_refused",)


def test_a_model_that_fails_is_reported_to_the_server_and_in_the_answer(once: Any) -> None:
    answer = once("greedy", sampling=rb.llms.ScriptedLLM([]))
    assert "has 0 replies and was asked 1 times" in answer.error


def test_without_a_model_the_server_gets_an_error(once: Any) -> None:
    assert once("greedy").outcome == "failed"
    assert once("greedy").flags == ()


def test_a_reply_of_the_store_makes_no_latency(once: Any) -> None:
    answer = once(
        "talk",
        sampling=rb.llms.ScriptedLLM(lambda prompt: Completion("Yes.", "m", 3, 1, cached=True)),
    )
    assert answer.latency_ms == {}


# --- results
# ----------------------------------------------------------------------------------------------------------


def test_a_plain_text_is_the_answer(once: Any) -> None:
    assert once("echo", 'say "x"').text == 'You asked: say "x"'


def test_an_invalid_answer_is_a_failed_one(once: Any) -> None:
    answer = once("odd")
    assert "answer is ['a', 'list']" in answer.error
    assert "confidence is 'very'" in answer.error


def test_a_tool_that_fails_and_one_that_is_not_there(once: Any) -> None:
    assert "the tool failed: Error executing tool broken" in once("broken").error
    assert "unknown tool 'serch'; did you mean 'search'?" in once("serch").error


def test_an_answer_after_the_time_limit_has_failed_and_the_next_is_fine(notes_url: str) -> None:
    with McpSystem(notes_url, tool="slow", timeout_s=1.5) as system:
        start = time.perf_counter()
        assert "no result within 1.5 s" in (system.answer("q1", "long").error or "")
        assert time.perf_counter() - start < 10
        assert system.answer("q2", "quick").text == "quick"


def test_calls_wait_concurrently(notes_url: str) -> None:
    all_at_once = threading.Barrier(len(DATA.queries))

    def together(prompt: str) -> str:
        all_at_once.wait(timeout=60)
        return prompt

    llm = rb.llms.ScriptedLLM(together)
    with McpSystem(notes_url, tool="resolved", sampling=llm) as system:
        answers = ask(system, DATA, concurrency=6)
    assert [answer.text for answer in answers] == list(DATA.queries.values())


# --- servers that die
# -------------------------------------------------------------------------------------------------


def test_a_server_that_dies_in_the_middle_is_started_again(notes_command: list[str]) -> None:
    data = Dataset(
        "d", "test", {}, [Case("a", "one"), Case("b", "die now"), Case("c", "three")], {}
    )
    with (
        McpSystem(notes_command, tool="die") as system,
        pytest.warns(DataWarning, match="1 of 3 answers failed"),
    ):
        answers = ask(system, data, concurrency=1)
    assert [answer.text for answer in answers] == ["one", "", "three"]
    assert "the connection ended" in (answers[1].error or "")
    assert "its last error line: out of memory, leaving" in (answers[1].error or "")


def test_a_line_of_garbage_on_the_wire_does_not_lose_the_answer(
    notes_command: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with McpSystem(notes_command, tool="garbage") as system:
        assert system.answer("q1", "why?").text == "why?"


def test_the_error_of_a_failed_server_has_its_last_error_line() -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no index found: run notes init')"]
    with McpSystem(command, tool="echo") as system:
        start = time.perf_counter()
        errors = {answer.error for answer in (system.answer(str(i), "?") for i in range(20))}
        assert time.perf_counter() - start < 10  # it is not started again for each question
        assert len(errors) == 1
        assert "its last error line: no index found: run notes init" in (errors.pop() or "")
        with pytest.raises(ConfigError, match="no index found"):
            system.tools()


def test_what_cannot_be_started_or_reached() -> None:
    with McpSystem(["no-such-command-7f3"], tool="echo") as system:
        assert "there is no command 'no-such-command-7f3'" in (system.answer("q", "?").error or "")
    with McpSystem("http://127.0.0.1:9/mcp", tool="echo") as system:
        assert "at http://127.0.0.1:9/mcp" in (system.answer("q", "?").error or "")


def test_a_server_that_never_shakes_hands() -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with McpSystem(command, tool="echo", timeout_s=0.5) as system:
        assert "no handshake within 0.5 s" in (system.answer("q", "?").error or "")


# --- its life
# ---------------------------------------------------------------------------------------------------------


def children() -> set[int]:
    folder = Path(f"/proc/{os.getpid()}/task")
    found: set[int] = set()
    for task in folder.iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread may end while we look
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


@pytest.mark.skipif(
    not Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists(),
    reason="needs Linux's /proc",
)
@pytest.mark.parametrize("how", ["close", "dropped"])
def test_no_process_and_no_thread_stays(notes_command: list[str], how: str) -> None:
    before = children()
    system = McpSystem(notes_command, tool="echo", name="a life")
    assert system.answer("q1", "why?").error is None
    assert len(children() - before) == 1
    if how == "close":
        system.close()
        assert system.answer("q1", "why?").error == "a life was closed"
    del system
    deadline = time.monotonic() + 8
    while children() - before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert children() - before == set()
    assert not [thread for thread in threading.enumerate() if thread.name == "a life"]


def test_it_works_inside_a_running_loop_as_in_jupyter(notes_url: str) -> None:
    async def notebook() -> str:
        with McpSystem(notes_url, tool="echo") as system:
            return system.answer("q1", "why?").text

    assert asyncio.run(notebook()) == "You asked: why?"


def test_only_named_variables_reach_the_server(
    notes_command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTES_TOKEN", "t")
    monkeypatch.setenv("OTHER_TOKEN", "u")
    with McpSystem(notes_command, tool="which", env=["NOTES_TOKEN"]) as system:
        assert [system.answer("q", name).text for name in ("NOTES_TOKEN", "OTHER_TOKEN")] == [
            "t",
            "not set",
        ]
    monkeypatch.delenv("NOTES_TOKEN")
    with pytest.raises(ConfigError, match="set NOTES_TOKEN in the environment"):
        McpSystem(notes_command, tool="which", env=["NOTES_TOKEN"])


def test_a_file_describes_a_whole_system(notes_url: str, tmp_path: Path) -> None:
    (tmp_path / "notes.toml").write_text(
        f'[mcp]\nserver = "{notes_url}"\ntool = "echo"\narguments = {{query = "{{query}}"}}\n'
    )
    system = load_system(tmp_path / "notes.toml", DATA)
    assert isinstance(system, McpSystem)
    with system:
        assert system.name == "notes"
        assert system.answer("q1", "why?").text == "You asked: why?"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"server": "", "tool": "t"}, "expected a command"),
        ({"server": ["x"], "tool": ""}, "tool is ''"),
        ({"server": ["x"], "tool": "t", "arguments": {"q": 1}}, "the question is sent nowhere"),
        ({"server": ["x"], "tool": "t", "headers": {"A": "b"}}, "headers belong to an address"),
        ({"server": "http://me:pw@h/mcp", "tool": "t"}, "an address holds no password"),
        (
            {"server": ["x"], "tool": "t", "timeout_s": "long", "max_samplings": 0},
            "max_samplings is 0.*timeout_s is 'long'",
        ),
    ],
)
def test_what_cannot_work_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        McpSystem(**options)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_ends_a_waiting_question(notes_url: str) -> None:
    with McpSystem(notes_url, tool="slow", timeout_s=60) as system:
        system.answer("q0", "quick")
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        start = time.perf_counter()
        with pytest.raises(KeyboardInterrupt):
            ask(system, DATA)
        assert time.perf_counter() - start < 10


@pytest.mark.parametrize("tool", ["tell", "tell_and_fail", "tell_and_die"])
def test_a_secret_that_the_server_echoes_is_in_no_error(
    notes_command: list[str], monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    monkeypatch.setenv("NOTES_TOKEN", "s3cr3t-7f3a9d")
    with McpSystem(notes_command, tool=tool, env=["NOTES_TOKEN"]) as system:
        answer = system.answer("q", "why?")
    assert "s3cr3t" not in str(answer.error)
    if tool == "tell":
        assert "s3cr3t-7f3a9d" in answer.text  # a reply is never changed
    else:
        assert "***" in str(answer.error)


def test_the_answer_of_the_notes_application_needs_no_path(once: Any) -> None:
    answer = once("tell")
    assert (answer.text, answer.contexts, answer.flags) == ("why? None", ("a",), ())


def test_a_list_in_several_blocks_is_contexts(once: Any) -> None:
    answer = once("blocks")
    assert (answer.contexts, answer.flags, answer.text) == (("a", "b"), ("retrieval_only",), "")


@pytest.mark.parametrize(
    "options",
    [
        {"arguments": {"query": "{query}", "token": "s3cr3t-7f3a9d"}},
        {"server": ["python", "server.py", "--api-key", "sk-ant-api03-s3cr3t8kQbPq7Lw2Vt9"]},
        {"server": "http://localhost:1/mcp?access_token=s3cr3t-7f3a9d"},
    ],
)
def test_a_secret_written_into_a_template_is_refused_and_not_shown(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="holds a secret, which belongs in no file") as caught:
        McpSystem(**{"server": "http://localhost:1/mcp", "tool": "echo", **options})
    assert "s3cr3t" not in str(caught.value)


def test_a_variable_in_the_arguments_is_in_no_log(
    notes_command: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("NOTES_TOKEN", "s3cr3t-7f3a9d")
    with McpSystem(
        notes_command, tool="echo", arguments={"query": "{query} {env:NOTES_TOKEN}"}
    ) as system:
        answer = system.answer("q", "why?")
    assert "why? s3cr3t-7f3a9d" in answer.text
    assert "s3cr3t" not in f"{answer.error} {caplog.text}"


def test_a_server_of_another_protocol_version_is_asked_in_its_own(loopback: Any, wire: Any) -> None:
    """It does not know the handshake: only a server's description and calls that stand alone."""
    version = "2026-07-28"
    tool = {"name": "ask", "inputSchema": {"type": "object"}, "title": "Ask"}
    described = {
        "serverInfo": {"name": "new", "version": "1"},
        "capabilities": {"tools": {}},
        "supportedVersions": [version],
    }
    replies = {
        "server/discover": {
            **described,
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "private",
        },
        "tools/list": {
            "tools": [tool],
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "private",
        },
        "tools/call": {
            "content": [{"type": "text", "text": "In 1881."}],
            "isError": False,
            "resultType": "complete",
        },
    }

    def reply(asked: Any) -> Any:
        request = asked.body
        if request["method"] == "initialize":
            error = {
                "code": -32022,
                "message": "no such version",
                "data": {"supported": [version], "requested": "x"},
            }
            return wire.Answered(
                {"jsonrpc": "2.0", "id": request["id"], "error": error}, status=400
            )
        return wire.Answered(
            {"jsonrpc": "2.0", "id": request["id"], "result": replies[request["method"]]}
        )

    with McpSystem(f"{loopback(reply).url}/mcp", tool="ask") as system:
        answer = system.answer("q1", "?")
    assert (answer.text, answer.error) == ("In 1881.", None)
