"""The extractive baseline, which uses no language model: which sentences of the contexts it answers
with, how many, and when it abstains.

It answers with the sentences of the retrieved chunks that match the question best, and cites the
chunk of each: free, deterministic, and the lower bound for a language model.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

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


class _Passages(NamedTuple):
    """The contexts of all questions, prepared for the comparison with a question.

    `sentences_of` has the sentences of each chunk, by its id, and `row_of` the row of each different
    sentence in `vectors` (sentences, dimensions) and in `word_counts` (stem -> frequency). By the id
    of a chunk, `chunk_vectors` has the mean of its sentences' vectors at unit length, zeros if it
    has no sentence, and `chunk_words` its stems.
    """

    sentences_of: Mapping[str, Sequence[str]]
    row_of: Mapping[str, int]
    vectors: npt.NDArray[Any]
    word_counts: Sequence[Counter[str]]
    chunk_vectors: Mapping[str, npt.NDArray[Any]]
    chunk_words: Mapping[str, frozenset[str]]


class _Question(NamedTuple):
    """A question as it is compared with passages: `vector` (dimensions,), and its stems."""

    vector: npt.NDArray[Any]
    words: frozenset[str]


def extract_answers(
    cases: Sequence[Case],
    contexts: Mapping[str, Sequence[Chunk]],
    embedder: str | Embedder = "wordllama",
    *,
    language: str = "",
) -> list[Answer]:
    """Answer each case with the sentences of its contexts that support it best.

    An answer is the best sentence and up to two that reach 75 % of its support, in document order, each
    followed by the number of its context.

    The support of a sentence is the mean of its embedding cosine with the question (clipped at 0) and
    its BM25 score as a fraction of the highest possible score. In a language that the embedder does not
    know it is the BM25 score alone. Words are stemmed, by the `language`, and stop words left out. BM25
    gives all words of a question the same weight, and divides the length of a sentence by the mean length
    of the sentences in the contexts of this question. So an answer does not depend on other questions.

    Returns:
        One answer per case, in their order. Without a context, or if no sentence has enough support
        (`ABSTAIN_BELOW`; `ABSTAIN_BELOW_BY_WORDS` in a language that the embedder does not know), the
        text is `NO_ANSWER` and the outcome "no_results". `confidence`, in [0, 1], is the fit of the
        best context as a whole: the mean of its cosine with the question (from the mean vector of its
        sentences, clipped at 0) and the fraction of the question's words that it contains. It estimates
        whether the contexts are about the question, not whether the answer is right.
    """
    chunks: dict[str, Chunk] = {}
    for case in cases:
        for chunk in contexts[case.query_id]:
            chunks[chunk.chunk_id] = chunk
    model = load_embedder(embedder)
    text_language = language_of(list(chunks.values()), language)
    uses_cosine = knows(model, text_language)
    # the support that the best sentence needs; below it the answer is an abstention
    threshold = ABSTAIN_BELOW if uses_cosine else ABSTAIN_BELOW_BY_WORDS
    stems = Words(text_language)
    passages = _prepare_passages(chunks, model, stems)
    questions = _prepare_questions(cases, passages, model, stems)
    answers = []
    for case, question in zip(cases, questions, strict=True):
        ranked = contexts[case.query_id]
        support_of = _support_of_sentences(question, passages, ranked, uses_cosine)
        answer = _cited_answer(case.query_id, ranked, passages.sentences_of, support_of, threshold)
        fits = [_fit_of_context(question, passages, c.chunk_id, uses_cosine) for c in ranked]
        answers.append(replace(answer, confidence=max(fits, default=0.0)))
    return answers


def _prepare_questions(
    cases: Sequence[Case], passages: _Passages, model: Embedder, stems: Words
) -> list[_Question]:
    """Return the vector and the stemmed words of each question."""
    texts = [case.text for case in cases]
    vectors: npt.NDArray[Any] = np.zeros((len(cases), 1))
    if passages.row_of:  # else no passage has a sentence, and vectors are compared with nothing
        vectors = model.encode(texts)
    questions = []
    for vector, words in zip(vectors, stems.of(texts), strict=True):
        questions.append(_Question(vector, frozenset(words)))
    return questions


def _prepare_passages(chunks: Mapping[str, Chunk], model: Embedder, stems: Words) -> _Passages:
    """Return the sentences of chunks (chunk_id -> chunk), with the vectors and the stemmed words of
    sentences and chunks.

    A sentence in several chunks has one vector. The vector of a chunk is the sum of its sentences'
    vectors, with length 1 (0 for a chunk without sentences).
    """
    sentences_of = {}
    row_of: dict[str, int] = {}  # each different sentence -> its number
    for chunk_id, chunk in chunks.items():
        sentences_of[chunk_id] = _sentences(chunk.text, may_begin_with_title=chunk.start == 0)
        for sentence in sentences_of[chunk_id]:
            row_of.setdefault(sentence, len(row_of))
    sentences = list(row_of)
    vectors: npt.NDArray[Any] = np.zeros((0, 1))
    if sentences:
        vectors = model.encode(sentences)
    chunk_vectors = {}
    for chunk_id, sentences_of_chunk in sentences_of.items():
        rows = [row_of[sentence] for sentence in sentences_of_chunk]
        chunk_vectors[chunk_id] = _sum_at_unit_length(vectors[rows])
    chunk_stems = stems.of([chunk.text for chunk in chunks.values()])
    return _Passages(
        sentences_of,
        row_of,
        vectors,
        word_counts=[Counter(words) for words in stems.of(sentences)],
        chunk_vectors=chunk_vectors,
        chunk_words=dict(zip(chunks, map(frozenset, chunk_stems), strict=True)),  # by chunk_id
    )


def _sum_at_unit_length(vectors: npt.NDArray[Any]) -> npt.NDArray[Any]:
    total: npt.NDArray[Any] = vectors.sum(axis=0)
    length = max(float(np.linalg.norm(total)), 1e-12)  # never a division by 0
    return total / length


def _support_of_sentences(
    question: _Question, passages: _Passages, contexts: Sequence[Chunk], uses_cosine: bool
) -> dict[str, float]:
    """Return sentence -> its support for an answer to the question, from 0 to 1, for each different
    sentence of the contexts.

    It is the mean of its BM25 score and its cosine with the question (clipped at 0); without
    `uses_cosine`, the BM25 score alone.
    """
    sentences: list[str] = []
    for chunk in contexts:
        sentences += passages.sentences_of[chunk.chunk_id]
    sentences = list(dict.fromkeys(sentences))  # each once, in the order of the contexts
    rows = [passages.row_of[sentence] for sentence in sentences]
    # of each sentence its BM25 score, as a fraction of the highest possible one
    support = _bm25_fractions(question.words, [passages.word_counts[row] for row in rows])
    if uses_cosine:
        cosines = np.clip(passages.vectors[rows] @ question.vector, 0.0, 1.0)
        support = (cosines + support) / 2
    return dict(zip(sentences, np.round(support, 6).tolist(), strict=True))


def _fit_of_context(
    question: _Question, passages: _Passages, chunk_id: str, uses_cosine: bool
) -> float:
    """Return how well a context as a whole fits a question, from 0 to 1.

    It is the fraction of the question's words that are in the context; with `uses_cosine`, the mean
    of this and the cosine of both vectors (clipped at 0).
    """
    fit = 0.0
    if question.words:
        shared = question.words & passages.chunk_words[chunk_id]
        fit = len(shared) / len(question.words)
    if uses_cosine:
        cosine = float(passages.chunk_vectors[chunk_id] @ question.vector)
        fit = (min(max(cosine, 0.0), 1.0) + fit) / 2
    return round(fit, 6)


def _sentences(text: str, *, may_begin_with_title: bool) -> list[str]:
    """Return the sentences of a text with white space folded, without headings and sentences of
    fewer than three words.

    The first text of a document may begin with its title, which is left out like a heading: a line
    without a full stop before a blank one.
    """
    sentences = []
    for body in _texts_between_headings(text, may_begin_with_title=may_begin_with_title):
        for start, end in sentence_spans(body):
            sentence = " ".join(body[start:end].split())
            # two characters of a script without blanks are about a word
            has_three_words = len(sentence.split()) > 2 or len(UNSPACED.findall(sentence)) > 5
            if has_three_words:
                sentences.append(sentence)
    return sentences


def _texts_between_headings(text: str, *, may_begin_with_title: bool) -> list[str]:
    """Return the parts of a text before, between and after its headings.

    If it may begin with a title, a first line that a blank line follows and that does not end a sentence
    counts as a heading, too.
    """
    lines = lines_of(text)
    headings = {(first, last) for first, last, _ in find_headings(lines)}  # numbers of lines
    has_blank_second = len(lines) > 1 and lines[1].after_blank
    if may_begin_with_title and has_blank_second and not _ENDS_SENTENCE.search(lines[0].text):
        headings.add((0, 0))
    bodies = []
    body_start = 0
    for first, last in sorted(headings):
        bodies.append(text[body_start : lines[first].start])
        body_start = lines[last].end
    bodies.append(text[body_start:])
    return bodies


def _bm25_fractions(words: frozenset[str], sentences: Sequence[Counter[str]]) -> npt.NDArray[Any]:
    """Return how well each sentence matches the words of a question, from 0 to 1: its BM25 score as
    a fraction of the highest possible one (sentences,). Sentences are given as the counts of their
    words.

    All words have equal weight; without words the scores are 0.
    """
    if not words or not sentences:
        return np.zeros(len(sentences))
    lengths = np.array([counts.total() for counts in sentences], float)
    relative_lengths = lengths / max(lengths.mean(), 1.0)
    # a word counts f / (f + saturation) if it is f times in the sentence; the longer, the less
    saturation = _K1 * (1 - _B + _B * relative_lengths)
    sorted_words = sorted(words)
    # (sentences, words)
    frequencies = np.array([[counts[word] for word in sorted_words] for counts in sentences], float)
    word_scores = frequencies / (frequencies + saturation[:, None])
    fractions: npt.NDArray[Any] = word_scores.mean(axis=1)
    return fractions


def _cited_answer(
    query_id: str,
    contexts: Sequence[Chunk],
    sentences_of: Mapping[str, Sequence[str]],
    support_of: Mapping[str, float],
    threshold: float,
) -> Answer:
    """Make the answer of the best-supported sentences, in document order, each followed by the number of
    its context as in "It opened in 1889. [2]".

    If even the best sentence has less support than the threshold, the answer is an abstention.

    Args:
        query_id: the question.
        contexts: the chunks to answer from, best first.
        sentences_of: chunk_id -> its sentences.
        support_of: sentence -> how well it supports an answer, from 0 to 1.
        threshold: the support that the best sentence needs.
    """
    context_ids = tuple(chunk.chunk_id for chunk in contexts)
    best_support = max(support_of.values(), default=0.0)
    if best_support < threshold:
        return Answer(query_id, NO_ANSWER, context_ids, outcome="no_results")
    ranked = sorted(support_of, key=lambda text: -support_of[text])[:MAX_SENTENCES]
    chosen = [text for text in ranked if support_of[text] >= KEEP_WITHIN * best_support]
    # places sort in the order of documents, chunks and sentences
    place_of = _places(chosen, contexts, sentences_of)
    parts = []
    citations = []
    for text in sorted(place_of, key=lambda text: place_of[text]):
        number = place_of[text].context_number
        parts.append(f"{text} [{number}]")
        citations.append(context_ids[number - 1])
    return Answer(
        query_id,
        " ".join(parts),
        context_ids,
        citations=tuple(dict.fromkeys(citations)),
        outcome="success",
    )


class _Place(NamedTuple):
    """Where a sentence is; places are in the order in which an answer has its sentences.

    `document_rank` is the number of the first context from the sentence's document, `chunk_start` the
    start of its chunk in the document, `sentence_number` its number in the chunk, `context_number` the
    chunk's number among the contexts, from 1.
    """

    document_rank: int
    chunk_start: int
    sentence_number: int
    context_number: int


def _places(
    sentences: Sequence[str],
    contexts: Sequence[Chunk],
    sentences_of: Mapping[str, Sequence[str]],
) -> dict[str, _Place]:
    """Find where each sentence is: in the best-ranked context that holds it.

    Args:
        sentences: to find.
        contexts: chunks, the best-ranked first.
        sentences_of: chunk_id -> its sentences.
    """
    place_of: dict[str, _Place] = {}
    rank_of_document: dict[str, int] = {}  # doc_id -> the number of its first context
    for context_number, chunk in enumerate(contexts, 1):
        document_rank = rank_of_document.setdefault(chunk.doc_id, context_number)
        for sentence_number, text in enumerate(sentences_of[chunk.chunk_id]):
            if text not in sentences or text in place_of:
                continue
            place_of[text] = _Place(
                document_rank=document_rank,
                chunk_start=chunk.start,
                sentence_number=sentence_number,
                context_number=context_number,
            )
    return place_of
