"""recommend: the pattern decides, every recommendation has its figures, none where all is well."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragbench as rb
from ragbench.errors import DataWarning, FailureKind
from ragbench.evaluation import Targets, recommendations
from ragbench.evaluation.records import Advice, MeasureResult
from ragbench.evaluation.rows import compare_with_target
from ragbench.registry import higher_is_better
from ragbench.statistics.columns import known_number

TARGETS = {
    "nDCG@5": 0.6,
    "R@5": 0.7,
    "P@5": 0.15,
    "RR": 0.6,
    "context_recall": 0.7,
    "ngram_redundancy": 0.2,
    "tfidf_redundancy": 0.2,
    "unique_token_ratio": 0.7,
    "fact_dispersion": 3,
    "claim_support": 0.85,
    "llm_faithfulness": 0.8,
    "citation_form": 0.95,
    "citation_content": 0.85,
    "citation_coverage": 0.8,
    "gold_fact_coverage": 0.7,
    "semantic_similarity": 0.7,
    "llm_relevance": 0.7,
    "outcome_correct": 0.9,
}


def summary(**means: float) -> pd.DataFrame:
    """As from `summarise`, with an interval of 0.02 on both sides; "@" is written "_at_"."""
    rows = [
        (name.replace("_at_", "@"), mean, mean - 0.02, mean + 0.02, 40, 50)
        for name, mean in means.items()
    ]
    return pd.DataFrame(rows, columns=["measure", "mean", "ci_low", "ci_high", "n_scored", "n"])


def recommend(
    frame: pd.DataFrame,
    targets: dict[str, float],
    *,
    ceilings: dict[str, float] | None = None,
    abstentions: pd.DataFrame | None = None,
    is_extractive: bool = False,
) -> tuple[Advice, ...]:
    rows = []
    for name, mean, low, high, n_scored, n in frame.itertuples(index=False, name=None):
        value, low, high = map(known_number, (mean, low, high))
        best = (ceilings or {}).get(name)
        rows.append(MeasureResult(name, "", value, low, high, n_scored, n, best))
    aims = Targets(targets, {})
    targeted = [compare_with_target(row, aims) for row in rows]
    return recommendations.recommend(targeted, abstentions, is_extractive=is_extractive)


def titles(**means: float) -> list[str]:
    return [advice.title for advice in recommend(summary(**means), TARGETS)]


def test_nothing_where_everything_meets_its_target() -> None:
    good = {name: (1.0 if higher_is_better(name) else 0.1) for name in TARGETS}
    frame = pd.DataFrame(
        [(name, mean, mean, mean, 9, 9) for name, mean in good.items()], columns=summary().columns
    )
    abstentions = pd.DataFrame(
        [[95, 5, 0], [1, 19, 0]],
        ["answerable", "unanswerable"],
        ["answered", "abstained", "failed"],
    )
    assert recommend(frame, TARGETS, abstentions=abstentions) == ()
    assert recommend(summary(), TARGETS) == ()


@pytest.mark.parametrize(
    ("means", "title"),
    [
        (
            {"R_at_5": 0.9, "claim_support": 0.6},
            "Answers state what their context does not support, although the context is good",
        ),
        (
            {"R_at_5": 0.9, "llm_faithfulness": 0.6},
            "Answers state what their context does not support, although the context is good",
        ),
        ({"claim_support": 0.6}, "Answers state what their context does not support"),
        ({"R_at_5": 0.5}, "The needed evidence is not retrieved"),
        ({"context_recall": 0.5}, "The needed evidence is not retrieved"),
        ({"R_at_5": 0.9, "context_recall": 0.5}, "The retrieved evidence does not reach the model"),
        ({"R_at_5": 0.9, "RR": 0.3}, "The needed evidence is retrieved, but ranked too low"),
        ({"P_at_5": 0.1}, "Much of what is retrieved is not relevant"),
        ({"ngram_redundancy": 0.4, "unique_token_ratio": 0.4}, "The context repeats itself"),
        (
            {"ngram_redundancy": 0.1, "unique_token_ratio": 0.4},
            "Few of the context's words are new",
        ),
        ({"fact_dispersion": 4.0}, "The facts are spread over many chunks"),
        ({"citation_form": 0.5}, "Citations name what was not retrieved"),
        ({"citation_content": 0.5}, "Cited passages do not support the statements that cite them"),
        ({"citation_coverage": 0.5}, "Many claims carry no citation"),
        ({"gold_fact_coverage": 0.5}, "Answers leave out what is expected"),
        (
            {"gold_fact_coverage": 0.5, "context_recall": 0.9},
            "Answers leave out what is expected although it was found",
        ),
        ({"semantic_similarity": 0.5}, "Answers miss the question or the reference"),
        ({"outcome_correct": 0.5}, "Outcomes or flags are not those expected"),
    ],
)
def test_one_pattern_one_recommendation(means: dict[str, float], title: str) -> None:
    assert titles(**means) == [title]


def test_bad_retrieval_explains_what_follows_from_it() -> None:
    assert titles(R_at_5=0.3, claim_support=0.5, gold_fact_coverage=0.2) == [
        "The needed evidence is not retrieved",
        "Answers state what their context does not support, and the context lacks the needed "
        "evidence",
        "Answers leave out what is expected, and so does the context",
    ]


def test_the_figures_name_target_interval_and_number_scored() -> None:
    (advice,) = recommend(summary(fact_dispersion=4.0), TARGETS)
    assert advice.evidence == ("fact_dispersion 4.000 [3.980, 4.020] > 3 (40 of 50 scored)",)
    (advice,) = recommend(summary(citation_form=0.94), TARGETS)
    assert advice.evidence == (
        "citation_form 0.940 [0.920, 0.960] < 0.95 (40 of 50 scored; the interval includes the "
        "target: evaluate more questions)",
    )


def test_a_single_question_has_no_interval() -> None:
    frame = pd.DataFrame([("R@5", 0.0, pd.NA, pd.NA, 1, 1)], columns=summary().columns)
    assert recommend(frame, TARGETS)[0].evidence == ("R@5 0.000 < 0.7 (1 of 1 scored)",)


def test_what_is_unscored_or_has_no_target_is_left_out() -> None:
    frame = pd.DataFrame(
        [("R@5", pd.NA, pd.NA, pd.NA, 0, 9), ("AP", 0.0, 0.0, 0.0, 9, 9)], columns=summary().columns
    )
    assert recommend(frame, TARGETS) == ()


def test_a_target_out_of_reach_is_not_blamed_on_the_system() -> None:
    (advice,) = recommend(summary(R_at_5=0.4), TARGETS, ceilings={"R@5": 0.5})
    assert advice.title == "A target is out of reach"
    assert advice.evidence[0].endswith(", ceiling 0.500")
    (reachable,) = recommend(summary(R_at_5=0.4), TARGETS, ceilings={"R@5": 0.7})
    assert reachable.title == "The needed evidence is not retrieved"


def counts(answerable: list[int], unanswerable: list[int]) -> pd.DataFrame:
    return pd.DataFrame(
        [answerable, unanswerable],
        ["answerable", "unanswerable"],
        ["answered", "abstained", "failed"],
    )


def test_abstentions_and_failures_by_hand() -> None:
    found = recommend(summary(R_at_5=0.9), TARGETS, abstentions=counts([30, 10, 2], [9, 1, 0]))
    assert [advice.title for advice in found] == [
        "Some questions have no answer at all",
        "It abstains from questions that have an answer",
        "It answers questions that have no answer",
    ]
    assert found[0].evidence == ("2 of 52 questions failed",)
    # Wilson: 10/42
    assert (
        found[1].evidence[0]
        == "10 of 42 answerable questions abstained from: 0.238 [0.135, 0.385] > 0.1"
    )
    assert found[1].cause.startswith("the system is more careful")
    assert found[2].evidence == (
        "9 of 10 unanswerable questions answered: 0.900 [0.596, 0.982] > 0.1",
    )
    weak = recommend(summary(R_at_5=0.3), TARGETS, abstentions=counts([30, 10, 0], [0, 0, 0]))
    assert weak[1].cause == "the context lacks the answer"


def test_a_system_without_a_model_is_not_told_to_change_its_instructions() -> None:
    """One advice, to ask a model, has the figures of all that it replaces; the others stay."""
    found = recommend(
        summary(RR=0.3, R_at_5=0.9, citation_form=0.5),
        TARGETS,
        abstentions=counts([30, 10, 0], [9, 1, 0]),
        is_extractive=True,
    )
    assert [advice.title for advice in found] == [
        "The needed evidence is retrieved, but ranked too low",
        "The answers are sentences of the documents, and not written by a language model",
    ]
    assert [figure.partition(" ")[0] for figure in found[1].evidence] == [
        "citation_form",
        "10",
        "9",
    ]
    assert not any("prompt" in advice.action or "instruct" in advice.action for advice in found)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(TARGETS)), st.floats(0, 5), max_size=12))
def test_never_without_a_figure_that_misses_its_target(means: dict[str, float]) -> None:
    frame = pd.DataFrame(
        [(name, mean, mean, mean, 9, 9) for name, mean in means.items()], columns=summary().columns
    )
    found = recommend(frame, TARGETS)
    missed = {
        name
        for name, mean in means.items()
        if (mean < TARGETS[name] if higher_is_better(name) else mean > TARGETS[name])
    }
    for advice in found:
        assert isinstance(advice, Advice)
        assert advice.cause
        assert advice.action
        assert missed & {text.split(" ")[0] for text in advice.evidence}
    assert bool(found) == any(abs(means[name] - TARGETS[name]) > 1e-9 for name in missed)


def test_failing_questions_without_any_missed_target_have_advice() -> None:
    failing = ["2 of 10 questions failed", "2 in the context, not used"]
    [advice] = recommendations.recommend([], failing=failing)
    assert advice.title == "Questions fail although no target is missed"
    assert advice.evidence == tuple(failing)
    assert recommendations.recommend([]) == ()
    low = compare_with_target(
        MeasureResult("claim_support", "groundedness", 0.1, 0.0, 0.2, 40, 40),
        Targets({"claim_support": 0.85}, {}),
    )
    [found] = recommendations.recommend([low], failing=failing)
    assert found.title != advice.title


def test_a_type_of_document_that_is_never_retrieved_is_named() -> None:
    corpus = {"a.md": "The line opened in 1881.", "b.md": "Dogs bark at night."}
    questions = {
        "q1": "When did the line open?",
        "q2": "Who bark at night?",
        "q3": "What is a canteen?",
        "q4": "Where is the station?",
    }
    qrels = {"q1": {"a.md": 1}, "q2": {"b.md": 1}, "q3": {"c.pdf": 1}, "q4": {"c.pdf": 1}}
    with pytest.warns(DataWarning, match=r"1 judged documents are not in the corpus.*'c.pdf'"):
        data = rb.Dataset.from_dicts(corpus, questions, qrels)
    result = rb.evaluate(data, "bm25")
    [advice] = [each for each in result.advice if "one type" in each.title]
    assert advice.evidence == ("no passage from any .pdf: 2 of 2 questions on them fail",)
    known = rb.Dataset.from_dicts(corpus, {"q1": questions["q1"]}, {"q1": {"a.md": 1}})
    assert not [each for each in rb.evaluate(known, "bm25").advice if "one type" in each.title]


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ((), "time-outs"),
        (["timeout", "server_error"], "time-outs"),
        (["timeout", "budget", "budget"], "maximum cost"),
        (["offline"], "without offline"),
        (["refused"], "key"),
        (["unreachable"], "address"),
        (["error"], "repair their cause"),
    ],
)
def test_the_action_after_failures_fits_their_most_frequent_kind(
    kinds: list[str], said: str
) -> None:
    abstentions = pd.DataFrame(
        [[7, 0, 3], [0, 0, 0]],
        ["answerable", "unanswerable"],
        ["answered", "abstained", "failed"],
    )
    failures = [FailureKind(kind) for kind in kinds]
    (advice,) = recommendations.recommend([], abstentions, failures=failures)
    assert advice.evidence == ("3 of 10 questions failed",)
    assert said in advice.action


def test_every_action_after_failures_is_about_a_kind_of_failure() -> None:
    assert set(recommendations._rules()["actions_after_failures"]) <= {*FailureKind}
