"""What docs/moving.md shows: its commands and programs, with what other systems store."""

import base64
import csv
import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
import unicodedata
from datetime import UTC, datetime

import bcrypt
import pytest
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from helpers import PASSWORD, login, rows, stored, success

from config import ROOT
from core.passwords import Hasher
from models import User

PAGE = (ROOT / "docs/moving.md").read_text()
BCRYPT = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()


def section(title):
    """Return the blocks of code below a heading, by language."""
    (part,) = (part for part in PAGE.split("\n## ") if part.startswith(f"{title}\n"))
    found = {}
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```", part, re.M | re.S):
        found[language] = found.get(language, "") + block
    return found


@pytest.fixture
def follow(run, tmp_path, monkeypatch):
    """Do what a section says, in an empty folder; return what the commands of ours printed."""
    monkeypatch.chdir(tmp_path)

    def follow(title, program=""):
        blocks, printed = section(title), []
        for name, lines in re.findall(
            r"^cat > (\S+) <<'END'\n(.*?)^END\n", blocks["sh"], re.M | re.S
        ):
            (tmp_path / name).write_text(lines)
        commands = re.sub(r"<<'END'\n.*?^END\n", "\n", blocks["sh"], flags=re.M | re.S)
        for line in commands.splitlines():
            words, _, target = line.partition("#")[0].partition(" > ")
            if words.startswith("python3 "):
                # Where the system's encoding is not UTF-8, files are read and written all the same.
                strict = "-Xwarn_default_encoding", "-Werror::EncodingWarning"
                command = [sys.executable, *strict, "-c", program or blocks["python"]]
                made = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
                (tmp_path / target.strip()).write_bytes(made)
            elif words.startswith("flask "):
                output, code = run(*shlex.split(words)[1:])
                assert code == 0, output
                printed.append(output)
                if target:
                    (tmp_path / target.strip()).write_text(output)
            else:
                assert words.split()[:1] in ([], ["cat"]), line
        return printed

    return follow


def test_a_file_of_accounts_and_a_class(app, client, follow, tmp_path):
    tried, done = follow("A file of accounts")
    assert tried == done == "made: 2\npresent: 0\nrefused: 0\n"
    assert follow("From a spreadsheet") == [done]
    with (tmp_path / "codes.csv").open() as file:
        codes = {row["username"]: row["code"] for row in csv.DictReader(file)}
    body = {"account": "mia", "code": codes["mia"], "newPassword": PASSWORD}
    success(client.post("/api/auth/reset-password", json=body))
    success(login(client, "mia"))
    assert {row.username for row in rows(app, User)} == {"ada", "kim", "ben", "mia"}


DJANGO = """
import sys
import unicodedata
from datetime import UTC, datetime
from types import ModuleType, SimpleNamespace


class Objects(list):
    exclude = lambda self, email: Objects(user for user in self if user.email != email)
    order_by = lambda self, name: self
    iterator = lambda self: iter(self)

class Addresses:
    filter = lambda self, verified, email: SimpleNamespace(exists=lambda: verified)

def user(name, email, last_login=None):
    zone = UTC if name == "ada" else None  # without USE_TZ
    then = datetime(2020, 1, 2, 3, 4, 5, 678, tzinfo=zone)
    return SimpleNamespace(get_username=lambda: name, email=email, first_name="", last_name="Lee",
        password=HASH, is_active=True, date_joined=then, last_login=last_login and then,
        emailaddress_set=Addresses())

users = Objects([user("ada", "ada@a.org", True), user("b@c", "ben@a.org"), user("cy", "")])
for module in ("django.contrib.auth", "django.core.management.base"):
    parts = module.split(".")
    for count in range(len(parts)):
        name = ".".join(parts[:count + 1])
        sys.modules[name] = ModuleType(name)
sys.modules["django.contrib.auth"].get_user_model = lambda: SimpleNamespace(objects=users)
sys.modules["django.core.management.base"].BaseCommand = object
"""


def test_from_django(app, client, follow):
    digest = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), b"salt", 10)
    stored_hash = f"pbkdf2_sha256$10$salt${base64.b64encode(digest).decode()}"
    end = "\nCommand.stdout = SimpleNamespace(write=print)\nCommand().handle()\n"
    with_allauth = re.sub(r"# (proof|account\[)", r"\1", section("From Django")["python"])
    program = f"HASH = {stored_hash!r}\n{DJANGO}{with_allauth}{end}"
    assert follow("From Django", program) == ["made: 2\npresent: 0\nrefused: 0\n"]
    success(login(client, "ada@a.org"))
    user = stored(app, username="ada")
    assert (user.first_name, user.created_at) == ("ada", datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert user.email_verified_at
    assert stored(app, email="ben@a.org").username == "ben"


def keycloak(name, algorithm, digest, rounds, more):
    said = {"hashIterations": rounds, "algorithm": algorithm, "additionalParameters": more}
    encoded = {"salt": b"0123456789abcde\xfb", "value": digest}
    secret = {part: base64.b64encode(raw).decode() for part, raw in encoded.items()}
    password = {"credentialData": json.dumps(said), "secretData": json.dumps(secret)}
    user = {"id": f"{len(name):08}-0000-4000-8000-000000000000", "username": name}
    user |= {"email": f"{name}@a.org", "emailVerified": True, "enabled": True}
    user["credentials"] = [{"type": "password", **password}]
    return {**user, "createdTimestamp": 1600000000123}


def test_from_keycloak(app, client, follow, tmp_path):
    salt, password = b"0123456789abcde\xfb", PASSWORD.encode()
    sizes = {"hashLength": ["32"], "memory": ["64"], "type": ["id"], "parallelism": ["1"]}
    argon2 = Argon2id(salt=salt, length=32, iterations=2, lanes=1, memory_cost=64)
    users = [
        keycloak("argon", "argon2", argon2.derive(password), 2, {**sizes, "version": ["1.3"]}),
    ]
    for name in ("sha256", "sha512"):
        digest = hashlib.pbkdf2_hmac(name, password, salt, 9, 64)
        users.append(keycloak(name, f"pbkdf2-{name}", digest, 9, {}))
    users[2]["id"] = users[2]["id"].replace("4000", "4001")
    (tmp_path / "realm.json").write_text(json.dumps({"users": [*users, {"username": "service"}]}))
    assert follow("From Keycloak") == ["made: 3\npresent: 0\nrefused: 0\n"]
    for user in users:
        success(login(client, user["email"]))
        assert stored(app, username=user["username"]).id == user["id"]


PASSWORDS = ["Tr4vel-Mug-Blue-42", "F\u00fcchse \ufb01nd ich gut", "e\u0301" * 36, "a" * 100]
DJANGO_LOGIN = """
import json, sys
from django.conf import settings
settings.configure(PASSWORD_HASHERS=["django.contrib.auth.hashers.PBKDF2PasswordHasher",
    "django.contrib.auth.hashers.BCryptPasswordHasher", "__main__.LongHasher"])
from django.contrib.auth.hashers import check_password, identify_hasher
for password, stored in json.load(sys.stdin):
    named = ("bcrypt$" if stored.startswith("$2b$") else "accounts$") + stored
    anew = []
    assert check_password(password, named, setter=anew.append)
    assert anew == [password]
    assert not check_password(password + "!", named)
    if named.startswith("accounts"):
        assert matches(password, stored) and not matches(password + "!", stored)
print("all")
"""


@pytest.fixture(scope="module")
def ours():
    """Passwords, short ones in the form in which they are hashed, and our hashes of them."""
    hasher = Hasher(rounds=4, parallel=1, waiting=1)
    short = [unicodedata.normalize("NFKC", each) for each in PASSWORDS[:2]]
    return [(each, hasher.hash(each)) for each in short + PASSWORDS[2:]]


def test_our_hashes_go_into_django_and_python(ours):
    program = section("Away from here")["python"]
    command = [sys.executable, "-W", "ignore", "-c", program + DJANGO_LOGIN]
    done = subprocess.run(command, input=json.dumps(ours), capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("all\n", 0), done.stderr


@pytest.mark.skipif(not shutil.which("node"), reason="there is no Node.js")
def test_our_long_hashes_go_into_node(ours, tmp_path):
    (tmp_path / "long_hashes.mjs").write_text(section("Away from here")["js"])
    (tmp_path / "main.mjs").write_text("""
        import { matches } from "./long_hashes.mjs";
        import { readFileSync } from "node:fs";
        const asked = { compare: (key, hash) => [key, hash] };
        const ours = JSON.parse(readFileSync(0, "utf8"));
        console.log(JSON.stringify(ours.map((each) => matches(asked, ...each))));
    """)
    long = [each for each in ours if each[1].startswith("$bcrypt-sha256$")]
    assert len(long) == 2
    typed = [*long, *((f"{password}!", stored) for password, stored in long)]
    command = ["node", str(tmp_path / "main.mjs")]
    done = subprocess.run(command, input=json.dumps(typed), capture_output=True, text=True)
    asked = [(key.encode(), stored.encode()) for key, stored in json.loads(done.stdout)]
    assert [bcrypt.checkpw(*each) for each in asked] == [True, True, False, False]


def test_away_from_here(follow, make_user):
    make_user("ada", role="admin")
    people, with_hashes, again = follow("Away from here")
    assert "passwordHash" not in people
    assert "passwordHash" in with_hashes
    assert again == "made: 0\npresent: 1\nrefused: 0\n"
