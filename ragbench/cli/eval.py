"""`ragbench eval`: the options that only it has (--query), its dry run, the folder and report that
it writes, what it prints around `summary.md.j2`, and its exit status.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ragbench import evaluation, llms, service, systems
from ragbench.cli.console import shown
from ragbench.cli.options import Corpus, Force, Requests, TestSetName, Yes, print_plan
from ragbench.errors import ConfigError, DataError, ModelError, printable, unknown
from ragbench.files import expanded, read_json
from ragbench.report import page
from ragbench.types import Case, Dataset

RESULTS = Path("results", "eval")
_WIDTH = 110  # columns, where the output is not a terminal


def eval_command(
    system: str = "bm25",
    *,
    test_set: TestSetName = "pydoc",
    corpus: Corpus = "",
    auto_generate_datasets: bool = False,
    split: str = "test",
    query: str = "",
    expected_doc: list[str] | None = None,
    yes: Yes = False,
    judge_provider: str = "",
    judge_model: str = "",
    output: str = "",
    force: Force = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v")] = False,
    as_json: Annotated[bool, typer.Option("--json")] = False,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE")] = None,
    requests: Requests,
    **options: Any,
) -> int:
    """Evaluate a system from every perspective: retrieval, context, groundedness, answers,
    pipeline, safety.

    Without options, BM25 answers the built-in questions without a language model. Questions with a
    latency budget, and 20 others, are asked one at a time. The targets are those that you name and,
    for a test set of your own without --baseline, ragbench's default targets.

    The result is written to a folder with report.md and report.html, the answers of a service as
    they come. If --output names this folder, the same command continues an evaluation that was
    stopped, asks again for answers that failed, and shows a finished evaluation without asking
    anything; it refuses a folder with an evaluation of other questions, documents, system or
    options. A single --query is only shown, unless --output is given; it passes if --expected-doc
    is among the first 5 documents.

    Exit status: 0 all is well, 1 a target is missed, something is worse than in the baseline, or
    questions of the baseline lost labelled documents or evidence, 2 nothing could be evaluated or the
    judge failed on more than 20 % of the answers, 3 the maximum cost stopped it, 130 interrupted.

    Questions:
        test_set: A test-set file, a folder, or a dataset's name.
        corpus: The documents: a folder, a corpus.jsonl or a dataset's name.
        auto_generate_datasets: Evaluate the newest data set in testsets/. If there is none, or it is
            older than 7 days, one is generated first, from --docs or the documents sent to the
            server: EVALUATION_DEFAULT_SAMPLE_SIZE pairs, by the model of RAG_EVAL_PROVIDER.
        split: Split of a dataset that has several: train, dev, test.
        query: Ask this one question instead of a test set's.
        expected_doc: With --query: the document that answers it.

    Args:
        system: A retriever (bm25, hybrid:wordllama, package.module:attribute), a .toml file, an
            address, recorded answers (.jsonl, .run).

    System and measures:
        settings: An option of the pipeline, as in a grid: chunker=fixed, chunk_size=512, k=3,
            llm=...; may be repeated.

    Judge:
        judge_provider: The judge's provider: anthropic, ollama, openai.
        judge_model: The judge's model; default: its provider's model.

    Output:
        output: Folder, or a file ending in .json, .md, .html, .xml (JUnit) or .jsonl (traces as
            OTLP JSON); default: a new folder in results/eval.
        force: Replace existing files.
        verbose: Print the whole report.
        as_json: Print the report as JSON, and nothing else.

    Example: ragbench eval --suite smoke --fail-under "nDCG@5=0.3"
    """
    from ragbench.llms.costs import watching_budget

    if auto_generate_datasets:
        _check_test_set_is_open(test_set, query)
        from ragbench.cli.fresh import fresh_testset

        test_set, corpus = fresh_testset(corpus, requests)
        if requests.dry_run and not Path(test_set).exists():
            return 0  # the dry run printed the cost of generating it
    expected_ids = expected_doc or []
    with requests.settings():
        _check_options_of_query(query, expected_ids, options)
        path = expanded(output) if output else None
        options["judge"] = llms.named_model(options["judge"], judge_provider, judge_model)
        spec = evaluation.EvaluationSpec(**options)
        if path is not None and not spec.name:
            spec = spec.replaced(name=_name_of_output(path))
        if query:
            spec = _with_targets_of_query(spec, has_expected_doc=bool(expected_ids))
        pipeline_settings = evaluation.pipeline_settings(settings or (), system)
        if query:
            data = _dataset_of_query(test_set, corpus, query, expected_ids)
        else:
            data = load_questions(test_set, corpus, split)
        if requests.dry_run:
            _print_requests(data, system, spec, pipeline_settings)
            return 0
        if path is None and not query:
            path = _new_folder(data.name, Path(system).stem, spec.suite)
        with watching_budget() as not_sent:
            result = _evaluate(
                _Evaluation(data, system, spec, pipeline_settings),
                path,
                has_output=bool(output),
                force=force,
                no_cache=requests.no_cache,
            )
        _print_result(result, path, verbose=verbose, as_json=as_json)
        if not_sent:
            typer.echo(f"Stopped by the maximum cost: {printable(not_sent[0])}", err=True)
            return 3
        _check_measured(result)
    return 0 if result.passed else 1


def _check_test_set_is_open(test_set: str, query: str) -> None:
    """Raise ConfigError if --auto-generate-datasets is given with a test set or a --query."""
    if test_set != "pydoc" or query:
        raise ConfigError(
            "--auto-generate-datasets chooses the test set itself; leave --test-set and --query out"
        )


def _check_options_of_query(
    query: str, expected_ids: Sequence[str], options: Mapping[str, Any]
) -> None:
    """Raise ConfigError if --expected-doc has no --query, or --query is given with options about many
    questions.
    """
    if expected_ids and not query:
        raise ConfigError("--expected-doc belongs to --query; a test set names its own documents")
    is_about_many = options["baseline"] or options["suite"] != "full" or options["limit"]
    if query and is_about_many:
        raise ConfigError(
            "--query asks one question; --baseline, --suite and --limit cannot be combined with it"
        )


def _print_requests(
    data: Dataset,
    system: str,
    spec: evaluation.EvaluationSpec,
    pipeline_settings: Mapping[str, Any],
) -> None:
    """Print which requests an evaluation would send to language models, and their estimated cost.

    The evaluation runs in a dry run: requests are counted, and none is sent.

    Args:
        system: the name of the system, as for `eval`.
        pipeline_settings: options of --set for ragbench's own pipeline; empty for other systems.
    """
    with llms.dry_run() as plan:
        checked = evaluation.check_evaluation(data, spec)
        dry_system: str | systems.Pipeline = system
        if pipeline_settings:
            dry_system = systems.Pipeline(checked.dataset, system, **pipeline_settings)
        evaluation.ask_all(checked.dataset, dry_system, checked.spec, criteria=checked.criteria)
    print_plan(plan, str(spec.judge))


def _name_of_output(path: Path) -> str:
    """Return the name of an evaluation that is written to a report file or a folder.

    >>> _name_of_output(Path("a/b.json")), _name_of_output(Path("results/v1.2"))
    ('b', 'v1.2')
    """
    return path.stem if page.is_report_file(path) else path.resolve().name


def _with_targets_of_query(
    spec: evaluation.EvaluationSpec, *, has_expected_doc: bool
) -> evaluation.EvaluationSpec:
    """Return the spec of a single --query: of the targets only the gates of --fail-under stay; if a document
    is expected, another target is that it is among the first 5.
    """
    targets = replace(evaluation.load_targets(spec.targets), measures={})
    gates = {"Success@5": 1} if has_expected_doc else {}
    return spec.replaced(targets=targets.gated(gates))


@dataclass(frozen=True)
class _Evaluation:
    """The evaluation that the options describe."""

    data: Dataset
    system: str
    spec: evaluation.EvaluationSpec
    pipeline_settings: Mapping[str, Any]
    """The options --set, for a system that is a pipeline of ragbench."""

    def run(self, journal: str | Path = "") -> evaluation.Result:
        """Evaluate; a `journal` (a file) keeps the answers, which are then not asked for again."""
        return evaluation.evaluate(
            self.data, self.system, self.spec, journal=journal, **self.pipeline_settings
        )

    def run_with_journal(self, journal: Path, *, has_output: bool) -> evaluation.Result:
        """Evaluate, writing each answer to a file, the journal, as it comes.

        If this is interrupted or fails, print how to continue from the journal, and raise the exception
        again. `has_output`: the option --output is given.
        """
        try:
            return self.run(journal)
        except BaseException:
            if journal.exists():
                same_place = "" if has_output else f" with --output {shown(journal.parent)}"
                typer.echo(
                    f"The answers received so far are in {shown(journal)}; the same command{same_place} "
                    "asks for the rest.",
                    err=True,
                )
            raise


def _evaluate(
    wanted: _Evaluation, path: Path | None, *, has_output: bool, force: bool, no_cache: bool
) -> evaluation.Result:
    """Evaluate, write the result to `path`, and record it in the history.

    Args:
        path: a folder for the result and its reports, or a file for one report; None writes nothing.
        has_output: the option --output is given, which names `path`.
        force: replace the folder or file at `path`, and forget its journal.
        no_cache: evaluate again, also if the folder holds this complete evaluation.

    Raises:
        ConfigError: the folder holds another evaluation.
    """
    if path is None:
        return wanted.run()
    # a name such as report.html: one report, and no folder
    if page.is_report_file(path):
        result = _evaluate_into_file(wanted, path, has_output=has_output, force=force)
    else:
        result = _evaluate_into_folder(
            wanted, path, has_output=has_output, force=force, no_cache=no_cache
        )
    _record_in_history(result, path)
    return result


def _evaluate_into_file(
    wanted: _Evaluation, path: Path, *, has_output: bool, force: bool
) -> evaluation.Result:
    """Evaluate and write one report.

    While the evaluation runs, the answers are written to a file next to the report, the journal. If it
    is interrupted, the same command reads them and continues.

    Args:
        has_output: the option --output is given (for a message).
        force: replace the file, and forget its journal.
    """
    from ragbench.evaluation.folder import JOURNAL

    # raises if a file is there already, before anything is asked
    page.check_output(path, force=force)
    journal = path.with_name(f"{path.name}.{JOURNAL}")
    if force:
        journal.unlink(missing_ok=True)
    result = wanted.run_with_journal(journal, has_output=has_output)
    journal.unlink(missing_ok=True)
    page.write_report(result, path, force=force)
    return result


def _evaluate_into_folder(
    wanted: _Evaluation, folder: Path, *, has_output: bool, force: bool, no_cache: bool
) -> evaluation.Result:
    """Evaluate, and write the result with its reports to a folder.

    If the folder holds this evaluation already and it is complete, nothing is asked and its result is
    returned. An interrupted one continues from the answers in its journal, also with `no_cache`.

    Args:
        has_output: the option --output is given (for a message).
        force: replace any evaluation in the folder, and forget its journal. Replies of language models
            that are stored are used again.
        no_cache: evaluate again, also if the folder holds this complete evaluation, but replace no
            other one. No stored reply is used either.

    Raises:
        ConfigError: the folder holds another evaluation.
    """
    from ragbench.evaluation.folder import JOURNAL
    from ragbench.evaluation.identity import made_from

    # digests of all inputs, by which the same evaluation is recognised
    identity = made_from(wanted.data, wanted.system, wanted.spec, wanted.pipeline_settings)
    # None for an interrupted evaluation: it has a journal, and no result
    earlier = None if force else _earlier_result(folder, identity, wanted.data)
    if earlier is not None and earlier.is_complete and not no_cache:
        typer.echo(
            f"Nothing is left to do: {shown(folder)} holds this evaluation, made at "
            f"{earlier.made_at or 'an unknown time'}. --force asks everything again; --no-cache also asks "
            "language models that changed behind their name and address.",
            err=True,
        )
        return earlier
    # an earlier result of this evaluation may be replaced without `force`
    page.check_output(folder, force=force or earlier is not None)
    journal = folder / JOURNAL
    if force or (no_cache and earlier is not None):
        journal.unlink(missing_ok=True)
    result = wanted.run_with_journal(journal, has_output=has_output)
    # by these digests a later call of this command recognises the folder
    result = replace(result, config={**result.config, "made_from": identity})
    views = {"report.md": page.report_markdown(result), "report.html": page.report_html(result)}
    _print_data_changes(result, folder)
    evaluation.save(result, folder, views=views)
    return result


_PART = ("suite", "limit", "categories")  # settings that choose a part of the questions


def _print_data_changes(result: evaluation.Result, folder: Path) -> None:
    """Print what changed in documents and questions since the last evaluation of the same kind, which is
    looked for in the folders next to `folder`.

    It is of the same kind if the test set, the system and the part of the questions are the same.
    """
    from ragbench.evaluation.data_changes import data_changes

    earlier_runs = _runs_next_to(folder, _what_is_asked(result.config))
    if not earlier_runs:
        return
    # the newest one
    made_at, config = max(earlier_runs, key=lambda run: run[0])  # times sort as texts
    changes = data_changes(config, result.config) if made_at else ""
    if changes:
        typer.echo(f"Since the last run ({made_at[:16]}): {printable(changes)}.", err=True)


def _runs_next_to(folder: Path, kind: list[Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the results of a kind in the folders next to `folder`, as (time, content of config.json).

    The time is "" if a result does not state it. `kind` is the test set, the system and the part of the
    questions, as `_what_is_asked` returns them.
    """
    runs = []
    for config_path in sorted(folder.parent.glob("*/config.json")):
        if config_path.parent == folder:
            continue
        try:
            config = read_json(config_path, "")
            times = read_json(config_path.with_name("timings.json"), "")
        except DataError:
            continue  # a damaged file is reported by the code that reads it
        if not isinstance(config, dict) or not isinstance(times, dict):
            continue
        if _what_is_asked(config) == kind:
            runs.append((str(times.get("made_at", "")), config))
    return runs


