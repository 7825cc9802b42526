"""`ragbench eval`: a test set, a system, every perspective; three reports, and a verdict as the
exit status.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragbench import evaluation, llms
from ragbench.cli import options as shared
from ragbench.cli.console import shown
from ragbench.cli.help import Command
from ragbench.errors import ConfigError, DataError, ModelError, printable, unknown
from ragbench.files import expanded
from ragbench.types import Case, Dataset

if TYPE_CHECKING:
    from ragbench.evaluation import Result
    from ragbench.evaluation.records import Report

RESULTS = Path("results", "eval")

_SYSTEM = (
    "A retriever (bm25, hybrid:wordllama, package.module:attribute), a .toml file, "
    "recorded answers (.jsonl, .run)."
)
_AA = (
    "Evaluate N times, without stored replies, and show how often the verdict flips; no report "
    "(costs N + 1 times)."
)
_OUTPUT = (
    "Folder, name of one in results/eval, or a file ending in .json, .md, .html or .xml (JUnit)."
)
_PANELS = {
    "Questions": ("test_set", "corpus", "split", "query", "expected_doc"),
    "System and measures": ("system", "yes"),
    "Judge": ("judge_provider", "judge_model"),
    "Targets and baseline": ("aa",),
    "Output": ("output", "force", "save_trace", "verbose", "as_json"),
    "Requests": ("dry_run", "max_cost", "allow_unpriced", "no_cache", "offline"),
}
_PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names}


class EvalCommand(Command):
    """Takes --judge without a value too; --judge-provider and --judge-model, or RAG_EVAL_*, then
    name the judge.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        params = super().get_params(ctx)
        for param in params:
            param.rich_help_panel = _PANEL_OF.get(
                param.name, getattr(param, "rich_help_panel", None)
            )
        return sorted(
            params, key=lambda param: [*_PANELS, param.rich_help_panel].index(param.rich_help_panel)
        )

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = [*args[1:], "--"]
        alone = [
            arg == "--judge" and following.startswith("-")
            for arg, following in zip(args, named, strict=True)
        ]
        return super().parse_args(
            ctx, ["--judge=env" if one else arg for one, arg in zip(alone, args, strict=True)]
        )


@shared.with_spec_options
def eval_command(
    test_set: shared.TestSetName = "pydoc",
    corpus: shared.Corpus = "",
    split: Annotated[
        str, typer.Option(help="Of a dataset that has several: train, dev, test.")
    ] = "test",
    system: Annotated[str, typer.Option(help=_SYSTEM)] = "bm25",
    judge_provider: Annotated[
        str, typer.Option(help="The judge's provider: anthropic, ollama, openai.")
    ] = "",
    judge_model: Annotated[
        str, typer.Option(help="The judge's model; default: that of its provider.")
    ] = "",
    aa: Annotated[int, typer.Option("--aa", min=0, help=_AA)] = 0,
    save_trace: Annotated[
        bool, typer.Option("--save-trace", help="Write traces.jsonl of the failed questions.")
    ] = False,
    output: Annotated[str, typer.Option(help=_OUTPUT)] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Every measure and every failed question.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report as JSON, and nothing else.")
    ] = False,
    query: Annotated[str, typer.Option(help="Ask this one question instead of a test set's.")] = "",
    expected_doc: Annotated[
        list[str] | None, typer.Option(help="With --query: the document that answers it.")
    ] = None,
    dry_run: shared.DryRun = False,
    max_cost: shared.MaxCost = None,
    allow_unpriced: shared.AllowUnpriced = False,
    no_cache: shared.NoCache = False,
    offline: shared.Offline = False,
    yes: shared.Yes = False,
    **options: Any,
) -> None:
    """Evaluate a system from every perspective: retrieval, context, groundedness, answers,
    pipeline, safety.

    Without options the built-in questions are put to BM25 with answers made without a language
    model, and no target applies but those that you name. Questions with a latency budget, and 20
    others, are asked one at a time. Writes the result with report.md and report.html to a folder,
    and the answers of a service as they come: the same command continues an evaluation that was
    stopped, if --output names its folder. A single --query is only shown, unless --output is given.
    Exit status: 0 all is well, 1 a target is missed or something is worse than in the baseline, 2
    nothing could be evaluated or the judge failed on more than 20 % of the answers, 130
    interrupted.
    """
    from ragbench.cli.eval_console import print_found, print_noise
    from ragbench.report.page import is_report_file

    with shared.llm_settings(max_cost, no_cache or aa > 0, offline, allow_unpriced):
        _check_options(query, expected_doc or [], save_trace, output, options)
        place = _place(output) if output else None
        spec = _spec(
            {**options, "judge": llms.named_model(options["judge"], judge_provider, judge_model)},
            place,
            query,
        )
        data = (
            _question(test_set, corpus, query, expected_doc or [])
            if query
            else load_questions(test_set, corpus, split)
        )
        if dry_run:
            _print_requests(data, system, spec)
            raise typer.Exit(0)
        if aa:
            print_noise(evaluation.verdict_noise(data, system, aa, spec))
            raise typer.Exit(0)
        if place is None and not query:
            place = _new_folder(data.name, Path(system).stem, spec.suite)
        result = _evaluate(data, system, spec, place, output, force=force)
        if place is not None:
            _write(result, place, save_trace=save_trace, force=force)
        _show(result.report, query=query, verbose=verbose, as_json=as_json)
        is_found = (
            print_found(result.report, list(data.qrels["query"]), to_errors=as_json)
            if query
            else True
        )
        if place is not None:
            both = "" if is_report_file(place) else "/report.html (also report.md)"
            typer.echo(f"Report: {shown(place)}{both}", err=as_json)
        _check_measured(result)
    raise typer.Exit(0 if result.passed and is_found else 1)


