"""CSV: as spreadsheets and other programs write it, and so that spreadsheets do not calculate."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

# The number of the line in which a row begins, from 1, and its cells.
Row: TypeAlias = tuple[int, list[str]]

# The signs = + - and @, in every width that a spreadsheet may read as them.
_WIDE = "\u207a\u207c\u208a\u208c\u2a75\u2a76\ufb29\ufe62\ufe63\ufe66\ufe6b\uff0b\uff0d\uff1d\uff20"
# Also behind each separator: a program that splits at another one than ours begins a cell there.
# It looks at each run of separators and spaces once, from its start: a run may be the whole text.
_FORMULA = re.compile(rf'((?:^|(?<![\s,;"])[^\S\t]*[,;\t"])[\s,;"]*)([=+\-@{_WIDE}])')


def guarded(text: str) -> str:
    """Return a text with a ' before what a spreadsheet would take for a formula."""
    return _FORMULA.sub(r"\1'\2", text)


def lines(rows: Iterable[Iterable[object]]) -> str:
    """Return rows as lines of RFC 4180; None is an empty cell.

    All cells are quoted, or some spreadsheets would split one at a semicolon in a name.
    """
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows(rows)
    return text.getvalue()


class BadRow(ValueError):
    """A row is not CSV. The text has nothing of what it says."""

    def __init__(self, number: int, error: csv.Error) -> None:
        super().__init__(f"Line {number} is not CSV: {error}.")
        self.number = number


def opening(lines: Sequence[str], separators: str) -> tuple[str, int]:
    """Return what separates cells: the separator that most lines have, of equal ones the first, or
    what a first line `sep=;` says to Excel; and the number of such lines, 0 or 1.
    """
    if told := re.match(r"sep=([,;|\t])", "".join(lines[:1])):
        return told[1], 1
    return max(separators, key=lambda each: sum(each in line for line in lines)), 0


def rows(lines: Iterable[str], separator: str, *, above: int = 0) -> Iterator[Row]:
    """Yield the rows of lines, which keep their ends, below others. Raises BadRow."""
    number = above + 1
    reader = csv.reader(lines, delimiter=separator, strict=True)
    try:
        for cells in reader:
            yield number, cells
            number = above + reader.line_num + 1  # a cell may have had several lines
    except csv.Error as error:
        raise BadRow(number, error) from None


def lenient_rows(lines: Sequence[str], separator: str, *, above: int = 0) -> Iterator[Row]:
    """Yield the rows of lines. In one that is not CSV, quotation marks stand for themselves."""
    while above < len(lines):
        try:
            rest = (lines[number] for number in range(above, len(lines)))
            yield from rows(rest, separator, above=above)
            return
        except BadRow as bad:
            above = bad.number
        yield above, lines[above - 1].rstrip("\r\n").split(separator)
