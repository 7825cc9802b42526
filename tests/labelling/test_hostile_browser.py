"""Hostile texts in the three widgets in a real JupyterLab: shown as texts, inside their forms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import nbformat

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CODE = """
import json
from pathlib import Path
import ragbench as rb
from ragbench import evaluation, labelling
bad = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script> \\u202egnp \\x1b[31m " + "w" * 3000
item = labelling.LabelItem("item-0", "q", "correctness", bad, bad, bad, (bad,))
labelling.label_sheet([item], "labels.csv")
Path("docs").mkdir(exist_ok=True)
Path("docs/a.md").write_text(bad, encoding="utf-8")
labels = labelling.LabelWidget("labels.csv")
questions = labelling.QuestionWidget("questions.jsonl", "docs")
questions.save(bad, [{"doc_id": "a.md", "start": 0, "end": 4, "quote": bad[:4]}], bad)
data = rb.load_dataset("questions.jsonl")
result = rb.evaluate(data, lambda question: bad)
Path("ready").write_text("")
display(labels, questions, rb.explore(result, dataset=data))
"""


def test_hostile_texts_in_jupyterlab(tmp_path: Path, lab: str, browser: Browser) -> None:
    cell = nbformat.v4.new_code_cell(CODE)
    notebook = nbformat.v4.new_notebook(cells=[cell])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, tmp_path / "hostile.ipynb")
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(120_000)
    page.goto(f"{lab}/lab/tree/hostile.ipynb")
    page.locator(".jp-InputPrompt").first.wait_for()
    for _ in range(60):
        if page.locator(".jp-InputPrompt").first.inner_text().strip() == "[ ]:":
            page.locator(".jp-CodeCell .cm-content").first.click()
            page.keyboard.press("Shift+Enter")
        page.wait_for_timeout(2_000)
        if page.locator(".rb-explorer .detail").count():
            break
    page.wait_for_timeout(500)
    assert page.evaluate("window.hacked") is None
    for form in (".rb-label", ".rb-questions", ".rb-explorer"):
        root = page.locator(form).first
        root.scroll_into_view_if_needed()
        text = root.evaluate("node => node.textContent")
        assert "<img src=x onerror=window.hacked=1><script>" in text, form
        assert "\ufffdgnp \u241b[31m" in text, form
        assert not {"\u202e", "\x1b"} & {*text}, form
        assert root.locator("img, script").count() == 0, form
        inside = root.evaluate("node => node.scrollWidth <= node.clientWidth + 1")
        assert inside, f"a long word is wider than {form}"
    page.close()
