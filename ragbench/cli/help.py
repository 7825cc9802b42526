"""Commands as functions: how parameters and docstrings become options and help texts, and what is
suggested for an option or command that does not exist.

A parameter before `*` is an argument, one after it an option; its help is its line in the
docstring, below `Args:` or the heading of a panel. Of a parameter whose type is a
dataclass every field is an option. The docstring ends with an example.
"""

from __future__ import annotations

import functools
import gc
import inspect
import io
import re
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import redirect_stdout
from copy import copy
from dataclasses import is_dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from ragbench.cli.console import clean_errors, print_json
from ragbench.errors import plural, printable

Function = TypeVar("Function", bound=Callable[..., Any])

_TYPES = {
    bool: "",
    int: "N",
    float: "X",
    str: "TEXT",
    Path: "PATH",
    list[str]: "TEXT",
    list[Path]: "PATH",
}
_ENTRIES = re.compile(r"^(?:(\w[\w ]*):\n)? {4}(\w+): (.+(?:\n {5,}.+)*)", re.M)

FIRST_STEPS = """\
Is RAG configuration B really better than A?

First steps:
  ragbench init my-evaluation --docs docs
      start with your own documents: questions, a grid, and the next commands
  ragbench eval --suite smoke
      evaluate BM25 on built-in questions: seconds, no language model
  ragbench sweep pydoc
      run a grid of configurations: one executed notebook each, and a comparison

`ragbench --help` shows all commands, `ragbench COMMAND --help` one of them with
an example, and `ragbench list` all names."""


def joined(text: str) -> str:
    """Return the paragraphs of a docstring before its options, each in one line, so that the
    terminal alone decides where lines end.

    The exit status is a separate paragraph.

    >>> joined("One line,\\nand another.\\n\\nNext. Exit status: 0 done.\\n\\nArgs:\\n    n: Three.")
    'One line, and another.\\n\\nNext.\\n\\nExit status: 0 done.'
    """
    text = re.split(r"\n\n(?=\w[\w ]*:\n {4}|Example: )", text)[0]
    text = re.sub(r"\s+(Exit\s+status:)", r"\n\n\1", text)
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text)


