"""The same scores in the form of each tool give the same pairs, difference and decision."""

from __future__ import annotations

import gzip
import json
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import ragbench as rb
from ragbench.foreign import conclude_tables, load_scores

N = 30
QUESTIONS = {f"q{i}": f"Which plant grows on hill {i}?" for i in range(N)}


def value(system: str, i: int) -> float:
    """The score of a system on a question: B is better where i is no multiple of 4."""
    low = (i * 7 % 11) / 20
    return low + 0.35 if system == "B" and i % 4 else low


Scores = dict[str, float]


def scores_of(system: str) -> Scores:
    """What a system has: one question is asked of it alone, and one of its answers failed (NaN)."""
    without = {"A": 3, "B": 5}[system]
    failed = {"A": 8, "B": 9}[system]
    return {
        f"q{i}": math.nan if i == failed else value(system, i) for i in range(N) if i != without
    }


def binary(scores: Scores) -> Scores:
    return {
        name: score if math.isnan(score) else float(score > 0.4) for name, score in scores.items()
    }


def numbered(scores: Scores) -> list[tuple[str, float | None]]:
    return [(name, None if math.isnan(score) else score) for name, score in scores.items()]


def ragas_csv(path: Path, scores: Scores) -> Path:
    rows = [
        {
            "user_input": QUESTIONS[name],
            "retrieved_contexts": "['A hill.', 'A plant.']",
            "response": "42",
            "reference": "Fern.",
            "faithfulness": score,
        }
        for name, score in numbered(scores)
    ]
    pd.DataFrame(rows).to_csv(path.with_suffix(".csv"))
    return path.with_suffix(".csv")


def deepeval_json(path: Path, scores: Scores) -> Path:
    cases = []
    for place, (name, score) in enumerate(numbered(scores)):
        metric: dict[str, Any] = {"name": "Faithfulness", "threshold": 0.5, "success": False}
        metric |= {"error": "ValueError: no reply"} if score is None else {"score": score}
        cases.append(
            {
                "name": f"test_case_{place}",  # numbers the rows, not the questions
                "input": QUESTIONS[name],
                "actualOutput": "A fern.",
                "success": False,
                "metricsData": [metric],
            }
        )
    content = {"testCases": cases, "conversationalTestCases": [], "metricsScores": []}
    return written(path.with_suffix(".json"), content)


def deepeval_latest(path: Path, scores: Scores) -> Path:
    """.deepeval/.latest_test_run.json"""
    file = deepeval_json(path, scores)
    content = {"testRunData": json.loads(file.read_text()), "testRunLink": None}
    return written(file, content)


def deepeval_results(path: Path, scores: Scores) -> Path:
    """`json.dumps(result.model_dump())` of what `evaluate` returns."""
    cases = [
        {
            "name": f"test_case_{place}",
            "input": QUESTIONS[name],
            "success": bool(score),
            "metrics_data": [{"name": "Faithfulness", "score": score, "success": bool(score)}],
        }
        for place, (name, score) in enumerate(numbered(scores))
    ]
    return written(path.with_suffix(".json"), {"test_results": cases, "confident_link": None})


def promptfoo_json(path: Path, scores: Scores) -> Path:
    rows = []
    for place, (name, score) in enumerate(numbered(scores)):
        row: dict[str, Any] = {
            "id": f"{path.stem}-{place}",
            "testIdx": place,
            "promptIdx": 0,
            "provider": {"id": "echo", "label": ""},
            "vars": {"question": QUESTIONS[name]},
            "response": {"output": "A fern."},
            "score": 0 if score is None else score,
            "success": bool(score),
            "failureReason": 2 if score is None else 1 - bool(score),
            "namedScores": {},
            "latencyMs": 12,
        }
        if score is None:
            row |= {"response": None, "error": "API error: 503"}
        elif not score:
            row["error"] = "Expected output to contain fern"
        rows.append(row)
    return written(path.with_suffix(".json"), {"evalId": path.stem, "results": {"results": rows}})


def promptfoo_csv(path: Path, scores: Scores) -> Path:
    """`promptfoo eval -o output.csv`, of promptfoo 0.121: a score has two places there."""
    rows = []
    for name, score in numbered(scores):
        status = "ERROR" if score is None else "PASS" if score else "FAIL"
        score_text = "0.00" if score is None else f"{score:.2f}"
        named = json.dumps({"has": score or 0})
        rows.append(
            [QUESTIONS[name], "hills", "A fern.", status, score_text, named, "0.00", "", ""]
        )
    columns = ["question", "topic", "[echo] {{question}}", "Status", "Score", "Named Scores"]
    frame = pd.DataFrame(rows, columns=[*columns, "Metric: has", "Grader Reason", "Comment"])
    frame.to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


def promptfoo_described(path: Path, scores: Scores) -> Path:
    """Tests without variables, in a file of an earlier version."""
    rows = [
        {
            "provider": {"id": "echo"},
            "success": bool(score),
            "score": 0 if score is None else score,
            "error": "503" if score is None else None,
            "testCase": {"description": QUESTIONS[name], "vars": {}},
        }
        for name, score in numbered(scores)
    ]
    return written(path.with_suffix(".json"), {"version": 3, "results": rows})


def per_query_json(path: Path, scores: Scores) -> Path:
    content = {
        "task": "hills",
        "mean": {"ndcg_at_10": 0.5},
        "per_query": {name: {"ndcg_at_10": score} for name, score in numbered(scores)},
    }
    return written(path.with_suffix(".json"), content)


def inspect_json(path: Path, scores: Scores) -> Path:
    return written(path.with_suffix(".json"), inspect_log(scores))


def inspect_log(scores: Scores) -> dict[str, Any]:
    samples = []
    for name, score in numbered(scores):
        sample: dict[str, Any] = {"id": name, "epoch": 1, "input": QUESTIONS[name], "scores": {}}
        if score is None:
            sample["error"] = {"message": "TimeoutError()"}
        else:
            sample["scores"] = {"overlap": {"value": score, "answer": "fern"}}
        samples.append(sample)
    return {"version": 2, "status": "success", "eval": {"task": "hills"}, "samples": samples}


def inspect_eval(path: Path, scores: Scores) -> Path:
    file = path.with_suffix(".eval")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"version": 2}))
        archive.writestr("summaries.json", json.dumps(inspect_log(scores)["samples"]))
    return file


def mlflow_json(path: Path, scores: Scores) -> Path:
    rows = [[QUESTIONS[name], "A fern.", score] for name, score in numbered(scores)]
    content = {"columns": ["inputs", "outputs", "similarity/v1/score"], "data": rows}
    return written(path.with_suffix(".json"), content)


def mlflow_genai_csv(path: Path, scores: Scores) -> Path:
    rows = [
        {
            "trace_id": f"tr-{path.stem}-{place}",
            "overlap/value": score,
            "overlap/error_message": "no reply" if score is None else None,
            "expected/value": "fern",
            "state": "OK",
            "request_time": 1795898782451 + place,
            "execution_duration": 3,
            "request": str({"question": QUESTIONS[name]}),
            "response": "A fern.",
        }
        for place, (name, score) in enumerate(numbered(scores))
    ]
    pd.DataFrame(rows).to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


