"""Keeps accounts and groups in step with a list of people, by one call; docs/moving.md says how:

python3 nightly.py FILE [--dry-run] [--all]
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

for stream in (sys.stdout, sys.stderr):  # or a name could stop the run
    stream.reconfigure(encoding="utf-8", errors="backslashreplace")
# Batches that were done stay, and the same call does the rest.
sys.excepthook = lambda kind, error, _: print("Unfinished:", kind.__name__, error, file=sys.stderr)
url = os.environ["ACCOUNTS_URL"] + "/api/users/lists?groups=only&missing=deactivate"
url += "&all=true" * ("--all" in sys.argv) + "&apply=true" * ("--dry-run" not in sys.argv)
headers = {"Authorization": f"Bearer {os.environ['ACCOUNTS_KEY']}", "Content-Type": "text/csv"}
request = urllib.request.Request(url, Path(sys.argv[1]).read_bytes(), headers)
done = None
while done is None:
    try:
        done = json.load(urllib.request.urlopen(request, timeout=600))["data"]
    except urllib.error.HTTPError as error:
        if error.code not in (429, 503):
            sys.exit(f"{error}: {error.read().decode(errors='replace')}")
        time.sleep(int(error.headers["Retry-After"] or 5))

acts = [(each["status"], each, "line username changes code reasons") for each in done["lines"]]
acts += [("differs", each, "line differs") for each in done["lines"] if each["differs"]]
acts += [("deactivated", each, "externalId username") for each in done["missing"]]
for what, who, facts in acts:
    if what != "same":
        text = ", ".join(f"{fact} {who[fact]}" for fact in facts.split() if who[fact])
        stream = sys.stderr if what == "refused" else sys.stdout
        print(f"{what}: {who['firstName']} {who['lastName']}, {text}", file=stream)
if done["leftOut"]:
    print("Columns that are left out:", ", ".join(done["leftOut"]))
did = [what for what, _, _ in acts if what not in ("same", "differs")]
print(", ".join(f"{what} {did.count(what)}" for what in dict.fromkeys(did)) or "nothing to do")
sys.exit("refused" in did)
