"""Runs and judgements of TREC tools, and measures with the values of ir_measures."""

from __future__ import annotations

import gzip
import importlib
import itertools
import os
import re
import sys
import unittest
from pathlib import Path
from types import ModuleType
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
import pytest
from ir_measures import Qrel, ScoredDoc

import ragbench as rb
from ragbench.errors import ConfigError, DataError
from ragbench.metrics import read_qrels, read_run
from ragbench.metrics.ranking_measures import parse_measure
from tests.metrics.test_retrieval import evaluate

QRELS = {"q1": {"a": 2, "b": 1, "c": 0}, "q2": {"a": 0, "d": 3}, "q3": {"x": 1}}
RUN = {"q1": {"z": 3.0, "a": 2.0, "c": 1.0}, "q2": {"d": 9.5, "a": 9.25, "y": 1.0, "z": 0.5}}


class Ranx:
    """As runs and judgements of ranx are."""

    def __init__(self, nested: dict[str, Any]) -> None:
        self.nested = nested

    def to_dict(self) -> dict[str, Any]:
        return self.nested


def rows(nested: dict[str, Any], *names: str) -> pd.DataFrame:
    found = [(query, doc, value) for query, inner in nested.items() for doc, value in inner.items()]
    return pd.DataFrame(found, columns=list(names))


def test_every_form_is_the_same_run_and_scores_the_same(tmp_path: Path) -> None:
    run, qrels = tmp_path / "bm25.trec", tmp_path / "qrels.txt"
    run.write_text(
        "\n".join(
            f"{q} Q0 {d} {i} {s} bm25" for q, r in RUN.items() for i, (d, s) in enumerate(r.items())
        )
    )
    qrels.write_text("".join(f"{q}\t0\t{d}\t{g}\n" for q, r in QRELS.items() for d, g in r.items()))
    (tmp_path / "beir.tsv").write_text(
        "query-id\tcorpus-id\tscore\n"
        + rows(QRELS, *"abc").to_csv(None, sep="\t", index=False, header=False)
    )
    with gzip.open(tmp_path / "bm25.run.gz", "wt") as file:
        file.write(run.read_text())
    run_rows = [ScoredDoc(*row) for row in rows(RUN, *"abc").itertuples(index=False)]
    qrel_rows = [Qrel(*row) for row in rows(QRELS, *"abc").itertuples(index=False)]
    runs: list[Any] = [
        run,
        str(tmp_path / "bm25.run.gz"),
        Ranx(RUN),
        rows(RUN, "qid", "docno", "score"),
        run_rows,
    ]
    judged: list[Any] = [
        qrels,
        tmp_path / "beir.tsv",
        Ranx(QRELS),
        rows(QRELS, "qid", "docno", "label"),
        qrel_rows,
    ]
    expected = rb.score_run(QRELS, RUN, ["nDCG@2", "Judged@2"])
    for one, other in zip(runs, judged, strict=True):
        assert (read_run(one), read_qrels(other)) == (RUN, QRELS)
        if not isinstance(one, list):
            pd.testing.assert_frame_equal(
                rb.score_run(other, one, ["nDCG@2", "Judged@2"]), expected
            )


def test_ids_that_ragbench_wrote_come_back_and_those_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "a.trec").write_text("q1 Q0 a%20b 1 2.0 ragbench\nq1 Q0 a%20b 1 2.0 theirs\n")
    assert read_run(tmp_path / "a.trec") == {"q1": {"a b": 2.0, "a%20b": 2.0}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q1 Q0 a 1 2.0 x\nq1 Q0 a\n", r"bad.run, line 2: expected 6 columns: .*, not 'q1 Q0 a'"),
        ("q1 Q0 a 1 high x\n", r"'high' of document 'a' .* not a finite number"),
        ("q1 Q0 a 1 2 x\nq1 Q0 a 2 1 x\n", r"document 'a' is repeated for query 'q1' \(row 1\)"),
        ("q1 0 a 1\n", "expected 6 columns"),
        ("\n", "could not be read"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.run").write_text(text)
    with pytest.raises(DataError, match=message):
        read_run(tmp_path / "bad.run")
    with pytest.raises(DataError, match="run: no column 'doc_id'"):
        read_run(pd.DataFrame({"qid": ["q"], "score": [1.0]}))
    with pytest.raises(DataError, match=r"1.5 of document 'a' .* not a whole number"):
        read_qrels([("q", "a", 1.5)])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("q1 0 A B.md 1\nq1 0 c.md 0\n", "line 1: .*not 'q1 0 A B.md 1' with 5 columns"),
        ("q1 0 c.md 0\nq1 0 A B.md 1\n", "line 2: .*'q1 0 A B.md 1'"),
        ("q1 0 a 1\nq1 0 b 1\nq1 0 c\n", "line 3: .*'q1 0 c'"),
        ("\nq1 0 a 1\nq1 0 my doc.md 1\nq2 0 b 0\n", "line 3: .*'q1 0 my doc.md 1'"),
        ("q1 a 1\nq1 a b 1 1\n", "line 2: .*'q1 a b 1 1'"),
        ("q1 0 a b c 1 1\n", "line 1: .*with 7 columns"),
        ("q1\nq1 0 c.md 0\n", "line 1: .*'q1' with 1 columns"),
        ("q1 0 a b 1\nq1 0 c d 1\n", "line 1: .*'q1 0 a b 1'"),
    ],
)
@pytest.mark.parametrize("is_zipped", [False, True])
def test_the_first_line_of_judgements_that_is_wrong_is_named(
    tmp_path: Path, text: str, line: str, is_zipped: bool
) -> None:
    path = tmp_path / ("qrels.txt.gz" if is_zipped else "qrels.txt")
    path.write_bytes(gzip.compress(text.encode()) if is_zipped else text.encode())
    with pytest.raises(DataError, match=line):
        rb.score_run(path, {"q1": {"c.md": 1.0}}, ["RR"])


