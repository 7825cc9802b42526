"""The contract of the notebooks' sources, and the three ways to run them."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import papermill
import pytest

from ragbench import evaluation
from ragbench.evaluation.spec import EvaluationSpec, spec_of
from ragbench.statistics.thresholds import MARGIN
from ragbench.sweep.notebooks import read_notebook
from ragbench.systems.named_systems import pipeline_options
from ragbench.testsets.loader import load_dataset
from ragbench.testsets.writer import save_dataset
from ragbench.types import Case, Dataset, Document
from tests.committed import committed_notebooks

ROOT = Path(__file__).parents[1]
SOURCES = committed_notebooks()
Execute = Callable[..., Any]


def code_cells(path: Path) -> list[Any]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def python_of(cell: Any) -> str:
    return "\n".join(line for line in cell.source.splitlines() if not line.startswith("%"))


@pytest.fixture(params=SOURCES, ids=lambda path: path.stem)
def source(request: pytest.FixtureRequest) -> Path:
    assert isinstance(request.param, Path)
    return request.param


def test_notebooks_are_there() -> None:
    assert {"evaluate", "compare"} <= {path.stem for path in SOURCES}


def test_stored_without_outputs_and_without_a_machines_traces(source: Path) -> None:
    notebook = nbformat.read(source, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
    assert set(notebook.metadata) <= {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name == "python3"


def test_opens_with_a_title_and_the_question_it_answers(source: Path) -> None:
    first = nbformat.read(source, as_version=4).cells[0]
    assert first.cell_type == "markdown"
    titles = ("report.conclusion_markdown", "studies.claims_title", 'title = f"# ', 'title = "# ')
    is_computed = any(title in cell.source for cell in code_cells(source) for title in titles)
    assert first.source.startswith("# ") or is_computed
    assert re.search(r"\*\*.*\?\*\*", first.source, re.DOTALL), "the question is in bold"


def test_one_parameters_cell_typed_and_commented(source: Path) -> None:
    tagged = [cell for cell in code_cells(source) if "parameters" in cell.metadata.get("tags", [])]
    assert len(tagged) == 1
    tree = ast.parse(tagged[0].source)
    for statement in tree.body:
        assert isinstance(statement, ast.AnnAssign), "every parameter has a type"
    lines = [line for line in tagged[0].source.splitlines() if not line.startswith("# ")]
    for line in lines:
        assert re.match(r"\w+: (str|int|float|bool) = .+  # .+", line), (
            f"no help for papermill to show: {line}"
        )
    known = papermill.inspect_notebook(str(source))
    # papermill cannot read a comment that holds an equals sign, and then does not know the
    # parameter at all
    assert list(known) == [line.split(":")[0] for line in lines]
    for name, about in known.items():
        assert about["inferred_type_name"] != "None", name
        assert about["help"], name


def test_imports_are_in_one_cell_right_after_the_parameters(source: Path) -> None:
    cells = code_cells(source)
    importing = [
        i
        for i, cell in enumerate(cells)
        if any(
            isinstance(node, ast.Import | ast.ImportFrom)
            for node in ast.walk(ast.parse(python_of(cell)))
        )
    ]
    assert importing == [1]


def test_cells_define_nothing(source: Path) -> None:
    for number, cell in enumerate(code_cells(source)):
        for node in ast.walk(ast.parse(python_of(cell))):
            assert not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda), (
                f"cell {number} defines something"
            )


def test_a_sentence_on_what_to_look_for_precedes_each_figure(source: Path) -> None:
    cells = nbformat.read(source, as_version=4).cells
    for number, cell in enumerate(cells):
        if (
            cell.cell_type == "code"
            and "plots.plot_" in cell.source
            and "Markdown(" not in cell.source
            and "report.section(" not in cell.source
        ):
            before = [cells[number - 1], cells[number - 2]]
            assert "markdown" in {other.cell_type for other in before}, (
                f"cell {number} draws without a word"
            )
    for cell in cells:
        if cell.cell_type == "markdown":
            assert len(cell.source.split()) > 3


def test_the_key_findings_come_first_and_are_computed(source: Path) -> None:
    starts = ("## Key findings", "report.conclusion_markdown", '"# Not computed yet')
    first = next(
        cell
        for cell in code_cells(source)
        if "report.section(" in cell.source or "display(" in cell.source
    )
    assert any(start in first.source for start in starts), "another cell shows something first"
    assert "report." in first.source or "findings.update(" in "".join(
        cell.source for cell in code_cells(source)
    )


def test_hidden_inputs_are_hidden_everywhere(source: Path) -> None:
    for number, cell in enumerate(code_cells(source)):
        hidden = cell.metadata.get("jupyter", {}).get("source_hidden", False)
        assert hidden == ("hide-input" in cell.metadata.get("tags", [])), (
            f"cell {number}: JupyterLab and Jupyter Book"
        )
        assert hidden == cell.metadata.get("transient", {}).get("remove_source", False), (
            f"cell {number}: nbconvert"
        )


def execute(arguments: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "papermill", "--no-progress-bar", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """evaluate.ipynb run by papermill from a folder that is not the project, with its files kept."""
    folder = tmp_path_factory.mktemp("by hand")
    options = ["-p", "chunk_size", "128", "-p", "retriever", "bm25", "-p", "limit", "12"]
    words = (
        "def answer_words(case, answer, contexts):\n    return min(1.0, "
        "len(answer.text.split()) / 100)\n"
    )
    (folder / "my_measures.py").write_text(words, encoding="utf-8")
    options += ["-p", "measures", "my_measures:answer_words"]
    done = execute(
        [
            str(ROOT / "notebooks/evaluate.ipynb"),
            "out.ipynb",
            *options,
            "-p",
            "results_dir",
            "kept",
        ],
        folder,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def test_evaluate_runs_by_hand_from_any_folder(by_hand: Path) -> None:
    cells = code_cells(by_hand / "out.ipynb")
    figures = sum(
        "image/png" in output.get("data", {}) for cell in cells for output in cell.outputs
    )
    assert figures >= 4
    errors = [
        output for cell in cells for output in cell.outputs if output.output_type in {"error"}
    ]
    assert errors == []
    stderr = "".join(
        output.text for cell in cells for output in cell.outputs if output.get("name") == "stderr"
    )
    # On a busy machine a progress bar shows, drawn and wiped in its line: that is not a warning.
    left = [line for line in stderr.split("\r") if line.strip() and "%|" not in line]
    assert left == [], "no warning is shown"


def _first_text(cells: list[Any]) -> str:
    """The first text that a notebook shows; on a slow machine, progress comes before it."""
    for cell in cells:
        for output in cell.outputs:
            if "text/markdown" in output.get("data", {}):
                return str(output.data["text/markdown"])
    raise AssertionError("the notebook shows no text")


def test_two_part_runs_on_any_beir_folder_and_gives_a_verdict_per_question(
    tmp_path: Path, execute_notebook: Execute
) -> None:
    save_dataset(load_dataset("pydoc").select(["p002", "p003", "p006"]), tmp_path / "small")
    parameters = {"dataset": str(tmp_path / "small"), "queries": "", "min_grade": 1}
    execute_notebook(ROOT / "notebooks/two_part.ipynb", tmp_path, **parameters)
    cells = code_cells(tmp_path / "out.ipynb")
    assert not any(output.output_type == "error" for cell in cells for output in cell.outputs)
    assert any("image/png" in output.get("data", {}) for cell in cells for output in cell.outputs)
    found = _first_text(cells)
    assert "of 3 questions" in found
    assert "Mean recall at k = 10 is" in found


@pytest.mark.parametrize(
    "name", ["history", "questions", "reference_answers", "testset", "two_part"]
)
def test_it_runs_offline_as_it_is(name: str, tmp_path: Path, execute_notebook: Execute) -> None:
    """The others are run as they are by the tests of sweeps and of labels."""
    execute_notebook(ROOT / f"notebooks/{name}.ipynb", tmp_path)
    cells = code_cells(tmp_path / "out.ipynb")
    outputs = [output for cell in cells for output in cell.outputs]
    assert not any(output.output_type == "error" for output in outputs)
    found = _first_text(cells)
    assert found.startswith("## Key findings")
    assert "Not computed" not in found
    assert [output for output in outputs if output.get("name") == "stderr"] == []
    for output in outputs:
        table = output.get("data", {}).get("text/html", "<td>")
        assert "<td" in table, "no table without rows"
    assert [path.name for path in tmp_path.iterdir()] == ["out.ipynb"]


def test_evaluate_takes_measures_of_ones_own(by_hand: Path) -> None:
    scores = pd.read_csv(by_hand / "kept" / "scores.csv")
    assert scores.query("measure == 'answer_words'")["value"].between(0, 1).any()


def test_evaluate_keeps_its_files_in_the_given_folder(by_hand: Path) -> None:
    kept = {path.name for path in (by_hand / "kept").iterdir()}
    assert {"config.json", "run.trec", "answers.jsonl", "scores.csv", "timings.json"} <= kept
    config = json.loads((by_hand / "kept/config.json").read_text(encoding="utf-8"))
    assert config["parameters"]["chunk_size"] == 128
    assert str(by_hand) not in (by_hand / "kept/config.json").read_text(encoding="utf-8")


def test_evaluate_shows_no_nan_and_no_path_of_the_machine(by_hand: Path) -> None:
    shown = "".join(
        text
        for cell in code_cells(by_hand / "out.ipynb")
        for output in cell.outputs
        for text in [*output.get("data", {}).values(), output.get("text", "")]
        if isinstance(text, str) and not text.startswith("iVBOR")
    )
    assert not re.search(r"\bnan\b", shown, re.IGNORECASE)
    assert str(by_hand) not in shown


def test_evaluate_without_a_results_dir_writes_nothing(
    tmp_path: Path, execute_notebook: Execute
) -> None:
    parameters = {"retriever": "bm25", "chunker": "document", "limit": 3}
    execute_notebook(ROOT / "notebooks/evaluate.ipynb", tmp_path, **parameters)
    outputs = [output for cell in code_cells(tmp_path / "out.ipynb") for output in cell.outputs]
    assert outputs
    assert not any(output.output_type == "error" for output in outputs)
    assert [path.name for path in tmp_path.iterdir()] == ["out.ipynb"]


def test_a_misspelt_value_is_refused_in_the_second_cell(tmp_path: Path) -> None:
    done = execute(
        [str(ROOT / "notebooks/evaluate.ipynb"), "out.ipynb", "-p", "chunker", "recursiv"], tmp_path
    )
    assert done.returncode != 0
    assert "did you mean 'recursive'" in done.stderr


@pytest.mark.parametrize(
    ("name", "right", "wrong", "message"),
    [
        (
            "compare",
            "margin: float",
            "margni: float",
            "unknown parameter 'margni'; did you mean 'margin'?",
        ),
        (
            "evaluate",
            "chunk_size: int",
            "chunk_sise: int",
            "unknown parameter 'chunk_sise'; did you mean 'chunk_size'",
        ),
        ("evaluate", "k: int = 5", 'k: int = "5"', "k is '5'; expected a whole number"),
    ],
)
def test_a_wrong_parameter_of_the_notebooks_own_cell_is_refused_in_one_line(
    tmp_path: Path, execute_notebook: Execute, name: str, right: str, wrong: str, message: str
) -> None:
    notebook = nbformat.read(ROOT / f"notebooks/{name}.ipynb", as_version=4)
    notebook.cells[1].source = notebook.cells[1].source.replace(right, wrong)
    nbformat.write(notebook, tmp_path / "mine.ipynb")
    execute_notebook(tmp_path / "mine.ipynb", tmp_path)
    (error,) = [
        o
        for cell in code_cells(tmp_path / "out.ipynb")
        for o in cell.outputs
        if o.output_type == "error"
    ]
    assert len(error.traceback) == 1
    assert error.traceback[0].startswith(f"ConfigError: {message}")


@pytest.mark.parametrize(("questions", "measure"), [(8, "P@3"), (1, "")])
def test_a_folder_with_judgements_only_is_evaluated_and_compared(
    tmp_path: Path, execute_notebook: Execute, questions: int, measure: str
) -> None:
    """What most users bring: no evidence, no reference answers, every question alike, formulas and
    tags in the text.
    """
    folder = tmp_path / "mine"
    (folder / "qrels").mkdir(parents=True)
    words = ["volcano", "cheese", "bicycle", "mosaic", "sourdough", "turbine", "catapult", "tern"]
    lines = {
        "corpus.jsonl": [
            {"_id": word, "title": "", "text": f"All about the {word} | <b>bold</b>."}
            for word in words
        ],
        "queries.jsonl": [
            {"_id": f"q-{word}", "text": f"Is a {word} $\\worth$ it <script>?"}
            for word in words[:questions]
        ],
    }
    for name, records in lines.items():
        (folder / name).write_text(
            "".join(json.dumps(record) + "\n" for record in records), encoding="utf-8"
        )
    judged = "".join(f"q-{word}\t{word}\t1\n" for word in words[:questions])
    (folder / "qrels/test.tsv").write_text(
        f"query-id\tcorpus-id\tscore\n{judged}", encoding="utf-8"
    )
    for size in (32, 64):
        parameters = {
            "dataset": "mine",
            "retriever": "bm25",
            "chunk_size": size,
            "results_dir": f"sweep/{size}",
        }
        execute_notebook(ROOT / "notebooks/evaluate.ipynb", tmp_path, **parameters)
        errors = [
            o
            for cell in code_cells(tmp_path / "out.ipynb")
            for o in cell.outputs
            if o.output_type == "error"
        ]
        assert errors == []
    execute_notebook(ROOT / "notebooks/compare.ipynb", tmp_path, sweep_dir="sweep", measure=measure)
    outputs = [output for cell in code_cells(tmp_path / "out.ipynb") for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert all(output.get("name") != "stderr" for output in outputs), "no warning is shown"
    found = "".join(output["data"].get("text/markdown", "") for output in outputs[:3])
    n = "8 questions" if questions == 8 else "1 question"
    assert f"No decision: only {n} can decide by" in found
    assert not re.search(r"\bnan\b|NA", found)
    assert all("<td" in output.get("data", {}).get("text/html", "<td") for output in outputs), (
        "no table without rows"
    )


def _boxes(notebook: Any) -> list[list[str]]:
    """The red boxes of a notebook's cells, without those of progress bars: a list for each cell."""
    boxes = []
    for cell in notebook.cells:
        outputs = cell.get("outputs", [])
        assert not [output for output in outputs if output.output_type == "error"]
        texts = [output.text for output in outputs if output.get("name") == "stderr"]
        lines = re.split(r"[\r\n]", "".join(texts))
        boxes.append([line for line in lines if line.strip() and "%|" not in line])
    return boxes


