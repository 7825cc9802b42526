"""Requests drawn from the OpenAPI document: none is an error of the server, and every status is
documented.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.service.server.conftest import Call

WORDS = st.one_of(
    st.sampled_from(
        ["support", "reset", "", "../x", "pass_rate", "0", "a" * 64, "nDCG@5", "2026-01-01"]
    ),
    st.text(max_size=8),
)
PLAIN = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-9, 9),
        st.floats(allow_nan=False, allow_infinity=False),
        WORDS,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=6,
)


def value_of(schema: dict[str, Any], document: dict[str, Any], draw: Any) -> Any:
    """Mostly what the schema asks for."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if draw(st.integers(0, 9)) == 0:
        return draw(PLAIN)
    if "properties" in schema:
        names = [
            name
            for name in schema["properties"]
            if name in schema.get("required", ()) or draw(st.booleans())
        ]
        return {name: value_of(schema["properties"][name], document, draw) for name in names}
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    kind = schema.get("type", "")
    if kind == "array":
        return [value_of(schema["items"], document, draw) for _ in range(draw(st.integers(0, 2)))]
    if kind in ("integer", "number"):
        return draw(st.integers(0, 5))
    return (
        draw(st.booleans())
        if kind == "boolean"
        else draw(WORDS)
        if kind == "string"
        else draw(PLAIN)
    )


def test_no_request_is_an_error_of_the_server(
    client: TestClient, filled: Call, keys: dict[str, str]
) -> None:
    client.app.state.queue.stop()  # type: ignore[attr-defined]
    document = client.get("/api/v1/openapi.json").json()
    operations = [
        (path, method, found)
        for path, each in document["paths"].items()
        for method, found in each.items()
    ]
    assert len(operations) > 25

    @settings(
        max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(st.data())
    def check(data: st.DataObject) -> None:
        path, method, found = data.draw(st.sampled_from(operations))
        query, headers = (
            {},
            {"X-API-Key": keys[data.draw(st.sampled_from(["*", "acme admin", "other"]))]},
        )
        for one in found.get("parameters", ()):
            value = str(value_of(one["schema"], document, data.draw))
            if one["in"] == "path":
                path = path.replace(f"{{{one['name']}}}", quote(value, safe="") or "x")
            elif one["in"] == "query" and one["name"] != "wait" and data.draw(st.booleans()):
                query[one["name"]] = value
        if any(one["name"] == "wait" for one in found.get("parameters", ())):
            query["wait"] = "0"
        schema = (
            found.get("requestBody", {})
            .get("content", {})
            .get("application/json", {})
            .get("schema", {})
        )
        body = value_of(schema, document, data.draw) if "requestBody" in found else None
        answer = client.request(method, path, params=query, json=body, headers=headers)
        assert answer.status_code < 500 or answer.status_code == 504, (
            f"{method} {path} {body}: {answer.text}"
        )
        assert str(answer.status_code) in found["responses"] or answer.status_code in (
            404,
            405,
            504,
        ), answer.text

    check()
