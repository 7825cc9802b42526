"""The map of the passages that questions were asked about."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ragbench.array_types import Floats
from ragbench.report.plots.figure import BLUE, GREY, ORANGE, new_axes
from ragbench.types import Chunk

_NOT_SAMPLED = "not sampled"
_COLOURS = {
    _NOT_SAMPLED: GREY,
    "sampled": BLUE,
    "accepted": BLUE,
    "nothing accepted": ORANGE,
}


def passage_map(chunks: Sequence[Chunk], vectors: Floats, states: Mapping[str, str]) -> Figure:
    """Draw passages by the first two principal components of their vectors, coloured by their state:
    not sampled, or the result of asking a model to draft questions about them.

    Where many orange passages (nothing accepted) are close together, the test set has a gap.

    Args:
        chunks: all passages.
        vectors: shape (passages, dimensions), in the order of the passages.
        states: id of a sampled passage -> "sampled", "accepted" or "nothing accepted".
    """
    centred = vectors - vectors.mean(axis=0)
    # the principal components of the passages: the left singular vectors, times their sizes
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    points = pd.DataFrame(left * sizes).reindex(columns=[0, 1])  # the first two components
    points["state"] = [states.get(chunk.chunk_id, _NOT_SAMPLED) for chunk in chunks]
    figure, axes = new_axes(9, 4.2)
    for state, rows in points.groupby("state"):
        size, alpha = (9, 0.35) if state == _NOT_SAMPLED else (42, 0.9)
        label = f"{state} ({len(rows)})"
        colour = _COLOURS[str(state)]
        axes.scatter(rows[0], rows[1], s=size, alpha=alpha, c=colour, linewidths=0, label=label)
    axes.set(xticks=[], yticks=[])
    axes.set(xlabel="first principal component of the passages' vectors", ylabel="second")
    figure.legend(loc="outside lower center", ncol=3, frameon=False)
    return figure
