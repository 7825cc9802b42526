"""What every chunker keeps, and where each of them cuts."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import ConfigError, DataWarning
from ragbench.retrieval.chunkers import CHUNKERS, chunk
from ragbench.text import sentence_spans, token_offsets, token_ranges
from ragbench.types import Chunk, Dataset, Document, Embedder


class FirstLetterEmbedder:
    """One dimension per first letter: sentences that begin alike are alike, all others are not."""

    name = "first-letter"

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        rows = np.zeros((len(texts), 64), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            if text.strip():
                row[ord(text.strip()[0]) % 64] = 1
        return rows


def dataset_of(*texts: str, title: str = "") -> Dataset:
    return Dataset(
        "demo",
        "test",
        {f"d{i}": Document(f"d{i}", text, title) for i, text in enumerate(texts)},
        [],
        {},
    )


def texts_of(text: str, name: str, **options: Any) -> list[str]:
    return [
        piece.text
        for piece in chunk(dataset_of(text), name, embedder=FirstLetterEmbedder(), **options)
    ]


def assert_sound(
    dataset: Dataset, chunks: list[Chunk], *, size: int, tokenizer: str, capped: bool = True
) -> None:
    """The invariants in the module's docstring."""
    for doc_id, document in dataset.corpus.items():
        text = document.full_text
        own = [piece for piece in chunks if piece.doc_id == doc_id]
        assert [piece.chunk_id for piece in own] == [
            f"{doc_id}#{piece.start}-{piece.end}" for piece in own
        ]
        covered = np.zeros(len(text), dtype=bool)
        for piece in own:
            assert piece.text == text[piece.start : piece.end] == piece.text.strip() != ""
            covered[piece.start : piece.end] = True
        assert all(text[i].isspace() for i in np.flatnonzero(~covered))
        for earlier, later in itertools.pairwise(own):
            assert earlier.start < later.start
            assert earlier.end < later.end
        offsets = token_offsets([text], tokenizer)[0]
        first, last = token_ranges(offsets, [p.start for p in own], [p.end for p in own])
        for piece, a, b in zip(own, first, last, strict=True):
            one_character = b > a and offsets[a, 0] >= offsets[b - 1, 1] - 1
            # Tokens of bytes may share characters ("êm" is the tokens "Ã" and "ªm"): no border fits
            # between them.
            one_piece = one_character or bool((offsets[a + 1 : b, 0] < offsets[a : b - 1, 1]).all())
            assert not capped or b - a <= size or one_piece, f"{b - a} tokens: {piece!r}"


CHARACTERS = st.one_of(
    st.sampled_from("ab .!?\n\r\t#=-*`~>\x00\x1c\u2028\u200b\u0301é한😀👩\u200d\ud800İ"),
    st.characters(),
)
WORDS = st.sampled_from(
    [
        "word ",
        "Word. ",
        "# ",
        "\n## ",
        "\n\n",
        "\r\n",
        "\n===\n",
        "\n---\n",
        "```\n",
        "😀",
        "unsplittable",
        "  ",
        "1. ",
        "\x01",
    ]
)
ANY_TEXT = st.one_of(
    st.text(CHARACTERS, max_size=80),
    st.lists(st.one_of(WORDS, st.text(CHARACTERS, max_size=3)), max_size=40).map("".join),
)


@pytest.mark.parametrize("name", CHUNKERS)
@pytest.mark.parametrize("tokenizer", ["minilm", "wordllama"])
@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(ANY_TEXT, min_size=1, max_size=3),
    title=st.sampled_from(["", "Title"]),
    size=st.integers(1, 12),
    data=st.data(),
)
def test_nothing_is_lost_moved_or_too_large(
    name: str, tokenizer: str, texts: list[str], title: str, size: int, data: st.DataObject
) -> None:
    dataset = dataset_of(*texts, title=title)
    overlap = data.draw(st.integers(0, size - 1), label="overlap")
    options: dict[str, Any] = {"chunk_size": size, "chunk_overlap": overlap, "tokenizer": tokenizer}
    chunks = chunk(dataset, name, embedder=FirstLetterEmbedder(), **options)
    assert_sound(dataset, chunks, size=size, tokenizer=tokenizer, capped=name != "document")


