"""Tables and sentences of `compare.ipynb` between its figures: disagreements, gains by question,
parameters, costs, odd questions, a judge's bias.
"""

import math

import numpy as np
import pandas as pd

from ragbench.array_types import Floats
from ragbench.evaluation import CAUSES, Result, Results
from ragbench.report.configuration import budget_curve
from ragbench.report.failure_tables import by_severity, plain
from ragbench.report.leaderboard import COSTS
from ragbench.statistics import rounded
from ragbench.statistics.choice import MarginProof, prove_within_margin

_SAME = 1e-9  # values of a question that differ by less are the same
_AT_K, _AT_BUDGET = "span_recall@5", "span_recall@500tok"
_TOO_FEW = "Fewer than two configurations are scored: there is nothing to decide between."


def values_by_question(results: Results, measure: str) -> pd.DataFrame:
    """Return a measure, question x configuration, without configurations that it cannot score.

    The rows are the questions that decide (see `Results.deciding`): those over which the leaderboard
    has its means, without drafts where people's questions decide.
    """
    columns = {result.name: result.wide[measure] for result in results if measure in result.wide}
    table = pd.DataFrame(columns).dropna(axis=1, how="all")
    return table[table.index.isin(_deciding_ids(results))]


def _deciding_ids(results: Results) -> frozenset[str]:
    """Return the ids of the questions that decide between configurations."""
    return results.deciding().ids if len(results) else frozenset()


def disagreements(
    results: Results, board: pd.DataFrame, measure: str, *, rows: int = 3
) -> pd.DataFrame:
    """Return the questions on which the two best configurations of a leaderboard differ most.

    Args:
        board: the leaderboard: name and label of the configurations, best first.
        measure: the measure by which they are compared.
        rows: how many questions are returned at most.

    Returns:
        question, and the values of each of the two, in columns that are named by their labels; the
        index is the query_id. No row if they have equal values on all questions.
    """
    values = values_by_question(results, measure)
    best_two = [name for name in board["name"].head(2) if name in values]
    table = values[best_two].dropna()
    gaps = table.max(axis=1) - table.min(axis=1)
    largest_gaps = gaps[gaps > 0].nlargest(rows)
    table = table.loc[largest_gaps.index].round(3)
    label_of = dict(zip(board["name"], board["label"], strict=True))
    table = table.set_axis([label_of[name] for name in best_two], axis=1)
    text_of = results[best_two[0]].queries if best_two else {}
    table.insert(0, "question", [text_of[str(query_id)] for query_id in table.index])
    return table


def question_gains(
    results: Results, board: pd.DataFrame, measure: str, baseline: str, *, rows: int = 3
) -> pd.DataFrame:
    """Return the questions in which each configuration differs from the baseline.

    Returns:
        A row per configuration that differs in any question, in the order of the leaderboard; the
        index is its label. Columns better, worse (numbers of questions), "gains most", "loses most"
        (the ids of at most `rows` questions).

    >>> board = pd.DataFrame({"name": [], "label": []})
    >>> question_gains(Results([]), board, "nDCG@10", "a").empty
    True
    """
    values = values_by_question(results, measure)
    if baseline not in values:
        return pd.DataFrame()
    rows_of: dict[str, dict[str, object]] = {}
    for name, label in zip(board["name"], board["label"], strict=True):
        if name == baseline or name not in values:
            continue
        differences = (values[name] - values[baseline]).dropna()
        gains = differences[differences > _SAME]
        losses = differences[differences < -_SAME]
        if len(gains) or len(losses):
            rows_of[label] = {
                "better": len(gains),
                "worse": len(losses),
                "gains most": _signed(gains.nlargest(rows)),
                "loses most": _signed(losses.nsmallest(rows)),
            }
    return pd.DataFrame.from_dict(rows_of, orient="index")


def _signed(differences: "pd.Series[float]") -> str:
    """Return questions with their differences, such as "q3 (+0.400), q4 (+0.100)"."""
    return ", ".join(f"{query_id} ({value:+.3f})" for query_id, value in differences.items())


