"""report.html: safe with any text, complete, and asking nothing of a network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from types import MappingProxyType
from typing import Any

import pytest

from ragbench.evaluation import Result, evaluate
from ragbench.evaluation.records import (
    Advice,
    Change,
    Comparison,
    Flip,
    Latency,
    MeasureResult,
    PassFail,
    Perspective,
    SafetyFigure,
)
from ragbench.metrics.tidy import score_frame
from ragbench.report.page import report_html, report_markdown
from ragbench.report.page.html_report import interval_bar, script_hash
from ragbench.report.page.question_details import anchor
from ragbench.types import Answer, Case, Dataset, Document, Span

ATTACKS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></style></svg><iframe src='//evil.example'></iframe>",
    "{{ 7 * 7 }}{% raw %}",
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.broken: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "br", "line", "rect", "circle", "input"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.broken.append(tag)


def parsed(html: str) -> _Tags:
    tags = _Tags()
    tags.feed(html)
    return tags


def full_report(
    text: str,
    query_id: str | None = None,
    more: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> Result:
    """A result that has every part, with the same text in every place for text; `more` failed
    questions: query_id -> text, category.
    """
    query_id = text if query_id is None else query_id
    change = Change(text, "retrieval", 0.5, 0.2, -0.3, -0.4, -0.2, 0.01, 0.1, 9, 1, 8, "regression")
    flips = PassFail(
        text, 9, (Flip(text, text, (text,)),), (Flip(text, text, (text,)),), 0.01, "regression"
    )
    config = {
        "dataset": {
            "name": text,
            "split": text,
            "fingerprint": "f" * 64,
            "documents": 2,
            "safety_samples": 2,
        },
        "questions": {
            query_id: text,
            **{one: question for one, (question, _) in more.items()},
            "fine": text,
        },
        "system": {"name": text, text: text},
        "settings": {"cases": {}, text: text},
        "environment": {"ragbench": text},
        "made_at": text,
    }
    verdict = {"category": text, "query_type": text, "expected_outcome": text, "relevant": (text,)}
    return Result(
        text,
        config,
        {},
        score_frame([*((one, "RR", 0.25) for one in (query_id, *more)), ("fine", "RR", 1.0)]),
        [Answer(one, text, (text,), outcome="success") for one in (query_id, *more, "fine")],
        timings={text: 1.0},
        perspectives=(
            Perspective("retrieval", True, note=text),
            Perspective("safety", False, text),
        ),
        rows=(
            MeasureResult("RR", "retrieval", 0.25, 0.1, 0.4, 2, 2, 0.8, 0.6, False, "missed", True),
            MeasureResult(
                text, "retrieval", 0.25, 0.1, 0.4, 2, 2, None, 0.2, False, "passed", False
            ),
        ),
        verdicts={
            query_id: {**verdict, "passed": False, "reasons": (text, text)},
            **{
                one: {**verdict, "category": category, "passed": False, "reasons": (text,)}
                for one, (_, category) in more.items()
            },
            "fine": {**verdict, "passed": True},
        },
        safety=(SafetyFigure("input", text, text, 0.9, 0.8, 1.0, 9),),
        advice=(Advice(text, text, text, (text,)),),
        comparison=Comparison(text, text, (change,), (flips,), (text,)),
        latency=(Latency(text, 2, 1.0, 2.0, 3.0, 4.0, text),),
    )


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_text_becomes_markup(attack: str) -> None:
    harmless = parsed(report_html(full_report("harmless")))
    attacked = parsed(report_html(full_report(attack)))
    assert [tag for tag, _ in attacked.tags] == [tag for tag, _ in harmless.tags]
    assert [sorted(attributes) for _, attributes in attacked.tags] == [
        sorted(a) for _, a in harmless.tags
    ]
    assert attacked.broken == []


@pytest.mark.parametrize(
    "attack", ["<script>alert(1)</script>", "|a|b|", "[x](javascript:alert(1))", "# head\n\n- list"]
)
def test_no_text_becomes_markdown(attack: str) -> None:
    lines = report_markdown(full_report(attack)).splitlines()
    assert len(lines) == len(report_markdown(full_report("harmless")).splitlines())
    text = "\n".join(lines)
    assert not re.search(r"(?<!\\)<script", text)
    assert not re.search(r"(?<!\\)\](?=\(javascript)", text)
    cells = {
        line.count("|") - line.count("\\|") for line in lines if line.startswith("| retrieval")
    }
    assert cells == {9}


def test_control_signs_of_texts_reach_neither_page_nor_markdown() -> None:
    report = full_report("red \x1b[31m \x9b31m \u202egnp.exe می\u200cخواهم")
    for page in (report_html(report), report_markdown(report)):
        assert not set(page) & set("\x1b\x9b\u202e")
        assert "می\u200cخواهم" in page


def test_nothing_is_asked_of_a_network_and_only_our_script_runs() -> None:
    html = report_html(full_report("harmless"))
    tags = parsed(html).tags
    assert not {"link", "img", "iframe", "object", "base"} & {tag for tag, _ in tags}
    assert not [
        key
        for _, attributes in tags
        for key in attributes
        if key in {"src", "action"} or key[:2] == "on"
    ]
    assert all((attributes.get("href") or "#").startswith("#") for _, attributes in tags)
    [script] = re.findall(r"<script[^>]*>(.*?)</script>", html, re.DOTALL)
    [policy] = [attributes["content"] or "" for _, attributes in tags if "http-equiv" in attributes]
    assert "default-src 'none'" in policy
    assert f"script-src {script_hash(script)};" in policy
    assert "url(" not in html
    assert "@import" not in html


def test_every_part_is_there_and_verdicts_are_words() -> None:
    html = report_html(full_report("harmless"))
    for head in (
        "Against the baseline",
        "Measures",
        "Likely causes",
        "Categories",
        "Failed questions",
        "Latency",
        "Safety",
    ):
        assert f"<h2>{head}" in html
        assert re.search(rf">{head}[^<]*</a></li>", html)  # in the table of contents
    assert "✗ missed" in html
    assert "✓ passed" in html
    assert "not sure: the target lies in the interval" in html
    assert "? not measured" in html
    assert re.search(r'<div class="word">✗ failed</div>', html)


def test_every_figure_has_alternative_text() -> None:
    tags = parsed(report_html(full_report("harmless"))).tags
    figures = [attributes for tag, attributes in tags if tag in {"svg", "img", "canvas"}]
    assert len(figures) > 5
    for attributes in figures:
        assert attributes.get("aria-label") or attributes.get("aria-hidden") == "true", attributes


def test_a_report_without_anything_optional_is_a_page_too() -> None:
    html = report_html(Result("x", {}, {}, score_frame([])))
    assert "✗ failed" in html
    assert "Nothing could be measured." in html
    assert "<h2>Latency" not in html
    assert parsed(html).broken == []


@pytest.mark.parametrize("query_id", [*ATTACKS, "ordinary", "x" * 500, "Füße?", ""])
def test_every_question_has_one_place_and_links_lead_to_it(query_id: str) -> None:
    assert re.fullmatch(r"q-[A-Za-z0-9._-]{0,80}", anchor(query_id))
    tags = parsed(report_html(full_report("harmless", query_id))).tags
    places = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(places) == len(set(places))
    links = {(attributes.get("href") or "")[1:] for tag, attributes in tags if tag == "a"}
    assert links <= set(places)
    assert {anchor(query_id), anchor("fine")} <= links


def test_retrieved_texts_mark_gold_evidence_and_show_what_was_not_found() -> None:
    text = (
        "Cats \U0001f408 sleep <all> day. " + "Long. " * 300 + "Mail ana.ruiz@firm.com. Dogs bark."
    )
    spans = [
        Span("d", text.index(part), text.index(part) + len(part))
        for part in ("sleep <all> day", "Dogs bark")
    ]
    case = Case(
        "q",
        "When?",
        evidence=tuple(spans),
        reference_answer="Always",
        required_keywords=("always",),
    )
    data = Dataset("d", "test", {"d": Document("d", text)}, (case,), {"q": {"d": 1}})
    begin, end = f"d#0-{text.index('Mail')}", f"d#{text.index('Mail')}-{len(text)}"
    answer = Answer("q", "Never.", contexts=(begin,))
    html = report_html(
        evaluate(data, [answer], perspectives=["retrieval", "answer"], embedder="wordllama")
    )
    assert "Cats \U0001f408 <mark>sleep &lt;all&gt; day</mark>. Long." in html
    assert " […] " in html
    assert '<blockquote class="lost">Dogs bark</blockquote>' in html
    both = replace(answer, contexts=(begin, end))
    html = report_html(
        evaluate(data, [both], perspectives=["retrieval", "answer"], embedder="wordllama")
    )
    assert "ana.ruiz" not in html
    assert 'class="lost">' not in html


def bar_of(row: MeasureResult) -> dict[str, Any]:
    numbers = (row.value, row.ci_low, row.ci_high, row.target, row.ceiling)
    return interval_bar(*numbers, row.lower_is_better)


def test_what_cannot_be_reached_is_marked_on_the_right_side() -> None:
    high = MeasureResult("P@5", "retrieval", 0.2, 0.1, 0.3, 9, 9, ceiling=0.4)
    low = MeasureResult(
        "fact_dispersion", "context", 2.0, 1.5, 2.5, 9, 9, ceiling=1.0, lower_is_better=True
    )
    assert bar_of(high)["beyond"] == (89.2, 214.0)
    assert bar_of(low)["beyond"][0] == 6.0
    assert bar_of(replace(high, ceiling=1.0))["beyond"] is None


def test_no_number_is_drawn_outside_its_bar() -> None:
    bar = bar_of(MeasureResult("x", "context", 5.0, -1.0, 12.0, 9, 9, target=20.0))
    assert 6.0 <= bar["low"] <= bar["value"] <= bar["target"] <= 214.0
