"""Documents that a system names by a path, an address or a file name are credited by the score."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest

import ragbench as rb
from ragbench.errors import DataWarning
from ragbench.systems import match_passages, read_answer

IDS = ("guides/setup.md", "guides/backup.md", "a/README.md", "b/README.md", "Übersicht.md", "7.md")
DATA = rb.Dataset(
    "guide",
    "test",
    {doc_id: rb.Document(doc_id, f"The text number {n} is short.") for n, doc_id in enumerate(IDS)},
    [rb.Case("q1", "How is it installed?")],
    {"q1": {"guides/setup.md": 1}},
)
TEXT = "Run it twice."  # in no document


class Node:
    """A document of LangChain, or a node of LlamaIndex."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


def langchain(source: str) -> Any:
    return Node(page_content=TEXT, metadata={"source": source, "page": 3})


def qdrant(source: str) -> Any:
    metadata = {"source": source, "_id": "6f1c", "_collection_name": "docs"}
    return Node(id="6f1c", score=0.5, payload={"page_content": TEXT, "metadata": metadata})


def llama_index(path: str) -> Any:
    metadata = {"file_path": path, "file_name": path.replace("\\", "/").rpartition("/")[2]}
    return {"node": Node(node_id="8d2e", text=TEXT, ref_doc_id="51ab", metadata=metadata)}


def lancedb(path: str) -> Any:
    return {"content": TEXT, "file": path, "vector": [0.1, 0.2], "_distance": 0.3}


def top_level(path: str) -> Any:
    return {"source": path, "text": TEXT}


def elasticsearch(path: str) -> Any:
    return {
        "_id": "x1",
        "_score": 2.0,
        "_source": {"content": TEXT, "file": {"path": path}, "path": path},
    }


def by_id(path: str) -> Any:
    return {"id": path}


def scores(contexts: list[Any], data: rb.Dataset = DATA) -> tuple[float, float]:
    """RR and nDCG@10 of the question."""
    matched = match_passages([read_answer("q1", contexts)], data)
    frame = rb.score_run(data.qrels, matched.run, ["RR", "nDCG@10"])
    values = frame.set_index("measure")["value"]
    return round(float(values["RR"]), 3), round(float(values["nDCG@10"]), 3)


FORMS = [langchain, qdrant, llama_index, lancedb, top_level, elasticsearch, by_id]
PATHS = [
    "guides/setup.md",
    "./guides/setup.md",
    "../kb/guides/setup.md",
    "/data/guides/setup.md",
    "/data//guides/./setup.md",
    "C:\\kb\\guides\\setup.md",
    "guides\\setup.md",
    "\\\\server\\kb\\guides\\setup.md",
    "file:///C:/kb/guides/setup.md",
    "s3://bucket/kb/guides/setup.md",
    "https://example.org/guides/setup.md?version=2#top",
    "/data/docs/setup.md",
    "D:\\docs\\setup.md",
    "setup.md",
    "/tmp/upload/setup.pdf",
    "/data/guides/setup.md#page=2",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("form", FORMS)
def test_a_path_is_credited(form: Any, path: str) -> None:
    wrong = form(path.replace("setup", "backup"))
    assert scores([form(path), wrong]) == (1.0, 1.0)
    assert scores([wrong, form(path)]) == (0.5, round(1 / math.log2(3), 3))


@pytest.mark.parametrize(
    ("path", "doc_id"),
    [
        ("/data/a/README.md", "a/README.md"),
        ("/data/U\u0308bersicht.md", "Übersicht.md"),
        ("https://example.org/%C3%9Cbersicht.html", "Übersicht.md"),
        ("/data/7.pdf", "7.md"),
        ("Übersicht", "Übersicht.md"),
    ],
)
def test_a_path_names_its_document(path: str, doc_id: str) -> None:
    data = rb.Dataset("g", "test", DATA.corpus, DATA.cases, {"q1": {doc_id: 1}})
    assert scores([top_level(path)], data) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("paths", "doc_id"),
    [
        (["/data/README.md"], "a/README.md"),  # two documents have that name
        (["/data/c/README.md"], "a/README.md"),
        (["/data/README.pdf"], "a/README.md"),  # and that stem
        (["/v1/setup.md", "/v2/setup.md"], "guides/setup.md"),  # two files of the system have it
        (["/v1/guides/setup.md", "/v2/guides/setup.md"], "guides/setup.md"),
        (["/data/setup.pdf", "/data/setup.docx"], "guides/setup.md"),
        (["/data/old-setup.md"], "guides/setup.md"),  # not a whole part of the path
        (["/data/setup.md.d/x.md"], "guides/setup.md"),
        (["guides"], "guides/setup.md"),
        (["chunks/7"], "7.md"),  # a number
        (["7"], "7.md"),
        (["setup v1.2"], "guides/setup.md"),
    ],
)
def test_what_may_be_another_document_is_not_credited(paths: list[str], doc_id: str) -> None:
    data = rb.Dataset("g", "test", DATA.corpus, DATA.cases, {"q1": {doc_id: 1}})
    assert scores([top_level(path) for path in paths], data) == (0.0, 0.0)


