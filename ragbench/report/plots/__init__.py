"""The figures of the notebooks: records and tidy frames in, a matplotlib figure out.

A function returns None where its input holds nothing to draw. The names are in `__init__.pyi`; each is
loaded when it is first used.
"""

from ragbench.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    __file__,
    {
        "bar": "rb.plots.measure_bars",
        "barplot": "rb.plots.measure_bars",
        "forest": "rb.plots.plot_decision",
        "decision": "rb.plots.plot_decision",
        "boxplot": "rb.explore(results), which shows every question",
        "leaderboard": "results.leaderboard(), a DataFrame",
    },
)
