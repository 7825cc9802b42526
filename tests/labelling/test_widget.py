"""The form, driven as a browser would: by keys typed and buttons clicked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from ragbench.errors import DataError
from ragbench.labelling import LabelItem, LabelWidget, label_sheet, read_sheet, save_label
from ragbench.labelling import widget as module

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

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


def heard(widget: LabelWidget, key: str, item: str = "", note: str | None = None) -> dict[str, Any]:
    """Send what the form sends for a key or a click, and return the reply."""
    replies: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(widget, "send", replies.append)
        item = item or widget.item_id
        note = widget.shown["note"] if note is None else note
        widget._on_message(widget, {"serial": 1, "key": key, "item": item, "note": note}, [])
    [reply] = replies
    return reply


def texts_of(widget: LabelWidget) -> str:
    """Return all texts that the form is given."""
    return json.dumps(widget.shown, ensure_ascii=False)


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
    assert widget.shown["verdict"] == "yes"
    widget.press("x")
    assert values(sheet) == [1.0, None, 0.0]


def test_the_choices_are_those_of_the_scale(sheet: Path) -> None:
    assert LabelWidget(sheet).shown["choices"] == [("y", "yes"), ("n", "no")]


def test_what_the_form_sends_is_saved_and_confirmed(sheet: Path) -> None:
    widget = LabelWidget(sheet)
    assert heard(widget, "n") == {"serial": 1, "message": "Saved: no."}
    assert heard(widget, "s")["message"] == ""
    assert heard(widget, "Y")["message"] == "Saved: yes."
    assert values(sheet) == [0.0, None, 1.0]


def test_a_key_counts_for_the_answer_that_was_on_the_screen(sheet: Path) -> None:
    widget = LabelWidget(sheet)
    first = widget.item_id
    heard(widget, "y", first)
    heard(widget, "n", first)  # pressed before the next answer was on the screen
    assert values(sheet) == [0.0, None, None]
    assert widget.item_id == "item-1"


def test_a_key_of_another_scale_does_not_label_the_next_item(tmp_path: Path) -> None:
    items = [
        LabelItem("item-0", "q0", "relevance", "Question?", "An answer."),
        LabelItem("item-1", "q1", "correctness", "Question?", "Another answer.", "Ref"),
    ]
    widget = LabelWidget(label_sheet(items, tmp_path / "labels.csv"))
    widget.press("s")
    assert widget.item_id == "item-1"
    # the form still showed item-0, whose scale has no key "y"
    assert heard(widget, "y", "item-0")["message"] == ""
    assert values(tmp_path / "labels.csv") == [None, None]


def test_notes_are_saved_as_they_are_written_and_with_a_verdict(sheet: Path) -> None:
    widget = LabelWidget(sheet)
    heard(widget, "", note="=unsure")
    assert values(sheet) == [None, None, None]
    assert read_sheet(sheet)["note"].tolist() == ["=unsure", "", ""]
    heard(widget, "y", note="sure")
    heard(widget, "s", note="skipped, too hard")
    assert read_sheet(sheet)["note"].tolist() == ["sure", "skipped, too hard", ""]
    assert values(sheet) == [1.0, None, None]
    widget.press("b")
    assert widget.shown["note"] == "skipped, too hard"


def test_what_cannot_be_saved_is_said_and_nothing_moves(sheet: Path) -> None:
    widget = LabelWidget(sheet)
    sheet.unlink()
    reply = heard(widget, "y")
    assert "labels.csv does not exist" in reply["error"]
    assert (widget.item_id, widget.labelled) == ("item-0", 0)
    assert "item-9" in heard(widget, "y", "item-9")["error"]


def test_it_continues_and_reads_verdicts_of_a_spreadsheet(sheet: Path) -> None:
    save_label(sheet, "item-0", 1.0)
    text = sheet.read_text(encoding="utf-8-sig").replace("[1] ctx 0,1,", "[1] ctx 0,yes,")
    sheet.write_text(text, encoding="utf-8-sig")
    widget = LabelWidget(sheet)
    assert (widget.item_id, widget.labelled) == ("item-1", 1)


def test_nothing_is_shown_that_would_sway(sheet: Path) -> None:
    label_sheet(ITEMS, sheet, annotator="bob")
    save_label(sheet, "item-0", 1.0, note="ann thinks so")
    shown = LabelWidget(sheet, annotator="bob")
    html = texts_of(shown)
    assert "ctx 0" in html
    assert "ann thinks so" not in html
    assert shown.shown["labelled"] == 0


def test_hidden_signs_of_an_answer_are_shown_as_signs(tmp_path: Path) -> None:
    texts = ("q \x07", "answer \x1b[31m \u202etxt.exe \u200b", "ref \u2066", ("ctx \ufeff",))
    sheet = label_sheet([LabelItem("item-0", "q0", "correctness", *texts)], tmp_path / "x.csv")
    shown = texts_of(LabelWidget(sheet))
    assert shown.isprintable()
    assert "answer \u241b[31m \ufffdtxt.exe \ufffd" in shown


def test_each_criterion_has_its_own_verdicts(tmp_path: Path) -> None:
    items = [
        LabelItem("item-r", "q", "relevance", "?", "!"),
        LabelItem("item-c", "q", "correctness", "?", "!"),
    ]
    path = label_sheet(items, tmp_path / "labels.csv")
    widget = LabelWidget(path)
    assert [f"{name} ({key})" for key, name in widget.shown["choices"]] == [
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
    heard(widget, "u")
    assert widget.item_id == "item-1"


def test_code_is_distinguished(tmp_path: Path) -> None:
    text = (
        "Call `f(<b>)`:\n\n    if a < b:\n        pass\n\n>>> 1 < 2\nTrue\n\n```\n<i>\n```\nno code"
    )
    item = LabelItem("item-0", "q", "correctness", "?", text, "Ref")
    blocks = dict(LabelWidget(label_sheet([item], tmp_path / "labels.csv")).shown["blocks"])
    parts = blocks["Answer"]
    assert "".join(part for part, _ in parts) == text
    assert [part for part, is_code in parts if is_code] == [
        "`f(<b>)`",
        "    if a < b:\n        pass",
        ">>> 1 < 2\nTrue",
        "```\n<i>\n```",
    ]


MODEL = """
window.sent = [];
window.lab = [];
const hearers = {};
const model = {
  get: () => window.shown,
  on: (name, act) => (hearers[name] = act),
  off: () => {},
  send: (content) => sent.push(content),
};
window.reply = (message) => hearers["msg:custom"](message);
document.addEventListener("keydown", (event) => lab.push(event.key));
render({ model, el: document.getElementById("el") });
"""


@pytest.fixture
def form(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    """The form on a page that records what reaches the kernel (sent) and JupyterLab (lab)."""
    text = "<img src=x onerror=window.hacked=1> \u202egnp \x1b[31m " + "w" * 5000
    item = LabelItem("item-0", "q", "correctness", text, text, text, (text,))
    path = label_sheet([item, ITEMS[1]], tmp_path / "labels.csv")
    folder = Path(str(module.__file__)).parent
    page = browser.new_page(viewport={"width": 700, "height": 900})
    page.on("pageerror", lambda error: pytest.fail(str(error)))
    style = folder.joinpath("labels.css").read_text(encoding="utf-8")
    page.set_content(
        f"<style>{style}</style><input id='before'><main id='el' tabindex='-1'></main>"
    )
    page.evaluate("shown => { window.shown = shown; }", LabelWidget(path).shown)
    script = folder.joinpath("labels.js").read_text(encoding="utf-8")
    page.add_script_tag(type="module", content=script + MODEL)
    page.wait_for_function("document.activeElement.className === 'rb-label'")
    yield page
    page.close()


def test_keys_are_heard_everywhere_in_the_form_but_in_the_note(form: Page) -> None:
    form.keyboard.press("y")
    form.get_by_role("button", name="back (b)").click()
    form.keyboard.press("n")
    form.get_by_label("Note").click()
    form.keyboard.press("s")
    form.keyboard.press("Escape")
    form.keyboard.press("u")
    form.keyboard.press("ArrowDown")
    form.locator("#before").click()
    form.keyboard.press("b")
    keys = [message["key"] for message in form.evaluate("sent") if message["key"]]
    assert keys == ["y", "b", "n", "u"]
    assert form.get_by_label("Note").input_value() == "s"
    assert form.evaluate("lab") == ["b"], "only what was pressed outside"


def test_keys_with_modifiers_are_left_to_jupyterlab_and_escape_leaves(form: Page) -> None:
    form.evaluate("document.addEventListener('keydown', (event) => event.preventDefault())")
    for key in ("Control+s", "Control+Shift+C", "Alt+y", "Shift+Enter"):
        form.keyboard.press(key)
    assert [key for key in form.evaluate("lab") if len(key) == 1 or key == "Enter"] == [
        "s",
        "C",
        "y",
        "Enter",
    ]
    assert form.evaluate("sent") == []
    form.keyboard.press("Escape")
    assert form.evaluate("document.activeElement.id") == "el"


def test_in_the_note_editing_keys_edit_and_others_with_modifiers_pass(form: Page) -> None:
    form.get_by_label("Note").click()
    form.keyboard.type("abc")
    for key in ("Control+a", "Control+z", "Shift+Enter", "Control+s"):
        form.keyboard.press(key)
    passed = [key for key in form.evaluate("lab") if key not in ("Control", "Shift")]
    assert passed == ["s"]


def test_the_note_is_sent_as_it_is_written(form: Page) -> None:
    form.get_by_label("Note").fill("unsure")
    form.wait_for_function("sent.length === 1")
    assert form.evaluate("sent[0]") == {"serial": 1, "key": "", "item": "item-0", "note": "unsure"}


def test_a_kernel_that_does_not_answer_is_named_and_nothing_is_shown_as_saved(form: Page) -> None:
    form.clock.install()
    form.keyboard.press("y")
    message = form.locator(".message")
    assert message.inner_text() == "Saving…"
    assert "0 of 2 labelled" in form.locator(".rb-label").inner_text()
    form.clock.run_for(6_000)
    assert "does not answer: it is busy, or was restarted" in message.inner_text()
    form.evaluate("reply({ serial: 1, message: 'Saved: yes.' })")
    assert message.inner_text() == "Saved: yes."


def test_hostile_texts_are_shown_as_texts_inside_the_form(form: Page) -> None:
    assert form.evaluate("window.hacked") is None
    assert form.locator(".rb-label img").count() == 0
    text = form.locator(".rb-label").inner_text()
    assert text.count("<img src=x onerror=window.hacked=1> \ufffdgnp \u241b[31m") == 4
    assert form.evaluate("document.documentElement.scrollWidth") == 700


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


def test_an_empty_progress_bar_is_not_filled_on_a_dark_page(form: Page) -> None:
    form.emulate_media(color_scheme="dark")
    form.add_style_tag(content=":root { color-scheme: dark; }")
    bar = form.locator("progress")
    assert bar.evaluate("bar => bar.value") == 0
    picture = Image.open(BytesIO(bar.screenshot())).convert("L")
    middle = np.asarray(picture)[picture.height // 2, picture.width // 2]
    assert middle < 128, "JupyterLab's dark theme showed a white bar, which reads as full"
