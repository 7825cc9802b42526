"""A grid file: its sections, how axes become configurations, the baseline, the folder that paths
are relative to, and from which sources a result is made, so that other ones outdate it.
"""

import fnmatch
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ragbench.errors import ConfigError, DataError, nearest, unknown
from ragbench.evaluation import WHERE, check_parameters, config_name, configuration
from ragbench.evaluation.identity import criteria_digest
from ragbench.evaluation.parameters import OMITTED, assignments
from ragbench.evaluation.spec import REQUESTS, spec_of
from ragbench.extension import searched
from ragbench.files import expanded, read_toml, toml_line, toml_text
from ragbench.sweep.job import relative
from ragbench.sweep.notebooks import Notebook, is_installed, packaged, read_notebook
from ragbench.systems.named_systems import RECORDED_SUFFIXES, system_digest
from ragbench.testsets.forms import is_testset
from ragbench.types import Dataset, DatasetSource

_Table = dict[str, Any]

NEEDED = ("dataset", "retriever", "chunker", "llm")
"""Parameters with which a notebook is taken to work as evaluate.ipynb does."""


class _Sweep(BaseModel):
    """The section [sweep]."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(
        default="",
        pattern=r"^[^./\\][^/\\]*$",
        description="The folder below results/; the name of the grid's file unless given.",
    )
    notebook: str = Field(
        default="", description="What each configuration runs; evaluate.ipynb unless given."
    )
    compare: str = Field(
        default="", description="What compares their results; compare.ipynb unless given."
    )
    baseline: _Table = Field(
        default={},
        description="The parameters of the configuration that the others are compared with.",
    )
    run_timeout: float = Field(
        default=3600.0,
        ge=0,
        allow_inf_nan=False,
        strict=True,
        description="Seconds after which a run is stopped; 0 means never.",
    )


class GridFile(BaseModel):
    """The sections of a grid file."""

    model_config = ConfigDict(extra="forbid")
    sweep: _Sweep = Field(default=_Sweep(), description="The sweep itself: see below.")
    fixed: _Table = Field(default={}, description="Parameters that every configuration has.")
    axes: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(
        default={},
        description="Lists of values: every combination of them is a configuration. A value that is "
        "a table sets several parameters together.",
    )
    exclude: list[_Table] = Field(
        default=[], description="Combinations that are not run: those with all of these values."
    )
    run: list[_Table] = Field(
        default=[], description="Further configurations, each with its own parameters."
    )


_EXPECTED = {
    "axes": "expected a list of values; a single one goes under [fixed]",
    "exclude": "expected tables, each under [[exclude]]",
    "run": "expected tables, each under [[run]]",
    "name": "expected the plain name of a folder",
}


@dataclass(frozen=True)
class Grid:
    """A grid, checked: `runs` is configuration name -> all parameters of the notebook, in the order
    of the file. `requests` is configuration name -> how its requests are sent, which is not part of
    the configuration.
    """

    path: Path
    name: str
    notebook: Notebook
    compare: Notebook | None
    runs: Mapping[str, _Table]
    requests: Mapping[str, _Table]
    baseline: str
    run_timeout: float
    notes: Sequence[str]


def read_grid(source: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> Grid:
    """Read a grid file, or its tables as a mapping, and check everything that can be checked
    without running.

    Args:
        source: the path of the file, or its tables.
        overrides: texts NAME=VALUE. Each sets a parameter in every configuration, in place of its
            values in the file; paths are relative to the folder in which this process works.

    Raises:
        ConfigError: the grid is invalid. The message names the file, the entry and the expected value.
    """
    hint = (
        "`ragbench init --docs DOCS` writes one for your documents, and `ragbench sweep "
        "pydoc` runs the built-in example"
    )
    if isinstance(source, Mapping):
        # as of a file in the folder in which this process works: its stem names the sweep
        path = Path("sweep")
        table = dict(source)
    else:
        path = _grid_path(Path(source))
        table = read_toml(path, hint, missing=f"there is no grid file {path}; {hint}")
    try:
        with searched(_working_folder(path)):  # modules of the user, as the runs will find them
            return _grid_of_file(path, _validated(path, table), overrides)
    except ConfigError as exc:
        names_file = str(path) in str(exc)
        if names_file:
            raise
        raise ConfigError(f"{path}: {exc}") from exc


def _grid_path(path: Path) -> Path:
    """Return the path of the grid file that a user names.

    For a folder it is the file grid.toml in it; for a bare name such as "quickstart", if no such file
    exists, a grid that comes with ragbench; else the path as it is.
    """
    if path.is_dir():
        return path / "grid.toml"
    built_in = packaged(f"{path}.toml")
    is_bare_name = path.parent == Path()
    if is_bare_name and not path.exists() and built_in.is_file():
        return built_in
    return path


def _validated(path: Path, table: _Table) -> GridFile:
    """Check the tables of a grid with pydantic, and return them as its sections.

    Args:
        path: the grid file, for messages; it does not exist if the tables are not from a file.

    Raises:
        ConfigError: a table is invalid. The message states the first problem with its key, and its line
            in the file.
    """
    try:
        return GridFile.model_validate(table)
    except ValidationError as exc:
        error = exc.errors(include_url=False)[0]
        keys = error["loc"]
        if error["type"] == "extra_forbidden":
            problem = _unknown_key(keys, error["input"], is_file=path.is_file())
        else:
            # pydantic's message without its end, which names classes
            message = error["msg"].partition(" or instance")[0]
            expected = _EXPECTED.get(str(keys[0])) or _EXPECTED.get(str(keys[-1])) or message
            problem = f"{'.'.join(map(str, keys))} is {error['input']!r}: {expected}"
        if path.is_file():
            line = toml_line(path.read_text(encoding="utf-8-sig"), keys)
            problem = f"{path}, line {line}: {problem}"
        raise ConfigError(problem) from exc


def _unknown_key(keys: Sequence[str | int], value: Any, *, is_file: bool) -> str:
    """Return the message for a key that a grid may not have.

    Args:
        keys: (key,) at the top of the grid, or ("sweep", key) in its section [sweep].
        value: that the grid gives to the key.
        is_file: False if the grid is a mapping.
    """
    is_at_top = len(keys) == 1
    names = GridFile.model_fields if is_at_top else _Sweep.model_fields
    problem = unknown("key", keys[-1], names)
    is_misspelt_section = is_at_top and nearest(keys[0], names)
    if is_at_top and not is_misspelt_section:  # probably a parameter that lacks its section
        section = "axes" if isinstance(value, list) else "fixed"
        problem += f"; a parameter of the configurations is in [{section}]"
        if not is_file:
            problem += f", as in {{{section!r}: {{{keys[0]!r}: {value!r}}}}}"
    return problem


def _grid_of_file(path: Path, file: GridFile, overrides: Sequence[str]) -> Grid:
    """Return the grid of a file: its notebooks read, its configurations named and checked.

    The notebook is the one that the file names, or evaluate.ipynb next to it, or ragbench's own.

    Raises:
        ConfigError: a notebook, a parameter or a combination of them is invalid.
    """
    folder = path.resolve().parent
    notes: list[str] = []
    notebook_path = folder / (file.sweep.notebook or "evaluate.ipynb")
    if not file.sweep.notebook and not notebook_path.is_file():
        notebook_path = packaged("evaluate.ipynb")
    notebook = read_notebook(notebook_path)
    if "results_dir" not in notebook.defaults:
        raise ConfigError(
            f"{notebook.path} has no parameter results_dir; a sweep sets it to the folder for "
            "its result"
        )
    # paths in parameters are relative to where the runs work: not in `folder` for a grid of ragbench
    folder_of_runs = _working_folder(path)
    overriding = assignments(overrides, notebook.types, "parameter")
    file = _overridden(file, _relative_to_runs(overriding, folder_of_runs))
    combinations = [notebook.accept(values) for values in _combinations(file, notebook, notes)]
    named = _name_combinations(combinations, notes, folder_of_runs)
    return Grid(
        path=path,
        name=file.sweep.name or path.stem,
        notebook=notebook,
        compare=_compare_notebook(file.sweep.compare, notebook, folder, notes),
        runs=named.runs,
        requests=named.requests,
        baseline=_baseline(file.sweep.baseline, named.combinations, notebook),
        run_timeout=file.sweep.run_timeout,
        notes=tuple(notes),
    )


def _relative_to_runs(values: _Table, folder: Path) -> _Table:
    """Return parameters from a command line for runs that work in `folder`: paths of existing files and
    folders, which are relative to this process's working folder, become relative to `folder`.
    """
    adapted = dict(values)
    for name in ("dataset", "corpus", "system", "criteria"):
        value = values.get(name)
        if not isinstance(value, str):
            continue
        parts = value.split(",") if name == "criteria" else [value]
        adapted[name] = ",".join(_as_path_of_runs(name, part.strip(), folder) for part in parts)
    return adapted


def _as_path_of_runs(name: str, text: str, folder: Path) -> str:
    """Return the value of a parameter as runs in `folder` need it: a path from there, if the text names an
    existing file or folder seen from this process, else the text.
    """
    # without such an ending it is a name: a system such as bm25, or a criterion
    may_be_path = name in ("dataset", "corpus") or text.endswith((".toml", *RECORDED_SUFFIXES))
    if not text or not may_be_path:
        return text
    path_here = expanded(text).absolute()
    path_in_folder = (folder / expanded(text)).absolute()
    if path_here.exists() and path_here != path_in_folder:
        return relative(path_here, folder)
    return text


def _overridden(file: GridFile, values: _Table) -> GridFile:
    """Return the sections of a grid with these parameters in every configuration: they are put under
    [fixed], and taken out of every other section that sets parameters. [[exclude]], which sets none,
    stays: it applies to the new values.

    Combinations that differed in these parameters alone are equal then; `_name_combinations` merges them.
    """
    if not values:
        return file

    def without_them(table: _Table) -> _Table:
        return {name: value for name, value in table.items() if name not in values}

    axes: dict[str, list[Any]] = {}
    for name, axis in without_them(file.axes).items():
        # the values of an axis may be tables of several parameters
        axes[name] = [without_them(value) if isinstance(value, dict) else value for value in axis]
    baseline = without_them(file.sweep.baseline)
    return file.model_copy(
        update={
            "fixed": {**without_them(file.fixed), **values},
            "axes": axes,
            "run": [without_them(entry) for entry in file.run],
            "sweep": file.sweep.model_copy(update={"baseline": baseline}),
        }
    )


def _combinations(file: GridFile, notebook: Notebook, notes: list[str]) -> list[_Table]:
    """Return every configuration of a grid file as parameter -> value, without the notebook's defaults.

    First come the combinations of the values of all axes, without those that `exclude` fits, then the
    explicit [[run]] entries. A note is added for each `exclude` that fits no combination.
    """
    excluded = [_with_types("exclude", entry, notebook) for entry in file.exclude]
    axes = {name: _axis_entries(name, values, notebook) for name, values in file.axes.items()}
    _check_given_once(file.fixed, axes)
    fixed = _with_types("[fixed]", file.fixed, notebook)
    # with [[run]] entries alone, [fixed] is not a configuration by itself
    crossed = _cross_product(fixed, axes.values()) if axes or not file.run else []
    combinations = _without_excluded(crossed, excluded, notebook.defaults, notes)
    for entry in file.run:
        combinations.append({**fixed, **_with_types("[[run]]", entry, notebook)})
    # of an empty file the only combination has no parameter
    is_file_empty = not fixed and not axes and not file.run
    if is_file_empty or not combinations:
        if excluded:
            raise ConfigError("the grid is empty: every combination is excluded")
        raise ConfigError("the grid is empty: give [axes] with lists of values, or [[run]] entries")
    return combinations


def _cross_product(fixed: _Table, axes: Iterable[list[_Table]]) -> list[_Table]:
    """Return a table for every choice of one entry from each axis: the fixed parameters and the
    parameters of the chosen entries.
    """
    crossed = []
    for entries in itertools.product(*axes):
        values = dict(fixed)
        for entry in entries:
            values.update(entry)
        crossed.append(values)
    return crossed


def _without_excluded(
    crossed: Iterable[_Table],
    excluded: Sequence[_Table],
    defaults: Mapping[str, Any],
    notes: list[str],
) -> list[_Table]:
    """Return the combinations that match no entry of `exclude`. A note is added for each entry that
    matches no combination.

    Args:
        crossed: the combinations, as parameter -> value.
        excluded: the entries of `exclude`, as parameter -> value.
        defaults: the values of parameters that a combination leaves out.
        notes: a list to which notes are added.
    """
    kept = []
    used_entries: set[int] = set()  # the numbers of the entries that exclude a combination
    for values in crossed:
        parameters = {**defaults, **values}
        matching = [i for i, entry in enumerate(excluded) if _matches(parameters, entry)]
        used_entries.update(matching)
        if not matching:
            kept.append(values)
    for i, entry in enumerate(excluded):
        if i not in used_entries:
            notes.append(f"exclude {entry} fits no combination")
    return kept


def _check_given_once(fixed: _Table, axes: Mapping[str, Sequence[_Table]]) -> None:
    """Refuse a parameter that [fixed] and an axis, or two axes, give."""
    sections: dict[str, Sequence[_Table]] = {"[fixed]": [fixed]}
    for name, entries in axes.items():
        sections[f"axis {name}"] = entries
    section_of: dict[str, str] = {}
    for section, entries in sections.items():
        names = {name: None for entry in entries for name in entry}  # each once, in their order
        for name in names:
            if name in section_of:
                raise ConfigError(
                    f"{name} is in {section_of[name]} and in {section}; give it in one place"
                )
            section_of[name] = section


def _axis_entries(name: str, values: Sequence[Any], notebook: Notebook) -> list[_Table]:
    """Return each value of an axis as a table of parameters.

    A value is such a table, or the value of the parameter that the axis is named after.

    Raises:
        ConfigError: the axis has the name of a section, mixes both kinds, or has a wrong value.
    """
    if name in GridFile.model_fields:
        raise ConfigError(
            f"[axes] holds {name!r}, which is a section; write [[{name}]], or put it above [axes]"
        )
    n_tables = sum(isinstance(value, dict) for value in values)
    if n_tables not in (0, len(values)):
        raise ConfigError(f"axis {name} mixes tables and single values; expected one kind")
    if n_tables:
        return [_with_types(f"axis {name}", table, notebook) for table in values]
    return [_with_types("[axes]", {name: value}, notebook) for value in values]


def _with_types(where: str, values: _Table, notebook: Notebook) -> _Table:
    """Return parameters of a section of the grid, converted to the types that the notebook declares.

    Args:
        where: the section, such as "[axes]", for messages.
        values: parameter -> value.
        notebook: that the sweep runs.

    Raises:
        ConfigError: a parameter is unknown, has a wrong type, or is one that the sweep sets itself.
    """
    named = [name for name in WHERE if name in values]
    if named:
        raise ConfigError(
            f"{where} sets {named[0]}, which the sweep sets itself; use --output to choose where "
            "results go"
        )
    try:
        accepted = notebook.accept(values)
    except ConfigError as exc:
        raise ConfigError(f"{where}: {exc}") from exc
    return {name: accepted[name] for name in values}  # without the defaults of the others


def _matches(parameters: Mapping[str, Any], part: Mapping[str, Any]) -> bool:
    """Return True if a configuration has these values; a parameter that it omits has "" and 0."""
    for name, value in part.items():
        is_left_out = name in OMITTED and name not in parameters and value in ("", 0)
        if not is_left_out and parameters.get(name) != value:
            return False
    return True


class _NamedCombinations(NamedTuple):
    """The configurations of a grid by name: their parameters (`runs`), and how their `requests` are
    sent; and the name and the parameters (with the system) of every combination.
    """

    runs: dict[str, _Table]
    requests: dict[str, _Table]
    combinations: list[tuple[str, _Table]]


def _name_combinations(
    combinations: Iterable[_Table], notes: list[str], folder: Path
) -> _NamedCombinations:
    """Return the combinations of a grid by the names of their configurations.

    Combinations with the same parameters are one configuration, and a note on this is added to
    `notes`. Paths in parameters are relative to `folder`.

    Raises:
        ConfigError: a configuration is invalid, or they differ in their data.
    """
    named = _NamedCombinations({}, {}, [])
    for combination in combinations:
        # the parameters that change results, in one spelling: system="bm25" becomes retriever="bm25"
        parameters = configuration(combination)
        name = config_name(parameters)
        # the baseline can be chosen by `system`, too
        with_system = {**parameters, "system": combination.get("system", "")}
        named.combinations.append((name, with_system))
        if name in named.runs:
            notes.append(f"{name} is in the grid more than once; it is run once")
            continue
        try:
            check_parameters(parameters, folder=folder)
        except (ConfigError, DataError) as exc:
            raise ConfigError(f"configuration {name}: {exc}") from exc
        named.runs[name] = parameters
        # such as `timeout_s`, which changes no result
        named.requests[name] = {key: combination[key] for key in REQUESTS if key in combination}
    _check_same_data(named.runs.values())
    return named


def _check_same_data(runs: Iterable[_Table]) -> None:
    """Refuse configurations on different data: their results are compared question by question."""
    runs = list(runs)
    for name in ("dataset", "corpus", "split", "limit"):
        values = sorted({str(run[name]) for run in runs if name in run})
        if len(values) > 1:
            raise ConfigError(
                f"{name} takes {len(values)} values ({', '.join(values)}); configurations are "
                "compared question by question, so give each its own grid file"
            )


def _baseline(part: _Table, combinations: Sequence[tuple[str, _Table]], notebook: Notebook) -> str:
    """Return the name of the one configuration that has the parameters `part`; "" if `part` is empty.

    Raises:
        ConfigError: they fit none, or several.
    """
    if not part:
        return ""
    values = _with_types("[sweep] baseline", part, notebook)
    fitting: list[str] = []
    for name, parameters in combinations:
        if name not in fitting and _matches(parameters, values):
            fitting.append(name)
    if len(fitting) != 1:
        raise ConfigError(
            f"[sweep] baseline {part} fits {len(fitting)} configurations "
            f"({', '.join(fitting[:3]) or 'none'}); expected parameters that fit exactly one"
            f"{_missing_in_baseline(values, fitting, dict(combinations))}"
        )
    return fitting[0]


def _missing_in_baseline(
    values: _Table, fitting: Sequence[str], parameters_of: Mapping[str, _Table]
) -> str:
    """Return the parameters to add to a baseline so that it fits the first configuration alone, as the end
    of a sentence; "" if it fits none.

    Args:
        values: the parameters of the baseline.
        fitting: the names of the configurations that it fits.
        parameters_of: name -> parameters of each configuration.
    """
    if not fitting:
        return ""
    first = parameters_of[fitting[0]]
    differing = []
    for name, value in first.items():
        is_same_in_all = all(parameters_of[other].get(name) == value for other in fitting)
        if name not in values and not is_same_in_all:
            differing.append(f"{name} = {toml_text(value)}")
    return f"; add, for example, {', '.join(differing)}" if differing else ""


def _compare_notebook(
    name: str, notebook: Notebook, folder: Path, notes: list[str]
) -> Notebook | None:
    """Return the comparison notebook: the named one, or ("") compare.ipynb next to the grid file, in
    `folder`, or next to the notebook of the runs. None, with a note, if there is none.

    Raises:
        ConfigError: it cannot be read, or lacks a parameter that a sweep sets.
    """
    if name:
        paths = [folder / name]
    else:
        candidates = (folder / "compare.ipynb", notebook.path.parent / "compare.ipynb")
        paths = [path for path in candidates if path.is_file()]
    if not paths:
        notes.append(
            "there is no compare.ipynb next to the grid file, so no comparison notebook is made"
        )
        return None
    compare = read_notebook(paths[0])
    for parameter in ("sweep_dir", "baseline"):
        if parameter not in compare.defaults:
            raise ConfigError(
                f"{compare.path} has no parameter {parameter}; a sweep sets it for the comparison"
            )
    return compare


def chosen(grid: Grid, only: str) -> list[str]:
    """Return the configurations that `only` names: a pattern such as "bm25*", or a number in the
    order of the grid, from 0.

    Raises:
        ConfigError: there are none.
    """
    names = list(grid.runs)
    if only in names:
        return [only]
    if only.isdecimal():
        number = int(only)
        named = names[number : number + 1]  # [] if there are fewer
    else:
        named = fnmatch.filter(names, only or "*")
    if not named:
        raise ConfigError(
            f"{unknown('configuration', only, names)}; a pattern or a number below {len(names)} "
            "is accepted, too"
        )
    return named


def working_folder(grid: Grid) -> Path:
    """Return the grid file's folder: the runs work there, so that paths in the grid mean the same
    wherever it is started.

    For a grid of the installed package, which may be read-only, it is the folder in which this
    process works.
    """
    return _working_folder(grid.path)


def _working_folder(path: Path) -> Path:
    return Path.cwd() if is_installed(path) else path.resolve().parent


def sources_of(grid: Grid) -> dict[str, dict[str, str]]:
    """Return configuration -> what its result is made from besides its parameters, as name -> value. A
    result made from other inputs is outdated.

    The inputs are the notebook and its SHA-256, and the dataset's fingerprint ("" without a dataset);
    for a named system its SHA-256 (`system_digest`); for criteria that the judge or their own functions
    decide, if any, their SHA-256 (`criteria_digest`). The dataset is loaded once here, so that its
    errors come before anything is spent.
    """
    folder = working_folder(grid)
    first = next(iter(grid.runs.values()))  # all have the same data
    fingerprint = load_named(first, folder).fingerprint if "dataset" in first else ""
    sources = {}
    for name, parameters in grid.runs.items():
        source = {
            "notebook": grid.notebook.path.name,
            "notebook_sha256": grid.notebook.digest,
            "dataset_fingerprint": fingerprint,
        }
        if parameters.get("system"):
            source["system_sha256"] = system_digest(str(parameters["system"]), folder)
        if digest := criteria_digest(spec_of(parameters), folder):
            source["criteria_sha256"] = digest
        sources[name] = source
    return sources


def input_files(grid: Grid) -> list[Path]:
    """Return the files of a sweep that are small enough to be copied at its start: the grid, the
    test set without documents, and the files that describe systems or criteria.

    Notebooks are not among them: they are read once anyway, and saving an open one changes nothing.
    """
    folder = working_folder(grid)
    # names of systems and criteria that are not files are left out at the end
    systems = [str(run.get("system") or "") for run in grid.runs.values()]
    criteria: list[str] = []
    for run in grid.runs.values():
        criteria += [text for text in spec_of(run).criteria if isinstance(text, str)]
    paths = [grid.path, *(folder / expanded(name) for name in [*systems, *criteria])]
    dataset = next(iter(grid.runs.values())).get("dataset")
    testset = folder / expanded(str(dataset or ""))
    if dataset and testset.exists() and is_testset(testset):
        inside = sorted(testset.iterdir()) if testset.is_dir() else [testset]
        paths += [path for path in inside if path.name != "corpus.jsonl"]
    return [path for path in dict.fromkeys(paths) if path.is_file()]


def dataset_source(grid: Grid) -> DatasetSource | None:
    """Return from where the runs of a grid load their dataset; None if they load none."""
    folder = working_folder(grid)
    first = next(iter(grid.runs.values()))  # all have the same data
    if "dataset" not in first:
        return None
    dataset = resolved_name(first["dataset"], folder)
    corpus = resolved_name(first.get("corpus", ""), folder)
    return DatasetSource(dataset, first.get("split", "test"), corpus)


def load_named(parameters: Mapping[str, Any], folder: Path) -> Dataset:
    """Load the dataset that the parameters of a configuration name; paths are relative to `folder`.

    Raises:
        ConfigError, DataError: it cannot be loaded, or it has no documents though the configuration
            cuts documents into chunks.
    """
    from ragbench.datasets import check_documents
    from ragbench.testsets.loader import load_dataset

    dataset = resolved_name(parameters.get("dataset", ""), folder)
    corpus = resolved_name(parameters.get("corpus", ""), folder)
    with searched(folder):
        data = load_dataset(dataset, split=parameters.get("split", "test"), corpus=corpus)
    if "chunker" in parameters:
        check_documents(data, "a sweep cuts documents into chunks")
    return data


def resolved_name(name: str, folder: Path) -> str:
    """Return the path of the file or folder in `folder` that a parameter names; if there is none, the text
    is a name of another kind, such as "pydoc" or "", and is returned unchanged.

    Raises:
        ConfigError: there is no such file in `folder`, but there is one in the folder in which this
            process works.
    """
    if not name:
        return ""
    path_in_folder = folder / expanded(name)
    if path_in_folder.exists():
        return str(path_in_folder)
    if Path(name).exists():
        path = relative(Path(name).absolute(), folder)
        raise ConfigError(
            f"{name!r} is not in {folder}; paths in a grid are relative to the grid file: {path!r}"
        )
    return name
