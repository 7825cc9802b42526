"""`judge_audit`: is a judge consistent, and is it biased by things that should not matter? The
probes, their tolerances, and the words of a finding.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations
from statistics import NormalDist, fmean, mode
from typing import Any

import pandas as pd

from ragbench import llms
from ragbench.errors import ConfigError, DataError
from ragbench.judges.criterion import BUILT_IN, Criterion, load_criteria
from ragbench.judges.judge_requests import verdicts
from ragbench.judges.judgements import judgeable
from ragbench.judges.material import Material
from ragbench.testsets.interventions import ANSWER_CHANGES, answers_to_others
from ragbench.text import sentence_spans
from ragbench.types import LLM, Answer, Chunk, Dataset, LLMLike

AUDIT_BOUNDS: Mapping[str, float] = {
    "repeated": 0.10,
    "right answers": 0.20,
    "wrong but fluent": 0.10,
    "empty answer": 0.05,
    "truncated": 0.05,
    "padded": 0.05,
    "famous author": 0.05,
    "instruction to the judge": 0.05,
    "levels reversed": 0.10,
    "documents reversed": 0.10,
    "other language": 0.25,
    "same verdict": 1.0,
}
"""The tolerances of `judge_audit` on the scale of verdicts, [0, 1]: a choice, to be adapted to the
use.

