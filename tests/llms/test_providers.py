"""Every provider against a real server that speaks its documented format: replies, refusals,
silence, broken lines.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

from ragbench import llms
from ragbench.errors import ConfigError, DataWarning, ModelError, RagbenchError
from ragbench.llms.anthropic import Claude
from ragbench.llms.providers import stored_llm

KEY = "sk-test-7f3a9d-do-not-show"
NAMES = {
    "anthropic": "anthropic:claude-haiku-4-5",
    "ollama": "ollama:llama3.1:8b",
    "openai": "openai:gpt-4o-mini",
}
PATHS = {"anthropic": "/v1/messages", "ollama": "/api/chat", "openai": "/v1/chat/completions"}
every_provider = pytest.mark.parametrize("provider", list(NAMES))


@pytest.fixture
def ask(
    loopback: Any, wire: Any, llm_environment: pytest.MonkeyPatch
) -> Callable[..., tuple[llms.StoredLLM, Any]]:
    """A model of the provider, and its server, which gives these answers one after another (the
    last again).
    """

    def prepare(provider: str, *answers: Any) -> tuple[llms.StoredLLM, Any]:
        left = list(answers) or [wire.Answered(getattr(wire, provider)("Hello."))]

        def reply(asked: Any) -> Any:
            if asked.method == "GET":
                listed = {"models": [{"name": "qwen3:8b"}], "data": [{"id": "qwen3"}]}
                return wire.Answered(listed)
            return left.pop(0) if len(left) > 1 else left[0]

        server = loopback(reply)
        llm_environment.setenv(f"RAG_EVAL_{provider.upper()}_BASE_URL", server.url)
        if provider != "ollama":
            llm_environment.setenv(f"RAG_EVAL_{provider.upper()}_API_KEY", KEY)
        return stored_llm(NAMES[provider]), server

    return prepare


# --- what is sent and what comes back
# ---------------------------------------------------------------------------------


@every_provider
def test_text_tokens_model_and_latency_come_back(ask: Any, provider: str) -> None:
    llm, server = ask(provider)
    reply = llm.generate("Hi?", system="Be brief.", max_tokens=33, temperature=0.5)
    assert (reply.text, reply.model, reply.finish, reply.error) == (
        "Hello.",
        NAMES[provider],
        "stop",
        None,
    )
    assert (reply.input_tokens, reply.output_tokens, reply.cached) == (11, 7, False)
    assert 0 < reply.latency_s < 5
    assert [asked.path for asked in server.asked] == [PATHS[provider]]


def test_anthropic_is_asked_as_documented(ask: Any) -> None:
    llm, server = ask("anthropic")
    llm.generate("Hi?", system="Be brief.", max_tokens=33, temperature=0.5)
    asked = server.asked[0]
    assert (
        KEY in asked.headers["authorization" if "authorization" in asked.headers else "x-api-key"]
    )  # by SDK version
    assert asked.headers["anthropic-version"]
    assert asked.body == {
        "model": "claude-haiku-4-5",
        "max_tokens": 33,
        "temperature": 0.5,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Hi?"}],
    }


def test_ollama_is_asked_as_documented(ask: Any) -> None:
    llm, server = ask("ollama")
    llm.generate("Hi?", system="Be brief.", max_tokens=33, temperature=0.5, sample=2)
    assert "authorization" not in server.asked[0].headers
    assert server.asked[0].body == {
        "model": "llama3.1:8b",
        "stream": False,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi?"},
        ],
        "options": {"temperature": 0.5, "num_predict": 33, "seed": 2, "num_ctx": 4096},
    }


def test_ollama_gets_a_window_that_the_prompt_fits_in(ask: Any) -> None:
    llm, server = ask("ollama")
    llm.generate("word " * 6_000)
    llm.generate("short")
    windows = [asked.body["options"]["num_ctx"] for asked in server.asked]
    assert windows == [
        16384,
        16384,
    ]  # 30,000 bytes; it never shrinks, since a change loads the model anew


def test_openai_is_asked_as_documented(ask: Any) -> None:
    llm, server = ask("openai")
    llm.generate("Hi?", system="Be brief.", max_tokens=33, temperature=0.5)
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.asked[0].body == {
        "model": "gpt-4o-mini",
        "max_tokens": 33,
        "temperature": 0.5,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi?"},
        ],
    }


@pytest.mark.parametrize(
    ("given", "path"), [("", "/v1"), ("/", "/v1"), ("/v1/", "/v1"), ("/api/openai", "/api/openai")]
)
def test_a_base_url_without_a_path_means_v1(
    ask: Any, llm_environment: Any, given: str, path: str
) -> None:
    _, server = ask("openai")
    llm_environment.setenv("RAG_EVAL_OPENAI_BASE_URL", server.url + given)
    llms.load_llm("openai:m").generate("Hi?")
    assert server.asked[0].path == f"{path}/chat/completions"


@pytest.mark.parametrize(
    ("provider", "body", "finish", "text"),
    [
        ("anthropic", {"text": "cut", "stop_reason": "max_tokens"}, "length", "cut"),
        ("anthropic", {"text": "", "stop_reason": "refusal"}, "refusal", ""),
        ("anthropic", {"text": ""}, "stop", ""),
        ("ollama", {"text": "cut", "done_reason": "length"}, "length", "cut"),
        ("ollama", {"text": ""}, "stop", ""),
        ("openai", {"text": "cut", "finish_reason": "length"}, "length", "cut"),
        ("openai", {"text": None, "finish_reason": "content_filter"}, "refusal", ""),
        ("openai", {"text": None}, "stop", ""),
    ],
)
def test_how_a_reply_ended(
    ask: Any, wire: Any, provider: str, body: dict[str, Any], finish: str, text: str
) -> None:
    llm, _ = ask(provider, wire.Answered(getattr(wire, provider)(**body)))
    reply = llm.generate("Hi?")
    assert (reply.finish, reply.text) == (finish, text)


def test_anthropic_tokens_of_its_prompt_cache_count_and_thoughts_are_not_text(
    ask: Any, wire: Any
) -> None:
    body = wire.anthropic("Hello.")
    body["content"].insert(0, {"type": "thinking", "thinking": "hm", "signature": "x"})
    body["usage"] = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 20,
        "cache_read_input_tokens": 100,
        "output_tokens": 5,
    }
    llm, _ = ask("anthropic", wire.Answered(body))
    reply = llm.generate("Hi?")
    assert (reply.text, reply.input_tokens) == ("Hello.", 123)


def test_a_refusal_in_its_own_field_is_read(ask: Any, wire: Any) -> None:
    body = wire.openai(None)
    body["choices"][0]["message"]["refusal"] = "I cannot help with that."
    llm, _ = ask("openai", wire.Answered(body))
    assert llm.generate("Hi?").text == "I cannot help with that."
    assert llm.generate("Hi?").finish == "refusal"


def test_without_usage_figures_the_cost_is_unknown_not_zero(ask: Any, wire: Any) -> None:
    body = wire.openai("Hello.")
    del body["usage"]
    llm, _ = ask("openai", wire.Answered(body))
    reply = llm.generate("Hi?")
    assert (reply.input_tokens, llms.cost_of(reply)) == (0, None)


# --- structured output
# ------------------------------------------------------------------------------------------------

SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"type": "boolean"}},
    "required": ["verdict"],
    "additionalProperties": False,
}


def test_each_provider_gets_the_schema_its_own_way(ask: Any) -> None:
    for provider in NAMES:
        llm, server = ask(provider)
        llm.generate("Hi?", schema=SCHEMA)
        body = server.asked[0].body
        found = {
            "anthropic": lambda body=body: body["output_config"]["format"],
            "ollama": lambda body=body: body["format"],
            "openai": lambda body=body: body["response_format"],
        }[provider]()
        expected = {
            "anthropic": {"type": "json_schema", "schema": SCHEMA},
            "ollama": SCHEMA,
            "openai": {
                "type": "json_schema",
                "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True},
            },
        }[provider]
        assert found == expected


def test_openai_server_without_schemas_gets_the_schema_in_the_prompt_and_refuses_only_once(
    ask: Any, wire: Any
) -> None:
    refusal = wire.Answered(
        {"error": {"message": "'response_format.type' must be 'text'"}}, status=400
    )
    llm, server = ask("openai", refusal, wire.Answered(wire.openai('{"verdict": true}')))
    assert llm.generate("Hi?", schema=SCHEMA).text == '{"verdict": true}'
    llm.generate("And now?", schema=SCHEMA)
    assert ["response_format" in asked.body for asked in server.asked] == [True, False, False]
    assert '"verdict"' in server.asked[1].body["messages"][0]["content"]


def test_anthropic_model_without_schemas_is_given_a_tool(ask: Any, wire: Any) -> None:
    refusal = {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "output_config: not supported"},
    }
    used = wire.anthropic("", stop_reason="tool_use")
    used["content"] = [
        {"type": "tool_use", "id": "t", "name": "give_reply", "input": {"verdict": True}}
    ]
    llm, server = ask("anthropic", wire.Answered(refusal, status=400), wire.Answered(used))
    reply = llm.generate("Hi?", schema=SCHEMA)
    assert (reply.text, reply.finish) == ('{"verdict": true}', "stop")
    assert server.asked[1].body["tool_choice"] == {"type": "tool", "name": "give_reply"}
    assert server.asked[1].body["tools"][0]["input_schema"] == SCHEMA


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_model_that_takes_no_temperature_is_asked_without_and_a_warning_reports_it(
    ask: Any, wire: Any, provider: str
) -> None:
    refusal = {"error": {"message": "`temperature` is deprecated for this model."}}
    llm, server = ask(
        provider,
        wire.Answered(refusal, status=400),
        wire.Answered(getattr(wire, provider)("Hello.")),
    )
    with pytest.warns(DataWarning, match="takes no temperature"):
        assert llm.generate("Hi?").text == "Hello."
    llm.generate("And now?")
    assert ["temperature" in asked.body for asked in server.asked] == [True, False, False]


def test_a_model_that_wants_max_completion_tokens_gets_them(ask: Any, wire: Any) -> None:
    refusal = {
        "error": {
            "message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
        }
    }
    llm, server = ask(
        "openai", wire.Answered(refusal, status=400), wire.Answered(wire.openai("Hello."))
    )
    assert llm.generate("Hi?", max_tokens=9).text == "Hello."
    assert server.asked[1].body["max_completion_tokens"] == 9
    assert "max_tokens" not in server.asked[1].body


# --- refusals that waiting does not help
# ------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, "check its length, max_tokens and temperature"),
        (401, "set RAG_EVAL_{}_API_KEY or {}_API_KEY to a valid one"),
        (403, "the key may not use this model"),
        (404, "set RAG_EVAL_{}_MODEL"),
    ],
)
def test_what_cannot_succeed_is_asked_once_and_the_error_names_what_to_set(
    ask: Any, wire: Any, provider: str, status: int, expected: str
) -> None:
    llm, server = ask(
        provider, wire.Answered({"error": {"message": f"no: {KEY} is bad"}}, status=status)
    )
    with pytest.raises(ModelError) as caught:
        llm.generate("Hi?")
    message = str(caught.value)
    assert expected.format(provider.upper(), provider.upper()) in message
    assert NAMES[provider] in message
    assert f"({status}: no: *** is bad)" in message
    assert len([asked for asked in server.asked if asked.method == "POST"]) == 1


def test_a_model_that_ollama_lacks_is_to_be_pulled(ask: Any, wire: Any) -> None:
    llm, _ = ask("ollama", wire.Answered({"error": "model 'llama3.1:8b' not found"}, status=404))
    with pytest.raises(ModelError, match=r"run `ollama pull llama3.1:8b`, or set RAG_EVAL_OLLAMA_"):
        llm.generate("Hi?")


@pytest.mark.parametrize(
    ("provider", "status", "message"),
    [
        ("openai", 429, "You exceeded your current quota (insufficient_quota)"),
        ("anthropic", 400, "Your credit balance is too low to access the Anthropic API."),
    ],
)
def test_an_empty_account_is_not_waited_for(
    ask: Any, wire: Any, provider: str, status: int, message: str
) -> None:
    llm, server = ask(provider, wire.Answered({"error": {"message": message}}, status=status))
    with pytest.raises(ModelError, match="no credit is left"):
        llm.generate("Hi?")
    assert len(server.asked) == 1


@every_provider
def test_a_missing_server_is_one_clear_error(llm_environment: Any, provider: str) -> None:
    llm_environment.setenv(f"RAG_EVAL_{provider.upper()}_BASE_URL", "http://127.0.0.1:9")
    llm_environment.setenv(f"RAG_EVAL_{provider.upper()}_API_KEY", KEY)
    with pytest.raises(
        ModelError,
        match=rf"no server answers at http://127.0.0.1:9.*RAG_EVAL_{provider.upper()}_BASE",
    ):
        llms.load_llm(NAMES[provider]).generate("Hi?")


# --- troubles that pass
# -----------------------------------------------------------------------------------------------


@every_provider
@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_a_passing_trouble_is_waited_out(ask: Any, wire: Any, provider: str, status: int) -> None:
    trouble = wire.Answered(
        {"error": {"message": "later"}}, status=status, headers={"retry-after": "0"}
    )
    llm, server = ask(provider, trouble, trouble, wire.Answered(getattr(wire, provider)("Hello.")))
    assert llm.generate("Hi?").text == "Hello."
    assert len(server.asked) == 3


def test_the_wait_is_the_one_the_server_asks_for(ask: Any, wire: Any) -> None:
    busy = wire.Answered({"error": "busy"}, status=429, headers={"retry-after": "1"})
    llm, _ = ask("ollama", busy, wire.Answered(wire.ollama("Hello.")))
    start = time.perf_counter()
    reply = llm.generate("Hi?")
    assert time.perf_counter() - start > 0.95
    assert reply.latency_s < 0.9  # the wait is not the model's latency


def test_without_a_word_from_the_server_the_wait_grows(ask: Any, wire: Any) -> None:
    llm, server = ask(
        "ollama", *[wire.Answered(status=500)] * 2, wire.Answered(wire.ollama("Hello."))
    )
    start = time.perf_counter()
    llm.generate("Hi?")
    assert time.perf_counter() - start > 0.7  # between 0.25 + 0.5 and 0.5 + 1.0
    assert len(server.asked) == 3


def test_a_trouble_that_does_not_pass_is_given_up(ask: Any, wire: Any) -> None:
    llm, server = ask(
        "openai",
        wire.Answered(
            {"error": {"message": "overloaded"}}, status=529, headers={"retry-after": "0"}
        ),
    )
    with pytest.raises(
        ModelError, match=r"529: overloaded after 30 tries; what came back is stored"
    ):
        llm.generate("Hi?")
    assert len(server.asked) == 30


def test_a_wait_of_an_hour_is_not_sat_out(ask: Any, wire: Any) -> None:
    llm, server = ask("openai", wire.Answered(status=429, headers={"retry-after": "3600"}))
    with pytest.raises(ModelError, match="the server asks to wait 3600 s"):
        llm.generate("Hi?")
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "asked_to_wait", ["inf", "1e400", "601", "Fri, 31 Dec 9999 23:59:59 GMT", "9" * 500]
)
def test_a_wait_beyond_the_bound_ends_the_tries(ask: Any, wire: Any, asked_to_wait: str) -> None:
    llm, server = ask("openai", wire.Answered(status=429, headers={"retry-after": asked_to_wait}))
    with pytest.raises(ModelError, match="the longest wait is 600 s"):
        llm.generate("Hi?")
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "asked_to_wait", ["-5", "-inf", "nan", "soon", "", "Thu, 01 Jan 1970 00:00:00 GMT", "1; 2"]
)
def test_a_wait_that_is_none_leaves_the_usual_back_off(
    ask: Any, wire: Any, asked_to_wait: str
) -> None:
    busy = wire.Answered(status=429, headers={"retry-after": asked_to_wait})
    llm, server = ask("openai", busy, wire.Answered(wire.openai("Hello.")))
    start = time.monotonic()
    assert llm.generate("Hi?").text == "Hello."
    assert time.monotonic() - start > 0.25
    assert len(server.asked) == 2


@every_provider
@pytest.mark.parametrize("cut_after", [0, 10])
def test_a_cut_reply_is_asked_for_once_more(
    ask: Any, wire: Any, provider: str, cut_after: int
) -> None:
    whole = getattr(wire, provider)("Hello.")
    cut = wire.Answered(whole, cut_after=cut_after)
    llm, server = ask(provider, cut, wire.Answered(whole))
    assert llm.generate("Hi?").text == "Hello."
    assert len(server.asked) == 2
    llm, server = ask(provider, cut)
    with pytest.raises(ModelError, match=r"the connection was cut .* after 2 tries"):
        llm.generate("Hi again?")
    assert len(server.asked) == 2


@every_provider
@pytest.mark.parametrize(
    "body",
    [
        b"<html>Bad gateway</html>",
        b'{"half": ',
        b"[]",
        b'{"unexpected": 1}',
        b"",
        b'{"a":' * 100_000,
        b"\xff\xfe\x00{",
    ],
    ids=lambda body: repr(body[:12]),
)
def test_a_body_that_is_not_a_reply_is_bought_once(
    ask: Any, wire: Any, provider: str, body: bytes
) -> None:
    llm, server = ask(
        provider, wire.Answered(body), wire.Answered(getattr(wire, provider)("Hello."))
    )
    with pytest.raises(ModelError, match="reply cannot be read"):
        llm.generate("Hi?")
    assert len(server.asked) == 1


@every_provider
def test_a_byte_order_mark_before_a_reply_is_read(ask: Any, wire: Any, provider: str) -> None:
    body = b"\xef\xbb\xbf" + json.dumps(getattr(wire, provider)("Hello.")).encode()
    llm, server = ask(provider, wire.Answered(body))
    assert llm.generate("Hi?").text == "Hello."
    assert len(server.asked) == 1


@every_provider
def test_a_server_that_is_silent_is_not_waited_for_longer_than_asked(
    ask: Any, wire: Any, provider: str
) -> None:
    llm, server = ask(provider, wire.Answered(getattr(wire, provider)("Hello."), delay_s=1.5))
    llm.generate("warm the imports up")
    reply = llms.generate_many(llm, ["Hi?"], timeout_s=0.3)[0]
    assert reply.error is not None
    assert "no reply within 0.3 s" in reply.error
    assert len(server.asked) == 3  # one to warm up, two tries


def test_a_server_that_drips_is_not_waited_for_longer_than_asked(ask: Any, wire: Any) -> None:
    llm, _ = ask("ollama", wire.Answered(wire.ollama("Hello."), drip_s=0.05))
    reply = llms.generate_many(llm, ["Hi?"], timeout_s=0.3)[0]
    assert reply.error is not None


# --- names and settings
# -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "environment", "message"),
    [
        ("antropic:m", {}, "did you mean 'anthropic'"),
        ("anthropic", {}, "names no model; write anthropic:<model>"),
        ("anthropic:m", {}, "set RAG_EVAL_ANTHROPIC_API_KEY or ANTHROPIC_API_KEY"),
        ("openai:m", {}, "set RAG_EVAL_OPENAI_API_KEY or OPENAI_API_KEY"),
        ("openai:m", {"OPENAI_API_KEY": "ké"}, "holds characters that no API key has"),
        (
            "ollama:m",
            {"RAG_EVAL_OLLAMA_BASE_URL": "localhost:11434"},
            "expected one such as http://localhost:8000",
        ),
        (
            "ollama:m",
            {"RAG_EVAL_OLLAMA_BASE_URL": "http://h:port"},
            "RAG_EVAL_OLLAMA_BASE_URL is not an address",
        ),
        (
            "env",
            {"RAG_EVAL_PROVIDER": "openai"},
            "no model of openai is named; set RAG_EVAL_OPENAI_MODEL",
        ),
        ("env", {"RAG_EVAL_PROVIDER": "anthropic"}, "set RAG_EVAL_ANTHROPIC_API_KEY"),
        ("env", {"RAG_EVAL_PROVIDER": "olama"}, "RAG_EVAL_PROVIDER: .* did you mean 'ollama'"),
        ("ollama:m", {"RAGBENCH_REPLIES": "of"}, "expected one of on, off, offline"),
        (
            "openai:mine",
            {"OPENAI_API_KEY": "k", "RAGBENCH_MAX_COST": "5"},
            "the price of openai:mine is unknown",
        ),
        (
            "openai:mine",
            {"OPENAI_API_KEY": "k", "RAGBENCH_MAX_COST": "5"},
            '"openai:mine" = { input = 3.00',
        ),
        (
            "openai:mine",
            {"OPENAI_API_KEY": "k", "RAGBENCH_MAX_COST": "5"},
            "continue with --allow-unpriced",
        ),
        ("ollama:m", {"RAGBENCH_MAX_COST": "five"}, "expected US dollars"),
    ],
)
def test_what_is_missing_is_reported_before_anything_is_sent(
    llm_environment: Any, name: str, environment: dict[str, str], message: str
) -> None:
    for variable, value in environment.items():
        llm_environment.setenv(variable, value)
    with pytest.raises(ConfigError, match=message):
        llms.check_llm(name)


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, "ollama:llama3.1:8b"),
        ({"RAG_EVAL_OLLAMA_MODEL": "mistral"}, "ollama:mistral"),
        (
            {"RAG_EVAL_PROVIDER": "anthropic", "ANTHROPIC_API_KEY": "k"},
            "anthropic:claude-sonnet-5-5",
        ),
        (
            {
                "RAG_EVAL_PROVIDER": "anthropic",
                "RAG_EVAL_ANTHROPIC_MODEL": "m",
                "ANTHROPIC_API_KEY": "k",
            },
            "anthropic:m",
        ),
        (
            {"RAG_EVAL_PROVIDER": "openai", "RAG_EVAL_OPENAI_MODEL": "m", "OPENAI_API_KEY": "k"},
            "openai:m",
        ),
    ],
)
def test_env_means_the_environment(
    llm_environment: Any, environment: dict[str, str], name: str
) -> None:
    for variable, value in environment.items():
        llm_environment.setenv(variable, value)
    assert llms.load_llm("env").name == name


def test_a_retired_model_gives_its_successor_unless_another_server_may_have_it(
    llm_environment: Any,
) -> None:
    llm_environment.setenv("RAG_EVAL_PROVIDER", "anthropic")
    llm_environment.setenv("RAG_EVAL_ANTHROPIC_MODEL", "claude-3-5-sonnet-20241022")
    llm_environment.setenv("ANTHROPIC_API_KEY", "k")
    with pytest.warns(DataWarning, match="is retired; claude-sonnet-5-5 is asked instead"):
        assert llms.load_llm("env").name == "anthropic:claude-sonnet-5-5"
    llm_environment.setenv("RAG_EVAL_ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    assert llms.load_llm("env").name == "anthropic:claude-3-5-sonnet-20241022"


def test_an_unpriced_model_may_be_used_under_a_maximum_when_allowed(
    ask: Any, llm_environment: Any
) -> None:
    ask("openai")
    llm = llms.load_llm("openai:mine")
    llm_environment.setenv("RAGBENCH_MAX_COST", "0.01")
    with pytest.raises(ConfigError, match="the price of openai:mine is unknown"):
        llm.generate("Hi?")
    llm_environment.setenv("RAGBENCH_ALLOW_UNPRICED", "1")
    assert llm.generate("Hi?").text == "Hello."


def test_ragbenchs_own_key_goes_before_the_general_one(ask: Any, llm_environment: Any) -> None:
    llm_environment.setenv("OPENAI_API_KEY", "general")
    llm, server = ask("openai")
    llm.generate("Hi?")
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_local_server_needs_no_key(ask: Any, llm_environment: Any) -> None:
    _, server = ask("openai")
    llm_environment.delenv("RAG_EVAL_OPENAI_API_KEY")
    assert llms.load_llm("openai:local").generate("Hi?").text == "Hello."
    assert "authorization" not in server.asked[0].headers


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"temperature": -1}, "temperature -1"),
        ({"system": 3}, "must be texts"),
    ],
)
def test_parameters_are_checked_before_anything_is_sent(
    ask: Any, options: dict[str, Any], message: str
) -> None:
    llm, server = ask("ollama")
    with pytest.raises(ConfigError, match=message):
        llm.generate("Hi?", **options)
    assert server.asked == []


def test_half_a_surrogate_pair_is_sent_as_a_replacement_character(ask: Any) -> None:
    for provider in NAMES:
        llm, server = ask(provider)
        assert llm.generate("odd \ud800 text").text == "Hello."
        assert server.asked[0].body["messages"][-1]["content"] == "odd � text"


# --- keys
# -------------------------------------------------------------------------------------------------------------


def _echo_of_the_key(wire: Any, provider: str, asked: Any) -> Any:
    """A server that repeats the key in whatever is no reply: an error, a list of models, a body
    of another form.
    """
    if asked.method == "GET":
        return wire.Answered({"data": [{"id": KEY}]})
    prompt = asked.body["messages"][-1]["content"]
    if prompt == "404":
        return wire.Answered({"error": {"message": KEY}}, status=404)
    if prompt == "weird":
        return wire.Answered({"weird": KEY})
    if prompt == "junk":
        return wire.Answered(f"<html>{KEY}".encode())
    return wire.Answered(getattr(wire, provider)("fine"))


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_server_that_repeats_the_key_everywhere_does_not_bring_it_in(
    ask: Any, wire: Any, provider: str, tmp_path: Any
) -> None:
    llm, server = ask(provider)
    server.reply = lambda asked: _echo_of_the_key(wire, provider, asked)
    seen = []
    for prompt in ("404", "weird", "junk", "fine"):
        try:
            seen.append(repr(llm.generate(prompt)))
        except RagbenchError as exc:
            chain: BaseException | None = exc
            while chain is not None:
                seen.append(f"{chain!r} {vars(chain)}")
                chain = chain.__cause__ or chain.__context__
    assert len(seen) > 3
    assert KEY not in "\n".join(seen)
    assert not any(
        KEY.encode() in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()
    )


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
@pytest.mark.parametrize("status", [200, 400, 401, 404, 500])
def test_a_key_is_in_no_representation_message_log_or_file(
    ask: Any, wire: Any, provider: str, status: int, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    body = (
        getattr(wire, provider)("your key is secret")
        if status == 200
        else {"error": {"message": "x" * 290 + KEY}}
    )
    llm, server = ask(provider, wire.Answered(body, status=status, headers={"retry-after": "0"}))
    seen = [repr(llm), str(vars(llm))]
    try:
        seen.append(repr(llm.generate("Hi?")))
    except RagbenchError as exc:
        chain: BaseException | None = exc
        while chain is not None:
            seen.append(repr(chain))
            chain = chain.__cause__ or chain.__context__
    seen.append(repr(llms.generate_many(llm, ["Hi?", "And?"])))
    assert KEY in str(server.asked[0].headers)  # it is sent, and only there
    everything = "\n".join(
        [*seen, caplog.text, *(str(record.__dict__) for record in caplog.records)]
    )
    assert KEY not in everything
    assert KEY[:12] not in everything
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes()


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("1", "It weighs 2 kilograms [1]."),
        ("two", "It has two wings."),
        ("none", "There are none."),
        ("test", "The test passed, as all tests do."),
        ("true", '{"reason": "ok", "score": 1, "correct": true}'),
        ("ollama", "ollama serves models."),
        ("lm-studio", "Start lm-studio first."),
        ("not-needed", "A key is not-needed here."),
        ("sk-test-7f3a9d-do-not-show", "The documents name sk-test-7f3a9d-do-not-show."),
        (" EMPTY ", "EMPTY is the usual key."),
    ],
)
def test_a_reply_is_never_changed_whatever_the_key(
    ask: Any, wire: Any, llm_environment: Any, provider: str, key: str, text: str
) -> None:
    llm, server = ask(provider, wire.Answered(getattr(wire, provider)(text)))
    llm_environment.setenv(f"RAG_EVAL_{provider.upper()}_API_KEY", key)
    llm = llms.load_llm(llm.name)
    assert llm.generate("Hi?").text == text
    assert llm.generate("Hi?").text == text  # from the store
    assert key.strip() in str(server.asked[-1].headers)


@pytest.mark.parametrize("key", ["1", "no", "test", "none", "true"])
def test_a_short_key_is_not_masked_in_messages(
    ask: Any, wire: Any, llm_environment: Any, key: str
) -> None:
    llm, _ = ask("openai", wire.Answered({"error": {"message": "nothing true on test 1"}}, 400))
    llm_environment.setenv("RAG_EVAL_OPENAI_API_KEY", key)
    with pytest.raises(RagbenchError, match="nothing true on test 1"):
        llms.load_llm(llm.name).generate("Hi?")


@pytest.mark.parametrize("provider", ["anthropic", "ollama", "openai"])
def test_a_password_in_an_address_is_refused_and_not_shown(
    llm_environment: Any, provider: str
) -> None:
    variable = f"RAG_EVAL_{provider.upper()}_BASE_URL"
    llm_environment.setenv(variable, "http://me:hidden@127.0.0.1:9")
    llm_environment.setenv(f"RAG_EVAL_{provider.upper()}_API_KEY", "k")
    with pytest.raises(ConfigError, match=variable) as caught:
        llms.load_llm(f"{provider}:m")
    assert "hidden" not in str(caught.value)


def test_the_connections_of_a_model_that_is_used_no_more_are_closed() -> None:
    """Left to the garbage collector, a socket may go before the client that would close it: a
    ResourceWarning.
    """
    model = Claude("m", "key", "http://127.0.0.1:9")
    client = model._client
    assert not client.is_closed()
    del model
    assert client.is_closed()
