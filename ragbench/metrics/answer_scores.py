"""Answers compared with the labels of their cases, judged, and scored by measures of a user: tidy scores."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from ragbench.errors import DataError
from ragbench.metrics.answers import gold_fact_coverage, keyword_coverage, semantic_similarity, token_f1
from ragbench.metrics.tidy import tidy_cases
from ragbench.registry import Measure
from ragbench.retrieval.embedders import load_embedder
from ragbench.types import Answer, Case, Chunk, Dataset, Embedder, Judgement, chunks_by_id

ANSWER_MEASURES = ("semantic_similarity", "token_f1", "gold_fact_coverage")
_KEYWORD_MEASURES = ("required_keywords", "contains_all")

# "[2]", "[1][3]" or "[1, 3]" as a word of its own; an index follows a name, as in "d[1]".
_CITATIONS = re.compile(r"\s(?:\[\d{1,4}(?:,\s*\d{1,4})*\])+(?=[\s.,;:!?]|$)")


def score_answers(dataset: Dataset, answers: Sequence[Answer], *, embedder: str | Embedder = "minilm") -> pd.DataFrame:
    """Score answers against the labels of the dataset's cases: columns query_id, measure, value.

    Measures, each in [0, 1], as defined in `ragbench.metrics.answers`: semantic_similarity and token_f1 to the
    reference answer, gold_fact_coverage, and where the dataset asks for keywords at all also required_keywords (the
    fraction of a case's keywords that the answer contains) and contains_all (1 where all do). The numbers of cited
    contexts ("[2]") are not part of the answer. Every case has a row for each measure, by measure, then in the order of
    the cases. Unscored (NaN; counted by `summarise`, left out of its mean) is a case

    - without the label that the measure needs;
    - whose answer is missing or failed (`error` is set, or the outcome is "failed");
    - whose system abstained (outcome "no_results" or "blocked"). Means are therefore means *of the answers given*; read
      them together with `n_scored` and `abstention_table`, since a system that answers only easy questions has high
      ones;
    - that is unanswerable (expected outcome "no_results" or "blocked"): see `abstention_table`.

    Args:
        dataset: its cases hold `reference_answer`, `gold_facts` and `required_keywords`.
        answers: at most one per case, in any order.
        embedder: a name for `load_embedder`, or an embedder; only loaded if there is something to compare.

    >>> from ragbench.types import Answer, Case, Dataset
    >>> case = Case("q1", "When?", reference_answer="It opened in 1889.", gold_facts=(("1889",), ("May", "spring")))
    >>> answer = Answer("q1", "It opened in spring. [1]", contexts=("d#0",))
    >>> scores = score_answers(Dataset("mine", "test", {}, [case], {}), [answer], embedder="wordllama")
    >>> scores.set_index("measure")["value"].drop("semantic_similarity").to_dict()
    {'token_f1': 0.75, 'gold_fact_coverage': 0.5}

    Raises:
        DataError: an answer to a question that the dataset lacks, or two answers to one question.
    """
    answered = answered_cases(dataset, answers)
    words = {query_id: wording(answer) for query_id, (_, answer) in answered.items()}
    references = {q: case.reference_answer or "" for q, (case, _) in answered.items()}
    compared = {q: (words[q], reference) for q, reference in references.items() if reference.strip()}
    rows = {
        q: {"gold_fact_coverage": gold_fact_coverage(words[q], case.gold_facts)} for q, (case, _) in answered.items()
    }
    if compared:
        texts = list(dict.fromkeys(text for pair in compared.values() for text in pair))
        row_of = {text: row for row, text in enumerate(texts)}
        vectors = np.asarray(load_embedder(embedder).encode(texts))  # one batch, each text once
        left, right = (vectors[[row_of[pair[side]] for pair in compared.values()]] for side in (0, 1))
        for (query_id, pair), value in zip(compared.items(), semantic_similarity(left, right).tolist(), strict=True):
            rows[query_id] |= {"semantic_similarity": value, "token_f1": token_f1(*pair)}
    for query_id, (case, _) in answered.items():
        if case.required_keywords:
            coverage = keyword_coverage(words[query_id], case.required_keywords)
            rows[query_id] |= {"required_keywords": coverage, "contains_all": float(coverage == 1)}
    keywords = any(case.required_keywords for case in dataset.cases)
    return tidy_cases(dataset.cases, (*ANSWER_MEASURES, *(_KEYWORD_MEASURES if keywords else ())), rows)


def abstention_table(dataset: Dataset, answers: Sequence[Answer]) -> pd.DataFrame:
    """Counts of answerable and unanswerable questions that were answered, abstained from, or failed.

    Rows "answerable" and "unanswerable" (expected outcome "no_results" or "blocked"), columns "answered", "abstained"
    (outcome "no_results" or "blocked") and "failed" (`error` is set, outcome "failed", or no answer at all). The good
    cells are answerable x answered and unanswerable x abstained; the sum is the number of cases.

    >>> from ragbench.types import Answer, Case, Dataset
    >>> cases = [Case("q1", "?"), Case("q2", "?", expected_outcome="no_results"), Case("q3", "?")]
    >>> answers = [Answer("q1", "Yes."), Answer("q2", "Not found.", outcome="no_results")]
    >>> abstention_table(Dataset("mine", "test", {}, cases, {}), answers)
                  answered  abstained  failed
    answerable           1          0       1
    unanswerable         0          1       0
    """
    by_query = answers_by_query(dataset, answers)
    columns = ["answered", "abstained", "failed"]
    counts = Counter((case.answerable, state_of(by_query.get(case.query_id))) for case in dataset.cases)
    rows = [[counts[answerable, state] for state in columns] for answerable in (True, False)]
    return pd.DataFrame(rows, index=["answerable", "unanswerable"], columns=columns)


def score_judgements(judgements: Sequence[Judgement]) -> pd.DataFrame:
    """Judgements as tidy scores: columns query_id, measure, value; by measure, then in the order of the judgements.

    A measure is the criterion after "llm_", so that judged and computed measures never share a name. Values are in
    [0, 1]; unscored judgements are NaN.

    >>> score_judgements([Judgement("q1", "correctness", 1.0), Judgement("q2", "correctness", None)])
      query_id          measure  value
    0       q1  llm_correctness    1.0
    1       q2  llm_correctness    NaN

    Raises:
        DataError: a query has several judgements of one criterion, or a value is outside [0, 1].
    """
    for judgement in judgements:
        if judgement.value is not None and not 0 <= judgement.value <= 1:
            raise DataError(
                f"query {judgement.query_id!r}: {judgement.criterion} is {judgement.value}; expected a value in "
                "[0, 1], or None"
            )
    rows = [(judgement.query_id, f"llm_{judgement.criterion}", judgement.value) for judgement in judgements]
    if len(pairs := Counter(row[:2] for row in rows)) < len(rows):
        query_id, measure = pairs.most_common(1)[0][0]
        raise DataError(
            f"query {query_id!r} has several judgements of {measure.removeprefix('llm_')}; score the judgements of one "
            "system at a time, and repeated verdicts as one judgement with n_samples"
        )
    measures = list(dict.fromkeys(measure for _, measure, _ in rows))
    rows = [row for measure in measures for row in rows if row[1] == measure]
    return pd.DataFrame(rows, columns=["query_id", "measure", "value"]).astype(
        {"query_id": "str", "measure": "str", "value": float}
    )


def score_ablations(
    dataset: Dataset,
    ablations: Mapping[str, Sequence[Answer]],
    judgements: Mapping[str, Sequence[Judgement]] | None = None,
    *,
    embedder: str | Embedder = "minilm",
) -> pd.DataFrame:
    """Tidy scores of each ablation, named "<ablation>_<measure>": query_id, measure, value.

    The measures are those of `score_answers` and, of `judgements` (name -> judgements), those of `score_judgements`.
    Unlike there, an abstention on an answerable question is 0, so that all ablations are compared on the same
    questions. Unscored (NaN) are failed requests, unreadable verdicts, questions without the label, and those that were
    left out of an ablation.

    Args:
        ablations: name -> its answers; `ragbench.generation.answer_ablations` gives "oracle", "best_chunks" and
            "empty", and the answers of the configuration itself are to be added as "actual".

    >>> from ragbench.types import Case
    >>> data = Dataset("demo", "test", {}, [Case("q", "When?", gold_facts=(("1889",),))], {})
    >>> ablations = {"actual": [Answer("q", "Not found.", outcome="no_results")], "oracle": [Answer("q", "In 1889.")]}
    >>> scores = score_ablations(data, ablations)
    >>> scores[scores["measure"].str.endswith("gold_fact_coverage")][["measure", "value"]].values.tolist()
    [['actual_gold_fact_coverage', 0.0], ['oracle_gold_fact_coverage', 1.0]]
    """
    with_reference = {case.query_id for case in dataset.cases if case.reference_answer}
    model = load_embedder(embedder) if with_reference else embedder
    labelled = {"semantic_similarity": with_reference, "token_f1": with_reference}
    labelled["gold_fact_coverage"] = {case.query_id for case in dataset.cases if case.gold_facts}
    answerable = {case.query_id for case in dataset.cases if case.answerable}
    parts = [pd.DataFrame(columns=["query_id", "measure", "value"]).astype({"value": float})]
    for name, answers in ablations.items():
        abstained = {answer.query_id for answer in answers if answer.abstained} & answerable
        free = score_answers(dataset, answers, embedder=model)
        for part in (free, score_judgements((judgements or {}).get(name, ()))):
            pairs = zip(part["query_id"], part["measure"], strict=True)
            zero = np.array([q in abstained and q in labelled.get(m, abstained) for q, m in pairs], dtype=bool)
            value = part["value"].mask(zero & part["value"].isna().to_numpy(), 0.0)
            parts.append(part.assign(measure=f"{name}_" + part["measure"], value=value))
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def score_own(
    dataset: Dataset, answers: Sequence[Answer], measures: Sequence[Measure], chunks: Sequence[Chunk] = ()
) -> pd.DataFrame:
    """Score answers by measures of a user: columns query_id, measure, value; by measure, then in the order of cases.

    Unscored (NaN) is a question without an answer, one whose answer failed, and one for which the function returns
    None.

    >>> from ragbench.types import Answer, Case, Dataset
    >>> words = Measure("answer_words", lambda case, answer, contexts: len(answer.text.split()), bounds=(0, None))
    >>> score_own(Dataset("mine", "test", {}, [Case("q", "?")], {}), [Answer("q", "In May.")], [words])
      query_id       measure  value
    0        q  answer_words    2.0

    Raises:
        DataError: a function fails, or returns something else than a number within its bounds or None.
    """
    usable = usable_cases(dataset, answers)
    texts = context_texts([answer for _, answer in usable], chunks)
    rows: dict[str, dict[str, float]] = {case.query_id: {} for case, _ in usable}
    functions = [(measure, measure.function) for measure in measures if measure.function is not None]
    for measure, function in functions:
        for case, answer in usable:
            try:
                value = function(case, answer, texts[case.query_id])
            except Exception as exc:
                raise DataError(
                    f"{measure.name} failed at query {case.query_id!r}: {type(exc).__name__}: {exc}"
                ) from exc
            if value is not None:
                rows[case.query_id][measure.name] = _bounded(measure, case.query_id, value)
    return tidy_cases(dataset.cases, [measure.name for measure in measures], rows)


def _bounded(measure: Measure, query_id: str, value: object) -> float:
    low, high = measure.bounds
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.inf
    if math.isinf(number) or (low is not None and number < low) or (high is not None and number > high):
        raise DataError(
            f"{measure.name} is {value!r} at query {query_id!r}; expected a number within {measure.bounds}, or None"
        )
    return number


def context_texts(answers: Sequence[Answer], chunks: Sequence[Chunk] = ()) -> dict[str, list[str]]:
    """query_id -> the texts behind the answer's `contexts`, in their order.

    A text is taken from the answer's own `passages` where they hold its id, else from the chunk of that id. Where an
    answer lists no `contexts`, all its passages count, in their order. Nothing retrieved gives an empty list.

    >>> from ragbench.types import Answer, Chunk, Passage
    >>> own = Answer("q1", "It opened in 1889.", passages=(Passage("p7", "Opened in 1889."),))
    >>> shared = Answer("q2", "In Paris.", contexts=("tower#1", "tower#0"))
    >>> chunks = [Chunk("tower#0", "tower", 0, 9, "The tower"), Chunk("tower#1", "tower", 10, 21, "is in Paris")]
    >>> context_texts([own, shared], chunks)
    {'q1': ['Opened in 1889.'], 'q2': ['is in Paris', 'The tower']}

    Raises:
        DataError: a context is neither among the passages nor among the chunks, or there are two answers to one query.
    """
    by_id = chunks_by_id(chunks)
    texts: dict[str, list[str]] = {}
    for answer in answers:
        if answer.query_id in texts:
            raise DataError(f"two answers to query {answer.query_id!r}; score repeated runs one by one")
        passages = {passage.passage_id: passage.text for passage in answer.passages}
        ids = context_ids(answer)
        if missing := [i for i in ids if i not in passages and i not in by_id]:
            raise DataError(
                f"the answer to {answer.query_id!r} had the context {missing[0]!r}, whose text is not there "
                f"({len(passages)} passages of its own, {len(by_id) or 'no'} chunks given); was it made from another "
                "chunking? Pass the chunks that it was made from"
            )
        texts[answer.query_id] = [passages[i] if i in passages else by_id[i].text for i in ids]
    return texts


def answered_cases(dataset: Dataset, answers: Sequence[Answer]) -> dict[str, tuple[Case, Answer]]:
    """Return the answerable questions that were answered: query_id -> case and answer, in the order of the cases."""
    pairs = usable_cases(dataset, answers)
    return {case.query_id: (case, answer) for case, answer in pairs if case.answerable and not answer.abstained}


def usable_cases(dataset: Dataset, answers: Sequence[Answer]) -> list[tuple[Case, Answer]]:
    """Return the cases whose answer did not fail, with it, in the order of the cases."""
    by_query = answers_by_query(dataset, answers)
    pairs = [(case, by_query[case.query_id]) for case in dataset.cases if case.query_id in by_query]
    return [(case, answer) for case, answer in pairs if not answer.failed]


def answers_by_query(dataset: Dataset, answers: Sequence[Answer]) -> dict[str, Answer]:
    """Return query_id -> its answer.

    Raises:
        DataError: an answer to a question that the dataset lacks, or two answers to one question.
    """
    query_ids = {case.query_id for case in dataset.cases}
    by_query: dict[str, Answer] = {}
    for answer in answers:
        if answer.query_id not in query_ids:
            near = f"such as {dataset.cases[0].query_id!r}" if dataset.cases else "none at all"
            raise DataError(
                f"an answer belongs to query {answer.query_id!r}, which {dataset!r} does not hold (it has {near}); "
                "score answers with the dataset that they were made for"
            )
        if answer.query_id in by_query:
            raise DataError(f"two answers to query {answer.query_id!r}; score repeated runs one by one")
        by_query[answer.query_id] = answer
    return by_query


def wording(answer: Answer) -> str:
    """Return the answer without the numbers of the contexts that it cites."""

    def replacement(mark: re.Match[str]) -> str:
        numbers = map(int, re.findall(r"\d+", mark.group()))
        return "" if all(1 <= number <= len(answer.contexts) for number in numbers) else mark.group()

    return _CITATIONS.sub(replacement, answer.text)


def state_of(answer: Answer | None) -> str:
    """Return "answered", "abstained" (outcome "no_results" or "blocked") or "failed" (also without an answer)."""
    if answer is None or answer.failed:
        return "failed"
    return "abstained" if answer.abstained else "answered"


def context_ids(answer: Answer) -> tuple[str, ...]:
    """Return the ids of what the answer was made from, in rank order."""
    return answer.contexts or tuple(passage.passage_id for passage in answer.passages)
