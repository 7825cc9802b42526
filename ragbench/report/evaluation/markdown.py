"""report.md: for a pull request, a wiki, a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ragbench.errors import printable
from ragbench.evaluation.records import Report
from ragbench.report.evaluation.forest import CHANGE_SIGNS, forest_lines, shown_changes
from ragbench.report.evaluation.sentences import (
    COST_HEADS,
    NEEDED,
    SIGNS,
    aim,
    at_a_time,
    banner,
    cost_rows,
    depth_table,
    doubtful_claims,
    failed_cases,
    figures,
    interval,
    needed,
    number,
    plural,
    shown_measures,
    signed,
    sureness,
)
from ragbench.statistics import p_text

_CASES = 50
_CLAIMS = 50
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
    lines += ["", *(f"- {word}: {_text(text)}." for word, text in figures(report))]
    parts = (
        _measures, _depths, _comparison, _advice, _categories, _failed, _claims, _costs, _latency, _safety, _made,
    )  # fmt: skip
    for part in parts:
        if section := part(report):
            lines += ["", *section]
    return "\n".join(lines) + "\n"


def _counts(report: Report) -> str:
    parts = [plural(report.test_set.questions, "question"), plural(report.test_set.documents, "document")]
    if samples := report.test_set.safety_inputs + report.test_set.safety_outputs:
        parts.append(plural(samples, "safety sample"))
    return ", ".join(parts)


def _measures(report: Report) -> list[str]:
    rows, unmeasured = [], []
    table = shown_measures(report)
    for perspective in report.perspectives:
        if not perspective.measured:
            unmeasured.append(f"- {perspective.name}: not measured: {_text(perspective.reason)}")
        elif perspective.note and perspective.name in ("groundedness", "answer", "overall"):
            unmeasured.append(f"- {perspective.name}: {_text(perspective.note)}")
        elif perspective.warning:
            unmeasured.append(f"- {perspective.name}: {_text(perspective.warning)}")
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


def _depths(report: Report) -> list[str]:
    ks, rows = depth_table(report)
    heads = ("measure", *(f"k = {k}" for k in ks))
    cells = [(_text(name), *values) for name, values in rows]
    return ["## Ranking by depth", "", *_table(heads, cells, "l" + "r" * len(ks))] if rows else []


def _comparison(report: Report) -> list[str]:
    found = report.comparison
    if found is None:
        return []
    lines = [f"## Against the baseline {_text(found.baseline)}", ""]
    changes = shown_changes(report)
    rows = [
        (
            _text(one.measure),
            number(one.baseline),
            number(one.contender),
            signed(one.difference),
            interval(one.ci_low, one.ci_high),
            p_text(one.p_value),
            p_text(one.p_adjusted),
            f"{one.better} / {one.worse} of {one.n}",
            needed(one),
            _text(f"{CHANGE_SIGNS.get(one.verdict, '·')} {one.verdict}"),
        )
        for one in changes
    ]
    if rows:
        heads = ("measure", "baseline", "now", "difference", "95 % interval", "p", "p (Holm)", "better / worse")
        lines += [*_table((*heads, "n needed", "verdict"), rows, "lrrrlrrrrl"), "", f"{NEEDED}.", ""]
    if plot := forest_lines(changes):
        lines += ["```text", *plot, "```", ""]
    lines += [f"- {_text(note)}" for note in found.notes]
    for flips in found.pass_fail:
        p = "" if flips.p_value is None else f", McNemar p {p_text(flips.p_value, '= ')} (Holm)"
        counts = f"{len(flips.broken)} newly failing, {len(flips.mended)} fixed of {flips.n}"
        if lines[-1]:
            lines.append("")
        lines += [f"{_text(flips.what.capitalize())}: {counts}{p}: {_text(flips.verdict)}.", ""]
        for word, cases in (("newly failing", flips.broken), ("fixed", flips.mended)):
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


def _claims(report: Report) -> list[str]:
    found = doubtful_claims(report)
    if not found:
        return []
    rows = [(_text(case.query_id), found_by, _text(text)) for case, found_by, text in found[:_CLAIMS]]
    more = ["", f"{len(found) - _CLAIMS} more in report.json."] if len(found) > _CLAIMS else []
    heads = ("question", "found by", "claim or number")
    return ["## Claims that no context supports", "", *_table(heads, rows, "lll"), *more]


def _costs(report: Report) -> list[str]:
    rows = [tuple(map(_text, row)) for row in cost_rows(report.costs, len(report.cases))]
    return ["## Cost", "", *_table(COST_HEADS, rows, "llrrrrrr")] if rows else []


def _latency(report: Report) -> list[str]:
    rows = [
        (
            _text(one.stage),
            f"{one.n} {at_a_time(one.concurrency)}",
            *map(number, (one.mean, one.p50, one.p95, one.p99, one.budget)),
            _text(one.verdict) or "–",
        )
        for one in report.made.latency
    ]
    heads = ("stage", "timed", "mean", "p50", "p95", "p99", "budget", "verdict")
    return ["## Latency in milliseconds", "", *_table(heads, rows, "llrrrrrl")] if rows else []


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
    heads = ("kind", "figure", "part", "value", "95 % interval", "n")
    note = next((one.note for one in report.perspectives if one.name == "safety" and one.note), "")
    about = [f"{_text(note)}. Rows of kind system are about the system under test.", ""] if note else []
    return ["## Safety", "", *about, *_table(heads, rows, "lllrlr")] if rows else []


def _made(report: Report) -> list[str]:
    version = report.made.environment.get("ragbench", "")
    parts = [f"fingerprint {report.test_set.fingerprint[:12]}"]
    parts += [f"ragbench {version}"] if version else []
    parts += [report.made.at] if report.made.at else []
    return ["---", _text(", ".join(parts)) + "; settings, versions and every case are in report.json."]


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], sides: str) -> list[str]:
    rules = ["---:" if side == "r" else "---" for side in sides]
    return ["| " + " | ".join(cells) + " |" for cells in (heads, rules, *rows)]


def _text(text: str) -> str:
    return _MARKUP.sub(r"\\\1", printable(text))
