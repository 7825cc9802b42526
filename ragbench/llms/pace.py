"""The pace of one server: how many requests it is sent at a time, fewer after an overload, and how
long a reply may take before it counts as lost.

A server with two slots works on two of eight requests, and the others wait in its queue. That wait
is not the server's failure: a request may take its time limit once for itself and once for each
request that is on its way with it, so that nothing that the server has begun is cut off. Two
things are noticed sooner. A request was lost where many replies to other requests came, so that its
turn must have passed, and then nothing within the limit. A server is dead where nothing at all came
within twice the limit.

After a time-out, or a status that means one, half as many requests are sent at a time, down to one;
each reply that comes within half of the limit allows one more.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ragbench.errors import FailureKind
from ragbench.llms.failures import RequestError
from ragbench.network import given_up_if

_SILENT = 5  # time-outs in a row, after which every other request would fail alike
_OVERLOADED = {408, 503, 504, 529}  # 529: Anthropic's status of an overload


class Pace:
    """The requests that are on their way to one server; all threads that ask it share one."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition()
        self._at_once = math.inf
        self._turns: set[_Turn] = set()
        self._last_reply = -math.inf
        self._timeouts_in_row = 0

    @contextmanager
    def turn(self, timeout_s: float, stop: threading.Event, n_at_once: int = 1) -> Iterator[float]:
        """Wait until one more request may be sent, and yield the seconds that it may take: `timeout_s`
        for itself and for each request that is before it in the server's queue.

        The request is sent inside the `with` block. It fails sooner, by a time-out, once no reply can be
        expected any more (`_is_lost`).

        Args:
            timeout_s: the seconds that the server may work on the request.
            stop: ends the waiting when it is set.
            n_at_once: the number of requests that are sent together, with this one.

        Raises:
            RequestError: the request failed; after a time-out the message states how many other requests
                were in the queue.
            InterruptedError: `stop` is set.
        """
        turn = self._begin(timeout_s, stop, n_at_once)
        failure: RequestError | None = None
        try:
            # ends the request with a time-out as soon as the condition holds
            with given_up_if(lambda: self._is_lost(turn)):
                yield turn.allowed_s
        except RequestError as exc:
            failure = self._note_failure(turn, exc)
        else:
            self._note_reply(turn)
        finally:
            with self._changed:
                self._turns.discard(turn)
                self._changed.notify_all()
        if failure is not None:
            raise failure

    def _begin(self, timeout_s: float, stop: threading.Event, n_at_once: int = 1) -> _Turn:
        """Wait until fewer requests than allowed are on their way, and return a new turn, the
        record of one request.

        Raises InterruptedError once `stop` is set.
        """
        with self._changed:
            while len(self._turns) >= self._at_once and not stop.is_set():
                self._changed.wait(0.2)
            if stop.is_set():
                raise InterruptedError("stopped")
            # any of the requests that are sent together may be served before this one
            turn = _Turn(timeout_s, max(len(self._turns), n_at_once - 1))
            self._turns.add(turn)
            return turn

    def _is_lost(self, turn: _Turn) -> bool:
        """Return True if no reply to a request can be expected any more.

        The server has sent no reply to any request for twice the time-out; or it certainly began to
        work on this request (see `_note_reply`) longer ago than the time-out. False for a request that
        is sent alone, for which the time-out of the HTTP client decides.
        """
        now = time.monotonic()
        if turn.n_others == 0:
            return False
        with self._changed:
            silent_since = max(self._last_reply, turn.sent_at)
            is_server_dead = now - silent_since > 2 * turn.timeout_s
            is_overdue = now - turn.certainly_begun_at > turn.timeout_s
            return is_server_dead or is_overdue

    def _note_reply(self, turn: _Turn) -> None:
        """Note that a reply came: after a fast one, allow one more request at a time. Note for each other
        request (`_Turn`) whether the server must have begun to work on it.

        A server has a queue, and does not report when it begins to work on a request. It must have begun
        with a request once it has replied to twice as many others (`n_replies`) as were in the queue
        before it (`n_others`). For a request without others this time is not needed (`_is_lost`).
        """
        now = time.monotonic()
        with self._changed:
            self._last_reply = now
            self._timeouts_in_row = 0
            is_fast = now - turn.sent_at < turn.timeout_s / 2
            if is_fast:
                self._at_once += 1
            for other in self._turns:
                other.n_replies += 1
                # twice, as a server need not keep to the order of its queue
                if other.n_replies == 2 * other.n_others:
                    other.certainly_begun_at = now

    def _note_failure(self, turn: _Turn, exc: RequestError) -> RequestError:
        """Note that a request failed: after a time-out, or if the server is overloaded, allow half as many
        requests at a time.

        Return the failure to report: for a time-out without a reply one whose message counts the other
        requests, else `exc`.
        """
        if exc.failure is not FailureKind.TIMEOUT and exc.status not in _OVERLOADED:
            return exc
        with self._changed:
            self._halve_requests_at_once(turn)
            is_reply = exc.status != 0  # the server itself reports the time-out or the overload
            if is_reply:
                self._last_reply = time.monotonic()
                return exc
            self._timeouts_in_row += 1
            n_in_row = self._timeouts_in_row
        return self._explained_timeout(turn, exc, n_in_row)

    def _halve_requests_at_once(self, turn: _Turn) -> None:
        """Halve the number of requests at a time after the failure of a request (`turn`), once for all
        requests that were on their way together: the failures of the others tell nothing about the
        lower number.
        """
        if turn.is_before_cut:  # the number was halved after this request was sent
            return
        self._at_once = max(1, len(self._turns) // 2)
        for other in self._turns:
            other.is_before_cut = True

    def _explained_timeout(self, turn: _Turn, exc: RequestError, n_in_row: int) -> RequestError:
        """Return the error of a time-out with a message that states how many other requests were in
        the queue.

        After `_SILENT` time-outs in a row the server is taken for dead: the error states that every
        other request would fail alike.
        """
        words = f"no reply within {turn.timeout_s:g} s"
        advice = "raise timeout_s or ask for less"
        if turn.n_others:
            words += f" next to {turn.n_others} others"
        is_dead = n_in_row >= _SILENT
        if is_dead:
            words += f", nor to any of {n_in_row} requests in a row"
            advice = "raise timeout_s, or run again once the server answers"
        return exc.reworded(
            f"{self._name}: {words}; {advice}", concerns_all=exc.concerns_all or is_dead
        )


class _Turn:
    """A request that is on its way to the server.

    Attributes:
        timeout_s: the seconds that the server may work on the request.
        n_others: how many requests were on their way before it or together with it.
        allowed_s: the seconds that its reply may take if the server works on all of them in turn.
        sent_at: when it was sent, by `time.monotonic`.
        n_replies: the number of replies to other requests since then.
        certainly_begun_at: when these replies were so many that the server must have begun with this
            request; infinite before.
        is_before_cut: True if it was on its way when the number of requests at a time was last
            halved; a time-out of such a request does not halve it again.
    """

    def __init__(self, timeout_s: float, n_others: int) -> None:
        """Note a request that is sent now; the class explains the attributes."""
        self.timeout_s = timeout_s
        self.n_others = n_others
        self.allowed_s = timeout_s * (1 + n_others)
        self.sent_at = time.monotonic()
        self.n_replies = 0
        self.certainly_begun_at = math.inf
        self.is_before_cut = False
