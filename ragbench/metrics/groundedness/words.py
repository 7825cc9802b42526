"""Texts as groundedness reads them: words with a weight for how informative they are, denials,
sentences.
"""

import math
import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import regex

from ragbench.array_types import Ints
from ragbench.folding import folded
from ragbench.groups import grouped
from ragbench.language import SIGN, UNSPACED_SET
from ragbench.text import load_tokenizer, sentence_spans

_NOT = r"n['’]t\b"
_LETTER = rf"[\w--{UNSPACED_SET}--\d--_]"
_WORD = regex.compile(
    rf"{SIGN}|\d+(?:[.,]\d+)*|{_NOT}|(?:{_LETTER}\.){{2,}}|(?:(?!{_NOT}){_LETTER})+",
    regex.IGNORECASE | regex.V1,
)
_ASCII_WORD = re.compile(  # the same words, in half the time
    r"\d+(?:[.,]\d+)*|n't\b|(?:[a-z]\.){2,}|(?:[a-mo-z]|n(?!'t\b))+", re.ASCII | re.IGNORECASE
)
# between two words: the second one may have a capital only because it begins a sentence
_BEGINS = re.compile(r"[.!?:;\"“”\n•*]")
_WHOLE = {"n't": "not", "n’t": "not", "ca": "can", "wo": "will"}  # of "can't" and "won't"
_MIN_WEIGHT_OF_NAME = 0.15  # "The" and "It" are below
_RARE = 0.95  # from this weight a word with a capital is a name also at the begin of a sentence
_FIRST_WORD_PIECE = (
    1996  # in BERT's vocabulary whole words are in order of frequency, from "the" at this place
)
_LAST_WORD_PIECE = 30521


class Word(NamedTuple):
    """A word of a text: its stem, its place, how informative it is (0.05 to 1.1), and if it looks
    like a name.
    """

    stem: str
    start: int
    end: int
    weight: float
    name: bool


@lru_cache(maxsize=5_000)
def words(text: str) -> tuple[Word, ...]:
    """Return the words of a text in their order.

    Stems are Snowball's (English) after NFKC and case folding. "isn't" is read as "is" and "not", and the
    "'s" of "Anna's" is left out. The weight rises with rarity, from 0.05 for "the" to 1.1 for a word
    outside the vocabulary of BERT, which is ordered by frequency. A name begins with a capital letter
    and is inside a sentence, or is a very rare word at its begin; in a text in capitals no word is a name.

    >>> [(word.stem, round(word.weight, 2), word.name) for word in words("The towers of Paris aren't safe.")]
    [('the', 0.05, False), ('tower', 0.78, False), ('of', 0.05, False), ('pari', 0.54, True), ('are', 0.05, False), \
('not', 0.06, False), ('safe', 0.61, False)]
    """
    text_words: list[Word] = []
    letters = list(filter(str.isalpha, text))
    is_in_capitals = sum(map(str.isupper, letters)) > 0.6 * len(letters)
    pattern = _ASCII_WORD if text.isascii() else _WORD
    end = 0  # of the word before
    is_first = True  # of a sentence
    for match in pattern.finditer(text):
        raw = match[0]
        gap = text[end : match.start()]  # between the word before and this one
        end = match.end()
        if gap != " " and _BEGINS.search(gap):
            is_first = True
        is_before_n = text[end : end + 1] in ("n", "N")  # as the "ca" of "can't", read as "can"
        word, stem, weight, is_number = _stem_and_weight(raw, is_before_n)
        is_possessive = word == "s" and gap[-1:] in {"'", "’"}
        if is_possessive:
            continue
        has_capital = raw[0].isupper() and not is_number and not is_in_capitals
        # at the begin of a sentence the capital shows nothing; inside it, a letter alone is no name
        may_be_name = weight >= _RARE if is_first else len(raw) > 1
        is_name = has_capital and may_be_name and weight > _MIN_WEIGHT_OF_NAME
        text_words.append(Word(stem, match.start(), end, weight, is_name))
        is_first = False
    return tuple(text_words)


@cache
def _vocabulary() -> dict[str, int]:
    vocabulary: dict[str, int] = load_tokenizer("minilm").get_vocab()
    return vocabulary


