"""The command `ragbench` and the order of its subcommands in --help. The imports of a command run
when it is called, so that --help is instant.
"""

from __future__ import annotations

import sys
from typing import Annotated

try:
    import platformdirs  # noqa: F401
    import typer
except ImportError:  # a wheel that was installed without its requirements
    sys.stderr.write(
        "the command needs typer and platformdirs; run: pip install typer platformdirs\n"
    )
    sys.exit(2)

from ragbench.cli.alert import alert_app
from ragbench.cli.answers import answers_command
from ragbench.cli.audit import audit_command
from ragbench.cli.cache import cache_app
from ragbench.cli.compare import compare_command
from ragbench.cli.eval import eval_command
from ragbench.cli.explore import explore_command
from ragbench.cli.help import FIRST_STEPS, Commands
from ragbench.cli.history import history_app
from ragbench.cli.init import init_command, notebooks_command
from ragbench.cli.key import key_app
from ragbench.cli.label import label_command
from ragbench.cli.lists import list_command
from ragbench.cli.probe import probe_command
from ragbench.cli.publish import publish_command
from ragbench.cli.schedule import schedule_app
from ragbench.cli.score import score_command
from ragbench.cli.serve import serve_command
from ragbench.cli.skill import skill_command
from ragbench.cli.sweep import sweep_command, verify_command
from ragbench.cli.testsets import testset_app
from ragbench.cli.tune import tune_command

app = Commands(
    "Is RAG configuration B really better than A? Sweeps of executed notebooks, with honest "
    "statistics.",
    "sweep pydoc",
    name="ragbench",
    invoke_without_command=True,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        from ragbench.evaluation import own_version

        typer.echo(f"ragbench {own_version()}")
        raise typer.Exit


@app.callback()
def _ragbench(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    # no docstring: typer would show it as help
    if ctx.invoked_subcommand is None:  # `ragbench` alone
        typer.echo(FIRST_STEPS)


for function in (
    init_command,
    sweep_command,
    verify_command,
    answers_command,
    eval_command,
    probe_command,
    compare_command,
    label_command,
    audit_command,
    tune_command,
    score_command,
    explore_command,
    publish_command,
    list_command,
    notebooks_command,
    skill_command,
):
    app.register()(function)
app.register(ends=False)(serve_command)
for name, group in {
    "testset": testset_app,
    "history": history_app,
    "schedule": schedule_app,
    "alert": alert_app,
    "key": key_app,
    "cache": cache_app,
}.items():
    app.add_typer(group, name=name)
