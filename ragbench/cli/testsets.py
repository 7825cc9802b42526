"""`ragbench testset`: made from documents, converted, checked; its cases listed and edited."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragbench import llms
from ragbench.cli import options
from ragbench.cli.console import command, listed_errors, shown
from ragbench.cli.help import Command, Group
from ragbench.cli.init import DRAFT_EXAMPLE, draft_command
from ragbench.errors import ConfigError, DataError, printable
from ragbench.files import expanded

if TYPE_CHECKING:
    from ragbench.types import Dataset

_WIDE = ("query", "documents")

TestSet = Annotated[Path, typer.Argument(metavar="TESTSET", help="A .yaml, .json or .jsonl file, or a folder.")]
CaseId = Annotated[str, typer.Argument(metavar="ID", help="The id of the case.")]
Force = Annotated[bool, typer.Option("--force", help="Write also where comments of a YAML file are lost.")]

testset_app = typer.Typer(
    help="Make a test set from documents; convert, check and edit test sets.",
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
        str, typer.Argument(metavar="CORPUS", help="A folder of texts, a corpus.jsonl, a BEIR folder, a name.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the test set.", show_default=False)],
    llm: options.Model = "env",
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
    concurrency: options.Concurrency = 8,
    dry_run: options.DryRun = False,
    max_cost: options.MaxCost = None,
    allow_unpriced: options.AllowUnpriced = False,
    no_cache: options.NoCache = False,
    offline: options.Offline = False,
) -> None:
    """Sample chunks, ask for questions about them, check each, and write a BEIR folder with gold spans.

    A set that is replaced keeps its name, the time of its creation and its client, which testset.json records. Nothing
    is written before all is done; interrupted, the same command continues from the replies received so far. Exit
    status: 0 all is well, 1 some requests failed, 2 nothing could be done, 130 interrupted.
    """
    from ragbench import generation
    from ragbench.datasets.corpus import load_corpus
    from ragbench.retrieval.chunkers import chunk
    from ragbench.testsets.writer import check_free

    with options.llm_settings(max_cost, no_cache, offline, allow_unpriced) as settings:
        model, judge = llms.load_llm(llm, settings), llms.load_llm(checker, settings) if checker else None
        if not dry_run:
            check_free(out, force)
        data = load_corpus(corpus)
        pieces = chunk(data, chunker, chunk_size=size)
        sampled = generation.sample_chunks(data, pieces, chunks, sample, seed=seed, date_field=date_field)
        typer.echo(f"{len(sampled)} of {len(pieces)} chunks, {per_chunk} questions each, by {model.name}.")
        if len(sampled) < chunks:
            typer.echo(f"That is fewer than {chunks}: the others are too short, or have no date where one is needed.")
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
            "llm": model.name, "checker": (judge or model).name, "sample": sample, "chunks": chunks, "seed": seed,
            "per_chunk": per_chunk, "chunker": chunker, "size": size, "source": data.name,
        }  # fmt: skip
        folder = generation.save_drafts(made, drafts, out, parameters=parameters, about=about, force=force)
    failed = sum(draft.state in ("failed", "unchecked") for draft in drafts)
    typer.echo(f"{len(made.cases)} questions in {shown(folder)}; every draft and its reason in drafts.jsonl")
    if failed:
        typer.echo(f"{failed} requests failed or could not be read; the first ones are named in drafts.jsonl", err=True)
    run = f"{command('ragbench')} eval --test-set {shown(folder)}"
    typer.echo(f"Next: read some of them, then {run}")
    raise typer.Exit(1 if failed else 0)


@_command("convert", "convert my.yaml my.jsonl --corpus my-documents")
def convert_testset(
    source: Annotated[str, typer.Argument(metavar="IN", help="A test set, or the name of a dataset such as pydoc.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="A .yaml, .json or .jsonl file, or a folder.")],
    form: Annotated[
        str,
        typer.Option(
            "--to",
            help="yaml, json, json-cases, perspectives, beir, jsonl, or of another tool: ragas, deepeval, promptfoo, "
            "langsmith, llamaindex, table; default: by the name.",
        ),
    ] = "",
    corpus: Annotated[str, typer.Option(help="The documents: a folder of texts, a corpus.jsonl, a dataset.")] = "",
    without_documents: Annotated[
        bool, typer.Option("--without-documents", help="Leave the documents out of a .yaml, .jsonl or a folder.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
) -> None:
    """Write a test set in another form; a warning names what that form cannot hold.

    IN may be of another tool: ragas, DeepEval, promptfoo, LangSmith, LlamaIndex, Phoenix, a spreadsheet (.csv) with
    question, answer, source. With --corpus, expected sections and reference contexts are located in the documents and
    become gold evidence. Exit status: 0 all is well,
    2 nothing is written.
    """
    from ragbench.datasets import load_dataset
    from ragbench.datasets.corpus import load_corpus
    from ragbench.testsets.forms import OTHER_FORMS, form_of, load_testset, save_testset, suffix_form
    from ragbench.testsets.other_tools import matched_contexts

    with listed_errors():
        there = os.path.exists(expanded(source))
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
        given = form_of(source) if there else ""
        if documents is not None and given in OTHER_FORMS:
            counts = matched_contexts(Path(source).expanduser(), given, documents)
            if counts:
                typer.echo("Reference contexts: " + ", ".join(f"{n} {how}" for how, n in sorted(counts.items())))
    typer.echo(f"{len(dataset.cases)} cases in {shown(saved)} ({wanted})")


@_command("validate", "validate my.yaml --corpus docs/")
def validate_command(
    path: TestSet,
    corpus: Annotated[str, typer.Option(help="The documents: a folder of texts, a corpus.jsonl, a dataset.")] = "",
) -> None:
    """List every problem of a test set: file, line, field, value, and what was expected.

    With --corpus its labels are compared with the documents: evidence, sections, names of documents. Exit status: 0
    there is no problem, 1 there are some, 2 there is no test set at that place.
    """
    from ragbench.testsets.forms import form_of, load_testset, validate_testset

    with listed_errors():
        documents = None
        if corpus:
            from ragbench.datasets.corpus import load_corpus

            documents = load_corpus(corpus).corpus
        problems = validate_testset(path, corpus=documents)
        for problem in problems:
            typer.echo(str(problem))
        if problems:
            typer.echo(f"{len(problems)} {'problem' if len(problems) == 1 else 'problems'} in {shown(path)}", err=True)
            raise typer.Exit(1)
        dataset = load_testset(path, corpus=documents)  # warns of flaws that are not errors
        samples = len(dataset.safety_inputs) + len(dataset.safety_outputs)
        also = f", {samples} safety samples" if samples else ""
        typer.echo(f"{shown(path)} is fine: {form_of(path)}, {len(dataset.cases)} cases{also}")


testset_app.command("draft", cls=Command, epilog=DRAFT_EXAMPLE)(draft_command)


@_command("list", "list my.yaml --category install")
def list_command(
    path: TestSet,
    category: Annotated[str, typer.Option(help="Only cases of this category.")] = "",
    query_type: Annotated[str, typer.Option("--type", help="Only cases of this query type.")] = "",
) -> None:
    """List the cases of a test set: id, query, category, type, expected outcome, relevant documents.

    Exit status: 0 all is well, 2 the test set cannot be read.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from ragbench.testsets.forms import load_testset

    with listed_errors():
        dataset = load_testset(path)
        cases = [
            case
            for case in dataset.cases
            if category in ("", case.category) and query_type in ("", case.query_type)
        ]  # fmt: skip
        rows = [
            {
                "id": case.query_id,
                "query": case.text,
                "category": case.category,
                "type": case.query_type,
                "outcome": case.expected_outcome or "",
                "documents": ", ".join(d for d, grade in dataset.qrels[case.query_id].items() if grade > 0),
            }
            for case in cases
        ]
        names = [name for name in (rows[0] if rows else ()) if any(row[name] for row in rows)]
        table = Table(box=None, pad_edge=False)
        for name in names:
            table.add_column(name, no_wrap=name not in _WIDE)  # the others give way where the line is too short
        for row in rows:
            table.add_row(*(Text(printable(row[name]), no_wrap=True, overflow="ellipsis") for name in names))
        if cases:
            Console().print(table)
        typer.echo(f"{len(cases)} of {len(dataset.cases)} cases{_of_samples(dataset)}")
        if not cases and dataset.cases:
            _print_known(dataset, category, query_type)


