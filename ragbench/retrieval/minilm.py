"""all-MiniLM-L6-v2 in numpy: the states of each token of a text, without torch.

Importing torch and sentence-transformers takes seven CPU seconds, more than most evaluations spend
on vectors, and one text after the other in numpy takes no longer than padded batches in torch. The
network is BERT's (Devlin et al. 2019; sizes: Wang et al. 2020); its states equal those in
transformers within 1e-5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from ragbench.retrieval.weights import minilm_parameters
from ragbench.text import load_tokenizer

if TYPE_CHECKING:
    from tokenizers import Encoding

    from ragbench.types import FloatArray

    Linear = tuple[FloatArray, FloatArray]  # weights (inputs, outputs), bias (outputs,)

T = TypeVar("T")

MAX_TOKENS = 256
"""What the model reads of a text, in tokens."""

_LAYERS, _HEADS, _WIDTH = 6, 12, 384
_EPSILON = 1e-12  # of the layer norms
_BLOCK_TOKENS = 256  # what stays in a processor's cache
_MIN_ROWS = 36  # products of fewer rows may be computed in another way, with other bits
_GROUP = (
    12  # rows that some processors multiply at once: a row's bits depend on its place among them
)
_GELU_ROWS = 32  # whose arrays stay in a processor's cache
_ERF = (
    0.254829592,
    -0.284496736,
    1.421413741,
    -1.453152027,
    1.061405429,
)  # Abramowitz and Stegun, 7.1.26
_ERF_SCALE = 0.3275911
_BUSY = Lock()  # the number of threads is the process's


def token_states(texts: Sequence[Sequence[int]], dtype: Any = np.float32) -> list[Any]:
    """Return for each text, given as the ids of its tokens (at most 256), the model's last states
    (tokens, 384).

    The bits of a text's states do not depend on the other texts: their rows share matrix products,
    whose rows are independent, and nothing is padded to a common length. They depend on the
    processor, in the last digits of `dtype`: np.float64 takes about twice the time of np.float32.
    """
    blas = _blas()
    with _BUSY:
        pool = ThreadPoolExecutor(
            max((library["num_threads"] for library in blas.info()), default=1)
        )
        try:
            # One block per thread: threads that share one product wait in loops, and on a busy
            # machine these take seven times the CPU seconds of the work.
            with blas.limit(limits=1):
                return [
                    states
                    for block in pool.map(partial(_forward, _network(dtype)), _blocks(texts))
                    for states in block
                ]
        finally:
            pool.shutdown(cancel_futures=True)


def tokenised(texts: Sequence[str]) -> list[Encoding]:
    """Return each text as the model reads it, but whole: with the marks of its start and end; lone
    surrogates replaced.
    """
    return load_tokenizer("minilm").encode_batch(
        [text.encode("utf-8", "replace").decode() for text in texts]
    )


def cut_to_fit(tokens: Sequence[T]) -> list[T]:
    """Return of the tokens of a text the ones that the model reads: at most 256, the mark of the
    end among them.
    """
    return [*tokens[: min(len(tokens), MAX_TOKENS) - 1], tokens[-1]]


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    """Return the libraries that multiply matrices in this process."""
    return ThreadpoolController().select(user_api="blas")


@dataclass(frozen=True, slots=True)
class _Layer:
    # queries, keys and values side by side; queries divided by the root of a head's width
    attention: Linear
    mixing: Linear
    mixing_norm: Linear
    widening: Linear
    narrowing: Linear
    narrowing_norm: Linear


@dataclass(frozen=True, slots=True)
class _Network:
    words: FloatArray
    places: FloatArray
    norm: Linear
    layers: tuple[_Layer, ...]


@lru_cache(maxsize=2)
def _network(dtype: Any) -> _Network:
    parameters = minilm_parameters()
    # the words' vectors are half of all; the rows of a text take on `dtype` when they are added up
    words = parameters.pop("embeddings.word_embeddings.weight")
    kept = {name: values.astype(dtype, copy=False) for name, values in parameters.items()}
    places = (
        kept["embeddings.position_embeddings.weight"]
        + kept["embeddings.token_type_embeddings.weight"][0]
    )
    layers = tuple(_layer(kept, f"encoder.layer.{number}") for number in range(_LAYERS))
    return _Network(
        words,
        places,
        _norm_of(kept, "embeddings.LayerNorm"),
        layers,
    )


def _layer(kept: Mapping[str, FloatArray], name: str) -> _Layer:
    def linear(part: str, scale: float = 1.0) -> Linear:
        factor = kept[f"{name}.{part}.weight"].dtype.type(scale)
        weight, bias = kept[f"{name}.{part}.weight"], kept[f"{name}.{part}.bias"]
        return np.ascontiguousarray(weight.T * factor), bias * factor

    parts = [
        linear("attention.self.query", (_WIDTH / _HEADS) ** -0.5),
        linear("attention.self.key"),
        linear("attention.self.value"),
    ]
    return _Layer(
        (np.hstack([weight for weight, _ in parts]), np.concatenate([bias for _, bias in parts])),
        linear("attention.output.dense"),
        _norm_of(kept, f"{name}.attention.output.LayerNorm"),
        linear("intermediate.dense"),
        linear("output.dense"),
        _norm_of(kept, f"{name}.output.LayerNorm"),
    )


def _norm_of(kept: Mapping[str, FloatArray], name: str) -> Linear:
    return kept[f"{name}.weight"], kept[f"{name}.bias"]


def _blocks(texts: Sequence[Sequence[int]]) -> Iterator[list[Sequence[int]]]:
    block: list[Sequence[int]] = []
    for text in texts:
        if block and sum(map(len, block)) + len(text) > _BLOCK_TOKENS:
            yield block
            block = []
        block.append(text)
    if block:
        yield block


def _forward(network: _Network, texts: Sequence[Sequence[int]]) -> list[FloatArray]:
    ends = np.cumsum([-(-len(text) // _GROUP) * _GROUP for text in texts]).tolist()
    starts = zip([0, *ends[:-1]], map(len, texts), strict=True)
    spans = [(start, start + length) for start, length in starts]
    dtype = network.places.dtype
    states: FloatArray = np.zeros((max(_MIN_ROWS, ends[-1]), _WIDTH), dtype=dtype)
    for text, (start, end) in zip(texts, spans, strict=True):
        states[start:end] = network.words[text] + network.places[: len(text)]
    states = _normalised(states, network.norm)
    mixed = np.zeros_like(states)
    wide = np.empty((len(states), 4 * _WIDTH), dtype=dtype)
    for layer in network.layers:
        mapped = states @ layer.attention[0] + layer.attention[1]
        for start, end in spans:
            mixed[start:end] = _attended(mapped[start:end])
        states = _normalised(mixed @ layer.mixing[0] + layer.mixing[1] + states, layer.mixing_norm)
        np.matmul(states, layer.widening[0], out=wide)
        wide += layer.widening[1]
        _gelu(wide)
        states = _normalised(
            wide @ layer.narrowing[0] + layer.narrowing[1] + states, layer.narrowing_norm
        )
    return [states[start:end] for start, end in spans]


def _attended(mapped: FloatArray) -> FloatArray:
    """Return what each token of one text takes from the others, of all heads side by side."""
    count = len(mapped)
    queries, keys, values = mapped.reshape(count, 3, _HEADS, -1).transpose(1, 2, 0, 3)
    weights = queries @ keys.transpose(0, 2, 1)
    weights -= weights.max(axis=2, keepdims=True)
    np.exp(weights, out=weights)
    mixed = weights @ values
    mixed /= weights.sum(axis=2, keepdims=True)
    attended: FloatArray = np.asarray(mixed, mapped.dtype).transpose(1, 0, 2).reshape(count, -1)
    return attended


def _gelu(rows: FloatArray) -> None:
    """Compute x (1 + erf(x / sqrt 2)) / 2 of each number, in place, within 5e-7; seven times as
    fast as with scipy's erf.

    It is max(x, 0) - |x| (1 - erf(|x| / sqrt 2)) / 2, where the last factor is a polynomial times
    exp(-x^2 / 2).
    """
    factors = [np.float32(factor / -2) for factor in reversed(_ERF)]
    for first in range(0, len(rows), _GELU_ROWS):
        part = rows[first : first + _GELU_ROWS]
        size = np.abs(part)
        fraction = size * np.float32(_ERF_SCALE * 0.5**0.5)
        fraction += 1
        np.reciprocal(fraction, out=fraction)
        tail = fraction * factors[0]
        for factor in factors[1:]:
            tail += factor
            tail *= fraction
        tail *= size
        size *= size
        size *= np.float32(-0.5)
        tail *= np.exp(size, out=size)
        np.maximum(part, 0, out=part)
        part += tail


def _normalised(rows: FloatArray, norm: Linear) -> FloatArray:
    rows -= rows.mean(axis=1, keepdims=True)
    rows /= np.sqrt(np.einsum("ij,ij->i", rows, rows) / _WIDTH + _EPSILON)[:, None]
    rows *= norm[0]
    rows += norm[1]
    return rows