def parameter_shares(results: Results, measure: str) -> pd.DataFrame:
    """Return how much each parameter matters: the share of the variance between configurations' means
    that it explains by itself.

    Parameters that vary together have the same share; if the shares add up to less than 1,
    parameters explain the rest together. Means are over the questions that all configurations have
    scored.

    Returns:
        Column `share`, in [0, 1], largest first; the index is the parameter. No row unless two
        parameters or more vary: one alone explains all.
    """
    means = values_by_question(results, measure).dropna().mean()
    settings = _parameters(results).reindex(means.index)  # configuration x parameter
    settings = settings.loc[:, settings.nunique() > 1]
    if settings.shape[1] < 2:
        return pd.DataFrame()
    variance_of = {}
    for name, values in settings.items():
        # for each configuration the mean of those with the same value of this parameter
        mean_of_group = means.groupby(values).transform("mean")
        variance_of[str(name)] = mean_of_group.var()
    shares = pd.Series(variance_of, dtype=float) / means.var()
    shares = shares[shares > 0].sort_values(ascending=False).round(3)
    return shares.to_frame("share")


def _parameters(results: Results) -> pd.DataFrame:
    """Return the parameters as texts, configuration x parameter; "" where a configuration lacks one."""
    texts = {
        result.name: {name: str(value) for name, value in result.parameters.items()}
        for result in results
    }
    return pd.DataFrame(texts).fillna("").T


