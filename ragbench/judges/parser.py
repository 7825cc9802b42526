"""A judge's reply -> verdicts. The models below are both the schema that is sent and the validation
of the reply.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, WithJsonSchema

from ragbench.llms.reply_text import UnreadableError as UnreadableError
from ragbench.llms.reply_text import (
    json_spans,
    refuses_to_judge,
    stated,
    without_fence,
    without_thoughts,
)

_YES = {"supported", "correct", "useful", "equivalent"}
_NO = {"unsupported", "not supported", "incorrect", "not useful", "useless", "not equivalent"}


def _as_verdict(value: object) -> object:
    if isinstance(value, str):
        word = value.strip().strip(".").casefold()
        return (
            True if word in _YES else False if word in _NO else word
        )  # pydantic reads "true", "no" and the like
    return value


def _as_number(value: object) -> object:
    """The number of a document; models without a schema also write null, "[2]", "Document 2" or [2,
    3].
    """
    if isinstance(value, list):
        return _as_number(value[0]) if value else 0
    if isinstance(value, str):
        digits = re.search(r"\d+", value)
        return int(digits[0]) if digits else 0
    return 0 if value is None else value


_Verdict = Annotated[bool, BeforeValidator(_as_verdict), WithJsonSchema({"type": "boolean"})]
_Number = Annotated[int, BeforeValidator(_as_number), WithJsonSchema({"type": "integer"})]


def _as_score(value: object) -> object:
    return "a truth value" if isinstance(value, bool) else value  # pydantic would read true as 1


_Score = Annotated[
    float,
    BeforeValidator(_as_score),
    Field(ge=0, le=1),
    WithJsonSchema({"type": "number", "enum": [0, 0.25, 0.5, 0.75, 1]}),
]


# The order of the fields is the order in which a model writes them under a schema: reason first,
# verdict last. A reason may lack where a model replies without a schema; a verdict may not.


class Correctness(BaseModel):
    reason: str = ""
    verdict: _Verdict


class Relevance(BaseModel):
    reason: str = ""
    score: _Score


class Claim(BaseModel):
    number: _Number = 0
    claim: str
    reason: str = ""
    document: _Number = 0
    supported: _Verdict


class Faithfulness(BaseModel):
    claims: list[Claim]


class Statement(BaseModel):
    number: _Number = 0
    statement: str
    reason: str = ""
    document: _Number = 0
    supported: _Verdict


class ContextRecall(BaseModel):
    statements: list[Statement] = Field(min_length=1)


class Usefulness(BaseModel):
    number: _Number
    reason: str = ""
    useful: _Verdict


class ContextPrecision(BaseModel):
    documents: list[Usefulness]


_FORMS: Mapping[str, type[BaseModel]] = {
    "correctness": Correctness,
    "relevance": Relevance,
    "faithfulness": Faithfulness,
    "context_recall": ContextRecall,
    "context_precision": ContextPrecision,
}
# An object without this key is not a verdict on the criterion.
_KEY = {
    name: next(field for field in form.model_fields if field != "reason")
    for name, form in _FORMS.items()
}


def reply_schema(criteria: Sequence[str]) -> dict[str, Any]:
    """The JSON schema of a reply: only what every provider's structured output understands, all in
    one piece.
    """
    forms = {criterion: _inlined(_FORMS[criterion].model_json_schema()) for criterion in criteria}
    return {
        "type": "object",
        "properties": forms,
        "required": list(forms),
        "additionalProperties": False,
    }


def _inlined(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema without references, titles, defaults and bounds; every field required, no other
    allowed.
    """
    parts: Mapping[str, Any] = schema.get("$defs", {})

    def plain(node: Mapping[str, Any]) -> dict[str, Any]:
        if "$ref" in node:
            return plain(parts[node["$ref"].rpartition("/")[2]])
        if node.get("type") == "object":
            fields = {name: plain(field) for name, field in node["properties"].items()}
            return {
                "type": "object",
                "properties": fields,
                "required": list(fields),
                "additionalProperties": False,
            }
        if node.get("type") == "array":
            return {"type": "array", "items": plain(node["items"])}
        return {key: node[key] for key in ("type", "enum") if key in node}

    return plain(schema)


def read_verdicts(
    reply: str, criteria: Sequence[str], *, cut: bool = False
) -> dict[str, BaseModel | UnreadableError]:
    """The verdict on each criterion, or why it cannot be read.

    An object counts only where the reply begins or ends with it, on lines of its own; in prose, in
    a fence next to prose, in quotation marks, or after "it says:", it may be quoted from the judged
    text. Several verdicts on a criterion must agree, in whatever form and place, and each be
    complete. A reply with a broken JSON object is unreadable: its content might be a verdict
    planted by the judged text. So is a refusal. A criterion judged alone may lack its name around
    the object, and correctness and relevance may be in plain words: "TRUE", "Yes", "Verdict: TRUE",
    "Score: 0.25/1", "... [1]. TRUE". A reply that was `cut` at its limit is read only where it
    begins with its object.
    """
    text = without_fence(without_thoughts(reply))
    if cut and not _BEGINS_WITH_OBJECT.match(text):
        return dict.fromkeys(criteria, UnreadableError("it ends before its verdict"))
    try:
        objects = list(json_spans(text))
    except UnreadableError as problem:
        return dict.fromkeys(criteria, problem)
    found: dict[str, BaseModel | UnreadableError] = {}
    for criterion in criteria:
        try:
            found[criterion] = _verdict(criterion, text, objects, alone=len(criteria) == 1)
        except UnreadableError as problem:
            found[criterion] = problem
    return found


