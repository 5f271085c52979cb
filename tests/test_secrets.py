"""One whole way through the service, watched: no secret is where it does not belong.

What is looked at: every answer with its headers, every cell of every table, every line of the
log, and every mail.
"""

import base64
import hashlib
import re
from types import SimpleNamespace
from urllib.parse import quote

import pytest
from helpers import (
    PASSWORD,
    SECRET,
    Log,
    failure,
    picture,
    picture_form,
    registration,
    set_user,
    success,
    token_in,
)
from sqlalchemy import MetaData, select

from core.roles import Role
from database import reading
from extensions import db

NEW_PASSWORD = "seven green lamps by the door"
LAST_PASSWORD = "a kettle, purple as the rain"
LOGIN, REFRESH = "/api/auth/login", "/api/auth/refresh"
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
        if path in (LOGIN, REFRESH) and response.status_code == 200:
            data = response.get_json()["data"]
            for token in (data["accessToken"], data["refreshToken"]):
                self.learn("token", token)
                assert said.count(token) == 1
                said = said.replace(token, "")
            shows = (*shows, data["user"]["email"])
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
            self.search(place, said)
        with self._app.app_context(), reading() as connection:
            for table in self._tables.sorted_tables:
                for row in connection.execute(select(table)).mappings():
                    for name, value in row.items():
                        self._look_at_cell(f"{table.name}.{name}", value)

    def _look_at_cell(self, cell, value):
        if cell == "users.password_hash" and value not in self._secrets:
            assert value.startswith("$2b$04$"), "no hash of ours"
            self.learn("hash", value)
        text = value.decode("latin-1") if isinstance(value, bytes | memoryview) else str(value)
        self.search(cell, text, AT_HOME.get(cell))

    def search(self, place, text, at_home=None):
        """Raise Leak if there is a secret in this text that is not at home there."""
        for secret, kind in self._secrets.items():
            if kind != at_home and secret in text:
                raise Leak(f"{kind} in {place}: {secret}")
        # Those that nobody has told us of.
        patterns = {"token": A_TOKEN, "link": A_LINK, "hash": A_HASH}
        for kind, pattern in patterns.items():
            if kind != at_home and pattern.search(text):
                raise Leak(f"{kind} in {place}: {pattern.search(text)[0]}")


@pytest.fixture
def watch(request, make_app, outbox):
    return Watch(make_app(log_format=request.param, log_level="DEBUG"), outbox)


def joined(watch, name, password):
    """Register and confirm the address; return the user, who is not logged in yet."""
    user = SimpleNamespace(email=f"{name}@example.org", password=password, access=None)
    watch.learn("password", password)
    watch.learn("address", user.email)
    body = registration(name, password=password)
    user.id = success(watch.post("/api/auth/register", body, of=user), 201)["userId"]
    failure(watch.post("/api/auth/register", body), 409, "username_taken")
    token = watch.deliver()
    proof = {"token": token, "password": password}
    failure(watch.post("/api/auth/verify-email", {"token": token}), 400, "wrong_password")
    success(watch.post("/api/auth/verify-email", proof))
    failure(watch.post("/api/auth/verify-email", proof), 400, "invalid_token")
    return user


def log_in(watch, user):
    body = {"email": user.email, "password": user.password}
    data = success(watch.post(LOGIN, body, of=user))
    user.access, user.refresh = data["accessToken"], data["refreshToken"]
    return user


@pytest.mark.asvs("16.2.5")
@pytest.mark.parametrize(
    ("database_url", "watch"), [("sqlite", "text"), ("postgres", "json")], indirect=True
)
def test_a_whole_walk_leaves_no_secret_where_it_does_not_belong(watch, make_user, make_key):
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
    accounts_are_managed(watch, head, make_key("users:read"), user, friend)
    account_is_deleted(watch, user)


