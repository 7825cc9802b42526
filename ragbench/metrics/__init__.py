"""Measures as pure functions: plain records in, numbers out; nothing here reads a file of a user.

Two embed the texts that they score, with a model that comes along: `groundedness.claim_support` and
`safety.injection_score`. What each measure means, its bounds and direction are in `ragbench.registry`.

The names are in `__init__.pyi`; each is loaded when it is first used.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