class _ShortTypes:
    """A command that shows the types of its options in a word."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments; an option shows its type in a word, such as N for int."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            kind = param.type_descriptor.annotation
            if param.param_type_name == "option" and param.metavar is None:
                param.metavar = _TYPES.get(kind)
            if kind is bool and param.default is None:
                # to validate a switch that is None (--install-completion, where it is not given),
                # typer imports pydantic, which is slow; for False it does not
                param.default = False
        return params


_WITHOUT_VALUE = {"--judge": "env", "--race": "auto"}
"""Options that need no value -> their value then."""


class Command(_ShortTypes, TyperCommand):
    """A command whose errors are printed in one line each; it returns its exit status."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of a command line.

        An option in `_WITHOUT_VALUE` that is followed by another option, or by nothing, takes its
        default value there. An error about an unknown option also states what to write instead. An error
        about too many arguments also states the command line that is probably meant.
        """
        completed = []
        # each word with the one after it; the last one counts as followed by an option
        for arg, following in zip_longest(args, args[1:], fillvalue="--"):
            if arg in _WITHOUT_VALUE and following.startswith("-"):
                arg = f"{arg}={_WITHOUT_VALUE[arg]}"
            completed.append(arg)
        try:
            _check_given_once(self, ctx, completed)
            return super().parse_args(ctx, list(completed))  # which empties the list
        except TyperException as exc:
            error: Any = exc
            correction = _correction(self, getattr(exc, "option_name", ""), args)
            if correction:
                error.message += f"; write {correction}"
                error.possibilities = None  # typer's own suggestions, which it would add
            elif "extra argument" in error.message:
                error.message += _advice_on_extra_arguments(self, ctx, completed)
            raise

    def invoke(self, ctx: Any) -> None:
        gc.set_threshold(50_000)  # imports make many objects that stay: a tenth of a short run
        with clean_errors():
            ctx.exit(super().invoke(ctx) or 0)


def _check_given_once(command: Command, ctx: Any, args: list[str]) -> None:
    """Fail if an option that takes one value is given twice: typer would use the last
    one, without a word.
    """
    # every option in the order of the command line, as often as it is given
    given: list[Any] = command.make_parser(ctx).parse_args(list(args))[2]
    options = [param for param in given if param.param_type_name == "option"]
    for option in options:
        takes_one_value = not (option.multiple or getattr(option, "is_flag", False))
        if takes_one_value and options.count(option) > 1:
            flag = option.opts[0]
            text = f"{flag} is given {plural(options.count(option), 'time')}; give it once"
            if _takes_commas(option):
                text += f", with commas between several values: {flag} A,B"
            ctx.fail(text)


# as in "nDCG@10,AP"; a comma in a sentence has a space after it
_ADJACENT_COMMA = re.compile(r"\S,\S")


def _takes_commas(option: Any) -> bool:
    """Return True for an option whose text may hold several values with commas between, such as
    --perspective.

    These are options of a field of `EvaluationSpec` that holds several values, and options whose help or
    default shows values with commas.
    """
    if option.type_descriptor.annotation is not str:
        return False
    if _ADJACENT_COMMA.search(f"{option.help} {option.default}"):
        return True
    from ragbench.evaluation import spec  # load pydantic, which only an error needs

    # the help tells --measure of `eval`, which takes several, from that of `compare`, which takes one
    for field in spec.EvaluationSpec.model_fields.values():
        if field.description == option.help:
            return get_origin(field.annotation) is tuple
    return False


def _correction(command: Command, option: str, args: list[str]) -> str:
    """Return what to write instead of an unknown option of a command, such as "--set k=3" for --k.

    "" if nothing is known, or the option exists. The first of these that applies is written:

    1. a grid file for `ragbench sweep`, if unknown options have several values;
    2. the option of a field of `EvaluationSpec` that has another name;
    3. the value alone, for an argument of the command (--system);
    4. --set NAME=VALUE, for a parameter of the pipeline;
    5. the way to a table, for a result and the value "csv";
    6. the option that means the same as an option of other tools;
    7. the long options that begin with the letter, or the argument, for an option of one letter;
    8. an option of a similar name.

    Args:
        option: the option as it is written, such as "--top-k"; "" if the error is about none.
        args: the words of the command line.
    """
    flags = {flag for param in command.params for flag in param.opts}  # such as "--set", "-v"
    if not option or option in flags:
        return ""
    from ragbench.evaluation import parameters, spec  # load pydantic, which only this error needs

    grid = _grid_of_options(args, flags)
    if grid:
        note = _unknown_retrievers(args)
        return f"a file grid.toml of these lines, and `ragbench sweep grid.toml`{note}:\n\n{grid}"
    name = option.lstrip("-").replace("-", "_")
    if name in ("top_k", "topk"):  # of a search; the option --k of `eval` is the depths of measures
        name = "k"
    value = _value_of(option, args) or "VALUE"  # the word after the option; "" without one
    # the name of a field of `EvaluationSpec`, whose option has another name
    field = spec.EvaluationSpec.model_fields.get(name)
    if field is not None and spec.option_name(name, field) in flags:
        return _shown_option(command, spec.option_name(name, field), value)
    arguments = {param.name for param in command.params if param.param_type_name == "argument"}
    takes_system = "system" in arguments
    if name in arguments or (name == "retriever" and takes_system):
        first_word = args[0]
        # "eval tests.yaml --system bm25": the test set is where the system belongs
        is_test_set_first = first_word not in (option, value) and not first_word.startswith("-")
        if takes_system and "--test-set" in flags and is_test_set_first:
            return f"`ragbench {command.name} {value} --test-set {first_word}`"
        return f"{value} without {option}"
    # a parameter that is set by --set
    is_parameter = field is not None or name in parameters.OF_PIPELINE
    if is_parameter and "--set" in flags:
        return f"--set {name}={value}"
    if value == "csv" and "results" in arguments:
        result = "RESULT" if args[0].startswith("-") else args[0]
        return _way_to_table(result)
    usual = _correction_of_usual_option(command, name, value, flags, takes_system=takes_system)
    if usual:
        return usual
    if len(name) == 1:
        long_flags = _long_flags(command, name)
        if not long_flags and any(argument.startswith(name) for argument in arguments):
            return f"{value} without {option}"
        return " or ".join(f"{flag} {value}" for flag in long_flags[:_MAX_FLAGS])
    return _correction_by_similarity(command, name, value, option, arguments, flags)


def _grid_of_options(args: list[str], flags: Collection[str]) -> str:
    """Return the lines of a grid file that set what unknown options of a command line mean, if one of them
    has several values, as in "--retriever bm25,dense:minilm"; "" if none has, or no parameter can be set.

    Args:
        args: the words of the command line.
        flags: the command's options, such as "--set".
    """
    from ragbench.evaluation import parameters, spec
    from ragbench.hints.similar_names import similar

    settable = ["dataset", "corpus", *parameters.OF_PIPELINE, *spec.EvaluationSpec.model_fields]
    fixed: list[str] = []
    axes: list[str] = []
    for arg in args:
        option = arg.partition("=")[0]
        if not option.startswith("--") or option in flags or "--set" not in flags:
            continue
        name = option.lstrip("-").replace("-", "_")
        if name not in settable:
            name = _NAME_IN_GRID.get(name) or similar(name, settable)
        value = _value_of(option, args)
        if not name or not value:
            continue
        lines = axes if parameters.has_several_values(name, value) else fixed
        lines.append(parameters.grid_line(name, value))
    if not axes:
        return ""
    sections = [["[fixed]", *fixed]] if fixed else []
    sections.append(["[axes]", *axes])
    return "\n".join(chain.from_iterable(sections))


def _way_to_table(result: str) -> str:
    """Return how to get the scores of a result as a table.

    Args:
        result: the result's folder, or a word for it.
    """
    folder = result.rstrip("/")
    return f"`ragbench history show {result} --json` for its means; its table of scores is {folder}/scores.csv"


_NAME_IN_GRID = dict.fromkeys("docs documents docs_dir".split(), "corpus")
"""Options for the documents -> the parameter of a grid with this meaning."""


def _unknown_retrievers(args: list[str]) -> str:
    """Return a remark about the first unknown retriever in a command line such as "--retrievers
    bm25,tfidf", in parentheses; "" if all are known, or none is named.
    """
    from ragbench.errors import ConfigError
    from ragbench.evaluation import parameters

    named = _value_of("--retriever", args) or _value_of("--retrievers", args)
    for retriever in filter(None, named.split(",")):
        try:
            parameters.check_parameters({"retriever": retriever})
        except ConfigError as exc:
            return f" ({exc})"
    return ""


def _correction_of_usual_option(
    command: Command, name: str, value: str, flags: Collection[str], *, takes_system: bool
) -> str:
    """Return what to write instead of an option that other tools have, such as --json for
    "--format json"; "" for any other option.

    Args:
        name: the option as a name, such as "format".
        value: its value.
        flags: the command's options, such as "--json".
        takes_system: the command has an argument `system`.
    """
    is_format = name in ("format", "output_format", "type", "mode", "style")
    if is_format and f"--{value}" in flags:
        return f"--{value}"
    if name.startswith("min_") and "--fail-under" in flags:
        return f"--fail-under R@5={value}, with the name of a measure"
    if name in ("header", "headers") and takes_system:
        return "`ragbench probe ADDRESS QUESTION --write system.toml`, and headers into this file"
    if name == "h":
        return "--help"
    is_config = name in ("c", "config") and value.endswith((".toml", ".yaml", ".yml", ".json"))
    if is_config and command.name != "sweep":
        return f"`ragbench sweep {Path(value).with_suffix('.toml')}`, which runs a grid"
    return ""


def _long_flags(command: Command, letter: str) -> list[str]:
    """Return the long options that a one-letter option may mean, such as ["--output"] for "o".

    If the letter usually means one of the options, such as "n" for --limit, this one alone is returned;
    else all options that begin with the letter. Options without a value are left out.
    """
    from ragbench.hints.similar_names import similar

    flag_of = {
        param.name: param.opts[0]
        for param in command.params
        if not getattr(param, "is_flag", False)
    }
    # `similar` knows names of one meaning, among them letters
    usual_name = similar(letter, flag_of)
    if usual_name:
        return [flag_of[usual_name]]
    return sorted(flag for flag in flag_of.values() if flag.startswith(f"--{letter}"))


def _correction_by_similarity(
    command: Command,
    name: str,
    value: str,
    option: str,
    arguments: Collection[str],
    flags: Collection[str],
) -> str:
    """Return what to write instead of an unknown option, if another name is similar; else "".

    The other name belongs to an argument or an option of the command, or else to a parameter of the
    pipeline, which is set by --set.

    Args:
        name: the unknown option as a name, such as "chunk_sise".
        value: its value.
        option: the option as it is written, such as "--chunk-sise".
        arguments: the names of the command's arguments.
        flags: the command's options, such as "--set".
    """
    from ragbench.evaluation import parameters, spec
    from ragbench.hints.similar_names import similar

    flag_of = {flag.lstrip("-").replace("-", "_"): flag for flag in flags if flag.startswith("--")}
    near = similar(name, [*arguments, *flag_of])
    if near in arguments:
        return f"{value} without {option}"
    if near:
        return _shown_option(command, flag_of[near], value)
    if "--set" not in flags:
        return ""
    settable = ["dataset", *parameters.OF_PIPELINE, *spec.EvaluationSpec.model_fields]
    near = similar(name, settable)
    return f"--set {near}={value}" if near else ""


def _shown_option(command: Command, flag: str, value: str) -> str:
    """Return an option with its value, as it is written; of several values with commas between, the first
    one if the option takes only one.
    """
    [option] = [param for param in command.params if flag in param.opts]
    first_value, comma, _ = value.partition(",")
    takes_one = comma != "" and flag == "--measure" and not _takes_commas(option)
    return f"{flag} {first_value}, which takes one" if takes_one else f"{flag} {value}"


_TREC_SUFFIXES = (".trec", ".run", ".qrels", ".qrel")


def _advice_on_extra_arguments(command: Command, ctx: Any, args: list[str]) -> str:
    """Return the end of the message that a command got too many arguments: the command line that the
    user probably means, or else the arguments that the command takes.
    """
    n_trec_files = sum(Path(arg).suffix in _TREC_SUFFIXES for arg in args)
    if n_trec_files > 1:  # rankings and their qrels
        return "; `ragbench score QRELS RUN` scores rankings"
    names = [param.name for param in command.params if param.param_type_name == "argument"]
    flags = {flag for param in command.params for flag in param.opts}
    if "--test-set" in flags:
        values, extra_words, _ = command.make_parser(ctx).parse_args(list(args))
        # the words that are neither options nor values of options
        words = [values[name] for name in names if isinstance(values.get(name), str)]
        words += extra_words
        command_line = _command_line_of_words(command, words, args, flags)
        return f"; write `{command_line}`, and `ragbench sweep` for several systems"
    listed = ", ".join(names)
    return f"; it takes {listed}" if names else "; it takes options alone"


def _command_line_of_words(
    command: Command, words: list[str], args: list[str], flags: Collection[str]
) -> str:
    """Return the command line that words such as "questions.csv docs" mean: of a system, a test set and
    documents. The other options of the command line are kept.

    Args:
        words: the words of the command line that are neither options nor values of options.
        args: all words of the command line.
        flags: the command's options, such as "--docs".
    """
    # "pydoc" is the built-in test set; any other is a path
    data = [word for word in words if word == "pydoc" or Path(word).exists()]
    system = next((word for word in words if word not in data), "bm25")  # the first other word
    line = ["ragbench", str(command.name), system]
    if "--test-set" not in args:
        # a folder next to a file holds the documents
        data.sort(key=lambda word: Path(word).is_dir())
        line += ["--test-set", *(data[:1] or ["TESTS"])]
        data = data[1:]
    if data and "--docs" in flags and "--docs" not in args:
        line += ["--docs", data[0]]
    rest = list(args)
    for word in words:
        rest.remove(word)
    return " ".join([*line, *rest])


def _value_of(option: str, args: list[str]) -> str:
    """Return the value that a command line gives an option, in one word or two; "" if it gives none."""
    for arg, following in zip_longest(args, args[1:], fillvalue=""):
        if arg.startswith(f"{option}="):
            return arg.removeprefix(f"{option}=")
        if arg == option and not following.startswith("-"):
            return following
    return ""


_OTHER_COMMANDS = {
    **dict.fromkeys("leaderboard diff rank".split(), "compare"),
    **dict.fromkeys("evaluate run test assess".split(), "eval"),
    **dict.fromkeys("benchmark experiment grid".split(), "sweep"),
    **{name: f"testset {name}" for name in "generate draft convert validate".split()},
    **dict.fromkeys("synthesize synthesise synth".split(), "testset generate"),
    **dict.fromkeys("dashboard ui server web".split(), "serve"),
    **dict.fromkeys("report html browse".split(), "explore"),
    **dict.fromkeys("show print view result results summary".split(), "history show|explore"),
    **dict.fromkeys("metrics measures".split(), "history show|list"),
    **dict.fromkeys("models retrievers chunkers".split(), "list"),
    **dict.fromkeys("retrieve search trec trec_eval ir_measures pytrec_eval".split(), "score"),
    **dict.fromkeys("annotate review".split(), "label"),
    **dict.fromkeys("calibrate judge".split(), "audit"),
}
"""Commands that people expect -> the command with this meaning, or two with "|" between."""

_MAX_FLAGS = 3  # in a message
_MANY_COMMANDS = 12  # more are not listed in a line


class Group(_ShortTypes, TyperGroup):
    """A command with others below it; it names the command that an unknown one probably means."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word of `args` names.

        If it is unknown, the message states the command that is probably meant, or else all commands if
        they are few.
        """
        is_unknown = args[0] not in self.commands
        if is_unknown and args[0] == "help" and args[1:]:
            ctx.fail(f"No such command 'help'; write `ragbench {' '.join(args[1:])} --help`")
        if is_unknown and args[0] == "help":
            ctx.fail("No such command 'help'; write `ragbench --help`")
        if is_unknown and args[0] in ("export", "to_csv", "csv") and "history" in self.commands:
            result = next((word for word in args[1:] if not word.startswith("-")), "RESULT")
            ctx.fail(f"No such command {args[0]!r}; write {_way_to_table(result)}")
        meant = _OTHER_COMMANDS.get(args[0], "")  # such as "eval" for the word "evaluate"
        if is_unknown and meant.partition(" ")[0] in self.commands:
            named = " or ".join(repr(command) for command in meant.split("|"))
            ctx.fail(f"No such command {args[0]!r}. Did you mean {named}?")
        try:
            return super().resolve_command(ctx, args)
        except TyperException as exc:
            # `ragbench testset FILE`: the command was left out
            if "validate" in self.commands and Path(args[0]).exists():
                exc.message += f" Did you mean 'validate {args[0]}'?"
            if "Did you mean" not in exc.message and len(self.commands) < _MANY_COMMANDS:
                exc.message += f" Known: {', '.join(self.commands)}."
            raise


class Commands(typer.Typer):
    """A command with others below it, which are functions."""

    def __init__(self, text: str, example: str, **options: Any) -> None:
        super().__init__(
            help=text,
            epilog=f"Example: ragbench {example}",
            **{"cls": Group, "no_args_is_help": True, **options},
        )

    def register(self, name: str = "", *, ends: bool = True) -> Callable[[Function], Function]:
        """Return a decorator that adds a function as a command, and returns the function unchanged. Its
        docstring is the help of the command.

        Args:
            name: of the command; "" means the name of the function.
            ends: False for a command that runs until it is stopped, such as a server. Any other
                command gets the option --json, which prints its lines as JSON, unless it has one.
        """

        def add(function: Function) -> Function:
            doc = inspect.getdoc(function) or ""

            def with_all_options() -> Callable[..., Any]:
                options = with_options(function)
                return with_json(options) if ends else options

            command = self.command(
                name or function.__name__.removesuffix("_command").replace("_", "-"),
                cls=_command_with_late_options(with_all_options),
                help=joined(doc),
                epilog=doc[doc.rfind("Example: ") :],  # the last line of the docstring
            )
            command(_no_options)  # a placeholder, whose options are made when they are needed
            return function

        return add


def _command_with_late_options(make: Callable[[], Callable[..., Any]]) -> type[Command]:
    """Return the class of a command that makes its options when they are first needed, to save the time
    for the commands that do not run.

    Args:
        make: returns the function of the command, whose parameters are the options.
    """

    class LateCommand(Command):
        _params: list[Any] | None = None

        @property
        def params(self) -> list[Any]:
            if self._params is None:
                # typer itself makes options of the parameters
                app = typer.Typer(add_completion=False)
                app.command()(make())
                complete = typer.main.get_command(app)
                self._params = complete.params
                self.callback = complete.callback
            return self._params

        @params.setter
        def params(self, _: object) -> None:
            """Ignore the options of the placeholder function, which typer sets."""

    return LateCommand


def _no_options() -> None:
    """Stand in for a command until its options are made."""


def with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function for typer that calls `function` with the options of the command line.

    A parameter of `function` whose type is a dataclass becomes several options, one for each field.
    """
    options_of = _options(function)
    dataclasses: dict[str, Any] = {}
    for name, kind in get_type_hints(function).items():
        if is_dataclass(kind) and name in options_of:
            dataclasses[name] = kind

    @functools.wraps(function)
    def command(**values: Any) -> Any:
        for name, kind in dataclasses.items():
            fields = {option.name: values.pop(option.name) for option in options_of[name]}
            values[name] = kind(**fields)
        return function(**values)

    # the options of all parameters, one after the other
    _set_parameters(command, list(chain.from_iterable(options_of.values())))
    return command


