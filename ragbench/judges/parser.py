"""A judge's reply -> verdicts. The models below are both the schema that is sent and the validation
of the reply.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    WithJsonSchema,
    create_model,
)

from ragbench.llms.reply_json import UnreadableError as UnreadableError
from ragbench.llms.reply_json import json_spans, stated
from ragbench.llms.reply_text import (
    plain_schema,
    refuses_to_judge,
    without_fence,
    without_thoughts,
)

_WORDS = {
    **dict.fromkeys(("supported", "correct", "useful", "equivalent"), True),
    **dict.fromkeys(
        ("unsupported", "not supported", "incorrect", "not useful", "useless", "not equivalent"),
        False,
    ),
}


def _as_verdict(value: object) -> object:
    if not isinstance(value, str):
        return value
    word = value.strip(" \t\r\n.!*_`\"'").casefold()
    return _WORDS.get(word, word)  # pydantic reads "true", "no" and the like


def _as_amount(value: object) -> object:
    if isinstance(value, str):
        return value.strip(" \t\r\n*_`")
    # pydantic would read true as 1
    return "a truth value" if isinstance(value, bool) else value


def _as_number(value: object) -> object:
    """Return the number of a document; models without a schema also write null, "[2]",
    "Document 2" or [2, 3].
    """
    if isinstance(value, list):
        value = next(iter(value), None)
    if isinstance(value, str):
        value = next(iter(re.findall(r"\d+", value)), None)
    return value or 0


_Verdict = Annotated[bool, BeforeValidator(_as_verdict), WithJsonSchema({"type": "boolean"})]
_Number = Annotated[int, BeforeValidator(_as_number), WithJsonSchema({"type": "integer"})]
_Score = Annotated[
    float,
    BeforeValidator(_as_amount),
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


class Grade(BaseModel):
    reason: str = ""
    grade: Annotated[
        int,
        BeforeValidator(_as_amount),
        Field(ge=0, le=3),
        WithJsonSchema({"type": "integer", "enum": [0, 1, 2, 3]}),
    ]


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


class Fact(BaseModel):
    number: _Number
    reason: str = ""
    support: Annotated[Literal["full", "partial", "none"], BeforeValidator(_as_verdict)]


class VitalRecall(BaseModel):
    facts: list[Fact]


_FORMS: Mapping[str, type[BaseModel]] = {
    "correctness": Correctness,
    "relevance": Relevance,
    "faithfulness": Faithfulness,
    "context_recall": ContextRecall,
    "context_precision": ContextPrecision,
    "vital_recall": VitalRecall,
    "document": Grade,
}
# An object without this key is not a verdict on the criterion.
_KEY = {
    name: next(field for field in form.model_fields if field != "reason")
    for name, form in _FORMS.items()
}


# The parts of a verdict that are not reasons.
_DECISION: Any = {
    **dict.fromkeys(("verdict", "score", "grade"), True),
    "claims": {"__all__": {"supported"}},
    "statements": {"__all__": {"supported"}},
    "documents": {"__all__": {"number", "useful"}},
    "facts": {"__all__": {"number", "support"}},
}


def reply_schema(criteria: Sequence[str]) -> dict[str, Any]:
    """Return the JSON schema of a reply: only what every provider's structured output understands,
    all in one piece.
    """
    forms: dict[str, Any] = {criterion: (_FORMS[criterion], ...) for criterion in criteria}
    return plain_schema(create_model("Reply", **forms))


def read_verdicts(
    reply: str, criteria: Sequence[str], *, cut: bool = False
) -> dict[str, BaseModel | UnreadableError]:
    """Return the verdict on each criterion, or why it cannot be read.

    An object counts only where the reply begins or ends with it, on lines of its own; in prose, in
    a fence next to prose, in quotation marks, or after "it says:", it may be quoted from the judged
    text. Several verdicts on a criterion must agree, in whatever form and place, and each be
    complete. A reply with a broken JSON object is unreadable: its content might be a verdict
    planted by the judged text. So is a refusal, and a verdict in words next to an object may
    contradict it ("Verdict: FALSE"), but words alone are no verdict. A criterion judged alone may
    lack its name around the object. A reply that was `cut` at its limit is read only where it
    begins with its object.
    """
    text = without_fence(without_thoughts(reply))
    if cut and not _BEGINS_WITH_OBJECT.match(text):
        return dict.fromkeys(criteria, UnreadableError("it ends before its verdict"))
    try:
        objects = list(json_spans(text))
    except UnreadableError as problem:
        return dict.fromkeys(criteria, problem)
    verdicts: dict[str, BaseModel | UnreadableError] = {}
    for criterion in criteria:
        try:
            verdicts[criterion] = _verdict(criterion, text, objects, alone=len(criteria) == 1)
        except UnreadableError as problem:
            verdicts[criterion] = problem
    return verdicts


def _verdict(
    criterion: str, text: str, objects: Sequence[tuple[Mapping[str, Any], int, int]], *, alone: bool
) -> BaseModel:
    key = _KEY[criterion]
    spans = [(start, stop) for _, start, stop in objects]
    candidates: list[object] = []
    counts = False
    for (item, _, _), is_stated in zip(objects, stated(text, spans), strict=True):
        named = [item[criterion]] if criterion in item else []
        named += [item] if alone and key in item else []
        candidates += named
        counts = counts or (is_stated and bool(named))
    ends = [0, *(stop for _, stop in spans)]
    starts = [*(start for start, _ in spans), len(text)]
    words = " ".join(text[end:start] for end, start in zip(ends, starts, strict=True))
    if refuses_to_judge(words):
        raise UnreadableError("it refuses to judge")
    if not candidates:
        raise UnreadableError(f"it has no verdict on {criterion}" if text else "it is empty")
    # Words do not decide, but they may contradict.
    verdicts: list[BaseModel] = []
    for candidate in (*_in_words(criterion, words), *candidates):
        try:
            # {"correctness": true}
            plain = candidate if isinstance(candidate, Mapping) else {key: candidate}
            verdicts.append(_FORMS[criterion].model_validate(plain))
        except ValidationError as exc:
            first = exc.errors(include_url=False)[0]
            where = ".".join(str(part) for part in (criterion, *first["loc"]))
            raise UnreadableError(f"{where}: {first['msg']}") from None
    decisions = [verdict.model_dump(include=_DECISION) for verdict in verdicts]
    if any(decision != decisions[-1] for decision in decisions):
        raise UnreadableError(f"it has verdicts on {criterion} that disagree")
    if not counts:
        raise UnreadableError(
            f"it neither begins nor ends with its verdict on {criterion}, which may be a quotation"
        )
    return verdicts[-1]


# The words may be surrounded by anything but letters and line breaks, such as the asterisks of
# Markdown.
_WORD = r"(true|false|yes|no|correct|incorrect)"
_LABEL = r"(?:final )?(?:verdict|correctness)(?: is)?[^\w\n]+"
_SCORE = (
    r"(?:final )?(?:relevance )?(?:score|relevance)[^\w\n]+(\d+(?:\.\d+)?)(?:\s*(?:/|out "
    r"of)\s*1(?:\.0+)?)?"
)
_BEGINS_WITH_OBJECT = re.compile(r"\[?\s*\{")


def _in_words(criterion: str, text: str) -> list[str]:
    """Return the labelled verdicts anywhere in a text, and the word that it begins with, if that is
    a truth value.
    """
    forms = {
        "correctness": (rf"\A[^\w\n]*{_WORD}\s*[,.:;!]", rf"\b{_LABEL}{_WORD}\b"),
        "relevance": (rf"\b{_SCORE}\b",),
    }
    return [hit for form in forms.get(criterion, ()) for hit in re.findall(form, text, re.I)]


def rank_weighted_precision(useful: Sequence[bool]) -> float:
    """Compute the rank-weighted precision of retrieved chunks, best first: range [0, 1], higher is better.

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


