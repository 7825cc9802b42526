"""What a retrieval gate rests on: passages that are attributable to a document, never a text that
all of them hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.evaluation import load_targets
from ragbench.report.page import banner
from ragbench.types import Case, Dataset, Document

PYDOC = rb.load_dataset("pydoc")
TARGETS = load_targets().gated("nDCG@5=0.6,RR=0.6")
BOILERPLATE = "All rights reserved; nothing of this page may be reproduced in any form."
PAGES = {str(i): Document(str(i), f"Page {i} is about topic {i}. {BOILERPLATE}") for i in range(6)}
CASES = tuple(Case(f"q{i}", f"What is page {i} about?") for i in PAGES)
BOOK = Dataset("book", "test", PAGES, CASES, {f"q{i}": {i: 1} for i in PAGES})


def retrieved(data: Dataset, system: Callable[[str], object], **options: object) -> rb.Result:
    return rb.evaluate(data, system, perspectives=["retrieval"], **options)  # type: ignore[arg-type]


def value(result: rb.Result, measure: str) -> float:
    [row] = [one for one in result.rows if one.measure == measure]
    assert row.value is not None
    return row.value


def constant(*contexts: str) -> Callable[[str], dict[str, object]]:
    return lambda question: {"answer": "x", "contexts": list(contexts)}


@pytest.mark.filterwarnings("ignore:.*an empty context is left out")
@pytest.mark.parametrize(
    "contexts",
    [
        ("the",),
        ("in the", "of the", "a", "is", "Python"),
        ("The following", "is used to", "if the object", "a list of", "must be a"),
        ("\n", " ", "*"),
    ],
)
def test_a_constant_context_retrieves_nothing(contexts: Sequence[str]) -> None:
    result = retrieved(PYDOC, constant(*contexts), targets=TARGETS)
    assert (value(result, "nDCG@5"), value(result, "RR"), value(result, "R@10")) == (0, 0, 0)
    assert not result.passed
    verdict, sentence = banner(result)
    assert verdict == "failed"
    assert "110 of 110 passages (100%) could not be matched" in sentence or len(contexts) > 1


def test_the_words_of_the_question_are_no_passage() -> None:
    """Rare words of a question are in few documents: those that it is about."""

    def pairs(question: str) -> dict[str, object]:
        words = question.rstrip("?").split()
        return {
            "answer": "x",
            "contexts": [f"{first} {second}" for first, second in pairwise(words)],
        }

    result = retrieved(PYDOC, pairs)
    assert value(result, "R@10") == 0


@pytest.mark.parametrize(("held_by", "found"), [(1, 1.0), (2, 0.0), (3, 0.0), (4, 0.0), (6, 0.0)])
def test_a_sentence_that_several_documents_hold_is_no_sign_of_the_relevant_one(
    held_by: int, found: float
) -> None:
    pages = {
        i: page if int(i) < held_by else Document(i, f"Page {i} is about topic {i}.")
        for i, page in PAGES.items()
    }
    data = Dataset("book", "test", pages, CASES[:1], {"q0": {"0": 1}})
    result = retrieved(data, constant(BOILERPLATE))
    assert value(result, "R@5") == found
    [warning] = [one.warning for one in result.perspectives if one.name == "retrieval"]
    assert ("could not be matched" in warning) == (held_by > 3)
    assert ("least relevant" in warning) == (held_by in (2, 3))


def test_the_verdict_of_the_command_names_passages_that_are_not_attributable(
    tmp_path: Path,
) -> None:
    lines = [
        {"query_id": case.query_id, "answer": "x", "contexts": [BOILERPLATE]} for case in BOOK.cases
    ]
    answers = tmp_path / "answers.jsonl"
    answers.write_text("".join(json.dumps(line) + "\n" for line in lines))
    corpus, cases = tmp_path / "corpus", tmp_path / "tests.yaml"
    corpus.mkdir()
    for page in PAGES.values():
        (corpus / f"{page.doc_id}.md").write_text(page.text)
    entries = [
        {"id": case.query_id, "query": case.text, "relevant": {f"{case.query_id[1:]}.md": 1}}
        for case in CASES
    ]
    cases.write_text(json.dumps({"cases": entries}))
    command = ["eval", "--test-set", str(cases), "--docs", str(corpus), str(answers)]
    done = CliRunner().invoke(
        app,
        [
            *command,
            "--perspective",
            "retrieval",
            "--fail-under",
            "Success@5=0.5",
            "--output",
            str(tmp_path / "out"),
        ],
    )
    assert done.exit_code == 1, done.output
    verdict = done.output[done.output.rindex("FAILED") :]
    assert "6 of 6 passages (100%) could not be matched" in " ".join(verdict.split())


def test_a_comparison_rests_on_the_lower_bound() -> None:
    """Texts that several documents hold never make a system better than the same one with the ids
    of its documents.
    """
    pages = {
        **PAGES,
        **{f"{i} again": Document(f"{i} again", page.text) for i, page in PAGES.items()},
    }
    data = Dataset("book", "test", pages, CASES, BOOK.qrels)
    text_of = {case.text: PAGES[case.query_id[1:]].text for case in CASES}
    by_text = retrieved(data, lambda question: {"contexts": [text_of[question]]})
    by_id = retrieved(data, lambda question: {"contexts": [{"id": text_of[question].split()[1]}]})
    table = rb.compare(by_id.scores, by_text.scores, measures=["R@5"])
    assert table[["baseline", "contender"]].values.tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize("as_ids", [["lists", "dict"], ["lists#0-60", "dict#0-60"]])
def test_strings_that_are_ids_are_documents_and_not_texts(as_ids: list[str]) -> None:
    result = retrieved(PYDOC, lambda question: as_ids)
    expected = retrieved(PYDOC, lambda question: [{"id": one} for one in as_ids])
    assert result.scores.equals(expected.scores)
    assert value(result, "R@5") < 0.05
    assert result.system["matched_passages"]["by id"] == 220


def test_ids_as_strings_score_as_the_retriever_that_gave_them() -> None:
    chunks = rb.chunk(PYDOC, "recursive")
    found = rb.retrieve(rb.make_retriever("bm25", chunks), PYDOC.queries)
    ids = {PYDOC.queries[query_id]: list(ranked) for query_id, ranked in found.items()}
    ranks = {
        query_id: {one: 1 / rank for rank, one in enumerate(ranked, 1)}
        for query_id, ranked in found.items()
    }
    result = retrieved(PYDOC, lambda question: ids[question])
    expected = rb.score_run(PYDOC.qrels, rb.to_documents(ranks, chunks), ["R@5", "RR"])
    for measure, mean in expected.groupby("measure")["value"].mean().items():
        assert value(result, str(measure)) == pytest.approx(mean)
    assert value(result, "context_evidence_recall") > 0.5, "a chunk's id names its characters"
