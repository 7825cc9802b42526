"""The label sheet as a form in JupyterLab: which keys there are, the order of the answers, and the
texts that the form shows; `labels.js` draws it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragbench.errors import DataError, RagbenchError, require, visible
from ragbench.labelling.items import scale_of
from ragbench.labelling.sheet import read_sheet, save_label

if TYPE_CHECKING:
    import anywidget
    import traitlets
else:
    anywidget, traitlets = require("anywidget", "widgets"), require("traitlets", "widgets")

_FOLDER = Path(__file__).parent
_NEXT = "s"
_BACK = "b"
_FIRST = "u"
_BLOCKS = {"Question": "question", "Reference answer": "reference", "Answer": "answer"}


class LabelWidget(anywidget.AnyWidget):
    """Labels a sheet: `LabelWidget("labels.csv", annotator="me")` as the last line of a cell shows
    it.

    Each verdict is in the file before the next answer appears, so closing the notebook loses
    nothing, and opening it again continues with the first unlabelled answer. Keys work everywhere
    in the form except in the note: the verdict's key, `s` for the next answer, `b` for the previous
    one, `u` for the first unlabelled one; or click. A key counts for the answer that was on the
    screen when it was pressed. Escape leaves the form, keys with modifiers are JupyterLab's. After
    a reload of the page the form still works; after a restart of the kernel it asks to run its cell
    again. A note is saved as it is written. The labels of others, judgements and the configuration of
    an answer are not shown.

    Raises:
        DataError: the file is not a sheet, or has no row for this annotator.
    """

    _esm = _FOLDER / "labels.js"
    _css = _FOLDER / "labels.css"
    shown = traitlets.Dict().tag(sync=True)

    def __init__(self, path: str | Path, *, annotator: str = "me") -> None:
        """Open a sheet at the first item that this annotator has not labelled.

        Raises:
            DataError: the sheet cannot be read, or has no row for the annotator.
        """
        self._path = Path(path)
        self._annotator = annotator
        sheet = read_sheet(self._path, annotator=annotator)
        if sheet.empty:
            raise DataError(
                f"{self._path.name} has no row for {annotator!r}; write them with label_sheet first"
            )
        none_for_missing = sheet.astype(object).where(sheet.notna(), None)
        self._rows: list[dict[Any, Any]] = none_for_missing.to_dict("records")
        # item -> its position in the rows
        self._place_of = {str(row["item"]): place for place, row in enumerate(self._rows)}
        self._place = self._first_unlabelled()  # the position of the item on the screen
        super().__init__(shown=self._form_content())
        self.on_msg(self._on_message)  # a message of the form in the browser

    @property
    def item_id(self) -> str:
        """Return the id of the item on the screen."""
        return str(self._rows[self._place]["item"])

    @property
    def labelled(self) -> int:
        """Return the number of items with a verdict."""
        return sum(row["value"] is not None for row in self._rows)

    def _first_unlabelled(self, start: int = 0) -> int:
        """Return the place of the first unlabelled answer from `start` on, then from the top; `start`
        if all are labelled.
        """
        n = len(self._rows)
        for offset in range(n):
            place = (start + offset) % n
            if self._rows[place]["value"] is None:
                return place
        return start

    def label(self, verdict: float) -> None:
        """Save the verdict of the item shown, and move to the next unlabelled one."""
        self._save(self._place, verdict)
        self._place = self._first_unlabelled(self._place)
        self.shown = self._form_content()

    def note(self, text: str) -> None:
        """Save a note about the item shown; its verdict stays."""
        self._save(self._place, self._rows[self._place]["value"], text)
        self.shown = self._form_content()

    def go(self, step: int) -> None:
        """Show another answer, 1 for the next and -1 for the previous one."""
        self._place = (self._place + step) % len(self._rows)
        self.shown = self._form_content()

    def press(self, key: str) -> None:
        """Carry out the action of a key: save a verdict, or show another item. Any other key does
        nothing.
        """
        key = key.casefold()
        # key -> (value, name), such as "y" -> (1.0, "yes")
        verdicts = scale_of(self._rows[self._place]["criterion"]).verdicts
        if key in verdicts:
            value, _name = verdicts[key]
            self.label(value)
        else:
            self._move(key)

    def _move(self, key: str) -> None:
        """Show the next, the previous or the first unlabelled item; do nothing for any other key."""
        if key == _NEXT:
            self.go(1)
        elif key == _BACK:
            self.go(-1)
        elif key == _FIRST:
            self._place = self._first_unlabelled()
            self.shown = self._form_content()

    def __repr__(self) -> str:
        """Return a summary for places that show no widgets."""
        return (
            f"{self._path.name}: {self.labelled} of {len(self._rows)} labelled by {self._annotator}"
        )

    def _form_content(self) -> dict[str, Any]:
        """Return the content of the form for the item on the screen, as JSON."""
        row = self._rows[self._place]
        scale = scale_of(row["criterion"])
        value = row["value"]
        name_of_value = dict(scale.verdicts.values())
        if value is None:
            verdict = ""
        elif value in name_of_value:
            verdict = name_of_value[value]
        else:  # a spreadsheet may hold a number that is not on the scale
            verdict = f"{value:g}"
        blocks = []
        for title, column in _BLOCKS.items():
            if row.get(column):
                blocks.append((title, _split_at_code(row[column])))
        return {
            "item": self.item_id,
            "place": self._place + 1,
            "total": len(self._rows),
            "labelled": self.labelled,
            "verdict": verdict,
            "note": row.get("note", ""),
            "asked": scale.question,
            "choices": [(key, name) for key, (_, name) in scale.verdicts.items()],
            "blocks": blocks,
            "context": _split_at_code(row.get("context", "")),
        }

    def _save(self, place: int, verdict: float | None, note: str | None = None) -> None:
        """Save the verdict and the note of the item at a position. The verdict None removes the present
        one, the note None keeps it.
        """
        row = self._rows[place]
        if note is None:
            note = row.get("note", "")
        save_label(self._path, row["item"], verdict, annotator=self._annotator, note=note)
        row["value"] = verdict
        row["note"] = note

    def _on_message(self, _: Any, content: Mapping[str, Any], __: Any) -> None:
        """Save the verdict or note that the form sends, and send it a confirmation or an error.

        `content` has the `item` on the screen, the pressed `key`, the `note`, and the `serial` number
        of the message, which the reply repeats.
        """
        reply: dict[str, Any] = {"serial": content.get("serial", 0), "message": ""}
        try:
            reply["message"] = self._save_and_press(
                item=str(content["item"]), key=str(content["key"]), note=str(content["note"])
            )
        except (RagbenchError, KeyError, OSError) as exc:
            reply["error"] = f"Not saved: {exc}"
        self.send(reply)

    def _save_and_press(self, item: str, key: str, note: str) -> str:
        """Save the note, and carry out the action of a key: save a verdict and show the next unlabelled
        item, or move to another item. Return a confirmation, "" if nothing was saved.

        Args:
            item: the item that was on the screen when the key was pressed, which gets the verdict.
                (Another key, pressed just before, may have moved the form to the next item.)
            key: the key of a verdict, or of a move to another item; any other does nothing.
            note: the content of the field for notes.
        """
        place = self._place_of[item]
        row = self._rows[place]
        confirmation = ""
        if note != row.get("note", ""):
            self._save(place, row["value"], note)
            confirmation = "The note is saved."
        key = key.casefold()
        verdicts = scale_of(row["criterion"]).verdicts
        if key not in verdicts:
            self._move(key)
        else:
            value, name = verdicts[key]
            confirmation = f"Saved: {name}."
            self._save(place, value)  # the note stays
            is_on_screen = place == self._place  # else the form has moved on already
            if is_on_screen:
                self._place = self._first_unlabelled(place)
        self.shown = self._form_content()
        return confirmation


_CODE = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]+`|^(?: {4}|\t)[^\n]*(?:\n(?: {4}|\t)[^\n]*)*|^>>> [^\n]*(?:\n[^\n]+)*",
    re.DOTALL | re.MULTILINE,
)
"""Code: fenced, in backticks, indented by four blanks, or an interactive session."""


def _split_at_code(text: str) -> list[tuple[str, bool]]:
    """Split a text into (piece, is_code); invisible characters are made visible.

    >>> _split_at_code("Use `a < b`.")
    [('Use ', False), ('`a < b`', True), ('.', False)]
    """
    text = str(visible(text))
    pieces = []
    end_of_code = 0
    for match in _CODE.finditer(text):
        prose = text[end_of_code : match.start()]
        pieces += [(prose, False), (match[0], True)]
        end_of_code = match.end()
    pieces.append((text[end_of_code:], False))
    return [(piece, is_code) for piece, is_code in pieces if piece]
