"""`ragbench compare`: options and terminal tables of a comparison of results;
`statistics/comparison` decides, `evaluation/decision` words it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ragbench import evaluation, foreign, report
from ragbench.cli.console import print_json, print_table
from ragbench.cli.options import Database, Json, results_at
from ragbench.statistics.thresholds import MARGIN


def compare_command(
    results: Annotated[list[str], typer.Argument(metavar="RESULTS...")],
    *,
    measure: str = "",
    baseline: str = "",
    bounds: Annotated[list[str], typer.Option(metavar="MEASURE=LOW..HIGH")] = [],  # noqa: B006
    lower: Annotated[list[str], typer.Option(metavar="MEASURE")] = [],  # noqa: B006
    higher: Annotated[list[str], typer.Option(metavar="MEASURE")] = [],  # noqa: B006
    margin: float = MARGIN,
    labels: Path | None = None,
    fail_if: str = "",
    markdown: bool = False,
    database: Database = "",
    as_json: Json = False,
) -> int:
    """Compare results with the first one, or the results of a sweep with its baseline. The output is the
    decision and the table of the comparison notebook.

    Results of other tools are read as they are: a table (CSV, TSV, JSON, JSON Lines, parquet, xlsx) with a row
    per question, or per question and measure, and the files of ragas, DeepEval, promptfoo, Inspect, MLflow,
    lm-evaluation-harness, OpenAI evals, Braintrust, LangSmith, TruLens, Phoenix, Langfuse, Opik,
    trec_eval, JUnit and others.
    Exit status: 0 compared, 1 the gate of --fail-if failed, 2 a file cannot be read.

    Args:
        results: Folders of results or sweeps; runs of the history by their name, the beginning of
            their id, or latest; files of other tools, or one file with a column of systems.
        measure: Measure to rank by; default: evidence found, or nDCG@10; for files of another tool,
            their first measure.
        baseline: The result that the others are compared with; default: the first.
        margin: A difference that does not matter, as a fraction of the measure's range.

    Other tools:
        bounds: Smallest and largest value of a measure, as score=0..10; may be repeated.
        lower: A measure of which a lower value is better; may be repeated.
        higher: A measure of which a higher value is better, whatever its name; may be
            repeated.
        labels: A table of people's verdicts on some questions; the output states what they show.

    For CI:
        fail_if: worse, likely-worse, undecided or within-the-margin: exit status 1 at this decision or
            a less favourable one, or if nothing can be decided; 2 if a file lacks the measure that decides.
        markdown: Print Markdown, for a pull request.

    Example: ragbench compare main.csv branch.csv --measure faithfulness --fail-if worse
    """
    _refuse_several_measures(measure)
    if any(map(_is_foreign, results)):  # a file of another tool
        loaded = None
        conclusion = foreign.conclude(
            [_path_or_result(name, database) for name in results],
            baseline=baseline,
            measure=measure,
            margin=margin,
            bounds=dict(map(foreign.bounds_from, bounds)),
            lower=lower,
            higher=higher,
            labels=labels,
            is_gate=bool(fail_if),
        )
    else:
        _refuse_options_of_foreign_files(bounds, lower, higher, labels)
        loaded = results_at(results, database)
        conclusion = loaded.conclude(baseline, measure=measure, margin=margin)
    is_failed = bool(fail_if) and foreign.fails(conclusion, fail_if)
    if as_json:
        print_json(conclusion.to_dict())
    elif markdown:
        from ragbench.report.conclusions import conclusion_markdown

        typer.echo(conclusion_markdown(conclusion), nl=False)
    elif loaded is not None:
        print_decision(loaded, measure, len(loaded), baseline=baseline, margin=margin)
    else:
        _print_conclusion(conclusion)
        _print_arms(conclusion)
    return int(is_failed)


def _refuse_several_measures(measure: str) -> None:
    """Raise ConfigError if --measure has the names of several measures of ragbench. A comma may also be part
    of the name of another tool's measure.
    """
    from ragbench.errors import ConfigError  # not needed for help
    from ragbench.registry import expected_measure

    names = measure.split(",")
    if len(names) > 1 and all(map(expected_measure, names)):
        raise ConfigError(
            f"--measure is {measure!r}, and compare decides by one measure: --measure {names[0]} (the others "
            "are listed without a decision)"
        )


def _refuse_options_of_foreign_files(
    bounds: list[str], lower: list[str], higher: list[str], labels: Path | None
) -> None:
    """Raise ConfigError if an option is given that only applies to files of other tools."""
    from ragbench.foreign.score_comparison import refuse_options  # not needed for help

    refuse_options(
        {"--bounds": bounds, "--lower": lower, "--higher": higher, "--labels": labels},
        "files of other tools, and all of these results are ragbench's; compare them without",
    )


def _is_foreign(name: str) -> bool:
    """Return True for a file of another tool, and for a directory with such files and no result."""
    path = Path(name).expanduser()
    if path.is_dir():
        # a result of ragbench has one of these files; a folder of results has such folders
        is_result = any((path / file).exists() for file in (*evaluation.FILES, "report.json"))
        return not is_result and not evaluation.result_folders(path)
    return path.is_file() and path.name != "report.json"


def _path_or_result(name: str, database: str) -> Any:
    """Return the path of a foreign file, or a result of ragbench next to it."""
    if _is_foreign(name):
        return Path(name).expanduser()
    # one name gives one result
    [result] = results_at([name], database)
    return result


def _print_conclusion(conclusion: evaluation.Conclusion) -> None:
    from ragbench.errors import printable

    typer.echo("")
    for line in conclusion.lines:
        typer.echo(printable(line))


def _print_arms(conclusion: evaluation.Conclusion) -> None:
    """Print a table with a line for each compared system ("arm"), best first.

    It has the mean, the difference from the baseline, the questions on which the system is better,
    equal and worse, and the decision.
    """
    import pandas as pd

    from ragbench.errors import printable
    from ragbench.statistics.comparison import with_interval

    rows = []
    for arm in conclusion.arms:
        is_baseline = not arm.decision  # it is not compared with itself
        counts = f"{arm.wins}/{arm.ties}/{arm.losses}"
        rows.append(
            {
                "system": printable(arm.label),
                "mean": with_interval(arm.mean),
                "difference": with_interval(arm.difference, arm.ci_low, arm.ci_high, "{:+.3f}"),
                "better/equal/worse": "–" if is_baseline else counts,
                "decision": "baseline" if is_baseline else arm.decision,
            }
        )
    table = pd.DataFrame(rows)
    typer.echo("")
    print_table(table, [*table], {"mean": conclusion.measure})
    typer.echo("")


def print_decision(
    results: evaluation.Results,
    measure: str = "",
    n_rows: int = 12,
    *,
    baseline: str = "",
    margin: float = MARGIN,
) -> None:
    """Print the conclusion of results; of several results also the leaderboard with each difference
    from the baseline: the best `n_rows` results, and the baseline. The number of the others, which
    only a sweep has, refers to its leaderboard.md.
    """
    conclusion = results.conclude(baseline, measure=measure, margin=margin)
    _print_conclusion(conclusion)
    if len(results) < 2:
        return
    measure = conclusion.measure
    # one row per result, the best first
    board = results.leaderboard(measure)
    # the index of the board is the rank, from 0
    is_shown = (board.index < n_rows) | (board["name"] == conclusion.baseline)
    comparison = results.compare(baseline, measures=[measure], margin=margin)
    # rows for reading; `comparison` has the differences from the baseline
    rows = report.leaderboard_rows(board[is_shown], measure, comparison)
    # column of `rows` -> its heading; the column of names is headed "best", as the best come first
    headings = {
        "configuration": "best",
        f"{measure} (ranked by)": f"{measure} [95 % interval]",
        "difference from the baseline": "difference",
        "decision": "decision",
        "scored": "scored",
    }
    typer.echo("")
    print_table(rows, headings.keys(), headings)
    n_hidden = len(board) - int(is_shown.sum())
    if n_hidden:
        typer.echo(f"{n_hidden} more in leaderboard.md")
    typer.echo("")
