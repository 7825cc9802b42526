"""Does claim_support tell human answers with their own passage from the same answers with another
one?

Compared with plain n-gram overlap: the fraction of an answer's words and pairs of words that the
passage holds. Needs ../shared/data/clapnq (answers that people wrote from a passage).
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from ragbench.metrics.groundedness import claim_support, claim_supports, evidence
from ragbench.metrics.groundedness import words as reader
from ragbench.store import bypassed
from tests.benchmark_table import Benchmark
from tests.fitting import claim_support as fitting
from tests.fitting.claim_support import overlap

CLAPNQ = Path(__file__).parents[2] / "shared" / "data" / "clapnq"
pytestmark = pytest.mark.skipif(not CLAPNQ.is_dir(), reason=f"{CLAPNQ} is not there")

Pair = tuple[str, list[str]]


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def untokenised(text: str) -> str:
    """CLAPNQ sets blanks around punctuation."""
    return re.sub(
        r" ([,.;:?!)%]|'s\b|n't\b)", r"\1", text.replace("``", '"').replace("''", '"')
    ).replace("( ", "(")


@pytest.fixture(scope="module")
def passages() -> dict[str, str]:
    return {
        str(row["_id"]): untokenised(str(row["text"])) for row in lines(CLAPNQ / "corpus.jsonl")
    }


@pytest.fixture(scope="module")
def human(passages: dict[str, str]) -> list[tuple[str, str]]:
    """(answer, id of its passage) of every answerable question."""
    found = []
    for row in lines(CLAPNQ / "answers.jsonl"):
        if row["answerable"]:
            answer = untokenised(row["answers"][0]["answer"]).strip()  # type: ignore[index]
            if answer:
                found.append((answer, str(row["passage_ids"][0])))  # type: ignore[index]
    return found


@pytest.fixture(scope="module")
def nearest(human: list[tuple[str, str]], passages: dict[str, str]) -> list[str]:
    """For each answer the most similar passage by BM25 that is not its own."""
    import bm25s

    ids = list(passages)
    index = bm25s.BM25()
    index.index(bm25s.tokenize(list(passages.values()), show_progress=False), show_progress=False)
    queries = bm25s.tokenize([answer for answer, _ in human], show_progress=False)
    places, _ = index.retrieve(queries, k=2, show_progress=False)
    return [
        next(ids[place] for place in row if ids[place] != own)
        for row, (_, own) in zip(places, human, strict=True)
    ]


def auc(
    scores: Callable[[list[Pair]], list[float]], good: list[Pair], bad: list[Pair]
) -> tuple[float, list[float]]:
    from sklearn.metrics import roc_auc_score

    values = scores([*good, *bad])
    return float(roc_auc_score([1] * len(good) + [0] * len(bad), values)), values


SCORES: dict[str, Callable[[list[Pair]], list[float]]] = {
    "n-gram overlap": lambda pairs: [overlap(*pair) for pair in pairs],
    "lexical": lambda pairs: claim_supports(pairs, model="lexical"),
    "minilm": claim_supports,
}


@pytest.mark.benchmark
def test_own_passage_against_another(
    human: list[tuple[str, str]],
    passages: dict[str, str],
    nearest: list[str],
    benchmark: Benchmark,
) -> None:
    shuffled = [own for _, own in human]
    random.Random(1).shuffle(shuffled)
    good = [(answer, [passages[own]]) for answer, own in human]
    kept = [
        (answer, own, other)
        for (answer, own), other in zip(human, shuffled, strict=True)
        if own != other
    ]
    random_pairs: list[Pair] = [(answer, [passages[other]]) for answer, _, other in kept]
    hard: list[Pair] = [
        (answer, [passages[other]]) for (answer, _), other in zip(human, nearest, strict=True)
    ]
    # Some nearest passages belong to the same article and hold the answer too: no score can reach 1
    # there.
    for others, pairs in (("a random passage", random_pairs), ("the nearest other", hard)):
        found = {name: auc(scores, good, pairs)[0] for name, scores in SCORES.items()}
        _record(benchmark, f"AUC of the own passage against {others}, clapnq", found)


def _record(benchmark: Benchmark, work: str, found: dict[str, float]) -> None:
    for name, value in found.items():
        goal = 0.95 if name == "minilm" else None
        benchmark.record(f"{work}, {name}", "-", value, at_least=goal)
    ahead = found["minilm"] - found["n-gram overlap"]
    benchmark.record(f"{work}, minilm minus its peer", "n-gram overlap", ahead, at_least=-0.005)


@pytest.mark.benchmark
def test_own_passage_among_nineteen_others(
    human: list[tuple[str, str]],
    passages: dict[str, str],
    nearest: list[str],
    benchmark: Benchmark,
) -> None:
    """Long contexts: the own passage is among nineteen others, or the nearest other one takes its
    place.
    """
    draw = random.Random(2)
    good: list[Pair] = []
    bad: list[Pair] = []
    for (answer, own), near in list(zip(human, nearest, strict=True))[:150]:
        others = [
            text
            for name, text in draw.sample(sorted(passages.items()), 21)
            if name not in (own, near)
        ][:19]
        place = draw.randrange(20)
        good.append((answer, [*others[:place], passages[own], *others[place:]]))
        bad.append((answer, [*others[:place], passages[near], *others[place:]]))
    found = {name: auc(scores, good, bad)[0] for name, scores in SCORES.items()}
    _record(benchmark, "AUC of the own passage among 20, clapnq", found)


@pytest.mark.benchmark
def test_what_minilm_costs_and_what_it_adds(benchmark: Benchmark) -> None:
    """CPU of a pair by words alone and with minilm, and the AUC of both: an answer's own passage against
    the most similar other one.

    It is why minilm reads every pair that is not copied. Where the words alone decide whether a value is
    above 0.5, they do not rank: of PubMedQA's 800 pairs minilm has to read 58 % to stay within 0.005 of
    its AUC, even if the rest gets the best linear estimate of it from the words.
    """

    def scored(pairs: list[Pair], model: str) -> tuple[npt.NDArray[np.float64], float]:
        """Values, and CPU milliseconds of a pair, with no text in memory."""
        evidence._recent.clear()
        for function in (evidence.read_sentence, reader.read_page, reader._sentences, reader.words):
            function.cache_clear()
        start = time.process_time()
        with bypassed():
            values = np.array(claim_supports(pairs, model=model))
        return values, 1000 * (time.process_time() - start) / len(pairs)

    claim_support("Warm.", ["It was warm."])
    for source in fitting.collections():
        good: list[Pair] = [(answer, [source.passages[own]]) for answer, own in source.answers]
        bad: list[Pair] = [
            (answer, [source.passages[near]])
            for (answer, _), near in zip(source.answers, source.nearest, strict=True)
        ]
        (lexical, fast), (minilm, slow) = (
            scored([*good, *bad], model) for model in ("lexical", "minilm")
        )
        aucs = [fitting.auc(values, len(good)) for values in (lexical, minilm)]
        peer = "claim_support by words alone"
        work = f"claim_support by minilm, {source.name}"
        benchmark.record(f"CPU of {work}", peer, slow / fast)
        benchmark.record(f"AUC of {work}", "-", aucs[1])
        ahead = aucs[1] - aucs[0]
        benchmark.record("the same minus its peer's", peer, ahead, at_least=-0.001)


NAVIGATION = (
    "Home | About Us | Contact | Privacy Policy\nSkip to content\nSearch for:",
    "We use cookies to improve your experience on our site. By continuing to browse you accept "
    "our use of cookies.",
    "Related articles\nMost read\nSubscribe to our newsletter for the latest news and "
    "updates.\nLeave a Reply",
)


@pytest.mark.benchmark
def test_a_sentence_among_ten_web_pages(
    human: list[tuple[str, str]], passages: dict[str, str], benchmark: Benchmark
) -> None:
    """Ten pages of four passages and navigation: the 40 nearest by BM25, with the own passage or
    without it.
    """
    import bm25s

    ids = list(passages)
    index = bm25s.BM25()
    index.index(bm25s.tokenize(list(passages.values()), show_progress=False), show_progress=False)
    draw = random.Random(3)
    chosen = [(answer.split(". ")[0], own) for answer, own in draw.sample(human, 80)]
    queries = bm25s.tokenize([claim for claim, _ in chosen], show_progress=False)
    found, _ = index.retrieve(queries, k=41, show_progress=False)
    good: list[Pair] = []
    bad: list[Pair] = []
    for (claim, own), row in zip(chosen, found, strict=True):
        near = [ids[place] for place in row if ids[place] != own][:40]
        draw.shuffle(near)
        place = draw.randrange(40)
        for names, pairs in (([*near[:place], own, *near[place + 1 :]], good), (near, bad)):
            pages = [
                "\n\n".join(passages[name] for name in names[i : i + 4]) for i in range(0, 40, 4)
            ]
            top = [NAVIGATION[i % len(NAVIGATION)] for i in range(10)]
            pairs.append(
                (
                    claim,
                    [
                        f"{first}\n\n{page}\n\n{top[0]}"
                        for first, page in zip(top, pages, strict=True)
                    ],
                )
            )
    scored = {name: auc(scores, good, bad)[0] for name, scores in SCORES.items()}
    for name, value in scored.items():
        benchmark.record(f"AUC of a sentence among ten web pages, {name}", "-", value)
    ahead = scored["minilm"] - scored["n-gram overlap"]
    benchmark.record("minilm minus its peer", "n-gram overlap", ahead, at_least=0)


@pytest.mark.benchmark
def test_time_of_one_answer(
    human: list[tuple[str, str]], passages: dict[str, str], benchmark: Benchmark
) -> None:
    claim_support("Warm.", ["It is warm."])
    texts = list(passages.values())
    for words, bound in ((1_000, 1.0), (10_000, 2.0)):
        spent = []
        for number, (answer, own) in enumerate(human[:15]):
            page, first = [passages[own]], 37 * number
            while sum(len(text.split()) for text in page) < words:
                first += 1
                page.append(texts[first % len(texts)])
            sentence = answer.split(". ")[0]
            start = time.perf_counter()
            claim_support(sentence, page)
            spent.append(time.perf_counter() - start)
        median = sorted(spent)[len(spent) // 2]
        work = f"claim_support of a sentence, {words:,} words of context"
        benchmark.record(work, "-", median, at_most=bound, unit="s")
