"""Options that people expect of several functions -> the one there, or what to do instead."""

OF_COMPARISONS = {
    **dict.fromkeys(["names", "systems"], "names of systems as in compare({'old': a, 'new': b})"),
    **dict.fromkeys(
        "on key id id_col id_column question_col question_column index join".split(),
        "no option: rows are paired by a column id or question, under any of its usual names (user_input is one)",
    ),
    **dict.fromkeys(
        "test method statistic alternative paired n_bootstrap n_boot bootstrap n_resamples n_iterations "
        "resamples iterations seed random_state".split(),
        "no option: one paired test of the mean decides",
    ),
    **dict.fromkeys(["ranges", "range", "limits"], "bounds"),
    **dict.fromkeys(["lower_is_better", "minimize"], "lower"),
    **dict.fromkeys(["higher_is_better", "maximize"], "higher"),
    **dict.fromkeys(
        "conf_level confidence_level confidence conf ci level".split(),
        "alpha=0.05, which is 1 minus the confidence",
    ),
    "baseline_name": "the first table as the baseline",
    "threshold": "margin",
    "fail_if": "rb.assert_not_worse(a, b, fail_if='worse')",
    **dict.fromkeys(
        "by groupby group group_by segment category slices".split(),
        "rb.compare of the rows of one group at a time",
    ),
    **dict.fromkeys(
        "output out path file save save_to".split(),
        "print(conclusion), or the command `ragbench compare A B --markdown`",
    ),
    **dict.fromkeys("k ks top_k cutoff cutoffs".split(), "measures=['nDCG@10']"),
    **dict.fromkeys(
        ["qrels", "run"], "rb.score_run(qrels, run) of each run, and rb.compare of these scores"
    ),
    **dict.fromkeys("metric column field score_column value".split(), "measure"),
    **dict.fromkeys(["metrics", "columns"], "measures"),
    **dict.fromkeys(
        "correction adjust multiple_testing p_adjust holm bonferroni".split(),
        "no option: several contenders are always corrected by Holm's method",
    ),
}
"""Of functions that compare systems, such as `ragbench.compare`."""
