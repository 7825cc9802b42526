"""A run into its folder, as a whole or not at all; the same numbers give the same bytes."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ragbench.errors import ConfigError, unknown
from ragbench.experiment.configuration import configuration
from ragbench.files import swap_in, write_durably
from ragbench.llms import active_dry_run
from ragbench.metrics.retrieval import ranking
from ragbench.report.environment import environment
from ragbench.types import Answer, Dataset, Judgement, Run

if TYPE_CHECKING:
    import pandas as pd

FILES = ("config.json", "run.trec", "answers.jsonl", "judgements.jsonl", "scores.csv", "timings.json")
"""The files of a result folder."""

DIAGNOSIS = "diagnosis.jsonl"
"""One more, where failures were diagnosed: a line per failed question."""

ASIDE = ".running-"
"""What is being written stands under a name that begins like this, and is never taken for a result."""


class Timings:
    """Seconds per stage, measured with a monotonic clock; a stage that is entered again adds up.

    >>> timings = Timings()
    >>> with timings("index"):
    ...     _ = sum(range(10))
    >>> list(timings.seconds), timings.seconds["index"] >= 0
    (['index'], True)
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start

    def ms_per_query(self, stage: str, n_queries: int) -> float:
        """Milliseconds that `stage` took per query.

        >>> timings = Timings()
        >>> timings.seconds["search"] = 0.3
        >>> timings.ms_per_query("search", 60)
        5.0
        """
        if stage not in self.seconds:
            raise ConfigError(unknown("stage", stage, self.seconds))
        if n_queries < 1:
            raise ConfigError(f"n_queries is {n_queries}; expected 1 or more")
        return round(1000 * self.seconds[stage] / n_queries, 6)


def save_run(
    folder: str | Path,
    *,
    parameters: Mapping[str, Any],
    dataset: Dataset,
    run: Run,
    scores: pd.DataFrame,
    answers: Sequence[Answer] = (),
    judgements: Sequence[Judgement] = (),
    timings: Timings | Mapping[str, float] | None = None,
    facts: Mapping[str, Any] | None = None,
    diagnosis: pd.DataFrame | None = None,
) -> Path | None:
    """Write everything that a run produced into one folder; an older result there is replaced as a whole.

    Args:
        folder: where; "" means "keep nothing", and nothing is done; nor is it in a dry run, which has stand-ins only.
        parameters: every parameter of the run.
        dataset: what it was measured on; its name, split, fingerprint and questions are kept.
        run: document-level ranking.
        scores: query_id, measure, value, one row per pair; NaN = unscored.
        answers: what was answered.
        judgements: what was judged.
        timings: seconds per stage.
        facts: further plain numbers about the run, such as {"chunks": 431}.
        diagnosis: as from `ragbench.diagnosis.diagnose`; its failed questions are kept.

    Returns:
        The folder, or None when nothing was kept.

    Raises:
        ConfigError: if scores or parameters are not what they should be, or `folder` holds other files.
    """
    if str(folder) == "" or active_dry_run():
        return None
    folder = Path(folder).absolute()
    counts = {
        "run": sum(map(len, run.values())), "scores": len(scores), "answers": len(answers),
        "judgements": len(judgements),
    }  # fmt: skip
    if diagnosis is not None:
        counts["diagnosis"] = int(diagnosis["failed"].sum())
    config = {
        "parameters": configuration(parameters),
        "dataset": {
            # A folder is known by its last part: where it stands on this machine is nobody's business.
            "name": Path(dataset.name).name if Path(dataset.name).is_absolute() else dataset.name,
            "split": dataset.split,
            "fingerprint": dataset.fingerprint,
        },
        "facts": _shortened(facts or {}),
        "environment": environment(),
        "counts": counts,
        "found_nothing": sorted(query_id for query_id, found in run.items() if not found),
        "questions": dataset.queries,
    }  # fmt: skip
    seconds = timings.seconds if isinstance(timings, Timings) else dict(timings or {})
    texts = {
        "config.json": _json(config),
        "run.trec": run_to_trec(run),
        "answers.jsonl": _json_lines(answers),
        "judgements.jsonl": _json_lines(judgements),
        "scores.csv": scores_to_csv(scores),
        "timings.json": _json({"seconds": _shortened(seconds)}),
    }
    if diagnosis is not None:
        texts[DIAGNOSIS] = _diagnosis_lines(diagnosis)
    _check_replaceable(folder)
    aside = folder.parent / f"{ASIDE}{folder.name}-{os.getpid()}"
    try:
        (aside / "new").mkdir(parents=True)
        for name, text in texts.items():
            write_durably(aside / "new" / name, text)
        swap_in(aside / "new", folder, aside / "old")
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return folder


