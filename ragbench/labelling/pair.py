"""Which two results of a folder people's labels compare, and the sentences of `label.ipynb` on the
findings so far.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ragbench.errors import ConfigError
from ragbench.evaluation import Result, Results
from ragbench.labelling.draws import PROXIES
from ragbench.statistics.trust import Trust


def pair_to_label(
    results: Results, criterion: str = "correctness", configurations: str = ""
) -> list[Result]:
    """Return the baseline and its contender, in this order; one result if there is only one.

    Args:
        results: the results of a sweep.
        criterion: a criterion of answers or a ranking measure, by which the answers or documents
            are labelled.
        configurations: parts of the two names, with a comma between them; "" means the baseline
            and the best other configuration, by the first measure of the criterion that the
            results have.

    Raises:
        ConfigError: no name contains a part, or the results have no measure of the criterion.
    """
    parts = [part.strip() for part in configurations.split(",") if part.strip()]
    if parts:
        return [_result_named(results, part) for part in parts]
    measure = _measure_to_rank_by(results, criterion)
    best_first = results.leaderboard(measure)["name"].tolist()
    baseline = results.baseline or min(best_first)  # else the first by name
    names = [baseline]
    contenders = [name for name in best_first if name != baseline]
    if contenders:
        names.append(contenders[0])
    return [_result_named(results, name) for name in names]


def _measure_to_rank_by(results: Results, criterion: str) -> str:
    """Return the measure by which the best configuration is found: the first proxy of the criterion that
    the results have.

    Raises:
        ConfigError: the results have none of these measures.
    """
    measures = set(results[0].scores["measure"])
    candidates = PROXIES.get(criterion, (criterion, f"llm_{criterion}"))
    for name in candidates:
        if name in measures:
            return name
    raise ConfigError(
        f"criterion {criterion!r}: the results have none of {', '.join(candidates)}, so the best "
        "configuration is unknown; name two configurations"
    )


def _result_named(results: Results, part: str) -> Result:
    """Return the result whose name is `part`, else the first result whose name contains it.

    Raises:
        ConfigError: no name contains it.
    """
    for result in results:
        if result.name == part:
            return result
    for result in results:
        if part in result.name:
            return result
    names = ", ".join(result.name for result in results)
    raise ConfigError(f"configurations: no name contains {part!r}; the names are {names}")


def label_findings(
    results: Sequence[Result], decision: Trust, sheet: pd.DataFrame, criterion: str
) -> str:
    """Return Markdown: the decision between the two results, and how much each person has labelled.

    Args:
        results: one result or the two between which to decide.
        decision: what `trust` returned for them.
        sheet: the rows of `read_sheet`.
        criterion: the criterion of the labels.
    """
    names = " against ".join(result.name for result in reversed(results))
    lines = [f"**{names}:** {decision.sentence}"]
    people = sheet.groupby("annotator", sort=False)["value"].agg(labelled="count", drawn="size")
    for name, labelled, drawn in people.itertuples():
        lines.append(f"**{name}** has labelled **{labelled} of {drawn}** answers by {criterion}.")
    if len(people) < 2:
        lines.append(
            "The agreement between people is unknown with labels of one person: ask a second one."
        )
    return "\n".join(["## Key findings", "", *(f"- {line}" for line in lines)])
