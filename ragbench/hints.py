"""Explain a name or a call that does not exist in one sentence with the right one: attributes of records and
modules, options of functions and methods, constructors.
"""

from __future__ import annotations

import inspect
import re
from abc import ABCMeta
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import partial, update_wrapper, wraps
from types import MappingProxyType, MethodType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, cast, get_args, get_origin

from ragbench.errors import ConfigError, RagbenchError, nearest

Record = TypeVar("Record")
Function = TypeVar("Function", bound=Callable[..., Any])
Value = TypeVar("Value")

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
_TWICE = re.compile(r"multiple values for argument '(\w+)'")
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
    """Return the name with the letters of a word, whatever its underscores; "" without one. `names` is
    the name in lower case -> the name.
    """
    without_underscores = {each.replace("_", ""): names[each] for each in names}
    return without_underscores.get(word.replace("_", ""), "")


def _synonym(word: str, names: Mapping[str, str]) -> str:
    """Return the name that means the same as a word, by `SYNONYMS`; "" without one."""
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
    """Return the end of a sentence about a name that does not exist: the right name or call, else the
    known names.

    Args:
        name: the name that does not exist.
        known: the names that exist.
        calls: a name that people expect, in lower case -> what to write instead.
        methods: the known names that are called.

    >>> hint_of("delta", ["name", "mean"], {"difference": "arm.difference"})
    '; use arm.difference'
    >>> hint_of("means", ["name", "mean"], {}, methods=["mean"])
    "; did you mean 'mean()'?"
    >>> hint_of("colour", ["name", "mean"], {})
    '; it has name, mean'
    """
    names = list(known)
    # a key of `calls` or a name that exists; "" if nothing is near
    near = _expected_call(name, names, calls) or similar(name, [*names, *calls])
    if near in calls:
        return f"; use {calls[near]}"
    if near in methods:
        near += "()"
    if near:
        return f"; did you mean {near!r}?"
    listed = ", ".join(names[:_MAX_NAMES])
    if len(names) > _MAX_NAMES:
        listed += ", ..."
    return f"; it has {listed}" if names else ""


def _expected_call(name: str, names: Collection[str], calls: Mapping[str, str]) -> str:
    """Return the key of `calls`, or the known name, that a name means; "" without one.

    These are tried in turn: the whole name; a known name that is spelt nearly like it; the noun of the
    name (its last word), unless the whole name has synonyms, which tell more; its action (its first
    word).

    Args:
        names: the names that exist.
        calls: a name that people expect, in lower case -> what to write instead.

    >>> calls = {"plot": "rb.plots", "kappa": "rb.trust", "score": "rb.score_run"}
    >>> [_expected_call(name, ["save"], calls) for name in ("plot_data", "kappa_score", "my_score", "saves")]
    ['plot', 'kappa', 'score', 'save']
    """
    word = name.casefold()
    for meant in (word, word.removeprefix("get_")):
        if meant in calls or (meant != word and meant in names):
            return meant
    # a name that exists, misspelt
    near = nearest(name, names, cutoff=0.88)
    if near:
        return near
    words = words_of(name)
    noun = last_word(name)
    if noun in _BROAD:  # such as "score", which tells little: kappa_score is about kappa
        for candidate in words:
            if candidate in calls and candidate not in _BROAD | _VERBS:
                noun = candidate
                break
    action = words[0] if words else ""
    # such as "plot" in plot_data
    is_action = action in _ACTIONS and action in {*calls, *names}
    has_synonyms = any(word in group for group in SYNONYMS)
    if noun in calls and not has_synonyms and not (is_action and noun in _BROAD):
        return noun
    return action if is_action else ""


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


class Suggesting(ABCMeta):
    """The metaclass of classes that explain a missing attribute of the class itself, such as from_csv."""

    _refuse: Callable[[Any, str], Any]

    if not TYPE_CHECKING:  # for which every attribute would exist

        def __getattr__(cls, name: str) -> Any:
            if name.startswith("_"):
                return type.__getattribute__(cls, name)
            return cls._refuse(cls, name)


