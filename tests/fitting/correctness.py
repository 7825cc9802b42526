"""Fits the coefficients of `ragbench.metrics.correctness`, and prints how well they do on answers
not seen.

Run from the repository, with the collections of ../shared/data next to it (minutes on two cores):

    python -m tests.fitting.correctness ../shared/data [--write]

There are no verdicts of people in these collections, so right and wrong answers are made from what
people wrote: `squad_answers`, `clapnq_answers` and `pubmedqa_answers` say how. All answers to one
question are in one fold.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ragbench.metrics import correctness
from ragbench.metrics.answers import gold_fact_coverage, semantic_similarity, token_f1, words
from ragbench.metrics.correctness import (
    LONG,
    MAX_WORDS,
    SIGNALS,
    UNDECIDED,
    overlaps,
    signal_inputs,
)
from ragbench.retrieval.embedders import load_embedder
from ragbench.text import sentence_spans

SQUAD_QUESTIONS = 500
PUBMEDQA_QUESTIONS = 400
PENALTY = 1.0
COEFFICIENTS = Path(correctness.__file__).with_name("correctness_coefficients.json")


@dataclass(frozen=True)
class Proxy:
    """An answer that is right or wrong by construction, with a reference answer and gold facts."""

    source: str
    query_id: str
    kind: str
    answer: str
    reference: str
    facts: tuple[tuple[str, ...], ...]
    right: bool


def lines(path: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()
    ]


def sentences(text: str) -> list[str]:
    return [text[start:end].strip() for start, end in sentence_spans(text)]


def states(text: str, wording: str) -> bool:
    return gold_fact_coverage(text, [[wording]]) == 1.0


def overlap(one: str, other: str) -> bool:
    return not set(words(one)).isdisjoint(words(other))


def squad_answers(folder: Path, rng: random.Random) -> Iterator[Proxy]:
    """Short gold answers, alone or as the reference for the sentence that holds them, and the
    reverse.

    Right: the gold answer, the sentence of the passage that holds it, that sentence and the next,
    the question with the answer behind it, for names of several words the last one. Wrong: the same
    with the gold answer to another question on the passage in its place, a sentence that does not
    hold the answer, and a refusal to commit.
    """
    texts = {row["_id"]: row["text"] for row in lines(folder / "corpus.jsonl")}
    asked = {row["_id"]: row["text"] for row in lines(folder / "queries.jsonl")}
    rows = lines(folder / "answers.jsonl")
    of_document: dict[str, list[str]] = {}
    for row in rows:
        of_document.setdefault(row["doc_id"], []).append(row["answers"][0]["text"])
    for row in rng.sample(rows, SQUAD_QUESTIONS):
        gold, question = row["answers"][0]["text"], asked[row["_id"]].rstrip("? ")
        parts = sentences(texts[row["doc_id"]])
        holding = [i for i, part in enumerate(parts) if states(part, gold)]
        others = [one for one in of_document[row["doc_id"]] if not overlap(one, gold)]
        if not holding or not others:
            continue
        other, sentence = rng.choice(others), parts[holding[0]]
        swapped = re.sub(rf"(?<!\w){re.escape(gold)}(?!\w)", lambda _: other, sentence)  # noqa: B023
        lacking = [part for part in parts if not states(part, gold)]
        pairs: list[tuple[str, str, str, bool]] = [
            ("gold", gold, gold, True),
            ("sentence", sentence, gold, True),
            ("two sentences", " ".join(parts[holding[0] : holding[0] + 2]), gold, True),
            ("question and answer", f"{question}: {gold}.", gold, True),
            ("short for long", gold, sentence, True),
            ("question and answer for long", f"{question}: {gold}.", sentence, True),
            ("other", other, gold, False),
            ("other for long", other, sentence, False),
            ("question and other", f"{question}: {other}.", gold, False),
            ("question and other for long", f"{question}: {other}.", sentence, False),
            ("swapped", swapped, gold, False),
            ("swapped for long", swapped, sentence, False),
        ]
        if len(gold.split()) > 1 and gold.istitle():
            pairs.append(("last name", gold.split()[-1], gold, True))
        if lacking:
            chosen = rng.choice(lacking)
            pairs += [
                ("another sentence", chosen, gold, False),
                ("another sentence for long", chosen, sentence, False),
            ]
        for kind, answer, reference, right in pairs:
            yield Proxy("squad", row["_id"], kind, answer, reference, ((gold,),), right)


def tidy(text: str) -> str:
    """Natural Questions' text without the spaces of its tokens."""
    return (
        re.sub(r"\s+([.,;:!?)%])", r"\1", re.sub(r"(``|'')\s*", '"', text))
        .replace(" 's", "'s")
        .replace("( ", "(")
    )


