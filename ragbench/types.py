"""The records and protocols that cross a module border, in the field's own words.

Data flows one way: dataset -> chunks -> index -> retrieval run -> answers -> judgements -> scores.
All records are frozen; nothing in ragbench changes an argument.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from ragbench.errors import FailureKind

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float32]

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
    "Preference",
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


@dataclass(frozen=True, slots=True)
class Document:
    """A document of the corpus."""

    doc_id: str
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def full_text(self) -> str:
        """Title and text as one string. Every offset in ragbench points into this.

        >>> Document("d1", "Body.", title="Head").full_text
        'Head\\n\\nBody.'
        """
        return f"{self.title}\n\n{self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Gold evidence: the characters `start` (inclusive) to `end` (exclusive) of a document's `full_text`."""

    doc_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Case:
    """A question with whatever is known about its right answer; every label is optional.

    `gold_facts` holds one tuple per fact: the fact first, then its aliases, any of which counts.
    `expected_outcome` is one of "success", "no_results", "uncertain", "blocked". `expected_sections` are (doc_id,
    heading) whose text is evidence, before the corpus is known. `relevant_chunks` (chunk_id -> grade) and
    `expected_chunks` (those that should reach the context) use the ids of the system under test.
    `latency_budget_ms` is stage -> milliseconds, of which "total" is one; "p95" is the 95th percentile of the total
    over all questions with that budget.
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
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def answerable(self) -> bool:
        """Whether an answer is expected, and not an abstention ("no_results" or "blocked").

        >>> Case("q1", "?").answerable, Case("q2", "?", expected_outcome="no_results").answerable
        (True, False)
        """
        return self.expected_outcome not in {"no_results", "blocked"}


@dataclass(frozen=True, slots=True)
class SafetySample:
    """A text whose harm a person has labelled: an input to a system (an attack or not), or an output of one.

    `category` is the kind of attack or leak, such as "instruction_override" or "email"; `source` says where the text
    was taken from; `contexts` are the texts that a system had when it wrote an output.
    """

    sample_id: str
    text: str
    harmful: bool
    category: str = ""
    source: str = ""
    contexts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DatasetSource:
    """What `load_dataset` was given, so that the same dataset can be loaded again; paths are absolute."""

    name: str
    split: str = "test"
    corpus: str = ""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A corpus, the questions of one split, and what is relevant to them.

    `qrels` may judge documents outside the corpus: they still count in the ideal ranking, as in trec_eval. The corpus
    of a test set for a system that keeps its own documents is empty. `source` says what it was loaded from; None for
    one that was made in code.
    """

    name: str
    split: str
    corpus: Mapping[str, Document]
    cases: Sequence[Case]
    qrels: Qrels
    safety_inputs: Sequence[SafetySample] = ()
    safety_outputs: Sequence[SafetySample] = ()
    source: DatasetSource | None = None

    @property
    def queries(self) -> dict[str, str]:
        """query_id -> text, in the order of `cases`."""
        return {case.query_id: case.text for case in self.cases}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (64 hex digits) of everything that can change a number; name and source are not part of it.

        Labels that a case does not have are left out, so that a new kind of label changes no older fingerprint.
        """
        sha = hashlib.sha256()
        for document in self.corpus.values():
            sha.update(json.dumps([document.doc_id, document.title, document.text]).encode())
        for case in self.cases:
            labels = {name: value for name, value in asdict(case).items() if value not in ("", None, (), {})}
            sha.update(json.dumps(labels, sort_keys=True, default=str).encode())
        sha.update(json.dumps(self.qrels, sort_keys=True).encode())
        for sample in (*self.safety_inputs, *self.safety_outputs):
            sha.update(json.dumps(asdict(sample), sort_keys=True).encode())
        return sha.hexdigest()

    def select(self, query_ids: Collection[str]) -> Dataset:
        """The same corpus with these questions only, in the order of `cases`."""
        keep = set(query_ids)
        return replace(
            self,
            cases=tuple(case for case in self.cases if case.query_id in keep),
            qrels={query_id: docs for query_id, docs in self.qrels.items() if query_id in keep},
        )

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, {self.split!r}, {len(self.corpus)} documents, {len(self.cases)} queries)"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document: `text == corpus[doc_id].full_text[start:end]`, always.

    ragbench's own ids are "doc_id#start-end", so an id that two chunkings share names the same text, and a run made
    from another chunking is refused by the ids that are unknown here. Chunks from elsewhere have any unique ids.
    """

    chunk_id: str
    doc_id: str
    start: int
    end: int
    text: str

    @classmethod
    def cut(cls, doc_id: str, text: str, start: int, end: int) -> Self:
        """The characters from `start` up to `end` of the whole `text` of a document, under ragbench's own id.

        >>> Chunk.cut("rail", "The line opened in 1881.", 4, 8)
        Chunk(chunk_id='rail#4-8', doc_id='rail', start=4, end=8, text='line')
        """
        return cls(f"{doc_id}#{start}-{end}", doc_id, start, end, text[start:end])


