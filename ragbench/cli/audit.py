"""`ragbench audit`: the card of a judge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragbench import llms
from ragbench.cli.options import (
    AtLeast2,
    Concurrency,
    Corpus,
    Json,
    Requests,
    Timeout,
    print_plan,
)

if TYPE_CHECKING:
    import pandas as pd

    from ragbench.judges import Criterion


def audit_command(
    judge: str,
    *,
    criteria: str = "correctness,faithfulness",
    n: AtLeast2 = 20,
    labels: Annotated[list[Path] | None, typer.Option()] = None,
    test_set: str = "pydoc",
    corpus: Corpus = "",
    as_json: Json = False,
    concurrency: Concurrency = 8,
    timeout_s: Timeout = llms.TIMEOUT_S,
    requests: Requests,
) -> int:
    """Test a judge before it decides: probes with answers that are right, wrong, truncated, padded,
    or give it orders, in other languages, and with levels and documents in another order; each
    answer also three times at temperature 0.

    The answers are the reference answers of the test set. By a criterion of your own none is known
    to be right: the probes then test what should not matter, and only `--labels` show whether the
    judge agrees with people. The cost is shown before anything is sent. The findings are kept on
    this machine, and every later report of a result that this judge decides shows them. Exit
    status: 0 no probe failed, 1 a probe failed, 2 the judge could not be asked.

    Args:
        judge: anthropic:<model>, ollama:<model>, openai:<model>, env, or package.module:attribute.
        criteria: Criteria that look at the answer; also your own, as for eval.
        n: Answers of each probe.
        labels: Label sheets by people, whose answers the judge then judges, too: its agreement by
            each criterion that has labels.
        test_set: A test set with reference answers.
        as_json: Print the tables as JSON.

    Example: ragbench audit openai:gpt-5-mini --criteria correctness --max-cost 1
    """
    import json

    from ragbench.errors import printable
    from ragbench.judges import audit_findings, load_criteria, save_card

    chosen = load_criteria(criteria)
    sheets = _sheets_of(labels or [], chosen)
    with requests.settings():
        name = llms.check_llm(judge).name
        answers, material = _right_answers(test_set, corpus, chosen)
        asking: dict[str, Any] = {"concurrency": concurrency, "timeout_s": timeout_s}

        def ask(criterion: Criterion) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
            return _audited(
                criterion, judge, answers, {**material, "n": n}, sheets[criterion.name], asking
            )

        with llms.dry_run() as plan:
            for criterion in chosen:
                ask(criterion)
        if not as_json:
            print_plan(plan)
        if requests.dry_run:
            return 0
        llms.check_servers(judge)
        records = {}
        failed = False
        unscored = False
        for criterion in chosen:
            audit, agreement = ask(criterion)
            path = save_card(name, criterion, audit, agreement)
            findings = audit_findings(audit, agreement)
            states = [*audit["verdict"]]
            failed = failed or "fail" in states
            unscored = unscored or {*states} == {"unscored"}
            records[criterion.name] = {
                "probes": json.loads(audit.to_json(orient="records")),
                "findings": findings,
                "agreement": agreement,
            }
            if as_json:
                continue
            typer.echo(f"\n{printable(name)} by {criterion.name}")
            typer.echo(audit.round(3).to_string(index=False))
            for row in agreement:
                typer.echo(f"agreement with people: {row}")
            for finding in findings or ["no fault was found"]:
                typer.echo(f"- {finding}")
            typer.echo(f"kept in {path}")
        if as_json:
            typer.echo(json.dumps({"judge": name, "criteria": records}, indent=1))
    if unscored:
        return 2
    return 1 if failed else 0


def _sheets_of(labels: list[Path], criteria: tuple[Criterion, ...]) -> dict[str, list[Path]]:
    """Return the name of each criterion -> the sheets with labels by it.

    Raises:
        DataError: there are sheets, and none has a label by these criteria.
    """
    from ragbench.errors import DataError
    from ragbench.labelling import read_sheet

    sheets: dict[str, list[Path]] = {criterion.name: [] for criterion in criteria}
    for path in labels:
        rows = read_sheet(path).dropna(subset="value")
        labelled = {*rows["criterion"]}
        for criterion in criteria:
            if labelled & {criterion.name, criterion.meant}:
                sheets[criterion.name].append(path)
    if labels and not any(sheets.values()):
        raise DataError(
            f"{', '.join(path.name for path in labels)}: no label is by {', '.join(sheets)}; label "
            "some answers, or name another criterion"
        )
    return sheets


def _right_answers(
    test_set: str, corpus: str, criteria: tuple[Criterion, ...]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the reference answers of a test set as answers, which an audit takes as right, and the
    dataset and chunks behind them as arguments of `judge_audit`.

    The answers have contexts if a criterion shows them and the test set has documents.

    Raises:
        DataError: the test set has no reference answer.
    """
    from ragbench.errors import DataError
    from ragbench.systems import Pipeline
    from ragbench.testsets.loader import load_dataset
    from ragbench.types import Answer, Chunk

    dataset = load_dataset(test_set, corpus=corpus)
    cases = [case for case in dataset.cases if (case.reference_answer or "").strip()]
    if not cases:
        raise DataError(f"{dataset.name!r} has no reference answer; an audit needs right answers")
    dataset = dataset.select([case.query_id for case in cases])
    contexts: dict[str, tuple[str, ...]] = {}
    chunks: list[Chunk] = []
    if dataset.corpus and any("contexts" in criterion.shows for criterion in criteria):
        pipeline = Pipeline(dataset, "bm25")
        chunks = pipeline.chunks
        for case in cases:
            contexts[case.query_id] = pipeline.answer(case.query_id, case.text).contexts
    answers = [
        Answer(
            case.query_id,
            case.reference_answer or "",
            contexts.get(case.query_id, ()),
            outcome="success",
        )
        for case in cases
    ]
    return answers, {"dataset": dataset, "chunks": chunks}


def _audited(
    criterion: Criterion,
    judge: str,
    answers: list[Any],
    options: dict[str, Any],
    labels: list[Path],
    asking: dict[str, Any],
) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """Return the table of the probes of a criterion, and rows of its agreement with people's labels;
    [] without label sheets.

    `options` and `asking` are arguments of `judge_audit`: the material, and how requests are sent.
    """
    import json

    from ragbench.judges import judge_audit
    from ragbench.labelling import sheet_agreement

    audit = judge_audit(answers, criterion, judge, **options, **asking)
    if not labels:
        return audit, []
    table = sheet_agreement(labels, criterion, judge, **asking)
    return audit, json.loads(table.to_json(orient="records"))
