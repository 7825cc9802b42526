"""Comparing tables needs numpy, pandas and scipy alone: also inside other projects' tests, where ragbench was
installed without its requirements.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_PANDAS = "numpy pandas scipy dateutil six pytz tzdata"
_PYTEST = "pytest py pluggy iniconfig packaging pygments"

BLOCK = """\
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top in ALLOWED or top in sys.stdlib_module_names or top.startswith("_"):
            return None
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocked())
"""

COMPARE = """\
import ragbench as rb
print(rb.compare("old.csv", "new.csv").decision)
rb.assert_not_worse("old.csv", "new.csv")
"""

RUN_PYTEST = """\
import pytest
options = ["-q", "-p", "ragbench.testing.plugin", "-p", "no:cacheprovider", "-c", "pytest.ini"]
sys.exit(pytest.main([*options, "test_new.py"]))
"""

TEST = """\
from ragbench import assert_not_worse
def test_the_new_system_is_not_worse():
    assert_not_worse("old.csv", "new.csv")
"""

COMMAND = """\
import runpy
sys.argv = ["ragbench", "compare", "old.csv", "new.csv"]
runpy.run_module("ragbench", run_name="__main__")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, score in (("old", 0.2), ("new", 0.7)):
        rows = [f"q{i},{score + i % 3 / 10}" for i in range(20)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,score", *rows]), encoding="utf-8")
    (tmp_path / "test_new.py").write_text(TEST, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    return tmp_path


def run(code: str, allowed: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code in which only these packages can be imported."""
    names = [*allowed.split(), "ragbench"]
    code = f"ALLOWED = {names}\n{BLOCK}{code}"
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PATH": "", "HOME": str(folder)}
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment, check=False
    )


def test_comparing_needs_numpy_pandas_and_scipy_alone(folder: Path) -> None:
    done = run(COMPARE, _PANDAS, folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "better\n", "")


def test_the_plugin_lets_pytest_run_without_the_requirements(folder: Path) -> None:
    done = run(RUN_PYTEST, f"{_PANDAS} {_PYTEST}", folder)
    assert done.returncode == 0, done.stderr
    assert "1 passed" in done.stdout


def test_the_command_names_what_it_needs(folder: Path) -> None:
    done = run(COMMAND, _PANDAS, folder)
    assert done.returncode == 2
    assert done.stderr == (
        "the command needs typer and platformdirs; run: pip install typer platformdirs\n"
    )


def test_the_command_needs_typer_and_platformdirs_in_addition(folder: Path) -> None:
    of_typer = "platformdirs typer click rich shellingham annotated_doc markdown_it mdurl pygments pydantic "
    of_typer += "pydantic_core annotated_types typing_extensions typing_inspection"
    done = run(COMMAND, f"{_PANDAS} {of_typer}", folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("\nnew is better than old")