def _check_replaceable(folder: Path) -> None:
    if not folder.exists():
        return
    others = (
        sorted(path.name for path in folder.iterdir() if path.name not in (*FILES, DIAGNOSIS))
        if folder.is_dir()
        else ["a file"]
    )
    if others:
        raise ConfigError(
            f"{folder} is not a result folder (it holds {', '.join(others[:3])}); "
            "results_dir is replaced as a whole, so name a new or empty folder"
        )


def run_to_trec(run: Run) -> str:
    """The run in TREC's six columns: query, Q0, document, rank from 1, score, tag.

    Ranked as trec_eval ranks: by score, equal scores by document id from the last to the first. Scores keep all
    their digits. White space and % in ids are written as in URLs, because white space separates the columns.

    >>> print(run_to_trec({"q1": {"a b": 1.5, "c": 2.0}}), end="")
    q1 Q0 c 1 2.0 ragbench
    q1 Q0 a%20b 2 1.5 ragbench
    """
    lines = []
    for query_id in sorted(run):
        for rank, doc_id in enumerate(ranking(run[query_id]), 1):
            score = run[query_id][doc_id]
            if not math.isfinite(score):
                raise ConfigError(f"query {query_id!r}: the score of {doc_id!r} is {score}; expected a finite number")
            lines.append(f"{_column(query_id)} Q0 {_column(doc_id)} {rank} {float(score)!r} ragbench\n")
    return "".join(lines)


def _column(text: str) -> str:
    if text and not re.search(r"[\s%]", text):
        return text
    return re.sub(r"[\s%]", lambda match: quote(match.group()), text) or "%00"


def scores_to_csv(scores: pd.DataFrame) -> str:
    """The scores as CSV, sorted by question and measure; an empty field = unscored.

    Values have 12 significant digits: what lies beyond depends on the order of additions, not on a configuration.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"query_id": ["q2", "q1"], "measure": "RR", "value": [0.5, float("nan")]})
    >>> print(scores_to_csv(frame), end="")
    query_id,measure,value
    q1,RR,
    q2,RR,0.5
    """
    columns = ["query_id", "measure", "value"]
    if sorted(scores.columns) != sorted(columns):
        raise ConfigError(f"scores have the columns {list(scores.columns)}; expected {', '.join(columns)}")
    # Through str(), because query ids may come as numbers; through float(), because int and numpy print differently.
    rows = sorted(
        (str(query_id), str(measure), float("nan") if value is None else float(value))
        for query_id, measure, value in scores[columns].itertuples(index=False, name=None)
    )
    lines = [",".join(columns)]
    last = None
    for query_id, measure, value in rows:
        if math.isinf(value):
            raise ConfigError(f"{measure} of question {query_id!r} is {value}; expected a number, or NaN = unscored")
        if (query_id, measure) == last:
            raise ConfigError(f"{measure} of question {query_id!r} stands twice in the scores; expected it once")
        last = (query_id, measure)
        lines.append(f"{_field(query_id)},{_field(measure)},{'' if math.isnan(value) else short(value)}")
    return "\n".join(lines) + "\n"


def short(value: float) -> str:
    """A number with 12 significant digits, as every file of results has it: the rest is the order of additions.

    >>> short(0.1 + 0.2), short(1.0)
    ('0.3', '1.0')
    """
    return repr(float(f"{value:.12g}"))


def _shortened(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: float(short(value)) if isinstance(value, float) else value for key, value in values.items()}


def _field(text: str) -> str:
    # Not the csv module: which fields it puts in quotes differs between editions of Python.
    return '"' + text.replace('"', '""') + '"' if re.search(r'[",\r\n]', text) else text


def _json(value: Mapping[str, Any]) -> str:
    try:
        return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    except (TypeError, ValueError) as exc:
        raise ConfigError(f"facts and timings must be plain finite numbers and text: {exc}") from exc


def _json_lines(records: Iterable[Answer | Judgement]) -> str:
    # One line is one record, whatever line ends a text holds: JSON escapes them.
    # What a record does not hold is left out: reading fills it in, and an answer has many fields that few systems use.
    kept = (
        {key: value for key, value in asdict(record).items() if key == "value" or value not in (None, (), {})}
        for record in records
    )
    return "".join(json.dumps(record) + "\n" for record in kept)


def _diagnosis_lines(diagnosis: pd.DataFrame) -> str:
    kept = ("query_id", "cause", "evidence", "test", "measure", "value")
    failed = diagnosis[diagnosis["failed"]].astype(object)
    rows = failed.where(failed.notna(), None)[list(kept)].to_dict("records")
    kept_rows = (
        _shortened({str(name): value for name, value in row.items() if value not in (None, "")}) for row in rows
    )
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in kept_rows)
