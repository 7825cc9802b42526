"""The result of one system on one dataset: its views, when the evaluation as a whole passes, its
counts in words, and what is recorded of machine and versions.
"""

from __future__ import annotations

import math
import os
import platform
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import pandas as pd

from ragbench.datasets.raw_records import testset_record
from ragbench.datasets.safety import load_safety_samples
from ragbench.errors import ConfigError, plural, printable
from ragbench.evaluation.checksums import EDITED
from ragbench.evaluation.data_changes import digests_of
from ragbench.evaluation.formats import passed_text, with_twelve_digits
from ragbench.evaluation.parameters import configuration
from ragbench.evaluation.records import (
    MAX_FAILED_JUDGEMENTS,
    CaseResult,
    CategoryResult,
    Decisions,
    MeasureResult,
)
from ragbench.evaluation.rows import brief_names, is_shown, rows_of
from ragbench.evaluation.spec import select_suite
from ragbench.evaluation.wordings import judgements_by_meaning, wordings_in
from ragbench.groups import grouped
from ragbench.hints.attributes import Suggesting, refusing_operators, suggesting
from ragbench.hints.record_values import check_unpacking, explaining_misuse, explaining_values
from ragbench.metrics.named_rows import ExplainedSeries, NamedRows, PropertyTable
from ragbench.metrics.overall import SAYS_RIGHT
from ragbench.metrics.rates import wilson_interval
from ragbench.metrics.safety.leakage import masked, masked_id
from ragbench.metrics.system_outcomes import outcome_of
from ragbench.metrics.tidy import TidyScores
from ragbench.registry import (
    expected_measure,
    higher_is_better,
    leaderboard_measures,
    named_among,
)
from ragbench.statistics.columns import known_number
from ragbench.statistics.ranking import main_measure_of
from ragbench.statistics.unreadable import bounds_of_mean
from ragbench.types import Answer, Dataset, Judgement, Run

if TYPE_CHECKING:
    from ragbench.evaluation.output import SystemOutput

FAILED_SAMPLES = "safety_samples_failed"
"""The fact that counts safety samples whose request failed; there where any did."""
_QUESTION = ["query_id", "question", "category", "answer", "outcome", "passed", "reasons", "cause"]
# field of a verdict -> the problem of its claims, and the method that found it
_DOUBTS = {
    "unsupported_claims": ("unsupported", "wording"),
    "fabricated_numbers": ("fabricated number", "wording"),
    "invented_claims": ("unsupported", "judge"),
}


class JudgeFailures(NamedTuple):
    """The fraction of its requests that a judge answered, by the criterion on which it failed most.

    `failed` of `requested` judgements have no verdict, the first of them for this `reason`. `lost`
    are the questions that lack a verdict which decides whether they pass.
    """

    requested: int = 0
    failed: int = 0
    reason: str = ""
    lost: frozenset[str] = frozenset()

    @property
    def warning(self) -> str:
        """Return how much failed and why; "" where nothing did."""
        if not self.failed:
            return ""
        return (
            f"{self.failed} of {self.requested} judgements failed "
            f"({self.failed / self.requested:.0%}), the first: {self.reason}"
        )


def missing_verdicts(judgements: Sequence[Judgement]) -> list[Judgement]:
    """Return the judgements that were requested and have no verdict: no reply, or an unreadable one."""
    states = ("judge_failed", "unreadable")
    return [each for each in judgements if each.samples and each.state in states]


def judge_failures(judgements: Sequence[Judgement]) -> JudgeFailures:
    """Count the judgements that were requested and that failed, for the criterion that failed most often.
    If none failed, the judgements of all criteria are counted as requested.

    `lost` has the questions without a verdict on correctness or faithfulness, the two criteria that
    decide whether a question passes.

    >>> judge_failures([Judgement("q1", "correctness", None, "401", state="judge_failed", samples=(None,))])
    JudgeFailures(requested=1, failed=1, reason='401', lost=frozenset({'q1'}))
    """
    # without samples, the judge was not asked
    requested = [judgement for judgement in judgements if judgement.samples]
    failed = missing_verdicts(judgements)
    if not failed:
        return JudgeFailures(len(requested))
    [(worst_criterion, n_failed)] = Counter(each.criterion for each in failed).most_common(1)
    n_requested = sum(each.criterion == worst_criterion for each in requested)
    decisive = ("correctness", "faithfulness")
    lost = frozenset(each.query_id for each in failed if each.criterion in decisive)
    first_reason = printable(masked(failed[0].explanation))
    return JudgeFailures(n_requested, n_failed, first_reason, lost)


