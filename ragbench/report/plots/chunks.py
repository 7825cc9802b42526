"""Drawings of chunks: how long they are, and which parts of a document they bring to the answers."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ragbench.evaluation.output import SystemOutput
from ragbench.report.plots.figure import GREY, INK, colour_of, new_axes
from ragbench.text import token_offsets, token_ranges
from ragbench.types import Span

_LINE = 1500  # characters that a line of the map has at least
_MAX_LINES = 6
_COLOURS = np.array([[237, 237, 237], [86, 180, 233], [213, 94, 0], [0, 158, 115], [255, 255, 255]])
"""Red, green and blue of a character by its state: neither, retrieved, evidence, both, no text."""
_RETRIEVED, _EVIDENCE = 1, 2
_NO_TEXT = 4


def chunk_sizes(output: SystemOutput, retriever: str = "") -> Figure | None:
    """Draw a histogram of the chunks' sizes in tokens, for a system that is ragbench's own pipeline.

    Args:
        output: the output of the system, as in `Result.output`.
        retriever: decides the colour.

    Returns:
        None for another system, which keeps its chunks to itself.
    """
    if not output.searched:
        return None
    corpus = output.dataset.corpus
    texts = [document.full_text for document in corpus.values()]
    offsets_of = dict(zip(corpus, token_offsets(texts, output.tokenizer), strict=True))
    sizes = []
    for chunk in output.searched:
        first_token, end = token_ranges(offsets_of[chunk.doc_id], chunk.start, chunk.end)
        sizes.append(int(end - first_token))
    figure, axes = new_axes(8, 1.6)
    axes.hist(sizes, bins=40, color=colour_of(retriever) if retriever else GREY, alpha=0.6)
    axes.set(xlabel="tokens per chunk", ylabel="chunks")
    return figure


def evidence_map(output: SystemOutput, k: int) -> Figure | None:
    """Draw a document from end to end: its retrieved parts, and its gold evidence.

    The document is the one that holds evidence for the most questions. Blue: retrieved. Red: evidence
    that was not retrieved, so that no answer could use it. Green: evidence that was retrieved. Lines
    are the borders of chunks.

    Args:
        output: the output of the system, as in `Result.output`.
        k: how many chunks of each question count as retrieved.

    Returns:
        None for a system other than ragbench's own pipeline, and for a dataset without gold evidence.
    """
    doc_id = _document_with_most_evidence(output)
    if not output.searched or not doc_id:
        return None
    evidence = {
        case.query_id: [span for span in case.evidence if span.doc_id == doc_id]
        for case in output.dataset.cases
    }
    states = _states_of_characters(output, doc_id, evidence, k)
    n_lines = min(_MAX_LINES, len(states) // _LINE + 1)
    width = math.ceil(len(states) / n_lines)
    picture = np.full(n_lines * width, _NO_TEXT)  # the last line may end before its width
    picture[: len(states)] = states

    chunks = [chunk for chunk in output.searched if chunk.doc_id == doc_id]
    lines, columns = np.divmod([chunk.start for chunk in chunks], width)  # where chunks begin
    figure, axes = new_axes(10, 1.1 + 0.42 * n_lines)
    axes.imshow(_COLOURS[picture.reshape(n_lines, width)], aspect="auto", interpolation="nearest")
    axes.vlines(columns, lines - 0.45, lines + 0.45, color=INK, linewidth=0.8)
    axes.set(xlabel="character within the line", ylabel="line", yticks=range(n_lines))
    axes.set_title(f"{doc_id}: {len(chunks)} chunks, best {k} of each question", loc="left")
    return figure


def _document_with_most_evidence(output: SystemOutput) -> str:
    """Return the id of the document with gold evidence for the most questions; "" if none has any."""
    documents = []
    for case in output.dataset.cases:
        documents += list({span.doc_id for span in case.evidence})
    return str(pd.Series(documents).mode()[0]) if documents else ""


def _states_of_characters(
    output: SystemOutput, doc_id: str, evidence: Mapping[str, Sequence[Span]], k: int
) -> np.ndarray[tuple[int], np.dtype[np.int_]]:
    """Return the state of each character of a document: 1 = retrieved, 2 = evidence, 3 = both, 0 =
    neither.

    Args:
        evidence: query_id -> its gold evidence in this document. Chunks that were retrieved for other
            questions do not count.
        k: how many chunks of each question count as retrieved.
    """
    n_characters = len(output.dataset.corpus[doc_id].full_text)
    retrieved = np.zeros(n_characters, dtype=int)
    gold = np.zeros(n_characters, dtype=int)
    # the states are added: 1 + 2 = 3
    retrieved_ids: set[str] = set()
    for query_id, spans in evidence.items():
        if spans:
            retrieved_ids.update(list(output.ranking.get(query_id, {}))[:k])
        for span in spans:
            gold[span.start : span.end] = _EVIDENCE
    for chunk in output.chunks:
        if chunk.chunk_id in retrieved_ids and chunk.doc_id == doc_id:
            retrieved[chunk.start : chunk.end] = _RETRIEVED
    return retrieved + gold
