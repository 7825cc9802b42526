"""Sets in BEIR's form on the Hugging Face hub, or in a local folder that is laid out like a hub
repository.

Two layouts are usual: the judgements in the repository itself, as the configuration "qrels" or
"default" (mteb's sets), or in a second repository "<repository>-qrels" (BeIR's own). Code from a
repository is never run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from ragbench.datasets.jsonl import located
from ragbench.datasets.large import mapped
from ragbench.datasets.records import add_judgement, assemble, case, document, identifier
from ragbench.errors import ConfigError, DataError, DownloadError, RagbenchError, unknown
from ragbench.files import expanded
from ragbench.types import Dataset, Qrels, grade

_LAYOUT = (
    "expected configurations 'corpus' and 'queries', and judgements as configuration 'qrels' or "
    "'default' or in '<repository>-qrels'"
)
_BATCH = 1000
_SCHEMES = {
    "hf",
    "zip",
    "tar",
    "gzip",
    "bz2",
    "xz",
    "lz4",
    "zstd",
}  # of the hub, and of archives that it holds

T = TypeVar("T")


def load_huggingface(repository: str, split: str = "test") -> Dataset:
    """Return the set in a repository ("BeIR/nfcorpus") or a local folder; `split` is the split of
    the judgements.

    "<repository>:<config>" takes the configurations "<config>-corpus", "<config>-queries" and
    "<config>-qrels" (or "<config>"), as sets in several languages have them. Ids may be called
    "_id" or "id".
    """
    repo, config = _split_name(repository)
    there = _configs(repo)
    corpus_config, queries_config = f"{config}-corpus".lstrip("-"), f"{config}-queries".lstrip("-")
    for needed in (corpus_config, queries_config):
        if needed not in there:
            raise ConfigError(f"hf:{repo}: {unknown('configuration', needed, there)}; {_LAYOUT}")
    qrels_repo, qrels_config = _qrels_place(repo, config, there)
    splits = _splits(qrels_repo, qrels_config)
    if split not in splits:
        raise DataError(
            f"hf:{repository} has no split {split!r}; splits that are there: {', '.join(splits)}"
        )

    corpus = mapped(_unique(repo, corpus_config, "corpus", split, document, "document"))
    cases = {
        one.query_id: one for one in _unique(repo, queries_config, "queries", split, case, "query")
    }
    qrels: Qrels = {}
    for place, record in _rows(qrels_repo, qrels_config, split):
        with located(place):
            query_id, doc_id = identifier(record, "query-id"), identifier(record, "corpus-id")
            add_judgement(qrels, query_id, doc_id, grade(record.get("score")))
    name = (
        Path(repository).name if os.path.isdir(_place(repo)) else repository
    )  # no path of this machine in results
    return assemble(f"hf:{name}", split, corpus, cases, qrels, source=f"hf:{repository}")


def _unique(
    repo: str,
    config: str,
    usual: str,
    split: str,
    parse: Callable[[Mapping[str, Any]], T],
    what: str,
) -> Iterator[T]:
    """Yield the records of a configuration, whose ids differ."""
    seen: set[str] = set()
    for place, record in _rows(repo, config, _only(repo, config, usual, split)):
        with located(place):
            named = record
            if "_id" not in record and "id" in record:
                named = {("_id" if name == "id" else name): value for name, value in record.items()}
            own_id = identifier(named)
            if own_id in seen:
                raise DataError(f"{what} id {own_id!r} is there already; each needs its own")
            seen.add(own_id)
            found = parse(named)
        yield found


def _split_name(repository: str) -> tuple[str, str]:
    """Return ("repo", "config"); a colon that is part of a path ("C:\\\\data") is not a separator."""
    repo, colon, config = repository.rpartition(":")
    if colon and not set(config) & {"/", "\\"}:
        return repo, config
    return repository, ""


def _qrels_place(repo: str, config: str, there: list[str]) -> tuple[str, str]:
    for candidate in (f"{config}-qrels", config) if config else ("qrels", "default"):
        if candidate in there:
            return repo, candidate
    sister = f"{repo}-qrels"
    try:
        configurations = _configs(sister)
    except (ConfigError, DownloadError) as exc:
        raise ConfigError(f"hf:{repo} has no judgements, nor has {sister}; {_LAYOUT}") from exc
    wanted = config or "default"
    if wanted in configurations or len(configurations) == 1:
        return sister, wanted if wanted in configurations else configurations[0]
    raise ConfigError(f"hf:{sister}: {unknown('configuration', wanted, configurations)}; {_LAYOUT}")


def _configs(repo: str) -> list[str]:
    import datasets

    if not repo:
        raise ConfigError(
            "'hf:' names no repository; expected 'hf:<owner>/<name>' or 'hf:<folder>'"
        )
    with _errors_of(repo):
        return sorted(datasets.get_dataset_config_names(_place(repo)))


def _splits(repo: str, config: str) -> list[str]:
    import datasets

    with _errors_of(repo):
        return [str(name) for name in datasets.get_dataset_split_names(_place(repo), config)]


def _only(repo: str, config: str, usual: str, split: str) -> str:
    """Return the split that holds the corpus or the queries: the only one, or that named like it,
    or like the split.
    """
    splits = _splits(repo, config)
    if len(splits) == 1:
        return splits[0]
    for name in (usual, split):
        if name in splits:
            return name
    raise DataError(
        f"hf:{repo}: configuration {config!r} has splits {', '.join(splits)}; expected one, "
        f"or {usual!r}"
    )


def _rows(repo: str, config: str, split: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each row with its place; in batches, as rows one by one are many times slower."""
    import datasets

    bars_shown = not datasets.are_progress_bars_disabled()
    if bars_shown and not sys.stderr.isatty():
        datasets.disable_progress_bars()
    try:
        with _errors_of(repo):
            table = datasets.load_dataset(_place(repo), config, split=split)
    finally:
        if bars_shown:
            datasets.enable_progress_bars()
    count = 0
    for arrays in table.with_format("arrow").iter(
        batch_size=_BATCH
    ):  # nothing is decoded: no file or address opened
        batch = arrays.to_pydict()
        names = list(batch)
        for values in zip(*batch.values(), strict=True):
            count += 1
            yield f"hf:{repo}, {config}/{split}, row {count}", dict(zip(names, values, strict=True))