def lm_eval_jsonl(path: Path, scores: Scores) -> Path:
    rows = [
        {
            "doc_id": int(name[1:]),
            "doc": {"question": QUESTIONS[name], "answer": "fern"},
            "target": "fern",
            "resps": [["A fern."]],
            "filtered_resps": ["A fern."],
            "filter": "none",
            "metrics": ["f1", "bleu"],
            "doc_hash": f"hash {name}",
            "f1": score,
            "bleu": ["fern", "A fern."],
        }
        for name, score in numbered(scores)
    ]
    return lines(path.with_suffix(".jsonl"), rows)


def openai_evals_jsonl(path: Path, scores: Scores) -> Path:
    events: list[dict[str, Any]] = [{"spec": {"run_id": path.stem}}, {"final_report": {"f1": 0.5}}]
    for place, (name, score) in enumerate(numbered(scores)):
        about = {"run_id": path.stem, "event_id": place, "sample_id": f"hills.{name}"}
        kind = "error" if score is None else "metrics"
        data = {"error": "503"} if score is None else {"f1": score}
        events.append({**about, "type": kind, "data": data})
    return lines(path.with_suffix(".jsonl"), events)


def braintrust_json(path: Path, scores: Scores) -> Path:
    events: list[dict[str, Any]] = []
    for name, score in numbered(scores):
        root = f"{path.stem}-{name}"
        about = {"root_span_id": root, "id": f"row-{root}"}
        events.append(
            {
                **about,
                "span_id": root,
                "is_root": True,
                "input": {"question": QUESTIONS[name]},
                "scores": {"Overlap": score},
                "error": None,
            }
        )
        events.append({**about, "span_id": f"{root}-llm", "is_root": False, "scores": None})
    return written(path.with_suffix(".json"), {"events": events})


def braintrust_event(system: str, name: str, score: float | None) -> dict[str, Any]:
    """The root of an answer in the result of a query; an answer that failed has no scores."""
    return {
        "id": f"row-{system}-{name}",
        "experiment_id": system,
        "span_id": f"{system}-{name}",
        "root_span_id": f"{system}-{name}",
        "is_root": True,
        "input": {"question": QUESTIONS[name]},
        "metrics": {"start": 1795898782.4 + ord(system[0]), "end": 1795898783.4},
        "scores": None if score is None else {"Overlap": score},
        "error": "no reply" if score is None else None,
        "origin": {"object_type": "dataset", "id": f"record {name}"},
    }


def braintrust_part(root: dict[str, Any]) -> dict[str, Any]:
    """The call of a scorer in the trace of an answer."""
    changes = {"span_id": f"{root['span_id']}-1", "is_root": False, "input": {"output": "A fern."}}
    return {**root, **changes, "error": None, "origin": None}


def braintrust_query(path: Path, scores: Scores) -> Path:
    roots = [braintrust_event(path.stem, name, score) for name, score in numbered(scores)]
    events = [event for root in roots for event in (braintrust_part(root), root)]
    return written(path.with_suffix(".json"), {"data": events, "schema": {"type": "array"}})


def braintrust_spans_csv(path: Path, scores: Scores) -> Path:
    events = json.loads(braintrust_query(path, scores).read_text())["data"]
    rows = []
    for event in events:
        cells = {}
        for column, cell in event.items():
            cells[column] = json.dumps(cell) if isinstance(cell, dict) else cell
        rows.append(cells)
    pd.DataFrame(rows).to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


def ragas_annotation(path: Path, scores: Scores) -> Path:
    runs = [
        {
            "metric_input": {"user_input": QUESTIONS[name], "response": "A fern."},
            "metric_output": score,
            "prompts": {},
            "is_accepted": True,
        }
        for name, score in numbered(scores)
    ]
    return written(path.with_suffix(".json"), {"answer_overlap": runs})


def braintrust_csv(path: Path, scores: Scores) -> Path:
    rows = [
        {
            "id": f"row-{path.stem}-{name}",
            "input": json.dumps({"question": QUESTIONS[name]}),
            "output": "A fern.",
            "scores": json.dumps({"Overlap": score}),
            "metadata": "{}",
        }
        for name, score in numbered(scores)
    ]
    pd.DataFrame(rows).to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


def openai_items(path: Path, scores: Scores) -> Path:
    items = [
        {
            "object": "eval.run.output_item",
            "id": f"item_{path.stem}_{name}",
            "datasource_item_id": int(name[1:]),
            "datasource_item": {"question": QUESTIONS[name]},
            "status": "error" if score is None else "pass",
            "results": [{"name": "overlap", "passed": False, "score": score or 0.0}],
        }
        for name, score in numbered(scores)
    ]
    return written(path.with_suffix(".json"), {"object": "list", "data": items})


def langfuse_traces(path: Path, scores: Scores) -> Path:
    rows = [
        {
            "id": f"trace-{path.stem}-{name}",
            "name": "answer",
            "input": {"question": QUESTIONS[name]},
            "output": "A fern.",
            "scores": [{"id": "s", "name": "overlap", "value": score, "dataType": "NUMERIC"}],
            "latency": 1.5,
        }
        for name, score in numbered(scores)
    ]
    return written(path.with_suffix(".json"), rows)


def phoenix_spans_csv(path: Path, scores: Scores) -> Path:
    rows = [
        {
            "context.span_id": f"{path.stem}-{name}",
            "attributes.input.value": QUESTIONS[name],
            "score": score,
            "label": "similar",
            "explanation": "alike",
        }
        for name, score in numbered(scores)
    ]
    pd.DataFrame(rows).to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


def phoenix_json(path: Path, scores: Scores) -> Path:
    rows = [
        {
            "example_id": f"RGF0{name}",
            "repetition_number": 1,
            "input": {"question": QUESTIONS[name]},
            "output": "A fern.",
            "error": None,
            "latency_ms": 21.5,
            "annotations": [
                {
                    "name": "overlap",
                    "annotator_kind": "CODE",
                    "label": None,
                    "score": score,
                    "error": "no reply" if score is None else None,
                }
            ],
        }
        for name, score in numbered(scores)
    ]
    return written(path.with_suffix(".json"), rows)


def phoenix_csv(path: Path, scores: Scores) -> Path:
    rows = [
        {
            "example_id": f"RGF0{name}",
            "repetition_number": 1,
            "input": json.dumps({"question": QUESTIONS[name]}),
            "output": "A fern.",
            "error": None,
            "latency_ms": 21.5,
            "annotation_overlap_label": "similar",
            "annotation_overlap_score": score,
            "annotation_overlap_start_time": "2026-11-02T10:00:00",
        }
        for name, score in numbered(scores)
    ]
    pd.DataFrame(rows).to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


def phoenix_experiment(path: Path, scores: Scores) -> Path:
    """What Phoenix's client returns: a run whose task failed has an error, and is evaluated all the same."""
    runs, evaluations = [], []
    for name, score in numbered(scores):
        run_id = f"run-{path.stem}-{name}"
        error = "no reply" if score is None else None
        runs.append({"id": run_id, "dataset_example_id": f"RGF0{name}", "error": error})
        result = {"score": score or 0.0, "label": None}
        evaluations.append({"experiment_run_id": run_id, "name": "overlap", "result": result})
    experiment = {"experiment_id": "E", "task_runs": runs, "evaluation_runs": evaluations[::-1]}
    return written(path.with_suffix(".json"), experiment)


