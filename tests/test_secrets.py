"""One whole way through the service, watched: no secret is where it does not belong.

What is looked at: every answer with its headers, every cell of every table, every line of the
log, and every mail.
"""

import base64
import hashlib
import io
import logging
import re
from types import SimpleNamespace
from urllib.parse import quote

import pytest
from helpers import PASSWORD, SECRET, Log, failure, on_one_database, registration, success, token_in
from PIL import Image
from sqlalchemy import MetaData, select, update

from core.roles import Role
from database import reading, transaction
from extensions import db
from models import User

NEW_PASSWORD = "seven green lamps by the door"
LAST_PASSWORD = "a kettle, purple as the rain"
WRONG_PASSWORDS = ["not the password, but close", "another one that is not it"]

# The cells in which something stands on purpose.
AT_HOME = {
    "users.email": "address",
    "users.search_key": "address",
    "outbox.address": "address",
    "users.password_hash": "hash",
}
A_TOKEN = re.compile(r"eyJ[\w-]{8,}\.[\w-]{8,}")
A_LINK = re.compile(r"#token=")
A_HASH = re.compile(r"\$2[aby]\$|\$bcrypt")


class Leak(AssertionError):
    """A secret was found in a place where it does not belong."""


class Watch:
    """Makes calls, remembers the secrets that come along, and looks for them everywhere.

    What was said before a secret was known is looked through again with each later call.
    """

    def __init__(self, app, outbox):
        self._app, self._outbox = app, outbox
        self._client = app.test_client()
        self._log = Log()
        self._secrets = {}
        self._said = []
        self._tables = MetaData()
        with app.app_context():
            self._tables.reflect(db.engine)  # all that are there, whether or not a model names them
        self.learn("key", SECRET)

    def learn(self, kind, secret):
        """Look for this from now on, in every form in which it would be of use to a thief."""
        if kind == "token":
            signature = secret.rpartition(".")[2]
            forms = {max(secret.split("."), key=len), signature[:16], signature[-16:]}
        else:
            raw = secret.encode()
            forms = {secret, quote(secret, safe=""), base64.b64encode(raw).decode().rstrip("=")}
            if kind == "password":
                # A digest without salt is as good as the password.
                digests = (hashlib.md5, hashlib.sha1, hashlib.sha256, hashlib.sha512)
                forms |= {digest(raw).hexdigest() for digest in digests}
        for form in forms:
            self._secrets[form] = kind

    def call(self, method, path, body=None, *, of=None, shows=(), **options):
        """Call as a user. The answer may show that user's own address, and what else it `shows`."""
        headers = {"Authorization": f"Bearer {of.access}"} if of and of.access else {}
        response = self._client.open(path, method=method, json=body, headers=headers, **options)
        said = f"{response.headers}\n{response.get_data().decode('latin-1')}"
        if path.endswith(("/auth/login", "/auth/refresh")) and response.status_code == 200:
            data = response.get_json()["data"]
            for token in (data["accessToken"], data["refreshToken"]):
                self.learn("token", token)
                assert said.count(token) == 1
                said = said.replace(token, "")
        for address in {*shows, *([of.email] if of else [])}:
            said = said.replace(address, "")
        self._said.append((f"the answer of {method} {path}", said))
        self.look()
        return response

    def get(self, path, **options):
        return self.call("GET", path, **options)

    def post(self, path, body=None, **options):
        return self.call("POST", path, body, **options)

    def deliver(self):
        """Deliver the mails; return the token of the last one, if it has one."""
        token = None
        for mail in self._outbox.deliver():
            said = f"{mail.items()}" + "".join(part.get_content() for part in mail.iter_parts())
            if A_LINK.search(said):
                token = token_in(mail)
                self.learn("token", token)
                said = said.replace(f"#token={token}", "")
            self._said.append((f"the mail to {mail['To']}", said.replace(mail["To"], "")))
        self.look()
        return token

    def look(self):
        """Look through all that was said and is stored. Raises Leak."""
        self._said.append(("the log", self._log.text()))
        for place, said in self._said:
            self._search(place, said)
        with self._app.app_context(), reading() as connection:
            for table in self._tables.sorted_tables:
                for row in connection.execute(select(table)).mappings():
                    for name, value in row.items():
                        self._look_at_cell(f"{table.name}.{name}", value)

    def _look_at_cell(self, cell, value):
        if cell == "users.password_hash" and value not in self._secrets:
            assert value.startswith("$bcrypt-sha256$"), "no hash of ours"
            self.learn("hash", value)
        text = value.decode("latin-1") if isinstance(value, bytes | memoryview) else str(value)
        self._search(cell, text, AT_HOME.get(cell))

    def _search(self, place, text, at_home=None):
        for secret, kind in self._secrets.items():
            if kind != at_home and secret in text:
                raise Leak(f"{kind} in {place}: {secret}")
        # Those that nobody has told us of.
        patterns = {"token": A_TOKEN, "link": A_LINK, "hash": A_HASH}
        for kind, pattern in patterns.items():
            if kind != at_home and pattern.search(text):
                raise Leak(f"{kind} in {place}: {pattern.search(text)[0]}")


