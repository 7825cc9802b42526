"""First guesses of users who know pandas, ragas or DeepEval: each works, or one sentence names a call that
works.
"""

from __future__ import annotations

import copy
import json
import pickle
import re
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench.cli import app
from ragbench.evaluation.parameters import grid_line
from ragbench.hints.calls import explaining_calls
from ragbench.sweep.grid import read_grid
from tests.test_first_snippets import CORPUS, QRELS, QUERIES


@cache
def dataset() -> Any:
    return rb.Dataset.from_dicts(CORPUS, QUERIES, QRELS)


@cache
def results() -> Any:
    return rb.evaluate(dataset(), {"a": "bm25", "b": "bm25"})


def result() -> Any:
    return results()["a"]


WORKING: dict[str, Callable[[], Any]] = {
    "means of groups": lambda: result().scores.groupby("measure").mean().loc["nDCG@10", "value"],
    "several means of groups": lambda: (
        result().scores.groupby("measure").agg(["mean", "std"])["value", "mean"]["nDCG@10"]
    ),
    "means of a column": lambda: result().scores.groupby("measure")["value"].mean()["nDCG@10"],
    "means of a wide table": lambda: result().to_frame().mean()["nDCG@10"],
    "a wide table": lambda: result().scores.pivot().loc["q1", "nDCG@10"],
    "a wide table by its usual name": lambda: result().scores.unstack().loc["q1", "nDCG@10"],
    "a wide table by its level": lambda: result().scores.unstack("measure").loc["q1", "nDCG@10"],
    "a column by its row": lambda: result().measures.value["ndcg@10"],
    "a mean by another name": lambda: result().mean()["ndcg_cut_10"],
    "a question by its number": lambda: result()[0]["nDCG@10"],
    "several questions": lambda: result()[:1]["nDCG@10"][0],
    "columns by their names": lambda: dict(result())["nDCG@10"]["q1"],
    "results by their names": lambda: dict(results())["a"].mean("nDCG@10"),
    "several means by their names": lambda: result().mean(["ndcg@10", "R@5"])["nDCG@10"],
    "a mean of scores by another name": lambda: result().scores.mean()["ndcg@10"],
    "a row as data": lambda: rb.evaluate(
        {"question": "How?", "answer": "A day.", "reference": "A day."}
    ).mean("token_f1"),
    "a pivoted table": lambda: result().scores.pivot_table(index="query_id", columns="measure")[
        "value", "nDCG@10"
    ]["q1"],
}


@pytest.mark.parametrize("name", WORKING)
def test_tables_take_what_pandas_would_refuse_for_a_column_of_text(name: str) -> None:
    assert WORKING[name]() == 1.0


def test_a_table_of_correlations_leaves_out_texts() -> None:
    assert "question" not in result().to_frame().corr()


MEASURES: Any = rb.measures

