"""Notebooks of a sweep: their parameters, their sources, and the removal of a machine's paths."""

import ast
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ragbench.errors import ConfigError, unknown
from ragbench.evaluation import typed
from ragbench.evaluation.spec import parameter_types
from ragbench.files import parse_json, write_durably
from ragbench.hints.similar_names import similar

_TYPES: dict[str, type] = {kind.__name__: kind for kind in (str, int, float, bool, list, dict)}
_INSTALLED = Path(__file__).resolve().parents[1] / "notebooks"  # where the wheel has them
_LISTS = ("criteria", "measures")  # parameters whose value is several names with commas between
# Kernels write the code of a cell to such a file; warnings and tracebacks name it.
_CELL_FILE = re.compile(r"[^\s\"'<>|]*ipykernel_\d+[/\\]\d+\.py")


def packaged(name: str = "") -> Path:
    """Return a notebook or grid that comes with ragbench, whether installed or a checkout; without
    a name, their folder.

    >>> packaged("evaluate.ipynb").is_file(), packaged("quickstart.toml").is_file()
    (True, True)
    """
    folder = _INSTALLED
    if not folder.is_dir():  # in a checkout they are at its top
        folder = _INSTALLED.parents[1] / "notebooks"
    return folder / name


def is_installed(path: Path) -> bool:
    """Return True if a file came with the wheel: it is then no place to work in, and its path is of
    no use to a reader.
    """
    return path.resolve().is_relative_to(_INSTALLED)


def copy_notebooks(folder: Path, *, force: bool = False) -> list[Path]:
    """Copy the notebooks that come with ragbench into a folder, to be opened and changed. Return the
    paths of the copies.

    Raises:
        ConfigError: a file of that name is there with other content, and `force` is False; nothing is
            written then.
    """
    texts = {folder / path.name: path.read_bytes() for path in sorted(packaged().glob("*.ipynb"))}
    for path, text in texts.items():
        is_same = path.is_file() and path.read_bytes() == text
        if path.exists() and not is_same and not force:
            raise ConfigError(
                f"{path} already exists and differs; name another folder, or replace it with "
                "--force"
            )
    for path, text in texts.items():
        write_durably(path, text)
    return list(texts)


