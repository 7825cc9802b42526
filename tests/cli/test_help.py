"""Every help text: an example, no noise, and lines that fit a terminal of 80 columns."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from ragbench.cli import app

runner = CliRunner()


def commands(
    command: Any = None, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    command = command or typer.main.get_command(app)
    yield path, command
    for name, one in getattr(command, "commands", {}).items():
        yield from commands(one, (*path, name))


ALL = list(commands())


def help_of(path: tuple[str, ...]) -> str:
    done = runner.invoke(
        app, [*path, "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}, terminal_width=80
    )
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize(
    ("path", "command"), ALL, ids=[" ".join(path) or "ragbench" for path, _ in ALL]
)
def test_help_is_readable(path: tuple[str, ...], command: Any) -> None:
    text = help_of(path)
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"<bool>|<int range>|<float range>", text)
    flat = re.sub(r"[\s│]+", "", text)
    for param in command.params:
        assert param.help, f"{param.name} has no help"
        if not getattr(param, "hidden", False):
            assert re.sub(r"\s+", "", param.help) in flat, (
                f"{param.name}: its help is cut or read as markup"
            )


@pytest.mark.parametrize(
    ("path", "command"), ALL, ids=[" ".join(path) or "ragbench" for path, _ in ALL]
)
def test_the_example_of_a_help_text_names_options_that_exist(
    path: tuple[str, ...], command: Any
) -> None:
    example = re.match(r"Example: ragbench ([^\n]+)", command.epilog or "")
    assert example is not None
    words = shlex.split(example.group(1))
    assert tuple(words[: len(path)]) == path
    by_path = dict(ALL)
    longest = max((known for known in by_path if tuple(words[: len(known)]) == known), key=len)
    options = {
        name for param in by_path[longest].params for name in (*param.opts, *param.secondary_opts)
    }
    assert {word for word in words if re.match(r"--?[a-z]", word)} <= options


def test_paragraphs_are_wrapped_by_the_terminal_alone() -> None:
    paragraph = help_of(("sweep",)).split("Exit status:")[1].split("╭")[0]
    lines = [line.strip() for line in paragraph.strip().splitlines()]
    assert all(len(line) > 60 for line in lines[:-1]), lines


def test_a_race_needs_no_measure(tmp_path: Path) -> None:
    for words in (["--race"], ["--race", "--margin", "0.02"], ["--race", "R@5"]):
        done = runner.invoke(app, ["sweep", str(tmp_path / "absent.toml"), *words])
        assert done.exit_code == 2
        assert "absent.toml" in done.output


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "score a b --measure nDCG@10 --measure R@5",
            "--measure is given 2 times; give it once, with commas",
        ),
        ("eval bm25 --fail-under R@5=.1 --fail-under=nDCG@10=.9", "--fail-under is given 2 times"),
        ("eval bm25 --limit 3 --limit 4", "--limit is given 2 times; give it once"),
    ],
)
def test_an_option_of_one_value_is_not_given_twice(line: str, expected: str) -> None:
    """The last one alone would count: a target of a gate would disappear without a word."""
    done = runner.invoke(app, line.split(), env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"})
    assert done.exit_code == 2
    assert expected in done.output


def test_options_of_several_values_and_switches_may_be_repeated(tmp_path: Path) -> None:
    line = ["eval", "bm25", "--dry-run", "--json", "--json", "--limit", "2"]
    line += ["--set", "k=3", "--set", "chunk_size=64", "--output", str(tmp_path / "out")]
    done = runner.invoke(app, line)
    assert done.exit_code == 0, done.output


def test_without_arguments_the_first_steps_are_shown() -> None:
    done = runner.invoke(app, [])
    assert done.exit_code == 0
    known = {" ".join(path) for path, _ in ALL}
    named = set(re.findall(r"^  ragbench (\w+)", done.output, re.MULTILINE))
    assert {"eval", "sweep", "init"} <= named <= known
    assert max(map(len, done.output.splitlines())) <= 80


def test_the_shell_completes_commands_and_names() -> None:
    for words, expected in (("ragbench swe", "sweep"), ("ragbench list ret", "retrievers")):
        completing = {
            "_RAGBENCH_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        }
        done = runner.invoke(app, [], env=completing, prog_name="ragbench")
        assert done.output.split() == [expected]


@pytest.mark.parametrize(
    ("line", "unneeded"),
    [
        ("--help", {"numpy", "pandas", "pydantic", "httpx", "scipy", "ragbench.evaluation.spec"}),
        ("sweep --help", {"numpy", "pandas", "pydantic", "httpx", "scipy"}),
        ("list", {"numpy", "pandas", "httpx", "scipy", "ragbench.evaluation.spec"}),
        ("eval --help", {"numpy", "pandas", "httpx", "scipy", "ragbench.systems.pipeline"}),
    ],
)
def test_help_loads_nothing_that_computes(line: str, unneeded: set[str]) -> None:
    """Typer itself loads pydantic to check an argument that has a value, so `list` has it loaded."""
    code = (
        "import sys\nfrom ragbench.cli import app\n"
        f"sys.argv = ['ragbench', *{line.split()!r}]\n"
        "try:\n    app()\nexcept SystemExit as ending:\n    assert not ending.code\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not unneeded & {*run.stderr.split()}
