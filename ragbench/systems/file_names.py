"""Documents that a system names by a path, an address or the name of a file: when such a name means
which document.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote

from ragbench.types import Passage

BY_ID, BY_PATH, BY_FILE_NAME = "by id", "by path", "by file name"
"""How a passage names its document."""

_ADDRESS = re.compile(r"(?:file:|[A-Za-z][\w+.-]+://[^/]*)")
_DRIVE = re.compile(r"/?[A-Za-z]:(?=/)")
_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,7}\Z")
_ID, _PATH, _FILE_NAME, _STEM = range(4)
_HOW = (BY_ID, BY_PATH, BY_FILE_NAME, BY_FILE_NAME)

_Path = tuple[str, ...]


class _Claim(NamedTuple):
    """The document that a path of a passage may name, how well it names it (0, by id, is best), and the
    full path: the longest path of the same passage that ends in this one. ("a.md" and
    "/data/docs/a.md" of one passage are one file of the system.)
    """

    level: int
    doc_id: str
    full_path: _Path


def path_parts(name: str) -> tuple[str, ...]:
    """Return the parts of a path or of an address without its host; () if there are none.

    Windows' drives and backslashes, "./", "../" and percent signs of addresses are folded; the part
    from "#" after a file name with an extension is left out.

    >>> path_parts("C:\\\\docs\\\\.\\\\a.md"), path_parts("https://host/docs/a%20b.md?page=2")
    (('docs', 'a.md'), ('docs', 'a b.md'))
    >>> path_parts("../docs//a.md#page=2"), path_parts("C#.md")
    (('docs', 'a.md'), ('C#.md',))
    """
    path = unicodedata.normalize("NFC", name.strip()).replace("\\", "/")
    scheme_and_host = _ADDRESS.match(path)
    if scheme_and_host:
        without_query = re.split("[?#]", path[scheme_and_host.end() :])[0]
        path = unquote(without_query)
    drive = _DRIVE.match(path)
    if drive:
        path = path[drive.end() :]
    before_mark, _, after_mark = path.rpartition("#")
    if "/" not in after_mark and _EXTENSION.search(before_mark):
        path = before_mark
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return tuple(parts)


def match_file_names(
    known: Mapping[Passage, str], names: Mapping[str, str]
) -> dict[Passage, tuple[str, str]]:
    """Return passage -> (id of its document, `BY_PATH` or `BY_FILE_NAME`), for passages that name
    a document by a path and not by its id.

    A path names the document of the first rule that fits, or none if this rule fits several:

    1. The id of the document is the same path.
    2. One is the end of the other, and has two parts or more: "/data/docs/a.md" names "docs/a.md",
       and "docs/a.md" names "wiki/docs/a.md". The longest common end counts.
    3. The file names are equal: "old/b.md" names "new/b.md". (A number without an extension, "7", is
       not a file name.)
    4. The stems, which are file names without an extension, are equal: "b.pdf" names "b.md".

    If two files of the system would name one document, the better rule counts (1 and 2 are equally
    good), and by equal rules neither. A file counts most if a passage of it names the document by id.

    Args:
        known: every passage -> the document that it names by id, "" if it names none.
        names: name of a document -> its id; "" for a name that is not a document's.

    >>> passages = Passage("1", "", "/data/docs/a.md"), Passage("2", "", "b.pdf"), Passage("3", "", "/old/a.md")
    >>> found = match_file_names(dict.fromkeys(passages, ""), {"docs/a.md": "docs/a.md", "b.md": "b.md"})
    >>> [(passage.passage_id, *match) for passage, match in found.items()]
    [('1', 'docs/a.md', 'by path'), ('2', 'b.md', 'by file name')]
    """
    paths_of = {passage: _paths(passage) for passage in known}
    has_path_alone = any(paths and not known[passage] for passage, paths in paths_of.items())
    if not has_path_alone:
        return {}
    documents = _documents_by_stem(names)
    # A claim says that a path names a document, and how well: the lowest level is the best.
    claim_of: dict[Passage, _Claim] = {}  # the best claim of each passage without a known id
    rivals: dict[str, list[_Claim]] = defaultdict(list)  # document -> all claims to it
    for passage, paths in paths_of.items():
        claims = _claims(paths, documents)
        named_by_id = known[passage]
        if named_by_id:
            # certain, by the best level: no path of another file counts for this document
            claims_to_it = [claim for claim in claims if claim.doc_id == named_by_id]
            rivals[named_by_id] += [claim._replace(level=_ID) for claim in claims_to_it]
        elif claims:
            best = min(claims, key=lambda claim: claim.level)
            claim_of[passage] = best
            rivals[best.doc_id].append(best)
    return {
        passage: (claim.doc_id, _HOW[claim.level])
        for passage, claim in claim_of.items()
        if _is_best(claim, rivals[claim.doc_id])
    }


def _is_best(claim: _Claim, rivals: Iterable[_Claim]) -> bool:
    """Return True if no other file of the system claims the document as well as this claim, or better;
    `rivals` are all claims to the document.
    """
    equal_or_better = {rival.full_path for rival in rivals if rival.level <= claim.level}
    return equal_or_better == {claim.full_path}


def _documents_by_stem(names: Mapping[str, str]) -> dict[str, list[tuple[_Path, str]]]:
    """Return stem of a path -> the paths and ids of the documents with this stem."""
    documents: dict[str, list[tuple[_Path, str]]] = defaultdict(list)
    for name, doc_id in names.items():
        path = path_parts(name)
        if doc_id and path:
            documents[_stem(path)].append((path, doc_id))
    return documents


def _claims(
    paths: Sequence[_Path], documents: Mapping[str, Sequence[tuple[_Path, str]]]
) -> list[_Claim]:
    """Return a claim (that a path names a document, and how well) for each path of a passage that names
    one.

    Args:
        paths: the paths of the passage.
        documents: stem (file name without extension) -> the (path, doc_id) of each document with it.
    """
    claims = []
    for path in paths:
        named = _document_of(path, documents.get(_stem(path), []))
        if named is not None:
            level, doc_id = named
            full_path = _longest_ending_in(path, paths)
            claims.append(_Claim(level, doc_id, full_path))
    return claims


def _paths(passage: Passage) -> list[_Path]:
    """Return the paths by which a passage may name its document, the passage's own id only if it
    looks like the name of a file.
    """
    paths = [path_parts(name) for name in (passage.doc_id, *passage.sources)]
    own_path = path_parts(passage.passage_id)
    if own_path and _EXTENSION.search(own_path[-1]):
        paths.append(own_path)
    return list(dict.fromkeys(path for path in paths if path))


def _longest_ending_in(end: _Path, paths: Iterable[_Path]) -> _Path:
    """Return the longest of the paths that end in `end`, which is one of them."""
    return max((path for path in paths if _ends_in(path, end)), key=len)


def _ends_in(path: _Path, end: _Path) -> bool:
    return path[-len(end) :] == end


def _stem(path: _Path) -> str:
    return _EXTENSION.sub("", path[-1])


def _document_of(path: _Path, documents: Sequence[tuple[_Path, str]]) -> tuple[int, str] | None:
    """Return (level, doc_id) of the one document that a path of a passage names; None if it names
    none, or several equally well.

    The level is `_PATH` if a document's path fits, else `_FILE_NAME` if a file name fits, else `_STEM`.
    `documents` are (path, doc_id) of all documents with the same stem.
    """
    file_name = path[-1]
    level = _PATH
    doc_ids = _ids_by_path(path, documents)
    if not doc_ids and file_name.isdecimal():  # a number, such as a page number
        return None
    if not doc_ids:
        level = _FILE_NAME
        doc_ids = {doc_id for other, doc_id in documents if other[-1] == file_name}
    if not doc_ids:
        level = _STEM
        doc_ids = {doc_id for _, doc_id in documents}
    is_unique = len(doc_ids) == 1
    if not is_unique:
        return None
    [doc_id] = doc_ids
    return level, doc_id


def _ids_by_path(path: _Path, documents: Iterable[tuple[_Path, str]]) -> set[str]:
    """Return the ids of the documents whose path is equal to this one. Without one, return the ids of
    the documents that share the longest end with it: one path is the end of the other, and has two
    parts or more.
    """
    n_shared: dict[str, int] = {}  # doc_id -> number of parts that the paths share at their ends
    for other, doc_id in documents:
        n_parts = min(len(path), len(other))
        is_end = _ends_in(path, other) or _ends_in(other, path)
        if other == path:
            n_shared[doc_id] = len(path) + 1  # more than any end
        elif n_parts > 1 and is_end:
            n_shared[doc_id] = max(n_shared.get(doc_id, 0), n_parts)
    longest = max(n_shared.values(), default=0)
    return {doc_id for doc_id, length in n_shared.items() if length == longest}
