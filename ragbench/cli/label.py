"""`ragbench label`: label answers of two configurations until it is decided which is better."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ragbench.cli.console import shown
from ragbench.cli.options import AtLeast1, Corpus, Database, results_at

if TYPE_CHECKING:
    from ragbench.types import Dataset


def label_command(
    a: str,
    b: str,
    *,
    until_decided: bool = False,
    sheet: Path = Path("labels.csv"),
    criterion: str = "correctness",
    margin: float = 0.02,
    batch: AtLeast1 = 10,
    annotator: str = "me",
    judges: str = "",
    test_set: str = "",
    corpus: Corpus = "",
    database: Database = "",
) -> None:
    """Label answers of A and B until people's verdicts decide which is better, or that they do not
    differ by the margin.

    Draws questions in batches, shows their answers in random order without the names of the
    configurations, and after each batch prints the difference of people's verdicts with an interval
    that holds whenever you stop. Every verdict is in the sheet before the next answer is shown; the
    same command continues it. Without a terminal, or without --until-decided, it adds a batch to
    the sheet unless one is pending, and prints the state.

    Args:
        a: Folder of a result, or a run of the history.
        b: The one that it is compared with.
        until_decided: Ask for verdicts here: their keys are shown; s skips, q quits.
        sheet: The CSV file with the labels.
        criterion: correctness, relevance or faithfulness.
        margin: The difference that does not matter.
        batch: Questions in a batch.
        annotator: Who labels.
        judges: Measures that make the interval narrower, with commas between; the first is named
            as the judge.
        test_set: The test set, where it cannot be found by its name.
        corpus: Its documents, where the test set holds none.

    Example: ragbench label results/eval/monday results/eval/tuesday --until-decided
    """
    from ragbench import labelling
    from ragbench.errors import ConfigError

    results = results_at([a, b], database)
    if len(results) != 2:
        raise ConfigError(f"{a} and {b} hold {len(results)} results; name the folders of two")
    measures = [name.strip() for name in judges.split(",") if name.strip()]
    options: dict[str, Any] = {"criterion": criterion, "judges": measures}
    drawing: dict[str, Any] = {}
    in_terminal = until_decided and sys.stdin.isatty() and sys.stdout.isatty()
    while True:
        state = labelling.trust(
            results, sheet if sheet.exists() else None, margin=margin, **options
        )
        typer.echo(f"\n{state}")
        if state.decision != "undecided":
            return
        if not drawing:
            dataset = _dataset(results[0], test_set, corpus)
            chunks = labelling.chunks_of(results, dataset) if criterion == "faithfulness" else None
            drawing = {"dataset": dataset, "chunks": chunks, "n": batch}
        waiting = labelling.extend_sheet(sheet, results, annotator=annotator, **drawing, **options)
        typer.echo(f"{waiting} answers wait for a verdict in {shown(sheet)}.")
        if not (waiting and in_terminal and ask_verdicts(sheet, annotator)):
            return


def ask_verdicts(sheet: Path, annotator: str) -> bool:
    """Ask for the verdicts of the answers that wait, until all have one (True) or the user quits;
    what is skipped comes again.
    """
    from ragbench.labelling import LABELLED, read_sheet, save_label

    while True:
        rows = read_sheet(sheet, annotator=annotator)
        waiting = rows[rows["value"].isna()].to_dict("records")
        if not waiting:
            return True
        for number, row in enumerate(waiting, 1):
            scale = LABELLED[row["criterion"]]
            keys = ", ".join(f"{key} {name}" for key, (_, name) in scale.verdicts.items())
            parts = {
                f"Question ({number} of {len(waiting)} answers)": row["question"],
                "Reference answer": row["reference"],
                "Documents": row["context"] if row["criterion"] == "faithfulness" else "",
                "Answer": row["answer"],
            }
            typer.echo(
                "".join(f"\n{name}:\n{_plain(text)}\n" for name, text in parts.items() if text)
            )
            typer.echo(f"{scale.question}\n[{keys}; s skip, q quit] ", nl=False)
            key = ""
            while key not in {*scale.verdicts, "s", "q"}:
                key = typer.getchar().casefold()
            typer.echo(key)
            if key == "q":
                return False
            if key != "s":
                save_label(sheet, row["item"], scale.verdicts[key][0], annotator=annotator)


def _plain(text: str) -> str:
    """Return a text whose control characters cannot move the cursor."""
    from ragbench.errors import printable

    return "\n".join(map(printable, text.splitlines()))


def _dataset(result: Any, test_set: str, corpus: str) -> Dataset:
    """Return the dataset named, else the one that the result was measured on."""
    from ragbench.testsets.loader import load_dataset

    name = test_set or result.parameters.get("dataset") or result.dataset["name"]
    split = result.dataset["split"] or "test"
    dataset = load_dataset(name, split, corpus=corpus or result.parameters.get("corpus") or "")
    return dataset.select(
        [key for key in result.queries if key in {c.query_id for c in dataset.cases}]
    )
