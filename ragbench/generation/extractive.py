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
# A further sentence must reach this fraction of the support of the best one.
KEEP_WITHIN = 0.75
# Below this support of the best sentence the baseline abstains. Set on squad, pubmedqa and clapnq:
# of questions shown their own passage 90 to 97 % are answered then, of those shown four others 1 to
# 2 %. Never set on the built-in set.
ABSTAIN_BELOW = 0.25
# The same for support by words alone, set on the same questions: 80 to 97 %, and 3 to 8 %.
ABSTAIN_BELOW_BY_WORDS = 0.12
# BM25's usual constants: saturation of term frequency, and length normalisation.
_K1 = 1.5
_B = 0.75
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
    that the embedder does not know it is the BM25 score alone. All words of a question have equal
    weight (stemmed, without stop words, by the `language`), and lengths are relative to the contexts
    of the same question, so an answer does not depend on the other questions. An answer is the best
    sentence and up to two that reach 75 % of its support, in document order, each followed by the
    number of its context.

    Returns:
        One answer per case, in their order. Without a context, or with none that is close enough,
        the text is `NO_ANSWER` and the outcome "no_results". `confidence`, in [0, 1], is the fit of
        the best context as a whole: the mean of its cosine with the question (from the mean vector
        of its sentences, clipped at 0) and the fraction of the question's words that it contains
        (stemmed, without stop words). It estimates whether the contexts are about the question, not
        whether the answer is right; it is not fitted.
    """
    chunks = {chunk.chunk_id: chunk for case in cases for chunk in contexts[case.query_id]}
    sentences_of = {
        chunk_id: _sentences(chunk.text, chunk.start == 0) for chunk_id, chunk in chunks.items()
    }
    sentences = list(dict.fromkeys(chain.from_iterable(sentences_of.values())))
    row_of = {text: row for row, text in enumerate(sentences)}
    questions = [case.text for case in cases]
    model = load_embedder(embedder)
    question_vectors: npt.NDArray[Any] = np.zeros((len(cases), 1))
    sentence_vectors: npt.NDArray[Any] = np.zeros((0, 1))
    if sentences:  # else there is nothing to compare with
        question_vectors = model.encode(questions)
        sentence_vectors = model.encode(sentences)
    vector_of = {}  # of a chunk: the mean of its sentences' vectors at unit length
    for chunk_id, parts in sentences_of.items():
        total = sentence_vectors[[row_of[text] for text in parts]].sum(axis=0)
        vector_of[chunk_id] = total / max(float(np.linalg.norm(total)), 1e-12)
    spoken = language_of(list(chunks.values()), language)
    is_known = knows(model, spoken)
    threshold = ABSTAIN_BELOW if is_known else ABSTAIN_BELOW_BY_WORDS
    stems = Words(spoken).of
    sentence_counts = [Counter(words) for words in stems(sentences)]
    question_words = [frozenset(words) for words in stems(questions)]
    chunk_words = stems([chunk.text for chunk in chunks.values()])
    words_of = {
        chunk_id: frozenset(words) for chunk_id, words in zip(chunks, chunk_words, strict=True)
    }
    answers = []
    for case, vector, words in zip(cases, question_vectors, question_words, strict=True):
        ranked = contexts[case.query_id]
        candidates = dict.fromkeys(chain(*(sentences_of[chunk.chunk_id] for chunk in ranked)))
        rows = [row_of[text] for text in candidates]
        shares = _shares(words, [sentence_counts[row] for row in rows])
        cosines = np.clip(sentence_vectors[rows] @ vector, 0.0, 1.0) if is_known else shares
        support = np.round((cosines + shares) / 2, 6)
        support_of = dict(zip(candidates, support.tolist(), strict=True))
        confidence = 0.0
        for chunk in ranked:
            overlap = len(words & words_of[chunk.chunk_id]) / len(words) if words else 0.0
            cosine = min(max(float(vector_of[chunk.chunk_id] @ vector), 0.0), 1.0)
            similarity = cosine if is_known else overlap
            confidence = max(confidence, round((similarity + overlap) / 2, 6))
        answer = _extract(case.query_id, ranked, sentences_of, support_of, threshold)
        answers.append(replace(answer, confidence=confidence))
    return answers


def _sentences(text: str, is_first: bool) -> list[str]:
    """Return the sentences of a text with white space folded, without headings and sentences of
    fewer than three words.

    The first text of a document may begin with its title: a line without a full stop before a blank
    one.
    """
    lines = lines_of(text)
    headings = {(first, last) for first, last, _ in find_headings(lines)}
    may_have_title = is_first and len(lines) > 1 and lines[1].after_blank
    if may_have_title and not _ENDS_SENTENCE.search(lines[0].text):
        headings.add((0, 0))
    bodies = []  # the texts between headings
    body_start = 0
    for first, last in sorted(headings):
        bodies.append(text[body_start : lines[first].start])
        body_start = lines[last].end
    bodies.append(text[body_start:])
    sentences = []
    for body in bodies:
        for start, end in sentence_spans(body):
            sentence = " ".join(body[start:end].split())
            if len(sentence.split()) > 2 or len(UNSPACED.findall(sentence)) > 5:
                sentences.append(sentence)
    return sentences


def _shares(words: frozenset[str], sentences: Sequence[Counter[str]]) -> npt.NDArray[Any]:
    """Return the BM25 score of each sentence (given as word counts) with equal word weights, as a
    fraction of the highest possible score (sentences,).
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
    support_of: Mapping[str, float],
    threshold: float,
) -> Answer:
    """Return the best-supported sentences in document order, each with the number of its context; an
    abstention if the best one has less support than the threshold.

    `sentences_of` has the sentences of each chunk by its id, `support_of` the support of each
    sentence.
    """
    context_ids = tuple(chunk.chunk_id for chunk in contexts)
    best_support = max(support_of.values(), default=0.0)
    if best_support < threshold:
        return Answer(query_id, NO_ANSWER, context_ids, outcome="no_results")
    ranked = sorted(support_of, key=lambda text: -support_of[text])[:MAX_SENTENCES]
    chosen = [text for text in ranked if support_of[text] >= KEEP_WITHIN * best_support]
    # A place is (number of the document's first context, start of the chunk, sentence in it, number
    # of the context). The best-ranked chunk that holds a sentence is cited.
    place_of: dict[str, tuple[int, int, int, int]] = {}
    first_context: dict[str, int] = {}
    for number, chunk in enumerate(contexts, 1):
        document = first_context.setdefault(chunk.doc_id, number)
        for i, text in enumerate(sentences_of[chunk.chunk_id]):
            if text in chosen:
                place_of.setdefault(text, (document, chunk.start, i, number))
    parts = []
    citations = []
    for text, (*_, number) in sorted(place_of.items(), key=lambda item: item[1]):
        parts.append(f"{text} [{number}]")
        citations.append(context_ids[number - 1])
    return Answer(
        query_id,
        " ".join(parts),
        context_ids,
        citations=tuple(dict.fromkeys(citations)),
        outcome="success",
    )
