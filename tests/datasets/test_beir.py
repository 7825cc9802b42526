"""The BEIR folder: what is accepted, what is refused with file, line and value, what is only warned
about.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragbench.datasets.beir import load_beir_folder
from ragbench.errors import DataError, DataWarning
from ragbench.testsets.loader import load_dataset
from ragbench.types import Document

WriteFolder = Callable[..., Path]

HEADER = "query-id\tcorpus-id\tscore\n"


def jsonl(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


# --- what is accepted
# ---------------------------------------------------------------------------------------------


def test_small_folder(write_folder: WriteFolder) -> None:
    dataset = load_beir_folder(write_folder())
    assert (dataset.name, dataset.split) == ("small", "test")
    assert dataset.corpus == {
        "d1": Document("d1", "Body one.", "Head"),
        "d2": Document("d2", "Body two."),
    }
    assert dataset.queries == {"q1": "one?", "q2": "two?"}
    assert dataset.qrels == {"q1": {"d1": 2}, "q2": {"d2": 1}}


def test_bom_crlf_and_blank_lines(write_folder: WriteFolder) -> None:
    folder = write_folder(name="plain")
    odd = {
        str(path.relative_to(folder)): b"\xef\xbb\xbf"
        + path.read_bytes().replace(b"\n", b"\r\n \r\n\r\n")
        for path in folder.rglob("*.*")
    }
    assert len(odd) == 3
    assert (
        load_beir_folder(write_folder(odd, name="odd")).fingerprint
        == load_beir_folder(folder).fingerprint
    )


def test_numeric_ids_become_strings(write_folder: WriteFolder) -> None:
    folder = write_folder(
        {
            "corpus.jsonl": jsonl({"_id": 1, "text": "a"}),
            "queries.jsonl": jsonl({"_id": 7, "text": "b"}),
            "qrels/test.tsv": HEADER + "7\t1\t1\n",
        }
    )
    dataset = load_beir_folder(folder)
    assert list(dataset.corpus) == ["1"]
    assert dataset.qrels == {"7": {"1": 1}}


def test_extra_fields_become_metadata(write_folder: WriteFolder) -> None:
    folder = write_folder(
        {
            "corpus.jsonl": jsonl(
                {
                    "_id": "d1",
                    "text": "a",
                    "title": None,
                    "metadata": {"year": 2020, "url": ""},
                    "url": "u",
                    "x": None,
                },
                {"_id": "d2", "text": "b", "metadata": {}},
            ),
            "queries.jsonl": jsonl(
                {
                    "_id": "q1",
                    "text": "one?",
                    "category": "multi_hop",
                    "query_type": "why",
                    "lang": "en",
                },
                {"_id": "q2", "text": "two?", "metadata": "just a string"},
            ),
        }
    )
    dataset = load_beir_folder(folder)
    assert dataset.corpus["d1"] == Document("d1", "a", "", {"year": 2020, "url": "u"})
    assert dataset.corpus["d2"].metadata == {}
    first, second = dataset.cases
    assert (first.category, first.query_type, first.metadata) == (
        "multi_hop",
        "why",
        {"lang": "en"},
    )
    assert second.metadata == {"metadata": "just a string"}


def test_file_order_is_kept(write_folder: WriteFolder) -> None:
    folder = write_folder(
        {
            "corpus.jsonl": jsonl(*({"_id": f"d{i}", "text": "x"} for i in (3, 1, 2))),
            "queries.jsonl": jsonl(*({"_id": f"q{i}", "text": "x"} for i in (9, 1, 5))),
            "qrels/test.tsv": HEADER + "q1\td1\t1\nq5\td2\t1\nq9\td3\t1\n",
        }
    )
    dataset = load_beir_folder(folder)
    assert list(dataset.corpus) == ["d3", "d1", "d2"]
    assert list(dataset.queries) == list(dataset.qrels) == ["q9", "q1", "q5"]


@pytest.mark.filterwarnings(
    "ignore::ragbench.errors.DataWarning"
)  # of documents outside the corpus
def test_qrels_accept_negative_grades_repeated_pairs_and_quoted_ids(
    write_folder: WriteFolder,
) -> None:
    rows = 'q1\td1\t-1\nq1\td2\t0\nq1\td1\t-1\nq2\t"say ""hi"""\t1\nq3\t"open\t1\nq2\td2\t1\n'
    queries = jsonl(*({"_id": f"q{i}", "text": "x"} for i in (1, 2, 3)))
    dataset = load_beir_folder(
        write_folder({"qrels/test.tsv": HEADER + rows, "queries.jsonl": queries})
    )
    assert dataset.qrels == {
        "q1": {"d1": -1, "d2": 0},
        "q2": {'say "hi"': 1, "d2": 1},
        "q3": {'"open': 1},
    }


