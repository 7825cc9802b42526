"""Runs over time: effects by hand, and over many simulated histories how often alarms are false and
how soon true.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy.stats import t

from ragbench.errors import ConfigError
from ragbench.statistics import drift
from ragbench.statistics.drift import RUN_LENGTH, _p_of_pair, night_effects

Floats = npt.NDArray[np.floating]
NIGHTS, QUESTIONS, STREAMS = 120, 97, 20


def test_effects_of_nights_by_hand() -> None:
    full = np.array([[0.5, 0.5, 1.0], [0.4, 0.5, 0.8], [0.4, 0.6, 0.6]])
    assert night_effects(full) == pytest.approx(full.mean(axis=1) - full.mean())


def test_effects_do_not_depend_on_which_questions_a_night_has() -> None:
    rng = np.random.default_rng(0)
    effects, questions = rng.normal(0, 0.1, 30), rng.random(80)
    table = effects[:, None] + questions
    table[rng.random(table.shape) < 0.6] = np.nan
    assert night_effects(table) == pytest.approx(effects - effects.mean(), abs=1e-3)
    replaced = effects[:, None] + questions
    replaced[:15, :26], replaced[15:, 54:] = np.nan, np.nan  # a third replaced after 15 nights
    assert night_effects(replaced) == pytest.approx(effects - effects.mean(), abs=1e-3)


def test_a_run_with_the_same_values_is_unchanged_and_no_evidence() -> None:
    runs = pd.DataFrame([[0.5, np.nan, 1.0]] * 200)
    found = drift(runs)
    assert found.path["state"].tolist() == ["first"] + ["unchanged"] * 199
    assert found.path["p"].isna().all()
    assert found.text.startswith("nothing shown; ")
    assert "2 questions are too few for an alarm: 14 must" in found.text


def test_questions_and_nights_without_scores_do_not_count() -> None:
    rng = np.random.default_rng(3)
    runs = pd.DataFrame(0.5 + rng.normal(0, 0.1, (50, 40)))
    with_gaps = runs.assign(never=np.nan)
    with_gaps.iloc[10] = np.nan
    pd.testing.assert_frame_equal(
        drift(with_gaps).path.drop(index=10)[["p", "state"]],
        drift(runs.drop(index=10)).path[["p", "state"]],
    )
    assert math.isnan(drift(with_gaps).path["mean"].iloc[10])


def test_noise_as_large_as_the_fall_is_stated() -> None:
    rng = np.random.default_rng(0)
    runs = pd.DataFrame(redrawn(rng, 60))
    assert "is within the noise from run to run and would not be noticed" in drift(runs).text


def test_an_alarm_has_a_date_with_a_range_and_the_questions_that_fell_most() -> None:
    rng = np.random.default_rng(1)
    dates = pd.date_range("2026-01-01", periods=60).strftime("%Y-%m-%d")
    runs = pd.DataFrame(
        0.7 + rng.normal(0, 0.15, (60, 97)), index=dates, columns=[f"q{i}" for i in range(97)]
    )
    runs.iloc[40:, :10] -= 0.5
    [change] = drift(runs, streams=STREAMS).changes
    assert change.direction == "fall"
    assert change.earliest <= dates[40] <= change.latest
    assert set(change.questions) <= {f"q{i}" for i in range(10)}
    assert change.before - change.after == pytest.approx(0.5 * 10 / 97, abs=0.02)
    rise = drift(-runs, streams=STREAMS).changes[0]
    assert (rise.direction, rise.since) == ("rise", change.since)


def test_one_bad_night_raises_no_alarm_alone() -> None:
    rng = np.random.default_rng(2)
    runs = pd.DataFrame(0.7 + rng.normal(0, 0.15, (60, 97)))
    runs.iloc[40] -= 0.5
    assert not drift(runs, streams=STREAMS).changes


@pytest.mark.parametrize("given", [{"streams": 0}, {"fall": math.nan}])
def test_settings_out_of_range_are_refused(given: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="expected a number above 0"):
        drift(pd.DataFrame([[1.0]]), **given)  # type: ignore[arg-type]


def noise(rng: np.random.Generator, nights: int, correlation: float = 0.0) -> Floats:
    """Scores of a judge: a value per question, with noise of .17 that persists from night to night."""
    values = rng.normal(0, 0.17, (nights, QUESTIONS))
    for night in range(1, nights):
        values[night] = (
            correlation * values[night - 1] + math.sqrt(1 - correlation**2) * values[night]
        )
    return rng.beta(4, 1.5, QUESTIONS) + values


def redrawn(rng: np.random.Generator, nights: int) -> Floats:
    """Right or wrong: a probability per question, and 10 % of the answers drawn anew each night."""
    chance = rng.beta(2, 1, QUESTIONS)
    values = (rng.random((nights, QUESTIONS)) < chance).astype(float)
    for night in range(1, nights):
        values[night] = np.where(rng.random(QUESTIONS) < 0.1, values[night], values[night - 1])
    return values


HISTORIES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "independent": noise,
    "autocorrelation .5": lambda rng, nights: noise(rng, nights, 0.5),
    "autocorrelation .9": lambda rng, nights: noise(rng, nights, 0.9),
    "10 % redrawn": redrawn,
    "weekly cycle": lambda rng, nights: (
        noise(rng, nights) + 0.03 * np.sin(np.arange(nights) * 2 * np.pi / 7)[:, None]
    ),
    "common shock": lambda rng, nights: noise(rng, nights) + rng.normal(0, 0.03, (nights, 1)),
}
NOTICED = {
    "independent": 0.95,
    "autocorrelation .5": 0.8,
    "autocorrelation .9": 0.4,
    "10 % redrawn": 0.0,
    "weekly cycle": 0.6,
    "common shock": 0.8,
}


def delay(values: Floats, fall: float = 0.05, at: int = 60) -> float:
    """Nights until a lasting fall is noticed, infinite where it is not."""
    fallen = values.copy()
    fallen[at:] -= fall
    return next(
        (
            change.noticed - at + 1
            for change in drift(pd.DataFrame(fallen)).changes
            if change.noticed >= at
        ),
        math.inf,
    )


@pytest.mark.simulation
def test_false_alarms_are_rare_and_falls_are_noticed() -> None:
    print(
        "\nhistories of 120 nights: false alarm; a fall of .05 after 60: noticed within 30 "
        "nights, median delay"
    )
    for name, history in HISTORIES.items():
        rng = np.random.default_rng(0)
        false = np.mean(
            [bool(drift(pd.DataFrame(history(rng, NIGHTS))).changes) for _ in range(150)]
        )
        delays = np.array([delay(history(rng, NIGHTS)) for _ in range(40)])
        noticed = float((delays <= 30).mean())
        print(f"{name:20} {false:.3f} {noticed:.2f} {np.median(delays):g}", flush=True)
        assert false <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 150), name
        assert noticed >= NOTICED[name], name


@pytest.mark.parametrize("name", HISTORIES)
def test_a_few_histories_raise_no_alarm(name: str) -> None:
    rng = np.random.default_rng(2)
    assert not any(drift(pd.DataFrame(HISTORIES[name](rng, 80))).changes for _ in range(2))


@pytest.mark.parametrize("missing", [0.0, 0.2, 0.4, 0.6])
@pytest.mark.parametrize("replaced", [False, True])
def test_changing_question_sets_do_not_hide_a_fall(missing: float, replaced: bool) -> None:
    rng = np.random.default_rng(4)
    delays = []
    for _ in range(3):
        values = noise(rng, 100)
        values[rng.random(values.shape) < missing] = np.nan
        if replaced:  # a third of the questions is new from night 50 on
            values[:50, :32], values[50:, 65:] = np.nan, np.nan
        delays.append(delay(values))
    print(
        f"\n{missing} missing{', a third replaced' if replaced else ''}: a fall of .05 is "
        f"noticed after {delays}"
    )
    assert max(delays) <= 30


def test_the_announced_number_of_runs_is_about_right() -> None:
    rng = np.random.default_rng(5)
    histories = [noise(rng, 100) for _ in range(5)]
    announced = [drift(pd.DataFrame(values[:60])).notice or math.inf for values in histories]
    assert 0.3 <= np.median(announced) / np.median([delay(values) for values in histories]) <= 3


@pytest.mark.simulation
def test_the_range_holds_the_change() -> None:
    rng = np.random.default_rng(4)
    held = []
    for _ in range(40):
        found = drift(
            pd.DataFrame(np.where(np.arange(100)[:, None] < 50, 0, -0.08) + noise(rng, 100))
        )
        held += [
            change.earliest <= 50 <= change.latest
            for change in found.changes
            if change.noticed >= 50
        ][:1]
    print(
        f"\nthe range holds the date of the change in {np.mean(held):.2f} of {len(held)} histories"
    )
    assert np.mean(held) >= 0.9


def test_p_of_a_shift_by_hand() -> None:
    """Of 14 nights the last three are compared with the first eleven, too few to estimate r."""
    x = np.random.default_rng(5).random(14)
    steps = x[1:] - 0.98 * x[:-1]
    away = x[:11] - x[:11].mean()
    error = np.std(away[1:] - 0.98 * away[:-1], ddof=2) * math.sqrt(1 / 3 + 1 / 10)
    size = abs(steps[-3:].mean() - steps[:-3].mean())
    expected = 2 * t.sf(size / error, 11 - 3)
    assert drift(pd.DataFrame(x)).path["p"].iloc[13] == pytest.approx(expected)


def test_ten_runs_are_enough_to_announce_when_a_fall_would_be_noticed() -> None:
    quiet = pd.DataFrame(0.5 + 1e-4 * np.random.default_rng(0).random((10, 4)))
    assert (drift(quiet[:9]).notice, drift(quiet).notice) == (None, 3)


def test_a_question_that_did_not_move_is_not_part_of_a_fall() -> None:
    runs = pd.DataFrame(0.7 + np.random.default_rng(1).normal(0, 0.02, (60, 2)), columns=["a", "b"])
    runs.iloc[40:] -= 0.5
    [change] = drift(runs.assign(still=0.5)).changes
    assert set(change.questions) == {"a", "b"}


def test_the_fall_that_three_runs_show_by_hand() -> None:
    """Of 20 runs r is taken as .98: a fall moves the first step by all of it, two more by .02."""
    x = np.random.default_rng(4).normal(0.5, 0.01, 20)
    away = x - x.mean()
    spread = np.std(away[1:] - 0.98 * away[:-1], ddof=2)
    limit = t.isf(1 / (4 * RUN_LENGTH) / 2, 20 - 3) * spread * math.sqrt(1 / 3 + 1 / 19)
    fall = 3 * limit / (1 + 2 * 0.02)
    assert drift(pd.DataFrame(x), fall=1.001 * fall).notice == 3
    assert drift(pd.DataFrame(x), fall=0.999 * fall).notice != 3


@pytest.mark.parametrize(("move", "n_changes"), [(0.024, 0), (0.026, 1)])
def test_less_than_half_of_the_fall_that_matters_raises_no_alarm(
    move: float, n_changes: int
) -> None:
    runs = pd.DataFrame(0.7 + np.random.default_rng(6).normal(0, 1e-4, (60, 4)))
    runs.iloc[40:] -= move
    found = drift(runs, fall=0.05)
    assert len(found.changes) == n_changes
    assert found.n == (20 if n_changes else 60), "the runs since the change"


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        (0.0, (0.8127914184129948, 0.2544476258304313, 9.144604602316982e-12, 0.07062036552016121)),
        (
            0.02,
            (0.8091325319644285, 0.22121276710689816, 9.51858148974421e-12, 0.06630031206284667),
        ),
    ],
)
def test_running_sums_give_the_p_of_the_formula_in_the_module(
    missing: float, expected: tuple[float, ...]
) -> None:
    """The numbers were computed night by night, by the formula over all earlier nights."""
    rng = np.random.default_rng(7)
    values = noise(rng, 90, 0.5)
    values[rng.random(values.shape) < missing] = np.nan
    values[60:] -= 0.2
    path = drift(pd.DataFrame(values), streams=STREAMS).path
    assert path["p"].iloc[[13, 45, 61, 89]].tolist() == pytest.approx(expected, rel=1e-9)
    assert path.index[path["state"] == "fall"].tolist() == [61]


def repeated(*runs: tuple[Floats, int]) -> pd.DataFrame:
    """Runs that repeat exactly: each of these values for so many nights."""
    nights = [values for values, n in runs for _ in range(n)]
    return pd.DataFrame(nights, columns=[f"q{i}" for i in range(len(nights[0]))])


def test_a_collapse_of_a_system_that_repeats_is_an_alarm_on_the_first_night() -> None:
    good = np.random.default_rng(0).random(93) * 0.75
    nights = repeated((good, 6), (0 * good, 3), (good, 3))
    found = drift(nights, streams=STREAMS)
    assert [(change.direction, change.noticed) for change in found.changes] == [
        ("fall", 6),
        ("rise", 9),
    ]
    assert found.changes[0].before == pytest.approx(good.mean())
    assert found.changes[0].after == 0
    assert found.path["state"].tolist() == [
        "first",
        *["unchanged"] * 5,
        "fall",
        *["unchanged"] * 2,
        "rise",
        *["unchanged"] * 2,
    ]


@pytest.mark.parametrize("n_falling", [93, 40, 20])
def test_a_fall_of_a_twentieth_that_the_questions_show_is_noticed_at_once(n_falling: int) -> None:
    good = np.random.default_rng(0).random(93) * 0.5 + 0.3
    worse = good.copy()
    worse[:n_falling] -= 0.05 * 93 / n_falling
    [change] = drift(repeated((good, 2), (worse, 1)), streams=STREAMS).changes
    assert (change.direction, change.noticed) == ("fall", 2)
    assert change.before - change.after == pytest.approx(0.05)


def test_a_fall_of_few_questions_or_of_little_is_no_alarm() -> None:
    good = np.random.default_rng(0).random(93) * 0.5 + 0.3
    few, little = good.copy(), good - 0.024
    few[:19] -= 0.3
    for worse in (few, little):
        found = drift(repeated((good, 5), (worse, 5)), streams=STREAMS)
        assert not found.changes
        assert "is noticed at once if 20 questions or more share it" in found.text


def test_a_fall_without_an_alarm_says_what_fall_its_questions_could_show() -> None:
    """13 questions fall by .5 and 3 rise by .25: -.0618. The questions need z = 4.3 (17 measures)
    times sqrt(13 * .25 + 3 * .0625) / 93.
    """
    good = np.full(93, 0.6)
    worse = good.copy()
    worse[:13] -= 0.5
    worse[13:16] += 0.25
    nights = repeated((good, 8), (worse, 8))
    found = drift(nights, streams=17)
    assert not found.changes
    assert found.text.endswith(
        "the last change was -0.062 (13 questions fell, 3 rose), and an alarm needs 0.086 where "
        "questions move like that"
    )
    again = drift(repeated((good, 8), (worse, 8), (good, 2)), streams=17)
    assert "the last change was +0.062" in again.text


def test_runs_are_compared_once_one_of_them_was_repeated() -> None:
    good = np.full(93, 0.7)
    first = drift(repeated((good, 1), (good - 0.3, 1)))
    assert not first.changes, "whether runs repeat is not known yet"
    [change] = drift(repeated((good, 1), (good - 0.3, 2))).changes
    assert (change.since, change.noticed) == (1, 2)


def test_a_night_without_any_score_ends_no_repetition() -> None:
    good = np.full(93, 0.7)
    nights = repeated((good, 1), (np.nan * good, 1), (good, 1), (good - 0.1, 1))
    found = drift(nights)
    assert found.path["state"].tolist() == ["first", "nothing shown", "unchanged", "fall"]


def test_questions_of_a_conversation_count_once_for_a_paired_alarm() -> None:
    good = np.full(93, 0.7)
    nights = repeated((good, 3), (good - 0.1, 1))
    assert drift(nights).changes
    nights.columns = [f"talk{i % 10}<::>{i}" for i in range(93)]
    assert not drift(nights).changes, "10 conversations cannot show it"


def test_a_system_that_stopped_repeating_is_compared_with_its_noise() -> None:
    rng = np.random.default_rng(0)
    level, questions = 0.7, 93
    noisy = level + rng.normal(0, 0.05, (40, 1)) + rng.normal(0, 0.01, (40, questions))
    nights = pd.DataFrame(np.vstack([np.full((5, questions), level), noisy]))
    alarms = [change.noticed for change in drift(nights, streams=STREAMS).changes]
    assert all(night < 5 + 11 for night in alarms), "shocks are noise once ten runs did not repeat"


@pytest.mark.parametrize("spread", ["equal", "uneven", "one large"])
def test_the_paired_p_is_never_below_the_probability_of_the_signs(spread: str) -> None:
    """Of 16 questions all 65,536 signs are tried, which are equally probable without a change."""
    sizes = {
        "equal": np.ones(16),
        "uneven": np.random.default_rng(1).exponential(1, 16) ** 2,
        "one large": np.r_[5.0, np.ones(15)],
    }[spread]
    signs = 1 - 2 * ((np.arange(2**16)[:, None] >> np.arange(16)) & 1)
    sums = np.abs(signs @ sizes)
    for at in np.unique(np.quantile(sums, [0.5, 0.9, 0.99, 0.999, 1.0])):
        chosen = sizes * signs[int(np.argmin(np.abs(sums - at)))]
        bound, _ = _p_of_pair(pd.Series(0 * sizes), pd.Series(chosen))
        exact = float((sums >= abs(chosen.sum()) - 1e-9).mean())
        assert bound >= exact


@pytest.mark.simulation
def test_paired_alarms_are_false_in_at_most_one_of_1000_runs() -> None:
    """Every night of a history is repeated once, and each change of it is symmetric noise."""
    rng, nights, histories = np.random.default_rng(0), 100, 100
    kinds: dict[str, Callable[[], Floats]] = {
        "normal": lambda: rng.normal(0, 0.3, (nights, QUESTIONS)),
        "10 % flip": lambda: rng.choice([-1, 0, 1], (nights, QUESTIONS), p=[0.05, 0.9, 0.05]),
        "heavy tails": lambda: rng.standard_t(2, (nights, QUESTIONS)),
        "40 questions": lambda: rng.choice([-1, 0, 1], (nights, 40), p=[0.25, 0.5, 0.25]),
    }
    for name, noise_of in kinds.items():
        n_alarms = 0
        for _ in range(histories):
            walk = np.repeat(np.cumsum(noise_of(), axis=0), 2, axis=0)
            found = drift(pd.DataFrame(walk))
            n_alarms += sum(change.since == change.noticed for change in found.changes)
        print(f"{name:14} {n_alarms} false alarms in {nights * histories} compared runs")
        assert n_alarms <= nights * histories / 1000 + 2 * math.sqrt(nights * histories / 1000), (
            name
        )