@_command("show", "show my.yaml q1")
def show_command(path: TestSet, case_id: CaseId) -> None:
    """Show a case with all of its labels, as JSON.

    Exit status: 0 all is well, 2 there is no such case.
    """
    from ragbench.testsets.edits import case_record
    from ragbench.testsets.forms import load_testset

    with listed_errors():
        typer.echo(json.dumps(case_record(load_testset(path), case_id), ensure_ascii=False, indent=2))


@_command("add", 'add my.yaml --query "How do I install it?" --expected-doc setup_guide')
def add_command(
    path: TestSet,
    query: Annotated[str, typer.Option(help="The question.")] = "",
    case_id: Annotated[str, typer.Option("--id", help="Default: made from the question.")] = "",
    answer: Annotated[str, typer.Option(help="The reference answer.")] = "",
    expected_doc: Annotated[list[str] | None, typer.Option(help="A relevant document; may be repeated.")] = None,
    keyword: Annotated[list[str] | None, typer.Option(help="A required keyword; may be repeated.")] = None,
    category: Annotated[str, typer.Option(help="Its category.")] = "",
    query_type: Annotated[str, typer.Option("--type", help="Its query type.")] = "",
    record: Annotated[
        str, typer.Option("--json", metavar="JSON", help="The whole case as `show` prints it; '-' reads it from stdin.")
    ] = "",
    force: Force = False,
) -> None:
    """Add a case at the end of a test set. Options override the fields of --json.

    Exit status: 0 added, 2 nothing is written.
    """
    from ragbench.testsets.edits import add_case, record_case
    from ragbench.testsets.validation import derived_id

    with listed_errors():
        fields = _json_object(sys.stdin.buffer.read() if record == "-" else record.encode()) if record else {}
        options: dict[str, Any] = {
            "query_id": case_id, "text": query, "reference_answer": answer, "required_keywords": keyword,
            "category": category, "query_type": query_type, "relevant": dict.fromkeys(expected_doc or (), 1),
        }  # fmt: skip
        fields |= {name: value for name, value in options.items() if value}
        if not fields.get("text"):
            raise ConfigError("there is no question; give it with --query, or a case with --json")
        fields.setdefault("query_id", derived_id(str(fields["text"])))
        case, relevant = record_case(fields)
        add_case(path, case, relevant, force=force)
    typer.echo(f"{case.query_id} added to {shown(path)}")