EXPLAINED: dict[str, tuple[Callable[[], Any], str]] = {
    "groups by an unknown column": (
        lambda: result().scores.groupby("metric"),
        "unknown column or row 'metric'; did you mean 'measure'?",
    ),
    "a pivot by an unknown column": (
        lambda: result().scores.pivot(index="question_id", columns="measure", values="value"),
        "'question_id'; did you mean 'query_id'?",
    ),
    "several columns": (
        lambda: result().scores[["query_id", "score"]],
        "'score'; did you mean 'value'?",
    ),
    "an order by an unknown column": (
        lambda: result().measures.sort_values("mean"),
        "'mean'; did you mean 'value'?",
    ),
    "a measure as a column": (lambda: result().scores.recall, "use table['R@10']"),
    "a judged measure as a column": (
        lambda: result().scores.faithfulness,
        "use rb.evaluate(data, system, judge='provider:model', criteria=['faithfulness'])",
    ),
    "a run that is saved": (lambda: result().run.save(), "a dict; use rb.save(result, folder)"),
    "a dict as a function": (
        lambda: result().config(),
        "result.config is a dict, not a function: leave out the parentheses",
    ),
    "a dict as a record": (
        lambda: result().settings.perspectives,
        "use result.settings['perspectives']",
    ),
    "a dict as a series": (
        lambda: dataset().queries.head(),
        "use pd.Series(dataset.queries).head",
    ),
    "a nested dict as a table": (
        lambda: dataset().qrels.head(),
        "use pd.DataFrame(dataset.qrels).head",
    ),
    "cases as a table": (
        lambda: dataset().cases.head(),
        "dataset.cases is a tuple; use pd.DataFrame(dataset.cases).head",
    ),
    "answers as a table": (lambda: result().answers.head(), "pd.DataFrame(result.answers).head"),
    "a method as a table": (
        lambda: results().leaderboard.sort_values("nDCG@10"),
        "leaderboard is a method: write leaderboard().sort_values",
    ),
    "a method as a dict": (
        lambda: results().leaderboard["nDCG@10"],
        "leaderboard is a method: write leaderboard()['nDCG@10']",
    ),
    "a method in a loop": (
        lambda: list(result().worst),
        "worst is a method: write worst()",
    ),
    "scores of several results as a wide table": (
        lambda: results().pivot_table(index="name"),
        "use results.scores.pivot_table",
    ),
    "no system": (
        lambda: rb.evaluate(dataset(), system=None),  # type: ignore[arg-type]
        "or name a retriever, rb.evaluate(data, 'bm25')",
    ),
    "the system under another name": (
        lambda: rb.evaluate(dataset(), query_engine=len),  # type: ignore[call-arg]
        "unknown option 'query_engine'; did you mean 'system'?",
    ),
    "data under another name": (
        lambda: rb.evaluate(test_cases=[]),  # type: ignore[call-arg]
        "evaluate has no option 'test_cases'; did you mean 'dataset'?",
    ),
    "a reranker without a model": (
        lambda: rb.evaluate(dataset(), "bm25", reranker="cohere"),
        "reranker 'cohere' names no model; write 'cohere:<model>'",
    ),
    "a kind of reranker": (
        lambda: rb.evaluate(dataset(), "bm25", reranker="cross-encoder"),
        "write 'cross-encoder/ms-marco-MiniLM-L6-v2'",
    ),
    "a file of code": (lambda: rb.evaluate(dataset(), "app.py"), "name its function, 'app:<"),
    "a module that is not public": (
        lambda: rb.datasets(),  # type: ignore[operator]
        "use the command `ragbench list datasets`",
    ),
    "what a module lacks": (
        lambda: rb.datasets.names,  # type: ignore[attr-defined]
        "use the command `ragbench list datasets`",
    ),
    "names of retrievers": (
        lambda: rb.list_retrievers(),  # type: ignore[attr-defined]
        "use the command `ragbench list retrievers`",
    ),
    "a plot of scores": (lambda: result().plot_scores(), "use rb.write_report(result"),
    "a result as JSON": (
        lambda: rb.to_json(result()),  # type: ignore[attr-defined]
        "use rb.write_report(result, 'report.json')",
    ),
    "a verb of R": (lambda: result().scores.pivot_wider(), "use table.pivot"),
    "groups as in R": (
        lambda: result().scores.groupby("measure").summarise(),
        "groups have mean(), agg(['mean', 'std'])",
    ),
    "a confidence": (
        lambda: rb.compare(result(), result(), conf_level=0.95),  # type: ignore[call-overload]
        "use alpha=0.05, which is 1 minus the confidence.",
    ),
    "a judge without a name": (
        lambda: rb.evaluate(dataset(), "bm25", judge=True),  # type: ignore[arg-type]
        "name a model, as in judge='openai:gpt-4o-mini'",
    ),
    "a measure as a perspective": (
        lambda: rb.evaluate(dataset(), "bm25", perspectives=["faithfulness"]),
        "judge='provider:model', criteria=['faithfulness'])",
    ),
    "a file of scores": (
        lambda: rb.write_csv(result().scores, "scores.csv"),  # type: ignore[attr-defined]
        "use rb.save(result, folder)",
    ),
    "agreement as in sklearn": (
        lambda: rb.cohen_kappa_score([1], [1]),  # type: ignore[attr-defined]
        "use rb.trust(results)",
    ),
    "a prediction": (
        lambda: rb.FunctionSystem(len).predict("?"),  # type: ignore[attr-defined]
        "did you mean 'answer()'?",
    ),
    "a case of a dataset": (lambda: dataset().get_question("q1"), "use dataset[query_id]"),
    "an older result": (
        lambda: rb.save(result(), "folder", overwrite=True),  # type: ignore[call-arg]
        "an older result in the folder is replaced",
    ),
    "an address without a scheme": (
        lambda: rb.evaluate(dataset(), "localhost:8000/ask"),
        "write 'http://localhost:8000/ask'",
    ),
    "a perspective by another word": (
        lambda: rb.evaluate(dataset(), "bm25", perspectives="generation"),
        "did you mean 'answer'?",
    ),
    "a part of a dataset": (
        lambda: rb.load_dataset("pydoc", n=20),  # type: ignore[call-arg]
        "use rb.load_dataset(name).sample(20)",
    ),
    "a dict where chunks are expected": (
        lambda: rb.retrieval.BM25(dataset().corpus),
        "chunks is dict, expected Sequence",
    ),
    "a pipeline of a file": (
        lambda: rb.Pipeline.from_yaml("system.yaml"),  # type: ignore[attr-defined]
        "use rb.load_system('system.toml', dataset)",
    ),
    "an option of an evaluation": (
        lambda: rb.evaluate(dataset(), "bm25", top_k=3),  # type: ignore[call-arg]
        "unknown option 'top_k'; did you mean 'k'?",
    ),
    "a store of vectors": (
        lambda: rb.evaluate(dataset(), index=dataset()),  # type: ignore[call-arg]
        "use rb.evaluate(data, ask), of a function of the question that searches it",
    ),
    "an address of a model": (
        lambda: rb.evaluate(dataset(), "bm25", base_url="http://host"),  # type: ignore[call-arg]
        "use the environment variable OPENAI_BASE_URL",
    ),
    "weights of the parts": (
        lambda: rb.evaluate(dataset(), "bm25", weights={"keyword": 2}),  # type: ignore[call-arg]
        "use targets='mine.toml', a file with a table [weights]",
    ),
    "a criterion of one's own by its name": (
        lambda: rb.evaluate(dataset(), "bm25", criteria=["politeness"]),
        "one of your own is rb.Criterion(name, question)",
    ),
    "functions as measures": (
        lambda: rb.evaluate(dataset(), "bm25", custom_metrics=[len]),  # type: ignore[call-arg]
        "use measures=[rb.Measure(name, function)]",
    ),
    "a method of a test": (
        lambda: rb.compare(result(), result(), method="t"),  # type: ignore[call-overload]
        "'method'; leave it out: one paired test of the mean decides",
    ),
    "a kind of retriever": (
        lambda: rb.evaluate(dataset(), "hybrid"),
        "write 'hybrid:minilm' or 'hybrid:wordllama'",
    ),
    "a file and its function": (
        lambda: rb.evaluate(dataset(), "app/rag.py:ask"),
        "names a file; write 'app.rag:ask'",
    ),
    "a splitter": (
        lambda: rb.evaluate(dataset(), "bm25", chunker=Splitter()),  # type: ignore[arg-type]
        "write chunker=splitter.split_text",
    ),
    "a chunker with its size": (
        lambda: rb.chunk(CORPUS, "fixed:200"),
        "write chunker='fixed', chunk_size=200",
    ),
    "a model of embeddings": (
        lambda: rb.evaluate(dataset(), rb.retrieval.load_embedder("wordllama")),  # type: ignore[arg-type]
        "use rb.evaluate(data, retriever=lambda chunks: rb.retrieval.Dense(chunks, embedder))"[4:],
    ),
    "a client of models": (
        lambda: rb.evaluate(dataset(), "bm25", llm=Splitter()),  # type: ignore[arg-type]
        "llm='openai:gpt-4o-mini'",
    ),
    "a retriever with its index": (
        lambda: rb.evaluate(dataset(), retriever=Splitter()),  # type: ignore[arg-type]
        "is a system, as in rb.evaluate(data, retriever)",
    ),
    "a pipeline without data": (lambda: rb.Pipeline("bm25"), "rb.Pipeline(data, 'bm25')"),
    "a sweep of systems": (
        lambda: rb.sweep(dataset(), ["bm25"]),  # type: ignore[call-arg,arg-type]
        "Use rb.evaluate(data, ['bm25', 'dense:minilm'])",
    ),
    "the body of a request": (
        lambda: rb.HttpSystem("http://host", json={}),  # type: ignore[call-arg]
        "HttpSystem has no option 'json'; did you mean 'body'?",
    ),
    "a part of a reply": (
        lambda: rb.HttpSystem("http://host", answer_key="text"),  # type: ignore[call-arg]
        "use reply={'answer': '$.answer'}",
    ),
    "a decorator": (lambda: rb.system(len), "use rb.evaluate(data, system)"),  # type: ignore[attr-defined]
    "a registry": (
        lambda: rb.register_retriever("mine", len),  # type: ignore[attr-defined]
        "use rb.evaluate(data, system)",
    ),
    "a detectable effect": (
        lambda: rb.minimum_detectable_effect(result()),  # type: ignore[attr-defined]
        r"use rb.compare(a, b)['mde'], the smallest detectable difference",
    ),
    "a filter of questions": (
        lambda: result().filter(len),
        "use result.to_frame().query('`nDCG@10` < 0.5')",
    ),
    "an order by a measure": (
        lambda: result().scores.sort_values("nDCG@10"),
        "use scores.pivot(), with a column per measure",
    ),
    "groups by the category of a question": (
        lambda: result().scores.groupby("category"),
        "use result.to_frame(), which has it",
    ),
    "a plot of a comparison": (
        lambda: results().compare("a").plot(),
        "as in table.plot.barh(x='measure', y='difference')",
    ),
    "boxes of all scores": (
        lambda: result().scores.plot(kind="box"),
        "as in table['nDCG@10'].plot(kind='box')",
    ),
    "categories as a table": (
        lambda: result().categories.head(),
        "result.categories is a list; use pd.DataFrame(result.categories).head",
    ),
    "a getter": (lambda: result().get_failures(), "did you mean 'failures'?"),
    "means of categories": (
        lambda: result().per_category(),
        "use result.to_frame().groupby('category').mean()",
    ),
    "results without a list": (
        lambda: rb.Results(result(), results()["b"]),  # type: ignore[call-arg]
        "Use rb.Results([a, b])",
    ),
    "a measure as the baseline": (
        lambda: results().compare("nDCG@10"),
        "is a measure, not a configuration; write measures='nDCG@10'",
    ),
    "runs that are compared": (
        lambda: rb.compare_runs([result()]),  # type: ignore[attr-defined]
        "use rb.compare(a, b)",
    ),
    "a prompt of the system": (
        lambda: rb.evaluate(dataset(), "bm25", system_prompt="Be short."),  # type: ignore[call-arg]
        "unknown option 'system_prompt'; did you mean 'prompt'?",
    ),
    "a product for vectors": (
        lambda: rb.Chroma("folder"),  # type: ignore[attr-defined]
        "use rb.evaluate(data, ask), of a function of the question that searches it",
    ),
    "a judged measure among measures": (
        lambda: rb.evaluate(dataset(), "bm25", measures=["faithfulness"]),
        "use rb.evaluate(data, system, judge='provider:model', criteria=['faithfulness'])",
    ),
    "a mean by another word": (lambda: result().score("R@5"), "use result.mean('nDCG@10')"),
    "the best questions": (
        lambda: result().best(5),
        "use result.to_frame().nlargest(10, 'nDCG@10')",
    ),
    "a case of a result": (lambda: result().case("q1"), "use result[query_id]"),
    "retries": (
        lambda: rb.evaluate(dataset(), len, retries=3),  # type: ignore[call-arg]
        "'retries'; leave it out: failed requests to servers are repeated",
    ),
    "a value as a method": (
        lambda: result().passed(),
        "result.passed is a bool, not a function: leave out the parentheses",
    ),
    "a value as a column": (
        lambda: result().passed.sum(),
        "use result.to_frame()['passed'], of each question",
    ),
    "a text as a method": (
        lambda: dataset().split(0.5),
        "dataset.split is a str, not a function: leave out the parentheses",
    ),
    "a decision as a method": (
        lambda: results().conclude().decision(),
        "conclusion.decision is a str, not a function",
    ),
    "costs as a table": (lambda: result().costs.sum(), "use pd.DataFrame(result.costs).sum"),
    "verdicts as a table": (
        lambda: result().verdicts[["passed", "reasons"]],
        "use pd.DataFrame(result.verdicts).T",
    ),
    "a row as a record": (
        lambda: [row.question for row in result()],
        "row is a dict; use row['question']",
    ),
    "a missing key": (lambda: result().settings["perspective"], "result.settings['perspectives']"),
    "a measure as a column of tidy scores": (
        lambda: result().scores.set_index("query_id")["nDCG@10"],
        "use scores.pivot(), with a column per measure",
    ),
    "a condition on a measure of tidy scores": (
        lambda: result().scores.query("`nDCG@10` < 0.5"),
        "use scores.pivot(), with a column per measure",
    ),
    "a measure of groups of tidy scores": (
        lambda: result().scores.groupby("query_id")["nDCG@10"],
        "use scores.pivot(), with a column per measure",
    ),
    "means over several measures": (
        lambda: pd.concat({"a": result().scores}, names=["system"]).groupby("system").mean(),
        "use table.groupby(['system', 'measure'])['value'].mean()",
    ),
    "groups by the system": (
        lambda: result().scores.groupby("system"),
        "use results.scores, whose column `name`",
    ),
    "a place as a column": (lambda: result().scores[0], "use table.iloc[0] for a row"),
    "a place in a column": (lambda: result().mean()[0], "use .iloc[0] for its place"),
    "a method of tables on a column": (
        lambda: result()["nDCG@10"].query("x > 1"),
        "use the table itself, as in table.query",
    ),
    "results as a table": (lambda: pd.DataFrame(results()), "use results.leaderboard()"),
    "tables of results": (
        lambda: pd.concat([result(), result()]),
        "use pd.concat of result.to_frame() of each",
    ),
    "a sum of datasets": (
        lambda: dataset()[:1] + dataset()[1:],
        "use dataset.select([*first.queries, *second.queries])",
    ),
    "a measure as a result": (
        lambda: results()["ndcg@10"],
        "is a measure, not a configuration; use results.leaderboard('nDCG@10')",
    ),
    "a p-value of a result": (lambda: result().p_value, "use rb.compare(baseline, result)"),
    "a reason of a conclusion": (
        lambda: results().conclude().reason,
        "use conclusion.evidence, its sentences",
    ),
    "a correction": (
        lambda: results().conclude(correction="holm"),
        "leave it out: several contenders are always corrected by Holm's method",
    ),
    "means that are compared": (
        lambda: rb.compare(result().mean(), result().mean()),
        "use the result itself, as in rb.compare(a, b)",
    ),
    "several results that are saved": (
        lambda: rb.save([result()], "folder"),  # type: ignore[arg-type]
        "Use rb.save(result, folder), for each result of several",
    ),
    "a gate of a result": (
        lambda: result().check({"R@5": 0.7}),
        "use rb.evaluate(data, system, targets={'R@5': 0.7})",
    ),
    "a key of a record": (
        lambda: results().conclude().arms[0]["colour"],
        "Arm is a record, not a dict; it has ",
    ),
    "a row of a measure as a table": (
        lambda: result().rows[0].head(),
        "MeasureResult has no attribute 'head'; it has ",
    ),
    "causes of undiagnosed questions": (
        lambda: replace(result(), diagnosis=None).questions.groupby("cause"),
        "no question was diagnosed",
    ),
    "a function as its table": (
        lambda: MEASURES["nDCG@10"],
        "measures is a function: write measures()['nDCG@10']",
    ),
    "a loop over a function": (
        lambda: list(MEASURES),
        "write measures()",
    ),
    "a column of the table of measures": (lambda: rb.measures().meanings, "did you mean 'meaning'"),
    "a module as a table": (
        lambda: rb.metrics["nDCG@10"],  # type: ignore[index]
        "use rb.score_run(qrels, run, 'nDCG@10'), or rb.measures()['nDCG@10']",
    ),
    "a private module as a table": (
        lambda: rb.datasets["pydoc"],  # type: ignore[index]
        "use the command `ragbench list datasets`",
    ),
    "a part of a dataset by a fraction": (
        lambda: dataset().split(0.5),
        "use dataset.sample(n), or dataset.select(query_ids)",
    ),
    "the parts of a dataset as in beir": (
        lambda: unpacked(dataset(), 3),
        "a dataset of 2 questions does not consist of 3 parts; use dataset.corpus",
    ),
    "names and results in a loop": (
        lambda: unpacked(result(), 4),
        "a result of 2 questions does not consist of 4 parts; use dict(results).items()",
    ),
    "means as in beir": (
        lambda: unpacked(rb.score_run(QRELS, result().run), 4),
        "use table.mean(), with the mean of each measure",
    ),
    "a result as JSON of Python": (
        lambda: json.dumps(result()),
        "json cannot write a Result; use rb.write_report(result, 'report.json')",
    ),
    "a conclusion as JSON of Python": (
        lambda: json.dumps({"decision": results().conclude()}),
        "use json.dumps(conclusion.to_dict())",
    ),
    "results as JSON of Python": (
        lambda: json.dumps(results()),
        "use results.leaderboard().to_json()",
    ),
    "another name of a result": (
        lambda: setattr(result(), "name", "new"),
        "use dataclasses.replace(record, name=...)",
    ),
    "a column of a result": (
        lambda: result().__setitem__("new", 1),
        "use table = result.to_frame(), to which you can add columns",
    ),
    "a column as a number": (lambda: f"{result()['nDCG@10']:.3f}", "has 2 values, not one; use"),
    "a column in a condition": (lambda: bool(result()["nDCG@10"] > 0.5), "use its mean()"),
    "a difference of tables": (
        lambda: result().scores - result().scores,
        "use rb.compare(a, b) for a difference",
    ),
    "a decision of labels as a condition": (
        lambda: bool(rb.trust(result())),
        "write trust.decision in ('better', 'within the margin')",
    ),
    "a deviation": (lambda: result().std("nDCG@10"), "use result.to_frame()[column].std()"),
    "means as pairs": (lambda: result().items(), "use result.mean().items()"),
    "a class of documents": (
        lambda: rb.Document.from_langchain(1),  # type: ignore[attr-defined]
        "use Document(doc_id, text, title=..., metadata=...)",
    ),
    "a class of systems": (
        lambda: rb.RecordedSystem.from_csv("a.csv"),  # type: ignore[attr-defined]
        "use RecordedSystem(source, name=...)",
    ),
    "an embedder of another library": (
        lambda: rb.retrieval.load_embedder("wordllama").embed_query("?"),  # type: ignore[attr-defined]
        "use embedder.encode_queries([text])",
    ),
    "a retriever as a dict": (
        lambda: rb.make_retriever("bm25", rb.chunk(CORPUS))["q1"],  # type: ignore[index]
        "BM25 is an object, not a dict; ",
    ),
    "numbers as results": (
        lambda: rb.Results({"a": 1}),  # type: ignore[arg-type]
        "results['a'] is int, expected Result",
    ),
    "a dict as recorded answers": (
        lambda: rb.RecordedSystem({"a": 1}),  # type: ignore[dict-item]
        "source is dict, expected str or Path or Iterable",
    ),
    "numbers as a run": (
        lambda: rb.to_documents({"q1": 1}, rb.chunk(CORPUS)),  # type: ignore[dict-item]
        "run['q1'] is int, expected dict",
    ),
    "texts as judgements": (
        lambda: rb.metrics.score_judgements(["good"]),  # type: ignore[list-item]
        "judgements[0] is str, expected Judgement",
    ),
    "a table without a column": (
        lambda: rb.report.leaderboard_rows(pd.DataFrame({"a": [1]}), "RR"),
        "board has no column 'rank'; it has a",
    ),
    "numbers as data": (
        lambda: rb.evaluate({"a": 1}),
        "whose values are not columns of one length",
    ),
    "rows as a file": (
        lambda: rb.load_testset([{"question": "?"}]),  # type: ignore[arg-type]
        "or rb.evaluate(rows, system) for rows in hand",
    ),
    "an error at the root": (lambda: rb.ConfigError, "use rb.errors.ConfigError"),  # type: ignore[attr-defined]
    "an error by another name": (lambda: rb.errors.ConfigErr, "did you mean 'ConfigError'?"),  # type: ignore[attr-defined]
    "a measure of a wide table": (
        lambda: result().to_frame().set_index("query_id").loc["q1", "ndcg@10"],
        "did you mean 'nDCG@10'?",
    ),
    "a notebook": (
        lambda: rb.run_notebook("evaluate.ipynb"),  # type: ignore[attr-defined]
        "use rb.sweep(grid), which executes a notebook per configuration",
    ),
    "measures by the name of other tools": (
        lambda: result().metrics["nDCG@10"],
        "use result.mean('nDCG@10'), or result.measures, a table",
    ),
    "a measure as an attribute": (
        lambda: result().ndcg_at_10,
        "use result.mean('nDCG@10'), or result['nDCG@10'] of each question",
    ),
    "the row of a measure as a number": (
        lambda: f"{result().measures['nDCG@10']:.3f}",
        "a row of a table, not one value; use row['value']",
    ),
    "the conclusion of a table": (
        lambda: results().compare("a").conclusion,
        "use rb.Results([a, b]).conclude() of two results, or table['decision']",
    ),
    "the headline of a table": (
        lambda: results().compare("a").headline,
        "use rb.Results([a, b]).conclude() of two results, or table['decision']",
    ),
    "a conclusion at the root": (
        lambda: rb.conclude(result(), result()),  # type: ignore[attr-defined]
        "use rb.Results([a, b]).conclude(), or rb.load_results(folder).conclude()",
    ),
    "a dataset of a table of questions": (
        lambda: rb.Dataset.from_pandas(QUESTIONS),  # type: ignore[attr-defined]
        "use rb.evaluate(rows, system), of dicts or a DataFrame of questions and references",
    ),
    "a table of questions as a dataset": (
        lambda: rb.load_dataset(QUESTIONS),  # type: ignore[arg-type]
        "rows.to_json('tests.jsonl', orient='records', lines=True) and rb.load_dataset('tests.jsonl', ",
    ),
    "a table of questions without a system": (
        lambda: rb.evaluate(QUESTIONS),
        "to ask a system these questions, write rb.evaluate(rows, system)",
    ),
    "an embedder as an option": (
        lambda: rb.evaluate(dataset(), "dense", embedder=lengths),
        "write rb.evaluate(data, retriever=lambda chunks: rb.make_retriever('dense', chunks, ",
    ),
    "the name of an embedder as an option": (
        lambda: rb.evaluate(dataset(), retriever="hybrid", embedder="wordllama"),
        "write 'hybrid:wordllama' to search with it",
    ),
    "a misspelt embedder": (
        lambda: rb.evaluate(dataset(), "bm25", embedder="mini-lm"),
        "unknown embedder 'mini-lm'; did you mean 'minilm'?",
    ),
    "a judge with a scale": (
        lambda: rb.Judge(model="openai:gpt-4o-mini", criteria="Polite?", scale=(1, 5)),  # type: ignore[attr-defined]
        "or by a question of your own rb.evaluate(rows, judge='provider:model', criteria=[rb.Criterion(",
    ),
    "a criterion with a scale": (
        lambda: rb.Criterion("polite", "Polite?", scale=(1, 5)),  # type: ignore[call-arg]
        "'Is the answer polite?', {'yes': 1, 'partly': 0.5, 'no': 0})",
    ),
    "a question as a criterion": (
        lambda: rb.evaluate(dataset(), "bm25", criteria=["Is it polite?"]),
        "as in criteria=[rb.Criterion('mine', 'Is it polite?')]",
    ),
    "a sweep of data in hand": (
        lambda: rb.sweep(dataset(), {"retriever": ["bm25"], "k": [3, 5]}),  # type: ignore[call-arg,arg-type]
        "with two axes rb.Results({f'{name}, k={k}': rb.evaluate(data, name, k=k) for name in ",
    ),
    "several values of an option": (
        lambda: rb.evaluate(dataset(), "bm25", k=[3, 5]),  # type: ignore[arg-type]
        "write rb.Results({f'k={x}': rb.evaluate(data, 'bm25', k=x) for x in [3, 5]})",
    ),
    "a dataset in hand in a grid": (
        lambda: rb.sweep({"fixed": {"dataset": dataset()}, "axes": {"k": [3, 5]}}),
        "write rb.testsets.save_dataset(data, folder), and this folder as the dataset",
    ),
    "a measure of several results": (
        lambda: results().ndcg_at_10,
        "use results.leaderboard('nDCG@10')",
    ),
    "results by their names": (
        lambda: rb.Results(old=result(), new=result()),  # type: ignore[call-arg]
        "or rb.Results({'old': a, 'new': b})",
    ),
    "a grid without its sections": (
        lambda: rb.sweep({"retriever": ["bm25"]}),
        "is in [axes], as in {'axes': {'retriever': ['bm25']}}",
    ),
    "an axis by another name": (
        lambda: rb.sweep({"axes": {"top_k": [3, 5]}}),
        "unknown parameter of evaluate.ipynb 'top_k'; did you mean 'k'?",
    ),
    "results of one name": (
        lambda: rb.Results([result(), result()]),
        "name them, as in rb.Results({'k=3': first, 'k=5': second})",
    ),
    "a system in other case": (
        lambda: rb.evaluate(dataset(), "BM25"),
        "unknown system 'BM25'; did you mean 'bm25'?",
    ),
    "a baseline that no source is named": (
        lambda: rb.compare([result(), results()["b"]], baseline="bm25"),
        "baseline is 'bm25', expected the name of a source: 'a', 'b'; or leave `baseline` out",
    ),
    "a baseline of results that none has": (
        lambda: rb.compare(results(), baseline="bm25"),
        "unknown baseline 'bm25'",
    ),
    "a column that pairs": (
        lambda: rb.compare(result(), result(), on="user_input"),  # type: ignore[call-overload]
        "leave it out: rows are paired by a column id or question, under any of its usual names (user_input",
    ),
    "the rows of a conclusion": (
        lambda: results().conclude().loc,
        "rb.compare(rb.load_result(a), rb.load_result(b)), with a row per measure",
    ),
    "the printed name of a column": (
        lambda: rb.compare(result(), results()["b"])["p"],
        "use table['p_value']",
    ),
    "the printed name as an attribute": (
        lambda: rb.compare(result(), results()["b"]).p,
        "use table['p_value']",
    ),
    "a leaderboard with a baseline": (
        lambda: results().leaderboard(baseline="a"),
        "use results.compare(baseline), of the name of a result",
    ),
    "a dataset of a list": (
        lambda: rb.Dataset.from_list([]),  # type: ignore[attr-defined]
        "use rb.Dataset.from_dicts({'d1': text}, {'q1': question}, {'q1': {'d1': 1}})",
    ),
    "documents in hand": (
        lambda: rb.load_dataset("tests.jsonl", corpus=CORPUS),  # type: ignore[arg-type]
        "documents in hand are for rb.Dataset.from_dicts(corpus, queries, qrels)",
    ),
    "a run as a file": (
        lambda: result().to_run("out.trec"),
        "use rb.save(result, folder), which writes run.trec",
    ),
    "an object that searches, with its depth": (
        lambda: rb.evaluate(dataset(), retriever=Words(), top_k=5),  # type: ignore[call-arg,arg-type]
        "write rb.evaluate(data, lambda question: retriever.retrieve(question, 5), ...), without the options",
    ),
    "an object that answers as a retriever": (
        lambda: rb.evaluate(dataset(), retriever=Engine(), k=5),  # type: ignore[arg-type]
        "write rb.evaluate(data, Engine(), ...), without the options retriever and k",
    ),
    "a criterion without a question": (
        lambda: rb.evaluate(dataset(), "bm25", criteria={"polite": "yes"}),
        "or a criterion such as rb.Criterion('politeness', 'Is the answer polite?')",
    ),
    "a decorator of measures": (
        lambda: rb.measure(len),  # type: ignore[attr-defined]
        "use def length(case, answer, contexts): return len(answer.text), and rb.evaluate(data, system, "
        "measures=[length])",
    ),
    "a measure without a name": (
        lambda: rb.Measure(len),  # type: ignore[arg-type]
        "or the function alone, as in measures=[function]",
    ),
    "a saved result": (
        lambda: rb.load("folder"),  # type: ignore[attr-defined]
        "use rb.load_result(folder), or rb.load_results(folder) of several",
    ),
    "a golden": (lambda: rb.Golden(input="?"), "use rb.Case(query_id, text)"),  # type: ignore[attr-defined]
}


