"""The numbers by which decisions are made, unless a user names others: margin, level, fewest
questions.
"""

MARGIN = 0.02
"""The largest difference that does not matter, as a fraction of the range of the measure."""

ALPHA = 0.05
"""The accepted probability of calling a difference that is not there."""

MIN_QUESTIONS = 10
"""Fewer questions decide nothing."""
