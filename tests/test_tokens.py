"""No token passes for another, and none passes that was changed."""

import base64
import hmac
import json
import tracemalloc
from datetime import timedelta

import jwt
import pytest
from flask_jwt_extended import current_user, get_jwt, jwt_required
from helpers import SECRET, bearer, failure, login, refresh, success, verify

from core import clock as clock_module
from core.tokens import REMEMBERED, Purpose, key_id
from extensions import components

OTHER_KEY = "another key, as long as the first one is: no algorithm warns about its length"
USER_ID = "00000000-0000-7000-8000-000000000000"


def forge(token, *, key=SECRET, algorithm="HS256", headers=(), drop=(), **changes):
    """Sign the claims of a real token anew, with some of them changed."""
    claims = jwt.decode(token, options={"verify_signature": False}) | changes
    for name in drop:
        claims.pop(name, None)
    all_headers = {"kid": key_id(SECRET), **dict(headers)}
    if "kid" in drop:
        all_headers.pop("kid")
    return jwt.encode(claims, key, algorithm, headers=all_headers)


def unsigned(token, header):
    payload = token.split(".")[1]
    return f"{segment(header)}.{payload}."


def segment(content):
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


FORGERIES = {
    "no algorithm": lambda token: unsigned(token, {"alg": "none", "kid": key_id(SECRET)}),
    "no Algorithm": lambda token: unsigned(token, {"alg": "NoNe", "kid": key_id(SECRET)}),
    "another algorithm": lambda token: forge(token, algorithm="HS384"),
    "a longer algorithm": lambda token: forge(token, algorithm="HS512"),
    "another key": lambda token: forge(token, key=OTHER_KEY),
    "another key by its own name": lambda token: forge(
        token, key=OTHER_KEY, headers={"kid": key_id(OTHER_KEY)}
    ),
    "no kid": lambda token: forge(token, drop=["kid"]),
    "an unknown kid": lambda token: forge(token, headers={"kid": "unknown"}),
    "a critical header": lambda token: forge(token, headers={"crit": ["exp"]}),
    "no type": lambda token: forge(token, drop=["type"]),
    "an unknown type": lambda token: forge(token, type="other"),
    "no audience": lambda token: forge(token, drop=["aud"]),
    "another audience": lambda token: forge(token, aud="accounts"),
    "a list of audiences": lambda token: forge(
        token, aud=["accounts:access", "accounts:refresh", "other"]
    ),
    "no issuer": lambda token: forge(token, drop=["iss"]),
    "another issuer": lambda token: forge(token, iss="other"),
    "no expiry": lambda token: forge(token, drop=["exp"]),
    "an expiry in words": lambda token: forge(token, exp="tomorrow"),
    "an expiry as a text": lambda token: forge(token, exp="99999999999"),
    "an expiry beyond all time": lambda token: forge(token, exp=10**18),
    "a fraction for an expiry": lambda token: forge(token, exp=99999999999.5),
    "no issue time": lambda token: forge(token, drop=["iat"]),
    "an issue time to come": lambda token: forge(token, iat=99999999999),
    "no jti": lambda token: forge(token, drop=["jti"]),
    "a jti with NUL": lambda token: forge(token, jti="\x00"),
    "a number for a jti": lambda token: forge(token, jti=7),
    "no subject": lambda token: forge(token, drop=["sub"]),
    "a number for a subject": lambda token: forge(token, sub=7),
    "a subject with NUL": lambda token: forge(token, sub="\x00"),
    "no session": lambda token: forge(token, drop=["sid"]),
    "a list for a session": lambda token: forge(token, sid=["a"]),
    "a session with NUL": lambda token: forge(token, sid="\x00"),
    "a claim that is not valid yet": lambda token: forge(token, nbf=99999999999),
    "a cut signature": lambda token: token[:-3],
    "no signature": lambda token: token.rpartition(".")[0] + ".",
    "two parts": lambda token: token.rpartition(".")[0],
    "four parts": lambda token: token + ".abcd",
    "no JSON": lambda token: f"{segment({'alg': 'HS256'})}.e30e30.abcd",
    "a list for a header": lambda token: f"{segment([])}.{token.split('.', 1)[1]}",
    "a list for claims": lambda token: f"{token.split('.')[0]}.{segment([])}.abcd",
    "a deep header": lambda token: f"{deep()}.{token.split('.', 1)[1]}",
    "junk around the claims": lambda token: resigned(token, lambda payload: payload + "!!"),
    "junk in the claims": lambda token: resigned(
        token, lambda payload: payload[:8] + "!!!!" + payload[8:]
    ),
    "padding in the claims": lambda token: resigned(token, lambda payload: payload + "===="),
    "letters that are none": lambda token: token.rpartition(".")[0] + ".\u00e9",
    "nothing of the kind": lambda token: "nothing",
    "dots": lambda token: "..",
}


