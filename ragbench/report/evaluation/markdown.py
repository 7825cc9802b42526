"""report.md: for a pull request, a wiki, a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ragbench.errors import printable
from ragbench.report.evaluation.records import Report
from ragbench.report.evaluation.sentences import (
    SIGNS,
    aim,
    banner,
    change_sentence,
    failed_cases,
    interval,
    listed,
    number,
    plural,
    shown_measures,
    sureness,
)

_CASES = 50
_FLIPS = 20
# What would be markup of Markdown or HTML is escaped: questions and answers are data. "_" inside a word is none.
_MARKUP = re.compile(r"([\\`*{}\[\]<>#|~&$]|(?<![^\W_])_|_(?![^\W_]))")


def report_markdown(report: Report) -> str:
    """The report as Markdown: verdict, measures by perspective, comparison, advice, categories, failed cases."""
    word, sentence = banner(report)
    lines = [
        f"# Evaluation: {_text(report.name)}",
        "",
        f"**{word.upper()}.** {_text(sentence)}",
        "",
        f"{_text(report.test_set.name)} ({_text(report.test_set.split)}): {_counts(report)}. System: "
        f"{_text(str(report.system.get('name', '')))}.",
    ]
    for part in (_measures, _comparison, _advice, _categories, _failed, _latency, _safety, _made):
        if said := part(report):
            lines += ["", *said]
    return "\n".join(lines) + "\n"


def _counts(report: Report) -> str:
    said = [plural(report.test_set.questions, "question"), plural(report.test_set.documents, "document")]
    if samples := report.test_set.safety_inputs + report.test_set.safety_outputs:
        said.append(plural(samples, "safety sample"))
    return ", ".join(said)


def _measures(report: Report) -> list[str]:
    rows, unmeasured = [], []
    table = shown_measures(report)
    for perspective in report.perspectives:
        if not perspective.measured:
            unmeasured.append(f"- {perspective.name}: not measured: {_text(perspective.reason)}")
        for row in table[perspective.name]:
            verdict = f"{SIGNS[row.verdict]} {row.verdict}" + (" (not sure)" if sureness(row) else "")
            scored = f"{row.n_scored}/{row.n}"
            bounds = interval(row.ci_low, row.ci_high)
            target = aim(row.target, row.lower_is_better)
            rows.append(
                (
                    perspective.name,
                    _text(row.measure),
                    number(row.value),
                    bounds,
                    number(row.ceiling),
                    target,
                    verdict,
                    scored,
                )
            )
    heads = ("perspective", "measure", "value", "95 % interval", "ceiling", "target", "verdict", "scored")
    return ["## Measures", "", *_table(heads, rows, "llrlrllr"), *([""] if unmeasured else []), *unmeasured]


def _comparison(report: Report) -> list[str]:
    found = report.comparison
    if found is None:
        return []
    lines = [f"## Against the baseline {_text(found.baseline)}", ""]
    groups = ("regression", "improvement")
    for verdict in groups:
        lines += [f"- **{verdict}** {_text(change_sentence(one))}" for one in found.changes if one.verdict == verdict]
    still = [one.measure for one in found.changes if one.verdict not in groups]
    if still:
        lines.append(f"- no difference shown: {_text(listed(still, 40))}")
    lines += [f"- {_text(note)}" for note in found.notes]
    for flips in found.pass_fail:
        p = "" if flips.p_value is None else f", McNemar p = {flips.p_value:.3f} (Holm)"
        counts = f"{len(flips.broken)} broken, {len(flips.mended)} mended of {flips.n}"
        if lines[-1]:
            lines.append("")
        lines += [f"{_text(flips.what.capitalize())}: {counts}{p}: {_text(flips.verdict)}.", ""]
        for word, cases in (("broken", flips.broken), ("mended", flips.mended)):
            for one in cases[:_FLIPS]:
                reasons = f" ({_text('; '.join(one.reasons))})" if one.reasons else ""
                lines.append(f"- {word}: {_text(one.query_id)} {_text(one.question)}{reasons}".rstrip())
            if len(cases) > _FLIPS:
                lines.append(f"- {word}: {len(cases) - _FLIPS} more in report.json")
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _advice(report: Report) -> list[str]:
    if not report.advice:
        return []
    lines = ["## What to try", ""]
    for i, one in enumerate(report.advice, 1):
        lines.append(f"{i}. **{_text(one.title)}**")
        lines += [f"   - Likely cause: {_text(one.cause)}", f"   - Try: {_text(one.action)}"]
        lines.append(f"   - Figures: {_text('; '.join(one.evidence))}")
    return lines


def _categories(report: Report) -> list[str]:
    if not report.categories:
        return []
    rows = [
        (
            _text(one.category or "no category"),
            str(one.questions),
            number(one.pass_rate),
            interval(one.ci_low, one.ci_high),
            f"{one.n_scored}/{one.questions}",
        )
        for one in report.categories
    ]
    heads = ("category", "questions", "passed", "95 % interval", "scored")
    return ["## Categories", "", *_table(heads, rows, "lrrlr")]


def _failed(report: Report) -> list[str]:
    failed = failed_cases(report)
    decided = sum(case.passed is not None for case in report.cases)
    if not failed:
        return []
    lines = [f"## Failed questions ({len(failed)} of {decided})", ""]
    for case in failed[:_CASES]:
        lines.append(f"- **{_text(case.query_id)}** {_text(case.question)}")
        lines += [f"  - {_text(reason)}" for reason in case.reasons]
    if len(failed) > _CASES:
        lines.append(f"- {len(failed) - _CASES} more in report.json")
    return lines


def _latency(report: Report) -> list[str]:
    rows = [
        (_text(one.stage), str(one.n), *map(number, (one.p50, one.p95, one.p99, one.budget)), _text(one.verdict) or "–")
        for one in report.made.latency
    ]
    heads = ("stage", "timed", "p50", "p95", "p99", "budget", "verdict")
    return ["## Latency in milliseconds", "", *_table(heads, rows, "lrrrrrl")] if rows else []


def _safety(report: Report) -> list[str]:
    rows = [
        (
            one.kind,
            _text(one.measure),
            _text(one.part),
            number(one.value),
            interval(one.ci_low, one.ci_high),
            str(one.n),
        )
        for one in report.safety
    ]
    heads = ("samples", "figure", "part", "value", "95 % interval", "n")
    return ["## Safety", "", *_table(heads, rows, "lllrlr")] if rows else []


def _made(report: Report) -> list[str]:
    version = report.made.environment.get("ragbench", "")
    said = [f"fingerprint {report.test_set.fingerprint[:12]}"]
    said += [f"ragbench {version}"] if version else []
    said += [report.made.at] if report.made.at else []
    return ["---", _text(", ".join(said)) + "; settings, versions and every case are in report.json."]


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], sides: str) -> list[str]:
    rules = ["---:" if side == "r" else "---" for side in sides]
    return ["| " + " | ".join(cells) + " |" for cells in (heads, rules, *rows)]


def _text(text: str) -> str:
    return _MARKUP.sub(r"\\\1", printable(text))
