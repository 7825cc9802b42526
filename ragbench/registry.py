"""The registry of measures: finds a measure by any of its names, with its level, bounds, direction
and labels from measures.toml; the depths and budgets that are measured; a user's measures.

The measures are listed in measures.toml. Nothing is computed here. Tables, reports, targets and
comparisons ask this registry and keep no other lists. A name carries its level: "nDCG@10" and its
family are about documents, "span:nDCG@10" about the chunks that hold gold evidence, "chunk:nDCG@10"
about labelled chunks. Measures judged by a language model are named "llm_...".
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ragbench.errors import ConfigError, check_known, listed, nearest, unknown
from ragbench.extension import check_call, imported, object_name
from ragbench.files import bundled
from ragbench.hints.attributes import Suggesting, suggesting
from ragbench.hints.similar_names import hint_of, words_of
from ragbench.types import Answer, Case

if TYPE_CHECKING:
    import pandas as pd

_DATA = bundled(__file__, "measures.toml")

KS = (1, 3, 5, 10)
"""The depths at which rankings and chunks are measured."""

BUDGETS = (250, 500, 1000, 2000)
"""The tokens of context at which evidence is measured."""

PERSPECTIVES: dict[str, str] = _DATA["perspectives"]
"""Perspectives in the order of a report, with the question that each answers."""

ALIASES: dict[str, str] = _DATA["aliases"]
"""Name of a ranking measure in other tools -> its name here. The mean of RR over queries is MRR."""

_EXPECTED: dict[str, str] = {
    word: measure for measure, words in _DATA["expected"].items() for word in words.split()
}
"""Word of other tools and of users -> the measure that comes nearest to what they mean."""

DESIGN_NAMES: dict[str, str] = _DATA["design_names"]
"""Name in the design of a pipeline -> measure."""

Function = Callable[[Case, Answer, Sequence[str]], "float | None"]
"""A measure of one answer: a function of the question with its labels, the answer and the texts of its
contexts, which returns a value or None.
"""

RankingFunction = Callable[[Sequence[str], Mapping[str, int]], "float | None"]
"""A measure of one ranking: a function of the ids of the documents, best first, and of the grades of the
judged documents by id, which returns a value or None.
"""

_OWN_LEVELS = {"answer": ("case", "answer", "contexts"), "document": ("ranking", "grades")}
"""The level of a user's measure -> the arguments of its function."""


@suggesting()
@dataclass(frozen=True, slots=True)
class Measure(metaclass=Suggesting):
    """The properties of a measure, or of a family of measures: "{k}", "{tokens}" and "{stage}" in a
    name mark a part that varies, as in "nDCG@{k}".

    Your own measure is a name and a function, passed to `evaluate(..., measures=[...])`; from then
    on its name can have a target. The function returns a number within `bounds`, or None if there
    is nothing to score. By its `level` it is called with

    - "answer": the case, the answer and the texts of its context, once per question that was
      answered without failing;
    - "document": the ids of the ranked documents, best first, and the grades of the judged documents
      by id, once per question that has judgements. `score_run` takes such a measure, too.

    `perspective` is one of `PERSPECTIVES`, or "" for a measure that no evaluation reports; `level` is
    the subject of one value ("document", "span", "chunk", "context", "answer", "citation",
    "pipeline", "safety", ...). None in `bounds` means unbounded. `attainable` is True if every test
    set allows the better bound to be reached, `headline` if tables show the measure by default (of a
    family, at the depth of 5). `decides` is False for a heuristic or a description: without a target it
    is shown next to a baseline, and is no regression.

    >>> words = Measure("answer_words", lambda case, answer, contexts: len(answer.text.split()), bounds=(0, None),
    ...                 higher_is_better=False, meaning="words of the answer")
    >>> words.best, measure_of("nDCG@10").best, measure_of("ndcg@10").name
    (0, 1.0, 'nDCG@10')
    """

    name: str
    function: Function | RankingFunction | None = None
    _: KW_ONLY
    perspective: str = "own"
    level: str = "answer"
    meaning: str = ""
    formula: str = ""
    source: str = ""
    bounds: tuple[float | None, float | None] = (0.0, 1.0)
    higher_is_better: bool = True
    labels: tuple[str, ...] = ()
    judged: bool = False
    attainable: bool = True
    headline: bool = False
    decides: bool = True

    def __post_init__(self) -> None:
        """Check and register a measure of the user, which has a function. Fill in the fields of a measure
        that is made from the name of a built-in one alone, as Measure("nDCG@10").

        Any other measure stays as it is; `load_measures` refuses one that nothing computes.

        Raises:
            ConfigError: a name, function or other field is invalid.
        """
        if not isinstance(self.name, str):
            raise ConfigError(
                f"the name of a measure is {self.name!r}; expected rb.Measure('answer_words', function), or the "
                "function alone, as in measures=[function]"
            )
        if self.function is not None:
            _check_own(self)
            declare(self)
            return
        other_fields = fields(self)[1:]  # all but the name, which is the first
        has_name_alone = all(getattr(self, each.name) == each.default for each in other_fields)
        known = find_measure(self.name) if has_name_alone else None  # Measure("nDCG@10")
        if known is not None:
            for each in other_fields:  # the class is frozen: `object` sets them
                object.__setattr__(self, each.name, getattr(known, each.name))

    @property
    def best(self) -> float | None:
        """Return the best possible value on any test set; None if it is unbounded, or depends on the
        chunks.
        """
        if not self.attainable:
            return None
        low, high = self.bounds
        return high if self.higher_is_better else low


