"""What `ragbench eval` shows on the console: the table of measures, the verdict, what changed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ragbench.errors import printable
from ragbench.evaluation.records import Flip, Report
from ragbench.report.evaluation import (
    CHANGE_SIGNS,
    NEEDED,
    SIGNS,
    aim,
    banner,
    brief_measures,
    change_sentence,
    doubtful_claims,
    failed_cases,
    figures,
    forest_lines,
    interval,
    needed,
    number,
    plural,
    shown_changes,
    shown_measures,
    signed,
    sureness,
)
from ragbench.statistics import p_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

_COLOURS = {
    "passed": "green", "missed": "red", "unreachable": "magenta", "unscored": "yellow", "regression": "red",
    "improvement": "green",
}  # fmt: skip
_CASES, _WIDTH = 5, 110
_WIDE = 100  # columns from which the table has room for everything


def console_of() -> Console:
    """Standard output; where it is not a terminal, as wide as COLUMNS, or else 110 columns."""
    from rich.console import Console

    console = Console(highlight=False)
    if console.is_terminal or os.environ.get("COLUMNS", "").isdecimal():
        return console
    return Console(highlight=False, width=_WIDTH)


def error_console() -> Console:
    """Standard error."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def print_report(report: Report, *, verbose: bool = False, console: Console | None = None) -> None:
    """Targets, headline measures, what changed, failed cases, and the verdict last, where eyes are.

    `verbose` shows every measure, failed case, doubtful claim and advice. Without any target or baseline there is no
    verdict, and no line for it.
    """
    from rich.text import Text

    out = console or console_of()
    _print_table(report, verbose, out)
    _print_figures(report, verbose, out)
    _print_comparison(report, verbose, out)
    failed = failed_cases(report)
    shown = failed if verbose else failed[:_CASES]
    if shown:
        out.print(Text(f"Failed: {len(failed)} of {plural(len(report.cases), 'question')}", style="bold"))
    for case in shown:
        out.print(Text(f"  {printable(f'{case.query_id}  {case.question}')}"), no_wrap=not verbose, overflow="ellipsis")
        for reason in case.reasons:
            out.print(Text(f"      {printable(reason)}", style="dim"))
    if len(failed) > len(shown):
        out.print(Text(f"  and {len(failed) - len(shown)} more (-v shows all)", style="dim"))
    for advice in report.advice if verbose else report.advice[:1]:
        out.print(Text.assemble(("Advice: ", "bold"), f"{advice.title}. Try: {advice.action}"))
        if verbose:
            out.print(Text(f"  likely cause: {advice.cause}", style="dim"))
        out.print(Text(f"  rests on: {printable('; '.join(advice.evidence))}", style="dim"))
    word, sentence = banner(report)
    if word != "no verdict" or len(report.cases) != 1:
        _print_verdict(word, sentence, out)


def print_found(report: Report, expected: Sequence[str], console: Console | None = None) -> bool:
    """Whether a single question found what was expected among the first 5, in a sentence; True without expectation."""
    found = not expected or report.cases[0].scores.get("Success@5") != 0
    if expected:
        where = "is" if found else "is not"
        sentence = f"{printable(' or '.join(expected))} {where} among the first 5 documents retrieved."
        _print_verdict("passed" if found else "failed", sentence, console or console_of())
    return found


def _print_verdict(word: str, sentence: str, out: Console) -> None:
    from rich.text import Text

    colour = {"passed": "green", "failed": "red"}.get(word, "yellow")
    out.print(Text.assemble((word.upper(), f"bold {colour}"), f": {sentence}"))


def print_answer(report: Report, console: Console | None = None) -> None:
    """One question: its answer and what was retrieved, with the expected documents marked."""
    from rich.text import Text

    out, case = console or console_of(), report.cases[0]
    out.print(Text.assemble(("Question: ", "bold"), printable(case.question)))
    out.print(Text.assemble(("Answer:   ", "bold"), printable(case.answer) or "(none)", (f"  [{case.outcome}]", "dim")))
    out.print(Text("Context:  ", style="bold"), Text(printable(", ".join(case.retrieved)) or "nothing retrieved"))
    if case.relevant:
        rank = _rank(report)
        where = f"the first one is at rank {rank}" if rank else "none of them was retrieved"
        out.print(Text.assemble(("Expected: ", "bold"), f"{printable(', '.join(case.relevant))}; {where}"))


def _rank(report: Report) -> int | None:
    reciprocal = report.cases[0].scores.get("RR")
    return round(1 / reciprocal) if reciprocal else None


