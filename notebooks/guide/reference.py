"""Writes the pages of the reference from the code: measures, commands, parameters, public names, files.

`conf.py` calls `write` before a build. The pages lie in `generated/` and are not committed.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import json
import re
import textwrap
import tomllib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from importlib import resources
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pandas as pd
import typer

import ragbench as rb
from ragbench.cli import app
from ragbench.evaluation.spec import detail, option_name, plain_text
from ragbench.registry import PERSPECTIVES, find_measure
from ragbench.sweep.grid import GridFile
from ragbench.sweep.notebooks import packaged

ELSEWHERE = "other"
"""The page of the measures that no evaluation reports."""

TITLES = {"own": "Measures of your own", ELSEWHERE: "Chunkings and detectors"}

MODULES = (
    "errors evaluation foreign generation judges labelling llms metrics report retrieval statistics systems "
    "testing testsets types"
).split()


def write(folder: Path) -> None:
    """Write every page of the reference into a folder; a page that has not changed keeps its time,
    so that Sphinx does not read it again.
    """
    pages = {
        **measure_pages(),
        **command_pages(),
        **parameter_pages(),
        **name_pages(),
        **design_pages(),
        **file_pages(),
    }
    for name, text in pages.items():
        path = folder / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for path in folder.rglob("*.md"):
        if path.relative_to(folder).with_suffix("").as_posix() not in pages:
            path.unlink()


# Markdown


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; "|" in a cell is escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells) + "\n"


def code(text: object) -> str:
    """Return a text as code; "" stays empty."""
    return f"`{text}`" if str(text) else ""


def prose(text: str) -> str:
    """Return a plain text as Markdown that shows it as it is, apart from `code`."""
    parts = re.split(r"(`[^`]*`)", text)
    shown = [
        part if part.startswith("`") else re.sub(r"([\\*_<>\[\]{}|$#~])", r"\\\1", part)
        for part in parts
    ]
    return "".join(shown)


def toctree(names: Iterable[str]) -> str:
    """Return a list of pages for the navigation alone."""
    return "```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```\n"


# Measures

TEXT = "Cats sleep most of the day. They hunt at night, and eat 4 times."
CORPUS = {
    "cats": rb.Document("cats", TEXT),
    "dogs": rb.Document("dogs", "Dogs bark at night. They guard the house."),
    "fish": rb.Document("fish", "Fish breathe through gills and never close their eyes."),
}
CASE = rb.Case(
    "q1",
    "How long do cats sleep, and when do they hunt?",
    reference_answer="Most of the day; they hunt at night.",
    evidence=(rb.Span("cats", 0, 51),),
    gold_facts=(("most of the day",), ("at night",)),
    required_keywords=("day", "night"),
    expected_claims=("Cats sleep most of the day.",),
    forbidden_claims=("Cats never sleep.",),
    expected_citations=("cats",),
    expected_outcome="success",
    expected_chunks=("cats#0-64",),
    relevant_chunks={"cats#0-64": 1},
    min_citations=1,
    latency_budget_ms={"total": 60_000.0},
)
ANSWER = "Cats sleep most of the day [2], and they bark."
EXAMPLE = f"""\
The values under "Example" are computed by this page from one question, when the site is built:

- question: *{CASE.text}*
- relevant: `cats` (grade 2) and `fish` (grade 1); evidence: the first 51 characters of `cats`
- contexts, in the order of the system: `dogs`, `cats`
- answer: *{ANSWER}*
- reference answer: *{CASE.reference_answer}*; gold facts: "most of the day", "at night"
"""


def answer_of_example(question: str) -> dict[str, Any]:
    """Answer the example's question."""
    contexts = [
        {"id": f"{name}#0-{len(CORPUS[name].text)}", "doc_id": name, "text": CORPUS[name].text}
        for name in ("dogs", "cats")
    ]
    return {"answer": ANSWER, "contexts": contexts, "cost_usd": 0.01, "outcome": "success"}


