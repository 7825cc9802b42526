"""Who wrote the questions of a test set, and how far they repeat their evidence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import mean, median

import pytest

from ragbench.testsets import composition, draft_known_items, load_dataset
from ragbench.testsets.composition import (
    PEOPLES_EVIDENCE_WORDS,
    PEOPLES_OVERLAP,
    evidence_words,
    origin_of,
    wording_overlaps,
)
from ragbench.types import Case, Dataset, Document, Span

DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.mark.parametrize(
    ("case", "origin"),
    [
        (Case("q1", "Why?"), "people"),
        (Case("draft-1", "alpha beta", category="known-item draft"), "draft"),
        (Case("draft-1", "rewritten", category="faq"), "people"),
        (Case("example-1", "alpha", category="example", query_type="heading"), "draft"),
        (Case("e", "alpha", category="example"), "people"),
        (Case("g", "What?", metadata={"generated": {"model": "m"}}), "generated"),
        (Case("g", "What?", metadata={"generated": {"model": "m"}, "reviewed": True}), "people"),
    ],
)
def test_the_origin_of_a_question(case: Case, origin: str) -> None:
    assert origin_of(case) == origin


TEXT = "Herons stand still. They weigh two kilograms. Storks nest on roofs."


@pytest.mark.parametrize(
    ("question", "span", "overlap"),
    [
        ("How many kilograms do they weigh?", (25, 28), 0.4),  # the sentence that holds "weigh"
        ("Where do storks nest?", (25, 28), 0.0),
        ("Which storks stand still?", (46, 52), 0.25),
    ],
)
def test_overlap_is_with_the_whole_sentences_of_the_evidence(
    question: str, span: tuple[int, int], overlap: float
) -> None:
    case = Case("q", question, evidence=(Span("d", *span),))
    data = Dataset("birds", "test", {"d": Document("d", TEXT)}, [case], {"q": {"d": 1}})
    assert wording_overlaps(data) == {"q": overlap}


def test_overlaps_of_a_data_set_are_computed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path))
    cases = [Case("none", "Why?")]
    cases += [
        Case(f"q{i}", f"Do storks nest {i}?", evidence=(Span("d", 46, 52),)) for i in range(20)
    ]
    data = Dataset("birds", "test", {"d": Document("d", TEXT)}, cases, {})
    first = wording_overlaps(data)
    assert list(first) == [f"q{i}" for i in range(20)]
    other = replace(data, cases=cases[:20])
    monkeypatch.setattr(composition, "_overlaps", lambda dataset: [0.5] * len(dataset.cases))
    assert wording_overlaps(data) == first
    assert set(wording_overlaps(other).values()) == {0.5}  # other questions are computed


def test_the_words_of_all_passages_of_the_evidence_count() -> None:
    case = Case("q", "Where?", evidence=(Span("d", 0, 19), Span("d", 47, 52)))
    unlabelled = Case("u", "Why?")
    data = Dataset("birds", "test", {"d": Document("d", TEXT)}, [case, unlabelled], {})
    assert evidence_words(data) == {"q": 4}


def test_without_evidence_the_relevant_document_that_repeats_most_counts() -> None:
    corpus = {"a": Document("a", "Storks nest on roofs."), "b": Document("b", "Storks.")}
    case = Case("q", "Where do storks nest?")
    assert wording_overlaps(Dataset("b", "test", corpus, [case], {"q": {"a": 1, "b": 1}})) == {
        "q": 0.5
    }
    assert wording_overlaps(Dataset("b", "test", corpus, [case], {"q": {}})) == {}


def test_drafts_repeat_their_passages_and_peoples_questions_do_not() -> None:
    data = load_dataset("pydoc")
    drafts = draft_known_items(data, 60)
    assert mean(wording_overlaps(drafts).values()) > 0.6
    assert mean(wording_overlaps(data).values()) < 0.3


@pytest.mark.skipif(not DATA.is_dir(), reason=f"the public collections are not in {DATA}")
def test_the_figures_of_public_sets_are_what_is_shipped() -> None:
    for name, folder in (("SQuAD", "squad"), ("CLAP NQ", "clapnq")):
        data = load_dataset(str(DATA / folder))
        overlaps = wording_overlaps(data)
        assert mean(overlaps.values()) == pytest.approx(PEOPLES_OVERLAP[name], abs=0.01)
        assert median(evidence_words(data).values()) == PEOPLES_EVIDENCE_WORDS[name]
