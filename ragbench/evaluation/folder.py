"""A result in its folder: which files it has, how they are written as a whole or not at all, and
how one result or a folder of them is read and checked.

A folder holds `config.json` (parameters, dataset, questions, facts, environment), `run.trec`,
`scores.csv`, `answers.jsonl`, `judgements.jsonl`, `timings.json`, and, if they were made,
`diagnosis.jsonl`, `verdicts.json` and reports for readers. Times, latencies and numbers of cached
replies are in `timings.json`, so that `scores.csv`, `run.trec` and `verdicts.json` have the same
bytes whenever the numbers are the same, also after an interruption.
"""

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import pandas as pd
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, with_config

from ragbench.errors import ConfigError, DataError
from ragbench.evaluation.checksums import (
    CHECKSUMS,
    CONFIG,
    TIMINGS,
    VIEWS,
    check_file,
    check_others,
    checksum,
    sealed,
    verified_checksums,
)
from ragbench.evaluation.checksums import (
    JOURNAL as JOURNAL,
)
from ragbench.evaluation.configurations import check_shared_questions
from ragbench.evaluation.formats import (
    csv_to_scores,
    diagnosis_lines,
    json_lines,
    json_text,
    lines_to_diagnosis,
    plain,
    records_of,
    run_to_trec,
    scores_to_csv,
    trec_to_run,
    with_twelve_digits,
)
from ragbench.evaluation.parameters import DRAWS
from ragbench.evaluation.records import (
    Advice,
    CaseResult,
    Change,
    Comparison,
    Cost,
    Decisions,
    Flip,
    Latency,
    MeasureResult,
    PassFail,
    Perspective,
    SafetyFigure,
    SampleResult,
)
from ragbench.evaluation.result import Result
from ragbench.evaluation.results import Results
from ragbench.files import STAGING, check_inside, parse_json, read_json, staged, write_durably
from ragbench.hints.calls import explaining_calls
from ragbench.judges.criterion import criterion_of, declare_criterion, find_criterion
from ragbench.llms import active_dry_run
from ragbench.registry import Measure, declare, find_measure
from ragbench.statistics.columns import check_all_bounds
from ragbench.statistics.race import Race
from ragbench.types import Answer, Judgement

_Parsed = TypeVar("_Parsed")
_STRICT = with_config(ConfigDict(extra="forbid", allow_inf_nan=False))
for _record in (
    *(Advice, Change, Comparison, Cost, Flip, Latency, MeasureResult, PassFail, Perspective),
    *(SafetyFigure, SampleResult),
):
    _STRICT(_record)
_DECISIONS = TypeAdapter(_STRICT(Decisions))
_OF_CASES = {field.name for field in fields(CaseResult)}


@dataclass
class _Times:
    """The content of timings.json."""

    seconds: dict[str, Any]
    made_at: str
    search_ms: float | None
    latency: tuple[Latency, ...]
    answers: dict[str, dict[str, Any]]
    cached: tuple[int, ...] = ()


_TIMES = TypeAdapter(_STRICT(_Times))


class _DatasetPart(BaseModel):
    """The dataset in config.json, which may have more fields."""

    model_config = ConfigDict(strict=True)
    name: str = ""
    split: str = ""
    fingerprint: str = ""
    corpus: str | None = ""
    documents: int = 0
    safety_samples: int = 0


class _SystemPart(BaseModel):
    """The system in config.json, which may have more fields."""

    model_config = ConfigDict(strict=True)
    name: str = ""
    kind: str = ""


class _Config(BaseModel):
    """The content of config.json, which may have more fields."""

    model_config = ConfigDict(strict=True)
    parameters: dict[str, Any]
    dataset: _DatasetPart
    counts: dict[str, int]
    questions: dict[str, str]
    system: _SystemPart = _SystemPart()
    settings: dict[str, Any] = {}
    facts: dict[str, float | None] = {}
    environment: dict[str, Any] = {}
    question_digests: dict[str, str] = {}
    document_digests: dict[str, str] = {}
    found_nothing: list[str] = []
    edited: list[str] = []


