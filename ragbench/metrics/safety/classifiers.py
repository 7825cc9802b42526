"""Public text classifiers as detectors of attacks, in place of `injection_score`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ragbench.errors import ConfigError, ModelError
from ragbench.extension import FORM, imported, is_import
from ragbench.retrieval.weights import first_line, quietly
from ragbench.testsets.cases import HARMFUL, HARMLESS

Detector = Callable[[str], float]
"""A function text -> score in [0, 1], higher for what looks more like an attack."""


@dataclass(frozen=True, slots=True)
class Classifier:
    """A detector of this `name`: the probability of the `harmful` classes of a pipeline of
    transformers.
    """

    name: str
    harmful: frozenset[str]
    pipeline: Any

    def __call__(self, text: str) -> float:
        classes: list[Mapping[str, Any]] = self.pipeline(text, truncation=True, top_k=None)
        return min(1.0, sum(float(row["score"]) for row in classes if row["label"] in self.harmful))


def load_detector(name: str) -> Detector:
    """Return the detector of this name: "hf:<text-classification model>", a folder or a name on the
    Hugging Face hub.

    Its score is the probability of the classes that are called harmful ("INJECTION", "jailbreak",
    "unsafe", ...; of LABEL_0 and LABEL_1 the second). "hf:<model>#<class>" names another class. A
    text longer than the model can read is read up to there. The model is loaded (and, if it is not
    on this disk, downloaded) at once.

    "package.module:attribute" is a function of your own, text -> score in [0, 1].

    Raises:
        ConfigError: another name, or a model whose classes do not tell which is harmful.
        ModelError: the model cannot be loaded.
    """
    if is_import(name, ["hf"]):
        detector = imported(name, "detector")
        if not callable(detector):
            raise ConfigError(
                f"detector {name!r} cannot be called; expected a function text -> score in [0, 1]"
            )
        function: Detector = detector
        return function
    kind, _, rest = name.partition(":")
    model, _, chosen = rest.partition("#")
    if kind != "hf" or not model:
        raise ConfigError(
            f"detector {name!r} is not known; expected hf:<text-classification model>, such as "
            f"hf:protectai/deberta-v3-base-prompt-injection-v2, {FORM}, or nothing for the "
            "built-in one"
        )
    classify = _pipeline(model)
    labels = [str(label) for label in classify.model.config.id2label.values()]
    return Classifier(name, frozenset(_harmful(model, labels, chosen)), classify)


def _pipeline(model: str) -> Any:
    """Return the text-classification pipeline of transformers; ModelError if it cannot be loaded."""
    with quietly():
        from transformers import pipeline

        try:
            return pipeline("text-classification", model=model, device="cpu")
        except Exception as exc:
            raise ModelError(
                f"the text-classification model {model!r} could not be loaded "
                f"({first_line(exc)}); give a folder with its weights and tokenizer, or the name "
                "of one on the Hugging Face hub and a connection to it"
            ) from exc


def _harmful(model: str, labels: list[str], chosen: str) -> set[str]:
    """Return the labels of a classifier that mean an attack, by the first of these rules that applies:

    1. the `chosen` label, if one is chosen;
    2. LABEL_1, if the labels are LABEL_0 and LABEL_1;
    3. labels whose name means harm, such as "INJECTION";
    4. of two labels, the one whose name does not mean harmless, such as "SAFE".

    Raises:
        ConfigError: no label or every label would mean an attack.
    """
    if chosen:
        harmful = {label for label in labels if label.casefold() == chosen.casefold()}
    elif sorted(labels) == ["LABEL_0", "LABEL_1"]:  # unnamed classes: 1 is the positive one
        harmful = {"LABEL_1"}
    else:
        word_of = {label: label.casefold().replace(" ", "_").replace("-", "_") for label in labels}
        harmful = {label for label in labels if word_of[label] in HARMFUL}
        if not harmful and len(labels) == 2:  # "SAFE" and something else
            harmful = {label for label in labels if word_of[label] not in HARMLESS}
    if not harmful or len(harmful) == len(labels):
        raise ConfigError(
            f"which class of {model!r} is an attack is not known: it has {', '.join(labels)}; "
            f"name it, as in hf:{model}#{labels[-1]}"
        )
    return harmful
