"""A stranger's folder, whose hashes prove nothing: what runs or imports something of it asks before."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.errors import ConfigError, DataError
from ragbench.evaluation import checksums
from ragbench.evaluation.checksums import write_config
from ragbench.extension import PERMITTED, imported
from ragbench.sweep import code, sweep, verify
from ragbench.sweep.notebooks import digest_of
from ragbench.systems import consent
from tests.test_sweep import COMPARE, PARAMETERS, RUN, SAVE, write_notebook

TRY = "try:\n    import canary_of_tests\nexcept ImportError:\n    pass"
TABLE = "from pathlib import Path\nPath(sweep_dir, 'n.csv').write_text(f'n,v\\n{len(names)},1\\n')"
NAMED = {
    "measures": "canary_of_tests:words",
    "retriever": "canary_of_tests:Index",
    "chunker": "canary_of_tests:split",
    "reranker": "canary_of_tests:score",
    "llm": "canary_of_tests:reply",
    "embedder": "canary_of_tests:encode",
}


class Stranger:
    """A folder of two results, its working folder with a module that leaves a mark, and the mark."""

    def __init__(self, root: Path) -> None:
        self.mark, self.grids = root / "mark", root / "grids"
        self.folder = root / "results" / "tiny"
        self.grids.mkdir()
        write_notebook(self.grids / "evaluate.ipynb", PARAMETERS, RUN, TRY, SAVE)
        parameters = 'sweep_dir: str = ""\nbaseline: str = ""'
        write_notebook(self.grids / "compare.ipynb", parameters, COMPARE, TRY, TABLE)
        self.grid = self.grids / "tiny.toml"
        text = '[fixed]\nbehaviour = "forgotten"\n[axes]\nquality = [0.5, 1.0]\n'
        self.grid.write_text(text, encoding="utf-8")

    def plant(self) -> None:
        """Put the module where runs, and the comparison, work."""
        for folder in (self.grids, self.folder):
            text = f"open({str(self.mark)!r}, 'w').close()\nwords = len\n"
            (folder / "canary_of_tests.py").write_text(text, encoding="utf-8")

    def rewrite(self, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
        """Change each config.json and notebook, with the hashes that they then must have."""
        for path in self.folder.glob("*/config.json"):
            notebook_path = path.parent.with_suffix(path.parent.suffix + ".ipynb")
            config, notebook = (json.loads(each.read_text()) for each in (path, notebook_path))
            change(config, notebook)
            cells = [
                cell
                for cell in notebook["cells"]
                if "injected-parameters" not in cell["metadata"].get("tags", [])
            ]
            config["source"]["notebook_sha256"] = digest_of({"cells": cells})[0]
            write_config(path.parent, config)
            notebook_path.write_text(json.dumps(notebook), encoding="utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("stranger")
    stranger = Stranger(root)
    assert dict(sweep(stranger.grid, out=root / "results", jobs=1).failed) == {}
    return root


@pytest.fixture
def stranger(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stranger:
    """The folder as it came; this user has confirmed nothing."""
    shutil.copytree(made / "results", tmp_path / "results")
    forget(tmp_path, monkeypatch)
    stranger = Stranger(tmp_path)
    stranger.plant()
    return stranger


def forget(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAGBENCH_YES", raising=False)
    monkeypatch.setattr(consent, "prints_uses", False)
    monkeypatch.setattr(consent, "_book", lambda: folder / "confirmed.txt")


def add_cell(mark: Path) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(_: dict[str, Any], notebook: dict[str, Any]) -> None:
        last = notebook["cells"][-1]
        last["source"] = f"open({str(mark)!r}, 'w').close()\n" + "".join(last["source"])

    return change


def packaged(stranger: Stranger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the notebooks those that come with ragbench."""
    monkeypatch.setattr(code, "packaged", lambda name="": stranger.grids / name)


