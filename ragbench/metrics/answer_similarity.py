"""Whether an answer states the gold facts and keywords, and how similar it is to the reference
answer, without a language model; counts of abstentions.

All are in [0, 1], higher is better. They reward wording: a correct answer in other words can score
low, a wrong one that repeats the reference can score high. Use them to compare configurations, not
to verify answers.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import regex

from ragbench.array_types import Floats
from ragbench.errors import DataError
from ragbench.folding import folded
from ragbench.language import SPACED, UNSPACED, WORD, Language, detect_language
from ragbench.metrics.own_measures import own_value
from ragbench.metrics.retrieval import own_ranking_values
from ragbench.metrics.retrieval_levels import merge_alternatives
from ragbench.metrics.tidy import (
    answer_language,
    answered_cases,
    answers_by_query,
    context_texts,
    relevant_ids,
    score_frame,
    state_of,
    tidy_cases,
    usable_cases,
    wording,
)
from ragbench.registry import Measure
from ragbench.retrieval.embedders import knows, load_embedder
from ragbench.types import Answer, Case, Chunk, Dataset, Embedder, Judgement, Run

_GROUPED = r"\d{1,3}(?:,\d{3})+(?!\d)|\d{1,2}(?:,\d{2}){1,8},\d{3}(?!\d)"  # also as in India
_NUMBER = rf"(?:(?<!\w)[-\u2212])?(?:(?:{_GROUPED})(?:\.\d+)*|\d+(?:\.\d+)*)"
_APOSTROPHE = re.compile(r"(?<=\d)['’](?=\d{3}(?!\d))")  # between thousands, as in Switzerland
_SPACE = re.compile(r"(?<=\d) (?=\d{3}(?!\d))")
_ARABIC_SIGNS = str.maketrans("٫٬", ".,")

_DECIMAL = re.compile(r"\d[.,]\d")

_OPERATOR = re.compile(r"[=+^<>|~&@#*]")

# The text before a single letter or abbreviation of a name, with its signs, is a separate word: the
# letters of "C#", "C++", "A+", "A*", "R&D", "T-shirt" and "Objective-C" are parts of other names.
_NAME_WITH_SIGNS = regex.compile(
    r"(?<![\w&])[^\W\d_]{1,3}(?:&[^\W\d_]{1,3})+(?![\w&])"
    r"|(?<!\w)[^\W\d_]{1,3}(?=\+\+|\+(?!\w))|(?<!\w)[^\W\d_](?=[#*])"
    r"|(?<![\w-])[^\W\d_](?=-\w)|(?<=\w-)[^\W\d_](?![\w-])|(?<![\w-])[^\W\d_](?=-(?!\w)(?! ))"
)
_MIN_WORDS, _MAX_BETWEEN = 3, 2
_SENTENCE_END = re.compile(r"(?<=[.!?;:])\s+|\n\s*\n")
_DENIALS = frozenset("no not never without nor neither none cannot t or but except than".split())

_EMPHASIS = re.compile(
    r"(?<![*\w])\*{1,2}(\w[^*]*)(?<=\w)\*{1,2}(?![*\w])"
)  # of Markdown: "*so*", "**so**"

_WORD = regex.compile(f"{_NUMBER}|{WORD.pattern}", regex.V1)


def token_f1(answer: str, reference: str) -> float:
    """Return the harmonic mean of word precision and recall of an answer against the reference, in
    [0, 1].

    As in SQuAD (Rajpurkar et al. 2016): words after lower-casing and removing punctuation and the
    articles a, an, the, counted as often as they occur in both. For ASCII this is SQuAD's own
    number; beyond it, letters are compared after NFKC and case folding, punctuation of every script
    is dropped, and scripts without spaces (Chinese, Japanese, Thai ...) count by character. If
    neither text has a word left, it is 1 if they are equal, else 0.

    >>> token_f1("The tower is in Paris, France.", "in Paris")
    0.5714285714285715
    """
    words_of_answer = squad_words(answer)
    words_of_reference = squad_words(reference)
    if not words_of_answer or not words_of_reference:
        return float(answer.strip().casefold() == reference.strip().casefold())
    n_common = (Counter(words_of_answer) & Counter(words_of_reference)).total()
    if n_common == 0:
        return 0.0
    precision = n_common / len(words_of_answer)
    recall = n_common / len(words_of_reference)
    return 2 * precision * recall / (precision + recall)


def gold_fact_coverage(answer: str, facts: Sequence[Sequence[str]]) -> float:
    """Return the fraction of `facts` that the answer states in one of their wordings, in [0, 1];
    NaN without facts.

    A fact is a sequence of wordings: the fact itself, then aliases. A wording is stated if the
    answer contains its words in a row, ignoring case and punctuation, and not as part of longer
    words. Of a wording of three words or more, one or two other words of the sentence may lie
    between its words: function words, or, if the wording has a number, any words but numbers and
    denials: "15 days vacation" is stated by "15 days paid vacation". A number is one word, with its
    sign and decimals: "3" is not stated by "3.5", "13" or "-3"; "1,000", "1 000" and "1'000" are
    "1000". A wording with operators, such as "2**n" or "C++", or without letters and digits, such
    as "**", must match exactly but for case and white space.

    >>> facts = [["1889"], ["300 m", "330 metres", "330 m"], ["Eiffel", "G. Eiffel"]]
    >>> gold_fact_coverage("It opened in 1889, and is 330 m tall.", facts)
    0.6666666666666666
    """
    return sum(stated_facts(answer, facts)) / len(facts) if len(facts) else math.nan


def stated_facts(text: str, facts: Sequence[Sequence[str]]) -> list[bool]:
    """Return for each fact whether the text states it in one of its wordings, by the rules of
    `gold_fact_coverage`.

    >>> stated_facts("It opened in 1889.", [["1889"], ["Eiffel", "G. Eiffel"]])
    [True, False]

    Raises:
        DataError: a fact is a text, or has no wording.
    """
    for fact in facts:
        if isinstance(fact, str) or len(fact) == 0:
            raise DataError(
                f"a gold fact is a sequence of wordings such as ('1889', 'in 1889'), not {fact!r}"
            )
    if not facts:
        return []
    searched = _searched(text)
    return [any(_states_fact(searched, wording) for wording in fact) for fact in facts]


class _Searched(NamedTuple):
    """A text in which wordings are searched, as `_searched` prepares it.

    `text` has decimal points where its `language` writes commas. `readings` are its words with a blank
    before, between and after them: once with "4 183" as two numbers, once as one.
    """

    text: str
    readings: Collection[str]
    language: Language


@lru_cache(maxsize=2_000)  # questions share their contexts
def _searched(text: str) -> _Searched:
    """Return a text prepared for the search of wordings. Only a text with decimals is read in its own
    language, because nothing else depends on it.
    """
    language = detect_language([text] if _DECIMAL.search(text) else [])
    text = language.with_points(text)
    return _Searched(text, _readings(text), language)


@lru_cache(maxsize=2_000)  # a wording is searched in several texts
def _readings(text: str) -> frozenset[str]:
    """Return the words of a text with a blank before, between and after them, in two ways if it has
    blanks between thousands: "4 183" as two numbers, and as one.
    """
    return frozenset(f" {' '.join(words(form))} " for form in (text, _SPACE.sub("", text)))


def _states_fact(searched: _Searched, wording: str) -> bool:
    """Return True if a text has the words of a wording in a row, or nearly so (`gold_fact_coverage`)."""
    wording = searched.language.with_points(wording)
    if _states_in_a_row(searched, wording):
        return True
    return _states_with_gaps(searched.text, wording, searched.language)


def keyword_coverage(answer: str, keywords: Sequence[str]) -> float:
    """Return the fraction of distinct `keywords` that the answer contains, in [0, 1]; NaN if there
    are none.

    A keyword is one or more words, matched at word boundaries as a gold fact
    (`gold_fact_coverage`): "cat" is not in "concatenate", "3" not in "3.5", "C" not in "C#" and "R"
    not in "R&D". Inflected forms are other words.

    >>> keyword_coverage("Reset it under Settings, then log in again.", ["settings", "log in", "password"])
    0.6666666666666666
    """
    n = len(set(keywords))
    return (n - len(missing_keywords(answer, keywords))) / n if n else math.nan


def missing_keywords(answer: str, keywords: Sequence[str]) -> list[str]:
    """Return the keywords that the answer does not contain (`keyword_coverage`), each once, in their order.

    >>> missing_keywords("Reset it under Settings.", ["settings", "log in", "password"])
    ['log in', 'password']
    """
    if isinstance(keywords, str):
        raise DataError(
            f"keywords are a sequence such as ('settings', 'log in'), not the text {keywords!r}"
        )
    if not keywords:
        return []
    searched = _searched(answer)
    missing = []
    for keyword in dict.fromkeys(keywords):
        if not _states_in_a_row(searched, searched.language.with_points(keyword)):
            missing.append(keyword)
    return missing


def semantic_similarity(
    answers: npt.NDArray[np.floating], references: npt.NDArray[np.floating]
) -> Floats:
    """Return the cosine of each row of `answers` (n, dimension) with the same row of `references`,
    clipped to [0, 1].

    A row of zeros, the vector of an empty text, scores 0. Values are rounded to 6 decimals, because
    further digits of an embedding depend on its batch. The scale depends on the model: compare
    within one model only.

    >>> semantic_similarity(np.array([[1.0, 0.0], [3.0, 4.0]]), np.array([[-1.0, 0.0], [3.0, 0.0]])).tolist()
    [0.0, 0.6]
    """
    left, right = answers.astype(np.float64), references.astype(np.float64)
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    dots = np.einsum("ij,ij->i", left, right)
    cosines = np.divide(dots, lengths, out=np.zeros(len(dots)), where=lengths > 0)
    rounded: Floats = np.round(np.clip(cosines, 0.0, 1.0), 6)
    return rounded


def squad_words(text: str) -> list[str]:
    """Return the words of a text as SQuAD's F1 compares them: folded, without punctuation and
    articles.
    """
    # punctuation and symbols; in ASCII these are `string.punctuation`
    bare = "".join(sign for sign in folded(text) if unicodedata.category(sign)[0] not in "PS")
    return list(WORD.findall(re.sub(r"\b(a|an|the)\b", " ", bare)))


@lru_cache(maxsize=2_000)  # the measures of a context read the same texts many times
def words(text: str) -> tuple[str, ...]:
    """Return the words of a text as facts and keywords are compared: NFKC, case folded, without
    punctuation.

    A number is one word with its sign and decimals and without thousands separators; in scripts
    without spaces each character is one.

    >>> words("It's 1,000.5 m - ½ of THAT.")
    ('it', 's', '1000.5', 'm', '1', '2', 'of', 'that')
    """
    plain = _APOSTROPHE.sub("", folded(text).translate(_ARABIC_SIGNS))
    return tuple(word.replace(",", "").replace("\u2212", "-") for word in _WORD.findall(plain))


def _states_in_a_row(searched: _Searched, wording: str) -> bool:
    """Return True if a text has the words of a wording one after the other. The numbers of both have
    decimal points (`Language.with_points`).

    A wording with an operator, such as "n+1", or without words, is compared sign by sign instead.
    A short word must not be a part of a name with signs: "written in C++" does not state "C".
    """
    text, readings, _language = searched
    bare = _EMPHASIS.sub(r"\1", wording)
    if not words(wording) or _OPERATOR.search(bare):
        return _states_signs(text, bare)
    phrases = _readings(wording)  # "1 889" is also "1889"
    if not _has_any(readings, phrases):
        return False
    if _NAME_WITH_SIGNS.search(wording) or not _has_short_word(wording):
        return True
    # the words may be there only in names with signs: search again without these names
    without_names = _NAME_WITH_SIGNS.sub("\N{REPLACEMENT CHARACTER}", _EMPHASIS.sub(r"\1", text))
    return _has_any(_readings(without_names), phrases)


def _has_any(texts: Iterable[str], phrases: Iterable[str]) -> bool:
    return any(phrase in text for phrase in phrases for text in texts)


def _states_signs(text: str, wording: str) -> bool:
    """Return True if a text has a wording with signs, such as "n+1", sign by sign; white space may differ.

    A word at an end of the wording must not be a part of a longer word in the text, nor a sign at an end
    be next to the same sign: "n+10" does not state "n+1", nor "**" "*".
    """
    parts = regex.findall(r"\w+|[^\w\s]", unicodedata.normalize("NFC", wording.casefold()))
    if not parts:
        return False
    pattern = re.escape(parts[0])
    for part, following in pairwise(parts):
        are_words = part[-1].isalnum() and following[0].isalnum()
        white_space = r"\s+" if are_words else r"\s*"
        pattern += white_space + re.escape(following)
    # SPACED matches a letter or digit, except in scripts without spaces between words
    not_before = SPACED if parts[0].isalnum() else re.escape(parts[0])
    not_after = SPACED if parts[-1].isalnum() else re.escape(parts[-1])
    stated = regex.compile(f"(?<!{not_before}){pattern}(?!{not_after})", regex.V1)
    return stated.search(unicodedata.normalize("NFC", text.casefold())) is not None


def _has_short_word(wording: str) -> bool:
    """Return True if a wording has a word that may be a part of a name with signs."""
    return any(len(word) <= 3 for word in words(wording))


def _states_with_gaps(text: str, wording: str, language: Language) -> bool:
    """Return True if a sentence of the text has the words of a wording in their order, with a few other
    words between them ("15 days of paid vacation" states "15 days vacation").

    The other words, at most `_MAX_BETWEEN`, are function words such as "of"; if the wording has a number,
    any words. They are never numbers or denials ("not"). Wordings of less than three words, with
    operators, or in a script without spaces are not looked for: False.
    """
    wanted = words(wording)
    if len(wanted) < _MIN_WORDS or _OPERATOR.search(wording) or UNSPACED.search(wording):
        return False
    has_number = any(word[-1].isdigit() for word in wanted)
    allowed = None if has_number else language.function_words  # None: any word
    for sentence in _sentences(text):
        starts = [i for i, word in enumerate(sentence) if word == wanted[0]]
        if any(_has_words_in_order(sentence, start, wanted, allowed) for start in starts):
            return True
    return False


@lru_cache(maxsize=2_000)  # several wordings are searched in a text
def _sentences(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the words of each sentence of a text."""
    return tuple(words(part) for part in _SENTENCE_END.split(text))