@lru_cache(maxsize=100_000)
def _stem_and_weight(raw: str, is_before_n: bool) -> tuple[str, str, float, bool]:
    """Return a word of a text in lower case, its stem and weight, and whether it is a number.

    The parts of a short form are written out: "can't" comes here as "ca" and "n't", which are read as
    "can" and "not". But "ca" is only read so if "n" follows it in the text (`is_before_n`).
    """
    word = folded(raw) or raw  # a mark alone is left out there
    if word != "ca" or is_before_n:
        word = _WHOLE.get(word, word)
    if word[0].isdigit():
        return word, word.replace(",", ""), 0.8, True
    return word, _stemmer().stemWord(_plain(word.replace(".", ""))), _rarity(word), False


def _rarity(word: str) -> float:
    """Return the weight of a word by its place in the vocabulary of BERT, which is ordered by frequency:
    from 0.05 for the 20 most frequent words to 1.0 for the rarest, by the logarithm of the rank; 1.1
    for a word that is not in it.
    """
    number = _vocabulary().get(_plain(word))
    if number is None:
        return 1.1
    if number < _FIRST_WORD_PIECE:  # single signs, and tokens that are no words
        return 0.3 if len(word) == 1 else 1.0
    rank = number - _FIRST_WORD_PIECE + 1
    most_frequent = math.log(20)
    rarest = math.log(_LAST_WORD_PIECE - _FIRST_WORD_PIECE)
    rarity = (math.log(rank) - most_frequent) / (rarest - most_frequent)
    return min(1.0, max(0.05, rarity))


def _plain(word: str) -> str:
    """Return a word without accents."""
    if word.isascii():
        return word
    decomposed = unicodedata.normalize("NFD", word)
    return "".join(sign for sign in decomposed if not unicodedata.combining(sign))


@cache
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("english")


_NEGATIONS = frozenset(
    """
    not no never none nobody nothing nor neither without cannot hardly scarce bare unabl fail lack
    """.split()
)
_NO_DENIAL = frozenset({"onli", "just", "mere", "necessarili"})  # "not only fast" is fast
_STOP = re.compile(r"[.,;:()!?]")
_MAX_DENIED = 3  # words that one negation denies
_LOOKED_AT = 7  # words behind a negation
_TELLING = 0.12  # the weight of a word that carries meaning

_OPPOSITES = (
    "increased decreased|increase decrease|increases decreases|rose fell|rise fall|more "
    "less|more fewer|higher lower|high low|highest lowest|first last|earliest latest|largest "
    "smallest|larger smaller|large small|best worst|better worse|won lost|win lose|before "
    "after|north south|east west|northern southern|eastern western|early late|older younger|male "
    "female|men women|son daughter|father mother|brother sister|husband wife|positive "
    "negative|always never|most few|many few|included excluded|began ended|started stopped|start "
    "stop|built destroyed|born died|accepted rejected|allowed forbidden|allowed prohibited|legal "
    "illegal|supported opposed|gained lost|major minor|same different|upper lower|long "
    "short|public private|domestic foreign|common rare|success failure|inside outside|bought "
    "sold|joined left|married divorced|approved denied|appointed dismissed|guilty innocent|true "
    "false|safe dangerous|possible impossible|able unable|active passive|enabled disabled|open "
    "closed|opened closed|above below|maximum minimum|import export|imports exports|convicted "
    "acquitted|confirmed denied"
)
_OPPOSITE: dict[str, set[str]] = {}
for _pair in _OPPOSITES.split("|"):
    for _one, _other in permutations(_pair.split()):
        _OPPOSITE.setdefault(_one, set()).add(_other)


def denied(text: str) -> frozenset[str]:
    """Return the stems of the words that the text denies.

    These are the first three words with a meaning (not "the" or "of") among the seven words behind a
    negation ("not"), up to the end of the clause. "not only", "not just" and the like deny nothing.

    >>> sorted(denied("The bridge isn't safe under load, but it stands."))
    ['load', 'safe', 'under']
    >>> sorted(denied("The bridge is not only safe."))
    []
    """
    stems: set[str] = set()
    text_words = words(text)
    for i, word in enumerate(text_words):
        if word.stem not in _NEGATIONS:
            continue
        following = text_words[i + 1 : i + 1 + _LOOKED_AT]
        is_not_only = bool(following) and following[0].stem in _NO_DENIAL
        if is_not_only:
            continue
        n_denied = 0
        end = word.end
        for after in following:
            is_next_clause = _STOP.search(text[end : after.start])
            if n_denied == _MAX_DENIED or is_next_clause:
                break
            end = after.end
            if after.weight > _TELLING and after.stem not in _NEGATIONS:
                stems.add(after.stem)
                n_denied += 1
    return frozenset(stems)


