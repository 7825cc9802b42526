"""`ragbench answers`: which reference answers a dataset that lacks them gets, and into which file;
`generation/references` writes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import typer

from ragbench import llms
from ragbench.cli.console import shown
from ragbench.cli.options import AtLeast0, Concurrency, Model, Requests, Timeout, print_plan
from ragbench.errors import printable
from ragbench.files import expanded
from ragbench.types import Answer, Dataset


def answers_command(
    dataset: str,
    *,
    llm: Model = "env",
    split: str = "test",
    output: Path | None = None,
    query: list[str] | None = None,
    limit: AtLeast0 = 0,
    replace: bool = False,
    concurrency: Concurrency = 8,
    timeout_s: Timeout = llms.TIMEOUT_S,
    requests: Requests,
) -> int:
    """Write reference answers from the most relevant documents of each query into answers.jsonl.

    Answers that a person wrote or changed are never replaced, existing answers are not requested
    again, and no reply is paid for twice. Exit status: 0 all is well, 1 some requests failed, 2
    nothing could be done, 130 interrupted.

    Args:
        dataset: A BEIR folder, or a dataset's name with --output.
        split: The split whose relevance judgements are used.
        output: Folder to write to; the dataset is copied there first. Or a JSON file such as
            fixtures/ground_truth.json (query_id, query, ground_truth, expected_document_ids); if it
            has questions, only these get answers.
        query: Only this query; may be given several times.
        limit: Maximum number of queries; 0 means all.
        replace: Also replace answers that a model wrote earlier.

    Example: ragbench answers my-dataset --llm ollama:llama3.1:8b --dry-run
    """
    from ragbench.generation import references

    written_by = ("none", "model") if replace else ("none",)  # who wrote the answers so far
    with requests.settings() as settings:
        model = llms.load_llm(llm, settings)
        if output is not None and output.suffix == ".json":
            target = _ground_truth_file(dataset, split, output)
        else:
            target = _labelled_folder(dataset, split, output, create=not requests.dry_run)
        queries = references.choose_queries(
            target.data, query_ids=query or target.query_ids, limit=limit, written_by=written_by
        )
        n_cases = len(target.data.cases)
        typer.echo(f"{len(queries)} of {n_cases} queries get a reference answer by {model.name}.")
        if not queries:
            return 0
        sources = references.reference_sources(target.data, queries)
        if requests.dry_run:
            with llms.dry_run() as plan:  # counts the requests, and sends none
                references.generate_references(target.data, sources, model)
            print_plan(plan)
            return 0
        answers = references.write_references(
            target.path, target.data, sources, model, concurrency=concurrency, timeout_s=timeout_s
        )
    _print_outcome(answers, target.file)
    has_failed = any(answer.error is not None for answer in answers)
    return int(has_failed)


class _Target(NamedTuple):
    """A dataset, and the place for its reference answers.

    Attributes:
        data: the dataset, with the reference answers that are in this place already.
        path: a folder, or a JSON file of ground truths.
        query_ids: the only queries that get an answer, unless the user names some; [] for all.
    """

    data: Dataset
    path: Path
    query_ids: list[str]

    @property
    def file(self) -> Path:
        """Return the file with the answers."""
        return self.path if self.path.suffix == ".json" else self.path / "answers.jsonl"


def _ground_truth_file(dataset: str, split: str, output: Path) -> _Target:
    """Return a JSON file of ground truths as the target; if it has questions, they alone get answers."""
    from ragbench.testsets.ground_truth import read_ground_truths, with_ground_truths
    from ragbench.testsets.loader import load_dataset

    path = expanded(output)
    truths = read_ground_truths(path)  # query_id -> its record
    data = with_ground_truths(load_dataset(dataset, split), truths)
    return _Target(data, path, [query_id for query_id in truths if query_id in data.queries])


def _labelled_folder(dataset: str, split: str, output: Path | None, *, create: bool) -> _Target:
    """Return a folder as the target: `output`, to which the dataset is copied unless it is there already
    or `create` is False; None stands for the dataset's own folder.
    """
    from ragbench.testsets.reference_answers import labelled_folder

    data, folder = labelled_folder(dataset, split, output or "", create=create)
    return _Target(data, folder, [])


def _print_outcome(answers: Sequence[Answer], file: Path) -> None:
    """Print how many answers were written to a file, and how many were not, because the documents do not
    hold them, the model refused to answer, or a request failed (the first error is printed).
    """
    failed = [answer for answer in answers if answer.error is not None]
    n_by_outcome = Counter(answer.outcome for answer in answers)
    typer.echo(f"{n_by_outcome['success']} written to {shown(file)}")
    n_not_held = n_by_outcome["no_results"]
    if n_not_held:
        typer.echo(
            f"{n_not_held} not written: according to the model, the relevant documents do not contain "
            "the answer"
        )
    n_refused = n_by_outcome["blocked"]
    if n_refused:
        typer.echo(f"{n_refused} not written: the model refused to answer")
    if failed:
        typer.echo(
            f"{len(failed)} failed, first {failed[0].query_id!r}: {printable(str(failed[0].error))}",
            err=True,
        )
    typer.echo(
        'Read them; answers that you change there, or mark with "reviewed": true, are never replaced.'
    )
