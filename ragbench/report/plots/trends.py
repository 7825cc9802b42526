"""The drawing of a measure over time."""

import pandas as pd
from matplotlib.figure import Figure

from ragbench.report.plots.figure import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, new_axes

_LINES = [BLUE, ORANGE, GREEN, PURPLE, SKY, "#111111"]
_NO_CHANGE = ["", "first run", "unchanged scores"]


def trend_lines(rows: pd.DataFrame, measure: str) -> Figure:
    """Draw the means of a measure over time with their 95 % intervals, a line for each configuration.

    A line that is interrupted starts a new epoch, whose runs are not compared with those before. A
    dotted grey line marks a change of a version, of parameters or of the dataset, a red one the run
    at which a fall or rise was certain.

    Args:
        rows: as from `rb.trend`.
        measure: its name, the label of the axis.
    """
    figure, axes = new_axes(9, 2.8)
    configurations = rows["configuration"].unique().tolist()
    for (configuration, _), epoch in rows.groupby(["configuration", "epoch"], sort=False):
        colour = _LINES[configurations.index(configuration) % len(_LINES)]
        dates = epoch["made_at"]
        axes.plot(dates, epoch["mean"], color=colour, marker=".", linewidth=1)
        axes.fill_between(
            dates, epoch["ci_low"], epoch["ci_high"], color=colour, alpha=0.15, linewidth=0
        )
    bottom, _ = axes.get_ylim()
    is_changed = ~rows["changed"].isin(_NO_CHANGE)
    for made_at, change in rows.loc[is_changed, ["made_at", "changed"]].itertuples(index=False):
        axes.axvline(made_at, color="grey", linestyle=":", linewidth=1)
        axes.annotate(f"{change[:40]} ", (made_at, bottom), rotation=90, fontsize=7, ha="right")
    is_alarm = rows["state"].isin(["fall", "rise"])
    for made_at in rows.loc[is_alarm, "made_at"]:
        axes.axvline(made_at, color=VERMILLION)
    axes.set_ylabel(measure)
    return figure