def score(verdict: BaseModel, names: Sequence[str]) -> tuple[float | None, str]:
    """Return the value of a verdict in [0, 1] and its explanation; None where the answer makes no
    claim. `names` are the ids of the documents, or for "vital_recall" the facts.

    Raises:
        UnreadableError: a document or fact has no verdict, or support is claimed from one that was
            not shown.
    """
    match verdict:
        case Correctness():
            return float(verdict.verdict), verdict.reason
        case Relevance():
            return verdict.score, verdict.reason
        case Grade():
            return verdict.grade / 3, verdict.reason
        case Faithfulness(claims=[]):
            return None, "the judge found no claim in the answer"
        case Faithfulness():
            return _supported("claims", [(c.claim, c) for c in verdict.claims], names)
        case ContextRecall():
            return _supported("statements", [(s.statement, s) for s in verdict.statements], names)
        case ContextPrecision(documents=parts):
            useful, explanation = _by_number(
                "context_precision", "document", "chunks useful", parts, names
            )
            return rank_weighted_precision(useful), explanation
        case VitalRecall(facts=parts):
            full, explanation = _by_number(
                "vital_recall", "fact", "vital facts stated in full", parts, names
            )
            return sum(full) / len(full), explanation
    raise TypeError(f"no value is defined for {type(verdict).__name__}")