QUESTIONS: pd.DataFrame = pd.DataFrame(
    {
        "user_input": ["Where do cats sleep?"],
        "reference": ["Anywhere."],
        "reference_contexts": [["Cats sleep most of the day."]],
    }
)
"""A test set of ragas: questions with references, and no answers."""


def lengths(texts: Any) -> Any:
    """An embedder of the user."""
    return [[len(text), 1.0] for text in texts]


def unpacked(values: Any, count: int) -> None:
    """Assign the values to so many names."""
    names = ", ".join(f"name_{number}" for number in range(count))
    exec(f"{names} = values", {"values": values})


class Words:
    """An object of the user that searches."""

    def retrieve(self, query: str, top_k: int) -> list[str]:
        return list(CORPUS.values())[:top_k]


class Engine:
    """An object of the user that answers."""

    def query(self, question: str) -> str:
        return "Most of the day."


class Splitter:
    """A splitter of another library."""

    def split_text(self, text: str) -> list[str]:
        return [text]


def test_a_condition_on_questions_selects_their_rows() -> None:
    is_found = result()["nDCG@10"] == 1
    assert len(result().questions[is_found]) == is_found.sum()
    assert set(result().scores[is_found]["query_id"]) == set(is_found.index[is_found])


def test_a_plot_with_columns_is_drawn_by_pandas() -> None:
    axes = result().measures.plot.barh(x="measure", y="value")
    assert len(axes.patches) == len(result().measures)


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_guess_that_cannot_work_names_the_right_call(name: str) -> None:
    guess, message = EXPLAINED[name]
    with pytest.raises((AttributeError, TypeError, rb.RagbenchError)) as refused:
        guess()
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_results_of_a_mapping_have_its_keys_as_names() -> None:
    named = rb.Results({"old": result(), "new": results()["b"]})
    assert [each.name for each in named] == ["old", "new"]


