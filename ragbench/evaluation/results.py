"""Results of several configurations on a dataset: their names, the rows and columns of the
leaderboard, the comparison with a baseline; `report/leaderboard` writes them as texts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, overload

import pandas as pd

from ragbench.errors import ConfigError, check_known
from ragbench.evaluation.conclusion import conclusion_of
from ragbench.evaluation.configurations import (
    PER_QUESTION,
    baseline_name,
    check_shared_questions,
    configurations,
    per_question,
    rows_of_measure,
    with_language_model,
)
from ragbench.evaluation.deciding import deciding_questions, values_of
from ragbench.evaluation.decision import Conclusion, DecidingQuestions
from ragbench.evaluation.result import Result
from ragbench.hints.attributes import Suggesting, refusing_operators, suggesting
from ragbench.hints.calls import explaining_calls
from ragbench.hints.expected_options import OF_COMPARISONS
from ragbench.hints.record_values import check_reader, explaining_values
from ragbench.metrics.named_rows import PropertyTable
from ragbench.metrics.tidy import score_frame
from ragbench.registry import (
    expected_measure,
    find_measure,
    higher_is_better,
    leaderboard_measures,
    named_among,
)
from ragbench.statistics.comparison import (
    means,
    printed_as,
    with_interval,
)
from ragbench.statistics.race import Race
from ragbench.statistics.shrinkage import ExpectedGain, expected_gain
from ragbench.statistics.thresholds import MARGIN, MIN_QUESTIONS
from ragbench.statistics.unreadable import compare_readable

_COSTS = ("cost_usd", "generator_cost_usd", "judge_cost_usd", "generate_ms")
_RANKS = {"rank_equal_k": "span_recall@5", "rank_equal_budget": "span_recall@500tok"}


def _leaderboard_by(name: str) -> str:
    """Return the call that ranks results by the measure that a name means; "" if it means none."""
    measure = expected_measure(name)
    return "" if measure is None else f"results.leaderboard({measure.name!r})"


@suggesting(
    "results.leaderboard()",
    "rb.Results([a, b]) or rb.Results({'old': a, 'new': b}), rb.load_results(folder), or rb.evaluate(data, "
    "{'old': system, 'new': other})",
    _leaderboard_by,
    load="rb.load_results(folder)",
    plot="rb.write_report(results, 'report.html')",
    report="rb.write_report(results, 'report.html')",
    save="rb.save(result, folder) for each result",
    best="results.leaderboard(), whose first row is the best, or results.conclude().choice",
    winner="results.conclude().choice",
    failures="results['name'].failures",
    get="results['name']",
    **{name: f"dict(results).{name}()" for name in ("items", "values")},
    mean="results.leaderboard()",
    names="list(results.keys())",
    table="results.leaderboard()",
    **dict.fromkeys(
        ["sort", "sorted", "sort_by", "rank", "ranking"], "results.leaderboard(measure)"
    ),
    **{name: f"results.scores.{name}" for name in "groupby pivot pivot_table melt unstack".split()},
    diagnosis="results.diagnoses",
    **dict.fromkeys(["measures", "metrics"], "results.leaderboard(), or results['name'].measures"),
    summary="print(results.conclude())",
    **dict.fromkeys(
        ["to_frame", "to_pandas", "df"],
        "results.leaderboard(), with a row per configuration, or results.scores",
    ),
    **dict.fromkeys(["conclusion", "verdict", "headline", "next_step"], "results.conclude()"),
    decision="results.conclude().decision",
)
@refusing_operators("rb.compare(a, b)", "rb.Results([*first, *second])")
@explaining_values("results")
class Results(Sequence[Result], metaclass=Suggesting):
    """Several results on the same data, as from `load_results`.

    `results["bm25-fixed-512-..."]` is a result by name, `results[0]` by place. `baseline` names the
    default baseline of comparisons: the baseline of the sweep, else the first result by name.
    `race` is the race of the sweep, with the configurations that it dropped.
    """

    def __init__(
        self,
        results: Iterable[Result] | Mapping[str, Result],
        *,
        baseline: str = "",
        race: Race | None = None,
    ) -> None:
        """Keep results with different names, in the given order; a mapping gives them its keys as names.

        Raises:
            ConfigError: an item is not a result, or two results have the same name.
        """
        if isinstance(results, Mapping):
            results = [replace(result, name=name) for name, result in results.items()]
        self._results = tuple(results)
        for result in self._results:
            if not isinstance(result, Result):
                raise ConfigError(
                    f"expected results of rb.evaluate or rb.load_results, found {type(result).__name__}"
                )
        self.baseline, self.race = baseline, race
        self._deciding: dict[str, DecidingQuestions] = {}  # by the measure that was asked for
        # a conclusion, a leaderboard and a table of differences need the same comparison
        self._comparisons: dict[tuple[Any, ...], pd.DataFrame] = {}  # by their options
        names = [result.name for result in self._results]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ConfigError(
                f"two results are named {twice[0]!r}; name them, as in "
                "rb.Results({'k=3': first, 'k=5': second})"
            )

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[Result]:
        check_reader("__init__", "results.leaderboard(), with a row per result, or results.scores")
        return iter(self._results)

    @overload
    def __getitem__(self, key: int | str) -> Result: ...
    @overload
    def __getitem__(self, key: slice) -> Results: ...
    def __getitem__(self, key: int | str | slice) -> Result | Results:
        if isinstance(key, slice):
            return Results(self._results[key], baseline=self.baseline)
        if isinstance(key, int):
            return self._results[key]
        by_name = {result.name: result for result in self._results}
        measure = find_measure(key) if isinstance(key, str) and key not in by_name else None
        if measure is not None:
            raise ConfigError(
                f"{key!r} is a measure, not a configuration; use results.leaderboard({measure.name!r})"
            )
        check_known("result", list(by_name), key)
        return by_name[key]

    def __contains__(self, item: object) -> bool:
        """Return True for one of the results, and for the name of one, as in `results[name]`."""
        return item in self.keys() if isinstance(item, str) else item in self._results

    def keys(self) -> list[str]:
        """Return the names of the results, so that `dict(results)` has each result by its name."""
        return [result.name for result in self._results]

    def __repr__(self) -> str:
        return f"Results({', '.join(result.name for result in self._results)})"

    @property
    def scores(self) -> pd.DataFrame:
        """Return all scores, tidy: name (of the result), query_id, measure, value."""
        return _joined_frames({result.name: result.scores for result in self._results})

    @property
    def questions(self) -> pd.DataFrame:
        """Return one row per question and result: name, then the columns of `Result.questions`."""
        return _joined_frames({result.name: result.questions for result in self._results})

    @property
    def diagnoses(self) -> dict[str, pd.DataFrame]:
        """Return name of a result -> its diagnosis; results without one are left out."""
        return {
            result.name: result.diagnosis
            for result in self._results
            if result.diagnosis is not None
        }

    @explaining_calls(
        baseline="results.compare(baseline), of the name of a result, for differences from it",
        **dict.fromkeys(["sort_by", "by", "rank_by"], "measure"),
    )
    def leaderboard(
        self, measure: str | Sequence[str] = "", measures: str | Sequence[str] = ()
    ) -> pd.DataFrame:
        """Return one row per configuration, best first by `measure`.

        Means are over the questions that decide (see `deciding`): questions by people, if there are
        any; `<measure>_n` counts them among all questions.

        Args:
            measure: the measure that ranks; "" chooses it as `deciding` does. Of several measures the
                first ranks, and the others are added to `measures`.
            measures: further measures among the scores ("span_iou@5"), which become columns and are
                printed, too.

        Returns:
            A frame with these columns:

            - rank (missing if the configuration has no score by that measure), name, label,
              retriever, chunking;
            - for each headline measure, and each that the user wrote or chose for the evaluation: its
              mean under its name, `<measure>_ci_low`, `<measure>_ci_high`, `<measure>_n`
              ("scored/all"); if verdicts of a judge are missing, `<measure>_bound_low` and
              `<measure>_bound_high`: the mean if every missing verdict were 0, or 1; for `measures`
              also `<measure>_std`, the deviation over questions;
            - chunks, index_s, search_ms (of one question alone);
            - latency_p50_ms, latency_p95_ms: until an answer is complete; generate_ms: median of the
              replies that were waited for;
            - with_llm, cost_usd (of the run if no reply were stored), generator_cost_usd and
              judge_cost_usd (parts of cost_usd), cost_per_1000_usd (of answers to 1,000 questions; for
              a service only if it reports its tokens);
            - rank_equal_k, rank_equal_budget: the places by span_recall@5 and span_recall@500tok, if
              these were measured.

        Raises:
            ComparisonError: no results, or results on different data.
        """
        check_shared_questions(self)
        if not isinstance(measure, str):
            ranking_measure, *others = [*measure, *_names(measures)]
            measure, measures = ranking_measure, others
        deciding = self.deciding(measure)
        main = deciding.measure
        known = dict.fromkeys(map(str, self[0].scores["measure"]))
        named = [named_among(each, known) for each in _names(measures)]
        standings = [_standing(result, deciding, named) for result in self]
        table = configurations(self).join(pd.DataFrame(standings))
        _fill_judged_at_k(table)  # 1.0 for systems of which every document is judged
        # systems may differ in their measures: a service without passages has no score of evidence
        counts = [str(name) for name in table if str(name).endswith("_n")]
        table[counts] = table[counts].fillna(f"0/{len(self[0].queries)}")
        for column, name in _RANKS.items():
            if name in table:
                places = table[name].round(12).rank(ascending=False, method="min")
                table[column] = places.astype("Int64")
        return printed_as(_ranked(table, main), partial(_printed, main=main, named=named))

    @explaining_calls(
        "results.compare('name of the baseline'), or rb.compare(results['a'], results['b'])",
        **OF_COMPARISONS,
    )
    def compare(
        self,
        baseline: str = "",
        *,
        measures: str | Sequence[str] = (),
        margin: float = MARGIN,
        not_possible: str = "",
    ) -> pd.DataFrame:
        """Compare every result with one of them, paired by question; the frame has the columns of
        `ragbench.compare_all`.

        If a judge's verdicts are missing for different fractions of two configurations' answers, the
        decision is by the worse bound (`ragbench.statistics.unreadable.compare_readable`).

        Args:
            baseline: name of a result; "" means the baseline of the sweep, else the first by name.
            measures: names of measures; () means the measure that ranks the leaderboard. The first
                decides; the others are shown without a decision.
            margin: a difference that does not matter, as a fraction of the measure's range.
            not_possible: the reason if these questions cannot decide: every decision is then "not
                possible". "" lets them decide.
        """
        named = _names(measures)
        deciding = self.deciding(named[0] if named else "")
        return self._compared(
            baseline_name(self, baseline), deciding, named[1:], margin, not_possible
        )

    def _compared(
        self,
        baseline: str,
        deciding: DecidingQuestions,
        others: Sequence[str] = (),
        margin: float = MARGIN,
        not_possible: str = "",
    ) -> pd.DataFrame:
        """Return the comparison of all results with a baseline, from a cache if it was made before.

        Args:
            baseline: name of a result.
            deciding: the questions that are compared, and the measure that decides.
            others: further measures, which are shown without a decision.
            margin, not_possible: see `compare`.
        """
        chosen = [deciding.measure, *others]
        not_possible = not_possible or deciding.not_possible
        options = (baseline, *chosen, deciding.ids, margin, not_possible)
        if options not in self._comparisons:
            scores = {}
            for result in self._results:
                rows = _of_measures(result.scores, chosen)
                scores[result.name] = _of_questions(rows, deciding.ids)
            # configurations that a race dropped were tested, too: they count in Holm's correction
            dropped = self.race.scores.keys() - scores.keys() if self.race else ()
            missing_verdicts = {}  # configuration -> measure -> the questions without a verdict
            if any(map(is_by_judge, chosen)):
                missing_verdicts = {result.name: result.unreadable for result in self._results}
            self._comparisons[options] = compare_readable(
                scores,
                baseline,
                missing_verdicts,
                measures=chosen,
                margin=margin,
                n_dropped=len(dropped),
                not_possible=not_possible,
                questions=self[0].queries,
            )
        return self._comparisons[options].copy()  # which the caller may change

    def deciding(self, measure: str = "") -> DecidingQuestions:
        """Return the questions that decide, and the measure that they decide by ("" chooses it)."""
        if not measure and self.race:
            measure = self.race.measure
        if measure not in self._deciding:
            self._deciding[measure] = deciding_questions(self._results, measure)
        return self._deciding[measure]

    @explaining_calls(**OF_COMPARISONS)
    def conclude(
        self, baseline: str = "", *, measure: str = "", margin: float = MARGIN
    ) -> Conclusion:
        """Return what these results show, and one next step. The command line, notebooks and reports
        display this conclusion.

        Args:
            baseline: name of a result; "" means the baseline of the sweep, else the first by name.
            measure: the measure that decides; "" chooses one that at least 95 % of people's questions
                have.
            margin: a difference that does not matter, as a fraction of the measure's range.

        Raises:
            ComparisonError: no results, or results on different data.
        """
        check_shared_questions(self)
        name = baseline_name(self, baseline)
        deciding = self.deciding(measure)
        comparison = None
        if len(self) > 1:
            comparison = self._compared(name, deciding, margin=margin)
        expected = None if comparison is None else self._expected_gain(name, deciding)
        # the race may have dropped the sweep's baseline; that matters unless the user names another
        sweep_baseline = "" if baseline else self.baseline
        return conclusion_of(
            self._results,
            comparison,
            deciding,
            name,
            margin=margin,
            race=self.race,
            sweep_baseline=sweep_baseline,
            expected=expected,
        )

    def _expected_gain(self, baseline: str, deciding: DecidingQuestions) -> ExpectedGain | None:
        """Return the best observed gain over the baseline, and the gain to expect on new questions.

        The best of several observed gains is in part luck, so less is expected. None if there are
        too few questions to estimate it.
        """
        values = {each.name: values_of(each, deciding.measure) for each in self._results}
        base_values = values.pop(baseline)
        shared = []  # questions that decide and that every configuration has scored
        for query_id in base_values:
            is_scored_by_others = all(query_id in value_of for value_of in values.values())
            if query_id in deciding.ids and is_scored_by_others:
                shared.append(query_id)
        if len(shared) < MIN_QUESTIONS:
            return None
        sign = 1 if higher_is_better(deciding.measure) else -1
        gains = {}
        for name, value_of in values.items():
            gains[name] = [sign * (value_of[each] - base_values[each]) for each in shared]
        return expected_gain(pd.DataFrame(gains, index=shared).T)  # configurations x questions


def is_by_judge(measure: str) -> bool:
    """Return True if a judge's verdicts are the values of a measure."""
    return measure.startswith("llm_")


