"""Targets of measures and thresholds for single questions: how files, presets, --targets and
--fail-under are read and merged, and when a target is reached; the defaults are in
metrics/targets.toml.

The defaults are in `ragbench/metrics/targets.toml`, the defaults of published designs in
presets.toml next to this file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError, check_known, unknown
from ragbench.files import bundled, read_toml
from ragbench.hints.attributes import suggesting
from ragbench.metrics.overall import (
    DECIDABLE,
    DEFAULTS,
    WEIGHTS,
    check_thresholds,
    check_weights,
    is_number,
)
from ragbench.metrics.system_outcomes import is_latency_measure
from ragbench.registry import check_limit, higher_is_better, measure_of

_TABLES = ("targets", "cases", "weights")
_Tables = dict[str, dict[str, float | None]]
"""Table -> measure or part -> its number, None for false."""

_PARTS = {"cases": DECIDABLE, "weights": WEIGHTS}
_COVERAGE = "RAG__MIN_CITATION_COVERAGE"
_SLACK = 1e-9  # the mean of a hundred values of 0.7 is not 0.7 to the last bit


@suggesting()
@dataclass(frozen=True, slots=True)
class Targets:
    """`measures` is measure -> target of its mean, `cases` part of an answer -> its threshold in
    one case, `weights` part -> how much it counts in the overall.

    `gates` are the measures that `--fail-under` names: they must be measured, and they must be
    reachable. `defaults` are the measures whose target is ragbench's own and not one that the user
    named. `preset` is the published design whose targets these are, "" for ragbench's own.
    """

    measures: Mapping[str, float]
    cases: Mapping[str, float]
    gates: frozenset[str] = frozenset()
    defaults: frozenset[str] = frozenset()
    weights: Mapping[str, float] = field(default_factory=lambda: WEIGHTS)
    preset: str = ""

    @property
    def named(self) -> tuple[str, ...]:
        """Return the measures whose target the user named, in alphabetical order: each is computed
        and reported.

        >>> load_targets().gated("F1@7=0.5").named
        ('F1@7',)
        """
        return tuple(sorted(set(self.measures) - self.defaults))

    def gated(self, fail_under: str | Mapping[str, float]) -> Targets:
        """Return these targets with gates added: measures that must reach a value, or the run fails.

        `fail_under` is "nDCG@5=0.6,claim_support=0.85", or a mapping of the same. For a measure of
        which lower is better, the number is the maximum.

        >>> targets = load_targets().gated("Recall@5=0.8")
        >>> targets.measures["R@5"], targets.measures["nDCG@5"], sorted(targets.gates)
        (0.8, 0.6, ['R@5'])

        Raises:
            ConfigError: a measure is unknown, or a value is not a number.
        """
        gates = _gates(_pairs(fail_under) if isinstance(fail_under, str) else fail_under.items())
        return replace(
            self,
            measures={**self.measures, **gates},
            gates=self.gates | gates.keys(),
            defaults=self.defaults - gates.keys(),
        )

    def without_defaults_for(self, names: Iterable[str]) -> Targets:
        """Return the targets without ragbench's defaults for these measures; targets of the user
        are kept.
        """
        gone = self.defaults.intersection(names)
        measures = {name: self.measures[name] for name in self.measures if name not in gone}
        return replace(self, measures=measures, defaults=self.defaults - gone)

    def for_wordings(self, meanings: Mapping[str, str]) -> Targets:
        """Return these targets, with targets added for a user's own wordings of judged measures.

        A wording gets ragbench's own target of the measure that it words anew, unless it has a target.

        Args:
            meanings: measure of the wording -> the measure that it words anew.
        """
        further = {}
        for measure, meant in meanings.items():
            if meant in self.defaults and measure not in self.measures:
                further[measure] = self.measures[meant]
        measures = {**self.measures, **further}
        return replace(self, measures=measures, defaults=self.defaults | further.keys())


def load_targets(path: Mapping[str, float] | str | Path | None = None) -> Targets:
    """Return ragbench's default targets with the changes of a mapping, a TOML file or a preset.

    Args:
        path: one of these; None keeps the defaults.

            - A mapping measure -> number.
            - A file with the tables [targets] (measure = number, or false for no target), [cases] and
              [weights] (false is 0). It may begin with `preset = "guide"`.
            - The name of a preset ("framework", "guide", "phase4", "adr", "pipeline"): the default
              targets of a published design, in place of ragbench's own.

    >>> load_targets().measures["nDCG@5"]
    0.6
    >>> load_targets("adr").measures
    {'R@10': 0.8, 'llm_correctness': 1.0}

    Raises:
        ConfigError: a missing file, invalid TOML, an unknown table or measure, a value that is not
            a number; every error of a file is named.
    """
    tables = _tables(DEFAULTS, "targets.toml")
    defaults = set(tables["targets"])
    preset = ""
    if path is not None:
        presets = bundled(__file__, "presets.toml")
        data = _read_targets(path, presets)
        if "preset" in data:
            preset_tables = _preset(data["preset"], presets, str(path))
            preset = str(data.pop("preset"))
            tables["targets"] = {}  # the preset's targets are in place of ragbench's own
            defaults = set()
            tables = _changed(tables, preset_tables)
        changes = _tables(data, str(path))
        tables = _changed(tables, changes)
        defaults -= changes["targets"].keys()
    return _targets_of(tables, defaults, preset)


def _read_targets(
    path: Mapping[str, float] | str | Path, presets: Mapping[str, Any]
) -> dict[str, Any]:
    """Return targets in the form of a TOML file's content: table -> its entries.

    `path` is the file, a mapping of targets ({"R@5": 0.8} -> {"targets": {"R@5": 0.8}}) or the name
    of a preset ("guide" -> {"preset": "guide"}). `presets` has all presets by name.
    """
    if isinstance(path, Mapping):
        return {"targets": dict(path)}
    if str(path) in presets:
        return {"preset": str(path)}
    expected = f"expected a TOML file of targets, or one of {', '.join(presets)}"
    return dict(read_toml(Path(path), expected))


def _changed(tables: _Tables, changes: _Tables) -> _Tables:
    """Return the tables with the entries of `changes` added or replaced."""
    return {name: tables[name] | changes[name] for name in _TABLES}


def _targets_of(tables: _Tables, defaults: set[str], preset: str) -> Targets:
    """Return the targets from the tables of a file: "weights", "targets" and "cases" (thresholds that an
    answer must reach to pass).

    The value None, false in the file, means: 0 for a weight, no target for a measure. A threshold
    cannot be None.

    Args:
        tables: name of a table -> its entries.
        defaults: the measures whose targets were ragbench's own, and were not changed.
        preset: the name of the preset that the tables come from; "" if none.

    Raises:
        ConfigError: a weight or a threshold is out of range, or a threshold is None.
    """
    weights = {name: value or 0.0 for name, value in tables["weights"].items()}
    check_weights(weights)
    measures = {name: value for name, value in tables["targets"].items() if value is not None}
    cases = {name: value for name, value in tables["cases"].items() if value is not None}
    switched_off = tables["cases"].keys() - cases.keys()
    if switched_off:
        raise ConfigError(
            f"[cases] {min(switched_off)} = false; a threshold of 0 (of hallucination, 1) lets every answer pass"
        )
    check_thresholds(cases)
    remaining_defaults = frozenset(defaults & measures.keys())  # without those switched off
    return Targets(measures, cases, defaults=remaining_defaults, weights=weights, preset=preset)


def verdict(
    value: float | None,
    target: float | None,
    *,
    ceiling: float | None = None,
    lower_is_better: bool = False,
) -> str:
    """Return how a value compares with its target: "passed", "missed", "unreachable", "unscored" or
    "no target".

    A value that equals its target has reached it. A target beyond the ceiling is unreachable, for
    any value.

    >>> verdict(0.62, 0.6), verdict(0.1, 0.2, lower_is_better=True), verdict(0.4, 0.9, ceiling=0.8), verdict(None, 1)
    ('passed', 'passed', 'unreachable', 'unscored')
    """
    if target is None:
        return "no target"
    if value is None:
        return "unscored"
    if ceiling is not None and not reaches(ceiling, target, lower_is_better):
        return "unreachable"
    return "passed" if reaches(value, target, lower_is_better) else "missed"


def check_measure(name: str) -> str:
    """Return the registered name of a measure that can have a target, "R@5" for "recall@5".

    >>> check_measure("ndcg@5"), check_measure("latency_p95_ms")
    ('nDCG@5', 'latency_p95_ms')

    Raises:
        ConfigError: it is not known, or no evaluation reports it.
    """
    measure = measure_of(name)
    is_in_ms = measure.name.startswith("latency_") and measure.name.endswith("_ms")
    # a time of one stage, such as latency_generate_ms, is not reported as a measure
    is_of_stage = is_in_ms and not is_latency_measure(measure.name)
    if not measure.perspective or is_of_stage:
        raise ConfigError(
            f"{name} can have no target: no evaluation reports it; ragbench eval -v shows all it "
            "reports"
        )
    return measure.name


def reaches(value: float, target: float, lower_is_better: bool) -> bool:
    """Return True if a value is as good as its target."""
    return value <= target + _SLACK if lower_is_better else value >= target - _SLACK


def check_reachable(targets: Targets, ceilings: Mapping[str, float]) -> None:
    """Refuse a gate above the best value that any system could reach on this test set: `ceilings` is
    measure -> that value.

    Raises:
        ConfigError: naming the measures and their ceilings.
    """
    beyond = []
    for name in sorted(targets.gates & set(ceilings)):
        target = targets.measures[name]
        lower_is_better = not higher_is_better(name)
        if not reaches(ceilings[name], target, lower_is_better):
            bound = "least" if lower_is_better else "most"
            beyond.append(f"{name}={target:g} (at {bound} {ceilings[name]:.3f} can be reached)")
    if beyond:
        raise ConfigError(
            f"--fail-under could never pass on this test set: {', '.join(beyond)}; name a "
            "reachable value"
        )


def check_gates_measured(gates: Iterable[str], unscored: Iterable[str]) -> None:
    """Refuse to pass a gate that was never measured.

    Raises:
        ConfigError: naming the gates without any value.
    """
    if lacking := sorted({*gates} & {*unscored}):
        raise ConfigError(
            f"--fail-under names {', '.join(lacking)}, of which nothing could be measured here: "
            "the test set has no labels for it, or the system gave nothing to score; see the "
            "perspectives in the report"
        )


def _preset(name: object, presets: Mapping[str, Any], where: str) -> _Tables:
    """Return the tables of a preset (targets, cases, weights). An environment variable may change the
    target of "citation_coverage" in the preset "guide".

    Args:
        name: of the preset.
        presets: name -> its tables.
        where: the file that names it, for an error message.
    """
    if name not in presets:
        raise ConfigError(f"{where}: {unknown('preset', name, presets)}")
    tables = _tables(presets[str(name)], "presets.toml")
    if name == "guide" and (coverage := os.environ.get(_COVERAGE)):
        if not re.fullmatch(r"0?\.\d+|[01](\.0*)?", coverage):
            raise ConfigError(
                f"{_COVERAGE} is {coverage!r}; expected a number from 0 to 1, such as 0.7"
            )
        tables["targets"]["citation_coverage"] = float(coverage)
    return tables


def _tables(data: Mapping[str, Any], where: str) -> _Tables:
    """Return the tables in the content of a file (`where`), checked; a missing table is empty. A value
    is None where the file has false.

    Raises:
        ConfigError: a table, a name or a value is invalid; the message names every error.
    """
    problems: list[str] = []
    tables: _Tables = {name: {} for name in _TABLES}
    for table, entries in data.items():
        if table not in _TABLES:
            problems.append(unknown("table", table, _TABLES))
            continue
        if not isinstance(entries, dict):
            problems.append(f"{table} is {entries!r}; expected a table [{table}]")
            continue
        for name, value in entries.items():
            try:
                registered_name = _check_entry(table, name)
                if registered_name in tables[table]:
                    raise ConfigError(f"{name} is given twice")
                tables[table][registered_name] = number = _number(name, value)
                if table == "targets" and number is not None:
                    check_limit(registered_name, number)
            except ConfigError as exc:
                problems.append(f"[{table}] {exc}")
    if problems:
        raise ConfigError(f"{where}: {'; '.join(problems)}")
    return tables


def _check_entry(table: str, name: str) -> str:
    """Return the registered name of a measure in [targets], and the name of a part in another table as
    it is; ConfigError if it is not known.
    """
    if table == "targets":
        return check_measure(name)
    check_known("part", _PARTS[table], name)
    return name


def _number(name: str, value: object) -> float | None:
    """Return a value in a file of targets as a number; None for false, ConfigError for any other."""
    if value is False:
        return None
    if not is_number(value):
        raise ConfigError(f"{name} = {value!r}; expected a finite number, or false for no target")
    return float(value)


def _pairs(text: str) -> list[tuple[str, float]]:
    """Return the measures and numbers in a text such as "nDCG@5=0.6,claim_support=0.85"; [] for a text
    of white space.
    """
    pairs = []
    for part in filter(None, map(str.strip, text.split(","))):
        match = re.fullmatch(r"(\S.*?)\s*=\s*(\S+)", part)
        if match is None:
            raise ConfigError(
                f'--fail-under: {part!r} is not a target; write "nDCG@5=0.6,claim_support=0.85"'
            )
        try:
            pairs.append((match[1], float(match[2])))
        except ValueError:
            raise ConfigError(
                f"--fail-under: {match[2]!r} in {part!r} is not a number; write {match[1]}=0.6"
            ) from None
    if text.strip() and not pairs:
        raise ConfigError(
            f'--fail-under {text!r} names no measure; write "nDCG@5=0.6,claim_support=0.85"'
        )
    return pairs


def _gates(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return measure -> the value that it must reach, from pairs of `--fail-under`.

    Raises:
        ConfigError: a measure is unknown or named twice, or a value is not a number within its bounds.
    """
    gates: dict[str, float] = {}
    for name, value in pairs:
        if not is_number(value):
            raise ConfigError(f"--fail-under: {name}={value!r}; expected a finite number")
        measure = check_measure(name)
        if measure in gates:
            raise ConfigError(f"--fail-under names {measure} twice; give it once")
        check_limit(measure, value)
        gates[measure] = float(value)
    return gates
