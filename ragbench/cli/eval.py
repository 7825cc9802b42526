"""`ragbench eval`: a test set, a system, every perspective; three reports, and a verdict as the exit status."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
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

RESULTS = Path("results", "eval")

_SYSTEM = (
    "A retriever (bm25, hybrid:wordllama, package.module:attribute), a .toml file, recorded answers (.jsonl, .run)."
)
_JUDGE = "A model that judges the answers: anthropic:<model>, package.module:attribute, ...; alone, that of RAG_EVAL_*."
_CALIBRATION = "A calibration file by `ragbench label`: what a heuristic score means on your texts; may be repeated."
_DETECTOR = "What scores the safety samples: hf:<classifier>, package.module:attribute; default: the built-in detector."
_SUPPORT = "What compares claims with contexts: minilm, lexical, or a cross-encoder for NLI (folder or hub name)."
_AA = "Evaluate N times, without stored replies, and show how often the verdict flips; no report (costs N + 1 times)."
_TARGETS = "A TOML file that changes the default targets; or framework, guide, phase4, adr or pipeline."
_OUTPUT = "Folder, name of one in results/eval, or a file ending in .json, .md, .html or .xml (JUnit)."


_PANELS = {
    "Questions": ("test_set", "corpus", "split", "category", "suite", "sample", "seed", "query", "expected_doc"),
    "System and measures": ("system", "yes", "perspective", "k", "measure", "support_model", "detector", "calibration"),
    "Judge": ("judge", "judge_provider", "judge_model", "criteria"),
    "Targets and baseline": ("fail_under", "targets", "baseline", "aa"),
    "Output": ("output", "force", "save_trace", "verbose", "as_json"),
    "Requests": ("concurrency", "dry_run", "max_cost", "allow_unpriced", "no_cache", "offline"),
}
_PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names}


class EvalCommand(Command):
    """Takes --judge without a value too; --judge-provider and --judge-model, or RAG_EVAL_*, then name the judge."""

    def get_params(self, ctx: Any) -> list[Any]:
        params = sorted(super().get_params(ctx), key=lambda param: [*_PANEL_OF, param.name].index(param.name))
        for param in params:
            param.rich_help_panel = _PANEL_OF.get(param.name)
        return params

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = [*args[1:], "--"]
        alone = [arg == "--judge" and following.startswith("-") for arg, following in zip(args, named, strict=True)]
        return super().parse_args(ctx, ["--judge=env" if one else arg for one, arg in zip(alone, args, strict=True)])


def eval_command(
    test_set: shared.TestSetName = "pydoc",
    corpus: shared.Corpus = "",
    split: Annotated[str, typer.Option(help="Of a dataset that has several: train, dev, test.")] = "test",
    system: Annotated[str, typer.Option(help=_SYSTEM)] = "bm25",
    perspective: Annotated[str, typer.Option(help="retrieval, context, groundedness, answer, pipeline, safety.")] = "",
    category: Annotated[str, typer.Option(help="Only the questions of these categories: faq,how-to.")] = "",
    k: Annotated[str, typer.Option("--k", help="Depths at which rankings are measured.")] = "1,3,5,10",
    suite: Annotated[str, typer.Option(help="full, or smoke: a fixed sample, done in seconds.")] = "full",
    sample: Annotated[int, typer.Option(min=0, help="Only N of the questions, evenly from all categories.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="With --sample: which ones.")] = 0,
    judge: Annotated[str, typer.Option(help=_JUDGE)] = "",
    judge_provider: Annotated[str, typer.Option(help="The judge's provider: anthropic, ollama, openai.")] = "",
    judge_model: Annotated[str, typer.Option(help="The judge's model; default: that of its provider.")] = "",
    criteria: Annotated[
        str, typer.Option(help="What is judged; also context_recall, context_precision.")
    ] = "correctness,faithfulness,relevance",
    support_model: Annotated[str, typer.Option(help=_SUPPORT)] = "",
    detector: Annotated[str, typer.Option(help=_DETECTOR)] = "",
    baseline: Annotated[Path | None, typer.Option(help="An earlier result; exit 1 where this is worse.")] = None,
    fail_under: Annotated[str, typer.Option(help='Targets: "nDCG@5=0.6,claim_support=0.85".')] = "",
    targets: Annotated[Path | None, typer.Option(help=_TARGETS)] = None,
    aa: Annotated[int, typer.Option("--aa", min=0, help=_AA)] = 0,
    calibration: Annotated[list[Path] | None, typer.Option(help=_CALIBRATION)] = None,
    measure: Annotated[str, typer.Option(help="Measures of your own: package.module:attribute,...")] = "",
    save_trace: Annotated[
        bool, typer.Option("--save-trace", help="Write traces.jsonl of the failed questions.")
    ] = False,
    output: Annotated[str, typer.Option(help=_OUTPUT)] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Every measure and every failed question.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print report.json, and nothing else.")] = False,
    query: Annotated[str, typer.Option(help="Ask this one question instead of a test set's.")] = "",
    expected_doc: Annotated[list[str] | None, typer.Option(help="With --query: the document that answers it.")] = None,
    concurrency: shared.Concurrency = 8,
    dry_run: shared.DryRun = False,
    max_cost: shared.MaxCost = None,
    allow_unpriced: shared.AllowUnpriced = False,
    no_cache: shared.NoCache = False,
    offline: shared.Offline = False,
    yes: shared.Yes = False,
) -> None:
    """Evaluate a system from every perspective: retrieval, context, groundedness, answers, pipeline, safety.

    Without options the built-in questions are put to BM25 with answers made without a language model, and no target
    applies but those that you name. Questions with a latency budget, and 20 others, are asked one at a time. Writes
    report.json, report.md and report.html to a folder, and the answers of a service as they come: the same command
    continues an evaluation that was stopped, if --output names its folder. A single --query is only shown, unless
    --output is given. Exit status: 0 all is well, 1 a target is missed or something is worse than in the baseline,
    2 nothing could be evaluated or the judge failed on more than 20 % of the answers, 130 interrupted.
    """
    from ragbench.cli.eval_console import print_answer, print_found, print_noise, print_report
    from ragbench.evaluation.folder import JOURNAL, TRACES
    from ragbench.evaluation.schema import report_json
    from ragbench.metrics.safety import load_detector
    from ragbench.registry import load_measures
    from ragbench.report.page import check_output, is_report_file, report_markdown, report_texts, write_report

    with shared.llm_settings(max_cost, no_cache or aa > 0, offline, allow_unpriced) as settings:
        if expected_doc and not query:
            raise ConfigError("--expected-doc belongs to --query; a test set names its own documents")
        if query and (baseline or suite != "full" or sample):
            raise ConfigError("--query is one question: neither --baseline nor --suite nor --sample goes with it")
        place = _place(output) if output else None
        to_file = place is not None and is_report_file(place)
        if save_trace and to_file:
            raise ConfigError(f"--save-trace needs a folder, and --output {output} is a file; name a folder")
        chosen, asked_for, ks = evaluation.check_perspectives(_words(perspective)), _words(criteria), _depths(k)
        judge = llms.named_model(judge, judge_provider, judge_model)
        judging = llms.check_llm(judge, settings) if judge else ""
        own = load_measures(measure)
        aims = evaluation.load_targets(targets, fail_under)
        earlier = None if baseline is None else evaluation.load_result(baseline).report
        data = (
            _question(test_set, corpus, query, expected_doc or []) if query else load_questions(test_set, corpus, split)
        )
        if query:
            aims = replace(aims, measures={name: aims.measures[name] for name in aims.gates})
        categories = _words(category)
        data = evaluation.select_suite(evaluation.select_categories(data, categories), suite)
        data = evaluation.select_sample(data, sample, seed)
        options: dict[str, Any] = {"support_model": support_model, "judge": judging, "criteria": asked_for}
        options |= {"ks": ks, "calibration": calibration or ()}
        attacks = "safety" in chosen
        evaluation.check_evaluation(data, chosen, aims, earlier, **options)
        if dry_run:
            with llms.dry_run() as plan:
                evaluation.ask_all(data, system, judge=judging, criteria=asked_for, attacks=attacks, settings=settings)
            shared.print_plan(plan, judge)
            raise typer.Exit(0)
        scorer = load_detector(detector) if detector else None
        llms.check_servers(judging)
        if aa:
            options |= {"perspectives": chosen, "targets": aims, "detector": scorer, "measures": own}
            print_noise(evaluation.verdict_noise(data, system, aa, baseline=earlier, **options))
            raise typer.Exit(0)
        if place is None and not query:
            place = _own_folder(data.name, Path(system).stem, suite)
        journal = None
        if place is not None:
            check_output(place, force=force)
            journal = place.with_name(f"{place.name}.{JOURNAL}") if to_file else place / JOURNAL
            if force:
                journal.unlink(missing_ok=True)
        start = time.perf_counter()
        with _continuation_hint(journal, output):
            answered = evaluation.answer_all(
                data, system, concurrency=concurrency, attacks=attacks, keep=journal or "", settings=settings
            )
        asked = round(time.perf_counter() - start, 3)
        name = f"{data.name}, {answered.system['name']}"
        if output and place is not None:
            name = place.stem if to_file else place.resolve().name
        described: dict[str, Any] = {"suite": suite, **({"categories": categories} if categories else {})}
        described |= {"sample": sample, "seed": seed} if sample else {}
        part = [suite] * (suite != "full") + [f"{sample} questions"] * (sample > 0)
        result = evaluation.result_of(
            answered, perspectives=chosen, targets=aims, baseline=earlier, detector=scorer, measures=own,
            name=f"{name} ({', '.join(part)})" if part else name, settings=described, seconds={"ask": asked},
            **options,
        )  # fmt: skip
        report = result.report
        if place is not None and to_file:
            write_report(result, place, force=force)
            if journal is not None:
                journal.unlink(missing_ok=True)
        elif place is not None:
            views = report_texts(result)
            if save_trace:
                traces = evaluation.failure_traces(report, answered)
                views[TRACES] = "".join(json.dumps(trace, allow_nan=False) + "\n" for trace in traces)
            evaluation.save(result, place, views=views)
        if place is not None:
            _record(result, place)
        if (summary := os.environ.get("GITHUB_STEP_SUMMARY")) and not query:
            with open(summary, "a", encoding="utf-8") as page:
                page.write(report_markdown(report))
        if as_json:
            typer.echo(report_json(report), nl=False)
        elif query:
            print_answer(report)
        if not as_json:
            print_report(report, verbose=verbose)
        found = print_found(report, list(data.qrels["query"]), to_errors=as_json) if query else True
        if place is not None:
            both = "" if to_file else "/report.html (also report.md, report.json)"
            typer.echo(f"Report: {shown(place)}{both}", err=as_json)
        if answered.answers and all(answer.failed for answer in answered.answers):
            typer.echo(
                f"Failed: every answer failed, the first: {printable(answered.answers[0].error or 'no reason')}",
                err=True,
            )
            raise typer.Exit(1)
        if report.judge_failed:
            [state] = [one for one in report.perspectives if one.name == "judge"]
            raise ModelError(f"the judge decides nothing here: {state.reason or state.warning}")
        evaluation.check_gates_measured(aims, [row.measure for row in report.measures if row.value is None])
    raise typer.Exit(0 if report.passed and found else 1)


def _record(result: Result, place: Path) -> None:
    from ragbench.evaluation import load_result
    from ragbench.service import record_finished

    # As it is read back, so that importing the folder later finds the same run.
    saved = place.is_dir() or place.suffix == ".json"
    record_finished(lambda: [(load_result(place) if saved else result, place if place.is_dir() else None)])


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
    from ragbench.testsets.assembly import resolve_doc_id

    if not query.strip():
        raise ConfigError("--query is empty; give the question")
    if corpus:
        from ragbench.datasets.corpus import load_corpus

        base = load_corpus(corpus)
    else:
        base = load_questions(test_set, "")
    expected = [resolve_doc_id(doc_id, base.corpus) for doc_id in expected]
    for doc_id in expected:
        if base.corpus and doc_id not in base.corpus:
            raise DataError(f"--expected-doc: {unknown('document', doc_id, sorted(base.corpus))}")
    case = Case("query", query.strip())
    return Dataset(base.name, base.split, base.corpus, (case,), {"query": dict.fromkeys(expected, 1)})


def _words(text: str) -> list[str]:
    return [word for part in text.split(",") if (word := part.strip())]


def _depths(text: str) -> list[int]:
    if not all(word.isdecimal() for word in _words(text)):
        raise ConfigError(f"--k {text!r} is not a list of depths; write whole numbers such as 1,3,5,10")
    return sorted({int(word) for word in _words(text)})


def _place(output: str) -> Path:
    """Where the report goes: a bare name is that of a folder in results/eval, everything else a path."""
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
                "the same command asks" if output else f"the same command with --output {shown(journal.parent)} asks"
            )
            typer.echo(f"The answers that had come are in {shown(journal)}: {again} for the rest.", err=True)
        raise


def _own_folder(data: str, system: str, suite: str) -> Path:
    """A folder of its own for each evaluation: readable, in order of time."""
    words = re.sub(r"[^\w.]+", "-", f"{Path(data).name} {system} {suite}".lower()).strip("-.")[:80]
    stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{words}"
    tried = (RESULTS / (stem if i == 0 else f"{stem}-{i + 1}") for i in count())
    return next(path for path in tried if not path.exists())
