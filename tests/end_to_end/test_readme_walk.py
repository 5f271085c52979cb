"""The walk in docs/walk.md, pasted into a shell, beside a running service."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from real_service import PATIENCE

from config import ROOT

PASSWORD = "try something new"


def scripts():
    walk = (ROOT / "docs/walk.md").read_text()
    making_an_admin, the_rest = re.findall(r"^```sh\n(.*?)^```", walk, re.M | re.S)
    return making_an_admin, the_rest


def paste(script, service, typed="", patience=PATIENCE):
    """Run a script in the project's folder, with this service in the default's place."""
    here = script.replace(".venv/bin/", f"{Path(sys.executable).parent}/")
    here = here.replace("http://127.0.0.1:5000", service.url)
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", f"token=\n{here}"],
        cwd=ROOT,
        env=service.env,
        input=typed,
        capture_output=True,
        text=True,
        timeout=patience,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_the_walk_in_the_docs_leads_where_it_says(service):
    making_an_admin, the_rest = scripts()
    assert "with the role admin" in paste(making_an_admin, service, f"{PASSWORD}\n{PASSWORD}\n")
    printed = paste(the_rest, service)
    assert PASSWORD not in printed
    answers = [json.loads(line) for line in printed.splitlines()]
    assert [answer["success"] for answer in answers] == [True] * len(answers)
    *deliveries, progress, certificates, before, promoted, taught, course, days, _, after = (
        answer["data"] for answer in answers
    )
    assert promoted["role"] == "instructor"
    assert len(deliveries) == 4
    assert (progress["completedCourses"], progress["totalCourses"]) == (1, 2)
    assert (progress["completedLessons"], progress["totalLessons"]) == (3, 12)
    assert (progress["totalHours"], progress["currentStreak"]) == (2.0, 1)
    assert [each["courseId"] for each in certificates["certificates"]] == ["python"]
    assert [lesson["minutes"] for lesson in course["completed"]] == [40, 50]
    assert [(day["lessons"], day["minutes"]) for day in days["days"]] == [(3, 120)]
    assert before["username"] == "student"
    assert "progress" not in before
    assert taught == after == {**before, "progress": progress}
