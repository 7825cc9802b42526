"""Model replies: the answer inside them, and whether a text is an answer, an abstention or a refusal,
by its wording (in English here; in other languages by languages.toml).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ragbench.folding import folded
from ragbench.language import LANGUAGES, NO_LANGUAGE, UNSPACED, detect_language, find_language

if TYPE_CHECKING:
    from pydantic import BaseModel

NO_ANSWER = "no answer found in the documents"
"""The text of an abstention, which the prompts ask for when the documents do not contain the
answer.
"""

_JOINED = ("Han", "Hiragana", "Hangul", "Thai")  # scripts in which denials are parts of words

LONGEST_ABSTENTION = 80
"""In words (of ten characters). A longer text is an answer, however it begins."""

_THINK = r"(?:think(?:ing)?|thought|reasoning)"
_THOUGHT_BEGINS = re.compile(rf"(?i)<{_THINK}>|\[think\]|◁think▷")
_THOUGHT_ENDS = re.compile(rf"(?i)</{_THINK}>|\[/think\]|◁/think▷")
_TURN_BEGINS = r"(?:<\|im_start\|>|<\|start_header_id\|>|<\|start\|>|<start_of_turn>)"
_OPENING = re.compile(
    rf"{_TURN_BEGINS}(?:assistant|model)(?:<\|end_header_id\|>)?\s*"  # the answer's own turn
    r"|(?:<\|start\|>assistant)?(?=<\|channel\|>)(?s:.*)<\|channel\|>final<\|message\|>"
)
_TURN_ENDS = re.compile(
    r"(?:<\|(?:im_end|end|eot_id|eom_id|endoftext|end_of_text|return)\|>"
    rf"|<｜end▁of▁sentence｜>|<end_of_turn>|<eos>|</s>)(?=\s*(?:\Z|{_TURN_BEGINS}|<\|\w+\|>|</s>))"
)

# The documents, as answers speak of them: always with a word before that points at them, so that
# "the context manager does not provide" or "sources do not state" are not abstentions.
_NOUN = (
    r"(?:documents?|passages?|contexts?|texts?|sources?|excerpts?|information|materials?|articles?|paragraphs?|snippets?|"
    r"search results?)"
)
_DOCUMENTS = (
    rf"(?:the|these|this|those|that|any|any of the|none of the|all of "
    rf"the|your|my|provided|given|available) "
    r"(?:(?:provided|given|available|retrieved|supplied|above|following|numbered|listed|current"
    rf"|\w+ing|\d+) ){{0,3}}{_NOUN}"
)
_THAT_FOLLOW = (
    r"(?: (?:provided|given|above|below|here|retrieved|available|supplied|shown|listed|alone|itself|themselves|"
    r"(?:that )?(?:you|i|we) (?:\w+ )?(?:provided|gave|given|have|shared|was given|were given)|"
    r"to me|about [^.]{1,60}?))*[,:]?"
)
_NOT = (
    r"(?:(?:do|does|did|has|have|is|are)(?: not|n't)|cannot|can't|never|fails? to)"
    r"(?: (?:appear to|seem to|\w+ly|even))*"
)
_TELL = (
    r"(?:contain|mention|provide|hold|say|state|specify|give|include|address|answer|discuss|cover|explain|describe|"
    r"offer|have|tell|clarify|list|make (?:it )?clear|enough|sufficient|containing|mentioning)"
)
_NO = (
    r"(?:lacks?|says? nothing|makes? no mention|"
    r"(?:contain|provide|give|hold|offer|include|mention|have|has)s? (?:no|nothing|insufficient))"
)
_SHOWN = (
    r"(?:contained|mentioned|provided|stated|specified|given|included|addressed|answered|available|found|discussed|"
    r"covered|present|determined|described|explained)"
)
_MATTER = r"(?:information|mention|answer|details?|reference|indication|data|context)"

# Each is looked for in the first sentence only.
_ABSTAINS = re.compile(
    "|".join(
        (
            rf"^{NO_ANSWER}",
            r"^no_answer\b",
            r"^(?:unanswerable|not answerable|unknown|n/a)\W*$",
            r"^not (?:stated|specified|mentioned|provided|given|available|found)\W*$",
            r"^(?:no answer|answer not (?:found|available)|insufficient information|not enough "
            r"information)\b",
            rf"\b{_DOCUMENTS}{_THAT_FOLLOW} {_NOT} {_TELL}\b",
            rf"\b{_DOCUMENTS}{_THAT_FOLLOW} {_NO}\b",
            rf"\bnone of (?:the|these|those) (?:\w+ ){{0,2}}{_NOUN}{_THAT_FOLLOW} {_TELL}s?\b",
            rf"\b(?:(?:is|are|was|were|has|have|can|could)(?: not|n't)|cannot) (?:been |be "
            rf"|\w+ly )*{_SHOWN}(?: \w+)? (?:in|by|from|within|using|with|based on) {_DOCUMENTS}",
            rf"\bno (?:\w+ ){{0,3}}{_MATTER}\b.{{0,120}} (?:in|by|from|within) {_DOCUMENTS}",
            r"\bi (?:do not|don't|did not|didn't) (?:know|"
            r"have (?:enough|any|sufficient|(?:the (?:necessary )?|that |this )?information|access)|"
            r"find (?:any|the answer|an answer|information)|see any)",
            r"\b(?:i|we) (?:cannot|can't|can not|could not|couldn't|(?:am|was|are|were) "
            r"(?:unable|not able) to) (?:definitively |reliably |accurately "
            r")?(?:answer|determine|say|tell|locate|find (?:any|the|an|information)|provide "
            r"(?:an|a|the) (?:\w+ )?answer|give (?:an|a|the) (?:\w+ )?answer)",
            r"^(?:it is )?(?:unable|not able|impossible|not possible) to "
            r"(?:answer|determine|say|tell|find)",
            r"\b(?:question|answer) (?:cannot|can't|can not|could not) be "
            r"(?:answered|determined|found|given)\b",
            r"\b(?:not enough|insufficient|no (?:relevant|specific|such|direct)?) ?information\b",
        )
    )
)
# The whole first sentence, and nothing after it but a polite closing: "I'm not sure. It was 1881."
# is an answer.
_ABOUT = r"(?:about|of|on|what|when|where|who|why|how|which|if|whether)"
_UNSURE = re.compile(
    r"^(?:(?:well|honestly|frankly|hmm+|oh|um+|uh)[, ]+)*(?:i am afraid )?(?:(?:i|we)(?:'ve)? )?"
    r"(?:(?:have|do|am|are|really|honestly|just|still|simply) )*"
    r"(?:(?:absolutely )?no (?:idea|clue)|(?:not|don't) have (?:a|an|any|the \w+) (?:idea|clue)"
    r"|not (?:\w+ ){0,2}(?:sure|certain)|unsure|uncertain"
    r"|(?:not|don't|wouldn't|would not|didn't|did not) (?:\w+ )?know|dunno|idk|beats me"
    r"|(?:it is |that is |it's |that's )?(?:hard|difficult|impossible) to (?:say|tell)"
    r"|(?:cannot|can't|couldn't|could not) (?:say|tell)|(?:it is |it's )?unclear)"
    rf"(?: {_ABOUT}\b[^.!?]*| at (?:all|this \w+)| (?:yet|either|offhand|exactly|for sure))?"
    r"(?:,? sorry)?\W*$"
)
_CLOSES = re.compile(
    r"\b(?:please|sorry|let me know|contact|ask|check|help|consult"
    r"|more (?:information|context|details?)|(?:can|could|would) you)\b"
)
_REFUSES = re.compile(
    r"^(?:as an ai\b[^.]{0,60}?)?i (?:cannot|can't|can not|won't|will not|(?:must|have to) "
    r"decline to|am (?:unable|not able) to) (?:\w+ )?(?:help(?! "
    r"\w+ing\b)|assist|comply|discuss|fulfill?|engage|support|participate|create|provide "
    r"(?:guidance|instructions|advice|medical|legal|help|assistance|that))\b"
)
# An answer often follows one of these, so such a text is read as an answer.
_GOES_ON = re.compile(
    r"\b(?:but|however|although|though|nevertheless|nonetheless|that said|still|except that|"
    r"it can be inferred|appears? that|seems? that|likely|probably|suggests?|implies|imply)\b|"
    r"[.!?] (?:based on|according to)\b"
)
_REFUSES_TO_JUDGE = re.compile(
    r"(?i)\b(?:I|we)(?:['’]m| am| are)? (?:(?:must |have to )?(?:refuse|decline)"
    r"|(?:cannot|can not|can['’]t|won['’]t|will not|unable to|not able to) (?:\w+ )?"
    r"(?:judge|evaluate|assess|grade|rate|score|follow|obey|do that))\b"
)
_APOLOGY = re.compile(
    r"^(?:unfortunately|apologies|(?:(?:i am|we are) )?(?:very |so )?sorry)[ ,.:;-]*(?:but )?"
)
_LABEL = re.compile(r"^(?:(?:short |final )?answer|response)(?: with citations)? ?: ?")
_FROM = re.compile(
    rf"^(?:based (?:only |solely )?on|according to|from|given|in|with) {_DOCUMENTS}{_THAT_FOLLOW} ?"
)


def read_outcome(text: str) -> str:
    """Return what kind of answer this is: "success" (an answer), "no_results" (it abstains) or
    "blocked" (it refuses).

    - "no_results": an empty text; the constant `NO_ANSWER`, which the prompts ask for in every language;
      "NO_ANSWER", "No idea." and "I'm not sure."; a first sentence that states that the documents do
      not contain the answer (in English, and in the languages of languages.toml with `documents`).
    - "blocked": a first sentence that states that the model will not help (in English).
    - "success": any other text, a text of more than 80 words, and one that continues with "but",
      "however" and the like: it may be a partial answer, and a judge sees it.

    >>> read_outcome("The documents do not say when the railway was built.")
    'no_results'
    >>> read_outcome("The documents do not name the day, but it was in 1881 [1].")
    'success'
    >>> read_outcome("I'm sorry, but I can't help with that.")
    'blocked'
    >>> read_outcome("I'm not sure."), read_outcome("I'm not sure. It opened in 1881.")
    ('no_results', 'success')
    """
    plain = _plain(text)
    if not plain:
        return "no_results"
    if _is_too_long_to_abstain(plain):
        return "success"
    plain = _without_apology(plain)
    if _REFUSES.match(plain):  # at the beginning
        return "blocked"
    plain = _FROM.sub("", plain)  # "Based on the documents, ..."
    # up to the first sign that ends a sentence, in Latin, Arabic, Indic and East Asian scripts
    first_sentence = re.match(r".*?(?:[.!?؟।](?=\s|$)|[。！？]|$)", plain)
    opening = first_sentence[0] if first_sentence else ""
    rest = plain[len(opening) :].strip()
    # Only the first sentence can abstain. "I'm not sure." abstains unless an answer follows it; any
    # abstention is partial if a "but" follows anywhere in the text.
    abstains = (
        _is_unsure(opening, rest)
        or _ABSTAINS.search(opening)
        or _abstains_in_other_language(opening)
    )
    if abstains and not _continues(plain):
        return "no_results"
    return "success"


def _plain(text: str) -> str:
    """Return an answer in small letters, without signs of Markdown, citations and a label such as
    "Answer:", with "i am" and "we are" in full.
    """
    plain = _SIGNS.sub(_replacement_of_sign, text.replace("’", "'").casefold())
    plain = " ".join(plain.split())
    plain = plain.replace("i'm ", "i am ").replace("we're ", "we are ").replace(" .", ".")
    return _LABEL.sub("", plain).lstrip("-–—' ")


def _is_too_long_to_abstain(plain: str) -> bool:
    """Return True for more than `LONGEST_ABSTENTION` words, or ten times as many characters; a sign of a
    script without blanks counts as five characters.
    """
    n_characters = len(plain) + 4 * len(UNSPACED.findall(plain))
    return len(plain.split()) > LONGEST_ABSTENTION or n_characters > 10 * LONGEST_ABSTENTION


def _without_apology(plain: str) -> str:
    """Return a text without "sorry, but" and the like at its begin, in any language."""
    # the field `sorry` of every language in languages.toml
    apologies = _phrases_of_all_languages("sorry", r"^(?:%s)\b[\s,.:;!،。、！，-]*")
    contrasts = _phrases_of_all_languages("but", r"^(?:%s)\b[\s,،、，]*")
    for beginning in (_APOLOGY, apologies, contrasts):
        plain = beginning.sub("", plain)
    return plain


def _is_unsure(opening: str, rest: str) -> bool:
    """Return True if a first sentence is "I'm not sure." or the like, in any language, and nothing but a
    polite closing follows.
    """
    unsure = _phrases_of_all_languages("unsure", r"^(?:%s)\W*$")
    if not (_UNSURE.search(opening) or unsure.search(opening)):
        return False
    return not rest or _CLOSES.search(rest) is not None


def _abstains_in_other_language(opening: str) -> bool:
    """Return True if a first sentence in another language than English abstains.

    It does so if it has a phrase of the field `unknown` of a language in languages.toml, such as "keine
    antwort gefunden"; or if it has three words of one language: for documents, for telling, and a negation.
    """
    opening = folded(opening)
    # %s is replaced by the phrases of all languages; none may begin within a word
    if _phrases_of_all_languages("unknown", r"(?<![a-zà-ÿ])(?:%s)").search(opening):
        return True
    # English has patterns of its own (`_ABSTAINS`) in place of the three words
    if detect_language([opening], NO_LANGUAGE).code == "en":
        return False
    for language in LANGUAGES.values():
        if not language.documents:  # languages.toml has no words of this language
            continue
        kinds = ("documents", "tell", "negations")
        if all(_phrases(language.code, kind).search(opening) for kind in kinds):
            return True
    return False


def has_negation(text: str) -> bool:
    """Return True if a text has a word that denies, in any language of languages.toml.

    >>> has_negation("steht nicht im Handbuch"), has_negation("im Handbuch")
    (True, False)
    """
    plain = folded(text)
    for language in LANGUAGES.values():
        if language.negations and _phrases(language.code, "negations").search(plain):
            return True
    return False


def _continues(text: str) -> bool:
    """Return True if a text has a "but", after which an answer may follow, in its language."""
    language = detect_language([text])
    pattern = _GOES_ON
    if not language.is_english and language.but:
        pattern = _phrases(language.code, "but")
    return pattern.search(folded(text)) is not None


@lru_cache
def _phrases(code: str, part: str) -> re.Pattern[str]:
    """Return a pattern that finds the phrases of one kind, such as negations, in a language.

    Negations and words such as "but" are matched as whole words if the script separates words.

    Args:
        code: of the language, such as "de".
        part: the field of languages.toml with the phrases, such as "negations".
    """
    language = find_language(code)
    phrases = getattr(language, part)
    if part == "negations":  # a list of words, separated by spaces; the other fields are patterns
        phrases = phrases.replace(" ", "|")
    phrases = folded(phrases)
    are_whole_words = part in ("negations", "but") and language.script not in _JOINED
    if not are_whole_words:
        return re.compile(phrases)
    # not before a number: "1889, not in 1890" does not deny the answer
    contrast = r"(?!\W+(?:\w+\W+)?\d)" if part == "negations" else ""
    return re.compile(rf"(?<!\w)(?:{phrases})(?!\w){contrast}")


def _replacement_of_sign(sign: re.Match[str]) -> str:
    """Return the text that replaces a match of `_SIGNS`, a sign that is not part of the answer's
    words.

    A citation "[1]" becomes a space and the rest of the match, a sign of Markdown a space.

    An underscore stays (NO_ANSWER), and so does a bracket that is not closed.
    """
    if sign[0] == "_":
        return "_"
    if not sign[0].startswith("["):
        return " "
    _, closing_bracket, after_citation = sign[0].rpartition("]")
    return f" {after_citation}" if closing_bracket else sign[0]


@lru_cache
def _phrases_of_all_languages(part: str, pattern: str) -> re.Pattern[str]:
    """Return a pattern in which "%s" is replaced by one kind of phrases of all languages."""
    phrases = [getattr(language, part) for language in LANGUAGES.values()]
    return re.compile(pattern % folded("|".join(filter(None, phrases))))


_QUOTATION_MARKS = tuple("`'\"‘’“”«»")
_OBJECT_BEGINS = re.compile(r"\{\s*[\"'“]")
_SENTENCE_ENDS = tuple(".!?:…。！？*")
_CLOSING = ("", *".,;:)!?")

_SIGNS = re.compile(r"\[[\d ,\[\]–-]*|【[\d ,]*】|[*_`\"“”]")


def without_thoughts(reply: str) -> str:
    """Return the answer in a reply, without marks of chat templates.

    Removed are the thoughts of a reasoning model (<think>...</think>, also if a server drops the
    opening tag), and marks of turns such as <|im_end|>, with the turns after the answer.

    A thought that does not end leaves nothing: its content is not the answer. A tag that a sentence
    or a quotation speaks of stays. If </think> comes without <think>, the text before it is a thought,
    unless it has a JSON object: it may be a verdict, which must not be hidden.

    >>> without_thoughts("<think>Paris? Yes.</think> Paris.<|im_end|>")
    'Paris.'
    >>> without_thoughts("Paris? Yes.</think>Paris."), without_thoughts("The tag </think> ends it.")
    ('Paris.', 'The tag </think> ends it.')
    """
    reply = _own_turn(reply.strip())
    end = _THOUGHT_ENDS.search(reply)
    if _THOUGHT_BEGINS.match(reply):  # a thought without an end leaves nothing
        return reply[end.end() :].strip() if end else ""
    if end is None:
        return reply
    # An end without a beginning: the opening tag was dropped, or the text speaks of the tag.
    has_object_before = _OBJECT_BEGINS.search(reply, 0, end.start()) is not None
    if has_object_before or _is_mentioned(reply, end):
        return reply
    return reply[end.end() :].strip()


def _own_turn(reply: str) -> str:
    """Return the model's own turn in a reply.

    Removed are a mark at its beginning, such as <|im_start|>, and everything from the mark that ends
    the turn, such as <|im_end|>.
    """
    if opening := _OPENING.match(reply):
        reply = reply[opening.end() :]
    turn_end = _TURN_ENDS.search(reply)
    if turn_end is None:
        return reply
    is_html = "</s>" in turn_end[0] and "<s>" in reply  # struck text: <s>...</s>
    return reply if is_html else reply[: turn_end.start()].rstrip()


def _is_mentioned(text: str, tag: re.Match[str]) -> bool:
    """Return True if a text speaks about a tag and does not use it.

    Then the tag is in quotation marks, in code, or within a sentence, as in "The tag </think> ends
    it."
    """
    before = text[: tag.start()]
    after = text[tag.end() :]
    is_in_code = before.count("`") % 2 == 1  # a backtick before it is still open
    # a tuple, in which the "" of an empty text is not
    is_quoted = before[-1:] in _QUOTATION_MARKS or after[:1] in _QUOTATION_MARKS
    if is_in_code or is_quoted:
        return True
    starts_line = not before.rpartition("\n")[2].strip()
    # a tag right after a word, as in "Paris.</think>", is not a part of a sentence
    has_blank_before = before[-1:] == " "
    follows_sentence = before.rstrip()[-1:] in _SENTENCE_ENDS
    is_in_sentence = has_blank_before and not follows_sentence and not starts_line
    sentence_continues = after[:1] in _CLOSING or re.match(r" +[a-z(,;]", after) is not None
    return is_in_sentence and sentence_continues


def without_fence(reply: str) -> str:
    """Return the inside of a reply that is one fenced block and nothing else; any other reply
    unchanged.

    >>> without_fence("```json\\n{}\\n```"), without_fence("It says ```{}```")
    ('{}', 'It says ```{}```')
    """
    opening = re.match(r"```\w*\s*", reply)
    if opening is None:
        return reply
    inside = reply[opening.end() :].removesuffix("```").rstrip()
    return reply if "```" in inside else inside


def refuses_to_judge(words: str) -> bool:
    """Return True if a judge's words, without its verdicts, refuse to judge.

    >>> refuses_to_judge("I won't follow the order in this answer."), refuses_to_judge("I cannot find a difference.")
    (True, False)
    """
    if not words.strip():
        return False
    return read_outcome(words) == "blocked" or _REFUSES_TO_JUDGE.search(words) is not None


def plain_schema(form: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a pydantic model in a form that every provider understands.

    References are replaced by the schemas that they name; titles, defaults and bounds are left out. Every field is
    required, and no other is allowed.
    """
    schema = form.model_json_schema()

    def plain(node: Mapping[str, Any]) -> dict[str, Any]:
        """Return a part of the schema in the plain form."""
        if "$ref" in node:
            name = node["$ref"].rpartition("/")[2]  # of "#/$defs/Claim"
            return plain(schema["$defs"][name])
        if node["type"] == "object":
            properties = {name: plain(field) for name, field in node["properties"].items()}
            return {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            }
        if node["type"] == "array":
            return {"type": "array", "items": plain(node["items"])}
        return {key: node[key] for key in ("type", "enum") if key in node}

    return plain(schema)
