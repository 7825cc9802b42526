"""What can be set in an evaluation, once: type, default, help text, check and other names of every
option; and which questions a suite, a limit or categories take.

`evaluate` is the only reader. The options of `ragbench eval` and of the pytest plugin and the body
of the server's requests are made from the fields, and the parameters of a notebook or a grid are
validated by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo

from ragbench.errors import ConfigError, check_known, unknown
from ragbench.groups import evenly
from ragbench.hints.attributes import suggesting
from ragbench.hints.similar_names import hint_of_option
from ragbench.judges.criterion import CRITERIA as ALL_CRITERIA
from ragbench.judges.criterion import (
    Criterion,
    find_criterion,
    load_criteria,
    unknown_criterion,
)
from ragbench.llms.environment import TIMEOUT_S
from ragbench.registry import KS, PERSPECTIVES, call_of_measure, expected_measure
from ragbench.types import Case, Dataset, SafetySample

if TYPE_CHECKING:
    from ragbench.evaluation.options import EvaluationOptions
    from ragbench.types import Dataset

CRITERIA = ("correctness", "faithfulness", "relevance")
"""What a judge is asked about each answer, unless other criteria are named."""

SUITES = ("full", "smoke")

MEASURED = tuple(name for name in PERSPECTIVES if name not in ("judge", "own", "overall"))
"""The perspectives that an evaluation can be limited to."""

ELSEWHERE = {
    **dict.fromkeys(
        "corpus documents docs docs_dir docs_folder docs_path corpus_path passages".split(),
        "rb.evaluate(rb.load_dataset(tests, corpus=folder), system), or "
        "rb.evaluate((corpus, queries, qrels), system)",
    ),
    **dict.fromkeys(
        "index vectorstore vector_store vectordb collection store client".split(),
        "rb.evaluate(data, ask), of a function of the question that searches it",
    ),
    **dict.fromkeys(
        ["base_url", "api_base", "openai_api_base"], "the environment variable OPENAI_BASE_URL"
    ),
    **dict.fromkeys(
        "custom_metrics custom_measures custom_metric scorers scoring_functions".split(),
        "measures=[rb.Measure(name, function)]",
    ),
    "weights": "targets='mine.toml', a file with a table [weights]",
    "queries": "rb.evaluate((corpus, queries, qrels), system)",
    "qrels": "rb.score_run(qrels, run, measures), or rb.evaluate((corpus, queries, qrels), system)",
    "run": "rb.score_run(qrels, run, measures)",
    **dict.fromkeys(
        "questions answers contexts references ground_truth ground_truths predictions".split(),
        "rb.evaluate(rows), of dicts such as {'question': ..., 'answer': ..., 'contexts': [...]}",
    ),
    **dict.fromkeys("llm_judge judge_llm judge_model evaluator_llm critic_llm".split(), "judge"),
    **dict.fromkeys(["system_prompt", "prompt_template", "template"], "prompt"),
    "n": "limit",
    **dict.fromkeys(["sample", "subset", "head", "first"], "limit"),
    **dict.fromkeys(["tags", "metadata", "run_name", "description"], "name"),
    **dict.fromkeys(
        ["column_map", "columns", "mapping", "rename"], "rows.rename(columns={...}) of a DataFrame"
    ),
    **dict.fromkeys(
        ["api_key", "key", "token"], "the provider's environment variable, such as OPENAI_API_KEY"
    ),
    **dict.fromkeys(
        ["retries", "max_retries", "tries"], "no option: failed requests to servers are repeated"
    ),
    "split": "rb.load_dataset(name, split)",
    **dict.fromkeys(
        ["cache", "use_cache", "cache_dir"], "the environment variable RAGBENCH_CACHE_DIR"
    ),
    **dict.fromkeys(["k_values", "cutoffs"], "ks"),
    **dict.fromkeys(["max_queries", "num_samples", "num_queries", "nrows"], "limit"),
    **dict.fromkeys(
        ["verbose", "progress", "show_progress", "silent"],
        "no option: progress is shown on a terminal and in Jupyter",
    ),
    **dict.fromkeys(["threshold", "thresholds", "pass_threshold"], "targets"),
    **dict.fromkeys(["output_dir", "out", "folder", "save_to"], "rb.save(result, folder)"),
}
"""Options that people expect of an evaluation -> the option with this meaning, or the call."""
_ALIASES = {"context_quality": "context"}  # as published designs of such evaluations name it
_WORDS_FOR_PERSPECTIVES = {
    **dict.fromkeys("generation generator answers qa llm".split(), "answer"),
    **dict.fromkeys("ranking search retriever ir".split(), "retrieval"),
    **dict.fromkeys("latency performance cost speed".split(), "pipeline"),
    **dict.fromkeys("security toxicity injection".split(), "safety"),
}
"""Words for a perspective -> its name."""
REQUESTS = ("concurrency", "timeout_s")
"""The options that state how requests are sent; they change no number."""

_QUESTIONS, _JUDGE = "Questions", "Judge"
_MEASURES, _TARGETS = "System and measures", "Targets and baseline"


def unknown_option(name: str, known: Iterable[str]) -> str:
    """Return the text of an error about an unknown option of an evaluation."""
    names = list(known)
    hint = hint_of_option(name, names, ELSEWHERE)
    listed = f" Known: {', '.join(names)}" if hint == "." else ""
    return f"unknown option {name!r}{hint}{listed}"


def split_words(value: Any) -> Any:
    """Return the words of a text, which are separated by commas, or of a sequence, as a tuple.

    >>> split_words("faq, how-to"), split_words(["faq"])
    (('faq', 'how-to'), ('faq',))
    """
    if isinstance(value, str):
        return tuple(word for part in value.split(",") if (word := part.strip()))
    return tuple(value) if isinstance(value, Iterable) else value


def _check_perspectives(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of perspectives, as the user wrote them, in the order of a report; () for ().

    Raises:
        ConfigError: a name is not the name of a perspective. If it is the name of a measure, or a common
            word for a perspective such as "ranking", the message states what to write.
    """
    # perspective -> the name that the user wrote, which may be an alias
    written = {_ALIASES.get(name, name): name for name in names}
    for name in written:
        if name in MEASURED:
            continue
        measure = expected_measure(name)
        if measure is not None:
            raise ConfigError(
                f"{name!r} is a measure, not a perspective; use {call_of_measure(measure)}"
            )
        if name in _WORDS_FOR_PERSPECTIVES:
            raise ConfigError(
                unknown("perspective", name, MEASURED, near=_WORDS_FOR_PERSPECTIVES[name])
            )
    check_known("perspective", MEASURED, *written)
    return tuple(written[name] for name in MEASURED if name in written)


