"""CSV that programs can read and spreadsheets do not calculate with."""

import csv
import io
import re
from collections.abc import Iterable

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
