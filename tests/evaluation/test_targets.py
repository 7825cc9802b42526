"""Targets: the defaults, a user's own file, gates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import ConfigError
from ragbench.evaluation import Targets, load_targets, verdict
from ragbench.evaluation.records import MeasureResult
from ragbench.evaluation.rows import compare_with_target
from ragbench.evaluation.targets import check_gates_measured, check_reachable
from ragbench.metrics.overall import WEIGHTS


def test_the_defaults_are_those_of_the_documentation() -> None:
    targets = load_targets()
    assert targets.measures["nDCG@5"] == 0.6
    assert targets.measures["R@5"] == 0.7
    assert not {"ngram_redundancy", "citation_form", "claim_support"} & targets.measures.keys()
    assert "claim_support" not in targets.measures  # it ranks; no value of it is a verdict
    assert targets.measures["pass_rate"] == 0.9
    assert targets.cases["keyword"] == 0.6
    assert not {"semantic", "citation", "hallucination", "expected_claims"} & targets.cases.keys()
    assert targets.gates == frozenset()


def test_a_preset_has_the_default_targets_of_its_design_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("RAG__MIN_CITATION_COVERAGE", raising=False)
    assert dict(load_targets("guide").measures) == {
        "P@5": 0.7,
        "R@5": 0.8,
        "RR": 0.8,
        "Success@5": 0.9,
        "llm_faithfulness": 0.9,
        "llm_relevance": 0.8,
        "citation_accuracy": 0.95,
        "citation_coverage": 0.7,
    }
    framework = load_targets("framework")
    assert (
        framework.measures.items()
        >= {
            "nDCG@5": 0.6,
            "R@5": 0.7,
            "ngram_redundancy": 0.2,
            "tfidf_redundancy": 0.2,
            "unique_token_ratio": 0.7,
            "attack_auc": 0.85,
            "attack_tpr@fpr1%": 0.7,
            "attack_tpr@fpr5%": 0.85,
            "leak_detection": 0.95,
            "forbidden_claims_absent": 1,
            "numeric_support": 1,
            "pass_rate": 0.9,
        }.items()
    )
    assert set(framework.named) == set(
        framework.measures
    )  # also where ragbench's own targets do not apply
    phase4 = load_targets("phase4")
    assert dict(phase4.measures) == {"pass_rate": 0.8}
    assert {
        name: phase4.cases[name]
        for name in ("semantic", "keyword", "expected_document", "llm_hallucination")
    } == {"semantic": 0.7, "keyword": 0.6, "expected_document": 0.8, "llm_hallucination": 0.2}
    assert load_targets("adr").measures == {"R@10": 0.8, "llm_correctness": 1}
    assert load_targets("pipeline").measures == {"pass_rate": 0.8}


def test_a_file_may_begin_with_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG__MIN_CITATION_COVERAGE", "0.5")
    file = tmp_path / "mine.toml"
    file.write_text(
        'preset = "guide"\n[targets]\n"P@5" = 0.3\nRR = false\n[cases]\nsemantic = 0.5\n'
    )
    targets = load_targets(file).gated("R@5=0.9")
    assert [targets.measures[name] for name in ("P@5", "R@5", "citation_coverage")] == [
        0.3,
        0.9,
        0.5,
    ]
    assert "RR" not in targets.measures
    assert "nDCG@5" not in targets.measures
    assert targets.cases["semantic"] == 0.5
    for value in ("most", "1.5", "nan"):
        monkeypatch.setenv("RAG__MIN_CITATION_COVERAGE", value)
        with pytest.raises(ConfigError, match=f"RAG__MIN_CITATION_COVERAGE is '{value}'"):
            load_targets("guide")
    for text in ('preset = "gide"', "preset = 1"):
        file.write_text(text)
        with pytest.raises(ConfigError, match="unknown preset"):
            load_targets(file)
    with pytest.raises(ConfigError, match="framework, guide"):
        load_targets(tmp_path / "gide")


def test_a_file_changes_single_values(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        '[targets]\n"Recall@5" = 0.3\nclaim_support = false\nRR = 1\n[cases]\nsemantic = 0.5\n'
    )
    targets = load_targets(file)
    assert targets.measures["R@5"] == 0.3
    assert targets.measures["RR"] == 1.0
    assert "claim_support" not in targets.measures
    assert targets.measures["nDCG@5"] == 0.6
    assert (targets.cases["semantic"], targets.cases["keyword"]) == (0.5, 0.6)
    file.write_text("[weights]\nhallucination = false\ngold_facts = 10\n")
    weights = load_targets(file).weights
    assert (weights["hallucination"], weights["gold_facts"], weights["semantic"]) == (0, 10, 40)


def test_gates_come_last(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[targets]\n"nDCG@5" = 0.3\n')
    targets = load_targets(file).gated(" nDCG@5 = 0.4 , claim_support=.9,")
    assert (targets.measures["nDCG@5"], targets.measures["claim_support"]) == (0.4, 0.9)
    assert targets.gates == {"nDCG@5", "claim_support"}
    assert load_targets().gated({"MRR": 0.5}).gates == {"RR"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[targets]\nclaim_suport = 1",
            "unknown measure 'claim_suport'; did you mean 'claim_support'",
        ),
        ('[targets]\n"nDGC@5" = 1', "did you mean 'nDCG@5'"),
        ("[target]\nRR = 1", "unknown table 'target'; did you mean 'targets'"),
        ("[cases]\nsemantics = 1", "unknown part 'semantics'; did you mean 'semantic'"),
        ("[cases]\nsemantic = false", "a threshold of 0"),
        ("[cases]\nsemantic = 7", "semantic"),
        ("[weights]\nsemantics = 1", "unknown part 'semantics'; did you mean 'semantic'"),
        ("[weights]\nsemantic = -1", "expected a number of 0 or more"),
        (
            "[weights]\n" + "".join(f"{part} = 0\n" for part in WEIGHTS),
            "all weights of the overall are 0",
        ),
        ("targets = 3", "targets is 3; expected a table"),
        ("[targets]\nRR = true", "RR = True; expected a finite number"),
        ('[targets]\nRR = "0.5"', "RR = '0.5'; expected a finite number"),
        ("[targets]\nRR = nan", "expected a finite number"),
        ("[targets]\nRR = -0.1", "RR lies between 0 and 1; -0.1 is never crossed"),
        ('[targets]\nRR = 1\n"MRR" = 1', "is given twice"),
        ("RR = ", "is not valid TOML"),
    ],
)
def test_errors_in_a_file(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_targets(file)


def test_all_errors_are_named_at_once(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[targets]\nRRR = 1\nclaim_support = []\n[other]\n")
    with pytest.raises(
        ConfigError, match=r"mine\.toml: .*'RRR'.*claim_support = \[\].*table 'other'"
    ):
        load_targets(file)


@settings(max_examples=60, deadline=None)
@given(
    st.binary(max_size=80) | st.text(max_size=80).map(lambda text: text.encode("utf-8", "replace"))
)
def test_any_file_gives_targets_or_one_clear_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    file = tmp_path_factory.mktemp("targets") / "fuzzed.toml"
    file.write_bytes(content)
    message = ""
    try:
        targets = load_targets(file)
    except ConfigError as exc:
        message = str(exc)
    assert message.count("fuzzed.toml") == 1 if message else targets.cases


@pytest.mark.parametrize("missing", ["none.toml", "."])
def test_no_file(missing: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no file|cannot be read"):
        load_targets(tmp_path / missing)


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        ("nDCG@5", "'nDCG@5' is not a target"),
        ("nDCG@5=", "is not a target"),
        ("nDCG@5=high", "'high' in 'nDCG@5=high' is not a number"),
        ("nDCG@5=inf", "expected a finite number"),
        ("RR=0.1,MRR=0.2", "names RR twice"),
        ("ndcg@5=60", "nDCG@5 lies between 0 and 1; 60 is never crossed"),
        ("cost_usd=-1", "cost_usd lies between 0 and inf; -1 is never crossed"),
        (",,", "names no measure"),
        ("ndgc=0.5", "unknown measure 'ndgc'"),
    ],
)
def test_errors_in_gates(gates: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_targets().gated(gates)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40))
def test_any_gates_give_targets_or_one_clear_error(text: str) -> None:
    message = ""
    try:
        targets = load_targets().gated(text)
    except ConfigError as exc:
        message = str(exc)
    assert (
        ("--fail-under" in message or "measure" in message)
        if message
        else targets.gates <= set(targets.measures)
    )


def test_verdicts() -> None:
    assert verdict(0.6, 0.6) == "passed"
    assert verdict(0.6 - 1e-12, 0.6) == "passed"
    assert verdict(0.59, 0.6) == "missed"
    assert verdict(0.59, 0.6, ceiling=0.5) == "unreachable"
    assert verdict(0.3, 0.2, lower_is_better=True) == "missed"
    assert verdict(0.3, -0.1, ceiling=0.0, lower_is_better=True) == "unreachable"
    assert verdict(None, 0.6) == "unscored"
    assert verdict(0.6, None) == "no target"


def test_gates_beyond_the_ceiling_and_unmeasured_gates_are_refused() -> None:
    targets = Targets(
        {"P@5": 0.9, "fact_dispersion": 0.5}, {}, frozenset({"P@5", "fact_dispersion"})
    )
    with pytest.raises(ConfigError, match=r"P@5=0\.9 \(at most 0\.400 can be reached\)"):
        check_reachable(targets, {"P@5": 0.4})
    with pytest.raises(ConfigError, match=r"fact_dispersion=0\.5 \(at least 1\.000"):
        check_reachable(targets, {"fact_dispersion": 1.0})
    check_reachable(targets, {"P@5": 0.95})
    check_reachable(Targets({"P@5": 0.9}, {}), {"P@5": 0.4})  # a default is reported, not refused
    with pytest.raises(ConfigError, match=r"names P@5, of which nothing could be measured"):
        check_gates_measured(targets.gates, ["P@5", "RR"])
    check_gates_measured(targets.gates, ["RR"])


def test_a_value_that_equals_its_target_but_for_the_last_bit_has_reached_it() -> None:
    third = 0.1 + 0.2  # 0.30000000000000004
    assert verdict(third, 0.3, lower_is_better=True) == "passed"
    assert verdict(0.3, third) == "passed"
    assert verdict(0.31, 0.3, lower_is_better=True) == verdict(0.29, 0.3) == "missed"


def test_what_the_user_named_is_no_default_and_stays() -> None:
    targets = load_targets().gated("nDCG@5=0.5")
    assert "nDCG@5" in targets.named
    assert "nDCG@5" not in targets.defaults
    left = targets.without_defaults_for(["nDCG@5", "R@5"])
    assert left.measures["nDCG@5"] == 0.5
    assert "R@5" not in left.measures


@pytest.mark.parametrize(
    ("rate", "n_scored", "by_default", "named"),
    [
        (0.85, 20, "missed", "missed"),  # 17 passed, 3 failed, 5 not decided: 22 of 25
        (0.9, 20, "passed", "passed"),  # 23 of 25
        (0.75, 8, "passed", "missed"),  # 6 passed, 2 failed, 17 not decided: 23 of 25
        (0.88, 25, "missed", "missed"),
    ],
)
def test_undecided_questions_are_no_reason_to_miss_the_default_pass_rate(
    rate: float, n_scored: int, by_default: str, named: str
) -> None:
    row = MeasureResult("pass_rate", "overall", rate, rate - 0.1, rate + 0.1, n_scored, 25)
    defaults = load_targets()
    assert compare_with_target(row, defaults).verdict == by_default
    own = replace(defaults, defaults=frozenset())
    assert compare_with_target(row, own).verdict == named


@pytest.mark.parametrize(
    ("low", "high", "sure"), [(0.7, 0.8, True), (0.85, 0.95, False), (0.92, 0.99, True)]
)
def test_a_verdict_is_sure_where_the_whole_interval_is_on_one_side(
    low: float, high: float, sure: bool
) -> None:
    targets = replace(load_targets(), measures={"R@5": 0.9}, defaults=frozenset())
    row = MeasureResult("R@5", "retrieval", (low + high) / 2, low, high, 25, 25)
    assert compare_with_target(row, targets).sure is sure
