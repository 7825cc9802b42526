"""`judge_audit`: is a judge consistent, and is it biased by what should not matter?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from statistics import NormalDist, fmean
from typing import Any

import pandas as pd
from scipy.stats import beta

from ragbench import llms
from ragbench.errors import ConfigError, DataError
from ragbench.judges.criteria import Material, judgeable, verdicts
from ragbench.judges.criterion import BUILT_IN, Criterion, load_criteria
from ragbench.testsets.interventions import OF_ANSWERS, answers_to_others
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
}
"""The tolerances of `judge_audit` on the scale of verdicts, [0, 1]: our choice, to be adapted to
the use.

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
    """Test a judge before it is used: probes with answers that are known to be right or wrong, and
    with answers that differ in what should not matter.

    The probes (one row each, as far as they apply to the criterion) and the meaning of `value`:

    - "repeated": the same request three times at temperature 0; mean |difference| of two verdicts,
      in [0, 1].
    - "right answers": 1 - the mean verdict on answers that are right: the reference answer; by
      faithfulness the first sentences of a document. A judge that always says no fails it.
    - "wrong but fluent": mean verdict on what answers another question: its reference answer, or
      else the answer given to it.
    - "empty answer": mean verdict on an empty text, which `judge` itself never sends.
    - "truncated", "padded", "famous author", "instruction to the judge": mean change of the verdict
      when the answer loses its second half, or gets sentences without content, a line that names a
      famous model as its author, or an instruction to give the best verdict; in [-1, 1]. Half of the
      answers are the system's, half are wrong ones (above), so that there is room on both sides. The
      texts are in `ragbench.testsets.interventions`. A rise counts; for "correctness" also a fall by
      what is added, which may lower other criteria with reason.
    - "levels reversed", "documents reversed": mean |difference| when the levels are listed, or the
      documents shown, in the opposite order, of the same answers.
    - "other language": 1 - the mean verdict on right answers in other languages than the question
      ("correctness" alone; the questions are built in).

    A probe passes if its value is not shown to exceed its bound; where the interval reaches beyond
    the bound, audit more answers.

    Args:
        answers: of one system; `n` of those that need a judge are taken, evenly spread.
        criterion: one that looks at the answer, such as "correctness", "relevance" or
            "faithfulness"; also one of your own that a model judges.
        llm: the judge.
        concurrency, timeout_s: as in `generate_many`.

    Returns:
        probe, n (answers with a value), n_unscored, value, ci_low, ci_high (95 %, over
        questions), bound, verdict ("pass", "fail", or "unscored" where the judge gave no value at all).

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
        ConfigError: an unknown or unsuitable criterion or model, `n` below 2.
        DataError: fewer than two answers that can be judged; answers that do not belong to the
            dataset or chunks.
    """
    [judged_by, *others_named] = load_criteria(criterion) or [None]
    if judged_by is None or others_named:
        raise ConfigError(f"criterion is {criterion!r}; an audit takes one criterion")
    if judged_by.function is not None:
        raise ConfigError(f"{judged_by.name} is a function, which asks no judge")
    if judged_by.about != "answer":
        names = [name for name, each in BUILT_IN.items() if each.about == "answer"]
        raise ConfigError(
            f"{judged_by.name} does not look at the answer, so it cannot be audited by it; take "
            f"{names}"
        )
    if n < 2:
        raise ConfigError(f"n is {n}; expected 2 or more")
    every = judgeable(answers, judged_by, dataset, chunks)
    # evenly spread, as the first ones of a dataset are often all of one kind
    plain = [every[i * len(every) // n] for i in range(n)] if n < len(every) else every
    if len({material.question for material in plain}) < 2:
        raise DataError(
            f"an audit by {judged_by.name} takes answers to two or more questions, and {len(plain)} "
            f"of {len(answers)} can be judged; the others are abstentions or failed, or lack a "
            "reference answer or documents"
        )
    others = answers_to_others([material.reference or material.answer for material in plain])
    wrong = [replace(each, answer=other) for each, other in zip(plain, others, strict=True)]
    model = llms.load_llm(llm)
    asking: dict[str, Any] = {"concurrency": concurrency, "timeout_s": timeout_s}
    values = {"repeated": _repeated(plain, judged_by, model, asking)}
    groups = {"as it is": [*plain, *wrong]}
    for name, change in OF_ANSWERS.items():
        groups[name] = [
            replace(material, answer=change(material.answer)) for material in groups["as it is"]
        ]
    groups["empty answer"] = [replace(material, answer="") for material in plain]
    groups["right answers"] = _right_answers(plain, judged_by)
    if judged_by.name == "correctness":
        groups["other language"] = [
            Material(f"language {i}", question, answer, reference, (), ())
            for i, (question, reference, answer) in enumerate(_OTHER_LANGUAGES)
        ]
    if "contexts" in judged_by.shows and any(len(each.documents) > 1 for each in plain):
        groups["documents reversed"] = [
            replace(each, documents=each.documents[::-1], chunk_ids=each.chunk_ids[::-1])
            for each in groups["as it is"]
        ]
    materials = [material for group in groups.values() for material in group]
    judged = iter(verdicts(materials, judged_by, model, **asking))
    scores = {name: [next(judged)[0] for _ in group] for name, group in groups.items()}
    if judged_by.form in ("level", "score"):
        again = verdicts(groups["as it is"], _backwards(judged_by), model, **asking)
        scores["levels reversed"] = [value for [value] in again]
    for name in OF_ANSWERS:
        values[name] = _changes(scores["as it is"], scores[name])
    for name in ("levels reversed", "documents reversed"):
        if name in scores:
            changes = _changes(scores["as it is"], scores[name])
            values[name] = [None if change is None else abs(change) for change in changes]
    for name in ("right answers", "other language"):
        if scores.get(name):
            values[name] = [None if value is None else 1 - value for value in scores[name]]
    values["wrong but fluent"] = scores["as it is"][len(plain) :]
    values["empty answer"] = scores["empty answer"]
    rows = []
    for probe in AUDIT_BOUNDS:
        if probe in values:
            count = len(values[probe]) if probe == "other language" else len(plain)
            rows.append(_row(probe, values[probe], judged_by.name, count))
    return pd.DataFrame(rows).astype(dict.fromkeys(("value", "ci_low", "ci_high"), "Float64"))


def _backwards(criterion: Criterion) -> Criterion:
    """Return a criterion whose levels are listed in the opposite order, those without a value last."""
    order = [*reversed(criterion.values)]
    order += [name for name in criterion.levels if name not in order]
    anchors = {name: criterion.anchors[name] for name in order if name in criterion.anchors}
    if list(anchors) == list(criterion.anchors):
        anchors = dict(reversed(anchors.items()))
    levels = {name: criterion.levels[name] for name in order}
    return replace(criterion, levels=levels, anchors=anchors)


def _right_answers(plain: Sequence[Material], criterion: Criterion) -> list[Material]:
    """Return answers that are right by a built-in criterion; none where that is not known."""
    if criterion.form == "claims":
        shown = [each for each in plain if each.documents and each.documents[0].strip()]
        return [replace(each, answer=_beginning(each.documents[0])) for each in shown]
    if criterion.name not in ("correctness", "relevance", "completeness"):
        return []
    return [replace(each, answer=each.reference) for each in plain if each.reference]


def _beginning(document: str) -> str:
    """Return the first two sentences of a document."""
    spans = sentence_spans(document)[:2]
    return document[spans[0][0] : spans[-1][1]] if spans else document


def _changes(before: Sequence[float | None], after: Sequence[float | None]) -> list[float | None]:
    """Return the change of each verdict, None where one is missing."""
    changes: list[float | None] = []
    for first, second in zip(before, after, strict=True):
        changes.append(None if first is None or second is None else second - first)
    return changes


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


def audit_findings(audit: pd.DataFrame) -> list[str]:
    """Return what an audit shows of a judge, the gravest fault first; [] where it passes every probe.

    >>> rows = [("repeated", 0.0, "pass"), ("right answers", 1.0, "fail"), ("wrong but fluent", 0.0, "pass"),
    ...         ("padded", 0.0, "pass")]
    >>> audit_findings(pd.DataFrame(rows, columns=["probe", "value", "verdict"]))
    ['its verdict is 0 on right and on wrong answers', 'it does not recognise right answers']
    """
    states = dict(zip(audit["probe"], audit["verdict"], strict=True))
    values: dict[str, float] = {}
    for probe, value in zip(audit["probe"], audit["value"], strict=True):
        if not pd.isna(value):
            values[probe] = float(value)
    findings = []
    kept = [values.get(probe, 0.0) for probe in (*OF_ANSWERS, "repeated", "levels reversed")]
    if {"right answers", "wrong but fluent"} <= values.keys() and not any(kept):
        on_right, on_wrong = 1 - values["right answers"], values["wrong but fluent"]
        if on_right == on_wrong:
            findings.append(f"its verdict is {on_wrong:g} on right and on wrong answers")
    unscored = [probe for probe, state in states.items() if state == "unscored"]
    if unscored:
        findings.append(f"it gave no verdict that could be read: {', '.join(unscored)}")
    failed = [probe for probe, state in states.items() if state == "fail"]
    return findings + [fault for probe, fault in _FAULTS.items() if probe in failed]


def _repeated(
    plain: Sequence[Material], criterion: Criterion, model: LLM, asking: Mapping[str, Any]
) -> list[float | None]:
    """Return the mean distance of two verdicts on each answer, requested at temperature 0."""
    samples = verdicts(plain, criterion, model, n_samples=_REPEATS, temperature=0.0, **asking)
    distances: list[float | None] = []
    for row in samples:
        scored = [verdict for verdict in row if verdict is not None]
        pairs = [abs(first - second) for first, second in combinations(scored, 2)]
        distances.append(fmean(pairs) if pairs else None)
    return distances


def _row(
    probe: str, values: Sequence[float | None], criterion: str, count: int
) -> dict[str, object]:
    scored = [value for value in values if value is not None]
    bound = AUDIT_BOUNDS[probe]
    low, high = _interval(values, count, probe in OF_ANSWERS, 0.05)
    surely = _interval(values, count, probe in OF_ANSWERS, 0.1 / len(AUDIT_BOUNDS))
    # Additions may lower other verdicts with reason: padding is off the point, and an author is a
    # claim.
    either_way = probe in OF_ANSWERS and probe != "truncated" and criterion == "correctness"
    failed = surely[0] > bound or (either_way and surely[1] < -bound)
    return {
        "probe": probe,
        "n": len(scored),
        "n_unscored": len(values) - len(scored),
        "value": fmean(scored) if scored else None,
        "ci_low": low if scored else None,
        "ci_high": high if scored else None,
        "bound": bound,
        "verdict": ("fail" if failed else "pass") if scored else "unscored",
    }


def _interval(
    values: Sequence[float | None], count: int, is_change: bool, alpha: float
) -> tuple[float, float]:
    """Return an interval of the mean over `count` questions; the right and the wrong answer to a
    question are one observation.

    Of values from 0 to 1 that of Clopper and Pearson (1934), exact for 0 and 1 and conservative for
    what is between. To changes, from -1 to 1, z^2 / 8 observations of -1 and of 1 and z^2 / 4 of 0
    are added, so that equal ones are no certainty (Agresti & Min 2005).
    """
    questions = [[value for value in values[i::count] if value is not None] for i in range(count)]
    means = [fmean(question) for question in questions if question]
    if not is_change:
        hits, n = sum(means), len(means)
        low = beta.ppf(alpha / 2, hits, n - hits + 1) if hits else 0.0
        high = beta.ppf(1 - alpha / 2, hits + 1, n - hits) if hits < n else 1.0
        return float(low), float(high)
    z = NormalDist().inv_cdf(1 - alpha / 2)
    points = [*means, -1.0, 1.0, 0.0]
    weights = [*([1.0] * len(means)), z**2 / 8, z**2 / 8, z**2 / 4]
    center = fmean(points, weights)
    variance = fmean([(point - center) ** 2 for point in points], weights)
    reach = z * math.sqrt(variance / sum(weights))
    return max(-1.0, center - reach), min(1.0, center + reach)
