"""The query of a search: the question, or a wording by a language model, with its prompts (hyde,
several, step-back, decompose, standalone).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ragbench.errors import ConfigError
from ragbench.llms.fences import fence, fence_code, numbered
from ragbench.llms.reply_text import without_thoughts
from ragbench.retrieval.steps.model import ask_model, reply_text
from ragbench.retrieval.steps.values import read_step
from ragbench.types import Completion, LLMLike

# Origin: conversational query rewriting, as of QReCC (Anantha et al. 2021).
STANDALONE = """Rewrite the last question of this conversation so that it can be understood without it.
Keep its language and its meaning, name what its pronouns stand for, and reply with the question alone.

{context}

Last question:
{question}

Question that can be understood alone:"""

# Origin: hypothetical document embeddings (Gao et al. 2022, "Precise Zero-Shot Dense Retrieval
# without Relevance Labels").
HYDE = """Write a short passage, as a document would have it, that answers the question. Where you do not know the
answer, write a likely one. Keep the language of the question, and reply with the passage alone.

Question:
{question}

Passage:"""

# Origin: several queries for one question, as LangChain's MultiQueryRetriever and RAG-Fusion
# (Rackauckas 2024) ask for.
SEVERAL = """Write {count} other wordings of the question for a search: each asks for the same thing in other words, or
names it as a document would. Keep the language of the question. Reply with one wording per line and nothing else.

Question:
{question}

Wordings, one per line:"""

# Origin: step-back prompting (Zheng et al. 2023, "Take a Step Back").
STEP_BACK = """Write the more general question that one has to understand in order to answer the question below.
Keep its language, and reply with the general question alone.

Question:
{question}

General question:"""

# Origin: decomposition of questions that need several facts (Press et al. 2022, "Measuring and
# Narrowing the Compositionality Gap").
DECOMPOSE = """Split the question into at most {count} simpler questions that together answer it, each of which can be
understood alone. If it asks for one thing only, reply with the question itself. Keep its language. Reply with one
question per line and nothing else.

Question:
{question}

Simpler questions, one per line:"""

_PROMPTS = {
    "hyde": HYDE,
    "several": SEVERAL,
    "step_back": STEP_BACK,
    "decompose": DECOMPOSE,
}
_PARTS = 4  # questions that one is split into, at most
_LONGEST = 2_000  # characters of a wording
_BULLET = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.):])\s+")


def wordings(
    questions: Mapping[str, str],
    rewrite: str | Callable[..., Any],
    llm: LLMLike = "",
    **asking: Any,
) -> tuple[dict[str, tuple[str, ...]], list[Completion]]:
    """Return query_id -> the texts to search for, and a model's replies; `asking` are options of
    `generate_many`.

    - "": the question.
    - "hyde": a passage that could answer it, in place of the question.
    - "several:N": the question, then N other wordings of it.
    - "step_back": the question, then a more general one.
    - "decompose": the question, then at most 4 simpler ones.
    - a function of a question: the text or texts that it returns, in place of the question.

    Wordings that differ only in case or blanks count once. If a reply is empty, the question alone is
    searched for. The rankings of several texts become one by
    the step `fusion`; rerankers, diversity and answers take the question itself.

    >>> from ragbench.llms import ScriptedLLM
    >>> wordings({"q": "When did it open?"}, "several:2", ScriptedLLM(["1. Opening date?\\n2. when did it  open?"]))[0]
    {'q': ('When did it open?', 'Opening date?')}

    Raises:
        ModelError: a request failed.
    """
    step = read_step("rewrite", rewrite)
    texts: dict[str, tuple[str, ...]] = {}
    if not step.name:
        return {query_id: (question,) for query_id, question in questions.items()}, []
    if step.function:
        for query_id, question in questions.items():
            texts[query_id] = _checked_texts(step.function(question), question)
        return texts, []
    count = int(step.number) or _PARTS  # "several:N" alone has a number
    prompts = [_prompt(_PROMPTS[step.name], question, count) for question in questions.values()]
    replies = ask_model(llm, prompts, "rewritten questions", **asking)
    for (query_id, question), reply in zip(questions.items(), replies, strict=True):
        if step.name in ("several", "decompose"):
            written = _lines(reply, count)
        else:  # one text, of several lines maybe
            written = [reply_text(reply, _LONGEST)]
        # a passage of "hyde" takes the place of the question, all others are added to it
        if step.name != "hyde":
            written.insert(0, question)
        # the question alone if the reply is empty
        texts[query_id] = _distinct(written) or (question,)
    return texts, replies


def standalone(
    questions: Mapping[str, str],
    conversations: Mapping[str, str],
    llm: LLMLike,
    **asking: Any,
) -> tuple[dict[str, str], list[Completion]]:
    """Return query_id -> a question that can be understood without its conversation, and the model's
    replies. Questions without a conversation are left out.

    Args:
        questions: query_id -> question.
        conversations: query_id -> the text of the conversation before the question.
        llm: rewrites them; where its reply is empty the question itself is returned.
        asking: options of `generate_many`.

    Raises:
        ModelError: a request failed.
    """
    prompts = []
    for query_id, conversation in conversations.items():
        code = fence_code([questions[query_id], conversation])
        context = numbered([conversation], code)
        question = fence("question", questions[query_id], code)
        prompts.append(STANDALONE.format(question=question, context=context))
    replies = ask_model(llm, prompts, "questions", **asking)
    texts = {}
    for query_id, reply in zip(conversations, replies, strict=True):
        texts[query_id] = reply_text(reply, _LONGEST) or questions[query_id]
    return texts, replies


def _prompt(template: str, question: str, count: int) -> str:
    """Return the prompt for texts in place of a question, at most `count` of them."""
    fenced_question = fence("question", question, fence_code([question]))
    return template.format(question=fenced_question, count=count)


def _lines(reply: Completion, count: int) -> list[str]:
    """Return the first `count` lines of a reply that hold a letter or digit, without the signs of a
    list; [] if the request failed or was not sent.
    """
    if reply.failure is not None:
        return []
    lines = []
    for line in without_thoughts(reply.text).splitlines():
        text = _BULLET.sub("", line).strip()
        if any(map(str.isalnum, text)):
            lines.append(text[:_LONGEST])
    return lines[:count]


def _distinct(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the texts that are not empty; of texts that differ only in upper and lower case or in white
    space the first.
    """
    first: dict[str, str] = {}
    for text in texts:
        if text.strip():
            first.setdefault(" ".join(text.casefold().split()), text)
    return tuple(first.values())


def _checked_texts(returned: Any, question: str) -> tuple[str, ...]:
    """Return the texts that a user's function returned for a question, each once; the question itself
    if all are blank.

    Raises:
        ConfigError: the function returned anything but a text or a sequence of texts.
    """
    texts = [returned] if isinstance(returned, str) else returned
    if isinstance(texts, Sequence) and all(isinstance(text, str) for text in texts):
        return _distinct(texts) or (question,)
    raise ConfigError(f"rewrite returned {returned!r:.80}; expected a text or a list of texts")
