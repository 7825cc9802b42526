"""A grid file: which configurations of a notebook to run, and what their results are made from."""

from __future__ import annotations

import fnmatch
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError, DataError, unknown
from ragbench.evaluation import WHERE, check_parameters, config_name, configuration
from ragbench.extension import searched
from ragbench.files import expanded, read_toml
from ragbench.llms import Settings
from ragbench.sweep.job import relative
from ragbench.sweep.notebooks import Notebook, is_installed, packaged, read_notebook
from ragbench.systems.loader import RECORDED, system_digest
from ragbench.types import Dataset

_SECTIONS = ("sweep", "fixed", "axes", "exclude", "run")
_SETTINGS: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "notebook": str,
    "compare": str,
    "baseline": dict,
    "run_timeout": (int, float),
}

_Table = dict[str, Any]

_IDLE = {
    ("llm", "extractive"): ("prompt", "max_tokens", "temperature"),
    ("chunker", "document"): ("chunk_size", "chunk_overlap"),
    ("judge", ""): ("criteria", "n_rejudged"),
}
"""A parameter with a value -> the parameters that then have no effect."""


@dataclass(frozen=True)
class Grid:
    """A grid, checked: `runs` is configuration name -> all parameters of the notebook, in the order
    of the file.
    """

    path: Path
    name: str
    notebook: Notebook
    compare: Notebook | None
    runs: Mapping[str, _Table]
    baseline: str = ""
    run_timeout: float = 3600.0
    notes: Sequence[str] = field(default_factory=tuple)


def read_grid(path: str | Path, settings: Settings | None = None) -> Grid:
    """Read a grid file and check everything that can be checked without running, models under
    `settings`.

    Raises:
        ConfigError: naming the file, the entry and what was expected.
    """
    path = _found(Path(path))
    hint = (
        "`ragbench init --docs DOCS` writes one for your documents, and `ragbench sweep "
        "quickstart` runs the built-in "
    )
    hint += "example"
    table = read_toml(path, hint, missing=f"there is no grid file {path}; {hint}")
    try:
        with searched(path.resolve().parent):  # modules of the user, as the runs will find them
            return _grid(path, table, settings)
    except ConfigError as exc:
        raise exc if str(path) in str(exc) else ConfigError(f"{path}: {exc}") from exc


def _found(path: Path) -> Path:
    """The grid file: that of a folder, or one that comes with ragbench where its name is all that
    is given.
    """
    if path.is_dir():
        return path / "grid.toml"
    built_in = packaged(f"{path}.toml")
    return built_in if path.parent == Path() and not path.exists() and built_in.is_file() else path


def _grid(path: Path, table: _Table, settings: Settings | None) -> Grid:
    for key in table:
        if key not in _SECTIONS:
            raise ConfigError(unknown("section", key, _SECTIONS))
    own = _section(table, "sweep")
    for key, value in own.items():
        if key not in _SETTINGS:
            raise ConfigError(unknown("key under [sweep]", key, _SETTINGS))
        if not isinstance(value, _SETTINGS[key]) or isinstance(value, bool):
            wanted = "text" if _SETTINGS[key] is str else "a number"
            wanted = "a table such as {retriever = 'bm25'}" if _SETTINGS[key] is dict else wanted
            raise ConfigError(f"[sweep] {key} is {value!r}; expected {wanted}")
    if not (math.isfinite(own.get("run_timeout", 1)) and own.get("run_timeout", 1) >= 0):
        raise ConfigError(
            f"[sweep] run_timeout is {own['run_timeout']}; expected seconds, or 0 for no limit"
        )
    name = own.get("name", path.stem)
    if not name or name.startswith(".") or "/" in name or "\\" in name:
        raise ConfigError(f"[sweep] name is {name!r}; expected the plain name of a folder")
    folder = path.resolve().parent
    own_notebook = folder / own.get("notebook", "evaluate.ipynb")
    notebook = read_notebook(
        own_notebook if "notebook" in own or own_notebook.is_file() else packaged("evaluate.ipynb")
    )
    if "results_dir" not in notebook.parameters:
        raise ConfigError(
            f"{notebook.path} has no parameter results_dir; a sweep sets it to the folder for "
            "its result"
        )
    notes: list[str] = []
    combinations = [notebook.accept(values) for values in _combinations(table, notebook, notes)]
    runs, same = _named(combinations, notes, settings, folder)
    return Grid(
        path=path,
        name=name,
        notebook=notebook,
        compare=_compare(own, notebook, folder, notes),
        runs=runs,
        baseline=_baseline(own.get("baseline", {}), same, notebook),
        run_timeout=float(own.get("run_timeout", 3600.0)),
        notes=tuple(notes),
    )


def _section(table: _Table, name: str) -> _Table:
    section = table.get(name, {})
    if not isinstance(section, dict):
        raise ConfigError(f"{name} is {section!r}; expected a table, [{name}]")
    return section


