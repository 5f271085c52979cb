"""Tables of settings: classes whose fields say how each variable of the environment is read."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

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
