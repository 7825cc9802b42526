"""Questions without a language model: passages of the documents, asked for by their own words
(known-item search).

Good for a first comparison and for checking that everything works. The words of a question are
those of its passage, which favours lexical search and says little about questions as users ask
them: all are drafts, in a category of their own.
"""

from __future__ import annotations

import math
import random
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from ragbench.errors import ConfigError, DataError, DataWarning
from ragbench.testsets.cases import derived_id
from ragbench.testsets.sections import Heading, front_title, headings_of, without_front_matter
from ragbench.text import sentence_spans
from ragbench.types import Case, Dataset, Document, Span

KNOWN_ITEM = "known-item draft"
KINDS = ("heading", "definition", "sentence")

_MAX_CHARACTERS = 1_000_000
_NOT_PROSE = re.compile(r"(?ms)^(```|~~~).*?(?:^\1[^\n]*$|\Z)|<!--.*?-->|^[=\-~^\"'*+#]{3,}[ \t]*$")
_PARAGRAPH = re.compile(r"(?s)(?:\A|(?<=\n\n))(?P<indent>[ \t]*)(?P<text>\S.*?)(?=\n\n|\Z)")
_CODE = re.compile(r" {4}|\t")
_BEGIN = re.compile(
    r"(?:\(?(?:\d{1,3}|[a-zA-Z])(?:\.\d{1,3})*[.)]*\s+)?[`*\"“]{0,3}[^\W\d_]"
)  # maybe with its number
_DEFINITION = re.compile(
    r"((?:The |An? )?)([`*\"]*[^\W\d_][\w .`*\"/-]{1,50}?) (is|are) (?:an?|the|one of)"
    r" (?!only|same|best|first|next|last|other|rest|most|way|key|case|reason|result|default)"
)
_NO_TERM = re.compile(
    "it|this|that|there|these|those|which|he|she|they|here|what|such|one|each|all|both|we|you|i|if|when|where|while|who|"
    "my|your|his|her|its|our|their|and|but|or|so|as|then|also|now|not|only|another|other|some|any|every|most|many|for|"
    "in|on|at|by|to|with|because|since|however|note|first|second|finally|today|currently|"
    "the|an?|of|from|into|onto|through|between|under|over|about|after|before|during|without|within|per|via|like|than|is|"
    "are|was|were|be|been|being|has|have|had|do|does|did|can|could|will|would|shall|should|may|might|must|more|less|very|"
    "just|never|always|often|too|yes|no|how|why|whose|until|although|unless|whether",
    re.IGNORECASE,
)
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
_WORD = re.compile(r"[^\W\d_]{4,}")
_CLAUSE = re.compile(r"[^\w\s'’-]+(?:\s|$)|(?:^|\s)[^\w\s]+")
_PHRASE_WORDS = 8
_MIN_RARE = 4
_MAX_WORDS = 250
_MAX_SENTENCE = 60


