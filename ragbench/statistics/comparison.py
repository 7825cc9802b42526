"""Means of measures with intervals, and paired comparisons of configurations: which decision
(better, likely better, ...) holds, and its columns.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from ragbench.array_types import Floats
from ragbench.errors import ConfigError, check_known
from ragbench.hints.calls import explaining_calls
from ragbench.hints.expected_options import OF_COMPARISONS
from ragbench.metrics.named_rows import NamedRows, frame_text
from ragbench.metrics.rates import wilson_interval
from ragbench.registry import higher_is_better
from ragbench.statistics.autocorrelation import n_independent
from ragbench.statistics.clusters import (
    Clustered,
    clusters_of,
    n_independent_clusters,
    questions_of,
)
from ragbench.statistics.columns import (
    TIE,
    Column,
    Pairs,
    Scores,
    Tables,
    adjusted_p_values,
    bounds_of,
    by_measure,
    check_alpha,
    check_margin,
    chosen_measures,
    mean,
    means_of_rows,
    p_text,
    paired,
    tables_of,
)
from ragbench.statistics.intervals import (
    Bounds,
    Intervals,
    cluster_interval,
    mean_intervals,
    safe_intervals,
    score_interval,
)
from ragbench.statistics.power import Pilot, detectable
from ragbench.statistics.ranking import answer_measure_of, main_measure_of
from ragbench.statistics.students_t import students_p_values
from ragbench.statistics.thresholds import ALPHA, MARGIN, MIN_QUESTIONS

DECISIONS = (
    "not possible",
    "better",
    "worse",
    "within the margin",
    "likely better",
    "likely worse",
    "undecided",
)
"""All values of the column `decision` of the measure that decides; the first that holds."""


class Mean(NamedTuple):
    """A row of `summarise`; NaN = unknown."""

    measure: str
    mean: float
    ci_low: float
    ci_high: float
    n_scored: int
    n: int


def summarise(scores: Scores, *, alpha: float = ALPHA) -> pd.DataFrame:
    """Compute the mean of each measure with its interval: columns measure, mean, ci_low, ci_high,
    n_scored, n.

    `mean` is over the `n_scored` queries of `n` that are scored. The interval covers the mean over
    all questions like these with a probability of 1 - alpha: Gaffke's (2005) with the bounds of the
    registry, as for `compare`; Wilson's (1927) if all values are 0 or 1; Student's t without
    bounds. Within bounds it always has a width: other values may differ even if all observed
    ones are equal. With none scored, mean and interval are pd.NA; the interval also with one, and
    for equal values of a measure without known bounds. The queries are taken for independent: if a
    question is asked several times, the interval is too narrow.

    >>> import pandas as pd
    >>> values = [0.0, 0.5, 0.5, 1.0, 1.0, None]
    >>> scores = pd.DataFrame({"query_id": list("abcdef"), "measure": "RR", "value": values})
    >>> summarise(scores).round(3)
      measure  mean  ci_low  ci_high  n_scored  n
    0      RR   0.6   0.201    0.908         5  6

    Raises:
        DataError: columns are missing, a query has two values for a measure, or a value is not a
            number.
        ConfigError: `alpha` is out of range.
    """
    table = pd.DataFrame(means(scores, alpha=alpha)).astype(
        dict.fromkeys(["mean", "ci_low", "ci_high"], "Float64")
    )
    return NamedRows(table)


def means(scores: Scores, *, alpha: float = ALPHA) -> list[Mean]:
    """Return the mean of each measure with its interval, as records: the rows of `summarise`, without the
    time that making a frame takes.
    """
    check_alpha(alpha)
    columns = by_measure(scores, "scores")
    scored_values = []
    for values, _ids in columns.values():
        scored_values.append(values[~np.isnan(values)])
    bounds = []
    for measure, scored in zip(columns, scored_values, strict=True):
        bounds.append(Bounds(*bounds_of(measure, scored)))
    intervals = mean_intervals(scored_values, bounds, alpha, tested=False)
    rows = []
    for i, measure in enumerate(columns):
        scored = scored_values[i]
        low, high = intervals.low[i], intervals.high[i]
        is_binary = bool(np.isin(scored, (0.0, 1.0)).all())
        if len(scored) > 1 and is_binary:
            low, high = wilson_interval(scored.sum(), len(scored), alpha)
        n_queries = len(columns[measure].ids)  # with the unscored ones
        rows.append(Mean(measure, mean(scored), low, high, len(scored), n_queries))
    return rows


def mcnemar_p_value(only_before: int, only_after: int) -> float:
    """Compute the two-sided exact p of a split of the queries that differ (McNemar 1947); 1 if none
    differs.

    >>> mcnemar_p_value(1, 4), mcnemar_p_value(0, 0)
    (0.375, 1.0)
    """
    from scipy.stats import binomtest

    n_differing = only_before + only_after
    if n_differing == 0:
        return 1.0
    return float(binomtest(only_before, n_differing, 0.5).pvalue)


@explaining_calls(**OF_COMPARISONS)
def compare(
    baseline: Scores,
    contender: Scores,
    *,
    measures: str | Sequence[str] | None = None,
    alpha: float = ALPHA,
    margin: float = MARGIN,
    not_possible: str = "",
    questions: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Compare `contender` with `baseline`: is it better, by how much, and how certain is that? The
    result has a row per measure.

    One measure decides: the first of `measures`, or else the measure that a leaderboard ranks by.
    The others are shown without a decision.

    Columns:
        measure: in the order of `measures`, or of `baseline`.
        baseline, contender: means over the pairs used; `difference` is contender - baseline.
        ci_low, ci_high: the safe 1 - alpha interval of the difference, valid for every distribution
            within the range of the measure (see `ragbench.statistics.intervals`); `interval` is the
            method: "Gaffke"; "score" (Tango 1998) for values of 0 and 1 of which each side won a
            query; "t" (Student's) for measures without bounds; "none": one pair, or equal
            differences of a measure without bounds.
        p_value: the smallest alpha at which that interval excludes 0, so that both always agree.
        p_likely: two-sided p of Student's t on the paired differences. It supposes that no kind of
            question is missing among those asked, and has more power.
        p_adjusted, p_likely_adjusted: each corrected by Holm (1979) for the number of
            configurations, `n_tests`; pd.NA where a measure does not decide.
        decision: the first of these that holds ("" of a measure that does not decide):
            "not possible", `reason` states why: `not_possible` was given, or fewer than 10
            questions (clusters, see below) were scored by both;
            "better" or "worse" (a lower value is better where `registry.higher_is_better` is
            False): p_adjusted < alpha;
            "within the margin": the interval lies inside +- `margin` of the measure's range;
            "likely better" or "likely worse": p_likely_adjusted < alpha;
            "undecided", which does not prove that the two are equal.
        loss_rate_to_overturn: in "likely" rows the size of the difference / the measure's range. If
            such a fraction of all questions lose everything, and none of them is among these n, the
            difference is in truth 0.
        n_to_decide: in undecided rows the number of questions that decides with a probability of
            0.8 if difference and deviation stay as they are (by Student's t, or as within the
            margin, whichever takes fewer); 1,000,000 stands for more.
        effect_size: mean of the differences over their standard deviation (d_z of Cohen 1988);
            pd.NA if every query gains the same.
        wins, ties, losses: queries on which the contender is better, equal (within 1e-12), worse;
            where lower is better, a lower value wins.
        n: pairs used: queries that both sides scored. `n_unpaired` counts the other queries.
        n_clusters: independent observations among the pairs: clusters (see below), or fewer where
            neighbours in the file resemble each other (`autocorrelation.n_independent`).
        mde: smallest true difference for which as many queries lead to "better" (uncorrected) with
            a probability of 0.8. A smaller difference that matters needs more queries, for any p.
            pd.NA if no difference does, or if the difference of every query is the same.

    Questions whose ids agree up to "<::>" are turns of one conversation, and depend on each other:
    they are one cluster, as are questions or whole conversations of the same words, which results
    know (or `questions`). The interval, p_value, p_likely and mde are then computed from the sums of
    the clusters; an unseen cluster may lose on all its questions, and is as long as one of
    the observed clusters.

    Args:
        baseline, contender: results, or tidy scores: query_id, measure, value.
        measures: names of measures; None means all measures that both have.
        alpha: the probability of a wrong decision.
        margin: a difference that does not matter, as a fraction of the measure's range.
        not_possible: why these questions decide nothing; "" if they may decide.
        questions: query_id -> its words; None takes them from `baseline` if it is a result.

    >>> import pandas as pd
    >>> def scores(*values):
    ...     return pd.DataFrame({"query_id": range(12), "measure": "RR", "value": 2 * values})
    >>> result = compare(scores(0, 0.5, 0, 0, 0.5, 1), scores(1, 1, 0.5, 0.5, 1, 1))
    >>> result  # prints short; all columns are there
      measure baseline contender               difference      p decision
    0      RR    0.333     0.833  +0.500 [+0.169, +0.692]  0.008   better
    >>> result[["difference", "p_value", "wins", "ties", "losses", "n"]].round(3)
       difference  p_value  wins  ties  losses   n
    0         0.5    0.008    10     2       0  12

    Raises:
        ComparisonError: the two do not have the same queries, or no measure in common.
        ConfigError: a measure is missing, or `alpha` or `margin` is out of range.
        DataError: a frame is not tidy scores.
    """
    frames = {"baseline": baseline, "contender": contender}
    result = compare_all(
        frames,
        "baseline",
        measures=measures,
        alpha=alpha,
        margin=margin,
        not_possible=not_possible,
        questions=questions,
    )
    return printed_as(result.drop(columns="name"), short_comparison)


