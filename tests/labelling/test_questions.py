"""The form to write questions: what it stores, and the form itself in a real browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ragbench.errors import ConfigError, DataError
from ragbench.labelling import QuestionWidget
from ragbench.labelling import question_form as module
from ragbench.testsets.forms import load_testset

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TOWER = (
    "# Tower 🗼🗼\n\nIt opened in 1889. Cafe\u0301 𝒳 and <b>330 m</b> <script>window.hacked = "
    "1</script>\nA family 👨‍👩‍👧 came first.\n"
)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "tower.md").write_text(TOWER, encoding="utf-8")
    (folder / "dogs.md").write_text(
        "Dogs bark. " * 200 + "A dog sleeps at night.", encoding="utf-8"
    )
    return folder


def span(quote: str, doc_id: str = "tower.md", text: str = TOWER) -> dict[str, Any]:
    start = text.index(quote)
    return {"doc_id": doc_id, "start": start, "end": start + len(quote), "quote": quote}


def test_questions_are_a_test_set_with_gold_spans_and_can_be_continued(docs: Path) -> None:
    path = docs.parent / "mine" / "questions.jsonl"
    widget = QuestionWidget(path, docs)
    assert not path.exists()
    assert widget.save(" When? ", [span("opened in 1889")], "In 1889.") == "q001"
    assert widget.save("Who pays?", answerable=False) == "q002"
    assert widget.progress == "2 questions; 1 of 2 documents have one."
    data = load_testset(path)  # with its documents, which it refers to from where it is
    assert [case.text for case in data.cases] == ["When?", "Who pays?"]
    [found] = data.cases[0].evidence
    assert data.corpus[found.doc_id].full_text[found.start : found.end] == "opened in 1889"
    assert dict(data.qrels["q001"]) == {"tower.md": 1}
    assert not data.cases[1].answerable
    again = QuestionWidget(path)
    assert again.table["evidence"].tolist() == ["opened in 1889", ""]
    assert again.save("Third?", [span("330 m")]) == "q003"


def test_an_edit_keeps_the_other_labels_and_a_deleted_question_is_gone(docs: Path) -> None:
    path = docs.parent / "questions.jsonl"
    lines = [
        {"testset": "mine", "corpus": "docs"},
        {
            "query_id": "a",
            "text": "Old?",
            "category": "facts",
            "relevant": {"tower.md": 2},
            "evidence": [span("330 m")],
        },
        {"query_id": "b", "text": "Other?", "relevant": {"dogs.md": 1}},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    widget = QuestionWidget(path)
    widget.save("New?", [span("330 m"), span("opened")], query_id="a")
    widget.remove("b")
    [case] = load_testset(path).cases
    assert (case.text, case.category, len(case.evidence)) == ("New?", "facts", 2)
    assert dict(load_testset(path).qrels["a"]) == {"tower.md": 2}
    assert [one["query_id"] for one in widget.questions] == ["a"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"text": " "}, "question is empty"),
        ({"text": "?"}, "no evidence is marked"),
        ({"text": "?", "evidence": [{**span("330 m"), "start": 1}]}, "are not '330 m'"),
        ({"text": "?", "evidence": [span("330 m", "towr.md")]}, "did you mean 'tower.md'"),
        ({"text": "?", "evidence": [span("330 m")], "query_id": "q9"}, "q9"),
    ],
)
def test_what_is_wrong_is_refused_and_shown_in_the_form(
    docs: Path, given: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    widget = QuestionWidget(docs.parent / "questions.jsonl", docs)
    with pytest.raises(DataError, match=message):
        widget.save(**given)
    sent: list[Any] = []
    monkeypatch.setattr(widget, "send", sent.append)
    widget._on_message(widget, {"act": "save", "given": given}, [])
    assert message in sent[0]["error"]
    assert not (docs.parent / "questions.jsonl").exists()


def test_a_new_file_is_jsonl(docs: Path) -> None:
    with pytest.raises(ConfigError, match=r"ends in \.jsonl"):
        QuestionWidget(docs.parent / "questions.yaml", docs)


def test_search_finds_documents_with_all_words(docs: Path) -> None:
    widget = QuestionWidget(docs.parent / "questions.jsonl", docs)
    widget.search("FAMILY came")
    assert widget.matches == ["tower.md"]
    assert widget.document["doc_id"] == "tower.md"
    widget.search("cat")
    assert widget.matches == []
    widget.search("")
    assert len(widget.matches) == 2


@pytest.fixture
def form(browser: Browser, docs: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Page]:
    """The form on a page, with a model that talks to the widget as JupyterLab does."""

    def show(path: Path, **options: Any) -> Page:
        widget, sent = QuestionWidget(path, docs), list[Any]()
        monkeypatch.setattr(widget, "send", sent.append)

        def state() -> dict[str, Any]:
            return {
                name: getattr(widget, name)
                for name in ("document", "questions", "matches", "n_documents")
            }

        def hear(content: dict[str, Any]) -> dict[str, Any]:
            sent.clear()
            before = state()
            widget._on_message(widget, content, [])
            return {"state": {k: v for k, v in state().items() if v != before[k]}, "sent": sent}

        page = browser.new_page(**options)
        page.on("pageerror", lambda error: pytest.fail(str(error)))
        page.expose_function("hear", hear)
        folder = Path(str(module.__file__)).parent
        script = folder.joinpath("questions.js").read_text(encoding="utf-8")
        page.set_content(
            f"<style>{folder.joinpath('questions.css').read_text()}</style><main id='el'></main>"
        )
        page.evaluate("state => { window.state = state; }", state())
        page.add_script_tag(type="module", content=script + MODEL)
        page.wait_for_selector(".rb-questions .list", state="attached")
        return page

    return show


MODEL = """
const hearers = {};
const call = (name, value) => (hearers[name] ?? []).forEach((act) => act(value));
const model = {
  get: (name) => state[name],
  on: (name, act) => (hearers[name] ??= []).push(act),
  off: () => {},
  send: async (content) => {
    const { state: changed, sent } = await hear(content);
    Object.assign(state, changed);
    Object.keys(changed).forEach((name) => call(`change:${name}`));
    sent.forEach((one) => call("msg:custom", one));
  },
};
render({ model, el: document.getElementById("el") });
"""

FIND = """needle => {
    const text = document.querySelector(".text");
    const walker = document.createTreeWalker(text, NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    const from = text.textContent.indexOf(needle);
    for (let node, at = 0; (node = walker.nextNode()); at += node.data.length) {
        const inside = (place) => place >= at && place <= at + node.data.length;
        if (inside(from)) range.setStart(node, from - at);
        if (inside(from + needle.length)) { range.setEnd(node, from + needle.length - at); break; }
    }
    const boxes = [...range.getClientRects()].filter((box) => box.width);
    const [a, b] = [boxes[0], boxes[boxes.length - 1]];
    return [a.left + 0.5, a.top + a.height / 2, b.right - 0.5, b.top + b.height / 2];
}"""


def drag(page: Page, needle: str) -> None:
    page.locator(".text").scroll_into_view_if_needed()
    x, y, to_x, to_y = page.evaluate(FIND, needle)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move((x + to_x) / 2, y)
    page.mouse.move(to_x, to_y)
    page.mouse.up()


@pytest.mark.parametrize(
    "needle",
    ["opened in 1889", "Cafe\u0301 𝒳 and", "family 👨‍👩‍👧 came", "<b>330 m</b> <script>window"],
)
def test_what_the_mouse_marks_is_what_is_stored(
    form: Callable[..., Page], docs: Path, needle: str
) -> None:
    path = docs.parent / "questions.jsonl"
    page = form(path)
    page.get_by_role("button", name="next →").click()
    page.wait_for_function("document.querySelector('.text').textContent.includes('Tower')")
    drag(page, needle)
    page.wait_for_selector("ul .quote")
    page.get_by_label("Question").fill("What is it?")
    page.keyboard.press("Control+Enter")
    page.wait_for_function("document.querySelector('.message').textContent === 'Saved as q001.'")
    data = load_testset(path)
    [found] = data.cases[0].evidence
    assert data.corpus["tower.md"].full_text[found.start : found.end] == needle
    assert page.evaluate("window.hacked") is None
    assert "1 question; 1 of 2 documents have one." in page.locator(".rb-questions").inner_text()


def stored_texts(path: Path) -> list[str]:
    """Return the evidence of the first question, as texts."""
    data = load_testset(path)
    spans = data.cases[0].evidence
    return [data.corpus[span.doc_id].full_text[span.start : span.end] for span in spans]


def test_sentences_are_marked_by_keyboard(form: Callable[..., Page], docs: Path) -> None:
    (docs / "tower.md").write_text("It opened in\n1889. 🗼 It is tall. It is red. Last.\n", "utf-8")
    path = docs.parent / "questions.jsonl"
    page = form(path)
    page.get_by_role("button", name="next →").click()
    page.wait_for_function("document.querySelector('.text').textContent.includes('tall')")
    page.locator(".text").focus()
    page.keyboard.press("ArrowDown")
    page.get_by_text("sentence 1 of 4").wait_for()
    page.keyboard.press("Enter")
    page.get_by_text("sentence 1 of 4, evidence").wait_for()
    page.keyboard.press("Enter")  # takes it away again
    assert page.locator("ul .quote").count() == 0
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Enter")
    page.keyboard.press("End")
    page.keyboard.press("ArrowDown")  # there is none after the last
    page.get_by_text("sentence 4 of 4").wait_for()
    page.keyboard.press("ArrowUp")
    page.get_by_text("sentence 3 of 4, evidence").wait_for()
    page.get_by_label("Question").fill("What?")
    page.keyboard.press("Control+Enter")
    page.wait_for_function("document.querySelector('.message').textContent === 'Saved as q001.'")
    assert stored_texts(path) == ["🗼 It is tall. It is red."]


def test_a_quote_is_pasted_and_found_or_refused(form: Callable[..., Page], docs: Path) -> None:
    path = docs.parent / "questions.jsonl"
    page = form(path)
    field = page.get_by_label("Quote")
    for quote, message in {
        "cats meow": "no document holds 'cats meow' word for word",
        "Dogs bark.": "'Dogs bark.' is there 200 times; quote more of it",
    }.items():
        field.fill(quote)
        field.press("Enter")
        page.get_by_text(message).wait_for()
        assert page.locator("ul .quote").count() == 0
    field.fill("opened  in 1889.")  # in another document, which is opened
    field.press("Enter")
    page.locator("mark.gold").get_by_text("opened in 1889.").wait_for()
    assert field.input_value() == ""
    assert page.locator(".message").inner_text() == ""
    page.get_by_label("Question").fill("When?")
    page.keyboard.press("Control+Enter")
    page.wait_for_function("document.querySelector('.message').textContent === 'Saved as q001.'")
    assert stored_texts(path) == ["opened in 1889."]


def test_hidden_signs_are_shown_and_what_is_marked_keeps_its_place(
    form: Callable[..., Page], docs: Path
) -> None:
    text = "Pay \u202enow \x1b[31m \U0001f5fc\U000e0041 later\u200b, he said.\n"
    (docs / "tower.md").write_text(text, encoding="utf-8")
    path = docs.parent / "questions.jsonl"
    page = form(path)
    page.get_by_role("button", name="next →").click()
    page.wait_for_function("document.querySelector('.text').textContent.includes('Pay')")
    shown = page.locator(".text").evaluate("node => node.textContent")
    assert shown.strip() == "Pay \ufffdnow \u241b[31m \U0001f5fc\ufffd\ufffd later\ufffd, he said."
    drag(page, "he said")
    page.wait_for_selector("ul .quote")
    page.get_by_label("Question").fill("What?")
    page.keyboard.press("Control+Enter")
    page.wait_for_function("document.querySelector('.message').textContent === 'Saved as q001.'")
    [found] = load_testset(path).cases[0].evidence
    assert text[found.start : found.end] == "he said"


def test_a_stored_question_is_edited_searched_and_deleted_in_the_form(
    form: Callable[..., Page], docs: Path
) -> None:
    path = docs.parent / "questions.jsonl"
    QuestionWidget(path, docs).save("When?", [span("opened")])
    page = form(path, viewport={"width": 390, "height": 844}, color_scheme="dark")
    page.get_by_role("button", name="When?").click()
    page.wait_for_selector("mark.gold")
    drag(page, "in 1889")  # next to what is marked, with a blank between: one piece
    page.locator("ul .quote").filter(has_text="opened in 1889").wait_for()
    drag(page, "It opened")  # over its beginning
    page.locator("ul .quote").filter(has_text="It opened in 1889").wait_for()
    assert page.locator("ul .quote").count() == 1
    page.get_by_label("Question").fill("When did it open?")
    page.get_by_role("button", name="Save").click()
    page.wait_for_function("document.querySelector('.message').textContent === 'Saved as q001.'")
    [case] = load_testset(path).cases
    assert (case.text, case.evidence[0].end - case.evidence[0].start) == (
        "When did it open?",
        len("It opened in 1889"),
    )
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.get_by_role("button", name="Save").click()
    page.wait_for_selector(".message.error")
    page.get_by_label("Search").fill("sleeps")
    page.wait_for_function("document.querySelector('mark.found')?.textContent === 'sleeps'")
    page.get_by_role("button", name="When did it open?").click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Really delete?").click()
    page.wait_for_function("document.querySelector('.message').textContent === 'q001 is deleted.'")
    assert load_testset(path).cases == ()
