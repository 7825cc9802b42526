"""Data sets that are generated anew when they are a week old, and how large: `ragbench eval
--auto-generate-datasets`.
"""

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


def fresh_testset(documents: str, requests: Requests) -> tuple[str, str]:
    """Return a data set that is at most seven days old: its path, and its documents.

    It is the newest one in `testsets/` of this folder; if that is older, or there is none, a new one is
    generated. In a dry run nothing is generated, and the path may not exist.

    Args:
        documents: as `--docs`; "" = the documents sent to the server, or in `documents/`.

    Returns:
        The path, and `documents` for --docs; "" if the data set contains its documents.

    Raises:
        ConfigError: there are no documents, or the sample size is not a number.
        DataError: requests failed, so that there is no data set.
    """
    # without --docs, the first of the usual places that exists
    documents = documents or next(filter(os.path.exists, _DOCUMENTS), "")
    if not documents:
        raise ConfigError(
            f"there are no documents to generate a data set from; expected {', '.join(_DOCUMENTS)} "
            "in this folder, or --docs"
        )
    now = datetime.now(UTC)
    newest = newest_testset(Path("testsets"))
    if newest is not None and now - newest[1] <= MAX_AGE:  # (path, when it was made)
        path, _ = newest
    else:
        path = _generate_testset(documents, now, requests)
        typer.echo(f"{shown(path)} is new: no data set here is {MAX_AGE.days} days old or younger.")
    return str(path), "" if holds_documents(path) else documents


def _generate_testset(documents: str, now: datetime, requests: Requests) -> Path:
    """Generate a data set in `testsets/` that is named by the day, and return its path.

    The model of RAG_EVAL_PROVIDER writes EVALUATION_DEFAULT_SAMPLE_SIZE questions with answers (50
    unless set). Without a provider, questions are drafted from headings and sentences of the documents.

    Args:
        documents: the path of the documents.
        now: the time, which gives the name and the random seed.
        requests: the options about requests of the command line.
    """
    name = f"auto-{now:%Y-%m-%d}"
    size = sample_size()
    seed = now.toordinal()  # other passages than last time
    if not os.environ.get("RAG_EVAL_PROVIDER"):
        path = Path("testsets", f"{name}.yaml")
        path.parent.mkdir(exist_ok=True)
        draft(docs=documents, output=path, limit=size, seed=seed, name=name)
        return path
    folder = Path("testsets", name)
    # the exit status of `ragbench testset generate`: 0 if all requests succeeded
    status = generate(
        documents,
        output=folder,
        questions=size,
        seed=seed,
        name=name,
        force=True,
        requests=requests,
    )
    if status and not requests.dry_run:
        raise DataError(f"{shown(folder)} could not be generated; its requests are named above")
    return folder


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