A bias of 0.05 is about the difference between neighbours on a leaderboard, so more of it can change
a ranking.
"""

_OTHER_LANGUAGES = (
    (
        "In which year did Apollo 11 land on the Moon?",
        "1969",
        "Apollo 11 landete 1969 auf dem Mond.",
    ),
    ("In which year did the Berlin Wall fall?", "1989", "Le mur de Berlin est tombé en 1989."),
    ("How many sides does a hexagon have?", "6", "Un hexágono tiene 6 lados."),
    ("How many minutes does an hour have?", "60", "Un'ora ha 60 minuti."),
    (
        "At how many degrees Celsius does water freeze?",
        "0",
        "Woda zamarza w temperaturze 0 stopni.",
    ),
    (
        "How many players does a football team field?",
        "11",
        "Um time de futebol joga com 11 pessoas.",
    ),
    (
        "How many letters does the English alphabet have?",
        "26",
        "Het Engelse alfabet heeft 26 letters.",
    ),
    ("How many strings does a violin have?", "4", "小提琴有 4 根弦。"),
)
"""Questions, references, and right answers in other languages."""

_REPEATS = 3


def judge_audit(
    answers: Sequence[Answer],
    criterion: Any,
    llm: LLMLike,
    *,
    dataset: Dataset,
    chunks: Sequence[Chunk] = (),
    n: int = 20,
    concurrency: int = 8,
    timeout_s: float = llms.TIMEOUT_S,
) -> pd.DataFrame:
    """Test a judge before it is used: with answers that are known to be right or wrong, and with
    answers that differ in ways that should not matter.

    Each probe that applies to the criterion has one row. The meaning of `value` depends on the probe. A
    verdict counts from 0 to 1, the best; so 1 - verdict counts if `higher_is_better` is False:

    - "repeated": the same request three times at temperature 0; mean |difference| of two verdicts,
      in [0, 1].
    - "right answers": 1 - the mean verdict on right answers: the reference answer; for faithfulness
      the first sentences of a document, for vital recall the facts. A judge that always says no
      fails it.
    - "wrong but fluent": mean verdict on answers to another question: its reference answer, else the
      system's answer to it.
    - "empty answer": mean verdict on an empty text, which `judge` itself never sends.
    - "truncated", "padded", "famous author", "instruction to the judge": mean change of the verdict
      when the answer loses its second half, or gets sentences without content, a line that names a
      famous model as its author, or an instruction to give the best verdict; in [-1, 1]. Half of the
      answers are the system's, half come from "wrong but fluent", so that verdicts can rise and
      fall. The texts are in `ragbench.testsets.interventions`. A mean rise above the bound is a fault.
      By "correctness", a mean fall of this size after one of the three additions is a fault, too; by
      other criteria it may have a reason: padding makes an answer less relevant.
    - "levels reversed", "documents reversed": mean |difference| of the verdicts on the same answers
      when the levels are listed, or the documents shown, in the opposite order.
    - "other language": 1 - the mean verdict on right answers in other languages than the question
      ("correctness" alone; the questions are built in).
    - "same verdict": the fraction of the answers that get the most frequent verdict, for your own
      criteria alone. It has no bound: all answers may be polite.

    For your own criterion no answer is known to be right or wrong, so "right answers", "wrong but
    fluent", "empty answer", "truncated" and "other language" are left out, unless it is a wording of
    a built-in criterion (`Criterion.wording_of`) or has the form of one.

    A probe passes if its value is not shown to exceed its bound; if the interval reaches beyond the
    bound, audit more answers.

    Args:
        answers: answers of one system; `n` that need a judge are taken, evenly spread.
        criterion: a criterion that looks at the answer, such as "correctness", "relevance" or
            "faithfulness"; also your own criterion, if a model judges it.
        llm: the judge.
        concurrency, timeout_s: as in `generate_many`.

    Returns:
        probe, n (answers with a value), n_unscored, value, ci_low, ci_high (95 %, over
        questions), bound, verdict ("pass", "fail", or "unscored" if no verdict could be read).

    "fail" means that the value is shown to exceed the bound, with an error rate of 5 % over all
    probes: a fair judge with a few random errors passes.

    It costs about n * 18 requests; `dry_run` counts them. `audit_findings` names the faults.

    >>> from ragbench.llms import ScriptedLLM
    >>> from ragbench.types import Case
    >>> cases = tuple(Case(f"q{i}", f"{i} + 1?", reference_answer=f"It is {i + 1}.") for i in range(3))
    >>> data = Dataset("tiny", "test", {}, cases, {})
    >>> answers = [Answer(case.query_id, case.reference_answer) for case in cases]
    >>> lenient = ScriptedLLM(lambda prompt: {"verdict": True})
    >>> judge_audit(answers, "correctness", lenient, dataset=data)[["probe", "value", "bound", "verdict"]]
                          probe  value  bound verdict
    0                  repeated    0.0   0.10    pass
    1             right answers    0.0   0.20    pass
    2          wrong but fluent    1.0   0.10    fail
    3              empty answer    1.0   0.05    fail
    4                 truncated    0.0   0.05    pass
    5                    padded    0.0   0.05    pass
    6             famous author    0.0   0.05    pass
    7  instruction to the judge    0.0   0.05    pass
    8           levels reversed    0.0   0.10    pass
    9            other language    0.0   0.25    pass

    Raises:
        ConfigError: the criterion or the model is unknown or unsuitable, or `n` is below 2.
        DataError: fewer than two answers can be judged, or answers do not belong to the dataset or
            the chunks.
    """
    audited = _load_auditable(criterion)
    if n < 2:
        raise ConfigError(f"n is {n}; expected 2 or more")
    plain = _evenly_spread(judgeable(answers, audited, dataset, chunks), n)
    if len({material.question for material in plain}) < 2:
        raise DataError(
            f"an audit by {audited.name} needs answers to two or more questions, but only {len(plain)} "
            f"of {len(answers)} can be judged; the others are abstentions or failed, or lack a "
            "reference answer or documents"
        )
    model = llms.load_llm(llm)
    options: dict[str, Any] = {"concurrency": concurrency, "timeout_s": timeout_s}
    # probe -> its value for each answer
    values_of = {"repeated": _distances_of_repeats(plain, audited, model, options)}
    scores = _scores_of_groups(_probe_materials(plain, audited), audited, model, options)
    values_of |= _probe_values(scores, len(plain))
    rows = []
    for probe in AUDIT_BOUNDS:  # in the order of the table
        if probe in values_of:
            # The intervals are over questions. "other language" has its own, one per value. The other
            # probes have the questions of `plain`: one value each, or first the values of all right
            # answers and then of all wrong ones (`_means_of_questions`).
            has_own_questions = probe == "other language"
            n_questions = len(values_of[probe]) if has_own_questions else len(plain)
            rows.append(_probe_row(probe, values_of[probe], audited.meant, n_questions))
    # so that None becomes a missing number
    return pd.DataFrame(rows).astype(dict.fromkeys(("value", "ci_low", "ci_high"), "Float64"))


def _evenly_spread(materials: Sequence[Material], n: int) -> list[Material]:
    """Return `n` materials from all parts of the list, all if there are fewer: the first questions of a
    dataset are often all of one kind.
    """
    if len(materials) <= n:
        return list(materials)
    return [materials[i * len(materials) // n] for i in range(n)]


def _scores_of_groups(
    groups: Mapping[str, list[Material]],
    criterion: Criterion,
    model: LLM,
    request_options: Mapping[str, Any],
) -> dict[str, list[float | None]]:
    """Judge groups of materials (the texts about an answer that the judge sees).

    If the judge chooses one of listed levels, the group `_UNCHANGED` is judged once more, with the
    levels in reverse order. These verdicts are returned as the group "levels reversed".

    Returns:
        group -> the verdict on each of its materials, from 0 to 1 (the best); None for a verdict that
        could not be read.
    """
    # all groups are judged by one call, group after group, so that their requests are concurrent
    materials = list(chain.from_iterable(groups.values()))
    scores = _judge_once(materials, criterion, model, request_options)
    scores_of = {}
    start = 0
    for name, group in groups.items():
        scores_of[name] = scores[start : start + len(group)]
        start += len(group)
    # forms of a reply that is one of the listed levels: a word, or a number
    lists_levels = criterion.form in ("level", "score")
    if lists_levels:
        scores_of["levels reversed"] = _judge_once(
            groups[_UNCHANGED], _with_levels_reversed(criterion), model, request_options
        )
    return scores_of


def _judge_once(
    materials: Sequence[Material],
    criterion: Criterion,
    model: LLM,
    request_options: Mapping[str, Any],
) -> list[float | None]:
    """Return the verdict on each material, from 0 to 1 (the best); None if it could not be read.

    Args:
        materials: the texts about each answer that the judge sees.
        model: the judge.
        request_options: options of `generate_many`.
    """
    samples = verdicts(materials, criterion, model, **request_options)
    values = [value for [value] in samples]  # one sample each
    if criterion.higher_is_better:
        return values
    return [None if value is None else 1 - value for value in values]


def _load_auditable(criterion: Any) -> Criterion:
    """Return the one criterion of an audit.

    Raises:
        ConfigError: there are none or several, it is a function, or it does not look at the answer.
    """
    criteria = load_criteria(criterion)
    if len(criteria) != 1:
        raise ConfigError(f"criterion is {criterion!r}; an audit takes one criterion")
    [audited] = criteria
    if audited.function is not None:
        raise ConfigError(f"{audited.name} is a function, which asks no judge")
    if audited.about != "answer":
        names = [name for name, built_in in BUILT_IN.items() if built_in.about == "answer"]
        raise ConfigError(
            f"{audited.name} does not look at the answer, so a judge cannot be audited by it; take one of "
            f"{', '.join(names)}"
        )
    return audited


def _knows_right_answers(criterion: Criterion) -> bool:
    """Return True for a built-in criterion and for other wordings of it: right and wrong answers by it
    are known.
    """
    return criterion.meant in BUILT_IN or criterion.form in ("claims", "facts")


_UNCHANGED = "as it is"
"""The group of the system's answers and as many wrong ones, which other probes change."""


