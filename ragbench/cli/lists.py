"""`ragbench list`: what can be named in a command, a grid or a notebook, from the registries
themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from ragbench.errors import ConfigError, unknown

Rows = list[tuple[str, str]]


def _datasets() -> Rows:
    from ragbench.datasets import FORMS
    from ragbench.datasets.download import MD5

    return [
        *((name.replace("'", ""), what) for name, what in FORMS.items()),
        *((f"beir/{name}", "") for name in MD5),
    ]


def _measures() -> Rows:
    from ragbench.registry import measures

    table = measures()
    described = table["meaning"] + table["better"].map(
        {"higher": "", "lower": " (lower is better)"}
    )
    return list(zip(table["measure"], described, strict=True))


def _chunkers() -> Rows:
    from ragbench.extension import FORM
    from ragbench.retrieval.chunkers import CHUNKERS

    return [*((name, "") for name in CHUNKERS), (FORM, "one of your own")]


def _retrievers() -> Rows:
    from ragbench.extension import FORM
    from ragbench.retrieval.embedders import EMBEDDERS
    from ragbench.retrieval.retrievers import RETRIEVERS

    rows: Rows = []
    for kind in RETRIEVERS:
        if kind.startswith("bm25"):
            rows.append(
                (kind, "index on the disk, by tantivy (extra large)" if kind == "bm25@disk" else "")
            )
            continue
        rows += [(f"{kind}:{embedder}", "") for embedder in EMBEDDERS]
        if kind == "dense":
            rows.append(("dense:<embedder>@ivf", "approximate search, by faiss (extra large)"))
        rows.append(
            (
                f"{kind}:<embedder>",
                "folder or hub name of a sentence-transformers model, or one of your own",
            )
        )
    return [*rows, (FORM, "one of your own")]


def _models() -> Rows:
    from ragbench.extension import FORM
    from ragbench.llms.prices import prices
    from ragbench.llms.providers import PROVIDERS

    priced = [
        (name, f"${price.input:g} in, ${price.output:g} out per million tokens")
        for name, price in prices().items()
    ]
    forms = [(f"{name}:<model>", "") for name in PROVIDERS]
    return [*forms, ("env", "the model that RAG_EVAL_* name"), (FORM, "one of your own"), *priced]


def _prompts() -> Rows:
    from ragbench.generation.prompts import PROMPTS

    return [
        (name, next(line for line in text.splitlines() if line and line[0] != "{"))
        for name, text in PROMPTS.items()
    ]


KINDS: dict[str, Callable[[], Rows]] = {
    "datasets": _datasets,
    "measures": _measures,
    "chunkers": _chunkers,
    "retrievers": _retrievers,
    "models": _models,
    "prompts": _prompts,
}


def list_names(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", help=f"One of: {', '.join(KINDS)}.", autocompletion=lambda: [*KINDS]
        ),
    ],
) -> None:
    """List the names that commands, grids and notebooks accept.

    One line per name. `<...>` and `{...}` stand for what you fill in: measures are listed as
    families, for example nDCG@{k} for nDCG@5 and nDCG@10.

    Exit status: 0 listed, 2 there is no such kind.
    """
    if kind not in KINDS:
        raise ConfigError(unknown("kind", kind, KINDS))
    rows = KINDS[kind]()
    width = max(len(name) for name, _ in rows)
    for name, meaning in rows:
        typer.echo(f"{name:<{width}}  {meaning}".rstrip())
