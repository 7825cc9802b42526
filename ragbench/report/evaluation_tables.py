"""Tables of `evaluate.ipynb` between its figures: measures, labels, chunks, categories, turns,
searches, claims, interventions, costs and times.
"""

import pandas as pd

from ragbench.evaluation import Result
from ragbench.evaluation.output import SystemOutput
from ragbench.evaluation.records import SAFETY
from ragbench.metrics.answer_similarity import abstention_table, token_f1
from ragbench.metrics.spans import split_evidence
from ragbench.registry import meaning_of, own_names, perspective_of
from ragbench.report.configuration import MAIN
from ragbench.statistics import summarise
from ragbench.types import Dataset

_NO_CATEGORY = "no category"
_ABOUT_ANSWERS = ("answer", "judge", "context", "groundedness", "pipeline", "overall")
_RANKING = ("nDCG@5", "nDCG@10", "P@5", "R@5", "R@10", "Success@5", "RR", "AP")


def main_measures(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a summary that are shown first, as far as they were measured, with the user's
    own measures; the index is the measure.
    """
    return _scored(summary, (*MAIN, *own_names())).round(3)


def ranking_measures(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a summary that are ranking measures of documents; the index is the measure."""
    return _scored(summary, _RANKING)


def _scored(summary: pd.DataFrame, names: tuple[str, ...] | list[str]) -> pd.DataFrame:
    """Return the rows of these measures that have at least one score."""
    rows = summary[summary["measure"].isin(names) & summary["n_scored"].gt(0)]
    return rows.set_index("measure")


def label_counts(dataset: Dataset) -> pd.DataFrame:
    """Count the questions of each category, and how many of them have each kind of label.

    Returns:
        questions, with_judgements (relevant documents), with_evidence (gold passages), with_reference
        (a right answer), unanswerable; the index is the category, and the last row, "all", the sum.
    """
    rows = []
    for case in dataset.cases:
        rows.append(
            {
                "category": case.category or _NO_CATEGORY,
                "questions": 1,
                "with_judgements": bool(dataset.qrels.get(case.query_id)),
                "with_evidence": bool(case.evidence),
                "with_reference": case.reference_answer is not None,
                "unanswerable": not case.answerable,
            }
        )
    counts = pd.DataFrame(rows).groupby("category", sort=False).sum().astype(int)
    return pd.concat([counts, counts.sum().to_frame("all").T])


def chunk_facts(result: Result) -> pd.DataFrame:
    """Return statistics of the chunks of ragbench's own pipeline, in one row; no row for another
    system.

    `boundary_cuts` is the fraction of borders inside a sentence, `coherence` how alike neighbouring
    sentences are.
    """
    output = result.output
    if output is None or not output.searched:
        return pd.DataFrame()
    facts = pd.DataFrame([result.facts])
    return facts.filter(regex="^(chunks|tokens|overlap|coherence|boundary)").round(3)


def cut_evidence(output: SystemOutput) -> str:
    """Say of which questions no chunk holds all of a passage of gold evidence; "" for a system other
    than ragbench's own pipeline, and for a dataset without evidence.
    """
    if not output.searched or not any(case.evidence for case in output.dataset.cases):
        return ""
    split = split_evidence(output.dataset, output.searched)
    listed = ", ".join(split["query_id"].head(10)) or "none"
    return f"Of {len(split)} questions no single chunk holds all of an evidence passage: {listed}."


def means_by_category(result: Result, dataset: Dataset, measure: str) -> pd.DataFrame:
    """Summarise a measure over the questions of each category.

    Returns:
        The columns of `summarise`; the index is the category with its number of questions, such as
        "numbers (n = 12)", counting those with a score. No row where all these questions are of one
        category.
    """
    category_of = {case.query_id: case.category or _NO_CATEGORY for case in dataset.cases}
    scores = result.scores[result.scores["measure"].eq(measure)].dropna(subset=["value"])
    categories = scores["query_id"].map(category_of)
    if categories.nunique() < 2:  # the same mean as over all questions
        return pd.DataFrame()
    summaries = {name: summarise(part) for name, part in scores.groupby(categories, sort=False)}
    table = pd.concat(summaries).droplevel(1)  # of one measure each summary has one row
    table.index += " (n = " + table["n_scored"].astype(str) + ")"
    return table


def means_by_turn(result: Result, measures: list[str]) -> pd.DataFrame:
    """Return the mean of each measure by the number of the turn in a conversation.

    The id of a question in a conversation ends with its turn, such as "c7<::>2".

    Returns:
        questions (how many), then the `measures` that were scored; the index is the turn. No row if no
        question is in a conversation.
    """
    # the turn of each score; NaN for a question that is in no conversation
    turns = result.scores["query_id"].astype(str).str.extract(r"<::>(\d+)$", expand=False)
    if turns.isna().all():
        return pd.DataFrame()
    scores = result.scores[turns.notna()]
    turns = turns.dropna().astype(int)
    summaries = {turn: summarise(part) for turn, part in scores.groupby(turns)}
    # a row per turn and measure, then a row per turn with a column per measure
    rows = pd.concat(summaries, names=["turn"]).reset_index("turn")
    means = rows.pivot(index="turn", columns="measure", values="mean")
    means.insert(0, "questions", scores.groupby(turns)["query_id"].nunique())
    shown = [name for name in ["questions", *measures] if name in means]
    return means[shown].astype(float).round(3)


def search_calls(output: SystemOutput) -> pd.DataFrame:
    """Return a row for each search that a system reported, such as an agent's tool calls on the way to
    an answer. Searches that returned no passage are left out.

    Returns:
        query_id, call (its number within the question), name, query, documents (of its passages, in
        their order), gold_rank (of the first relevant one, from 1; NaN if there is none).
    """
    document_of = {text.chunk_id: text.doc_id for text in output.texts}
    rows = []
    for answer in output.answers:
        grades = output.dataset.qrels.get(answer.query_id, {})
        for number, call in enumerate(answer.calls, 1):
            # of a passage that is not of the corpus, the id stands for its document
            documents = [document_of.get(context, context) for context in call.contexts]
            if not documents:
                continue
            relevant_ranks = [
                rank for rank, doc_id in enumerate(documents, 1) if grades.get(doc_id, 0) > 0
            ]
            gold_rank = min(relevant_ranks, default=float("nan"))
            rows.append((answer.query_id, number, call.name, call.query, documents, gold_rank))
    columns = ["query_id", "call", "name", "query", "documents", "gold_rank"]
    return pd.DataFrame(rows, columns=columns)


def searches_by_call(calls: pd.DataFrame) -> pd.DataFrame:
    """Summarise `search_calls` by the number of the call: questions, gold_found (the fraction with a
    relevant document), gold_rank (its mean rank).
    """
    if calls.empty:
        return pd.DataFrame()
    found = calls.assign(gold_found=calls["gold_rank"].notna())  # NaN: no relevant document
    table = found.groupby("call")[["gold_found", "gold_rank"]].mean()
    table.insert(0, "questions", calls.groupby("call").size())
    return table.round(3)


def abstentions(output: SystemOutput) -> pd.DataFrame:
    """Return `ragbench.metrics.abstention_table`; no row for a system that answers nothing."""
    if not output.has_answers:
        return pd.DataFrame()
    return abstention_table(output.dataset, output.answers)


def answer_measures(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a summary that are about answers and their contexts, with their
    perspective and meaning; missing numbers are the word "unscored".
    """
    perspectives = summary["measure"].map(perspective_of)
    rows = summary.assign(perspective=perspectives, meaning=summary["measure"].map(meaning_of))
    rows = rows[perspectives.isin(_ABOUT_ANSWERS)].set_index(["perspective", "measure"])
    rows = rows.sort_index(level=0, sort_remaining=False).round(3).astype(object)
    return rows.where(rows.notna(), "unscored")


def unsupported_claims(result: Result, by: str) -> pd.DataFrame:
    """Return the claims of answers that no context supports: query_id, claim.

    Args:
        result: the evaluation.
        by: who says so: "wording" (a heuristic) or "judge".
    """
    claims = result.claims
    is_shown = claims["by"].eq(by) & claims["problem"].eq("unsupported")
    return claims.loc[is_shown, ["query_id", "claim"]]


def unscored_verdicts(result: Result) -> pd.DataFrame:
    """Count a judge's verdicts without a value, such as failed ones, by criterion and state.

    Returns:
        example (the id of the first such question), reason (of that one), answers (their number); the
        index is the criterion and the state.
    """
    rows = [
        (judgement.criterion, judgement.state, judgement.query_id, judgement.explanation)
        for judgement in result.judgements
        if judgement.value is None
    ]
    table = pd.DataFrame(rows, columns=["criterion", "state", "example", "reason"])
    groups = table.groupby(["criterion", "state"])
    return groups.first().assign(answers=groups.size())


def changed_answers(
    result: Result, intervention: str, expected: str, *, rows: int = 3
) -> pd.DataFrame:
    """Return the answers that failed an intervention, the worst first.

    An intervention is a change of the question or of the contexts, such as typos. An answer fails if it
    changed although it should have stayed the same, or stayed although it should have changed.

    Args:
        result: an evaluation with interventions, and its output; without the output no row is
            returned.
        intervention: as in `robustness_table`.
        expected: the expected answer, as in `robustness_table`: if it is "the same answer", the least
            similar answers are the worst, else the most similar ones.
        rows: how many answers are returned at most.

    Returns:
        question (its id), untouched (the answer before), "after it", token_f1 (the similarity of the two
        answers, by their words).
    """
    if result.output is None:
        return pd.DataFrame()
    scores = result.scores  # of robustness: 1 if the answer did as expected, 0 if not
    is_failed = scores["measure"].eq(f"robust:{intervention}") & scores["value"].eq(0)
    variation = result.output.variations[intervention]
    before = {answer.query_id: answer.text for answer in result.output.answers}
    after = {answer.query_id: answer.text for answer in variation.answers}
    # the answers before and after it, by question, and how similar they are
    table = pd.DataFrame({"question": scores.loc[is_failed, "query_id"]})
    table["untouched"] = table["question"].map(before)
    table["after it"] = table["question"].map(after)
    pairs = zip(table["after it"], table["untouched"], strict=True)
    table["token_f1"] = [token_f1(changed, untouched) for changed, untouched in pairs]
    least_similar_first = expected == "the same answer"
    table = table.sort_values("token_f1", ascending=least_similar_first, kind="stable")
    return table.head(rows).round(3)


def cost_table(result: Result) -> pd.DataFrame:
    """Return the cost of each part of an evaluation, with `usd_per_question`; an unknown cost is
    the word "unknown". Safety samples are no cost of a question: "–". No row if no model was asked.
    """
    costs = pd.DataFrame(list(result.costs))
    if costs.empty:
        return costs
    costs["usd_per_question"] = costs["usd"].astype(float) / len(result.answers)
    table = costs.astype(object).where(costs.notna(), "unknown")
    table.loc[table["part"] == SAFETY, "usd_per_question"] = "–"
    return table


def cut_texts(result: Result) -> str:
    """Say how many contexts and replies were cut; "" where no language model was asked.

    Contexts are cut where retrieved chunks did not fit the context budget, a reply at the maximum
    number of its tokens.
    """
    if not result.costs:
        return ""
    n_contexts = sum(bool(answer.cut) for answer in result.answers)
    n_replies = sum("truncated" in answer.flags for answer in result.answers)
    return f"{n_contexts} contexts and {n_replies} replies were cut."


def time_table(result: Result) -> pd.DataFrame:
    """Return the seconds that each stage took for all questions, and the milliseconds of one search,
    in one row.
    """
    times = pd.Series(result.timings).round(1).to_frame("seconds").T
    times["search_ms"] = result.facts.get("search_ms")
    return times
