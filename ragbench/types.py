"""The records and protocols that cross a module border (Case, Answer, Chunk, ...), in the field's
own words; when an answer has failed, was attempted or abstained.

Data flows one way: dataset -> chunks -> index -> retrieval run -> answers -> judgements -> scores.
All records are frozen; nothing in ragbench changes an argument.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from ragbench.errors import ConfigError, DataError, FailureKind, check_known, plural
from ragbench.groups import evenly
from ragbench.hints.attributes import Suggesting, made_by, refusing_operators, suggesting
from ragbench.hints.record_values import check_unpacking, explaining_misuse, explaining_values
from ragbench.plain_records import (
    DOC_ID_FIELDS,
    QUERY_ID_FIELDS,
    QUESTION_FIELDS,
    REFERENCE_FIELDS,
    TEXT_FIELDS,
    field_of,
    metadata_of,
    qrels_of_corpus,
    read_qrels,
    read_records,
    warn_of_absent_documents,
)

if TYPE_CHECKING:
    import pandas as pd

    from ragbench.array_types import FloatArray as FloatArray

__all__ = [
    "LLM",
    "Answer",
    "Case",
    "Chunk",
    "Completion",
    "Dataset",
    "DatasetSource",
    "Document",
    "Embedder",
    "Judgement",
    "Passage",
    "Qrels",
    "Retriever",
    "Run",
    "SafetySample",
    "Span",
    "System",
]

Qrels = dict[str, dict[str, int]]
"""query_id -> doc_id -> relevance grade; 1 and above is relevant."""

Run = dict[str, dict[str, float]]
"""query_id -> doc_id or chunk_id -> score; higher is better."""


@suggesting(
    content="document.text",
    id="document.doc_id",
)
@dataclass(frozen=True, slots=True)
class Document(metaclass=Suggesting):
    """A document of the corpus."""

    doc_id: str
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def full_text(self) -> str:
        """Return title and text as one string. Every offset in ragbench points into this.

        >>> Document("d1", "Body.", title="Head").full_text
        'Head\\n\\nBody.'
        """
        return f"{self.title}\n\n{self.text}" if self.title else self.text


@suggesting()
@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Gold evidence: the characters `start` (inclusive) to `end` (exclusive) of a document's
    `full_text`.
    """

    doc_id: str
    start: int
    end: int


GUARDRAIL_BLOCKED = "guardrail_blocked"
"""The flag of an answer that a guardrail stopped; its text, if any, is the guardrail's."""

RETRIEVAL_ONLY = "retrieval_only"
"""The flag of an answer without a text on purpose: the system finds passages and writes nothing."""

TURN_MARK = "<::>"
"""The separator between the name of a conversation and the number of a turn in the id of a question."""


LATENCY_STAGES = ("guardrail_input", "retrieve", "generate", "guardrail_output", "total")
"""The stages that a question can have a latency budget for; "search" is another name of "retrieve"."""

LATENCY_FIGURES = ("p50", "p95", "p99", "mean")
"""Latency budgets of all questions together: a percentile, or the mean, of the total."""


LATENCY_BUDGETS = (*LATENCY_STAGES, "search", *LATENCY_FIGURES)
"""All names of latency budgets."""


_ASKING = ("?", "？", "؟")  # the ends of questions


