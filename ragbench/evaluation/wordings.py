"""Another wording of a criterion, such as `ragbench tune` writes it, decides what the criterion
decides: which questions pass, why they fail, by what answers are ranked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from ragbench.judges.criterion import Criterion
from ragbench.types import Judgement


def wordings_of(criteria: Iterable[Criterion]) -> dict[str, str]:
    """Return the name of each criterion that decides in the place of another -> that criterion.

    A criterion that is judged itself decides, and of several wordings the first.

    >>> tuned = Criterion("strict", "Is it right?", wording_of="correctness")
    >>> wordings_of([tuned]), wordings_of([tuned, Criterion("correctness", "Is it right?")])
    ({'strict': 'correctness'}, {})
    """
    criteria = list(criteria)
    return _deciding([(criterion.name, criterion.wording_of) for criterion in criteria])


def wordings_in(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return `wordings_of` of the criteria by which a result was judged, from its settings."""
    # criterion of the user -> the criterion whose wording it is, or ""
    meant_by = {}
    for declared in settings.get("own_criteria", ()):
        meant_by[declared["name"]] = declared.get("wording_of", "")
    return _deciding([(name, meant_by.get(name, "")) for name in settings.get("criteria", ())])


def _deciding(named: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the name of each criterion that decides in the place of another -> that criterion.

    `named` has pairs: the name of a criterion, and the criterion whose wording it is, or "". The first
    wording of a criterion decides, unless the criterion itself is among the names.
    """
    # criteria that need no other to decide in their place; each that gets one is added
    decided = {name for name, _ in named}
    meanings: dict[str, str] = {}
    for name, meant in named:
        if meant and meant not in decided:
            meanings[name] = meant
            decided.add(meant)
    return meanings


def measures_of(meanings: Mapping[str, str]) -> dict[str, str]:
    """Return the measure of each wording -> the measure in whose place it decides."""
    return {f"llm_{name}": f"llm_{meant}" for name, meant in meanings.items()}


def judgements_by_meaning(
    judgements: Iterable[Judgement], meanings: Mapping[str, str]
) -> list[Judgement]:
    """Return judgements with the criterion that each decides for."""
    return [
        replace(each, criterion=meanings.get(each.criterion, each.criterion)) for each in judgements
    ]


def scores_by_meaning(scores: pd.DataFrame, meanings: Mapping[str, str]) -> pd.DataFrame:
    """Return scores with the measure that each decides for."""
    return scores.assign(measure=scores["measure"].replace(measures_of(meanings)))