@pytest.mark.parametrize("better", ["guides/setup.md", "/data/guides/setup.md"])
def test_the_better_name_counts_where_two_files_have_one_name(better: str) -> None:
    assert scores([top_level("/old/setup.md"), top_level(better)]) == (0.5, 0.631)


def test_chunks_of_one_file_are_one_document() -> None:
    chunks = [
        {"id": f"c{n}", "text": f"Part {n}.", "metadata": {"source": "/data/setup.md"}}
        for n in range(3)
    ]
    assert scores([{"id": "c9", "text": "Other."}, *chunks]) == (0.5, 0.631)


def test_the_longest_id_in_a_path_counts() -> None:
    ids = "docs/x.md", "a/docs/x.md"
    for relevant, path in zip(ids, ("/kb/docs/x.md", "/kb/a/docs/x.md"), strict=True):
        corpus = {doc_id: rb.Document(doc_id, doc_id) for doc_id in ids}
        data = rb.Dataset("g", "test", corpus, DATA.cases, {"q1": {relevant: 1}})
        assert scores([top_level(path)], data) == (1.0, 1.0)


def test_a_path_that_is_an_id_counts_before_one_that_is_its_end() -> None:
    ids = "docs/x.md", "a/docs/x.md"
    corpus = {doc_id: rb.Document(doc_id, doc_id) for doc_id in ids}
    data = rb.Dataset("g", "test", corpus, DATA.cases, {"q1": {"docs/x.md": 1}})
    assert scores([top_level("./docs/x.md")], data) == (1.0, 1.0)


@pytest.mark.parametrize("file_name", ["backup.pdf", "backup.md"])
def test_a_path_of_a_passage_counts_before_a_file_name_of_it(file_name: str) -> None:
    context = {"text": TEXT, "file_name": file_name, "source": "/kb/guides/setup.md"}
    assert scores([context]) == (1.0, 1.0)


def test_a_file_that_is_a_document_by_id_leaves_it_to_no_other_file() -> None:
    by_its_id = {"id": "guides/setup.md", "text": TEXT, "source": "/other/setup.md"}
    assert scores([top_level("/x/guides/setup.md"), by_its_id]) == (0.5, 0.631)


def test_a_test_set_without_documents_is_matched_by_its_labels() -> None:
    data = rb.Dataset("g", "test", {}, DATA.cases, {"q1": {"guides/setup.md": 1}})
    assert scores([top_level("/x/other.md"), top_level("/x/guides/setup.md")], data) == (0.5, 0.631)


def test_the_ways_are_counted_in_one_warning() -> None:
    contexts = [
        {"id": "7.md"},
        top_level("/data/guides/setup.md"),
        top_level("backup.md"),
        top_level("/data/a/README.md"),
        {"text": "The text number 3 is short."},
        {"text": "Nowhere."},
    ]
    message = "1 by id, 2 by path, 1 by file name, 1 by text; 1 were not matched"
    with pytest.warns(DataWarning, match=message) as caught:
        result = rb.evaluate(DATA, lambda question: contexts, perspectives=["retrieval"])
    assert sum("by file name" in str(each.message) for each in caught) == 1
    assert result.system["matched_passages"]["by path"] == 2


def test_ids_are_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rb.evaluate(DATA, lambda question: [{"id": "guides/setup.md"}], perspectives=["retrieval"])
