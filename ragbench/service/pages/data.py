"""The pages of data: data sets, their cases, and editing a case that no one else has changed meanwhile."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import HTMLResponse

from ragbench.errors import DataError
from ragbench.service import api
from ragbench.service.folders import described, etag, folder_of, load
from ragbench.service.pages.rendering import Form, PageRoute, Runner, Visitor, page, redirect
from ragbench.testsets.edits import case_record

router = APIRouter(prefix="/data", route_class=PageRoute, include_in_schema=False)
_CASES = 100  # of a page


@router.get("")
def data(request: Request, who: Visitor, client: str | None = None) -> HTMLResponse:
    """The data sets of a client."""
    of = who.reads(client) or ""
    return page(request, "data", who, rows=api.list_datasets(request, who, of or None), client=of)


@router.get("/{name}")
def dataset(
    request: Request, who: Visitor, name: str, client: str | None = None, category: str = "", text: str = "",
    first: int = 0,
) -> HTMLResponse:  # fmt: skip
    """A data set with its cases."""
    of = who.reads(client) or ""
    place = folder_of(request, of).testset(name)
    words = text.casefold().split()
    cases = [
        one for one in load(place).cases
        if category in ("", one.category) and all(word in f"{one.query_id} {one.text}".casefold() for word in words)
    ]  # fmt: skip
    first = max(0, first)
    return page(
        request, "dataset", who, about=described(place), client=of, cases=cases[first : first + _CASES],
        count=len(cases), first=first, size=_CASES, category=category, text=text,
    )  # fmt: skip


@router.get("/{name}/case")
def case_form(request: Request, who: Visitor, name: str, id: str = "", client: str | None = None) -> HTMLResponse:
    """The form of a case; without an id of a new one."""
    of = who.reads(client) or ""
    place = folder_of(request, of).testset(name)
    try:
        record = case_record(load(place), id) if id else {}
    except DataError as exc:
        raise HTTPException(404, "there is no such case") from exc
    return page(request, "case", who, name=name, client=of, record=record, tag=etag(record), theirs=None)


@router.post("/{name}/case")
def save_case(request: Request, who: Runner, name: str, form: Form) -> Response:
    """Add, change or remove a case; what someone else changed meanwhile is shown, and not overwritten."""
    of, query_id = who.writes(form.get("client") or None), form.get("query_id", "").strip()
    folder, fields = folder_of(request, of), _fields(form)
    place = folder.testset(name)
    try:
        if "new" in form:
            api.add_record(folder, name, {"query_id": query_id, **fields} if query_id else fields)
        elif "remove" in form:
            api.remove(request, who, query_id, name, form.get("tag", ""), of or None)
        else:
            api.change_record(folder, name, query_id, fields, form.get("tag", ""))
    except HTTPException as exc:
        if exc.status_code != 412:
            raise
        theirs = case_record(load(place), query_id)
        mine = {**theirs, **fields}
        return page(request, "case", who, status=412, name=name, client=of, record=mine, tag=etag(theirs),
                    theirs=theirs)  # fmt: skip
    return redirect(f"/data/{name}", client=of)


def _fields(form: dict[str, str]) -> dict[str, Any]:
    """The labels that the form has, as a record holds them.

    >>> _fields({"text": "Why?", "relevant": "d1 = 2"})["relevant"]
    {'d1': 2}

    Raises:
        DataError: a relevant document with a grade that is not a number.
    """
    lines = {name: [line.strip() for line in form.get(name, "").splitlines() if line.strip()]
             for name in ("required_keywords", "relevant")}  # fmt: skip
    relevant = {}
    for line in lines["relevant"]:
        doc_id, _, grade = line.rpartition("=") if "=" in line else (line, "=", "1")
        if not grade.strip().isdecimal():
            raise DataError(f"{line!r} is not a relevant document; expected its id, or its id and grade: guide = 2")
        relevant[doc_id.strip()] = int(grade)
    texts = {name: form.get(name, "").replace("\r\n", "\n") for name in ("text", "category", "reference_answer")}
    return {**texts, "reference_answer": texts["reference_answer"] or None, "relevant": relevant,
            "required_keywords": lines["required_keywords"]}  # fmt: skip
