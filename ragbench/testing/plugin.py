"""The pytest plugin: its options and marker, the fixtures for data, models and systems, when a test
is skipped, the table at the end, and the report of `ragbench eval`.

Every pytest with ragbench installed loads it; it costs nothing until a fixture is used. Options,
all of which the marker `@pytest.mark.ragbench(dataset=..., corpus=..., split=..., query_ids=[...],
n=..., min_grade=..., system=...)` overrides for a test, class or module:

- `--ragbench-dataset`, `--ragbench-corpus` (the documents of a test set), `--ragbench-split`,
  `--ragbench-queries` (ids, comma-separated), `--ragbench-n` (the first n);
- `--ragbench-system`: what `ragbench eval` takes;
- `--ragbench-report`: a file (.json, .md or .html) or a folder for the report of `ragbench eval`; a
  file .xml is pytest's own (`--junitxml`), so that JUnit counts the tests and failures of pytest;
- `--ragbench-option NAME=VALUE`: any option of that evaluation (`ragbench.EvaluationSpec`); may be
  repeated. With `fail_under=nDCG@5=0.6` or a `baseline` that evaluation is a gate: a session whose
  tests pass ends with exit status 1 if the gate fails, with a report or without.

Fixtures: `ragbench_dataset`, `ragbench_case` (a test that names it runs once per question),
`rag_system`; and, for tests that are coroutines, `nfcorpus_test_data`, `evaluation_llm`,
`mcp_sampling_client`: a coroutine that names one of them is run here if no other plugin runs it.
Tests without the key or server that they need are skipped with the reason. Under pytest-xdist every
process measures and the first one reports.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ragbench import evaluation, llms, systems, testsets
from ragbench.errors import (
    ConfigError,
    DataWarning,
    DownloadError,
    MissingExtraError,
    RagbenchError,
)
from ragbench.files import expanded
from ragbench.testing import LabelledCase, labelled_cases, reports
from ragbench.types import LLM, Answer, Dataset, DatasetSource, System

_MARKER = "dataset corpus split query_ids n min_grade system".split()
_XDIST = "ragbench"
_OUTER: pytest.StashKey[reports.Recorder | None] = pytest.StashKey()
_SYSTEMS: pytest.StashKey[dict[tuple[str, DatasetSource | None], System]] = pytest.StashKey()


class Outcome(NamedTuple):
    """A line at the end of the session; not `good` if there is no report, or no pass."""

    line: str
    good: bool


_OUTCOMES: pytest.StashKey[list[Outcome]] = pytest.StashKey()

_NFCORPUS = ("PLAIN-2630", "PLAIN-2660", "PLAIN-2510", "PLAIN-2430", "PLAIN-2690")
"""Questions of BEIR's nfcorpus with 14 to 21 highly relevant documents."""
_FIXTURES_OF_COROUTINES = {"nfcorpus_test_data", "evaluation_llm", "mcp_sampling_client"}


@dataclass
class EvaluationLLM:
    """A language model as a coroutine function from prompt to reply; `llm` is the model itself."""

    llm: LLM

    async def __call__(self, prompt: str) -> str:
        """Return the reply; RagbenchError where the request failed."""
        import asyncio

        completion = await asyncio.to_thread(self.llm.generate, prompt)
        if completion.error is not None:
            raise RagbenchError(f"{self.llm.name}: {completion.error}")
        return completion.text


