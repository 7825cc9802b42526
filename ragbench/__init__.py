"""ragbench: is RAG configuration B really better than A, where does each fail, and can the judge be
trusted?

>>> import ragbench as rb
>>> rb.Document("d1", "Body.", title="Head").full_text
'Head\\n\\nBody.'

The names are in `__init__.pyi`; each is loaded when it is first used, so that `import ragbench` is
instant and silent. Submodules (`rb.statistics`, `rb.metrics`, ...) hold the rest of the public
names.
"""

from ragbench.lazy import attach

__version__ = "0.1.0"

_KINDS = (
    "datasets retrievers embedders chunkers rerankers llms prompts criteria interventions".split()
)
"""What the command `ragbench list` lists, besides measures."""
_OWN_CRITERION = (
    "rb.evaluate(rows, judge='provider:model', "
    "criteria=[rb.Criterion('politeness', 'Is the answer polite?')])"
)
_CALLS = {
    **{kind: f"the command `ragbench list {kind}`" for kind in _KINDS},
    **dict.fromkeys(
        ["models", "list_models", "list_judges", "available_models"],
        "the command `ragbench list llms`",
    ),
    **dict.fromkeys(
        ["hybrid", "fuse", "fusion", "rrf"],
        "rb.make_retriever('hybrid:minilm', chunks), which fuses BM25 and embeddings",
    ),
    **dict.fromkeys(
        ["GEval", "AspectCritic", "rubric", "rubrics", "custom_metric"],
        f"{_OWN_CRITERION}, or rb.Measure(name, function)",
    ),
    **dict.fromkeys(
        "list_metrics list_measures get_metrics get_measures metric_names parse_measure".split(),
        "rb.measures(), a table, or names such as measures=['nDCG@10']",
    ),
    **dict.fromkeys(["load_judge", "create_judge", "make_judge"], "rb.load_llm('provider:model')"),
    "OpenAI": "rb.load_llm('openai:model')",
    "Anthropic": "rb.load_llm('anthropic:model')",
    "FAISS": "rb.make_retriever('dense:minilm', chunks)",
    "index": "rb.make_retriever(name, chunks)",
    "chain": "rb.evaluate(data, chain), which takes functions, chains and retrievers of frameworks",
    "generate": "the command `ragbench testset generate`, or rb.generate_answers",
    "assert_better": "rb.assert_not_worse(a, b, fail_if='within the margin')",
    "leaderboard": "rb.Results([a, b]).leaderboard(), or rb.load_results(folder).leaderboard()",
    "beir": "rb.load_dataset('beir/scifact'), a folder's path, or rb.Dataset.from_dicts(corpus, queries, qrels)",
    **dict.fromkeys(
        ["label", "annotate", "annotation"],
        "the command `ragbench label`, or rb.labelling.draw_items(results) and label_sheet(items, path)",
    ),
    **dict.fromkeys(
        ["conclude", "conclusion", "decide"],
        "rb.Results([a, b]).conclude(), or rb.load_results(folder).conclude()",
    ),
    "score": "rb.score_run(qrels, run), or rb.evaluate(data, system)",
    "run": "rb.evaluate(data, system); a run of a retriever is a file's path or a dict, query -> document -> "
    "score, as in rb.score_run(qrels, run)",
    "qrels": "a dict, query -> document -> grade, or a file's path, as in rb.score_run(qrels, run)",
    "eval": "rb.evaluate(data, system)",
    **dict.fromkeys(
        ["check", "gate", "assert", "regression"],
        "rb.assert_not_worse(a, b), or rb.evaluate(data, system, targets={'R@5': 0.7}), whose result has `passed`",
    ),
    **dict.fromkeys(["grid", "search", "tune", "optimize"], "rb.sweep(grid), or `ragbench tune`"),
    **dict.fromkeys(
        ["latex", "markdown", "html"],
        "result.measures, a DataFrame, or rb.write_report(result, 'report.html')",
    ),
    **dict.fromkeys(
        ["win", "wins", "effect"], "rb.compare(a, b), which has wins, losses and effect_size"
    ),
    **dict.fromkeys(
        ["calibrate", "calibration"], "rb.trust(results), which compares the judge with people"
    ),
    **dict.fromkeys(
        ["Judge", "LLMJudge", "LLMAsJudge", "JudgeLLM"],
        f"rb.evaluate(data, system, judge='provider:model'), or by a question of your own {_OWN_CRITERION}",
    ),
    **dict.fromkeys(
        ["pandas", "dataframe", "dicts", "records", "rows"],
        "rb.evaluate(rows, system), of dicts or a DataFrame, or rb.Dataset.from_frames(corpus, queries, qrels)",
    ),
    **dict.fromkeys(
        ["write_run", "save_run", "export_run", "to_run", "to_trec"],
        "rb.save(result, folder), which writes its run.trec",
    ),
    **dict.fromkeys(
        ["concat", "combine", "merge"], "rb.Results([a, b]), whose scores are one table"
    ),
    **dict.fromkeys(["VectorStore", "store"], "rb.make_retriever('dense:minilm', chunks)"),
    "GenericDataLoader": "rb.load_dataset('beir/scifact'), or a folder's path",
    **dict.fromkeys(
        ["reader", "loader"],
        "rb.load_dataset(tests, corpus=folder), or rb.testsets.load_corpus(folder)",
    ),
    "corpus": "rb.load_dataset(tests, corpus=folder), or rb.testsets.load_corpus(folder)",
    "runs": "rb.score_run(qrels, run) of each run, and rb.compare of these scores",
    "testset": "the commands `ragbench testset draft` and `generate`, rb.load_testset(path), or "
    "rb.evaluate(rows, system)",
    "benchmark": "rb.evaluate(data, system), or rb.sweep(grid)",
    **dict.fromkeys(["metric", "register_measure"], "rb.Measure(name, function)"),
    "measure": "def length(case, answer, contexts): return len(answer.text), "
    "and rb.evaluate(data, system, measures=[length])",
    "Evaluator": "rb.evaluate(data, system)",
    "Experiment": "rb.evaluate(data, system), or rb.sweep(grid)",
    **dict.fromkeys(
        ["heatmap", "hist", "histogram", "bar", "barplot", "scatter", "boxplot"],
        "rb.plots.cause_bars(result.diagnosis), or result.to_frame().plot",
    ),
    "plot": "rb.write_report(result, 'report.html'), also of rb.Results([a, b]), or a function of rb.plots, such as "
    "rb.plots.cause_bars(result.diagnosis)",
    "BM25": "rb.retrieval.BM25(chunks), or rb.make_retriever('bm25', chunks)",
    "Dense": "rb.retrieval.Dense(chunks, embedder), or rb.make_retriever('dense:minilm', chunks)",
    "explain": "rb.diagnose(result)",
    **dict.fromkeys(["inspect", "browse", "view"], "rb.explore(result)"),
    **dict.fromkeys(
        ["power", "minimum_detectable_effect", "detectable_effect", "mde"],
        "rb.compare(a, b)['mde'], the smallest detectable difference by each measure",
    ),
    "sample_size": "rb.compare(a, b), which states how many questions would decide",
    **dict.fromkeys(["significance", "compare_runs", "compare_results"], "rb.compare(a, b)"),
    "test": "rb.compare(a, b), or rb.assert_not_worse(a, b) in a test",
    "list": "the command `ragbench list`, or rb.measures()",
    "draft": "the command `ragbench testset draft`",
    "llm": "rb.load_llm('provider:model')",
    "split_documents": "rb.chunk(corpus, chunker)",
    "split_text": "rb.chunk(corpus, chunker)",
    "BM25Retriever": "rb.make_retriever('bm25', chunks)",
    "EnsembleRetriever": "rb.make_retriever('hybrid:minilm', chunks)",
    "bootstrap": "rb.compare(a, b), whose intervals hold for small samples too",
    "ttest": "rb.compare(a, b)",
    "is_better": "rb.compare(a, b).decision of files or tables",
    "load": "rb.load_result(folder), or rb.load_results(folder) of several; rb.load_dataset(name) or "
    "rb.load_system(file)",
    "bm25": "rb.make_retriever('bm25', chunks), or rb.evaluate(data, 'bm25')",
    "evaluate": "rb.evaluate(data, system), or rb.score_run(qrels, run)",
    "rank": "rb.Results([a, b]).leaderboard(), or rb.load_results(folder).leaderboard()",
    "mcnemar": "rb.compare(a, b), whose interval of 0/1 scores is Tango's",
    "confidence": "rb.compare(a, b), or rb.summarise(scores)",
    **dict.fromkeys(
        ["csv", "json", "jsonl", "parquet", "excel"],
        "rb.load_dataset(path) for questions, or rb.compare('a.csv', 'b.csv') for scores",
    ),
    **dict.fromkeys(
        ["hf", "huggingface", "hub"],
        "rb.load_dataset('hf:<repository>'), or rb.evaluate(rows, system)",
    ),
    "aggregate": "rb.score_run(qrels, run, measures).mean(), or result.mean()",
    "read": "rb.load_dataset(name), rb.load_result(folder), rb.evaluate(rows) of rows with answers, "
    "or rb.compare('a.csv', 'b.csv') of scores",
    "RelevanceEvaluator": "rb.score_run(qrels, run, measures)",
    "EvaluationDataset": "rb.evaluate(rows), of a list of dicts or a DataFrame",
    "TestCase": "rb.evaluate(rows), of a list of dicts or a DataFrame; rb.Case is a question with its labels",
    "Sample": "rb.evaluate(rows), of a list of dicts or a DataFrame; rb.Case is a question with its labels",
    **dict.fromkeys(["Query", "Golden"], "rb.Case(query_id, text)"),
    "Question": "rb.Case(query_id, text)",
    **dict.fromkeys(
        "provider agent predict endpoint api service target engine system wrap wrapper register".split(),
        "rb.evaluate(data, system), of a function, an object, an address or a retriever's name",
    ),
    **dict.fromkeys(
        ["log", "export", "to", "write"],
        "rb.save(result, folder), or rb.write_report(result, 'report.json')",
    ),
    **dict.fromkeys(
        ["train_test_split", "kfold", "StratifiedKFold"],
        "data.sample(n), or data.select(query_ids)",
    ),
    **dict.fromkeys(
        "Chroma chromadb Qdrant Pinecone Weaviate Milvus pgvector LanceDB Elasticsearch OpenSearch".split(),
        "rb.evaluate(data, ask), of a function of the question that searches it",
    ),
    **dict.fromkeys(["anova", "friedman", "chisq", "tukey", "glm", "lmer"], "rb.compare(a, b)"),
    **dict.fromkeys(
        ["from_function", "from_callable"], "rb.FunctionSystem(ask), of a function of the question"
    ),
    **dict.fromkeys(["make_scorer", "scorer"], "rb.Measure(name, function)"),
    **dict.fromkeys(["to_dataframe", "to_df"], "result.to_frame()"),
    "Synthesizer": "the command `ragbench testset generate`",
    "TestsetGenerator": "the command `ragbench testset generate`",
    "ttest_rel": "rb.compare(a, b)",
    "wilcoxon": "rb.compare(a, b), which decides about the mean",
    "permutation": "rb.compare(a, b), which decides about the mean",
    "kappa": "rb.trust(results), which compares the judge with people",
    "agreement": "rb.trust(results), which compares the judge with people",
    "report": "rb.write_report(result, 'report.html')",
    **dict.fromkeys(
        "ragas deepeval promptfoo mlflow trulens phoenix langfuse langsmith braintrust".split(),
        "rb.compare(old, new), which reads results of other tools, or rb.load_dataset(path) for test sets",
    ),
    **dict.fromkeys(
        "langchain llamaindex llama_index haystack dspy integrations adapters connectors".split(),
        "rb.evaluate(data, system), which takes chains, retrievers and functions",
    ),
    **dict.fromkeys(
        "iter_calc calc trec ir_measures pytrec_eval trec_eval pytrec irmeasures ranx".split(),
        "rb.score_run(qrels, run, measures), of files or dicts",
    ),
    "dashboard": "the command `ragbench serve`, or rb.write_report(result, 'report.html')",
    "notebook": "rb.sweep(grid), which executes a notebook per configuration, or the command `ragbench notebooks`",
    "splitter": "rb.chunk(corpus, chunker)",
    "Chunker": "rb.chunk(corpus, chunker)",
    "embeddings": "rb.retrieval.load_embedder('minilm').encode(texts)",
    "embed": "rb.retrieval.load_embedder('minilm').encode(texts)",
    "EmbeddingRetriever": "rb.make_retriever('dense:minilm', chunks)",
}
"""What people expect at the root -> the call that does it."""


def _call_of_measure(name: str) -> str:
    """Return the call that computes the measure that a name means; "" if it means none."""
    from ragbench.registry import call_of_measure, expected_measure

    measure = expected_measure(name)
    return "" if measure is None else call_of_measure(measure)


__getattr__, __dir__, __all__ = attach(__name__, __file__, _CALLS, _call_of_measure)
