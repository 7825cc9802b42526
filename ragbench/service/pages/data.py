"""The pages of data: data sets, their cases, and editing a case that no one else has changed meanwhile."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, HTTPException, Response
from fastapi.responses import HTMLResponse

from ragbench.errors import DataError
from ragbench.service import api
from ragbench.service.folders import described, etag, load
from ragbench.service.pages.html_pages import Form, PageRoute, Runner, Visitor, page, redirect
from ragbench.testsets.edits import case_record

router = APIRouter(prefix="/data", route_class=PageRoute, include_in_schema=False)
_CASES = 100  # of a page
_TEXTS = ("text", "category", "reference_answer")


@router.get("")
def datasets(who: Visitor) -> HTMLResponse:
    """Show the data sets of a client."""
    return page(who.request, "data", rows=api.list_datasets(who), client=who.owner)


@router.get("/{name}")
def dataset(who: Visitor, name: str, category: str = "", text: str = "", first: int = 0) -> HTMLResponse:
    """Show a data set with its cases."""
    path = who.folder.testset(name)
    words = text.casefold().split()
    cases = [
        case
        for case in load(path).cases
        if category in ("", case.category) and all(word in f"{case.query_id} {case.text}".casefold() for word in words)
    ]
    first = max(0, first)
    values: dict[str, Any] = {"category": category, "text": text, "first": first, "size": _CASES, "count": len(cases)}
    cases = cases[first : first + _CASES]
    return page(who.request, "dataset", about=described(path), client=who.owner, cases=cases, **values)


@router.get("/{name}/case")
def case_form(who: Visitor, name: str, id: str = "") -> HTMLResponse:
    """Show the form of a case; without an id of a new one."""
    path = who.folder.testset(name)
    try:
        record = case_record(load(path), id) if id else {}
    except DataError as exc:
        raise HTTPException(404, "there is no such case") from exc
    return page(who.request, "case", name=name, client=who.owner, record=record, tag=etag(record), theirs=None)


@router.post("/{name}/case")
def save_case(who: Runner, name: str, form: Form) -> Response:
    """Add, change or remove a case; what someone else changed meanwhile is shown, and not overwritten."""
    query_id, fields = form.get("query_id", "").strip(), _fields(form)
    path = who.folder.testset(name)
    try:
        if "new" in form:
            api.add_record(who.folder, name, {"query_id": query_id, **fields} if query_id else fields)
        elif "remove" in form:
            api.delete_case(who, query_id, name, form.get("tag", ""))
        else:
            api.change_record(who.folder, name, query_id, fields, form.get("tag", ""))
    except HTTPException as exc:
        if exc.status_code != 412:
            raise
        theirs = case_record(load(path), query_id)
        values = {"record": {**theirs, **fields}, "tag": etag(theirs), "theirs": theirs}
        return page(who.request, "case", 412, name=name, client=who.owner, **values)
    return redirect(f"/data/{name}", client=who.owner)


def _fields(form: dict[str, str]) -> dict[str, Any]:
    """Return the labels that the form has, as a record holds them.

    >>> _fields({"text": "Why?", "relevant": "d1 = 2"})["relevant"]
    {'d1': 2}

    Raises:
        DataError: a relevant document with a grade that is not a number.
    """
    relevant = {}
    for line in _lines(form, "relevant"):
        doc_id, _, grade = line.rpartition("=") if "=" in line else (line, "=", "1")
        if not grade.strip().isdecimal():
            raise DataError(f"{line!r} is not a relevant document; expected its id, or its id and grade: guide = 2")
        relevant[doc_id.strip()] = int(grade)
    texts: dict[str, str | None] = {name: form.get(name, "").replace("\r\n", "\n") for name in _TEXTS}
    texts["reference_answer"] = texts["reference_answer"] or None
    return {**texts, "relevant": relevant, "required_keywords": _lines(form, "required_keywords")}


def _lines(form: dict[str, str], name: str) -> list[str]:
    return [line.strip() for line in form.get(name, "").splitlines() if line.strip()]
