"""Cut the documents of a dataset into chunks: the chunkers by name with the borders that each
prefers, size and overlap, a user's chunker; `boundaries` finds the borders.

All chunkers share one plan. The tokenizer's offsets define the smallest pieces and the size of all
pieces; a chunker is the list of borders at which it would rather cut, strongest first::

    fixed       any token
    sentence    sentences, words, tokens
    recursive   paragraphs, lines, sentences, words, tokens
    markdown    headings (level 1, level 2, ...), then as recursive; a heading stays with the text below it
    semantic    the sentence border at which the subject changes most, then words, tokens
    document    nowhere: one chunk per document, of any size

A piece that is still too long is cut at the strongest kind of border in it; neighbouring pieces are
joined again as long as they fit. Since one plan places every border, a difference between two
chunkers is a difference between their borders, not between two libraries' ideas of size and
overlap. (chonkie's chunkers were tried in this place: its recursive chunker returns decoded tokens
in place of a text without spaces, its sentence chunker passes the size limit.)

What holds for every chunk of every document:

- `chunk.text == document.full_text[chunk.start:chunk.end]`, without white space at its ends;
- it has at most `size` tokens of the named tokenizer, counted in the tokenised document; only a
  single character that takes more than `size` tokens by itself (the bytes of an emoji) is larger;
- the chunks of a document, in order, leave out nothing but white space. An empty document has no
  chunk.
"""

import inspect
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any, cast

import numpy as np

from ragbench.array_types import FloatArray
from ragbench.datasets import check_documents
from ragbench.errors import ConfigError, DataWarning, unknown, warn_user
from ragbench.extension import FORM, imported, is_import, object_name
from ragbench.hints.calls import explaining_calls
from ragbench.language import detect_language
from ragbench.retrieval.boundaries import Borders, Window, extend, split, split_weakest_first
from ragbench.retrieval.embedders import load_embedder, warn_of_language
from ragbench.retrieval.large_chunks import LargeChunks
from ragbench.text import Offsets, in_groups, load_tokenizer, sentence_spans, token_offsets, trim
from ragbench.types import Chunk, Corpus, Dataset, Document, Embedder, EmbedderLike, as_documents

CHUNKERS = ("document", "fixed", "markdown", "recursive", "semantic", "sentence")

_RECURSIVE = ("paragraphs", "lines", "sentences", "words", "tokens")
_KINDS = {"sentence": _RECURSIVE[2:], "recursive": _RECURSIVE, "markdown": _RECURSIVE}
"""Kinds of borders, strongest first; of "fixed" tokens alone."""

# From here on a chunking leaves the corpus as it is, and comparing two of them compares nothing.
_SHORT_SHARE = 0.9
_SHORT_LEAST_DOCUMENTS = 20


@explaining_calls(max_tokens="chunk_size", strategy="chunker", splitter="chunker")
def chunk(
    dataset: Dataset | Corpus,
    chunker: str | Callable[..., Any] = "recursive",
    *,
    chunk_size: int = 256,
    chunk_overlap: int = 0,
    tokenizer: str = "minilm",
    embedder: EmbedderLike = "wordllama",
) -> list[Chunk]:
    """Cut every document of the corpus with the chunker of that name (see the top of this module).

    `dataset` is a `Dataset`, or texts alone: {doc_id: text}, a list of texts, a corpus as
    `Dataset.from_dicts` takes.

    A chunker of your own is a function from a document's text to its pieces, texts as they are in
    it or pairs (start, end) of characters; or "package.module:attribute", which names one. If it
    has parameters `chunk_size` and `chunk_overlap`, it gets them as keywords; `tokenizer` and
    `embedder` do not concern it.

    `chunk_size` and `chunk_overlap` are in tokens of `tokenizer`, without special tokens. With an
    overlap, a chunk reaches into the next one by at most that many tokens: exactly that many for
    "fixed", else up to the last sentence end within them, if there is one; "markdown" does not
    continue past a heading. A chunk that then lies wholly in the one before it is left out.
    `embedder` is used by "semantic" only; "document" has no use for any of them.

    "semantic" compares, at each border between sentences, the mean vector of the two sentences
    before with the mean vector of the two after (the block comparison of Hearst 1997, "TextTiling",
    with sentence embeddings in place of words, as Kamradt 2023, "5 Levels of Text Splitting", has
    it). Instead of one percentile for all, a piece that is too long is cut where that similarity is
    lowest, until all pieces fit; neither side gets less than a quarter of the size, if a border
    allows that.

    Returns the chunks in the order of the corpus; a `chunk_id` is "doc_id#start-end" in characters
    of `full_text`. For a corpus that `load_dataset` left on the disk, the result is not a list but a
    sequence, which cuts a chunk when it is asked for.

    Raises ConfigError for an unknown name, a size below 1, an overlap outside 0 <= overlap < size,
    and pieces that are not in their document; DataError for a dataset without documents. Warns
    (DataWarning) when more than 90 % of at least 20 documents fit into one chunk.

    >>> corpus = {"d": Document("d", "One two three. Four five.\\n\\nSix.")}
    >>> [c.text for c in chunk(Dataset("demo", "test", corpus, [], {}), "sentence", chunk_size=4)]
    ['One two three.', 'Four five.', 'Six.']
    >>> [c.text for c in chunk(Dataset("demo", "test", corpus, [], {}), "recursive", chunk_size=7)]
    ['One two three. Four five.', 'Six.']
    >>> chunk({"d": "One, two, three"}, lambda text: text.split(", "))[1]
    Chunk(chunk_id='d#5-8', doc_id='d', start=5, end=8, text='two')
    """
    from ragbench.datasets.large import LargeCorpus  # here, so that importing this module is light

    size, overlap = chunk_size, chunk_overlap
    name = check_chunker(chunker)  # or a user's function
    _check_numbers(size, overlap)
    if not isinstance(dataset, Dataset):
        dataset = Dataset("corpus", "", as_documents(dataset), (), {})
    check_documents(dataset, "chunks are cut from documents")
    chunks: list[Chunk] = []
    if isinstance(dataset.corpus, LargeCorpus):
        chunks = cast("list[Chunk]", LargeChunks(dataset.corpus))
    pieces_of_documents: Iterable[Iterable[Chunk]]
    if name == "document":
        pieces_of_documents = map(_whole, dataset.corpus.values())
    elif isinstance(name, str):
        pieces_of_documents = _cut_at_borders(dataset, name, size, overlap, tokenizer, embedder)
    else:
        pieces_of_documents = _cut_by_function(dataset.corpus.values(), name, size, overlap)
    for pieces in pieces_of_documents:
        chunks.extend(pieces)
    return chunks


