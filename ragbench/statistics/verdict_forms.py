"""Published forms of verdicts: FaithBench, RAGChecker, SummEval and LLMJudge, each read by one function.

Each function returns one row, with the columns question, system, person and a column per judge. All
verdicts are from 0 (worst) to 1 (best); NaN for a missing one.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ragbench.datasets.jsonl import located
from ragbench.errors import ConfigError, DataError, abridged, printable
from ragbench.metrics.trec import read_qrels

Record = Mapping[str, Any]
Row = dict[str, Any]

FAITHBENCH_LABELS = {"Unwanted": 0.0, "Questionable": 0.0, "Benign": 1.0, "Consistent": 1.0}
"""Label of a span -> verdict, as FaithBench's authors make them binary. Sub-labels such as
`Unwanted.Intrinsic` count as the label before the dot.
"""
RAGCHECKER_LABELS = {"Entailment": 1.0, "Neutral": 0.0, "Contradiction": 0.0}
"""Label of a claim -> 1 if the text entails the claim."""
SUMMEVAL_SCALE = (1.0, 5.0)
"""The lowest and the highest score of an annotator."""
LLMJUDGE_SCALE = (0.0, 3.0)
"""The lowest and the highest grade of a passage."""


class Form(NamedTuple):
    """A form of records: the fields that all its records have, and the function that reads one."""

    name: str
    fields: tuple[str, ...]
    read: Callable[[Record, str], Row]


def row_of_faithbench(sample: Record, _criterion: str) -> Row:
    """Return the verdicts on a summary in FaithBench, which has no criteria: by people and by detectors.

    People decided whether the summary is consistent with its source. The scores of the detectors
    are the numbers in the sample's fields and metadata that are not ids.

    The verdict of an annotator is the worst of the annotator's labels. `person` is the mean of all
    annotators who labelled a span; 1 if the list of annotations is empty; NaN if no annotation has a
    label. The question is a digest of the source, so that summaries of one source by several systems are
    paired.
    """
    verdicts_by_annotator: dict[str, list[float]] = {}
    for annotation in _objects_in(sample, "annotations"):
        if verdicts := _verdicts_of_annotation(annotation):
            verdicts_by_annotator.setdefault(_annotator_of(annotation), []).extend(verdicts)
    person = _mean([min(verdicts) for verdicts in verdicts_by_annotator.values()])
    if sample["annotations"] == []:  # the annotators found nothing wrong
        person = 1.0
    # the fields of the sample, and the fields of the objects in it, such as its metadata
    fields = dict(sample)
    for part in sample.values():
        if isinstance(part, Mapping):
            fields.update(part)
    return {
        **_detectors(fields),
        "question": hashlib.sha256(str(sample["source"]).encode()).hexdigest()[:12],
        "system": _system_in(fields),
        "person": person,
    }


def _annotator_of(annotation: Record) -> str:
    """Return the annotator of an annotation in FaithBench; "" if it names none."""
    for name in ("annotator_id", "annotator", "annotator_name"):
        if name in annotation:
            return str(annotation[name])
    return ""


def _verdicts_of_annotation(annotation: Record) -> list[float]:
    """Return the verdict of each label of an annotation in FaithBench; [] for a note without a label."""
    labels = annotation.get("label")
    if not labels:
        return []
    if isinstance(labels, str):
        labels = [labels]
    if not isinstance(labels, list):
        raise DataError(f"label is {type(labels).__name__}; expected a list of labels")
    without_sub_labels = [str(label).partition(".")[0] for label in labels]
    return [_verdict_of_label(label, FAITHBENCH_LABELS) for label in without_sub_labels]


def _detectors(fields: Record) -> Row:
    """Return detector -> its score: the fields with a number, except ids. `meta_` before a name is
    left out.

    Raises:
        DataError: a score is not from 0 to 1.
    """
    scores: Row = {}
    for name, value in fields.items():
        is_id = name == "id" or name.endswith(("_id", "Id"))
        if is_id or not isinstance(value, int | float):
            continue
        is_missing = isinstance(value, float) and math.isnan(value)
        if not is_missing and not 0 <= value <= 1:
            raise DataError(f"{name} is {value!r}; expected a detector's score from 0 to 1")
        scores[name.removeprefix("meta_")] = float(value)
    return scores


def row_of_ragchecker(result: Record, _criterion: str) -> Row:
    """Return the verdicts of RAGChecker's model, which has no criteria, on a response; `person` is NaN,
    since no person judged it.

    `precision` is the fraction of the response's claims that the reference answer entails, `recall` the
    fraction of the reference's claims that the response entails, and `faithfulness` the fraction of the
    response's claims that at least one context entails. A verdict is NaN without claims, and left out
    if the result lacks its labels.
    """
    row: Row = {
        "question": _id_in(result, "query_id"),
        "system": _system_in(result),
        "person": math.nan,
    }
    # RAGChecker's fields hold a label for each claim, such as "Entailment", or a list with a label for
    # each context
    for judge, field in (
        ("precision", "answer2response"),
        ("recall", "response2answer"),
        ("faithfulness", "retrieved2response"),
    ):
        labels = result.get(field)
        if labels is None:
            continue
        if not isinstance(labels, list):
            raise DataError(f"{field} is {type(labels).__name__}; expected a list of labels")
        row[judge] = _mean([_entailed_by_any(label) for label in labels])
    return row


def row_of_summeval(record: Record, criterion: str) -> Row:
    """Return the verdicts on a summary in SummEval by a criterion ("" for consistency).

    `person` is the mean score of the experts, and `turker` the mean score of the crowd. If no expert scored the
    summary, `person` is the mean score of the crowd, and there is no `turker`. Other fields with scores
    by the criterion are judges.

    Raises:
        DataError: no person has a score by the criterion.
    """
    criterion = criterion or "consistency"
    means = _mean_scores_by_group(record, criterion)
    if "expert" not in means and "turker" not in means:
        annotations = [
            *_objects_in(record, "expert_annotations"),
            *_objects_in(record, "turker_annotations"),
        ]
        known = dict.fromkeys(str(name) for annotation in annotations for name in annotation)
        raise DataError(f"no person's score of {criterion!r}; the scores are {_listed(known)}")
    person = means.pop("expert" if "expert" in means else "turker")
    return {
        **means,
        "question": _id_in(record, "id"),
        "system": _system_in(record),
        "person": person,
    }


def _mean_scores_by_group(record: Record, criterion: str) -> Row:
    """Return group of annotators (or judge) -> its mean score by the criterion.

    A group is a field of a SummEval record, such as `expert_annotations`, that holds an object
    criterion -> score, or a list of them.
    """
    means: Row = {}
    for name, value in record.items():
        annotations = value if isinstance(value, list) else [value]
        if not all(isinstance(annotation, Mapping) for annotation in annotations):
            continue
        scores = [annotation.get(criterion) for annotation in annotations]
        scaled = [_scaled(score, SUMMEVAL_SCALE) for score in scores if score is not None]
        if scaled:
            means[str(name).removesuffix("_annotations")] = _mean(scaled)
    return means


FORMS = (
    Form("FaithBench", ("source", "summary", "annotations"), row_of_faithbench),
    Form("RAGChecker", ("query_id", "retrieved2response"), row_of_ragchecker),
    Form("RAGChecker", ("query_id", "answer2response"), row_of_ragchecker),
    Form("SummEval", ("id", "model_id", "expert_annotations"), row_of_summeval),
    Form("SummEval", ("id", "model_id", "turker_annotations"), row_of_summeval),
)
"""The forms of JSON files, the first that fits is used; each record has all fields of its form."""


def rows_of_json(value: Any, source: str, criterion: str) -> list[Row]:
    """Return a row per record in the value of a JSON file, or in the values of JSON Lines.

    Raises:
        DataError: the value has none of the known forms (the message lists its fields), or a record
            cannot be read (the message has its number).
        ConfigError: a criterion is given, but the file has a form without criteria.
    """
    records = _record_list(value)
    form = _form_of(records, source)
    if criterion and form.read is not row_of_summeval:
        raise ConfigError(
            f"{source} has the form of {form.name}, which has no criteria; leave out "
            f"criterion={criterion!r}"
        )
    rows = []
    for number, record in enumerate(records, 1):
        where = f"{source}, record {number} ({form.name})"
        if not isinstance(record, Mapping):
            raise DataError(f"{where} is {type(record).__name__}; expected an object")
        missing = [name for name in form.fields if name not in record]
        if missing:
            raise DataError(f"{where} has no {_listed(missing)}; its fields are {_listed(record)}")
        with located(where):
            rows.append(form.read(record, criterion))
    return rows


def _record_list(value: Any) -> list[Any]:
    """Return the records in the value of a JSON file: a list; an object that has them in the field
    `samples` (FaithBench) or `results` (RAGChecker); or one record. [] for another value.
    """
    if isinstance(value, list):
        return value
    if not isinstance(value, Mapping):
        return []
    for name in ("samples", "results"):
        if isinstance(value.get(name), list):
            records: list[Any] = value[name]
            return records
    return [value]


def _form_of(records: list[Any], source: str) -> Form:
    """Return the first form whose fields are all in the first record; `source` names the file in the
    message of the DataError if there is none.
    """
    first = records[0] if records else None
    fields = first.keys() if isinstance(first, Mapping) else ()
    for form in FORMS:
        if {*form.fields} <= {*fields}:
            return form
    expected = "; ".join(f"{form.name}: {', '.join(form.fields)}" for form in FORMS)
    raise DataError(
        f"{source} has no known form of verdicts; the fields found are {_listed(fields)}, expected "
        f"are the fields of {expected}"
    )


def is_qrels(text: str) -> bool:
    """Return True if the first line of a text is one of TREC's qrels: query, 0, passage, and a grade,
    which may be missing.

    >>> is_qrels("q1 0 p7 3"), is_qrels("question,system,person,judge")
    (True, False)
    """
    parts = text.lstrip().partition("\n")[0].split()
    return len(parts) in (3, 4) and parts[1] in ("0", "Q0")


def rows_of_qrels(people: Path, judges: Mapping[str, str | Path]) -> list[Row]:
    """Return a row per query and passage with the grades of people and of judges, from LLMJudge's files.

    The passage is in the column `system`. `person` is NaN for a passage that people did not grade; a
    judge that did not grade a passage has no entry in its row.

    Args:
        people: the file with people's grades.
        judges: name of a judge -> the file with its grades.

    Raises:
        DataError: a file is not of this form, a grade is out of range, or a judge graded none of
            people's passages.
    """
    by_passage: dict[tuple[str, str], Row] = {}
    for name, path in {"person": people, **judges}.items():
        n_shared = 0  # passages that people graded, too
        # "person" comes first, so that the rows of people's passages exist when judges are read
        for query, grades in _read_grades(Path(path)).items():
            for passage, grade in grades.items():
                new: Row = {"question": query, "system": passage, "person": math.nan}
                row = by_passage.setdefault((query, passage), new)
                with located(f"{path}, passage {passage!r} of {query!r}"):
                    row[name] = _scaled(grade, LLMJUDGE_SCALE)
                if not math.isnan(row["person"]):
                    n_shared += 1
        if not n_shared:
            raise DataError(f"{path} has no grade of a passage that is in {people}")
    return [*by_passage.values()]


def _read_grades(path: Path) -> Mapping[str, Mapping[str, int]]:
    """Read a file of TREC's qrels: query -> passage -> grade.

    Raises:
        DataError: the file cannot be read, or does not begin with four fields.
    """
    try:
        first = path.read_text(encoding="utf-8-sig").lstrip().partition("\n")[0]
    except (OSError, ValueError) as exc:
        raise DataError(f"{path} cannot be read as TREC's qrels: {exc}") from exc
    if not is_qrels(first) or len(first.split()) != 4:
        raise DataError(
            f"{path} begins with {abridged(printable(first), 80)!r}; expected four fields in each line: "
            "query, 0, passage, grade"
        )
    with located(str(path)):
        return read_qrels(path)


def _objects_in(record: Record, name: str) -> list[Record]:
    """Return the list of objects in a field, [] if it is missing."""
    value = record.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise DataError(f"{name} is no list of objects")
    return value


def _id_in(record: Record, name: str) -> str:
    """Return the id in a field, a text or a whole number, as a text; else raise DataError."""
    value = record[name]
    if not isinstance(value, str | int):
        raise DataError(f"{name} is {value!r}; expected a text or a whole number")
    return str(value)


def _system_in(record: Record) -> str:
    """Return the name of the system, "" where the record has none."""
    for name in ("system", "model_id", "summarizer", "model", "meta_model"):
        if isinstance(record.get(name), str | int):
            return str(record[name])
    return ""


def _verdict_of_label(label: str, verdicts: Mapping[str, float]) -> float:
    """Return the verdict of a label; DataError if `verdicts` (label -> verdict) has none."""
    if label not in verdicts:
        raise DataError(
            f"the label is {abridged(printable(label), 40)!r}; expected one of {_listed(verdicts)}"
        )
    return verdicts[label]


def _entailed_by_any(label: Any) -> float:
    """Return 1 if a text entails a claim (or one of several texts, each with a label in a list), else 0."""
    labels = label if isinstance(label, list) else [label]
    return max(
        (_verdict_of_label(str(text_label), RAGCHECKER_LABELS) for text_label in labels),
        default=0.0,
    )


def _scaled(score: Any, scale: tuple[float, float]) -> float:
    """Return a score on a scale as a number from 0 to 1."""
    low, high = scale
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    if not is_number or not low <= score <= high:
        raise DataError(f"the score is {score!r}; expected a number from {low:g} to {high:g}")
    return float((score - low) / (high - low))


def _mean(values: Sequence[float]) -> float:
    """Return the mean; NaN without values."""
    return math.fsum(values) / len(values) if values else math.nan


def _listed(names: Any) -> str:
    """Return the first 20 names, as a message has them."""
    texts = [repr(abridged(printable(str(name)), 40)) for name in [*names][:20]]
    return ", ".join(texts) or "none"
