"""What one configuration gave on one dataset, and several side by side: what each is called, and
which is best.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, overload

import pandas as pd

from ragbench.errors import ComparisonError, ConfigError, check_known, printable
from ragbench.evaluation.parameters import OMITTED
from ragbench.evaluation.result import Result
from ragbench.registry import LEADERBOARD, higher_is_better, named_among
from ragbench.statistics import compare_all, summarise
from ragbench.statistics.columns import adjusted_p_values
from ragbench.statistics.frames import printed_short, with_interval
from ragbench.statistics.race import Race

ANSWER_MEASURES = ("llm_correctness", "llm_faithfulness", "semantic_similarity", "token_f1")
"""What distinguishes answers, the first that there is."""

PER_QUESTION = ("latency_p50_ms", "latency_p95_ms", "cost_per_1000_usd")
"""Columns of the leaderboard: what a user of each system waits and pays for."""

# Named by their own columns of the leaderboard, so a label need not repeat them.
_IN_LABEL = ("system", "retriever", "reranker", "chunker", "chunk_size", "chunk_overlap")


class Results(Sequence[Result]):
    """Several results on the same data: what `load_results` gives.

    `results["bm25-fixed-512-..."]` is a result by name, `results[0]` by place. `baseline` names the
    one that the others are compared with unless another is named: that of the sweep, else the first
    by name. `race` is the race that these have survived, with those that it dropped.
    """

    def __init__(
        self, results: Iterable[Result], *, baseline: str = "", race: Race | None = None
    ) -> None:
        self._results = tuple(results)
        self.baseline, self.race = baseline, race
        names = [result.name for result in self._results]
        if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise ConfigError(f"two results are named {twice[0]!r}; give each a name of its own")

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    @overload
    def __getitem__(self, key: int | str) -> Result: ...
    @overload
    def __getitem__(self, key: slice) -> Results: ...
    def __getitem__(self, key: int | str | slice) -> Result | Results:
        if isinstance(key, slice):
            return Results(self._results[key], baseline=self.baseline)
        if isinstance(key, str):
            by_name = {result.name: result for result in self._results}
            check_known("result", by_name, key)
            return by_name[key]
        return self._results[key]

    def __repr__(self) -> str:
        return f"Results({', '.join(result.name for result in self._results)})"

    @property
    def scores(self) -> pd.DataFrame:
        """Return all scores, tidy: name (of the result), query_id, measure, value."""
        return _together({result.name: result.scores for result in self._results})

    @property
    def questions(self) -> pd.DataFrame:
        """Return one row per question and result: name, then the columns of `Result.questions`."""
        return _together({result.name: result.questions for result in self._results})

    @property
    def diagnoses(self) -> dict[str, pd.DataFrame]:
        """Return name -> diagnosis, as far as there are any."""
        return {
            result.name: result.diagnosis
            for result in self._results
            if result.diagnosis is not None
        }

    def leaderboard(self, measure: str = "", measures: Sequence[str] = ()) -> pd.DataFrame:
        """Return one row per result, best first by `measure` ("" = `ranking_measure`), with
        `measures` and their standard deviations; see `leaderboard`.
        """
        return leaderboard(self, measure=measure, measures=measures)

    def compare(self, baseline: str = "", *, measures: Sequence[str] = ()) -> pd.DataFrame:
        """Compare every result with one of them, paired by question: the frame of
        `ragbench.compare_all`.

        Args:
            baseline: name of a result; "" means that of the sweep, else the first by name.
            measures: which; () means the one that ranks the leaderboard. p-values are adjusted over
            all rows, and over those that a race dropped, as if they were 1.
        """
        chosen = list(measures) or [ranking_measure(self)]
        scores = {each.name: _of_measures(each.scores, chosen) for each in self._results}
        compared = compare_all(scores, baseline_name(self, baseline), measures=chosen)
        if self.race and (n_dropped := len(self.race.scores.keys() - scores.keys())):
            p_values = [*compared["p_value"], *[1.0] * n_dropped * len(chosen)]
            compared["p_adjusted"] = adjusted_p_values(p_values)[: len(compared)]
            compared.loc[compared["p_adjusted"] >= 0.05, "decision"] = "undecided"
        return compared


def _together(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(frames, names=["name"]).reset_index("name").reset_index(drop=True)


def _of_measures(scores: pd.DataFrame, measures: Sequence[str]) -> pd.DataFrame:
    """Return the rows of these measures, if they have just these names."""
    rows = scores[scores["measure"].isin(measures)]
    return rows if rows["measure"].nunique() == len({*measures}) else scores


def main_measure(scores: pd.DataFrame) -> str:
    """Return what configurations are ranked by: evidence recall over all budgets where there is
    evidence, else nDCG@10.

    Equal k is not equal when chunks differ in size, so an equal-budget measure leads wherever it
    can be had.
    """
    return "span_recall_auc" if (scores["measure"] == "span_recall_auc").any() else "nDCG@10"


def only(scores: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the rows of one measure, named in any case.

    Raises:
        ConfigError: it is not among the scores.
    """
    return scores[scores["measure"] == named_among(measure, sorted(scores["measure"].unique()))]