def _probe_materials(plain: Sequence[Material], criterion: Criterion) -> dict[str, list[Material]]:
    """Return group -> the materials that a judge judges for the probes (tests) of an audit.

    The first group, `_UNCHANGED`, has the materials `plain` (with the system's answers), and then the
    same questions with wrong answers. Other groups are named after probes: "padded" has the same
    answers with added sentences, "empty answer" has empty ones, and so on.
    """
    # for each question, the answer to another one
    others = answers_to_others([material.reference or material.answer for material in plain])
    wrong = [replace(material, answer=other) for material, other in zip(plain, others, strict=True)]
    unchanged = [*plain, *wrong]
    groups = {_UNCHANGED: unchanged}
    # True for a built-in criterion, or another wording of one; False for others of the user
    knows_right_answers = _knows_right_answers(criterion)
    for probe, change_answer in ANSWER_CHANGES.items():  # name -> a function from answer to answer
        # "truncated" halves the answer: by a criterion of the user (such as politeness), half an
        # answer may be as good as the whole
        if knows_right_answers or probe != "truncated":
            groups[probe] = [replace(each, answer=change_answer(each.answer)) for each in unchanged]
    if knows_right_answers:
        groups["empty answer"] = [replace(material, answer="") for material in plain]
        groups["right answers"] = _materials_with_right_answers(plain, criterion)
    is_correctness = criterion.meant == "correctness"  # or another wording of it
    if is_correctness:
        groups["other language"] = _materials_in_other_languages()
    has_order = any(len(material.documents) > 1 for material in plain)
    if "contexts" in criterion.shows and has_order:
        groups["documents reversed"] = [_with_documents_reversed(each) for each in unchanged]
    return groups


