"""Calls in daemon threads, which are used again: a new thread for each request costs a fifth of the
request, and begins only after the threads that compute.
"""

import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context
from functools import lru_cache

_IDLE_S = 10.0  # a thread without work ends after this time

_Tasks = queue.SimpleQueue[Callable[[], object]]


def run_in_thread(call: Callable[[], object]) -> None:
    """Begin a call in a daemon thread and return at once; a call that hangs does not keep the process
    alive.

    The call has no context variables of its caller or of earlier calls, and must handle its own
    exceptions.

    >>> done = threading.Event()
    >>> run_in_thread(done.set)
    >>> done.wait()
    True
    """
    idle = _idle(os.getpid())  # the queues of threads that wait for a call
    try:
        tasks = idle.pop()
    except IndexError:  # all threads are busy: start another one
        tasks = _Tasks()
        threading.Thread(target=_run_calls, args=(tasks, idle), daemon=True).start()
    tasks.put(call)


@lru_cache(maxsize=2)
def _idle(process: int) -> deque[_Tasks]:
    """Return the task queues of the threads of a process that wait for work; a fork has none of them."""
    return deque()


def _run_calls(tasks: _Tasks, idle: deque[_Tasks]) -> None:
    """Run the calls that come into a queue, one after the other, until none has come for `_IDLE_S`. This
    is what each thread does. A call must not raise: its thread would end.

    Args:
        tasks: the queue of the thread. A new thread's queue is not in `idle`, as its first call comes
            at once.
        idle: the queues of threads that wait. `tasks` is added to them after each call;
            `run_in_thread` takes a queue out before it puts a call into it.
    """
    while True:
        try:
            call = tasks.get(timeout=_IDLE_S)
        except queue.Empty:
            try:
                idle.remove(tasks)
            except (
                ValueError
            ):  # not in it: `run_in_thread` has just taken the queue, and a call comes
                continue
            return
        Context().run(call)
        del call  # its references must not live until the next call
        idle.append(tasks)
