"""What was asked of language models, and what that costs."""

import statistics
from collections.abc import Sequence

from ragbench.evaluation.records import Cost, added, total_cost
from ragbench.llms import cost_of
from ragbench.types import Answer, Completion, Judgement


def costs_of(
    answers: Sequence[Answer],
    judgements: Sequence[Judgement] = (),
    interventions: Sequence[Answer] = (),
) -> tuple[Cost, ...]:
    """Return what was asked of language models and what that costs, one `Cost` per part and model.

    The cost is that of a run where no reply is stored yet, so it does not depend on what this
    machine asked before.

    Args:
        answers: the part "generator". judgements: the part "judge". interventions: answers that were
        generated for comparison only, such as those from oracle contexts.

    >>> reply = Completion("", "anthropic:claude-haiku-4-5", input_tokens=1_000, output_tokens=200)
    >>> [cost] = costs_of([Answer("q1", "Yes.")], [Judgement("q1", "correctness", 1.0, usage=(reply,))])
    >>> cost.part, cost.model, cost.requests, cost.usd
    ('judge', 'anthropic:claude-haiku-4-5', 1, 0.002)
    """
    by_model: dict[tuple[str, str], list[Completion]] = {}
    for part, replies in (
        ("generator", [answer.usage for answer in answers]),
        ("judge", [reply for judgement in judgements for reply in judgement.usage]),
        ("interventions", [answer.usage for answer in interventions]),
    ):
        for reply in filter(None, replies):
            by_model.setdefault((part, reply.model), []).append(reply)
    costs = []
    for (part, model), completions in by_model.items():
        costs.append(
            Cost(
                part,
                model,
                requests=len(completions),
                failed=sum(reply.error is not None for reply in completions),
                cached=sum(reply.cached for reply in completions),
                input_tokens=sum(reply.input_tokens for reply in completions),
                output_tokens=sum(reply.output_tokens for reply in completions),
                usd=added([cost_of(reply) for reply in completions]),
            )
        )
    return tuple(costs)


def cost_facts(costs: Sequence[Cost], answers: Sequence[Answer]) -> dict[str, float | None]:
    """Return what a configuration costs and how long a reply takes, as plain numbers for the facts
    of a result.

    `cost_usd` is the sum of `costs`; `generator_cost_usd` and `judge_cost_usd` are two of its
    parts. Each is 0 without a language model and None where a price is unknown. `generate_ms` is
    the median time of the replies that were waited for, None where all came from the store.

    >>> cost_facts([], [Answer("q1", "Yes.")])
    {'cost_usd': 0.0, 'generator_cost_usd': 0.0, 'judge_cost_usd': 0.0, 'generate_ms': None}
    """
    waited = [
        answer.latency_ms["generate"]
        for answer in answers
        if answer.usage is not None and "generate" in answer.latency_ms
    ]
    return {
        "cost_usd": total_cost(costs),
        "generator_cost_usd": total_cost(costs, "generator"),
        "judge_cost_usd": total_cost(costs, "judge"),
        "generate_ms": round(statistics.median(waited), 3) if waited else None,
    }
