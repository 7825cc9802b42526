"""Schedules of a YAML file, `cron: jobs: [{id, schedule, handler: rag.evaluate, config: {...}}]`:
which fields a job may have, the command and the alert that it becomes.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from ragbench.datasets import is_collection
from ragbench.errors import DataError, RagbenchError
from ragbench.service.alert_rules import check_targets, replace_threshold
from ragbench.service.job_queue import AUTOMATIC
from ragbench.service.scheduler import add_schedule, due_before


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)


class _Config(_Part):
    """What `ragbench eval` evaluates; the pass rate below which an alert is sent."""

    test_set: str = ""
    corpus: str = ""
    system: str = ""
    judge: str = ""
    k: str = ""
    baseline: str = ""
    auto_generate_datasets: bool = False
    zone: str = "UTC"
    alert_threshold: float | None = Field(None, ge=0, le=1, strict=True)

    def command(self) -> list[str]:
        """Return the arguments of ragbench that run this evaluation."""
        options = {
            "--test-set": self.test_set,
            "--docs": self.corpus,
            "--judge": self.judge,
            "--k": self.k,
            "--baseline": self.baseline,
        }
        command = ["eval", self.system] if self.system else ["eval"]
        command += [f"{option}={value}" for option, value in options.items() if value]
        if self.auto_generate_datasets:
            command.append(AUTOMATIC)
        return command

    def problem(self, folder: Path) -> str:
        """Return why this evaluation cannot run in a folder; "" if no reason is known.

        The system or the baseline cannot be found, or the test set cannot be loaded, or it lacks
        questions or documents.
        """
        from ragbench.systems.named_systems import reads_documents

        # raises for a system that cannot be found; True if the system searches in the test set's documents
        try:
            is_pipeline = reads_documents(self.system, folder)
        except RagbenchError as exc:
            return str(exc)
        if self.baseline and not (folder / self.baseline).exists():
            return f"the baseline {self.baseline} is not there; expected the folder of a result"
        if not self.test_set:
            return ""
        if self.auto_generate_datasets:
            return "auto_generate_datasets chooses the test set itself; leave test_set out"
        if is_collection(self.test_set):
            return ""  # it is not loaded here, since its documents may have to be downloaded first
        return self._problem_of_test_set(folder, is_pipeline=is_pipeline)

    def _problem_of_test_set(self, folder: Path, *, is_pipeline: bool) -> str:
        """Return why the test set cannot be evaluated: it cannot be loaded, has no questions, or has no
        documents for a pipeline. "" if it can.
        """
        from ragbench.testsets.loader import load_dataset

        corpus = _path_or_name(folder, self.corpus) if self.corpus else ""
        try:
            data = load_dataset(_path_or_name(folder, self.test_set), corpus=corpus)
        except RagbenchError as exc:
            return str(exc)
        if not data.cases:
            return f"{self.test_set} has no questions"
        if is_pipeline and not data.corpus:
            return (
                f"{self.test_set} holds no documents, in which {self.system or 'bm25'} searches; "
                "name them: config: {corpus: docs}, or `ragbench schedule import --docs docs`"
            )
        return ""


def _path_or_name(folder: Path, text: str) -> str:
    """Return the path of a file relative to a folder; a text that is no existing file, such as the name
    of a dataset, unchanged.
    """
    path = folder / Path(text).expanduser()
    return str(path) if path.exists() else text


class _Job(_Part):
    id: str
    schedule: str
    handler: Literal["rag.evaluate"]
    config: _Config = Field(default_factory=lambda: _Config.model_validate({}))


def import_schedules(
    file: str | Path,
    *,
    to: Sequence[str] = (),
    corpus: str = "",
    client: str = "",
    database: str = "",
) -> list[str]:
    """Add the schedules of a YAML file, and return their names. The file has the form `cron: jobs: [{id,
    schedule, handler: rag.evaluate, config: {...}}]`.

    `config` holds test_set (or auto_generate_datasets: true), corpus, system, judge, k, baseline,
    and alert_threshold: an alert below this pass rate, and one for a job that fails. They are sent
    `to` these targets (see `add_alert`), or to those that the schedule's rules have already.
    Relative paths are meant from the file's folder. All jobs are checked first, with their test sets
    and documents; if one has an error, nothing is added.

    Args:
        corpus: the documents of jobs that name none.

    Raises:
        ConfigError: a cron line, zone or target that cannot be used.
        DataError: the file has another form, a test set, documents or a system that it names are
            missing, or the database cannot be used.
    """
    file = Path(file)
    folder = file.absolute().parent
    jobs = _jobs_in(file)
    # check all jobs before any is added
    problems = []
    for entry in jobs:
        due_before(entry.schedule, entry.config.zone, datetime.now(UTC))  # raises for a wrong time
        if corpus and entry.config.test_set and not entry.config.corpus:
            entry.config.corpus = str(Path(corpus).expanduser().absolute())
        if problem := entry.config.problem(folder):
            problems.append(f"{entry.id}: {problem}")
    if problems:
        raise DataError(
            f"{file}: nothing is added; these jobs could not run: {'; '.join(problems)}"
        )
    check_targets(to)
    # add a schedule for each job, and its alert
    scope: dict[str, Any] = {"client": client, "database": database}
    for entry in jobs:
        config = entry.config
        add_schedule(
            entry.id, entry.schedule, config.command(), zone=config.zone, folder=folder, **scope
        )
        if config.alert_threshold is not None:
            replace_threshold(entry.id, config.alert_threshold, to=to, **scope)
    return [entry.id for entry in jobs]


def _jobs_in(file: Path) -> list[_Job]:
    """Return the jobs of a YAML file with `cron: jobs: [...]`; DataError for a file of another form."""
    try:
        content = YAML(typ="safe").load(file.read_text(encoding="utf-8"))["cron"]["jobs"]
        return TypeAdapter(list[_Job]).validate_python(content)
    except ValidationError as exc:
        error = exc.errors()[0]  # `loc`: number of the job, then names of fields
        where = ".".join(map(str, ("jobs", *error["loc"])))
        raise DataError(f"{file}: {where} is {error['input']!r}; expected: {error['msg']}") from exc
    except (OSError, ValueError, KeyError, TypeError, YAMLError) as exc:
        raise DataError(
            f"{file}: expected cron: jobs: a list of id, schedule, handler, config ({exc!r})"
        ) from exc
