"""Pages as HTML: the templates, errors that a reader understands, and who may see a page."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import Depends, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute

from ragbench.errors import RagbenchError
from ragbench.report.page import interval
from ragbench.report.page.html import visible
from ragbench.report.page.sentences import templates
from ragbench.service.access import Caller, caller, csrf_token, needs

if TYPE_CHECKING:
    from jinja2 import Template


@lru_cache(maxsize=32)
def _template(name: str) -> Template:
    from jinja2 import PackageLoader

    environment = templates(autoescape=True, finalize=visible)
    environment.loader = PackageLoader("ragbench.service.pages")
    environment.filters |= {
        "bounds": lambda row: interval(row["ci_low"], row["ci_high"]), "query": urlencode,
        "minute": lambda at: str(at or "")[:16].replace("T", " "),
    }  # fmt: skip
    return environment.get_template(f"{name}.html.j2")


def page(
    request: Request, template: str, visitor: Caller | None, /, *, status: int = 200, **shown: Any
) -> HTMLResponse:
    """A page with what its template shows."""
    text = _template(template).render(visitor=visitor, csrf=csrf_token(request), path=request.url.path, **shown)
    return HTMLResponse(text, status)


def redirect(path: str, **query: str) -> RedirectResponse:
    """To another page, after a form was sent."""
    return RedirectResponse(f"{path}?{urlencode(query)}" if query else path, 303)


async def visitor(request: Request) -> Caller:
    """The caller; one without a key is sent to the login, and from there back."""
    try:
        found = await caller(request)
    except HTTPException as exc:
        if exc.status_code != 401 or request.method != "GET":
            raise
        wanted = quote(f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path)
        raise HTTPException(303, headers={"Location": f"/login?to={wanted}"}) from exc
    request.state.visitor = found
    return found


async def form(request: Request) -> dict[str, str]:
    """The fields of the form that was sent."""
    return {name: value for name, value in (await request.form()).items() if isinstance(value, str)}


Visitor = Annotated[Caller, Depends(visitor)]
Runner = Annotated[Caller, Depends(needs("runner"))]
Admin = Annotated[Caller, Depends(needs("admin"))]
Form = Annotated[dict[str, str], Depends(form)]


class PageRoute(APIRoute):
    """Errors of a page are pages, too."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()

        async def handled(request: Request) -> Response:
            status, headers = 422, dict[str, str]()
            try:
                return await answer(request)
            except RequestValidationError:
                text = "The address or the form is not complete."
            except HTTPException as exc:
                if exc.status_code == 303:
                    raise
                status, text, headers = exc.status_code, exc.detail, dict(exc.headers or {})
            except RagbenchError as exc:
                text = str(exc).replace(f"{request.app.state.root}/", "")
            shown = page(request, "error", getattr(request.state, "visitor", None), status=status, text=text)
            shown.headers.update(headers)
            return shown

        return handled
