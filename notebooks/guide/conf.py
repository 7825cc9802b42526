"""The site of the guide: `sphinx-build -W notebooks/guide build/site`. Nothing is loaded from elsewhere."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import reference

import ragbench
from ragbench.report import publish

project = "ragbench"
author = "ragbench"
copyright = "2026, ragbench"
version = release = ragbench.__version__

extensions = ["myst_nb"]
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]

# Pages
myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3
smartquotes = False  # "--option" stays as it is typed
myst_url_schemes = {"http": None, "https": None, "gallery": "gallery/{{path}}"}
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_timeout = 120
nb_merge_streams = True
nb_render_markdown_format = "myst"

# The site
html_theme = "pydata_sphinx_theme"
html_title = f"ragbench {release}"
html_static_path = ["_static"]
html_css_files = ["guide.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_version_warning_banner": False,
    "navbar_align": "left",
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "logo": {"text": "ragbench"},
}

GENERATED = HERE / "generated"
html_extra_path = ["generated/extra"]
exclude_patterns += ["generated/extra"]


def linked(app: object, name: str, text: list[str]) -> None:
    """Lead links to `results/`, its folders and executed notebooks, to their pages in the gallery."""
    notebook = re.sub(r"\]\((?:\.\./)+results/([\w/.-]+)\.ipynb\)", r"](gallery:\1.html)", text[0])
    text[0] = re.sub(r"\]\((?:\.\./)+results/([\w-]+)/\)", r"](gallery:\1/index.html)", notebook)


def with_colab(notebook: str, name: str, repository: str) -> str:
    """Return a notebook (JSON) with a link that opens it in Colab, and the command that installs ragbench there.

    `repository` is "owner/name" on GitHub: `sphinx-build -D repository=owner/name notebooks/guide build/site`.
    """
    github = f"github.com/{repository}"
    address = f"https://colab.research.google.com/{github.replace('.com', '')}/blob/main/notebooks/guide/{name}.ipynb"
    install = f'%pip install "ragbench-lab @ git+https://{github}"'
    source = f"[Open in Colab]({address}){{.colab}}; there, first run `{install}`."
    cell = {"cell_type": "markdown", "id": "open-in-colab", "metadata": {}, "source": source}
    content = json.loads(notebook)
    content["cells"].insert(1, cell)
    return json.dumps(content)


def add_colab(app: Any, name: str, text: list[str]) -> None:
    """Add the link to every story that is a notebook, where the repository is known."""
    if app.config.repository and (HERE / f"{name}.ipynb").is_file():
        text[0] = with_colab(text[0], name, app.config.repository)


def write_gallery(folder: Path) -> None:
    """Publish every committed sweep and study."""
    studies = (
        "chunking",
        "judges",
        "study_best",
        "study_tests",
        "study_techniques",
        "study_drafts",
    )
    for results in ("quickstart", *studies):
        publish(HERE.parents[1] / "results" / results, folder / results, force=True)


def add_alternative_texts() -> None:
    """Give figures of notebooks the text that their cell stored with them, which MyST-NB leaves out."""
    from myst_nb.core.render import MimeData, NbElementRenderer

    render_image = NbElementRenderer.render_image

    def render_image_with_text(renderer: NbElementRenderer, data: MimeData) -> list[Any]:
        nodes = render_image(renderer, data)
        text = data.output_metadata.get(data.mime_type, {}).get("alt")
        if text:
            for node in nodes:
                node["alt"] = text
        return nodes

    NbElementRenderer.render_image = render_image_with_text


def without_templates(app: Any, problem: Exception | None) -> None:
    """Remove a template that the theme leaves among the files of the site."""
    Path(app.outdir, "_static", "webpack-macros.html").unlink(missing_ok=True)


def setup(app: Any) -> None:
    """Write the pages that are made from the code and from results, and connect what Sphinx calls."""
    reference.write(GENERATED)
    write_gallery(GENERATED / "extra" / "gallery")
    add_alternative_texts()
    app.add_config_value("repository", "", "env")
    app.connect("source-read", linked)
    app.connect("source-read", add_colab)
    app.connect("build-finished", without_templates)
