"""The tokenizer that the README makes of tiktoken's file gives tiktoken's tokens."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from ragbench.text import count_tokens, load_tokenizer, token_offsets

TEXTS = [
    "The thing and the other, running on: 1234 - w\u00f6rld's end.\n\n  indeed",
    "emoji \U0001f600 \u0e44\u0e17\u0e22",
]


def test_a_tiktoken_file_becomes_a_tokenizer_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiktoken = pytest.importorskip("tiktoken", reason="tiktoken is not installed")
    from transformers.convert_slow_tokenizer import TikTokenConverter

    monkeypatch.chdir(tmp_path)
    words = "th the in ing er an and re on".split()
    tokens = [bytes([byte]) for byte in range(256)] + [word.encode() for word in words]
    lines = [base64.b64encode(token) + f" {rank}\n".encode() for rank, token in enumerate(tokens)]
    Path("mine.tiktoken").write_bytes(b"".join(lines))
    converter = TikTokenConverter("mine.tiktoken")
    converter.converted().save("mine.json")
    ranks = {token: rank for rank, token in enumerate(tokens)}
    encoding = tiktoken.Encoding(
        "mine", pat_str=converter.pattern, mergeable_ranks=ranks, special_tokens={}
    )
    tokenizer = load_tokenizer("mine.json")
    for text in TEXTS:
        ids = encoding.encode_ordinary(text)
        assert tokenizer.encode(text, add_special_tokens=False).ids == ids
        assert count_tokens([text], "mine.json") == [len(ids)]
        assert token_offsets([text], "mine.json")[0][-1][1] == len(text)
