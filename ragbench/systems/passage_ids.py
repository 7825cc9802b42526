"""Ids of the contexts of an answer: a different one for each, also if the system names none, or one
twice; and which context a citation means.
"""

import hashlib
import math
import re
from collections.abc import Collection, Sequence

from ragbench.systems.context_parser import ParsedContext
from ragbench.types import Answer, Passage

_NUMBERED = re.compile(r"~\d+\Z")  # "7~2": see `passages_of`
_RENAMED = re.compile(r"~~\d+\Z")  # what `match_passages` adds where one id has several texts


def passages_of(contexts: Sequence[ParsedContext]) -> list[Passage]:
    """Return a passage per context, each with an id that no other passage of this answer has.

    A system may return two excerpts of a document under the document's id, or one excerpt twice. All are
    kept, so that "[3]" in the answer still means the third context: the second "7" is called "7~2".
    """
    passages: dict[str, Passage] = {}
    last_number_of: dict[str, int] = {}  # by the system's own id
    for context in contexts:
        own_id = own_id_of(context)
        number = last_number_of.get(own_id, 0) + 1
        while _numbered(own_id, number) in passages:  # a system may use "7~2" itself
            number += 1
        last_number_of[own_id] = number
        doc_id = context.doc_id
        # an id of several contexts is not the id of an excerpt, but of their document
        if not doc_id and number > 1:
            doc_id = own_id
        score = context.score
        if score is not None and not math.isfinite(score):
            score = None
        passage_id = _numbered(own_id, number)
        passages[passage_id] = Passage(passage_id, context.text, doc_id, score, context.sources)
    return list(passages.values())


def _numbered(own_id: str, number: int) -> str:
    """Return the id of the context of that number among those with one id: "7", then "7~2"."""
    return own_id if number == 1 else f"{own_id}~{number}"


def own_id_of(context: ParsedContext) -> str:
    """Return the system's id of a context, or one made from its text."""
    return context.id or text_id(context.text)


def text_id(text: str) -> str:
    """Return the id of a passage that came without one: it depends on its text alone.

    >>> text_id("It opened in 1881.")
    'text-9eb86fd78f1c'
    """
    return f"text-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:12]}"


def distinct_contexts(answer: Answer) -> tuple[str, ...]:
    """Return an answer's contexts for a ranking, in which a context that the system returned twice
    counts once.

    >>> twice = (Passage("a", "x"), Passage("a~2", "x"))
    >>> distinct_contexts(Answer("q", "", contexts=("a", "a~2"), passages=twice))
    ('a',)
    """
    first_ids = first_equal_ids(answer.contexts, answer.passages)
    return tuple(dict.fromkeys(first_ids.values()))


def first_equal_ids(contexts: Sequence[str], passages: Sequence[Passage]) -> dict[str, str]:
    """Return id of a context -> id of the first context that equals it, which may be itself.

    Contexts are equal if the system gave them the same id, and their texts are the same. The ids here may
    have got a number later: "a~2" if the system used "a" twice (see `passages_of`), or "a~~2" if several
    answers have different texts under "a" (see `match_passages`). These numbers are removed first.

    >>> first_equal_ids(["a", "a~2", "a~3"], [Passage("a", "x"), Passage("a~2", "x"), Passage("a~3", "y")])
    {'a': 'a', 'a~2': 'a', 'a~3': 'a~3'}
    """
    text_of = {passage.passage_id: passage.text for passage in passages}
    # context -> its id without "~~2"
    id_in_answer = {context: _RENAMED.sub("", context) for context in contexts}
    ids_in_answer = set(id_in_answer.values())
    first_with: dict[tuple[str, str], str] = {}  # (the system's own id, text) -> context
    first_of = {}
    for context, passage_id in id_in_answer.items():
        # also without "~2", if the answer has the id "a", too: else "a~2" is the system's own id
        own_id = _without_number(passage_id, ids_in_answer)
        key = (own_id, text_of.get(context, ""))
        first_of[context] = first_with.setdefault(key, context)
    return first_of


def _without_number(passage_id: str, ids: Collection[str]) -> str:
    """Return "a" for the id "a~2" if "a" is among the ids of the same answer; without it "a~2" is an id
    that the system chose itself, and is returned. So is an id without a number.
    """
    id_before_number = _NUMBERED.sub("", passage_id)
    return id_before_number if id_before_number in ids else passage_id


def cited_id(citation: str | int, ids: Sequence[str]) -> str:
    """Return the id of the context that a citation means by its id or its number from 1.

    A number that no context has is kept as "invalid:7", and so is the number of an empty context,
    whose id in `ids` is "". A text that is neither an id nor a number is returned as it is.

    >>> cited_id(1, ["a", ""]), cited_id("2", ["a", ""]), cited_id("rail", ["a", ""])
    ('a', 'invalid:2', 'rail')
    """
    text = str(citation)
    if text and text in ids:
        return text
    if not isinstance(citation, int) and not text.isdecimal():
        return text
    number = int(text)
    if 1 <= number <= len(ids) and ids[number - 1]:
        return ids[number - 1]
    return f"invalid:{number}"