def _what_is_asked(config: Mapping[str, Any]) -> list[Any]:
    """Return the names of the test set and the system of a result, and the part of the questions."""
    dataset = config.get("dataset") or {}
    system = config.get("system") or {}
    settings = config.get("settings") or {}
    part = [settings.get(name) for name in _PART]
    return [dataset.get("name"), system.get("name"), *part]


def _earlier_result(
    folder: Path, identity: Mapping[str, str], data: Dataset
) -> evaluation.Result | None:
    """Return the result that an earlier call of this command wrote to a folder; None if there is none.

    Args:
        identity: digests of the test set, documents, system and options of the present call.
        data: the test set of the present call.

    Raises:
        ConfigError: the folder holds an evaluation that was made from other inputs.
        DataError: a file of the result is damaged.
    """
    from ragbench.evaluation.data_changes import config_of, data_changes
    from ragbench.evaluation.identity import difference

    config_path = folder / "config.json"
    if not config_path.is_file():
        return None
    config = read_json(config_path, "name another folder, or replace it with --force")
    # missing if the result was not written by this command
    earlier_identity = config.get("made_from") if isinstance(config, dict) else None
    if not isinstance(earlier_identity, dict):
        return None
    differing = difference(earlier_identity, identity)  # names of the inputs; "" if all are equal
    if not differing:
        return evaluation.load_result(folder)
    if changes := data_changes(config, config_of(data)):
        # what changed in documents and questions, in words
        differing += f": {changes}"
    raise ConfigError(
        f"{folder} holds an evaluation already, made from other inputs ({differing}); name "
        "another folder, or replace it with --force"
    )


