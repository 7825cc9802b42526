"""The explorer of questions, as a widget in JupyterLab and as one HTML file: which results and
questions it shows, what differs between their data, and its test set of selected questions.

Both run the same script and style (`explorer.js`, `explorer.css`) on the same data. Statistics are
computed here by `Results.compare` and `summarise`; the script only counts the shown questions.
"""

from __future__ import annotations

import html
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ragbench.datasets.jsonl import json_line
from ragbench.errors import ConfigError, DataError, visible
from ragbench.evaluation import CAUSES, Result, Results
from ragbench.evaluation.configurations import (
    baseline_name,
    check_shared_questions,
    configurations,
    questions_of_all,
)
from ragbench.evaluation.data_changes import data_changes
from ragbench.files import write_durably
from ragbench.hints.attributes import suggesting
from ragbench.report.explorer.contents import (
    Texts,
    answers_to_show,
    conclusion_of,
    doubtful_claims_of,
    measures_of,
    scores_of,
)
from ragbench.report.page import check_output
from ragbench.report.page.html_report import script_hash
from ragbench.report.source_documents import data_of
from ragbench.testsets.cases import case_line, entry_of_case
from ragbench.types import Dataset

if TYPE_CHECKING:
    from ragbench.report.explorer.explorer_widget import ExplorerWidget


def explore(
    results: Result | Sequence[Result],
    baseline: str | Result = "",
    contender: str | Result = "",
    *,
    measure: str = "",
    dataset: Dataset | None = None,
) -> Explorer:
    """Show every question of one result, or of two side by side. The last line of a cell shows the
    explorer.

    Answers are masked as in every report; documents are shown as they are, so share the file only
    with people who may read them.

    Args:
        results: one result; or several, as from `load_results`, of which two are shown. Of results on
            different data, only the questions that both have are shown.
        baseline: the first (A), a name or a result; "" is the baseline of `Results.compare`.
        contender: the second (B), a name or a result; "" is the best of the others by `measure`.
            `explore(a, b)` shows the result a as A and b as B.
        measure: the measure by which the two are compared first; "" is the one that ranks the
            leaderboard.
        dataset: the questions with their labels, and the documents. None loads the dataset that a
            shown result names, if it is here and its fingerprint is the same. If not, the explorer
            shows a note in place of the texts of chunks and the gold evidence. If the second result
            searched other versions of some documents, the texts of its chunks in them are missing too.

    >>> explorer = explore(load_results("results/quickstart"))  # doctest: +SKIP
    >>> explorer.write("explore.html")  # doctest: +SKIP
    >>> explorer.test_set()  # the questions that are selected in the widget  # doctest: +SKIP

    Raises:
        ConfigError: an unknown name or measure.
        ComparisonError: the results have no question in common.
        DataError: no question is scored.
    """
    if isinstance(results, Result) and isinstance(baseline, Result) and not contender:
        baseline, contender = results, baseline
    compared = _results_to_compare(results, baseline, contender)
    baseline, contender = _name_of(baseline), _name_of(contender)
    check_shared_questions(compared)
    main = compared.deciding(measure).measure
    sides = _choose_sides(compared, baseline, contender, main)
    conclusion = []
    if len(sides) == 2:
        # a pair that the user chose of several is concluded by itself
        decided = sides if contender else compared
        conclusion = conclusion_of(decided, sides[0].name, measure)
    shown = _shown_data(sides, dataset)
    return Explorer(_content(compared, sides, shown, main, conclusion), shown.dataset)


def _content(
    compared: Results, sides: Results, shown: _ShownData, main: str, conclusion: list[str]
) -> dict[str, Any]:
    """Return the data of the page, which its script reads as JSON.

    Args:
        compared: all results; p-values of the `main` measure are adjusted for all of them.
        sides: the one or two results that are shown.
        shown: the data set that is shown, notes for the reader on its differences from the data of the
            results, and the result of `sides` that was measured on it.
        conclusion: sentences.
    """
    data, notes, source = shown
    shared = questions_of_all(sides)
    query_ids = [query_id for query_id in source.queries if query_id in shared]
    texts = Texts(data)
    label_of = configurations(compared).set_index("name")["label"]
    described_sides = []
    answers_of_sides = []
    for result in sides:
        doubtful = doubtful_claims_of(result)  # None: no claims were checked
        described_sides.append(
            {"name": result.name, "label": label_of[result.name], "checked": doubtful is not None}
        )
        changed = _changed_documents(result, source, data.corpus)
        answers_of_sides.append(answers_to_show(result, texts, doubtful or {}, changed))
    questions = _questions(source, query_ids, data, texts, answers_of_sides)
    return {
        "sides": described_sides,
        "conclusion": conclusion,
        "measures": measures_of(compared, sides, main),
        "scores": scores_of(sides, query_ids),
        "questions": questions,
        "documents": texts.pieces(),  # all that questions and answers have added to `texts`
        "causes": CAUSES,
        "head": _first_line_of_test_set(data),
        "notes": notes,
    }


