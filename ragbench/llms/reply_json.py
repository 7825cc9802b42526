"""The JSON objects of model replies, also where a model writes them nearly right."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any


class UnreadableError(ValueError):
    """A reply that cannot be read, with the reason."""


_BEGINS = re.compile(
    r'(?P<json>\{)\s*["}]'
    # Braces of prose, such as {x} or {'a', 'b'}, are seldom the first sign of a line.
    r"|^[ \t\[,*]*(?P<other>\{)\s*(?:['“]|//|/\*|\#|\w+\s*:)",
    re.MULTILINE,
)

_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|“[^“”]*”)
    |(?P<comment>//[^\n]*|/\*.*?\*/|\#[^\n]*)
    |(?P<mark>[{}\[\]:,])
    |(?P<word>[^\s{}\[\]:,"'“”/\#]+)
    |\s+""",
    re.VERBOSE | re.DOTALL,
)
_HIDDEN_FIELD = re.compile(r"""[{}]|["']\s*:""")  # of a comment that may contradict the object
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_LITERALS = {"true": "true", "false": "false", "null": "null", "none": "null"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_EMPHASIS = "*_`"


def json_spans(text: str) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Find the JSON objects in a text; yield each as (object, start, end), in their order.

    Objects inside of others are not yielded, and braces of prose are no objects. Keys become small
    letters. Objects that are nearly JSON are read, too: with comments, commas before a closing bracket,
    single or typographic quotation marks, keys and words without quotation marks, True, None and
    **true**, and backslashes that escape nothing ("C:\\docs").

    >>> [record for record, _, _ in json_spans('Well, {this} is it: {"a": {"b": 1}} and {}')]
    [{'a': {'b': 1}}, {}]
    >>> [record for record, _, _ in json_spans("{'Score': 0.5,  # half\\n}")]
    [{'score': 0.5}]

    Raises:
        UnreadableError: an object is broken or cut, has two values for a key, or a comment that looks
            like fields ('# "score": 1'), since it may contradict the object. Other comments are
            ignored.
    """
    # Small models write line breaks into strings.
    decoder = json.JSONDecoder(strict=False, object_pairs_hook=_unambiguous)
    end = 0
    while match := _BEGINS.search(text, end):
        # the pattern has a group around the "{" for each way in which an object may begin
        begin = match.start(match.lastgroup or 0)
        try:
            value, end = _read_object(text, begin, decoder)
        except RecursionError as exc:
            raise UnreadableError("it nests too deeply") from exc
        yield value, begin, end


def _read_object(text: str, begin: int, decoder: json.JSONDecoder) -> tuple[dict[str, Any], int]:
    """Parse the JSON object that begins at `begin`; return the object and where it ends. If it is nearly
    JSON, repair it first.

    Raises:
        UnreadableError: the object is broken or cut nevertheless, a key has two values
            (`_unambiguous`, which `decoder` calls), or a comment looks like fields (`_repaired`).
    """
    try:
        value, end = decoder.raw_decode(text, begin)
        return value, end
    except json.JSONDecodeError as exc:
        problem = exc
    broken = UnreadableError(
        f"its JSON is broken or cut at character {problem.pos} ({problem.msg})"
    )
    repaired, end = _repaired(text, begin)
    if not repaired:
        raise broken from problem
    try:
        return decoder.decode(repaired), end
    except json.JSONDecodeError:
        raise broken from problem


def _repaired(text: str, begin: int) -> tuple[str, int]:
    """Repair the object that begins at `begin`; return its text as JSON, and where it ends in `text`.

    The JSON is "" if the object cannot be repaired: its last bracket is missing, or it has a sign that
    is no part of JSON.

    Comments (//, /* */, #) and a comma before a closing bracket are left out; strings in single or
    typographic quotation marks get double ones; words without quotation marks become the literal
    or number that they write, else a string. Nothing that is missing is added.

    Raises:
        UnreadableError: a comment looks like fields of an object, as '# "score": 1'.
    """
    parts: list[str] = []
    depth = 0  # of brackets that are open
    end = begin
    while token := _TOKEN.match(text, end):
        end = token.end()
        match token.lastgroup:  # the kind of the token; None for white space, which is left out
            case "string":
                parts.append(_string(token[0]))
            case "comment" if _HIDDEN_FIELD.search(token[0]):
                raise UnreadableError("a comment in its JSON has fields")
            case "word":
                parts.append(_word(token[0]))
            case "mark":
                if token[0] in "]}" and parts[-1] == ",":
                    parts.pop()
                parts.append(token[0])
                if token[0] in "{[":
                    depth += 1
                elif token[0] in "}]":
                    depth -= 1
                if depth == 0:
                    return " ".join(parts), end
    return "", end


def _string(token: str) -> str:
    """Return a string in any quotation marks as JSON; a backslash before a letter or digit that it does
    not escape stays.
    """
    return json.dumps(_ESCAPE.sub(_unescaped, token[1:-1]))


def _unescaped(escape: re.Match[str]) -> str:
    """Return the character of an escape; before a letter or digit that JSON does not escape the
    backslash stays, before another sign it goes.
    """
    sign = escape[1]
    if sign[0] in "bfnrt" or len(sign) > 1:
        return str(json.loads(f'"{escape[0]}"'))
    return escape[0] if sign.isalnum() else sign


def _word(token: str) -> str:
    """Return a word without quotation marks as JSON: a number, a literal (true, false, null, none, in
    any case), or else a string. Marks of emphasis around it are left out.
    """
    bare = token.strip(_EMPHASIS)
    if _NUMBER.fullmatch(bare):
        return bare
    return _LITERALS.get(bare.casefold()) or json.dumps(bare)


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of a JSON object; raises UnreadableError if one name has two values.

    Names are in small letters and without marks of emphasis.
    """
    fields: dict[str, Any] = {}
    for key, value in pairs:
        name = key.strip().strip(_EMPHASIS).casefold()
        if name in fields and fields[name] != value:
            raise UnreadableError("an object of it has two values for one key")
        fields[name] = value
    return fields


_QUOTING = re.compile(
    r"(?i)\b(?:says|reads|states|contain(?:s|ed)|quot\w+|plant\w+|inject\w+|embedded)\b"
)


def _introduces_quotation(text: str) -> bool:
    """Return True if a text ends with "it says:" and the like, in its last sentence."""
    before = text.rstrip()
    last_sentence = before[max(before.rfind("."), before.rfind("\n")) + 1 :]
    return last_sentence.endswith(":") and _QUOTING.search(last_sentence) is not None


def stated(text: str, spans: Sequence[tuple[int, int]]) -> list[bool]:
    """Return for each JSON object of a reply True if the model states it, False if it may be a
    quotation from the texts that the model was shown.

    A reply states the objects before its first words, if these begin on a new line, and the objects
    after its last words, if these end their line; except an object after words such as "it says:".
    Brackets, commas and asterisks are not words, so that a list or a bold object counts. A reply
    without words states all its objects.

    Args:
        text: the reply.
        spans: (start, end) of each object in it.

    >>> text = '{"a": 1}\\nIt says {"a": 2}.'
    >>> stated(text, [(start, end) for _, start, end in json_spans(text)])
    [True, False]
    """
    # Item i is the text before object i; the last item follows the last object.
    around = _texts_around(text, spans)
    n_at_begin = _count_objects_at_begin(around)
    n_at_end = _count_objects_at_end(around)
    are_stated = []
    for i in range(len(spans)):
        is_at_begin = i < n_at_begin
        is_at_end = i >= len(spans) - n_at_end
        is_quoted = _introduces_quotation(around[i])
        are_stated.append((is_at_begin or is_at_end) and not is_quoted)
    return are_stated


def _count_objects_at_begin(around: Sequence[str]) -> int:
    """Count the objects before the first words of a reply; 0 if these words follow on the same line.

    `around` has the texts around the objects. A reply without words has all objects at its begin.
    """
    n_blank = _count_leading_blanks(around)
    has_words = n_blank < len(around)
    if has_words and re.match(r"[ \t,\]*]*\n", around[n_blank]) is None:
        return 0
    return n_blank


def _count_objects_at_end(around: Sequence[str]) -> int:
    """Count the objects after the last words of a reply; 0 if these words end on the same line.

    `around` has the texts around the objects. A reply without words has all objects at its end.
    """
    n_blank = _count_leading_blanks(around[::-1])
    has_words = n_blank < len(around)
    if has_words and re.search(r"\n[ \t\[*]*\Z", around[-1 - n_blank]) is None:
        return 0
    return n_blank


def _texts_around(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """Return the texts before, between and after these parts of a text."""
    texts = []
    end_before = 0
    for start, end in spans:
        texts.append(text[end_before:start])
        end_before = end
    texts.append(text[end_before:])
    return texts


def _count_leading_blanks(texts: Sequence[str]) -> int:
    """Count the texts before the first with words: objects may be in a list, or bold."""
    for i, text in enumerate(texts):
        if text.strip(" \t\r\n,[]*"):
            return i
    return len(texts)
