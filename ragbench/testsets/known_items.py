"""Draft questions without a language model (`testset draft`, known-item search): which headings and
sentences of the documents are asked for, and in which words.

Good for a first comparison and for checking that everything works. A question repeats the words of
its passage, which favours lexical search and shows little about the questions of users: all are
drafts, in a separate category.
"""

import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import NamedTuple

import regex

from ragbench.errors import ConfigError, DataError, warn_of_flaw
from ragbench.folding import folded
from ragbench.groups import grouped
from ragbench.language import UNSPACED, WORD, detect_language, n_words, terms
from ragbench.testsets.cases import derived_id
from ragbench.testsets.sections import (
    LONE_LEVEL,
    Heading,
    front_title,
    headings_of,
    without_front_matter,
)
from ragbench.text import sentence_spans
from ragbench.types import Case, Dataset, Document, Span

KNOWN_ITEM = "known-item draft"
KINDS = ("heading", "sentence")
"""Headings come first, because the configurations that they choose are more like those that people's
questions choose (PyDoc, 36 configurations: Kendall's tau .24 against -.16)."""

_MAX_CHARACTERS = 1_000_000
_NOT_PROSE = re.compile(r"(?ms)^(```|~~~).*?(?:^\1[^\n]*$|\Z)|<!--.*?-->|^[=\-~^\"'*+#]{3,}[ \t]*$")
_PARAGRAPH = re.compile(r"(?s)(?:\A|(?<=\n\n))(?P<indent>[ \t]*)(?P<text>\S.*?)(?=\n\n|\Z)")
_CODE = re.compile(r" {4}|\t")
_BEGIN = re.compile(
    r"(?:\(?(?:\d{1,3}|[a-zA-Z])(?:\.\d{1,3})*[.)]*\s+)?[`*\"“]{0,3}[^\W\d_]"
)  # maybe with its number
_MARKUP = re.compile(
    r"!?\[([^\]]*)\]\([^)]*\)|[`*¶]|\s#+$|<[^>]+>|:[a-z_]+:(?=\s|$)|[\u2600-\u27bf\U0001f000-\U0001faff\ufe0f\u200d]"
)
_ANYWHERE = re.compile(  # headings that could be any document's
    r"(about|authors?|background|configuration|contents?|contribut\w*|credits|description|details|examples?|features|"
    r"getting started|help|history|installation|installing|introduction|licen[cs]e|links|notes?|options|overview|"
    r"parameters|quick ?start|references?|requirements|resources|see "
    r"also|setup|sponsors?|summary|support|synopsis|todo|usage|what is it|why)\W*",
    re.IGNORECASE,
)
_LETTER = regex.compile(r"[\p{L}\p{M}]")
_CLAUSE = regex.compile(r"[^\w\s'’-]+(?:\s|$)|(?:^|\s)[^\w\s]+")
_PHRASE_WORDS = 8
_MIN_RARE = 4
_MAX_WORDS = 250
_MAX_SENTENCE = 60
_MIN_LETTERS_OF_HEADING = 4
_MAX_WORDS_OF_HEADING = 12


class _Item(NamedTuple):
    """A passage (`span`) that may be asked for by `query`; `weight` is larger for rarer words."""

    kind: str
    query: str
    span: Span
    answer: str
    weight: float = 0.0


def draft_known_items(
    dataset: Dataset, n: int = 40, *, kinds: Sequence[str] = KINDS, seed: int = 0
) -> Dataset:
    """Draft up to `n` questions from the documents, each with gold evidence, a relevant document
    and an answer.

    There are two kinds of question:

    - "heading": the headings of a section ask for its first paragraph;
    - "sentence": the rarest words of a sentence, up to eight in a row, ask for that sentence.

    All questions of the first of `kinds` come before the questions of the second. Within a kind the documents
    take turns, in an order drawn with `seed`. No two questions have the same words or passages that
    overlap.

    Raises:
        ConfigError: `n` is below 1.
        DataError: the documents have no passage to ask for.
    """
    if n < 1:
        raise ConfigError(f"the number of questions to draft is {n}; expected 1 or more")
    items = list(_with_phrases(_items_of_corpus(dataset)))
    n_items_with_query = Counter(folded(item.query) for item in items)
    unique = [item for item in items if n_items_with_query[folded(item.query)] == 1]
    by_kind = grouped(unique, lambda item: item.kind)
    in_order: list[_Item] = []
    for kind in kinds:
        in_order += _in_turn(by_kind.get(kind, ()), seed)
    chosen = _without_overlaps(in_order)[:n]
    if not chosen:
        raise DataError(
            f"no question could be drafted from {len(dataset.corpus)} documents; expected "
            f"paragraphs of prose with 8 to {_MAX_WORDS} words, and sentences of 10 to "
            f"{_MAX_SENTENCE} words, {_MIN_RARE} of them in a row worth searching for; write "
            "questions yourself"
        )
    cases = tuple(_draft_case(item) for item in chosen)
    qrels = {case.query_id: {case.evidence[0].doc_id: 1} for case in cases}
    return Dataset(dataset.name, "test", dataset.corpus, cases, qrels)