def _record_in_history(result: evaluation.Result, path: Path) -> None:
    """Record a result in the history, as it is read back, so that importing its folder later finds
    the same run.
    """
    folder = path if path.is_dir() else None

    def recorded() -> list[tuple[evaluation.Result, Path | None]]:
        if folder is None:
            return [(result, None)]
        # the place of the output is not in the files of a result
        return [(replace(evaluation.load_result(folder), output=result.output), folder)]

    service.record_finished(recorded)


def _print_result(
    result: evaluation.Result, path: Path | None, *, verbose: bool, as_json: bool
) -> None:
    """Print the result and where its report is. In a workflow of GitHub, also add the report to the
    summary of the step.

    Args:
        path: where the report is; None if it was not written.
        verbose: print the whole report.
        as_json: print the report as JSON.
    """
    from ragbench.report.page.report_json import report_json

    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        try:
            with open(summary, "a", encoding="utf-8") as file:
                file.write(page.report_markdown(result))
        except OSError as exc:  # the result is there, and decides
            typer.echo(f"The summary {summary} cannot be written: {exc.strerror}", err=True)
    if as_json:
        typer.echo(report_json(result), nl=False)
    else:
        _print_markdown(page.report_markdown(result, is_brief=not verbose))
    if path is not None:
        others = "" if page.is_report_file(path) else "/report.html (also report.md)"
        typer.echo(f"Report: {shown(path)}{others}", err=as_json)


