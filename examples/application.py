"""An application that signs its users in with this service; docs/applications.md says how:

pip install authlib flask requests && flask --app application run --port 8080
"""

import os

import flask
from authlib.integrations.flask_client import OAuth, OAuthError
from joserfc.errors import JoseError

ISSUER = os.environ["ACCOUNTS_URL"]  # PUBLIC_URL of the service, letter for letter
HERE = os.environ["APPLICATION_URL"]  # HERE/callback is in REDIRECT_URIS, HERE/ in LOGOUT_URIS
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
accounts = OAuth(app).register(
    "accounts",
    client_id=os.environ["CLIENT_ID"],
    client_secret=os.environ["CLIENT_SECRET"],
    server_metadata_url=f"{ISSUER}/.well-known/openid-configuration",
    client_kwargs={"scope": "openid profile", "code_challenge_method": "S256"},
)
people = {}  # by `sub`, since names and addresses are given again; in your database


@app.get("/")
def home():
    if (person := people.get(flask.session.get("sub"))) is None:
        return '<!doctype html><title>Notes</title><a href="/login">Sign in</a>'
    sent = {"id_token_hint": flask.session["id_token"], "post_logout_redirect_uri": f"{HERE}/"}
    return flask.render_template_string(PAGE, name=person["name"], sent=sent)


@app.get("/login")
def login():
    return accounts.authorize_redirect(f"{HERE}/callback")


@app.get("/callback")
def callback():
    if flask.request.args.get("iss") != ISSUER:
        flask.abort(400, "This is the answer of somebody else.")
    try:
        tokens = accounts.authorize_access_token()  # looks at state, signature, `aud` and nonce
    except (OAuthError, JoseError) as error:  # such as access_denied
        flask.abort(400, f"{error}")
    claims = tokens["userinfo"]
    people[claims["sub"]] = {"name": claims["name"]}
    flask.session.clear()
    flask.session.permanent = True
    flask.session.update(sub=claims["sub"], id_token=tokens["id_token"])
    return flask.redirect("/")


@app.post("/logout")
def logout():
    flask.session.clear()
    # 307: the browser sends the same form there, so that no log has the hint.
    return flask.redirect(f"{ISSUER}/oauth/logout", 307)
