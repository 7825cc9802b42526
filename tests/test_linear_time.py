"""Time grows with the length of a text, not with its square: every reader of text, on one long line
of each kind.

What is read came from outside: base64, minified code, a table without line ends. A reader that takes
the square of its length takes hours for one such document.
"""

from __future__ import annotations

import gc
import io
import random
import string
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec

import pytest

import ragbench as rb
from ragbench.datasets.documents import text_of_docx, text_of_pages, text_of_pdf
from ragbench.datasets.html import text_of_html
from ragbench.datasets.passages import Texts
from ragbench.errors import DataError
from ragbench.generation.citations import parse_citations, without_citations
from ragbench.generation.drafts import is_yes_no, overlap
from ragbench.generation.extractive import extract_answers
from ragbench.judges.criterion import BUILT_IN
from ragbench.judges.parser import read_verdicts
from ragbench.language import detect_language, terms
from ragbench.llms.fences import fence
from ragbench.llms.reply_json import UnreadableError, json_spans
from ragbench.llms.reply_text import (
    read_outcome,
    refuses_to_judge,
    without_fence,
    without_thoughts,
)
from ragbench.metrics.answer_similarity import gold_fact_coverage, missing_keywords, token_f1
from ragbench.metrics.context import ngram_redundancy
from ragbench.metrics.groundedness.claims import claims
from ragbench.metrics.groundedness.numbers import numbers, numeric_fabrications
from ragbench.metrics.groundedness.support import claim_support
from ragbench.metrics.groundedness.words import denied, read_page, text_states, words
from ragbench.metrics.safety.injection import read_signs
from ragbench.metrics.safety.leakage import leakage_findings
from ragbench.metrics.safety.secrets import marked_secrets
from ragbench.metrics.tidy import wording
from ragbench.report.failure_tables import plain
from ragbench.systems.reply_paths import read_events
from ragbench.testsets.known_items import draft_known_items
from ragbench.testsets.sections import front_title, headings_of
from ragbench.text import sentence_spans, token_offsets
from ragbench.types import Answer, Case, Chunk, Dataset, Document

_RANDOM = random.Random(48)
_BASE64 = "".join(_RANDOM.choices(string.ascii_letters + string.digits + "+/", k=1_000_003))


