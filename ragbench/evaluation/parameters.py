"""The parameters of a configuration: which ones there are, their checks, which are left out of its
name and which are readable in it, and how NAME=VALUE is read.
"""

import hashlib
import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from ragbench.errors import ConfigError, FailureKind, ModelError, unknown, visible
from ragbench.evaluation.spec import (
    REQUESTS,
    EvaluationSpec,
    option_name,
    parameter_types,
    spec_of,
)
from ragbench.generation import check_llm as check_generator
from ragbench.generation.generator_prompts import check_prompt
from ragbench.hints import calls
from ragbench.hints.similar_names import similar
from ragbench.language import find_language
from ragbench.llms import NO_ANSWERS, NO_MODEL, check_llm, check_servers
from ragbench.registry import load_measures
from ragbench.retrieval.chunkers import check_chunker
from ragbench.retrieval.retrievers import RETRIEVERS
from ragbench.retrieval.steps.stepped_search import STEP_PARAMETERS, check_steps, summary_llm
from ragbench.systems.named_systems import (
    check_system,
    names_own_retriever,
    pipeline_options,
)
from ragbench.types import Answer, Completion, Dataset, Judgement

WHERE = ("results_dir",)
"""Parameters that set where results are written. They change no number and are not part of a
configuration.
"""

OMITTED = (
    *("measures", "combine_criteria", "language", "interventions", "history"),
    *STEP_PARAMETERS,
)
"""Parameters that are no part of a configuration, and of its name, where they are \"\", 0 or False."""

DRAWS = "race_draws"
"""The parameter of a configuration that answers a part of the questions in a race."""

_OF_DATA_AND_FILES = ("dataset", "corpus", "split", "system", *WHERE)

OF_PIPELINE = (
    *"retriever reranker chunker chunk_size chunk_overlap tokenizer language depth".split(),
    *"k llm prompt max_context_tokens max_tokens temperature history".split(),
    *STEP_PARAMETERS,
)
"""Parameters of ragbench's own pipeline; another `system` has none of them."""

# Named in the readable part of a configuration's name, in this order, as far as a notebook has
# them.
_READABLE = [
    *"system collection verdicts scores retriever reranker".split(),
    *STEP_PARAMETERS,
    *"chunker chunk_size llm prompt".split(),
]
_SINGLE_NAMES = ("dataset", "retriever", "reranker", "chunker", "tokenizer", "llm")
"""Parameters that are a text without commas."""
# The smallest value of each number.
_MINIMUM = dict.fromkeys(("chunk_size", "depth", "k", "max_tokens"), 1)
_MINIMUM |= dict.fromkeys(("chunk_overlap", "max_context_tokens", "temperature"), 0)

_CHECKS = {
    "chunker": check_chunker,
    "language": find_language,
    "prompt": check_prompt,
    "measures": load_measures,
    "llm": check_generator,
}
_WORDS = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}


def typed(name: str, value: Any, types: Sequence[type]) -> Any:
    """Return the value of a parameter as one of `types` (none: any); a whole number is fine where a
    number is expected.

    Raises:
        ConfigError: the value has another type.

    >>> typed("margin", 1, [float])
    1.0
    >>> typed("depth", "10", [int])
    Traceback (most recent call last):
    ragbench.errors.ConfigError: depth is '10'; expected a whole number
    """
    if float in types and type(value) is int:
        return float(value)
    if not types or type(value) in types:
        return value
    hint = ""
    if isinstance(value, Dataset):
        hint = ": write rb.testsets.save_dataset(data, folder), and this folder as the dataset"
    elif isinstance(value, list) and value and str in types:
        hint = f": write {','.join(map(str, value))!r}"
    raise ConfigError(
        f"{name} is {value!r}; expected {' or '.join(_WORDS[kind] for kind in types)}{hint}"
    )


