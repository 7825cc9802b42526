"""The measures that the history tests for drift, and the order in which its pages show measures."""

from sqlalchemy import or_

from ragbench.registry import BRIEF, LEADERBOARD
from ragbench.service import tables

_ALSO_WATCHED = ("RR", "Success@5", "citation_accuracy", "outcome_correct", "overall")
WATCHED = tuple(dict.fromkeys((*BRIEF, *_ALSO_WATCHED, *LEADERBOARD)))
"""The measures that are tested for drift, next to those that a run has a target for."""

MAIN = tuple(dict.fromkeys((*LEADERBOARD, *WATCHED)))
"""The measures of the first page: each configuration is shown by the first that it has."""

IS_WATCHED = or_(tables.score.c.measure.in_(WATCHED), tables.score.c.target.is_not(None))
"""The condition for a row of scores whose measure is tested for drift."""
