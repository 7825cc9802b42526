"""A report as JUnit XML, which CI servers show as tests: one for each question and target."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ragbench.errors import printable
from ragbench.evaluation import Result


def report_junit(result: Result) -> str:
    """Write the XML of JUnit: a failed question or missed target is a failure, an unmeasured one is
    skipped.
    """
    root = Element("testsuites", name="ragbench")
    questions = [
        (
            case.query_id,
            case.question,
            "" if case.passed is None else "; ".join(case.reasons),
            case.passed,
        )
        for case in result.cases
    ]
    targets = [
        (row.measure, "", f"{row.value} misses the target {row.target}", _PASSED.get(row.verdict))
        for row in result.rows
        if row.target is not None
    ]
    for name, rows in (("questions", questions), ("targets", targets)):
        failures, skipped = (sum(row[3] is kind for row in rows) for kind in (False, None))
        counts = {"tests": len(rows), "failures": failures, "errors": 0, "skipped": skipped}
        suite = SubElement(
            root, "testsuite", {"name": name, **{key: str(value) for key, value in counts.items()}}
        )
        for identifier, text, reason, passed in rows:
            case = SubElement(
                suite,
                "testcase",
                classname=f"ragbench.{name}",
                name=printable(f"{identifier} {text}"),
            )
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