def example_values() -> dict[str, float]:
    """Return the value of each measure in the example."""
    data = rb.Dataset("pets", "test", CORPUS, [CASE], {"q1": {"cats": 2, "fish": 1}})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = rb.evaluate(data, answer_of_example)
        chunks = rb.chunk(CORPUS, "document")
        ranked = {"q1": {"dogs": 2.0, "cats": 1.0}}
        run = {"q1": {"dogs#0-41": 2.0, "cats#0-64": 1.0}}
        ranking = [name for name in map(member, rb.measures()["measure"]) if is_ranking(name)]
        frames = [
            result.scores,
            rb.score_run(data.qrels, ranked, [name for name in ranking if ":" not in name]),
            rb.metrics.score_retrieval(
                data,
                ranked,
                chunk_run=run,
                chunks=chunks,
                measures=[n for n in ranking if ":" in n],
            ),
            rb.metrics.score_spans(data, run, chunks),
            rb.metrics.score_chunks(data, chunks),
        ]
    scores = pd.concat(frames).drop_duplicates("measure").set_index("measure")["value"].dropna()
    return {str(name): float(value) for name, value in scores.items()}


def is_ranking(name: str) -> bool:
    """Return True for the measures of rankings, by documents or a level."""
    from ragbench.registry import is_ranking_measure

    return is_ranking_measure(name)


def member(family: str) -> str:
    """Return the member of a family of measures that the example shows.

    >>> member("span_recall@{tokens}tok"), member("nDCG@{k}"), member("RR")
    ('span_recall@250tok', 'nDCG@5', 'RR')
    """
    filled = family.replace("{tokens}", "250").replace("{stage}", "total")
    return filled.replace("{k}", "5").replace("{name}", "no-gold")


NOT_REPEATED = {"latency_total_ms"}
"""Values that differ from build to build."""


def measure_pages() -> dict[str, str]:
    """Return the page of all measures and one page for each perspective."""
    rows, values = rb.measures(), example_values()
    rows = rows[rows["perspective"] != "own"]
    pages, summary = {}, []
    names = [name for name in PERSPECTIVES if name != "own"]
    for perspective in [*names, ""]:
        page = perspective or ELSEWHERE
        title = TITLES.get(page, page.capitalize())
        part = rows[rows["perspective"] == perspective]
        plain = part[~part["measure"].str.match(r"(span|chunk):")]
        sections = [measure_section(page, row, values) for _, row in plain.iterrows()]
        question = prose(PERSPECTIVES.get(perspective, "What no evaluation reports by itself."))
        head = f"# {title}\n\n*{question}*\n\n"
        if len(plain) < len(part):
            head += (
                "The measures of rankings are about documents. With `span:` in front (`span:nDCG@5`) "
                "they are about the chunks that hold gold evidence, with `chunk:` about labelled "
                "chunks; the formula is the same.\n\n"
            )
        pages[f"measures/{page}"] = f"{head}{EXAMPLE}\n" + "\n".join(sections) + computed_by(page)
        links = [
            f"[`{name}`](measures/{page}.md#{anchor(page, name)})"
            for name in map(str, plain["measure"])
        ]
        summary.append([f"[{title}](measures/{page}.md)", question, ", ".join(links)])
    text = (
        "# Measures\n\nEvery measure with its range, what it needs, where it comes from and a value "
        "that is computed when this site is built. `rb.measures()` is the same table as a frame. "
        "Names are found in any case, and by the names of trec_eval and ir_measures. A measure of your "
        "own is one function: [extending](../extending.md).\n\n"
    )
    text += table(["perspective", "question", "measures"], summary) + "\n"
    pages["measures"] = text + toctree(f"measures/{name or ELSEWHERE}" for name in [*names, ""])
    return pages


SCORED_BY = {
    "retrieval": ("score_run", "score_spans"),
    "context": ("score_context",),
    "groundedness": ("score_groundedness", "claim_support", "numeric_support"),
    "answer": ("score_answers", "semantic_similarity", "token_f1", "gold_fact_coverage"),
    "pipeline": ("score_pipeline",),
    "safety": ("injection_score", "leakage_findings"),
    "judge": ("score_judgements",),
    ELSEWHERE: ("score_chunks",),
}
"""The page of a perspective -> the functions of `rb.metrics` whose docstrings it shows."""


