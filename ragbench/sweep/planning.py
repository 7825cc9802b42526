"""What a sweep would send and cost, found out without sending anything.

The requests are not guessed: each configuration is taken through dataset, chunks and retrieval as the notebook takes it
(what that computes is in the cache for the sweep itself), and a rehearsed model notes the requests. Only what depends
on a reply that nobody has yet, a verdict on an answer still to be written, is counted with a stand-in for that answer.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragbench.cache import replies
from ragbench.cache.replies import Request
from ragbench.errors import JudgeWarning
from ragbench.generation import answer_arms, generate_answers
from ragbench.judges import judge, spread
from ragbench.llms import RehearsedLLM, price_of
from ragbench.llms.rehearsal import holds_stand_in
from ragbench.llms.stored import replies_mode
from ragbench.sweep import spending
from ragbench.sweep.folder import SweepFolder
from ragbench.sweep.grid import Grid, read_grid
from ragbench.sweep.sources import load_named, source_of, working_folder
from ragbench.types import Chunk, Dataset, Run

# A notebook with these parameters is taken to work as evaluate.ipynb does.
_NEEDED = ("dataset", "retriever", "chunker", "llm")
_ENOUGH = 10  # replies in the store from which the usual length of a model's replies can be told


@dataclass(frozen=True)
class ModelPlan:
    """What one model would be asked; each request once, however many configurations share it.

    `cached` replies are in the store and cost nothing, `to_send` are not; of these `uncertain` judge answers that do
    not exist yet. Tokens are those of the requests to send: `input_tokens` a quarter of their bytes, `output_tokens`
    the model's usual reply (a quarter of the limit where the store has fewer than 10 of it). `cost` is in US dollars
    for these, `most` with every reply as long as its limit allows; None where the price is unknown.
    """

    model: str
    cached: int
    to_send: int
    uncertain: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    most: float | None


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep would do. `spent` is what its account has spent so far under a maximum cost."""

    folder: Path
    to_run: tuple[str, ...]
    finished: tuple[str, ...]
    models: tuple[ModelPlan, ...]
    notes: tuple[str, ...] = ()
    spent: float = 0.0


def plan(
    grid_file: str | Path,
    *,
    force: bool = False,
    out: str | Path = "results",
    replies: str | None = None,
    max_cost: float | None = None,
) -> SweepPlan:
    """What `sweep` with the same arguments would run, send and pay; nothing is run, sent or written to `out`.

    Raises:
        ConfigError, DataError: as `sweep` does before it runs anything.
    """
    with spending.settings(replies, max_cost):
        grid = read_grid(grid_file)
        folder = SweepFolder(Path(out).absolute() / grid.name)
        source = source_of(grid)
        finished = [
            name for name, parameters in grid.runs.items() if not force and folder.is_finished(name, parameters, source)
        ]
        to_run = {name: parameters for name, parameters in grid.runs.items() if name not in finished}
        with spending.account(folder.path):
            models, notes = _requests(grid, to_run)
            notes = (*grid.notes, *notes)
            return SweepPlan(folder.path, tuple(to_run), tuple(finished), models, notes, spending.spent())


def _requests(grid: Grid, runs: Mapping[str, Mapping[str, Any]]) -> tuple[tuple[ModelPlan, ...], tuple[str, ...]]:
    asking = {
        name: own for name, own in runs.items() if own.get("llm", "extractive") != "extractive" or own.get("judge")
    }
    if not asking:
        return (), ()
    if lacking := [name for name in _NEEDED if name not in grid.notebook.parameters]:
        note = f"{grid.notebook.path.name} has no parameter {lacking[0]}, so its requests cannot be foreseen"
        return (), (note,)
    known: dict[str, dict[str, Request]] = {}
    missing: dict[str, dict[str, Request]] = {}
    # Without the store every configuration pays for itself; with it, whoever comes second does not.
    each_for_itself = replies_mode() == "off"
    with warnings.catch_warnings(record=True) as warned, chdir(working_folder(grid)):
        warnings.simplefilter("always")
        pipeline = _Pipeline()
        # Configurations that share chunks and run stand together, so that one of each is kept at a time.
        for name in sorted(asking, key=lambda name: str([asking[name].get(key) for key in _RETRIEVAL])):
            for llm in pipeline.rehearse(asking[name]):
                own = f"{name} " if each_for_itself else ""
                known.setdefault(llm.name, {}).update({own + key: request for key, request in llm.known.items()})
                missing.setdefault(llm.name, {}).update({own + key: request for key, request in llm.missing.items()})
    notes = dict.fromkeys(str(one.message) for one in warned if issubclass(one.category, JudgeWarning))
    models = tuple(_model_plan(name, known[name], missing[name].values()) for name in sorted(known))
    return models, tuple(notes)


