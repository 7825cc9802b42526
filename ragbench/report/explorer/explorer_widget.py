"""The explorer as a widget: the same script as in the HTML file, with the selection kept in step
with Python.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from ragbench.errors import require

if TYPE_CHECKING:
    import anywidget
    import traitlets
else:
    anywidget, traitlets = require("anywidget", "widgets"), require("traitlets", "widgets")

_FOLDER = Path(__file__).parent


class ExplorerWidget(anywidget.AnyWidget):
    """What `Explorer.widget` shows: `data` is JSON, `selected` holds ids of questions."""

    _esm = _FOLDER / "explorer.js"
    _css = _FOLDER / "explorer.css"
    data = traitlets.Unicode().tag(sync=True)
    selected = traitlets.List(traitlets.Unicode()).tag(sync=True)
