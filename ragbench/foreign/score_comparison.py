"""`rb.compare` of anything with scores, and `assert_not_worse` for tests of other projects, with
the decisions at which it fails.

The statistics are imported when they are called, so that both are quick to import.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Sized
from dataclasses import replace
from functools import wraps
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from ragbench.errors import ConfigError, check_known
from ragbench.hints.calls import explaining_calls
from ragbench.hints.expected_options import OF_COMPARISONS
from ragbench.statistics.thresholds import ALPHA, MARGIN

if TYPE_CHECKING:
    import pandas as pd

    from ragbench.evaluation import Result
    from ragbench.evaluation.decision import Conclusion
    from ragbench.statistics.columns import HasScores

GATES = ("worse", "likely worse", "undecided", "within the margin")
"""Decisions at which a gate can fail; it then fails at less favourable ones, too."""

_TIDY = {"query_id", "measure", "value"}
"""The columns of tidy scores: a row per question and measure."""


def _with_chosen_baseline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `compare` for calls that also name the baseline among the sources before it, as in
    compare([a, b], baseline="b").
    """

    @wraps(function)
    def compare_with(*sources: Any, **options: Any) -> Any:
        if not sources or "baseline" not in options:
            return function(*sources, **options)
        baseline = options.pop("baseline")
        return function(*_baseline_first(sources, baseline), **options)

    return compare_with


def _baseline_first(sources: Sequence[Any], baseline: Any) -> list[Any]:
    """Return the sources of a comparison with the baseline as the first one.

    Args:
        sources: the arguments of `compare` by position; a single one may be `Results`, a list or a mapping.
        baseline: a source, or the name of one.

    Raises:
        ConfigError: no source has this name.
    """
    first = sources[0]
    if len(sources) == 1 and hasattr(first, "leaderboard"):  # `Results`
        name = getattr(baseline, "name", baseline)
        check_known("baseline", list(first.keys()), name)
        return [type(first)(list(first), baseline=name, race=first.race)]
    contender = sources[1] if len(sources) > 1 else None
    listed, names = _split_sources(first, contender, sources[2:])
    if not names:
        names = [_name_of_source(source) for source in listed]
    is_name = isinstance(baseline, str | Path)
    places = []
    for place, source in enumerate(listed):
        if source is baseline or (is_name and names[place] == _name_of_source(baseline)):
            places.append(place)
    if not places and not isinstance(baseline, str):  # one more source
        return [baseline, *listed]
    if len(places) != 1:
        raise ConfigError(
            f"baseline is {baseline!r}, expected the name of a source: {', '.join(map(repr, names))}; or leave "
            "`baseline` out, and the first source is the baseline"
        )
    [at] = places
    order = [at, *range(at), *range(at + 1, len(listed))]
    if isinstance(first, Mapping) and len(sources) == 1:
        return [{names[place]: listed[place] for place in order}]
    return [listed[place] for place in order]


def _name_of_source(source: Any) -> str:
    """Return the path of a file or folder as it is written, the name of a result, "" for others."""
    if isinstance(source, str | Path):
        return str(source)
    return str(getattr(source, "name", ""))