@_command("edit", "edit my.jsonl q1 --set category=install --set 'relevant={\"setup_guide\": 2}'")
def edit_command(
    path: TestSet,
    case_id: CaseId,
    changes: Annotated[
        list[str],
        typer.Option("--set", metavar="FIELD=VALUE", help="A field as `show` names it; the value is JSON or a text."),
    ],
    force: Force = False,
) -> None:
    """Change labels of a case; FIELD=null takes a label away.

    Exit status: 0 changed, 2 nothing is written.
    """
    from ragbench.testsets.edits import change_case

    with listed_errors():
        new = dict(_assignment(change) for change in changes)
        change_case(path, case_id, lambda fields: {**fields, **new}, force=force)
    typer.echo(f"{case_id} changed in {shown(path)}: {', '.join(new)}")


@_command("remove", "remove my.yaml q1 --yes")
def remove_command(
    path: TestSet,
    case_id: CaseId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Force = False,
) -> None:
    """Take a case out of a test set, with its labels in every file.

    Exit status: 0 removed, 1 not confirmed, 2 nothing is written.
    """
    from ragbench.testsets.edits import case_record, remove_case
    from ragbench.testsets.forms import load_testset

    with listed_errors():
        found = case_record(load_testset(path), case_id)
        if not yes and not typer.confirm(f"Remove {case_id}: {printable(found['text'])}"):
            raise typer.Exit(1)
        remove_case(path, case_id, force=force)
    typer.echo(f"{case_id} removed from {shown(path)}")


def _assignment(change: str) -> tuple[str, Any]:
    """A field and its value. What is a text in a case stays one: `--set text=42` is not a number."""
    from ragbench.testsets.single_file import OwnCase

    name, equals, value = change.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"--set {change!r} is not a change; expected FIELD=VALUE, such as category=install")
    name = name.strip()
    field = OwnCase.model_fields.get(name)
    if value == "null":
        return name, None
    of_text = field is not None and field.annotation in (str, str | None)
    if value.startswith('"') or not of_text:
        try:
            return name, json.loads(value)
        except (ValueError, RecursionError):
            pass  # a text that is not JSON; where the field wants another type, its check reports it
    return name, value


def _json_object(raw: bytes) -> dict[str, Any]:
    from ragbench.testsets.parser import decoded, parse_json
    from ragbench.testsets.problems import Problem, refuse

    text = decoded(raw, "--json")
    if isinstance(text, Problem):
        raise DataError(str(text))
    parsed = parse_json(text, "--json")
    refuse("--json", parsed.problems)
    if not isinstance(parsed.value, dict):
        raise DataError("--json is not an object; expected a case as `ragbench testset show` prints it")
    return parsed.value


def _print_known(dataset: Dataset, category: str, query_type: str) -> None:
    for what, wanted, known in (
        ("category", category, {case.category for case in dataset.cases}),
        ("type", query_type, {case.query_type for case in dataset.cases}),
    ):
        if wanted and wanted not in known:
            names = ", ".join(sorted(filter(None, known))) or "none"
            typer.echo(f"No case has the {what} {wanted!r}; there are: {names}", err=True)


def _of_samples(dataset: Dataset) -> str:
    inputs, outputs = len(dataset.safety_inputs), len(dataset.safety_outputs)
    return f"; {inputs} safety inputs, {outputs} safety outputs" if inputs or outputs else ""
