"""Batch interfaces of providers: real servers of the documented form, errors of single requests, kills."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ragbench import network
from ragbench.errors import ConfigError, ModelError
from ragbench.llms import (
    STAND_IN,
    Settings,
    answer_in_batches,
    batch_interface,
    described,
    load_llm,
    pending_batches,
)
from ragbench.llms.costs import bound_of
from ragbench.llms.environment import in_force
from ragbench.store import budgets, replies, submissions
from ragbench.store.replies import Request
from ragbench.store.submissions import Batch
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
    bound = bound_of(requests[0])
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
        assert budgets.spent("late")[1:] == (0.0, 0.0)
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
    assert re.fullmatch(
        rf"The provider keeps working on 2 requests to {provider}:{NAMES[provider]}.* since "
        r"\d{4}-\d\d-\d\d \d\d:\d\d, for at most \$0\.\d{4} \(batch_0\); the same command waits for "
        "them.",
        lines[1],
    )
    assert answer_in_batches(requests, log) == {request.key for request in requests[1:]}
    assert stored(requests) == ["re: a", "re: b", "re: c"]
    assert server.sizes == [2]


PROGRAM = """
import sys
from ragbench.llms import Settings, answer_in_batches, batch_interface, load_llm
from ragbench.llms.environment import in_force
from ragbench.llms.costs import bound_of
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


def left_behind(requests: list[Request], **settings: Any) -> None:
    """Submit requests, and end by Ctrl-C while they are on their way."""

    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    with in_force(Settings(**settings)), pytest.raises(KeyboardInterrupt):
        answer_in_batches(requests, interrupt)


@pytest.mark.parametrize("lost", ["batch", "results"])
def test_a_batch_that_is_not_there_is_not_paid_for_again_unless_it_is_given_up(
    provider: str, server: BatchServer, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = requests_of(provider, *"abc")
    budget: dict[str, Any] = {"max_cost": 1.0, "budget": "lost"}
    left_behind(requests, **budget)
    if lost == "batch":
        server.batches["other"] = server.batches.pop("batch_0") | {"rows": [], "tag": {"tag": "x"}}
    server.gone = True
    for _ in range(2):
        with pytest.raises(
            ModelError,
            match=r"no such batch, .*: 2 requests to .*\(batch_0\)\. .* the key, .* 29 days",
        ) as failed:
            answer_in_batches(requests, print)
        assert "sk-none" not in str(failed.value)
    assert len(server.sizes) == 1
    assert [batch.id for batch in submissions.pending()] == ["batch_0"]
    variable = re.search(r"(RAGBENCH_\w+)=batch_0 forgets it", str(failed.value))
    assert variable
    server.gone = False
    monkeypatch.setenv(variable[1], "batch_0")
    with in_force(Settings(**budget)):
        answer_in_batches(requests, print)
    assert stored(requests) == ["re: a", "re: b", "re: c"]
    assert (server.alone, server.sizes[1:]) == (["a", "b"], [1])
    bounds = sum(map(bound_of, requests[1:])) / 2  # it may have been paid
    assert [*budgets.spent("lost")] == pytest.approx([2.5 * ALONE[provider] + bounds, 0.0, 0.0])


@pytest.mark.parametrize("state", [b"<html>hello</html>", b'{"id": "batch_0", ', b"{}", b"null"])
def test_a_state_that_is_never_readable_ends_the_wait_and_keeps_the_batch(
    provider: str, server: BatchServer, state: bytes
) -> None:
    requests, lines = requests_of(provider, *"abc"), list[str]()
    server.states = [state] * 9
    answer_in_batches(requests_of(provider, *"xyz"), lines.append)
    assert "cannot be read" in lines[0]
    assert lines[-1].startswith("batch batch_0: 2 replies")
    server.states = [state] * 10
    with pytest.raises(
        ModelError, match=r"cannot be read: .*; batch batch_1 is kept, and the same command waits"
    ):
        answer_in_batches(requests, print)
    answer_in_batches(requests, print)
    assert stored(requests) == ["re: a", "re: b", "re: c"]
    assert server.sizes == [2, 2]


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_server_without_a_batch_interface_is_named(
    provider: str, server: BatchServer, status: int
) -> None:
    server.no_interface = status
    requests = requests_of(provider, *"abc")
    with pytest.raises(
        ModelError,
        match=f"^{provider}:{NAMES[provider]}.*: this server has no batch interface .*{status}.*; the sweep "
        "without --batch works$",
    ):
        answer_in_batches(requests, print)
    assert submissions.pending() == []
    assert server.alone == ["a"]


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(
    ("module", "name", "at"),
    [
        *((submissions, "put", at) for at in (0, 1)),
        *((batch_interface, "_poll", at) for at in (0, 1)),
        *((replies, "store", at) for at in (0, 1, 2)),
        (budgets, "settle", 1),
        (submissions, "remove", 0),
    ],
)
def test_ctrl_c_at_any_moment_pays_for_nothing_twice(
    provider: str,
    server: BatchServer,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    name: str,
    at: int,
    before: bool,
) -> None:
    requests = requests_of(provider, *"abc")
    done, calls = getattr(module, name), itertools.count()

    def interrupted(*args: Any, **options: Any) -> Any:
        is_now = next(calls) == at
        if is_now and before:
            raise KeyboardInterrupt
        result = done(*args, **options)
        if is_now:
            raise KeyboardInterrupt
        return result

    with in_force(Settings(max_cost=1.0, budget="stopped")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, interrupted)
            with pytest.raises(KeyboardInterrupt):
                answer_in_batches(requests, print)
        for _ in range(3):
            answer_in_batches(requests, print)
    assert stored(requests) == ["re: a", "re: b", "re: c"]
    # A reply that came and was not stored yet is the only thing that can be lost.
    is_lost = (name, at, before) == ("store", 0, True)
    assert sorted(server.prompts) == ["a"] * is_lost + ["a", "b", "c"]
    assert budgets.spent("stopped")[1:] == (0.0, 0.0)


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
    provider: str, server: BatchServer
) -> None:
    requests = requests_of(provider, *"abcdefgh")
    maximum = ALONE[provider] + 1.2 * bound_of(requests[0])
    settings = Settings(max_cost=maximum, budget="stopped")
    left_behind(requests, max_cost=maximum, budget="stopped")
    assert budgets.spent("stopped").lost > 0
    sent, n_sent = ([*server.alone], [*server.sizes]), 1 + sum(server.sizes)
    with in_force(settings):
        keys = answer_in_batches(requests[::-1], print)
    assert keys == {request.key for request in requests[1:n_sent]}
    assert (server.alone, server.sizes) == sent
    assert None not in stored(requests[:n_sent])
    assert budgets.spent("stopped").lost == 0


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
    assert bound_of(second[0]) > 0
    with in_force(Settings(max_cost=1.2 * bound_of(second[0]), budget="two")):
        assert answer_in_batches([*first, *second], print) == {each.key for each in first[1:]}
        assert None not in stored(first)
        assert answer_in_batches([*first, *second], print) <= {each.key for each in second[1:]}
    with in_force(Settings()):
        answer_in_batches([*first, *second], print)
    assert None not in stored(second)