def _cut_at_borders(
    dataset: Dataset,
    chunker: str,
    size: int,
    overlap: int,
    tokenizer: str,
    embedder: EmbedderLike,
) -> Iterator[list[Chunk]]:
    """Yield the chunks of each document by a chunker that cuts it at borders of tokens; warn at the
    end if nearly all documents fit into one chunk. `embedder` is for "semantic" only.
    """
    load_tokenizer(tokenizer)  # a wrong name is an error even if there is nothing to cut
    model = _semantic_model(embedder, dataset) if chunker == "semantic" else None
    n_long = 0
    n_short = 0
    for documents in in_groups(dataset.corpus.values()):
        texts = [document.full_text for document in documents]
        all_offsets = token_offsets(texts, tokenizer)
        similarities: Iterator[FloatArray] = iter(())  # of the long texts, for "semantic"
        if model is not None:
            is_long = [len(offsets) > size for offsets in all_offsets]
            similarities = _similarities(list(compress(texts, is_long)), model)
        for document, text, offsets in zip(documents, texts, all_offsets, strict=True):
            if len(offsets) <= size:
                pieces = _whole(document)  # one chunk, or none for a blank document
                n_short += len(pieces)
            else:
                n_long += 1
                # the next one of `similarities`, which has one entry for each long text
                similarities_of_text = next(similarities) if model is not None else None
                windows = _windows(text, offsets, chunker, size, overlap, similarities_of_text)
                pieces = _chunks_of_windows(document.doc_id, text, offsets, windows)
            yield pieces
    _warn_of_short_documents(n_short, n_long + n_short, size, dataset.name)


def _warn_of_short_documents(n_short: int, n_documents: int, size: int, name: str) -> None:
    """Warn if nearly all documents that have text fit into one chunk each."""
    if n_documents < _SHORT_LEAST_DOCUMENTS or n_short <= _SHORT_SHARE * n_documents:
        return
    text = (
        f"{n_short:,} of {n_documents:,} documents ({n_short / n_documents:.0%}) "
        f"of {name!r} fit into one chunk of {size} tokens: chunkings of this size or more "
        "are all alike; choose a smaller size or longer documents"
    )
    warn_user(DataWarning(text, cause=f"short documents of {name}"))


def _windows(
    text: str,
    offsets: Offsets,
    chunker: str,
    size: int,
    overlap: int,
    similarities: FloatArray | None,
) -> list[Window]:
    """Return the chunks of a text that is longer than one chunk, as ranges of tokens (first, one after
    the last).

    Args:
        text: the text.
        offsets: for each token its first character, and the one after its last.
        chunker: the name of the chunker.
        size, overlap: of the chunks, in tokens.
        similarities: a value for each border between two sentences, for "semantic"; None for any
            other chunker.
    """
    borders = Borders(text, offsets, with_headings=chunker == "markdown")
    size_without_overlap = size - overlap  # the overlap is added below
    if similarities is not None:
        windows = split_weakest_first(borders, similarities, size_without_overlap)
    else:
        kinds = [*borders.headings, *_KINDS.get(chunker, ["tokens"])]
        windows = split(borders, 0, len(offsets), kinds, size_without_overlap)
    if overlap:
        windows = extend(windows, borders, chunker, size, overlap)
    return windows


