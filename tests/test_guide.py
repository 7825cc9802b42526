"""The guide: its pages are made from the code, the site builds without a warning and loads nothing from elsewhere."""

from __future__ import annotations

import html.parser
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import ragbench as rb
from ragbench.registry import find_measure
from tests.committed import guide_pages

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "notebooks" / "guide"
COMMAND = "-m sphinx -W --keep-going -q -E"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", GUIDE / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def conf(reference: ModuleType) -> ModuleType:
    spec = importlib.util.spec_from_file_location("conf", GUIDE / "conf.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_story_opens_in_colab_and_installs_from_the_repository(conf: ModuleType) -> None:
    story = (GUIDE / "judge.ipynb").read_text(encoding="utf-8")
    opened = json.loads(conf.with_colab(story, "judge", "someone/ragbench"))
    plain = json.loads(story)
    assert opened["cells"][0] == plain["cells"][0]
    assert opened["cells"][2:] == plain["cells"][1:]
    added = opened["cells"][1]["source"]
    assert (
        "https://colab.research.google.com/github/someone/ragbench/blob/main/notebooks/guide/judge.ipynb"
        in added
    )
    assert '%pip install "ragbench-lab @ git+https://github.com/someone/ragbench"' in added
    app = SimpleNamespace(config=SimpleNamespace(repository=""))
    text = [story]
    conf.add_colab(app, "judge", text)
    assert text == [story]  # without a repository there is nothing to open


@pytest.fixture(scope="module")
def pages(reference: ModuleType) -> dict[str, str]:
    made: dict[str, str] = {
        **reference.measure_pages(),
        **reference.command_pages(),
        **reference.parameter_pages(),
        **reference.name_pages(),
        **reference.design_pages(),
        **reference.file_pages(),
    }
    return made


def test_every_measure_has_a_section_with_range_source_and_meaning(pages: dict[str, str]) -> None:
    text = "\n".join(pages[name] for name in pages if name.startswith("measures/"))
    for name in map(str, rb.measures()["measure"]):
        if name.startswith(("span:", "chunk:")) or find_measure(name) is None:
            continue
        section = text.split(f"\n## `{name}`\n")[1].split("\n## ")[0]
        assert "- **Range**: " in section, name
        assert "- **Source**: " in section, name
        if name in ("nDCG@{k}", "AP", "span_recall@{k}"):
            assert "- **Formula**: " in section, name
        assert len(section.split("\n")[1]) > 10, name


def test_the_example_of_a_measure_is_computed(pages: dict[str, str]) -> None:
    # grades 2, 1 are relevant; found: nothing at rank 1, grade 2 at rank 2
    section = pages["measures/retrieval"].split("## `nDCG@{k}`")[1].split("\n## ")[0]
    assert "`nDCG@5` = 0.480" in section  # (2 / log2(3)) / (2 + 1 / log2(3))
    assert "`RR` = 0.500" in pages["measures/retrieval"]


def test_every_option_of_a_command_is_on_its_page(pages: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ragbench", "eval", "--help"], capture_output=True, text=True
    )
    options = set(re.findall(r"--[a-z][a-z-]+", done.stdout)) - {"--help"}
    assert len(options) > 20
    assert {name for name in options if f"`{name}" not in pages["commands/eval"]} == set()


def test_every_option_of_an_evaluation_and_every_notebook_is_on_the_page_of_parameters(
    pages: dict[str, str],
) -> None:
    for name in rb.EvaluationSpec.model_fields:
        assert f"| `{name}` |" in pages["parameters"]
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        section = pages["parameters"].split(f"## `{path.name}`")[1].split("\n## ")[0]
        assert section.count("\n| `") >= 1, path


def test_every_design_has_a_page_with_its_targets_and_what_differs(pages: dict[str, str]) -> None:
    presets = tomllib.loads((ROOT / "ragbench/evaluation/presets.toml").read_text("utf-8"))
    for name, tables in presets.items():
        page = pages[f"designs/{name}"]
        for measure, target in tables["targets"].items():
            assert f"| `{measure}` | {target} |" in page
        rows = page.split("## What differs on purpose")[1].strip().splitlines()[4:]
        assert len(rows) >= 4, name
        assert all(len(row.split(" | ")) == 3 and "|  |" not in row for row in rows), rows
    assert "for faq, comparison, research; a warning" in pages["designs/framework"]


def test_the_commands_of_the_designs_exist(pages: dict[str, str]) -> None:
    for name in ("framework", "guide", "phase4", "adr", "pipeline"):
        [block] = re.findall(r"```sh\n(.*?)```", pages[f"designs/{name}"], re.DOTALL)
        for line in block.splitlines():
            words = shlex.split(line)
            if words[0] == "pytest":
                continue
            page = pages[f"commands/{words[1]}"]
            assert words[0] == "ragbench"
            own = words[: words.index("--")] if "--" in words else words
            options = {word for word in own if word.startswith("--")}
            assert {option for option in options if f"`{option}" not in page} == set(), line


def test_every_public_name_has_an_entry(pages: dict[str, str]) -> None:
    for name in rb.__all__:
        if not isinstance(getattr(rb, name), ModuleType):
            assert f"\n## `rb.{name}`\n" in pages["names/ragbench"]


def test_every_file_is_listed_with_its_subject(pages: dict[str, str]) -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| (.*) \|$", pages["files"], re.MULTILINE)
    package = ROOT / "ragbench"
    files = [path for path in package.rglob("*") if path.suffix in (".py", ".toml", ".j2", ".js")]
    assert len(rows) == len(files)
    assert [name for name, subject in rows if not subject] == []
    subjects = dict(rows)
    assert subjects["cron_file.py"].startswith("Schedules of a YAML file")
    assert subjects["leaks.toml"]
    for _, subject in rows:  # the names of other files in it, such as `judges/prompts`
        for path in re.findall(r"`([a-z_]+/[a-z_/]+)`", subject):
            assert (package / f"{path}.py").exists(), subject


def test_a_docstring_becomes_markdown_that_shows_it(reference: ModuleType) -> None:
    def double(n: int) -> int:
        """Return twice `n`, as in 2 * n.

        Args:
            n: a number_,
                or two.

        >>> 2 + 2
        4
        """
        return 2 * n

    assert reference.docstring(double) == (
        "Return twice `n`, as in 2 \\* n.\n\n**Args**\n\n- **n**: a number\\_, or two.\n\n"
        "```pycon\n>>> 2 + 2\n4\n```\n"
    )


def test_the_reading_path_names_files_and_functions_that_exist() -> None:
    text = (GUIDE / "reading_path.md").read_text(encoding="utf-8")
    path = text.split("## Ten files")[1]
    rows = re.findall(r"\| (\d+) \| (.*?) \| (.*?) \|", path)
    assert [int(number) for number, _, _ in rows] == [*range(1, 11)]
    for _, files, names in rows:
        sources = [
            (ROOT / file).read_text(encoding="utf-8") for file in re.findall(r"`(.+?)`", files)
        ]
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"(def|class) {name}\b", "\n".join(sources)), name
    for file in re.findall(
        r"`([a-z]+/[a-z_]*(?:\.py)?)`", text.split("Answers:")[1].split("##")[0]
    ):
        assert (ROOT / "ragbench" / file).exists(), file