def _check_own(measure: Measure) -> None:
    """Refuse a user's measure that could not be computed or shown.

    Raises:
        ConfigError: the function, level, perspective or bounds are invalid.
    """
    what = f"measure {measure.name!r}"
    if not callable(measure.function):
        raise ConfigError(f"{what}: its function is {measure.function!r}; expected a function")
    check_known(f"level of {what}", _OWN_LEVELS, measure.level)
    check_known(f"perspective of {what}", PERSPECTIVES, measure.perspective)
    arguments = _OWN_LEVELS[measure.level]
    check_call(f"the function of {what}", measure.function, *arguments)
    if not _are_bounds(measure.bounds):
        raise ConfigError(
            f"{what}: its bounds are {measure.bounds!r}; expected the lowest and the highest value, "
            "such as (0, 1), or (0, None) for a measure without a highest value"
        )


def _are_bounds(bounds: Any) -> bool:
    """Return True for a pair of numbers, the lower one first; None means unbounded."""
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        return False
    # None: no bound on this side
    numbers = [number for number in bounds if number is not None]
    if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers):
        return False
    return len(numbers) < 2 or numbers[0] < numbers[1]


_OF_RANKINGS = frozenset(
    name.partition("@")[0]
    for group in _DATA["group"]
    if group.get("of_rankings", False)
    for name in group["measures"]
)
"""The measures of whole rankings, without their depth; `ragbench.metrics.ranking_measures` has their formulas."""


def _measures_of_group(group: Mapping[str, Any]) -> list[Measure]:
    """Return the measures of a [[group]] in measures.toml, in its order.

    A group is a table of fields of `Measure` that its measures share, with a table `measures`:
    name -> the fields of this measure alone, or only the text of its meaning. A measure's own field
    replaces the shared one. A group `of_criteria` has a measure for each criterion of a judge.
    """
    # `of_rankings` is not a field of `Measure`; `_OF_RANKINGS` reads it
    no_fields = ("measures", "of_rankings", "of_criteria")
    shared = {key: value for key, value in group.items() if key not in no_fields}
    entries = _entries_of_criteria() if "of_criteria" in group else group["measures"]
    measures = []
    for name, entry in entries.items():
        own = entry if isinstance(entry, dict) else {"meaning": entry}
        fields = {"source": "ragbench", "headline": True, **shared, **own}  # the last one counts
        low, high = fields.pop("bounds", (0.0, 1.0))
        # TOML has no null: inf stands for no bound
        bounds = (None if math.isinf(low) else low, None if math.isinf(high) else high)
        labels = tuple(fields.pop("labels", ()))
        measures.append(Measure(name, bounds=bounds, labels=labels, **fields))
    return measures