def _first_line_of_test_set(data: Dataset) -> str:
    """Return the first line of the file of selected questions that the page offers for download."""
    head = {"testset": f"{data.name} selection", "split": data.split}
    if data.name == "pydoc" and data.corpus:
        head["corpus"] = "pydoc"  # the only one whose documents are found from any folder
    return json_line(head)


def _choose_sides(compared: Results, baseline: str, contender: str, measure: str) -> Results:
    """Return the results that are shown: A, the baseline, and B, the contender. A single result is
    shown alone.

    Args:
        contender: a name; "" takes the best of the others by `measure`.

    Raises:
        ConfigError: both sides are the same result, or a name is unknown.
    """
    first = baseline_name(compared, baseline)
    if contender == first:
        raise ConfigError(f"{first!r} is both sides; name another result to compare it with")
    if len(compared) == 1 and not contender:
        return compared
    if not contender:
        names = compared.leaderboard(measure)["name"]
        contender = names[names != first].iloc[0]
    return Results([compared[first], compared[contender]])


class _ShownData(NamedTuple):
    """The questions and documents that an explorer shows."""

    dataset: Dataset
    notes: list[str]
    """For the reader: what is missing or different."""
    source: Result
    """The result that was measured on this dataset."""


def _shown_data(sides: Results, dataset: Dataset | None) -> _ShownData:
    """Return the questions and documents to show, and the result that was measured on them.

    A `dataset` of the user is shown. Without one (None), the data of the first side is loaded, or
    the data of the second side if documents are missing for the first only. If the sides have
    different data, the first note states how they differ.
    """
    source = sides[0]
    if dataset is not None:
        # the first side if neither was measured on it
        source = next((side for side in sides if side.is_of(dataset)), source)
    shown = _ShownData(*data_of(source, dataset), source)
    changes = _data_changes_between(sides)  # in words; "" if both have the same data
    if not changes:
        return shown
    # the notes on data that was loaded are about missing documents
    are_documents_missing = dataset is None and bool(shown.notes)
    if are_documents_missing:  # the second side has other data, which may be complete
        second = sides[1]
        data_of_second = _ShownData(*data_of(second, None), second)
        if not data_of_second.notes:
            shown = data_of_second
    note = f"A and B have different data ({changes}): shown is what both were asked."
    return shown._replace(notes=[note, *shown.notes])


def _data_changes_between(sides: Results) -> str:
    """Return in words how the data of the second side differ from the data of the first; "" if they do not
    differ, or there is one side.
    """
    if len(sides) < 2:
        return ""
    first, second = sides
    if first.dataset["fingerprint"] == second.dataset["fingerprint"]:
        return ""
    return data_changes(first.config, second.config) or "which changes is not known"


def _changed_documents(
    result: Result, source: Result, shown_ids: Collection[str]
) -> Collection[str]:
    """Return the ids of the shown documents whose text differs from the text that `result` searched.

    If one of the results keeps no digests of single documents, it is unknown which texts differ, and
    all ids are returned.

    Args:
        result: a result that is shown; it may have searched other versions of the documents.
        source: the result whose versions of the documents are shown.
        shown_ids: the ids of the documents that are shown.
    """
    # "corpus": the digest of all documents together, which every result has
    if result.dataset.get("corpus") == source.dataset.get("corpus"):
        return ()
    searched_digests = result.config.get("document_digests")
    shown_digests = source.config.get("document_digests")
    if searched_digests is None or shown_digests is None:
        return frozenset(shown_ids)
    return frozenset(
        doc_id for doc_id in shown_ids if searched_digests.get(doc_id) != shown_digests.get(doc_id)
    )