def _has_words_in_order(
    sentence: Sequence[str], start: int, wanted: Sequence[str], allowed: Collection[str] | None
) -> bool:
    """Return True if a sentence has the wanted words in their order, from the position `start` on, with
    few other words between them, and no denial ("not") before or between them.

    `allowed` are the words that may be between them; None allows every word that is not a number.
    """
    between: list[str] = []
    position = start
    for word in wanted:
        # search the word, and remember the words that are passed over
        while position < len(sentence) and sentence[position] != word:
            between.append(sentence[position])
            position += 1
        if position == len(sentence) or len(between) > _MAX_BETWEEN:
            return False
        position += 1
    before = sentence[max(0, start - _MAX_BETWEEN) : start]
    if not _DENIALS.isdisjoint([*before, *between]):
        return False
    if any(word[-1].isdigit() for word in between):
        return False
    return allowed is None or all(word in allowed for word in between)


def facts_without_source(dataset: Dataset) -> list[tuple[str, str]]:
    """List the gold facts that no labelled passage of their case holds, as (query_id, fact).

    The passages are the case's evidence or, if it has none, its relevant documents. Cases whose
    passages the corpus does not hold are left out.

    >>> from ragbench.types import Case, Document
    >>> corpus = {"d": Document("d", "Employees get 15 days paid vacation per year.")}
    >>> case = Case("q", "How long?", gold_facts=(("15 days vacation",), ("20 days",)))
    >>> facts_without_source(Dataset("mine", "test", corpus, [case], {"q": {"d": 1}}))
    [('q', '20 days')]
    """
    missing = []
    for case in dataset.cases:
        texts = _labelled_texts(dataset, case)
        for fact in case.gold_facts:
            if texts and not any(stated_facts(text, [fact])[0] for text in texts):
                missing.append((case.query_id, fact[0]))
    return missing


