"""Texts of prompts and systems in labels: shown as they are in Markdown, notebooks and pages, and
never obeyed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markdown_it import MarkdownIt

from ragbench import report
from ragbench.evaluation import Results, save
from ragbench.report.several import results_html, results_markdown
from tests.report.test_leaderboard_of_results import constant, result

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PROMPTS = [
    "<documents> {context} </documents>",
    "<img src=x onerror=alert(1)>",
    "<script>alert(2)</script>",
    "<!-- {question}",
    "a | b `c` **d** [e](f)",
    "two\nlines \x1b[31mred",
    "$x$ and \\(y\\) and $$z$$",
]
SHOWN = [" ".join(prompt.replace("\x1b[31m", "").split()) for prompt in PROMPTS]


def hostile() -> Results:
    own = {f"n{i}": constant(0.5 + i / 100, 0.4, 0.3) for i in range(len(PROMPTS))}
    return Results(
        result(name, scores, prompt=prompt, retriever=prompt if i < 4 else "bm25")
        for i, ((name, scores), prompt) in enumerate(zip(own.items(), PROMPTS, strict=True))
    )


def test_markdown_shows_each_label_as_it_is() -> None:
    results = hostile()
    board = report.leaderboard_markdown(results.leaderboard("nDCG@10"), "nDCG@10")
    assert len(board.splitlines()) == 2 + len(PROMPTS)
    for text in (board, results_markdown(results)):
        html = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
        for tag in ("<documents", "<img", "<script", "<!--", "<a ", "<code>c"):
            assert tag not in html
    assert "$" not in board


def faults(browser: Browser, page: Path) -> tuple[list[str], Any]:
    """What ran in a page, and the page."""
    ran: list[str] = []
    opened = browser.new_page()

    def refuse(dialog: Any) -> None:
        ran.append(dialog.message)
        dialog.dismiss()

    opened.on("dialog", refuse)
    opened.goto(page.as_uri())
    if opened.locator("img[src=x]").count():
        ran.append("an image of a label")
    return ran, opened


# Where MathJax would look for the begin and the end of a formula.
FORMULAS = r"""() => {
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
    while (walk.nextNode())
        if (!walk.currentNode.parentElement.closest("pre,code,script,style,.tex2jax_ignore")
            && /\$.+\$|\\\(.+\\\)/.test(walk.currentNode.data)) found.push(walk.currentNode.data);
    return found;
}"""


def test_the_report_of_several_results_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(results_html(hostile()), encoding="utf-8")
    ran, opened = faults(browser, page)
    assert ran == []
    assert opened.locator("table").count() == 1
    [drawing] = opened.locator("img").all()
    assert str(drawing.get_attribute("alt")).startswith("Difference of each configuration")
    for text in SHOWN:
        assert text[:39] in opened.inner_text("body")


def to_page(notebook: Path) -> str:
    """The notebook as HTML that loads nothing from other servers."""
    import nbconvert

    installed = (
        Path(nbconvert.__file__).parents[4] / "share" / "jupyter" / "nbconvert" / "templates"
    )
    exporter = nbconvert.HTMLExporter(
        # an environment on top of another one does not look there
        extra_template_basedirs=[str(installed)],
        extra_template_paths=[str(installed)],
        mathjax_url="",
        require_js_url="",
        jquery_url="",
        mermaid_js_url="",
    )
    return str(exporter.from_filename(str(notebook))[0])


def test_the_comparison_notebook_in_a_browser(
    browser: Browser, tmp_path: Path, execute_notebook: Callable[..., Any]
) -> None:
    for one in hostile():
        save(one, tmp_path / "sweep" / one.name)
    notebook = Path(__file__).resolve().parents[2] / "notebooks" / "compare.ipynb"
    done = execute_notebook(
        notebook, tmp_path, sweep_dir=str(tmp_path / "sweep"), measure="nDCG@10"
    )
    assert not [
        out for cell in done.cells for out in cell.get("outputs", ()) if out.output_type == "error"
    ]
    page = tmp_path / "comparison.html"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nbconvert
        page.write_text(to_page(tmp_path / "out.ipynb"), encoding="utf-8")
    ran, opened = faults(browser, page)
    assert ran == []
    tables = sum("<table" in str(out) for cell in done.cells for out in cell.get("outputs", ()))
    assert opened.locator("table").count() >= tables >= 3
    findings = opened.inner_text("body")
    for text in SHOWN:
        assert text[:39] in findings
    assert opened.evaluate(FORMULAS) == []