@dataclass
class McpClient:
    """A client of an MCP server; `system` is the server as a system under test."""

    system: systems.McpSystem

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Return the structured result of a tool, or else its text; its requests for samples are
        answered meanwhile.
        """
        import asyncio

        return await asyncio.to_thread(self.system.call, name, arguments)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the command's options `--ragbench-...`."""
    group = parser.getgroup("ragbench", "evaluation of retrieval-augmented generation")
    for name, default, metavar, text in (  # `metavar`: the word for the value in the help
        ("dataset", "pydoc", None, "what load_dataset takes (default: pydoc)"),
        ("corpus", "", "FOLDER", "the documents of a test set without any"),
        ("split", "test", None, "its split (default: test)"),
        ("queries", "", "ID,ID", "these questions only"),
        ("system", "bm25", "SPEC", "the system under test (default: bm25)"),
        ("report", "", "FILE", "write the report of `ragbench eval` there"),
    ):
        group.addoption(f"--ragbench-{name}", default=default, metavar=metavar, help=text)
    group.addoption(
        "--ragbench-n", type=int, default=0, metavar="N", help="the first N questions only (0: all)"
    )
    text = (
        "an option of the report's evaluation, such as judge=env, or fail_under=nDCG@5=0.6, which "
        "the whole session has to reach; may be repeated"
    )
    group.addoption(
        "--ragbench-option", action="append", default=[], metavar="NAME=VALUE", help=text
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, check the options, and begin to record the tests of this run."""
    config.addinivalue_line(
        "markers",
        f"ragbench({', '.join(f'{name}=...' for name in _MARKER)}): what ragbench's fixtures "
        "give to a test",
    )
    _check_report_path(config)
    options = config.getoption("--ragbench-option")
    if options:
        try:
            evaluation.spec_of_texts(options)  # only checked
        except ConfigError as exc:
            raise pytest.UsageError(f"--ragbench-option: {exc}") from exc
    # pytest may run inside a test of pytest (pytester): the outer recorder is put back at the end
    config.stash[_OUTER] = reports.active
    reports.active = reports.Recorder()


def _check_report_path(config: pytest.Config) -> None:
    """Check the suffix of `--ragbench-report`; a file .xml is left to pytest, as its `--junitxml`.

    Raises:
        pytest.UsageError: the suffix is of no kind of report.
    """
    report = config.getoption("--ragbench-report")
    suffix = Path(report).suffix
    if suffix == ".xml":
        config.option.xmlpath = report
        config.option.ragbench_report = ""
    elif suffix not in ("", ".json", ".md", ".html"):
        raise pytest.UsageError(
            f"--ragbench-report is {report}; expected a folder or a file .json, .md, .html or .xml"
        )


def pytest_unconfigure(config: pytest.Config) -> None:
    reports.active = config.stash.get(_OUTER, reports.active)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Name the running test for the records of its checks."""
    outer = reports.current_test  # pytest may run inside a test of pytest
    reports.current_test = item.nodeid
    try:
        return (yield)
    finally:
        reports.current_test = outer


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with the fixture `ragbench_case` once for each chosen question of its dataset."""
    if "ragbench_case" in metafunc.fixturenames:
        config = metafunc.config
        node = metafunc.definition
        min_grade = int(_choices_for_test(config, node)["min_grade"])
        cases = labelled_cases(_dataset_for_test(config, node), min_grade=min_grade)
        metafunc.parametrize("ragbench_case", cases, ids=[case.query_id for case in cases])


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function and uses one of `_FIXTURES_OF_COROUTINES`. All others are
    left to pytest and its plugins, such as pytest-asyncio.
    """
    import asyncio
    import inspect

    uses_our_fixture = not _FIXTURES_OF_COROUTINES.isdisjoint(pyfuncitem.fixturenames)
    if not (inspect.iscoroutinefunction(pyfuncitem.obj) and uses_our_fixture):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}  # the values of its fixtures
    asyncio.run(pyfuncitem.obj(**arguments))
    return True  # tells pytest that the test was run


@pytest.fixture
def ragbench_dataset(request: pytest.FixtureRequest) -> Dataset:
    """Return the dataset that the marker or the options name, with the questions that they choose."""
    return _dataset_for_test(request.config, request.node)


