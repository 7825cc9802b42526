"""Frames that print short: their main columns as a reader wants them, while every column is there."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, ClassVar

import pandas as pd

from ragbench.statistics.columns import p_text


class ShortFrame(pd.DataFrame):
    """A DataFrame that is printed as `_short` shows it; with other columns than at first, as any
    DataFrame.
    """

    _metadata: ClassVar[list[str]] = ["_short", "_columns"]
    _short: Callable[[pd.DataFrame], pd.DataFrame] | None = None
    _columns: tuple[Hashable, ...] = ()

    @property
    def _constructor(self) -> type[ShortFrame]:
        return ShortFrame

    def _printed(self) -> pd.DataFrame:
        frame = pd.DataFrame(self)
        return self._short(frame) if self._short and tuple(frame) == self._columns else frame

    def __repr__(self) -> str:
        return repr(self._printed())

    def _repr_html_(self) -> str | None:
        html: str | None = self._printed()._repr_html_()  # type: ignore[operator]
        return html


def printed_short(
    frame: pd.DataFrame, short: Callable[[pd.DataFrame], pd.DataFrame]
) -> pd.DataFrame:
    """Return the frame, printed as `short(frame)`.

    >>> printed_short(pd.DataFrame({"a": [1], "b": [2]}), lambda frame: frame[["a"]])
       a
    0  1
    """
    printed = ShortFrame(frame)
    printed._short, printed._columns = short, tuple(frame)
    return printed


def with_interval(value: Any, low: Any = None, high: Any = None, form: str = "{:.3f}") -> str:
    """Format a number with its interval, if it has one; "–" where there is no number.

    >>> with_interval(0.25, 0.1612, 0.3, "{:+.3f}")
    '+0.250 [+0.161, +0.300]'
    """
    if pd.isna(value):
        return "–"
    return form.format(value) + (
        "" if pd.isna(low) else f" [{form.format(low)}, {form.format(high)}]"
    )


def short_comparison(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of `compare` that decide: measure, means, difference with its interval, adjusted
    p, decision.
    """
    bounds = zip(frame["difference"], frame["ci_low"], frame["ci_high"], strict=True)
    return frame[
        [name for name in ("name", "measure", "baseline", "contender") if name in frame]
    ].assign(
        baseline=[with_interval(value) for value in frame["baseline"]],
        contender=[with_interval(value) for value in frame["contender"]],
        difference=[with_interval(*row, "{:+.3f}") for row in bounds],
        p=[p_text(p) for p in frame["p_adjusted"]],
        decision=frame["decision"],
    )
