"""The form, driven as a browser would: by keys typed and buttons clicked."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ragbench.errors import DataError
from ragbench.labelling import LabelItem, LabelWidget, label_sheet, read_sheet, save_label
from ragbench.labelling.widget import _KEYS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SCRIPT = "<script>alert({})</script>"
ITEMS = [
    LabelItem(
        f"item-{i}",
        f"q{i}",
        "correctness",
        f"Question {i}?",
        SCRIPT.format(i),
        "Ref",
        (f"ctx {i}",),
    )
    for i in range(3)
]


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    return label_sheet(ITEMS, tmp_path / "labels.csv")


def values(path: Path) -> list[float | None]:
    return [None if value != value else value for value in read_sheet(path)["value"].astype(float)]


def button(widget: LabelWidget, name: str) -> None:
    next(b for b in widget._choices.children if b.description == name).click()


def test_keys_label_and_go_on(sheet: Path) -> None:
    widget = LabelWidget(sheet)
    widget.press("y")
    assert values(sheet) == [1.0, None, None]
    assert (widget.item_id, widget.labelled) == ("item-1", 1)
    widget.press("s")
    widget.press("N")
    assert values(sheet) == [1.0, None, 0.0]
    assert widget.item_id == "item-1", "the first one without a verdict"
    widget.press("b")
    assert widget.item_id == "item-0"
    assert "labelled: <b>yes</b>" in widget._count.value
    widget.press("x")
    assert values(sheet) == [1.0, None, 0.0]


def test_buttons_do_the_same(sheet: Path) -> None:
    widget = LabelWidget(sheet)
    assert [b.description for b in widget._choices.children] == [
        "yes (y)",
        "no (n)",
        "back (b)",
        "skip (s)",
        "first unlabelled (u)",
    ]
    button(widget, "no (n)")
    button(widget, "skip (s)")
    button(widget, "yes (y)")
    assert values(sheet) == [0.0, None, 1.0]


def test_notes_are_saved_with_the_verdict_and_when_they_are_left(sheet: Path) -> None:
    widget = LabelWidget(sheet)
    widget._note.value = "=unsure"
    widget.press("y")
    widget._note.value = "skipped, too hard"
    widget.press("s")
    assert read_sheet(sheet)["note"].tolist() == ["=unsure", "skipped, too hard", ""]
    assert values(sheet) == [1.0, None, None]
    widget.press("b")
    assert widget._note.value == "skipped, too hard"


def test_it_continues_and_reads_verdicts_of_a_spreadsheet(sheet: Path) -> None:
    save_label(sheet, "item-0", 1.0)
    text = sheet.read_text(encoding="utf-8-sig").replace("[1] ctx 0,1,", "[1] ctx 0,yes,")
    sheet.write_text(text, encoding="utf-8-sig")
    widget = LabelWidget(sheet)
    assert (widget.item_id, widget.labelled) == ("item-1", 1)


def test_texts_are_escaped_and_nothing_is_shown_that_would_sway(sheet: Path) -> None:
    label_sheet(ITEMS, sheet, annotator="bob")
    save_label(sheet, "item-0", 1.0, note="ann thinks so")
    shown = LabelWidget(sheet, annotator="bob")
    html = "".join([shown._text.value, shown._count.value, shown._asked.value, shown._note.value])
    assert "<script>" not in html
    assert "&lt;script&gt;alert(0)" in html
    assert "ctx 0" in html
    assert "ann thinks so" not in html
    assert "0 of 3 labelled" in html


def test_hidden_signs_of_an_answer_are_shown_as_signs(tmp_path: Path) -> None:
    texts = ("q \x07", "answer \x1b[31m \u202etxt.exe \u200b", "ref \u2066", ("ctx \ufeff",))
    sheet = label_sheet([LabelItem("item-0", "q0", "correctness", *texts)], tmp_path / "x.csv")
    shown = LabelWidget(sheet)._text.value
    assert shown.replace("\n", "").isprintable()
    assert "answer \u241b[31m \ufffdtxt.exe \ufffd" in shown


def test_each_criterion_has_its_own_verdicts(tmp_path: Path) -> None:
    items = [
        LabelItem("item-r", "q", "relevance", "?", "!"),
        LabelItem("item-c", "q", "correctness", "?", "!"),
    ]
    path = label_sheet(items, tmp_path / "labels.csv")
    widget = LabelWidget(path)
    assert [b.description for b in widget._choices.children[:5]] == [
        "not at all (0)",
        "a little (1)",
        "about half (2)",
        "mostly (3)",
        "fully (4)",
    ]
    widget.press("3")
    widget.press("n")
    assert values(path) == [0.75, 0.0]


def test_all_labelled_stays_where_it_is(sheet: Path) -> None:
    widget = LabelWidget(sheet)
    for _ in range(4):
        widget.press("y")
    assert values(sheet) == [1.0, 1.0, 1.0]
    assert widget.labelled == 3


def test_a_stranger_has_nothing_to_label(sheet: Path) -> None:
    with pytest.raises(DataError, match="no row for 'carol'"):
        LabelWidget(sheet, annotator="carol")


def test_a_key_or_button_leads_to_the_first_unlabelled_answer(sheet: Path) -> None:
    widget = LabelWidget(sheet)
    widget.press("y")
    widget.press("s")
    widget.press("u")
    assert widget.item_id == "item-1"
    widget.press("b")
    button(widget, "first unlabelled (u)")
    assert widget.item_id == "item-1"


def test_code_is_monospaced_and_escaped(tmp_path: Path) -> None:
    text = (
        "Call `f(<b>)`:\n\n    if a < b:\n        pass\n\n>>> 1 < 2\nTrue\n\n```\n<i>\n```\nno code"
    )
    item = LabelItem("item-0", "q", "correctness", "?", text, "Ref")
    html = LabelWidget(label_sheet([item], tmp_path / "labels.csv"))._text.value
    assert "<i>" not in html
    codes = re.findall(r"<code[^>]*>(.*?)</code>", html, re.DOTALL)
    assert codes == [
        "`f(&lt;b&gt;)`",
        "    if a &lt; b:\n        pass",
        "&gt;&gt;&gt; 1 &lt; 2\nTrue",
        "```\n&lt;i&gt;\n```",
    ]


def test_keys_are_heard_everywhere_in_the_form_but_in_the_note(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content(
        "<input id='before'><div "
        "class='rb-label'><p>answer</p><button>back</button><textarea></textarea><div "
        "id='el'></div></div>"
    )
    page.evaluate("window.heard = []")
    script = (
        'render({ model: { send: (key) => heard.push(key) }, el: document.getElementById("el") })'
    )
    page.add_script_tag(type="module", content=f"{_KEYS}\n{script}")
    page.wait_for_function("document.activeElement.className === 'rb-label'")
    page.keyboard.press("y")
    page.locator("button").click()
    page.keyboard.press("n")
    page.locator("textarea").click()
    page.keyboard.press("s")
    page.locator("p").click()
    page.keyboard.press("Control+u")
    page.keyboard.press("u")
    page.locator("#before").click()
    page.keyboard.press("b")
    assert page.evaluate("heard") == ["y", "n", "u"]
    assert page.locator("textarea").input_value() == "s"


LABELLER = """
import sys
from ragbench.labelling import LabelWidget
widget = LabelWidget(sys.argv[1], annotator=sys.argv[2])
while widget.labelled < 40:
    item = widget.item_id
    widget.press(sys.argv[3])
    print(item, flush=True)
"""


def test_two_labellers_of_one_sheet_lose_nothing_when_one_is_killed(tmp_path: Path) -> None:
    items = [LabelItem(f"item-{i}", f"q{i}", "correctness", "?", f"{i}.", "R") for i in range(40)]
    path = tmp_path / "labels.csv"
    for annotator in ("ann", "bob"):
        label_sheet(items, path, annotator=annotator)

    def start(annotator: str, key: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", LABELLER, str(path), annotator, key]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    bob = start("bob", "n")
    for n_before_kill in (5, 9):
        ann = start("ann", "y")
        assert ann.stdout is not None
        labelled = {ann.stdout.readline().strip() for _ in range(n_before_kill)}
        ann.kill()
        ann.communicate()
        rows = read_sheet(path, annotator="ann").set_index("item")
        assert rows.loc[sorted(labelled), "value"].eq(1.0).all(), "each was saved before the next"
    for labeller in (bob, start("ann", "y")):
        labeller.communicate()
        assert labeller.returncode == 0
    assert read_sheet(path, annotator="ann")["value"].tolist() == [1.0] * 40
    assert read_sheet(path, annotator="bob")["value"].tolist() == [0.0] * 40
