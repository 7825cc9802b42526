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

_TELLING = 0.35  # a word with a greater weight is telling: rare enough to carry the meaning
_LONGER_WINDOW = 0.02  # the least support that a further sentence must add to a window
_SENTENCES = 3
_LONGEST_NGRAM = 3  # of the fractions of n-grams
_LONGEST_ROW = 6  # words: a longer row that is copied counts as one of these
_DIGITS = 9  # of sums that are compared: equal ones differ by less, and differently on each machine
_MORE = 2
_LEAST_GAIN = 0.3  # weight of missing words that a further sentence must have
_COPIED = 0.9


class Reading(NamedTuple):
    """A sentence of an answer next to a page, which is all contexts of the answer.

    Attributes:
        sentence: the sentence of the answer.
        weight: of each of its words.
        lexical: the evidence of its words, by the names in LEXICAL.
        window: the sentences of the page that hold most of its words, up to three in a row.
        others: the sentences of the page whose vectors are compared with it.
    """

    sentence: str
    weight: Floats
    lexical: dict[str, float]
    window: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def copied(self) -> bool:
        """Return True if the words decide: all of them are in the window, and nearly all rows of them on
        the page.
        """
        return self.lexical["words_in_window"] > 1 - 1e-9 and self.lexical["ngrams"] >= _COPIED

    @property
    def texts(self) -> list[str]:
        """Return the texts whose vectors `semantic_evidence` asks for."""
        return [] if self.copied else [self.sentence, *self.window, *self.others]


