"""A report as JUnit XML, which CI servers show as tests: one for each question and target."""

from __future__ import annotations

from collections import Counter
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ragbench.errors import printable
from ragbench.evaluation import Result


def report_junit(result: Result) -> str:
    """Write the XML of JUnit: a failed question or missed target is a failure, an unmeasured one is
    skipped.
    """
    root = Element("testsuites", name="ragbench")
    questions = [
        (f"{case.query_id} {case.question}", "; ".join(case.reasons), case.passed)
        for case in result.cases
    ]
    targets = [
        (f"{row.measure} ", f"{row.value} misses the target {row.target}", _PASSED.get(row.verdict))
        for row in result.rows
        if row.target is not None
    ]
    for name, rows in (("questions", questions), ("targets", targets)):
        passed_or_not = Counter(passed for _, _, passed in rows)
        failures, skipped = passed_or_not[False], passed_or_not[None]
        counts = {"tests": len(rows), "failures": failures, "errors": 0, "skipped": skipped}
        texts = {key: str(value) for key, value in counts.items()}
        suite = SubElement(root, "testsuite", {"name": name, **texts})
        for text, reason, passed in rows:
            about = {"classname": f"ragbench.{name}", "name": printable(text)}
            case = SubElement(suite, "testcase", about)
            if passed is None:
                SubElement(case, "skipped", message="not measured")
            elif not passed:
                SubElement(case, "failure", message=printable(reason or "failed"))
    indent(root)
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n<!-- ragbench '
        f"-->\n{tostring(root, encoding='unicode')}\n"
    )


_PASSED = {"passed": True, "missed": False, "unreachable": False}
