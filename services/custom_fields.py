"""The fields of accounts that CUSTOM_FIELDS adds: who sees which, and what may be written."""

import functools
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from marshmallow import Schema, ValidationError
from sqlalchemy import ColumnElement, func, literal
from sqlalchemy.dialects.postgresql import JSONB

import errors
import fields
from config.custom_fields import LARGEST, CustomField
from core.reasons import UNKNOWN, Reason
from extensions import db, settings
from models import User, UserRow
from schemas import SEEN, Shape
from services import events

# What JSON has for a type: in Python, and as SQLite and Postgres name it. All others are texts.
_TEXT: tuple[type, tuple[str, ...]] = str, ("text", "string")
_JSON = {"number": (int, ("integer", "number")), "boolean": (bool, ("true", "false", "boolean"))}
_NOT_ITS_VALUE = Reason("type", "Not a value of this field.")


def seen(stored: Mapping[str, Any], reader: str = "user") -> dict[str, Any]:
    """Return the values that a reader sees, one of `config.custom_fields.READERS`.

    None where nothing is set, or what is set has another type than the field has now.
    """
    found = {}
    for field in settings.custom_fields_of[reader]:
        value = stored.get(field.name)
        found[field.name] = value if type(value) is _JSON.get(field.type, _TEXT)[0] else None
    return found


def with_seen(user: UserRow, reader: str = "user") -> dict[str, object]:
    """Return the row of an account with what a reader sees of its custom fields."""
    return {**user._asdict(), SEEN: seen(user.custom_fields, reader)}


def accepted(
    sent: Mapping[str, Any], *, by_user: bool = False, at_sign_up: bool = False
) -> dict[str, Any]:
    """Return what was sent, checked; None empties a field. Users write theirs, and the office all.

    Raises InvalidRequest.
    """
    # Forms of HTML have nothing else for an empty field.
    given = {name: None if _is_blank(value) else value for name, value in sent.items()}
    if at_sign_up:
        given = {name: value for name, value in given.items() if value is not None}
    form = _form(settings.custom_fields, by_user, at_sign_up)
    try:
        return dict(form.load(given))
    except ValidationError as error:
        raise errors.InvalidRequest(fields={"customFields": error.messages_dict}) from None


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def columns() -> dict[str, CustomField]:
    """Return the columns that CSV has for the fields."""
    return {f"fields.{field.name}": field for field in settings.custom_fields}


def from_cells(cells: Mapping[str, str]) -> dict[str, Any]:
    """Return the cells of a row, those of `columns` as JSON has them; no empty ones of these."""
    rest, found = dict(cells), {}
    for column, field in columns().items():
        if cell := rest.pop(column, ""):
            found[field.name] = _typed(field.type, cell)
    return rest | ({"customFields": found} if found else {})


def _typed(kind: str, text: str) -> object:
    """Return a value of a type that a text says, or the text, which is none.

    Without the mark before what spreadsheets would take for a formula, such as +49.
    """
    if kind == "number" and (found := re.fullmatch("'?(-?[0-9]{1,15})", text)):
        return int(found[1])
    words: dict[str, object] = {"true": True, "false": False} if kind == "boolean" else {}
    return words.get(text.lower(), re.sub("^'(?=[-=+@])", "", text))


def merged(stored: Mapping[str, Any], sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of an account with those that were sent, and without empty ones."""
    return {name: value for name, value in {**stored, **sent}.items() if value not in (None, "")}


def tell(facts: Iterable[tuple[UserRow, Mapping[str, Any]]]) -> None:
    """Say of accounts, by their rows before, which fields have other values."""
    names = [field.name for field in settings.custom_fields]
    told = {
        row.id: " ".join(n for n in names if repr(row.custom_fields.get(n)) != repr(after.get(n)))
        for row, after in facts
    }
    some = [(user_id, {"fields": said}) for user_id, said in told.items() if said]
    events.tell_all("custom_fields_changed", some)


def in_token(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return what access tokens carry: values that the settings still allow."""
    names = {each.name for each in settings.custom_fields if each.in_token}
    carried = allowed(stored, names) if names else {}
    return {"fields": carried} if carried else {}


def allowed(stored: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the values of fields without those that nobody could write now."""
    found = {name: value for name, value in stored.items() if name in names}
    wrong = _form(settings.custom_fields, False, False).validate(found)
    return {name: value for name, value in found.items() if name not in wrong}


def condition(text: str, reader: str) -> ColumnElement[bool]:
    """Return the condition of `name:value`; without a value, for accounts where it is not set.

    Raises InvalidRequest for a field that the reader does not see, and for a value that it cannot
    have.
    """
    name, colon, raw = text.partition(":")
    types = {field.name: field.type for field in settings.custom_fields_of[reader]}
    if name not in types or not colon:
        raise errors.InvalidRequest(fields={"field": [UNKNOWN]})
    of_python, of_json = _JSON.get(types[name], _TEXT)
    is_its_type = func.coalesce(_type(name), "null").in_(of_json)
    if not raw:
        return ~is_its_type
    value = _typed(types[name], raw)
    if type(value) is not of_python:
        raise errors.InvalidRequest(fields={"field": [_NOT_ITS_VALUE]})
    # On Postgres as JSON: a cast of what a field of another type has left would fail.
    return is_its_type & (_value(name) == (value if _on_sqlite() else literal(value, JSONB)))


def is_set(name: str) -> ColumnElement[bool]:
    """Return the condition for accounts in which a field is set."""
    return _value(name).is_not(None)


def _value(name: str) -> ColumnElement[Any]:
    if _on_sqlite():
        return func.json_extract(User.custom_fields, f"$.{name}")
    return User.custom_fields.op("->")(name)


def _type(name: str) -> ColumnElement[Any]:
    if _on_sqlite():
        return func.json_type(User.custom_fields, f"$.{name}")
    return func.jsonb_typeof(_value(name))


def _on_sqlite() -> bool:
    return db.engine.dialect.name == "sqlite"


@functools.lru_cache(8)
def _form(rows: tuple[CustomField, ...], by_user: bool, at_sign_up: bool) -> Schema:
    """Return the shape of what may be sent."""
    if by_user:
        rows = tuple(each for each in rows if each.written_by == "user")
    if at_sign_up:
        rows = tuple(each for each in rows if each.at_sign_up != "no")
    shape = {each.name: _field(each, at_sign_up and each.required) for each in rows}
    return Shape.from_dict(shape)()


def _field(field: CustomField, required: bool) -> Any:
    """Return the field of a schema for a custom one."""
    more: dict[str, Any] = {"required": required, "allow_none": not required}
    match field.type:
        case "text":
            return fields.FilledText(validate=fields.Length(int(required), field.length), **more)
        case "number":
            return fields.Number(-LARGEST, LARGEST, **more)
        case "boolean":
            return fields.Flag(**more)
        case "date":
            return fields.DayAsText(**more)
        case _:
            return fields.Choice(*field.choices, **more)
