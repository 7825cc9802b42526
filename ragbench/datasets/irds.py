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
    """Return the documents, queries and judgements of an id.

    An id that has judgements ("beir/nfcorpus/dev", "vaswani") is taken as it is when `split` is
    "test" or its last part; otherwise `/<split>` is appended. `Dataset.split` is the last part of
    the id that was taken.

    A document's text is its `default_text()` without its title. Users of these sets cannot correct
    them, so two flaws are one warning each instead of an error: a document that is there twice (the
    first counts), and a pair that is judged differently, as sub-topics are (the highest grade
    counts).

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
    full_id = _resolve(registry, dataset_id, split)
    source = registry[full_id]
    name = f"irds:{full_id}"

    seen = set()
    flaws: Flaws = defaultdict(list)

    def documents() -> Iterator[Document]:
        """Yield the first document of each id; note repeated ids in `flaws`."""
        for doc in _rows(name, "documents", source.docs_iter):
            title, text = _title_and_text(doc)
            with located(name):
                item = document({"_id": doc.doc_id, "title": title, "text": text})
            if item.doc_id in seen:
                flaws["documents are there more than once; the first counts"].append(item.doc_id)
            else:
                seen.add(item.doc_id)
                yield item

    corpus = mapped(documents())

    cases: dict[str, Case] = {}
    for query in _rows(name, "queries", source.queries_iter):
        with located(name):
            question = case({"_id": query.query_id, "text": _query_text(query)})
        cases.setdefault(question.query_id, question)

    qrels: Qrels = {}
    judged_differently = (
        "queries have documents that are judged differently; the highest grade counts"
    )
    for row in _rows(name, "judgements", source.qrels_iter):
        query_id, doc_id = str(row.query_id), str(row.doc_id)
        with located(name):
            value = grade(row.relevance)
        judged = qrels.setdefault(query_id, {})
        if judged.setdefault(doc_id, value) != value:
            flaws[judged_differently].append(query_id)
            judged[doc_id] = max(judged[doc_id], value)

    warn_all(name, flaws)
    last_part = full_id.rsplit("/", 1)[1] if "/" in full_id else split
    return assemble(name, last_part, corpus, cases, qrels, source=name)


def _resolve(registry: Any, dataset_id: str, split: str) -> str:
    """Return the id that has judgements for this split.

    Raises:
        ConfigError: no id has them; the message names similar ids that do.
    """
    candidates = [f"{dataset_id}/{split}"]
    if split == "test" or dataset_id.endswith(f"/{split}"):
        candidates.insert(0, dataset_id)
    for candidate in candidates:
        if _is_complete(registry, candidate):
            return candidate
    below = [other for other in registry if other.startswith(f"{dataset_id}/")]
    usable = [other for other in below if _is_complete(registry, other)]
    if _is_complete(registry, dataset_id):
        usable.insert(0, f"{dataset_id} (with the default split)")
    try:
        registry[dataset_id]
    except KeyError as exc:
        hint = "`ir_datasets list` prints all"
        raise ConfigError(unknown("id of ir_datasets", dataset_id, registry, hint)) from exc
    advice = f"these do: {', '.join(usable[:10])}" if usable else "no id below it does either"
    raise ConfigError(
        f"irds:{dataset_id} has no documents, queries and judgements together for "
        f"split {split!r}; {advice}"
    )


def _is_complete(registry: Any, dataset_id: str) -> bool:
    """Return True for an id with documents, queries and judgements."""
    with suppress(KeyError):
        source = registry[dataset_id]  # some ids are made when they are first asked for
        return bool(source.has_docs() and source.has_queries() and source.has_qrels())
    return False


def _rows(name: str, what: str, rows: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """Yield the items of `rows()`; turn the many kinds of failure of ir_datasets into DownloadError
    and DataError.
    """
    try:
        yield from rows()
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
            f"the {what} of {name} could not be {verb}: {type(exc).__name__}: {str(exc)[:300]}; "
            "check the connection, or remove its files from the folder IR_DATASETS_HOME so that "
            "they are fetched again, or name a BEIR folder on disk"
        ) from exc


def _title_and_text(doc: Any) -> tuple[str, str]:
    """Return the title ("" without one), and the rest of the document's `default_text()`.

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
    if isinstance(text, str) and full_text in (text, f"{title} {text}"):
        return title, text
    if not isinstance(full_text, str):
        return title, ""
    if title and full_text.startswith(title):
        return title, full_text[len(title) :].lstrip()
    if full_text.startswith(" "):  # an empty title, a blank, the text
        full_text = full_text.lstrip()
    return "", full_text


def _query_text(query: Any) -> str:
    """Return the text of a query: `default_text()`, else its field `text` or `title`."""
    if hasattr(query, "default_text"):
        return str(query.default_text() or "")
    return str(getattr(query, "text", None) or getattr(query, "title", ""))
