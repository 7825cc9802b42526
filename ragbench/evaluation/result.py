"""What one configuration gave on one dataset, and several of them side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ragbench.evaluation.formats import shortened
from ragbench.evaluation.masking import masked, masked_id
from ragbench.evaluation.parameters import configuration
from ragbench.evaluation.provenance import Timings, environment
from ragbench.evaluation.records import CaseResult, Made, MeasureResult, Report, TestSet
from ragbench.metrics.pipeline import outcome_of
from ragbench.registry import LEADERBOARD, higher_is_better, perspective_of
from ragbench.statistics import summarise
from ragbench.types import Answer, Dataset, Judgement, Run

if TYPE_CHECKING:
    from ragbench.evaluation.answering import Answered


@dataclass(frozen=True, eq=False)
class Result:
    """One system's results on one dataset: what `evaluate` returns, `save` writes and `load_result` reads.

    `config` holds plain data: "made_at" (the time, ISO 8601), "parameters" (of the configuration), "dataset" (name,
    split, fingerprint), "questions" (query_id -> text), "facts" (such as "chunks", their number) and "environment".
    `run` ranks documents. `scores` has the columns query_id, measure, value (NaN = unscored). `timings` holds
    seconds per stage. `diagnosis` has a row per question with its first cause of failure (see `ragbench.diagnose`).
    `verdicts` is what the evaluation decided: targets, passed questions and why not, safety samples; None where
    only scores were computed. `answered` is what the system gave with what it was made from (such as its chunks);
    None in a result that was loaded.
    """

    name: str
    config: Mapping[str, Any]
    run: Run
    scores: pd.DataFrame
    answers: Sequence[Answer] = ()
    judgements: Sequence[Judgement] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    diagnosis: pd.DataFrame | None = None
    verdicts: Report | None = None
    answered: Answered | None = None

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of the configuration."""
        parameters: Mapping[str, Any] = self.config.get("parameters", {})
        return parameters

    @property
    def queries(self) -> Mapping[str, str]:
        """query_id -> question."""
        queries: Mapping[str, str] = self.config.get("questions", {})
        return queries

    @cached_property
    def report(self) -> Report:
        """Everything that a report shows, as records; see `write_report`."""
        return self.verdicts or _report_of_scores(self)

    @property
    def summary(self) -> pd.DataFrame:
        """One row per measure: perspective, value (the mean), interval, counts, ceiling, target and verdict."""
        return self.report.summary

    @property
    def passed(self) -> bool:
        """Whether no target is missed, every gate was measured, and nothing got worse than in the baseline."""
        return self.report.passed

    @property
    def questions(self) -> pd.DataFrame:
        """One row per question: query_id, question, category, answer, outcome, passed, cause of failure, and the main
        measures."""
        wide = self.scores.pivot(index="query_id", columns="measure", values="value")
        main = [name for name in LEADERBOARD if name in wide]
        cause = {} if self.diagnosis is None else self.diagnosis.set_index("query_id")["cause"].to_dict()
        rows = [
            {
                "query_id": case.query_id,
                "question": case.question,
                "category": case.category,
                "answer": case.answer,
                "outcome": case.outcome,
                "passed": case.passed,
                "cause": cause.get(case.query_id, ""),
            }
            for case in self.report.cases
        ]
        columns = ["query_id", "question", "category", "answer", "outcome", "passed", "cause"]
        frame = pd.DataFrame(rows, columns=columns).astype({"passed": "boolean"})
        return frame.join(wide[main], on="query_id")

    def _repr_html_(self) -> str:
        shown = self.summary[["measure", "value", "ci_low", "ci_high", "n_scored", "n", "target", "verdict"]]
        return shown.round(3).to_html(index=False, border=0, na_rep="")


def new_result(
    *,
    parameters: Mapping[str, Any],
    dataset: Dataset,
    run: Run,
    scores: pd.DataFrame,
    name: str = "",
    answers: Sequence[Answer] = (),
    judgements: Sequence[Judgement] = (),
    timings: Timings | Mapping[str, float] | None = None,
    facts: Mapping[str, Any] | None = None,
    diagnosis: pd.DataFrame | None = None,
    verdicts: Report | None = None,
) -> Result:
    """A `Result` from the parts that the stages gave.

    Args:
        parameters: every parameter of the configuration, plain data.
        dataset: what it was measured on; its name, split, fingerprint and questions are kept.
        run: document-level ranking.
        scores: query_id, measure, value, one row per pair; NaN = unscored.
        name: of the configuration.
        timings: seconds per stage.
        facts: further plain numbers, such as {"chunks": 431}.
        diagnosis: as from `ragbench.diagnose`.

    Raises:
        ConfigError: a parameter is not plain data.
    """
    config = {
        "made_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "parameters": configuration(parameters),
        "dataset": {
            "name": name_of(dataset),
            "split": dataset.split,
            "fingerprint": dataset.fingerprint,
        },
        "facts": shortened(facts or {}),
        "environment": environment(),
        "questions": dataset.queries,
    }  # fmt: skip
    seconds = timings.seconds if isinstance(timings, Timings) else dict(timings or {})
    return Result(name, config, run, scores, tuple(answers), tuple(judgements), seconds, diagnosis, verdicts)


def name_of(dataset: Dataset) -> str:
    """A folder is known by its last part: where it is on this machine concerns no reader."""
    return Path(dataset.name).name if Path(dataset.name).is_absolute() else dataset.name


def _report_of_scores(result: Result) -> Report:
    """The report on a result that has scores and answers, but no targets."""
    data, given = result.config.get("dataset", {}), {answer.query_id: answer for answer in result.answers}
    by_query: dict[str, dict[str, float | None]] = {query_id: {} for query_id in result.queries}
    for query_id, name, value in result.scores.itertuples(index=False, name=None):
        by_query.setdefault(query_id, {})[name] = None if value != value else float(value)
    rows = summarise(result.scores).astype(object)
    return Report(
        name=result.name,
        test_set=TestSet(
            str(data.get("name", "")), str(data.get("split", "")), str(data.get("fingerprint", "")), len(by_query), 0
        ),
        system={"name": result.name, **result.parameters},
        settings={},
        perspectives=(),
        measures=tuple(
            MeasureResult(
                row["measure"], perspective_of(row["measure"]), row["mean"], row["ci_low"], row["ci_high"],
                row["n_scored"], row["n"], lower_is_better=not higher_is_better(row["measure"]),
            )
            for row in rows.where(rows.notna(), None).to_dict("records")
        ),
        cases=tuple(
            case_of(Answer(query_id, "", outcome="failed") if query_id not in given else given[query_id],
                    result.queries.get(query_id, ""), scores)
            for query_id, scores in by_query.items()
        ),
        made=Made(seconds=result.timings, environment=result.config.get("environment", {})),
    )  # fmt: skip


def case_of(answer: Answer, question: str, scores: Mapping[str, float | None], **more: Any) -> CaseResult:
    """The record of one question, with the secrets in its answer masked."""
    unknown = {"category": "", "query_type": "", "passed": None, "reasons": (), "expected_outcome": None}
    fields: dict[str, Any] = {**unknown, "relevant": (), **more}
    return CaseResult(
        query_id=answer.query_id,
        question=question,
        outcome=outcome_of(answer),
        answer=masked(answer.text),
        retrieved=tuple(map(masked_id, answer.contexts)),
        scores=scores,
        **fields,
    )
