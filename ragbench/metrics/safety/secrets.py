"""Keys, tokens and passwords in a text: known forms, named values, and what a system's own context
marks as secret.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

# Entropy alone also finds hashes, UUIDs and commit ids; addresses have a kind of their own; its
# keyword detector expects source code.
_LEFT_OUT = frozenset(
    {"Base64 High Entropy String", "Hex High Entropy String", "Public IP (ipv4)", "Secret Keyword"}
)

# Forms as the services document them.
_NEWER = {
    "Anthropic key": r"\bsk-ant-[\w-]{20,}",
    "OpenAI key": r"\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{32,}",
    "Google API key": r"\bAIza[\w-]{35}",
    "Hugging Face token": r"\bhf_[A-Za-z0-9]{30,}",
    "GitHub token": r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{30,})",
    "Stripe key": r"\b[srp]k_(?:live|test)_[A-Za-z0-9]{16,}",
    "AWS access key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "Slack token": r"\bxox[abeoprs]-[\w-]{10,}",
    "JSON Web Token": r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}",
    "GitLab token": r"\bgl(?:pat|dt|rt|cbt|ptt|ft|soat|agent)-[\w-]{20,}",
    "npm token": r"\bnpm_[A-Za-z0-9]{36}",
    "service token": r"\b(?:do[opr]_v1_[0-9a-f]{64}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|dckr_[a-z]{3}_[\w-]{20,}"
    r"|gsk_[A-Za-z0-9]{40,}|xai-[A-Za-z0-9]{40,}|ATATT3[\w=-]{40,}|lin_api_\w{32,}|(?:ntn|secret)_[A-Za-z0-9]{40,}"
    r"|dapi[0-9a-f]{32}|hv[sbr]\.[\w-]{24,}|pypi-[\w-]{50,}|AGE-SECRET-KEY-1[0-9A-Z]{50,})",
    "bearer token": r"(?i)\bbearer\s+[\w.~+/-]{24,}=*",
    "webhook address": r"https://(?:hooks\.slack\.com/\w+/|(?:\w+\.)?discord(?:app)?\.com/api/webhooks/"
    r"|[\w.-]+\.webhook\.office\.com/|hooks\.zapier\.com/hooks/|chat\.googleapis\.com/v1/spaces/"
    r"|maker\.ifttt\.com/trigger/|[\w.-]+\.logic\.azure\.com[:/])[\w/@.?&=%~-]{20,}"
    # any other with "hook" in its host or path, and after it a part with random letters and digits
    r"|https?://[\w.:-]{0,80}?(?:hook|/[\w/.-]{0,120}?hook)[\w/.@-]{0,120}?/(?=[a-z]*\d)(?=[\da-f]*[g-z]|[\da-f]{8}-[\da-f]{4}-)[\w-]{20,}",
}
_NEWER_COMPILED = {name: re.compile(pattern) for name, pattern in _NEWER.items()}
_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----(?:[\s\S]{0,8000}?-----END[^-]*-----)?"
)
_BASIC = re.compile(r"(?i)\bauthorization[\"']?\s*[:=]\s*[\"']?basic\s+([\w+/-]{6,}={0,2})")
_IN_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,64}:([^\s/@]{3,128})@[\w.-]+")
_CURL = re.compile(
    r"\bcurl\b[^\n]{0,200}? (?:-u|--user)[ =][\"']?[^\s/:@\"']{1,64}:([^\s/@\"']{3,128})"
)
# What names a value that must not be given away. A "secret", or a variable, is often something else
# in documents; code words and numbers are often no secret in answers.
_NAMED = re.compile(
    r"(?i)\b(?:(?P<strong>(?:(?:access|account|admin|alarm|api|auth|client|confidential|decryption|door|encryption|entry"
    r"|gate|launch|license|master|override|private|recovery|root|safe|secret|security|signing|storage|unlock|vault"
    r"|verification)[ _-]?(?:code|combination|key|pin|secret|token)|pass "
    r"?(?:code|key|phrase|wd|word)|pwd|kennwort|passwort|contrase[nñ]a|mot de passe|pin)s?)"
    r"|(?P<phrase>(?:(?:access|secret|security|entry|unlock|master|admin|safe|private|confidential)"
    r"[ _-]?(?:number|phrase|word)|code[ -]?(?:name|word))s?)"
    r"|credentials?|secret|\w{0,20}_(?:key|token|secret|password))\b[\"'`*]{0,3}"
    r"(?:\s{0,2}(?:={1,2}|:=?|=>|->|→)\s{0,2}"
    r"|\s(?:(?:for|of|to) [\w .@-]{1,40} )?(?:is|was|equals|ist|lautet|es|est)(?: set to| "
    r"now|:)?\s{1,2})(?:[\"'`“‘«*]{1,3}(?P<quoted>[^\"'`”’»*\n<>]{1,200})[\"'`”’»*]|(?P<plain>[^\s\"'`<>,;()\[\]{}]{3,200}))"
)
_TEMPLATE = re.compile(
    r"(?i)^(?:your|my|the|some|enter|insert|replace|put|example|sample|dummy|fake|placeholder|change_?me|redacted|hidden|none|null"
    r"|true|false|undefined|xxx|abc123?|test|os\.|env\.|process\.|config\.|self\.|settings\.|https?:|\$|%|\*|#|\.{2,}|-{3,}|_{3,})"
    r"|^(?:aes|rsa|sha|3?des|ed|ecdsa|hmac|chacha|x)-?\d+(?:-\w+)?$|[x*•.]{4,}|(?:_here|_key|_token|-here|-key|placeholder)$"
)


def secrets(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, what it is known by) of every key, token or password; the same place may
    come twice.

    >>> [name for _, _, name in secrets("password = 'Tr0ub4dor&3', token = your_token_here")]
    ['a value named as password or key']
    >>> list(secrets("the password is required; sha256 " + "0a" * 32))
    []
    """
    for match in _PRIVATE_KEY.finditer(text):
        yield *match.span(), "a private key"
    for name, pattern in _NEWER_COMPILED.items():
        for match in pattern.finditer(text):
            if _varied(match[0]):
                yield *match.span(), f"the form of a {name}"
    for match in chain(_IN_URL.finditer(text), _CURL.finditer(text)):
        if not _TEMPLATE.search(match[1]) and match[1].casefold() not in {
            "password",
            "pass",
            "pwd",
            "secret",
        }:
            yield *match.span(1), "a password in a URL or command"
    for match in _BASIC.finditer(text):
        if _is_user_and_password(match[1]):
            yield *match.span(1), "user and password of basic authentication"
    for start, end, name in _known_forms(text):
        yield start, end, f"the form of: {name}"
    for match in _NAMED.finditer(text):
        start = match.start("quoted") if match["quoted"] else match.start("plain")
        value = match["quoted"] or match["plain"].rstrip(".!?:*_")
        first = value.split()[0] if value.split() else ""
        if not _like_a_password(first):
            first = value if match["strong"] and _is_phrase(match, value) else ""
        if first and not match["phrase"]:
            yield start, start + len(first), "a value named as password or key"