def test_a_carriage_return_between_the_fields_of_a_record_is_white_space(
    write_folder: WriteFolder,
) -> None:
    folder = write_folder(
        {"corpus.jsonl": '{"_id": "d1",\r"text": "a"}\n{"_id": "d2", "text": "b"}\n'}
    )
    assert [document.text for document in load_beir_folder(folder).corpus.values()] == ["a", "b"]


def test_the_package_beir_reads_the_texts(
    write_folder: WriteFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from beir.datasets.data_loader import GenericDataLoader

    loaders: list[GenericDataLoader] = []
    make = GenericDataLoader.__init__

    def noted(loader: GenericDataLoader, *args: object, **options: object) -> None:
        make(loader, *args, **options)
        loaders.append(loader)

    monkeypatch.setattr(GenericDataLoader, "__init__", noted)
    dataset = load_beir_folder(write_folder())
    corpus, judgements = loaders
    assert {doc_id: fields["text"] for doc_id, fields in corpus.corpus.items()} == {
        document.doc_id: document.text for document in dataset.corpus.values()
    }
    assert judgements.qrels == dataset.qrels
    assert judgements.queries == dataset.queries


def test_line_separators_of_unicode_do_not_end_a_line(write_folder: WriteFolder) -> None:
    record = json.dumps({"_id": "d1", "text": "a\u2028b\x85c\x0bd"}, ensure_ascii=False)
    folder = write_folder({"corpus.jsonl": record + "\n" + jsonl({"_id": "d2", "text": "b"})})
    assert load_beir_folder(folder).corpus["d1"].text == "a\u2028b\x85c\x0bd"


def test_other_split(write_folder: WriteFolder) -> None:
    folder = write_folder({"qrels/dev.tsv": HEADER + "q1\td1\t1\nq2\td1\t1\n"})
    dataset = load_beir_folder(folder, "dev")
    assert (dataset.split, dataset.qrels["q2"]) == ("dev", {"d1": 1})


# --- what is refused: one error with file, line, value
# ------------------------------------------------------------

MALFORMED: dict[str, tuple[dict[str, str | bytes | None], list[str]]] = {
    "no corpus": ({"corpus.jsonl": None}, ["corpus.jsonl is missing", "qrels/<split>.tsv"]),
    "no queries": ({"queries.jsonl": None}, ["queries.jsonl is missing"]),
    "no qrels": ({"qrels/test.tsv": None}, ["no split 'test'", "no split at all"]),
    "other splits": (
        {"qrels/test.tsv": None, "qrels/dev.tsv": HEADER, "qrels/train.tsv": HEADER},
        ["no split 'test'", "dev, train"],
    ),
    "bad JSON": (
        {"corpus.jsonl": '{"_id": "d1", "text": "a"}\n\n{"_id": "d2", "text": \n'},
        ["corpus.jsonl, line 3", "not valid JSON", '{"_id": "d2"'],
    ),
    "array": ({"corpus.jsonl": '["d1"]\n'}, ["corpus.jsonl, line 1", "['d1'] is not an object"]),
    "deep": ({"corpus.jsonl": "[" * 100_000 + "\n"}, ["corpus.jsonl, line 1", "not valid JSON"]),
    "long number": (
        {"corpus.jsonl": '{"_id": ' + "9" * 5000 + "}\n"},
        ["corpus.jsonl, line 1", "not valid JSON"],
    ),
    "not UTF-8": (
        {"corpus.jsonl": b'{"_id": "d1", "text": "caf\xe9"}\n'},
        ["line 1", "0xe9", "UTF-8"],
    ),
    "UTF-16": (
        {"queries.jsonl": '{"_id": "q1"}\n'.encode("utf-16")},
        ["queries.jsonl, line 1", "UTF-8"],
    ),
    "half character": (
        {"corpus.jsonl": '{"_id": "d1", "text": "\\ud800"}\n'},
        ["line 1", "half of a surrogate pair"],
    ),
    "no id": (
        {"corpus.jsonl": jsonl({"id": "d1", "text": "a"})},
        ["line 1", "'_id' is missing", "id, text"],
    ),
    "no text": (
        {"queries.jsonl": jsonl({"_id": "q1", "query": "a"})},
        ["queries.jsonl, line 1", "'text' is missing"],
    ),
    "null text": (
        {"corpus.jsonl": jsonl({"_id": "d1", "text": None})},
        ["'text' is None", "string"],
    ),
    "text is a list": (
        {"corpus.jsonl": jsonl({"_id": "d1", "text": ["a"]})},
        ["'text' is ['a']", "string"],
    ),
    "title is a number": (
        {"corpus.jsonl": jsonl({"_id": "d1", "text": "a", "title": 3})},
        ["'title' is 3"],
    ),
    "id is a float": ({"corpus.jsonl": jsonl({"_id": 1.5, "text": "a"})}, ["'_id' is 1.5"]),
    "id is true": ({"corpus.jsonl": jsonl({"_id": True, "text": "a"})}, ["'_id' is True"]),
    "id is empty": ({"queries.jsonl": jsonl({"_id": "", "text": "a"})}, ["'_id' is ''"]),
    "empty corpus": ({"corpus.jsonl": "\n \n"}, ["corpus.jsonl is empty"]),
    "empty queries": ({"queries.jsonl": ""}, ["queries.jsonl is empty"]),
    "document twice": (
        {
            "corpus.jsonl": jsonl(
                {"_id": 1, "text": "a"}, {"_id": "d2", "text": "b"}, {"_id": "1", "text": "c"}
            )
        },
        ["corpus.jsonl, line 3", "document id '1'", "line 1 already"],
    ),
    "query twice": (
        {"queries.jsonl": "\n" + jsonl({"_id": "q1", "text": "a"}, {"_id": "q1", "text": "a"})},
        ["queries.jsonl, line 3", "query id 'q1'", "line 2 already"],
    ),
    "no header": (
        {"qrels/test.tsv": "q1\td1\t1\n"},
        ["test.tsv, line 1", "['q1', 'd1', '1']", "query-id"],
    ),
    "empty qrels": ({"qrels/test.tsv": ""}, ["test.tsv, line 1", "header"]),
    "TREC qrels": (
        {"qrels/test.tsv": "q1\t0\td1\t1\n"},
        ["test.tsv, line 1", "TREC", "second column"],
    ),
    "other header": ({"qrels/test.tsv": "qid,docid,rel\nq1,d1,1\n"}, ["line 1", "qid,docid,rel"]),
    "only a header": (
        {"qrels/test.tsv": HEADER},
        ["judges none of the 2 queries", "nothing is judged"],
    ),
    "word as grade": (
        {"qrels/test.tsv": HEADER + "q1\td1\thigh\n"},
        ["test.tsv, line 2", "'high'", "whole number"],
    ),
    "broken grade": ({"qrels/test.tsv": HEADER + "q1\td1\t1.5\n"}, ["test.tsv, line 2", "'1.5'"]),
    "no grade": (
        {"qrels/test.tsv": HEADER + "q1\td1\n"},
        ["test.tsv, line 2", "2 columns", "expected 3"],
    ),
    "spaces": ({"qrels/test.tsv": HEADER + "q1 d1 1\n"}, ["test.tsv, line 2", "1 columns", "tabs"]),
    "line break in an id": (
        {"qrels/test.tsv": HEADER + "q\r1\td1\t1\n"},
        ["test.tsv, line 2", "line break"],
    ),
    "empty doc id": ({"qrels/test.tsv": HEADER + "q1\t\t1\n"}, ["test.tsv, line 2", "empty id"]),
    "huge grade": (
        {"qrels/test.tsv": HEADER + "q1\td1\t10000000\n"},
        ["test.tsv, line 2", "out of range"],
    ),
    "conflict": (
        {"qrels/test.tsv": HEADER + "q1\td1\t1\nq2\td2\t1\nq1\td1\t2\n"},
        ["test.tsv, line 4", "'q1'", "'d1'", "judged 2 here and 1 earlier"],
    ),
    "other queries": (
        {"qrels/test.tsv": HEADER + "x1\td1\t1\n"},
        ["judges none", "'q1'", "'x1'", "the same"],
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_folder_is_one_clear_error(name: str, write_folder: WriteFolder) -> None:
    changed, expected = MALFORMED[name]
    with pytest.raises(DataError) as caught:
        load_beir_folder(write_folder(changed))
    for part in expected:
        assert part in str(caught.value)


def test_the_error_for_a_folder_above_the_set_names_the_right_one(
    write_folder: WriteFolder,
) -> None:
    with pytest.raises(DataError, match="look like one: small"):
        load_beir_folder(write_folder().parent)


def test_split_cannot_leave_the_folder(write_folder: WriteFolder) -> None:
    folder = write_folder({"outside.tsv": HEADER + "q1\td1\t1\n"})
    with pytest.raises(DataError, match=r"no split '\.\./outside'"):
        load_beir_folder(folder, "../outside")


def test_a_directory_in_place_of_a_file(write_folder: WriteFolder) -> None:
    folder = write_folder()
    (folder / "answers.jsonl").mkdir()
    assert len(load_beir_folder(folder).cases) == 2  # not a file: as good as not there
    (folder / "corpus.jsonl").unlink()
    (folder / "corpus.jsonl").mkdir()
    with pytest.raises(DataError, match=r"corpus.jsonl is missing"):
        load_beir_folder(folder)


@settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    content=st.one_of(
        st.binary(max_size=200),
        st.lists(
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
                lambda inner: (
                    st.lists(inner, max_size=2)
                    | st.dictionaries(
                        st.sampled_from(["_id", "text", "title", "metadata", "x"]),
                        inner,
                        max_size=5,
                    )
                ),
                max_leaves=8,
            ),
            max_size=4,
        ).map(lambda records: "\n".join(json.dumps(record) for record in records).encode()),
        st.binary(max_size=30).map(lambda noise: b'{"_id": "d1", "text": "' + noise + b'"}\n'),
    ),
    file=st.sampled_from(
        ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv", "answers.jsonl", "questions.jsonl"]
    ),
)
def test_any_bytes_load_or_are_a_data_error(
    content: bytes, file: str, write_folder: WriteFolder
) -> None:
    folder = write_folder({"answers.jsonl": "", "questions.jsonl": "", file: content})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        try:
            dataset = load_beir_folder(folder)
        except DataError as exc:
            message = str(exc)
        else:
            message = f"{folder} loaded"
            assert len(dataset.fingerprint) == 64
    assert str(folder) in message


# --- flaws that are no errors: one warning each
# -------------------------------------------------------------------


def test_judged_documents_outside_the_corpus_stay_in_the_qrels(write_folder: WriteFolder) -> None:
    folder = write_folder(
        {"qrels/test.tsv": HEADER + "q1\td1\t1\nq1\tgone\t1\nq2\tgone\t1\nq2\tlost\t0\n"}
    )
    with pytest.warns(
        DataWarning, match=r"2 judged documents are not in the corpus.*\(first: 'gone', 'lost'\)"
    ) as caught:
        dataset = load_beir_folder(folder)
    assert len(caught) == 1
    assert dataset.qrels == {"q1": {"d1": 1, "gone": 1}, "q2": {"gone": 1, "lost": 0}}


def test_empty_documents_are_kept(write_folder: WriteFolder) -> None:
    records = [{"_id": f"d{i}", "text": " \n", "title": "Head" if i == 1 else ""} for i in range(6)]
    with pytest.warns(
        DataWarning, match=r"5 documents are empty.*\(first: 'd0', 'd2', 'd3'\)"
    ) as caught:
        dataset = load_beir_folder(write_folder({"corpus.jsonl": jsonl(*records)}))
    assert len(caught) == 1
    assert len(dataset.corpus) == 6


def test_queries_without_judgement_are_left_out(write_folder: WriteFolder) -> None:
    folder = write_folder({"qrels/test.tsv": HEADER + "q2\td2\t1\n"})
    with pytest.warns(
        DataWarning, match=r"1 queries have no judgement in split 'test' and are left out.*'q1'"
    ) as caught:
        dataset = load_beir_folder(folder)
    assert len(caught) == 1
    assert list(dataset.queries) == list(dataset.qrels) == ["q2"]


def test_judged_queries_that_are_not_there_are_left_out(write_folder: WriteFolder) -> None:
    folder = write_folder({"qrels/test.tsv": HEADER + "q1\td1\t1\nq2\td2\t1\nq3\tgone\t1\n"})
    with pytest.warns(
        DataWarning, match=r"1 judged queries are not among the queries.*'q3'"
    ) as caught:
        dataset = load_beir_folder(folder)
    assert len(caught) == 1  # the document that only the lost query names is not a flaw of its own
    assert "q3" not in dataset.qrels


# --- the real collections
# -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "documents", "queries", "judgements", "spans"),
    [
        ("pubmedqa", 1000, 1000, 1000, 0),
        ("squad", 240, 1190, 1190, 1190),
        ("clapnq", 597, 600, 300, None),
        ("chunking", 5, 472, 472, 790),
    ],
)
def test_real_collection(
    shared_data: Path, name: str, documents: int, queries: int, judgements: int, spans: int | None
) -> None:
    dataset = load_beir_folder(shared_data / name)
    assert (dataset.name, len(dataset.corpus), len(dataset.cases)) == (name, documents, queries)
    assert sum(len(judged) for judged in dataset.qrels.values()) == judgements
    assert list(dataset.qrels) == [case.query_id for case in dataset.cases]
    evidence = [span for case in dataset.cases for span in case.evidence]
    if spans is not None:
        assert len(evidence) == spans
    for span in evidence:
        assert 0 <= span.start < span.end <= len(dataset.corpus[span.doc_id].full_text)