@overload
def compare(  # two results of ragbench: a frame with a row per measure
    baseline: HasScores,
    contender: HasScores,
    *,
    measures: str | Sequence[str] | None = None,
    alpha: float = ALPHA,
    margin: float = MARGIN,
    not_possible: str = "",
    questions: Mapping[str, str] | None = None,
    measure: str = "",  # the only measure, in place of `measures`
) -> pd.DataFrame: ...
@overload
def compare(  # files and folders: a conclusion
    baseline: str | Path,
    contender: str | Path | None = None,
    *others: str | Path,
    measures: str | Sequence[str] | None = None,
    alpha: float = ALPHA,
    margin: float = MARGIN,
    bounds: Mapping[str, Any] | None = None,
    lower: str | Collection[str] = (),
    higher: str | Collection[str] = (),
    labels: Any = None,
    measure: str = "",  # the measure that decides, in place of the first of `measures`
) -> Conclusion: ...
@overload
def compare(  # any other sources, such as frames and mappings: a frame or a conclusion
    baseline: Any,
    contender: Any = None,
    *others: Any,
    measures: str | Sequence[str] | None = None,
    alpha: float = ALPHA,
    margin: float = MARGIN,
    not_possible: str = "",
    questions: Mapping[str, str] | None = None,
    bounds: Mapping[str, Any] | None = None,
    lower: str | Collection[str] = (),
    higher: str | Collection[str] = (),
    labels: Any = None,
    measure: str = "",  # in place of `measures`
) -> Any: ...
@overload
def compare(  # the baseline is one of the sources, or its name
    sources: Any,
    /,
    *others: Any,
    baseline: Any,
    measures: str | Sequence[str] | None = None,
    alpha: float = ALPHA,
    margin: float = MARGIN,
    not_possible: str = "",
    questions: Mapping[str, str] | None = None,
    bounds: Mapping[str, Any] | None = None,
    lower: str | Collection[str] = (),
    higher: str | Collection[str] = (),
    labels: Any = None,
    measure: str = "",
) -> Any: ...
@explaining_calls(**OF_COMPARISONS)
@_with_chosen_baseline
def compare(
    baseline: Any,
    contender: Any = None,
    *others: Any,
    measures: str | Sequence[str] | None = None,
    alpha: float = ALPHA,
    margin: float = MARGIN,
    not_possible: str = "",
    questions: Mapping[str, str] | None = None,
    bounds: Mapping[str, Any] | None = None,
    lower: str | Collection[str] = (),
    higher: str | Collection[str] = (),
    labels: Any = None,
    measure: str = "",
) -> Any:
    """Compare systems by their scores on the same questions: is the second better than the first, by how
    much, and how sure is that?

    The sources determine what is returned:

    - The `Results` of a sweep alone: the frame of `Results.compare`, a row per configuration and measure.
    - Two sources or more, each a result in memory or a frame of tidy scores (with exactly the columns
      query_id, measure, value): the frame of `ragbench.statistics.compare`, a row per measure; for
      three or more, or for named sources, the frame of `compare_all`.
    - Files and all other tables: the `Conclusion`, which is the decision, its evidence, and one next
      step. A table has a row per question (a column per measure) or per question and measure; files of
      ragas, DeepEval, promptfoo, Inspect, MLflow, lm-evaluation-harness and others are read as they are
      (see `ragbench.foreign`).

    Questions are paired by id, else by their text. A missing value or a failed answer counts as
    missing, never as 0; several runs of a question count as one value, their mean.

    Args:
        baseline, contender, others: files, DataFrames, lists of dicts, results, folders of results.
            `baseline` alone may be a list of these, a mapping of names to these, or one table with a
            column that names systems. After a list, a mapping or `Results`, as in
            `compare([a, b], baseline="b")`, it is one of these or its name; without it the first is.
        measures: names of the measures to compare; None means all measures that both systems have. In
            a `Conclusion`, the first name decides.
        measure: the measure that decides, as in `assert_not_worse` and the command; if given, it
            replaces `measures`.
        alpha: the probability of a wrong decision; not for a sweep, whose level is fixed.
        margin: a difference that does not matter, as a fraction of the measure's range.
        not_possible, questions: as for `ragbench.statistics.compare`, where a frame is returned;
            `questions` not for a sweep.
        bounds: measure -> (low, high), for measures of other tools whose range ragbench does not know.
        lower, higher: names of measures of which a lower, or a higher value is better.
        labels: people's verdicts on some questions (see `ragbench.foreign.labelled_difference`). This
            option and the three before it are for a `Conclusion` from tables of other tools.

    >>> old = {f"q{i}": 0.0 for i in range(12)}
    >>> new = {f"q{i}": float(i > 1) for i in range(12)}
    >>> conclusion = compare(old, new)
    >>> conclusion.decision, conclusion.n
    ('better', 12)

    Raises:
        ComparisonError: no question or no measure in common, or one system alone.
        ConfigError: a measure that is not there, bounds that do not hold the values, an object that is
            not a table, or an option that these sources do not take.
        DataError: a file or a table without scores of questions.
    """
    if bounds is not None and not isinstance(bounds, Mapping):
        raise ConfigError(
            f"bounds is {bounds!r}; expected measure -> (low, high), as in bounds={{'score': (0, 10)}}"
        )
    measures = measure or measures
    sources, names = _split_sources(baseline, contender, others)
    is_sweep = contender is None and hasattr(baseline, "leaderboard")  # `Results` alone
    are_tidy = len(sources) > 1 and all(map(_has_tidy_scores, sources))
    if is_sweep or are_tidy:
        refuse_options(
            {"bounds": bounds, "lower": lower, "higher": higher, "labels": labels},
            "tables of other tools; rb.Measure declares bounds and directions of yours",
        )
    if is_sweep:
        changed_alpha = None if alpha == ALPHA else alpha  # the default is no choice of the user
        refuse_options(
            {"alpha": changed_alpha, "questions": questions},
            "results and tidy scores one by one, as in rb.compare(*results, ...)",
        )
        return baseline.compare(measures=measures or (), margin=margin, not_possible=not_possible)
    if are_tidy:
        return _comparison_frame(
            sources,
            names,
            measures=measures,
            alpha=alpha,
            margin=margin,
            not_possible=not_possible,
            questions=questions,
        )
    refuse_options(
        {"not_possible": not_possible, "questions": questions}, "results and tidy scores in memory"
    )
    return conclude(
        sources,
        names=names,
        measure=_first_measure(measures),
        alpha=alpha,
        margin=margin,
        bounds=bounds,
        lower=_name_list(lower),
        higher=_name_list(higher),
        labels=labels,
    )