@pytest.fixture
def rag_system(request: pytest.FixtureRequest, ragbench_dataset: Dataset) -> System:
    """Return the system that the marker or `--ragbench-system` names, over the whole corpus.

    It is loaded once per session and closed at the session's end. The test is skipped if the system
    lacks a key, a server, a model or a package.
    """
    spec = str(_choices_for_test(request.config, request.node)["system"])
    _skip_if_unavailable(spec)
    systems_of_session = request.config.stash.setdefault(_SYSTEMS, {})
    key = (spec, ragbench_dataset.source)  # a system is loaded over the documents of one source
    if key not in systems_of_session:
        try:
            systems_of_session[key] = systems.load_system(spec, ragbench_dataset)
        except MissingExtraError as exc:
            pytest.skip(f"the system {spec}: {exc}")
    return systems_of_session[key]


@pytest.fixture(scope="session")
def nfcorpus_test_data(request: pytest.FixtureRequest) -> list[LabelledCase]:
    """Return five questions of BEIR's nfcorpus with their highly relevant documents (grade 2).

    The questions come from one of these:

    - The dataset that `--ragbench-dataset` names, if it is not the default "pydoc".
    - The file tests/rag_evaluation/fixtures/ground_truth.json below the root folder, which
      `ragbench answers` writes; it holds the five, or those for which it was made.
    - The public set, which is downloaded once.

    `--ragbench-queries` names other questions than the five. A dataset without the five returns all its
    questions. If its highest grade is 1, the documents of grade 1 are relevant. The reference answers of
    the file, if there is one, are added.
    """
    from ragbench.testsets import ground_truth

    dataset_name = str(request.config.getoption("--ragbench-dataset"))
    truths_file = request.config.rootpath / ground_truth.PLACE  # tests/rag_evaluation/...
    wanted_ids = _query_ids_of_option(request.config)
    is_dataset_chosen = dataset_name != "pydoc"  # the option's default
    if not is_dataset_chosen:
        if truths_file.is_file():
            # holds only relevant documents, of grade 1
            data = ground_truth.dataset_of_ground_truths(truths_file)
            return labelled_cases(data.select(wanted_ids) if wanted_ids else data)
        dataset_name = "beir/nfcorpus"
    try:
        data = _load_once(DatasetSource(dataset_name, "test", ""))
    except (DownloadError, MissingExtraError) as exc:
        pytest.skip(f"no nfcorpus: {exc}; --ragbench-dataset names a folder with it")
    five_ids = [query_id for query_id in _NFCORPUS if query_id in data.queries]
    query_ids = wanted_ids or five_ids or list(data.queries)
    data = data.select(query_ids)
    # the file's reference answers; unchanged if there is no file
    data = ground_truth.with_ground_truths(data, ground_truth.read_ground_truths(truths_file))
    has_grade_2 = any(max(grades.values(), default=0) >= 2 for grades in data.qrels.values())
    return labelled_cases(data, min_grade=2 if has_grade_2 else 1)


@pytest.fixture(scope="session")
def evaluation_llm() -> EvaluationLLM:
    """Return the model of the RAG_EVAL_* environment: `await evaluation_llm(prompt)`; skips if
    there is none.
    """

    if reason := llms.unavailable("env"):
        pytest.skip(f"no evaluation LLM: {reason}")
    return EvaluationLLM(llms.load_llm("env"))


@pytest.fixture(scope="session")
def mcp_sampling_client(request: pytest.FixtureRequest) -> Iterator[McpClient]:
    """Return the session's client of the MCP server that the marker or `--ragbench-system` names: a
    .toml file with [mcp]. Tests that use it name one server.

    `await mcp_sampling_client.call_tool("answer", arguments={"query": "..."})`. The server may ask its
    client for completions (MCP's "sampling"). They come from the model that the option `sampling` of
    the file names, or else from `evaluation_llm`.

    The test is skipped if the package mcp is missing, or the model or the server cannot be reached.

    Raises:
        ConfigError: the file is of another kind, or the user has not consented to the command in it.
    """
    from ragbench.systems.consent import ask_consent

    spec = _mcp_server_of_session(request)
    kind, table = _kind_and_table(spec)
    if kind != "mcp":
        raise ConfigError(
            f"the system is {spec!r}; mcp_sampling_client expects a .toml file with [mcp]"
        )
    _skip_if_unavailable(spec)
    ask_consent(expanded(spec), table)  # raises without consent to the command that the file names
    if "sampling" not in table:
        table = {**table, "sampling": request.getfixturevalue("evaluation_llm").llm}
    try:
        system = systems.McpSystem(**table)
    except MissingExtraError as exc:
        pytest.skip(str(exc))
    with system:
        try:
            system.tools()  # to see whether the server answers
        except ConfigError as exc:
            pytest.skip(f"the MCP server cannot be reached: {exc}")
        yield McpClient(system)


