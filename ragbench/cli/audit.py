"""`ragbench audit`: options, printed table and exit status of the audit of a judge; `judges/audit_probes`
has the probes and their bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    from ragbench.types import Answer, Chunk


@dataclass(frozen=True)
class _Audit:
    """The audit of a judge by one criterion."""

    criterion: Criterion
    probes: pd.DataFrame
    """A row per probe, as from `judge_audit`; its verdict is "pass", "fail" or "unscored"."""
    agreement: list[dict[str, Any]]
    """The rows of `sheet_agreement` with people's labels; none without label sheets."""

    @property
    def verdicts(self) -> set[str]:
        return set(self.probes["verdict"])

    @property
    def findings(self) -> list[str]:
        from ragbench.judges import audit_findings

        return audit_findings(self.probes, self.agreement)


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
    """Test a judge before it decides: with right, wrong, truncated and padded answers, answers that
    contain instructions, other languages, and levels and documents in another order. Each answer is
    also judged three times at temperature 0.

    The answers are the reference answers of the test set. For a criterion of your own, no answer is
    known to be right: the probes then test only changes that should not matter, and only `--labels`
    shows whether the judge agrees with people. Without --json, the cost is shown before anything is
    sent. The findings are stored on this machine, and every later report of a result that this judge
    decides shows them.
    Exit status: 0 no probe failed, 1 a probe failed, 2 the judge could not be asked.

    Args:
        judge: anthropic:<model>, ollama:<model>, openai:<model>, env, or package.module:attribute.
        criteria: Criteria that look at the answer; also your own, as for eval.
        n: Number of answers in each probe.
        labels: Label sheets by people. The judge also judges their answers, which shows its agreement
            with people for each criterion that has labels.
        test_set: A test set with reference answers.
        as_json: Print the tables as JSON.

    Example: ragbench audit openai:gpt-5-mini --criteria correctness --max-cost 1
    """
    from ragbench.judges import load_criteria, save_card

    chosen = load_criteria(criteria)
    sheets = _sheets_by_criterion(labels or [], chosen)
    with requests.settings():
        name = llms.check_llm(judge).name
        # `material`: the dataset and the chunks that belong to the answers
        answers, material = _right_answers(test_set, corpus, chosen)
        options = {**material, "n": n}
        sending = {"concurrency": concurrency, "timeout_s": timeout_s}

        def run_audit(criterion: Criterion) -> _Audit:
            return _run_audit(criterion, judge, answers, options, sheets[criterion.name], sending)

        with llms.dry_run() as plan:  # counts the requests, and sends none
            for criterion in chosen:
                run_audit(criterion)
        if not as_json:
            print_plan(plan)
        if requests.dry_run:
            return 0
        llms.check_servers(judge)
        audits = []
        for criterion in chosen:
            audit = run_audit(criterion)
            audits.append(audit)
            card_path = save_card(name, criterion, audit.probes, audit.agreement)
            if not as_json:
                _print_audit(audit, name, card_path)
        if as_json:
            _print_json(audits, name)
    return _exit_status(audits)


def _print_audit(audit: _Audit, judge: str, card_path: Path) -> None:
    """Print the probes of a criterion, the agreement with people, the findings, and the file of the card.

    Args:
        judge: the name of the model.
        card_path: the file that keeps the findings for later reports.
    """
    from ragbench.errors import printable

    typer.echo(f"\n{printable(judge)} by {audit.criterion.name}")
    typer.echo(audit.probes.round(3).to_string(index=False))
    for row in audit.agreement:
        typer.echo(f"agreement with people: {row}")
    for finding in audit.findings or ["no fault was found"]:
        typer.echo(f"- {finding}")
    typer.echo(f"kept in {card_path}")


def _print_json(audits: Sequence[_Audit], judge: str) -> None:
    """Print the audits of a judge, by criterion, as one JSON object."""
    import json

    records = {}
    for audit in audits:
        records[audit.criterion.name] = {
            "probes": json.loads(audit.probes.to_json(orient="records")),
            "findings": audit.findings,
            "agreement": audit.agreement,
        }
    typer.echo(json.dumps({"judge": judge, "criteria": records}, indent=1))


