"""The models behind an embedder: minilm in numpy, static word vectors, and sentence-transformers;
what each computes, and how much of a text it reads.

Each has an `identity`, a `dimension`, `max_tokens` (None: it reads whole texts) and `embed(texts,
role)`; one that reads `max_tokens` of a text has `cut(texts)` too: which texts are longer.
"""

import logging
import threading
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ragbench.array_types import Bools, FloatArray, Floats
from ragbench.errors import ModelError
from ragbench.retrieval import minilm
from ragbench.retrieval.weights import (
    MINILM_SHA256,
    Weights,
    digest_of_files,
    first_line,
    package_folder,
)
from ragbench.store import digest


class MiniLM:
    """all-MiniLM-L6-v2 as `ragbench.retrieval.minilm` computes it: the mean of the states of a
    text's tokens.
    """

    dimension = 384
    max_tokens = minilm.MAX_TOKENS

    @cached_property
    def identity(self) -> str:
        """Return the identity, the code and its libraries among it: another version may compute
        other bits from the same weights.
        """
        libraries = " ".join(f"{name} {version(name)}" for name in ("numpy", "tokenizers"))
        return f"minilm {libraries} {MINILM_SHA256} {digest(Path(minilm.__file__).read_bytes())}"

    def embed(self, texts: list[str], role: str) -> FloatArray:
        return np.stack([states.mean(axis=0) for states in minilm.token_states(_ids(texts))])

    def embed_exactly(self, texts: list[str]) -> Floats:
        """Return the vectors in double precision, in which processors differ by less than 1e-12."""
        states = minilm.token_states(_ids(texts), np.float64)
        return np.stack([of_text.mean(axis=0) for of_text in states])

    def cut(self, texts: list[str]) -> Bools:
        return np.array(
            [len(encoding.ids) > self.max_tokens for encoding in minilm.tokenised(texts)]
        )


def _ids(texts: list[str]) -> list[list[int]]:
    """Return the ids of the tokens that minilm reads of each text."""
    return [minilm.cut_to_fit(encoding.ids) for encoding in minilm.tokenised(texts)]


class WordLlama:
    """The static vectors of the wordllama wheel, of lower-cased text; nothing is ever fetched.

    The vectors of "CAT", "Cat" and "cat" are unrelated, and a text rarely repeats the case of its
    query: upper-case queries found almost nothing (nDCG@10 on PubMedQA 0.30 instead of 0.87).
    """

    dimension = 256
    max_tokens = None

    @cached_property
    def _folder(self) -> Path:
        folder = package_folder("wordllama")
        if folder is None:
            raise ModelError(
                "the embedder 'wordllama' is not installed; run: pip install 'wordllama>=0.3.8'"
            )
        return folder

    @cached_property
    def identity(self) -> str:
        """Return a text that changes with the vectors: the version and a digest of the weights."""
        files = [
            *self._folder.glob(f"weights/l2_supercat_{self.dimension}.safetensors"),
            *self._folder.glob("tokenizers/l2_supercat*.json"),
        ]
        digest_of_weights = digest_of_files(self._folder, files)
        return f"wordllama {version('wordllama')} lower-cased {digest_of_weights}"

    @cached_property
    def _inference(self) -> Any:
        """Return wordllama's model, which computes the vectors.

        Raises:
            ModelError: its weights cannot be loaded.
        """
        # Importing wordllama configures the root logger: every library's chatter would land in the
        # notebook. So the logger gets its level and handlers back.
        root = logging.getLogger()
        level_before = root.level
        handlers_before = list(root.handlers)
        import wordllama

        root.setLevel(level_before)
        root.handlers[:] = handlers_before
        try:
            # wordllama looks for its tokenizer in the cache folder only. The wheel holds the
            # tokenizer, so the wheel's folder is given as the cache folder.
            return wordllama.WordLlama.load(
                cache_dir=self._folder, dim=self.dimension, disable_download=True
            )
        except Exception as exc:
            raise ModelError(
                f"wordllama could not be loaded from {self._folder} ({first_line(exc)}); "
                "run: pip install --force-reinstall --no-deps wordllama"
            ) from exc

    def embed(self, texts: list[str], role: str) -> FloatArray:
        vectors: FloatArray = self._inference.embed(
            [text.lower() for text in texts], batch_size=len(texts)
        )
        return vectors


class Transformer:
    """A model of sentence-transformers."""

    def __init__(self, name: str) -> None:
        self._weights = Weights(name, "SentenceTransformer")
        self._one_at_a_time = (
            threading.Lock()
        )  # the fast tokenizers refuse to be used from two threads

    @property
    def identity(self) -> str:
        return self._weights.identity

    @cached_property
    def dimension(self) -> int:
        return int(self._weights.model.encode(["."], show_progress_bar=False).shape[1])

    @property
    def max_tokens(self) -> Any:
        return self._weights.model.max_seq_length

    def embed(self, texts: list[str], role: str) -> FloatArray:
        """Return one row per text; `role` is "query" or "document", for which models may be trained
        with different prompts.
        """
        model = self._weights.model
        encode = model.encode_query if role == "query" else model.encode_document
        with self._one_at_a_time:
            vectors: FloatArray = encode(
                texts, batch_size=32, show_progress_bar=False, convert_to_numpy=True
            )
        return vectors

    def cut(self, texts: list[str]) -> Bools:
        """Return for each text True if it is longer than the model reads; all False if the model has
        no limit, or no tokenizer to count with.
        """
        is_cut = np.zeros(len(texts), dtype=bool)
        limit = self.max_tokens
        tokenizer = getattr(self._weights.model, "tokenizer", None)
        if not limit or not callable(tokenizer):
            return is_cut
        # A token has a byte at least, so most texts fit without being tokenised again; 8 is room for
        # special tokens.
        may_be_long = [i for i, text in enumerate(texts) if len(text.encode()) + 8 > limit]
        if not may_be_long:
            return is_cut
        with self._one_at_a_time:
            token_ids = tokenizer(
                [texts[i] for i in may_be_long], truncation=False, padding=False, verbose=False
            )["input_ids"]
        is_cut[may_be_long] = [len(ids) > limit for ids in token_ids]
        return is_cut
