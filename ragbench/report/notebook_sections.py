"""The sections of an executed notebook: when one is shown or left out, and how its sentences and
tables follow each other.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd


def section(heading: str, about: str, *contents: Any) -> None:
    """Show a section in a notebook; show nothing if none of its contents has anything to show.

    Args:
        heading: Markdown, such as "## Retrieval"; "" shows none.
        about: what to look for, in Markdown; "" shows nothing.
        contents: tables, figures, texts of Markdown, or lists of sentences, which are shown as
            bullets. None, an empty table, text or list has nothing to show.

    >>> section("## Conversations", "The mean by turn.", None, pd.DataFrame())
    """
    from IPython.display import display

    filled = [content for content in contents if not _is_empty(content)]
    if not filled:
        return
    # texts that follow each other are shown together, before the next table or figure
    waiting_texts = [text for text in (heading, about) if text]
    for content in filled:
        if isinstance(content, str | list):
            waiting_texts.append(_markdown(content))
            continue
        _show_markdown(waiting_texts)
        waiting_texts = []
        display(content)  # type: ignore[no-untyped-call]
    _show_markdown(waiting_texts)


def _show_markdown(paragraphs: list[str]) -> None:
    """Show paragraphs of Markdown as one output; without any nothing is shown."""
    from IPython.display import Markdown, display

    if paragraphs:
        display(Markdown("\n\n".join(paragraphs)))  # type: ignore[no-untyped-call]


def _is_empty(content: Any) -> bool:
    """Return True for None, and for a table, text or list that holds nothing."""
    if content is None:
        return True
    if isinstance(content, pd.DataFrame | pd.Series):
        return bool(content.empty)
    return isinstance(content, str | list) and len(content) == 0


def _markdown(content: str | Sequence[str]) -> str:
    """Return a text as it is, and sentences as bullets."""
    if isinstance(content, str):
        return content
    return "\n".join(f"- {sentence}" for sentence in content)
