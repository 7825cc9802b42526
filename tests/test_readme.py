"""The statements of the README hold."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

import ragbench
from ragbench.cli import app
from tests import readme_picture
from tests.committed import guide_pages

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {
    path: path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", ROOT / "ragbench/README.md", *guide_pages())
}
TEXT = "\n".join(PAGES.values())


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_commands_are_on_the_first_screen() -> None:
    commands = [block.strip() for block in blocks("bash")]
    assert commands == [
        "python3 -m venv .venv && .venv/bin/pip install -e . && .venv/bin/ragbench sweep "
        "notebooks/pydoc.toml",
        "python3 -m venv .venv && .venv/bin/pip install -e '.[docs]' && "
        ".venv/bin/sphinx-build -W notebooks/guide build/site",
        "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/pytest",
    ]
    assert README.index(commands[2]) < README.index("## ")


def test_ci_runs_the_readmes_own_commands_in_its_order() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    patterns = dict(re.findall(r'(\w+)=\$\(grep -m1 -E "(.+?)" README.md\)', script))
    run = re.findall(r'bash -c "\$(\w+)"', script)
    found = [
        [line for line in README.splitlines() if re.search(patterns[name], line)] for name in run
    ]
    assert found == [[block.strip()] for block in blocks("bash")]


def test_what_runs_on_a_schedule_has_a_name_each() -> None:
    script = ROOT / ".ci/schedule"
    assert os.access(script, os.X_OK)
    for arguments, status in ((["--help"], 0), (["nothing"], 2), (["lock", "lowest"], 2)):
        done = subprocess.run([script, *arguments], capture_output=True, text=True)
        assert done.returncode == status
        for part in ("lock", "lowest", "pythons", "simulations", "benchmarks", "verify"):
            assert f"  {part} " in done.stdout + done.stderr


def test_the_example_prints_what_the_readme_shows() -> None:
    done = subprocess.run(
        [sys.executable, "-c", blocks("python")[0]], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == blocks("text")[0]


def test_the_picture_is_drawn_from_the_committed_results() -> None:
    with Image.open(readme_picture.PICTURE) as picture:
        source = picture.info["Source"]
    assert source == readme_picture.source(), "run: python -m tests.readme_picture"
    assert f"]({readme_picture.PICTURE.relative_to(ROOT).as_posix()})" in README


def test_own_documents_take_three_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    init, draft, sweep = [line for line in blocks("sh")[0].splitlines() if line]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(
        "# Kettle\n\nA kettle is a vessel for boiling water on the stove at home.\n"
    )
    (tmp_path / "docs" / "b.html").write_text(
        "<h1>Toaster</h1><p>A toaster is a device that browns slices of bread."
    )
    command, _, folder = init.partition(" && cd ")
    for line, place in ((command, "."), (draft, folder), (f"{sweep} --dry-run", ".")):
        monkeypatch.chdir(place)
        words = shlex.split(line)
        assert words[0] == "ragbench"
        done = CliRunner().invoke(app, words[1:])
        assert done.exit_code == 0, done.output


def test_every_command_exists() -> None:
    named = set(re.findall(r"(?:`|\n|run: |bin/)ragbench ([a-z]+)((?: [a-z]+)?)", TEXT))
    assert len(named) > 12
    for command, second in named:
        grouped = command in ("testset", "cache", "history", "alert", "key") and second
        words = [command, second.strip()] if grouped else [command]
        done = CliRunner().invoke(app, [*words, "--help"])
        assert done.exit_code == 0, f"ragbench {' '.join(words)}: {done.output}"


def anchors_of(text: str) -> set[str]:
    """The anchors of the headings of a page."""
    return {
        re.sub(r"[^\w -]", "", line.lower()).strip().replace(" ", "-")
        for line in re.findall(r"\n#+ (.*)", text)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", PAGES[page]):
        file, _, anchor = target.partition("#")
        if "://" in file or file.startswith("generated/"):
            continue
        linked = (page.parent / file).resolve() if file else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors_of(PAGES[linked]), target


def test_every_call_in_the_stage_table_is_public() -> None:
    page = PAGES[ROOT / "notebooks/guide/stages.md"]
    table = page[page.index("| stage | call |") :]
    calls = set(re.findall(r"((?:\w+\.)?[A-Za-z_]\w+)\(", table))
    public = {
        *ragbench.__all__,
        *(f"retrieval.{name}" for name in ragbench.retrieval.__all__),
    }
    public |= {*(f"metrics.{name}" for name in ragbench.metrics.__all__), *ragbench.metrics.__all__}
    assert calls <= public, calls - public
    assert len(calls) >= 10


def test_the_number_of_built_in_questions_is_right() -> None:
    counts = re.findall(r"(\d+) questions (?:of ours|about the Python)", TEXT)
    assert len(counts) > 1
    assert {int(count) for count in counts} == {len(ragbench.load_dataset("pydoc").cases)}


def test_files_that_are_named_are_there() -> None:
    for name in re.findall(r"\b(?:notebooks|tests)/[\w./]+\.(?:ipynb|toml|py)", TEXT):
        is_of_a_user = name.startswith("tests/rag_evaluation/")
        assert is_of_a_user or (ROOT / name).is_file(), name


def test_each_sentence_about_what_is_trusted_names_its_test() -> None:
    page, _, _ = PAGES[ROOT / "notebooks/guide/security.md"].partition("## What is attacked")
    held = re.sub(r"^- \*\*Not defended.*?(?=^- |\n\n|\Z)", "", page, flags=re.S | re.M)
    sources = "\n".join(
        path.read_text(encoding="utf-8") for path in ROOT.rglob("tests/**/test_*.py")
    )
    names = re.findall(r"`(test_\w+)`", held)
    assert len(names) > 40
    assert [name for name in names if f"def {name}(" not in sources] == []
    bullets = re.findall(r"^- .*?(?=^- |\n\n|\Z)", held, re.S | re.M)
    sentences = [part for each in bullets for part in re.split(r"(?<=\))[.;,]\s", each)]
    assert [text for text in sentences if text.strip() and "`test_" not in text] == []


def test_as_many_tests_attack_as_the_page_counts() -> None:
    page = PAGES[ROOT / "notebooks/guide/security.md"]
    counted: Counter[Path] = Counter()
    for folder, table in re.findall(r"in `tests/([\w/]*)`:\n\n((?:\|.*\n)+)", page):
        header, _, *rows = table.splitlines()
        assert header == "| attack or fault | tried | result | tests |"
        for row in rows:
            assert len(row) <= 100, row
            _, _, _, _, tests, _ = row.split("|")
            number, file = re.fullmatch(r" (\d+) `([\w/.]+)`\*? ", tests).groups()  # type: ignore[union-attr]
            counted[ROOT / "tests" / folder / file] += int(number)
    assert len(counted) > 30
    for path, number in counted.items():
        tests = re.findall(r"^def test_", path.read_text(encoding="utf-8"), re.M)
        assert len(tests) >= number, path