def _repeat(unit: str) -> Callable[[int], str]:
    return lambda n: (unit * (n // len(unit) + 1))[:n]


SHAPES: dict[str, Callable[[int], str]] = {
    "one word": _repeat("a"),
    "base64": lambda n: _BASE64[:n],
    "one sentence": _repeat("the red house "),
    "capitals": _repeat("Red House "),
    "no sentence end": _repeat("a line of words\n"),
    "spaces": _repeat(" "),
    "tabs": _repeat("\t"),
    "punctuation": _repeat("!?.,;"),
    "one sign": _repeat("."),
    "dashes": _repeat("-"),
    "quotes": _repeat('"'),
    "brackets": _repeat("["),
    "braces": _repeat("{"),
    "parentheses": _repeat("("),
    "backticks": _repeat("`"),
    "stars": _repeat("*"),
    "hashes": _repeat("#"),
    "at": _repeat("a@"),
    "dots": _repeat("a."),
    "hyphens": _repeat("a-"),
    "assignments": _repeat("key="),
    "digits": _repeat("7"),
    "grouped digits": _repeat("777,"),
    "spaced digits": _repeat("7 "),
    "thousands": _repeat("7.77"),
    "pairs of digits": _repeat("10,20,"),
    "groups of digits": _repeat("777\xa0"),
    "citations": _repeat("[1]"),
    "introductions": _repeat("says: "),
    "tags": _repeat("<b>"),
    "thoughts": _repeat("<think>"),
    "objects": _repeat('{"a":'),
    "line breaks": _repeat("\n"),
    "a line break per character": _repeat("a\n"),
    "indented lines": _repeat("  \n"),
    "combining marks": lambda n: "e" + "\u0301" * (n - 1),
    "CJK": _repeat("漢字仮名"),
    "Thai": _repeat("ภาษาไทย"),
    "Hangul": _repeat("한국어"),
    "invisible": _repeat("\u200b\u00ad"),
    "emoji": _repeat("😀"),
}


_BY_DEFAULT = (
    "one word",
    "base64",
    "one sentence",
    "no sentence end",
    "spaces",
    "punctuation",
    "dots",
    "thousands",
    "pairs of digits",
    "groups of digits",
    "introductions",
    "a line break per character",
    "combining marks",
    "CJK",
)
"""The others are tried with longer texts by `pytest -m simulation`."""


def _document(text: str) -> Document:
    return Document("d", text)


def _dataset(text: str) -> Dataset:
    return Dataset("t", "test", {"d": _document(text)}, (), {})


def _chunker(name: str, tokenizer: str = "minilm") -> Callable[[str], object]:
    def cut(text: str) -> object:
        return rb.chunk(_dataset(text), name, chunk_size=64, chunk_overlap=16, tokenizer=tokenizer)

    return cut


def _json(text: str) -> object:
    try:
        return list(json_spans(text))
    except UnreadableError as exc:
        return exc


def _json_lines(text: str) -> object:
    try:
        return list(read_events(text, sse=False, delta=""))
    except DataError as exc:
        return exc


def _extracted(text: str) -> object:
    chunk = Chunk.cut("d", text, 0, len(text))
    return extract_answers([Case("q", "Which house is red?")], {"q": [chunk]})


def _known_items(text: str) -> object:
    try:
        return draft_known_items(_dataset(text), 3)
    except DataError as exc:
        return exc


def _pdf(text: str) -> bytes:
    """A PDF file with the text on one line of one page."""
    shown = text.encode("latin-1", "replace")
    shown = shown.replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
    stream = b"BT /F1 1 Tf 10 10 Td (" + shown + b") Tj ET"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9000 9000] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n" % len(stream) + stream + b"\nendstream",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    content = b"%PDF-1.4\n"
    for number, body in enumerate(objects, start=1):
        content += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    return content + b"trailer << /Root 1 0 R /Size 6 >>\n"


READERS: dict[str, Callable[[str], object]] = {
    **{
        f"chunker {name}": _chunker(name)
        for name in ("fixed", "sentence", "recursive", "markdown", "semantic", "document")
    },
    "chunker recursive, wordllama": _chunker("recursive", "wordllama"),
    "splitter of sentences": sentence_spans,
    "tokenizer minilm": lambda text: token_offsets([text], "minilm"),
    "tokenizer wordllama": lambda text: token_offsets([text], "wordllama"),
    "words of search": terms,
    "words of answers": lambda text: token_f1(text, "red house"),
    "words of claims": words,
    "headings": lambda text: headings_of(_document(text)),
    "front matter": lambda text: front_title(_document(f"---\ntitle: {text}")),
    "language": lambda text: detect_language([text]),
    "reply: outcome": read_outcome,
    "reply: refusal to judge": refuses_to_judge,
    "reply: thoughts": without_thoughts,
    "reply: fence": without_fence,
    "reply: objects": _json,
    "reply: verdict": lambda text: read_verdicts(text, [BUILT_IN["correctness"]]),
    "reply: verdict after a text": lambda text: read_verdicts(
        f'{text}\n{{"correctness": {{"reason": "", "verdict": true}}}}', [BUILT_IN["correctness"]]
    ),
    "reply: relevance": lambda text: read_verdicts(text, [BUILT_IN["relevance"]]),
    "reply: citations": lambda text: parse_citations(text, ["d"]),
    "reply: without citations": lambda text: without_citations(text, ["d"]),
    "reply: wording": lambda text: wording(Answer("q", text)),
    "reply: events": lambda text: list(read_events(text, sse=True, delta="")),
    "reply: JSON lines": _json_lines,
    "prompt: fence": lambda text: fence("document", text, "12345678"),
    "claims": claims,
    "denials": denied,
    "claim in text": lambda text: text_states(text, "The house is not red."),
    "page of contexts": lambda text: read_page((text,)),
    "numbers": numbers,
    "fabricated numbers": lambda text: numeric_fabrications(text, ["7 houses"]),
    "claim support": lambda text: claim_support("The house is red.", [text]),
    "gold facts": lambda text: gold_fact_coverage(text, [["red house"]]),
    "keywords": lambda text: missing_keywords(text, ["red house"]),
    "redundancy": lambda text: ngram_redundancy([text, text]),
    "yes or no": lambda text: is_yes_no(text, text),
    "overlap": lambda text: overlap(text, text),
    "attack": lambda text: read_signs([text]),
    "leaks": lambda text: leakage_findings(text, extra_optional=True),
    "copies": lambda text: leakage_findings(text, [text], extra_optional=True),
    "marked secrets": lambda text: marked_secrets([text]),
    "passages": lambda text: Texts({"d": _document(text)}).find("the red house of a lot of words"),
    "extractive answer": _extracted,
    "known items": _known_items,
    "HTML": lambda text: text_of_html(text.encode()),
    "HTML of pre": lambda text: text_of_html(f"<pre>{text}</pre>".encode()),
    "pages of a PDF": lambda text: text_of_pages([text]),
    "table of a report": plain,
}


_DOUBLINGS = 3
_LIMIT = 2.5
"""The factor by which the time may grow with each doubling: 2 is linear, 4 is a square."""


def _cpu_s(read: Callable[[str], object], text: str) -> float:
    """The CPU time of one text, without the search for garbage of other tests."""
    gc.disable()
    try:
        start = time.process_time()
        read(text)
        return time.process_time() - start
    finally:
        gc.enable()


def _growth(
    read: Callable[[str], object], shape: Callable[[int], str], *, cpu_s: float, longest: int
) -> float:
    """The factor by which CPU time grows with each doubling of a text, over the last three doublings:
    a machine that is busy changes it by a few percent, not the ratio of two times.

    The text is doubled until it takes `cpu_s`, or has `longest` characters. A square is one at every
    length, so growth above the limit counts only if longer texts, up to four times `longest`, show it,
    too: the splitter of sentences reads windows of 30,000 characters, and memory of some 300,000
    characters comes from elsewhere, once. At least 1 ms counts, which a clock resolves.
    """
    times: list[float] = []
    n = 1_000
    while True:
        more = _RANDOM.randrange(n // 50)  # no text comes twice: recent results are kept
        times.append(_cpu_s(read, shape(n + more)))
        if len(times) > _DOUBLINGS:
            ratio = times[-1] / max(times[-1 - _DOUBLINGS], 0.001)
            growth: float = ratio ** (1 / _DOUBLINGS)
            is_long = n >= longest or times[-1] >= cpu_s
            is_too_long = n >= 4 * longest or times[-1] >= 20 * cpu_s
            if is_too_long or (is_long and growth <= _LIMIT):
                return growth
        n *= 2


def _slow_shapes(
    read: Callable[[str], object], shapes: Sequence[str], *, cpu_s: float, longest: int
) -> dict[str, float]:
    """The texts whose time grows by more than the limit, twice in a row."""
    read("A first text.")  # loads what is loaded once
    slow = {}
    for name in shapes:
        for _ in range(2):
            growth = _growth(read, SHAPES[name], cpu_s=cpu_s, longest=longest)
            if growth <= _LIMIT:
                break
        else:
            slow[name] = round(growth, 1)
    return slow


@pytest.fixture
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGBENCH_CACHE_MAX_GB", "0")


@pytest.mark.usefixtures("_no_cache")
@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
@pytest.mark.parametrize("reader", READERS)
def test_time_grows_with_the_length(reader: str) -> None:
    assert _slow_shapes(READERS[reader], _BY_DEFAULT, cpu_s=0.02, longest=64_000) == {}


@pytest.mark.simulation
@pytest.mark.usefixtures("_no_cache")
@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
@pytest.mark.parametrize("reader", READERS)
def test_time_grows_with_the_length_up_to_a_megabyte(reader: str) -> None:
    """A megabyte where that takes less than 0.05 s, else what is read in that time."""
    assert _slow_shapes(READERS[reader], [*SHAPES], cpu_s=0.05, longest=1_000_000) == {}


def test_a_square_is_found_and_a_bounded_window_is_none() -> None:
    def square(text: str) -> object:
        return [sum(map(ord, text)) for _ in text[::10]]

    def windows(text: str) -> object:
        return [square(text[start : start + 2_000]) for start in range(0, len(text), 2_000)]

    assert list(_slow_shapes(square, ["one word"], cpu_s=0.01, longest=64_000)) == ["one word"]
    assert _slow_shapes(windows, ["one word"], cpu_s=0.01, longest=64_000) == {}


@pytest.mark.skipif(not find_spec("pypdfium2"), reason="needs the extra `documents`")
def test_a_pdf_of_one_line_is_read_in_linear_time() -> None:
    def read(content: str) -> str:
        return text_of_pdf(_pdf(content))

    shapes = ["one word", "base64", "one sentence", "punctuation", "spaces"]
    assert _slow_shapes(read, shapes, cpu_s=0.02, longest=64_000) == {}


@pytest.mark.skipif(not find_spec("docx"), reason="needs the extra `documents`")
def test_a_docx_of_one_paragraph_is_read_in_linear_time() -> None:
    import docx

    def read(content: str) -> str:
        document = docx.Document()
        document.add_paragraph(content)
        file = io.BytesIO()
        document.save(file)
        return text_of_docx(file.getvalue())

    shapes = ["one word", "base64", "one sentence", "punctuation", "CJK"]
    assert _slow_shapes(read, shapes, cpu_s=0.02, longest=64_000) == {}
