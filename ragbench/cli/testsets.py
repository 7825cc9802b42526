"""`ragbench testset`: made from documents, converted, checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ragbench import generation, llms
from ragbench.cli.console import command, shown
from ragbench.cli.help import Commands
from ragbench.cli.init import path_from, text_of_testset
from ragbench.cli.options import AtLeast1, Concurrency, Corpus, Force, Model, Requests, print_plan
from ragbench.errors import ConfigError, printable
from ragbench.files import write_durably
from ragbench.types import Dataset

testset_app = Commands(
    "Make a test set from documents; convert and check test sets.",
    "testset convert my.yaml my.jsonl",
)


@testset_app.register()
def generate(
    corpus: str,
    *,
    output: Path,
    llm: Model = "env",
    checker: str = "",
    chunks: AtLeast1 = 50,
    per_chunk: Annotated[int, typer.Option(min=1, max=10)] = 2,
    sample: str = "random",
    seed: int = 0,
    name: str = "",
    client: str = "",
    force: Force = False,
    concurrency: Concurrency = 8,
    requests: Requests,
) -> int:
    """Sample chunks, ask for questions about them, check each, and write a BEIR folder with gold
    spans.

    A set that is replaced keeps its name, the time of its creation and its client, which
    testset.json records. Nothing is written before all is done; interrupted, the same command
    continues from the replies received so far. Exit status: 0 all is well, 1 some requests failed,
    2 nothing could be done, 130 interrupted.

    Args:
        corpus: A folder of texts, a corpus.jsonl, a BEIR folder, a name.
        output: Folder of the test set.
        checker: Who checks the answers; '' means the same model.
        chunks: Chunks to ask about.
        per_chunk: Questions to ask for per chunk.
        sample: random, diverse or recent.
        seed: Of the sampling.
        name: Of the test set; default: the one it has, or the folder's.
        client: For whom it is; default: the one it has.

    Example: ragbench testset generate my-documents --output my-testset --llm ollama:llama3.1:8b --dry-run
    """
    from ragbench.datasets.corpus import load_corpus
    from ragbench.retrieval.chunkers import chunk
    from ragbench.testsets.writer import check_free

    with requests.settings() as settings:
        model = llms.load_llm(llm, settings)
        judge = llms.load_llm(checker, settings) if checker else model
        if not requests.dry_run:
            check_free(output, force)
        data = load_corpus(corpus)
        pieces = chunk(data)
        sampled = generation.sample_chunks(data, pieces, chunks, sample, seed=seed)
        typer.echo(
            f"{len(sampled)} of {len(pieces)} chunks, {per_chunk} questions each, by {model.name}."
        )
        if len(sampled) < chunks:
            typer.echo(
                f"That is fewer than {chunks}: the others are too short, or have no date where "
                "one is needed."
            )
        if requests.dry_run:
            with llms.dry_run() as plan:
                generation.generate_drafts(data, sampled, model, checker=judge, per_chunk=per_chunk)
            print_plan(plan)
            return 0
        drafts = generation.generate_drafts(
            data, sampled, model, checker=judge, per_chunk=per_chunk, concurrency=concurrency
        )
        about = generation.identity(output, name=name, client=client)
        parameters = {
            "llm": model.name,
            "checker": judge.name,
            "sample": sample,
            "chunks": chunks,
            "seed": seed,
            "per_chunk": per_chunk,
            "chunker": "recursive",
            "size": 256,
            "source": data.name,
        }
        dataset = generation.as_dataset(data, drafts, name=about["name"])
        folder = generation.save_drafts(
            dataset, drafts, output, parameters=parameters, about=about, force=force
        )
    return _print_drafts(drafts, len(dataset.cases), folder)


def _print_drafts(drafts: list[generation.Draft], questions: int, folder: Path) -> int:
    """Show what became of the drafts, and return 1 where requests failed."""

    for row in generation.drafts_table(drafts).itertuples():
        typer.echo(f"{row.drafts:>6}  {row.state:<13} {row.meaning}")
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
    return bool(failed)


@testset_app.register()
def convert(
    source: Annotated[str, typer.Argument(metavar="IN")],
    target: Annotated[Path, typer.Argument(metavar="OUT")],
    *,
    to: str = "",
    corpus: Corpus = "",
    without_documents: bool = False,
    force: Force = False,
) -> None:
    """Write a test set as YAML, JSONL or a BEIR folder, which hold every label, or as nuggets.

    IN may be of another tool: ragas, DeepEval, promptfoo, a
    spreadsheet (.csv) with question, answer, source. With --docs, expected sections and reference
    contexts are located in the documents and become gold evidence. Exit status: 0 all is well, 2
    nothing is written.

    Args:
        source: A test set, or the name of a dataset such as pydoc.
        target: A .yaml or .jsonl file, or a folder.
        to: yaml, jsonl, beir (a folder), or nuggets (questions and gold facts as TREC has them);
            default: by the name.
        without_documents: Leave the documents out of a .yaml or .jsonl.

    Example: ragbench testset convert my.yaml my.jsonl --docs my-documents
    """
    from ragbench.testsets.forms import save_testset, suffix_form
    from ragbench.testsets.loader import load_dataset

    form = to or suffix_form(target)
    dataset = load_dataset(source, corpus=corpus)
    if without_documents and form != "beir":  # which cannot do without
        dataset = replace(dataset, corpus={})
    saved = save_testset(dataset, target, form, force=force)
    typer.echo(f"{len(dataset.cases)} cases in {shown(saved)} ({form})")


@testset_app.register()
def validate(
    path: Annotated[Path, typer.Argument(metavar="TESTSET")], *, corpus: Corpus = ""
) -> int:
    """List every problem of a test set: file, line, field, value, and what was expected.

    With --docs its labels are compared with the documents: evidence, sections, names of
    documents. Gold facts that no labelled passage holds are named; they may be right in other
    words, and are no problem. Exit status: 0 there is no problem, 1 there are some, 2 there is no test set at that
    place.

    Args:
        path: A .yaml, .json or .jsonl file, or a folder.

    Example: ragbench testset validate my.yaml --docs docs/
    """
    from ragbench.datasets.corpus import load_corpus
    from ragbench.metrics.answers import facts_without_source
    from ragbench.testsets.forms import form_of, load_testset, validate_testset

    documents = load_corpus(corpus).corpus if corpus else None
    if problems := validate_testset(path, corpus=documents):
        typer.echo("\n".join(map(str, problems)))
        typer.echo(f"Problems in {shown(path)}: {len(problems)}", err=True)
        return 1
    dataset = load_testset(path, corpus=documents)  # warns of flaws that are not errors
    for query_id, fact in facts_without_source(dataset):
        typer.echo(
            f"{printable(query_id)}: no labelled passage holds the gold fact {printable(fact)!r}",
            err=True,
        )
    samples = len(dataset.safety_inputs) + len(dataset.safety_outputs)
    safety = f", {samples} safety samples" if samples else ""
    typer.echo(f"{shown(path)} is fine: {form_of(path)}, {len(dataset.cases)} cases{safety}")
    return 0


@testset_app.register()
def draft(
    *,
    docs: str,
    output: Path = Path("drafts.yaml"),
    limit: AtLeast1 = 40,
    seed: int = 0,
    name: str = "",
) -> None:
    """Draft questions without a language model: headings and distinctive sentences, with gold
    evidence.

    They ask for a passage by its own words (known-item search), which favours lexical search: good
    for a first look, not for a decision. `ragbench testset generate` asks a language model. Exit
    status: 0 all is well, 2 nothing is written.

    Args:
        docs: Your documents: a folder of .md, .rst, .txt, .html, .pdf and .docx files, a
            corpus.jsonl, or a dataset's name.
        output: A .yaml file; where it is there, the drafts are added to it.
        limit: Questions at most.
        seed: Of the choice.
        name: Of the test set; default: that of the documents.

    Example: ragbench testset draft --docs docs --output drafts.yaml
    """
    from ragbench.datasets.corpus import load_corpus
    from ragbench.testsets import draft_known_items

    if output.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"--output is {output}; expected a file that ends in .yaml")
    data = draft_known_items(load_corpus(docs), limit, seed=seed)
    n_added = len(data.cases)
    if output.exists():
        n_added = _add_cases(output, data)
    else:
        name = name or f"{data.name} (known-item drafts)"
        head = (
            "# Drafts: known-item questions, made from the documents by a program. Keep what "
            "users would ask.\n"
        )
        write_durably(output, head + text_of_testset(data, path_from(docs, output.parent), name))
    typer.echo(
        f"{n_added} drafts in {shown(output)}, from {len(data.corpus)} documents (category: "
        "known-item draft)\n"
        "They ask for passages by their own words, which favours bm25; your users ask differently."
    )
    if n_added < limit:
        others = "the others were there already, or no passage is left that has words of its own"
        typer.echo(f"That is fewer than {limit}: {others}.")


def _add_cases(path: Path, data: Dataset) -> int:
    """Add the cases that a YAML test set does not have at its end, and return their number."""
    from ragbench.testsets.edits import add_entries
    from ragbench.testsets.forms import content_of, load_testset

    testset = load_testset(path)
    if other := sorted({case.evidence[0].doc_id for case in data.cases} - set(testset.corpus)):
        raise ConfigError(
            f"the documents of {path} are others: they lack {other[0]!r}; name another --output"
        )
    queries = set(testset.queries.values())
    entries = [entry for entry in content_of(data).entries if entry.case.text not in queries]
    add_entries(path, entries)
    return len(entries)
