"""The same `ragbench eval` once more: what is finished is shown, what is missing is asked for, and
nothing else; another evaluation in the same folder is refused.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ragbench.cli import app
from ragbench.evaluation import load_result

runner = CliRunner()

QUESTIONS = {
    "q1": ("How long do cats sleep?", "Most of the day.", "cats"),
    "q2": ("What do dogs guard?", "The house.", "dogs"),
    "q3": ("How do fish breathe?", "Through gills.", "fish"),
}
TEXTS = {
    "cats": "Cats sleep most of the day. A cat has four paws.",
    "dogs": "Dogs bark at strangers. Dogs guard the house.",
    "fish": "Fish breathe under water through gills.",
}
SERVICE = '[http]\nurl = "{}/ask"\nbody = {{question = "{{query}}"}}\n'
PIPELINE = '[pipeline]\nllm = "openai:g"\n'


def write_inputs(folder: Path) -> None:
    """Write documents and a test set, and make the folder the working directory."""
    (folder / "docs").mkdir(parents=True)
    for name, text in TEXTS.items():
        (folder / "docs" / f"{name}.md").write_text(text)
    records = [
        {
            "id": query_id,
            "question": question,
            "expectedAnswer": answer,
            "expectedDocumentId": f"{document}.md",
        }
        for query_id, (question, answer, document) in QUESTIONS.items()
    ]
    (folder / "tests.json").write_text(json.dumps(records))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_inputs(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def options(system: str, *others: str) -> list[str]:
    inputs = ["--test-set", "tests.json", "--docs", "docs", "--perspective", "retrieval,answer"]
    return ["eval", system, *inputs, "--output", "mine", *others]


def run(system: str, *others: str) -> tuple[int, str]:
    done = runner.invoke(app, options(system, *others))
    return done.exit_code, done.output


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}


@pytest.mark.parametrize(("gate", "status"), [("nDCG@5=0.2", 0), ("token_f1=0.99", 1)])
def test_a_finished_evaluation_has_nothing_left_to_do(place: Path, gate: str, status: int) -> None:
    first, report = run("bm25", "--fail-under", gate)
    assert first == status, report
    before = contents(place / "mine")
    again, shown = run("bm25", "--fail-under", gate)
    assert again == first
    assert "Nothing is left to do: mine holds this evaluation, made at 20" in shown
    assert "--force asks everything again" in shown
    assert report.strip() in shown, "the report is shown once more"
    assert contents(place / "mine") == before
    assert run("bm25", "--fail-under", gate, "--concurrency", "2")[0] == first
    assert contents(place / "mine") == before
    assert run("bm25", "--fail-under", gate, "--force")[0] == first
    assert contents(place / "mine") != before


def test_json_of_a_finished_evaluation_is_all_that_standard_output_holds(place: Path) -> None:
    command = [sys.executable, "-m", "ragbench", *options("bm25", "--json")]
    first = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    again = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert again.returncode == first.returncode
    assert json.loads(again.stdout)["measures"] == json.loads(first.stdout)["measures"]
    assert "Nothing is left to do" in again.stderr


def change_a_question(place: Path) -> None:
    records = json.loads((place / "tests.json").read_text())
    records[0]["expectedAnswer"] = "All day."
    (place / "tests.json").write_text(json.dumps(records))


def change_a_document(place: Path) -> None:
    (place / "docs" / "cats.md").write_text("Cats sleep at night.")


def change_the_targets(place: Path) -> None:
    (place / "targets.toml").write_text('[targets]\n"nDCG@5" = 0.3\n')


def change_the_baseline(place: Path) -> None:
    scores = place / "base" / "scores.csv"
    scores.write_text(scores.read_text().replace("q1", "q9"))


def change_the_system(place: Path) -> None:
    (place / "system.toml").write_text("[pipeline]\nchunk_size = 128\n")


@pytest.mark.parametrize(
    ("change", "others", "differing"),
    [
        (change_a_question, (), "test set or documents"),
        (change_a_document, (), "test set or documents"),
        (change_the_system, (), "system"),
        (change_the_targets, ("--targets", "targets.toml"), "options"),
        (change_the_baseline, ("--baseline", "base"), "options"),
    ],
)
def test_another_evaluation_in_the_same_folder_is_refused(
    place: Path, change: Callable[[Path], None], others: tuple[str, ...], differing: str
) -> None:
    (place / "system.toml").write_text("[pipeline]\nchunk_size = 64\n")
    (place / "targets.toml").write_text('[targets]\n"nDCG@5" = 0.2\n')
    if change is change_the_baseline:
        words = options("system.toml")
        words[words.index("mine")] = "base"
        assert runner.invoke(app, words).exit_code in (0, 1)
    first = run("system.toml", *others)
    assert first[0] in (0, 1), first
    before = contents(place / "mine")
    change(place)
    code, shown = run("system.toml", *others)
    assert code == 2, shown
    assert f"mine holds an evaluation already, made from other inputs ({differing}" in shown
    assert "name another folder, or replace it with --force" in shown
    assert contents(place / "mine") == before


def test_another_option_is_another_evaluation(place: Path) -> None:
    assert run("bm25")[0] in (0, 1)
    for others in (
        ("--k", "1,3"),
        ("--limit", "2"),
        ("--fail-under", "nDCG@5=0.1"),
        ("--intervention", "typos:0.2"),
        ("--set", "chunk_size=64"),
    ):
        code, shown = run("bm25", *others)
        assert code == 2, others
        assert "made from other inputs (options)" in shown
    code, shown = run("dense:wordllama")
    assert code == 2
    assert "made from other inputs (system)" in shown


def test_a_module_counts_by_its_source(place: Path) -> None:
    from ragbench.systems.named_systems import system_digest

    (place / "my_answers.py").write_text("def answer(question):\n    return 'Gills.'\n")
    before = system_digest("my_answers:answer", place)
    (place / "my_answers.py").write_text("def answer(question):\n    return 'By gills.'\n")
    assert "my_answers" not in sys.modules, "nothing is imported"
    assert system_digest("my_answers:answer", place) != before


def test_a_finished_service_is_not_asked_again(
    place: Path, loopback: Callable[..., Any], wire: Any
) -> None:
    server = loopback(lambda asked: wire.Answered({"answer": "Gills.", "contexts": []}))
    (place / "service.toml").write_text(SERVICE.format(server.url))
    first = run("service.toml")
    assert first[0] in (0, 1), first
    assert len(server.asked) == 3
    again = run("service.toml")
    assert again[0] == first[0]
    assert len(server.asked) == 3


@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
def test_only_failed_answers_are_asked_for_again(
    place: Path, loopback: Callable[..., Any], wire: Any
) -> None:
    down = True

    def reply(asked: Any) -> Any:
        status = 400 if down and "fish" in asked.body["question"] else 200
        return wire.Answered({"answer": "Gills.", "contexts": []}, status=status)

    server = loopback(reply)
    (place / "service.toml").write_text(SERVICE.format(server.url))
    assert run("service.toml")[0] in (0, 1)
    assert [case.outcome for case in load_result(place / "mine").cases].count("failed") == 1
    down = False
    server.asked.clear()
    code, shown = run("service.toml")
    assert code in (0, 1), shown
    assert [asked.body["question"] for asked in server.asked] == ["How do fish breathe?"]
    assert load_result(place / "mine").is_complete
    assert "Nothing is left to do" in run("service.toml")[1]
    assert len(server.asked) == 1


def models(loopback: Callable[..., Any], wire: Any, patch: pytest.MonkeyPatch) -> Any:
    """Start a server of a model that answers ("openai:g") and of one that judges ("openai:j")."""
    verdict = json.dumps({"correctness": {"reason": "", "verdict": True}})
    server = loopback(
        lambda asked: wire.Answered(
            wire.openai(verdict if asked.body["model"] == "j" else "Through gills. [1]")
        )
    )
    patch.setenv("RAG_EVAL_OPENAI_BASE_URL", server.url)
    patch.setenv("RAG_EVAL_OPENAI_API_KEY", "k")
    prices = Path("prices.toml").absolute()
    price = "{ input = 1, output = 1 }"
    prices.write_text(
        f'checked = 2026-01-01\n[models]\n"openai:j" = {price}\n"openai:g" = {price}\n'
    )
    patch.setenv("RAGBENCH_PRICES", str(prices))
    return server


JUDGE = ("--judge", "openai:j", "--criteria", "correctness")


@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
def test_a_judge_that_failed_is_asked_again_and_the_service_is_not(
    place: Path, loopback: Callable[..., Any], wire: Any, llm_environment: pytest.MonkeyPatch
) -> None:
    judge = models(loopback, wire, llm_environment)
    works = judge.reply
    judge.reply = lambda asked: wire.Answered(b'{"error": {"message": "no"}}', status=401)
    service = loopback(lambda asked: wire.Answered({"answer": "Gills.", "contexts": []}))
    (place / "service.toml").write_text(SERVICE.format(service.url))
    code, shown = run("service.toml", *JUDGE)
    assert code == 2, shown
    assert len(service.asked) == 3
    judge.reply = works
    judge.asked.clear()
    code, shown = run("service.toml", *JUDGE)
    assert code in (0, 1), shown
    assert (len(service.asked), len(judge.asked)) == (3, 3)
    assert "Nothing is left to do" in run("service.toml", *JUDGE)[1]


@pytest.mark.parametrize("system", ["service", "pipeline"])
def test_an_interrupted_evaluation_has_the_same_verdicts(
    tmp_path: Path,
    loopback: Callable[..., Any],
    wire: Any,
    llm_environment: pytest.MonkeyPatch,
    system: str,
) -> None:
    llm_environment.chdir(tmp_path)
    server = models(loopback, wire, llm_environment)
    works, stop_at = server.reply, 0

    def reply(asked: Any) -> Any:
        if asked.path == "/ask":
            return wire.Answered({"answer": "Through gills.", "contexts": []})
        answered = works(asked)
        if stop_at and len(server.asked) >= stop_at:
            time.sleep(30)
        return answered

    server.reply = reply
    folders = {name: tmp_path / name for name in ("whole", "interrupted")}
    text = PIPELINE if system == "pipeline" else SERVICE.format(server.url)
    codes = {}
    for name, folder in folders.items():
        write_inputs(folder)
        (folder / "system.toml").write_text(text)
        llm_environment.chdir(folder)
        llm_environment.setenv("RAGBENCH_CACHE_DIR", str(folder / "cache"))
        if name == "interrupted":
            server.asked.clear()
            stop_at = 5  # the second of three verdicts
            words = options("system.toml", *JUDGE)
            with subprocess.Popen([sys.executable, "-m", "ragbench", *words]) as process:
                until = time.monotonic() + 120
                while len(server.asked) < 5 and time.monotonic() < until:
                    time.sleep(0.02)
                time.sleep(0.5)  # for the replies before to be kept
                process.kill()
            assert not (folder / "mine" / "scores.csv").exists()
            stop_at = 0
        codes[name] = run("system.toml", *JUDGE)
    assert codes["whole"][0] == codes["interrupted"][0] in (0, 1), codes
    assert sum(cost.cached for cost in load_result(folders["interrupted"] / "mine").costs) > 0
    for file in ("verdicts.json", "scores.csv", "run.trec"):
        whole, interrupted = ((folder / "mine" / file).read_bytes() for folder in folders.values())
        assert whole == interrupted, file