def computed_by(page: str) -> str:
    """Return the docstrings of the functions that compute the measures of a page."""
    names = SCORED_BY.get(page, ())
    parts = [
        f"\n### `rb.metrics.{name}`\n\n{docstring(getattr(rb.metrics, name))}" for name in names
    ]
    return "\n## How they are computed\n" + "".join(parts) if parts else ""


def anchor(page: str, name: str) -> str:
    """Return the anchor of a measure's heading on its page."""
    return f"measure-{page}-" + re.sub(r"\W+", "-", name).strip("-").lower()


def measure_section(page: str, row: pd.Series[Any], values: Mapping[str, float]) -> str:
    """Return the section of one measure."""
    name = str(row["measure"])
    shown = member(name)
    low, high = (
        "unbounded" if pd.isna(bound) else f"{bound:g}" for bound in (row["low"], row["high"])
    )
    lines = [
        ("Range", f"{low} to {high}, {row['better']} is better"),
        ("About", f"one {row['level']}"),
        ("Needs", str(row["labels"]) or "no labels"),
        ("Source", str(row["source"])),
    ]
    if row["judged"]:
        lines.insert(3, ("Judged", "by the language model that `judge` names"))
    if shown in values and shown not in NOT_REPEATED:
        lines.append(("Example", f"`{shown}` = {values[shown]:.3f}"))
    measure = find_measure(shown)
    if measure is not None and measure.formula:
        lines.insert(0, ("Formula", measure.formula))
    meaning = str(row["meaning"])
    fields = "\n".join(f"- **{head}**: {prose(text)}" for head, text in lines)
    assert measure is not None, name
    return f"({anchor(page, name)})=\n## `{name}`\n\n{prose(meaning[0].upper() + meaning[1:])}.\n\n{fields}\n"


# Commands


def command_pages() -> dict[str, str]:
    """Return the page of all commands and one page for each."""
    group: Any = typer.main.get_command(app)
    pages, summary = {}, []
    for name, command in group.commands.items():
        nested = getattr(command, "commands", {})
        text = f"# `ragbench {name}`\n\n"
        if nested:
            text += f"{prose(command.help or '')}\n\n"
            text += "\n".join(
                command_text(f"{name} {key}", one, "##") for key, one in nested.items()
            )
        else:
            text += command_text(name, command, "")
        pages[f"commands/{name}"] = text
        first = re.split(r"(?<=[.:])\s", command.help or "")[0].rstrip(":")
        summary.append([f"[`{name}`](commands/{name}.md)", prose(first)])
    text = "# Commands\n\nWhat `ragbench COMMAND --help` says, as pages.\n\n"
    text += table(["command", "what it does"], summary) + "\n"
    pages["commands"] = text + toctree(f"commands/{name}" for name in group.commands)
    return pages


def command_text(name: str, command: Any, heading: str) -> str:
    """Return help, arguments, options and example of one command."""
    parameters = [one for one in command.get_params(typer.Context(command)) if one.name != "help"]
    arguments = [one for one in parameters if one.param_type_name == "argument"]
    words = " ".join(one.metavar or one.name.upper() for one in arguments)
    usage = f"ragbench {name} {words}".strip() + " [OPTIONS]"
    text = f"{heading} `ragbench {name}`\n\n" if heading else ""
    text += f"```text\n{usage}\n```\n\n"
    text += "\n\n".join(prose(part) for part in (command.help or "").split("\n\n")) + "\n\n"
    panels: dict[str, list[list[str]]] = {}
    for one in parameters:
        is_argument = one.param_type_name == "argument"
        panel = "Arguments" if is_argument else one.rich_help_panel or "Options"
        label = one.metavar or one.name.upper() if is_argument else ", ".join(one.opts)
        value = "" if is_argument or one.is_flag else plain_text(one.default)
        panels.setdefault(panel, []).append([code(label), prose(one.help or ""), code(value)])
    for panel, rows in panels.items():
        text += f"**{panel}**\n\n" + table(["name", "meaning", "default"], rows) + "\n"
    example = (command.epilog or "").removeprefix("Example: ").strip()
    return text + (f"```sh\n{example}\n```\n" if example else "")


# Parameters of grids and notebooks


