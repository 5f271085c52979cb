"""An application that signs its users in with this service; docs/applications.md says how:

pip install flask requests "pyjwt[crypto]" && flask --app application run --port 8080
"""

import base64
import hashlib
import os
import secrets
from urllib.parse import urlencode

import flask
import jwt
import requests

ISSUER = os.environ["ACCOUNTS_URL"]  # PUBLIC_URL of the service, letter for letter
CLIENT, SECRET = os.environ["CLIENT_ID"], os.environ["CLIENT_SECRET"]
HERE = os.environ["APPLICATION_URL"]  # HERE/callback is in REDIRECT_URIS, HERE/ in LOGOUT_URIS
KEYS = jwt.PyJWKClient(f"{ISSUER}/oauth/keys", lifespan=300)
DEMANDS = {"require": ["iss", "aud", "exp", "iat", "sub", "nonce"]}
PAGE = """<!doctype html><title>Notes</title><p>Hello, {{ name }}!</p>
<form method="post" action="/logout">{% for name, value in sent.items() %}
<input type="hidden" name="{{ name }}" value="{{ value }}">{% endfor %}
<button>Sign out</button></form>
"""
app = flask.Flask(__name__)
app.secret_key = os.environ["COOKIE_KEY"]  # as long as `openssl rand -hex 32`
# Lax: users come back from another site. An hour: nobody tells us of a sign-out there.
app.config.update(SESSION_COOKIE_SAMESITE="Lax", SESSION_COOKIE_SECURE=HERE.startswith("https:"))
app.config.update(PERMANENT_SESSION_LIFETIME=3600, SESSION_REFRESH_EACH_REQUEST=False)
people = {}  # by `sub`, since names and addresses are given again; in your database


@app.get("/")
def home():
    if (person := people.get(flask.session.get("sub"))) is None:
        return '<!doctype html><title>Notes</title><a href="/login">Sign in</a>'
    sent = {"id_token_hint": flask.session["id_token"], "post_logout_redirect_uri": f"{HERE}/"}
    return flask.render_template_string(PAGE, name=person["name"], sent=sent)


@app.get("/login")
def login():
    walk = {name: secrets.token_urlsafe(32) for name in ("state", "nonce", "code_verifier")}
    flask.session["walk"] = walk
    digest = hashlib.sha256(walk["code_verifier"].encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    asked = {"client_id": CLIENT, "redirect_uri": f"{HERE}/callback", "response_type": "code"}
    asked |= {"scope": "openid profile", "state": walk["state"], "nonce": walk["nonce"]}
    asked |= {"code_challenge": challenge, "code_challenge_method": "S256"}
    return flask.redirect(f"{ISSUER}/oauth/authorize?{urlencode(asked)}")


@app.get("/callback")
def callback():
    walk, said = flask.session.pop("walk", None), flask.request.args
    if not walk or (said.get("state"), said.get("iss")) != (walk["state"], ISSUER):
        flask.abort(400, "This sign-in did not begin here. Begin again.")
    if "code" not in said:  # such as access_denied
        flask.abort(403, said.get("error"))
    form = {"grant_type": "authorization_code", "code": said["code"]}
    form |= {"redirect_uri": f"{HERE}/callback", "code_verifier": walk["code_verifier"]}
    answer = requests.post(f"{ISSUER}/oauth/token", form, auth=(CLIENT, SECRET), timeout=10)
    answer.raise_for_status()
    token = answer.json()["id_token"]
    key = KEYS.get_signing_key_from_jwt(token)
    whose = {"issuer": ISSUER, "audience": CLIENT}
    claims = jwt.decode(token, key, algorithms=["RS256"], options=DEMANDS, **whose)
    if claims["nonce"] != walk["nonce"]:
        flask.abort(400, "This is the answer to another sign-in.")
    people[claims["sub"]] = {"name": claims["name"]}
    flask.session.clear()
    flask.session.permanent = True
    flask.session.update(sub=claims["sub"], id_token=token)
    return flask.redirect("/")


@app.post("/logout")
def logout():
    flask.session.clear()
    # 307: the browser sends the same form there, so that no log has the hint.
    return flask.redirect(f"{ISSUER}/oauth/logout", 307)
