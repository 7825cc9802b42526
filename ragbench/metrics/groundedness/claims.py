"""The claims of an answer: its sentences without questions, fillers and general remarks."""

import re

from ragbench.generation.citations import without_citations
from ragbench.metrics.groundedness.numbers import numbers
from ragbench.metrics.groundedness.words import unwrapped, words

_FENCE = re.compile(
    r"^[ \t]*(?:```|~~~).*?(?:^[ \t]*(?:```|~~~)[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
LIST_MARK = re.compile(r"^[ \t>]*(?:[-*+•#|]+[ \t]+|\(?\d{1,3}[.)][ \t]+)?")
_HEADING = re.compile(r"[ \t]*(?:#{1,6}[ \t].*|\*\*[^*]+\*\*:?)[ \t]*")
_GENERAL = re.compile(
    r"\b(?:in general|generally|typically|usually|as a rule|of course|it is "
    r"(?:important|worth|essential|advisable|recommended|always)|please|feel free|let me know|i "
    r"hope|hope (?:this|that) helps|here (?:is|are)|you (?:can|may|should|might)|make sure|keep "
    r"in mind|there are (?:many|several|various|different) |in (?:summary|conclusion)|based on "
    r"the (?:context|documents?|passages?|information|sources?)(?: provided)?,?$)"
)
_FILLER = re.compile(
    r"(?:yes|no|sure|well|oh|wow|okay|ok|hi|hello|thanks?(?: you)?|you(?:'re| are) "
    r"welcome|great|nice|cool|good question|that(?:'s| is) (?:\w+ "
    r"){0,2}(?:interesting|cool|great|nice|awesome|true|right|question)|i "
    r"(?:see|agree|know|didn't know that|did not know that)|here (?:is|are) [^.]{0,60}:)[\s.!,:…]*",
    re.IGNORECASE,
)


# "could not" is the past of "cannot", and "May" a month
_MODAL = r"(?:may|might|could(?!\s+not\b|n['’]t))"
_ADVERB = r"(?:[Pp]erhaps|[Pp]ossibly|[Pp]robably|[Pp]resumably|[Mm]aybe|[Ll]ikely)"
_HEDGE = re.compile(
    rf"\b{_MODAL}\b|\b{_ADVERB}\b|\b(?:seems?|appears?) (?:to|that)\b|\b(?:suggests?|implies|imply)\b"
    r"|\bit is (?:likely|possible|probable) that\b",
    re.ASCII,
)
_UNHEDGED = (
    (re.compile(rf"\b{_MODAL}\s+(not\s+)?be\b"), r"is \1"),
    (re.compile(rf"\b{_MODAL}\s+(not\s+)?have been\b"), r"was \1"),
    (re.compile(rf"\b{_MODAL}\s+(?!\d)"), ""),
    (re.compile(r"\b(?:seems?|appears?) to be\b"), "is"),
    (re.compile(r"\b(?:seems?|appears?) to\s+"), ""),
    (re.compile(r"\b[Ii]t (?:(?:seems?|appears?)|is (?:likely|possible|probable)) that\s+"), ""),
    (re.compile(rf"\b{_ADVERB}\b,?\s*"), ""),
)


def is_inference(claim: str) -> bool:
    """Return True if a claim is hedged ("may", "might", "probably", "suggests"), so that less support
    is enough for it than for an assertion.

    >>> is_inference("It may be open."), is_inference("It opened in May."), is_inference("It is open.")
    (True, False, False)
    """
    return _HEDGE.search(claim) is not None


def unhedged(claim: str) -> str:
    """Return a claim as the assertion that it hedges.

    >>> unhedged("It may be open."), unhedged("Perhaps it might not be safe.")
    ('It is open.', 'it is not safe.')
    """
    for pattern, assertion in _UNHEDGED:
        claim = pattern.sub(assertion, claim)
    return " ".join(claim.split())


def claims(answer: str) -> list[str]:
    """Return the claims of an answer in their order, with the marks of their citations.

    A claim is a sentence, or a line of a list. The marks of citations behind a full stop belong to
    the claim before them. These are left out, as they claim nothing: questions, headings, code blocks,
    fillers such as "Good question!", and general remarks ("it is important to ...", "please ...")
    without a number or a name.

    >>> claims("It opened in 1889. [2] It is important to book early! Why?")
    ['It opened in 1889. [2]']
    """
    listed: list[str] = []
    for line in unwrapped(_FENCE.sub("", answer)):
        text = LIST_MARK.sub("", line).strip()
        bare = without_citations(text)
        if not words(bare):
            is_citation_alone = bare != text
            if listed and is_citation_alone:
                listed[-1] += f" {text}"
        elif not (_HEADING.fullmatch(line) or no_claim(bare) or _is_general(bare)):
            listed.append(text)
    return listed


def no_claim(sentence: str) -> bool:
    """Return True if a sentence claims nothing: a question, or a filler such as "Good question!".

    >>> no_claim("Have you been there?"), no_claim("Sure, thanks!"), no_claim("I was there.")
    (True, True, False)
    """
    is_question = sentence.rstrip(" \t\"'”’)*_").endswith("?")
    parts = re.split(r"(?<=[,!.])\s+", sentence.strip())
    return is_question or all(_FILLER.fullmatch(part) for part in parts)


def _is_general(sentence: str) -> bool:
    """Return True for a remark about nothing in particular, which names no number and no name."""
    lower = sentence.casefold().replace("’", "'")
    if not (_GENERAL.search(lower) or lower.endswith(":")):
        return False
    has_name = any(word.name for word in words(sentence))
    return not has_name and not numbers(sentence)