def check_chunker(chunker: str | Callable[..., Any]) -> str | Callable[..., Any]:
    """Return a chunker that can be used: the name of one of ragbench's chunkers unchanged; for
    "package.module:attribute" the user's function; for a class an object of it.

    >>> check_chunker("markdown")
    'markdown'
    >>> check_chunker("recursiv")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: unknown chunker 'recursiv'; did you mean 'recursive'? Known: ...

    Raises:
        ConfigError: there is no such chunker.
    """
    user_chunker: Any = chunker
    if isinstance(chunker, str) and is_import(chunker):
        user_chunker = imported(chunker, "chunker")
        if not callable(user_chunker):
            raise ConfigError(
                f"chunker {chunker!r} cannot be called; expected a function of a document's text"
            )
    if inspect.isclass(user_chunker):
        user_chunker = user_chunker()
    if callable(user_chunker):
        return user_chunker  # type: ignore[no-any-return]
    if isinstance(user_chunker, int):
        raise ConfigError(f"chunker is {chunker}; write chunk_size={chunker}, by its name")
    for method in ("split_text", "chunk"):  # of splitters of other libraries
        if callable(getattr(user_chunker, method, None)):
            name = type(user_chunker).__name__.lower()
            raise ConfigError(
                f"chunker {object_name(chunker)!r} cannot be called; write chunker={name}.{method}"
            )
    if user_chunker not in CHUNKERS:
        kind, _, size = str(user_chunker).partition(":")
        if kind in CHUNKERS and size.isdigit():
            raise ConfigError(f"chunker is {chunker!r}; write chunker={kind!r}, chunk_size={size}")
        known = f"{', '.join(CHUNKERS)}, {FORM}"
        raise ConfigError(unknown("chunker", user_chunker, CHUNKERS, known))
    return chunker


def _cut_by_function(
    documents: Iterable[Document], chunker: Callable[..., Any], size: int, overlap: int
) -> Iterator[Iterable[Chunk]]:
    """Yield for each document the chunks that a user's function makes of it, without white space at
    their ends; blank and repeated ones are left out.

    Raises:
        ConfigError: the function returns something else than parts of the document.
    """
    options = _accepted_options(chunker, {"chunk_size": size, "chunk_overlap": overlap})
    subject = f"chunker {object_name(chunker)}"  # of error messages
    for document in documents:
        text = document.full_text
        pieces = chunker(text, **options)
        if isinstance(pieces, str) or not isinstance(pieces, Iterable):
            raise ConfigError(
                f"{subject} returned {type(pieces).__name__} for {document.doc_id!r}; expected a list"
            )
        chunks: dict[str, Chunk] = {}  # by id, so that a repeated one is there once
        for start, end in _spans_of_pieces(pieces, document, subject):
            start, end = trim(text, start, end)
            if start < end:
                chunk_of_piece = Chunk.cut(document.doc_id, text, start, end)
                chunks[chunk_of_piece.chunk_id] = chunk_of_piece
        yield chunks.values()


