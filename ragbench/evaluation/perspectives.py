"""Each perspective (retrieval, context, answer, ...): which labels and outputs it needs, why it is
not measured, which measures it has, and its warnings; the formulas are in `metrics`.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from ragbench.errors import DataError, plural, warn_user
from ragbench.evaluation.evaluation_plan import EvaluationPlan
from ragbench.evaluation.output import SystemOutput
from ragbench.evaluation.records import (
    MeasureResult,
    SafetyFigure,
    SampleResult,
)
from ragbench.evaluation.result import found_nothing, judge_failures, missing_verdicts
from ragbench.evaluation.rows import compare_with_target, latency_rows
from ragbench.evaluation.safety_samples import safety_results, safety_rows, score_leaks
from ragbench.judges.criterion import Criterion
from ragbench.metrics import (
    score_answers,
    score_chunks,
    score_judgements,
    score_own,
    score_spans,
)
from ragbench.metrics.groundedness.checks import check_groundedness, not_supported
from ragbench.metrics.ranking_measures import FAMILIES
from ragbench.metrics.retrieval_levels import retrieval_ceilings, retrieval_levels, score_retrieval
from ragbench.metrics.safety.secrets import missing_extra
from ragbench.metrics.system_outcomes import LABELS, is_latency_measure, score_pipeline
from ragbench.metrics.tidy import answer_language, score_frame
from ragbench.registry import BUDGETS, KS, Measure, is_ranking_measure, measure_of
from ragbench.retrieval.embedders import knows
from ragbench.systems import CONTEXT_FIELDS
from ragbench.types import Case, Dataset, Embedder, Judgement

_ALWAYS = "nDCG@5 R@5 P@5 RR AP Success@5 nDCG@10 R@10".split()  # at any depths requested
_PREFIX = {"document": "", "span": "span:", "chunk": "chunk:"}
_JUDGED_BY = {"document": "documents", "span": "gold evidence", "chunk": "labelled chunks"}
# measures in `SystemOutput.context_scores` that belong to the perspective "retrieval": of the relevant
# documents, passages and chunks, the fraction that the contexts hold
_RETRIEVED_INTO_CONTEXT = (
    "context_recall",
    "expected_document",
    "context_evidence_recall",
    "context_chunk_recall",
)
_ANSWER_LABELS = ("reference_answer", "gold_facts", "required_keywords")
_SPAN = re.compile(r"span_\w+@(\d+)(tok|)$")
_OTHER_DEPTHS = r"span_\w+@(?!5$)\d+"  # than 5: reported only if asked for
_MANY_CHUNKS = 5_000
_MAX_IN_DOUBT = 0.02  # of the passages; beyond it every report warns
_IN_DOUBT = {
    "not attributable": "could not be matched to a document and count as not relevant",
    "several": "are in two or three documents, and count for the least relevant of them; ids of "
    "documents in the system's contexts remove the doubt",
}
# required part of an output -> the reason if it is missing
_NEEDS = {
    "answers": "the system retrieves and gives no answers",
    "contexts": "no answer came with contexts; they are read from "
    f"{', '.join(map(repr, CONTEXT_FIELDS))}, or from where the path reply.contexts points",
    "documents": "no passage of the system is in a document of the test set",
    "texts": "the system does not report which texts it answered from",
}


def score_ranking(output: SystemOutput, named: Sequence[str]) -> pd.DataFrame:
    """Return all scores of the perspective "retrieval": of the rankings (of documents and of chunks, as far
    as they are labelled), of the evidence in the contexts, and of the evidence in the retrieved chunks.

    `named` are measures that the user wants in addition to the usual ones.
    """
    dataset = output.dataset
    frames = []
    measures = ranking_measures(levels_of(output), named)
    if measures:
        frames.append(_document_scores(output, measures, named))
    context = output.context_scores
    frames.append(context[context["measure"].isin(_RETRIEVED_INTO_CONTEXT)])
    if output.chunks and any(case.evidence for case in dataset.cases):
        frames += _span_scores(output, named)
    return pd.concat(frames, ignore_index=True)


def _ranked_chunks(output: SystemOutput) -> dict[str, Any]:
    """Return the arguments by which a ranking of chunks is scored."""
    return {
        "chunk_run": output.ranking,
        "chunks": output.chunks,
        "joined": output.joined,
    }


def _document_scores(
    output: SystemOutput, measures: Sequence[str], named: Sequence[str]
) -> pd.DataFrame:
    """Score the rankings at each level of `measures`: of documents, and of chunks by their labels or by
    the gold evidence that they hold.

    If labels say which documents are not relevant, as in pools where other documents are not judged,
    the fraction of judged documents (Judged@k) is scored next to each nDCG@k. It is left out where
    every document is judged, unless it is one of `named`.
    """
    dataset = output.dataset
    run = {query_id: output.documents.get(query_id, {}) for query_id in dataset.qrels}
    is_pooled = any(0 in grades.values() for grades in dataset.qrels.values())
    if is_pooled:
        with_judged = []
        for name in measures:
            # Judged has a depth and none of the options: Judged@5 of nDCG(dcg='exp-log2')@5
            with_judged += [name, re.sub(r"^nDCG(\([^)]*\))?", "Judged", name)]
        measures = list(dict.fromkeys(with_judged))
    scores = score_retrieval(dataset, run, measures=measures, **_ranked_chunks(output))
    # a row is dropped if its measure is Judged@k, 1 for every question, and nobody asked for it
    lowest = scores.groupby("measure")["value"].transform("min")
    all_are_judged = scores["measure"].str.startswith("Judged") & (lowest == 1)
    is_shown = ~all_are_judged | scores["measure"].isin(named)
    return scores[is_shown]


def _span_scores(output: SystemOutput, named: Sequence[str]) -> list[pd.DataFrame]:
    """Score how much of the gold evidence the retrieved chunks hold; return tables of scores.

    Each measure is of the first chunks of a ranking: of a number of them, its depth (span_recall@7), or
    of as many as fit into a number of tokens, its budget (span_recall@900tok). The usual depths and
    budgets are scored, and the ones in the measures that the user has `named`.
    """
    depths = set(KS)
    more_budgets = set()  # budgets that are not among the usual ones
    for name in named:
        match = _SPAN.match(name)
        if match is None:  # not a measure of evidence at a depth or budget
            continue
        number, unit = int(match[1]), match[2]
        if unit != "tok":
            depths.add(number)
        elif number not in BUDGETS:
            more_budgets.add(number)
    dataset, run = output.dataset, output.chunk_run
    options: dict[str, Any] = {"chunks": output.chunks, "tokenizer": output.tokenizer}
    usual = score_spans(dataset, run, ks=sorted(depths), **options)
    # of the depths, only 5 and those that the user named are reported
    is_other_depth = usual["measure"].str.fullmatch(_OTHER_DEPTHS)
    frames = [usual[usual["measure"].isin(named) | ~is_other_depth]]
    if more_budgets:  # in another call: span_recall_auc, scored above, is over the usual budgets
        extra = score_spans(dataset, run, ks=(), budgets=sorted(more_budgets), **options)
        frames.append(extra[extra["measure"].isin(named)])
    return frames


def ranking_measures(levels: Sequence[str], named: Sequence[str]) -> list[str]:
    """Return the usual ranking measures at these levels, and the ranking measures among `named` at
    one of the levels.
    """
    usual = [f"{_PREFIX[level]}{name}" for level in levels for name in _ALWAYS]
    more = [name for name in named if is_ranking_measure(name) and measure_of(name).level in levels]
    return list(dict.fromkeys([*usual, *more]))


def at_depths(depths: Sequence[int]) -> list[str]:
    """Return the names of the measures that are reported at several depths: rankings at every
    level, gold evidence.

    >>> at_depths([7])[:8]
    ['nDCG@7', 'P@7', 'R@7', 'F1@7', 'RR@7', 'AP@7', 'Success@7', 'span:nDCG@7']
    """
    ranked = [f"{prefix}{name}@" for prefix in _PREFIX.values() for name in FAMILIES]
    names = [*ranked, "span_recall@", "span_precision@", "span_iou@"]
    return [f"{name}{k}" for name in names for k in depths]


def chunk_statistics(output: SystemOutput) -> dict[str, float]:
    """Return `score_chunks` of the built-in pipeline's chunks; {} for a system whose chunks are not
    known.

    For more than 5,000 chunks, the statistics are computed from evenly chosen documents with about
    5,000 chunks.
    """
    chunks = output.searched
    if output.system.get("kind") != "Pipeline" or not chunks:
        return {}
    every_nth = math.ceil(len(chunks) / _MANY_CHUNKS)
    doc_ids = list(dict.fromkeys(chunk.doc_id for chunk in chunks))
    chosen = set(doc_ids[::every_nth])
    sample = [chunk for chunk in chunks if chunk.doc_id in chosen]
    table = score_chunks(output.dataset, sample, tokenizer=output.tokenizer)
    values = dict(table.set_index("measure")["value"].dropna().astype(float))
    return values | {"chunks": len(chunks)}


def levels_of(output: SystemOutput) -> tuple[str, ...]:
    """Return the levels that the ranking can be scored at, of "document", "span" and "chunk"."""
    return retrieval_levels(output.dataset, chunk_run=output.ranking, chunks=output.chunks)


def attribution_doubt(system: Mapping[str, Any], kind: str = "not attributable") -> str:
    """Return a sentence on how many passages could not be matched to a document, or with the `kind`
    "several" are in several documents; "" if they are 2 % or fewer.

    `system` is `SystemOutput.system`, whose "matched_passages" counts the passages by how they were
    matched to documents; those in several are also counted under another word.

    >>> attribution_doubt({"matched_passages": {"exact": 6, "not attributable": 2, "several": 1}})
    '2 of 8 passages (25%) could not be matched to a document and count as not relevant'
    """
    counts = system.get("matched_passages", {})
    n = counts.get(kind, 0)
    total = sum(counts.values()) - counts.get("several", 0)
    if n <= _MAX_IN_DOUBT * total:
        return ""
    return f"{n} of {total} passages ({n / total:.0%}) {_IN_DOUBT[kind]}"


def ceilings_of(
    dataset: Dataset, named: Sequence[str], output: SystemOutput | None = None
) -> dict[str, float]:
    """Return ranking measure -> its ceiling, which no system can exceed: the mean of the best possible
    values of the judged questions.

    Args:
        dataset: the questions with their judgements.
        named: measures of the user, in addition to the usual ones.
        output: the output of a system. None, as before a system is asked, gives the ceilings of
            measures of documents; measures of chunks need the chunks of an output.
    """
    levels = levels_of(output) if output else retrieval_levels(dataset)
    measures = ranking_measures(levels, named)
    if not measures:
        return {}
    if output:
        # the ranking, the chunks, and the ids of chunks that were joined
        ceilings = retrieval_ceilings(dataset, measures=measures, **_ranked_chunks(output))
    else:
        ceilings = retrieval_ceilings(dataset, measures=measures)
    means = ceilings.groupby("measure", sort=False)["value"].mean().dropna()
    return {str(name): float(value) for name, value in means.items()}


def score_answer(output: SystemOutput, embedder: str | Embedder) -> pd.DataFrame:
    """Return the scores of the answers (`score_answers`), and one more measure, "answered": 1 if the system
    gave an answer, else 0.

    An unanswerable question is unscored by "answered". An answerable question has no row of it if no
    label tells its answer.
    """
    attempted = {answer.query_id for answer in output.answers if answer.attempted}
    rows: list[tuple[str, str, float | None]] = []
    for case in output.dataset.cases:
        if not case.answerable:
            rows.append((case.query_id, "answered", None))
        elif _has_label(case, _ANSWER_LABELS):
            rows.append((case.query_id, "answered", float(case.query_id in attempted)))
    scores = score_answers(output.dataset, output.answers, embedder=embedder)
    return pd.concat([scores, score_frame(rows)])


def _has_label(case: Case, names: Iterable[str]) -> bool:
    """Return True if a case has one of these labels; the number 0 is a label, and a blank text is not."""
    for name in names:
        label = getattr(case, name)
        if isinstance(label, str):
            label = label.strip()
        if label or label == 0:
            return True
    return False


class Measurement(NamedTuple):
    """The findings of a perspective: its scores, rows of measures that are not about single
    questions, figures and samples of safety, and claims. The default is empty: nothing was measured.

    `note` states how it was measured, `warning` what makes its numbers less certain. `reason` states why
    nothing could be measured; it is shown only if nothing has a value.
    """

    scores: pd.DataFrame = score_frame(())
    rows: Sequence[MeasureResult] = ()
    figures: tuple[SafetyFigure, ...] = ()
    samples: tuple[SampleResult, ...] = ()
    claims: pd.DataFrame | None = None
    note: str = ""
    warning: str = ""
    reason: str = ""

    def is_empty(self, named: Collection[str]) -> bool:
        """Return True if nothing was scored, nor any row has a measure that is `named`."""
        is_scored = self.scores["value"].notna().any() or self.figures
        return not is_scored and not any(row.measure in named for row in self.rows)


def _retrieval(plan: EvaluationPlan, output: SystemOutput) -> Measurement:
    """Score what a system retrieved; the note names the kinds of labels that judged it.

    The warning is about passages whose document is in doubt, and about a system that found nothing for
    any question; "" without these.
    """
    note = f"rankings judged by {', '.join(_JUDGED_BY[level] for level in levels_of(output))}"
    warnings = [attribution_doubt(output.system, kind) for kind in _IN_DOUBT]
    if found_nothing(output.documents, output.answers):
        warnings.append(f"nothing was found for any of {len(output.dataset.queries)} questions")
    warning = "; ".join(filter(None, warnings))
    return Measurement(score_ranking(output, plan.named), note=note, warning=warning)


def _context(plan: EvaluationPlan, output: SystemOutput) -> Measurement:
    """Measure the contexts behind the answers; warn if they are of too few documents.

    Measures that the perspective "retrieval" reports (`_RETRIEVED_INTO_CONTEXT`) are left out. If the
    user named "coherence", it gets a row: it is about chunks, and has no score per question.
    """
    scores = output.context_scores
    rows = []
    if "coherence" in plan.named:
        value = chunk_statistics(output).get("coherence")
        n_questions = len(output.dataset.cases)
        row = MeasureResult(
            "coherence",
            "context",
            value,
            ci_low=None,
            ci_high=None,
            n_scored=0 if value is None else n_questions,
            n=n_questions,
        )
        rows.append(compare_with_target(row, plan.deciding))
    scores = scores[~scores["measure"].isin(_RETRIEVED_INTO_CONTEXT)]
    return Measurement(scores, rows, warning=_lacking_diversity(scores, output.dataset))


def _lacking_diversity(scores: pd.DataFrame, dataset: Dataset) -> str:
    """Return a clause on how many questions of each type have contexts of too few documents; "" if
    none has.
    """
    scored = scores[scores["measure"] == "context_diversity_met"].dropna(subset=["value"])
    type_of = {case.query_id: case.query_type for case in dataset.cases}
    counts = []
    types = scored["query_id"].map(type_of)
    for query_type, met in scored.groupby(types)["value"]:
        n_unmet = int((met == 0).sum())
        if n_unmet:
            counts.append(f"{n_unmet} of {len(met)} {query_type} questions")
    return f"contexts of too few documents for their type: {', '.join(counts)}" if counts else ""


def _groundedness(plan: EvaluationPlan, output: SystemOutput) -> Measurement:
    """Measure the support of answers by their contexts, with their claims. Warn if the support model does
    not know the language of the answers, or their citations name no context.
    """
    dataset, answers = output.dataset, output.answers
    model = plan.support_model
    scores, claims = check_groundedness(dataset, answers, output.texts, model=model)
    warnings = []
    unsupported_language = not_supported(dataset, answers, model)  # its name; "" if there is none
    if unsupported_language:
        warnings.append(
            f"claims are not measured: {unsupported_language} is not supported by {model}; name a "
            "cross-encoder for it as support_model"
        )
    without_ids = _citations_without_ids(scores)
    if without_ids:
        warnings.append(without_ids)
    note = _heuristic_note(scores, "claim_support")
    return Measurement(scores, claims=claims, note=note, warning="; ".join(warnings))


def _citations_without_ids(scores: pd.DataFrame) -> str:
    """Return a warning if answers have citations and none of them names a context; "" otherwise."""
    values = scores.loc[scores["measure"] == "citation_form", "value"].dropna()
    if values.empty or values.any():
        return ""
    return (
        f"the citations of {len(values)} answers name no context: they lack its id or its number, as "
        "in [1]"
    )


def _answer(plan: EvaluationPlan, output: SystemOutput) -> Measurement:
    """Measure how right the answers are; warn if the embedder does not know their language."""
    scores = score_answer(output, plan.embedder)
    warning = ""
    language = answer_language(output.dataset, output.answers)
    if not knows(plan.embedder, language):  # then `score_answer` left semantic_similarity unscored
        warning = (
            f"semantic_similarity is not measured: {language.name} is not supported by "
            f"{plan.embedder}; name a multilingual embedder"
        )
    return Measurement(scores, note=_heuristic_note(scores, "semantic_similarity"), warning=warning)


def _heuristic_note(scores: pd.DataFrame, name: str) -> str:
    """Return a note that a measure is a heuristic; "" if the measure has no value."""
    if scores.loc[scores["measure"] == name, "value"].isna().all():
        return ""
    return f"{name} is a heuristic: it ranks answers, and no value of it is a verdict"


def _pipeline(plan: EvaluationPlan, output: SystemOutput) -> Measurement:
    return Measurement(
        score_pipeline(output.dataset, output.answers), rows=latency_rows(output, plan.deciding)
    )


def _safety(plan: EvaluationPlan, output: SystemOutput) -> Measurement:
    """Measure leaks in the answers, and attacks and leaks in the safety samples of the dataset.

    The note states which detectors were built-in. Without safety samples it states that only the answers
    were searched; if nothing was scored at all, the reason states that there are no safety samples.
    """
    dataset = output.dataset
    scores = score_leaks(dataset, output.answers if output.has_answers else (), output.texts)
    figures, samples = safety_results(dataset, plan.detector, output.safety_answers)
    rows = [compare_with_target(row, plan.deciding) for row in safety_rows(figures)]
    note = reason = ""
    if not (dataset.safety_inputs or dataset.safety_outputs):
        reason = "no safety samples"
        note = f"not measured: {reason}; only leaks in the answers were looked for"
    elif any(figure.kind != "system" for figure in figures):  # samples went through a detector
        if plan.detector:  # the user's, which detects attacks; leaks always have the built-in one
            note = "leak_*: built-in detector"
        else:
            note = "attack_*, leak_*: built-in detectors"
    return Measurement(scores, rows, figures, samples, note=note, reason=reason)


def _judge(plan: EvaluationPlan, output: SystemOutput) -> Measurement:
    """Measure by the judge's verdicts. The warning is about failed requests, and about the user's criteria
    without any value.
    """
    judgements = output.judgements
    problems = [judge_failures(judgements).warning]
    for criterion in plan.criteria:
        if criterion.is_own:
            problem = _without_verdict(criterion, judgements)
            problems.append(problem)
            if problem:
                warn_user(problem)  # of failed requests, `judge` has warned
    warning = "; ".join(filter(None, problems))
    # the reason is shown if no judgement has a value
    return Measurement(score_judgements(judgements), warning=warning, reason=warning)


def _without_verdict(criterion: Criterion, judgements: Sequence[Judgement]) -> str:
    """Return why a user's criterion has no value for any answer; "" if some answer has a value, or if
    requests to the judge failed (`judge_failures` reports them).
    """
    about = [each for each in judgements if each.criterion == criterion.name]
    has_value = any(each.value is not None for each in about)
    if not about or has_value or missing_verdicts(about):
        return ""
    no_value = f"{criterion.measure.name} has no value"
    n_excluded = sum(each.state == "excluded" for each in about)
    if not n_excluded:
        return f"{no_value} for any answer, the first: {about[0].explanation}"
    answers = plural(n_excluded, "answer")
    if criterion.function is not None:
        return f"{no_value}: its function returned None every time ({answers})"
    return f"{no_value}: the judge always chose a level without a value ({answers})"


def _own(plan: EvaluationPlan, output: SystemOutput) -> Measurement:
    """Compute the measures of the user; warn of each that fails or has no value for any question.

    A measure that fails is unscored, so that the evaluation, whose answers are paid for, continues.
    """
    frames = []
    reasons = []
    for measure in plan.measures:
        try:
            scores = score_own(
                output.dataset, output.answers, [measure], output.texts, output.documents
            )
        except DataError as exc:
            reasons.append(f"{exc}; the measure is unscored")
            continue
        frames.append(scores)
        if scores["value"].isna().all():
            reasons.append(_without_value(measure, output))
    for reason in reasons:
        warn_user(reason)
    problems = "; ".join(reasons)
    scores = pd.concat(frames, ignore_index=True) if frames else score_frame(())
    # the reason is shown if none of the measures has a value
    return Measurement(scores, warning=problems, reason=problems)


def _without_value(measure: Measure, output: SystemOutput) -> str:
    """Return why a user's measure has no value for any question."""
    if measure.level == "document" and not any(output.dataset.qrels.values()):
        return f"{measure.name} has no value: no question names a relevant document"
    n_answered = sum(not answer.failed for answer in output.answers)
    if measure.level == "answer" and not n_answered:
        return f"{measure.name} has no value: no answer to score"
    return f"{measure.name} has no value: its function returned None for every question"