def _to_criteria(value: Any) -> tuple[Any, ...]:
    """Return the criteria that an option names, one by one: "a,b" and ["a", "b"] -> ("a", "b").

    A criterion of the user (a table, an object, a file or a function) is returned unchanged.
    """
    if isinstance(value, str):
        return tuple(split_words(value))
    if isinstance(value, Mapping | Criterion | Path) or callable(value):
        return (value,)
    if not isinstance(value, Iterable):
        raise ConfigError(f"criteria is {value!r}; expected names, or criteria of your own")
    return tuple(part for item in value for part in _to_criteria(item))


def _check_criteria(criteria: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the criteria, each once; refuse names and objects that are no criterion.

    A criterion in a file or module is not checked yet: the file is read when the evaluation needs it.
    """
    checked: list[Any] = []
    for each in criteria:
        is_text = isinstance(each, str)
        names_file_or_module = is_text and (each.endswith(".toml") or ":" in each)
        if isinstance(each, Path) or names_file_or_module:
            pass  # checked later
        elif not is_text:
            load_criteria(each)  # raises for an object that is no criterion
        elif find_criterion(each) is None:
            raise unknown_criterion(each, ALL_CRITERIA)
        if is_text:
            is_repeated = each in [other for other in checked if isinstance(other, str)]
        else:  # by identity: equality of a user's objects may mean anything
            is_repeated = any(each is other for other in checked)
        if not is_repeated:
            checked.append(each)
    return tuple(checked)


def _check_interventions(names: tuple[str, ...]) -> tuple[str, ...]:
    from ragbench.testsets.interventions import load_intervention  # loads numpy

    for name in names:
        load_intervention(name)
    return tuple(dict.fromkeys(names))


def _check_depths(value: Any) -> tuple[int, ...]:
    """Return depths as numbers. Depths that are written as a text ("1,3,5") are sorted and each kept
    once; a list keeps its order.

    Raises:
        ConfigError: there is no depth, or something is not a whole number from 1.
    """
    depths = []
    for depth in split_words(value):
        is_text = isinstance(depth, str) and depth.isdecimal()
        depths.append(int(depth) if is_text else depth)
    are_valid = all(type(depth) is int and depth >= 1 for depth in depths)
    if not depths or not are_valid:
        raise ConfigError(
            f"ks is {value!r}; expected one or several whole numbers from 1, such as 1,3,5,10"
        )
    if isinstance(value, str):
        return tuple(sorted(set(depths)))
    return tuple(depths)


def _check_suite(name: str) -> str:
    check_known("suite", SUITES, name)
    return name


def _check_support(name: str) -> str:
    from ragbench.metrics.groundedness import check_support_model  # loads numpy, which help lacks

    if name:
        check_support_model(name)
    return name


def _check_judge(judge: Any) -> Any:
    """Return the judge, a model or its name; "", which means no judge, for None and False.

    Raises:
        ConfigError: it is True, or the name of no language model.
    """
    from ragbench.llms.providers import NO_MODEL  # loads HTTP clients, which help lacks

    if judge is None or judge is False:
        return ""
    if judge is True:
        raise ConfigError("judge is True; name a model, as in judge='openai:gpt-4o-mini'")
    if isinstance(judge, str) and judge in NO_MODEL:
        raise ConfigError(
            f'judge is {judge!r}, which is not a language model; name one, or "" for no judge'
        )
    return judge


def _to_files(value: Any) -> Any:
    """Return a sequence of what may be one file or object, several, or a text with commas between."""
    return split_words(value) if isinstance(value, str | list | tuple) else (value,)


Named = Annotated[
    Any, BeforeValidator(lambda value: None if isinstance(value, str) and not value else value)
]
"""An object or its name; "" is None."""


def _option(
    default: Any,
    text: str,
    panel: str,
    *,
    flag: str = "",
    is_served: bool = False,
    is_table: bool = False,
    **checks: Any,
) -> Any:
    """Return a field of the specification.

    Args:
        text: its description.
        panel: the heading of its group in the help of a command.
        flag: its option on the command line; "" means its name with dashes.
        is_served: True if requests to a server may set it.
        is_table: True if notebooks and grids may also set it to a list or a table.
        checks: further arguments of pydantic's `Field`.
    """
    extra: JsonDict = {"panel": panel, "flag": flag, "is_served": is_served, "is_table": is_table}
    return Field(default, description=text, json_schema_extra=extra, **checks)


Words = Annotated[tuple[str, ...], BeforeValidator(split_words)]


@suggesting()
class EvaluationSpec(BaseModel):
    """Every option of an evaluation, checked as far as that needs no file, model or data.

    Several names are a list, or a text with commas between.

    >>> EvaluationSpec(perspectives="answer, retrieval", ks="10,5").perspectives
    ('retrieval', 'answer')
    >>> EvaluationSpec(limit=-1)
    Traceback (most recent call last):
    ragbench.errors.ConfigError: limit is -1: input should be greater than or equal to 0
    >>> EvaluationSpec(critera="relevance")
    Traceback (most recent call last):
    ragbench.errors.ConfigError: unknown option 'critera'; did you mean 'criteria'?

    Raises:
        ConfigError: an unknown option, or a value that no evaluation can use.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    perspectives: Annotated[Words, AfterValidator(_check_perspectives)] = _option(
        (),
        "Only these: retrieval, context, groundedness, answer, pipeline, safety; default: all.",
        _MEASURES,
        flag="--perspective",
        is_served=True,
    )
    categories: Words = _option(
        (),
        "Only the questions of these categories: faq,how-to.",
        _QUESTIONS,
        flag="--category",
        is_served=True,
    )
    suite: Annotated[str, AfterValidator(_check_suite)] = _option(
        "full", "full, or smoke: a fixed sample, done in seconds.", _QUESTIONS, is_served=True
    )
    limit: int = _option(
        0,
        "Only N of the questions, evenly from all categories.",
        _QUESTIONS,
        is_served=True,
        ge=0,
    )
    seed: int = _option(
        0, "Random seed of the questions that a limit takes.", _QUESTIONS, is_served=True, ge=0
    )
    ks: Annotated[tuple[int, ...], BeforeValidator(_check_depths)] = _option(
        KS, "Depths at which rankings are measured.", _MEASURES, flag="--k", is_served=True
    )
    measures: Annotated[tuple[Any, ...], BeforeValidator(_to_files)] = _option(
        (),
        "Report only these measures (nDCG@10,R@5); also your own: package.module:attribute.",
        _MEASURES,
        flag="--measure",
    )
    embedder: Any = _option(
        "minilm",
        "Embedder that measures the similarity of texts: minilm, wordllama, ...",
        _MEASURES,
    )
    support_model: Annotated[str, AfterValidator(_check_support)] = _option(
        "",
        "Model that compares claims with contexts: minilm, lexical, or a cross-encoder for NLI "
        "(folder or hub name).",
        _MEASURES,
    )
    detector: Named = _option(
        None,
        "Detector that scores the safety samples: hf:<classifier>, package.module:attribute; "
        "default: the built-in detector.",
        _MEASURES,
    )
    judge: Annotated[Any, AfterValidator(_check_judge)] = _option(
        "",
        "A model that judges the answers: anthropic:<model>, package.module:attribute, ...; "
        "as a bare option, the model of RAG_EVAL_*.",
        _JUDGE,
    )
    criteria: Annotated[
        tuple[Any, ...], BeforeValidator(_to_criteria), AfterValidator(_check_criteria)
    ] = _option(
        CRITERIA,
        "Criteria of the judge; also completeness, context_recall, context_precision, vital_recall, and "
        "criteria of your own: a .toml file, package.module:attribute.",
        _JUDGE,
        is_served=True,
        is_table=True,
    )
    combine_criteria: bool = _option(
        False,
        "Ask a judge about all criteria in one request: about a sixth fewer tokens, but verdicts "
        "influence each other, and a reply that is cut loses all of them.",
        _JUDGE,
        is_served=True,
    )
    interventions: Annotated[Words, AfterValidator(_check_interventions)] = _option(
        (),
        "Ask the questions again after each of these changes: no-gold,typos:0.05, ...",
        _MEASURES,
        flag="--intervention",
    )
    fail_under: str | Mapping[str, float] = _option(
        "", 'Targets: "nDCG@5=0.6,claim_support=0.85".', _TARGETS
    )
    targets: Named = _option(
        None,
        "A TOML file that changes the default targets; or framework, guide, phase4, adr or "
        "pipeline.",
        _TARGETS,
    )
    baseline: Named = _option(
        None, "An earlier result; exit status 1 if this one is worse.", _TARGETS
    )
    name: str = _option(
        "", "Name of the result; default: made from the dataset and the system.", "Output"
    )
    concurrency: int = _option(
        8,
        "Maximum number of concurrent requests; fewer are sent after time-outs.",
        "Requests",
        ge=1,
    )
    timeout_s: float = _option(
        TIMEOUT_S,
        "Seconds that a language model may take for a reply; time in its queue does not count.",
        "Requests",
        gt=0,
        allow_inf_nan=False,
    )

    def __init__(self, **options: Unpack[EvaluationOptions]) -> None:
        fields = type(self).model_fields
        if name := next((name for name in options if name not in fields), ""):
            raise ConfigError(unknown_option(name, fields))
        try:
            super().__init__(**options)
        except ValidationError as exc:
            raise ConfigError(_problem(exc)) from exc

    @property
    def perspective_names(self) -> tuple[str, ...]:
        """Return the perspectives that are looked at, by ragbench's names; all if none is named."""
        return tuple(_ALIASES.get(name, name) for name in self.perspectives) or MEASURED

    @property
    def shown_names(self) -> dict[str, str]:
        """Return perspective -> the alias by which the user named it; {} if no alias was used.

        >>> EvaluationSpec(perspectives="answer, context_quality").shown_names
        {'context': 'context_quality'}
        """
        return {
            name: written
            for name, written in zip(self.perspective_names, self.perspectives, strict=False)
            if name != written
        }

    def loaded_criteria(self, folder: str | Path = "") -> tuple[Criterion, ...]:
        """Return the criteria of the evaluation; without a judge those that are functions.

        Files and modules are looked for in `folder`, by default the working directory.

        Raises:
            ConfigError: a criterion cannot be loaded, or a criterion of the user needs a judge and
                none is named.
        """
        criteria = load_criteria(self.criteria, folder=folder)
        if self.judge:
            return criteria
        for criterion in criteria:
            if criterion.is_own and criterion.function is None:
                raise ConfigError(
                    f"criterion {criterion.name!r} is judged by a language model, but none is named; "
                    "set judge"
                )
        return tuple(criterion for criterion in criteria if criterion.function is not None)

    def replaced(self, **options: Any) -> EvaluationSpec:
        """Return a copy with these options replaced, checked again."""
        return type(self)(**{**dict(self), **options})


def _problem(exc: ValidationError) -> str:
    """Return the message of a ConfigError about the first option that is invalid."""
    error = exc.errors(include_url=False)[0]
    # a check of ragbench's own has written the whole message
    if isinstance(cause := error.get("ctx", {}).get("error"), ConfigError):
        return str(cause)
    name, text = error["loc"][0], error["msg"]
    problem = f"{name} is {error['input']!r}: {text[0].lower()}{text[1:]}"
    # if the value has a wrong type, the meaning of the option is added
    field = EvaluationSpec.model_fields.get(str(name))
    if error["type"].endswith("_type") and field is not None and field.description:
        problem += f"; {name}: {field.description.rstrip('.')}"
    return problem


def plain_type(field: FieldInfo) -> type:
    """Return the type of a field's value in a notebook, on a command line or in pytest: bool, int,
    float or str.

    >>> plain_type(EvaluationSpec.model_fields["limit"]), plain_type(EvaluationSpec.model_fields["ks"])
    (<class 'int'>, <class 'str'>)
    """
    return field.annotation if field.annotation in (bool, int, float) else str  # type: ignore[return-value]


def parameter_types(name: str) -> tuple[type, ...]:
    """Return the types of an option's value as a parameter of a notebook or a grid; () where this is
    not an option.

    >>> parameter_types("criteria"), parameter_types("limit"), parameter_types("chunk_size")
    ((<class 'str'>, <class 'list'>, <class 'dict'>), (<class 'int'>,), ())
    """
    field = EvaluationSpec.model_fields.get(name)
    if field is None:
        return ()
    return (plain_type(field), list, dict) if detail(field, "is_table") else (plain_type(field),)


def plain_text(value: Any) -> str:
    """Return a field's value as a text from which it is parsed again.

    >>> plain_text((1, 5)), plain_text({"R@5": 0.5}), plain_text(None)
    ('1,5', 'R@5=0.5', '')
    """
    if isinstance(value, Mapping):
        return ",".join(f"{name}={number}" for name, number in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return "" if value is None else str(value)


def option_name(name: str, field: FieldInfo) -> str:
    """Return the option that sets a field on the command line, such as "--support-model"."""
    return detail(field, "flag") or f"--{name.replace('_', '-')}"


def detail(field: FieldInfo, name: str) -> Any:
    """Return an entry of the field's metadata: "panel", "flag" or "is_served"."""
    extra = field.json_schema_extra
    return extra.get(name, "") if isinstance(extra, dict) else ""


def spec_of(parameters: Mapping[str, Any]) -> EvaluationSpec:
    """Return the spec that the parameters of a notebook describe: those that are options of an
    evaluation.

    >>> spec_of({"chunk_size": 128, "criteria": "relevance"}).criteria
    ('relevance',)
    """
    return EvaluationSpec(
        **{name: parameters[name] for name in EvaluationSpec.model_fields if name in parameters}
    )


def spec_of_texts(options: Iterable[str]) -> EvaluationSpec:
    """Return the spec of options that are written as texts.

    >>> spec_of_texts(["criteria=relevance", "limit=10"]).limit
    10

    Raises:
        ConfigError: as `EvaluationSpec`, or a text without "=".
    """
    values: dict[str, Any] = {}
    for text in options:
        name, equals, value = text.partition("=")
        values[name] = value
        if not equals:
            raise ConfigError(
                f"{text!r} is not an option; write NAME=VALUE, such as criteria=relevance"
            )
    return EvaluationSpec(**values)


SMOKE_QUESTIONS = 40
SMOKE_SAMPLES = 120
"""Of inputs and of outputs."""


def select_questions(dataset: Dataset, spec: EvaluationSpec) -> Dataset:
    """Return the part of a dataset that an evaluation takes: its categories, its suite, its limit."""
    dataset = select_suite(select_categories(dataset, spec.categories), spec.suite)
    dataset = dataset.sample(spec.limit, spec.seed) if spec.limit else dataset
    if dataset.qrels.keys() <= dataset.queries.keys():
        return dataset
    return dataset.select([*dataset.queries])  # judgements of other questions are not scored


def select_suite(dataset: Dataset, suite: str) -> Dataset:
    """Return the questions and safety samples of a suite, in the order of the dataset.

    "smoke" takes up to 40 questions and up to 120 safety inputs and outputs each, evenly from all
    categories and from questions with and without an answer. Which ones depends on their ids alone:
    the same on every call, and independent of the other contents of the test set.

    >>> from ragbench.types import Case
    >>> cases = [Case(f"q{i}", "?", category="ab"[i % 2]) for i in range(100)]
    >>> chosen = select_suite(Dataset("demo", "test", {}, cases, {}), "smoke").cases
    >>> len(chosen), sum(case.category == "a" for case in chosen)
    (40, 20)
    """
    if suite == "full":
        return dataset
    chosen = dataset.sample(SMOKE_QUESTIONS)
    return replace(
        chosen,
        safety_inputs=_smoke_samples(dataset.safety_inputs),
        safety_outputs=_smoke_samples(dataset.safety_outputs),
    )


def select_categories(dataset: Dataset, names: Sequence[str]) -> Dataset:
    """Return the questions and safety samples of these categories; all for ().

    >>> from ragbench.types import Case
    >>> cases = [Case("q1", "?", category="faq"), Case("q2", "?", category="how-to")]
    >>> select_categories(Dataset("demo", "test", {}, cases, {}), ["faq"]).queries
    {'q1': '?'}

    Raises:
        ConfigError: a category that the dataset does not have.
    """
    if not names:
        return dataset
    samples = (*dataset.safety_inputs, *dataset.safety_outputs)
    labelled: tuple[Case | SafetySample, ...] = (*samples, *dataset.cases)
    categories = dict.fromkeys(each.category for each in labelled)
    categories.pop("", None)
    if not categories:
        raise ConfigError(f"{dataset.name!r} has no categories")
    check_known("category", categories, *names)
    chosen = dataset.select([case.query_id for case in dataset.cases if case.category in names])
    inputs = tuple(sample for sample in dataset.safety_inputs if sample.category in names)
    outputs = tuple(sample for sample in dataset.safety_outputs if sample.category in names)
    return replace(chosen, safety_inputs=inputs, safety_outputs=outputs)


def _smoke_samples(samples: Sequence[SafetySample]) -> tuple[SafetySample, ...]:
    """Return the safety samples of the suite "smoke": `SMOKE_SAMPLES` from all categories."""
    chosen = evenly(
        samples, SMOKE_SAMPLES, lambda one: one.sample_id, lambda one: (one.harmful, one.category)
    )
    return tuple(chosen)
