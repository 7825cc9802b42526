"""Plain English: the phrases that .pre-commit-config.yaml forbids are in no source, notebook or README."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]


def hook() -> dict[str, Any]:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    [found] = [hook for repo in config["repos"] for hook in repo["hooks"] if hook["id"] == "plain-english"]
    return dict(found)


def source(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])


def test_no_forbidden_phrase_is_left() -> None:
    settings = hook()
    pattern = re.compile(settings["entry"])
    folders = [ROOT / name for name in ("ragbench", "tests", "notebooks")]
    files = [path for folder in folders for path in sorted(folder.rglob("*"))] + [ROOT / "README.md"]
    found, searched = [], 0
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        if not re.search(settings["files"], name) or re.search(settings["exclude"], name):
            continue
        searched += 1
        for number, line in enumerate(source(path).split("\n"), 1):
            found += [f"{name}:{number}: {match.group()!r}" for match in pattern.finditer(line)]
    assert searched > 300
    assert not found, "write the usual word, see .pre-commit-config.yaml:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("line", "forbidden"),
    [
        ("scores are Held " + "against people's", True),
        ("'x' is no " + "measure; expected", True),
        ("there is no measure of that name", False),
        ("a machine that stands in for another", False),
    ],
)
def test_the_pattern_knows_the_private_phrase_from_ordinary_english(line: str, forbidden: bool) -> None:
    assert bool(re.search(hook()["entry"], line)) == forbidden
