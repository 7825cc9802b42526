"""Chunks of a corpus that is read from the disk: numbers in memory, texts cut when they are asked
for.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ragbench.types import Chunk

if TYPE_CHECKING:
    from ragbench.datasets.large import LargeCorpus

T = TypeVar("T")
_ID = re.compile(r"(.*)#(\d+-\d+)", re.DOTALL)  # doc_id#start-end


class LargeChunks(Sequence[Chunk]):
    """The chunks of a `LargeCorpus`: three numbers of each chunk (document, start, end) are in memory,
    its text is read from the file.

    `ids` are the chunk ids, `places` is chunk_id -> number in this sequence, `by_id` chunk_id ->
    `Chunk`; none of them is in memory.
    """

    def __init__(self, corpus: LargeCorpus) -> None:
        self._corpus = corpus
        self._text_of: Callable[[Chunk], str] | None = None
        self._documents, self._starts, self._ends = array("q"), array("q"), array("q")
        self.ids = _Ids(self)
        self.places: Mapping[str, int] = _ByChunkId(self, int)
        self.by_id: Mapping[str, Chunk] = _ByChunkId(self, self.__getitem__)

    def with_texts(self, text_of: Callable[[Chunk], str]) -> LargeChunks:
        """Return the same chunks, each with the text that `text_of` returns for it."""
        other = copy(self)
        other._text_of = text_of
        return other

    def extend(self, pieces: Iterable[Chunk]) -> None:
        """Add the chunks of the next document, all of which have its doc_id."""
        document_number = -1  # not yet looked up, as there may be no chunk
        for piece in pieces:
            if document_number < 0:
                document_number = self._corpus.number(piece.doc_id)
            self._documents.append(document_number)
            self._starts.append(piece.start)
            self._ends.append(piece.end)

    def __repr__(self) -> str:
        return f"LargeChunks({len(self):,} chunks)"

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[Chunk]:
        return self._chunks_at(range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        numbers = range(len(self))[index]
        if isinstance(index, slice):
            return [*self._chunks_at(numbers)]
        return next(self._chunks_at([numbers]))

    def _chunks_at(self, numbers: Iterable[int]) -> Iterator[Chunk]:
        """Yield the chunks with these numbers, in this order; their texts are cut from their documents, or
        made of these cuts by the function of `with_texts`. A document is read from the disk once for
        successive chunks of it.
        """
        document_number = -1  # of the document that was read last
        doc_id = ""
        full_text = ""
        for i in numbers:
            if self._documents[i] != document_number:
                document_number = self._documents[i]
                document = self._corpus.at(document_number)
                doc_id = document.doc_id
                full_text = document.full_text
            chunk = Chunk.cut(doc_id, full_text, self._starts[i], self._ends[i])
            if self._text_of is not None:
                chunk = replace(chunk, text=self._text_of(chunk))
            yield chunk

    def of_document(self, doc_id: str) -> list[Chunk]:
        """Return the chunks of a document."""
        return [*self._chunks_at(self._numbers_of(doc_id))]

    def _numbers_of(self, doc_id: str) -> range:
        """Return the numbers of the chunks of a document, which follow each other."""
        document_number = self._corpus.number(doc_id)
        first = bisect_left(self._documents, document_number)
        return range(first, bisect_right(self._documents, document_number))

    def number(self, chunk_id: object) -> int:
        """Return the number of a chunk in this sequence; raises KeyError if no chunk has that id."""
        match = _ID.fullmatch(chunk_id) if isinstance(chunk_id, str) else None
        if match:
            doc_id, start_and_end = match.groups()
            for i in self._numbers_of(doc_id):
                if f"{self._starts[i]}-{self._ends[i]}" == start_and_end:
                    return i
        raise KeyError(chunk_id)

    def id_at(self, i: int) -> str:
        """Return the id of the chunk of a number, such as "doc_id#0-20"."""
        doc_id = self._corpus.at(self._documents[i]).doc_id
        return f"{doc_id}#{self._starts[i]}-{self._ends[i]}"


class _Ids(Sequence[str]):
    def __init__(self, chunks: LargeChunks) -> None:
        self._chunks = chunks

    def __len__(self) -> int:
        return len(self._chunks)

    def __getitem__(self, index: Any) -> Any:
        return self._chunks.id_at(range(len(self))[index])


class _ByChunkId(Mapping[str, T]):
    def __init__(self, chunks: LargeChunks, value_at: Callable[[int], T]) -> None:
        self._chunks, self._value_at = chunks, value_at

    def __len__(self) -> int:
        return len(self._chunks)

    def __iter__(self) -> Iterator[str]:
        return iter(self._chunks.ids)

    def __getitem__(self, chunk_id: str) -> T:
        return self._value_at(self._chunks.number(chunk_id))
