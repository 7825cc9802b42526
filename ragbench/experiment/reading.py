"""Result folders back into records."""

from __future__ import annotations

import csv
import io
import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from ragbench.errors import ComparisonError, DataError, DataWarning, FailureKind
from ragbench.experiment.writing import DIAGNOSIS, FILES
from ragbench.types import Answer, Completion, Judgement, Passage, Run, RunResult

if TYPE_CHECKING:
    import pandas as pd

_OLD_NAMES = {"passed": "pass_rate"}
"""Measures of folders that an earlier version wrote, and what they are called now."""

_Record = TypeVar("_Record", Answer, Judgement)
_Parsed = TypeVar("_Parsed")


def load_run(folder: str | Path) -> RunResult:
    """Read a result folder.

    The scores of a run without any chunk (a fault of earlier versions) are unscored, with a DataWarning: nothing was
    searched, so its zeros measure nothing.

    Raises:
        DataError: if it is missing, or one of its files is missing, damaged or cut short; it names the file.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder; expected the result folder of a run, with {', '.join(FILES)}")
    config: dict[str, Any] = _read(folder / "config.json", json.loads)
    if not isinstance(config, dict) or not {"parameters", "dataset", "counts", "questions"} <= config.keys():
        raise DataError(_damaged(folder / "config.json", "it lacks parameters, dataset, counts or questions"))
    run = _read(folder / "run.trec", _trec_to_run)
    run.update({query_id: {} for query_id in config.get("found_nothing", [])})
    result = RunResult(
        name=folder.resolve().name,
        config=config,
        run=run,
        scores=_read(folder / "scores.csv", _csv_to_scores),
        answers=_read(folder / "answers.jsonl", lambda text: tuple(_records(text, answer_of))),
        judgements=_read(folder / "judgements.jsonl", lambda text: tuple(_records(text, _judgement))),
        questions=config["questions"],
        timings=_read(folder / "timings.json", lambda text: dict(json.loads(text)["seconds"])),
        diagnosis=_diagnosis(folder / DIAGNOSIS, config) if "diagnosis" in config["counts"] else None,
    )
    found = {
        "run.trec": ("run", sum(map(len, run.values()))),
        "scores.csv": ("scores", len(result.scores)),
        "answers.jsonl": ("answers", len(result.answers)),
        "judgements.jsonl": ("judgements", len(result.judgements)),
    }
    result.scores["measure"] = result.scores["measure"].replace(_OLD_NAMES)
    for name, (kind, count) in found.items():
        if config["counts"].get(kind) != count:
            raise DataError(_damaged(folder / name, f"{count} entries where {config['counts'].get(kind)} were written"))
    if config.get("facts", {}).get("chunks") == 0:
        warnings.warn(
            f"{folder.name} was made from 0 chunks, so nothing was searched and its scores are left out; run it again "
            "with the documents (parameter corpus)",
            DataWarning,
            stacklevel=2,
        )
        return replace(result, scores=result.scores.assign(value=math.nan))
    return result


def load_sweep(folder: str | Path) -> list[RunResult]:
    """Every result in a sweep's folder, by name; all on the same data and the same questions.

    Raises:
        DataError: if the folder is missing, holds no result, or one of its files is damaged.
        ComparisonError: if the results must not be compared: other data, other questions. It names them.
    """
    from ragbench.report import check_comparable

    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}; expected the folder of a sweep, such as results/quickstart")
    results = [load_run(path) for path in result_folders(folder)]
    if not results:
        raise DataError(f"{folder} holds no result yet; run a sweep into it, or name the folder of another")
    check_comparable(results)
    first = results[0]
    asked = set(first.scores["query_id"])
    for other in results[1:]:
        difference = asked ^ set(other.scores["query_id"])
        if difference:
            raise ComparisonError(
                f"{first.name} and {other.name} were not asked the same questions: {len(difference)} stand in one of "
                f"them only ({', '.join(sorted(difference)[:3])}); use the same max_queries and split for all"
            )
    return results


def result_folders(folder: Path) -> list[Path]:
    """The folders in a sweep's folder that hold a result, whole or damaged, by name."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.is_dir() and not path.name.startswith(".") and any((path / name).exists() for name in FILES)
    )


