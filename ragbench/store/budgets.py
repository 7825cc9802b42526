"""The spending of budgets, kept next to the replies, so that all processes of a sweep share one
account: what counts as spent, reserved or lost; `llms/costs` decides what is sent.

Before a request is sent, the most that it can cost is reserved; when the reply is there, the
reservation is settled at the actual cost. A reservation that is never settled (its process was
killed: the request may have been paid) counts until the same request is answered. So the sum never
passes the maximum.
"""

import time
from typing import NamedTuple

from ragbench.store import database
from ragbench.store.contract import Execute

_SUMS = """
SELECT
    COALESCE(SUM(actual), 0.0),
    COALESCE(SUM(CASE WHEN actual IS NULL AND expires > ? THEN bound END), 0.0),
    COALESCE(SUM(CASE WHEN actual IS NULL AND expires <= ? THEN bound END), 0.0)
FROM spending
WHERE budget = ?
"""


class Spending(NamedTuple):
    """US dollars: `settled` is spent, `open` reserved by requests on their way, `lost` by requests of
    ended processes and of batches, for which no other request waits.
    """

    settled: float
    open: float
    lost: float

    @property
    def lost_in_words(self) -> str:
        """Return the end of a sentence on the spending; "" if nothing is lost."""
        if not self.lost:
            return ""
        return (
            f" (and {self.lost:.4f} reserved by requests whose process was killed or by batches, "
            "which may have been paid; that is released as the same requests are answered)"
        )


def reserve(
    budget: str, bound: float, maximum: float, lasts_s: float, request: str = ""
) -> int | None:
    """Reserve `bound` dollars of a budget for a request, before it is sent.

    Args:
        bound: the highest price that the request can have.
        maximum: the size of the budget.
        lasts_s: seconds that the request takes at most.
        request: the key of the request.

    Returns:
        The number of the reservation, or 0 or None if nothing was reserved. 0: try again later, since
        money is reserved for requests that are on their way and may turn out cheaper. None: too
        little of the budget is left.
    """

    def work(execute: Execute) -> int | None:
        # dollars: `settled` are spent, `open` reserved by requests on their way, `lost` reserved by
        # requests that never reported their cost, and may have been paid
        spending = _sums(execute, budget)
        limit = maximum + 1e-5  # a thousandth of a cent more: sums of floats are not exact
        spent_for_certain = spending.settled + spending.lost
        if spent_for_certain + bound > limit:
            return None
        if spent_for_certain + spending.open + bound > limit:
            return 0
        row = (budget, bound, time.time() + lasts_s, request)
        query = "INSERT INTO spending (budget, bound, expires, request) VALUES (?, ?, ?, ?)"
        [(number,)] = execute(f"{query} RETURNING id", row)
        return int(number)

    return database.write(work)


def settle(reservation: int, actual: float, *, answered: bool = False) -> None:
    """Record the actual cost of a request in place of the amount that was reserved for it.

    Args:
        reservation: the number that `reserve` returned.
        actual: the cost in dollars; 0 if the server refused the request.
        answered: the reply is in the store, so that the request is not sent again: other
            reservations for it, such as the reservation of a killed process, are released.
    """

    def work(execute: Execute) -> None:
        execute("UPDATE spending SET actual = ? WHERE id = ?", (actual, reservation))
        if answered:  # a reservation is released by the actual cost 0
            execute(
                "UPDATE spending SET actual = 0 WHERE actual IS NULL AND request <> '' AND "
                "(budget, request) = (SELECT budget, request FROM spending WHERE id = ?)",
                (reservation,),
            )

    database.write(work)


def spent(budget: str) -> Spending:
    """Return the spending of a budget so far.

    >>> spent("no such budget")
    Spending(settled=0.0, open=0.0, lost=0.0)
    """
    if not database.exists():
        return Spending(0.0, 0.0, 0.0)
    return database.read(lambda execute: _sums(execute, budget))


def _sums(execute: Execute, budget: str) -> Spending:
    """Return the sums of a budget's reservations: settled (at their actual cost), still reserved, and
    expired without being settled (both at their bounds).
    """
    now = time.time()
    [(settled, still_reserved, expired)] = execute(_SUMS, (now, now, budget))
    return Spending(settled=settled, open=still_reserved, lost=expired)