def resigned(token, change):
    header, payload, _ = token.split(".")
    signed = f"{header}.{change(payload)}"
    signature = hmac.digest(SECRET.encode(), signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def deep():
    return base64.urlsafe_b64encode(b"[" * 1500).decode()


def test_forging_by_itself_changes_nothing(client, auth):
    success(verify(client, forge(auth.access)))
    success(refresh(client, forge(auth.refresh)))


def test_a_token_is_verified_once_and_looked_at_each_time(client, auth, clock, monkeypatch):
    success(verify(client, auth.access))

    def fail(*_arguments, **_options):
        raise AssertionError("verified again")

    with monkeypatch.context() as patched:
        patched.setattr("core.tokens.jwt.decode", fail)
        success(verify(client, auth.access))
        clock.move(minutes=16)
        failure(verify(client, auth.access), 401, "token_expired")
    clock.move(minutes=-16)
    success(client.post("/api/auth/logout", headers=auth.headers))
    failure(verify(client, auth.access), 401, "token_revoked")


def test_a_remembered_token_opens_nothing_for_another_text(client, auth):
    for _ in range(2):
        success(verify(client, auth.access))
        failure(verify(client, auth.access[:-2]), 401, "token_invalid")
        failure(refresh(client, auth.access), 401, "token_invalid")


def test_what_is_remembered_is_bounded(make_app, auth):
    codec = components(make_app()).tokens
    now = clock_module.utcnow()
    times = {"issued_at": now, "expires_at": now + timedelta(minutes=1)}
    tracemalloc.start()
    for _ in range(2 * REMEMBERED):
        token = codec.encode(Purpose.ACCESS, USER_ID, **times, sid=USER_ID, role="student")
        codec.decode(Purpose.ACCESS, token)
    used, _peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 3 * 1024 * REMEMBERED


def test_claims_cannot_be_changed_for_the_next_request(make_app, auth):
    claims = components(make_app()).tokens.decode(Purpose.ACCESS, auth.access)
    with pytest.raises(TypeError):
        claims["role"] = "admin"


def test_token_with_more_in_it_is_still_ours(client, auth):
    success(verify(client, forge(auth.access, headers={"cty": "JWT"})))
    success(verify(client, forge(auth.access, more="claims")))


def test_the_extension_guards_by_our_codec_too(make_app, auth):
    """Somebody who knows Flask-JWT-Extended may put its own decorator on a view."""
    app = make_app()
    client = app.test_client()

    @app.get("/decorated")
    @jwt_required()
    def decorated():
        return {"id": current_user.id, "session": get_jwt()["sid"]}

    def get(token):
        return client.get("/decorated", headers=bearer(token))

    assert get(auth.access).json["id"] == auth.user.id
    for name in ("no type", "no audience", "no expiry", "no session", "another key"):
        failure(get(FORGERIES[name](auth.access)), 401, "token_invalid")
    failure(get(auth.refresh), 401, "token_invalid")
    failure(get(forge(auth.access, exp=1)), 401, "token_expired")
    success(client.post("/api/auth/logout", headers=auth.headers))
    failure(get(auth.access), 401, "token_revoked")


def test_other_libraries_read_what_we_sign(auth):
    for token, purpose in ((auth.access, "access"), (auth.refresh, "refresh")):
        claims = jwt.decode(
            token, SECRET, algorithms=["HS256"], audience=f"accounts:{purpose}", issuer="accounts"
        )
        assert jwt.get_unverified_header(token)["kid"] == key_id(SECRET)
        assert claims["sub"] == auth.user.id


@pytest.mark.parametrize("name", FORGERIES)
def test_changed_access_token_is_refused(client, auth, name):
    response = verify(client, FORGERIES[name](auth.access))
    failure(response, 401, "token_invalid")
    assert response.headers["WWW-Authenticate"].startswith("Bearer error=")


@pytest.mark.parametrize("name", FORGERIES)
def test_changed_refresh_token_is_refused_and_harms_nobody(client, auth, name):
    failure(refresh(client, FORGERIES[name](auth.refresh)), 401, "token_invalid")
    success(refresh(client, auth.refresh))


def test_expired_token_is_told_from_an_invalid_one(client, auth):
    failure(verify(client, forge(auth.access, exp=1)), 401, "token_expired")
    failure(refresh(client, forge(auth.refresh, exp=1)), 401, "token_expired")
    failure(verify(client, forge(auth.access, exp=1, key=OTHER_KEY)), 401, "token_invalid")


def test_unknown_user_or_session_is_a_revoked_token(client, auth):
    failure(verify(client, forge(auth.access, sub=USER_ID)), 401, "token_revoked")
    failure(refresh(client, forge(auth.refresh, sub=USER_ID)), 401, "token_revoked")
    failure(refresh(client, forge(auth.refresh, sid=USER_ID)), 401, "token_revoked")
    success(refresh(client, auth.refresh))


def test_no_token_passes_for_another(client, auth):
    failure(verify(client, auth.refresh), 401, "token_invalid")
    failure(refresh(client, auth.access), 401, "token_invalid")
    for token in (auth.access, auth.refresh):
        body = {"token": token, "newPassword": "Another-Mug-77-Kettle"}
        failure(client.post("/api/auth/reset-password", json=body), 400, "invalid_token")
        for call in ("verify-email", "undo-email-change"):
            response = client.post(f"/api/auth/{call}", json={"token": token})
            failure(response, 400, "invalid_token")


def test_type_alone_does_not_make_a_token_of_another_kind(client, auth):
    for changes in ({"type": "refresh"}, {"aud": "accounts:refresh"}):
        failure(verify(client, forge(auth.access, **changes)), 401, "token_invalid")


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (None, "token_missing"),
        ("", "token_missing"),
        ("Basic dXNlcjpwYXNzd29yZA==", "token_missing"),
        ("Bearer", "token_invalid"),
        ("Bearer ", "token_invalid"),
        ("Bearer a b", "token_invalid"),
        ("Bearer \xff\xfe", "token_invalid"),
        ("Bearer " + "a" * 5000, "token_invalid"),
        ("Basic dXNlcjpwYXNzd29yZA==, Bearer <token>", "token_missing"),
        ("Bearer <token>, Basic dXNlcjpwYXNzd29yZA==", "token_invalid"),
        ("Bearer <token>,", "token_invalid"),
    ],
)
def test_header_without_one_token_is_refused(client, auth, header, code):
    headers = {} if header is None else {"Authorization": header.replace("<token>", auth.access)}
    response = client.get("/api/auth/verify", headers=headers)
    failure(response, 401, code)
    challenge = response.headers["WWW-Authenticate"]
    assert challenge == "Bearer" if code == "token_missing" else challenge.startswith("Bearer ")


