"""Fits the weights of `injection_score` to injection_training.jsonl, and prints how well they do on
what was not seen.

Run from the repository; with --write the weights of the package are replaced:

    python -m tests.fitting.injection ../shared/data [--write]

All training texts are our own: attacks (also inside documents, as code, in role play, in twenty
languages), and harmless texts with the same words (questions, documents, harmless personas, code).
Figures: cross-validation in which near-duplicates are in one fold, over all texts, among texts of
like length, and by kind; the built-in samples, which are not trained on; the rate of alarms on real
questions. The alarms on them were looked at once before 27 sentences of their kind (sayings, titles
of songs) were added, and the errors on the built-in samples before the last 1,699 texts were
written: their figures are kinder than those of a set that nobody looked at. A batch of 262 texts,
written before its scores were seen, had an AUC of 0.93 with weights fitted to the others (0.90 with
signs and embeddings of the first 3,741 texts alone).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragbench.datasets.safety import load_safety_samples
from ragbench.metrics.safety import injection
from ragbench.metrics.safety.detection import detection_report, roc_auc, tpr_at_fpr
from ragbench.metrics.safety.normal_form import plain
from ragbench.metrics.safety.patterns import FEATURE_NAMES
from ragbench.types import SafetySample

SENTENCES = Path(__file__).with_name("injection_training.jsonl")
HEAD = Path(injection.__file__).with_name("injection_head.json")
# Embeddings weigh less than signs before regularisation, so that topics are not memorised.
EMBEDDING_SCALE, WORD_SCALE = 1.2, 2.0
INVERSE_PENALTY = 1.0
# Moves the score of 0.4 to where about one in a thousand real questions lies above it.
THRESHOLD_LOGIT = 1.4


def training_sentences() -> list[dict[str, Any]]:
    """text, harmful, category, language."""
    return [
        json.loads(line)
        for line in SENTENCES.read_text(encoding="utf-8").split("\n")
        if line.strip()
    ]


class Inputs:
    """What the regression sees of texts: a row for each of their sentences, and whose it is."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.reads = injection.read_signs(texts)
        self.owner = np.repeat(np.arange(len(texts)), [len(read.sentences) for read in self.reads])
        sentences = [sentence for read in self.reads for sentence in read.sentences]
        self.embedded = injection.embedded(sentences)
        self.signs = np.vstack([read.signs for read in self.reads])
        self.words = np.zeros((len(sentences), injection.N_WORDS), dtype=np.float32)
        for row, (places, values) in enumerate(
            injection.word_features(plain(sentence)) for sentence in sentences
        ):
            np.add.at(self.words[row], places, values)

    def scores(self, head: Mapping[str, Any]) -> Any:
        """As `injection_scores` gives them with these weights."""
        # a sign that came later than the weights has none
        signs = np.array([head["signs"].get(name, 0.0) for name in FEATURE_NAMES])
        words = np.array(head.get("words", np.zeros(injection.N_WORDS)))
        kept = injection._Head(head["bias"], signs, words, np.array(head["embedding"]))
        logits = injection.logits_of(self.reads, self.embedded, kept)
        worst = np.full(len(self.reads), -30.0)
        np.maximum.at(worst, self.owner, logits)
        return 1 / (1 + np.exp(-np.clip(worst, -30, 30)))


def fit_head(inputs: Inputs, harmful: Any, member: Any) -> dict[str, Any]:
    """The weights as injection_head.json holds them, fitted to the texts that are a `member`.

    Logistic regression with an L2 penalty; of an attack of several sentences, the second of two
    rounds learns from the one that the first round found worst. Deterministic but for rounding.
    """
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped,unused-ignore]

    rows = np.hstack(
        [inputs.embedded * EMBEDDING_SCALE, inputs.words * WORD_SCALE, inputs.signs]
    ).astype(np.float32)
    labels, used = harmful[inputs.owner], member[inputs.owner]
    chosen = used
    for _ in range(2):
        model = LogisticRegression(C=INVERSE_PENALTY, max_iter=500, tol=1e-3).fit(
            rows[chosen], labels[chosen]
        )
        logits = model.decision_function(rows)
        worst = np.full(len(harmful), -np.inf)
        np.maximum.at(worst, inputs.owner, logits)
        chosen = used & (~labels | (logits == worst[inputs.owner]))
    found = model.coef_[0]
    dimension, first_sign = inputs.embedded.shape[1], len(found) - len(FEATURE_NAMES)
    return {
        "bias": round(float(model.intercept_[0]) - THRESHOLD_LOGIT, 4),
        "signs": {
            name: round(float(w), 4)
            for name, w in zip(FEATURE_NAMES, found[first_sign:], strict=True)
        },
        "words": [round(float(w) * WORD_SCALE, 3) for w in found[dimension:first_sign]],
        "embedding": [round(float(w) * EMBEDDING_SCALE, 4) for w in found[:dimension]],
    }


