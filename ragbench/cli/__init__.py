"""The command `ragbench`. What a command needs is imported when it is called, so that --help is
instant.
"""

from __future__ import annotations

from typing import Annotated

import typer

from ragbench.cli.alert import alert_app
from ragbench.cli.answers import answers_command
from ragbench.cli.cache import cache_app
from ragbench.cli.eval import EvalCommand, eval_command
from ragbench.cli.explore import explore_command
from ragbench.cli.export import export_command
from ragbench.cli.help import FIRST_STEPS, Command, Group
from ragbench.cli.history import history_app
from ragbench.cli.init import init_command, notebooks_command
from ragbench.cli.key import key_app
from ragbench.cli.label import LABEL_EXAMPLE, label_command
from ragbench.cli.lists import list_names
from ragbench.cli.probe import probe_command
from ragbench.cli.schedule import schedule_app
from ragbench.cli.score import score_command
from ragbench.cli.serve import serve_command
from ragbench.cli.sweep import sweep_command, verify_command
from ragbench.cli.testsets import testset_app

app = typer.Typer(
    name="ragbench",
    help="Is RAG configuration B really better than A? Sweeps of executed notebooks, with honest "
    "statistics.",
    epilog="Example: ragbench sweep quickstart",
    cls=Group,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
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
    if ctx.invoked_subcommand is None:
        typer.echo(FIRST_STEPS)


for name, command, example in (
    ("init", init_command, "init my-evaluation --docs docs"),
    ("sweep", sweep_command, "sweep quickstart --jobs 2"),
    ("verify", verify_command, "verify results/quickstart"),
    ("answers", answers_command, "answers my-dataset --llm ollama:llama3.1:8b --dry-run"),
    ("eval", eval_command, 'eval --suite smoke --fail-under "nDCG@5=0.4"'),
    ("probe", probe_command, 'probe --url http://localhost:8000/ask "Why?" --write my.toml'),
    ("score", score_command, "score qrels.txt bm25.run dense.run --measures nDCG@10,AP"),
    ("explore", explore_command, "explore results/quickstart -o explore.html"),
    ("export", export_command, "export results/quickstart -o scores.parquet"),
    ("list", list_names, "list retrievers"),
    ("label", label_command, LABEL_EXAMPLE),
    ("notebooks", notebooks_command, "notebooks my-notebooks"),
    ("serve", serve_command, "serve --root my-evaluation"),
):
    kind = EvalCommand if name == "eval" else Command
    app.command(name, cls=kind, epilog=f"Example: ragbench {example}")(command)
app.add_typer(testset_app, name="testset")
app.add_typer(history_app, name="history")
app.add_typer(schedule_app, name="schedule")
app.add_typer(alert_app, name="alert")
app.add_typer(key_app, name="key")
app.add_typer(cache_app, name="cache")