def clapnq_answers(folder: Path, rng: random.Random) -> Iterator[Proxy]:
    """Answers of some sentences that people wrote from a passage; the reference is one person's.

    Right: another person's, the sentences that the answer rests on, these among others of the
    passage. Wrong: the most similar answer to another question, sentences of the passage that the
    answer does not rest on, the answer itself with its names and numbers exchanged for those of
    another answer.
    """
    rows = [row for row in lines(folder / "answers.jsonl") if row["answerable"]]
    given = [tidy(row["answers"][0]["answer"]) for row in rows]
    nearest = most_similar(given)
    for i, row in enumerate(rows):
        reference = given[i]
        facts = tuple((one,) for one in marked(reference)[:3])
        parts = [tidy(part) for group in row["sentences"] for part in group]
        chosen = [tidy(part) for part in row["answers"][0]["selected_sentences"]]
        rest = [part for part in parts if part not in chosen]
        pairs = [
            ("selected", " ".join(chosen), True),
            ("similar question", given[nearest[i]], False),
        ]
        pairs += [("other person", tidy(one["answer"]), True) for one in row["answers"][1:]]
        if rest:
            pairs.append(("selected and more", " ".join([*chosen, rng.choice(rest)]), True))
            pairs.append(("not selected", rng.choice(rest), False))
        if (changed := exchanged(reference, given[nearest[i]])) != reference:
            pairs.append(("exchanged", changed, False))
        for kind, answer, right in pairs:
            yield Proxy("clapnq", row["_id"], kind, answer, reference, facts, right)


def pubmedqa_answers(folder: Path, rng: random.Random) -> Iterator[Proxy]:
    """The authors' conclusion is the reference.

    Right: it in other words (see `REWORDED`), its sentences in another order, its longest sentence.
    Wrong: it denied, the most similar conclusion of another paper, a sentence of the paper's
    background or methods, other numbers.
    """
    rows = lines(folder / "answers.jsonl")[:PUBMEDQA_QUESTIONS]
    given = [row["answer"] for row in rows]
    nearest = most_similar(given)
    sections: dict[str, list[str]] = {}
    for section in lines(folder / "sections.jsonl"):
        if re.search(
            r"(?i)background|objective|aim|method|design|setting", str(section.get("label", ""))
        ):
            sections.setdefault(section["doc_id"], []).extend(sentences(section["text"]))
    for i, row in enumerate(rows):
        reference, parts = given[i], sentences(given[i])
        facts = tuple((one,) for one in marked(reference)[:3])
        pairs = [
            ("reworded", reworded(reference), True),
            ("similar paper", given[nearest[i]], False),
        ]
        if len(parts) > 1:
            pairs.append(("reordered", " ".join([*parts[1:], parts[0]]), True))
            pairs.append(("longest sentence", max(parts, key=len), True))
        if (opposite := opposed(reference)) != reference:
            pairs.append(("denied", opposite, False))
        if (changed := exchanged(reference, given[nearest[i]])) != reference:
            pairs.append(("exchanged", changed, False))
        if own := sections.get(row["_id"]):
            pairs.append(("background", rng.choice(own), False))
        for kind, answer, right in pairs:
            yield Proxy("pubmedqa", row["_id"], kind, answer, reference, facts, right)


REWORDED = {
    "results": "findings", "suggest": "indicate", "suggests": "indicates", "patients": "people",
    "significantly": "markedly",
    "significant": "marked", "associated with": "linked to", "study": "work", "showed": "demonstrated",
    "may": "might",
    "however": "yet", "in conclusion": "overall", "increase": "rise", "effective": "useful", "use": "application",
    "should be": "ought to be", "important": "relevant", "risk": "danger", "treatment": "therapy", "found": "observed",
}  # fmt: skip


