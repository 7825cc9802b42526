"""Test sets that follow the documents: versions of drafted questions, a folder each, the newest one evaluated.

The runs on a new version are another epoch; `trend` joins it to the one before on the questions that both have.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ragbench.errors import ConfigError, ModelError

_AGE = re.compile(r"([1-9]\d{0,3})([hd])")
_TIME = "%Y%m%dT%H%M%SZ"
_QUESTIONS = 40
_FAILED = 0.1


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


def fresh_test_set(
    folder: Path, documents: str | Path, older: str, now: datetime | None = None, *, llm: str = "",
    max_cost: float | None = None,
) -> Path:  # fmt: skip
    """The newest version in a folder; a new one where that is older than `older`, or the documents are others.

    A version is a BEIR folder named by its time and the documents' fingerprint; its testset.json tells how it was made.
    It has EVALUATION_DEFAULT_SAMPLE_SIZE questions, 40 by default, drawn anew for every version: known items, or with
    `llm` one question about each of that many chunks, less those that `generate_drafts` rejects. In a dry run of
    language models nothing is written.

    Raises:
        ConfigError: `older`, the model or the number of questions cannot be used.
        DataError: the documents cannot be read, or have no passage to ask for, or no draft is accepted.
        ModelError: over a tenth of the requests failed, or cost more than `max_cost`; those that did not are stored,
            and not paid for again.
    """

    from ragbench import generation, llms
    from ragbench.datasets.corpus import load_corpus
    from ragbench.retrieval.chunkers import chunk
    from ragbench.testsets import draft_known_items
    from ragbench.testsets.writer import save_dataset

    now = now or datetime.now(UTC)
    given = os.environ.get("EVALUATION_DEFAULT_SAMPLE_SIZE", "") or str(_QUESTIONS)
    if not given.isdecimal() or int(given) < 1:
        raise ConfigError(f"EVALUATION_DEFAULT_SAMPLE_SIZE is {given!r}; expected a number of questions above 0")
    corpus = replace(load_corpus(documents), cases=(), qrels={})
    versions = sorted(folder.glob("????????T??????Z-????????????*"))
    mark = corpus.fingerprint[:12]
    if versions:
        at, _, of = versions[-1].stem.partition("-")
        if of == mark and datetime.strptime(at, _TIME).replace(tzinfo=UTC) > now - age(older):
            return versions[-1]
    count, seed, place = int(given), len(versions), folder / f"{now.strftime(_TIME)}-{mark}"
    about = {"name": folder.name, "created_at": now.isoformat(timespec="seconds")}
    parameters = {"generator": "language model" if llm else "known items", "llm": llm, "source": corpus.name,
                  "seed": seed, "chunks" if llm else "questions": count}  # fmt: skip
    if not llm:
        data = replace(draft_known_items(corpus, count, seed=seed), name=folder.name)
        made = {"parameters": parameters, "documents": corpus.fingerprint, "fingerprint": data.fingerprint}
        record = json.dumps({**about, **made}, indent=2)
        return save_dataset(data, place, force=True, extra={"testset.json": record + "\n"})
    chunks = generation.sample_chunks(corpus, chunk(corpus, "recursive", chunk_size=256), count, seed=seed)
    model = llms.load_llm(llm, llms.current_settings(max_cost=max_cost))
    drafts = generation.generate_drafts(corpus, chunks, model, per_chunk=1)
    if llms.active_dry_run() is not None:
        return place
    failed = [draft.reason for draft in drafts if draft.state in ("failed", "unchecked")]
    if len(failed) > len(drafts) * _FAILED:
        raise ModelError(f"{len(failed)} of {len(drafts)} requests to {llm} failed, the first: {failed[0]}")
    data = generation.as_dataset(corpus, drafts, name=folder.name)
    return generation.save_drafts(data, drafts, place, parameters=parameters, about=about, force=True)
