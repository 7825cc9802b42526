"""Which marks in the text of an answer are citations ([1], [2, 3], an id), which contexts they
cite, and the text without them.
"""

import re
from collections.abc import Sequence

# Code holds no citations: `items[0]` and `[1, 2]` are Python there.
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_CITATION = re.compile(
    r"[\[【]\s*(?:(?:documents?|docs?|sources?|passages?)\s*\.?\s*)?"
    r"(\d{1,3}(?:\s*(?:[,;&]|and|[-–—])\s*(?:(?:document|doc|source|passage)\s*)?\d{1,3})*)\s*(?:†[^\]】]*)?[\]】]",
    re.IGNORECASE,
)
_ITEM = re.compile(r"(\d+)(?:\s*[-–—]\s*(\d+))?")
_BRACKETS = re.compile(r"[\[【]([^\[\]【】\n]{1,200})[\]】]")


def parse_citations(text: str, contexts: Sequence[str]) -> tuple[str, ...]:
    """Return the chunk ids that a text cites, each once, in the order of their first citation.

    A context is cited by its number from 1, as in [1], [1, 2], [1][3], [1-3], [Document 1] and 【1】,
    or by its id in brackets, as in [rail#0] and [rail#0, rail#3]. A number that no context has is
    kept as "invalid:7", so that made-up citations count. Numbers of four digits and more are years
    and the like; code between backticks is not read. `contexts` are the ids of the chunks that the
    model saw, in this order.

    >>> parse_citations("Built in 1881 [2], rebuilt later [1, 7].", ["rail#0", "rail#3"])
    ('rail#3', 'rail#0', 'invalid:7')
    >>> parse_citations("Built in 1881 [rail#3].", ["rail#0", "rail#3"])
    ('rail#3',)
    """
    cited: list[str] = []
    context_of = {number: context for number, context in enumerate(contexts, 1) if context}
    # `_blank_code` puts a blank for each sign of code, so that places stay the same
    for brackets in _BRACKETS.finditer(_blank_code(text)):
        ids = _cited_ids(brackets[1], contexts)  # as in [rail#0]; [] if the brackets hold no ids
        citation = _CITATION.fullmatch(brackets[0])  # by numbers, as in [1-3]
        if ids:
            cited += ids
        elif citation is not None:
            for number in _expand_ranges(citation[1]):  # 1, 2, 3 for "1-3"
                cited.append(context_of.get(number, f"invalid:{number}"))
    return tuple(dict.fromkeys(cited))  # each once


def without_citations(text: str, contexts: Sequence[str] = ()) -> str:
    """Return the text with blanks in place of its citations, so that offsets stay.

    A citation is "[2]", "[1, 3]", "[Document 1]", or ids of chunks in brackets; `contexts` are the
    ids that count. Code stays: brackets in code, and also code in the brackets of a citation.

    >>> without_citations("It opened in 1889 [2]; see `a[1]`.")
    'It opened in 1889    ; see `a[1]`.'
    """
    without_code = _blank_code(text)  # as long as the text, with blanks in place of code
    signs = list(text)
    for brackets in _BRACKETS.finditer(without_code):
        is_citation = _CITATION.fullmatch(brackets[0]) or _cited_ids(brackets[1], contexts)
        if is_citation:
            for place in range(brackets.start(), brackets.end()):
                # "[2 `x`]" is "[2    ]" without its code: only the places of "[", "2" and "]" change
                if without_code[place] != " ":
                    signs[place] = " "
    return "".join(signs)


def _expand_ranges(citation: str) -> list[int]:
    """Return the numbers in a citation: 1, 3, 4, 5 for "1, 3-5". A range from high to low, such as
    "5-3", counts as its first number.
    """
    numbers: list[int] = []
    for first, last in _ITEM.findall(citation):
        start = int(first)
        stop = max(start, int(last or 0))
        numbers += range(start, stop + 1)
    return numbers


def _cited_ids(inside: str, contexts: Sequence[str]) -> list[str]:
    """Return the ids of contexts between brackets; [] if there is anything else between them. "1" is
    a number and never an id.
    """
    ids = {context for context in contexts if context and not context.isdecimal()}
    if inside.strip() in ids:  # also an id with a comma
        return [inside.strip()]
    parts = [part.strip() for part in re.split(r"[,;]", inside)]
    return parts if all(part in ids for part in parts) else []


def _blank_code(text: str) -> str:
    """Return a text with blanks in place of its code, so that offsets stay."""
    if "`" not in text:
        return text
    return _CODE.sub(lambda code: " " * len(code[0]), text)
