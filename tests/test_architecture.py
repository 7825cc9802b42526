"""The house keeps its shape: floors, top level, public names, an import that is instant and silent."""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
import tokenize
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ragbench"

FLOORS = {
    10: ["__init__", "__main__"],
    9: ["cli", "testing"],
    8: ["service"],
    7: ["sweep"],
    6: ["report", "labelling"],
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
    -5: ["files", "types"],
    -6: ["array_types", "errors"],
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


BUDGET = {  # thousands of code tokens of each room; they may only fall
    "(root)": 13.3,
    "cli": 14.4,
    "datasets": 12.9,
    "evaluation": 33.0,
    "generation": 7.9,
    "judges": 5.9,
    "labelling": 8.1,
    "llms": 15.0,
    "metrics": 33.6,
    "report": 16.1,
    "retrieval": 16.0,
    "service": 31.0,  # cases and documents in the database, sessions, the guard, verdicts
    "statistics": 16.1,  # drift by running sums, a search for the pole that converges
    "store": 7.0,
    "sweep": 21.1,  # tables in place of results
    "systems": 20.7,
    "testing": 4.5,
    "testsets": 23.7,  # with interventions and outlines, which rooms above share
}
_NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_tokens(source: str) -> int:
    """What Python's tokenizer yields, without comments, docstrings, line ends and indentation."""
    bodies = [getattr(node, "body", None) for node in ast.walk(ast.parse(source))]
    documented: set[int] = set()
    for body in bodies:
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            documented.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return sum(
        token.type not in _NOT_CODE and token.start[0] not in documented
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
    )


def test_a_text_in_parentheses_is_one_token_and_a_docstring_none() -> None:
    assert code_tokens('def f(x):\n    """Return it."""\n    return "a, b"  # as it is\n') == 8


def test_every_room_keeps_to_its_budget() -> None:
    sizes: dict[str, int] = {}
    for path in SOURCES:
        parts = path.relative_to(PACKAGE).parts
        room = parts[0] if len(parts) > 1 else "(root)"
        sizes[room] = sizes.get(room, 0) + code_tokens(path.read_text(encoding="utf-8"))
    over = {room: size for room, size in sizes.items() if size > 1000 * BUDGET[room]}
    assert not over, "delete before adding, or move a budget with the design"


WALK = """
import sys
from pathlib import Path
import ragbench as rb

root = str(Path(rb.__file__).parent)
data = rb.load_dataset("pydoc")
functions, depths = set(), [0]


def is_ours(code):  # a function with a name, no body of a class, no expression of its own frame
    return code.co_filename.startswith(root) and code.co_flags & 1 and code.co_name[0] != "<"


def count(frame, event, argument):
    code = frame.f_code
    if event != "call" or not is_ours(code):
        return
    depth = 0
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(root):
            return  # an import
        depth += is_ours(frame.f_code)
        frame = frame.f_back
    functions.add((code.co_filename, code.co_qualname))
    depths.append(depth)


sys.setprofile(count)
rb.evaluate(data, "bm25")
sys.setprofile(None)
print(len({file for file, _ in functions}), len(functions), max(depths))
"""


def test_one_evaluation_can_be_read(tmp_path: Path) -> None:
    environment = {**os.environ, "RAGBENCH_CACHE_DIR": str(tmp_path)}
    output = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WALK],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    n_files, n_functions, depth = map(int, output.split())
    assert n_files <= 70
    assert n_functions <= 600
    assert depth <= 15
