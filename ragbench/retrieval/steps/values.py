"""The values that the steps of a search take, by parameter, and how a value is read."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ragbench.errors import ConfigError, unknown
from ragbench.extension import FORM, imported, is_import


class Form(NamedTuple):
    """A value of a step: `name`, after a colon its `argument` ("" for none), its meaning, and the
    bounds of an argument that is a number; `is_text`: the argument is a name.
    """

    name: str
    argument: str
    meaning: str
    low: float = -math.inf
    high: float = math.inf
    is_whole: bool = True
    is_text: bool = False

    @property
    def text(self) -> str:
        """Return the form as a user writes it, such as "rrf:<k>"."""
        return f"{self.name}:<{self.argument}>" if self.argument else self.name


STEPS: Mapping[str, tuple[Form, ...]] = {
    "index_text": (
        Form("title", "", "the title of the document before the chunk"),
        Form("headings", "", "title and headings above the chunk before it"),
        Form("summary", "llm", "a sentence of context by a language model before it", is_text=True),
    ),
    "rewrite": (
        Form("hyde", "", "a passage that could answer the question, in its place"),
        Form("several", "N", "the question and N other wordings of it", 1, 10),
        Form("step_back", "", "the question and a more general one"),
        Form("decompose", "", "the question and the simpler ones that it is made of"),
    ),
    "filter": (),
    "fusion": (
        Form("rrf", "k", "sum of 1 / (k + rank) over the rankings; rrf:60 is the default", 0),
        Form(
            "weights",
            "w",
            "w * dense + (1 - w) * lexical, scores from 0 to 1 in each question",
            0,
            1,
            is_whole=False,
        ),
    ),
    "diversity": (
        Form(
            "mmr",
            "w",
            "maximal marginal relevance: w * relevance - (1 - w) * similarity",
            0,
            1,
            is_whole=False,
        ),
    ),
    "expand": (
        Form("window", "N", "the chunk with N neighbours before and after it", 1),
        Form("parent", "", "the section that holds the chunk, between two headings"),
        Form("parent", "N", "neighbouring chunks that have N tokens together, at most", 1),
        Form("document", "", "the whole document"),
        Form("merge", "", "neighbours among the best k chunks, joined"),
    ),
}
"""Parameter of the pipeline -> the values that it takes in addition to "" and a function."""

FUNCTIONS: Mapping[str, str] = {
    "index_text": "a function: chunk, document -> the text that is indexed",
    "rewrite": "a function: question -> the text, or texts, that are searched for",
    "filter": "a function: case, document -> True if the document may be found",
    "fusion": "a function: list of rankings {chunk_id: score} -> one such ranking",
    "diversity": "a function: question, its chunks best first -> the chunks in another order",
    "expand": "a function: chunk, document -> first and last character + 1 of the handed-over text",
}
"""Parameter -> the function that a user may give in place of a value."""


class StepValue(NamedTuple):
    """A value that was read: the name of its form with its number or text, or a user's function."""

    name: str = ""
    number: float = 0
    function: Callable[..., Any] | None = None
    text: str = ""


def read_step(parameter: str, value: Any) -> StepValue:
    """Return the parsed value of a step's parameter.

    "name:5" has a name and a number, "name:text" a name and a text. A function, or
    "package.module:attribute", which names one, has the name "function". "" has the name "".

    >>> read_step("fusion", "rrf:1")
    StepValue(name='rrf', number=1, function=None, text='')
    >>> read_step("diversity", "mrm:0.5")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: unknown diversity 'mrm'; did you mean 'mmr'? Known: mmr:<w>, package.module:attribute

    Raises:
        ConfigError: an unknown name, an argument that is missing or out of bounds, or an object that
            cannot be called.
    """
    forms = STEPS[parameter]
    names = [form.name for form in forms]
    if isinstance(value, str) and is_import(value, names):
        value = imported(value, parameter)
    if callable(value):
        return StepValue("function", function=value)
    if value == "":
        return StepValue()
    name, colon, argument = value.partition(":") if isinstance(value, str) else ("", "", "")
    if name not in names:
        known = ", ".join([*(form.text for form in forms), FORM])
        raise ConfigError(unknown(parameter, name or value, names, known))
    form = _form_of([form for form in forms if form.name == name], has_argument=bool(colon))
    if bool(argument) != bool(form.argument):
        raise ConfigError(f"{parameter} is {value!r}; write {form.text}, such as {_example(form)}")
    if form.is_text:
        return StepValue(name, text=argument)
    if not argument:
        return StepValue(name, 0)
    return StepValue(name, _checked_number(parameter, value, argument, form))


def _form_of(forms: Sequence[Form], *, has_argument: bool) -> Form:
    """Return the one of several forms with the same name, such as "parent" and "parent:<N>", that has
    an argument, or has none; the first form if no form fits.
    """
    for form in forms:
        if bool(form.argument) == has_argument:
            return form
    return forms[0]


def _checked_number(parameter: str, value: str, argument: str, form: Form) -> float:
    """Return the number in a step's value: `argument`, the text of `value` after the colon.

    Raises:
        ConfigError: it is not a number, or outside the bounds of its form.
    """
    try:
        number = int(argument) if form.is_whole else float(argument)
    except ValueError:
        number = math.nan  # within no bounds
    if form.low <= number <= form.high:
        return number
    kind = "a whole number" if form.is_whole else "a number"
    bounds = f"from {form.low:g}"
    if form.high < math.inf:
        bounds += f" to {form.high:g}"
    raise ConfigError(
        f"{parameter} is {value!r}; expected {kind} {bounds} after {form.name}:, such as "
        f"{_example(form)}"
    )


def _example(form: Form) -> str:
    """Return a value of a form in quotes, for a message, such as "'rrf:1'"."""
    if not form.argument:
        return repr(form.name)
    if form.is_text:
        return repr(f"{form.name}:env")
    number = max(1, int(form.low)) if form.is_whole else 0.5
    return repr(f"{form.name}:{number}")
