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
from typing import Any, NamedTuple, TypeVar

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


class _Source(NamedTuple):
    """A part of a repository that holds records of one kind."""

    repo: str
    config: str
    split: str


def load_huggingface(repository: str, split: str = "test") -> Dataset:
    """Return the set in a repository ("BeIR/nfcorpus") or a local folder; `split` is the split of
    the judgements.

    "<repository>:<config>" is for sets in several languages: it takes the configurations
    "<config>-corpus" and "<config>-queries", and the judgements from "<config>-qrels" or "<config>".
    Ids may be called "_id" or "id".

    Raises:
        ConfigError: the repository does not exist, or lacks one of the configurations.
        DataError, DownloadError: a record is wrong, or the set cannot be fetched.
    """
    repo, config = _split_name(repository)
    configurations = _configurations(repo)
    prefix = f"{config}-" if config else ""
    for needed in (f"{prefix}corpus", f"{prefix}queries"):
        if needed not in configurations:
            raise ConfigError(
                f"hf:{repo}: {unknown('configuration', needed, configurations)}; {_LAYOUT}"
            )
    qrels_repo, qrels_config = _find_qrels(repo, config, configurations)
    splits = _splits(qrels_repo, qrels_config)
    if split not in splits:
        raise DataError(
            f"hf:{repository} has no split {split!r}; splits that are there: {', '.join(splits)}"
        )
    # of several splits of the documents, the one called "corpus", else the one called as `split`
    corpus_source = _choose_split(repo, f"{prefix}corpus", preferred=("corpus", split))
    queries_source = _choose_split(repo, f"{prefix}queries", preferred=("queries", split))
    documents = _unique_records(corpus_source, parse=document, what="document")
    queries = _unique_records(queries_source, parse=case, what="query")
    corpus = mapped(documents)  # id -> document; a large corpus is kept on disk
    cases = {query.query_id: query for query in queries}
    qrels = _read_qrels(_Source(qrels_repo, qrels_config, split))
    is_local = os.path.isdir(_location(repo))
    name = Path(repository).name if is_local else repository  # no local path gets into results
    return assemble(f"hf:{name}", split, corpus, cases, qrels, source=f"hf:{repository}")


def _split_name(repository: str) -> tuple[str, str]:
    """Return the repository or folder, and the configuration after the last colon; "" if no
    configuration is named.

    >>> _split_name("miracl/hagrid:en"), _split_name("C:\\\\data"), _split_name("BeIR/nfcorpus")
    (('miracl/hagrid', 'en'), ('C:\\\\data', ''), ('BeIR/nfcorpus', ''))
    """
    repo, colon, config = repository.rpartition(":")
    is_colon_of_path = "/" in config or "\\" in config
    if not colon or is_colon_of_path:
        return repository, ""
    return repo, config


def _read_qrels(source: _Source) -> Qrels:
    """Return the judgements of a source: query id -> document id -> grade."""
    qrels: Qrels = {}
    for where, record in _records(source):
        with located(where):
            query_id, doc_id = identifier(record, "query-id"), identifier(record, "corpus-id")
            add_judgement(qrels, query_id, doc_id, grade(record.get("score")))
    return qrels


def _unique_records(
    source: _Source, parse: Callable[[Mapping[str, Any]], T], what: str
) -> Iterator[T]:
    """Yield `parse(record)` for the records of a source; an id may be called "_id" or "id".

    Raises:
        DataError: a record is wrong, or an id comes twice; `what` names the kind of record.
    """
    known_ids = set()
    for where, record in _records(source):
        with located(where):
            fields = dict(record)
            if "_id" not in fields and "id" in fields:
                fields = {"_id": fields.pop("id"), **fields}
            record_id = identifier(fields)
            if record_id in known_ids:
                raise DataError(f"{what} id {record_id!r} occurs twice; each needs its own")
            known_ids.add(record_id)
            item = parse(fields)
        yield item


