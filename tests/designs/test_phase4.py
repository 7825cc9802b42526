"""The design "Phase 4": test cases that pass or fail, by command and by requests.

Its requests, bodies and fields are exercised in tests/service/server/test_designs.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.designs.conftest import Run, write_lines

pytestmark = pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")


def write_cases(folder: Path, n: int, n_wrong: int) -> None:
    """Write test cases under the design's names, and recorded answers of which some are wrong."""
    cases: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []
    for number in range(n):
        text = f"Form {number} is signed in office {number + 40}."
        case_id = f"case-{number}"
        cases.append(
            {
                "id": case_id,
                "question": f"Where is form {number} signed?",
                "expectedAnswer": text,
                "requiredKeywords": [f"office {number + 40}"],
                "expectedDocumentId": f"form-{number}",
                "category": "forms",
            }
        )
        context = {"id": f"form-{number}", "doc_id": f"form-{number}", "text": text}
        answer = "Nobody remembers that any more." if number < n_wrong else text
        answers.append({"query_id": case_id, "answer": answer, "contexts": [context]})
    (folder / "test-cases.json").write_text(json.dumps(cases), encoding="utf-8")
    write_lines(folder / "answers.jsonl", *answers)


@pytest.mark.parametrize(
    ("n", "n_wrong", "code", "line"),
    [
        (2, 1, 1, "1 of 2 test cases passed, 1 failed"),
        (10, 3, 1, "7 of 10 test cases passed, 3 failed"),
        (10, 2, 0, "8 of 10 test cases passed, 2 failed"),
        (2, 0, 0, "2 of 2 test cases passed"),
    ],
)
def test_failing_cases_decide_the_exit_status(
    run: Run, tmp_path: Path, n: int, n_wrong: int, code: int, line: str
) -> None:
    write_cases(tmp_path, n, n_wrong)
    options = "--test-set", "test-cases.json", "--targets", "phase4", "--output", "result"
    got, shown = run("eval", "answers.jsonl", *options)
    assert (got, line in shown) == (code, True), shown
    assert ("PASSED" in shown, "FAILED" in shown) == (code == 0, code == 1)
    report = (tmp_path / "result" / "report.md").read_text(encoding="utf-8")
    assert ("## Likely causes" in report) is (n_wrong > 0)
