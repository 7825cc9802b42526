"""A language model with predefined replies: for tests, for teaching, for trying a notebook without
paying.
"""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ragbench.errors import ConfigError, ModelError
from ragbench.hints.attributes import suggesting
from ragbench.types import Completion

ScriptedReply = str | Mapping[str, Any] | Completion


@suggesting()
class ScriptedLLM:
    """Replies from a list, in order, or from a function of the prompt.

    A reply is a text, a mapping (which becomes JSON text) or a whole Completion. Tokens are counted
    as words, latency is 0. `prompts` and `systems` hold all requests, in order. Nothing goes
    through the reply store. When a list has no reply left, `generate` raises ModelError.

    >>> llm = ScriptedLLM(["Paris.", {"verdict": True}])
    >>> llm.generate("What is the capital of France?").text
    'Paris.'
    >>> llm.generate("Is that so?").text
    '{"verdict": true}'
    >>> ScriptedLLM(lambda prompt: prompt.upper()).generate("hello").text
    'HELLO'
    """

    def __init__(
        self,
        replies: Sequence[ScriptedReply] | Callable[[str], ScriptedReply],
        *,
        name: str = "scripted:test",
    ) -> None:
        """Take the replies: a list, in the order of the requests, or a function of the prompt."""
        self._replies = replies if callable(replies) else list(replies)
        self._lock = threading.Lock()
        self.name = name
        self.prompts: list[str] = []
        self.systems: list[str | None] = []

    @property
    def max_concurrency(self) -> int | None:
        """Return 1 for a list: its replies belong to the prompts in order."""
        return None if callable(self._replies) else 1

    def generate(
        self,
        prompt: str,
        *,
        system: str | None = None,
        **options: Any,
    ) -> Completion:
        """Return the next reply; see the class. Other options of a model change nothing."""
        with self._lock:
            number = len(self.prompts)
            self.prompts.append(prompt)
            self.systems.append(system)
        reply = self._reply(number, prompt)
        if isinstance(reply, Completion):
            return reply
        if not isinstance(reply, str | Mapping):
            raise ConfigError(
                f"llm {self.name!r} returned {reply!r:.80}; expected a text, a mapping (which becomes "
                "JSON) or a Completion"
            )
        text = reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)
        question = f"{system or ''} {prompt}"
        return Completion(
            text, self.name, input_tokens=len(question.split()), output_tokens=len(text.split())
        )

    def _reply(self, number: int, prompt: str) -> ScriptedReply:
        """Return the reply of the function, else the reply of that number in the list."""
        if callable(self._replies):
            return self._replies(prompt)
        if number < len(self._replies):
            return self._replies[number]
        raise ModelError(
            f"{self.name} has {len(self._replies)} replies and was asked {number + 1} times; "
            "give it more of them, or a function"
        )
