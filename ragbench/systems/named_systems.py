"""From a name or a file to a system under test: what a retriever, an address, a .toml file,
recorded answers or "package.module:attribute" mean as one.
"""

import hashlib
import inspect
import os
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from ragbench.errors import ConfigError, FailureKind, ModelError, unknown
from ragbench.extension import imported, source_file
from ragbench.files import expanded, read_toml, toml_line
from ragbench.generation import check_llm
from ragbench.llms import check_servers, listens
from ragbench.metrics.trec import SUFFIXES as RUN_SUFFIXES
from ragbench.retrieval.retrievers import (
    RETRIEVERS,
    check_retriever,
    likely_retriever,
    makes_retriever,
)
from ragbench.systems.consent import ask_consent
from ragbench.systems.credentials import OptionsError, one_line, problems_of
from ragbench.systems.function import FunctionSystem, to_callable
from ragbench.systems.http_system import HttpSystem
from ragbench.systems.mcp import McpSystem
from ragbench.systems.pipeline import Pipeline
from ragbench.systems.recorded import RecordedSystem
from ragbench.testsets.fields import TABLES
from ragbench.testsets.snapshot import as_at_sweep_start
from ragbench.types import Dataset, System

_FORMS = (
    "a retriever of ragbench's own pipeline such as 'bm25' or 'hybrid:wordllama', a .toml file "
    "with [pipeline], [http] or [mcp], the address of a service (`ragbench probe ADDRESS QUESTION` "
    "finds its settings), recorded answers (.jsonl, .csv, .run), or a "
    "function or System as 'package.module:attribute'"
)
_ADDRESS = ("http://", "https://")
_WITHOUT_SCHEME = re.compile(r"[\w.-]+:\d+(/|$)")  # localhost:8000/ask
_STRICT = ConfigDict(extra="forbid", strict=True)
_KINDS = ("pipeline", "http", "mcp")

RECORDED_SUFFIXES = (".jsonl", ".json", *TABLES, *RUN_SUFFIXES)
"""How the name of a file with recorded answers, or a recorded run, ends."""


@cache
def pipeline_options() -> type[BaseModel]:
    """Return the model that checks a table [pipeline]: its fields are the arguments of `Pipeline`
    without the dataset, with the types of their defaults.
    """
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(Pipeline).parameters.items():
        if name != "dataset":
            default = parameter.default
            field_type = int | None if default is None else type(default)
            fields[name] = (field_type, default)
    return create_model("PipelineOptions", __config__=_STRICT, **fields)


def load_system(spec: str | Path, dataset: Dataset) -> System:
    """Load the system under test of that name.

    - "bm25", "dense:<embedder>", "hybrid:<embedder>": ragbench's `Pipeline` over the dataset's
      documents, with this retriever and the defaults of everything else.
    - a `.toml` file with one table: `[pipeline]` (the arguments of `Pipeline`), `[http]`
      (`HttpSystem`) or `[mcp]` (`McpSystem`).
    - an address: a service that takes {"query": ...}, or "{query}" in its address (`HttpSystem`).
    - a `.jsonl` file, answers recorded by another tool (`.json`, `.csv`), or a run of TREC
      (`.trec`, `.run`): `RecordedSystem`.
    - "package.module:attribute", from where Python finds the module or from the working directory:
      a `System`, a class that makes one (or a function) without arguments, the class of a retriever
      (which takes chunks, and is searched by ragbench's own pipeline), or any function or object as
      `FunctionSystem` takes it.

    The servers of the language models that it names must take connections.

    A system that holds connections has `close()`.

    >>> from ragbench.types import Document
    >>> data = Dataset("demo", "test", {"d": Document("d", "Cats sleep.")}, [], {})
    >>> load_system("bm25", data)
    Pipeline('bm25, recursive 256, extractive', 1 chunk)
    >>> load_system("bm-25", data)
    Traceback (most recent call last):
    ragbench.errors.ConfigError: unknown system 'bm-25'; did you mean 'bm25'?

    Raises:
        ConfigError: nothing has that name, or the file is invalid; every problem of
            it at once.
        DataError: a recorded answer cannot be read.
        ModelError: the server of its language model cannot be reached.
    """
    return _resolve(str(spec), "")(dataset)