class _Item(NamedTuple):
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

    - "heading": the headings of a section, for its first paragraph;
    - "definition": "What is a widget?", for a sentence such as "A widget is a ..." (English only);
    - "sentence": up to eight words in a row, the rarest of a sentence, for that sentence.

    The documents take turns, in an order drawn with `seed`; no two questions share a passage or
    their words.

    Raises:
        ConfigError: `n` is below 1.
        DataError: the documents have no passage to ask for.
    """
    if n < 1:
        raise ConfigError(f"the number of questions to draft is {n}; expected 1 or more")
    found: list[_Item] = []
    removed: Counter[str] = Counter()
    for document in dataset.corpus.values():
        if len(document.full_text) > _MAX_CHARACTERS:
            removed[f"documents have more than {_MAX_CHARACTERS:,} characters"] += 1
            warnings.warn(
                f"{document.doc_id} has {len(document.full_text):,} characters, so no question "
                f"was drafted from it; split documents of more than {_MAX_CHARACTERS:,}",
                DataWarning,
                stacklevel=2,
            )
        else:
            found += _items(document, removed)
    with_words = list(_weighted(found))
    removed[f"sentences have no {_MIN_RARE} words in a row to search for"] += len(found) - len(
        with_words
    )
    asked = Counter(item.query.casefold() for item in with_words)
    found = [
        item for item in with_words if item.kind in kinds and asked[item.query.casefold()] == 1
    ]
    removed["passages have the words of another, or are of another kind"] += len(with_words) - len(
        found
    )
    chosen: list[_Item] = []
    turns = [_in_turn([item for item in found if item.kind == kind], seed) for kind in kinds]
    for item in (item for turn in zip_longest(*turns) for item in turn if item is not None):
        taken = (other.span for other in chosen if other.span.doc_id == item.span.doc_id)
        if len(chosen) < n and not any(
            item.span.start < t.end and t.start < item.span.end for t in taken
        ):
            chosen.append(item)
    if not chosen:
        reasons = ", ".join(f"{count} {reason}" for reason, count in removed.most_common() if count)
        raise DataError(
            f"no question could be drafted from {len(dataset.corpus)} "
            f"documents: {reasons or 'there is no paragraph'}; write questions yourself"
        )
    cases = tuple(
        Case(
            derived_id(item.query).replace("q-", "draft-", 1),
            item.query,
            category=KNOWN_ITEM,
            query_type=item.kind,
            reference_answer=item.answer,
            evidence=(item.span,),
        )
        for item in chosen
    )
    qrels = {case.query_id: {case.evidence[0].doc_id: 1} for case in cases}
    return Dataset(dataset.name, "test", dataset.corpus, cases, qrels)


def _items(document: Document, removed: Counter[str]) -> Iterator[_Item]:
    """Yield the passages of a document that may be asked for; what others lack is counted in
    `removed`.
    """
    text, headings, title = (
        without_front_matter(document),
        headings_of(document),
        front_title(document),
    )
    prose = _NOT_PROSE.sub(lambda match: "\n" * len(match.group()), text)
    for heading in headings:
        end = text.find("\n", heading.start) if "\n" in text[heading.start :] else len(text)
        prose = prose[: heading.start] + "\n" * (end - heading.start) + prose[end:]
    prose = re.sub(r"(?m)^[ \t]+$", lambda blank: "\n" * len(blank.group()), prose)
    starts = [heading.start for heading in headings]
    first_of: set[int] = set()
    for match in _PARAGRAPH.finditer(prose):
        paragraph, begin = match["text"].rstrip(), match.start("text")
        if lack := _lack_of_paragraph(paragraph, match["indent"]):
            removed[f"paragraphs {lack}"] += 1
            continue
        sentences = [
            (Span(document.doc_id, begin + start, begin + end), _flat(paragraph[start:end]))
            for start, end in sentence_spans(paragraph)
        ]
        number = sum(start < begin for start in starts) - 1
        if number >= 0 and number not in first_of and (query := _titled(headings, number, title)):
            span = Span(document.doc_id, begin, begin + len(paragraph))
            yield _Item("heading", query, span, sentences[0][1])
        first_of.add(number)
        for span, sentence in sentences:
            defined = _DEFINITION.match(sentence)
            term = _flat(_MARKUP.sub(r"\1", defined[2])) if defined else ""
            if defined and _is_term(defined[1], term):
                yield _Item(
                    "definition",
                    f"What {defined[3]} {defined[1].lower()}{_unquoted(term)}?",
                    span,
                    sentence,
                )
            elif lack := _lack_of_sentence(sentence):
                removed[f"sentences {lack}"] += 1
            else:
                yield _Item("sentence", sentence, span, sentence)


def _lack_of_paragraph(paragraph: str, indent: str) -> str:
    """Return the rule by which nothing in a paragraph is asked for, "" where it is prose."""
    words = len(paragraph.split())
    if _CODE.match(indent):
        return "are indented by 4 characters or more, as code is"
    if not _BEGIN.match(paragraph):
        return "begin with a sign, as tables and lists do"
    if not 8 <= words <= _MAX_WORDS:
        return (
            "have fewer than 8 words"
            if words < 8
            else f"have more than {_MAX_WORDS} words without a blank line"
        )
    if sum(sign.isalpha() for sign in paragraph) < len(paragraph) * 0.6:
        return "have fewer letters than 60 % of their characters"
    return "announce what follows them, with a colon" if paragraph.endswith(":") else ""


def _lack_of_sentence(sentence: str) -> str:
    """Return the rule by which a sentence is not asked for, "" where it may be."""
    words = len(sentence.split())
    if not 10 <= words <= _MAX_SENTENCE:
        return "have fewer than 10 words" if words < 10 else f"have more than {_MAX_SENTENCE} words"
    return (
        "begin with a small letter, or hold an address"
        if sentence[0].islower() or "://" in sentence
        else ""
    )


def _is_term(article: str, term: str) -> bool:
    """Return True if a text is a noun phrase that is understood without its document: not "the
    type", not "our index".

    Without a dictionary: up to five words, none of which is a pronoun, a preposition, an article or
    a form of a verb such as "is", the first of several not an adverb, and quotation marks and
    brackets in pairs.
    """
    words = _unquoted(term).split()
    if (
        not 1 <= len(words) <= 5
        or '"' in _unquoted(term)
        or "`" in term
        or term.count("(") != term.count(")")
    ):
        return False
    common = article == "The " and all(re.fullmatch("[a-z-]+", word) for word in words)
    adverb = len(words) > 1 and words[0].endswith("ly")
    return not (common or adverb or any(_NO_TERM.fullmatch(word) for word in words))


def _unquoted(term: str) -> str:
    return term[1:-1] if len(term) > 2 and term[0] == term[-1] == '"' else term


def _titled(headings: Sequence[Heading], number: int, title: str) -> str:
    """Return a heading after the one above it, or the title; "" where it names nothing, as the
    number of a version.
    """
    own = headings[number]
    above = next(
        (heading for heading in reversed(headings[:number]) if heading.level < own.level), None
    )
    names = [_flat(_MARKUP.sub(r"\1", heading.text)) for heading in (above, own) if heading]
    names = [name for name in names if name]
    if names and all(_ANYWHERE.fullmatch(name) for name in names):
        names = [title, names[-1]]
    if not names or not names[0]:
        return ""
    is_title = (
        own.level < 100
        and _WORD.search(names[-1])
        and len(names[-1].split()) <= 12
        and "{{" not in own.text
    )
    return ": ".join(filter(None, names)) if is_title else ""


def _weighted(items: Sequence[_Item]) -> Iterator[_Item]:
    """Yield the items, those of sentences with a phrase of rare words as the question, and by how
    rare they are.
    """
    from bm25s.stopwords import STOPWORDS_EN_PLUS

    texts = [_flat(_MARKUP.sub(r"\1", item.answer)) for item in items]
    counts = Counter(word for text in texts for word in set(_WORD.findall(text.casefold())))
    rarity = {
        word: math.log(len(items) / count)
        for word, count in counts.items()
        if word not in STOPWORDS_EN_PLUS
    }
    for item, text in zip(items, texts, strict=True):
        if item.kind != "sentence":
            yield item
        elif found := max(_phrases(text, rarity), default=None):
            yield item._replace(query=found[1], weight=found[0])


def _phrases(text: str, rarity: Mapping[str, float]) -> Iterator[tuple[float, str]]:
    """Yield words in a row inside a clause, with at least four that are worth searching for, and
    how rare these are.
    """
    for clause in _CLAUSE.split(text):
        words = clause.split()
        for start in range(len(words)):
            row = words[start : start + _PHRASE_WORDS]
            found = [number for number, word in enumerate(row) if word.casefold() in rarity]
            if len(found) >= _MIN_RARE and found[0] == 0:
                row = row[: found[-1] + 1]
                yield (
                    sum(rarity[word] for word in {row[number].casefold() for number in found}),
                    " ".join(row),
                )


def _in_turn(items: Sequence[_Item], seed: int) -> list[_Item]:
    """Return one item of each document, then a second of each, and so on; the rarest words first."""
    by_document: dict[str, list[_Item]] = {}
    for item in sorted(items, key=lambda item: -item.weight):
        by_document.setdefault(item.span.doc_id, []).append(item)
    order = sorted(by_document)
    random.Random(seed).shuffle(order)
    return [
        item
        for turn in zip_longest(*(by_document[name] for name in order))
        for item in turn
        if item is not None
    ]


def _flat(text: str) -> str:
    return " ".join(text.split())
