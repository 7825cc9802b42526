"""`ragbench list`: what can be named in a command, a grid or a notebook, with a note on each name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from ragbench.cli.console import print_json
from ragbench.cli.options import Json
from ragbench.errors import ConfigError, unknown
from ragbench.extension import FORM
from ragbench.hints.similar_names import similar

Names = dict[str, str]  # name -> its description


def _datasets() -> Names:
    from ragbench.datasets import FORMS
    from ragbench.datasets.download import MD5

    forms = {name.replace("'", ""): meaning for name, meaning in FORMS.items()}
    return {**forms, **dict.fromkeys((f"beir/{name}" for name in MD5), "")}


def _measures() -> Names:
    from ragbench.registry import measures

    table = measures()
    meanings = table["meaning"].mask(
        table["better"] == "lower", table["meaning"] + " (lower is better)"
    )
    return dict(zip(table["measure"], meanings, strict=True))


def _chunkers() -> Names:
    from ragbench.retrieval.chunkers import CHUNKERS

    return {**dict.fromkeys(CHUNKERS, ""), FORM: "one of your own"}


def _retrievers() -> Names:
    """Return the names of retrievers, each with a note ("" if the name explains itself). The last one,
    `FORM` ("package.module:attribute"), stands for a retriever of the user.
    """
    from ragbench.retrieval.embedders import EMBEDDERS
    from ragbench.retrieval.retrievers import LEARNED, RETRIEVERS

    names = {}
    for kind in RETRIEVERS:
        if kind == "bm25@disk":
            names[kind] = "index on the disk, by tantivy (extra large)"
        elif kind == "bm25":
            names[kind] = ""
        elif kind in LEARNED:  # by a model of sparse vectors or of late interaction
            names[f"{kind}:<model>"] = LEARNED[kind]
        else:  # by an embedder, such as "dense:minilm"
            names |= {f"{kind}:{embedder}": "" for embedder in EMBEDDERS}
            names[f"{kind}:<embedder>"] = (
                "folder or hub name of a sentence-transformers model, or one of your own"
            )
    return {**names, FORM: "one of your own"}


def _steps() -> Names:
    from ragbench.retrieval.steps.values import FUNCTIONS, STEPS

    names: Names = {}
    for parameter, forms in STEPS.items():
        names |= {f"{parameter} = {form.text}": form.meaning for form in forms}
        names[f"{parameter} = {FORM}"] = FUNCTIONS[parameter]
    return names


def _models() -> Names:
    """Return the names of language models with a note each: forms of names, then priced models.

    "extractive" and "none" are values of the pipeline's parameter `llm` only; a judge cannot be one.
    `FORM` ("package.module:attribute") stands for a model of the user.
    """
    from ragbench.llms.prices import prices
    from ragbench.llms.providers import PROVIDERS

    forms = {f"{name}:<model>": "" for name in PROVIDERS}
    priced = {
        name: f"${price.input:g} in, ${price.output:g} out per million tokens"
        for name, price in prices().items()
    }
    return {
        "extractive": "no language model: answers repeat sentences (llm of the pipeline alone)",
        "none": "no answers, retrieval alone (llm of the pipeline alone)",
        **forms,
        "env": "the model that the variables RAG_EVAL_* name",
        FORM: "one of your own",
        **priced,
    }


def _prompts() -> Names:
    from ragbench.generation.generator_prompts import PROMPTS

    return {
        name: next(line for line in text.splitlines() if line and line[0] != "{")
        for name, text in PROMPTS.items()
    }


def _embedders() -> Names:
    from ragbench.retrieval.embedders import EMBEDDERS

    others = {"<name>": "folder or hub name of a sentence-transformers model"}
    hosted = dict.fromkeys(("openai:<model>", "ollama:<model>"), "asked over HTTP")
    return {**dict.fromkeys(EMBEDDERS, ""), **others, **hosted, FORM: "one of your own"}


def _criteria() -> Names:
    from ragbench.judges.criterion import BUILT_IN, CRITERIA

    built_in = {name: BUILT_IN[name].meaning for name in CRITERIA}
    return {**built_in, "<file>.toml": "criteria of your own", FORM: "one of your own"}


def _interventions() -> Names:
    from ragbench.testsets import INTERVENTIONS

    expected = {name: f"then: {text}" for name, (_, text) in INTERVENTIONS.items()}
    return {**expected, FORM: "one of your own"}


KINDS: dict[str, Callable[[], Names]] = {
    "datasets": _datasets,
    "measures": _measures,
    "chunkers": _chunkers,
    "embedders": _embedders,
    "retrievers": _retrievers,
    "steps": _steps,
    "rerankers": lambda: {
        "<model>": "cross-encoder of sentence-transformers",
        **dict.fromkeys(("cohere:<model>", "voyage:<model>", "jina:<model>"), "asked over HTTP"),
        FORM: "one of your own",
    },
    "llms": _models,
    "prompts": _prompts,
    "criteria": _criteria,
    "interventions": _interventions,
    "detectors": lambda: {"hf:<classifier>": "of the hub", FORM: "one of your own"},
}


def list_command(
    kind: Annotated[str, typer.Argument(autocompletion=lambda: [*KINDS])] = "",
    *,
    as_json: Json = False,
) -> None:
    """List the names that commands, grids and notebooks accept; without a kind, list the kinds.

    One line per name. Replace `<...>` and `{...}` by values of your own: measures are listed
    as families, for example nDCG@{k} for nDCG@5 and nDCG@10.

    Exit status: 0 listed, 2 there is no such kind.

    Args:
        kind: A kind of names, such as datasets, measures, retrievers.

    Example: ragbench list retrievers
    """
    if kind and kind not in KINDS:
        raise ConfigError(unknown("kind", kind, KINDS, near=similar(kind, KINDS)))
    names = KINDS[kind]() if kind else dict.fromkeys(KINDS, "")  # name -> note
    if as_json:
        print_json({"kind": kind, "names": names})
        return
    width = max(map(len, names))
    for name, meaning in names.items():
        typer.echo(f"{name:<{width}}  {meaning}".rstrip())