def _find_qrels(repo: str, config: str, configurations: list[str]) -> tuple[str, str]:
    """Return the repository and the configuration with the judgements, the first of these that exists:

    1. in `repo`, the configuration "<config>-qrels" or `config`; if `config` is "", the configuration
       "qrels" or "default";
    2. in the repository "<repo>-qrels", its only configuration, whatever its name;
    3. in the repository "<repo>-qrels", the configuration `config`; if `config` is "", the
       configuration "default".

    Raises:
        ConfigError: none of them exists.
    """
    candidates = (f"{config}-qrels", config) if config else ("qrels", "default")
    for candidate in candidates:
        if candidate in configurations:
            return repo, candidate
    sister = f"{repo}-qrels"
    try:
        sister_configurations = _configurations(sister)
    except (ConfigError, DownloadError) as exc:
        raise ConfigError(f"hf:{repo} has no judgements, nor has {sister}; {_LAYOUT}") from exc
    if len(sister_configurations) == 1:
        return sister, sister_configurations[0]
    qrels_config = config or "default"
    if qrels_config not in sister_configurations:
        message = unknown("configuration", qrels_config, sister_configurations)
        raise ConfigError(f"hf:{sister}: {message}; {_LAYOUT}")
    return sister, qrels_config


def _configurations(repo: str) -> list[str]:
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
    with _translated_errors(repo):
        return sorted(datasets.get_dataset_config_names(_location(repo)))


def _splits(repo: str, config: str) -> list[str]:
    """Return the names of the splits of a configuration."""
    import datasets

    with _translated_errors(repo):
        return [str(name) for name in datasets.get_dataset_split_names(_location(repo), config)]


def _choose_split(repo: str, config: str, preferred: tuple[str, str]) -> _Source:
    """Return a configuration with its only split, else with the first of two preferred splits that it
    has.

    Raises:
        DataError: it has several splits, and neither of the preferred ones.
    """
    splits = _splits(repo, config)
    if len(splits) == 1:
        return _Source(repo, config, splits[0])
    for split in preferred:
        if split in splits:
            return _Source(repo, config, split)
    raise DataError(
        f"hf:{repo}: configuration {config!r} has splits {', '.join(splits)}; expected one, "
        f"or {preferred[0]!r}"
    )


def _records(source: _Source) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Download a part of a repository, and yield the place of each record (for messages) and the record.

    Raises:
        ConfigError, DataError, DownloadError: the part does not exist, cannot be read, or cannot be
            fetched.
    """
    import datasets
    import pyarrow as pa

    repo, config, split = source
    with _bars_only_in_terminal(), _translated_errors(repo):
        table = datasets.load_dataset(_location(repo), config, split=split)  # nosec B615: the user names it; its fingerprint is recorded
    # In the format "arrow" nothing is decoded, so that no file or address named in a row is opened.
    # Rows come in batches, because reading them one by one is many times slower.
    batches = table.with_format("arrow").iter(batch_size=_BATCH)
    rows = chain.from_iterable(map(pa.Table.to_pylist, batches))
    for count, row in enumerate(rows, 1):
        yield f"hf:{repo}, {config}/{split}, row {count}", row


@contextmanager
def _bars_only_in_terminal() -> Iterator[None]:
    """Let `datasets` show no progress bars in the block, unless it writes to a terminal."""
    import datasets

    must_hide = not datasets.are_progress_bars_disabled() and not sys.stderr.isatty()
    if must_hide:
        datasets.disable_progress_bars()
    try:
        yield
    finally:
        if must_hide:
            datasets.enable_progress_bars()


@contextmanager
def _translated_errors(repo: str) -> Iterator[None]:
    """Turn the exceptions of `datasets` and the hub in the block into ragbench's errors, which name the
    repository.
    """
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
        cause = exc.__cause__ or exc  # a DatasetGenerationError itself tells nothing
        raise DataError(
            f"hf:{repo} could not be read: {type(cause).__name__}: {str(cause)[:300]}; {_LAYOUT}"
        ) from exc
    except OSError as exc:  # ConnectionError, and FileNotFoundError for data files
        raise DownloadError(
            f"hf:{repo} could not be fetched: {str(exc)[:300]}; check the connection, or name a "
            "local folder"
        ) from exc


def _location(repo: str) -> str:
    """Return the path of a local folder, else the name of a repository on the hub."""
    folder = expanded(repo)
    return str(folder) if os.path.isdir(folder) else repo