def parameter_pages() -> dict[str, str]:
    """Return the page of everything that a grid, a notebook or a call of `rb.evaluate` can set."""
    text = (
        "# Parameters\n\nWhat a grid's `[fixed]` and `[axes]`, the first cell of a notebook, `--set "
        "NAME=VALUE` and `rb.evaluate(..., NAME=VALUE)` can set.\n\n## A grid\n\n"
    )
    rows = [
        [code(f"[{name}]"), prose(field.description or "")]
        for name, field in GridFile.model_fields.items()
    ]
    text += table(["section", "meaning"], rows) + "\n"
    sweep: Any = GridFile.model_fields["sweep"].annotation
    rows = [
        [code(name), prose(field.description or ""), code(field.default or "")]
        for name, field in sweep.model_fields.items()
    ]
    text += "Under `[sweep]`:\n\n" + table(["key", "meaning", "default"], rows) + "\n"
    text += "## Options of an evaluation\n\nThe fields of `rb.EvaluationSpec`, also in a grid.\n\n"
    rows = [
        [
            code(name),
            prose(field.description or ""),
            code(plain_text(field.default)),
            code(option_name(name, field)),
            str(detail(field, "panel")).lower(),
        ]
        for name, field in rb.EvaluationSpec.model_fields.items()
    ]
    text += table(["parameter", "meaning", "default", "option of `ragbench eval`", "about"], rows)
    for path in sorted(packaged().glob("*.ipynb"), key=lambda path: path.stem != "evaluate"):
        text += f"\n## `{path.name}`\n\n{notebook_parameters(path)}"
    return {"parameters": text}


def notebook_parameters(path: Path) -> str:
    """Return the parameters of a notebook, from the comments of its first cell."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    [source] = [
        "".join(cell["source"])
        for cell in cells
        if "parameters" in cell["metadata"].get("tags", [])
    ]
    rows = []
    for line in source.splitlines():
        match = re.fullmatch(r"(\w+): (\S+) = (.*?)  # (.*)", line)
        if match:
            name, kind, default, meaning = match.groups()
            rows.append([code(name), prose(meaning), code(default), kind])
    return table(["parameter", "meaning", "default", "type"], rows)


# Public names


def name_pages() -> dict[str, str]:
    """Return the page of the names of `rb.` and one page for each public submodule."""
    pages = {"names/ragbench": module_page("ragbench", rb)}
    for name in MODULES:
        module = importlib.import_module(f"ragbench.{name}")
        pages[f"names/{name}"] = module_page(f"ragbench.{name}", module)
    text = (
        "# Names\n\nThe public names of the library, from their docstrings. `import ragbench as rb` "
        "has those of the first page; the others are in `rb.metrics`, `rb.statistics` and so on. "
        "What has no page here is private and may move.\n\n"
    )
    rows = [
        ["[`ragbench`](names/ragbench.md)", "the names of `rb.`"],
        *(
            [f"[`ragbench.{name}`](names/{name}.md)", prose(first_line(f"ragbench.{name}"))]
            for name in MODULES
        ),
    ]
    text += table(["module", "what it holds"], rows) + "\n"
    pages["names"] = text + toctree(["names/ragbench", *(f"names/{name}" for name in MODULES)])
    return pages


def first_line(name: str) -> str:
    """Return the first paragraph of a module's docstring, as one line."""
    doc = inspect.getdoc(importlib.import_module(name)) or ""
    return " ".join(doc.split("\n\n")[0].split())


def module_page(name: str, module: ModuleType) -> str:
    """Return the page of a module: its public names with their docstrings."""
    short = name.replace("ragbench", "rb", 1)
    public = list(getattr(module, "__all__", [])) or own_names(module)
    entries = []
    for one in sorted(public, key=str.casefold):
        value = getattr(module, one)
        if isinstance(value, ModuleType) or (module is not rb and one in rb.__all__):
            continue
        entries.append(entry(f"{short}.{one}", value))
    return f"# `{name}`\n\n{prose(first_line(name))}\n\n" + "\n".join(entries)


