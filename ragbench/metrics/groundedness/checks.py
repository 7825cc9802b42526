"""Verdicts on claims: does the context hold them, does an answer state them; and the scores of
groundedness.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from ragbench.generation.citations import parse_citations, without_citations
from ragbench.metrics.groundedness.claims import claims, is_inference
from ragbench.metrics.groundedness.numbers import numeric_fabrications, numeric_support
from ragbench.metrics.groundedness.support import SUPPORT_MODELS, Pairs, claim_supports
from ragbench.metrics.groundedness.words import (
    Sentence,
    polarity_differs,
    read_page,
    text_states,
)
from ragbench.metrics.tidy import (
    answer_language,
    answered_cases,
    context_ids,
    context_texts,
    tidy_cases,
)
from ragbench.types import Answer, Case, Chunk, Dataset, chunks_by_id

STRICT = 0.5
"""The support from which an assertion counts as supported: an arbitrary value, on either side of which
texts of different kinds are supported."""

RELAXED = 0.3
"""The support from which an inference, a hedged claim ("may", "might"), counts as supported."""

CONTENT_SHARE = 0.5
"""The minimum fraction of a claim's words, by weight, that the cited text must contain."""


class _Check(NamedTuple):
    """An answer without its marks, its contexts and what is compared: `ids` name `texts`; `grounds` are
    these texts and the earlier turns of a conversation; `cited` has the citations of each claim;
    `documents` is chunk id -> document id of what is cited."""

    case: Case
    text: str
    ids: tuple[str, ...]
    texts: list[str]
    grounds: list[str]
    claims: list[str]
    citations: tuple[str, ...]
    cited: list[tuple[str, ...]]
    documents: dict[str, str]

    @property
    def labels(self) -> list[str]:
        return [*self.case.expected_claims, *self.case.forbidden_claims]

    @property
    def sources(self) -> list[tuple[str, list[str]]]:
        """Return the claims that cite, each with the retrieved texts that it cites."""
        text_of = dict(zip(self.ids, self.texts, strict=True))
        return [
            (claim, [text_of[i] for i in cited if i in text_of])
            for claim, cited in zip(self.claims, self.cited, strict=True)
            if cited
        ]

    @property
    def pairs(self) -> Pairs:
        """Return what is supported by what: claims and answer by the contexts and earlier turns, labels
        by the answer, claims by what they cite. Next to each other, since they share sentences, which
        are read once.
        """
        by_contexts = [(claim, self.grounds) for claim in [*self.claims, self.text]]
        return [*by_contexts, *((label, [self.text]) for label in self.labels), *self.sources]


def _check(case: Case, answer: Answer, texts: list[str], by_id: Mapping[str, Chunk]) -> _Check:
    ids = context_ids(answer)
    marked = parse_citations(answer.text, ids)
    citations = answer.citations or marked
    documents = {i: by_id[i].doc_id for i in citations if i in by_id}
    documents |= {
        passage.passage_id: passage.doc_id for passage in answer.passages if passage.doc_id
    }
    listed = claims(answer.text)
    # citations apart from the text hold for all of it
    cited = [parse_citations(claim, ids) if marked else answer.citations for claim in listed]
    text = without_citations(answer.text, ids)
    grounds = [*texts, *(message["content"] for message in case.history)]
    return _Check(case, text, ids, texts, grounds, listed, citations, cited, documents)


def _stated(claim: str, text: str, support: float) -> bool:
    """Return True if an answer states a claim, which as its only context it has this support for."""
    return text_states(text, claim) or not (
        support < STRICT or polarity_differs(claim, text) or numeric_fabrications(claim, [text])
    )


def citation_form(cited: Sequence[str], contexts: Sequence[str]) -> float:
    """Return the fraction of the cited ids that were retrieved, in [0, 1]; NaN where nothing is
    cited.

    The first of two stages of validity: does what is cited exist at all? See `cites_content` for
    the second.

    >>> citation_form(("rail#3", "invalid:7"), ["rail#0", "rail#3"])
    0.5
    """
    return sum(citation in set(contexts) for citation in cited) / len(cited) if cited else math.nan


def cites_content(claim: str, cited: str) -> bool:
    """Return True if the text that a claim cites contains the claim's words: the second stage of
    validity.

    At least half of them by weight (see `words`: rarer words weigh more), compared by their stems.
    It shows that the citation is about the same thing, not that the claim is true: for that see
    `claim_support` of the cited text.

    >>> cites_content("The tower opened in 1889 [1].", "In 1889 the gates of the tower were opened.")
    True
    >>> cites_content("The tower opened in 1889 [1].", "Paris is the capital of France.")
    False
    """
    sentence = Sentence(without_citations(claim))
    return sentence.fraction_in(read_page((cited,)).positions) >= CONTENT_SHARE


GROUNDEDNESS_MEASURES = (
    "claim_support",
    "numeric_support",
    "expected_claims",
    "forbidden_claims_absent",
    "expected_citations",
    "citation_form",
    "citation_content",
    "citation_accuracy",
    "citation_coverage",
)


_OF_ENGLISH = (
    "claim_support",
    "expected_claims",
    "forbidden_claims_absent",
    "citation_content",
    "citation_accuracy",
)
"""The measures of `score_groundedness` that read words, so that they are unscored in a language that
the model does not know."""


