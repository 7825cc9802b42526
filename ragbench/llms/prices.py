"""The cost of requests: prices per million tokens from prices.toml, and from the user's file in
RAGBENCH_PRICES; what is free, and when a price is unknown.

Rules: a model on this machine (`ollama:`, `scripted:`) costs 0, save Ollama's models
that end in "cloud", which run elsewhere; every other model has the price of the table; a model that
is in no table has an unknown cost (None), never zero.
"""

import datetime
import math
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from ragbench.errors import ConfigError
from ragbench.files import read_toml
from ragbench.types import Completion

_TABLE = Path(__file__).with_name("prices.toml")
_LOCAL = ("ollama", "scripted")
_DATE = re.compile(r"-(\d{8}|\d{4}-\d{2}-\d{2}|latest)$")
BATCH_PRICE = 0.5
"""The price of a request in a batch, as a fraction of its price alone."""
_Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Price(NamedTuple):
    """US dollars per million tokens; above `above` input tokens the whole request costs the other
    two. A reranker that is paid by the search has 0 for tokens, and `search` dollars per 1,000
    searches; the output tokens of its replies are the searches that were billed.
    """

    input: _Dollars
    output: _Dollars
    above: float = math.inf
    input_above: _Dollars = 0.0
    output_above: _Dollars = 0.0
    search: _Dollars = 0.0

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """Return US dollars for one request.

        >>> Price(3.0, 15.0).cost(2_000, 400)
        0.012
        >>> Price(1.0, 2.0, above=1_000, input_above=10.0, output_above=20.0).cost(2_000, 100)
        0.022
        >>> Price(0.0, 0.0, search=2.0).cost(9_000, 3)
        0.006
        """
        if self.search:
            return output_tokens * self.search / 1e3
        if input_tokens > self.above:
            return (input_tokens * self.input_above + output_tokens * self.output_above) / 1e6
        return (input_tokens * self.input + output_tokens * self.output) / 1e6

    def has_usage(self, input_tokens: int, output_tokens: int) -> bool:
        """Return True if a reply states its paid tokens or searches; no request is empty."""
        return bool(output_tokens if self.search else input_tokens)


def prices() -> dict[str, Price]:
    """Return the price of every model that has one, by "provider:model"; a table named by
    RAGBENCH_PRICES takes precedence.
    """
    table = dict(_read_prices(_TABLE, 0))
    if file := os.environ.get("RAGBENCH_PRICES", ""):
        table |= _read_prices(Path(file), _modification_time(file))
    return table


def price_of(name: str) -> Price | None:
    """Return the price of a model named "provider:model"; None if it is unknown.

    A name that the table lacks has the price of the name without its date or "latest". A local model costs
    nothing, unless its name ends in "cloud". A bare model name, as other systems report it, has the
    price of the one provider whose model is called so; None if several providers have one.

    >>> price_of("anthropic:claude-haiku-4-5-20251001")
    Price(input=1.0, output=5.0, above=inf, input_above=0.0, output_above=0.0, search=0.0)
    >>> price_of("ollama:llama3.1:8b").cost(1_000_000, 1_000_000)
    0.0
    >>> price_of("openai:some-model-of-mine") is None
    True
    """
    table = prices()
    name_without_date = _DATE.sub("", name)
    for candidate in (name, name_without_date):
        if candidate in table:
            return table[candidate]
    provider = name.partition(":")[0]
    if provider in _LOCAL and not name.endswith("cloud"):
        return Price(0.0, 0.0)
    same_models = []
    for model in table:
        bare_name = model.partition(":")[2]
        if bare_name in (name, name_without_date):
            same_models.append(model)
    return table[same_models[0]] if len(same_models) == 1 else None


def cost_of(completion: Completion) -> float | None:
    """Return the cost of a completion in US dollars, as if it had been bought anew; None if unknown.

    A cached completion cost nothing this time, but has the cost of its first request here. A completion
    of a model without a price has an unknown cost, even if it failed. With a price, a failed
    completion costs 0, and the cost of a reply that states no numbers of tokens is unknown.

    >>> cost_of(Completion("Yes.", "anthropic:claude-haiku-4-5", input_tokens=1_000, output_tokens=200))
    0.002
    >>> cost_of(Completion("Yes.", "openai:no-such-model", input_tokens=1_000, output_tokens=200)) is None
    True
    """
    price = price_of(completion.model)
    if price is None:
        return None
    is_free = price == Price(0.0, 0.0)
    if is_free or completion.error is not None:
        return 0.0
    if not price.has_usage(completion.input_tokens, completion.output_tokens):
        return None
    return price.cost(completion.input_tokens, completion.output_tokens)


def _modification_time(file: str) -> float:
    """Return when the user's table of prices was changed last.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        return Path(file).stat().st_mtime
    except OSError as exc:
        raise ConfigError(
            f"RAGBENCH_PRICES is {file!r}, which cannot be read ({exc}); name a TOML file of prices"
        ) from exc


@lru_cache(maxsize=8)
def _read_prices(file: Path, changed: float) -> dict[str, Price]:
    """Return the prices in a file; `changed` makes the cache forget an earlier version of it.

    Raises:
        ConfigError: the file has another form than prices.toml.
    """
    content = read_toml(file, f"it is a table of prices; see {_TABLE} for its form")
    try:
        return _PriceFile.model_validate(content).models
    except ValidationError as exc:
        error = exc.errors()[0]
        raise ConfigError(
            f"{file}: {' '.join(map(str, error['loc']))}: {error['msg']}; expected [models], then "
            '"provider:model" = { input = 3.0, output = 15.0 } in dollars per million tokens; see '
            f"{_TABLE}"
        ) from None


def _complete(price: Price) -> Price:
    """Return a price; ValueError if it changes above some number of tokens, but not to what."""
    if math.isfinite(price.above) and not (price.input_above and price.output_above):
        raise ValueError("above needs input_above and output_above")
    return price


class _PriceFile(BaseModel):
    checked: datetime.date | None = None  # when the prices were looked up last
    models: dict[Annotated[str, Field(pattern=":")], Annotated[Price, AfterValidator(_complete)]]
