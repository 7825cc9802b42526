"""What rows of words, novel words and rare words say, worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.metrics.groundedness.entailment import _windows
from ragbench.metrics.groundedness.evidence import LEXICAL, read_sentence
from ragbench.metrics.groundedness.words import read_page, words

PAGE = ("The cat sat on the red mat. A dog ran home.",)
SENTENCE = "The cat sat on our green mat."  # "our" and "green" are not on the page


def test_copied_rows_by_hand() -> None:
    found = read_sentence(SENTENCE, read_page(PAGE)).lexical
    assert found["ngrams"] == pytest.approx((5 / 7 + 3 / 6 + 2 / 5) / 3)
    assert found["copied"] == pytest.approx((4 + 4 + 4 + 4 + 0 + 0 + 1) / 7 / 6)


def test_novel_and_rare_words_by_hand() -> None:
    found = read_sentence(SENTENCE, read_page(PAGE)).lexical
    weight = {word.stem: word.weight for word in words(SENTENCE)}
    new = weight["our"] + weight["green"]
    held = sum(weight.values()) - new
    assert found["no_novel_row"] == pytest.approx(1 - new / (held + new))
    assert found["rare_in_window"] == pytest.approx(
        held * math.log(2) / (held * math.log(2) + new * math.log(6))
    )


def test_one_missing_name_of_one_is_half_and_of_three_a_quarter_less() -> None:
    page = read_page(("Then Anna met Bert in town.",))
    assert read_sentence("Then Zelda slept.", page).lexical["names_on_page"] == 0.5
    assert read_sentence("Then Anna met Bert and Zelda.", page).lexical["names_on_page"] == 0.75
    assert read_sentence("Then he slept.", page).lexical["names_on_page"] == 1.0


def test_rows_do_not_run_over_the_end_of_a_sentence() -> None:
    page = read_page(("A dog ran home. The cat sat.",))
    assert read_sentence("ran home the cat", page).lexical["copied"] == pytest.approx(
        (2 + 2 + 2 + 2) / 4 / 4
    )


def test_words_spread_over_a_page_weigh_less_than_words_in_one_place() -> None:
    filler = " ".join("We use cookies to improve your visit." for _ in range(10))
    near = read_sentence(
        SENTENCE, read_page((f"{filler} The cat sat on our green mat. {filler}",))
    ).lexical
    spread = [
        f"Here a cat. {filler} He sat. {filler} It was our roof. {filler} So green. {filler} On "
        "the mat."
    ]
    far = read_sentence(SENTENCE, read_page(tuple(spread))).lexical
    assert far["words_on_page"] == near["words_on_page"] == near["rare_in_window"] == 1.0
    assert far["rare_in_window"] < 0.6
    assert far["copied"] < 0.4


VOCABULARY = ["cat", "sat", "the", "mat", "Paris", "green", "7", "not", "dog"]
WORDS = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=9).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(sentence=WORDS, page=st.lists(WORDS, min_size=1, max_size=4))
def test_evidence_is_in_range_and_whole_where_the_sentence_is_on_the_page(
    sentence: str, page: list[str]
) -> None:
    found = read_sentence(sentence, read_page(tuple(page))).lexical
    assert tuple(sorted(found)) == tuple(sorted(LEXICAL))
    assert all(-1e-9 <= value <= 1 + 1e-9 for value in found.values())
    whole = read_sentence(sentence, read_page((*page, sentence))).lexical
    for name in ("ngrams", "no_novel_row", "rare_in_window"):
        assert whole[name] == pytest.approx(1.0)
    assert whole["copied"] >= found["copied"] - 1e-9


def test_a_capital_letter_alone_is_not_a_name() -> None:
    page = read_page(("Then Anna slept.",))
    assert read_sentence("Then I slept.", page).lexical["names_on_page"] == 1.0


def test_vectors_are_compared_with_three_sentences_and_two_more() -> None:
    page = read_page(tuple(f"{word} run." for word in "Cats Dogs Birds Cows Pigs Mice".split()))
    assert len(read_sentence("Cats dogs birds cows pigs mice", page).others) == 5


def test_entailment_is_asked_of_up_to_three_sentences_of_one_context() -> None:
    page = read_page(("Cats sleep. Dogs bark. Birds sing. Fish swim. Cows graze.", "Fish graze."))
    windows = _windows("Fish swim and cows graze while birds sing.", page)
    assert windows[0] == "Birds sing. Fish swim. Cows graze."
    assert windows[1:] == [
        "Fish swim. Cows graze.",
        "Dogs bark. Birds sing. Fish swim.",
        "Cows graze.",
        "Fish graze.",
    ]


@pytest.mark.parametrize(
    ("sentence", "page", "value"),
    [
        ("The tower is not tall.", "The tower is tall.", 0.0),
        ("The tower is tall.", "The tower is not tall.", 0.0),
        ("The tower is not tall.", "The tower is not tall.", 1.0),
    ],
)
def test_a_denial_on_one_side_alone_is_a_difference(sentence: str, page: str, value: float) -> None:
    assert read_sentence(sentence, read_page((page,))).lexical["not_denied"] == value


@pytest.mark.parametrize(("n_words", "n_sentences"), [(60, 1), (90, 1), (91, 2), (121, 3)])
def test_text_without_full_stops_is_read_in_pieces_of_sixty_words(
    n_words: int, n_sentences: int
) -> None:
    assert len(read_page(("cat " * n_words,)).sentences) == n_sentences