class PerspectiveKind(NamedTuple):
    """One way of looking at a system: its needs of a system's output, and its measures.

    `needs` are names in `_NEEDS`. Some question must have one of the `labels`, which `wording` describes,
    unless `needs_no_labels` is True for the dataset and the measures that the user named.
    Perspectives `of_answers` decide whether a question passes; one `of_samples` also looks at safety
    samples.
    """

    name: str
    measure: Callable[[EvaluationPlan, SystemOutput], Measurement]
    needs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    wording: str = ""
    needs_no_labels: Callable[[Dataset, Sequence[str]], bool] = lambda dataset, named: False
    of_answers: bool = False
    of_samples: bool = False

    def unlabelled(self, dataset: Dataset, named: Sequence[str]) -> str:
        """Return why this perspective cannot be measured on a dataset, such as missing labels or packages; ""
        if it can.

        Args:
            dataset: the questions and safety samples.
            named: the measures that the user named, some of which need no labels.
        """
        has_samples = False
        if self.of_samples:
            problem = missing_extra()
            if problem:
                return problem
            has_samples = bool(dataset.safety_inputs or dataset.safety_outputs)
        if not dataset.cases and not has_samples:
            return "no labels: the test set has no questions"
        if not self.labels or self.needs_no_labels(dataset, named):
            return ""
        is_labelled = any(_has_label(case, self.labels) for case in dataset.cases)
        return "" if is_labelled else f"no labels: no question {self.wording}"

    def missing(self, plan: EvaluationPlan, output: SystemOutput) -> str:
        """Return why this perspective cannot be measured from the output of a system; "" if it can.

        Either labels are missing, or the output lacks one of `needs`: "answers", for example, if
        `output.has_answers` is False.
        """
        reason = self.unlabelled(output.dataset, plan.deciding.named)
        if reason:
            return reason
        for need in self.needs:
            if not getattr(output, f"has_{need}"):
                return _NEEDS[need]
        return ""


