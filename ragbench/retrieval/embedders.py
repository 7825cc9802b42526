"""Texts to vectors: which embedders a name or a user's object means, how texts are prepared, and
the vectors kept on disk by content; warnings about language and length.

Vectors are float32 of unit length, so that a dot product is a cosine in [-1, 1]. A text that is
empty or white space has nothing to compare: its row is zero (cosine 0 with everything), never NaN.
A run of white space (line ends, tabs, no-break spaces) is read as one blank, and none at the ends:
wordllama would have a different vector for each kind. Only an `Embedder` object of the caller gets
the texts as they are.

A vector is computed once per machine: the cache key is the identity of the weights together with
the exact texts. The model itself is loaded only when something must be computed; only models of
sentence-transformers import torch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ragbench import store
from ragbench.array_types import Bools, FloatArray, Floats
from ragbench.errors import ConfigError, DataWarning, ModelError, nearest, warn_user
from ragbench.extension import imported, is_import, object_name
from ragbench.files import expanded
from ragbench.hints.attributes import suggesting
from ragbench.language import Language
from ragbench.progress import progress_bar
from ragbench.retrieval.embedding_models import MiniLM, Transformer, WordLlama
from ragbench.retrieval.weights import model_files
from ragbench.text import without_surrogates
from ragbench.types import Embedder, EmbedderLike

EMBEDDERS = ("minilm", "wordllama")
"""The embedders that need no download; every other name is a local folder or a name on the Hugging
Face hub.
"""

_MULTILINGUAL = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"

_WHITE_SPACE = (
    "white space as single blanks"  # part of the identity: vectors of texts as written were others
)
_BLOCK_TEXTS = 128
_BLOCK_CHARACTERS = (
    400_000  # bounds the memory of a block of very long texts: wordllama keeps 1 kB per token
)


def knows(embedder: str | Embedder, language: Language) -> bool:
    """Return False if an embedder was trained on English alone, as those that come with ragbench
    were, and texts are in another language.

    >>> from ragbench.language import find_language
    >>> knows("minilm", find_language("en")), knows("minilm", find_language("de"))
    (True, False)
    """
    name = embedder if isinstance(embedder, str) else embedder.name
    return name not in EMBEDDERS or language.is_english


def warn_of_language(embedder: Embedder, language: Language, effect: str) -> None:
    """Warn if an embedder does not know the language of the texts; `effect` is the end of the
    message: what gets worse by it.
    """
    if not knows(embedder, language):
        warn_user(
            f"{embedder.name} is a model of English, and the documents are in {language.name}: "
            f"{effect}; name a multilingual model, such as {_MULTILINGUAL!r}"
        )


def is_remote(name: str) -> bool:
    """Return True if this is the name of an embedder of a server.

    >>> is_remote("openai:text-embedding-3-small"), is_remote("minilm"), is_remote("my_rag.models:embed")
    (True, False, False)
    """
    return name.partition(":")[0] in ("openai", "ollama")


def check_embedder(name: str) -> None:
    """Raise ConfigError when `name` cannot be an embedder; no model is loaded.

    The object that "package.module:attribute" names is imported. Whether the hub knows a name is only
    seen when the model is loaded; a misspelt built-in name is seen here.

    >>> check_embedder("minilm")
    >>> check_embedder("mini-lm")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: unknown embedder 'mini-lm'; did you mean 'minilm'? Known: minilm, wordllama (or a \
folder, or a name on the Hugging Face hub)
    """
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(
            f"embedder {name!r}: expected one of {', '.join(EMBEDDERS)}, the folder of a "
            "sentence-transformers model, or its name on the Hugging Face hub, such as "
            "'sentence-transformers/all-mpnet-base-v2'"
        )
    if name in EMBEDDERS or expanded(name).is_dir():
        return
    if is_remote(name):
        from ragbench.retrieval.remote_embedder import Remote

        Remote(name).check()
        return
    if is_import(name):
        imported(name, "embedder")
        return
    # a name on the hub has a "/", so it is no misspelt built-in name
    near = nearest(name.lower(), EMBEDDERS, 0.75)
    if near and "/" not in name:
        raise ConfigError(
            f"unknown embedder {name!r}; did you mean {near!r}? Known: {', '.join(EMBEDDERS)} "
            "(or a folder, or a name on the Hugging Face hub)"
        )
    starts_as_path = name.startswith(("/", "./", "../", "~"))
    if starts_as_path or "\\" in name or name.count("/") > 1:  # no name on the hub
        raise ConfigError(
            f"embedder {name!r}: there is no such folder; give the folder of a "
            "sentence-transformers model"
        )


def load_embedder(name: EmbedderLike) -> TextEmbedder | Embedder:
    """Return the embedder of a name, or of an object of the user; the same object for the same name
    as long as its files are the same.

    - "minilm": all-MiniLM-L6-v2, 384 dimensions, from its wheel (checked by SHA-256), computed in
      numpy: vectors differ from sentence-transformers' by less than 1e-6. Reads 256 word pieces of
      a text; the rest is cut, with a DataWarning.
    - "wordllama": static word vectors (l2_supercat), 256 dimensions, from its wheel. Fast; reads
      whole texts, lower-cased.
    - a folder: any model that sentence-transformers can load. Its files are part of the cache key.
    - "openai:<model>" (any OpenAI-compatible server; "openai:<model>@https://host/v1" names another
      one than the environment) and "ollama:<model>": asked in batches; each vector is kept in the
      reply store, priced, bounded by the maximum cost and counted by a dry run, as replies of
      language models are.
    - "package.module:attribute": one of your own, as below.
    - any other name: the model of that name on the Hugging Face hub, downloaded at its first use.

    One of your own is an `Embedder`, a function from a list of texts to one row of numbers for
    each, or an object with `encode` (sentence-transformers) or `embed_documents` and `embed_query`
    (LangChain). Rows are scaled to unit length, except the rows of an `Embedder`, which must have
    it.

    The weights are read when something must be computed. A model that cannot be loaded is a
    ModelError then.

    >>> load_embedder("wordllama").encode(["a cat", "a kitten", ""]).shape
    (3, 256)
    >>> load_embedder(lambda texts: [[len(text), 4] for text in texts]).encode(["abc"]).tolist()
    [[0.6000000238418579, 0.800000011920929]]
    """
    if not isinstance(name, str):
        return _embedder_of_user(name)
    check_embedder(name)
    if name not in EMBEDDERS and expanded(name).is_dir():
        # loaded again once a file of the folder has changed
        return _load_once(name, state_of_files=_state_of_files(expanded(name)))
    if is_remote(name):
        from ragbench.retrieval.remote_embedder import Remote

        return TextEmbedder(name, Remote(name))
    if is_import(name):
        return _embedder_of_user(imported(name, "embedder"))
    return _load_once(name, state_of_files="")


@suggesting(
    **dict.fromkeys(
        "embed embed_documents get_text_embedding transform vectors".split(),
        "embedder.encode(texts)",
    ),
    **dict.fromkeys("embed_query get_query_embedding".split(), "embedder.encode_queries([text])"),
    **dict.fromkeys(
        "similarity search".split(), "rb.retrieval.Dense(chunks, embedder).search(queries, k)"
    ),
)
class TextEmbedder:
    """A model and its place in the cache; made by `load_embedder`.

    `name` is the name for `load_embedder`; the model is one of
    `ragbench.retrieval.embedding_models`.
    """

    def __init__(self, name: str, model: Any) -> None:
        self.name = name
        self._model = model

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def identity(self) -> str:
        """Return a text that names everything that vectors of documents depend on, apart from the
        documents: the model, its version, the treatment of white space. "" means that vectors must
        not be kept in the cache.
        """
        identity = self._model.identity
        # "" stays ""
        return identity and f"{identity} document {_WHITE_SPACE}"

    @property
    def _cache_kind(self) -> str:
        """Return the part of the cache that keeps the vectors; "" if they must not be kept."""
        return "embeddings" if self.identity else ""

    def encode(self, texts: Sequence[str], role: str = "document") -> FloatArray:
        """Return a float32 array (len(texts), dimension), one row of unit length per text; zero for
        an empty text. `role` is "document" or "query" (see `encode_queries`).

        Equal texts are computed once. The result depends on the set of texts only, not on their
        order. A progress bar shows when it takes longer than two seconds. Texts longer than the
        model reads are cut, as the model does, and a DataWarning states how many.

        >>> embedder = load_embedder("wordllama")
        >>> cat, kitten, tax = embedder.encode(["a cat", "a kitten", "income tax"])
        >>> bool(cat @ kitten > cat @ tax)
        True
        >>> embedder.encode([]).shape
        (0, 256)
        """
        if isinstance(texts, str):
            raise ConfigError(
                "encode: expected a list of texts, not one string; write encode([text])"
            )
        cleaned = _single_blanks(texts)
        unique = _distinct_longest_first(cleaned)
        key = store.digest(self._model.identity, role, _WHITE_SPACE, *unique)
        with store.arrays(self._cache_kind, key) as entry:
            if not entry:  # not in the cache, which keeps the arrays that are put into it
                entry |= self._compute(unique, role)
        self._warn_of_cuts(unique, entry["cut"], int(entry["max_tokens"]))
        # in the order of the given texts, equal ones with equal rows
        vectors: FloatArray = entry["vectors"][_rows_of(cleaned, unique)]
        return vectors

    def encode_queries(self, texts: Sequence[str]) -> FloatArray:
        """Encode as `encode` does, for texts that are searched with.

        The same as `encode` except for models trained with another prompt for queries (such as E5's
        "query: ").
        """
        return self.encode(texts, "query")

    @property
    def is_exact(self) -> bool:
        """Return True if `encode_exactly` has more digits than `encode`."""
        return hasattr(self._model, "embed_exactly")

    def encode_exactly(self, texts: Sequence[str]) -> Floats:
        """Encode as `encode` does, in float64: the first 12 digits are the same on every processor.

        It takes about twice the time of `encode`. The model must have the precision (`is_exact`).
        """
        cleaned = _single_blanks(texts)
        unique = _distinct_longest_first(cleaned)
        key = store.digest(self._model.identity, "float64", _WHITE_SPACE, *unique)
        with store.arrays(self._cache_kind, key) as entry:
            if not entry:  # not in the cache, which keeps the arrays that are put into it
                computed = self._model.embed_exactly(unique)
                norms = np.linalg.norm(computed, axis=1, keepdims=True)
                entry["vectors"] = computed / np.where(norms > 0, norms, 1)
        vectors: Floats = entry["vectors"][_rows_of(cleaned, unique)]
        is_empty = [not text for text in cleaned]
        vectors[is_empty] = 0.0
        return vectors

    def _compute(self, texts: list[str], role: str) -> store.Arrays:
        """Return the arrays that the cache keeps for texts sorted longest first: "vectors", one row for
        each; "cut", True where a text is longer than the model reads; "max_tokens", the number of
        tokens that the model reads (0: all).
        """
        reads_whole_texts = not hasattr(self._model, "cut")
        vectors_of_blocks: list[FloatArray] = []
        is_cut = np.zeros(len(texts), dtype=bool)
        with progress_bar(len(texts), f"embedding with {self.name}", "texts") as bar:
            for start, end in _blocks(texts):
                block = texts[start:end]
                vectors_of_blocks.append(_unit(self._model.embed(block, role), self.name))
                if not reads_whole_texts:
                    # True for each text that is longer than the model reads
                    is_cut[start:end] = self._model.cut(block)
                bar.update(end - start)
        if not texts:
            vectors_of_blocks = [np.zeros((0, self._model.dimension), np.float32)]
        vectors = np.concatenate(vectors_of_blocks)
        is_empty = [not text for text in texts]
        vectors[is_empty] = 0.0
        # "cut" is kept with the vectors: the warning comes each time, also when the model need not
        # be loaded.
        max_tokens = np.array(self._model.max_tokens or 0)
        return {"vectors": vectors, "cut": is_cut, "max_tokens": max_tokens}

    def _warn_of_cuts(self, texts: list[str], cut: Bools, max_tokens: int) -> None:
        """Warn if any text is longer than the model reads: `cut` is True for it."""
        if not cut.any():
            return
        longest = texts[int(np.flatnonzero(cut)[0])]  # texts are sorted longest first
        text = (
            f"{self.name} reads the first {max_tokens} tokens of a text: {int(cut.sum())} "
            f"of {len(texts)} texts are longer and the rest of them is not read (the longest "
            f"begins {longest[:60]!r}). Smaller chunks, or another model, avoid that"
        )
        warn_user(DataWarning(text, cause=f"texts cut by {self.name}"))


class OwnModel:
    """A user's functions as a model. Nothing is kept in the cache."""

    identity, dimension, max_tokens = "", 0, None

    def __init__(
        self, documents: Callable[[list[str]], Any], queries: Callable[[list[str]], Any], name: str
    ) -> None:
        self._functions = {"document": documents, "query": queries}
        self._name = name

    def embed(self, texts: list[str], role: str) -> Floats:
        """Return the vectors of texts by the user's function for a role, (texts, components).

        Raises:
            ModelError: the function returned something else.
        """
        try:
            vectors = np.asarray(self._functions[role](texts), dtype=np.float64)
        except (TypeError, ValueError) as exc:
            raise ModelError(f"embedder {self._name} returned no rows of numbers: {exc}") from exc
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise ModelError(
                f"embedder {self._name} returned an array of shape {vectors.shape} for {len(texts)} "
                "texts; expected one row of numbers for each text of the list that it is given"
            )
        return vectors


