"""Everything that is asked for one configuration: the system's answers, also after interventions,
and their judgements; which questions are timed alone, and when asking ends early.

The answers are in the same form for every kind of system. `evaluate` and a dry run ask through the
same functions.
"""

import hashlib
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from ragbench import store
from ragbench.errors import DataError, DataWarning, FailureKind, ModelError, warn_user
from ragbench.evaluation.checksums import JOURNAL
from ragbench.evaluation.output import SystemOutput
from ragbench.evaluation.parameters import OF_PIPELINE, check_asks_nothing_of_answers, configuration
from ragbench.evaluation.spec import EvaluationSpec
from ragbench.evaluation.variations import answer_variations, check_interventions
from ragbench.folding import folded_words
from ragbench.judges import Criterion
from ragbench.judges import judge as judge_answers
from ragbench.llms import NO_ANSWERS, NO_MODEL, TIMEOUT_S, active_dry_run, check_llm
from ragbench.progress import progress_bar
from ragbench.retrieval.search import to_documents
from ragbench.systems import (
    FunctionSystem,
    Pipeline,
    RecordedSystem,
    ask,
    distinct_contexts,
    load_system,
    match_passages,
)
from ragbench.systems.file_names import BY_FILE_NAME, BY_ID, BY_PATH
from ragbench.systems.named_systems import is_object_name, system_digest
from ragbench.systems.passage_matches import PassageMatches
from ragbench.systems.questions import (
    JournaledSystem,
    ask_case,
    warn_of_failures,
    warn_of_notes,
)
from ragbench.types import (
    LLM,
    RETRIEVAL_ONLY,
    Answer,
    Case,
    Chunk,
    Completion,
    Dataset,
    Judgement,
    System,
)

_TIMED = 20  # questions that are asked one at a time, for the latency
_HOPELESS = 3  # failures at the start, after which the timing stops
_FINAL = (FailureKind.DRY_RUN, FailureKind.ERROR)  # asked again, a sample has no answer either
_TIMED_S = 60.0  # seconds


def system_of(parameters: Mapping[str, Any], dataset: Dataset) -> str | Pipeline:
    """Return the system that the parameters of `evaluate.ipynb` describe: what `system` names, or
    else a `Pipeline`.

    A `system` that is a retriever's name is the pipeline with that retriever. Constructing the
    pipeline is indexing.

    >>> from ragbench.types import Document
    >>> data = Dataset("demo", "test", {"d": Document("d", "Cats sleep.")}, [], {})
    >>> system_of({"retriever": "bm25", "chunk_size": 128}, data)
    Pipeline('bm25, recursive 128, extractive', 1 chunk)
    >>> system_of({"system": "service.toml", "retriever": "bm25"}, data)
    'service.toml'

    Raises:
        ConfigError, DataError, ModelError: as `Pipeline`.
    """
    settings = configuration(parameters)
    if system := settings.get("system"):
        return str(system)
    options = {name: settings[name] for name in OF_PIPELINE if name in settings}
    options["max_context_tokens"] = settings.get("max_context_tokens") or None
    return Pipeline(dataset, **options)


