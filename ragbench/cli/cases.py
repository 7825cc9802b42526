"""`ragbench testset list|show|add|edit|remove`: the cases of a test set."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragbench.cli.console import listed_errors, shown
from ragbench.errors import printable

if TYPE_CHECKING:
    from ragbench.types import Dataset

LIST_EXAMPLE = "Example: ragbench testset list my.yaml --category install"
SHOW_EXAMPLE = "Example: ragbench testset show my.yaml q1"
ADD_EXAMPLE = 'Example: ragbench testset add my.yaml --query "How do I install it?" --expected-doc setup_guide'
EDIT_EXAMPLE = "Example: ragbench testset edit my.jsonl q1 --set category=install --set 'relevant={\"setup_guide\": 2}'"
REMOVE_EXAMPLE = "Example: ragbench testset remove my.yaml q1 --yes"

_WIDE = ("query", "documents")

TestSet = Annotated[Path, typer.Argument(metavar="TESTSET", help="A .yaml, .json or .jsonl file, or a folder.")]
CaseId = Annotated[str, typer.Argument(metavar="ID", help="The id of the case.")]
Force = Annotated[bool, typer.Option("--force", help="Write also where comments of a YAML file are lost.")]


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

    from ragbench.datasets.testsets import load_testset

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


def show_command(path: TestSet, case_id: CaseId) -> None:
    """Show a case with all of its labels, as JSON.

    Exit status: 0 all is well, 2 there is no such case.
    """
    from ragbench.datasets.testsets import load_testset
    from ragbench.datasets.testsets.edits import case_record

    with listed_errors():
        typer.echo(json.dumps(case_record(load_testset(path), case_id), ensure_ascii=False, indent=2))


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
    from ragbench.datasets.testsets.edits import add_case, record_case
    from ragbench.datasets.testsets.validation import derived_id
    from ragbench.errors import ConfigError

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
    from ragbench.datasets.testsets.edits import change_case

    with listed_errors():
        new = dict(_assignment(change) for change in changes)
        change_case(path, case_id, lambda fields: {**fields, **new}, force=force)
    typer.echo(f"{case_id} changed in {shown(path)}: {', '.join(new)}")


def remove_command(
    path: TestSet,
    case_id: CaseId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Force = False,
) -> None:
    """Take a case out of a test set, with its labels in every file.

    Exit status: 0 removed, 1 not confirmed, 2 nothing is written.
    """
    from ragbench.datasets.testsets import load_testset
    from ragbench.datasets.testsets.edits import case_record, remove_case

    with listed_errors():
        found = case_record(load_testset(path), case_id)
        if not yes and not typer.confirm(f"Remove {case_id}: {printable(found['text'])}"):
            raise typer.Exit(1)
        remove_case(path, case_id, force=force)
    typer.echo(f"{case_id} removed from {shown(path)}")


def _assignment(change: str) -> tuple[str, Any]:
    """A field and its value. What is a text in a case stays one: `--set text=42` is not a number."""
    from ragbench.datasets.testsets.single_file import OwnCase
    from ragbench.errors import ConfigError

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
    from ragbench.datasets.testsets.parser import decoded, parse_json
    from ragbench.datasets.testsets.problems import Problem, refuse
    from ragbench.errors import DataError

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