def _draft_case(item: _Item) -> Case:
    """Return the question about a passage as a test case, whose evidence is the passage."""
    return Case(
        derived_id(item.query).replace("q-", "draft-", 1),
        item.query,
        category=KNOWN_ITEM,
        query_type=item.kind,
        reference_answer=item.answer,
        evidence=(item.span,),
    )


def _items_of_corpus(dataset: Dataset) -> list[_Item]:
    """Return the passages of all documents for which a question may be drafted; a warning names the
    documents that are too long for this.
    """
    too_long: list[str] = []
    items: list[_Item] = []
    for doc_id, document in dataset.corpus.items():
        if len(document.full_text) > _MAX_CHARACTERS:
            too_long.append(doc_id)
        else:
            items += _items_of_document(document)
    warn_of_flaw(
        dataset.name,
        f"documents have more than {_MAX_CHARACTERS:,} characters: no question was drafted from "
        "them; split them",
        too_long,
    )
    return items


def _without_overlaps(items: Iterable[_Item]) -> list[_Item]:
    """Return the items without those whose passage overlaps the passage of an earlier one."""
    kept: list[_Item] = []
    kept_spans: dict[str, list[Span]] = {}  # doc_id -> the passages that are kept
    for item in items:
        span = item.span
        others = kept_spans.setdefault(span.doc_id, [])
        if not any(span.start < other.end and other.start < span.end for other in others):
            kept.append(item)
            others.append(span)
    return kept


def _items_of_document(document: Document) -> Iterator[_Item]:
    """Yield the passages of a document for which a question may be drafted.

    They are the first paragraph of each section, whose question is the heading, and each whole sentence
    of prose. The question of a sentence is the sentence itself for now: `_with_phrases` shortens it.
    """
    headings = headings_of(document)
    begun_sections = set()  # sections whose first paragraph was seen
    for match in _PARAGRAPH.finditer(_prose(document, headings)):
        paragraph = match["text"].rstrip()
        begin = match.start("text")
        if _CODE.match(match["indent"]) or not _is_prose(paragraph):
            continue
        sentences = list(_sentences(paragraph, document.doc_id, begin))
        headings_above = [heading for heading in headings if heading.start < begin]
        section = len(headings_above)  # the number of headings above identifies a section
        if section not in begun_sections:
            begun_sections.add(section)
            query = _question_of_headings(headings_above, front_title(document))
            if query:
                _, first_sentence = sentences[0]
                span = Span(document.doc_id, begin, begin + len(paragraph))
                yield _Item("heading", query, span, first_sentence)
        for span, sentence in sentences:
            is_whole = 10 <= n_words(sentence) <= _MAX_SENTENCE and not sentence[0].islower()
            if is_whole and "://" not in sentence:
                yield _Item("sentence", sentence, span, sentence)


def _sentences(paragraph: str, doc_id: str, begin: int) -> Iterator[tuple[Span, str]]:
    """Yield each sentence of a paragraph, which begins at character `begin` of a document: its place
    there, and its text in one line.
    """
    for start, end in sentence_spans(paragraph):
        yield Span(doc_id, begin + start, begin + end), _in_one_line(paragraph[start:end])


def _prose(document: Document, headings: Iterable[Heading]) -> str:
    """Return the text of a document without code, comments and headings: line breaks replace them, so that
    every other character keeps its offset.
    """
    text = without_front_matter(document)
    prose = _NOT_PROSE.sub(_line_breaks, text)
    for heading in headings:
        line, _, _ = text[heading.start :].partition("\n")
        end = heading.start + len(line)
        prose = prose[: heading.start] + "\n" * len(line) + prose[end:]
    blank_line = r"(?m)^[ \t]+$"
    return re.sub(blank_line, _line_breaks, prose)


def _line_breaks(match: re.Match[str]) -> str:
    """Return as many line breaks as a match has characters."""
    return "\n" * len(match.group())


def _is_prose(paragraph: str) -> bool:
    """Return True for a paragraph that is not a table, a list or the announcement of one."""
    return (
        _BEGIN.match(paragraph) is not None
        and 8 <= n_words(paragraph) <= _MAX_WORDS
        and len(_LETTER.findall(paragraph)) >= len(paragraph) * 0.6
        and not paragraph.endswith((":", "："))
    )


