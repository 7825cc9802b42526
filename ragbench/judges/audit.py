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
from ragbench.types import LLM, Answer, Chunk, Dataset, LLMLike

AUDIT_BOUNDS: Mapping[str, float] = {
    "repeated": 0.10,
    "truncated": 0.05,
    "padded": 0.05,
    "famous author": 0.05,
    "instruction to the judge": 0.05,
    "wrong but fluent": 0.10,
    "empty answer": 0.05,
}
"""The tolerances of `judge_audit` on the scale of verdicts, [0, 1]: our choice, to be adapted to
the use.

A bias of 0.05 is about the difference between neighbours on a leaderboard, so more of it can change
a ranking.
"""

_REPEATS = 3


def judge_audit(
    answers: Sequence[Answer],
    criterion: Any,
    llm: LLMLike,
    *,
    dataset: Dataset,
    chunks: Sequence[Chunk] = (),
    n: int = 20,
) -> pd.DataFrame:
    """Test a judge before it is used: seven probes with answers that differ in what should not
    matter.

    The probes (one row each) and the meaning of `value`:

    - "repeated": the same request three times at temperature 0.7; mean |difference| of two
      verdicts, in [0, 1].
    - "truncated", "padded", "famous author", "instruction to the judge": mean change of the verdict
      when the answer loses its second half, or gets sentences without content, a line that names a
      famous model as its author, or an instruction to give the best verdict; in [-1, 1]. Half of the
      answers are the system's, half are wrong ones (below), so that there is room on both sides. The
      texts are in `ragbench.testsets.interventions`. A rise counts; for "correctness" also a fall by
      what is added, which may lower other criteria with reason.
    - "wrong but fluent": mean verdict on what answers another question: its reference answer, or
      else the answer given to it.
    - "empty answer": mean verdict on an empty text, which `judge` itself never sends.

    A probe passes if its value is not shown to exceed its bound; where the interval reaches beyond
    the bound, audit more answers.

    Args:
        answers: of one system; `n` of those that need a judge are taken, evenly spread.
        criterion: one that looks at the answer, such as "correctness", "relevance" or
            "faithfulness"; also one of your own that a model judges.
        llm: the judge.

    Returns:
        probe, n (answers with a value), n_unscored, value, ci_low, ci_high (95 %, over
        questions), bound, verdict ("pass", "fail", or "unscored" where the judge gave no value at all).

    "fail" means that the value is shown to exceed the bound, with an error rate of 5 % over all
    probes: a fair judge with a few random errors passes.

    It costs about n * 14 requests; `dry_run` counts them.

    >>> from ragbench.llms import ScriptedLLM
    >>> from ragbench.types import Case
    >>> cases = tuple(Case(f"q{i}", f"{i} + 1?", reference_answer=f"It is {i + 1}.") for i in range(3))
    >>> data = Dataset("tiny", "test", {}, cases, {})
    >>> answers = [Answer(case.query_id, case.reference_answer) for case in cases]
    >>> lenient = ScriptedLLM(lambda prompt: {"verdict": True})
    >>> judge_audit(answers, "correctness", lenient, dataset=data)[["probe", "value", "bound", "verdict"]]
                          probe  value  bound verdict
    0                  repeated    0.0   0.10    pass
    1                 truncated    0.0   0.05    pass
    2                    padded    0.0   0.05    pass
    3             famous author    0.0   0.05    pass
    4  instruction to the judge    0.0   0.05    pass
    5          wrong but fluent    1.0   0.10    fail
    6              empty answer    1.0   0.05    fail

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
    values = {"repeated": _repeated(plain, judged_by, model)}
    groups = {"as it is": [*plain, *wrong]}
    for name, change in OF_ANSWERS.items():
        groups[name] = [
            replace(material, answer=change(material.answer)) for material in groups["as it is"]
        ]
    groups["empty answer"] = [replace(material, answer="") for material in plain]
    materials = [material for group in groups.values() for material in group]
    judged = iter(verdicts(materials, judged_by, model))
    scores = {name: [next(judged)[0] for _ in group] for name, group in groups.items()}
    for name in OF_ANSWERS:
        values[name] = [
            None if before is None or after is None else after - before
            for before, after in zip(scores["as it is"], scores[name], strict=True)
        ]
    values["wrong but fluent"] = scores["as it is"][len(plain) :]
    values["empty answer"] = scores["empty answer"]
    rows = [_row(probe, values[probe], judged_by.name, len(plain)) for probe in AUDIT_BOUNDS]
    return pd.DataFrame(rows).astype(dict.fromkeys(("value", "ci_low", "ci_high"), "Float64"))


def _repeated(plain: Sequence[Material], criterion: Criterion, model: LLM) -> list[float | None]:
    """Return the mean distance of two verdicts on each answer."""
    samples = verdicts(plain, criterion, model, n_samples=_REPEATS)
    pairs = [
        list(combinations([verdict for verdict in row if verdict is not None], 2))
        for row in samples
    ]
    return [fmean(abs(a - b) for a, b in row) if row else None for row in pairs]


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
