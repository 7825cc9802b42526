"""The indexed text of a chunk: its text, or title, headings or a model's sentences before it, with
the prompt for these. The answer still gets the chunk itself.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ragbench.errors import ConfigError
from ragbench.llms.fences import fence, fence_code
from ragbench.retrieval.large_chunks import LargeChunks
from ragbench.retrieval.steps.model import ask_model, reply_text
from ragbench.retrieval.steps.values import read_step
from ragbench.testsets.outline import Line, find_headings, lines_of
from ragbench.types import Chunk, Completion, Document, LLMLike

# Origin: a context for each chunk that a model writes from the whole document, as in Anthropic's
# "Introducing Contextual Retrieval" (2024); the wording is ours.
SITUATE = """Below are a document and one passage of it. Write one or two sentences that tell a search what the passage
is about: name the document's subject, and whatever the passage refers to without naming it. Write in the language of
the document, and reply with these sentences alone.

Document:
{document}

Passage:
{passage}

Context of the passage:"""

_SHOWN = 20_000  # characters of a document that the model reads
_LONGEST = 600  # characters of a reply that are indexed
_SIGNS = re.compile(r"^\s*#{1,6}\s+|\s+#+\s*$")


def index_texts(
    chunks: Sequence[Chunk],
    corpus: Mapping[str, Document],
    index_text: str | Callable[..., Any],
    llm: LLMLike = "",
) -> tuple[Sequence[Chunk], list[Completion]]:
    """Return the chunks with the indexed texts in place of their own, and the replies of a model
    that wrote for them ([] without one).

    The indexed text of a chunk is a beginning, an empty line and the chunk's text. The beginning
    depends on `index_text`:

    - "title": the title of its document, or else its first heading;
    - "headings": that title, if there is one, and the headings above the chunk, from the highest
      level down, with " > " between them. A heading is above a chunk if it ends before the chunk
      begins and no heading of its level or a higher one comes between, nor begins the chunk;
    - "summary:<llm>": one or two sentences by a language model, which reads the document (of one
      with more than 20,000 characters those around the chunk);
    - a function of a chunk and its document returns the whole indexed text itself.

    A title or heading that the chunk itself holds is left out. A chunk without a beginning keeps its
    text. Ids and ends of the chunks stay.

    >>> text = "# Rails\\n\\nIt opened in 1881.\\n\\n## Gauge\\n\\nIt is narrow."
    >>> chunks = [Chunk.cut("d", text, 9, 27), Chunk.cut("d", text, 39, 52)]
    >>> [chunk.text for chunk in index_texts(chunks, {"d": Document("d", text)}, "headings")[0]]
    ['Rails\\n\\nIt opened in 1881.', 'Rails > Gauge\\n\\nIt is narrow.']
    """
    step = read_step("index_text", index_text)
    if step.name == "summary":
        if isinstance(chunks, LargeChunks):
            raise ConfigError(
                f"index_text is {index_text!r}, one request for each of {len(chunks):,} chunks of a "
                "corpus that is read from the disk; expected title, headings or a smaller corpus"
            )
        return _with_summaries(chunks, corpus, llm)
    if step.function:
        text_of: Callable[[Chunk], str] = _UserTexts(step.function, corpus)
    else:
        text_of = _TextsBelowHeadings(corpus, with_headings=step.name == "headings")
    if isinstance(chunks, LargeChunks):  # the texts are made when they are asked for
        return chunks.with_texts(text_of), []
    return [replace(chunk, text=text_of(chunk)) for chunk in chunks], []


def _with_summaries(
    chunks: Sequence[Chunk], corpus: Mapping[str, Document], llm: LLMLike
) -> tuple[list[Chunk], list[Completion]]:
    """Return the chunks, each with a language model's sentences on it before its text, and the
    model's replies.
    """
    prompts = [_situating_prompt(chunk, corpus[chunk.doc_id]) for chunk in chunks]
    replies = ask_model(llm, prompts, "contexts of chunks")
    indexed = []
    for chunk, reply in zip(chunks, replies, strict=True):
        context = reply_text(reply, _LONGEST)
        indexed.append(replace(chunk, text=_with_prefix(context, chunk)))
    return indexed, replies


class _UserTexts:
    """Returns the indexed text of a chunk by a user's function."""

    def __init__(self, function: Callable[..., Any], corpus: Mapping[str, Document]) -> None:
        self._function, self._corpus = function, corpus

    def __call__(self, chunk: Chunk) -> str:
        """Return the function's text for a chunk; ConfigError if it is not a text."""
        text = self._function(chunk, self._corpus[chunk.doc_id])
        if isinstance(text, str):
            return text
        raise ConfigError(f"index_text returned {text!r:.80}; expected the text that is indexed")