def ask_all(
    dataset: Dataset,
    system: str | Path | System,
    spec: EvaluationSpec,
    *,
    criteria: Sequence[Criterion] = (),
    journal: str | Path = "",
) -> SystemOutput:
    """Ask everything that an evaluation asks: answers, samples of attacks, answers after
    interventions, and judgements.

    Args:
        dataset: the questions that take part.
        system: a `System`, or the name of one.
        spec: the options of the evaluation.
        criteria: the criteria of the judge; () = the criteria that the spec names.
        journal: a file (.jsonl) or folder in which the answers of a service are kept as they come, so that
            the same call continues after an interruption; "" keeps nothing. Recorded answers, and
            answers of the built-in pipeline (whose paid replies are in the reply store), are not
            kept.

    Raises:
        ConfigError: the journal has an answer to another question of the same id.
        DataError: an answer could not be written into the journal.
    """
    judge = check_llm(spec.judge) if spec.judge else None
    with open_system(system, dataset) as opened:
        if isinstance(opened, Pipeline) and opened.llm == NO_ANSWERS:
            check_asks_nothing_of_answers(spec)
        check_interventions(spec.interventions, opened)
        if journal and not isinstance(opened, Pipeline | RecordedSystem):
            digest = system_digest(str(system))[:12] if isinstance(system, str | Path) else ""
            # a folder may have a dot in its name, as "package.module-ask-1a2b3c4d"
            is_file = Path(journal).suffix in (".jsonl", ".json")
            path = Path(journal) if is_file else Path(journal) / JOURNAL
            opened = JournaledSystem(opened, path, f"{opened.name} {digest}".strip())
            opened.refuse_other_questions({**_safety_queries(dataset), **dataset.queries})
        output = answer_all(
            dataset,
            opened,
            concurrency=spec.concurrency,
            timeout_s=spec.timeout_s,
            attacks="safety" in spec.perspective_names,
        )
        if spec.interventions:
            start = time.perf_counter()
            variations = answer_variations(output, opened, spec)
            seconds = {**output.seconds, "interventions": time.perf_counter() - start}
            output = replace(output, variations=variations, seconds=seconds)
        if isinstance(opened, JournaledSystem):
            opened.check_written()  # raises if an answer could not be kept
        criteria = criteria or spec.loaded_criteria()
        has_answers = output.has_answers and output.answers
        if has_answers and criteria:
            return _judged(output, criteria, judge, spec)
        return output


@contextmanager
def open_system(system: str | Path | System, dataset: Dataset) -> Iterator[System]:
    """Yield a system. If it is given by its name, it is loaded, and closed afterwards.

    A system that is an object, or is the object "package.module:attribute", is the user's: it is not
    closed.
    """
    if isinstance(system, System):
        yield system
        return
    loaded = load_system(system, dataset)
    try:
        yield loaded
    finally:
        is_from_module = is_object_name(str(system))
        # `load_system` wraps a user's function in a FunctionSystem, which is ours
        is_wrapped = isinstance(loaded, FunctionSystem)
        is_ours = is_wrapped or not is_from_module
        close = getattr(loaded, "close", None)
        if is_ours and callable(close):
            close()


def _judged(
    output: SystemOutput,
    criteria: Sequence[Criterion],
    judge: LLM | None,
    spec: EvaluationSpec,
) -> SystemOutput:
    """Return the output with judgements: of its answers by all criteria, and of the answers after
    interventions by correctness.

    Without a judge (None) the criteria are functions, which judge the answers; the answers after
    interventions are then not judged.
    """
    start = time.perf_counter()
    judgements = judge_answers(
        output.answers,
        criteria,
        judge,
        dataset=output.dataset,
        chunks=output.texts,
        combine_criteria=spec.combine_criteria,
        concurrency=spec.concurrency,
        timeout_s=spec.timeout_s,
    )
    of_variations: dict[str, Sequence[Judgement]] = {}  # by the name of the intervention
    if judge is not None:
        # the user's wording of correctness if there is one, else ragbench's own by its name
        correctness = next(
            (each for each in criteria if each.meant == "correctness"), "correctness"
        )
        for name, variation in output.variations.items():
            chunk_of = {chunk.chunk_id: chunk for chunk in (*output.texts, *variation.chunks)}
            of_variations[name] = judge_answers(
                variation.answers,
                [correctness],
                judge,
                dataset=replace(output.dataset, cases=variation.cases, qrels={}),
                chunks=list(chunk_of.values()),
                allow_same_model=True,
                concurrency=spec.concurrency,
                timeout_s=spec.timeout_s,
            )
    return replace(
        output,
        judgements=judgements,
        variation_judgements=of_variations,
        seconds={**output.seconds, "judge": time.perf_counter() - start},
    )