@pytest.fixture(params=["text", "json"])
def watch(request, make_app, outbox):
    return Watch(make_app(log_format=request.param, log_level="DEBUG"), outbox)


def picture():
    file = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(file, "PNG")
    return {"avatar": (io.BytesIO(file.getvalue()), "me.png")}


def joined(watch, name, password):
    """Register and confirm the address; return the user, who is not logged in yet."""
    user = SimpleNamespace(email=f"{name}@example.org", password=password, access=None)
    watch.learn("password", password)
    watch.learn("address", user.email)
    body = registration(name, password=password)
    user.id = success(watch.post("/api/auth/register", body, of=user), 201)["userId"]
    failure(watch.post("/api/auth/register", body), 409, "username_taken")
    token = watch.deliver()
    success(watch.post("/api/auth/verify-email", {"token": token}))
    failure(watch.post("/api/auth/verify-email", {"token": token}), 400, "invalid_token")
    return user


def log_in(watch, user):
    body = {"email": user.email, "password": user.password}
    data = success(watch.post("/api/auth/login", body, of=user))
    user.access, user.refresh = data["accessToken"], data["refreshToken"]
    return user


def test_a_whole_walk_leaves_no_secret_where_it_does_not_belong(watch, make_user):
    for password in (NEW_PASSWORD, LAST_PASSWORD, *WRONG_PASSWORDS):
        watch.learn("password", password)
    watch.learn("address", "nobody.here@example.org")
    user = joined(watch, "walker", PASSWORD)
    friend = joined(watch, "friend", "fourteen dull pebbles in a row")
    refresh_is_rotated_and_replayed(watch, user)
    own_record_is_read_and_changed(watch, user)
    others_look(watch, user, friend)
    password_is_changed(watch, user)
    password_is_forgotten(watch, user)
    made = make_user("head", role=Role.ADMIN, password="a head that nobody would guess")
    watch.learn("password", made.password)
    watch.learn("address", made.email)
    head = log_in(watch, SimpleNamespace(**vars(made), access=None))
    accounts_are_managed(watch, head, user, friend)
    account_is_deleted(watch, user)


def refresh_is_rotated_and_replayed(watch, user):
    # People type a password into the wrong field, and into the wrong end of the address.
    login = "/api/auth/login"
    wrong = {"email": user.email, "password": WRONG_PASSWORDS[0]}
    failure(watch.post(login, wrong), 401, "invalid_credentials")
    wrong = {"email": "nobody.here@example.org", "password": PASSWORD}
    failure(watch.post(login, wrong), 401, "invalid_credentials")
    wrong = {"email": PASSWORD, "password": PASSWORD}
    failure(watch.post(login, wrong), 401, "invalid_credentials")
    failure(watch.post(login, {**wrong, "password": [PASSWORD]}), 400, "invalid_request")
    wrong = registration("other", password=user.email)
    failure(watch.post("/api/auth/register", wrong | {"email": PASSWORD}), 400, "invalid_request")
    path = f"{login}?email={quote(user.email)}&password={quote(PASSWORD)}"
    failure(watch.get(path), 405, "method_not_allowed")

    log_in(watch, user)
    first = user.refresh
    body = {"refreshToken": first}
    second = success(watch.post("/api/auth/refresh", body))
    assert success(watch.post("/api/auth/refresh", body))["refreshToken"] == second["refreshToken"]
    success(watch.post("/api/auth/refresh", {"refreshToken": second["refreshToken"]}))
    failure(watch.post("/api/auth/refresh", body), 401, "token_revoked")
    failure(watch.get("/api/auth/verify", of=user), 401, "token_revoked")
    failure(watch.post("/api/auth/refresh", {"refreshToken": first + "x"}), 401, "token_invalid")
    failure(watch.get(f"/api/auth/verify?token={user.access}"), 401, "token_missing")

    log_in(watch, user)
    success(watch.post("/api/auth/logout", of=user))
    log_in(watch, user)
    success(watch.get("/api/auth/verify", of=user))
    (session,) = success(watch.get("/api/auth/sessions", of=user))["sessions"]
    unknown = f"/api/auth/sessions/{session['id'][:-4]}0000"
    failure(watch.call("DELETE", unknown, of=user), 404, "not_found")
    success(watch.call("DELETE", "/api/auth/sessions", of=user))


def own_record_is_read_and_changed(watch, user):
    success(watch.call("PUT", "/api/users/profile", {"bio": "I learn."}, of=user))
    assert success(watch.get("/users/profile", of=user))["email"] == user.email
    wrong = {"website": f"https://user:{PASSWORD}@example.org"}
    failure(watch.call("PUT", "/api/users/profile", wrong, of=user), 400, "invalid_request")
    success(watch.call("PUT", "/api/users/settings", {"theme": "dark"}, of=user))
    success(watch.get("/api/users/settings", of=user))
    success(watch.get("/api/users/progress", of=user))
    success(watch.get("/api/users/certificates", of=user))
    answer = success(watch.post("/api/users/avatar", data=picture(), of=user))
    shown = watch.get(answer["avatar"].removeprefix("https://school.test"))
    assert shown.mimetype == "image/webp"


