"""Commands as functions: options from parameters and their docstring, help texts that fit the
terminal, errors in one line.

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
from collections.abc import Callable
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
from ragbench.errors import printable

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
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            kind = param.type_descriptor.annotation
            if param.param_type_name == "option" and param.metavar is None:
                param.metavar = _TYPES.get(kind)
            if kind is bool and param.default is None:
                # typer imports pydantic to validate a switch that is None (--install-completion,
                # where it is not given), but not one that is False: a fifth of every help
                param.default = False
        return params


_WITHOUT_VALUE = {"--judge": "env", "--race": "auto"}
"""Options that need no value -> their value then."""


class Command(_ShortTypes, TyperCommand):
    """A command whose errors are printed in one line each; it returns its exit status."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments: an option whose value is optional takes its default if another option or
        nothing follows. A refusal of an option names the way to write it.
        """
        completed = []
        for arg, following in zip_longest(args, args[1:], fillvalue="--"):
            if arg in _WITHOUT_VALUE and following.startswith("-"):
                arg = f"{arg}={_WITHOUT_VALUE[arg]}"
            completed.append(arg)
        try:
            return super().parse_args(ctx, completed)
        except TyperException as exc:
            refusal: Any = exc
            written = _way_to_set(self, getattr(exc, "option_name", ""), args)
            if written:
                refusal.message += f"; write {written}"
                refusal.possibilities = None
            raise

    def invoke(self, ctx: Any) -> None:
        gc.set_threshold(50_000)  # imports make many objects that stay: a tenth of a short run
        with clean_errors():
            ctx.exit(super().invoke(ctx) or 0)


def _way_to_set(command: Command, option: str, args: list[str]) -> str:
    """Return how a command sets what an unknown option names: an argument, an option of another name,
    or a parameter of the pipeline by --set; "" if it does not, or the option is known.
    """
    flags = {flag for param in command.params for flag in param.opts}
    if not option or option in flags:
        return ""
    from ragbench.evaluation import parameters, spec  # load pydantic, which only this error needs
    from ragbench.hints import similar

    name = option.lstrip("-").replace("-", "_")
    value = _value_of(option, args) or "VALUE"
    field = spec.EvaluationSpec.model_fields.get(name)
    if field is not None and spec.option_name(name, field) in flags:
        return f"{spec.option_name(name, field)} {value}"
    arguments = {param.name for param in command.params if param.param_type_name == "argument"}
    is_argument = name in arguments or (name == "retriever" and "system" in arguments)
    if is_argument:
        return f"{value} without {option}"
    is_parameter = field is not None or name in parameters.OF_PIPELINE
    if is_parameter and "--set" in flags:
        return f"--set {name}={value}"
    if f"--{value}" in flags:  # such as --format json
        return f"--{value}"
    if name == "h":
        return "--help"
    if len(name) == 1:
        with_value = [param for param in command.params if not getattr(param, "is_flag", False)]
        meant = similar(name, [param.name for param in with_value])
        long_flags = [param.opts[0] for param in with_value if param.name == meant]
        if not meant:
            long_flags = sorted(
                param.opts[0] for param in with_value if param.opts[0].startswith(f"--{name}")
            )
        if not long_flags and any(argument.startswith(name) for argument in arguments):
            return f"{value} without {option}"
        return " or ".join(f"{flag} {value}" for flag in long_flags[:_MAX_FLAGS])
    flag_of = {flag.lstrip("-").replace("-", "_"): flag for flag in flags if flag.startswith("--")}
    near = similar(name, [*arguments, *flag_of])
    if near in arguments:
        return f"{value} without {option}"
    if near:
        return f"{flag_of[near]} {value}"
    settable = ["dataset", *parameters.OF_PIPELINE, *spec.EvaluationSpec.model_fields]
    near = similar(name, settable)
    return f"--set {near}={value}" if near and "--set" in flags else ""


def _value_of(option: str, args: list[str]) -> str:
    """Return the value that a command line gives an option, in one word or two; "" if it gives none."""
    for arg, following in zip_longest(args, args[1:], fillvalue=""):
        if arg.startswith(f"{option}="):
            return arg.removeprefix(f"{option}=")
        if arg == option and not following.startswith("-"):
            return following
    return ""


_OTHER_COMMANDS = {
    **dict.fromkeys("leaderboard diff rank view show".split(), "compare"),
    **dict.fromkeys("evaluate run test assess".split(), "eval"),
    **dict.fromkeys("benchmark experiment grid".split(), "sweep"),
    **dict.fromkeys("generate synthesize draft convert validate".split(), "testset"),
    **dict.fromkeys("dashboard ui server web".split(), "serve"),
    **dict.fromkeys("report export html".split(), "explore"),
    **dict.fromkeys("metrics measures models retrievers chunkers".split(), "list"),
    **dict.fromkeys("retrieve search trec trec_eval ir_measures pytrec_eval".split(), "score"),
    **dict.fromkeys("annotate review".split(), "label"),
    **dict.fromkeys("calibrate judge".split(), "audit"),
}
"""Commands that people expect -> the command with this meaning."""

_MAX_FLAGS = 3  # in a message
_MANY_COMMANDS = 12  # more are not listed in a line


class Group(_ShortTypes, TyperGroup):
    """A command with others below it; it names the command that an unknown one probably means."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        expected = _OTHER_COMMANDS.get(args[0], "")
        if args[0] not in self.commands and expected in self.commands:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {expected!r}?")
        try:
            return super().resolve_command(ctx, args)
        except TyperException as exc:
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
        """Return a decorator that makes a command of a function.

        Args:
            name: of the command; "" means the name of the function.
            ends: True for a command that ends by itself, unlike a server: it gets the option --json,
                unless it has one, which prints its lines as JSON.
        """

        def add(function: Function) -> Function:
            """Register the command, whose help is the function's docstring, and return the function
            as it is; its options are made when the command is used.
            """
            doc = inspect.getdoc(function) or ""

            def with_all() -> Callable[..., Any]:
                options = with_options(function)
                return with_json(options) if ends else options

            command = self.command(
                name or function.__name__.removesuffix("_command").replace("_", "-"),
                cls=_late(with_all),
                help=joined(doc),
                epilog=doc[doc.rfind("Example: ") :],
            )
            command(_no_options)
            return function

        return add