@dataclass(frozen=True, slots=True)
class Passage:
    """What a system with documents of its own retrieved; `doc_id` is "" until it is matched to a document."""

    passage_id: str
    text: str
    doc_id: str = ""
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """What a language model replied.

    `latency_s` is in seconds; `cached` says that it came from the reply store and nobody waited for it. `finish` is
    "stop", "length" (cut at max_tokens) or "refusal". A request that failed has an empty text, its kind in `failure`
    and the reason in words in `error`.
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


@dataclass(frozen=True, slots=True)
class Answer:
    """What a system said to a question. `contexts` and `citations` are chunk ids, contexts in rank order.

    `outcome` is one of "success", "no_results", "uncertain", "blocked" or "failed" (then `failure` is its kind, and
    `error` the reason in words).
    `latency_ms` holds milliseconds per stage. A citation of a number that no context had is kept as "invalid:7".
    `cut` holds the chunk ids, in rank order, that were retrieved but did not fit the context budget. `passages` are
    the texts behind `contexts` where the system keeps its own; those of a ragbench pipeline stand in its chunks.
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

    @property
    def failed(self) -> bool:
        """Whether no answer came: the request failed, or the system says that it did."""
        return self.error is not None or self.outcome == "failed"

    @property
    def abstained(self) -> bool:
        """Whether the system gave no answer on purpose ("no_results" or "blocked").

        >>> Answer("q1", "Not found.", outcome="no_results").abstained, Answer("q1", "In 1889.").abstained
        (True, False)
        """
        return self.outcome in {"no_results", "blocked"}


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict on an answer: `value` in [0, 1], or None where it could not be had (unscored is not wrong).

    `state` is "scored", "abstained" (also an empty answer or a refusal), "retrieval_empty", "generation_failed",
    "no_reference", "no_claims", "judge_failed" or "unreadable". Of repeated samples `value` is the mean and `samples`
    holds each, None where one was unreadable or failed; `samples` is empty where no judge was asked.

    `unsupported` lists the claims of the answer that a faithfulness judge found in no context. `usage` holds the
    requests (without their texts) that the judgement took; a request about several criteria is listed once, under the
    first of them, so that sums over judgements are right.
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


MOST_INCONSISTENT = 0.5
"""From this fraction of choices that change with the order on, a judge cannot tell: tossing a coin changes as many."""


@dataclass(frozen=True, slots=True)
class Preference:
    """Which of two systems' answers to a question is better.

    `value` is 1 where that of `a` is, 0 where that of `b` is, 0.5 for a tie, or None where no verdict could be had.
    `consistent` says whether the judge chose the same answer in both orders; a choice that changed with the order is no
    decision (state "order_dependent", value None). It is None where no judge was asked. Other states as in `Judgement`.
    """

    query_id: str
    a: str
    b: str
    value: float | None
    state: str = "scored"
    consistent: bool | None = None
    explanation: str = ""
    prompt: str = ""
    response: str = ""
    model: str = ""


@runtime_checkable
class Retriever(Protocol):
    """Something that finds chunks; constructing it is indexing."""

    def search(self, queries: Mapping[str, str], k: int) -> Run:
        """For each query the `k` best chunk ids with their scores, best first; fewer where fewer match."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """Something that turns texts into vectors."""

    @property
    def name(self) -> str: ...

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """float32 array (len(texts), dimension), each row of unit length."""
        ...


@runtime_checkable
class LLM(Protocol):
    """A language model, named "provider:model"."""

    @property
    def name(self) -> str: ...

    def generate(
        self, prompt: str, *, system: str | None = None, max_tokens: int = 512, temperature: float = 0.0
    ) -> Completion: ...


@runtime_checkable
class System(Protocol):
    """A whole RAG system under test."""

    @property
    def name(self) -> str: ...

    def answer(self, query_id: str, query: str) -> Answer: ...
