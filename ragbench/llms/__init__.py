"""Language models behind one protocol: providers, many requests at once, the reply store, prices.

`load_llm(name)` loads a model, `generate_many(llm, prompts)` asks it. Every reply is stored before
it is used (`ragbench.store.replies`), so that the same request is never paid for twice. `Settings`
say how the store is used and how much may be spent; by default, they come from the environment.
`dry_run` counts the requests that code would send.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

from ragbench.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
