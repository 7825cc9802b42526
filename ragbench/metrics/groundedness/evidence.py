"""What speaks for and against a sentence being supported by a page: one number per kind of
evidence.
"""

import itertools
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ragbench.array_types import Bools, FloatArray, Floats, Ints
from ragbench.metrics.groundedness.numbers import numeric_support
from ragbench.metrics.groundedness.words import (
    Page,
    Sentence,
    Word,
    opposed,
    words,
)
from ragbench.retrieval.minilm import cut_to_fit, token_states, tokenised


class Vectors(NamedTuple):
    """The vector of a text (dimension,) and the vectors of its `words` (number of words, dimension),
    of unit length.
    """

    text: FloatArray
    words: FloatArray


_lock = threading.Lock()
_recent: dict[str, Vectors] = {}
_MAX_RECENT = 1_500  # texts, some 60 kB each


def vectors(texts: Sequence[str]) -> list[Vectors]:
    """Return for each text its vector, and the vectors of its words.

    The vector of a text is the mean over its tokens, as in minilm's embedder. The vector of a word is the
    mean over its word pieces, in the context of the text; it is zero for words beyond the 256 tokens that
    the model reads. The numbers of a text do not depend on the other texts. The last 1,500 texts are in
    memory.
    """
    with _lock:  # of several threads one computes
        missing = [text for text in dict.fromkeys(texts) if text not in _recent]
        _recent.update(zip(missing, _encoded(missing), strict=True))
        vectors_of_texts = [_recent[text] for text in texts]
        for text in list(_recent)[:-_MAX_RECENT]:
            del _recent[text]
    return vectors_of_texts


def _encoded(texts: Sequence[str]) -> list[Vectors]:
    """Return the vectors of texts as the model computes them, all in one batch."""
    if not texts:
        return []
    ids = []
    offsets = []
    for encoding in tokenised(texts):
        ids.append(cut_to_fit(encoding.ids))
        offsets.append(cut_to_fit(encoding.offsets))
    states = token_states(ids)
    return [_pooled(*parts) for parts in zip(texts, states, offsets, strict=True)]


def _pooled(text: str, states: FloatArray, offsets: Sequence[tuple[int, int]]) -> Vectors:
    """Return the means of the vectors of tokens (`states`, tokens x dimension) over a text, and over
    each of its words. `offsets` has the start and the end of each token in the text.
    """
    starts, ends = np.array(offsets).T
    text_words = words(text)
    word_vectors = np.zeros((len(text_words), states.shape[1]), dtype=np.float32)
    for row, word in enumerate(text_words):
        is_in_word = (starts < word.end) & (ends > word.start) & (ends > starts)
        if is_in_word.any():
            word_vectors[row] = states[is_in_word].mean(axis=0)
    text_vector = states.mean(axis=0, keepdims=True)
    return Vectors(_unit(text_vector)[0], _unit(word_vectors))


