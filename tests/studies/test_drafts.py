"""The study of drafts: what is drafted, and how the rankings agree."""

from __future__ import annotations

import pandas as pd
import pytest

import ragbench as rb
from ragbench.studies import draft_choices as study
from ragbench.studies.collections import joined_by_title


def ranking(**kinds: list[float]) -> pd.DataFrame:
    names = {"retriever": ["a", "a", "b", "b"], "chunker": "fixed", "size": [1, 2, 1, 2]}
    return pd.DataFrame({**names, **kinds})


def test_agreement_by_hand() -> None:
    table = ranking(
        people=[0.1, 0.2, 0.3, 0.4], same=[1.0, 2.0, 3.0, 4.0], turned=[0.4, 0.3, 0.2, 0.1]
    )
    rows = study.agreement_of_drafts(table).set_index("kind")
    assert rows["tau"].to_dict() == {"same": pytest.approx(1), "turned": pytest.approx(-1)}
    assert rows["regret"].to_dict() == {"same": pytest.approx(0), "turned": pytest.approx(0.3)}
    assert rows["regret_of_any"].tolist() == pytest.approx([0.15, 0.15])
    assert rows["tau_retrievers"].tolist() == pytest.approx([1, -1])


def test_configurations_that_tie_for_the_choice_lose_their_mean() -> None:
    table = ranking(people=[0.1, 0.2, 0.3, 0.4], tied=[0.0, 0.9, 0.9, 0.1])
    [row] = study.agreement_of_drafts(table).to_dict("records")
    assert row["regret"] == pytest.approx(0.4 - 0.25)


def test_the_evidence_of_a_paragraph_is_the_paragraph_around_the_sentence() -> None:
    text = "One. Two.\n\nThree. Four. Five.\n\nSix."
    data = rb.Dataset.from_dicts({"d": text}, {})
    start = text.index("Four.")
    case = rb.Case("q", "?", evidence=(rb.Span("d", start, start + 5),))
    [span] = study.with_paragraph(case, data).evidence
    full = data.corpus["d"].full_text
    assert full[span.start : span.end] == "Three. Four. Five."


def test_documents_of_one_title_are_joined_and_evidence_moves_along() -> None:
    documents = {
        "a1": rb.Document("a1", "The sky is blue.", title="Colours"),
        "a2": rb.Document("a2", "Grass is green.", title="Colours"),
    }
    full = documents["a2"].full_text
    start = full.index("green")
    case = rb.Case("q", "Which colour is grass?", evidence=(rb.Span("a2", start, start + 5),))
    joined = joined_by_title(rb.Dataset("toy", "test", documents, [case], {}))
    [span] = joined.cases[0].evidence
    assert joined.corpus[span.doc_id].full_text[span.start : span.end] == "green"
    assert list(joined.corpus) == ["Colours"]


def test_configurations_are_ranked_by_people_and_by_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "RETRIEVERS", ("bm25",))
    monkeypatch.setattr(study, "CHUNKERS", ("fixed",))
    monkeypatch.setattr(study, "SIZES", (64, 256))
    data = rb.load_dataset("pydoc")
    data = data.select([case.query_id for case in data.cases if case.evidence][:10])
    scores = study.score_by_questions(data)
    table = study.rank_by_questions(scores)
    assert table[["retriever", "size"]].to_numpy().tolist() == [["bm25", 64], ["bm25", 256]]
    assert {"people", "heading", "sentence", "paragraph"} <= set(table)
    spread = study.spread_of_agreement(scores).set_index("kind")
    assert set(spread.index) == {"heading", "sentence", "paragraph"}
    assert (spread["tau_low"] <= spread["tau_high"]).all()
    assert (table["sentence"] > table["people"]).all()  # drafts repeat the words of their passage