@pytest.mark.filterwarnings("ignore")  # of beir's progress bar
@pytest.mark.parametrize("name", ["pubmedqa", "squad", "clapnq", "chunking"])
def test_nothing_that_beir_reads_is_changed_or_dropped(shared_data: Path, name: str) -> None:
    from beir.datasets.data_loader import GenericDataLoader

    corpus, queries, qrels = GenericDataLoader(str(shared_data / name)).load("test")
    ours = load_beir_folder(shared_data / name)
    assert {d.doc_id: {"text": d.text, "title": d.title} for d in ours.corpus.values()} == {
        doc_id: {"text": fields["text"], "title": fields["title"] or ""}
        for doc_id, fields in corpus.items()
    }
    judged = {query_id: grades for query_id, grades in ours.qrels.items() if grades}
    assert judged == qrels
    assert {query_id: ours.queries[query_id] for query_id in judged} == queries


def test_chunking_spans_hold_the_quotes(shared_data: Path) -> None:
    dataset = load_beir_folder(shared_data / "chunking")
    cases = {case.query_id: case for case in dataset.cases}
    with (shared_data / "chunking" / "questions.jsonl").open(encoding="utf-8") as file:
        for record in map(json.loads, file):
            quotes = [reference["content"] for reference in record["references"]]
            spans = cases[record["_id"]].evidence
            assert [dataset.corpus[s.doc_id].full_text[s.start : s.end] for s in spans] == quotes


