"""The extractive baseline: no language model.

It answers with the sentences of the retrieved chunks that match the question best, and cites the
chunk of each: free, deterministic, and the lower bound for a language model.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ragbench.language import UNSPACED, language_of
from ragbench.llms.reply_text import NO_ANSWER
from ragbench.retrieval.bm25 import Words
from ragbench.retrieval.embedders import knows, load_embedder
from ragbench.testsets.outline import find_headings, lines_of
from ragbench.text import sentence_spans
from ragbench.types import Answer, Case, Chunk, Embedder

MAX_SENTENCES = 3
# A further sentence must reach this fraction of the best one's support.
KEEP_WITHIN = 0.75
# Below this support of the best sentence the baseline abstains. Set on squad, pubmedqa and clapnq:
# of questions shown their own passage 90 to 97 % are answered then, of those shown four others 1 to
# 2 %. Never set on the built-in set.
ABSTAIN_BELOW = 0.25
# The same for support by words alone, set on the same questions: 80 to 97 %, and 3 to 8 %.
ABSTAIN_BELOW_BY_WORDS = 0.12
# BM25's usual constants: saturation of term frequency, and length normalisation.
_K1, _B = 1.5, 0.75
_ENDS_SENTENCE = re.compile(r"""[.!?:;,。！？]["'”’)\]]*$""")


def extract_answers(
    cases: Sequence[Case],
    contexts: Mapping[str, Sequence[Chunk]],
    embedder: str | Embedder = "wordllama",
    *,
    language: str = "",
) -> list[Answer]:
    """Answer each case with the sentences of its contexts that support it best.

    The support of a sentence is the mean of its embedding cosine with the question (clipped at 0)
    and its BM25 score as a fraction of the highest possible score, both in [0, 1]; in a language
    that the embedder does not know that score alone. All words of a
    question have equal weight (stemmed, without stop words, by the `language`), and lengths are relative to those of
    the question's own contexts, so an answer does not depend on the other questions. The best
    sentence and up to two that reach 75 % of its support are given in document order, each followed
    by the number of its context.

    Returns:
        One answer per case, in their order. Where there is no context or nothing in it is close
        enough: the text is `NO_ANSWER`, the outcome "no_results". `confidence`, in [0, 1], is how
        well the best context as a whole fits the question: the mean of its cosine with the question
        (that of the mean of its sentences' vectors, clipped at 0) and the fraction of the
        question's words that it contains (stemmed, without stop words). It estimates whether the
        contexts are about the question, not whether the answer is right; it is not fitted.
    """
    chunks = {chunk.chunk_id: chunk for case in cases for chunk in contexts[case.query_id]}
    used = {chunk_id: chunk.text for chunk_id, chunk in chunks.items()}
    sentences_of = {
        chunk_id: _sentences(chunk.text, chunk.start == 0) for chunk_id, chunk in chunks.items()
    }
    sentences = list(dict.fromkeys(text for answer in sentences_of.values() for text in answer))
    row = {text: i for i, text in enumerate(sentences)}
    model = load_embedder(embedder)
    questions = [case.text for case in cases]
    empty = not sentences  # nothing to compare with
    question_vectors = np.zeros((len(cases), 1)) if empty else model.encode(questions)
    sentence_vectors = np.zeros((0, 1)) if empty else model.encode(sentences)
    spoken = language_of(list(chunks.values()), language)
    is_known, stems = knows(model, spoken), Words(spoken).of
    threshold = ABSTAIN_BELOW if is_known else ABSTAIN_BELOW_BY_WORDS
    counts = list(map(Counter, stems(sentences)))
    words_of = dict(zip(used, map(frozenset, stems(list(used.values()))), strict=True))
    # The mean of a context's sentence vectors at unit length, in place of a second embedding.
    sums = {
        chunk_id: sentence_vectors[[row[text] for text in rows]].sum(axis=0)
        for chunk_id, rows in sentences_of.items()
    }
    vector_of = {
        chunk_id: total / max(float(np.linalg.norm(total)), 1e-12)
        for chunk_id, total in sums.items()
    }
    answers = []
    for case, vector, words in zip(
        cases, question_vectors, map(frozenset, stems(questions)), strict=True
    ):
        candidates = dict.fromkeys(
            text for chunk in contexts[case.query_id] for text in sentences_of[chunk.chunk_id]
        )
        rows = [row[text] for text in candidates]
        shares = _shares(words, [counts[i] for i in rows])
        cosines = np.clip(sentence_vectors[rows] @ vector, 0.0, 1.0) if is_known else shares
        support = np.round((cosines + shares) / 2, 6)
        value_of = dict(zip(candidates, support.tolist(), strict=True))
        fits = []
        for chunk in contexts[case.query_id]:
            cosine = min(max(float(vector_of[chunk.chunk_id] @ vector), 0.0), 1.0)
            overlap = len(words & words_of[chunk.chunk_id]) / len(words) if words else 0.0
            fits.append(round(((cosine if is_known else overlap) + overlap) / 2, 6))
        answer = _extract(case.query_id, contexts[case.query_id], sentences_of, value_of, threshold)
        answers.append(replace(answer, confidence=max(fits, default=0.0)))
    return answers


