"""A judge's reply -> verdicts: which objects, words and numbers of a reply count, when it is
refused, and the value of a verdict; also the schema that is sent.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    WithJsonSchema,
    create_model,
)
from pydantic_core import PydanticCustomError

from ragbench.judges.criterion import Criterion
from ragbench.judges.quotes import QuoteIndex
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
    """Return True or False for the words of a verdict, other words without signs around them; any
    other value unchanged.
    """
    if not isinstance(value, str):
        return value
    word = value.strip(" \t\r\n.!*_`\"'").casefold()
    return _WORDS.get(word, word)  # pydantic reads "true", "no" and the like


def _as_amount(value: object) -> object:
    """Return a number, or a text without signs around it, for pydantic to read."""
    if isinstance(value, str):
        return value.strip(" \t\r\n*_`")
    if isinstance(value, bool):
        return "a truth value"  # pydantic would read true as 1
    return value


def _as_number(value: object) -> object:
    """Return the number of a document, 0 for none; models without a schema also write null, "[2]",
    "Document 2" or [2, 3].
    """
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, str):
        match = re.search(r"\d+", value)
        value = match[0] if match else None
    return value or 0


def _as_quote(value: object) -> object:
    return "" if value is None else value


_Quote = Annotated[str, BeforeValidator(_as_quote), WithJsonSchema({"type": "string"})]
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


class LevelVerdict(BaseModel):
    """The verdict of a criterion with levels; `level_values` maps each level to its value."""

    level_values: ClassVar[Mapping[str, float | None]]
    reason: str = ""
    verdict: str


class Score(BaseModel):
    reason: str = ""
    score: _Score


class Grade(BaseModel):
    reason: str = ""
    match: _Number = 0
    trust: _Number = 0
    grade: Annotated[
        int,
        BeforeValidator(_as_amount),
        Field(ge=0, le=3),
        WithJsonSchema({"type": "integer", "enum": [0, 1, 2, 3]}),
    ]


class Check(BaseModel):
    """The verification of one claim or statement."""

    number: _Number
    reason: str = ""
    document: _Number = 0
    quote: _Quote = ""
    supported: _Verdict


class Claims(BaseModel):
    claims: list[str]
    checks: list[Check]


class Statements(BaseModel):
    statements: list[str] = Field(min_length=1)
    checks: list[Check]


class Usefulness(BaseModel):
    number: _Number
    reason: str = ""
    useful: _Verdict


class Documents(BaseModel):
    documents: list[Usefulness]


class Fact(BaseModel):
    number: _Number
    reason: str = ""
    support: Annotated[Literal["full", "partial", "none"], BeforeValidator(_as_verdict)]


class Facts(BaseModel):
    facts: list[Fact]


_FORMS: Mapping[str, type[BaseModel]] = {
    "score": Score,
    "grade": Grade,
    "claims": Claims,
    "statements": Statements,
    "documents": Documents,
    "facts": Facts,
}
_SYNONYMS = (("true", "yes", "correct"), ("false", "no", "incorrect"))


@lru_cache(maxsize=256)
def _model_of_verdict(criterion: Criterion) -> type[BaseModel]:
    """Return the pydantic model by which the judge's JSON for a criterion is checked and read.

    A reply may write a level in upper or lower case. Levels that mean yes and no ("yes", "correct") may
    also be written as a synonym or as JSON's true and false.
    """
    if criterion.form != "level":
        return _FORMS[criterion.form]
    levels = criterion.levels
    level_of_word = _level_of_word(levels)

    def as_level(value: object) -> object:
        """Return the level that a value in a reply stands for: true or false, a level, or a synonym of
        yes and no, also in upper case or with marks of emphasis. Raise PydanticCustomError for another
        value.
        """
        # True -> "True", "**Yes.**" -> "Yes"
        word = str(value).strip(" \t\r\n.!*_`\"'")
        if word.casefold() not in level_of_word:
            problem = "{word} is not one of {levels}"
            fields = {"word": repr(word[:60]), "levels": ", ".join(levels)}
            raise PydanticCustomError("level", problem, fields)
        return level_of_word[word.casefold()]

    schema = WithJsonSchema({"type": "string", "enum": [*levels]})
    model = create_model(
        "Verdict",
        __base__=LevelVerdict,
        verdict=(Annotated[str, BeforeValidator(as_level), schema], ...),
    )
    model.level_values = levels
    return model


def _level_of_word(levels: Iterable[str]) -> dict[str, str]:
    """Return word in small letters -> level, for each level's name and, if a level means yes or no, for
    the synonyms of yes or of no, too.

    >>> _level_of_word(["Yes", "partly"])
    {'yes': 'Yes', 'partly': 'partly', 'true': 'Yes', 'correct': 'Yes'}
    """
    level_of_word = {name.casefold(): name for name in levels}
    for synonyms in _SYNONYMS:  # the words for yes, then those for no
        levels_among = [level_of_word[word] for word in synonyms if word in level_of_word]
        if levels_among:
            for word in synonyms:
                # a word that is a level itself keeps its meaning
                level_of_word.setdefault(word, levels_among[0])
    return level_of_word


VERDICT_FIELDS = {
    "level": "verdict",
    "score": "score",
    "grade": "grade",
    "claims": "claims",
    "statements": "statements",
    "documents": "documents",
    "facts": "facts",
}
"""Form -> the field without which an object is not a verdict on the criterion."""


# The parts of a verdict that are not reasons.
_DECISION: Any = {
    **dict.fromkeys(("verdict", "score", "grade"), True),
    "checks": {"__all__": {"number", "supported"}},
    "documents": {"__all__": {"number", "useful"}},
    "facts": {"__all__": {"number", "support"}},
}


def reply_schema(criteria: Sequence[Criterion]) -> dict[str, Any]:
    """Return the JSON schema of a reply, in one piece and with only the features that every provider's
    structured output understands.
    """
    forms: dict[str, Any] = {
        criterion.name: (_model_of_verdict(criterion), ...) for criterion in criteria
    }
    return plain_schema(create_model("Reply", **forms))


def read_verdicts(
    reply: str, criteria: Sequence[Criterion], *, cut: bool = False, material: Sequence[str] = ()
) -> dict[str, BaseModel | UnreadableError]:
    """Read the verdicts in a judge's reply.

    The judged text may try to plant a verdict in the reply, so a reply that leaves a doubt is unreadable:

    - A JSON object counts only if the reply begins or ends with it, on separate lines; in prose, in a
      fence next to prose, in quotation marks, or after "it says:", it may be a quotation.
    - Several verdicts on a criterion must agree, and each must be complete. A verdict in words next to
      an object may contradict it ("Verdict: FALSE"), but words alone are no verdict.
    - A reply with a broken JSON object, and a refusal, are unreadable.
    - A reply that was `cut` at its limit is read only if it begins with its object.
    - A verdict that is also in the `material` may be a copy, and is unreadable.

    If there is one criterion, its verdict may lack the criterion's name around it.

    Args:
        reply: the reply, as the model wrote it.
        criteria: the criteria that the judge was asked for.
        cut: True if the reply ended at the maximum number of tokens.
        material: the texts that the judge was shown.

    Returns:
        Name of a criterion -> its verdict, in the form of the criterion (such as `LevelVerdict` or
        `Score`); or the error that states why no verdict on it can be read.
    """
    text = without_fence(without_thoughts(reply))  # without ```, and the model's own reasoning
    try:
        objects = _objects_in(text, cut=cut)
    except UnreadableError as problem:  # the whole reply is unreadable
        return {criterion.name: problem for criterion in criteria}
    # only texts with an object can hold a verdict that the judge may have copied
    shown = [_bare_json(part) for part in material if "{" in part]
    verdicts: dict[str, BaseModel | UnreadableError] = {}
    for criterion in criteria:
        try:
            verdict = _read_verdict(criterion, text, objects, alone=len(criteria) == 1)
            _check_copies(criterion, objects, shown)
        except UnreadableError as problem:
            verdicts[criterion.name] = problem
        else:
            verdicts[criterion.name] = verdict
    return verdicts


def _objects_in(text: str, *, cut: bool) -> list[tuple[Mapping[str, Any], int, int]]:
    """Return the JSON objects in a reply as (object, start, end), with keys in small letters.

    Raises:
        UnreadableError: an object is broken, and could have been any verdict; or the reply was `cut` at
            its limit and does not begin with an object, so that its verdict may be lost.
    """
    if cut and not _BEGINS_WITH_OBJECT.match(text):
        raise UnreadableError("it ends before its verdict")
    return list(json_spans(text))


def _bare_json(text: str) -> str:
    """Return a text in the form in which objects are compared: without blanks and quotation marks, in
    small letters.
    """
    return re.sub(r"[\s'\"“”‘’]", "", text).casefold().replace(",}", "}")


def _check_copies(
    criterion: Criterion,
    objects: Sequence[tuple[Mapping[str, Any], int, int]],
    shown: Sequence[str],
) -> None:
    """Raise UnreadableError if a JSON object of the reply, or the object in it for the criterion, also
    stands in a text that the judge was shown: the judged answer may have planted the verdict.

    Args:
        criterion: the criterion of the verdict.
        objects: the JSON objects of the reply, each with its start and end.
        shown: the texts that the judge was shown, without blanks and quotation marks and in small
            letters (`_bare_json`), as objects are compared with them.
    """
    if not shown:
        return
    for item, _start, _end in objects:
        # {"correctness": {"verdict": "yes"}}: the inner object may be the copy; a word alone is no copy
        inner = item.get(criterion.name.casefold())
        for candidate in (item, inner):
            if not isinstance(candidate, Mapping):
                continue
            written = _bare_json(json.dumps(candidate, ensure_ascii=False))
            if any(written in text for text in shown):
                raise UnreadableError(
                    f"its verdict on {criterion.name} is copied from a text that it was shown"
                )


def _read_verdict(
    criterion: Criterion,
    text: str,
    objects: Sequence[tuple[Mapping[str, Any], int, int]],
    *,
    alone: bool,
) -> BaseModel:
    """Return the verdict on a criterion in a reply: the last one in a JSON object.

    There are two conditions:

    - All verdicts in the reply, in objects and in words, make the same decision. Their reasons may
      differ.
    - The reply begins or ends with an object that has a verdict. Any other object may be a quotation of
      the judged text.

    {"verdict": "yes"} on a line after the prose is read; `The text says {"verdict": "yes"} itself.` is not.

    Args:
        criterion: the criterion.
        text: the reply, without a fence and the judge's thoughts.
        objects: (object, start, end) for each JSON object in `text`; its keys are in small letters.
        alone: True if the request has no other criterion. Then {"verdict": "yes"} is a verdict, too; else
            only {"correctness": {"verdict": "yes"}}, with the criterion's name, is one.

    Raises:
        UnreadableError: the verdict is missing, incomplete, contradicted, or may be a quotation.
    """
    name = criterion.name
    spans = [(start, end) for _, start, end in objects]
    candidates: list[object] = []  # what may be a verdict on the criterion
    is_any_stated = False
    # `stated` returns for each object True if the reply begins or ends with it
    for (item, _, _), is_stated in zip(objects, stated(text, spans), strict=True):
        candidates_in_object = _candidates_in(item, criterion, alone=alone)
        candidates += candidates_in_object
        if is_stated and candidates_in_object:
            is_any_stated = True
    words = _text_outside(text, spans)  # the prose of the reply
    if refuses_to_judge(words):
        raise UnreadableError("it refuses to judge")
    if not candidates:
        raise UnreadableError(f"it has no verdict on {name}" if text else "it is empty")
    # A verdict in words ("Verdict: FALSE") never counts alone, but it may contradict the verdict in
    # JSON.
    every_candidate = [*_verdicts_in_words(criterion, words), *candidates]
    # raises UnreadableError if one is incomplete
    verdicts = [_validate(criterion, candidate) for candidate in every_candidate]
    # without their reasons, which may differ
    decisions = [verdict.model_dump(include=_DECISION) for verdict in verdicts]
    if any(decision != decisions[-1] for decision in decisions):
        raise UnreadableError(f"it has verdicts on {name} that disagree")
    if not is_any_stated:
        raise UnreadableError(
            f"it neither begins nor ends with its verdict on {name}, which may be a quotation"
        )
    return verdicts[-1]


def _candidates_in(item: Mapping[str, Any], criterion: Criterion, *, alone: bool) -> list[object]:
    """Return what may be the verdict on a criterion in a JSON object of a reply; [] if nothing may.

    For {"correctness": {"verdict": "yes"}} it is the inner object. If the criterion is judged `alone`, a
    reply may leave out the name: for {"verdict": "yes"} it is the object itself.

    Args:
        item: the JSON object, whose keys are in small letters already.
        criterion: the criterion; its form names the field that a verdict must have, such as "verdict".
        alone: True if the request has no other criterion.
    """
    candidates: list[object] = []
    key = criterion.name.casefold()  # as the keys of `item` are
    if key in item:
        candidates.append(item[key])
    if alone and VERDICT_FIELDS[criterion.form] in item:
        candidates.append(item)
    return candidates


def _text_outside(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return a text without these spans (start, end), which are in ascending order."""
    parts = []
    end = 0
    for start, stop in spans:
        parts.append(text[end:start])
        end = stop
    parts.append(text[end:])
    return " ".join(parts)


