"""Problems in a file: each with its place, how many are listed in one error, and when a similar
name is suggested.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ragbench import errors
from ragbench.datasets.jsonl import shown
from ragbench.errors import DataError

_LISTED = 20
_NEAR = 0.75


@dataclass(frozen=True, slots=True)
class Problem:
    """A wrong value in a file: `line` is counted from 1 (0: the file as a whole), `field` is its place
    in the record ("": the record as a whole).

    `expected` is "" if `value` is a whole sentence.

    >>> print(Problem(3, "cases[0].query", "7", "a text", "cases.yaml"))
    cases.yaml, line 3: cases[0].query is 7; expected a text
    """

    line: int
    field: str
    value: str
    expected: str
    file: str = ""

    def __str__(self) -> str:
        where = f"{self.file}, line {self.line}" if self.line else self.file
        what = f"{self.field} is {self.value}" if self.field else self.value
        return f"{where}: {what}; expected {self.expected}" if self.expected else f"{where}: {what}"


def refuse(source: str | Path, problems: Sequence[Problem]) -> None:
    """Raise DataError with the number of problems and the first 20, one a line; do nothing for none."""
    if not problems:
        return
    if len(problems) == 1:
        raise DataError(str(problems[0]))
    listed = [f"  {problem}" for problem in problems[:_LISTED]]
    if len(problems) > _LISTED:
        listed.append(
            f"  and {len(problems) - _LISTED} more: `ragbench testset validate {source}` lists "
            "them all"
        )
    raise DataError("\n".join([f"{source} has {len(problems)} problems:", *listed]))


@lru_cache(maxsize=256)  # a field that is wrong in one case is wrong in all of a file
def nearest(name: str, known: tuple[str, ...]) -> str:
    """Return the known name that was probably meant, or "". The comparison ignores case, underscores
    and hyphens.

    >>> nearest("expectedanswer", ("expected_answer", "query")), nearest("difficulty", ("category", "query"))
    ('expected_answer', '')
    """
    plain = {_plain(candidate): candidate for candidate in known}
    return plain.get(errors.nearest(_plain(name), plain, _NEAR), "")


def suggestion(name: str, known: Iterable[str], what: str) -> str:
    """Return the description of an expected value, with the known name that was probably meant.

    >>> suggestion("q10", ["q1", "q2"], "a case of cases.jsonl")
    "a case of cases.jsonl (did you mean 'q1'?)"
    """
    near = nearest(name, tuple(known))
    return f"{what} (did you mean {near!r}?)" if near else what


def field_name(path: Sequence[str | int]) -> str:
    """Return keys as people write them: `cases[3].query`.

    >>> field_name(("cases", 3, "expected_chunks", 0, "doc_id"))
    'cases[3].expected_chunks[0].doc_id'
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif text:
            text += f".{part}"
        else:
            text = str(part)
    return text if len(text) <= 120 else shown(text, 120)


def _plain(name: str) -> str:
    """Return a name without case, signs and blanks; a name of signs alone unchanged."""
    return re.sub(r"[\W_]+", "", name.casefold()) or name
