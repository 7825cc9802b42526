"""The bodies of requests for evaluations: their fields and checks, and the commands that they
become.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, StrictBool, create_model, model_validator
from pydantic.fields import FieldInfo

from ragbench.errors import ConfigError, check_known
from ragbench.evaluation import spec
from ragbench.files import toml_text, write_durably
from ragbench.judges.criterion import CRITERIA, check_own, criterion_of
from ragbench.service.folders import NAME, Folder, load

Name = Annotated[str, Field(pattern=rf"^{NAME}$", max_length=80)]
Measure = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^=,\s]+$")]
Word = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^,\x00-\x1f]+$")]
Text = Annotated[str, Field(min_length=1, max_length=190, pattern=r"^[^\x00-\x1f]+$")]
Depth = Annotated[int, Field(ge=1, le=1000)]
Settings = Annotated[dict[Name, float], Field(max_length=20)]


class Body(BaseModel):
    """A body whose unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _check_texts(cls, body: Any) -> Any:
        """Refuse half of a surrogate pair, which neither a file nor a database can hold."""
        try:
            json.dumps(body, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            raise ValueError(
                "a text holds half of a surrogate pair; send whole characters"
            ) from None
        return body


class CriterionBody(Body):
    """A criterion of the client: a question that a judge decides for each answer, as the measure
    `llm_<name>`.
    """

    question: Annotated[str, Field(min_length=1, max_length=5000)]
    levels: Annotated[dict[Word, float | None], Field(min_length=2, max_length=20)] = Field(
        {"yes": 1.0, "no": 0.0}
    )
    """Verdicts with their values from 0 to 1; null has no value."""
    needs: Annotated[list[Literal["reference", "contexts", "facts"]], Field(max_length=3)] = Field(
        []
    )
    """What the judge sees in addition to question and answer."""
    anchors: Annotated[dict[Word, str], Field(max_length=20)] = Field({})
    """When each level is right."""
    examples: Annotated[list[dict[Name, str]], Field(max_length=20)] = Field([])
    """Judged examples: answer, verdict, and question, contexts, reference, reason."""
    higher_is_better: StrictBool = True


_FIELDS = {
    name: field
    for name, field in spec.EvaluationSpec.model_fields.items()
    if spec.detail(field, "is_served")
}


def _field_of_request(field: FieldInfo) -> Any:
    """Return (type, field) of an option of `ragbench eval`, as pydantic's `create_model` takes them for
    the body of a request. An option that is a tuple becomes a list of at most 50 depths or words.
    """
    if isinstance(field.default, tuple):
        item = Depth if int in get_args(field.annotation) else Word
        default = list(field.default)
        return list[item], Field(default, max_length=50, description=field.description)  # type: ignore[valid-type]
    type_: Any = field.annotation
    if field.metadata:  # its bounds
        type_ = Annotated[field.annotation, *field.metadata]
    return type_, Field(field.default, description=field.description)


# The body with the fields in `_FIELDS`, which type checkers cannot know.
if TYPE_CHECKING:
    _SpecBody = Body
else:
    fields = {name: _field_of_request(field) for name, field in _FIELDS.items()}
    _SpecBody = create_model("_SpecBody", __base__=Body, **fields)


class RunBody(
    _SpecBody,
    json_schema_extra={
        "examples": [{"dataset": "support", "system": "bm25", "targets": {"nDCG@5": 0.6}}]
    },
):
    """An evaluation of a system on a data set; as `ragbench eval`, but everything is named, and
    nothing is a path.
    """

    dataset: Name
    system: Annotated[str, Field(pattern=rf"^({NAME})?$", max_length=80)] = ""
    """A file systems/NAME.toml or .jsonl, or bm25; default: the file `default`, else bm25."""
    series: Annotated[str, Field(pattern=r"^[^\x00-\x1f]*$", max_length=60)] = ""
    """What the runs are called over time; default: the data set's name."""
    targets: Annotated[dict[Measure, float], Field(max_length=50)] = Field({})
    """Least (or greatest) mean of measures."""
    preset: str = ""
    """Whose default targets apply, of those that --targets names."""
    thresholds: Settings = Field({})
    """Of a single answer, as [cases] of --targets."""
    weights: Settings = Field({})
    """Of its parts, as [weights] of --targets."""
    judge: StrictBool = False
    """Ask the model that RAG_EVAL_* names for the server."""
    own_criteria: Annotated[dict[Name, CriterionBody], Field(max_length=20)] = Field({})
    """Criteria of your own; all are judged, after those in `criteria`."""
    max_cost: Annotated[float, Field(ge=0, strict=True)] | None = None
    """US dollars."""
    baseline: Annotated[str, Field(pattern="^([0-9a-f]{64})?$")] = ""
    """An earlier run's id."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Check the options together, which no field alone can show, and the client's criteria."""
        options = {name: getattr(self, name) for name in _FIELDS}
        # built-in criteria only: a request must not name files or modules of the server
        check_known("criterion", CRITERIA, *options["criteria"])
        spec.EvaluationSpec(**options)
        if self.own_criteria and not self.judge:
            raise ConfigError("own_criteria are judged by a language model; set judge to true")
        for name, body in self.own_criteria.items():
            check_own(criterion_of(name, body.model_dump()))
        return self

    def command(self, folder: Folder, baseline: str = "") -> list[str]:
        """Return the arguments with which the command `ragbench` makes this evaluation.

        Targets and criteria of the request are written to files in `folder`, the client's data on the
        server. `baseline` is the folder of the earlier run; "" for none.

        Raises:
            ConfigError: the request wants a judge, and the server has no language model.
            DataError: the test set cannot be read. It is refused here, because the command's output,
                which the client sees, might quote the file.
        """
        if self.judge and not os.environ.get("RAG_EVAL_PROVIDER"):
            raise ConfigError(
                "a judge needs a language model; set RAG_EVAL_PROVIDER and the provider's "
                "variables for the server"
            )
        path = folder.testset(self.dataset)
        # the file of the cases that clients sent one by one: the server writes it, without documents
        is_file_of_sent_cases = path.parent == folder.sent
        needs_documents = is_file_of_sent_cases or not load(path).corpus
        command = ["eval", f"--test-set={path}", folder.system(self.system)]
        command += self._plain_options(folder)
        if self.targets:
            gates = [f"{measure}={value}" for measure, value in self.targets.items()]
            command.append(f"--fail-under={','.join(gates)}")
        if targets_file := self._targets_file(folder):
            command.append(f"--targets={targets_file}")
        if self.judge:
            command.append("--judge=env")
        if self.max_cost is not None:
            command.append(f"--max-cost={self.max_cost}")
        if baseline:
            command.append(f"--baseline={baseline}")
        if needs_documents and folder.corpus.is_file():
            command.append(f"--docs={folder.corpus}")
        return command

    def _plain_options(self, folder: Folder) -> list[str]:
        """Return the options of `ragbench eval` for the fields of `_SpecBody`, except those that have
        their default value. The client's own criteria, in a file, follow the built-in ones.
        """
        options = []
        for name, field in _FIELDS.items():
            option = spec.option_name(name, field)
            value = spec.plain_text(getattr(self, name))
            has_own_criteria = name == "criteria" and bool(self.own_criteria)
            if has_own_criteria:
                built_in = [value] if value else []
                value = ",".join([*built_in, self._criteria_file(folder)])
            elif value == spec.plain_text(field.default):
                continue
            is_flag = field.annotation is bool
            options.append(option if is_flag else f"{option}={value}")
        return options

    def _targets_file(self, folder: Folder) -> str:
        """Write the file of --targets in TOML, and return its path; "" if nothing is set."""
        lines = []
        if self.preset:
            lines.append(f"preset = {json.dumps(self.preset)}")
        for name, threshold in sorted(self.thresholds.items()):
            lines.append(f"cases.{name} = {float(threshold)}")
        for name, weight in sorted(self.weights.items()):
            lines.append(f"weights.{name} = {float(weight)}")
        if not lines:
            return ""
        return _settings_file(folder, "targets", "\n".join(lines))

    def _criteria_file(self, folder: Folder) -> str:
        """Write the file of the client's criteria, and return its path."""
        lines = []
        for name, body in self.own_criteria.items():
            lines.append(f"[{name}]")
            for field, value in body.model_dump().items():
                lines.append(f"{field} = {toml_text(value)}")
        return _settings_file(folder, "criteria", "\n".join(lines))


def _settings_file(folder: Folder, kind: str, text: str) -> str:
    """Write a file of settings, named by its content, unless it exists, and return its path."""
    name = f"{sha256(text.encode()).hexdigest()[:16]}-{kind}.toml"
    path = folder.path / "settings" / name
    if not path.exists():
        write_durably(path, text)
    return str(path)
