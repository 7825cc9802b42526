"""Tables and sentences about generated questions: what `testset.ipynb` shows between its figures."""

from collections.abc import Sequence

import pandas as pd

from ragbench.generation import drafts_table
from ragbench.generation.drafts import Draft
from ragbench.types import Chunk

_ACCEPTED = "accepted"
_FEW = 50


def passage_states(sampled: Sequence[Chunk], drafts: Sequence[Draft]) -> dict[str, str]:
    """Return chunk id -> state, for each passage about which a model was asked to draft questions.

    The state is "accepted" if at least one draft about the passage was accepted, else "nothing
    accepted"; without any drafts, as in a dry run, it is "sampled".
    """
    if not drafts:
        return {chunk.chunk_id: "sampled" for chunk in sampled}
    accepted_ids = {draft.chunk_id for draft in drafts if draft.state == _ACCEPTED}
    states = {}
    for chunk in sampled:
        is_accepted = chunk.chunk_id in accepted_ids
        states[chunk.chunk_id] = _ACCEPTED if is_accepted else "nothing accepted"
    return states


def accepted_drafts(drafts: Sequence[Draft], *, rows: int = 20) -> pd.DataFrame:
    """Return the first accepted questions: question, answer, chunk_id."""
    accepted = [draft for draft in drafts if draft.state == _ACCEPTED]
    table = [(draft.question, draft.answer, draft.chunk_id) for draft in accepted[:rows]]
    return pd.DataFrame(table, columns=["question", "answer", "chunk_id"])


def rejected_drafts(drafts: Sequence[Draft], *, rows: int = 3) -> pd.DataFrame:
    """Return the first questions of each other state: state, question, reason, chunk_id."""
    rejected = [draft for draft in drafts if draft.state != _ACCEPTED]
    table = pd.DataFrame(
        [(draft.state, draft.question, draft.reason, draft.chunk_id) for draft in rejected],
        columns=["state", "question", "reason", "chunk_id"],
    )
    return table.groupby("state", sort=False).head(rows)


def draft_findings(drafts: Sequence[Draft], sampled: Sequence[Chunk], n_requests: int) -> list[str]:
    """Report on drafted questions in sentences of Markdown: how many are accepted, why others are lost.

    Without drafts, the sentences state the number of requests that a run would send.

    Args:
        drafts: as from `ragbench.generation.generate_drafts`; none in a dry run.
        sampled: the passages.
        n_requests: requests that a dry run would send.
    """
    if not drafts:
        return [
            f"A dry run: {n_requests} requests for {len(sampled)} passages, nothing sent.",
            "**Next:** name a model as `llm`.",
        ]
    counts = drafts_table(drafts)
    documents = {draft.doc_id for draft in drafts if draft.state == _ACCEPTED}
    n_accepted = sum(draft.state == _ACCEPTED for draft in drafts)
    sentences = [
        f"**{n_accepted} of {len(drafts)}** drafts are accepted, about {len(documents)} documents."
    ]
    lost = counts[counts["state"] != _ACCEPTED].nlargest(3, "drafts")
    sentences += [f"Lost: {row.meaning} ({row.drafts})." for row in lost.itertuples()]
    if n_accepted < _FEW:
        sentences.append(
            f"Fewer than {_FEW} questions only separate configurations that differ a lot: sample "
            "more chunks."
        )
    return sentences