def unsupported_claims(verdict: BaseModel) -> tuple[str, ...]:
    """Return the claims of an answer that no document supports; () for other criteria than
    faithfulness.
    """
    claims = verdict.claims if isinstance(verdict, Faithfulness) else []
    last = {_folded(claim.claim): claim for claim in claims}
    return tuple(claim.claim for claim in last.values() if not claim.supported)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _by_number(
    criterion: str, noun: str, kind: str, parts: Sequence[Usefulness | Fact], names: Sequence[str]
) -> tuple[list[bool], str]:
    """Return whether each document is useful or each fact stated in full, and the explanation."""
    judged = {part.number: part for part in parts}
    if missing := [str(number) for number, _ in enumerate(names, 1) if number not in judged]:
        raise UnreadableError(f"{criterion}: no verdict on {noun} {', '.join(missing)}")
    good, lines = [], []
    for number, name in enumerate(names, 1):
        part = judged[number]
        if isinstance(part, Fact):
            word: str = part.support
        else:
            word = "useful" if part.useful else "not useful"
        good.append(word in ("useful", "full"))
        lines.append(f"{number}. {word} [{name}]{f' ({part.reason})' if part.reason else ''}")
    return good, "\n".join([f"{sum(good)} of {len(good)} {kind}", *lines])


def _supported(
    kind: str, parts: Iterable[tuple[str, Claim | Statement]], chunk_ids: Sequence[str]
) -> tuple[float, str]:
    """Return supported / all; of a repeated claim the last verdict counts.

    Support by a document that was not shown contradicts itself, so the reply is unreadable.
    """
    last = {_folded(text): (text, part) for text, part in parts}
    lines: dict[bool, list[str]] = {False: [], True: []}
    for number, (text, part) in enumerate(last.values(), 1):
        if part.supported and not 1 <= part.document <= len(chunk_ids):
            raise UnreadableError(
                f"{kind}: number {number} is supported by document {part.document}, but "
                f"only {len(chunk_ids)} were shown"
            )
        why = f" ({part.reason})" if part.reason else ""
        source = f" [{chunk_ids[part.document - 1]}]" if part.supported else why
        lines[part.supported].append(f"{number}. {text}{source}")
    explanation = [f"{len(lines[True])} of {len(last)} {kind} supported"]
    for heading, group in zip(("Unsupported:", "Supported:"), lines.values(), strict=True):
        explanation += [heading, *group] if group else []
    return len(lines[True]) / len(last), "\n".join(explanation)
