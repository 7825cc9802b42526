"""Many requests: order, duplicates, errors as records, concurrency, the store, budgets, Ctrl-C and
kill -9.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ragbench import llms
from ragbench.errors import ConfigError, FailureKind, ModelError
from ragbench.llms import ScriptedLLM, generate_many
from ragbench.store import budgets, database, replies
from ragbench.types import Completion


@pytest.fixture
def echo(loopback: Any, wire: Any, llm_environment: pytest.MonkeyPatch) -> Any:
    """An OpenAI-compatible server that replies with the prompt in capitals."""
    server = loopback(
        lambda asked: wire.Answered(wire.openai(asked.body["messages"][-1]["content"].upper()))
    )
    llm_environment.setenv("RAG_EVAL_OPENAI_BASE_URL", server.url)
    return server


def prompts_of(server: Any) -> list[str]:
    return [asked.body["messages"][-1]["content"] for asked in server.asked if asked.body]


# --- order, duplicates, concurrency
# ----------------------------------------------------------------------------------


def test_order_is_kept_however_long_each_takes(echo: Any, wire: Any) -> None:
    answer = echo.reply
    echo.reply = lambda asked: wire.Answered(
        answer(asked).body, delay_s=0.05 * (len(echo.asked) % 3)
    )
    prompts = [f"prompt {number}" for number in range(20)]
    found = generate_many(llms.load_llm("openai:m"), prompts, concurrency=7)
    assert [reply.text for reply in found] == [prompt.upper() for prompt in prompts]
    assert 2 <= echo.most_at_once <= 7


def test_the_same_prompt_is_sent_once_and_the_repetition_counts_as_cached(echo: Any) -> None:
    found = generate_many(llms.load_llm("openai:m"), ["a", "b", "a", "a"])
    assert sorted(prompts_of(echo)) == ["a", "b"]
    assert [reply.text for reply in found] == ["A", "B", "A", "A"]
    assert [reply.cached for reply in found] == [False, False, True, True]
    assert found[0].latency_s > 0
    assert found[2].latency_s == 0


def test_samples_of_one_prompt_are_sent_each(echo: Any) -> None:
    llm = llms.load_llm("openai:m")
    generate_many(llm, ["a", "a", "a"], samples=[0, 1, 2], temperature=1.0)
    assert prompts_of(echo) == ["a", "a", "a"]
    assert all(
        reply.cached
        for reply in generate_many(llm, ["a", "a", "a"], samples=[2, 1, 0], temperature=1.0)
    )


def test_a_slow_store_changes_no_reply_and_buys_none_again(
    echo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, write = database.read, database.write
    waits = []

    def slowly(work: Any) -> Any:
        def waiting(execute: Any) -> Any:
            waits.append(0.05)
            time.sleep(0.05)
            return work(execute)

        return waiting

    monkeypatch.setattr(database, "read", lambda work, **how: read(slowly(work), **how))
    monkeypatch.setattr(database, "write", lambda work, **how: write(slowly(work), **how))
    prompts = [f"prompt {number}" for number in range(20)]
    for _ in range(2):
        found = generate_many(llms.load_llm("openai:m"), prompts, concurrency=8)
        assert [reply.text for reply in found] == [prompt.upper() for prompt in prompts]
    assert sorted(prompts_of(echo)) == sorted(prompts)
    assert len(waits) > 20


def test_no_prompts_give_no_replies(echo: Any) -> None:
    assert generate_many(llms.load_llm("openai:m"), []) == []


@pytest.mark.parametrize(
    ("prompts", "options", "message"),
    [
        ("one text", {}, "write \\[prompt\\]"),
        (["a"], {"concurrency": 0}, "must be above 0"),
        (["a"], {"max_tokens": 0}, "max_tokens is 0"),
    ],
)
def test_wrong_arguments_are_reported_before_anything_is_sent(
    echo: Any, prompts: Any, options: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        generate_many(llms.load_llm("openai:m"), prompts, **options)
    assert echo.asked == []


# --- errors are records
# ----------------------------------------------------------------------------------------------


def test_a_failed_request_is_a_record_and_the_others_go_on(echo: Any, wire: Any) -> None:
    answer = echo.reply
    refusal = wire.Answered({"error": {"message": "prompt is too long"}}, status=400)
    echo.reply = lambda asked: refusal if "bad" in str(asked.body) else answer(asked)
    found = generate_many(llms.load_llm("openai:m"), ["a", "bad", "c"])
    assert [reply.text for reply in found] == ["A", "", "C"]
    assert found[1].error is not None
    assert found[1].error.startswith("openai:m: the server refuses this request")
    assert found[1].error.endswith("(400: prompt is too long)")
    assert (found[1].model, found[1].cached) == ("openai:m", False)
    assert found[0].error is None


@pytest.mark.parametrize("status", [401, 404])
def test_what_concerns_all_is_not_tried_for_all(echo: Any, wire: Any, status: int) -> None:
    echo.reply = lambda asked: wire.Answered({"error": {"message": "no"}}, status=status)
    found = generate_many(
        llms.load_llm("openai:m"), [f"prompt {i}" for i in range(50)], concurrency=4
    )
    assert 1 <= len(prompts_of(echo)) <= 4
    assert len({reply.error for reply in found}) == 1
    assert f"({status}: no)" in str(found[-1].error)


def test_replies_that_came_before_a_failure_of_all_are_kept(echo: Any, wire: Any) -> None:
    answer = echo.reply
    llm = llms.load_llm("openai:m")
    echo.reply = lambda asked: (
        answer(asked) if len(prompts_of(echo)) <= 3 else wire.Answered(status=401)
    )
    prompts = [f"prompt {i}" for i in range(6)]
    found = generate_many(llm, prompts, concurrency=1)
    assert [reply.error is None for reply in found] == [True, True, True, False, False, False]
    echo.reply = answer
    again = generate_many(llm, prompts, concurrency=1)
    assert [reply.cached for reply in again] == [True, True, True, False, False, False]


def test_when_the_server_asks_to_wait_all_wait(echo: Any, wire: Any) -> None:
    answer, busy = echo.reply, wire.Answered(status=429, headers={"retry-after": "1"})
    times: list[float] = []

    def reply(asked: Any) -> Any:
        times.append(time.monotonic())
        return busy if len(times) == 1 else answer(asked)

    echo.reply = reply
    found = generate_many(llms.load_llm("openai:m"), ["a", "b", "c"], concurrency=1)
    assert [reply.text for reply in found] == ["A", "B", "C"]
    assert times[1] - times[0] >= 1.0


# --- models of the user
# ----------------------------------------------------------------------------------------------


class Own:
    """A model that knows the protocol and no more of it."""

    name = "own:model"

    def generate(
        self,
        prompt: str,
        *,
        system: str | None = None,
        max_tokens: int = 512,
        temperature: float = 0.0,
    ) -> Completion:
        if prompt == "bad":
            raise KeyError("boom")
        return Completion(f"{prompt}|{system}|{max_tokens}|{temperature}", self.name)


def test_any_object_with_generate_will_do() -> None:
    found = generate_many(Own(), ["a", "bad"], system="s", max_tokens=3, temperature=0.5)
    assert found[0].text == "a|s|3|0.5"
    assert (found[1].text, found[1].model, found[1].error) == ("", "own:model", "KeyError: 'boom'")
    assert found[1].failure is FailureKind.ERROR


def test_a_list_of_replies_belongs_to_the_prompts_in_order() -> None:
    llm = ScriptedLLM([str(number) for number in range(50)])
    assert [r.text for r in generate_many(llm, [f"p{i}" for i in range(50)])] == [
        str(number) for number in range(50)
    ]
    assert llm.prompts == [f"p{i}" for i in range(50)]


def test_a_script_that_runs_out_is_an_error() -> None:
    llm = ScriptedLLM([{"a": 1}, Completion("cut", "scripted:test", finish="length")])
    assert llm.generate("x", system="s", schema={}, sample=3).text == '{"a": 1}'
    assert llm.generate("y").finish == "length"
    with pytest.raises(ModelError, match="has 2 replies and was asked 3 times"):
        llm.generate("z")
    assert llm.systems == ["s", None, None]


# --- the store
# -------------------------------------------------------------------------------------------------------


def test_a_reply_is_paid_once_also_by_another_object(echo: Any) -> None:
    first = llms.load_llm("openai:m").generate("a", system="s")
    second = llms.load_llm("openai:m").generate("a", system="s")
    assert len(echo.asked) == 1
    assert (first.cached, second.cached) == (False, True)
    assert first.latency_s > 0
    assert second.latency_s == 0
    assert (first.text, first.input_tokens, first.finish) == (
        second.text,
        second.input_tokens,
        second.finish,
    )


@pytest.mark.parametrize(
    "other",
    [
        {"system": "t"},
        {"system": None},
        {"max_tokens": 99},
        {"temperature": 0.1},
        {"sample": 1},
        {"schema": {}},
    ],
    ids=lambda other: next(iter(other)),
)
def test_each_option_that_changes_the_reply_is_another_request(
    echo: Any, other: dict[str, Any]
) -> None:
    llm = llms.load_llm("openai:m")
    llm.generate("a", system="s")
    assert not llm.generate("a", **{"system": "s", **other}).cached
    assert len(echo.asked) == 2


def test_equal_names_on_two_servers_are_two_models_but_one_cassette(
    echo: Any, loopback: Any, wire: Any, llm_environment: Any
) -> None:
    assert llms.load_llm("openai:default").generate("a").text == "A"
    other = loopback(lambda asked: wire.Answered(wire.openai("another model")))
    llm_environment.setenv("RAG_EVAL_OPENAI_BASE_URL", other.url)
    llm_environment.setenv("RAGBENCH_REPLIES", "offline")
    assert (
        llms.load_llm("openai:default").generate("a").text == "A"
    )  # a colleague has other addresses, or none
    llm_environment.setenv("RAGBENCH_REPLIES", "on")
    assert llms.load_llm("openai:default").generate("a").text == "another model"
    llm_environment.setenv("RAGBENCH_REPLIES", "offline")
    llm_environment.setenv("RAG_EVAL_OPENAI_BASE_URL", "http://elsewhere")
    with pytest.raises(
        ModelError, match="offline"
    ):  # two origins, neither ours: guessing would be a wrong number
        llms.load_llm("openai:default").generate("a")


def test_switched_off_the_store_is_neither_read_nor_written(
    echo: Any, llm_environment: Any, tmp_path: Path
) -> None:
    llm_environment.setenv("RAGBENCH_REPLIES", "off")
    for _ in range(2):
        assert not llms.load_llm("openai:m").generate("a").cached
    assert len(echo.asked) == 2
    assert replies.info()["replies"] == 0


def test_offline_no_request_leaves_and_what_is_missing_is_named(
    echo: Any, llm_environment: Any
) -> None:
    generate_many(llms.load_llm("openai:m"), ["known"])
    llm_environment.setenv("RAGBENCH_REPLIES", "offline")
    llm_environment.delenv(
        "RAG_EVAL_OPENAI_BASE_URL"
    )  # and no key: a colleague with the cassette needs neither
    llm = llms.load_llm("openai:m")
    found = generate_many(llm, ["known", "unknown question"])
    assert (found[0].text, found[0].cached) == ("KNOWN", True)
    assert (
        "openai:m: offline, and the reply store has no reply to the prompt 'unknown question'"
        in str(found[1].error)
    )
    assert [reply.failure for reply in found[:2]] == [None, FailureKind.OFFLINE]
    with pytest.raises(ModelError, match="RAGBENCH_CACHE_DIR"):
        llm.generate("unknown question")
    assert len(echo.asked) == 1
    assert llms.load_llm("anthropic:claude-haiku-4-5").name == "anthropic:claude-haiku-4-5"


def test_where_replies_cannot_be_kept_none_is_bought(
    echo: Any, llm_environment: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    llm_environment.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "file" / "cache"))
    llm = llms.load_llm("openai:m")
    with pytest.raises(ModelError, match="set RAGBENCH_CACHE_DIR"):
        llm.generate("a")
    with pytest.raises(ModelError, match="set RAGBENCH_CACHE_DIR"):
        generate_many(llm, ["a"])
    assert echo.asked == []


def test_a_paid_reply_that_cannot_be_stored_is_given_and_no_more_are_bought(
    echo: Any, tmp_path: Path
) -> None:
    answer = echo.reply

    def reply(asked: Any) -> Any:
        for file in (tmp_path / "cache").glob("replies.sqlite*"):
            file.unlink()
        (tmp_path / "cache" / "replies.sqlite").mkdir()
        return answer(asked)

    echo.reply = reply
    llm = llms.load_llm("openai:m")
    with pytest.warns(RuntimeWarning, match="paid replies are used, but could not be stored"):
        found = generate_many(llm, ["a", "b", "c"], concurrency=1)
    assert [reply.text for reply in found] == ["A", "", ""]
    assert "the reply store" in str(found[2].error)
    assert prompts_of(echo) == ["a"]


def test_replies_on_their_way_when_the_store_breaks_are_given_under_one_warning(
    echo: Any, tmp_path: Path
) -> None:
    answer, together = echo.reply, threading.Barrier(3)
    store = tmp_path / "cache" / "replies.sqlite"

    def reply(asked: Any) -> Any:
        if together.wait(60) == 0:  # all three are sent
            for file in store.parent.glob("replies.sqlite*"):
                file.unlink()
            store.mkdir()
        together.wait(60)
        return answer(asked)

    echo.reply = reply
    llm = llms.load_llm("openai:m")
    with pytest.warns(RuntimeWarning) as shown:
        found = generate_many(llm, ["a", "b", "c", "d"], concurrency=3)
    assert [bool(each.text) for each in found] == [True, True, True, False]
    assert found[3].failure is FailureKind.STORE
    assert len(echo.asked) == 3
    assert ["could not be stored" in str(one.message) for one in shown].count(True) == 1


def test_two_threads_that_ask_the_same_at_once_send_it_once(echo: Any, wire: Any) -> None:
    answer = echo.reply
    echo.reply = lambda asked: wire.Answered(answer(asked).body, delay_s=0.3)
    found: list[Completion] = []
    threads = [
        threading.Thread(target=lambda: found.append(llms.load_llm("openai:m").generate("a")))
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(echo.asked) == 1
    assert sorted(reply.cached for reply in found) == [False, True, True, True, True]


CLIENT = """
import sys
from ragbench.llms import generate_many, load_llm
prompts = [f"prompt {i}" for i in range(int(sys.argv[1]))]
found = generate_many(load_llm("openai:m"), prompts, concurrency=int(sys.argv[2]))
assert [reply.text for reply in found] == [prompt.upper() for prompt in prompts], found
print(sum(reply.cached for reply in found))
"""


def client(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_several_processes_at_once_send_each_request_once(echo: Any, wire: Any) -> None:
    answer = echo.reply
    echo.reply = lambda asked: wire.Answered(answer(asked).body, delay_s=0.02)
    processes = [client(CLIENT, 60, 4) for _ in range(3)]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert sorted(prompts_of(echo)) == sorted(f"prompt {i}" for i in range(60))


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is a Unix thing")
def test_killed_in_the_middle_and_started_again_each_request_is_sent_once(
    echo: Any, wire: Any
) -> None:
    answer = echo.reply
    echo.reply = lambda asked: wire.Answered(answer(asked).body, delay_s=0.05)
    process = client(CLIENT, 100, 8)
    while len(prompts_of(echo)) < 40:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    process.kill()
    process.communicate()
    time.sleep(0.2)
    in_flight = 8
    output, errors = client(CLIENT, 100, 8).communicate(timeout=120)
    assert not errors
    counts = collections.Counter(prompts_of(echo))
    assert len(counts) == 100
    assert counts.total() <= 100 + in_flight
    assert max(counts.values()) <= 2
    assert int(output) >= 40 - in_flight


@pytest.mark.skipif(sys.platform == "win32", reason="signals are a Unix thing")
def test_ctrl_c_ends_at_once_and_keeps_what_came_back(echo: Any, wire: Any) -> None:
    answer = echo.reply
    echo.reply = lambda asked: wire.Answered(
        answer(asked).body, delay_s=0.0 if len(prompts_of(echo)) <= 20 else 20.0
    )
    process = client(CLIENT, 50, 4)
    while len(prompts_of(echo)) < 24:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    time.sleep(0.3)
    start = time.perf_counter()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert time.perf_counter() - start < 15  # the replies take 20 s
    assert "KeyboardInterrupt" in errors
    assert replies.info()["replies"] == 20


def test_a_progress_bar_appears_on_a_terminal_after_two_seconds_only(
    echo: Any, wire: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    llm = llms.load_llm("openai:m")
    generate_many(llm, ["a"], label="judging")
    assert capsys.readouterr().err == ""
    answer = echo.reply
    echo.reply = lambda asked: wire.Answered(answer(asked).body, delay_s=1.2)
    generate_many(llm, ["b", "c", "d"], label="judging", concurrency=1)
    assert "judging" in capsys.readouterr().err


# --- cost
# ------------------------------------------------------------------------------------------------------------


def test_a_dry_run_counts_without_sending(echo: Any, llm_environment: Any) -> None:
    llm = llms.load_llm("openai:gpt-4o-mini")
    generate_many(llm, ["known"], max_tokens=100)
    asked = len(echo.asked)
    with llms.dry_run() as plan:
        replies = generate_many(llm, ["known", "x" * 4_000, "x" * 4_000], max_tokens=100)
        again = generate_many(llm, ["x" * 4_000], max_tokens=100)
        llm.generate("x" * 4_000, max_tokens=100)
        generate_many(llms.load_llm("openai:mine"), ["a"])
        threading.Thread(
            target=lambda: generate_many(llms.load_llm("openai:thread"), ["a"])
        ).start()
        while len(plan.models) < 3:
            time.sleep(0.01)
    priced, unpriced, thread = plan.models
    assert (priced.model, unpriced.model, thread.model) == (
        "openai:gpt-4o-mini",
        "openai:mine",
        "openai:thread",
    )
    # One prompt of 4,000 bytes is about 1,000 tokens: 1000 * 0.15 / 1e6 + 100 * 0.60 / 1e6 dollars.
    assert (priced.cached, priced.to_send, priced.input_tokens, priced.max_output_tokens) == (
        1,
        1,
        1000,
        100,
    )
    assert priced.max_cost == pytest.approx(0.00021)
    assert (unpriced.cost, unpriced.max_cost) == (None, None)
    assert plan.table["max_cost"].tolist()[1] == "unknown"
    assert [reply.failure for reply in replies] == [None, FailureKind.DRY_RUN, FailureKind.DRY_RUN]
    assert replies[1].text == again[0].text
    assert len(echo.asked) == asked
    generate_many(llm, ["after"])
    assert len(echo.asked) == asked + 1


def test_without_the_store_each_call_of_a_dry_run_counts(echo: Any) -> None:
    llm = llms.load_llm("openai:m", llms.Settings(replies="off"))
    with llms.dry_run() as plan:
        for _ in range(2):
            generate_many(llm, ["a", "a", "b"])
    assert [model.to_send for model in plan.models] == [4]


def test_a_dry_run_inside_another_is_refused(echo: Any) -> None:
    with llms.dry_run(), pytest.raises(ConfigError, match="already"), llms.dry_run():
        pass
    with llms.dry_run() as plan:
        assert plan.models == ()


def test_settings_that_are_given_go_before_those_of_the_environment(
    echo: Any, llm_environment: Any, tmp_path: Path
) -> None:
    priced(tmp_path, llm_environment, "0")
    given = llms.current_settings(max_cost=5, account="not this one")
    assert (given.max_cost, given.budget) == (5.0, "sweep 1")
    assert llms.load_llm("openai:m", given).generate("a", max_tokens=10).text == "A"
    with pytest.raises(ModelError) as caught:
        llms.load_llm("openai:m").generate("b", max_tokens=10)
    assert caught.value.failure is FailureKind.BUDGET
    for name, value in {**given.environment, "RAGBENCH_ALLOW_UNPRICED": "1"}.items():
        llm_environment.setenv(name, value)
    assert llms.current_settings() == dataclasses.replace(given, allow_unpriced=True)


def priced(tmp_path: Path, environment: Any, maximum: str) -> None:
    """1,000 dollars per million tokens, so 0.001 per token: one reply of 11 + 7 tokens is 0.018."""
    (tmp_path / "prices.toml").write_text(
        'checked = 2026-01-01\n[models]\n"openai:m" = { input = 1000, output = 1000 }'
    )
    environment.setenv("RAGBENCH_PRICES", str(tmp_path / "prices.toml"))
    environment.setenv("RAGBENCH_MAX_COST", maximum)
    environment.setenv("RAGBENCH_BUDGET", "sweep 1")


def test_the_budget_is_never_passed_and_going_on_is_possible(
    echo: Any, llm_environment: Any, tmp_path: Path
) -> None:
    # A request may cost 1000 (around) + 8 (prompt) + 10 (max_tokens) tokens: 1.018. It does cost
    # 0.018.
    priced(tmp_path, llm_environment, "1.10")
    llm, prompts = llms.load_llm("openai:m"), [f"prompt {i}" for i in range(10)]
    found = generate_many(llm, prompts, max_tokens=10, concurrency=4)
    # Sent as long as spent + 1.018 <= 1.10: after 0, 0.018, 0.036, 0.054, 0.072 dollars.
    assert len(echo.asked) == 5
    assert sum(reply.error is None for reply in found) == 5
    refused = [reply for reply in found if reply.error]
    assert all(
        str(reply.error).startswith("budget: openai:m may cost 1.0180 dollars") for reply in refused
    )
    assert {reply.failure for reply in refused} == {FailureKind.BUDGET}
    assert budgets.spent("sweep 1").settled == pytest.approx(0.09)
    assert budgets.spent("sweep 1").open == 0.0
    llm_environment.setenv("RAGBENCH_MAX_COST", "5")
    again = generate_many(llm, prompts, max_tokens=10)
    assert all(reply.error is None for reply in again)
    assert len(echo.asked) == 10
    assert budgets.spent("sweep 1").settled == pytest.approx(0.18)


def test_what_is_in_the_store_costs_nothing_of_the_budget(
    echo: Any, llm_environment: Any, tmp_path: Path
) -> None:
    generate_many(llms.load_llm("openai:m"), ["a", "b"])
    priced(tmp_path, llm_environment, "0")
    found = generate_many(llms.load_llm("openai:m"), ["a", "b", "new"])
    assert [reply.error is None for reply in found] == [True, True, False]
    assert len(echo.asked) == 2


def test_a_request_that_was_refused_costs_nothing_and_one_that_was_cut_all_it_may(
    echo: Any, wire: Any, llm_environment: Any, tmp_path: Path
) -> None:
    priced(tmp_path, llm_environment, "100")
    answer = echo.reply
    echo.reply = lambda asked: wire.Answered(status=400)
    llm = llms.load_llm("openai:m")
    with pytest.raises(ModelError):
        llm.generate("prompt 1", max_tokens=10)
    assert budgets.spent("sweep 1") == (0.0, 0.0, 0.0)
    left = [wire.Answered(b"{", cut_after=0)]
    echo.reply = lambda asked: left.pop() if left else answer(asked)
    llm.generate("prompt 1", max_tokens=10)
    assert budgets.spent("sweep 1").settled == pytest.approx(1.018 + 0.018)


def test_without_a_price_nothing_is_sent_under_a_budget(echo: Any, llm_environment: Any) -> None:
    llm = llms.load_llm("openai:m")
    llm_environment.setenv("RAGBENCH_MAX_COST", "5")
    with pytest.raises(ConfigError, match="the price of openai:m is unknown"):
        generate_many(llm, ["a"])
    with pytest.raises(ConfigError, match="RAGBENCH_PRICES"):
        llm.generate("a")
    assert echo.asked == []


def test_a_local_model_is_free_under_any_budget(
    loopback: Any, wire: Any, llm_environment: Any
) -> None:
    server = loopback(lambda asked: wire.Answered(wire.ollama("Hello.")))
    llm_environment.setenv("RAG_EVAL_OLLAMA_BASE_URL", server.url)
    llm_environment.setenv("RAGBENCH_MAX_COST", "0")
    reply = llms.load_llm("ollama:m").generate("a")
    assert llms.cost_of(reply) == 0.0


def test_processes_share_one_budget(echo: Any, llm_environment: Any, tmp_path: Path) -> None:
    priced(tmp_path, llm_environment, "1.10")
    code = (
        "import os; from ragbench.llms import generate_many, load_llm;"
        "found = generate_many(load_llm('openai:m'), [f'{os.getpid()} {i}' for i in range(8)], "
        "max_tokens=10);print(sum(reply.error is None for reply in found))"
    )
    outputs = [process.communicate(timeout=60) for process in [client(code) for _ in range(3)]]
    assert sum(int(output) for output, _ in outputs) == len(echo.asked)
    spent = budgets.spent("sweep 1").settled
    assert spent == pytest.approx(0.018 * len(echo.asked))
    assert 4 <= len(echo.asked) <= 6
    assert spent <= 1.10
    assert os.environ["RAGBENCH_BUDGET"] == "sweep 1"
