"""Lists of people as they have them: pasted text, or CSV of spreadsheets and programs of schools.

RFC 4180; OneRoster 1.1 and 1.2 (CSV).
"""

import codecs
import io
import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, NamedTuple

from core import csv_files
from core.addresses import WHITE_SPACE
from core.people_columns import FIELDS, Columns, guessed, named, person_of

MOST_LINES = 5000
_MOST_COLUMNS = 250
# Rows among which the first headings are looked for: what stands above them is a title.
_HEAD = 20
_COPY = "Copy the cells of the list and paste them, or save it as CSV (UTF-8)."
_NO_TEXT = f"This is no text that we can read. {_COPY}"
_DAMAGED = f"This file is damaged, or its end is missing. {_COPY}"
_NOBODY = "There is nobody in this list."
_NO_ROLES = "These users of OneRoster 1.2 have no roles: join the files of the export first."
_TOO_LONG = f"A list has at most {MOST_LINES} lines. Send it in parts."
# Archives, PDF, RTF, and tables of the web, which some programs call Excel files.
_OTHER_FORMATS = re.compile(r"\s*(?:PK[\3\5]|%PDF|\{\\rtf|<[!?]|<(?:html|table|meta)\b)", re.I)
_NUL_WITHIN = re.compile(r'[^\0\s,;"]\0+[^\0\s,;"]')
# What programs leave at the ends of cells, and nobody sees.
_UNSEEN = f"{WHITE_SPACE}\xad\u200b\u200c\u200d\u2060"


class BadList(ValueError):
    """This cannot be read as a list of people. The text is for people."""


class People(NamedTuple):
    """The people of a list: by the number of the line, what is said of each; the fields that have a
    column (one of both names is no column of either); and the columns that are not used, by their
    headings or first cells.
    """

    lines: list[tuple[int, dict[str, Any]]]
    columns: set[str]
    left_out: list[str]


def read(raw: bytes, more: Mapping[str, str] = {}, *, last_first: bool = False) -> People:
    """Read a list of people. Names without headings, or in one cell, may have the last one first;
    `more` has further columns, by their headings in small letters.

    Raises BadList.
    """
    lines: list[tuple[int, dict[str, str]]] = []
    used: set[str] = set()
    left_out: dict[str | int, str] = {}
    for number, columns, cells in _below_headings(_rows(_text(raw)), more, last_first):
        person = person_of(columns, cells, last_first=last_first)
        if not person:
            continue
        lines.append((number, person))
        used |= FIELDS.intersection(columns.names) | (person.keys() & {"email"})
        if None in columns.names or len(cells) > len(columns.names):
            trios = zip_longest(cells, columns.names, columns.headings, fillvalue="")
            for at, (cell, name, heading) in enumerate(trios):
                if cell and not name:
                    left_out.setdefault(heading or at, heading or f"{cell[:40]}…")
    if not lines:
        raise BadList(_NOBODY)
    if len(lines) > MOST_LINES:
        raise BadList(_TOO_LONG)
    return People(lines, used, [*left_out.values()])


def _text(raw: bytes) -> str:
    text = _decoded(raw)
    if _OTHER_FORMATS.match(text) or ("\0" in text and _NUL_WITHIN.search(text)):
        raise BadList(_NO_TEXT)
    # U+FEFF is where files were put together, 0x1A at the end of those of DOS. Spreadsheets save
    # hundreds of thousands of empty rows.
    return re.sub("[\0\x1a\ufeff]", "", text).rstrip("\t\r\n ,;")


def _decoded(raw: bytes) -> str:
    is_wide = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return raw.decode("utf-16" if is_wide else "utf-8")
    except UnicodeDecodeError as error:
        # Where other letters could be read, all of them would become wrong ones.
        if not raw[: error.start].isascii():
            raise BadList(_DAMAGED) from None
    try:
        return raw.decode("windows-1252")
    except UnicodeDecodeError:
        raise BadList(_NO_TEXT) from None


def _rows(text: str) -> list[csv_files.Row]:
    """Return the rows that have something."""
    lines = io.StringIO(text, newline="").readlines()
    if len(lines) > 20 * MOST_LINES:  # most of them empty
        raise BadList(_TOO_LONG)
    separator, above = csv_files.opening(lines[:1000], "\t;,")
    found: list[csv_files.Row] = []
    for number, cells in csv_files.lenient_rows(lines, separator, above=above):
        if separator == "\t":  # who types more has no tab: its key leaves the field
            cells[-1:] = "".join(cells[-1:]).split(";")
        cleaned = [_clean(cell) for cell in cells[:_MOST_COLUMNS]]
        if any(cleaned):
            found.append((number, cleaned))
        if len(found) > 2 * MOST_LINES:
            raise BadList(_TOO_LONG)
    return found


def _clean(cell: str) -> str:
    text = " ".join(cell.split())
    if text.startswith('="'):  # so that Excel leaves 0012 as it is
        text = text[2:].removesuffix('"')
    return text if text.isascii() else " ".join(text.strip(_UNSEEN).split())


def _below_headings(
    rows: list[csv_files.Row], more: Mapping[str, str], last_first: bool
) -> Iterator[tuple[int, Columns, list[str]]]:
    """Yield rows with the columns that hold for them, without headings and what is above them."""
    heads = (
        at for at, (_, cells) in enumerate(rows[:_HEAD]) if named(cells, more, is_first=not at)
    )
    begin = next(heads, 0)
    columns = guessed([cells for _, cells in rows], last_first=last_first)
    for at, (number, cells) in enumerate(rows[begin:]):
        found = named(cells, more, is_first=not at)
        if found and (not at or found.say_names or found.names == columns.names):
            if found.is_roster and "role" not in found.names and "enabledUser" in found.names:
                raise BadList(_NO_ROLES)
            columns = found
        else:
            yield number, columns, cells
