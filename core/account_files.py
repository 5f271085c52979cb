"""Files of accounts: JSON Lines, or CSV with a header line."""

import io
import re
from collections.abc import Collection, Iterator
from itertools import chain
from typing import IO, Any, NamedTuple

import orjson

from core import csv_files
from core.addresses import WHITE_SPACE

# Bytes of a line of JSON. A longer one is cut, so that it cannot be read, and not the memory's end.
_LONGEST = 64 * 1024
_BOM = b"\xef\xbb\xbf"


class BadFile(ValueError):
    """This cannot be read as a file of accounts. The text has nothing of what the file says."""


class Columns(NamedTuple):
    known: Collection[str]
    required: Collection[str]
    flags: Collection[str]  # of `true` and `false`, also in CSV


def read(file: IO[bytes], columns: Columns, *, as_csv: bool) -> Iterator[tuple[int, Any]]:
    """Yield the number of each line, from 1, and its fields. Raises BadFile and UnicodeError."""
    file.seek(0)
    return _read_csv(file, columns) if as_csv else _read_json(file, columns)


def _read_json(file: IO[bytes], columns: Columns) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(iter(lambda: file.readline(_LONGEST), b""), 1):
        text = line.removeprefix(_BOM) if number == 1 else line
        if not text.strip():
            continue
        try:
            found = orjson.loads(text)  # refuses what is not UTF-8
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise BadFile(f"Line {number} is not a JSON object in UTF-8.")
        _check(number, found, columns)
        yield number, found


def _read_csv(file: IO[bytes], columns: Columns) -> Iterator[tuple[int, Any]]:
    text = io.TextIOWrapper(file, "utf-8-sig", newline="")
    try:
        head = [text.readline()]
        separator, above = csv_files.opening(head, ",;")
        rows = csv_files.rows(chain(head[above:], text), separator, above=above)
        number, cells = next(rows, (1, []))
        names = [name.strip(WHITE_SPACE) for name in cells]
        _check(number, names, columns)
        named = [*filter(None, names)]
        if len({*named}) < len(named):
            raise BadFile("A column stands twice in the header.")
        for number, row in rows:
            if any(cell.strip() for cell in row):
                yield number, _fields(number, names, row, columns)
    except csv_files.BadRow as error:
        raise BadFile(str(error)) from None
    finally:
        text.detach()  # or its end would close the file, which is read twice


def _fields(number: int, names: list[str], row: list[str], columns: Columns) -> dict[str, object]:
    for place, (name, cell) in enumerate(zip(names, row, strict=False), 1):
        if cell.strip() and not name:
            raise BadFile(f"Line {number} has a cell in column {place}, which has no heading.")
    more = "".join(row[len(names) :])  # gets a name that no column has
    named = dict(zip(names, row, strict=False)) | {"more cells than the header": more}
    found: dict[str, object] = {name: cell for name, cell in named.items() if name and cell}
    for name in columns.flags & found.keys():
        found[name] = {"true": True, "false": False}.get(named[name].lower(), named[name])
    return found


def _check(number: int, names: Collection[str], columns: Columns) -> None:
    # First, so that of a file without a header nothing is shown.
    if missing := [name for name in columns.required if name not in names]:
        raise BadFile(f"Line {number} has no {', no '.join(missing)}.")
    for place, name in enumerate(names, 1):
        if name and name not in columns.known:  # one without a heading must be empty
            shown = f": {name}" if re.fullmatch(r"[\w .-]{1,40}", name) else f", number {place}"
            use = ", ".join(columns.known)
            raise BadFile(f"Line {number} has an unknown column{shown}. Use: {use}.")
