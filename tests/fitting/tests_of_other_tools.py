"""Call the tests of MLflow and TruLens on the experiments of the study of error rates.

MLflow cannot be installed next to ragbench (it needs an older pandas), so they run in an environment of their own
(`pip install mlflow==3.18.0`, `pip install --no-deps trulens-core==2.16.0`):

    python -m tests.fitting.tests_of_other_tools draw FOLDER      # with ragbench: the experiments
    python tests/fitting/tests_of_other_tools.py mlflow FOLDER [N ...]    # there: 3 CPU minutes
    python tests/fitting/tests_of_other_tools.py trulens FOLDER [N ...]   # there: 3 CPU minutes
    python -m tests.fitting.tests_of_other_tools keep FOLDER      # with ragbench: notebooks/other_tests.parquet

What is called is what the released packages call: MLflow's function behind `mlflow.genai.compare_evaluations`, which
itself reads traces from a tracking server, and the two functions behind `trulens.core.run.compare_runs`.
"""

import sys
from functools import cache
from importlib import import_module
from importlib.metadata import distribution
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
SIZES = (20, 50)
PARQUET = Path(__file__).parents[2] / "notebooks" / "other_tests.parquet"


def draw(folder: Path) -> None:
    """Write the scores of the experiments, an array for each number of questions."""
    from ragbench.studies.error_rates import experiments
    from ragbench.studies.score_matrices import load_score_matrices

    matrices = load_score_matrices(Path(__file__).parents[2] / "results" / "chunking")
    folder.mkdir(parents=True, exist_ok=True)
    for n in SIZES:
        drawn = list(experiments(matrices, n))
        np.save(folder / f"before-{n}.npy", [experiment.before for experiment in drawn])
        np.save(folder / f"after-{n}.npy", [experiment.after for experiment in drawn])


def mlflow(before: Array, after: Array) -> tuple[float, float, float]:
    """Return p and the limits of MLflow's comparison of one scorer."""
    comparison = import_module("mlflow.genai.evaluation.comparison.paired_comparison")
    compared = comparison._compare_paired_values("scorer", before, after, value_type="numeric")
    return compared.p_value, compared.ci_low, compared.ci_high


@cache
def trulens_statistics() -> Any:
    """Load TruLens' file of tests by itself; all that it imports is numpy."""
    path = distribution("trulens-core").locate_file("trulens/core/utils/stats.py")
    spec = spec_from_file_location("trulens_statistics", str(path))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def trulens(before: Array, after: Array) -> tuple[float, float, float]:
    """Return p and the limits of TruLens' comparison of one metric."""
    stats = trulens_statistics()
    differences = after - before
    return stats.paired_permutation_pvalue(differences), *stats.bootstrap_ci(differences)


def run(tool: str, folder: Path, sizes: tuple[int, ...]) -> None:
    """Write p and limits of every experiment with these numbers of questions."""
    test = {"mlflow": mlflow, "trulens": trulens}[tool]
    for n in sizes:
        before, after = (np.load(folder / f"{side}-{n}.npy") for side in ("before", "after"))
        results = [test(*pair) for pair in zip(before, after, strict=True)]
        np.save(folder / f"{tool}-{n}.npy", np.array(results))
        print(tool, n, flush=True)


def keep(folder: Path) -> None:
    """Write one table with the results of both."""
    import pandas as pd

    tables = []
    for n in SIZES:
        before, after = (np.load(folder / f"{side}-{n}.npy") for side in ("before", "after"))
        table = pd.DataFrame({"n": n, "difference": (after - before).mean(axis=1)})
        for tool in ("mlflow", "trulens"):
            results = np.load(folder / f"{tool}-{n}.npy")
            table[[f"{tool}_p", f"{tool}_low", f"{tool}_high"]] = results
        tables.append(table)
    numbers = pd.concat(tables, ignore_index=True).astype({"n": "int16"})
    numbers.to_parquet(PARQUET, compression="zstd", index=False)


if __name__ == "__main__":
    what, where = sys.argv[1], Path(sys.argv[2])
    if what == "draw":
        draw(where)
    elif what == "keep":
        keep(where)
    else:
        run(what, where, tuple(map(int, sys.argv[3:])) or SIZES)