@explaining_calls(**OF_COMPARISONS)
def compare_all(
    scores_by_name: Mapping[str, Scores],
    baseline: str,
    *,
    measures: str | Sequence[str] | None = None,
    alpha: float = ALPHA,
    margin: float = MARGIN,
    n_dropped: int = 0,
    not_possible: str = "",
    questions: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Compare each configuration with the one named `baseline`; `name` is the contender, the other
    columns are the columns of `compare`.

    Rows come by contender in the given order, then by measure. The p-values of the measure that
    decides are adjusted over the contenders, and over `n_dropped` more with a p-value of 1.

    >>> import pandas as pd
    >>> def scores(*values):
    ...     return pd.DataFrame({"query_id": range(12), "measure": "RR", "value": 3 * values})
    >>> runs = {"bm25": scores(0, 0.5, 0, 0), "dense": scores(1, 1, 0.5, 0.5), "none": scores(0, 0, 0, 0)}
    >>> columns = ["name", "difference", "p_value", "p_adjusted", "decision"]
    >>> compare_all(runs, "bm25")[columns].round(3)
        name  difference  p_value  p_adjusted   decision
    0  dense       0.625    0.003       0.006     better
    1   none      -0.125    0.274       0.274  undecided
    """
    check_alpha(alpha)
    check_margin(margin)
    check_known("baseline", scores_by_name, baseline)
    if len(scores_by_name) < 2:
        raise ConfigError(
            f"nothing to compare {baseline!r} with: give the scores of at least one other "
            "configuration"
        )
    # which measures are compared, which of them decides, and which questions belong together
    tables = tables_of(scores_by_name)
    chosen = chosen_measures(tables, measures)
    decides = chosen[0] if measures else _deciding_measure(tables, baseline, chosen)
    words = questions_of(scores_by_name[baseline], questions)
    clusters = clusters_of(_all_queries(tables[baseline]), words)
    differences = _differences(tables, baseline, chosen, clusters)
    rows = [difference.row for difference in differences]
    parts = [difference.part for difference in differences]
    pilots = [difference.pilot for difference in differences]
    # all intervals at once; none may pass the largest possible difference, `width`
    low, high, p, method = difference_intervals(parts, pilots, alpha)
    p_likely = students_p_values([part.values for part in parts])
    mde = detectable(pilots, alpha)
    for i, (row, pilot) in enumerate(zip(rows, pilots, strict=True)):
        row["n_clusters"] = pilot.n  # fewer than the clusters if neighbours resemble each other
        row["ci_low"] = np.maximum(low[i], -pilot.width)
        row["ci_high"] = np.minimum(high[i], pilot.width)
        row["interval"] = method[i]
        row["p_value"] = p[i]
        row["p_likely"] = p_likely[i]
        row["mde"] = mde[i]
    # whether there are enough questions for a decision depends on the clusters alone
    cluster_counts = [len(part.sums) for part in parts]
    _decide(rows, pilots, cluster_counts, decides, alpha, margin, n_dropped, not_possible)
    result = pd.DataFrame(rows)[["name", *_COLUMNS]].astype(dict.fromkeys(_NUMBERS, "Float64"))
    return printed_as(result.astype({"n_to_decide": "Int64"}), short_comparison)


class _Difference(NamedTuple):
    """The difference of a contender from the baseline by a measure: its row of the comparison, the
    differences by cluster, and their number and spread.
    """

    row: dict[str, Any]
    part: Clustered
    pilot: Pilot


def _differences(
    tables: Tables, baseline: str, measures: Sequence[str], clusters: Mapping[object, str]
) -> list[_Difference]:
    """Return the difference of each contender by each measure: by contender in the order of the tables,
    then by measure. The rows have the columns of `_descriptive_rows`.

    Contenders that scored the same queries are computed together, as rows of one matrix.
    """
    found: dict[tuple[str, str], _Difference] = {}  # by contender and measure
    for measure in measures:
        for pairs in paired(tables, baseline, measure):
            rows = _descriptive_rows(pairs, measure)
            parts = Clustered.of(pairs, clusters)
            pilots = _pilots(pairs, parts, measure)
            for i, name in enumerate(pairs.names):
                found[name, measure] = _Difference(rows[i], parts[i], pilots[i])
    in_order = []
    for name in tables:
        if name == baseline:
            continue
        for measure in measures:
            in_order.append(found[name, measure])
    return in_order


def _all_queries(table: Mapping[str, Column]) -> pd.Index:
    """Return the queries of all measures of a configuration, in the order of their scores."""
    all_ids = pd.Index([])
    for column in table.values():
        if not column.ids.equals(all_ids):
            all_ids = all_ids.union(column.ids, sort=False)
    return all_ids


def _decide(
    rows: Sequence[dict[str, Any]],
    pilots: Sequence[Pilot],
    cluster_counts: Sequence[int],
    decides: str,
    alpha: float,
    margin: float,
    n_dropped: int,
    not_possible: str,
) -> None:
    """Add the columns of the decision to the rows of a comparison, in place: reason, p_adjusted,
    p_likely_adjusted, n_tests, decision, loss_rate_to_overturn, n_to_decide (`compare` describes them).

    Args:
        rows: a row for each contender and measure, without these columns.
        pilots: the number, spread and range of the differences of each row.
        cluster_counts: the number of clusters (questions that depend on each other) of each row.
        decides: the measure that decides; `reason` and `decision` of other measures are "".
        alpha, margin: as in `compare`.
        n_dropped: the number of further tests, whose p-values count as 1 in the adjustment.
        not_possible: why no decision is possible; "" if one may be.
    """
    for row, n in zip(rows, cluster_counts, strict=True):
        row["reason"] = ""
        if row["measure"] == decides:
            row["reason"] = not_possible or _too_few(n)
    # p-values adjusted over the rows that may decide; NaN in the others
    is_tested = [row["measure"] == decides and not row["reason"] for row in rows]
    n_tests = sum(is_tested) + n_dropped
    for column, adjusted_column in (
        ("p_value", "p_adjusted"),
        ("p_likely", "p_likely_adjusted"),
    ):
        tested_p = np.where(is_tested, [row[column] for row in rows], math.nan)
        adjusted = adjusted_p_values(tested_p, n_dropped)
        for row, p in zip(rows, adjusted, strict=True):
            row[adjusted_column] = p
    # the decision, and the columns of likely and of undecided ones
    for row, pilot in zip(rows, pilots, strict=True):
        margin_in_units = margin * pilot.width
        row["n_tests"] = n_tests
        row["decision"] = ""
        if row["measure"] == decides:
            row["decision"] = _decision(row, alpha, margin_in_units)
        row["loss_rate_to_overturn"] = math.nan
        if row["decision"] in ("likely better", "likely worse") and math.isfinite(pilot.width):
            row["loss_rate_to_overturn"] = abs(row["difference"]) / pilot.width
        row["n_to_decide"] = math.nan
        if row["decision"] == "undecided":
            n_needed = pilot.n_to_decide(row["difference"], margin_in_units, alpha / n_tests)
            # the pilot counts independent observations, the column questions
            row["n_to_decide"] = math.ceil(n_needed * row["n"] / pilot.n)


def _deciding_measure(tables: Tables, baseline: str, measures: Sequence[str]) -> str:
    """Return the measure that a leaderboard of these configurations ranks by.

    It is a measure of retrieval. But if all configurations have the same values of this measure, they
    differ in their answers alone: then it is a measure of answers, if there is one.
    """
    table = tables[baseline]
    n_scored = {name: int((~np.isnan(table[name].values)).sum()) for name in measures}
    main = main_measure_of(n_scored)
    if main not in measures:  # no measure has a scored query
        return measures[0]
    if any(not other[main].equals(table[main]) for other in tables.values()):
        return main
    return answer_measure_of(n_scored) or main


def _too_few(n: int) -> str:
    """Return why `n` independent questions decide nothing; "" if they are enough."""
    if n >= MIN_QUESTIONS:
        return ""
    questions = "1 independent question was" if n == 1 else f"{n} independent questions were"
    return f"only {questions} scored by both; a decision takes {MIN_QUESTIONS} or more"


def _decision(row: Mapping[str, Any], alpha: float, margin: float) -> str:
    """Return the first decision that holds, in the order of DECISIONS.

    Args:
        row: a row of a comparison with reason, gain (the difference, above 0 if the contender is
            better), ci_low, ci_high, p_adjusted and p_likely_adjusted.
        alpha: the probability of a wrong decision.
        margin: the largest difference that does not matter, in the unit of the measure; infinite for a
            measure without bounds, which is then never within it.
    """
    if row["reason"]:
        return "not possible"
    if row["p_adjusted"] < alpha:
        return "better" if row["gain"] > 0 else "worse"
    if math.isfinite(margin) and -margin < row["ci_low"] and row["ci_high"] < margin:
        return "within the margin"
    if row["p_likely_adjusted"] < alpha:
        return "likely better" if row["gain"] > 0 else "likely worse"
    return "undecided"


def _pilots(pairs: Pairs, parts: Sequence[Clustered], measure: str) -> list[Pilot]:
    """Return the pilot of each contender's differences, by its independent observations: by cluster if a
    cluster has several questions, and fewer where neighbours resemble each other.
    """
    pilots = Pilot.of(pairs, measure)
    cluster_counts = n_independent_clusters(parts)
    for i, (pilot, part) in enumerate(zip(pilots, parts, strict=True)):
        n = int(cluster_counts[i])
        if n != pilot.n:
            pilots[i] = Pilot(n, part.deviation, pilot.width)
    return pilots


_COLUMNS = (
    "measure baseline contender difference ci_low ci_high p_value p_adjusted p_likely "
    "p_likely_adjusted decision reason loss_rate_to_overturn n_to_decide effect_size wins ties losses "
    "n n_clusters mde n_tests n_unpaired interval"
).split()
_NUMBERS = (
    "baseline contender difference ci_low ci_high p_value p_adjusted p_likely p_likely_adjusted "
    "loss_rate_to_overturn n_to_decide effect_size mde"
).split()


def _descriptive_rows(pairs: Pairs, measure: str) -> list[dict[str, Any]]:
    """Return for each contender the columns of `compare` that describe its pairs, without a test: from
    the means to the counts of queries. `gain` is the difference, above 0 if the contender is better.
    """
    difference = pairs.difference
    n = len(pairs.ids)
    gain = difference if higher_is_better(measure) else -difference
    wins = (gain > TIE).sum(axis=1)
    losses = (gain < -TIE).sum(axis=1)
    mean_gains = means_of_rows(gain)
    mean_contenders = means_of_rows(pairs.after)
    mean_baseline = mean(pairs.before)
    effect_sizes = _effect_sizes(pairs)
    rows = []
    for i, name in enumerate(pairs.names):
        row = {
            "name": name,
            "measure": measure,
            "baseline": mean_baseline,
            "contender": float(mean_contenders[i]),
            "difference": float(pairs.mean_differences[i]),
            "gain": float(mean_gains[i]),
            "effect_size": float(effect_sizes[i]),
            "wins": int(wins[i]),
            "ties": n - int(wins[i]) - int(losses[i]),
            "losses": int(losses[i]),
            "n": n,
            "n_unpaired": pairs.unpaired,
        }
        rows.append(row)
    return rows


def _effect_sizes(pairs: Pairs) -> Floats:
    """Return for each contender the mean difference over the standard deviation; 0 if no query differs,
    NaN if every query differs by the same, or there is no query.
    """
    effect_sizes = np.full(len(pairs.names), math.nan)
    if len(pairs.ids):
        effect_sizes[np.abs(pairs.difference).max(axis=1) <= TIE] = 0.0
    varies = pairs.deviations > TIE
    effect_sizes[varies] = pairs.mean_differences[varies] / pairs.deviations[varies]
    return effect_sizes


def difference_intervals(
    parts: Sequence[Clustered], pilots: Sequence[Pilot], alpha: float
) -> Intervals:
    """Compute the safe interval of each mean difference, and the p of "the difference is 0".

    The interval is Tango's (method "score") if all values are 0 or 1, the questions are independent,
    and each configuration won at least one question. Otherwise it is `cluster_interval` if the clusters
    have different lengths, else `safe_intervals`.

    Args:
        parts: the differences of each comparison, by cluster.
        pilots: the figures for planning the size of each comparison, in the same order: `n`, `width`
            (the largest possible difference) and `differing` (None unless all values are 0 or 1).
    """
    columns = [part.sums for part in parts]
    low, high, p, method = safe_intervals(columns, [pilot.width for pilot in pilots], alpha)
    for row, (part, pilot) in enumerate(zip(parts, pilots, strict=True)):
        is_binary = pilot.differing is not None
        if is_binary and n_independent(part.residuals) == len(part.sums):
            wins = int((part.sums > 0).sum())
            losses = int((part.sums < 0).sum())
            if wins and losses:
                low[row], high[row], p[row] = score_interval(wins, losses, pilot.n, alpha)
                method[row] = "score"
                continue
        if not part.is_even and len(part.sums) > 1:
            interval = cluster_interval(part.sums, part.lengths, pilot.width, alpha)
            low[row], high[row], p[row] = interval
    return Intervals(low, high, p, method)


class ShortFrame(NamedRows):
    """A DataFrame that prints as the short frame that `_short` makes of it; as any DataFrame once its
    columns are no longer `_columns`.
    """

    _metadata: ClassVar[list[str]] = ["_short", "_columns"]
    _short: Callable[[pd.DataFrame], pd.DataFrame] | None = None
    _columns: tuple[Hashable, ...] = ()

    @property
    def _constructor(self) -> "type[ShortFrame]":
        return ShortFrame

    def _printed(self) -> pd.DataFrame:
        """Return the frame that is printed: the short one, or the frame itself if it is a part of
        the comparison with other columns, for which no short form is known.
        """
        frame = pd.DataFrame(self)
        if self._short is None or tuple(frame) != self._columns:
            return frame
        return self._short(frame)

    def __repr__(self) -> str:
        printed = self._printed()
        is_short = tuple(printed) != tuple(self)
        if not is_short:
            return super().__repr__()
        always = ["name", "difference", "decision"]
        if "measure" in printed and printed["measure"].nunique() > 1:
            always.insert(1, "measure")  # it tells the rows of one configuration apart
        return frame_text(printed, always)

    def _repr_html_(self) -> str | None:
        html: str | None = self._printed()._repr_html_()  # type: ignore[operator]
        return html


def printed_as(frame: pd.DataFrame, short: Callable[[pd.DataFrame], pd.DataFrame]) -> pd.DataFrame:
    """Return the same frame, which is displayed as `short(frame)`.

    >>> printed_as(pd.DataFrame({"a": [1], "b": [2]}), lambda frame: frame[["a"]])
       a
    0  1
    """
    printed = ShortFrame(frame)
    printed._short = short
    printed._columns = tuple(frame)
    return printed


def with_interval(value: Any, low: Any = None, high: Any = None, form: str = "{:.3f}") -> str:
    """Format a number with its interval, if it has one; "–" for a missing number.

    >>> with_interval(0.25, 0.1612, 0.3, "{:+.3f}")
    '+0.250 [+0.161, +0.300]'
    """
    if pd.isna(value):
        return "–"
    text = form.format(value)
    if pd.isna(low):
        return text
    return f"{text} [{form.format(low)}, {form.format(high)}]"


def short_comparison(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of `compare` that decide: measure, means, difference with its interval, p,
    decision.

    p is adjusted where the measure decides, and Student's where the decision is a likely one.
    """
    intervals = zip(frame["difference"], frame["ci_low"], frame["ci_high"], strict=True)
    is_likely = frame["decision"].isin(["likely better", "likely worse"])
    adjusted = frame["p_likely_adjusted"].where(is_likely, frame["p_adjusted"])
    texts: dict[str, Any] = {
        "baseline": [with_interval(value) for value in frame["baseline"]],
        "contender": [with_interval(value) for value in frame["contender"]],
        "difference": [with_interval(*interval, "{:+.3f}") for interval in intervals],
        "p": [p_text(p) for p in adjusted.fillna(frame["p_value"])],
        "decision": frame["decision"],
    }
    names = [name for name in ("name", "measure", "baseline", "contender") if name in frame]
    return frame[names].assign(**texts)