@explaining_calls(**OF_COMPARISONS)
def assert_not_worse(
    baseline: Any,
    contender: Any,
    *,
    measure: str = "",
    fail_if: str = "worse",
    margin: float = MARGIN,
    bounds: Mapping[str, Any] | None = None,
    lower: str | Collection[str] = (),
    higher: str | Collection[str] = (),
) -> Conclusion:
    """Assert in a test that the second system is not shown to be worse than the first; return the
    conclusion.

    Args:
        baseline, contender: as `compare` takes them.
        measure: what decides; "" means the one that `compare` chooses.
        fail_if: the most favourable decision that fails the test, one of `GATES`. "worse" fails only
            for a shown loss; "likely worse" also for a probable one, and more often by chance;
            "undecided" for every decision less favourable than "within the margin"; "within the
            margin" for every decision but "likely better" and "better".
        margin, bounds, lower, higher: as for `compare`.

    Raises:
        AssertionError: the decision is `fail_if` or a less favourable one, or nothing could be decided;
            the message is the conclusion.
        ComparisonError: as `compare`; or `measure` is "", and the contender lacks the measure that
            decides in the baseline.
        ConfigError, DataError: as `compare`.
    """
    sources, names = _split_sources(baseline, contender, ())
    conclusion = conclude(
        sources,
        names=names,
        measure=measure,
        margin=margin,
        bounds=bounds,
        lower=_name_list(lower),
        higher=_name_list(higher),
        is_gate=True,
    )
    if fails(conclusion, fail_if):
        raise AssertionError(str(conclusion))
    return conclusion


def fails(conclusion: Conclusion, fail_if: str) -> bool:
    """Return True if the decision about any contender is `fail_if` or a less favourable one, or if nothing
    could be decided about it.

    Raises:
        ConfigError: `fail_if` is not in `GATES`.
    """
    from ragbench.evaluation.decision import ORDER

    first_failing = fail_if.replace("-", " ")  # as the command spells it: "likely-worse"
    check_known("decision to fail at", GATES, first_failing)
    failing = ("not possible", *ORDER[ORDER.index(first_failing) :])  # `ORDER`: the best first
    decisions = [arm.decision for arm in conclusion.arms if arm.name != conclusion.baseline]
    return any(decision in failing for decision in decisions)


def conclude(sources: Sequence[Any], *, names: Sequence[str] = (), **options: Any) -> Conclusion:
    """Return the conclusion from sources of any kind.

    If all sources are folders of ragbench's results, the conclusion is `Results.conclude`; otherwise it
    is made from the tables of all systems.

    Args:
        sources: as for `compare`. Of a directory without ragbench's results, its files with scores
            are compared.
        names: the name of each source, "" to choose one; it may be shorter than `sources`. A source
            with several systems keeps the names of these.
        options: as for `ragbench.foreign.conclude_tables`.

    Raises:
        ConfigError: options for tables of other tools, and only results of ragbench.
    """
    from ragbench.foreign.table_conclusion import conclude_tables

    results_by_source = [_results_in(source) for source in sources]
    if results_by_source and all(results_by_source):  # every source is a folder of results
        return _conclude_results([*chain.from_iterable(results_by_source)], options)
    systems: list[Any] = []
    system_names: list[str] = []
    for place, source in enumerate(sources):
        systems_of_source = results_by_source[place] or _systems_in(source)
        systems += systems_of_source
        if len(systems_of_source) == 1:
            system_names.append(names[place] if place < len(names) else "")
        else:
            system_names += [""] * len(systems_of_source)
    return conclude_tables(systems, names=system_names, **options)


def _results_in(source: Any) -> list[Result]:
    """Return ragbench's results in a folder; [] if the source is anything else."""
    if not isinstance(source, str | Path) or not Path(source).is_dir():
        return []
    from ragbench.evaluation.folder import load_results, result_folders

    folder = Path(source)
    if not (folder / "config.json").is_file() and not result_folders(folder):
        return []
    return list(load_results(folder))


def _systems_in(source: Any) -> list[Any]:
    """Return the systems in a directory (see `ragbench.foreign.directories`); anything else as it is."""
    if not isinstance(source, str | Path) or not Path(source).is_dir():
        return [source]
    from ragbench.foreign.directories import sources_in

    return list(sources_in(Path(source)))


