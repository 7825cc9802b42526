"""What requests send: evaluations and recipes, and the commands that they become."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated, Any, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, StrictBool, create_model, model_validator
from pydantic.fields import FieldInfo

from ragbench.errors import ConfigError
from ragbench.evaluation import spec
from ragbench.service.folders import NAME, Folder, load

Name = Annotated[str, Field(pattern=rf"^{NAME}$", max_length=80)]
Measure = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^=,\s]+$")]
Word = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^,\x00-\x1f]+$")]
Text = Annotated[str, Field(min_length=1, max_length=190, pattern=r"^[^\x00-\x1f]+$")]
Depth = Annotated[int, Field(ge=1, le=1000)]


class Body(BaseModel):
    """A body whose unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


_FIELDS = {
    name: field
    for name, field in spec.EvaluationSpec.model_fields.items()
    if spec.detail(field, "is_served")
}


def _served(field: FieldInfo) -> Any:
    """Return the type and the field of an option as requests may set it: lists with bounds, plain
    values.
    """
    if not isinstance(field.default, tuple):
        return Annotated[field.annotation, *field.metadata], Field(
            field.default, description=field.description
        )
    kind = Depth if int in get_args(field.annotation) else Word
    return list[kind], Field([*field.default], max_length=50, description=field.description)  # type: ignore[valid-type]


if TYPE_CHECKING:
    _SpecBody = Body
else:
    fields = {name: _served(field) for name, field in _FIELDS.items()}
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
    system: Annotated[str, Field(pattern=rf"^({NAME})?$", max_length=80)] = Field(
        "",
        description="A file systems/NAME.toml or .jsonl, or bm25; default: the file `default`, "
        "else bm25.",
    )
    series: Annotated[str, Field(pattern=r"^[^\x00-\x1f]*$", max_length=60)] = Field(
        "", description="What the runs are called over time; default: the data set's name."
    )
    targets: dict[Measure, float] = Field(
        {}, max_length=50, description="Least (or greatest) mean of measures."
    )
    preset: str = Field(
        "", description="Whose default targets apply, of those that --targets names."
    )
    thresholds: dict[Name, float] = Field(
        {}, max_length=20, description="Of a single answer, as [cases] of --targets."
    )
    weights: dict[Name, float] = Field(
        {}, max_length=20, description="Of its parts, as [weights] of --targets."
    )
    judge: StrictBool = Field(
        False, description="Ask the model that RAG_EVAL_* names for the server."
    )
    max_cost: float | None = Field(None, ge=0, strict=True, description="US dollars.")
    baseline: Annotated[str, Field(pattern="^([0-9a-f]{64})?$")] = Field(
        "", description="An earlier run's id."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        spec.EvaluationSpec(**{name: getattr(self, name) for name in _FIELDS})
        return self

    def command(self, folder: Folder, baseline: str = "") -> list[str]:
        """Return the arguments of ragbench; `baseline` is the folder of the earlier run."""
        path = folder.testset(self.dataset)
        command = ["eval", f"--test-set={path}", folder.system(self.system)]
        for name, field in _FIELDS.items():
            if (text := spec.plain_text(getattr(self, name))) != spec.plain_text(field.default):
                command.append(f"{spec.option_name(name, field)}={text}")
        options: dict[str, object] = {
            "fail-under": ",".join(f"{name}={value}" for name, value in self.targets.items()),
            "targets": self._targets_file(folder),
            "judge": model("judge") if self.judge else "",
            "max-cost": "" if self.max_cost is None else self.max_cost,
            "baseline": baseline,
        }
        if folder.corpus.is_file() and (path.parent == folder.sent or not load(path).corpus):
            options["docs"] = folder.corpus
        return command + [f"--{name}={value}" for name, value in options.items() if value != ""]

    def _targets_file(self, folder: Folder) -> str:
        """Write the file of --targets; "" where nothing is set."""
        lines = [f"preset = {json.dumps(self.preset)}"] if self.preset else []
        for table, values in (("cases", self.thresholds), ("weights", self.weights)):
            lines += [f"{table}.{name} = {float(values[name])}" for name in sorted(values)]
        return str(folder.write("targets.toml", "\n".join(lines))) if lines else ""


def model(purpose: str) -> str:
    """Return the name of the language model that the environment of the server states."""
    if not os.environ.get("RAG_EVAL_PROVIDER"):
        raise ConfigError(
            f"a {purpose} needs a language model; set RAG_EVAL_PROVIDER for the server, and what "
            "it needs"
        )
    return "env"


def generate_command(
    folder: Folder, name: str, *, title: str, size: int, strategy: str, ask_model: bool
) -> list[str]:
    """Return the arguments of ragbench that draft a data set from the documents sent to /ingest;
    `title` is what it is called.
    """
    path = folder.new_testset(name)
    if not folder.corpus.is_file():
        raise ConfigError("there are no documents yet; send them to /ingest")
    options = ["--seed=0", f"--name={title}"]
    if ask_model:
        options += [f"--llm={model('generator')}", f"--chunks={size}", f"--sample={strategy}"]
        out = f"--output={path.with_suffix('')}"
        return ["testset", "generate", str(folder.corpus), out, *options]
    if strategy != "random":
        raise ConfigError(
            f"the strategy {strategy!r} needs a language model; set RAG_EVAL_PROVIDER, or choose "
            "random"
        )
    options += [
        f"--docs={folder.corpus}",
        f"--limit={size}",
        f"--output={path.with_suffix('.yaml')}",
    ]
    return ["testset", "draft", *options]