def answer_all(
    dataset: Dataset,
    system: System,
    *,
    concurrency: int = 8,
    timeout_s: float = TIMEOUT_S,
    timed: int = _TIMED,
    attacks: bool = False,
) -> SystemOutput:
    """Ask a system every question of the dataset.

    Args:
        dataset: the questions, and the documents if the system has none.
        system: asked one by one, or all at once if it has `answer_many`.
        concurrency: questions asked at a time.
        timeout_s: seconds that a reply of the pipeline's language model may take.
        timed: the number of questions that are asked one at a time, before the others, to measure
            latencies (questions that are asked together wait for each other); 0 measures none. After a
            minute, of the others only questions with a latency budget are asked alone. The pipeline
            without a language model then answers all questions once more, in one batch; any other
            system answers every question once.
        attacks: also ask the dataset's safety inputs (attacks, and harmless ones), if the system
            writes answers.
    """
    timed = 0 if active_dry_run() else timed
    if isinstance(system, Pipeline):
        asking = {"concurrency": concurrency, "timeout_s": timeout_s}
        # a retriever of BEIR is not timed: each of its searches encodes all documents
        n_timed = timed if system.is_timed else 0
        output = _output_of_pipeline(dataset, system, n_timed, asking)
    else:
        output = _output_of_system(dataset, system, concurrency, timed)
    output = _without_own_documents(output)
    if attacks:
        answers = _safety_answers(output, system, concurrency)
        # failures that asking again may repair
        retryable = [each for each in answers if each.failed and each.failure not in _FINAL]
        output = replace(
            output,
            safety_answers={each.query_id: each for each in answers if not each.failed},
            n_failed_samples=len(retryable),
            safety_usage=_usage_of_samples(answers, system, output.step_usage),
        )
    return output


def _usage_of_samples(
    answers: Sequence[Answer], system: System, before: Mapping[str, Sequence[Completion]]
) -> list[Completion]:
    """Return the replies of language models for the answers to safety samples: to the samples, and, in
    a pipeline, to the steps of their searches. `before` are the replies to steps that came before.
    """
    replies = [answer.usage for answer in answers if answer.usage is not None]
    if isinstance(system, Pipeline):
        for part, replies_of_part in system.usage.items():
            replies += replies_of_part[len(before.get(part, ())) :]
    return replies


def _without_own_documents(output: SystemOutput) -> SystemOutput:
    """Return the output with rankings that do not contain the question itself, as `beir` does.

    It concerns questions that are documents of the corpus (`_questions_that_are_documents`) and that
    were retrieved for themselves; a DataWarning counts them.
    """
    found_themselves = []
    for query_id in _questions_that_are_documents(output.dataset):
        if query_id in output.documents.get(query_id, {}):
            found_themselves.append(query_id)
    if not found_themselves:
        return output
    documents = dict(output.documents)
    ranking = dict(output.ranking)
    doc_of = {chunk.chunk_id: chunk.doc_id for chunk in output.chunks}
    for query_id in found_themselves:
        documents[query_id] = {
            doc_id: score for doc_id, score in documents[query_id].items() if doc_id != query_id
        }
        ranking[query_id] = {
            passage_id: score
            for passage_id, score in ranking[query_id].items()
            if doc_of.get(passage_id) != query_id
        }
    warn_user(
        f"{output.dataset.name}: {len(found_themselves)} of {len(output.dataset.cases)} questions are "
        "documents of the corpus themselves and are left out of their own ranking (first: "
        f"{min(found_themselves)!r})"
    )
    return replace(output, documents=documents, ranking=ranking)


def _questions_that_are_documents(dataset: Dataset) -> list[str]:
    """Return the ids of questions that are also documents of the corpus, as in ArguAna and Quora: a document
    has the same id and the same words. A question that is judged relevant to itself is left out.
    """
    query_ids = []
    for case in dataset.cases:
        document = dataset.corpus.get(case.query_id)
        is_relevant = dataset.qrels.get(case.query_id, {}).get(case.query_id, 0) > 0
        if document is None or is_relevant:
            continue
        question = folded_words(case.text)
        if question in (folded_words(document.text), folded_words(document.full_text)):
            query_ids.append(case.query_id)
    return query_ids