def _embedder_of_user(given: Any) -> Embedder:
    """Return the embedder of a user's class or object: an `Embedder` as it is, else its functions
    as a `TextEmbedder`.

    Raises:
        ConfigError: the object has no function that embeds texts.
    """
    model: Any = given() if inspect.isclass(given) else given
    if isinstance(model, Embedder):
        return model
    name = object_name(given)
    encode = getattr(model, "encode", model)  # of sentence-transformers; or it is a function
    if callable(encode):
        # for models that read questions in another way; else the same function
        encode_query = getattr(model, "encode_query", encode)
        return TextEmbedder(name, OwnModel(encode, encode_query, name))
    embed_documents = getattr(model, "embed_documents", None)
    if callable(embed_documents):  # of LangChain

        def embed_queries(texts: list[str]) -> list[Any]:
            return [model.embed_query(text) for text in texts]

        return TextEmbedder(name, OwnModel(embed_documents, embed_queries, name))
    raise ConfigError(
        f"embedder {model!r}: expected a name, a function of a list of texts, or an object with "
        "encode(texts)"
    )


def _state_of_files(folder: Path) -> str:
    """Return a text that changes when a file of a model in a folder does: sizes and times."""
    states = []
    for path in model_files(folder):
        status = path.stat()
        states.append((str(path), status.st_size, status.st_mtime_ns))
    return repr(states)


