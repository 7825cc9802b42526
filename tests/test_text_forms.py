"""One text in several forms: Unicode, optional marks, thousands, versions and names with signs."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

import ragbench as rb
from ragbench.datasets.passages import Texts
from ragbench.folding import folded, normal
from ragbench.metrics.answer_similarity import keyword_coverage, token_f1
from ragbench.metrics.groundedness.numbers import numeric_support
from ragbench.retrieval import BM25
from ragbench.types import Chunk, Document


def nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


SAME = [
    ("Die Gebühr für Öl", nfd("Die Gebühr für Öl")),
    ("Điện Biên Phủ", nfd("Điện Biên Phủ")),
    ("한국어 문서", nfd("한국어 문서")),
    ("مُحَمَّدٌ رَسُولٌ", "محمد رسول"),
    ("أحمد وإسلام وآدم", "احمد واسلام وادم"),
    ("كتـــاب جـديد", "كتاب جديد"),
    ("ایران کتاب", "ايران كتاب"),
    ("مستشفى كبير", "مستشفي كبير"),
    ("الرَّحْمٰن", "الرحمن"),
    ("שָׁלוֹם עֲלֵיכֶם", "שלום עליכם"),
    ("בְּרֵאשִׁ֖ית", "בראשית"),
    ("Donau\u00ad\ndampfschiff", "Donaudampfschiff"),
    ("Ver\u00adsicherung\u00ad  \r\n  steuer", "Versicherungsteuer"),
    ("ﬁnanzielle Ｈilfe", "finanzielle Hilfe"),
    ("می\u200cروند", "میروند"),
    ("4\u202f183 unités", "4183 unités"),
    ("1\u00a0234\u00a0567 euros", "1234567 euros"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_forms_of_one_text_are_the_same_for_search_scores_keywords_and_passages(
    one: str, other: str
) -> None:
    for stored, asked in ((one, other), (other, one)):
        assert folded(stored) == folded(asked)
        assert token_f1(asked, stored) == 1.0
        assert keyword_coverage(f"So: {asked}.", [stored]) == 1.0
        chunks = [Chunk("a#0", "a", 0, 9, "qwx zzt"), Chunk("b#0", "b", 0, len(stored), stored)]
        assert list(BM25(chunks, language="none").search({"q": asked})["q"]) == ["b#0"]


@pytest.mark.parametrize(("one", "other"), SAME[:-2])
def test_a_passage_is_found_in_another_form_at_its_place(one: str, other: str) -> None:
    for stored, asked in ((one, other), (other, one)):
        full = f"Intro;  {stored}\n; end."
        [span] = Texts({"d": Document("d", full)}).find(asked).holders
        assert full[span.start : span.end] == stored


def test_letters_that_differ_stay_different() -> None:
    for one, other in (("résumé", "resume"), ("über", "uber"), ("کتاب", "کباب"), ("שלום", "שלוש")):
        assert folded(one) != folded(other)
        assert token_f1(one, other) == 0.0
    assert normal("2024 183") == "2024 183"
    assert normal("12\u202f34") == "12 34"
    assert folded("well-\nknown") == "well-\nknown"  # a hard hyphen may belong to the word


@pytest.mark.parametrize(
    ("keyword", "answer"),
    [
        ("C", "It is written in C#."),
        ("C", "It is written in C++, mostly."),
        ("C", "It needs C++11"),
        ("C", "It is written in Objective-C."),
        ("R", "The R&D department"),
        ("A", "It has grade A+."),
        ("A", "An A* search"),
        ("B", "It has grade B-."),
        ("F", "**F#** is functional."),
        ("T", "A T-shirt"),
        ("Q", "See the Q&A page."),
        ("AT", "AT&T is big."),
        ("S", "The S&P 500"),
        ("vitamin B", "It has vitamin B-12."),
        ("183", "4\u202f183 unités"),
        ("4183", "24\u202f183 unités"),
        ("4183", "4\u202f1835"),
        ("3.1", "It needs 3.10"),
    ],
)
def test_a_part_of_a_name_or_number_is_not_the_keyword(keyword: str, answer: str) -> None:
    assert keyword_coverage(answer, [keyword]) == 0.0


@pytest.mark.parametrize(
    ("keyword", "answer"),
    [
        ("C", "It is written in C."),
        ("C", "C and C# are languages."),
        ("C", "C/C++"),
        ("C", "Option (C): yes"),
        ("R", "Use **R** or Python."),
        ("B", "It is B - the second."),
        ("A", "*A* is right"),
        ("C#", "It is written in C#."),
        ("C++", "It needs C++11"),
        ("R&D", "The R&D team"),
        ("X-ray", "An X ray picture"),
        ("Disney", "It is on Disney+."),
        ("salt", "salt&pepper"),
        ("4183", "Le résultat est 4\u202f183 unités."),
        ("4183", "4\u00a0183 unités"),
        ("4183", "4\u2009183 unités"),
        ("4183", "Le résultat est 4 183."),
        ("4\u202f183", "It is 4,183."),
        ("4 183", "It is 4183."),
        ("1234567", "1\u202f234\u202f567 euros"),
        ("1250", "1'250 Franken"),
        ("1250", "1’250 Franken"),
        ("1234567", "12,34,567 rupees"),
        ("4183", "٤٬١٨٣"),
        ("183", "In 1889 183 people came."),
    ],
)
def test_a_keyword_is_found_in_its_notations(keyword: str, answer: str) -> None:
    assert keyword_coverage(answer, [keyword]) == 1.0


@pytest.mark.parametrize(
    ("answer", "context", "support"),
    [
        ("It needs Python 3.1.", "It needs Python 3.10 or later.", 0.0),
        ("It needs Python 3.10.", "Python 3.1 is enough.", 0.0),
        ("It needs python 3.1.", "Python 3.8, 3.9 and 3.10 are supported.", 0.0),
        ("Python (3.1)", "Python version 3.10", 0.0),
        ("Use Django >= 4.1", "Django 4.10 and Django 4.2", 0.0),
        ("iOS 17.1", "iOS 17.10", 0.0),
        ("See section 2.1.", "Section 2.10 states it.", 0.0),
        ("Release 1.2 has it.", "It is in release 1.20.", 0.0),
        ("It needs Node 18.2 or 18.20.", "Node 18.20", 0.5),
        ("It needs Python 3.10.", "It needs Python 3.10 or later.", 1.0),
        ("It needs python 3.9.", "Python 3.8, 3.9 and 3.10 are supported.", 1.0),
        ("It is version 2.0.", "Version 2 has it.", 1.0),
        ("It is 3.1 m long.", "It is 3.10 m long.", 1.0),
        ("It costs $3.1.", "It costs $3.10.", 1.0),
        ("In 3.1 seconds", "In 3.10 seconds", 1.0),
        ("The mean is 3.5.", "The mean was 3.50.", 1.0),
        ("It rose by 2.50 percent.", "by 2.5 %", 1.0),
        ("Le total est 4\u202f183 euros.", "Il coûte 4183 euros.", 1.0),
        ("It costs 4'183 francs.", "It costs 4183 francs.", 1.0),
        ("It costs 1234567 francs.", "The price of 1'234'567 francs", 1.0),
        ("It costs 4'183 francs.", "It costs 183 francs.", 0.0),
    ],
)
def test_versions_and_sections_are_no_decimals(answer: str, context: str, support: float) -> None:
    assert numeric_support(answer, [context]) == support


NAME, SPECIAL = "Übersicht Gebühren.md", "규정/Ångström.md"


def test_a_file_name_and_its_label_match_in_every_form(tmp_path: Path) -> None:
    for number, (on_disk, label) in enumerate(
        [(nfd(NAME), NAME), (NAME, nfd(NAME)), (nfd(NAME), NAME.removesuffix(".md"))]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / on_disk).write_text("Die Gebühr beträgt zwölf Euro.\n")
        tests = tmp_path / f"{number}.yaml"
        tests.write_text(f"cases:\n  - {{id: q1, query: 'Wie hoch?', relevant: ['{label}']}}\n")
        data = rb.load_dataset(str(tests), corpus=str(folder))
        assert data.qrels == {"q1": {on_disk: 1}}


def test_ids_of_a_beir_folder_of_dicts_and_of_a_run_match_in_every_form(tmp_path: Path) -> None:
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text(f'{{"_id": "{nfd(SPECIAL)}", "text": "Text."}}\n')
    (tmp_path / "queries.jsonl").write_text('{"_id": "Größe", "text": "Text?"}\n')
    rows = f"query-id\tcorpus-id\tscore\n{nfd('Größe')}\t{SPECIAL}\t1\n"
    (tmp_path / "qrels" / "test.tsv").write_text(rows)
    assert rb.load_dataset(str(tmp_path)).qrels == {"Größe": {nfd(SPECIAL): 1}}
    data = rb.Dataset.from_dicts({SPECIAL: "Text."}, {"q": "?"}, {"q": {nfd(SPECIAL): 1}})
    assert data.qrels == {"q": {SPECIAL: 1}}
    scores = rb.score_run(data.qrels, {"q": {nfd(SPECIAL): 1.0}}, ["RR"])
    assert scores["value"].tolist() == [1.0]


@pytest.mark.parametrize(
    "source",
    [
        {"id": nfd(SPECIAL)},
        {"id": f"{nfd(SPECIAL)}#0-5", "text": "Short"},
        {"doc_id": nfd(SPECIAL), "text": "Short"},
    ],
)
def test_a_system_names_a_document_in_another_form(source: dict[str, str]) -> None:
    corpus = {SPECIAL: "Short text about something.", "b.md": "Storks nest."}
    data = rb.Dataset.from_dicts(corpus, {"q": "?"}, {"q": {SPECIAL: 1}})
    result = rb.evaluate(
        data, lambda question: [source, {"id": "b.md"}], perspectives=["retrieval"]
    )
    assert result.scores.set_index("measure")["value"]["RR"] == 1.0


def test_two_documents_of_one_form_stay_two_and_recorded_answers_match_their_question() -> None:
    corpus = {SPECIAL: "One.", nfd(SPECIAL): "Two."}
    data = rb.Dataset.from_dicts(corpus, {"q": "Wie groß ist Zürich?"}, {"q": {nfd(SPECIAL): 1}})
    assert data.qrels == {"q": {nfd(SPECIAL): 1}}
    log = [{"query": nfd("Wie groß ist Zürich?"), "answer": "Groß."}]
    recorded = rb.systems.RecordedSystem(log)
    assert recorded.answer("q", "Wie groß ist Zürich?").text == "Groß."
