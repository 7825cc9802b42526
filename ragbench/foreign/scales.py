"""Bounds and directions of the measures of other tools: known by name, declared, or assumed from the
values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from ragbench.array_types import Floats
from ragbench.errors import ConfigError
from ragbench.registry import Measure, find_measure
from ragbench.testsets.fields import column_name

Bounds = tuple[float | None, float | None]

_UNIT: Bounds = (0.0, 1.0)
_KNOWN: Mapping[str, Bounds] = {
    **dict.fromkeys(
        "faithfulness answer_relevancy answer_relevance response_relevancy context_precision "
        "context_recall context_relevance context_relevancy context_utilization context_entity_recall "
        "contextual_precision contextual_recall contextual_relevancy contextual_relevance "
        "answer_correctness answer_similarity semantic_similarity factual_correctness factuality "
        "noise_sensitivity groundedness hallucination toxicity bias exact_match em f1 f1_score accuracy "
        "acc acc_norm pass passed success correct is_correct rouge1 rouge2 rougel rougelsum includes "
        "match prefix_match string_presence bert_score g_eval prompt_alignment task_completion "
        "tool_correctness json_correctness".split(),
        _UNIT,
    ),
    **dict.fromkeys("chrf ter sacrebleu".split(), (0.0, 100.0)),
    **dict.fromkeys("latency cost tokens duration perplexity wer cer".split(), (0.0, None)),
}
_ONE_TO_FIVE = (
    "answer_similarity answer_correctness answer_relevance relevance faithfulness".split()
)
"""What MLflow's judges grade from 1 to 5, as `NAME/v1/score`."""
_AT_A_DEPTH = re.compile(
    r"(ndcg|map|mrr|recall|precision|accuracy|success|f1|hits?|hit_rate|hit_ratio)(_at_|@)\d+"
)
_LOWER = (
    "latency cost costs price tokens token duration runtime seconds ms usd error errors perplexity loss "
    "toxicity hallucination hallucinations bias wer cer ter distance leakage harmfulness maliciousness "
    "brier mae mse rmse nll ppl"
).split()
_LOWER_NAMES = (
    "noise_sensitivity response_time execution_time time total_time bits_per_byte"
).split()
_AMOUNTS = (
    "latency cost costs price tokens token duration runtime seconds ms usd time length chars words count "
    "num n_calls calls"
).split()


@dataclass(frozen=True, slots=True)
class Scale:
    """The bounds and the direction of a measure; `assumed` states the part that is guessed from the values."""

    measure: str
    bounds: Bounds
    higher_is_better: bool
    assumed: str = ""

    def as_measure(self) -> Measure:
        """Return the measure as ragbench's registry has them."""
        return Measure(
            self.measure,
            bounds=self.bounds,
            higher_is_better=self.higher_is_better,
            perspective="",
            meaning=self.meaning,
        )

    @property
    def worst(self) -> float | None:
        """Return the worst possible value; None without one."""
        low, high = self.bounds
        return low if self.higher_is_better else high

    @property
    def meaning(self) -> str:
        """Return the bounds and the direction in words."""
        low, high = self.bounds
        parts = []
        if low is not None and high is not None:
            parts.append(f"{low:g} to {high:g}")
        elif low is not None:
            parts.append(f"{low:g} or more")
        if not self.higher_is_better:
            parts.append("lower is better")
        return ", ".join(parts)


def scale_of(
    measure: str,
    values: Sequence[float],
    *,
    bounds: Mapping[str, Bounds],
    lower: Collection[str] = (),
    higher: Collection[str] = (),
    stated: Mapping[str, bool] = MappingProxyType({}),
) -> Scale:
    """Return the scale of a measure: its bounds, and whether a higher value is better.

    The bounds are the declared ones; else those that are known for its name, if no value is outside
    of them; else 0 to 1 if all values lie there; else there are none.

    Args:
        measure: its name in the files.
        values: all values of all systems, NaN where one is missing.
        bounds: measure -> smallest and largest value, as declared; None without any.
        lower, higher: measures of which a lower, or a higher value is better, as declared.
        stated: measure -> True if a higher value is better, as the files state.

    >>> scale_of("score", [0.0, 1.0, 0.5], bounds={}).bounds
    (0.0, 1.0)
    >>> scale_of("total_tokens", [310.0, 45.0], bounds={}).higher_is_better
    False

    Raises:
        ConfigError: a value lies outside of the declared bounds.
    """
    known_values = np.array(values, dtype=float)  # without missing ones
    known_values = known_values[~np.isnan(known_values)]
    higher_is_better = _higher_is_better(measure, lower, higher, stated)
    # declared bounds: the user knows better than any name
    if measure in bounds:
        low, high = bounds[measure]
        if not _are_within(known_values, (low, high)):
            raise ConfigError(
                f"{measure} lies between {known_values.min():g} and {known_values.max():g}, outside of "
                f"the bounds declared, {_bound_text(low)}..{_bound_text(high)}; expected bounds that hold all values"
            )
        return Scale(measure, (low, high), higher_is_better)
    known_bounds = _known_bounds(measure)
    # A value outside shows that the measure is another one of the same name, so these do not count.
    if known_bounds is not None and _are_within(known_values, known_bounds):
        return Scale(measure, known_bounds, higher_is_better)
    # no name to go by: the values look like fractions, which the user is told
    if _are_within(known_values, _UNIT):
        kind = "0 or 1" if np.isin(known_values, (0.0, 1.0)).all() else "from 0 to 1"
        assumed = (
            f"{measure} is taken for a measure from 0 to 1, as all values are {kind}; declare others "
            f"with bounds, such as {measure}=0..10"
        )
        return Scale(measure, _UNIT, higher_is_better, assumed)
    assumed = (
        f"{measure} has values from {known_values.min():g} to {known_values.max():g} and no known bounds, "
        f"so its interval is Student's; declare them, such as {measure}=0..10, for one that holds for "
        "every distribution"
    )
    return Scale(measure, (None, None), higher_is_better, assumed)