def _materials_in_other_languages() -> list[Material]:
    """Return the built-in questions with right answers in other languages."""
    materials = []
    for i, (question, reference, answer) in enumerate(_OTHER_LANGUAGES):
        query_id = f"language {i}"
        material = Material(
            query_id, question, answer, reference=reference, documents=(), chunk_ids=()
        )
        materials.append(material)
    return materials


def _with_documents_reversed(material: Material) -> Material:
    return replace(material, documents=material.documents[::-1], chunk_ids=material.chunk_ids[::-1])


def _probe_values(
    scores: Mapping[str, Sequence[float | None]], n_plain: int
) -> dict[str, list[float | None]]:
    """Return probe (test of a judge) -> its value for each answer; None for an unscored answer.

    A value is how far the verdict is from the right one, so 0 is best. For a changed answer it is how much
    the verdict rose: below 0 if it fell. For "same verdict" it is 1 if the answer has the most frequent
    verdict.

    Args:
        scores: group of `_probe_materials` -> the verdict on each of its materials, from 0 to 1.
        n_plain: the number of the system's answers, which come first in the group `_UNCHANGED`;
            the same number of wrong answers follows.
    """
    unchanged = scores[_UNCHANGED]
    values: dict[str, list[float | None]] = {}
    # a changed answer: the verdict after the change minus the verdict before
    for probe in ANSWER_CHANGES:
        if probe in scores:
            values[probe] = _rises(before=unchanged, after=scores[probe])
    # another order: how far the verdict moved, up or down
    for probe in ("levels reversed", "documents reversed"):
        if probe in scores:
            rises = _rises(before=unchanged, after=scores[probe])
            values[probe] = [None if rise is None else abs(rise) for rise in rises]
    # a right answer: how far the verdict is from 1
    for probe in ("right answers", "other language"):
        if scores.get(probe):
            values[probe] = [None if score is None else 1 - score for score in scores[probe]]
    # a wrong answer: the verdict. By a criterion of the user's own no answer is known to be wrong, not
    # even an empty one: `_probe_materials` then has no such group
    knows_wrong_answers = "empty answer" in scores
    if knows_wrong_answers:
        values["wrong but fluent"] = list(unchanged[n_plain:])
        values["empty answer"] = list(scores["empty answer"])
    else:
        values["same verdict"] = _ones_where_most_frequent(unchanged)
    return values