def _entries_of_criteria() -> dict[str, dict[str, Any]]:
    """Return the measure of each built-in criterion of a judge -> its fields: measures of answers
    first, then of contexts. The criterion "document", which grades documents, has no measure.
    """
    label_of_need = {"reference": "reference_answer", "facts": "gold_facts"}
    of_answers = {}
    of_contexts = {}
    for name, criterion in bundled(__file__, "judges/criteria.toml").items():
        needs = criterion.get("needs", ())
        entry = {
            "meaning": criterion["meaning"],
            "source": criterion["origin"],
            "labels": [label_of_need[need] for need in needs if need in label_of_need],
            "higher_is_better": criterion.get("higher_is_better", True),
        }
        about = criterion.get("about", "answer")
        if about == "answer":
            of_answers[f"llm_{name}"] = {**entry, "level": "answer"}
        elif about == "contexts":
            of_contexts[f"llm_{name}"] = {**entry, "level": "context"}
    return {**of_answers, **of_contexts}


_TABLE = tuple(chain.from_iterable(map(_measures_of_group, _DATA["group"])))
_RANKING = ("nDCG", "P", "R", "F1", "RR", "AP", "Success")
_TREC = re.compile(r"(ndcg_cut|map_cut|recall|P|success)[_.](\d+)", re.IGNORECASE)
_OPTIONS = re.compile(r"\(([^()]*)\)")
_DEFAULT_OPTIONS = ("rel=1", "p=0.8", "beta=1", "dcg='log2'")
_DOCUMENTS = tuple(measure for measure in _TABLE if measure.name.partition("@")[0] in _RANKING)

_LEVELS = {  # level -> the label that defines relevance, and the ranked items
    "span": ("evidence", "chunks that hold gold evidence"),
    "chunk": ("relevant_chunks", "labelled chunks"),
}

_BUILT_IN = (
    *_DOCUMENTS,
    *(
        replace(
            measure,
            name=f"{level}:{measure.name}",
            level=level,
            labels=(label,),
            meaning=f"{what}: {measure.meaning}",
            headline=measure.headline and level == "chunk",
        )
        for level, (label, what) in _LEVELS.items()
        for measure in _DOCUMENTS
    ),
    *(measure for measure in _TABLE if measure not in _DOCUMENTS),
)

_own: dict[str, Measure] = {}

HEADLINE = tuple(measure.name.replace("{k}", "5") for measure in _BUILT_IN if measure.headline)
"""The measures that a table shows first; another measure is shown if it has a target, or if all are
requested.
"""

BRIEF = tuple(_DATA["shown"]["brief"])
"""The measures that the console shows without -v, in addition to those with a target."""

LEADERBOARD = tuple(_DATA["shown"]["leaderboard"])
"""The measures of a leaderboard; it shows the ones that a sweep has."""

_PARTS = {
    "{k}": r"([1-9][0-9]{0,8})",
    "{tokens}": r"([1-9][0-9]{0,8})",
    "{stage}": r"(.+)",
    "{name}": r"(.+)",
}

# (pattern of the names of its members, the part that varies, the measure): "nDCG@([1-9]...)", "{k}", ...
_FAMILIES = tuple(
    (
        re.compile(re.escape(measure.name).replace(re.escape(part), form), re.IGNORECASE),
        part,
        measure,
    )
    for measure in _BUILT_IN
    for part, form in _PARTS.items()
    if part in measure.name
)
# measures without a varying part, by their folded name
_SINGLE = {measure.name.casefold(): measure for measure in _BUILT_IN if "{" not in measure.name}
# another name in lower case -> ragbench's name
_ALIASES = {other.casefold(): name for other, name in {**ALIASES, **DESIGN_NAMES}.items()}
_declared: ContextVar[Mapping[str, Measure]] = ContextVar("declared", default=MappingProxyType({}))
_UNKNOWN = Measure("", perspective="", bounds=(None, None))


def leaderboard_measures() -> tuple[str, ...]:
    """Return the measures of a leaderboard, then the user's own measures and criteria."""
    return (*LEADERBOARD, *own_names())


def own_names() -> tuple[str, ...]:
    """Return the names of the user's own measures, and of the measures of own criteria."""
    return tuple(_own)


def declare(measure: Measure) -> None:
    """Register a user's measure by its name; a later measure of the same name replaces it.

    Raises:
        ConfigError: the name is invalid, or belongs to a measure of ragbench.
    """
    if not isinstance(measure.name, str) or not re.fullmatch(r"[^\W\d][\w.@-]*", measure.name):
        raise ConfigError(
            f"a measure cannot be named {measure.name!r}; expected a call such as "
            "rb.Measure('answer_words', function)"
        )
    registered = find_measure(measure.name)
    # one of the user's own may be replaced
    if registered is not None and registered.name not in _own:
        raise ConfigError(
            f"{measure.name!r} is a measure of ragbench ({registered.meaning}); give yours another "
            "name"
        )
    _own[measure.name] = measure
    _registered.cache_clear()  # it may remember that no measure has this name