@pytest.mark.parametrize(
    "qrels",
    [
        {"q1": {"a": 2.0, "b": 0.0}},
        pd.DataFrame({"query_id": ["q1", "q1"], "doc_id": ["a", "b"], "relevance": [2.0, 0.0]}),
        pd.DataFrame(
            {"qid": ["q1", "q1"], "docno": ["a", "b"], "label": pd.array([2, 0], "Int64")}
        ),
        pd.DataFrame({"qid": ["q1", "q1"], "docno": ["a", "b"], "label": pd.array([2, 0], "int8")}),
        [("q1", "a", 2.0), ("q1", "b", 0)],
        "q1 0 a 2.0\nq1 0 b 0.0\n",
        "query-id corpus-id score\nq1 a 2.0\nq1 b 0\n",
        "q1 a 2.\nq1 b 0\n",
    ],
)
def test_grades_with_a_point_are_whole_numbers(tmp_path: Path, qrels: Any) -> None:
    if isinstance(qrels, str):
        (tmp_path / "qrels.txt").write_text(qrels)
        qrels = tmp_path / "qrels.txt"
    assert read_qrels(qrels) == {"q1": {"a": 2, "b": 0}}


MEASURES = [
    *map(
        "".join,
        itertools.product(
            ("P", "R", "RR", "AP", "Success"), ("", "(rel=2)", "(rel=3)"), ("@1", "@3", "@9")
        ),
    ),
    *map("".join, itertools.product(("RR", "AP", "SetP", "SetR", "SetF"), ("", "(rel=2)"))),
    "nDCG",
    "nDCG@3",
    "SetF(beta=2.0)",
    "SetF(rel=2,beta=0.5)",
    "Judged",
    "Judged@1",
    "Judged@3",
    "Judged@10",
]
"""The forms that the documentation of ir_measures lists for these measures."""


def test_measures_have_the_values_of_ir_measures() -> None:
    rng = np.random.default_rng(3)
    docs = [f"d{i}" for i in range(30)]
    # no ties: Judged of ir_measures orders them otherwise than trec_eval
    qrels = {
        f"q{i}": {d: int(rng.integers(0, 4)) for d in rng.choice(docs, 8, replace=False)}
        for i in range(20)
    }
    run = {
        q: dict(zip(rng.choice(docs, n, replace=False), rng.random(n).tolist(), strict=True))
        for q, n in zip(list(qrels)[1:], rng.integers(1, 15, 19), strict=True)
    }
    theirs = _values(ir_measures.DefaultPipeline, MEASURES, qrels, run)
    found = evaluate(qrels, run, MEASURES)
    for name in MEASURES:
        for query_id, value in found[str(parse_measure(name))].items():
            assert value == pytest.approx(theirs[str(ir_measures.parse_measure(name)), query_id]), (
                name,
                query_id,
            )


THEIRS = ir_measures.providers.PytrecEvalProvider


class Ours(ir_measures.providers.Provider):
    """ragbench's functions behind the interface of ir_measures."""

    NAME = "ragbench"

    def supports(self, measure: Any) -> bool:
        return True

    def _evaluator(self, measures: Any, qrels: Any) -> Any:
        judged = ir_measures.util.QrelsConverter(qrels).as_dict_of_dict()

        class Evaluator(ir_measures.providers.Evaluator):
            def _iter_calc(self, run: Any) -> Any:
                ranked = ir_measures.util.RunConverter(run).as_dict_of_dict()
                for measure in measures:
                    if set(measure.params) - {
                        "rel",
                        "cutoff",
                        "beta",
                        "p",
                    }:  # an option that ragbench lacks
                        yield from THEIRS().iter_calc([measure], qrels, run)
                        continue
                    for query_id, value in evaluate(judged, ranked, [str(measure)])[
                        str(parse_measure(str(measure)))
                    ].items():
                        yield ir_measures.Metric(query_id, measure, value)

        return Evaluator(measures, set(judged))


def test_ragbench_is_a_provider_of_ir_measures() -> None:
    qrels = [Qrel(*row) for row in rows(QRELS, *"abc").itertuples(index=False)]
    run = [ScoredDoc(*row) for row in rows(RUN, *"abc").itertuples(index=False)]
    theirs = _values(ir_measures.DefaultPipeline, MEASURES, qrels, run)
    assert _values(Ours(), MEASURES, qrels, run) == pytest.approx(theirs)


