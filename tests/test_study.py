"""The studies in results/: their notebooks give the committed numbers from the committed scores, and
the README quotes them.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import papermill
import pytest
from scipy.stats import t as student
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.evaluation.checksums import accept_changes
from ragbench.studies import best_of_many, error_rates, techniques
from ragbench.studies.score_matrices import load_score_matrices
from tests.committed import committed_files

ROOT = Path(__file__).parents[1]
STUDY = ROOT / "results" / "chunking"
PUBLISHED = ROOT.parent / "shared" / "data" / "chunking" / "published_results.csv"


def scores_of(collection: str, *, joined: bool = False) -> pd.DataFrame:
    for config in STUDY.glob("*/config.json"):
        run = json.loads(config.read_text(encoding="utf-8"))["parameters"]
        if Path(run["collection"]).name == collection and run["join_titles"] == joined:
            return pd.read_parquet(config.parent / "chunkings.parquet")
    raise AssertionError(collection)


def test_verify_recomputes_the_claims_from_the_scores_where_no_collection_is_there(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "results" / "chunking"
    shutil.copytree(STUDY, folder)
    for config in folder.glob(
        "pydoc-*/config.json"
    ):  # minutes; one of its scores is computed below
        text = config.read_text(encoding="utf-8")
        config.write_text(text.replace('"pydoc"', '"../data/pydoc"'), encoding="utf-8")
        accept_changes(config.parent)
    done = CliRunner().invoke(app, ["verify", str(folder), "--jobs", "1"])
    assert done.exit_code == 0, done.output
    assert "1 verified, 0 differ, 5 not computed again." in done.output
    assert "../data/clapnq is not here" in done.output
    path = folder / "claims.csv"
    path.write_text(path.read_text(encoding="utf-8").replace(",472,", ",473,", 1), encoding="utf-8")
    done = CliRunner().invoke(app, ["verify", str(folder), "--jobs", "1"])
    assert done.exit_code == 1
    assert "comparison: claims.csv, 0, questions: stored 473, now 472" in done.output


def test_the_claims_follow_from_the_scores(tmp_path: Path) -> None:
    shutil.copytree(STUDY, tmp_path / "study")
    names = ("claims.csv", "retrievers.csv", "variance.csv", "published.csv")
    for name in names:
        (tmp_path / "study" / name).unlink()
    papermill.execute_notebook(
        ROOT / "notebooks" / "chunking_claims.ipynb",
        tmp_path / "out.ipynb",
        {"sweep_dir": str(tmp_path / "study")},
        progress_bar=False,
    )
    for name in names:
        again, kept = (pd.read_csv(folder / name) for folder in (tmp_path / "study", STUDY))
        pd.testing.assert_frame_equal(again, kept, atol=1.1e-6, rtol=0)


def claims_of(collection: str, measure: str = "span_recall@5") -> dict[str, Any]:
    with (STUDY / "claims.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["collection"] == collection]
    (row,) = [row for row in rows if row["measure"] == measure]
    return {
        key: value if key in ("collection", "measure") else float(value)
        for key, value in row.items()
    }


def test_the_readme_quotes_the_claims_of_all_collections() -> None:
    names = ("chunking", "squad-articles", "pydoc", "squad", "clapnq")
    fractions = [claims_of(name)["reversed 500"] for name in names]
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    for fraction in fractions:
        assert f"{100 * fraction:.0f} % on" in text


def test_the_claims_of_one_retriever_by_hand() -> None:
    """Holm over all pairs of minilm's ten chunkings by a plain loop."""
    table = scores_of("chunking").query("retriever == 'dense:minilm'")
    signs = {}
    for measure in ("span_recall@5", "span_recall@500tok"):
        wide = table.pivot(
            index="query_id", columns=["chunker", "size", "overlap"], values=measure
        ).astype(float)
        assert wide.shape == (472, 10)
        ratios = []
        for first in range(10):
            for second in range(first + 1, 10):
                gap = wide.iloc[:, first] - wide.iloc[:, second]
                error = gap.std() / np.sqrt(len(gap))
                ratios.append(gap.mean() / error if error else 0.0)
        p_values = rb.statistics.adjusted_p_values(2 * student.sf(np.abs(ratios), 471))
        signs[measure] = np.sign(ratios) * (np.asarray(p_values) < 0.05)
    claims = signs["span_recall@5"]
    kept = pd.read_csv(STUDY / "retrievers.csv").set_index(["collection", "retriever"])
    row = kept.loc[[("chunking", "dense:minilm")]]
    assert row["claims at k = 5"].item() == (claims != 0).sum()
    turned = (claims * signs["span_recall@500tok"] == -1).sum()
    assert row["reversed 500"].item() == pytest.approx(turned / (claims != 0).sum(), abs=1e-6)