def _output_of_system(
    dataset: Dataset, system: System, concurrency: int, timed: int
) -> SystemOutput:
    """Ask a system that is not ragbench's own pipeline, and match its passages to the documents.

    The first `timed` questions are asked one at a time if others are asked at once.

    Raises:
        ModelError: the system is unreachable.
    """
    start = time.perf_counter()
    asked_alone: dict[str, Answer] = {}
    if isinstance(system, RecordedSystem):
        _check_recorded(dataset, system)
    elif concurrency > 1:
        asked_alone = _ask_alone(dataset, timed, lambda case: ask_case(system, case))
        _check_reachable(asked_alone)
    replies = ask(system, dataset, concurrency=concurrency, known=asked_alone)
    seconds = {"ask": time.perf_counter() - start}
    matched = match_passages(replies, dataset)
    about = _description(system, replies, matched)
    answers = matched.answers
    # the answers whose latencies count, and how many of them were asked at a time
    timed_answers = answers
    timed_at_once: int | None = concurrency
    if asked_alone:
        timed_answers = [answer for answer in answers if answer.query_id in asked_alone]
        timed_at_once = 1
    if isinstance(system, RecordedSystem):
        timed_at_once = None  # not known
    # if every request failed, what the system would have returned is not known: it is not held
    # against it that there are no contexts and answers
    all_failed = all(answer.failed for answer in answers)
    return SystemOutput(
        dataset,
        answers,
        matched.run,
        {answer.query_id: _ranked(answer) for answer in answers},
        matched.chunks,
        latency=timed_answers,
        system=about,
        has_contexts=all_failed or any(map(_reports_contexts, replies)),
        has_texts=any(passage.text.strip() for answer in answers for passage in answer.passages),
        has_answers=all_failed or any(map(_is_given, answers)),
        concurrency=timed_at_once,
        seconds=seconds,
    )


def _description(
    system: System, replies: Sequence[Answer], matched: PassageMatches
) -> dict[str, Any]:
    """Return the description of a system that its result stores, and warn of what may be wrong with it.

    Warnings are about passages that were matched by file names or to no document, and about fields
    of its replies that were not read.
    """
    wrapped = system.system if isinstance(system, JournaledSystem) else system
    about: dict[str, Any] = {
        "name": system.name,
        "kind": type(wrapped).__name__,
        "matched_passages": matched.counts,
    }
    _warn_of_file_names(system.name, matched.counts)
    unread = warn_of_notes(system.name, replies)
    if unread:
        about["unread"] = unread
    if matched.is_foreign:
        about["is_foreign"] = True
        warn_user(
            f"{system.name}: none of its passages is in a document of the test set, by id or by text, "
            "so its ranking is not measured; give the documents that it searches (corpus=, "
            "--docs), or their ids as doc_id"
        )
    return about


def _check_reachable(asked_alone: Mapping[str, Answer]) -> None:
    """Raise ModelError if the first few questions all failed because the system is unreachable."""
    failures = {answer.failure for answer in asked_alone.values()}
    if len(asked_alone) >= _HOPELESS and failures == {FailureKind.UNREACHABLE}:
        first = next(iter(asked_alone.values()))
        raise ModelError(first.error, FailureKind.UNREACHABLE)


def _reports_contexts(answer: Answer) -> bool:
    return bool(answer.contexts or answer.passages or RETRIEVAL_ONLY in answer.flags)


def _is_given(answer: Answer) -> bool:
    return RETRIEVAL_ONLY not in answer.flags and not answer.failed


def _warn_of_file_names(name: str, counts: Mapping[str, int]) -> None:
    """Warn if passages of the system `name` were matched to documents by paths or file names, which
    may be wrong. `counts` is way of matching -> number of passages.
    """
    if not counts[BY_PATH] and not counts[BY_FILE_NAME]:
        return
    by_text = sum(counts[how] for how in ("exact", "white space", "fuzzy"))
    warn_user(
        f"{name}: its passages were matched to documents {counts[BY_ID]} by id, {counts[BY_PATH]} "
        f"by path, {counts[BY_FILE_NAME]} by file name, {by_text} by text; "
        f"{counts['not attributable']} were not matched; if a file of that name is another "
        "document, give the documents' ids as doc_id"
    )


