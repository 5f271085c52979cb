"""Keeps accounts and groups in step with a CSV file of the school; docs/moving.md says how."""

import csv
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections import Counter, defaultdict

# The ids of groups are made with this UUID: replace it by one of your own.
OURS = uuid.UUID("6f1c2c5e-5d0a-4b57-9d3e-0f6a1b7c8d90")
API, KEY = os.environ["ACCOUNTS_URL"] + "/api", os.environ["ACCOUNTS_KEY"]
DRY_RUN, ALL = "--dry-run" in sys.argv, "--all" in sys.argv
PERSON = ("externalId", "username", "email", "firstName", "lastName")
NAMES = ("externalId", "firstName", "lastName")
done = Counter()


class Refused(Exception):
    """The service does not do this; the text is its answer."""


def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    request = urllib.request.Request(API + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)["data"]
    except urllib.error.HTTPError as error:
        if error.code in (429, 503):
            time.sleep(int(error.headers["Retry-After"] or 5))
            return call(method, path, body)
        refusal = error.read().decode()
    if method == "GET":
        sys.exit(f"GET {path} is refused: {refusal}")
    raise Refused(refusal)


def refuse(text):
    print(text, file=sys.stderr)
    done["refused"] += 1


def say(what, text):
    print(f"{what}: {text}")
    done[what] += 1


def act(what, text, *request):
    try:
        made = None if DRY_RUN else call(*request)
    except Refused as answer:
        return refuse(f"{what}: {text}: {answer}")
    say(what, text)
    return made


def act_on_all(what, people, method, path, name, **body):
    """Do this for many, 1,000 a call: `people` are texts by id, and `name` is the field for ids."""
    for start in range(0, len(people), 1000):
        some = sorted(people)[start : start + 1000]
        try:
            answer = {"refused": []} if DRY_RUN else call(method, path, {name: some, **body})
        except Refused as refusal:
            refuse(f"{what}: {refusal}")
            continue
        refused = {each["id"]: each["code"] for each in answer["refused"]}
        for user in some:
            if user in refused:
                refuse(f"{what}: {people[user]}: {refused[user]}")
            else:
                say(what, people[user])


def accounts():
    """Return all accounts that a key may see."""
    found, place, limit, more = {}, "", 1000, True
    while more:
        data = call("GET", f"/users/changes?limit={limit}{place}")
        found |= {change["id"]: change["account"] for change in data["changes"]}
        place, more = f"&after={data['next']}", len(data["changes"]) == limit
    return [account for account in found.values() if account]


def members(group):
    found, page, more = {}, 0, True
    while more:
        page += 1
        users = call("GET", f"/users?groupId={group}&perPage=100&page={page}")["users"]
        found |= {user["id"]: user for user in users}
        more = len(users) == 100
    return found


def is_untouched(user):
    """Return whether nobody ever chose a password for this account, or signed in."""
    state = user if user["lastLogin"] else call("GET", f"/users/{user['id']}/account")
    return not (state["lastLogin"] or state["hasPassword"] or state["provider"])


with open(sys.argv[1], newline="", encoding="utf-8-sig") as file:
    rows = csv.DictReader(file, restval="")
    lines = [{name: cell.strip() for name, cell in row.items()} for row in rows]
    managed = {"student", "instructor"} if "role" in rows.fieldnames else {"student"}
wanted, names, numbers = {}, {}, defaultdict(set)
for line in lines:
    person = {name: line[name] for name in PERSON} | {"role": line.get("role") or "student"}
    key = line["externalId"]
    # Or somebody would get into the groups of others.
    if not key or wanted.setdefault(key, person) != person or person["role"] not in managed:
        sys.exit(f"This line has no externalId of its own, or another role: {line}")
    if known := line.get("groupId") or line["group"]:
        group = str(uuid.uuid5(OURS, known))
        names[group] = line["group"] or known
        numbers[group].add(key)

everybody = accounts()
by_number = {user["externalId"]: user for user in everybody if user["externalId"]}
by_address = {user["email"]: user for user in everybody if not user["externalId"]}
pupils = {key: user for key, user in by_number.items() if user["role"] == "student"}
leavers = [user for key, user in pupils.items() if key not in wanted and user["isActive"]]
if len(leavers) * 4 > len(pupils) and not ALL:  # perhaps the file was cut off
    sys.exit(f"{len(leavers)} of {len(pupils)} would leave. Look at the file, or use --all.")

ids = {}
for key, line in wanted.items():
    who = f"{key} {line['firstName']} {line['lastName']}"
    user = by_number.get(key) or by_address.pop(line["email"].lower(), None)
    if user is None:
        made = act("new", who, "POST", "/users", {**line, "deliver": "none"})
        if made or DRY_RUN:
            ids[key] = made["user"]["id"] if made else key
        continue
    if user["role"] != line["role"]:
        say("differs", f"{who}: the account has the role {user['role']}")
        continue
    # An address that nobody has proved may be that of a stranger's account.
    if not user["externalId"] and not user["emailVerified"] and not is_untouched(user):
        refuse(f"{who}: {user['username']} has registered {user['email']}. Is it the same person?")
        continue
    ids[key] = user["id"]
    right = {name: line[name] for name in NAMES}
    if line["role"] == "student":
        right["isActive"] = True
    there = {name: line[name] for name in ("username", "email") if line[name]}
    differs = {n: value for n, value in there.items() if value.lower() != user[n].lower()}
    if differs and line["role"] == "student" and is_untouched(user):
        right |= differs
    else:
        for name, value in differs.items():
            say("differs", f"{who}: {name} is {user[name]}, in the file {value}")
    body = {name: value for name, value in right.items() if user[name] != value}
    if body:
        act("changed", who, "PATCH", f"/users/{user['id']}", body)
left = {user["id"]: " ".join(user[name] for name in NAMES) for user in leavers}
act_on_all("deactivated", left, "PATCH", "/users", "ids", isActive=False)

others = [user for key, user in by_number.items() if key not in wanted]
movable = {*ids.values(), *(user["id"] for user in others if user["role"] in managed)}
here = {group["id"]: group["name"] for group in call("GET", "/groups")["groups"]}
# Groups with such an id that are not in the file were in earlier ones.
earlier = {group for group in here.keys() - names.keys() if uuid.UUID(group).version == 5}
names |= {group: here[group] for group in sorted(earlier)}
for group, name in names.items():
    if group not in here:
        act("group", name, "PUT", f"/groups/{group}", {"name": name})
    elif here[group] != name:
        act("renamed", f"{here[group]} to {name}", "PUT", f"/groups/{group}", {"name": name})
    are = members(group) if group in here else {}
    belong = {ids[key]: key for key in numbers[group] if key in ids}
    leave = (are.keys() & movable) - belong.keys()
    join = {user: f"{belong[user]} {name}" for user in belong.keys() - are.keys()}
    act_on_all("joined", join, "POST", f"/groups/{group}/members", "add")
    left = {user: f"{are[user]['username']} {name}" for user in leave}
    act_on_all("left", left, "POST", f"/groups/{group}/members", "remove")
    stay = [are[user]["role"] for user in are.keys() - leave]
    stay += [wanted[key]["role"] for key in belong.values()]
    if leave and "student" not in stay:
        say("empty", name)
print(", ".join(f"{what} {count}" for what, count in done.items()) or "nothing to do")
sys.exit(1 if done["refused"] else 0)