def _place(repo: str) -> str:
    folder = expanded(repo)
    return str(folder) if os.path.isdir(folder) else repo


@cache
def _repository_read() -> ContextVar[str]:
    """Return the repository that this thread reads: `datasets` then opens nothing that its card
    names outside of it.
    """
    from datasets import config, data_files

    repository, inner = ContextVar("repository", default=""), data_files.resolve_pattern

    def resolved(pattern: str, base_path: str, *args: Any, **options: Any) -> list[str]:
        repo = repository.get()
        for name in (pattern, base_path) if repo else ():
            hub = f"{config.HF_ENDPOINT}/"
            hops = [
                one.partition("://")[0]
                for one in name.split("::")
                if "://" in one and not one.startswith(hub)
            ]
            outside = os.path.isabs(name) and not os.path.isdir(_place(repo))
            if outside or not set(hops) <= _SCHEMES:
                message = (
                    f"hf:{repo}: its card names {name[:200]!r}, which is not in the repository"
                )
                raise DataError(
                    f"{message}, so it is not read; fetch it yourself and name a local folder"
                )
        found: list[str] = inner(pattern, base_path, *args, **options)
        return found

    data_files.resolve_pattern = resolved
    return repository


@contextmanager
def _errors_of(repo: str) -> Iterator[None]:
    """Yield what `datasets` and the hub raise, turned into ours."""
    import datasets
    from huggingface_hub.errors import HFValidationError

    reading = _repository_read().set(repo)
    try:
        yield
    except RagbenchError:
        raise
    except datasets.exceptions.DatasetNotFoundError as exc:
        raise ConfigError(
            f"hf:{repo} is neither on the hub (or is private) nor a local folder; expected "
            "'hf:<owner>/<name>'"
        ) from exc
    except HFValidationError as exc:
        raise ConfigError(
            f"hf:{repo} is not a name of a repository; expected 'hf:<owner>/<name>'"
        ) from exc
    except (datasets.exceptions.DatasetGenerationError, ValueError, RuntimeError) as exc:
        cause = exc.__cause__ or exc
        raise DataError(
            f"hf:{repo} could not be read: {type(cause).__name__}: {str(cause)[:300]}; {_LAYOUT}"
        ) from exc
    except OSError as exc:  # ConnectionError, and FileNotFoundError for data files
        raise DownloadError(
            f"hf:{repo} could not be fetched: {str(exc)[:300]}; check the connection, or name a "
            "local folder"
        ) from exc
    finally:
        _repository_read().reset(reading)