def assignments(
    texts: Iterable[str], types: Mapping[str, Sequence[type]], what: str
) -> dict[str, Any]:
    """Return the values of parameters that are written as texts, NAME=VALUE.

    Args:
        texts: of `--set`.
        types: parameter -> what its value may be.
        what: how an error calls a parameter.

    >>> assignments(["chunk_size=128"], {"chunk_size": [int]}, "option")
    {'chunk_size': 128}

    Raises:
        ConfigError: a text without "=", an unknown or repeated name, or a value of another type.
    """
    values: dict[str, Any] = {}
    for text in texts:
        name = _parameter_name(text)
        _, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set {text!r} is not NAME=VALUE, such as chunk_size=128")
        if name not in types:
            raise ConfigError(f"--set: {unknown(what, name, types, near=similar(name, types))}")
        if name in values:
            raise ConfigError(f"--set has {name} twice; name it once")
        if has_several_values(name, value):
            raise ConfigError(
                f"--set {name}: several values are an axis of a grid; write `{grid_line(name, value)}` below "
                "[axes] of a grid file, and `ragbench sweep FILE`"
            )
        values[name] = typed(name, _parsed_value(value.strip(), types[name]), types[name])
    return values


def has_several_values(name: str, text: str) -> bool:
    """Return True if the text is several values of a parameter with commas between, although a configuration
    has one.

    >>> has_several_values("k", "3,5"), has_several_values("retriever", "bm25,dense:minilm")
    (True, True)
    >>> has_several_values("k", "3"), has_several_values("criteria", "relevance,correctness")
    (False, False)
    """
    types = _types_of_configuration().get(name, [str])
    may_have_commas = str in types and name not in _SINGLE_NAMES
    return "," in text and not may_have_commas


def grid_line(name: str, text: str) -> str:
    """Return the line of a grid file that sets a parameter to the value, or the several values, of a text.

    >>> grid_line("k", "3,5"), grid_line("chunker", "fixed")
    ('k = [3, 5]', 'chunker = "fixed"')
    """
    types = _types_of_configuration().get(name, [str])
    if not has_several_values(name, text):
        return f"{name} = {json.dumps(_parsed_value(text, types))}"
    values = [_parsed_value(part.strip(), types) for part in text.split(",")]
    return f"{name} = {json.dumps(values)}"


def _parameter_name(text: str) -> str:
    """Return the name in a text NAME=VALUE, in which "-" may stand for "_"."""
    return text.partition("=")[0].strip().replace("-", "_")


def _parsed_value(text: str, types: Sequence[type]) -> Any:
    """Return the value that a text stands for: True or False, an int or a float, if `types` has this type
    and the text can be read as it; else the text.
    """
    if bool in types and text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        if kind in types:
            with suppress(ValueError):
                return kind(text)
    return text


def pipeline_settings(texts: Iterable[str], system: str) -> dict[str, Any]:
    """Return options of ragbench's own pipeline that are written as texts, checked.

    >>> pipeline_settings(["chunker=fixed", "k=3"], "bm25")
    {'chunker': 'fixed', 'k': 3}

    Raises:
        ConfigError: as `assignments`; a value that no pipeline could use; or `system` is not the
            pipeline.
    """
    texts = list(texts)
    named = {_parameter_name(text) for text in texts}
    if "retriever" in named:
        raise ConfigError("--set retriever: the retriever is the argument, as in `eval bm25`")
    for name in sorted(named & EvaluationSpec.model_fields.keys()):
        option = option_name(name, EvaluationSpec.model_fields[name])
        raise ConfigError(f"--set {name} is a separate option: {option}")
    types = {name: [_pipeline_type(name)] for name in OF_PIPELINE if name != "retriever"}
    values = assignments(texts, types, "option of the pipeline")
    if values and not names_pipeline(system) and not names_own_retriever(system):
        raise ConfigError(
            f"--set {', '.join(values)}: these are options of ragbench's own pipeline, which a "
            f"retriever's name such as 'bm25' selects; {system!r} is another system"
        )
    if values:
        check_parameters({"retriever": system or "bm25", **values})
    if values.get("max_context_tokens") == 0:  # a text cannot be None: 0 stands for no limit
        values["max_context_tokens"] = None
    return values


