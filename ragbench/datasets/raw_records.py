"""Raw records of documents, queries and judgements as a Dataset, for every loader: which fields
they need, what becomes metadata, which flaws are errors and which are warnings.

A record that is wrong is an error; a flaw that real collections have is one DataWarning with its
count.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from ragbench.datasets.jsonl import shown
from ragbench.errors import DataError, warn_of_flaw
from ragbench.files import read_json
from ragbench.plain_records import ABSENT_DOCUMENTS, as_id, ids_in_known_form, qrels_of_corpus
from ragbench.types import Case, Dataset, Document, Qrels

_SPEAKER = re.compile(r"\s*\|(user|agent|assistant)\|:")

Flaws = defaultdict[str, list[str]]
"""Kind of flaw -> the ids of the records that have it."""


def testset_record(folder: Path) -> dict[str, Any]:
    """Return the content of testset.json; {} without such a file. It states the name of a generated
    test set, and when, for whom and how it was generated.

    Raises:
        DataError: the file cannot be read, or is not an object of JSON.
    """
    path = folder / "testset.json"
    if not path.is_file():
        return {}
    advice = "correct it or take it away"
    record = read_json(path, advice)
    if not isinstance(record, dict):
        raise DataError(f"{path} is {shown(record)}; expected an object {{...}}; {advice}")
    return record


def identifier(record: Mapping[str, Any], field: str = "_id") -> str:
    """Return an id as a string; a whole number is accepted.

    >>> identifier({"_id": 7}), identifier({"_id": "d1"})
    ('7', 'd1')
    >>> identifier({"id": "d1"})
    Traceback (most recent call last):
    ragbench.errors.DataError: '_id' is missing; the record has id
    """
    return as_id(_required(record, field), repr(field))


def document(record: Mapping[str, Any]) -> Document:
    """Return a line of a corpus as a Document: `_id`, `text`, maybe `title`; all other fields become
    metadata.

    >>> document({"_id": 1, "text": "Body.", "title": None, "year": 2020})
    Document(doc_id='1', text='Body.', title='', metadata={'year': 2020})
    """
    doc_id = identifier(record)
    text = string(record, "text")
    title = string(record, "title") if record.get("title") is not None else ""
    return Document(doc_id, text, title, _metadata(record, ("_id", "text", "title")))


def document_line(document: Document) -> dict[str, Any]:
    """Return a document as a line of a corpus, from which `document` makes it again."""
    line = {"_id": document.doc_id, "title": document.title, "text": document.text}
    return {**line, "metadata": dict(document.metadata)} if document.metadata else line


def case(record: Mapping[str, Any]) -> Case:
    """Return a line of queries as a Case: `_id`, `text`, maybe `category` and `query_type`; all
    other fields become metadata.

    A text with "|user|:" in it is a conversation: its last question becomes the text of the case.

    >>> case({"_id": "q1", "text": "Why?", "category": "multi_hop"}).category
    'multi_hop'
    """
    labels = {}
    for field in ("category", "query_type"):
        if isinstance(record.get(field), str):
            labels[field] = record[field]
    metadata = _metadata(record, ("_id", "text", *labels))
    question, turns = _split_conversation(string(record, "text"))
    return Case(identifier(record), question, **labels, turns=turns, metadata=metadata)


def _split_conversation(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Split a conversation that is one text: return its last question, and the turns before it. A
    text that is no conversation is returned as it is, without turns.

    >>> _split_conversation("|user|: Who built it?\\n|agent|: Brunel.\\n|user|: When?")
    ('When?', (('Who built it?', 'Brunel.'),))
    >>> _split_conversation("Why?")
    ('Why?', ())
    """
    # The text before the first speaker, then speaker and utterance by turns.
    start, *speakers_and_utterances = _SPEAKER.split(text)
    speakers = speakers_and_utterances[::2]
    utterances = [utterance.strip() for utterance in speakers_and_utterances[1::2]]
    questions = [number for number, speaker in enumerate(speakers) if speaker == "user"]
    if start or not questions:  # a text that only mentions "|user|:", or nobody asks in it
        return text, ()
    turns = []
    for number, next_number in pairwise(questions):
        reply = " ".join(utterances[number + 1 : next_number])
        turns.append((utterances[number], reply))
    last_question = utterances[questions[-1]]
    return last_question, tuple(turns)


def string(record: Mapping[str, Any], field: str) -> str:
    """Return a field that must be a string; it may be empty."""
    value = _required(record, field)
    if not isinstance(value, str):
        raise DataError(f"{field!r} is {shown(value)}; expected a string")
    return value