def test_pubmedqa_answers(shared_data: Path) -> None:
    dataset = load_beir_folder(shared_data / "pubmedqa")
    assert all(case.reference_answer for case in dataset.cases)
    labels = [case.metadata["label"] for case in dataset.cases]
    assert (labels.count("yes"), labels.count("no"), labels.count("maybe")) == (552, 338, 110)
    assert dataset.corpus["21645374"].metadata["year"] == "2011"


def test_squad_answers_are_at_their_offsets(shared_data: Path) -> None:
    dataset = load_beir_folder(shared_data / "squad")
    for case in dataset.cases:
        (span,) = case.evidence
        assert dataset.corpus[span.doc_id].full_text[span.start : span.end] == case.reference_answer
        assert case.gold_facts == ((case.reference_answer,),)


def test_clapnq_keeps_the_unanswerable(shared_data: Path) -> None:
    dataset = load_beir_folder(shared_data / "clapnq")
    unanswerable = [case for case in dataset.cases if case.expected_outcome == "no_results"]
    answerable = [case for case in dataset.cases if case.expected_outcome == "success"]
    assert (len(unanswerable), len(answerable)) == (300, 300)
    assert all(
        dataset.qrels[case.query_id] == {} and case.reference_answer is None and not case.evidence
        for case in unanswerable
    )
    assert all(case.reference_answer for case in answerable)
    assert sum(1 for case in answerable if case.evidence) >= 299


