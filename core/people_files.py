"""Lists of people as they have them: pasted text, or CSV of spreadsheets and programs of schools.

RFC 4180; OneRoster 1.1 and 1.2 (CSV).
"""

import codecs
import io
import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from core import csv_files
from core.addresses import WHITE_SPACE
from core.csv_files import Row
from core.people_columns import (
    FIELDS,
    FIRST,
    FULL,
    LAST,
    LAST_FIRST,
    PREFERRED,
    WHO,
    Columns,
    guessed,
    named,
)

MOST_LINES = 5000
# Rows among which the first headings are looked for: what stands above them is a title.
_HEAD = 20
_MOST_COLUMNS = 250
_NO_TEXT = (
    "This is no text that we can read. Copy the cells of the list and paste them, or save it as "
    "CSV (UTF-8)."
)
_DAMAGED = "This file is damaged, or its end is missing. Save the list again as CSV (UTF-8)."
_NOBODY = "There is nobody in this list."
_TOO_LONG = f"A list has at most {MOST_LINES} lines. Send it in parts."
# Archives, PDF, RTF, and tables of the web, which some programs call Excel files.
_OTHER_FORMATS = re.compile(r"\s*(?:PK[\3\5]|%PDF|\{\\rtf|<[!?]|<(?:html|table|meta)\b)", re.I)
_WITHIN_NUL = re.compile(r'[^\0\s,;"]\0+[^\0\s,;"]')
# What programs leave at the ends of cells, and nobody sees.
_UNSEEN = f"{WHITE_SPACE}\xad\u200b\u200c\u200d\u2060"
_SUM = re.compile(
    r"(?:sum|summe|total\w*|gesamt\w*|insgesamt|anzahl|count|somme|effectif|suma)\b[\W\d_]*", re.I
)


# A line of these alone is a line.
_NUMBERED = WHO - {FIRST, LAST, "username"}


class BadList(ValueError):
    """This cannot be read as a list of people. The text is for people."""


class People(NamedTuple):
    """The people of a list, each with the number of the line and with what is not empty; the
    fields that have a column (a column of full names is none of a name); and the columns that are
    not used: their headings, or their first cells.
    """

    lines: list[tuple[int, dict[str, str]]]
    columns: set[str]
    left_out: list[str]


def read(raw: bytes, *, last_first: bool = False) -> People:
    """Read a list of people. Names in one cell, or without headings, may have the last one first.

    Raises BadList.
    """
    lines: list[tuple[int, dict[str, str]]] = []
    used: set[str] = set()
    left_out: dict[str | int, str] = {}
    for number, columns, cells in _below_headings(_rows(_text(raw)), last_first):
        person = _person(columns, cells, last_first)
        if not person:
            continue
        lines.append((number, person))
        used |= FIELDS.intersection(columns.names) | (person.keys() & {"email"})
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
    if _OTHER_FORMATS.match(text) or ("\0" in text and _WITHIN_NUL.search(text)):
        raise BadList(_NO_TEXT)
    # Marks within a text are of files that were put together; 0x1A is the end of one in DOS.
    return re.sub("[\0\x1a\ufeff]", "", text)


def _decoded(raw: bytes) -> str:
    is_wide = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return raw.decode("utf-16" if is_wide else "utf-8")
    except UnicodeDecodeError as error:
        # Other letters were UTF-8: all of them would become wrong ones.
        if is_wide or not raw[: error.start].isascii():
            raise BadList(_DAMAGED) from None
    try:
        return raw.decode("windows-1252")
    except UnicodeDecodeError:
        raise BadList(_NO_TEXT) from None


def _rows(text: str) -> list[Row]:
    """Return the rows that have something."""
    lines = io.StringIO(text, newline="").readlines()
    told = csv_files.said_to_excel(lines[0]) if lines else ""
    separator = told or csv_files.separator_of(lines[:1000], "\t;,")
    found: list[Row] = []
    for number, cells in csv_files.lenient_rows(lines, separator, above=len(told)):
        if separator == "\t":  # whoever types more has no tab, because its key leaves the field
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


def _below_headings(rows: list[Row], last_first: bool) -> Iterator[tuple[int, Columns, list[str]]]:
    """Yield rows with the columns that hold for them, without headings and what is above them."""
    heads = (at for at, (_, cells) in enumerate(rows[:_HEAD]) if named(cells, is_first=not at))
    begin = next(heads, None)
    columns = (
        guessed([cells for _, cells in rows], last_first=last_first) if begin is None else None
    )
    for number, cells in rows[begin or 0 :]:
        found = named(cells, is_first=columns is None)
        if found:
            columns = found
        elif columns:
            yield number, columns, cells


def _person(columns: Columns, cells: list[str], last_first: bool) -> dict[str, str]:
    """Return who a row is about; {} if it is about nobody."""
    pairs = zip(columns.names, cells, strict=False)
    person = {name: cell for name, cell in pairs if name and cell}
    if columns.is_roster and not _has_account(person):
        return {}
    for preferred, name in PREFERRED.items():
        if preferred in person:
            person[name] = person.pop(preferred)
    for name, is_last_first in ((FULL, last_first), (LAST_FIRST, True)):
        if name in person:
            person |= _two_names(person.pop(name), is_last_first)
    names = person.keys() & {FIRST, LAST}
    if len(names) == 1 and person[name := names.pop()].count(",") == 1:
        person |= _two_names(person.pop(name), last_first)
    if "@" in person.get("username", "") and "email" not in person:
        person["email"] = person.pop("username")
    return {} if _is_remark(person, columns, cells) else person


def _has_account(user: dict[str, str]) -> bool:
    """Return whether a line of OneRoster's users.csv is an active pupil or teacher."""
    status, is_enabled = user.pop("status", "active"), user.pop("enabledUser", "true")
    is_active = status.lower() == "active" and is_enabled.lower() != "false"
    return is_active and user.get("role", "student").lower() in ("student", "teacher")


def _two_names(text: str, last_first: bool) -> dict[str, str]:
    """Return the names that are written in one cell: both where it is plain which is which, else
    the text as one of them, and a person says what the other one is.
    """
    words, order = text.split(), (LAST, FIRST) if last_first else (FIRST, LAST)
    parts = [text]
    if text.count(",") == 1:
        parts, order = text.split(","), (LAST, FIRST)
    elif len(words) == 2:
        parts = words
    elif not (last_first or text.islower()):  # Ludwig van Beethoven
        at = next((at for at, word in enumerate(words) if at and word.islower()), len(words))
        parts = [" ".join(words[:at]), " ".join(words[at:])]
    names = zip(order, map(str.strip, parts), strict=False)
    return {name: part for name, part in names if part}


def _is_remark(person: dict[str, str], columns: Columns, cells: list[str]) -> bool:
    """Return whether a row is no person, but a sum, the title of a part or the number of a page."""
    filled = [*filter(None, cells)]
    if not person.keys() & WHO or _SUM.fullmatch(" ".join(filled)):
        return True
    is_alone = len(filled) == 1 < len([*filter(None, columns.names)])
    return is_alone and not person.keys() & _NUMBERED and bool(re.search(r"[\d:]", filled[0]))
