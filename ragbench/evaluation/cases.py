"""Whether a single question passed, and if not, why in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ragbench.evaluation.answering import Answered
from ragbench.scoring.overall import failure_reasons, score_overall

if TYPE_CHECKING:
    import pandas as pd

_OF_ANSWERS = ("groundedness", "answer", "pipeline")
_NOTHING_FOUND = "nothing relevant among the first 5 retrieved"


class Decided(NamedTuple):
    """query_id -> whether the case passed (None = nothing to decide by), the reasons why not, and the scores."""

    passed: Mapping[str, bool | None]
    reasons: Mapping[str, tuple[str, ...]]
    scores: pd.DataFrame


def decide(answered: Answered, frames: Mapping[str, pd.DataFrame], thresholds: Mapping[str, float]) -> Decided:
    """Decide every case by what was measured.

    Where answers were looked at, `failure_reasons` decides, and the scores are those of `score_overall`. Where only
    retrieval was, a question passes if something relevant stands among the first 5.

    Args:
        answered: the answers.
        frames: perspective -> its scores; perspectives that could not be measured are not in it.
        thresholds: part -> what an answer must reach, as in `ragbench.metrics.overall.THRESHOLDS`.
    """
    import pandas as pd

    kept = [frames[name] for name in ("answer", "groundedness") if name in frames]
    columns = pd.DataFrame({"query_id": [], "measure": [], "value": []})
    scores = pd.concat(kept, ignore_index=True) if kept else columns
    if not any(name in frames for name in _OF_ANSWERS):
        return _by_retrieval(answered, frames.get("retrieval", columns))
    overall = score_overall(answered.dataset, answered.answers, scores, thresholds=thresholds)
    own = overall[overall["measure"] == "passed"]
    passed = dict(zip(own["query_id"], own["value"], strict=True))
    values: dict[str, dict[str, float]] = {}
    for query_id, name, value in scores[["query_id", "measure", "value"]].itertuples(index=False, name=None):
        values.setdefault(query_id, {})[name] = float(value)
    given = {answer.query_id: answer for answer in answered.answers}
    citing = any(answer.citations for answer in answered.answers)
    reasons = {
        case.query_id: tuple(
            failure_reasons(
                case,
                given.get(case.query_id),
                values.get(case.query_id, {}),
                thresholds=thresholds,
                citing=citing,
            )
        )
        for case in answered.dataset.cases
        if passed.get(case.query_id) == 0
    }
    shown = overall[overall["measure"] != "passed"]
    return Decided({one: None if math.isnan(value) else bool(value) for one, value in passed.items()}, reasons, shown)


def _by_retrieval(answered: Answered, scores: pd.DataFrame) -> Decided:
    own = scores[scores["measure"] == "Success@5"]
    found = dict(zip(own["query_id"], own["value"], strict=True))
    passed: dict[str, bool | None] = {}
    for case in answered.dataset.cases:
        value = found.get(case.query_id, math.nan)
        passed[case.query_id] = None if math.isnan(value) else value > 0
    failed = {answer.query_id: answer.error for answer in answered.answers if answer.error is not None}
    reasons = {
        one: (f"failed: {failed[one]}" if one in failed else _NOTHING_FOUND,)
        for one, good in passed.items()
        if good is False
    }
    return Decided(passed, reasons, scores.iloc[:0])
