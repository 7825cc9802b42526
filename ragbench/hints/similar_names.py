"""Find the name that exists for a name that does not: by its spelling, its words and its meaning.

`hint_of` and its relatives return the end of the sentence that names it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Mapping
from typing import Any

from ragbench.errors import nearest

SYNONYMS = tuple(
    tuple(group.split())
    for group in (
        "value score metric_value",
        "query_id qid question_id case_id sample_id",
        "doc_id docid docno document_id",
        "measure measures metrics metric scores score scorers scorer scoring evaluators evaluator by sort_by",
        "k depth top_k topk top_n limit cutoff n ks size chunk_size max_results n_results cutoffs k_values",
        "folder path file directory dir filename output output_dir output_path destination",
        "baseline a old reference control before base first y_true",
        "contender b new candidate treatment after challenger other second variant y_pred",
        "difference delta diff gain improvement lift uplift effect effect_size",
        "llm model judge generator",
        "system retriever pipeline chain app query_engine engine agent predict predict_fn model_fn target provider "
        "endpoint url service rag bot",
        "embedder model embedding embeddings embedding_model embed_model encoder",
        "dataset data testset test_set test_cases goldens rows samples examples records questions",
        "cases queries questions test_cases goldens",
        "chunks corpus documents docs texts passages",
        "qrels relevance judgements judgments ground_truth labels gold truth y_true",
        "run runs results rankings predictions y_pred y_score",
        "alpha level confidence significance confidence_level",
        "margin tolerance epsilon threshold rope",
        "ci_low ci interval confidence_interval conf_int confidence",
        "p_adjusted p pvalue p_value p_values pvalues significance significant",
        "to_frame to_pandas df to_df to_dataframe as_dataframe frame dataframe",
        "to_dict as_dict asdict json to_json model_dump dict",
        "mean average avg aggregate overall",
        "save export write dump to_file to_disk persist to_pickle",
        "load make create build get new read open init",
        "load fetch download import",
        "answer ask predict query invoke chat respond complete",
        "load read open from_file from_path from_folder from_directory from_disk from_csv from_json "
        "from_hub from_huggingface from_hf",
        "from_dicts from_list from_records from_pandas from_df from_dict",
        "value mean average estimate",
        "choice winner best top selected",
        "contexts sources passages context retrieved_contexts documents",
        "text content question query body page_content string input user_input prompt",
        "n n_questions n_queries n_samples size count total questions",
        "plot chart figure draw visualize visualise",
        "print show display summary text",
        "decision verdict outcome conclusion status passed",
        "arms systems configurations contenders variants candidates",
        "explanation reason rationale comment feedback",
        "list names available choices keys",
        "select subset filter take where query",
        "reference_answer reference answer ground_truth expected expected_output gold",
        "criterion criteria metric metrics measure",
        "name title label model model_name",
        "limit max_questions max_queries max_samples n_questions n_queries n_samples num_questions n sample",
        "concurrency n_jobs workers max_workers num_workers max_concurrency threads parallel batch_size",
        "chunker chunk_strategy chunking strategy splitter",
        "next_step next recommendation recommended advice suggestion",
        "headline message sentence title",
        "rerank_depth rerank_top_k rerank_k rerank_top_n",
        "seed random_state random_seed",
        "max_context_tokens budget_tokens token_budget context_tokens budget",
        "grid grid_file config config_file configuration",
        "timeout_s timeout timeout_ms timeout_seconds",
        "function fn func callable metric_fn score_fn scorer",
        "wins improved improvements fixed",
        "losses regressed regressions worsened",
    )
)
"""Words that people use for one thing; the first of a group that exists is suggested."""

_VERBS = frozenset(
    "get set show load read make create build new compute calculate calc plot draw list print display "
    "view find run from to as is write save export import fetch".split()
)
"""Words at the start of a name that tell less about its meaning than the others."""
_BROAD = frozenset("score test run eval metric csv json jsonl parquet excel".split())
"""Last words of names that tell less about their meaning than the others."""
_ACTIONS = frozenset("plot draw visualize save export write log register wrap".split())
"""Words at the start of a name that tell more about its meaning than the others."""
_VAGUE = frozenset("model type name max min num".split())
"""Words that many names share, which tell nothing about what they have in common."""
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]*[a-z0-9]+|[A-Z]+")
_MAX_NAMES = 20  # in a message


def similar(name: str, known: Iterable[str]) -> str:
    """Return the known name that a name probably means, by its spelling or its sense; "" without one.

    >>> known = ["measures", "depth", "doc_id"]
    >>> [similar(name, known) for name in ("measure", "metric", "top_k", "docId", "colour")]
    ['measures', 'measures', 'depth', 'doc_id', '']
    """
    names = {each.casefold(): each for each in known}
    word = name.casefold()
    return (
        _same_letters(word, names)
        or nearest(name, names.values(), cutoff=0.9)
        or _synonym(word, names)
        or same_words(name, names.values())
        or nearest(name, names.values(), cutoff=0.8)
        or _with_shared_part(name, names)
    )


def _same_letters(word: str, names: Mapping[str, str]) -> str:
    """Return the name that equals a word but for underscores; "" if there is none.

    `names` is known name in lower case -> the name as it is written.
    """
    without_underscores = {each.replace("_", ""): names[each] for each in names}
    return without_underscores.get(word.replace("_", ""), "")


def _synonym(word: str, names: Mapping[str, str]) -> str:
    """Return the name that means the same as a word, by `SYNONYMS`; "" if there is none.

    `names` is known name in lower case -> the name as it is written.
    """
    for group in SYNONYMS:
        if word in group:
            for synonym in group:
                if synonym in names:
                    return names[synonym]
    return ""


def _with_shared_part(name: str, names: Mapping[str, str]) -> str:
    """Return the known name that has a part in common with `name`; "" if none has. The surest kind of
    common part is tried first.

    Args:
        names: known name in lower case -> the name as it is written.
    """
    words = [word for word in words_of(name) if word != "get"]
    words.sort(key=lambda word: word in _VERBS)  # verbs last: they tell less about the meaning
    for word in words:  # a word of it is a known name: load_scores -> "scores"
        if word in names:
            return names[word]
    for known in names:  # it contains a known name: measurename -> "measure"
        if len(known) > 5 and known in name.casefold():
            return names[known]
    telling_words = [word for word in words if len(word) > 2 and word not in _VAGUE]
    for word in telling_words:  # a word of it is a word of a known name: doc -> "doc_id"
        for known in names:
            if word in known.split("_"):
                return names[known]
    for word in telling_words:  # a word of it means a known name: my_metric -> "measures"
        for known in names:
            if _are_synonyms(word, known):
                return names[known]
    return ""


def same_words(name: str, known: Iterable[str]) -> str:
    """Return the known name that means the same word by word: create_judge -> load_llm. A known name
    with the same last word (the noun) is preferred. "" if there is none, or `name` is a single word.

    >>> same_words("create_judge", ["load_dataset", "load_llm", "judge"]), same_words("judge", ["llm"])
    ('load_llm', '')
    """
    words = words_of(name)
    if len(words) < 2:
        return ""
    first_match = ""
    for each in known:
        others = words_of(each)
        if len(others) == len(words) and all(map(_are_synonyms, words, others)):
            if others[-1] == words[-1]:  # the same noun: load_retriever means make_retriever
                return each
            # another noun: taken if no name has the same
            first_match = first_match or each
    return first_match


def last_word(name: str) -> str:
    """Return the last word of a name, which is mostly its noun; "" without one.

    >>> last_word("load_run"), last_word("RecallMetric")
    ('run', 'metric')
    """
    words = words_of(name)
    return words[-1] if words else ""


def words_of(name: str) -> list[str]:
    """Return the words of a name, in lower case.

    >>> words_of("AnswerRelevancyMetric"), words_of("recall_at_k"), words_of("LLMJudge")
    (['answer', 'relevancy', 'metric'], ['recall', 'at', 'k'], ['llm', 'judge'])
    """
    return [part.casefold() for part in _WORD.findall(name)]


def _are_synonyms(word: str, other: str) -> bool:
    """Return True for the same word, in singular or plural, and for two words of a group of `SYNONYMS`."""
    if word.removesuffix("s") == other.removesuffix("s"):
        return True
    return any(word in group and other in group for group in SYNONYMS)


def hint_of(
    name: str, known: Iterable[str], calls: Mapping[str, str], methods: Container[str] = ()
) -> str:
    """Return the end of a sentence about a name that does not exist: the call or the name that the user
    probably meant, else the names that exist; "" if none exists.

    Args:
        name: the name that does not exist.
        known: the names that exist.
        calls: a name that people expect, in lower case -> what to write instead.
        methods: the known names that are methods; the hint shows them with parentheses.

    "delta" is a synonym of "difference" (see `SYNONYMS`):

    >>> hint_of("delta", ["name", "mean"], {"difference": "arm.difference"})
    '; use arm.difference'
    >>> hint_of("means", ["name", "mean"], {}, methods=["mean"])
    "; did you mean 'mean()'?"
    >>> hint_of("colour", ["name", "mean"], {})
    '; it has name, mean'
    """
    names = list(known)
    # a name that exists, a key of `calls`, or "": by the parts of the name, else by its spelling and
    # its synonyms
    meant = _expected_call(name, names, calls) or similar(name, [*names, *calls])
    if meant in calls:
        return f"; use {calls[meant]}"
    if meant in methods:
        method_call = f"{meant}()"
        return f"; did you mean {method_call!r}?"
    if meant:
        return f"; did you mean {meant!r}?"
    if not names:
        return ""
    listed = ", ".join(names[:_MAX_NAMES])
    if len(names) > _MAX_NAMES:
        listed += ", ..."
    return f"; it has {listed}"


def _expected_call(name: str, names: Collection[str], calls: Mapping[str, str]) -> str:
    """Return the key of `calls`, or the known name, that a name means; "" if there is none.

    These are tried in turn:

    1. the whole name, also without "get_";
    2. a known name with nearly the same spelling;
    3. the noun of the name (`_telling_noun`): "kappa" for kappa_score;
    4. the action, which is the first word of the name: "plot" for plot_data.

    Step 3 is left out for a whole name in `SYNONYMS`, such as metric_value: the caller tries its synonyms
    next, which tell more than its noun. A known action goes before a broad noun: plot_score is about
    plotting.

    Args:
        names: the names that exist.
        calls: a name that people expect, in lower case -> what to write instead.

    >>> calls = {"plot": "rb.plots", "kappa": "rb.trust", "score": "rb.score_run"}
    >>> [_expected_call(name, ["save"], calls) for name in ("plot_data", "kappa_score", "my_score", "saves")]
    ['plot', 'kappa', 'score', 'save']
    >>> _expected_call("plot_score", [], calls), _expected_call("metric_value", [], {"value": "result.means"})
    ('plot', '')
    """
    word = name.casefold()
    without_get = word.removeprefix("get_")
    if word in calls:
        return word
    if without_get in calls or (without_get != word and without_get in names):
        return without_get
    misspelt = nearest(name, names, cutoff=0.88)
    if misspelt:
        return misspelt
    first_word = words_of(name)[0] if words_of(name) else ""
    is_action_known = first_word in _ACTIONS and first_word in {*calls, *names}
    noun = _telling_noun(name, calls)
    has_synonyms = any(word in group for group in SYNONYMS)
    is_noun_weaker = has_synonyms or (is_action_known and noun in _BROAD)
    if noun in calls and not is_noun_weaker:
        return noun
    return first_word if is_action_known else ""


def _telling_noun(name: str, calls: Container[str]) -> str:
    """Return the last word of a name, in lower case. If that word is broad, such as "score", the first
    word in `calls` that tells more is returned, if there is one.

    >>> _telling_noun("my_kappa", ["kappa"]), _telling_noun("kappa_score", ["kappa", "score"])
    ('kappa', 'kappa')
    >>> _telling_noun("my_score", ["kappa", "score"])
    'score'
    """
    noun = last_word(name)
    if noun not in _BROAD:
        return noun
    for word in words_of(name):
        if word in calls and word not in _BROAD and word not in _VERBS:
            return word
    return noun


def hint_of_option(option: str, known: Iterable[str], names: Mapping[str, str]) -> str:
    """Return the end of a sentence about an option that a function does not have: the option, or the
    call, to use instead; "." if nothing is similar.

    Args:
        option: the option that the user wrote.
        known: the options of the function.
        names: option that people expect -> the known option with this meaning, the call to use
            instead, or "no option: " and the reason why there is none.
    """
    options = list(known)
    expected_name = option if option in names else similar(option, [*options, *names])
    # an option, a call, "no option: ..." or ""
    advice = names.get(expected_name, expected_name)
    if not advice:
        return "."
    if advice.startswith("no option: "):
        reason = advice.removeprefix("no option: ")
        return f"; leave it out: {reason}."
    is_option = advice.isidentifier()
    if not is_option:
        return f"; use {advice}."
    # `names` may also hold options that only other functions have
    meant = advice if advice in options else similar(option, options)
    return f"; did you mean {meant!r}?" if meant else "."


def hint_of_members(records: Mapping[str, type[Any]], name: str) -> str:
    """Return which attribute of an object to use in place of a function that does not exist, as the end
    of a sentence: "; use ..."; "" if no attribute fits.

    An attribute fits if it has the name of the function, or a word of it that is not a verb: for
    "load_scores" it is `result.scores`, if the class of `result` has an attribute `scores`. Names that
    a class explains by `suggesting` fit too: with `@suggesting(plot="rb.write_report(...)")`, "plot"
    gives "; use rb.write_report(...)".

    Args:
        records: variable -> class of its object, such as "result" -> Result. The first class with a
            fitting attribute counts.
        name: the name of the function.

    >>> hint_of_members({"text": str}, "get_upper")
    '; use text.upper'
    """
    words = [name.casefold(), *(word for word in words_of(name) if word not in _VERBS)]
    for variable, cls in records.items():
        attributes = [each for each in dir(cls) if not each.startswith("_")]
        # attribute in lower case -> how to write it; then those that `suggesting` was given
        expressions = {each.casefold(): f"{variable}.{each}" for each in attributes}
        expressions |= getattr(cls, "_expected_names", {})
        for word in words:
            if word in expressions:
                return f"; use {expressions[word]}"
    return ""