def declaration(measure: Measure) -> dict[str, Any]:
    """Return the fields of a user's measure that a report keeps, from which `Measure(**fields)` makes it
    again, without its function.
    """
    return {
        "name": measure.name,
        "meaning": measure.meaning,
        "source": measure.source,
        "higher_is_better": measure.higher_is_better,
        "bounds": list(measure.bounds),
    }


def load_measures(given: str | Measure | Iterable[str | Measure]) -> tuple[Measure, ...]:
    """Return measures from names ("nDCG@10", also in the forms of trec_eval and ir_measures; several
    with commas between them), from `Measure` objects, and from "package.module:attribute".

    A module is looked for where Python finds it, then in the working directory. A function becomes a
    measure with the function's name.

    Raises:
        ConfigError: a name is unknown, or names something that is not a measure; two measures of the
            user have the same name.
    """
    items: list[str | Measure]
    if isinstance(given, str):
        items = [name.strip() for name in given.split(",")]
    elif isinstance(given, Measure):
        items = [given]
    else:
        items = list(given)
    measure_of_name: dict[str, Measure] = {}
    for item in items:
        if item == "":
            continue
        measure = _load_measure(item)
        # the same measure may be named twice, by its name and an alias
        earlier = measure_of_name.setdefault(measure.name, measure)
        if earlier.function is not measure.function:
            raise ConfigError(f"two measures are named {measure.name!r}; rename one of them")
    return tuple(measure_of_name.values())


def _load_measure(item: Any) -> Measure:
    """Return the measure of one item of `load_measures`: a Measure, a name, an object of ir_measures
    (by its text), or a function.

    Raises:
        ConfigError: the item is none of these.
    """
    if isinstance(item, Measure):
        _check_computable(item)
        return item
    name = str(item).strip()
    registered = find_measure(name)
    if registered is not None:
        return registered
    if isinstance(item, str):
        is_import_name = ":" in name
        if not is_import_name:
            return measure_of(name)  # unknown, as seen above: this raises, with a suggestion
        item = imported(name, "measure")
        if isinstance(item, Measure):
            _check_computable(item)
            return item
    if callable(item):
        # the meaning of the measure
        first_line = (item.__doc__ or "").strip().partition("\n")[0]
        return Measure(object_name(item), item, meaning=first_line, source="user")
    raise ConfigError(
        f"{item!r} is not a measure; expected rb.Measure(name, function), or "
        "'package.module:attribute'"
    )


def _check_computable(measure: Measure) -> None:
    """Raise ConfigError for a measure that nothing computes: it has no function, and its name is not
    built in.
    """
    if measure.function is None and find_measure(measure.name) is None:
        raise ConfigError(
            f"measure {measure.name!r} has no function; write rb.Measure({measure.name!r}, function)"
        )


def measures() -> pd.DataFrame:
    """Return a row per measure or family: measure (the name), level, perspective, meaning, low, high,
    better, labels, judged, source.

    `table["nDCG@10"]` and `table.loc["nDCG@10"]` return the row of a measure as a Series, also of a
    member of a family. Methods such as `set_index` return an ordinary DataFrame.

    >>> measures().set_index("measure").loc["span_recall@{tokens}tok", ["level", "labels", "better"]].tolist()
    ['span', 'evidence', 'higher']
    """
    import pandas as pd

    class MeasureTable(pd.DataFrame):
        @property
        def loc(self) -> Any:
            return _MeasureLocations(super().loc)

        def __contains__(self, key: Any) -> bool:  # type: ignore[misc]
            is_name = isinstance(key, str) and find_measure(key) is not None
            return is_name or super().__contains__(key)

        def __getitem__(self, key: Any) -> Any:
            is_column = not isinstance(key, str) or key in self.columns
            return super().__getitem__(key) if is_column else _table_of([measure_of(key)]).iloc[0]

        def __getattr__(self, name: str) -> Any:  # type: ignore[misc]  # final in the stubs of pandas
            try:
                return super().__getattr__(name)
            except AttributeError:
                if name.startswith("_"):
                    raise
                hint = hint_of(name, list(self.columns), {"name": "rb.measures()['measure']"})
                raise AttributeError(
                    f"the table of measures has no column or attribute {name!r}{hint}", name=name
                ) from None

    return MeasureTable(_table_of([*_BUILT_IN, *_own.values()]))


