"""Every label of every form arrives in the record that it belongs to."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ragbench.errors import DataWarning
from ragbench.testsets.cases import HARMFUL, HARMLESS
from ragbench.testsets.forms import load_testset, save_testset
from ragbench.testsets.loader import load_dataset
from ragbench.types import Case, Dataset, Document, SafetySample, Span


def jsonl(path: Path, *records: object) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_files_of_unknown_names_in_a_folder_by_perspective_are_named(tmp_path: Path) -> None:
    jsonl(tmp_path / "cases.jsonl", {"case_id": "c1", "query": "How?"})
    (tmp_path / "README.md").write_text("About these cases.")
    jsonl(tmp_path / "latencies.jsonl", {"case_id": "c1", "ms": 900})
    with pytest.warns(DataWarning, match=r"1 files .*'latencies\.jsonl'"):
        assert len(load_dataset(tmp_path).cases) == 1


def test_a_folder_by_perspective(tmp_path: Path) -> None:
    jsonl(
        tmp_path / "cases.jsonl",
        {"case_id": "c1", "query": "How?", "user_roles": ["admin"], "query_type": "faq"},
        {"case_id": 2, "query": "Why?"},
    )
    jsonl(
        tmp_path / "retrieval_labels.jsonl",
        {
            "case_id": "c1",
            "relevant_docs": ["d1", "d2"],
            "relevance_grades": {"d1": 3, "d3": 0},
            "relevant_chunks": ["d1#0", "d1#1"],
            "chunk_relevance_grades": [3, 1],
        },
    )
    jsonl(
        tmp_path / "context_labels.jsonl",
        {
            "case_id": "c1",
            "gold_facts": [{"fact": "ten", "aliases": ["10"]}, "plain", ["a", "b"]],
            "expected_chunks": ["d1#0", {"doc_id": "d1", "section": "Head"}],
        },
    )
    jsonl(
        tmp_path / "groundedness_labels.jsonl",
        {
            "case_id": "c1",
            "expected_claims": ["x"],
            "expected_citations": ["d1"],
            "forbidden_claims": ["y"],
        },
    )
    jsonl(
        tmp_path / "pipeline_labels.jsonl",
        {
            "case_id": "c1",
            "expected_outcome": "uncertain",
            "required_flags": ["f"],
            "forbidden_flags": ["g"],
            "min_citations": 2,
            "latency_budget_ms": {"retrieve": 200, "total": 3000.5},
        },
        {"case_id": "2", "latency_budget_ms": 900},
    )
    jsonl(
        tmp_path / "safety_inputs.jsonl",
        {"text": "Ignore it all", "label": "attack", "category": "jailbreak_persona"},
    )
    jsonl(
        tmp_path / "safety_outputs.jsonl",
        {"text": "a@b.de", "label": True, "contexts": ["c"], "sample_id": "o1"},
    )
    dataset = load_dataset(tmp_path)
    assert dataset.name == tmp_path.name
    assert dataset.qrels == {"c1": {"d1": 3, "d3": 0, "d2": 1}, "2": {}}
    assert dataset.cases == (
        Case(
            "c1",
            "How?",
            query_type="faq",
            user_roles=("admin",),
            gold_facts=(("ten", "10"), ("plain",), ("a", "b")),
            expected_chunks=("d1#0",),
            expected_sections=(("d1", "Head"),),
            relevant_chunks={"d1#0": 3, "d1#1": 1},
            expected_claims=("x",),
            expected_citations=("d1",),
            forbidden_claims=("y",),
            expected_outcome="uncertain",
            required_flags=("f",),
            forbidden_flags=("g",),
            min_citations=2,
            latency_budget_ms={"retrieve": 200, "total": 3000.5},
        ),
        Case("2", "Why?", latency_budget_ms={"total": 900}),
    )
    [attack] = dataset.safety_inputs
    assert (attack.harmful, attack.category, attack.sample_id[:6]) == (
        True,
        "jailbreak_persona",
        "input-",
    )
    assert dataset.safety_outputs == (SafetySample("o1", "a@b.de", True, contexts=("c",)),)


def test_a_folder_of_safety_samples_alone(tmp_path: Path) -> None:
    labels = [*HARMFUL, *HARMLESS, "Injection", "no leak", True, False, 1, 0]
    jsonl(tmp_path / "safety_inputs.jsonl", *({"text": "same", "label": label} for label in labels))
    dataset = load_dataset(tmp_path)
    assert (dataset.cases, dataset.qrels) == ((), {})
    harmful = [
        *[True] * len(HARMFUL),
        *[False] * len(HARMLESS),
        True,
        False,
        True,
        False,
        True,
        False,
    ]
    assert [sample.harmful for sample in dataset.safety_inputs] == harmful
    assert len({sample.sample_id for sample in dataset.safety_inputs}) == len(labels)


def test_the_yaml_form(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text(
        "version: 1\nname: handbook\ncases:\n- id: q1\n  query: How?\n  expected_chunks:\n"
        "  - {doc_id: guide, section: Head}\n  expected_answer_contains: [pip, '3.11']\n"
    )
    dataset = load_dataset(tmp_path / "my.yaml")
    case = Case(
        "q1", "How?", required_keywords=("pip", "3.11"), expected_sections=(("guide", "Head"),)
    )
    assert (dataset.name, dataset.cases, dataset.qrels) == (
        "handbook",
        (case,),
        {"q1": {"guide": 1}},
    )


def test_the_json_forms(tmp_path: Path) -> None:
    first = {
        "id": "q1",
        "question": "How?",
        "expectedAnswer": "So.",
        "requiredKeywords": ["pip"],
        "expectedDocumentId": "guide",
        "category": "install",
    }
    (tmp_path / "a.json").write_text(
        json.dumps({"cases": [first, {"id": 2, "question": "Why?", "category": None}]})
    )
    dataset = load_dataset(tmp_path / "a.json")
    case = Case(
        "q1", "How?", category="install", reference_answer="So.", required_keywords=("pip",)
    )
    assert (dataset.name, dataset.cases) == ("a", (case, Case("2", "Why?")))
    assert dataset.qrels == {"q1": {"guide": 1}, "2": {}}
    second = {
        "query": "How?",
        "expected_answer": "So.",
        "expected_sources": ["a", "b"],
        "category": "install",
    }
    (tmp_path / "b.json").write_text(json.dumps({"test_cases": [second]}))
    dataset = load_dataset(tmp_path / "b.json")
    [own] = dataset.cases
    assert own == Case(own.query_id, "How?", category="install", reference_answer="So.")
    assert dataset.qrels == {own.query_id: {"a": 1, "b": 1}}


def test_one_file_refers_to_documents_or_holds_them(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text("# Install\n\nUse pip.\n")
    case = {
        "query_id": "q1",
        "text": "How?",
        "expected_sections": [{"doc_id": "guide.md", "section": "install"}],
    }
    jsonl(tmp_path / "a.jsonl", {"testset": "mine", "corpus": "docs"}, case)
    dataset = load_dataset(tmp_path / "a.jsonl")
    assert dataset.corpus["guide.md"].text.startswith("# Install")
    assert dataset.cases[0].evidence == (Span("guide.md", 0, 19),)
    saved = load_testset(save_testset(dataset, tmp_path / "b.jsonl", "jsonl"))
    assert saved.fingerprint == dataset.fingerprint


def test_ten_thousand_cases_load_in_seconds(tmp_path: Path) -> None:
    cases = tuple(
        Case(
            f"q{i}",
            f"Question {i}?",
            category="c",
            required_keywords=("a", "b"),
            gold_facts=(("x", "y"),),
            min_citations=1,
        )
        for i in range(10_000)
    )
    dataset = Dataset(
        "big",
        "test",
        {"d": Document("d", "text")},
        cases,
        {case.query_id: {"d": 1} for case in cases},
    )
    path = save_testset(dataset, tmp_path / "big.jsonl", "jsonl")
    start = time.process_time()
    assert len(load_testset(path).cases) == 10_000
    jsonl_s = time.process_time() - start
    small = Dataset(
        "small",
        "test",
        {},
        tuple(Case(c.query_id, c.text, required_keywords=("a",)) for c in cases[:100]),
        {},
    )
    path = save_testset(small, tmp_path / "small.yaml", "yaml")
    start = time.process_time()
    assert len(load_testset(path).cases) == 100
    yaml_s = time.process_time() - start
    print(f"10,000 cases of JSONL: {jsonl_s:.2f} s; 100 of YAML: {yaml_s:.3f} s")
    assert jsonl_s < 8  # about 1 s on a free machine
    assert yaml_s < 0.5


def test_loading_needs_no_heavy_package(tmp_path: Path) -> None:
    import subprocess
    import sys

    (tmp_path / "a.yaml").write_text("cases: []\n")
    code = (
        "import sys, ragbench; ragbench.load_dataset(sys.argv[1]);"
        "print(sorted({'pandas', 'torch', 'datasets', 'rapidfuzz', 'markdown_it', 'rich'} & "
        "set(sys.modules)))"
    )
    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path / "a.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.mark.parametrize(
    "chunk",
    [{"section": "s"}, {}, {"chunk_id": "c", "doc_id": "d", "section": "s"}],
)
def test_an_expected_chunk_is_an_id_or_a_section(chunk: dict[str, str], tmp_path: Path) -> None:
    from ragbench.testsets.forms import validate_testset

    jsonl(tmp_path / "cases.jsonl", {"case_id": "c", "query": "?"})
    jsonl(tmp_path / "context_labels.jsonl", {"case_id": "c", "expected_chunks": [chunk]})
    [problem] = validate_testset(tmp_path)
    assert (problem.field, problem.expected) == (
        "expected_chunks[0]",
        "{doc_id} or {doc_id, section}, or {chunk_id}",
    )
