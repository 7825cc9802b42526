"""A report as JUnit XML, which CI servers show as tests: one for each question and target."""

from ragbench.evaluation import Result
from ragbench.report.page.sentences import templates


def report_junit(result: Result) -> str:
    """Write the XML of JUnit: a failed question or missed target is a failure, an unmeasured one is
    skipped.
    """
    template = templates(autoescape=True).get_template("report.xml.j2")
    return template.render(result=result)
