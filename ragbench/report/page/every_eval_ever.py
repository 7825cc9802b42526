"""A result in the schema of Every Eval Ever (arXiv 2606.14516), version 0.3.0: the measures, the
system, and the interval of each mean.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ragbench.evaluation import Result
from ragbench.evaluation.records import MeasureResult
from ragbench.registry import meaning_of
from ragbench.report.page.report_json import json_text

_UNKNOWN = {"deployment_type": "unknown", "model_availability": "unknown"}


def report_every_eval_ever(result: Result) -> str:
    """Write a result as JSON in the form of Every Eval Ever, a public collection of evaluations.

    It has the measures with a value and a 95 % interval. The model is the one that wrote the answers
    or, if none is known, the system.
    """
    models = [
        answer.usage.model for answer in result.answers if answer.usage and answer.usage.model
    ]
    model = models[0] if models else f"ragbench:{result.name}"
    model = model.replace(":", "/", 1)  # there, an id is "provider/model"
    seconds = datetime.fromisoformat(result.made_at).timestamp() if result.made_at else 0
    parameters = {name: str(value) for name, value in result.parameters.items()}
    return json_text(
        {
            "schema_version": "0.3.0",
            "evaluation_id": f"{result.dataset['name']}/{result.name}/{seconds:.0f}",
            "retrieved_timestamp": f"{seconds:.0f}",
            "source_metadata": {
                "source_type": "evaluation_run",
                "source_organization_name": "unknown",
                "evaluator_relationship": "other",
            },
            "eval_library": {
                "name": "ragbench",
                "version": str(result.environment.get("ragbench", "unknown")),
            },
            "model_info": {
                "name": model.rpartition("/")[2],
                "id": model,
                "additional_details": _UNKNOWN | parameters,
            },
            "evaluation_results": [
                _measure_record(row, result.dataset)
                for row in result.rows
                if None not in (row.value, row.ci_low, row.ci_high)
            ],
        }
    )


def _measure_record(row: MeasureResult, dataset: Mapping[str, Any]) -> dict[str, Any]:
    """Return a measure with its value and interval in the form of Every Eval Ever."""
    return {
        "evaluation_name": f"{dataset['name']} {dataset['split']}",
        "source_data": {"dataset_name": dataset["name"], "source_type": "other"},
        "metric_config": {
            "metric_name": row.measure,
            "evaluation_description": meaning_of(row.measure),
            "lower_is_better": row.lower_is_better,
        },
        "score_details": {
            "score": row.value,
            "uncertainty": {
                "num_samples": row.n_scored,
                "confidence_interval": {
                    "lower": row.ci_low,
                    "upper": row.ci_high,
                    "confidence_level": 0.95,
                },
            },
        },
    }