def _print_markdown(text: str) -> None:
    """Print Markdown as formatted text, with one empty line at most between paragraphs."""
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDTH
    with console.capture() as printed:
        console.print(Markdown(text, hyperlinks=False))
    typer.echo(re.sub(r"\n\s*\n", "\n\n", printed.get()), nl=False)


def _check_measured(result: evaluation.Result) -> None:
    """Return if the result shows something; else raise, so that the command ends with status 2.

    Raises:
        typer.Exit: every answer failed, or no measure has a value; the reason is printed.
        ModelError: the judge failed on too many answers.
        ConfigError: the measure of a gate (--fail-under) has no value.
    """
    answers = result.answers
    if answers and all(answer.failed for answer in answers):
        typer.echo(
            f"Failed: every answer failed, the first: {printable(answers[0].error or 'no reason')}",
            err=True,
        )
        raise typer.Exit(2)
    if not result.is_measured:
        typer.echo("Failed: nothing could be evaluated; the report states why.", err=True)
        raise typer.Exit(2)
    if result.judge_failed:
        # the part of the result about the judge; there is exactly one
        [judging] = [part for part in result.perspectives if part.name == "judge"]
        raise ModelError(f"the judge decides nothing here: {judging.reason or judging.warning}")
    # a gate on a measure without a value could neither pass nor fail
    unscored = [row.measure for row in result.rows if row.value is None]
    evaluation.check_gates_measured(result.settings["gates"], unscored)


