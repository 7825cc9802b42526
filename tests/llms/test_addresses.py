"""The variables that every client of OpenAI and Anthropic reads name the server here, too."""

from __future__ import annotations

from typing import Any

import pytest

from ragbench import llms
from ragbench.llms.providers import address_of

OWN, SHARED = "http://127.0.0.1:9/own", "http://127.0.0.1:9/shared"


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("own", ["", "  ", OWN])
@pytest.mark.parametrize("shared", ["", SHARED, f"{SHARED}/"])
def test_the_address_of_the_environment_is_honoured(
    llm_environment: Any, provider: str, own: str, shared: str
) -> None:
    llm_environment.setenv(f"RAG_EVAL_{provider.upper()}_BASE_URL", own)
    llm_environment.setenv(f"{provider.upper()}_BASE_URL", shared)
    expected = own.strip() or shared.rstrip("/")
    hosted = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
    assert address_of(f"{provider}:m") == (expected or hosted[provider])


def test_the_request_goes_to_that_server(llm_environment: Any, loopback: Any, wire: Any) -> None:
    server = loopback(lambda asked: wire.Answered(wire.openai("In 1881.")))
    llm_environment.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
    assert llms.load_llm("openai:m").generate("When?").text == "In 1881."
    assert server.asked[0].path == "/v1/chat/completions"
