"""The files that are made from the declarations are those that the declarations make."""

import re

import pytest
import reference

from config import ROOT


@pytest.mark.asvs("6.1.1", "13.1.1", "13.2.4")
def test_made_files_say_what_the_declarations_say(app):
    with app.app_context():
        made = reference.files()
    for path, text in made.items():
        assert (ROOT / path).read_text().splitlines() == text.splitlines(), "run `make reference`"


def test_most_requirements_of_the_standard_have_a_test():
    made = (ROOT / "docs/reference.md").read_text()
    assert len(re.findall(r"^\| \d+\.\d+\.\d+ \| test_", made, re.M)) >= 150
