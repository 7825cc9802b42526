"""How far passages are from the nearest sampled one."""

from __future__ import annotations

import numpy as np
import pytest

from ragbench.generation.chunk_sample import spread


def test_spread_is_zero_where_everything_is_sampled_and_unknown_without_a_sample() -> None:
    vectors = np.eye(3, dtype=np.float32)
    assert spread(vectors, vectors) == pytest.approx(0, abs=1e-6)
    assert spread(vectors[:1], vectors) == pytest.approx(2 / 3)
    assert np.isnan(spread(np.zeros((0, 2), dtype=np.float32), np.eye(2, dtype=np.float32)))