def test_where_changes_go_names_what_is_there() -> None:
    """Of names and a file, such as `save`, `load_result` in `evaluation/folder.py`, the file exists and
    holds each name.
    """
    text = (GUIDE / "reading_path.md").read_text(encoding="utf-8")
    name = r"`\w+`(?: \([^)]*\))?"
    names = rf"((?:{name}(?:, and |, | and )?)+)"
    named = names + r"(?: below `\[\w+\]`)? in (?:all )?`([\w/]+\.(?:py|pyi|toml))`"
    found = re.findall(named, text.split("Answers:")[1])
    assert len(found) >= 40
    for names, file in found:
        source = (ROOT / "ragbench" / file).read_text(encoding="utf-8")
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"\b{name}\b", source), f"{name} in {file}"
    for file in re.findall(r"`([a-z_]+/[a-z_/]*(?:\.(?:py|toml))?)`", text.split("Answers:")[1]):
        assert (ROOT / "ragbench" / file).exists() or (ROOT / file).exists(), file


def test_stories_are_stored_without_outputs_and_open_with_their_question() -> None:
    stories = [path for path in guide_pages() if path.suffix == ".ipynb"]
    assert len(stories) >= 4
    for path in stories:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        assert set(notebook["metadata"]) <= {"kernelspec", "language_info"}
        cells = notebook["cells"]
        assert [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []
        opening = "".join(cells[0]["source"])
        assert re.match(r"# .+\n\n\*\*[^*]+\?\*\*", opening), path.name


# --- the site


class Links(html.parser.HTMLParser):
    """What a page loads, where it leads, the anchors that it has, and figures without a text."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.figures_without_text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "img":
            alternative = values.get("alt", "").strip()
            if not alternative or alternative == values.get(
                "src"
            ):  # Sphinx puts the file's name there
                self.figures_without_text.append(values.get("src", "")[:80])
        if tag == "a" and "href" in values:
            self.targets.append(values["href"])
        elif tag == "link" and "href" in values:
            self.loaded.append(values["href"])
        elif (
            tag in ("script", "img", "iframe", "source", "video", "audio", "embed")
            and "src" in values
        ):
            self.loaded.append(values["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guide as a site: the one in the folder GUIDE_SITE, which `.ci/run` has just built, or a new one."""
    if built := os.environ.get("GUIDE_SITE"):
        return Path(built)
    for name in ("sphinx", "myst_nb", "pydata_sphinx_theme"):
        pytest.importorskip(name, reason="needs the extra docs: pip install 'ragbench-lab[docs]'")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, *COMMAND.split(), str(GUIDE), str(folder)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def parsed(site: Path) -> dict[Path, Links]:
    links = {}
    for path in site.rglob("*.html"):
        links[path] = Links()
        links[path].feed(path.read_text(encoding="utf-8"))
    return links


def test_nothing_is_loaded_from_elsewhere(site: Path, parsed: dict[Path, Links]) -> None:
    for page, links in parsed.items():
        outside = [url for url in links.loaded if urlsplit(url).scheme not in ("", "data")]
        assert outside == [], page
        assert [url for url in links.loaded if url.startswith("//")] == [], page
    for path in site.rglob("*.css"):
        urls = re.findall(
            r"(?:@import|url\()\s*['\"]?(?:https?:)?//[^)'\"]+", path.read_text("utf-8")
        )
        assert urls == [], path


def test_every_link_of_the_site_leads_somewhere(site: Path, parsed: dict[Path, Links]) -> None:
    broken = []
    for page, links in parsed.items():
        for target in (*links.targets, *links.loaded):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not file.exists():
                broken.append(f"{page.relative_to(site)}: {target}")
            elif (
                parts.fragment
                and file in parsed
                and unquote(parts.fragment) not in parsed[file].anchors
            ):
                broken.append(f"{page.relative_to(site)}: {target} (no such place)")
    assert broken == []


def test_every_figure_of_the_site_has_alternative_text(parsed: dict[Path, Links]) -> None:
    without_text = {page.name: links.figures_without_text for page, links in parsed.items()}
    assert {page: figures for page, figures in without_text.items() if figures} == {}


def test_search_finds_a_measure_in_a_browser(site: Path, browser: Any) -> None:
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "search.html").as_uri() + "?q=span_recall")
    page.wait_for_selector("#search-results li a", timeout=20_000)
    assert "measures/retrieval" in "".join(
        link.get_attribute("href") or "" for link in page.query_selector_all("#search-results li a")
    )
    page.goto((site / "index.html").as_uri())
    assert [url for url in asked if not url.startswith("file:")] == []
    page.close()