def _tables(table: _Table, name: str) -> list[_Table]:
    tables = table.get(name, [])
    if not isinstance(tables, list) or not all(
        isinstance(entry, dict) and entry for entry in tables
    ):
        raise ConfigError(f"{name} is {tables!r}; expected tables, each under [[{name}]]")
    return tables


def _combinations(table: _Table, notebook: Notebook, notes: list[str]) -> list[_Table]:
    """Every configuration as the file specifies it, before defaults: the cross product of axes,
    then explicit runs.
    """
    fixed, axes, explicit = _section(table, "fixed"), _section(table, "axes"), _tables(table, "run")
    if not fixed and not axes and not explicit:
        raise ConfigError("the grid is empty; give [axes] with lists of values, or [[run]] entries")
    excluded = [_typed("exclude", entry, notebook) for entry in _tables(table, "exclude")]
    choices = [_axis(name, values, notebook) for name, values in axes.items()]
    seen: dict[str, str] = {}
    for where, names in [
        ("[fixed]", fixed.keys()),
        *zip((f"axis {a}" for a in axes), map(_keys, choices), strict=True),
    ]:
        for name in names:
            if name in seen:
                raise ConfigError(f"{name} is in {seen[name]} and in {where}; give it in one place")
            seen[name] = where
    fixed = _typed("[fixed]", fixed, notebook)
    crossed: list[_Table] = []
    if axes or not explicit:
        for combination in itertools.product(*choices):
            crossed.append(
                fixed | {key: value for part in combination for key, value in part.items()}
            )
    defaults = notebook.accept({})
    notes += [
        f"exclude {entry} fits no combination"
        for entry in excluded
        if not any(_matches(defaults | own, entry) for own in crossed)
    ]
    kept = [
        own for own in crossed if not any(_matches(defaults | own, entry) for entry in excluded)
    ]
    kept += [fixed | _typed("[[run]]", entry, notebook) for entry in explicit]
    if not kept:
        raise ConfigError("the grid is empty: every combination is excluded")
    return kept


def _axis(name: str, values: Any, notebook: Notebook) -> list[_Table]:
    if name in _SECTIONS:
        raise ConfigError(
            f"[axes] holds {name!r}, which is a section; write [[{name}]], or put it above [axes]"
        )
    if not isinstance(values, list):
        raise ConfigError(
            f"axis {name} is {values!r}; expected a list (a single value goes under [fixed])"
        )
    if not values:
        raise ConfigError(
            f"axis {name} is an empty list, so the grid is empty; give it at least one value"
        )
    if all(isinstance(value, dict) for value in values):
        return [_typed(f"axis {name}", value, notebook) for value in values]
    if any(isinstance(value, dict) for value in values):
        raise ConfigError(f"axis {name} mixes tables and single values; expected one kind")
    return [_typed("[axes]", {name: value}, notebook) for value in values]


def _keys(choices: Iterable[_Table]) -> list[str]:
    return list(dict.fromkeys(key for choice in choices for key in choice))


def _typed(where: str, values: _Table, notebook: Notebook) -> _Table:
    own = {}
    for name, value in values.items():
        if name in WHERE:
            raise ConfigError(
                f"{where} sets {name}, which the sweep sets itself; use --out to say where "
                "results go"
            )
        try:
            own[name] = notebook.accept({name: value})[name]
        except ConfigError as exc:
            raise ConfigError(f"{where}: {exc}") from exc
    return own


def _matches(parameters: Mapping[str, Any], part: Mapping[str, Any]) -> bool:
    return all(parameters.get(key) == value for key, value in part.items())


def _named(
    combinations: Iterable[_Table], notes: list[str], settings: Settings | None, folder: Path
) -> tuple[dict[str, _Table], list[tuple[str, _Table]]]:
    """The configurations by name; and of every combination the name under which it is run, with its
    parameters.
    """
    runs: dict[str, _Table] = {}
    same: list[tuple[str, _Table]] = []
    firsts: dict[str, str] = {}  # what has an effect -> the name
    for combination in combinations:
        parameters = configuration(combination)
        name = config_name(parameters)
        idle = [
            one
            for (key, value), names in _IDLE.items()
            if parameters.get(key) == value
            for one in names
        ]
        effective = {key: value for key, value in parameters.items() if key not in idle}
        first = firsts.setdefault(json.dumps(effective, sort_keys=True), name)
        same.append((first, {**parameters, "system": combination.get("system", "")}))
        if first != name:
            differing = [key for key in idle if parameters.get(key) != runs[first].get(key)]
            causes = {
                f"{key} = {value!r}"
                for (key, value), names in _IDLE.items()
                if {*names} & {*differing}
            }
            notes.append(
                f"{name} differs from {first} in {', '.join(differing)} only, which has no "
                f"effect with {', '.join(sorted(causes))}; it is run once"
            )
        elif name in runs:
            notes.append(f"{name} is in the grid more than once; it is run once")
        if name in runs or first != name:
            continue
        try:
            with searched(folder):  # where the runs work, so modules next to the grid are found
                check_parameters(parameters, settings, folder=folder)
        except (ConfigError, DataError) as exc:
            raise ConfigError(f"configuration {name}: {exc}") from exc
        runs[name] = parameters
    _one_dataset(runs)
    return runs, same


