"""A slow server: its queue is no failure, it gets fewer requests after time-outs, and what it has
begun is not thrown away.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from ragbench import llms
from ragbench.errors import FailureKind
from ragbench.llms.failures import RequestError
from ragbench.llms.pace import Pace


class Slots:
    """A local server that works on `n` requests at a time, each for `seconds`; others wait."""

    def __init__(self, wire: Any, n: int, seconds: float) -> None:
        self._wire, self._seconds = wire, seconds
        self._slots, self._lock = threading.BoundedSemaphore(n), threading.Lock()
        self.at_once, self.most_at_once, self.waiting_most, self._waiting = 0, 0, 0, 0

    def __call__(self, asked: Any) -> Any:
        with self._lock:
            self._waiting += 1
            self.waiting_most = max(self.waiting_most, self._waiting)
        with self._slots:
            time.sleep(self._seconds)
        with self._lock:
            self._waiting -= 1
        return self._wire.Answered(self._wire.openai("Yes."))


@pytest.fixture
def local(loopback: Any, llm_environment: Any) -> Any:
    def start(reply: Any) -> Any:
        server = loopback(reply)
        llm_environment.setenv("RAG_EVAL_OPENAI_BASE_URL", server.url)
        llm_environment.setenv("RAG_EVAL_OPENAI_API_KEY", "k")
        return llms.load_llm("openai:m"), server

    return start


def test_the_queue_of_a_server_with_two_slots_is_no_failure(wire: Any, local: Any) -> None:
    """The last of eight requests waits for four times its limit."""
    llm, server = local(Slots(wire, 2, 0.4))
    prompts = [f"Question {number}?" for number in range(15)]
    replies = llms.generate_many(llm, prompts, concurrency=8, timeout_s=0.6)
    assert [reply.error for reply in replies] == [None] * 15
    assert len(server.asked) == 15, "nothing was cancelled and sent again"


@pytest.mark.parametrize("concurrency", [1, 2, 64])
def test_one_slot_answers_all_at_any_concurrency(wire: Any, local: Any, concurrency: int) -> None:
    llm, server = local(Slots(wire, 1, 0.05))
    prompts = [f"Question {number}?" for number in range(30)]
    replies = llms.generate_many(llm, prompts, concurrency=concurrency, timeout_s=0.5)
    assert {reply.error for reply in replies} == {None}
    assert len(server.asked) == 30


def test_a_reply_longer_than_the_limit_is_still_a_timeout(wire: Any, local: Any) -> None:
    llm, _ = local(Slots(wire, 2, 1.5))
    [reply] = llms.generate_many(llm, ["Hi?"], timeout_s=0.2)
    assert "no reply within 0.2 s after 2 tries; raise timeout_s" in str(reply.error)


def test_a_server_that_never_replies_ends_the_whole_call(wire: Any, local: Any) -> None:
    release = threading.Event()

    def silent(asked: Any) -> Any:
        release.wait(60)
        return wire.Answered(wire.openai("Too late."))

    llm, server = local(silent)
    prompts = [f"Question {number}?" for number in range(40)]
    replies = llms.generate_many(llm, prompts, concurrency=8, timeout_s=0.3)
    release.set()
    assert all("no reply within 0.3 s" in str(reply.error) for reply in replies)
    assert "requests in a row" in str(replies[-1].error)
    assert len(server.asked) < 30, "the rest was not sent"


def test_a_lost_request_does_not_hold_up_the_others_and_is_sent_again(
    wire: Any, local: Any
) -> None:
    release, n_of_first = threading.Event(), [0]

    def loses_the_fifth(asked: Any) -> Any:
        if "Question 5?" in str(asked.body):
            n_of_first[0] += 1
            if n_of_first[0] == 1:
                release.wait(60)
        time.sleep(0.02)
        return wire.Answered(wire.openai("Yes."))

    llm, server = local(loses_the_fifth)
    prompts = [f"Question {number}?" for number in range(60)]
    replies = llms.generate_many(llm, prompts, concurrency=8, timeout_s=0.5)
    release.set()
    assert {reply.error for reply in replies} == {None}
    assert len(server.asked) == 61


def test_a_timeout_halves_the_pace_and_quick_replies_raise_it() -> None:
    pace, stop = Pace("m"), threading.Event()
    turns = [pace._begin(10, stop) for _ in range(8)]
    late = pace._note_failure(turns[7], RequestError("m: late", FailureKind.TIMEOUT))
    assert "no reply within 10 s next to 7 others" in str(late)
    assert pace._at_once == 4
    pace._note_failure(turns[6], RequestError("m: late", FailureKind.TIMEOUT))
    assert pace._at_once == 4, "one cut for all that were on their way"
    pace._note_reply(turns[0])
    assert pace._at_once == 5
    turns[1].sent_at -= 6
    pace._note_reply(turns[1])
    assert pace._at_once == 5, "a slow reply is no reason for more"


@pytest.mark.parametrize(
    ("failure", "status", "at_once"),
    [
        (FailureKind.SERVER_ERROR, 503, 4),
        (FailureKind.SERVER_ERROR, 504, 4),
        (FailureKind.SERVER_ERROR, 529, 4),
        (FailureKind.SERVER_ERROR, 500, float("inf")),
        (FailureKind.RATE_LIMITED, 429, float("inf")),
        (FailureKind.UNREADABLE, 0, float("inf")),
    ],
)
def test_only_an_overload_lowers_the_pace(
    failure: FailureKind, status: int, at_once: float
) -> None:
    pace, stop = Pace("m"), threading.Event()
    turns = [pace._begin(10, stop) for _ in range(8)]
    pace._note_failure(turns[0], RequestError("m: x", failure, status=status))
    assert pace._at_once == at_once


def test_requests_of_several_calls_share_the_pace_of_a_model() -> None:
    pace = Pace("m")
    pace._at_once = 2
    stop, order = threading.Event(), []

    def work(number: int) -> None:
        with pace.turn(5, stop):
            order.append(len(pace._turns))
            time.sleep(0.05)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert max(order) <= 2
