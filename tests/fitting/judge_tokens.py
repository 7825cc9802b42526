"""Count the tokens that a judge reads and writes for one answer: ragbench, ragas and DeepEval.

    python3 -m venv build/judges && build/judges/bin/pip install ragas deepeval "langchain-community<0.4"
    .venv/bin/python -m tests.fitting.judge_tokens --python build/judges/bin/python

Each tool judges the same answers, the reference answers of PyDoc with the five chunks that bm25 finds,
by its nearest three metrics: is the answer right, do the contexts support it, is it about the
question (ragas: AnswerCorrectness, Faithfulness, AnswerRelevancy; DeepEval: GEval with a criterion,
Faithfulness, AnswerRelevancy). A scripted model replies in the form that a prompt asks for, one claim
for each sentence, so that the prompts which depend on replies are whole; it records what it is sent.
All texts are counted by one tokenizer. Nothing is sent anywhere. Without --python ragbench alone is counted.

With ragas 0.4.3 and DeepEval 4.3.1, in November 2026 (what is written depends on the script):

    20 answers; per answer:  requests  tokens read  tokens written
    ragbench                           3.0        2714            244
    ragbench, combine_criteria         1.0        2196            242
    ragas                              8.0        6765            399
    DeepEval                           9.0        4764           1737

Before the criteria were records, in one request for all three, ragbench read 2009.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
from importlib import import_module
from typing import Any

N_ANSWERS = 20
REASON = "The documents state this in the same words, and nothing in them contradicts it."


class Recorder:
    """Replies in the form of a schema, and what was asked and replied."""

    def __init__(self) -> None:
        self.exchanges: list[tuple[str, str]] = []
        self.answer = ""
        self.contexts: list[str] = []
        self._statements: list[str] = []

    def reply(self, prompt: str, form: Any) -> Any:
        """Return an instance of a pydantic class with plausible values."""
        made = form(**{name: self._value(name, part) for name, part in fields_of(form)})
        self.exchanges.append((prompt, made.model_dump_json()))
        return made

    def _value(self, name: str, kind: str) -> Any:
        if name in ("claims", "statements", "truths") and kind == "texts":
            source = " ".join(self.contexts) if name == "truths" else self.answer
            found = sentences(source)
            if name != "truths":
                self._statements = found
            return found
        if name == "statements":  # of ragas, each with its verdict
            return [
                {"statement": each, "reason": REASON, "verdict": 1} for each in self._statements
            ]
        if name == "verdicts":
            return [{"verdict": "yes", "reason": REASON} for _ in self._statements]
        if name == "TP":
            return [{"statement": each, "reason": REASON} for each in self._statements]
        if name in ("FP", "FN"):
            return []
        values = {"score": 1.0, "noncommittal": 0, "question": "What does it do?"}
        if name == "steps":
            return ["Compare the answer with the reference.", "Look for what is missing."]
        return values.get(name, REASON)


def fields_of(form: Any) -> list[tuple[str, str]]:
    """Return the fields of a pydantic class, each with "texts" if it is a list of texts."""
    return [
        (name, "texts" if re.search(r"[Ll]ist\[str\]", str(field.annotation)) else "other")
        for name, field in form.model_fields.items()
    ]


def sentences(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?])\s+", text.strip()) if part]


def exchanges_of_ragas(materials: list[dict[str, Any]]) -> list[list[tuple[str, str]]]:
    metrics = import_module("ragas.metrics.collections")
    model_base = import_module("ragas.llms.base").InstructorBaseRagasLLM
    vectors_base = import_module("ragas.embeddings.base").BaseRagasEmbedding
    recorder = Recorder()

    class Model(model_base):  # type: ignore
        def generate(self, prompt: str, response_model: Any) -> Any:
            return recorder.reply(prompt, response_model)

        async def agenerate(self, prompt: str, response_model: Any) -> Any:
            return recorder.reply(prompt, response_model)

    class Vectors(vectors_base):  # type: ignore
        def embed_text(self, text: str, **kwargs: Any) -> list[float]:
            return [1.0, 0.0]

        async def aembed_text(self, text: str, **kwargs: Any) -> list[float]:
            return [1.0, 0.0]

    model, vectors = Model(), Vectors()
    recorded = []
    for each in materials:
        question, answer = each["question"], each["answer"]
        recorder.exchanges, recorder.answer = [], answer
        contexts = recorder.contexts = each["contexts"]
        right = metrics.AnswerCorrectness(llm=model, embeddings=vectors)
        asyncio.run(right.ascore(question, answer, each["reference"]))
        asyncio.run(metrics.Faithfulness(llm=model).ascore(question, answer, contexts))
        relevant = metrics.AnswerRelevancy(llm=model, embeddings=vectors)
        asyncio.run(relevant.ascore(question, answer))
        recorded.append(recorder.exchanges)
    return recorded


def exchanges_of_deepeval(materials: list[dict[str, Any]]) -> list[list[tuple[str, str]]]:
    metrics = import_module("deepeval.metrics")
    model_base = import_module("deepeval.models").DeepEvalBaseLLM
    cases = import_module("deepeval.test_case")
    recorder = Recorder()

    class Model(model_base):  # type: ignore
        def load_model(self, *args: Any, **kwargs: Any) -> Any:
            return self

        def get_model_name(self, *args: Any, **kwargs: Any) -> str:
            return "recorder"

        def generate(self, prompt: str, schema: Any = None) -> Any:
            return recorder.reply(prompt, schema)

        async def a_generate(self, prompt: str, schema: Any = None) -> Any:
            return recorder.reply(prompt, schema)

    model = Model()
    options = {"model": model, "async_mode": False}
    recorded = []
    for each in materials:
        recorder.exchanges, recorder.answer = [], each["answer"]
        recorder.contexts = each["contexts"]
        case = cases.LLMTestCase(
            input=each["question"],
            actual_output=each["answer"],
            expected_output=each["reference"],
            retrieval_context=each["contexts"],
        )
        parts = cases.SingleTurnParams
        right = metrics.GEval(
            name="correctness",
            criteria="Does the actual output state the same as the expected output?",
            evaluation_params=[parts.INPUT, parts.ACTUAL_OUTPUT, parts.EXPECTED_OUTPUT],
            **options,
        )
        faithful = metrics.FaithfulnessMetric(**options)
        relevant = metrics.AnswerRelevancyMetric(**options)
        for metric in (right, faithful, relevant):
            metric.measure(case, _show_indicator=False)
        recorded.append(recorder.exchanges)
    return recorded


def exchanges_of_ragbench(
    materials: list[dict[str, Any]], *, combined: bool
) -> list[list[tuple[str, str]]]:
    import ragbench as rb
    from ragbench.judges.prompts import JUDGE_SYSTEM
    from ragbench.llms import ScriptedLLM

    recorded = []
    for each in materials:
        exchanges: list[tuple[str, str]] = []
        claims = sentences(each["answer"])
        quote = " ".join(each["contexts"][0].split()[:12])
        checks = [
            {"number": i, "reason": REASON, "document": 1, "quote": quote, "supported": True}
            for i in range(1, len(claims) + 1)
        ]
        parts = {
            "correctness": {"reason": REASON, "verdict": "true"},
            "faithfulness": {"claims": claims, "checks": checks},
            "relevance": {"reason": REASON, "score": 1},
        }

        def reply(
            prompt: str,
            parts: dict[str, Any] = parts,
            exchanges: list[tuple[str, str]] = exchanges,
        ) -> str:
            asked = {name: part for name, part in parts.items() if f"\n{name}: " in prompt}
            text = json.dumps(asked)
            exchanges.append((f"{JUDGE_SYSTEM}\n{prompt}", text))
            return text

        chunks = [
            rb.Chunk(f"d#{i}", "d", 0, len(text), text) for i, text in enumerate(each["contexts"])
        ]
        case = rb.Case("q", each["question"], reference_answer=each["reference"])
        data = rb.Dataset("one", "test", {}, [case], {})
        answer = rb.Answer("q", each["answer"], tuple(c.chunk_id for c in chunks))
        llm = ScriptedLLM(reply)
        rb.judge([answer], [*parts], llm, dataset=data, chunks=chunks, combine_criteria=combined)
        recorded.append(exchanges)
    return recorded


def materials_of_pydoc() -> list[dict[str, Any]]:
    import ragbench as rb
    from ragbench.systems import Pipeline

    data = rb.load_dataset("pydoc")
    cases = [case for case in data.cases if case.reference_answer][:N_ANSWERS]
    pipeline = Pipeline(data, "bm25", llm="none")
    text_of = {chunk.chunk_id: chunk.text for chunk in pipeline.chunks}
    materials = []
    for case in cases:
        contexts = pipeline.answer(case.query_id, case.text).contexts
        materials.append(
            {
                "question": case.text,
                "answer": case.reference_answer,
                "reference": case.reference_answer,
                "contexts": [text_of[chunk_id] for chunk_id in contexts],
            }
        )
    return materials


TOOLS = {"ragas": exchanges_of_ragas, "DeepEval": exchanges_of_deepeval}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default="", help="a Python that has ragas and DeepEval")
    parser.add_argument("--record", choices=TOOLS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.record:
        recorded = TOOLS[options.record](json.load(sys.stdin))
        print(f"\n{json.dumps(recorded)}")
        return
    from ragbench.text import count_tokens

    materials = materials_of_pydoc()
    tables = {
        "ragbench": exchanges_of_ragbench(materials, combined=False),
        "ragbench, combine_criteria": exchanges_of_ragbench(materials, combined=True),
    }
    for tool in TOOLS if options.python else ():
        environment = {
            **os.environ,
            "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
            "RAGAS_DO_NOT_TRACK": "true",
        }
        done = subprocess.run(
            [options.python, __file__, "--record", tool],
            input=json.dumps(materials),
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        if done.returncode:
            sys.exit(f"{tool}: {done.stderr[-2000:]}")
        tables[tool] = json.loads(done.stdout.rpartition("\n[")[2].join(["[", ""]))
    print(f"{len(materials)} answers; per answer:  requests  tokens read  tokens written")
    for name, recorded in tables.items():
        exchanges = [exchange for each in recorded for exchange in each]
        read = sum(count_tokens([prompt for prompt, _ in exchanges]))
        written = sum(count_tokens([reply for _, reply in exchanges]))
        n = len(recorded)
        print(f"{name:30}{len(exchanges) / n:8.1f}{read / n:12.0f}{written / n:15.0f}")


if __name__ == "__main__":
    main()
