"""The parameters cell of a notebook: a misspelt name and a value of another type are refused by
name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import IPython
import pandas as pd
import pytest

from ragbench.errors import ConfigError
from ragbench.sweep.notebooks import packaged

CELL = "k: int = 5\nshare: float = 0.5\nname: str = ''\n"
CALL = (
    "from ragbench.evaluation import notebook_parameters\np = notebook_parameters(k=int, "
    "share=float, name=str)\n"
)


def test_parameters_come_in_the_order_asked_for_as_papermill_left_them() -> None:
    notebook: dict[str, Any] = {}
    exec(CELL + "share = 1\n" + CALL, notebook)
    assert notebook["p"] == {"k": 5, "share": 1.0, "name": ""}
    assert type(notebook["p"]["share"]) is float


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (CELL.replace("share:", "shaer:"), "unknown parameter 'shaer'; did you mean 'share'?"),
        (CELL + "kk: int = 1\n", "unknown parameter 'kk'; did you mean 'k'?"),
        (CELL.replace("share: float", "shaer"), "parameter share is not set"),
        (CELL.replace("= 5", "= '5'"), "k is '5'; expected a whole number"),
        (CELL.replace("= 5", "= True"), "k is True; expected a whole number"),
        (CELL.replace("0.5", "None"), "share is None; expected a number"),
    ],
)
def test_a_misspelt_or_mistyped_parameter_is_refused_by_name(cell: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        exec(cell + CALL, {})
    assert message in str(caught.value)


def test_a_corrected_cell_runs_in_the_same_kernel() -> None:
    notebook: dict[str, Any] = {}
    with pytest.raises(ConfigError):
        exec(CELL.replace("share:", "shaer:") + CALL, notebook)
    exec(CELL + CALL, notebook)
    assert notebook["p"] == {"k": 5, "share": 0.5, "name": ""}


def test_tables_of_a_notebook_show_hidden_signs_as_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    monkeypatch.setattr(IPython, "get_ipython", lambda: shell)
    exec(CELL + CALL, {})
    table = pd.DataFrame({"answer": ["red \x1b[31m \u202etxt.exe"], "value": [0.5]})
    formatter = shell.display_formatter
    assert formatter is not None
    shown, _ = formatter.format(table)
    for mime in ("text/html", "text/plain"):
        assert "red \u241b[31m \ufffdtxt.exe" in shown[mime]
        assert "0.5" in shown[mime]
    assert table.loc[0, "answer"] == "red \x1b[31m \u202etxt.exe"


def run_by_papermill(cell: str, injected: dict[str, Any], notebook: dict[str, Any]) -> None:
    """Run a parameters cell, the cell that papermill adds, and the call, as a kernel does."""
    from papermill.translators import PythonTranslator

    for source in (cell, PythonTranslator.codify(injected), CALL):
        notebook.setdefault("In", [""]).append(source)
        exec(source, notebook)


@pytest.mark.parametrize(
    ("injected", "message"),
    [
        ({"shaer": 0.7}, "unknown parameter 'shaer'; did you mean 'share'?"),
        ({"k": 3, "nmae": "a\nb = 2"}, "unknown parameter 'nmae'; did you mean 'name'?"),
        ({"concurrency": 4}, "unknown parameter 'concurrency'"),
    ],
)
def test_a_parameter_of_papermill_that_the_cell_does_not_have_is_refused(
    injected: dict[str, Any], message: str
) -> None:
    notebook: dict[str, Any] = {}
    with pytest.raises(ConfigError) as caught:
        run_by_papermill(CELL, injected, notebook)
    assert message in str(caught.value)
    run_by_papermill(CELL, {"share": 0.7}, notebook)  # corrected, in the same kernel
    assert notebook["p"]["share"] == 0.7


def test_papermill_may_set_what_the_cell_has_and_the_call_does_not_name() -> None:
    notebook: dict[str, Any] = {}
    run_by_papermill(CELL + "mine = 1\n", {"mine": 2, "k": 3}, notebook)
    assert (notebook["p"]["k"], notebook["mine"]) == (3, 2)


@pytest.mark.parametrize("path", sorted(packaged().glob("*.ipynb")), ids=lambda path: path.stem)
def test_every_notebook_refuses_parameters_of_other_names(path: Path) -> None:
    assert "notebook_parameters(" in path.read_text(encoding="utf-8")