@pytest.mark.parametrize("name", CHUNKERS)
def test_real_documents(name: str, shared_data: Path) -> None:
    files = sorted((shared_data / "chunking" / "corpora").glob("*.md"))
    dataset = Dataset(
        "chunking",
        "test",
        {f.stem: Document(f.stem, f.read_bytes().decode()) for f in files},
        [],
        {},
    )
    for size, overlap in ((128, 0), (256, 64)):
        chunks = chunk(
            dataset, name, chunk_size=size, chunk_overlap=overlap, embedder=FirstLetterEmbedder()
        )
        assert_sound(dataset, chunks, size=size, tokenizer="minilm", capped=name != "document")


@pytest.mark.parametrize("name", CHUNKERS)
@pytest.mark.parametrize("text", ["", " ", "\n\r\n\t\u2003", "\x1c"])
def test_empty_documents_have_no_chunk(name: str, text: str) -> None:
    assert texts_of(text, name) == []


@pytest.mark.parametrize("name", CHUNKERS)
def test_text_without_a_token_is_kept(name: str) -> None:
    assert texts_of(" \x01\x02 ", name) == ["\x01\x02"]


@pytest.mark.parametrize("name", CHUNKERS)
def test_a_dataset_without_documents_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"'demo' has none; name them with `corpus`"):
        chunk(dataset_of(), name)


@pytest.mark.parametrize("name", CHUNKERS)
def test_offsets_point_into_title_and_text(name: str) -> None:
    (piece,) = chunk(dataset_of("Body.", title="Head"), name)
    assert piece == Chunk("d0#0-11", "d0", 0, 11, "Head\n\nBody.")


@pytest.mark.parametrize("name", CHUNKERS)
def test_same_input_same_chunks(name: str) -> None:
    text = "Alpha beta. Gamma delta! " * 50
    assert texts_of(text, name, chunk_size=16, chunk_overlap=3) == texts_of(
        text, name, chunk_size=16, chunk_overlap=3
    )


NUMBERS = " ".join(str(i) for i in range(10))


def test_fixed_windows() -> None:
    assert texts_of(NUMBERS, "fixed", chunk_size=4) == ["0 1 2 3", "4 5 6 7", "8 9"]


def test_fixed_windows_with_overlap() -> None:
    assert texts_of(NUMBERS, "fixed", chunk_size=4, chunk_overlap=1) == [
        "0 1 2 3",
        "3 4 5 6",
        "6 7 8 9",
    ]
    assert texts_of(NUMBERS, "fixed", chunk_size=4, chunk_overlap=3)[-2:] == ["5 6 7 8", "6 7 8 9"]


def test_fixed_may_cut_inside_a_word() -> None:
    assert texts_of("tokenized", "fixed", chunk_size=1) == ["token", "ized"]


def test_characters_between_tokens_go_to_the_chunk_before() -> None:
    assert texts_of("one\x01 \x02two", "fixed", chunk_size=1) == ["one\x01 \x02", "two"]


def test_a_character_of_many_tokens_is_not_cut() -> None:
    assert texts_of("a😀b", "fixed", chunk_size=2, tokenizer="wordllama") == ["a", "😀", "b"]


def test_sentences_are_joined_as_long_as_they_fit() -> None:
    text = "One two. Three four.  Five six. Seven."
    assert texts_of(text, "sentence", chunk_size=6) == ["One two. Three four.", "Five six. Seven."]


def test_a_long_sentence_is_cut_between_words_if_it_can() -> None:
    text = "One tokenized two tokenized. Three."  # "tokenized" is two tokens
    assert texts_of(text, "sentence", chunk_size=4) == ["One tokenized two", "tokenized.", "Three."]
    assert texts_of(text, "fixed", chunk_size=4) == ["One tokenized two", "tokenized. Three", "."]
    assert texts_of(text, "sentence", chunk_size=2) == [
        "One",
        "tokenized",
        "two",
        "tokenized",
        ".",
        "Three.",
    ]