def _folder_of_long_and_short_documents(folder: Path) -> Path:
    """A test set whose two long documents and whose reference answer `minilm` cuts."""
    corpus = {f"d{i}": Document(f"d{i}", f"Document {i} is short.") for i in range(38)}
    for name in ("ships", "trains"):
        corpus[name] = Document(name, f"All about {name}. " + f"The {name} are late. " * 70)
    answer = "They are late. " * 100
    case = Case("q1", "Are ships late?", reference_answer=answer)
    save_dataset(Dataset("mine", "test", corpus, (case,), {"q1": {"ships": 1}}), folder)
    return folder


def test_a_warning_of_many_steps_is_one_box_of_an_executed_notebook(
    tmp_path: Path, execute_notebook: Execute
) -> None:
    data = _folder_of_long_and_short_documents(tmp_path / "mine")
    parameters = {"dataset": str(data), "retriever": "dense:minilm", "chunk_size": 400}
    notebook = execute_notebook(ROOT / "notebooks/evaluate.ipynb", tmp_path, **parameters)
    boxes = sorted(box for cell in _boxes(notebook) for box in cell)
    assert len(boxes) == 2, boxes
    assert "40 of 40 documents (100%) of 'mine' fit into one chunk of 400 tokens" in boxes[0]
    assert "minilm reads the first 256 tokens of a text: 2 of 40 texts are longer" in boxes[1]


