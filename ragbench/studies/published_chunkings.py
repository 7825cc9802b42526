"""Published numbers of chunkings (Smith and Troynikov 2024), next to the same chunkings here."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pandas as pd

from ragbench.studies.chunking_pairs import CHUNKING

# k = 5, in per cent; standard deviations over questions. "Evaluating chunking strategies for retrieval", Chroma 2024.
_PUBLISHED = """chunker,size,overlap,recall,recall_std,precision,precision_std,omega,omega_std,iou,iou_std
recursive,800,400,85.4,34.9,1.5,1.3,6.7,5.2,1.5,1.3
fixed,800,400,87.9,31.7,1.4,1.1,4.7,3.1,1.4,1.1
recursive,400,200,88.1,31.6,3.3,2.7,13.9,10.4,3.3,2.7
fixed,400,200,88.6,29.7,2.7,2.2,8.4,5.1,2.7,2.2
recursive,400,0,89.5,29.7,3.6,3.2,17.7,14.0,3.6,3.2
fixed,400,0,89.2,29.2,2.7,2.2,12.5,8.1,2.7,2.2
recursive,200,0,88.1,30.1,7.0,5.6,29.9,18.4,6.9,5.6
fixed,200,0,87.0,30.8,5.2,4.1,21.0,11.9,5.1,4.1
Kamradt,,0,83.6,36.8,1.5,1.6,7.4,10.2,1.5,1.6
modified Kamradt,300,0,87.1,31.9,2.1,2.0,10.5,12.3,2.1,2.0
cluster,400,0,91.3,25.4,4.5,3.4,20.7,14.5,4.5,3.4
cluster,200,0,87.3,29.8,8.0,6.0,34.0,19.7,8.0,6.0
GPT-4o,,0,91.9,26.5,3.9,3.2,19.9,16.3,3.9,3.2
"""

_OUR_NAMES = {
    "span_recall@5": "recall",
    "span_precision@5": "precision",
    "span_iou@5": "iou",
    "span_precision_omega": "omega",
}


def published_chunkings(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return published numbers on some chunkings, and below them our own numbers on the same chunkings, of
    each collection that was searched with the published chunk sizes.

    Args:
        tables: as `load_chunkings` returns them.

    Returns:
        A row for each chunking and source ("published" or one of our retrievers): chunker, size, overlap,
        and mean and standard deviation over questions of recall, precision, omega and iou, in per cent.
    """
    published = pd.read_csv(io.StringIO(_PUBLISHED))
    parts = [published.assign(source="published")]
    for table in tables.values():
        has_published_sizes = (table["size"] == 800).any()  # the largest in the publication
        if not has_published_sizes:
            continue
        published_here = table.merge(published[CHUNKING], on=CHUNKING).rename(columns=_OUR_NAMES)
        for retriever, rows in published_here.groupby("retriever"):
            scores = rows.groupby(CHUNKING)[list(_OUR_NAMES.values())]
            means = scores.mean().mul(100)
            deviations = scores.std().mul(100).add_suffix("_std")
            parts.append(means.join(deviations).reset_index().assign(source=retriever))
    return pd.concat(parts)


def published_table(numbers: pd.DataFrame) -> pd.DataFrame:
    """Write published and own numbers as "85.4 ± 34.9": chunkings down, measures and sources across.

    Precision omega is of the chunking alone, so it is shown once for all our retrievers: in the column
    of bm25.

    Args:
        numbers: as `published_chunkings` returns them.
    """
    sizes = numbers["size"].map(" {:.0f}".format) + numbers["overlap"].map("/{}".format)
    missing_size = " nan/0"  # where others have " 400/200": GPT-4o as a chunker has no size
    texts = pd.DataFrame({"source": numbers["source"]})
    texts["chunking"] = numbers["chunker"] + sizes.str.replace(missing_size, "")
    measures = list(_OUR_NAMES.values())
    for measure in measures:
        means = numbers[measure].map("{:.1f}".format)
        deviations = numbers[f"{measure}_std"].map("{:.1f}".format)
        texts[measure] = means + " ± " + deviations
    wide = texts.pivot(index="chunking", columns="source", values=measures).fillna("")
    other_retrievers = set(numbers["source"]) - {"published", "bm25"}
    return wide.drop(columns=[("omega", retriever) for retriever in sorted(other_retrievers)])