def is_amount(measure: str) -> bool:
    """Return True if a measure counts time, money or texts: it decides only if the user names it.

    >>> [is_amount(name) for name in ("latency_ms", "totalTokens", "faithfulness", "answer_relevancy")]
    [True, True, False, False]
    """
    return any(part in _AMOUNTS for part in column_name(measure).split("_"))


def is_known_measure(name: str) -> bool:
    """Return True for the name of a measure that ragbench or another tool has.

    >>> [is_known_measure(name) for name in ("faithfulness", "NDCG@10", "Recall@5", "recall", "q1", "France")]
    [True, True, True, True, False, False]
    """
    return (
        _known_bounds(name) is not None
        # a name such as "recall", which is known at a depth
        or _AT_A_DEPTH.fullmatch(f"{_plain_name(name)}@1") is not None
    )


def bounds_from(text: str) -> tuple[str, Bounds]:
    """Return the measure and the bounds in a declaration.

    >>> bounds_from("score=0..10"), bounds_from("latency=0..")
    (('score', (0.0, 10.0)), ('latency', (0.0, None)))

    Raises:
        ConfigError: the text is not such a declaration.
    """
    error = ConfigError(f"bounds are {text!r}; expected MEASURE=LOW..HIGH, such as score=0..10")
    name, equals, ends = text.rpartition("=")
    low_text, dots, high_text = ends.partition("..")
    if not (name.strip() and equals and dots):
        raise error
    try:
        low = float(low_text) if low_text.strip() else None
        high = float(high_text) if high_text.strip() else None
    except ValueError:
        raise error from None
    has_no_end = low is None and high is None
    is_reversed = low is not None and high is not None and not low < high
    if has_no_end or is_reversed:
        raise error
    return name.strip(), (low, high)


def checked_bounds(bounds: Mapping[str, Any]) -> dict[str, Bounds]:
    """Return declared bounds, measure -> (low, high), None for an end without a bound.

    They may be declared as such a pair, in which an infinite end becomes None, or as a text such as
    "0..10". Only in a text a low end above the high one is refused here; of a pair, `scale_of` refuses
    it, as no value lies within.

    Raises:
        ConfigError: a value is neither a pair of numbers or None, nor such a text.
    """
    checked: dict[str, Bounds] = {}
    for name, pair in bounds.items():
        if isinstance(pair, str):
            _, checked[name] = bounds_from(f"{name}={pair}")
            continue
        is_pair = isinstance(pair, tuple | list) and len(pair) == 2
        if not is_pair or not all(end is None or isinstance(end, int | float) for end in pair):
            raise ConfigError(
                f"bounds of {name} are {pair!r}; expected (low, high), such as (0, 10)"
            )
        low, high = pair
        checked[name] = (_finite(low), _finite(high))
    return checked


def _finite(bound: float | None) -> float | None:
    """Return a bound as a float; None for an infinite one."""
    return None if bound is None or math.isinf(bound) else float(bound)


def _higher_is_better(
    measure: str, lower: Collection[str], higher: Collection[str], stated: Mapping[str, bool]
) -> bool:
    """Return True if a higher value is better: as declared, as the files state, as registered, else by
    the name.
    """
    if measure in lower:
        return False
    if measure in higher:
        return True
    if measure in stated:
        return stated[measure]
    registered = find_measure(measure)
    if registered is not None:
        return registered.higher_is_better
    name = _plain_name(measure)
    if name in _LOWER_NAMES:
        return False
    return not any(part in _LOWER for part in name.split("_"))


def _known_bounds(measure: str) -> Bounds | None:
    """Return the bounds that are known for a measure of this name, in ragbench or in other tools; None if
    the name is unknown.
    """
    registered = find_measure(measure)
    if registered is not None:
        return registered.bounds
    name = _plain_name(measure)
    # MLflow grades from 1 to 5 what other tools score from 0 to 1 under the same name
    if measure.endswith("/v1/score") and name in _ONE_TO_FIVE:
        return 1.0, 5.0
    if _AT_A_DEPTH.fullmatch(name):
        return _UNIT
    if name in _KNOWN:
        return _KNOWN[name]
    if is_amount(measure):  # time, money or tokens: not below 0
        return 0.0, None
    return None


def _plain_name(measure: str) -> str:
    """Return the name of a measure without what tools add: annotation_, /v1/score, /value, a mode,
    and the evaluator in outputs.EVALUATOR.NAME of Azure.
    """
    name = re.sub(r"(/v\d+)?(/score|/value)?$", "", measure)
    name = re.sub(r"^outputs\.(.+\.)?", "", name)
    name = name.partition("(")[0].partition(",")[0].partition("[")[0]
    return re.sub(r"^(annotation|feedback)[_.]|_score$", "", column_name(name))


def _are_within(values: Floats, bounds: Bounds) -> bool:
    """Return True if all values are within the bounds, except for rounding; None means no bound."""
    low = -math.inf if bounds[0] is None else bounds[0]
    high = math.inf if bounds[1] is None else bounds[1]
    return bool(((values >= low - 1e-9) & (values <= high + 1e-9)).all())


def _bound_text(bound: float | None) -> str:
    """Return a bound as it is written in a declaration; "" for None."""
    return "" if bound is None else f"{bound:g}"
