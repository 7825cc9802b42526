"""`ragbench label`: verdicts by people on the answers of two systems, until it is decided which is
better.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ragbench import llms
from ragbench.cli.console import print_json
from ragbench.cli.options import (
    AtLeast1,
    Concurrency,
    Corpus,
    Database,
    Json,
    Timeout,
    results_at,
)


def label_command(
    results: Annotated[list[str], typer.Argument(metavar="A B")],
    *,
    until_decided: bool = False,
    criterion: str = "correctness",
    sheet: Path = Path("labels.csv"),
    annotator: str = "me",
    batch: AtLeast1 = 10,
    margin: float = 0.02,
    judge: str = "",
    test_set: str = "",
    corpus: Corpus = "",
    database: Database = "",
    concurrency: Concurrency = 8,
    timeout_s: Timeout = llms.TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Label answers of A and B (by a ranking measure, documents) without knowing whose they are, and
    see what people's verdicts show of B minus A, with an interval that is valid when you stop. No
    verdict of a judge or of another person is shown.

    Each verdict is in the sheet before the next answer is shown; Ctrl-C ends, and the same command
    continues. Without a terminal it draws the next questions into the sheet, to be filled in with
    the notebook label.ipynb or a spreadsheet, and prints the estimate so far.

    Args:
        results: Folders of two results, or of one for its mean; or runs of the history.
        until_decided: Draw further questions until B is better, worse, or within the margin.
        criterion: correctness, relevance, completeness, faithfulness or one of your own; or a
            ranking measure, such as nDCG@10.
        sheet: The CSV file of the labels, in any folder; an existing one is continued.
        annotator: Who labels. A second person gives another name with the same sheet, and
            gets the answers of the first person before others.
        batch: How many questions are drawn when none is left to label.
        margin: A difference that does not matter.
        judge: Model that grades documents without a label, for a ranking measure.
        test_set: The test set, where it cannot be found by its name.
        corpus: Its documents, where the test set holds none.

    Example: ragbench label results/eval/a results/eval/b --until-decided
    """
    from ragbench.errors import printable
    from ragbench.labelling import draw_items, judge_relevance, label_sheet, open_items, trust
    from ragbench.report.source_documents import chunks_by_name, data_of
    from ragbench.testsets.loader import load_dataset

    arms = results_at(results, database)
    named_set = load_dataset(test_set, corpus=corpus) if test_set else None
    dataset, notes = data_of(arms[0], named_set)
    for note in notes:
        typer.echo(note, err=True)
    grades = None
    if judge:
        runs = [arm.run for arm in arms]
        asking: dict[str, Any] = {"concurrency": concurrency, "timeout_s": timeout_s}
        grades = judge_relevance(dataset, runs, judge, measure=criterion, **asking)
    options: dict[str, Any] = {"criterion": criterion, "dataset": dataset, "grades": grades}
    chunks = chunks_by_name(arms, dataset)
    is_interactive = sys.stdin.isatty() and not as_json
    is_over = False
    n_pending = 0
    while True:
        state = trust(arms, _sheet_with_labels(sheet), margin=margin, **options)
        pending = open_items(sheet, criterion, annotator=annotator)
        is_decided = state.decision not in ("undecided", "mean")
        if is_decided or (is_over and pending.empty):
            break
        if pending.empty:
            typer.echo(printable(state.sentence), err=as_json)
            items = draw_items(
                arms,
                chunks=chunks,
                sheet=sheet,
                annotator=annotator,
                n=batch,
                **options,
            )
            if not items:
                break
            label_sheet(items, sheet, annotator=annotator)
            pending = open_items(sheet, criterion, annotator=annotator)
        if not is_interactive:
            n_pending = len(pending)
            typer.echo(f"{n_pending} texts for {annotator} to label in {sheet}.", err=as_json)
            break
        for number, row in enumerate(pending.to_dict("records"), 1):
            _ask(row, f"{number} of {len(pending)}", sheet, annotator)
        is_over = not until_decided
    if as_json:
        print_json({**asdict(state), "sentence": state.sentence, "n_pending": n_pending})
        return
    names = " against ".join(printable(arm.name) for arm in reversed(arms))
    typer.echo(f"{names}: {state.sentence}")


def _sheet_with_labels(sheet: Path) -> Path | None:
    """Return the path of a sheet; None if it does not exist or holds no label."""
    from ragbench.labelling import read_sheet

    if sheet.exists() and read_sheet(sheet)["value"].count() > 0:
        return sheet
    return None


def _ask(row: dict[Any, Any], place: str, sheet: Path, annotator: str) -> None:
    """Show an answer, and save the verdict of the key that is pressed."""
    from ragbench.errors import printable
    from ragbench.labelling import save_label
    from ragbench.labelling.items import scale_of

    scale = scale_of(row["criterion"])
    for name in ("question", "reference", "answer", "context"):
        if row[name]:
            typer.echo(f"\n{typer.style(name.capitalize(), bold=True)}: {printable(row[name])}")
    keys = ", ".join(f"{key} = {name}" for key, (_, name) in scale.verdicts.items())
    typer.echo(f"\n{scale.question} ({place}; {keys}): ", nl=False)
    while (key := typer.getchar().casefold()) not in scale.verdicts:
        pass
    value, name = scale.verdicts[key]
    save_label(sheet, row["item"], value, annotator=annotator)
    typer.echo(name)
