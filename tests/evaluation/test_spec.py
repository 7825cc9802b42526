"""EvaluationSpec: an option is declared once, and every surface has it; bad values name the value
and the way out.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_type_hints

import pytest

from ragbench import evaluation
from ragbench.errors import ConfigError
from ragbench.evaluation import EvaluationSpec, spec_of, spec_of_texts
from ragbench.evaluation.parameters import OF_PIPELINE
from ragbench.evaluation.spec import Named, option_name, plain_text, plain_type
from ragbench.systems.named_systems import pipeline_options

# A field that is added to the spec before anything else is imported.
WIDER = """
from pydantic import Field
from ragbench.evaluation import spec

class Wider(spec.EvaluationSpec):
    colour: int = spec._option(3, "Of the report.", "Output", is_served=True, ge=1)

spec.EvaluationSpec = Wider

import json
import nbformat
import pytest
from pathlib import Path
from typing import Any
from typer.testing import CliRunner
import ragbench as rb
from ragbench import evaluation
from ragbench.cli import app
from ragbench.errors import ConfigError
from ragbench.evaluation.parameters import notebook_parameters
from ragbench.service.bodies import RunBody
from ragbench.sweep.grid import read_grid

# library
data = rb.load_dataset("pydoc").select(["p001"])
with pytest.raises(ConfigError, match="colour is 0"):
    rb.evaluate(data, "bm25", colour=0)
# command
assert "--colour" in CliRunner().invoke(app, ["eval", "--help"], terminal_width=200).output
done = CliRunner().invoke(app, ["eval", "--colour", "0"])
assert done.exit_code == 2 and "colour is 0" in done.output, done.output
# notebook and grid
source = Path(PACKAGED).read_text()
folder = Path("grids")
folder.mkdir()
notebook = nbformat.reads(source, as_version=4)
[cell] = [one for one in notebook.cells if "parameters" in one.metadata.get("tags", [])]
cell.source += "\\ncolour: int = 3"
nbformat.write(notebook, folder / "evaluate.ipynb")
space = {}
exec("colour: int = 3", space)
exec("from ragbench.evaluation.parameters import notebook_parameters\\np = notebook_parameters()", space)
assert space["p"] == {"colour": 3} and evaluation.spec_of(space["p"]).colour == 3
(folder / "grid.toml").write_text("[axes]\\ncolour = [3, 4]\\n[fixed]\\nretriever = 'bm25'")
assert len(read_grid(folder / "grid.toml").runs) == 2
(folder / "grid.toml").write_text("[axes]\\ncolour = [0]")
with pytest.raises(ConfigError, match="colour is 0"):
    read_grid(folder / "grid.toml")
# server
assert RunBody(dataset="mine", colour=4).colour == 4
with pytest.raises(ValueError, match="colour"):
    RunBody(dataset="mine", colour=0)
# pytest plugin
assert evaluation.spec_of_texts(["colour=5"]).colour == 5
"""


def test_a_new_field_is_an_option_everywhere(tmp_path: Path) -> None:
    notebook = Path(__file__).parents[2] / "notebooks" / "evaluate.ipynb"
    code = WIDER.replace("PACKAGED", repr(str(notebook)))
    root = str(Path(__file__).parents[2])
    path = f"import sys; sys.path.insert(0, {root!r})"
    done = subprocess.run(
        [sys.executable, "-c", f"{path}\n{code}"], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_type_checkers_know_every_field() -> None:
    stub = Path(evaluation.__file__).with_name("options.pyi").read_text(encoding="utf-8")
    options, pipeline = (node for node in ast.parse(stub).body if isinstance(node, ast.ClassDef))

    def names(declared: ast.ClassDef) -> list[str]:
        return [ast.unparse(n.target) for n in declared.body if isinstance(n, ast.AnnAssign)]

    assert names(options) == [*EvaluationSpec.model_fields]
    assert set(names(pipeline)) == set(OF_PIPELINE)


def test_type_checkers_know_the_type_of_every_option() -> None:
    """Each annotation has the plain type of the option, and `Any` only where the spec has it, too."""
    stub = Path(evaluation.__file__).with_name("options.pyi").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(compile(stub, "options.pyi", "exec", dont_inherit=True), names)
    of_pipeline = pipeline_options().model_fields
    for name, annotation in get_type_hints(names["PipelineOptions"]).items():
        field = EvaluationSpec.model_fields.get(name) or of_pipeline[name]
        alternatives = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
        plain_types = {str, int, float, bool}.intersection(alternatives)
        if annotation is Any:
            assert field.annotation in (Any, Named), name
        elif name in EvaluationSpec.model_fields:
            assert plain_types == {plain_type(field)}, name
        else:
            assert plain_types == {int if field.default is None else type(field.default)}, name


def test_every_default_can_be_written_as_text() -> None:
    defaults = EvaluationSpec()
    texts = [f"{name}={plain_text(value)}" for name, value in defaults]
    assert spec_of_texts(texts) == defaults


def test_options_have_different_names_and_a_help_text() -> None:
    fields = EvaluationSpec.model_fields
    assert len({option_name(name, field) for name, field in fields.items()}) == len(fields)
    assert all(
        field.description and plain_type(field) in (bool, int, float, str)
        for field in fields.values()
    )


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"perspectives": "retreival"}, ("'retreival'", "'retrieval'")),
        ({"criteria": ["truth"]}, ("'truth'", "correctness")),
        ({"ks": [0]}, ("[0]", "whole numbers from 1")),
        ({"ks": "5,x"}, ("'5,x'", "1,3,5,10")),
        ({"suite": "smok"}, ("'smok'", "'smoke'")),
        ({"concurrency": 0}, ("concurrency", "0")),
        ({"interventions": "no-golt"}, ("no-golt", "no-gold")),
        ({"interventions": "distractors:x"}, ("distractors:x", "'x'")),
        ({"judge": "extractive"}, ("'extractive'",)),
        ({"jugde": ""}, ("'jugde'", "'judge'")),
    ],
    ids=str,
)
def test_a_value_that_no_evaluation_can_use_is_named(
    options: dict[str, Any], parts: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError) as error:
        EvaluationSpec(**options)
    for part in parts:
        assert part in str(error.value)


def test_parameters_of_the_pipeline_are_no_options() -> None:
    assert spec_of({"chunk_size": 128, "k": 5, "criteria": "relevance"}).criteria == ("relevance",)
    with pytest.raises(ConfigError, match="NAME=VALUE"):
        spec_of_texts(["judge"])
    with pytest.raises(ConfigError, match=r"limit is 'few'"):
        spec_of_texts(["limit=few"])