def _exit_status(audits: Sequence[_Audit]) -> int:
    """Return 2 if all probes of a criterion are unscored (the judge could not be asked), else 1 if a
    probe failed, else 0.
    """
    # before failed probes, because a judge that could not be asked has proved nothing
    if any(audit.verdicts == {"unscored"} for audit in audits):
        return 2
    return int(any("fail" in audit.verdicts for audit in audits))


def _sheets_by_criterion(
    labels: list[Path], criteria: tuple[Criterion, ...]
) -> dict[str, list[Path]]:
    """Return name of a criterion -> the label sheets that have a label by it, for each criterion.

    Raises:
        DataError: there are sheets, and none has a label by these criteria.
    """
    from ragbench.errors import DataError
    from ragbench.labelling import read_sheet

    sheets: dict[str, list[Path]] = {criterion.name: [] for criterion in criteria}
    for path in labels:
        # the rows with a label; a row without is an answer that nobody has judged yet
        rows = read_sheet(path).dropna(subset="value")
        labelled = set(rows["criterion"])
        for criterion in criteria:
            # The criterion may be another wording of a criterion ("correctness"). Its `meant` is then
            # the name of that criterion, whose labels count, too.
            if criterion.name in labelled or criterion.meant in labelled:
                sheets[criterion.name].append(path)
    has_usable_sheet = any(sheets.values())
    if labels and not has_usable_sheet:
        raise DataError(
            f"{', '.join(path.name for path in labels)}: no label is by {', '.join(sheets)}; label "
            "some answers, or name another criterion"
        )
    return sheets


def _right_answers(
    test_set: str, corpus: str, criteria: tuple[Criterion, ...]
) -> tuple[list[Answer], dict[str, Any]]:
    """Return the reference answers of a test set in the form of a system's answers, for an audit.

    They have contexts, found by BM25, if a criterion shows contexts to the judge and the test set has
    documents.

    Returns:
        The answers, and the options of `judge_audit` that belong to them: `dataset`, its questions with
        a reference answer; `chunks`, among which the contexts are ([] without contexts).

    Raises:
        DataError: the test set has no reference answer.
    """
    from ragbench.errors import DataError
    from ragbench.systems import Pipeline
    from ragbench.testsets.loader import load_dataset
    from ragbench.types import Answer

    dataset = load_dataset(test_set, corpus=corpus)
    reference_of = {
        case.query_id: case.reference_answer
        for case in dataset.cases
        if case.reference_answer and case.reference_answer.strip()
    }
    if not reference_of:
        raise DataError(f"{dataset.name!r} has no reference answer; an audit needs right answers")
    dataset = dataset.select(list(reference_of))
    contexts_of: dict[str, tuple[str, ...]] = {}
    chunks: list[Chunk] = []
    # `shows` names the parts of an answer that the judge sees
    if dataset.corpus and any("contexts" in criterion.shows for criterion in criteria):
        pipeline = Pipeline(dataset, "bm25")
        chunks = pipeline.chunks
        for query_id, question in dataset.queries.items():
            contexts_of[query_id] = pipeline.answer(query_id, question).contexts
    answers = [
        Answer(query_id, text, contexts_of.get(query_id, ()), outcome="success")
        for query_id, text in reference_of.items()
    ]
    return answers, {"dataset": dataset, "chunks": chunks}


def _run_audit(
    criterion: Criterion,
    judge: str,
    answers: list[Answer],
    options: dict[str, Any],
    sheets: list[Path],
    sending: dict[str, Any],
) -> _Audit:
    """Probe a judge by one criterion, and compare it with the people's labels in `sheets`, if any.

    Args:
        options: further options of `judge_audit`: dataset, chunks, n.
        sending: how requests are sent: concurrency, timeout_s.
    """
    import json

    from ragbench.judges import judge_audit
    from ragbench.labelling import sheet_agreement

    probes = judge_audit(answers, criterion, judge, **options, **sending)
    agreement: list[dict[str, Any]] = []
    if sheets:
        table = sheet_agreement(sheets, criterion, judge, **sending)
        agreement = json.loads(table.to_json(orient="records"))  # as plain data, NaN as None
    return _Audit(criterion, probes, agreement)
