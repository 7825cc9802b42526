"""The explorer's data on each question: which scores, answers, causes and claims it gets, its
sentences on measures, and the characters of documents.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from ragbench.errors import DataError, DataWarning, plural
from ragbench.evaluation import Result, Results
from ragbench.evaluation.configurations import configurations
from ragbench.evaluation.formats import twelve_digits
from ragbench.evaluation.records import MeasureResult
from ragbench.metrics.safety.leakage import masked, masked_id
from ragbench.registry import BRIEF, LEADERBOARD, higher_is_better, meaning_of, perspective_of
from ragbench.report.page import doubtful_claims, interval, number
from ragbench.report.source_documents import locate
from ragbench.statistics.comparison import with_interval
from ragbench.types import Dataset, Passage


class Texts:
    """The characters of documents that are shown: a place is [document, start, end]; each text is
    kept once.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._full = {doc_id: document.full_text for doc_id, document in dataset.corpus.items()}
        self._numbers: dict[str, int] = {}
        self._shown: list[tuple[str, str, list[tuple[int, int]]]] = []

    def place(self, doc_id: str, start: int, end: int) -> list[int]:
        """Return the place of these characters; of a document that is not at hand it has no text."""
        return self._add(doc_id, self._full.get(doc_id, ""), start, end)

    def context(
        self, context_id: str, passage: Passage | None, changed: Collection[str] = ()
    ) -> dict[str, Any]:
        """Return a context's "id" and, if its text is known, its "place": [number of a text, start, end].

        The place is in the document's text. If the document does not hold the passage word for word,
        or is one of the `changed` documents, the place is in the text of the passage alone, and
        "unplaced" is True.
        """
        fields: dict[str, Any] = {"id": masked_id(context_id)}
        located = locate(context_id, passage, self._full)
        if located:
            doc_id, start, end = located
            if doc_id not in changed:
                return {**fields, "place": self.place(doc_id, start, end)}
        if passage is not None:
            text = masked(passage.text)
            fields["place"] = self._add(f"{context_id}\0{passage.text}", text, 0, len(text))
        return {**fields, "unplaced": True}

    def pieces(self) -> list[dict[str, Any]]:
        """Return for each document the pieces that a page shows, as [start, text] in order and
        without overlap: every range that `place` was called with.
        """
        documents: list[dict[str, Any]] = []
        for key, text, ranges in self._shown:
            pieces = [[start, text[start:end]] for start, end in _merged(ranges)]
            doc_id = key.partition("\0")[0]  # the key of an unplaced text is `id\0text`
            documents.append({"id": masked_id(doc_id), "pieces": pieces})
        return documents

    def _add(self, key: str, text: str, start: int, end: int) -> list[int]:
        """Add a range of a text to the texts of the page. Return its place: [number of text, start, end].

        `key` identifies the text: texts with the same key have the same number.
        """
        if key not in self._numbers:
            self._numbers[key] = len(self._shown)
            self._shown.append((key, text, []))
        number = self._numbers[key]
        _, _, ranges = self._shown[number]
        ranges.append((start, end))
        return [number, start, end]


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges in order, those that touch or overlap as one.

    >>> _merged([(4, 6), (0, 2), (1, 3)])
    [(0, 3), (4, 6)]
    """
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            last_start, last_end = merged.pop()
            merged.append((last_start, max(end, last_end)))
        else:
            merged.append((start, end))
    return merged


def answers_to_show(
    result: Result,
    texts: Texts,
    doubtful: Mapping[str, list[list[str]]],
    changed: Collection[str] = (),
) -> dict[str, dict[str, Any]]:
    """Return query_id -> answer, contexts and verdicts of one result, without empty fields.

    Args:
        texts: the texts that the page shows; texts of the contexts are added.
        doubtful: query_id -> its doubtful claims, as from `doubtful_claims_of`.
        changed: ids of the documents whose texts in `texts` differ from those that the result
            searched.
    """
    answers = {}
    for case in result.cases:
        answer = result.answer_of[case.query_id]
        passage_of = answer.passage_of
        diagnosis = result.cause_of.get(case.query_id, {})
        # a system that names no contexts may still have returned passages
        context_ids = answer.contexts or passage_of.keys()
        fields: dict[str, Any] = {
            "answer": case.answer,
            "outcome": case.outcome,
            "error": masked(answer.error or ""),
            "passed": case.passed,
            "reasons": list(case.reasons),
            "cause": diagnosis.get("cause", ""),
            "why": diagnosis.get("evidence", ""),
            "contexts": [
                texts.context(each, passage_of.get(each), changed) for each in context_ids
            ],
            "cut": [*map(masked_id, answer.cut)],
            "claims": doubtful.get(case.query_id, []),
        }
        answers[case.query_id] = {
            name: value for name, value in fields.items() if value not in ("", None, [])
        }
    return answers


def doubtful_claims_of(result: Result) -> dict[str, list[list[str]]] | None:
    """Return query_id -> the doubtful claims of its answer, each as [claim, who doubts it].

    Of several who doubt a claim, such as the judge and its wording, the first is named. None if no
    claims were checked.
    """
    measured = {part.name for part in result.perspectives if part.measured}
    if not measured & {"groundedness", "judge"}:
        return None
    doubts: dict[str, dict[str, str]] = {}  # query_id -> claim -> who doubts it
    for case, found_by, claim in doubtful_claims(result):
        doubts.setdefault(case.query_id, {}).setdefault(claim, found_by)
    claims_of = {}
    for query_id, doubter_of in doubts.items():
        claims_of[query_id] = [[claim, doubter] for claim, doubter in doubter_of.items()]
    return claims_of


def conclusion_of(results: Results, baseline: str, measure: str) -> list[str]:
    """Return the decision and the next step as every surface states them, a sentence each."""
    # a warning is among the evidence, and in the sentence of its measure
    with warnings.catch_warnings(action="ignore", category=DataWarning):
        conclusion = results.conclude(baseline, measure=measure)
    return [conclusion.lines[0], conclusion.lines[-1]]


def measures_of(results: Results, sides: Results, main: str) -> list[dict[str, Any]]:
    """Return the measures that the page can plot, `main` first, each with its comparison in words.

    Args:
        results: all results: p-values by `main` are adjusted for the comparisons of all of them, as
            in the leaderboard.
        sides: the one or two of them that the page shows.
        main: the measure that ranks the leaderboard.

    Raises:
        DataError: nothing is scored.
    """
    # two sides are compared over the questions that decide
    query_ids = sides.deciding(main).ids if len(sides) > 1 else sides[0].queries
    names = _measure_names(sides, main, query_ids)
    if not names:
        raise DataError(
            f"{', '.join(side.name for side in sides)}: no measure scores a question of each"
        )
    if len(sides) == 1:
        row_of = {row.measure: row for row in sides[0].rows}
        return [_measure_fields(name, [], _mean_sentence(row_of[name])) for name in names]
    label_of = configurations(results).set_index("name")["label"]
    labels = [label_of[side.name] for side in sides]
    measures = []
    for row in _compared_sides(results, sides, names):
        counts = [row["wins"], row["losses"], row["ties"]]
        measures.append(_measure_fields(row["measure"], counts, _difference_sentence(row, labels)))
    return measures


def _compared_sides(
    results: Results, sides: Results, names: Sequence[str]
) -> list[dict[Hashable, Any]]:
    """Compare the second side, B, with the first, A. Return a row of `Results.compare` per measure.

    The row of the first measure is the one of the leaderboard: its p-value is adjusted for the
    comparisons of all `results` with A. By the other measures only B is compared with A.

    Args:
        sides: A and B, the two of the `results` that the page shows.
        names: the measures.
    """
    name_of_a, name_of_b = (side.name for side in sides)
    # nothing is hidden: the table repeats each warning in its column `note`
    with warnings.catch_warnings(action="ignore", category=DataWarning):
        tables = [results.compare(name_of_a, measures=names[:1])]
        if len(names) > 1:
            tables.append(sides.compare(name_of_a, measures=names[1:]))
    table = pd.concat(tables)
    return table[table["name"] == name_of_b].to_dict("records")


def _measure_names(sides: Results, main: str, query_ids: Collection[str]) -> list[str]:
    """Return the names of the measures to show, each once: those that every side has scored on one
    of these questions.

    First `main`, then measures of the leaderboard and of the brief table, then the measures of a judge and
    of the user.
    """
    scored_of_sides = []
    for side in sides:
        rows = side.scores.dropna(subset=["value"])
        is_asked = rows["query_id"].isin(query_ids)
        scored_of_sides.append(set(rows.loc[is_asked, "measure"]))
    scored = set.intersection(*scored_of_sides)
    usual = (main, *LEADERBOARD, *BRIEF)
    others = [
        name
        for name in sides[0].scores["measure"].unique()
        if perspective_of(name) in ("own", "judge")
    ]
    # each once, in this order
    return [name for name in dict.fromkeys([*usual, *others]) if name in scored]


def _measure_fields(name: str, counts: list[int], conclusion: str) -> dict[str, Any]:
    """Return the fields of a measure for the page.

    `counts` are the questions on which B is better, worse and equal; [] if a single result is
    shown.
    """
    return {
        "name": name,
        "meaning": meaning_of(name),
        "higher": higher_is_better(name),
        "conclusion": conclusion,
        "counts": counts,
    }


def _mean_sentence(row: MeasureResult) -> str:
    mean = " ".join([number(row.value), interval(row.ci_low, row.ci_high)]).strip()
    return f"Mean {row.measure} {mean} over {row.n_scored} of {plural(row.n, 'question')}."


def _difference_sentence(row: Mapping[Hashable, Any], labels: Sequence[str]) -> str:
    """State how B differs from A by one measure, with their labels, and the decision if this measure
    decides.
    """
    a, b = labels
    difference = with_interval(row["difference"], row["ci_low"], row["ci_high"], "{:+.3f}")
    decision = f" Decision: {row['decision']}." if row["decision"] else ""
    return (
        f"A is {a}, B is {b}. By {row['measure']}, B is better on "
        f"{plural(row['wins'], 'question')}, worse on {row['losses']} and equal on "
        f"{row['ties']}. Difference B - A with its 95\u00a0% "
        f"interval: {difference}, over {plural(row['n'], 'question')}.{decision}"
    )


def scores_of(sides: Results, query_ids: Sequence[str]) -> dict[str, list[list[float | None]]]:
    """Return measure -> for each side the values of these questions; None = unscored."""
    # each once, in the order of the scores
    names = list(dict.fromkeys(name for side in sides for name in side.scores["measure"]))
    tables = [side.wide.reindex(index=list(query_ids), columns=names) for side in sides]
    return {name: [_plain_values(table[name]) for table in tables] for name in names}


def _plain_values(values: pd.Series[float]) -> list[float | None]:
    """Return values for JSON: shortened, None for NaN."""
    return [None if math.isnan(value) else float(twelve_digits(value)) for value in values]