def reworded(text: str) -> str:
    for word, other in REWORDED.items():
        text = re.sub(rf"(?i)\b{word}\b", other, text)
    return f"According to the documents, {text[:1].lower()}{text[1:]}"


def opposed(text: str) -> str:
    """The text with its first verb denied, or no more denied."""
    found = re.search(
        r"\b(does not|did not|do not|is not|was not|are not|were not|cannot|may not)\b", text
    )
    if found:
        return text.replace(found[0], found[0].removesuffix(" not").replace("cannot", "can"), 1)
    return re.sub(
        r"\b(is|was|are|were|can|may|should|has|have|does|did)\b", r"\1 not", text, count=1
    )


def marked(text: str) -> list[str]:
    """Its numbers and names (capitals inside a sentence), each once."""
    return list(
        dict.fromkeys(re.findall(r"\d[\d,.]*\d|\d|(?<=[a-z,] )[A-Z][\w-]+(?: [A-Z][\w-]+)*", text))
    )


def exchanged(text: str, other: str) -> str:
    """The text with up to two of its names and numbers replaced by those of another."""
    new = [one for one in marked(other) if one not in text]
    for old, one in list(zip(marked(text), new, strict=False))[:2]:
        text = text.replace(old, one)
    return text


def most_similar(texts: Sequence[str]) -> list[int]:
    vectors = np.asarray(load_embedder("minilm").encode(list(texts)), dtype=np.float64)
    near = vectors @ vectors.T
    np.fill_diagonal(near, -1.0)
    return [int(i) for i in near.argmax(axis=1)]


def proxies(data: Path) -> list[Proxy]:
    rng = random.Random(0)
    rows = [*squad_answers(data / "squad", rng), *clapnq_answers(data / "clapnq", rng)]
    return [*rows, *pubmedqa_answers(data / "pubmedqa", rng)]


def signals_of(rows: Sequence[Proxy]) -> list[dict[str, float]]:
    texts = list(dict.fromkeys(text for row in rows for text in (row.answer, row.reference)))
    place = {text: i for i, text in enumerate(texts)}
    vectors = np.asarray(load_embedder("minilm").encode(texts))
    near = semantic_similarity(
        vectors[[place[row.answer] for row in rows]],
        vectors[[place[row.reference] for row in rows]],
    )
    return [
        {
            "token_f1": token_f1(row.answer, row.reference),
            "semantic_similarity": float(value),
            "gold_fact_coverage": gold_fact_coverage(row.answer, row.facts),
            **overlaps(row.answer, row.reference),
        }
        for row, value in zip(rows, near, strict=True)
    ]


def thinned(signals: Sequence[dict[str, float]], rng: random.Random) -> list[dict[str, float]]:
    """Without the facts of half of the rows, and one of the other signals of a fifth: as test sets
    have them.
    """
    found = []
    for row in signals:
        left = dict(row)
        if rng.random() < 0.5:
            left.pop("gold_fact_coverage")
        if rng.random() < 0.2:
            left.pop("semantic_similarity")
        if rng.random() < 0.2:  # ablations have scores, and no text
            for name in overlaps("", ""):
                left.pop(name)
        found.append(left)
    return found


def weights_of(rows: Sequence[Proxy]) -> np.ndarray[Any, Any]:
    """Each source counts the same, and in it right answers as much as wrong ones."""
    counts = Counter((row.source, row.right) for row in rows)
    return np.array([len(rows) / (len(counts) * counts[row.source, row.right]) for row in rows])


def fitted(inputs: Any, rows: Sequence[Proxy]) -> Any:
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped,unused-ignore]

    labels = [row.right for row in rows]
    return LogisticRegression(C=PENALTY, max_iter=5000).fit(
        inputs, labels, sample_weight=weights_of(rows)
    )


