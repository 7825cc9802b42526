"""The contexts of answers: tidy scores, and the kind of question that they suit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from ragbench.metrics.chunks import span_scores
from ragbench.metrics.context import (
    context_fact_recall,
    diversity_verdict,
    expected_unique_ratio,
    fact_dispersion,
    ngram_redundancies,
    tfidf_redundancies,
    unique_token_ratio,
    words_in,
)
from ragbench.scoring.answers import context_ids, context_texts, usable_cases
from ragbench.scoring.tidy import tidy, tidy_cases
from ragbench.types import Answer, Chunk, Dataset, chunks_by_id

# Documents of a large corpus, evenly spread, that give the document frequencies of words.
_BACKGROUND = 2_000


def score_context(
    dataset: Dataset, answers: Sequence[Answer], chunks: Sequence[Chunk] = (), *, n: int = 3
) -> pd.DataFrame:
    """Score the context behind each answer: columns query_id, measure, value; by measure, then in the order of cases.

    Formulas and ranges are in `ragbench.metrics.context`; * marks what is better when lower.

    - ngram_redundancy*, tfidf_redundancy* (by the documents of the corpus, at most 2,000 evenly spread ones; where a
      system keeps its own documents, by all the texts that any answer was given), unique_token_ratio.
    - fact_dispersion* and context_fact_recall: where the case has gold facts.
    - context_evidence_recall: the fraction of the characters of the case's evidence that the context's chunks contain.
    - context_recall: the fraction of the case's relevant documents that the context has a text of: R@k of what reached
      the model, after every cut. expected_document: 1 where at least one of them is there, else 0.
    - context_chunk_recall: the fraction of the case's `expected_chunks` that are in the context.
    - diversity_fits: 1 where the diversity suits the question's `query_type`, else 0 (`diversity_verdicts`).

    All but the redundancies, unique_token_ratio, context_recall and expected_document have rows only if some case of
    the dataset has the label. A case is unscored (NaN) without the label, without an answer, or where the answer
    failed; an empty context has a recall of 0 and no other score.

    Args:
        dataset: the cases and their labels.
        answers: at most one per case, in any order.
        chunks: those that the answers' contexts name; not needed for answers that carry their own passages.
        n: length of an n-gram in words.

    >>> from ragbench.types import Answer, Case, Chunk, Dataset
    >>> case = Case("q", "When?", gold_facts=(("1889",), ("Eiffel",)))
    >>> chunks = [Chunk("d#0", "d", 0, 14, "Opened in 1889"), Chunk("d#1", "d", 15, 28, "and in Paris.")]
    >>> dataset = Dataset("mine", "test", {}, [case], {"q": {"d": 1, "e": 1}})
    >>> frame = score_context(dataset, [Answer("q", "In 1889.", contexts=("d#0", "d#1"))], chunks)
    >>> frame.set_index("measure")["value"].drop("tfidf_redundancy").round(3).to_dict()
    ... # doctest: +NORMALIZE_WHITESPACE
    {'ngram_redundancy': 0.0, 'unique_token_ratio': 0.833, 'context_recall': 0.5, 'expected_document': 1.0,
     'fact_dispersion': 1.0, 'context_fact_recall': 0.5}

    Raises:
        DataError: an answer to a question that the dataset lacks, two answers to one question, or a context without
            a text.
    """
    contexts = _contexts(dataset, answers, chunks)
    ids, texts = list(contexts), list(contexts.values())
    cases = {case.query_id: case for case in dataset.cases}
    scores: dict[str, dict[str, float]] = {
        "ngram_redundancy": dict(zip(ids, ngram_redundancies(texts, n=n), strict=True)),
        "tfidf_redundancy": _tfidf(dataset, contexts),
        "unique_token_ratio": {query_id: unique_token_ratio(own) for query_id, own in contexts.items()},
        "context_recall": (recalls := _document_recall(dataset, answers, chunks)),
        "expected_document": {query_id: float(recall > 0) for query_id, recall in recalls.items()},
    }
    if any(case.gold_facts for case in dataset.cases):
        facts = [(query_id, own, cases[query_id].gold_facts) for query_id, own in contexts.items()]
        scores["fact_dispersion"] = {query_id: fact_dispersion(own, gold) for query_id, own, gold in facts}
        scores["context_fact_recall"] = {query_id: context_fact_recall(own, gold) for query_id, own, gold in facts}
    if any(case.evidence for case in dataset.cases):
        scores["context_evidence_recall"] = _evidence_recall(dataset, answers, chunks)
    if any(case.expected_chunks for case in dataset.cases):
        scores["context_chunk_recall"] = {
            case.query_id: len(expected & set(context_ids(answer))) / len(expected)
            for case, answer in usable_cases(dataset, answers)
            if (expected := set(case.expected_chunks))
        }
    if any(case.query_type for case in dataset.cases):
        scores["diversity_fits"] = {
            query_id: float(verdict == "fitting")
            for query_id, redundancy in scores["tfidf_redundancy"].items()
            if (verdict := diversity_verdict(1 - redundancy, cases[query_id].query_type))
        }
    return tidy_cases(dataset.cases, scores)


def diversity_verdicts(dataset: Dataset, answers: Sequence[Answer], chunks: Sequence[Chunk] = ()) -> pd.DataFrame:
    """How diverse each context is, and whether that suits its question: query_id, query_type, diversity, verdict.

    `diversity` is 1 - tfidf_redundancy as in `score_context`, NaN where there is no context; `verdict` is that of
    `ragbench.metrics.context.diversity_verdict`. One row per case that has a usable answer.

    >>> from ragbench.types import Answer, Case, Dataset, Passage
    >>> passages = (Passage("p1", "a red tower"), Passage("p2", "the sea is deep"))
    >>> dataset = Dataset("mine", "test", {}, [Case("q", "How high?", query_type="faq")], {})
    >>> diversity_verdicts(dataset, [Answer("q", "...", passages=passages)])
      query_id query_type  diversity      verdict
    0        q        faq        1.0  too diverse
    """
    contexts = _contexts(dataset, answers, chunks)
    redundancy = _tfidf(dataset, contexts)
    types = {case.query_id: case.query_type for case in dataset.cases}
    rows = [
        (query_id, types[query_id], diversity, diversity_verdict(diversity, types[query_id]))
        for query_id, diversity in ((query_id, 1 - value) for query_id, value in redundancy.items())
    ]
    return pd.DataFrame(rows, columns=["query_id", "query_type", "diversity", "verdict"]).astype({"diversity": float})


def context_ceilings(dataset: Dataset, answers: Sequence[Answer], chunks: Sequence[Chunk] = ()) -> pd.DataFrame:
    """What unique_token_ratio contexts of these lengths reach when nothing repeats: query_id, measure, value.

    In the form of `ceilings`, so that a target beyond it is reported as out of reach and not as missed. It is the usual
    value (`expected_unique_ratio`), not a bound: a context may be somewhat above. Cases without context are left out.

    >>> from ragbench.types import Answer, Case, Dataset, Passage
    >>> answer = Answer("q", "...", passages=(Passage("p", "word " * 1000),))
    >>> context_ceilings(Dataset("mine", "test", {}, [Case("q", "?")], {}), [answer]).round(2)
      query_id             measure  value
    0        q  unique_token_ratio   0.54
    """
    lengths = {query_id: words_in(own) for query_id, own in _contexts(dataset, answers, chunks).items()}
    expected = {query_id: expected_unique_ratio(n) for query_id, n in lengths.items() if n}
    return tidy(list(expected), ["unique_token_ratio"], list(expected.values()))


def _contexts(dataset: Dataset, answers: Sequence[Answer], chunks: Sequence[Chunk]) -> dict[str, list[str]]:
    return context_texts([answer for _, answer in usable_cases(dataset, answers)], chunks)


def _tfidf(dataset: Dataset, contexts: Mapping[str, Sequence[str]]) -> dict[str, float]:
    documents = list(dataset.corpus.values())
    spread = documents[:: max(1, -(-len(documents) // _BACKGROUND))]
    background = [document.full_text for document in spread]
    if not background:
        background = list(dict.fromkeys(text for own in contexts.values() for text in own))
    return dict(zip(contexts, tfidf_redundancies(list(contexts.values()), background=background), strict=True))


def _document_recall(dataset: Dataset, answers: Sequence[Answer], chunks: Sequence[Chunk]) -> dict[str, float]:
    by_id = chunks_by_id(chunks)
    recalls: dict[str, float] = {}
    found: dict[str, set[str]] = {}
    for case, answer in usable_cases(dataset, answers):
        own = {passage.passage_id: passage.doc_id for passage in answer.passages}
        found[case.query_id] = {own[i] if i in own else by_id[i].doc_id for i in context_ids(answer)} - {""}
    if not any(found.values()) and any(answer.passages for answer in answers):
        return {}  # passages that were not matched to documents
    for query_id, documents in found.items():
        relevant = {doc_id for doc_id, grade in dataset.qrels.get(query_id, {}).items() if grade > 0}
        if relevant:
            recalls[query_id] = len(relevant & documents) / len(relevant)
    return recalls


def _evidence_recall(dataset: Dataset, answers: Sequence[Answer], chunks: Sequence[Chunk]) -> dict[str, float]:
    chunk_of = chunks_by_id(chunks)
    recalls: dict[str, float] = {}
    for case, answer in usable_cases(dataset, answers):
        ids = context_ids(answer)
        held = [chunk_of[i] for i in ids if i in chunk_of]
        if not case.evidence or (ids and not held):
            continue  # passages of other systems have no offsets in the documents unless they were matched to chunks
        recalls[case.query_id] = span_scores(held, case.evidence, ())["recall"]
    return recalls