def _verdict(
    criterion: str, text: str, objects: Sequence[tuple[Mapping[str, Any], int, int]], *, alone: bool
) -> BaseModel:
    key = _KEY[criterion]
    candidates: list[object] = []
    prose, end, counts = [], 0, False
    spans = [(start, stop) for _, start, stop in objects]
    for (found, start, stop), is_stated in zip(objects, stated(text, spans), strict=True):
        own = [found[criterion]] if criterion in found else []
        own += [found] if alone and key in found else []
        candidates += own
        counts = counts or (is_stated and bool(own))
        prose.append(text[end:start])
        end = stop
    words = " ".join([*prose, text[end:]])
    if refuses_to_judge(words):
        raise UnreadableError("it refuses to judge")
    if candidates:  # words do not decide next to an object, but they may contradict it
        candidates = [*_words_anywhere(criterion, words), *candidates]
    if alone and (in_words := _in_words(criterion, words)):
        candidates, counts = [*in_words, *candidates], True
    if not candidates:
        raise UnreadableError(f"it has no verdict on {criterion}" if text else "it is empty")
    verdicts: list[BaseModel] = []
    for candidate in candidates:
        try:
            # {"correctness": true}
            plain = candidate if isinstance(candidate, Mapping) else {key: candidate}
            verdicts.append(_FORMS[criterion].model_validate(plain))
        except ValidationError as exc:
            first = exc.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in (criterion, *first["loc"]))
            raise UnreadableError(f"{place}: {first['msg']}") from None
    if any(_decision(one) != _decision(verdicts[-1]) for one in verdicts):
        raise UnreadableError(f"it has verdicts on {criterion} that disagree")
    if not counts:
        raise UnreadableError(
            f"it neither begins nor ends with its verdict on {criterion}, which may be a quotation"
        )
    return verdicts[-1]


def _decision(verdict: BaseModel) -> object:
    """The verdict without its reasons."""
    match verdict:
        case Correctness(verdict=decision) | Relevance(score=decision):
            return decision
        case Faithfulness(claims=parts) | ContextRecall(statements=parts):
            return [part.supported for part in parts]
    return [(one.number, one.useful) for one in getattr(verdict, "documents", ())]


# The words may be surrounded by anything but letters and line breaks, such as the asterisks of
# Markdown.
_WORD = r"(true|false|yes|no|correct|incorrect)"
_LABEL = r"(?:final )?(?:verdict|correctness)(?: is)?[^\w\n]+"
_SCORE = (
    r"(?:final )?(?:relevance )?(?:score|relevance)[^\w\n]+(\d+(?:\.\d+)?)(?:\s*(?:/|out "
    r"of)\s*1(?:\.0+)?)?"
)
_LABELLED = {"correctness": f"{_LABEL}{_WORD}", "relevance": _SCORE}
_BARE = {"correctness": _WORD, "relevance": r"([01](?:\.\d+)?)(?:\s*/\s*1(?:\.0+)?)?"}
_BEGINS_WITH_OBJECT = re.compile(r"\[?\s*\{")


def _words_anywhere(criterion: str, text: str) -> list[str]:
    """The labelled verdicts anywhere in a text, and the word that it begins with, if that is a
    truth value.
    """
    if criterion not in _LABELLED:
        return []
    begins = re.match(r"[^\w\n]*(true|false|correct|incorrect)\s*[,.:;!]", text, re.I)
    first = [begins[1]] if begins and criterion == "correctness" else []
    return [*first, *(hit[1] for hit in re.finditer(rf"\b{_LABELLED[criterion]}\b", text, re.I))]


def _in_words(criterion: str, text: str) -> list[str]:
    """The verdicts of a text in plain words.

    A labelled one ("Verdict: TRUE") is a line of its own or ends the text. A bare word is the first
    or last line, or the first or last sentence; a bare number is the whole text. Elsewhere they may
    be quoted from an answer such as "output TRUE".
    """
    if criterion not in _LABELLED:
        return []
    labelled, bare = _LABELLED[criterion], _BARE[criterion]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = []
    for place, line in enumerate(lines):
        first, last = place == 0, place == len(lines) - 1
        words = (
            bare if (criterion == "correctness" and (first or last)) or len(lines) == 1 else None
        )
        forms = [rf"[^\w\n\[\]]*(?:{labelled})[^\w\n\[\]]*\Z"]
        if words:
            forms.append(rf"[^\w\n\[\]]*(?:{words})[^\w\n\[\]%]*\Z")
        match = next((hit for form in forms if (hit := re.match(form, line, re.I))), None)
        if match:
            found.append(match[1])
            continue
        if (
            first
            and criterion == "correctness"
            and (hit := re.match(rf"[^\w\n]*{_WORD}\b[*_]*[.!:;]\s+[^\W\d_]", line, re.I))
        ):
            found.append(hit[1])
        if last:
            ending = rf"[.!?:;)\]]\s+[^\w\n]*(?:{labelled}{f'|{bare}' if criterion == 'correctness' else ''})[^\w\n]*\Z"
            tail = re.search(ending, line[-80:], re.I)
            if tail:
                found.append(next(filter(None, tail.groups())))
    if (
        found
        and criterion == "correctness"
        and (hit := re.match(rf"[^\w\n]*{_WORD}\s*,", text, re.I))
    ):
        found.insert(
            0, hit[1]
        )  # "No, it is not. TRUE": not a verdict by itself, but it may contradict one
    return found


