"""Relevance of documents to questions: grades by a language model, and what people should label."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from ragbench import llms
from ragbench.errors import ConfigError, DataError, JudgeWarning
from ragbench.judges.criteria import MAX_ANSWER, Material, verdicts
from ragbench.judges.criterion import BUILT_IN
from ragbench.labelling.items import LabelItem, make_item
from ragbench.metrics.retrieval import ranking
from ragbench.types import Dataset, LLMLike, Qrels, Run


def judge_relevance(
    dataset: Dataset,
    runs: Sequence[Run],
    llm: LLMLike,
    *,
    measure: str = "nDCG@10",
    concurrency: int = 8,
    timeout_s: float = llms.TIMEOUT_S,
) -> Qrels:
    """Return the labels of a dataset, and for the documents without one among those that a measure
    looks at in any run the grades of a language model.

    One request per pair at temperature 0, with the graded prompt of UMBRELA's kind; the reply store
    keeps the replies. Grades from 0 to 3 are put on the scale of the dataset's labels (of binary
    ones, 2 and 3 are relevant). What cannot be read has no label, with a JudgeWarning. Labels of a
    model are not people's: `rb.trust` corrects what follows from them.

    >>> from ragbench.llms import ScriptedLLM
    >>> data = Dataset.from_dicts({"d1": "Opened in 1889.", "d2": "Tea."}, {"q1": "When did it open?"})
    >>> judge = ScriptedLLM(lambda prompt: {"grade": 3 if "1889" in prompt else 0})
    >>> judge_relevance(data, [{"q1": {"d1": 2.0, "d2": 1.0}}], judge)
    {'q1': {'d1': 3, 'd2': 0}}
    """
    pairs = [(q, doc_id) for q, ids in unjudged(dataset, runs, measure).items() for doc_id in ids]
    cases = dataset.case_of
    materials = []
    for q, doc_id in pairs:
        text = dataset.corpus[doc_id].full_text[:MAX_ANSWER]
        case = cases[q]
        materials.append(Material(q, case.text, "", None, (text,), (doc_id,), history=case.history))
    model = llms.load_llm(llm)
    asking: dict[str, Any] = {"concurrency": concurrency, "timeout_s": timeout_s}
    verdicts_of = verdicts(materials, BUILT_IN["document"], model, **asking)
    values = [value for [value] in verdicts_of]
    if lost := values.count(None):
        text = f"{lost} of {len(values)} documents have no grade from the judge"
        warnings.warn(text, JudgeWarning, stacklevel=2)
    return with_labels(dataset, zip(pairs, values, strict=True))


def unjudged(dataset: Dataset, runs: Sequence[Run], measure: str) -> dict[str, list[str]]:
    """Return query_id -> the documents without a label among the first k of any run, 10 of "nDCG@10".

    >>> data = Dataset.from_dicts(["One.", "Two."], {"q": "?"}, {"q": {"0": 1}})
    >>> run = {"q": {"0": 2.0, "1": 1.0}}
    >>> unjudged(data, [run], "P@1"), unjudged(data, [run], "P@2")
    ({'q': []}, {'q': ['1']})

    Raises:
        ConfigError: a measure that looks at all documents.
    """
    k = measure.rpartition("@")[2]
    if not k.isdigit():
        raise ConfigError(
            f"{measure} looks at all documents; take one of the first, such as nDCG@10"
        )
    return {
        q: [
            doc_id
            for doc_id in dict.fromkeys(
                id for run in runs for id in ranking(run.get(q, {}))[: int(k)]
            )
            if doc_id not in dataset.qrels.get(q, {})
        ]
        for q in dataset.queries
    }


def with_labels(dataset: Dataset, labels: Iterable[tuple[Any, float | None]]) -> Qrels:
    """Return the labels of a dataset and further ones, (query_id, doc_id) -> from 0 to 1, on its scale."""
    grades = [grade for judged in dataset.qrels.values() for grade in judged.values()]
    top = max(grades, default=0) or 3
    qrels = {q: dict(dataset.qrels.get(q, {})) for q in dataset.queries}
    for (q, doc_id), value in labels:
        if value is not None:
            qrels[q][doc_id] = round(value * top)
    return qrels


def document_items(
    dataset: Dataset, runs: Sequence[Run], measure: str
) -> dict[str, list[LabelItem]]:
    """Return query_id -> its documents to label; `sources` is a document's id."""
    cases = dataset.case_of
    texts = {doc_id: document.full_text for doc_id, document in dataset.corpus.items()}
    try:
        return {
            q: [make_item(cases[q], "document", (texts[i], i), [(i, ())]) for i in doc_ids]
            for q, doc_ids in unjudged(dataset, runs, measure).items()
        }
    except KeyError as exc:
        raise DataError(f"document {exc} of a run is not in {dataset!r}; pass corpus") from exc
