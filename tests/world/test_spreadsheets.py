"""Files of accounts as spreadsheets and databases write them."""

import pytest

from core.account_files import BadFile, Columns, read

COLUMNS = Columns(known=["email", "name", "active"], required=["email"], flags={"active"})
ADA = {"email": "a@b.org", "name": "Ada"}


def rows(text, tmp_path):
    path = tmp_path / "people.csv"
    path.write_bytes(text.encode())
    with path.open("rb") as file:
        return list(read(file, COLUMNS, as_csv=True))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("email,name,,\na@b.org,Ada,,\n", 2),
        ("email;name;;\r\na@b.org;Ada\r\n", 2),
        (",email,,name\n,a@b.org,,Ada\n", 2),
        ("email,name, ,\u00a0\na@b.org,Ada, ,\n", 2),
        ("email,name\n,\n , \na@b.org,Ada\n\n,,,,\n", 4),
        ("\ufeff\u200eemail\u200e,name\na@b.org,Ada\n", 2),
        ("\ufeffsep=;\r\nemail;name\r\na@b.org;Ada\r\n", 3),
    ],
)
def test_empty_columns_and_rows_are_none(tmp_path, text, line):
    assert rows(text, tmp_path) == [(line, ADA)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("email,Phone Number\n", "Line 1 has an unknown column: Phone Number. Use: email, name"),
        ("email,Größe\n", "Line 1 has an unknown column: Größe. Use: "),
        ("email,,a/b\n", "Line 1 has an unknown column, number 3. Use: "),
        (f"email,{'x' * 41}\n", "Line 1 has an unknown column, number 2. Use: "),
        ("email,,name\na@b.org,,Ada\nb@b.org,x,\n", "Line 3 has a cell in column 2, which has no"),
        ("secret,word\n", "Line 1 has no email."),
    ],
)
def test_a_column_that_is_unknown_is_told_by_its_heading_or_place(tmp_path, text, says):
    with pytest.raises(BadFile) as caught:
        rows(text, tmp_path)
    assert str(caught.value).startswith(says)
