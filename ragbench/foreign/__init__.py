"""Results of other tools: tables of scores per question, read, paired and decided as ragbench's own.

`rb.compare("a.csv", "b.csv")` and `ragbench compare a.csv b.csv` come here. Files are read by their content:
tables (CSV, TSV, JSON, JSON Lines, parquet, xlsx; wide or long), and the exports of ragas, DeepEval,
promptfoo, Inspect, MLflow, lm-evaluation-harness, OpenAI evals, Braintrust, TruLens, Phoenix, Langfuse,
trec_eval, ir_measures, pytrec_eval and JUnit.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

from ragbench.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