def _mcp_server_of_session(request: pytest.FixtureRequest) -> str:
    """Return the MCP server for all tests of the session that use the requested fixture.

    The fixture has one server for the whole session. So all these tests must choose the same system,
    by their markers or by `--ragbench-system`.

    Raises:
        ConfigError: the tests choose different systems.
    """
    specs = set()
    for test in request.session.items:
        uses_fixture = request.fixturename in getattr(test, "fixturenames", ())
        if uses_fixture:
            specs.add(str(_choices_for_test(request.config, test)["system"]))
    if len(specs) > 1:
        raise ConfigError(
            f"tests of this session name the systems {', '.join(sorted(specs))}; "
            "mcp_sampling_client is one client of one server, so name one system"
        )
    [spec] = specs
    return spec


def _choices_for_test(config: pytest.Config, node: Any) -> dict[str, Any]:
    """Return the choices of a test: dataset, corpus, split, n, system, query_ids and min_grade.

    The command's options come first, then the arguments of the markers `@pytest.mark.ragbench` replace
    them; a marker of the test replaces one of its class, which replaces one of its module.

    Raises:
        ConfigError: a marker has an unknown argument.
    """
    option_names = "dataset corpus split n system".split()
    choices: dict[str, Any] = {
        name: config.getoption(f"--ragbench-{name}") for name in option_names
    }
    choices["query_ids"] = _query_ids_of_option(config)
    choices["min_grade"] = 1  # has no option
    nearest_first = list(node.iter_markers("ragbench"))
    for marker in reversed(nearest_first):  # the nearest one comes last, and so wins
        unknown = [name for name in marker.kwargs if name not in _MARKER]
        if not unknown:
            unknown = list(marker.args)  # the marker takes no positional arguments
        if unknown:
            raise ConfigError(
                f"@pytest.mark.ragbench has no argument {unknown[0]!r}; "
                f"expected {', '.join(_MARKER)}"
            )
        choices |= marker.kwargs
    return choices


def _query_ids_of_option(config: pytest.Config) -> list[str]:
    query_ids = config.getoption("--ragbench-queries").split(",")
    return [query_id.strip() for query_id in query_ids if query_id.strip()]


@lru_cache(maxsize=8)
def _load_once(source: DatasetSource) -> Dataset:
    """Load a dataset; the last eight stay in memory, so that tests share them."""
    return testsets.load_dataset(source.name, source.split, corpus=source.corpus)


def _dataset_for_test(config: pytest.Config, node: Any) -> Dataset:
    """Return the dataset that is chosen for a test, with the chosen questions alone.

    If ids are chosen, other questions are left out; if a number `n` is chosen, only the first `n` of the
    remaining questions are kept.

    Raises:
        ConfigError: the dataset lacks a chosen question.
    """
    choices = _choices_for_test(config, node)
    source = DatasetSource(str(choices["dataset"]), str(choices["split"]), str(choices["corpus"]))
    data = _load_once(source)
    query_ids = list(choices["query_ids"])
    if query_ids:
        lacking = [query_id for query_id in query_ids if query_id not in data.queries]
        if lacking:
            raise ConfigError(
                f"{data.name} ({data.split}) has no question {lacking[0]!r}; check query_ids"
            )
        data = data.select(query_ids)
    if choices["n"]:
        first_ids = list(data.queries)[: choices["n"]]
        data = data.select(first_ids)
    return data