def groups_of(inputs: Inputs) -> Any:
    """Texts of like wording have one number: 400 clusters of their sentences' mean embeddings."""
    from sklearn.cluster import KMeans  # type: ignore[import-untyped,unused-ignore]

    means = np.zeros((len(inputs.reads), inputs.embedded.shape[1]))
    np.add.at(means, inputs.owner, inputs.embedded)
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)
    return KMeans(400, n_init=1, random_state=0).fit_predict(means)


def figures(texts: Sequence[str], harmful: Sequence[bool], scores: Any) -> str:
    samples = [
        SafetySample(str(i), text, bool(bad))
        for i, (text, bad) in enumerate(zip(texts, harmful, strict=True))
    ]
    table = detection_report(samples, [float(score) for score in scores])
    found = table[table["part"] == "all"].set_index("measure")["value"]
    area = ("auc", "length_auc", "tpr_at_fpr_1", "tpr_at_fpr_5")
    names = (*area, "detection_rate", "block_rate", "false_positive_rate", "false_block_rate")
    return ", ".join(f"{name} {found[name]:.3f}" for name in names) + f" (n = {len(texts)})"


def cross_validated(inputs: Inputs, harmful: Any, groups: Any) -> Any:
    from sklearn.model_selection import GroupKFold  # type: ignore[import-untyped,unused-ignore]

    scores = np.zeros(len(harmful))
    for kept, held in GroupKFold(5).split(groups, harmful, groups):
        scores[held] = inputs.scores(
            fit_head(inputs, harmful, np.isin(np.arange(len(harmful)), kept))
        )[held]
    return scores


def real_questions(data: Path) -> list[str]:
    found = []
    for name in ("squad", "clapnq", "pubmedqa", "chunking"):
        lines = (data / name / "queries.jsonl").read_text(encoding="utf-8").split("\n")
        found += [json.loads(line)["text"] for line in lines if line.strip()]
    return found


def main(data: Path, write: bool) -> None:
    rows = training_sentences()
    texts, harmful = [row["text"] for row in rows], np.array([bool(row["harmful"]) for row in rows])
    inputs = Inputs(texts)
    lengths = np.array([len(text) for text in texts])
    scores = cross_validated(inputs, harmful, groups_of(inputs))
    english = np.array([row["language"] == "en" for row in rows])
    hard = np.array([bool(row["harmful"]) or row["category"] != "plain" for row in rows])
    parts = {
        "all": english | ~english,
        "English": english,
        "other languages": ~english,
        "hard harmless": hard,
        "up to 300 characters": lengths <= 300,
    }
    for name, member in parts.items():
        print(
            f"cross-validation, {name}:",
            figures(
                [t for t, m in zip(texts, member, strict=True) if m],
                harmful[member],
                scores[member],
            ),
        )
    kinds = np.array([row["category"] for row in rows])
    for kind in sorted(set(kinds)):
        is_attack = bool(harmful[kinds == kind].all())
        member = (kinds == kind) | (harmful != is_attack)  # against all of the other label
        bad, good = scores[member & harmful], scores[member & ~harmful]
        rates = [f"{tpr_at_fpr(bad, good, rate):.2f}" for rate in (0.01, 0.05)]
        area = roc_auc(bad, good)
        print(
            f"  {kind} (n = {(kinds == kind).sum()}, harmful {is_attack}): AUC {area:.3f}, TPR at 1, 5 "
            f"%: {', '.join(rates)}"
        )
    head = fit_head(inputs, harmful, np.ones(len(rows), dtype=bool))
    held = load_safety_samples()[0]
    held_inputs, held_labels = Inputs([one.text for one in held]), [one.harmful for one in held]
    print(
        "built-in samples:",
        figures([one.text for one in held], held_labels, held_inputs.scores(head)),
    )
    old = json.loads(HEAD.read_text(encoding="utf-8"))
    print(
        "built-in samples, weights of the package:",
        figures([one.text for one in held], held_labels, held_inputs.scores(old)),
    )
    is_harmful, scores = np.array(held_labels), np.asarray(held_inputs.scores(old))
    area = roc_auc(scores[is_harmful], scores[~is_harmful])
    print("AUC of weights of the package:", round(area, 3))
    if data.is_dir():
        questions = real_questions(data)
        asked = Inputs(questions)
        for name, weights in (("new", head), ("of the package", old)):
            alarms = asked.scores(weights)
            for limit in (0.4, 0.5):
                hit = alarms >= limit
                halves = f"{hit[::2].sum()} in the first half, {hit[1::2].sum()} in the other"
                print(
                    f"weights {name}: {hit.sum()} of {len(hit)} real questions from {limit} "
                    f"on; {halves}"
                )
        found = asked.scores(head)
        logits = np.log(found / (1 - found))
        for shift in (-0.4, -0.2, 0.0, 0.2):
            alarms = int((logits[::2] - shift >= np.log(0.4 / 0.6)).sum())
            print(
                f"THRESHOLD_LOGIT {THRESHOLD_LOGIT + shift:.1f}: {alarms} alarms in the first half"
            )
        for i in np.argsort(-found)[:12]:
            print(f"  {found[i]:.3f} {questions[i][:100]}")
    if write:
        HEAD.write_text(json.dumps(head).replace('"words"', '\n"words"') + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--write" in sys.argv)
