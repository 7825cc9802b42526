"""Pages as HTML: how templates are filled, errors that a reader understands, and who may see a
page.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

from fastapi import Depends, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute

from ragbench.errors import RagbenchError, visible
from ragbench.report.page import interval
from ragbench.report.page.sentences import templates
from ragbench.service.access import NO_KEY, Session, needs
from ragbench.service.responses import without_folders

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup


@lru_cache(maxsize=32)
def _template(name: str) -> Template:
    """Return a template of a page, by its name without ending.

    Every text in it is escaped, and its control signs are shown as visible signs (`visible`).
    """
    from jinja2 import PackageLoader

    environment = templates(autoescape=True, finalize=visible)
    environment.loader = PackageLoader("ragbench.service.pages")
    environment.filters["bounds"] = lambda row: interval(row["ci_low"], row["ci_high"])
    environment.filters["query"] = urlencode
    environment.filters["minute"] = lambda at: str(at or "")[:16].replace("T", " ")
    return environment.get_template(f"{name}.html.j2")


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Render a page from its template and `values`; the template gets the visitor's key, too."""
    visitor = getattr(request.state, "key", None)
    text = _template(template).render(visitor=visitor, path=request.scope["path"], **values)
    return HTMLResponse(text, status)


def drawn(macro: str, *values: Any) -> Markup:
    """Return the HTML that a macro of `parts.html.j2` makes of these values, for a page to include."""
    text: Markup = getattr(_template("parts").module, macro)(*values)
    return text


async def form_of(request: Request) -> dict[str, str]:
    """Return the fields of the form that was sent; {} for a body of another kind, which no page sends.

    The fields of multipart/form-data would be decoded by the codec that its sender names.
    """
    kind, _, _ = request.headers.get("content-type", "").partition(";")
    if kind.strip().lower() != "application/x-www-form-urlencoded":
        return {}
    form = await request.form()
    return {name: value for name, value in form.items() if isinstance(value, str)}


async def client_of_page(request: Request) -> str | None:
    """Return the client that the form or the address of a page names; None if neither names one."""
    fields = await form_of(request)
    return fields.get("client") or request.query_params.get("client") or None


Visitor = Annotated[Session, needs("reader", Depends(client_of_page))]
Runner = Annotated[Session, needs("runner", Depends(client_of_page))]
FormFields = Annotated[dict[str, str], Depends(form_of)]


class PageRoute(APIRoute):
    """A route whose errors are pages, too; a visitor without a key gets the page to log in."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of requests."""
        answer = super().get_route_handler()

        async def answer_with_pages(request: Request) -> Response:
            try:
                return await answer(request)
            except (RequestValidationError, HTTPException, RagbenchError) as exc:
                return _error_page(request, exc)

        return answer_with_pages


def _error_page(request: Request, exc: Exception) -> HTMLResponse:
    """Return the page for an error of a request; for a visitor without a key the page to log in."""
    if isinstance(exc, HTTPException) and exc.status_code == 401:
        return page(request, "login", 401, text="" if exc.detail == NO_KEY else exc.detail)
    if isinstance(exc, HTTPException):
        return page(request, "error", exc.status_code, text=exc.detail)
    if isinstance(exc, RequestValidationError):
        return page(request, "error", 422, text="The address or the form is not complete.")
    text = without_folders(str(exc), request.app.state.root)
    return page(request, "error", 422, text=text)