FILES = (
    "config.json",
    "run.trec",
    "answers.jsonl",
    "judgements.jsonl",
    "scores.csv",
    "timings.json",
)
"""The files of a result folder."""

DIAGNOSIS = "diagnosis.jsonl"
"""One more, where failures were diagnosed: a line per failed question."""

VERDICTS = "verdicts.json"
"""One more, where targets were checked: what decided, and which questions passed."""

SWEEP = "sweep.json"
"""In the folder of a sweep: which result is the baseline, and which results are not compared."""

RACE = "race.json"
"""In the folder of a sweep: how its configurations raced."""

_SEARCH = "search_ms"  # the fact that is a time

ALL_FILES = (*FILES, DIAGNOSIS, VERDICTS, *VIEWS, JOURNAL)
"""Every file that a result's folder may hold."""


@explaining_calls(
    "rb.save(result, folder), for each result of several",
    **dict.fromkeys(
        ["overwrite", "force", "exist_ok", "replace"],
        "no option: an older result in the folder is replaced",
    ),
)
def save(
    result: Result, folder: str | Path, *, views: Mapping[str, str] = MappingProxyType({})
) -> Path | None:
    """Write a result into one folder; an older result there is replaced as a whole, or not at all.

    Numbers are written with 12 significant digits, so that the scores of `load_result` equal the saved ones up
    to rounding: compare them by pandas.testing.assert_frame_equal, which allows for it.

    Args:
        result: from `evaluate`.
        folder: where; "" means "keep nothing", and nothing is done; nor is anything saved in a dry
            run.
        views: further files that show the result, name -> text, of `VIEWS`.

    Returns:
        The folder, or None when nothing was kept.

    Raises:
        ConfigError: scores or facts are invalid, or `folder` holds other files.
        DataError: the folder cannot be written.
    """
    if str(folder) == "" or active_dry_run():
        return None
    folder = Path(folder).absolute()
    texts = _texts_of(result, views)
    _check_replaceable(folder)
    if (folder / JOURNAL).is_file() and not result.is_complete:
        # so that the same call asks for the rest
        texts[JOURNAL] = (folder / JOURNAL).read_text(encoding="utf-8")
    try:
        with staged(folder) as new:
            new.mkdir()
            for name, text in texts.items():
                (new / name).write_text(text, encoding="utf-8", newline="\n")
    except OSError as exc:
        raise DataError(
            f"{folder} cannot be written: {exc.strerror or exc}; make room or name another folder; "
            "answers in a journal there are not asked for again"
        ) from exc
    return folder


def _texts_of(result: Result, views: Mapping[str, str]) -> dict[str, str]:
    """Return all files of the folder of a result as name -> text, with `views` (reports) among them.

    Times, latencies and numbers of cached replies differ between two equal runs: they are moved from
    the other files into timings.json. config.json has the checksums of the data, timings.json the checksums of
    the reports.
    """
    counts = _counts(result)
    if result.diagnosis is not None:
        counts["diagnosis"] = int(result.diagnosis["failed"].sum())
    facts = {**result.facts}
    config = {**result.config, "facts": facts, "counts": counts}
    config["found_nothing"] = sorted(query for query, run in result.run.items() if not run)
    decisions = plain(result.decisions)
    times = {
        "seconds": with_twelve_digits(result.timings),
        "made_at": config.pop("made_at", ""),
        _SEARCH: facts.pop(_SEARCH, None),
        "latency": decisions.pop("latency"),
        "answers": {answer.query_id: dict(answer.latency_ms) for answer in result.answers},
        "cached": [cost.pop("cached") for cost in decisions["costs"]],
    }
    texts = {
        "run.trec": run_to_trec(result.run),
        "answers.jsonl": json_lines([replace(each, latency_ms={}) for each in result.answers]),
        "judgements.jsonl": json_lines(result.judgements),
        "scores.csv": scores_to_csv(result.scores),
    }
    if result.diagnosis is not None:
        texts[DIAGNOSIS] = diagnosis_lines(result.diagnosis)
    if result.rows:
        texts[VERDICTS] = json.dumps(decisions, ensure_ascii=False, allow_nan=False) + "\n"
    texts[CONFIG] = sealed(CONFIG, config, _checksums(texts))  # the JSON with these checksums
    return {**texts, **views, TIMINGS: sealed(TIMINGS, times, _checksums(views))}


