"""The house keeps its shape: floors, top level, public names, an import that is instant and silent."""

from __future__ import annotations

import ast
import subprocess
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ragbench"

FLOORS = {
    10: ["__init__", "__main__"],
    9: ["cli", "testing"],
    8: ["service", "studies"],
    7: ["sweep"],
    6: ["report", "labelling", "foreign"],
    5: ["evaluation"],
    4: ["systems", "statistics"],
    3: ["metrics"],
    2: ["generation", "judges"],
    1: ["retrieval"],
    0: ["testsets", "llms"],
    -1: ["datasets", "text"],
    -2: ["store"],
    -3: ["network", "progress", "registry"],
    -4: ["extension", "language"],
    -5: ["files", "lazy", "threads", "types"],
    -6: ["array_types", "folding", "groups", "hints", "plain_records"],
    -7: ["errors"],
}
FLOOR_OF = {module: floor for floor, modules in FLOORS.items() for module in modules}


def stage_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_stages(path: Path) -> set[str]:
    """The stages of ragbench that a file imports, wherever in the file."""
    stages = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports inside the package are absolute"
            module = node.module or ""
            names = (
                [f"{module}.{alias.name}" for alias in node.names]
                if module == "ragbench"
                else [module]
            )
        else:
            continue
        for name in names:
            if name == "ragbench" or name.startswith("ragbench."):
                stages.add(name.partition(".")[2].split(".")[0])
    return stages


SOURCES = sorted(PACKAGE.rglob("*.py"))


def test_top_level_is_exactly_this() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0 or not listed.stdout:
        pytest.skip("not a git checkout: the top level cannot be distinguished from a user's files")
    top = {line.split("/")[0] for line in listed.stdout.splitlines()}
    expected = {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "ragbench",
        "notebooks",
        "results",
        "tests",
    }
    assert {name for name in top if not name.startswith(".")} <= expected


def test_imports_go_down_only() -> None:
    wrong = []
    for path in SOURCES:
        stage = stage_of(path)
        assert stage in FLOOR_OF, f"{stage} has no floor: give it one in DESIGN and here"
        if stage == "__init__":
            continue  # the root names what is public, from every floor; no file imports it (below)
        for other in imported_stages(path) - {stage}:
            if not other:
                wrong.append(f"{path.relative_to(PACKAGE)} imports the package root")
            elif FLOOR_OF[other] >= FLOOR_OF[stage]:
                wrong.append(
                    f"{path.relative_to(PACKAGE)} (floor {FLOOR_OF[stage]}) imports {other} "
                    f"(floor {FLOOR_OF[other]})"
                )
    assert not wrong, "\n".join(wrong)


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path, modules: set[str]) -> set[str]:
    """The modules of ragbench that a file imports, also those that only annotations need."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                found.add(submodule if submodule in modules else str(node.module))
    return (found & modules) - {module_of(path)}


def test_no_file_needs_a_file_that_needs_it() -> None:
    modules = {module_of(path) for path in SOURCES}
    graph = {module_of(path): imported_modules(path, modules) for path in SOURCES}
    assert tuple(
        TopologicalSorter(graph).static_order()
    )  # raises CycleError, which names the circle


def test_no_grab_bags_and_no_base_classes() -> None:
    for path in SOURCES:
        assert path.stem not in {"utils", "helpers", "common", "base", "misc"}, path
        assert "ABC" not in path.read_text(encoding="utf-8").split(), (
            f"{path}: protocols, not base classes"
        )


def test_only_sweep_knows_papermill() -> None:
    for path in SOURCES:
        if stage_of(path) != "sweep":
            assert "papermill" not in {
                alias.name.split(".")[0]
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                if isinstance(node, ast.Import)
                for alias in node.names
            }


def test_only_files_writes_atomically_and_locks() -> None:
    own = (
        "fsync",
        "filelock",
        "FileLock",
        "fcntl",
        "os.replace",
        "os.rename",
        "mkstemp",
        "NamedTemporaryFile",
    )
    for path in SOURCES:
        if path.relative_to(PACKAGE).as_posix() != "files.py":
            text = path.read_text(encoding="utf-8")
            assert not [word for word in own if word in text], f"{path}: use ragbench.files"


@cache
def imported_files(path: Path) -> tuple[set[Path], set[str]]:
    """The files of ragbench that a file imports at run time, and the private names among them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    imported, private, modules = set(), set(), {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or id(node) in for_types:
            continue
        for alias in node.names:
            full = _defined_in(f"{node.module}.{alias.name}")
            if full in FILES:
                modules[alias.asname or alias.name] = full
                imported.add(FILES[full])
            elif (module := full.rpartition(".")[0]) in FILES:
                imported.add(FILES[module])
                if alias.name.startswith("_"):
                    private.add(full)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = modules.get(node.value.id, "")
            if name and node.attr.startswith("_") and not node.attr.startswith("__"):
                private.add(f"{name}.{node.attr}")
    return imported - {path}, private


FILES = {
    ".".join(("ragbench", *path.relative_to(PACKAGE).with_suffix("").parts)): path
    for path in SOURCES
    if path.name != "__init__.py"
}
EXPORTS = {
    f"{package}.{alias.name}": f"{package}.{node.module}.{alias.name}"
    for stub in PACKAGE.rglob("__init__.pyi")
    if (package := ".".join(("ragbench", *stub.parent.relative_to(PACKAGE).parts)))
    for node in ast.walk(ast.parse(stub.read_text(encoding="utf-8")))
    if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module
    for alias in node.names
}


def _defined_in(name: str) -> str:
    """The name under the file that defines it, whichever package exports it."""
    while name not in FILES and name in EXPORTS:
        name = EXPORTS[name]
    return name


def test_no_file_touches_the_private_names_of_another() -> None:
    touched = {str(path): private for path in SOURCES if (private := imported_files(path)[1])}
    assert not touched


def test_files_import_each_other_in_no_circle() -> None:
    graph = {path: imported_files(path)[0] for path in FILES.values()}
    while leaves := {path for path, imports in graph.items() if not imports & graph.keys()}:
        graph = {path: imports for path, imports in graph.items() if path not in leaves}
    # what is left imports something that is left; what nothing left imports is not in a circle
    while roots := graph.keys() - set().union(*graph.values()):
        graph = {path: imports for path, imports in graph.items() if path not in roots}
    assert not graph, sorted(path.relative_to(PACKAGE).as_posix() for path in graph)