def test_articles_are_five_paragraphs_with_their_spans() -> None:
    articles, paragraphs = scores_of("squad", joined=True), scores_of("squad")
    assert set(articles["query_id"]) == set(paragraphs["query_id"])
    assert articles["document"].nunique() == 48
    assert paragraphs["document"].nunique() > 100
    # spans that had not moved with their paragraphs would be in no chunk that is searched for
    configurations = articles.groupby(["retriever", "chunker", "size", "overlap"])
    assert configurations["span_recall@2000tok"].mean().max() > 0.9
    assert claims_of("squad-articles")["documents"] == 48


def test_the_published_rows_are_those_of_the_report_and_ours_follow_from_the_scores() -> None:
    table = pd.read_csv(STUDY / "published.csv")
    theirs = table[table["source"] == "published"]
    assert len(theirs) == 13
    if PUBLISHED.is_file():
        with PUBLISHED.open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        ours = ["recall", "precision", "omega", "iou"]
        names = ["recall", "precision", "precision_omega", "iou"]
        numbers = [
            [float(row[f"{name}_{part}"]) for name in names for part in ("mean", "std")]
            for row in rows
        ]
        columns = [f"{name}{part}" for name in ours for part in ("", "_std")]
        assert sorted(numbers) == sorted(theirs[columns].to_numpy().tolist())
    chunks = scores_of("chunking").query(
        "retriever == 'bm25' and chunker == 'fixed' and size == 400 and overlap == 200"
    )
    row = table.query("source == 'bm25' and chunker == 'fixed' and size == 400 and overlap == 200")
    assert row["iou"].item() == pytest.approx(100 * chunks["span_iou@5"].mean(), abs=1e-4)
    assert row["iou_std"].item() == pytest.approx(100 * chunks["span_iou@5"].std(), abs=1e-4)
    # of the chunking alone, so that only the tokenizer differs from the report's 8.4
    assert row["omega"].item() == pytest.approx(8.4, abs=1.5)


def test_a_score_of_the_study_is_computed_again() -> None:
    """One configuration of the built-in collection; the others take the same way."""
    data = rb.load_dataset("pydoc")
    data = data.select([case.query_id for case in data.cases if case.evidence])
    chunks = rb.chunk(data, "fixed", chunk_size=512)
    run = rb.retrieve(rb.make_retriever("bm25", chunks), data.queries, chunks)
    scores = rb.metrics.score_spans(data, run, chunks)
    again = scores[scores["measure"] == "span_recall@5"].set_index("query_id")["value"]
    rows = scores_of("pydoc").query(
        "retriever == 'bm25' and chunker == 'fixed' and size == 512 and overlap == 0"
    )
    kept = rows.set_index("query_id")["span_recall@5"]
    assert (again.sort_index() - kept.sort_index()).abs().max() < 0.000051


@pytest.mark.simulation  # `.ci/schedule verify` recomputes them too
def test_verify_recomputes_the_judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "notebooks")  # where the verdicts are
    shutil.copytree(ROOT / "results" / "judges", tmp_path / "judges")
    (table,) = (tmp_path / "judges").glob("model-*/curves.csv")
    curves = pd.read_csv(table)
    assert curves["holds"].between(0.925, 0.97).all()
    changed = table.read_text(encoding="utf-8").replace("20,corrected", "21,corrected")
    table.write_text(changed, encoding="utf-8")
    done = CliRunner().invoke(app, ["verify", str(tmp_path / "judges")])
    assert "curves.csv, 1, labels: stored 21, now 20" in done.output
    assert "curves.csv is damaged (changed after it was written" in done.output
    assert done.exit_code == 1
    assert re.search(r"2 results, [\d,]+ numbers compared: 1 verified, 1 differ", done.output)


def test_verdicts_of_ones_own_are_read(tmp_path: Path) -> None:
    rows = [(q, s, float(q % 3 > s), float(q % 2 > s)) for q in range(200) for s in (0, 1)]
    table = pd.DataFrame(rows, columns=["question", "system", "judge", "person"])
    table.to_csv(tmp_path / "v.csv", index=False)
    parameters = {"results_dir": str(tmp_path), "verdicts": str(tmp_path / "v.csv"), "draws": 50}
    papermill.execute_notebook(
        ROOT / "notebooks" / "judges.ipynb", tmp_path / "o.ipynb", parameters, progress_bar=False
    )
    assert len(pd.read_csv(tmp_path / "curves.csv")) == 8


