"""What an answer claims: its sentences and clauses, each with how it is worded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ragbench.generation.citations import without_citations
from ragbench.metrics.groundedness.numbers import numbers
from ragbench.metrics.groundedness.words import words
from ragbench.text import sentence_spans, trim

KINDS = ("assertion", "inference", "general")
"""How a claim is worded: stated as a fact, drawn as a conclusion or supposed, or about nothing in
particular.
"""

_FENCE = re.compile(
    r"^[ \t]*(?:```|~~~).*?(?:^[ \t]*(?:```|~~~)[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_MARKER = re.compile(r"[ \t]*(?:>+[ \t]*)*(?:[-*+•][ \t]+|\(?\d{1,3}[.)][ \t]+)?")
_NO_SENTENCE = re.compile(r"[ \t]*(?:#{1,6}[ \t].*|\|?[ \t:|-]*-[ \t:|-]*|\*\*[^*]+\*\*:?)[ \t]*")
_CLAUSE = re.compile(
    r";\s+|,\s+(?:and|but|whereas|while)\s+(?=(?:it|they|he|she|we|there|this|these|those|the|its|their|his|her)\b)"
)
_VERB = re.compile(
    r"\b(?:is|are|was|were|be|has|have|had|does|do|did|can|could|will|would|may|might|must|shall|should|\w{2,}(?:ed|es|s))\b",
    re.IGNORECASE,
)
_LEAST_WORDS = 4  # of a clause that stands alone

_INFERENCE = re.compile(
    r"\b(?:may(?! \d)|might|could|perhaps|possibly|probably|likely|unlikely|presumably|apparently|"
    r"seems?|appears? to|suggest(?:s|ed|ing)?|impl(?:y|ies|ied|ying)|indicat(?:es?|ed|ing) that|"
    r"therefore|thus|hence|consequently|"
    r"it follows|as a result|this means|which means|in other words|we can (?:infer|conclude)|"
    r"one can (?:infer|conclude)|i (?:think|believe|guess|suppose|assume))\b"
)
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


class Claim(NamedTuple):
    """A claim of an answer: `text == answer[start:end]`, with the marks of its citations; `kind` is
    one of KINDS.
    """

    text: str
    start: int
    end: int
    kind: str


def claims(answer: str) -> list[Claim]:
    """Return the claims of an answer in their order.

    A claim is a sentence, or one of its clauses where those are joined by a semicolon or by a comma
    with "and", "but", "while" or "whereas" before a subject of its own, and each has a verb and
    four words. Each line of a list counts for itself. The marks of citations behind a full stop
    belong to the claim before them. No claims are questions, headings, code blocks, and fillers
    such as "Good question!".

    The kind follows from the wording: "inference" where it concludes or supposes ("therefore",
    "suggests", "might"), "general" where it speaks of nothing in particular ("it is important to
    ...", "please ...") and names neither a number nor a name, else "assertion".

    >>> for claim in claims("It opened in 1889; it may close soon [2]. It is important to book early! Why?"):
    ...     print(claim.kind, repr(claim.text))
    assertion 'It opened in 1889;'
    inference 'it may close soon [2].'
    general 'It is important to book early!'
    """
    listed: list[Claim] = []
    for start, end in _clauses(answer):
        text = answer[start:end]
        bare = without_citations(text)
        if not re.search(r"\w", bare):
            if listed and not re.search(r"\n\s*\n", answer[listed[-1].end : start]):
                before = listed.pop()
                listed.append(Claim(answer[before.start : end], before.start, end, before.kind))
            continue
        if no_claim(bare):
            continue
        listed.append(Claim(text, start, end, kind_of(bare)))
    return listed


def kind_of(claim: str) -> str:
    """Return the kind of a claim by its wording, one of KINDS; see `claims`.

    >>> kind_of("The results suggest a slower growth."), kind_of("Rates grew by 3 %.")
    ('inference', 'assertion')
    """
    lower = claim.casefold().replace("’", "'")
    if _INFERENCE.search(lower):
        return "inference"
    specific = any(word.name for word in words(claim)) or numbers(claim)
    return (
        "general"
        if not specific and (_GENERAL.search(lower) or claim.rstrip().endswith(":"))
        else "assertion"
    )


def no_claim(sentence: str) -> bool:
    """Return True if a sentence claims nothing: a question, or a filler such as "Good question!".

    >>> no_claim("Have you been there?"), no_claim("Sure, thanks!"), no_claim("I was there.")
    (True, True, False)
    """
    return sentence.rstrip(" \t\"'”’)*_").endswith("?") or all(
        _FILLER.fullmatch(part) for part in re.split(r"(?<=[,!.])\s+", sentence.strip())
    )


def _clauses(answer: str) -> Iterator[tuple[int, int]]:
    prose = _FENCE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), answer)
    for start, end in sentence_spans(prose):
        for first, last in _lines(prose, start, end):
            yield from _split(prose, first, last)


def _lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the lines of a sentence that are items of a list, or one piece where it is only
    wrapped.
    """
    begin = start
    for match in re.finditer(r"\n", text[start:end]):
        following = text[start + match.end() : end]
        item = _MARKER.match(following)
        if (
            (item and item.group().strip())
            or following.startswith("\n")
            or _NO_SENTENCE.match(following.split("\n")[0] or "x")
        ):
            yield from _bare(text, begin, start + match.start())
            begin = start + match.end()
    yield from _bare(text, begin, end)


def _bare(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    marker = _MARKER.match(text[start:end])
    start, end = trim(text, start + (marker.end() if marker else 0), end)
    if start < end and not _NO_SENTENCE.fullmatch(text[start:end].split("\n")[0]):
        yield start, end
    elif "\n" in text[start:end]:
        yield from _bare(text, text.index("\n", start) + 1, end)


def _split(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    begin = start
    for match in _CLAUSE.finditer(text, start, end):
        before, after = text[begin : match.start()], text[match.end() : end]
        if all(
            len(part.split()) >= _LEAST_WORDS and _VERB.search(part) for part in (before, after)
        ):
            yield trim(text, begin, match.start() + 1)
            begin = match.end()
    yield trim(text, begin, end)