def means_by_retriever(board: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the best mean of each retriever (row) with each chunking (column). No row unless both
    vary.
    """
    if board["retriever"].nunique() < 2 or board["chunking"].nunique() < 2:
        return pd.DataFrame()
    # the first of several rows is the best, because a leaderboard begins with the best
    means = board.pivot_table(
        index="retriever", columns="chunking", values=measure, aggfunc="first", sort=False
    )
    return means.round(3)


def budget_table(results: Results) -> pd.DataFrame:
    """Return evidence recall by context budget, over the questions that decide: name, then the columns
    of `budget_curve`.
    """
    deciding = _deciding_ids(results)
    curves = []
    for result in results:
        scores = result.scores[result.scores["query_id"].isin(deciding)]
        curves.append(budget_curve(scores).assign(name=result.name))
    return pd.concat(curves, ignore_index=True)


def budget_orders(board: pd.DataFrame) -> str:
    """State which configuration leads at k = 5, and which at an equal budget of 500 tokens.

    Of three or more configurations it also states how similar the two rankings are (Kendall's tau).

    Returns:
        One or two sentences; "" if a measure is missing, or fewer than two configurations are scored by
        both.
    """
    if not {_AT_K, _AT_BUDGET} <= set(board.columns):
        return ""
    means = board.set_index("label")[[_AT_K, _AT_BUDGET]].dropna()
    if len(means) < 2:
        return ""
    best_at_k = plain(str(means[_AT_K].idxmax()))
    best_at_budget = plain(str(means[_AT_BUDGET].idxmax()))
    leaders = (
        f"At k = 5, where bigger chunks bring more text, {best_at_k} leads; at an equal 500 tokens "
        f"{best_at_budget}."
    )
    if len(means) < 3:
        return leaders
    tau = _kendall_tau(means[_AT_K].to_numpy(float), means[_AT_BUDGET].to_numpy(float))
    about = "1: the same order, 0: none in common, -1: reversed"
    return f"{leaders} Kendall's tau of the two orders is {tau:.2f} ({about})."


def _kendall_tau(first: Floats, second: Floats) -> float:
    """Return Kendall's tau-b, the similarity in [-1, 1] of two rankings of the same rows; NaN if all values
    of one are equal. It is (pairs of rows in the same order - pairs in opposite order) / n, where n
    is the geometric mean of the pairs that are untied in the first and in the other ranking.

    It equals `scipy.stats.kendalltau`, which is slow to import.
    """
    left, right = np.triu_indices(len(first), 1)  # the row numbers of each pair of rows
    # the order of each pair: 1, -1, or 0 for equal values
    signs = np.sign(first[left] - first[right])
    other_signs = np.sign(second[left] - second[right])
    n_untied = np.count_nonzero(signs)
    n_other_untied = np.count_nonzero(other_signs)
    if not n_untied or not n_other_untied:
        return math.nan
    tau = float(signs @ other_signs) / math.sqrt(n_untied) / math.sqrt(n_other_untied)
    return min(1.0, max(-1.0, tau))


def varying_costs(board: pd.DataFrame) -> list[str]:
    """Return the costs in which the configurations of a leaderboard differ, see `COSTS`."""
    return [name for name in COSTS if name in board and board[name].nunique() > 1]


def choices_by_cost(
    results: Results, board: pd.DataFrame, measure: str, margin: float
) -> tuple[list[str], pd.DataFrame]:
    """Choose the cheapest good configuration, for each kind of cost (latency, dollars, ...).

    A configuration is good if a test proves that its mean is within `margin` of the best.

    Args:
        board: the leaderboard, with the name, the label and the costs of each configuration.

    Returns:
        The sentences that name the choices, without repetitions; and a table of the good
        configurations: mean, difference, p_adjusted, n, proven, then the costs in which
        configurations differ; the index is the label.
    """
    candidates = _scored_rows(results, board, measure)
    if len(candidates) < 2:
        return [_TOO_FEW], pd.DataFrame()
    proof = prove_within_margin(_scores_by_label(results, candidates), margin, measure=measure)
    costs = varying_costs(board)
    sentences = []
    for cost in costs:
        sentence = _sentence_of_choice(proof, candidates, cost)
        if sentence not in sentences:  # for all costs it is the same if nothing is proven
            sentences.append(sentence)
    if not costs:
        sentences = ["No cost is known in which they differ."]
    # the proof names configurations by their labels, the index of the candidates
    by_label = proof.table.set_index("name")
    table = by_label[["mean", "difference", "p_adjusted", "n", "proven"]]
    table = table.join(candidates[costs])
    return sentences, rounded(table[table["proven"]])


def _sentence_of_choice(proof: MarginProof, candidates: pd.DataFrame, cost: str) -> str:
    """Return a sentence that names the cheapest proven configuration, or states that none is proven.

    Args:
        cost: the column of `candidates` that counts as cost, such as "search_ms".
    """
    adjective, unit = COSTS[cost]  # such as "fastest to search", "ms per search"
    amount_of = {str(label): amount for label, amount in candidates[cost].astype(float).items()}
    choice = proof.cheapest(amount_of, adjective)
    if not choice.chosen:
        return choice.sentence
    # the sentence contains "cost 12.5", without a unit: "ms per search: 12.5" replaces it
    return choice.sentence.replace("cost ", f"{unit}: ", 1)


def _scored_rows(results: Results, board: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the rows of a leaderboard whose configurations have scores of a measure; the index is the
    label, or the name where two configurations have the same label.
    """
    # the name in place of every label that occurs twice
    labels = board["label"].mask(board["label"].duplicated(keep=False), board["name"])
    rows = board.set_axis(labels.map(plain))
    is_scored = rows["name"].isin(values_by_question(results, measure).columns)
    return rows[is_scored.to_numpy()]


def _scores_by_label(results: Results, candidates: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return label -> scores of the questions that decide, in the order of the `candidates`, which
    are from `_scored_rows`.
    """
    deciding = _deciding_ids(results)
    scores_by_label = {}
    for label, name in zip(map(str, candidates.index), candidates["name"], strict=True):
        scores = results[name].scores
        scores_by_label[label] = scores[scores["query_id"].isin(deciding)]
    return scores_by_label


def worst_questions(result: Result, *, rows: int = 6) -> pd.DataFrame:
    """Return the worst failed questions of a configuration (see `by_severity`): question, cause (in
    words), evidence; the index is the id. No row without a diagnosis or a failure.
    """
    if result.diagnosis is None:
        return pd.DataFrame()
    worst = by_severity(result.diagnosis).head(rows).set_index("query_id")
    worst = worst[["question", "cause", "evidence"]]
    return worst.assign(cause=worst["cause"].map(CAUSES))


def still_questions(values: pd.DataFrame) -> str:
    """Say how many questions score the same for all configurations.

    Args:
        values: as from `values_by_question`.
    """
    scored = values.dropna()
    is_still = scored.max(axis=1) - scored.min(axis=1) < _SAME
    return (
        f"{is_still.sum()} of {len(scored)} questions never move: all {scored.shape[1]} "
        "configurations score the same on them."
    )


def odd_questions(values: pd.DataFrame, results: Results, *, rows: int = 5) -> pd.DataFrame:
    """Return the questions on which worse configurations do better, the clearest first.

    The discrimination of a question is a correlation over configurations: of its values with the
    sums of the values of all other questions. Questions below -0.5 are returned.

    Args:
        values: question x configuration, as from `values_by_question`. For two configurations every
            correlation is 1 or -1, so that no row is returned.
        results: the configurations, which know the questions' texts.
        rows: how many questions are returned at most.

    Returns:
        question, mean, discrimination; the index is the query_id.
    """
    scored = values.dropna()
    if scored.shape[1] < 3:
        return pd.DataFrame()
    is_moved = scored.max(axis=1) - scored.min(axis=1) >= _SAME
    moved = scored[is_moved]
    # question x configuration: the configuration's sum over all other questions
    sums_of_others = moved.rsub(scored.sum(), axis="columns")
    # one correlation per question: of its row in both tables
    correlations = moved.corrwith(sums_of_others, axis="columns")
    table = pd.DataFrame({"mean": moved.mean(axis=1), "discrimination": correlations})
    table = table[table["discrimination"] < -0.5]
    table = table.nsmallest(rows, "discrimination").round(3)
    table.insert(0, "question", table.index.map(results[0].queries))
    return table


def judge_bias(results: Results, people: pd.DataFrame) -> pd.DataFrame:
    """Compare a judge's verdicts with people's labels, by configuration and by the answer's length.

    Args:
        results: judged configurations.
        people: configuration, query_id, criterion, value, as from `load_labels`.

    Returns:
        bias (the mean of the judge's verdict minus people's), covered (the fraction of labels for
        which there is a verdict). A row per configuration that people labelled, then the rows
        "longer half" and "shorter half" of the answers. An empty table if nothing was judged at all.
    """
    keys = ["configuration", "query_id", "criterion"]
    verdicts = _judge_verdicts(results)
    if not verdicts:
        return pd.DataFrame()
    judge = pd.DataFrame(verdicts, columns=[*keys, "judge"])
    # a row per label; "judge" is NaN without a verdict
    labels = people.merge(judge, on=keys, how="left")
    labels["bias"] = labels["judge"].astype(float) - labels["value"]
    labels["covered"] = labels["judge"].notna()
    length_of = {}  # (configuration, query_id) -> characters of the answer
    for result in results:
        for answer in result.answers:
            length_of[result.name, answer.query_id] = len(answer.text)
    answer_keys = zip(labels["configuration"], labels["query_id"], strict=True)
    lengths = pd.Series([length_of.get(key, math.nan) for key in answer_keys], labels.index)
    is_long = lengths > lengths.dropna().median()
    halves = is_long.map({True: "longer half", False: "shorter half"})
    halves = halves.where(lengths.notna())  # an answer that is not in `results` is in no half
    values = labels[["bias", "covered"]]
    by_configuration = values.groupby(labels["configuration"]).mean()
    by_length = values.groupby(halves).mean()
    return pd.concat([by_configuration, by_length]).round(3)


def _judge_verdicts(results: Results) -> list[tuple[str, str, str, float | None]]:
    """Return configuration, query_id, criterion and value of every judgement."""
    verdicts = []
    for result in results:
        for judgement in result.judgements:
            verdicts.append((result.name, judgement.query_id, judgement.criterion, judgement.value))
    return verdicts