def table_of(study: str, name: str, **parameters: Any) -> pd.DataFrame:
    """Return a table of a study, of the run with these parameters."""
    for config in (ROOT / "results" / study).glob("*/config.json"):
        run = json.loads(config.read_text(encoding="utf-8"))["parameters"]
        if all(run[key] == value for key, value in parameters.items()):
            path = config.parent / name
            return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    raise AssertionError(study)


def page_of(study: str) -> str:
    return (ROOT / "notebooks" / "guide" / f"{study}.md").read_text(encoding="utf-8")


def test_the_page_on_the_best_of_many_has_the_numbers_of_its_study() -> None:
    promises = table_of("study_best", "promises.csv", scores="../results/chunking")
    columns = ["promised", "shrunken", "real"]
    means = promises.groupby(["questions", "arms"])[columns].mean().reset_index()
    for row in means.to_dict("records"):
        numbers = " | ".join(f"{row[column]:+.3f}" for column in columns)
        assert f"| {row['questions']} | {row['arms']} | {numbers} |" in page_of("study_best")


def test_the_page_on_techniques_has_the_numbers_of_its_study() -> None:
    comparison = pd.read_csv(ROOT / "results" / "study_techniques" / "comparison.csv")
    page = page_of("study_techniques")
    marks = {"worse": " **worse**", "within the margin": " =", "undecided": ""}
    for arm, rows in comparison.groupby("arm"):
        cells = [
            f"{row['difference']:+.3f} [{row['ci_low']:+.2f}, {row['ci_high']:+.2f}]"
            f"{marks[row['decision']]}"
            for _, row in rows.sort_values("collection").iterrows()
        ]
        assert f"| {arm} | {' | '.join(cells)} |" in page
    counts = comparison["decision"].value_counts().to_dict()
    assert counts == {"undecided": 73, "within the margin": 24, "worse": 23}
    is_expanded = comparison["arm"].str.startswith("expand")
    assert (is_expanded & (comparison["decision"] == "worse")).sum() == 14
    taus = pd.read_csv(ROOT / "results" / "study_techniques" / "transfer.csv")
    for row in taus.query("chosen_on < used_on").to_dict("records"):
        tau = f"{row['tau']:+.2f} [{row['tau_low']:+.2f}, {row['tau_high']:+.2f}]"
        assert f"| {row['chosen_on']}, {row['used_on']} | {tau} |" in page


def test_ten_expansions_are_better_in_five_passages() -> None:
    arms = techniques.load_arms(ROOT / "results" / "study_techniques")
    few = {name: arms[name] for name in ("chunking", "pydoc")}
    in_five = techniques.compare_arms(few, "span_recall@5")
    better = in_five[in_five["decision"] == "better"]
    expanded = better[better["arm"].str.startswith("expand")]
    assert len(expanded) == 10
    comparison = pd.read_csv(ROOT / "results" / "study_techniques" / "comparison.csv")
    at_500 = expanded[["collection", "arm"]].merge(comparison)
    assert (at_500["decision"] == "worse").sum() == 9


def test_differences_of_the_techniques_by_hand() -> None:
    """The mean difference of two arms from the plain search, on each collection."""
    arms = techniques.load_arms(ROOT / "results" / "study_techniques")
    kept = pd.read_csv(ROOT / "results" / "study_techniques" / "comparison.csv")
    differences = kept.set_index(["collection", "arm"])["difference"].to_dict()
    for collection, table in arms.items():
        scores = table.assign(value=table["span_recall@500tok"].astype(float))
        wide = scores.pivot(index="query_id", columns="arm", values="value")
        for arm in ("fusion weights:0.7", "expand window:2"):
            gain = float(np.mean(wide[arm].to_numpy() - wide["plain hybrid"].to_numpy()))
            assert differences[collection, arm] == pytest.approx(gain, abs=1e-6)


def test_the_page_on_drafts_has_the_numbers_of_its_study() -> None:
    table = pd.read_csv(ROOT / "results" / "study_drafts" / "agreement.csv")
    for row in table.to_dict("records"):
        tau = f"{row['tau']:+.2f} [{row['tau_low']:+.2f}, {row['tau_high']:+.2f}]"
        gain = row["regret_of_any"] - row["regret"]
        cells = f"| {row['kind']} | {tau} | {row['regret']:.3f} | {row['regret_of_any']:.3f} |"
        gains = f" {gain:+.3f} [{row['gain_low']:+.3f}, {row['gain_high']:+.3f}] |"
        assert f"| {row['collection']} {cells}{gains}" in page_of("study_drafts")