def _table(heads: Sequence[str], left: Sequence[str]) -> Table:
    """A table without borders whose cells are never cut: only its first column, the name, is folded."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for head in heads:
        name = head == "measure"
        side = "left" if head in left else "right"
        table.add_column(head, justify=side, no_wrap=not name, overflow="fold", min_width=8 if name else None)  # type: ignore[arg-type]
    return table


def _print_table(report: Report, verbose: bool, out: Console) -> None:
    from rich.text import Text

    wide = out.width >= _WIDE
    heads = ["measure", "value", "95 % interval", *(["ceiling"] if wide else []), "target", "verdict", "scored"]
    table = _table(heads, ("measure", "verdict"))
    rows = shown_measures(report, every=True) if verbose else brief_measures(report)
    unsure = False
    for one in report.perspectives:
        if not one.measured or not rows[one.name]:
            continue
        table.add_row(Text(one.name, style="bold cyan"))
        for row in rows[one.name]:
            word = Text("" if row.verdict == "no target" else f"{SIGNS[row.verdict]} {row.verdict}")
            word.stylize(_COLOURS.get(row.verdict, ""))
            if sureness(row):
                word.append(" (?)", style="dim")
                unsure = True
            cells: list[str | Text] = [
                Text(f"  {row.measure}"),
                number(row.value),
                Text(interval(row.ci_low, row.ci_high), style="dim"),
                *([Text(number(row.ceiling), style="dim")] if wide else []),
                aim(row.target, row.lower_is_better),
                word,
                f"{row.n_scored}/{row.n}",
            ]
            table.add_row(*cells)
    out.print(table)
    if unsure:
        out.print(Text("(?) not sure: the target lies in the interval", style="dim"))
    for one in report.perspectives:
        if note := one.note if one.measured else f"not measured: {one.reason}":
            out.print(Text.assemble((one.name, "bold cyan"), f": {printable(note)}"))
        if one.measured and one.warning:
            out.print(Text.assemble((one.name, "bold cyan"), (f": {printable(one.warning)}", "yellow")))


def _print_figures(report: Report, verbose: bool, out: Console) -> None:
    from rich.text import Text

    for word, text in figures(report):
        if verbose or word != "Chunks":
            out.print(Text.assemble((f"{word}: ", "bold"), printable(text)))
    claims = [one for one in doubtful_claims(report) if verbose or one[1] == "judge"]
    for case, found_by, text in claims if verbose else claims[:_CASES]:
        line = printable(f"{case.query_id}, by {found_by}: {text}")
        out.print(Text(f"  {line}", style="dim"), no_wrap=not verbose, overflow="ellipsis")
    if len(claims) > _CASES and not verbose:
        out.print(Text(f"  and {len(claims) - _CASES} more (-v shows all)", style="dim"))


def _print_comparison(report: Report, verbose: bool, out: Console) -> None:
    from rich.text import Text

    if (found := report.comparison) is None:
        return
    out.print(Text(f"Against {printable(found.baseline)}:", style="bold"))
    changes = shown_changes(report, every=verbose)
    for change in changes:
        if change.verdict in CHANGE_SIGNS:
            line = f"  {CHANGE_SIGNS[change.verdict]} {change.verdict}: {change_sentence(change)}"
            out.print(Text(line, style=_COLOURS[change.verdict]))
    if not any(change.verdict in CHANGE_SIGNS for change in found.changes):
        out.print(Text("  no measure differs by more than chance would explain"))
    if changes:
        table = _table(["measure", "baseline", "now", "difference", "95 % interval", "p", "n needed"], ["measure"])
        for one in changes:
            style = _COLOURS.get(one.verdict, "")
            bounds = interval(one.ci_low, one.ci_high)
            values = (number(one.baseline), number(one.contender), signed(one.difference), bounds)
            cells = (f"  {one.measure}", *values, p_text(one.p_adjusted), needed(one))
            table.add_row(*(Text(cell, style=style) for cell in cells))
        out.print(table)
        out.print(Text(f"{NEEDED}; p after Holm's correction", style="dim"))
        for line in forest_lines(changes) if verbose else []:
            out.print(Text(f"  {line}"), no_wrap=True)
    for note in found.notes:
        out.print(Text(f"  {note}", style="yellow"))
    for flips in found.pass_fail:
        counts = f"{len(flips.broken)} newly failing, {len(flips.mended)} fixed of {flips.n}"
        p = "" if flips.p_value is None else f", McNemar p {p_text(flips.p_value, '= ')} (Holm)"
        sign, colour = CHANGE_SIGNS.get(flips.verdict, "·"), _COLOURS.get(flips.verdict, "")
        out.print(Text(f"  {sign} {flips.what}: {counts}{p}: {flips.verdict}", style=colour))
        _print_flips("newly failing", flips.broken, verbose, out)
        _print_flips("fixed", flips.mended, verbose, out)


def _print_flips(word: str, flips: Sequence[Flip], verbose: bool, out: Console) -> None:
    from rich.text import Text

    for one in flips if verbose else flips[:_CASES]:
        reasons = f" ({'; '.join(one.reasons)})" if one.reasons else ""
        line = printable(f"{word}: {one.query_id} {one.question}{reasons}")
        out.print(Text(f"      {line}"), no_wrap=not verbose, overflow="ellipsis")
    if len(flips) > _CASES and not verbose:
        out.print(Text(f"      {word}: {len(flips) - _CASES} more", style="dim"))