class _MeasureLocations:
    """`loc` of the table of measures, whose index is numbers; it takes names of measures, too.

    `loc["nDCG@10"]` is the row of the measure, made anew from the registry, and `loc["nDCG@10", "low"]` a
    value in it. A key that does not begin with a text works as in pandas.
    """

    def __init__(self, locations: Any) -> None:
        self._locations = locations

    def __getitem__(self, key: Any) -> Any:
        name, *columns = key if isinstance(key, tuple) else (key,)
        if not isinstance(name, str):
            return self._locations[key]
        row = _table_of([measure_of(name)]).iloc[0]
        return row[columns[0]] if columns else row

    def __setitem__(self, key: Any, value: Any) -> None:
        self._locations[key] = value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._locations, name)


def _table_of(measures: Sequence[Measure]) -> pd.DataFrame:
    """Return a row per measure, with the columns of `measures`."""
    import pandas as pd

    table = pd.DataFrame(list(measures)).rename(columns={"name": "measure"})
    table[["low", "high"]] = [*table["bounds"]]
    table["better"] = table["higher_is_better"].map({True: "higher", False: "lower"})
    table["labels"] = table["labels"].map(", ".join)
    columns = "measure level perspective meaning low high better labels judged source".split()
    return table[columns].astype({"low": "Float64", "high": "Float64"})


@contextmanager
def declared(measures: Iterable[Measure]) -> Iterator[None]:
    """Register measures while the block runs; they take precedence over registered ones of exactly
    these names, since a table of another tool has its own bounds and directions.

    >>> with declared([Measure("nDCG@10", bounds=(0, 100))]):
    ...     bounds_of("nDCG@10")
    (0, 100)
    """
    token = _declared.set({**_declared.get(), **{measure.name: measure for measure in measures}})
    try:
        yield
    finally:
        _declared.reset(token)


def find_measure(name: str) -> Measure | None:
    """Return the measure of this name, in any case and by its other names; for a family the member
    ("nDCG@10" of "nDCG@{k}"). None if it is not registered.

    >>> [found.name if (found := find_measure(name)) else None for name in ("mrr@5", "SPAN:NDCG@3", "claim_suport")]
    ['RR@5', 'span:nDCG@3', None]
    """
    return _declared.get().get(name) or _registered(name)


@lru_cache(maxsize=4096)
def _registered(name: str) -> Measure | None:
    """Return the built-in or registered measure of a name; None if there is none. Measures that are
    known only in a block of `declared` are not found; `find_measure` finds them.

    Names are tried in this order: exactly as one of the user's own measures; with options, as
    "P(rel=2)@5"; by its usual name or an alias, of a single measure or of a family such as "P@{k}"; in
    any case as one of the user's own.
    """
    if name in _own:
        return _own[name]
    options = _OPTIONS.search(name)
    if options:
        name_without_options = _OPTIONS.sub("", name)
        return _with_options(name_without_options, options[1])
    usual_name = _usual_name(name)
    folded_name = usual_name.casefold()
    if folded_name in _SINGLE:
        return _SINGLE[folded_name]
    for pattern, varying_part, family in _FAMILIES:
        match = pattern.fullmatch(usual_name)
        if match:
            return _member_of_family(family, varying_part, match[1])
    # last, so that a built-in measure is found first in any case of letters
    own_by_folded_name = {own_name.casefold(): measure for own_name, measure in _own.items()}
    return own_by_folded_name.get(folded_name)


def _usual_name(name: str) -> str:
    """Return a name with ragbench's word for the measure, and its level and depth as they are:
    "span:R@5" for "span:recall_5" and "span:recall@5".
    """
    with_at = _TREC.sub(r"\1@\2", name)  # trec_eval writes a depth with an underscore
    level, colon, word_and_depth = with_at.rpartition(":")
    word, at, depth = word_and_depth.partition("@")
    usual_word = _ALIASES.get(word.casefold(), word)
    return f"{level}{colon}{usual_word}{at}{depth}"


