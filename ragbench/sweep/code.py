"""Consent to the code of a stored sweep: cells of notebooks that did not come with ragbench, and
modules that its parameters name.

Running a grid is consent to the code of that grid; verifying a folder, which may be a stranger's, is
not: hashes in a folder prove nothing about who wrote it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pathlib import Path

from ragbench.files import read_json
from ragbench.store import digest
from ragbench.sweep.notebooks import digest_of, packaged
from ragbench.systems.consent import confirm_content, remember


def is_packaged(notebook_digest: str) -> bool:
    """Return True if a notebook that comes with ragbench has the cells with this digest."""
    return any(
        digest_of(read_json(path, hint=""))[0] == notebook_digest
        for path in sorted(packaged().glob("*.ipynb"))
    )


def confirm_cells(notebook: Path, notebook_digest: str, n_cells: int, folder: Path) -> None:
    """Ask for consent to run the cells of a stored notebook in a folder, unless given before.

    Args:
        notebook: its path.
        notebook_digest: of its cells. Consent is to these cells in this folder.
        n_cells: the number of cells with code, for the question.
        folder: where they would run.

    Raises:
        ConfigError: it is refused, or no one can be asked.
    """
    confirm_content(
        str(notebook),
        f"runs {n_cells} cells of code that do not come with ragbench (SHA-256 "
        f"{notebook_digest[:12]}), in {folder}, whose modules they can import",
        _content_of_cells(notebook_digest, folder),
        # where no one can be asked, the error names this command, which asks at a terminal
        f"ragbench verify {notebook.parent}",
    )


def confirm_import(name: str, folder: Path, result: Path) -> None:
    """Ask for consent to import "package.module:attribute", a parameter of a stored result, for a run
    in a folder, unless it was given before.

    Args:
        name: the module that is imported.
        folder: where the run takes place; modules in it can be imported.
        result: the folder of the result whose `config.json` has the parameter.

    Raises:
        ConfigError: it is refused, or no one can be asked.
    """
    place = _place_of(name, folder)
    confirm_content(
        str(result / "config.json"),
        f"imports {name!r}, from {place or 'this Python'}, in {folder}, whose modules it can import",
        _content_of_import(name, folder),
        # where no one can be asked, the error names this command, which asks at a terminal
        f"ragbench verify {result.parent}",
    )


def remember_code(digests: Iterable[str], names: Iterable[str], folder: Path) -> None:
    """Remember that the user has run cells with these digests and imported these names in a folder,
    so that `ragbench verify` does not ask for consent to them.
    """
    cells = [_content_of_cells(each, folder) for each in digests]
    remember([*cells, *(_content_of_import(name, folder) for name in names)])


def _content_of_cells(notebook_digest: str, folder: Path) -> str:
    return digest("cells", notebook_digest, str(folder.resolve()))


def _content_of_import(name: str, folder: Path) -> str:
    """Return the digest of a name, the folder of the run, where the top-level package or module is,
    and all of its source.
    """
    place = _place_of(name, folder)
    if place is None:  # built into Python: it has no source to watch
        return digest("import", name, str(folder.resolve()))
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    sources = [f"{path.relative_to(place)} {path.read_bytes().hex()}" for path in files]
    return digest("import", name, str(folder.resolve()), str(place.resolve()), *sources)


def _place_of(name: str, folder: Path) -> Path | None:
    """Return the file of the top-level module in a name such as "package.module:attribute", or the
    folder of the top-level package; None if there is none, or it is built into Python, such as `sys`.

    Nothing is imported. A module in `folder`, where the run takes place, is found first.
    """
    module = name.partition(":")[0].partition(".")[0]
    spec = PathFinder.find_spec(module, [str(folder.resolve()), *sys.path])
    if spec is None:
        return None
    if spec.submodule_search_locations:  # a package: its folder
        return Path(next(iter(spec.submodule_search_locations)))
    return Path(spec.origin) if spec.origin else None
