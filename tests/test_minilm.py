"""minilm in numpy: the states of transformers, and the same bits in any batch."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pytest

from ragbench.embedders import load_embedder, load_model
from ragbench.embedders.minilm import MAX_TOKENS, token_states
from ragbench.embedders.weights import Weights, minilm_parameters
from ragbench.metrics.groundedness.evidence import vectors

draw = random.Random(0)
TEXTS = [[101, *(draw.randrange(1000, 30_000) for _ in range(size)), 102] for size in (0, 1, 5, 17, 30, 31, 120, 254)]


def test_states_are_those_of_transformers() -> None:
    import torch

    model = load_model("minilm")[0].auto_model
    for text, found in zip(TEXTS, token_states(TEXTS), strict=True):
        with torch.inference_mode():
            expected = model(input_ids=torch.tensor([text])).last_hidden_state[0].numpy()
        np.testing.assert_allclose(found, expected, atol=2e-5)
    assert len(TEXTS[-1]) == MAX_TOKENS


def test_bits_do_not_depend_on_other_texts_or_their_order() -> None:
    alone = [token_states([text])[0] for text in TEXTS]
    for seed in range(3):
        order = random.Random(seed).sample(range(len(TEXTS)), len(TEXTS))
        for place, states in zip(order, token_states([TEXTS[place] for place in order]), strict=True):
            np.testing.assert_array_equal(states, alone[place])
    assert token_states([]) == []


def test_a_text_has_the_vector_of_the_embedder() -> None:
    texts = ["A cat sleeps on the mat.", "Ünïcode ✓ 漢字", "word " * 400]
    own = np.stack([vector for vector, _ in vectors(texts)])
    with pytest.warns(match="reads the first 256 tokens"):
        np.testing.assert_allclose(own, load_embedder("minilm").encode(texts), atol=1e-5)


def test_without_the_wheel_the_parameters_come_from_the_loaded_model(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, loaded = minilm_parameters(), load_model("minilm")
    monkeypatch.setattr(Weights, "folder", None)
    monkeypatch.setattr(Weights, "model", loaded)
    found = minilm_parameters()
    np.testing.assert_array_equal(
        found["encoder.layer.5.output.dense.weight"], expected["encoder.layer.5.output.dense.weight"]
    )


def test_claim_support_imports_no_torch() -> None:
    code = (
        "import sys; from ragbench.metrics.groundedness import claim_support\n"
        "assert claim_support('Seven mills stood there.', ['The village had mills, seven of them.']) > 0.1\n"
        "assert 'torch' not in sys.modules and 'sentence_transformers' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
