"""The pytest plugin: data, models and systems as fixtures, a table at the end, and the report of `ragbench eval`.

Every pytest with ragbench installed loads it; it costs nothing until a fixture is used. Options, all of which the
marker `@pytest.mark.ragbench(dataset=..., corpus=..., split=..., query_ids=[...], n=..., min_grade=..., system=...)`
overrides for a test, class or module:

- `--ragbench-dataset`, `--ragbench-corpus` (the documents of a test set), `--ragbench-split`, `--ragbench-queries`
  (ids, comma-separated), `--ragbench-n` (the first n);
- `--ragbench-system`: what `ragbench eval --system` takes;
- `--ragbench-report`: a file (.json, .md, .html or .xml, JUnit) or a folder for the report of `ragbench eval`.

Fixtures: `ragbench_dataset`, `ragbench_case` (a test that names it runs once per question), `rag_system`,
`evaluation_llm`, `mcp_sampling_client`. Tests without the key or server that
they need are skipped with the reason. Under pytest-xdist every process measures and the first one reports.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ragbench.errors import ConfigError, DataWarning, MissingExtraError, RagbenchError
from ragbench.files import expanded
from ragbench.testing import labelled_cases, recording
from ragbench.types import LLM, Answer, Dataset, DatasetSource, System

if TYPE_CHECKING:
    from ragbench.systems import McpSystem

_MARKER = ("dataset", "corpus", "split", "query_ids", "n", "min_grade", "system")
_XDIST = "ragbench"
_OUTER: pytest.StashKey[recording.Recorder | None] = pytest.StashKey()


class EvaluationLLM:
    """A language model as a function from prompt to reply; `llm` is the model itself."""

    def __init__(self, llm: LLM) -> None:
        self.llm = llm

    def __call__(self, prompt: str) -> str:
        completion = self.llm.generate(prompt)
        if completion.error is not None:
            raise RagbenchError(f"{self.llm.name}: {completion.error}")
        return completion.text


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ragbench", "evaluation of retrieval-augmented generation")
    group.addoption("--ragbench-dataset", default="pydoc", help="what load_dataset takes (default: pydoc)")
    group.addoption("--ragbench-corpus", default="", metavar="FOLDER", help="the documents of a test set without any")
    group.addoption("--ragbench-split", default="test", help="its split (default: test)")
    group.addoption("--ragbench-queries", default="", metavar="ID,ID", help="these questions only")
    group.addoption("--ragbench-n", type=int, default=0, metavar="N", help="the first N questions only (0: all)")
    group.addoption("--ragbench-system", default="bm25", metavar="SPEC", help="the system under test (default: bm25)")
    group.addoption("--ragbench-report", default="", metavar="FILE", help="write the report of `ragbench eval` there")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"ragbench({', '.join(f'{name}=...' for name in _MARKER)}): what ragbench's fixtures give to a test"
    )
    report = config.getoption("--ragbench-report")
    if report and Path(report).suffix not in ("", ".json", ".md", ".html", ".xml"):
        raise pytest.UsageError(f"--ragbench-report is {report}; expected a folder or a file .json, .md, .html or .xml")
    config.stash[_OUTER] = recording.active  # pytest may run inside pytest: pytester
    recording.active = recording.Recorder()


def pytest_unconfigure(config: pytest.Config) -> None:
    recording.active = config.stash.get(_OUTER, recording.active)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    outer, recording.current_test = recording.current_test, item.nodeid
    try:
        return (yield)
    finally:
        recording.current_test = outer


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "ragbench_case" in metafunc.fixturenames:
        config, node = metafunc.config, metafunc.definition
        cases = labelled_cases(_dataset(config, node), min_grade=int(_chosen(config, node)["min_grade"]))
        metafunc.parametrize("ragbench_case", cases, ids=[case.query_id for case in cases])


@pytest.fixture
def ragbench_dataset(request: pytest.FixtureRequest) -> Dataset:
    """The dataset that the marker or the options name, with the questions that they choose."""
    return _dataset(request.config, request.node)


@pytest.fixture
def rag_system(request: pytest.FixtureRequest, ragbench_dataset: Dataset) -> System:
    """The system that the marker or `--ragbench-system` names, over the whole corpus; closed when the session ends."""
    spec = str(_chosen(request.config, request.node)["system"])
    if reason := _lacking(spec):
        pytest.skip(f"the system {spec}: {reason}")
    try:
        return _system(request.config, spec, ragbench_dataset)
    except MissingExtraError as exc:
        pytest.skip(f"the system {spec}: {exc}")


@pytest.fixture(scope="session")
def evaluation_llm() -> EvaluationLLM:
    """The model of the RAG_EVAL_* environment, as a function from prompt to reply; skips where there is none."""
    from ragbench.llms import load_llm, unavailable

    if reason := unavailable("env"):
        pytest.skip(f"no evaluation LLM: {reason}")
    return EvaluationLLM(load_llm("env"))


@pytest.fixture
def mcp_sampling_client(request: pytest.FixtureRequest) -> Iterator[Callable[..., McpSystem]]:
    """Makes clients of an MCP server, `mcp_sampling_client(server, tool=..., arguments=...)`, closed after the test.

    Unless `sampling` is given, the server's sampling requests are answered by `evaluation_llm`; `sampling=None` is for
    tools without such requests. Skips where the package mcp is missing or the server cannot be reached.
    """
    made: list[McpSystem] = []

    def client(server: Any, *, tool: str, **options: Any) -> McpSystem:
        from ragbench.systems import McpSystem

        if "sampling" not in options:
            options["sampling"] = request.getfixturevalue("evaluation_llm").llm
        try:
            system = McpSystem(server, tool=tool, **options)
        except MissingExtraError as exc:
            pytest.skip(str(exc))
        made.append(system)
        try:
            known = system.tools()
        except ConfigError as exc:
            pytest.skip(f"the MCP server cannot be reached: {exc}")
        if tool not in known:
            raise ConfigError(f"the MCP server has no tool {tool!r}; it has {', '.join(known)}")
        return system

    yield client
    for system in made:
        system.close()


def _chosen(config: pytest.Config, node: Any) -> dict[str, Any]:
    """The options, overridden by the markers, the nearest last."""
    queries = [one.strip() for one in str(config.getoption("--ragbench-queries")).split(",") if one.strip()]
    chosen: dict[str, Any] = {
        **{name: config.getoption(f"--ragbench-{name}") for name in ("dataset", "corpus", "split", "n", "system")},
        "query_ids": queries,
        "min_grade": 1,
    }
    for marker in reversed(list(node.iter_markers("ragbench"))):
        if unknown := [name for name in marker.kwargs if name not in _MARKER] or list(marker.args):
            raise ConfigError(f"@pytest.mark.ragbench has no argument {unknown[0]!r}; expected {', '.join(_MARKER)}")
        chosen |= marker.kwargs
    return chosen


@lru_cache(maxsize=8)
def _loaded(source: DatasetSource) -> Dataset:
    from ragbench.datasets import load_dataset

    return load_dataset(source.name, source.split, corpus=source.corpus)


def _dataset(config: pytest.Config, node: Any) -> Dataset:
    chosen = _chosen(config, node)
    data = _loaded(DatasetSource(str(chosen["dataset"]), str(chosen["split"]), str(chosen["corpus"])))
    if wanted := list(chosen["query_ids"]):
        if lacking := [query_id for query_id in wanted if query_id not in data.queries]:
            raise ConfigError(f"{data.name} ({data.split}) has no question {lacking[0]!r}; check query_ids")
        data = data.select(wanted)
    return data.select(list(data.queries)[: chosen["n"]]) if chosen["n"] else data


_SYSTEMS: pytest.StashKey[dict[tuple[str, DatasetSource | None], System]] = pytest.StashKey()


def _system(config: pytest.Config, spec: str, dataset: Dataset) -> System:
    """One system per name and corpus: an index is built once."""
    from ragbench.systems import load_system

    systems = config.stash.setdefault(_SYSTEMS, {})
    key = (spec, dataset.source)
    if key not in systems:
        systems[key] = load_system(spec, dataset)
    return systems[key]


def _lacking(spec: str) -> str:
    """The missing key or server of a system's file; "" for none."""
    if not spec.endswith(".toml"):
        return ""
    from ragbench.llms import listens, unavailable
    from ragbench.systems import read_tables
    from ragbench.systems.credentials import from_environment

    tables = read_tables(expanded(spec))
    kind = next((kind for kind in ("pipeline", "http", "mcp") if isinstance(tables.get(kind), dict)), "")
    table = tables.get(kind, {})  # load_system reports its errors
    in_headers = [
        str(value).rpartition(" ")[2] for value in dict(table.get("headers_env", {})).values()
    ]  # "Bearer NAME"
    needed = [*in_headers, *(table.get("env", []) if kind == "mcp" else [])]
    if missing := [name for name in needed if not os.environ.get(name, "").strip()]:
        return f"set {' and '.join(missing)} in the environment"
    model = str(table.get("llm" if kind == "pipeline" else "sampling", "") or "extractive")
    if model != "extractive" and (reason := unavailable(model)):
        return reason
    try:
        where, _ = from_environment(table.get("url" if kind == "http" else "server", ""), spec)
    except ConfigError as exc:  # a variable that is not set
        return str(exc)
    if isinstance(where, str) and where.startswith(("http://", "https://")) and not listens(where):
        return "no server takes connections at its address"
    return ""


