"""Verdicts on claims: does the context hold them, does an answer state them; and the scores of
groundedness.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
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
    """What is to be checked of one answer.

    Attributes:
        case: the case that was answered.
        text: the answer without its marks of citations.
        ids: the ids of the answer's contexts.
        texts: their texts.
        grounds: the texts that may support the answer: `texts`, and earlier turns of the conversation.
        claims: the claims of the answer.
        citations: all ids that the answer cites.
        cited: for each claim, the ids that it cites.
        document_of: cited id -> id of its document, where that is known.
    """

    case: Case
    text: str
    ids: tuple[str, ...]
    texts: list[str]
    grounds: list[str]
    claims: list[str]
    citations: tuple[str, ...]
    cited: list[tuple[str, ...]]
    document_of: dict[str, str]

    @property
    def labels(self) -> list[str]:
        """Return the claims of the case: those expected of the answer, then those forbidden."""
        return [*self.case.expected_claims, *self.case.forbidden_claims]

    @property
    def citing_claims(self) -> list[tuple[str, list[str]]]:
        """Return each claim of the answer that cites something, with the retrieved texts that it cites."""
        text_of = dict(zip(self.ids, self.texts, strict=True))
        citing_claims = []
        for claim, cited in zip(self.claims, self.cited, strict=True):
            if cited:
                texts = [text_of[chunk_id] for chunk_id in cited if chunk_id in text_of]
                citing_claims.append((claim, texts))
        return citing_claims

    @property
    def pairs(self) -> Pairs:
        """Return pairs of a text and the texts that may support it, in the order of `_Supports`.

        Pairs with the same texts are next to each other: the sentences are read once.
        """
        pairs = [(claim, self.grounds) for claim in self.claims]
        pairs.append((self.text, self.grounds))
        pairs += [(label, [self.text]) for label in self.labels]
        return [*pairs, *self.citing_claims]


class _Supports(NamedTuple):
    """How well texts support one answer and its claims, by `claim_supports`.

    Attributes:
        claims: of each claim of the answer, by the answer's `grounds`.
        answer: of the whole answer, by its `grounds`.
        labels: of each expected or forbidden claim, by the answer.
        citing_claims: of each claim that cites, by the texts that it cites.
    """

    claims: list[float]
    answer: float
    labels: list[float]
    citing_claims: list[float]


def _next_supports(check: _Check, supports: Iterator[float]) -> _Supports:
    """Take the supports of one answer from an iterator over the supports of all `pairs`."""
    return _Supports(
        claims=[next(supports) for _ in check.claims],
        answer=next(supports),
        labels=[next(supports) for _ in check.labels],
        citing_claims=[next(supports) for _ in check.citing_claims],
    )


def _check(case: Case, answer: Answer, texts: list[str], by_id: Mapping[str, Chunk]) -> _Check:
    """Return the parts of one answer to check: its claims, the contexts that each of them cites, and the
    texts that may support them.

    Args:
        texts: the texts of the answer's contexts.
        by_id: chunk_id -> chunk, for the documents of the cited chunks.
    """
    ids = context_ids(answer)
    marked = parse_citations(answer.text, ids)
    citations = answer.citations or marked
    # id of a chunk or passage -> its document
    document_of = {chunk_id: by_id[chunk_id].doc_id for chunk_id in citations if chunk_id in by_id}
    for passage in answer.passages:
        if passage.doc_id:
            document_of[passage.passage_id] = passage.doc_id
    answer_claims = claims(answer.text)
    cited = []
    for claim in answer_claims:
        # without marks in the text every claim cites all listed contexts
        cited.append(parse_citations(claim, ids) if marked else answer.citations)
    text = without_citations(answer.text, ids)
    earlier_turns = [message["content"] for message in case.history]
    grounds = [*texts, *earlier_turns]
    return _Check(case, text, ids, texts, grounds, answer_claims, citations, cited, document_of)


def _is_stated(claim: str, answer: str, support: float) -> bool:
    """Return True if an answer states a claim of its case: word for word, or by its support without a
    denial and without a number that the answer lacks.

    `support` is the `claim_support` of the claim with the answer as its context.
    """
    if text_states(answer, claim):
        return True
    if support < STRICT or polarity_differs(claim, answer):
        return False
    return not numeric_fabrications(claim, [answer])


def citation_form(cited: Sequence[str], contexts: Sequence[str]) -> float:
    """Return the fraction of the cited ids that were retrieved, in [0, 1]; NaN if nothing is cited.

    The first of two stages of validity: does each cited id exist at all? See `cites_content` for
    the second.

    >>> citation_form(("rail#3", "invalid:7"), ["rail#0", "rail#3"])
    0.5
    """
    if not cited:
        return math.nan
    n_retrieved = sum(citation in set(contexts) for citation in cited)
    return n_retrieved / len(cited)


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

    - claim_support: how well the contexts support the answer as a whole; a score to rank answers by,
      not a probability; 0 for an answer without context, NaN for an answer without a claim;
    - numeric_support: 1 - the fraction of the answer's numbers and dates that no context contains;
      NaN without a number;
    - expected_claims: the fraction of the case's expected claims that the answer states; NaN if the
      case has none;
    - forbidden_claims_absent: the fraction of the case's forbidden claims that the answer does not
      state; NaN if the case has none;
    - expected_citations: the fraction of the case's expected citations that the answer has, as chunk
      id or as document id; NaN if the case has none;
    - citation_form: cited ids that were retrieved / cited ids; NaN if nothing is cited;
    - citation_content: of the pairs of a claim and a retrieved context that it cites, the fraction
      in which the context contains the claim's terms; NaN without such a pair;
    - citation_accuracy: of the claims that cite, the fraction that their cited contexts support by
      themselves, which means a `claim_support` of at least 0.5, a limit of our choice; a claim that
      cites only texts that were not retrieved is not supported; NaN if no claim cites;
    - citation_coverage: claims that cite / claims; NaN without a claim.

    A claim cites the contexts that are marked in it. If a system returns `citations` but no marks
    in the text, each claim cites all of them. For claim_support and numeric_support the earlier turns
    of a conversation (`Case.turns`) are contexts, too.

    Every case has a row for each measure, by measure, then in the order of the cases. All values of a
    case that got no answer are NaN (unscored), as in `score_answers`. In a language that `model` does not
    know the measures that read words are NaN, too.

    Args:
        dataset: its cases may hold `expected_claims`, `forbidden_claims` and `expected_citations`.
        answers: at most one per case, in any order.
        chunks: the chunks that the answers' `contexts` name; not needed for answers with
            `passages`.
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

    A claim (see `claims`) is supported if it has no fabricated number and its `claim_support` is at least
    STRICT (0.5); for an inference (`is_inference`) RELAXED (0.3) is enough.

    An expected or forbidden claim of a case is stated if the answer, taken as the only context, supports
    it with STRICT (which is uncalibrated). A claim that is in the answer word for word is always stated,
    and a claim with a number that the answer does not hold never is. "X is not safe" does not state "X
    is safe", nor the other way round.
    """
    answered = answered_cases(dataset, answers)
    texts = context_texts([answer for _, answer in answered.values()], chunks)
    by_id = chunks_by_id(chunks)
    checks = {}
    pairs: list[tuple[str, Sequence[str]]] = []
    for query_id, (case, answer) in answered.items():
        check = _check(case, answer, texts[query_id], by_id)
        checks[query_id] = check
        pairs += check.pairs
    all_supports = iter(claim_supports(pairs, model=model))  # of all answers in one call
    rows = {}
    claim_rows: list[tuple[str, str, bool, tuple[str, ...]]] = []
    for query_id, check in checks.items():
        supports = _next_supports(check, all_supports)
        rows[query_id] = _scores(check, supports)
        claim_rows += _claim_rows(query_id, check, supports)
    if not_supported(dataset, answers, model):  # the model does not know the language
        for row in rows.values():
            for measure in _OF_ENGLISH:
                row[measure] = math.nan
        claim_rows = []
    columns = ["query_id", "claim", "supported", "fabricated_numbers"]
    scores = tidy_cases(dataset.cases, GROUNDEDNESS_MEASURES, rows)
    return scores, pd.DataFrame(claim_rows, columns=columns)


