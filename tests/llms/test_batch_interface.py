"""Batch interfaces of providers: real servers of the documented form, errors of single requests, kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ragbench.errors import ConfigError, ModelError
from ragbench.llms import STAND_IN, Settings, answer_in_batches, batch_interface, load_llm
from ragbench.llms.environment import in_force
from ragbench.store import budgets, replies, submissions
from ragbench.store.replies import Request
from tests.batch_server import BatchServer, prompt_of

NAMES = {"anthropic": "claude-haiku-4-5", "openai": "gpt-4o-mini"}
ALONE = {"anthropic": (11 * 1.0 + 7 * 5.0) / 1e6, "openai": (11 * 0.15 + 7 * 0.6) / 1e6}
"""Dollars of one request of 11 and 7 tokens."""


@pytest.fixture(params=sorted(NAMES))
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(
    provider: str, loopback: Any, wire: Any, llm_environment: pytest.MonkeyPatch
) -> BatchServer:
    served = BatchServer(wire)
    server = loopback(served.reply)
    llm_environment.setenv(f"RAG_EVAL_{provider.upper()}_BASE_URL", server.url)
    llm_environment.setenv(f"RAG_EVAL_{provider.upper()}_API_KEY", "sk-none-of-your-business")
    llm_environment.setattr(batch_interface, "POLL_S", 0.01)
    return served


def requests_of(provider: str, *prompts: str, **options: Any) -> list[Request]:
    llm: Any = load_llm(f"{provider}:{NAMES[provider]}")
    defaults = {"system": "s", "max_tokens": 50, "temperature": 0.0, "schema": None, "sample": 0}
    return [llm.request(prompt, **{**defaults, **options}) for prompt in prompts]


def stored(requests: list[Request]) -> list[str | None]:
    return [reply and reply.text for reply in replies.lookup_many(requests)]


def test_the_first_is_sent_alone_and_the_rest_as_one_batch(
    provider: str, server: BatchServer
) -> None:
    lines: list[str] = []
    requests = requests_of(provider, "a", "b\u2028c", "d", "e")
    keys = answer_in_batches(requests, lines.append)
    assert keys == {request.key for request in requests[1:]}
    assert (server.alone, server.sizes) == (["a"], [3])
    assert stored(requests) == ["re: a", "re: b\u2028c", "re: d", "re: e"]
    assert lines == [
        "batch batch_0: 0 of 3 requests done",
        f"batch batch_0: 3 replies for ${1.5 * ALONE[provider]:.4f}, half of the price",
    ]
    assert answer_in_batches(requests, lines.append) == set()  # nothing is asked for again
    assert (server.alone, server.sizes) == (["a"], [3])


def test_requests_are_what_they_are_alone(provider: str, server: BatchServer) -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    plain = requests_of(provider, "a", "b")
    answer_in_batches([*plain, *requests_of(provider, "c", "d", schema=schema)], print)
    assert server.alone == ["a", "c"] or server.alone == ["c", "a"]
    [batch] = server.batches.values()
    bodies = [row.get("params") or row["body"] for row in batch["rows"]]
    assert [prompt_of(body) for body in bodies] == ["b", "d"]
    assert {"output_config", "response_format"} & {*bodies[1]}
    assert not {"output_config", "response_format"} & {*bodies[0]}


def test_the_budget_counts_half_of_the_price(provider: str, server: BatchServer) -> None:
    requests = requests_of(provider, *"abcde")
    with in_force(Settings(max_cost=1.0, budget="batched")):
        answer_in_batches(requests, print)
    spent = budgets.spent("batched")
    assert spent.settled == pytest.approx(ALONE[provider] * (1 + 4 * 0.5))
    assert (spent.open, spent.lost) == (0.0, 0.0)


def test_the_budget_has_room_for_a_part(provider: str, server: BatchServer) -> None:
    requests = requests_of(provider, *"abcde")
    llm: Any = load_llm(f"{provider}:{NAMES[provider]}")
    bound = llm.bound(requests[0])
    with in_force(Settings(max_cost=ALONE[provider] + 1.2 * bound, budget="small")):
        keys = answer_in_batches(requests, print)
    assert server.sizes[0] == 2  # half of a bound each
    assert len(keys) == sum(server.sizes)
    assert budgets.spent("small").settled <= ALONE[provider] + 1.2 * bound


def test_a_request_that_fails_is_reported_and_the_others_are_kept(
    provider: str, server: BatchServer
) -> None:
    lines: list[str] = []
    requests = requests_of(provider, "a", "bad", "c")
    server.fates["bad"] = "errored"
    answer_in_batches(requests, lines.append)
    assert stored(requests) == ["re: a", None, "re: c"]
    assert lines[-1].startswith("batch batch_0: 1 requests have no reply, the first: ")
    assert "prompt is too long" in lines[-1]
    assert "{" not in lines[-1]
    assert lines[-1].endswith("; the runs ask for them alone")


@pytest.mark.parametrize("fate", ["expired", "canceled"])
def test_what_expires_or_is_canceled_stops_and_is_submitted_again(
    provider: str, server: BatchServer, fate: str
) -> None:
    requests = requests_of(provider, "a", "late", "c")
    server.fates["late"] = fate
    with in_force(Settings(max_cost=1.0, budget="late")):
        with pytest.raises(ModelError, match=f"no reply, the first: {fate}; the same command"):
            answer_in_batches(requests, print)
        assert stored(requests) == ["re: a", None, "re: c"]
        server.fates = {}
        answer_in_batches([*requests, *requests_of(provider, "d")], print)
        assert budgets.spent("late").open == 0.0
    assert (server.alone, server.sizes) == (["a", "late"], [2, 1])


def test_ctrl_c_leaves_the_batch_running(provider: str, server: BatchServer) -> None:
    lines: list[str] = []
    requests = requests_of(provider, *"abc")

    def log(line: str) -> None:
        lines.append(line)
        if line.endswith("requests done") and len(lines) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        answer_in_batches(requests, log)
    assert lines[1] == (
        "The provider keeps working on what was submitted (batch_0); the same command waits for it."
    )
    assert answer_in_batches(requests, log) == {request.key for request in requests[1:]}
    assert stored(requests) == ["re: a", "re: b", "re: c"]
    assert server.sizes == [2]


PROGRAM = """
import sys
from ragbench.llms import Settings, answer_in_batches, batch_interface, load_llm
from ragbench.llms.environment import in_force
batch_interface.POLL_S = 0.01
llm = load_llm(sys.argv[1])
with in_force(Settings(max_cost=1.0, budget="killed")):
    requests = [llm.request(prompt, "s", 50, 0.0, None, 0) for prompt in "abc"]
    answer_in_batches(requests, print)
