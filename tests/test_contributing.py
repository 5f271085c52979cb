"""The worked example in CONTRIBUTING.md, applied to a copy of the project line by line."""

import ast
import os
import re
import shutil
import subprocess
import sys

import pytest

from config import ROOT

# "In `file`, below `place`:", "In `file`, instead of `place`:" or "The new file `file`:", and the
# block that goes there.
CHANGE = re.compile(
    r"(?:In\s+`(?P<file>\S+)`,\s+(?P<how>below|instead\s+of)\s+`(?P<place>[^`]+)`|"
    r"The new file\s+`(?P<new>\S+)`):\n\n"
    r"```\w+\n(?P<block>.*?)^```$",
    re.M | re.S,
)
NOT_COPIED = (".git", ".venv", ".env", ".*_cache", ".hypothesis", "__pycache__", "instance")


def insert(path, how, place, block):
    """Insert a block below a definition of this name, or else below the line with this text."""
    if how != "below":
        text = path.read_text()
        assert text.count(f"{place}\n") == 1, f"{place} in {path.name}"
        path.write_text(text.replace(f"{place}\n", block))
        return
    lines = path.read_text().splitlines(keepends=True)
    found = []
    if path.suffix == ".py":
        body = ast.parse("".join(lines)).body
        found = [node.end_lineno for node in body if getattr(node, "name", None) == place]
        block = f"\n\n{block}" if found else block
    if not found:
        found = [number for number, line in enumerate(lines, 1) if place in line]
    assert len(found) == 1, f"{place} is {len(found)} times in {path.name}"
    lines.insert(found[0], block)
    path.write_text("".join(lines))


@pytest.fixture
def project(tmp_path):
    """A copy of the project with all changes of the example."""
    copy = tmp_path / "project"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
    text = (ROOT / "CONTRIBUTING.md").read_text()
    changes = list(CHANGE.finditer(text))
    assert len(changes) == len(re.findall(r"^```\w", text, re.M))
    for change in changes:
        if change["new"]:
            (copy / change["new"]).write_text(change["block"])
        else:
            place = " ".join(change["place"].split())  # it may be wrapped
            insert(copy / change["file"], change["how"], place, change["block"])
    return copy


def run(project, *arguments):
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=project,
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_worked_example_is_all_that_a_new_endpoint_needs(project):
    tests = (
        # Those of the example: success, a conflict, a validation error.
        "tests/test_email_confirmation.py",
        # Those that compare all endpoints and errors with the docs and with lists.
        *("tests/test_docs.py", "tests/test_openapi.py", "tests/test_reference.py"),
        "tests/test_roles.py::test_every_endpoint_is_for_somebody",
        "tests/test_roles.py::test_endpoint_is_for_its_callers_and_nobody_else"
        "[POST /api/users/<uuid:user_id>/email-confirmation]",
        "tests/test_two_users.py::test_every_call_and_command_that_changes_something_is_an_act",
        "tests/test_two_users.py::test_act_on_one_user_leaves_the_rows_of_the_others"
        "[postgres-admin POST /api/users/{userId}/email-confirmation]",
    )
    run(project, "tests.reference")
    printed = run(project, "pytest", "-p", "no:cacheprovider", *tests)
    assert "skipped" not in printed
    run(project, "ruff", "check", "--no-cache", ".")
    run(project, "ruff", "format", "--check", "--no-cache", ".")
