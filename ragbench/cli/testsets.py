"""`ragbench testset`: made from documents, converted, checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragbench import llms
from ragbench.cli import options
from ragbench.cli.console import command, listed_errors, shown
from ragbench.cli.help import Command, Group
from ragbench.cli.init import DRAFT_EXAMPLE, draft_command
from ragbench.files import expanded

if TYPE_CHECKING:
    from ragbench.generation import Draft

TestSet = Annotated[
    Path, typer.Argument(metavar="TESTSET", help="A .yaml, .json or .jsonl file, or a folder.")
]

testset_app = typer.Typer(
    help="Make a test set from documents; convert and check test sets.",
    epilog="Example: ragbench testset convert my.yaml my.jsonl",
    no_args_is_help=True,
    cls=Group,
)


def _command(name: str, example: str) -> Callable[[Any], Any]:
    """Registers a command, with an example below its help."""
    return testset_app.command(name, cls=Command, epilog=f"Example: ragbench testset {example}")


@_command("generate", "generate my-documents --out my-testset --llm ollama:llama3.1:8b --dry-run")
def generate_testset(
    corpus: Annotated[
        str,
        typer.Argument(
            metavar="CORPUS", help="A folder of texts, a corpus.jsonl, a BEIR folder, a name."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder of the test set.", show_default=False)],
    llm: options.Model = "env",
    checker: Annotated[
        str, typer.Option(help="Who checks the answers; '' means the same model.")
    ] = "",
    chunks: Annotated[int, typer.Option(min=1, help="Chunks to ask about.")] = 50,
    per_chunk: Annotated[
        int, typer.Option(min=1, max=10, help="Questions to ask for per chunk.")
    ] = 2,
    sample: Annotated[str, typer.Option(help="random, diverse or recent.")] = "random",
    date_field: Annotated[
        str, typer.Option(help="Field of the documents' metadata, for recent.")
    ] = "date",
    chunker: Annotated[str, typer.Option(help="How documents are cut.")] = "recursive",
    size: Annotated[int, typer.Option(min=50, help="Tokens of a chunk.")] = 256,
    split: Annotated[str, typer.Option(help="Name of the new split.")] = "test",
    seed: Annotated[int, typer.Option(help="Of the sampling.")] = 0,
    name: Annotated[
        str, typer.Option(help="Of the test set; default: the one it has, or the folder's.")
    ] = "",
    client: Annotated[str, typer.Option(help="For whom it is; default: the one it has.")] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Replace a test set that is there.")
    ] = False,
    concurrency: options.Concurrency = 8,
    dry_run: options.DryRun = False,
    max_cost: options.MaxCost = None,
    allow_unpriced: options.AllowUnpriced = False,
    no_cache: options.NoCache = False,
    offline: options.Offline = False,
) -> None:
    """Sample chunks, ask for questions about them, check each, and write a BEIR folder with gold
    spans.

    A set that is replaced keeps its name, the time of its creation and its client, which
    testset.json records. Nothing is written before all is done; interrupted, the same command
    continues from the replies received so far. Exit status: 0 all is well, 1 some requests failed,
    2 nothing could be done, 130 interrupted.
    """
    from ragbench import generation
    from ragbench.datasets.corpus import load_corpus
    from ragbench.retrieval.chunkers import chunk
    from ragbench.testsets.writer import check_free

    with options.llm_settings(max_cost, no_cache, offline, allow_unpriced) as settings:
        model, judge = (
            llms.load_llm(llm, settings),
            llms.load_llm(checker, settings) if checker else None,
        )
        if not dry_run:
            check_free(out, force)
        data = load_corpus(corpus)
        pieces = chunk(data, chunker, chunk_size=size)
        sampled = generation.sample_chunks(
            data, pieces, chunks, sample, seed=seed, date_field=date_field
        )
        typer.echo(
            f"{len(sampled)} of {len(pieces)} chunks, {per_chunk} questions each, by {model.name}."
        )
        if len(sampled) < chunks:
            typer.echo(
                f"That is fewer than {chunks}: the others are too short, or have no date where "
                "one is needed."
            )
        if dry_run:
            with llms.dry_run() as plan:
                generation.generate_drafts(data, sampled, model, checker=judge, per_chunk=per_chunk)
            options.print_plan(plan)
            raise typer.Exit(0)
        drafts = generation.generate_drafts(
            data, sampled, model, checker=judge, per_chunk=per_chunk, concurrency=concurrency
        )
        for row in generation.drafts_table(drafts).itertuples():
            typer.echo(f"{row.drafts:>6}  {row.state:<13} {row.meaning}")
        about = generation.identity(out, name=name, client=client)
        made = generation.as_dataset(data, drafts, name=about["name"], split=split)
        parameters = {
            "llm": model.name,
            "checker": (judge or model).name,
            "sample": sample,
            "chunks": chunks,
            "seed": seed,
            "per_chunk": per_chunk,
            "chunker": chunker,
            "size": size,
            "source": data.name,
        }
        folder = generation.save_drafts(
            made, drafts, out, parameters=parameters, about=about, force=force
        )
    raise typer.Exit(1 if _print_drafts(drafts, len(made.cases), folder) else 0)


def _print_drafts(drafts: Sequence[Draft], questions: int, folder: Path) -> int:
    """Show what became of the drafts, and return how many requests failed."""
    failed = sum(draft.state in ("failed", "unchecked") for draft in drafts)
    typer.echo(
        f"{questions} questions in {shown(folder)}; every draft and its reason in drafts.jsonl"
    )
    if failed:
        typer.echo(
            f"{failed} requests failed or could not be read; the first ones are named in "
            "drafts.jsonl",
            err=True,
        )
    typer.echo(
        f"Next: read some of them, then {command('ragbench')} eval --test-set {shown(folder)}"
    )
    return failed


@_command("convert", "convert my.yaml my.jsonl --corpus my-documents")
def convert_testset(
    source: Annotated[
        str,
        typer.Argument(metavar="IN", help="A test set, or the name of a dataset such as pydoc."),
    ],
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="A .yaml or .jsonl file, or a folder.")
    ],
    form: Annotated[
        str,
        typer.Option(
            "--to",
            help="yaml, jsonl or beir (a folder); default: by the name.",
        ),
    ] = "",
    corpus: Annotated[
        str, typer.Option(help="The documents: a folder of texts, a corpus.jsonl, a dataset.")
    ] = "",
    without_documents: Annotated[
        bool,
        typer.Option("--without-documents", help="Leave the documents out of a .yaml or .jsonl."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
) -> None:
    """Write a test set as YAML, JSONL or a BEIR folder, which hold every label.

    IN may be of another tool: ragas, DeepEval, promptfoo, LangSmith, LlamaIndex, Phoenix, a
    spreadsheet (.csv) with question, answer, source. With --corpus, expected sections and reference
    contexts are located in the documents and become gold evidence. Exit status: 0 all is well, 2
    nothing is written.
    """
    from ragbench.datasets.corpus import load_corpus
    from ragbench.testsets.forms import save_testset, suffix_form
    from ragbench.testsets.loader import load_dataset, load_testset

    with listed_errors():
        there = os.path.exists(expanded(source))
        wanted = form or suffix_form(target)
        documents = load_corpus(corpus).corpus if corpus else None
        dataset = load_testset(source, corpus=documents) if there else load_dataset(source)
        if documents is not None and not there:
            dataset = replace(dataset, corpus=documents)
        if without_documents and wanted != "beir":  # which cannot do without
            dataset = replace(dataset, corpus={})
        saved = save_testset(dataset, target, wanted, force=force)
    typer.echo(f"{len(dataset.cases)} cases in {shown(saved)} ({wanted})")


@_command("validate", "validate my.yaml --corpus docs/")
def validate_command(
    path: TestSet,
    corpus: Annotated[
        str, typer.Option(help="The documents: a folder of texts, a corpus.jsonl, a dataset.")
    ] = "",
) -> None:
    """List every problem of a test set: file, line, field, value, and what was expected.

    With --corpus its labels are compared with the documents: evidence, sections, names of
    documents. Exit status: 0 there is no problem, 1 there are some, 2 there is no test set at that
    place.
    """
    from ragbench.testsets.forms import form_of
    from ragbench.testsets.loader import load_testset, validate_testset

    with listed_errors():
        documents = None
        if corpus:
            from ragbench.datasets.corpus import load_corpus

            documents = load_corpus(corpus).corpus
        problems = validate_testset(path, corpus=documents)
        for problem in problems:
            typer.echo(str(problem))
        if problems:
            typer.echo(
                f"{len(problems)} {'problem' if len(problems) == 1 else 'problems'} "
                f"in {shown(path)}",
                err=True,
            )
            raise typer.Exit(1)
        dataset = load_testset(path, corpus=documents)  # warns of flaws that are not errors
        samples = len(dataset.safety_inputs) + len(dataset.safety_outputs)
        also = f", {samples} safety samples" if samples else ""
        typer.echo(f"{shown(path)} is fine: {form_of(path)}, {len(dataset.cases)} cases{also}")


testset_app.command("draft", cls=Command, epilog=DRAFT_EXAMPLE)(draft_command)