@lru_cache(maxsize=16)
def _load_once(name: str, state_of_files: str) -> TextEmbedder:
    """Return the embedder of a name, from memory if it was loaded before.

    `state_of_files` is part of the key in memory only: a folder is loaded again after somebody has
    trained its model further.
    """
    if name in EMBEDDERS:
        return TextEmbedder(name, MiniLM() if name == "minilm" else WordLlama())
    return TextEmbedder(name, Transformer(name))


def _single_blanks(texts: Sequence[str]) -> list[str]:
    """Return the texts with each run of white space as one blank, and none at the ends."""
    return [" ".join(without_surrogates(text).split()) for text in texts]


def _distinct_longest_first(texts: Sequence[str]) -> list[str]:
    """Return each text once, the longest first, as sentence-transformers has it, then by content: the
    same set of texts has the same batches, and so the same bits, in any order.
    """
    return sorted(set(texts), key=lambda text: (-len(text), text))


def _rows_of(texts: Sequence[str], distinct: Sequence[str]) -> list[int]:
    """Return for each text its place among the distinct ones."""
    row_of = {text: row for row, text in enumerate(distinct)}
    return [row_of[text] for text in texts]


def _blocks(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of successive blocks of texts, which are sorted longest first.

    A block has at most 128 texts, and at most 400,000 characters if each text is padded to the
    longest one of the block.
    """
    start = 0
    while start < len(texts):
        longest = max(1, len(texts[start]))
        n_that_fit = max(1, _BLOCK_CHARACTERS // longest)
        end = min(start + n_that_fit, start + _BLOCK_TEXTS, len(texts))
        yield start, end
        start = end


def _unit(vectors: FloatArray | Floats, name: str) -> FloatArray:
    """Return vectors in float32, each scaled to length 1; a vector of zeros stays.

    Raises:
        ModelError: a number is not finite; `name` is the model's.
    """
    if not np.isfinite(vectors).all():
        raise ModelError(
            f"{name} returned vectors that are not finite numbers; its weights are damaged"
        )
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: FloatArray = (vectors / np.where(norms > 0, norms, 1)).astype(np.float32, copy=False)
    return unit
