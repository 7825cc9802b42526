"""`ragbench publish`: a sweep as static pages for the colleague who only opens a link."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragbench.cli.console import shown
from ragbench.cli.options import Force


def publish_command(
    results: Annotated[Path, typer.Argument(metavar="RESULTS")],
    site: Annotated[Path, typer.Argument(metavar="SITE")],
    *,
    no_questions: bool = False,
    force: Force = False,
) -> None:
    """Write a sweep as static pages: the decision, the leaderboard, each executed notebook, and every
    question.

    The pages load nothing from elsewhere and can be put on any web server or opened from the disk.
    They hold everything that the notebooks show, also texts of documents: take care who gets them.

    Args:
        results: Folder of a sweep or a study.
        site: A new folder for the pages; open its index.html.
        no_questions: Leave out the page of all questions, which holds texts of documents.

    Example: ragbench publish results/quickstart site
    """
    from ragbench.report import publish

    page = publish(results, site, force=force, questions=not no_questions)
    typer.echo(f"Written to {shown(page)}")
