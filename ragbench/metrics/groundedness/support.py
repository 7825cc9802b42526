"""How well contexts support an answer: one number in [0, 1] from the words, names, numbers and
vectors of both.
"""

import json
import math
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np

from ragbench.errors import ConfigError, DataError, nearest
from ragbench.files import expanded
from ragbench.generation.citations import without_citations
from ragbench.language import word_code
from ragbench.metrics.groundedness.claims import LIST_MARK, no_claim, unhedged
from ragbench.metrics.groundedness.entailment import entailment
from ragbench.metrics.groundedness.evidence import (
    Reading,
    read_sentence,
    semantic_evidence,
    vectors,
)
from ragbench.metrics.groundedness.words import Page, read_page, unwrapped, words
from ragbench.store import arrays, digest

SUPPORT_MODELS = ("minilm", "lexical")
"""The models of `claim_support` that come with the install; every other name is a cross-encoder."""

Pairs = Sequence[tuple[str, Sequence[str]]]
"""Answers, each with its contexts."""

_BLOCK = 32  # pairs whose vectors are computed together
_NO_CLAIM = 0.3  # the weight of a question or a filler, relative to a claim

# Where one bad sentence spoils the answer: mean and worst sentence count half each. In all else the
# mean counts.
_SPOILING = frozenset(
    [
        *("names_in_window", "names_on_page", "numbers", "not_denied", "not_opposed"),
        *("copied", "no_novel_row", "least_aligned", "no_stranger"),
    ]
)


@cache
def coefficients() -> dict[str, dict[str, float]]:
    """Return model -> the coefficients of its evidence; fitted by `python -m
    tests.fitting.claim_support`.
    """
    weights: dict[str, dict[str, float]] = json.loads(
        Path(__file__).with_name("support_coefficients.json").read_text(encoding="utf-8")
    )
    return weights


def claim_support(answer: str, contexts: Sequence[str], *, model: str = "minilm") -> float:
    """Return how well the contexts support the statements of an answer, in [0, 1]; higher is
    better.

    It ranks answers; no fixed value of it means "supported". On labels by people from six sources
    the best threshold lay between 0.28 and 0.96, by the kind of text. A sentence of the contexts
    scores 0.97, another subject below 0.1. It is a heuristic: it recognises missing statements,
    other names, other numbers and some denials; swapped roles and wrong conclusions in the
    contexts' own words it mostly does not see.

    With the built-in models it is 1 / (1 + exp(-(c + sum of w_k e_k))) over the evidence e_k of
    `ragbench.metrics.groundedness.evidence`: words, rows of words, names, numbers and denials in
    the best window of three sentences and anywhere, and with "minilm" also the cosines of words and
    sentences. Every weight w_k is positive: more evidence never lowers the value. Over several
    sentences it is the mean by the weight of their words; for names, numbers, denials, copied and
    novel rows of words and the worst word half of it is the worst sentence. A sentence that is
    copied all but word for word has cosines of 1, without asking minilm. A hedge that the contexts
    lack costs nothing: "It may be open" has the support of "It is open". Questions to the reader
    and fillers ("Good question!") count 0.3, claims 1. Marks of citations are not read. Values are
    rounded to 6 decimals.

    The weights come from a logistic regression with non-negative weights, drawn to equal weights on
    standardised evidence (three times that for plain n-gram overlap). It was fitted to 1,500
    proxies made from CLAPNQ, PubMedQA, XQuAD and sentences of our own, none of them verdicts of a
    person on a model's answer; `tests/fitting/ claim_support.py` of the repository makes them,
    repeats the fit and compares it with n-gram overlap on held-out documents: an answer's own
    passage against the nearest other one has an AUC of 0.987 (overlap: 0.987) for long answers,
    0.961 (0.922) for conclusions and 0.986 (0.986) for short answers, and spoiled answers 0.882
    (0.840). No task of the twelve has overlap ahead by more than chance. Constant and scale put a
    verbatim sentence at 0.97, and 0.5 between human answers and nearest other passages: a fluent
    invention in the passage's own words is often above 0.5.

    Args:
        answer: without words it states nothing, and its support is 0.
        contexts: none, or none with words, support nothing: 0.
        model: "minilm" (default), "lexical" (the words only; fifteen times as fast), or the folder or
            hub name of a cross-encoder for NLI: then it is the probability of entailment by the
            best of five windows of three sentences, half the mean over the answer's sentences and
            half the lowest of them.

    >>> tower = ["The Eiffel Tower opened in March 1889. It stands in Paris and is 330 metres tall."]
    >>> claim_support("The Eiffel Tower opened in March 1889.", tower, model="lexical") > 0.9
    True
    >>> claim_support("The Danube flows into the Black Sea.", tower, model="lexical") < 0.1
    True

    Raises:
        ConfigError: `model` cannot be a model, or is a cross-encoder without a label for
            entailment.
        DataError: `contexts` is one text.
        ModelError: the cross-encoder could not be loaded.
    """
    return claim_supports([(answer, contexts)], model=model)[0]


