"""The site of the guide: `sphinx-build -W notebooks/guide build/site`. Nothing is loaded from elsewhere."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import reference

import ragbench

project = "ragbench"
author = "ragbench"
copyright = "2026, ragbench"
version = release = ragbench.__version__

extensions = ["myst_nb"]
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]

# Pages
myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3
myst_url_schemes = {"http": None, "https": None, "gallery": "gallery/{{path}}"}
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
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

reference.write(HERE / "generated")


def linked(app: object, name: str, text: list[str]) -> None:
    """Lead links to executed notebooks of `results/` to their pages in the gallery."""
    text[0] = re.sub(r"\]\((?:\.\./)+results/([\w/.-]+)\.ipynb\)", r"](gallery:\1.html)", text[0])


def without_templates(app: Any, problem: Exception | None) -> None:
    """Remove a template that the theme leaves among the files of the site."""
    Path(app.outdir, "_static", "webpack-macros.html").unlink(missing_ok=True)


def setup(app: Any) -> None:
    """Connect what Sphinx calls."""
    app.connect("source-read", linked)
    app.connect("build-finished", without_templates)