def _questions(
    source: Result,
    query_ids: Sequence[str],
    data: Dataset,
    texts: Texts,
    answers_of_sides: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Return the data of the page about each question: its text, its labels, and the answer of each side.

    Args:
        source: the result that was measured on `data`.
        texts: the texts that the page shows; texts of the evidence are added.
        answers_of_sides: for each side query_id -> fields of its answer; {} is shown without one.
    """
    case_of = data.case_of
    category_of = {case.query_id: case.category for case in source.cases}
    questions = []
    for query_id in query_ids:
        case = case_of[query_id]
        questions.append(
            {
                "id": query_id,
                "text": source.queries[query_id],
                "category": case.category or category_of.get(query_id, ""),
                "reference": case.reference_answer or "",
                # the line of the question in the file that the page offers for download
                "case": json_line(case_line(entry_of_case(data, case))),
                "evidence": [
                    texts.place(span.doc_id, span.start, span.end) for span in case.evidence
                ],
                "sides": [answers.get(query_id, {}) for answers in answers_of_sides],
            }
        )
    return questions


def _results_to_compare(
    results: Result | Sequence[Result], baseline: str | Result, contender: str | Result
) -> Results:
    """Return all results that were given to `explore`: `results`, and those of `baseline` and
    `contender` that are results and not names, each once.

    Raises:
        ConfigError: a side is neither a name nor a result, or each of the three arguments is a
            single result.
    """
    is_single = isinstance(results, Result)
    compared = [results] if isinstance(results, Result) else list(results)
    for side in (baseline, contender):
        if isinstance(side, Result):
            is_new = not any(side is result for result in compared)
            if is_new:
                compared.append(side)
        elif not isinstance(side, str):
            raise ConfigError(
                f"a side is a {type(side).__name__}; expected the name of a result, or a result"
            )
    if is_single and len(compared) == 3:
        names = ", ".join(result.name for result in compared)
        raise ConfigError(
            f"an explorer shows two results, not {names}; write explore(a, b), or "
            "explore([a, b, c], b, c) to choose two of several"
        )
    if not isinstance(results, Results):
        return Results(compared)
    return Results(compared, baseline=results.baseline, race=results.race)


def _name_of(side: str | Result) -> str:
    return side.name if isinstance(side, Result) else side


@suggesting()
@dataclass(frozen=True, eq=False)
class Explorer:
    """The questions of one or two results: a widget in JupyterLab, one HTML file by `write`.
    `dataset` holds the questions.
    """

    data: Mapping[str, Any]
    dataset: Dataset

    @property
    def conclusion(self) -> str:
        """Return in words the conclusion about the two results and their difference, or about the single
        result.
        """
        return " ".join([*self.data["conclusion"], self.data["measures"][0]["conclusion"]])

    @cached_property
    def widget(self) -> ExplorerWidget:
        """Return the widget, as JupyterLab shows it."""
        from ragbench.report.explorer.explorer_widget import ExplorerWidget

        return ExplorerWidget(data=json.dumps(self.data))

    @property
    def selected(self) -> tuple[str, ...]:
        """Return the ids of the questions that are selected in the widget, in the order of the
        questions.
        """
        chosen = set(self.widget.selected)
        return tuple(
            question["id"] for question in self.data["questions"] if question["id"] in chosen
        )

    def test_set(self) -> Dataset:
        """Return the selected questions as a dataset, for `evaluate` or `save_testset`.

        Raises:
            DataError: none is selected.
        """
        if not self.selected:
            raise DataError("no question is selected; tick some in the explorer first")
        return self.dataset.select(self.selected)

    def html(self) -> str:
        """Return the explorer as one HTML page that needs no network. Its content security policy
        allows no script and no style but its own.
        """
        script = _asset("explorer.js") + "\nstart(document);\n"
        style = _asset("explorer.css")
        # Without "<", no text of a question can end the <script> element that holds the data.
        data = json.dumps(self.data, separators=(",", ":")).replace("<", "\\u003c")
        policy = (
            f"default-src 'none'; script-src {script_hash(script)}; "
            f"style-src {script_hash(style)}; base-uri 'none'; form-action 'none'; "
            "require-trusted-types-for 'script'; trusted-types 'none'"
        )
        title = " against ".join(side["label"] for side in reversed(self.data["sides"]))
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="generator" '
            f'content="ragbench">\n<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            f'<meta name="viewport" content="width=device-width, '
            f'initial-scale=1"><title>{_escaped(title)}</title>\n<style>{style}</style></head>\n'
            '<body><main id="explorer" class="rb-explorer rb-page"></main>\n'
            f"<noscript>{_escaped(self.conclusion)} The questions are shown by a "
            "script.</noscript>\n"
            f'<script type="application/json" id="data">{data}</script>\n<script '
            f'type="module">{script}</script>\n'
            "</body></html>\n"
        )

    def write(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the HTML file, replacing an older one only with `force`.

        Raises:
            ConfigError: the name does not end in .html, the place is taken, or it cannot be
                written.
        """
        file = Path(path)
        if file.suffix.lower() != ".html":
            raise ConfigError(f"{file} is not the name of a page; end it in .html")
        check_output(file, force=force)
        write_durably(file, self.html())
        return file

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = self.widget._repr_mimebundle_(**options)
        if not bundle:
            return bundle
        data, metadata = bundle
        # the text is for places that show no widget
        return {**data, "text/plain": self.conclusion}, metadata


def _escaped(text: str) -> str:
    return html.escape(str(visible(text)))


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
