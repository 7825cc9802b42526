"""Judgements and human labels joined, from any of their forms."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ragbench.errors import DataError, DataWarning
from ragbench.types import Judgement

if TYPE_CHECKING:
    import pandas as pd

    Judgements = Sequence[Judgement] | Mapping[str, Sequence[Judgement]]
    Human = pd.DataFrame | Sequence[Judgement] | Mapping[tuple[str, str], float | None]

KEYS = ["configuration", "query_id", "criterion"]

# States of judgements that were requested; others (an abstention, a failed answer) are not compared with labels.
_ASKED = {"scored", "judge_failed", "unreadable", "no_claims"}


def judged_frame(judgements: Judgements) -> pd.DataFrame:
    """Columns configuration ("" where there is one only), query_id, criterion, judge (Float64, missing = unscored).

    Judgements without a request are left out.
    """
    import pandas as pd

    by_name = judgements if isinstance(judgements, Mapping) else {"": judgements}
    rows = [
        (str(name), j.query_id, j.criterion, j.value)
        for name, group in by_name.items()
        for j in group
        if j.value is not None or j.state in _ASKED
    ]
    frame = pd.DataFrame(rows, columns=[*KEYS, "judge"])
    if frame.empty:
        raise DataError("no answer was judged; expected judgements as `judge` returns them")
    frame["judge"] = pd.to_numeric(frame["judge"]).astype("Float64")
    _check_range(frame, "judge", "a judgement")
    _check_unique(frame, KEYS, "judgements; pass those of several systems as {name: judgements}")
    return frame


def human_frame(human: Human) -> pd.DataFrame:
    """Columns configuration, query_id, criterion, annotator, category, picked, human (float); without blank labels."""
    import pandas as pd

    if isinstance(human, pd.DataFrame):
        wanted = ["query_id", "criterion", "value"]
        if lacking := [name for name in wanted if name not in human.columns]:
            raise DataError(
                f"human labels: no column {', '.join(lacking)}; expected {wanted}, found {[*human.columns]}"
            )
        frame = human.rename(columns={"value": "human"})
    else:
        rows: list[tuple[object, ...]] = (
            [(*key, value) for key, value in human.items()]
            if isinstance(human, Mapping)
            else [(one.query_id, one.criterion, one.value) for one in human]
        )
        frame = pd.DataFrame(rows, columns=["query_id", "criterion", "human"])
    for name in ("configuration", "annotator", "category", "picked"):
        texts = frame[name].astype(object) if name in frame else pd.Series("", index=frame.index, dtype=object)
        frame = frame.assign(**{name: texts.where(texts.notna(), "").astype(str)})
    try:
        frame["human"] = pd.to_numeric(frame["human"]).astype("Float64")
    except (TypeError, ValueError) as exc:
        raise DataError(f"human labels: {exc}; expected numbers from 0 to 1, or nothing where unlabelled") from exc
    frame = frame[frame["human"].notna()]
    frame = frame[[*KEYS, "annotator", "category", "picked", "human"]].reset_index(drop=True)
    if frame.empty:
        raise DataError("there is no human label with a value; label some answers first, as in notebooks/label.ipynb")
    _check_range(frame, "human", "a human label")
    _check_unique(frame, [*KEYS, "annotator"], "labels by one person; keep one of them")
    frame["human"] = frame["human"].astype(float)
    return frame


def side_by_side(
    judgements: Judgements, human: Human, *, others: Collection[str] = ()
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All judgements, and each human label with the judge's value in `judge`.

    Labels without a requested judgement are left out, with a warning that counts them; those of the configurations
    `others` without one.
    """
    judged, labels = judged_frame(judgements), human_frame(human)
    labels = labels[~labels["configuration"].isin(list(others))]
    if labels.empty:
        raise DataError(f"there is no human label of {', '.join(map(repr, judged['configuration'].unique()))}")
    judged, labels = _same_configurations(judged, labels)
    known = judged.set_index(KEYS)["judge"]
    places = known.index.get_indexer(labels.set_index(KEYS).index)
    if (places < 0).all():
        first = labels.iloc[0]
        raise DataError(
            f"none of the {len(labels)} human labels is of an answer that was judged; the first is of query "
            f"{first['query_id']!r} by {first['criterion']!r}"
            + (f" of configuration {first['configuration']!r}" if first["configuration"] else "")
            + "; pass the judgements of the answers that were labelled"
        )
    if (places < 0).any():
        first = labels[places < 0].iloc[0]
        warnings.warn(
            f"{(places < 0).sum()} of {len(labels)} human labels are of answers that were not judged, first "
            f"query {first['query_id']!r} by {first['criterion']!r}; they are left out",
            DataWarning,
            stacklevel=3,
        )
    labels = labels[places >= 0].reset_index(drop=True)
    return judged, labels.assign(judge=known.to_numpy(dtype=object)[places[places >= 0]]).astype({"judge": "Float64"})


def _same_configurations(judged: pd.DataFrame, labels: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """With one system, either side may lack its name."""
    ours, theirs = list(judged["configuration"].unique()), list(labels["configuration"].unique())
    if len(ours) == 1 and len(theirs) == 1 and "" in (*ours, *theirs):
        name = ours[0] or theirs[0]
        return judged.assign(configuration=name), labels.assign(configuration=name)
    if "" in ours:
        raise DataError(
            f"the human labels are of {len(theirs)} configurations ({', '.join(map(repr, theirs[:3]))}); pass the "
            "judgements as {configuration: judgements}"
        )
    if "" in theirs:
        raise DataError(
            f"the judgements are of {len(ours)} configurations, and {(labels['configuration'] == '').sum()} human "
            "labels do not name theirs; expected the column `configuration`"
        )
    return judged, labels


def _check_range(frame: pd.DataFrame, column: str, what: str) -> None:
    wrong = frame[~frame[column].isna() & ~frame[column].between(0, 1).fillna(True)]
    if len(wrong):
        row = wrong.iloc[0]
        raise DataError(
            f"{what} of query {row['query_id']!r} by {row['criterion']!r} is {row[column]}; expected a value in [0, 1]"
        )


def _check_unique(frame: pd.DataFrame, keys: list[str], what: str) -> None:
    twice = frame[frame.duplicated(keys)]
    if len(twice):
        row = twice.iloc[0]
        raise DataError(f"query {row['query_id']!r} by {row['criterion']!r} has several {what}")