def found_nothing(run: Run, answers: Sequence[Answer]) -> bool:
    """Return True if a system that did not fail on every question found no document for any."""
    if any(run.values()) or any(answer.contexts for answer in answers):
        return False
    return not answers or not all(answer.failed for answer in answers)


def _values_of_measure(name: str) -> str:
    """Return advice on how to read the values of a measure, such as "result.mean('R@5'), or
    result['R@5'] of each question"; "" if no measure has the name.
    """
    measure = expected_measure(name)
    if measure is None:
        return ""
    condition = " where a judge was asked" if measure.judged else ""
    return f"result.mean({measure.name!r}){condition}, or result[{measure.name!r}] of each question"


@suggesting(
    "result.to_frame()",
    "rb.evaluate(data, system), or rb.load_result(folder)",
    _values_of_measure,
    plot="rb.write_report(result, 'report.html'), or rb.explore(result)",
    **dict.fromkeys(["summary", "glance", "tidy", "overview"], "result.measures, or print(result)"),
    **dict.fromkeys(
        ["label", "labels", "label_sheet"], "the command `ragbench label`, or rb.trust(results)"
    ),
    **dict.fromkeys(
        "check assert gate passes".split(),
        "rb.evaluate(data, system, targets={'R@5': 0.7}), whose result has `passed`, or "
        "rb.assert_not_worse(baseline, result)",
    ),
    **dict.fromkeys(
        "p_value p pvalue difference delta effect_size wins losses ties winner better is_better significant "
        "is_significant regressions".split(),
        "rb.compare(baseline, result)",
    ),
    diagnosis="rb.diagnose(result)",
    comparison="rb.compare(baseline, result)",
    output="rb.evaluate(data, system), whose result has it",
    folder="rb.save(result, folder)",
    **dict.fromkeys(
        "to_run to_trec to_trec_run write_run write_trec save_run export_run".split(),
        "rb.save(result, folder), which writes run.trec",
    ),
    **dict.fromkeys(
        ["mlflow", "wandb", "tensorboard"], "result.measures, a DataFrame, for the log"
    ),
    metrics="result.mean('nDCG@10'), or result.measures, a table",
    **dict.fromkeys(
        ["filter", "where", "select", "filter_by"],
        "result.to_frame().query('`nDCG@10` < 0.5'), or result.failures",
    ),
    report="rb.write_report(result, 'report.html')",
    save="rb.save(result, folder)",
    **dict.fromkeys(["compare", "diff", "vs", "versus"], "rb.compare(other, result)"),
    leaderboard="rb.Results([other, result]).leaderboard()",
    **dict.fromkeys(
        ["conclude", "conclusion", "decision", "headline"],
        "rb.Results([other, result]).conclude()",
    ),
    explore="rb.explore(result)",
    **dict.fromkeys(["best", "top_questions"], "result.to_frame().nlargest(10, 'nDCG@10')"),
    **dict.fromkeys(["case", "question"], "result[query_id], or result.cases"),
    **dict.fromkeys(
        ["score", "get_score", "get_metric"], "result.mean('nDCG@10'), or result.scores"
    ),
    trace="result.answer_of[query_id]",
    **dict.fromkeys(["errors", "failed", "failed_questions"], "result.failures"),
    **dict.fromkeys(
        ["ci", "interval", "confidence_interval"], "result.measures, with ci_low and ci_high"
    ),
    **dict.fromkeys(["explain", "why", "causes"], "result.diagnosis, or rb.diagnose(result)"),
    **dict.fromkeys(["retrieved", "rankings", "retrieved_documents"], "result.run"),
    **dict.fromkeys(["n", "size", "n_questions"], "len(result)"),
    **dict.fromkeys(
        "by by_category per_category category_means breakdown group_by groups slices segments".split(),
        "result.to_frame().groupby('category').mean(), or result.categories",
    ),
    **dict.fromkeys(["time", "duration", "runtime"], "result.timings, or result.latency"),
    **dict.fromkeys(["cost", "total_cost", "price", "tokens", "usage"], "result.costs"),
    **dict.fromkeys(["ranking", "top_k", "top", "hits"], "result.run[query_id]"),
    **dict.fromkeys(["contexts", "chunks", "passages"], "result.answer_of[query_id].contexts"),
    **dict.fromkeys(["metadata", "params", "options"], "result.config"),
    **dict.fromkeys(["timestamp", "date", "created_at"], "result.made_at"),
    **dict.fromkeys(
        ["judge", "model", "llm", "retriever"], "result.settings, or result.parameters"
    ),
    save_report="rb.write_report(result, 'report.html')",
    passed_questions="result.to_frame(), whose column `passed` tells",
    **dict.fromkeys(["aggregate", "agg", "average"], "result.mean()"),
    to_dict="result.to_frame().to_dict('records'), or rb.write_report(result, 'report.json')",
    df="result.to_frame()",
    to_html="rb.write_report(result, 'report.html')",
    **dict.fromkeys(["to_markdown", "to_md"], "rb.write_report(result, 'report.md')"),
    to_json="rb.write_report(result, 'report.json')",
    loc="result[query_id], or result.to_frame().loc",
    describe="result.to_frame().describe(), or result.measures",
    get="result.mean('nDCG@10'), or result['nDCG@10'] of each question",
    **dict.fromkeys(["items", "values"], "result.mean().items(), or dict(result) of its columns"),
    **dict.fromkeys(["per_query", "per_question"], "result.to_frame(), or result.scores"),
    **dict.fromkeys(["results", "table"], "result.measures, or result.to_frame()"),
    **dict.fromkeys(["print", "show"], "print(result), or rb.explore(result)"),
    export="rb.save(result, folder), or rb.write_report(result, 'report.html')",
    pass_rate="result.counts, of which passed, failed and undecided",
    passed_rate="result.counts, of which passed, failed and undecided",
    metric="result.mean('nDCG@10'), or result['nDCG@10'] of each question",
    from_csv="rb.load_result(folder), or rb.compare('a.csv', 'b.csv') of files of other tools",
    load="rb.load_result(folder)",
)
@refusing_operators("rb.compare(a, b)", "rb.Results([a, b])")
@explaining_values("result", passed="result.to_frame()['passed'], of each question")
@dataclass(frozen=True, eq=False)
class Result(Decisions, metaclass=Suggesting):
    """One system's results on one dataset: what `evaluate` returns, `save` writes and `load_result`
    reads.

    `config` holds plain data: "made_at" (the time, ISO 8601), "parameters" (of the configuration),
    "dataset" (name, split, fingerprint, numbers of documents and safety samples; "recipe" if it was
    generated), "questions" (query_id -> text), "system" and "settings" (of the evaluation), "facts"
    (such as "chunks", their number), "environment", and "series" and "client" where RAGBENCH_SERIES
    and RAGBENCH_CLIENT name them. `run` ranks documents. `scores` has the columns query_id,
    measure, value (NaN = unscored). `timings` holds seconds per stage. `diagnosis` has a row per
    question with its first cause of failure (see `ragbench.diagnose`). `output` is the system's
    output with its sources (such as its chunks); None in a result that was loaded. `folder` is the
    folder of a loaded result, to which its paths are relative.
    """

    name: str
    config: Mapping[str, Any]
    run: Run
    scores: pd.DataFrame
    answers: Sequence[Answer] = ()
    judgements: Sequence[Judgement] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    diagnosis: pd.DataFrame | None = None
    output: SystemOutput | None = None
    folder: Path | None = None

    def __post_init__(self) -> None:
        """Wrap the fields, so that the error of a wrong use, such as `result.run()`, states what to write."""
        object.__setattr__(self, "scores", TidyScores(self.scores))
        calls = dict.fromkeys(["save", "write", "to_csv", "to_trec"], "rb.save(result, folder)")
        for name, value in list(vars(self).items()):  # a packed result has large parts elsewhere
            if name == "diagnosis" and value is not None:
                value = PropertyTable(value)
            explained = explaining_misuse(value, f"result.{name}", **calls)
            object.__setattr__(self, name, explained)

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """Return the parameters of the configuration."""
        return self._part("parameters")

    @cached_property
    def queries(self) -> Mapping[str, str]:
        """Return query_id -> question."""
        return self._part("questions", "queries")

    @property
    def dataset(self) -> Mapping[str, Any]:
        """Return the dataset: name, split, fingerprint, numbers of documents and samples."""
        empty = {"name": "", "split": "", "fingerprint": "", "documents": 0, "safety_samples": 0}
        return explaining_misuse(empty | dict(self._part("dataset")), "result.dataset")

    def is_of(self, dataset: Dataset) -> bool:
        """Return True if the result was measured on this dataset: on all of it, on its smoke suite, or
        on the questions of the result as they are in the dataset.
        """
        candidates = [dataset]
        if dataset.name == "pydoc":  # `ragbench eval` adds the samples that come with ragbench
            inputs, outputs = load_safety_samples()
            candidates.append(replace(dataset, safety_inputs=inputs, safety_outputs=outputs))
        fingerprint = self.dataset["fingerprint"]
        for whole in candidates:
            for part in (whole, select_suite(whole, "smoke"), whole.select(self.queries)):
                if part.fingerprint == fingerprint:
                    return True
        return False

    @property
    def system(self) -> Mapping[str, Any]:
        """Return the system: its name, its kind, and facts on its passages."""
        system = self._part("system") or {"name": self.name, **self.parameters}
        return explaining_misuse(system, "result.system")

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """Return how it was evaluated: perspectives, models, targets."""
        return self._part("settings")

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """Return further numbers: chunks, costs, milliseconds of a search."""
        return self._part("facts")

    @cached_property
    def environment(self) -> Mapping[str, Any]:
        """Return what may change a number or a latency: versions, platform, cores."""
        return self._part("environment")

    @property
    def edited(self) -> tuple[str, ...]:
        """Return the files that a person changed after the evaluation (`ragbench verify --accept`)."""
        return tuple(self.config.get(EDITED) or ())

    @property
    def made_at(self) -> str:
        """Return the time of the evaluation, ISO 8601."""
        return str(self.config.get("made_at") or "")

    @property
    def seconds(self) -> float:
        """Return how long the evaluation took: the sum of its stages."""
        of_pipeline = ("chunk", "index", "search", "generate", "interventions")
        contained = of_pipeline if "ask" in self.timings else ()  # in the time of "ask"
        return math.fsum(s for stage, s in self.timings.items() if stage not in contained)

    def _part(self, name: str, shown: str = "") -> Mapping[str, Any]:
        """Return an entry of the configuration; `shown` is the name of its attribute, if another one."""
        return explaining_misuse(self.config.get(name) or {}, f"result.{shown or name}")

    @property
    def measures(self) -> pd.DataFrame:
        """Return one row per measure: perspective, value (the mean), interval, counts, ceiling,
        target and verdict.
        """
        columns = [column.name for column in fields(MeasureResult)]
        numbers = dict.fromkeys(("value", "ci_low", "ci_high", "ceiling", "target"), "float64")
        return PropertyTable(pd.DataFrame(list(self.rows), columns=columns).astype(numbers))

    @cached_property
    def cases(self) -> Sequence[CaseResult]:
        """Return every question with its answer, verdict, scores and doubtful claims; secrets
        masked.
        """
        # a row per question: measure -> value
        wide = self.wide.reindex(columns=self.scores["measure"].unique()).to_dict("records")
        cases = []
        for (query_id, question), values in zip(self.queries.items(), wide, strict=True):
            answer = self.answer_of[query_id]
            # fields of CaseResult, such as "passed" and "reasons"; JSON has lists in place of tuples
            verdict: dict[str, Any] = {}
            for name, value in self.verdicts.get(query_id, {}).items():
                verdict[name] = tuple(value) if isinstance(value, list) else value
            case = CaseResult(
                query_id,
                question,
                outcome=outcome_of(answer),
                answer=masked(answer.text),
                retrieved=tuple(map(masked_id, answer.contexts)),
                scores={str(name): known_number(value) for name, value in values.items()},
                **verdict,
            )
            cases.append(case)
        return explaining_misuse(cases, "result.cases")

    @cached_property
    def answer_of(self) -> Mapping[str, Answer]:
        """Return query_id -> its answer; a failed answer if there is none."""
        missing = {
            query_id: Answer(query_id, "", outcome="failed", error="no answer")
            for query_id in self.queries
        }
        answers = missing | {answer.query_id: answer for answer in self.answers}
        return explaining_misuse(answers, "result.answer_of")

    @cached_property
    def cause_of(self) -> Mapping[str, Mapping[Any, Any]]:
        """Return query_id -> the row of `diagnosis`, {} where nothing was diagnosed."""
        rows = [] if self.diagnosis is None else self.diagnosis.to_dict("records")
        return {row["query_id"]: row for row in rows}

    @cached_property
    def wide(self) -> pd.DataFrame:
        """Return the scores with a row for each question and a column for each measure."""
        wide = self.scores.pivot(index="query_id", columns="measure", values="value")
        return wide.reindex([*self.queries])

    @property
    def questions(self) -> pd.DataFrame:
        """Return one row per question: query_id, question, category, answer, outcome, passed,
        reasons why not, the first cause of failure, and the main measures.
        """
        frame = pd.DataFrame(list(self.cases), columns=_QUESTION)
        frame = frame.astype({"passed": "boolean"})
        frame["reasons"] = frame["reasons"].map("; ".join)
        causes = [self.cause_of.get(query_id, {}).get("cause", "") for query_id in self.queries]
        frame["cause"] = causes
        measures = [name for name in leaderboard_measures() if name in self.wide]
        return PropertyTable(frame.join(self.wide[measures], on="query_id"))

    @property
    def claims(self) -> pd.DataFrame:
        """Return one row per claim in doubt: query_id, claim, problem and by whom it was found.

        `problem` is "unsupported" or "fabricated number"; `by` is "wording" (a heuristic) or
        "judge".
        """
        rows = []
        for query_id in self.queries:
            verdict = self.verdicts.get(query_id, {})
            for field_name, (problem, by) in _DOUBTS.items():
                for claim in verdict.get(field_name, ()):
                    rows.append((query_id, claim, problem, by))
        return PropertyTable(rows, columns=["query_id", "claim", "problem", "by"])

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """Return the counts of an evaluation by their names.

        "passed", "failed" and "undecided" count questions. Others are there only if they were counted:

        - "unsupported_claims", "fabricated_numbers": found in the answers by their wording.
        - "invented_claims": found in the answers by the judge.
        - "invented_quotes": quotes of the contexts that the judge itself invented, if there are any.
        - "judgements", "failed_judgements": requests to the judge.
        """
        # not from `cases`, for which every answer is searched for secrets: a quarter of an evaluation
        verdicts = [self.verdicts.get(query_id, {}) for query_id in self.queries]
        passed = Counter(verdict.get("passed") for verdict in verdicts)
        counts = {"passed": passed[True], "failed": passed[False], "undecided": passed[None]}
        n_claims = {}
        for field_name in _DOUBTS:
            n_claims[field_name] = sum(len(verdict.get(field_name, ())) for verdict in verdicts)
        if any(state.name == "groundedness" and state.measured for state in self.perspectives):
            counts["unsupported_claims"] = n_claims["unsupported_claims"]
            counts["fabricated_numbers"] = n_claims["fabricated_numbers"]
        if any(each.criterion == "faithfulness" and each.samples for each in self.judgements):
            counts["invented_claims"] = n_claims["invented_claims"]
            n_quotes = sum(len(each.invented_quotes) for each in self.judgements)
            if n_quotes:
                counts["invented_quotes"] = n_quotes
        failures = self.judge_failures
        if failures.requested:
            counts |= {"judgements": failures.requested, "failed_judgements": failures.failed}
        return explaining_misuse(counts, "result.counts")

    @property
    def passed_sentence(self) -> str:
        """State how many questions passed, failed and are not decided; "" without questions."""
        if not self.queries:
            return ""
        counts = self.counts
        # the design whose interface is named Phase 4 calls questions test cases
        noun = "test cases" if self.settings.get("preset") == "phase4" else "questions"
        decided = counts["passed"] + counts["failed"]
        return passed_text(counts["passed"], decided, len(self.queries), noun)

    @cached_property
    def n_unchecked(self) -> int:
        """Return how many questions were answered and passed although nothing decides whether their answers
        are right. They passed by other labels, such as the expected documents.

        An answer is checked if it has a score by a measure of `SAYS_RIGHT` whose threshold is set, or by
        "forbidden_claims_absent". A question without an answer in the documents is never counted: it has
        no score by "answered".
        """
        thresholds = self.settings.get("cases", {})
        deciding = [measure for part, measure in SAYS_RIGHT.items() if thresholds.get(part)]
        scored = self.scores.dropna(subset=["value"])
        is_checked = scored["measure"].isin([*deciding, "forbidden_claims_absent"])
        is_answered = (scored["measure"] == "answered") & (scored["value"] == 1)
        answered = set(scored.loc[is_answered, "query_id"])
        unchecked = answered - set(scored.loc[is_checked, "query_id"])
        return sum(self.verdicts.get(each, {}).get("passed") is True for each in unchecked)

    @property
    def unchecked_sentence(self) -> str:
        """State for how many passed answers nothing decides whether they are right; "" if for none."""
        if not self.n_unchecked:
            return ""
        passed = plural(self.n_unchecked, "passed answer")
        verb = "is" if self.n_unchecked == 1 else "are"
        return f"no label or judge decides whether {passed} {verb} right"

    @cached_property
    def categories(self) -> Sequence[CategoryResult]:
        """Return the fraction of passed questions by category; [] if no question has a category."""
        verdicts = [self.verdicts.get(query_id, {}) for query_id in self.queries]
        verdicts_of = grouped(verdicts, lambda verdict: str(verdict.get("category", "")))
        has_categories = any(name != "" for name in verdicts_of)
        if not has_categories:
            verdicts_of = {}
        rows = []
        for name, members in verdicts_of.items():
            decisions = [verdict.get("passed") for verdict in members]
            n_passed = decisions.count(True)
            n_decided = n_passed + decisions.count(False)
            rate = low = high = None
            if n_decided:
                rate = n_passed / n_decided
                low, high = wilson_interval(n_passed, n_decided)
            rows.append(CategoryResult(name, len(members), n_decided, rate, low, high))
        return explaining_misuse(rows, "result.categories")

    def shown_name(self, perspective: str) -> str:
        """Return the name of a perspective as the user wrote it, such as context_quality."""
        names: Mapping[str, str] = self.settings.get("shown_names") or {}
        return names.get(perspective, perspective)

    @property
    def missed(self) -> tuple[str, ...]:
        """Return the measures whose target is missed."""
        return tuple(row.measure for row in self.rows if row.verdict == "missed")

    @cached_property
    def judge_failures(self) -> JudgeFailures:
        """Return how often the judge failed."""
        meanings = wordings_in(self.settings)
        return judge_failures(judgements_by_meaning(self.judgements, meanings))

    @cached_property
    def unreadable(self) -> Mapping[str, frozenset[str]]:
        """Return judged measure -> the questions whose verdict is missing although a judge was asked
        for it.
        """
        missing = missing_verdicts(self.judgements)
        judgements_of = grouped(missing, lambda judgement: f"llm_{judgement.criterion}")
        questions_of = {}
        for measure, judgements in judgements_of.items():
            questions_of[measure] = frozenset(judgement.query_id for judgement in judgements)
        return questions_of

    @cached_property
    def judged_bounds(self) -> Mapping[str, tuple[float, float]]:
        """Return judged measure -> its mean with every missing verdict as the lowest, and as the
        highest value; only where verdicts are missing.
        """
        bounds = {}
        for measure in self.unreadable:
            lowest_and_highest = bounds_of_mean(measure, self.scores, self.unreadable)
            if lowest_and_highest is not None:
                bounds[measure] = lowest_and_highest
        return bounds

    @property
    def judge_failed(self) -> bool:
        """Return True if the judge failed on more than 20 % of its requests by one of its
        criteria.
        """
        failures = self.judge_failures
        return failures.failed > MAX_FAILED_JUDGEMENTS * failures.requested

    @property
    def is_complete(self) -> bool:
        """Return True if no answer failed, to a question or a safety sample, and every request to the
        judge has a reply, so that asking again would change nothing.
        """
        if any(answer.failed for answer in self.answers) or self.facts.get(FAILED_SAMPLES):
            return False
        for judgement in self.judgements:
            if judgement.samples and judgement.state == "judge_failed":
                return False
        return True

    @property
    def is_measured(self) -> bool:
        """Return True if any measure or safety sample has a value."""
        return bool(self.samples) or any(row.value is not None for row in self.rows)

    @property
    def passed(self) -> bool:
        """Return True if the evaluation passed. All of these must hold:

        - some measure or safety sample has a value, and so has the measure of every gate;
        - where retrieval was evaluated, the passages of the system are not foreign to the documents
          (`PassageMatches.is_foreign`);
        - the judge did not fail (`judge_failed`);
        - no target is missed;
        - nothing got worse than in the baseline, if there is one, and none of its questions lost its
          labels with the documents.
        """
        measured = {row.measure for row in self.rows if row.value is not None}
        gates = set(self.settings.get("gates", ()))
        if not self.is_measured or not gates <= measured:
            return False
        is_ranked = "retrieval" in self.settings.get("perspectives", ())
        if is_ranked and self.system.get("is_foreign"):
            return False
        if self.judge_failed or self.missed:
            return False
        if self.comparison is None:
            return True
        return not self.comparison.regressions and not self.comparison.lost

    def to_frame(self) -> pd.DataFrame:
        """Return one row per question: what `questions` has, and every measure."""
        return NamedRows(self.questions[_QUESTION].join(self.wide, on="query_id"))

    to_pandas = to_frame

    def keys(self) -> pd.Index[str]:
        """Return the names of the columns of `to_frame` but query_id, so that `dict(result)` has them all."""
        return self.to_frame().set_index("query_id").columns

    @overload
    def __getitem__(self, name: str | int) -> pd.Series[Any]: ...
    @overload
    def __getitem__(self, name: list[str] | slice) -> pd.DataFrame: ...
    def __getitem__(self, name: str | int | list[str] | slice) -> pd.Series[Any] | pd.DataFrame:
        """Return the row of a question by its id or its number, or a column of `to_frame` by its name.

        The name of a measure may be in upper or lower case. A list of names returns these columns, a slice
        of numbers the rows of these questions.

        Raises:
            ConfigError: a name is neither the id of a question nor a column.
        """
        frame = self.to_frame().set_index("query_id")
        if isinstance(name, slice):
            return self.to_frame()[name]
        if isinstance(name, int):
            return ExplainedSeries(frame.iloc[name])
        if isinstance(name, list):
            return frame[[named_among(each, map(str, frame)) for each in name]]
        if name in frame.index:
            return frame.T[name]
        return frame[named_among(name, map(str, frame))]

    @overload
    def mean(self) -> pd.Series[float]: ...
    @overload
    def mean(self, measure: str) -> float: ...
    @overload
    def mean(self, measure: list[str]) -> pd.Series[float]: ...
    def mean(self, measure: str | list[str] = "") -> pd.Series[float] | float:
        """Return the mean over the questions that are scored, of each measure, of several or of one;
        `measures` has its interval.

        Raises:
            ConfigError: a measure that was not scored.
        """
        means = ExplainedSeries(self.wide.mean())
        if not measure:
            return means
        if isinstance(measure, list):
            return means.loc[[named_among(each, map(str, means.index)) for each in measure]]
        return float(means[named_among(measure, map(str, means.index))])

    @property
    def failures(self) -> pd.DataFrame:
        """Return the rows of `questions` that did not pass, with the reasons why and the first cause."""
        questions = self.questions
        return PropertyTable(questions[questions["passed"].eq(False).fillna(False).astype(bool)])

    def worst(self, n: int = 10, measure: str = "") -> pd.DataFrame:
        """Return the questions with the worst values of a measure, the worst first.

        Args:
            n: the maximum number of questions.
            measure: any that was scored; "" means the one that ranks a leaderboard.

        Raises:
            ConfigError: a measure that was not scored.
        """
        n_scored = {str(name): int(count) for name, count in self.wide.count().items()}
        named = named_among(measure or main_measure_of(n_scored), n_scored)
        frame = self.to_frame().dropna(subset=[named])
        ordered = frame.sort_values(named, ascending=higher_is_better(named), kind="stable")
        columns = dict.fromkeys([*_QUESTION, named])
        return ordered[list(columns)].head(n)

    def __contains__(self, name: object) -> bool:
        """Return True for the id of a question and for a column of `to_frame`: where `result[name]` works."""
        if name in self.queries:
            return True
        try:
            named_among(str(name), map(str, self.to_frame()))
        except ConfigError:
            return False
        return True

    def __len__(self) -> int:
        return len(self.queries)

    def __iter__(self) -> Iterator[Any]:
        what = f"a result of {plural(len(self), 'question')}"
        check_unpacking(what, len(self), "dict(results).items(), names and results")
        rows = self.to_frame().to_dict("records")
        return iter([explaining_misuse(row, "row") for row in rows])

    def __repr__(self) -> str:
        """Return a table of the measures that `is_shown` selects: headline measures, measures with a target
        and measures of the user. If it selects none, the table has the first 20 measures.
        """
        headline = brief_names(self.settings)
        chosen = self.settings.get("chosen", ())
        table = self._printed_measures  # a row for each of `self.rows`
        brief_table = table[[is_shown(row, headline, chosen) for row in self.rows]]
        if brief_table.empty:
            brief_table = table.head(20)
        rows = brief_table.round(3).to_string(index=False, na_rep="")
        return f"Result({self.name!r}, {len(self.queries)} questions)\n{rows}"

    @property
    def _printed_measures(self) -> pd.DataFrame:
        """Return `measures` with the columns that are printed."""
        names = ["measure", "value", "ci_low", "ci_high", "n_scored", "n", "target", "verdict"]
        return self.measures[names]

    def _repr_html_(self) -> str:
        return self._printed_measures.round(3).to_html(index=False, border=0, na_rep="")