def _kind_and_table(spec: str) -> tuple[str, Mapping[str, Any]]:
    """Return the kind and the table of a system's file; "" and {} for a system that has none."""
    from ragbench.systems.named_systems import read_table

    return read_table(expanded(spec)) if spec.endswith(".toml") else ("", {})


def _skip_if_unavailable(spec: str) -> None:
    """Skip the test where a system lacks a key, its model or a server."""
    kind, table = _kind_and_table(spec)  # load_system reports its other errors
    reason = _why_unavailable(spec, kind, table)
    if reason:
        pytest.skip(f"the system {spec}: {reason}")


def _why_unavailable(spec: str, kind: str, table: Mapping[str, Any]) -> str:
    """Return why a system cannot be asked on this machine; "" if it can.

    A variable of the environment may be missing, its model may be unavailable, or no server may listen
    at its address.

    Args:
        spec: names the system, in an error.
        kind: of the system's file, such as "pipeline", "http" or "mcp"; "" without a file.
        table: the options in the file.
    """
    from ragbench.systems.credentials import from_environment, variables_in

    variables = [*variables_in(table)]  # named in values as "{env:NAME}"
    if kind == "mcp":
        variables += table.get("env", [])
    missing = [name for name in variables if not os.environ.get(name, "").strip()]
    if missing:
        return f"set {' and '.join(missing)} in the environment"

    model = None
    if kind == "pipeline":
        model = table.get("llm")
    elif kind == "mcp":
        model = table.get("sampling")  # answers the server's requests for completions
    reason = llms.unavailable(str(model)) if model else ""
    if reason:
        return reason

    address_option = "url" if kind == "http" else "server"
    address, _secrets = from_environment(table.get(address_option, ""), spec)
    is_url = isinstance(address, str) and address.startswith(("http://", "https://"))
    if is_url and not llms.listens(address):
        return "no server takes connections at its address"
    return ""


# At the end of the session.


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Close the systems, evaluate the recorded answers, and fail the session if its gate is not met.

    A worker process of pytest-xdist does not evaluate: it sends its records to the main process.
    """
    config = session.config
    _close_systems(config)
    recorded = reports.active
    if recorded is None:
        return
    # a dictionary that pytest-xdist sends to the main process; only the config of a worker has it
    worker_output = getattr(config, "workeroutput", None)
    if worker_output is not None:
        worker_output[_XDIST] = recorded.to_plain()
        return
    outcomes = _evaluate_if_asked(config, recorded)
    config.stash[_OUTCOMES] = outcomes
    gate_failed = _has_gate(config) and not all(outcome.good for outcome in outcomes)
    if gate_failed and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _close_systems(config: pytest.Config) -> None:
    """Close the systems of the session that can be closed."""
    for system in config.stash.get(_SYSTEMS, {}).values():
        close = getattr(system, "close", None)
        if callable(close):
            close()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    plain = getattr(node, "workeroutput", {}).get(_XDIST)
    if plain is not None and reports.active is not None:
        reports.active.add_plain(plain)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Write a table of the checks, a row per measure: mean, how many were scored, how many passed.
    Then write a line for each report or verdict.
    """
    recorded = reports.active
    report = config.getoption("--ragbench-report")
    outcomes = config.stash.get(_OUTCOMES, [])
    if recorded is None or not (recorded.checks or report or outcomes):
        return
    terminalreporter.section("ragbench")
    header = ("measure", "mean", "scored", "passed")
    for line in _aligned_lines([header, *reports.summary_rows(recorded.checks)]):
        terminalreporter.write_line(line)
    for outcome in outcomes:
        terminalreporter.write_line(outcome.line, red=not outcome.good)


