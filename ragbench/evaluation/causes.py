"""Why a question failed: exactly one first cause each, with the evidence for it.

The stages are checked in the order in which data flows through them; the first that lost what an
answer needs is the cause, regardless of what happened after it. The verdict on the answer itself is
checked first: where the labels show that the answer is right and a judge calls it wrong, the judge
is the suspect.
"""

import re
from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, overload

import pandas as pd

from ragbench.errors import ConfigError, DataError, unknown_chunk
from ragbench.metrics.answers import squad_words, stated_facts, token_f1
from ragbench.metrics.overall import THRESHOLDS, failure_reasons, requirements_missed
from ragbench.metrics.retrieval import ranking
from ragbench.metrics.spans import evidence_recall
from ragbench.metrics.tidy import answer_language, answers_by_query, values_by_query, wording
from ragbench.types import Answer, Case, Chunk, Dataset, Judgement, Run, Span, chunks_by_id, grouped

# in the order in which data flows: cause -> its words, and the stage that has to change
_CAUSES = {
    "not_in_corpus": ("not in the corpus", "retrieval"),
    "filtered": ("kept from the question by the filter", "retrieval"),
    "rewritten": ("query rewritten wrongly", "retrieval"),
    "not_retrieved": ("not retrieved", "retrieval"),
    "lost_by_reranker": ("found by search, lost by the reranker", "retrieval"),
    "lost_by_diversity": ("found by search, lost for variety", "retrieval"),
    "below_cut": ("retrieved below the cut", "retrieval"),
    "cut_by_budget": ("cut by the token budget", "chunking"),
    "cut_after_expanding": ("found, but beyond the budget after expanding", "chunking"),
    "split_by_border": ("split by a chunk border", "chunking"),
    "request_failed": ("request failed", "generation"),
    "fabricated": ("not supported by its context", "generation"),
    "unknown_chunk": ("right document, evidence not located", "unknown"),
    "refused": ("answerable, refused", "generation"),
    "contradicts": ("contradicts its context", "generation"),
    "not_used": ("in the context, not used", "generation"),
    "judge_suspected": ("right, judged wrong", "judge"),
    "label_in_doubt": ("label in doubt", "label"),
    "unanswerable_answered": ("unanswerable, answered", "generation"),
    "requirement_missed": ("right or not decided, another requirement missed", "generation"),
}

CAUSES = {cause: words for cause, (words, _) in _CAUSES.items()}
"""Cause -> its words, in the order in which data flows."""

STAGE_OF = {cause: stage for cause, (_, stage) in _CAUSES.items()}
"""Cause -> the stage that has to change: "retrieval", "chunking", "generation"; "judge", "label";
"unknown".
"""

DISPUTED = ("judge_suspected", "label_in_doubt")
"""Causes by which the answer may be right."""

_RIGHT = {
    "llm_correctness": THRESHOLDS["llm_correctness"],
    "gold_fact_coverage": THRESHOLDS["gold_facts"],
}
"""Measure that decides whether an answer is right -> the value from which it is."""

CORRECTNESS = (*_RIGHT, "semantic_similarity", "token_f1")
"""Measures of how right an answer is, the most reliable first; the last two decide nothing alone."""

HOLDS = 0.8
"""A list of chunks holds what a question needs if it covers at least this fraction of the evidence.
"""

SUPPORTED = 0.5
"""Faithfulness or claim support below this means that the answer is not supported by its context.
"""

RELEVANT = 0.75
"""From this relevance by the judge on, an answer addresses the question."""

_UNCHANGED = ("last", "question")
"""Calls that a pipeline which rewrites questions makes without doing so."""

_CONFLICT = 0.5  # half of the numbers and names of either text are others, or one negates the other
_DETAIL = re.compile(r"\d[\w.,]*|(?<![.!?] )(?<!^)\b[A-Z][\w-]+")
_NEGATION = re.compile(r"(?i)\b(?:not?|never|none|neither|nor|without|cannot)\b|n['’]t\b")
_SAME_WORDS = 0.8  # token F1 with the reference
_FAITHFUL = {
    "llm_faithfulness": SUPPORTED,
    "claim_support": SUPPORTED,
    "forbidden_claims_absent": 1.0,
}


_COLUMNS = "query_id category question failed cause evidence measure value held".split()