def add_judgement(qrels: Qrels, query_id: str, doc_id: str, value: int) -> None:
    """Put one judgement into `qrels`, which the caller is building.

    Raises:
        DataError: the pair is judged already, with another grade.
    """
    judged = qrels.setdefault(query_id, {})
    earlier = judged.setdefault(doc_id, value)  # the new value if there was none
    if earlier != value:
        raise DataError(
            f"query {query_id!r} and document {doc_id!r} are judged {value} here and {earlier} "
            "earlier; keep one of the two lines"
        )


def repeated(path: Path, number: int, what: str, own_id: str, first: int) -> DataError:
    """Return the error for an id that line `first` of the file already has."""
    return DataError(
        f"{path}, line {number}: {what} id {own_id!r} is on line {first} already; "
        "give each its own id, or remove one of the two"
    )


def empty(path: Path, what: str) -> DataError:
    """Return the error for a file without records."""
    return DataError(
        f'{path} is empty; expected one {what} per line, as {{"_id": ..., "text": ...}}'
    )


def assemble(
    name: str,
    split: str,
    corpus: Mapping[str, Document],
    cases: Mapping[str, Case],
    qrels: Qrels,
    *,
    source: str,
) -> Dataset:
    """Return the dataset of the cases that `qrels` names, in the order of `cases`; flaws become
    warnings.

    A case stays if `qrels` has an entry for it, even an empty one (an unanswerable question).

    Raises:
        DataError: there are no documents, no cases, or no case is judged; `source` is named in the
            message.
    """
    if not corpus:
        raise DataError(f"{source}: the corpus is empty; expected one document or more")
    if not cases:
        raise DataError(f"{source}: there are no queries; expected one or more")
    known_id = ids_in_known_form(qrels, cases)  # an id as qrels write it -> as the queries write it
    qrels = {known_id.get(query_id, query_id): grades for query_id, grades in qrels.items()}
    qrels = qrels_of_corpus(qrels, corpus)  # the same for the ids of documents
    kept = tuple(case for query_id, case in cases.items() if query_id in qrels)
    if not kept:
        example = f"a judged one is {next(iter(qrels))!r}" if qrels else "nothing is judged"
        raise DataError(
            f"{source}: split {split!r} judges none of the {len(cases)} queries; a query "
            f"is {next(iter(cases))!r}, {example}; the ids must be the same"
        )
    _warn_of_flaws(split, corpus, cases, qrels, source)
    ordered = {case.query_id: qrels[case.query_id] for case in kept}
    return Dataset(name=name, split=split, corpus=corpus, cases=kept, qrels=ordered)


def _warn_of_flaws(
    split: str,
    corpus: Mapping[str, Document],
    cases: Mapping[str, Case],
    qrels: Qrels,
    source: str,
) -> None:
    """Warn of cases, judgements and documents without a counterpart, and of empty documents."""
    without_judgement = [query_id for query_id in cases if query_id not in qrels]
    without_case = [query_id for query_id in qrels if query_id not in cases]
    judged = chain.from_iterable(qrels[query_id] for query_id in cases if query_id in qrels)
    absent = [doc_id for doc_id in judged if doc_id not in corpus]
    without_text = [
        doc_id for doc_id, doc in corpus.items() if not (doc.text.strip() or doc.title.strip())
    ]
    flaws = {
        f"queries have no judgement in split {split!r} and are left out": without_judgement,
        "judged queries are not among the queries and are left out": without_case,
        ABSENT_DOCUMENTS: absent,
        "documents are empty; they are kept and get no chunk": without_text,
    }
    warn_all(source, flaws)


def warn_all(source: str, flaws: Mapping[str, Collection[str]]) -> None:
    """Issue one warning for each kind of flaw (flaw -> ids, each counted once)."""
    for flaw, ids in flaws.items():
        warn_of_flaw(source, flaw, dict.fromkeys(ids))


def _required(record: Mapping[str, Any], field: str) -> Any:
    """Return the value of a field; DataError if it is missing."""
    if field not in record:
        raise DataError(
            f"{field!r} is missing; the record has {', '.join(map(str, record)) or 'no field'}"
        )
    return record[field]


def _metadata(record: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return the fields that are not among the known ones, without nulls; the content of a nested
    `metadata` is merged into them.
    """
    extra = {key: value for key, value in record.items() if key not in known and value is not None}
    nested = extra.get("metadata")
    if isinstance(nested, Mapping):
        del extra["metadata"]
        return {**nested, **extra}
    return extra