def _question_of_headings(headings: Sequence[Heading], title: str) -> str:
    """Return a question made of the last of these headings: "Install: Windows" with its parent heading.
    Headings that could be in any document follow the title of theirs: "Guide: Introduction".

    Return "" if there is no heading, or the last one does not say what its section is about: it is not
    marked as a heading, has few letters (as a version number) or many words, or is a placeholder.
    """
    if not headings:
        return ""
    heading = headings[-1]
    parents = [other for other in headings if other.level < heading.level]
    nearest_parent = parents[-1:]  # at most one
    names = [_without_markup(each.text) for each in (*nearest_parent, heading)]
    names = [name for name in names if name]
    # also if no name is left: then the title stands alone, and decides as the last name
    if all(_ANYWHERE.fullmatch(name) for name in names):
        names = [title, *names[-1:]]
    first_name, last_name = names[0], names[-1]
    n_letters = sum(len(term) for term in terms(last_name))
    is_telling = (
        first_name != ""  # a document without a title
        and heading.level < LONE_LEVEL  # it is marked as a heading
        and n_letters >= _MIN_LETTERS_OF_HEADING
        and n_words(last_name) <= _MAX_WORDS_OF_HEADING
        and "{{" not in heading.text  # a placeholder of a template
    )
    return ": ".join(names) if is_telling else ""


def _with_phrases(items: Sequence[_Item]) -> Iterator[_Item]:
    """Yield the items with their final questions.

    The question of a sentence becomes its phrase with the rarest words, and the weight of the item
    becomes the rarity of these words. Sentences without such a phrase are left out. Items of other
    kinds are unchanged.
    """
    texts = [_without_markup(item.answer) for item in items]
    rarity = _rarity(texts)
    for item, text in zip(items, texts, strict=True):
        if item.kind != "sentence":
            yield item
            continue
        phrases = list(_phrases(text, rarity))
        if phrases:
            weight, phrase = max(phrases)
            yield item._replace(query=phrase, weight=weight)


def _rarity(texts: Sequence[str]) -> dict[str, float]:
    """Return term -> log(number of texts / number of texts with the term), for the terms that are worth
    searching for: no short words, numbers or function words.
    """
    language = detect_language(texts)
    n_texts_with = Counter(chain.from_iterable(set(terms(text)) for text in texts))
    rarity = {}
    for term, count in n_texts_with.items():
        min_letters = 2 if UNSPACED.match(term) else language.letters
        is_excluded = term.isdecimal() or term in language.function_words
        if len(term) >= min_letters and not is_excluded:
            rarity[term] = math.log(len(texts) / count)
    return rarity


def _phrases(text: str, rarity: Mapping[str, float]) -> Iterator[tuple[float, str]]:
    """Yield (weight, phrase) for the phrases of a text that are worth searching for.

    A phrase is up to eight words in a row without a punctuation mark. It begins and ends with a rare
    word, and has at least four rare words. In scripts without spaces, all words count as rare, and a
    phrase has up to 16. The weight of a phrase is the sum of the rarities of its distinct words.

    Args:
        text: any text.
        rarity: rare word, as `folded` and `terms` write it -> its rarity.
    """
    for clause in _CLAUSE.split(text):
        words = list(WORD.finditer(clause))
        is_spaced = not UNSPACED.search(clause)
        max_words = _PHRASE_WORDS if is_spaced else 2 * _PHRASE_WORDS
        # the positions of the rare words in `words`
        rare = [i for i, word in enumerate(words) if not is_spaced or folded(word[0]) in rarity]
        for n_before, first in enumerate(rare):
            # the rare words of the longest phrase that begins with the word `first`
            following = rare[n_before : n_before + max_words]
            rare_in_phrase = [i for i in following if i < first + max_words]
            if len(rare_in_phrase) < _MIN_RARE:
                continue
            last = rare_in_phrase[-1]
            phrase = clause[words[first].start() : words[last].end()]
            weight = math.fsum(rarity.get(term, 0.0) for term in sorted(set(terms(phrase))))
            yield weight, phrase


def _in_turn(items: Sequence[_Item], seed: int) -> list[_Item]:
    """Return one item of each document, then a second of each, and so on; within a document the
    rarest words first, the documents in an order drawn with `seed`.
    """
    rarest_first = sorted(items, key=lambda item: -item.weight)
    by_document = grouped(rarest_first, lambda item: item.span.doc_id)
    order = sorted(by_document)
    random.Random(seed).shuffle(order)
    rounds = zip_longest(*(by_document[doc_id] for doc_id in order))  # None: no such item
    return [item for item in chain.from_iterable(rounds) if item is not None]


def _without_markup(text: str) -> str:
    """Return a text of Markdown or HTML without its marks and emojis, in one line."""
    return _in_one_line(_MARKUP.sub(r"\1", text))


def _in_one_line(text: str) -> str:
    """Return a text with one blank in place of all white space between words."""
    return " ".join(text.split())