def entry(name: str, value: Any) -> str:
    """Return the section of a function, a class with its methods, or a constant."""
    if not callable(value):
        text = repr(value)
        shown = text if len(text) <= 300 else type(value).__name__
        return f"## `{name}`\n\n```python\n{shown}\n```\n"
    text = f"## `{name}`\n\n{call_of(name, value)}{docstring(value)}"
    if not inspect.isclass(value):
        return text
    for method, member_value in vars(value).items():
        function = getattr(member_value, "__func__", member_value)
        is_shown = isinstance(function, FunctionType | property | cached_property)
        if is_shown and not method.startswith("_") and inspect.getdoc(function):
            heading = f"### `{name.rpartition('.')[2]}.{method}`\n\n"
            call = "" if not isinstance(function, FunctionType) else call_of(method, function)
            text += f"\n{heading}{call}{docstring(function)}"
    return text


def call_of(name: str, function: Any) -> str:
    """Return the parameters of a function with their defaults, without types."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return ""
    plain = [
        one.replace(annotation=one.empty, default=_Default(one.default))
        if one.default is not one.empty
        else one.replace(annotation=one.empty)
        for one in parameters
        if one.name not in ("self", "cls")
    ]
    return f"```python\n{name}{inspect.Signature(plain)}\n```\n\n"


class _Default:
    """A default as it is shown: an object without a short form is "..."."""

    def __init__(self, value: object) -> None:
        self.text = repr(value) if " at 0x" not in repr(value) and len(repr(value)) < 60 else "..."

    def __repr__(self) -> str:
        return self.text


HEADINGS = ("Args", "Returns", "Raises", "Yields", "Attributes", "Example")


def docstring(value: Any) -> str:
    """Return a docstring as Markdown: paragraphs, examples as code, its sections as lists."""
    paragraphs = (inspect.getdoc(value) or "").split("\n\n")
    parts: list[str] = []
    for paragraph in paragraphs:
        first, _, rest = paragraph.partition("\n")
        is_section = first.endswith(":") and first[:-1] in HEADINGS and rest.startswith("    ")
        if paragraph.lstrip().startswith(">>>"):
            parts.append(f"```pycon\n{paragraph}\n```")
        elif is_section:
            parts.append(f"**{first[:-1]}**\n\n{items(textwrap.dedent(rest))}")
        elif paragraph.startswith((" ", "- ", "|")) or "\n    " in paragraph:
            parts.append(f"```text\n{paragraph}\n```")
        else:
            parts.append(prose(" ".join(paragraph.split())))
    return "\n\n".join(parts) + "\n"


def items(text: str) -> str:
    """Return the entries of a section, "name: meaning" with indented lines below, as a list."""
    entries = re.split(r"\n(?! )", text)
    if not all(re.match(r"[*\w. ,]+: ", one) for one in entries):
        return prose(" ".join(text.split()))
    lines = []
    for one in entries:
        name, _, meaning = " ".join(one.split()).partition(": ")
        lines.append(f"- **{prose(name)}**: {prose(meaning)}")
    return "\n".join(lines)


def own_names(module: ModuleType) -> list[str]:
    """Return the public names that a module without `__all__` defines."""
    return [
        one
        for one, value in vars(module).items()
        if not one.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]


# Designs

DESIGNS = {
    "framework": (
        "An evaluation by perspective",
        """One command reads labelled questions (types, gold facts, forbidden claims, latency budgets) and reports six
perspectives. The perspective of contexts has the name of the design, `context_quality`.""",
        """ragbench eval --test-set cases.json --docs docs --targets framework --output report
ragbench eval --test-set cases.json --docs docs --targets framework --perspective context_quality""",
    ),
    "guide": (
        "A guide with data sets that are generated every night",
        """The server has the requests of the design: `/api/v1/evaluation/generate`, `/datasets` and `/runs`, by the
targets of the design. Each client with documents gets a fresh data set and an evaluation at night.""",
        """ragbench serve --root clients
ragbench schedule add nightly "0 2 * * *" -- eval --auto-generate-datasets
ragbench schedule list""",
    ),
    "phase4": (
        "Test cases that pass or fail",
        """Cases have `question`, `expectedAnswer`, `requiredKeywords` and `expectedDocumentId`; they are read from a
file or sent to `/evaluation/test-cases`, and `/evaluation/run` has the fields of the design.""",
        """ragbench eval answers.jsonl --test-set test-cases.json --targets phase4 --output result
ragbench serve --root my-evaluation""",
    ),
    "adr": (
        "Search and answer tested one by one (ADR-013)",
        """Reference answers are written to a file, which pytest's fixture `nfcorpus_test_data` reads; the fixtures of
