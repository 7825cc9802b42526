"""Calls in threads that are used again."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest

from ragbench import threads
from ragbench.progress import ThreadedCalls
from ragbench.threads import run_in_thread

SEEN: ContextVar[int] = ContextVar("SEEN", default=0)


def test_a_thread_serves_many_calls_and_no_call_sees_the_context_of_another() -> None:
    idents = set()
    seen = []

    def call(number: int) -> None:
        idents.add(threading.get_ident())
        seen.append(SEEN.get())
        SEEN.set(number)

    for number in range(1, 101):
        list(ThreadedCalls([number], call, at_once=1, name="served"))
    assert seen == [0] * 100
    assert len(idents) < 50, "most calls found a thread that waits"


def test_calls_that_wait_for_each_other_each_have_a_thread() -> None:
    barrier = threading.Barrier(40)
    outcomes = list(ThreadedCalls(range(40), lambda _: barrier.wait(20), at_once=40, name="b"))
    assert sorted(place for _, place in outcomes) == list(range(40))  # type: ignore[type-var]


def test_a_thread_without_work_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_IDLE_S", 0.01)
    workers = []
    known = threading.Event()

    def call() -> None:
        workers.append(threading.current_thread())
        known.set()

    threads._idle.cache_clear()
    run_in_thread(call)
    known.wait()
    workers[0].join(20)
    assert not workers[0].is_alive()
    assert not threads._idle(os.getpid())


FORK = """
import os
from ragbench.progress import ThreadedCalls
list(ThreadedCalls([1, 2], lambda number: number, at_once=2, name="parent"))
child = os.fork()
outcomes = list(ThreadedCalls([3], lambda number: number + 1, at_once=1, name="child"))
assert outcomes == [(3, 4)]
if child:
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_begins_threads_of_its_own() -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], check=True, timeout=120)
