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
    """Return the criteria that decide in place of another one: name -> the criterion that it replaces.

    A user may reword a criterion of ragbench (`Criterion.wording_of`). If several criteria reword the
    same one, the first replaces it; if it is among `criteria` itself, it decides, and nothing replaces it.

    >>> tuned = Criterion("strict", "Is it right?", wording_of="correctness")
    >>> wordings_of([tuned]), wordings_of([tuned, Criterion("correctness", "Is it right?")])
    ({'strict': 'correctness'}, {})
    """
    criteria = list(criteria)
    return _replacements([(criterion.name, criterion.wording_of) for criterion in criteria])


def wordings_in(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return `wordings_of` of the criteria by which a result was judged, from its settings."""
    # criterion of the user -> the criterion that it rewords, or ""
    reworded = {}
    for declared in settings.get("own_criteria", ()):
        reworded[declared["name"]] = declared.get("wording_of", "")
    return _replacements([(name, reworded.get(name, "")) for name in settings.get("criteria", ())])


def _replacements(criteria: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return criterion -> the other criterion that it replaces, as `wordings_of`.

    Args:
        criteria: of each criterion the name, and the name of the criterion that it rewords, or "".
    """
    not_replaceable = {name for name, _ in criteria}  # they are judged themselves
    replaces: dict[str, str] = {}
    for name, reworded in criteria:
        if reworded and reworded not in not_replaceable:
            replaces[name] = reworded
            not_replaceable.add(reworded)  # by a second criterion
    return replaces


def measures_of(meanings: Mapping[str, str]) -> dict[str, str]:
    """Return the measures of `meanings`: the measure of a criterion -> the measure that it replaces.

    >>> measures_of({"strict": "correctness"})
    {'llm_strict': 'llm_correctness'}
    """
    return {f"llm_{name}": f"llm_{meant}" for name, meant in meanings.items()}


def users_measures_of(meanings: Mapping[str, str]) -> dict[str, str]:
    """Return the reverse of `measures_of`: a measure -> the measure by the user's wording that replaces it.

    >>> users_measures_of({"strict": "correctness"})
    {'llm_correctness': 'llm_strict'}
    """
    return {replaced: users for users, replaced in measures_of(meanings).items()}


def judgements_by_meaning(
    judgements: Iterable[Judgement], meanings: Mapping[str, str]
) -> list[Judgement]:
    """Return the judgements with their criteria renamed by `meanings`: criterion -> the criterion that it
    replaces (`wordings_of`). Criteria that are not in it keep their names.
    """
    return [
        replace(each, criterion=meanings.get(each.criterion, each.criterion)) for each in judgements
    ]


def scores_by_meaning(scores: pd.DataFrame, meanings: Mapping[str, str]) -> pd.DataFrame:
    """Return the scores with the measures of criteria renamed by `meanings`, as `judgements_by_meaning`."""
    return scores.assign(measure=scores["measure"].replace(measures_of(meanings)))