def _sentences(text: str, first: bool) -> list[str]:
    """Return the sentences of a text with white space folded, without headings and sentences of
    fewer than three words.

    The text that comes `first` in a document may begin with its title: a line without a full stop
    before a blank one.
    """
    lines = lines_of(text)
    headings = [(lines[start].start, lines[end].end) for start, end, _ in find_headings(lines)]
    if (
        first
        and len(lines) > 1
        and lines[1].after_blank
        and not _ENDS_SENTENCE.search(lines[0].text)
    ):
        headings = sorted({*headings, (lines[0].start, lines[0].end)})
    edges = [0, *(edge for heading in headings for edge in heading), len(text)]
    bodies = [text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]
    folded = (
        " ".join(body[start:end].split()) for body in bodies for start, end in sentence_spans(body)
    )
    return [text for text in folded if len(text.split()) > 2 or len(UNSPACED.findall(text)) > 5]


def _shares(words: frozenset[str], sentences: Sequence[Counter[str]]) -> npt.NDArray[Any]:
    """Return each sentence's BM25 with equal word weights, as a fraction of the highest possible
    score.
    """
    if not words or not sentences:
        return np.zeros(len(sentences))
    lengths = np.array([counts.total() for counts in sentences], float)
    saturation = _K1 * (1 - _B + _B * lengths / max(lengths.mean(), 1.0))
    hits = np.array([[counts[word] for word in sorted(words)] for counts in sentences], float)
    share: npt.NDArray[Any] = (hits / (hits + saturation[:, None])).mean(axis=1)
    return share


def _extract(
    query_id: str,
    contexts: Sequence[Chunk],
    sentences_of: Mapping[str, Sequence[str]],
    value_of: Mapping[str, float],
    threshold: float,
) -> Answer:
    """Return the best-supported sentences in document order, each with the number of its context."""
    context_ids = tuple(chunk.chunk_id for chunk in contexts)
    best = max(value_of.values(), default=0.0)
    if best < threshold:
        return Answer(query_id, NO_ANSWER, context_ids, outcome="no_results")
    good = sorted(
        (text for text in value_of if value_of[text] >= KEEP_WITHIN * best),
        key=lambda t: -value_of[t],
    )
    chosen: dict[str, int] = {}
    for number, chunk in enumerate(
        contexts, 1
    ):  # the best-ranked chunk that holds a sentence is the one cited
        for text in sentences_of[chunk.chunk_id]:
            if text in good[:MAX_SENTENCES]:
                chosen.setdefault(text, number)
    doc_rank = {chunk.doc_id: number for number, chunk in reversed(list(enumerate(contexts)))}

    def place(text: str) -> tuple[int, int, int]:
        chunk = contexts[chosen[text] - 1]
        return doc_rank[chunk.doc_id], chunk.start, sentences_of[chunk.chunk_id].index(text)

    ordered = sorted(chosen, key=place)
    return Answer(
        query_id,
        " ".join(f"{text} [{chosen[text]}]" for text in ordered),
        context_ids,
        citations=tuple(dict.fromkeys(contexts[chosen[text] - 1].chunk_id for text in ordered)),
        outcome="success",
    )