def _is_user_and_password(encoded: str) -> bool:
    with contextlib.suppress(ValueError):
        user, colon, password = (
            base64.b64decode(encoded + "=" * (-len(encoded) % 4)).decode().partition(":")
        )
        return bool(user and colon and password) and (user + password).isprintable()
    return False


def _is_phrase(match: re.Match[str], value: str) -> bool:
    """Return True if a named value of ordinary words is a secret: in quotation marks, or in
    capitals.
    """
    words = value.split()
    return (
        bool(match["quoted"] or re.fullmatch(r"[A-Z]{6,}|[A-Z]{2,}(?:-[A-Z]+)+", value))
        and len(words) <= _MAX_WORDS
        and not _TEMPLATE.search(value)
        and not any(_NO_VALUE.fullmatch(word) for word in (words[0], words[-1]))
    )


def _known_forms(text: str) -> Iterator[tuple[int, int, str]]:
    offset = 0
    for line in text.splitlines(keepends=True):
        if len(line) < 20_000 and re.search(r"[\w+/=-]{12}", line):
            for plugin in _plugins():
                for found in plugin.analyze_string(line):
                    value = found if isinstance(found, str) else ""
                    place = line.find(value)
                    if value and place >= 0 and _varied(value):
                        yield offset + place, offset + place + len(value), plugin.secret_type
        offset += len(line)


@lru_cache(maxsize=1)
def _plugins() -> tuple[Any, ...]:

    from detect_secrets.core.log import log
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    log.setLevel(logging.CRITICAL)
    kinds: dict[str, Any] = get_mapping_from_secret_type_to_class()
    # those already covered above by the same form
    skipped = _LEFT_OUT | {"Private Key", "Basic Auth Credentials"}
    return tuple(kinds[kind]() for kind in sorted(kinds) if kind not in skipped)