def _accepted_options(function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a function has parameters for; {} for built-in functions whose
    parameters Python does not know.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    return {name: value for name, value in options.items() if name in parameters}


def _spans_of_pieces(
    pieces: Iterable[Any], document: Document, subject: str
) -> Iterator[tuple[int, int]]:
    """Yield (first character, one after the last) for each piece of a document that a user's function
    returned. A piece is a text of the document, or such a pair already.

    `subject` names the function in error messages.

    Raises:
        ConfigError: a piece is neither of the two, or not within the document.
    """
    search_from = 0
    for piece in pieces:
        if isinstance(piece, str):
            start = _find_piece(piece, document, search_from, subject)
            search_from = start + 1  # the next piece may begin within this one
            yield start, start + len(piece)
        else:
            yield _checked_span(piece, document, subject)


def _find_piece(piece: str, document: Document, search_from: int, subject: str) -> int:
    """Return where a piece begins in its document: at its first place from `search_from` on, or
    else, as pieces may overlap or come in another order, at its first place in the document.
    """
    text = document.full_text
    for first_allowed in (search_from, 0):
        start = text.find(piece, first_allowed)
        if start >= 0:
            return start
    raise ConfigError(
        f"{subject} returned {piece[:60]!r}, which is not in the text "
        f"of {document.doc_id!r}: a chunk is a part of its document, character "
        "by character; return pairs (start, end) instead"
    )


def _checked_span(pair: Any, document: Document, subject: str) -> tuple[int, int]:
    """Return a pair (start, end) that a user's function returned as whole numbers; ConfigError if it
    is not such a pair, or not within the document.
    """
    try:
        start, end = (operator.index(edge) for edge in pair)  # no fraction, no text
    except (TypeError, ValueError):
        raise ConfigError(
            f"{subject} returned {pair!r}; expected a text or a pair (start, end)"
        ) from None
    n_characters = len(document.full_text)
    if not 0 <= start <= end <= n_characters:
        raise ConfigError(
            f"{subject} returned {pair!r} for {document.doc_id!r} of {n_characters} characters"
        )
    return start, end


def _check_numbers(size: int, overlap: int) -> None:
    """Refuse a size below 1, and an overlap outside 0 <= overlap < size."""
    for what, value in (("size", size), ("overlap", overlap)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool):
            raise ConfigError(f"chunk {what} must be a whole number of tokens, not {value!r}")
    if size < 1:
        raise ConfigError(f"chunk size must be at least 1 token, not {size}")
    if not 0 <= overlap < size:
        raise ConfigError(
            f"chunk overlap must be at least 0 and below the size of {size} tokens, not {overlap}"
        )


def _whole(document: Document) -> list[Chunk]:
    """Return a document as one chunk; [] if it is blank."""
    text = document.full_text
    start, end = trim(text, 0, len(text))
    if start >= end:
        return []
    return [Chunk.cut(document.doc_id, text, start, end)]


def _chunks_of_windows(
    doc_id: str, text: str, offsets: Offsets, windows: Sequence[Window]
) -> list[Chunk]:
    """Return the chunks of a text for windows (first token, one after the last) of its tokens.

    A chunk ends where the token after its last one begins, so characters between tokens that the
    tokenizer drops (control characters) go to the chunk before them. Without the white space at its
    ends a chunk may be blank, or lie within the one before it: such chunks are left out.
    """
    token_starts = np.append(offsets[:, 0], len(text))
    firsts, after_lasts = np.array(windows).T
    starts = token_starts[firsts]
    starts[firsts == 0] = 0  # the first chunk has the characters before the first token
    ends = token_starts[after_lasts]
    spans: list[tuple[int, int]] = []
    for untrimmed_start, untrimmed_end in zip(starts.tolist(), ends.tolist(), strict=True):
        start, end = trim(text, untrimmed_start, untrimmed_end)
        is_blank = start == end
        is_in_span_before = bool(spans) and end <= spans[-1][1]
        if is_blank or is_in_span_before:
            continue
        holds_span_before = bool(spans) and start <= spans[-1][0]
        if holds_span_before:  # this window began with white space, and trimmed begins as early
            spans.pop()
        spans.append((start, end))
    return [Chunk.cut(doc_id, text, start, end) for start, end in spans]


def _semantic_model(embedder: str | Embedder, dataset: Dataset) -> Embedder:
    """Return the embedder of "semantic"; warns if it does not know the documents' language."""
    model = load_embedder(embedder)
    language = detect_language(document.text for document in dataset.corpus.values())
    warn_of_language(model, language, "it cuts them at random places")
    return model


def _similarities(texts: Sequence[str], model: Embedder) -> Iterator[FloatArray]:
    """Yield for each text one similarity for each border between two of its sentences
    (`_block_similarities`). The sentences of all texts are embedded together.
    """
    if not texts:
        return
    sentences: list[str] = []
    n_sentences: list[int] = []  # of each text
    for text in texts:
        spans = sentence_spans(text)
        sentences += [text[start:end] for start, end in spans]
        n_sentences.append(len(spans))
    vectors = model.encode(sentences)
    first = 0  # the row of a text's first sentence
    for n in n_sentences:
        yield _block_similarities(np.asarray(vectors[first : first + n], dtype=np.float32))
        first += n


def _block_similarities(vectors: FloatArray) -> FloatArray:
    """Return for each border between two sentences the cosine of the two sentences before it with
    the two after it; at the ends of a text there is only one.

    `vectors` has a row for each sentence of one text. Values are rounded, so that another machine's
    last bit does not move a cut.
    """
    # row i: the sum of the (at most two) vectors before, or after, the border after sentence i
    before = vectors[:-1].copy()
    before[1:] += vectors[:-2]
    after = vectors[1:].copy()
    after[:-1] += vectors[2:]
    norms = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    dots = np.einsum("ij,ij->i", before, after)
    # 1 where a side has no vector (no known word): that does not indicate another subject.
    cosines = np.divide(dots, norms, out=np.ones_like(dots), where=norms > 0)
    rounded: FloatArray = np.round(cosines, 6)
    return rounded
