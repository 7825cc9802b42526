"""`ragbench score`: runs of any tool against judgements, with intervals and a comparison."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from ragbench.errors import ConfigError, unknown


def score_command(
    qrels: Annotated[
        str,
        typer.Argument(metavar="QRELS", help="Judgements: a file of TREC or BEIR, or a dataset."),
    ],
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Runs in TREC's 6 columns, also .gz.")
    ],
    measures: Annotated[
        str, typer.Option(help="As in ir_measures: nDCG@10,P(rel=2)@5,RBP(p=0.5),SetF,Judged@10.")
    ] = "nDCG@10,RR@10,AP,R@100,P@10",
    baseline: Annotated[
        str, typer.Option(help="The run with which the others are compared; default: the first.")
    ] = "",
    split: Annotated[str, typer.Option(help="Of a dataset.")] = "test",
    csv: Annotated[Path | None, typer.Option(help="Write the value of every query there.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: means and comparisons.")
    ] = False,
) -> None:
    """Score runs of any retrieval tool: means with intervals, and the difference of each run from
    the first.

    A run is named by its file. Judged@k is added next to nDCG@k where documents of the first k have
    no judgement: they count as not relevant, which punishes a retriever that was not part of the
    pool. Exit status: 0 scored, 2 a file cannot be read.
    """
    import pandas as pd

    from ragbench.metrics import read_qrels, read_run, score_run
    from ragbench.metrics.retrieval import parse_measures
    from ragbench.statistics import compare_all, summarise

    names = [path.name.removesuffix(".gz").rpartition(".")[0] or path.name for path in runs]
    if len(set(names)) < len(names):
        names = [str(path) for path in runs]
    first = baseline or names[0]
    if first not in names:
        raise ConfigError(unknown("run", first, names))
    wanted = [str(one) for one in parse_measures(_split(measures))]
    added = [name.replace("nDCG", "Judged") for name in wanted if name.startswith("nDCG")]
    both = list(
        dict.fromkeys(one for name in wanted for one in (name, name.replace("nDCG", "Judged")))
    )
    if Path(qrels).is_file():
        judged = read_qrels(qrels)
    else:
        from ragbench.testsets.loader import load_dataset

        judged = load_dataset(qrels, split).qrels
    scores = {
        name: score_run(judged, read_run(path), both)
        for name, path in zip(names, runs, strict=True)
    }
    means = pd.concat([summarise(frame).assign(run=name) for name, frame in scores.items()])
    complete = set(
        means.groupby("measure")["mean"].min().loc[lambda least: least == 1].index
    ) & set(added)
    hidden = complete - set(wanted)
    means = means[~means["measure"].isin(hidden)].set_index("run").reset_index()
    others = compare_all(scores, first, measures=wanted) if len(scores) > 1 else None
    if csv is not None:
        from ragbench.files import write_durably
        from ragbench.text import shielded

        table = pd.concat([frame.assign(run=name) for name, frame in scores.items()])
        table["query_id"] = table["query_id"].map(shielded)
        write_durably(csv, table[["run", "query_id", "measure", "value"]].to_csv(index=False))
    if as_json:
        parts = {"means": means, "comparison": others}
        plain = {
            key: json.loads(part.to_json(orient="records"))
            for key, part in parts.items()
            if part is not None
        }
        typer.echo(json.dumps(plain, indent=2))
        return
    typer.echo(means.round(4).to_string(index=False))
    for name in sorted(set(added) & set(means["measure"]) - set(wanted)):
        typer.echo(f"{name} is below 1: what has no judgement counts as not relevant.")
    if others is not None:
        typer.echo(f"\nDifferences from {first}, paired by query; p adjusted by Holm:")
        columns = [
            "name",
            "measure",
            "difference",
            "ci_low",
            "ci_high",
            "p_value",
            "p_adjusted",
            "n",
        ]
        typer.echo(pd.DataFrame(others)[columns].round(4).to_string(index=False))


def _split(text: str) -> list[str]:
    """Names separated by commas, not by those in parentheses."""
    return [name.strip() for name in re.split(r",(?![^()]*\))", text) if name.strip()]
