"""`ragbench tune`: the wording and the examples by which a judge agrees most with people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragbench import llms
from ragbench.cli.options import AtLeast1, Concurrency, Json, Requests, Timeout, print_plan

if TYPE_CHECKING:
    from ragbench.labelling.tuning import Tuning


def tune_command(
    judge: str,
    *,
    labels: Annotated[list[Path], typer.Option()],
    criterion: str = "correctness",
    wording: Annotated[list[str] | None, typer.Option(metavar="TEXT")] = None,
    n_examples: AtLeast1 = 4,
    max_requests: AtLeast1 = 2_000,
    output: Annotated[Path, typer.Option()] = Path("tuned.toml"),
    as_json: Json = False,
    concurrency: Concurrency = 8,
    timeout_s: Timeout = llms.TIMEOUT_S,
    requests: Requests,
) -> None:
    """Choose among wordings and examples of a criterion by the agreement of a judge with 30 or more
    labels, and write the chosen criterion into a file.

    Each candidate judges every labelled answer once. Agreement after tuning is measured on labels
    that were not used for the choice, and no answer is an example for itself. Without --json, the cost
    is shown before anything is sent. Exit status: 0 done, 2 it could not be done.

    Args:
        judge: anthropic:<model>, ollama:<model>, openai:<model>, env, or package.module:attribute.
        labels: Label sheets by people (`ragbench label`), with 30 or more labels by this criterion.
        criterion: The judged criterion: correctness, or one with your own levels, as for eval.
        wording: Another wording of the question, in addition to a strict and a lenient one.
        n_examples: Number of labelled answers that a candidate with examples shows.
        max_requests: Refuse to start if more requests than this are needed.
        output: The TOML file of the tuned criterion, for --criteria.
        as_json: Print the agreements as JSON.

    Example: ragbench tune openai:gpt-5-mini --labels labels.csv --max-cost 1
    """
    from ragbench.labelling import tune_criterion

    with requests.settings():
        llms.check_llm(judge)
        options: dict[str, Any] = {
            "questions": wording or [],
            "n_examples": n_examples,
            "max_requests": max_requests,
            "concurrency": concurrency,
            "timeout_s": timeout_s,
        }
        with llms.dry_run() as plan:  # counts the requests, and sends none
            tune_criterion(labels, criterion, judge, **options)
        if not as_json:
            print_plan(plan)
        if requests.dry_run:
            return
        llms.check_servers(judge)
        tuning = tune_criterion(labels, criterion, judge, path=output, **options)
    if as_json:
        _print_json(tuning, output)
    else:
        _print_tuning(tuning, output)


def _print_json(tuning: Tuning, output: Path) -> None:
    """Print the agreements before and after tuning, the candidates and the file as a JSON object."""
    import json

    record = {
        "criterion": tuning.criterion.name,
        "before": tuning.before,
        "after": tuning.after,
        "ci_low": tuning.ci_low,
        "ci_high": tuning.ci_high,
        "n_labels": tuning.n_labels,
        "candidates": tuning.candidates.to_dict("records"),
        "file": str(output),
    }
    typer.echo(json.dumps(record, indent=1))


def _print_tuning(tuning: Tuning, output: Path) -> None:
    """Print the agreement of each candidate with the labels, the agreement before and after tuning, and
    the file of the tuned criterion.
    """
    from ragbench.errors import printable

    table = tuning.candidates.round(3).to_string(index=False)
    typer.echo(f"\nAgreement of each candidate with {tuning.n_labels} labels:\n{printable(table)}")
    typer.echo(
        f"\nAgreement before tuning: {tuning.before:.3f}; after it, on labels not used for the choice: "
        f"{tuning.after:.3f} [{tuning.ci_low:.3f}, {tuning.ci_high:.3f}]"
    )
    if tuning.after <= tuning.before:
        typer.echo("Nothing was gained: keep the criterion as it is.")
    typer.echo(f"{tuning.criterion.name} is in {output}; use it with --criteria {output}")
