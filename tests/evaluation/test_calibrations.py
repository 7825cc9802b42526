"""A calibration gives a score its meaning in measures, verdicts, claims and reports; without one
reports state it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ragbench.errors import ConfigError, DataWarning
from ragbench.evaluation import Result, evaluate, load_calibrations, load_targets
from ragbench.metrics.score_calibration import Calibration, calibrate_threshold, score_version
from ragbench.report.page.markdown import report_markdown
from ragbench.report.page.sentences import figures
from ragbench.types import Answer, Case, Dataset, Document, Passage, SafetySample

TEXT = "The tower opened in 1889. It is 330 metres high and stands in Paris."
CASES = [
    Case(f"q{i}", "When did it open?", reference_answer="It opened in 1889.") for i in range(4)
]
DATA = Dataset(
    "towers", "test", {"d": Document("d", TEXT)}, CASES, {case.query_id: {"d": 1} for case in CASES}
)
TEXTS = [
    "The tower opened in 1889.",
    "It opened in 1889, and Paris is large.",
    "Cats sleep all day.",
    "It is high.",
]
ANSWERS = [
    Answer(f"q{i}", text, contexts=("p",), passages=(Passage("p", TEXT, "d"),))
    for i, text in enumerate(TEXTS)
]


def of(measure: str, threshold: float, model: str = "minilm") -> Calibration:
    scores = np.linspace(0, 1, 60)
    labels = scores + 0.2 * np.sin(40 * scores) > 0.5
    made = calibrate_threshold(scores, labels, measure=measure, model=model, n_resamples=5)
    return replace(made, threshold=threshold, ci_low=threshold - 0.05, ci_high=threshold + 0.05)


def measured(*calibrations: Calibration, **options: object) -> Result:
    return evaluate(DATA, ANSWERS, embedder="wordllama", calibration=calibrations, **options)  # type: ignore[arg-type]


def note(report: Result, perspective: str) -> str:
    return next(one.note for one in report.perspectives if one.name == perspective)


def test_without_a_calibration_reports_show_the_ranking_marked_uncalibrated() -> None:
    report = measured()
    assert "claim_support is uncalibrated: it ranks answers" in note(report, "groundedness")
    assert "lowest: q2" in note(report, "groundedness")
    assert "semantic_similarity is uncalibrated" in note(report, "answer")
    assert note(report, "overall") == "uncalibrated thresholds decide: semantic 0.7"
    assert "claim_support is uncalibrated" in report_markdown(report).replace("\\", "")
    assert "with a support below 0.5, uncalibrated" in dict(figures(report))["Claims"]
    assert not any("hallucination" in reason for case in report.cases for reason in case.reasons)
    assert "claim_support" not in {row.measure for row in report.rows if row.target is not None}


def test_with_a_calibration_scores_have_a_meaning(tmp_path: Path) -> None:
    own = of("claim_support", 0.6)
    report = measured(own)
    values = {row.measure: row.value for row in report.rows}
    supports = [case.scores["claim_support"] for case in report.cases]
    expected = np.mean([own.probability(value) for value in supports if value is not None])
    assert values["calibrated:claim_support"] == pytest.approx(expected)
    assert note(report, "groundedness") == str(own)
    for case, value in zip(report.cases, supports, strict=True):
        assert value is not None
        assert any(reason.startswith("hallucination") for reason in case.reasons) == (
            value < own.threshold
        )
    assert "below 0.60, calibrated" in dict(figures(report))["Claims"]
    assert report.settings["calibration"]["claim_support"]["threshold"] == 0.6
    assert report.settings["cases"]["hallucination"] == pytest.approx(0.4)
    file = own.save(tmp_path / "mine.json")
    again = evaluate(DATA, ANSWERS, embedder="wordllama", calibration=file)
    assert again.scores.equals(report.scores)
    assert again.settings == report.settings


def test_the_threshold_of_claims_is_that_of_the_calibration() -> None:
    strict, lenient = (
        measured(of("claim_support", value)).counts["unsupported_claims"]
        for value in (0.999, 0.001)
    )
    assert strict > lenient == 0


def test_a_target_can_name_the_calibrated_measure() -> None:
    report = measured(
        of("claim_support", 0.6), targets=load_targets(fail_under="calibrated:claim_support=0.999")
    )
    assert "calibrated:claim_support" in report.missed
    assert not report.passed


def test_semantic_similarity_decides_by_its_calibration() -> None:
    report = measured(of("semantic_similarity", 0.01, model="wordllama"))
    assert note(report, "overall") == ""
    assert not any("semantic" in reason for reason in report.cases[0].reasons)


@pytest.mark.parametrize(
    ("calibrations", "message"),
    [
        (
            [of("claim_support", 0.5, model="lexical")],
            "is for scores by 'lexical', and here they are computed by 'minilm'",
        ),
        ([of("claim_support", 0.5)] * 2, "two calibrations of claim_support"),
        ([of("claim_suport", 0.5)], "unknown measure 'claim_suport'"),
        (["nowhere.json"], "there is no file nowhere.json"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_asked(
    calibrations: list[object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        evaluate(DATA, "no-such-system", embedder="wordllama", calibration=calibrations)  # type: ignore[arg-type]


def test_a_calibrated_detector_decides_by_its_threshold() -> None:
    inputs = (SafetySample("a", "x" * 70, True), SafetySample("b", "x" * 50, False))
    data = Dataset("inputs", "test", {}, (), {}, safety_inputs=inputs)

    def correct(*calibrations: Calibration) -> list[bool]:
        result = evaluate(data, [], detector=lambda text: len(text) / 100, calibration=calibrations)
        return [sample.correct for sample in result.samples]

    assert correct() == [True, False], "0.50 raises a warning by default"
    assert correct(of("injection_score", 0.6, model="")) == [True, True]


def test_a_calibration_of_other_coefficients_is_refused(tmp_path: Path) -> None:
    own = of("claim_support", 0.6)
    assert (
        own.version
        == score_version("claim_support", "minilm")
        != score_version("claim_support", "lexical")
    )
    file = replace(own, version="0123456789ab").save(tmp_path / "old.json")
    with pytest.raises(
        ConfigError,
        match=f"claim_support is for scores by coefficients 0123456789ab, .* {own.version}",
    ):
        load_calibrations(file)
    with pytest.warns(DataWarning, match="claim_support does not record the coefficients"):
        load_calibrations(replace(own, version=""))
    assert of("semantic_similarity", 0.6).version == ""


def test_files_are_named_with_commas_between(tmp_path: Path) -> None:
    one = of("claim_support", 0.6).save(tmp_path / "a.json")
    other = of("semantic_similarity", 0.5).save(tmp_path / "b.json")
    assert list(load_calibrations(f"{one}, {other}")) == ["claim_support", "semantic_similarity"]
    assert load_calibrations("") == {}
