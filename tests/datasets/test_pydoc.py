"""The built-in questions: what the file promises, where quotes are found, what another edition of
Python changes.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import textwrap
import warnings
from collections import Counter
from collections.abc import Mapping
from importlib import resources
from itertools import pairwise
from pathlib import Path
from pydoc_data.topics import topics as own_topics
from statistics import mean
from typing import Any
from unittest import mock

import pytest
import Stemmer
from bm25s.stopwords import STOPWORDS_EN_PLUS

from ragbench.datasets.pydoc import load_pydoc
from ragbench.errors import DataError, DataWarning
from ragbench.metrics.answer_similarity import gold_fact_coverage
from ragbench.types import Dataset

CATEGORIES = [
    "factual_lookup",
    "multi_hop",
    "entity_specific",
    "comparison",
    "unanswerable",
    "temporal",
]
QUERY_TYPES = {"comparison", "faq", "reference", "research", "troubleshooting"}
FIELDS = {
    "query_id",
    "text",
    "category",
    "query_type",
    "reference_answer",
    "gold_facts",
    "evidence",
    "relevant",
    "expected_outcome",
}

RECORDS: list[dict[str, Any]] = [
    json.loads(line)
    for line in resources.files("ragbench.datasets")
    .joinpath("pydoc_cases.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
ANSWERABLE = [record for record in RECORDS if record["category"] != "unanswerable"]
UNANSWERABLE = [record for record in RECORDS if record["category"] == "unanswerable"]

stem = Stemmer.Stemmer("english").stemWord


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return load_pydoc()


def edition(topics: Mapping[str, str]) -> Dataset:
    """The data set of a Python that has other topics."""
    with mock.patch("ragbench.datasets.pydoc.own_topics", return_value=topics):
        return load_pydoc()


def test_quotes_are_searched_once(dataset: Dataset) -> None:
    """The runs of a sweep load the questions from what they inherit."""
    with mock.patch("ragbench.datasets.pydoc._squeezed", side_effect=AssertionError):
        again = load_pydoc()
    assert again is not dataset
    assert (again.cases, again.qrels) == (dataset.cases, dataset.qrels)


def plain(text: str) -> str:
    """Casefolded, one space between words, straight quotation marks: how a fact is looked for in an
    answer.
    """
    return " ".join(text.translate(str.maketrans("‘’“”–—", "''\"\"--")).split()).casefold()


def squeezed(text: str) -> str:
    return plain(text).replace(" ", "")


def by_id(record: dict[str, Any]) -> str:
    return str(record["query_id"])


# ------------------------------------------------------------------------------------------------
# what the file holds


def test_each_category_has_twelve_questions_or_more() -> None:
    counts = Counter(record["category"] for record in RECORDS)
    assert set(counts) == set(CATEGORIES)
    assert min(counts.values()) >= 12
    assert len(RECORDS) == 110


def test_ids_count_up_and_texts_are_unique() -> None:
    assert [record["query_id"] for record in RECORDS] == [
        f"p{i:03d}" for i in range(1, len(RECORDS) + 1)
    ]
    assert len({record["text"] for record in RECORDS}) == len(RECORDS)


@pytest.mark.parametrize("record", RECORDS, ids=by_id)
def test_record_is_complete(record: dict[str, Any]) -> None:
    assert set(record) - {"absent"} == FIELDS
    assert record["query_type"] in QUERY_TYPES
    assert set(record["relevant"].values()) <= {1, 2, 3}


@pytest.mark.parametrize("record", ANSWERABLE, ids=by_id)
def test_answerable_record_has_every_label(record: dict[str, Any]) -> None:
    assert record["expected_outcome"] == "success"
    assert "absent" not in record
    assert 1 <= len(re.findall(r"[.!?](?=\s|$)", record["reference_answer"])) <= 3
    assert max(record["relevant"].values()) == 3
    assert len(record["gold_facts"]) >= 2
    for item in record["evidence"]:
        assert record["relevant"][item["doc_id"]] >= 2, (
            f"{item['doc_id']} holds a quote and is graded lower than 2"
        )
        assert len(squeezed(item["quote"])) >= 20, (
            f"{item['quote']!r} is too short to mean only one thing"
        )


@pytest.mark.parametrize("record", ANSWERABLE, ids=by_id)
def test_facts_are_in_the_reference_answer_and_in_the_evidence_but_not_in_the_question(
    record: dict[str, Any],
) -> None:
    """Quoting the evidence covers every fact; echoing the question covers none."""
    answer, question = plain(record["reference_answer"]), plain(record["text"])
    evidence = plain(" ".join(item["quote"] for item in record["evidence"]))
    for fact in record["gold_facts"]:
        assert len(fact) == len({plain(alias) for alias in fact}), f"{fact} repeats itself"
        assert any(plain(alias) in answer for alias in fact), (
            f"{fact} is not in the reference answer"
        )
        assert any(plain(alias) in evidence for alias in fact), (
            f"{fact} is not supported by the evidence"
        )
        assert not any(plain(alias) in question for alias in fact), (
            f"{fact} is given away by the question"
        )
    # the measure looks for whole words, so a plural is another wording
    assert gold_fact_coverage(record["reference_answer"], record["gold_facts"]) == 1
    assert (
        gold_fact_coverage(
            "\n".join(item["quote"] for item in record["evidence"]), record["gold_facts"]
        )
        == 1
    )
    assert gold_fact_coverage(record["text"], record["gold_facts"]) == 0


@pytest.mark.parametrize(
    "record", [r for r in ANSWERABLE if r["category"] == "temporal"], ids=by_id
)
def test_temporal_asks_for_a_release_and_for_what_it_changed(record: dict[str, Any]) -> None:
    releases = [fact for fact in record["gold_facts"] if re.fullmatch(r"3\.\d+", fact[0])]
    assert 1 <= len(releases) < len(record["gold_facts"])
    assert not re.search(r"\b3\.\d", record["text"])


@pytest.mark.parametrize(
    "record", [r for r in ANSWERABLE if r["category"] == "multi_hop"], ids=by_id
)
def test_multi_hop_needs_two_places(record: dict[str, Any]) -> None:
    assert len(record["evidence"]) >= 2


def test_questions_are_spread_over_the_topics() -> None:
    homes = {item["doc_id"] for record in ANSWERABLE for item in record["evidence"]}
    assert len(homes) >= 60
    assert {
        "compound",
        "debugger",
        "exprlists",
        "formatstrings",
        "import",
        "specialnames",
        "string-methods",
        "types",
        "typesseq",
    } <= homes


def content_words(text: str) -> set[str]:
    words = re.findall(r"\w+", text.lower())
    return {stem(word) for word in words if len(word) > 1 and word not in STOPWORDS_EN_PLUS}


def test_questions_do_not_repeat_the_wording_of_their_evidence() -> None:
    """Fraction of a question's stemmed content words that occur in its quotes: 0.16 on average, 0.5
    at most.
    """
    overlap = {}
    for record in ANSWERABLE:
        question = content_words(record["text"])
        evidence = content_words(" ".join(item["quote"] for item in record["evidence"]))
        overlap[record["query_id"]] = len(question & evidence) / len(question)
    assert mean(overlap.values()) <= 0.2
    assert max(overlap.values()) <= 0.5, max(overlap, key=lambda query_id: overlap[query_id])


@pytest.mark.parametrize("record", ANSWERABLE, ids=by_id)
def test_question_shares_no_phrase_with_its_evidence(record: dict[str, Any]) -> None:
    """Never four words in a row, function words included."""
    question = re.findall(r"\w+", record["text"].lower())
    phrases = {tuple(question[i : i + 4]) for i in range(len(question) - 3)}
    for item in record["evidence"]:
        quote = re.findall(r"\w+", item["quote"].lower())
        assert not phrases & {tuple(quote[i : i + 4]) for i in range(len(quote) - 3)}


@pytest.mark.parametrize(
    ("query_id", "expression", "expected"),
    [
        ("p004", "-7 % 3", 2),
        ("p005", "1_000_000_000 == 0x_3b9aca00", True),
        (
            "p008",
            "sorted([('b', 1), ('a', 2), ('b', 0)], key=lambda r: r[0])",
            [("a", 2), ("b", 1), ("b", 0)],
        ),
        ("p009", "{'x': 1, 'y': 2}.popitem()", ("y", 2)),
        ("p010", "'mom.com'.rstrip('.com'), 'mom.com'.removesuffix('.com')", ("", "mom")),
        ("p012", "'{{{}}}'.format(1)", "{1}"),
        ("p019", "... is Ellipsis and bool(...)", True),
        ("p025", "'ß'.casefold(), 'ß'.lower()", ("ss", "ß")),
        ("p031", "'-42'.zfill(6)", "-00042"),
        (
            "p036",
            "\"they're\".title(), __import__('string').capwords(\"they're\")",
            ("They'Re", "They're"),
        ),
        ("p039", "~5", -6),
        ("p040", "f'{0xfffff:_x} {1234567:_d}'", "f_ffff 1_234_567"),
        ("p042", "{'a': 1, 'b': 2, 'a': 3}", {"a": 3, "b": 2}),
        ("p042", "list({'a': 1, 'b': 2, 'a': 3})", ["a", "b"]),
        ("p050", "(-2 ** 2, 2 ** -1)", (-4, 0.5)),
        (
            "p056",
            "type('M', (), {'__getitem__': lambda self, key: key})()[1:5, 2]",
            (slice(1, 5), 2),
        ),
        ("p060", "(3 + 4j) + 1", 4 + 4j),
        ("p064", "7 / 2, 7 // 2, -7 // 2", (3.5, 3, -4)),
        ("p071", "'a  b'.split(' '), 'a  b'.split()", (["a", "", "b"], ["a", "b"])),
        ("p074", "('' or 'nobody', not 'x')", ("nobody", False)),
        (
            "p077",
            "'²'.isdigit(), '²'.isdecimal(), '⅕'.isdigit(), '⅕'.isnumeric()",
            (True, False, False, True),
        ),
        ("p079", "5 << 3, 40 >> 3", (40, 5)),
        ("p098", "list({'b': 1, 'a': 2})", ["b", "a"]),
        ("p109", "range(0, 3, 2) == range(0, 4, 2)", True),
        ("p110", "'ǆungla'.capitalize()[0]", "ǅ"),
    ],
)
def test_what_the_reference_answers_say_is_so(
    query_id: str, expression: str, expected: object
) -> None:
    assert eval(expression) == expected


# ------------------------------------------------------------------------------------------------------------
# loading


def test_corpus_is_this_pythons_topics(dataset: Dataset) -> None:
    assert {doc_id: document.full_text for doc_id, document in dataset.corpus.items()} == own_topics
    assert all(document.doc_id == doc_id for doc_id, document in dataset.corpus.items())


def test_every_quote_is_located_on_this_python(dataset: Dataset) -> None:
    """No warning (they are errors here), and each quote is in the topic that the file names."""
    for record, case in zip(RECORDS, dataset.cases, strict=True):
        texts = [
            (span.doc_id, squeezed(dataset.corpus[span.doc_id].full_text[span.start : span.end]))
            for span in case.evidence
        ]
        for item in record["evidence"]:
            assert (item["doc_id"], squeezed(item["quote"])) in texts
        assert {text for _, text in texts} == {
            squeezed(item["quote"]) for item in record["evidence"]
        }


def test_spans_begin_and_end_on_what_they_quote_and_do_not_overlap(dataset: Dataset) -> None:
    for case in dataset.cases:
        spans = sorted(case.evidence)
        for span in spans:
            text = dataset.corpus[span.doc_id].full_text[span.start : span.end]
            assert text == text.strip() != ""
        for one, two in pairwise(spans):
            assert one.doc_id != two.doc_id or one.end <= two.start, (
                f"{case.query_id}: {one} overlaps {two}"
            )


def test_documents_that_hold_a_quote_are_graded_as_high_as_its_home(dataset: Dataset) -> None:
    for record, case in zip(RECORDS, dataset.cases, strict=True):
        grades = {
            squeezed(item["quote"]): record["relevant"][item["doc_id"]]
            for item in record["evidence"]
        }
        for span in case.evidence:
            text = dataset.corpus[span.doc_id].full_text[span.start : span.end]
            assert dataset.qrels[case.query_id][span.doc_id] >= grades[squeezed(text)]


def test_quote_counts_in_every_topic_that_repeats_it(dataset: Dataset) -> None:
    (case,) = [case for case in dataset.cases if "four files at once" in case.text]
    assert Counter(span.doc_id for span in case.evidence) == {"with": 2, "compound": 2}
    assert dataset.qrels[case.query_id] == {"with": 3, "compound": 3}


def test_quote_counts_each_occurrence_in_one_topic(dataset: Dataset) -> None:
    topics = dict(own_topics)
    topics["with"] += "\n\n" + topics["with"]
    (case,) = [case for case in edition(topics).cases if "four files at once" in case.text]
    assert Counter(span.doc_id for span in case.evidence) == {"with": 4, "compound": 2}


def test_topic_with_all_quotes_of_a_question_is_a_direct_answer(dataset: Dataset) -> None:
    (case,) = [case for case in dataset.cases if case.text.startswith("Is `del x` the same")]
    assert dataset.qrels[case.query_id]["del"] == 2
    topics = {**own_topics, "both": own_topics["del"] + "\n\n" + own_topics["customization"]}
    assert edition(topics).qrels[case.query_id]["both"] == 3


def test_cases_carry_the_labels_of_the_file(dataset: Dataset) -> None:
    for record, case in zip(RECORDS, dataset.cases, strict=True):
        assert case.gold_facts == tuple(tuple(fact) for fact in record["gold_facts"])
        for name in (
            "query_id",
            "text",
            "category",
            "query_type",
            "reference_answer",
            "expected_outcome",
        ):
            assert getattr(case, name) == record[name]
        assert record["relevant"].keys() <= dataset.qrels[case.query_id].keys()


def test_unanswerable_questions_have_an_empty_qrel_and_no_evidence(dataset: Dataset) -> None:
    cases = [case for case in dataset.cases if case.category == "unanswerable"]
    assert [case.query_id for case in cases] == [record["query_id"] for record in UNANSWERABLE]
    for case in cases:
        assert case.expected_outcome == "no_results"
        assert dataset.qrels[case.query_id] == {}
        assert (case.evidence, case.gold_facts, case.reference_answer) == ((), (), None)


@pytest.mark.parametrize("record", UNANSWERABLE, ids=by_id)
def test_unanswerable_question_is_not_answered_by_any_topic(record: dict[str, Any]) -> None:
    assert record["absent"]
    for doc_id, text in own_topics.items():
        for word in record["absent"]:
            assert word.casefold() not in text.casefold(), f"{doc_id} mentions {word!r}"


def test_same_topics_same_fingerprint_in_any_order(dataset: Dataset) -> None:
    backwards = dict(reversed(own_topics.items()))
    assert edition(backwards).fingerprint == dataset.fingerprint == load_pydoc().fingerprint


def test_other_split_is_refused_by_name() -> None:
    with pytest.raises(DataError, match=r"unknown split of pydoc 'train'.*test"):
        load_pydoc("train")


# -----------------------------------------------------------------------------------------------------
# other editions


def test_rewrapped_text_with_straight_quotes_loses_nothing(dataset: Dataset) -> None:
    """Other line breaks (also after hyphens), other indentation, other quotation marks."""
    topics = {
        name: "\n".join(
            textwrap.wrap(
                text.translate(str.maketrans("‘’“”", "''\"\"")), 57, subsequent_indent="    "
            )
        )
        for name, text in own_topics.items()
    }
    rewrapped = edition(topics)
    assert rewrapped.qrels == dataset.qrels
    for case, other in zip(dataset.cases, rewrapped.cases, strict=True):
        for span, moved in zip(case.evidence, other.evidence, strict=True):
            was = dataset.corpus[span.doc_id].full_text[span.start : span.end]
            assert squeezed(
                rewrapped.corpus[moved.doc_id].full_text[moved.start : moved.end]
            ) == squeezed(was)
    assert rewrapped.fingerprint != dataset.fingerprint


def test_missing_quote_is_dropped_with_one_warning_that_names_it(dataset: Dataset) -> None:
    (case,) = [case for case in dataset.cases if "sanity checks" in case.text]
    topics = {
        **own_topics,
        "assert": own_topics["assert"].replace("emits no code", "leaves nothing"),
    }
    with pytest.warns(DataWarning) as caught:
        altered = edition(topics)
    assert len(caught) == 1
    message = str(caught[0].message)
    assert message.startswith("pydoc: 1 quotes are not in this edition of the topics")
    assert f"{case.query_id} assert" in message
    assert "without any evidence" not in message
    (left,) = [other for other in altered.cases if other.query_id == case.query_id]
    assert len(left.evidence) == len(case.evidence) - 1
    assert altered.qrels == dataset.qrels
    assert altered.fingerprint != dataset.fingerprint


def test_question_without_any_evidence_left_stays_graded_and_is_named(dataset: Dataset) -> None:
    (case,) = [case for case in dataset.cases if "sanity checks" in case.text]
    topics = {name: text for name, text in own_topics.items() if name != "assert"}
    with (
        pytest.warns(DataWarning, match="2 quotes"),
        pytest.warns(DataWarning, match=rf"1 questions are left without any .*'{case.query_id}'"),
    ):
        altered = edition(topics)
    (left,) = [other for other in altered.cases if other.query_id == case.query_id]
    assert left.evidence == ()
    assert "assert" not in altered.corpus
    assert altered.qrels[case.query_id] == {"assert": 3}


def test_warning_about_many_quotes_counts_them_and_names_the_first() -> None:
    total = sum(len(record["evidence"]) for record in RECORDS)
    with (
        pytest.warns(DataWarning, match=rf"pydoc: {total} quotes .* \(first: "),
        pytest.warns(DataWarning, match="questions are left without any evidence"),
    ):
        edition({"empty": ""})


def python_of(version: str) -> Path:
    """Another CPython, from PATH or from pyenv; skips where there is none that runs."""
    candidates = [shutil.which(f"python{version}")]
    if pyenv := shutil.which("pyenv"):
        listed = subprocess.run(
            [pyenv, "versions", "--bare"], capture_output=True, text=True
        ).stdout.split()
        for name in listed:
            if name.startswith(f"{version}."):
                prefix = subprocess.run(
                    [pyenv, "prefix", name], capture_output=True, text=True
                ).stdout.strip()
                candidates.append(str(Path(prefix) / "bin" / "python"))
    for candidate in candidates:
        if (
            candidate
            and subprocess.run(
                [candidate, "-c", "import pydoc_data.topics"], capture_output=True
            ).returncode
            == 0
        ):
            return Path(candidate)
    pytest.skip(f"needs a Python {version} with pydoc_data, on PATH or in pyenv")


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_edition_of_another_python_has_every_quote(version: str, dataset: Dataset) -> None:
    script = "import json, pydoc_data.topics as t; print(json.dumps(dict(t.topics)))"
    printed = subprocess.run(
        [python_of(version), "-c", script], capture_output=True, text=True, check=True
    )
    topics = json.loads(printed.stdout)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = edition(topics)
    assert [case.query_id for case in other.cases] == [case.query_id for case in dataset.cases]
    for record, case in zip(RECORDS, other.cases, strict=True):
        assert {item["doc_id"] for item in record["evidence"]} <= {
            span.doc_id for span in case.evidence
        }
        for word in record.get("absent", []):
            assert not any(word.casefold() in text.casefold() for text in topics.values())
    assert (other.fingerprint == dataset.fingerprint) == (topics == own_topics)
