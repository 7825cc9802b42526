"""Questions of several tables, paired by id, else by their text; repeated runs of a question become
their mean, and which questions a comparison leaves out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import pandas as pd

from ragbench.errors import ComparisonError, abridged, printable
from ragbench.folding import folded_words
from ragbench.foreign.score_columns import Scored, ScoreTable
from ragbench.registry import find_measure

_VALUE = re.compile(r"(/v\d+)?/(value|score)$")
_MAX_NAMED = 3  # questions in a message


@dataclass(frozen=True, slots=True)
class PairedTables:
    """The scores of several systems on the same questions.

    A question is named by its id, or by its text where questions were paired by text.

    Attributes:
        values: system -> measure -> question -> value: the mean of the question's runs that have a
            value; a question without any is missing.
        by: "id" or "text", by which questions were paired.
        texts: question -> its words ("" if not known), of every question of any table.
        absent: system -> the questions of other tables that have no row in its own.
        changed: the questions whose words differ under one id. They are not compared.
        runs: system -> the largest number of runs of a question.
        texts_differ: the texts are prompts that differ by system, so `texts` are all "".
    """

    values: Mapping[str, Mapping[str, Mapping[str, float]]]
    by: str
    texts: Mapping[str, str]
    absent: Mapping[str, frozenset[str]]
    changed: frozenset[str]
    runs: Mapping[str, int]
    texts_differ: bool = False

    @property
    def measures(self) -> tuple[str, ...]:
        """Return the measures that every system has, in the order of the first."""
        first, *others = self.values.values()
        return tuple(name for name in first if all(name in other for other in others))

    def scored(self, measure: str) -> frozenset[str]:
        """Return the questions that every system has a score of, without those in `changed`."""
        # for each system, the questions with a score
        columns = [values.get(measure, {}).keys() for values in self.values.values()]
        return frozenset(columns[0]).intersection(*columns) - self.changed

    def scores(self, measures: Sequence[str]) -> dict[str, pd.DataFrame]:
        """Return system -> query_id, measure, value, with a row for every question and measure."""
        frames = {}
        for system, values in self.values.items():
            rows = []
            for measure in measures:
                for question in self.texts:
                    rows.append((question, measure, self._value(values, measure, question)))
            frames[system] = pd.DataFrame(rows, columns=["query_id", "measure", "value"])
        return frames

    def _value(
        self, values: Mapping[str, Mapping[str, float]], measure: str, question: str
    ) -> float:
        """Return a value of a system; NaN without one, and for a question that changed."""
        if question in self.changed:
            return math.nan
        return values.get(measure, {}).get(question, math.nan)

    def missing(self, measure: str) -> dict[str, frozenset[str]]:
        """Return system -> the questions that are in every table, but have no score of it.

        Such a question was asked, but failed or was not scored. Questions whose words differ under
        one id (`changed`) are left out.
        """
        asked = {*self.texts} - self.changed  # of all questions of any table
        asked.difference_update(*self.absent.values())  # those that are in every table remain
        missing = {}
        for name, values in self.values.items():
            scored = values.get(measure, {}).keys()
            missing[name] = frozenset(asked - scored)
        return missing

    def with_failures(self, measure: str, value: float) -> PairedTables:
        """Return these tables with a value in the place of each missing score of a measure."""
        filled = {}
        for name, questions in self.missing(measure).items():
            # its scores, and `value` for each missing question
            scores = {**self.values[name].get(measure, {}), **dict.fromkeys(questions, value)}
            filled[name] = {**self.values[name], measure: scores}
        return replace(self, values=filled)

    def left_out(self, measure: str) -> dict[str, int]:
        """Return how many questions a comparison by this measure leaves out: reason -> their number.

        Each question is left out for one reason, which ends with the names of the first such questions.
        """
        questions_of: dict[str, list[str]] = {}
        for question in self.texts:
            reason = self._reason(question, measure)
            if reason:
                questions_of.setdefault(reason, []).append(question)
        counts = {}
        for reason, questions in questions_of.items():
            counts[f"{reason} ({self.named(questions)})"] = len(questions)
        return counts

    def _reason(self, question: str, measure: str) -> str:
        """Return why a comparison by a measure leaves out a question; "" if it does not.

        The reason ends a sentence about several questions, such as "3 questions are in A alone".
        """
        # the question is not in every table: it was not asked of all systems
        systems_without = [name for name, absent in self.absent.items() if question in absent]
        if systems_without:
            systems_with = [name for name in self.values if name not in systems_without]
            if len(systems_with) == 1:
                return f"are in {systems_with[0]} alone"
            return f"are not in {systems_without[0]}"
        if question in self.changed:
            return "have other words under the same id"
        for name, values in self.values.items():
            if question not in values.get(measure, {}):
                return f"have no {measure} in {name}"
        return ""

    def named(self, questions: Sequence[str]) -> str:
        """Return the first questions, and how many there are besides."""
        texts = [printable(abridged(question, 40)) for question in questions[:_MAX_NAMED]]
        n_more = len(questions) - len(texts)
        if n_more:
            texts.append(f"and {n_more} more")
        return ", ".join(texts)


def paired_tables(tables: Sequence[ScoreTable]) -> PairedTables:
    """Pair the questions of tables by id or by text.

    Shared are ids and texts that are in the first table and another one. The texts under a shared id
    agree if they have the same words, or if one is missing. The questions are paired

    - by id, if there are shared ids, and no texts agree at all: then the texts are prompts, which each
      system writes in its own way, and they are ignored;
    - else by id, if at least as many shared ids have agreeing texts as there are shared texts. A
      question whose texts differ is then not compared;
    - else by text: the ids may be numbers of rows, in another order.

    Raises:
        ComparisonError: the tables have no question in common.
    """
    first, *others = tables
    n_shared_ids = 0
    n_by_id = 0  # shared ids whose texts agree
    n_by_text = 0  # shared texts, under any ids
    text_of_id, texts = _identities(first)
    for other in others:
        other_text_of_id, other_texts = _identities(other)
        for query_id in text_of_id.keys() & other_text_of_id.keys():
            n_shared_ids += 1
            text = text_of_id[query_id]
            other_text = other_text_of_id[query_id]
            if not text or not other_text or text == other_text:
                n_by_id += 1
        n_by_text += len(texts & other_texts)
    if not n_shared_ids and not n_by_text:
        raise ComparisonError(_nothing_in_common(first, others[0]))
    are_prompts = n_by_id == 0 and n_by_text == 0  # the tables share ids, and no text agrees
    by = "id" if n_by_id >= n_by_text else "text"
    return _pair_rows(tables, by, texts_differ=are_prompts)


def _identities(table: ScoreTable) -> tuple[dict[str, str], set[str]]:
    """Return id -> folded text of each question of a table ("" without a text), and the set of all
    folded texts.

    The id of a row without a text is among the texts, too, since some tables have texts as ids.
    """
    text_of_id: dict[str, str] = {}
    texts: set[str] = set()
    for row in table.rows:
        text = folded_words(row.question)
        if row.query_id:
            text_of_id.setdefault(row.query_id, text)
        texts.add(text or folded_words(row.query_id))
    return text_of_id, texts


def _nothing_in_common(first: ScoreTable, second: ScoreTable) -> str:
    """Return the text of an error about two tables, with the first questions of both."""
    parts = []
    for table in (first, second):
        questions = list(dict.fromkeys(row.query_id or row.question for row in table.rows))
        examples = [repr(abridged(printable(text), 40)) for text in questions[:_MAX_NAMED]]
        parts.append(f"{table.name} has {len(questions)} such as {', '.join(examples)}")
    return (
        f"{first.name} and {second.name} have no question in common, neither by id nor by text: "
        f"{'; '.join(parts)}; give each row the id or the text of its question"
    )


def with_the_same_measures(tables: Sequence[ScoreTable]) -> list[ScoreTable]:
    """Return the tables with one name per measure, so that its columns can be compared.

    Tools spell one measure differently, such as ndcg_cut_10 and nDCG@10, or overlap/value and overlap.
    All get the spelling of the first table that has the measure.
    """
    first_spelling: dict[str, str] = {}  # canonical name, the same for all spellings -> spelling
    for table in tables:
        for name in table.measures:
            first_spelling.setdefault(_canonical(name), name)
    renamed = []
    for table in tables:
        different = {_canonical(name) for name in table.measures}
        if len(different) < len(table.measures):  # renaming would merge two columns of this table
            renamed.append(table)
            continue
        rows = []
        for row in table.rows:
            scores = {}
            for name, value in row.scores.items():
                scores[first_spelling[_canonical(name)]] = value
            directions = {}
            for name, is_higher in row.directions.items():
                directions[first_spelling[_canonical(name)]] = is_higher
            rows.append(row._replace(scores=scores, directions=directions))
        renamed.append(replace(table, rows=tuple(rows)))
    return renamed


def _canonical(name: str) -> str:
    """Return ragbench's name of a measure; for an unknown measure its name without what a form of MLflow's
    tables adds.
    """
    measure = find_measure(name)
    return measure.name if measure else _VALUE.sub("", name)


def _pair_rows(tables: Sequence[ScoreTable], by: str, *, texts_differ: bool) -> PairedTables:
    """Return the scores of all tables by question.

    Each row gets the key of its question: the id, or the text as its first row spells it. Rows with the
    same key in one table are runs of the question, and their mean counts. If the words of rows with the
    same key differ, the question is noted as changed.

    Args:
        tables: a table per system.
        by: "id" or "text", by which questions are paired. A row without an id is paired by its text.
        texts_differ: the texts are prompts that differ by system, so they are left out.
    """
    rows_by_system = _keyed_rows_of(tables, by)
    texts, changed = _question_texts(chain.from_iterable(rows_by_system.values()))  # of all systems
    if texts_differ:  # the texts are prompts of a system, not questions to show
        texts = dict.fromkeys(texts, "")
        changed = set()
    values: dict[str, dict[str, dict[str, float]]] = {}  # system -> measure -> question -> mean
    max_runs: dict[str, int] = {}
    absent: dict[str, frozenset[str]] = {}
    for table in tables:
        keyed_rows = rows_by_system[table.name]
        runs_by_measure = _runs_by_measure(keyed_rows, table.measures)
        values[table.name] = {measure: _means(runs) for measure, runs in runs_by_measure.items()}
        max_runs[table.name] = max(_numbers_of_runs(runs_by_measure), default=0)
        absent[table.name] = frozenset(texts.keys() - {keyed.key for keyed in keyed_rows})
    return PairedTables(
        values=values,
        by=by,
        texts=texts,
        absent=absent,
        changed=frozenset(changed),
        runs=max_runs,
        texts_differ=texts_differ,
    )


class _KeyedRow(NamedTuple):
    """A row of a table with the key of its question: its id, or its text."""

    key: str
    row: Scored


def _keyed_rows_of(tables: Sequence[ScoreTable], by: str) -> dict[str, list[_KeyedRow]]:
    """Return system -> its rows with their keys. A row with neither id nor text is left out.

    If questions are paired "by" id and a row has one, the id is its key. Otherwise the key is its text,
    or its id if it has no text; texts with the same folded words, in any table, get the spelling of the
    first one.
    """
    first_spelling: dict[str, str] = {}  # folded words -> text
    rows_by_system: dict[str, list[_KeyedRow]] = {}
    for table in tables:
        keyed_rows = []
        for row in table.rows:
            text = row.question or row.query_id
            if by == "id" and row.query_id:
                keyed_rows.append(_KeyedRow(row.query_id, row))
            elif text:
                keyed_rows.append(
                    _KeyedRow(first_spelling.setdefault(folded_words(text), text), row)
                )
        rows_by_system[table.name] = keyed_rows
    return rows_by_system


def _question_texts(keyed_rows: Iterable[_KeyedRow]) -> tuple[dict[str, str], set[str]]:
    """Return key of a question -> the first text that a row has for it, "" if none has one; and the
    keys of the questions whose rows have texts with different words.
    """
    texts: dict[str, str] = {}
    changed: set[str] = set()
    for key, row in keyed_rows:
        first_words = folded_words(texts.get(key, ""))
        words = folded_words(row.question)
        if first_words and words and first_words != words:
            changed.add(key)
        texts[key] = texts.get(key) or row.question
    return texts, changed


def _runs_by_measure(
    keyed_rows: Iterable[_KeyedRow], measures: Iterable[str]
) -> dict[str, dict[str, list[float]]]:
    """Return measure -> question -> the values of the question's runs; a run is a row of the table."""
    runs: dict[str, dict[str, list[float]]] = {measure: {} for measure in measures}
    for key, row in keyed_rows:
        for measure, value in row.scores.items():
            runs[measure].setdefault(key, []).append(value)
    return runs


def _numbers_of_runs(runs_by_measure: Mapping[str, Mapping[str, Sequence[float]]]) -> list[int]:
    """Return the number of runs of each question, for all measures."""
    numbers: list[int] = []
    for runs in runs_by_measure.values():
        numbers += map(len, runs.values())
    return numbers


def _means(runs: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return question -> the mean of its runs, without runs and questions that have no value."""
    means = {}
    for question, values in runs.items():
        present = [value for value in values if not math.isnan(value)]
        if present:
            means[question] = math.fsum(present) / len(present)
    return means