def configurations(results: Sequence[Result]) -> pd.DataFrame:
    """Return what each configuration is, in words short enough for a figure.

    Returns:
        name, label, retriever, chunking; the label also names every other parameter that differs
        within the sweep.
    """
    parameters = {result.name: result.config["parameters"] for result in results}
    varying = [
        key
        for key in dict.fromkeys(key for settings in parameters.values() for key in settings)
        if key not in _IN_LABEL
        and len(
            {
                str(settings.get(key, ""))
                for settings in parameters.values()
                if key in settings or key in OMITTED
            }
        )
        > 1
    ]
    rows = []
    for name, settings in parameters.items():
        system = settings.get("retriever") or settings.get("system") or name
        retriever = str(system) + (f" + {settings['reranker']}" if settings.get("reranker") else "")
        chunking = settings.get("chunker", "")
        if chunking not in ("", "document"):
            overlap = f"/{settings['chunk_overlap']}" if settings.get("chunk_overlap") else ""
            chunking += f" {settings.get('chunk_size', '')}{overlap}"
        others = [
            f"{key} {_short(settings[key])}" for key in varying if key in settings
        ]  # other systems have other parameters
        rows.append(
            (
                name,
                printable(", ".join(filter(None, [retriever, chunking, *others]))),
                retriever,
                chunking,
            )
        )
    return pd.DataFrame(rows, columns=["name", "label", "retriever", "chunking"])


def _short(value: Any) -> str:
    """Return a value as a label shows it, shortened: a custom prompt may be long."""
    text = " ".join(str(value).split())
    return text if len(text) <= 40 else f"{text[:39]}…"


def baseline_name(results: Sequence[Result], baseline: str = "") -> str:
    """Return the name of the configuration that the others are compared with; "" is
    `Results.baseline`, else the first.

    Raises:
        ConfigError: if no configuration has this name.
    """
    names = sorted(result.name for result in results)
    if baseline:
        check_known("baseline", names, baseline)
    stored = getattr(results, "baseline", "")
    return baseline or (stored if stored in names else names[0])


def ranking_measure(results: Sequence[Result], measure: str = "") -> str:
    """Return what a sweep is ranked by: the `measure` named, in any case; else that of its race; else
    `main_measure`, or a measure of answers where the sweep is about nothing else.

    Configurations that differ in model or prompt only retrieve the same: by evidence they all tie.
    Then correctness as a language model judges it, or else the similarity to the reference answer,
    separates them.
    """
    race = getattr(results, "race", None)
    if measure := measure or (race.measure if race else ""):
        return named_among(measure, dict.fromkeys(map(str, results[0].scores["measure"])))
    main = main_measure(results[0].scores)
    if len(results) < 2 or not any(map(with_language_model, results)):
        return main
    first = _values(results[0], main)
    if any(_values(result, main) != first for result in results[1:]):
        return main
    for name in ANSWER_MEASURES:
        if all(
            result.scores.loc[result.scores["measure"] == name, "value"].notna().any()
            for result in results
        ):
            return name
    return main


