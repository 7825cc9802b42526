"""What is a leak, and what only looks like one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.errors import ConfigError
from ragbench.metrics.safety import leakage_findings

# put together here so that no scanner of repositories takes them for real
AWS = "AKIA" + "QX7RZL2MNB4VTP6W"
GITHUB = "ghp_" + "wQ3eR7tY1uI9oP5aS2dF6gH8jK4lZ0xCvB1n"
ANTHROPIC = "sk-" + "ant-api03-b7Qm2ZtR9xLw4VnC8yHs6KdF3aJpE5uG"


def kinds(text: str, contexts: tuple[str, ...] = ()) -> list[str]:
    return [finding.kind for finding in leakage_findings(text, contexts)]


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ("write to ana.ruiz+x@firm.co.uk.", "email", "ana.ruiz+x@firm.co.uk"),
        ("jane.doe@example.com said so", "email", "jane.doe@example.com"),
        ("call +34 912 345 678 now", "phone", "+34 912 345 678"),
        ("(415) 555-0132", "phone", "(415) 555-0132"),
        ("or 555-123-4567", "phone", "555-123-4567"),
        ("Telefon: 030 23125 123", "phone", "030 23125 123"),
        ("card 4111-1111-1111-1111.", "card", "4111-1111-1111-1111"),
        ("on 378282246310005 file", "card", "378282246310005"),
        ("SSN 536-22-8714", "ssn", "536-22-8714"),
        ("social security number is 536228714", "ssn", "536228714"),
        ("to DE89 3704 0044 0532 0130 00 PLEASE", "iban", "DE89 3704 0044 0532 0130 00"),
        ("from 93.184.216.34 again", "ip_address", "93.184.216.34"),
        (f"key {AWS} here", "secret", AWS),
        (f"clone with {GITHUB}", "secret", GITHUB),
        (f"use {ANTHROPIC}", "secret", ANTHROPIC),
        ("the password is hunter2.", "secret", "hunter2"),
        ('"api_key": "q8Zt-44Lmx"', "secret", "q8Zt-44Lmx"),
        ("mysql://bob:" + "kX9vT2mQ@db/x", "secret", "kX9vT2mQ"),
        ("see db-07.prod.internal for it", "internal_host", "db-07.prod.internal"),
        ("as CUST-004711 wrote", "record_id", "CUST-004711"),
    ],
)
def test_found_where_it_stands(text: str, kind: str, found: str) -> None:
    (finding,) = leakage_findings(text)
    assert (finding.kind, text[finding.start : finding.end]) == (kind, found)
    assert found not in finding.masked
    assert finding.masked == f"{found[:2]}***"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ISBN 978-3-16-148410-0 and ISBN 0-306-40615-2",
        "version 10.20.30.40, section 12.14.3.2, 1.2.3.4",
        "order 4711-0815-2231, 2024-01-31, 10:55-13:25, 1,204,377 people",
        "card 4111 1111 1111 1112 fails its checksum",
        "DE89 3704 0044 0532 0130 01 fails its checksum",
        "000-12-3456 and 666-12-3456 are no social security numbers",
        "sha256 " + "0a1b2c3d" * 8 + ", 123e4567-e89b-12d3-a456-426614174000",
        "api_key = YOUR_API_KEY, token: <token>, password=xxxxxxxx, secret: ${SECRET}",
        "a password is required; the token is invalid; the secret is patience",
        "write to support@firm.com or user@example.com",
        "bind to 127.0.0.1, 192.168.1.10 or 10.0.0.7",
        "pi is 3.14159265358979323846",
        "n = 1204 (95% CI 0.88-0.95), 555 lost, 1995-2001, 3232235521 in all",
        "ISO-9001, COVID-19, UTF-8, ABC-123",
        "@decorator and a@b",
    ],
)
def test_harmless_numbers_stay_calm(text: str) -> None:
    assert leakage_findings(text) == []


def test_private_key_is_one_finding() -> None:
    key = "-----BEGIN " + "RSA PRIVATE KEY-----\nMIIabc\n-----END " + "RSA PRIVATE KEY-----"
    (finding,) = leakage_findings(f"here: {key} ok")
    assert (finding.kind, finding.end - finding.start) == ("secret", len(key))


CONTEXT = " ".join(f"word{i}" for i in range(60))


def test_a_long_copy_is_found_and_a_quotation_is_not() -> None:
    thirty = " ".join(f"Word{i}," for i in range(10, 40))
    (finding,) = leakage_findings(f"So: {thirty} end.", [CONTEXT])
    assert (finding.kind, finding.masked, finding.start) == ("verbatim", "[30 words]", 4)
    assert leakage_findings(" ".join(f"word{i}" for i in range(29)), [CONTEXT]) == []
    assert kinds_copied(29, 20) == ["verbatim"]


def kinds_copied(words: int, least: int) -> list[str]:
    text = " ".join(f"word{i}" for i in range(words))
    return [finding.kind for finding in leakage_findings(text, [CONTEXT], copied_words=least)]


def test_a_whole_short_context_is_a_copy() -> None:
    context = "our margin on the winter line is forty one percent after tax"
    assert kinds(f"Well, {context}!", (context,)) == ["verbatim"]
    assert kinds("our margin on the winter line is good", (context,)) == []


def test_overlapping_copies_of_two_contexts_are_one() -> None:
    words = CONTEXT.split()
    found = leakage_findings(CONTEXT, [" ".join(words[:40]), " ".join(words[20:])])
    assert [finding.masked for finding in found] == ["[60 words]"]


def test_own_patterns_stand_in_for_the_defaults() -> None:
    found = leakage_findings("PRJ-17 and CUST-004711", internal={"project": r"PRJ-\d+"})
    assert [finding.kind for finding in found] == ["project"]
    assert leakage_findings("CUST-004711", internal={}) == []


def test_wrong_parameters_are_named() -> None:
    with pytest.raises(ConfigError, match=r"'bad'.*not a regular expression"):
        leakage_findings("x", internal={"bad": "("})
    with pytest.raises(ConfigError, match="copied_words is 2"):
        leakage_findings("x", copied_words=2)
    with pytest.raises(ConfigError, match="unknown region 'XX'"):
        leakage_findings("call 030 23125 123", regions=["XX"])


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_gives_ordered_findings_inside_it(text: str, context: str) -> None:
    found = leakage_findings(text, [context])
    assert found == sorted(found)
    assert all(0 <= finding.start < finding.end <= len(text) for finding in found)
    assert found == leakage_findings(text, [context])


@settings(max_examples=40, deadline=None)
@given(st.text(alphabet="abc \n", max_size=40), st.text(alphabet="abc \n", max_size=40))
def test_text_around_does_not_hide_a_leak(before: str, after: str) -> None:
    assert "iban" in kinds(f"{before} DE89370400440532013000 {after}")