def _checksums(texts: Mapping[str, str]) -> dict[str, str]:
    """Return file name -> checksum of its text; `texts` is file name -> text.

    Raises:
        ConfigError: a text cannot be written as UTF-8.
    """
    checksums = {}
    for name, text in texts.items():
        try:
            checksums[name] = checksum(text.encode())
        except UnicodeEncodeError as exc:
            around = exc.object[max(0, exc.start - 20) : exc.end]  # to find the place
            raise ConfigError(
                f"an id or a text holds half of a surrogate pair ({around!r}), which {name} cannot "
                "hold; write the character itself"
            ) from exc
    return checksums


def _counts(result: Result) -> dict[str, int]:
    """Return the number of entries of each file of a result, by the name without its ending. Loading
    compares them, and so notices a file that was cut short.
    """
    return {
        "run": sum(map(len, result.run.values())),
        "scores": len(result.scores),
        "answers": len(result.answers),
        "judgements": len(result.judgements),
        "rows": len(result.rows),
    }


def _check_replaceable(folder: Path) -> None:
    """Refuse to replace a folder that holds files of something else than a result.

    Raises:
        ConfigError: the path is a file, or the folder holds other files; the message names three.
    """
    if not folder.exists():
        return
    names = ["a file"]
    if folder.is_dir():
        names = sorted(path.name for path in folder.iterdir())
    # files that a killed process left behind do not count
    others = [name for name in names if name not in ALL_FILES and not name.startswith(STAGING)]
    if others:
        raise ConfigError(
            f"{folder} is not a result folder (it holds {', '.join(others[:3])}); "
            "results_dir is replaced as a whole, so name a new or empty folder"
        )


def load_result(path: str | Path, *, check: bool = True) -> Result:
    """Read a result from its folder.

    Args:
        path: the folder.
        check: refuse files that changed after they were written; False for `verify`, which shows
            what differs in them.

    Raises:
        DataError: the folder is missing, or one of its files is missing, damaged or cut short; the
            message names the file.
    """
    path = Path(path)
    _check_is_result(path)
    config = _read_config(path)
    checksums = verified_checksums(path / CONFIG, config) if check else None  # None: not checked
    config.pop(CHECKSUMS, None)
    counts = config.pop("counts")
    run = _read_file(path / "run.trec", trec_to_run, checksums)
    for query_id in config.pop("found_nothing", []):
        run[query_id] = {}
    # timings.json is parsed before it is checked: its checksum is in it, as in config.json
    stored_times = _read_file(path / TIMINGS, parse_json)
    if checksums is not None:
        checksums |= verified_checksums(path / TIMINGS, stored_times)
    times = _parsed_times(path / TIMINGS, stored_times)
    config["made_at"] = times.made_at
    if times.search_ms is not None:
        config["facts"][_SEARCH] = times.search_ms
    answers = _read_file(path / "answers.jsonl", partial(records_of, kind=Answer), checksums)
    result = Result(
        name=path.resolve().name,
        config=config,
        run=run,
        scores=_read_file(path / "scores.csv", csv_to_scores, checksums),
        answers=_with_latency(answers, times),
        judgements=_read_file(
            path / "judgements.jsonl", partial(records_of, kind=Judgement), checksums
        ),
        timings=times.seconds,
        diagnosis=_read_diagnosis(path, config["questions"], counts.get("diagnosis"), checksums),
        folder=path.resolve(),
        **(_read_decisions(path, times, checksums) if counts.get("rows") else {}),
    )
    _check_counts(result, counts, path)
    check_others(path, checksums or {}, read=(*FILES, DIAGNOSIS, VERDICTS))
    _register_users_measures(result, path)  # their bounds are checked, too
    check_all_bounds(pd.DataFrame(result.scores), str(path / "scores.csv"))
    return result


