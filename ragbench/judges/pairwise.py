"""`pairwise`: the better of two systems' answers to each question, judged in both orders."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragbench import llms
from ragbench.errors import ComparisonError, ConfigError, DataWarning, JudgeWarning
from ragbench.judges.criteria import (
    MAX_ANSWER,
    TIMEOUT_S,
    materials_of,
    no_answer,
    warn_of_same_model,
)
from ragbench.judges.parser import Preference as PreferenceForm
from ragbench.judges.parser import form_schema, read_verdicts
from ragbench.judges.prompts import JUDGE_SYSTEM, ask_for_preference, repair_preference
from ragbench.types import (
    LLM,
    MOST_INCONSISTENT,
    Answer,
    Chunk,
    Completion,
    Dataset,
    LLMLike,
    Preference,
)

_REPLY_TOKENS = 400
_ENOUGH = 5  # comparisons that are needed for the warning about an inconsistent judge


@dataclass(frozen=True, slots=True)
class Pair:
    """Two answers to one question as a judge sees them."""

    query_id: str
    question: str
    a: str
    b: str
    reference: str = ""
    documents: tuple[str, ...] = ()

    def request(self, *, swapped: bool) -> str:
        first, second = (self.b, self.a) if swapped else (self.a, self.b)
        first, second = first[:MAX_ANSWER], second[:MAX_ANSWER]
        return ask_for_preference(
            self.question, first, second, reference=self.reference, documents=self.documents
        )


def pairwise(
    answers_a: Sequence[Answer],
    answers_b: Sequence[Answer],
    llm: LLMLike,
    *,
    dataset: Dataset,
    chunks: Sequence[Chunk] = (),
    names: tuple[str, str] = ("a", "b"),
    concurrency: int = 8,
    allow_same_model: bool = False,
) -> list[Preference]:
    """Have a language model choose between two systems' answers to each question, in both orders.

    An answer wins (value 1 for the first system, 0 for the second) if the judge chooses it in both
    orders; two ties are a tie (0.5). A choice that changes with the order is a position bias and
    not a decision: value None, state "order_dependent", not `consistent`. Where half of the choices
    change, a warning reports that this judge cannot distinguish the two. Without a request, and
    with their own `state`: two equal texts, and two abstentions, are ties; where an answer failed
    there is no verdict ("generation_failed"). An abstention against an answer is judged: it is
    better than a wrong answer. If one order's reply is unreadable after one repair, or the judge
    fails, there is no verdict.

    The judge sees the question, both answers between tags that they cannot close, the reference
    answer where there is one, and where there is none the chunks of both.

    Args:
        answers_a, answers_b: of two systems, one per question; the same questions. llm: the judge,
        as in `judge`. chunks: what the answers' contexts name; () shows no documents but the
        passages that answers bring along. names: of the two systems, for `Preference.a` and `.b`.
        allow_same_model: no warning where the judge also wrote some of the answers.

    Returns:
        One per question, in the order of `answers_a`.

    >>> from ragbench.llms import ScriptedLLM
    >>> from ragbench.types import Case
    >>> data = Dataset("tiny", "test", {}, (Case("q1", "2 + 2?", reference_answer="4"),), {})
    >>> likes_four = lambda prompt: {"reason": "", "better": "first" if ">\\n4\\n</first" in prompt else "second"}
    >>> verdicts = pairwise([Answer("q1", "4")], [Answer("q1", "5")], ScriptedLLM(likes_four), dataset=data)
    >>> verdicts[0].value, verdicts[0].consistent
    (1.0, True)

    Raises:
        ComparisonError: the two do not answer the same questions, or one answers a question twice.
        ConfigError: two equal names, an unknown model, concurrency below 1.
        DataError: an answer to a question, or from a chunk, that is not there.
    """
    if concurrency < 1:
        raise ConfigError(f"concurrency is {concurrency}; expected 1 or more")
    pairs, decided = _pairs(answers_a, answers_b, dataset, chunks, names)
    model = llms.load_llm(llm)
    if not allow_same_model:
        warn_of_same_model([*answers_a, *answers_b], model)
    judged = dict(
        zip(
            [pair.query_id for pair in pairs], choose(pairs, model, names, concurrency), strict=True
        )
    )
    preferences = [decided.get(answer.query_id) or judged[answer.query_id] for answer in answers_a]
    if lost := [
        preference
        for preference in preferences
        if preference.state in ("unreadable", "judge_failed")
    ]:
        warnings.warn(
            f"{len(lost)} of {len(preferences)} comparisons are unscored, {lost[0].state} the "
            f"first, of query {lost[0].query_id!r}: {lost[0].explanation}",
            DataWarning,
            stacklevel=2,
        )
    ordered = [preference for preference in preferences if preference.consistent is not None]
    changed = sum(not preference.consistent for preference in ordered)
    if len(ordered) >= _ENOUGH and changed >= MOST_INCONSISTENT * len(ordered):
        warnings.warn(
            f"this judge cannot distinguish {names[0]!r} and {names[1]!r}: its choice changed "
            f"with the order of the two answers in {changed} of {len(ordered)} comparisons; "
            "take a stronger judge or clearer criteria",
            JudgeWarning,
            stacklevel=2,
        )
    return preferences


_Choice = tuple[str, str, str]  # "first", "second" or "tie"; the reason or the problem; the state


def choose(
    pairs: Sequence[Pair], llm: LLM, names: tuple[str, str], concurrency: int
) -> list[Preference]:
    """Return the judge's choice on each pair in both orders."""
    prompts = [pair.request(swapped=swapped) for pair in pairs for swapped in (False, True)]

    def ask(prompts: Sequence[str], label: str) -> list[Completion]:
        return llms.generate_many(
            llm,
            prompts,
            system=JUDGE_SYSTEM,
            max_tokens=_REPLY_TOKENS,
            schema=form_schema("preference"),
            concurrency=concurrency,
            timeout_s=TIMEOUT_S,
            label=label,
        )

    replies = ask(prompts, "preference")
    choices, responses = [*map(_choice, replies)], [reply.text for reply in replies]
    broken = [i for i, (_, _, state) in enumerate(choices) if state == "unreadable"]
    repairs = [repair_preference(prompts[i], choices[i][1], replies[i].text) for i in broken]
    for i, reply in zip(broken, ask(repairs, "repair of preference"), strict=True):
        choices[i] = _choice(reply)
        responses[i] = f"{responses[i]}\n\n--- repair ---\n\n{reply.text}"
    preferences = []
    for i, pair in zip(range(0, len(prompts), 2), pairs, strict=True):
        parts = (
            f"--- {name} first ---\n\n{response}"
            for name, response in zip(names, responses[i : i + 2], strict=True)
        )
        value, state, consistent, why = _verdict(choices[i], choices[i + 1], names)
        response, model = "\n\n".join(parts), replies[i].model or llm.name
        preferences.append(
            Preference(
                pair.query_id, *names, value, state, consistent, why, prompts[i], response, model
            )
        )
    return preferences


