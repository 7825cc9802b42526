"""`Criterion`: which fields, levels and forms the question to a judge may have, checked, and how a
user's criteria are read and registered; the built-in ones are in criteria.toml.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ragbench.errors import ConfigError, check_known, unknown
from ragbench.extension import check_call, imported, object_name
from ragbench.files import bundled, expanded, read_toml
from ragbench.hints.attributes import Suggesting, suggesting
from ragbench.registry import Measure, declare
from ragbench.testsets.snapshot import as_at_sweep_start
from ragbench.types import Answer, Case

Function = Callable[[Case, Answer, Sequence[str]], Any]
"""A computed criterion: a function of the question with its labels, the answer and the texts of its
contexts. It returns a value, or (value, reason); a value of None is unscored.
"""

NEEDS = ("reference", "contexts", "facts")
"""The material that a judge can be shown in addition to the question and the answer."""

FORMS = ("level", "score", "grade", "claims", "statements", "documents", "facts")
"""The forms of a reply. "level" is the word of a level; each other form belongs to a built-in
criterion.
"""

SUPPORT_FORMS = ("claims", "statements")
"""The forms of the criteria that check what the contexts support; for them, the earlier turns of a
conversation are one more document.
"""

_WITH_LEVELS = ("level", "score", "grade")
_OF_EXAMPLES = ("question", "contexts", "reference", "answer", "reason", "verdict")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}", re.IGNORECASE)
_YES_NO: Mapping[str, float] = MappingProxyType({"yes": 1.0, "no": 0.0})
_HINT = "a file of criteria holds tables such as [politeness] with question and levels"


@suggesting(
    "",
    "rb.Criterion('politeness', 'Is the answer polite?', {'yes': 1, 'partly': 0.5, 'no': 0})",
    **dict.fromkeys(
        "score evaluate judge measure_answers run".split(),
        "rb.evaluate(rows, judge='provider:model', criteria=[criterion])",
    ),
    prompt="criterion.question",
)
@dataclass(frozen=True, eq=False)
class Criterion(metaclass=Suggesting):
    """A question to a judge about an answer; its scores are the measure `llm_<name>`.

    The judge chooses one of `levels`, whose values are from 0 to 1. A level of None (in TOML `nan`)
    has no value: an answer that gets it is unscored, and listed. A criterion with a `function` asks
    no model: the function is called with the case, the answer and the texts of its contexts, and
    returns a value, or (value, reason); a value of None is unscored.

    As with the built-in criteria, answers that failed and abstentions are not judged.

    Args:
        name: letters, digits and underscores.
        question: the question to the judge.
        levels: the verdicts and their values.
        needs: material that the judge is shown in addition to question and answer: "reference",
            "contexts", "facts". An answer without it is unscored.
        examples: judged examples that the judge is shown; each has a "verdict", and optionally
            "question", "contexts", "reference", "answer" and "reason".
        function: computes the value in place of a judge.
        anchors: level -> when it is right.
        higher_is_better: False if 1 is the worst value, as for "toxicity".
        meaning: a few words for tables; the first sentence of the question unless given.
        optional: material that the judge is shown if it exists; as `needs`, but an answer without it
            is judged.
        about: "answer", or "contexts" for a criterion that does not look at the answer.
        form: the form of the reply, for other wordings of the built-in criteria (see `FORMS`).
        max_tokens: maximum of the reply.
        origin: the source of the question.
        wording_of: the criterion of which this is another wording, as `ragbench tune` writes it:
            labels by that criterion count for this one, and an audit tests it by the same probes.

    >>> polite = Criterion("politeness", "Is the answer polite?", {"yes": 1, "partly": 0.5, "no": 0})
    >>> polite.measure.name, polite.values
    ('llm_politeness', {'yes': 1.0, 'partly': 0.5, 'no': 0.0})

    Raises:
        ConfigError: a name, level or example cannot be used; the message names it.
    """

    name: str
    question: str = ""
    levels: Mapping[str, float | None] = field(default_factory=lambda: _YES_NO)
    needs: Sequence[str] = ()
    examples: Sequence[Mapping[str, str]] = ()
    function: Function | None = None
    _: KW_ONLY
    anchors: Mapping[str, str] = field(default_factory=dict)
    higher_is_better: bool = True
    meaning: str = ""
    optional: Sequence[str] = ()
    about: str = "answer"
    form: str = "level"
    max_tokens: int = 300
    origin: str = ""
    wording_of: str = ""

    def __post_init__(self) -> None:
        """Check the fields, and bring levels, anchors and examples into their form.

        Raises:
            ConfigError: a field cannot be used; the message names the criterion and the field.
        """
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"a criterion cannot be named {self.name!r}; write letters, digits and underscores, and "
                "then the question, as in rb.Criterion('politeness', 'Is the answer polite?')"
            )
        where = f"criterion {self.name!r}"
        self._check_question_or_function(where)
        self._check_options(where)
        # the class is frozen: `_set` sets a field nevertheless
        self._set("levels", _checked_levels(self.levels, where))
        self._set("needs", tuple(self.needs))
        self._set("optional", tuple(self.optional))
        self._set("anchors", {_level_name(name): text for name, text in self.anchors.items()})
        check_known(f"level of {where}", self.levels, *self.anchors)
        self._set("examples", _checked_examples(self.examples, self.levels, where))
        if self.examples and self.form not in _WITH_LEVELS:
            raise ConfigError(f"{where}: examples go with levels, and form is {self.form!r}")

    def _check_question_or_function(self, where: str) -> None:
        """Raise ConfigError without a question for a judge, or with a function that cannot be called."""
        if self.function is None:
            if not isinstance(self.question, str) or not self.question.strip():
                raise ConfigError(f"{where} has no question; state what the judge decides")
            return
        if not callable(self.function):
            raise ConfigError(f"{where}: function is {self.function!r}; expected a function")
        check_call(f"the function of {where}", self.function, "case", "answer", "contexts")

    def _check_options(self, where: str) -> None:
        """Raise ConfigError if an option has an unknown value or another type."""
        if not isinstance(self.higher_is_better, bool):
            raise ConfigError(
                f"{where}: higher_is_better is {self.higher_is_better!r}; expected true or false"
            )
        if type(self.max_tokens) is not int or self.max_tokens < 1:  # True is no number here
            raise ConfigError(f"{where}: max_tokens is {self.max_tokens!r}; expected 1 or more")
        for words in (self.needs, self.optional):
            if isinstance(words, str):
                raise ConfigError(f"{where}: {words!r} is a text; expected a list of {NEEDS}")
            check_known(f"need of {where}", NEEDS, *words)
        check_known(f"form of {where}", FORMS, self.form)
        check_known(f"about of {where}", ("answer", "contexts", "document"), self.about)
        if not isinstance(self.wording_of, str):
            raise ConfigError(f"{where}: wording_of is {self.wording_of!r}; expected a name")

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # the class is frozen

    @property
    def values(self) -> dict[str, float]:
        """Return the levels with a value."""
        return {name: value for name, value in self.levels.items() if value is not None}

    @property
    def shows(self) -> frozenset[str]:
        """Return the parts of the material that a judge sees."""
        parts = {*self.needs, *self.optional}
        if self.about == "answer":
            parts.add("answer")
        return frozenset(parts)

    @property
    def is_own(self) -> bool:
        """Return True unless this is a built-in criterion."""
        return BUILT_IN.get(self.name) is not self

    @property
    def meant(self) -> str:
        """Return the name of the criterion whose meaning this has: `wording_of`, else its own name."""
        return self.wording_of or self.name

    @property
    def measure(self) -> Measure:
        """Return the measure of this criterion's scores, named llm_<name>. Its meaning is the criterion's,
        else the first sentence of its question.
        """
        first_sentence = self.question.partition("?")[0].partition(". ")[0].strip()
        bounds = (0.0, 1.0)
        if self.form in _WITH_LEVELS and self.function is None:
            bounds = (min(self.values.values()), max(self.values.values()))
        # the labels of a case that it needs
        label_of_need = {"reference": "reference_answer", "facts": "gold_facts"}
        labels = tuple(label_of_need[need] for need in self.needs if need in label_of_need)
        return Measure(
            f"llm_{self.name}",
            perspective="judge",
            level="answer" if self.about == "answer" else "context",
            meaning=self.meaning or first_sentence or self.name,
            source="a criterion of the user",
            bounds=bounds,
            higher_is_better=self.higher_is_better,
            labels=labels,
            judged=True,
        )

    @property
    def declaration(self) -> dict[str, Any]:
        """Return the criterion as plain data, as in the tables of a file; a function becomes its name
        and the SHA-256 of its source. Empty fields are left out.
        """
        plain: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "function" and value is not None:
                value = _function_identity(value)
            elif isinstance(value, Mapping):
                value = dict(value)
            elif isinstance(value, tuple):
                value = [dict(item) if isinstance(item, Mapping) else item for item in value]
            is_empty = value in (None, "", [], {})
            if not is_empty:
                plain[each.name] = value
        return plain

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the declaration, all that decides a verdict."""
        text = json.dumps(self.declaration, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _level_name(name: object) -> str:
    """Return the name of a level as a judge writes it.

    >>> _level_name(True), _level_name(3), _level_name("partly ")
    ('true', '3', 'partly')
    """
    return str(name).lower() if isinstance(name, bool) else str(name).strip()


def _checked_levels(levels: Mapping[Any, Any], where: str) -> dict[str, float | None]:
    """Return level -> value, from 0 to 1, or None for a level that counts as unscored.

    Raises:
        ConfigError: a level or a value cannot be used, or fewer than two values differ.
    """
    if not isinstance(levels, Mapping) or not levels:
        raise ConfigError(
            f"{where}: levels is {levels!r}; expected verdicts with their values, such as "
            '{"yes": 1, "no": 0}'
        )
    checked: dict[str, float | None] = {}
    for given, value in levels.items():
        name = _level_name(given)
        if not name or "\n" in name or len(name) > 80:
            raise ConfigError(f"{where}: a level cannot be named {given!r}; write a word or two")
        if name.casefold() in {other.casefold() for other in checked}:
            raise ConfigError(f"{where} has the level {name!r} twice")
        checked[name] = _checked_value(value, f"{where}: level {name!r}")
    distinct_values = set(checked.values()) - {None}  # None: unscored, no value
    if len(distinct_values) < 2:
        raise ConfigError(f"{where} has one value only; give two or more levels of different value")
    return checked


def _checked_value(value: Any, where: str) -> float | None:
    """Return the value of a level; None for None and NaN. ConfigError if it is not from 0 to 1."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 1:
        raise ConfigError(
            f"{where} is {value!r}; expected a number from 0 to 1 (of a scale to 5, 4 is 0.8), or "
            "None for no value"
        )
    return float(value)


def _checked_examples(
    examples: Any, levels: Mapping[str, float | None], where: str
) -> tuple[dict[str, str], ...]:
    """Return the examples (a list of tables: field -> text) with texts in all fields.

    Raises:
        ConfigError: an example has an unknown field, no verdict, or one that is not a level.
    """
    if isinstance(examples, Mapping | str) or not isinstance(examples, Iterable):
        raise ConfigError(f"{where}: examples is {examples!r}; expected a list of tables")
    checked = []
    for number, example in enumerate(examples, 1):
        place = f"{where}, example {number}"
        if not isinstance(example, Mapping):
            raise ConfigError(f"{place} is {example!r}; expected fields such as answer, verdict")
        check_known(f"field of {place}", _OF_EXAMPLES, *example)
        if "verdict" not in example:
            raise ConfigError(f"{place} has no verdict; expected one of {', '.join(levels)}")
        texts = {name: str(text) for name, text in example.items()}
        texts["verdict"] = _level_name(example["verdict"])
        check_known(f"verdict of {place}", levels, texts["verdict"])
        checked.append(texts)
    return tuple(checked)


def _function_identity(function: Any) -> str:
    """Return the name of a function and the SHA-256 of its source, such as "my_module:is_polite
    1f0c...".

    By the SHA-256 a change of the function is noticed. If it has no source, return the name alone.
    """
    module = getattr(function, "__module__", "") or ""
    name = f"{module}:{object_name(function)}"
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        return name
    return f"{name} {hashlib.sha256(source.encode()).hexdigest()[:16]}"


def criterion_of(name: str, table: Any, where: str = "") -> Criterion:
    """Make a criterion of a name and a table of its fields, as a TOML file or a grid has them.

    A `Criterion` is returned unchanged. A text of several words is its question, except in a file.
    `where` names the file in errors; "" means that the criterion is in none.

    >>> criterion_of("politeness", {"question": "Is it polite?", "levels": {"yes": 1.0, "no": 0.0}}).needs
    ()

    Raises:
        ConfigError: a field is unknown, or `Criterion` raises it.
    """
    if isinstance(table, Criterion):
        return table
    prefix = f"{where}: " if where else ""
    if isinstance(table, str) and not where and " " in table.strip():  # a question alone
        return Criterion(name, table)
    if not isinstance(table, Mapping):
        raise ConfigError(
            f"{prefix}[{name}] is {table!r}; expected a table with question and levels, or a criterion such "
            "as rb.Criterion('politeness', 'Is the answer polite?')"
        )
    field_names = [each.name for each in fields(Criterion) if each.name not in ("name", "function")]
    for key in table:
        if key not in field_names:
            raise ConfigError(f"{prefix}[{name}] {unknown('field', key, field_names)}")
    try:
        return Criterion(name, **table)
    except ConfigError as exc:
        raise ConfigError(f"{prefix}{exc}") from exc


BUILT_IN: Mapping[str, Criterion] = {
    name: criterion_of(name, table) for name, table in bundled(__file__, "criteria.toml").items()
}
"""The criteria of criteria.toml, by name; "document" judges a retrieved document."""

CRITERIA = tuple(name for name in BUILT_IN if name != "document")
"""The names of the built-in criteria of answers and contexts."""

_own: dict[str, Criterion] = {}


def load_criteria(given: Any, *, folder: str | Path = "") -> tuple[Criterion, ...]:
    """Return the criteria that a user names in any form, each once.

    Criteria of the user's own are declared: from then on they, and their measures, are known by name.

    Args:
        given: the name of a built-in criterion, a `Criterion`, a function, a TOML file of criteria,
            "package.module:attribute", a table name -> fields, or a list or comma-separated text of
            these. A function becomes the criterion with the function's name.
        folder: the folder of a file; "" means the working directory.

    >>> [criterion.name for criterion in load_criteria("relevance, correctness")]
    ['relevance', 'correctness']

    Raises:
        ConfigError: a name is unknown, a criterion cannot be used, or two criteria have one name.
    """
    criteria: dict[str, Criterion] = {}
    for criterion in _criteria_of_value(given, folder):
        if criterion.name not in criteria:
            criteria[criterion.name] = criterion
        elif criteria[criterion.name].digest != criterion.digest:  # not the same one named twice
            raise ConfigError(
                f"two criteria have the name {criterion.name!r}; give each a different name"
            )
    for criterion in criteria.values():
        declare_criterion(criterion)
    return tuple(criteria.values())


def _criteria_of_value(given: Any, folder: str | Path) -> list[Criterion]:
    """Return the criteria that a value stands for, in any form that `load_criteria` takes.

    A criterion that is named twice is returned twice.

    Args:
        given: a criterion, names in one text, a table, a file, a function, or several of these.
        folder: where relative paths and import paths begin.
    """
    criteria: list[Criterion] = []
    if isinstance(given, Criterion):
        return [given]
    if isinstance(given, str):
        names = [name.strip() for name in given.split(",") if name.strip()]
        for name in names:
            criteria += _criteria_of_name(name, folder)
        return criteria
    if isinstance(given, Mapping):
        return [criterion_of(str(name), table) for name, table in given.items()]
    if isinstance(given, Path):
        return _criteria_of_file(given)
    if callable(given):
        meaning = (inspect.getdoc(given) or "").partition("\n")[0]
        return [Criterion(object_name(given), function=given, meaning=meaning)]
    if isinstance(given, Iterable):
        for item in given:
            criteria += _criteria_of_value(item, folder)
        return criteria
    raise ConfigError(
        f"{given!r} is not a criterion; expected a name, rb.Criterion(name, question), a function, "
        "or a TOML file"
    )


def _criteria_of_name(name: str, folder: str | Path) -> list[Criterion]:
    """Return the criteria that a name stands for.

    It is a built-in criterion, a TOML file, an import path "package.module:attribute", or a user's
    criterion that was loaded before.

    Raises:
        ConfigError: the name is none of these.
    """
    if name in CRITERIA:
        return [BUILT_IN[name]]
    if name.endswith(".toml"):
        return _criteria_of_file(Path(folder) / expanded(name))
    if ":" in name:
        value = imported(name, "criterion", folder)
        if isinstance(value, str):
            raise ConfigError(f"criterion {name!r} is a text; expected rb.Criterion or a function")
        return _criteria_of_value(value, folder)
    if name in _own:  # the user's criteria that were loaded before
        return [_own[name]]
    raise unknown_criterion(name, [*CRITERIA, *_own])


def unknown_criterion(name: str, names: Iterable[str]) -> ConfigError:
    """Return the error for the name of a criterion that is none of the known names."""
    way_out = "one of your own is rb.Criterion(name, question)"
    is_question = " " in name
    if is_question:
        way_out += f", as in criteria=[rb.Criterion('mine', {name!r})]"
    return ConfigError(f"{unknown('criterion', name, names)}; {way_out}")


def _criteria_of_file(path: Path) -> list[Criterion]:
    """Return the criteria in a TOML file, a table each.

    Raises:
        ConfigError: the file cannot be read, or has no criterion or a wrong one.
    """
    tables = read_toml(
        as_at_sweep_start(path), _HINT, missing=f"there is no file of criteria {path}; {_HINT}"
    )
    if not tables:
        raise ConfigError(f"{path} has no criterion; {_HINT}")
    return [criterion_of(name, table, str(path)) for name, table in tables.items()]


def declare_criterion(criterion: Criterion) -> None:
    """Register a user's criterion by its name, and its measure; a later one of the name replaces it.

    Raises:
        ConfigError: a built-in criterion has the name.
    """
    if not criterion.is_own:
        return
    check_own(criterion)
    _own[criterion.name] = criterion
    declare(criterion.measure)


def check_own(criterion: Criterion) -> None:
    """Raise ConfigError if a user's criterion has the name of a built-in one."""
    if criterion.name in BUILT_IN:
        raise ConfigError(
            f"{criterion.name!r} is a criterion of ragbench; give yours another name, such as "
            f"'my_{criterion.name}'"
        )


def find_criterion(name: str) -> Criterion | None:
    """Return the built-in or the user's criterion of this name; None if neither exists."""
    return BUILT_IN.get(name) or _own.get(name)