"""


@pytest.mark.parametrize("moment", ["submitted", "polled"])
def test_a_killed_process_does_not_pay_twice(
    provider: str, server: BatchServer, moment: str, tmp_path: Path
) -> None:
    running: list[subprocess.Popen[bytes]] = []

    def kill(event: str) -> None:
        if event == moment and running[0].poll() is None:
            os.kill(running[0].pid, signal.SIGKILL)
            running[0].wait()

    server.on = kill
    command = [sys.executable, "-c", PROGRAM, f"{provider}:{NAMES[provider]}"]
    running.append(subprocess.Popen(command, cwd=tmp_path))
    assert running[0].wait(60) == -signal.SIGKILL
    requests = requests_of(provider, *"abc")
    assert (stored(requests), server.sizes) == (["re: a", None, None], [2])
    with in_force(Settings(max_cost=1.0, budget="killed")):
        answer_in_batches(requests, print)
    assert (stored(requests), server.sizes) == (["re: a", "re: b", "re: c"], [2])
    assert server.alone == ["a"]
    spent = budgets.spent("killed")
    assert spent.settled == pytest.approx(2 * ALONE[provider])
    assert (spent.open, spent.lost) == (0.0, 0.0)


def test_a_batch_that_is_deleted_at_the_provider_is_submitted_again(
    provider: str, server: BatchServer
) -> None:
    requests = requests_of(provider, *"abc")

    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        answer_in_batches(requests, interrupt)
    server.batches["other"] = server.batches.pop("batch_0") | {"rows": [], "tag": {"tag": "x"}}
    with pytest.raises(
        ModelError, match=r"batch_0 was deleted, or is of another key \(.*404.*the same command"
    ):
        answer_in_batches(requests, print)
    answer_in_batches(requests, print)
    assert stored(requests) == ["re: a", "re: b", "re: c"]


def test_a_provider_that_is_busy_or_away_is_asked_again(provider: str, server: BatchServer) -> None:
    lines: list[str] = []
    server.errors = [503, 503, 429, 500]
    answer_in_batches(requests_of(provider, *"abc"), lines.append)
    assert server.sizes == [2]
    assert [line for line in lines if "continues meanwhile" in line] == [
        f"{provider}:{NAMES[provider]}: {status}: not now; batch batch_0 continues meanwhile"
        for status in (503, 429, 500)
    ]
    assert lines[-1].startswith("batch batch_0: 2 replies for $")


def test_a_key_that_is_refused_while_waiting_ends_it(provider: str, server: BatchServer) -> None:
    requests = requests_of(provider, *"abc")
    server.errors = [401]
    with pytest.raises(ModelError, match="the key was refused"):
        answer_in_batches(requests, print)
    answer_in_batches(requests, print)
    assert (server.alone, server.sizes) == (["a"], [2])


def test_what_rests_on_a_stand_in_is_not_submitted(provider: str, server: BatchServer) -> None:
    answer_in_batches(requests_of(provider, "a", f"judge {STAND_IN}"), print)
    assert (server.alone, server.sizes) == (["a"], [])


def test_a_model_without_a_batch_interface_is_refused_before_anything_is_sent(
    provider: str, server: BatchServer
) -> None:
    local = Request("ollama", "m", "hello")
    with pytest.raises(
        ConfigError, match=r"ollama:m is not asked in batches: .* of anthropic:<model> and"
    ):
        answer_in_batches([*requests_of(provider, "a", "b"), local], print)
    assert (server.alone, server.sizes) == ([], [])


def test_vectors_come_before_what_follows_from_them(provider: str, server: BatchServer) -> None:
    texts = Request("openai", "text-embedding-3-small", "a text", "embedding", 1)
    with pytest.raises(
        ConfigError, match=r"openai:text-embedding-3-small is not asked .* \(vectors: with llm"
    ):
        answer_in_batches([*requests_of(provider, "a", "b"), texts], print)
    assert (server.alone, server.sizes) == ([], [])


@pytest.mark.parametrize("provider", ["openai"], indirect=True)
def test_a_batch_that_is_refused_as_a_whole_stops(provider: str, server: BatchServer) -> None:
    requests = requests_of(provider, *"abc")
    server.refused = {"data": [{"code": "token_limit_exceeded", "message": "Enqueued token limit"}]}
    with pytest.raises(
        ModelError, match=r"2 requests have no reply, the first: refused .*Enqueued"
    ):
        answer_in_batches(requests, print)
    server.refused = {}
    answer_in_batches(requests, print)
    assert stored(requests) == ["re: a", "re: b", "re: c"]


def test_what_was_submitted_is_collected_before_the_budget_is_asked_for_more(
    provider: str, server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = requests_of(provider, *"abcdefgh")
    llm: Any = load_llm(f"{provider}:{NAMES[provider]}")
    settings = Settings(max_cost=ALONE[provider] + 1.2 * llm.bound(requests[0]), budget="stopped")
    with monkeypatch.context() as patch, in_force(settings):
        patch.setattr(
            batch_interface, "_poll", lambda llm, batch: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            answer_in_batches(requests, print)
    assert budgets.spent("stopped").open > 0
    sent, n_sent = ([*server.alone], [*server.sizes]), 1 + sum(server.sizes)
    with in_force(settings):
        keys = answer_in_batches(requests[::-1], print)
    assert keys == {request.key for request in requests[1:n_sent]}
    assert (server.alone, server.sizes) == sent
    assert None not in stored(requests[:n_sent])
    assert budgets.spent("stopped").open == 0


def test_with_a_budget_models_do_not_wait_for_each_other(
    provider: str, server: BatchServer
) -> None:
    other: Any = load_llm(
        {"anthropic": "anthropic:claude-opus-4-5", "openai": "openai:gpt-4o"}[provider]
    )
    first = requests_of(provider, *"abc")
    second = [
        other.request(text, system="s", max_tokens=50, temperature=0.0, schema=None, sample=0)
        for text in "abc"
    ]
    assert other.bound(second[0]) > 0
    with in_force(Settings(max_cost=1.2 * other.bound(second[0]), budget="two")):
        assert answer_in_batches([*first, *second], print) == {each.key for each in first[1:]}
        assert None not in stored(first)
        assert answer_in_batches([*first, *second], print) <= {each.key for each in second[1:]}
    with in_force(Settings()):
        answer_in_batches([*first, *second], print)
    assert None not in stored(second)


def test_a_batch_that_never_left_is_not_taken_for_another_of_its_size(
    provider: str, server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = requests_of(provider, *"abcde")
    with monkeypatch.context() as patch:
        patch.setattr(
            batch_interface, "_poll", lambda llm, batch: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            answer_in_batches(requests[:3], print)
    [left] = submissions.pending()
    lost = left._replace(tag="lost", id="", requests=tuple(requests[3:]), created=left.created - 1)
    submissions.put(lost)
    assert answer_in_batches(requests, print) == {request.key for request in requests[1:3]}
    assert submissions.pending() == []
    answer_in_batches(requests, print)
    assert None not in stored(requests)
    assert (server.alone, server.sizes) == (["a", "d"], [2, 1])


def test_results_that_cannot_be_read_are_downloaded_again(
    provider: str, server: BatchServer
) -> None:
    lines: list[str] = []
    requests = requests_of(provider, *"abc")
    server.n_unreadable = 1
    answer_in_batches(requests, lines.append)
    assert None not in stored(requests)
    assert [line for line in lines if "cannot be read" in line and "continues meanwhile" in line]
    assert "sk-none" not in "".join(lines)