def _labelled_texts(dataset: Dataset, case: Case) -> list[str]:
    """Return the texts of a case's evidence or, if it has none, of its relevant documents; those that
    the corpus has.
    """
    corpus = dataset.corpus
    spans = [span for span in case.evidence if span.doc_id in corpus]
    if spans:
        return [corpus[span.doc_id].full_text[span.start : span.end] for span in spans]
    doc_ids = relevant_ids(dataset.qrels.get(case.query_id, {}))
    return [corpus[doc_id].full_text for doc_id in doc_ids if doc_id in corpus]


ANSWER_MEASURES = ("semantic_similarity", "token_f1", "gold_fact_coverage")


def score_answers(
    dataset: Dataset, answers: Sequence[Answer], *, embedder: str | Embedder = "minilm"
) -> pd.DataFrame:
    """Score answers against the labels of the dataset's cases: columns query_id, measure, value.

    Measures, each in [0, 1], as defined in `ragbench.metrics.answer_similarity`:

    - semantic_similarity and token_f1 to the reference answer, gold_fact_coverage;
      semantic_similarity is unscored for all cases in a language that `embedder` does not know;
    - if any case has keywords: required_keywords (the fraction of a case's keywords that the answer
      contains) and contains_all (1 if it contains all of them, else 0);
    - if any case names okay facts: vital_fact_coverage, the coverage of the other facts.

    The numbers of cited contexts ("[2]") are not part of the answer. Every case has a row for each
    measure, by measure, then in the order of the cases. A case is unscored (NaN; counted by `summarise`,
    left out of its mean) if

    - it lacks the label that the measure needs;
    - its answer is missing or failed (`error` is set, or the outcome is "failed");
    - the system abstained (outcome "no_results" or "blocked"). Means are therefore means *of the
      answers given*; read them together with `n_scored` and `abstention_table`, since a system that
      answers only easy questions has high means;
    - it is unanswerable (expected outcome "no_results" or "blocked"): see `abstention_table`.

    Args:
        dataset: its cases hold `reference_answer`, `gold_facts` and `required_keywords`.
        answers: at most one per case, in any order.
        embedder: a name for `load_embedder`, or an embedder; only loaded if there is something to
            compare.

    >>> from ragbench.types import Answer, Case, Dataset
    >>> case = Case("q1", "When?", reference_answer="It opened in 1889.", gold_facts=(("1889",), ("May", "spring")))
    >>> answer = Answer("q1", "It opened in spring. [1]", contexts=("d#0",))
    >>> scores = score_answers(Dataset("mine", "test", {}, [case], {}), [answer], embedder="wordllama")
    >>> scores.set_index("measure")["value"].drop("semantic_similarity").to_dict()
    {'token_f1': 0.75, 'gold_fact_coverage': 0.5}

    Raises:
        DataError: an answer to a question that the dataset lacks, or two answers to one question.
    """
    rows: dict[str, dict[str, float]] = {}  # query_id -> measure -> value
    compared: dict[str, tuple[str, str]] = {}  # query_id -> answer and reference
    for query_id, (case, answer) in answered_cases(dataset, answers).items():
        text = wording(answer)
        row = {
            "gold_fact_coverage": gold_fact_coverage(text, case.gold_facts),
            "vital_fact_coverage": gold_fact_coverage(text, case.vital_facts),
        }
        if case.required_keywords:
            coverage = keyword_coverage(text, case.required_keywords)
            row["required_keywords"] = coverage
            row["contains_all"] = float(coverage == 1)
        reference = case.reference_answer or ""
        if reference.strip():
            row["token_f1"] = token_f1(text, reference)
            compared[query_id] = (text, reference)
        rows[query_id] = row
    if compared and knows(embedder, answer_language(dataset, answers)):
        similarities = _similarities([*compared.values()], load_embedder(embedder))
        for query_id, similarity in zip(compared, similarities.tolist(), strict=True):
            rows[query_id]["semantic_similarity"] = similarity
    measures = list(ANSWER_MEASURES)
    if any(case.required_keywords for case in dataset.cases):
        measures += ["required_keywords", "contains_all"]
    if any("okay_facts" in case.metadata for case in dataset.cases):
        measures.append("vital_fact_coverage")
    return tidy_cases(dataset.cases, measures, rows)


