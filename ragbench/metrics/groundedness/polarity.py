"""What is denied: negations, what they reach, and pairs of words that exclude each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import permutations

from ragbench.metrics.groundedness.words import Word, words
from ragbench.segments import sentence_spans

_NEGATIONS = frozenset(
    """
    not no never none nobody nothing nor neither without cannot hardly scarce bare unabl fail lack
    """.split()
)
_NO_DENIAL = frozenset({"onli", "just", "mere", "necessarili"})  # "not only fast" is fast
_STOP = re.compile(r"[.,;:()!?]")
_REACH = 3  # telling words
_TELLING = 0.12

_OPPOSITES = (
    "increased decreased|increase decrease|increases decreases|rose fell|rise fall|more less|more fewer|higher lower|"
    "high low|highest lowest|first last|earliest latest|largest smallest|larger smaller|large small|best worst|"
    "better worse|won lost|win lose|before after|north south|east west|northern southern|eastern western|early late|"
    "older younger|male female|men women|son daughter|father mother|brother sister|husband wife|positive negative|"
    "always never|most few|many few|included excluded|began ended|started stopped|start stop|built destroyed|"
    "born died|accepted rejected|allowed forbidden|allowed prohibited|legal illegal|supported opposed|gained lost|"
    "major minor|same different|upper lower|long short|public private|domestic foreign|common rare|success failure|"
    "inside outside|bought sold|joined left|married divorced|approved denied|appointed dismissed|guilty innocent|"
    "true false|safe dangerous|possible impossible|able unable|active passive|enabled disabled|open closed|"
    "opened closed|above below|maximum minimum|import export|imports exports|convicted acquitted|confirmed denied"
)
_OPPOSITE: dict[str, set[str]] = {}
for _pair in _OPPOSITES.split("|"):
    for _one, _other in permutations(_pair.split()):
        _OPPOSITE.setdefault(_one, set()).add(_other)


def denied(text: str, own: Sequence[Word] | None = None) -> frozenset[str]:
    """The stems that a negation of the text reaches: the next three telling words of its clause.

    >>> sorted(denied("The bridge isn't safe under load, but it stands."))
    ['load', 'safe', 'under']
    """
    found: set[str] = set()
    text_words = words(text) if own is None else own
    for place, word in enumerate(text_words):
        if word.stem not in _NEGATIONS or (place + 1 < len(text_words) and text_words[place + 1].stem in _NO_DENIAL):
            continue
        reached, end = 0, word.end
        for after in text_words[place + 1 : place + 8]:
            if reached == _REACH or _STOP.search(text[end : after.start]):
                break
            end = after.end
            if after.weight > _TELLING and after.stem not in _NEGATIONS:
                found.add(after.stem)
                reached += 1
    return frozenset(found)


def opposed(claim: str, text: str) -> bool:
    """Whether the text has, for a word of the claim that it lacks, one that excludes it ("rose" and "fell").

    >>> opposed("Sales rose in May.", "In May sales fell."), opposed("Sales rose.", "Sales rose, then fell.")
    (True, False)
    """
    own = {claim[word.start : word.end].casefold() for word in words(claim)}
    there = {text[word.start : word.end].casefold() for word in words(text)}
    return any(_OPPOSITE.get(word, set()) & there for word in own - there)


def polarity_differs(claim: str, text: str) -> bool:
    """Whether one of the two denies what the other states, in every sentence of the text that is about the claim.

    >>> polarity_differs("The bridge is safe.", "The bridge is not safe. Boats are.")
    True
    >>> polarity_differs("The bridge is not safe.", "The bridge isn't safe.")
    False
    """
    claim_words = words(claim)
    total = sum(word.weight for word in claim_words)
    if total == 0:
        return False
    stems, own = {word.stem for word in claim_words}, denied(claim, claim_words)
    about: list[tuple[float, bool]] = []
    for start, end in sentence_spans(text):
        sentence = text[start:end]
        there_words = words(sentence)
        there = {word.stem for word in there_words}
        share = sum(word.weight for word in claim_words if word.stem in there) / total
        theirs = denied(sentence, there_words)
        about.append((share, bool((own & there) - theirs or (theirs & stems) - own)))
    best = max((share for share, _ in about), default=0.0)
    return best >= 0.5 and all(differs for share, differs in about if share >= 0.8 * best)


def text_states(text: str, claim: str) -> bool:
    """Whether the words of the claim are in the text one after another, with no negation shortly before.

    >>> text_states("Today the bridge is safe.", "the bridge is safe"), text_states("It is not safe.", "safe")
    (True, False)
    """
    wanted = [word.stem for word in words(claim)]
    there = words(text)
    stems = [word.stem for word in there]
    for place in range(len(stems) - len(wanted) + 1) if wanted else ():
        before = there[max(0, place - 4) : place]
        near = [word for word in before if not _STOP.search(text[word.end : there[place].start])]
        if stems[place : place + len(wanted)] == wanted and not any(word.stem in _NEGATIONS for word in near):
            return True
    return False
