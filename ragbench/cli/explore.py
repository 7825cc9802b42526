"""`ragbench explore`: every question of one result, or of two side by side, as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragbench.cli.console import shown
from ragbench.cli.options import Corpus, Force, results_at
from ragbench.report import page


def explore_command(
    results: Annotated[list[str], typer.Argument(metavar="RESULTS...")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o")] = Path("explore.html"),
    baseline: str = "",
    contender: str = "",
    measure: str = "",
    test_set: str = "",
    corpus: Corpus = "",
    force: Force = False,
) -> None:
    """Look at every question: what two configurations answered, from which contexts, and what each
    missed.

    Writes one HTML file that needs no network: a plot of A against B (a sorted one for a single
    result), filters by category, cause, outcome and text, and for each question the contexts with
    gold evidence highlighted. You can download the questions that you tick as a test set. The file
    contains texts of documents: take care who gets it.

    Args:
        results: Folders of results or sweeps; runs of the history by their name, the beginning of
            their id, or latest.
        output: The file.
        baseline: Name of result A; default: the sweep's baseline, else the first by name.
        contender: Name of result B; default: the best of the others.
        measure: The measure to compare by; default: the measure that ranks the leaderboard.
        test_set: The test set, if it cannot be found by its name.
        corpus: Documents of the test set, if it has none.

    Example: ragbench explore results/quickstart -o explore.html
    """
    from ragbench.report.explorer import explore
    from ragbench.testsets.loader import load_dataset

    page.check_output(output, force=force)
    loaded = results_at(results)
    if len(results) > 1 and len(loaded) == len(results):  # in the order that they are named
        baseline, contender = baseline or loaded[0].name, contender or loaded[1].name
    dataset = load_dataset(test_set, corpus=corpus) if test_set else None
    explorer = explore(loaded, baseline, contender, measure=measure, dataset=dataset)
    explorer.write(output, force=force)
    for sentence in (explorer.conclusion, *explorer.data["notes"]):
        typer.echo(sentence)
    typer.echo(f"Written to {shown(output)}")
