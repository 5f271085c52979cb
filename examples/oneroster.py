"""Makes the file of nightly.py from a folder with the CSV files of OneRoster 1.1 or 1.2:

python3 oneroster.py FOLDER > people.csv

It reads users.csv (of 1.2 roles.csv too), classes.csv and enrollments.csv. With
academicSessions.csv, only classes of a term that runs today count; between two terms, those of the
last one.
"""

import csv
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

FIELDS = ["externalId", "username", "email", "firstName", "lastName", "role", "groupId", "group"]
ROLES = {"student": "student", "teacher": "instructor"}
TODAY = datetime.now(UTC).date().isoformat()


def read(name, *, default=None, day=None):
    """Return by id the rows of a file; with a day, those that hold then."""
    path = Path(sys.argv[1], f"{name}.csv")
    if default is not None and not path.exists():
        return default
    with path.open(newline="", encoding="utf-8-sig") as file:
        return {row["sourcedId"]: row for row in csv.DictReader(file) if holds(row, day)}


def holds(row, day):
    begin, end = row.get("beginDate") or row.get("startDate") or "", row.get("endDate") or "9999"
    return row["status"] in ("", "active") and (day is None or begin <= day <= end)


def terms_of(group):
    return {"", *group["termSourcedIds"].replace(" ", "").split(",")}


def person(user):
    name = re.sub(r"[^A-Za-z0-9_.-]", "", user["username"].partition("@")[0])
    # No mail can go to the address of somebody who has none.
    address = user["email"] or f"{name}@school.invalid"
    first = user.get("preferredGivenName") or user["givenName"]
    last = user.get("preferredFamilyName") or user["familyName"]
    return [user["sourcedId"], name, address, first, last, ROLES[user["role"]]]


classes, terms = read("classes"), read("academicSessions", default={})
ends = [
    terms[term]["endDate"] or "9999"
    for group in classes.values()
    for term in terms_of(group) & terms.keys()
    if terms[term]["startDate"] <= TODAY
]
DAY = min(TODAY, max(ends, default=TODAY))
running = read("academicSessions", default={"": {}}, day=DAY).keys()
users = read("users")
# In 1.2 somebody may have several roles, of which one is the primary one.
roles = read("roles", default={}, day=DAY).values()
for row in sorted(roles, key=lambda row: row["roleType"] == "primary"):
    if row["userSourcedId"] in users:
        users[row["userSourcedId"]]["role"] = row["role"]
groups = {key: set() for key, user in users.items() if user.get("role") in ROLES}
for row in read("enrollments", day=DAY).values():
    key, group = row["userSourcedId"], classes.get(row["classSourcedId"])
    if key in groups and group and row["role"] == users[key]["role"]:
        runs = running & terms_of(group)
        groups[key] |= {(group["sourcedId"], group["title"][:64])} if runs else set()
table = csv.writer(sys.stdout)
table.writerow(FIELDS)
for key in groups:
    if users[key]["enabledUser"].lower() != "false":
        table.writerows(
            [*person(users[key]), *group] for group in sorted(groups[key]) or [("", "")]
        )