def test_a_batch_that_never_left_is_not_taken_for_another_of_its_size(
    provider: str, server: BatchServer
) -> None:
    requests = requests_of(provider, *"abcde")
    left_behind(requests[:3])
    [left] = submissions.pending()
    lost = left._replace(tag="lost", id="", requests=tuple(requests[3:]), created=left.created - 1)
    submissions.put(lost)
    assert answer_in_batches(requests, print) == {request.key for request in requests[1:3]}
    assert submissions.pending() == []
    answer_in_batches(requests, print)
    assert None not in stored(requests)
    assert (server.alone, server.sizes) == (["a", "d"], [2, 1])


def test_results_of_others_and_results_that_come_twice_do_no_harm(
    provider: str, server: BatchServer
) -> None:
    requests, lines = requests_of(provider, *"abcd"), list[str]()
    server.fates = {"c": "errored"}

    def edited(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        failures = [line for line in lines if "re: " not in json.dumps(line)]
        replies = [line for line in lines if line not in failures]
        others = [{**line, "custom_id": "unknown"} for line in lines]
        late = [
            {**failure, "custom_id": reply["custom_id"]}
            for failure in failures
            for reply in replies
        ]
        return [*others, *replies, *late, *failures, *replies]

    server.edited = edited
    answer_in_batches(requests, lines.append)
    assert stored(requests) == ["re: a", "re: b", None, "re: d"]
    assert lines[-1].startswith("batch batch_0: 1 requests ")
    assert "prompt is too long" in lines[-1]


def test_requests_without_a_result_are_submitted_again(provider: str, server: BatchServer) -> None:
    requests = requests_of(provider, *"abcd")
    server.edited = lambda lines: [line for line in lines if "re: c" not in json.dumps(line)]
    with pytest.raises(
        ModelError, match="1 requests have no reply, the first: no result; the same"
    ):
        answer_in_batches(requests, print)
    assert stored(requests) == ["re: a", "re: b", None, "re: d"]


def test_all_requests_fail(provider: str, server: BatchServer) -> None:
    requests, lines = requests_of(provider, *"abc"), list[str]()
    server.fates = dict.fromkeys("bc", "errored")
    answer_in_batches(requests, lines.append)
    assert lines[-2:] == [
        "batch batch_0: 0 replies",
        "batch batch_0: 2 requests have no reply, the first: prompt is too long; the runs ask for them alone",
    ]


def test_long_replies_are_asked_for_in_batches_that_fit_into_a_download(
    provider: str, server: BatchServer
) -> None:
    answer_in_batches(requests_of(provider, *"abcdef", max_tokens=2_000_000), print)
    assert server.sizes == [2, 2, 1]


def test_results_that_are_too_long_are_kept_at_the_provider(
    provider: str, server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = requests_of(provider, *"abc")
    server.text_of = lambda body: "x" * (3_000_000 if prompt_of(body) == "c" else 1)
    with monkeypatch.context() as patch:
        patch.setattr(network, "MAX_REPLY_MB", 1.0)
        with pytest.raises(ModelError, match=r"longer than 1 MB; batch batch_0 is kept"):
            answer_in_batches(requests, print)
    answer_in_batches(requests, print)
    assert stored(requests) == ["x", "x", "x" * 3_000_000]
    assert server.sizes == [2]


@pytest.mark.parametrize("status", [500, 502, 504])
def test_a_submission_that_may_have_arrived_is_looked_for(
    provider: str, server: BatchServer, status: int
) -> None:
    requests = requests_of(provider, *"abc")
    server.submission = status
    with pytest.raises(ModelError, match=str(status)):
        answer_in_batches(requests, print)
    answer_in_batches(requests, print)
    assert stored(requests) == ["re: a", "re: b", "re: c"]
    assert sorted(server.prompts) == ["a", "b", "c"]


@pytest.mark.parametrize("hours", [-20, 20])
def test_clocks_may_differ(provider: str, server: BatchServer, hours: float) -> None:
    requests = requests_of(provider, *"abc")
    left_behind(requests)
    mine = server.batches["batch_0"]
    others = [{**row, "custom_id": f"other_{i}"} for i, row in enumerate(mine["rows"])]
    for name, apart in (("farther", 23 / 20), ("later", 10)):
        created = mine["created"] + apart * hours * 3600
        server.batches[name] = {**mine, "rows": others, "tag": {}, "created": created}
    mine["created"] += hours * 3600
    server.batches = dict(sorted(server.batches.items(), reverse=True))
    [batch] = submissions.pending()
    submissions.remove(batch)
    submissions.put(batch._replace(id=""))
    answer_in_batches(requests, print)
    assert stored(requests) == ["re: a", "re: b", "re: c"]


@pytest.mark.parametrize("provider", ["openai"], indirect=True)
def test_a_batch_is_looked_for_among_many(provider: str, server: BatchServer) -> None:
    requests = requests_of(provider, *"abc")
    left_behind(requests)
    [batch] = submissions.pending()
    submissions.remove(batch)
    submissions.put(batch._replace(id=""))
    [mine] = server.batches.values()
    others = {f"other_{i}": {**mine, "tag": {"tag": "x"}} for i in range(250)}
    server.batches = {**others, "batch_0": mine}
    answer_in_batches(requests, print)
    assert stored(requests) == ["re: a", "re: b", "re: c"]
    assert len(server.batches) == 251


def test_a_batch_that_never_left_is_reported(provider: str, server: BatchServer) -> None:
    requests, lines = requests_of(provider, *"abc"), list[str]()
    account = f"{provider}:{NAMES[provider]} {requests[0].origin}"
    submissions.put(Batch("tag_1", account, "", 0.0, 0, tuple(requests)))
    answer_in_batches([], lines.append)
    answer_in_batches(requests, lines.append)
    assert lines[0].startswith(f"The provider never got 3 requests to {account.strip()} since ")
    assert lines[0].endswith(" (tag_1)")
    assert sorted(server.prompts) == ["a", "b", "c"]


def test_two_commands_at_once_submit_once(
    provider: str, server: BatchServer, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", PROGRAM, f"{provider}:{NAMES[provider]}"]
    both = [subprocess.Popen(command, cwd=tmp_path) for _ in range(2)]
    assert [process.wait(120) for process in both] == [0, 0]
    assert stored(requests_of(provider, *"abc")) == ["re: a", "re: b", "re: c"]
    assert sorted(server.prompts) == ["a", "b", "c"]
    spent = [*budgets.spent("killed")]
    assert spent == pytest.approx([2 * ALONE[provider], 0.0, 0.0])


def test_other_requests_do_not_wait_for_a_batch_that_fills_the_budget(
    provider: str, server: BatchServer
) -> None:
    requests = requests_of(provider, *"abcd")
    maximum = ALONE[provider] + 1.2 * bound_of(requests[0])
    left_behind(requests[:3], max_cost=maximum, budget="full")
    llm: Any = load_llm(f"{provider}:{NAMES[provider]}")
    with in_force(Settings(max_cost=maximum, budget="full")):
        with pytest.raises(ModelError, match=r"reserved by .* or by batches"):
            llm.fetch(requests[3])
        answer_in_batches(requests[:3], print)
        assert llm.fetch(requests[3]).text == "re: d"


def test_replies_of_a_model_without_a_price_have_none(
    provider: str, server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(NAMES, provider, f"my-{NAMES[provider]}")
    requests, lines = requests_of(provider, *"abc"), list[str]()
    left_behind(requests)
    assert "for an unknown price (batch_0)" in described(pending_batches())
    with in_force(Settings(max_cost=1.0, budget="unpriced", allow_unpriced=True)):
        answer_in_batches(requests, lines.append)
    assert lines[-1] == "batch batch_0: 2 replies"
    assert sum(budgets.spent("unpriced")) == 0.0


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
