"""`ragbench score`: runs of any tool against judgements, with intervals and a comparison; which
files it takes, its measures, its printed means.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragbench import metrics, statistics
from ragbench.cli.console import print_json
from ragbench.cli.options import Json
from ragbench.errors import DataError, check_known
from ragbench.registry import load_measures
from ragbench.types import Run

if TYPE_CHECKING:
    import pandas as pd


def score_command(
    qrels: str,
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...")],
    *,
    measure: str = "nDCG@10,RR@10,AP,R@100,P@10",
    baseline: str = "",
    split: str = "test",
    as_json: Json = False,
) -> None:
    """Score runs of any retrieval tool: means with intervals, and the difference of each run from
    the first.

    A run is named after its file. Judged@k is added next to nDCG@k if documents among the first k
    have no judgement: they count as not relevant, which puts a retriever that was not part of the
    pool at a disadvantage. Exit status: 0 scored, 2 a file cannot be read.

    Args:
        qrels: Judgements: a TREC or BEIR file, or a dataset.
        runs: Runs in TREC's 6 columns, also .gz.
        measure: As in ir_measures: nDCG@10,P(rel=2)@5,RBP(p=0.5),SetF,Judged@10;
            and measures of your own: package.module:attribute.
        baseline: The run with which the others are compared; default: the first.
        split: Split of the dataset.

    Example: ragbench score qrels.txt bm25.run dense.run --measure nDCG@10,AP
    """
    from ragbench.metrics.retrieval_levels import merge_alternatives
    from ragbench.testsets.loader import load_dataset

    names = _names_of_runs(runs)
    first = baseline or names[0]
    check_known("run", names, first)
    named_measures = _measures_in(measure)
    added_measures = _judged_measures(named_measures)  # "Judged@10" for "nDCG@10"
    rankings = {name: _read_run(path) for name, path in zip(names, runs, strict=True)}
    if Path(qrels).is_file():
        judgements = metrics.read_qrels(qrels)
    else:
        data = load_dataset(qrels, split)
        # Documents may be alternatives for a question, such as two copies of a page. Finding one is enough,
        # so judgements and rankings keep the first of a group, with the highest value in the group.
        judgements = merge_alternatives(data, data.qrels)
        rankings = {name: merge_alternatives(data, run) for name, run in rankings.items()}
    all_measures = [*named_measures, *added_measures]
    scores = {
        name: metrics.score_run(judgements, run, all_measures) for name, run in rankings.items()
    }
    # without each Judged@k that is 1 in every run
    means = _means_by_run(scores, set(added_measures))
    comparison = None
    if len(scores) > 1:
        comparison = statistics.compare_all(scores, first, measures=named_measures)
    if as_json:
        differences = [] if comparison is None else _records(comparison)
        print_json({"means": _records(means), "baseline": first, "differences": differences})
        return
    _print_means(means, added_measures)
    if comparison is not None:
        typer.echo(f"\nDifferences from {first}, paired by query; {named_measures[0]} decides:")
        columns = "name measure difference ci_low ci_high p_value p_adjusted decision n".split()
        typer.echo(comparison[columns].round(4).to_string(index=False))


def _print_means(means: pd.DataFrame, added_measures: list[str]) -> None:
    """Print the table of means, and below it the meaning of each measure that the user did not name."""
    typer.echo(means.round(4).to_string(index=False))
    for name in sorted({*added_measures} & {*means["measure"]}):
        typer.echo(f"{name} is below 1: documents without a judgement count as not relevant.")


def _measures_in(text: str) -> list[str]:
    """Return the names of the measures in a list with commas, each once and in its usual form; a
    user's own measure is imported.

    >>> _measures_in("ndcg@10,P(rel=2)@5")
    ['nDCG@10', 'P(rel=2)@5']
    """
    from ragbench.metrics.ranking_measures import parse_measure

    names = []
    for name in re.split(r",(?![^()]*\))", text):  # not at a comma in parentheses
        [loaded] = load_measures([name])  # declares a user's own measure
        is_own = loaded.function is not None
        names.append(loaded.name if is_own else str(parse_measure(name)))
    return list(dict.fromkeys(names))  # each once


def _judged_measures(names: list[str]) -> list[str]:
    """Return Judged@k for each nDCG@k among the measures, unless it is among them itself.

    >>> _judged_measures(["nDCG@10", "nDCG@5", "Judged@5"])
    ['Judged@10']
    """
    judged_names = []
    for name in names:
        if name.startswith("nDCG"):
            judged_names.append(re.sub(r"nDCG(\([^()]*\))?", "Judged", name))
    return [name for name in dict.fromkeys(judged_names) if name not in names]  # each once


def _read_run(path: Path) -> Run:
    """Return the run in a file: query_id -> doc_id -> score.

    Raises:
        DataError: the file is not a run; if it holds relevance judgements, the message states it.
    """
    try:
        return metrics.read_run(path)
    except DataError as exc:
        if not _holds_judgements(path):
            raise
        raise DataError(
            f"{path} holds judgements, not a run; `ragbench score QRELS RUN` takes the judgements first"
        ) from exc


def _holds_judgements(path: Path) -> bool:
    try:
        metrics.read_qrels(path)
    except DataError:
        return False
    return True


def _names_of_runs(paths: list[Path]) -> list[str]:
    """Return a name for each run file: the file's name without its ending.

    If two of these names are the same, the names are the whole paths.

    >>> _names_of_runs([Path("a/bm25.run.gz"), Path("b/dense.run")])
    ['bm25', 'dense']
    """
    names = []
    for path in paths:
        stem, _, _ = path.name.removesuffix(".gz").rpartition(".")
        names.append(stem or path.name)
    has_duplicates = len(set(names)) < len(names)
    return [str(path) for path in paths] if has_duplicates else names


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame as JSON has them: null where a number is undefined."""
    rows: list[dict[str, Any]] = json.loads(frame.to_json(orient="records", double_precision=15))
    return rows


def _means_by_run(scores: dict[str, pd.DataFrame], added_measures: set[str]) -> pd.DataFrame:
    """Return the mean and its interval for each run and measure: the columns run, measure, and the columns
    of `statistics.summarise`.

    Of `added_measures`, which the user did not name, those that are 1 in every run are left out.
    """
    import pandas as pd

    means = pd.concat(
        {name: statistics.summarise(frame) for name, frame in scores.items()}, names=["run", ""]
    )
    means = means.reset_index("run").reset_index(drop=True)
    # in each row the lowest mean that a run has of the row's measure
    lowest_mean = means.groupby("measure")["mean"].transform("min")
    is_below_1 = lowest_mean < 1  # False for NaN
    is_shown = ~means["measure"].isin(added_measures) | is_below_1
    return means[is_shown].reset_index(drop=True)