def _choice(reply: Completion) -> _Choice:
    if reply.error is not None or reply.finish == "refusal":
        return "", reply.error or "the judge refused to judge", "judge_failed"
    is_cut = reply.finish == "length"
    verdict = read_verdicts(reply.text, ["preference"], cut=is_cut)["preference"]
    if isinstance(verdict, PreferenceForm):
        return verdict.better, verdict.reason, "scored"
    return "", str(verdict), "unreadable"


def _verdict(
    straight: _Choice, swapped: _Choice, names: tuple[str, str]
) -> tuple[float | None, str, bool | None, str]:
    """Return value, state, consistent and explanation of two choices, the second with the answers
    in each other's place.
    """
    for choice, problem, state in (straight, swapped):
        if not choice:
            return None, state, None, problem
    points = {"first": 1.0, "tie": 0.5, "second": 0.0}
    points_first, points_swapped = points[straight[0]], 1.0 - points[swapped[0]]
    explanation = (
        f"{names[0]} first: {straight[0]}. {straight[1]}\n{names[1]} "
        f"first: {swapped[0]}. {swapped[1]}"
    )
    if points_first != points_swapped:
        return None, "order_dependent", False, explanation
    return points_first, "scored", True, explanation


def _pairs(
    answers_a: Sequence[Answer],
    answers_b: Sequence[Answer],
    dataset: Dataset,
    chunks: Sequence[Chunk],
    names: tuple[str, str],
) -> tuple[list[Pair], dict[str, Preference]]:
    """Return the pairs to judge, and the verdicts that need no judge."""
    if names[0] == names[1]:
        raise ConfigError(f"both systems are called {names[0]!r}; give them two names")
    ids = [[answer.query_id for answer in answers] for answers in (answers_a, answers_b)]
    for name, counts in zip(names, map(Counter, ids), strict=True):
        if twice := [query_id for query_id, count in counts.items() if count > 1]:
            raise ComparisonError(
                f"{name!r} has two answers to query {twice[0]!r}; pass one of each question"
            )
    if alone := sorted({*ids[0]} ^ {*ids[1]}):
        raise ComparisonError(
            f"{names[0]!r} and {names[1]!r} do not answer the same questions: {len(ids[0])} "
            f"and {len(ids[1])}, {len(alone)} by one of them only "
            f"({', '.join(map(repr, alone[:3]))}); compare answers to the same ones"
        )
    answer_of = {answer.query_id: answer for answer in answers_b}
    answers = [*answers_a, *(answer_of[query_id] for query_id in ids[0])]
    sides = [
        answer if chunks or answer.passages else replace(answer, contexts=()) for answer in answers
    ]
    materials = materials_of(sides, dataset, chunks)
    pairs, decided = [], {}
    for i, answer in enumerate(answers_a):
        rival, material, other = answers[len(ids[0]) + i], materials[i], materials[len(ids[0]) + i]
        if preference := _without_request(answer, rival, names):
            decided[answer.query_id] = preference
            continue
        # each document once, in an order that does not reveal whose it is
        documents = dict(zip(material.chunk_ids, material.documents, strict=True))
        documents |= dict(zip(other.chunk_ids, other.documents, strict=True))
        texts = [] if material.reference else [documents[key] for key in sorted(documents)]
        reference = material.reference or ""
        pairs.append(
            Pair(
                answer.query_id, material.question, answer.text, rival.text, reference, tuple(texts)
            )
        )
    return pairs, decided


def _without_request(first: Answer, second: Answer, names: tuple[str, str]) -> Preference | None:
    for answer, name in ((first, names[0]), (second, names[1])):
        if answer.failed:
            why = f"the answer of {name} failed: {answer.error or 'no reason is given'}"
            return Preference(first.query_id, *names, None, "generation_failed", explanation=why)
    if first.text.strip() == second.text.strip():
        return Preference(first.query_id, *names, 0.5, explanation="both answers are the same text")
    if no_answer(first) and no_answer(second):
        return Preference(
            first.query_id, *names, 0.5, "abstained", explanation="neither gives an answer"
        )
    return None
