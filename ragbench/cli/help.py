"""The form of every help text: paragraphs that fit the terminal, short names of types, none for
flags.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup

from ragbench.cli.console import clean_errors

_TYPES: dict[Any, str] = {
    bool: "",
    int: "N",
    float: "X",
    str: "TEXT",
    Path: "PATH",
    list[str]: "TEXT",
    list[Path]: "PATH",
}

FIRST_STEPS = """\
Is RAG configuration B really better than A?

First steps:
  ragbench init my-evaluation --docs docs
      start with your own documents: questions, a grid, and the next commands
  ragbench eval --suite smoke
      evaluate BM25 on built-in questions: seconds, no language model
  ragbench sweep quickstart
      run a grid of configurations: one executed notebook each, and a comparison

`ragbench --help` shows all commands, `ragbench COMMAND --help` one of them with
an example, and `ragbench list retrievers` the names of retrievers (also:
datasets, measures, chunkers, models, prompts)."""


def joined(text: str | None) -> str | None:
    """The paragraphs of a docstring, each in one line, so that the terminal alone decides where
    lines end.

    The exit status is a paragraph of its own.

    >>> joined("One line,\\n    and another.\\n\\n    Next. Exit status: 0 done.")
    'One line, and another.\\n\\nNext.\\n\\nExit status: 0 done.'
    """
    if text is None:
        return None
    text = re.sub(r"\s+(Exit\s+status:)", r"\n\n\1", inspect.cleandoc(text))
    return "\n\n".join(part.replace("\n", " ") for part in text.split("\n\n"))


class _Formed:
    """A help text in this form."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.help: str | None = joined(kwargs.get("help"))

    def get_params(self, ctx: Any) -> list[Any]:
        return [_short(param) for param in super().get_params(ctx)]  # type: ignore[misc]


class Command(_Formed, TyperCommand):
    """A command with a help text in this form, whose errors are printed in one line each."""

    def invoke(self, ctx: Any) -> Any:
        with clean_errors():
            return super().invoke(ctx)


class Group(_Formed, TyperGroup):
    """A command with others below it, and a help text in this form."""


def _short(param: Any) -> Any:
    if param.param_type_name == "option" and param.metavar is None:
        annotation = getattr(getattr(param, "type_descriptor", None), "annotation", None)
        param.metavar = "" if getattr(param, "is_flag", False) else _TYPES.get(annotation)
    return param