def _safety_answers(output: SystemOutput, system: System, concurrency: int) -> Sequence[Answer]:
    """Return the answer to each safety input. Return [] for a system that writes no answers, or that failed
    on every question of `output`.

    In a dry run every answer has failed because nothing was sent: the safety inputs are asked.
    """
    n_failed = sum(
        answer.failed and answer.failure is not FailureKind.DRY_RUN for answer in output.answers
    )
    has_only_failures = bool(output.answers) and n_failed == len(output.answers)
    if not output.has_answers or has_only_failures:
        return []
    queries = _safety_queries(output.dataset)
    cases = [Case(sample_id, text) for sample_id, text in queries.items()]
    samples = replace(output.dataset, cases=cases, qrels={})
    return ask(system, samples, concurrency=concurrency, label="safety samples")


def _safety_queries(dataset: Dataset) -> dict[str, str]:
    """Return sample_id -> text of the safety inputs whose id is not also the id of a question."""
    return {
        sample.sample_id: sample.text
        for sample in dataset.safety_inputs
        if sample.sample_id not in dataset.queries
    }


def _output_of_pipeline(
    dataset: Dataset, system: Pipeline, timed: int, asking: Mapping[str, Any]
) -> SystemOutput:
    """Ask ragbench's own pipeline all questions of a dataset.

    Args:
        timed: the number of questions, the first ones, that are asked one at a time, to measure
            latencies.
        asking: options of `ask`: concurrency and timeout_s.
    """
    asked_alone = _ask_pipeline_alone(dataset, system, timed, asking["timeout_s"])
    if system.llm in NO_MODEL:
        # answers are free: all questions are asked once more in a batch, and only the latencies are
        # measured for the questions that were asked alone
        answers = []
        for answer in ask(system, dataset, **asking):
            timed_answer = asked_alone.get(answer.query_id, answer)
            answers.append(replace(answer, latency_ms=timed_answer.latency_ms))
    else:
        warn_of_failures(system.name, list(asked_alone.values()))
        answers = ask(system, dataset, known=asked_alone, **asking)
    search_ms = []
    for answer in asked_alone.values():
        if answer.latency_ms:
            search_ms.append(answer.latency_ms["search"])
    ranking = {query_id: system.run.get(query_id, {}) for query_id in dataset.queries}
    # all chunks; of a search that expands them, what it retrieved and all passages of documents with evidence
    passages = system.passages(span.doc_id for case in dataset.cases for span in case.evidence)
    return SystemOutput(
        dataset,
        answers,
        to_documents(ranking, passages),
        ranking,
        passages,
        latency=list(asked_alone.values()),
        system={
            "name": system.name,
            "kind": "Pipeline",
            "chunks": len(system.chunks),
            "language": system.language,
            "chunking": _chunking(system.chunks),
        },
        concurrency=1,
        seconds=dict(system.seconds),
        search_ms=round(median(search_ms), 3) if search_ms else None,
        depth=system.depth,
        tokenizer=system.tokenizer,
        searched=system.chunks,
        joined=system.joined,
        stages=dict(system.stages),
        has_answers=system.llm != NO_ANSWERS,
        is_extractive=system.llm in NO_MODEL,
        filtered=_relevant_but_filtered(dataset, system),
        step_usage={part: tuple(replies) for part, replies in system.usage.items()},
    )


def _relevant_but_filtered(dataset: Dataset, system: Pipeline) -> dict[str, tuple[str, ...]]:
    """Return query_id -> the relevant documents that the pipeline's filter does not let the
    question find. Questions without such documents are left out.
    """
    kept_back = {}
    for case in dataset.cases:
        doc_ids = []
        for doc_id in _relevant(dataset, case):
            if not system.allows(case.query_id, case.text, doc_id):
                doc_ids.append(doc_id)
        if doc_ids:
            kept_back[case.query_id] = tuple(doc_ids)
    return kept_back