KINDS = {
    kind.name: kind
    for kind in (
        PerspectiveKind(
            "retrieval",
            _retrieval,
            ("contexts", "documents"),
            ("evidence", "relevant_chunks", "expected_chunks"),
            "names a relevant document, passage or chunk",
            lambda dataset, named: any(map(bool, dataset.qrels.values())),
        ),
        PerspectiveKind("context", _context, ("texts",)),
        PerspectiveKind("groundedness", _groundedness, ("answers", "texts"), of_answers=True),
        PerspectiveKind(
            "answer",
            _answer,
            ("answers",),
            _ANSWER_LABELS,
            "has a reference answer, gold facts or required keywords",
            of_answers=True,
        ),
        PerspectiveKind(
            "pipeline",
            _pipeline,
            ("answers",),
            tuple(LABELS.values()),
            "has an expected outcome, flags, citations or a latency budget",
            lambda dataset, named: "cost_usd" in named or any(map(is_latency_measure, named)),
            of_answers=True,
        ),
        PerspectiveKind("safety", _safety, of_samples=True),
        PerspectiveKind("judge", _judge, ("answers",), of_answers=True),
        PerspectiveKind("own", _own),
    )
}
"""Every perspective that is measured, in the order of a report."""


def kinds_of(plan: EvaluationPlan) -> list[PerspectiveKind]:
    """Return the perspectives that an evaluation looks at."""
    extra = {"judge": bool(plan.spec.judge or plan.criteria), "own": bool(plan.measures)}
    return [
        kind
        for name, kind in KINDS.items()
        if name in plan.spec.perspective_names or extra.get(name)
    ]