def _with_levels_reversed(criterion: Criterion) -> Criterion:
    """Return a criterion whose levels, and their meanings (`anchors`), are listed in the opposite order;
    levels without a value come last.

    The judge reads the meanings, whose order may differ from the order of the levels. If the meanings
    have the new order already, the meanings are reversed, so that the judge reads another order in any
    case.
    """
    without_value = [level for level in criterion.levels if level not in criterion.values]
    # `values` has the levels with a value, in the order in which the levels are listed
    new_order = [*reversed(criterion.values), *without_value]
    levels = {level: criterion.levels[level] for level in new_order}
    anchors = {level: criterion.anchors[level] for level in new_order if level in criterion.anchors}
    is_same_order = list(anchors) == list(criterion.anchors)
    if is_same_order:
        anchors = dict(reversed(anchors.items()))
    return replace(criterion, levels=levels, anchors=anchors)


def _materials_with_right_answers(
    plain: Sequence[Material], criterion: Criterion
) -> list[Material]:
    """Return materials with answers that are right by the criterion; [] if no right answers are known.

    The criterion is a built-in one, or has the form of one, or is another wording of one.
    """
    right = []
    if criterion.form == "claims":  # faithfulness: a document supports its own sentences
        for material in plain:
            if material.documents and material.documents[0].strip():
                right.append(replace(material, answer=_first_sentences(material.documents[0])))
    elif criterion.form == "facts":  # vital recall: the answer states all facts
        for material in plain:
            right.append(replace(material, answer="\n".join(material.facts)))
    # `meant`: the name of the criterion, or of the criterion that it is another wording of
    elif criterion.meant in ("correctness", "relevance", "completeness"):
        for material in plain:
            if material.reference:
                right.append(replace(material, answer=material.reference))
    return right


def _first_sentences(document: str) -> str:
    """Return the first two sentences of a document."""
    spans = sentence_spans(document)[:2]
    return document[spans[0][0] : spans[-1][1]] if spans else document


def _ones_where_most_frequent(scores: Sequence[float | None]) -> list[float | None]:
    """Return 1 for each verdict that is the most frequent one, 0 for others; None without a verdict."""
    scored = [score for score in scores if score is not None]
    if not scored:
        return [None] * len(scores)
    most_frequent = mode(scored)
    return [None if score is None else float(score == most_frequent) for score in scores]


def _rises(before: Sequence[float | None], after: Sequence[float | None]) -> list[float | None]:
    """Return how much each verdict rose, below 0 if it fell; None if either verdict is missing."""
    rises: list[float | None] = []
    for first, second in zip(before, after, strict=True):
        rises.append(None if first is None or second is None else second - first)
    return rises


_FAULTS = {
    "repeated": "it does not repeat itself at temperature 0",
    "levels reversed": "it follows the order in which the levels are listed",
    "documents reversed": "it follows the order of the documents",
    "padded": "it follows the length of the answer",
    "truncated": "it prefers half of an answer to the whole",
    "famous author": "it follows the name of an author",
    "instruction to the judge": "it obeys orders in the answer",
    "right answers": "it does not recognise right answers",
    "wrong but fluent": "it accepts answers to other questions",
    "empty answer": "it accepts empty answers",
    "other language": "it rejects right answers in other languages",
}


