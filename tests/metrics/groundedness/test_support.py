"""claim_support: range, order, edges, and a named cross-encoder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import ConfigError, DataError
from ragbench.metrics.groundedness import claim_support, claim_supports
from ragbench.metrics.groundedness.support import answer_evidence, read_pairs
from ragbench.store import bypassed

TOWER = (
    "The Eiffel Tower is a lattice tower in Paris, France. It was opened on 31 March 1889 as the "
    "centrepiece of the World's Fair. Gustave Eiffel's company designed and built it. The tower "
    "is 330 metres tall and is not closed in winter."
)
RIVER = (
    "The Danube rises in the Black Forest. It flows through ten countries and enters the "
    "Black Sea in Romania."
)


@pytest.mark.parametrize("model", ["minilm", "lexical"])
def test_a_sentence_of_the_context_is_near_one(model: str) -> None:
    assert (
        claim_support(
            "Gustave Eiffel's company designed and built it.", [RIVER, TOWER], model=model
        )
        > 0.9
    )


@pytest.mark.parametrize("model", ["minilm", "lexical"])
def test_another_subject_is_near_zero(model: str) -> None:
    assert (
        claim_support("Photosynthesis turns carbon dioxide into sugar.", [TOWER], model=model) < 0.1
    )


def test_a_paraphrase_passes_and_an_invention_does_not() -> None:
    faithful = claim_support(
        "The tower, which stands in Paris, opened in March 1889.", [RIVER, TOWER]
    )
    assert faithful > 0.5
    assert (
        claim_support("The tower was painted green by Picasso after the war.", [RIVER, TOWER]) < 0.5
    )


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("The tower is 330 metres tall.", "The tower is 350 metres tall."),
        ("Gustave Eiffel's company built it.", "Otto Wagner's company built it."),
        ("The tower is not closed in winter.", "The tower is closed in winter."),
        ("The tower was opened in 1889.", "The tower was closed in 1889."),
        (
            "The Danube enters the Black Sea in Romania.",
            "The Danube enters the North Sea in Holland.",
        ),
    ],
)
def test_the_right_one_ranks_above_the_wrong_one(right: str, wrong: str) -> None:
    assert claim_support(right, [RIVER, TOWER]) > claim_support(wrong, [RIVER, TOWER])


def test_one_unsupported_sentence_lowers_the_answer() -> None:
    good = "The tower is 330 metres tall."
    assert claim_support(f"{good} Picasso painted it in 1950.", [TOWER]) < claim_support(
        good, [TOWER]
    )


def test_a_question_to_the_reader_costs_little() -> None:
    good = "The Eiffel Tower was opened in 1889 in Paris."
    assert claim_support(f"{good} Have you been there?", [TOWER]) > 0.6 * claim_support(
        good, [TOWER]
    )


def test_marks_of_citations_and_lists_are_not_words() -> None:
    bare = claim_support("The tower is 330 metres tall.", [TOWER])
    assert claim_support("- The tower is 330 metres tall [1].", [TOWER]) == pytest.approx(
        bare, abs=0.02
    )


@pytest.mark.parametrize("answer", ["", "  \n", "[1]", "?!"])
def test_an_answer_without_words_has_no_support(answer: str) -> None:
    assert claim_support(answer, [TOWER]) == 0.0


@pytest.mark.parametrize("contexts", [[], [""], ["...", "  "]])
def test_contexts_without_words_support_nothing(contexts: list[str]) -> None:
    assert claim_support("The tower is tall.", contexts) == 0.0


@pytest.mark.parametrize(
    "answer",
    [
        "Der Turm wurde 1889 eröffnet.",
        "塔は1889年に開業した。",
        "330",
        "x" * 500,
        "```python\nprint(1)\n```",
        "| a | b |\n|---|---|",
    ],
)
def test_unusual_answers_stay_in_range(answer: str) -> None:
    assert 0 <= claim_support(answer, [TOWER, answer]) <= 1


def test_many_at_once_are_the_same_numbers() -> None:
    pairs = [
        ("The tower is tall.", [TOWER]),
        ("The Danube is long.", [RIVER, TOWER]),
        ("", [TOWER]),
    ]
    assert claim_supports(pairs) == [claim_support(*pair) for pair in pairs]


def test_values_do_not_depend_on_order_or_company() -> None:
    pairs = [
        (f"{sentence} In {year} a {thing} was added.", [TOWER, RIVER])
        for year, thing in ((1890, "lift"), (1900, "stair"), (1911, "clock"))
        for sentence in (
            "The Tower of Paris opened.",
            "It has no roof",
            "Ten states border the Danube, a river.",
        )
    ]
    with bypassed():
        forward, backward = claim_supports(pairs), claim_supports(pairs[::-1])
        alone = [claim_supports([pair])[0] for pair in pairs]
    assert forward == backward[::-1] == alone


def test_a_copied_sentence_needs_no_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("ragbench.metrics.groundedness.support.vectors", asked.extend)
    with bypassed():
        assert (
            claim_support(
                "The tower is 330 metres tall and is not closed in winter.", [RIVER, TOWER]
            )
            > 0.9
        )
    assert asked == []


def test_lines_that_are_only_wrapped_are_one_sentence() -> None:
    wrapped = (
        "The dam was built by the engineers of the old\nprovince of Varn, and it was "
        "opened in the\nspring of 1921."
    )
    claim = "The dam was built by the engineers of the old province of Varn"
    whole = claim_support(claim, [wrapped.replace("\n", " ")], model="lexical")
    assert claim_support(claim, [wrapped], model="lexical") == whole


def test_one_text_instead_of_a_list_is_refused() -> None:
    with pytest.raises(DataError, match="a sequence of texts, not one text"):
        claim_support("The tower.", TOWER)


WORDS = [
    "tower",
    "Paris",
    "Danube",
    "opened",
    "1889",
    "closed",
    "not",
    "is",
    "the",
    "in",
    "river",
    "Picasso",
    "330",
]
SENTENCES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(
    lambda chosen: " ".join(chosen) + "."
)


@settings(max_examples=40, deadline=None)
@given(answer=SENTENCES, contexts=st.lists(SENTENCES, max_size=3))
def test_in_range_repeatable_and_never_lower_with_the_answer_itself_as_context(
    answer: str, contexts: list[str]
) -> None:
    before = claim_support(answer, contexts)
    after = claim_support(answer, [*contexts, answer])
    assert 0 <= before <= 1
    assert before == claim_support(answer, contexts)
    assert after >= before - 1e-6


def relabelled(nli_encoder: Path, folder: Path, labels: list[str]) -> Path:
    folder.mkdir()
    for file in nli_encoder.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((nli_encoder / "config.json").read_text(encoding="utf-8"))
    config |= {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: i for i, label in enumerate(labels)},
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def test_a_cross_encoder_gives_the_probability_of_entailment(nli_encoder: Path) -> None:
    from sentence_transformers import CrossEncoder

    expected = CrossEncoder(str(nli_encoder)).predict(
        [("The tower opened in Paris.", "The tower is tall.")], apply_softmax=True
    )
    found = claim_support(
        "The tower is tall.", ["The tower opened in Paris."], model=str(nli_encoder)
    )
    assert found == pytest.approx(float(expected[0][1]), abs=1e-5)


def test_the_order_of_labels_is_read_from_the_model(nli_encoder: Path, tmp_path: Path) -> None:
    other = relabelled(nli_encoder, tmp_path / "other", ["ENTAILMENT", "neutral", "contradiction"])
    one = claim_support(
        "The tower is tall.", ["The tower opened in Paris."], model=str(nli_encoder)
    )
    assert (
        claim_support("The tower is tall.", ["The tower opened in Paris."], model=str(other)) != one
    )


def test_a_cross_encoder_without_entailment_is_refused(nli_encoder: Path, tmp_path: Path) -> None:
    other = relabelled(nli_encoder, tmp_path / "other", ["bad", "fair", "good"])
    with pytest.raises(
        ConfigError, match="the labels bad, fair, good, of which none is entailment"
    ):
        claim_support("The tower is tall.", ["The tower opened in Paris."], model=str(other))


def test_the_best_context_counts_and_the_worst_sentence_weighs_half(nli_encoder: Path) -> None:
    contexts = ["The tower opened in Paris.", "The river is not tall."]
    one, two = (
        claim_support(text, contexts, model=str(nli_encoder))
        for text in ("The tower is tall.", "Paris opened.")
    )
    both = claim_support("The tower is tall. Paris opened.", contexts, model=str(nli_encoder))
    assert both == pytest.approx(((one + two) / 2 + min(one, two)) / 2, abs=1e-5)
    single = [
        claim_support("The tower is tall.", [context], model=str(nli_encoder))
        for context in contexts
    ]
    assert one == pytest.approx(max(single), abs=1e-5)


def test_empty_sides_ask_no_encoder(nli_encoder: Path) -> None:
    assert claim_supports([("", ["x"]), ("x", [])], model=str(nli_encoder)) == [0.0, 0.0]


@pytest.mark.parametrize("name", ["mini-lm", "", "/no/such/folder", "a/b/c"])
def test_a_name_that_cannot_be_is_refused_before_anything_is_loaded(name: str) -> None:
    with pytest.raises(ConfigError, match="claim_support"):
        claim_support("The tower.", [TOWER], model=name)


def test_what_was_computed_once_needs_no_model_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [("The mill was built in 1712.", ["A mill from 1712 stands there."]), ("", ["A mill."])]
    first = claim_supports(pairs)

    def no_vectors(texts: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr("ragbench.metrics.groundedness.support.vectors", no_vectors)
    assert claim_supports(pairs) == first
    with pytest.raises(AssertionError, match="computed again"):
        claim_supports([("Another answer.", ["A mill."])])


def test_a_question_counts_less_than_a_claim_of_as_many_words() -> None:
    claim, question = "The cat sat.", "Where do we go?"
    [readings] = read_pairs([(f"{claim} {question}", ["The cat sat."])])
    held, asked = (float(reading.weight.sum()) for reading in readings)
    merged = answer_evidence(readings, semantic=False)
    assert merged["words_on_page"] == pytest.approx(held / (held + 0.3 * asked))
    assert merged["names_on_page"] == 1.0


@pytest.mark.parametrize("model", ["minilm", "lexical"])
@pytest.mark.parametrize(
    ("hedged", "plain", "context"),
    [
        ("It may be open.", "It is open.", "It is open."),
        ("The tower might have 3 levels.", "The tower have 3 levels.", "The tower has 3 levels."),
        ("Perhaps it appears to be safe.", "It is safe.", "It is safe in winter."),
        ("It is likely that the tower is tall.", "The tower is tall.", TOWER),
    ],
)
def test_a_hedge_costs_no_support(model: str, hedged: str, plain: str, context: str) -> None:
    assert claim_support(hedged, [context], model=model) == pytest.approx(
        claim_support(plain, [context], model=model), abs=0.02
    )
    assert claim_support(hedged, [hedged], model=model) > 0.96
    assert claim_support("It may be blue.", [RIVER], model=model) < 0.5
