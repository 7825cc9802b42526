"""Sets of ir_datasets by their id. The package downloads its files and keeps them in
`IR_DATASETS_HOME`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from ragbench.datasets.jsonl import located
from ragbench.datasets.large import mapped
from ragbench.datasets.raw_records import Flaws, assemble, case, document, warn_all
from ragbench.errors import ConfigError, DataError, DownloadError, RagbenchError, unknown
from ragbench.plain_records import grade
from ragbench.types import Case, Dataset, Document, Qrels


def load_irds(dataset_id: str, split: str = "test") -> Dataset:
    """Return the dataset that the package ir_datasets has under an id: documents, queries, judgements.

    An id that has judgements ("beir/nfcorpus/dev", "vaswani") is used unchanged if `split` is "test"
    or the last part of the id; otherwise `/<split>` is appended. `Dataset.split` is the last part of
    the id that was used.

    A document's text is its `default_text()` without its title. Users cannot correct these sets, so
    two flaws are warnings instead of errors: a document that is there twice (the first counts), and a
    pair of query and document with different grades (the highest counts).

    Raises:
        ConfigError: ir_datasets has no such id, or no judgements for the split.
        DownloadError, DataError: the set could not be fetched, or read.
    """
    try:
        import ir_datasets  # makes its folder when imported
    except OSError as exc:
        raise ConfigError(
            f"ir_datasets could not make its folder: {exc}; set IR_DATASETS_HOME to one"
        ) from exc

    registry = ir_datasets.registry
    full_id = _find_complete_id(registry, dataset_id, split)  # `dataset_id`, or with `/<split>`
    source = registry[full_id]
    name = f"irds:{full_id}"
    flaws: Flaws = defaultdict(list)  # kind of flaw -> ids that have it; filled by the next calls
    corpus = mapped(_documents(source, name, flaws))
    cases = _cases(source, name)
    qrels = _qrels(source, name, flaws)
    warn_all(name, flaws)
    # an id without a part for the split, such as "vaswani", was found with the default, "test"
    last_part = full_id.rsplit("/", 1)[1] if "/" in full_id else split
    return assemble(name, last_part, corpus, cases, qrels, source=name)


def _documents(source: Any, name: str, flaws: Flaws) -> Iterator[Document]:
    """Yield the first document of each id; note repeated ids in `flaws`."""
    known_ids = set()
    for doc in _iterate(source.docs_iter, f"documents of {name}"):
        title, text = _title_and_text(doc)
        with located(name):
            item = document({"_id": doc.doc_id, "title": title, "text": text})
        if item.doc_id in known_ids:
            flaws["documents are there more than once; the first counts"].append(item.doc_id)
        else:
            known_ids.add(item.doc_id)
            yield item


def _cases(source: Any, name: str) -> dict[str, Case]:
    """Return query id -> the first query of this id."""
    cases: dict[str, Case] = {}
    for query in _iterate(source.queries_iter, f"queries of {name}"):
        with located(name):
            item = case({"_id": query.query_id, "text": _query_text(query)})
        cases.setdefault(item.query_id, item)
    return cases


def _qrels(source: Any, name: str, flaws: Flaws) -> Qrels:
    """Return query id -> document id -> its highest grade; note queries with different grades of one
    document in `flaws`.
    """
    flaw = "queries have documents that are judged differently; the highest grade counts"
    qrels: Qrels = {}
    for row in _iterate(source.qrels_iter, f"judgements of {name}"):
        query_id, doc_id = str(row.query_id), str(row.doc_id)
        with located(name):
            new_grade = grade(row.relevance)
        judged = qrels.setdefault(query_id, {})
        # the grade of an earlier row; the new one, which is put in, if this row is the first
        earlier_grade = judged.setdefault(doc_id, new_grade)
        if earlier_grade != new_grade:
            flaws[flaw].append(query_id)
            judged[doc_id] = max(earlier_grade, new_grade)
    return qrels


def _find_complete_id(registry: Any, dataset_id: str, split: str) -> str:
    """Return the id of ir_datasets for a set and its split, such as "beir/nfcorpus/dev" for the set
    "beir/nfcorpus" and the split "dev".

    An id is complete if it has documents, queries and judgements. A complete `dataset_id` is returned
    unchanged in two cases: it ends in the split, or the split is the default, "test" (sets such as
    "vaswani" have no splits). Otherwise `<dataset_id>/<split>` is returned.

    Raises:
        ConfigError: neither `dataset_id` nor `<dataset_id>/<split>` is complete.
    """
    # the default split also stands for "no split named"
    needs_no_split = split == "test" or dataset_id.endswith(f"/{split}")
    if needs_no_split and _is_complete(registry, dataset_id):
        return dataset_id
    with_split = f"{dataset_id}/{split}"
    if _is_complete(registry, with_split):
        return with_split
    try:
        registry[dataset_id]
    except KeyError as exc:
        hint = "`ir_datasets list` prints all"
        raise ConfigError(unknown("id of ir_datasets", dataset_id, registry, hint)) from exc
    raise ConfigError(
        f"irds:{dataset_id} has no documents, queries and judgements together for "
        f"split {split!r}; {_complete_ids_below(registry, dataset_id)}"
    )


def _complete_ids_below(registry: Any, dataset_id: str) -> str:
    """List the complete ids that begin with `dataset_id`, as the end of an error message."""
    longer_ids = [other for other in registry if other.startswith(f"{dataset_id}/")]
    usable = [other for other in longer_ids if _is_complete(registry, other)]
    if _is_complete(registry, dataset_id):
        usable.insert(0, f"{dataset_id} (with the default split)")
    return f"these do: {', '.join(usable[:10])}" if usable else "no id below it does either"


def _iterate(iterate: Callable[[], Iterable[Any]], what: str) -> Iterator[Any]:
    """Yield the items of `iterate()`; turn the many kinds of failure of ir_datasets into DownloadError
    and DataError. `what` names the items, such as "documents of irds:vaswani".
    """
    try:
        yield from iterate()
    except Exception as exc:
        # ir_datasets raises OSError for a failed request and a wrong checksum, and a RuntimeError
        # with two arguments if every source of a file failed
        has_tried_all_sources = isinstance(exc, RuntimeError) and len(exc.args) == 2
        error: type[RagbenchError] = DataError
        verb = "read"
        if has_tried_all_sources or isinstance(exc, OSError | EOFError):
            error = DownloadError
            verb = "fetched"
        raise error(
            f"the {what} could not be {verb}: {type(exc).__name__}: {str(exc)[:300]}; "
            "check the connection, or remove its files from the folder IR_DATASETS_HOME so that "
            "they are fetched again, or name a BEIR folder on disk"
        ) from exc


def _is_complete(registry: Any, dataset_id: str) -> bool:
    """Return True for an id with documents, queries and judgements."""
    with suppress(KeyError):
        source = registry[dataset_id]  # some ids are made when they are first asked for
        return bool(source.has_docs() and source.has_queries() and source.has_qrels())
    return False


def _title_and_text(doc: Any) -> tuple[str, str]:
    """Split a document of ir_datasets into its title and its text.

    The whole text is `default_text()`, which ir_datasets searches. These cases are tried in turn:

    - there is no whole text: the title, and the text "";
    - it is the field "text", or the title and this field: the title, and the field;
    - it begins with the title: the title, and the rest;
    - else, or without a title: "", and the whole text.

    >>> from typing import NamedTuple
    >>> class Page(NamedTuple):
    ...     doc_id: str
    ...     title: str
    ...     body: str
    ...     def default_text(self): return f"{self.title} {self.body}"
    >>> _title_and_text(Page("d1", "Head", "Body."))
    ('Head', 'Body.')
    """
    title = getattr(doc, "title", None)
    if not isinstance(title, str):
        title = ""
    text = getattr(doc, "text", None)
    full_text = doc.default_text() if hasattr(doc, "default_text") else text
    if not isinstance(full_text, str):
        return title, ""
    if isinstance(text, str) and full_text in (text, f"{title} {text}"):
        return title, text
    if title and full_text.startswith(title):
        return title, full_text.removeprefix(title).lstrip()
    # an empty title leaves a blank at the beginning
    if full_text.startswith(" "):
        full_text = full_text.lstrip()
    return "", full_text


def _query_text(query: Any) -> str:
    """Return the text of a query: `default_text()`, else its field `text` or `title`."""
    if hasattr(query, "default_text"):
        return str(query.default_text() or "")
    return str(getattr(query, "text", None) or getattr(query, "title", ""))
