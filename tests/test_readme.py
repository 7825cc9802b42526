"""The statements of the README hold."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import ragbench

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_two_commands_are_on_the_first_screen() -> None:
    commands = [block.strip() for block in blocks("bash")]
    assert commands == [
        "python3 -m venv .venv && .venv/bin/pip install -e . && .venv/bin/ragbench sweep notebooks/quickstart.toml",
        "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/pytest",
    ]
    assert README.index(commands[1]) < README.index("## ")


def test_ci_runs_the_readmes_own_command() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    pattern = re.search(r'grep -m1 -E "(.+?)" README.md', script)
    assert pattern is not None
    found = [line for line in README.splitlines() if re.search(pattern.group(1), line)]
    assert found == [blocks("bash")[1].strip()]


def test_the_example_is_ten_lines_and_runs() -> None:
    example = blocks("python")[0]
    assert len([line for line in example.splitlines() if line.strip()]) <= 10
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    header, *rows = done.stdout.splitlines()
    assert header.split()[:4] == ["measure", "baseline", "contender", "difference"]
    assert [row.split()[1] for row in rows] == ["nDCG@10", "R@5"]


def test_every_call_in_the_stage_table_is_public() -> None:
    table = README[README.index("| stage | call |") : README.index("## Data")]
    calls = set(re.findall(r"((?:\w+\.)?[A-Za-z_]\w+)\(", table))
    public = {*ragbench.__all__, *(f"retrievers.{name}" for name in ragbench.retrievers.__all__)}
    public |= {*(f"scoring.{name}" for name in ragbench.scoring.__all__), *ragbench.scoring.__all__}
    assert calls <= public, calls - public
    assert len(calls) >= 10


def test_the_number_of_built_in_questions_is_right() -> None:
    count = re.search(r"(\d+) questions of ours", README)
    assert count is not None
    assert len(ragbench.load_dataset("pydoc").cases) == int(count.group(1))


def test_files_that_are_named_are_there() -> None:
    for name in re.findall(r"\b(?:notebooks|tests)/[\w./]+\.(?:ipynb|toml|py)", README):
        assert (ROOT / name).is_file(), name
