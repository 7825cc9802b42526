"""`ragbench init` and `notebooks`: files to begin with. `ragbench testset draft`: questions without
a model.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from ragbench.cli.console import clean_errors, command, shown
from ragbench.errors import ConfigError, DataError
from ragbench.files import expanded, write_durably
from ragbench.types import Dataset

DRAFT_EXAMPLE = "Example: ragbench testset draft --docs docs --out drafts.yaml"

_DRAFTS = typer.Option(help="A .yaml file; where it is there, the drafts are added to it.")
_DOCS = (
    "Your documents: a folder of .md, .rst, .txt, .html, .pdf and .docx files, a "
    "corpus.jsonl, or a dataset's name."
)


def init_command(
    docs: Annotated[str, typer.Option(help=_DOCS, show_default=False)],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The new folder.")] = Path(
        "evaluation"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
) -> None:
    """Write a folder to evaluate your documents in: tests.yaml, grid.toml, notebooks and a README
    with the next steps.

    Exit status: 0 all is well, 2 nothing is written.
    """
    from ragbench.sweep.notebooks import copy_notebooks

    templates = resources.files("ragbench.cli") / "first_evaluation"
    texts = {
        name: (templates / name).read_text("utf-8")
        for name in ("tests.yaml", "grid.toml", "README.md")
    }
    with clean_errors(OSError):
        inside = expanded(docs).resolve()
        if inside.is_dir() and folder.resolve().is_relative_to(inside):
            raise ConfigError(
                f"{folder} is in {docs}, so its README and its results would become documents; "
                f"name a folder outside, such "
                f"as {shlex.quote(str(inside.with_name(f'{inside.name}-evaluation')))}"
            )
        for name in texts:
            if (folder / name).exists() and not force:
                raise ConfigError(
                    f"{folder / name} is there already; name another folder, or replace it with "
                    "--force"
                )
        data = _examples(docs)
        there = _from_folder(docs, folder)
        folder.mkdir(parents=True, exist_ok=True)
        copy_notebooks(folder / "notebooks", force=force)
        texts["tests.yaml"] += _yaml(data, there)
        texts["README.md"] = texts["README.md"].format(name=data.name, docs=shlex.quote(there))
        for name, text in texts.items():
            write_durably(folder / name, text)
    typer.echo(
        f"{shown(folder)}: tests.yaml ({len(data.cases)} example cases), grid.toml, notebooks, "
        "README.md"
    )
    if len(data.corpus) == 1:
        note = (
            "with one document every ranking of documents is right; read the measures that "
            "begin with span"
        )
        typer.echo(f"Note: {note}")
    if folder.resolve() != Path.cwd():
        typer.echo(f"Next: cd {shlex.quote(str(folder))}")
    typer.echo(f"      ragbench testset draft --docs {shlex.quote(there)} --out tests.yaml")
    typer.echo("      ragbench sweep")


def draft_command(
    docs: Annotated[str, typer.Option(help=_DOCS, show_default=False)],
    out: Annotated[Path, _DRAFTS] = Path("drafts.yaml"),
    n: Annotated[int, typer.Option("--n", min=1, help="Questions at most.")] = 40,
    seed: Annotated[int, typer.Option(help="Of the choice.")] = 0,
    name: Annotated[
        str, typer.Option(help="Of the test set; default: that of the documents.")
    ] = "",
) -> None:
    """Draft questions without a language model: headings and distinctive sentences, with gold
    evidence.

    They ask for a passage by its own words (known-item search), which favours lexical search: good
    for a first look, not for a decision. `ragbench testset generate` asks a language model. Exit
    status: 0 all is well, 2 nothing is written.
    """
    from ragbench.datasets.corpus import load_corpus
    from ragbench.testsets import draft_known_items

    with clean_errors(OSError):
        if out.suffix not in (".yaml", ".yml"):
            raise ConfigError(f"--out is {out}; expected a file that ends in .yaml")
        data = draft_known_items(load_corpus(docs), n, seed=seed)
        if out.exists():
            n_added = _add_cases(out, data)
        else:
            text = (
                "# Drafts: known-item questions, made from the documents by a program. Keep "
                "what users would ask.\n"
            )
            text += _yaml(
                data, _from_folder(docs, out.parent), name or f"{data.name} (known-item drafts)"
            )
            n_added = len(data.cases)
            out.parent.mkdir(parents=True, exist_ok=True)
            write_durably(out, text)
    typer.echo(
        f"{n_added} drafts in {shown(out)}, from {len(data.corpus)} documents (category: "
        "known-item draft)"
    )
    typer.echo(
        "They ask for passages by their own words, which favours bm25; your users ask differently."
    )
    if n_added < n:
        others = "the others were there already, or no passage is left that has words of its own"
        typer.echo(f"That is fewer than {n}: {others}.")


def _examples(docs: str) -> Dataset:
    """Three cases from headings, or from what there is where the documents have none."""
    from ragbench.datasets.corpus import load_corpus
    from ragbench.testsets import draft_known_items

    corpus = load_corpus(docs)
    try:
        data = draft_known_items(corpus, 3, kinds=("heading",))
    except DataError:
        data = draft_known_items(corpus, 3)
    named = [
        replace(case, query_id=f"example-{i}", category="example")
        for i, case in enumerate(data.cases, 1)
    ]
    qrels = {case.query_id: {case.evidence[0].doc_id: 1} for case in named}
    return replace(data, cases=tuple(named), qrels=qrels)


def _from_folder(docs: str, folder: Path) -> str:
    """The documents as a file in `folder` names them."""
    place = expanded(docs)
    return (
        Path(os.path.relpath(place.resolve(), folder.resolve())).as_posix()
        if place.exists()
        else docs
    )


def _yaml(data: Dataset, corpus: str, name: str = "") -> str:
    """Return a test set in YAML that refers to its documents."""
    from ragbench.testsets.forms import content_of, text_of

    content = replace(content_of(data), name=name or data.name, documents={}, corpus=corpus)
    return text_of(content, "yaml")


def _add_cases(path: Path, data: Dataset) -> int:
    """Add the cases that a YAML test set does not have at its end, and return their number."""
    from ragbench.testsets.edits import add_entries
    from ragbench.testsets.forms import content_of
    from ragbench.testsets.loader import load_testset

    testset = load_testset(path)
    if other := sorted({case.evidence[0].doc_id for case in data.cases} - set(testset.corpus)):
        raise ConfigError(
            f"the documents of {path} are others: they lack {other[0]!r}; name another --out"
        )
    queries = set(testset.queries.values())
    entries = [entry for entry in content_of(data).entries if entry.case.text not in queries]
    add_entries(path, entries)
    return len(entries)


def notebooks_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the copies go.")] = Path(
        "notebooks"
    ),
    force: Annotated[
        bool, typer.Option("--force", help="Replace notebooks that were changed there.")
    ] = False,
) -> None:
    """Copy the notebooks that come with ragbench into a folder, to be opened in JupyterLab.

    Exit status: 0 all is well, 2 nothing is written.
    """
    from ragbench.sweep.notebooks import copy_notebooks

    copies = copy_notebooks(folder, force=force)
    typer.echo(
        f"{len(copies)} notebooks in {shown(folder)}: {', '.join(path.stem for path in copies)}"
    )
    typer.echo(f"Next: {command('jupyter')} lab {shown(folder / 'evaluate.ipynb')}")