def _unit(rows: FloatArray) -> FloatArray:
    """Return the rows with length 1; rows of zeros stay."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: FloatArray = (rows / np.where(norms > 0, norms, 1)).astype(np.float32)
    return unit


LEXICAL = tuple(
    """
    words_in_window words_on_page neighbours word_pairs names_in_window names_on_page numbers not_denied
    not_opposed ngrams copied no_novel_row rare_in_window
    """.split()
)
"""Evidence from the words alone. All of it lies in [0, 1], higher is better."""

SEMANTIC = ("alignment", "lowest_quarter", "least_aligned", "no_stranger", "similarity")
"""Evidence from vectors of sentences and words."""

_TELLING = 0.35
_LONGER_WINDOW = 0.02  # the least support that a further sentence must add to a window
_SENTENCES = 3
_PLAIN_GRAM, _LONGEST_GRAM = 3, 6
_DIGITS = 9  # of sums that are compared: equal ones differ by less, and differently on each machine
_MORE = 2
_LEAST_GAIN = 0.3  # weight of missing words that a further sentence must have
_COPIED = 0.9


class Reading(NamedTuple):
    """A sentence and a page: the evidence of its words, and the sentences of the page to compare
    vectors with.
    """

    sentence: str
    weight: Floats
    lexical: dict[str, float]
    window: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def copied(self) -> bool:
        """Return True if the words decide: all of them are in the best window, and nearly all rows of them
        on the page.
        """
        return self.lexical["words_in_window"] > 1 - 1e-9 and self.lexical["ngrams"] >= _COPIED

    @property
    def texts(self) -> list[str]:
        """Return those whose vectors `semantic_evidence` asks for."""
        return [] if self.copied else [self.sentence, *self.window, *self.others]


@lru_cache(maxsize=500)
def read_sentence(sentence: str, page: Page) -> Reading:
    """Return how the words of a page (the contexts of an answer) support the words of a sentence of the
    answer: a value in [0, 1] for each name in LEXICAL, higher is better.

    A window is up to three sentences in a row of one context; the best window is the one that holds most
    of the sentence's words by weight.

    - words_in_window, words_on_page: the fraction of the words, by weight, in the best window, and
      anywhere;
    - rare_in_window: the same in the best window, with the weights times how rare the word is on
      this page, ln((sentences + 1) / (sentences with it + 0.5)): a long page holds every common
      word;
    - neighbours: the fraction of adjacent pairs of words that are adjacent on the page;
      word_pairs: of telling words that follow each other, the fraction with both in one sentence;
    - names_in_window, names_on_page: (names there + 1) / (names + 1). numbers: see
      `numeric_support`;
    - not_denied, not_opposed: 0 where the best window denies the sentence or the reverse, or has a
      word that excludes one of its words; else 1;
    - ngrams: the mean of the plain fractions of words, pairs and triples of words that the page
      has;
    - copied: the mean over the words of the length, up to 6, of the longest row of words around it
      that is in a sentence of the page word for word, divided by 6 or the length of a shorter
      sentence;
    - no_novel_row: 1 - the longest row of words that the best window does not have, by weight.

    Vectors are later compared with the sentences of the best window, three that hold the rarest
    words, and up to two with words that are still missing: a page of 10,000 words costs as many as
    one of 500.
    """
    own_words = words(sentence)
    weight = np.array([word.weight for word in own_words])
    hits = _sentences_with_words(own_words, page)
    window, share = _best_window(page, weight, hits)
    support = numeric_support(sentence, page.texts)  # NaN: the sentence has no number
    lexical = {
        "words_in_window": share,
        "numbers": 1.0 if np.isnan(support) else support,
        **_lexical_evidence(sentence, own_words, weight, page, hits, window),
    }
    others = _sentences_to_compare(weight, hits, window)
    return Reading(
        sentence,
        weight,
        lexical,
        window=tuple(page.texts[i] for i in window),
        others=tuple(page.texts[i] for i in others),
    )


def _sentences_with_words(own_words: Sequence[Word], page: Page) -> Bools:
    """Return (words, sentences of the page): True where the sentence has the word."""
    hits = np.zeros((len(own_words), len(page.sentences)), dtype=bool)
    for row, word in enumerate(own_words):
        stem = page.find(word.stem)
        if stem is not None:
            hits[row, page.sentence_at[page.positions[stem]]] = True
    return hits


def _best_window(page: Page, weight: Floats, hits: Bools) -> tuple[range, float]:
    """Return the best window of a page, and the fraction of a claim's words, by weight, that it holds.

    A window is one to three sentences in a row of one context. A further sentence must add at least
    `_LONGER_WINDOW` to the fraction. Of equally good windows the shortest counts, then the first.

    Args:
        page: the sentences.
        weight: of each word of the claim.
        hits: words x sentences, True where the sentence holds the word.
    """
    context_of = np.array(page.context_of)
    n_sentences = hits.shape[1]
    held = hits  # words down, windows across
    best_window, best_value, best_share = range(1), -1.0, 0.0
    for size in range(1, min(3, n_sentences) + 1):
        if size > 1:  # each window takes in the sentence after it
            held = held[:, :-1] | hits[:, size - 1 :]
        n_windows = n_sentences - size + 1
        shares = np.round(weight @ held / weight.sum(), _DIGITS)
        in_one_context = context_of[:n_windows] == context_of[size - 1 :]
        values = np.where(in_one_context, shares - _LONGER_WINDOW * (size - 1), -1.0)
        start = int(values.argmax())
        if values[start] > best_value + 1e-9:
            best_window = range(start, start + size)
            best_value = values[start]
            best_share = shares[start]
    return best_window, best_share


def _sentences_to_compare(weight: Floats, hits: Bools, window: range) -> list[int]:
    """Return the positions of the few sentences of a page that are compared with a claim by vectors, which
    is slow: the `_SENTENCES` with its rarest words, the best window, and up to `_MORE` sentences with
    words that these lack.

    Args:
        weight: of each word of the claim.
        hits: words x sentences of the page, True where the sentence holds the word.
        window: the best window.
    """
    n_sentences = hits.shape[1]
    frequency = hits.sum(axis=1)  # of each word: the sentences that have it
    rarity = np.log1p(n_sentences / np.maximum(frequency, 1))
    rarity[frequency == 0] = 0.0
    # of each sentence; equal ones are ordered by the plain weight of their words
    worth = np.round((weight * rarity) @ hits + 1e-6 * (weight @ hits), _DIGITS)
    most_worth = np.argsort(-worth, kind="stable")[:_SENTENCES].tolist()
    chosen = list(dict.fromkeys([*most_worth, *window]))
    is_covered = hits[:, chosen].any(axis=1)  # of each word
    for _ in range(_MORE):
        uncovered_weight = np.where(is_covered, 0.0, weight)
        gain = np.round(uncovered_weight @ hits, _DIGITS)  # of each sentence
        best = int(gain.argmax())
        if gain[best] <= _LEAST_GAIN:
            break
        chosen.append(best)
        is_covered |= hits[:, best]
    return chosen


def _lexical_evidence(
    sentence: str, own_words: Sequence[Word], weight: Floats, page: Page, hits: Bools, window: range
) -> dict[str, float]:
    """Return the evidence of words: LEXICAL without "words_in_window" and "numbers".

    Args:
        sentence: the sentence of the answer.
        own_words: its words.
        weight: their weights.
        page: the sentences of the contexts.
        hits: words x sentences of the page, True where the sentence has the word.
        window: the sentences of the best window.
    """
    on_page = np.asarray(hits.any(axis=1))  # of each word
    in_window = np.asarray(hits[:, list(window)].any(axis=1))  # of each word
    words_on_page = np.dot(weight, on_page) / weight.sum()
    lengths = np.array(page.row_lengths([word.stem for word in own_words]))
    # of each pair of adjacent words, which counts by the weight of the heavier one
    is_adjacent_on_page = lengths[:-1] > 1
    pair_weights = [max(a.weight, b.weight) for a, b in itertools.pairwise(own_words)]
    neighbours = words_on_page
    if pair_weights:
        neighbours = np.dot(is_adjacent_on_page, pair_weights) / sum(pair_weights)
    telling = [i for i, word in enumerate(own_words) if word.weight > _TELLING]
    share_a_sentence = [bool((hits[a] & hits[b]).any()) for a, b in itertools.pairwise(telling)]
    word_pairs = np.mean(share_a_sentence) if share_a_sentence else words_on_page
    is_name = np.array([word.name for word in own_words])
    n_names = is_name.sum()
    window_sentences = [page.sentences[i] for i in window]
    stems: frozenset[str] = frozenset().union(*(other.stems for other in window_sentences))
    denials: frozenset[str] = frozenset().union(*(other.denied for other in window_sentences))
    is_denied = Sentence(sentence).contradicts(stems, denials)
    is_opposed = opposed(sentence, *(other.text for other in window_sentences))
    return {
        "words_on_page": words_on_page,
        "neighbours": neighbours,
        "word_pairs": word_pairs,
        "names_in_window": (in_window[is_name].sum() + 1) / (n_names + 1),
        "names_on_page": (on_page[is_name].sum() + 1) / (n_names + 1),
        "not_denied": float(not is_denied),
        "not_opposed": float(not is_opposed),
        **_copying(lengths, weight, hits, in_window),
    }


def _copying(lengths: Ints, weight: Floats, hits: Bools, in_window: Bools) -> dict[str, float]:
    """Return how far a sentence copies the page: the evidence from words that follow each other there, too
    (see `read_sentence` for the names).

    Args:
        lengths: for each word, how many words from it on are on the page in the same order, without a
            gap.
        weight: of each word.
        hits: words x sentences of the page, True where the sentence holds the word.
        in_window: of each word, True if the best window holds it.
    """
    longest_gram = min(_LONGEST_GRAM, len(lengths))
    fractions = []  # of the n-grams that are on the page, for n from 1
    for n in range(1, min(_PLAIN_GRAM, longest_gram) + 1):
        n_starts = len(lengths) - n + 1
        fractions.append(np.mean(lengths[:n_starts] >= n))
    lengths = np.minimum(lengths, longest_gram)
    fragments = np.zeros(len(lengths))  # of each word: the longest row around it on the page
    for start in np.argsort(lengths):  # longer rows overwrite shorter ones
        fragments[start : start + lengths[start]] = lengths[start]
    longest_novel = novel = 0.0  # weight of words in a row that are not in the window
    for word_weight, is_there in zip(weight, in_window, strict=True):
        novel = 0.0 if is_there else novel + word_weight
        longest_novel = max(longest_novel, novel)
    rarity = weight * np.log((hits.shape[1] + 1) / (hits.sum(axis=1) + 0.5))
    return {
        "ngrams": np.mean(fractions),
        "copied": fragments.mean() / longest_gram,
        "no_novel_row": 1 - longest_novel / weight.sum(),
        "rare_in_window": rarity[in_window].sum() / rarity.sum(),
    }


def semantic_evidence(reading: Reading) -> dict[str, float]:
    """Return how the vectors of a page support the vectors of a sentence: SEMANTIC, cosines in [-1, 1],
    higher is better.

    Each word of the sentence has a cosine to its nearest word in a sentence of the page:

    - alignment: the mean of these cosines by weight, in the sentence of the page where it is highest.
    - lowest_quarter: the words' cosines in all sentences of the page, the highest of each; the mean
      by weight over the words that do worst and together hold a quarter of the weight, at least one.
    - least_aligned: the lowest of these highest cosines of a telling word.
    - no_stranger: 1 - the greatest weight times distance (1 - cosine) of a word.
    - similarity: the cosine of the whole sentence to the best window.

    All of it is 1 for a sentence that is copied (all its words are in the best window, and 0.9 of
    its `ngrams` are on the page): no vector is computed then.
    """
    if reading.copied:
        return dict.fromkeys(SEMANTIC, 1.0)
    weight = reading.weight
    sentence, *sentences_of_page = vectors([reading.sentence, *reading.others])
    highest = np.full(len(weight), -1.0)  # of each word: its cosine to the nearest word of the page
    alignment = -1.0
    for other in sentences_of_page:
        nearest = (sentence.words @ other.words.T).max(axis=1).astype(np.float64)
        alignment = max(alignment, weight @ nearest / weight.sum())
        highest = np.maximum(highest, nearest)
    worst_first = np.argsort(np.round(highest, 5), kind="stable")
    weight_so_far = np.cumsum(weight[worst_first])
    limit = max(0.25 * weight.sum(), weight_so_far[0])  # at least the worst word
    quarter = worst_first[weight_so_far <= limit]
    is_telling = weight > _TELLING
    window = np.sum([each.text for each in vectors(reading.window)], axis=0)
    return {
        "alignment": alignment,
        "lowest_quarter": weight[quarter] @ highest[quarter] / weight[quarter].sum(),
        "least_aligned": highest[is_telling].min() if is_telling.any() else alignment,
        "no_stranger": 1 - (weight * (1 - highest)).max(),
        "similarity": float(sentence.text @ window / max(1e-9, np.linalg.norm(window))),
    }
