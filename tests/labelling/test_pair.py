"""Which two results people label, and the lines above the sheet."""

from __future__ import annotations

import pandas as pd
import pytest

import ragbench as rb
from ragbench.errors import ConfigError
from ragbench.labelling import label_findings, pair_to_label

GOLD = {f"q{number}": {"gold": 1} for number in range(4)}


def result(name: str, n_found: int) -> rb.Result:
    """A result that finds the gold document of the first `n_found` questions."""
    data = rb.Dataset(
        "pets",
        "test",
        {"gold": rb.Document("gold", "Cats sleep."), "other": rb.Document("other", "Dogs bark.")},
        [rb.Case(query_id, f"Question {query_id}?") for query_id in GOLD],
        GOLD,
    )
    run = {q: {"gold" if i < n_found else "other": 1.0} for i, q in enumerate(GOLD)}
    return rb.evaluation.new_result(
        parameters={"retriever": name},
        dataset=data,
        run=run,
        scores=rb.score_run(GOLD, run, ["RR@10"]),
        name=name,
    )


RESULTS = rb.Results([result("poor", 1), result("good", 3), result("best", 4)], baseline="poor")


def names(results: list[rb.Result]) -> list[str]:
    return [each.name for each in results]


def test_without_a_choice_the_baseline_and_the_best_other_one_are_labelled() -> None:
    assert names(pair_to_label(RESULTS, "RR@10")) == ["poor", "best"]
    leading = rb.Results([*RESULTS], baseline="best")
    assert names(pair_to_label(leading, "RR@10")) == ["best", "good"]
    alone = rb.Results([RESULTS[0]], baseline="poor")
    assert names(pair_to_label(alone, "RR@10")) == ["poor"]


def test_parts_of_names_choose_and_a_whole_name_comes_before_a_part() -> None:
    assert names(pair_to_label(RESULTS, "RR@10", "goo, poor")) == ["good", "poor"]
    longer = rb.Results([result("good-2", 1), result("good", 2)], baseline="good")
    assert names(pair_to_label(longer, "RR@10", "good")) == ["good"]


def test_an_unknown_name_and_a_missing_measure_are_explained() -> None:
    with pytest.raises(ConfigError, match="no name contains 'bad'; the names are poor, good, best"):
        pair_to_label(RESULTS, "RR@10", "bad")
    with pytest.raises(ConfigError, match=r"llm_tone, so the best .* name two configurations"):
        pair_to_label(RESULTS, "tone")
    assert names(pair_to_label(RESULTS, "tone", "poor,best")) == ["poor", "best"]


def test_the_findings_count_what_each_person_has_labelled() -> None:
    pair = [RESULTS[0], RESULTS[2]]
    decision = rb.trust(pair, None, criterion="RR@10")
    sheet = pd.DataFrame(
        {"annotator": ["eve", "eve", "eve", "bob"], "value": [1.0, None, 0.0, None]}
    )
    text = label_findings(pair, decision, sheet, "correctness")
    assert "- **best against poor:** " + decision.sentence in text
    assert "- **eve** has labelled **2 of 3** answers by correctness." in text
    assert "- **bob** has labelled **0 of 1** answers by correctness." in text
    assert "of one person" not in text
    assert "of one person" in label_findings(pair, decision, sheet[:3], "correctness")