@suggesting(
    question="case.text",
    query="case.text",
    id="case.query_id",
    answer="case.reference_answer",
    reference="case.reference_answer",
    **dict.fromkeys(["relevant_docs", "relevant", "qrels"], "dataset.qrels[case.query_id]"),
    **dict.fromkeys(["contexts", "context", "passages"], "case.evidence, spans of dataset.corpus"),
)
@dataclass(frozen=True, slots=True)
class Case(metaclass=Suggesting):
    """A question with the labels of its right answer; every label is optional.

    `gold_facts` holds one tuple per fact: the fact first, then its aliases, any of which counts.
    `expected_outcome` is one of "success", "no_results", "uncertain", "blocked".
    `expected_sections` are (doc_id, heading) whose text is evidence, before the corpus is known.
    `relevant_chunks` (chunk_id -> grade) and `expected_chunks` (those that should reach the
    context) use the ids of the system under test. `latency_budget_ms` is stage (`LATENCY_STAGES`)
    -> milliseconds; "p50", "p95", "p99" and "mean" are budgets of that percentile, or the mean, of
    the total over all questions with the same budget. `turns` are the earlier questions of a
    conversation with their answers ("" where not known), the oldest first; the ids of its questions
    agree up to "<::>", as in "rail<::>2".
    """

    query_id: str
    text: str
    category: str = ""
    query_type: str = ""
    reference_answer: str | None = None
    evidence: tuple[Span, ...] = ()
    gold_facts: tuple[tuple[str, ...], ...] = ()
    required_keywords: tuple[str, ...] = ()
    expected_claims: tuple[str, ...] = ()
    forbidden_claims: tuple[str, ...] = ()
    expected_citations: tuple[str, ...] = ()
    expected_outcome: str | None = None
    expected_sections: tuple[tuple[str, str], ...] = ()
    expected_chunks: tuple[str, ...] = ()
    relevant_chunks: Mapping[str, int] = field(default_factory=dict)
    required_flags: tuple[str, ...] = ()
    forbidden_flags: tuple[str, ...] = ()
    min_citations: int | None = None
    latency_budget_ms: Mapping[str, float] = field(default_factory=dict)
    user_roles: tuple[str, ...] = ()
    turns: tuple[tuple[str, str], ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def history(self) -> tuple[Mapping[str, str], ...]:
        """Return the earlier turns as messages, the oldest first; a turn may have no answer.

        >>> Case("rail<::>2", "When?", turns=(("Who built it?", "Brunel."),)).history[1]
        {'role': 'assistant', 'content': 'Brunel.'}
        """
        return tuple(
            {"role": role, "content": text}
            for turn in self.turns
            for role, text in zip(("user", "assistant"), turn, strict=True)
            if text
        )

    def __post_init__(self) -> None:
        """Raise ConfigError if a question was given as the id, as in `Case(question, answer)`.

        The id is taken for a question if it has several words and ends like one, while the text neither
        ends like a question nor contains the id.
        """
        query_id, text = str(self.query_id).strip(), str(self.text).strip()
        looks_like_question = len(query_id.split()) > 1 and query_id.endswith(_ASKING)
        if looks_like_question and query_id not in text and not text.endswith(_ASKING):
            raise ConfigError(
                f"the id of a case is {self.query_id!r}, and its text {self.text!r:.80}; write "
                f"rb.Case('q1', {self.query_id!r}, reference_answer=...)"
            )

    @property
    def answerable(self) -> bool:
        """Return True if an answer is expected, and not an abstention ("no_results" or "blocked").

        >>> Case("q1", "?").answerable, Case("q2", "?", expected_outcome="no_results").answerable
        (True, False)
        """
        return self.expected_outcome not in {"no_results", "blocked"}

    @property
    def vital_facts(self) -> tuple[tuple[str, ...], ...]:
        """Return the gold facts that an answer must state: those that the metadata `okay_facts` does
        not name (vital and okay nuggets as in TREC, Pradeep et al. 2024).

        >>> Case("q", "?", gold_facts=(("1889",), ("May", "spring")), metadata={"okay_facts": ["May"]}).vital_facts
        (('1889',),)
        """
        return tuple(
            fact for fact in self.gold_facts if fact[0] not in self.metadata.get("okay_facts", ())
        )

    @property
    def alternatives(self) -> tuple[tuple[str, ...], ...]:
        """Return the groups of documents of which one is enough, which the metadata `alternatives`
        lists; groups that share a document are left out, as no ranking could be scored by them.

        >>> Case("q", "?", metadata={"alternatives": [["7", "8"], ["9", "1"], ["1", "2"]]}).alternatives
        (('7', '8'),)
        """
        listed = self.metadata.get("alternatives", ())
        if not isinstance(listed, list | tuple):
            return ()
        groups = [tuple(dict.fromkeys(map(str, g))) for g in listed if isinstance(g, list | tuple)]
        counts = Counter(doc_id for group in groups for doc_id in group)
        return tuple(group for group in groups if all(counts[doc_id] == 1 for doc_id in group))

    def first_alternatives(self, doc_ids: Iterable[str]) -> set[str]:
        """Return documents with the first document of its group in place of each alternative.

        >>> sorted(Case("q", "?", metadata={"alternatives": [["7", "8"]]}).first_alternatives(["8", "3"]))
        ['3', '7']
        """
        first_of = {doc_id: group[0] for group in self.alternatives for doc_id in group}
        return {first_of.get(doc_id, doc_id) for doc_id in doc_ids}


@suggesting()
@dataclass(frozen=True, slots=True)
class SafetySample:
    """A text whose harm a person has labelled: an input to a system (an attack or not), or an
    output of one.

    `category` is the kind of attack or leak, such as "instruction_override" or "email"; `source` is
    where the text was taken from; `contexts` are the texts that a system had when it wrote an
    output.
    """

    sample_id: str
    text: str
    harmful: bool
    category: str = ""
    source: str = ""
    contexts: tuple[str, ...] = ()


@suggesting()
@dataclass(frozen=True, slots=True)
class DatasetSource:
    """The arguments of `load_dataset`, with which the same dataset can be loaded again; paths are
    absolute.
    """

    name: str
    split: str = "test"
    corpus: str = ""


@suggesting(
    "dataset.to_frame()",
    "rb.Dataset.from_dicts(corpus, queries, qrels), or rb.load_dataset(name or path); rb.evaluate(rows, system) "
    "takes rows of questions as they are",
    **dict.fromkeys(["questions", "goldens"], "dataset.cases, or dataset.queries for their texts"),
    filter="dataset.select(query_ids)",
    df="dataset.to_frame()",
    ids="list(dataset.queries)",
    texts="dataset.queries, {id: text}",
    **dict.fromkeys(["shape", "size", "n"], "len(dataset)"),
    **dict.fromkeys(
        ["stats", "info", "summary"], "print(dataset), or dataset.to_frame().describe()"
    ),
    **dict.fromkeys(["get_document", "document"], "dataset.corpus[doc_id]"),
    answers="{case.query_id: case.reference_answer for case in dataset}",
    save="rb.testsets.save_dataset(dataset, folder)",
    evaluate="rb.evaluate(dataset, system)",
    shuffle="dataset.sample(size, seed)",
    **dict.fromkeys(["n_docs", "n_documents"], "len(dataset.corpus)"),
    **dict.fromkeys(["n_questions", "n_queries"], "len(dataset)"),
    documents="dataset.corpus",
    labels="dataset.qrels",
    **dict.fromkeys(["relevance", "relevant_docs", "relevant"], "dataset.qrels[query_id]"),
    **dict.fromkeys(["get", "get_case", "get_query", "get_question"], "dataset[query_id]"),
    **dict.fromkeys(["validate", "check"], "the command `ragbench testset validate`"),
    train_test_split="dataset.sample(n), or dataset.select(query_ids)",
    features="list(dataset.to_frame())",
    **dict.fromkeys(["map", "apply"], "a loop over dataset.cases"),
    **dict.fromkeys(
        ["add", "append"], "dataclasses.replace(dataset, cases=[*dataset.cases, case])"
    ),
    from_parquet="rb.Dataset.from_frames(corpus, queries, qrels)",
    **dict.fromkeys(
        "from_list from_records from_rows".split(),
        "rb.Dataset.from_dicts({'d1': text}, {'q1': question}, {'q1': {'d1': 1}}) of documents, questions and "
        "grades; or rb.evaluate(rows, system), of dicts with questions and references",
    ),
    **dict.fromkeys(
        "from_pandas from_df from_dataframe from_frame from_dataset from_ragas".split(),
        "rb.evaluate(rows, system), of dicts or a DataFrame of questions and references; for a search in documents "
        "rows.to_json('tests.jsonl', orient='records', lines=True) and rb.load_dataset('tests.jsonl', corpus=folder), "
        "or rb.Dataset.from_dicts(corpus, queries, qrels)",
    ),
    **dict.fromkeys(
        ["from_csv", "from_json", "from_file", "load", "from_hf", "from_beir", "read_csv"],
        "rb.load_dataset(path or name)",
    ),
)
@refusing_operators(
    "dataset.select(query_ids)", "dataset.select([*first.queries, *second.queries])"
)
@explaining_values(
    "dataset", split="dataset.sample(n), or dataset.select(query_ids), for a part of it"
)
@dataclass(frozen=True, eq=False)
class Dataset(metaclass=Suggesting):
    """A corpus, the questions of one split, and the documents that are relevant to them.

    `qrels` may judge documents outside the corpus: they still count in the ideal ranking, as in
    trec_eval. The corpus of a test set for a system that keeps its own documents is empty. `source`
    names its origin; None for a dataset that was made in code.
    """

    name: str
    split: str
    corpus: Mapping[str, Document]
    cases: Sequence[Case]
    qrels: Qrels
    safety_inputs: Sequence[SafetySample] = ()
    safety_outputs: Sequence[SafetySample] = ()
    source: DatasetSource | None = None

    def __post_init__(self) -> None:
        for name in ("corpus", "cases", "qrels"):
            value = explaining_misuse(getattr(self, name), f"dataset.{name}")
            object.__setattr__(self, name, value)

    @classmethod
    def from_dicts(
        cls,
        corpus: Any,
        queries: Any,
        qrels: Any = (),
        *,
        answers: Mapping[str, str] | None = None,
        name: str = "dataset",
        split: str = "test",
    ) -> Self:
        """Return a dataset of plain data, as `beir`, `ir_datasets` and lists of records have it.

        Args:
            corpus: doc_id -> text, or -> {"title": ..., "text": ...}, or `Document`; or a list of
                texts or records.
            queries: query_id -> text, or `Case`; or a list of texts or records.
            qrels: query_id -> doc_id -> grade, or query_id -> relevant doc_ids; or records with
                query_id, doc_id and relevance. A document without a judgement is not relevant. One
                that is not in the corpus stays, with a DataWarning.
            answers: query_id -> reference answer.
            name: of the dataset.
            split: of the dataset.

        Texts in a list have their numbers, from "0", as ids. Whole numbers as ids become texts.

        >>> data = Dataset.from_dicts({"d1": "Cats nap."}, {"q1": "Who naps?"}, {"q1": {"d1": 1}})
        >>> data, data.qrels
        (Dataset('dataset', 'test', 1 documents, 1 queries), {'q1': {'d1': 1}})

        Raises:
            DataError: something has another form, or a judgement is of a question that is not among
                the queries.
        """
        documents = as_documents(corpus)
        cases = _cases(queries)
        judged = read_qrels(qrels)
        query_ids = {case.query_id for case in cases}
        for query_id in (*judged, *(answers or ())):
            if query_id not in query_ids:
                raise DataError(
                    f"{query_id!r} is not among the {len(query_ids)} queries, whose ids "
                    f"are {', '.join(map(repr, sorted(query_ids)[:3]))}"
                )
        if answers:
            cases = [
                replace(case, reference_answer=answers.get(case.query_id, case.reference_answer))
                for case in cases
            ]
        grades = qrels_of_corpus(judged, documents)
        if documents:
            warn_of_absent_documents(f"dataset {name!r}", grades, documents)
        return cls(name, split, documents, tuple(cases), grades)

    @classmethod
    def from_frames(
        cls,
        corpus: pd.DataFrame,
        queries: pd.DataFrame,
        qrels: pd.DataFrame,
    ) -> Self:
        """Return a dataset of data frames: doc_id, text, maybe title; query_id, text; query_id, doc_id,
        relevance.

        The names of columns that `beir`, `ir_datasets` and `ir_measures` use are known too; further
        columns of corpus and queries are metadata, "reference_answer" is the reference answer.

        >>> import pandas as pd
        >>> corpus = pd.DataFrame({"doc_id": [1, 2], "text": ["Cats nap.", "Dogs bark."]})
        >>> queries = pd.DataFrame({"query_id": ["q1"], "text": ["Who naps?"]})
        >>> Dataset.from_frames(corpus, queries, pd.DataFrame({"qid": ["q1"], "docno": [1], "rel": [1]})).qrels
        {'q1': {'1': 1}}

        Raises:
            DataError: a column is missing, or a value is wrong.
        """
        return cls.from_dicts(corpus, queries, qrels)

    @property
    def queries(self) -> dict[str, str]:
        """Return query_id -> text, in the order of `cases`."""
        texts = {case.query_id: case.text for case in self.cases}
        return explaining_misuse(texts, "dataset.queries")

    @property
    def case_of(self) -> dict[str, Case]:
        """Return query_id -> case, in the order of `cases`."""
        return explaining_misuse({case.query_id: case for case in self.cases}, "dataset.case_of")

    @cached_property
    def fingerprint(self) -> str:
        """Return the SHA-256 (64 hex digits) of everything that can change a number; name and
        source are not part of it.

        Labels that a case does not have are left out, so that a new kind of label changes no older
        fingerprint.
        """
        sha = hashlib.sha256()
        for document in self.corpus.values():
            sha.update(json.dumps([document.doc_id, document.title, document.text]).encode())
        for case in self.cases:
            sha.update(json.dumps(_filled_fields(case), sort_keys=True, default=str).encode())
        sha.update(json.dumps(self.qrels, sort_keys=True).encode())
        for sample in (*self.safety_inputs, *self.safety_outputs):
            sha.update(json.dumps(asdict(sample), sort_keys=True).encode())
        return sha.hexdigest()

    @property
    def question_digests(self) -> dict[str, str]:
        """Return query_id -> 12 hex digits of a SHA-256 of the question and its labels.

        Evidence counts by its words and not by its offsets, so that an edit of the document elsewhere
        does not change a digest.
        """
        digests = {}
        for case in self.cases:
            labels = _filled_fields(case)
            labels.pop("evidence", None)
            passages = [
                (span.doc_id, self.corpus[span.doc_id].full_text[span.start : span.end])
                for span in case.evidence
                if span.doc_id in self.corpus
            ]
            content = [labels, passages, self.qrels.get(case.query_id, {})]
            text = json.dumps(content, sort_keys=True, default=str)
            digests[case.query_id] = hashlib.sha256(text.encode()).hexdigest()[:12]
        return digests

    @property
    def document_digests(self) -> dict[str, str]:
        """Return doc_id -> 12 hex digits of a SHA-256 of the title and the text of each document."""
        digests = {}
        for doc_id, document in self.corpus.items():
            text = json.dumps([document.title, document.text])
            digests[doc_id] = hashlib.sha256(text.encode()).hexdigest()[:12]
        return digests

    @property
    def corpus_digest(self) -> str:
        """Return 12 hex digits of a SHA-256 of the documents: their ids, titles and texts."""
        sha = hashlib.sha256()
        for document in self.corpus.values():
            sha.update(json.dumps([document.doc_id, document.title, document.text]).encode())
        return sha.hexdigest()[:12]

    def __len__(self) -> int:
        return len(self.cases)

    def __iter__(self) -> Iterator[Case]:
        what = f"a dataset of {plural(len(self), 'question')}"
        check_unpacking(what, len(self), "dataset.corpus, dataset.queries and dataset.qrels")
        return iter(self.cases)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per question, with the fields of its case."""
        import pandas as pd

        return pd.DataFrame(list(self.cases))

    to_pandas = to_frame

    def head(self, n: int = 5) -> Dataset:
        """Return the first `n` questions."""
        return self[:n]  # type: ignore[no-any-return]

    def __contains__(self, item: object) -> bool:
        """Return True for the id of a question, and for a case."""
        return any(item in (case.query_id, case) for case in self.cases)

    def __getitem__(self, at: Any) -> Any:
        """Return a case, by its number or its id; or the dataset of several cases, by a slice of numbers
        or a list of ids.

        Raises:
            ConfigError: no question has this id.
        """
        if isinstance(at, str):
            case_of = self.case_of
            check_known("question", case_of, at)
            return case_of[at]
        if isinstance(at, list):
            return self.select(at)
        if isinstance(at, slice):
            return self.select([case.query_id for case in self.cases[at]])
        return self.cases[at]

    def sample(self, size: int, seed: int = 0) -> Dataset:
        """Return up to `size` questions, evenly from all categories, in the order of `cases`.

        Which ones depends on `seed` and their ids alone. The safety samples stay.

        >>> data = Dataset("demo", "test", {}, [Case(f"q{i}", "?", category="ab"[i % 2]) for i in range(100)], {})
        >>> [list(data.sample(4, seed).queries) for seed in (0, 1, 1)]
        [['q7', 'q19', 'q60', 'q86'], ['q5', 'q18', 'q60', 'q81'], ['q5', 'q18', 'q60', 'q81']]
        """
        chosen = evenly(
            self.cases,
            size,
            lambda case: f"{seed or ''}{case.query_id}",
            lambda case: (case.category, case.answerable),
        )
        return self.select([case.query_id for case in chosen])

    def select(self, query_ids: Collection[str]) -> Dataset:
        """Return the same corpus with these questions only, in the order of `cases`."""
        keep = set(query_ids)
        return replace(
            self,
            cases=tuple(case for case in self.cases if case.query_id in keep),
            qrels={query_id: docs for query_id, docs in self.qrels.items() if query_id in keep},
        )

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {self.split!r}, {len(self.corpus)} "
            f"documents, {len(self.cases)} queries)"
        )


Corpus = Mapping[str, Any] | Iterable[Any]
"""Documents: by id, or a list or frame of texts or records; see `Dataset.from_dicts`."""


def as_documents(corpus: Any) -> dict[str, Document]:
    """Return doc_id -> `Document`, from texts, records, a mapping or a frame: see `Dataset.from_dicts`.

    >>> as_documents(["Cats nap."]), as_documents({"d1": {"title": "Cats", "text": "They nap."}})["d1"].full_text
    ({'0': Document(doc_id='0', text='Cats nap.', title='', metadata={})}, 'Cats\\n\\nThey nap.')

    Raises:
        DataError: something has another form.
    """

    def document(doc_id: str, text: str, item: Any) -> Document:
        title = field_of(item, ("title",), "", None)
        metadata = metadata_of(item, DOC_ID_FIELDS, TEXT_FIELDS)
        return Document(doc_id, text, title if isinstance(title, str) else "", metadata)

    return read_records(corpus, "corpus", Document, DOC_ID_FIELDS, TEXT_FIELDS, document)


def _filled_fields(case: Case) -> dict[str, Any]:
    """Return the fields of a case by their names, without those that are empty."""
    return {name: value for name, value in asdict(case).items() if value not in ("", None, (), {})}


def _cases(queries: Any) -> list[Case]:
    """Return the cases that a user's `queries` state: a mapping id -> question, a list of questions, or
    a DataFrame with a row per question.

    A question is a text, a `Case`, or a record or object with fields such as "query_id", "question" and
    "reference_answer". Further fields of a record become the metadata of the case. A question without
    an id in a list or frame has its number as id, from "0".

    Raises:
        DataError: something has another form, or an id is there twice.
    """

    # of an item that is not a `Case`: its id, its text, and the whole item
    def make_case(query_id: str, text: str, item: Any) -> Case:
        answer = field_of(item, REFERENCE_FIELDS, "", None)
        metadata = metadata_of(item, QUERY_ID_FIELDS, QUESTION_FIELDS, REFERENCE_FIELDS)
        reference = answer if isinstance(answer, str) else None
        return Case(query_id, text, reference_answer=reference, metadata=metadata)

    cases = read_records(queries, "queries", Case, QUERY_ID_FIELDS, QUESTION_FIELDS, make_case)
    return list(cases.values())


@suggesting(
    content="chunk.text",
    id="chunk.chunk_id",
    **dict.fromkeys(["metadata", "title", "document"], "dataset.corpus[chunk.doc_id]"),
)
@dataclass(frozen=True, slots=True)
class Chunk(metaclass=Suggesting):
    """A piece of a document: `text == corpus[doc_id].full_text[start:end]`, always.

    ragbench's own ids are "doc_id#start-end", so an id that two chunkings share names the same
    text, and a run made from another chunking is refused by its unknown ids. Other chunks may have
    any unique ids.
    """

    chunk_id: str
    doc_id: str
    start: int
    end: int
    text: str

    @classmethod
    def cut(cls, doc_id: str, text: str, start: int, end: int) -> Self:
        """Return the characters from `start` up to `end` of the whole `text` of a document, under
        ragbench's own id.

        >>> Chunk.cut("rail", "The line opened in 1881.", 4, 8)
        Chunk(chunk_id='rail#4-8', doc_id='rail', start=4, end=8, text='line')
        """
        return cls(f"{doc_id}#{start}-{end}", doc_id, start, end, text[start:end])

    def holds(self, other: Chunk) -> bool:
        """Return True if all characters of another chunk are in this one.

        >>> whole = Chunk.cut("d", "One. Two.", 0, 9)
        >>> part = Chunk.cut("d", "One. Two.", 5, 9)
        >>> whole.holds(part), part.holds(whole)
        (True, False)
        """
        is_same_document = self.doc_id == other.doc_id
        return is_same_document and self.start <= other.start and other.end <= self.end


def chunks_by_id(chunks: Sequence[Chunk]) -> Mapping[str, Chunk]:
    """Return chunk_id -> `Chunk`; for chunks on the disk, a mapping that reads them as needed."""
    return getattr(chunks, "by_id", None) or {chunk.chunk_id: chunk for chunk in chunks}


def chunk_places(chunks: Sequence[Chunk]) -> Mapping[str, int]:
    """Return chunk_id -> its place in `chunks`, as `chunks_by_id`."""
    return getattr(chunks, "places", None) or {c.chunk_id: i for i, c in enumerate(chunks)}


@suggesting()
@dataclass(frozen=True, slots=True)
class Passage(metaclass=Suggesting):
    """A passage that a system retrieved from its own documents; `doc_id` is "" until it is matched to a
    document of the dataset. `sources` are the system's further names for the document: a path, an
    address, the name of a file.
    """

    passage_id: str
    text: str
    doc_id: str = ""
    score: float | None = None
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A search or another call of a tool on the way to an answer: its name, its query or arguments,
    and the ids of the passages that it found, best first.

    The rank of the evidence shows the contribution of each search:

    >>> calls = Call("search", "opening", ("fire",)), Call("search", "railway", ("fire", "rail"))
    >>> relevant = {"rail": 1}
    >>> for call in Answer("q1", "In 1881.", calls=calls).calls:
    ...     call.query, next((n for n, found in enumerate(call.contexts, 1) if found in relevant), None)
    ('opening', None)
    ('railway', 2)
    """

    name: str
    query: str = ""
    contexts: tuple[str, ...] = ()


@suggesting()
@dataclass(frozen=True, slots=True)
class Completion:
    """A reply of a language model.

    `latency_s` is in seconds; `cached` is True for a reply from the reply store. `finish` is "stop",
    "length" (cut at max_tokens) or "refusal". A failed request has an empty text, its kind in
    `failure` and the reason in words in `error`.
    """

    text: str
    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    latency_s: float = 0.0
    cached: bool = False
    finish: str = "stop"
    error: str | None = None
    failure: FailureKind | None = None


@suggesting(
    answer="answer.text",
    response="answer.text",
)
@dataclass(frozen=True, slots=True)
class Answer(metaclass=Suggesting):
    """A system's answer to a question. `contexts` and `citations` are chunk ids, contexts in rank
    order.

    `outcome` is one of "success", "no_results", "uncertain", "blocked" or "failed" (then `failure`
    is its kind, and `error` the reason in words). `latency_ms` holds milliseconds per stage. A
    citation of a number that no context had is kept as "invalid:7". `cut` holds the chunk ids, in
    rank order, that were retrieved but did not fit the context budget. `passages` are the texts
    behind `contexts` of a system with its own documents; a ragbench pipeline has its texts in its
    chunks. `calls` are the searches and calls of tools, in their order, if they are known. Each of
    `notes` names a part of the system's output that could not be read.
    """

    query_id: str
    text: str
    contexts: tuple[str, ...] = ()
    citations: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    outcome: str | None = None
    confidence: float | None = None
    usage: Completion | None = None
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None
    cut: tuple[str, ...] = ()
    passages: tuple[Passage, ...] = ()
    failure: FailureKind | None = None
    calls: tuple[Call, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Return True if there is no answer: the request failed, or the system reports a failure."""
        return self.error is not None or self.outcome == "failed"

    @property
    def passage_of(self) -> dict[str, Passage]:
        """Return passage_id -> passage, in the order of `passages`."""
        return {passage.passage_id: passage for passage in self.passages}

    @property
    def abstained(self) -> bool:
        """Return True if the system withheld an answer on purpose ("no_results" or "blocked", or
        the flag "guardrail_blocked").

        >>> Answer("q1", "Not found.", outcome="no_results").abstained, Answer("q1", "In 1889.").abstained
        (True, False)
        """
        return self.outcome in {"no_results", "blocked"} or GUARDRAIL_BLOCKED in self.flags

    @property
    def attempted(self) -> bool:
        """Return True if the system tried to answer: a text came, neither empty nor an abstention.

        >>> Answer("q1", "In 1889.").attempted, Answer("q1", " ").attempted
        (True, False)
        """
        return not (self.failed or self.abstained) and bool(self.text.strip())


@suggesting(
    score="judgement.value",
    reason="judgement.explanation",
)
@dataclass(frozen=True, slots=True)
class Judgement(metaclass=Suggesting):
    """A verdict on an answer: `value` in [0, 1], or None for an unscored one (unscored is not wrong).

    `state` is "scored", "abstained" (also an empty answer or a refusal), "retrieval_empty",
    "generation_failed", "no_reference", "no_claims", "excluded" (the verdict has no value, such as
    "the reference is wrong"), "judge_failed" or "unreadable". With repeated samples `value` is their
    mean; `samples` holds each, None for an unreadable or failed one, and is empty if no judge was
    asked.

    `unsupported` lists the claims of the answer that a faithfulness judge found in no context, and
    `invented_quotes` the evidence that it quoted and that is in no context. `usage` holds the
    requests (without their texts) of the judgement; a request about several criteria is listed
    once, under the first of them, so that sums over judgements are right.
    """

    query_id: str
    criterion: str
    value: float | None
    explanation: str = ""
    prompt: str = ""
    response: str = ""
    model: str = ""
    state: str = "scored"
    samples: tuple[float | None, ...] = ()
    unsupported: tuple[str, ...] = ()
    usage: tuple[Completion, ...] = ()
    invented_quotes: tuple[str, ...] = ()


@made_by("rb.make_retriever('bm25', chunks)")
@runtime_checkable
class Retriever(Protocol):
    """Something that finds chunks; constructing it is indexing."""

    def search(self, queries: Mapping[str, str], k: int) -> Run:
        """Return for each query the `k` best chunk ids with their scores, best first; fewer if fewer
        match.
        """
        ...


@made_by("rb.retrieval.load_embedder('minilm')")
@runtime_checkable
class Embedder(Protocol):
    """Something that turns texts into vectors."""

    @property
    def name(self) -> str: ...

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return a float32 array (len(texts), dimension), each row of unit length."""
        ...


EmbedderLike = Any
"""An argument of `load_embedder`: a name, an `Embedder`, a function of a list of texts, or a model of
another library (with `encode`, or `embed_documents` and `embed_query`).
"""


@made_by("rb.load_llm('provider:model')")
@runtime_checkable
class LLM(Protocol):
    """A language model, named "provider:model"."""

    @property
    def name(self) -> str: ...

    def generate(
        self,
        prompt: str,
        *,
        system: str | None = None,
        max_tokens: int = 512,
        temperature: float = 0.0,
    ) -> Completion:
        """Return the reply to a prompt, after the instructions in `system`, if any."""
        ...


LLMLike = str | LLM | Callable[[str], Any]
"""What `load_llm` takes: a name, an `LLM`, or a function from a prompt to a text."""


@made_by("rb.load_system(file), or pass a function to rb.evaluate")
@runtime_checkable
class System(Protocol):
    """A whole RAG system under test."""

    @property
    def name(self) -> str: ...

    def answer(self, query_id: str, query: str) -> Answer:
        """Return the answer to a question, with the contexts that it is based on."""
        ...
