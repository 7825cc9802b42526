"""The extractive baseline: no language model.

It answers with the sentences of the retrieved chunks that match the question best, and cites the
chunk of each: free, deterministic, and the lower bound for a language model.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
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
    that the embedder does not know that score alone. All words of a question have equal weight
    (stemmed, without stop words, by the `language`), and lengths are relative to those of the
    question's own contexts, so an answer does not depend on the other questions. The best sentence
    and up to two that reach 75 % of its support are given in document order, each followed by the
    number of its context.

    Returns:
        One answer per case, in their order. Where there is no context or nothing in it is close
        enough: the text is `NO_ANSWER`, the outcome "no_results". `confidence`, in [0, 1], is how
        well the best context as a whole fits the question: the mean of its cosine with the question
        (that of the mean of its sentences' vectors, clipped at 0) and the fraction of the
        question's words that it contains (stemmed, without stop words). It estimates whether the
        contexts are about the question, not whether the answer is right; it is not fitted.
    """
    chunks = {chunk.chunk_id: chunk for case in cases for chunk in contexts[case.query_id]}
    sentences_of = {
        chunk_id: _sentences(chunk.text, chunk.start == 0) for chunk_id, chunk in chunks.items()
    }
    sentences = list(dict.fromkeys(chain.from_iterable(sentences_of.values())))
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
    texts = [chunk.text for chunk in chunks.values()]
    words_of = dict(zip(chunks, map(frozenset, stems(texts)), strict=True))
    # The mean of a context's sentence vectors at unit length, in place of a second embedding.
    vector_of = {}
    for chunk_id, parts in sentences_of.items():
        total = sentence_vectors[[row[text] for text in parts]].sum(axis=0)
        vector_of[chunk_id] = total / max(float(np.linalg.norm(total)), 1e-12)
    answers = []
    for case, vector, words in zip(
        cases, question_vectors, map(frozenset, stems(questions)), strict=True
    ):
        ranked, fits = contexts[case.query_id], [0.0]
        candidates = dict.fromkeys(chain(*(sentences_of[chunk.chunk_id] for chunk in ranked)))
        rows = [row[text] for text in candidates]
        shares = _shares(words, [counts[i] for i in rows])
        cosines = np.clip(sentence_vectors[rows] @ vector, 0.0, 1.0) if is_known else shares
        support = np.round((cosines + shares) / 2, 6)
        value_of = dict(zip(candidates, support.tolist(), strict=True))
        for chunk_id in (chunk.chunk_id for chunk in ranked):
            overlap = len(words & words_of[chunk_id]) / len(words) if words else 0.0
            cosine = min(max(float(vector_of[chunk_id] @ vector), 0.0), 1.0)
            fits.append(round(((cosine if is_known else overlap) + overlap) / 2, 6))
        answer = _extract(case.query_id, ranked, sentences_of, value_of, threshold)
        answers.append(replace(answer, confidence=max(fits)))
    return answers


def _sentences(text: str, first: bool) -> list[str]:
    """Return the sentences of a text with white space folded, without headings and sentences of
    fewer than three words.

    The text that comes `first` in a document may begin with its title: a line without a full stop
    before a blank one.
    """
    lines = lines_of(text)
    headings = {(start, end) for start, end, _ in find_headings(lines)}
    has_title = first and len(lines) > 1 and lines[1].after_blank
    if has_title and not _ENDS_SENTENCE.search(lines[0].text):
        headings.add((0, 0))
    edges = [0]
    for start, end in sorted(headings):
        edges += [lines[start].start, lines[end].end]
    edges.append(len(text))
    bodies = (text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))
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
    ranked = sorted(value_of, key=lambda text: -value_of[text])[:MAX_SENTENCES]
    good = [text for text in ranked if value_of[text] >= KEEP_WITHIN * best]
    # the best-ranked chunk that holds a sentence is the one cited
    places: dict[str, tuple[int, int, int, int]] = {}
    first_of: dict[str, int] = {}
    for number, chunk in enumerate(contexts, 1):
        document = first_of.setdefault(chunk.doc_id, number)
        for at, text in enumerate(sentences_of[chunk.chunk_id]):
            if text in good:
                places.setdefault(text, (document, chunk.start, at, number))
    ordered = sorted(places, key=places.__getitem__)
    numbers = [places[text][-1] for text in ordered]
    return Answer(
        query_id,
        " ".join(f"{text} [{number}]" for text, number in zip(ordered, numbers, strict=True)),
        context_ids,
        citations=tuple(dict.fromkeys(context_ids[number - 1] for number in numbers)),
        outcome="success",
    )