def _read_decisions(
    path: Path, times: _Times, checksums: Mapping[str, str] | None
) -> dict[str, Any]:
    """Return the fields of `Decisions` in verdicts.json, with the latencies and numbers of cached
    replies that timings.json holds.
    """
    decisions = _read_file(path / VERDICTS, _decisions_of, checksums).decisions
    costs = _with_cached(decisions["costs"], times.cached, path / TIMINGS)
    return {**decisions, "latency": times.latency, "costs": costs}


def _read_diagnosis(
    path: Path,
    questions: Mapping[str, str],
    n_failed: int | None,
    checksums: Mapping[str, str] | None,
) -> pd.DataFrame | None:
    """Return the diagnosis of a saved result, with a row per question; None if it has none.

    Args:
        path: the folder of the result.
        questions: query_id -> question.
        n_failed: the number of failed questions in it; None if failures were not diagnosed.
        checksums: file name -> checksum; None does not check the file.
    """
    if n_failed is None:
        return None
    parse = partial(lines_to_diagnosis, questions=questions, count=n_failed)
    return _read_file(path / DIAGNOSIS, parse, checksums)


def _check_is_result(path: Path) -> None:
    """Refuse a path that is not the folder of a result.

    Raises:
        DataError: the path is a file, does not exist, or holds none of the files of a result.
    """
    if any((path / name).is_file() for name in FILES):
        return
    if path.is_file():
        raise DataError(
            f"{path} is a file, and a report does not hold the scores of each question; expected "
            "the folder of a result, as `ragbench eval --output FOLDER` writes it"
        )
    problem = "holds no result" if path.is_dir() else "is not a folder"
    raise DataError(
        f"{path} {problem}; expected the folder of a result, with {', '.join(FILES)}; a folder "
        "of several is read by load_results"
    )


def _read_config(path: Path) -> dict[str, Any]:
    """Return the content of config.json in the folder of a result.

    Raises:
        DataError: it is missing, is not JSON, or lacks a field or has one of another type.
    """
    config: dict[str, Any] = _read_file(path / "config.json", parse_json)
    needed = {"parameters", "dataset", "counts", "questions"}
    if not isinstance(config, dict) or not needed <= config.keys():
        raise DataError(
            _damaged(path / "config.json", "it lacks parameters, dataset, counts or questions")
        )
    try:
        _Config.model_validate(config)
    except ValidationError as exc:
        first = exc.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise DataError(_damaged(path / "config.json", f"{place}: {first['msg']}")) from exc
    return config


def _with_latency(answers: Iterable[Answer], times: _Times) -> list[Answer]:
    """Return the answers with the latencies that are kept in timings.json."""
    timed = []
    for answer in answers:
        latency = times.answers.get(answer.query_id)
        timed.append(replace(answer, latency_ms=latency) if latency else answer)
    return timed


def _check_counts(result: Result, counts: Mapping[str, int], path: Path) -> None:
    """Refuse a file with more or fewer entries than were written: it was cut short or edited.

    `counts` are from config.json: file name without its ending -> number of entries.
    """
    for kind, n_read in _counts(result).items():
        if counts.get(kind, 0) != n_read:
            # "rows" are in verdicts.json; the other kinds are beginnings of file names
            name = next((name for name in FILES if name.startswith(kind)), VERDICTS)
            raise DataError(
                _damaged(path / name, f"{n_read} entries where {counts.get(kind)} were written")
            )


def _register_users_measures(result: Result, path: Path) -> None:
    """Register the user's measures and criteria of a result, so that their bounds and direction are known."""
    for declared in result.settings.get("measures", ()):
        if find_measure(declared["name"]) is None:
            bounds = tuple(declared["bounds"])
            declare(Measure(**{**declared, "bounds": bounds}))
    for declared in result.settings.get("own_criteria", ()):
        _register_criterion(declared, path)