@pytest.mark.parametrize("scheme", ["bearer ", "BEARER ", "bEaReR ", "Bearer  ", "Bearer\t"])
def test_scheme_is_read_whatever_its_case(client, auth, scheme):
    response = client.get("/api/auth/verify", headers={"Authorization": f"{scheme}{auth.access}"})
    success(response)


@pytest.mark.parametrize("place", ["cookie", "query", "body"])
def test_token_in_another_place_is_not_seen(client, auth, place):
    if place == "cookie":
        client.set_cookie("access_token_cookie", auth.access)
        response = client.get("/api/auth/verify")
    elif place == "query":
        response = client.get(f"/api/auth/verify?jwt={auth.access}")
    else:
        response = client.post("/api/auth/logout", json={"access_token": auth.access})
    failure(response, 401, "token_missing")


def test_ended_session_stays_ended_however_its_token_is_spelled(client, auth):
    success(client.post("/api/auth/logout", headers=auth.headers))
    head, payload, signature = auth.access.split(".")
    last = signature[-1]
    spellings = [f"{head}.{payload}.{signature}{tail}" for tail in ("=", "==", "\t", "\n")]
    # The last character of 43 carries four bits, so its neighbours decode to the same bytes.
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    start = alphabet.index(last) & ~3
    spellings += [
        f"{head}.{payload}.{signature[:-1]}{char}" for char in alphabet[start : start + 4]
    ]
    for spelling in spellings:
        response = client.get(
            "/api/auth/verify", environ_overrides={"HTTP_AUTHORIZATION": f"Bearer {spelling}"}
        )
        assert response.status_code == 401, spelling


def test_key_is_rotated_without_logging_anybody_out(make_app, make_user):
    user = make_user()
    before = success(login(make_app().test_client(), user))

    rotated = make_app(secret_key=OTHER_KEY, secret_key_fallbacks=(SECRET,)).test_client()
    success(verify(rotated, before["accessToken"]))
    after = success(refresh(rotated, before["refreshToken"]))
    assert jwt.get_unverified_header(after["accessToken"])["kid"] == key_id(OTHER_KEY)
    success(login(rotated, user))

    retired = make_app(secret_key=OTHER_KEY).test_client()
    failure(verify(retired, before["accessToken"]), 401, "token_invalid")
    success(verify(retired, after["accessToken"]))


def test_secret_is_the_key_byte_for_byte(make_app, make_user):
    secret = "schlüssel mit umlauten, lang genug"
    client = make_app(secret_key=secret).test_client()
    user = make_user()
    token = success(login(client, user))["accessToken"]
    claims = jwt.decode(token, secret.encode(), ["HS256"], audience="accounts:access")
    assert claims["sub"] == user.id