def reads_documents(spec: str, folder: str | Path = "") -> bool:
    """Return True if a system is ragbench's own pipeline, which searches the documents of a dataset.

    Args:
        spec: as in `load_system`; "" is bm25.
        folder: where relative paths are looked for.

    Raises:
        ConfigError, DataError: a file that it names is not there, or describes no system.
    """
    if spec.endswith(RECORDED_SUFFIXES):
        if not (Path(folder) / expanded(spec)).is_file():
            raise ConfigError(
                f"there is no file {spec}; expected a system or a file of its answers"
            )
        return False
    if spec.endswith(".toml"):
        kind, _ = read_table(Path(folder) / expanded(spec))
        return kind == "pipeline"
    if is_object_name(spec) or spec.startswith(_ADDRESS):
        return False
    _resolve(spec or "bm25", folder)
    return True


def check_system(spec: str, *, folder: str | Path = "", reachable: bool = False) -> None:
    """Refuse a system that `load_system` could not load, without documents and without asking it
    anything.

    Args:
        spec: as in `load_system`.
        folder: where relative paths and modules are looked for; "" means the working directory.
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
    _resolve(spec, folder)
    if reachable and spec.endswith(".toml"):
        _check_reachable(Path(folder) / expanded(spec))


def _check_reachable(path: Path) -> None:
    """Raise ModelError if no server takes connections at the address in a system's TOML file, if it
    has one.
    """
    _, table = read_table(path)
    address = table.get("url") or table.get("server")
    if isinstance(address, str) and address.startswith("http") and not listens(address):
        raise ModelError(
            f"{path.name}: no server takes connections at {address.partition('?')[0]}; start "
            "it, or correct the address",
            FailureKind.UNREACHABLE,
        )


def is_object_name(spec: str) -> bool:
    """Return True if a system is named as "package.module:attribute", and not as a retriever of
    ragbench, an address or a file.

    >>> [is_object_name(name) for name in ("my_rag:answer", "dense:minilm", "a.toml")]
    [True, False, False]
    """
    return (
        ":" in spec
        and spec.partition(":")[0] not in RETRIEVERS
        and not spec.startswith(_ADDRESS)
        and not spec.endswith((".toml", *RECORDED_SUFFIXES))
    )


def names_own_retriever(spec: str) -> bool:
    """Return True for "package.module:attribute" of a class or function that makes a retriever, which
    ragbench's own pipeline searches.
    """
    return is_object_name(spec) and makes_retriever(imported(spec, "system"))


def system_digest(spec: str, folder: str | Path = "") -> str:
    """Return the SHA-256 of the name of a system and of the code that it stands for: the content of its
    file, or the source of its module. Without such a file it is the SHA-256 of the name alone.
    """
    path: Path | None = Path(folder) / expanded(spec)
    if is_object_name(spec):
        path = source_file(spec, folder)  # None: the module has none
    content = b""
    with suppress(OSError):  # a file that cannot be read: loading the system raises the error
        if path is not None and os.path.isfile(path):
            content = as_at_sweep_start(path).read_bytes()
    return hashlib.sha256(spec.encode() + b"\n" + content).hexdigest()


def read_table(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the kind of a system ("pipeline", "http" or "mcp") and its options, from the one table of
    its TOML file.
    """
    tables = read_toml(as_at_sweep_start(path), f"a system is {_FORMS}")
    for kind in tables:
        if kind not in _KINDS:
            raise ConfigError(f"{path}: {unknown('table', kind, _KINDS)}")
    if len(tables) == 1:
        [(kind, table)] = tables.items()
        if isinstance(table, dict):
            return kind, table
    raise ConfigError(
        f"{path} holds {', '.join(tables) or 'no table'}; expected exactly one of "
        f"[{'], ['.join(_KINDS)}]"
    )