def _claim_rows(
    query_id: str, check: _Check, supports: _Supports
) -> list[tuple[str, str, bool, tuple[str, ...]]]:
    """Return query_id, claim, whether it is supported, and its fabricated numbers, for each claim of an
    answer.
    """
    rows = []
    for claim, support in zip(check.claims, supports.claims, strict=True):
        fabricated = tuple(each.text for each in numeric_fabrications(claim, check.grounds))
        enough = RELAXED if is_inference(claim) else STRICT
        is_supported = support >= enough and not fabricated
        rows.append((query_id, claim, is_supported, fabricated))
    return rows


def _scores(check: _Check, supports: _Supports) -> dict[str, float]:
    """Return measure -> score of an answer; NaN if the answer or its case has nothing to measure.

    `check` has the texts of the answer, its contexts and its case; `supports` has how well they support
    each other, in the same order. The measures are those of `score_groundedness`.
    """
    is_stated = []  # of each claim of the case: first the expected, then the forbidden ones
    for claim, support in zip(check.labels, supports.labels, strict=True):
        is_stated.append(_is_stated(claim, check.text, support))
    n_expected = len(check.case.expected_claims)
    are_expected_stated = is_stated[:n_expected]
    are_forbidden_absent = [not each for each in is_stated[n_expected:]]
    cited_names = set(check.citations)  # ids of chunks, and of their documents
    for chunk_id in check.citations:
        if chunk_id in check.document_of:
            cited_names.add(check.document_of[chunk_id])
    are_expected_cited = [name in cited_names for name in check.case.expected_citations]
    have_content = []  # of each pair of a claim of the answer and a text that it cites
    for claim, cited_texts in check.citing_claims:
        for text in cited_texts:
            have_content.append(cites_content(claim, text))
    are_supported = [support >= STRICT for support in supports.citing_claims]
    are_citing = [len(ids) > 0 for ids in check.cited]  # of each claim of the answer
    return {
        "claim_support": supports.answer if check.claims else math.nan,
        "numeric_support": numeric_support(check.text, check.grounds),
        "expected_claims": _fraction(are_expected_stated),
        "forbidden_claims_absent": _fraction(are_forbidden_absent),
        "expected_citations": _fraction(are_expected_cited),
        "citation_form": citation_form(check.citations, check.ids),
        "citation_content": _fraction(have_content),
        "citation_accuracy": _fraction(are_supported),
        "citation_coverage": _fraction(are_citing),
    }


def not_supported(dataset: Dataset, answers: Sequence[Answer], model: str) -> str:
    """Return the name of the answers' language if `model` does not know it, else "".

    "minilm" and "lexical" know English; a model of the user is taken to know every language.
    """
    language = answer_language(dataset, answers)
    is_known = model not in SUPPORT_MODELS or language.is_english
    return "" if is_known else language.name


def _fraction(verdicts: Sequence[bool]) -> float:
    """Return the fraction that is True; NaN of no verdict."""
    return sum(verdicts) / len(verdicts) if verdicts else math.nan