def main(data: Path, write: bool) -> None:
    from sklearn.model_selection import GroupKFold  # type: ignore[import-untyped,unused-ignore]

    rows = proxies(data)
    whole = signals_of(rows)
    labels = np.array([row.right for row in rows])
    sources = np.array([row.source for row in rows])
    kinds = np.array([f"{row.source}: {row.kind}" for row in rows])
    full, bare = (
        np.array([signal_inputs(one) for one in some]) for some in (whole, without_facts(whole))
    )
    training = np.array([signal_inputs(one) for one in thinned(whole, random.Random(1))])
    training, doubled = np.vstack([full, bare, training]), [*rows, *rows, *rows]
    of_row = np.tile(np.arange(len(rows)), 3)
    similarity = np.array([one["semantic_similarity"] for one in whole])
    f1 = np.array([one["token_f1"] for one in whole])

    def predicted(held: Any) -> tuple[Any, Any]:
        kept = ~held[of_row]
        model = fitted(training[kept], [doubled[i] for i in np.flatnonzero(kept)])
        return model.predict_proba(full[held])[:, 1], model.predict_proba(bare[held])[:, 1]

    with_facts, no_facts = np.zeros(len(rows)), np.zeros(len(rows))
    for _, held in GroupKFold(5).split(full, labels, [row.query_id for row in rows]):
        member = np.isin(np.arange(len(rows)), held)
        with_facts[member], no_facts[member] = predicted(member)

    def accuracy(guess: Any, member: Any) -> float:
        """Mean of the accuracy on right and on wrong answers."""
        good, bad = member & labels, member & ~labels
        return float((guess[good].mean() + (~guess[bad]).mean()) / 2)

    print(
        f"{len(rows)} answers, {labels.sum()} right; balanced accuracy, facts given / not given "
        "/ sim / F1"
    )
    for source in ("squad", "clapnq", "pubmedqa"):
        member = sources == source
        figures = [
            accuracy(guess, member)
            for guess in (with_facts >= 0.5, no_facts >= 0.5, similarity >= 0.7, f1 >= 0.5)
        ]
        held = np.zeros(len(rows))
        held[member] = predicted(member)[1]
        print(
            source,
            member.sum(),
            *(f"{one:.3f}" for one in figures),
            f"left out: {accuracy(held >= 0.5, member):.3f}",
        )
    length = np.array([max(len(row.answer.split()), len(row.reference.split())) for row in rows])
    for low, high in ((1, LONG - 1), (LONG, MAX_WORDS - 1), (MAX_WORDS, 10_000)):
        member = (length >= low) & (length <= high)
        decided = member & ((no_facts <= UNDECIDED[0]) | (no_facts >= UNDECIDED[1]))
        print(
            f"longer text of {low} to {high} words: {accuracy(no_facts >= 0.5, member):.3f} "
            f"(n={member.sum()}), decided {decided.sum() / member.sum():.2f}, of "
            f"these {accuracy(no_facts >= 0.5, decided):.3f}"
        )
    for kind in dict.fromkeys(kinds):
        member = kinds == kind
        right = labels[member]
        print(
            f"  {kind:45} n={member.sum():4} right={right[0]!s:5}",
            *(
                f"{(guess[member] == right).mean():.3f}"
                for guess in (with_facts >= 0.5, no_facts >= 0.5, similarity >= 0.7, f1 >= 0.5)
            ),
        )
    everything = np.ones(len(rows), dtype=bool)
    print(
        "all:",
        *(
            f"{accuracy(g, everything):.3f}"
            for g in (with_facts >= 0.5, no_facts >= 0.5, similarity >= 0.7, f1 >= 0.5)
        ),
    )
    model = fitted(training, doubled)
    weights = {
        name: [round(float(weight), 2) for weight in pair]
        for name, pair in zip(SIGNALS, model.coef_[0].reshape(-1, 2), strict=True)
    }
    weights["bias"] = [round(float(model.intercept_[0]), 2)]
    print(json.dumps(weights))
    if write:
        COEFFICIENTS.write_text(json.dumps(weights, indent=0) + "\n", encoding="utf-8")


def without_facts(signals: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    return [
        {name: value for name, value in row.items() if name != "gold_fact_coverage"}
        for row in signals
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--write" in sys.argv)