def load_questions(test_set: str, corpus: str, split: str = "test") -> Dataset:
    """Load a test set. The built-in one ("pydoc") comes with its safety samples."""
    from ragbench.datasets.safety import load_safety_samples
    from ragbench.testsets.loader import load_dataset

    data = load_dataset(test_set, split, corpus=corpus)
    if test_set != "pydoc":
        return data
    inputs, outputs = load_safety_samples()
    return replace(data, safety_inputs=inputs, safety_outputs=outputs)


def _dataset_of_query(
    test_set: str, corpus: str, query: str, expected_ids: Sequence[str]
) -> Dataset:
    """Return a dataset with the one question of --query.

    Its documents are `corpus` or, if that is "", the documents of the test set; the documents with
    `expected_ids` are relevant.

    Raises:
        ConfigError: the question is empty.
        DataError: an expected document is not among the documents.
    """
    from ragbench.datasets.corpus import load_corpus
    from ragbench.testsets.assembly import DocumentIds

    if not query.strip():
        raise ConfigError("--query is empty; give the question")
    base = load_corpus(corpus) if corpus else load_questions(test_set, "")
    ids = DocumentIds(base.corpus)
    grades = {}
    for expected_id in expected_ids:
        doc_id = ids.id_of(expected_id)  # such as docs/a.md for a.md
        if base.corpus and doc_id not in base.corpus:
            raise DataError(f"--expected-doc: {unknown('document', doc_id, sorted(base.corpus))}")
        grades[doc_id] = 1
    case = Case("query", query.strip())
    return Dataset(base.name, base.split, base.corpus, (case,), {case.query_id: grades})


def _new_folder(data: str, system: str, suite: str) -> Path:
    """Return the path of a new folder for an evaluation.

    Its name begins with the time, such as 20260131-094500-pydoc-bm25-full.

    Args:
        data, system, suite: the names of these, which become a part of the folder's name.
    """
    words = re.sub(r"[^\w.]+", "-", f"{Path(data).name} {system} {suite}".lower()).strip("-.")[:80]
    stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{words}"
    folder = RESULTS / stem
    number = 1
    while folder.exists():
        number += 1
        folder = RESULTS / f"{stem}-{number}"
    return folder
