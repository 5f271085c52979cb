"""The commands in docs/schools.md, pasted into a shell, on the database of a running service."""

import json
import re
import shutil

import pytest
from helpers import NEW_PASSWORD
from real_service import PATIENCE
from test_readme_walk import paste

from config import ROOT, load


def blocks():
    return re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs/schools.md").read_text(), re.M | re.S)


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
@pytest.mark.parametrize("service", ["sqlite"], indirect=True)
def test_a_school_gets_a_class_without_mail_through_a_year(service, mail_server, tmp_path):
    shell, settings, *commands = blocks()
    names = dict(line.split("#")[0].strip().split("=", 1) for line in settings.splitlines())
    assert load({**names, "TEMPLATES_DIR": ""}).site_name == "Example School"

    # The files of the page go into a folder of this test.
    shell = shell.replace(".venv", f"env -C {ROOT} .venv")
    printed = paste("\n".join((shell, f"cd {tmp_path}", *commands)), service, patience=5 * PATIENCE)
    assert "kim@school.example gets an invitation." in printed
    line = r"https?://\S+/reset-password#token=\S+\n([A-Z0-9-]{14})$"
    handed_out = dict(re.findall(rf"^\w+ \w+, username (\w+):\n{line}", printed, re.M))
    assert handed_out.keys() == {"ben", "mia"}
    mail_server.wait_for("kim@school.example", "Your account at 127.0.0.1")
    assert "can log in: no: no_password" in printed

    # Both are deactivated or gone by now, and Mia's second code has ended the first one before.
    *_, second = re.findall(line, printed, re.M)
    for account, code in (*handed_out.items(), ("mia", second)):
        body = {"account": account, "code": code, "newPassword": NEW_PASSWORD}
        assert service.call("POST", "/api/auth/reset-password", body).status == 400
    assert (tmp_path / "mia.json").stat().st_mode & 0o777 == 0o600
    exported = json.loads((tmp_path / "mia.json").read_text())
    assert exported["account"]["email"] == "mia@class.invalid"
    listed = [line.split("\t") for line in printed.splitlines() if line.count("\t") == 7]
    addresses = {line[1]: line[2] for line in listed}
    assert addresses["ben"] == "ben@home.example"
    assert "mia" not in addresses
    assert "ben is inactive.\nnot all were there\n" in printed
    assert not (tmp_path / "sheet.txt").exists()