def new_result(
    *,
    parameters: Mapping[str, Any],
    dataset: Dataset,
    run: Run,
    scores: pd.DataFrame,
    name: str = "",
    facts: Mapping[str, Any] = MappingProxyType({}),
    system: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    **parts: Any,
) -> Result:
    """Return a `Result` with its record (`Result.config`) of data, settings, environment and time.

    Args:
        parameters: every parameter of the configuration, plain data.
        dataset: the evaluated dataset; its name, split, fingerprint, questions and testset.json are
            kept.
        run: document-level ranking.
        scores: query_id, measure, value, one row per pair; NaN = unscored.
        name: of the configuration.
        facts: further plain numbers, such as {"chunks": 431}.
        system, settings: the system and the options of its evaluation: plain data.
        parts: other fields of `Result`: answers, judgements, timings (seconds per stage), diagnosis
            (as from `ragbench.diagnose`), and the fields of `Decisions`; without rows, rows are
            made from the scores.

    Raises:
        ConfigError: a parameter is not plain data.
    """
    config: dict[str, Any] = {
        "made_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        **_series_and_client(),
        "parameters": configuration(parameters),
        "dataset": _about_dataset(dataset),
        **({"system": dict(system)} if system else {}),
        **({"settings": dict(settings)} if settings else {}),
        "facts": with_twelve_digits(facts),
        "environment": environment(),
        "questions": dataset.queries,
        **digests_of(dataset),
    }
    parts["rows"] = parts.get("rows") or tuple(rows_of(scores))
    return Result(name, config, run, scores, **parts)


