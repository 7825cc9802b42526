"""A user's own language model is within the maximum cost as a provider's is, and a wrong table of
prices is found before anything is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import ragbench as rb
from ragbench import llms
from ragbench.cli import app
from ragbench.errors import ConfigError, FailureKind
from ragbench.llms.environment import Settings, in_force
from ragbench.store import budgets
from ragbench.types import Answer, Case, Chunk, Completion, Dataset, Document

PRICES = '[models]\n"mine:large" = { input = 100.0, output = 1000.0 }\n'
# Of a prompt of 10 bytes with 100 tokens of reply: (10 + 1000) * 100 / 1e6 + 100 * 1000 / 1e6.
BOUND = 0.201


class Mine:
    """Replies with 100 tokens read and 10 written: 0.02 dollars by `PRICES`."""

    def __init__(self, name: str = "mine:large", error: Exception | None = None) -> None:
        self.name = name
        self.error = error
        self.n_asked = 0

    def generate(self, prompt: str, **options: Any) -> Completion:
        self.n_asked += 1
        if self.error is not None:
            raise self.error
        return Completion("Cats sleep.", self.name, input_tokens=100, output_tokens=10)


@pytest.fixture
def priced(llm_environment: Any, tmp_path: Path) -> Any:
    """An environment with a table of prices that has the model of `Mine`."""
    (tmp_path / "prices.toml").write_text(PRICES)
    llm_environment.setenv("RAGBENCH_PRICES", str(tmp_path / "prices.toml"))
    return llm_environment


def ask(model: Mine, n: int = 20) -> list[Completion]:
    prompts = [f"prompt {i:03}" for i in range(n)]
    return llms.generate_many(model, prompts, max_tokens=100, concurrency=4)


def test_the_maximum_cost_stops_an_own_model(priced: Any) -> None:
    model = Mine()
    with in_force(Settings(max_cost=0.3, budget="own")):
        replies = ask(model)
    assert 0 < model.n_asked <= 5, "the sixth request might have passed the maximum"
    assert budgets.spent("own").settled == pytest.approx(0.02 * model.n_asked)
    assert [reply.failure for reply in replies].count(FailureKind.BUDGET) == 20 - model.n_asked
    error = replies[-1].error or ""
    assert f"mine:large may cost {BOUND:.4f} dollars" in error
    assert "replies of your own model are not stored" in error


@pytest.mark.parametrize(
    ("error", "cost"),
    [(ConnectionRefusedError("no server"), 0.0), (ValueError("half a reply"), BOUND)],
)
def test_a_failed_request_counts_unless_nothing_was_sent(
    priced: Any, error: Exception, cost: float
) -> None:
    with in_force(Settings(max_cost=5.0, budget="failed")):
        [reply] = ask(Mine(error=error), n=1)
    assert reply.error is not None
    assert budgets.spent("failed").settled == pytest.approx(cost)


@pytest.mark.parametrize("name", ["mine:other", "other"])
def test_an_own_model_without_a_price_is_refused_under_a_maximum(priced: Any, name: str) -> None:
    model = Mine(name)
    with in_force(Settings(max_cost=5.0, budget="unknown")):
        with pytest.raises(ConfigError, match=f'the price of {name} is unknown.*mine:other" ='):
            ask(model)
        with pytest.raises(ConfigError, match="continue with --allow-unpriced"):
            llms.check_llm(model)
    assert model.n_asked == 0
    with in_force(Settings(max_cost=5.0, budget="unknown", allow_unpriced=True)):
        assert ask(model, n=2)[1].text == "Cats sleep."
    assert sum(budgets.spent("unknown")) == 0.0


DATA = Dataset(
    "pets",
    "test",
    {"cats": Document("cats", "Cats sleep most of the day.")},
    [Case("q1", "How long do cats sleep?", reference_answer="Most of the day.")],
    {"q1": {"cats": 1}},
)
CHUNKS = [Chunk("cats#0", "cats", 0, 27, "Cats sleep most of the day.")]
ANSWERS = [Answer("q1", "Most of the day.", contexts=("cats#0",))]
GRID = {
    "dataset": "pydoc",
    "notebook": str(Path(rb.__file__).parent.parent / "notebooks" / "evaluate.ipynb"),
    "axes": {"retriever": ["bm25"]},
}


@pytest.mark.parametrize(
    "use",
    [
        lambda model: rb.evaluate(DATA, "bm25", llm=model, perspectives=["answer"]),
        lambda model: rb.evaluate(
            DATA, lambda question: model.generate(question).text, perspectives=["answer"]
        ),
        lambda model: rb.judge(ANSWERS, "correctness", model, dataset=DATA, chunks=CHUNKS),
        lambda model: rb.generate_answers(DATA, {"q1": {"cats#0": 1.0}}, CHUNKS, llm=model),
        lambda model: rb.sweep(GRID, out="never"),
    ],
    ids=["pipeline", "function", "judge", "generate", "sweep"],
)
def test_a_wrong_table_of_prices_is_found_before_anything_is_asked(
    llm_environment: Any, tmp_path: Path, use: Callable[[Mine], Any]
) -> None:
    llm_environment.chdir(tmp_path)
    (tmp_path / "prices.toml").write_text(PRICES.replace("100.0", '"much"'))
    llm_environment.setenv("RAGBENCH_PRICES", "prices.toml")
    model = Mine()
    with pytest.raises(ConfigError, match=r"prices\.toml: models mine:large input"):
        use(model)
    assert model.n_asked == 0
    assert not (tmp_path / "never").exists()


MODULE = """
from ragbench.types import Completion

class Mine:
    name = "mine:large"

    def generate(self, prompt, *, system=None, max_tokens=512, temperature=0.0):
        return Completion("Cats sleep.", self.name, input_tokens=100, output_tokens=10)
"""


@pytest.mark.filterwarnings("ignore::ragbench.errors.DataWarning")
def test_an_evaluation_that_the_maximum_cost_stops_ends_with_status_3(
    priced: Any, tmp_path: Path
) -> None:
    priced.chdir(tmp_path)
    (tmp_path / "stopping_llm.py").write_text(MODULE)
    rb.testsets.save_testset(DATA, tmp_path / "pets.jsonl", "jsonl")
    command = ["eval", "--test-set", "pets.jsonl", "--perspective", "answer", "bm25"]
    command += ["--set", "llm=stopping_llm:Mine", "--max-cost"]
    done = CliRunner().invoke(app, [*command, "0.1"])
    assert done.exit_code == 3, done.output
    assert "Stopped by the maximum cost: budget: mine:large may cost" in done.output
    assert CliRunner().invoke(app, [*command, "99"]).exit_code == 0
