"""Lists of people, which make and change many accounts."""

from typing import Any

from flask import Blueprint

import errors
import schemas
from callers import Caller
from core import people_files
from core.people_files import People
from core.roles import Role
from core.scopes import Scope
from services import custom_fields, lists
from services.list_lines import Options
from web.api import endpoint
from web.bearer import caller
from web.limits import By, Limit

bp = Blueprint("lists", __name__, url_prefix="/api/users/lists")


@endpoint(
    bp,
    "POST",
    "",
    role=Role.ADMIN,
    scopes=(Scope.USERS_READ, Scope.USERS_WRITE),
    query=schemas.ListQuery,
    body=schemas.PeopleList,
    of_many=True,
    or_text=True,
    response=schemas.ListDone,
    message="The list was read.",
    errors=(errors.NotFound, errors.TooManyMissing),
    limits=(Limit(60, "hour", "lists of people", By.CALLER),),
)
def read_list(query: dict[str, Any], body: dict[str, Any]) -> dict[str, object]:
    """Read a list of people, and say what it would do; with `apply=true`, do it.

    Send JSON, or a text as people have it: CSV with commas, semicolons or tabs, or what was copied
    from a spreadsheet; `lastFirst` says that last names come first where no headings tell. Each
    line means an account, by its number, address or username, or a new one. It changes names,
    `externalId`, language, custom fields and groups; nobody is deleted or gets another role. Lines
    are done 250 at a time, each whole; after an error, the same call does the rest.

    `role` and `language` are those of new accounts whose line says none, and `groupId` is a group
    for all. With `groups=only`, people leave other groups that lists have made. With
    `missing=tell`, the response names active accounts with an `externalId`, of a role that the list
    may hold, that no line names; `deactivate` deactivates them, and activates students who are
    back. More than a quarter of a role are refused without `all=true`. With `deliver=mail`, new
    people are invited. A service key needs `groups:write` too where the list or the query names
    groups.
    """
    is_for_real, last_first = query.pop("apply"), query.pop("last_first")
    found, me = _people(body, last_first=last_first), caller()
    columns = {"group", "groupId"} & found.columns
    named = any(each.get(column) for _, each in found.lines for column in columns)
    names_groups = named or "group_id" in query or (columns and query["groups"] == "only")
    if me.is_key and names_groups and Scope.GROUPS_WRITE not in me.scopes:
        raise errors.Forbidden
    options = _options(me, query)
    done = lists.apply(found, options) if is_for_real else lists.check(found, options)
    return {**done._asdict(), "lines": [line.told() for line in done.lines]}


def _people(body: dict[str, Any], *, last_first: bool) -> People:
    if (each := body.get("people")) is not None:
        return People([*enumerate(each, 1)], {name for person in each for name in person}, [])
    try:
        more = {name.casefold(): name for name in custom_fields.columns()}
        found = people_files.read(body["text"], more, last_first=last_first)
    except people_files.BadList as error:
        raise errors.InvalidRequest(str(error)) from None
    return found._replace(
        lines=[(number, custom_fields.from_cells(cells)) for number, cells in found.lines]
    )


def _options(me: Caller, query: dict[str, Any]) -> Options:
    readdresses = {Role.STUDENT} if me.is_key else {Role.STUDENT, Role.INSTRUCTOR}
    return Options(me.accounts, me.recruits, me.appoints, readdresses, **query)