_CHUNKING = ("chunker", "chunk_size", "chunk_overlap", "tokenizer")
_RETRIEVAL = (*_CHUNKING, "retriever", "reranker", "depth")


class _Pipeline:
    """The stages of evaluate.ipynb up to the requests; the last chunks and the last run are kept."""

    def __init__(self) -> None:
        self._data: dict[str, Dataset] = {}
        self._chunks: dict[str, list[Chunk]] = {}
        self._runs: dict[str, Run] = {}

    def rehearse(self, parameters: Mapping[str, Any]) -> list[RehearsedLLM]:
        """The models of a configuration, after they have noted what they would be asked."""
        p = parameters
        data, chunks = self._dataset(p), self._chunked(p)
        models = []
        llm: str | RehearsedLLM = p["llm"]
        if llm != "extractive":
            llm = RehearsedLLM(p["llm"])
            models.append(llm)
        named = {"prompt": "prompt", "k": "k", "max_tokens": "max_tokens", "temperature": "temperature"}
        options = {to: p[name] for name, to in named.items() if name in p}
        limit = p.get("max_context_tokens") or None
        answers = generate_answers(data, self._run(p), chunks, llm, max_context_tokens=limit, **options)
        arms = answer_arms(data, chunks, llm, max_context_tokens=limit, **options) if p.get("oracle") else None
        if p.get("judge"):
            judging = RehearsedLLM(p["judge"], stand_in=False)
            models.append(judging)
            criteria = p.get("criteria", "correctness,faithfulness,relevance").replace(" ", "").split(",")
            judge(answers, criteria, judging, dataset=data, chunks=chunks)
            again = spread(answers, p.get("judge_apart", 0))
            judge(again, criteria, judging, dataset=data, chunks=chunks, mode="apart", allow_same_model=True)
            if arms is not None:
                for given in (answers, *arms.answers.values()):
                    judge(given, ["correctness"], judging, dataset=data, chunks=arms.chunks, allow_same_model=True)
        return models

    def _dataset(self, p: Mapping[str, Any]) -> Dataset:
        if "it" not in self._data:  # one per grid
            data = load_named(p, Path.cwd())
            if p.get("max_queries"):
                data = data.select(list(data.queries)[: p["max_queries"]])
            self._data["it"] = data
        return self._data["it"]

    def _chunked(self, p: Mapping[str, Any]) -> list[Chunk]:
        key = str([p.get(name) for name in _CHUNKING])
        if key not in self._chunks:
            from ragbench.chunkers import chunk

            named = {"chunk_size": "size", "chunk_overlap": "overlap", "tokenizer": "tokenizer"}
            options = {to: p[name] for name, to in named.items() if name in p}
            self._chunks = {key: chunk(self._dataset(p), p["chunker"], **options)}
        return self._chunks[key]

    def _run(self, p: Mapping[str, Any]) -> Run:
        key = str([p.get(name) for name in _RETRIEVAL])
        if key not in self._runs:
            from ragbench.retrievers import make_retriever, rerank, retrieve

            data, chunks = self._dataset(p), self._chunked(p)
            depth = p.get("depth", 100)
            run = retrieve(make_retriever(p["retriever"], chunks), data.queries, chunks, depth=depth)
            if p.get("reranker"):
                run = rerank(run, data.queries, chunks, p["reranker"], k=depth)
            self._runs = {key: run}
        return self._runs[key]


def _model_plan(model: str, known: Mapping[str, Request], missing: Iterable[Request]) -> ModelPlan:
    requests = list(missing)
    usual = _usual_output(model)
    price = price_of(model)
    cost = most = None
    read = [_input_tokens(request) for request in requests]
    written = [min(usual or request.max_tokens / 4, request.max_tokens) for request in requests]
    if price is not None:
        cost = math.fsum(price.cost(a, math.ceil(b)) for a, b in zip(read, written, strict=True))
        most = math.fsum(price.cost(a, request.max_tokens) for a, request in zip(read, requests, strict=True))
    uncertain = sum(holds_stand_in(request) for request in requests)
    return ModelPlan(model, len(known), len(requests), uncertain, sum(read), math.ceil(sum(written)), cost, most)


def _usual_output(model: str) -> float | None:
    counts = replies.info()["models"].get(model)
    return counts["output_tokens"] / counts["replies"] if counts and counts["replies"] >= _ENOUGH else None


def _input_tokens(request: Request) -> int:
    texts: Sequence[str] = (request.prompt, request.system or "", request.schema_text or "")
    return math.ceil(sum(len(text.encode()) for text in texts) / 4)
