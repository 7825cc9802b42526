"""Wrong labels, found through what users call: by a judge, and by several systems that agree
against them.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import ragbench as rb
from ragbench.types import Case, Completion, Dataset, Document, Span

YEARS = {f"q{i}": 1880 + i for i in range(14)}
CORPUS = {
    q: Document(q, f"The railway number {q} of the valley opened in {year}, as planned.")
    for q, year in YEARS.items()
}


def data(*, wrong: bool) -> Dataset:
    """Questions whose labels are all right, or all a century late."""
    cases = [
        Case(
            q,
            f"When did the railway number {q} open?",
            reference_answer=f"It opened in {year + 100 * wrong}.",
            gold_facts=((str(year + 100 * wrong),),),
            evidence=(Span(q, 0, len(CORPUS[q].text)),),
        )
        for q, year in YEARS.items()
    ]
    return Dataset("rails", "test", CORPUS, tuple(cases), {q: {q: 1} for q in YEARS})


class Fair:
    """A judge that compares years: with the reference, and with the documents."""

    name = "fair"

    def generate(self, prompt: str, **options: object) -> Completion:
        def has(year: str, tag: str) -> bool:
            return year in prompt.partition(f"<{tag}")[2].partition(f"</{tag}")[0]

        year = prompt.partition("<answer")[2].partition("opened in ")[2][:4]
        claim = {
            "number": 1,
            "claim": "c",
            "reason": "r",
            "document": 1,
            "quote": year,
            "supported": has(year, "document"),
        }
        correctness = {"reason": "r", "verdict": has(year, "reference")}
        verdicts = {
            "correctness": correctness,
            "faithfulness": {"claims": [claim]},
            "relevance": {"score": 1},
        }
        return Completion(json.dumps(verdicts), self.name)


def system(answer: str, *, later: int = 0):  # type: ignore[no-untyped-def]
    def respond(question: str) -> dict[str, object]:
        q = question.split()[-2]
        return {
            "answer": answer.format(YEARS[q] + later),
            "contexts": [{"id": q, "text": CORPUS[q].text}],
        }

    return rb.FunctionSystem(respond, name=answer)


def causes(result: rb.Result) -> set[str]:
    assert result.diagnosis is not None
    assert len(result.diagnosis) == len(YEARS)
    return set(result.diagnosis["cause"])


@pytest.mark.parametrize(
    ("wrong", "later", "cause"),
    [
        (False, 0, ""),
        (True, 0, "label_in_doubt"),
        (False, 7, "contradicts"),
        (True, 7, "contradicts"),
    ],
)
def test_a_judge_names_labels_that_the_right_context_contradicts(
    wrong: bool, later: int, cause: str
) -> None:
    result = rb.evaluate(
        data(wrong=wrong),
        system("It opened in {}.", later=later),
        judge=Fair(),
        embedder="wordllama",
    )
    assert causes(result) == {cause}


@pytest.mark.parametrize(
    ("judge", "later", "cause"),
    [(Fair(), 0, "label_in_doubt"), ("", 0, "not_used"), (Fair(), 7, "contradicts")],
)
def test_a_passage_that_quotes_the_evidence_is_the_right_context(
    judge: object, later: int, cause: str
) -> None:
    longer = {
        q: replace(document, text=f"{document.text} {'It is still in use. ' * 20}")
        for q, document in CORPUS.items()
    }
    whole = system("It opened in {}.", later=later)

    def respond(question: str) -> dict[str, object]:
        q = question.split()[-2]
        answer = whole.answer(q, question)
        return {
            "answer": answer.text,
            "contexts": [{"id": f"{q}-1", "doc_id": q, "text": CORPUS[q].text}],
        }

    result = rb.evaluate(
        replace(data(wrong=True), corpus=longer),
        respond,
        judge=judge,  # type: ignore[arg-type]
        embedder="wordllama",
    )
    assert causes(result) == {cause}
