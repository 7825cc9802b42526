"""`ragbench label`: a sheet of answers to label, and the calibration that the filled sheet gives."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ragbench import evaluation, labelling
from ragbench.cli.console import shown
from ragbench.cli.eval import load_questions
from ragbench.cli.options import AtLeast0, Corpus, Output, TestSetName
from ragbench.errors import ConfigError
from ragbench.registry import measure_of
from ragbench.types import Dataset


def label_command(
    source: str,
    *,
    output: Output = None,
    measure: str = "claim_support",
    test_set: TestSetName = "pydoc",
    corpus: Corpus = "",
    n: Annotated[int, typer.Option("-n", min=1)] = 60,
    annotator: str = "me",
    seed: AtLeast0 = 0,
) -> None:
    """Find out what a heuristic score means on your texts: label some answers, get a calibration.

    First writes a sheet (CSV) of answers drawn at random over the whole range of the score, which
    the sheet does not show. Fill in its column verdict with yes or no in a spreadsheet, from the
    top, until there are 30 verdicts and 5 of each kind; the same command again adds answers to the
    sheet. Then give the filled sheet: its labels become a calibration file, with the threshold and
    what a score means, for eval --calibration. Exit status: 0 all is well, 2 nothing could be done.

    Args:
        source: What eval takes as --system (answers.jsonl, a retriever, a .toml), a folder by
            eval; or a filled sheet (.csv).
        output: labels.csv, or calibration.json.
        measure: The score: claim_support, semantic_similarity, ...
        n: How many answers; 30 at least.
        annotator: Who labels.
        seed: Of the random draw.

    Example: ragbench label answers.jsonl --test-set tests.yaml --corpus docs/

    Fill in the column verdict of labels.csv with yes or no, then:

    ragbench label labels.csv -o calibration.json

    ragbench eval --test-set tests.yaml --system answers.jsonl --calibration calibration.json
    """
    if Path(source).suffix.lower() == ".csv":
        _calibrate(Path(source), output or Path("calibration.json"))
    else:
        dataset, sheet = load_questions(test_set, corpus), output or Path("labels.csv")
        _write_sheet(dataset, source, sheet, measure, n=n, annotator=annotator, seed=seed)


def _calibrate(sheet: Path, output: Path) -> None:
    if output.suffix.lower() == ".csv":
        raise ConfigError(
            f"{output} would be a sheet; name a file for the calibration, such as calibration.json"
        )
    calibration = labelling.calibrate_sheet(sheet)
    calibration.save(output)
    typer.echo(str(calibration))
    for part in calibration.bins:
        typer.echo(
            f"  {part.low:.2f} to {part.high:.2f}: {part.positive} of {part.n} "
            f"positive, {part.rate:.0%} [{part.ci_low:.0%}, {part.ci_high:.0%}]"
        )
    typer.echo(
        f"Written to {shown(output)}; use it with: ragbench eval ... --calibration {shown(output)}"
    )


def _write_sheet(dataset: Dataset, source: str, output: Path, measure: str, **options: Any) -> None:
    about = measure_of(measure)
    if about.perspective not in ("groundedness", "answer"):
        raise ConfigError(
            f"{about.name} is not a score of answers; label takes claim_support, "
            "semantic_similarity and the like. For other scores, see ragbench.calibrate_threshold"
        )
    recorded = Path(source, "answers.jsonl")
    system = str(recorded) if recorded.is_file() else source
    result = evaluation.evaluate(dataset, system, perspectives=[about.perspective])
    chunks = [] if result.output is None else result.output.texts
    texts = {chunk.chunk_id: chunk.text for chunk in chunks}
    scores = result.scores[result.scores["measure"] == about.name].dropna(subset=["value"])
    count = labelling.write_score_sheet(
        dataset.cases,
        result.answers,
        dict(zip(scores["query_id"], scores["value"], strict=True)),
        {
            answer.query_id: [texts.get(context, "") for context in answer.contexts]
            for answer in result.answers
        },
        output,
        measure=about.name,
        model="minilm",
        source=str(result.parameters["system"]),
        **options,
    )
    question = "does the answer say the same as the reference"
    if about.perspective == "groundedness":
        question = "do the documents support all that the answer says"
    typer.echo(
        f"{count} answers to label are in {shown(output)}; their scores are next to it, keep "
        "both together.\n"
        f"Fill in the column verdict with yes or no ({question}?), save as CSV, then:\n"
        f"  ragbench label {shown(output)} -o calibration.json"
    )
