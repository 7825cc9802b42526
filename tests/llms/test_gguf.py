"""A real model end to end: in this process, and behind llama.cpp's own HTTP server. Its wisdom is
not tested.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ragbench import llms
from ragbench.llms import generate_many
from ragbench.llms.providers import stored_llm
from ragbench.store import replies

SCHEMA = {
    "type": "object", "properties": {"verdict": {"type": "boolean"}}, "required": ["verdict"],
    "additionalProperties": False,
}  # fmt: skip


@pytest.fixture
def in_process(small_gguf: Path, llm_environment: Any) -> llms.StoredLLM:
    """The small model in this process."""
    llm_environment.setenv("RAG_EVAL_GGUF_CONTEXT", "1024")
    return stored_llm(f"gguf:{small_gguf}")


@pytest.fixture
def over_http(small_gguf: Path, llm_environment: Any) -> llms.StoredLLM:
    """The small model behind llama.cpp's HTTP server, asked as an OpenAI-compatible one."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(small_gguf)
    parameters.n_ctx, parameters.n_parallel, parameters.verbosity = 1024, 1, -1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    llm_environment.setenv("RAG_EVAL_OPENAI_BASE_URL", server.listening_address)
    llm = stored_llm("openai:smollm2")
    llm.server = server  # type: ignore[attr-defined]  # lives as long as the model
    return llm


@pytest.fixture(params=["in_process", "over_http"])
def llm(request: pytest.FixtureRequest) -> llms.StoredLLM:
    """Both ways to the same model."""
    found: llms.StoredLLM = request.getfixturevalue(request.param)
    return found


def test_a_real_model_writes_and_its_tokens_are_counted(llm: llms.StoredLLM) -> None:
    reply = llm.generate(
        "Write a few words about the sea.", system="You are a poet.", max_tokens=12
    )
    assert reply.text.strip()
    assert reply.error is None
    assert 10 < reply.input_tokens < 60
    assert 0 < reply.output_tokens <= 12
    assert reply.finish == ("length" if reply.output_tokens == 12 else "stop")
    assert reply.latency_s > 0
    again = llm.generate(
        "Write a few words about the sea.", system="You are a poet.", max_tokens=12
    )
    assert (again.text, again.cached, again.latency_s) == (reply.text, True, 0.0)


def test_a_schema_binds_even_a_weak_model(llm: llms.StoredLLM) -> None:
    reply = llm.generate("Is water wet? Reply in JSON.", schema=SCHEMA, max_tokens=60)
    if reply.finish == "stop":
        assert isinstance(json.loads(reply.text)["verdict"], bool)
    assert reply.text.lstrip().startswith("{")


def test_a_prompt_that_does_not_fit_is_an_error_record_and_the_others_go_on(
    llm: llms.StoredLLM,
) -> None:
    found = generate_many(llm, ["word " * 3_000, "Say hello."], max_tokens=5)
    assert "context" in str(found[0].error)
    assert found[1].error is None


def test_in_this_process_the_same_request_gives_the_same_text(
    in_process: llms.StoredLLM, llm_environment: Any
) -> None:
    llm_environment.setenv("RAGBENCH_REPLIES", "off")
    prompts = ["Name a colour.", "Name a colour, and a number.", "Name a colour."]
    first = [in_process.generate(prompt, max_tokens=12).text for prompt in prompts]
    second = [in_process.generate(prompt, max_tokens=12).text for prompt in reversed(prompts)]
    assert first == list(reversed(second))
    sampled = {
        in_process.generate("Name a colour.", max_tokens=12, temperature=1.5, sample=i).text
        for i in range(4)
    }
    assert len(sampled) > 1


def test_the_name_and_the_store_hold_no_path_of_this_machine(
    in_process: llms.StoredLLM, small_gguf: Path, tmp_path: Path
) -> None:
    reply = in_process.generate("Say hello.", max_tokens=3)
    assert reply.model == f"gguf:{small_gguf.name}"
    assert llms.cost_of(reply) == 0.0
    replies.export_file(tmp_path / "cassette.jsonl")
    assert str(small_gguf.parent) not in (tmp_path / "cassette.jsonl").read_text()


def test_a_cassette_plays_without_the_model(
    in_process: llms.StoredLLM, llm_environment: Any, small_gguf: Path
) -> None:
    reply = in_process.generate("Say hello.", max_tokens=3)
    llm_environment.setenv("RAGBENCH_REPLIES", "offline")
    llm_environment.delenv("RAG_EVAL_GGUF_CONTEXT")
    colleague = llms.load_llm(f"gguf:/nowhere/{small_gguf.name}")
    assert colleague.generate("Say hello.", max_tokens=3).text == reply.text


def test_a_file_that_cannot_be_loaded_is_one_clear_error(
    small_gguf: Path, llm_environment: Any, tmp_path: Path
) -> None:
    (tmp_path / "cut.gguf").write_bytes(small_gguf.read_bytes()[:100_000])
    found = generate_many(llms.load_llm(f"gguf:{tmp_path / 'cut.gguf'}"), ["a", "b"])
    assert all("cannot be loaded" in str(reply.error) for reply in found)


def test_a_process_that_ends_while_the_model_writes_ends(
    small_gguf: Path, llm_environment: Any
) -> None:
    code = (
        "import sys, threading, time; from ragbench.llms import load_llm, generate_many;"
        f"llm = load_llm('gguf:{small_gguf}'); llm.generate('hi', max_tokens=2);"
        "threading.Thread(target=generate_many, args=(llm, ['Tell a long story.']), "
        "daemon=True).start();time.sleep(0.5); print('ended')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "ended"
