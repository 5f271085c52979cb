"""Tables of settings: classes whose fields say how each variable of the environment is read."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
REQUIRED = None  # the default of what has none


def setting(parse: Callable[[str], object], default: object) -> Any:
    return dataclasses.field(default=default, metadata={"parse": parse})


def variables(table: type[Any], prefix: str) -> dict[str, dataclasses.Field[Any]]:
    """Return the settings of a table by the names of their variables."""
    rows = (row for row in dataclasses.fields(table) if row.metadata)
    return {prefix + row.name.upper(): row for row in rows}


def read(
    table: type[Any], prefix: str, given: Mapping[str, str], problems: list[str]
) -> dict[str, Any]:
    """Return what is set of a table of settings; add what is wrong to the problems."""
    values: dict[str, Any] = {}
    for name, row in variables(table, prefix).items():
        raw = given.get(name, "")
        try:
            if not raw.isprintable():  # control characters, broken UTF-8
                raise ValueError("must be printable text on one line")
            if raw:
                values[row.name] = row.metadata["parse"](raw)
        except ValueError as error:
            problems += [f"{name} {problem}." for problem in error.args]
    return values


def read_each(
    table: type[T], prefix: str, names: Iterable[str], given: Mapping[str, str], problems: list[str]
) -> tuple[T, ...]:
    """Return what is set of each of several providers or applications, as `read` does."""
    found = []
    for name in names:
        start = f"{prefix}_{name.upper()}_"
        own = {"name": name, "label": name.capitalize(), **read(table, start, given, problems)}
        for full_name, row in variables(table, start).items():
            if row.default is REQUIRED and not given.get(full_name, "").strip(", "):
                problems.append(f"{full_name} is missing; {name} needs it.")
        found.append(table(**own))
    return tuple(found)