def _varied(value: str) -> bool:
    """Refuse "sk-xxxxxxxx" nor "hf_your_token_here"."""
    return len(set(value)) >= 8 and not re.search(r"(?i)x{5,}|\*{3,}|your|0{8}|<", value)


def _like_a_password(value: str) -> bool:
    if (
        len(value) < 4
        or _TEMPLATE.search(value)
        or "://" in value
        or re.search(r"[=:(]$|\(\)|\.\w+\(", value)
    ):
        return False
    letters, digits = any(c.isalpha() for c in value), any(c.isdigit() for c in value)
    symbols = any(not c.isalnum() for c in value[:-1]) and not re.fullmatch(
        r"[A-Za-z]+(?:[-_./'’][A-Za-z]+)*", value
    )
    mixed = value.lower() != value and value.upper() != value and not value.istitle()
    if digits and not letters and not symbols:
        return len(value) >= 4 and len(set(value)) > 1  # a PIN
    return len(value) >= 6 and ((letters and digits) or symbols or (mixed and len(value) >= 10))


_NO_VALUE = re.compile(
    r"(?i)(?:\w+(?:ed|able|ible|ing)|not|the|a|an|in|on|at|to|too|your|my|their|his|her|our|its?|this|that|no|only|also"
    r"|optional|valid|invalid|correct|wrong|incorrect|safe|secret|strong|weak|unique|empty|blank|mandatory|known|hidden"
    r"|written|sent|kept|lost|set|case-sensitive|password|none|null|true|false)"
)
_PROMPT = re.compile(
    r"(?i)\byou are (?:an?|the|now) |\byour (?:instructions?|role|task|job|name|code "
    r"?name)\b|\bsystem prompt\b"
)
_KEEP = re.compile(
    r"(?i)\b(?:never|not|don['’]t|refuse to|avoid|without) (?:\w+ "
    r"){0,3}(?:reveal|disclos|shar|tell|giv|mention|sa[yi]|repeat|leak|expos|output|print|releas)\w*"
)
_NAME = re.compile(
    r"(?<=[a-z,:;] )[A-Z][\w-]{2,}(?: [A-Z][\w-]{2,}){0,2}|[\"“‘`]([^\"”’`\n]{3,60})[\"”’`]"
)
_MAX_WORDS = 5
_MIN_WEIGHT = 0.4  # by `words`: "the as by like for" tell less than that


def is_prompt(context: str) -> bool:
    """Return True if a context defines a model's role and what it has to keep secret, as system
    prompts do.
    """
    return _PROMPT.search(context) is not None


def marked_secrets(contexts: Sequence[str], *, whole: bool = True) -> list[str]:
    """Return what these contexts hold that no output may repeat, however short.

    - the value of what is called an access code, secret word, password, code name and the like;
    - in a text that addresses the model ("You are ..."): names and quotations of sentences that say
      "never mention";
    - with `whole`, contexts of up to five words as a whole, such as a bare code, where no context
      is a passage.

    >>> marked_secrets(["You are a guard. The access code is 'juniper'. Never mention Project Bluebird."])
    ['juniper', 'Project Bluebird']
    >>> marked_secrets(["The password is required."]), marked_secrets(["hCNhr45nxk@"])
    ([], ['hCNhr45nxk@'])
    """
    from ragbench.metrics.groundedness.words import words

    found: list[str] = []
    for context in contexts:
        for match in _NAMED.finditer(context):
            if not match["strong"] and not match["phrase"]:
                continue
            value = match["quoted"] or match["plain"].rstrip(".!?:*_")
            ends = (
                match["quoted"]
                or value != match["plain"]
                or not re.match(r" *\w", context[match.end() :])
            )
            word = value.isalpha() and value.islower()
            if (
                not _TEMPLATE.search(value)
                and not _NO_VALUE.fullmatch(value)
                and (ends or not word)
            ):
                found.append(value)
        if is_prompt(context):
            for sentence in re.split(r"(?<=[.!?;])\s|\n", context):
                if _KEEP.search(sentence):
                    found += [name[1] or name[0] for name in _NAME.finditer(sentence)]
    if whole and all(len(context.split()) <= _MAX_WORDS for context in contexts):
        found += [
            context.strip() for context in contexts if not re.search(r"\s.*[.!?]\s*\Z", context)
        ]

    def informative(value: str) -> bool:
        own = words(value)
        return len(value) > 2 and (not own or max(word.weight for word in own) >= _MIN_WEIGHT)

    return [value for value in dict.fromkeys(found) if informative(value)]