def no_call(name: str) -> str:
    """Return "": the name means no further call."""
    return ""


def suggesting(
    as_frame: str = "",
    instead: str = "",
    further_call: Callable[[str], str] = no_call,
    /,
    **calls: str,
) -> Callable[[type[Record]], type[Record]]:
    """Return a class decorator that explains two mistakes: reading an attribute that objects of the class
    lack, and calling the class or a method with arguments that do not fit.

    If `Suggesting` is the metaclass, attributes that are read from the class itself are explained, too.

    Args:
        as_frame: the call that returns such an object as a DataFrame, on which methods of pandas
            work.
        instead: the call that makes such an object, if users do not call the class.
        further_call: returns the call that a name outside of `calls` means, "" if it means none.
        calls: an attribute that people expect, in upper or lower case -> the call to write instead;
            for dataclasses `to_dict` is in it.

    >>> @suggesting("result.to_frame()", "rb.evaluate(data, system)", plot="rb.write_report(result, 'report.html')")
    ... class Result:
    ...     scores = 1
    ...     def __init__(self, name): ...
    ...     def compare(self, other): ...
    >>> result = Result("new")
    >>> result.score
    Traceback (most recent call last):
    AttributeError: Result has no attribute 'score'; did you mean 'scores'?
    >>> result.plot
    Traceback (most recent call last):
    AttributeError: Result has no attribute 'plot'; use rb.write_report(result, 'report.html')
    >>> result.sort_values
    Traceback (most recent call last):
    AttributeError: Result has no attribute 'sort_values'; use result.to_frame().sort_values
    >>> Result()
    Traceback (most recent call last):
    ragbench.errors.ConfigError: Result: missing a required argument: 'name'. Use rb.evaluate(data, system)
    >>> result.compare(b=result)
    Traceback (most recent call last):
    ragbench.errors.ConfigError: Result.compare has no option 'b'; did you mean 'other'? Expected compare(other)
    """

    def decorated(cls: type[Record]) -> type[Record]:
        if is_dataclass(cls) and not hasattr(cls, "to_dict"):
            calls.setdefault("to_dict", "dataclasses.asdict(record)")
        hints = _Hints(cls, as_frame, further_call, calls)

        def missing(record: Record, name: str) -> Any:
            if name.startswith("_") or name in dir(cls):  # a property raised the error
                return object.__getattribute__(record, name)
            return hints.refuse_attribute(record, name)

        cls._expected_names = calls  # type: ignore[attr-defined]
        cls.__getattr__ = missing  # type: ignore[attr-defined]
        owner: Any = cls
        if is_dataclass(cls) and not hasattr(cls, "__getitem__"):
            owner.__getitem__ = lambda record, key: hints.refuse_key(key)
        if isinstance(owner, Suggesting):
            owner._refuse = staticmethod(hints.refuse_attribute)
        _explain_methods(cls, instead)
        return cls

    return decorated


@dataclass(frozen=True)
class _Hints:
    """The errors about a class that `suggesting` decorates; the fields are its arguments."""

    cls: type[Any]
    as_frame: str
    further_call: Callable[[str], str]
    calls: Mapping[str, str]

    def refuse_attribute(self, owner: Any, name: str) -> Any:
        """Raise AttributeError with what to write instead of an attribute that does not exist; `owner`
        is the class or one of its objects.
        """
        raise AttributeError(
            f"{self.cls.__name__} has no attribute {name!r}{self._hint_of_attribute(owner, name)}",
            name=name,
            obj=None,
        )

    def _hint_of_attribute(self, owner: Any, name: str) -> str:
        """Return what to use in place of an attribute that an object or its class (`owner`) lacks, such
        as "; use result.to_frame().sort_values".
        """
        if name.casefold() not in self.calls:
            call = self.further_call(name)
            if call:
                return f"; use {call}"
            is_object = owner is not self.cls
            # `_is_of_frames`: pandas' frames have this name, such as sort_values
            if self.as_frame and is_object and _is_of_frames(name):
                return f"; use {self.as_frame}.{name}"
        public = [attribute for attribute in dir(owner) if not attribute.startswith("_")]
        methods = [
            attribute for attribute in public if callable(getattr(self.cls, attribute, None))
        ]
        return hint_of(name, public, self.calls, methods)

    def refuse_key(self, key: Any) -> Any:
        """Raise TypeError with what to write instead of `record[key]`."""
        hint = ""
        if isinstance(key, str) and not key.startswith("_"):
            is_attribute = key in dir(self.cls)
            hint = f"; use .{key}" if is_attribute else hint_of(key, [], self.calls)
        raise TypeError(f"{self.cls.__name__} is a record, not a dict{hint}")