def _similarities(pairs: Sequence[tuple[str, str]], embedder: Embedder) -> Floats:
    """Return `semantic_similarity` of pairs of texts; each text is encoded once, all in one batch."""
    distinct = list(dict.fromkeys(chain(*pairs)))
    row_of = {text: row for row, text in enumerate(distinct)}
    vectors = np.asarray(embedder.encode(distinct))
    answers = vectors[[row_of[answer] for answer, _ in pairs]]
    references = vectors[[row_of[reference] for _, reference in pairs]]
    return semantic_similarity(answers, references)


def abstention_table(dataset: Dataset, answers: Sequence[Answer]) -> pd.DataFrame:
    """Count the answerable and unanswerable questions that were answered, abstained from, or
    failed.

    Rows "answerable" and "unanswerable" (expected outcome "no_results" or "blocked"), columns
    "answered", "abstained" (outcome "no_results" or "blocked", or an empty text) and "failed" (`error` is set,
    outcome "failed", or no answer at all). The good cells are answerable x answered and
    unanswerable x abstained; the sum is the number of cases.

    >>> from ragbench.types import Answer, Case, Dataset
    >>> cases = [Case("q1", "?"), Case("q2", "?", expected_outcome="no_results"), Case("q3", "?")]
    >>> answers = [Answer("q1", "Yes."), Answer("q2", "Not found.", outcome="no_results")]
    >>> abstention_table(Dataset("mine", "test", {}, cases, {}), answers)
                  answered  abstained  failed
    answerable           1          0       1
    unanswerable         0          1       0
    """
    by_query = answers_by_query(dataset, answers)
    states = ["answered", "abstained", "failed"]
    counts: Counter[tuple[bool, str]] = Counter()
    for case in dataset.cases:
        state = state_of(by_query.get(case.query_id))
        counts[case.answerable, state] += 1
    answerable = [counts[True, state] for state in states]
    unanswerable = [counts[False, state] for state in states]
    return pd.DataFrame(
        [answerable, unanswerable], index=["answerable", "unanswerable"], columns=states
    )


