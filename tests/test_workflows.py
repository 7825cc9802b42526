"""Our workflow runs the script that decides on changes; the gate in the README works as it is
written.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
TOPICS = {
    "cats": "Cats sleep most of the day.",
    "dogs": "Dogs guard the house.",
    "fish": "Fish breathe through gills.",
}
WORDS = {"cats": "cats sleep", "dogs": "dogs guard the house", "fish": "fish breathe"}
CASES = [(f"q{i}", f"When do {WORDS[name]} ({i})?", name) for i, name in enumerate([*TOPICS] * 8)]
TESTS = "cases:\n" + "".join(
    f"  - {{id: {one}, query: {query}, expected_chunks: [{{doc_id: {name}.md}}]}}\n"
    for one, query, name in CASES
)


def parsed(text: str) -> dict[Any, Any]:
    found = yaml.safe_load(text)
    assert isinstance(found, dict)
    return found


def runs(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    [job] = workflow["jobs"].values()
    return [step for step in job["steps"] if "run" in step]


def gate() -> str:
    blocks = re.findall(
        r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    found: str = next(block for block in blocks if "ragbench eval" in block)
    return found


def test_our_workflow_runs_the_script_of_ci_on_every_supported_python() -> None:
    workflow = parsed((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    databases, step = runs(workflow)
    assert "postgresql mariadb-server" in databases["run"]
    script = ROOT / step["run"]
    assert os.access(script, os.X_OK)
    [job] = workflow["jobs"].values()
    classifiers = re.findall(
        r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    )
    assert job["strategy"]["matrix"]["python-version"] == classifiers
    for line in script.read_text(encoding="utf-8").splitlines():
        for path in re.findall(r"\bnotebooks/[\w.]+\.toml", line):
            assert (ROOT / path).is_file()


def test_the_gate_of_the_readme_passes_and_fails(tmp_path: Path) -> None:
    text = gate()
    assert len(text.splitlines()) == 13
    install, evaluate = runs(parsed(text))
    version = project()["version"]
    assert install["run"].startswith(
        f"pip install {project()['name'].replace('-', '_')}-{version}-py3-none-any.whl"
    )
    (tmp_path / "docs").mkdir()
    for name, text in TOPICS.items():
        (tmp_path / "docs" / f"{name}.md").write_text(text)
    (tmp_path / "tests.yaml").write_text(TESTS)
    environment = {
        **os.environ,
        **evaluate["env"],
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }

    def run(command: str) -> subprocess.CompletedProcess[str]:
        words = shlex.split(command)
        assert words[0] == "ragbench"
        return subprocess.run(
            [sys.executable, "-m", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )

    [baseline] = re.findall(
        r"`(ragbench eval [^`]* --output \./baseline)`", (ROOT / "README.md").read_text()
    )
    made = run(f"{baseline} --perspective retrieval")
    assert made.returncode == 0, made.stdout + made.stderr
    passed = run(f"{evaluate['run']} --perspective retrieval")
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert "nDCG@5" in (tmp_path / "summary.md").read_text()
    worse = [
        {
            "query_id": one,
            "answer": "?",
            "contexts": [{"id": "c", "doc_id": "cats.md", "text": TOPICS["cats"]}],
        }
        for one, _, _ in CASES
    ]
    (tmp_path / "worse.jsonl").write_text("\n".join(map(json.dumps, worse)))
    failed = run(f"{evaluate['run']} --perspective retrieval --force worse.jsonl")
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert "regression" in failed.stdout


def project() -> dict[str, Any]:
    import tomllib

    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return dict(tomllib.loads(text)["project"])


def test_nothing_is_published_before_a_person_switches_it_on() -> None:
    text = (ROOT / ".github/workflows/publish.yml").read_text(encoding="utf-8")
    workflow = parsed(text)
    assert [*workflow[True]] == ["workflow_dispatch"]  # `on` is true in YAML
    jobs = workflow["jobs"]
    assert jobs["publish"]["if"] == "github.event_name == 'release'"
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in text
    switched_on = parsed(text.replace("  # release:\n  #   types:", "  release:\n    types:"))
    assert switched_on[True]["release"] == {"types": ["published"]}


def test_ci_builds_the_wheel_and_the_source_archive() -> None:
    assert "hatchling build" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_ci_tests_next_to_what_a_user_has() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    _, _, last = script.partition("# Some of the tests once more")
    preparation, _, command = last.partition("env HOME=")
    for leftover in ("results/of-a-user", "notebooks/of_a_user.ipynb", "> .env", "history.sqlite"):
        assert leftover in preparation
    variables = {*re.findall(r"\b([A-Z][A-Z_]+)=", command)}
    assert {"TZ", "LC_ALL", "LANG", "RAGBENCH_CACHE_DIR", "RAGBENCH_DATABASE"} <= variables
    assert {"RAGBENCH_REPLIES", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"} <= variables
    paths = re.findall(r"tests[\w/.]+", command)
    assert len(paths) == 7
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_ci_checks_every_eval_ever_on_each_python_that_has_its_checker() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert re.search(r"pip install .*every-eval-ever", script)
    assert "pytest -q -n 0 tests/report/page/test_every_eval_ever.py" in script
    matrix = parsed((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    assert "3.12" in matrix["jobs"]["test"]["strategy"]["matrix"]["python-version"]
