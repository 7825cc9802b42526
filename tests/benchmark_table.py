"""The table that `pytest -m benchmark` ends with: work, peer, ratio, goal, and whether it is held.

A test takes the fixture `benchmark`, names its peer with `benchmark.peer`, and hands over what it
measured with `benchmark.record`. `tests/conftest.py` takes the fixture and the hooks from here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from importlib import metadata

import pytest

PEAK_MEMORY = """
def peak_memory():
    from pathlib import Path
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])
"""
"""The source of a function for programs that a benchmark starts (Linux): the most memory that this
program has had, in kilobytes. The ru_maxrss of `resource` would include the process that started it.
"""

_PROPERTY = (
    "benchmark"  # reports carry properties to the process that prints, with pytest-xdist too
)
_COLUMNS = ("work", "peer", "ratio", "goal", "held")


class Benchmark:
    """What one test measured."""

    def __init__(self, record_property: Callable[[str, object], None]) -> None:
        self._record_property = record_property
        self._missed: list[str] = []

    def peer(self, work: str, package: str, backend: str = "") -> str:
        """Return the peer's name with the versions of the package and of its backend.

        Where one of them is not installed, the table says so, and the test is skipped.
        """
        named = f"{package} with {backend}" if backend else package
        versions = []
        for name in filter(None, (package, backend)):
            try:
                versions.append(f"{name} {metadata.version(name)}")
            except metadata.PackageNotFoundError:
                self._add(work, named, "not installed", "", "-")
                pytest.skip(f"{work}: the peer {name} is not installed: pip install {name}")
        return " with ".join(versions)

    def record(
        self,
        work: str,
        peer: str,
        ratio: float,
        *,
        at_most: float | None = None,
        at_least: float | None = None,
        bound: float | None = None,
        unit: str = "",
    ) -> None:
        """Add a line to the table.

        `ratio` is what the work took, divided by what its peer took, or a value in `unit` where
        there is no peer ("-"). `at_most` or `at_least` is its goal; with neither there is none.
        After its last line the test fails if a goal is not held. A goal that is not reached yet has
        a `bound`: the test fails beyond that instead, and the table says that the goal is not held.
        """
        goal = ""
        held = "-"
        within = True
        if at_most is not None:
            goal = f"<= {_number(at_most)}"
            held = "yes" if ratio <= at_most else "no"
            within = ratio <= (at_most if bound is None else bound)
        if at_least is not None:
            goal = f">= {_number(at_least)}"
            held = "yes" if ratio >= at_least else "no"
            within = ratio >= (at_least if bound is None else bound)
        measured = f"{_number(ratio)} {unit}".rstrip()
        self._add(work, peer, measured, goal, held)
        if not within:
            beyond = "" if bound is None else f", bound {_number(bound)}"
            self._missed.append(f"{work}, peer {peer}: {measured}, goal {goal}{beyond}")

    def check(self) -> None:
        """Raise AssertionError with every line beyond its bound."""
        if self._missed:
            raise AssertionError("not held:\n" + "\n".join(self._missed))

    def _add(self, *line: str) -> None:
        self._record_property(_PROPERTY, list(line))


def _number(value: float) -> str:
    """Write a number with three digits, and without an exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def lines_of(reports: Iterable[pytest.TestReport]) -> list[list[str]]:
    """Return the lines of all tests in the order in which the tests ended.

    Each test has three reports; the last one, of its teardown, has all of its lines.
    """
    lines = []
    for report in reports:
        if getattr(report, "when", None) != "teardown":
            continue
        for name, line in report.user_properties:
            if name == _PROPERTY:
                assert isinstance(line, list)
                lines.append(line)
    return lines


def as_text(lines: list[list[str]]) -> str:
    """Return the table with aligned columns."""
    rows = [list(_COLUMNS), *lines]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    texts = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        texts.append("  ".join(cells).rstrip())
    return "\n".join(texts)


@pytest.fixture
def benchmark(
    record_property: Callable[[str, object], None], monkeypatch: pytest.MonkeyPatch
) -> Benchmark:
    """Take what a benchmark measured into the table at the end.

    The processes that it starts keep their bytecode, as those of an installed ragbench do: without
    it each of them would compile our modules again, and none of the peer's.
    """
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    return Benchmark(record_property)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Fail a test that has run to its end and does not hold its goals."""
    done = yield
    found = pyfuncitem.funcargs.get("benchmark")
    if isinstance(found, Benchmark):
        found.check()
    return done


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table, if any test has a line in it."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    lines = lines_of(reports)
    if lines:
        terminalreporter.section("benchmarks")
        terminalreporter.write_line(as_text(lines))
