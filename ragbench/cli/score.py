"""`ragbench score`: runs of any tool against judgements, with intervals and a comparison."""

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

    A run is named by its file. Judged@k is added next to nDCG@k where documents of the first k have
    no judgement: they count as not relevant, which punishes a retriever that was not part of the
    pool. Exit status: 0 scored, 2 a file cannot be read.

    Args:
        qrels: Judgements: a file of TREC or BEIR, or a dataset.
        runs: Runs in TREC's 6 columns, also .gz.
        measure: As in ir_measures: nDCG@10,P(rel=2)@5,RBP(p=0.5),SetF,Judged@10;
            and measures of your own: package.module:attribute.
        baseline: The run with which the others are compared; default: the first.
        split: Of a dataset.

    Example: ragbench score qrels.txt bm25.run dense.run --measure nDCG@10,AP
    """
    from ragbench.metrics.ranking_measures import parse_measure
    from ragbench.metrics.retrieval_levels import one_of_each
    from ragbench.testsets.loader import load_dataset

    names = _names_of_runs(runs)
    first = baseline or names[0]
    check_known("run", names, first)
    # A comma in parentheses is part of a name.
    named_measures: list[str] = []
    for text in re.split(r",(?![^()]*\))", measure):
        [loaded] = load_measures([text])
        named_measures.append(loaded.name if loaded.function else str(parse_measure(text)))
    named_measures = list(dict.fromkeys(named_measures))
    added_measures = []
    for name in named_measures:
        fraction_judged = re.sub(r"nDCG(\([^()]*\))?", "Judged", name)
        if name.startswith("nDCG") and fraction_judged not in named_measures:
            added_measures.append(fraction_judged)
    rankings = {name: _read_run(path) for name, path in zip(names, runs, strict=True)}
    if Path(qrels).is_file():
        labels = metrics.read_qrels(qrels)
    else:
        data = load_dataset(qrels, split)
        labels = one_of_each(data, data.qrels)
        rankings = {name: one_of_each(data, run) for name, run in rankings.items()}
    all_measures = list(dict.fromkeys([*named_measures, *added_measures]))
    scores = {name: metrics.score_run(labels, run, all_measures) for name, run in rankings.items()}
    means = _means(scores, set(added_measures))
    comparison = None
    if len(scores) > 1:
        comparison = statistics.compare_all(scores, first, measures=named_measures)
    if as_json:
        differences = [] if comparison is None else _records(comparison)
        print_json({"means": _records(means), "baseline": first, "differences": differences})
        return
    typer.echo(means.round(4).to_string(index=False))
    for name in sorted({*added_measures} & {*means["measure"]}):
        typer.echo(f"{name} is below 1: documents without a judgement count as not relevant.")
    if comparison is not None:
        typer.echo(f"\nDifferences from {first}, paired by query; {named_measures[0]} decides:")
        columns = "name measure difference ci_low ci_high p_value p_adjusted decision n".split()
        typer.echo(comparison[columns].round(4).to_string(index=False))


def _read_run(path: Path) -> Run:
    """Return the run of a file.

    Raises DataError if it is none; the message says so if it holds judgements.
    """
    try:
        return metrics.read_run(path)
    except DataError as exc:
        try:
            metrics.read_qrels(path)
        except DataError:
            raise exc from None
        raise DataError(
            f"{path} holds judgements, not a run; `ragbench score QRELS RUN` takes the judgements first"
        ) from exc


def _names_of_runs(paths: list[Path]) -> list[str]:
    """Return the names of files without their endings; their paths if two names are the same."""
    names = []
    for path in paths:
        stem, _, _ = path.name.removesuffix(".gz").rpartition(".")
        names.append(stem or path.name)
    if len(set(names)) < len(names):
        return [str(path) for path in paths]
    return names


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame as JSON has them: null where a number is undefined."""
    rows: list[dict[str, Any]] = json.loads(frame.to_json(orient="records", double_precision=15))
    return rows


def _means(scores: dict[str, pd.DataFrame], optional: set[str]) -> pd.DataFrame:
    """Return the means of each run, without `optional` measures that are 1 in all of them."""
    import pandas as pd

    means = pd.concat(
        {name: statistics.summarise(frame) for name, frame in scores.items()}, names=["run", ""]
    )
    lowest = means.groupby("measure")["mean"].transform("min")
    means = means[~means["measure"].isin(optional) | (lowest < 1)]
    return means.reset_index("run").reset_index(drop=True)
