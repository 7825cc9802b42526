"""The means of a result under names that MLflow takes."""

from ragbench.evaluation import Result


def mlflow_metrics(result: Result) -> dict[str, float]:
    """Return the mean of each measure that has one, for `mlflow.log_metrics`.

    MLflow refuses "@", and ":" on Windows: "nDCG@10" is "nDCG_at_10", "chunk:R@5" is "chunk/R_at_5".

    >>> from ragbench.evaluation import load_result
    >>> metrics = mlflow_metrics(load_result("results/quickstart/bm25"))  # doctest: +SKIP
    >>> metrics["nDCG_at_10"]  # doctest: +SKIP
    0.493
    """
    return {_name(row.measure): row.value for row in result.rows if row.value is not None}


def _name(measure: str) -> str:
    """Return the name of a measure in MLflow.

    >>> _name("chunk:nDCG@10")
    'chunk/nDCG_at_10'
    """
    return measure.replace("@", "_at_").replace(":", "/")
