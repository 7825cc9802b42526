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

_CALLS = {
    "hybrid": "rb.make_retriever('hybrid:minilm', chunks)",
    "similarity": "rb.evaluate(data, system), which measures semantic_similarity",
    "OpenAI": "rb.load_llm('openai:model')",
    "Anthropic": "rb.load_llm('anthropic:model')",
    "FAISS": "rb.make_retriever('dense:minilm', chunks)",
    "index": "rb.make_retriever(name, chunks)",
    "chain": "rb.evaluate(data, chain), which takes functions, chains and retrievers of frameworks",
    "generate": "the command `ragbench testset generate`, or rb.generate_answers",
    "assert_better": "rb.assert_not_worse(a, b, fail_if='within the margin')",
    "leaderboard": "rb.load_results(folder).leaderboard()",
    "conclude": "rb.load_results(folder).conclude(), or rb.compare(a, b)",
    "score": "rb.score_run(qrels, run), or rb.evaluate(data, system)",
    "run": "rb.evaluate(data, system); a run of a retriever is a dict, query -> document -> score",
    "qrels": "a dict, query -> document -> grade, or a file's path, as in rb.score_run(qrels, run)",
    "benchmark": "rb.evaluate(data, system), or rb.sweep(grid)",
    "metric": "rb.Measure(name, function)",
    "Evaluator": "rb.evaluate(data, system)",
    "Experiment": "rb.evaluate(data, system), or rb.sweep(grid)",
    "plot": "rb.write_report(result, 'report.html')",
    "BM25": "rb.retrieval.BM25(chunks), or rb.make_retriever('bm25', chunks)",
    "Dense": "rb.retrieval.Dense(chunks, embedder), or rb.make_retriever('dense:minilm', chunks)",
    "explain": "rb.diagnose(result)",
    "power": "rb.compare(a, b), which states the smallest detectable difference",
    "sample_size": "rb.compare(a, b), which states how many questions would decide",
    "significance": "rb.compare(a, b)",
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
    "load": "rb.load_dataset(name), rb.load_results(folder) or rb.load_system(file)",
    "bm25": "rb.make_retriever('bm25', chunks), or rb.evaluate(data, 'bm25')",
    "ndcg": "rb.score_run(qrels, run, 'nDCG@10')",
    "mrr": "rb.score_run(qrels, run, 'RR')",
    "map": "rb.score_run(qrels, run, 'AP')",
    "recall": "rb.score_run(qrels, run, 'R@10')",
    "precision": "rb.score_run(qrels, run, 'P@10')",
    "f1": "rb.score_run(qrels, run, 'F1@10'), or rb.evaluate(data, system), which measures token_f1",
    "reciprocal": "rb.score_run(qrels, run, 'RR')",
    "evaluate": "rb.evaluate(data, system), or rb.score_run(qrels, run)",
    "relevancy": "rb.evaluate(data, system, judge='provider:model')",
    "correctness": "rb.evaluate(data, system, judge='provider:model')",
    "rank": "rb.load_results(folder).leaderboard()",
    "mcnemar": "rb.compare(a, b), whose interval of 0/1 scores is Tango's",
    "confidence": "rb.compare(a, b), or rb.summarise(scores)",
    "hit": "rb.score_run(qrels, run, 'Success@10')",
    "read_csv": "rb.compare('a.csv', 'b.csv')",
    "read": "rb.load_dataset(name), rb.load_results(folder) or rb.compare('a.csv', 'b.csv')",
    "RelevanceEvaluator": "rb.score_run(qrels, run, measures)",
    "EvaluationDataset": "rb.evaluate(rows), of a list of dicts or a DataFrame",
    "TestCase": "rb.evaluate(rows), of a list of dicts or a DataFrame; rb.Case is a question with its labels",
    "Sample": "rb.evaluate(rows), of a list of dicts or a DataFrame; rb.Case is a question with its labels",
    "Query": "rb.Case(query_id, text)",
    "Question": "rb.Case(query_id, text)",
    "TestsetGenerator": "the command `ragbench testset generate`",
    "ttest_rel": "rb.compare(a, b)",
    "wilcoxon": "rb.compare(a, b), which decides about the mean",
    "permutation": "rb.compare(a, b), which decides about the mean",
    "kappa": "rb.trust(results), which compares the judge with people",
    "agreement": "rb.trust(results), which compares the judge with people",
    "dashboard": "the command `ragbench serve`, or rb.write_report(result, 'report.html')",
    "faithfulness": "rb.evaluate(data, system, judge='provider:model'), which measures llm_faithfulness",
    "splitter": "rb.chunk(corpus, chunker)",
    "Chunker": "rb.chunk(corpus, chunker)",
    "embed": "rb.retrieval.load_embedder('minilm').encode(texts)",
    "EmbeddingRetriever": "rb.make_retriever('dense:minilm', chunks)",
}
"""What people expect at the root -> the call that does it."""

__getattr__, __dir__, __all__ = attach(__name__, __file__, _CALLS)
