"""Questions that are one observation: the same text asked several times, and the turns of a
conversation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from ragbench.language import folded_words
from ragbench.statistics.columns import Floats, Pairs, Scores, deviation
from ragbench.statistics.intervals import students_p_values
from ragbench.types import TURN_MARK


def clusters_of(query_ids: Iterable[object], texts: Mapping[str, str]) -> dict[object, str]:
    """Map each question to its cluster, named by the first question or conversation in it; empty
    where no cluster has two questions.

    Ids that agree up to "<::>" are turns of one conversation. Questions, or whole conversations, of
    the same words (`ragbench.language.folded`) are one cluster.

    Args:
        query_ids: the questions, turns in order.
        texts: their words, as far as they are known.

    >>> clusters_of(["q1", "q2", "c<::>1", "c<::>2"], {"q1": "Who?", "q2": " who? "})
    {'q1': 'q1', 'q2': 'q1', 'c<::>1': 'c', 'c<::>2': 'c'}
    """
    conversations: dict[str, list[object]] = {}
    for query_id in query_ids:
        name = str(query_id).partition(TURN_MARK)[0]
        conversations.setdefault(name, []).append(query_id)
    first_of: dict[tuple[str, ...], str] = {}
    clusters: dict[object, str] = {}
    for name, turns in conversations.items():
        words = [folded_words(texts.get(str(turn), "")) for turn in turns]
        key = tuple(words) if all(words) else ("", name)
        cluster = first_of.setdefault(key, name)
        clusters |= dict.fromkeys(turns, cluster)
    return clusters if len({*clusters.values()}) < len(clusters) else {}


def questions_of(scores: Scores, questions: Mapping[str, str] | None) -> Mapping[str, str]:
    """Return the words of each question: as given, else those of a result, else none."""
    if questions is not None:
        return questions
    known: Mapping[str, str] = getattr(scores, "queries", {})
    return {} if isinstance(scores, pd.DataFrame) else known


class Clustered(NamedTuple):
    """The differences of two configurations by cluster, in units of the mean number of questions.

    `sums` are sums over the questions of each cluster, `lengths` their numbers; the mean of `sums`
    is the mean over all questions, and the mean of `lengths` is 1.
    """

    sums: Floats
    lengths: Floats

    @classmethod
    def of(cls, pair: Pairs, clusters: Mapping[object, str]) -> Clustered:
        """Add up the differences of each cluster; without clusters each question is one."""
        if not clusters:
            return cls(pair.difference, np.ones(len(pair.ids)))
        names = [clusters[query_id] for query_id in pair.ids]
        _, number, counts = np.unique(names, return_inverse=True, return_counts=True)
        scale = len(counts) / max(len(names), 1)
        return cls(np.bincount(number, pair.difference) * scale, counts * scale)

    @property
    def is_even(self) -> bool:
        """Return True if all clusters have as many questions."""
        return len(np.unique(self.lengths)) < 2

    @property
    def deviation(self) -> float:
        """Return the standard deviation of a cluster about the common mean."""
        return deviation(self._rest)

    @property
    def p_value(self) -> float:
        """Return the two-sided p of the mean 0 by Student's t."""
        if not len(self.sums):
            return math.nan
        [p] = students_p_values([self._rest + self.sums.mean()])
        return float(p)

    @property
    def _rest(self) -> Floats:
        rest: Floats = self.sums - self.sums.mean() * self.lengths
        return rest
