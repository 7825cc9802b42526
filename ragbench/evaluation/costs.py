"""What was asked of language models, and what that costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ragbench.evaluation.records import Cost
from ragbench.llms import cost_of
from ragbench.types import Answer, Completion, Judgement


def costs_of(
    answers: Sequence[Answer], judgements: Sequence[Judgement] = (), ablations: Sequence[Answer] = ()
) -> tuple[Cost, ...]:
    """What was asked of language models and what that costs, one `Cost` per part and model.

    The cost is that of a run where no reply is stored yet, so it does not depend on what this machine asked before.

    Args:
        answers: the part "generator".
        judgements: the part "judge".
        ablations: answers that were generated for comparison only, such as those from oracle contexts.

    >>> reply = Completion("", "anthropic:claude-haiku-4-5", input_tokens=1_000, output_tokens=200)
    >>> [cost] = costs_of([Answer("q1", "Yes.")], [Judgement("q1", "correctness", 1.0, usage=(reply,))])
    >>> cost.part, cost.model, cost.requests, cost.usd
    ('judge', 'anthropic:claude-haiku-4-5', 1, 0.002)
    """
    asked = {
        "generator": replies_of(answers),
        "judge": [reply for judgement in judgements for reply in judgement.usage],
        "ablations": replies_of(ablations),
    }
    costs = []
    for part, replies in asked.items():
        for model in dict.fromkeys(reply.model for reply in replies):
            own = [reply for reply in replies if reply.model == model]
            usd = [cost_of(reply) for reply in own]
            costs.append(
                Cost(
                    part,
                    model,
                    requests=len(own),
                    failed=sum(reply.error is not None for reply in own),
                    cached=sum(reply.cached for reply in own),
                    input_tokens=sum(reply.input_tokens for reply in own),
                    output_tokens=sum(reply.output_tokens for reply in own),
                    usd=None if None in usd else math.fsum(one for one in usd if one is not None),
                )
            )
    return tuple(costs)


def replies_of(answers: Sequence[Answer]) -> list[Completion]:
    """The replies of language models that answers were made from."""
    return [answer.usage for answer in answers if answer.usage is not None]