def _read(path: Path, parse: Callable[[str], _Parsed]) -> _Parsed:
    try:
        return parse(path.read_bytes().decode("utf-8"))
    except FileNotFoundError as exc:
        raise DataError(_damaged(path, "it is missing")) from exc
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OSError) as exc:
        raise DataError(_damaged(path, f"{type(exc).__name__}: {exc}")) from exc


def _damaged(path: Path, reason: str) -> str:
    return f"{path} is damaged ({reason}); delete the folder {path.parent.name} and run the configuration again"


def _trec_to_run(text: str) -> Run:
    run: Run = {}
    for line in text.splitlines():
        query_id, _, doc_id, _, score, _ = line.split(" ")
        run.setdefault(_uncolumn(query_id), {})[_uncolumn(doc_id)] = float(score)
    return run


def _uncolumn(text: str) -> str:
    return unquote(text) if text != "%00" else ""


def _csv_to_scores(text: str) -> pd.DataFrame:
    import pandas as pd

    header, *rows = list(csv.reader(io.StringIO(text, newline="")))
    if header != ["query_id", "measure", "value"]:
        raise ValueError(f"header {header}")
    frame = pd.DataFrame(rows, columns=header)
    values = [float(value) if value else math.nan for value in frame["value"]]
    return frame.assign(value=pd.Series(values, dtype="float64"))


def _records(text: str, build: Callable[[dict[str, Any]], _Record]) -> Iterator[_Record]:
    # Split at line feeds only: str.splitlines would also split at characters that JSON leaves as they are.
    for line in text.split("\n"):
        if line.strip():
            yield build(json.loads(line))


def answer_of(fields: Mapping[str, Any]) -> Answer:
    """The answer that a record of JSON holds, such as a line of answers.jsonl; what it leaves out has its default."""
    tuples = {name: tuple(fields.get(name, ())) for name in ("contexts", "citations", "flags", "cut")}
    usage = _completion(fields["usage"]) if fields.get("usage") else None
    passages = tuple(Passage(**passage) for passage in fields.get("passages", ()))
    return Answer(**{**fields, **tuples, "usage": usage, "passages": passages, "failure": _kind(fields)})


def _completion(fields: Mapping[str, Any]) -> Completion:
    return Completion(**{**fields, "failure": _kind(fields)})


def _kind(fields: Mapping[str, Any]) -> FailureKind | None:
    """The kind of a failure; records of older versions have none."""
    return FailureKind(fields["failure"]) if fields.get("failure") else None


def _diagnosis(path: Path, config: dict[str, Any]) -> pd.DataFrame:
    """A row per question, as `diagnose` gives it but for the category: what did not fail is not in the file."""
    import pandas as pd

    failed: dict[str, dict[str, Any]] = _read(
        path, lambda text: {row["query_id"]: row for row in map(json.loads, text.splitlines())}
    )
    if len(failed) != config["counts"]["diagnosis"] or not set(failed) <= set(config["questions"]):
        raise DataError(_damaged(path, f"{len(failed)} entries where {config['counts']['diagnosis']} were written"))
    empty = {"cause": "", "evidence": "", "test": "", "measure": "", "value": None}
    rows = [
        {"query_id": query_id, "question": text, "failed": query_id in failed, **empty, **failed.get(query_id, {})}
        for query_id, text in config["questions"].items()
    ]
    columns = ["query_id", "question", "failed", *empty]
    return pd.DataFrame(rows, columns=columns).astype({"value": "Float64"})


def _judgement(fields: dict[str, Any]) -> Judgement:
    tuples = {name: tuple(fields.get(name, ())) for name in ("samples", "unsupported")}
    usage = tuple(_completion(one) for one in fields.get("usage", ()))
    return Judgement(**{**fields, **tuples, "usage": usage})
