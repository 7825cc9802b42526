"""Tables and sentences about gold labels: reference answers and generated test sets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from ragbench.generation import STATES, Draft, drafts_table
from ragbench.retrieval.embedders import load_embedder
from ragbench.types import Answer, Chunk, Dataset, Embedder

_WORD = re.compile(r"\w+")
_LONG = 4  # shorter words are mostly grammar, which any text holds


def reference_table(
    dataset: Dataset, sources: Mapping[str, Sequence[Chunk]], answers: Sequence[Answer]
) -> pd.DataFrame:
    """Generated reference answers, first those with the fewest words from their sources, to be read first.

    Returns:
        query_id, question, outcome, in_sources (fraction of the answer's words of four letters and more that its
        sources hold, in [0, 1]; missing without an answer), answer (or why there is none), sources (document ids).
    """
    rows = []
    for answer in answers:
        found = sources[answer.query_id]
        share = _held(answer.text, found) if answer.outcome == "success" else None
        documents = ", ".join(dict.fromkeys(chunk.doc_id for chunk in found))
        question, text = dataset.queries[answer.query_id], answer.error or answer.text
        rows.append((answer.query_id, question, answer.outcome, share, text, documents))
    frame = pd.DataFrame(rows, columns=["query_id", "question", "outcome", "in_sources", "answer", "sources"])
    frame["in_sources"] = frame["in_sources"].astype("Float64")
    return frame.sort_values("in_sources", kind="stable", ignore_index=True)


def reference_findings(table: pd.DataFrame, asked_model: str) -> list[str]:
    """The outcome, in sentences."""
    counts = table["outcome"].value_counts().to_dict()
    written = counts.get("success", 0)
    lines = [f"**{written} of {len(table)}** reference answers were written by `{asked_model}`."]
    if silent := counts.get("no_results", 0):
        lines.append(f"For {silent} queries the model found no answer in the relevant documents: read these.")
    if lost := counts.get("failed", 0) + counts.get("blocked", 0) + counts.get("uncertain", 0):
        lines.append(f"{lost} gave no usable answer; run again to ask for what failed.")
    doubtful = table[table["in_sources"].lt(0.5).fillna(False)]
    if len(doubtful):
        lines.append(f"In {len(doubtful)} answers, less than half the words are in their sources: check these first.")
    lines.append('What you change in `answers.jsonl`, or mark with `"reviewed": true`, is yours and never replaced.')
    return lines


def topic_points(
    chunks: Sequence[Chunk],
    sampled: Sequence[Chunk],
    drafts: Sequence[Draft] = (),
    *,
    embedder: str | Embedder = "wordllama",
    limit: int = 5000,
) -> pd.DataFrame:
    """Where chunks lie in the plane in which their vectors differ most (two principal components).

    At most `limit` of the chunks that were not sampled are shown, evenly spread over them.

    Returns:
        x, y, state: "not sampled"; "sampled", or with drafts "accepted" (a question of it was) or "nothing accepted".
    """
    model = load_embedder(embedder)
    ids = {chunk.chunk_id for chunk in sampled}
    good = {draft.chunk_id for draft in drafts if draft.state == "accepted"}
    others = [chunk for chunk in chunks if chunk.chunk_id not in ids]
    others = others[:: max(1, -(-len(others) // limit))]
    shown = [*others, *sampled]
    vectors = model.encode([chunk.text for chunk in shown]).astype(np.float64)
    centred = vectors - vectors.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    plane = axes[:, ::-1][:, :2]
    plane *= np.where(plane[np.abs(plane).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)  # a direction has no sign of its own
    states = ["not sampled"] * len(others)
    states += [
        "sampled" if not drafts else "accepted" if chunk.chunk_id in good else "nothing accepted" for chunk in sampled
    ]
    x, y = (centred @ plane).T
    return pd.DataFrame({"x": x, "y": y, "state": states})


def draft_findings(drafts: Sequence[Draft], folder: str = "") -> list[str]:
    """The outcome, in sentences."""
    table = drafts_table(drafts)
    counts = dict(zip(table["state"], table["drafts"].tolist(), strict=True))
    accepted = counts.pop("accepted", 0)
    documents = len({draft.doc_id for draft in drafts if draft.state == "accepted"})
    lines = [f"**{accepted} of {len(drafts)}** drafts are accepted, about {documents} documents."]
    if counts:
        worst = max(counts, key=lambda state: counts[state])
        lines.append(f"Most were lost because: {STATES[worst]} ({counts[worst]}).")
    if again := counts.get("failed", 0) + counts.get("unchecked", 0):
        lines.append(f"{again} requests failed or could not be read; run again to ask for those that failed.")
    if accepted < 50:
        lines.append("Fewer than 50 questions only separate configurations that differ a lot: sample more chunks.")
    if folder and accepted:
        lines.append(f"Read some of them, then evaluate with the dataset `{folder}`.")
    return lines


def _held(answer: str, sources: Sequence[Chunk]) -> float | None:
    there = {word.casefold() for chunk in sources for word in _WORD.findall(chunk.text)}
    words = [word for word in map(str.casefold, _WORD.findall(answer)) if len(word) >= _LONG or word.isdecimal()]
    return sum(word in there for word in words) / len(words) if words else None
