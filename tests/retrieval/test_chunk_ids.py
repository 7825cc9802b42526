"""An id of a chunk identifies its text, so a run from another chunking is refused and never scored."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import pytest

from ragbench.errors import DataError
from ragbench.evaluation import diagnose
from ragbench.generation import generate_answers
from ragbench.judges import judge
from ragbench.llms import ScriptedLLM
from ragbench.metrics import score_context, score_groundedness, score_retrieval, score_spans
from ragbench.retrieval import make_retriever, retrieve, to_documents
from ragbench.retrieval.chunkers import chunk
from ragbench.types import Answer, Case, Chunk, Dataset, Document, Run, Span

TEXT = (
    "Cats sleep most of the day. They hunt at dawn and at dusk. "
    "A cat that lives indoors needs a tree to climb. Water should stand apart from the food."
)
CASE = Case(
    "q",
    "When do cats hunt?",
    evidence=(Span("cats", 28, 58),),
    reference_answer="At dawn and at dusk.",
)
CORPUS = {"cats": Document("cats", TEXT), "tea": Document("tea", "Tea is green.")}
DATA = Dataset("pets", "test", CORPUS, [CASE], {"q": {"cats": 1}})


def searched(size: int) -> tuple[list[Chunk], Run]:
    chunks = chunk(DATA, "fixed", chunk_size=size)
    return chunks, retrieve(make_retriever("bm25", chunks), DATA.queries, chunks)


def scored(run: Run, chunks: list[Chunk]) -> list[Callable[[], object]]:
    answers = [Answer("q", "At dawn and at dusk.", contexts=tuple(run["q"]), outcome="success")]
    none = pd.DataFrame({"query_id": [], "measure": [], "value": []})
    claim = {
        "number": 1,
        "claim": "At dawn.",
        "reason": "it says so",
        "document": 1,
        "quote": "dawn",
        "supported": True,
    }
    verdict = {"faithfulness": {"claims": [claim]}}
    return [
        lambda: score_spans(DATA, run, chunks),
        lambda: to_documents(run, chunks),
        lambda: generate_answers(DATA, run, chunks),
        lambda: judge(answers, "faithfulness", ScriptedLLM([verdict]), dataset=DATA, chunks=chunks),
        lambda: score_context(DATA, answers, chunks),
        lambda: score_groundedness(DATA, answers, chunks),
        lambda: score_retrieval(DATA, {}, chunk_run=run, chunks=chunks, measures=["span:R@1"]),
        lambda: diagnose(DATA, run, answers, [], none, chunks),
    ]


@pytest.mark.parametrize("which", range(8))
def test_a_run_from_another_chunking_is_refused(which: int) -> None:
    (small, _), (_, run) = searched(8), searched(16)
    assert {piece.chunk_id for piece in small}.isdisjoint(run["q"])
    with pytest.raises(DataError, match=rf"'{next(iter(run['q']))}'.*another chunking"):
        scored(run, small)[which]()


def test_a_run_with_its_own_chunks_is_scored_as_before() -> None:
    chunks, run = searched(16)
    for score in scored(run, chunks):
        score()


def test_what_two_chunkings_share_has_one_id_and_one_text() -> None:
    (small, _), (large, _) = searched(8), searched(16)
    texts = {piece.chunk_id: piece for piece in small}
    shared = [piece for piece in large if piece.chunk_id in texts]
    assert [piece.chunk_id for piece in shared] == ["cats#141-146", "tea#0-13"]
    assert all(texts[piece.chunk_id] == piece for piece in shared)


@pytest.mark.parametrize("chunker", ["fixed", "sentence", "recursive", "markdown"])
def test_megabytes_without_a_space_are_no_single_chunk(chunker: str) -> None:
    text = "Before. " + "x" * 5_000_000 + " After."
    chunks = chunk({"d": text}, chunker, chunk_size=64)
    assert max(len(one.text) for one in chunks) <= 64 * 100
    assert "".join(one.text for one in chunks).replace(" ", "") == text.replace(" ", "")
