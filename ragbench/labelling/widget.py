"""The label sheet as a form in JupyterLab: one answer at a time, one key or click per verdict."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.errors import DataError, require, visible
from ragbench.labelling.items import LABELLED
from ragbench.labelling.sheet import read_sheet, save_label

if TYPE_CHECKING:
    from ipywidgets import VBox  # type: ignore[import-untyped]

_NEXT, _BACK, _FIRST = "s", "b", "u"

_KEYS = """
function render({ model, el }) {
  // The parent gets its class and place after this view is made.
  requestAnimationFrame(() => {
    const form = el.closest(".rb-label");
    if (!form || form.tabIndex === 0) return;
    form.tabIndex = 0;
    form.style.outlineOffset = "4px";
    form.dataset.lmSuppressShortcuts = "true"; // JupyterLab leaves the keys to the form
    const writing = (node) => node?.matches?.("input, textarea, select, [contenteditable=true]");
    form.addEventListener("keydown", (event) => {
      if (event.key.length !== 1 || event.ctrlKey || event.metaKey || event.altKey || writing(event.target)) return;
      if (event.key === " ") return; // presses the button that has the focus
      event.preventDefault();
      event.stopPropagation();
      model.send(event.key);
    });
    form.addEventListener("click", (event) => writing(event.target) || form.focus({ preventScroll: true }));
    if (!writing(document.activeElement)) form.focus({ preventScroll: true });
  });
}
export default { render };
"""


class LabelWidget:
    """Labels a sheet: `LabelWidget("labels.csv", annotator="me")` as the last line of a cell shows
    it.

    Each verdict is in the file before the next answer appears, so closing the notebook loses
    nothing, and opening it again continues with the first unlabelled answer. Keys work everywhere
    in the form but in the note: the verdict's key, `s` for the next answer, `b` for the one before,
    `u` for the first that is unlabelled; or click. A note is saved with the verdict, or when its
    answer is left. The labels of others, judgements and the configuration of an answer are not
    shown.

    Raises:
        DataError: not a sheet, or no row in it for this annotator.
    """

    def __init__(self, path: str | Path, *, annotator: str = "me") -> None:
        self._path, self._annotator = Path(path), annotator
        sheet = read_sheet(self._path, annotator=annotator)
        if sheet.empty:
            raise DataError(
                f"{self._path.name} has no row for {annotator!r}; write them with label_sheet first"
            )
        self._rows: list[dict[Any, Any]] = (
            sheet.astype(object).where(sheet.notna(), None).to_dict("records")
        )
        self._place = self._unlabelled()
        self.box: VBox = self._build()
        self._show()

    @property
    def item_id(self) -> str:
        """Return the id of the item that is shown."""
        return str(self._rows[self._place]["item"])

    @property
    def labelled(self) -> int:
        """Return the number of items with a verdict."""
        return sum(row["value"] is not None for row in self._rows)

    def _unlabelled(self, start: int = 0) -> int:
        """Return where the first unlabelled answer is from `start` on, then from the top; `start`
        where all are labelled.
        """
        places = [*range(start, len(self._rows)), *range(start)]
        return next((i for i in places if self._rows[i]["value"] is None), start)

    def label(self, verdict: float) -> None:
        """Save the verdict and the note of the item shown, and move to the next unlabelled one."""
        self._save(verdict)
        self._place = self._unlabelled(self._place)
        self._show()

    def go(self, step: int) -> None:
        """Show another answer, 1 for the next and -1 for the one before; only a changed note is
        saved.
        """
        row = self._rows[self._place]
        if self._note.value != row.get("note", ""):
            self._save(row["value"])
        self._place = (self._place + step) % len(self._rows)
        self._show()

    def press(self, key: str) -> None:
        """Do what a key means; one without a meaning does nothing."""
        key = key.casefold()
        verdicts = LABELLED[self._rows[self._place]["criterion"]].verdicts
        if key in verdicts:
            self.label(verdicts[key][0])
        elif key in (_NEXT, _BACK):
            self.go(1 if key == _NEXT else -1)
        elif key == _FIRST:
            self.go(self._unlabelled() - self._place)

    def _build(self) -> VBox:
        require("anywidget", "widgets")
        from anywidget import AnyWidget
        from ipywidgets import HTML, Button, HBox, IntProgress, Layout, Textarea, VBox

        wide = Layout(width="auto")
        self._progress = IntProgress(min=0, max=len(self._rows), layout=Layout(width="60%"))
        self._count, self._text, self._asked = HTML(), HTML(layout=wide), HTML(layout=wide)
        self._keys = AnyWidget(_esm=_KEYS)
        self._keys.on_msg(lambda _, key, __: self.press(str(key)))
        self._note = Textarea(
            placeholder="note (optional)", layout=Layout(width="auto", height="4em")
        )

        def button(text: str, key: str) -> Button:
            widget = Button(description=text, layout=Layout(width="auto"))
            widget.on_click(lambda _: self.press(key))
            return widget

        self._verdicts = {
            criterion: [
                button(f"{name} ({key})", key)
                for key, (_, name) in LABELLED[criterion].verdicts.items()
            ]
            for criterion in dict.fromkeys(row["criterion"] for row in self._rows)
        }
        moves = {"back (b)": _BACK, "skip (s)": _NEXT, "first unlabelled (u)": _FIRST}
        self._moves = [button(text, key) for text, key in moves.items()]
        self._choices = HBox(layout=Layout(flex_flow="row wrap"))
        top = HBox([self._progress, self._count])
        box = VBox([top, self._text, self._asked, self._choices, self._note, self._keys])
        box.add_class("rb-label")
        return box

    def _show(self) -> None:
        row = self._rows[self._place]
        scale = LABELLED[row["criterion"]]
        verdict = dict(scale.verdicts.values()).get(row["value"], row["value"])
        state = "" if row["value"] is None else f", labelled: <b>{escape(str(verdict))}</b>"
        self._progress.value = self.labelled
        place = f"this is number {self._place + 1}{state}"
        self._count.value = f"{self.labelled} of {len(self._rows)} labelled; {place}"
        parts = {"Question": "question", "Reference answer": "reference", "Answer": "answer"}
        blocks = [_block(title, row[name]) for title, name in parts.items() if row.get(name)]
        self._text.value = "".join(blocks) + _folded(row.get("context", ""))
        self._choices.children = (*self._verdicts[row["criterion"]], *self._moves)
        self._asked.value = f"<b>{escape(scale.question)}</b>"
        self._note.value = row.get("note", "")

    def _save(self, verdict: float | None) -> None:
        row, note = self._rows[self._place], self._note.value
        save_label(self._path, self.item_id, verdict, annotator=self._annotator, note=note)
        row["value"], row["note"] = verdict, note

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self.box)  # type: ignore[no-untyped-call]


def _block(name: str, text: str) -> str:
    style = "white-space: pre-wrap; unicode-bidi: plaintext; border-left: 3px solid #0072B2; padding-left: 8px"
    return f'<p><b>{escape(name)}</b></p><div style="{style}">{_with_code(text)}</div>'


def _folded(context: str) -> str:
    if not context:
        return ""
    return (
        "<details open><summary><b>Documents that it was written from</b></summary>"
        f'<div style="white-space: pre-wrap; unicode-bidi: plaintext; max-height: 20em; overflow: '
        f'auto">{_with_code(context)}</div></details>'
    )


_CODE = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]+`|^(?: {4}|\t)[^\n]*(?:\n(?: {4}|\t)[^\n]*)*|^&gt;&gt;&gt; "
    r"[^\n]*(?:\n[^\n]+)*",
    re.DOTALL | re.MULTILINE,
)
"""Fenced, in backticks, indented by four, or an interactive session; in escaped text."""


def _with_code(text: str) -> str:
    """Return the text as HTML, code in it monospaced.

    >>> _with_code("Use `a < b`.")
    'Use <code style="white-space: pre-wrap">`a &lt; b`</code>.'
    """
    return _CODE.sub(
        lambda match: f'<code style="white-space: pre-wrap">{match[0]}</code>',
        escape(str(visible(text)), quote=False),
    )
