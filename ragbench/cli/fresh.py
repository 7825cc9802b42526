"""Data sets that are generated anew when they are old: `ragbench eval --auto-generate-datasets`."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import typer

from ragbench.cli.console import shown
from ragbench.cli.options import Requests
from ragbench.cli.testsets import draft, generate
from ragbench.errors import ConfigError, DataError
from ragbench.testsets.newest import holds_documents, newest_testset

MAX_AGE = timedelta(days=7)
"""The age from which a data set is replaced by a new one."""
_SAMPLE_SIZE = 50
_DOCUMENTS = ("sent/corpus.jsonl", "documents/corpus.jsonl", "documents")


def fresh_testset(documents: str, requests: Requests) -> tuple[Path, str]:
    """Return the newest data set in `testsets/` of this folder, and its documents ("" if it
    contains them). If there is none, or it is older than seven days, a new one is generated.

    The model of RAG_EVAL_PROVIDER writes EVALUATION_DEFAULT_SAMPLE_SIZE pairs (50 unless set);
    without a provider they are known-item questions.

    Args:
        documents: as `--docs`; "" = the documents sent to the server, or in `documents/`.

    Raises:
        ConfigError: there are no documents, or the sample size is not a number.
        DataError: requests failed, so that there is no data set.
    """
    documents = documents or next(filter(os.path.exists, _DOCUMENTS), "")
    if not documents:
        raise ConfigError(
            f"there are no documents to generate a data set from; expected {', '.join(_DOCUMENTS)} "
            "in this folder, or --docs"
        )
    now = datetime.now(UTC)
    folder = Path("testsets")
    newest = newest_testset(folder)
    if newest is not None:
        newest_path, made_at = newest
        if now - made_at <= MAX_AGE:
            return newest_path, "" if holds_documents(newest_path) else documents
    name = f"auto-{now:%Y-%m-%d}"
    size = sample_size()
    seed = now.toordinal()  # other passages than last time
    if os.environ.get("RAG_EVAL_PROVIDER"):
        path = folder / name
        status = generate(
            documents,
            output=path,
            questions=size,
            seed=seed,
            name=name,
            force=True,
            requests=requests,
        )
        if status and not requests.dry_run:
            raise DataError(f"{shown(path)} could not be generated; its requests are named above")
    else:
        path = folder / f"{name}.yaml"
        folder.mkdir(exist_ok=True)
        draft(docs=documents, output=path, limit=size, seed=seed, name=name)
    typer.echo(f"{shown(path)} is new: no data set here is {MAX_AGE.days} days old or younger.")
    return path, "" if holds_documents(path) else documents


def sample_size() -> int:
    """Return the number of pairs to generate, of EVALUATION_DEFAULT_SAMPLE_SIZE.

    Raises:
        ConfigError: it is not a number from 1 on.
    """
    text = os.environ.get("EVALUATION_DEFAULT_SAMPLE_SIZE", "") or str(_SAMPLE_SIZE)
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(
            f"EVALUATION_DEFAULT_SAMPLE_SIZE is {text!r}; expected a number of pairs, such as 50"
        )
    return int(text)
