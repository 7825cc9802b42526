"""How far a judge agrees with the labels in sheets, by asking it about the labelled answers; the
statistics are in `statistics/agreement`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from ragbench import llms
from ragbench.errors import DataError
from ragbench.judges.criterion import Criterion, load_criteria
from ragbench.judges.judge_requests import verdicts
from ragbench.judges.material import Material
from ragbench.labelling.sheet import contexts_of, read_sheet
from ragbench.statistics.agreement import judge_agreement
from ragbench.types import Judgement, LLMLike


def sheet_agreement(
    sheets: str | Path | Sequence[str | Path],
    criterion: Any,
    llm: LLMLike,
    *,
    concurrency: int = 8,
    timeout_s: float = llms.TIMEOUT_S,
) -> pd.DataFrame:
    """Ask a judge about the labelled answers of sheets, and return its agreement with the people who
    labelled them: the rows of `ragbench.statistics.judge_agreement`.

    The sheets hold questions, references, answers and contexts, so nothing else is needed. Each
    labelled answer takes one request. If `criterion` is another wording of a criterion, such as "strict"
    with `wording_of="correctness"`, labels by correctness count, too.

    Args:
        concurrency, timeout_s: as in `generate_many`.

    Raises:
        DataError: the sheets have no label by this criterion.
    """
    [loaded] = load_criteria(criterion)
    labels = _labels_by_criterion(sheets, loaded)  # all have the criterion `loaded.name` now
    items = labels.drop_duplicates("item")  # one row of each answer, which several people may label
    materials = _materials_of_rows(items)
    values = verdicts(
        materials, loaded, llms.load_llm(llm), concurrency=concurrency, timeout_s=timeout_s
    )
    # `judge_agreement` matches judgements with labels by configuration. A sheet does not name
    # configurations, so the id of each labelled answer takes the place of a configuration's name.
    judgements = {}
    for item, material, samples in zip(items["item"], materials, values, strict=True):
        [value] = samples  # None if the request failed, or the reply could not be read
        state = "judge_failed" if value is None else "scored"
        judgement = Judgement(material.query_id, loaded.name, value, state=state, samples=(value,))
        judgements[str(item)] = [judgement]
    columns = ["query_id", "criterion", "value", "annotator", "picked"]
    human = labels[columns].assign(configuration=labels["item"])
    return judge_agreement(judgements, human)


class LabelledAnswers(NamedTuple):
    """Labelled answers as a judge sees them, and the mean of people's labels of each."""

    materials: list[Material]
    mean_labels: list[float]


def labelled_materials(
    sheets: str | Path | Sequence[str | Path], criterion: Criterion
) -> LabelledAnswers:
    """Return the answers that sheets have labels of by a criterion.

    Raises:
        DataError: the sheets have no label by this criterion.
    """
    labels = _labels_by_criterion(sheets, criterion)
    items = labels.drop_duplicates("item")  # one row of each answer
    means = labels.groupby("item")["value"].mean()  # over the people who labelled it
    return LabelledAnswers(
        _materials_of_rows(items), [float(means[item]) for item in items["item"]]
    )


def _labels_by_criterion(
    sheets: str | Path | Sequence[str | Path], criterion: Criterion
) -> pd.DataFrame:
    """Return the rows of sheets that have a label by a criterion.

    If the criterion is another wording of an original one, labels by the original count, too. In the
    returned rows the column `criterion` has the name of the given criterion.

    Raises:
        DataError: there is no such row.
    """
    paths = [sheets] if isinstance(sheets, str | Path) else sheets
    labels = pd.concat([read_sheet(path) for path in paths]).dropna(subset="value")
    labels = labels[labels["criterion"].isin([criterion.name, criterion.meant])]
    if labels.empty:
        raise DataError(
            f"{', '.join(Path(path).name for path in paths)}: no label is by {criterion.name}; label "
            "some answers, or name another criterion"
        )
    return labels.assign(criterion=criterion.name)


def _materials_of_rows(rows: pd.DataFrame) -> list[Material]:
    """Return the material that a judge sees for each row of a sheet; its documents are named 1, 2, ..."""
    materials = []
    for row in rows.to_dict("records"):
        documents = tuple(contexts_of(str(row.get("context", ""))))
        material = Material(
            str(row["query_id"]),
            str(row.get("question", "")),
            str(row.get("answer", "")),
            reference=str(row.get("reference", "")) or None,
            documents=documents,
            chunk_ids=tuple(str(number) for number in range(1, len(documents) + 1)),
        )
        materials.append(material)
    return materials