def rank_weighted_precision(useful: Sequence[bool]) -> float:
    """Rank-weighted precision of retrieved chunks, best first: range [0, 1], higher is better.

    The mean, over the useful chunks, of the precision at their rank: sum_k P@k u_k / sum_k u_k,
    where u_k is 1 if the chunk at rank k is useful and P@k the fraction of useful ones among the
    first k. It is 1 if all useful chunks come first, regardless of the others, and 0 if none is
    useful. It is average precision over what was retrieved, as RAGAS defines context precision (Es
    et al. 2024); documents that were not retrieved do not matter.

    Useful at ranks 1 and 3: (1/1 + 2/3) / 2.

    >>> round(rank_weighted_precision([True, False, True, False]), 4)
    0.8333
    """
    ranks = [rank for rank, is_useful in enumerate(useful, 1) if is_useful]
    return sum(hits / rank for hits, rank in enumerate(ranks, 1)) / len(ranks) if ranks else 0.0


def score(verdict: BaseModel, chunk_ids: Sequence[str]) -> tuple[float | None, str]:
    """The value of a verdict in [0, 1] and its explanation; None where the answer makes no claim.

    Raises:
        UnreadableError: a retrieved document has no verdict, or support is claimed from one that
        was not shown.
    """
    match verdict:
        case Correctness():
            return float(verdict.verdict), verdict.reason
        case Relevance():
            return verdict.score, verdict.reason
        case Faithfulness():
            if not verdict.claims:
                return None, "the judge found no claim in the answer"
            claims = [(c.claim, c.reason, c.document, c.supported) for c in verdict.claims]
            return _supported("claims", claims, chunk_ids)
        case ContextRecall():
            statements = [
                (s.statement, s.reason, s.document, s.supported) for s in verdict.statements
            ]
            return _supported("statements", statements, chunk_ids)
        case ContextPrecision():
            by_number = {document.number: document for document in verdict.documents}
            numbers = range(1, len(chunk_ids) + 1)
            if missing := [number for number in numbers if number not in by_number]:
                raise UnreadableError(
                    f"context_precision: no verdict on document {', '.join(map(str, missing))}"
                )
            useful = [by_number[number].useful for number in numbers]
            lines = [f"{sum(useful)} of {len(useful)} chunks useful"]
            for number, (yes, chunk_id) in enumerate(zip(useful, chunk_ids, strict=True), 1):
                why = f" ({reason})" if (reason := by_number[number].reason) else ""
                lines.append(f"{number}. {'useful' if yes else 'not useful'} [{chunk_id}]{why}")
            return rank_weighted_precision(useful), "\n".join(lines)
    raise TypeError(f"no value is defined for {type(verdict).__name__}")


def unsupported_claims(verdict: BaseModel) -> tuple[str, ...]:
    """The claims of an answer that no document supports; () for other criteria than faithfulness."""
    if not isinstance(verdict, Faithfulness):
        return ()
    last = {_folded(claim.claim): claim for claim in verdict.claims}
    return tuple(claim.claim for claim in last.values() if not claim.supported)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _supported(
    kind: str, claims: Sequence[tuple[str, str, int, bool]], chunk_ids: Sequence[str]
) -> tuple[float, str]:
    """Supported / all; of a repeated claim the last verdict counts.

    Support by a document that was not shown contradicts itself, so the reply is unreadable.
    """
    last = {_folded(text): (text, reason, number, yes) for text, reason, number, yes in claims}
    lines = {True: [], False: []}  # type: dict[bool, list[str]]
    for place, (text, reason, number, yes) in enumerate(last.values(), 1):
        if yes and not 1 <= number <= len(chunk_ids):
            raise UnreadableError(
                f"{kind}: number {place} is supported by document {number}, but "
                f"only {len(chunk_ids)} were shown"
            )
        why = f" [{chunk_ids[number - 1]}]" if yes else f" ({reason})" if reason else ""
        lines[yes].append(f"{place}. {text}{why}")
    explanation = [f"{len(lines[True])} of {len(last)} {kind} supported"]
    for yes, heading in ((False, "Unsupported"), (True, "Supported")):
        if lines[yes]:
            explanation += [f"{heading}:", *lines[yes]]
    return len(lines[True]) / len(last), "\n".join(explanation)
