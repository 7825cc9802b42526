"""Citations as answers write them: what they cite, and the text without them."""

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
    and the like; code between backticks is not read.

    >>> parse_citations("Built in 1881 [2], rebuilt later [1, 7].", ["rail#0", "rail#3"])
    ('rail#3', 'rail#0', 'invalid:7')
    >>> parse_citations("Built in 1881 [rail#3].", ["rail#0", "rail#3"])
    ('rail#3',)
    """
    cited = list[str]()
    by_number = {number: context for number, context in enumerate(contexts, 1) if context}
    for match in _BRACKETS.finditer(_blank_code(text)):
        if named := _named(match[1], contexts):
            cited += named
        elif numbered := _CITATION.fullmatch(match.group()):
            for first, last in _ITEM.findall(numbered[1]):
                numbers = range(int(first), max(int(first), int(last or 0)) + 1)
                cited += [by_number.get(number, f"invalid:{number}") for number in numbers]
    return tuple(dict.fromkeys(cited))


def without_citations(text: str, contexts: Sequence[str] = ()) -> str:
    """Return the text with the marks of citations ("[2]", "[1, 3]", "[Document 1]", ids of
    `contexts`) made blank.

    What is left keeps its place; brackets in code stay.

    >>> without_citations("It opened in 1889 [2]; see `a[1]`.")
    'It opened in 1889    ; see `a[1]`.'
    """

    def blank(match: re.Match[str]) -> str:
        kept = match.group()
        is_mark = _CITATION.fullmatch(kept) or (contexts and _named(match[1], contexts))
        return " " * len(kept) if is_mark else kept

    code = _blank_code(text)
    return "".join(
        a if b != " " or c == " " else " "
        for a, b, c in zip(text, _BRACKETS.sub(blank, code), code, strict=True)
    )


def _named(inside: str, contexts: Sequence[str]) -> list[str]:
    """Return the ids of contexts in brackets, if there is nothing else in them; "1" is a number and
    never an id.
    """
    parts = [part.strip() for part in re.split(r"[,;]", inside)]
    ids = {context for context in contexts if context and not context.isdecimal()}
    if inside.strip() in ids:
        return [inside.strip()]
    return parts if all(part in ids for part in parts) else []


def _blank_code(text: str) -> str:
    return _CODE.sub(lambda code: " " * len(code.group()), text) if "`" in text else text
