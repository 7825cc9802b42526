"""Measures: the formula of each as a pure function, and the tables of scores that they give.

A table of scores has the columns query_id, measure, value; `value` is NaN where something is
unscored: it is counted, and never averaged. What each measure means, its bounds and direction are
in `ragbench.registry`.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

from ragbench.lazy import attach

_CALLS = {
    name: f"rb.score_run(qrels, run, {measure!r})"
    for name, measure in {
        "ndcg": "nDCG@10",
        "ndcg_at_k": "nDCG@10",
        "mrr": "RR",
        "map": "AP",
        "recall": "R@10",
        "recall_at_k": "R@10",
        "precision": "P@10",
        "precision_at_k": "P@10",
    }.items()
}
_CALLS |= dict.fromkeys(["list", "available"], "rb.measures()")
"""Names of measures elsewhere -> the call that computes one."""

__getattr__, __dir__, __all__ = attach(__name__, __file__, _CALLS)
