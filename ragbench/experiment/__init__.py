"""One run on disk: what a configuration is called, and the folder that holds everything it produced.

A result folder holds `config.json` (parameters, dataset, questions, facts, environment), `run.trec`, `scores.csv`,
`answers.jsonl`, `judgements.jsonl` and `timings.json`. It is written aside and renamed, so it is whole or not there.
`scores.csv` and `run.trec` have the same bytes whenever the numbers are the same.
"""

from __future__ import annotations

from ragbench.experiment.configuration import (
    WHERE,
    check_models,
    check_parameters,
    check_requests,
    config_name,
    configuration,
)
from ragbench.experiment.reading import load_run, load_sweep, result_folders
from ragbench.experiment.writing import (
    ASIDE,
    FILES,
    Timings,
    run_to_trec,
    save_run,
    scores_to_csv,
    short,
)
from ragbench.report.environment import environment, own_version

__all__ = [
    "ASIDE",
    "FILES",
    "WHERE",
    "Timings",
    "check_models",
    "check_parameters",
    "check_requests",
    "config_name",
    "configuration",
    "environment",
    "load_run",
    "load_sweep",
    "own_version",
    "result_folders",
    "run_to_trec",
    "save_run",
    "scores_to_csv",
    "short",
]