def check_support_model(name: str) -> None:
    """Raise ConfigError when `name` cannot be a model of `claim_support`, without loading anything.

    >>> check_support_model("lexical")
    >>> check_support_model("mini-lm")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: unknown model 'mini-lm' for claim_support; did you mean 'minilm'? Known: minilm, \
lexical (or the folder or the hub name, such as 'cross-encoder/nli-deberta-v3-base', of a cross-encoder for NLI)
    """
    is_text = isinstance(name, str)
    if is_text and (name in SUPPORT_MODELS or (name.strip() and expanded(name).is_dir())):
        return
    if not is_text or name.count("/") != 1 or name.startswith(("/", "./", "../", "~")):
        near = nearest(str(name).lower(), SUPPORT_MODELS)
        hint = f"; did you mean {near!r}?" if near else "."
        raise ConfigError(
            f"unknown model {name!r} for claim_support{hint} Known: {', '.join(SUPPORT_MODELS)} "
            "(or the folder or the hub name, such as 'cross-encoder/nli-deberta-v3-base', of a "
            "cross-encoder for NLI)"
        )


def claim_supports(pairs: Pairs, *, model: str = "minilm") -> list[float]:
    """Return the `claim_support` of each pair (answer, contexts): how well the contexts support the
    answer.

    The numbers are the same as from one call per pair, but come faster: the texts of many pairs go through the
    model together. Values of "minilm", which is slow, are kept on disk.

    >>> claim_supports([("It opened.", ["It opened."]), ("", ["It opened."])], model="lexical")[1]
    0.0
    """
    check_support_model(model)
    for _, contexts in pairs:
        if isinstance(contexts, str):
            raise DataError(
                f"contexts are a sequence of texts, not one text; write [text] "
                f"for {contexts[:40]!r}"
            )
    supports: list[float] = []
    for first in range(0, len(pairs), _BLOCK):
        block = pairs[first : first + _BLOCK]
        if model not in SUPPORT_MODELS:  # a cross-encoder of the user
            supports += _by_encoder(block, model)
            continue
        # kept until a text or the code changes; the kind "" keeps nothing
        key = digest(_code_digest(), json.dumps([[answer, *texts] for answer, texts in block]))
        with arrays("claim-support" if model == "minilm" else "", key) as kept:
            if not kept:  # not on the disk: the arrays that are put in here are kept
                readings = read_pairs(block)
                if model == "minilm":
                    # computes all vectors together; `_combined` then finds them in memory
                    vectors([text for row in readings for each in row for text in each.texts])
                kept["supports"] = np.array([_combined(row, model) for row in readings])
        supports += kept["supports"].tolist()
    return supports


@cache
def _code_digest() -> str:
    """Return a digest of all that decides a `claim_support` besides the texts: the code, the coefficients
    and the libraries that read texts.

    It is part of the key under which `claim_supports` keeps values on disk.
    """
    here = Path(__file__).parent
    package = here.parents[1]
    others = [package / "text.py", package / "retrieval" / "minilm.py"]
    files = sorted([*here.glob("*.*"), *others])
    return digest(
        word_code(),  # the code and tables of `ragbench.language`
        *(path.read_bytes() for path in files),
        *map(version, ("numpy", "scipy", "sentencex", "tokenizers")),
    )


