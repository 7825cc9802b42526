"""From a name or a file to a system under test."""

from __future__ import annotations

import hashlib
import inspect
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ragbench.datasets.testsets import TABLES
from ragbench.errors import ConfigError, FailureKind, ModelError, unknown
from ragbench.extension import imported
from ragbench.files import expanded, read_toml
from ragbench.llms import Settings, check_llm, check_servers, listens
from ragbench.retrievers import RETRIEVERS, check_retriever
from ragbench.scoring.trec import SUFFIXES
from ragbench.systems.connections import McpSpec
from ragbench.systems.consent import confirm
from ragbench.systems.credentials import checked
from ragbench.systems.function import FunctionSystem
from ragbench.systems.http import HttpSpec, HttpSystem
from ragbench.systems.mcp import McpSystem
from ragbench.systems.pipeline import Pipeline
from ragbench.systems.recorded import RecordedSystem
from ragbench.systems.shapes import to_callable
from ragbench.types import Dataset, System

_FORMS = (
    "a retriever of ragbench's own pipeline such as 'bm25' or 'hybrid:wordllama', a .toml file with [pipeline], "
    "[http], [mcp] or [python], recorded answers (.jsonl, .csv, .run), or a function or System as "
    "'package.module:attribute'"
)

RECORDED = (".jsonl", ".json", *TABLES, *SUFFIXES)
"""How the name of a file with recorded answers, or a recorded run, ends."""