def test_cells_that_do_not_come_with_ragbench_run_after_consent_only(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger.rewrite(add_cell(stranger.mark))
    with pytest.raises(ConfigError, match=r"runs 4 cells of code .* --yes, or set RAGBENCH_YES=1"):
        verify(stranger.folder, jobs=1)
    shown = CliRunner().invoke(app, ["verify", str(stranger.folder)])
    assert (shown.exit_code, "for the first time" in shown.output) == (2, True)
    assert not stranger.mark.exists()
    monkeypatch.setenv("RAGBENCH_YES", "1")
    verify(stranger.folder, jobs=1)
    assert stranger.mark.exists()


def test_consent_to_cells_is_for_one_folder(stranger: Stranger) -> None:
    notebook = stranger.folder / "comparison.ipynb"
    code.remember_code(["abc"], [], stranger.grids)
    code.confirm_cells(notebook, "abc", 1, stranger.grids)
    with pytest.raises(ConfigError, match="for the first time"):
        code.confirm_cells(notebook, "abc", 1, stranger.folder)
    with pytest.raises(ConfigError, match="for the first time"):
        code.confirm_cells(notebook, "abd", 1, stranger.grids)


def test_the_cells_of_ragbench_import_nothing_of_a_strangers_folder(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged(stranger, monkeypatch)
    verified = verify(stranger.folder, jobs=1)
    assert [each.differences for each in verified] == [(), (), ()]
    assert not stranger.mark.exists()


def test_a_run_takes_the_cells_that_were_compared_and_no_others(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another format of notebooks holds its cells elsewhere."""
    packaged(stranger, monkeypatch)
    planted = {
        "cell_type": "code",
        "language": "python",
        "input": f"open({str(stranger.mark)!r}, 'w')",
        "metadata": {},
        "collapsed": False,
        "outputs": [],
    }

    def change(_: dict[str, Any], notebook: dict[str, Any]) -> None:
        notebook.update(nbformat=3, nbformat_minor=0, worksheets=[{"cells": [planted]}])

    stranger.rewrite(change)
    verified = verify(stranger.folder, jobs=1)
    assert [each.differences for each in verified if each.differences] == []
    assert not stranger.mark.exists()


def test_a_parameter_whose_name_is_code_is_refused(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged(stranger, monkeypatch)

    def change(config: dict[str, Any], _: dict[str, Any]) -> None:
        config["parameters"][f"a = open({str(stranger.mark)!r}, 'w')\nb"] = 1

    stranger.rewrite(change)
    first, *_ = verify(stranger.folder, jobs=1)
    assert "is not a name of Python" in first.differences[0]
    assert not stranger.mark.exists()


@pytest.mark.parametrize("parameter", ["measures", "retriever", "chunker", "reranker", "llm"])
def test_a_module_that_a_parameter_names_is_imported_after_consent_only(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch, parameter: str
) -> None:
    packaged(stranger, monkeypatch)
    stranger.rewrite(lambda config, _: config["parameters"].update({parameter: NAMED[parameter]}))
    with pytest.raises(ConfigError, match=r"imports 'canary_of_tests:\w+', from .*canary_of_tests"):
        verify(stranger.folder, jobs=1)
    assert not stranger.mark.exists()


def test_consent_to_a_name_is_for_the_source_of_its_module(stranger: Stranger) -> None:
    name, result = "canary_of_tests:words", stranger.folder / "a"
    code.remember_code([], [name], stranger.grids)
    code.confirm_import(name, stranger.grids, result)
    with pytest.raises(ConfigError, match="for the first time"):
        code.confirm_import(name, stranger.folder, result)
    (stranger.grids / "canary_of_tests.py").write_text("words = max\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="for the first time"):
        code.confirm_import(name, stranger.grids, result)


def test_a_run_imports_no_name_that_was_not_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PERMITTED, "math:sqrt")
    assert imported("math:sqrt", "measure")(9) == 3
    with pytest.raises(ConfigError, match="'math:floor' is not imported"):
        imported("math:floor", "measure")


def test_the_users_own_sweep_is_verified_without_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(tmp_path, monkeypatch)
    own = Stranger(tmp_path)
    sweep(own.grid, out=tmp_path / "results", jobs=1)
    verified = verify(own.folder, jobs=1)
    assert [each.differences for each in verified if each.differences] == []
    (tmp_path / "confirmed.txt").unlink()
    with pytest.raises(ConfigError, match="for the first time"):
        verify(own.folder, jobs=1)


def test_what_shows_a_strangers_folder_runs_and_imports_nothing(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    add = add_cell(stranger.mark)

    def change(config: dict[str, Any], notebook: dict[str, Any]) -> None:
        add(config, notebook)
        config["parameters"] |= {**NAMED, "judge": "canary_of_tests:reply"}
        config["parameters"]["detector"] = "canary_of_tests:score"

    stranger.rewrite(change)
    monkeypatch.chdir(stranger.folder)
    monkeypatch.syspath_prepend(str(stranger.folder))
    results = rb.load_results(".")
    assert len(results) == 2
    results.leaderboard()
    results.conclude()
    rb.write_report(results, tmp_path / "report.html")
    for command in (
        ["compare", "."],
        ["explore", ".", "--output", str(tmp_path / "explore.html")],
        ["history", "import", ".", "--database", str(tmp_path / "runs.sqlite")],
        ["verify", ".", "--accept"],
    ):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
    assert not stranger.mark.exists()


def link_out(stranger: Stranger, name: str, *, is_absolute: bool = True) -> Path:
    """Replace a file of a result by a link to a file of the user; return that file."""
    secret = stranger.mark.with_name("of-the-user")
    secret.write_text("SECRET: 12345\n", encoding="utf-8")
    result = sorted(path.parent for path in stranger.folder.glob("*/config.json"))[0]
    (result / name).unlink(missing_ok=True)
    (result / name).symlink_to(secret if is_absolute else f"../../../{secret.name}")
    assert (result / name).read_text() == secret.read_text()
    return secret


@pytest.mark.parametrize(
    "name", ["answers.jsonl", "scores.csv", "config.json", "run.trec", "judgements.jsonl"]
)
@pytest.mark.parametrize("is_absolute", [True, False])
def test_a_link_of_a_strangers_folder_opens_no_file_of_the_user(
    stranger: Stranger, tmp_path: Path, name: str, *, is_absolute: bool
) -> None:
    secret = link_out(stranger, name, is_absolute=is_absolute)
    for command in (
        ["compare", str(stranger.folder)],
        ["verify", str(stranger.folder), "--accept"],
        ["explore", str(stranger.folder), "--output", str(tmp_path / "explore.html")],
    ):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 2, done.output
        assert "leads out of" in done.output
        assert "SECRET" not in done.output
    assert secret.read_text(encoding="utf-8") == "SECRET: 12345\n"


def test_a_link_is_not_followed_by_a_verification_that_was_confirmed(stranger: Stranger) -> None:
    link_out(stranger, "answers.jsonl")
    [*_, other] = sorted(path.parent for path in stranger.folder.glob("*/config.json"))
    notebook = other.with_name(f"{other.name}.ipynb")
    notebook.rename(stranger.mark.with_name("elsewhere.ipynb"))
    notebook.symlink_to(stranger.mark.with_name("elsewhere.ipynb"))
    done = CliRunner().invoke(app, ["verify", str(stranger.folder), "--yes"])
    assert done.exit_code == 1, done.output
    assert f"{other.name}.ipynb leads out of" in done.output
    assert (
        done.output.count("leads out of") >= 3
    )  # also the other result, and the comparison's copy
    assert "SECRET" not in done.output


def test_a_name_among_checksums_opens_no_file_outside_of_the_folder(
    stranger: Stranger, tmp_path: Path
) -> None:
    secret = tmp_path / "of-the-user"
    secret.write_text("SECRET", encoding="utf-8")
    result = sorted(path.parent for path in stranger.folder.glob("*/config.json"))[0]
    for name in ("../../../of-the-user", str(secret)):
        with pytest.raises(DataError, match="leads out of"):
            checksums.check_others(result, {name: "0"})