def _with_options(name: str, options: str) -> Measure | None:
    """Return a ranking measure with options of ir_measures: P(rel=2)@5 for the name "P@5" and the
    options "rel=2". Options with their default value are left out. None if no measure has the name, or
    it is not a ranking measure.
    """
    measure = _registered(name)
    if measure is None or not is_ranking_measure(measure.name):
        return None
    parts = options.replace(" ", "").replace('"', "'").split(",")
    changed = [part for part in parts if part not in _DEFAULT_OPTIONS]
    if not changed:
        return measure
    word, at, depth = measure.name.partition("@")  # "P", "@", "5"; "AP", "", "" without a depth
    return replace(
        measure,
        name=f"{word}({','.join(changed)}){at}{depth}",
        meaning=f"{measure.meaning}; {', '.join(changed)}",
    )


def _member_of_family(family: Measure, varying_part: str, value: str) -> Measure:
    """Return a member of a family: nDCG@10 of "nDCG@{k}", its varying part "{k}" and the value "10"."""
    if ":" not in value:  # package.module:Attribute keeps its capitals
        value = value.lower()
    name = family.name.replace(varying_part, value)
    return replace(
        family,
        name=name,
        meaning=family.meaning.replace(varying_part, value),
        formula=family.formula.replace(varying_part, value),
        headline=name in HEADLINE,
    )


def measure_of(name: str) -> Measure:
    """Return the measure of this name; capital and small letters are the same.

    >>> measure_of("recall@5").name
    'R@5'
    >>> measure_of("claim_suport")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: unknown measure 'claim_suport'; did you mean 'claim_support'? rb.measures() shows all

    Raises:
        ConfigError: no measure has this name; the message gives the nearest name if there is one, or for
            another tool's name of a judged measure the call that asks a judge.
    """
    measure = find_measure(name) if isinstance(name, str) else None
    if measure is None:
        suggestion = _nearest_name(str(name))  # of all measures, and of other tools' names for them
        meant = expected_measure(str(name))  # the measure that other tools call so
        if meant is not None and meant.judged:
            hint = f"; use {call_of_measure(meant)}."  # shows that it needs a judge
        elif suggestion:
            hint = f"; did you mean {suggestion!r}?"
        else:
            hint = "."
        raise ConfigError(f"unknown measure {name!r}{hint} rb.measures() shows all")
    return measure


def _nearest_name(name: str) -> str:
    """Return the name of the measure that an unknown name probably means; "" if no name is near.

    A measure with a depth, such as P@{k}, is suggested at the depth in the unknown name, else at 5.

    >>> [_nearest_name(name) for name in ("P", "P(rel=2)", "token_f1(k=1)", "recall_at_3", "nDGC@3", "colour")]
    ['P@5', 'P(rel=2)@5', 'token_f1', 'R@3', 'nDCG@3', '']
    """
    depth = re.search(r"@([1-9]\d{0,8})", name)
    k = depth[1] if depth else "5"
    name_with_depth = name if depth else f"{name}@{k}"
    name_without_options = re.sub(r"\([^@]*", "", name)
    word = name.partition("@")[0]
    measure = (
        find_measure(name_with_depth)  # "P" is P@5
        or find_measure(name_without_options)  # "token_f1(k=1)" is token_f1
        or expected_measure(f"{word}@{k}")  # a name of another tool: "recall_at_3" is R@3
    )
    if measure is not None:
        return measure.name
    # else a misspelt name: the most similar of all names and aliases (which can be used as names)
    names = [f"{alias}@{k}" for alias in ALIASES]
    names += [re.sub(r"\{\w+\}", k, measure.name) for measure in _BUILT_IN]
    names += _own  # measures that users have registered
    name_of_folded = {candidate.casefold(): candidate for candidate in names}
    return name_of_folded.get(nearest(name.casefold(), name_of_folded), "")


_ENDING = re.compile(r"_?(metrics?|measure|scorer?s?|evaluator)$", re.IGNORECASE)
_EMPTY_WORDS = frozenset("llm at k n get compute".split())
"""Words in the name of a measure that do not tell which measure it is."""


