"""report.md: for a pull request, a wiki, a terminal; how many failed questions it lists, and which
signs of Markdown are escaped.
"""

import re
from functools import cache

from jinja2 import Template

from ragbench.errors import visible_line
from ragbench.evaluation import Result
from ragbench.report.page import sentences

_MOST = 50  # failed questions that are shown, and doubtful claims
_FLIPS = 20
# What would be markup of Markdown or HTML is escaped: questions and answers are data. "_" inside a
# word is none.
_MARKUP = re.compile(r"([\\`*{}\[\]<>#|~&$]|(?<![^\W_])_|_(?![^\W_]))")


def report_markdown(result: Result, *, is_brief: bool = False) -> str:
    """Write Markdown: verdict, measures by perspective, comparison, advice, categories, failed
    cases; if `is_brief`, no more than fits on a screen.
    """
    variables = sentences.shared_variables(result)
    return _template("summary.md.j2" if is_brief else "report.md.j2").render(
        variables, depth_heads=[f"k = {k}" for k in variables["depths"][0]]
    )


def _text(text: str) -> str:
    return _MARKUP.sub(r"\\\1", visible_line(text))


@cache
def _template(name: str) -> Template:
    environment = sentences.templates()
    environment.filters["text"] = _text
    environment.globals |= {"most": _MOST, "most_flips": _FLIPS}
    environment.tests["sureness"] = sentences.sureness
    return environment.get_template(name)
