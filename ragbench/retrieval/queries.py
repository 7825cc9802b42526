"""The questions of a search, in the forms that users pass to `rb.retrieve`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ragbench.errors import DataError, abridged
from ragbench.types import Dataset

Queries = Mapping[str, str] | Dataset | Sequence[str]
"""Questions to search with: by id, from a dataset, or texts, which serve as their own ids."""


def as_queries(queries: Any) -> Mapping[str, str]:
    """Return query_id -> text, from a `Dataset`, a mapping, or texts, which serve as their own ids.

    >>> as_queries("Who naps?"), as_queries({"q1": "Who naps?"})
    ({'Who naps?': 'Who naps?'}, {'q1': 'Who naps?'})

    Raises:
        DataError: something has another form.
    """
    if isinstance(queries, Dataset):
        return queries.queries
    is_single = isinstance(queries, str) or not isinstance(queries, Iterable)
    texts = [queries] if is_single else queries
    named: Mapping[str, str] = texts if isinstance(texts, Mapping) else {str(t): t for t in texts}
    for text in named.values():
        if not isinstance(text, str):
            raise DataError(
                f"a query is {abridged(repr(text), 60)}; expected {{query_id: text}}, texts, or a Dataset"
            )
    return named
