from .best_of_many import choose_the_best, model_matrix, promises, promises_findings
from .chunking_claims import (
    claim_fractions,
    claims_by_document,
    claims_by_retriever,
    claims_table,
    claims_title,
    count_claims,
    explained_variance,
    rank_chunkings,
)
from .chunking_pairs import compare_chunkings, load_chunkings
from .collections import load_collection
from .drafts import (
    agreement_of_drafts,
    drafts_findings,
    drafts_table,
    load_rankings,
    rank_by_questions,
)
from .error_rates import compute_error_rates, decide_all, error_rates_findings
from .figures import (
    plot_arms,
    plot_claims,
    plot_drafts,
    plot_error_rates,
    plot_label_curves,
    plot_promises,
)
from .judged_pairs import (
    compare_with_people,
    judge_findings,
    label_curves,
    label_until_decided,
    labels_saved,
    model_verdicts,
    pair_differences,
)
from .outputs import save_figure, write_table
from .published_chunkings import published_chunkings, published_table
from .score_matrices import load_score_matrices
from .techniques import (
    compare_arms,
    costs,
    load_arms,
    score_arms,
    summarise_decisions,
    techniques_findings,
    transfer,
)

__all__ = [
    "agreement_of_drafts",
    "choose_the_best",
    "claim_fractions",
    "claims_by_document",
    "claims_by_retriever",
    "claims_table",
    "claims_title",
    "compare_arms",
    "compare_chunkings",
    "compare_with_people",
    "compute_error_rates",
    "costs",
    "count_claims",
    "decide_all",
    "drafts_findings",
    "drafts_table",
    "error_rates_findings",
    "explained_variance",
    "judge_findings",
    "label_curves",
    "label_until_decided",
    "labels_saved",
    "load_arms",
    "load_chunkings",
    "load_collection",
    "load_rankings",
    "load_score_matrices",
    "model_matrix",
    "model_verdicts",
    "pair_differences",
    "plot_arms",
    "plot_claims",
    "plot_drafts",
    "plot_error_rates",
    "plot_label_curves",
    "plot_promises",
    "promises",
    "promises_findings",
    "published_chunkings",
    "published_table",
    "rank_by_questions",
    "rank_chunkings",
    "save_figure",
    "score_arms",
    "summarise_decisions",
    "techniques_findings",
    "transfer",
    "write_table",
]
