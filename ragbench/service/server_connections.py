"""The connections of a server: how many there may be, and how long one may wait with its request."""

from asyncio import Transport
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 10.0
"""Seconds until the head of a request has come."""
_CONNECTIONS = 400  # most systems allow a process 1,024 open files


class BoundedProtocol(H11Protocol):
    """A connection that is closed if no head of a request arrives in time. If there are too many
    connections, one that waits for a request is closed, or else this one.
    """

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Begin; the first of those that wait for a request makes room."""
        super().connection_made(transport)
        if len(self.connections) > _CONNECTIONS:
            others = [each for each in self.connections if isinstance(each, BoundedProtocol)]
            waiting = (each for each in others if each is not self and each.is_waiting())
            next(waiting, self).transport.abort()
        self.loop.call_later(HEAD_S, self._end, None)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.loop.call_later(HEAD_S, self._end, self.cycle)
        super().on_response_complete()

    def is_waiting(self) -> bool:
        """Return True if no request is under way."""
        return self.cycle is None or self.cycle.response_complete

    def _end(self, cycle: Any) -> None:
        if self.cycle is cycle:
            self.transport.abort()
