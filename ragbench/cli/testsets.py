"""`ragbench testset`: questions with answers and gold evidence for documents that have none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragbench.cli.asking import Concurrency, DryRun, MaxCost, Model, NoCache, Offline, asking, say_estimate
from ragbench.cli.speaking import command, shown

if TYPE_CHECKING:
    from ragbench.generation.testsets import Draft

testset_app = typer.Typer(
    help="Make a test set from documents.",
    epilog="Example: ragbench testset generate my-documents --out my-testset --llm ollama:llama3.1:8b",
    no_args_is_help=True,
)

_EXAMPLE = "Example: ragbench testset generate my-documents --out my-testset --llm ollama:llama3.1:8b --dry-run"


@testset_app.command("generate", epilog=_EXAMPLE)
def generate_testset(
    corpus: Annotated[
        str, typer.Argument(metavar="CORPUS", help="A folder of .md/.rst/.txt, a corpus.jsonl, a BEIR folder, a name.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the test set.", show_default=False)],
    llm: Model = "env",
    checker: Annotated[str, typer.Option(help="Who checks the answers; '' means the same model.")] = "",
    chunks: Annotated[int, typer.Option(min=1, help="Chunks to ask about.")] = 50,
    per_chunk: Annotated[int, typer.Option(min=1, max=10, help="Questions to ask for per chunk.")] = 2,
    sample: Annotated[str, typer.Option(help="diverse, random or recent.")] = "diverse",
    date_field: Annotated[str, typer.Option(help="Field of the documents' metadata, for recent.")] = "date",
    chunker: Annotated[str, typer.Option(help="How documents are cut.")] = "recursive",
    size: Annotated[int, typer.Option(min=50, help="Tokens of a chunk.")] = 256,
    split: Annotated[str, typer.Option(help="Name of the new split.")] = "test",
    seed: Annotated[int, typer.Option(help="Of the sampling.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace a test set that is there.")] = False,
    concurrency: Concurrency = 8,
    dry_run: DryRun = False,
    max_cost: MaxCost = None,
    no_cache: NoCache = False,
    offline: Offline = False,
) -> None:
    """Sample chunks, ask for questions about them, check each, and write a BEIR folder with gold spans.

    Nothing is written before all is done; interrupted, the same command goes on from the replies that had come. Exit
    status: 0 all is well, 1 some requests failed, 2 nothing could be done, 130 interrupted.
    """
    from ragbench.chunkers import chunk
    from ragbench.datasets.corpus import load_corpus
    from ragbench.datasets.writing import check_free
    from ragbench.generation import testsets

    with asking(max_cost, no_cache, offline):
        from ragbench.llms import load_llm

        model, judge = load_llm(llm), load_llm(checker) if checker else None
        if not dry_run:
            check_free(out, force)
        data = load_corpus(corpus)
        pieces = chunk(data, chunker, size=size)
        sampled = testsets.sample_chunks(data, pieces, chunks, sample, seed=seed, date_field=date_field)
        typer.echo(f"{len(sampled)} of {len(pieces)} chunks, {per_chunk} questions each, by {model.name}.")
        if len(sampled) < chunks:
            typer.echo(f"That is fewer than {chunks}: the others are too short, or have no date where one is needed.")
        if dry_run:
            say_estimate(testsets.estimate_drafts(data, sampled, model, checker=judge, per_chunk=per_chunk))
            raise typer.Exit(0)
        drafts = testsets.generate_drafts(
            data, sampled, model, checker=judge, per_chunk=per_chunk, concurrency=concurrency
        )
        _say_drafts(drafts)
        made = testsets.as_dataset(data, drafts, name=out.name, split=split)
        parameters = {
            "llm": model.name, "checker": (judge or model).name, "sample": sample, "chunks": chunks, "seed": seed,
            "per_chunk": per_chunk, "chunker": chunker, "size": size, "source": data.name,
        }  # fmt: skip
        folder = testsets.save_testset(made, drafts, out, parameters=parameters, force=force)
    failed = sum(draft.state in ("failed", "unchecked") for draft in drafts)
    typer.echo(f"{len(made.cases)} questions in {shown(folder)}; every draft and its reason in drafts.jsonl")
    if failed:
        typer.echo(f"{failed} requests failed or could not be read; the first ones are named in drafts.jsonl", err=True)
    run = f"{command('papermill')} notebooks/evaluate.ipynb out.ipynb -p dataset {shown(folder)}"
    typer.echo(f"Next: read some of them, then {run}")
    raise typer.Exit(1 if failed else 0)


def _say_drafts(drafts: Sequence[Draft]) -> None:
    from ragbench.generation.testsets import drafts_table

    for row in drafts_table(drafts).itertuples():
        typer.echo(f"{row.drafts:>6}  {row.state:<13} {row.meaning}")
