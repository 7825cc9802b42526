"""The public surface: what the stub, the runtime and the README name is the same, typed, and light
to load.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import ragbench as rb
from ragbench import testing
from tests.committed import committed_notebooks, guide_pages

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ragbench"
SUBMODULES = {name for name in rb.__all__ if isinstance(getattr(rb, name), ModuleType)}


def stub_names(stub: Path) -> list[str]:
    """The names that a stub imports, in any order, and those of its `__all__`: they are the same."""
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    imported = [
        alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    [listed] = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    assert sorted(imported) == sorted(listed), stub
    return list(listed)


@pytest.mark.parametrize("stub", sorted(PACKAGE.rglob("__init__.pyi")), ids=lambda p: p.parent.name)
def test_a_stub_names_what_is_there(stub: Path) -> None:
    parts = stub.parent.relative_to(ROOT).parts
    module = __import__(".".join(parts), fromlist=["x"])
    names = stub_names(stub)
    assert sorted(module.__all__) == sorted(names)
    for name in names:
        getattr(module, name)


def test_the_root_is_small_and_documented() -> None:
    names = set(rb.__all__) - SUBMODULES
    assert len(names) <= 53
    for name in names:
        assert (getattr(rb, name).__doc__ or "").strip(), f"{name} has no docstring"
    assert set(rb.__all__) <= set(dir(rb))
    assert {
        "metrics",
        "statistics",
        "plots",
        "judges",
        "testsets",
        "labelling",
        "systems",
        "llms",
        "report",
    } <= SUBMODULES


@pytest.mark.parametrize("name", sorted(SUBMODULES))
def test_a_submodule_names_what_is_public_in_it(name: str) -> None:
    module = getattr(rb, name)
    assert module.__all__
    for public in module.__all__:
        getattr(module, public)


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(AttributeError, match="'load_datset'; did you mean 'load_dataset'"):
        rb.load_datset  # type: ignore[attr-defined]  # noqa: B018


def test_sweep_is_a_function_after_any_import() -> None:
    import ragbench.sweep.grid  # noqa: F401
    from ragbench.sweep import sweep

    assert isinstance(rb.sweep, FunctionType)
    assert rb.sweep is sweep


def names_used(text: str) -> set[str]:
    return {match[1] for match in re.finditer(r"\brb\.([a-z_]+(?:\.[A-Za-z]\w*)?|[A-Z]\w*)", text)}


def refuse_unknown(text: str, where: str) -> None:
    for used in names_used(text):
        value: object = rb
        for part in used.split("."):
            if isinstance(value, ModuleType):
                assert part in (*value.__all__, "__version__"), f"{where}: rb.{used} is not public"
                value = getattr(value, part)


def test_the_readme_and_the_notebooks_use_public_names() -> None:
    paths = [ROOT / "README.md", ROOT / "ragbench/README.md", *guide_pages()]
    for page in (path for path in paths if path.suffix == ".md"):
        refuse_unknown(page.read_text(encoding="utf-8"), page.name)
    stories = [path for path in guide_pages() if path.suffix == ".ipynb"]
    for path in [*committed_notebooks(), *stories]:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        refuse_unknown("\n".join("".join(cell["source"]) for cell in cells), path.name)


USER_SCRIPT = """\
import ragbench as rb
import ragbench.testing
from ragbench.statistics import within_margin