def _values(result: Result, measure: str) -> dict[str, float]:
    scored = only(result.scores, measure).dropna()
    return dict(zip(scored["query_id"], scored["value"], strict=True))


def leaderboard(
    results: Sequence[Result], *, measure: str = "", measures: Sequence[str] = ()
) -> pd.DataFrame:
    """Return one row per configuration, best first by `measure` ("" = `ranking_measure`).

    Args:
        results: on the same data.
        measure: what it is ranked by.
        measures: any others among the scores ("span_iou@5"), which are columns and printed too.

    Returns:
        rank (none where nothing was scored by that measure), name, label, retriever, chunking; for
        each headline measure its mean, `<measure>_ci_low`, `<measure>_ci_high` and `<measure>_n`
        ("scored/all"); of `measures` also `<measure>_std`, the deviation over questions; chunks,
        index_s, search_ms (one question alone); latency_p50_ms and latency_p95_ms (of an answer,
        until it is complete); with_llm, cost_usd (of the run where
        nothing is stored), generator_cost_usd and judge_cost_usd (parts of it), cost_per_1000_usd
        (of answers to as many questions; a service has one if it reports its tokens), generate_ms
        (median reply that was waited for); `rank_equal_k` and `rank_equal_budget`, the places by
        span_recall@5 and span_recall@500tok where they exist.

    Raises:
        ComparisonError: no results, or results on different data or questions.
    """
    check_comparable(results)
    main = ranking_measure(results, measure)
    named = [ranking_measure(results, name) for name in measures]
    identity = configurations(results).set_index("name").to_dict("index")
    rows = [
        {"name": result.name, **identity[result.name], **_standing(result, main, named)}
        for result in results
    ]
    table = pd.DataFrame(rows)
    for name in judged_columns(table):  # a result has it where it is below 1
        ranked = name.replace("Judged", "nDCG")
        complete = table[name].isna() & table[ranked].notna()
        table.loc[complete, [name, f"{name}_ci_low", f"{name}_ci_high"]] = 1.0
        table.loc[complete, f"{name}_n"] = table[f"{ranked}_n"]
    # what one system shows another may not: a service without passages has no score of evidence
    counts = [str(name) for name in table if str(name).endswith("_n")]
    table[counts] = table[counts].fillna(f"0/{len(results[0].queries)}")
    for column, name in (
        ("rank_equal_k", "span_recall@5"),
        ("rank_equal_budget", "span_recall@500tok"),
    ):
        if name in table:
            table[column] = (
                table[name].round(12).rank(ascending=False, method="min").astype("Int64")
            )
    table["_"] = table[main].round(12)
    order = [not higher_is_better(main), True]
    table = table.sort_values(["_", "name"], ascending=order, ignore_index=True).drop(
        columns="_"
    )  # unscored come last
    table.insert(
        0, "rank", pd.Series(range(1, len(table) + 1), dtype="Int64").where(table[main].notna())
    )
    return printed_short(table, partial(_printed, main=main, named=named))


def judged_columns(board: pd.DataFrame) -> list[str]:
    """Return the columns Judged@k of a leaderboard that has nDCG@k: where a result has documents
    without a judgement.
    """
    judged = [str(name).replace("nDCG@", "Judged@") for name in board if "nDCG@" in str(name)]
    return [name for name in judged if name in board and f"{name}_n" in board]