def test_a_result_is_in_results_by_its_name() -> None:
    assert "a" in results()
    assert result() in results()
    assert "c" not in results()


def test_no_judge_is_no_judge() -> None:
    for judge in (None, False):
        assert rb.EvaluationSpec(judge=judge).judge == ""  # type: ignore[arg-type]


def test_a_measure_of_a_known_name_is_this_measure() -> None:
    assert rb.Measure("nDCG@10") == rb.registry.measure_of("nDCG@10")
    assert rb.Measure("colour").meaning == ""


def test_explained_values_are_what_they_were() -> None:
    queries, cases = dataset().queries, dataset().cases
    assert queries == QUERIES
    assert repr(queries) == repr(QUERIES)
    for copied in (copy.deepcopy(queries), copy.copy(queries), pickle.loads(pickle.dumps(queries))):
        assert copied == QUERIES
        assert type(copied) is type(queries)
    assert isinstance(cases, tuple)
    assert pickle.loads(pickle.dumps(cases)) == cases


def test_functions_that_explain_their_use_are_functions() -> None:
    import inspect

    assert callable(rb.measures)
    assert bool(rb.measures)
    assert not inspect.signature(rb.measures).parameters
    assert pickle.loads(pickle.dumps(rb.measures)) == rb.measures
    assert inspect.getdoc(rb.measures) == inspect.getdoc(inspect.unwrap(rb.measures))


