"""`ragbench eval`: a test set, a system, every perspective; three reports, and a verdict as the exit status."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragbench.cli.asking import Concurrency, DryRun, MaxCost, NoCache, Offline, asking, say_estimate
from ragbench.cli.speaking import shown
from ragbench.errors import ConfigError, DataError, unknown

if TYPE_CHECKING:
    from ragbench.evaluation import Targets
    from ragbench.report.evaluation import Report
    from ragbench.types import Dataset

RESULTS = Path("results", "eval")

_SYSTEM = "A retriever (bm25, hybrid:wordllama), a .toml with [pipeline], [http] or [mcp], or recorded answers .jsonl."
_JUDGE = "A language model that judges the answers besides: anthropic:<model>, ollama:<model>, ...; '' means none."


def eval_command(
    test_set: Annotated[str, typer.Option(help="A test-set file, a folder, or a dataset's name.")] = "pydoc",
    corpus: Annotated[str, typer.Option(help="The documents: a folder, a corpus.jsonl or a dataset's name.")] = "",
    system: Annotated[str, typer.Option(help=_SYSTEM)] = "bm25",
    perspective: Annotated[str, typer.Option(help="retrieval,context,groundedness,answer,pipeline,safety.")] = "",
    suite: Annotated[str, typer.Option(help="full, or smoke: a fixed sample, done in seconds.")] = "full",
    judge: Annotated[str, typer.Option(help=_JUDGE)] = "",
    baseline: Annotated[Path | None, typer.Option(help="An earlier report.json; exit 1 where this is worse.")] = None,
    fail_under: Annotated[str, typer.Option(help='Targets: "nDCG@5=0.6,claim_support=0.85".')] = "",
    targets: Annotated[Path | None, typer.Option(help="A TOML file that changes the default targets.")] = None,
    save_trace: Annotated[bool, typer.Option("--save-trace", help="Write traces.jsonl of the failed questions.")] = False,
    output: Annotated[str, typer.Option(help="Name of the folder in results/eval; default: its own each time.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace a report of that name.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Every measure and every failed question.")] = False,
    query: Annotated[str, typer.Option(help="Ask this one question instead of a test set's.")] = "",
    expected_doc: Annotated[list[str] | None, typer.Option(help="With --query: the document that answers it.")] = None,
    concurrency: Concurrency = 8,
    dry_run: DryRun = False,
    max_cost: MaxCost = None,
    no_cache: NoCache = False,
    offline: Offline = False,
) -> None:
    """Evaluate a system from every perspective: retrieval, context, groundedness, answers, pipeline, safety.

    Without options the built-in questions are put to BM25 with answers made without a language model. Writes
    report.json, report.md and report.html to results/eval/NAME. A single --query is only shown, unless --output names a
    folder. Exit status: 0 all is well, 1 a target is missed or something is worse than in the baseline, 2 nothing could
    be evaluated, 130 interrupted.
    """
    from ragbench.cli.evaltable import say_answer, say_report

    with asking(max_cost, no_cache, offline):
        from ragbench.evaluation import check_gates_measured, check_perspectives, load_targets, rehearse, select_suite
        from ragbench.report.evaluation import check_folder, read_report

        if expected_doc and not query:
            raise ConfigError("--expected-doc belongs to --query; the documents of a test set stand in it")
        if query and (baseline or suite != "full"):
            raise ConfigError("--query is one question: neither --baseline nor --suite goes with it")
        folder = _folder(output) if output or not query else None
        if folder is not None and not dry_run:
            check_folder(folder, force=force)
        chosen = check_perspectives([name.strip() for name in perspective.split(",") if name.strip()])
        aims = load_targets(targets, fail_under)
        earlier = None if baseline is None else read_report(baseline)
        data = _question(test_set, corpus, query, expected_doc or []) if query else _load(test_set, corpus)
        if query:
            aims = replace(aims, measures={name: aims.measures[name] for name in aims.gates})
        data = select_suite(data, suite)
        embedder = "wordllama" if suite == "smoke" else "minilm"
        _check(data, chosen, aims, earlier, embedder=embedder, judge=judge)
        if dry_run:
            _say_rehearsal(*rehearse(data, system, judge))
            raise typer.Exit(0)
        if folder is None:
            folder = _own_folder(data, system, suite) if not query else None
        report = _evaluated(
            data, system, chosen, aims, earlier,
            embedder=embedder, judge=judge, suite=suite, concurrency=concurrency, folder=folder, output=output,
            force=force, save_trace=save_trace,
        )  # fmt: skip
        if query:
            say_answer(report)
        say_report(report, verbose=verbose)
        if folder is not None:
            typer.echo(f"Report: {shown(folder / 'report.html')} (also report.md, report.json)")
        check_gates_measured(aims, [row.measure for row in report.measures if row.value is None])
    wrong_answer = bool(query) and report.cases[0].passed is False
    raise typer.Exit(0 if report.passed and not wrong_answer else 1)