# At the end of the session.


def pytest_sessionfinish(session: pytest.Session) -> None:
    for system in session.config.stash.get(_SYSTEMS, {}).values():
        if callable(close := getattr(system, "close", None)):
            close()
    output = getattr(session.config, "workeroutput", None)
    if output is not None and recording.active is not None:
        output[_XDIST] = recording.active.to_plain()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    plain = getattr(node, "workeroutput", {}).get(_XDIST)
    if plain is not None and recording.active is not None:
        recording.active.add_plain(plain)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    recorded = recording.active
    report = config.getoption("--ragbench-report")
    if recorded is None or not (recorded.checks or report):
        return
    terminalreporter.section("ragbench")
    rows = [("measure", "mean", "scored", "passed"), *recording.table(recorded.checks)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(row[column].rjust(widths[column]) for column in range(1, 4))]
        terminalreporter.write_line("  ".join(cells))
    if report:
        with warnings.catch_warnings():
            warnings.simplefilter("always", DataWarning)  # under `-W error` none of them may prevent the report
            for line, good in _write_reports(Path(report), recorded.answers):
                terminalreporter.write_line(line, red=not good)


def _write_reports(
    place: Path, answers: Mapping[DatasetSource | None, Mapping[str, Answer]]
) -> Iterator[tuple[str, bool]]:
    """The report of each dataset whose questions were tested: its path, or False and the reason."""
    from ragbench.evaluation import evaluate
    from ragbench.report.evaluation import write_report

    named = {source: own for source, own in answers.items() if source is not None}
    if not named:
        yield "no report: no assertion had a question of ragbench_case, or of a loaded dataset", True
    for number, (source, own) in enumerate(named.items(), 1):
        path = place
        if len(named) > 1:  # the number distinguishes folders of the same name
            path = place.with_name(f"{place.stem}-{number}-{Path(source.name).stem}-{source.split}{place.suffix}")
        try:
            data = _loaded(source)
            result = evaluate(data.select(own), list(own.values()), name="pytest")
            write_report(result, path, force=True)
        except (RagbenchError, OSError) as exc:
            yield f"no report was written: {exc}", False
        else:
            yield f"report: {path}", True
