"""What a form cannot hold, reported before anything is written."""

from __future__ import annotations

from collections.abc import Mapping

from ragbench.datasets.testsets.sections import Heading, headings_of, locate
from ragbench.errors import ConfigError, unknown
from ragbench.types import Dataset

FORMS = ("yaml", "json", "json-cases", "perspectives", "beir", "jsonl")

_LABELS = (
    "category", "query_type", "reference_answer", "evidence", "gold_facts", "required_keywords", "expected_claims",
    "forbidden_claims", "expected_citations", "expected_outcome", "expected_sections", "expected_chunks",
    "relevant_chunks", "required_flags", "forbidden_flags", "min_citations", "latency_budget_ms", "user_roles",
)  # fmt: skip
_HELD: Mapping[str, frozenset[str]] = {
    "yaml": frozenset(_LABELS),
    "json": frozenset({"category", "reference_answer", "required_keywords"}),
    "json-cases": frozenset({"category", "reference_answer"}),
    "perspectives": frozenset(_LABELS) - {"evidence"},
    "jsonl": frozenset(_LABELS),
    "beir": frozenset(_LABELS),
}
_LISTS = ("json", "json-cases")


def losses(dataset: Dataset, form: str) -> dict[str, list[str]]:
    """What this form cannot hold of a dataset: a sentence -> the ids of what loses it. Empty where nothing is lost.

    >>> from ragbench.types import Case
    >>> case = Case("q1", "?", category="geo", user_roles=("admin",))
    >>> losses(Dataset("d", "test", {}, (case,), {}), "json")
    {'cases lose their user_roles': ['q1']}

    Raises:
        ConfigError: there is no such form.
    """
    if form not in FORMS:
        raise ConfigError(unknown("form", form, FORMS))
    found: dict[str, list[str]] = {}
    for label in (label for label in _LABELS if label not in _HELD[form]):
        if label == "evidence":
            ids = _without_sections(dataset)
        else:
            ids = [case.query_id for case in dataset.cases if getattr(case, label) not in ("", None, (), {})]
        if ids:
            found[f"cases lose their {label}"] = ids
    top = 1 if form in _LISTS else 3
    if form in (*_LISTS, "perspectives"):
        grades = [q for q, judged in dataset.qrels.items() if any(_unlike(grade, top) for grade in judged.values())]
        what = (
            "grade above 1 becomes 1, and what is not relevant is left out" if top == 1 else "grade is kept in 0 to 3"
        )
        found |= {f"cases lose grades of documents: each {what}": grades} if grades else {}
    if form == "perspectives":
        chunks = [c.query_id for c in dataset.cases if any(_unlike(grade, 3) for grade in c.relevant_chunks.values())]
        found |= {"cases lose grades of chunks: each is kept in 0 to 3": chunks} if chunks else {}
    empty = [case.query_id for case in dataset.cases if case.reference_answer == ""]
    if form in _LISTS and empty:
        found["cases lose their reference_answer, which is empty"] = empty
    if form in _LISTS and dataset.corpus:
        found["documents are not in the file: give them when it is loaded (corpus=, --corpus)"] = list(dataset.corpus)
    if form in _LISTS:
        samples = [sample.sample_id for sample in (*dataset.safety_inputs, *dataset.safety_outputs)]
        found |= {"safety samples are lost": samples} if samples else {}
    return found


def _unlike(grade: int, top: int) -> bool:
    return grade != 1 if top == 1 else not 0 <= grade <= top


def _without_sections(dataset: Dataset) -> list[str]:
    """The cases with evidence that is not that of their sections, which come back where the documents are known."""
    headings: dict[str, list[Heading]] = {}
    found = []
    for case in dataset.cases:
        spans = set(case.evidence)
        for doc_id, section in case.expected_sections if spans else ():
            if doc_id not in dataset.corpus:
                continue
            if doc_id not in headings:
                headings[doc_id] = headings_of(dataset.corpus[doc_id])
            place = locate(dataset.corpus[doc_id], section, headings)
            spans -= {place.span} if place is not None else set()
        if spans:
            found.append(case.query_id)
    return found
