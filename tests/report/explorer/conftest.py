"""Two small results on one test set, and larger ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest

from ragbench.evaluation import Result, Results, new_result
from ragbench.evaluation.records import Perspective
from ragbench.types import Answer, Case, Dataset, Document, Judgement, Span

TOWER = "The tower 🗼 opened in 1889. It is 330 m high. Eiffel built it."
"""The emoji is one character in Python and two in JavaScript."""

HOSTILE = (
    "<script>window.hacked = 1</script>",
    '</script><script>window.hacked = 2</script><img src=x onerror="window.hacked = 3">',
    "line\u2028separator\u2029and ]]> <!-- <script> \u202eright to left",
    "</style><iframe src='//evil.example'></iframe>{{ 7 * 7 }}",
)


@pytest.fixture
def dataset() -> Dataset:
    opened, high = (Span("tower", *_span(text)) for text in ("opened in 1889", "330 m high"))
    cases = [
        Case("q1", "When did it open?", "facts", reference_answer="In 1889.", evidence=(opened,)),
        Case("q2", "How high is it?", "numbers", evidence=(high, opened)),
        Case("q3", "Who paid?", "facts"),
    ]
    return Dataset(
        "tower",
        "test",
        {"tower": Document("tower", TOWER)},
        cases,
        {"q1": {"tower": 1}, "q2": {}, "q3": {}},
    )


def _span(text: str) -> tuple[int, int]:
    start = TOWER.index(text)
    return start, start + len(text)


@pytest.fixture
def results(dataset: Dataset) -> Results:
    whole, begin = f"tower#0-{len(TOWER)}", f"tower#0-{TOWER.index('It is')}"
    first = [
        Answer("q1", "It opened in 1889.", contexts=(begin,)),
        Answer("q2", "It is 400 m high. It is tall.", contexts=(begin,)),
        Answer("q3", "Nobody knows.", outcome="no_results"),
    ]
    second = [
        Answer("q1", "In 1889.", contexts=(whole,)),
        Answer("q2", "330 m.", contexts=(whole, "elsewhere")),
        Answer("q3", "Eiffel paid."),
    ]
    judged = [Judgement("q2", "faithfulness", 0.5, unsupported=("It is 400 m high.",))]
    found: dict[str, Any] = {
        "judgements": judged,
        "perspectives": (Perspective("judge", True),),
        "verdicts": {"q2": {"invented_claims": ["It is 400 m high."]}},
    }
    diagnosis = pd.DataFrame({"query_id": ["q1", "q2", "q3"], "failed": [False, True, False]})
    diagnosis = diagnosis.assign(
        cause=["", "not_retrieved", ""],
        evidence=["", "0% of the evidence", ""],
        test="",
        measure="",
        value=None,
    )
    return Results(
        [
            made("a", dataset, [1.0, 0.0, 0.5], first, diagnosis=diagnosis, **found),
            made("b", dataset, [1.0, 1.0, 0.25], second),
        ]
    )


def made(
    name: str,
    dataset: Dataset,
    values: Sequence[float | None],
    answers: Sequence[Answer],
    **parts: Any,
) -> Result:
    scores = pd.DataFrame(
        {"query_id": list(dataset.queries), "measure": "nDCG@10", "value": values}
    ).astype({"value": float})
    return new_result(
        parameters={"retriever": name},
        dataset=dataset,
        run={},
        scores=scores,
        name=name,
        answers=answers,
        **parts,
    )


@pytest.fixture(scope="session")
def many() -> tuple[Dataset, Results]:
    """5,000 questions about 500 documents, hostile texts among them, answered twice from five
    contexts each.
    """
    chance = random.Random(0)
    words = [f"word{i}" for i in range(2000)]

    def text(n: int) -> str:
        return " ".join(chance.choices(words, k=n))

    corpus = {f"doc{i}": Document(f"doc{i}", text(1200)) for i in range(500)}
    cases = []
    for i in range(5000):
        hostile = HOSTILE[i % 50] if i % 50 < len(HOSTILE) else ""
        doc, start = f"doc{i % 500}", 100 * (i % 60)
        category = f"category {i % 7}"
        cases.append(
            Case(
                f"q{i:04}",
                f"{hostile} {text(12)}?".strip(),
                category,
                evidence=(Span(doc, start, start + 200),),
            )
        )
    dataset = Dataset("many", "test", corpus, cases, {case.query_id: {} for case in cases})
    answers = [f"{HOSTILE[i] if i < len(HOSTILE) else ''} {text(40)}" for i in range(100)]
    sides = []
    for name in ("first", "second"):
        given = []
        for i, case in enumerate(cases):
            places = [
                (f"doc{(i + chance.randrange(3)) % 500}", 800 * chance.randrange(9))
                for _ in range(5)
            ]
            contexts = tuple(f"{doc}#{start}-{start + 800}" for doc, start in places)
            given.append(
                Answer(case.query_id, chance.choice(answers), contexts=contexts, outcome="success")
            )
        values = [chance.choice([0.0, 0.25, 0.5, 1.0, chance.random(), None]) for _ in cases]
        sides.append(made(name, dataset, values, given))
    return dataset, Results(sides)