def _printed(board: pd.DataFrame, *, main: str, named: Sequence[str]) -> pd.DataFrame:
    """Return what a leaderboard prints: the ranking measure with its interval, other means, those
    named with deviations, known costs, and the two ranks (which say more than the recalls they come
    from).
    """
    bounds = zip(board[main], board[f"{main}_ci_low"], board[f"{main}_ci_high"], strict=True)
    means = [
        name
        for name in (*judged_columns(board), *LEADERBOARD)
        if name not in named and not name.startswith("span_recall")
    ]
    means += [f"{name}{suffix}" for name in named for suffix in ("", "_std")]
    means = [name for name in means if name != main and name in board and board[name].notna().any()]
    others = ["chunks", *PER_QUESTION, "rank_equal_k", "rank_equal_budget"]
    filled = [name for name in others if name in board and board[name].notna().any()]
    digits = dict.fromkeys(means, 3) | dict.fromkeys(PER_QUESTION, 1) | {"cost_per_1000_usd": 3}
    numbers = board[[*means, *filled]].astype("Float64").round(digits)
    numbers = numbers.astype(
        {
            name: "Int64"
            for name in ("chunks", "rank_equal_k", "rank_equal_budget")
            if name in filled
        }
    )
    return (
        board[["rank", "label"]]
        .assign(**{main: [with_interval(*row) for row in bounds]})
        .join(numbers)
    )


def _standing(result: Result, main: str, named: Sequence[str]) -> dict[str, Any]:
    """Return the means of one configuration with their intervals, and what it costs; NaN =
    unscored, None = unknown.
    """
    only(result.scores, main)  # an unknown measure is refused here
    measures = dict.fromkeys(
        measure
        for name in (*LEADERBOARD, main, *named)
        for measure in (name, name.replace("nDCG@", "Judged@"))
    )
    scores = result.scores[result.scores["measure"].isin(measures)]
    summary = {row["measure"]: row for row in summarise(scores).to_dict("records")}
    standing: dict[str, Any] = {}
    for name in (name for name in measures if name in summary):
        row = summary[name]
        for suffix, key in (("", "mean"), ("_ci_low", "ci_low"), ("_ci_high", "ci_high")):
            standing[f"{name}{suffix}"] = math.nan if pd.isna(row[key]) else float(row[key])
        standing[f"{name}_n"] = f"{row['n_scored']}/{row['n']}"
        if name in named:
            standing[f"{name}_std"] = only(scores, name)["value"].std()
    facts = result.facts
    standing |= {"chunks": facts.get("chunks"), "index_s": result.timings.get("index")}
    standing |= {"search_ms": facts.get("search_ms"), "with_llm": with_language_model(result)}
    costs = ("cost_usd", "generator_cost_usd", "judge_cost_usd", "generate_ms")
    return standing | {name: facts.get(name) for name in costs} | per_question(result)


def per_question(result: Result) -> dict[str, float | None]:
    """Return what a user waits and pays for, None where that is not known."""
    cost_usd = result.facts.get("generator_cost_usd")
    total = next((each for each in result.latency if each.stage == "total"), None)
    is_ours = result.system.get("kind") == "Pipeline" or "system" not in result.parameters
    is_known = is_ours or any(answer.usage is not None for answer in result.answers)
    cost = None
    if cost_usd is not None and is_known:
        cost = 1000 * cost_usd / max(1, len(result.queries))
    return {
        "latency_p50_ms": total.p50 if total else None,
        "latency_p95_ms": total.p95 if total else None,
        "cost_per_1000_usd": cost,
    }


def check_comparable(results: Sequence[Result]) -> None:
    """Refuse to compare what was measured on different data.

    Raises:
        ComparisonError: no results, or the fingerprints of the datasets differ; it names the
        configurations.
    """
    if not results:
        raise ComparisonError("the sweep has no finished configuration to compare; run it first")
    first_of = {result.dataset["fingerprint"][:12]: result.name for result in reversed(results)}
    if len(first_of) > 1:
        parts = "; ".join(f"{fingerprint}: {name}" for fingerprint, name in first_of.items())
        raise ComparisonError(
            f"these configurations were measured on {len(first_of)} different datasets ({parts}); "
            "numbers from different data cannot be compared: run the older ones again with --force"
        )


def mean_of(scores: pd.DataFrame, measure: str) -> float:
    # Rounded: the same values in another order may differ in the last bit, which must not change
    # the rank.
    return round(float(only(scores, measure)["value"].mean()), 12)


def with_language_model(result: Result) -> bool:
    """Return True if a configuration's answers come from a language model."""
    return str(result.parameters.get("llm", "extractive")) != "extractive"
