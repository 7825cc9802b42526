"""Plain English: the phrases that .pre-commit-config.yaml forbids are in no source, notebook or
README.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]


def hooks() -> list[dict[str, Any]]:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    return [
        hook
        for repo in config["repos"]
        for hook in repo["hooks"]
        if hook["id"].startswith("plain-english")
    ]


def source(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    return "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])


def test_no_forbidden_phrase_is_left() -> None:
    patterns = [(hook["files"], hook["exclude"], re.compile(hook["entry"])) for hook in hooks()]
    folders = [ROOT / name for name in ("ragbench", "tests", "notebooks")]
    files = [path for folder in folders for path in sorted(folder.rglob("*"))] + [
        ROOT / "README.md"
    ]
    found, searched = [], 0
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        own = [
            pattern
            for included, excluded, pattern in patterns
            if re.search(included, name) and not re.search(excluded, name)
        ]
        searched += bool(own)
        text = source(path) if own else ""
        found += [
            f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()!r}"
            for pattern in own
            for match in pattern.finditer(text)
        ]
    assert searched > 300
    assert not found, "write the usual word, see .pre-commit-config.yaml:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("line", "forbidden"),
    [
        ("scores are Held " + "against people's", True),
        ("'x' is no " + "measure; expected", True),
        ("there is no measure of that name", False),
        ("a machine that stands in for another", False),
        ("said" + " = []", True),
        ("in the folder besi" + "de it", True),
        ("the parameter most" + "=3, at least 2", True),
        ("Nobody knows.", False),
    ],
)
def test_the_pattern_knows_the_private_phrase_from_ordinary_english(
    line: str, forbidden: bool
) -> None:
    assert any(re.search(hook["entry"], line) for hook in hooks()) == forbidden