def _validate(criterion: Criterion, candidate: object) -> BaseModel:
    """Return a part of a judge's reply as a verdict on the criterion, with checked fields.

    The part (`candidate`) may be an object with the fields of a verdict, or only the value of the main
    field, such as true in {"correctness": true}.

    Raises:
        UnreadableError: a field is missing, or has a value that it cannot have.
    """
    main_field = VERDICT_FIELDS[criterion.form]
    fields = candidate if isinstance(candidate, Mapping) else {main_field: candidate}
    # claims and their checks, which a model may write as one list, become two lists
    fields = _split_checks(fields, main_field)
    try:
        return _model_of_verdict(criterion).model_validate(fields)
    except ValidationError as exc:
        error = exc.errors(include_url=False)[0]
        where = ".".join(str(part) for part in (criterion.name, *error["loc"]))
        raise UnreadableError(f"{where}: {error['msg']}") from None


_TEXT_FIELDS = {"claims": "claim", "statements": "statement"}  # list -> field of its objects


def _split_checks(plain: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Split a list of claims with their checks into two lists: the claims as texts, and "checks".

    A verdict should have both lists; a model without a schema may write one list of objects. Any other
    verdict is returned unchanged. `key` is the name of the list, such as "claims".

    >>> _split_checks({"claims": [{"claim": "It opened in 1889.", "supported": True}]}, "claims")["claims"]
    ['It opened in 1889.']
    """
    claims = plain.get(key)
    if key not in _TEXT_FIELDS or "checks" in plain or not isinstance(claims, list):
        return plain
    if not all(isinstance(claim, Mapping) for claim in claims):
        return plain
    text_field = _TEXT_FIELDS[key]
    texts = [claim.get(text_field) for claim in claims]
    checks = [{**claim, "number": number} for number, claim in enumerate(claims, 1)]
    return {**plain, key: texts, "checks": checks}


# The words may be surrounded by anything but letters and line breaks, such as the asterisks of
# Markdown.
_SCORE = (
    r"(?:final )?(?:{name} )?(?:score|{name})[^\w\n]+(\d+(?:\.\d+)?)(?:\s*(?:/|out "
    r"of)\s*1(?:\.0+)?)?"
)
_BEGINS_WITH_OBJECT = re.compile(r"\[?\s*\{")


def _verdicts_in_words(criterion: Criterion, text: str) -> list[str]:
    """Return the levels or scores that a reply states in words: after a label, or a level as the first
    word of the text. [] for criteria of other forms.

    "True, because ..." -> ["True"]; "Verdict: no" -> ["no"], also if the levels are true and false: the
    caller maps a word to its level, and refuses the reply if the word means none.

    >>> from ragbench.judges.criterion import BUILT_IN
    >>> _verdicts_in_words(BUILT_IN["relevance"], "Final score: 0.5 out of 1")
    ['0.5']
    """
    name = re.escape(criterion.name)
    if criterion.form == "score":
        # the pattern's only group is the number
        return re.findall(rf"\b{_SCORE.replace('{name}', name)}\b", text, re.IGNORECASE)
    if criterion.form != "level":
        return []
    words = {*criterion.levels}
    words_for_yes_or_no = {*chain.from_iterable(_SYNONYMS)}
    # a level that means yes or no may be written as any such word
    if words & words_for_yes_or_no:
        words |= words_for_yes_or_no
    # so that "partly correct" is found as a whole, and not "partly"
    longest_first = sorted(words, key=len, reverse=True)
    level = f"({'|'.join(map(re.escape, longest_first))})"
    label = rf"(?:final )?(?:verdict|{name})(?: is)?[^\w\n]+"
    at_start = re.findall(rf"\A[^\w\n]*{level}\s*[,.:;!]", text, re.IGNORECASE)
    labelled = re.findall(rf"\b{label}{level}\b", text, re.IGNORECASE)
    return [*at_start, *labelled]


def rank_weighted_precision(useful: Sequence[bool]) -> float:
    """Compute the rank-weighted precision of retrieved chunks, best first: range [0, 1], higher is better.

    The mean, over the useful chunks, of the precision at their rank: sum_k P@k u_k / sum_k u_k,
    where u_k is 1 if the chunk at rank k is useful and P@k the fraction of useful ones among the
    first k. It is 1 if all useful chunks come first, regardless of the others, and 0 if none is
    useful. It is average precision over the retrieved chunks, as RAGAS defines context precision (Es
    et al. 2024); documents that were not retrieved do not matter.

    Useful at ranks 1 and 3: (1/1 + 2/3) / 2.

    >>> round(rank_weighted_precision([True, False, True, False]), 4)
    0.8333
    """
    precisions: list[float] = []
    for rank, is_useful in enumerate(useful, 1):
        if is_useful:
            n_useful = len(precisions) + 1
            precisions.append(n_useful / rank)
    return sum(precisions) / len(precisions) if precisions else 0.0


class Scored(NamedTuple):
    """The value of a verdict in [0, 1] with its explanation; None if it has no value (`state` states
    why). `unsupported` are the unsupported claims, `invented_quotes` quotes that no document has.
    """

    value: float | None
    explanation: str
    state: str = "scored"
    unsupported: tuple[str, ...] = ()
    invented_quotes: tuple[str, ...] = ()


def score(verdict: BaseModel, names: Sequence[str], texts: Sequence[str] = ()) -> Scored:
    """Return the score of a verdict: its value (None if unscored) and its explanation.

    Args:
        verdict: the verdict in one of the forms.
        names: the ids of the documents in their order; for the form "facts", the facts.
        texts: the documents, in which quotes are looked up.

    Raises:
        UnreadableError: a document, fact or claim has no verdict; or support is claimed without a
            quote, or from a document that was not shown.
    """
    match verdict:
        case LevelVerdict():
            value = verdict.level_values[verdict.verdict]
            if value is not None:
                return Scored(value, verdict.reason)
            return Scored(None, f"{verdict.verdict}: {verdict.reason}", "excluded")
        case Score():
            return Scored(verdict.score, verdict.reason)
        case Grade():
            return Scored(verdict.grade / 3, verdict.reason)
        case Claims(claims=[]):
            return Scored(None, "the judge found no claim in the answer", "no_claims")
        case Claims():
            return _score_support("claim", verdict.claims, verdict.checks, names, texts)
        case Statements():
            scored = _score_support("statement", verdict.statements, verdict.checks, names, texts)
            # `unsupported` is for claims of the answer; these are statements of the reference
            return scored._replace(unsupported=())
        case Documents(documents=parts):
            useful, explanation = _part_values("document", "chunks useful", parts, names)
            return Scored(rank_weighted_precision(useful), explanation)
        case Facts(facts=parts):
            full, explanation = _part_values("fact", "vital facts stated in full", parts, names)
            return Scored(sum(full) / len(full), explanation)
    raise TypeError(f"no value is defined for {type(verdict).__name__}")


def _normalised(text: str) -> str:
    return " ".join(text.casefold().split())


def _part_values(
    noun: str, good: str, parts: Sequence[Usefulness | Fact], names: Sequence[str]
) -> tuple[list[bool], str]:
    """Return True for each document that is useful, or for each fact that is stated in full, else False;
    and an explanation with a line for each document or fact.

    Args:
        noun: "document" or "fact", for errors.
        good: what is counted in the explanation: "chunks useful", or "vital facts stated in full".
        parts: the verdicts on the documents or facts, each with its number from 1.
        names: the ids of the documents, or the facts.

    Raises:
        UnreadableError: a document or fact has no verdict.
    """
    part_of = {part.number: part for part in parts}
    _check_complete(noun, part_of, len(names))
    are_good = []
    lines = []
    for number, name in enumerate(names, 1):
        part = part_of[number]
        if isinstance(part, Fact):
            is_good = part.support == "full"
            word: str = part.support
        else:
            is_good = part.useful
            word = "useful" if part.useful else "not useful"
        are_good.append(is_good)
        reason = f" ({part.reason})" if part.reason else ""
        lines.append(f"{number}. {word} [{name}]{reason}")
    return are_good, "\n".join([f"{sum(are_good)} of {len(are_good)} {good}", *lines])


def _check_complete(noun: str, judged: Mapping[int, BaseModel], count: int) -> None:
    """Raise UnreadableError unless the numbers 1 to `count` are all judged."""
    missing = [str(number) for number in range(1, count + 1) if number not in judged]
    if missing:
        raise UnreadableError(f"no verdict on {noun} {', '.join(missing)}")


def _score_support(
    noun: str,
    claims: Sequence[str],
    checks: Sequence[Check],
    names: Sequence[str],
    texts: Sequence[str],
) -> Scored:
    """Return the fraction of different claims that are supported, with an explanation that lists them.

    If a claim is repeated, its last verdict counts.

    A claim is supported if the judge finds it supported, and its quote is in the document that the judge
    names, or in another one. A quote that no document has is listed as invented, and its claim counts as
    unsupported.

    Args:
        noun: "claim" or "statement".
        claims: one or more claims.
        checks: the judge's verdict on each claim, by its number from 1.
        names: the ids of the documents.
        texts: the texts of the documents, in the same order.

    Raises:
        UnreadableError: a claim has no check; or the judge finds it supported without a quote, or by a
            document that was not shown.
    """
    ordered_checks = _checks_in_order(noun, claims, checks)
    for check in ordered_checks:
        _refuse_without_evidence(noun, check, len(names))
    check_of: dict[str, tuple[str, Check]] = {}  # the last of equal claims
    for claim, check in zip(claims, ordered_checks, strict=True):
        check_of[_normalised(claim)] = (claim, check)
    index = QuoteIndex(texts)
    supported_lines = []
    unsupported_lines = []
    unsupported = []
    invented = []
    for number, (claim, check) in enumerate(check_of.values(), 1):
        document = index.find(check.quote, check.document) if check.supported else None
        if document is not None:
            supported_lines.append(f'{number}. {claim} [{names[document - 1]}]: "{check.quote}"')
        else:
            unsupported.append(claim)
            unsupported_lines.append(f"{number}. {claim}{_why_unsupported(check)}")
            if check.supported:
                invented.append(check.quote)
    n_supported = len(supported_lines)
    lines = [f"{n_supported} of {len(check_of)} {noun}s supported"]
    if invented:
        lines[0] += f"; invented quotes: {len(invented)}"
    if unsupported_lines:
        lines += ["Unsupported:", *unsupported_lines]
    if supported_lines:
        lines += ["Supported:", *supported_lines]
    return Scored(
        n_supported / len(check_of),
        "\n".join(lines),
        unsupported=tuple(unsupported),
        invented_quotes=tuple(invented),
    )


def _why_unsupported(check: Check) -> str:
    """Return why a claim counts as unsupported, in brackets after a blank; "" without a reason."""
    if check.supported:
        return f' (its quote is in no document: "{check.quote}")'
    return f" ({check.reason})" if check.reason else ""


def _checks_in_order(noun: str, claims: Sequence[str], checks: Sequence[Check]) -> list[Check]:
    """Return the check of each claim, in the order of the claims; UnreadableError if a claim has none.

    A check has the number of its claim. If the judge gave as many checks as claims, but repeated a
    number (some write 1 everywhere), the checks are taken in the order of the reply.
    """
    check_of = {check.number: check for check in checks}
    has_repeated_numbers = len(check_of) < len(checks)
    if has_repeated_numbers and len(checks) == len(claims):
        return list(checks)
    _check_complete(noun, check_of, len(claims))
    return [check_of[number] for number in range(1, len(claims) + 1)]


def _refuse_without_evidence(noun: str, check: Check, n_documents: int) -> None:
    """Raise UnreadableError if the judge finds a claim supported, but by a document that was not shown, or
    without a quote.
    """
    if not check.supported:
        return
    if not 1 <= check.document <= n_documents:
        raise UnreadableError(
            f"{noun} {check.number} is supported by document {check.document}, but "
            f"only {n_documents} were shown"
        )
    if not check.quote.strip():
        raise UnreadableError(
            f"{noun} {check.number} is supported without a quote; copy the words that support it"
        )
