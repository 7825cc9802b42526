"""Expansion: the text that is handed over for a retrieved chunk, such as its neighbours, its
section or its document.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from ragbench.errors import ConfigError
from ragbench.groups import grouped
from ragbench.retrieval.large_chunks import LargeChunks
from ragbench.retrieval.steps.values import read_step
from ragbench.testsets.outline import find_headings, lines_of
from ragbench.text import token_offsets, token_ranges, trim
from ragbench.types import Chunk, Document, Run, chunks_by_id

Range = tuple[int, int]
"""First character and one after the last."""


class Expansion:
    """Rankings of chunks, turned into rankings of passages: pieces of the same documents, under ids
    of the same form, that hold the chunks.

    With the chunks of a document in their order, the passage of a chunk is, `expand` being

    - "window:N": from the start of the chunk that is N before it to the end of the chunk that is N
      after it; fewer at the ends of a document;
    - "parent": the section that holds it: from a heading of any level (or the start of the document)
      up to the next one. A chunk that lies in several sections has all of them;
    - "parent:N": the group of neighbouring chunks that holds it. Groups are made from the first
      chunk on: the next chunk joins as long as the passage from the first one's start to its own end
      has at most N tokens;
    - "document": the whole document;
    - "merge": itself, but of the best `k` chunks of a question those that are neighbours are joined;
    - a function of a chunk and its document: the first character and the one after the last.

    White space at the ends is left out. A passage stands where the best of its chunks stood, and
    one that lies within a passage before it is left out; scores are 1 / rank. Text in two passages
    that overlap is handed over twice. Tokens are counted in the document, as by the measures at a
    budget.

    >>> text = "One. Two. Three. Four."
    >>> chunks = [Chunk.cut("d", text, *ends) for ends in ((0, 4), (5, 9), (10, 16), (17, 22))]
    >>> expansion = Expansion(chunks, {"d": Document("d", text)}, "window:1", k=5, tokenizer="minilm")
    >>> expansion.run({"q": {"d#17-22": 3.0, "d#5-9": 2.0, "d#10-16": 1.0}})
    {'q': {'d#10-22': 1.0, 'd#0-16': 0.5, 'd#5-22': 0.3333333333333333}}
    >>> joined = Expansion(chunks, {"d": Document("d", text)}, "merge", k=2, tokenizer="minilm")
    >>> joined.run({"q": {"d#17-22": 3.0, "d#10-16": 2.0, "d#0-4": 1.0}})
    {'q': {'d#10-22': 1.0, 'd#0-4': 0.5}}
    """

    def __init__(
        self,
        chunks: Sequence[Chunk],
        corpus: Mapping[str, Document],
        expand: str | Callable[..., Any],
        *,
        k: int,
        tokenizer: str,
    ) -> None:
        """Prepare the step. (A passage is cut from its document when it is first asked for.)

        Args:
            chunks: all chunks of the corpus.
            corpus: doc_id -> document, whose text the passages are cut from.
            expand: "window:N", "parent", "parent:N", "document", "merge" or a function.
            k: number of best chunks of a question among which "merge" joins neighbours.
            tokenizer: name of the tokenizer that counts the tokens of "parent:N".
        """
        self._step = read_step("expand", expand)
        self._corpus, self._k, self._tokenizer = corpus, k, tokenizer
        self._by_id = chunks_by_id(chunks)
        self._of_document: Callable[[str], Sequence[Chunk]]  # doc_id -> its chunks
        if isinstance(chunks, LargeChunks):  # on the disk: only the chunks of one document are read
            self._of_document = chunks.of_document
        else:
            by_document = grouped(chunks, lambda chunk: chunk.doc_id)
            self._of_document = lambda doc_id: by_document.get(doc_id, ())
        # doc_id -> chunk_id -> its passage, for the documents that were asked for so far
        self._passages: dict[str, dict[str, Chunk]] = {}
        # passage_id -> passage, for the passages that `run` returned so far
        self._handed_over: dict[str, Chunk] = {}
        self.joined: set[str] = set()
        """Ids of the passages that "merge" made of several chunks of a question."""

    def run(self, run: Run) -> Run:
        """Return the run with passages in place of chunks: query_id -> passage_id -> 1 / rank, best first.

        A passage that lies within a better one of the same question is left out.
        """
        expanded: Run = {}
        for query_id, scores in run.items():
            passages: list[Chunk] = []
            for passage in self._passages_best_first(
                [self._by_id[chunk_id] for chunk_id in scores]
            ):
                is_within_better_one = any(better.holds(passage) for better in passages)
                if not is_within_better_one:
                    passages.append(passage)
            expanded[query_id] = {}
            for rank, passage in enumerate(passages, start=1):
                expanded[query_id][passage.chunk_id] = 1 / rank
                self._handed_over[passage.chunk_id] = passage
        return expanded

    def passages(self, doc_ids: Iterable[str]) -> list[Chunk]:
        """Return all passages of these documents, then the passages handed over so far."""
        by_id: dict[str, Chunk] = {}
        for doc_id in doc_ids:
            by_id |= {passage.chunk_id: passage for passage in self._passages_of(doc_id).values()}
        return [*(by_id | self._handed_over).values()]

    def _passages_best_first(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Return the passages of the chunks of a question, best first."""
        if self._step.name == "merge":
            # chunks behind the best k are their own passages
            return [*self._merged(chunks[: self._k]), *chunks[self._k :]]
        return [self._passages_of(chunk.doc_id)[chunk.chunk_id] for chunk in chunks]

    def _merged(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Return the passages that found chunks give if neighbours in a document are joined, best first.

        `chunks` are the found chunks, best first. A passage has the rank of its best chunk. The id of a
        passage of several chunks is added to `joined`.
        """
        # neighbours of each document, without regard to their ranks
        groups: list[list[Chunk]] = []
        for doc_id, chunks_of_document in grouped(chunks, lambda chunk: chunk.doc_id).items():
            groups += self._neighbours(doc_id, {chunk.chunk_id for chunk in chunks_of_document})
        rank = {chunk.chunk_id: number for number, chunk in enumerate(chunks)}
        groups.sort(key=lambda group: min(rank[chunk.chunk_id] for chunk in group))
        passages = []
        for group in groups:
            passage = self._cut(group[0].doc_id, *_range_of(group))
            passages.append(passage)
            if len(group) > 1:
                self.joined.add(passage.chunk_id)
        return passages

    def _neighbours(self, doc_id: str, found_ids: Collection[str]) -> list[list[Chunk]]:
        """Return the found chunks of a document in groups of neighbours: of chunks 1 to 5, of which 1, 2 and
        4 were found, the groups are [1, 2] and [4].
        """
        groups: list[list[Chunk]] = []
        follows_found_chunk = False
        for chunk in self._in_order(doc_id):
            is_found = chunk.chunk_id in found_ids
            if is_found and follows_found_chunk:
                groups[-1].append(chunk)
            elif is_found:
                groups.append([chunk])
            follows_found_chunk = is_found
        return groups

    def _passages_of(self, doc_id: str) -> Mapping[str, Chunk]:
        """Return chunk_id -> passage, for the chunks of one document."""
        if doc_id not in self._passages:
            chunks = self._in_order(doc_id)
            ranges = self._ranges(chunks, self._corpus[doc_id]) if chunks else []
            passages = {}
            for chunk, (start, end) in zip(chunks, ranges, strict=True):
                passages[chunk.chunk_id] = self._cut(doc_id, start, end)
            self._passages[doc_id] = passages
        return self._passages[doc_id]

    def _ranges(self, chunks: Sequence[Chunk], document: Document) -> list[Range]:
        """Return for each chunk of a document the range of characters (start, end) of the passage that
        takes its place. `chunks` are all chunks of the document, in its order.
        """
        text = document.full_text
        number = int(self._step.number)  # the N of "window:N" and "parent:N"; 0 without one
        match self._step.name:
            case "function":
                function: Any = self._step.function
                return [_checked_range(function(chunk, document), text) for chunk in chunks]
            case "document":
                return [(0, len(text))] * len(chunks)
            case "window":
                ranges = []
                for i in range(len(chunks)):
                    first = max(0, i - number)
                    last = i + number
                    ranges.append(_range_of(chunks[first : last + 1]))
                return ranges
            case "parent" if number:
                return _ranges_of_groups(chunks, text, number, self._tokenizer)
            case "parent":
                return _ranges_of_sections(chunks, text)
            case _:  # "merge", whose passages depend on the question
                return [(chunk.start, chunk.end) for chunk in chunks]

    def _in_order(self, doc_id: str) -> list[Chunk]:
        """Return the chunks of a document in the order of its text."""
        return sorted(self._of_document(doc_id), key=lambda chunk: (chunk.start, chunk.end))

    def _cut(self, doc_id: str, start: int, end: int) -> Chunk:
        """Return the passage of a range of characters, without white space at its ends."""
        text = self._corpus[doc_id].full_text
        return Chunk.cut(doc_id, text, *trim(text, start, end))


def _range_of(chunks: Sequence[Chunk]) -> Range:
    """Return the range from the start of the first chunk to the end of the one that ends last."""
    return chunks[0].start, max(chunk.end for chunk in chunks)


def _ranges_of_groups(chunks: Sequence[Chunk], text: str, size: int, tokenizer: str) -> list[Range]:
    """Return for each chunk of a document the range of characters of its group.

    Chunks in a row form a group as long as they have at most `size` tokens together. A chunk with more
    tokens is a group by itself.

    Args:
        chunks: all chunks of the document, in its order.
        text: the text of the document.
        size: maximum number of tokens in a group.
        tokenizer: the tokenizer that counts.
    """
    [offsets] = token_offsets([text], tokenizer)
    starts = [chunk.start for chunk in chunks]
    ends = [chunk.end for chunk in chunks]
    # for each chunk its first token, and the one after its last
    firsts, lasts = token_ranges(offsets, starts, ends)
    groups: list[list[Chunk]] = []
    first_token_of_group = 0  # of the last group in `groups`
    for chunk, first, last in zip(chunks, firsts.tolist(), lasts.tolist(), strict=True):
        if groups and last - first_token_of_group <= size:
            groups[-1].append(chunk)
        else:
            groups.append([chunk])
            first_token_of_group = first
    # all chunks of a group have its range
    ranges: list[Range] = []
    for group in groups:
        ranges += [_range_of(group)] * len(group)
    return ranges


def _ranges_of_sections(chunks: Sequence[Chunk], text: str) -> list[Range]:
    """Return for each chunk the range of the sections that it lies in: from the last border (a
    heading, or an end of the text) before it to the next one after it.
    """
    lines = lines_of(text)
    heading_starts = [lines[first_line].start for first_line, _, _ in find_headings(lines)]
    borders = sorted({0, *heading_starts, len(text)})
    ranges: list[Range] = []
    for chunk in chunks:
        # the last border that is not behind the start, then the first that is not before the end
        border_before = borders[bisect_right(borders, chunk.start) - 1]
        border_after = borders[bisect_left(borders, chunk.end)]
        ranges.append((border_before, border_after))
    return ranges


def _checked_range(returned: Any, text: str) -> Range:
    """Return the range that a user's function returned; ConfigError if it is not one of the text."""
    try:
        start, end = (int(edge) for edge in returned)
    except (TypeError, ValueError):
        start = end = -1  # refused below
    if 0 <= start < end <= len(text):
        return start, end
    raise ConfigError(
        f"expand returned {returned!r:.80} for a document of {len(text)} characters; expected the "
        "first character and the one after the last"
    )