def phoenix_annotations_csv(path: Path, scores: Scores) -> Path:
    """Spans joined with their annotations: the index is a column, too, and each annotation is a row."""
    header = "context.span_id,context.span_id,attributes.input.value,annotation_name,result.score"
    lines = [header]
    for name, score in numbered(scores):
        span = f"{path.stem}-{name}"
        value = "" if score is None else score
        for measure, cell in (("overlap", value), ("brevity", 0.5)):
            lines.append(f'{span},{span},"{QUESTIONS[name]}",{measure},{cell}')
    path.with_suffix(".csv").write_text("\n".join(lines), encoding="utf-8")
    return path.with_suffix(".csv")


def phoenix_evals_csv(path: Path, scores: Scores) -> Path:
    """The frame of `evaluate_dataframe`: a score is a dict in a cell, an evaluator that failed has none."""
    rows = [
        {
            "input": QUESTIONS[name],
            "output": "A fern.",
            "overlap_execution_details": {"status": "COMPLETED", "exceptions": []},
            "overlap_score": {"name": "overlap", "score": score, "metadata": {}, "kind": "code"},
        }
        for name, score in numbered(scores)
    ]
    for row in rows:
        if row["overlap_score"]["score"] is None:  # type: ignore[index]
            row["overlap_score"] = None  # type: ignore[assignment]
    pd.DataFrame(rows).to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


def langfuse_experiment(path: Path, scores: Scores) -> Path:
    """What `run_experiment` returns: an item whose task failed has no result."""
    results = [
        {
            "item": {"input": QUESTIONS[name], "expected_output": "Fern."},
            "output": "A fern.",
            "evaluations": [{"name": "overlap", "value": score, "comment": None}],
            "trace_id": f"{path.stem}-{name}",
        }
        for name, score in scores.items()
        if not math.isnan(score)
    ]
    return written(path.with_suffix(".json"), {"name": path.stem, "item_results": results})


def langfuse_experiment_items(path: Path, scores: Scores) -> Path:
    """A page of Langfuse's experiment items: a category is a score in words, whose value may be 0."""
    items = []
    for name, score in numbered(scores):
        tone = {"name": "tone", "dataType": "CATEGORICAL", "value": 0, "stringValue": "good"}
        listed = [{"name": "overlap", "dataType": "NUMERIC", "value": score}, tone]
        item: dict[str, object] = {"id": f"{path.stem}-{name}", "experimentItemId": f"item {name}"}
        item["input"] = {"question": QUESTIONS[name]}
        item["scores"] = [] if score is None else listed
        items.append(item)
    return written(path.with_suffix(".json"), {"data": items, "meta": {"cursor": None}})


def langfuse_traces_csv(path: Path, scores: Scores) -> Path:
    """Traces as Langfuse's page exports them: a column per score, whose cells are lists."""
    rows = [
        {
            "id": f"trace-{path.stem}-{name}",
            "bookmarked": "false",
            "public": "false",
            "input": json.dumps({"question": QUESTIONS[name]}),
            "overlap": None if score is None else json.dumps([score]),
            "tone": '["good"]',
        }
        for name, score in numbered(scores)
    ]
    pd.DataFrame(rows).to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


def langfuse_csv(path: Path, scores: Scores) -> Path:
    rows = [
        {
            "id": f"score-{path.stem}-{name}",
            "datasetItemId": f"item {name}",
            "traceId": f"trace-{path.stem}-{name}",
            "name": "overlap",
            "value": score,
            "dataType": "NUMERIC",
        }
        for name, score in numbered(scores)
    ]
    pd.DataFrame(rows).to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


def langsmith_csv(path: Path, scores: Scores) -> Path:
    """`evaluate(...).to_pandas()`: parts of answers and labels may be numbers, scores are `feedback.NAME`."""
    rows = [
        {
            "inputs.question": QUESTIONS[name],
            "inputs.hops": place % 3,
            "outputs.answer": "A fern.",
            "outputs.confidence": (place * 5 % 9 + (path.stem == "new")) / 10,
            "error": None,
            "reference.year": 1900 + place,
            "feedback.overlap": score,
            "execution_time": 0.2,
            "example_id": f"example {name}",
            "id": f"{path.stem}-{place}",
        }
        for place, (name, score) in enumerate(numbered(scores))
    ]
    pd.DataFrame(rows).to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


def langsmith_rows(path: Path, scores: Scores) -> Path:
    """The rows that `evaluate` returns, as JSON."""
    rows = [
        {
            "run": {
                "id": f"{path.stem}-{name}",
                "inputs": {"question": QUESTIONS[name]},
                "error": "no reply" if score is None else None,
                "reference_example_id": f"example {name}",
            },
            "example": {"id": f"example {name}", "inputs": {"question": QUESTIONS[name]}},
            "evaluation_results": {"results": [{"key": "overlap", "score": score, "value": None}]},
        }
        for name, score in numbered(scores)
    ]
    return written(path.with_suffix(".json"), rows)


def langsmith_runs(path: Path, scores: Scores) -> Path:
    """Runs of an experiment: feedback is a mean over its values, a failed run has none."""
    rows = [langsmith_run(path.stem, name, score) for name, score in numbered(scores)]
    return lines(path.with_suffix(".jsonl"), rows)


def langsmith_run(system: str, name: str, score: float | None) -> dict[str, Any]:
    feedback = None if score is None else {"overlap": {"n": 1, "avg": score, "errors": 0}}
    return {
        "id": f"{system}-{name}",
        "inputs": {"question": QUESTIONS[name]},
        "outputs": None if score is None else {"answer": "A fern."},
        "error": "no reply" if score is None else None,
        "reference_example_id": f"example {name}",
        "feedback_stats": feedback,
        "total_tokens": 40,
    }


def langsmith_examples(path: Path, scores: Scores) -> Path:
    examples = [
        {
            "id": f"example {name}",
            "inputs": {"question": QUESTIONS[name]},
            "runs": [langsmith_run(path.stem, name, score)],
        }
        for name, score in numbered(scores)
    ]
    content = {"feedback_stats": {}, "run_stats": {}, "examples_with_runs": examples}
    return written(path.with_suffix(".json"), content)


def pydantic_evals_json(path: Path, scores: Scores) -> Path:
    """A report of Pydantic Evals: a case whose task failed is in a list of its own."""
    cases, failures = [], []
    for name, score in numbered(scores):
        case: dict[str, Any] = {"name": name, "inputs": {"question": QUESTIONS[name]}}
        if score is None:
            failures.append({**case, "error_message": "RuntimeError: no reply"})
            continue
        case["scores"] = {"overlap": {"name": "overlap", "value": score, "reason": None}}
        case["assertions"] = {"short": {"name": "short", "value": True, "reason": None}}
        cases.append({**case, "labels": {}, "metrics": {}, "task_duration": 0.2})
    content = {"name": path.stem, "cases": cases, "failures": failures}
    return written(path.with_suffix(".json"), content)


