"""Language models behind one protocol: providers, many requests at once, the reply store, prices.

`load_llm(name)` gives a model, `generate_many(llm, prompts)` asks it. Every reply is stored before
it is used (`ragbench.store.replies`), so that the same request is never paid for twice. `Settings`
say what of the store is used and what may be spent; where none are given, they come from the
environment. `dry_run` counts what code would ask.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

from ragbench.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
