"""Documents, queries and judgements that a program passes as mappings, lists, objects or data
frames: which fields are ids, texts and grades. Names in files are in `testsets/fields`.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, TypeVar

from ragbench.errors import DataError, abridged, warn_of_flaw

Record = TypeVar("Record")
ABSENT_DOCUMENTS = "judged documents are not in the corpus; they still count as missed"

# The names of a field in ragbench, `beir`, `ir_datasets`, `ir_measures` and other tools, in the order
# in which they are looked for. The first name of an id is the attribute of ragbench's record, too.
DOC_ID_FIELDS = "doc_id _id id docno corpus-id corpus_id document_id".split()
QUERY_ID_FIELDS = "query_id _id id qid query-id".split()
_JUDGED_QUERY_ID_FIELDS = "query_id qid query-id".split()  # the `_id` of a judgement is its own
TEXT_FIELDS = "text page_content contents content body".split()
QUESTION_FIELDS = "text query question user_input".split()
REFERENCE_FIELDS = "reference_answer reference ground_truth answer".split()
_GRADE_FIELDS = "relevance score rel grade label".split()

_REQUIRED = object()
# pytrec_eval reserves memory and time by the highest grade: at ten million it does not come back.
_MAX_GRADE = 10_000


def read_records(
    given: Any,
    what: str,
    kind: type[Record],
    ids: Sequence[str],
    texts: Sequence[str],
    make: Callable[[str, str, Any], Record],
) -> dict[str, Record]:
    """Return id -> record from a user's collection of documents, questions or the like.

    An item of it may be a record already, a text, or a mapping or object with fields. A record keeps its
    own id. The id of another item is its key if the collection is a mapping, else its field for the id,
    else its number in the list.

    Args:
        given: a list, a mapping by id or a frame.
        what: the name of the collection in messages.
        kind: the class of the records.
        ids, texts: names of the fields for the id and for the text; the first that an item has counts.
        make: makes a record of an id, a text and the whole item.

    Raises:
        DataError: an item has another form, or an id is there twice.
    """
    expected = f"{{{ids[0]}: text}}"  # the form to write, for messages
    if what == "corpus":
        expected += ", what rb.testsets.load_corpus(folder) reads"

    def made_record(key: Any, item: Any) -> Record:
        is_text = isinstance(item, str)
        text = item if is_text else field_of(item, texts, f"an entry of {what}")
        may_have_id = not is_text and not isinstance(given, Mapping)  # a mapping's key is the id
        item_id = field_of(item, ids, what, default=key) if may_have_id else key
        if not isinstance(text, str):
            raise DataError(
                f"the text of {item_id!r} in {what} is {_brief(text)}; expected a string"
            )
        return make(as_id(item_id), text, item)

    records: dict[str, Record] = {}
    for key, item in _keys_and_items(given, what, expected):
        record = item if isinstance(item, kind) else made_record(key, item)
        # the first name of the id is the attribute of ragbench's records
        record_id = getattr(record, ids[0])
        if record_id in records:
            raise DataError(f"two of the {what} have the id {record_id!r}; ids must be unique")
        records[record_id] = record
    return records


def read_qrels(qrels: Any) -> dict[str, dict[str, int]]:
    """Return query_id -> doc_id -> grade, from a mapping of grades or of lists of relevant ids, or from
    records (or a frame) with a query, a document and maybe a grade.

    Raises:
        DataError: something has another form.
    """
    if isinstance(qrels, Mapping):
        return {as_id(query_id): _grades(query_id, judged) for query_id, judged in qrels.items()}
    judgements: dict[str, dict[str, int]] = {}
    # the numbers of the records in the list do not matter
    for _, record in _keys_and_items(qrels, "qrels", "{query_id: {doc_id: grade}}"):
        query_id = as_id(field_of(record, _JUDGED_QUERY_ID_FIELDS, "a judgement"))
        grades = judgements.setdefault(query_id, {})
        value = field_of(record, _GRADE_FIELDS, "a judgement", default=1)  # 1: relevant
        doc_id = as_id(field_of(record, DOC_ID_FIELDS, "it"))  # "it" begins the message
        grades[doc_id] = grade(value)
    return judgements


def _grades(query_id: object, judged: Any) -> dict[str, int]:
    """Return doc_id -> grade of a question, from a mapping of grades, or a list of relevant ids: they
    have grade 1.
    """
    if isinstance(judged, str) or not isinstance(judged, Iterable):
        raise DataError(
            f"qrels of {query_id!r} are {_brief(judged)}; expected {{doc_id: grade}}, or doc_ids"
        )
    grades = judged if isinstance(judged, Mapping) else dict.fromkeys(judged, 1)
    return {as_id(doc_id): grade(value) for doc_id, value in grades.items()}


def _keys_and_items(given: Any, what: str, expected: str) -> Iterable[tuple[Any, Any]]:
    """Return the items of a collection with their keys in a mapping, or else their numbers from 0; the
    items of a frame are its rows, as dicts.

    Args:
        what: the name of the collection in messages.
        expected: the form to write, in messages.

    Raises:
        DataError: it is not a mapping, a frame or a list.
    """
    if isinstance(given, Mapping):
        return given.items()
    # of pandas, which is not imported for this
    is_frame = hasattr(given, "to_dict") and hasattr(given, "itertuples")
    if is_frame:
        return enumerate(given.to_dict("records"))
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise DataError(
            f"{what} is {_brief(given)}; expected {expected}, a DataFrame, or a list of records"
        )
    return enumerate(given)


def field_of(record: Any, names: Sequence[str], what: str, default: Any = _REQUIRED) -> Any:
    """Return the first of these fields that a mapping or an object has, else `default`.

    Args:
        names: names of the field; the first is ragbench's own.
        what: the name of the record in the message.

    Raises:
        DataError: the record has none of the fields, and there is no default.
    """
    for name in names:
        if isinstance(record, Mapping):
            if name in record:
                return record[name]
        elif hasattr(record, name):
            return getattr(record, name)
    if default is not _REQUIRED:
        return default
    raise DataError(
        f"{what} is {_brief(record)}; it has no {names[0]!r} "
        f"(nor {', '.join(map(repr, names[1:]))})"
    )


def metadata_of(record: Any, *known: Sequence[str]) -> Mapping[str, Any]:
    """Return the metadata of a record: the fields of a mapping that are not among the known names (nor
    "title"), or the `metadata` of an object.
    """
    if not isinstance(record, Mapping):
        metadata = getattr(record, "metadata", None)
        return dict(metadata) if isinstance(metadata, Mapping) else {}
    names = {"title", *(name for group in known for name in group)}
    return {name: value for name, value in record.items() if name not in names}


def as_id(value: Any, what: str = "an id") -> str:
    """Return an id as a string; a whole number is accepted, an empty text is not.

    >>> as_id("d1"), as_id(7)
    ('d1', '7')
    """
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, Integral) and value is not True and value is not False:
        return str(int(value))
    raise DataError(
        f"{what} is {_brief(value)}; expected a string that is not empty, or a whole number"
    )


def grade(value: Any) -> int:
    """Return a relevance grade; 1 and above is relevant, 0 and below is not.

    >>> grade("2"), grade(-1), grade(1.0), grade("1.0")
    (2, -1, 1, 1)
    >>> grade("1.5")
    Traceback (most recent call last):
    ragbench.errors.DataError: grade '1.5' is not a whole number; expected 0 (not relevant), 1, 2, ...
    """
    text = ""
    if isinstance(value, str):
        text = value.partition(".")[0]
        # a column of a CSV file that also has empty cells is written as 1.0
        is_whole = re.fullmatch(r"\s*[+-]?[0-9]{1,19}(\.0*)?\s*", value) is not None
    else:  # columns of tables are often floats throughout
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        is_whole = is_number and bool(value == value // 1)
    if not is_whole:
        raise DataError(
            f"grade {_brief(value)} is not a whole number; expected 0 (not relevant), 1, 2, ..."
        )
    number = int(text or value)
    if abs(number) > _MAX_GRADE:
        raise DataError(f"grade {number} is out of range; expected -{_MAX_GRADE} to {_MAX_GRADE}")
    return number


def ids_in_known_form(ids: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Return id -> known id for the ids that are not known, but differ from exactly one known id in
    their Unicode form only: a file system and an editor may write the same name differently.

    >>> ids_in_known_form(["U\u0308.md", "a.md"], ["\u00dc.md"]) == {"U\u0308.md": "\u00dc.md"}
    True
    """
    unknown_ids = [name for name in ids if not name.isascii() and name not in known]
    if not unknown_ids:
        return {}
    known_of_form: dict[str, list[str]] = {}
    for name in known:
        if not name.isascii():
            known_of_form.setdefault(unicodedata.normalize("NFC", name), []).append(name)
    known_id_of: dict[str, str] = {}
    for name in unknown_ids:
        candidates = known_of_form.get(unicodedata.normalize("NFC", name), [])
        if len(candidates) == 1:
            known_id_of[name] = candidates[0]
    return known_id_of


def qrels_of_corpus(
    qrels: dict[str, dict[str, int]], corpus: Collection[str]
) -> dict[str, dict[str, int]]:
    """Return judgements with the document ids of the corpus, in place of ids that differ from them in
    their Unicode form only; if none differs, the same object.
    """
    judged_ids = (doc_id for grades in qrels.values() for doc_id in grades)
    known_id_of = ids_in_known_form(judged_ids, corpus)
    if not known_id_of:
        return qrels
    renamed: dict[str, dict[str, int]] = {}
    for query_id, grades in qrels.items():
        renamed[query_id] = {
            known_id_of.get(doc_id, doc_id): grade for doc_id, grade in grades.items()
        }
    return renamed


def warn_of_absent_documents(
    source: str, qrels: Mapping[str, Mapping[str, int]], corpus: Collection[str]
) -> None:
    """Issue one DataWarning if documents are judged that the corpus does not have. `source` names the
    dataset.
    """
    judged = dict.fromkeys(doc_id for grades in qrels.values() for doc_id in grades)
    absent = [doc_id for doc_id in judged if doc_id not in corpus]
    warn_of_flaw(source, ABSENT_DOCUMENTS, absent)


def _brief(value: Any) -> str:
    return abridged(repr(value), 60)
