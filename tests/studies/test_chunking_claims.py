"""Claims between chunkings: tests clustered by document, what an equal budget does to a claim, tables."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ragbench import studies
from ragbench.studies.chunking_pairs import Samples, _clustered_means, draw_samples

CHUNKINGS = (("fixed", 64, 0), ("fixed", 1024, 0))


def scores(at_k: tuple[float, float], at_budget: tuple[float, float]) -> pd.DataFrame:
    """Two chunkings on 40 questions in 40 documents; means as given, with a little noise."""
    noise = np.random.default_rng(0).normal(0, 0.02, (40, 2))
    rows = []
    for column, (chunker, size, overlap) in enumerate(CHUNKINGS):
        for number in range(40):
            row: dict[str, object] = {"query_id": f"q{number:02}", "document": f"d{number:02}"}
            row |= {"retriever": "bm25"}
            row |= {"chunker": chunker, "size": size, "overlap": overlap}
            for measure in ("span_recall@5", "span_iou@5"):
                row[measure] = at_k[column] + noise[number, column]
            for tokens in (500, 1000, 2000):
                row[f"span_recall@{tokens}tok"] = at_budget[column] + noise[number, column]
            rows.append(row)
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("at_budget", "outcome"),
    [((0.7, 0.4), "reversed"), ((0.4, 0.7), "holds"), ((0.5, 0.5), "neither")],
)
def test_a_claim_is_reversed_holds_or_neither(at_budget: tuple[float, float], outcome: str) -> None:
    tables = {"one": scores((0.4, 0.8), at_budget)}
    tests = studies.compare_chunkings(tables, alpha=0.05, draws=50)
    counts = studies.count_claims(tests)
    row = studies.claim_fractions(counts, tables, draws=50).iloc[0]
    assert (row["documents"], row["questions"], row["claims"]) == (40, 40, 1)
    assert row["reversed 500"] == (1.0 if outcome == "reversed" else 0.0)
    assert row["holds 500"] == (1.0 if outcome == "holds" else 0.0)
    assert row["reversed 500 low"] <= row["reversed 500"] <= row["reversed 500 high"]
    [ranks] = studies.rank_chunkings(tests, counts).to_dict("records")
    assert ranks["winner at k = 5"] == "fixed 1024 0"
    if outcome == "reversed":
        assert (ranks["tau 500"], ranks["its rank 500"]) == (-1, 2)
        assert "0 to 0 %" not in studies.claims_title(
            studies.claim_fractions(counts, tables, draws=50)
        )


def test_the_error_of_a_mean_of_clusters_by_hand() -> None:
    # Three documents with 1, 2 and 3 questions: the mean is 4/6, the squares those of sum - mean * count.
    differences = np.array([[1.0], [1.0], [0.0], [1.0], [1.0], [0.0]])
    units = np.array([0, 1, 1, 2, 2, 2])
    means, errors = _clustered_means(differences, Samples(units, np.ones((1, 3))))
    mean = 4 / 6
    squares = (1 - mean * 1) ** 2 + (1 - mean * 2) ** 2 + (2 - mean * 3) ** 2
    assert means[0, 0] == pytest.approx(mean)
    assert errors[0, 0] == pytest.approx(np.sqrt(squares * 3 / 2) / 6)


def test_few_documents_make_questions_the_units_and_each_document_a_sample() -> None:
    table = pd.DataFrame({"query_id": ["a", "b", "c"], "document": ["x", "y", "y"]})
    samples = draw_samples(table, 5, np.random.default_rng(0))
    assert list(samples.units) == [0, 1, 2]
    assert samples.weights[:3].tolist() == [[1, 1, 1], [1, 0, 0], [0, 1, 1]]
    assert samples.weights.shape == (1 + 2 + 5, 3)
    counts = pd.DataFrame(
        {"collection": "two", "retriever": "bm25", "measure": "span_recall@5", "sample": range(3)}
    )
    for outcome in ("reversed", "holds"):
        for tokens in (500, 1000, 2000):
            counts[f"{outcome} {tokens}"] = [1, 0, 2]
    counts["claims"] = [4, 0, 4]
    by_document = studies.claims_by_document(counts, {"two": table})
    assert by_document["reversed 500"].to_dict() == {("two", "x"): 0, ("two", "y"): 0.5}
    assert by_document["questions"].to_list() == [1, 2]


def test_documents_joined_by_title_have_a_name_of_their_own(tmp_path: Path) -> None:
    for folder, is_joined, n_documents in (("a", True, 1), ("b", False, 2)):
        (tmp_path / folder).mkdir()
        parameters = {"collection": "../data/squad", "join_titles": is_joined}
        text = json.dumps({"parameters": parameters})
        (tmp_path / folder / "config.json").write_text(text, encoding="utf-8")
        documents = [f"d{number % n_documents}" for number in range(3)]
        table = pd.DataFrame({"query_id": ["q2", "q0", "q1"], "document": documents})
        table.to_parquet(tmp_path / folder / "chunkings.parquet")
    tables = studies.load_chunkings(tmp_path)
    assert list(tables) == ["squad-articles", "squad"]
    assert list(tables["squad"]["query_id"]) == ["q0", "q1", "q2"]


def test_size_explains_all_of_a_difference_that_only_sizes_make() -> None:
    tables = {"one": scores((0.4, 0.8), (0.5, 0.5))}
    tests = studies.compare_chunkings(tables, alpha=0.05, draws=5)
    row = studies.explained_variance(tests).set_index("measure").loc["span_recall@5"]
    assert row["size"] == pytest.approx(1)
    assert row["chunker"] == pytest.approx(0)


def test_published_numbers_stand_next_to_the_same_chunkings_of_ours() -> None:
    rows = []
    for query, value in (("q0", 1.0), ("q1", 0.0)):
        row = {
            "query_id": query,
            "retriever": "bm25",
            "chunker": "fixed",
            "size": 800,
            "overlap": 400,
        }
        for measure in ("recall@5", "precision@5", "iou@5", "precision_omega"):
            row[f"span_{measure}"] = value
        rows.append(row)
    numbers = studies.published_chunkings({"one": pd.DataFrame(rows)})
    assert len(numbers) == 13 + 1
    table = studies.published_table(numbers)
    assert table.loc["fixed 800/400", ("recall", "published")] == "87.9 ± 31.7"
    assert table.loc["fixed 800/400", ("recall", "bm25")] == "50.0 ± 70.7"
    assert table.loc["GPT-4o", ("recall", "bm25")] == ""
