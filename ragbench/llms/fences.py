"""Fences around foreign text in a request: tags that it cannot close.

The tags end in a code that is taken from a digest of the fenced texts, so the same request is the
same bytes and the reply store finds it again, on any machine; a secret or a random number could not
do that. It is as safe as a random code all the same: a code that occurs in any of the fenced texts
is not used, the next one is tried. So no text can close its fence, not even one whose author knew
everything else in the request and searched for a text with its own code.
"""

import hashlib
from collections.abc import Sequence
from itertools import count

from ragbench.text import without_surrogates


def fence_code(texts: Sequence[str], *, digits: int = 8) -> str:
    """Return hex digits that occur in none of the texts; the same for the same texts.

    >>> fence_code(["some text", "another"])
    '311561e7'
    """
    folded = [without_surrogates(text).casefold() for text in texts]
    sha = hashlib.sha256()
    for text in folded:
        sha.update(f"{len(text)}:{text}".encode())
    codes = (
        hashlib.sha256(sha.digest() + i.to_bytes(8, "big")).hexdigest()[:digits] for i in count()
    )
    return next(code for code in codes if not any(code in text for text in folded))


def fence(kind: str, text: str, code: str) -> str:
    """Return the text between tags of its kind.

    >>> print(fence("answer", "Paris.", "311561e7"))
    <answer-311561e7>
    Paris.
    </answer-311561e7>
    """
    return f"<{kind}-{code}>\n{without_surrogates(text)}\n</{kind}-{code}>"


def numbered(texts: Sequence[str], code: str, tag: str = "document") -> str:
    """Return documents as the prompts show them: each fenced, after its number from 1; "(none)" if
    there are none.
    """
    return (
        "\n".join(f"[{i}]\n{fence(tag, text, code)}" for i, text in enumerate(texts, 1)) or "(none)"
    )
