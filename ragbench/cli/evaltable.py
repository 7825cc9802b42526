"""What `ragbench eval` shows on the console: the table of measures, the verdict, what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragbench.errors import printable
from ragbench.report.evaluation import (
    SIGNS,
    Report,
    aim,
    banner,
    change_sentence,
    failed_cases,
    interval,
    number,
    plural,
    shown_measures,
    sureness,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

_COLOURS = {"passed": "green", "missed": "red", "unreachable": "magenta", "unscored": "yellow"}
_CASES, _WIDTH = 5, 110


def console_of() -> Console:
    """Standard output; wide enough for the table where it is no terminal."""
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)


def say_report(report: Report, *, verbose: bool = False, console: Console | None = None) -> None:
    """The table by perspective, what got worse, failed cases, advice, and the verdict last, where eyes are.

    Without any target or baseline there is no verdict, and no line for it.
    """
    from rich.text import Text

    out = console or console_of()
    _say_table(report, verbose, out)
    _say_comparison(report, verbose, out)
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
    for advice in report.advice:
        out.print(Text.assemble(("Advice: ", "bold"), f"{advice.title}. Try: {advice.action}"))
        if verbose:
            out.print(Text(f"  likely cause: {advice.cause}", style="dim"))
        out.print(Text(f"  rests on: {printable('; '.join(advice.evidence))}", style="dim"))
    word, sentence = banner(report)
    if word != "no verdict" or len(report.cases) != 1:
        _say_verdict(word, sentence, out)


def say_found(report: Report, expected: Sequence[str], console: Console | None = None) -> bool:
    """Whether a single question found what was expected among the first 5, in a sentence; True without expectation."""
    found = not expected or report.cases[0].scores.get("Success@5") != 0
    if expected:
        where = "is" if found else "is not"
        sentence = f"{printable(' or '.join(expected))} {where} among the first 5 documents retrieved."
        _say_verdict("passed" if found else "failed", sentence, console or console_of())
    return found


def _say_verdict(word: str, sentence: str, out: Console) -> None:
    from rich.text import Text

    colour = {"passed": "green", "failed": "red"}.get(word, "yellow")
    out.print(Text.assemble((word.upper(), f"bold {colour}"), f": {sentence}"))


def say_answer(report: Report, console: Console | None = None) -> None:
    """One question: its answer and what was retrieved, with the expected documents marked."""
    from rich.text import Text

    out, case = console or console_of(), report.cases[0]
    out.print(Text.assemble(("Question: ", "bold"), printable(case.question)))
    out.print(Text.assemble(("Answer:   ", "bold"), printable(case.answer) or "(none)", (f"  [{case.outcome}]", "dim")))
    out.print(Text("Context:  ", style="bold"), Text(printable(", ".join(case.retrieved)) or "nothing retrieved"))
    if case.relevant:
        rank = _rank(report)
        where = f"its first one stands at rank {rank}" if rank else "none of them was retrieved"
        out.print(Text.assemble(("Expected: ", "bold"), f"{printable(', '.join(case.relevant))}; {where}"))


def _rank(report: Report) -> int | None:
    reciprocal = report.cases[0].scores.get("RR")
    return round(1 / reciprocal) if reciprocal else None


def _say_table(report: Report, verbose: bool, out: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for head, side in (
        ("measure", "left"), ("value", "right"), ("95 % interval", "right"), ("ceiling", "right"), ("target", "right"),
        ("verdict", "left"), ("scored", "right"),
    ):  # fmt: skip
        table.add_column(head, justify=side, no_wrap=True)  # type: ignore[arg-type]
    rows = shown_measures(report, every=verbose)
    for one in report.perspectives:
        if not one.measured:
            continue
        table.add_row(Text(f"{one.name} ({one.note})" if one.note else one.name, style="bold cyan"))
        for row in rows[one.name]:
            word = Text("" if row.verdict == "no target" else f"{SIGNS[row.verdict]} {row.verdict}")
            word.stylize(_COLOURS.get(row.verdict, ""))
            if sureness(row):
                word.append(" (not sure)", style="dim")
            table.add_row(
                Text(f"  {row.measure}"),
                number(row.value),
                Text(interval(row.ci_low, row.ci_high), style="dim"),
                Text(number(row.ceiling), style="dim"),
                aim(row.target, row.lower_is_better),
                word,
                f"{row.n_scored}/{row.n}",
            )
    out.print(table)
    for one in report.perspectives:
        if not one.measured:
            out.print(Text.assemble((one.name, "bold cyan"), f": not measured: {printable(one.reason)}"))


def _say_comparison(report: Report, verbose: bool, out: Console) -> None:
    from rich.text import Text

    if (found := report.comparison) is None:
        return
    out.print(Text(f"Against {printable(found.baseline)}:", style="bold"))
    signs = {"regression": ("✗", "red"), "improvement": ("✓", "green")}
    for change in found.changes:
        if change.verdict in signs or verbose:
            sign, colour = signs.get(change.verdict, ("·", "dim"))
            out.print(Text(f"  {sign} {change.verdict}: {change_sentence(change)}", style=colour))
    if not any(change.verdict in signs for change in found.changes):
        out.print(Text("  no measure differs by more than chance would explain"))
    for note in found.notes:
        out.print(Text(f"  {note}", style="yellow"))
    for flips in found.pass_fail:
        counts = f"{len(flips.broken)} broken, {len(flips.mended)} mended of {flips.n}"
        p = "" if flips.p_value is None else f", McNemar p = {flips.p_value:.3f} (Holm)"
        sign, colour = signs.get(flips.verdict, ("·", ""))
        out.print(Text(f"  {sign} {flips.what}: {counts}{p}: {flips.verdict}", style=colour))
        for word, cases in (("broken", flips.broken), ("mended", flips.mended)):
            for one in cases if verbose else cases[:_CASES]:
                reasons = f" ({'; '.join(one.reasons)})" if one.reasons else ""
                line = printable(f"{word}: {one.query_id} {one.question}{reasons}")
                out.print(Text(f"      {line}"), no_wrap=not verbose, overflow="ellipsis")
            if len(cases) > _CASES and not verbose:
                out.print(Text(f"      {word}: {len(cases) - _CASES} more", style="dim"))
