"""Drift: whether runs over time moved, tested after every run without crying wolf.

A p-value below .05 against the previous run is an alarm in one night of twenty, for each measure.
Here one number is stated and kept: on average at most one false alarm in `run_length` runs, over
all measures that are watched together.

A question set may change: the effect of a night on the scores of its questions is a_t in x_tq = m_q +
a_t, fitted by least squares to the runs so far, so that runs are compared by the questions that
they share. a_t varies from night to night, whatever the cause: questions whose noise
persists for some nights, answers of which few are drawn anew, a provider's bad day. With r the
correlation of neighbouring nights, the steps e_t = a_t - r a_{t-1} are nearly independent, and a
lasting fall by d moves the first one by d and the others by (1 - r) d. The last k steps, with k
from 3 to 28, are compared with the earlier ones by Student's t; an alarm is raised where

    p < 1 / (4 * run_length * streams)   and the median of the last k nights differs by half of `fall` or more

(the median, so that no bad night raises an alarm alone). r is estimated from the earlier nights,
and raised, because an estimate from few is too low. After an alarm the earlier runs are those since
the estimated date of the change; with fewer than 30 of them r is taken as .98, so that only large
changes are noticed, and with fewer than 10 none. Runs that repeat the one before are left out: a
system with the same answers every night has no noise to compare with, and `compare` shows its
changes.

Simulated (tests/statistics/test_drift.py; one measure, 97 questions, 120 nights; a fall of .05
after 60): a false alarm in none of about 115 histories with noise of .17 per question and night, in
.01 with an autocorrelation of .5, .03 with .9, .03 where 10 % of right or wrong answers are drawn
anew each night, 0 with a weekly cycle or a common shock of .03. The fall is noticed within 30
nights in 1.0, .93, .67, 0, .81 and .87 of them. It cannot be promised where noise persists for 10
nights and more: with an autocorrelation of .9 it is noticed at once or late; among answers of which
10 % are drawn anew the noise of the mean is as large as the fall; `notice` is None there. In
histories of 400 nights without a change, 0.9 million nights each (30 questions), a false alarm came
once in 15,000 nights without autocorrelation, in 6,300 with .5 and in 5,500 with .9.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ragbench.array_types import Bools, Floats, Ints
from ragbench.errors import ConfigError, plural
from ragbench.hints.attributes import suggesting
from ragbench.statistics.clusters import clusters_of

RUN_LENGTH = 5000
"""Runs for each false alarm of the test against the noise."""
PAIRED_RUN_LENGTH = 1250
"""Runs for each false alarm of the paired test: 1/5000 + 1/1250 = 1/1000."""
MIN_EARLIER = 10
_ENOUGH = 30  # nights from which their correlation can be estimated
_WINDOWS = (3, 5, 7, 14, 21, 28)
_MAX_CORRELATION = 0.98
_BLOCK = 64  # nights that are tested at once after a change; twice as many each time
_ROUNDS = 15  # of the least-squares fit where question sets differ
_MEAN, _P, _STATE = range(3)  # columns of `Drift.path`
_RECENT = 10  # different runs, of which one was repeated where runs repeat exactly
_TAIL_FACTOR = (
    3.1787  # 1 / (4 P(N > sqrt(2))): the normal tail times this bounds a sum of random signs
)
# a date whose log-likelihood is at most this much below the best one is in the 95 % range of dates
_LIKELIHOOD_DROP = -math.log(1 - math.sqrt(0.95))


@suggesting()
@dataclass(frozen=True)
class Change:
    """An alarm: the run at which a change was noticed, the estimated run of the change, and the range
    of runs that holds it with 95 % confidence.

    `since`, `earliest`, `latest` and `noticed` are labels of runs. `before` and `after` are means
    over the questions that both sides have. `questions` is query_id -> difference, for the five
    questions that moved most in the direction of the change.
    """

    direction: str
    noticed: Any
    since: Any
    earliest: Any
    latest: Any
    before: float
    after: float
    questions: dict[str, float]

    @property
    def text(self) -> str:
        """Return the change in one line."""
        between = ""
        if self.earliest != self.latest:
            between = f" (between {self.earliest} and {self.latest})"
        return (
            f"{self.direction} from {self.before:.3f} to {self.after:.3f} "
            f"since {self.since}{between}"
        )


class QuietMove(NamedTuple):
    """A change between two runs of a system whose runs repeat exactly, which raised no alarm.

    `n_fell` and `n_rose` count questions; with the same moves, a mean change of `size_needed` would
    have raised an alarm.
    """

    size: float
    n_fell: int
    n_rose: int
    size_needed: float


@suggesting()
@dataclass(frozen=True)
class Drift:
    """The result of `drift`: `path` has a row per run (mean, p of the strongest shift, state);
    `changes`: the alarms.

    `n` is the number of different runs since the last change. `notice` is the number of runs after
    which a lasting `fall` would probably be noticed; None if it would probably not be, because `n`
    runs or `n_questions` questions are too few, or the noise from run to run is too large. `repeats`
    is True if runs repeat exactly: then a fall is noticed at once, if at least `n_alike` questions
    share it. `n_questions` is the number of questions scored in the last different run, and
    `quiet_move` its change from the one before, if runs repeat exactly and it raised no alarm.
    """

    path: pd.DataFrame
    changes: tuple[Change, ...]
    fall: float
    notice: int | None
    n: int
    repeats: bool
    n_questions: int
    n_alike: int
    quiet_move: QuietMove | None = None

    @property
    def text(self) -> str:
        """Return the conclusion in one line: the last change; without one "nothing shown" (never "no
        change"), and whether a fall would be noticed.
        """
        if self.changes:
            return self.changes[-1].text
        power = self._power_if_repeated() if self.repeats else self._power_in_noise()
        return f"nothing shown; {power}{self._quiet_move_in_words()}"

    def _power_if_repeated(self) -> str:
        """Return a clause about runs that repeat exactly: whether a fall would be noticed."""
        would_be_noticed = self.notice is not None
        if would_be_noticed:
            return (
                f"runs repeat exactly, and a fall of {self.fall:.2g} or more is "
                f"noticed at once if {self.n_alike} questions or more share it"
            )
        return (
            f"runs repeat exactly, and {self.n_questions} questions are too few "
            f"for an alarm: {self.n_alike} must fall alike"
        )

    def _quiet_move_in_words(self) -> str:
        """Return the last change and the change that an alarm needs, as a clause; "" without one."""
        if self.quiet_move is None:
            return ""
        move = self.quiet_move
        return (
            f"; the last change was {move.size:+.3f} ({move.n_fell} questions fell, "
            f"{move.n_rose} rose), and an alarm needs {move.size_needed:.3f} where questions move "
            "like that"
        )

    def _power_in_noise(self) -> str:
        """Return a clause about runs that vary from night to night: after how many runs a fall
        would be noticed, or why it would not.
        """
        would_be_noticed = self.notice is not None
        if would_be_noticed:
            return (
                f"a fall of {self.fall:.2g} or more would be noticed within "
                f"about {self.notice} runs"
            )
        if self.n < MIN_EARLIER:
            runs = plural(self.n, "distinct run")
            return f"not enough data: {runs}; a fall of {self.fall:.2g} needs {MIN_EARLIER}"
        return (
            f"a fall of {self.fall:.2g} is within the noise from run to run "
            "and would not be noticed"
        )


def drift(values: pd.DataFrame, *, streams: int = 1, fall: float = 0.05) -> Drift:
    """Test after every run if the mean of a measure moved; see the module for the method and its
    limits.

    States of a run: "first"; "unchanged" (every value equals the value in the run before, which is
    no evidence); "nothing shown"; "fall" or "rise" (an alarm is raised).

    Args:
        values: a row per run in order of time, labelled by its date; a column per question, NaN for
            an unscored one.
        streams: the number of measures that are watched together.
        fall: the size of a change that matters; less than half of it raises no alarm.

    >>> import numpy as np, pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> nights = pd.DataFrame(0.7 + rng.normal(0, 0.15, (50, 97)), columns=[f"q{i}" for i in range(97)])
    >>> drift(nights, streams=20).text
    'nothing shown; a fall of 0.05 or more would be noticed within about 5 runs'
    >>> nights.loc[40:] -= 0.06
    >>> drift(nights, streams=20).text
    'fall from 0.698 to 0.645 since 40 (between 40 and 41)'
    >>> same_answers = pd.concat([nights.loc[[0, 0, 0]], nights.loc[[0]] - 0.06], ignore_index=True)
    >>> drift(same_answers, streams=20).text
    'fall from 0.718 to 0.658 since 3'

    Raises:
        ConfigError: `streams` or `fall` is not positive.
    """
    for name, number in (("streams", streams), ("fall", fall)):
        if not number > 0:
            raise ConfigError(f"{name} is {number!r}; expected a number above 0")
    # There are two kinds of runs: those that equal the run before them in every value, and others.
    table = np.ascontiguousarray(values.to_numpy(dtype=float))
    scored_runs = np.flatnonzero(~np.isnan(table).all(axis=1))
    is_repeated = _is_repeated(table, scored_runs)
    repeated = np.flatnonzero(is_repeated)
    different = scored_runs[~is_repeated[scored_runs]]
    # The path has a row for each run; the tests below write p and the state of an alarm into it.
    path = pd.DataFrame({"mean": math.nan, "p": math.nan, "state": "nothing shown"}, values.index)
    path.iloc[:1, _STATE] = "first"
    path.iloc[repeated, _STATE] = "unchanged"
    path.iloc[scored_runs, _MEAN] = np.nanmean(table[scored_runs], axis=1)
    # An alarm takes a p below the level of its test, and a change of this size.
    smallest = fall / 2
    paired_level = 1 / (PAIRED_RUN_LENGTH * streams)
    # Against the noise a run has six tests (`_WINDOWS`), but these overlap: together they raise no more
    # false alarms than four independent ones.
    noise_level = 1 / (4 * RUN_LENGTH * streams)
    # Where runs repeat exactly there is no noise: two neighbouring runs are compared directly.
    pairs = _pairs_to_compare(different, repeated)
    changed_pairs, quiet_move = _test_pairs(values, pairs, paired_level, smallest, path)
    # The runs before, between and after these changes are tested against their noise.
    changes: list[Change] = []
    for pair in changed_pairs:
        is_before = different < pair.run
        before = different[is_before]
        changes_before, _ = _changes_in_noise(values, before, noise_level, smallest, path)
        change = _paired_change(values, pair)
        path.iloc[pair.noticed, _STATE] = change.direction
        changes += [*changes_before, change]
        different = different[~is_before]
    last_changes, unchanged = _changes_in_noise(values, different, noise_level, smallest, path)
    changes += last_changes
    # After how many runs would a fall be noticed from here on?
    n_questions = int((~np.isnan(table[different[-1]])).sum()) if len(different) else 0
    # the number of questions that must fall alike for an alarm of the paired test
    n_alike = _n_alike(paired_level)
    repeats = _is_one_repeated(different[-_RECENT:], repeated, len(table))
    if repeats:  # the next run will be compared directly with the one before it
        notice = 1 if n_questions >= n_alike else None
    else:  # the next run will be tested against the noise, in which a single move means nothing
        notice = _runs_to_notice(table[unchanged], noise_level, fall)
        quiet_move = None
    return Drift(
        path=path,
        changes=tuple(changes),
        fall=fall,
        notice=notice,
        n=len(unchanged),
        repeats=repeats,
        n_questions=n_questions,
        n_alike=n_alike,
        quiet_move=quiet_move,
    )


class _Pair(NamedTuple):
    """Positions of a run, of the last different run before it, and of the run at which the two are
    compared: the run itself, or its first repetition if no earlier run was repeated.
    """

    before: int
    run: int
    noticed: int


def _is_repeated(table: Floats, scored_runs: Ints) -> Bools:
    """Return a mask (runs,): True for a run whose every value equals the scored run before it."""
    is_repeated = np.zeros(len(table), dtype=bool)
    rows = table[scored_runs]
    is_same = (rows[1:] == rows[:-1]) | (np.isnan(rows[1:]) & np.isnan(rows[:-1]))
    is_repeated[scored_runs[1:]] = is_same.all(axis=1)
    return is_repeated


def _test_pairs(
    values: pd.DataFrame, pairs: list[_Pair], level: float, smallest: float, path: pd.DataFrame
) -> tuple[list[_Pair], QuietMove | None]:
    """Test the difference between the two runs of each pair, and write its p into `path`.

    An alarm takes a p below `level`, and a mean difference of `smallest` or more.

    Returns:
        The pairs that raise an alarm, and the move of the last pair if it raised none.
    """
    changed = []
    quiet_move: QuietMove | None = None
    for pair in pairs:
        before, after = values.iloc[pair.before], values.iloc[pair.run]
        p, size = _p_of_pair(before, after)
        path.iloc[pair.noticed, _P] = p
        if p < level and abs(size) >= smallest:
            changed.append(pair)
            quiet_move = None  # only a move after the last alarm is of interest
        else:
            quiet_move = _quiet_move(before, after, level, smallest)
    return changed, quiet_move


def _pairs_to_compare(different: Ints, repeated: Ints) -> list[_Pair]:
    """Return the pairs of neighbouring different runs that can be compared directly.

    A run that repeats the run before it exactly shows that runs have no noise: every difference is then
    a change of the system. So a pair can be compared if one of the last `_RECENT` different runs before
    its second run was repeated (a change is then noticed at the second run), or if the second run itself
    is repeated (a change is then noticed at its first repetition).

    Args:
        different: ascending positions of the runs that differ from the run before them.
        repeated: ascending positions of the runs that equal the run before them.
    """
    pairs = []
    run_after = [*different[1:].tolist(), math.inf]  # the different run after each different run
    for position in range(1, len(different)):
        before = int(different[position - 1])
        run = int(different[position])
        last_before = different[:position][-_RECENT:]
        repetitions = repeated[(repeated > run) & (repeated < run_after[position])]
        if _is_one_repeated(last_before, repeated, run):
            pairs.append(_Pair(before, run, noticed=run))
        elif len(repetitions):
            pairs.append(_Pair(before, run, noticed=int(repetitions[0])))
    return pairs


def _is_one_repeated(different: Ints, repeated: Ints, end: int) -> bool:
    """Return True if one of some neighbouring different runs was repeated before the run `end`; all
    arguments are positions of runs.
    """
    if not len(different):
        return False
    return bool(((repeated > different[0]) & (repeated < end)).any())


def _p_of_pair(before: pd.Series, after: pd.Series) -> tuple[float, float]:
    """Test whether two runs (values by question) differ on the questions that both have.

    If nothing changed, each difference is as likely to be positive as negative. The normal tail times
    `_TAIL_FACTOR` is an upper bound of p for a sum of such differences, whatever their sizes (Bentkus &
    Dzindzalieta 2015, "A tight Gaussian bound for weighted sums of Rademacher random variables").

    Returns:
        The upper bound of the two-sided p, and the mean difference; 1 and 0 if no question differs.
    """
    from scipy.special import ndtr

    differences = (after - before).astype(float).dropna()
    if not differences.any():
        return 1.0, 0.0
    deviations = abs(float(differences.sum())) / _deviation_of_sum(differences)
    p = min(1.0, 2 * _TAIL_FACTOR * float(ndtr(-deviations)))
    return p, float(differences.mean())


def _deviation_of_sum(differences: pd.Series) -> float:
    """Return the standard deviation of the sum of the differences if their signs are random: the root
    of the sum of their squares.

    The turns of a conversation depend on each other, so they count as one difference, their sum.
    """
    clusters = clusters_of(differences.index, {})  # {}: the words of the questions are not known
    sums = differences.groupby(clusters).sum() if clusters else differences
    return math.sqrt(float((sums**2).sum()))


def _deviations_needed(level: float) -> float:
    """Return how many standard deviations (`_deviation_of_sum`) the sum of the differences of two runs
    must be from 0 to raise an alarm: where its p by `_p_of_pair` is `level`.
    """
    from scipy.special import ndtri

    return -float(ndtri(level / (2 * _TAIL_FACTOR)))


def _n_alike(level: float) -> int:
    """Return the smallest number of equal differences between two runs that raises an alarm.

    The sum of n equal differences is sqrt(n) standard deviations from 0.
    """
    return math.floor(_deviations_needed(level) ** 2) + 1


def _quiet_move(
    before: pd.Series, after: pd.Series, level: float, smallest: float
) -> QuietMove | None:
    """Describe the move between two runs that raised no alarm; None if no question moved.

    An alarm takes a p below `level` and a mean difference of `smallest` or more. `size_needed` of the
    result is the mean difference at which both would hold.
    """
    differences = (after - before).astype(float).dropna()
    if not differences.any():
        return None
    sum_needed = _deviations_needed(level) * _deviation_of_sum(differences)
    return QuietMove(
        size=float(differences.mean()),
        n_fell=int((differences < 0).sum()),
        n_rose=int((differences > 0).sum()),
        size_needed=max(sum_needed / len(differences), smallest),
    )


def _changes_in_noise(
    values: pd.DataFrame, runs: Ints, level: float, smallest: float, path: pd.DataFrame
) -> tuple[list[Change], Ints]:
    """Find the changes among runs whose scores vary from night to night; write the p of each run and the
    state of each alarm into `path`.

    Runs are tested in blocks, since testing many at once is faster; each block has twice the size of
    the block before it. After an alarm the runs before the change are dropped. The runs from the change
    to the alarm are not tested again: later runs are compared with them.

    Args:
        values: a row per run, a column per question.
        runs: ascending positions of the runs to test.
        level: an alarm takes a p below it.
        smallest: an alarm takes a change of this size or more.
        path: the table of all runs.

    Returns:
        The changes, and the positions of the runs since the last change.
    """
    table = np.ascontiguousarray(values.to_numpy(dtype=float))
    changes: list[Change] = []
    unchanged = np.arange(0)  # the tested runs since the last change
    block_size = _BLOCK
    while len(runs):
        tried = np.append(unchanged, runs[:block_size])
        p, is_alarm = _strongest_shifts(
            table[tried], n_tested_before=len(unchanged), level=level, smallest=smallest
        )
        n_tested = len(p)
        if is_alarm.any():  # the runs after the alarm wait for the next block
            n_tested = int(np.argmax(is_alarm)) + 1
        tested = runs[:n_tested]
        runs = runs[n_tested:]
        has_p = ~np.isnan(p[:n_tested])
        path.iloc[tested[has_p], _P] = p[:n_tested][has_p]
        unchanged = tried[: len(unchanged) + n_tested]
        block_size *= 2
        if is_alarm.any():
            change, first_after = _dated_change(values, unchanged, night_effects(table[unchanged]))
            changes.append(change)
            path.iloc[tested[-1:], _STATE] = change.direction
            unchanged = unchanged[first_after:]  # from the change to the alarm
            block_size = _BLOCK
    return changes, unchanged


def night_effects(table: Floats) -> Floats:
    """Compute how far each night (row) moves the scores of all its questions (columns).

    The effect a_t of night t is fitted by least squares of x_tq = m_q + a_t, with the mean m_q of
    question q; the effects add up to 0.

    A question that is missing in one night does not move the effect of the night:

    >>> night_effects(np.array([[0.2, 0.8], [0.1, math.nan], [0.2, 0.8]])).round(3)
    array([ 0.033, -0.067,  0.033])
    """
    scored = (~np.isnan(table)).astype(float)
    filled = np.where(scored > 0, table, 0.0)
    n_of_question = np.maximum(scored.sum(axis=0), 1)
    n_of_night = np.maximum(scored.sum(axis=1), 1)
    # questions and nights are fitted in turn; one round is exact if every night has all questions
    n_rounds = 1 if scored.all() else _ROUNDS
    effects: Floats = np.zeros(len(table))
    for _ in range(n_rounds):
        question_means = (filled.sum(axis=0) - effects @ scored) / n_of_question
        effects = (filled.sum(axis=1) - scored @ question_means) / n_of_night
    effects -= effects.mean()
    return effects


def _strongest_shifts(
    table: Floats, n_tested_before: int, level: float, smallest: float
) -> tuple[Floats, Bools]:
    """Test after each night (run) of a table (nights, questions) whether the last nights differ from the
    earlier ones; the first `n_tested_before` nights are not tested again.

    A shift is the difference of the last few nights from all earlier ones; several numbers of last
    nights are tried (`_WINDOWS`).

    Returns:
        For each tested night the p of the strongest shift (NaN: too few nights), and True if a
        shift is an alarm: its p is below `level`, and the last nights differ by `smallest` or more.
    """
    scored = ~np.isnan(table)
    # after how many nights a test is made
    ends = np.arange(n_tested_before, len(table)) + 1
    # If all nights score the same questions, the effect of a night does not depend on later nights, and
    # all tests use the same effects. Else each test computes the effects of the nights up to its own.
    has_same_questions = (scored == scored[0]).all()
    if has_same_questions or len(ends) == 1:
        return _strongest_shifts_of_effects(night_effects(table), ends, level, smallest)
    p_values = np.full(len(ends), math.nan)
    is_alarm = np.zeros(len(ends), dtype=bool)
    for i, end in enumerate(ends):
        p_values[[i]], is_alarm[[i]] = _strongest_shifts_of_effects(
            night_effects(table[:end]), ends[[i]], level, smallest
        )
    return p_values, is_alarm


def _strongest_shifts_of_effects(
    effects: Floats, ends: Ints, level: float, smallest: float
) -> tuple[Floats, Bools]:
    """Test whether the last nights differ from the earlier ones, after each number of nights in `ends`.

    `effects` tells how far each night moves all its scores. The results are those of
    `_strongest_shifts`: the p of the strongest shift (NaN: too few nights), and True for an alarm, whose
    p is below `level` and whose shift is `smallest` or more.
    """
    effects = effects - np.median(effects)  # if most nights are equal, they are exactly 0
    p = np.full(len(ends), math.nan)
    is_alarm = np.zeros(len(ends), dtype=bool)
    for n_last in _WINDOWS:
        tested = np.flatnonzero(ends - n_last >= MIN_EARLIER)
        if not len(tested):
            continue
        p_of_window = _p_of_shift(effects, n_last, ends[tested])
        p[tested] = np.fmin(p[tested], p_of_window)
        for i in tested[p_of_window < level]:
            nights = effects[: ends[i]]
            # the median, because one bad night among the last few must not raise an alarm alone
            shift = np.median(nights[-n_last:]) - nights[:-n_last].mean()
            is_alarm[i] |= abs(shift) >= smallest
    return p, is_alarm


def _p_of_shift(effects: Floats, n_last: int, ends: Ints) -> Floats:
    """Test whether the last nights differ from the earlier ones, by Student's t; a night is a run.

    Student's t supposes independent values, but neighbouring nights are correlated (r). So the means of
    the steps x_t - r x_(t-1) are compared, which are nearly independent. The first night has no step, so
    the n earlier nights have n - 1 steps, and n - 3 degrees of freedom: the mean and r are estimated.

    Args:
        effects: how far each night moves all its scores (nights,).
        n_last: the number of the last nights.
        ends: after how many nights a test is made (tests,).

    Returns:
        The two-sided p of each test (tests,).
    """
    from scipy.special import stdtr

    n_earlier = ends - n_last
    r, deviation_of_steps = _noise(effects, n_earlier)
    sums = np.append(0, np.cumsum(effects))  # sums[i]: of the first i nights
    # the sum of the x_t of these steps, less r times the sum of the x_(t-1), one night earlier
    sum_of_last_steps = sums[ends] - sums[n_earlier] - r * (sums[ends - 1] - sums[n_earlier - 1])
    sum_of_earlier_steps = sums[n_earlier] - effects[0] - r * sums[n_earlier - 1]
    distance = np.abs(sum_of_last_steps / n_last - sum_of_earlier_steps / (n_earlier - 1))
    error = deviation_of_steps * np.sqrt(1 / n_last + 1 / (n_earlier - 1))
    has_error = error > 0
    p: Floats = 2 * stdtr(n_earlier - 3, -distance / np.where(has_error, error, 1))
    p_without_error = distance == 0  # 1 if nothing moved, else 0
    return np.where(has_error, p, p_without_error)


def _noise_of_first(effects: Floats, n: int) -> tuple[float, float]:
    """Return the correlation of neighbouring nights and the deviation of their steps, estimated from
    the first `n` nights (`_noise`).
    """
    correlations, deviations = _noise(effects, np.array([n]))
    return correlations[0], deviations[0]


def _noise(effects: Floats, n: Ints) -> tuple[Floats, Floats]:
    """Estimate how the effects vary from night to night while nothing changes: from the first n nights,
    for each number in `n`.

    The model: x_t - m = r (x_(t-1) - m) + a random step, with the effect x_t of night t, the mean m of
    all effects, and the correlation r of neighbouring nights.

    Args:
        effects: the effect of each night, in order.
        n: the numbers of first nights to estimate from, each at least 4.

    Returns:
        The correlation r, and the standard deviation of the steps x_t - r x_(t-1); arrays with a value
        per entry of `n`. The correlation is rather too high than too low (`_safe_correlation`), since
        one that is too low leads to false alarms.
    """
    # sums[i]: of the first i nights; all sums below are differences of running sums
    sums = np.append(0, np.cumsum(effects))
    squares = np.append(0, np.cumsum(effects**2))
    products = np.append(0, np.cumsum(effects[1:] * effects[:-1]))
    mean = sums[n] / n
    first = effects[0]
    last = effects[n - 1]
    # The deviations from the mean are d_t = x_t - mean. Their squares d_t^2 are summed from night 1 to n,
    # the products d_t d_(t-1) = x_t x_(t-1) - mean (x_t + x_(t-1) - mean) from night 2 to n.
    sum_d2 = np.maximum(squares[n] - n * mean**2, 0)
    sum_dd = products[n - 1] - mean * (2 * sums[n] - first - last - (n - 1) * mean)
    r = _safe_correlation(np.clip(sum_dd / np.where(sum_d2 > 0, sum_d2, 1), 0, 1), n)
    # The squares of the n - 1 steps are (d_t - r d_(t-1))^2 = d_t^2 - 2 r d_t d_(t-1) + r^2 d_(t-1)^2,
    # summed from night 2 to n. All d_t together are 0. Mean and r are estimated: n - 3 degrees of freedom.
    d_first = first - mean
    d_last = last - mean
    sum_of_squares = sum_d2 - d_first**2 - 2 * r * sum_dd + r * r * (sum_d2 - d_last**2)
    sum_of_steps = r * d_last - d_first
    variance = (sum_of_squares - sum_of_steps**2 / (n - 1)) / (n - 3)
    return r, np.sqrt(np.maximum(variance, 0))


def _safe_correlation(r: Floats, n: Ints) -> Floats:
    """Return a correlation that is rather too high than too low, from its estimate by `n` nights.

    The estimate is too low by about (1 + 3 r) / n on average (Kendall 1954), with a standard error of
    sqrt((1 - r^2) / n); more than the bias is added, because too low an r is a false alarm, and too
    high an r a later one.
    """
    bias_and_more = (1 + 8 * r) / n
    standard_error = r * np.sqrt((1 - r * r) / n)
    raised = r + (bias_and_more + standard_error)
    return np.where(n >= _ENOUGH, np.minimum(raised, _MAX_CORRELATION), _MAX_CORRELATION)


def _dated_change(values: pd.DataFrame, runs: Ints, effects: Floats) -> tuple[Change, int]:
    """Find the run at which a change happened: where splitting the runs into earlier and later ones has
    the highest likelihood.

    The 95 % range of dates has every run whose log-likelihood is at most x below the highest one, where
    (1 - exp(-x))^2 = .95 (Siegmund 1988, "Confidence sets in change-point problems", Int. Stat. Review
    56(1)).

    Args:
        values: a row per run, among others those in `runs`.
        runs: the ascending positions of the runs since the last change, with this change in them.
        effects: how far each of these runs moves all its scores (runs,); they add up to 0.

    Returns:
        The change, and the index in `runs` of the first run after it.
    """
    moves, log_likelihood_ratios = _compare_splits(effects)
    best = int(np.argmax(log_likelihood_ratios))
    lowest = log_likelihood_ratios[best] - _LIKELIHOOD_DROP
    likely = np.flatnonzero(log_likelihood_ratios >= lowest)
    first_after = best + 1  # split i has i + 1 runs before the change
    labels = values.index[runs]
    table = values.iloc[runs].astype(float)
    change = _change_between(
        table.iloc[:first_after].mean(),
        table.iloc[first_after:].mean(),
        is_fall=bool(moves[best] < 0),
        noticed=labels[-1],
        since=labels[first_after],
        earliest=labels[int(likely[0]) + 1],
        latest=labels[int(likely[-1]) + 1],
    )
    return change, first_after


def _compare_splits(effects: Floats) -> tuple[Floats, Floats]:
    """Compare the earlier and the later runs at each split: after the first run, after the second, and
    so on.

    Args:
        effects: how far each run moves all its scores, in order; they add up to 0.

    Returns:
        For each split the move of the mean effect (later minus earlier), and the logarithm of the
        likelihood ratio of a change at this split to no change.
    """
    n = len(effects)
    n_before = np.arange(1, n)
    n_after = n - n_before
    sums_before = np.cumsum(effects)[:-1]
    moves = -sums_before / n_after - sums_before / n_before  # the sum after is -`sums_before`
    # the noise is estimated without the last few runs, which are after the change
    r, deviation_of_steps = _noise_of_first(effects, n - min(_WINDOWS))
    twice_variance = max(2 * deviation_of_steps**2, 1e-300)  # not 0 if all runs are equal
    # Steps x_t - r x_(t-1) are nearly independent, with the correlation r of neighbouring runs. A lasting
    # move of the effects moves them by 1 - r of it. For a difference of the means of independent normal
    # values the logarithm is: its square * weight / (2 * variance).
    weights = n_before * n_after / n
    return moves, moves**2 * weights * (1 - r) ** 2 / twice_variance


def _paired_change(values: pd.DataFrame, pair: _Pair) -> Change:
    """Return the change between the two runs of a pair.

    The run of the change is known, so it is also the first and the last that the change may have.

    Args:
        values: the value of each question (columns) in each run (rows, with the labels of the runs).
    """
    before = values.iloc[pair.before].astype(float)
    after = values.iloc[pair.run].astype(float)
    since = values.index[pair.run]
    return _change_between(
        before,
        after,
        is_fall=bool((after - before).mean() < 0),
        noticed=values.index[pair.noticed],
        since=since,
        earliest=since,
        latest=since,
    )


def _change_between(before: pd.Series, after: pd.Series, *, is_fall: bool, **dates: Any) -> Change:
    """Return the change between two values of each question, over the questions that have both; with the
    five questions that moved most in its direction.

    `dates` are the fields noticed, since, earliest and latest of the `Change`.
    """
    moves = (after - before).dropna()
    in_direction = moves[(moves < 0) == is_fall]
    strongest = in_direction.sort_values(ascending=is_fall, kind="stable").head(5)
    return Change(
        direction="fall" if is_fall else "rise",
        before=float(before[moves.index].mean()),
        after=float(after[moves.index].mean()),
        questions={str(question): float(move) for question, move in strongest.items()},
        **dates,
    )


def _runs_to_notice(values: Floats, level: float, fall: float) -> int | None:
    """Return how many runs after a lasting fall an alarm is expected; None if none is expected, or there
    are too few runs to test.

    The last runs are compared with the earlier ones by the means of their steps x_t - r x_(t-1), with the
    correlation r of neighbouring runs, by Student's t with n - 3 degrees of freedom (the mean and r of the
    n runs are estimated; see `_p_of_shift`). The first step after a fall falls by all of it, and each
    later step by 1 - r of it. Expected is an alarm as soon as the mean fall of the steps is as many
    standard errors as the level takes.

    Args:
        values: the values of the runs so far, which have no change (runs, questions).
        level: an alarm takes a p below it.
        fall: the size of the fall.
    """
    from scipy.special import stdtrit

    n = len(values)
    if n < MIN_EARLIER:
        return None
    effects = night_effects(values)  # how far each run moves the values of all questions
    r, deviation_of_steps = _noise_of_first(effects, n)
    errors_needed = -float(stdtrit(n - 3, level / 2))
    for n_fallen in _WINDOWS:
        fall_of_later_steps = (n_fallen - 1) * (1 - r) * fall
        mean_fall_of_steps = (fall + fall_of_later_steps) / n_fallen
        error = deviation_of_steps * math.sqrt(1 / n_fallen + 1 / (n - 1))
        if mean_fall_of_steps >= errors_needed * error:
            return n_fallen
    return None
