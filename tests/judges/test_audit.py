"""Judges with one vice each, and which probe finds it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ragbench.errors import ConfigError, DataError
from ragbench.judges import AUDIT_BOUNDS, Criterion, audit_findings, audit_probes, judge_audit
from ragbench.judges.criterion import BUILT_IN
from ragbench.llms import ScriptedLLM, dry_run
from ragbench.testsets.interventions import ANSWER_CHANGES
from ragbench.types import Answer, Case, Chunk, Completion, Dataset

CASES = tuple(
    Case(f"q{i}", f"What comes after {i}?", reference_answer=f"It is {i + 1}.")
    for i in range(100, 110)
)
DATA = Dataset("numbers", "test", {}, CASES, {})
ANSWERS = [Answer(case.query_id, f"After {i} comes {i + 1}.") for i, case in enumerate(CASES, 100)]

OF_CORRECTNESS = [
    probe for probe in AUDIT_BOUNDS if probe not in ("documents reversed", "same verdict")
]

Judge = Callable[[str, str], bool]  # answer and reference -> verdict


def part(prompt: str, kind: str) -> str:
    match = re.search(rf"<{kind}-\w+>\n(.*?)\n</{kind}-", prompt, re.DOTALL)
    assert match is not None, kind
    return match[1]


def right(answer: str, reference: str) -> bool:
    return (
        reference.removeprefix("It is ").rstrip(".")
        in answer.split(" (")[0].replace(".", "").split()
    )


def scripted(judge: Judge) -> ScriptedLLM:
    def reply(prompt: str) -> Mapping[str, Any]:
        return {"reason": "", "verdict": judge(part(prompt, "answer"), part(prompt, "reference"))}

    return ScriptedLLM(reply)


def failed(audit: pd.DataFrame) -> set[str]:
    return set(audit.loc[audit["verdict"] == "fail", "probe"])


def audited(llm: ScriptedLLM, **options: Any) -> pd.DataFrame:
    return judge_audit(ANSWERS, "correctness", llm, dataset=DATA, n=10, **options)


def chance(text: str) -> bool:
    return hashlib.sha256(text.encode()).digest()[0] % 2 == 0


class Dice:
    """A judge that throws dice, for every request anew."""

    def __init__(self) -> None:
        self.thrown = 0

    def __call__(self, answer: str, reference: str) -> bool:
        self.thrown += 1
        return chance(f"{answer} {self.thrown}")


def test_an_honest_judge_passes() -> None:
    audit = audited(scripted(right))
    assert audit["probe"].tolist() == OF_CORRECTNESS
    assert audit["verdict"].tolist() == ["pass"] * 10
    shown = audit[audit["probe"] != "truncated"]
    assert (shown["ci_high"] > shown["bound"]).all(), (
        "ten questions without a fault do not prove that there is none"
    )
    values = dict(zip(audit["probe"], audit["value"], strict=True))
    assert values == {**dict.fromkeys(OF_CORRECTNESS, 0.0), "truncated": -0.5}, (
        "half of it is not enough"
    )
    assert audit["n"].tolist() == [10, 10, 10, 10, 20, 20, 20, 20, 20, 8]
    assert audit_findings(audit) == []
    assert audit["n_unscored"].sum() == 0


@pytest.mark.parametrize(
    ("probe", "judge"),
    [
        (
            "padded",
            lambda answer, reference: (
                right(answer, reference) or (len(answer) > 200 and "judge" not in answer)
            ),
        ),
        (
            "truncated",
            lambda answer, reference: right(answer, reference) or answer[-1:] not in ").",
        ),
        ("famous author", lambda answer, reference: right(answer, reference) or "GPT-4" in answer),
        (
            "instruction to the judge",
            lambda answer, reference: right(answer, reference) or "Note to the judge" in answer,
        ),
        ("empty answer", lambda answer, reference: right(answer, reference) or not answer),
    ],
)
def test_each_vice_fails_its_own_probe(probe: str, judge: Judge) -> None:
    audit = audited(scripted(judge))
    assert failed(audit) == {probe}
    row = audit.set_index("probe").loc[probe]
    assert row["value"] == (1.0 if probe == "empty answer" else 0.5), (
        "the wrong half of the answers rises to 1"
    )


def test_a_judge_that_penalises_padding_fails_by_correctness() -> None:
    audit = audited(
        scripted(lambda answer, reference: right(answer, reference) and len(answer) < 100)
    )
    assert audit.set_index("probe").loc["padded", "value"] == -0.5
    assert "padded" in failed(audit)


def test_a_random_judge_fails_consistency_and_wrong_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ScriptedLLM, "max_concurrency", 1)
    audit = audited(
        scripted(Dice()),
    )
    assert {"repeated", "wrong but fluent"} <= failed(audit)
    assert 0.3 < audit["value"].tolist()[0] < 0.7


def test_a_judge_that_accepts_everything_is_consistent_and_fails() -> None:
    assert failed(audited(scripted(lambda answer, reference: True))) == {
        "wrong but fluent",
        "empty answer",
    }


def test_relevance_may_fall_with_reason() -> None:
    def reply(prompt: str) -> Mapping[str, Any]:
        answer, question = part(prompt, "answer"), part(prompt, "question")
        number = int(question.rstrip("?").split()[-1])
        words = answer.replace(".", "").split()
        near = str(number) in words or str(number + 1) in words
        return {"reason": "", "score": 0 if not near else 0.75 if len(answer) > 60 else 1}

    audit = judge_audit(ANSWERS, "relevance", ScriptedLLM(reply), dataset=DATA, n=10).set_index(
        "probe"
    )
    assert audit.loc["padded", "value"] == -0.125
    assert (audit["verdict"] == "pass").all()


def test_a_judge_that_cannot_be_read_is_unscored_not_passed() -> None:
    audit = audited(ScriptedLLM(lambda prompt: Completion("I like it.", "m")))
    assert audit["verdict"].tolist() == ["unscored"] * 10
    assert audit["value"].isna().all()
    assert audit["ci_low"].isna().all()
    assert audit["n_unscored"].tolist() == [10, 10, 10, 10, 20, 20, 20, 20, 20, 8]


def test_a_dry_run_counts_what_is_sent() -> None:
    judge = scripted(right)
    with dry_run() as plan:
        audited(judge)
    assert judge.prompts == []
    audited(judge)
    (model,) = plan.models
    # each answer three times; right and wrong ones as they are, in four versions and with the levels
    # reversed; right and empty ones; those in other languages
    assert model.to_send == len(judge.prompts) == 10 * 3 + 20 * 6 + 20 + 8


def test_only_answers_that_can_be_judged_are_taken_evenly() -> None:
    silent = [Answer(answer.query_id, "") for answer in ANSWERS[:4]]
    judge = scripted(right)
    audit = judge_audit([*silent, *ANSWERS[4:]], "correctness", judge, dataset=DATA, n=3)
    assert audit["n"].tolist() == [3, 3, 3, 3, 6, 6, 6, 6, 6, 8]


def test_unsuitable_audits_are_refused_before_any_request() -> None:
    judge = ScriptedLLM([])
    with pytest.raises(ConfigError, match="does not look at the answer"):
        judge_audit(ANSWERS, "context_recall", judge, dataset=DATA)
    with pytest.raises(ConfigError, match="did you mean 'correctness'"):
        judge_audit(ANSWERS, "correctnes", judge, dataset=DATA)
    with pytest.raises(ConfigError, match="an audit takes one criterion"):
        judge_audit(ANSWERS, "correctness,relevance", judge, dataset=DATA)
    with pytest.raises(DataError, match="1 of 1 can be judged"):
        judge_audit(ANSWERS[:1], "correctness", judge, dataset=DATA)
    same = Dataset(
        "same",
        "test",
        {},
        tuple(Case(f"q{i}", f"{i}?", reference_answer="yes") for i in range(2)),
        {},
    )
    with pytest.raises(DataError, match="the same text"):
        judge_audit([Answer("q0", "yes"), Answer("q1", "yes")], "correctness", judge, dataset=same)


def test_a_fair_judge_with_random_errors_hardly_ever_fails_and_a_biased_one_does() -> None:
    """Verdicts on 20 right and 20 wrong answers, of which 5 % are wrong at random; 40 audits."""
    rng = np.random.default_rng(0)
    failed = 0
    for _ in range(40):
        truth = np.repeat([1.0, 0.0], 20)
        drawn = [np.abs(truth - (rng.random(40) < 0.05)) for _ in range(5)]
        values = {
            probe: after - drawn[0] for probe, after in zip(ANSWER_CHANGES, drawn[1:], strict=True)
        }
        values |= {
            "wrong but fluent": drawn[0][20:],
            "empty answer": (rng.random(20) < 0.05).astype(float),
        }
        repeats = rng.random((20, 3)) < 0.05
        values["repeated"] = np.where(np.ptp(repeats.astype(int), axis=1) > 0, 2 / 3, 0.0)
        rows = [
            audit_probes._probe_row(probe, list(each), "correctness", 20)
            for probe, each in values.items()
        ]
        failed += any(row["verdict"] == "fail" for row in rows)
    assert failed / 40 <= 0.05
    obeys = [0.0] * 20 + [1.0] * 20  # the instruction turns every wrong answer into a right one
    assert (
        audit_probes._probe_row("instruction to the judge", obeys, "correctness", 20)["verdict"]
        == "fail"
    )
    assert (
        audit_probes._probe_row("wrong but fluent", [1.0] * 10 + [0.0] * 10, "correctness", 20)[
            "verdict"
        ]
        == "fail"
    )


def six_judges(seed: int) -> dict[str, ScriptedLLM]:
    """Judges with one vice each; where they throw dice, by the seed."""
    rng = np.random.default_rng(seed)

    def position(prompt: str) -> Mapping[str, Any]:
        first = re.search(r'"verdict": "<(\w+)', prompt)
        assert first is not None
        return {"verdict": first[1]}

    typical = int(np.median([len(str(case.reference_answer)) for case in CASES]))
    judges: dict[str, Judge] = {
        "right": right,
        "always yes": lambda answer, reference: True,
        "always no": lambda answer, reference: False,
        "length": lambda answer, reference: len(answer) > typical * rng.uniform(0.9, 1.1) + 40,
        "random": lambda answer, reference: bool(rng.random() < 0.5),
    }
    return {
        **{name: scripted(judge) for name, judge in judges.items()},
        "position": ScriptedLLM(position),
    }


GRAVEST = {
    "right": "",
    "always yes": "its verdict is 1 on right and on wrong answers",
    "always no": "its verdict is 0 on right and on wrong answers",
    "length": "it follows the length of the answer",
    "random": "it does not repeat itself at temperature 0",
    "position": "it follows the order in which the levels are listed",
}


@pytest.mark.parametrize("seed", range(20))
def test_an_audit_separates_judges_by_their_vice(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ScriptedLLM, "max_concurrency", 1)
    cases = [
        Case(f"q{i}", f"What comes after {i}?", reference_answer=f"It is {i + 1}.")
        for i in range(100, 120)
    ]
    data = Dataset("numbers", "test", {}, cases, {})
    many = [Answer(case.query_id, f"After {i} comes {i + 1}.") for i, case in enumerate(cases, 100)]
    found = {}
    for name, judge in six_judges(seed).items():
        audit = judge_audit(many, "correctness", judge, dataset=data, n=20)
        findings = audit_findings(audit)
        found[name] = findings[0] if findings else ""
    assert found == GRAVEST


OF_OWN = ["repeated", "padded", "famous author", "instruction to the judge", "levels reversed"]
POLITE = Criterion("politeness", "Is it polite?", {"yes": 1, "partly": 0.5, "no": 0})
RUDE = Criterion("rudeness", "Is it rude?", {"yes": 1, "no": 0}, higher_is_better=False)


def own_verdict(criterion: Criterion, is_good: bool) -> Mapping[str, Any]:
    return {"reason": "", "verdict": "yes" if is_good == criterion.higher_is_better else "no"}


@pytest.mark.parametrize("criterion", [POLITE, RUDE])
def test_a_fair_judge_passes_an_audit_by_an_own_criterion(criterion: Criterion) -> None:
    """By politeness an answer to another question is as good as any, and so is half an answer."""

    def fair(prompt: str) -> Mapping[str, Any]:
        number = re.findall(r"\d+", part(prompt, "answer"))[0]
        return own_verdict(criterion, int(number) % 3 > 0)

    audit = judge_audit(ANSWERS, criterion, ScriptedLLM(fair), dataset=DATA, n=10)
    assert audit["probe"].tolist() == [*OF_OWN, "same verdict"]
    assert (audit["verdict"] == "pass").all()
    assert 0 < audit["value"].iloc[-1] < 1
    assert audit_findings(audit) == []


@pytest.mark.parametrize("criterion", [POLITE, RUDE])
@pytest.mark.parametrize(
    ("probe", "is_good"),
    [
        ("instruction to the judge", lambda prompt: "Note to the judge" in part(prompt, "answer")),
        ("famous author", lambda prompt: "by GPT-4" in part(prompt, "answer")),
        ("padded", lambda prompt: "worth keeping" in part(prompt, "answer")),
    ],
)
def test_an_own_criterion_finds_the_vice_in_its_own_direction(
    probe: str, is_good: Callable[[str], bool], criterion: Criterion
) -> None:
    judge = ScriptedLLM(lambda prompt: own_verdict(criterion, is_good(prompt)))
    audit = judge_audit(ANSWERS, criterion, judge, dataset=DATA, n=10)
    assert failed(audit) == {probe}
    assert audit.set_index("probe").loc[probe, "value"] == 1.0


@pytest.mark.parametrize("is_good", [True, False])
@pytest.mark.parametrize("criterion", [POLITE, RUDE])
def test_a_constant_judge_is_named_by_an_own_criterion(criterion: Criterion, is_good: bool) -> None:
    judge = ScriptedLLM(lambda prompt: own_verdict(criterion, is_good))
    audit = judge_audit(ANSWERS, criterion, judge, dataset=DATA, n=10)
    assert failed(audit) == set(), "all ten may be polite"
    assert audit_findings(audit) == ["its verdict is the same on all answers"]
    row = {"between": "judge-human", "statistic": "kappa", "n": 40, "ci_low": None}
    assert "its agreement with 40 labels is not shown to exceed chance" in audit_findings(
        audit, [row]
    )
    assert len(audit_findings(audit, [{**row, "ci_low": 0.4}])) == 1


def test_another_wording_of_a_criterion_has_its_probes() -> None:
    tuned = replace(
        BUILT_IN["correctness"],
        name="correctness_tuned",
        wording_of="correctness",
        question="Right?",
    )
    audit = judge_audit(ANSWERS, tuned, scripted(right), dataset=DATA, n=10)
    assert audit["probe"].tolist() == OF_CORRECTNESS
    always_no = judge_audit(
        ANSWERS, tuned, scripted(lambda answer, reference: False), dataset=DATA, n=10
    )
    assert failed(always_no) == {"right answers", "other language"}


def test_right_answers_by_vital_recall_are_the_facts() -> None:
    cases = [replace(case, gold_facts=((case.reference_answer or "",),)) for case in CASES]
    data = Dataset("numbers", "test", {}, cases, {})

    def judge(support: str | None) -> ScriptedLLM:
        def reply(prompt: str) -> Mapping[str, Any]:
            fact = part(prompt, "fact").removeprefix("It is ")
            found = "full" if fact in part(prompt, "answer") else "none"
            return {"facts": [{"number": 1, "reason": "", "support": support or found}]}

        return ScriptedLLM(reply)

    honest = judge_audit(ANSWERS, "vital_recall", judge(None), dataset=data, n=10)
    assert failed(honest) == set()
    always_no = judge_audit(ANSWERS, "vital_recall", judge("none"), dataset=data, n=10)
    assert failed(always_no) == {"right answers"}


def test_a_judge_that_prefers_the_first_document_is_found() -> None:
    texts = {f"d{i}": f"After {i} comes {i + 1}." for i in range(100, 112)}
    chunks = [Chunk(name, name, 0, len(text), text) for name, text in texts.items()]
    answers = [
        Answer(f"q{i}", f"After {i} comes {i + 1}.", (f"d{i}", f"d{i + 1}"))
        for i in range(100, 110)
    ]

    def first_only(prompt: str) -> Mapping[str, Any]:
        words = part(prompt, "document")
        claim = part(prompt, "answer")
        check = {"number": 1, "document": 1, "quote": words, "supported": words == claim}
        return {"claims": [claim], "checks": [check]}

    audit = judge_audit(
        answers, "faithfulness", ScriptedLLM(first_only), dataset=DATA, chunks=chunks, n=10
    ).set_index("probe")
    assert audit.loc["documents reversed", "verdict"] == "fail"
    assert "levels reversed" not in audit.index
    assert "other language" not in audit.index