@dataclass(frozen=True)
class Notebook:
    """A source notebook: its path, the default and the types of each parameter, its text and the
    digest of its cells.
    """

    path: Path
    defaults: Mapping[str, Any]
    types: Mapping[str, Sequence[type]]
    text: str
    digest: str

    def accept(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return all parameters of the notebook: its defaults, and `values` over them.

        Raises:
            ConfigError: if a name is unknown or a value has the wrong type.
        """
        for name in values:
            if name not in self.defaults:
                what = f"parameter of {self.path.name}"
                near = similar(name, self.defaults)
                raise ConfigError(unknown(what, name, self.defaults, near=near))
        typed_values = {}
        for name, value in values.items():
            types = self.types[name]
            if [*types] == [str]:
                # some options of ragbench may be a list or a table, too; () if this is not an option
                types = parameter_types(name) or types
            typed_values[name] = typed(name, value, types)
        return {**self.defaults, **typed_values}


def read_notebook(path: Path) -> Notebook:
    """Read a notebook and the parameters in its cell tagged `parameters`.

    The cell is read as Python, not line by line: papermill's own inspection drops each line whose
    comment holds "=".

    Raises:
        ConfigError: if there is no such notebook, it is not one, or its parameters are not plain
            values.
    """
    try:
        text = path.read_text(encoding="utf-8")
        digest, sources = digest_of(parse_json(text))
    except FileNotFoundError as exc:
        raise ConfigError(
            f"there is no notebook {path}; name one with `notebook` under [sweep], or put the "
            "grid next to it"
        ) from exc
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise ConfigError(
            f"{path} is not a notebook of format 4: {type(exc).__name__}: {exc}"
        ) from exc
    tagged = [cell for cell in sources if cell.kind == "code" and "parameters" in cell.tags]
    if not tagged:
        raise ConfigError(
            f"{path} has no code cell tagged `parameters`; tag the one that sets them"
        )
    defaults, types = _read_parameters(tagged[0].text, path)
    return Notebook(path, defaults, types, text, digest)


class CellSource(NamedTuple):
    """The part of a notebook's cell that a user writes; `kind` is "code" or "markdown"."""

    kind: str
    text: str
    tags: list[str]


def digest_of(notebook: Mapping[str, Any]) -> tuple[str, list[CellSource]]:
    """Return the SHA-256 of a notebook's cells, and their sources.

    Outputs, counters and kernel names are no part of it: opening a notebook must not outdate its
    results.
    """
    sources = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        sources.append(CellSource(cell["cell_type"], text, cell["metadata"].get("tags", [])))
    return hashlib.sha256(json.dumps(sources).encode()).hexdigest(), sources


def _read_parameters(source: str, path: Path) -> tuple[dict[str, Any], dict[str, list[type]]]:
    """Return name -> default and name -> types, for each name that the parameters cell sets.

    The types are taken from the annotation, else from the default; [] means that any type is accepted.

    Raises:
        ConfigError: the cell is not Python, or a default is not a plain value.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError as exc:
        raise ConfigError(
            f"{path}: line {exc.lineno} of the parameters cell is not Python: {exc.msg}"
        ) from exc
    defaults, types = {}, {}
    for node in tree.body:
        match node:
            case ast.AnnAssign(ast.Name(name), annotation, ast.expr() as value):
                # "list[str] | None" names the types list and None
                type_names = re.sub(r"\[.*\]", "", ast.unparse(annotation))
            case ast.Assign([ast.Name(name)], value):
                type_names = ""
            case _:
                continue
        try:
            defaults[name] = ast.literal_eval(value)
        except ValueError as exc:
            raise ConfigError(
                f"{path}: the default of {name} is `{ast.unparse(value)}` (line {node.lineno} of "
                "the parameters cell); expected a plain value, because it is part of the "
                "configuration"
            ) from exc
        type_names = type_names or type(defaults[name]).__name__
        types[name] = [_TYPES[word] for word in re.findall(r"\w+", type_names) if word in _TYPES]
    return defaults, types


def in_place(source: str, cwd: Path, folder: Path) -> str:
    """Return the cell of parameters that papermill has put into a notebook, with paths relative to
    `folder`, where the notebook is, instead of to `cwd`, where it ran.

    So an executed notebook can be run again in its folder. A text is a path if something with this name
    exists in `cwd`, or if it is the value of `results_dir`. The parameters `criteria` and `measures`
    hold several names between commas, each of which may be a path. Other texts are unchanged.

    >>> in_place('results_dir = "../results/mine/bm25"', Path("/home/me/notebooks"), Path("/home/me/results/mine"))
    'results_dir = "bm25"'
    """
    lines = source.split("\n")
    for node in ast.parse(source).body:
        match node:
            case ast.Assign([target, *_], ast.Constant(str(value))):
                name = ast.unparse(target)
            case _:  # not the assignment of a text
                continue
        moved_parts = [_with_moved_path(part, name, cwd, folder) for part in parts_of(value, name)]
        moved = ",".join(moved_parts)
        is_on_one_line = node.lineno == node.end_lineno
        if is_on_one_line and moved != value:
            lines[node.lineno - 1] = f"{name} = {json.dumps(moved, ensure_ascii=False)}"
    return "\n".join(lines)


def _with_moved_path(value: str, name: str, cwd: Path, folder: Path) -> str:
    """Return a text with the path that it holds from `folder` instead of from `cwd`."""
    kind, colon, path = value.strip().rpartition(":")  # as in "dense:models/mine"
    is_relative = bool(path) and not Path(path).is_absolute()
    if is_relative and (name == "results_dir" or is_path(path, name, cwd)):
        return kind + colon + Path(os.path.relpath(cwd / path, folder)).as_posix()
    return value


def parts_of(value: str, name: str) -> list[str]:
    """Return the names in the value of a parameter, each of which may be a path.

    >>> parts_of("correctness, mine.toml", "criteria"), parts_of("a,b.yaml", "dataset")
    (['correctness', ' mine.toml'], ['a,b.yaml'])
    """
    return value.split(",") if name in _LISTS else [value]


def is_path(value: str, name: str, cwd: Path) -> bool:
    """Return True if the parameter `name` names something in `cwd`."""
    return (cwd / value).exists() and (
        "/" in value or "." in value or name in ("dataset", "corpus")
    )


def note_on_top(notebook: dict[str, Any], text: str, tag: str) -> None:
    """Put a paragraph on top of a notebook, in a cell with a tag, in place of one that has it."""
    cells = [cell for cell in notebook["cells"] if tag not in cell["metadata"].get("tags", [])]
    note = {"cell_type": "markdown", "metadata": {"tags": [tag]}, "source": text}
    cells_have_ids = any("id" in cell for cell in cells)
    if cells_have_ids:  # since format 4.5; they must not have any before
        note["id"] = tag
    notebook["cells"] = [note, *cells]


def notebook_text(notebook: Mapping[str, Any]) -> str:
    """Return the text of a notebook's file."""
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def without_machine(
    notebook: dict[str, Any], renamed: Mapping[str, str], folders: Mapping[str, str]
) -> dict[str, Any]:
    """Return an executed notebook (as JSON) in which nothing names this machine, or the folder in which it
    was run.

    Args:
        notebook: the executed notebook.
        renamed: text -> its replacement, everywhere.
        folders: absolute folders and what replaces them in outputs and metadata.
    """
    without_folders = _folder_shortener(folders)

    def clean_text(text: str, *, is_output: bool) -> str:
        for old, new in renamed.items():
            text = text.replace(old, new)
        return without_folders(_CELL_FILE.sub("<cell>", text)) if is_output else text

    def clean(value: Any, *, is_output: bool) -> Any:
        """Return a part of the notebook with texts replaced; folders only in outputs and metadata."""
        if isinstance(value, str):
            return clean_text(value, is_output=is_output)
        if isinstance(value, list):
            return [clean(part, is_output=is_output) for part in value]
        if isinstance(value, dict):
            cleaned_parts = {}
            for key, part in value.items():
                is_image = key.startswith("image/")  # long, without paths, and must not change
                is_inside_output = is_output or key in {"outputs", "metadata"}
                cleaned_parts[key] = part if is_image else clean(part, is_output=is_inside_output)
            return cleaned_parts
        return value

    cleaned: dict[str, Any] = clean(notebook, is_output=False)
    return cleaned


def _folder_shortener(folders: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that replaces absolute folders in a text: the given ones (folder -> its
    replacement), the user's home, Python's folder and ragbench's.
    """
    checkout = str(Path(__file__).parents[2])  # ragbench's own warnings name it
    all_folders = {str(Path.home()): "~", checkout: "<ragbench>", sys.prefix: "<python>", **folders}
    short_names = {folder.rstrip("/\\"): short for folder, short in all_folders.items()}
    longest_first = sorted(filter(None, short_names), key=len, reverse=True)
    # Only whole folder names: /root must not be cut out of /rootless or https://a.example/root.
    # In tracebacks a colour code, which ends in a letter, precedes the path.
    pattern = re.compile(
        rf"(\x1b\[[\d;]*m|(?<![\w.~:/\\-]))({'|'.join(map(re.escape, longest_first))})(?=[/\\])"
    )

    def shorten(match: re.Match[str]) -> str:
        before, folder = match.groups()
        return f"{before}{short_names[folder]}"

    return lambda text: pattern.sub(shorten, text)
