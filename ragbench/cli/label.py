"""`ragbench label`: verdicts by people at the terminal on the answers of two systems, until one is
shown to be better; `labelling` has the questions, scales and sheets.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from ragbench.statistics.thresholds import MARGIN

if TYPE_CHECKING:
    import pandas as pd

    from ragbench.evaluation import Result
    from ragbench.statistics.trust import Trust
    from ragbench.types import Chunk


def label_command(
    results: Annotated[list[str], typer.Argument(metavar="A B")],
    *,
    until_decided: bool = False,
    criterion: str = "correctness",
    sheet: Path = Path("labels.csv"),
    annotator: str = "me",
    batch: AtLeast1 = 10,
    margin: float = MARGIN,
    judge: str = "",
    test_set: str = "",
    corpus: Corpus = "",
    database: Database = "",
    concurrency: Concurrency = 8,
    timeout_s: Timeout = llms.TIMEOUT_S,
    as_json: Json = False,
) -> None:
    """Label answers of A and B without seeing whose they are, and estimate the difference B minus A
    from the labels, with an interval that is valid whenever you stop. With a ranking measure as
    --criterion, documents are labelled. No verdict of a judge or of another person is shown.

    Each verdict is saved before the next answer is shown; Ctrl-C ends, and the same command
    continues. Without a terminal the next questions are drawn into the sheet, to be filled in with
    the notebook label.ipynb or a spreadsheet, and the estimate so far is printed.

    Args:
        results: Folders of two results, or of one to estimate its mean; or runs of the history.
        until_decided: Draw further questions until B is better, worse, or within the margin.
        criterion: correctness, relevance, completeness, faithfulness or one of your own; or a
            ranking measure, such as nDCG@10.
        sheet: The CSV file of the labels, in any folder; an existing one is continued.
        annotator: Name of the person who labels. A second person uses another name with the same
            sheet, and gets the answers of the first person before others.
        batch: Number of questions to draw when none is left to label.
        margin: A difference that does not matter.
        judge: Model that grades documents without a label, for a ranking measure.
        test_set: The test set, if it cannot be found by its name.
        corpus: Documents of the test set, if it has none.

    Example: ragbench label results/eval/a results/eval/b --until-decided
    """
    from ragbench.labelling import judge_relevance
    from ragbench.report.source_documents import chunks_by_name, data_of
    from ragbench.testsets.loader import load_dataset

    arms = results_at(results, database)
    named_set = load_dataset(test_set, corpus=corpus) if test_set else None
    dataset, notes = data_of(arms[0], named_set)
    for note in notes:
        typer.echo(note, err=True)
    grades = None  # of documents, by a judge
    if judge:
        grades = judge_relevance(
            dataset,
            [arm.run for arm in arms],
            judge,
            measure=criterion,
            concurrency=concurrency,
            timeout_s=timeout_s,
        )
    session = _Session(
        arms=arms,
        chunks=chunks_by_name(arms, dataset),
        options={"criterion": criterion, "dataset": dataset, "grades": grades},
        sheet=sheet,
        annotator=annotator,
        batch=batch,
        margin=margin,
        as_json=as_json,
    )
    is_interactive = sys.stdin.isatty() and not as_json
    if is_interactive:
        estimate = session.label(until_decided=until_decided)
        session.print_estimate(estimate)
    else:
        estimate, n_pending = session.draw()
        session.print_estimate(estimate, n_pending=n_pending)


@dataclass(frozen=True)
class _Session:
    """The labelling of two results by one person.

    Attributes:
        options: arguments that the estimate and the draw of questions share.
        batch: the number of questions to draw when none is left to label.
        margin: a difference that does not matter.
    """

    arms: Sequence[Result]
    chunks: Mapping[str, Sequence[Chunk]]
    options: Mapping[str, Any]
    sheet: Path
    annotator: str
    batch: int
    margin: float
    as_json: bool

    def label(self, *, until_decided: bool) -> Trust:
        """Ask the person at the terminal for a verdict on each text that is left to label; return the
        estimate of the difference from all labels.

        If no text is left, further questions are drawn: once, or with `until_decided` until the
        estimate decides or no question is left.
        """
        has_labelled = False
        while True:
            estimate = self.estimate()
            if _is_decided(estimate):
                return estimate
            pending = self.pending()
            if pending.empty:
                # without `until_decided`, questions are drawn only if there was nothing to label before
                may_draw = until_decided or not has_labelled
                # `draw_questions` returns False if no question is left
                if not may_draw or not self.draw_questions(estimate):
                    return estimate
                pending = self.pending()
            for number, row in enumerate(pending.to_dict("records"), 1):
                _ask_for_verdict(row, f"{number} of {len(pending)}", self.sheet, self.annotator)
            has_labelled = True

    def draw(self) -> tuple[Trust, int]:
        """Make sure that the sheet has texts to label, unless the estimate decides already.

        If none is left, further questions are drawn into the sheet. Return the estimate, and the number
        of texts that the person has to label.
        """
        estimate = self.estimate()
        if _is_decided(estimate):
            return estimate, 0
        if self.pending().empty and not self.draw_questions(estimate):
            return estimate, 0
        n_pending = len(self.pending())
        typer.echo(
            f"{n_pending} texts for {self.annotator} to label in {self.sheet}.", err=self.as_json
        )
        return estimate, n_pending

    def estimate(self) -> Trust:
        """Return the estimate from the labels so far."""
        from ragbench.labelling import trust

        sheet = _sheet_with_labels(self.sheet)
        return trust(self.arms, sheet, margin=self.margin, **self.options)

    def pending(self) -> pd.DataFrame:
        """Return the rows of the sheet that are left to label."""
        from ragbench.labelling import open_items

        return open_items(self.sheet, self.options["criterion"], annotator=self.annotator)

    def draw_questions(self, estimate: Trust) -> bool:
        """Print the estimate so far and draw the next questions into the sheet; return False if no
        question is left.
        """
        from ragbench.errors import printable
        from ragbench.labelling import draw_items, label_sheet

        typer.echo(printable(estimate.sentence), err=self.as_json)
        items = draw_items(
            self.arms,
            chunks=self.chunks,
            sheet=self.sheet,
            annotator=self.annotator,
            n=self.batch,
            **self.options,
        )
        if not items:
            return False
        label_sheet(items, self.sheet, annotator=self.annotator)
        return True

    def print_estimate(self, estimate: Trust, *, n_pending: int = 0) -> None:
        """Print the estimate as a sentence after the names of the results, such as "B against A: ...";
        or as JSON, with the number of texts that are left to label.
        """
        from ragbench.errors import printable

        if self.as_json:
            values = asdict(estimate)
            print_json({**values, "sentence": estimate.sentence, "n_pending": n_pending})
            return
        names = " against ".join(printable(arm.name) for arm in reversed(self.arms))
        typer.echo(f"{names}: {estimate.sentence}")


def _is_decided(estimate: Trust) -> bool:
    """Return True if the labels decide between two results: B is better, worse or within the margin."""
    return estimate.decision not in ("undecided", "mean")


def _sheet_with_labels(sheet: Path) -> Path | None:
    """Return the path of a sheet; None if it does not exist or has no labels."""
    from ragbench.labelling import read_sheet

    if sheet.exists() and read_sheet(sheet)["value"].count() > 0:
        return sheet
    return None


def _ask_for_verdict(row: dict[Any, Any], progress: str, sheet: Path, annotator: str) -> None:
    """Show a text to label, wait for the key of a verdict, and save the verdict in the sheet.

    Args:
        row: the row of the sheet, with the texts to show.
        progress: such as "3 of 10".
    """
    from ragbench.errors import printable
    from ragbench.labelling import save_label
    from ragbench.labelling.items import scale_of

    scale = scale_of(row["criterion"])
    for column in ("question", "reference", "answer", "context"):
        if row[column]:
            heading = typer.style(column.capitalize(), bold=True)
            typer.echo(f"\n{heading}: {printable(row[column])}")
    verdict_of_key = scale.verdicts  # key -> (value, name)
    keys = ", ".join(f"{key} = {name}" for key, (_, name) in verdict_of_key.items())
    typer.echo(f"\n{scale.question} ({progress}; {keys}): ", nl=False)
    key = typer.getchar().casefold()
    # other keys are ignored
    while key not in verdict_of_key:
        key = typer.getchar().casefold()
    value, name = verdict_of_key[key]
    save_label(sheet, row["item"], value, annotator=annotator)
    typer.echo(name)