def score_judgements(judgements: Sequence[Judgement]) -> pd.DataFrame:
    """Return judgements as columns query_id, measure, value; by measure, then in the order of the
    judgements.

    A measure is the criterion after "llm_", so that judged and computed measures never share a
    name. Values are in [0, 1]; unscored judgements are NaN.

    >>> score_judgements([Judgement("q1", "correctness", 1.0), Judgement("q2", "correctness", None)])
      query_id          measure  value
    0       q1  llm_correctness    1.0
    1       q2  llm_correctness    NaN

    Raises:
        DataError: a query has several judgements of one criterion, or a value is outside [0, 1].
    """
    rows = []
    for judgement in judgements:
        if judgement.value is not None and not 0 <= judgement.value <= 1:
            raise DataError(
                f"query {judgement.query_id!r}: {judgement.criterion} is {judgement.value}; "
                "expected a value in [0, 1], or None"
            )
        rows.append((judgement.query_id, f"llm_{judgement.criterion}", judgement.value))
    frame = score_frame(rows)
    repeated = frame[frame.duplicated(["query_id", "measure"])]
    for query_id, measure, _ in repeated.itertuples(index=False):
        raise DataError(
            f"query {query_id!r} has several judgements of {measure.removeprefix('llm_')}; score "
            "the judgements of one system at a time"
        )
    order = pd.factorize(frame["measure"])[0].argsort(kind="stable")
    return frame.iloc[order].reset_index(drop=True)