class _PipelineSpec(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    name: str = ""
    retriever: str = "bm25"
    chunker: str = "recursive"
    chunk_size: int = Field(256, ge=1)
    chunk_overlap: int = Field(0, ge=0)
    tokenizer: str = "minilm"
    reranker: str = ""
    depth: int = Field(100, ge=1)
    llm: str = "extractive"
    prompt: str = "cited"
    k: int = Field(5, ge=1)
    max_context_tokens: int | None = Field(None, ge=1)
    max_tokens: int = Field(512, ge=1)
    temperature: float = Field(0.0, ge=0)


class _PythonSpec(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    name: str = ""
    object: str = Field(pattern=".:.")


_SPECS: dict[str, type[BaseModel]] = {
    "pipeline": _PipelineSpec, "http": HttpSpec, "mcp": McpSpec, "python": _PythonSpec,
}  # fmt: skip


def load_system(spec: str | Path, dataset: Dataset, settings: Settings | None = None) -> System:
    """The system under test of that name.

    - "bm25", "dense:<embedder>", "hybrid:<embedder>": ragbench's `Pipeline` over the dataset's documents, with this
      retriever and the defaults of everything else.
    - a `.toml` file with one table: `[pipeline]` (the arguments of `Pipeline`), `[http]` (`HttpSystem`), `[mcp]`
      (`McpSystem`) or `[python]` (`object = "package.module:attribute"`, also looked for next to the file); `[ingest]`
      next to it is for `load_target`.
    - a `.jsonl` file, answers recorded by another tool (`.json`, `.csv`), or a run of TREC (`.trec`, `.run`):
      `RecordedSystem`.
    - "package.module:attribute", from where Python finds the module or from the working directory: a `System`, a class
      that makes one without arguments, or any function or object as `FunctionSystem` takes it.

    The servers of the language models that it names must take connections. They are asked as `settings` say, by default
    as the environment states.

    A system that holds connections has `close()`.

    >>> from ragbench.types import Document
    >>> data = Dataset("demo", "test", {"d": Document("d", "Cats sleep.")}, [], {})
    >>> load_system("bm25", data)
    Pipeline('bm25, recursive 256, extractive', 1 chunk)
    >>> load_system("bm-25", data)
    Traceback (most recent call last):
    ragbench.errors.ConfigError: unknown system 'bm-25': unknown retriever 'bm-25'; did you mean 'bm25'? ...

    Raises:
        ConfigError: nothing has that name, or the file is not what it should be; every problem of it at once.
        DataError: a recorded answer cannot be read.
        ModelError: the server of its language model cannot be reached.
    """
    text = str(spec)
    path = expanded(text)
    if text.endswith(RECORDED):
        return RecordedSystem(path)
    if text.endswith(".toml"):
        kind, options = _described(path, settings)
        if kind == "python":
            return _imported(options["object"], path.parent, options["name"])
        if kind != "pipeline":
            check_servers(options.get("sampling") or "")
        return Pipeline(dataset, **options) if kind == "pipeline" else _service(kind, options)
    if is_object_name(text):
        return _imported(text)
    _check_retriever(text)
    return Pipeline(dataset, text)


def check_system(
    spec: str, *, folder: str | Path = "", settings: Settings | None = None, reachable: bool = False
) -> None:
    """Refuse a system that `load_system` could not load, without documents and without asking it anything.

    Args:
        spec: as in `load_system`.
        folder: where relative paths and modules are looked for; "" means the working directory.
        settings: how language models may be asked.
        reachable: also refuse a service by HTTP whose server takes no connections.

    >>> check_system("hybrid:minilm")
    >>> check_system("no_such_module:answer")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: system 'no_such_module:answer' could not be loaded: ModuleNotFoundError: No module \
named 'no_such_module'

    Raises:
        ConfigError, DataError: as `load_system`.
        ModelError: no server takes connections at the address of the service.
    """
    path = Path(folder) / expanded(spec)
    if spec.endswith(RECORDED):
        RecordedSystem(path)
    elif spec.endswith(".toml"):
        kind, options = _described(path, settings)
        if kind == "python":
            _imported(options["object"], path.parent)
        elif kind != "pipeline":
            _service(kind, options).close()
        login = [options["login"]] if options.get("login") else []
        for part in (options, *login, *options.get("before", ()), *options.get("then", ())):
            address = part.get("url", part.get("server", ""))
            if reachable and isinstance(address, str) and address.startswith("http") and not listens(address):
                raise ModelError(
                    f"{path.name}: no server takes connections at {address.partition('?')[0]}; start it, or correct "
                    "the address", FailureKind.UNREACHABLE,
                )  # fmt: skip
    elif is_object_name(spec):
        _imported(spec, folder)
    else:
        _check_retriever(spec)


def is_object_name(spec: str) -> bool:
    """Whether a system is named as "package.module:attribute".

    >>> [is_object_name(one) for one in ("my_rag:answer", "dense:minilm", "a.toml")]
    [True, False, False]
    """
    return ":" in spec and spec.partition(":")[0] not in RETRIEVERS and not spec.endswith((".toml", *RECORDED))


def system_digest(spec: str, folder: str | Path = "") -> str:
    """SHA-256 of what describes a system: its file, the source of its module where there is one, else its name."""
    path = Path(folder) / expanded(spec)
    if is_object_name(spec):
        module = sys.modules.get(spec.partition(":")[0])
        path = Path(getattr(module, "__file__", None) or "")
    content = path.read_bytes() if path.is_file() else b""
    return hashlib.sha256(spec.encode() + b"\n" + content).hexdigest()


def _imported(spec: str, folder: str | Path = "", name: str = "") -> System:
    found = imported(spec, "system", folder)
    if inspect.isclass(found):
        found = found()
    if isinstance(found, System):
        return found
    if to_callable(found) is not None:
        return FunctionSystem(found, name=name)
    raise ConfigError(f"system {spec!r} is {found!r}; expected a function of the question, or a System")


def _check_retriever(text: str) -> None:
    try:
        check_retriever(text)
    except ConfigError as exc:
        raise ConfigError(f"unknown system {text!r}: {exc}; a system is {_FORMS}") from exc


def read_tables(path: Path) -> dict[str, Any]:
    """The tables of a system's TOML file: a pipeline, http or mcp, and maybe [ingest]."""
    tables = read_toml(path, f"a system is {_FORMS}")
    for kind in tables:
        if kind not in (*_SPECS, "ingest"):
            raise ConfigError(f"{path}: {unknown('table', kind, (*_SPECS, 'ingest'))}")
    found = [kind for kind in _SPECS if kind in tables]
    if len(found) != 1 or not isinstance(tables[found[0]], dict):
        shown = ", ".join(f"[{kind}]" for kind in _SPECS)
        raise ConfigError(f"{path} holds {', '.join(found) or 'no table'}; expected exactly one of {shown}")
    return tables


def _described(path: Path, settings: Settings | None) -> tuple[str, dict[str, Any]]:
    """The kind of the system that a file describes, and the arguments to make it."""
    tables = read_tables(path)
    confirm(path, tables)
    [kind] = [kind for kind in _SPECS if kind in tables]
    spec = checked(_SPECS[kind], {"name": path.stem, **tables[kind]}, f"{path}, [{kind}]")
    options = spec.model_dump(exclude_unset=True)
    for role in ("llm", "sampling"):
        if settings is not None and options.get(role) not in (None, "", "extractive"):
            options[role] = check_llm(options[role], settings)
    return kind, options


def _service(kind: str, options: dict[str, Any]) -> HttpSystem | McpSystem:
    return HttpSystem(**options) if kind == "http" else McpSystem(**options)