def expected_measure(name: str) -> Measure | None:
    """Return the measure that a name of another tool means, or comes nearest to; None if none does.

    Its depth (the k of R@k) is the number in the name, else 10. A measure without depths, such as RR, is
    returned whatever the number.

    >>> names = ["AnswerRelevancyMetric", "recall_at_3", "hit_rate", "mean_reciprocal_rank", "colour"]
    >>> [measure and measure.name for measure in map(expected_measure, names)]
    ['llm_relevance', 'R@3', 'Success@10', 'RR', None]
    """
    name_without_ending = _ENDING.sub("", name)  # AnswerRelevancy of AnswerRelevancyMetric
    words = [word for word in words_of(name_without_ending) if word not in _EMPTY_WORDS]
    depths = [word for word in words if word.isdecimal() and word[0] != "0"]
    words_without_numbers = [word for word in words if not word.isdecimal()]
    nearest_measure = _EXPECTED.get("_".join(words_without_numbers), "")  # recall -> "R@10"
    if not nearest_measure:
        return find_measure(f"{name}@10")  # the name of a family without its depth, such as "P"
    if depths:
        family = nearest_measure.partition("@")[0]
        at_depth = find_measure(f"{family}@{depths[0]}")
        if at_depth is not None:  # None for a measure without depths, such as RR
            return at_depth
    return find_measure(nearest_measure)


def call_of_measure(measure: Measure) -> str:
    """Return the Python call that computes a measure, as a text for messages.

    >>> call_of_measure(measure_of("nDCG@10")), call_of_measure(measure_of("token_f1"))
    ("rb.score_run(qrels, run, 'nDCG@10')", 'rb.evaluate(data, system), which measures token_f1')
    """
    if measure.name.partition("@")[0] in _OF_RANKINGS:
        return f"rb.score_run(qrels, run, {measure.name!r})"
    call = _call_with_judge(measure) if measure.judged else "rb.evaluate(data, system)"
    return f"{call}, which measures {measure.name}"


def _call_with_judge(measure: Measure) -> str:
    """Return the Python call that computes a measure of a judge."""
    criterion = measure.name.removeprefix("llm_")
    return f"rb.evaluate(data, system, judge='provider:model', criteria=[{criterion!r}])"


def named_among(name: str, known: Iterable[str]) -> str:
    """Return the known name that `name` refers to: the same name, another name of the same measure, or
    the same name with other capital letters.

    >>> named_among("ndcg@10", ["nDCG@10", "my_measure"]), named_among("MY_measure", ["nDCG@10", "my_measure"])
    ('nDCG@10', 'my_measure')
    >>> named_among("nDCG@10", ["ndcg_cut_10"])
    'ndcg_cut_10'

    Raises:
        ConfigError: the name refers to no known one. A measure that ragbench has is then reported as
            missing, not as unknown.
    """
    names = list(known)
    measure = find_measure(name) if isinstance(name, str) else None
    if name in names:
        return name
    if measure is not None and measure.name in names:
        return measure.name
    # of names that differ in capital letters alone the first one counts: it comes last here
    name_of_folded = {candidate.casefold(): candidate for candidate in reversed(names)}
    same_in_other_case = name_of_folded.get(str(name).casefold())
    if same_in_other_case is not None:
        return same_in_other_case
    if measure is not None:
        for candidate in names:
            # Not `find_measure`: while a table of another tool is read, the table's columns are measures
            # of their own (see `declared`), and "ndcg_cut_10" would not be found as nDCG@10.
            other = _registered(candidate)
            if other is not None and other.name == measure.name:
                return candidate
    raise ConfigError(_message_not_measured(name, measure, names))


def _message_not_measured(name: object, measure: Measure | None, names: list[str]) -> str:
    """Return the message of an error: there are no scores of a measure.

    Args:
        name: the name of the measure, as the user wrote it.
        measure: the measure of this name; None for an unknown name.
        names: the measures that have scores.

    >>> _message_not_measured("recall@5", measure_of("R@5"), ["AP"])
    'R@5 was not measured here. Measured: AP'
    >>> _message_not_measured("answer_relevancy", None, ["AP"]).partition(";")[0]
    "unknown measure 'answer_relevancy': llm_relevance was not measured here"
    """
    meant = measure or expected_measure(str(name))
    # the measured one that an unknown name means, such as R@5 for "recall"; "" if there is none
    near = "" if measure else measured_as(str(name), names)
    if meant is None or near:
        return unknown("measure", name, names, near=near)
    subject = meant.name if measure else f"unknown measure {name!r}: {meant.name}"
    similar_name = nearest(name, names)
    if meant.judged:
        hint = f"; it needs a judge, {_call_with_judge(meant)}."
    elif similar_name:
        hint = f"; did you mean '{similar_name}'?"
    else:
        hint = "."
    return f"{subject} was not measured here{hint} Measured: {listed(names)}"