def opik_json(path: Path, scores: Scores) -> Path:
    """`opik export` of an experiment."""
    content = {"experiment": {"name": path.stem, "trace_count": 29}, "items": opik_items(scores)}
    return written(path.with_suffix(".json"), content)


def opik_items(scores: Scores) -> list[dict[str, Any]]:
    items = []
    for name, score in numbered(scores):
        feedback = {"category_name": None, "name": "overlap", "reason": None, "value": score}
        items.append(
            {
                "id": f"item {name}",
                "dataset_item_id": f"question {name}",
                "trace_id": f"trace {name}",
                "dataset_item_data": {"question": QUESTIONS[name]},
                "evaluation_task_output": {"output": "A fern."},
                "feedback_scores": [] if score is None else [feedback],
            }
        )
    return items


def opik_csv(path: Path, scores: Scores) -> Path:
    """The same as CSV: a prefix for each column, lists as Python writes them."""
    rows = []
    for place, item in enumerate(opik_items(scores)):
        cells = {
            "experiment_name": path.stem,
            "experiment_trace_count": 29,
            "item_id": f"{path.stem}-{place}",
            "item_dataset_item_id": item["dataset_item_id"],
            "item_feedback_scores": str(item["feedback_scores"]),
            "item_index": place,
        }
        rows.append(cells)
    pd.DataFrame(rows).to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


def opik_results(path: Path, scores: Scores) -> Path:
    """`dataclasses.asdict` of what `evaluate` of Opik returns: a metric that failed has the value 0."""
    results = []
    for name, score in numbered(scores):
        about = {"trace_id": f"{path.stem}-{name}", "dataset_item_id": f"question {name}"}
        result = {"name": "overlap", "value": score or 0.0, "scoring_failed": score is None}
        case = {**about, "dataset_item_content": {"question": QUESTIONS[name]}}
        results.append({"test_case": case, "score_results": [result], "trial_id": 0})
    content = {"experiment_name": path.stem, "test_results": results, "trial_count": 1}
    return written(path.with_suffix(".json"), content)


def azure_json(path: Path, scores: Scores) -> Path:
    """`evaluate(output_path=...)` of Azure: fields of the test set may be numbers that differ."""
    rows = [
        {
            "inputs.query": QUESTIONS[name],
            "inputs.words": place + (path.stem == "new"),
            "inputs.response": "A fern.",
            "outputs.overlap.overlap": score,
            "outputs.overlap.overlap_result": "pass",
            "outputs.overlap.overlap_threshold": 0.5,
        }
        for place, (name, score) in enumerate(numbered(scores))
    ]
    return written(path.with_suffix(".json"), {"rows": rows, "metrics": {"overlap.overlap": 0.5}})


def haystack_json(path: Path, scores: Scores) -> Path:
    """The fields of an EvaluationRunResult of Haystack."""
    individual = [score for _, score in numbered(scores)]
    content = {
        "run_name": path.stem,
        "inputs": {"questions": [QUESTIONS[name] for name in scores]},
        "results": {"overlap": {"individual_scores": individual, "score": 0.5}},
    }
    return written(path.with_suffix(".json"), content)


def weave_calls(path: Path, scores: Scores) -> Path:
    """Calls of an evaluation with Weave: a failed one has no output, a part of one is another function."""
    calls = []
    for name, score in numbered(scores):
        output = {"output": "A fern.", "scores": {"overlap": {"overlap": score}, "tone": "dry"}}
        call: dict[str, Any] = {
            "op_name": "weave:///team/hills/op/Evaluation.predict_and_score:1",
            "id": f"{path.stem}-{name}",
            "trace_id": path.stem,
            "inputs": {"model": "weave:///plants:1", "example": {"question": QUESTIONS[name]}},
            "output": None if score is None else output,
            "exception": "no reply" if score is None else None,
        }
        calls += [call, {**call, "op_name": "weave:///team/hills/op/overlap:1", "output": score}]
    return lines(path.with_suffix(".jsonl"), calls)


def weave_csv(path: Path, scores: Scores) -> Path:
    """The same calls with a column for each inner field."""
    rows = [
        {
            "trace_id": path.stem,
            "inputs.example.question": QUESTIONS[name],
            "summary.weave.latency_ms": 12 + (path.stem == "new"),
            "output.scores.overlap.overlap": score,
        }
        for name, score in numbered(scores)
    ]
    pd.DataFrame(rows).to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


def trulens_csv(path: Path, scores: Scores) -> Path:
    rows = [
        {
            "app_name": "hills",
            "app_version": path.stem,
            "record_id": f"record_hash_{path.stem}_{name}",
            "input": QUESTIONS[name],
            "output": "A fern.",
            "Groundedness": score,
            "Groundedness_calls": "[]",
            "latency": 2,
            "total_tokens": 31,
            "total_cost": 0.002,
        }
        for name, score in numbered(scores)
    ]
    pd.DataFrame(rows).to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


def trec_eval(path: Path, scores: Scores) -> Path:
    text = f"runid                 \tall\t{path.stem}\n"
    for name, score in numbered(scores):
        text += f"num_ret               \t{name}\t10\n"
        text += f"relstring             \t{name}\t'0010011000'\n"  # with -m all_trec
        if score is not None:
            text += f"ndcg_cut_10           \t{name}\t{score!r}\n"
    text += "num_q                 \tall\t30\nndcg_cut_10           \tall\t0.5\n"
    path.with_suffix(".eval").write_text(text, encoding="utf-8")
    return path.with_suffix(".eval")


def ir_measures(path: Path, scores: Scores) -> Path:
    text = "".join(f"{name}\tnDCG@10\t{s!r}\n" for name, s in numbered(scores) if s is not None)
    path.with_suffix(".txt").write_text(f"{text}all\tnDCG@10\t0.5\n", encoding="utf-8")
    return path.with_suffix(".txt")


def pytrec_eval_json(path: Path, scores: Scores) -> Path:
    found = {name: {} if s is None else {"ndcg_cut_10": s} for name, s in numbered(scores)}
    return written(path.with_suffix(".json"), found)


def by_measure_json(path: Path, scores: Scores) -> Path:
    return written(path.with_suffix(".json"), {"nDCG@10": dict(numbered(scores))})


def wide_xlsx(path: Path, scores: Scores) -> Path:
    frame = pd.DataFrame({"id": list(scores), "Score": list(scores.values()), "Note": "ok"})
    frame.to_excel(path.with_suffix(".xlsx"), index=False)
    return path.with_suffix(".xlsx")


def long_parquet(path: Path, scores: Scores) -> Path:
    frame = pd.DataFrame({"qid": list(scores), "metric": "overlap", "score": list(scores.values())})
    frame.to_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def german_csv(path: Path, scores: Scores) -> Path:
    frame = pd.DataFrame({"Frage-ID": list(scores), "question": "", "Score": list(scores.values())})
    frame["question"] = [QUESTIONS[name] for name in scores]
    file = path.with_suffix(".csv")
    frame.to_csv(file, sep=";", decimal=",", index=False, encoding="utf-8-sig")
    return file