class Base(unittest.TestCase):
    """The base of their test cases, which their source distribution lacks."""

    def assertMetrics(self, found: Any, expected: Any) -> None:  # noqa: N802
        values = [
            {(one.query_id, one.measure): one.value for one in side} for side in (found, expected)
        ]
        assert values[0] == pytest.approx(values[1], abs=5e-5)


@pytest.mark.skipif(
    "IR_MEASURES_SOURCE" not in os.environ, reason="IR_MEASURES_SOURCE names no unpacked source"
)
@pytest.mark.parametrize("name", ["Success", "SetP", "SetR", "SetF", "nDCG", "P", "judged"])
def test_the_test_suite_of_ir_measures_passes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their tests of the measures that ragbench has: `pip download ir-measures --no-deps
    --no-binary ir-measures`.
    """
    base, package = ModuleType("theirs.base"), ModuleType("theirs")
    base.BaseMeasureTest, package.__path__ = Base, [f"{os.environ['IR_MEASURES_SOURCE']}/tests"]  # type: ignore[attr-defined]
    for module in (base, package):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(ir_measures.providers, "PytrecEvalProvider", Ours)
    monkeypatch.setattr(ir_measures, "pytrec_eval", Ours())
    monkeypatch.setattr(ir_measures, "judged", Ours())
    tests = importlib.import_module(f"theirs.test_{name if name == 'judged' else 'pytrec_eval'}")
    case = next(
        one
        for one in vars(tests).values()
        if isinstance(one, type) and hasattr(one, f"test_{name}")
    )
    result = unittest.TestResult()
    case(f"test_{name}").run(result)
    assert result.testsRun == 1
    assert not (problems := [text for _, text in (*result.failures, *result.errors)]), problems[0]


def _values(provider: Any, names: list[str], qrels: Any, run: Any) -> dict[tuple[str, str], float]:
    asked = [ir_measures.parse_measure(name) for name in names]
    return {
        (str(one.measure), one.query_id): one.value for one in provider.iter_calc(asked, qrels, run)
    }


def test_rank_biased_precision_by_hand() -> None:
    found = evaluate(
        {"q": {"a": 1, "b": 2}},
        {"q": {"a": 4.0, "x": 3.0, "b": 2.0}},
        ["RBP", "RBP(p=0.5)", "RBP(rel=2, p=0.5)", "RBP@2"],
    )
    assert {name: values["q"] for name, values in found.items()} == pytest.approx(
        {
            "RBP": 0.2 * (1 + 0.64),
            "RBP(p=0.5)": 0.5 + 0.125,
            "RBP(rel=2,p=0.5)": 0.125,
            "RBP@2": 0.2,
        }
    )
    best = rb.metrics.ceilings(
        {"q": {"a": 1, "b": 2, "c": 0}}, ["RBP(p=0.5)", "Judged@5", "SetF", "SetP(rel=2)"]
    )
    assert best["value"].tolist() == [0.75, 1.0, 1.0, 1.0]


def test_one_registry_knows_them_all() -> None:
    from ragbench.registry import is_ranking_measure, measure_of

    for name in (
        "P(rel=2)@5",
        "span:R(rel=2)@5",
        "SetF(beta=2)",
        "RBP(p=0.5)",
        "Judged@10",
        "nDCG@10",
    ):
        assert is_ranking_measure(name)
        assert measure_of(name.lower().replace("=", " = ").replace(" = ", "=")).name == name
    assert measure_of("P(rel=1)@5").name == "P@5"
    ceilings = rb.metrics.ceilings(QRELS, ["P(rel=2)@1", "R(rel=2)@1"])
    assert ceilings["value"].tolist() == [1.0, 1.0, 0.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        ("nDCG(rel=2)@5", "nDCG takes dcg="),
        ("P(rel=0)@5", "P takes rel=2, as in"),
        ("P(p=0.5)@5", "P takes rel=2, as in"),
        ("P(rel=x)@5", "P takes rel=2, as in"),
        ("RBP(p=1)", "RBP takes rel=2, p=0.5"),
        ("SetF(beta=0)", "SetF takes rel=2, beta=0.5"),
        ("P(rel=2@5", "did you mean"),
        ("SetP@5", "did you mean 'SetP'"),
    ],
)
def test_a_wrong_form_is_refused_with_an_example(name: str, way_out: str) -> None:
    with pytest.raises(ConfigError, match=rf"{re.escape(name)}.*{way_out}"):
        parse_measure(name)


@pytest.mark.parametrize("damage", ["block", "end"])
def test_a_damaged_gzip_file_is_one_sentence(damage: str, tmp_path: Path) -> None:
    content = gzip.compress(b"q1 Q0 d1 1 2.5 bm25\n")
    content = content[:10] + b"\xff" + content[11:] if damage == "block" else content[:-9]
    (tmp_path / "bm25.run.gz").write_bytes(content)
    with pytest.raises(DataError, match=r"bm25.run.gz could not be read: .*; expected 6 columns"):
        rb.score_run({"q1": {"d1": 1}}, str(tmp_path / "bm25.run.gz"))
