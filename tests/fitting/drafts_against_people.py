"""Measure how well questions that were drafted without a model choose between configurations.

    python -m tests.fitting.drafts_against_people                # every collection, about 20 CPU minutes
    python -m tests.fitting.drafts_against_people pydoc squad    # some of them

36 configurations (three retrievers, three chunkers, four chunk sizes) are ranked by the mean of
span_recall@500tok, once by people's questions and once by 100 drafts of each kind. Printed for each
collection and kind: Kendall's tau-b between the two rankings, and the regret, which is how much the
configuration that the drafts choose loses to the best one, by people's questions. "paragraph" are
the questions of "sentence" with the whole paragraph as evidence. A regret next to "any" is that of
a configuration drawn at random.

The collections are PyDoc and folders of ../shared/data; the questions of `chunking` were written by
a model. What was seen in November 2026 (tau over all 36, then regret):

                    heading       sentence      paragraph     any
    pydoc           .24   .035    -.16  .150    -.14  .137    .094
    clapnq          no headings   -.01  .068     .75  .030    .093
    squad           no headings    .64  .005     .46  .000    .022
    squad articles  no headings    .69  .009     .02  .019    .056
    chunking        no headings    .65  .016     .44  .084    .124

Headings choose better than sentences where there are any. Evidence that is as long as the evidence
of people's questions chooses better (CLAP NQ has paragraphs, SQuAD a few words), and nobody knows
that length before people have written questions. So drafts never decide between retrievers or
chunkings.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
from scipy.stats import kendalltau

import ragbench as rb
from ragbench.errors import DataError, DataWarning
from ragbench.metrics import score_spans
from ragbench.testsets.known_items import KINDS, draft_known_items
from ragbench.types import Case, Dataset, Span

DATA = Path(__file__).parents[3] / "shared" / "data"
COLLECTIONS = ("pydoc", "clapnq", "squad", "squad-articles", "chunking")
RETRIEVERS = ("bm25", "dense:wordllama", "hybrid:wordllama")
CHUNKERS = ("fixed", "recursive", "sentence")
SIZES = (64, 128, 256, 512)
MEASURE = "span_recall@500tok"
N_DRAFTS = 100
N_PEOPLE = 300


def people(name: str) -> Dataset:
    """Return a collection with those questions of people that have gold evidence."""
    if name == "pydoc":
        data = rb.load_dataset("pydoc")
    elif name == "squad-articles":
        data = joined(rb.load_dataset(str(DATA / "squad"))).sample(N_PEOPLE)
    elif name == "squad":
        data = rb.load_dataset(str(DATA / "squad")).sample(N_PEOPLE)
    else:
        data = rb.load_dataset(str(DATA / name))
    return data.select([case.query_id for case in data.cases if case.evidence])


def joined(data: Dataset) -> Dataset:
    """Return the data with all documents of one title as one document."""
    texts: dict[str, str] = {}
    shifts = {}
    for document in data.corpus.values():
        before = texts.get(document.title, document.title)
        begin = document.full_text.index(document.text)
        shifts[document.doc_id] = document.title, len(before) + 2 - begin
        texts[document.title] = f"{before}\n\n{document.text}"
    cases = {}
    for case in data.cases:
        moved = []
        for span in case.evidence:
            title, shift = shifts[span.doc_id]
            moved.append(Span(title, span.start + shift, span.end + shift))
        cases[case.query_id] = replace(case, evidence=tuple(moved))
    return rb.Dataset.from_dicts(texts, cases)


def drafts(data: Dataset) -> Iterator[tuple[str, Dataset]]:
    """Yield the name of each kind of draft that the documents allow, and its questions."""
    for kind in KINDS:
        try:
            drafted = draft_known_items(data, N_DRAFTS, kinds=[kind])
        except DataError:  # no headings
            continue
        yield kind, drafted
        if kind == "sentence":
            cases = tuple(with_paragraph(case, data) for case in drafted.cases)
            yield "paragraph", replace(drafted, cases=cases)


def with_paragraph(case: Case, data: Dataset) -> Case:
    """Return a draft whose evidence is the whole paragraph around its sentence."""
    [span] = case.evidence
    text = data.corpus[span.doc_id].full_text
    start = text.rfind("\n\n", 0, span.start)
    start = 0 if start < 0 else start + len("\n\n")
    end = text.find("\n\n", span.end)
    end = len(text) if end < 0 else end
    return replace(case, evidence=(Span(span.doc_id, start, end),))


def values_of(data: Dataset, sets: dict[str, Dataset]) -> pd.DataFrame:
    """Return the mean of the measure: configurations down, sets of questions across."""
    rows = {}
    for chunker, size in itertools.product(CHUNKERS, SIZES):
        chunks = rb.chunk(data, chunker, chunk_size=size)
        for retriever in RETRIEVERS:
            index = rb.make_retriever(retriever, chunks)
            means = {}
            for name, questions in sets.items():
                run = index.search(questions.queries, 100)
                scores = score_spans(questions, run, chunks, ks=[5], budgets=[500])
                means[name] = scores.loc[scores["measure"] == MEASURE, "value"].mean()
            rows[retriever, chunker, size] = means
    return pd.DataFrame.from_dict(rows, orient="index")


def main() -> None:
    """Print tau and regret of each kind of draft on each collection."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("collections", nargs="*", default=COLLECTIONS, metavar="collection")
    warnings.simplefilter("ignore", DataWarning)
    for name in parser.parse_args().collections:
        data = people(name)
        values = values_of(data, {"people": data, **dict(drafts(data))})
        best = values["people"].max()
        print(f"{name}: regret of any {best - values['people'].mean():.3f}")
        for kind in values.columns.drop("people"):
            tau = kendalltau(values[kind], values["people"]).statistic
            chosen = values.loc[values[kind] == values[kind].max(), "people"].mean()
            print(f"  {kind}: tau {tau:.2f}, regret {best - chosen:.3f}")


if __name__ == "__main__":
    main()
