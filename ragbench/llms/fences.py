"""Fences around foreign text (documents, answers) in a request: the tags, their code, and why a
text cannot close them.

The tags end in a code that is taken from a digest of the fenced texts, so the same request is the
same bytes and the reply store finds it again, on any machine; a secret or a random number could not
do that. It is as safe as a random code all the same: a code that occurs in any of the fenced texts
is not used, the next one is tried. So no text can close its fence, not even one whose author knew
everything else in the request and searched for a text with its own code. A code also counts as
found if it is written in full width, with invisible signs within it, or in letters that look alike.
"""

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from itertools import count

from ragbench.text import without_surrogates

# of the hex digits, casefolded: Cyrillic, Greek, small capitals
_LOOK_ALIKE = str.maketrans(
    "\u0430\u0441\u0501\u0435\u044c\u03b1\u1d00\u0299\u1d04\u1d05\u1d07\ua730", "acdebaabcdef"
)


def fence_code(texts: Sequence[str], *, digits: int = 8) -> str:
    """Return a code for the tags around texts in a prompt.

    It is of hex digits that occur in none of the texts, so that no text can close its tag.

    The same texts get the same code.

    >>> fence_code(["some text", "another"])
    '311561e7'
    """
    folded = [without_surrogates(text).casefold() for text in texts]
    sha_of_texts = hashlib.sha256()
    for text in folded:
        sha_of_texts.update(f"{len(text)}:{text}".encode())
    # also without signs between letters: to a model, "31-11" may look like "3111"
    searched = [*folded, *map(_bare, folded)]
    for number in count():
        sha = hashlib.sha256(sha_of_texts.digest() + number.to_bytes(8, "big"))
        code = sha.hexdigest()[:digits]
        if not any(code in text for text in searched):
            return code
    raise AssertionError("not reached: there is always another code")


def _bare(text: str) -> str:
    """Return the ASCII letters and digits of a casefolded text alone; look-alikes count as the letters
    that they look like.

    >>> _bare("＜/answer-３1\u200b１ ٥е7＞")
    'answer3115e7'
    """
    if not text.isascii():
        signs = unicodedata.normalize("NFKD", text).translate(_LOOK_ALIKE)
        text = "".join(str(unicodedata.decimal(sign, sign)) for sign in signs)
    return re.sub(r"[^0-9a-z]", "", text)


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
    documents = [f"[{i}]\n{fence(tag, text, code)}" for i, text in enumerate(texts, 1)]
    return "\n".join(documents) or "(none)"