def _register_criterion(declared: Mapping[str, Any], path: Path) -> None:
    """Declare a user's criterion of a saved result again, as loading needs it; a criterion of this name
    that is declared already stays.

    A criterion that was a function gets its name and meaning only, as the function is not saved.
    """
    fields = {**declared}
    name = str(fields.pop("name", ""))
    if find_criterion(name) is not None:
        return
    was_function = fields.pop("function", None)
    if was_function:
        fields.setdefault("question", fields.get("meaning") or name)
    try:
        declare_criterion(criterion_of(name, fields))
    except (ConfigError, TypeError, AttributeError) as exc:
        raise DataError(_damaged(path / "config.json", f"own_criteria: {exc}")) from exc


def _parsed_times(path: Path, record: Mapping[str, Any]) -> _Times:
    """Return the content of timings.json; DataError if it has other fields than `_Times`."""
    try:
        return _TIMES.validate_python({key: record[key] for key in record if key != CHECKSUMS})
    except ValueError as exc:
        raise DataError(_damaged(path, f"{exc}")) from exc


def _with_cached(costs: Sequence[Cost], cached: Sequence[int], path: Path) -> tuple[Cost, ...]:
    """Return the costs, each with the number of its replies that came from the reply store, which
    timings.json (`path`) lists in the same order.
    """
    if len(costs) != len(cached):
        raise DataError(_damaged(path, f"cached has {len(cached)} numbers, expected {len(costs)}"))
    return tuple(replace(cost, cached=n) for cost, n in zip(costs, cached, strict=True))


def _decisions_of(text: str) -> Decisions:
    """Return the decisions in the text of verdicts.json; ValueError if a field is unknown."""
    decisions = _DECISIONS.validate_json(text)
    for query_id, verdict in decisions.verdicts.items():
        if unknown := sorted(verdict.keys() - _OF_CASES):
            raise ValueError(f"the verdict of {query_id!r} has an unknown field {unknown[0]!r}")
    return decisions


@explaining_calls(baseline="load_results(folder).compare('name of the baseline')")
def load_results(folder: str | Path) -> Results:
    """Read every result in a folder: of a sweep, of evaluations (results/eval), any other folder with
    folders of results, or the folder of one result.

    The results are sorted by name. All must be on the same data and the same questions. Configurations
    that a race dropped before its end are in `Results.race`. Results that are no longer in the grid of
    their sweep are left out (`ragbench sweep --all` takes them in).

    Every file is read and checked here, so that changing the folder afterwards changes nothing.
    Answers, runs, judgements and verdicts become objects at their first use, to save memory.

    >>> results = load_results("results/quickstart")  # doctest: +SKIP
    >>> results.leaderboard()  # doctest: +SKIP

    Raises:
        DataError: the folder is missing, holds no result, or one of its files is damaged.
        ComparisonError: the results must not be compared: other data or questions, whose
            fingerprint is another. The message names them.
    """
    folder = Path(folder)
    if folder.is_file():
        raise DataError(
            f"{folder} is a file; expected the folder of a sweep, such as results/quickstart. "
            "rb.compare('a.csv', 'b.csv') reads scores of other tools"
        )
    if not folder.is_dir():
        raise DataError(
            f"{folder} is not a folder; expected the folder of a sweep, such as results/quickstart"
        )
    loaded = (load_result(path) for path in compared_folders(folder))  # one in memory at a time
    # the parameter `DRAWS` marks a configuration of a race that answered a part of the questions
    whole = (result for result in loaded if DRAWS not in result.parameters)
    race, _ = load_race(folder)
    baseline, _ = _stored_roles(folder)
    # packed, so that many results fit into memory
    results = Results(_packed(whole), baseline=baseline, race=race)
    if not results and (folder / "config.json").is_file():
        return Results([load_result(folder)])
    if not results:
        raise DataError(
            f"{folder} holds no result yet; run a sweep into it, or name the folder of another"
        )
    check_shared_questions(results)
    return results


def _packed(results: Iterable[Result]) -> Iterator[Result]:
    """Yield the results in a form that takes less memory: large parts are pickled until they are used, and
    successive results with the same questions and measures share one copy of these columns.
    """
    shared_columns = pd.DataFrame()
    for result in results:
        columns = result.scores[["query_id", "measure"]]
        if not columns.equals(shared_columns):
            shared_columns = columns
        scores = shared_columns.assign(value=result.scores["value"])
        parts = {each.name: getattr(result, each.name) for each in fields(result)}
        yield _PackedResult(**{**parts, "scores": scores})