class _Reach(NamedTuple):
    """How much of the evidence the documents, the first `depth`, the contexts with what was cut,
    the contexts themselves, and in a conversation the contexts of the last question alone hold:
    fractions of its characters or, where documents only are labelled, of the relevant documents.

    `documents` is the number of relevant documents, 0 where the evidence is spans; `split`, whether
    a chunk border splits what the contexts hold in part; `located`, whether the contexts are known
    to hold what they count.
    """

    corpus: float
    deep: float
    uncut: float
    context: float
    last: float
    split: bool = False
    documents: int = 0
    located: bool = True
    allowed: float = 1.0
    stages: Mapping[str, float] = MappingProxyType({})

    def holds(self, fraction: float) -> bool:
        return fraction > 0 if self.documents else fraction >= HOLDS

    def shown(self, fraction: float) -> str:
        if not self.documents:
            return f"{fraction:.0%} of the evidence"
        noun = "document" if self.documents == 1 else "documents"
        return f"{round(fraction * self.documents)} of {self.documents} relevant {noun}"


class _Question(NamedTuple):
    """One question with all that its cause is found by; `measure` decides whether it is right ("":
    nothing does).
    """

    dataset: Dataset
    case: Case
    answer: Answer
    scores: Mapping[str, float]
    measure: str
    reach: _Reach | None
    depth: int
    is_english: bool

    @property
    def wrong(self) -> bool:
        return bool(self.measure) and self.scores[self.measure] < _RIGHT[self.measure]

    @property
    def spans(self) -> list[Span]:
        return [span for span in self.case.evidence if span.doc_id in self.dataset.corpus]

    @property
    def relevant(self) -> list[str]:
        grades = self.dataset.qrels.get(self.case.query_id, {})
        return [doc_id for doc_id, grade in grades.items() if grade >= 1]


class Diagnosed(Protocol):
    """A result, which holds its diagnosis."""

    @property
    def diagnosis(self) -> pd.DataFrame | None: ...