def _late(with_all: Callable[[], Callable[..., Any]]) -> type[Command]:
    """Return the class of a command whose options are made when they are first asked for.

    One of 40 commands runs: to make the options of the others, some of which are the fields of
    `EvaluationSpec`, takes a third of the time of a command's help.
    """

    class LateCommand(Command):
        _params: list[Any] | None = None

        @property
        def params(self) -> list[Any]:
            if self._params is None:
                alone = typer.Typer(add_completion=False)
                alone.command()(with_all())
                complete = typer.main.get_command(alone)
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
    """Return a function that typer takes: a parameter that is a dataclass is replaced by an option
    for each of its fields.
    """
    options = _options(function)
    dataclasses: dict[str, Any] = {}
    for name, kind in get_type_hints(function).items():
        if is_dataclass(kind) and name in options:
            dataclasses[name] = kind

    @functools.wraps(function)
    def command(**values: Any) -> Any:
        for name, kind in dataclasses.items():
            fields = {option.name: values.pop(option.name) for option in options[name]}
            values[name] = kind(**fields)
        return function(**values)

    _declare(command, list(chain.from_iterable(options.values())))
    return command


def _declare(command: Callable[..., Any], parameters: list[inspect.Parameter]) -> None:
    """Let a function that takes any keywords have these parameters for whoever inspects it."""
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


def with_json(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with an option --json: its own, or one that prints the exit status and the lines
    of the output as one JSON object, and asks nothing. A dry run always prints these.
    """
    signature = inspect.signature(function)
    has_own = "as_json" in signature.parameters

    @functools.wraps(function)
    def command(as_json: bool, **values: Any) -> Any:
        if has_own and not values.get("dry_run"):
            return function(as_json=as_json, **values)
        if not as_json:
            return function(**values)
        ending: typer.Exit | None = None
        terminal = sys.stdin
        sys.stdin = io.StringIO()  # nothing is asked
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

    if has_own:
        return command
    option = inspect.Parameter(
        "as_json",
        inspect.Parameter.KEYWORD_ONLY,
        default=False,
        annotation=Annotated[bool, typer.Option("--json", help="Print status and lines as JSON.")],
    )
    _declare(command, [*inspect.signature(function).parameters.values(), option])
    return command


def _options(function: Callable[..., Any]) -> dict[str, list[inspect.Parameter]]:
    """Return the options of the command line for each parameter of a function: one, or for a
    dataclass or `**options` one for each of their fields.
    """
    texts = _texts_of_options(function)
    hints = get_type_hints(function, include_extras=True)
    options = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if is_dataclass(hints[name]):
            options[name] = list(chain.from_iterable(_options(hints[name]).values()))
        elif parameter.kind is parameter.VAR_KEYWORD:
            options[name] = _spec_options()
        else:
            text, panel = texts.get(name, ("", ""))
            options[name] = [_declared(parameter, hints[name], text, panel)]
    return options


def _texts_of_options(function: Callable[..., Any]) -> dict[str, tuple[str, str]]:
    """Return the name of each parameter in a docstring -> its text, and the heading above it."""
    panel = ""
    texts = {}
    for heading, name, text in _ENTRIES.findall(inspect.getdoc(function) or ""):
        if heading:
            panel = heading
        texts[name] = (" ".join(text.split()), panel)
    return texts


def _declared(parameter: inspect.Parameter, hint: Any, text: str, panel: str) -> inspect.Parameter:
    """Return a parameter as typer takes it, with its help text; `panel` is the heading above it in
    the help ("Args" or "" = none).
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
    if kind is bool and info.default is ...:  # without --no-...
        info.default = f"--{parameter.name.replace('_', '-')}"
    return parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=Annotated[kind, info])


def _spec_options() -> list[inspect.Parameter]:
    """Return an option for each field of `EvaluationSpec`."""
    from ragbench.evaluation import spec

    options = []
    for name, field in spec.EvaluationSpec.model_fields.items():
        kind = spec.plain_type(field)
        default = spec.plain_text(field.default) if kind is str else field.default
        parameter = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        hint = Annotated[kind, typer.Option(spec.option_name(name, field))]  # type: ignore[valid-type]
        panel = spec.detail(field, "panel")
        options.append(_declared(parameter, hint, field.description or "", panel))
    return options