def score_groundedness(
    dataset: Dataset,
    answers: Sequence[Answer],
    chunks: Sequence[Chunk] = (),
    *,
    model: str = "minilm",
) -> pd.DataFrame:
    """Score answers by the support of their contexts: columns query_id, measure, value.

    Measures, each in [0, 1], higher is better, as defined in `ragbench.metrics.groundedness`:

    - claim_support: how well the contexts support the answer as a whole, a ranking (see there);
    - numeric_support: 1 - the fraction of numbers and dates that no context contains;
    - expected_claims, forbidden_claims_absent: the fraction of the case's claims that the answer
      states, or does not;
    - expected_citations: the fraction of the case's citations that the answer has, as chunk id or
      as document id;
    - citation_form: cited ids that were retrieved / cited ids;
    - citation_content: of the pairs of a claim and a retrieved context that it cites, the fraction
      in which the context contains the claim's terms;
    - citation_accuracy: of the claims that cite, the fraction that their cited contexts support by
      themselves (`claim_support` of 0.5 at least); a claim that cites only what was not
      retrieved is not;
    - citation_coverage: claims that cite / claims.

    A claim cites what is marked in it. Where a system gives `citations` but no marks in the text,
    each claim cites all of them. Every case has a row for each measure, by measure, then in the
    order of the cases. Unscored (NaN) is a case without an answer given, exactly as in
    `score_answers`; one without the label that the measure needs; one whose answer has no claim,
    number or citation where these are counted. An answer without context has a claim_support of 0.
    For claim_support and numeric_support the earlier turns of a conversation (`Case.turns`) are
    contexts, too.

    Args:
        dataset: its cases may hold `expected_claims`, `forbidden_claims` and `expected_citations`.
        answers: at most one per case, in any order.
        chunks: those that the answers' `contexts` name; not needed for answers with `passages` of
            their own.
        model: see `claim_support`.

    >>> from ragbench.types import Answer, Case, Chunk, Dataset
    >>> chunk = Chunk("d#0", "d", 0, 41, "The tower opened in 1889 and is 330 m high.")
    >>> answer = Answer("q1", "The tower opened in 1889 [1]. It is 400 m high.", contexts=("d#0",), citations=("d#0",))
    >>> scores = score_groundedness(Dataset("mine", "test", {}, [Case("q1", "?")], {}), [answer], [chunk])
    >>> scores.set_index("measure")["value"].loc[["numeric_support", "citation_form", "citation_coverage"]].to_dict()
    {'numeric_support': 0.5, 'citation_form': 1.0, 'citation_coverage': 0.5}

    Raises:
        DataError: an answer to a question that the dataset lacks, two answers to one question, or a
            context whose text is not there.
    """
    return check_groundedness(dataset, answers, chunks, model=model)[0]


def check_groundedness(
    dataset: Dataset,
    answers: Sequence[Answer],
    chunks: Sequence[Chunk] = (),
    *,
    model: str = "minilm",
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return `score_groundedness`, and the claims of all answers: query_id, claim, supported (bool) and
    fabricated_numbers (a tuple of texts).

    A claim (see `claims`) is supported with a support of STRICT (0.5) at least, an inference
    (`is_inference`) with RELAXED (0.3), and no fabricated number. The answer states an expected or
    forbidden claim where, taken as the only context, it supports the claim (STRICT, which is
    uncalibrated). One that is in the answer word for word is always stated, and one with a number
    that the answer does not hold never is. "X is not safe" does not state "X is safe", nor the
    other way round.
    """
    answered = answered_cases(dataset, answers)
    texts = context_texts([answer for _, answer in answered.values()], chunks)
    by_id = chunks_by_id(chunks)
    checks = {
        query_id: _check(case, answer, texts[query_id], by_id)
        for query_id, (case, answer) in answered.items()
    }
    pairs = [pair for check in checks.values() for pair in check.pairs]
    supports = iter(claim_supports(pairs, model=model))
    rows, table = {}, []
    for query_id, check in checks.items():
        for claim in check.claims:
            fabricated = tuple(n.text for n in numeric_fabrications(claim, check.grounds))
            enough = RELAXED if is_inference(claim) else STRICT
            supported = next(supports) >= enough and not fabricated
            table.append((query_id, claim, supported, fabricated))
        support = next(supports)
        stated = [_stated(label, check.text, next(supports)) for label in check.labels]
        n_expected = len(check.case.expected_claims)
        cited = {*check.citations, *map(check.documents.get, check.citations)}
        sources = check.sources
        rows[query_id] = {
            "claim_support": support if check.claims else math.nan,
            "numeric_support": numeric_support(check.text, check.grounds),
            "expected_claims": _fraction(stated[:n_expected]),
            "forbidden_claims_absent": _fraction([not claim for claim in stated[n_expected:]]),
            "expected_citations": _fraction([i in cited for i in check.case.expected_citations]),
            "citation_form": citation_form(check.citations, check.ids),
            "citation_content": _fraction(
                [cites_content(claim, text) for claim, cites in sources for text in cites]
            ),
            "citation_accuracy": _fraction([next(supports) >= STRICT for _ in sources]),
            "citation_coverage": _fraction([bool(each) for each in check.cited]),
        }
    if not_supported(dataset, answers, model):
        for row in rows.values():
            row |= dict.fromkeys(_OF_ENGLISH, math.nan)
        table = []
    columns = ["query_id", "claim", "supported", "fabricated_numbers"]
    scores = tidy_cases(dataset.cases, GROUNDEDNESS_MEASURES, rows)
    return scores, pd.DataFrame(table, columns=columns)


def not_supported(dataset: Dataset, answers: Sequence[Answer], model: str) -> str:
    """Return the name of the language of the answers where `model` does not know it, "" where it
    does: "minilm" and "lexical" know English.
    """
    language = answer_language(dataset, answers)
    is_known = model not in SUPPORT_MODELS or language.is_english
    return "" if is_known else language.name


def _fraction(verdicts: Sequence[bool]) -> float:
    return sum(verdicts) / len(verdicts) if verdicts else math.nan