class _Packed:
    """A field that is pickled in memory until it is looked at: in a third of what its objects take."""

    def __set_name__(self, _: type, name: str) -> None:
        self._name, self._packed = name, f"_{name}"

    def __get__(self, result: object, _: type) -> Any:
        fields_of_result = vars(result)
        packed = fields_of_result.get(self._packed)
        if packed:  # the first look at the field
            fields_of_result[self._name] = pickle.loads(packed)
            # last: other threads see one of the two at any time
            fields_of_result.pop(self._packed, None)
        return fields_of_result[self._name]

    def __set__(self, result: object, value: Any) -> None:
        vars(result)[self._packed] = pickle.dumps(value)


class _PackedResult(Result):
    """One of many results, so that all of them fit into memory."""

    run: Any = _Packed()
    answers: Any = _Packed()
    judgements: Any = _Packed()
    diagnosis: Any = _Packed()
    verdicts: Any = _Packed()


def load_race(folder: Path) -> tuple[Race | None, str]:
    """Return the race of a sweep, and the digest of everything that it was made from; (None, "") if there
    was none.

    In a race, configurations answer more and more questions, and those that are behind are dropped.
    """
    path = folder / RACE
    if not path.is_file():
        return None, ""
    try:
        record = read_json(path, "delete it, and run the sweep again")
        return Race(**record["race"]), str(record["made_from"])
    except (KeyError, TypeError) as exc:
        raise DataError(f"{path} is damaged ({exc!r}); delete it, and run the sweep again") from exc


def save_roles(folder: Path, baseline: str, left_out: Sequence[str] = ()) -> None:
    """Keep in the folder of a sweep which result the others are compared with ("" is none), and
    which results are not compared.
    """
    if (baseline, tuple(left_out)) == _stored_roles(folder):
        return
    record: dict[str, Any] = {"baseline": baseline}
    if left_out:
        record["left_out"] = list(left_out)
    write_durably(folder / SWEEP, json_text(record))


def _stored_roles(folder: Path) -> tuple[str, tuple[str, ...]]:
    """Return the baseline of a sweep, "" if none is known, and the results not compared."""
    record = read_json(folder / SWEEP, "delete it") if (folder / SWEEP).is_file() else {}
    if not isinstance(record, dict):
        return "", ()
    return str(record.get("baseline", "")), tuple(map(str, record.get("left_out", ())))


def compared_folders(folder: Path) -> list[Path]:
    """Return the folders of results that are compared: all but those that the sweep left out."""
    _, left_out = _stored_roles(folder)
    return [path for path in result_folders(folder) if path.name not in left_out]


def result_folders(folder: Path) -> list[Path]:
    """Return the folders in a sweep's folder that hold a result, whole or damaged, by name."""
    found = []
    for path in folder.iterdir():
        is_visible_folder = path.is_dir() and not path.name.startswith(".")
        if is_visible_folder and any((path / name).exists() for name in FILES):
            found.append(path)
    return sorted(found)


def _read_file(
    path: Path, parse: Callable[[str], _Parsed], checksums: Mapping[str, str] | None = None
) -> _Parsed:
    """Return what `parse` makes of a file's text; with `checksums` the file is checked first.

    Raises:
        DataError: the file is missing, outside of its folder, changed since it was written, or
            cannot be parsed.
    """
    check_inside(path, path.parent)
    try:
        content = path.read_bytes()
        if checksums is not None:
            check_file(path, content, checksums)
        return parse(content.decode("utf-8"))
    except DataError:
        raise
    except FileNotFoundError as exc:
        raise DataError(_damaged(path, "it is missing")) from exc
    except (ValueError, LookupError, TypeError, AttributeError, OSError, RecursionError) as exc:
        raise DataError(_damaged(path, f"{type(exc).__name__}: {exc}")) from exc


def _damaged(path: Path, reason: str) -> str:
    return (
        f"{path} is damaged ({reason}); delete the folder {path.parent.name} and run the "
        "configuration again"
    )
