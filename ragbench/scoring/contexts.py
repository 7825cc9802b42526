"""The texts that an answer was made from, wherever they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragbench.errors import DataError

if TYPE_CHECKING:
    from ragbench.types import Answer, Chunk


def context_texts(answers: Sequence[Answer], chunks: Sequence[Chunk] = ()) -> dict[str, list[str]]:
    """query_id -> the texts behind the answer's `contexts`, in their order.

    A text is taken from the answer's own `passages` where they hold its id, else from the chunk of that id. Where an
    answer lists no `contexts`, all its passages count, in their order. Nothing retrieved gives an empty list.

    >>> from ragbench.types import Answer, Chunk, Passage
    >>> own = Answer("q1", "It opened in 1889.", passages=(Passage("p7", "Opened in 1889."),))
    >>> shared = Answer("q2", "In Paris.", contexts=("tower#1", "tower#0"))
    >>> chunks = [Chunk("tower#0", "tower", 0, 9, "The tower"), Chunk("tower#1", "tower", 10, 21, "is in Paris")]
    >>> context_texts([own, shared], chunks)
    {'q1': ['Opened in 1889.'], 'q2': ['is in Paris', 'The tower']}

    Raises:
        DataError: a context is neither among the passages nor among the chunks, or there are two answers to one query.
    """
    text_of = {chunk.chunk_id: chunk.text for chunk in chunks}
    texts: dict[str, list[str]] = {}
    for answer in answers:
        if answer.query_id in texts:
            raise DataError(f"two answers to query {answer.query_id!r}; score repeated runs one by one")
        own = {passage.passage_id: passage.text for passage in answer.passages}
        ids = answer.contexts or tuple(passage.passage_id for passage in answer.passages)
        for context_id in ids:
            if context_id not in own and context_id not in text_of:
                given = f"{len(text_of)} chunks" if text_of else "no chunks"
                raise DataError(
                    f"the answer to {answer.query_id!r} had the context {context_id!r}, whose text is not there "
                    f"({len(own)} passages of its own, {given} given); was it made from another chunking? Pass "
                    "the chunks that it was made from"
                )
        texts[answer.query_id] = [own[i] if i in own else text_of[i] for i in ids]
    return texts
