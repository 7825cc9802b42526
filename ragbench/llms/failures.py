"""Why a request failed, how often it is sent again, and how long to wait before, for all providers
and systems under test; also which names and values are secrets.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

from pydantic import BaseModel

from ragbench.errors import FailureKind, ModelError, abridged
from ragbench.network import OutOfBoundsError

T = TypeVar("T")
Form = TypeVar("Form", bound=BaseModel)

MIN_SECRET = 6
"""Characters of the shortest secret: "1" and "true" are in every text."""

SECRET_WORDS = (
    r"(?:^|_)(?:token|secrets?|password|passwd|passphrase|pwd|cookie|authorization|credentials?|bearer|jwt"
    r"|(?:api|access|private|secret|subscription|license|auth)_?keys?)"
)
"""The end of the name of a field or a variable that holds a secret, in snake case."""

GENERATED = re.compile(r"(?=.*[A-Za-z])(?=.*\d)[\w~+/.=!$%&*#-]{8,}")
"""A value that looks like a generated key, unlike "ollama" and "not-needed"."""

_SECRET_VARIABLE = re.compile(f"{SECRET_WORDS}(?:_|$)|key$|(?:^|_)(?:auth|pass)(?:_|$)")

_LONGEST_BODY = 300
_LONGEST_PAUSE_S = 600.0
_LONGEST_BACKOFF_S = 30.0
_BUSY = {429, 503, 529}
_PASSING = {408, 409}  # a time-out of the server, a conflict
_REFUSED_FOR_ALL = {401, 402, 403, 404}  # the key, the account, the model or the address is wrong
_TRIES = 5
_TRIES_IF_BUSY = 8
# A client that gets a waiting time may get it many times: others are in the same queue.
_TRIES_IF_ASKED_TO_WAIT = 30
_KINDS_BY_STATUS = {
    408: FailureKind.TIMEOUT,
    409: FailureKind.REFUSED,
    429: FailureKind.RATE_LIMITED,
}
# Providers report exhausted credit with the status of a bad or of a too frequent request; waiting
# does not help.
_NO_MONEY = ("insufficient_quota", "credit balance", "billing_hard_limit")


class RequestError(ModelError):
    """A request without a reply; `failure` is its kind.

    Attributes:
        status: the HTTP status, 0 without one.
        body: the text that the server sent, "" without one.
        max_tries: how often the request may be sent in all; 1 means never again.
        wait_s: the seconds that the server asks to wait; None if it does not.
        concerns_all: True if every other request to this model would fail for the same reason.
        may_be_paid: True if the server may have done the work, and charge for it.
    """

    def __init__(
        self,
        message: str,
        failure: FailureKind | None = FailureKind.ERROR,
        *,
        status: int = 0,
        body: str = "",
        max_tries: int = 1,
        wait_s: float | None = None,
        concerns_all: bool = False,
        may_be_paid: bool = False,
    ) -> None:
        """Make a failure; the class explains its attributes."""
        super().__init__(message, failure)
        self.status = status
        self.body = body
        self.max_tries = max_tries
        self.wait_s = wait_s
        self.concerns_all = concerns_all
        self.may_be_paid = may_be_paid

    def reworded(self, message: str, **fields: Any) -> RequestError:
        """Return the same failure with another message, and other values of these fields."""
        again = RequestError(message)
        # the fields of this failure, then the given ones in their place
        again.__dict__ |= self.__dict__ | fields
        return again


def unreadable(name: str, body: str) -> RequestError:
    """Return the failure of a reply of another form than the provider's interface promises: half a
    body, a proxy's error page. The same request would be paid for again and end alike.
    """
    return RequestError(
        f"{name}: the server's reply cannot be read: {server_message(body)!r}",
        FailureKind.UNREADABLE,
        may_be_paid=True,
        body=body,
    )


class Reader:
    """Reads the replies of one provider; `clean` leaves its secrets out."""

    def __init__(self, name: str, secrets: tuple[str, ...]) -> None:
        self.name = name
        self.secrets = secrets

    def clean(self, text: str) -> str:
        """Return the text without the secrets."""
        return scrubbed(text, self.secrets)

    def parse_reply(self, form: type[Form], text: str) -> Form:
        """Return the JSON of a paid reply in its documented form; raises RequestError if it has
        another form.
        """
        with suppress(ValueError, RecursionError):
            # Some servers begin with a byte order mark.
            return form.model_validate(json.loads(text.removeprefix("\ufeff")))
        # out here: the parser's error holds the whole body, so it must not be this one's context
        raise unreadable(self.name, self.clean(text))

    def refused(
        self, status: int, body: str, headers: Mapping[str, str], hints: Mapping[int, str]
    ) -> RequestError:
        """Return the error for a reply with the HTTP status of a failure.

        It is one of three: no credit is left; the server is busy or broken (tried again); the server
        refuses the request (never tried again).

        Args:
            status, body, headers: the reply of the server.
            hints: status -> the advice for it; other statuses get "the server refuses".
        """
        body = self.clean(body)
        words = server_message(body)
        detail = f"{status}: {words}" if words else str(status)
        # No credit is left: waiting does not help, whatever the status.
        if any(mark in body for mark in _NO_MONEY):
            return RequestError(
                f"{self.name}: no credit is left ({detail}); pay in, or name another model",
                FailureKind.REFUSED,
                concerns_all=True,
            )
        # The server is busy or broken: that may pass. (501 means that it lacks a feature.)
        is_broken = status >= 500 and status != 501
        if status in _BUSY or status in _PASSING or is_broken:
            wait_s = _retry_after(headers.get("retry-after"))
            return RequestError(
                f"{self.name}: {detail}",
                _KINDS_BY_STATUS.get(status, FailureKind.SERVER_ERROR),
                status=status,
                max_tries=_tries_after(status, wait_s),
                wait_s=wait_s,
            )
        # The server refuses this request, or all with this key, model or address.
        concerns_all_requests = status in _REFUSED_FOR_ALL
        hint = "the server refuses"
        if not concerns_all_requests:
            hint += " this request: check its length, max_tokens and temperature"
        return RequestError(
            f"{self.name}: {hints.get(status, hint)} ({detail})",
            FailureKind.REFUSED,
            status=status,
            body=body,
            concerns_all=concerns_all_requests,
        )

    def failure_of(
        self, exc: Exception, address: str, timeout_s: float, way_out: str
    ) -> RequestError:
        """Return the failure behind an error of httpx, of httpx2 (its successor) or of our bounds on replies.

        Args:
            exc: the error.
            address: of the server.
            timeout_s: the time that the request had.
            way_out: what to do if no server answers, for the message.
        """
        reason = self.clean(str(exc) or type(exc).__name__)
        if isinstance(exc, OutOfBoundsError):
            return _failure_out_of_bounds(exc.failure, reason)
        # by name, as httpx and httpx2 have different classes
        class_names = {class_.__name__ for class_ in type(exc).__mro__}
        if class_names & {"ConnectError", "ConnectTimeout"}:
            return RequestError(
                f"{self.name}: no server answers at {self.clean(address)} ({reason}); {way_out}",
                FailureKind.UNREACHABLE,
                max_tries=4,  # nothing was paid, and the server may be starting
                concerns_all=True,
            )
        # From here on the server may have done the work, so the request is sent only once more.
        if "TimeoutException" in class_names:
            return RequestError(
                f"{self.name}: no reply within {timeout_s:g} s; raise timeout_s or ask for less",
                FailureKind.TIMEOUT,
                max_tries=2,
                may_be_paid=True,
            )
        return RequestError(
            f"{self.name}: the connection was cut ({reason})",
            FailureKind.DISCONNECTED,
            max_tries=2,
            may_be_paid=True,
        )


def _tries_after(status: int, wait_s: float | None) -> int:
    """Return how often a request is sent in all if the server replies with a status that may pass.

    `wait_s` is the time that the server asks to wait; None if it does not.
    """
    if status not in _BUSY:
        return _TRIES
    return _TRIES_IF_BUSY if wait_s is None else _TRIES_IF_ASKED_TO_WAIT


def _failure_out_of_bounds(kind: FailureKind | None, reason: str) -> RequestError:
    """Return the failure of a reply that our bounds did not let through."""
    if kind is FailureKind.REFUSED:  # a redirect to another host: not paid, and the same for all
        return RequestError(reason, kind, concerns_all=True)
    # A late reply is asked for once more; one that was too large would be as large again.
    max_tries = 2 if kind is FailureKind.TIMEOUT else 1
    return RequestError(reason, kind, max_tries=max_tries, may_be_paid=True)


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """Return a text (an error, a line of a log) with each key replaced by ***, also in the forms in which
    JSON, URLs and their queries write it.

    A key of fewer than 6 characters ("1", "none", as local servers take them) is a word, and stays.
    Replies are never passed through this function: a system's words are not changed.

    >>> scrubbed("Incorrect API key: sk-123", ["sk-123"]), scrubbed("404: no page 1", ["1"])
    ('Incorrect API key: ***', '404: no page 1')
    """
    for secret in tuple(secrets):  # another thread may add to them
        if len(secret) < MIN_SECRET:
            continue
        # as the body of a request, an address or a query would show it
        in_json = json.dumps(secret)[1:-1]
        forms = {secret, in_json, quote(secret, safe=""), quote(secret), quote_plus(secret)}
        for form in forms:
            text = text.replace(form, "***")
    return text


def is_secret(variable: str, value: str) -> bool:
    """Return True if a variable of this name holds a secret, or a value may be an address with a
    password; never for a value of fewer than 6 characters.
    """
    if len(value) < MIN_SECRET:
        return False
    return "@" in value or _SECRET_VARIABLE.search(snake_case(variable)) is not None


def environment_keys() -> tuple[str, ...]:
    """Return the keys that the environment holds and that look generated: no page shows them."""
    keys = []
    for variable, value in os.environ.items():
        if GENERATED.fullmatch(value) and is_secret(variable, value):
            keys.append(value)
    return tuple(keys)


def snake_case(name: str) -> str:
    """Write "apiKey" and "X-Api-Key" as "api_key" and "x_api_key"."""
    with_borders = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^a-z0-9]+", "_", with_borders.lower())


def server_message(body: str) -> str:
    """Return the server's own message if its body has one, else the body; on one line, abridged.

    >>> server_message('{"error": {"message": "no such model"}}'), server_message("Bad gateway")
    ('no such model', 'Bad gateway')
    """
    message = body
    with suppress(ValueError, RecursionError, AttributeError):  # the body has another form
        content = json.loads(body)
        error = content.get("error", content)
        stated = error.get("message") if isinstance(error, dict) else error
        if isinstance(stated, str):
            message = stated
    return abridged(" ".join(message.split()), _LONGEST_BODY)


def _retry_after(value: str | None) -> float | None:
    """Return how many seconds the value of a Retry-After header asks to wait: a number, or a date until
    which to wait. None for other texts, and for the past. `RetryPolicy` bounds the seconds.

    >>> _retry_after("1.5"), _retry_after("-5"), _retry_after("soon"), _retry_after("inf")
    (1.5, None, None, inf)
    >>> _retry_after("Fri, 31 Dec 9999 23:59:59 GMT") > 1e9
    True
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = _seconds_until(value)  # NaN for a text that is not a date
    is_wait = seconds >= 0  # False for NaN
    return seconds if is_wait else None