def _series_and_client() -> dict[str, str]:
    """Return the "series" of runs and the "client" that a result belongs to, from RAGBENCH_SERIES and
    RAGBENCH_CLIENT; a variable that is not set is left out.
    """
    series = {}
    for field_name in ("series", "client"):
        value = os.environ.get(f"RAGBENCH_{field_name.upper()}")
        if value:
            series[field_name] = value
    return series


def _about_dataset(dataset: Dataset) -> dict[str, Any]:
    """Return the field "dataset" of `Result.config`. For a generated test set, "recipe" has the
    parameters that generated it.
    """
    about = {
        "name": name_of(dataset),
        "split": dataset.split,
        "fingerprint": dataset.fingerprint,
        "corpus": dataset.corpus_digest,
        "documents": len(dataset.corpus),
        "safety_samples": len(dataset.safety_inputs) + len(dataset.safety_outputs),
    }
    if dataset.source is not None:
        record = testset_record(Path(dataset.source.name))
        if "parameters" in record:
            about["recipe"] = record
    return about


def name_of(dataset: Dataset) -> str:
    """Return the name of a dataset. If the name is the path of a folder, only its last part is returned."""
    return Path(dataset.name).name if Path(dataset.name).is_absolute() else dataset.name


# Libraries whose versions change numbers; config.json records them.
_LIBRARIES = (
    "numpy pandas PyStemmer pytrec-eval-terrier scipy sentence-transformers sentencex tantivy "
    "tokenizers torch transformers wordllama"
).split()


def environment() -> dict[str, Any]:
    """Return what may change a number or a latency: Python, operating system, kind of processor, cores,
    and versions of libraries. Nothing names the user or the computer.

    >>> sorted(environment())
    ['cores', 'libraries', 'machine', 'platform', 'python', 'ragbench']
    """
    libraries = {}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            libraries[name] = _version(name)
    return {
        "ragbench": own_version(),
        "python": platform.python_version(),
        "platform": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count() or 1,
        "libraries": libraries,
    }


_version = cache(version)  # each looks through the folders of all packages


def own_version() -> str:
    """Return the version of ragbench that is installed."""
    try:
        return _version("ragbench-lab")
    except PackageNotFoundError:  # a checkout on PYTHONPATH
        return "unknown"
