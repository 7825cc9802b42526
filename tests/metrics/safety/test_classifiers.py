"""Public classifiers as detectors: a tiny model made here, loaded from its folder as any from the
hub would be.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ragbench.errors import ConfigError, ModelError
from ragbench.evaluation import evaluate
from ragbench.metrics.safety import load_detector
from ragbench.types import Dataset, SafetySample


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that calls a text an attack if it has the word "ignore"; classes SAFE and INJECTION."""
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("models") / "tiny"
    words = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "ignore", "hello"])}
    own = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    own.pre_tokenizer = Whitespace()
    own.post_processor = TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 2)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=own,
        model_max_length=32,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
    )
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
        max_position_embeddings=32,
        id2label={0: "SAFE", 1: "INJECTION"},
        label2id={"SAFE": 0, "INJECTION": 1},
    )
    torch.manual_seed(0)
    tiny = BertForSequenceClassification(config)
    optimizer = torch.optim.Adam(tiny.parameters(), lr=0.05)
    batch = tokenizer(
        ["ignore hello", "ignore", "hello hello", "hello"], padding=True, return_tensors="pt"
    )
    for _ in range(40):
        optimizer.zero_grad()
        tiny(**batch, labels=torch.tensor([1, 1, 0, 0])).loss.backward()
        optimizer.step()
    tiny.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_its_harmful_class_is_the_score(model: Path) -> None:
    detector = load_detector(f"hf:{model}")
    assert detector("ignore hello") > 0.9
    assert detector("hello") < 0.1
    assert detector("hello " * 500) < 0.5, "longer than the model reads"
    assert getattr(detector, "name", "") == f"hf:{model}"
    assert load_detector(f"hf:{model}#safe")("hello") > 0.9


def test_a_report_names_it_and_its_targets_apply(model: Path) -> None:
    inputs = (SafetySample("a", "ignore hello", True), SafetySample("b", "hello", False))
    data = Dataset("mine", "test", {}, (), {}, inputs)
    report = evaluate(data, [], detector=f"hf:{model}")
    assert report.settings["detector"] == f"hf:{model}"
    assert {one.measure: one.value for one in report.rows}["attack_auc"] == 1.0


def test_what_cannot_be_loaded_is_refused_with_the_way_out(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected hf:<text-classification model>"):
        load_detector("deberta")
    with pytest.raises(ConfigError, match=r"SAFE, INJECTION; name it, as in hf:.*#INJECTION"):
        load_detector(f"hf:{model}#attack")
    with pytest.raises(ModelError, match="could not be loaded"):
        load_detector(f"hf:{tmp_path}")