def _check_options(
    query: str, expected: Sequence[str], save_trace: bool, output: str, options: Mapping[str, Any]
) -> None:
    from ragbench.report.page import is_report_file

    if expected and not query:
        raise ConfigError("--expected-doc belongs to --query; a test set names its own documents")
    if query and (options["baseline"] or options["suite"] != "full" or options["sample"]):
        raise ConfigError(
            "--query is one question: neither --baseline nor --suite nor --sample goes with it"
        )
    if save_trace and output and is_report_file(_place(output)):
        raise ConfigError(
            f"--save-trace needs a folder, and --output {output} is a file; name a folder"
        )


def _spec(options: Mapping[str, Any], place: Path | None, query: str) -> evaluation.EvaluationSpec:
    """Return the spec that the options mean; a single question has no target but those of
    --fail-under.
    """
    from ragbench.registry import load_measures
    from ragbench.report.page import is_report_file

    spec = evaluation.EvaluationSpec(**options)
    if place is not None and not spec.name:
        spec = spec.replaced(name=place.stem if is_report_file(place) else place.resolve().name)
    if not query:
        return spec
    load_measures(spec.measures)
    targets = evaluation.load_targets(spec.targets, spec.fail_under)
    return spec.replaced(
        targets=replace(targets, measures={name: targets.measures[name] for name in targets.gates})
    )


def _print_requests(data: Dataset, system: str, spec: evaluation.EvaluationSpec) -> None:
    with llms.dry_run() as plan:
        checked = evaluation.check_evaluation(data, spec)
        evaluation.ask_all(checked.dataset, system, checked.spec, criteria=checked.criteria)
    shared.print_plan(plan, str(spec.judge))


def _evaluate(
    data: Dataset,
    system: str,
    spec: evaluation.EvaluationSpec,
    place: Path | None,
    output: str,
    *,
    force: bool,
) -> Result:
    """Evaluate with a journal of the answers next to the report, from which the same command
    continues.
    """
    from ragbench.evaluation.folder import JOURNAL
    from ragbench.report.page import check_output, is_report_file

    if place is None:
        return evaluation.evaluate(data, system, spec)
    check_output(place, force=force)
    is_file = is_report_file(place)
    journal = place.with_name(f"{place.name}.{JOURNAL}") if is_file else place / JOURNAL
    if force:
        journal.unlink(missing_ok=True)
    with _continuation_hint(journal, output):
        result = evaluation.evaluate(data, system, spec, journal=journal)
    if is_file:
        journal.unlink(missing_ok=True)
    return result