@lru_cache(maxsize=500)
def read_sentence(sentence: str, page: Page) -> Reading:
    """Return how the words of a page support the words of a sentence of an answer.

    A page is the sentences of all contexts of the answer. A window is up to three sentences in a row of one
    context; the best window is the one that holds most of the sentence's words by weight (see `words`).

    The evidence is a value in [0, 1] for each name in LEXICAL, higher is better:

    - words_in_window, words_on_page: the fraction of the words, by weight, in the best window, and
      anywhere on the page.
    - rare_in_window: the fraction in the best window, by weight times the rarity on this page,
      ln((sentences + 1) / (sentences with the word + 0.5)): a long page holds every common word.
    - neighbours: the fraction of adjacent pairs of words that are adjacent on the page.
    - word_pairs: of two telling words (of a weight above 0.35) with no other telling word between them,
      the fraction that is together in a sentence of the page.
    - names_in_window, names_on_page: (names there + 1) / (names of the sentence + 1).
    - numbers: the `numeric_support` of the sentence, 1 without a number.
    - not_denied: 0 if the best window denies a word of the sentence or the reverse, else 1.
    - not_opposed: 0 if the best window has the opposite of a word of the sentence ("rose", "fell"), else
      1.
    - ngrams, copied, no_novel_row: how far the sentence copies the page, see `_copying`.

    Vectors are later compared with the best window, three sentences that hold the rarest words, and up
    to two with words that are still missing: a page of 10,000 words costs as many as one of 500.
    """
    own_words = words(sentence)
    weight = np.array([word.weight for word in own_words])
    hits = _sentences_with_words(own_words, page)
    window, fraction_in_window = _best_window(page, weight, hits)
    support = numeric_support(sentence, page.sentence_texts)  # NaN: the sentence has no number
    lexical = {
        "words_in_window": fraction_in_window,
        "numbers": 1.0 if np.isnan(support) else support,
        **_lexical_evidence(sentence, own_words, weight, page, hits, window),
    }
    others = _sentences_to_compare(weight, hits, window)
    return Reading(
        sentence,
        weight,
        lexical,
        window=tuple(page.sentence_texts[i] for i in window),
        others=tuple(page.sentence_texts[i] for i in others),
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
    """Return name -> value of the evidence of words that `read_sentence` explains, without
    "words_in_window" and "numbers".

    Args:
        sentence: the sentence of the answer.
        own_words: its words.
        weight: their weights.
        page: the sentences of the contexts.
        hits: words x sentences of the page, True where the sentence has the word.
        window: the positions of the sentences of the best window.
    """
    on_page = np.asarray(hits.any(axis=1))  # of each word
    in_window = np.asarray(hits[:, list(window)].any(axis=1))  # of each word
    words_on_page = np.dot(weight, on_page) / weight.sum()
    # of each word: the longest row of words on the page that begins as the sentence from this word on
    lengths = np.array(page.row_lengths([word.stem for word in own_words]))
    is_adjacent_on_page = lengths[:-1] > 1  # of each pair of adjacent words
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
    is_denied = Sentence(sentence).contradicts(stems, denials)  # "safe" and "not safe"
    # "rose" and "fell"
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
    """Return evidence of how far a sentence copies the page (the contexts), each value in [0, 1].

    - ngrams: the mean of three fractions: of the words, of the pairs and of the triples of neighbouring
      words that are on the page.
    - copied: the mean over the words of the length, up to 6, of the longest row of words around each that
      is on the page word for word, divided by 6 or the length of a shorter sentence.
    - no_novel_row: 1 - the weight of the heaviest row of words that are not in the best window, as a
      fraction of all.
    - rare_in_window: the fraction of the words in the best window, by weight times rarity on the page.

    Args:
        lengths: for each word, how many words from it on are on the page in the same order, without a
            gap.
        weight: of each word.
        hits: words x sentences of the page, True where the sentence holds the word.
        in_window: of each word, True if the best window holds it.
    """
    longest_row = min(_LONGEST_ROW, len(lengths))
    ngram_fractions = []  # of the n-grams that are on the page, for n from 1
    for n in range(1, min(_LONGEST_NGRAM, longest_row) + 1):
        n_starts = len(lengths) - n + 1
        ngram_fractions.append(np.mean(lengths[:n_starts] >= n))
    lengths = np.minimum(lengths, longest_row)
    row_around = np.zeros(len(lengths))  # of each word: the length of the longest row on the page
    for start in np.argsort(lengths):  # the longest row comes last and overwrites shorter ones
        row_around[start : start + lengths[start]] = lengths[start]
    heaviest_novel_row = novel_row = 0.0  # weight of words in a row that are not in the window
    for word_weight, is_there in zip(weight, in_window, strict=True):
        novel_row = 0.0 if is_there else novel_row + word_weight
        heaviest_novel_row = max(heaviest_novel_row, novel_row)
    n_sentences = hits.shape[1]
    n_with_word = hits.sum(axis=1)
    rare_weight = weight * np.log((n_sentences + 1) / (n_with_word + 0.5))
    return {
        "ngrams": np.mean(ngram_fractions),
        "copied": row_around.mean() / longest_row,
        "no_novel_row": 1 - heaviest_novel_row / weight.sum(),
        "rare_in_window": rare_weight[in_window].sum() / rare_weight.sum(),
    }


def semantic_evidence(reading: Reading) -> dict[str, float]:
    """Return how the vectors of a page support the vectors of a sentence of an answer: a value in [-1, 1]
    for each name in SEMANTIC, higher is better.

    `reading` names the few sentences of the page (the contexts) to compare: `others`, and `window`, up to
    three in a row that hold most of the sentence's words. For each word of the sentence the nearest word
    of each of the `others` is found, the word with the highest cosine.

    - alignment: the mean of the words' cosines by weight (rarer words weigh more), in the sentence of the
      page where it is highest.
    - lowest_quarter: the mean by weight of the worst words' cosines to the nearest word in any sentence.
      The worst words are those with the lowest cosines that together have at most a quarter of the
      weight, but at least one.
    - least_aligned: the lowest of these cosines among words with a weight above 0.35; without one, the
      alignment.
    - no_stranger: 1 - the greatest product of weight and distance (1 - cosine) of a word.
    - similarity: the cosine of the whole sentence to the window.

    All values are 1 for a sentence that is copied: all its words are in the window, and 0.9 of its
    n-grams are on the page. No vector is computed then.
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
    weight_so_far = np.cumsum(weight[worst_first])  # of the worst word, the two worst, ...
    max_weight = max(0.25 * weight.sum(), weight_so_far[0])  # at least the worst word
    worst = worst_first[weight_so_far <= max_weight]
    is_telling = weight > _TELLING
    window = np.sum([each.text for each in vectors(reading.window)], axis=0)
    return {
        "alignment": alignment,
        "lowest_quarter": weight[worst] @ highest[worst] / weight[worst].sum(),
        "least_aligned": highest[is_telling].min() if is_telling.any() else alignment,
        "no_stranger": 1 - (weight * (1 - highest)).max(),
        "similarity": float(sentence.text @ window / max(1e-9, np.linalg.norm(window))),
    }
