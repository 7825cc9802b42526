"""Published verdicts: how they are read, and what labels save on those of GPT-4."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ragbench.errors import DataError
from ragbench.statistics import draw_order, estimate_difference, load_verdicts

OPENQA = Path(__file__).parents[2] / "notebooks" / "openqa.csv"


def test_the_verdicts_of_the_study_are_complete() -> None:
    table = load_verdicts(OPENQA)
    assert [*table] == ["question", "system", "person", "gpt4", "exact_match", "contains"]
    assert len(table) == 2_372
    assert (table["system"].nunique(), table["question"].nunique()) == (8, 301)
    assert table["gpt4"].isna().sum() == 7
    assert table.drop(columns="gpt4").notna().all(axis=None)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("question,system,person,judge\n1,a,1,0.5\n1,b,0,\n", ["judge"]),
        ("query_id,question,system,human,m,n,note\n01,Who?,a,1,0,1,x\n", ["m", "n"]),
    ],
)
def test_verdicts_are_read_by_the_names_of_their_columns(
    tmp_path: Path, text: str, columns: list[str]
) -> None:
    (tmp_path / "mine.csv").write_text(text)
    table = load_verdicts(tmp_path / "mine.csv")
    assert [*table] == ["question", "system", "person", *columns]
    assert table["question"].iloc[0] == text.split("\n")[1].split(",")[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("question,person,judge\n1,1,1\n", "no column 'system'"),
        ("question,system,person\n1,a,1\n", "no column with a judge's verdicts"),
        ("question,system,person,judge\n1,a,1,1\n2,a,1,5\n", "'judge': 5.0} in line 3"),
        ("question,system,person,judge\n1,a,1,1\n1,a,1,0\n", "two verdicts on question '1' of 'a'"),
        ("", "cannot be read"),
    ],
)
def test_verdicts_that_cannot_be_used_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        load_verdicts(tmp_path / "mine.csv")


@pytest.mark.simulation
def test_labels_that_the_verdicts_of_gpt4_save() -> None:
    table = load_verdicts(OPENQA)
    wide = table.pivot(index="question", columns="system", values=["person", "gpt4"])
    rng = np.random.default_rng(0)
    labels: dict[str, list[int]] = {"alone": [], "gpt4": []}
    held, wrong = [], []
    for (a, b), order in itertools.product(itertools.combinations(wide["person"], 2), range(4)):
        pair = pd.DataFrame(
            {name: wide[name][b] - wide[name][a] for name in ("person", "gpt4")}
        ).dropna()
        people, difference = pair["person"], float(pair["person"].mean())
        for name in labels:
            proxies = pair[["gpt4"] if name == "gpt4" else []]
            drawn = (
                draw_order(proxies, seed=order) if name == "gpt4" else rng.permutation(pair.index)
            )
            state = estimate_difference(proxies, people.loc[[*drawn][:-1]])
            n = state.decided_after or len(pair)
            labels[name].append(n)
            if name == "gpt4":
                state = estimate_difference(proxies, people.loc[[*drawn][:n]])
                assert state.ci_low is not None
                assert state.ci_high is not None
                held.append(state.ci_low - 1e-9 <= difference <= state.ci_high + 1e-9)
                wrong.append(state.decision == ("worse" if difference > 0 else "better"))
    assert np.mean(held) >= 0.95
    assert np.mean(wrong) <= 0.05
    assert np.mean(labels["gpt4"]) <= 0.85 * np.mean(labels["alone"])