def _resolve(spec: str, folder: str | Path) -> Callable[[Dataset], System]:
    """Return a function that makes the system `spec` for a dataset; all that can be checked without the
    documents is checked now.

    Args:
        spec: the file of a system or of answers, "package.module:attribute", an address, or the name of
            a retriever, as in `load_system`.
        folder: that relative paths start from.

    Raises:
        ConfigError: there is no such system.
    """
    path = Path(folder) / expanded(spec)
    if spec.endswith(".toml"):
        return _from_file(path)
    if spec.endswith(RECORDED_SUFFIXES):
        recorded = RecordedSystem(path)
        return lambda dataset: recorded
    if _WITHOUT_SCHEME.match(spec):
        raise ConfigError(f"the address {spec!r} lacks its beginning; write 'http://{spec}'")
    if is_object_name(spec):
        return _from_object(spec, folder)
    if spec.startswith(_ADDRESS):
        service = _service_at(spec)
        return lambda dataset: service
    try:
        check_retriever(spec)
    except ConfigError as exc:
        is_known_retriever = spec.partition(":")[0] in RETRIEVERS
        if is_known_retriever:  # "dense:no-such-model": the error already names what is wrong
            raise
        if path.suffix == ".py":
            raise ConfigError(
                f"{spec} holds the code of a system; name its function, '{path.stem}:<function>'"
            ) from None
        near = likely_retriever(spec)
        hint = f"did you mean {near!r}?" if near else f"a system is {_FORMS}"
        raise ConfigError(f"unknown system {spec!r}; {hint}") from exc
    return lambda dataset: Pipeline(dataset, spec)


def _service_at(address: str) -> HttpSystem:
    """Return the system at an address, which is asked by GET if the question is in the address, else
    by POST.
    """
    if "{query}" in address:
        return HttpSystem(address, method="GET")
    return HttpSystem(address, method="POST", body={"query": "{query}"})


def _from_file(path: Path) -> Callable[[Dataset], System]:
    """Return a function that makes the system of a TOML file for a dataset, after the user's consent to
    its command and variables.

    Raises:
        ConfigError: the consent is refused, or an option does not fit; its line is named.
    """
    kind, table = read_table(path)
    ask_consent(path, table)
    makers: dict[str, Callable[..., Any]]
    makers = {"http": HttpSystem, "mcp": McpSystem, "pipeline": pipeline_options()}
    try:
        system_or_options = makers[kind](**{"name": path.stem, **table})
    except (OptionsError, ValidationError) as exc:
        problems = exc.problems if isinstance(exc, OptionsError) else problems_of(exc)
        toml = path.read_text(encoding="utf-8-sig")
        with_lines = []
        for keys, problem in problems:  # `keys` lead to the value in the table
            line = toml_line(toml, (kind, *keys))
            with_lines.append((keys, f"line {line}, {problem}"))
        raise ConfigError(f"{path}, [{kind}]: {one_line(with_lines)}") from None

    model = table.get("llm") or table.get("sampling")  # of [pipeline], of [mcp]
    if model:
        check_llm(model)  # its name and its key; whether its server runs matters when it is made

    def make_system(dataset: Dataset) -> System:
        if kind == "pipeline":
            return Pipeline(dataset, **system_or_options.model_dump())  # checks the server of `llm`
        check_servers(table.get("sampling") or "")
        return system_or_options  # type: ignore[no-any-return]

    return make_system


def _from_object(spec: str, folder: str | Path) -> Callable[[Dataset], System]:
    """Return a function that makes the system of "package.module:attribute" for a dataset.

    Raises:
        ConfigError: the attribute cannot be imported, its class cannot be called without arguments,
            or it is neither a system, a function of a question, nor the class of a retriever.
    """
    attribute = imported(spec, "system", folder)
    if makes_retriever(attribute):
        return lambda dataset: Pipeline(dataset, attribute)
    system = attribute
    if inspect.isclass(attribute):
        try:
            system = attribute()
        except Exception as exc:  # of a user's class
            raise ConfigError(
                f"system {spec!r} could not be made: {type(exc).__name__}: {exc}; expected one "
                "without arguments, or a retriever's, which takes chunks and has search(queries, k)"
            ) from exc
    if isinstance(system, System):
        return lambda dataset: system
    if to_callable(system) is None:
        raise ConfigError(
            f"system {spec!r} is {system!r}; expected a function of the question, a System, or a "
            "retriever's class, which takes the chunks and has search(queries, k)"
        )
    FunctionSystem(system)  # checks it before the dataset is loaded
    return lambda dataset: FunctionSystem(system, corpus=dataset.corpus)