def measured_as(name: str, known: Iterable[str]) -> str:
    """Return the known measure that a name of another tool means; "" if there is none.

    The known measure has the depth k that the name states (else the usual one); if that depth is not
    known, another depth.

    >>> measured_as("recall", ["nDCG@5", "R@5"]), measured_as("recall", ["AP"])
    ('R@5', '')
    """
    meant = expected_measure(name)
    if meant is None:
        return ""
    names = list(known)
    if meant.name in names:
        return meant.name
    family = meant.name.partition("@")[0]
    return next((each for each in names if each.partition("@")[0] == family), "")


def higher_is_better(name: str) -> bool:
    """Return True if a higher value is better, or the measure is unknown.

    >>> [higher_is_better(name) for name in ("nDCG@10", "ngram_redundancy", "latency_total_ms", "latency_in_budget")]
    [True, False, False, True]
    """
    return (find_measure(name) or _UNKNOWN).higher_is_better


def is_heuristic(name: str) -> bool:
    """Return True for a heuristic or a description, which decides only where a target for it is named.

    >>> [is_heuristic(name) for name in ("tfidf_redundancy", "latency_total_ms", "R@5", "llm_relevance")]
    [True, True, False, False]
    """
    return not (find_measure(name) or _UNKNOWN).decides


def is_ranking_measure(name: str) -> bool:
    """Return True if this is the name of a ranking measure, of documents, spans or chunks, at any depth.

    >>> [is_ranking_measure(name) for name in ("F1@7", "span:RR", "recall@5", "claim_support")]
    [True, True, True, False]
    """
    measure = find_measure(name) if isinstance(name, str) else None
    head = _OPTIONS.sub("", measure.name.rpartition(":")[2]) if measure else ""
    return head.partition("@")[0] in _OF_RANKINGS


def bounds_of(name: str) -> tuple[float | None, float | None]:
    """Return the lowest and the highest possible value; None if it is unbounded, or the measure is
    unknown.

    >>> bounds_of("nDCG@10"), bounds_of("cost_usd"), bounds_of("of_my_own")
    ((0.0, 1.0), (0.0, None), (None, None))
    """
    return (find_measure(name) or _UNKNOWN).bounds


def check_limit(name: str, limit: float) -> None:
    """Raise ConfigError for a limit that no value of a measure can cross.

    >>> check_limit("nDCG@10", 0.6)
    >>> check_limit("nDCG@10", 60)
    Traceback (most recent call last):
    ragbench.errors.ConfigError: nDCG@10 lies between 0 and 1; 60 is never crossed

    Raises:
        ConfigError: the limit is outside the measure's bounds.
    """
    lowest, highest = bounds_of(name)
    low = -math.inf if lowest is None else lowest
    high = math.inf if highest is None else highest
    if not low <= limit <= high:
        raise ConfigError(f"{name} lies between {low:g} and {high:g}; {limit:g} is never crossed")


def perspective_of(name: str) -> str:
    """Return the perspective of a measure; "" if it has none, or is unknown.

    >>> [perspective_of(name) for name in ("nDCG@10", "claim_support", "llm_relevance", "correct:empty")]
    ['retrieval', 'groundedness', 'judge', '']
    """
    return (find_measure(name) or _UNKNOWN).perspective


def labels_needed(perspective: str) -> dict[str, str]:
    """Return measure -> the label of a case without which it has no value, for the measures of a
    perspective in measures.toml that need a label.

    >>> labels_needed("pipeline")["latency_in_budget"]
    'latency_budget_ms'
    """
    needed = {}
    for measure in _TABLE:
        if measure.perspective == perspective and measure.labels:
            needed[measure.name] = measure.labels[0]
    return needed


def meaning_of(name: str) -> str:
    """Return a few words about a measure; "" for an unknown one.

    >>> meaning_of("RR")
    '1 / rank of the first relevant item'
    """
    return (find_measure(name) or _UNKNOWN).meaning
