"""Questions that are one observation: the same text asked several times, and the turns of a
conversation; the test of their differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from ragbench.array_types import Floats
from ragbench.folding import folded_words
from ragbench.statistics.autocorrelation import n_independent_of_rows
from ragbench.statistics.columns import Pairs, Scores, blocks_of_rows, deviation, mean
from ragbench.types import TURN_MARK


def clusters_of(query_ids: Iterable[object], texts: Mapping[str, str]) -> dict[object, str]:
    """Return question -> its cluster, which is named by the first question or conversation in it; {}
    if no cluster has two questions.

    Ids that agree up to "<::>" are turns of one conversation. Questions, or whole conversations, of
    the same words (`ragbench.folding.folded_words`) are one cluster.

    Args:
        query_ids: the questions, turns in order.
        texts: query_id -> the question's words; a question without words is compared with no other.

    >>> clusters_of(["q1", "q2", "c<::>1", "c<::>2"], {"q1": "Who?", "q2": " who? "})
    {'q1': 'q1', 'q2': 'q1', 'c<::>1': 'c', 'c<::>2': 'c'}
    """
    conversations: dict[str, list[object]] = {}  # a single question is one of one turn
    for query_id in query_ids:
        name = str(query_id).partition(TURN_MARK)[0]
        conversations.setdefault(name, []).append(query_id)
    cluster_of_words: dict[tuple[str, ...], str] = {}
    clusters: dict[object, str] = {}
    for name, turns in conversations.items():
        words = tuple(folded_words(texts.get(str(turn), "")) for turn in turns)
        cluster = name
        if all(words):  # a turn of unknown words equals no other
            cluster = cluster_of_words.setdefault(words, name)  # the first of the same words
        for turn in turns:
            clusters[turn] = cluster
    n_clusters = len({*clusters.values()})
    return clusters if n_clusters < len(clusters) else {}


def questions_of(scores: Scores, questions: Mapping[str, str] | None) -> Mapping[str, str]:
    """Return query_id -> the question's words: `questions`, else the queries of a result, else {}."""
    if questions is not None:
        return questions
    if isinstance(scores, pd.DataFrame):
        return {}
    queries: Mapping[str, str] = getattr(scores, "queries", {})
    return queries


@dataclass(frozen=True, eq=False)
class Clustered:
    """The differences of two configurations by cluster, in units of the mean number of questions.

    `sums` are sums over the questions of each cluster, `lengths` their numbers; the mean of `sums`
    is the mean over all questions, and the mean of `lengths` is 1. Clusters come in the order of
    their first questions.
    """

    sums: Floats
    lengths: Floats

    @classmethod
    def of(cls, pairs: Pairs, clusters: Mapping[object, str]) -> list[Clustered]:
        """Add up the differences of the questions in each cluster, such as a conversation, for each
        contender.

        `clusters` maps each question to its cluster; if it is empty, each question is a cluster of its
        own. Sums and lengths are divided by the mean number of questions in a cluster, so that the mean
        of the sums is the mean difference of a question.
        """
        if not clusters:
            lengths = np.ones(len(pairs.ids))
            return [cls(differences, lengths) for differences in pairs.difference]
        names = [clusters[query_id] for query_id in pairs.ids]
        cluster_numbers, _ = pd.factorize(np.array(names, dtype=object))
        counts = np.bincount(cluster_numbers).astype(np.float64)  # questions in each cluster
        scale = len(counts) / max(len(names), 1)  # 1 / the mean number of questions in a cluster
        parts = []
        for differences in pairs.difference:
            sums = np.bincount(cluster_numbers, differences).astype(np.float64)
            parts.append(cls(sums * scale, counts * scale))
        return parts

    @property
    def is_even(self) -> bool:
        """Return True if all clusters have as many questions."""
        return bool((self.lengths == self.lengths[:1]).all())

    @property
    def deviation(self) -> float:
        """Return the standard deviation of a cluster about the common mean."""
        return deviation(self.residuals)

    @property
    def values(self) -> Floats:
        """Return a value for each cluster: its sum, as if it had the mean length. Their mean is the mean
        of the sums.
        """
        values: Floats = self.residuals + mean(self.sums)
        return values

    @cached_property
    def residuals(self) -> Floats:
        """Return the sums minus the sums expected from the common mean and the lengths."""
        residuals: Floats = self.sums - mean(self.sums) * self.lengths
        return residuals


def n_independent_clusters(parts: Sequence[Clustered]) -> Floats:
    """Return for each of `parts` the number of independent clusters that show as much, see
    `autocorrelation.n_independent`.
    """
    n = np.zeros(len(parts))
    for block, rows in blocks_of_rows([part.residuals for part in parts]):
        n[block] = n_independent_of_rows(rows)
    return n
