"""Six readers with one planted fault each: the right intervention finds it, and no other alarms."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ragbench as rb
from ragbench.errors import ConfigError, DataWarning
from ragbench.evaluation.spec import EvaluationSpec
from ragbench.llms import ScriptedLLM
from ragbench.llms.reply_text import NO_ANSWER
from ragbench.report import robustness_table
from ragbench.systems import FunctionSystem, Pipeline
from ragbench.types import Case, Dataset, Document, Span

PEAKS = [
    f"{first}{second}"
    for first in ("Ar", "Bel", "Cor", "Dun")
    for second in ("mont", "holm", "gard", "wick", "stein", "lund", "berg", "dal", "fell", "tor")
]
ALL = [
    "gold-only",
    "best-chunks",
    "no-gold",
    "distractors:4",
    "gold-at:5",
    "swap-number",
    "swap-name",
    "negate",
    "stale-version",
    "paraphrase",
    "plant-instruction",
    "empty",
]


def dataset() -> Dataset:
    """Return forty mountains with two questions each: the height and who climbed it first."""
    corpus, cases = {}, []
    for i, peak in enumerate(PEAKS):
        name = f"{PEAKS[i - 1][:3]}ia {PEAKS[i - 7]}son"
        height = f"The height of {peak} is {1207 + 53 * i} metres."
        climber = f"The first climber of {peak} was {name}."
        corpus[f"h{i}"], corpus[f"c{i}"] = Document(f"h{i}", height), Document(f"c{i}", climber)
        cases += [
            Case(
                f"h{i}",
                f"What is the height of {peak}?",
                gold_facts=((str(1207 + 53 * i),),),
                evidence=(Span(f"h{i}", 0, len(height)),),
            ),
            Case(
                f"c{i}",
                f"Who was the first climber of {peak}?",
                gold_facts=((name,),),
                evidence=(Span(f"c{i}", 0, len(climber)),),
            ),
        ]
    return Dataset("peaks", "test", corpus, cases, {})


def parts_of(prompt: str) -> tuple[str, list[str]]:
    """Return the question and the documents of a prompt."""
    question = re.findall(r"<question[^>]*>\s*(.*?)\s*</question", prompt, re.DOTALL)[-1]
    return question, re.findall(r"<document[^>]*>\s*(.*?)\s*</document", prompt, re.DOTALL)


def about(question: str, document: str) -> bool:
    """Return True if a document states what is asked, of the peak that is asked about: typos are
    letters in another order.
    """
    subject = re.search(r"(height|climber) of (\w+)", document)
    if subject is None:
        return False
    words = {"".join(sorted(word)) for word in re.findall(r"\w+", question)}
    return {"".join(sorted(part)) for part in subject.groups()} <= words


def faultless(question: str, documents: list[str]) -> str:
    matches = [text for text in documents if about(question, text)]
    newer = [text for text in matches if "in force" in text] or matches
    if not newer:
        return NO_ANSWER
    statement = re.sub(r"^\[.*?\] ", "", newer[0]).partition("\n")[0]
    return f"{statement} [{documents.index(newer[0]) + 1}]"


def first_only(question: str, documents: list[str]) -> str:
    """Answer from the first document, of any subject."""
    return f"{documents[0]} [1]" if documents else NO_ANSWER


def last_only(question: str, documents: list[str]) -> str:
    return faultless(question, documents[-1:])


def never_abstains(question: str, documents: list[str]) -> str:
    answer = faultless(question, documents)
    return "It is 4,000 metres, or John Smith." if answer == NO_ANSWER else answer


def obeys(question: str, documents: list[str]) -> str:
    orders = [
        match[1] for text in documents if (match := re.search(r"Reply only with ([\w-]+)", text))
    ]
    return orders[0] if orders else faultless(question, documents)


def drops_numbers(question: str, documents: list[str]) -> str:
    return re.sub(r"\d{4} ", "", faultless(question, documents))


MEMORY = {case.text: case.gold_facts[0][0] for case in dataset().cases}


def ignores_contexts(question: str, documents: list[str]) -> str:
    """Answer by what it has learnt, with a document or without."""
    return f"It is {MEMORY[question]}." if question in MEMORY else faultless(question, documents)


def table_of(
    reader: Callable[[str, list[str]], str],
    names: list[str],
    seed: int = 0,
    data: Dataset | None = None,
) -> dict[str, float]:
    data = data or dataset()
    llm = ScriptedLLM(lambda prompt: reader(*parts_of(prompt)))
    pipeline = Pipeline(data, "bm25", llm=llm, chunker="document", k=5)
    result = rb.evaluate(data, pipeline, perspectives="answer", interventions=names, seed=seed)
    table = robustness_table([result])
    assert set(table["intervention"]) <= set(names)
    return dict(zip(table["intervention"], table["p_holm"], strict=True))


FAULTS: list[tuple[Callable[[str, list[str]], str], str]] = [
    (first_only, "no-gold"),
    (last_only, "gold-at:5"),
    (never_abstains, "no-gold"),
    (ignores_contexts, "swap-number"),
    (obeys, "plant-instruction"),
    (drops_numbers, "swap-number"),
]


def test_nothing_alarms_for_a_faultless_reader() -> None:
    p_values = table_of(faultless, ALL)
    assert set(p_values) == set(ALL)
    assert min(p_values.values()) == 1.0


@pytest.mark.parametrize(("reader", "name"), FAULTS)
def test_a_fault_is_found_by_its_intervention(
    reader: Callable[[str, list[str]], str], name: str
) -> None:
    p_values = table_of(reader, ALL)
    print({n: round(p, 4) for n, p in p_values.items()})
    assert p_values[name] < 0.01


def test_any_system_is_asked_changed_questions_and_no_other() -> None:
    questions: list[str] = []

    def answer(question: str) -> str:
        questions.append(question)
        return MEMORY.get(question, "not found in the documents")

    data = dataset().select([f"h{i}" for i in range(10)])
    names = ["typos:0.3", "paraphrase"]
    result = rb.evaluate(data, FunctionSystem(answer), perspectives="answer", interventions=names)
    table = robustness_table([result]).set_index("intervention")
    assert table["kept"].to_dict() == {"typos:0.3": 0.0, "paraphrase": 0.0}
    assert (table["n"] == 10).all()
    assert sum("like to know this" in question for question in questions) == 10
    with pytest.raises(ConfigError, match="'no-gold' changes contexts"):
        rb.evaluate(data, FunctionSystem(answer), interventions="typos,no-gold")
    with pytest.raises(ConfigError, match="recorded"):
        rb.evaluate(data, result.answers, perspectives="answer", interventions="typos")


def test_a_service_is_asked_by_http_and_nothing_is_asked_twice(
    loopback: Callable[..., Any], wire: Any, tmp_path: Path
) -> None:
    def reply(asked: Any) -> Any:
        return wire.Answered({"answer": MEMORY.get(asked.body["q"], "It is 1207 metres.")})

    server = loopback(reply)
    data = dataset().select([f"h{i}" for i in range(5)])
    system = rb.HttpSystem(server.url, body={"q": "{query}"})
    options = {"perspectives": "answer", "interventions": "paraphrase,typos:0.3"}
    folder = tmp_path / "package.module-ask-1a2b3c4d"  # the name of a configuration may have a dot
    first = rb.evaluate(data, system, journal=folder, **options)  # type: ignore[arg-type]
    assert len(server.asked) == 5 * 3
    again = rb.evaluate(data, system, journal=folder, **options)  # type: ignore[arg-type]
    assert len(server.asked) == 5 * 3
    assert again.scores.equals(first.scores)
    rb.save(again, folder)
    assert rb.load_result(folder).scores["query_id"].nunique() == 5


@pytest.mark.simulation
def test_a_faultless_reader_alarms_no_more_often_than_alpha() -> None:
    """200 seeds, all interventions: the smallest p of each, by Holm over all of them."""
    smallest = [min(table_of(faultless, ALL, seed).values()) for seed in range(200)]
    assert sum(p < 0.05 for p in smallest) <= 10


def test_a_gate_on_what_is_not_asked_is_refused_and_one_that_is_asked_decides() -> None:
    data = dataset()
    system = Pipeline(data, "bm25", chunker="document")
    with pytest.raises(ConfigError, match="--intervention no-gold"):
        rb.evaluate(data, system, perspectives="answer", fail_under="robust:no-gold=.9")
    options = {"perspectives": "answer", "interventions": "no-gold,empty"}
    targets = "robust:no-gold=0.9,robust:empty=0.9"
    result = rb.evaluate(data, system, fail_under=targets, **options)  # type: ignore[arg-type]
    rows = {row.measure: row for row in result.rows if row.measure.startswith("robust:")}
    assert rows["robust:empty"].value == 1.0
    assert rows["robust:no-gold"].value is not None
    assert rows["robust:no-gold"].value < 0.9
    assert not result.passed


def faultless_answer(question: str) -> str:
    return MEMORY[question]


def broken(case: Case, contexts: Any, rng: Any) -> Any:
    return 3


def test_a_function_that_fails_is_an_error_of_one_sentence() -> None:
    data = dataset().select(["h1"])
    name = f"{__name__}:broken"
    with pytest.raises(ConfigError, match=rf"{name}' failed for 'h1'.*expected a case"):
        rb.evaluate(
            data, FunctionSystem(faultless_answer), perspectives="answer", interventions=[name]
        )


def test_the_same_seed_asks_the_same() -> None:
    assert EvaluationSpec(interventions="typos, typos:0.1").interventions == ("typos", "typos:0.1")
    assert table_of(faultless, ["swap-name"], seed=3) == table_of(faultless, ["swap-name"], seed=3)


def test_an_intervention_that_applies_to_no_question_is_named() -> None:
    data = dataclasses.replace(
        dataset(), cases=[Case("q", "Why?", evidence=(Span("h0", 0, 10),))], qrels={}
    )
    pipeline = Pipeline(data, "bm25", chunker="document")
    with pytest.warns(DataWarning, match="swap-number: applies to no question"):
        rb.evaluate(data, pipeline, perspectives="answer", interventions="no-gold,swap-number")