def _explain_methods(cls: type[Any], instead: str) -> None:
    """Make the constructor, the public methods and the class methods of a class explain calls that do
    not fit; `instead` is the call to write in place of the constructor.
    """
    for name, member in list(vars(cls).items()):
        qualified_name = f"{cls.__name__}.{name}"
        if isinstance(member, classmethod) and not explains_calls(member):
            explained = classmethod(_with_explained_errors(member.__func__, qualified_name, {}))
            setattr(cls, name, explained)
        elif inspect.isfunction(member) and not name.startswith("_"):
            is_explained = explains_calls(member)
            function = (
                member if is_explained else _with_explained_errors(member, qualified_name, {})
            )
            setattr(cls, name, _Method(function))
    if cls.__init__ is not object.__init__:
        cls.__init__ = _with_explained_errors(cls.__init__, cls.__name__, {}, instead)


class _Method:
    """A method in its class; read from an object it is a `_BoundMethod`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(cast(Any, self), function)
        self._function = function

    def __get__(self, record: Any, cls: type[Any] | None = None) -> Any:
        return self._function if record is None else _BoundMethod(self._function, record)


class _BoundMethod:
    """A method of an object, which names the call if it is used like the value that it returns.

    >>> @suggesting()
    ... class Results:
    ...     def leaderboard(self): ...
    >>> Results().leaderboard.sort_values
    Traceback (most recent call last):
    AttributeError: leaderboard is a method: write leaderboard().sort_values
    >>> Results().leaderboard["name"]
    Traceback (most recent call last):
    TypeError: leaderboard is a method: write leaderboard()['name']
    """

    def __init__(self, function: Callable[..., Any], record: Any) -> None:
        update_wrapper(self, function)
        self.__func__, self.__self__ = function, record

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(MethodType(self.__func__, self.__self__))

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.__func__(self.__self__, *arguments, **options)

    def __getattr__(self, name: str) -> Any:
        method = "" if name.startswith("_") else self.__func__.__name__
        hint = f"{method} is a method: write {method}().{name}" if method else name
        raise AttributeError(hint, name=name)

    def __getitem__(self, key: Any) -> Any:
        method = self.__func__.__name__
        at = "" if key == 0 else f"[{key!r}]"  # 0: a loop
        raise TypeError(f"{method} is a method: write {method}(){at}")

    def __eq__(self, other: object) -> bool:
        return MethodType(self.__func__, self.__self__) == other

    def __hash__(self) -> int:
        return hash(MethodType(self.__func__, self.__self__))

    def __repr__(self) -> str:
        return repr(MethodType(self.__func__, self.__self__))

    def __reduce__(self) -> Any:
        return getattr, (self.__self__, self.__func__.__name__)


class _PropertyValue:
    """A dict, list or tuple that a record holds (`property_value`).

    `_expression` is what users write for it, such as "result.means"; `_calls` is an attribute that people
    expect -> what to write instead; `_plain` is dict, list or tuple.
    """

    _expression = "this"
    _calls: Mapping[str, str] = MappingProxyType({})
    _plain: type

    if not TYPE_CHECKING:  # for which every attribute would exist

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError with a hint: an entry of the dict, or a method of pandas, that the
            user probably means. Python calls this for an attribute that does not exist.
            """
            if name.startswith("_"):
                raise AttributeError(name)
            written = self._expression  # in the code of the user, such as "result.means"
            hint = self._calls.get(name, "")  # what to write instead
            is_dict = isinstance(self, dict)
            if not hint and is_dict and name in self:
                hint = f"{written}[{name!r}]"
            if not hint and _is_of_frames(name):
                # a dict of numbers is a Series, one of dicts a table
                is_flat = is_dict and not any(isinstance(each, Mapping) for each in self.values())
                hint = f"pd.{'Series' if is_flat else 'DataFrame'}({written}).{name}"
            if not hint and is_dict:
                # a key like it
                near = similar(name, filter(_is_name, self))
                hint = f"{written}[{near!r}]" if near else ""
            use = f"; use {hint}" if hint else ""
            raise AttributeError(f"{written} is a {self._plain.__name__}{use}", name=name)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        kind = self._plain.__name__
        raise TypeError(
            f"{self._expression} is a {kind}, not a function: leave out the parentheses"
        )

    def __reduce__(self) -> Any:
        made = partial(property_value, expression=self._expression, **self._calls)
        return made, (self._plain(self),)


