from .html_report import report_html
from .markdown import report_markdown
from .report_files import check_output, is_report_file, write_report
from .sentences import banner, doubtful_claims, interval, number

__all__ = [
    "banner",
    "check_output",
    "doubtful_claims",
    "interval",
    "is_report_file",
    "number",
    "report_html",
    "report_markdown",
    "write_report",
]
