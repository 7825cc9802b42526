"""`ragbench eval`: a test set, a system, every perspective; three reports, and a verdict as the exit status."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragbench.cli.asking import Concurrency, DryRun, MaxCost, NoCache, Offline, asking, say_estimate
from ragbench.cli.speaking import shown
from ragbench.errors import ConfigError, DataError, unknown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ragbench.llms import Estimate
    from ragbench.types import Dataset

RESULTS = Path("results", "eval")

_SYSTEM = "A retriever (bm25, hybrid:wordllama), a .toml file that describes a system, or recorded answers (.jsonl)."
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
    save_trace: Annotated[
        bool, typer.Option("--save-trace", help="Write traces.jsonl of the failed questions.")
    ] = False,
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
    from ragbench.cli.evaltable import say_answer, say_found, say_report

    with asking(max_cost, no_cache, offline):
        from ragbench.evaluation import (
            answer_all,
            check_evaluation,
            check_gates_measured,
            check_perspectives,
            failure_traces,
            load_targets,
            rehearse,
            report_of,
            select_suite,
        )
        from ragbench.report.evaluation import check_folder, compare_reports, read_report, write_report

        if expected_doc and not query:
            raise ConfigError("--expected-doc belongs to --query; the documents of a test set stand in it")
        if query and (baseline or suite != "full"):
            raise ConfigError("--query is one question: neither --baseline nor --suite goes with it")
        folder = _folder(output) if output else None
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
        check_evaluation(data, chosen, aims, earlier, embedder=embedder, judge=judge)
        if dry_run:
            _say_rehearsal(*rehearse(data, system, judge))
            raise typer.Exit(0)
        start = time.perf_counter()
        answered = answer_all(data, system, concurrency=concurrency)
        asked = round(time.perf_counter() - start, 3)
        name = output or f"{data.name}, {answered.system['name']}"
        report = report_of(
            answered, perspectives=chosen, targets=aims, embedder=embedder, judge=judge, name=_suited(name, suite)
        )
        report = replace(
            report,
            settings={"suite": suite, **report.settings},
            made=replace(report.made, seconds={"ask": asked, **report.made.seconds}),
            comparison=None if earlier is None else compare_reports(earlier, report),
        )
        if folder is None and not query:
            folder = _own_folder(data.name, str(answered.system["name"]), suite)
        if folder is not None:
            traces = failure_traces(report, answered) if save_trace else None
            write_report(report, folder, traces=traces, force=force)
        if query:
            say_answer(report)
        say_report(report, verbose=verbose)
        found = say_found(report, expected_doc or []) if query else True
        if folder is not None:
            typer.echo(f"Report: {shown(folder / 'report.html')} (also report.md, report.json)")
        check_gates_measured(aims, [row.measure for row in report.measures if row.value is None])
    raise typer.Exit(0 if report.passed and found else 1)


def _load(test_set: str, corpus: str) -> Dataset:
    from ragbench.datasets import load_dataset

    if not corpus:
        data = load_dataset(test_set)
        if test_set != "pydoc":
            return data
        from ragbench.datasets.safety import load_safety_samples

        inputs, outputs = load_safety_samples()
        return replace(data, safety_inputs=inputs, safety_outputs=outputs)
    from ragbench.datasets.corpus import load_corpus
    from ragbench.datasets.testsets import SUFFIXES, form_of, load_testset

    path = Path(test_set).expanduser()
    named = not path.exists() and path.suffix.lower() not in SUFFIXES
    if named or form_of(test_set) == "beir":
        raise ConfigError(
            f"--corpus gives the documents of a test-set file, but {test_set!r} has its own; leave it out"
        )
    return load_testset(test_set, corpus=load_corpus(corpus).corpus)


def _question(test_set: str, corpus: str, query: str, expected: Sequence[str]) -> Dataset:
    """One question about the documents of a corpus, or of a test set."""
    from ragbench.types import Case, Dataset

    if not query.strip():
        raise ConfigError("--query is empty; give the question")
    if corpus:
        from ragbench.datasets.corpus import load_corpus

        base = load_corpus(corpus)
    else:
        base = _load(test_set, "")
    for doc_id in expected:
        if base.corpus and doc_id not in base.corpus:
            known = sorted(base.corpus)
            few = known if len(known) <= 20 else [*known[:20], "..."]
            near = unknown("document", doc_id, known).partition(" Known: ")[0]
            raise DataError(f"--expected-doc: {near} Known: {', '.join(few)}")
    case = Case("query", query.strip())
    return Dataset(base.name, base.split, base.corpus, (case,), {"query": dict.fromkeys(expected, 1)})


def _folder(name: str) -> Path:
    if not re.fullmatch(r"[\w][\w.+-]*", name):
        raise ConfigError(f"--output {name!r} is no name of a folder in {RESULTS}; use letters, digits, . _ + and -")
    return RESULTS / name


def _own_folder(data: str, system: str, suite: str) -> Path:
    """A folder of its own for each evaluation: readable, in order of time."""
    words = re.sub(r"[^\w.]+", "-", f"{Path(data).name} {system} {suite}".lower()).strip("-.")[:80]
    stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{words}"
    tried = (RESULTS / (stem if i == 0 else f"{stem}-{i + 1}") for i in count())
    return next(path for path in tried if not path.exists())


def _suited(name: str, suite: str) -> str:
    return name if suite == "full" else f"{name} ({suite})"


def _say_rehearsal(estimates: Mapping[str, Estimate], notes: Sequence[str]) -> None:
    for note in notes:
        typer.echo(note)
    if estimates:
        say_estimate(estimates)
    elif not notes:
        typer.echo("No language model would be asked: nothing to pay.")
