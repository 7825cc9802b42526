"""Sets in BEIR's form on the Hugging Face hub, or in a local folder that is laid out like a hub
repository.

Two layouts are usual: the judgements in the repository itself, as the configuration "qrels" or
"default" (mteb's sets), or in a second repository "<repository>-qrels" (BeIR's own). Code from a
repository is never run.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from ragbench.datasets.jsonl import located
from ragbench.datasets.large import mapped
from ragbench.datasets.raw_records import add_judgement, assemble, case, document, identifier
from ragbench.errors import ConfigError, DataError, DownloadError, unknown
from ragbench.files import expanded
from ragbench.plain_records import grade
from ragbench.types import Dataset, Qrels

_LAYOUT = (
    "expected configurations 'corpus' and 'queries', and judgements as configuration 'qrels' or "
    "'default' or in '<repository>-qrels'"
)
_BATCH = 1000

T = TypeVar("T")


def load_huggingface(repository: str, split: str = "test") -> Dataset:
    """Return the set in a repository ("BeIR/nfcorpus") or a local folder; `split` is the split of
    the judgements.

    "<repository>:<config>" takes the configurations "<config>-corpus", "<config>-queries" and
    "<config>-qrels" (or "<config>"), as sets in several languages have them. Ids may be called
    "_id" or "id".
    """
    repo, colon, config = repository.rpartition(":")
    if not colon or {*config} & {"/", "\\"}:  # a colon of a path, as in C:\\data
        repo, config = repository, ""
    configurations = _configs(repo)
    corpus_config = f"{config}-corpus".lstrip("-")
    queries_config = f"{config}-queries".lstrip("-")
    for needed in (corpus_config, queries_config):
        if needed not in configurations:
            raise ConfigError(
                f"hf:{repo}: {unknown('configuration', needed, configurations)}; {_LAYOUT}"
            )
    qrels_repo, qrels_config = _qrels_place(repo, config, configurations)
    splits = _splits(qrels_repo, qrels_config)
    if split not in splits:
        raise DataError(
            f"hf:{repository} has no split {split!r}; splits that are there: {', '.join(splits)}"
        )

    corpus = mapped(_unique(repo, corpus_config, "corpus", split, document, "document"))
    cases = {
        query.query_id: query
        for query in _unique(repo, queries_config, "queries", split, case, "query")
    }
    qrels: Qrels = {}
    for where, record in _rows(qrels_repo, qrels_config, split):
        with located(where):
            query_id, doc_id = identifier(record, "query-id"), identifier(record, "corpus-id")
            add_judgement(qrels, query_id, doc_id, grade(record.get("score")))
    is_local = os.path.isdir(_location(repo))
    name = Path(repository).name if is_local else repository  # no local path gets into results
    return assemble(f"hf:{name}", split, corpus, cases, qrels, source=f"hf:{repository}")


def _unique(
    repo: str,
    config: str,
    usual: str,
    split: str,
    parse: Callable[[Mapping[str, Any]], T],
    what: str,
) -> Iterator[T]:
    """Yield `parse(record)` for the records of a configuration.

    Args:
        repo: the repository or the local folder.
        config: the configuration, such as "corpus".
        usual: the split in which such records usually are.
        split: the split of the judgements, which may be the split of these records, too.
        parse: makes the item of a record.
        what: the kind of record in messages.

    Raises:
        DataError: a record is wrong, or an id comes twice.
    """
    seen = set()
    for where, record in _rows(repo, config, _only(repo, config, usual, split)):
        with located(where):
            named = dict(record)
            if "_id" not in named and "id" in named:
                named = {"_id": named.pop("id"), **named}
            record_id = identifier(named)
            if record_id in seen:
                raise DataError(f"{what} id {record_id!r} is there already; each needs its own")
            seen.add(record_id)
            item = parse(named)
        yield item


def _qrels_place(repo: str, config: str, configurations: list[str]) -> tuple[str, str]:
    """Return the repository and the configuration with the judgements.

    They are in `repo`, if it has the configuration "<config>-qrels" or `config` (if `config` is "":
    "qrels" or "default"). Else they are in the repository "<repo>-qrels": in its only configuration,
    whatever its name, or in `config` (if that is "": "default").

    Raises:
        ConfigError: neither repository has such a configuration.
    """
    candidates = ("qrels", "default")
    if config:
        candidates = (f"{config}-qrels", config)
    for candidate in candidates:
        if candidate in configurations:
            return repo, candidate
    sister = f"{repo}-qrels"
    try:
        sister_configurations = _configs(sister)
    except (ConfigError, DownloadError) as exc:
        raise ConfigError(f"hf:{repo} has no judgements, nor has {sister}; {_LAYOUT}") from exc
    if len(sister_configurations) == 1:
        return sister, sister_configurations[0]
    qrels_config = config or "default"
    if qrels_config not in sister_configurations:
        message = unknown("configuration", qrels_config, sister_configurations)
        raise ConfigError(f"hf:{sister}: {message}; {_LAYOUT}")
    return sister, qrels_config


def _configs(repo: str) -> list[str]:
    """Return the names of the configurations of a repository or a local folder.

    Raises:
        ConfigError: the repository has no name, or does not exist.
        DataError, DownloadError: it cannot be read, or fetched.
    """
    import datasets

    if not repo:
        raise ConfigError(
            "'hf:' names no repository; expected 'hf:<owner>/<name>' or 'hf:<folder>'"
        )
    with _errors_of(repo):
        return sorted(datasets.get_dataset_config_names(_location(repo)))


def _splits(repo: str, config: str) -> list[str]:
    import datasets

    with _errors_of(repo):
        return [str(name) for name in datasets.get_dataset_split_names(_location(repo), config)]


def _only(repo: str, config: str, usual: str, split: str) -> str:
    """Return the split that holds the corpus or the queries: the only split, else the split with the
    usual name (`usual`), else the split of the judgements (`split`).
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
    """Yield the place of each row (for messages) and the row."""
    import datasets
    import pyarrow as pa

    bars_shown = not datasets.are_progress_bars_disabled()
    if bars_shown and not sys.stderr.isatty():
        datasets.disable_progress_bars()
    try:
        with _errors_of(repo):
            table = datasets.load_dataset(_location(repo), config, split=split)  # nosec B615: the user names it; its fingerprint is recorded
    finally:
        if bars_shown:
            datasets.enable_progress_bars()
    # In the format "arrow" nothing is decoded, so that no file or address named in a row is opened.
    # Rows come in batches, because reading them one by one is many times slower.
    batches = table.with_format("arrow").iter(batch_size=_BATCH)
    for count, row in enumerate(chain.from_iterable(map(pa.Table.to_pylist, batches)), 1):
        yield f"hf:{repo}, {config}/{split}, row {count}", row


def _location(repo: str) -> str:
    folder = expanded(repo)
    return str(folder) if os.path.isdir(folder) else repo


@contextmanager
def _errors_of(repo: str) -> Iterator[None]:
    """Turn the exceptions of `datasets` and the hub into ragbench's errors."""
    import datasets
    from huggingface_hub.errors import HFValidationError

    try:
        yield
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
