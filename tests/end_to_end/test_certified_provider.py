"""Sign in with `oidc-provider` for Node, which the OpenID Foundation has certified."""

import re
import shutil
import subprocess
from contextlib import contextmanager
from html import unescape
from http.cookiejar import CookieJar
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit
from urllib.request import HTTPCookieProcessor, build_opener

import pytest
from fake_provider import challenge_of
from real_service import PATIENCE, deployed, free_port
from sqlalchemy import URL

VERIFIER = "a-verifier.of~the_front-end" * 2
# It is form-encoded on its way, and colons would otherwise end a name.
CLIENT = {"id": "accounts: of+a school", "secret": "s3cr:t%2F+&= of the school"}
SCRIPT = """
import Provider from "oidc-provider";
const [issuer, port, callback, client_id, client_secret] = process.argv.slice(2);
const person = { given_name: "Ada", family_name: "Lovelace", email_verified: true };
const claims = (sub) => ({ sub, email: `${sub}@school.example`, ...person });
const provider = new Provider(issuer, {
  clients: [{ client_id, client_secret, redirect_uris: [callback] }],
  claims: { email: ["email", "email_verified"], profile: ["given_name", "family_name"] },
  cookies: { keys: ["of no importance"] },
  findAccount: (_, sub) => ({ accountId: sub, claims: () => claims(sub) }),
  pkce: { required: () => true },
});
provider.listen(port, "127.0.0.1", () => console.log("ready"));
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A folder with the package in it."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("Node is not installed")
    folder = tmp_path_factory.mktemp("node")
    options = ["--no-save", "--no-audit", "--no-fund", "--ignore-scripts"]
    command = ["npm", "install", *options, "--prefix", folder, "oidc-provider@9"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=3 * PATIENCE)
    except subprocess.TimeoutExpired:
        pytest.skip("npm does not end")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"npm cannot install it: {error.stderr[-500:]}")
    (folder / "provider.mjs").write_text(SCRIPT)
    return folder


@contextmanager
def running(folder, issuer, callback):
    command = ["node", "provider.mjs", issuer, str(urlsplit(issuer).port), callback]
    with subprocess.Popen(
        [*command, *CLIENT.values()], cwd=folder, stdout=subprocess.PIPE, text=True
    ) as node:
        try:
            assert any("ready" in line for line in node.stdout)
            yield
        finally:
            node.terminate()


class Browser:
    def __init__(self):
        self._open = build_opener(HTTPCookieProcessor(CookieJar())).open
        self.forms = 0  # how many it has sent

    def visit(self, url):
        """Do what each page of the provider asks for; return where that ends."""
        with self._open(url, timeout=PATIENCE) as page:
            place, text = page.geturl(), page.read().decode()
        while action := re.search(r'<form[^>]* action="([^"]+/interaction/[^"]+)"', text):
            (prompt,) = re.findall(r'name="prompt" value="(\w+)"', text)
            body = urlencode({"prompt": prompt, "login": "ada", "password": "anything"}).encode()
            with self._open(urljoin(place, unescape(action[1])), body, timeout=PATIENCE) as page:
                place, text = page.geturl(), page.read().decode()
            self.forms += 1
        return place


def test_somebody_signs_in_with_a_certified_provider(package, mail_server, tmp_path):
    issuer = f"http://127.0.0.1:{free_port()}"
    settings = {
        **{"OIDC_PROVIDERS": "school", "OIDC_SCHOOL_ISSUER": issuer},
        **{f"OIDC_SCHOOL_CLIENT_{name.upper()}": value for name, value in CLIENT.items()},
        # It refuses `select_account`.
        **{"OIDC_SCHOOL_DOMAINS": "school.example", "OIDC_SCHOOL_PROMPT": "none"},
    }
    url = URL.create("sqlite", database=str(tmp_path / "service.db"))
    with deployed(url, mail_server.port, tmp_path / "log", **settings) as service:
        path, browser, ids = "/api/auth/providers/school", Browser(), []
        with running(package, issuer, f"{service.url}{path}/callback"):
            for forms in (2, 2):  # who is still signed in there, comes back at once
                begun = service.call("POST", f"{path}/start", {"challenge": challenge_of(VERIFIER)})
                place = urlsplit(browser.visit(begun.data["url"]))
                assert (f"{place.scheme}://{place.netloc}", browser.forms) == (service.url, forms)
                proof = {"code": dict(parse_qsl(place.fragment))["code"], "verifier": VERIFIER}
                session = service.call("POST", "/api/auth/login", {"provider": proof}).data
                ids.append(session["user"]["id"])
        assert ids[0] == ids[1]
        token = session["accessToken"]
        profile = service.call("GET", "/api/users/profile", token=token).data
        told = {"email": "ada@school.example", "emailVerified": True, "lastName": "Lovelace"}
        assert {**told, "provider": issuer, "hasPassword": False}.items() <= profile.items()
