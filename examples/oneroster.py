"""Makes the file of nightly.py from a folder with the CSV files of OneRoster 1.1 or 1.2:

python3 oneroster.py FOLDER > people.csv

It joins users.csv (of 1.2 roles.csv too), classes.csv and enrollments.csv. With
academicSessions.csv, only classes of a term that runs today count; between two terms, those of the
last one.
"""

import csv
import io
import sys
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

TODAY = datetime.now(UTC).date().isoformat()


def read(name, *, optional=False):
    """Return by id the active rows of a file; what it does not have is empty."""
    path = Path(sys.argv[1], f"{name}.csv")
    raw = b"" if optional and not path.exists() else path.read_bytes()
    text = raw.decode("utf-16" if raw[:1] in (b"\xff", b"\xfe") else "utf-8-sig", "surrogateescape")
    rows = [defaultdict(str, row) for row in csv.DictReader(io.StringIO(text, None), restval="")]
    active = (row for row in rows if row["status"].lower() in ("", "active"))
    return {row["sourcedId"] or number: row for number, row in enumerate(active)}


def holds(row):
    return (row["beginDate"] or row["startDate"]) <= DAY <= (row["endDate"] or "9999")


def terms_of(group):
    return {*group["termSourcedIds"].replace(" ", "").split(",")}


users, classes, enrollments = map(read, ("users", "classes", "enrollments"))
roles, terms = (read(name, optional=True) for name in ("roles", "academicSessions"))
used = [terms[key] for group in classes.values() for key in terms_of(group) & terms.keys()]
ends = [term["endDate"] or "9999" for term in used if term["startDate"] <= TODAY]
DAY = min(TODAY, max(ends, default=TODAY))
# A class without a term always runs, and so does each if the terms are not there.
running = {"", *(key for key, term in terms.items() if holds(term))}
titles = {key: row["title"] for key, row in classes.items() if not terms or running & terms_of(row)}
# In 1.2 somebody may have several roles, of which one is the primary one.
for row in sorted(filter(holds, roles.values()), key=lambda row: row["roleType"] == "primary"):
    users.get(row["userSourcedId"], row)["role"] = row["role"]
groups = defaultdict(set)
for row in filter(holds, enrollments.values()):
    key, group = row["userSourcedId"], row["classSourcedId"]
    if key in users and group in titles and row["role"] in ("", users[key]["role"]):
        groups[key].add((group, titles[group][:64]))

table = [["externalId", "username", "email", "firstName", "lastName", "role", "groupId", "group"]]
for key, user in users.items():
    if user["role"].lower() in ("student", "teacher") and user["enabledUser"].lower() != "false":
        first = user["preferredGivenName"] or user["givenName"]
        last = user["preferredFamilyName"] or user["familyName"]
        person = user["sourcedId"], user["username"], user["email"], first, last, user["role"]
        table += [(*person, *group) for group in sorted(groups[key]) or [("", "")]]
# What is not UTF-8 stays as it is: the service knows how to read it.
sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape", newline="")
csv.writer(sys.stdout).writerows(table)
