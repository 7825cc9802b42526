"""What may be found: documents that a user's function allows for a question, such as by its roles."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from ragbench.retrieval.queries import Queries, as_queries
from ragbench.retrieval.steps.values import read_step
from ragbench.types import Case, Chunk, Document, Retriever, Run


class Filter:
    """A function of a question (a `Case`, with its user_roles and metadata) and a document (a
    `Document`, with its metadata) that is true if the document may be found; asked once for each
    pair.
    """

    def __init__(
        self,
        function: str | Callable[..., Any],
        cases: Mapping[str, Case],
        corpus: Mapping[str, Document],
    ) -> None:
        """Take a user's function of a case and a document, or "package.module:attribute", which
        names one; "" allows every document. `cases` are by query_id, `corpus` by doc_id.
        """
        self._function = read_step("filter", function).function
        self._cases = cases
        self._corpus = corpus
        self._known: dict[tuple[str, str, str], bool] = {}

    def allows(self, query_id: str, text: str, doc_id: str) -> bool:
        """Return True if a document may be found for a question, of which `text` is the wording."""
        if self._function is None:
            return True
        key = (query_id, text, doc_id)
        if key not in self._known:
            case = replace(self._case_of(query_id, text), text=text)
            self._known[key] = bool(self._function(case, self._corpus[doc_id]))
        return self._known[key]

    def _case_of(self, query_id: str, text: str) -> Case:
        """Return the case of a question: of "q1~typos", which an intervention made of "q1", the one of
        "q1". A question without a case has a new one.
        """
        if query_id in self._cases:
            return self._cases[query_id]
        original_id = query_id.rpartition("~")[0]
        return self._cases.get(original_id, Case(query_id, text))


class FilteredRetriever:
    """A retriever whose searches return the `k` best of the allowed chunks.

    It is searched deeper, four times each round, until k of them are found or nothing more matches:
    the same chunks as in an index of the allowed chunks alone, but with the scores of the whole
    index (BM25 counts words in all chunks).
    """

    def __init__(
        self,
        retriever: Retriever,
        by_id: Mapping[str, Chunk],
        allows: Callable[[str, str], bool],
    ) -> None:
        """Search with `retriever`, and keep the chunks of documents for which `allows(query_id,
        doc_id)` is True; `by_id` has all chunks.
        """
        self._retriever = retriever
        self._by_id = by_id
        self._allows = allows

    def search(self, queries: Queries, k: int) -> Run:
        """Return for each query the `k` best chunks that are allowed, best first.

        If fewer than `k` of the chunks that were found are allowed, the query is searched again, four
        times as deep, until there are `k` or the search finds nothing more.
        """
        pending = dict(as_queries(queries))  # queries that are searched deeper
        best_chunks: Run = {query_id: {} for query_id in pending}
        n_chunks = len(self._by_id)
        depth = k
        while pending:
            run = self._retriever.search(pending, depth)
            for query_id in list(pending):
                ranking = run[query_id]
                allowed = {}
                for chunk_id, score in ranking.items():
                    if self._allows(query_id, self._by_id[chunk_id].doc_id):
                        allowed[chunk_id] = score
                best_chunks[query_id] = dict(islice(allowed.items(), k))
                is_exhausted = len(ranking) < depth or depth >= n_chunks
                if len(allowed) >= k or is_exhausted:
                    del pending[query_id]
            depth = min(4 * depth, n_chunks)
        return best_chunks
