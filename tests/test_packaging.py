"""The wheel is complete, and what it brings is found outside a checkout."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typer.testing import CliRunner

from ragbench.cli import app
from ragbench.errors import ConfigError
from ragbench.sweep import notebooks, read_grid
from ragbench.sweep.grid import working_folder
from ragbench.sweep.job import relative
from ragbench.sweep.notebooks import copy_notebooks, packaged
from tests.committed import committed_files

ROOT = Path(__file__).parents[1]


def test_the_wheel_holds_notebooks_grids_and_every_data_file() -> None:
    wheel = pytest.importorskip(
        "hatchling.builders.wheel", reason="needs hatchling: pip install 'ragbench-lab[test]'"
    )
    files = {
        file.distribution_path for file in wheel.WheelBuilder(str(ROOT)).recurse_included_files()
    }
    guide = ROOT / "notebooks" / "guide"
    sources = {
        f"ragbench/{path.relative_to(ROOT).as_posix()}"
        for path in committed_files("notebooks")
        if not path.is_relative_to(guide)
    }
    assert not [name for name in files if name.startswith("ragbench/notebooks/guide")]
    assert (
        {"ragbench/notebooks/evaluate.ipynb", "ragbench/notebooks/quickstart.toml"}
        <= sources
        <= files
    )
    assets = {p.relative_to(ROOT).as_posix() for p in (ROOT / "ragbench").rglob("*") if p.is_file()}
    assert {name for name in assets if "__pycache__" not in name} <= files
    assert all(name.startswith("ragbench/") for name in files)


def test_a_grid_elsewhere_takes_the_notebooks_that_come_along(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text("[fixed]\nk = 3\n")
    for place in (tmp_path / "grid.toml", tmp_path):
        grid = read_grid(place)
        assert grid.notebook.path == packaged("evaluate.ipynb")
        assert grid.compare is not None
        assert grid.compare.path == packaged("compare.ipynb")


def test_the_built_in_grid_is_known_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_grid("quickstart").path == packaged("quickstart.toml")
    with pytest.raises(ConfigError, match="ragbench init"):
        read_grid("quickstrat")


def test_an_installed_grid_works_in_the_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "site-packages" / "ragbench" / "notebooks"
    shutil.copytree(packaged(), installed)
    monkeypatch.setattr(notebooks, "_INSTALLED", installed)
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    grid = read_grid("quickstart")
    assert grid.path == installed / "quickstart.toml"
    assert working_folder(grid) == tmp_path / "mine"
    assert (
        relative(grid.notebook.path, tmp_path / "mine" / "results")
        == "<ragbench>/notebooks/evaluate.ipynb"
    )
    # modules that overrides name are the user's, too
    (tmp_path / "mine" / "my_brevity.py").write_text(
        "def brevity(case, answer, contexts):\n    return 1\n"
    )
    runs = read_grid("quickstart", ["criteria=my_brevity:brevity"]).runs.values()
    assert {parameters["criteria"] for parameters in runs} == {"my_brevity:brevity"}


def test_notebooks_are_copied_and_never_overwritten_unasked(tmp_path: Path) -> None:
    copies = copy_notebooks(tmp_path / "nb")
    assert {"evaluate.ipynb", "compare.ipynb", "label.ipynb", "questions.ipynb"} <= {
        path.name for path in copies
    }
    assert copy_notebooks(tmp_path / "nb") == copies  # the same once more does no harm
    copies[0].write_text("mine")
    with pytest.raises(ConfigError, match="already exists and differs"):
        copy_notebooks(tmp_path / "nb")
    assert copies[0].read_text() == "mine"
    done = CliRunner().invoke(app, ["notebooks", str(tmp_path / "nb"), "--force"])
    assert done.exit_code == 0, done.output
    assert copies[0].read_text() != "mine"


def test_the_lock_file_holds_a_hashed_version_that_fits_of_every_requirement() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (ROOT / ".ci" / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in text, "hashes, and no place to fetch from"
    locked: dict[str, list[str]] = {}
    for block in re.split(r"\n(?! )", text.strip()):
        found = re.match(r"([\w.-]+)==(\S+)", block)
        assert found, block[:80]
        assert "--hash=sha256:" in block, found[1]
        locked.setdefault(canonicalize_name(found[1]), []).append(found[2])
    extras = project["optional-dependencies"]
    [ours] = [line for line in extras["test"] if line.startswith(project["name"])]
    lines = [*project["dependencies"], *extras["test"]]
    lines.remove(ours)
    for line in (*lines, *(line for name in Requirement(ours).extras for line in extras[name])):
        requirement = Requirement(line)
        versions = locked.get(canonicalize_name(requirement.name))
        assert versions, f"{requirement.name} is not locked: run .ci/dependencies lock"
        for version in versions:
            assert requirement.specifier.contains(version, prereleases=True), (line, version)
