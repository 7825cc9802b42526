"""Records of public test sets whose labels are nested (SQuAD, HotpotQA, MuSiQue, KILT,
LegalBench-RAG, RAGTruth), as rows with the names of `fields`.

    SQuAD             {title, paragraphs: [{context, qas: [{id, question, answers, is_impossible}]}]}
    - of the hub      {id, title, context, question, answers: {text, answer_start}}
    HotpotQA, 2Wiki   {question, answer, supporting_facts: [[title, number]], context: [[title, sentences]]}
    MuSiQue           {question, answer, paragraphs: [{title, paragraph_text, is_supporting}]}
    KILT              {id, input, output: [{answer, provenance: [{wikipedia_id, title}]}]}
    LegalBench-RAG    {query, snippets: [{file_path, span: [start, end], answer}]}
    RAGTruth          {source_id, task_type, source_info: {question, passages}}

Paragraphs that a record holds become documents. Other public sets differ by their names alone, see
`ragbench.testsets.fields`.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ragbench.errors import DataError
from ragbench.testsets.fields import PASSAGES, QUESTIONS
from ragbench.types import Document

NO_QUESTION = (
    f"a field {', '.join(QUESTIONS[:4])} with the question's text; rename the field that holds it, "
    "or join the questions by their id"
)
Rows = list[dict[str, Any]]
Documents = dict[str, Document]


def expanded_row(row: Mapping[str, Any]) -> tuple[Rows, Documents]:
    """Return the questions in a record of a public test set (SQuAD, HotpotQA, ...) as rows, and its
    documents by their ids. Any other record is the only row, without documents.

    >>> rows, documents = expanded_row({"title": "Rail", "paragraphs": [{"context": "It opened in 1881.",
    ...     "qas": [{"id": "q1", "question": "When?", "answers": [{"text": "1881", "answer_start": 13}]}]}]})
    >>> rows[0]["answers"], rows[0]["evidence"], list(documents)
    (['1881'], [{'doc_id': 'Rail/1', 'start': 13, 'end': 17, 'quote': '1881'}], ['Rail/1'])

    Raises:
        DataError: a record has the fields of such a test set, and values of another form in them.
    """
    for name, (fields, is_form, expand) in _FORMS.items():
        if not fields <= row.keys() or not is_form(row):
            continue
        documents: Documents = {}  # which `expand` fills
        try:
            rows = list(expand(row, documents))
        except (LookupError, TypeError, ValueError, AttributeError) as exc:
            raise DataError(
                f"a record with {', '.join(sorted(fields))} is not as {name} has it "
                f"({type(exc).__name__}: {exc}); download the file again, or save its questions as "
                "a table question, answer, source"
            ) from exc
        return rows, documents
    return [dict(row)], {}


def refuse_foreign(row: Mapping[str, Any]) -> None:
    """Refuse a record that is only a part of a test set, such as judgements without their questions.

    The DataError advises what to do with it. A record with a question is never refused, nor is one of
    a form that is not in `_PARTS`.

    >>> refuse_foreign({"qid": "1", "nuggets": []})
    Traceback (most recent call last):
    ragbench.errors.DataError: these are nuggets without their topics; ...
    """
    names = {str(name).casefold() for name in row}
    # it has a question, or passages to ask about
    if not names.isdisjoint((*QUESTIONS, "text", "inputs", "vars", *PASSAGES)):
        return
    for fields, advice in _PARTS.items():
        if {*fields.split()} <= names:
            raise DataError(advice)


_PARTS = {
    "qid nuggets": "these are nuggets without their topics; add the topic's text to each line as "
    "'query', joined by 'qid'",
    "source_id response labels": "these are RAGTruth's responses, of several models to one source; "
    "load source_info.jsonl as the test set, and write one model's responses to a file with 'query' "
    "and 'answer' as the system",
    "conversation": "these are conversations of messages; write a line for each question, with "
    "'query', and 'response' and 'context' to be scored",
    "query-id corpus-id score": "these are BEIR's judgements, not questions; name the folder with "
    "corpus.jsonl, queries.jsonl and qrels/, or score a run with `ragbench score QRELS RUN`",
    "query_id doc_id relevance": "these are judgements, not questions; score a run with `ragbench "
    "score QRELS RUN`",
    "qid docno label": "these are judgements, not questions; score a run with `ragbench score QRELS "
    "RUN`",
}


def refuse_trec(path: Path) -> None:
    """Raise a DataError where a file has the columns of TREC's judgements, run or topics in XML."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            line = next((line for line in file if line.strip()), "")
    except OSError:
        return
    columns = line.split()
    # judgements: question, 0, document, grade
    if len(columns) == 4 and columns[1] in ("0", "Q0") and columns[3].lstrip("+-").isdecimal():
        raise DataError(
            f"{path} holds TREC judgements, not questions; `ragbench score {path} RUN` scores a run "
            "by them"
        )
    # a run: question, Q0, document, rank, score, name of the system
    if len(columns) == 6 and columns[1] == "Q0":
        raise DataError(
            f"{path} is a TREC run, not a test set; `ragbench score QRELS {path}` scores it"
        )
    if line.lstrip().lower().startswith(("<top", "<?xml")):
        raise DataError(
            f"{path} holds TREC topics in XML; write a line `number<tab>question` for each into a "
            ".tsv file"
        )