def _one_dataset(runs: Mapping[str, _Table]) -> None:
    for key in ("dataset", "corpus", "split", "max_queries"):
        values = {str(parameters[key]) for parameters in runs.values() if key in parameters}
        if len(values) > 1:
            raise ConfigError(
                f"{key} takes {len(values)} values ({', '.join(sorted(values))}); configurations "
                "are compared question by question, so give each its own grid file"
            )


def _baseline(part: _Table, same: Sequence[tuple[str, _Table]], notebook: Notebook) -> str:
    if not part:
        return ""
    wanted = _typed("[sweep] baseline", part, notebook)
    found = list(dict.fromkeys(name for name, parameters in same if _matches(parameters, wanted)))
    if len(found) != 1:
        raise ConfigError(
            f"[sweep] baseline {part} fits {len(found)} configurations "
            f"({', '.join(found[:3]) or 'none'}); expected parameters that fit exactly one"
        )
    return found[0]


def _compare(
    settings: _Table, notebook: Notebook, folder: Path, notes: list[str]
) -> Notebook | None:
    if "compare" in settings:
        compare = read_notebook(folder / settings["compare"])
    else:
        places = [place / "compare.ipynb" for place in (folder, notebook.path.parent)]
        there = [path for path in places if path.is_file()]
        if not there:
            notes.append(
                "there is no compare.ipynb next to the grid file, so no comparison notebook is made"
            )
            return None
        compare = read_notebook(there[0])
    for name in ("sweep_dir", "baseline"):
        if name not in compare.parameters:
            raise ConfigError(
                f"{compare.path} has no parameter {name}; a sweep sets it to what is compared"
            )
    return compare


def chosen(grid: Grid, only: str) -> list[str]:
    """The configurations that `only` names: a pattern such as "bm25*", or a number in the order of
    the grid, from 0.

    Raises:
        ConfigError: there are none.
    """
    names = list(grid.runs)
    if only in names:
        return [only]
    if found := names[int(only) :][:1] if only.isdecimal() else fnmatch.filter(names, only or "*"):
        return found
    raise ConfigError(
        f"{unknown('configuration', only, names)}; a pattern or a number below {len(names)} is "
        "right too"
    )


def working_folder(grid: Grid) -> Path:
    """The grid file's folder: the runs work there, so that paths in the grid mean the same wherever
    it is started.

    For a grid of the installed package, which may be read-only, it is the folder in which this
    process works.
    """
    return Path.cwd() if is_installed(grid.path) else grid.path.resolve().parent


def source_of(grid: Grid) -> dict[str, str]:
    """What results are made from, in addition to their parameters; results made from something else
    are outdated.
    """
    return {
        "notebook": grid.notebook.path.name,
        "notebook_sha256": grid.notebook.digest,
        "dataset_fingerprint": _fingerprint(grid),
    }


def sources_of(grid: Grid) -> dict[str, dict[str, str]]:
    """`source_of` for each configuration; one whose system is described by a file or a module has
    its SHA-256 too.
    """
    source, folder = source_of(grid), working_folder(grid)
    return {
        name: {**source, "system_sha256": system_digest(str(own["system"]), folder)}
        if own.get("system")
        else source
        for name, own in grid.runs.items()
    }


def system_path(system: str, folder: Path) -> str:
    """A system's name as this process finds it: the path of its file, or the name as it is."""
    return located(system, folder) if system.endswith((".toml", *RECORDED)) else system


def _fingerprint(grid: Grid) -> str:
    """The fingerprint of the grid's dataset, loaded once here so that its errors come before
    anything is spent.
    """
    parameters = next(iter(grid.runs.values()))
    if "dataset" not in parameters:
        return ""
    return str(
        load_named(parameters, working_folder(grid)).fingerprint
    )  # where the notebook will look for it


def load_named(parameters: Mapping[str, Any], folder: Path) -> Dataset:
    """The dataset that a configuration names, with documents where it cuts chunks."""
    from ragbench.datasets import check_documents
    from ragbench.testsets.loader import load_dataset

    dataset, corpus = (located(parameters.get(name, ""), folder) for name in ("dataset", "corpus"))
    data = load_dataset(dataset, split=parameters.get("split", "test"), corpus=corpus)
    if "chunker" in parameters:
        check_documents(data, "a sweep cuts documents into chunks")
    return data


def located(name: str, folder: Path) -> str:
    """A name as a run in `folder` takes it: the path of what is there, otherwise the name as it is.

    Raises:
        ConfigError: it is only there from where this process works.
    """
    if not name or (folder / expanded(name)).exists():
        return name and str(folder / expanded(name))
    if Path(name).exists():
        there = relative(Path(name).absolute(), folder)
        raise ConfigError(
            f"{name!r} is not in {folder}; paths in a grid are relative to the grid file: {there!r}"
        )
    return name
