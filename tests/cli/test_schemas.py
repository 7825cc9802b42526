"""JSON schemas for editors: they take every file that ragbench takes, and mark misspelt names."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from ragbench.cli import app
from ragbench.cli.schemas import SCHEMAS, schema_text
from ragbench.testsets.loader import load_dataset

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def check(kind: str, value: Any) -> None:
    schema = json.loads(schema_text(kind))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(value, schema, cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize("kind", SCHEMAS)
def test_the_command_prints_a_schema(kind: str) -> None:
    done = CliRunner().invoke(app, ["schema", kind])
    assert done.exit_code == 0
    assert json.loads(done.output)["type"] == "object"


def test_an_unknown_kind_is_refused() -> None:
    done = CliRunner().invoke(app, ["schema", "gird"])
    assert done.exit_code == 2
    assert "did you mean 'grid'" in done.output


@pytest.mark.parametrize("name", ["pydoc.toml", "quickstart.toml"])
def test_a_grid_is_taken_and_a_misspelt_key_is_not(name: str) -> None:
    grid = tomllib.loads((NOTEBOOKS / name).read_text(encoding="utf-8"))
    check("grid", grid)
    with pytest.raises(jsonschema.ValidationError, match="axis"):
        check("grid", {**grid, "axis": {}})
    with pytest.raises(jsonschema.ValidationError, match="'256'"):
        check("grid", {"fixed": {"chunk_size": "256"}})


@pytest.mark.parametrize(
    "system",
    [
        {"pipeline": {"retriever": "bm25", "k": 3}},
        {"http": {"url": "http://localhost:1/ask", "body": {"query": "{query}"}}},
        {"http": {"url": "http://localhost:1/ask", "reply": {"answer": "$.text"}}},
        {"mcp": {"server": "http://localhost:1/mcp", "tool": "ask"}},
    ],
)
def test_a_system_is_one_table(system: dict[str, Any]) -> None:
    check("system", system)
    with pytest.raises(jsonschema.ValidationError):
        check("system", {**system, "htpp": {}})
    with pytest.raises(jsonschema.ValidationError):
        check("system", {})


def test_what_init_writes_is_taken_by_the_schemas_next_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs").mkdir()
    text = (
        "# Kettle\n\nA kettle is a vessel for boiling water, and this one switches itself off when "
        "the water boils.\n\n## Descaling\n\nFill the kettle with diluted vinegar, wait for an "
        "hour, and rinse it twice with fresh water.\n"
    )
    (tmp_path / "docs" / "drinks.md").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["init", "mine", "--docs", "docs"]).exit_code == 0
    grid, cases = (tmp_path / "mine" / name for name in ("grid.toml", "tests.yaml"))
    assert grid.read_text(encoding="utf-8").splitlines()[0] == "#:schema ./grid.schema.json"
    first = cases.read_text(encoding="utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=./testset.schema.json"
    check("grid", tomllib.loads(grid.read_text(encoding="utf-8")))
    testset = YAML(typ="safe").load(cases)
    check("testset", testset)
    assert len(load_dataset(str(cases)).cases) == len(testset["cases"])
    for kind in ("grid", "testset"):
        written = (tmp_path / "mine" / f"{kind}.schema.json").read_text(encoding="utf-8")
        assert written == schema_text(kind)
    testset["cases"][0]["refrence_answer"] = "beans"
    with pytest.raises(jsonschema.ValidationError, match="refrence_answer"):
        check("testset", testset)