def _names(measures: str | Sequence[str]) -> list[str]:
    if not isinstance(measures, str):
        return list(measures)
    return [measures] if measures else []


def _joined_frames(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the frames of all configurations as one, with the name of the configuration in `name`."""
    together = pd.concat(frames, names=["name"]).reset_index("name").reset_index(drop=True)
    return PropertyTable(together)


def _of_questions(scores: pd.DataFrame, ids: Collection[str]) -> pd.DataFrame:
    """Return the rows of these questions. For a measure that only other questions have, rows without
    a value are added, so that it shows as unscored.
    """
    rows = scores[scores["query_id"].isin(ids)]
    absent = set(scores["measure"].unique()).difference(rows["measure"].unique())
    unscored = [(query_id, name, None) for name in sorted(absent) for query_id in sorted(ids)]
    if not unscored:
        return rows
    return pd.concat([rows, score_frame(unscored)], ignore_index=True)


def _of_measures(scores: pd.DataFrame, measures: Sequence[str]) -> pd.DataFrame:
    """Return the rows of these measures; all rows if one of the names is not found as written."""
    rows = scores[scores["measure"].isin(measures)]
    return rows if rows["measure"].nunique() == len({*measures}) else scores


def judged_at_k_columns(board: pd.DataFrame) -> list[str]:
    """Return the columns Judged@k of a leaderboard, the fraction of the top k documents with a judgement.
    It has them next to nDCG@k if some result has documents without a judgement.
    """
    judged = [str(name).replace("nDCG@", "Judged@") for name in board if "nDCG@" in str(name)]
    return [name for name in judged if name in board and f"{name}_n" in board]


def _fill_judged_at_k(table: pd.DataFrame) -> None:
    """Set Judged@k to 1 for results that have no value of it, since all their documents are judged.
    `table` is a leaderboard, and is changed in place.
    """
    for name in judged_at_k_columns(table):
        ranked = name.replace("Judged", "nDCG")
        is_complete = table[name].isna() & table[ranked].notna()
        table.loc[is_complete, [name, f"{name}_ci_low", f"{name}_ci_high"]] = 1.0
        table.loc[is_complete, f"{name}_n"] = table[f"{ranked}_n"]


def _ranked(table: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the rows of configurations, the best by a measure first, with a new first column "rank".

    Equal ones are in the order of their names. Unscored ones are last, and have no rank.
    """
    # values that differ only because they were added in another order become equal
    rounded = table.assign(_rounded=table[measure].round(12))
    ascending = [not higher_is_better(measure), True]
    ordered = rounded.sort_values(["_rounded", "name"], ascending=ascending, ignore_index=True)
    ordered = ordered.drop(columns="_rounded")
    ranks = pd.Series(range(1, len(ordered) + 1), dtype="Int64")
    ordered.insert(0, "rank", ranks.where(ordered[measure].notna()))
    return ordered


def _printed(board: pd.DataFrame, *, main: str, named: Sequence[str]) -> pd.DataFrame:
    """Return the leaderboard (a row per configuration) as it is printed.

    Its columns are rank, label, the ranking measure with its interval (`main`), and the columns of
    `_printed_columns` that have a value, rounded to 3 decimals.
    """
    filled = []
    for name in _printed_columns(board, named):
        if name != main and name in board and board[name].notna().any():
            filled.append(name)
    numbers = board[filled].apply(pd.to_numeric).convert_dtypes().round(3)
    intervals = []
    for mean, low, high in zip(
        board[main], board[f"{main}_ci_low"], board[f"{main}_ci_high"], strict=True
    ):
        intervals.append(with_interval(mean, low, high))
    return board[["rank", "label"]].assign(**{main: intervals}).join(numbers)


def _printed_columns(board: pd.DataFrame, named: Sequence[str]) -> list[str]:
    """Return the columns that a leaderboard prints after the ranking measure, each once, in their order.
    The caller leaves out the columns that `board` does not have.

    They are Judged@k, the means of measures with their bounds, the standard deviations of the measures
    that the user has named (`named`), the number of chunks, the costs, and two ranks by span_recall. The
    span_recall itself is printed only if the user has named it.
    """
    columns = [*judged_at_k_columns(board)]
    for measure in (*leaderboard_measures(), *named):
        is_in_ranks = measure.startswith("span_recall")
        if measure in named or not is_in_ranks:
            columns += [measure, f"{measure}_bound_low", f"{measure}_bound_high"]
    columns += [f"{measure}_std" for measure in named]
    each_once = dict.fromkeys(columns)  # keeps the first of equal names
    return [*each_once, "chunks", *PER_QUESTION, *_RANKS]


def _standing(result: Result, deciding: DecidingQuestions, named: Sequence[str]) -> dict[str, Any]:
    """Return the row of one configuration in the leaderboard, column -> value: means with their
    intervals, times and costs; NaN = unscored, None = unknown.

    `named` are the measures that the user asked for; their standard deviations are returned, too.
    """
    main = deciding.measure
    measures: dict[str, None] = {}  # each once, in this order
    chosen = result.settings.get("chosen", ())  # what the user asked to be measured
    for name in (*leaderboard_measures(), main, *named, *chosen):
        measures[name] = None
        if "nDCG@" in name:
            measures[name.replace("nDCG@", "Judged@")] = None  # the fraction of judged documents
    scores = result.scores[result.scores["measure"].isin(measures)]
    scores = scores[scores["query_id"].isin(deciding.ids)]
    summary = {row.measure: row for row in means(scores)}
    if main not in summary:  # no deciding question has a value of it, or there is no such measure
        rows_of_measure(result.scores, main)  # raises ConfigError in the second case
    standing: dict[str, Any] = {}
    for name in measures:
        if name not in summary:
            continue
        mean = summary[name]
        standing[name] = mean.mean
        standing[f"{name}_ci_low"] = mean.ci_low
        standing[f"{name}_ci_high"] = mean.ci_high
        standing[f"{name}_n"] = f"{mean.n_scored}/{deciding.total}"
        if is_by_judge(name) and name in result.judged_bounds:
            # the mean if every missing verdict had the lowest value, and if every one had the highest
            lowest, highest = result.judged_bounds[name]
            standing |= {f"{name}_bound_low": lowest, f"{name}_bound_high": highest}
        if name in named:
            standing[f"{name}_std"] = rows_of_measure(scores, name)["value"].std()
    facts = result.facts
    return {
        **standing,
        "chunks": facts.get("chunks"),
        "index_s": result.timings.get("index"),
        "search_ms": facts.get("search_ms"),
        "with_llm": with_language_model(result),
        **{name: facts.get(name) for name in _COSTS},
        **per_question(result),
    }