def score_own(
    dataset: Dataset,
    answers: Sequence[Answer],
    measures: Sequence[Measure],
    chunks: Sequence[Chunk] = (),
    documents: Run | None = None,
) -> pd.DataFrame:
    """Score answers and rankings by measures of a user: columns query_id, measure, value; by
    measure, then in the order of cases.

    A value is NaN (unscored) if the question has no answer, its answer failed, or the function of the
    measure returns None. A measure of the level "document" scores rankings: its value is NaN if the
    question has no judgements, or the function returns None. In judgements and rankings the first
    document of each group of `Case.alternatives` stands for the group.

    Args:
        dataset: its cases are the questions.
        answers: at most one per case.
        measures: the measures, each with a function of the user.
        chunks: the chunks that the answers' contexts name.
        documents: the rankings, query_id -> doc_id -> score.

    >>> from ragbench.types import Answer, Case, Dataset
    >>> words = Measure("answer_words", lambda case, answer, contexts: len(answer.text.split()), bounds=(0, None))
    >>> score_own(Dataset("mine", "test", {}, [Case("q", "?")], {}), [Answer("q", "In May.")], [words])
      query_id       measure  value
    0        q  answer_words    2.0

    Raises:
        DataError: a function fails, or returns something else than a number within its bounds or
            None.
    """
    usable = usable_cases(dataset, answers)
    texts = context_texts([answer for _, answer in usable], chunks)
    rows: dict[str, dict[str, float]] = {case.query_id: {} for case in dataset.cases}
    qrels = {}  # judgements of the cases alone
    for query_id, grades in merge_alternatives(dataset, dataset.qrels).items():
        if query_id in rows:
            qrels[query_id] = grades
    run = merge_alternatives(dataset, documents or {})
    for measure in measures:
        if measure.level == "document":
            values = own_ranking_values(measure, run, qrels)
        else:
            values = _own_answer_values(measure, usable, texts)
        for query_id, value in values.items():
            rows[query_id][measure.name] = value
    return tidy_cases(dataset.cases, [measure.name for measure in measures], rows)


def _own_answer_values(
    measure: Measure,
    answered: Iterable[tuple[Case, Answer]],
    texts: Mapping[str, Sequence[str]],
) -> dict[str, float]:
    """Return query_id -> the value of a user's measure of answers; queries for which the measure
    returns None are left out. `texts` are the contexts of each answer.
    """
    values = {}
    for case, answer in answered:
        value = own_value(measure, case.query_id, case, answer, texts[case.query_id])
        if value is not None:
            values[case.query_id] = value
    return values