def notebook_parameters(**types: type) -> dict[str, Any]:
    """Return the parameters of the notebook that calls this, as name -> value: those that its parameters
    cell declares with a type (`k: int = 5`). The cell or papermill has set the values.

    The call also changes how the notebook's tables are shown: "$" does not begin a formula, and
    invisible characters are seen.

    Args:
        types: name -> type of the notebook's parameters that ragbench does not know (it knows those of
            its own notebook, `evaluate.ipynb`). Any other name that the notebook has declared with a
            type is an error.

    Raises:
        ConfigError: a name is not a parameter (such as a misspelt one, in the cell or for papermill),
            a parameter is not set, or a value has another type.

    >>> k: int = 5
    >>> notebook_parameters(k=int)
    {'k': 5}
    """
    namespace = _namespace_of_notebook()
    declared = namespace.get("__annotations__", {})  # name -> type, of `k: int = 5`
    known = _types_of_configuration()  # parameter -> the types that its value may have
    for name in EvaluationSpec.model_fields:
        known[name] = parameter_types(name)
    for name, kind in types.items():
        known[name] = [kind]
    of_notebook = {}  # the ones in `known` that the notebook declares, or passes to this call
    for name, kinds in known.items():
        if name in declared or name in types:
            of_notebook[name] = kinds
    _check_injected(namespace, of_notebook)
    unknown_names = [name for name in declared if name not in of_notebook]
    if unknown_names:
        for name in unknown_names:  # so that the corrected cell can be run again in the same kernel
            del declared[name]
        raise ConfigError(unknown("parameter", unknown_names[0], known))
    missing = [name for name in of_notebook if name not in namespace]
    if missing:
        raise ConfigError(
            f"parameter {missing[0]} is not set; run the parameters cell, and check its names"
        )
    _show_texts_as_they_are()
    return {name: typed(name, namespace[name], kinds) for name, kinds in of_notebook.items()}


def _namespace_of_notebook() -> dict[str, Any]:
    """Return the global names of the code that called `notebook_parameters`.

    The package's attribute of that name is a function of `ragbench.hints.calls` around it, which explains
    calls that do not fit; its frame lies between the two.
    """
    frame = sys._getframe(2)
    while frame.f_globals.get("__name__") == calls.__name__ and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_globals


def _types_of_configuration() -> dict[str, Sequence[type]]:
    """Return the types of the parameters that name the data, the system and the folder of a result,
    and of the parameters of ragbench's own pipeline.
    """
    types: dict[str, Sequence[type]] = {name: [str] for name in _OF_DATA_AND_FILES}
    for name in OF_PIPELINE:
        types[name] = [_pipeline_type(name)]
    return types


def _pipeline_type(name: str) -> type:
    """Return the type of a parameter of the pipeline, which is the type of its default; int if this is None (no
    limit), and str without a default.
    """
    field = pipeline_options().model_fields.get(name)
    if field is None:
        return str
    return int if field.default is None else type(field.default)


def _show_texts_as_they_are() -> None:
    """Let the notebook show tables with visible signs for invisible characters, "$" as a dollar (not the
    start of a formula), and 120 characters of a long text. The values in the tables do not change.
    """
    if "IPython" not in sys.modules:
        return
    from IPython import get_ipython

    shell = get_ipython()
    if shell is None:
        return
    pd.set_option(
        "display.max_colwidth", 120, "display.html.use_mathjax", False, "styler.html.mathjax", False
    )
    formatters = shell.display_formatter.formatters
    formatters["text/html"].for_type(pd.DataFrame, lambda table: visible(table._repr_html_()))
    formatters["text/plain"].for_type(
        pd.DataFrame, lambda table, printer, _: printer.text(visible(repr(table)))
    )


def _check_injected(namespace: dict[str, Any], types: Iterable[str]) -> None:
    """Refuse a parameter that papermill has set and that no earlier cell of the notebook sets.

    papermill (`-p NAME VALUE`) accepts any name, and sets it in a new cell, which begins with "#
    Parameters". IPython keeps the sources of all cells in `In`.
    """
    cells = list(namespace.get("In", ()))
    injected = [cell for cell in cells if cell.startswith("# Parameters\n")]
    if not injected:
        return
    last = injected[-1]  # each run of papermill in this kernel has injected a cell
    earlier = [cell for cell in cells[: cells.index(last)] if cell not in injected]
    # NAME = VALUE, or NAME: TYPE = VALUE
    set_earlier = re.findall(r"^(\w+)\s*(?::[^=\n]+)?=", "\n".join(earlier), re.MULTILINE)
    known = [*types, *set_earlier]
    set_by_papermill = re.findall(r"^(\w+) = ", last, re.MULTILINE)
    unknown_names = [name for name in set_by_papermill if name not in known and name in namespace]
    if unknown_names:
        for name in unknown_names:  # so that the corrected cell can be run again in the same kernel
            del namespace[name]
        raise ConfigError(unknown("parameter", unknown_names[0], dict.fromkeys(known)))