def _aligned_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table as lines: the first column is left-aligned, the others (numbers) are
    right-aligned.
    """
    columns = []
    for number, cells in enumerate(zip(*rows, strict=True)):
        width = max(map(len, cells))
        columns.append([cell.rjust(width) if number else cell.ljust(width) for cell in cells])
    return ["  ".join(cells) for cells in zip(*columns, strict=True)]


def _has_gate(config: pytest.Config) -> bool:
    """Return True if the evaluation at the end of the session decides the exit status, too."""
    options = config.getoption("--ragbench-option")
    if not options:
        return False
    spec = evaluation.spec_of_texts(options)
    return bool(spec.fail_under) or spec.baseline is not None


def _evaluate_if_asked(config: pytest.Config, recorded: reports.Recorder) -> list[Outcome]:
    """Evaluate the answers that tests recorded, and return the lines to print about this.

    Nothing is evaluated, and [] returned, unless a report is asked for, or a gate: the option
    `fail_under`, a threshold that the session's answers have to reach.
    """
    report = config.getoption("--ragbench-report")
    has_loaded_system = bool(config.stash.get(_SYSTEMS, {}))  # by the fixture `rag_system`
    has_answers = bool(recorded.checks) or has_loaded_system
    is_gated = _has_gate(config) and has_answers  # other tests have nothing to gate
    if not (report or is_gated):
        return []
    # answers to cases that a test made itself have no source
    answers = {source: part for source, part in recorded.answers.items() if source is not None}
    if not answers:
        kind = "verdict" if is_gated else "report"
        line = (
            f"no {kind}: no assertion of ragbench.testing had a question of ragbench_case, or of a "
            "loaded dataset"
        )
        return [Outcome(line, good=not is_gated)]
    options = config.getoption("--ragbench-option")
    outcomes: list[Outcome] = []
    # under `-W error` no warning may prevent the report
    with warnings.catch_warnings(action="always", category=DataWarning):
        for source, path in _report_paths(report, list(answers)).items():
            outcomes += _evaluate_dataset(source, answers[source], options, path, is_gated=is_gated)
    return outcomes


def _report_paths(
    report: str, sources: Sequence[DatasetSource]
) -> dict[DatasetSource, Path | None]:
    """Return dataset -> the path of its report, None if no report is asked for ("").

    One dataset has its report at `report`. With several, each file has the number and the name of its
    dataset: report.html -> report-1-nfcorpus-test.html
    """
    if not report:
        return dict.fromkeys(sources)  # None for each
    path = Path(report)
    if len(sources) == 1:
        return {sources[0]: path}
    paths: dict[DatasetSource, Path | None] = {}
    for number, source in enumerate(sources, 1):
        # numbered, since test sets of two folders may have one name
        name = f"{path.stem}-{number}-{Path(source.name).stem}-{source.split}"
        paths[source] = path.with_name(name + path.suffix)
    return paths


def _evaluate_dataset(
    source: DatasetSource,
    answers: Mapping[str, Answer],
    options: Sequence[str],
    report_path: Path | None,
    *,
    is_gated: bool,
) -> Iterator[Outcome]:
    """Evaluate the recorded answers to the questions of one dataset, and yield lines about this.

    The first is the path of the report, or why there is none. With a gate, a second states whether
    the threshold is reached.

    Args:
        source: where the dataset is loaded from.
        answers: query_id -> answer.
        options: options of the evaluation, as NAME=VALUE.
        report_path: where the report is written; None writes none.
        is_gated: a threshold has to be reached.
    """
    from ragbench.report.page import banner, write_report

    try:
        data = _load_once(source).select(answers)
        spec = evaluation.spec_of_texts(["name=pytest", *options])
        result = evaluation.evaluate(data, list(answers.values()), spec)
        if report_path is not None:
            write_report(result, report_path, force=True)
    except (RagbenchError, OSError) as exc:
        missing = "report was written" if report_path else "verdict"
        yield Outcome(f"no {missing}: {exc}", good=False)
        return
    if report_path is not None:
        yield Outcome(f"report: {report_path}", good=True)
    if is_gated:
        word, sentence = banner(result)  # such as "failed", and which threshold is missed
        yield Outcome(f"{word.upper()}: {sentence}", good=result.passed)