def _conclude_results(results: Sequence[Result], options: Mapping[str, Any]) -> Conclusion:
    """Return the conclusion from ragbench's own results.

    Results of the same name get a number, as in "bm25 (2)".

    Raises:
        ConfigError: `options` describe measures, which is only for tables of other tools: `bounds`,
            `lower`, `higher` or `labels`.
    """
    from ragbench.evaluation import Results

    foreign_options = {name: options.get(name) for name in ("bounds", "lower", "higher", "labels")}
    refuse_options(foreign_options, "tables of other tools")
    named: dict[str, Result] = {}
    for result in results:
        name = result.name
        number = 1
        while name in named:
            number += 1
            name = f"{result.name} ({number})"
        named[name] = replace(result, name=name)
    baseline = options.get("baseline") or next(iter(named))
    all_results = Results(list(named.values()), baseline=baseline)
    return all_results.conclude(
        measure=options.get("measure", ""), margin=options.get("margin", MARGIN)
    )


def _split_sources(
    baseline: Any, contender: Any, others: Sequence[Any]
) -> tuple[list[Any], list[str]]:
    """Return the sources to compare, and their names ([] if they have none).

    Without a contender, `baseline` may be a mapping of names to sources or a list of sources; any other
    object is one source (a path, or a table that holds several systems).
    """
    if contender is not None:
        return [baseline, contender, *others], []
    if isinstance(baseline, Mapping) and baseline and all(map(_is_table, baseline.values())):
        return list(baseline.values()), [str(name) for name in baseline]
    is_list = isinstance(baseline, Sequence) and not isinstance(baseline, str) and len(baseline) > 0
    # mappings in a list are the rows of one table
    if is_list and all(_is_table(part) and not isinstance(part, Mapping) for part in baseline):
        return list(baseline), []
    return [baseline], []


def _is_table(value: Any) -> bool:
    """Return True if a value can be the whole table of a system, and not one of its rows: a path, a
    frame, a result, {question id: score}, lists of records, or an object of another tool.
    """
    if isinstance(value, str | Path) or hasattr(value, "scores") or hasattr(value, "columns"):
        return True
    if isinstance(value, Mapping):  # the scores or the records of a system, not a row
        parts = list(value.values())
        are_numbers = bool(parts) and all(isinstance(part, int | float) for part in parts)
        return are_numbers or any(map(_is_record_list, parts))
    if isinstance(value, Sequence):
        return _is_record_list(value)
    return bool(getattr(value, "__dict__", None))  # a result of another tool's evaluation


def _is_record_list(value: Any) -> bool:
    """Return True for a list whose first part is a record."""
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return is_list and bool(value) and isinstance(value[0], Mapping)


def _has_tidy_scores(source: Any) -> bool:
    """Return True for a result of ragbench, and for a frame of tidy scores."""
    scores = getattr(source, "scores", source)
    return hasattr(scores, "columns") and {*map(str, scores.columns)} == _TIDY


def _comparison_frame(sources: Sequence[Any], names: Sequence[str], **options: Any) -> pd.DataFrame:
    """Compare results or tidy scores with the first of them, and return the frame of the comparison.

    Two sources without `names` give the frame of `statistics.compare`, which does not name systems. Else
    the frame is that of `statistics.compare_all`, whose column `name` has the compared system: its name
    in `names`; without `names` the name of its result; or A, B, C if a result has no name or two have
    the same.
    """
    from ragbench import statistics

    if len(sources) == 2 and not names:
        return statistics.compare(*sources, **options)
    if not names:
        names = [str(getattr(source, "name", "")) for source in sources]
        are_different = len({*names}) == len(names)
        if not (all(names) and are_different):
            names = [chr(ord("A") + place) for place in range(len(sources))]
    return statistics.compare_all(dict(zip(names, sources, strict=True)), names[0], **options)


def refuse_options(options: Mapping[str, Any], purpose: str) -> None:
    """Raise ConfigError if one of these options is given, that is, neither None nor empty; `purpose`
    names their purpose.
    """
    named = []
    for name, value in options.items():
        is_empty = isinstance(value, Sized) and len(value) == 0
        if value is not None and not is_empty:
            named.append(name)
    if named:
        raise ConfigError(f"{', '.join(named)}: only for {purpose}")


def _first_measure(measures: str | Sequence[str] | None) -> str:
    """Return the first measure; "" without one."""
    if measures is None or isinstance(measures, str):
        return measures or ""
    return next(iter(measures), "")


def _name_list(names: str | Collection[str]) -> list[str]:
    """Return names as a list: one name, several, or none for ""."""
    if isinstance(names, str):
        return [names] if names else []
    return list(names)
