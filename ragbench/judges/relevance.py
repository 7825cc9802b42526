"""Relevance of documents graded by a language model, for what no person has judged."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence

import pandas as pd

from ragbench import llms
from ragbench.errors import JudgeWarning
from ragbench.judges.prompts import JUDGE_SYSTEM
from ragbench.llms.fences import fence, fence_code
from ragbench.types import Dataset, LLMLike

# Origin: the graded judgement of UMBRELA (Upadhyay et al. 2024), after Thomas et al. 2024 ("Large
# language models can accurately predict searcher preferences"); the wording is ours.
RELEVANCE = (
    "How useful is the document for someone who asks the question? First think of what the person "
    "wants to know, then of what the document states about it. Grades:\n"
    "0: it has nothing to do with the question.\n"
    "1: it is about the subject, and does not answer the question.\n"
    "2: it answers a part, or the answer is unclear or hidden among other things.\n"
    "3: it is about the question, and holds its answer.\n"
    'Reply with one JSON object and nothing else, in this form:\n{"reason": "one sentence", "grade": 0}'
)

_FORM = {"reason": {"type": "string"}, "grade": {"type": "integer", "enum": [0, 1, 2, 3]}}
_SCHEMA = {
    "type": "object",
    "properties": _FORM,
    "required": [*_FORM],
    "additionalProperties": False,
}
_GRADE = re.compile(r'"?grade"?\s*:\s*"?([0-3])\b')
_MAX_DOCUMENT = 12_000  # characters


def judge_relevance(
    data: Dataset, runs: Sequence[Mapping[str, Mapping[str, float]]], llm: LLMLike, *, k: int = 10
) -> pd.DataFrame:
    """Have a language model grade the first `k` documents of each query in any of the runs, from 0
    to 3; one request per pair at temperature 0, which the reply store keeps.

    Labels of a model are no labels of people: `rb.statistics.ranking_interval` corrects what
    follows from them.

    Args:
        data: the questions and documents.
        runs: query_id -> doc_id -> score, of one or several systems.
        llm: the judge, a name or an `LLM`.

    Returns:
        query_id, doc_id, grade (pd.NA where a reply could not be read, with a JudgeWarning).

    >>> from ragbench.llms import ScriptedLLM
    >>> from ragbench.types import Case, Document
    >>> corpus = {"d1": Document("d1", "Opened in 1889."), "d2": Document("d2", "Tea.")}
    >>> data = Dataset("set", "test", corpus, (Case("q1", "When did it open?"),), {})
    >>> judge = ScriptedLLM(lambda prompt: {"grade": 3 if "1889" in prompt else 0})
    >>> judge_relevance(data, [{"q1": {"d1": 2.0, "d2": 1.0}}], judge)["grade"].tolist()
    [3, 0]
    """
    queries = data.queries
    pairs = {
        (query_id, doc_id): None
        for run in runs
        for query_id, scores in run.items()
        for doc_id in sorted(scores, key=lambda doc_id: (-scores[doc_id], doc_id))[:k]
    }
    prompts = []
    for query_id, doc_id in pairs:
        question, text = queries[query_id], data.corpus[doc_id].full_text[:_MAX_DOCUMENT]
        code = fence_code([question, text])
        prompts.append(
            f"Question:\n{fence('question', question, code)}\n\n"
            f"Document:\n{fence('document', text, code)}\n\n{RELEVANCE}"
        )
    completions = llms.generate_many(
        llms.load_llm(llm),
        prompts,
        system=JUDGE_SYSTEM,
        max_tokens=200,
        schema=_SCHEMA,
        label="relevance of documents",
    )
    # only the reply's own last grade counts: the reason before it may quote another
    grades = [(_GRADE.findall(completion.text) or [None])[-1] for completion in completions]
    if lost := grades.count(None):
        warnings.warn(
            f"{lost} of {len(grades)} replies have no grade from 0 to 3", JudgeWarning, stacklevel=2
        )
    frame = pd.DataFrame([*pairs], columns=["query_id", "doc_id"])
    return frame.assign(grade=pd.to_numeric(pd.Series(grades, dtype=object)).astype("Int64"))