def read_pairs(pairs: Pairs) -> list[list[Reading]]:
    """Return for each answer a reading of each of its sentences next to its page, which is all of its
    contexts; [] if the answer or the page has no words.
    """
    pages = [read_page(tuple(contexts)) for _, contexts in pairs]
    readings = []
    for (answer, _), page in zip(pairs, pages, strict=True):
        sentences = _sentences(answer) if page.sentences else []
        readings.append([_read_as_assertion(sentence, page) for sentence in sentences])
    return readings


def _read_as_assertion(sentence: str, page: Page) -> Reading:
    """Return the evidence that a page (the contexts of an answer) has for a sentence of the answer.

    Hedges such as "may" are left out of the sentence if the three sentences of the page that fit it best
    then hold a greater fraction of its words.
    """
    hedged = read_sentence(sentence, page)
    assertion = unhedged(sentence)
    if assertion == sentence or not words(assertion):
        return hedged
    unhedged_reading = read_sentence(assertion, page)
    fraction_with_hedges = hedged.lexical["words_in_window"]
    fraction_without_hedges = unhedged_reading.lexical["words_in_window"]
    return unhedged_reading if fraction_without_hedges > fraction_with_hedges else hedged


def _combined(readings: Sequence[Reading], model: str) -> float:
    """Return the support of an answer, in [0, 1], by the coefficients of a model; 0 of no sentence."""
    if not readings:
        return 0.0
    learnt = coefficients()[model]
    evidence = answer_evidence(readings, semantic=model == "minilm")
    total = learnt["constant"] + sum(learnt[name] * value for name, value in evidence.items())
    return round(1 / (1 + math.exp(-total)), 6)


def answer_evidence(readings: Sequence[Reading], *, semantic: bool) -> dict[str, float]:
    """Return the evidence for a whole answer, name -> value, from its sentences (`readings`).

    A value is the mean over the sentences by the weight of their words. For the names in `_SPOILING`,
    where one bad sentence spoils an answer, it is the mean of that mean and the worst sentence.
    Sentences that claim nothing have less weight and are not the worst, unless none claims anything.
    `semantic` adds the evidence of vectors.
    """
    evidence = []
    for reading in readings:
        values = dict(reading.lexical)
        if semantic:
            values |= semantic_evidence(reading)
        evidence.append(values)
    is_claim = [not no_claim(reading.sentence) for reading in readings]
    if not any(is_claim):
        is_claim = [True] * len(readings)
    weights = []  # of the sentences
    for reading, claims in zip(readings, is_claim, strict=True):
        weight = float(reading.weight.sum())
        weights.append(weight if claims else weight * _NO_CLAIM)
    merged: dict[str, float] = {}
    for name in evidence[0]:
        of_sentences = [values[name] for values in evidence]
        weighted = map(float.__mul__, of_sentences, weights)  # value times weight of each sentence
        mean = sum(weighted) / sum(weights)
        of_claims = [value for value, claims in zip(of_sentences, is_claim, strict=True) if claims]
        merged[name] = (mean + min(of_claims)) / 2 if name in _SPOILING else mean
    return merged


def _by_encoder(pairs: Pairs, model: str) -> list[float]:
    """Return the support of each answer by a model of the user, which returns the probability that a text
    entails (logically supports) a claim.

    It is the mean of two numbers: the mean over the claims of the answer, and the lowest of them, as one
    unsupported claim spoils an answer. 0 without contexts.
    """
    requests = []
    for answer, contexts in pairs:
        sentences = _sentences(answer)
        claims = [sentence for sentence in sentences if not no_claim(sentence)] or sentences
        page = read_page(tuple(contexts))
        requests.append((claims if page.sentences else [], page))
    supports = []
    for values in entailment(requests, model):
        support = 0.0
        if values:
            mean = sum(values) / len(values)
            support = round((mean + min(values)) / 2, 6)
        supports.append(support)
    return supports


def _sentences(answer: str) -> list[str]:
    """Return the sentences of an answer that have a word, without marks of citations and lists."""
    bare = [LIST_MARK.sub("", line).strip() for line in unwrapped(without_citations(answer))]
    return [line for line in bare if words(line)]