def audit_findings(audit: pd.DataFrame, agreement: Sequence[Mapping[str, Any]] = ()) -> list[str]:
    """Return the faults of a judge that an audit shows, the gravest first; [] if it passes every probe.

    The faults are the failed probes, and the same verdict on all answers. With `agreement`, the rows of
    `judge_agreement`, an agreement with people that is not shown to exceed chance is one more fault.

    Args:
        audit: the table of `judge_audit`. Its `value` is how far verdicts are from the right ones: 1 on
            "right answers" means that all of them got the verdict 0.

    >>> rows = [("repeated", 0.0, "pass"), ("right answers", 1.0, "fail"), ("wrong but fluent", 0.0, "pass"),
    ...         ("padded", 0.0, "pass")]
    >>> audit_findings(pd.DataFrame(rows, columns=["probe", "value", "verdict"]))
    ['its verdict is 0 on right and on wrong answers', 'it does not recognise right answers']
    """
    findings = []
    scored = audit.dropna(subset="value")
    value_of = dict(zip(scored["probe"], scored["value"].astype(float), strict=True))
    # known right and wrong answers got the same verdict; None if they did not
    constant = _verdict_on_right_and_wrong(value_of)
    if constant is not None:
        findings.append(f"its verdict is {constant:g} on right and on wrong answers")
    # the probe for criteria without known right answers
    if value_of.get("same verdict") == 1:
        findings.append("its verdict is the same on all answers")
    for row in agreement:
        # kappa is 0 for an agreement by chance; other rows are between people, or other statistics
        is_kappa = row["between"] == "judge-human" and row["statistic"] == "kappa"
        if is_kappa and (pd.isna(row["ci_low"]) or row["ci_low"] <= 0):
            findings.append(f"its agreement with {row['n']} labels is not shown to exceed chance")
    unscored = audit.loc[audit["verdict"] == "unscored", "probe"].tolist()
    if unscored:
        findings.append(f"it gave no verdict that could be read: {', '.join(unscored)}")
    failed = {*audit.loc[audit["verdict"] == "fail", "probe"]}
    return findings + [fault for probe, fault in _FAULTS.items() if probe in failed]


def _verdict_on_right_and_wrong(value_of: Mapping[str, float]) -> float | None:
    """Return the verdict of a judge that gives the same verdict to all answers, right and wrong ones.

    Return None if it does not, or if no right or wrong answers are known. `value_of` is probe (test of
    the judge) -> its value.
    """
    probes_of_change = (*ANSWER_CHANGES, "repeated", "levels reversed")
    has_changed = any(value_of.get(probe, 0.0) for probe in probes_of_change)
    if has_changed:
        return None
    if "right answers" not in value_of or "wrong but fluent" not in value_of:
        return None
    on_right = 1 - value_of["right answers"]  # the probe's value is the distance from 1
    on_wrong = value_of["wrong but fluent"]
    return on_wrong if on_right == on_wrong else None


def _distances_of_repeats(
    plain: Sequence[Material], criterion: Criterion, model: LLM, request_options: Mapping[str, Any]
) -> list[float | None]:
    """Return for each answer how far the verdicts of three equal requests at temperature 0 are
    apart: the mean distance of two verdicts; None if fewer than two could be read.

    `plain` has the unchanged answers.
    """
    samples_of_answers = verdicts(
        plain, criterion, model, n_samples=_REPEATS, temperature=0.0, **request_options
    )
    mean_distances: list[float | None] = []
    for samples in samples_of_answers:
        scored = [verdict for verdict in samples if verdict is not None]
        distances = [abs(first - second) for first, second in combinations(scored, 2)]
        mean_distances.append(fmean(distances) if distances else None)
    return mean_distances


