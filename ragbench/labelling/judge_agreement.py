"""How far a judge agrees with the labels in sheets, by asking it about the labelled answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
    """Have a judge judge the labelled answers of sheets, and compare it with the people who labelled
    them: the rows of `ragbench.statistics.judge_agreement`.

    The sheets hold questions, references, answers and contexts, so nothing else is needed; one
    request for each labelled answer. Labels by the criterion of which this is a wording count, too.

    Args:
        concurrency, timeout_s: as in `generate_many`.

    Raises:
        DataError: the sheets have no label by this criterion.
    """
    [loaded] = load_criteria(criterion)
    labels, items, materials = _labelled(sheets, loaded)
    options: dict[str, Any] = {"concurrency": concurrency, "timeout_s": timeout_s}
    judged = verdicts(materials, loaded, llms.load_llm(llm), **options)
    judgements = {}
    for item, material, [value] in zip(items["item"], materials, judged, strict=True):
        state = "judge_failed" if value is None else "scored"
        judgements[str(item)] = [
            Judgement(material.query_id, loaded.name, value, state=state, samples=(value,))
        ]
    columns = ["query_id", "criterion", "value", "annotator", "picked"]
    human = labels[columns].assign(configuration=labels["item"])
    return judge_agreement(judgements, human)


def labelled_materials(
    sheets: str | Path | Sequence[str | Path], criterion: Criterion
) -> tuple[list[Material], list[float]]:
    """Return the labelled answers of sheets, and the mean of people's labels of each."""
    labels, items, materials = _labelled(sheets, criterion)
    means = labels.groupby("item")["value"].mean()
    return materials, [float(means[item]) for item in items["item"]]


def _labelled(
    sheets: str | Path | Sequence[str | Path], criterion: Criterion
) -> tuple[pd.DataFrame, pd.DataFrame, list[Material]]:
    """Return the labels by a criterion (a row per label), the labelled answers (a row per answer, the
    first of its labels), and what the judge sees of each answer.

    Raises:
        DataError: the sheets have no label by this criterion.
    """
    paths = [sheets] if isinstance(sheets, str | Path) else sheets
    labels = pd.concat([read_sheet(path) for path in paths]).dropna(subset="value")
    labels = labels[labels["criterion"].isin([criterion.name, criterion.meant])]
    if labels.empty:
        raise DataError(
            f"{', '.join(Path(path).name for path in paths)}: no label is by {criterion.name}; label "
            "some answers, or name another criterion"
        )
    labels = labels.assign(criterion=criterion.name)
    items = labels.drop_duplicates("item")
    materials = []
    for row in items.to_dict("records"):
        documents = tuple(contexts_of(str(row.get("context", ""))))
        names = tuple(str(number) for number, _ in enumerate(documents, 1))
        reference = str(row.get("reference", "")) or None
        materials.append(
            Material(
                str(row["query_id"]),
                str(row.get("question", "")),
                str(row.get("answer", "")),
                reference=reference,
                documents=documents,
                chunk_ids=names,
            )
        )
    return labels, items, materials
