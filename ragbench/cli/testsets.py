"""`ragbench testset`: made from documents, converted, checked; its cases listed and edited (see cases.py)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragbench.cli.cases import (
    ADD_EXAMPLE,
    EDIT_EXAMPLE,
    LIST_EXAMPLE,
    REMOVE_EXAMPLE,
    SHOW_EXAMPLE,
    TestSet,
    add_command,
    edit_command,
    list_command,
    remove_command,
    show_command,
)
from ragbench.cli.console import command, listed_errors, shown
from ragbench.cli.help import Command, Group
from ragbench.cli.init import DRAFT_EXAMPLE, draft_command
from ragbench.cli.llm_options import (
    AllowUnpriced,
    Concurrency,
    DryRun,
    MaxCost,
    Model,
    NoCache,
    Offline,
    llm_settings,
    print_models,
)

if TYPE_CHECKING:
    from ragbench.generation.testsets import Draft

testset_app = typer.Typer(
    help="Make a test set from documents; convert, check and edit test sets.",
    epilog="Example: ragbench testset convert my.yaml my.jsonl",
    no_args_is_help=True,
    cls=Group,
)

_EXAMPLE = "Example: ragbench testset generate my-documents --out my-testset --llm ollama:llama3.1:8b --dry-run"

_CONVERT = "Example: ragbench testset convert my.yaml my.jsonl --corpus my-documents"


@testset_app.command("generate", cls=Command, epilog=_EXAMPLE)
def generate_testset(
    corpus: Annotated[
        str, typer.Argument(metavar="CORPUS", help="A folder of .md/.rst/.txt, a corpus.jsonl, a BEIR folder, a name.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the test set.", show_default=False)],
    llm: Model = "env",
    checker: Annotated[str, typer.Option(help="Who checks the answers; '' means the same model.")] = "",
    chunks: Annotated[int, typer.Option(min=1, help="Chunks to ask about.")] = 50,
    per_chunk: Annotated[int, typer.Option(min=1, max=10, help="Questions to ask for per chunk.")] = 2,
    sample: Annotated[str, typer.Option(help="random, diverse or recent.")] = "random",
    date_field: Annotated[str, typer.Option(help="Field of the documents' metadata, for recent.")] = "date",
    chunker: Annotated[str, typer.Option(help="How documents are cut.")] = "recursive",
    size: Annotated[int, typer.Option(min=50, help="Tokens of a chunk.")] = 256,
    split: Annotated[str, typer.Option(help="Name of the new split.")] = "test",
    seed: Annotated[int, typer.Option(help="Of the sampling.")] = 0,
    name: Annotated[str, typer.Option(help="Of the test set; default: the one it has, or the folder's.")] = "",
    client: Annotated[str, typer.Option(help="For whom it is; default: the one it has.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace a test set that is there.")] = False,
    concurrency: Concurrency = 8,
    dry_run: DryRun = False,
    max_cost: MaxCost = None,
    allow_unpriced: AllowUnpriced = False,
    no_cache: NoCache = False,
    offline: Offline = False,
) -> None:
    """Sample chunks, ask for questions about them, check each, and write a BEIR folder with gold spans.

    A set that is replaced keeps its name, the time of its creation and its client, which testset.json records. Nothing
    is written before all is done; interrupted, the same command continues from the replies received so far. Exit
    status: 0 all is well, 1 some requests failed, 2 nothing could be done, 130 interrupted.
    """
    from ragbench.chunkers import chunk
    from ragbench.datasets.corpus import load_corpus
    from ragbench.datasets.writer import check_free
    from ragbench.generation import testsets

    with llm_settings(max_cost, no_cache, offline, allow_unpriced) as settings:
        from ragbench import llms

        model, judge = llms.load_llm(llm, settings), llms.load_llm(checker, settings) if checker else None
        if not dry_run:
            check_free(out, force)
        data = load_corpus(corpus)
        pieces = chunk(data, chunker, chunk_size=size)
        sampled = testsets.sample_chunks(data, pieces, chunks, sample, seed=seed, date_field=date_field)
        typer.echo(f"{len(sampled)} of {len(pieces)} chunks, {per_chunk} questions each, by {model.name}.")
        if len(sampled) < chunks:
            typer.echo(f"That is fewer than {chunks}: the others are too short, or have no date where one is needed.")
        if dry_run:
            with llms.dry_run() as plan:
                testsets.generate_drafts(data, sampled, model, checker=judge, per_chunk=per_chunk)
            print_models(plan.models)
            raise typer.Exit(0)
        drafts = testsets.generate_drafts(
            data, sampled, model, checker=judge, per_chunk=per_chunk, concurrency=concurrency
        )
        _print_drafts(drafts)
        about = testsets.identity(out, name=name, client=client)
        made = testsets.as_dataset(data, drafts, name=about["name"], split=split)
        parameters = {
            "llm": model.name, "checker": (judge or model).name, "sample": sample, "chunks": chunks, "seed": seed,
            "per_chunk": per_chunk, "chunker": chunker, "size": size, "source": data.name,
        }  # fmt: skip
        folder = testsets.save_testset(made, drafts, out, parameters=parameters, about=about, force=force)
    failed = sum(draft.state in ("failed", "unchecked") for draft in drafts)
    typer.echo(f"{len(made.cases)} questions in {shown(folder)}; every draft and its reason in drafts.jsonl")
    if failed:
        typer.echo(f"{failed} requests failed or could not be read; the first ones are named in drafts.jsonl", err=True)
    run = f"{command('ragbench')} eval --test-set {shown(folder)}"
    typer.echo(f"Next: read some of them, then {run}")
    raise typer.Exit(1 if failed else 0)


@testset_app.command("convert", cls=Command, epilog=_CONVERT)
def convert_testset(
    source: Annotated[str, typer.Argument(metavar="IN", help="A test set, or the name of a dataset such as pydoc.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="A .yaml, .json or .jsonl file, or a folder.")],
    form: Annotated[
        str, typer.Option("--to", help="yaml, json, json-cases, perspectives, beir or jsonl; default: by the name.")
    ] = "",
    corpus: Annotated[str, typer.Option(help="The documents: a folder of texts, a corpus.jsonl, a dataset.")] = "",
    without_documents: Annotated[
        bool, typer.Option("--without-documents", help="Leave the documents out of a .yaml, .jsonl or a folder.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
) -> None:
    """Write a test set in another form; a warning names what that form cannot hold.

    With --corpus, expected sections are located in the documents and become gold evidence. Exit status: 0 all is well,
    2 nothing is written.
    """
    import os
    from dataclasses import replace

    from ragbench.datasets import load_dataset
    from ragbench.datasets.corpus import load_corpus
    from ragbench.datasets.testsets import form_of, load_testset, save_testset, suffix_form

    with listed_errors():
        there = os.path.exists(Path(source).expanduser())
        wanted = form or suffix_form(target, form_of(source) if there else "")
        documents = load_corpus(corpus).corpus if corpus else None
        dataset = load_testset(source, corpus=documents) if there else load_dataset(source)
        if documents is not None and not there:
            dataset = replace(dataset, corpus=documents)
        if without_documents and wanted in (
            "yaml",
            "jsonl",
            "perspectives",
        ):  # beir cannot do without, others hold none
            dataset = replace(dataset, corpus={})
        saved = save_testset(dataset, target, wanted, force=force)
    typer.echo(f"{len(dataset.cases)} cases in {shown(saved)} ({wanted})")


@testset_app.command("validate", cls=Command, epilog="Example: ragbench testset validate my.yaml")
def validate_command(path: TestSet) -> None:
    """List every problem of a test set: file, line, field, value, and what was expected.

    Exit status: 0 there is none, 1 there are some, 2 there is no test set at that place.
    """
    from ragbench.datasets.testsets import form_of, load_testset, validate_testset

    with listed_errors():
        problems = validate_testset(path)
        for problem in problems:
            typer.echo(str(problem))
        if problems:
            typer.echo(f"{len(problems)} {'problem' if len(problems) == 1 else 'problems'} in {shown(path)}", err=True)
            raise typer.Exit(1)
        dataset = load_testset(path)  # warns of flaws that are not errors
        samples = len(dataset.safety_inputs) + len(dataset.safety_outputs)
        also = f", {samples} safety samples" if samples else ""
        typer.echo(f"{shown(path)} is fine: {form_of(path)}, {len(dataset.cases)} cases{also}")


testset_app.command("draft", cls=Command, epilog=DRAFT_EXAMPLE)(draft_command)
testset_app.command("list", cls=Command, epilog=LIST_EXAMPLE)(list_command)
testset_app.command("show", cls=Command, epilog=SHOW_EXAMPLE)(show_command)
testset_app.command("add", cls=Command, epilog=ADD_EXAMPLE)(add_command)
testset_app.command("edit", cls=Command, epilog=EDIT_EXAMPLE)(edit_command)
testset_app.command("remove", cls=Command, epilog=REMOVE_EXAMPLE)(remove_command)


def _print_drafts(drafts: Sequence[Draft]) -> None:
    from ragbench.generation.testsets import drafts_table

    for row in drafts_table(drafts).itertuples():
        typer.echo(f"{row.drafts:>6}  {row.state:<13} {row.meaning}")
