"""Support by a named NLI cross-encoder instead of the built-in evidence."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ragbench.errors import ConfigError, ModelError
from ragbench.metrics.groundedness.words import Page, words
from ragbench.retrieval.weights import Weights

_WINDOW = 3  # sentences
_WINDOWS = 5  # per sentence of the answer


def entailment(requests: Sequence[tuple[Sequence[str], Page]], model: str) -> list[list[float]]:
    """Return for each request the probability that the page entails (logically supports) each of its
    sentences, in [0, 1].

    A page is all contexts of an answer. The model reads windows of it: up to three sentences in a row
    of one context. The probability of a sentence is the highest over up to five windows, those that
    share most of its words by weight. All pairs of a window and a sentence go through the model in one
    call, each distinct pair once, the longest first.

    Args:
        requests: sentences, and the page that may entail them; with an empty page no sentence, since
            there is no window.
        model: the name of a cross-encoder.
    """
    pairs_of_requests = []  # for each request, for each sentence: (window, sentence)
    for sentences, page in requests:
        pairs_of_sentences = []
        for sentence in sentences:
            windows = _windows(sentence, page)
            pairs_of_sentences.append([(window, sentence) for window in windows])
        pairs_of_requests.append(pairs_of_sentences)
    distinct = {
        pair
        for pairs_of_sentences in pairs_of_requests
        for pairs in pairs_of_sentences
        for pair in pairs
    }
    longest_first = sorted(distinct, key=lambda pair: (-len(pair[0]) - len(pair[1]), pair))
    probability = dict(zip(longest_first, _predict(longest_first, model), strict=True))
    return [
        [max(probability[pair] for pair in pairs) for pairs in pairs_of_sentences]
        for pairs_of_sentences in pairs_of_requests
    ]


def _predict(pairs: Sequence[tuple[str, str]], model: str) -> list[float]:
    """Return the probability of entailment of each pair (premise, sentence), in [0, 1].

    Raises:
        ModelError: the model returns values that are not finite.
    """
    if not pairs:
        return []
    encoder, column = load_support_model(model)
    has_classes = column is not None  # else its only output is a probability
    outputs = encoder.predict(
        list(pairs), batch_size=16, show_progress_bar=False, apply_softmax=has_classes
    )
    values = np.asarray(outputs, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ModelError(
            f"{model} returned values that are not finite numbers; its weights are damaged"
        )
    chosen = values.reshape(len(pairs)) if column is None else values[:, column]
    probabilities: list[float] = np.clip(chosen, 0.0, 1.0).tolist()
    return probabilities


@lru_cache(maxsize=2)
def load_support_model(model: str) -> tuple[Any, int | None]:
    """Return a cross-encoder and the position of entailment among its outputs; None if it has a single
    output, which is then the probability of entailment. The last two models stay in memory.

    Raises:
        ConfigError: the model has several outputs, and none of their labels is entailment.
        ModelError: the model could not be loaded.
    """
    encoder = Weights(model, "CrossEncoder").model
    labels = {int(number): str(label) for number, label in encoder.model.config.id2label.items()}
    if len(labels) == 1:
        return encoder, None
    for number, label in labels.items():
        if label.lower().startswith(("entail", "supported", "consistent")):
            return encoder, number
    raise ConfigError(
        f"the cross-encoder {model!r} has the labels {', '.join(labels.values())}, of which none "
        "is entailment; expected a model for NLI whose config.json names 'entailment' in id2label"
    )


def _windows(sentence: str, page: Page) -> list[str]:
    """Return the texts of the windows of a page that share most words with a sentence, best first.

    A window is up to `_WINDOW` sentences in a row of one context; one begins at each sentence of the
    page. A shared word counts by its weight.
    """
    weight_of = {word.stem: word.weight for word in words(sentence)}
    shared_weights = []  # of each window
    texts = []
    for start, context in enumerate(page.context_of):
        n_in_context = page.context_of[start : start + _WINDOW].count(context)
        window = page.sentences[start : start + n_in_context]
        stems = frozenset().union(*(each.stems for each in window))
        shared_weights.append(sum(weight_of[stem] for stem in weight_of if stem in stems))
        texts.append(" ".join(each.text for each in window))
    best_first = sorted(range(len(texts)), key=lambda start: (-shared_weights[start], start))
    return [texts[start] for start in best_first[:_WINDOWS]]
