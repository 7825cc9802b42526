"""`ragbench init` and `notebooks`: which files a new folder gets, the example questions in it, and
the next steps that are printed.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path

import typer

from ragbench.cli.console import command, shown
from ragbench.errors import ConfigError, DataError
from ragbench.files import expanded, parse_json, write_durably
from ragbench.types import Dataset


def init_command(folder: Path = Path("evaluation"), *, docs: str, force: bool = False) -> None:
    """Create a folder for the evaluation of your documents: tests.yaml, grid.toml, notebooks and a
    README with the next steps.

    Exit status: 0 all is well, 2 nothing is written.

    Args:
        folder: The new folder.
        docs: Your documents: a folder of .md, .rst, .txt, .html, .pdf and .docx files, a
            corpus.jsonl, or a dataset's name.
        force: Replace existing files.

    Example: ragbench init my-evaluation --docs docs
    """
    from ragbench.sweep.notebooks import copy_notebooks

    documents = expanded(docs).resolve()
    if documents.is_dir() and folder.resolve().is_relative_to(documents):
        raise ConfigError(
            f"{folder} is in {docs}, so its README and its results would become documents; name a "
            f"folder outside, such as {shlex.quote(f'{documents}-evaluation')}"
        )
    names = ("tests.yaml", "grid.toml", "README.md")
    for name in names:
        if (folder / name).exists() and not force:
            raise ConfigError(
                f"{folder / name} already exists; name another folder, or replace it with --force"
            )
    templates = resources.files("ragbench.cli") / "first_evaluation"
    texts = {name: (templates / name).read_text("utf-8") for name in names}
    data = _example_questions(docs)
    corpus = path_from(docs, folder)
    copy_notebooks(folder / "notebooks", force=force)
    adapt_notebooks(folder / "notebooks", path_from(docs, folder / "notebooks"))
    texts["tests.yaml"] += text_of_testset(data, corpus)
    texts["README.md"] = texts["README.md"].format(name=data.name, docs=shlex.quote(corpus))
    for name, text in texts.items():
        write_durably(folder / name, text)
    typer.echo(
        f"{shown(folder)}: tests.yaml ({len(data.cases)} examples), grid.toml, notebooks, README.md"
    )
    _print_next_steps(folder, corpus, n_documents=len(data.corpus))


def _print_next_steps(folder: Path, corpus: str, *, n_documents: int) -> None:
    """Print the purpose of the example questions, and the commands to run in the new folder.

    `corpus` is the path of the documents from there.
    """
    typer.echo(
        "Note: the examples are known-item drafts. They show that everything runs, but decide nothing "
        "between retrievers or chunkings; for that, write at least ten questions of your own"
    )
    if n_documents == 1:
        typer.echo(
            "Note: with one document, every ranking of documents is correct; read the measures that "
            "begin with span"
        )
    if folder.resolve() != Path.cwd():
        typer.echo(f"Next: cd {shlex.quote(str(folder))}")
    typer.echo(f"      ragbench testset draft --docs {shlex.quote(corpus)} --output tests.yaml")
    typer.echo("      ragbench sweep")


def adapt_notebooks(folder: Path, docs: str) -> None:
    """Change the defaults of parameters in the notebooks that `init` has copied, from the built-in data
    to the user's: the test set and the results of the new folder, and the documents at `docs`.
    """
    new_of_default = {
        'dataset: str = "pydoc"': 'dataset: str = "../tests.yaml"',
        'corpus: str = "pydoc"': f"corpus: str = {json.dumps(docs, ensure_ascii=False)}",
        'questions: str = "questions.jsonl"': 'questions: str = "../tests.yaml"',
        'sweep_dir: str = "../results/quickstart"': 'sweep_dir: str = "../results/first"',
    }
    for path in sorted(folder.glob("*.ipynb")):
        notebook = parse_json(path.read_text("utf-8"))
        for cell in notebook["cells"]:
            # papermill's tag for the cell that holds the parameters
            if "parameters" in cell["metadata"].get("tags", ()):
                cell["source"] = _with_new_defaults(cell["source"], new_of_default)
        write_durably(path, json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def _with_new_defaults(lines: list[str], values: Mapping[str, str]) -> list[str]:
    """Return the lines of a cell with other defaults."""
    changed = []
    for line in lines:
        for old, new in values.items():
            line = line.replace(old, new)
        changed.append(line)
    return changed


def notebooks_command(folder: Path = Path("notebooks"), *, force: bool = False) -> None:
    """Copy the notebooks that come with ragbench into a folder, to be opened in JupyterLab.

    Exit status: 0 all is well, 2 nothing is written.

    Args:
        folder: Where the copies go.
        force: Replace notebooks that were changed there.

    Example: ragbench notebooks my-notebooks
    """
    from ragbench.sweep.notebooks import copy_notebooks

    copies = copy_notebooks(folder, force=force)
    typer.echo(
        f"{len(copies)} notebooks in {shown(folder)}: {', '.join(path.stem for path in copies)}"
    )
    typer.echo(f"Next: {command('jupyter')} lab {shown(folder / 'evaluate.ipynb')}")


def path_from(docs: str, folder: Path) -> str:
    """Return documents as a file in `folder` names them: by their path, or the name of a dataset."""
    path = expanded(docs)
    return Path(os.path.relpath(path, folder.resolve())).as_posix() if path.exists() else docs


def text_of_testset(data: Dataset, corpus: str, name: str = "") -> str:
    """Return a test set in YAML that refers to its documents."""
    from ragbench.testsets.forms import content_of, text_of

    content = replace(content_of(data), name=name or data.name, documents={}, corpus=corpus)
    return text_of(content, "yaml")


def _example_questions(docs: str) -> Dataset:
    """Return a test set of three example questions about documents.

    They are drafted from headings, or from distinctive sentences if there are no headings.
    """
    from ragbench.datasets.corpus import load_corpus
    from ragbench.testsets import draft_known_items

    corpus = load_corpus(docs)
    try:
        drafts = draft_known_items(corpus, 3, kinds=("heading",))
    except DataError:  # too few headings
        drafts = draft_known_items(corpus, 3)
    cases = []
    qrels = {}
    for number, draft in enumerate(drafts.cases, 1):
        query_id = f"example-{number}"
        cases.append(replace(draft, query_id=query_id, category="example"))
        qrels[query_id] = {draft.evidence[0].doc_id: 1}
    return replace(drafts, cases=tuple(cases), qrels=qrels)
