"""The output of a system for one configuration: answers, the texts behind them, and judgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from ragbench.hints.attributes import suggesting
from ragbench.metrics.context import score_context
from ragbench.types import Answer, Case, Chunk, Completion, Dataset, Judgement, Passage, Run


@dataclass(frozen=True, eq=False)
class Variation:
    """Changed questions with the labels that the answers must meet, the answers, and the chunks that
    they were made from.
    """

    cases: Sequence[Case]
    answers: Sequence[Answer]
    chunks: Sequence[Chunk] = ()


@suggesting()
@dataclass(frozen=True, eq=False)
class SystemOutput:
    """The answers of one system with the texts that they were made from.

    `documents` ranks documents and `ranking` the ids of the passages that the system retrieved,
    both query_id -> id -> score; `documents` is a lower bound where several documents hold the text
    of a passage without id (see `match_passages`). `chunks` are the texts behind these ids that are
    in documents of the dataset. `has_contexts` states whether what the system retrieved is known at
    all, `has_texts` whether the texts of the contexts are, from `chunks` or from the answers' own
    passages, and `has_answers` whether the system answers at all or only retrieves. `is_extractive` is
    True if its answers are sentences of the contexts, with no language model. `latency` holds
    answers with their milliseconds per stage, measured with `concurrency` questions at a time
    (None: not known). `safety_answers` is sample_id -> answer to the safety inputs that the system
    was asked, and `n_failed_samples` how many it would be asked again. `system` describes in plain data
    what was asked. `seconds` has what each stage took, `search_ms` the time that one question alone waits for
    its chunks (the median), where that is known;
    `depth` is how deep the ranking goes at most, and `tokenizer` counts its tokens. `searched` are
    the chunks of ragbench's own pipeline, of which `chunks` are expansions where it has that step and
    `joined` the ids of those expansions that were joined for single questions;
    `stages` are the rankings after each step, `filtered` the relevant documents that its filter keeps
    from a question, `step_usage` the replies of language models to steps, by part, and `safety_usage`
    those to safety samples, in all steps.

    `variations` are intervention -> the changed questions with their answers. A judge adds
    `judgements` and the judgements of the variations.
    """

    dataset: Dataset
    answers: Sequence[Answer]
    documents: Run
    ranking: Run
    chunks: Sequence[Chunk]
    latency: Sequence[Answer]
    system: Mapping[str, Any]
    has_contexts: bool = True
    has_texts: bool = True
    has_answers: bool = True
    is_extractive: bool = False
    concurrency: int | None = None
    safety_answers: Mapping[str, Answer] = field(default_factory=dict)
    n_failed_samples: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    search_ms: float | None = None
    depth: int = 100
    tokenizer: str = "minilm"
    searched: Sequence[Chunk] = ()
    joined: frozenset[str] = frozenset()
    stages: Mapping[str, Run] = field(default_factory=dict)
    filtered: Mapping[str, Sequence[str]] = field(default_factory=dict)
    step_usage: Mapping[str, Sequence[Completion]] = field(default_factory=dict)
    safety_usage: Sequence[Completion] = ()
    judgements: Sequence[Judgement] = ()
    variations: Mapping[str, Variation] = field(default_factory=dict)
    variation_judgements: Mapping[str, Sequence[Judgement]] = field(default_factory=dict)

    @cached_property
    def texts(self) -> Sequence[Chunk]:
        """Return a chunk for each id in the contexts of the answers, and all `chunks`.

        An id that is not in `chunks` gets a chunk with the text of the answer's passage; "" if there is
        no such passage.
        """
        chunk_of = {chunk.chunk_id: chunk for chunk in self.chunks}
        for answer in self.answers:
            passages = answer.passage_of
            for context_id in answer.contexts:
                if context_id not in chunk_of:
                    passage = passages.get(context_id, Passage(context_id, ""))
                    n_characters = len(passage.text)
                    chunk = Chunk(context_id, passage.doc_id, 0, n_characters, passage.text)
                    chunk_of[context_id] = chunk
        return list(chunk_of.values())

    @property
    def has_documents(self) -> bool:
        """Return True unless no passage is in a document of the dataset. Perspectives ask for it by
        their `needs`.
        """
        return not self.system.get("is_foreign")

    @cached_property
    def chunk_run(self) -> Run:
        """Return the ranking of the passages whose texts are in `chunks`."""
        ids = {chunk.chunk_id for chunk in self.chunks}
        run: Run = {}
        for query_id, scores in self.ranking.items():
            run[query_id] = {each: score for each, score in scores.items() if each in ids}
        return run

    @cached_property
    def context_scores(self) -> pd.DataFrame:
        """Return `score_context` of the answers, which two perspectives show."""
        return score_context(self.dataset, self.answers, self.texts)