def _relevant(dataset: Dataset, case: Case) -> list[str]:
    """Return the documents of the corpus that a label of a question names."""
    grades = dataset.qrels.get(case.query_id, {})
    named = [span.doc_id for span in case.evidence]
    named += [doc_id for doc_id, grade in grades.items() if grade >= 1]
    return [doc_id for doc_id in dict.fromkeys(named) if doc_id in dataset.corpus]


def _ask_pipeline_alone(
    dataset: Dataset, system: Pipeline, timed: int, timeout_s: float
) -> dict[str, Answer]:
    """Ask a pipeline questions one at a time, after a search that loads its models; return query_id ->
    answer.

    These are the first `timed` questions and all questions with a latency budget (`_ask_alone`). If
    `timed` is 0, nothing is asked.
    """
    if timed:
        first_query = dict(islice(dataset.queries.items(), 1))
        with store.bypassed():  # a stored embedding would need no model
            system.retrieve(first_query)

    def ask_one(case: Case) -> Answer:
        return system.answer(case.query_id, case.text, history=case.history, timeout_s=timeout_s)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # there is one for each answer that failed
        return _ask_alone(dataset, timed, ask_one)


def _ask_alone(
    dataset: Dataset, timed: int, ask_one: Callable[[Case], Answer]
) -> dict[str, Answer]:
    """Ask questions one at a time and return query_id -> answer.

    These are the first `timed` questions, as far as they are asked within a minute, and all questions
    with a latency budget; none if `timed` is 0. If the first few all fail, the others are not asked.
    """
    if timed == 0:
        return {}
    cases = list(dataset.cases[:timed])
    cases += [case for case in dataset.cases[timed:] if case.latency_budget_ms]
    answers: dict[str, Answer] = {}
    start = time.monotonic()
    with progress_bar(len(cases), "timing", "questions") as bar:
        for case in cases:
            has_time = time.monotonic() - start < _TIMED_S
            if case.latency_budget_ms or has_time:
                answers[case.query_id] = ask_one(case)
                if len(answers) == _HOPELESS and all(each.failed for each in answers.values()):
                    break
            bar.update()
    return answers


def _check_recorded(dataset: Dataset, system: RecordedSystem) -> None:
    """Check that recorded answers belong to questions of the dataset; warn if some do not.

    Raises:
        DataError: no answer belongs to a question.
    """
    unknown_ids = system.unasked({**_safety_queries(dataset), **dataset.queries})
    if not unknown_ids or not dataset.cases:  # without questions, safety samples alone are asked
        return
    n_answers = len(system.unasked({}))  # if no question is asked, all answers are unasked
    if len(unknown_ids) == n_answers:
        raise DataError(
            f"none of the {len(unknown_ids)} answers of {system.name!r} belongs to a question of "
            f"{dataset.name!r}: they have ids such as {unknown_ids[0]!r}, the test set "
            f"{next(iter(dataset.queries))!r}; a file of questions is the test set (--test-set on the command "
            "line, rb.evaluate(path, system) in Python)"
        )
    first = ", ".join(map(repr, unknown_ids[:3]))
    warn_user(
        f"{system.name}: {len(unknown_ids)} answers do not belong to a question of {dataset.name!r} "
        f"and are left out (first: {first})"
    )


def _ranked(answer: Answer) -> dict[str, float]:
    """Return passage_id -> 1/rank of the contexts of an answer, or of its passages if it has none."""
    ids = distinct_contexts(answer) or dict.fromkeys(each.passage_id for each in answer.passages)
    return {passage_id: 1.0 / rank for rank, passage_id in enumerate(ids, 1)}


def _chunking(chunks: Sequence[Chunk]) -> str:
    """Return a digest (12 hex digits) of the borders of chunks, which is equal if the documents are cut
    into the same pieces.
    """
    borders = "\n".join(f"{chunk.doc_id} {chunk.start} {chunk.end}" for chunk in chunks)
    return hashlib.sha256(borders.encode()).hexdigest()[:12]