class _TextsBelowHeadings:
    """Returns the indexed text of a chunk: the title or headings of its document, then its text.

    The headings of one document at a time are in memory, as the chunks of a document come one after
    the other.
    """

    def __init__(self, corpus: Mapping[str, Document], *, with_headings: bool) -> None:
        self._corpus, self._with_headings = corpus, with_headings
        self._doc_id: str | None = None  # the document of `_headings`
        self._headings: list[_Heading] = []

    def __call__(self, chunk: Chunk) -> str:
        """Return the text that is indexed for a chunk: the title or headings, then the chunk's text."""
        document = self._corpus[chunk.doc_id]
        if chunk.doc_id != self._doc_id:
            self._doc_id = chunk.doc_id
            self._headings = [*_headings(document.full_text)]
        above = []
        if document.title:  # the full text begins with it
            above.append(_Heading(0, len(document.title), 0, document.title))
        if self._with_headings:
            above += _headings_above(self._headings, chunk)
        elif not above:  # a document without a title: its first heading takes the place
            above = self._headings[:1]
        # a title or heading that ends later is part of the chunk's own text
        texts = [heading.text for heading in above if heading.end <= chunk.start]
        # without repetitions: a heading often repeats the title
        distinct_texts = dict.fromkeys(texts)
        return _with_prefix(" > ".join(distinct_texts), chunk)


class _Heading(NamedTuple):
    """A heading from character `start` to `end` of a document. Level 1 is the highest, as in Markdown; 0
    is the title of the document.
    """

    start: int
    end: int
    level: int
    text: str


def _headings(text: str) -> Iterator[_Heading]:
    """Yield the headings of a text; `start` and `end` are characters of it."""
    lines = lines_of(text)
    for first, last, level in find_headings(lines):
        title = _title_in(lines[first : last + 1])
        yield _Heading(lines[first].start, lines[last].end, level, title)


def _title_in(lines: Sequence[Line]) -> str:
    """Return the title in the lines of a heading, without its signs; "" if they hold signs alone."""
    titles = [line.text for line in lines if any(map(str.isalnum, line.text))]
    return _SIGNS.sub("", titles[0]).strip() if titles else ""


def _headings_above(headings: Sequence[_Heading], chunk: Chunk) -> list[_Heading]:
    """Return the headings of the sections that a chunk begins in, the highest level first."""
    above: list[_Heading] = []
    for heading in headings:
        if heading.start > chunk.start:
            break
        # a heading ends the sections of its level and of lower ones
        above = [each for each in above if each.level < heading.level]
        if heading.end <= chunk.start:
            above.append(heading)
    return [heading for heading in above if heading.text]


def _with_prefix(prefix: str, chunk: Chunk) -> str:
    """Return the text of a chunk after a prefix and an empty line; the text alone if it is ""."""
    return f"{prefix}\n\n{chunk.text}" if prefix else chunk.text


def _situating_prompt(chunk: Chunk, document: Document) -> str:
    """Return the request for a sentence on the subject of a chunk, with its document, or the
    part of a long one around the chunk.
    """
    shown = _part_around(chunk, document.full_text)
    # a mark that is in neither text, so that no text can end its own fence
    code = fence_code([shown, chunk.text])
    return SITUATE.format(
        document=fence("document", shown, code), passage=fence("passage", chunk.text, code)
    )


def _part_around(chunk: Chunk, text: str) -> str:
    """Return the 20,000 characters of a document around the middle of a chunk; all of a shorter one."""
    centred_start = (chunk.start + chunk.end - _SHOWN) // 2
    last_start = len(text) - _SHOWN
    # near an end of the document the part is not centred, but as long
    start = max(0, min(centred_start, last_start))
    return text[start : start + _SHOWN]