class _PropertyDict(_PropertyValue, dict[Any, Any]):
    _plain = dict


class _PropertyList(_PropertyValue, list[Any]):
    _plain = list


class _PropertyTuple(_PropertyValue, tuple[Any, ...]):
    _plain = tuple


_PROPERTY_TYPES: Mapping[type, Any] = {
    dict: _PropertyDict,
    list: _PropertyList,
    tuple: _PropertyTuple,
}


for _plain, _explained_type in _PROPERTY_TYPES.items():
    _explained_type.__name__ = _plain.__name__  # which messages show


def property_value(values: Value, expression: str, **calls: str) -> Value:
    """Return a copy of a dict, list or tuple that names the right call if it is called, or if an attribute is
    read which it lacks; any other value as it is.

    Args:
        values: what an attribute of a record holds.
        expression: what users write for it.
        calls: an attribute that people expect -> the call to write instead.

    >>> settings: Any = property_value({"judge": "gpt"}, "result.settings")
    >>> settings.judge
    Traceback (most recent call last):
    AttributeError: result.settings is a dict; use result.settings['judge']
    >>> settings.head
    Traceback (most recent call last):
    AttributeError: result.settings is a dict; use pd.Series(result.settings).head
    >>> settings()
    Traceback (most recent call last):
    TypeError: result.settings is a dict, not a function: leave out the parentheses
    """
    explained = _PROPERTY_TYPES.get(type(values))
    # another type, which is returned unchanged
    if explained is None:
        return values
    value = explained(values)
    value._expression, value._calls = expression, calls
    return cast(Value, value)


def _is_name(key: Any) -> bool:
    """Return True for a key that could be written as an attribute."""
    return isinstance(key, str) and key.isidentifier()


def _is_of_frames(name: str) -> bool:
    """Return True if frames of pandas have this public attribute, such as "sort_values"."""
    import pandas as pd

    return not name.startswith("_") and hasattr(pd.DataFrame, name)


def compared_by(call: str) -> Callable[[type[Record]], type[Record]]:
    """Return a class decorator: the operators -, <, <=, > and >= of objects of the class raise
    TypeError, which names the call that compares them.

    >>> @compared_by("rb.compare(a, b)")
    ... class Result: ...
    >>> Result() > Result()
    Traceback (most recent call last):
    TypeError: objects of Result have no order and no difference; use rb.compare(a, b)
    """

    def decorated(cls: type[Record]) -> type[Record]:
        def refuse(record: Record, other: Any) -> Any:
            raise TypeError(
                f"objects of {cls.__name__} have no order and no difference; use {call}"
            )

        for operator in ("__sub__", "__lt__", "__le__", "__gt__", "__ge__"):
            setattr(cls, operator, refuse)
        return cls

    return decorated


