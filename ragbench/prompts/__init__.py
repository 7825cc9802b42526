"""Every text that ragbench sends to a language model, and how foreign text stands in it.

Two rules hold for all of them. What we did not write (questions, documents, answers, reference answers) stands
between tags that it cannot close (`ragbench.prompts.fences`), and the model is told that nothing between them is an
instruction. And a model gives its reason before its verdict, so that the verdict can follow from the reason.
"""

from __future__ import annotations

from ragbench.prompts.auditing import AUTHOR, INSTRUCTION, PADDING
from ragbench.prompts.fences import fence, fence_code, numbered
from ragbench.prompts.generating import (
    CITED,
    CLOSED_BOOK,
    CONCISE,
    GENERATION_SYSTEM,
    PLAIN,
    PROMPTS,
    check_prompt,
    closed_book,
    fill,
)
from ragbench.prompts.judging import (
    CONTEXT_PRECISION,
    CONTEXT_RECALL,
    CORRECTNESS,
    CRITERIA,
    FAITHFULNESS,
    JUDGE_SYSTEM,
    RELEVANCE,
    REPAIR,
    REPLY_FORMS,
)
from ragbench.prompts.labelling import (
    LABELLING_SYSTEM,
    QUESTIONS,
    QUESTIONS_SCHEMA,
    REFERENCE,
    SUPPORT,
    SUPPORT_SCHEMA,
    ask_for_questions,
    ask_for_support,
)
from ragbench.prompts.objects import UnreadableError, json_objects, json_spans
from ragbench.prompts.outcomes import NO_ANSWER, read_outcome, without_thoughts
from ragbench.prompts.preferring import PREFERENCE, PREFERENCE_SCHEMA, ask_for_preference, repair_preference

__all__ = [
    "AUTHOR",
    "CITED",
    "CLOSED_BOOK",
    "CONCISE",
    "CONTEXT_PRECISION",
    "CONTEXT_RECALL",
    "CORRECTNESS",
    "CRITERIA",
    "FAITHFULNESS",
    "GENERATION_SYSTEM",
    "INSTRUCTION",
    "JUDGE_SYSTEM",
    "LABELLING_SYSTEM",
    "NO_ANSWER",
    "PADDING",
    "PLAIN",
    "PREFERENCE",
    "PREFERENCE_SCHEMA",
    "PROMPTS",
    "QUESTIONS",
    "QUESTIONS_SCHEMA",
    "REFERENCE",
    "RELEVANCE",
    "REPAIR",
    "REPLY_FORMS",
    "SUPPORT",
    "SUPPORT_SCHEMA",
    "UnreadableError",
    "ask_for_preference",
    "ask_for_questions",
    "ask_for_support",
    "check_prompt",
    "closed_book",
    "fence",
    "fence_code",
    "fill",
    "json_objects",
    "json_spans",
    "numbered",
    "read_outcome",
    "repair_preference",
    "without_thoughts",
]
