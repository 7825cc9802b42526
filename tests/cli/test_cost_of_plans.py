"""The cost of a dry run in words."""

from ragbench.cli.options import dollars
from ragbench.llms import ModelPlan


def unpriced(name: str) -> ModelPlan:
    return ModelPlan(name, 0, 3, 0, 30, 30, 300, None, None)


def test_a_function_without_a_price_may_be_priced_by_its_replies() -> None:
    assert "priced by the model that it names" in dollars([unpriced("function:plain")])
    assert "that it names" not in dollars([unpriced("mine:large")])