@overload
def diagnose(dataset: Diagnosed) -> pd.DataFrame: ...
@overload
def diagnose(
    dataset: Dataset,
    run: Run,
    answers: Sequence[Answer],
    judgements: Sequence[Judgement],
    scores: pd.DataFrame,
    chunks: Sequence[Chunk],
    *,
    depth: int = 100,
    stages: Mapping[str, Run] = ...,
    filtered: Mapping[str, Sequence[str]] = ...,
) -> pd.DataFrame: ...
def diagnose(
    dataset: Dataset | Diagnosed,
    run: Run | None = None,
    answers: Sequence[Answer] = (),
    judgements: Sequence[Judgement] = (),
    scores: pd.DataFrame | None = None,
    chunks: Sequence[Chunk] = (),
    *,
    depth: int = 100,
    stages: Mapping[str, Run] = MappingProxyType({}),
    filtered: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> pd.DataFrame:
    """Return the first cause of each failed question, with its evidence; one row per question, in
    the order of the dataset. Of a result it is what the evaluation found: its `diagnosis`.

    A question has failed if it did not pass: where `scores` has pass_rate, its value is 0; else
    `ragbench.metrics.overall.failure_reasons` finds a reason by the default thresholds. Questions that
    passed or that nothing decides have the cause "", but for "label_in_doubt": the judge lets the
    answer pass although its gold facts are not stated.

    The cause is the first that holds, in the order of `CAUSES`, but for three that come first.
    "judge_suspected": a judge calls it wrong although all gold facts are stated (or token F1 with
    the reference is 0.8 or more). "label_in_doubt": a judge calls it right although less than half
    of the gold facts are stated, or it differs from the reference or the facts although the judge
    finds that it addresses the question (`RELEVANT`) and that a context which holds the evidence
    supports every claim. "unanswerable_answered": a question without an answer got one. A list of
    chunks holds the evidence if it covers `HOLDS` (0.8) of its characters. A passage that occurs
    word for word in several places counts once; either copy will do. "rewritten": the query that
    was made of a question, or of it and its history, finds less than that, and the question alone
    would have found it (both are in the answer's `calls`). "filtered": the documents that the filter
    allows do not hold it. "lost_by_reranker" and "lost_by_diversity": the best chunks before that
    step hold it, as many as were handed over, and those after it do not. "cut_after_expanding": the
    budget cut what was expanded. "split_by_border": the
    contexts hold a part of a span that no single chunk holds whole. An answer is unsupported where
    faithfulness by the judge, or else claim support, is below 0.5, or a forbidden claim is made. It
    is "fabricated" where the evidence is not known to be in the context; where it is, the answer
    "contradicts" it if other numbers or names, or a negation, take the place of those of the
    reference, the gold facts or the evidence, or if it makes a forbidden claim. What is left, with
    the evidence in the context, is "refused" or "not_used".

    Where documents only are labelled, a list of chunks that has any chunk of a relevant document is
    not lost; but generation is blamed only if the contexts hold every relevant document as a whole,
    quote the evidence, or state every gold fact. Otherwise the cause is "unknown_chunk": the chunk
    may be another one than that with the answer, or the document that is missing may be the one
    that was needed.

    Args:
        run: chunk-level run, at least `depth` deep; {} for systems that show no more than their
            contexts.
        answers: with `contexts` and `cut` as chunk ids, or `passages` with their doc_id.
        judgements: verdicts, if any: their explanations become evidence.
        scores: tidy scores with the measures of `CORRECTNESS`, and where it was measured
            claim_support.
        chunks: that `run` and `answers` name.
        depth: how deep "not retrieved" looks.
        stages: the runs after each step of a search, in their order; the last is `run`.
        filtered: query_id -> relevant documents that the filter keeps from the question.

    Returns:
        query_id, category, question, failed (bool), cause ("" where not failed), evidence (a
        sentence), measure, value (of the verdict; pd.NA if none), held (the fraction of the
        evidence that the context holds; pd.NA if not known).

    >>> import pandas as pd
    >>> case = Case("q", "When?", gold_facts=(("1889",),))
    >>> data = Dataset("demo", "test", {}, [case], {"q": {"d": 1}})
    >>> scores = pd.DataFrame({"query_id": ["q"], "measure": ["gold_fact_coverage"], "value": [0.0]})
    >>> table = diagnose(data, {}, [Answer("q", "In 1900.")], [], scores, [])
    >>> table[["cause", "evidence"]].values.tolist()
    [['not_in_corpus', 'none of its relevant documents (d) is in the corpus']]

    Raises:
        DataError: two answers to one question, or one to a question that the dataset lacks; `run`
            or an answer names what is neither among `chunks` nor a passage; a result in which nothing
            was diagnosed.
        ConfigError: a dataset alone.
    """
    if not isinstance(dataset, Dataset):
        return _diagnosis_of(dataset)
    if run is None or scores is None:
        raise ConfigError(
            "the causes of failures follow from a run, answers, judgements, scores and chunks; give all "
            "of them, or the result of rb.evaluate alone"
        )
    answer_of, by_id = answers_by_query(dataset, answers), chunks_by_id(chunks)
    _check_chunking(run, answers, by_id)
    by_document = grouped(chunks, lambda chunk: chunk.doc_id)
    values = values_by_query(scores.dropna(subset=["value"]))
    explanations = {(j.query_id, j.criterion): j.explanation for j in judgements}
    is_english = answer_language(dataset, answers).is_english
    rows = []
    for case in dataset.cases:
        missing = Answer(case.query_id, "", outcome="failed", error="no answer came back")
        answer = answer_of.get(case.query_id, missing)
        measures = values.get(case.query_id, {})
        decisive = next((name for name in _RIGHT if name in measures), "")
        question = _Question(dataset, case, answer, measures, decisive, None, depth, is_english)
        deep = ranking(run.get(case.query_id, {}))[:depth]
        ranked = {name: ranking(each.get(case.query_id, {})) for name, each in stages.items()}
        kept_back = filtered.get(case.query_id, ())
        reach = _reach(question, deep, by_id, by_document, ranked, kept_back)
        question = question._replace(reach=reach)
        failed = _failed(question)
        cause, evidence = _cause(question) if failed else _doubt_about_label(question)
        criterion = "correctness" if cause in DISPUTED else "faithfulness"
        explained = explanations.get((case.query_id, criterion), "")
        if explained and cause in (*DISPUTED, "fabricated", "contradicts"):
            evidence += f"; the judge: {' '.join(explained.split())[:300]}"
        if failed and measures.get("context_diversity_met") == 0:
            evidence += f"; its contexts are of few documents for a {case.query_type} question"
        about = (case.query_id, case.category, case.text, failed, cause, evidence, decisive)
        held_part = pd.NA if question.reach is None else question.reach.context
        rows.append((*about, measures.get(decisive, pd.NA), held_part))
    return pd.DataFrame(rows, columns=_COLUMNS).astype(
        {"failed": bool, "value": "Float64", "held": "Float64"}
    )


def _diagnosis_of(result: Diagnosed) -> pd.DataFrame:
    """Return the diagnosis of a result."""
    table: pd.DataFrame | None = getattr(result, "diagnosis", None)
    if table is None:
        raise DataError(
            f"{type(result).__name__} has no diagnosis; expected the result of an evaluation with "
            "answers, or a dataset with a run, answers, judgements, scores and chunks"
        )
    return table


def _failed(question: _Question) -> bool:
    """Return True if the question did not pass, by its pass_rate or else by its labels."""
    if "pass_rate" in question.scores:
        return question.scores["pass_rate"] == 0
    return bool(failure_reasons(question.case, question.answer, question.scores))


def _doubt_about_label(question: _Question) -> tuple[str, str]:
    """Return the cause and evidence of a question that did not fail: a doubtful label, or none."""
    disputed = _disputed(question) if question.case.answerable else None
    if disputed and disputed[0] == "label_in_doubt":
        return disputed
    return "", ""


def _cause(question: _Question) -> tuple[str, str]:
    """Return the cause of a failed question, and its evidence."""
    case, answer, scores, reach = question.case, question.answer, question.scores, question.reach
    if not case.answerable:
        if answer.attempted:
            return "unanswerable_answered", "the documents hold no answer, and an answer was given"
        if not answer.failed:
            return _requirement_missed(question)
    elif disputed := _disputed(question):
        return disputed
    elif reach is not None and not reach.holds(reach.context):
        return _lost(question, reach)
    if answer.failed:
        return "request_failed", answer.error or "the request failed"
    if answer.attempted:
        is_right = question.measure and not question.wrong
        is_cited_wrongly = scores.get("expected_citations", 1.0) < THRESHOLDS["expected_citations"]
        is_late = scores.get("latency_in_budget", 1.0) == 0
        if is_right or is_cited_wrongly or is_late or requirements_missed(case, answer):
            return _requirement_missed(question)
    low = next((name for name, limit in _FAITHFUL.items() if scores.get(name, limit) < limit), "")
    if low and answer.attempted:
        if reach is None or not reach.located:
            return "fabricated", f"{low} is {scores[low]:.2f}"
        if conflict := _conflict(question):
            return "contradicts", f"{low} is {scores[low]:.2f}, and {conflict}"
    cause = "not_used"
    verdict = "; ".join(failure_reasons(case, answer, scores))
    if not answer.attempted:
        cause = "refused"
        verdict = "refused" if answer.outcome == "blocked" else "no answer given"
    elif question.measure:
        verdict = f"{question.measure} is {scores[question.measure]:.2f}"
    if reach is None:
        return cause, verdict
    in_context = reach.shown(reach.context)
    if not reach.located:
        return "unknown_chunk", (
            f"{verdict}; the context has chunks of {in_context} ({reach.shown(reach.deep)} in the best "
            f"{question.depth}), and no label says whether they hold what the answer needs"
        )
    return cause, f"{verdict} although the context holds {in_context}"


def _requirement_missed(question: _Question) -> tuple[str, str]:
    """Return the cause of an answer that is right, or not decided, and misses another label."""
    reasons = failure_reasons(question.case, question.answer, question.scores)
    return "requirement_missed", "; ".join(reasons) or "a threshold of the targets is not reached"


def _disputed(question: _Question) -> tuple[str, str] | None:
    """Return the cause where the judge and the labels of an answer contradict each other."""
    scores, reach = question.scores, question.reach
    facts, judged = scores.get("gold_fact_coverage"), scores.get("llm_correctness")
    if judged is not None and question.wrong:
        if facts == 1.0:
            return "judge_suspected", f"the judge gives {judged:.2f}, but every gold fact is stated"
        if (overlap := scores.get("token_f1", 0.0)) >= _SAME_WORDS:
            return "judge_suspected", (
                f"the judge gives {judged:.2f}, but token F1 with the reference is {overlap:.2f}"
            )
    if not question.answer.attempted:
        return None
    if judged is not None and not question.wrong and facts is not None and facts < 0.5:
        return "label_in_doubt", (
            f"the judge gives {judged:.2f}, but {facts:.0%} of the gold facts are stated"
        )
    is_held = reach is not None and reach.located and reach.holds(reach.context)
    supported = scores.get("llm_faithfulness") == 1.0
    if question.wrong and is_held and supported and scores.get("llm_relevance", 0.0) >= RELEVANT:
        return "label_in_doubt", (
            "by the judge it addresses the question and the evidence in the context supports "
            "all of it"
        )
    return None


def _lost(question: _Question, reach: _Reach) -> tuple[str, str]:
    """Return the stage before generation that lost the evidence."""
    if reach.corpus == 0.0:
        evidence = (span.doc_id for span in question.case.evidence)
        ids = ", ".join(dict.fromkeys([*question.relevant, *evidence]))
        return "not_in_corpus", f"none of its relevant documents ({ids}) is in the corpus"
    present = f"{reach.shown(reach.context)} in the context"
    if not reach.holds(reach.allowed):
        return (
            "filtered",
            f"{present}; the filter allows documents with {reach.shown(reach.allowed)}",
        )
    if reach.holds(reach.uncut):
        n_cut = len(question.answer.cut)
        chunks = f"{n_cut} {'chunk' if n_cut == 1 else 'chunks'}"
        more = f"{reach.shown(reach.uncut)} with the {chunks} that the budget cut"
        cause = "cut_after_expanding" if "expand" in reach.stages else "cut_by_budget"
        return cause, f"{present}, {more}"
    if reach.holds(reach.last):
        calls = question.answer.calls
        asked = [call for call in calls if call.name not in _UNCHANGED]
        is_last = any(call.name == "last" for call in calls)
        which = "last question" if is_last else "question"
        queries = ", ".join(repr(call.query) for call in asked)
        noun = "query" if len(asked) == 1 else "queries"
        alone = f"{reach.shown(reach.last)} by the {which} alone"
        return "rewritten", f"{present} by the {noun} {queries}, {alone}"
    held = reach.stages.get("search", 0.0)
    for step, name in (("reranker", "reranker"), ("diversity", "step for variety")):
        after = reach.stages.get(step, held)
        if reach.holds(held) and not reach.holds(after):
            return f"lost_by_{step}", f"{present}, {reach.shown(held)} before the {name}"
        held = after
    if reach.split:
        return "split_by_border", f"{present}; no single chunk holds all of the passage"
    cause = "below_cut" if reach.holds(reach.deep) else "not_retrieved"
    return cause, f"{present}, {reach.shown(reach.deep)} in the best {question.depth} chunks"


def _check_chunking(run: Run, answers: Sequence[Answer], by_id: Mapping[str, Chunk]) -> None:
    """Refuse ids without a text, whose content cannot be checked; passages carry their own text."""
    ids_with_text = by_id.keys() | {
        each.passage_id for answer in answers for each in answer.passages
    }
    contexts = {answer.query_id: (*answer.contexts, *answer.cut) for answer in answers}
    for query_id, ids in (*run.items(), *contexts.items()):
        if missing := [chunk_id for chunk_id in ids if chunk_id not in ids_with_text]:
            raise DataError(unknown_chunk(missing[0], query_id, len(by_id)))


def _reach(
    question: _Question,
    deep: Sequence[str],
    by_id: Mapping[str, Chunk],
    by_document: Mapping[str, Sequence[Chunk]],
    ranked: Mapping[str, Sequence[str]],
    filtered: Sequence[str],
) -> _Reach | None:
    """Return how far the evidence came; None where no label names the evidence."""
    answer, spans = question.answer, question.spans
    # what a pipeline that rewrites questions would have found without doing so
    unchanged = next((call.contexts for call in answer.calls if call.name in _UNCHANGED), ())
    lists = ((*deep, *answer.contexts), (*answer.contexts, *answer.cut), answer.contexts, unchanged)
    n_handed_over = len(answer.contexts) + len(answer.cut)
    chunks = [by_id[i] for i in answer.contexts if i in by_id]
    if not spans or answer.passages:
        passages = answer.passage_of
        sources: Mapping[str, Any] = ChainMap(passages, by_id)  # type: ignore[arg-type]
        relevant = {*question.relevant, *(span.doc_id for span in question.case.evidence)}
        if not relevant:
            return None
        # A system with documents of its own has no corpus here: then the corpus cannot be checked.
        corpus = question.dataset.corpus
        is_there = not corpus.keys().isdisjoint(relevant) or bool(not corpus and passages)

        def documents(ids: Sequence[str]) -> float:
            return len({sources[i].doc_id for i in ids if i in sources} & relevant) / len(relevant)

        deep_part, uncut, context, last = map(documents, lists)
        return _Reach(
            float(is_there),
            deep_part,
            uncut,
            context,
            last,
            documents=len(relevant),
            located=_is_located(question, relevant, chunks),
            allowed=len(relevant.difference(filtered)) / len(relevant),
            stages={step: documents(ids[:n_handed_over]) for step, ids in ranked.items()},
        )
    # the same words twice are one passage
    copies = grouped(spans, lambda span: _text_of(question.dataset, span))
    n_characters = sum(map(len, copies))

    def fraction(ids: Sequence[str]) -> float:
        listed = [by_id[i] for i in dict.fromkeys(ids) if i in by_id]
        covered = (
            len(text) * max(evidence_recall(listed, [span]) for span in copies[text])
            for text in copies
        )
        return sum(covered) / n_characters

    allowed = sum(
        len(text) for text in copies if not all(span.doc_id in filtered for span in copies[text])
    )
    is_split = any(
        evidence_recall(chunks, [span])
        and not any(
            chunk.start <= span.start and span.end <= chunk.end
            for chunk in by_document.get(span.doc_id, ())
        )
        for span in spans
    )
    deep_part, uncut, context, last = map(fraction, lists)
    return _Reach(
        1.0,
        deep_part,
        uncut,
        context,
        last,
        is_split,
        allowed=allowed / n_characters,
        stages={step: fraction(ids[:n_handed_over]) for step, ids in ranked.items()},
    )


def _is_located(question: _Question, relevant: Collection[str], chunks: Sequence[Chunk]) -> bool:
    """Return True if the contexts hold every relevant document, quote the evidence, or state every
    gold fact.
    """
    dataset, facts = question.dataset, question.case.gold_facts
    pieces = sorted(chunks, key=lambda chunk: (chunk.doc_id, chunk.start))
    texts = [chunk.text for chunk in pieces]
    texts += [passage.text for passage in question.answer.passages]
    joined = _folded(" ".join(texts))
    if all(
        doc_id in dataset.corpus and _folded(dataset.corpus[doc_id].full_text) in joined
        for doc_id in relevant
    ):
        return True
    if facts and all(stated_facts("\n".join(texts), facts)):
        return True
    quotes = [_text_of(dataset, span) for span in question.spans]
    quoted = sum(len(text) for text in quotes if text in joined)
    return quoted >= HOLDS * sum(map(len, quotes)) > 0


def _text_of(dataset: Dataset, span: Span) -> str:
    return _folded(dataset.corpus[span.doc_id].full_text[span.start : span.end])


def _folded(text: str) -> str:
    return " ".join(text.split())


def _conflict(question: _Question) -> str:
    """Return what an answer contradicts: a forbidden claim, or in English a label in a number, name
    or negation; "" if none.
    """
    if question.scores.get("forbidden_claims_absent", 1.0) < 1:
        return "a forbidden claim is made"
    case = question.case
    texts = {
        "the reference": case.reference_answer or "",
        "the gold facts": " ".join(fact[0] for fact in case.gold_facts),
        "the evidence": " ".join(_text_of(question.dataset, span) for span in question.spans),
    }
    for name, text in texts.items() if question.is_english else ():
        if _difference(wording(question.answer), text) >= _CONFLICT:
            return f"it differs from {name} in a detail"
    return ""


def _difference(answer: str, text: str) -> float:
    """Return how much of a text an answer replaces, in [0, 1], the larger of two.

    Of the numbers and capitalised words, the fraction of the text's that the answer lacks or the
    fraction of the answer's that the text lacks, whichever is smaller: high where one replaces
    another. And token F1 where one has an odd number of negations and the other an even one.

    >>> _difference("It opened in May 1881.", "in May 1900")
    0.5
    """
    differs, (ours, theirs) = 0.0, (_details(answer), _details(text))
    if ours and theirs:
        differs = min(
            len(theirs.difference(squad_words(answer))) / len(theirs),
            len(ours.difference(squad_words(text))) / len(ours),
        )
    odd = (len(_NEGATION.findall(answer)) + len(_NEGATION.findall(text))) % 2
    return max(differs, token_f1(answer, text) if odd else 0.0)


def _details(text: str) -> set[str]:
    """Return the numbers and, except at the start of a sentence, the capitalised words, as of
    `squad_words`.
    """
    return {word for detail in _DETAIL.findall(text) for word in squad_words(detail)}