data: rb.Dataset = rb.load_dataset("pydoc", split="test")
chunks = rb.chunk(data, "recursive")
index = rb.make_retriever("bm25", chunks)
run = rb.retrieve(index, data.queries, chunks)
scores = rb.score_run(data.qrels, rb.to_documents(run, chunks), ["nDCG@10"])
print(rb.compare(scores, scores, measures=["R@5"]))
result = rb.evaluate(data, rb.Pipeline(data, "bm25"))
rb.write_report(rb.load_results("results"), "report.html")
rb.sweep("grid.toml", jobs=2)
"""


TYPE_ERRORS = {
    'rb.load_dataset("pydoc", split="test")': (
        'rb.load_datset("pydoc", split="test")',
        'has no attribute "load_datset"',
    ),
    'rb.chunk(data, "recursive")': (
        'rb.chunk(data, "recursive", sizes=3)',
        'Unexpected keyword argument "sizes"',
    ),
    'rb.sweep("grid.toml", jobs=2)': (
        'rb.sweep("grid.toml", jobs="two")',
        'has incompatible type "str"',
    ),
}


def test_a_users_script_is_type_checked(tmp_path: Path) -> None:
    """The project's configuration is `strict`, and its cache is shared: one run warms the next."""
    (tmp_path / "right.py").write_text(USER_SCRIPT)
    wrong = USER_SCRIPT
    for right, (type_error, _) in TYPE_ERRORS.items():
        assert right in wrong
        wrong = wrong.replace(right, type_error)
    (tmp_path / "wrong.py").write_text(wrong)
    files = [str(tmp_path / "right.py"), str(tmp_path / "wrong.py")]
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    *errors, last = [line for line in done.stdout.splitlines() if ": note: " not in line]
    assert last == "Found 3 errors in 1 file (checked 2 source files)", done.stdout + done.stderr
    for line, (_, message) in zip(errors, TYPE_ERRORS.values(), strict=True):
        assert "wrong.py" in line
        assert message in line


def loaded_by(code: str) -> list[str]:
    """The modules of ragbench that a new process has loaded after this code."""
    report = (
        "import sys; print(*sorted(m for m in sys.modules if m.partition('.')[0] == 'ragbench'))"
    )
    command = [sys.executable, "-W", "error", "-c", f"import ragbench as rb\n{code}\n{report}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("code", "max_modules"),
    [
        ("", 2),
        ("rb.score_run", 24),
        ("rb.score_run({'q': {'d': 1}}, {'q': {'d': 1.0}}, ['nDCG@10'])", 24),
        ("rb.load_dataset", 16),
        ("rb.load_dataset('pydoc')", 18),
        ("rb.compare", 17),
        ("rb.chunk", 32),
        ("rb.retrieve", 25),
        ("rb.load_llm", 39),
    ],
)
def test_first_use_is_light(code: str, max_modules: int) -> None:
    modules = loaded_by(code)
    assert len(modules) <= max_modules, modules


def test_patterns_of_attacks_compile_at_their_first_use() -> None:
    code = (
        "from ragbench.metrics.safety import patterns; n = "
        "patterns._compiled.cache_info().currsize; "
    )
    code += "patterns.signs('x'); print(n, patterns._compiled.cache_info().currsize)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "1"]


def test_import_is_silent_and_loads_nothing_heavy() -> None:
    code = (
        "import sys; import ragbench; "
        "heavy = {'pandas', 'torch', 'matplotlib', 'datasets', 'anthropic', 'scipy', "
        "'transformers', 'typer'};print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
    assert done.stderr == ""


def test_public_functions_are_reached() -> None:
    """A public function is called by ragbench or a notebook, or is one of the public names; else it
    goes.
    """
    texts = {
        path: path.read_text(encoding="utf-8")
        for path in [*PACKAGE.rglob("*.py"), *committed_notebooks()]
    }
    words = {path: Counter(re.findall(r"\w+", text)) for path, text in texts.items()}
    public = {*rb.__all__, *(name for module in SUBMODULES for name in getattr(rb, module).__all__)}
    public |= {*testing.__all__, "save_run"}  # save_run: for notebooks of the first edition
    unreached = []
    for path in texts:
        if path.suffix != ".py":
            continue
        for node in ast.parse(texts[path]).body:
            if (
                not isinstance(node, ast.FunctionDef)
                or node.name.startswith(("_", "pytest_"))
                or node.decorator_list
            ):
                continue
            itself = len(
                re.findall(rf"\b{node.name}\b", ast.get_source_segment(texts[path], node) or "")
            )
            if (
                node.name not in public
                and sum(words[other][node.name] for other in words) <= itself
            ):
                unreached.append(f"{path.relative_to(ROOT)}: {node.name}")
    assert unreached == []
