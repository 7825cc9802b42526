"""`judge_audit`: is a judge consistent, and is it biased by what should not matter?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragbench import llms
from ragbench.errors import ConfigError, DataError, unknown
from ragbench.judges.agreement import spread
from ragbench.judges.criteria import NEEDS, Material, judgeable, verdicts
from ragbench.judges.pairwise import Pair, choose
from ragbench.judges.prompts import AUTHOR, CRITERIA, INSTRUCTION, PADDING
from ragbench.types import Answer, Chunk, Dataset, LLMLike

Floats = npt.NDArray[np.float64]

AUDIT_BOUNDS: Mapping[str, float] = {
    "repeated": 0.10,
    "padded": 0.05,
    "famous author": 0.05,
    "instruction to the judge": 0.05,
    "places swapped": 0.20,
    "wrong but fluent": 0.10,
    "empty answer": 0.05,
}
"""The tolerances of `judge_audit` on the scale of verdicts, [0, 1]: our choice, to be adapted to
the use.

A bias of 0.05 is about the difference between neighbours on a leaderboard, so more of it can change
a ranking. Of places: GPT-4 changed its choice with the order on 35 % of pairs of close answers
(Zheng et al. 2023, table 2), which is too much for a ranking from one order.
"""

_MEANS = {
    "repeated": "mean distance of two verdicts on the same answer at temperature 0.7",
    "padded": "mean change when the answer is padded with empty sentences",
    "famous author": "mean change when the answer names a famous model as its author",
    "instruction to the judge": "mean change when the answer instructs the judge",
    "places swapped": "fraction of pairs of an answer and its padded form whose verdict changes "
    "with their order",
    "wrong but fluent": "mean verdict on the right answer to another question",
    "empty answer": "mean verdict on no text at all",
}
_ADDED = {"padded": PADDING, "famous author": AUTHOR, "instruction to the judge": INSTRUCTION}
_RESAMPLES = 10_000


def judge_audit(
    answers: Sequence[Answer],
    criterion: str,
    llm: LLMLike,
    *,
    dataset: Dataset,
    chunks: Sequence[Chunk] = (),
    n: int = 20,
    n_repeats: int = 3,
    bounds: Mapping[str, float] | None = None,
    concurrency: int = 8,
    seed: int = 0,
) -> pd.DataFrame:
    """Test a judge before it is used: seven probes with answers that differ in what should not
    matter.

    The probes (one row each) and the meaning of `value`:

    - "repeated": the same request `n_repeats` times at temperature 0.7; mean |difference| of two
      verdicts, in [0, 1].
    - "padded", "famous author", "instruction to the judge": mean change of the verdict when the
      answer gets sentences without content, a line that names a famous model as its author, or an
      instruction to give the best verdict; in [-1, 1]. Half of the answers are the system's, half
      are wrong ones (below), so that there is room on both sides. The texts are in
      `ragbench.judges.prompts`. For "correctness" a change in either direction counts, for the
      other criteria a rise only, because what is added may lower them with reason.
    - "places swapped": answer and padded answer side by side (as in `pairwise`), in both orders;
      the fraction of pairs with different verdicts, in [0, 1].
    - "wrong but fluent": mean verdict on what answers another question: its reference answer, or
      else the answer given to it.
    - "empty answer": mean verdict on an empty text, which `judge` itself never sends.

    A probe passes if its value is within its bound. It is `certain` if the interval is on the same
    side of the bound; otherwise audit more answers.

    Args:
        answers: of one system; `n` of those that need a judge are taken, evenly spread. criterion:
        "correctness", "relevance" or "faithfulness"; the others do not look at the answer. llm: the
        judge. bounds: probe -> bound, where it differs from AUDIT_BOUNDS.

    Returns:
        probe, n (answers or pairs with a value), n_unscored, value, ci_low, ci_high (95 %,
        percentile bootstrap over questions; where all of them have the same value, of which a
        bootstrap would make certainty, imagined ones are added as in `rb.statistics.calibrate`),
        bound, verdict ("pass", "fail", or "unscored" where the judge gave no value at all), certain
        (pd.NA where unscored), means (what the value is).

    "fail" means that the value is shown to exceed the bound, with an error rate of 5 % over all
    probes: a fair judge with a few random errors passes. `certain` is whether the 95 % interval
    lies on one side of the bound.

    It costs about n * (9 + n_repeats + 2) requests; `dry_run` counts them.

    >>> from ragbench.llms import ScriptedLLM
    >>> from ragbench.types import Case
    >>> cases = tuple(Case(f"q{i}", f"{i} + 1?", reference_answer=f"It is {i + 1}.") for i in range(3))
    >>> data = Dataset("tiny", "test", {}, cases, {})
    >>> answers = [Answer(case.query_id, case.reference_answer) for case in cases]
    >>> lenient = ScriptedLLM(lambda prompt: {"better": "tie"} if "Second answer" in prompt else {"verdict": True})
    >>> judge_audit(answers, "correctness", lenient, dataset=data)[["probe", "value", "bound", "verdict"]]
                          probe  value  bound verdict
    0                  repeated    0.0   0.10    pass
    1                    padded    0.0   0.05    pass
    2             famous author    0.0   0.05    pass
    3  instruction to the judge    0.0   0.05    pass
    4            places swapped    0.0   0.20    pass
    5          wrong but fluent    1.0   0.10    fail
    6              empty answer    1.0   0.05    fail

    Raises:
        ConfigError: an unknown or unsuitable criterion, model or probe, a number out of range.
        DataError: fewer than two answers that can be judged; answers that do not belong to the
        dataset or chunks.
    """
    suited = [name for name in CRITERIA if "answer" in NEEDS[name]]
    if criterion not in CRITERIA:
        raise ConfigError(unknown("criterion", criterion, suited))
    if criterion not in suited:
        raise ConfigError(
            f"{criterion} does not look at the answer, so it cannot be audited by it; take {suited}"
        )
    for name, number, smallest in (
        ("n", n, 2),
        ("n_repeats", n_repeats, 2),
        ("concurrency", concurrency, 1),
    ):
        if number < smallest:
            raise ConfigError(f"{name} is {number}; expected {smallest} or more")
    for probe, bound in (bounds or {}).items():
        if probe not in AUDIT_BOUNDS:
            raise ConfigError(unknown("probe", probe, AUDIT_BOUNDS))
        if not 0 <= bound <= 1:
            raise ConfigError(f"the bound of {probe!r} is {bound}; expected a number from 0 to 1")
    if not chunks and "documents" not in NEEDS[criterion]:
        answers = [replace(answer, contexts=()) for answer in answers]
    plain = spread(judgeable(answers, criterion, dataset, chunks), n)
    if len({material.question for material in plain}) < 2:
        raise DataError(
            f"an audit by {criterion} takes answers to two or more questions, and {len(plain)} "
            f"of {len(answers)} can be judged; the others are abstentions or failed, or lack a "
            "reference answer or documents"
        )
    wrong = _wrong(plain)
    model = llms.load_llm(llm)

    repeats = verdicts(plain, criterion, model, n_samples=n_repeats, concurrency=concurrency)
    groups = {"as it is": [*plain, *wrong]}
    for name, text in _ADDED.items():
        groups[name] = [
            replace(one, answer=text.replace("{answer}", one.answer)) for one in groups["as it is"]
        ]
    groups["empty answer"] = [replace(one, answer="") for one in plain]
    values = iter(
        verdicts(
            [one for group in groups.values() for one in group],
            criterion,
            model,
            concurrency=concurrency,
        )
    )
    given = {name: [next(values)[0] for _ in group] for name, group in groups.items()}
    pairs = [
        Pair(
            str(i),
            one.question,
            one.answer,
            PADDING.replace("{answer}", one.answer),
            one.reference or "",
            () if one.reference else one.documents,
        )
        for i, one in enumerate(plain)
    ]
    choices = choose(pairs, model, ("plain", "padded"), concurrency)

    found: dict[str, list[float | None]] = {"repeated": []}
    for samples in repeats:
        gaps = [
            abs(a - b)
            for a, b in combinations([value for value in samples if value is not None], 2)
        ]
        found["repeated"].append(sum(gaps) / len(gaps) if gaps else None)
    for name in _ADDED:
        found[name] = [
            None if before is None or after is None else after - before
            for before, after in zip(given["as it is"], given[name], strict=True)
        ]
    found["places swapped"] = [
        None if one.consistent is None else float(not one.consistent) for one in choices
    ]
    found["wrong but fluent"] = given["as it is"][len(plain) :]
    found["empty answer"] = given["empty answer"]
    limits = {**AUDIT_BOUNDS, **(bounds or {})}
    rows = [
        _row(probe, found[probe], limits[probe], criterion, len(plain), seed)
        for probe in AUDIT_BOUNDS
    ]
    frame = pd.DataFrame(rows)
    for name in ("value", "ci_low", "ci_high"):
        frame[name] = pd.to_numeric(frame[name]).astype("Float64").where(frame[name].notna())
    return frame.astype({"certain": "boolean"})


def _wrong(plain: Sequence[Material]) -> list[Material]:
    """Each question with the answer to another one, half the list away: fluent, but wrong here."""
    texts = [material.reference or material.answer for material in plain]
    count, wrong = len(plain), []
    for i, material in enumerate(plain):
        far = [(i + count // 2 + step) % count for step in range(count)]
        other = next((j for j in far if texts[j].strip() != texts[i].strip()), None)
        if other is None:
            raise DataError(
                "all answers are the same text, so none can serve as a wrong one; take other "
                "questions"
            )
        wrong.append(replace(material, answer=texts[other]))
    return wrong


def _row(
    probe: str, values: Sequence[float | None], bound: float, criterion: str, count: int, seed: int
) -> dict[str, object]:
    scored = [(i % count, value) for i, value in enumerate(values) if value is not None]
    row: dict[str, object] = {
        "probe": probe,
        "n": len(scored),
        "n_unscored": len(values) - len(scored),
    }
    row |= {
        "value": None,
        "ci_low": None,
        "ci_high": None,
        "bound": bound,
        "verdict": "unscored",
        "certain": None,
    }
    row["means"] = _MEANS[probe]
    if not scored:
        return row
    mean = sum(value for _, value in scored) / len(scored)
    low, high = _interval(scored, seed, -1.0 if probe in _ADDED else 0.0)
    # Additions may lower other verdicts with reason: padding is off the point, and an author is a
    # claim.
    either_way = probe in _ADDED and criterion == "correctness"
    passed = not _exceeds(scored, bound, seed, either_way, probe in _ADDED)
    certain = None
    if low is not None and high is not None:
        within = high <= bound + 1e-12 and (not either_way or low >= -bound - 1e-12)
        certain = within if passed else low > bound or (either_way and high < -bound)
    found = {"value": mean, "ci_low": low, "ci_high": high, "verdict": "pass" if passed else "fail"}
    return row | found | {"certain": certain}


def _exceeds(
    scored: Sequence[tuple[int, float]], bound: float, seed: int, either_way: bool, change: bool
) -> bool:
    """Return True if the mean is shown to exceed the bound, with an error rate of 5 % over all
    probes.

    For values from 0 to 1 by Chernoff's bound, which holds for every distribution (Hoeffding 1963):
    with n questions, a mean of m or more has a probability of at most exp(-n KL(m, bound)). For
    changes by the bootstrap.
    """
    level = 0.05 / len(AUDIT_BOUNDS)
    mean = sum(value for _, value in scored) / len(scored)
    if change:
        low, high = _interval(scored, seed, -1.0, 2 * level)
        return (
            low is not None and high is not None and (low > bound or (either_way and high < -bound))
        )
    if mean <= bound + 1e-12 or bound >= 1:
        return False
    parts = ((mean, bound), (1 - mean, 1 - bound))
    distance = sum(p * math.log(p / q) for p, q in parts if p > 0) if bound else math.inf
    return math.exp(-len({i for i, _ in scored}) * distance) < level


def _interval(
    scored: Sequence[tuple[int, float]], seed: int, smallest: float, alpha: float = 0.05
) -> tuple[float | None, float | None]:
    """Bootstrap over questions: the right and the wrong answer to one are drawn together; values in
    [smallest, 1].
    """
    questions, place = np.unique([i for i, _ in scored], return_inverse=True)
    if (k := len(questions)) < 2:
        return None, None
    sums, counts = np.bincount(place, weights=[value for _, value in scored]), np.bincount(place)
    draws = np.random.default_rng([seed, k]).multinomial(k, np.full(k, 1 / k), size=_RESAMPLES)
    low, high = np.quantile((draws @ sums) / (draws @ counts), [alpha / 2, 1 - alpha / 2])
    if high - low < 1e-12:  # no resample of equal values holds another one
        return _among_equals(float(low), k, smallest, alpha)
    return float(low), float(high)


def _among_equals(value: float, k: int, smallest: float, alpha: float) -> tuple[float, float]:
    """Interval of the mean of `k` equal values with pseudo-observations added.

    For values from 0 on: two of 0 and two of 1 (Agresti & Coull 1998); for changes: half a -1, half
    a 1 and one 0 (Agresti & Min 2005).
    """
    from scipy.stats import t

    values, counts = (
        [value, 1.0, smallest, 0.0],
        [float(k), *((2.0, 2.0, 0.0) if smallest == 0.0 else (0.5, 0.5, 1.0))],
    )
    center = np.average(values, weights=counts)
    variance = np.average((np.array(values) - center) ** 2, weights=counts) / sum(counts)
    reach = float(t.ppf(1 - alpha / 2, k - 1)) * math.sqrt(variance)
    return float(max(smallest, min(center - reach, value))), float(
        min(1.0, max(center + reach, value))
    )
