"""The explorer's data and page: complete, honest about what is missing, and safe with any text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ragbench.cli import app
from ragbench.errors import ComparisonError, ConfigError, DataError, DataWarning
from ragbench.evaluation import Results, save
from ragbench.report.explorer import explore
from ragbench.testsets.forms import load_testset, save_testset
from ragbench.testsets.loader import load_dataset
from ragbench.types import Answer, Case, Dataset, Document, Passage
from tests.report.explorer.conftest import HOSTILE, TOWER, made


def embedded(page: str) -> dict[str, Any]:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    data: dict[str, Any] = json.loads(match[1])
    return data


def test_two_results_are_compared_as_the_library_compares_them(
    results: Results, dataset: Dataset
) -> None:
    explorer = explore(results, dataset=dataset)
    [row] = results.compare("a").to_dict("records")
    [measure] = explorer.data["measures"]
    assert measure["counts"] == [row["wins"], row["losses"], row["ties"]] == [1, 1, 1]
    who = "A is a, B is b. By nDCG@10, "
    assert f"{who}B is better on 1 question, worse on 1 and equal on 1" in explorer.conclusion
    assert (
        f"{row['difference']:+.3f} [{row['ci_low']:+.3f}, {row['ci_high']:+.3f}]"
        in explorer.conclusion
    )


def test_a_question_has_all_there_is_to_see(results: Results, dataset: Dataset) -> None:
    data = explore(results, dataset=dataset).data
    question = data["questions"][1]
    first, second = question["sides"]
    assert (first["cause"], first["why"], first["claims"]) == (
        "not_retrieved",
        "0% of the evidence",
        [["It is 400 m high.", "judge"]],
    )
    assert [side["checked"] for side in data["sides"]] == [True, False]
    assert question["evidence"] == [[0, TOWER.index("330"), TOWER.index("330") + 10], [0, 12, 26]]
    assert first["contexts"] == [{"id": "tower#0-28", "place": [0, 0, 28]}]
    assert second["contexts"][1] == {"id": "elsewhere", "unplaced": True}
    assert data["documents"] == [{"id": "tower", "pieces": [[0, TOWER]]}]
    assert data["scores"]["nDCG@10"] == [[1.0, 0.0, 0.5], [1.0, 1.0, 0.25]]


def test_only_the_characters_that_are_shown_are_kept(dataset: Dataset) -> None:
    answers = [Answer("q3", "?", contexts=("tower#50-55", "tower#2-6", "tower#4-9"))]
    one = made("a", dataset, [1, 1, 1], answers)
    [document] = explore(one, dataset=dataset).data["documents"]
    assert all(TOWER[start : start + len(text)] == text for start, text in document["pieces"])
    assert [start for start, _ in document["pieces"]] == [2, 12, TOWER.index("330"), 50]


def test_passages_of_a_service_are_placed_in_the_documents_where_they_are_found(
    dataset: Dataset,
) -> None:
    passages = (
        Passage("p1", "opened in 1889. It", "tower"),
        Passage("p2", "Another text, ana.ruiz@firm.com", "tower"),
    )
    one = made("a", dataset, [1, 1, 1], [Answer("q1", "?", passages=passages)])
    data = explore(one, dataset=dataset).data
    placed, other = data["questions"][0]["sides"][0]["contexts"]
    assert placed == {"id": "p1", "place": [0, 12, 30]}
    assert other["unplaced"]
    assert data["documents"][other["place"][0]] == {
        "id": "p2",
        "pieces": [[0, "Another text, an***"]],
    }


def test_answers_are_masked(dataset: Dataset) -> None:
    one = made(
        "a",
        dataset,
        [1, 1, 1],
        [Answer("q1", "Write to ana.ruiz@firm.com.", contexts=("ana.ruiz@firm.com#1",))],
    )
    assert "ana.ruiz" not in explore(one, dataset=dataset).html()


def test_missing_documents_are_noted(results: Results) -> None:
    explorer = explore(results)
    [note] = explorer.data["notes"]
    assert "'tower' is not at hand" in note
    assert explorer.data["questions"][1]["sides"][0]["contexts"] == [
        {"id": "tower#0-28", "unplaced": True}
    ]
    assert explorer.dataset.queries == dict(results[0].queries)


def test_other_documents_are_announced(results: Results, dataset: Dataset) -> None:
    other = Dataset("tower", "test", {}, dataset.cases, dataset.qrels)
    with pytest.warns(DataWarning, match="not what 'a' was measured on"):
        explorer = explore(results, dataset=other)
    assert "may be shifted" in explorer.data["notes"][0]


def test_the_dataset_is_found_by_its_name() -> None:
    data = load_dataset("pydoc").select(["p001", "p002"])
    one = made("a", data, [1.0, 0.5], [Answer("p001", "?")])
    assert one.parameters == {"retriever": "a"}
    explorer = explore(one)
    assert explorer.data["notes"] == []
    assert explorer.data["questions"][0]["evidence"]
    assert json.loads(explorer.data["head"])["corpus"] == "pydoc"


def test_claims_that_no_evaluation_checked_are_marked_so(dataset: Dataset) -> None:
    one = made(
        "a",
        dataset,
        [1, 1, 1],
        [Answer("q1", "It is 990 m high.", contexts=(f"tower#0-{len(TOWER)}",))],
    )
    assert explore(one, dataset=dataset).data["sides"][0]["checked"] is False


def test_one_result_has_a_mean(results: Results, dataset: Dataset) -> None:
    explorer = explore(results["a"], dataset=dataset)
    assert explorer.conclusion.startswith("Mean nDCG@10 0.500 [")
    assert len(explorer.data["questions"][0]["sides"]) == 1


def test_names_are_checked(results: Results, dataset: Dataset) -> None:
    with pytest.raises(ConfigError, match="unknown baseline 'nosuch'"):
        explore(results, "nosuch", dataset=dataset)
    with pytest.raises(ConfigError, match="unknown result 'nosuch'"):
        explore(results, contender="nosuch", dataset=dataset)
    with pytest.raises(DataError, match="no measure scores"):
        explore(made("a", dataset, [None, None, None], []), dataset=dataset)


def test_the_page_allows_its_own_script_and_style_only(results: Results, dataset: Dataset) -> None:
    page = explore(results, dataset=dataset).html()
    [policy] = re.findall(r'Content-Security-Policy" content="(.*?)"', page)
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for tag, directive in (('script type="module"', "script-src"), ("style", "style-src")):
        [content] = re.findall(rf"<{tag}>(.*?)</{tag.split()[0]}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert "innerHTML" not in page
    assert not re.search(r'(?:src|href)="?(?:https?:)?//', page)


def test_hostile_texts_stay_inside_the_data(many: tuple[Dataset, Results]) -> None:
    dataset, _ = many
    data = dataset.select([f"q{i:04}" for i in range(4)])
    one = made(HOSTILE[1], data, [1, 1, 1, 1], [Answer("q0000", HOSTILE[1])])
    page = explore(one, dataset=data).html()
    assert page.count("</script>") == 2
    assert page.count("<script") == 2
    assert page.isascii() or "\u2028" not in page
    assert embedded(page)["questions"][1]["text"].startswith(HOSTILE[1])


def test_a_page_is_replaced_on_request_only(
    results: Results, dataset: Dataset, tmp_path: Path
) -> None:
    explorer = explore(results, dataset=dataset)
    place = explorer.write(tmp_path / "new" / "explore.html")
    with pytest.raises(ConfigError, match="force"):
        explorer.write(place)
    assert explorer.write(place, force=True).read_text(encoding="utf-8") == explorer.html()
    with pytest.raises(ConfigError, match=r"end it in \.html"):
        explorer.write(tmp_path / "explore.txt")
    assert sorted(path.name for path in place.parent.iterdir()) == ["explore.html"]


def test_the_widget_selects_a_test_set(results: Results, dataset: Dataset, tmp_path: Path) -> None:
    explorer = explore(results, dataset=dataset)
    with pytest.raises(DataError, match="no question is selected"):
        explorer.test_set()
    explorer.widget.selected = ["q2", "q1"]
    assert explorer.selected == ("q1", "q2")
    place = save_testset(explorer.test_set(), tmp_path / "mine.jsonl", "jsonl")
    assert list(load_testset(place).cases) == list(dataset.cases[:2])
    bundle, _ = explorer._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert bundle["text/plain"] == explorer.conclusion


def test_the_lines_of_the_download_are_a_test_set(
    results: Results, dataset: Dataset, tmp_path: Path
) -> None:
    data = explore(results, dataset=dataset).data
    place = tmp_path / "selection.jsonl"
    place.write_text(data["head"] + data["questions"][1]["case"], encoding="utf-8")
    loaded = load_testset(place, corpus=dataset.corpus)
    assert list(loaded.cases) == [dataset.cases[1]]
    assert loaded.name == "tower selection"


def test_the_command(results: Results, dataset: Dataset, tmp_path: Path) -> None:
    for result in results:
        save(result, tmp_path / "sweep" / result.name)
    save_testset(dataset, tmp_path / "tower.jsonl", "jsonl")
    run = CliRunner()
    output = str(tmp_path / "e.html")
    done = run.invoke(app, ["explore", str(tmp_path / "sweep"), "-o", output])
    assert done.exit_code == 0, done.output
    assert "B is better on 1 question," in done.output
    assert "is not at hand" in done.output
    again = run.invoke(app, ["explore", str(tmp_path / "sweep"), "-o", output])
    assert again.exit_code == 2
    pair = [str(tmp_path / "sweep" / name) for name in ("b", "a")]
    more = ["--test-set", str(tmp_path / "tower.jsonl"), "--force", "-o", output]
    assert run.invoke(app, ["explore", *pair, *more]).exit_code == 0
    data = embedded(Path(output).read_text(encoding="utf-8"))
    assert [side["name"] for side in data["sides"]] == ["b", "a"]
    assert data["notes"] == []
    assert "Example: ragbench explore" in run.invoke(app, ["explore", "--help"]).output


def test_two_results_are_the_two_sides_in_their_order(results: Results, dataset: Dataset) -> None:
    a, b = results["a"], results["b"]

    def names(*arguments: Any) -> list[str]:
        sides = explore(*arguments, dataset=dataset).data["sides"]
        return [side["name"] for side in sides]

    assert names(a, b) == ["a", "b"]
    assert names(b, a) == ["b", "a"]
    assert names([a, b], b, a) == ["b", "a"]
    assert names([a, b], b) == ["b", "a"]
    assert names(a, "", b) == ["a", "b"]


def test_three_results_are_refused(results: Results, dataset: Dataset) -> None:
    a, b = results
    third = replace(b, name="c")
    with pytest.raises(ConfigError, match="an explorer shows two results, not a, b, c"):
        explore(a, b, third, dataset=dataset)
    chosen = explore(Results([a, b, third]), b, third, dataset=dataset)
    assert [side["name"] for side in chosen.data["sides"]] == ["b", "c"]


def test_one_result_and_the_name_of_another_is_refused(results: Results, dataset: Dataset) -> None:
    for arguments in ((results["a"], "b"), (results["a"], "", "b")):
        with pytest.raises(ConfigError, match="'b'"):
            explore(*arguments, dataset=dataset)
    with pytest.raises(ConfigError, match="'a' is both sides"):
        explore(results, "a", "a", dataset=dataset)
    with pytest.raises(ConfigError, match="a side is a list"):
        explore(results["a"], [results["b"]], dataset=dataset)  # type: ignore[arg-type]


def edited(dataset: Dataset, text: str = TOWER) -> Dataset:
    """The data a day later: a question more, another question in place of q3, maybe other documents."""
    first, second, _ = dataset.cases
    cases = [Case("q0", "Is it tall?"), second, first, Case("q3", "Who painted it?")]
    corpus = {"tower": Document("tower", text), "bridge": Document("bridge", "A bridge.")}
    qrels = {"q0": {}, "q1": {"tower": 1}, "q2": {}, "q3": {}}
    return Dataset("tower", "test", corpus, cases, qrels)


def test_results_on_different_questions_show_what_both_were_asked(
    results: Results, dataset: Dataset
) -> None:
    later = edited(dataset)
    context = f"tower#0-{len(TOWER)}"
    answers = [Answer("q2", "330 m.", contexts=(context,)), Answer("q1", "1889.")]
    new = made("new", later, [0.1, 0.8, 0.6, 0.2], answers)
    explorer = explore([results[0], new], "a", "new", dataset=dataset)
    data = explorer.data
    assert [question["id"] for question in data["questions"]] == ["q1", "q2"]
    assert data["scores"]["nDCG@10"] == [[1.0, 0.0], [0.6, 0.8]]
    assert data["measures"][0]["counts"] == [1, 1, 0]
    [note] = data["notes"]
    assert "1 question added (q0), 1 question changed (q3)" in note
    assert note.endswith("shown is what both were asked.")
    of_new = data["questions"][1]["sides"][1]
    assert of_new["contexts"] == [{"id": context, "place": [0, 0, len(TOWER)]}]


@pytest.mark.parametrize("at_hand", ["first", "second"])
def test_contexts_of_changed_documents_have_no_text(
    results: Results, dataset: Dataset, at_hand: str
) -> None:
    later = edited(dataset, text=f"{TOWER} News.")
    context = f"tower#0-{len(TOWER)}"
    passage = Passage("p1", "opened in 1889", "tower")
    answers = [
        Answer("q2", "330 m.", contexts=(context,)),
        Answer("q1", "1889.", passages=(passage,)),
    ]
    new = made("new", later, [0.1, 0.8, 0.6, 0.2], answers)
    shown = explore([results[0], new], "a", "new", dataset=dataset if at_hand == "first" else later)
    questions = {question["id"]: question["sides"] for question in shown.data["questions"]}
    old_context = questions["q1"][0]["contexts"][0]
    new_context = questions["q2"][1]["contexts"][0]
    assert ("place" in old_context) == (at_hand == "first")
    assert ("place" in new_context) == (at_hand == "second"), "its offsets are of the other text"
    [note] = shown.data["notes"]
    assert "1 document changed (tower)" in note
    assert "place" in questions["q1"][1]["contexts"][0], "the passage brings its text"


def test_results_without_a_common_question_are_refused(results: Results) -> None:
    other = Dataset("bridge", "test", {}, [Case("q1", "Is it open?")], {"q1": {}})
    with pytest.raises(ComparisonError, match="without a question in common"):
        explore([results[0], made("other", other, [0.5], [])])