def test_sentence_overlap_ends_with_a_sentence() -> None:
    text = "One two. Three four. Five six. Seven eight."  # three tokens each
    assert texts_of(text, "sentence", chunk_size=7, chunk_overlap=4) == [
        "One two. Three four.",
        "Three four. Five six.",
        "Five six. Seven eight.",
    ]


def test_overlap_in_tokens_where_no_sentence_fits() -> None:
    text = "One two three four five six seven. Eight nine ten eleven twelve."
    assert (
        texts_of(text, "sentence", chunk_size=10, chunk_overlap=2)[0]
        == "One two three four five six seven. Eight nine"
    )


def test_recursive_prefers_paragraphs_to_lines_to_sentences() -> None:
    text = "A b. C d.\nE f. G h.\n\nI j."
    assert texts_of(text, "recursive", chunk_size=12) == ["A b. C d.\nE f. G h.", "I j."]
    assert texts_of(text, "recursive", chunk_size=6) == ["A b. C d.", "E f. G h.", "I j."]
    assert texts_of(text, "recursive", chunk_size=3) == ["A b.", "C d.", "E f.", "G h.", "I j."]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_of_all_systems(end: str) -> None:
    assert texts_of(f"A b c{end}{end}D e f{end} {end}G h i", "recursive", chunk_size=4) == [
        "A b c",
        "D e f",
        "G h i",
    ]


def test_markdown_cuts_before_headings_highest_first() -> None:
    text = "# One\n\na b c\n\n## Sub\n\nd e f\n\n# Two\n\ng h i"
    assert texts_of(text, "markdown", chunk_size=12) == [
        "# One\n\na b c\n\n## Sub\n\nd e f",
        "# Two\n\ng h i",
    ]
    assert texts_of(text, "markdown", chunk_size=8) == [
        "# One\n\na b c",
        "## Sub\n\nd e f",
        "# Two\n\ng h i",
    ]


def test_markdown_heading_stays_with_its_text() -> None:
    text = "intro one two three four\n\n# Head\n\nfive six seven. eight nine ten"
    assert texts_of(text, "recursive", chunk_size=7) == [
        "intro one two three four\n\n# Head",
        "five six seven. eight nine ten",
    ]
    assert texts_of(text, "markdown", chunk_size=7) == [
        "intro one two three four",
        "# Head\n\nfive six seven.",
        "eight nine ten",
    ]


def test_markdown_headings_in_a_row_stay_together() -> None:
    text = "intro one two three\n\n# Head\n\n## Sub\n\nfour five six seven eight"
    assert texts_of(text, "markdown", chunk_size=8)[1].startswith("# Head\n\n## Sub\n\nfour")


def test_markdown_overlap_stops_at_a_heading() -> None:
    text = "# One\n\na b c d e f\n\n# Two\n\ng h i j k l"
    assert texts_of(text, "markdown", chunk_size=10, chunk_overlap=2) == [
        "# One\n\na b c d e f",
        "# Two\n\ng h i j k l",
    ]


def test_markdown_of_pydoc_topics() -> None:
    text = (
        'The "pass" statement\n********************\n\nNothing happens.\n\nSee '
        "also\n========\n\nThe manual.\n"
    )
    assert texts_of(text, "markdown", chunk_size=40) == [
        'The "pass" statement\n********************\n\nNothing happens.',
        "See also\n========\n\nThe manual.",
    ]


def test_semantic_cuts_where_the_subject_changes() -> None:
    text = "Ant one. Ant two. Ant three. Bee one. Bee two. Bee three. Cow one. Cow two. Cow three."
    assert texts_of(text, "semantic", chunk_size=12) == [
        "Ant one. Ant two. Ant three.",
        "Bee one. Bee two. Bee three.",
        "Cow one. Cow two. Cow three.",
    ]