def _seconds_until(date: str) -> float:
    """Return the seconds until a date in the form of HTTP; NaN for any other text."""
    try:
        moment = parsedate_to_datetime(date)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return moment.timestamp() - time.time()
    except (ValueError, OverflowError):
        return math.nan


class RetryPolicy:
    """How long one server wants to be left alone; all threads that ask it share one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._not_before = 0.0

    def run(
        self,
        send: Callable[[], T],
        stop: threading.Event,
        *,
        advice: str = "",
        max_tries: float = math.inf,
    ) -> T:
        """Return the result of `send()`; after a RequestError, wait and call it again, as often as the
        error's `max_tries` allows.

        Args:
            send: sends the request.
            stop: ends the waiting when it is set.
            advice: how to continue later, for the message of the last failure.
            max_tries: the number of calls at most, also if the error allows more.

        Raises:
            RequestError: the last call failed, or the server asks for too long a wait.
            InterruptedError: `stop` is set.
        """
        tried = 0
        while True:
            self._wait_until_allowed(stop)  # the server may have asked any thread to wait
            try:
                return send()
            except RequestError as exc:
                tried += 1
                # the failure is final, or was tried often enough
                if tried >= min(exc.max_tries, max_tries):
                    raise _last_failure(exc, tried, advice) from None
                # the server asks for too long a wait: give up this and all other requests
                if exc.wait_s is not None and exc.wait_s > _LONGEST_PAUSE_S:
                    raise exc.reworded(
                        f"{exc}; the server asks to wait {exc.wait_s:.0f} s, and the longest wait "
                        f"is {_LONGEST_PAUSE_S:.0f} s: run again later",
                        concerns_all=True,
                    ) from None
                # waits here, or makes the next `_wait_until_allowed` of all threads wait
                self._back_off(exc.wait_s, tried, stop)

    def _wait_until_allowed(self, stop: threading.Event) -> None:
        """Wait as long as the server asked; raises InterruptedError once `stop` is set."""
        while not stop.is_set():
            left_s = self._not_before - time.monotonic()
            if left_s <= 0:
                return
            # Not all at the same moment: the server has just reported an overload.
            stop.wait(left_s + random.uniform(0, min(1.0, left_s)))
        raise InterruptedError("stopped")

    def _back_off(self, asked_s: float | None, tried: int, stop: threading.Event) -> None:
        """Wait, longer after each try; if the server asked for a wait, only note until when
        `_wait_until_allowed` holds back the requests of all threads.
        """
        if asked_s is None:
            # doubled with each try; a random part, so that threads do not come back all at once
            longest_s = min(_LONGEST_BACKOFF_S, 0.5 * 2 ** (tried - 1))
            stop.wait(random.uniform(0.5, 1.0) * longest_s)
            return
        with self._lock:
            self._not_before = max(self._not_before, time.monotonic() + asked_s)


def _last_failure(exc: RequestError, tried: int, advice: str) -> RequestError:
    """Return a failure with the number of tries, and the advice, in its message if there were several.

    The message is "problem; way out": the number is about the problem.
    """
    if tried == 1:
        return exc.reworded(str(exc))
    problem, separator, way_out = str(exc).partition("; ")
    later = f"; {advice} later" if advice else ""
    return exc.reworded(f"{problem} after {tried} tries{separator}{way_out}{later}")