def configuration(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that make a configuration: parameters that only state where results go, or
    how requests are sent, are left out.

    If `system` is "" or the name of a retriever, the configuration is of ragbench's own pipeline, and
    `retriever` takes the place of `system`. For any other system, the parameters of the pipeline are
    left out.

    Raises:
        ConfigError: if a value is not plain data (text, number, truth value, list or table of
            such), or a step of a search is set for a system that is not the pipeline.

    >>> configuration({"chunk_size": 128, "results_dir": "results/mine"})
    {'chunk_size': 128}
    >>> configuration({"chunk_size": 128, "retriever": "hybrid:minilm", "system": "bm25"})
    {'chunk_size': 128, 'retriever': 'bm25'}
    >>> configuration({"chunk_size": 128, "split": "test", "system": "my_service.toml"})
    {'split': 'test', 'system': 'my_service.toml'}
    >>> configuration({"chunk_size": 128, "measures": ""})
    {'chunk_size': 128}
    """
    kept = {}
    for key, value in parameters.items():
        is_about_run = key in WHERE or key in REQUESTS
        # a default of a newer parameter: left out, so that older configurations keep their names
        is_omitted = key in OMITTED and value in ("", 0)
        if not is_about_run and not is_omitted:
            kept[key] = value
    uses_rewriter = "rewrite" in kept or kept.get("history") == "rewrite"
    if not uses_rewriter:
        kept.pop("rewrite_llm", None)
    system = kept.get("system", "")
    if not names_pipeline(system):
        kept = _without_pipeline(kept, system)
    elif "system" in kept:
        del kept["system"]
        if system:
            kept["retriever"] = system
    for key, value in kept.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as exc:
            raise ConfigError(
                f"parameter {key!r} is {value!r}; expected text, a finite number, true or false, "
                "or a list of such"
            ) from exc
    return kept


def _without_pipeline(parameters: Mapping[str, Any], system: Any) -> dict[str, Any]:
    """Return the parameters of a `system` of the user, without the parameters of ragbench's own pipeline.

    Raises:
        ConfigError: a step of a search is set, on which the system would not act.
    """
    for step in STEP_PARAMETERS:
        if step in parameters:
            raise ConfigError(
                f"{step} is {parameters[step]!r}, a step of ragbench's own pipeline, and has no "
                f"effect on the system {system!r}; leave it out, or set it in your system"
            )
    return {key: value for key, value in parameters.items() if key not in OF_PIPELINE}


def names_pipeline(system: Any) -> bool:
    """Return True if a `system` is ragbench's own pipeline: "", or the name of a retriever.

    >>> [names_pipeline(one) for one in ("", "hybrid:wordllama", "service.toml", "answers.jsonl", "my_rag:answer")]
    [True, True, False, False, False]
    """
    return not system or str(system).partition(":")[0] in RETRIEVERS


def config_name(parameters: Mapping[str, Any]) -> str:
    """Return a name that is readable, safe as a file name, and its own for each set of parameters.

    It ends in 8 hex digits of the SHA-256 of all parameters (in any order), so two configurations
    share a name with a probability of 1 in 4 billion per pair.

    >>> config_name({"retriever": "dense:minilm", "chunker": "fixed", "chunk_size": 128, "seed": 0})
    'dense-minilm-fixed-128-e00ec49f'
    >>> config_name({"system": "services/notes.toml"})[:-8], config_name({"system": "my_rag:answer"})[:-8]
    ('notes-', 'my-rag-answer-')
    """
    settings = configuration(parameters)
    canonical = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    if re.search(r"\s", str(settings.get("prompt", ""))):
        settings["prompt"] = "own-prompt"  # its digest distinguishes it
    if "system" in settings:
        settings["system"] = re.sub(r"\.(toml|jsonl)$", "", str(settings["system"]))
    unnamed = (None, "", *NO_MODEL, "cited")  # usual values, which are not named
    words = [_word(str(settings[key])) for key in _READABLE if settings.get(key) not in unnamed]
    readable = "-".join(filter(None, words))[:80].strip("-.") or "run"
    return f"{readable}-{hashlib.sha256(canonical.encode()).hexdigest()[:8]}"


def _word(value: str) -> str:
    """Return a value as a part of a name: of a path, or of owner/model, the last part, which is the
    readable one and keeps local paths out of names.

    >>> _word("dense:owner/Model_v1"), _word("services/notes.toml")
    ('dense-model-v1', 'notes.toml')
    """
    kind, colon, model = value.partition(":")
    last = re.split(r"[/\\]", (model if colon else value).rstrip("/\\"))[-1]
    is_path = "/" in kind or "\\" in kind
    text = f"{kind}-{last}" if colon and not is_path else last
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")


def check_parameters(parameters: Mapping[str, Any], *, folder: str | Path = "") -> None:
    """Refuse values that no run could use, as far as can be checked without running; unknown names
    pass.

    A model that may not be asked, as without a key, is refused. The files and modules of a `system` are
    looked for in `folder`, by default the working directory.

    Raises:
        ConfigError: naming the parameter, its value and the expected value.
        DataError: the recorded answers of a `system` cannot be read.
    """
    parameters = configuration(parameters)
    system = parameters.get("system")
    if system:
        check_system(system, folder=folder)
    for name, check in _CHECKS.items():
        if name in parameters:
            check(parameters[name])
    if not parameters.keys().isdisjoint(("retriever", "reranker", *STEP_PARAMETERS)):
        check_steps(parameters)
    spec = spec_of(parameters)
    spec.loaded_criteria(folder)  # raises for a criterion that cannot be loaded
    if parameters.get("llm") == NO_ANSWERS:
        check_asks_nothing_of_answers(spec)
    if spec.judge:
        check_llm(spec.judge)
    _check_numbers(parameters)


def _check_numbers(parameters: Mapping[str, Any]) -> None:
    """Refuse numbers that are too small, or do not fit together; parameters that are not set pass."""
    for name, minimum in _MINIMUM.items():
        if name in parameters and parameters[name] < minimum:
            raise ConfigError(f"{name} is {parameters[name]}; expected {minimum} or more")
    # a number that is not set gets a value with which every other one fits
    sizes = {"chunk_size": math.inf, "chunk_overlap": 0, "k": 1, "depth": math.inf, **parameters}
    if sizes["chunk_overlap"] >= sizes["chunk_size"]:
        raise ConfigError(
            f"chunk_overlap is {sizes['chunk_overlap']} with chunk_size {sizes['chunk_size']}; "
            "expected less than the size"
        )
    if sizes["k"] > sizes["depth"]:
        raise ConfigError(
            f"k is {sizes['k']} with depth {sizes['depth']}; k chunks must have been retrieved"
        )


def check_asks_nothing_of_answers(spec: EvaluationSpec) -> None:
    """Refuse options that ask about answers, for a pipeline whose `llm` is "none".

    Raises:
        ConfigError: the spec names a judge or interventions.

    >>> check_asks_nothing_of_answers(EvaluationSpec(judge="ollama:llama3.1:8b"))
    Traceback (most recent call last):
    ragbench.errors.ConfigError: judge is set, but llm "none" writes no answers; set llm to a model ...
    """
    for name in ("judge", "interventions"):
        if getattr(spec, name):
            raise ConfigError(
                f'{name} is set, but llm "{NO_ANSWERS}" writes no answers; set llm to a model that answers, '
                f"or leave {name} out"
            )


def check_models(parameters: Mapping[str, Any], *, folder: str | Path = "") -> None:
    """Refuse models and services that cannot be asked here and now, before any document is read.

    Raises:
        ConfigError, ModelError: as `ragbench.llms.check_servers`.
    """
    parameters = configuration(parameters)
    named = [str(parameters.get(name, "")) for name in ("llm", "judge", "rewrite_llm")]
    check_servers(*named, summary_llm(parameters))
    if system := parameters.get("system"):
        check_system(system, folder=folder, reachable=True)


def check_requests(answers: Sequence[Answer], judgements: Sequence[Judgement] = ()) -> None:
    """Raise if every request for an answer failed, or every request for a verdict: such a run has measured
    nothing.

    A request that the maximum cost forbids does not count as failed: a sweep stops there in its own way.

    Raises:
        ModelError: with the reason of the first failure.
    """
    replies_for: dict[str, Sequence[Completion | Answer]] = {
        # answers of a system without a language model are their own replies
        "answers": [answer.usage for answer in answers if answer.usage] or answers,
        "verdicts": [reply for judgement in judgements for reply in judgement.usage],
    }
    for purpose, replies in replies_for.items():
        failed = []
        for reply in replies:
            if reply.error is not None and reply.failure is not FailureKind.BUDGET:
                failed.append(reply)
        if failed and len(failed) == len(replies):
            first = failed[0]
            raise ModelError(
                f"every one of {len(failed)} requests for {purpose} failed, the first: {first.error}",
                first.failure,
            )
