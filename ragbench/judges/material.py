"""The material for the judgement of an answer: the question, the answer, and the texts to compare them with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragbench.errors import DataError
from ragbench.types import Answer, Chunk, Dataset, Passage, chunks_by_id


@dataclass(frozen=True, slots=True)
class Material:
    """The material for the judgement of one answer.

    `reference` is None for a question without a reference answer. `documents` are the texts of the
    chunks `chunk_ids`, in the same order. `history` are the messages before the question, the oldest
    first, each with its "role" and "content". `facts` are the facts that the answer should state, each in one
    wording.
    """

    query_id: str
    question: str
    answer: str
    reference: str | None
    documents: tuple[str, ...]
    chunk_ids: tuple[str, ...]
    facts: tuple[str, ...] = ()
    history: tuple[Mapping[str, str], ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the texts that a judge may be shown, each as a whole.

        An object in them that looks like a verdict may be copied into the reply: `read_verdicts`
        does not count such a copy as the judge's verdict.
        """
        turns = [message["content"] for message in self.history]
        return (
            self.question,
            self.answer,
            self.reference or "",
            *self.documents,
            *self.facts,
            *turns,
        )


def materials_of(
    answers: Sequence[Answer], dataset: Dataset, chunks: Sequence[Chunk], *, contexts: bool = True
) -> list[Material]:
    """Return the material for the judgement of each answer, in their order.

    Args:
        answers: the answers to judge.
        dataset: has their questions, with reference answers, facts and conversations.
        chunks: have the texts of their contexts.
        contexts: False: the texts of the answers' contexts are not looked up, and the material has
            no documents.

    Raises:
        DataError: an answer belongs to an unknown question or chunk.
    """
    cases = dataset.case_of
    chunk_of = chunks_by_id(chunks)
    materials = []
    for answer in answers:
        if answer.query_id not in cases:
            raise DataError(
                f"there is an answer to query {answer.query_id!r}, which is not among "
                f"the {len(cases)} of {dataset!r}; pass the dataset that was answered"
            )
        case = cases[answer.query_id]
        # a reference of blanks counts as none
        has_reference = bool((case.reference_answer or "").strip())
        material = Material(
            answer.query_id,
            case.text,
            answer.text,
            reference=case.reference_answer if has_reference else None,
            documents=_context_texts(answer, chunk_of) if contexts else (),
            chunk_ids=answer.contexts if contexts else (),
            # a fact is a tuple of its wordings
            facts=tuple(first_wording for first_wording, *_ in case.vital_facts),
            history=case.history,
        )
        materials.append(material)
    return materials


def _context_texts(answer: Answer, chunk_of: Mapping[str, Chunk]) -> tuple[str, ...]:
    """Return the texts of an answer's contexts: of its own passages if it has any, else of the chunks
    (id -> chunk).

    Raises:
        DataError: a context is not among them.
    """
    source_of: Mapping[str, Passage | Chunk] = answer.passage_of or chunk_of
    texts = []
    for chunk_id in answer.contexts:
        if chunk_id not in source_of:
            raise DataError(
                f"the answer to query {answer.query_id!r} has the context {chunk_id!r}, which "
                f"is not among the {len(source_of)} chunks; was it answered from another chunking? "
                "Pass the chunks that it was answered from"
            )
        texts.append(source_of[chunk_id].text)
    return tuple(texts)