the design are in [CI](../../ci.md). `two_part.ipynb` shows both parts.""",
        """ragbench answers beir/nfcorpus --query PLAIN-2630 --output tests/rag_evaluation/fixtures/ground_truth.json
pytest tests/rag_evaluation""",
    ),
    "pipeline": (
        "A pipeline with cron jobs and an alert",
        """Measures have the names of the design: `ContextRecall`, `ChunkCoherence`, `AnswerRelevance`, in reports,
targets and gates. The cron block becomes a schedule with its alert.""",
        """ragbench eval --test-set tests.json --docs docs --targets pipeline --fail-under "ContextRecall=0.8"
ragbench schedule import cron.yaml --docs docs""",
    ),
}
"""Name of a preset -> title of the design, what is read and answered in its form, and the commands to begin with."""


def design_pages() -> dict[str, str]:
    """Return a page for each published design: commands, targets, and what differs on purpose."""
    text = resources.files("ragbench.evaluation").joinpath("presets.toml").read_text("utf-8")
    tables = tomllib.loads(text)
    pages = {}
    for name, (title, about, commands) in DESIGNS.items():
        parts = [
            f"# {title}",
            f"**You come from a design of this kind?** `--targets {name}` applies its rules.",
        ]
        parts += [about, f"```sh\n{commands}\n```", "## Its targets"]
        parts.append(table(["measure", "target"], _targets_of(tables[name])))
        parts += ["## What differs on purpose", "All else works under the names of the design."]
        parts.append(table(["", "in the design", "here"], _differences_of(name)))
        pages[f"designs/{name}"] = "\n\n".join(parts)
    links = "\n".join(f"designs/{name}" for name in DESIGNS)
    pages["designs"] = f"# Published designs\n\n```{{toctree}}\n:maxdepth: 1\n\n{links}\n```\n"
    return pages


def _targets_of(preset: Mapping[str, Any]) -> list[list[str]]:
    """Return a row for each target of a preset, and for each threshold of a test case."""
    rows = [[code(measure), str(value)] for measure, value in preset["targets"].items()]
    for name, value in preset.get("cases", {}).items():
        rows.append([f"each case: {code(name)}", str(value)])
    return rows


def _differences_of(name: str) -> list[list[str]]:
    """Return the rows of a design in the table of the page "You come from ..."."""
    page = Path(__file__).with_name("coming_from.md").read_text(encoding="utf-8")
    rows = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if len(cells) == 4 and cells[0] == name:
            rows.append(cells[1:])
    return rows


# Files


def file_pages() -> dict[str, str]:
    """Return the page that lists every file of code, table, template and script, with its subject, by
    room.
    """
    package = Path(rb.__file__).parent
    endings = (".py", ".toml", ".j2", ".js")
    paths = [path for path in sorted(package.rglob("*")) if path.suffix in endings]
    rooms: dict[str, list[list[str]]] = {}
    for path in paths:
        folder = path.parent.relative_to(package).as_posix()
        room = "" if folder == "." else f"{folder}/"
        rooms.setdefault(room, []).append([code(path.name), prose(subject_of(path))])
    text = (
        "# Every file, and its subject\n\n"
        "The first paragraph of each file of `ragbench/`. Which of them a change concerns is on "
        "[the reading path](../reading_path.md), for the usual changes.\n\n"
    )
    for room, rows in rooms.items():
        text += f"## `ragbench/{room}`\n\n{table(['file', 'subject'], rows)}\n"
    return {"files": text}


def subject_of(path: Path) -> str:
    """Return the first paragraph of a file, as one line: of its docstring, or of the comment that a
    table, a template or a script begins with; "" if it has neither.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        opening = ast.get_docstring(ast.parse(text)) or ""
    elif path.suffix == ".j2":
        opening = text.removeprefix("{#").split("#}")[0]
    else:
        sign = "//" if path.suffix == ".js" else "#"
        comment = itertools.takewhile(lambda line: line.startswith(sign), text.splitlines())
        opening = "\n".join(line.removeprefix(sign).strip() for line in comment)
    return " ".join(opening.split("\n\n")[0].split())
