"""The interval of a rate: Wilson's."""

import math
from statistics import NormalDist


def wilson_interval(count: float, n: int, alpha: float = 0.05) -> tuple[float, float]:
    """Return the 1 - alpha interval of the rate `count` / `n` (Wilson 1927), which always has a
    width; (NaN, NaN) if n is 0.

    `count` may be a fraction, as where the rate is an area.

    >>> low, high = wilson_interval(81, 263)  # Newcombe 1998
    >>> round(low, 4), round(high, 4)
    (0.2553, 0.3662)
    """
    if not n:
        return math.nan, math.nan
    z = NormalDist().inv_cdf(1 - alpha / 2)
    rate = count / n
    center = rate + z**2 / (2 * n)
    half_width = z * math.sqrt(rate * (1 - rate) / n + (z / (2 * n)) ** 2)
    scale = 1 + z**2 / n
    # at a rate of 0 or 1 that end is exact, which rounding would miss
    low, high = 0.0, 1.0
    if count:
        low = max(0.0, (center - half_width) / scale)
    if count < n:
        high = min(1.0, (center + half_width) / scale)
    return low, high
