"""Two applications of the operator, and the steps of a sign-in to them, as each would take them."""

import base64
from urllib.parse import parse_qsl, urlsplit

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from fake_provider import challenge_of
from helpers import bearer, success

from config.applications import ApplicationSettings

KEY = rsa.generate_private_key(65537, 2048)
SECRET = "wiki-secret.0123456789_ABCDEFGHIJ~"
STILL_KNOWN = "You may still be signed in to applications that you have used."
BACK, SPA_BACK = "https://wiki.test/back?from=here", "http://localhost:3000/back"
BYE = "https://wiki.test/bye"
# One with a server, and one that runs in the browser.
WIKI = ApplicationSettings(
    name="wiki", label="Our Wiki", secret=SECRET, redirect_uris=(BACK,), logout_uris=(BYE,)
)
SPA = ApplicationSettings(name="spa", label="Spa", redirect_uris=(SPA_BACK, BACK))
VERIFIER = "a-verifier_of.PKCE~with-more-than-43-characters"
CHALLENGE = {"code_challenge": challenge_of(VERIFIER), "code_challenge_method": "S256"}


def der(key):
    """Return a private key as it stands in APPLICATIONS_KEYS."""
    form = serialization.Encoding.DER, serialization.PrivateFormat.PKCS8
    return base64.b64encode(key.private_bytes(*form, serialization.NoEncryption())).decode()


def asking(application=WIKI, **changes):
    """Return what an application asks for; without what is None."""
    asked = {"client_id": application.name, "redirect_uri": application.redirect_uris[0]}
    asked |= {"response_type": "code", "scope": "openid profile email", "state": "s t&te"}
    asked |= {"nonce": "n-1", **({} if application.secret else CHALLENGE), **changes}
    return {name: value for name, value in asked.items() if value is not None}


def sent_to(response, start=""):
    """Return what stands in the URL to which a browser is sent, by name."""
    assert response.status_code == 303, response.text
    url = response.headers["Location"]
    assert url.startswith(start), url
    return dict(parse_qsl(urlsplit(url).fragment or urlsplit(url).query, strict_parsing=True))


def begin(client, application=WIKI, **changes):
    """Return the request with which a sign-in goes on at our page."""
    response = client.get("/oauth/authorize", query_string=asking(application, **changes))
    return sent_to(response, "https://school.test/account#request=")["request"]


def check(client, request):
    return client.post("/api/auth/applications/check", json={"request": request})


def ask_code(client, session, request):
    body = {"request": request}
    return client.post("/api/auth/applications/codes", json=body, headers=bearer(session))


def answer(client, session, request):
    """Return what the application gets by the browser of a user who has signed in."""
    url = success(ask_code(client, session, request))["url"]
    return dict(parse_qsl(urlsplit(url).query, strict_parsing=True))


def code_of(client, session, application=WIKI, **changes):
    return answer(client, session, begin(client, application, **changes))["code"]


def redeem(client, code, headers=None, **changes):
    """Send a code as the wiki's server does."""
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": BACK}
    form |= {"client_id": "wiki", "client_secret": SECRET, **changes}
    form = {name: value for name, value in form.items() if value is not None}
    return client.post("/oauth/token", data=form, headers=headers)


def tokens_of(client, session, **changes):
    response = redeem(client, code_of(client, session, **changes))
    assert response.status_code == 200, response.text
    return response.get_json()


def user_info(client, token):
    return client.get("/oauth/userinfo", headers=bearer(token))


def refused(response, status, error):
    """Assert the shape of an error in the words of OAuth."""
    assert (response.status_code, response.get_json()["error"]) == (status, error), response.text
    assert response.get_json().keys() == {"error", "error_description"}
    assert response.headers["Cache-Control"] == "no-store"
    assert ("WWW-Authenticate" in response.headers) == (status == 401)


def basic(name, secret):
    pair = base64.b64encode(f"{name}:{secret}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}