def _set_parameters(command: Callable[..., Any], parameters: list[inspect.Parameter]) -> None:
    """Let a function that takes any keywords have these parameters for whoever inspects it."""
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


def with_json(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with an option --json.

    A function that has the option itself (`as_json`) prints its own JSON. For other functions, and in
    every dry run, the exit status and the printed lines are collected and printed as one JSON object;
    the user is asked nothing.
    """
    signature = inspect.signature(function)
    has_own = "as_json" in signature.parameters

    @functools.wraps(function)
    def command(as_json: bool, **values: Any) -> Any:
        if has_own and not values.get("dry_run"):
            return function(as_json=as_json, **values)
        if as_json:
            return _call_with_output_as_json(function, values)
        return function(**values)

    if has_own:
        return command
    option = inspect.Parameter(
        "as_json",
        inspect.Parameter.KEYWORD_ONLY,
        default=False,
        annotation=Annotated[bool, typer.Option("--json", help="Print status and lines as JSON.")],
    )
    _set_parameters(command, [*signature.parameters.values(), option])
    return command


def _call_with_output_as_json(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call a command, and print its exit status and its printed lines as one JSON object.

    Its input is empty, not a terminal, so that it asks nothing. Return its exit status, or raise the
    typer.Exit by which it ended.
    """
    ending: typer.Exit | None = None
    terminal = sys.stdin
    sys.stdin = io.StringIO()
    try:
        with redirect_stdout(io.StringIO()) as printed:
            status = function(**values)
    except typer.Exit as exc:
        ending = exc
        status = exc.exit_code
    finally:
        sys.stdin = terminal
    lines = printed.getvalue().splitlines()
    print_json({"status": int(status or 0), "lines": [printable(line) for line in lines]})
    if ending is not None:
        raise ending
    return status


def _options(function: Callable[..., Any]) -> dict[str, list[inspect.Parameter]]:
    """Return the options of the command line that a function's parameters become: name of the parameter
    -> its options.

    A parameter whose type is a dataclass has an option for each field of the class, `**options` has one
    for each field of `EvaluationSpec`, and any other parameter has one.
    """
    help_of = _help_of_parameters(function)
    hints = get_type_hints(function, include_extras=True)
    options = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if is_dataclass(hints[name]):
            # the options of all its fields
            options[name] = list(chain.from_iterable(_options(hints[name]).values()))
        elif parameter.kind is parameter.VAR_KEYWORD:
            options[name] = _spec_options()
        else:
            text, panel = help_of.get(name, ("", ""))
            options[name] = [_typer_parameter(parameter, hints[name], text, panel)]
    return options


def _help_of_parameters(function: Callable[..., Any]) -> dict[str, tuple[str, str]]:
    """Return name -> (text, heading) of each parameter that a docstring describes.

    The heading is the nearest one above it, such as "Args" or "Output".
    """
    panel = ""
    help_of = {}
    for heading, name, text in _ENTRIES.findall(inspect.getdoc(function) or ""):
        if heading:
            panel = heading
        help_of[name] = (" ".join(text.split()), panel)
    return help_of


def _typer_parameter(
    parameter: inspect.Parameter, hint: Any, text: str, panel: str
) -> inspect.Parameter:
    """Return a parameter in the form that typer reads: keyword-only, and annotated with a
    typer.Option or a typer.Argument.

    A parameter after `*` is an option, any other an argument.

    Args:
        hint: its annotation, which may contain the Option or Argument already.
        text: its help text; "" keeps the text of the annotation.
        panel: the heading above it in the help; "Args" or "" = none.
    """
    kind = hint
    infos: list[Any] = []
    if get_origin(hint) is Annotated:
        kind, *infos = get_args(hint)
    if infos:
        info = copy(infos[0])
    elif parameter.kind is parameter.KEYWORD_ONLY:
        info = typer.Option()
    else:
        info = typer.Argument()
    info.help = text or info.help
    info.rich_help_panel = panel if panel not in ("", "Args") else None
    # Name a switch that has no name yet (`...`), or typer would add its opposite, --no-NAME. In an
    # annotation, typer reads the first argument of Option(), which is `default`, as the name.
    if kind is bool and info.default is ...:
        info.default = f"--{parameter.name.replace('_', '-')}"
    return parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=Annotated[kind, info])


def _spec_options() -> list[inspect.Parameter]:
    """Return an option for each field of `EvaluationSpec`, below its heading ("panel") in the help.

    The type of an option is bool, int, float or str. A field of any other type is a text, such as "1,5"
    for the list [1, 5].
    """
    from ragbench.evaluation import spec

    options = []
    for name, field in spec.EvaluationSpec.model_fields.items():
        kind = spec.plain_type(field)
        default = spec.plain_text(field.default) if kind is str else field.default
        parameter = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        hint = Annotated[kind, typer.Option(spec.option_name(name, field))]  # type: ignore[valid-type]
        panel = spec.detail(field, "panel")
        options.append(_typer_parameter(parameter, hint, field.description or "", panel))
    return options