def made_by(call: str) -> Callable[[type[Record]], type[Record]]:
    """Return a class decorator for a protocol: calling the protocol itself raises ConfigError, which
    names `call`; subclasses make their objects as usual.

    >>> @made_by("rb.make_retriever('bm25', chunks)")
    ... class Retriever: ...
    >>> Retriever("bm25")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: Retriever is a protocol, not an object; use rb.make_retriever('bm25', chunks)
    """

    def decorated(protocol: type[Record]) -> type[Record]:
        def new(cls: type[Any], *arguments: Any, **options: Any) -> Any:
            if cls is protocol:
                raise ConfigError(f"{cls.__name__} is a protocol, not an object; use {call}")
            return object.__new__(cls)

        protocol.__new__ = new  # type: ignore[method-assign]
        return protocol

    return decorated


def explaining_calls(instead: str = "", /, **names: str) -> Callable[[Function], Function]:
    """Make a function explain a call that does not fit its parameters, in one sentence.

    Args:
        instead: the call to write in its place; "" shows the parameters.
        names: option that people expect -> the option with this meaning, or the call to write
            instead.

    >>> @explaining_calls(queries="a list")
    ... def search(query, *, depth=10):
    ...     return query
    >>> search("cats", top_k=3)
    Traceback (most recent call last):
    ragbench.errors.ConfigError: search has no option 'top_k'; did you mean 'depth'? Expected search(query, depth=...)
    >>> search()
    Traceback (most recent call last):
    ragbench.errors.ConfigError: search: missing a required argument: 'query'. Expected search(query, depth=...)
    >>> @explaining_calls()
    ... def save(scores: dict, path: str):
    ...     return path + str(scores.keys())
    >>> save("scores.json", {})
    Traceback (most recent call last):
    ragbench.errors.ConfigError: save: scores is str, expected dict. Expected save(scores, path)
    """

    def decorated(function: Function) -> Function:
        return _with_explained_errors(
            function, getattr(function, "__qualname__", ""), names, instead
        )

    return decorated


def explains_calls(function: Any) -> bool:
    """Return True for a function that explains calls that do not fit its parameters."""
    return hasattr(function, "_explains_calls")