def test_the_agreement_of_drafts_by_hand() -> None:
    """Kendall's tau-b and the regret of one collection, by plain loops over pairs."""
    scores = table_of("study_drafts", "scores.parquet", collection="pydoc")
    means = scores.assign(value=scores["value"].astype(float)).pivot_table(
        index=["retriever", "chunker", "size"], columns="questions", values="value"
    )
    people = means["people"].tolist()
    drafts = means["sentence"].tolist()
    agreeing = n_people = n_drafts = 0
    for i in range(len(people)):
        for j in range(i):
            signs = np.sign(people[i] - people[j]), np.sign(drafts[i] - drafts[j])
            agreeing += signs[0] * signs[1]
            n_people += signs[0] != 0
            n_drafts += signs[1] != 0
    kept = pd.read_csv(ROOT / "results" / "study_drafts" / "agreement.csv")
    row = kept.query("collection == 'pydoc' and kind == 'sentence'")
    assert len(people) == 36
    assert row["tau"].item() == pytest.approx(agreeing / np.sqrt(n_people * n_drafts), abs=1e-6)
    chosen = [p for p, d in zip(people, drafts, strict=True) if d == max(drafts)]
    assert row["regret"].item() == pytest.approx(max(people) - np.mean(chosen), abs=1e-6)


def test_the_page_on_tests_has_the_numbers_of_its_study() -> None:
    rates = table_of("study_tests", "rates.csv")
    for test in error_rates.TESTS:
        chosen = rates[(rates["n"] == 50) & (rates["test"] == test)]
        called = dict(zip(chosen["scenario"], chosen["called"], strict=True))
        right = dict(zip(chosen["scenario"], chosen["right"], strict=True))
        wrong = dict(zip(chosen["scenario"], chosen["wrong"], strict=True))
        numbers = [called[name] for name in NO_DIFFERENCE]
        numbers += [right["real scores, difference"], wrong["hidden loss"]]
        assert f"| {test} | {' | '.join(f'{value:.0%}' for value in numbers)} |" in page_of(
            "study_tests"
        )


NO_DIFFERENCE = (
    "symmetric",
    "rare losses",
    "rarer, larger losses",
    "reciprocal ranks",
    "right or wrong",
    "real scores, no difference",
)


def test_promises_of_the_study_are_those_of_the_present_scores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(best_of_many, "ARMS", (3,))
    monkeypatch.setattr(best_of_many, "QUESTIONS", (20,))
    choices = best_of_many.choose_the_best(load_score_matrices(STUDY), draws=60)
    kept = table_of("study_best", "promises.csv", scores="../results/chunking")
    kept = kept.query("arms == 3 and questions == 20").set_index("collection")
    columns = ["promised", "shrunken", "real"]
    means = choices.groupby("collection")[columns].mean()
    assert len(means) == 5
    pd.testing.assert_frame_equal(kept.loc[means.index, columns], means, atol=1e-5)


def test_other_tools_were_called_on_the_present_scores() -> None:
    drawn = list(error_rates.experiments(load_score_matrices(STUDY), 20))
    kept = pd.read_parquet(ROOT / "notebooks" / "other_tests.parquet").query("n == 20")
    means = [np.mean(experiment.after - experiment.before) for experiment in drawn]
    np.testing.assert_allclose(kept["difference"], means)


def test_the_level_of_students_t_in_the_study_by_hand() -> None:
    """The one-sample t test of 200 experiments with rare losses, by its formula."""
    number = list(error_rates.GENERATORS).index("rare losses")
    rng = np.random.default_rng([0, 20, number])
    n_called = 0
    for _ in range(error_rates.N_GENERATED):
        gains = error_rates.draw_differences("rare losses", 20, rng)
        error = gains.std(ddof=1) / np.sqrt(20)
        if error < 1e-12:  # no loss was drawn and all gain the same: t is infinite
            n_called += 1
            continue
        n_called += 2 * student.sf(abs(gains.mean()) / error, 19) < 0.05
    kept = table_of("study_tests", "rates.csv")
    row = kept.query("scenario == 'rare losses' and n == 20 and test == \"Student's t\"")
    assert row["called"].item() == pytest.approx(n_called / error_rates.N_GENERATED)


def test_the_folder_of_results_stays_small() -> None:
    assert sum(path.stat().st_size for path in committed_files("results")) < 12e6