def _squad(article: Mapping[str, Any], documents: Documents) -> Iterator[dict[str, Any]]:
    """Yield the records of the questions about an article of SQuAD; add its paragraphs to `documents`."""
    title = str(article.get("title") or "paragraph")
    for number, paragraph in enumerate(article["paragraphs"], 1):
        document = Document(f"{title}/{number}", paragraph["context"])
        documents[document.doc_id] = document
        for question in paragraph["qas"]:
            yield _squad_question(question, document, question.get("answers") or [])


def _squad_row(row: Mapping[str, Any], documents: Documents) -> Iterator[dict[str, Any]]:
    """Yield the record of a question of SQuAD from a row of the Hugging Face hub; add its paragraph to
    `documents`.

    A row is one question with its paragraph and all its answers: {"text": [...], "answer_start": [...]}.
    """
    context = row["context"]
    title = str(row.get("title") or "paragraph")
    # the digest gives all rows of a paragraph the same id
    document = Document(f"{title}/{_digest(context)}", context)
    documents[document.doc_id] = document
    texts, starts = row["answers"]["text"], row["answers"]["answer_start"]
    answers = [
        {"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)
    ]
    yield _squad_question(row, document, answers)


def _digest(text: str) -> int:
    """Return a number made from a text, by which paragraphs of one title are told apart."""
    from zlib import crc32

    return crc32(text.encode("utf-8", "replace"))


def _squad_question(
    question: Mapping[str, Any], document: Document, answers: list[Any]
) -> dict[str, Any]:
    """Return the record of a question of SQuAD. The places of its answers in the paragraph are the
    evidence.

    A question without an answer gets the expected outcome "no_results".

    Args:
        question: its fields "id" and "question" are used.
        document: the paragraph.
        answers: objects with the "text" and its place, "answer_start".
    """
    row: dict[str, Any] = {"query_id": question["id"], "question": question["question"]}
    if question.get("is_impossible") or not answers:
        return {**row, "expected_outcome": "no_results"}
    evidence = []
    for answer in answers:
        piece = _piece(document.doc_id, answer["answer_start"], answer["text"])
        if piece not in evidence:  # several people gave the same answer
            evidence.append(piece)
    texts = list(dict.fromkeys(answer["text"] for answer in answers))
    return {**row, "answers": texts, "relevant": [document.doc_id], "evidence": evidence}


def _piece(doc_id: str, start: int, text: str) -> dict[str, Any]:
    """Return a piece of evidence: a text that begins at a character of a document."""
    return {"doc_id": doc_id, "start": start, "end": start + len(text), "quote": text}


def _hotpot(row: Mapping[str, Any], documents: Documents) -> Iterator[dict[str, Any]]:
    """Yield the record of a question of HotpotQA, whose supporting sentences are the evidence; add its
    paragraphs to `documents`, by their title.
    """
    context = row["context"]
    facts = row["supporting_facts"]
    if isinstance(context, Mapping):  # columns, as on the Hugging Face hub
        context = list(zip(context["title"], context["sentences"], strict=True))
        facts = list(zip(facts["title"], facts["sent_id"], strict=True))
    sentences_of = dict(context)  # title -> sentences of the paragraph
    for title, sentences in sentences_of.items():
        documents[title] = Document(title, "".join(sentences))
    evidence = []
    for title, number in facts:  # number: of the sentence in its paragraph, from 0
        sentences = sentences_of.get(title, [])
        # HotpotQA has a few facts with the number of a sentence that is not there
        if number < len(sentences) and sentences[number].strip():
            start = len("".join(sentences[:number]))
            evidence.append(_piece(title, start, sentences[number]))
    titles = list(dict.fromkeys(title for title, _ in facts))
    rest = {name: row[name] for name in ("_id", "id", "question", "answer", "type") if name in row}
    yield {**rest, "relevant": titles, "evidence": evidence}


def _musique(row: Mapping[str, Any], documents: Documents) -> Iterator[dict[str, Any]]:
    """Yield the record of a question of MuSiQue, with its supporting paragraphs as relevant documents;
    add its paragraphs to `documents`.

    An unanswerable question has an answer in the file; the record leaves it out.
    """
    relevant = []
    for paragraph in row["paragraphs"]:
        text = paragraph["paragraph_text"]
        doc_id = f"{paragraph['title']}/{_digest(text)}"  # several paragraphs have one title
        documents[doc_id] = Document(doc_id, text)
        if paragraph.get("is_supporting"):
            relevant.append(doc_id)
    if row.get("answerable") is False:
        question = {"id": row.get("id"), "question": row["question"]}
        yield {**question, "expected_outcome": "no_results", "relevant": relevant}
        return
    names = ("id", "question", "answer", "answer_aliases")
    yield {**{name: row[name] for name in names if row.get(name)}, "relevant": relevant}


def _kilt(row: Mapping[str, Any], documents: Documents) -> Iterator[dict[str, Any]]:
    """Yield the record of a question of KILT, with all its answers and the Wikipedia pages that hold
    them. The pages are in other files, so none is added to `documents`.
    """
    answers = []
    pages = []
    for output in row["output"]:
        if output.get("answer"):
            answers.append(output["answer"])
        for page in output.get("provenance") or ():
            name = page.get("wikipedia_id") or page.get("title")
            if name:
                pages.append(str(name))
    unique_pages = list(dict.fromkeys(pages))
    fields = {"id": row.get("id"), "input": row["input"]}
    yield {**fields, "answers": answers, "provenance": unique_pages}


def _legalbench(row: Mapping[str, Any], documents: Documents) -> Iterator[dict[str, Any]]:
    """Yield the record of a question of LegalBench-RAG, whose snippets are the evidence. The documents
    are in other files, so none is added to `documents`.
    """
    evidence = []
    for snippet in row["snippets"]:
        start, end = snippet["span"]
        piece = {"doc_id": snippet["file_path"], "start": start, "end": end}
        if snippet.get("answer"):
            piece["quote"] = snippet["answer"]
        evidence.append(piece)
    rest = {name: value for name, value in row.items() if name != "snippets"}
    yield {**rest, "relevant": [piece["doc_id"] for piece in evidence], "evidence": evidence}


def _ragtruth(row: Mapping[str, Any], documents: Documents) -> Iterator[dict[str, Any]]:
    """Yield the record of a question of RAGTruth, and add its passages to `documents` as one document;
    yield nothing for a source of another task.
    """
    info = row["source_info"]
    if not isinstance(info, Mapping) or "question" not in info:
        return  # a summary, or data to write a text from
    doc_id = str(row["source_id"])
    documents[doc_id] = Document(doc_id, str(info["passages"]))
    yield {"id": doc_id, "question": info["question"], "relevant": [doc_id]}


def _holds_part(field: str, part: str) -> Callable[[Mapping[str, Any]], bool]:
    """Return a function of a record: True if its field is an object with this part, or a list of such
    objects.
    """

    def is_form(row: Mapping[str, Any]) -> bool:
        value = row[field]
        entry = value[0] if isinstance(value, list) and value else value
        return isinstance(entry, Mapping) and part in entry

    return is_form


_Expand = Callable[[Mapping[str, Any], Documents], Iterator[dict[str, Any]]]
# name -> (fields that a record must have, a further test of it, what makes records of questions of it)
_FORMS: Mapping[str, tuple[set[str], Callable[[Mapping[str, Any]], bool], _Expand]] = {
    "SQuAD": ({"paragraphs"}, _holds_part("paragraphs", "qas"), _squad),
    "SQuAD on the hub": (
        {"question", "context", "answers"},
        _holds_part("answers", "answer_start"),
        _squad_row,
    ),
    "HotpotQA": ({"question", "context", "supporting_facts"}, lambda row: True, _hotpot),
    "MuSiQue": ({"question", "paragraphs"}, _holds_part("paragraphs", "paragraph_text"), _musique),
    "KILT": (
        {"input", "output"},
        lambda row: (
            _holds_part("output", "answer")(row) or _holds_part("output", "provenance")(row)
        ),
        _kilt,
    ),
    "LegalBench-RAG": ({"query", "snippets"}, _holds_part("snippets", "span"), _legalbench),
    "RAGTruth": ({"source_info", "task_type"}, lambda row: True, _ragtruth),
}