def _write(result: Result, place: Path, *, save_trace: bool, force: bool) -> None:
    """Write the reports and the result, and record it in the history."""
    from ragbench.evaluation.folder import TRACES
    from ragbench.report.page import is_report_file, report_html, report_markdown, write_report
    from ragbench.service import record_finished

    if is_report_file(place):
        write_report(result, place, force=force)
    else:
        views = {"report.md": report_markdown(result.report), "report.html": report_html(result)}
        if save_trace and result.output is not None:
            traces = evaluation.failure_traces(result.report, result.output)
            views[TRACES] = "".join(json.dumps(trace, allow_nan=False) + "\n" for trace in traces)
        evaluation.save(result, place, views=views)
    # As it is read back, so that importing the folder later finds the same run.
    saved = place.is_dir() or place.suffix == ".json"
    folder = place if place.is_dir() else None
    record_finished(lambda: [(evaluation.load_result(place) if saved else result, folder)])


def _show(report: Report, *, query: str, verbose: bool, as_json: bool) -> None:
    from ragbench.cli.eval_console import print_answer, print_report
    from ragbench.evaluation.schema import report_json
    from ragbench.report.page import report_markdown

    if (summary := os.environ.get("GITHUB_STEP_SUMMARY")) and not query:
        with open(summary, "a", encoding="utf-8") as page:
            page.write(report_markdown(report))
    if as_json:
        typer.echo(report_json(report), nl=False)
        return
    if query:
        print_answer(report)
    print_report(report, verbose=verbose)


def _check_measured(result: Result) -> None:
    """End where every answer failed, the judge decides nothing, or a gate was not measured."""
    report, answers = result.report, result.answers
    if answers and all(answer.failed for answer in answers):
        typer.echo(
            f"Failed: every answer failed, the first: {printable(answers[0].error or 'no reason')}",
            err=True,
        )
        raise typer.Exit(1)
    if report.judge_failed:
        [state] = [one for one in report.perspectives if one.name == "judge"]
        raise ModelError(f"the judge decides nothing here: {state.reason or state.warning}")
    unscored = [row.measure for row in report.measures if row.value is None]
    evaluation.check_gates_measured(report.settings["gates"], unscored)


def load_questions(test_set: str, corpus: str, split: str = "test") -> Dataset:
    from ragbench.testsets.loader import load_dataset

    data = load_dataset(test_set, split, corpus=corpus)
    if test_set != "pydoc":
        return data
    from ragbench.datasets.safety import load_safety_samples

    inputs, outputs = load_safety_samples()
    return replace(data, safety_inputs=inputs, safety_outputs=outputs)


def _question(test_set: str, corpus: str, query: str, expected: Sequence[str]) -> Dataset:
    """One question about the documents of a corpus, or of a test set."""
    from ragbench.testsets.assembly import DocumentIds

    if not query.strip():
        raise ConfigError("--query is empty; give the question")
    if corpus:
        from ragbench.datasets.corpus import load_corpus

        base = load_corpus(corpus)
    else:
        base = load_questions(test_set, "")
    expected = list(map(DocumentIds(base.corpus).full, expected))
    for doc_id in expected:
        if base.corpus and doc_id not in base.corpus:
            raise DataError(f"--expected-doc: {unknown('document', doc_id, sorted(base.corpus))}")
    case = Case("query", query.strip())
    return Dataset(
        base.name, base.split, base.corpus, (case,), {"query": dict.fromkeys(expected, 1)}
    )


def _place(output: str) -> Path:
    """Where the report goes: a bare name is that of a folder in results/eval, everything else a
    path.
    """
    from ragbench.report.page import is_report_file

    path = expanded(output)
    bare = re.fullmatch(r"\w[\w.+-]*", output) is not None and not is_report_file(path)
    return RESULTS / output if bare else path


@contextmanager
def _continuation_hint(journal: Path | None, output: str) -> Iterator[None]:
    """How to continue from the answers that were kept, when something stops their coming."""
    try:
        yield
    except BaseException:
        if journal is not None and journal.exists():
            again = (
                "the same command asks"
                if output
                else f"the same command with --output {shown(journal.parent)} asks"
            )
            typer.echo(
                f"The answers that had come are in {shown(journal)}: {again} for the rest.",
                err=True,
            )
        raise


def _new_folder(data: str, system: str, suite: str) -> Path:
    """Return a new folder for an evaluation: readable, in order of time."""
    words = re.sub(r"[^\w.]+", "-", f"{Path(data).name} {system} {suite}".lower()).strip("-.")[:80]
    stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{words}"
    tried = (RESULTS / (stem if i == 0 else f"{stem}-{i + 1}") for i in count())
    return next(path for path in tried if not path.exists())