@lru_cache(maxsize=5_000)
def _forms(text: str) -> frozenset[str]:
    """Return the words of a text that have opposites."""
    forms = (text[word.start : word.end].casefold() for word in words(text))
    return frozenset(form for form in forms if form in _OPPOSITE)


def opposed(claim: str, *texts: str) -> bool:
    """Return True if a word of the claim is in none of the texts, but a word with the opposite meaning is
    ("rose" and "fell").

    >>> opposed("Sales rose in May.", "In May sales fell."), opposed("Sales rose.", "Sales rose, then fell.")
    (True, False)
    """
    forms_of_texts = frozenset().union(*map(_forms, texts))
    missing = _forms(claim) - forms_of_texts
    return any(_OPPOSITE[word] & forms_of_texts for word in missing)


def polarity_differs(claim: str, text: str) -> bool:
    """Return True if a text contradicts a claim by a negation: in every sentence of the text that is about
    the claim, one of the two denies the other.

    >>> polarity_differs("The bridge is safe.", "The bridge is not safe. Boats are.")
    True
    >>> polarity_differs("The bridge is not safe.", "The bridge isn't safe.")
    False
    """
    sentence = Sentence(claim)
    others = [Sentence(text[start:end]) for start, end in sentence_spans(text)]
    shares = [sentence.fraction_in(other.stems) for other in others]
    best = max(shares, default=0.0)
    if best < 0.5:  # no sentence is about the claim
        return False
    for other, share in zip(others, shares, strict=True):
        is_about_claim = share >= 0.8 * best
        if is_about_claim and not sentence.contradicts(other.stems, other.denied):
            return False
    return True


def text_states(text: str, claim: str) -> bool:
    """Return True if the words of the claim are in the text one after another, with no negation among
    the four words before them in the same clause.

    >>> text_states("Today the bridge is safe.", "the bridge is safe"), text_states("It is not safe.", "safe")
    (True, False)
    """
    claim_stems = [word.stem for word in words(claim)]
    if not claim_stems:
        return False
    text_words = words(text)
    stems = [word.stem for word in text_words]
    for first in range(len(stems) - len(claim_stems) + 1):
        is_claim = stems[first : first + len(claim_stems)] == claim_stems
        if is_claim and not _has_negation_before(text, text_words, first):
            return True
    return False


def _has_negation_before(text: str, text_words: Sequence[Word], place: int) -> bool:
    """Return True if one of the four words before a place is a negation in the same clause."""
    start = text_words[place].start
    for word in text_words[max(0, place - 4) : place]:
        if word.stem in _NEGATIONS and not _STOP.search(text[word.end : start]):
            return True
    return False


_LONGEST = 60  # words: tables and lists without full stops are no sentences
_PREFIX = 5
# a line that ends within a sentence, as in plain text with a fixed width; the next one begins no
# item or row
_WRAPPED = re.compile(r"(?<=[^\n]{39}[^\n.:;!?|])\n[ \t]*(?![-*+•#|>\s]|\(?\d+[.)])")


@dataclass(frozen=True, eq=False)
class Sentence:
    """A sentence of a context, or a piece of a long one."""

    text: str

    @cached_property
    def words(self) -> tuple[Word, ...]:
        return words(self.text)

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(word.stem for word in self.words)

    @cached_property
    def denied(self) -> frozenset[str]:
        return denied(self.text)

    def fraction_in(self, stems: Collection[str | None]) -> float:
        """Return the fraction of the words, by weight, whose stems are among these; 0 without words."""
        total = sum(word.weight for word in self.words)
        inside = sum(word.weight for word in self.words if word.stem in stems)
        return inside / total if total else 0.0

    def contradicts(self, stems: frozenset[str], denials: frozenset[str]) -> bool:
        """Return True if the sentence denies a word that a text has and does not deny, or the reverse.

        `stems` are of the words of the text, `denials` are the stems that the text denies.
        """
        denied_here_alone = (self.denied & stems) - denials
        denied_there_alone = (denials & self.stems) - self.denied
        return bool(denied_here_alone or denied_there_alone)


