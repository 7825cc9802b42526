"""The tables of reference_answers.ipynb."""

from __future__ import annotations

import math

import pandas as pd

from ragbench import report
from ragbench.report import plots
from ragbench.types import Answer, Case, Chunk, Dataset

DATA = Dataset(
    "pets",
    "test",
    {},
    (
        Case("q1", "When do cats hunt?", reference_answer="At night."),
        Case("q2", "What do dogs do?"),
        Case("q3", "And birds?"),
    ),
    {},
)
SOURCES = {
    "q1": [Chunk("cats#0", "cats", 0, 18, "Cats hunt at night")],
    "q2": [Chunk("dogs#0", "dogs", 0, 10, "Dogs bark."), Chunk("dogs#1", "dogs", 10, 14, " 19 ")],
    "q3": [],
}
ANSWERS = [
    Answer("q1", "Cats hunt after dark.", outcome="success"),
    Answer("q2", "Dogs invented writing in 1900.", outcome="success"),
    Answer("q3", "", outcome="failed", error="time-out"),
]


def test_doubtful_answers_come_first_with_the_fraction_of_their_words() -> None:
    table = report.reference_table(DATA, ANSWERS, SOURCES)
    assert table.index.tolist() == ["q2", "q1", "q3"]
    assert table["in_sources"].head(2).tolist() == [0.25, 0.5], (
        "dogs of four words; cats, hunt of four"
    )
    assert math.isnan(table["in_sources"].iloc[2])
    assert table["answer"].iloc[2] == "time-out"
    assert table["sources"].tolist() == ["dogs", "cats", ""]
    figure = plots.words_in_sources(table)
    assert figure is not None
    assert len(figure.axes[0].get_yticks()) == 2
    assert plots.words_in_sources(table.tail(1)) is None


def test_findings_count_what_was_written_and_what_is_doubtful() -> None:
    found = report.reference_findings(report.reference_table(DATA, ANSWERS, SOURCES), "tiny")
    assert found[0] == "**2 of 3** reference answers were written by `tiny`."
    assert "1 without an answer: failed." in found
    assert any(line.startswith("In 1 answers, less than half") for line in found)


def test_sources_origins_and_trial() -> None:
    sources = report.source_table(DATA, SOURCES)
    assert [*sources.loc["q2"]] == ["What do dogs do?", 2, 14]
    assert report.origin_counts(DATA)["queries"].sum() == 3
    pairs = report.trial_pairs(DATA, ANSWERS[:1])
    assert pairs.iloc[0].tolist() == ["When do cats hunt?", "At night.", "Cats hunt after dark."]
    assert report.trial_pairs(DATA, []).empty
    assert isinstance(pairs, pd.DataFrame)
