"""CSV: spreadsheets calculate with no cell, and programs read each as it is."""

import csv
import io
import itertools
import unicodedata

import pytest

from core.csv_files import guarded, lines

BEFORE = ["", "  ", "x,", "x;", "x\t", 'x"', 'x, ;" ', "\u00a0"]


def test_what_could_be_a_formula_is_none():
    letters = map(chr, range(0x110000))
    wide = [each for each in letters if unicodedata.normalize("NFKC", each)[0] in "=+-@"]
    assert len(wide) > 4
    for before, sign in itertools.product(BEFORE, wide):
        assert guarded(f"{before}{sign}1") == f"{before}'{sign}1"


@pytest.mark.parametrize("text", ["", "a=1", "1-2", "me@example.org", "O'Neill", "a, b", "- x"[1:]])
def test_other_texts_stay_as_they_are(text):
    assert guarded(text) == text


def test_each_formula_of_a_text_is_none():
    assert guarded("=1,+2;@3, x=1 ; -2") == "'=1,'+2;'@3, x=1 ; '-2"


def test_lines_are_read_as_they_were_written():
    rows = [["a,b", 'say "x"', "1"], ["line\nbreak", "", "é"]]
    text = lines(rows)
    assert text.startswith('"a,b","say ""x""","1"\r\n')
    assert list(csv.reader(io.StringIO(text, newline=""))) == rows
    assert lines([[None, 0]]) == '"","0"\r\n'