@dataclass(frozen=True, eq=False)
class Page:
    """Contexts read as one: `sentences` in their order, `context_of` is the context that each is
    from.
    """

    sentences: tuple[Sentence, ...]
    context_of: tuple[int, ...]

    @cached_property
    def sentence_texts(self) -> tuple[str, ...]:
        return tuple(sentence.text for sentence in self.sentences)

    @cached_property
    def sentence_at(self) -> Ints:
        """Return for each position of a word its sentence; behind each sentence one position is free."""
        sizes = [len(sentence.words) + 1 for sentence in self.sentences]
        return np.repeat(np.arange(len(self.sentences)), sizes)

    @cached_property
    def positions(self) -> dict[str | None, list[int]]:
        """Return stem -> its positions among the words of all sentences; None -> those that are free."""
        stems: list[str | None] = []  # at each position
        for sentence in self.sentences:
            stems += [word.stem for word in sentence.words]
            stems.append(None)
        return grouped(range(len(stems)), stems.__getitem__)

    def row_lengths(self, stems: Sequence[str]) -> list[int]:
        """Return for each stem how many, from it on, follow each other in a sentence of the page.

        >>> read_page(("The cat sat. It ran.",)).row_lengths(["the", "cat", "ran"])
        [2, 1, 1]
        """
        lengths: list[int] = []
        # position of the stem on the page -> length of the row that begins there
        length_at: dict[int, int] = {}
        for stem in reversed(stems):
            length_at = {i: 1 + length_at.get(i + 1, 0) for i in self.positions.get(stem, ())}
            lengths.append(max(length_at.values(), default=0))
        return lengths[::-1]

    @cached_property
    def _by_prefix(self) -> dict[str, list[str]]:
        stems = [stem for stem in self.positions if stem and len(stem) >= _PREFIX]
        return grouped(sorted(stems), lambda stem: stem[:_PREFIX])

    def find(self, stem: str) -> str | None:
        """Return the stem as the page has it: itself, or one that begins alike and is at most three
        letters off in length.
        """
        if stem in self.positions:
            return stem
        if len(stem) < _PREFIX or stem[0].isdigit():
            return None
        for other in self._by_prefix.get(stem[:_PREFIX], ()):
            if abs(len(other) - len(stem)) <= 3:
                return other
        return None


@lru_cache(maxsize=256)
def read_page(contexts: tuple[str, ...]) -> Page:
    """Return the contexts as one page; the last hundreds are kept in memory."""
    sentences: list[Sentence] = []
    context_of: list[int] = []
    for number, context in enumerate(contexts):
        of_context = _sentences(context)
        sentences += of_context
        context_of += [number] * len(of_context)
    return Page(tuple(sentences), tuple(context_of))


def unwrapped(text: str) -> list[str]:
    """Return the lines of the sentences of a text, with continued lines joined.

    >>> unwrapped("Use it when an exception has been raised and is\\nbeing handled:\\n- once\\n- twice")
    ['Use it when an exception has been raised and is being handled:', '- once', '- twice']
    """
    lines: list[str] = []
    for start, end in sentence_spans(text):
        lines += _WRAPPED.sub(" ", text[start:end]).split("\n")
    return lines


@lru_cache(maxsize=2_000)
def _sentences(context: str) -> tuple[Sentence, ...]:
    """Return the sentences of a context that have words; a much longer one than `_LONGEST` words is cut
    into pieces of `_LONGEST` words.
    """
    sentences = []
    for line in unwrapped(context):
        parts = line.split()
        pieces = [line.strip()]
        if len(parts) > 1.5 * _LONGEST:
            pieces = []
            for start in range(0, len(parts), _LONGEST):
                pieces.append(" ".join(parts[start : start + _LONGEST]))
        for piece in pieces:
            sentence = Sentence(piece)
            if sentence.words:
                sentences.append(sentence)
    return tuple(sentences)