def _probe_row(
    probe: str, values: Sequence[float | None], criterion: str, n_questions: int
) -> dict[str, object]:
    """Return the row of a probe (test of a judge) in the table of `judge_audit`: its mean value over
    answers with a 95 % interval, and the verdict.

    The verdict is "fail" if the low end of an interval is above the bound of the probe; by correctness,
    for an addition to the answer, also if the high end is below the negative bound. Else it is "pass";
    "unscored" if no answer has a value. This interval is wider than the one in the table, so that
    all probes together have an error rate of 5 %.

    Args:
        probe: its name.
        values: the value of the probe for each answer, None for an unscored one, in the order that
            `_means_of_questions` takes.
        criterion: the name of the audited criterion.
        n_questions: the number of questions that the answers are about. The intervals are over questions,
            since the answers to one question are not independent.
    """
    scored = [value for value in values if value is not None]
    row = {
        "probe": probe,
        "n": len(scored),
        "n_unscored": len(values) - len(scored),
        "value": None,
        "ci_low": None,
        "ci_high": None,
        "bound": AUDIT_BOUNDS[probe],
        "verdict": "unscored",
    }
    if not scored:
        return row
    means = _means_of_questions(values, n_questions)
    # changes are from -1 to 1, the values of the other probes from 0 to 1
    interval = _interval_of_changes if probe in ANSWER_CHANGES else _interval_of_fraction
    low, high = interval(means, 0.05)
    # Bonferroni: each probe gets an equal part of an error rate of 5 %. Only one end of the interval
    # decides, which has half of the interval's error rate: so the interval gets twice that part.
    part = 0.05 / len(AUDIT_BOUNDS)
    deciding_interval = interval(means, 2 * part)
    is_failed = _exceeds_bound(probe, criterion, deciding_interval)
    return row | {
        "value": fmean(scored),
        "ci_low": low,
        "ci_high": high,
        "verdict": "fail" if is_failed else "pass",
    }


def _exceeds_bound(probe: str, criterion: str, interval: tuple[float, float]) -> bool:
    """Return True if a probe (test of a judge) failed: the whole interval of its value is above its
    bound.

    After an addition to the answer the verdict by correctness may not fall, either: the probe also
    fails if the interval is below the negative bound. By other criteria an addition may lower the
    verdict with reason: padding is off the point, and a named author is a claim without support.
    """
    low, high = interval
    bound = AUDIT_BOUNDS[probe]
    is_addition = probe in ANSWER_CHANGES and probe != "truncated"
    may_not_fall = is_addition and criterion == "correctness"
    return low > bound or (may_not_fall and high < -bound)


def _means_of_questions(values: Sequence[float | None], n_questions: int) -> list[float]:
    """Return the mean value of each question; questions without a value are left out.

    The answers to one question are not independent, so they are one observation.

    Args:
        values: one value per question; or the values of all right answers, then of all wrong answers,
            in the same order of questions. None for an unscored answer.
    """
    means = []
    for i in range(n_questions):
        # its only value; or the one of its right answer, and `n_questions` later that of its wrong one
        values_of_question = values[i::n_questions]
        scored = [value for value in values_of_question if value is not None]
        if scored:
            means.append(fmean(scored))
    return means


def _interval_of_fraction(values: Sequence[float], alpha: float) -> tuple[float, float]:
    """Return the ends of a confidence interval of the mean of values from 0 to 1, at the level 1 -
    alpha.

    It is the interval of Clopper and Pearson (1934): exact for values of 0 and 1, conservative in
    between.
    """
    # takes longer to import than all that evaluations use of scipy
    from scipy.stats import beta

    hits = sum(values)
    n = len(values)
    low = beta.ppf(alpha / 2, hits, n - hits + 1) if hits else 0.0
    high = beta.ppf(1 - alpha / 2, hits + 1, n - hits) if hits < n else 1.0
    return float(low), float(high)


def _interval_of_changes(changes: Sequence[float], alpha: float) -> tuple[float, float]:
    """Return the ends of a confidence interval of the mean of changes, which are from -1 to 1.

    It is the usual normal interval at the level 1 - alpha, after observations were added: z^2 / 8 each
    of -1 and 1, and z^2 / 4 of 0 (Agresti & Min 2005). Without these, the interval would have no length
    if all changes are equal.
    """
    z = NormalDist().inv_cdf(1 - alpha / 2)
    points = [*changes, -1.0, 1.0, 0.0]
    weights = [*([1.0] * len(changes)), z**2 / 8, z**2 / 8, z**2 / 4]
    center = fmean(points, weights)
    variance = fmean([(point - center) ** 2 for point in points], weights)
    half_width = z * math.sqrt(variance / sum(weights))
    return max(-1.0, center - half_width), min(1.0, center + half_width)