def test_semantic_takes_the_default_embedder() -> None:
    text = "The cat sat on the mat. The cat purred. Stocks fell on Monday. Stocks rose again."
    chunks = chunk(dataset_of(text), "semantic", chunk_size=16)
    assert [piece.text for piece in chunks] == [
        "The cat sat on the mat. The cat purred.",
        "Stocks fell on Monday. Stocks rose again.",
    ]


def test_semantic_embeds_all_sentences_together() -> None:
    calls: list[int] = []

    class Counting(FirstLetterEmbedder):
        def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
            calls.append(len(texts))
            return super().encode(texts)

    embedder: Embedder = Counting()
    chunk(
        dataset_of("One two. Three.", "Four five. Six.", "short"),
        "semantic",
        chunk_size=3,
        embedder=embedder,
    )
    assert calls == [4]


def test_semantic_of_sentences_without_vectors() -> None:
    class Zero(FirstLetterEmbedder):
        def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
            return np.zeros((len(texts), 4), dtype=np.float32)

    pieces = chunk(
        dataset_of("One two. Three four. Five six."), "semantic", chunk_size=6, embedder=Zero()
    )
    assert " ".join(piece.text for piece in pieces) == "One two. Three four. Five six."


def test_document_is_one_chunk_of_any_size() -> None:
    assert texts_of("  word " * 5000, "document", chunk_size=1) == [("  word " * 5000).strip()]


def test_many_documents_in_several_groups() -> None:
    dataset = dataset_of(
        *[f"number {i} " * 10_000 for i in range(60)]
    )  # more characters than one group holds
    chunks = chunk(dataset, "fixed", chunk_size=5000)
    assert_sound(dataset, chunks, size=5000, tokenizer="minilm")


def test_one_very_long_word() -> None:
    text = "x" * 1000 + "😀" * 1000 + "한국어" * 500
    for name in CHUNKERS:
        for tokenizer in ("minilm", "wordllama"):
            chunks = chunk(
                dataset_of(text),
                name,
                chunk_size=64,
                tokenizer=tokenizer,
                embedder=FirstLetterEmbedder(),
            )
            assert "".join(piece.text for piece in chunks) == text


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("recursiv", {}, "did you mean 'recursive'"),
        ("fixed", {"chunk_size": 0}, "at least 1 token, not 0"),
        ("fixed", {"chunk_size": 2.5}, "whole number of tokens, not 2.5"),
        ("fixed", {"chunk_size": True}, "whole number of tokens, not True"),
        ("fixed", {"chunk_overlap": -1}, "below the size of 256 tokens, not -1"),
        ("document", {"chunk_size": 8, "chunk_overlap": 8}, "below the size of 8 tokens, not 8"),
        ("fixed", {"tokenizer": "minlm"}, "did you mean 'minilm'"),
        ("semantic", {"embedder": "wordlama"}, "wordllama"),
    ],
)
def test_wrong_parameters(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        chunk(dataset_of("text"), name, **options)


@pytest.mark.parametrize("name", sorted(set(CHUNKERS) - {"document"}))
def test_warns_where_chunking_does_nothing(name: str) -> None:
    dataset = dataset_of(*["short text"] * 19, "long text " * 50, "")
    with pytest.warns(
        DataWarning, match=r"19 of 20 documents \(95%\) of 'demo' fit into one chunk of 64 tokens"
    ):
        chunk(dataset, name, chunk_size=64, embedder=FirstLetterEmbedder())


def test_no_warning_where_chunking_does_something() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chunk(dataset_of(*["short"] * 18, *["long text " * 50] * 2), "fixed", chunk_size=64)
        chunk(dataset_of(*["short"] * 10), "fixed", chunk_size=64)
        chunk(dataset_of(*["short"] * 100), "document")


def test_sentence_borders_are_never_cut_where_they_fit() -> None:
    text = " ".join(f"Sentence number {i} stands here." for i in range(100))
    ends = {end for _, end in sentence_spans(text)}
    for name in ("sentence", "recursive", "markdown", "semantic"):
        chunks = chunk(
            dataset_of(text), name, chunk_size=30, chunk_overlap=8, embedder=FirstLetterEmbedder()
        )
        assert {piece.end for piece in chunks} <= ends
