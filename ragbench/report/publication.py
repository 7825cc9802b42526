"""`ragbench publish`: a sweep as static pages with its decision, its leaderboard, every executed
notebook, every question; which HTML of a notebook is kept.

The pages ask nothing of any network. Texts of notebooks come from outside: their HTML is reduced to
text, tables, links and images that lie in the page, and a content security policy forbids the rest.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ragbench.errors import ConfigError, DataError
from ragbench.evaluation import Results, load_results
from ragbench.files import check_writable, staged
from ragbench.report.explorer import explore
from ragbench.report.several import page_html, results_body

INDEX = "index.html"
"""The page that links to all others."""

EXPLORER = "questions.html"
"""The page of all questions."""

_MARK = "<!-- published by ragbench -->"

_TAGS = (
    "a abbr b blockquote br caption code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img kbd li "
    "ol p pre s small span strong sub summary sup table tbody td tfoot th thead tr ul"
).split()
_ATTRIBUTES = "alt class colspan dir id lang open rowspan scope start title".split()
_IMAGE = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]*")
_ADDRESS = re.compile(r"(https?:|mailto:|#|[^:]*$)", re.IGNORECASE)
_DROPPED = re.compile(r"<(style|script|template)\b.*?(</\1\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_LINK = re.compile(r'href="([^"#]*)(#[^"]*)?"')

_STYLE = """
nav{font-size:.9rem;margin-bottom:1rem}
main{overflow-wrap:break-word}
pre{overflow-x:auto;padding:.6rem .8rem;background:#8882;border-radius:6px;font-size:.85rem;line-height:1.4}
.cell{margin:0 0 1rem}.output_area{overflow-x:auto}.dataframe{font-size:.85rem}
summary{cursor:pointer}
@media (max-width:600px){.output_area img{max-width:none}}
"""


def publish(
    folder: str | Path, site: str | Path, *, force: bool = False, questions: bool = True
) -> Path:
    """Write the results of a sweep or a study as a static web site.

    Its pages are the decision with the leaderboard, each executed notebook, and the explorer with all
    questions.

    The pages contain the content of the notebooks (questions, answers, texts of documents): publish
    them to people who may read these.

    Args:
        folder: of a sweep, such as results/quickstart; of a study without results, its notebooks
            alone are published.
        site: a new folder; with `force` one that was published earlier.
        force: replace an earlier site.
        questions: write the explorer, which also holds texts of documents.

    Returns:
        The page to open.

    Raises:
        DataError: the folder holds neither notebooks nor results, or one cannot be read.
        ConfigError: something else is at `site`, or it cannot be written.
    """
    folder, site = Path(folder), Path(site)
    # the comparison first: the index takes its title from the first page
    notebooks = sorted(
        folder.glob("*.ipynb"), key=lambda path: (path.stem != "comparison", path.name)
    )
    results = _results_in(folder)
    if not notebooks and results is None:
        raise DataError(
            f"{folder} holds no executed notebook and no result; expected the folder of a sweep, such "
            "as results/quickstart"
        )
    _check_site(site, force=force)
    # every page is written in memory, so that an unreadable notebook leaves no half of a site
    page_of = {path: f"{path.stem}.html" for path in notebooks}
    linkable = {INDEX, *page_of.values()}
    pages = {
        page: _with_links_to_pages(notebook_html(path), linkable) for path, page in page_of.items()
    }
    if results is not None and questions:
        pages[EXPLORER] = explore(results).html()
    pages[INDEX] = _index_html(folder, results, pages)
    with staged(site) as new:  # a temporary path, which takes the place of the site at the end
        new.mkdir()
        for name, text in pages.items():
            (new / name).write_text(text, encoding="utf-8")
    return site / INDEX


def _results_in(folder: Path) -> Results | None:
    """Return the results of a folder; None if it has none, like the folder of a study, which holds
    only notebooks and tables.

    Raises:
        DataError: it is not a folder, or a result cannot be read.
    """
    if not folder.is_dir():
        raise DataError(
            f"{folder} is not a folder; name the folder of a sweep, such as results/quickstart"
        )
    if not any((path / "scores.csv").is_file() for path in folder.iterdir()):
        return None
    return load_results(folder)


def _check_site(site: Path, *, force: bool) -> None:
    """Raise an error if a site cannot be written here: something else is here, or, without `force`, an
    earlier site.

    Raises:
        ConfigError: the place is taken, or cannot be written.
    """
    if site.exists():
        # a site of ours has a mark in its index; an empty folder may be filled
        index = site / INDEX
        is_ours = index.is_file() and _MARK in index.read_text(encoding="utf-8", errors="replace")
        is_empty = site.is_dir() and not any(site.iterdir())
        if not is_empty and not is_ours:
            raise ConfigError(
                f"{site} holds something other than a published site; name a new folder"
            )
        if not is_empty and not force:
            raise ConfigError(
                f"{site} already exists; name another folder, or replace it with --force"
            )
    try:
        check_writable(site)
    except OSError as exc:
        raise ConfigError(f"{site} cannot be written: {exc.strerror or exc}") from exc


def notebook_html(path: Path) -> str:
    """Write an executed notebook as a page of a site; HTML tags that are not in `_TAGS` are dropped.

    Raises:
        DataError: the file is not a notebook.
    """
    import nbformat
    from nbconvert import HTMLExporter

    exporter: Any = HTMLExporter(  # type: ignore[no-untyped-call]
        template_name="basic",
        exclude_input_prompt=True,
        exclude_output_prompt=True,
        exclude_anchor_links=True,
    )
    try:
        text = path.read_text(encoding="utf-8")
        notebook = nbformat.v4.reads(text)  # type: ignore[no-untyped-call]
        _show_alternative_texts(notebook)  # changes the notebook in place
        body, _ = exporter.from_notebook_node(notebook)
    except (OSError, AttributeError, KeyError, TypeError, ValueError) as exc:
        raise DataError(
            f"{path} is not a notebook of format 4: {type(exc).__name__}: {exc}"
        ) from exc
    body = _sanitized(body)
    # the title of the page: its first heading without tags, else the name of the file
    heading = re.search(r"<h1[^>]*>(.*?)</h1>", body, re.DOTALL)
    title = html.unescape(re.sub(r"<[^>]+>", "", heading[1])) if heading else path.stem
    navigation = f'<nav><a href="{INDEX}">All configurations</a></nav>'
    return page_html(title.strip(" ¶\n"), navigation + body, _STYLE + _code_style())


def _code_style() -> str:
    """Return the CSS for the colours of code, on light and on dark pages."""
    from pygments.formatters import HtmlFormatter

    light = HtmlFormatter(style="default", nobackground=True).get_style_defs(".highlight")
    dark = HtmlFormatter(style="github-dark", nobackground=True).get_style_defs(".highlight")
    return f"{light}@media (prefers-color-scheme: dark){{{dark}}}"


def _show_alternative_texts(notebook: Any) -> None:
    """Replace images of a notebook by HTML with their alternative texts, which nbconvert leaves out.

    The text of an image is in its metadata; images without one stay.
    """
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            alt = output.get("metadata", {}).get("image/png", {}).get("alt")
            if alt and "image/png" in output.data:
                source = f"data:image/png;base64,{output.data['image/png'].strip()}"
                image = f'<p><img alt="{html.escape(str(alt))}" src="{html.escape(source)}"></p>'
                output.data["text/html"] = image


def _sanitized(body: str) -> str:
    """Return HTML without scripts, event handlers, and images from other places.

    Text, tables and links stay, and images whose data are in the HTML itself. Scripts and styles are
    removed with their content; of other tags that are not allowed, the content stays.

    >>> _sanitized('<p onclick="x()">a<script>b</script><img src="https://c.example/d.png" alt="e"></p>')
    '<p>a<img alt="e"></p>'
    """
    import bleach

    cleaned: str = bleach.clean(
        _DROPPED.sub("", body),
        tags=_TAGS,
        attributes=_is_allowed,
        protocols=["http", "https", "mailto", "data"],
        strip=True,
    )
    return cleaned


def _is_allowed(tag: str, name: str, value: str) -> bool:
    """Return True for an attribute that neither runs nor loads anything.

    Args:
        tag: the tag that has it, such as "img".
        name: its name, such as "src".
        value: its value: an image must be data in the page, a link an address of the web, of mail,
            in the page or to a file next to it.
    """
    if tag == "img" and name == "src":
        return bool(_IMAGE.fullmatch(value))
    if tag == "a" and name == "href":
        return bool(_ADDRESS.match(value.strip()))
    return name in _ATTRIBUTES


def _with_links_to_pages(text: str, pages: Collection[str]) -> str:
    """Return the HTML of a page in which links to notebooks lead to their pages in the site. Links to
    files that are not among its `pages` become plain text.

    >>> _with_links_to_pages('<a href="a.ipynb#cell-id=x">A</a> <a href="b.csv">B</a>', {"a.html"})
    '<a href="a.html#cell-id=x">A</a> <a>B</a>'
    """

    def new_target(match: re.Match[str]) -> str:
        address, anchor = match[1], match[2] or ""  # "a.ipynb", "#cell-id=x"
        page = re.sub(r"\.ipynb$", ".html", address)
        is_file = address and ":" not in address  # not an anchor, nor an address with https:
        if is_file and page not in pages:
            return ""
        return f'href="{page}{anchor}"'

    # a link whose target was deleted is left as "<a >"
    return _LINK.sub(new_target, text).replace("<a >", "<a>")


def _index_html(folder: Path, results: Results | None, pages: Mapping[str, str]) -> str:
    """Return the HTML of the index page, which links to all pages of the site.

    It begins with the decision and the leaderboard, or, without results, with a heading.

    Args:
        folder: the published folder, whose name is the title.
        pages: file name -> HTML.
    """
    name = folder.resolve().name
    label_of = {}  # name of a page without ".html" -> text of its link
    if results is None:
        body = f"<h1>{html.escape(_title_of(pages) or name)}</h1>"
    else:
        body = results_body(results)
        for configuration in results.conclude().arms:
            label_of[configuration.name] = configuration.label
    label_of["comparison"] = "The comparison, with all its evidence"
    label_of[EXPLORER.removesuffix(".html")] = "Every question: answers, contexts, evidence"
    items = []
    for page in pages:
        stem = page.removesuffix(".html")
        label = label_of.get(stem, stem)  # other pages are labelled by their name
        items.append(f'<li><a href="{html.escape(page)}">{html.escape(label)}</a></li>')
    links = f"<h2>Pages</h2><ul>{''.join(items)}</ul>"
    return page_html(name, f"{_MARK}{body}{links}", _STYLE)


def _title_of(pages: Mapping[str, str]) -> str:
    """Return the title of the first notebook, which is the comparison if there is one."""
    first = next(iter(pages.values()), "")
    match = re.search(r"<title>(.*?)</title>", first, re.DOTALL)
    return html.unescape(match[1]) if match else ""