def others_look(watch, user, friend):
    log_in(watch, friend)
    record = f"/api/users/{user.id}"
    success(watch.get(record, of=friend))
    private = {"privacy": {"profileVisible": False}}
    success(watch.call("PUT", "/api/users/settings", private, of=user))
    failure(watch.get(record, of=friend), 403, "profile_private")
    failure(watch.get("/api/users", of=friend), 403, "forbidden")


def password_is_changed(watch, user):
    def change(current, new):
        body = {"currentPassword": current, "newPassword": new}
        return watch.call("PUT", "/api/users/password", body, of=user)

    failure(change(WRONG_PASSWORDS[1], NEW_PASSWORD), 400, "wrong_password")
    failure(change(PASSWORD, user.email), 400, "weak_password")
    success(change(PASSWORD, NEW_PASSWORD))
    watch.deliver()
    user.password = NEW_PASSWORD


def password_is_forgotten(watch, user):
    def reset(token, password=LAST_PASSWORD):
        body = {"token": token, "newPassword": password}
        return watch.post("/api/auth/reset-password", body)

    for email in (user.email, "nobody.here@example.org"):
        success(watch.post("/api/auth/forgot-password", {"email": email}))
        success(watch.post("/api/auth/resend-verification", {"email": email}))
    token = watch.deliver()
    failure(reset(token + "x"), 400, "invalid_token")
    failure(reset(token, user.email), 400, "weak_password")
    failure(watch.post("/api/auth/verify-email", {"token": token}), 400, "invalid_token")
    success(reset(token))
    failure(reset(token), 400, "invalid_token")
    watch.deliver()
    failure(watch.get("/api/users/profile", of=user), 401, "token_revoked")
    user.password = LAST_PASSWORD
    log_in(watch, user)


def accounts_are_managed(watch, head, user, friend):
    everybody = [head.email, user.email, friend.email]
    path = "/api/users?search=example.org"
    assert success(watch.get(path, of=head, shows=everybody))["total"] == 3
    path = f"/api/users/{friend.id}"
    success(watch.call("PATCH", path, {"role": "instructor"}, of=head, shows=[friend.email]))
    failure(watch.get("/api/users/profile", of=friend), 401, "token_revoked")
    success(watch.call("DELETE", path, of=head))
    watch.deliver()
    failure(watch.get(path, of=head), 404, "user_not_found")


def account_is_deleted(watch, user):
    body = {"password": WRONG_PASSWORDS[0], "confirmation": "DELETE_MY_ACCOUNT"}
    path = "/api/users/account"
    failure(watch.call("DELETE", path, body, of=user), 400, "wrong_password")
    success(watch.call("DELETE", path, body | {"password": user.password}, of=user))
    watch.deliver()
    failure(watch.get("/api/users/profile", of=user), 401, "token_revoked")


# Mistakes that somebody could make: where a secret gets to, and which.
PLACES = {
    "cell": lambda it, text: it.store(text),
    "log": lambda it, text: logging.getLogger("accounts").info(text),
    "answer": lambda it, text: it.answer(text),
    "header": lambda it, text: it.answer("", {"X-Debug": text}),
}
PLANTS = [
    *((place, "password", lambda it: it.user.password) for place in ("cell", "answer", "header")),
    ("cell", "encoded password", lambda it: quote(it.user.password)),
    ("cell", "digest", lambda it: hashlib.sha256(it.user.password.encode()).hexdigest()),
    ("cell", "half a signature", lambda it: it.user.access.rpartition(".")[2][:20]),
    *((place, "hash", lambda it: it.hash) for place in ("cell", "answer")),
    *((place, "address", lambda it: it.user.email) for place in ("cell", "log", "answer")),
    ("log", "refresh token", lambda it: it.user.refresh),
    ("log", "link", lambda _: "/reset-password#token=a"),
    ("log", "key", lambda _: SECRET),
    ("answer", "token", lambda it: it.user.access),
    ("answer", "unknown token", lambda _: "eyJhbGciOiJI.eyJzdWIiOiIx.x"),
]


@pytest.mark.parametrize(("place", "kind", "secret"), PLANTS)
@on_one_database
def test_a_planted_secret_is_found(make_app, make_user, outbox, place, kind, secret):
    app = make_app()
    content = {"text": "", "headers": {}}
    app.add_url_rule("/leak", view_func=lambda: (content["text"], content["headers"]))
    watch = Watch(app, outbox)
    made = make_user()
    user = SimpleNamespace(**vars(made), access=None)
    watch.learn("password", user.password)
    watch.learn("address", user.email)
    log_in(watch, user)

    def answer(text, headers=()):
        content.update(text=text, headers=dict(headers))

    def store(text):
        with app.app_context(), transaction() as session:
            session.execute(update(User).values(bio=text))

    garden = SimpleNamespace(user=user, hash=made.password_hash, answer=answer, store=store)
    watch.get("/leak")
    PLACES[place](garden, secret(garden))
    with pytest.raises(Leak):
        watch.get("/leak")