def test_a_cell_that_runs_again_warns_again(tmp_path: Path, execute_notebook: Execute) -> None:
    data = _folder_of_long_and_short_documents(tmp_path / "mine")
    load = f"import ragbench as rb\ndata = rb.load_dataset({str(data)!r})"
    search = (
        "for size in sizes:\n"
        "    chunks = rb.chunk(data, 'fixed', chunk_size=size)\n"
        "    rb.retrieve(rb.make_retriever('dense:minilm', chunks), data.queries, chunks)"
    )
    sources = ["sizes = [400, 800]", load, search, f"sizes = [800]\n{search}"]
    source = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in sources])
    nbformat.write(source, tmp_path / "sizes.ipynb")
    notebook = execute_notebook(tmp_path / "sizes.ipynb", tmp_path)
    *_, first, second = _boxes(notebook)
    for boxes, size in ((first, 400), (second, 800)):
        assert len(boxes) == 2, boxes
        assert f"fit into one chunk of {size} tokens" in boxes[0]
        assert "minilm reads the first 256 tokens" in boxes[1]


def test_notebooks_have_the_default_margin_of_everything_else() -> None:
    defaults = {
        path.name: read_notebook(path).defaults
        for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
        if "margin: float" in path.read_text(encoding="utf-8")
    }
    assert {name: values["margin"] for name, values in defaults.items()} == {
        "compare.ipynb": MARGIN,
        "label.ipynb": MARGIN,
    }