def test_a_zip_of_a_folder_is_unpacked_into_the_cache(
    write_folder: WriteFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "cache"))
    folder = write_folder()
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", folder.parent, folder.name)
    for _ in range(2):
        dataset = load_dataset(archive)
        assert (dataset.name, dataset.fingerprint) == ("packed", load_dataset(folder).fingerprint)
    Path(archive).write_bytes(b"PK")
    with pytest.raises(DataError, match=r"packed\.zip: it is not a whole zip archive"):
        load_dataset(archive)


def test_judgements_as_lines_of_json(write_folder: WriteFolder) -> None:
    folder = write_folder()
    expected = load_dataset(folder)
    lines = [
        {"query-id": query_id, "corpus-id": doc_id, "score": grade}
        for query_id, grades in expected.qrels.items()
        for doc_id, grade in grades.items()
    ]
    (folder / "qrels" / "test.tsv").unlink()
    (folder / "qrels" / "test.jsonl").write_text(jsonl(*lines))
    assert load_dataset(folder).fingerprint == expected.fingerprint
    (folder / "qrels" / "test.jsonl").write_text(jsonl({"query-id": "q1", "score": 1}))
    with pytest.raises(DataError, match=r"test\.jsonl, line 1: 'corpus-id' is missing"):
        load_dataset(folder)


@pytest.mark.parametrize("grade", ["1.0", "1.", "1.00", "+1.0", " 1.0", "01.0", "1", "1 "])
def test_grades_with_a_point_in_a_file_are_whole_numbers(
    write_folder: WriteFolder, grade: str
) -> None:
    folder = write_folder({"qrels/test.tsv": HEADER + f"q1\td1\t{grade}\nq2\td2\t2\n"})
    assert load_dataset(folder).qrels == {"q1": {"d1": 1}, "q2": {"d2": 2}}
