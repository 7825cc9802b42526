"""What `ragbench eval` shows on the console: the table of measures, the verdict, what changed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ragbench.errors import printable
from ragbench.evaluation import Result
from ragbench.report import page as view
from ragbench.statistics import p_text

if TYPE_CHECKING:
    import pandas as pd

_COLOURS = {
    "passed": "green",
    "missed": "red",
    "unreachable": "magenta",
    "unscored": "yellow",
    "regression": "red",
    "improvement": "green",
}
_CASES, _WIDTH = 5, 110
_WIDE = 100  # columns from which the table has room for everything


def console_of() -> Console:
    """Standard output; where it is not a terminal, as wide as COLUMNS, or else 110 columns."""
    console = Console(highlight=False)
    if console.is_terminal or os.environ.get("COLUMNS", "").isdecimal():
        return console
    return Console(highlight=False, width=_WIDTH)


def print_report(result: Result, *, verbose: bool = False) -> None:
    """Targets, headline measures, what changed, failed cases, and the verdict last, where eyes are.

    `verbose` shows every measure, failed case, doubtful claim and advice. Without any target or
    baseline there is no verdict, and no line for it.
    """
    out = console_of()
    _print_table(result, verbose, out)
    _print_figures(result, verbose, out)
    _print_comparison(result, verbose, out)
    failed = view.failed_cases(result)
    if failed:
        out.print(
            Text(
                f"Failed: {len(failed)} of {view.plural(len(result.cases), 'question')}",
                style="bold",
            )
        )
    for case in failed if verbose else failed[:_CASES]:
        _print_line(out, f"  {case.query_id}  {case.question}", verbose)
        for reason in case.reasons:
            out.print(Text(f"      {printable(reason)}", style="dim"))
    _print_rest(out, len(failed), verbose)
    for advice in result.advice if verbose else result.advice[:1]:
        out.print(Text.assemble(("Advice: ", "bold"), f"{advice.title}. Try: {advice.action}"))
        if verbose:
            out.print(Text(f"  likely cause: {advice.cause}", style="dim"))
        out.print(Text(f"  rests on: {printable('; '.join(advice.evidence))}", style="dim"))
    word, sentence = view.banner(result)
    if word != "no verdict" or len(result.cases) != 1:
        _print_verdict(word, sentence, out)


def print_found(result: Result, expected: Sequence[str], *, to_errors: bool = False) -> bool:
    """Whether a single question found what was expected among the first 5, in a sentence; True
    without expectation.
    """
    found = not expected or result.cases[0].scores.get("Success@5") != 0
    if expected:
        where = "is" if found else "is not"
        sentence = (
            f"{printable(' or '.join(expected))} {where} among the first 5 documents retrieved."
        )
        out = Console(stderr=True, highlight=False) if to_errors else console_of()
        _print_verdict("passed" if found else "failed", sentence, out)
    return found


def print_noise(noise: pd.DataFrame) -> None:
    """How often the verdicts of `ragbench.evaluation.verdict_noise` flip: on the gate, and on
    single questions.
    """
    for row in noise.to_dict("records"):
        rate = f"{view.number(row['rate'])} {view.interval(row['ci_low'], row['ci_high'])}"
        typer.echo(
            f"{row['of']}: {row['flips']} of {row['verdicts']} verdicts differ from the usual "
            f"one: {rate}"
        )


def print_answer(result: Result) -> None:
    """One question: its answer and what was retrieved, with the expected documents marked."""
    out, case = console_of(), result.cases[0]
    out.print(Text.assemble(("Question: ", "bold"), printable(case.question)))
    out.print(
        Text.assemble(
            ("Answer:   ", "bold"),
            printable(case.answer) or "(none)",
            (f"  [{case.outcome}]", "dim"),
        )
    )
    out.print(
        Text("Context:  ", style="bold"),
        Text(printable(", ".join(case.retrieved)) or "nothing retrieved"),
    )
    if case.relevant:
        reciprocal = case.scores.get("RR")
        rank = (
            f"the first one is at rank {round(1 / reciprocal)}"
            if reciprocal
            else "none of them was retrieved"
        )
        out.print(
            Text.assemble(("Expected: ", "bold"), f"{printable(', '.join(case.relevant))}; {rank}")
        )


def _print_verdict(word: str, sentence: str, out: Console) -> None:
    colour = {"passed": "green", "failed": "red"}.get(word, "yellow")
    out.print(Text.assemble((word.upper(), f"bold {colour}"), f": {sentence}"))


def _print_line(out: Console, text: str, whole: bool, style: str = "") -> None:
    """A text from data; in one line, cut at its end, where it is not shown as a `whole`."""
    out.print(Text(printable(text), style=style), no_wrap=not whole, overflow="ellipsis")


def _print_rest(out: Console, count: int, verbose: bool) -> None:
    if count > _CASES and not verbose:
        out.print(Text(f"  and {count - _CASES} more (-v shows all)", style="dim"))


def _table(heads: Sequence[str], left: Sequence[str]) -> Table:
    """A table without borders whose cells are never cut: only its first column, the name, is
    folded.
    """
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for head in heads:
        name = head == "measure"
        side = "left" if head in left else "right"
        table.add_column(
            head,
            justify=side,  # type: ignore[arg-type]
            no_wrap=not name,
            overflow="fold",
            min_width=8 if name else None,
        )
    return table


def _print_table(result: Result, verbose: bool, out: Console) -> None:
    wide = out.width >= _WIDE
    heads = [
        "measure",
        "value",
        "95 % interval",
        *(["ceiling"] if wide else []),
        "target",
        "verdict",
        "scored",
    ]
    table = _table(heads, ("measure", "verdict"))
    rows = view.shown_measures(result, every=True) if verbose else view.brief_measures(result)
    shown = [one for one in result.perspectives if one.measured and rows[one.name]]
    for one in shown:
        table.add_row(Text(one.name, style="bold cyan"))
        for row in rows[one.name]:
            word = Text(
                "" if row.verdict == "no target" else f"{view.SIGNS[row.verdict]} {row.verdict}"
            )
            word.stylize(_COLOURS.get(row.verdict, ""))
            word.append(" (?)" if view.sureness(row) else "", style="dim")
            bounds = Text(view.interval(row.ci_low, row.ci_high), style="dim")
            ceiling = [Text(view.number(row.ceiling), style="dim")] if wide else []
            aim, scored = view.aim(row.target, row.lower_is_better), f"{row.n_scored}/{row.n}"
            table.add_row(
                Text(f"  {row.measure}"),
                view.number(row.value),
                bounds,
                *ceiling,
                aim,
                word,
                scored,
            )
    out.print(table)
    if any(view.sureness(row) for one in shown for row in rows[one.name]):
        out.print(Text("(?) not sure: the target lies in the interval", style="dim"))
    for one in result.perspectives:
        if note := one.note if one.measured else f"not measured: {one.reason}":
            out.print(Text.assemble((one.name, "bold cyan"), f": {printable(note)}"))
        if one.measured and one.warning:
            out.print(
                Text.assemble((one.name, "bold cyan"), (f": {printable(one.warning)}", "yellow"))
            )


def _print_figures(result: Result, verbose: bool, out: Console) -> None:
    for word, text in view.figures(result):
        if verbose or word != "Chunks":
            out.print(Text.assemble((f"{word}: ", "bold"), printable(text)))
    claims = [one for one in view.doubtful_claims(result) if verbose or one[1] == "judge"]
    for case, found_by, text in claims if verbose else claims[:_CASES]:
        _print_line(out, f"  {case.query_id}, by {found_by}: {text}", verbose, "dim")
    _print_rest(out, len(claims), verbose)


def _print_comparison(result: Result, verbose: bool, out: Console) -> None:
    if (found := result.comparison) is None:
        return
    out.print(Text(f"Against {printable(found.baseline)}:", style="bold"))
    changes = view.shown_changes(result, every=verbose)
    for change in changes:
        if change.verdict in view.CHANGE_SIGNS:
            line = f"  {view.CHANGE_SIGNS[change.verdict]} {change.verdict}: {view.change_sentence(change)}"
            out.print(Text(line, style=_COLOURS[change.verdict]))
    if not any(change.verdict in view.CHANGE_SIGNS for change in found.changes):
        out.print(Text("  no measure differs by more than chance would explain"))
    if changes:
        table = _table(
            ["measure", "baseline", "now", "difference", "95 % interval", "p", "n needed"],
            ["measure"],
        )
        for one in changes:
            values = (
                view.number(one.baseline),
                view.number(one.contender),
                view.signed(one.difference),
            )
            rest = view.interval(one.ci_low, one.ci_high), p_text(one.p_adjusted), view.needed(one)
            cells = (f"  {one.measure}", *values, *rest)
            table.add_row(*(Text(cell, style=_COLOURS.get(one.verdict, "")) for cell in cells))
        out.print(table)
        out.print(Text(f"{view.NEEDED}; p after Holm's correction", style="dim"))
        for line in view.forest_lines(changes) if verbose else []:
            out.print(Text(f"  {line}"), no_wrap=True)
    for note in found.notes:
        out.print(Text(f"  {note}", style="yellow"))
    for flips in found.pass_fail:
        sign, colour = view.CHANGE_SIGNS.get(flips.verdict, "·"), _COLOURS.get(flips.verdict, "")
        out.print(
            Text(f"  {sign} {flips.what}: {view.flip_counts(flips)}: {flips.verdict}", style=colour)
        )
        for word, cases in (("newly failing", flips.newly_failing), ("fixed", flips.fixed)):
            for flip in cases if verbose else cases[:_CASES]:
                reasons = f" ({'; '.join(flip.reasons)})" if flip.reasons else ""
                _print_line(out, f"      {word}: {flip.query_id} {flip.question}{reasons}", verbose)
            if len(cases) > _CASES and not verbose:
                out.print(Text(f"      {word}: {len(cases) - _CASES} more", style="dim"))
