"""Means with intervals, and paired comparisons of configurations: how much better, and how sure one
can be.

Everything is paired by query, and a query counts as one draw from the questions that could be
asked. Scores are the tidy frames of `ragbench.metrics`: columns query_id, measure, value, with NaN
for unscored answers. Results hold pd.NA, never NaN, where a number is undefined (nothing scored; an
interval from one query).

Which function answers which question: is it better? `compare`, `compare_all`. Is it as good, and
cheaper? `within_margin`. Are the queries enough? `mde` of `compare`. Can the judge be trusted?
`judge_agreement`, `rb.trust`. Did runs over time move? `drift`.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

from ragbench.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