def test_an_error_whose_cause_is_not_in_the_arguments_is_raised_unchanged() -> None:
    @explaining_calls()
    def lookup(names: list[str]) -> str:
        raise KeyError("colour")

    with pytest.raises(KeyError, match="colour"):
        lookup(["a"])
    with pytest.raises(rb.RagbenchError, match=r"names\[1\] is int, expected str"):
        lookup(["a", 1])  # type: ignore[list-item]


def test_methods_are_methods() -> None:
    import inspect

    leaderboard = results().leaderboard
    assert inspect.isfunction(rb.Results.leaderboard)
    assert list(inspect.signature(leaderboard).parameters) == ["measure", "measures"]
    assert leaderboard.__name__ == "leaderboard"
    assert leaderboard.__doc__ == rb.Results.leaderboard.__doc__
    assert leaderboard == results().leaderboard
    assert pickle.loads(pickle.dumps(result().mean))("nDCG@10") == 1.0
    assert not hasattr(leaderboard, "sort_values")


COMMANDS = {
    "eval run.trec qrels.trec": "`ragbench score QRELS RUN` scores rankings",
    "eval pydoc --system bm25": "write `ragbench eval bm25 --test-set pydoc`",
    "eval pydoc bm25": "write `ragbench eval bm25 --test-set pydoc`",
    "eval bm25 dense:minilm": "`ragbench sweep` for several systems",
    "testset .": "Did you mean 'validate .'?",
    "eval -c grid.yaml": "write `ragbench sweep grid.toml`",
    "eval --corpus docs": "write --docs docs",
    "view saved": "Did you mean 'history show' or 'explore'?",
    "metrics saved": "Did you mean 'history show' or 'list'?",
    "sweep --dataset pydoc --retriever bm25,dense:minilm --top-k 3,5": "write a file grid.toml of these lines, "
    'and `ragbench sweep grid.toml`: [fixed] dataset = "pydoc" [axes] retriever = ["bm25", "dense:minilm"] '
    "k = [3, 5]",
    "sweep --retriever bm25": "write --set retriever=bm25",
    "sweep pydoc --set k=3,5": "write `k = [3, 5]` below [axes] of a grid file",
    "eval bm25 --top-k 3": "write --set k=3",
    "generate": "Did you mean 'testset generate'?",
    "eval bm25 --min-recall 0.8": "write --fail-under R@5=0.8",
    "eval http://host --headers x": "write `ragbench probe ADDRESS QUESTION --write system.toml`",
    "list metrics": "unknown kind 'metrics'; did you mean 'measures'?",
    "compare a b --measures nDCG@10,R@5": "write --measure nDCG@10, which takes one",
    "compare a b --measure nDCG@10,R@5": "compare decides by one measure: --measure nDCG@10",
    "compare a b --measure R@5 --measure R@10": "--measure is given 2 times; give it once ╰",
    "eval bm25 --measure R@5 --measure R@10": "with commas between several values: --measure A,B",
    "eval bm25 --judge a:b --judge a:c": "--judge is given 2 times; give it once ╰",
    "score qrels run --metrics R@5,R@10": "write --measure R@5,R@10",
    "eval pydoc dense:minilm --k 5": "write `ragbench eval dense:minilm --test-set pydoc --k 5`",
    "sweep --retrievers bm25,tfidf --docs docs --test-set pydoc": "(unknown retriever 'tfidf'; did you mean "
    "'bm25'? Known: ",
    "sweep --retrievers bm25,dense:minilm --docs docs": '[fixed] corpus = "docs" [axes]',
    "export saved --format csv": "its table of scores is saved/scores.csv",
    "explore saved --format csv": "its table of scores is saved/scores.csv",
    "help compare": "write `ragbench compare --help`",
    "compare old new": "there is no folder old here; unknown run 'old': the history holds no runs",
}


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_line_that_cannot_work_names_the_right_one(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGBENCH_HISTORY", str(tmp_path / "history.db"))
    done = CliRunner().invoke(app, line.split())
    assert done.exit_code == 2
    assert COMMANDS[line] in " ".join(re.sub("│", " ", done.output).split())


def test_a_folder_next_to_questions_holds_the_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("docs").mkdir()
    Path("questions.csv").touch()
    done = CliRunner().invoke(app, "eval docs/ questions.csv --k 5".split())
    output = " ".join(re.sub("│", " ", done.output).split())
    assert "write `ragbench eval bm25 --test-set questions.csv --docs docs/ --k 5`" in output


_NEEDS_MORE = re.compile(r":model|beir/|hf:|[.]csv|grid|path|[(]file[)]|llm|dataclasses|questions$")
"""In a call: a model, a download or a file of the user."""
_ENDS = re.compile(
    r", or |, which |, whose | or (?=rb[.]|result)|; | for |, of |, with |(?<=[)]), "
)


def named_calls() -> list[str]:
    """Every call that a hint about a name at the root or of a record names."""
    texts = dict(rb._CALLS)  # type: ignore[attr-defined]
    for record in (rb.Result, rb.Results, rb.Dataset):
        texts |= record._expected_names  # type: ignore[union-attr]
    return sorted({part for text in texts.values() for part in _ENDS.split(text) if _is_code(part)})


def _is_code(text: str) -> bool:
    try:
        compile(text, "hint", "eval")
    except SyntaxError:
        return False
    return "rb." in text or re.match(r"(result|dataset)s?[.]", text) is not None


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The values of the names in the calls of hints."""
    folder = tmp_path_factory.mktemp("results")
    rb.save(results()["a"], folder / "a")
    (folder.parent / "docs").mkdir()
    (folder.parent / "docs" / "cats.md").write_text("Cats sleep most of the day.")
    (folder.parent / "tests.yaml").write_text("cases: [{id: q1, question: 'How long?'}]")
    one, other = results()
    return {
        "rb": rb,
        "pd": pd,
        "result": one,
        "results": rb.Results([one, replace(other, name="name")]),
        **dict.fromkeys(["dataset", "data"], dataset()),
        **dict.fromkeys(["a", "baseline"], one),
        **dict.fromkeys(["b", "other"], other),
        "old": {f"q{i}": 0.0 for i in range(12)},
        "new": {f"q{i}": i % 2 for i in range(12)},
        **dict.fromkeys(["system", "chain", "ask"], lambda question: "Most of the day."),
        "rows": [{"question": "How long?", "answer": "A day.", "contexts": ["Cats sleep a day."]}],
        "tests": folder.parent / "tests.yaml",
        "corpus": CORPUS,
        "queries": QUERIES,
        "qrels": QRELS,
        "run": one.run,
        "measures": ["nDCG@10"],
        "measure": "nDCG@10",
        "chunks": rb.chunk(CORPUS),
        "chunker": "recursive",
        "embedder": rb.retrieval.load_embedder("wordllama"),
        "texts": list(CORPUS.values()),
        "scores": one.scores,
        "query_id": "q1",
        "doc_id": "cats",
        "query_ids": ["q1"],
        "text": "?",
        **dict.fromkeys(["n", "size", "seed"], 1),
        "function": lambda case, answer, contexts: 1.0,
        "question": "Is the answer polite?",
        "of results": folder,
        "of a result": folder / "a",
        "of documents": folder.parent / "docs",
    }


@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
@pytest.mark.parametrize("call", named_calls())
def test_a_call_that_a_hint_names_works(
    call: str, names: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if _NEEDS_MORE.search(call):
        return
    monkeypatch.chdir(tmp_path)
    folder: Any = tmp_path / "new"
    for start, kind in (
        ("load_results", "results"),
        ("load_result(", "a result"),
        ("corpus", "documents"),
    ):
        if start in call and "from_" not in call:
            folder = names[f"of {kind}"]
    name = "pydoc" if "load_dataset" in call else "bm25"
    with suppress(AssertionError):  # of a gate
        eval(call, {**names, "folder": folder, "name": name})


def test_an_own_embedder_searches_as_the_message_says() -> None:
    data = dataset()
    result = rb.evaluate(
        data, retriever=lambda chunks: rb.make_retriever("dense", chunks, embedder=lengths)
    )
    assert result.mean("R@5") == 1
    with pytest.warns(rb.errors.DataWarning, match=r"lengths is not used: .* no question has one"):
        rb.evaluate(data, "bm25", embedder=lengths)


def test_the_weights_of_an_embedder_are_looked_for_before_the_system_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    questions = QUESTIONS.drop(columns="reference_contexts")
    asked = list[str]()
    with pytest.raises(rb.errors.ModelError, match="model 'no-such-model' is not a folder"):
        rb.evaluate(questions, asked.append, embedder="no-such-model")
    assert not asked


def test_an_own_criterion_is_judged_as_the_hint_says() -> None:
    rows = [{"question": "Where is Oslo?", "answer": "In Norway, dear."}]
    judge = rb.llms.ScriptedLLM(lambda prompt: {"reason": "It says dear.", "verdict": "yes"})
    polite = rb.Criterion("politeness", "Is the answer polite?")
    assert rb.evaluate(rows, judge=judge, criteria=[polite]).mean("llm_politeness") == 1


def test_a_criterion_in_a_mapping_may_be_its_question() -> None:
    rows = [{"question": "Where is Oslo?", "answer": "In Norway, dear."}]
    polite = {"polite": "Is the answer polite?"}
    kind = rb.evaluate(rows, judge=lambda prompt: '{"verdict": "yes"}', criteria=polite)
    assert kind.mean("llm_polite") == 1
    with pytest.warns(
        rb.errors.DataWarning, match=r'expected the JSON object .* \{"verdict": "yes"'
    ):
        rb.evaluate(rows, judge=lambda prompt: "5", criteria=polite)


def test_an_answer_that_a_measure_takes_for_a_text_is_explained() -> None:
    def length(case: Any, answer: Any, contexts: Any) -> float:
        return len(answer)

    rows = [{"question": "Where is Oslo?", "answer": "In Norway."}]
    with pytest.warns(rb.errors.DataWarning, match=r"no len\(\); answer[.]text is its text"):
        rb.evaluate(rows, measures=[length])  # type: ignore[list-item]


def test_documents_that_a_generator_yields_are_contexts_and_pieces_an_answer() -> None:
    documents = list(CORPUS.values())

    def search(question: str) -> Any:
        yield from documents

    def write(question: str) -> Any:
        yield from documents[0].split(" ")

    found = rb.evaluate(dataset(), search)
    assert found.mean("R@5") == rb.evaluate(dataset(), lambda question: documents).mean("R@5")
    assert not found.answers[0].text
    written = rb.evaluate(dataset(), write).answers[0]
    assert written.text == documents[0].replace(" ", "")
    assert not written.contexts


def test_the_baseline_of_a_list_or_a_mapping_may_be_named() -> None:
    old = {f"q{i}": 0.0 for i in range(12)}
    new = {f"q{i}": 1.0 for i in range(12)}
    one, other = results()
    assert rb.compare({"new": new, "old": old}, baseline="old").baseline == "old"
    assert rb.compare({"new": new, "old": old}, baseline="old").decision == "better"
    assert rb.compare(new, baseline=old).decision == "better"
    assert rb.compare({"a": one, "b": other}, baseline="b")["name"].unique().tolist() == ["a"]
    assert rb.compare(results(), baseline="b")["name"].unique().tolist() == ["a"]
    empty: dict[str, dict[str, float]] = {"q1": {}, "q2": {}}
    low = rb.score_run(dataset().qrels, empty)
    table = rb.compare([one, low], baseline=low, measures="nDCG@10")
    assert table["difference"].tolist() == [1.0]


def test_two_axes_are_crossed_as_the_message_says() -> None:
    data = dataset()
    names = ["bm25", "dense:wordllama"]
    crossed = rb.Results(
        {f"{name}, k={k}": rb.evaluate(data, name, k=k) for name in names for k in [3, 5]}
    )
    assert set(crossed.leaderboard()["name"]) == {
        f"{name}, k={k}" for name in names for k in (3, 5)
    }


@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
def test_a_table_of_questions_is_searched_as_the_message_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("docs").mkdir()
    Path("docs/cats.md").write_text("Cats sleep most of the day. Dogs bark.")
    QUESTIONS.to_json("tests.jsonl", orient="records", lines=True)
    data = rb.load_dataset("tests.jsonl", corpus="docs")
    assert rb.evaluate(data, "bm25").mean("R@5") == 1
    assert rb.evaluate(QUESTIONS, lambda question: "Anywhere.").mean("token_f1") == 1


def test_the_lines_of_a_grid_that_a_message_names_are_a_grid(tmp_path: Path) -> None:
    lines = ["[fixed]", grid_line("dataset", "pydoc"), "[axes]", grid_line("k", "3,5")]
    grid = tmp_path / "grid.toml"
    grid.write_text("\n".join([*lines, grid_line("retriever", "bm25,dense:minilm")]))
    assert len(read_grid(grid).runs) == 4


def test_the_measures_of_a_saved_result_are_shown(names: dict[str, Any]) -> None:
    done = CliRunner().invoke(app, ["history", "show", str(names["of a result"]), "--json"])
    means = {row["measure"]: row["mean"] for row in json.loads(done.output)}
    assert means["nDCG@10"] == result().mean("nDCG@10")


def test_a_hint_of_the_package_is_the_only_suggestion() -> None:
    with pytest.raises(AttributeError) as refused:
        _ = rb.BM25Retriever  # type: ignore[attr-defined]
    lines = traceback.format_exception(refused.value)
    assert "Did you mean" not in lines[-1]


def test_a_conclusion_is_shown_as_it_is_printed() -> None:
    conclusion = results().conclude()
    assert repr(conclusion) == str(conclusion) == "\n".join(conclusion.lines)
    assert conclusion._repr_markdown_().startswith(f"**{conclusion.headline}")
    assert pickle.loads(pickle.dumps(conclusion)) == conclusion


def test_a_table_that_is_too_wide_shows_its_first_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    board = repr(results().leaderboard()).splitlines()
    assert board[0].split() == ["rank", "label", "nDCG@10"]
    assert "more columns: R@10, chunks, " in board[-1]
    compared = repr(results().compare("a", measures="expected_document")).splitlines()
    assert compared[0].split()[-2:] == ["difference", "decision"]
    assert repr(result().measures).split()[:3] == ["measure", "perspective", "value"]


def test_long_names_leave_room_for_the_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    long_name = "dense-minilm-recursive-256-a449fc66"
    rows = []
    for i in range(20):
        rows += [(f"q{i}", "RR", i / 20), (f"q{i}", "AP", i / 25)]
    scores = pd.DataFrame(rows, columns=["query_id", "measure", "value"])
    runs = {"bm25": scores, long_name: scores.assign(value=scores["value"] / 2)}
    [header, *_, hidden] = repr(rb.compare_all(runs, "bm25")).splitlines()
    assert header.split() == ["name", "measure", "difference"]
    assert hidden == "[4 more columns: baseline, contender, p, decision]"
    of_one = repr(rb.compare_all(runs, "bm25", measures="RR")).splitlines()
    assert of_one[0].split() == ["name", "difference", "decision"]


def test_values_of_records_are_dicts_for_pandas() -> None:
    """pandas takes what can be called for a function, also a dict that explains its misuse."""
    data = rb.Dataset.from_dicts({"d1": "Cats nap."}, QUERIES, {"q1": {"d1": 1}})
    frame = pd.DataFrame({"query_id": list(QUERIES)})
    assert frame["query_id"].map(data.queries).tolist() == list(QUERIES.values())
    assert frame["query_id"].replace(data.queries).tolist() == list(QUERIES.values())
    assert not callable(data.qrels)


def test_chunks_and_runs_are_plain() -> None:
    """Other tools look at the types, and `score_run` ranks plain dicts without a frame."""
    chunks = rb.chunk(CORPUS)
    run = rb.retrieve(rb.make_retriever("bm25", chunks), QUERIES)
    assert (type(chunks), type(run)) == (list, dict)
    assert type(rb.make_retriever("bm25", chunks).search(QUERIES, 2)) is dict


def test_an_error_of_the_users_own_code_is_not_blamed_on_an_argument() -> None:
    class Broken:
        name = "broken"

        def encode(self, texts: Any) -> Any:
            raise ValueError("weights of my model are corrupt")

    data = rb.Dataset.from_dicts({"d1": "Cats nap."}, QUERIES, {"q1": {"d1": 1}})
    with pytest.raises(ValueError, match="weights of my model are corrupt"):
        rb.make_retriever("dense", rb.chunk(data), embedder=Broken())


def test_one_value_as_a_number_names_item() -> None:
    one = result().questions.head(1)["passed"]
    with pytest.raises(TypeError, match=r"one value; use its item\(\)"):
        float(one)