def columns_json(path: Path, scores: Scores) -> Path:
    frame = pd.DataFrame(
        {"question": [QUESTIONS[n] for n in scores], "score": list(scores.values())}
    )
    frame.to_json(path.with_suffix(".json"))
    return path.with_suffix(".json")


def written(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


FORMS: list[Callable[[Path, Scores], Any]] = [
    ragas_csv,
    deepeval_json,
    deepeval_latest,
    deepeval_results,
    promptfoo_csv,
    promptfoo_described,
    per_query_json,
    promptfoo_json,
    inspect_json,
    inspect_eval,
    mlflow_json,
    mlflow_genai_csv,
    lm_eval_jsonl,
    openai_evals_jsonl,
    braintrust_json,
    braintrust_csv,
    braintrust_query,
    braintrust_spans_csv,
    ragas_annotation,
    openai_items,
    langfuse_traces,
    phoenix_spans_csv,
    phoenix_json,
    phoenix_csv,
    phoenix_experiment,
    phoenix_annotations_csv,
    langfuse_csv,
    langfuse_experiment_items,
    langfuse_traces_csv,
    langfuse_experiment,
    phoenix_evals_csv,
    langsmith_csv,
    langsmith_rows,
    langsmith_runs,
    langsmith_examples,
    pydantic_evals_json,
    opik_json,
    opik_csv,
    opik_results,
    azure_json,
    haystack_json,
    weave_calls,
    weave_csv,
    trulens_csv,
    trec_eval,
    ir_measures,
    pytrec_eval_json,
    by_measure_json,
    wide_xlsx,
    long_parquet,
    german_csv,
    columns_json,
]


def expected(before: Scores, after: Scores) -> tuple[int, float]:
    """The number of pairs and the mean difference, in plain Python."""
    pairs = [
        after[name] - before[name]
        for name in before
        if name in after and not math.isnan(before[name]) and not math.isnan(after[name])
    ]
    return len(pairs), math.fsum(pairs) / len(pairs)


def shuffled(scores: Scores) -> Scores:
    names = list(scores)
    np.random.default_rng(1).shuffle(names)
    return {name: scores[name] for name in names}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_a_form_gives_pairs_difference_and_decision(
    form: Callable[[Path, Scores], Path], tmp_path: Path
) -> None:
    before, after = scores_of("A"), shuffled(scores_of("B"))
    n, difference = expected(before, after)
    assert n == N - 4
    conclusion = rb.compare(form(tmp_path / "old", before), form(tmp_path / "new", after))
    [arm] = [arm for arm in conclusion.arms if arm.name == "new"]
    assert (arm.n, conclusion.n) == (n, n)
    assert arm.difference == pytest.approx(difference, abs=1e-12)
    assert conclusion.decision == "better"
    assert conclusion.choice == "new"


def paths_in(value: Any, at: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """The fields of a value of JSON; "*" stands for each item of a list."""
    if isinstance(value, list):
        return {path for item in value for path in paths_in(item, (*at, "*"))}
    if not isinstance(value, dict):
        return set()
    inner = {path for name, part in value.items() for path in paths_in(part, (*at, name))}
    return inner | {(*at, name) for name in value}


def damage(value: Any, path: tuple[str, ...], cell: Any, *, first_only: bool) -> None:
    """Put a cell in place of a field, or of this field of the first record only."""
    name, *others = path
    if name == "*":
        for item in value[:1] if first_only else value:
            damage(item, tuple(others), cell, first_only=first_only)
    elif isinstance(value, dict) and name in value:
        if others:
            damage(value[name], tuple(others), cell, first_only=first_only)
        elif cell is ...:
            del value[name]
        else:
            value[name] = cell


def refusal_of(file: Path) -> str:
    """The error of ragbench that refuses a file; "" if it is read."""
    try:
        load_scores(file)
    except rb.errors.DataError as exc:
        return str(exc)
    return ""


@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_a_damaged_export_is_read_or_refused_in_one_sentence(
    form: Callable[[Path, Scores], Path], tmp_path: Path
) -> None:
    file = form(tmp_path / "new", {f"q{i}": 0.25 * i for i in range(4)})
    if not isinstance(file, Path) or file.suffix not in (".json", ".jsonl"):
        return
    text = file.read_text()
    is_lines = file.suffix == ".jsonl"
    read = (lambda: [json.loads(line) for line in text.splitlines()]) if is_lines else None
    for path in sorted(paths_in(read() if read else json.loads(text))):
        for cell in (..., None, "words", 7, [1, "x"]):
            for first_only in (False, True):
                content = read() if read else json.loads(text)
                damage(content, path, cell, first_only=first_only)
                if is_lines:
                    lines(file, content)
                else:
                    written(file, content)
                assert "\n" not in refusal_of(file), (path, cell)
    if is_lines:
        for cell in (None, 7, "words", [1, "x"]):
            file.write_text(f"{text.rstrip()}\n{json.dumps(cell)}\n")
            assert "\n" not in refusal_of(file), cell


def promptfoo_rows(scores: list[float], contexts: list[str]) -> dict[str, Any]:
    """Ten questions, each with every context, in an order that differs by the number of scores."""
    rows = []
    for i, score in enumerate(scores):
        variables = {"question": f"Hill {i % 10}?", "context": contexts[i // 10]}
        rows.append({"vars": variables, "testIdx": i, "score": score, "success": True})
    return {"results": {"version": 3, "results": rows}}


def test_tests_of_promptfoo_that_share_a_question_are_two_questions() -> None:
    before = [i / 40 for i in range(20)]
    after = [i / 40 + (i % 3) / 10 for i in range(20)]
    reverse = promptfoo_rows([*after[10:], *after[:10]], ["b", "a"])
    conclusion = rb.compare(promptfoo_rows(before, ["a", "b"]), reverse, measure="score")
    [arm] = [arm for arm in conclusion.arms if arm.name != conclusion.baseline]
    assert (conclusion.n, arm.ties) == (20, 7)
    assert arm.difference == pytest.approx(sum(i % 3 for i in range(20)) / 200, abs=1e-12)
    assert arm.n_independent == 10  # questions of the same words are one observation


def test_contexts_that_differ_by_system_leave_the_question_to_pair() -> None:
    scores = [i / 40 for i in range(20)]
    tables = [promptfoo_rows(scores, ["a", "b"]), promptfoo_rows(scores, ["c", "d"])]
    conclusion = rb.compare(*tables, measure="score")
    assert conclusion.n == conclusion.total == 10
    assert any("Runs of one question count as one" in line for line in conclusion.evidence)


def conversations(path: Path, scores: list[float], reply: str) -> Path:
    rows = []
    for i, score in enumerate(scores):
        messages = [
            {"content": f"A plant for hill {i}.", "type": "human"},
            {"content": reply, "type": "ai"},
            {"content": "Thanks.", "type": "human"},
            {"content": "Anything else?", "type": "ai"},
        ]
        rows.append({"user_input": messages, "agent_goal_accuracy": score})
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


def test_conversations_of_ragas_are_paired_by_what_their_users_wrote(tmp_path: Path) -> None:
    before = conversations(tmp_path / "a.csv", [i / 40 for i in range(20)], "A fern.")
    after = conversations(tmp_path / "b.csv", [i / 40 + 0.1 for i in range(20)], "An oak.")
    conclusion = rb.compare(before, after)
    arm = conclusion.arms["b"]
    assert conclusion.n == conclusion.total == arm.n_independent == 20
    assert arm.difference == pytest.approx(0.1, abs=1e-12)


def deepeval_of(name: str, scores: list[float], passes: Callable[[float], bool]) -> dict[str, Any]:
    cases = []
    for i, score in enumerate(scores):
        metric = {"name": name, "score": score, "threshold": 0.5, "success": passes(score)}
        cases.append({"name": f"case_{i}", "input": f"Hill {i}?", "metricsData": [metric]})
    return {"testCases": cases}


@pytest.mark.parametrize(
    ("name", "passes", "decision"),
    [
        ("Jargon", lambda score: score <= 0.5, "worse"),  # a metric of one's own
        ("Jargon", lambda score: score >= 0.5, "better"),
        ("No Toxicity [GEval]", lambda score: score >= 0.5, "better"),
        ("Hallucination", lambda score: score <= 0.5, "worse"),
    ],
)
def test_the_direction_of_a_metric_of_deepeval_is_that_of_its_threshold(
    name: str, passes: Callable[[float], bool], decision: str
) -> None:
    scores = [i / 30 for i in range(20)]
    before = deepeval_of(name, scores, passes)
    after = deepeval_of(name, [score + 0.3 for score in scores], passes)
    assert rb.compare(before, after, measure=name).decision == decision
    # what the user declares decides over what the files state
    assert rb.compare(before, after, measure=name, lower=name).decision == "worse"


def test_files_that_state_different_directions_leave_it_to_the_name() -> None:
    scores = [i / 30 for i in range(20)]
    before = deepeval_of("Jargon", scores, lambda score: score <= 0.5)
    after = deepeval_of("Jargon", [score + 0.3 for score in scores], lambda score: score >= 0.5)
    assert rb.compare(before, after, measure="Jargon").decision == "better"


@pytest.mark.parametrize(("direction", "decision"), [(True, "better"), (False, "worse")])
def test_trulens_states_the_direction_of_a_feedback(
    direction: bool, decision: str, tmp_path: Path
) -> None:
    paths = []
    for gain in (0.0, 0.3):
        frame = pd.DataFrame({"input": [f"Hill {i}?" for i in range(20)]})
        frame["Jargon"] = [i / 30 + gain for i in range(20)]
        frame["Jargon direction"] = direction
        frame["Jargon feedback cost in USD"] = 0.001
        paths.append(tmp_path / f"{gain}.csv")
        frame.to_csv(paths[-1], index=False)
    conclusion = rb.compare(*paths)
    assert (conclusion.measure, conclusion.decision) == ("Jargon", decision)
    assert "direction" not in str(conclusion)


def test_phoenix_states_the_direction_of_a_score() -> None:
    tables = []
    for gain in (0.0, 0.3):
        rows = []
        for i in range(20):
            score = {"name": "jargon", "score": i / 30 + gain, "direction": "minimize"}
            rows.append({"input": f"Hill {i}?", "jargon_score": json.dumps(score)})
        tables.append(rows)
    conclusion = rb.compare(*tables)
    assert (conclusion.measure, conclusion.decision) == ("jargon", "worse")


def test_verdicts_in_place_of_scores_are_stated(tmp_path: Path) -> None:
    before, after = scores_of("A"), scores_of("B")
    old, new = openai_items(tmp_path / "old", before), openai_items(tmp_path / "new", after)
    content = json.loads(new.read_text())
    for item in content["data"]:
        del item["results"][0]["score"]
    note = "overlap is 0 or 1 in new and has other values in old: check"
    assert not any(note in sentence for sentence in rb.compare(old, new).evidence)
    written(new, content)
    assert any(note in sentence for sentence in rb.compare(old, new).evidence)


def test_a_match_without_a_verdict_is_no_failure(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = [
        {"event_id": i, "sample_id": f"s{i}", "type": "match", "data": {"correct": True}}
        for i in range(3)
    ]
    del events[1]["data"]["correct"]
    [table] = load_scores(lines(tmp_path / "log.jsonl", events))
    assert [row.scores["correct"] for row in table.rows] == pytest.approx(
        [1, math.nan, 1], nan_ok=True
    )


def test_a_decision_is_that_of_tidy_scores(tmp_path: Path) -> None:
    before, after = scores_of("A"), scores_of("B")
    files = [ragas_csv(tmp_path / "old", before), ragas_csv(tmp_path / "new", after)]
    [arm] = [arm for arm in rb.compare(*files).arms if arm.name == "new"]
    frames = [
        pd.DataFrame({"query_id": list(QUESTIONS), "measure": "f", "value": None}).assign(
            value=[scores.get(name, math.nan) for name in QUESTIONS]
        )
        for scores in (before, after)
    ]
    [row] = rb.statistics.compare(*frames).to_dict("records")
    for name in ("difference", "ci_low", "ci_high", "p_adjusted"):
        assert getattr(arm, name) == pytest.approx(row[name], abs=1e-12)
    assert arm.decision == row["decision"]


def test_why_questions_do_not_count(tmp_path: Path) -> None:
    files = [
        ragas_csv(tmp_path / "old", scores_of("A")),
        ragas_csv(tmp_path / "new", scores_of("B")),
    ]
    conclusion = rb.compare(*files)
    assert conclusion.total == N
    assert conclusion.left_out == {
        "are in old alone (Which plant grows on hill 5?)": 1,
        "are in new alone (Which plant grows on hill 3?)": 1,
        "have no faithfulness in old (Which plant grows on hill 8?)": 1,
        "have no faithfulness in new (Which plant grows on hill 9?)": 1,
    }


def test_pass_and_fail_of_junit(tmp_path: Path) -> None:
    before, after = binary(scores_of("A")), binary(scores_of("B"))
    n, difference = expected(before, after)
    files = [junit(tmp_path / "old.xml", before), junit(tmp_path / "new.xml", after)]
    conclusion = rb.compare(*files)
    [arm] = [arm for arm in conclusion.arms if arm.name == "new"]
    assert (conclusion.measure, arm.n) == ("passed", n)
    assert arm.difference == pytest.approx(difference, abs=1e-12)


def junit(path: Path, scores: Scores) -> Path:
    suite = ElementTree.Element("testsuite")
    for name, score in numbered(scores):
        case = ElementTree.SubElement(
            suite, "testcase", classname="tests.hills", name=f"test[{name}]"
        )
        if score is None:
            ElementTree.SubElement(case, "error", message="no reply")
        elif not score:
            ElementTree.SubElement(case, "failure", message="assert False")
    ElementTree.ElementTree(suite).write(path)
    return path


def test_an_archive_of_inspect_without_samples_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "header.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", "{}")
    with pytest.raises(
        rb.RagbenchError, match="is a log of Inspect without samples; run it without"
    ):
        rb.compare(path, path)


def test_an_archive_of_inspect_with_a_damaged_sample_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/a_epoch_1.json", json.dumps(QUESTIONS))
        [info] = archive.infolist()
    content = bytearray(path.read_bytes())
    content[info.header_offset + 30 + len(info.filename)] = 0xFF  # no valid type of a block
    path.write_bytes(content)
    with pytest.raises(rb.RagbenchError, match=r"samples/a_epoch_1.json could not be read"):
        rb.compare(path, path)


def test_measures_of_mlflow_have_the_same_name_in_all_its_tables(tmp_path: Path) -> None:
    for name, column, gain in (("a", "overlap", 0.0), ("b", "overlap/value", 0.3)):
        table = pd.DataFrame({"question": [f"Q{i}?" for i in range(12)]})
        table[column] = [i / 20 + gain for i in range(12)]
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    conclusion = rb.compare(tmp_path / "a.csv", tmp_path / "b.csv")
    assert (conclusion.measure, conclusion.n) == ("overlap", 12)
    assert conclusion.arms["b"].difference == pytest.approx(0.3, abs=1e-12)


def test_letters_and_epochs_of_inspect(tmp_path: Path) -> None:
    log = inspect_log(scores_of("A"))
    other = inspect_log(scores_of("A"))
    for place, sample in enumerate(log["samples"]):
        sample["scores"] = {"match": {"value": "C" if place % 2 else "I"}}
    other["samples"] = [
        {**sample, "epoch": epoch, "error": None, "scores": {"match": {"value": letter}}}
        for sample in other["samples"]
        for epoch, letter in enumerate("CPI", 1)
    ]
    files = [written(tmp_path / "one.json", log), written(tmp_path / "three.json", other)]
    conclusion = rb.compare(*files)
    assert {arm.name: arm.mean for arm in conclusion.arms}["three"] == pytest.approx(0.5)
    assert conclusion.n == N - 2
    assert any("Runs of one question count as one" in line for line in conclusion.evidence)


def test_a_gzip_of_an_archive_of_inspect_is_read_like_the_archive(tmp_path: Path) -> None:
    archive = inspect_eval(tmp_path / "log", scores_of("A"))
    compressed = tmp_path / "log.eval.gz"
    compressed.write_bytes(gzip.compress(archive.read_bytes()))
    [expected] = load_scores(archive)
    [table] = load_scores(compressed)
    assert (table.name, str(table.rows)) == ("log", str(expected.rows))


def test_scorers_of_inspect_that_share_a_name_are_two_measures() -> None:
    scores = {
        "exact": {"value": {"accuracy": 1, "length": 3}},
        "judge": {"value": {"accuracy": 0.5}},
        "length": {"value": 4},
    }
    log = {"eval": {}, "samples": [{"id": "q1", "scores": scores}]}
    [row] = load_scores(log)[0].rows
    assert row.scores == {
        "exact/accuracy": 1,
        "exact/length": 3,
        "judge/accuracy": 0.5,
        "length": 4,
    }


def test_grades_in_a_table_of_inspect_are_numbers() -> None:
    """`samples_df` has a column score_NAME per scorer, with letters of grades."""
    tables = []
    for grades in ("CIPN", "CCCN"):
        rows = [{"id": f"q{i}", "score_grade": grades[i % 4], "score_f1": 0.5} for i in range(20)]
        tables.append([*rows, {"id": "q20", "score_grade": "", "score_f1": ""}])
    conclusion = rb.compare(*tables, measure="score_grade")
    assert conclusion.n == 20
    means = {arm.name: arm.mean for arm in conclusion.arms}
    assert means == pytest.approx({"A": 0.375, "B": 0.75}, abs=1e-12)


def test_an_archive_compressed_by_zstandard(tmp_path: Path) -> None:
    """zipfile of Python 3.11 cannot write it: the entry is replaced in the bytes of a stored archive."""
    import pyarrow as pa

    paths = []
    for name in ("A", "B"):
        text = json.dumps(inspect_log(scores_of(name))["samples"]).encode()
        packed = pa.compress(text, codec="zstd", asbytes=True)
        path = tmp_path / f"{name}.eval"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("summaries.json", packed)
        content = bytearray(path.read_bytes())
        central = content.index(b"PK\x01\x02")
        content[central + 10 : central + 12] = (93).to_bytes(2, "little")
        content[central + 24 : central + 28] = len(text).to_bytes(4, "little")
        path.write_bytes(content)
        paths.append(path)
    n, difference = expected(scores_of("A"), scores_of("B"))
    [arm] = [arm for arm in rb.compare(*paths).arms if arm.name == "B"]
    assert arm.n == n
    assert arm.difference == pytest.approx(difference, abs=1e-12)


def test_filters_of_lm_eval_are_measures_of_their_own(tmp_path: Path) -> None:
    path = lm_eval_jsonl(tmp_path / "old", scores_of("A"))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    doubled = [{**row, "filter": name} for row in rows for name in ("strict", "flexible")]
    lines(path, doubled)
    conclusion = rb.compare(path, path)
    assert conclusion.measure == "f1,strict"
    assert conclusion.n == N - 2


def test_one_file_with_a_column_of_systems_is_a_leaderboard() -> None:
    rows = [
        {"model": model, "id": name, "score": value("A", place) + gain + 0.2}
        for model, gain in {"small": 0.0, "large": 0.25, "tiny": -0.2}.items()
        for place, name in enumerate(QUESTIONS)
    ]
    conclusion = rb.compare(rows)
    assert [arm.name for arm in conclusion.arms] == ["large", "small", "tiny"]
    assert conclusion.baseline == "small"
    named = conclude_tables([rows], baseline="tiny")
    assert {arm.name: arm.decision for arm in named.arms} == {
        "large": "better",
        "small": "better",
        "tiny": "",
    }


def test_a_table_of_promptfoo_with_several_prompts_is_a_leaderboard(tmp_path: Path) -> None:
    """The table of promptfoo 0.121.20 with two prompts: columns of the same names for each."""
    before, after = scores_of("A"), scores_of("B")
    names = [name for name in QUESTIONS if name in before and name in after]
    group = ["Status", "Score", "Named Scores", "Grader Reason", "Comment"]
    lines = [["topic", "hill", "[echo] Say {{hill}}", *group, "[echo] Sing {{hill}}", *group]]
    for name in names:
        cells = ["plants", QUESTIONS[name]]
        for score in (before[name], after[name]):
            status = "ERROR" if math.isnan(score) else "PASS"
            text = "0.00" if math.isnan(score) else f"{score:.2f}"
            cells += ["A fern.", status, text, "", "fine", ""]
        lines.append(cells)
    path = tmp_path / "output.csv"
    pd.DataFrame(lines[1:], columns=lines[0]).to_csv(path, index=False)
    conclusion = rb.compare(path)
    n, difference = expected(before, after)
    arm = conclusion.arms["[echo] Sing {{hill}}"]
    assert (conclusion.baseline, conclusion.measure) == ("[echo] Say {{hill}}", "score")
    assert arm.n == n
    assert arm.difference == pytest.approx(difference, abs=1e-12)


def test_two_experiments_of_braintrust_in_one_file(tmp_path: Path) -> None:
    before, after = scores_of("A"), shuffled(scores_of("B"))
    events = [braintrust_event("A", name, score) for name, score in numbered(before)]
    events += [braintrust_event("B", name, score) for name, score in numbered(after)]
    conclusion = rb.compare(written(tmp_path / "both.json", events))
    [arm] = [arm for arm in conclusion.arms if arm.name == "B"]
    assert (arm.n, conclusion.baseline) == (N - 4, "A")
    assert arm.difference == pytest.approx(expected(before, after)[1], abs=1e-12)
    # an answer without scores was asked and failed
    assert conclusion.left_out["have no Overlap in B (record q9)"] == 1


def test_two_versions_in_one_file_of_trulens(tmp_path: Path) -> None:
    """A system is named by its version, without the hash of it."""
    files = [trulens_csv(tmp_path / name, scores_of(name)) for name in "AB"]
    frame = pd.concat([pd.read_csv(file) for file in files])
    frame["app_id"] = "app_hash_" + frame["app_version"]
    assert [arm.name for arm in rb.compare(frame).arms] == ["B", "A"]


def test_many_files_are_a_leaderboard_with_names_of_their_own(tmp_path: Path) -> None:
    paths = []
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        paths.append(ragas_csv(tmp_path / name / "scores", scores_of("A")))
    conclusion = rb.compare(*paths)
    assert len({arm.name for arm in conclusion.arms}) == 3
    assert conclusion.n == N - 2


def test_the_texts_of_an_experiment_of_phoenix_are_refused(tmp_path: Path) -> None:
    evaluations = ["ExperimentEvaluationRun(experiment_run_id='r', name='overlap', result=0.5)"]
    experiment = {"task_runs": [{"id": "r"}], "evaluation_runs": evaluations}
    path = written(tmp_path / "texts.json", experiment)
    with pytest.raises(rb.RagbenchError, match=r"evaluation_runs of an experiment .* are texts"):
        rb.compare(path, path)


def test_several_scores_of_one_evaluation_of_phoenix() -> None:
    parts = [{"name": "recall", "score": 1}, {"name": "tone", "label": "correct"}]
    evaluations = [
        {"experiment_run_id": "r", "name": "judge", "result": parts},
        {"experiment_run_id": "r", "name": "broken", "result": None, "error": "no reply"},
    ]
    experiment = {"task_runs": [{"id": "r", "dataset_example_id": "q"}]}
    [table] = load_scores({**experiment, "evaluation_runs": evaluations})
    [row] = table.rows
    assert row.query_id == "q"
    assert {**row.scores, "broken": None} == {"recall": 1.0, "tone": 1.0, "broken": None}
    assert math.isnan(row.scores["broken"])


class Reply:
    """An object with fields, as other tools return for an evaluation, its items and their scores."""

    def __init__(self, **fields: object) -> None:
        self.__dict__.update(fields)


class Table(Reply):
    def to_pandas(self) -> pd.DataFrame:
        return pd.DataFrame(self.__dict__)


def test_objects_of_other_tools() -> None:
    results, tables = [], []
    for gain in (0.0, 0.3):
        scores = [i / 20 + gain for i in range(12)]
        items = [
            Reply(item={"input": f"Q{i}?"}, evaluations=[Reply(name="overlap", value=scores[i])])
            for i in range(12)
        ]
        results.append(Reply(name="run", item_results=items))
        tables.append(Table(user_input=[f"Q{i}?" for i in range(12)], overlap=scores))
    for old, new in (results, tables):
        for conclusion in (rb.compare(old, new), rb.compare({"A": old, "B": new})):
            assert (conclusion.measure, conclusion.n) == ("overlap", 12)
            assert conclusion.arms["B"].difference == pytest.approx(0.3, abs=1e-12)


def test_numbers_of_the_questions_do_not_decide() -> None:
    old = pd.DataFrame({"id": range(20), "hops": [i % 3 for i in range(20)], "is_long": True})
    old["helpful"] = [i % 2 for i in range(20)]
    new = old.assign(helpful=1)
    conclusion = rb.compare(old, new)
    assert (conclusion.measure, conclusion.decision) == ("helpful", "better")
    assert any("properties of the questions" in line for line in conclusion.evidence)
    assert rb.compare(old, new, measure="hops").measure == "hops"
    assert rb.compare(old, old).measure == "hops"  # nothing else can be told from the values


def test_evaluations_without_a_run_are_counted() -> None:
    experiment = {
        "task_runs": [{"id": "r", "dataset_example_id": "q"}],
        "evaluation_runs": [
            {"experiment_run_id": "r", "name": "overlap", "result": {"score": 0.5}},
            {"experiment_run_id": "other", "name": "overlap", "result": {"score": 0.9}},
        ],
    }
    with pytest.warns(rb.errors.DataWarning, match="1 left out because no task_run"):
        [table] = load_scores(experiment)
    assert [dict(row.scores) for row in table.rows] == [{"overlap": 0.5}]


def test_scores_of_haystack_without_questions_are_one_sentence(tmp_path: Path) -> None:
    """The scores alone look like a table with a question per measure."""
    part = {"individual_scores": [0.5, 1.0], "score": 0.75}
    contents = [
        {"overlap": part},
        {"inputs": {"questions": ["Why?"]}, "results": {"overlap": part}},
    ]
    for content in contents:
        with pytest.raises(rb.errors.DataError, match="results of Haystack have"):
            load_scores(written(tmp_path / "old.json", content))


def test_an_experiment_without_runs_is_one_sentence(tmp_path: Path) -> None:
    path = written(tmp_path / "empty.json", {"task_runs": [], "evaluation_runs": []})
    with pytest.raises(rb.RagbenchError, match=r"empty.json has no answers with scores"):
        rb.compare(path, path)
    path = written(tmp_path / "none.json", [])
    with pytest.raises(rb.RagbenchError, match=r"none.json has no rows"):
        rb.compare(path, path)


def test_pages_and_wrappings_of_records(tmp_path: Path) -> None:
    """Several pages of an interface, and records inside fields, are the records themselves."""
    records = [{"id": f"q{i}", "score": i / 20} for i in range(12)]
    pages = [{"data": records[:5], "meta": {"cursor": "x"}}, {"data": records[5:], "meta": {}}]
    wrapped = {"data": {"experiment": {"runs": records}}}
    plain = written(tmp_path / "plain.json", records)
    for name, value in (("pages", pages), ("wrapped", wrapped)):
        conclusion = rb.compare(plain, written(tmp_path / f"{name}.json", value))
        [arm] = [arm for arm in conclusion.arms if arm.name == name]
        assert (arm.n, arm.difference) == (12, 0.0)


def test_annotations_of_phoenix_with_decimal_commas(tmp_path: Path) -> None:
    paths = []
    for name, gain in (("old", 0.0), ("new", 0.25)):
        lines = ["example_id;annotation_overlap_label;annotation_overlap_score"]
        lines += [f"q{i};far;{str(i / 16 + gain).replace('.', ',')}" for i in range(12)]
        paths.append(tmp_path / f"{name}.csv")
        paths[-1].write_text("\n".join(lines), encoding="utf-8")
    conclusion = rb.compare(*paths)
    assert (conclusion.measure, conclusion.n) == ("overlap", 12)
    assert conclusion.arms["new"].difference == 0.25