def _with_explained_errors(
    function: Function, name: str, names: Mapping[str, str], instead: str = ""
) -> Function:
    """Return a function that calls `function`, and raises ConfigError, with one sentence, for a call that
    does not fit. Errors of ragbench, and errors whose cause is not in the arguments, are raised unchanged.

    Args:
        name: of the function, in the sentence.
        names: option that people expect -> the option with this meaning, or what to call instead.
        instead: the call that users should write instead, for the sentence; "" shows the parameters.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def explained(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except (TypeError, AttributeError) as exc:
            # "" if the call fits the parameters; then their types may be wrong
            problem = _misfit(signature, name, names, arguments, options)
            if not problem:
                problem = _wrong_type(function, signature, name, arguments, options)
            is_by_arguments = problem != ""
            if not is_by_arguments or isinstance(exc, RagbenchError):
                raise
        way_out = f"Expected {name.rpartition('.')[2]}({_shown_parameters(signature)})"
        if instead:
            way_out = f"Use {instead}"
        raise ConfigError(f"{problem} {way_out}")

    explained._explains_calls = True  # type: ignore[attr-defined]
    return cast(Function, explained)


def _misfit(
    signature: inspect.Signature,
    name: str,
    names: Mapping[str, str],
    arguments: tuple[Any, ...],
    options: Mapping[str, Any],
) -> str:
    """Return a sentence on why a call does not fit a signature; "" if it fits (its error then has
    another cause).

    Args:
        name: of the function, in the sentence.
        names: option that people expect -> the option with this meaning, or what to call instead.
        arguments, options: those of the call.
    """
    try:
        signature.bind(*arguments, **options)
    except TypeError as exc:
        # what Python says is wrong, such as "missing a required argument: 'query'"
        reason = str(exc)
    else:
        return ""
    known = [each for each in signature.parameters if each not in ("self", "cls")]
    required = [each.name for each in signature.parameters.values() if each.default is each.empty]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    for option in options:
        # a function with **options takes any name; one like a required parameter is a misspelling
        is_possible = option in known or (takes_any and not similar(option, required))
        if option in names or not is_possible:
            return f"{name} has no option {option!r}{hint_of_option(option, known, names)}"
    twice = _TWICE.fullmatch(reason)
    if twice:
        reason = f"{twice[1]} is given twice, by its place and by its name"
    return f"{name}: {reason}."


def hint_of_option(option: str, known: Iterable[str], names: Mapping[str, str]) -> str:
    """Return the end of a sentence about an option that a function does not have: the option, or the
    call, to use instead; "." if nothing is similar.

    Args:
        option: the option that the user wrote.
        known: the options of the function.
        names: option that people expect -> the known option with this meaning, the call to use
            instead, or "no option: " and the reason why there is none.
    """
    near = names.get(option) or similar(option, [*known, *names])
    near = names.get(near, near)  # `similar` may return a key of `names`, whose meaning is wanted
    if near.isidentifier():  # an option; else a call, or why there is no such option
        return f"; did you mean {near!r}?"
    reason = near.removeprefix("no option: ")
    if reason != near:
        return f"; leave it out: {reason}."
    return f"; use {near}." if near else "."


def _wrong_type(
    function: Any,
    signature: inspect.Signature,
    name: str,
    arguments: tuple[Any, ...],
    options: Mapping[str, Any],
) -> str:
    """Return a sentence with the first argument of a call that is not of its annotated type; "" if all
    are, or their annotations cannot be read.
    """
    for parameter, value in signature.bind(*arguments, **options).arguments.items():
        annotation = signature.parameters[parameter].annotation
        types = _types_in(annotation, function.__globals__)
        if types and not isinstance(value, types):
            names = dict.fromkeys(each.__name__ for each in types)  # each name once
            expected = " or ".join(names)
            return f"{name}: {parameter} is {type(value).__name__}, expected {expected}."
    return ""


def _types_in(annotation: Any, namespace: Mapping[str, Any]) -> tuple[type[Any], ...]:
    """Return the classes that an annotation allows, for `isinstance`; () if these are not all that it
    allows (such as for a protocol or `Any`), or if it cannot be read.

    Args:
        annotation: a class, a union, or the text of one.
        namespace: name -> value, for the names in a text.

    >>> _types_in("str | None", {}), _types_in(float, {}), _types_in(Any, {})
    ((<class 'str'>, <class 'NoneType'>), (<class 'float'>, <class 'int'>), ())
    """
    if annotation is inspect.Parameter.empty:
        return ()
    if isinstance(annotation, str):
        try:
            # annotations are texts under `from __future__ import annotations`; they are of ragbench alone
            annotation = eval(annotation, dict(namespace))
        except (NameError, AttributeError, TypeError, SyntaxError):
            return ()
    if isinstance(annotation, UnionType) or get_origin(annotation) is Union:
        parts = [_types_in(part, namespace) for part in get_args(annotation)]
        if not all(parts):  # one part allows other classes
            return ()
        return tuple(each for part in parts for each in part)
    if annotation is None:
        return (type(None),)
    kind = get_origin(annotation) or annotation  # list for list[str]
    if not isinstance(kind, type) or kind is Any or getattr(kind, "_is_protocol", False):
        return ()
    return (float, int) if kind is float else (kind,)  # an int is accepted as a float


def _shown_parameters(signature: inspect.Signature) -> str:
    """Return the parameters of a function in a line, those with a default as name=...

    >>> _shown_parameters(inspect.signature(lambda texts, *, depth=10, **options: None))
    'texts, depth=..., **options'
    """
    texts = []
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            texts.append(str(parameter).partition(":")[0])
        elif parameter.default is parameter.empty:
            texts.append(parameter.name)
        else:
            texts.append(f"{parameter.name}=...")
    return ", ".join(texts)
