"""The interval of a rate."""

import math
from statistics import NormalDist


def wilson_interval(count: float, n: int, alpha: float = 0.05) -> tuple[float, float]:
    """Return the 1 - alpha interval of the rate `count` / `n` (Wilson 1927), which always has a
    width; (NaN, NaN) where n is 0.

    `count` may be a fraction, as where the rate is an area.

    >>> low, high = wilson_interval(81, 263)  # Newcombe 1998
    >>> round(low, 4), round(high, 4)
    (0.2553, 0.3662)
    """
    if not n:
        return math.nan, math.nan
    z, rate = NormalDist().inv_cdf(1 - alpha / 2), count / n
    center, width = rate + z**2 / (2 * n), 1 + z**2 / n
    half = z * math.sqrt(rate * (1 - rate) / n + (z / (2 * n)) ** 2)
    low, high = (center - half) / width, (center + half) / width
    return (max(0.0, low) if count else 0.0), (min(1.0, high) if count < n else 1.0)
