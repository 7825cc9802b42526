"""`ragbench schema`: JSON schemas, with which editors complete and check files."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer

from ragbench import systems
from ragbench.errors import check_known

Schema = dict[str, Any]
_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


def _object(properties: Schema, *, closed: bool = True) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": not closed}


def _grid() -> Schema:
    from ragbench.sweep.grid import GridFile
    from ragbench.sweep.notebooks import packaged, read_notebook

    notebook = read_notebook(packaged("evaluate.ipynb"))
    values = {
        name: {"type": [_TYPES[kind.__name__] for kind in notebook.types[name]], "default": default}
        for name, default in notebook.defaults.items()
    }
    lists = {name: {"type": "array", "items": value} for name, value in values.items()}
    schema = GridFile.model_json_schema()
    # a notebook of the user may have other parameters, and an axis may be a list of tables
    schema["properties"]["fixed"] = _object(values, closed=False)
    schema["properties"]["axes"] = _object(lists, closed=False)
    return schema


def _testset() -> Schema:
    from pydantic import BaseModel

    from ragbench.testsets.cases import CaseLine, DocumentLine, Head, SampleLine, fields_of

    lines: dict[str, type[BaseModel]] = {
        "cases": CaseLine,
        "test_cases": CaseLine,
        "documents": DocumentLine,
        "safety_inputs": SampleLine,
        "safety_outputs": SampleLine,
    }
    properties: Schema = {name: {} for name in fields_of(Head)}
    for name, model in lines.items():
        fields: Schema = {name: {} for name in fields_of(model)}
        typed = model.model_json_schema()["properties"]
        fields |= {key: typed[key] for key in typed if "enum" in str(typed[key])}
        properties[name] = {"type": "array", "items": _object(fields)}
    return _object(properties, closed=False)


def _system() -> Schema:
    from pydantic import TypeAdapter

    from ragbench.systems.loader import pipeline_options

    models = {"pipeline": pipeline_options(), "http": systems.HttpSystem, "mcp": systems.McpSystem}
    tables = {name: TypeAdapter[Any](model).json_schema() for name, model in models.items()}
    parts = {
        name: part for table in tables.values() for name, part in table.pop("$defs", {}).items()
    }
    return {**_object(tables), "minProperties": 1, "maxProperties": 1, "$defs": parts}


SCHEMAS: dict[str, Callable[[], Schema]] = {"grid": _grid, "testset": _testset, "system": _system}


def schema_text(kind: str) -> str:
    """Return the JSON schema of a kind of file."""
    check_known("kind of file", SCHEMAS, kind)
    return json.dumps(SCHEMAS[kind](), indent=2) + "\n"


def schema_command(kind: Annotated[str, typer.Argument(autocompletion=lambda: [*SCHEMAS])]) -> None:
    """Print the JSON schema of grid.toml, of a test set in YAML or JSON, or of a system's file.

    An editor that knows it completes names and marks wrong ones. `ragbench init` writes those of its
    files next to them, and the line by which editors find them.

    Args:
        kind: grid, testset or system.

    Example: ragbench schema grid
    """
    typer.echo(schema_text(kind), nl=False)
