"""Relevance of documents to questions: grades by a language model, and documents for people to label."""

from collections.abc import Iterable, Sequence
from typing import Any

from ragbench import llms
from ragbench.errors import ConfigError, DataError, JudgeWarning, warn_user
from ragbench.judges.criterion import BUILT_IN
from ragbench.judges.judge_requests import verdicts
from ragbench.judges.material import Material
from ragbench.judges.request_text import MAX_ANSWER
from ragbench.labelling.items import LabelItem, make_item
from ragbench.metrics.ranking_measures import ranking
from ragbench.types import Case, Dataset, LLMLike, Qrels, Run


def judge_relevance(
    dataset: Dataset,
    runs: Sequence[Run],
    llm: LLMLike,
    *,
    measure: str = "nDCG@10",
    concurrency: int = 8,
    timeout_s: float = llms.TIMEOUT_S,
) -> Qrels:
    """Return the labels of a dataset, and the grades of a language model for the unlabelled documents
    that a measure looks at in any run.

    Each pair is one request at temperature 0, with a graded prompt like UMBRELA's; the reply store
    keeps the replies. Grades from 0 to 3 are put on the scale of the dataset's labels (of binary
    ones, 2 and 3 are relevant). A document whose reply cannot be read has no label; a JudgeWarning
    counts these. Labels of a model are not people's: `rb.trust` corrects the conclusions from them.

    >>> from ragbench.llms import ScriptedLLM
    >>> data = Dataset.from_dicts({"d1": "Opened in 1889.", "d2": "Tea."}, {"q1": "When did it open?"})
    >>> judge = ScriptedLLM(lambda prompt: {"grade": 3 if "1889" in prompt else 0})
    >>> judge_relevance(data, [{"q1": {"d1": 2.0, "d2": 1.0}}], judge)
    {'q1': {'d1': 3, 'd2': 0}}

    Raises:
        ConfigError: the measure looks at all documents.
        DataError: a document of a run is not in the dataset.
    """
    cases = dataset.case_of
    pairs = []
    materials = []
    for query_id, doc_ids in unjudged(dataset, runs, measure).items():
        for doc_id in doc_ids:
            text = _text_of_document(dataset, doc_id)[:MAX_ANSWER]
            pairs.append((query_id, doc_id))
            materials.append(_material_of_document(cases[query_id], doc_id, text))
    samples = verdicts(
        materials,
        BUILT_IN["document"],
        llms.load_llm(llm),
        concurrency=concurrency,
        timeout_s=timeout_s,
    )
    values = [value for [value] in samples]  # one sample each
    n_missing = values.count(None)
    if n_missing:
        message = f"{n_missing} of {len(values)} documents have no grade from the judge"
        warn_user(message, JudgeWarning)
    return with_labels(dataset, zip(pairs, values, strict=True))


def _text_of_document(dataset: Dataset, doc_id: str) -> str:
    """Return the title and text of a document that a run found.

    Raises:
        DataError: the document is not in the dataset.
    """
    if doc_id not in dataset.corpus:
        raise DataError(f"document {doc_id!r} of a run is not in {dataset!r}; pass corpus")
    return dataset.corpus[doc_id].full_text


def _material_of_document(case: Case, doc_id: str, text: str) -> Material:
    """Return the material from which a judge judges a document's relevance to a question.

    Args:
        case: the question.
        doc_id: the id of the document.
        text: the document, as far as the judge sees it.
    """
    return Material(
        case.query_id,
        case.text,
        answer="",  # a document is judged, not an answer
        reference=None,
        documents=(text,),
        chunk_ids=(doc_id,),
        history=case.history,
    )


def unjudged(dataset: Dataset, runs: Sequence[Run], measure: str) -> dict[str, list[str]]:
    """Return query_id -> the documents that a measure looks at and that have no label in the dataset;
    [] if all have one.

    A measure such as "nDCG@10" looks at the first 10 documents of each run.

    >>> data = Dataset.from_dicts(["One.", "Two."], {"q": "?"}, {"q": {"0": 1}})
    >>> run = {"q": {"0": 2.0, "1": 1.0}}
    >>> unjudged(data, [run], "P@1"), unjudged(data, [run], "P@2")
    ({'q': []}, {'q': ['1']})

    Raises:
        ConfigError: the measure looks at all documents.
    """
    k = measure.rpartition("@")[2]
    if not k.isdigit():
        raise ConfigError(
            f"{measure} looks at all documents; take one of the first, such as nDCG@10"
        )
    unlabelled = {}
    for query_id in dataset.queries:
        first_ids: dict[str, None] = {}  # each once, in order
        for run in runs:
            best_first = ranking(run.get(query_id, {}))
            first_ids |= dict.fromkeys(best_first[: int(k)])  # adds ids that are new
        labelled = dataset.qrels.get(query_id, {})
        unlabelled[query_id] = [doc_id for doc_id in first_ids if doc_id not in labelled]
    return unlabelled


def with_labels(dataset: Dataset, labels: Iterable[tuple[Any, float | None]]) -> Qrels:
    """Return the labels of a dataset together with further labels, on the scale of the dataset.

    `labels` are ((query_id, doc_id), value) with values from 0 to 1, where 1 becomes the highest grade
    in the dataset (3 if it has none); a pair with None is left out.
    """
    grades: list[int] = []
    for grades_of_query in dataset.qrels.values():
        grades += grades_of_query.values()
    highest = max(grades, default=0) or 3
    qrels = {query_id: dict(dataset.qrels.get(query_id, {})) for query_id in dataset.queries}
    for (query_id, doc_id), value in labels:
        if value is not None:
            qrels[query_id][doc_id] = round(value * highest)
    return qrels


def document_items(
    dataset: Dataset, runs: Sequence[Run], measure: str
) -> dict[str, list[LabelItem]]:
    """Return query_id -> the documents to label: those that a measure looks at in any run, and that have
    no label in the dataset. The id of the document is in `sources` of its item.

    Raises:
        ConfigError: the measure looks at all documents.
        DataError: a document of a run is not in the dataset.
    """
    cases = dataset.case_of
    items: dict[str, list[LabelItem]] = {}
    for query_id, doc_ids in unjudged(dataset, runs, measure).items():
        items[query_id] = []
        for doc_id in doc_ids:
            text = _text_of_document(dataset, doc_id)
            item = make_item(
                cases[query_id], "document", key=(text, doc_id), contexts=(), sources=[doc_id]
            )
            items[query_id].append(item)
    return items
