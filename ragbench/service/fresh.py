"""Test sets that follow the documents: versions of drafted questions, a folder each, the newest one
evaluated.

The runs on a new version are another epoch; `trend` joins it to the one before on the questions
that both have.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ragbench.errors import ConfigError
from ragbench.files import expanded

_AGE = re.compile(r"([1-9]\d{0,3})([hd])")
_TIME = "%Y%m%dT%H%M%SZ"
_QUESTIONS = "40"


def age(text: str, name: str = "fresh") -> timedelta:
    """Return how old something may get; `name` is the option of the error.

    >>> age("7d"), age("12h")
    (datetime.timedelta(days=7), datetime.timedelta(seconds=43200))

    Raises:
        ConfigError: it is something else.
    """
    if (match := _AGE.fullmatch(text)) is None:
        raise ConfigError(f"{name} is {text!r}; expected days or hours such as 7d or 12h")
    return timedelta(hours=int(match[1]) * (24 if match[2] == "d" else 1))


@dataclass(frozen=True)
class FreshQuestions:
    """Known-item questions drafted from documents, and anew when they are too old or the documents
    changed.

    Args:
        max_age: such as "7d" or "12h".
        documents: the folder of the documents, relative to that of the schedule.
    """

    max_age: str
    documents: str

    def check(self, folder: str | Path | None) -> None:
        """Raise ConfigError where this cannot be used by a schedule in a folder; None = in one of
        each client.
        """
        age(self.max_age)
        if not self.documents or (
            folder is not None and not expanded(Path(folder, self.documents)).exists()
        ):
            raise ConfigError(
                f"fresh_from is {self.documents!r}, which is not there; expected a folder of "
                "documents"
            )


def fresh_test_set(
    versions: Path, questions: FreshQuestions, folder: Path, now: datetime | None = None
) -> Path:
    """Return the newest version in a folder; a new one where that is too old, or the documents are
    others.

    A version is a BEIR folder named by its time and the documents' fingerprint; its testset.json
    states its provenance. It has EVALUATION_DEFAULT_SAMPLE_SIZE questions, 40 by default, drawn
    anew for every version.

    Args:
        versions: the folder of the versions.
        folder: that of the schedule.

    Raises:
        ConfigError: the age or the number of questions cannot be used.
        DataError: the documents cannot be read, or have no passage to ask for.
    """
    from ragbench.datasets.corpus import load_corpus
    from ragbench.testsets import draft_known_items
    from ragbench.testsets.writer import save_dataset

    now = now or datetime.now(UTC)
    size = os.environ.get("EVALUATION_DEFAULT_SAMPLE_SIZE", "") or _QUESTIONS
    if not size.isdecimal() or int(size) < 1:
        raise ConfigError(
            f"EVALUATION_DEFAULT_SAMPLE_SIZE is {size!r}; expected a number of questions above 0"
        )
    corpus = replace(
        load_corpus(folder / Path(questions.documents).expanduser()), cases=(), qrels={}
    )
    older = sorted(versions.glob("????????T??????Z-????????????*"))
    mark = corpus.fingerprint[:12]
    if older:
        at, _, fingerprint = older[-1].stem.partition("-")
        if fingerprint == mark and datetime.strptime(at, _TIME).replace(tzinfo=UTC) > now - age(
            questions.max_age
        ):
            return older[-1]
    data = replace(draft_known_items(corpus, int(size), seed=len(older)), name=versions.name)
    record = {
        "name": versions.name,
        "created_at": now.isoformat(timespec="seconds"),
        "parameters": {
            "generator": "known items",
            "source": corpus.name,
            "seed": len(older),
            "questions": int(size),
        },
        "documents": corpus.fingerprint,
        "fingerprint": data.fingerprint,
    }
    path = versions / f"{now.strftime(_TIME)}-{mark}"
    return save_dataset(
        data, path, force=True, extra={"testset.json": json.dumps(record, indent=2) + "\n"}
    )
