"""`ragbench answers`: reference answers for a dataset that lacks them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragbench import llms
from ragbench.cli import options
from ragbench.cli.console import shown
from ragbench.errors import printable


def answers_command(
    dataset: Annotated[
        str,
        typer.Argument(metavar="DATASET", help="A BEIR folder, or a dataset's name with --out."),
    ],
    llm: options.Model = "env",
    split: Annotated[
        str, typer.Option(help="The split whose relevance judgements are used.")
    ] = "test",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write to; the dataset is copied there first.", show_default=False
        ),
    ] = None,
    query: Annotated[
        list[str] | None,
        typer.Option(help="Only this query; may be given several times.", show_default=False),
    ] = None,
    max_queries: Annotated[
        int, typer.Option(min=0, help="Maximum number of queries; 0 means all.")
    ] = 0,
    documents: Annotated[
        int, typer.Option(min=1, help="Most relevant documents that an answer is made from.")
    ] = 5,
    document_tokens: Annotated[
        int, typer.Option(min=50, help="Of a longer document, the best part of this size.")
    ] = 1000,
    replace: Annotated[
        bool, typer.Option("--replace", help="Also where a model wrote an answer earlier.")
    ] = False,
    concurrency: options.Concurrency = 8,
    dry_run: options.DryRun = False,
    max_cost: options.MaxCost = None,
    allow_unpriced: options.AllowUnpriced = False,
    no_cache: options.NoCache = False,
    offline: options.Offline = False,
) -> None:
    """Write reference answers from the most relevant documents of each query into answers.jsonl.

    Answers that a person wrote or changed are never replaced, answers that are there are not asked
    for again, and no reply is paid for twice. Exit status: 0 all is well, 1 some requests failed, 2
    nothing could be done, 130 interrupted.
    """
    from ragbench.generation import references
    from ragbench.testsets.answers import labelled_folder

    with options.llm_settings(max_cost, no_cache, offline, allow_unpriced) as settings:
        model = llms.load_llm(llm, settings)
        data, folder = labelled_folder(dataset, split, out or "", create=not dry_run)
        written_by = ("none", "model") if replace else ("none",)
        chosen = references.choose_queries(
            data, query_ids=query or (), max_queries=max_queries, written_by=written_by
        )
        typer.echo(
            f"{len(chosen)} of {len(data.cases)} queries get a reference answer by {model.name}."
        )
        if not chosen:
            raise typer.Exit(0)
        sources = references.reference_sources(
            data, chosen, k=documents, max_document_tokens=document_tokens
        )
        if dry_run:
            with llms.dry_run() as plan:
                references.generate_references(data, sources, model)
            options.print_plan(plan)
            raise typer.Exit(0)
        answers = references.write_references(folder, data, sources, model, concurrency=concurrency)
    failed = [answer for answer in answers if answer.error is not None]
    written = sum(answer.outcome == "success" for answer in answers)
    silent = len(answers) - written - len(failed)
    typer.echo(f"{written} written to {shown(folder / 'answers.jsonl')}")
    if silent:
        typer.echo(
            f"{silent} not written: according to the model, the relevant documents do not hold "
            "the answer"
        )
    if failed:
        typer.echo(
            f"{len(failed)} failed, "
            f"first {failed[0].query_id!r}: {printable(failed[0].error or '')}",
            err=True,
        )
    typer.echo(
        'Read them; what you change there, or mark with "reviewed": true, is never replaced.'
    )
    raise typer.Exit(1 if failed else 0)
