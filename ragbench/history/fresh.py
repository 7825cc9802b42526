"""Test sets that follow the documents: versions of known-item questions, a file each, the newest one evaluated.

The runs on a new version are another epoch; `trend` joins it to the one before on the questions that both have.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ragbench.errors import ConfigError

_AGE = re.compile(r"([1-9]\d{0,3})([hd])")
_TIME = "%Y%m%dT%H%M%SZ"
_QUESTIONS = 40


def age(text: str, name: str = "fresh") -> timedelta:
    """How old something may get; `name` is the option of the error.

    >>> age("7d"), age("12h")
    (datetime.timedelta(days=7), datetime.timedelta(seconds=43200))

    Raises:
        ConfigError: it is something else.
    """
    if (found := _AGE.fullmatch(text)) is None:
        raise ConfigError(f"{name} is {text!r}; expected days or hours such as 7d or 12h")
    return timedelta(hours=int(found[1]) * (24 if found[2] == "d" else 1))


def fresh_test_set(folder: Path, documents: str | Path, older: str, now: datetime | None = None) -> Path:
    """The newest version in a folder; a new one where that is older than `older`, or the documents are others.

    A version is a JSONL file with the questions and the documents, named by its time and the documents' fingerprint.
    It has EVALUATION_DEFAULT_SAMPLE_SIZE questions, 40 by default, drawn anew for every version.

    Raises:
        ConfigError: `older` or the number of questions cannot be used.
        DataError: the documents cannot be read, or have no passage to ask for.
    """
    from dataclasses import replace

    from ragbench.datasets.corpus import load_corpus
    from ragbench.datasets.testsets import save_testset
    from ragbench.generation.testsets import draft_known_items

    now = now or datetime.now(UTC)
    given = os.environ.get("EVALUATION_DEFAULT_SAMPLE_SIZE", "") or str(_QUESTIONS)
    if not given.isdecimal() or int(given) < 1:
        raise ConfigError(f"EVALUATION_DEFAULT_SAMPLE_SIZE is {given!r}; expected a number of questions above 0")
    corpus = replace(load_corpus(documents), cases=(), qrels={})
    versions = sorted(folder.glob("????????T??????Z-????????????.jsonl"))
    mark = corpus.fingerprint[:12]
    if versions:
        made, _, of = versions[-1].stem.partition("-")
        if of == mark and datetime.strptime(made, _TIME).replace(tzinfo=UTC) > now - age(older):
            return versions[-1]
    data = replace(draft_known_items(corpus, int(given), seed=len(versions)), name=folder.name)
    folder.mkdir(parents=True, exist_ok=True)
    return save_testset(data, folder / f"{now.strftime(_TIME)}-{mark}.jsonl", "jsonl", force=True)