def refresh_is_rotated_and_replayed(watch, user):
    # People type a password into the wrong field, and into the wrong end of the address.
    for email, password in (
        (user.email, WRONG_PASSWORDS[0]),
        ("nobody.here@example.org", PASSWORD),
        (PASSWORD, PASSWORD),
    ):
        wrong = {"email": email, "password": password}
        failure(watch.post(LOGIN, wrong), 401, "invalid_credentials")
    failure(watch.post(LOGIN, {**wrong, "password": [PASSWORD]}), 400, "invalid_request")
    wrong = registration("other", password=user.email, email=PASSWORD)
    failure(watch.post("/api/auth/register", wrong), 400, "invalid_request")
    path = f"{LOGIN}?email={quote(user.email)}&password={quote(PASSWORD)}"
    failure(watch.get(path), 405, "method_not_allowed")

    log_in(watch, user)
    first = user.refresh
    second = success(watch.post(REFRESH, {"refreshToken": first}))["refreshToken"]
    success(watch.post(REFRESH, {"refreshToken": first}))
    success(watch.post(REFRESH, {"refreshToken": second}))
    failure(watch.post(REFRESH, {"refreshToken": first}), 401, "token_revoked")
    failure(watch.get("/api/auth/verify", of=user), 401, "token_revoked")
    failure(watch.post(REFRESH, {"refreshToken": first + "x"}), 401, "token_invalid")
    failure(watch.get(f"/api/auth/verify?token={user.access}"), 401, "token_missing")

    log_in(watch, user)
    success(watch.post("/api/auth/logout", of=user))
    log_in(watch, user)
    success(watch.call("DELETE", "/api/auth/sessions", of=user))


def own_record_is_read_and_changed(watch, user):
    success(watch.call("PUT", "/api/users/profile", {"bio": "I learn."}, of=user))
    wrong = {"website": f"https://user:{PASSWORD}@example.org"}
    failure(watch.call("PUT", "/api/users/profile", wrong, of=user), 400, "invalid_request")
    answer = success(watch.post("/api/users/avatar", data=picture_form(picture()), of=user))
    shown = watch.get(answer["avatar"].removeprefix("https://school.test"))
    assert shown.mimetype == "image/webp"
    for path in ("profile", "settings", "progress", "certificates", "email", "export"):
        success(watch.get(f"/api/users/{path}", of=user))
    for path in ("verify", "sessions"):
        success(watch.get(f"/api/auth/{path}", of=user))


def others_look(watch, user, friend):
    log_in(watch, friend)
    success(watch.get(f"/api/users/{user.id}", of=friend))


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


def accounts_are_managed(watch, head, key, user, friend):
    everybody = [head.email, user.email, friend.email]
    path = "/api/users?search=example.org"
    assert success(watch.get(path, of=head, shows=everybody))["total"] == 3
    watch.learn("service key", key)
    service = SimpleNamespace(email=user.email, access=key)
    assert success(watch.get(path, of=service, shows=everybody))["total"] == 2
    failure(watch.get("/api/users/profile", of=service), 403, "forbidden")
    assert len(success(watch.get("/api/service-keys", of=head))["keys"]) == 1
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


def test_a_planted_secret_is_found_in_every_form(app, outbox, make_user):
    watch, made = Watch(app, outbox), make_user()
    watch.learn("password", made.password)
    watch.learn("address", made.email)
    user = log_in(watch, SimpleNamespace(**vars(made), access=None))
    watch.look()
    for secret in (
        *(user.password, quote(user.password), hashlib.sha256(user.password.encode()).hexdigest()),
        *(user.access.rpartition(".")[2][:20], user.refresh, user.password_hash, user.email),
        *(SECRET, "/reset-password#token=a", "eyJhbGciOiJI.eyJzdWIiOiIx.x"),
    ):
        with pytest.raises(Leak):
            watch.search("a cell", f"of {secret}")
    watch.search("a cell", "of no secret")
    set_user(app, made, bio=user.password)
    with pytest.raises(Leak, match=r"password in users\.bio"):
        watch.look()
