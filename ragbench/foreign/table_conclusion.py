"""A decision between systems from tables of scores, whichever tool wrote them: which measure
decides, how missing scores count, and what is stated about pairing and scales.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

import pandas as pd

from ragbench.errors import ComparisonError, ConfigError, check_known, plural
from ragbench.evaluation.decision import (
    ORDER,
    Arm,
    Arms,
    Conclusion,
    DecidingQuestions,
    arm_of,
    best_first,
    chosen_arm,
    detectable_sentences,
    difference_sentences,
    headline_of,
    leading_arm,
    left_out_sentences,
    next_step_of,
    rest_sentences,
    with_expected,
)
from ragbench.folding import folded_words
from ragbench.foreign.pairing import PairedTables, paired_tables, with_the_same_measures
from ragbench.foreign.readers import load_scores, named_apart
from ragbench.foreign.scales import (
    Scale,
    checked_bounds,
    is_amount,
    is_known_measure,
    scale_of,
)
from ragbench.foreign.score_columns import VALUES, Scored, ScoreTable, agreed_directions
from ragbench.registry import declared, higher_is_better, named_among
from ragbench.statistics.columns import known_number
from ragbench.statistics.comparison import compare_all, with_interval
from ragbench.statistics.ranking import RANKING, main_measure_of
from ragbench.statistics.shrinkage import ExpectedGain, expected_gain
from ragbench.statistics.thresholds import ALPHA, MARGIN, MIN_QUESTIONS
from ragbench.testsets.fields import column_name

if TYPE_CHECKING:
    from ragbench.statistics.trust import Trust

_MAX_OTHERS = 5  # measures without a decision that are shown
_COVERAGE = 0.95


def conclude_tables(
    sources: Sequence[Any],
    *,
    names: Sequence[str] = (),
    baseline: str = "",
    measure: str = "",
    margin: float = MARGIN,
    alpha: float = ALPHA,
    bounds: Mapping[str, Any] | None = None,
    lower: Collection[str] = (),
    higher: Collection[str] = (),
    labels: Any = None,
    is_gate: bool = False,
) -> Conclusion:
    """Return what tables of scores show, and the one next step.

    Missing scores are left out. If systems lack different numbers of scores, the systems are compared
    a second time, with the worst value of the measure in place of each missing score. This second
    comparison decides if it is less favourable to any system that is compared with the baseline.

    Args:
        sources: files or objects as `load_scores` takes them; each is a system, or has a column of
            systems. The others are compared with the first.
        names: of the sources; () means by their files, else A, B, C.
        baseline: the system that the others are compared with; "" means the first.
        measure: what decides; "" means a ranking measure that ragbench knows, else the first measure
            that most questions have.
        margin: a difference that does not matter, as a fraction of the measure's range.
        alpha: the probability of a wrong decision.
        bounds: measure -> (low, high), of measures that are not known.
        lower, higher: measures of which a lower, or a higher value is better.
        labels: verdicts of people on some of the questions, as a table: the evidence then states
            the difference by these labels (`labelled_difference`).
        is_gate: refuse to decide by another measure than the one that decides in the baseline.

    Raises:
        DataError: a file that cannot be read, or holds no scores.
        ComparisonError: one system alone, no question or no measure in common; a gate whose measure
            is in the baseline and not in another table.
        ConfigError: a name that is not there, or bounds that do not hold the values.
    """
    tables = _with_baseline_first(_load_tables(sources, names), baseline)
    tables = with_the_same_measures(tables)
    paired = paired_tables(tables)
    if not paired.measures:
        lists = "; ".join(
            f"{table.name} has {', '.join(table.measures) or 'no score of any answer'}"
            for table in tables
        )
        raise ComparisonError(f"no measure in common: {lists}")
    stated = agreed_directions(table.directions for table in tables)
    scales = _scales_of_measures(paired, bounds or {}, lower, higher, stated)
    # numbers that describe the questions; found before `declared`, which makes every measure a
    # known one
    properties = _question_properties(paired)
    with declared(scale.as_measure() for scale in scales.values()):
        name, reason = _deciding_measure(paired, measure, properties)
        # why another measure decides than in the baseline; "" if it is the same one
        changed = "" if measure else _why_measure_changed(tables[0], paired, name, properties)
        if changed and is_gate:
            raise ComparisonError(
                f"{changed}; a gate keeps its measure: name another with `measure`, or correct the file"
            )
        notes = _pairing_notes(paired, scales[name])
        if changed:
            notes.append(f"{changed}: {name} decides.")
        if properties and not measure:
            notes.append(
                f"Taken for properties of the questions, as each question has one value in every "
                f"system: {', '.join(properties)}."
            )
        compared = _Compared.of(paired, name, alpha=alpha, margin=margin)
        if any(_n_missing(table, name) for table in tables):
            compared, sentence = _less_favourable(
                compared, tables, scales[name], alpha=alpha, margin=margin
            )
            notes.append(sentence)
        notes += _not_compared(paired, tables)
        if labels is not None:
            notes.append(labelled_difference(paired, name, labels).sentence)
        return _conclude(compared, reason, margin, notes)


def _load_tables(sources: Sequence[Any], names: Sequence[str]) -> list[ScoreTable]:
    """Return the tables of all sources, with different names.

    Raises:
        ComparisonError: they are fewer than two.
    """
    tables: list[ScoreTable] = []
    for number, source in enumerate(sources):
        name = names[number] if number < len(names) else ""
        is_file = isinstance(source, str) or hasattr(source, "__fspath__")
        if not name and not is_file:
            name = chr(ord("A") + number % 26)  # A, B, C ...
        tables_of_source = load_scores(source, name)
        if len(tables_of_source) > 1 and len(sources) > 1:
            prefix = name or str(source)  # several sources may name their systems alike
            for table in tables_of_source:
                tables.append(replace(table, name=f"{prefix}: {table.name}"))
        else:
            tables += tables_of_source
    if len(tables) < 2:
        raise ComparisonError(
            f"{tables[0].name if tables else 'nothing'} is one system; give a second file, or a file with "
            "a column that names systems, such as system or model"
        )
    return named_apart(tables)


def _with_baseline_first(tables: Sequence[ScoreTable], baseline: str) -> list[ScoreTable]:
    """Return tables in their order, but the baseline first ("" = the first is the baseline)."""
    if not baseline:
        return list(tables)
    check_known("baseline", [table.name for table in tables], baseline)
    # False (the baseline) sorts before True; the others keep their order
    return sorted(tables, key=lambda table: table.name != baseline)


def _scales_of_measures(
    paired: PairedTables,
    bounds: Mapping[str, Any],
    lower: Collection[str],
    higher: Collection[str],
    stated: Mapping[str, bool],
) -> dict[str, Scale]:
    """Return measure -> its scale: its bounds, and whether a higher value is better.

    Users may spell a measure in another way than the tables, such as "ndcg@10" for "nDCG@10". So their
    declarations are first moved to the tables' spelling.

    Args:
        paired: the scores of all systems.
        bounds: measure -> (low, high), as the user declares them.
        lower, higher: measures of which the user declares that a lower, or a higher value is better.
        stated: measure -> True if a higher value is better, as the files state.

    Raises:
        ConfigError: a declared measure is not in the tables, or a value lies outside of its bounds.
    """
    names = paired.measures
    # named_among("ndcg@10", ["nDCG@10", "RR"]) is "nDCG@10"
    known_bounds = {named_among(name, names): pair for name, pair in checked_bounds(bounds).items()}
    known_lower = [named_among(name, names) for name in lower]
    known_higher = [named_among(name, names) for name in higher]
    scales = {}
    for name in names:
        scales[name] = scale_of(
            name,
            _all_values(paired, name),
            bounds=known_bounds,
            lower=known_lower,
            higher=known_higher,
            stated=stated,
        )
    return scales


def _all_values(paired: PairedTables, measure: str) -> list[float]:
    """Return the values of a measure in all systems."""
    every_value: list[float] = []
    for values in paired.values.values():
        every_value += values.get(measure, {}).values()
    return every_value


@dataclass(frozen=True, slots=True)
class _Compared:
    """Tables with the questions that decide, and their comparison: the frame of `compare_all`."""

    paired: PairedTables
    deciding: DecidingQuestions
    comparison: pd.DataFrame

    @classmethod
    def of(cls, paired: PairedTables, measure: str, *, alpha: float, margin: float) -> _Compared:
        """Compare all systems with the first one, the baseline. `measure` decides; some other measures
        are compared, too, and only shown.
        """
        baseline = next(iter(paired.values))
        n = len(paired.scored(measure))
        deciding = DecidingQuestions(
            measure=measure,
            measure_reason="",  # `_conclude` adds it
            ids=paired.scored(measure),
            n=n,
            total=len(paired.texts),
            left_out=paired.left_out(measure),
            composition={},  # tables do not state who wrote a question
            not_possible=_reason_without_decision(measure, n),
        )
        chosen = [measure, *_other_measure_names(paired, measure)]
        scores = paired.scores(chosen)
        for frame in scores.values():
            # a question that a third system lacks decides about no pair
            is_left_out = (frame["measure"] == measure) & ~frame["query_id"].isin(deciding.ids)
            frame.loc[is_left_out, "value"] = math.nan
        comparison = compare_all(
            scores,
            baseline,
            measures=chosen,
            alpha=alpha,
            margin=margin,
            not_possible=deciding.not_possible,
            questions=paired.texts,
        )
        return cls(paired, deciding, comparison)

    @property
    def decisions(self) -> dict[str, str]:
        """Return the decision about each system but the baseline."""
        rows = self.comparison[self.comparison["measure"] == self.deciding.measure]
        return dict(zip(rows["name"], rows["decision"], strict=True))


def _question_properties(paired: PairedTables) -> list[str]:
    """Return the columns of numbers that are not scores, but describe the questions, such as a number
    of hops.

    Each question has the same value of such a column in every system. A column with the name of a known
    measure, or with a general name of scores such as "score" or "value" (`VALUES`), is a measure in any
    case. If no measure besides amounts, such as tokens and costs, would be left, all columns count as
    measures, and [] is returned.
    """
    properties = []
    for name in paired.measures:
        if is_known_measure(name) or column_name(name) in VALUES:
            continue
        first, *others = [values[name] for values in paired.values.values()]  # of each system
        questions = paired.scored(name)
        differ = any(
            values[question] != first[question] for values in others for question in questions
        )
        if questions and not differ:
            properties.append(name)
    measures = [name for name in paired.measures if name not in properties]
    only_amounts_are_left = all(is_amount(name) for name in measures)
    return [] if only_amounts_are_left else properties


def _deciding_measure(
    paired: PairedTables, measure: str, properties: Collection[str]
) -> tuple[str, str]:
    """Return the measure that decides, and why that one."""
    n_scored = {name: len(paired.scored(name)) for name in paired.measures}
    if measure:
        return named_among(measure, n_scored), "named by you"
    return _main_measure({name: n for name, n in n_scored.items() if name not in properties})


def _why_measure_changed(
    baseline: ScoreTable, paired: PairedTables, decides: str, properties: Collection[str]
) -> str:
    """Choose a measure by the baseline's table alone, and return why this measure does not decide; "" if
    it decides, or if no row of the baseline has a score of it.

    A reason is a warning: a loss by this measure may go unnoticed.

    Args:
        baseline: the table of the baseline.
        paired: all tables.
        decides: the measure that decides.
        properties: columns that describe the questions, which never decide.
    """
    n_scored = _n_scored(baseline)
    for name in properties:
        n_scored.pop(name, None)
    expected, _ = _main_measure(n_scored)
    if expected == decides or n_scored[expected] == 0:
        return ""
    for name, values in paired.values.items():
        if expected not in values:
            return f"{expected} would decide, but {name} does not have it"
    n = plural(len(paired.scored(expected)), "question")
    return (
        f"{expected} would decide, but only {n} have it in every table, of "
        f"{n_scored[expected]} in {baseline.name}"
    )


def _n_scored(table: ScoreTable) -> dict[str, int]:
    """Return measure -> the number of questions of a table that it scores; several rows of a question
    count once.
    """
    questions: dict[str, set[tuple[str, str]]] = {name: set() for name in table.measures}
    for row in table.rows:
        for name, value in row.scores.items():
            if not math.isnan(value):
                questions[name].add((row.query_id, row.question))
    return {name: len(scored) for name, scored in questions.items()}


def _n_missing(table: ScoreTable, measure: str) -> int:
    """Count the answers without a score: NaN, or none for all rows of a question."""
    n_nan = sum(math.isnan(row.scores[measure]) for row in table.rows if measure in row.scores)
    # in a long table (a row per question and measure) a question may have no row of this measure
    asked = {(row.query_id, row.question) for row in table.rows}
    scored = {(row.query_id, row.question) for row in table.rows if measure in row.scores}
    return n_nan + len(asked - scored)


def _less_favourable(
    left_out: _Compared,
    tables: Sequence[ScoreTable],
    scale: Scale,
    *,
    alpha: float,
    margin: float,
) -> tuple[_Compared, str]:
    """Return the comparison that decides about tables with missing scores, and a sentence about the
    missing scores.

    It is `left_out`, unless systems lack different numbers of scores: the missing scores may be
    failures, and then the system that lacks more of them looks better than it is. So the tables are
    also compared with the missing scores as failures, if the measure has a worst value. This comparison
    is returned if it is less favourable to any system than `left_out`.

    Args:
        left_out: the comparison without the missing scores.
        tables: the tables, some without a score of an answer.
        scale: bounds and direction of the measure that decides.
        alpha, margin: as for `conclude_tables`.
    """
    n_missing = {table.name: _n_missing(table, scale.measure) for table in tables}
    listed = ", ".join(f"{n} of {name}" for name, n in n_missing.items() if n)
    sentence = f"Missing are not 0: {scale.measure} has no value in {listed} answers"
    all_lack_as_many = len({*n_missing.values()}) == 1
    if all_lack_as_many:
        return left_out, f"{sentence}."
    if scale.worst is None:
        return left_out, (
            f"{sentence}. If these are failures, the system that lacks more looks better than it is: "
            f"declare bounds of {scale.measure}, and they are compared as failures, too."
        )
    failing = _compared_with_failures(
        tables, scale.measure, scale.worst, alpha=alpha, margin=margin
    )
    before = left_out.decisions  # system -> decision
    after = failing.decisions
    # where the questions allow a decision, they still do with more scores: `after` is in ORDER, too
    changed = [name for name in before if before[name] in ORDER and before[name] != after[name]]
    # `ORDER` has the most favourable decision first
    is_less_favourable = any(
        ORDER.index(after[name]) > ORDER.index(before[name]) for name in changed
    )
    if is_less_favourable:
        without = ", ".join(f"{name} {before[name]}" for name in changed)
        return failing, (
            f"{scale.measure} has no value in {listed} answers, which count as failures "
            f"({scale.worst:g}) here, as that is worse; left out: {without}."
        )
    if changed:
        with_them = ", ".join(f"{name} {after[name]}" for name in changed)
        return left_out, f"{sentence}. As failures ({scale.worst:g}) they would give: {with_them}."
    return left_out, f"{sentence}. As failures ({scale.worst:g}) they change no decision."


def _compared_with_failures(
    tables: Sequence[ScoreTable], measure: str, worst: float, *, alpha: float, margin: float
) -> _Compared:
    """Compare tables with the worst value of a measure in place of each missing score."""
    filled = []
    for table in tables:
        rows = []
        for row in table.rows:
            # in a long table each row has one measure: a row of another measure lacks no score
            if measure in row.scores and math.isnan(row.scores[measure]):
                row = row._replace(scores={**row.scores, measure: worst})
            rows.append(row)
        filled.append(replace(table, rows=tuple(rows)))
    # a missing score of a long table may have no row: it is filled in after the pairing
    paired = paired_tables(filled).with_failures(measure, worst)
    return _Compared.of(paired, measure, alpha=alpha, margin=margin)


def _main_measure(n_scored: Mapping[str, int]) -> tuple[str, str]:
    """Return the measure that decides if the user names none, and why: a ranking measure that ragbench
    knows, else the first measure of quality with nearly as many questions as any.

    `n_scored` is measure -> the number of questions with a score, for one measure or more.
    """
    # the ranking measure that nearly all questions have; without any, another measure or "nDCG@10"
    ranking = main_measure_of(n_scored)
    if ranking in RANKING and n_scored.get(ranking):
        return ranking, "a ranking measure"
    if len(n_scored) == 1:
        return next(iter(n_scored)), "the only measure"
    # amounts, such as tokens and costs, decide only if there is nothing else
    quality = [name for name in n_scored if not is_amount(name)] or [*n_scored]
    most = max(n_scored[name] for name in quality)
    scored_by_most = [name for name in quality if n_scored[name] >= _COVERAGE * most]
    return scored_by_most[0], "the first measure that most questions have"


def _reason_without_decision(measure: str, n: int) -> str:
    """Return why `n` questions with the measure allow no decision; "" if they allow one."""
    if n == 0:
        return f"no question has {measure} in every table"
    if n >= MIN_QUESTIONS:
        return ""
    questions = "1 question has" if n == 1 else f"{n} questions have"
    return f"only {questions} {measure} in every table; a decision takes {MIN_QUESTIONS} or more"


def _other_measure_names(paired: PairedTables, deciding: str) -> list[str]:
    """Return the first few measures besides the deciding one, which are shown without a decision."""
    return [name for name in paired.measures if name != deciding][:_MAX_OTHERS]


def _pairing_notes(paired: PairedTables, scale: Scale) -> list[str]:
    """State how questions were paired, and the assumptions about the measure."""
    notes = []
    words = {"id": "their ids", "text": "their text"}[paired.by]
    sentence = f"Questions are paired by {words}"
    if paired.texts_differ:
        sentence += ", as no two of their texts agree"
    notes.append(f"{sentence}.")
    several = {name: runs for name, runs in paired.runs.items() if runs > 1}
    if several:
        listed = ", ".join(f"{runs} of {name}" for name, runs in several.items())
        notes.append(f"Runs of one question count as one, by their mean: up to {listed}.")
    if scale.assumed:
        notes.append(f"{scale.assumed}.")
    notes += _verdicts_among_scores(paired, scale.measure)
    notes += _different_units(paired, scale.measure)
    return notes


def _verdicts_among_scores(paired: PairedTables, measure: str) -> list[str]:
    """State that some systems have only 0 and 1 of a measure and the others scores between them: a tool
    that wrote no scores may have written whether each answer passed.
    """
    binary: list[str] = []  # systems
    graded: list[str] = []
    for name, values in paired.values.items():
        known = {value for value in values.get(measure, {}).values() if not math.isnan(value)}
        if known and known <= {0.0, 1.0}:
            binary.append(name)
        elif known:
            graded.append(name)
    if not binary or not graded:
        return []
    return [
        f"{measure} is 0 or 1 in {', '.join(binary)} and has other values in {', '.join(graded)}: check "
        "that it means the same in both."
    ]


def _different_units(paired: PairedTables, measure: str) -> list[str]:
    """State that some systems have fractions of a measure and the others mostly values above 1, which may
    be percentages. Of amounts, such as seconds, [] is returned: they may differ so.
    """
    if is_amount(measure):
        return []
    with_fractions: list[str] = []  # systems
    above_one: list[str] = []
    for name, values in paired.values.items():
        known = list(values.get(measure, {}).values())
        are_in_unit = all(0.0 <= value <= 1.0 for value in known)
        if are_in_unit and any(0.0 < value < 1.0 for value in known):
            with_fractions.append(name)
        elif known and median(known) > 1.0:
            above_one.append(name)
    if not with_fractions or not above_one:
        return []
    return [
        f"{measure} is from 0 to 1 in {', '.join(with_fractions)} and mostly above 1 in "
        f"{', '.join(above_one)}: check that both have the same unit, as percentages are no fractions."
    ]


def _not_compared(paired: PairedTables, tables: Sequence[ScoreTable]) -> list[str]:
    """State the measures that are a column of every file, but hold no numbers in one of them."""
    sentences = []
    for name in dict.fromkeys(name for table in tables for name in table.measures):
        if name in paired.measures or not all(name in table.columns for table in tables):
            continue
        without = [table.name for table in tables if name not in table.measures]
        if without:
            listed = ", ".join(without)
            sentences.append(
                f"{name} is not compared: its column in {listed} does not hold numbers; correct the file."
            )
    return sentences[:_MAX_OTHERS]


def _conclude(compared: _Compared, reason: str, margin: float, notes: Sequence[str]) -> Conclusion:
    """Return the conclusion of a comparison; `reason` states why its measure decides.

    An arm is a system with its mean and, unless it is the baseline, its comparison with the baseline.
    The headline and the next step are about the leading arm, the best of those that are not the
    baseline.
    """
    paired = compared.paired
    deciding = replace(compared.deciding, measure_reason=reason)
    measure = deciding.measure
    arms = best_first(_arms(compared), measure)
    # the best arm also gets the gain to expect on new questions, as its observed gain is partly luck
    arms = with_expected(arms, _gain_on_new_questions(paired, deciding), measure)
    baseline = next(iter(paired.values))
    base = next(arm for arm in arms if arm.name == baseline)
    others = [arm for arm in arms if arm.name != baseline]
    leading = leading_arm(others, measure)
    if leading is None:  # not reached: there are two tables or more
        raise ComparisonError("nothing to compare")
    action, next_step = next_step_of(leading, base, deciding)
    evidence = [
        *difference_sentences(leading, base, deciding),
        *left_out_sentences(deciding),
        *notes,
        *rest_sentences(others, leading),
        *detectable_sentences(leading),
        *_other_measure_sentences(compared.comparison, leading.name, measure),
    ]
    return Conclusion(
        decision=leading.decision,
        headline=headline_of(leading, base, others),
        next_step=next_step,
        action=action,
        evidence=tuple(evidence),
        measure=measure,
        measure_reason=deciding.measure_reason,
        baseline=baseline,
        choice=chosen_arm(leading, base).name,  # the one to use now
        n=deciding.n,
        total=deciding.total,
        left_out=dict(deciding.left_out),
        composition=deciding.composition,
        margin=margin,
        arms=Arms(arms),
    )


def _arms(compared: _Compared) -> list[Arm]:
    """Return an arm (the record of a compared system) for each system: its name, its mean by the
    deciding measure and, unless it is the baseline, its comparison with the baseline.
    """
    deciding = compared.deciding
    comparison = compared.comparison
    deciding_rows = comparison[comparison["measure"] == deciding.measure]
    # the baseline has no row
    row_of_system = {row["name"]: row for row in deciding_rows.to_dict("records")}
    arms = []
    for name, values in compared.paired.values.items():
        scores = [
            value
            for question, value in values[deciding.measure].items()
            if question in deciding.ids
        ]
        mean = known_number(pd.Series(scores, dtype=float).mean())
        about: dict[str, Any] = {"name": name, "label": name, "mean": mean}
        is_baseline = name not in row_of_system
        if is_baseline:
            arms.append(Arm(**about, n=len(scores)))
        else:
            arms.append(arm_of(about, row_of_system[name]))
    return arms


def _gain_on_new_questions(
    paired: PairedTables, deciding: DecidingQuestions
) -> ExpectedGain | None:
    """Estimate how much of the best system's gain over the baseline can be expected on new questions;
    None if there are too few questions for it.

    The system that is best on these questions was chosen by them, and is partly best by chance. So
    its gain on new questions is smaller on average (the "winner's curse").
    """
    if deciding.not_possible or deciding.n < MIN_QUESTIONS:
        return None
    sign = 1 if higher_is_better(deciding.measure) else -1
    query_ids = sorted(deciding.ids)
    scores_of = {}  # system -> its score of each question
    for name, values in paired.values.items():
        scores_of[name] = pd.Series(values[deciding.measure]).reindex(query_ids)
    baseline, *others = scores_of  # the baseline is the first of the paired tables
    gains = {name: sign * (scores_of[name] - scores_of[baseline]) for name in others}
    # a row per system, a column per question
    return expected_gain(pd.DataFrame(gains).T)


def _other_measure_sentences(comparison: pd.DataFrame, name: str, deciding: str) -> list[str]:
    """Return one sentence with the differences of the system `name` by the measures that do not decide;
    [] if there are none.
    """
    rows = comparison[(comparison["name"] == name) & (comparison["measure"] != deciding)]
    texts = []
    for row in rows.to_dict("records"):
        if not pd.isna(row["difference"]):
            interval = with_interval(row["difference"], row["ci_low"], row["ci_high"], "{:+.3f}")
            texts.append(f"{row['measure']} {interval}")
    if not texts:
        return []
    return [f"Other measures, without a decision: {'; '.join(texts)}."]


def labelled_difference(paired: PairedTables, measure: str, labels: Any) -> Trust:
    """Estimate the difference of two systems, the second minus the first, by people's verdicts on some of
    the questions.

    This is a prediction-powered estimate (`estimate_difference`): the measure's difference predicts
    people's difference on every question that both systems answered, and the mean error of these
    predictions on the labelled questions corrects them.

    Args:
        paired: two systems.
        measure: the measure that predicts people's verdicts.
        labels: a table with a row per question (its id or its text), and people's values in a column
            for each system. The columns are named like the systems; if they are not, the first two
            columns of numbers are taken in their order. Or a table with a row per question and system,
            a column that names the system, and one of people's values. The labelled questions are
            supposed to be drawn at random.

    Raises:
        ComparisonError: there are not exactly two systems, or no label is of a question that both
            systems answered.
        ConfigError: the labels lack a column, or a row, of one of the systems.
        DataError: the labels cannot be read.
    """
    from ragbench.statistics.trust import estimate_difference

    if len(paired.values) != 2:
        raise ComparisonError(
            f"labels are for comparing two systems; there are {len(paired.values)}"
        )
    first, second = paired.values
    differences_by_people = _label_differences(labels, first, second)
    scores_before = paired.values[first][measure]
    scores_after = paired.values[second][measure]
    differences_by_measure = {}
    for question in sorted(paired.scored(measure)):
        differences_by_measure[question] = scores_after[question] - scores_before[question]
    # labels name a question by its id, or by its folded text
    question_of_key = {}
    for question in differences_by_measure:
        key = folded_words(question) if paired.by == "text" else question
        question_of_key[key] = question
    labelled = {}
    for key, difference in differences_by_people.items():
        if key in question_of_key:
            labelled[question_of_key[key]] = difference
    if not labelled:
        raise ComparisonError(
            f"labels: none of {len(differences_by_people)} labelled questions is among the "
            f"{len(differences_by_measure)} that both systems answered"
        )
    proxies = pd.DataFrame({measure: pd.Series(differences_by_measure)})
    return estimate_difference(proxies, pd.Series(labelled))


def _label_differences(labels: Any, first: str, second: str) -> dict[str, float]:
    """Return question -> the difference of people's values, second system minus first.

    A question is listed twice, by its id and by its folded text, if it has both. A question without both
    values is left out.

    Args:
        labels: a table, whose form is described in `labelled_difference`.
        first, second: the names of the systems. If the labels have a row per question, and not a column
            of each name, the first two columns of numbers are taken: the first system's, then the
            second's.

    Raises:
        ConfigError: there are fewer than two columns of numbers, or, in labels with a row per question
            and system, no row of one of the systems.
        DataError: the labels cannot be read.
    """
    tables = load_scores(labels, "labels")
    if len(tables) > 1:  # a row per question and system
        by_name = {table.name: table for table in tables}
        check_known("system in labels", by_name, first, second)
        return _differences_of_tables(by_name[first], by_name[second])
    [table] = tables  # a row per question, a column per system
    columns = [first, second]
    has_both_columns = first in table.measures and second in table.measures
    if not has_both_columns:
        columns = list(table.measures[:2])
    if len(columns) < 2:
        raise ConfigError(
            f"labels have the columns {', '.join(table.columns)}; expected people's values of {first} and "
            f"{second} in columns of these names, or in rows with a column of systems"
        )
    return _differences_in_rows(table, *columns)


def _differences_of_tables(before: ScoreTable, after: ScoreTable) -> dict[str, float]:
    """Return the differences of people's values in the tables of two systems, see `_label_differences`."""
    values_before = _verdicts(before)
    differences = {}
    for key, value in _verdicts(after).items():
        if key in values_before:
            differences[key] = value - values_before[key]
    return differences


def _differences_in_rows(table: ScoreTable, before: str, after: str) -> dict[str, float]:
    """Return the differences of two columns of people's values, see `_label_differences`."""
    differences: dict[str, float] = {}
    for row in table.rows:
        difference = row.scores.get(after, math.nan) - row.scores.get(before, math.nan)
        if not math.isnan(difference):
            differences |= dict.fromkeys(_keys_of(row), difference)
    return differences


def _keys_of(row: Scored) -> list[str]:
    """Return the id and the folded text of a question, without empty ones."""
    return [key for key in (row.query_id, folded_words(row.question)) if key]


def _verdicts(table: ScoreTable) -> dict[str, float]:
    """Return people's values in a table of one system, each under two keys: the id of its question, and
    the question's folded text. Missing values are left out.
    """
    measure = table.measures[0]
    values: dict[str, float] = {}
    for row in table.rows:
        value = row.scores.get(measure, math.nan)
        if not math.isnan(value):
            for key in _keys_of(row):
                values[key] = value
    return values