def test_the_parameters_of_evaluate_have_the_defaults_of_the_library() -> None:
    cell = read_notebook(ROOT / "notebooks/evaluate.ipynb").defaults
    written = spec_of(cell)  # with "" and "a,b" as the tuples that they mean
    default = EvaluationSpec()
    pipeline = pipeline_options().model_fields
    differing: dict[str, tuple[Any, ...]] = {}
    for name, value in cell.items():
        pair: tuple[Any, ...] = ()
        if name in EvaluationSpec.model_fields:
            pair = (getattr(written, name), getattr(default, name))
        elif name in pipeline:
            pair = (value, pipeline[name].default)
        if pair and pair[0] != pair[1]:
            differing[name] = pair
    assert differing == {
        "retriever": ("hybrid:minilm", "bm25"),
        "support_model": ("minilm", ""),  # "" is minilm, which the cell can name for its reader
        "max_context_tokens": (0, None),  # both are no limit; a notebook's parameter has one type
    }


def test_the_types_in_the_call_are_those_of_the_parameters_cell(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`notebook_parameters` names each parameter that `evaluate.ipynb` does not have, so that a misspelt
    one is refused; its types repeat the annotations.
    """
    calls = []

    def record(**types: type) -> None:
        calls.append(types)
        raise EOFError  # nothing after the call is needed

    monkeypatch.setattr(evaluation, "notebook_parameters", record)
    code = "\n".join(map(python_of, code_cells(source)))
    with pytest.raises(EOFError):
        exec(code, {})
    [types] = calls
    if source.stem == "evaluate":
        assert types == {}
    else:
        assert {name: [kind] for name, kind in types.items()} == read_notebook(source).types
