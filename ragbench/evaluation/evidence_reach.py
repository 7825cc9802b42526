"""How far the evidence of a question came: the fraction of it that the documents, the ranking and
the contexts hold, and from which fraction on that is enough.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from ragbench.groups import grouped
from ragbench.metrics.answer_similarity import stated_facts
from ragbench.metrics.spans import evidence_recall
from ragbench.types import Answer, Case, Chunk, Dataset, Span, chunks_by_id

HOLDS = 0.8
"""A list of chunks holds the evidence of a question if it covers at least this fraction of it."""

CALLS_WITH_UNCHANGED_QUESTION = ("last", "question")
"""Names of the calls (`Call.name`) in which a pipeline that rewrites questions searches with the question
as it was asked.
"""


class EvidenceReach(NamedTuple):
    """The fractions of a question's evidence that lists of chunks hold: of its characters, or, where
    only documents are labelled, of the relevant documents.

    Attributes:
        corpus: held by the documents of the dataset.
        ranking: by the first chunks of the ranking, and by the contexts.
        before_cut: by the contexts and the chunks that the budget cut.
        context: by the contexts.
        by_unchanged_question: by the chunks that the question found before it was rewritten; 0 if it
            was not rewritten.
        split: True if a chunk border splits a passage of which the contexts hold a part.
        documents: the number of relevant documents; 0 if the evidence is spans.
        is_exact: True if the contexts are known to hold the evidence that `context` counts. False if
            `context` counts documents of which the contexts hold some chunks, perhaps others than the
            chunk with the evidence.
        allowed: held by the documents that the filter allows.
        stages: name of a step of the search -> held by the chunks after it.
    """

    corpus: float
    ranking: float
    before_cut: float
    context: float
    by_unchanged_question: float
    split: bool = False
    documents: int = 0
    is_exact: bool = True
    allowed: float = 1.0
    stages: Mapping[str, float] = MappingProxyType({})

    def is_enough(self, fraction: float) -> bool:
        """Return True if this fraction of the evidence is enough to answer: `HOLDS` of its characters; of
        documents, one.
        """
        if self.documents:
            return fraction > 0
        return fraction >= HOLDS

    def shown(self, fraction: float) -> str:
        """Return a fraction in words, such as "40% of the evidence"."""
        if not self.documents:
            return f"{fraction:.0%} of the evidence"
        noun = "document" if self.documents == 1 else "documents"
        return f"{round(fraction * self.documents)} of {self.documents} relevant {noun}"


class _ChunkLists(NamedTuple):
    """The ids of chunks or passages that the pipeline had at several points on the way to an answer;
    the fields are explained in `EvidenceReach`.

    `stages` has as many chunks after each step as `before_cut`.
    """

    ranking: tuple[str, ...]
    before_cut: tuple[str, ...]
    context: tuple[str, ...]
    by_unchanged_question: tuple[str, ...]
    stages: Mapping[str, tuple[str, ...]]


class EvidenceMeter:
    """Measures how much of the evidence of each question of a dataset the chunks of a search hold."""

    def __init__(self, dataset: Dataset, chunks: Sequence[Chunk]) -> None:
        self._dataset = dataset
        self._chunk_of = chunks_by_id(chunks)
        self._chunks_of_document = grouped(chunks, lambda chunk: chunk.doc_id)

    def reach(
        self,
        case: Case,
        answer: Answer,
        ranking: Sequence[str],
        stages: Mapping[str, Sequence[str]],
        filtered: Collection[str],
    ) -> EvidenceReach | None:
        """Return how much of the evidence of a question each list of chunks holds; None if no label
        names the evidence.

        Characters of the evidence spans are counted. Relevant documents are counted if there are no
        spans, or if the answer has passages, whose offsets in their documents are not known.

        Args:
            ranking: the first chunk ids of the question's ranking.
            stages: the ranking after each step of the search.
            filtered: relevant documents that the filter keeps from the question.
        """
        # the search, if any, in which a pipeline that rewrites questions used the question as it was asked
        by_unchanged_question: tuple[str, ...] = ()
        for call in answer.calls:
            if call.name in CALLS_WITH_UNCHANGED_QUESTION:
                by_unchanged_question = tuple(call.contexts)
                break
        before_cut = (*answer.contexts, *answer.cut)
        # The same number of chunks after each step: a longer list would hold more for its length alone.
        after_steps = {step: tuple(ids[: len(before_cut)]) for step, ids in stages.items()}
        lists = _ChunkLists(
            ranking=(*ranking, *answer.contexts),
            before_cut=before_cut,
            context=tuple(answer.contexts),
            by_unchanged_question=by_unchanged_question,
            stages=after_steps,
        )
        # Passages are texts of the system's documents, not chunks.
        has_offsets = not answer.passages
        if has_offsets and located_spans(self._dataset, case):
            return self._reach_of_spans(case, lists, filtered)
        return self._reach_of_documents(case, answer, lists, filtered)

    def _reach_of_documents(
        self, case: Case, answer: Answer, lists: _ChunkLists, filtered: Collection[str]
    ) -> EvidenceReach | None:
        """Return the fraction of the relevant documents that each list of chunks reaches; None if no
        document is known to be relevant. One chunk or passage reaches its whole document.

        If documents are alternatives, one of them is enough: `Case.first_alternatives` replaces each by
        the first of its alternatives, so that they count as one.

        Args:
            lists: the chunks of the ranking, of the contexts, and at the stages between them.
            filtered: relevant documents that the filter keeps from the question.
        """
        labelled = {*relevant_documents(self._dataset, case)}
        labelled.update(span.doc_id for span in case.evidence)
        relevant = case.first_alternatives(labelled)
        if not relevant:
            return None

        def fraction(ids: Sequence[str]) -> float:
            documents = self._documents_of(ids, answer)
            return len(case.first_alternatives(documents) & relevant) / len(relevant)

        corpus = self._dataset.corpus
        if not corpus and answer.passages:
            is_in_corpus = True  # assumed: the dataset does not have the documents of this system
        else:  # one relevant document is enough, as in `EvidenceReach.is_enough`
            is_in_corpus = not corpus.keys().isdisjoint(labelled)
        allowed = case.first_alternatives(labelled.difference(filtered))
        return EvidenceReach(
            corpus=float(is_in_corpus),
            ranking=fraction(lists.ranking),
            before_cut=fraction(lists.before_cut),
            context=fraction(lists.context),
            by_unchanged_question=fraction(lists.by_unchanged_question),
            documents=len(relevant),
            is_exact=self._is_exact(case, answer, labelled),
            allowed=len(allowed) / len(relevant),
            stages={step: fraction(ids) for step, ids in lists.stages.items()},
        )

    def _documents_of(self, ids: Sequence[str], answer: Answer) -> set[str]:
        """Return the documents of chunks, and of passages of an answer; unknown ids are left out."""
        passages = answer.passage_of
        documents = set()
        for chunk_id in ids:
            source = passages.get(chunk_id) or self._chunk_of.get(chunk_id)
            if source is not None:
                documents.add(source.doc_id)
        return documents

    def _reach_of_spans(
        self, case: Case, lists: _ChunkLists, filtered: Collection[str]
    ) -> EvidenceReach:
        """Return the fraction of the evidence's characters that each list of chunks covers.

        If several evidence spans have the same text, they count once, by the copy that is covered best.

        Args:
            lists: the chunks of the ranking, of the contexts, and at the stages between them.
            filtered: documents that the filter keeps from the question.
        """
        spans = located_spans(self._dataset, case)
        # text of a passage -> the places that have this text
        copies_of = grouped(spans, lambda span: span_text(self._dataset, span))
        n_characters = sum(map(len, copies_of))

        @cache  # several lists are equal where nothing was cut or reordered
        def fraction(ids: tuple[str, ...]) -> float:
            chunks = self._chunks(ids)
            covered = []  # characters of each passage
            for text, copies in copies_of.items():
                best_recall = max(evidence_recall(chunks, [copy]) for copy in copies)
                covered.append(len(text) * best_recall)
            return sum(covered) / n_characters

        n_allowed = 0  # characters of passages that the filter allows in at least one place
        for text, copies in copies_of.items():
            if not all(copy.doc_id in filtered for copy in copies):
                n_allowed += len(text)
        return EvidenceReach(
            corpus=1.0,
            ranking=fraction(lists.ranking),
            before_cut=fraction(lists.before_cut),
            context=fraction(lists.context),
            by_unchanged_question=fraction(lists.by_unchanged_question),
            split=self._is_split(spans, self._chunks(lists.context)),
            allowed=n_allowed / n_characters,
            stages={step: fraction(ids) for step, ids in lists.stages.items()},
        )

    def _chunks(self, ids: Sequence[str]) -> list[Chunk]:
        """Return the chunks of these ids, each once, without ids of passages."""
        chunks = []
        for chunk_id in dict.fromkeys(ids):
            if chunk_id in self._chunk_of:
                chunks.append(self._chunk_of[chunk_id])
        return chunks

    def _is_split(self, spans: Sequence[Span], contexts: Sequence[Chunk]) -> bool:
        """Return True if the contexts hold a part of a span that no single chunk holds whole."""
        for span in spans:
            chunks = self._chunks_of_document.get(span.doc_id, ())
            is_whole_somewhere = any(
                chunk.start <= span.start and span.end <= chunk.end for chunk in chunks
            )
            if not is_whole_somewhere and evidence_recall(contexts, [span]):
                return True
        return False

    def _is_exact(self, case: Case, answer: Answer, relevant: Collection[str]) -> bool:
        """Return True if the contexts are known to hold the evidence: they hold the whole texts of the
        `relevant` documents, state every gold fact, or quote the evidence.
        """
        contexts = [self._chunk_of[each] for each in answer.contexts if each in self._chunk_of]
        # so that the pieces of a document are joined in its order
        contexts.sort(key=lambda chunk: (chunk.doc_id, chunk.start))
        texts = [chunk.text for chunk in contexts]
        texts += [passage.text for passage in answer.passages]
        joined = _with_single_blanks(" ".join(texts))
        if self._holds_documents(joined, case, relevant):
            return True
        if case.gold_facts and all(stated_facts("\n".join(texts), case.gold_facts)):
            return True
        return self._quotes_evidence(joined, case)

    def _holds_documents(self, joined: str, case: Case, relevant: Collection[str]) -> bool:
        """Return True if a text holds every relevant document, or one of each group of alternatives."""
        corpus = self._dataset.corpus
        held = []
        for doc_id in relevant:
            if doc_id in corpus and _with_single_blanks(corpus[doc_id].full_text) in joined:
                held.append(doc_id)
        return case.first_alternatives(held) == case.first_alternatives(relevant)

    def _quotes_evidence(self, joined: str, case: Case) -> bool:
        """Return True if a text has evidence spans with the fraction `HOLDS` of the evidence's
        characters; False without evidence.
        """
        quotes = [span_text(self._dataset, span) for span in located_spans(self._dataset, case)]
        n_characters = sum(map(len, quotes))
        # characters of the spans that the text has as a whole
        n_quoted = sum(len(quote) for quote in quotes if quote in joined)
        return n_characters > 0 and n_quoted >= HOLDS * n_characters


def located_spans(dataset: Dataset, case: Case) -> list[Span]:
    """Return the evidence spans of a question in documents that the dataset has."""
    return [span for span in case.evidence if span.doc_id in dataset.corpus]


def relevant_documents(dataset: Dataset, case: Case) -> list[str]:
    """Return the ids of the documents with a relevance grade of 1 or more."""
    grades = dataset.qrels.get(case.query_id, {})
    return [doc_id for doc_id, grade in grades.items() if grade >= 1]


def span_text(dataset: Dataset, span: Span) -> str:
    """Return the text of an evidence span, with single blanks between its words."""
    document = dataset.corpus[span.doc_id]
    return _with_single_blanks(document.full_text[span.start : span.end])


def _with_single_blanks(text: str) -> str:
    return " ".join(text.split())
