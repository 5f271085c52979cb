"""client.js, the part for passkeys and their types, for front ends of any origin."""

import shutil
import subprocess

import pytest
from helpers import UNREACHABLE

from config import ROOT

FILES = {"client.js": "javascript", "client-passkeys.js": "javascript", "client.d.ts": "plain"}
ORIGIN = "https://app.example.org"
# Each part of the client, used as docs/browser.md says.
USE = """
import { createClient, Problem, type User } from "./client.js";
const client = createClient({ url: "https://accounts.example.org", storage: "local" });
const user: User | null = await client.resume();
const end: () => void = client.onChange((found, why) => {
  if (why === "ended") console.log(found?.username);
});
try {
  await client.signIn({ email: "ada", password: "x", secondFactor: "0", link: true });
} catch (problem) {
  if (problem instanceof Problem && problem.code === "wrong_code") {
    console.log(problem.reasons.x, problem.retryAfter + 1, problem.status);
  }
}
const person = { username: "ada", email: "ada@example.org", password: "x" };
const names = { firstName: "Ada", lastName: "Park" };
await client.signUp({ ...person, ...names, customFields: { newsletter: true, grade: null } });
const { total } = await client.call<{ total: number }>("GET", "users", { search: "x" });
const token: string | null = await client.token();
await client.passkeys.add({ password: "x", name: "y" });
const came: User | null = await client.arrived({ secondFactor: "1" });
await client.signInWith("school", { returnTo: "https://app.example.org/", ownDevice: true });
end();
console.log(user, total, token, came, client.user?.role, client.ownDevice);
"""
WRONG = {
    'storage: "session"': USE.replace('storage: "local"', 'storage: "session"'),
    "no password": USE.replace(', password: "x", secondFactor', ", secondFactor"),
    "no such reason": USE.replace('why === "ended"', 'why === "left"'),
}


@pytest.mark.parametrize("name", FILES)
def test_each_origin_may_read_a_file_and_ask_whether_it_has_changed(make_app, name):
    settings = {"account_pages": False, "cors_origins": (ORIGIN,)}
    client = make_app(database_url=UNREACHABLE, **settings).test_client()
    answer = client.get(f"/{name}", headers={"Origin": ORIGIN})
    assert answer.status_code == 200
    assert answer.data == (ROOT / "static" / name).read_bytes()
    assert answer.mimetype == f"text/{FILES[name]}"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in answer.headers
    assert answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert answer.headers["Cache-Control"] == "public, max-age=300"
    again = client.get(f"/{name}", headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    assert again.headers["Access-Control-Allow-Origin"] == "*"
    assert client.get(f"/{name}").headers["ETag"] == answer.headers["ETag"]


def test_the_client_is_small_and_whole():
    text = (ROOT / "static/client.js").read_text()
    assert len(text.encode()) <= 20_000
    assert "\nimport " not in text


@pytest.mark.parametrize("text", [USE, *WRONG.values()], ids=["right", *WRONG])
def test_types_are_strict(tmp_path, text):
    assert USE not in WRONG.values()
    if not (tool := shutil.which("tsc")):
        pytest.skip("tsc is not installed: npm install -g typescript")
    shutil.copy(ROOT / "static/client.d.ts", tmp_path)
    (tmp_path / "use.ts").write_text(text)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    options = ["--strict", "--noEmit", "--target", "es2022", "--module", "nodenext"]
    options += ["--lib", "es2022,dom"]
    done = subprocess.run([tool, *options, "use.ts"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode == 0) == (text == USE), done.stdout
