"""Audits a judge with the built-in questions: `python -m tests.judge_audit openai:<model>`.

Prints the table of `rb.judges.judge_audit` for each criterion: does the judge prefer a longer
answer, or one that gives it orders, does it repeat itself, does it see wrong answers? About 400
requests; a second run takes its replies from the store.
"""

from __future__ import annotations

import sys
from typing import Any

import pandas as pd

import ragbench as rb


def audit(
    llm: Any, criteria: tuple[str, ...] = ("correctness", "faithfulness"), n: int = 20
) -> pd.DataFrame:
    """The probes of each criterion, with reference answers as the answers that are judged."""
    data = rb.load_dataset("pydoc")
    data = data.select([case.query_id for case in data.cases if case.reference_answer][: 2 * n])
    pipeline = rb.Pipeline(data, "bm25")
    run = {case.query_id: pipeline.answer(case.query_id, case.text) for case in data.cases}
    answers = [
        rb.Answer(
            case.query_id,
            case.reference_answer or "",
            run[case.query_id].contexts,
            outcome="success",
        )
        for case in data.cases
    ]
    options: dict[str, Any] = {"dataset": data, "chunks": pipeline.chunks, "n": n}
    return pd.concat(
        {name: rb.judges.judge_audit(answers, name, llm, **options) for name in criteria},
        names=["criterion", ""],
    ).droplevel(1)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.judge_audit anthropic:<model> (or ollama:, openai:, env)")
    print(audit(sys.argv[1]).to_string())
